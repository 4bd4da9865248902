//! What a policy decides: assignments of tasks to CPUs, and budgets.

use crate::model::TaskId;
use crate::record::Place;
use crate::time::Span;
use alloc::vec::Vec;

/// What a budget counts.
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
    /// How much.
    pub amount: Span,
    /// Of what.
    pub clock: Clock,
}

/// One task on one set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// Who runs.
    pub task: TaskId,
    /// Where.
    pub place: Place,
    /// A fresh budget that replaces what is left; `None` keeps what is left, or stays without one.
    pub budget: Option<Budget>,
}

/// The whole picture of who runs now. A task that is not in it does not run; one that is in it with the
/// same place as before is kept. The engine turns the difference into commands.
#[must_use]
#[derive(Debug, Default)]
pub struct Decision {
    pub(crate) assignments: Vec<Assignment>,
}

impl Decision {
    /// Lets `task` run (or run on) at `place` with the budget that it has.
    pub fn run(&mut self, task: TaskId, place: Place) {
        self.assignments.push(Assignment { task, place, budget: None });
    }
    /// Lets `task` run at `place` with a fresh budget.
    pub fn run_with(&mut self, task: TaskId, place: Place, budget: Budget) {
        self.assignments.push(Assignment { task, place, budget: Some(budget) });
    }
    /// What has been decided so far.
    #[must_use]
    pub fn assignments(&self) -> &[Assignment] {
        &self.assignments
    }
}
