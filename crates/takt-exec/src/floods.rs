//! Floods: programs and sources of events that wake the scheduler thread all the time.
//!
//! A program floods it by rings of the bell without a request, requests that do not wait for the answer to the one before, and
//! requests outside of segments, which no dispatch and no budget bounds. The request for a segment counts only until the program ends the
//! segment: it was dispatched then, and the policy and its budget have bounded it as every other job. So a program that waits for each
//! answer and ends its segments is never frozen. Segments that are aborted count: an early abort bounds nothing.
//!
//! Each ring wakes the scheduler thread, which takes its CPU from the tasks there. So a program that exceeds [`crate::rings::BURST`] such
//! rings within [`WINDOW`] is frozen for [`WINDOW`]. To the engine its job continues to run and consumes that time ([`crate::meter`]).
//!
//! A source that changes more often than [`crate::rings::BURST`] times within [`WINDOW`] is muted for [`WINDOW`]: the scheduler thread does not
//! wake up for it, and its changes meanwhile are at most one event. Its task is not frozen, because others write to the source.
//!
//! As everything that the scheduler thread does, this neither allocates nor blocks.

use crate::actuator::{Actuator, Rung};
use crate::life::Program;
use crate::life::Waits;
use crate::rings::WINDOW;
use crate::scheduler::{Refused, Scheduler};
use takt_abi::{Kind, Request};
use takt_core::engine::Input;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};

impl<A: Actuator> Scheduler<A> {
    /// The program of a task has made a request. Returns whether it may be handled: a program that floods is frozen before that.
    pub(crate) fn is_admitted(&mut self, task: TaskId, request: &Request) -> bool {
        let slot = &mut self.setup.slots[task.index()];
        let has_waited = slot.asked.waits_for.is_none() && request.number == slot.asked.number.wrapping_add(1);
        let is_bounded = match slot.program {
            Program::At { .. } => true,
            // The end of a segment that was aborted. It comes once for each that was dispatched.
            Program::Outside { job } => job.is_some() && request.kind == Some(Kind::End),
            _ => false,
        };
        if has_waited {
            slot.rings.excuse();
        }
        (has_waited && is_bounded) || !self.rung_in_vain(task)
    }

    /// The program of a task has rung, and there is no request that has not been read.
    pub(crate) fn rung_without_request(&mut self, task: TaskId) {
        if !self.setup.slots[task.index()].rings.is_excused() {
            self.rung_in_vain(task);
        }
    }

    /// The program of a task has rung without cause. Returns whether it is frozen for that; its request waits meanwhile.
    pub(crate) fn rung_in_vain(&mut self, task: TaskId) -> bool {
        let now = self.now();
        let slot = &mut self.setup.slots[task.index()];
        let of_kernel = slot.kernel.is_some_and(|kernel| kernel.thawed);
        let outside = matches!(slot.program, Program::Outside { .. });
        let runs = outside || of_kernel || slot.waits != Waits::No || self.setup.engine.place_of(task).is_some();
        let runs = runs || self.setup.dispatcher.is_thawed(task);
        // An act that is to be repeated comes first. It is repeated before the window is over.
        if !slot.rings.add(now) || !runs || self.refused[task.index()].is_some() {
            return matches!(self.refused[task.index()], Some(Refused::Held { .. }));
        }
        slot.rings.floods += 1;
        let stopped = self.setup.actuator.stop(slot.group).is_ok();
        if stopped {
            slot.waits = Waits::No;
            slot.kernel.iter_mut().for_each(|kernel| kernel.thawed = false);
            // The kernel reports the freeze as a block, and may report no wake-up meanwhile. To the engine the job continues to run.
            slot.waits_since = Span::MAX;
            self.setup.actuator.watch(task, None);
            if slot.blocked {
                self.inputs.push(Input::Wake { task });
            }
            self.forget_waits(task);
            self.setup.dispatcher.frozen(task);
            self.meters[task.index()].hold(self.setup.actuator.now(), WINDOW);
            self.hold(task, now + WINDOW);
        }
        stopped
    }

    /// The source of a task's events has changed, which releases a job.
    pub(crate) fn source_changed(&mut self, task: TaskId) {
        self.setup.actuator.hear_source(task);
        self.inputs.push(Input::Release { task });
        let now = self.now();
        let slot = &mut self.setup.slots[task.index()];
        if slot.changes.add(now) && self.setup.actuator.mute_source(task, true).is_ok() {
            slot.changes.floods += 1;
            slot.muted_until = Some(now + WINDOW);
            self.unmute = self.unmute.min(now + WINDOW);
        }
    }

    /// Hears the sources again that were muted until `now`. Linux reports a source at once that is readable then. O(tasks).
    pub(crate) fn unmute_sources(&mut self, now: Time) {
        self.unmute = Time::MAX;
        for (slot, task) in self.setup.slots.iter_mut().zip((0..).map(TaskId)) {
            let Some(until) = slot.muted_until else { continue };
            slot.muted_until = match until > now {
                true => Some(until),
                false => self.setup.actuator.mute_source(task, false).is_err().then_some(now + WINDOW),
            };
            self.unmute = self.unmute.min(slot.muted_until.unwrap_or(Time::MAX));
        }
    }

    /// The program of a task that was frozen for a flood continues, unless the engine has stopped it meanwhile.
    pub(crate) fn release_flooding(&mut self, task: TaskId) {
        let slot = &mut self.setup.slots[task.index()];
        let outside = matches!(slot.program, Program::Outside { .. });
        // The kernel's tasks are thawed between their jobs, too.
        let there = !matches!(slot.program, Program::Absent { .. } | Program::Gone);
        let of_kernel =
            there && slot.kernel.as_mut().is_some_and(|kernel| !std::mem::replace(&mut kernel.thawed, true));
        let at_work = matches!(slot.program, Program::At { .. }) && self.setup.engine.place_of(task).is_some();
        let done = if outside || of_kernel || at_work { self.setup.actuator.start(slot.group) } else { Ok(()) };
        if at_work && done.is_ok() {
            self.setup.dispatcher.thawed(task);
            let Scheduler { setup, .. } = self;
            setup.slots[task.index()].is_started(&setup.actuator, false);
            setup.watch(task);
        }
        self.note(task, Refused::Held { until: self.now() }, done);
        let slot = &self.setup.slots[task.index()];
        if let Rung::Request(request) = self.setup.actuator.rung(task, slot.asked.number) {
            self.asked(task, request);
        }
    }
}
