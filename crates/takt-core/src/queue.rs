//! The two containers of the core, both of fixed capacity: a queue of future instants and a ready queue.

use crate::model::TaskId;
use crate::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// Future instants, at most one per slot; equal instants come out in slot order. [`Time::MAX`] is never.
///
/// A tournament over all slots: each node of a complete binary tree holds the earlier of its two children. Setting, moving and
/// removing one costs O(log slots) without a branch that depends on the instants; looking at the earliest costs O(1).
#[derive(Debug)]
pub(crate) struct Agenda {
    slots: usize,
    /// The root is at 1, the children of `i` at `2 * i` and `2 * i + 1`, and the leaves, one per slot, are the second half.
    tree: Vec<(Time, u32)>,
}

impl Agenda {
    pub(crate) fn new(slots: usize) -> Agenda {
        let leaves = slots.next_power_of_two();
        let mut tree = vec![(Time::MAX, 0); 2 * leaves];
        (0..leaves).for_each(|slot| tree[leaves + slot].1 = slot as u32);
        (1..leaves).rev().for_each(|node| tree[node] = tree[2 * node]);
        Agenda { slots, tree }
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<(Time, usize)> {
        let (at, slot) = self.tree[1];
        (at < Time::MAX).then_some((at, slot as usize))
    }

    /// The earliest instant of the slots from `slot` on. O(log slots).
    pub(crate) fn first_from(&self, slot: usize) -> Time {
        let mut node = self.tree.len() / 2 + slot;
        let mut first = self.tree[node].0;
        while node > 1 {
            if node & 1 == 0 {
                first = first.min(self.tree[node + 1].0);
            }
            node /= 2;
        }
        first
    }

    /// Sets the slot's instant, whether or not it had one.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, at: Time) {
        let mut node = self.tree.len() / 2 + slot;
        let mut first = (at, slot as u32);
        while node > 1 {
            self.tree[node] = first;
            let other = self.tree[node ^ 1];
            // Between equals the left one is first.
            let right = (node & 1) as i64;
            first = core::hint::select_unpredictable(other.0.ns() - right < first.0.ns(), other, first);
            node /= 2;
        }
        self.tree[node] = first;
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        if self.tree[self.tree.len() / 2 + slot].0 < Time::MAX {
            self.set(slot, Time::MAX);
        }
    }

    /// Makes room for `count` slots before slot `at`; later slots get higher numbers. This allocates.
    pub(crate) fn insert_slots(&mut self, at: usize, count: usize) {
        let old = core::mem::replace(self, Agenda::new(self.slots + count));
        for (slot, &(instant, _)) in old.tree[old.tree.len() / 2..].iter().enumerate().take(old.slots) {
            self.set(if slot < at { slot } else { slot + count }, instant);
        }
    }
}

/// What a ready queue sorts by; the lowest key runs first.
// Ties go to the earlier release, then to the lower task id, so that two runs agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    pub(crate) rank: i64,
    pub(crate) release: Time,
    pub(crate) task: TaskId,
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
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: Key) {
        if self.sorted.len() > 24 {
            let index = self.sorted.partition_point(|k| *k < key);
            return self.sorted.insert(index, key);
        }
        // A few jobs are passed one by one in less time than it takes to search and to move them.
        self.sorted.push(key);
        let mut index = self.sorted.len() - 1;
        while index > 0 && key < self.sorted[index - 1] {
            self.sorted[index] = self.sorted[index - 1];
            index -= 1;
        }
        self.sorted[index] = key;
    }
    /// Removes the task's job; whether it was there.
    pub(crate) fn remove(&mut self, task: TaskId) -> bool {
        let index = self.sorted.iter().position(|k| k.task == task);
        if let Some(index) = index {
            self.sorted.remove(index);
        }
        index.is_some()
    }
    pub(crate) fn clear(&mut self) {
        self.sorted.clear();
    }
    pub(crate) fn as_slice(&self) -> &[Key] {
        &self.sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_agenda_agrees_with_a_sorted_map(ops in prop::collection::vec((0usize..12, prop::option::of(0i64..50)), 1..200)) {
            let mut agenda = Agenda::new(12);
            let mut model = BTreeMap::new();
            for (slot, at) in ops {
                match at {
                    Some(at) => { agenda.set(slot, Time::from_ns(at)); model.insert(slot, at); }
                    None => { agenda.remove(slot); model.remove(&slot); }
                }
                let first = model.iter().map(|(s, a)| (*a, *s)).min();
                prop_assert_eq!(agenda.first().map(|(a, s)| (a.ns(), s)), first);
            }
        }
    }
}
