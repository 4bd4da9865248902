//! Partitions and groups of a run, and their directories in a hierarchy of control groups.

use crate::control::{self, Text};
use crate::layout::Hierarchy;
use crate::life::{self, GroupLock, Life};
use crate::run_id::RunId;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};

/// The longest path of a control file below the directory of a run: a name has at most 255 bytes.
pub(crate) const LONGEST: usize = 320;

/// This machine cannot do what was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// The missing capability.
    pub reason: String,
    /// The remedy, as an exact command where there is one.
    pub fix: String,
}

/// The fix of a failure that has another cause than its usual one where this process has too few descriptors.
pub(crate) fn fix_of(error: &io::Error, usual: &str) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => "raise the limit of open files (ulimit -n)".to_owned(),
        _ => usual.to_owned(),
    }
}

/// A partition of a run, in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PartitionHandle(pub u32);

/// A process group of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Group {
    /// Its partition.
    pub partition: PartitionHandle,
    /// Its place in the partition.
    pub index: u32,
}

/// Names of the groups of a run, for scripts that look for them there: `ROOT/PARTITION/procN` in place of `takt-RUN/pI/tN`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    /// That of the run's directory, below the group of this process.
    pub root: String,
    /// Those of the partitions, in the order in which they are added.
    pub partitions: Vec<String>,
}

impl Names {
    /// Whether the directory of the run can be made in a group.
    ///
    /// # Errors
    /// A group of that name is there.
    pub(crate) fn are_free(&self, own: &Path) -> Result<(), Unavailable> {
        let path = own.join(&self.root);
        let Ok(entries) = fs::read_dir(&path) else { return Ok(()) };
        let owner = entries.flatten().find_map(|entry| RunId::of_mark(entry.file_name().to_str()?));
        // The lock of the mark is seen in all namespaces; the file of the run is not.
        let life = |run: &RunId| match life::of_group(&run.to_string(), &path.join(run.mark_name())) {
            Life::Unseen => run.life(),
            seen => seen,
        };
        Err(match owner.map(|run| (run, life(&run))) {
            Some((_, Life::Ends | Life::Ended)) => Unavailable {
                reason: format!("the group `{}` of a dead run cannot be removed", self.root),
                fix: "takt doctor --clean".into(),
            },
            Some((run, Life::Lives)) if run.is_seen() => Unavailable {
                reason: format!("the group `{}` belongs to a run of process {}, which lives", self.root, run.pid()),
                fix: format!("end that run (kill {}), or choose another name with -g", run.pid()),
            },
            Some((run, Life::Lives)) => Unavailable {
                reason: format!("the group `{}` belongs to the run {run} of another namespace, which lives", self.root),
                fix: "end that run, or choose another name with -g".into(),
            },
            Some((run, Life::Unseen)) => Unavailable {
                reason: format!(
                    "the group `{}` belongs to the run {run}, and neither its life nor its death can be seen from here",
                    self.root
                ),
                fix: "takt doctor --clean as the user of that run, or choose another name with -g".into(),
            },
            None => Unavailable {
                reason: format!("there is a group {}, and no run of Takt has made it", path.display()),
                fix: format!("rmdir {}, or choose another name with -g", path.display()),
            },
        })
    }
}

/// The run's directory in one hierarchy. Dropping it removes the directory if it is empty.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    pub(crate) dir: OwnedFd,
    names: Option<Arc<Names>>,
    /// The directory that says whose the groups are, if their names do not.
    mark: Option<PathBuf>,
    /// Shows that the run lives.
    _lock: GroupLock,
}

impl Thread {
    pub(crate) fn new(list: PathBuf, file: Option<OwnedFd>) -> Thread {
        Thread { process: AtomicI32::new(0), list, file, clock: OnceLock::new() }
    }
}

impl Tree {
    pub(crate) fn create(hierarchy: &Hierarchy, run: &RunId, names: Option<&Arc<Names>>) -> Result<Tree, Unavailable> {
        let path = hierarchy.own.join(names.map_or_else(|| run.group_name(), |names| names.root.clone()));
        let tree = |lock: GroupLock, mark: Option<PathBuf>| -> io::Result<Tree> {
            Ok(Tree { dir: control::open_dir(&path)?, path: path.clone(), names: names.cloned(), mark, _lock: lock })
        };
        let made = match names {
            None => life::make_group(&path).and_then(|lock| tree(lock, None)),
            Some(_) => fs::create_dir(&path).and_then(|()| {
                let mark = path.join(run.mark_name());
                life::make_group(&mark).and_then(|lock| tree(lock, Some(mark.clone())))
            }),
        };
        made.map_err(|e| Unavailable {
            reason: format!("cannot create a group in {}: {e}", hierarchy.own.display()),
            fix: match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes takt …".into()
                }
                _ => format!("mkdir {} must succeed", path.display()),
            },
        })
    }

    /// The directory of a partition.
    pub(crate) fn partition(&self, number: usize) -> PathBuf {
        match self.name(number) {
            Some(name) => self.path.join(name),
            None => self.path.join(format!("p{number}")),
        }
    }

    /// Whether the groups have names of their own.
    pub(crate) fn is_named(&self) -> bool {
        self.names.is_some()
    }

    /// The directory of a group.
    pub(crate) fn group(&self, group: Group) -> PathBuf {
        let kind = if self.names.is_some() { "proc" } else { "t" };
        self.partition(group.partition.0 as usize).join(format!("{kind}{}", group.index))
    }

    /// A directory for a group that belongs to no partition.
    pub(crate) fn own(&self, name: &str) -> PathBuf {
        self.mark.as_ref().unwrap_or(&self.path).join(name)
    }

    /// The path of a file of a group, from the run's directory on. For the scheduler thread: it does not allocate.
    pub(crate) fn file(&self, group: Group, file: &str) -> Result<Text<LONGEST>, Errno> {
        let (partition, index) = (group.partition.0, group.index);
        match self.name(partition as usize) {
            Some(name) => Text::format(format_args!("{name}/proc{index}/{file}")),
            None => Text::format(format_args!("p{partition}/t{index}/{file}")),
        }
    }

    /// The same for a partition.
    pub(crate) fn partition_file(&self, partition: PartitionHandle, file: &str) -> Result<Text<LONGEST>, Errno> {
        match self.name(partition.0 as usize) {
            Some(name) => Text::format(format_args!("{name}/{file}")),
            None => Text::format(format_args!("p{}/{file}", partition.0)),
        }
    }

    fn name(&self, partition: usize) -> Option<&str> {
        self.names.as_ref()?.partitions.get(partition).map(String::as_str)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(mark) = &self.mark {
            let _ = fs::remove_dir(mark);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// The processes of a group, as far as they are known.
#[derive(Default)]
pub(crate) struct Member {
    /// Process id of the process that was started, 0 when there is none (any more).
    pub(crate) leader: AtomicI32,
    /// Process group for signals; outlives the leader as long as the group is populated.
    pub(crate) process_group: AtomicI32,
    /// Set once the group is being killed: freezing it again would keep its processes alive under v1.
    pub(crate) killed: AtomicBool,
    /// Its open freezer file in small runs.
    pub(crate) file: Option<OwnedFd>,
    /// For a thread of a program with several tasks, the first one included.
    pub(crate) thread: OnceLock<Thread>,
}

/// A thread that is frozen and bound for itself. [`Member::leader`] is its number.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Its process, 0 before that is there.
    pub(crate) process: AtomicI32,
    /// The file that lists the threads of its group.
    pub(crate) list: PathBuf,
    /// Its open freezer file, where that is not the one of its group.
    pub(crate) file: Option<OwnedFd>,
    /// Its CPU time.
    pub(crate) clock: OnceLock<OwnedFd>,
}
