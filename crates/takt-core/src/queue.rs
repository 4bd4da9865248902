//! The two containers of the core, both of fixed capacity: a queue of future instants and a ready queue.

use crate::model::TaskId;
use crate::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// Future instants, at most one per slot; equal instants come out in slot order. [`Time::MAX`] is never.
///
/// A tournament over all slots, four at a time: each entry of a group is the earliest of the group below it. Setting, moving and
/// removing one costs O(log slots) without a branch that depends on the instants; looking at the earliest costs O(1).
#[derive(Debug)]
pub(crate) struct Agenda {
    slots: usize,
    first: Entry,
    /// The top is group 0. Below entry `k` of group `i` is group `4 * i + k + 1`; the last groups have the slots.
    groups: Vec<[Entry; 4]>,
    /// The index that the entry of slot 0 has among all entries.
    leaves: usize,
    /// The first slot without an entry, and how many these are: they are never set.
    unused: (usize, usize),
}

/// An instant and its slot.
type Entry = (Time, u32);

impl Agenda {
    pub(crate) fn new(slots: usize) -> Agenda {
        Agenda::without(slots, slots, 0)
    }

    /// An agenda of which `count` slots from slot `unused` on are never set. They take no room, and fewer groups are quicker.
    pub(crate) fn without(slots: usize, unused: usize, count: usize) -> Agenda {
        let (mut last, mut above) = (1, 0);
        while 4 * last < slots - count {
            above += last;
            last *= 4;
        }
        let groups = vec![[(Time::MAX, 0); 4]; above + last];
        Agenda { slots, first: (Time::MAX, 0), groups, leaves: 4 * above, unused: (unused, count) }
    }

    /// The entry of a slot, or that of the next slot if it has none.
    #[inline]
    fn entry(&self, slot: usize) -> usize {
        let (unused, count) = self.unused;
        self.leaves + if slot < unused { slot } else { unused.max(slot.saturating_sub(count)) }
    }

    fn is_used(&self, slot: usize) -> bool {
        let (unused, count) = self.unused;
        !(unused..unused + count).contains(&slot)
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<(Time, usize)> {
        let (at, slot) = self.first;
        (at < Time::MAX).then_some((at, slot as usize))
    }

    /// The slot's instant.
    #[inline]
    fn at(&self, slot: usize) -> Time {
        let entry = self.entry(slot);
        self.groups[entry / 4][entry % 4].0
    }

    /// The earliest instant of the slots from `slot` on. O(log slots).
    pub(crate) fn first_from(&self, slot: usize) -> Time {
        let mut entry = self.entry(slot);
        let mut first = self.at(slot);
        loop {
            let later = &self.groups[entry / 4][entry % 4 + 1..];
            first = later.iter().fold(first, |first, (at, _)| first.min(*at));
            if entry < 4 {
                return first;
            }
            entry = entry / 4 - 1;
        }
    }

    /// Sets the slot's instant, whether or not it had one.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, at: Time) {
        debug_assert!(self.is_used(slot), "slot {slot} is never set");
        let mut entry = self.entry(slot);
        let mut first = (at, slot as u32);
        loop {
            let group = &mut self.groups[entry / 4];
            group[entry % 4] = first;
            // Between equals the left one is first.
            let earlier = |left: Entry, right: Entry| core::hint::select_unpredictable(right.0 < left.0, right, left);
            let [a, b, c, d] = *group;
            first = earlier(earlier(a, b), earlier(c, d));
            if entry < 4 {
                break;
            }
            entry = entry / 4 - 1;
        }
        self.first = first;
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        if self.at(slot) < Time::MAX {
            self.set(slot, Time::MAX);
        }
    }

    /// Makes room for `count` slots before slot `at`; later slots get higher numbers. This allocates.
    pub(crate) fn insert_slots(&mut self, at: usize, count: usize) {
        let old = core::mem::replace(self, Agenda::new(self.slots + count));
        for slot in (0..old.slots).filter(|slot| old.is_used(*slot)) {
            self.set(if slot < at { slot } else { slot + count }, old.at(slot));
        }
    }
}

/// A job in a ready queue, and what the queue sorts by; the lowest key runs first.
// Ties go to the earlier release, then to the lower task id, so that two runs agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// What its ordering says, or what it inherits.
    pub rank: i64,
    /// Among equal ranks: its release, or another instant that puts it before or behind its equals.
    pub release: Time,
    /// Whose job it is.
    pub task: TaskId,
}

/// The ready jobs of some tasks, kept sorted by [`Key`].
///
/// A sorted array: insertion and removal move O(ready) entries of 24 bytes, which for the ready jobs of real
/// systems is cheaper than a tree, and a global scheduler reads its m most urgent jobs off the front.
#[derive(Debug)]
pub(crate) struct ReadyQueue {
    sorted: Vec<Key>,
}

impl ReadyQueue {
    pub(crate) fn new(capacity: usize) -> ReadyQueue {
        ReadyQueue { sorted: Vec::with_capacity(capacity) }
    }
    // A key that is handed over in memory costs a stall when it is read at once.
    /// Returns how many are ahead of it.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn insert(&mut self, key: Key) -> usize {
        if self.sorted.len() > 24 {
            let index = self.sorted.partition_point(|k| *k < key);
            self.sorted.insert(index, key);
            return index;
        }
        // A few jobs are passed one by one in less time than it takes to search and to move them.
        self.sorted.push(key);
        let mut index = self.sorted.len() - 1;
        while index > 0 && key < self.sorted[index - 1] {
            self.sorted[index] = self.sorted[index - 1];
            index -= 1;
        }
        self.sorted[index] = key;
        index
    }
    /// Removes the task's job, and returns how many were ahead of it; `None` if it was not there.
    #[inline]
    pub(crate) fn remove(&mut self, task: TaskId) -> Option<usize> {
        let found = self.sorted.iter().position(|k| k.task == task)?;
        // Those behind it are few as a rule, and moving them one by one is cheaper than a call that moves memory.
        for index in found + 1..self.sorted.len() {
            self.sorted[index - 1] = self.sorted[index];
        }
        self.sorted.truncate(self.sorted.len() - 1);
        Some(found)
    }
    pub(crate) fn clear(&mut self) {
        self.sorted.clear();
    }
    pub(crate) fn as_slice(&self) -> &[Key] {
        &self.sorted
    }
}

/// The keys of both in ascending order, where each is in ascending order itself. O(both).
#[cfg(feature = "order")]
pub(crate) fn merged(one: impl Iterator<Item = Key>, other: impl Iterator<Item = Key>) -> impl Iterator<Item = Key> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    core::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if second < first => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[test]
    fn the_agenda_agrees_with_a_sorted_map() {
        takt_testing::for_all(256, prop::collection::vec((0usize..12, prop::option::of(0i64..50)), 1..200), |ops| {
            let mut agenda = Agenda::new(12);
            // Slots 4 to 9 are not set here.
            let mut narrow = Agenda::without(18, 4, 6);
            let widened = |slot: usize| if slot < 4 { slot } else { slot + 6 };
            let mut model = BTreeMap::new();
            for (slot, at) in ops {
                narrow.set(widened(slot), at.map_or(Time::MAX, Time::from_ns));
                prop_assert_eq!(narrow.first_from(4), narrow.first_from(10));
                match at {
                    Some(at) => {
                        agenda.set(slot, Time::from_ns(at));
                        model.insert(slot, at);
                    }
                    None => {
                        agenda.remove(slot);
                        model.remove(&slot);
                    }
                }
                for from in 0..12 {
                    let first = model.range(from..).map(|(_, at)| *at).min();
                    prop_assert_eq!(agenda.first_from(from), first.map_or(Time::MAX, Time::from_ns));
                    prop_assert_eq!(narrow.first_from(widened(from)), agenda.first_from(from));
                }
                prop_assert_eq!(narrow.first(), agenda.first().map(|(at, slot)| (at, widened(slot))));
                let first = model.iter().map(|(s, a)| (*a, *s)).min();
                prop_assert_eq!(agenda.first().map(|(a, s)| (a.ns(), s)), first);
            }
            Ok(())
        });
    }
}
