//! The events within a step: events that the driver saw, and timed events that are due.

use super::messages::Carrier;
use crate::input::{Ending, Input};
use crate::model::TaskId;
use crate::policy::state::{Departure, Phase, State};
use crate::policy::{Clock, Event};
use crate::record::{JobId, Outcome, RecordKind, Sink};
use crate::time::{Span, Time};

impl State {
    pub(super) fn input(&mut self, input: &Input, sink: &mut dyn Sink) {
        // A policy does not know removed tasks.
        if input.task().is_some_and(|task| self.system.is_removed(task)) {
            return;
        }
        match *input {
            Input::Usage { task, consumed } => {
                let now = self.now;
                let run = &mut self.runs[task.index()];
                if run.has_job() && run.clock == Clock::Cpu {
                    run.metered = true;
                    run.spend(consumed - run.consumed);
                    run.since = now;
                    self.arm_budget(task, now, Span::ZERO);
                }
            }
            Input::Dispatched { .. } | Input::Hold { .. } | Input::Exit { .. } | Input::Terms { .. }
                if !cfg!(feature = "programs") => {}
            Input::Dispatched { task, place, at } => {
                let now = self.now;
                let run = &mut self.runs[task.index()];
                if run.place == Some(place) && (run.since..=now).contains(&at) {
                    run.since = at;
                    self.arm_budget(task, now, Span::ZERO);
                }
            }
            Input::Complete { task, job } => self.complete(task, job, sink),
            Input::Block { task } => self.block(task, sink),
            Input::Hold { task } => self.hold(task, sink),
            Input::Wake { task } => {
                self.held.retain(|held| *held != task);
                self.wake(task, sink);
            }
            Input::Lock { task, resource } => self.request(task, resource, sink),
            #[cfg(feature = "withdrawals")]
            Input::Withdraw { task, resource } => self.withdraw(task, resource, sink),
            Input::Unlock { task, resource } => self.give_back(task, resource, sink),
            Input::Yield { task } => {
                let now = self.now;
                let run = &mut self.runs[task.index()];
                if run.phase == Phase::Ready && run.place.is_some() && !run.fresh {
                    run.account(now);
                    let (job, consumed) = (run.job, run.consumed);
                    self.record(sink, RecordKind::Yield { task, job });
                    self.events.push(Event::Yield { task, consumed });
                }
            }
            Input::Skew { task, by } => {
                self.runs[task.index()].skew = by;
                self.arm_budget(task, self.now, Span::ZERO);
            }
            Input::Share { task, share, importance } => {
                let described = &mut self.system.tasks[task.index()];
                (described.share, described.importance) = (share, importance);
                self.changed(task);
            }
            Input::Retime { task, period, deadline, runtime } => self.change_mode(task, period, deadline, runtime),
            Input::Enter { task } => self.enter(task),
            Input::Release { task } => self.release_by_event(task, sink),
            Input::Terms { task, deadline, runtime, utility } => self.set_terms(task, deadline, runtime, utility),
            Input::Leave { task } => {
                if self.runs[task.index()].has_job() {
                    self.runs[task.index()].leaving = Some(Departure::Left);
                } else {
                    self.depart(task, Departure::Left, sink);
                }
            }
            #[cfg(feature = "additions")]
            Input::Add { .. } => unreachable!("the engine asks its policy about it"),
            Input::Configure { .. } | Input::Switch { .. } | Input::Table { .. } | Input::Call { .. } => {
                unreachable!("the engine asks its policy about these")
            }
            Input::Abort { task } => {
                if self.runs[task.index()].has_job() {
                    self.end_job(task, Outcome::Aborted, true, sink);
                }
            }
            Input::Exit { task, ending } => self.exit(task, ending, sink),
            #[cfg(feature = "power")]
            Input::Temperature { zone, millidegrees } => self.temperature(zone, millidegrees, sink),
        }
    }

    /// The program has done the work of `job`.
    #[inline(never)]
    pub(super) fn complete(&mut self, task: TaskId, job: JobId, sink: &mut dyn Sink) {
        let run = &mut self.runs[task.index()];
        // An activation or a job that has not been dispatched cannot have completed: the signal belongs to the one before.
        if run.completes(job) {
            run.signals = true;
            return self.end_job(task, Outcome::Completed, true, sink);
        }
        self.complete_another(task, job, sink);
    }

    /// The program has done the work of `job`, which is not the current job, or not of the present activation.
    #[cold]
    fn complete_another(&mut self, task: TaskId, job: JobId, sink: &mut dyn Sink) {
        let activated = self.is_activated(task);
        let run = &mut self.runs[task.index()];
        if run.is_gone() {
            return;
        }
        run.signals = true;
        let at_it = run.at == Some(job);
        let begun = !run.fresh || run.handler;
        if at_it && run.has_job() && begun && (run.job == job || activated) {
            return self.end_job(task, Outcome::Completed, true, sink);
        }
        run.counts.late_signals += 1;
        if at_it {
            // The abandoned work is done. What it took was none of the current job's own.
            run.account(self.now);
            (run.at, run.abandoned) = (None, run.consumed);
            self.own_work_begins = true;
        }
        let (waits, deadline) = (run.has_job(), Some(run.deadline).filter(|d| *d < Time::MAX));
        self.record(sink, RecordKind::LateSignal { task, job });
        if at_it && activated {
            self.complete_open(task, sink);
            self.release_followers(task, sink);
            if waits {
                self.open_job(task, deadline);
            }
        }
    }

    /// The task's program has ended.
    fn exit(&mut self, task: TaskId, ending: Ending, sink: &mut dyn Sink) {
        let activated = self.is_activated(task);
        let signals = self.signals(task) || activated;
        let run = &mut self.runs[task.index()];
        // Nothing of a program that has ended is continued or replaced, nor abandoned work of a task that left.
        let at = run.at.take();
        if run.is_gone() {
            return;
        }
        if ending.replaced {
            // Between two jobs it ends none of them.
            let Some(job) = at else { return };
            if !run.has_job() {
                // A job of a window table whose activation is over stays open: the signal of the next process ends it.
                return;
            }
            if run.job != job && !activated {
                // It was at the work of an earlier job: the current one begins with the next program.
                run.account(self.now);
                run.abandoned = run.consumed;
                run.counts.late_signals += 1;
                self.own_work_begins = true;
                return self.record(sink, RecordKind::LateSignal { task, job });
            }
        }
        let outcome = match ending.regular {
            true if signals => Outcome::Exited,
            true if at == Some(run.job) => Outcome::Completed,
            _ if run.fresh => Outcome::Skipped,
            _ => Outcome::Aborted,
        };
        let departure = if ending.regular { Departure::Ended } else { Departure::Failed };
        run.leaving = if ending.replaced { run.leaving } else { Some(departure) };
        if run.has_job() {
            return self.end_job(task, outcome, true, sink);
        }
        self.depart(task, departure, sink);
    }

    /// Handles one entry of the agenda. Returns a job that begins, of which the policy does not know yet.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) fn due<C: Carrier, S: Sink>(
        &mut self,
        at: Time,
        slot: usize,
        carrier: &mut C,
        sink: &mut S,
    ) -> Option<(TaskId, JobId)> {
        let releases = 2 * self.room + self.timers.len();
        if slot >= releases {
            let index = slot - releases;
            return self.release(index, slot, carrier, sink).map(|job| (TaskId(index as u32), job));
        }
        if slot < 2 * self.room {
            carrier.due(TaskId((slot % self.room) as u32));
        }
        self.expire(at, slot, sink);
        None
    }

    /// Handles the end of a budget, a deadline, or a timer of the policy.
    #[inline(never)]
    pub(super) fn expire(&mut self, at: Time, slot: usize, sink: &mut dyn Sink) {
        let n = self.room;
        if slot < n {
            let task = TaskId(slot as u32);
            self.note_due(task);
            let now = self.now;
            // Counted at the planned instant and not when a late timer fired: what ran on in between is the driver's lateness.
            let run = &mut self.runs[slot];
            run.account(at.max(run.since).min(now));
            // At another than nominal speed the remaining budget and the delay of its notice are no sum: without a measurement the
            // planned instant counts.
            let by_amount = run.is_nominal() || run.metered;
            if by_amount && run.budget.is_some_and(|left| left + run.notice() > Span::ZERO) {
                // A measurement said that less was consumed than time has passed.
                self.arm_budget(task, now, Span::ZERO);
                return;
            }
            self.agenda.remove(slot);
            let run = &self.runs[slot];
            // A budget granted in place of the task's own one may have been the rest of that.
            let used_up = || self.own_budget_left(task).is_some_and(|left| left <= Span::ZERO);
            if run.own || run.clock == Clock::Cpu && used_up() {
                return self.end_job(task, Outcome::Aborted, true, sink);
            }
            let consumed = self.runs[slot].consumed;
            self.events.push(Event::BudgetExpired { task, consumed });
        } else if slot < 2 * n {
            let task = TaskId((slot - n) as u32);
            self.note_due(task);
            self.agenda.remove(slot);
            let job = self.runs[task.index()].job;
            self.events.push(Event::Deadline { task, job });
            self.end_job(task, Outcome::Aborted, true, sink);
        } else {
            self.agenda.remove(slot);
            let due = self.timers[slot - 2 * n].due;
            self.events.push(Event::Timer { timer: (slot - 2 * n) as u16, due });
        }
    }

    /// Something of this task is due.
    fn note_due(&mut self, task: TaskId) {
        self.runs[task.index()].note_due(task, self.round, &mut self.due);
    }
}
