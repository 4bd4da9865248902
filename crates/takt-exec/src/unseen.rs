//! Jobs that run although the engine does not run them (`dispatch: rank`): the kernel does while more urgent jobs are blocked.
//!
//! A program whose job is thawed begins it before the engine dispatches the task. When such a program is heard, has reached a limit of its policy, or
//! its job is due, the engine learns what the kernel has done: the more urgent jobs were blocked, and this job was dispatched. Nothing says when a
//! blocked job wakes up, so it counts as ready again in the step that follows: the engine runs the most urgent jobs, blocked or not. Where the kernel's
//! records tell of blocks and wake-ups, the engine has learnt of them at their instants, and there is nothing to be replayed.
//!
//! As everything that the scheduler thread does, this neither allocates nor blocks.

use crate::actuator::Actuator;
use crate::life::Program;
use crate::scheduler::{Refused, Scheduler};
use takt_core::engine::Input;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};

impl<A: Actuator> Scheduler<A> {
    /// Has the dispatcher take the order after a step. A refused priority is asked for again.
    pub(crate) fn place(&mut self) {
        // The dispatcher of the run, whatever the classes of tasks.
        let done = self.setup.stepped();
        self.unplaced = done.is_err();
        if let Err(error) = done {
            self.refused_place(error);
        }
    }

    /// Thaws the tasks that the dispatcher lets run although the engine does not.
    pub(crate) fn start_ahead(&mut self) {
        while let Some(task) = self.setup.next_ahead() {
            if self.refused[task.index()].is_none() {
                self.start_one_ahead(task);
            }
        }
    }

    pub(crate) fn start_one_ahead(&mut self, task: TaskId) {
        let begins = matches!(self.setup.slots[task.index()].program, Program::New | Program::Waiting);
        // The end of the job that it has begun is to be replayed.
        if begins && self.setup.slots[task.index()].ahead.is_some() {
            return;
        }
        let (dispatcher, engine) = (&self.setup.dispatcher, &self.setup.engine);
        if !dispatcher.is_ranked(task) || dispatcher.is_thawed(task) && !(begins && engine.may_begin(task)) {
            return;
        }
        if begins {
            self.forget_waits(task);
        }
        let done = self.setup.start_ahead(task, self.start, &mut self.meters);
        if begins && self.setup.slots[task.index()].ahead.is_some() && !self.begun_ahead.contains(&task) {
            self.begun_ahead.push(task);
        }
        self.note(task, Refused::Ahead, done);
    }

    /// After a step: programs that have begun a job ahead, which is over, and have not run since, are where they were before.
    pub(crate) fn put_back(&mut self) {
        let mut index = 0;
        while let Some(&task) = self.begun_ahead.get(index) {
            let (engine, slot) = (&self.setup.engine, &mut self.setup.slots[task.index()]);
            let job = match slot.program {
                Program::At { job, .. } => Some(job),
                _ => None,
            };
            let dispatched = job.is_none() || engine.at(task).is_some();
            if !dispatched && engine.job_number(task) == job && slot.ahead.is_some() {
                index += 1;
                continue;
            }
            self.begun_ahead.swap_remove(index);
            // The dispatch of a job that is done by now needs to know that it was begun.
            if dispatched {
                continue;
            }
            let Some(ahead) = slot.ahead.take() else { continue };
            slot.program = ahead.before;
            slot.given = ahead.before == Program::Waiting;
            // Its blocks are not those of the next job.
            self.forget_waits(task);
            let done = self.setup.freeze(task);
            self.note(task, Refused::Stop, done);
        }
    }

    /// Replays what the kernel has done since the last step, as far as it is known. `last` says that the run ends at `now`.
    pub(crate) fn replay_unseen(&mut self, now: Time, last: bool) {
        if now < Time::ZERO {
            return self.unseen.clear();
        }
        let now = if last { now - Span::from_ns(1) } else { now };
        for index in 0..self.begun_ahead.len() {
            let task = self.begun_ahead[index];
            let slot = &self.setup.slots[task.index()];
            let is_due = self.setup.engine.job(task).is_some_and(|job| job.deadline <= now);
            if is_due && !self.unseen.contains(&task) && slot.ahead.is_some() {
                let used = self.setup.actuator.cpu_time(slot.group);
                if used.zip(slot.ahead).is_some_and(|(used, ahead)| used > ahead.used) {
                    self.unseen.push(task);
                }
            }
        }
        for index in 0..self.unseen.len() {
            let task = self.unseen[index];
            self.ran_unseen(task, now);
            // A job whose end is not known to the engine by then is begun again.
            let slot = &mut self.setup.slots[task.index()];
            slot.ahead = slot.ahead.filter(|_| matches!(slot.program, Program::At { .. }));
        }
        self.unseen.clear();
        if self.setup.actuator.now() >= self.setup.dispatcher.limits_due() {
            for _ in 0..self.setup.slots.len() {
                let Some(task) = self.setup.exhausted() else { break };
                self.ran_unseen(task, now);
            }
        }
    }

    /// The kernel has run a task that the engine does not run, so those before it were blocked.
    fn ran_unseen(&mut self, task: TaskId, now: Time) {
        let slot = &self.setup.slots[task.index()];
        let used = self.setup.actuator.cpu_time(slot.group).zip(slot.ahead).map(|(used, ahead)| used - ahead.used);
        // Without CPU time it has not run: it was rung for by another process.
        if used.is_some_and(|used| used <= Span::ZERO) {
            return;
        }
        let from = (now - used.unwrap_or_default()).max(self.setup.engine.now());
        self.set_aside();
        for _ in 0..self.setup.slots.len() {
            let engine = &self.setup.engine;
            if engine.place_of(task).is_some() || engine.job(task).is_none_or(|job| !job.ready) {
                break;
            }
            let Some(other) = self.setup.blocked_before(task) else { break };
            self.measure(from);
            self.inputs.push(Input::Block { task: other });
            self.step_once(from);
            // A task without a process stays blocked until the next process is ready.
            let absent = matches!(self.setup.slots[other.index()].program, Program::Absent { .. });
            let later = &mut self.blocks.inputs;
            if !absent && later.len() < later.capacity() {
                later.push(Input::Wake { task: other });
            }
        }
        self.step_rest(from);
        self.set_aside();
    }
}
