//! Decisions of a policy: assignments of tasks to CPUs, and budgets.
//!
//! A ready queue reports the rank of an insertion or a removal. Only the first m ranks matter: one change among them is one job that
//! comes and one that leaves. A second change in one instant uses the complete form. A cluster keeps CPUs only if the decision before
//! this one was its own, over all of its CPUs, and was carried out as it was made.
//!
//! `cargo xtask instructions` measured the benefit per completed job: 3918 before and 2293 after under g-edf on 4 CPUs, 2501 and 1991
//! under edf. About half of it is the decision.

use crate::model::TaskId;
use crate::record::Place;
use crate::time::Span;
use alloc::vec::Vec;

/// The unit of a budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Elapsed time while the task is assigned CPUs, as in a window table.
    Elapsed,
    /// CPU time that the task used, as the driver measures it ([`crate::engine::Input::Usage`]).
    Cpu,
}

/// An amount of time that a task may consume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// How much: elapsed time, or CPU time at nominal speed.
    pub amount: Span,
    /// Which of the two.
    pub clock: Clock,
}

/// One task on one set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The task that runs.
    pub task: TaskId,
    /// Where.
    pub place: Place,
    /// A fresh budget that replaces the old one; `None` keeps the rest, or stays without one.
    pub budget: Option<Budget>,
}

/// The difference to the decision before, where that is one job at most: what a policy may answer in place of a decision
/// ([`Policy::exchange`](super::Policy::exchange)). All other jobs keep their CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exchange {
    /// The task that leaves its CPU.
    pub leaves: Option<TaskId>,
    /// The task that is dispatched, and its CPU: a free one, or that of the task that leaves.
    pub comes: Option<(TaskId, Place)>,
}

/// The jobs that run now. For CPUs in its complete form, a task that is not in it does not run, and one with the same place as before
/// continues. For kept CPUs it names the jobs that come and leave ([`Decision::keep`]). The engine turns the difference into commands.
#[must_use]
#[derive(Debug, Default)]
pub struct Decision {
    pub(crate) assignments: Vec<Assignment>,
    /// The CPUs that keep whom they have, but for those who go: all, or these.
    pub(crate) all_kept: bool,
    pub(crate) kept: Vec<Place>,
    /// Further tasks that leave; rarely there.
    pub(crate) leaves: Option<TaskId>,
    pub(crate) others_leave: Vec<TaskId>,
    /// Whether the outermost policy passes on that CPUs are kept.
    pub(crate) takes_changes: bool,
    /// How many CPUs it is about.
    pub(crate) cpus: usize,
}

impl Decision {
    /// An empty decision about so many CPUs.
    pub(crate) fn with_capacity(cpus: usize) -> Decision {
        Decision {
            assignments: Vec::with_capacity(cpus),
            all_kept: false,
            kept: Vec::with_capacity(cpus),
            leaves: None,
            others_leave: Vec::with_capacity(cpus),
            takes_changes: false,
            cpus,
        }
    }
    /// Forgets what was decided.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.assignments.clear();
        self.all_kept = false;
        self.kept.clear();
        self.leaves = None;
        self.others_leave.clear();
    }
    /// Whether CPUs may be kept. A host may require the complete form
    /// ([`Policy::passes_changes`](super::Policy::passes_changes)).
    #[must_use]
    #[inline]
    pub fn takes_changes(&self) -> bool {
        self.takes_changes
    }
    /// The single-CPU places `cpus` keep their tasks but for `leaves`; the tasks in their stead are named by
    /// [`Decision::run`]. It costs what changes instead of O(CPUs). Only for a policy whose last decision still stands there
    /// ([`Context::stands`](super::Context::stands)), and where [`Decision::takes_changes`].
    #[inline]
    pub fn keep(&mut self, cpus: &[Place], leaves: Option<TaskId>) {
        debug_assert!(self.takes_changes, "a host wants complete decisions");
        self.all_kept = cpus.len() == self.cpus;
        if !self.all_kept {
            self.kept.extend_from_slice(cpus);
            self.all_kept = self.kept.len() == self.cpus;
        }
        self.leave(leaves);
    }
    /// This task leaves a CPU that is kept otherwise.
    #[inline]
    fn leave(&mut self, leaves: Option<TaskId>) {
        if self.leaves.is_none() {
            self.leaves = leaves;
        } else {
            self.others_leave.extend(leaves);
        }
    }
    /// The single-CPU places `cpus` keep their tasks, but for this exchange: [`Decision::keep`] and [`Decision::run`].
    #[inline]
    pub(crate) fn exchange(&mut self, cpus: &[Place], Exchange { leaves, comes }: Exchange) {
        self.keep(cpus, None);
        self.exchange_on_kept(Exchange { leaves, comes });
    }
    /// This exchange on CPUs that are kept.
    #[inline]
    pub(crate) fn exchange_on_kept(&mut self, Exchange { leaves, comes }: Exchange) {
        self.leave(leaves);
        if let Some((task, place)) = comes {
            self.run(task, place);
        }
    }
    /// Lets `task` run (or run on) at `place` with the budget that it has.
    pub fn run(&mut self, task: TaskId, place: Place) {
        self.assignments.push(Assignment { task, place, budget: None });
    }
    /// Lets `task` run at `place`, with a fresh budget where there is one.
    #[inline]
    pub(crate) fn assign(&mut self, task: TaskId, place: Place, budget: Option<Budget>) {
        self.assignments.push(Assignment { task, place, budget });
    }
    /// Lets `task` run at `place` with a fresh budget.
    pub fn run_with(&mut self, task: TaskId, place: Place, budget: Budget) {
        self.assignments.push(Assignment { task, place, budget: Some(budget) });
    }
    /// The tasks named so far. Kept ones are not in it.
    #[must_use]
    pub fn assignments(&self) -> &[Assignment] {
        &self.assignments
    }
}
