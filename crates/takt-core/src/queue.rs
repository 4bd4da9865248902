//! The two containers of the core, both of fixed capacity: a queue of future instants and a ready queue.
//!
//! The array of a ready queue begins behind a gap, so that the first job leaves without a move of the others. The queue of instants is a
//! complete tree whose nodes hold the earliest of four children.

use crate::model::TaskId;
use crate::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// Future instants, at most one per slot; equal instants come out in slot order. [`Time::MAX`] is never.
///
/// Two tournaments: the slots before `split` are set less often as a rule, and then the paths of the others are shorter.
#[derive(Debug)]
pub(crate) struct Agenda {
    slots: usize,
    /// The first slot of the second tournament.
    split: usize,
    /// The slots before `split` but for the unused ones, and the others.
    before: Tournament,
    behind: Tournament,
    /// The first slot without an entry, and how many these are: they are never set.
    unused: (usize, usize),
}

/// An instant and its slot.
type Entry = (Time, u32);

/// The earliest of some instants.
///
/// Four play at a time: each entry of a group is the earliest of the group below it. Setting, moving and removing one costs O(log slots)
/// without a branch that depends on the instants; looking at the earliest costs O(1).
#[derive(Debug)]
struct Tournament {
    first: Entry,
    /// The top is group 0. Below entry `k` of group `i` is group `4 * i + k + 1`, or a slot.
    groups: Vec<[Entry; 4]>,
    /// So many slots, the first ones, are on the lowest level. The others are one level above it.
    lowest: usize,
    /// Added to a slot of the lowest level, and to another slot: its index among all entries. The second one wraps around.
    offsets: (usize, usize),
}

impl Tournament {
    fn new(slots: usize) -> Tournament {
        // Each group below the top takes the place of one entry by four.
        let groups = slots.saturating_sub(1).div_ceil(3).max(1);
        let (mut above, mut width) = (0, 4);
        while above + width < 4 * groups {
            above += width;
            width *= 4;
        }
        let lowest = 4 * groups - above;
        // The entries that are above no group follow the last one that is.
        let offsets = (above, (groups - 1).wrapping_sub(lowest));
        Tournament { first: (Time::MAX, 0), groups: vec![[(Time::MAX, 0); 4]; groups], lowest, offsets }
    }

    /// The index of a slot among all entries.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn entry(&self, slot: usize) -> usize {
        slot.wrapping_add(if slot < self.lowest { self.offsets.0 } else { self.offsets.1 })
    }

    fn at(&self, slot: usize) -> Time {
        let entry = self.entry(slot);
        self.groups[entry / 4][entry % 4].0
    }

    /// The earliest instant of the slots from `slot` on. O(log slots).
    fn first_from(&self, slot: usize) -> Time {
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

    /// Sets the instant of a slot, which has this name among all slots.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn set(&mut self, slot: usize, name: u32, at: Time) {
        let mut entry = self.entry(slot);
        let mut first = (at, name);
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
}

impl Agenda {
    pub(crate) fn new(slots: usize) -> Agenda {
        Agenda::without(slots, slots, 0)
    }

    /// An agenda of which `count` slots from slot `unused` on are never set. They take no room, and fewer groups are quicker.
    pub(crate) fn without(slots: usize, unused: usize, count: usize) -> Agenda {
        Agenda::split(slots, (unused, count), slots)
    }

    /// The same, where the slots from `split` on are set most often. The unused ones come before them.
    pub(crate) fn split(slots: usize, (unused, count): (usize, usize), split: usize) -> Agenda {
        assert!(split <= slots && (count == 0 || unused + count <= split), "unused slots are not set often");
        let (before, behind) = (Tournament::new(split - count), Tournament::new(slots - split));
        Agenda { slots, split, before, behind, unused: (unused, count) }
    }

    /// The slot within the first tournament, or that of the next slot if it has none.
    #[inline]
    fn inner(&self, slot: usize) -> usize {
        let (unused, count) = self.unused;
        if slot < unused { slot } else { unused.max(slot.saturating_sub(count)) }
    }

    fn is_used(&self, slot: usize) -> bool {
        let (unused, count) = self.unused;
        !(unused..unused + count).contains(&slot)
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<(Time, usize)> {
        // Among equal instants the lower slot is first.
        let (at, slot) = if self.behind.first.0 < self.before.first.0 { self.behind.first } else { self.before.first };
        (at < Time::MAX).then_some((at, slot as usize))
    }

    /// The earliest instant.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn earliest(&self) -> Time {
        self.before.first.0.min(self.behind.first.0)
    }

    /// The first slot, if its instant is `now` or has passed.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn due(&self, now: Time) -> Option<(Time, usize)> {
        if self.before.first.0 <= now {
            return self.first();
        }
        let (at, slot) = self.behind.first;
        (at <= now).then_some((at, slot as usize))
    }

    /// The slot's instant.
    #[inline]
    fn at(&self, slot: usize) -> Time {
        if slot < self.split { self.before.at(self.inner(slot)) } else { self.behind.at(slot - self.split) }
    }

    /// The earliest instant of the slots from `slot` on. O(log slots).
    pub(crate) fn first_from(&self, slot: usize) -> Time {
        if slot >= self.split {
            return self.behind.first_from(slot - self.split);
        }
        let inner = self.inner(slot);
        let before = if inner < self.split - self.unused.1 { self.before.first_from(inner) } else { Time::MAX };
        before.min(self.behind.first.0)
    }

    /// Sets the slot's instant, whether or not it had one.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn set(&mut self, slot: usize, at: Time) {
        debug_assert!(self.is_used(slot), "slot {slot} is never set");
        if slot < self.split {
            self.set_before(slot, at);
        } else {
            self.behind.set(slot - self.split, slot as u32, at);
        }
    }

    #[inline(never)]
    fn set_before(&mut self, slot: usize, at: Time) {
        self.before.set(self.inner(slot), slot as u32, at);
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        if self.at(slot) < Time::MAX {
            self.set(slot, Time::MAX);
        }
    }

    /// Makes room for `count` slots before slot `at`; later slots get higher numbers. This allocates.
    pub(crate) fn insert_slots(&mut self, at: usize, count: usize) {
        let slots = self.slots + count;
        let split = if at <= self.split { self.split + count } else { self.split };
        let old = core::mem::replace(self, Agenda::split(slots, (slots, 0), split));
        for slot in (0..old.slots).filter(|slot| old.is_used(*slot)) {
            self.set(if slot < at { slot } else { slot + count }, old.at(slot));
        }
    }
}

/// A job in a ready queue, and what the queue sorts by; the lowest key runs first.
// Ties go to the earlier release, then to the lower task id, so that two runs agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// The rank of its ordering, or the inherited one.
    pub rank: i64,
    /// Among equal ranks: its release, or another instant that puts it before or behind its equals.
    pub release: Time,
    /// The task whose job it is.
    pub task: TaskId,
}

/// The ready jobs of some tasks, kept sorted by [`Key`].
///
/// A sorted array behind a gap: the first job leaves at once, and a job that comes moves those behind it. For the ready jobs of real
/// systems that is cheaper than a tree, and a global scheduler reads its m most urgent jobs off the front.
#[derive(Debug)]
pub(crate) struct ReadyQueue {
    keys: Vec<Key>,
    /// The first ready job.
    head: usize,
    /// The gap is closed when it is as long as this, so that room for twice as many jobs is enough.
    most: usize,
}

impl ReadyQueue {
    /// Room for so many jobs.
    pub(crate) fn new(capacity: usize) -> ReadyQueue {
        // On small processors the gap is no longer than one job.
        let most = if cfg!(target_pointer_width = "64") { capacity + 8 } else { 1 };
        ReadyQueue { keys: Vec::with_capacity(capacity + most), head: 0, most }
    }
    // A key that is handed over in memory costs a stall when it is read at once.
    /// Returns how many are ahead of it.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn insert(&mut self, key: Key) -> usize {
        if self.keys.len() - self.head > 24 {
            return self.insert_into_many(key);
        }
        // A few jobs are passed one by one in less time than it takes to search and to move them.
        self.keys.push(key);
        let ready = &mut self.keys[self.head..];
        let mut index = ready.len() - 1;
        while index > 0 && key < ready[index - 1] {
            ready[index] = ready[index - 1];
            index -= 1;
        }
        ready[index] = key;
        index
    }
    fn insert_into_many(&mut self, key: Key) -> usize {
        let ahead = self.as_slice().partition_point(|k| *k < key);
        self.keys.insert(self.head + ahead, key);
        ahead
    }
    /// Removes the task's job, and returns how many were ahead of it; `None` if it was not there.
    #[inline]
    pub(crate) fn remove(&mut self, task: TaskId) -> Option<usize> {
        let ready = &mut self.keys[self.head..];
        let found = ready.iter().position(|k| k.task == task)?;
        if found > 8 && found > ready.len() / 2 {
            self.keys.remove(self.head + found);
            return Some(found);
        }
        // Those ahead of it are few as a rule, and moving them one by one is cheaper than a call that moves memory.
        for index in (0..found).rev() {
            ready[index + 1] = ready[index];
        }
        self.head += 1;
        if self.head == self.most {
            self.close_gap();
        }
        Some(found)
    }
    fn close_gap(&mut self) {
        self.keys.drain(..self.head);
        self.head = 0;
    }
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.head = 0;
    }
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Key] {
        &self.keys[self.head..]
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
            let mut split = Agenda::split(18, (4, 6), 13);
            let widened = |slot: usize| if slot < 4 { slot } else { slot + 6 };
            let mut model = BTreeMap::new();
            for (slot, at) in ops {
                narrow.set(widened(slot), at.map_or(Time::MAX, Time::from_ns));
                split.set(widened(slot), at.map_or(Time::MAX, Time::from_ns));
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
                    prop_assert_eq!(split.first_from(widened(from)), agenda.first_from(from));
                }
                prop_assert_eq!(narrow.first(), agenda.first().map(|(at, slot)| (at, widened(slot))));
                prop_assert_eq!(split.first(), narrow.first());
                prop_assert_eq!(split.earliest(), narrow.first().map_or(Time::MAX, |(at, _)| at));
                for now in [0, 20, 49].map(Time::from_ns) {
                    prop_assert_eq!(split.due(now), narrow.first().filter(|(at, _)| *at <= now));
                }
                let first = model.iter().map(|(s, a)| (*a, *s)).min();
                prop_assert_eq!(agenda.first().map(|(a, s)| (a.ns(), s)), first);
            }
            Ok(())
        });
    }

    #[test]
    fn an_agenda_of_any_size_has_room_for_all_its_slots() {
        for slots in 1..200 {
            let mut agenda = Agenda::split(slots, (slots, 0), slots / 3);
            for slot in 0..slots {
                agenda.set(slot, Time::from_ns(((slot * 37) % 101) as i64));
            }
            let mut order: Vec<(i64, usize)> = (0..slots).map(|slot| (((slot * 37) % 101) as i64, slot)).collect();
            order.sort_unstable();
            for (at, slot) in order {
                assert_eq!(agenda.first(), Some((Time::from_ns(at), slot)), "{slots} slots");
                agenda.remove(slot);
            }
            assert_eq!(agenda.first(), None);
        }
    }

    #[test]
    fn slots_that_are_inserted_leave_the_others_as_they_are() {
        for at in 0..=9 {
            let mut agenda = Agenda::split(9, (9, 0), 6);
            (0..9).for_each(|slot| agenda.set(slot, Time::from_ns(20 - slot as i64)));
            agenda.insert_slots(at, 3);
            for slot in (0..9).rev() {
                let now = if slot < at { slot } else { slot + 3 };
                assert_eq!(agenda.first(), Some((Time::from_ns(20 - slot as i64), now)));
                agenda.remove(now);
            }
        }
    }

    #[test]
    fn the_ready_queue_agrees_with_a_sorted_list() {
        takt_testing::for_all(256, prop::collection::vec((0u32..60, 0i64..20), 1..400), |ops| {
            let mut queue = ReadyQueue::new(60);
            let room = queue.keys.capacity();
            let mut model: Vec<Key> = Vec::new();
            for (task, rank) in ops {
                let task = TaskId(task);
                match model.iter().position(|key| key.task == task) {
                    Some(found) => {
                        model.remove(found);
                        prop_assert_eq!(queue.remove(task), Some(found));
                    }
                    None => {
                        let key = Key { rank, release: Time::ZERO, task };
                        let ahead = model.partition_point(|other| *other < key);
                        model.insert(ahead, key);
                        prop_assert_eq!(queue.insert(key), ahead);
                    }
                }
                prop_assert_eq!(queue.as_slice(), &*model);
                prop_assert_eq!(queue.remove(TaskId(99)), None);
            }
            prop_assert_eq!(queue.keys.capacity(), room, "it allocates nothing");
            Ok(())
        });
    }
}
