//! Mapping: which of the chosen jobs runs on which CPU.
//!
//! The three passes of ChronOS: Garyali, "On Best-Effort Utility Accrual Real-Time Scheduling on Multiprocessors", thesis,
//! Virginia Tech, 2010; Dellinger, Garyali, Ravindran, "ChronOS Linux: A Best-Effort Real-Time Multiprocessor Linux
//! Kernel", DAC 2011, section 5.3. First a chosen job that runs stays where it is; then a free CPU takes a chosen job that ran
//! there last; then the jobs left over take the CPUs left over. Invariants: no two jobs on one CPU; as many run as there are CPUs
//! for them; and a chosen job that runs does not move, unless it is moved so that a job bound to some CPUs can run, too.
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
    /// Where tasks are bound to CPUs, by place from the lowest on: who is to run there, and by which CPU the search came.
    holder: Vec<Option<TaskId>>,
    through: Vec<usize>,
    /// CPUs that the search has reached, in its order.
    reached: Vec<usize>,
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
            holder: vec![None; end - first],
            through: vec![NOT_REACHED; end - first],
            reached: Vec::with_capacity(places.len()),
        }
    }

    /// Adds to `decision` who of `chosen` runs where.
    ///
    /// `chosen` are ready jobs, the most urgent first, each at most once; those that find no CPU wait, so it may be longer
    /// than `lent`. `lent` are places that the mapper was built for. O(m) for m CPUs when every task may run on every CPU;
    /// else O(n m²) at worst for n chosen jobs.
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

    /// Some tasks are bound to some CPUs. First, in order of urgency, each job is given a CPU that it may use, if need be by moving
    /// others to CPUs that they may use, along an augmenting path: those that are given one are the most urgent of those that can
    /// run at once, since what can be matched is a matroid. Then these are mapped: who runs stays, and the others find a CPU in
    /// the same way, first where they ran last, so that a running job is moved only if it stands in the way of one of them.
    fn map_restricted(
        &mut self,
        chosen: impl Iterator<Item = TaskId>,
        lent: &[Place],
        cx: &Context<'_>,
        decision: &mut Decision,
    ) {
        self.unmapped.clear();
        self.holder.fill(None);
        for task in chosen {
            if self.unmapped.len() == lent.len() {
                break;
            }
            if self.augment(task, lent, cx) {
                self.unmapped.push(task);
            }
        }
        self.holder.fill(None);
        for &task in &self.unmapped {
            if let Some(place) = cx.place_of(task).filter(|p| self.is_free(*p) && cx.may_run(task, *p)) {
                self.holder[place.index() - self.first] = Some(task);
            }
        }
        for index in 0..self.unmapped.len() {
            let task = self.unmapped[index];
            if !self.holder.contains(&Some(task)) {
                let found = self.augment(task, lent, cx);
                debug_assert!(found, "they can run at once");
            }
        }
        for &place in lent {
            if let Some(task) = self.holder[place.index() - self.first] {
                self.give(task, place, decision);
            }
        }
    }

    /// Finds a CPU for one more job; `false` when that takes one from a job that has one. Breadth first: each CPU is reached
    /// once, and for each one the other CPUs of its holder are tried. O(m²).
    fn augment(&mut self, task: TaskId, lent: &[Place], cx: &Context<'_>) -> bool {
        self.reached.clear();
        self.through.fill(NOT_REACHED);
        let mut from = FIRST;
        let mut next = 0;
        let mut mover = task;
        loop {
            let last = cx.last_place(mover).filter(|p| self.is_free(*p));
            for place in last.into_iter().chain(lent.iter().copied()) {
                let index = place.index() - self.first;
                if self.through[index] != NOT_REACHED || !cx.may_run(mover, place) {
                    continue;
                }
                self.through[index] = from;
                if self.holder[index].is_some() {
                    self.reached.push(index);
                    continue;
                }
                // Back along the path everybody moves on by one CPU.
                let mut free = index;
                while self.through[free] != FIRST {
                    let before = self.through[free];
                    self.holder[free] = self.holder[before];
                    free = before;
                }
                self.holder[free] = Some(task);
                return true;
            }
            let Some(&reached) = self.reached.get(next) else { return false };
            next += 1;
            from = reached;
            mover = self.holder[reached].expect("only such CPUs are kept");
        }
    }
}

/// Where the search for a CPU begins, and CPUs that it has not reached.
const FIRST: usize = usize::MAX;
const NOT_REACHED: usize = usize::MAX - 1;
