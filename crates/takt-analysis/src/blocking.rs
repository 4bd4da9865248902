//! How long less urgent jobs can block others.
//!
//! A job that holds a resource can block jobs that are not more urgent than the ceiling of the resource: the most urgent task that
//! uses it. Under ceilings that happens once, before the job begins (Sha, Rajkumar and Lehoczky, "Priority Inheritance Protocols",
//! IEEE TC 39(9), 1990; Baker, "Stack-Based Scheduling of Realtime Processes", Real-Time Systems 3, 1991). Under inheritance each
//! less urgent task blocks with one section at most, and each resource once, so that the smaller of both sums holds. A job that
//! cannot be preempted blocks all others.

use crate::demand::{Demand, Rules};
use crate::need::sections;
use takt_core::model::Locking;

/// The sections of tasks, and the ceilings of resources.
pub(crate) struct Sections {
    /// By task: its resources, and the longest time for which it holds each.
    held: Vec<Vec<(usize, i128)>>,
    /// By resource: the least rank, or relative deadline, of a task that uses it.
    ceilings: Vec<i128>,
    /// A job is blocked by one section, and not by one of each task.
    once: bool,
}

impl Sections {
    /// Those of tasks whose urgency is `rank`, the lowest for the most urgent.
    pub(crate) fn new(tasks: &[Demand], rules: Rules<'_>, rank: impl Fn(usize) -> i128) -> Sections {
        if rules.held_up {
            // A job that cannot be preempted has begun at least one nanosecond before the jobs that it blocks.
            let held = tasks.iter().map(|t| vec![(0, t.runtime - 1)]).collect();
            return Sections { held, ceilings: vec![i128::MIN], once: true };
        }
        let steps = |t: &Demand| sections(&rules.system.tasks[t.task.index()]);
        let held: Vec<Vec<(usize, i128)>> = tasks.iter().map(steps).collect();
        let mut ceilings = vec![i128::MAX; usize::from(rules.system.resources)];
        for (j, of_task) in held.iter().enumerate() {
            of_task.iter().for_each(|&(r, _)| ceilings[r] = ceilings[r].min(rank(j)));
        }
        Sections { held, ceilings, once: rules.system.locking == Locking::Ceiling }
    }

    /// Whether no task can block another one.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.iter().flatten().all(|(_, length)| *length == 0)
    }

    /// How long those `below` can block a job of this rank, or jobs due within a time `rank`. O(sections).
    pub(crate) fn blocking(&self, tasks: &[Demand], below: impl Fn(usize) -> bool, rank: i128) -> i128 {
        let blocks = |&&(r, _): &&(usize, i128)| self.ceilings[r] <= rank;
        let mut by_resource = vec![0; self.ceilings.len()];
        let mut by_task = 0;
        for j in (0..tasks.len()).filter(|j| below(*j)) {
            let longest = self.held[j].iter().filter(blocks).map(|(_, length)| *length).max();
            by_task += longest.unwrap_or(0);
            for &(r, length) in self.held[j].iter().filter(blocks) {
                by_resource[r] = by_resource[r].max(length);
            }
        }
        match self.once {
            true => by_resource.into_iter().max().unwrap_or(0),
            false => by_task.min(by_resource.into_iter().sum()),
        }
    }
}
