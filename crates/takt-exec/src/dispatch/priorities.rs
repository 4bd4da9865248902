//! Dispatch by priority: a preempted task stays thawed, below the FIFO priority of the task that preempts it (`dispatch: priority`).
//!
//! The scheduler derives after each step which tasks are preempted: a task with a ready job and budget whose only CPU has a task of its
//! partition. All other tasks are frozen in the same step, so no event can be forgotten. A dispatched task gets the highest priority of
//! the thawed tasks of its CPUs plus one (`levels.rs`). At the end of the range the others are lowered, the lowest first, so their
//! order holds at every moment.
//!
//! A task on several CPUs is frozen when it is preempted, since the kernel would move it. So is a process with several threads, because
//! FIFO priority belongs to a thread; a process that has had several is never dispatched by priority again. The low class is not
//! SCHED_OTHER: the kernel's fair server would give preempted processes 50 ms of each second.

use super::dispatcher::{Before, Bench, Dispatcher};
use crate::actuator::Actuator;
use crate::levels::Levels;
use crate::life::Program;
use std::io;
use takt_core::model::TaskId;
use takt_core::time::Span;

pub(crate) struct Priorities {
    levels: Levels,
}

impl Priorities {
    /// For so many tasks. `lowest` is the lowest priority of a process.
    pub(crate) fn new(tasks: usize, lowest: u8) -> Priorities {
        Priorities { levels: Levels::new(tasks, lowest) }
    }

    /// Whether a task is thawed and need not be frozen: it is at a job that could run, and another task of its partition has its only CPU.
    fn is_preempted<A: Actuator>(&self, task: TaskId, on: &Bench<'_, A>) -> bool {
        let (engine, index) = (&*on.engine, task.index());
        let Some(place) = self.levels.only_place(task) else { return false };
        let other = engine.running_on(place);
        // One that has its job behind it could start to run before its next one.
        matches!(on.slots[index].program, Program::At { .. })
            && engine.place_of(task).is_none()
            && engine.job(task).is_some_and(|job| job.ready)
            && engine.budget_left(task).is_none_or(|left| left > Span::ZERO)
            && other.is_some_and(|other| on.partitions[other.index()] == on.partitions[index])
    }
}

impl<A: Actuator> Dispatcher<A> for Priorities {
    fn stop(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        if self.is_preempted(task, on) || (on.is_blocked(task) && self.levels.is_thawed(task)) {
            return Ok(());
        }
        on.freeze(task)?;
        self.levels.frozen(task);
        Ok(())
    }

    fn start(&mut self, task: TaskId, before: Before, on: &mut Bench<'_, A>) -> io::Result<()> {
        self.raise(task, on)?;
        if !self.levels.is_thawed(task) {
            if before != Before::Asleep {
                on.actuator.start(on.slots[task.index()].group)?;
            }
            self.levels.thawed(task);
        }
        Ok(())
    }

    fn rest(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        self.levels.frozen(task);
        self.levels.lower(task, |level| on.set_level(task, level))
    }

    /// Gives a running task a priority above all others on its CPUs.
    fn raise(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        let Some(place) = on.engine.place_of(task) else { return Ok(()) };
        self.levels.raise(task, place, &on.places[place.index()], |other, level| on.set_level(other, level))
    }

    fn frozen(&mut self, task: TaskId) {
        self.levels.frozen(task);
    }

    fn thawed(&mut self, task: TaskId) {
        self.levels.thawed(task);
    }

    fn replaced(&mut self, task: TaskId) {
        self.levels.replaced(task);
    }

    fn changed_class(&mut self, task: TaskId) {
        self.levels.changed_class(task);
    }

    fn set_several(&mut self, task: TaskId, several: bool) {
        self.levels.set_by_freezing(task, several);
    }

    fn all_thawed(&self) -> &[TaskId] {
        self.levels.all_thawed()
    }

    fn may_stay(&self, task: TaskId, on: &Bench<'_, A>) -> bool {
        on.engine.place_of(task).is_some() || self.is_preempted(task, on) || on.is_blocked(task)
    }

    fn is_thawed(&self, task: TaskId) -> bool {
        self.levels.is_thawed(task)
    }

    #[cfg(test)]
    fn is_by_freezing(&self, task: TaskId) -> bool {
        self.levels.is_by_freezing(task)
    }
}
