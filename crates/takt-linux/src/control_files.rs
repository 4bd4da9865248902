//! Open control files of the groups of a large run, which cannot keep one open for each process.

use crate::group::Group;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

/// So many files a run with few descriptors keeps open.
pub(crate) const FEW: usize = 256;

/// An open file, and the group to which it belongs.
type Slot = Mutex<Option<(Group, OwnedFd)>>;

/// Control files that were used last. Each group has one place, which it may share with others. O(1), without an allocation.
#[derive(Debug)]
pub(crate) enum ControlFiles {
    /// A place for each partition.
    OfPartitions(Vec<Slot>),
    /// [`FEW`] places for all groups.
    Few(Vec<Slot>),
}

impl ControlFiles {
    pub(crate) fn of_partitions() -> ControlFiles {
        ControlFiles::OfPartitions(Vec::new())
    }

    pub(crate) fn few() -> ControlFiles {
        ControlFiles::Few(std::iter::repeat_with(Slot::default).take(FEW).collect())
    }

    pub(crate) fn are_few(&self) -> bool {
        matches!(self, ControlFiles::Few(_))
    }

    /// A new partition, the next one by number. Its first file may be there already.
    pub(crate) fn add(&mut self, file: Option<(Group, OwnedFd)>) {
        if let ControlFiles::OfPartitions(slots) = self {
            slots.push(Mutex::new(file));
        }
    }

    fn slot(&self, group: Group) -> &Slot {
        match self {
            ControlFiles::OfPartitions(slots) => &slots[group.partition.0 as usize],
            // Neighbours of a partition, and neighbouring partitions, have different places.
            ControlFiles::Few(slots) => {
                &slots[(group.partition.0 as usize).wrapping_add(16 * group.index as usize) % FEW]
            }
        }
    }

    /// Calls `act` with the file of the group, which is opened if it is not the one in its place.
    ///
    /// # Errors
    /// Those of `open` and `act`.
    pub(crate) fn with<R>(
        &self,
        group: Group,
        open: impl FnOnce() -> Result<Option<OwnedFd>, Errno>,
        act: impl FnOnce(Option<&OwnedFd>) -> io::Result<R>,
    ) -> io::Result<R> {
        // Never wait here: the holder of the lock may be a thread that the caller keeps from running.
        let Ok(mut place) = self.slot(group).try_lock() else { return act(open()?.as_ref()) };
        if place.as_ref().is_none_or(|(of, _)| *of != group) {
            // The old one is closed first, so that there is never one too many.
            *place = None;
            *place = open()?.map(|file| (group, file));
        }
        act(place.as_ref().map(|(_, file)| file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::PartitionHandle;
    use std::cell::Cell;
    use std::os::fd::AsRawFd;

    fn group(partition: u32, index: u32) -> Group {
        Group { partition: PartitionHandle(partition), index }
    }

    fn null() -> Result<Option<OwnedFd>, Errno> {
        Ok(Some(std::fs::File::open("/dev/null").expect("/dev/null").into()))
    }

    #[test]
    fn a_file_stays_open_until_another_group_needs_its_place() {
        let mut of_partitions = ControlFiles::of_partitions();
        (0..2).for_each(|_| of_partitions.add(None));
        for (files, other) in [(of_partitions, group(1, 1)), (ControlFiles::few(), group(1 + FEW as u32, 0))] {
            let opened = Cell::new(0);
            let number = |group| {
                let open = || {
                    opened.set(opened.get() + 1);
                    null()
                };
                files.with(group, open, |file| Ok(file.expect("a file").as_raw_fd())).unwrap()
            };
            let first = number(group(1, 0));
            assert_eq!((number(group(1, 0)), opened.get()), (first, 1));
            number(group(0, 0));
            assert_eq!((number(group(1, 0)), opened.get()), (first, 2), "it has another place");
            number(other);
            number(group(1, 0));
            assert_eq!(opened.get(), 4, "they have one place");
        }
    }

    #[test]
    fn a_place_that_is_used_is_not_waited_for() {
        let files = ControlFiles::few();
        let inner = || files.with(group(0, 0), null, |file| Ok(file.is_some()));
        assert!(files.with(group(0, 0), null, |_| inner()).unwrap());
    }

    #[test]
    fn few_files_are_few_for_any_number_of_groups() {
        let files = ControlFiles::few();
        for partition in 0..2000 {
            files.with(group(partition, partition % 3), null, |_| Ok(())).unwrap();
        }
        let ControlFiles::Few(slots) = &files else { unreachable!() };
        assert_eq!(slots.iter().filter(|slot| slot.lock().unwrap().is_some()).count(), FEW);
    }

    #[test]
    fn a_file_that_cannot_be_opened_leaves_its_place_empty() {
        let files = ControlFiles::few();
        files.with(group(0, 0), null, |_| Ok(())).unwrap();
        let refused = files.with(group(FEW as u32, 0), || Err(Errno::MFILE), |_| Ok(()));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(Errno::MFILE.raw_os_error()));
        assert!(files.slot(group(0, 0)).lock().unwrap().is_none());
    }
}
