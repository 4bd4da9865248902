//! The account of one task: its releases by an independent computation, its jobs and handlers, and what it used.

use std::collections::{BTreeMap, VecDeque};
use takt_core::model::*;
use takt_core::record::{JobId, Outcome, Place};
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;

/// A released job that is not over.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// When it counts as released: its planned instant, or the end of its late predecessor by ChronOS's rule.
    pub(crate) release: Time,
    /// The origin of its utility.
    pub(crate) planned: Time,
    /// The deadline relative to that.
    pub(crate) relative: Option<Span>,
    pub(crate) deadline: Option<Time>,
    pub(crate) last_place: Option<Place>,
}

/// The records required in the step in which a job ends.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Follow {
    /// The aborted job whose handler begins, and its release.
    pub(crate) handler: Option<(JobId, Time)>,
    /// By ChronOS's rule, a successor is released before its time.
    pub(crate) early: bool,
    /// By Hartstone's rule, so many jobs are passed over, and then one is released late.
    pub(crate) passed: u64,
    pub(crate) late: bool,
    /// The task is gone.
    pub(crate) exit: bool,
}

/// When something happens, as the ledger knows it.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Time,
    /// The step before, and whether nothing was due in between.
    pub(crate) before: Time,
    pub(crate) on_time: bool,
}

/// The events of a task.
#[derive(Default, Debug)]
pub(crate) struct Events {
    /// The release times of delayed events.
    planned: VecDeque<Time>,
    /// When the last one did, or will.
    last: Option<Time>,
    /// How many were lost in this step of which no record has told yet.
    pub(crate) lost: u64,
}

#[derive(Debug)]
pub(crate) struct Account {
    id: TaskId,
    pub(crate) task: Task,
    /// Period and deadline by a mode change that waits for the end of a job, and whether a call asked for it.
    pub(crate) mode: Option<(Span, Option<Span>, bool)>,
    /// The origin of the next release: the job released last, and its planned instant, moved by calls.
    last: (JobId, Time),
    rules: (Late, Backlog, Span),
    seed: u64,
    /// Where it runs by the commands, and by the records together with its job.
    pub(crate) place: Option<Place>,
    pub(crate) started: Option<(JobId, Place)>,
    pub(crate) open: BTreeMap<JobId, Open>,
    /// The handler of an aborted job.
    pub(crate) handler: Option<(JobId, Open)>,
    /// The next release: its number, and when it is planned if the engine plans it.
    next_job: JobId,
    next: Option<Time>,
    /// Since when the current job is that.
    since: Time,
    /// It has come back and released nothing yet.
    back: bool,
    /// A mode change has planned its releases again in this step.
    replanned: bool,
    pub(crate) blocked: bool,
    pub(crate) gone: bool,
    pub(crate) leaving: bool,
    /// Whether its program has ended, regularly or not.
    pub(crate) ended: bool,
    pub(crate) counts: Counts,
    pub(crate) events: Events,
    pub(crate) follow: Follow,
    /// Since when it queues behind its equals, because it yielded.
    pub(crate) yielded: Option<Time>,
    /// The last grant of its current job, and its consumption in elapsed time.
    pub(crate) granted: Option<Span>,
    pub(crate) used: Span,
    /// The elapsed time that it may use until that is noticed.
    pub(crate) limit: Span,
    /// Elapsed time that its current job has run.
    pub(crate) ran_for: Span,
    /// The jobs of it that ran in the current window.
    pub(crate) ran: Vec<JobId>,
    /// The job whose work its program is at.
    pub(crate) program: Option<JobId>,
    /// The job that found its program at the work of another.
    pub(crate) behind: Option<JobId>,
    /// A handler has ended in this step.
    pub(crate) handled: bool,
    /// It has signalled a completion.
    pub(crate) signals: bool,
    /// In a window table, the job that no signal has ended: its release, and whether an activation of it was cut off.
    table: Option<(Time, bool)>,
}

impl Account {
    pub(crate) fn new(system: &System, index: usize) -> Account {
        let task = system.tasks[index].clone();
        Account {
            id: TaskId(index as u32),
            rules: (system.late, system.backlog, system.timing.tick),
            seed: system.seed,
            place: None,
            started: None,
            open: BTreeMap::new(),
            handler: None,
            next_job: 0,
            next: match &task.arrival {
                Arrival::Periodic { offset, .. } | Arrival::Sporadic { offset, .. } => Some(Time::ZERO + *offset),
                Arrival::Listed { instants } => instants.first().map(|i| Time::ZERO + *i),
                Arrival::Event { .. } | Arrival::Activated => None,
            },
            events: Events::default(),
            since: Time::ZERO,
            back: false,
            replanned: false,
            mode: None,
            last: (0, Time::ZERO),
            blocked: false,
            gone: false,
            leaving: false,
            ended: false,
            counts: Counts::default(),
            follow: Follow::default(),
            yielded: None,
            granted: None,
            used: Span::ZERO,
            limit: Span::ZERO,
            ran_for: Span::ZERO,
            ran: Vec::new(),
            program: None,
            behind: None,
            handled: false,
            signals: false,
            table: None,
            task,
        }
    }

    /// The current job, which is what runs: an aborted one's handler goes before those that wait.
    pub(crate) fn current(&self) -> Option<(JobId, &Open)> {
        let handler = self.handler.as_ref().map(|(job, open)| (*job, open));
        handler.or_else(|| self.open.first_key_value().map(|(job, open)| (*job, open)))
    }

    pub(crate) fn is_current(&self, job: JobId) -> bool {
        self.current().is_some_and(|(current, _)| current == job)
    }

    /// The planned release of its next job after the periods that have passed by `now`. By Hartstone's rule a period that begins during a job
    /// passes without a record.
    pub(crate) fn next_release(&self, now: Time) -> Option<Time> {
        let (_, backlog, tick) = self.rules;
        let (mut job, mut next) = (self.next_job, self.next);
        let passes = backlog == Backlog::Hartstone && self.current().is_some();
        while let Some(at) = next.filter(|at| passes && at.round_up(tick) <= now) {
            next = self.after(job, at);
            job += 1;
        }
        next
    }

    /// The time-utility function of its jobs.
    fn worth(&self) -> &Utility {
        self.task.utility.as_ref().unwrap_or(&Utility::DEFAULT)
    }

    /// When the job after number `job`, planned at `at`, is planned.
    fn after(&self, job: JobId, at: Time) -> Option<Time> {
        match &self.task.arrival {
            Arrival::Periodic { period, .. } => Some(at + *period),
            Arrival::Sporadic { period, spread, .. } => {
                let next = self.task.arrival.next(self.seed, self.id, job, at).expect("there is always another");
                let gap = next - at;
                assert!(*period <= gap && gap <= *period + *spread, "{:?} comes after {gap}", self.id);
                Some(next)
            }
            Arrival::Listed { instants } => instants.get(job as usize + 1).map(|i| Time::ZERO + *i),
            Arrival::Event { .. } => self.events.planned.front().copied(),
            Arrival::Activated => None,
        }
    }

    /// An event asks for a job.
    pub(crate) fn event(&mut self, now: Time) {
        let Arrival::Event { distance, queue, .. } = self.task.arrival else { return };
        if self.gone {
            return;
        }
        let current = self.handler.is_none() && !self.open.is_empty();
        let waiting = self.events.planned.len() + self.open.len() - usize::from(current);
        if waiting >= queue as usize {
            self.events.lost += 1;
            return;
        }
        let at = self.events.last.map_or(now, |last| now.max(last + distance));
        self.events.last = Some(at);
        self.events.planned.push_back(at);
        self.next = self.events.planned.front().copied();
    }

    /// A segment names other terms for the next job.
    pub(crate) fn terms(&mut self, deadline: Option<Span>, runtime: Option<Span>, utility: u64) {
        let none = self.open.is_empty() && self.handler.is_none() && self.events.planned.is_empty();
        let sound = [deadline, runtime].into_iter().flatten().all(|span| span > Span::ZERO);
        if none && sound && matches!(self.task.arrival, Arrival::Event { .. }) {
            (self.task.deadline, self.task.runtime) = (deadline, runtime);
            self.task.utility.get_or_insert(Utility::DEFAULT).set_height(utility);
        }
    }

    pub(crate) fn release(&mut self, job: JobId, deadline: Option<Time>, at: Time, moment: Moment) {
        let (id, now, tick) = (self.id, moment.now, self.rules.2);
        assert!(!self.gone && self.follow.handler.is_none(), "job {job} of {id:?} is released: {self:?}");
        let busy = self.current().is_some();
        let (mut release, mut planned) = (at, at);
        if self.task.arrival == Arrival::Activated {
            // Draws of zero leave gaps.
            assert!(job >= self.next_job && at == now && !busy, "job {job} of {id:?}: {self:?}");
        } else {
            if core::mem::take(&mut self.back) && self.rules.1 == Backlog::Hartstone {
                // Periods that passed in silence before it left have had their numbers.
                self.next_job = self.next_job.max(job);
            }
            planned = self.next.unwrap_or_else(|| panic!("job {job} of {id:?} was not planned: {self:?}"));
            assert_eq!((job, deadline), (self.next_job, self.task.deadline.map(|d| planned + d)), "{id:?}");
            self.events.planned.pop_front();
            self.next = self.after(job, planned);
            self.last = (job, planned);
            let due = planned.round_up(tick);
            if core::mem::take(&mut self.follow.early) {
                assert!(at == now && !busy, "job {job} of {id:?} follows a late one at {at}");
            } else if self.rules.1 == Backlog::Hartstone && at == now && planned < now {
                // Its period has begun; the job before it ended late.
                assert!(due <= now && !busy, "job {job} of {id:?}, planned at {planned}, at {now}");
                release = planned;
                let expected = self.follow.passed > 0 || core::mem::take(&mut self.follow.late);
                assert!(expected || !moment.on_time, "job {job} of {id:?} is released late at {now}: {self:?}");
            } else {
                assert!(at == planned && due <= now, "job {job} of {id:?}, planned at {planned}, at {now}");
                assert!(!busy || self.rules.1 != Backlog::Hartstone, "job {job} of {id:?} interferes: {self:?}");
                // Noticed before its predecessor ended in the same instant.
                self.follow.late &= planned < now;
            }
        }
        if !busy {
            self.since = now;
        }
        self.next_job = job + 1;
        if self.task.arrival == Arrival::Activated {
            self.counts.activations += 1;
            self.open_in_table(at);
        } else {
            self.counts.released += 1;
            self.counts.utility_total += u128::from(self.worth().height());
        }
        let relative = self.task.deadline;
        self.open.insert(job, Open { release, planned, relative, deadline, last_place: None });
    }

    /// A job of a window table is released, if none is open.
    fn open_in_table(&mut self, at: Time) {
        if self.table.is_none() {
            self.table = Some((at, false));
            self.counts.released += 1;
            self.counts.utility_total += u128::from(self.worth().height());
        }
    }

    /// The signal of a job came after its activation was over. One that was activated again and has not run begins a new job.
    pub(crate) fn late_signal(&mut self, at: Time) {
        if self.task.arrival == Arrival::Activated {
            self.completed_in_table(at);
            if self.current().is_some() {
                self.open_in_table(at);
            }
        }
    }

    fn completed_in_table(&mut self, at: Time) {
        let (release, missed) = self.table.take().expect("a job that completes was released");
        self.counts.completed += 1;
        self.counts.met += u64::from(!missed);
        let accrued = match self.worth() {
            Utility::Step(height) => u64::from(!missed) * height,
            function => function.at(at - release, None),
        };
        self.counts.utility += u128::from(accrued);
    }

    /// An activation of a window table is over.
    fn activation_ends(&mut self, outcome: Outcome, at: Time) {
        match outcome {
            Outcome::Completed => {
                self.signals = true;
                self.completed_in_table(at);
            }
            Outcome::Exited => self.exits_from_table(),
            _ => {
                let (release, missed) = self.table.take().expect("an activation belongs to a job");
                self.counts.missed += u64::from(!missed);
                self.counts.aborted += u64::from(outcome == Outcome::Aborted);
                let cut = matches!(outcome, Outcome::BudgetUsed | Outcome::Overrun);
                self.counts.cut_off += u64::from(cut);
                self.counts.overruns += u64::from(outcome == Outcome::Overrun);
                let stays = self.program.is_some() && self.task.on_abort != OnAbort::Restart;
                self.table = (cut || outcome == Outcome::Aborted && stays).then_some((release, true));
            }
        }
    }

    /// The program ended regularly: the job that it was at is none, unless it was missed before.
    fn exits_from_table(&mut self) {
        // One that was cut off was missed before.
        if let Some((_, false)) = self.table.take() {
            self.uncount();
        }
    }

    fn uncount(&mut self) {
        self.counts.released -= 1;
        self.counts.utility_total -= u128::from(self.worth().height());
    }

    /// A job is over. `elapsed` says that consumption is elapsed time.
    pub(crate) fn finish(
        &mut self,
        job: JobId,
        outcome: Outcome,
        consumed: Span,
        at: Time,
        moment: Moment,
        elapsed: bool,
    ) {
        let (id, (_, backlog, tick)) = (self.id, self.rules);
        let current = self.handler.is_none() && self.is_current(job);
        let open = self.open.remove(&job).unwrap_or_else(|| panic!("job {job} of {id:?} is over twice or never was"));
        let unrun = matches!(outcome, Outcome::Skipped | Outcome::Exited);
        assert!(current || unrun, "job {job} of {id:?} overtakes another");
        assert!(outcome != Outcome::Skipped || open.last_place.is_none(), "a skipped job ran");
        assert!(self.follow.handler.is_none(), "job {job} of {id:?} ends before a handler begins");
        // By Hartstone's rule a clock of the tick's resolution says what is late.
        let judged = if backlog == Backlog::Hartstone { at.round_down(tick) } else { at };
        let in_time = open.deadline.is_none_or(|d| judged <= d);
        match outcome {
            _ if self.task.arrival == Arrival::Activated => self.activation_ends(outcome, at),
            Outcome::Exited if in_time => self.uncount(),
            Outcome::Exited => self.counts.missed += 1,
            Outcome::Completed | Outcome::BudgetUsed => {
                self.counts.completed += 1;
                self.counts.met += u64::from(in_time);
                self.counts.missed += u64::from(!in_time);
                // A step is judged as its deadline is, the others by the instant of completion.
                let accrued = match self.worth() {
                    Utility::Step(height) => u64::from(in_time) * height,
                    function => function.at(at - open.planned, open.relative),
                };
                self.counts.utility += u128::from(accrued);
            }
            Outcome::Overrun | Outcome::Aborted | Outcome::Skipped => {
                self.counts.missed += 1;
                self.counts.overruns += u64::from(outcome == Outcome::Overrun);
                self.counts.aborted += u64::from(outcome == Outcome::Aborted);
            }
        }
        if !current {
            return;
        }
        assert!(!elapsed || consumed == self.ran_for, "job {job} of {id:?} ran for {}, not {consumed}", self.ran_for);
        self.rest(moment.now);
        let retimed = (outcome != Outcome::Aborted || self.task.handler.is_none()) && self.retime(moment.now);
        match outcome {
            Outcome::Aborted if self.task.handler.is_some() => self.follow.handler = Some((job, open.release)),
            Outcome::Exited => {}
            Outcome::Skipped if backlog == Backlog::Hartstone && self.follow.passed > 0 => self.follow.passed -= 1,
            Outcome::Skipped => {}
            _ => self.succeed(outcome == Outcome::Aborted || !in_time, judged, moment, retimed),
        }
    }

    pub(crate) fn handler_begins(&mut self, job: JobId, deadline: Option<Time>, now: Time) {
        let (aborted, release) = self.follow.handler.take().expect("a job was aborted");
        assert_eq!(aborted, job, "{:?} has a handler to begin", self.id);
        let described = self.task.handler.expect("only those with a handler are expected to begin one");
        assert_eq!(deadline, described.deadline.map(|d| now + d), "{:?}", self.id);
        self.handler = Some((job, Open { release, planned: release, relative: None, deadline, last_place: None }));
        self.counts.handlers += 1;
    }

    pub(crate) fn handler_ends(&mut self, job: JobId, consumed: Span, moment: Moment, elapsed: bool) {
        let id = self.id;
        let (begun, _) = self.handler.take().unwrap_or_else(|| panic!("{id:?} has no handler"));
        assert_eq!(begun, job, "{id:?}");
        assert!(!elapsed || consumed == self.ran_for, "the handler of job {job} of {id:?} ran for {}", self.ran_for);
        self.rest(moment.now);
        let judged = if self.rules.1 == Backlog::Hartstone { moment.now.round_down(self.rules.2) } else { moment.now };
        let retimed = self.retime(moment.now);
        self.succeed(true, judged, moment, retimed);
    }

    /// It may have been stopped between the end of its budget and the notice of it; then it runs a little again.
    pub(crate) fn resumes(&mut self, slack: Span) {
        if let Some(granted) = self.granted {
            self.limit = (granted + slack).max(self.used + slack + Span::from_ns(1));
        }
    }

    /// Its current job is over.
    fn rest(&mut self, now: Time) {
        self.since = now;
        self.blocked = false;
        self.yielded = None;
        (self.granted, self.used, self.ran_for) = (None, Span::ZERO, Span::ZERO);
    }

    /// A mode change comes when nothing waits that was released before it: what is planned stays, and all after it is new.
    /// One that was called for plans the next release again.
    fn retime(&mut self, now: Time) -> bool {
        let Some((new, deadline, called)) = self.mode.take_if(|_| self.open.is_empty()) else { return false };
        if self.agree(new, deadline) && called && self.rules.1 != Backlog::Hartstone {
            self.replan(now);
        }
        true
    }

    /// Whether the period is another one now.
    fn agree(&mut self, new: Span, deadline: Option<Span>) -> bool {
        self.task.deadline = deadline;
        match &mut self.task.arrival {
            Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. } => {
                core::mem::replace(period, new) != new
            }
            _ => false,
        }
    }

    /// The next release is a period after the last one, but not before now.
    fn replan(&mut self, now: Time) {
        if let (Some(_), Some(next)) = (self.next, self.after(self.last.0, self.last.1)) {
            self.next = Some(next.max(now));
            self.last.1 += next.max(now) - next;
            self.replanned = true;
        }
    }

    /// By Hartstone's rule: whether the engine has noticed a planned release by now. A step notices releases after its inputs, and
    /// a mode change within the step leaves a release of this instant to the end of the step.
    fn noticed(&self, at: Time, moment: Moment) -> bool {
        let due = at.round_up(self.rules.2);
        if self.replanned { due < moment.now } else { due <= moment.before }
    }

    /// The present job asks for other terms, and gets them.
    pub(crate) fn called(&mut self, job: JobId, call: Call, moment: Moment) {
        assert!(self.is_current(job) && self.handler.is_none(), "job {job} of {:?} calls: {self:?}", self.id);
        let now = (self.task.arrival.period().unwrap_or_default(), self.task.deadline);
        let (before, deadline) = self.mode.map_or(now, |(period, deadline, _)| (period, deadline));
        let (period, deadline) = match call {
            Call::Period(period) => (period, deadline.map(|d| if d == before { period } else { d })),
            Call::Deadline(deadline) => (before, Some(deadline)),
            Call::Runtime(_) => (before, deadline),
        };
        let waits = match self.rules.1 {
            // By Hartstone's rule periods that have passed wait.
            Backlog::Hartstone => self.next.is_some_and(|at| self.noticed(at, moment)),
            _ => self.open.len() > 1,
        };
        if waits {
            self.mode = Some((period, deadline, true));
        } else {
            self.mode = None;
            if self.agree(period, deadline) {
                self.replan(moment.now);
            }
        }
    }

    /// The successor of a completed job, `late` or in time; new periods may have passed that no event marked.
    fn succeed(&mut self, late: bool, judged: Time, moment: Moment, retimed: bool) {
        self.follow.exit = self.leaving;
        match self.rules.1 {
            Backlog::Chronos if late && !self.leaving => match self.open.first_entry() {
                Some(mut next) => next.get_mut().release = moment.now,
                None => self.follow.early = self.next.is_some(),
            },
            Backlog::Hartstone if moment.on_time => {
                // The periods that have begun and were noticed.
                let (mut job, mut next) = (self.next_job, self.next);
                let mut begun: u64 = 0;
                let mut noticed = false;
                self.replanned |= retimed && self.task.arrival.period().is_some();
                while let Some(at) = next.filter(|at| self.noticed(*at, moment)) {
                    noticed = true;
                    begun += u64::from(at < judged);
                    next = self.after(job, at);
                    job += 1;
                }
                self.follow.passed = begun.saturating_sub(1);
                self.follow.late = noticed && !self.leaving;
            }
            _ => {}
        }
    }

    pub(crate) fn exits(&mut self) {
        assert!(!self.gone && self.current().is_none(), "{:?} exits: {self:?}", self.id);
        self.behind = None;
        // A program that still runs is at its abandoned work, unless that was dropped.
        if core::mem::take(&mut self.ended) || self.task.on_abort == OnAbort::Restart {
            self.program = None;
        }
        self.exits_from_table();
        self.gone = true;
        self.leaving = false;
        self.follow = Follow::default();
        self.next = None;
        // The distance counts from the last release, and not from an event that released nothing.
        if !core::mem::take(&mut self.events.planned).is_empty() {
            self.events.last = (self.next_job > 0).then_some(self.last.1);
        }
    }

    /// It comes back, if it was gone.
    pub(crate) fn enters(&mut self, now: Time) {
        if !core::mem::take(&mut self.gone) {
            return;
        }
        self.back = true;
        self.next = match &self.task.arrival {
            Arrival::Periodic { offset, .. } | Arrival::Sporadic { offset, .. } => Some(now + *offset),
            Arrival::Listed { instants } => {
                let missed = instants.iter().filter(|i| Time::ZERO + **i < now).count();
                self.next_job = self.next_job.max(missed as u64);
                instants.get(self.next_job as usize).map(|i| Time::ZERO + *i)
            }
            Arrival::Event { .. } | Arrival::Activated => None,
        };
    }

    /// After a step: nothing that was to follow is lacking, and nothing that was to be released.
    pub(crate) fn settled(&mut self, now: Time) {
        self.replanned = false;
        assert_eq!(self.follow, Follow::default(), "{:?} at {now}", self.id);
        assert_eq!(self.events.lost, 0, "{:?} lost an event at {now} in silence", self.id);
        let (late, backlog, tick) = self.rules;
        let silent = backlog == Backlog::Hartstone && self.current().is_some();
        let lacking = !self.gone && !silent && self.next.is_some_and(|at| at.round_up(tick) <= now);
        assert!(!lacking, "job {} of {:?} was to be released at {:?}", self.next_job, self.id, self.next);
        let queue = self.open.len() + usize::from(self.handler.is_some());
        let most = if matches!(backlog, Backlog::Skip | Backlog::Hartstone) { 1 } else { usize::MAX };
        assert!(queue <= most, "{:?} has a backlog", self.id);
        if late != Late::Continue && self.task.arrival != Arrival::Activated && self.handler.is_none() {
            let deadline = self.current().and_then(|(_, open)| open.deadline);
            let over = deadline.is_some_and(|d| match late {
                Late::Abort => d.max(self.since).round_up(tick) <= now,
                _ => d < now,
            });
            assert!(!over, "{:?} should have been aborted: {self:?}", self.id);
        }
    }

    /// The run is over: the counts, and how many jobs are undecided.
    pub(crate) fn closed(&mut self, end: Time) -> (Counts, u64) {
        // Hartstone notices a miss only when the late job ends.
        let notices = self.rules.1 != Backlog::Hartstone;
        if self.task.arrival == Arrival::Activated {
            return (self.counts, u64::from(self.table.is_some_and(|(_, missed)| !missed)));
        }
        let late = self.open.values().filter(|o| notices && o.deadline.is_some_and(|d| d <= end)).count() as u64;
        self.counts.missed += late;
        (self.counts, self.open.len() as u64 - late)
    }
}
