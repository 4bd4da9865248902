//! Dispatch by freezing: the group of a task is frozen while the engine does not run it (`dispatch: freeze`).
//!
//! A job that blocks in its middle is not frozen: the kernel would report the end of its wait late, or not at all. It is frozen when it has woken up and
//! the engine does not run it.

use super::dispatcher::{Before, Bench, Dispatcher};
use crate::actuator::Actuator;
use std::io;
use takt_core::model::TaskId;

pub(crate) struct Freezing {
    /// The tasks that are blocked and not frozen.
    asleep: Vec<TaskId>,
    /// By task: whether it has been started, and not frozen since.
    started: Vec<bool>,
}

impl Freezing {
    /// For so many tasks.
    pub(crate) fn new(tasks: usize) -> Freezing {
        Freezing { asleep: Vec::with_capacity(tasks), started: vec![false; tasks] }
    }

    /// The task is no longer asleep. Returns whether it was.
    fn leave(&mut self, task: TaskId) -> bool {
        let found = self.asleep.iter().position(|other| *other == task);
        found.map(|index| self.asleep.swap_remove(index)).is_some()
    }

    fn forget(&mut self, task: TaskId) {
        self.leave(task);
        self.started[task.index()] = false;
    }
}

impl<A: Actuator> Dispatcher<A> for Freezing {
    fn stop(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        // Where a start was refused, the process may be frozen.
        if on.is_blocked(task) && self.started[task.index()] {
            if !self.asleep.contains(&task) {
                self.asleep.push(task);
            }
            return Ok(());
        }
        on.freeze(task)?;
        self.forget(task);
        Ok(())
    }

    fn start(&mut self, task: TaskId, before: Before, on: &mut Bench<'_, A>) -> io::Result<()> {
        let slept = self.leave(task);
        if before == Before::Frozen && !slept {
            on.actuator.start(on.slots[task.index()].group)?;
        }
        self.started[task.index()] = true;
        Ok(())
    }

    fn frozen(&mut self, task: TaskId) {
        self.forget(task);
    }

    fn thawed(&mut self, task: TaskId) {
        self.started[task.index()] = true;
    }

    fn replaced(&mut self, task: TaskId) {
        self.forget(task);
    }

    fn changed_class(&mut self, task: TaskId) {
        self.forget(task);
    }

    fn all_thawed(&self) -> &[TaskId] {
        &self.asleep
    }

    fn may_stay(&self, task: TaskId, on: &Bench<'_, A>) -> bool {
        on.is_blocked(task)
    }

    fn is_thawed(&self, task: TaskId) -> bool {
        self.asleep.contains(&task)
    }
}
