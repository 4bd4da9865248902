//! Mapping: which of the chosen jobs runs on which CPU.
//!
//! The three passes of ChronOS: Garyali, "On Best-Effort Utility Accrual Real-Time Scheduling on Multiprocessors", thesis,
//! Virginia Tech, 2010; Dellinger, Garyali, Ravindran, "ChronOS Linux: A Best-Effort Real-Time Multiprocessor Linux
//! Kernel", DAC 2011, section 5.3. First a chosen job that runs stays where it is; then a free CPU takes a chosen job that ran
//! there last; then the jobs left over take the CPUs left over. Invariants: as many jobs run as there are CPUs for them, no
//! two on one CPU, and a chosen job that runs never moves.
//!
//! Every global policy maps with this. A policy that hosts several groups of CPUs has one [`Mapper`] for each.

use crate::cpus::CpuSet;
use crate::engine::Context;
use crate::model::{System, TaskId};
use crate::policy::Decision;
use crate::record::Place;
use alloc::vec;
use alloc::vec::Vec;

/// Maps chosen jobs to CPUs; it holds the scratch memory for that.
#[derive(Debug)]
pub struct Mapper {
    /// Whether every task may run on every CPU, so that the first m jobs always fit.
    unrestricted: bool,
    /// Index of the lowest place.
    first: usize,
    /// Whether a place is lent and not yet given away, from the lowest place on; all `false` between two calls.
    free: Vec<bool>,
    /// Jobs not yet mapped, in their order.
    unmapped: Vec<TaskId>,
}

impl Mapper {
    /// A mapper for these tasks and the single-CPU places that they may ever be lent. This allocates; [`Mapper::map`] does not.
    #[must_use]
    pub fn new(system: &System, tasks: &[TaskId], places: &[Place]) -> Mapper {
        let first = places.iter().map(|p| p.index()).min().unwrap_or(0);
        let end = places.iter().map(|p| p.index() + 1).max().unwrap_or(0);
        let machine: Vec<usize> = system.cpus.iter().collect();
        let cpus: CpuSet = places.iter().map(|p| machine[p.index()]).collect();
        Mapper {
            unrestricted: tasks.iter().all(|t| cpus.is_subset(&system.tasks[t.index()].affinity)),
            first,
            free: vec![false; end - first],
            unmapped: Vec::with_capacity(places.len()),
        }
    }

    /// Adds to `decision` who of `chosen` runs where.
    ///
    /// `chosen` are ready jobs, the most urgent first, each at most once; those that find no CPU wait, so it may be longer
    /// than `lent`. `lent` are places that the mapper was built for. O(m) for m CPUs when every task may run on every CPU;
    /// else O(n m) for n chosen jobs.
    pub fn map(
        &mut self,
        chosen: impl IntoIterator<Item = TaskId>,
        lent: &[Place],
        cx: &Context<'_>,
        decision: &mut Decision,
    ) {
        let mut chosen = chosen.into_iter();
        if let (&[place], true) = (lent, self.unrestricted) {
            if let Some(task) = chosen.next() {
                decision.run(task, place);
            }
            return;
        }
        lent.iter().for_each(|p| self.free[p.index() - self.first] = true);
        let before = decision.assignments().len();
        if self.unrestricted {
            self.map_anywhere(chosen.take(lent.len()), lent, cx, decision);
        } else {
            self.map_restricted(chosen, lent, cx, decision);
        }
        // What was given away is marked already.
        if decision.assignments().len() - before < lent.len() {
            lent.iter().for_each(|p| self.free[p.index() - self.first] = false);
        }
    }

    fn is_free(&self, place: Place) -> bool {
        self.free.get(place.index().wrapping_sub(self.first)) == Some(&true)
    }

    fn give(&mut self, task: TaskId, place: Place, decision: &mut Decision) {
        self.free[place.index() - self.first] = false;
        decision.run(task, place);
    }

    /// The three passes.
    fn map_anywhere(
        &mut self,
        chosen: impl Iterator<Item = TaskId>,
        lent: &[Place],
        cx: &Context<'_>,
        decision: &mut Decision,
    ) {
        self.unmapped.clear();
        for task in chosen {
            match cx.place_of(task).filter(|p| self.is_free(*p)) {
                Some(place) => self.give(task, place, decision),
                None => self.unmapped.push(task),
            }
        }
        if self.unmapped.is_empty() {
            return;
        }
        // Of several that ran last on the same CPU it takes the last of the list, as in the paper's example.
        for index in (0..self.unmapped.len()).rev() {
            let task = self.unmapped[index];
            if let Some(place) = cx.last_place(task).filter(|p| self.is_free(*p)) {
                self.unmapped.remove(index);
                self.give(task, place, decision);
            }
        }
        let mut rest = lent.iter();
        for &task in &self.unmapped {
            let free = rest.find(|p| self.free[p.index() - self.first]);
            let place = *free.expect("there are no more jobs than CPUs");
            self.free[place.index() - self.first] = false;
            decision.run(task, place);
        }
    }

    /// Some tasks are bound to some CPUs: in order of urgency each job takes a CPU that it may use and that no more urgent one
    /// has taken, its own first, then the one where it ran last; a job that finds none is passed over.
    fn map_restricted(
        &mut self,
        chosen: impl Iterator<Item = TaskId>,
        lent: &[Place],
        cx: &Context<'_>,
        decision: &mut Decision,
    ) {
        let mut left = lent.len();
        for task in chosen {
            if left == 0 {
                break;
            }
            let usable = |place: &Place| self.is_free(*place) && cx.may_run(task, *place);
            let stays = cx.place_of(task).filter(usable);
            let returns = || cx.last_place(task).filter(usable);
            if let Some(place) = stays.or_else(returns).or_else(|| lent.iter().copied().find(usable)) {
                self.give(task, place, decision);
                left -= 1;
            }
        }
    }
}
