//! The life of jobs: they arrive, begin, end, and are followed by others, by the rules for late ones.

use super::messages::Carrier;
use crate::model::{Arrival, Backlog, Handler, Late, OnAbort, ResourceId, TaskId, scaled};
use crate::policy::Event;
use crate::policy::state::{Departure, Open, Phase, State, slot_release};
use crate::record::{JobId, Outcome, Place, Record, RecordKind, Sink, StopReason};
use crate::time::Time;
use crate::utility::Utility;
use crate::work::Work;

impl State {
    /// Puts the task's next release on the agenda.
    #[inline]
    pub(super) fn plan(&mut self, task: TaskId, next: Option<Time>) {
        let slot = slot_release(self.room, self.timers.len() as u16, task.index());
        self.runs[task.index()].next_release = next;
        match next {
            Some(at) => self.agenda.set(slot, self.system.timing.on_tick(at)),
            None => self.agenda.remove(slot),
        }
    }

    fn absolute_deadline(&self, task: TaskId, release: Time) -> Option<Time> {
        self.system.tasks[task.index()].deadline.map(|d| release + d)
    }

    /// The planned release of a task is due; `slot` is its slot on the agenda. Returns the job that begins, of which the policy does not know yet.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) fn release<C: Carrier, S: Sink>(
        &mut self,
        index: usize,
        slot: usize,
        carrier: &mut C,
        sink: &mut S,
    ) -> Option<JobId> {
        let task = TaskId(index as u32);
        let State { runs, system, agenda, due, round, .. } = self;
        let run = &mut runs[index];
        carrier.due(task);
        if C::LISTS {
            run.note_due(task, *round, due);
        }
        let planned = run.next_release.expect("a release on the agenda was planned");
        let next = match &system.tasks[index].arrival {
            Arrival::Periodic { period, .. } => Some(planned + *period),
            _ if !run.events.is_empty() => run.event(run.next_job + 1),
            arrival => arrival.next(system.seed, task, run.next_job, planned),
        };
        run.next_release = next;
        agenda.set(slot, next.map_or(Time::MAX, |at| system.timing.on_tick(at)));
        self.arrive(task, planned, sink)
    }

    /// An event asks for a job of the task.
    #[cold]
    pub(super) fn release_by_event(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let State { runs, system, now, .. } = self;
        let run = &mut runs[task.index()];
        let Arrival::Event { distance, .. } = system.tasks[task.index()].arrival else { return };
        if run.phase == Phase::Gone {
            return;
        }
        let most = run.events.len();
        if run.next_event - run.next_job + run.pending >= most as u64 {
            run.counts.lost += 1;
            return self.record(sink, RecordKind::Lost { task });
        }
        let last = run.next_event.checked_sub(1).and_then(|last| run.event(last));
        let at = last.map_or(*now, |last| (last + distance).max(*now));
        let job = run.next_event;
        run.events[job as usize % most] = at;
        run.next_event += 1;
        if run.next_release.is_none() {
            self.plan(task, Some(at));
        }
    }

    /// A job of the task is completed, which is an event for others. O(tasks that are released after others).
    #[cold]
    pub(super) fn release_followers(&mut self, task: TaskId, sink: &mut dyn Sink) {
        for index in 0..self.followers.len() {
            let (first, follower) = self.followers[index];
            if first == task {
                self.release_by_event(follower, sink);
            }
        }
    }

    /// A job is released at `release`. Returns its number if it begins.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn arrive<S: Sink>(&mut self, task: TaskId, release: Time, sink: &mut S) -> Option<JobId> {
        let quiet = self.is_quiet();
        let State { runs, system, recording, .. } = self;
        let (run, described) = (&mut runs[task.index()], &system.tasks[task.index()]);
        let deadline = described.deadline.map(|d| release + d);
        let job = run.next_job;
        run.next_job += 1;
        let waits = run.has_job();
        if !quiet && cfg!(feature = "backlogs") && waits && system.backlog == Backlog::Hartstone {
            run.pending += 1;
            return None;
        }
        if quiet || system.counts(deadline) {
            run.counts.release(described.height());
        }
        if *recording {
            sink.record(Record { at: release, kind: RecordKind::Release { task, job, deadline } });
        }
        if waits || run.phase == Phase::Failed {
            self.wait(task, release, deadline, job, sink);
            return None;
        }
        run.job = job;
        self.begin_job_here(task, release, release, deadline.unwrap_or(Time::MAX));
        Some(job)
    }

    /// A job was released that does not begin: its task has failed, or has an earlier job.
    #[cfg_attr(target_pointer_width = "64", inline(never))]
    fn wait(&mut self, task: TaskId, release: Time, deadline: Option<Time>, job: JobId, sink: &mut dyn Sink) {
        let backlog = self.backlog();
        let run = &mut self.runs[task.index()];
        if run.phase == Phase::Failed || backlog == Backlog::Skip {
            run.base = release;
            self.skip(release, task, job, deadline, sink);
        } else {
            run.pending += 1;
        }
    }

    /// A job that was released never runs, which is recorded as of `at`.
    fn skip(&mut self, at: Time, task: TaskId, job: JobId, deadline: Option<Time>, sink: &mut dyn Sink) {
        self.runs[task.index()].counts.missed += u64::from(self.counted(deadline));
        self.record_at(at, sink, RecordKind::Finish { task, job, outcome: Outcome::Skipped, consumed: Work::ZERO });
    }

    /// Job number `run.job`, which was to come at `planned`, becomes the task's current job as if it came at `release`.
    #[inline(never)]
    pub(super) fn begin_job(&mut self, task: TaskId, release: Time, planned: Time, deadline: Time) {
        self.begin_job_here(task, release, planned, deadline);
        let job = self.runs[task.index()].job;
        self.events.push(Event::Release { task, job });
    }

    /// The same without the event for the policy.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn begin_job_here(&mut self, task: TaskId, release: Time, planned: Time, deadline: Time) {
        let quiet = self.is_quiet();
        let State { runs, system, agenda, now, room: n, .. } = self;
        let index = task.index();
        let (run, described) = (&mut runs[index], &system.tasks[index]);
        run.begin(described, release, planned, deadline, *now);
        if quiet {
            return;
        }
        if cfg!(feature = "timing")
            && let Some(load) = &system.load
        {
            run.load = load.factor(planned);
            run.declared = described.runtime.map(|r| Work::nominal(scaled(r, run.load)));
        }
        if system.late == Late::Abort && deadline < Time::MAX && !run.is_activated() {
            agenda.set(*n + index, system.timing.on_tick(deadline.max(*now)));
        }
    }

    /// The job of the task that was just aborted, after `consumed`, continues with its handler.
    fn begin_handler(&mut self, task: TaskId, handler: Handler, consumed: Work, sink: &mut dyn Sink) {
        let deadline = handler.deadline.map(|d| self.now + d);
        let run = &mut self.runs[task.index()];
        run.phase = Phase::Ready;
        run.handler = true;
        run.fresh = true;
        run.deadline = deadline.unwrap_or(Time::MAX);
        run.declared = Some(Work::nominal(handler.runtime));
        (run.consumed, run.abandoned) = (Work::ZERO, Work::ZERO);
        run.metered = false;
        run.counts.handlers += 1;
        let job = run.job;
        self.record(sink, RecordKind::Handler { task, job, deadline });
        self.events.push(Event::Handler { task, job, consumed });
    }

    /// The program has done the work of `job`, where nothing but the next planned release follows. Returns what the job has consumed, of which the policy
    /// does not know yet. `None`: that is another case, and nothing has changed ([`State::complete`]).
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) fn complete_alone<S: Sink>(&mut self, task: TaskId, job: JobId, sink: &mut S) -> Option<Work> {
        let quiet = self.is_quiet();
        let State { runs, system, agenda, now, recording, .. } = self;
        let (index, now) = (task.index(), *now);
        let run = &mut runs[index];
        if !quiet || !run.completes(job) || !run.ends_alone() {
            return None;
        }
        run.signals = true;
        run.account(now);
        run.count_completion(&system.tasks[index], now, now <= run.deadline);
        sink.response(task, now - run.release);
        run.at = None;
        let (consumed, (limited, stop)) = (run.consumed, run.end());
        if limited {
            agenda.remove(index);
        }
        if *recording {
            record_end(task, (job, Outcome::Completed, consumed), stop, now, sink);
        }
        Some(consumed)
    }

    /// The current job is over. `tell` says whether the policy learns of it (it does not when it ended the job itself).
    #[inline(never)]
    pub(super) fn end_job(&mut self, task: TaskId, outcome: Outcome, tell: bool, sink: &mut dyn Sink) {
        let (index, now, n) = (task.index(), self.now, self.room);
        let activated = self.is_activated(task);
        let rule = self.backlog();
        let judged = if rule == Backlog::Hartstone { now.round_down(self.system.timing.tick) } else { now };
        let counted = self.counted(Some(self.runs[index].deadline).filter(|d| *d < Time::MAX));
        let run = &mut self.runs[index];
        run.account(now);
        let (job, consumed, was_handler) = (run.job, run.consumed, run.handler);
        let in_time = judged <= run.deadline;
        match outcome {
            _ if activated => self.count_activation(task, outcome, sink),
            _ if was_handler || !counted => {}
            Outcome::Completed => {
                run.count_completion(&self.system.tasks[index], now, in_time);
                sink.response(task, now - run.release);
            }
            Outcome::Aborted => {
                run.counts.missed += 1;
                run.counts.aborted += 1;
            }
            // A job that was late by then was missed, however the program ended.
            Outcome::Exited if in_time => self.uncount(task),
            Outcome::Exited => run.counts.missed += 1,
            Outcome::Skipped => run.counts.missed += 1,
            Outcome::BudgetUsed | Outcome::Overrun => unreachable!("only activations end so"),
        }
        let run = &mut self.runs[index];
        if outcome == Outcome::Completed {
            run.at = None;
        } else if outcome == Outcome::Aborted
            && run.at.is_some()
            && self.system.tasks[index].on_abort == OnAbort::Restart
        {
            // A job that was aborted before its own work began leaves nothing behind.
            run.at = None;
            self.replace.push(task);
        }
        let waits_for = run.waits_for.take();
        let (limited, stop) = run.end();
        if limited {
            self.agenda.remove(index);
        }
        if self.system.late == Late::Abort {
            self.agenda.remove(n + index);
        }
        if self.recording && was_handler {
            sink.record(Record { at: now, kind: RecordKind::HandlerEnd { task, job, consumed } });
            record_stop(task, job, stop, now, sink);
        } else if self.recording {
            record_end(task, (job, outcome, consumed), stop, now, sink);
        }
        if let Some(resource) = waits_for {
            self.resources[usize::from(resource.0)].waiters.retain(|t| *t != task);
        }
        if outcome == Outcome::Aborted
            && !was_handler
            && let Some(handler) = self.system.tasks[index].handler
        {
            self.begin_handler(task, handler, consumed, sink);
            return;
        }
        // Before other jobs wake: a policy charges this job at the rate that held until now.
        if tell {
            self.events.push(Event::Finish { task, job, consumed });
        }
        if !self.followers.is_empty() && outcome == Outcome::Completed && !was_handler {
            self.release_followers(task, sink);
        }
        for resource in 0..self.resources.len() {
            if self.resources[resource].owner == Some(task) {
                self.give_back(task, ResourceId(resource as u16), sink);
            }
        }
        let aborted = was_handler || outcome == Outcome::Aborted;
        let run = &self.runs[index];
        if run.pending == 0 && run.mode.is_none() && run.leaving.is_none() && rule == Backlog::Queue {
            // The usual case: nothing follows before its release.
            return;
        }
        if run.mode.is_some() {
            self.retime(task);
        }
        match rule {
            // Its program has ended: nothing follows.
            _ if matches!(self.runs[index].leaving, Some(Departure::Ended | Departure::Failed)) => {}
            Backlog::Hartstone => self.pass_periods(task, judged, sink),
            _ if self.runs[index].leaving.is_some() => {}
            Backlog::Chronos if aborted || !in_time => self.succeed(task, Some(now), sink),
            _ if self.runs[index].pending > 0 => self.succeed(task, None, sink),
            _ => {}
        }
        if let Some(departure) = self.runs[index].leaving {
            self.depart(task, departure, sink);
        }
    }

    /// Aborts the job of the first task from index `from` on whose deadline has passed unnoticed, and says which. O(tasks).
    pub(super) fn abort_expired(&mut self, from: usize, sink: &mut dyn Sink) -> Option<usize> {
        let (now, tasks) = (self.now, &self.system.tasks);
        let expired = |index: &usize| {
            let run = &self.runs[*index];
            run.has_job() && !run.handler && run.deadline < now && tasks[*index].arrival != Arrival::Activated
        };
        let index = (from..self.runs.len()).find(expired)?;
        let task = TaskId(index as u32);
        self.events.push(Event::Deadline { task, job: self.runs[index].job });
        self.end_job(task, Outcome::Aborted, true, sink);
        Some(index)
    }

    /// A job of a window table is released now.
    pub(super) fn open_job(&mut self, task: TaskId, deadline: Option<Time>) {
        self.count_release(task, deadline);
        let open = Open { release: self.now, missed: false, counted: self.counted(deadline) };
        self.runs[task.index()].open = Some(open);
    }

    /// Counts the end of an activation, and that of the job that it belongs to: what one completion signal ends.
    pub(super) fn count_activation(&mut self, task: TaskId, outcome: Outcome, sink: &mut dyn Sink) {
        let dropped = self.system.tasks[task.index()].on_abort == OnAbort::Restart;
        let run = &mut self.runs[task.index()];
        let cut = matches!(outcome, Outcome::BudgetUsed | Outcome::Overrun);
        // The program is still at it, and its signal ends it late.
        let continues = cut || (outcome == Outcome::Aborted && !dropped && run.at.is_some());
        if run.has_job() {
            run.counts.cut_off += u64::from(cut);
            run.counts.overruns += u64::from(outcome == Outcome::Overrun);
        }
        let Some(open) = run.open.filter(|open| open.counted) else {
            run.open = run.open.filter(|_| continues);
            return;
        };
        match outcome {
            Outcome::Completed => return self.complete_open(task, sink),
            // A job that was cut off was missed, however its program ended.
            Outcome::Exited if open.missed => {}
            Outcome::Exited => self.uncount(task),
            _ => {
                run.counts.missed += u64::from(!open.missed);
                run.counts.aborted += u64::from(outcome == Outcome::Aborted);
            }
        }
        self.runs[task.index()].open = continues.then_some(Open { missed: true, ..open });
    }

    /// A job of a window table is completed: in time if no activation of it was cut off.
    pub(super) fn complete_open(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let now = self.now;
        let run = &mut self.runs[task.index()];
        let Some(open) = run.open.take().filter(|open| open.counted) else { return };
        run.counts.completed += 1;
        run.counts.met += u64::from(!open.missed);
        run.counts.utility += u128::from(match &self.system.tasks[task.index()].utility {
            None | Some(Utility::Step(_)) if open.missed => 0,
            None => Utility::DEFAULT.height(),
            Some(Utility::Step(height)) => *height,
            Some(function) => function.at(now - open.release, None),
        });
        sink.response(task, now - open.release);
    }

    /// A job that was released is none, since its program ended regularly instead of doing its work.
    fn uncount(&mut self, task: TaskId) {
        let counts = &mut self.runs[task.index()].counts;
        counts.released -= 1;
        counts.utility_total -= u128::from(self.system.tasks[task.index()].height());
    }

    /// A task without a present job has no further ones.
    pub(super) fn depart(&mut self, task: TaskId, departure: Departure, sink: &mut dyn Sink) {
        let hartstone = self.backlog() == Backlog::Hartstone;
        let run = &mut self.runs[task.index()];
        if run.is_gone() {
            return;
        }
        let queued = core::mem::take(&mut run.pending);
        let queued = if hartstone { 0 } else { queued };
        let last = run.job;
        let mut planned = run.base;
        run.phase = if departure == Departure::Failed { Phase::Failed } else { Phase::Gone };
        run.leaving = None;
        // A program that ended starts from the beginning if the task returns. A program of a task that left is still at abandoned work, unless
        // that was dropped.
        if departure != Departure::Left || self.system.tasks[task.index()].on_abort == OnAbort::Restart {
            run.at = None;
        }
        if cfg!(feature = "multiprocessor") && run.open.is_some() {
            let outcome = if departure == Departure::Failed { Outcome::Aborted } else { Outcome::Exited };
            self.count_activation(task, outcome, sink);
        }

        for job in last + 1..=last + queued {
            planned = self.next_release(task, job - 1, planned).expect("a job that has arrived was planned");
            let deadline = self.absolute_deadline(task, planned);
            let passed = deadline.is_some_and(|deadline| deadline < self.now);
            if departure == Departure::Ended && !passed {
                if self.counted(deadline) {
                    self.uncount(task);
                }
                let what = RecordKind::Finish { task, job, outcome: Outcome::Exited, consumed: Work::ZERO };
                self.record(sink, what);
            } else {
                self.skip(self.now, task, job, deadline, sink);
            }
        }
        if queued > 0 {
            // Nothing waits any more that was released before a mode change.
            self.retime(task);
        }
        if departure != Departure::Failed {
            // Delayed events release nothing any more.
            let run = &mut self.runs[task.index()];
            (run.next_event, run.next_release) = (run.next_job, None);
            self.agenda.remove(slot_release(self.room, self.timers.len() as u16, task.index()));
        } else {
            self.failed += 1;
        }
        self.alive -= 1;
        self.record(sink, RecordKind::Exit { task, failed: departure == Departure::Failed });
        self.events.push(Event::Exit { task });
    }

    pub(super) fn enter(&mut self, task: TaskId) {
        if self.runs[task.index()].phase != Phase::Gone {
            return;
        }
        let now = self.now;
        let run = &mut self.runs[task.index()];
        run.phase = Phase::Idle;
        let next = match &self.system.tasks[task.index()].arrival {
            Arrival::Periodic { offset, .. } | Arrival::Sporadic { offset, .. } => Some(now + *offset),
            Arrival::Listed { instants } => {
                let next = instants.partition_point(|i| Time::ZERO + *i < now);
                // By ChronOS's rule the job of an instant to come may have run already.
                run.next_job = run.next_job.max(next as u64);
                instants.get(run.next_job as usize).map(|i| Time::ZERO + *i)
            }
            Arrival::Event { .. } | Arrival::Activated => None,
        };
        self.alive += 1;
        self.plan(task, next);
        self.changed(task);
    }

    /// The next job of a task that is now idle begins, if it has arrived, or if a late predecessor calls it in (`at`).
    #[inline]
    pub(super) fn succeed(&mut self, task: TaskId, at: Option<Time>, sink: &mut dyn Sink) {
        let run = &self.runs[task.index()];
        if run.pending > 0 {
            let planned = self.next_release(task, run.job, run.base).expect("a job that has arrived was planned");
            let deadline = self.absolute_deadline(task, planned).unwrap_or(Time::MAX);
            let run = &mut self.runs[task.index()];
            run.pending -= 1;
            run.job += 1;
            self.begin_job(task, at.unwrap_or(planned), planned, deadline);
        } else if let (Some(at), Some(planned)) = (at, run.next_release.filter(|_| !self.closing)) {
            let next = self.next_release(task, run.next_job, planned);
            self.plan(task, next);
            let deadline = self.absolute_deadline(task, planned);
            self.count_release(task, deadline);
            let run = &mut self.runs[task.index()];
            (run.job, run.next_job) = (run.next_job, run.next_job + 1);
            let job = run.job;
            self.record(sink, RecordKind::Release { task, job, deadline });
            self.begin_job(task, at, planned, deadline.unwrap_or(Time::MAX));
        }
    }

    /// Hartstone's task loop at the end of a job: the job of the last period that began before `judged` is next, and those of
    /// the periods before it never run. If none has, the job ended in time and the next one begins with its period, which by a
    /// coarse clock may have begun. O(periods passed).
    fn pass_periods(&mut self, task: TaskId, judged: Time, sink: &mut dyn Sink) {
        while self.runs[task.index()].pending > 0 {
            let run = &self.runs[task.index()];
            let (job, begun) = (run.job + 1, run.base);
            let planned = self.next_release(task, run.job, begun).expect("a period that has passed was planned");
            let after = self.next_release(task, job, planned);
            let deadline = self.absolute_deadline(task, planned);
            // The last period that began is the present one.
            let last = run.pending == 1 || after.is_none_or(|after| after >= judged);
            let run = &mut self.runs[task.index()];
            if last && run.leaving.is_some() {
                return;
            }
            run.pending -= 1;
            run.job = job;
            self.count_release(task, deadline);
            self.record(sink, RecordKind::Release { task, job, deadline });
            if last {
                self.begin_job(task, planned, planned, deadline.unwrap_or(Time::MAX));
                return;
            }
            self.runs[task.index()].base = planned;
            self.skip(self.now, task, job, deadline, sink);
        }
    }
}

/// Records that a job is over, and that it leaves the place where it was.
#[cfg_attr(target_pointer_width = "64", inline)]
fn record_end<S: Sink + ?Sized>(
    task: TaskId,
    (job, outcome, consumed): (JobId, Outcome, Work),
    stop: Option<Place>,
    at: Time,
    sink: &mut S,
) {
    sink.record(Record { at, kind: RecordKind::Finish { task, job, outcome, consumed } });
    record_stop(task, job, stop, at, sink);
}

fn record_stop<S: Sink + ?Sized>(task: TaskId, job: JobId, stop: Option<Place>, at: Time, sink: &mut S) {
    if let Some(place) = stop {
        sink.record(Record { at, kind: RecordKind::Stop { task, job, place, reason: StopReason::Finished } });
    }
}
