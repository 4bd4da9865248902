//! Jobs that block and wake up in their middle, as the machine below reports it.
//!
//! The reports come late and with their instants. Before anything else of a wait is handled, the engine is stepped through them at these instants, so its
//! decisions are the ones of an engine that hears of them at once. A block that follows the request or the signal of a program belongs to that, and is not reported to
//! the engine: the process waits for its answer or its next job.
//!
//! As everything that the scheduler thread does, this neither allocates nor blocks.

use crate::actuator::{Actuator, Wait};
use crate::blocks::{BURST, ROOM, WINDOW};
use crate::life::Program;
use crate::scheduler::{Heard, Scheduler};
use takt_core::engine::Input;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};

impl<A: Actuator> Scheduler<A> {
    /// Takes in the blocks and wake-ups up to this instant. Before that, all signals and requests that came by then have been heard.
    pub(crate) fn take_waits(&mut self, until: Span) {
        while self.blocks.waits.len() < ROOM
            && let Some(Wait { at, task, blocked }) = self.setup.actuator.take_wait(until)
        {
            if self.take_report(task, at, blocked) {
                continue;
            }
            let Scheduler { setup, blocks, start, .. } = &mut *self;
            let slot = &setup.slots[task.index()];
            let at_work = matches!(slot.program, Program::At { .. }) && slot.asked.waits_for.is_none();
            // A process of several threads has no rank. Without notices its wake-up would be seen too late, so it counts as runnable.
            let is_seen = slot.alone || !setup.quiet;
            if !at_work || !is_seen || at < slot.waits_since || blocks.blocked[task.index()] == blocked {
                continue;
            }
            blocks.blocked[task.index()] = blocked;
            let input = if blocked { Input::Block { task } } else { Input::Wake { task } };
            blocks.waits.push_back((Time::ZERO + (at - *start), input));
        }
        self.blocks.is_full = self.blocks.waits.len() >= ROOM && self.setup.actuator.has_waits();
        let Scheduler { blocks, heard, .. } = self;
        for heard in heard.iter() {
            let (Heard::Completion(task, _) | Heard::Observed(task)) = *heard else { continue };
            if !blocks.blocked[task.index()] {
                continue;
            }
            let last = blocks.waits.iter().rposition(|(_, input)| *input == Input::Block { task });
            if let Some((at, _)) = last.and_then(|last| blocks.waits.remove(last)) {
                blocks.blocked[task.index()] = false;
                blocks.doubtful.push((at, task));
            }
        }
    }

    /// All signals and requests of the wait have been handled. A program that has rung in vain was blocked nevertheless.
    pub(crate) fn settle_waits(&mut self) {
        let Scheduler { setup, blocks, .. } = self;
        for (at, task) in blocks.doubtful.drain(..) {
            let slot = &setup.slots[task.index()];
            if matches!(slot.program, Program::At { .. }) && slot.asked.waits_for.is_none() {
                blocks.blocked[task.index()] = true;
                let follows = blocks.waits.partition_point(|(other, _)| *other <= at);
                blocks.waits.insert(follows, (at, Input::Block { task }));
            }
        }
    }

    /// Steps the engine through the blocks and wake-ups before `now`, with all that is due between them. Those of this instant come with its other inputs.
    pub(crate) fn replay_waits(&mut self, now: Time, last: bool, before: &mut Time) {
        if self.blocks.waits.is_empty() {
            return;
        }
        // Before the start there are no jobs.
        if now < Time::ZERO {
            return self.blocks.waits.clear();
        }
        self.set_aside();
        while let Some(at) = self.next_wait().filter(|at| *at < now) {
            let at = at.max(self.setup.engine.now());
            let due = self.next_planned();
            if due < at {
                self.step_planned(due, now, last, at, before);
                continue;
            }
            if due == at {
                self.planned_is_late(now - due);
            }
            self.put_waits(at, true);
            self.step_measured(at);
        }
        self.set_aside();
        self.end_early();
        let rest = self.inputs.len();
        self.put_waits(Time::MAX, false);
        self.inputs.rotate_left(rest);
    }

    /// Inputs and requests wait while what was before is replayed, or come back.
    pub(crate) fn set_aside(&mut self) {
        std::mem::swap(&mut self.inputs, &mut self.blocks.inputs);
        std::mem::swap(&mut self.asking, &mut self.blocks.asking);
    }

    /// Whether an input that waits completes the job that the task is at.
    pub(crate) fn is_over(&self, task: TaskId) -> bool {
        let at = self.setup.engine.at(task);
        let completes =
            |input: &Input| matches!(*input, Input::Complete { task: of, job } if of == task && Some(job) == at);
        self.blocks.inputs.iter().any(completes)
    }

    /// A task has been dispatched. Its process may be blocked by a job before, which was aborted.
    pub(crate) fn note_blocked(&mut self, task: TaskId) {
        let slot = &self.setup.slots[task.index()];
        let blocked = slot.blocked && matches!(slot.program, Program::At { .. });
        let dispatched = &mut self.blocks.dispatched;
        if blocked && !dispatched.contains(&task) && dispatched.len() < dispatched.capacity() {
            dispatched.push(task);
        }
    }

    /// After a step: tasks that it has dispatched in vain are blocked.
    pub(crate) fn put_blocked(&mut self) {
        while let Some(task) = self.blocks.dispatched.pop() {
            // Where the start was repeated after a refusal, the process may have woken up since.
            if self.setup.engine.place_of(task).is_some() && self.setup.slots[task.index()].blocked {
                self.inputs.push(Input::Block { task });
            }
        }
    }

    /// Steps the engine through what a step has left. Each time, a task that was dispatched is blocked.
    pub(crate) fn step_rest(&mut self, at: Time) {
        while !self.inputs.is_empty() {
            self.step_once(at);
        }
    }

    /// The task's process is at another job, or gone.
    pub(crate) fn forget_waits(&mut self, task: TaskId) {
        self.setup.slots[task.index()].blocked = false;
        self.blocks.forget(task);
    }

    /// The task's process has several threads, not all of which are observed. To the engine it is runnable from now on.
    pub(crate) fn lose_sight(&mut self, task: TaskId) {
        let slot = &self.setup.slots[task.index()];
        if !slot.began_unseen && !self.setup.quiet || slot.sleeper.is_some() {
            return;
        }
        self.setup.actuator.follow(task, None);
        if slot.blocked {
            self.inputs.push(Input::Wake { task });
        }
        self.forget_waits(task);
    }

    fn next_wait(&self) -> Option<Time> {
        self.blocks.waits.front().map(|(at, _)| *at)
    }

    /// Puts the blocks and wake-ups up to this instant among the inputs. With `measures` the consumption of a job comes before, if it is still blocked: it is that at
    /// its block.
    fn put_waits(&mut self, until: Time, measures: bool) {
        while let Some((at, input)) = self.blocks.waits.pop_front_if(|(at, _)| *at <= until)
            && let Some(task) = input.task()
        {
            // One that is to be replaced since a step before is blocked until its next process is there.
            if !matches!(self.setup.slots[task.index()].program, Program::At { .. } | Program::Waiting) {
                continue;
            }
            if let Input::Release { .. } = input {
                self.is_woken(task);
                self.inputs.push(input);
                continue;
            }
            let blocks = matches!(input, Input::Block { .. });
            if blocks && self.is_frozen_asleep(task) {
                self.blocks.blocked[task.index()] = false;
                continue;
            }
            let on_clock = self.start + (at - Time::ZERO);
            if blocks {
                self.meters[task.index()].halt(on_clock);
                if measures && self.blocks.blocked[task.index()] {
                    self.measure_task(task);
                }
            } else if self.setup.engine.place_of(task).is_some() {
                self.meters[task.index()].run(on_clock);
            }
            self.setup.slots[task.index()].blocked = blocks;
            self.inputs.push(input);
        }
    }

    /// Whether a task was frozen by an earlier step of these, after its process had blocked. The end of its wait might never be reported. So it counts as
    /// ready, and if it still waits when it is dispatched, the kernel reports that.
    fn is_frozen_asleep(&self, task: TaskId) -> bool {
        let slot = &self.setup.slots[task.index()];
        let frozen = slot.waits_since == Span::MAX && matches!(slot.program, Program::At { .. });
        frozen && self.setup.engine.place_of(task).is_none()
    }

    /// Counts a notice. Of a flood of them, most are not heard.
    pub(crate) fn count_notice(&mut self) {
        let now = self.now();
        if now - self.blocks.since >= WINDOW {
            (self.blocks.since, self.blocks.notices) = (now, 0);
        }
        self.blocks.notices += 1;
        if self.blocks.notices > BURST && !self.blocks.deaf {
            self.blocks.deaf = true;
            self.setup.actuator.hear_waits(false);
        }
    }

    /// When notices are heard again that are not heard now; [`Time::MAX`] when they are.
    pub(crate) fn hears_again(&self) -> Time {
        match (self.blocks.is_full, self.blocks.deaf) {
            (true, _) => Time::ZERO,
            (_, true) => self.blocks.since + WINDOW,
            _ => Time::MAX,
        }
    }

    /// Hears notices again, if it is time for that.
    pub(crate) fn hear_again(&mut self, now: Time) {
        if self.blocks.deaf && now >= self.blocks.since + WINDOW {
            self.blocks.deaf = false;
            self.setup.actuator.hear_waits(true);
        }
    }
}
