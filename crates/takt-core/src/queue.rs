//! The two containers of the core, both of fixed capacity: a queue of future instants and a ready queue.

use crate::model::TaskId;
use crate::time::Time;
use alloc::vec;
use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

/// Future instants, at most one per slot; an indexed binary heap. Equal instants come out in slot order.
///
/// Setting, moving and removing one costs O(log n); looking at the earliest costs O(1).
#[derive(Debug)]
pub(crate) struct Agenda {
    heap: Vec<(Time, u32)>,
    position: Vec<u32>,
}

impl Agenda {
    pub(crate) fn new(slots: usize) -> Agenda {
        Agenda { heap: Vec::with_capacity(slots), position: vec![ABSENT; slots] }
    }

    pub(crate) fn slots(&self) -> usize {
        self.position.len()
    }

    pub(crate) fn first(&self) -> Option<(Time, usize)> {
        self.heap.first().map(|&(at, slot)| (at, slot as usize))
    }

    /// Sets the slot's instant, whether or not it had one.
    pub(crate) fn set(&mut self, slot: usize, at: Time) {
        let entry = (at, slot as u32);
        match self.position[slot] {
            ABSENT => {
                self.heap.push(entry);
                self.position[slot] = (self.heap.len() - 1) as u32;
                self.up(self.heap.len() - 1);
            }
            at_index => {
                let index = at_index as usize;
                let old = core::mem::replace(&mut self.heap[index], entry);
                if entry < old { self.up(index) } else { self.down(index) }
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: usize) {
        let index = self.position[slot];
        if index == ABSENT {
            return;
        }
        self.position[slot] = ABSENT;
        let index = index as usize;
        let last = self.heap.pop().expect("a slot with a position is in the heap");
        if index < self.heap.len() {
            let removed = core::mem::replace(&mut self.heap[index], last);
            self.position[last.1 as usize] = index as u32;
            if last < removed { self.up(index) } else { self.down(index) }
        }
    }

    fn up(&mut self, mut index: usize) {
        let entry = self.heap[index];
        while index > 0 {
            let parent = (index - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.place(index, self.heap[parent]);
            index = parent;
        }
        self.place(index, entry);
    }

    fn down(&mut self, mut index: usize) {
        let entry = self.heap[index];
        loop {
            let mut child = 2 * index + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.place(index, self.heap[child]);
            index = child;
        }
        self.place(index, entry);
    }

    fn place(&mut self, index: usize, entry: (Time, u32)) {
        self.heap[index] = entry;
        self.position[entry.1 as usize] = index as u32;
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
    pub(crate) fn insert(&mut self, key: Key) {
        let index = self.sorted.partition_point(|k| *k < key);
        self.sorted.insert(index, key);
    }
    /// Removes the task's job if it is there.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some(index) = self.sorted.iter().position(|k| k.task == task) {
            self.sorted.remove(index);
        }
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
