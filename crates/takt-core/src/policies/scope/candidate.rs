//! One CPU while tasks are placed on it: the tasks that it accepts.
//!
//! A CPU accepts a task if the exact test of its policy shows that this task and all tasks that are there meet their deadlines.

use super::response_times::{Peer, Ranked, in_time};
use crate::model::{Arrival, CpuTest, PolicySpec, Task};
use crate::policies::split::bins::{Bin, Cpu, Piece, Used};
use crate::policies::split::demand::{Effort, Times};
use crate::policies::split::exact::Sum;
use crate::time::Span;
use alloc::vec::Vec;

/// A task that is placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// In nanoseconds; a deadline of [`u64::MAX`] is none.
    pub(super) times: Times,
    /// Rank and position, by which tasks are ordered under fixed priorities.
    order: (i64, usize),
    peer: Peer,
}

impl Load {
    /// The task at this position as the exact test of the policy sees it; `None` without a runtime or a period, because no test covers such a task.
    pub(super) fn of(task: &Task, position: usize, spec: &PolicySpec) -> Option<Load> {
        let ns = |span: Span| u64::try_from(span.ns()).ok().filter(|ns| *ns > 0);
        let (runtime, period) = (ns(task.runtime?)?, ns(task.arrival.period()?)?);
        let deadline = task.deadline.and_then(ns);
        let rank = if let CpuTest::ResponseTimes(rank) = spec.profile.test { rank(spec, task) } else { 0 };
        let regular = !matches!(task.arrival, Arrival::Sporadic { spread, .. } if spread > Span::ZERO);
        let first = task.arrival.first().map_or(0, |first| first.ns().into());
        let peer = Peer {
            beat: regular.then_some((period.into(), first)),
            deadline: deadline.filter(|deadline| *deadline <= period).map(i128::from),
        };
        let times = Times { runtime, deadline: deadline.unwrap_or(u64::MAX), period };
        Some(Load { times, order: (rank, position), peer })
    }
}

/// A CPU that accepts tasks by an exact test.
pub(super) enum Candidate {
    /// By processor demand.
    Edf(Bin),
    /// By response times; the tasks are sorted by [`Ranked::order`].
    Fixed(Used, Vec<Ranked>),
    /// A CPU with a task that it did not accept. It accepts no other one.
    Overloaded(Used),
}

impl Candidate {
    /// A CPU without tasks; `None` where its policy has no exact test.
    pub(super) fn new(test: CpuTest) -> Option<Candidate> {
        match test {
            CpuTest::Utilisation => None,
            CpuTest::Demand => Some(Candidate::Edf(Bin::default())),
            CpuTest::ResponseTimes(_) => Some(Candidate::Fixed(Used::default(), Vec::new())),
        }
    }

    fn used(&self) -> &Used {
        match self {
            Candidate::Edf(bin) => bin.used(),
            Candidate::Fixed(used, _) | Candidate::Overloaded(used) => used,
        }
    }

    /// Puts a task there.
    pub(super) fn put(&mut self, load: Load) {
        match self {
            Candidate::Edf(bin) => bin.put(Piece { task: load.order.1, offset: 0, load: load.times }),
            Candidate::Fixed(used, tasks) => {
                used.add(load.times);
                insert(tasks, load);
            }
            Candidate::Overloaded(used) => used.add(load.times),
        }
    }

    /// Puts a task there that the CPU did not accept.
    pub(super) fn force(&mut self, load: Load) {
        let mut used = self.used().clone();
        used.add(load.times);
        *self = Candidate::Overloaded(used);
    }
}

/// Adds a task where its order has it; returns the index. O(n).
fn insert(tasks: &mut Vec<Ranked>, Load { times, order, peer }: Load) -> usize {
    let index = tasks.partition_point(|task| task.order < order);
    tasks.insert(index, Ranked::new(times, order, peer));
    index
}

impl Cpu for Candidate {
    type Task = Option<Load>;

    fn utilisation(&self) -> &Sum {
        &self.used().utilisation
    }

    /// A task without a load is accepted wherever no task is too much.
    fn accepts(&mut self, task: &Option<Load>, effort: &mut Effort) -> Option<bool> {
        match (self, task) {
            (Candidate::Overloaded(_), _) => Some(false),
            (_, None) => Some(true),
            (Candidate::Edf(bin), Some(load)) => bin.accepts(&load.times, effort),
            (Candidate::Fixed(used, tasks), Some(load)) => {
                if load.times.runtime > load.times.deadline || !used.has_room(load.times) {
                    return Some(false);
                }
                let index = insert(tasks, *load);
                let found = in_time(tasks, effort);
                tasks.remove(index);
                found
            }
        }
    }
}
