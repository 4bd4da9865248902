//! The interface of a dispatcher: how the processes of tasks are kept off their CPUs, and let onto them.
//!
//! The engine decides who runs, and a dispatcher makes the machine do that. As everything that the scheduler thread does, a dispatcher
//! neither allocates after it is made nor blocks.

use crate::actuator::{Actuator, is_gone};
use crate::life::{Program, Waits};
use crate::sleeper::Sleeper;
use crate::slot::Slot;
use std::io;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{PartitionId, TaskId};
use takt_core::time::Span;
use takt_linux::rt::Class;

/// The state of a process before it is dispatched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// Its group is frozen, or may be.
    Frozen,
    /// It sleeps until its next job, and is not frozen.
    Asleep,
    /// It runs.
    Running,
}

/// The machine and the tasks, for a dispatcher.
pub(crate) struct Bench<'a, A: Actuator> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) actuator: &'a A,
    pub(crate) slots: &'a mut [Slot<A::Resume>],
    /// The CPUs of the engine's places on this machine.
    pub(crate) places: &'a [CpuSet],
    /// By task: its partition in a window table.
    pub(crate) partitions: &'a [Option<PartitionId>],
}

impl<A: Actuator> Bench<'_, A> {
    /// Freezes the group of a task. A group without a process of the schedule is left alone.
    ///
    /// # Errors
    /// Those of [`Actuator::stop`].
    pub(crate) fn freeze(&mut self, task: TaskId) -> io::Result<()> {
        let slot = &mut self.slots[task.index()];
        match slot.program {
            // From the request for the next process on, the group is the supervisor's.
            Program::Absent { asked: true, .. } | Program::Gone | Program::Outside { .. } => {}
            _ => self.actuator.stop(slot.group)?,
        }
        slot.waits = Waits::No;
        slot.waits_since = Span::MAX;
        slot.sleeper.iter_mut().for_each(Sleeper::is_frozen);
        self.actuator.watch(task, None);
        if let Some(observed) = slot.observed.as_mut().filter(|observed| observed.stops) {
            observed.since = Span::MAX;
        }
        Ok(())
    }

    /// Whether the task is thawed although the engine does not run it, because its program is blocked in the middle of a job, which may be one that was aborted.
    pub(crate) fn is_blocked(&self, task: TaskId) -> bool {
        let slot = &self.slots[task.index()];
        slot.blocked && matches!(slot.program, Program::At { .. })
    }

    /// Sets the FIFO priority of a task's process. A process that is gone is no error.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn set_level(&self, task: TaskId, level: u8) -> io::Result<()> {
        let slot = &self.slots[task.index()];
        // The threads that a program with segments starts are ordinary ones.
        let set = match slot.segments {
            Some(_) => self.actuator.set_leader_class(slot.group, Class::Fifo(level)),
            None => self.actuator.set_priority(slot.group, level),
        };
        match set {
            // A process that it has left behind may still be in the group.
            Err(e) if is_gone(&e) => Ok(()),
            done => done,
        }
    }
}

/// A way to dispatch. There is one for all tasks of a run, and another one for the tasks in the kernel's classes.
///
/// An act that the machine refuses is reported, and asked for again later.
pub(crate) trait Dispatcher<A: Actuator>: Send {
    /// Keeps a task off its CPU that the engine has stopped. It may stay thawed where it cannot get the CPU of another task.
    ///
    /// # Errors
    /// The kernel's refusal. The task may still run then.
    fn stop(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()>;

    /// Lets a task run that the engine has dispatched. Its process has the CPUs of the place, and its job is announced.
    ///
    /// # Errors
    /// The kernel's refusal. The task may not run then.
    fn start(&mut self, task: TaskId, before: Before, on: &mut Bench<'_, A>) -> io::Result<()>;

    /// The engine has taken a step, whose stops and dispatches follow.
    ///
    /// # Errors
    /// The kernel's refusal of a priority. It is asked for again after the next step.
    fn stepped(&mut self, on: &mut Bench<'_, A>) -> io::Result<()> {
        let _ = on;
        Ok(())
    }

    /// Whether the task may be thawed although the engine does not run it.
    fn is_ranked(&self, task: TaskId) -> bool {
        let _ = task;
        false
    }

    /// The next task that is to begin its job, or to be thawed, although the engine does not run it. Each is named once after a step.
    fn next_ahead(&mut self, on: &Bench<'_, A>) -> Option<TaskId> {
        let _ = on;
        None
    }

    /// The CPUs of a task whose CPUs are not those of the place at which the engine runs it.
    fn cpus(&self, task: TaskId) -> Option<&CpuSet> {
        let _ = task;
        None
    }

    /// A task that the engine runs, and that must have been blocked when this one ran, which the engine does not run: the one that has used its CPU least.
    fn blocked_before(&self, task: TaskId, on: &Bench<'_, A>) -> Option<TaskId> {
        let _ = (task, on);
        None
    }

    /// When a task that the engine does not run can reach a limit of its policy, on the monotonic clock; [`Span::MAX`] without one.
    fn limits_due(&self) -> Span {
        Span::MAX
    }

    /// A task that the engine does not run and that has reached a limit of its policy.
    fn exhausted(&mut self, on: &Bench<'_, A>) -> Option<TaskId> {
        let _ = on;
        None
    }

    /// The process of a stopped task sleeps, and is not frozen: when it wakes up it is to take the CPU from no other task.
    ///
    /// # Errors
    /// The kernel's refusal of a priority.
    fn rest(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        let _ = on;
        self.frozen(task);
        Ok(())
    }

    /// Sets the priority of a dispatched task again, after its number of threads has changed.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn raise(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        let _ = (task, on);
        Ok(())
    }

    /// The group of a task has been frozen, or its process waits for its next job without being frozen.
    fn frozen(&mut self, task: TaskId) {
        let _ = task;
    }

    /// The group of a task at a job has been thawed without a dispatch.
    fn thawed(&mut self, task: TaskId) {
        let _ = task;
    }

    /// The task's process is gone, or replaced by a frozen one.
    fn replaced(&mut self, task: TaskId) {
        let _ = task;
    }

    /// The process has changed its class, so it has no priority of a dispatch.
    fn changed_class(&mut self, task: TaskId) {
        let _ = task;
    }

    /// Whether the process has several threads, as far as is known.
    fn set_several(&mut self, task: TaskId, several: bool) {
        let _ = (task, several);
    }

    /// The tasks that are thawed, in no order: only those of a dispatcher that leaves stopped tasks thawed.
    fn all_thawed(&self) -> &[TaskId] {
        &[]
    }

    /// Whether a task of [`Dispatcher::all_thawed`] may stay thawed.
    fn may_stay(&self, task: TaskId, on: &Bench<'_, A>) -> bool {
        let _ = (task, on);
        true
    }

    /// Whether the task is one of [`Dispatcher::all_thawed`].
    fn is_thawed(&self, task: TaskId) -> bool {
        let _ = task;
        false
    }

    /// Whether the task is frozen whenever the engine stops it.
    #[cfg(test)]
    fn is_by_freezing(&self, task: TaskId) -> bool {
        let _ = task;
        true
    }
}
