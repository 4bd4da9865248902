//! The slots of a partition, and its tasks as the tests see them.

use crate::verdict::{Answer, Kind};
use takt_core::model::{BestEffortStart, PartitionId, System, TaskId};
use takt_core::time::Span;

/// Beyond so many steps a test gives up: a verdict must not take longer than a look at it is worth.
pub(super) const STEPS_MAX: u128 = 20_000_000;

/// The slots of a partition in the major frame, one CPU at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Supply {
    pub(super) frame: u128,
    /// Begin and end of each, ascending and apart.
    pub(super) slots: Vec<(u128, u128)>,
    /// The supply of the slots before each one; one more entry for all of them.
    pub(super) before: Vec<u128>,
}

impl Supply {
    /// The guaranteed supply of a table to a partition; `None` when a slice gives it several CPUs at once, or there is no table. Where
    /// its part depends on what others leave, nothing is sure. O(slices).
    #[must_use]
    pub fn of(system: &System, partition: PartitionId) -> Option<Supply> {
        let (mut at, mut slots): (u128, Vec<(u128, u128)>) = (0, Vec::new());
        for window in &system.windows {
            let end = at + nanoseconds(window.length);
            for slice in &window.slices {
                let alone =
                    system.be_start == BestEffortStart::SliceDone || window.slices.iter().all(|s| s.sc.is_none());
                let sure = slice.sc == Some(partition) || slice.be == Some(partition) && slice.sc.is_none() && alone;
                if !sure {
                    continue;
                }
                if slice.cpus.len() > 1 {
                    return None;
                }
                match slots.last_mut().filter(|last| last.1 == at) {
                    Some(last) => last.1 = end,
                    None => slots.push((at, end)),
                }
            }
            at = end;
        }
        let mut before = vec![0];
        slots.iter().for_each(|(from, to)| before.push(before[before.len() - 1] + to - from));
        (at > 0).then_some(Supply { frame: at, slots, before })
    }

    /// The supply of a frame.
    pub(super) fn per_frame(&self) -> u128 {
        self.before[self.slots.len()]
    }

    /// The supply from time zero to `t`. O(log slots).
    pub(super) fn until(&self, t: u128) -> u128 {
        let (frames, rest) = (t / self.frame, t % self.frame);
        let begun = self.slots.partition_point(|(from, _)| *from < rest);
        let part = match begun.checked_sub(1) {
            Some(last) => self.before[last] + self.slots[last].1.min(rest) - self.slots[last].0,
            None => 0,
        };
        frames * self.per_frame() + part
    }

    /// The shortest length of which every interval gives so much, both in nanoseconds: the inverse of the supply bound function.
    /// `None` when nothing is ever given. The worst interval begins as a slot ends. O(slots).
    #[must_use]
    pub fn within(&self, work: u128) -> Option<u128> {
        let (n, each) = (self.slots.len(), self.per_frame());
        if work == 0 {
            return Some(0);
        }
        if each == 0 {
            return None;
        }
        let (frames, rest) = ((work - 1) / each, (work - 1) % each + 1);
        // Slots are numbered on into the next frame.
        let given = |j: usize| if j <= n { self.before[j] } else { each + self.before[j - n] };
        let begin = |j: usize| if j < n { self.slots[j].0 } else { self.frame + self.slots[j - n].0 };
        let (mut longest, mut j) = (0, 0);
        for k in 0..n {
            // The slot in which the rest is reached, of those after slot `k`.
            j = j.max(k + 1);
            while given(j + 1) - given(k + 1) < rest {
                j += 1;
            }
            let reached = begin(j) + rest - (given(j) - given(k + 1));
            longest = longest.max(reached - self.slots[k].1);
        }
        Some(frames.saturating_mul(self.frame).saturating_add(longest))
    }
}

/// A stream of jobs, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) task: TaskId,
    pub(super) runtime: u128,
    pub(super) period: u128,
    pub(super) deadline: Option<u128>,
    pub(super) offset: u128,
    pub(super) regular: bool,
    /// The lowest is the most important.
    pub(super) rank: i64,
}

/// An answer, its test, what that can prove, and why.
pub(super) type Found = (Answer, &'static str, Kind, String);

pub(super) fn nanoseconds(span: Span) -> u128 {
    u128::try_from(span.ns()).unwrap_or(0)
}

pub(super) fn span(ns: u128) -> Span {
    Span::from_ns(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// A sum that stays at the largest number rather than overflow: then no answer comes of it but that nothing fits.
pub(super) fn total(parts: impl Iterator<Item = u128>) -> u128 {
    parts.fold(0, u128::saturating_add)
}
