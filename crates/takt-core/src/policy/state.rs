//! The state of a system under an engine: jobs, resources, the current assignment, and what is to come. The engine changes it; a policy
//! sees it through [`Context`](super::Context).

use super::decision::Clock;
use super::event::Event;
use crate::cpus::CpuSet;
use crate::input::Reply;
use crate::model::{Arrival, Backlog, Completion, Late, Load, ResourceId, System, Task, TaskId, Terms, Timing};
use crate::queue::Agenda;
use crate::record::{JobId, Place, Record, RecordKind, Sink};
use crate::rng;
use crate::stats::Counts;
use crate::time::{Span, Time};
use crate::utility::Utility;
use crate::work::{Speed, Work};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// A job as a policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its number within its task.
    pub number: JobId,
    /// When it was released.
    pub release: Time,
    /// Its absolute deadline; [`Time::MAX`] without one.
    pub deadline: Time,
    /// The work that it has done so far.
    pub consumed: Work,
    /// Whether it could run now (it is not blocked).
    pub ready: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// No job.
    Idle,
    /// A job that can run (and does, if it has a place).
    Ready,
    /// A job that waits for something other than a CPU.
    Blocked,
    /// The task's program has ended regularly, or the task has left.
    Gone,
    /// The task's program has failed: its jobs are missed.
    Failed,
}

/// Why a task has no further jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Departure {
    /// It leaves ([`Input::Leave`](crate::engine::Input::Leave)): jobs that wait are missed.
    Left,
    /// Its program has ended regularly: jobs that wait are not counted.
    Ended,
    /// Its program has failed: jobs that wait are missed, and so are those to come.
    Failed,
}

/// A job of a window table that has not been completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) release: Time,
    /// Its first activation was cut off.
    pub(crate) missed: bool,
    /// Whether it is counted at all ([`System::horizon`]).
    pub(crate) counted: bool,
}

/// The changing state of a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskState {
    pub(crate) phase: Phase,
    /// Number of the current job, or of the last one when idle.
    pub(crate) job: JobId,
    pub(crate) release: Time,
    /// When the current job was to be released; `release` may be another instant by the rule for late jobs.
    pub(crate) planned: Time,
    /// The origin of the releases that follow: that instant, or that of a later job that was skipped, unless a call
    /// moved them.
    pub(crate) base: Time,
    pub(crate) deadline: Time,
    /// The relative deadline that it began with; that of the task may have changed since.
    pub(crate) relative: Option<Span>,
    /// The current job was aborted and its handler is at work.
    pub(crate) handler: bool,
    /// The factor on what the current job needs, and what it is declared to need, or its handler.
    pub(crate) load: u32,
    pub(crate) declared: Option<Work>,
    /// The work that the current job has done, as it was accounted for.
    pub(crate) consumed: Work,
    /// The job whose work the program is at; `None` between two jobs. While it is an earlier job than the current one, the task is
    /// behind; in a window table it is the number of the job's first activation.
    pub(crate) at: Option<JobId>,
    /// How much of `consumed` went into the work of an earlier job.
    pub(crate) abandoned: Work,
    /// In a window table, the job that the present activation belongs to.
    pub(crate) open: Option<Open>,
    /// The task is a process of a window table.
    pub(crate) activated: bool,
    /// The program has signalled a completion.
    pub(crate) signals: bool,
    /// Consumption is accounted up to here while it runs.
    pub(crate) since: Time,
    pub(crate) budget: Option<Span>,
    pub(crate) clock: Clock,
    pub(crate) metered: bool,
    /// The present budget is the task's own: when it is exhausted, the job is given up, and the policy is not asked.
    pub(crate) own: bool,
    /// How many budgets it was granted, and how much later than planned the end of the present one is noticed.
    pub(crate) grants: u64,
    pub(crate) lateness: Span,
    /// The addition to that by [`Input::Skew`](crate::engine::Input::Skew).
    pub(crate) skew: Span,
    /// How much the present budget was.
    pub(crate) granted: Span,
    pub(crate) place: Option<Place>,
    /// The speed of that place.
    pub(crate) speed: Speed,
    pub(crate) last_place: Option<Place>,
    /// The job has not run yet.
    pub(crate) fresh: bool,
    /// The job that last ran here is over, and its stop has been recorded.
    pub(crate) stop_recorded: bool,
    /// Number of the next job to arrive.
    pub(crate) next_job: JobId,
    /// When that is released.
    pub(crate) next_release: Option<Time>,
    /// The instants at which events release jobs, by job number modulo its length; empty for other arrivals.
    pub(crate) events: Vec<Time>,
    /// The number of the job of the next event.
    pub(crate) next_event: JobId,
    /// Jobs that have arrived and wait for their predecessors; by Hartstone's rule, periods that have passed.
    pub(crate) pending: u64,
    pub(crate) mode: Option<Mode>,
    /// Why it has no further job when its present one is over.
    pub(crate) leaving: Option<Departure>,
    /// The urgency by the policy's last ranking.
    pub(crate) urgency: i64,
    pub(crate) waits_for: Option<ResourceId>,
    /// Decision round in which it was last chosen, and where.
    pub(crate) round: u64,
    pub(crate) wanted: Place,
    /// Decision round in which something of it was last due.
    pub(crate) due: u64,
    pub(crate) counts: Counts,
}

impl TaskState {
    /// The state of a task before its first job.
    pub(crate) fn new(arrival: &Arrival) -> TaskState {
        let first = arrival.first();
        TaskState {
            phase: Phase::Idle,
            job: 0,
            release: Time::ZERO,
            planned: Time::ZERO,
            base: Time::ZERO,
            deadline: Time::MAX,
            relative: None,
            handler: false,
            load: Load::ONE,
            declared: None,
            consumed: Work::ZERO,
            at: None,
            abandoned: Work::ZERO,
            open: None,
            activated: matches!(arrival, Arrival::Activated),
            signals: false,
            since: Time::ZERO,
            budget: None,
            clock: Clock::Elapsed,
            metered: false,
            own: false,
            grants: 0,
            lateness: Span::ZERO,
            skew: Span::ZERO,
            granted: Span::ZERO,
            place: None,
            speed: Speed::NOMINAL,
            last_place: None,
            fresh: true,
            stop_recorded: false,
            next_job: 0,
            next_release: first,
            events: match arrival {
                Arrival::Event { queue, .. } => vec![Time::ZERO; *queue as usize],
                _ => Vec::new(),
            },
            next_event: 0,
            pending: 0,
            mode: None,
            leaving: None,
            urgency: 0,
            waits_for: None,
            round: 0,
            wanted: Place(0),
            due: u64::MAX,
            counts: Counts::default(),
        }
    }
    /// The state of a task that is in the system from the beginning, or whose number is free.
    pub(crate) fn at_start(arrival: &Arrival, is_there: bool) -> TaskState {
        let mut state = TaskState::new(arrival);
        if !is_there {
            (state.phase, state.next_release) = (Phase::Gone, None);
        }
        state
    }
    /// The task is a process of a window table.
    #[inline]
    pub(crate) fn is_activated(&self) -> bool {
        cfg!(feature = "multiprocessor") && self.activated
    }
    /// Whether work is done at nominal speed.
    #[inline]
    pub(crate) fn is_nominal(&self) -> bool {
        !cfg!(feature = "multiprocessor") || self.speed == Speed::NOMINAL
    }
    /// When an event releases this job; `None` before the event.
    pub(crate) fn event(&self, job: JobId) -> Option<Time> {
        (job < self.next_event).then(|| self.events[job as usize % self.events.len()])
    }
    /// Something of this task, whose state it is, is due in the step before decision `round`: it is in the list once.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn note_due(&mut self, task: TaskId, round: u64, due: &mut Vec<TaskId>) {
        if self.due != round {
            self.due = round;
            due.push(task);
        }
    }
    /// A job of the task begins to exist, as if it was released at `release`. Its load is that of a system without one.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn begin(&mut self, described: &Task, release: Time, planned: Time, deadline: Time, now: Time) {
        self.phase = Phase::Ready;
        self.release = release;
        (self.planned, self.base) = (planned, planned);
        self.deadline = deadline;
        self.relative = described.deadline;
        self.handler = false;
        self.load = Load::ONE;
        self.declared = described.runtime.map(Work::nominal);
        (self.consumed, self.abandoned) = (Work::ZERO, Work::ZERO);
        self.since = now;
        self.budget = None;
        self.metered = false;
        self.fresh = true;
    }
    /// Counts that the current job is completed at `now`, for its utility and its deadline.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn count_completion(&mut self, described: &Task, now: Time, in_time: bool) {
        let counts = &mut self.counts;
        counts.completed += 1;
        counts.utility += u128::from(match &described.utility {
            None | Some(Utility::Step(_)) if !in_time => 0,
            None => Utility::DEFAULT.height(),
            Some(Utility::Step(height)) => *height,
            Some(function) => function.at(now - self.planned, self.relative),
        });
        *(if in_time { &mut counts.met } else { &mut counts.missed }) += 1;
    }
    /// The current job is over: it has no budget, and a place that it still has is one whose stop is to be recorded. Returns whether it had a
    /// budget, and that place.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn end(&mut self) -> (bool, Option<Place>) {
        self.phase = Phase::Idle;
        let limited = self.budget.take().is_some();
        let stop = self.place.filter(|_| !self.stop_recorded && !self.fresh);
        self.stop_recorded |= stop.is_some();
        (limited, stop)
    }
    /// Whether the completion of `job` is that of the current job, which runs.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn completes(&self, job: JobId) -> bool {
        self.at == Some(job) && self.job == job && self.has_job() && !self.fresh
    }
    /// Whether only the next planned release follows the end of the current job, which the engine released.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn ends_alone(&self) -> bool {
        let special = self.is_activated() | self.handler | self.waits_for.is_some();
        !(special | self.mode.is_some() | self.leaving.is_some() | (self.pending > 0))
    }
    /// Brings consumption and budget up to `now`.
    #[inline]
    pub(crate) fn account(&mut self, now: Time) {
        let since = core::mem::replace(&mut self.since, now);
        if !self.is_counted() {
            return;
        }
        let held = now - since;
        if !self.is_nominal() {
            return self.account_at_speed(held);
        }
        self.spend(Work::nominal(held));
    }
    #[cold]
    fn account_at_speed(&mut self, held: Span) {
        let work = self.speed.work_in(held);
        self.consumed += work;
        let used = if self.clock == Clock::Cpu { work.nominal_time() } else { held };
        self.budget = self.budget.map(|left| left - used);
    }
    /// Whether the time that it holds its place is what it does: it runs, and no driver measures it.
    #[inline]
    fn is_counted(&self) -> bool {
        self.place.is_some() && self.phase == Phase::Ready && !(self.metered && self.clock == Clock::Cpu)
    }
    /// For how long it has held its place since it was last brought up to date, unless a driver measures what it does.
    #[inline]
    fn held(&self, now: Time) -> Span {
        if self.is_counted() { now - self.since } else { Span::ZERO }
    }
    /// The work that it has done since it was last brought up to date, unless a driver measures that.
    #[inline]
    pub(crate) fn unaccounted(&self, now: Time) -> Work {
        let held = self.held(now);
        if cfg!(feature = "multiprocessor") { self.speed.work_in(held) } else { Work::nominal(held) }
    }
    /// The job has done so much work, or less, beyond what was known, and has used as much of its budget.
    #[inline]
    pub(crate) fn spend(&mut self, work: Work) {
        self.consumed += work;
        if let Some(left) = &mut self.budget {
            *left -= work.nominal_time();
        }
    }
    /// The rest of its budget.
    #[inline]
    pub(crate) fn left(&self, now: Time) -> Option<Span> {
        let held = self.held(now);
        let scaled = !self.is_nominal() && self.clock == Clock::Cpu;
        let used = if scaled { self.speed.work_in(held).nominal_time() } else { held };
        self.budget.map(|left| left - used)
    }
    /// How long the rest of a budget, and so much more, lasts where it is.
    #[inline]
    pub(crate) fn lasts(&self, left: Span) -> Span {
        let scaled = !self.is_nominal() && self.clock == Clock::Cpu;
        if scaled { self.speed.time_for(Work::nominal(left)) } else { left }
    }
    /// How much later than its budget is exhausted that is noticed; below zero it is earlier, but by no more than half of it, or
    /// the rest of a burst could be granted again and again in ever shorter pieces.
    #[inline]
    pub(crate) fn notice(&self) -> Span {
        let later = self.lateness + self.skew;
        if later >= Span::ZERO { later } else { later.max(-(self.granted / 2)) }
    }
    #[inline]
    pub(crate) fn has_job(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Blocked)
    }
    /// The task's program has ended, and no other takes its place.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone | Phase::Failed)
    }
    /// The program is still at the work of an earlier job.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.at.is_some_and(|at| at != self.job)
    }
    /// The part of `consumed`, and of `unaccounted` besides, that was the current job's own work.
    #[inline]
    pub(crate) fn own(&self, unaccounted: Work) -> Work {
        if self.is_behind() { Work::ZERO } else { self.consumed + unaccounted - self.abandoned }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Resource {
    pub(crate) owner: Option<TaskId>,
    /// In the order of asking.
    pub(crate) waiters: VecDeque<TaskId>,
    /// The tasks whose steps lock it.
    pub(crate) users: Vec<TaskId>,
}

/// A mode change that waits for the end of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) period: Span,
    pub(crate) deadline: Option<Span>,
    /// The task asked for it by a call: its next release is computed again.
    pub(crate) called: bool,
}

/// One timer of the policy.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Timer {
    /// The instant that the policy receives: the planned one, on the tick.
    pub(crate) due: Time,
    /// How often it was set.
    pub(crate) set: u64,
}

/// A CPU of the system.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cpu {
    /// The task that runs there.
    pub(crate) task: Option<TaskId>,
    /// The task that ran there last.
    pub(crate) last: Option<TaskId>,
    /// Decision round in which a task was last chosen for it.
    pub(crate) round: u64,
}

/// A list of the engine's state.
#[cfg(not(feature = "shared-panics"))]
pub(crate) type List<T> = Vec<T>;

#[cfg(feature = "shared-panics")]
pub(crate) use list::List;

#[cfg(feature = "shared-panics")]
mod list {
    use alloc::vec::Vec;

    /// A list with one place in which all indexes beyond it end. With a place for each index, the checks take a tenth of a microcontroller's image.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub(crate) struct List<T>(pub(crate) Vec<T>);

    impl<T> core::ops::Deref for List<T> {
        type Target = Vec<T>;
        #[inline]
        fn deref(&self) -> &Vec<T> {
            &self.0
        }
    }

    impl<T> core::ops::DerefMut for List<T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut Vec<T> {
            &mut self.0
        }
    }

    impl<T> FromIterator<T> for List<T> {
        fn from_iter<I: IntoIterator<Item = T>>(all: I) -> List<T> {
            List(all.into_iter().collect())
        }
    }

    impl<T> core::ops::Index<usize> for List<T> {
        type Output = T;
        #[inline]
        #[cfg_attr(not(target_os = "none"), track_caller)]
        fn index(&self, index: usize) -> &T {
            match self.0.get(index) {
                Some(entry) => entry,
                None => beyond(),
            }
        }
    }

    impl<T> core::ops::IndexMut<usize> for List<T> {
        #[inline]
        #[cfg_attr(not(target_os = "none"), track_caller)]
        fn index_mut(&mut self, index: usize) -> &mut T {
            match self.0.get_mut(index) {
                Some(entry) => entry,
                None => beyond(),
            }
        }
    }

    #[cold]
    #[inline(never)]
    #[cfg_attr(not(target_os = "none"), track_caller)]
    fn beyond() -> ! {
        panic!("an index beyond the list")
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) system: System,
    /// The system has none of the features that [`State::note_quiet`] lists, so that the common path of a step may skip all of them at once.
    pub(crate) quiet: bool,
    pub(crate) places: Vec<CpuSet>,
    /// The speeds of the places; empty if all have the nominal one.
    pub(crate) speeds: Vec<Speed>,
    /// For each place the indexes of its CPUs; the first places are the single CPUs.
    pub(crate) place_cpus: Vec<Vec<u16>>,
    pub(crate) runs: List<TaskState>,
    pub(crate) agenda: Agenda,
    pub(crate) timers: Vec<Timer>,
    /// How many tasks there is room for.
    pub(crate) room: usize,
    /// How often the set of tasks has changed.
    pub(crate) generation: u64,
    /// How often a domain has received another policy.
    pub(crate) domain_switches: u64,
    /// How often a policy has taken over from another one, of the whole system or of a domain.
    pub(crate) takeovers: u32,
    /// How often the terms of a task in its description have changed.
    pub(crate) terms_changes: u32,
    /// The counts of tasks whose numbers others have now.
    pub(crate) departed: Option<Counts>,
    pub(crate) now: Time,
    /// The tasks of which something was due in this step.
    pub(crate) due: Vec<TaskId>,
    /// The tasks whose programs are to be replaced since the last decision.
    pub(crate) replace: Vec<TaskId>,
    /// The tasks that have no program ([`Input::Hold`](crate::engine::Input::Hold)).
    pub(crate) held: Vec<TaskId>,
    /// Tasks whose completed jobs are events, and the tasks that these release.
    pub(crate) followers: Vec<(TaskId, TaskId)>,
    /// The replies to programs after this step.
    pub(crate) replies: Vec<Reply>,
    /// Since the last decision, abandoned work was done while its task was dispatched.
    pub(crate) own_work_begins: bool,
    pub(crate) events: Vec<Event>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) running: Vec<TaskId>,
    pub(crate) round: u64,
    pub(crate) context_switches: u64,
    pub(crate) windows_lost: u64,
    pub(crate) deadlocks: u64,
    pub(crate) visited: u64,
    pub(crate) alive: usize,
    /// Tasks whose programs have failed.
    pub(crate) failed: usize,
    /// Whether the sink of this step wants records.
    pub(crate) recording: bool,
    /// The run is at its end: nothing is released any more.
    pub(crate) closing: bool,
    /// The acts of the policy since it was last asked, where this state only mirrors that of another engine.
    #[cfg(feature = "mirror")]
    pub(crate) acts: Option<Vec<super::act::Act>>,
    /// The power policy, where there is one.
    #[cfg(feature = "power")]
    pub(crate) power: Option<alloc::boxed::Box<crate::power::Host>>,
}

pub(crate) fn slot_release(tasks: usize, timers: u16, task: usize) -> usize {
    2 * tasks + usize::from(timers) + task
}

impl State {
    /// Finds out whether the system is quiet: late jobs continue and queue, every job counts, no load scales the work, clocks are exact, CPUs have the nominal
    /// speed, and there are no resources, no releases by completions and no power policy. Called when one of these may have changed. A new feature
    /// that the common path does not handle belongs into this list.
    pub(crate) fn note_quiet(&mut self) {
        let System { late, backlog, horizon, load, timing, .. } = &self.system;
        #[cfg(feature = "power")]
        let powered = self.power.is_some();
        #[cfg(not(feature = "power"))]
        let powered = false;
        // On small processors the common path would take more flash than it saves time.
        self.quiet = cfg!(target_pointer_width = "64")
            && *late == Late::Continue
            && *backlog == Backlog::Queue
            && horizon.is_none()
            && load.is_none()
            && *timing == Timing::default()
            && self.speeds.is_empty()
            && self.followers.is_empty()
            && self.resources.is_empty()
            && !powered;
    }

    /// Whether the common path may be taken. On small processors that is known when the engine is compiled.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn is_quiet(&self) -> bool {
        cfg!(target_pointer_width = "64") && self.quiet
    }

    /// The power policy learns of an event.
    #[cfg(feature = "power")]
    #[inline]
    pub(crate) fn tell_power(&mut self, event: crate::power::Event) {
        let now = self.now;
        if let Some(host) = &mut self.power {
            host.event(&event, now);
        }
    }

    #[inline]
    pub(crate) fn record<S: Sink + ?Sized>(&self, sink: &mut S, what: RecordKind) {
        self.record_at(self.now, sink, what);
    }

    #[inline]
    pub(crate) fn record_at<S: Sink + ?Sized>(&self, at: Time, sink: &mut S, what: RecordKind) {
        if self.recording {
            sink.record(Record { at, kind: what });
        }
    }

    #[inline]
    pub(crate) fn speed(&self, place: Place) -> Speed {
        if !cfg!(feature = "multiprocessor") {
            return Speed::NOMINAL;
        }
        // The usual machine has none.
        self.speeds.get(place.index()).copied().unwrap_or_default()
    }

    pub(crate) fn job(&self, task: TaskId) -> Option<Job> {
        let run = &self.runs[task.index()];
        run.has_job().then(|| Job {
            number: run.job,
            release: run.release,
            deadline: run.deadline,
            consumed: run.consumed + run.unaccounted(self.now),
            ready: run.phase == Phase::Ready,
        })
    }

    /// Whether the task is a process of a window table: its policy releases its jobs.
    #[inline]
    pub(crate) fn is_activated(&self, task: TaskId) -> bool {
        self.runs[task.index()].is_activated()
    }

    /// The rule for the jobs after a late one.
    #[inline]
    pub(crate) fn backlog(&self) -> Backlog {
        if cfg!(feature = "backlogs") { self.system.backlog } else { Backlog::Queue }
    }

    /// The terms agreed last, whether they hold already or wait.
    pub(crate) fn agreed(&self, task: TaskId) -> Terms {
        let terms = self.system.tasks[task.index()].terms();
        match self.runs[task.index()].mode {
            None => terms,
            Some(mode) => Terms { period: terms.period.map(|_| mode.period), deadline: mode.deadline, ..terms },
        }
    }

    /// Whether the completions of the task's jobs are signalled, as far as is known.
    pub(crate) fn signals(&self, task: TaskId) -> bool {
        let declared = self.system.tasks[task.index()].completion;
        self.runs[task.index()].signals || matches!(declared, Completion::Signal | Completion::Exit)
    }

    pub(crate) fn budget_left(&self, task: TaskId) -> Option<Span> {
        self.runs[task.index()].left(self.now)
    }

    /// Whether a job with this deadline is counted.
    #[inline]
    pub(crate) fn counted(&self, deadline: Option<Time>) -> bool {
        self.system.counts(deadline)
    }

    /// Counts a job that comes into being.
    #[inline]
    pub(crate) fn count_release(&mut self, task: TaskId, deadline: Option<Time>) {
        if self.counted(deadline) {
            self.runs[task.index()].counts.release(self.system.tasks[task.index()].height());
        }
    }

    #[inline]
    pub(crate) fn next_release(&self, task: TaskId, job: JobId, release: Time) -> Option<Time> {
        let run = &self.runs[task.index()];
        if !run.events.is_empty() {
            return run.event(job + 1);
        }
        self.system.tasks[task.index()].arrival.next(self.system.seed, task, job, release)
    }

    /// A task's budget for its job number `job`: drawn evenly from `budget ± jitter / 2`.
    pub(crate) fn drawn_budget(&self, task: TaskId, job: JobId) -> Span {
        let t = &self.system.tasks[task.index()];
        let budget = t.budget.unwrap_or(Span::MAX);
        if t.jitter == Span::ZERO {
            return budget;
        }
        let drawn = rng::draw_up_to(t.jitter.ns() as u64, self.system.seed, u64::from(task.0), job);
        budget - t.jitter / 2 + Span::from_ns(drawn as i64)
    }

    /// The remaining part of the task's own budget for its present job, below zero after an overrun.
    #[inline]
    pub(crate) fn own_budget_left(&self, task: TaskId) -> Option<Span> {
        // The usual task has none.
        self.system.tasks[task.index()].budget?;
        self.rest_of_own_budget(task)
    }

    fn rest_of_own_budget(&self, task: TaskId) -> Option<Span> {
        let run = &self.runs[task.index()];
        self.job_budget(task).map(|own| own - (run.consumed + run.unaccounted(self.now)).nominal_time())
    }

    /// The task's own budget for its present job; a handler has no such limit.
    #[inline]
    pub(crate) fn job_budget(&self, task: TaskId) -> Option<Span> {
        let run = &self.runs[task.index()];
        let limited = self.system.tasks[task.index()].budget.is_some() && !run.handler;
        // A job that was released is there for a moment at least.
        limited.then(|| self.drawn_budget(task, run.job).max(Span::from_ns(1)))
    }
}
