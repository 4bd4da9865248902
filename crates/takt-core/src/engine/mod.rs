//! The engine: everything a policy needs and no policy should write again.
//!
//! It owns jobs, releases, absolute deadlines, budgets, timers, resources, the current assignment, the counters and
//! the trace records. A driver hands in time and what it saw ([`Engine::step`]); the engine tells the policy, asks it
//! once for a decision, and returns the difference to the previous assignment as the smallest list of commands.
//!
//! The order within one instant is fixed: what the driver saw (completions first, as it lists them), then budgets that
//! are used up, absolute deadlines, the policy's timers, releases; equal ones in the order of task or timer number.
//! A completion at the deadline meets it, and a budget that ends with its window is used up, not overrun.
//!
//! Each step costs O(events × (log n + policy)) + O(m) for n tasks and m CPUs. Of r resources and w jobs that wait for one: the
//! end of a job adds O(r), a resource given back O(w), a request that has to wait O(n), and a step under [`Late::AbortAtEvent`]
//! O(n), also for each pass in which it aborts jobs.

mod assignment;
mod budgets;
mod calls;
mod context;
mod inputs;
mod jobs;
mod messages;
mod switching;
mod timers;
mod view;
mod waiting;

pub(crate) use context::Alarm;
pub use context::Context;
pub use messages::{Command, Ending, Input, Work};

use crate::cpus::CpuSet;
use crate::model::{Arrival, Backlog, Completion, Invalid, Late, Load, ResourceId, Step, System, Task, TaskId};
use crate::policy::{Build, Clock, Decision, Event, Policy};
use crate::queue::Agenda;
use crate::record::{JobId, Outcome, Place, Record, Sink, StopReason, What};
use crate::stats::Counts;
use crate::time::{Span, Time};
use crate::utility::Utility;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
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
enum Departure {
    /// It leaves ([`Input::Leave`]): jobs that wait are missed.
    Left,
    /// Its program has ended regularly: jobs that wait are not counted.
    Ended,
    /// Its program has failed: jobs that wait are missed, and so are those to come.
    Failed,
}

/// A job of a window table that has not been completed.
#[derive(Clone, Copy, Debug)]
struct Open {
    release: Time,
    /// Its first activation was cut off.
    missed: bool,
    /// Whether it is counted at all ([`System::horizon`]).
    counted: bool,
}

/// The changing state of a task.
#[derive(Clone, Debug)]
struct Run {
    phase: Phase,
    /// Number of the current job, or of the last one when idle.
    job: JobId,
    release: Time,
    /// When the current job was to be released; `release` may be another instant by the rule for late jobs.
    planned: Time,
    /// What the releases that follow are reckoned from: that instant, or that of a later job that was skipped, unless a call
    /// moved them.
    base: Time,
    deadline: Time,
    /// The relative deadline that it began with; that of the task may have changed since.
    relative: Option<Span>,
    /// The current job was aborted and its handler is at work.
    handler: bool,
    /// The factor on what the current job needs, and what it is declared to need, or its handler.
    load: u32,
    declared: Option<Span>,
    consumed: Span,
    /// The job whose work the program is at; `None` between two jobs. While it is an earlier job than the current one, the task is
    /// behind; in a window table it is the number of the job's first activation.
    at: Option<JobId>,
    /// How much of `consumed` went into the work of an earlier job.
    abandoned: Span,
    /// In a window table, the job that the present activation belongs to.
    open: Option<Open>,
    /// The task is a process of a window table.
    activated: bool,
    /// The program has signalled a completion.
    signals: bool,
    /// Consumption is accounted up to here while it runs.
    since: Time,
    budget: Option<Span>,
    clock: Clock,
    metered: bool,
    /// How many budgets it was granted, and how much later than planned the end of the present one is noticed.
    grants: u64,
    lateness: Span,
    /// What is added to that by [`Input::Skew`].
    skew: Span,
    /// How much the present budget was.
    granted: Span,
    place: Option<Place>,
    last_place: Option<Place>,
    /// The job has not run yet.
    fresh: bool,
    /// The job that last ran here is over, and its stop has been recorded.
    stop_recorded: bool,
    /// Number of the next job to arrive.
    next_job: JobId,
    /// When that is released.
    next_release: Option<Time>,
    /// Jobs that have arrived and wait for their predecessors; by Hartstone's rule, periods that have passed.
    pending: u64,
    mode: Option<calls::Mode>,
    /// Why it has no further job when its present one is over.
    leaving: Option<Departure>,
    /// What the policy said of its urgency when it last ranked it.
    urgency: i64,
    waits_for: Option<ResourceId>,
    /// Decision round in which it was last chosen, and where.
    round: u64,
    wanted: Place,
    /// Decision round in which something of it was last due.
    due: u64,
    counts: Counts,
}

impl Run {
    /// The state of a task before its first job.
    fn new(arrival: &Arrival) -> Run {
        let first = arrival.first();
        Run {
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
            consumed: Span::ZERO,
            at: None,
            abandoned: Span::ZERO,
            open: None,
            activated: matches!(arrival, Arrival::Activated),
            signals: false,
            since: Time::ZERO,
            budget: None,
            clock: Clock::Elapsed,
            metered: false,
            grants: 0,
            lateness: Span::ZERO,
            skew: Span::ZERO,
            granted: Span::ZERO,
            place: None,
            last_place: None,
            fresh: true,
            stop_recorded: false,
            next_job: 0,
            next_release: first,
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
    /// Brings consumption and budget up to `now`.
    #[inline]
    fn account(&mut self, now: Time) {
        self.spend(self.unaccounted(now));
        self.since = now;
    }
    /// What it has consumed since it was last brought up to date, unless a driver measures that.
    #[inline]
    fn unaccounted(&self, now: Time) -> Span {
        let runs = self.place.is_some() && self.phase == Phase::Ready;
        if runs && !(self.metered && self.clock == Clock::Cpu) { now - self.since } else { Span::ZERO }
    }
    #[inline]
    fn spend(&mut self, span: Span) {
        self.consumed += span;
        if let Some(left) = &mut self.budget {
            *left -= span;
        }
    }
    /// How much later than its budget is used up that is noticed; below zero it is earlier, but by no more than half of it, or
    /// the rest of a burst could be granted again and again in ever shorter pieces.
    #[inline]
    fn notice(&self) -> Span {
        (self.lateness + self.skew).max(-(self.granted / 2))
    }
    #[inline]
    fn has_job(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Blocked)
    }
    /// The task's program has ended, and no other takes its place.
    #[inline]
    fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone | Phase::Failed)
    }
    /// The program is still at the work of an earlier job.
    #[inline]
    fn is_behind(&self) -> bool {
        self.at.is_some_and(|at| at != self.job)
    }
    /// What of `consumed`, and of `unaccounted` besides, was the current job's own work.
    #[inline]
    fn own(&self, unaccounted: Span) -> Span {
        if self.is_behind() { Span::ZERO } else { self.consumed + unaccounted - self.abandoned }
    }
}

#[derive(Clone, Debug, Default)]
struct Resource {
    owner: Option<TaskId>,
    /// In the order of asking.
    waiters: VecDeque<TaskId>,
    /// The tasks whose steps lock it.
    users: Vec<TaskId>,
}

/// A job as a policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its number within its task.
    pub number: JobId,
    /// When it was released.
    pub release: Time,
    /// Its absolute deadline; [`Time::MAX`] without one.
    pub deadline: Time,
    /// What it has consumed so far.
    pub consumed: Span,
    /// Whether it could run now (it is not blocked).
    pub ready: bool,
}

#[derive(Debug)]
struct State {
    system: System,
    places: Vec<CpuSet>,
    /// For each place the indexes of its CPUs; the first places are the single CPUs.
    place_cpus: Vec<Vec<u16>>,
    runs: Vec<Run>,
    agenda: Agenda,
    timers: Vec<timers::Timer>,
    now: Time,
    /// Of which tasks something was due in this step.
    due: Vec<TaskId>,
    /// The tasks whose programs are to be replaced since the last decision.
    replace: Vec<TaskId>,
    /// The tasks that have no program ([`Input::Hold`]).
    held: Vec<TaskId>,
    /// Since the last decision, abandoned work was done while its task was dispatched.
    own_work_begins: bool,
    events: Vec<Event>,
    /// Empty; takes turns with `events`.
    spare: Vec<Event>,
    resources: Vec<Resource>,
    /// Who runs on each CPU, and who ran there last.
    cpu_task: Vec<Option<TaskId>>,
    cpu_last: Vec<Option<TaskId>>,
    cpu_round: Vec<u64>,
    running: Vec<TaskId>,
    round: u64,
    context_switches: u64,
    windows_lost: u64,
    deadlocks: u64,
    visited: u64,
    alive: usize,
    /// Tasks whose programs have failed.
    failed: usize,
    /// Whether the sink of this step wants records.
    recording: bool,
    /// The run is at its end: nothing is released any more.
    closing: bool,
}

/// A scheduling engine: one system under one policy.
pub struct Engine {
    state: State,
    policy: Box<dyn Policy>,
    lent: Vec<Place>,
    decision: Decision,
    commands: Vec<Command>,
    started: bool,
}

impl Engine {
    /// Builds the engine and its policy. Later memory is allocated only where a policy or a setting of it is changed
    /// ([`Input::Switch`], [`Input::Configure`], [`Engine::switch_policy`]).
    ///
    /// # Errors
    /// When the system breaks a rule of [`System::validate`] or the policy cannot schedule it.
    pub fn new(system: System) -> Result<Engine, Invalid> {
        system.validate()?;
        let places = system.places();
        let cpus: Vec<usize> = system.cpus.iter().collect();
        let lent: Vec<Place> = (0..cpus.len()).map(|i| Place(i as u16)).collect();
        let tasks: Vec<TaskId> = (0..system.tasks.len()).map(|i| TaskId(i as u32)).collect();
        let spec = system.policy;
        let build = Build { system: &system, tasks: &tasks, places: &lent, spec, first_timer: 0 };
        let policy = build.policy()?;
        let n = system.tasks.len();
        let mut agenda = Agenda::new(3 * n + usize::from(policy.timers()));
        for (i, task) in system.tasks.iter().enumerate() {
            if let Some(first) = task.arrival.first() {
                agenda.set(slot_release(n, policy.timers(), i), first.round_up(system.timing.tick));
            }
        }
        let place_cpus =
            places.iter().map(|set| (0..cpus.len()).filter(|&i| set.contains(cpus[i])).map(|i| i as u16).collect());
        let most = n.min(cpus.len());
        let locks = |task: &Task, r: u16| task.steps.contains(&Step::Lock(ResourceId(r)));
        let users = |r: u16| tasks.iter().copied().filter(|t| locks(&system.tasks[t.index()], r)).collect();
        let most_events = 4 * n + 3 * usize::from(system.resources) + 16;
        let state = State {
            place_cpus: place_cpus.collect(),
            places,
            runs: system.tasks.iter().map(|t| Run::new(&t.arrival)).collect(),
            agenda,
            timers: vec![timers::Timer::default(); usize::from(policy.timers())],
            now: Time::ZERO,
            due: Vec::with_capacity(n),
            replace: Vec::with_capacity(n),
            held: Vec::with_capacity(n),
            own_work_begins: false,
            events: Vec::with_capacity(most_events),
            spare: Vec::with_capacity(most_events),
            resources: (0..system.resources)
                .map(|r| Resource { owner: None, waiters: VecDeque::with_capacity(n), users: users(r) })
                .collect(),
            cpu_task: vec![None; cpus.len()],
            cpu_last: vec![None; cpus.len()],
            cpu_round: vec![0; cpus.len()],
            running: Vec::with_capacity(most),
            round: 0,
            context_switches: 0,
            windows_lost: 0,
            deadlocks: 0,
            visited: 0,
            alive: n,
            failed: 0,
            recording: true,
            closing: false,
            system,
        };
        Ok(Engine {
            state,
            policy,
            lent,
            decision: Decision { assignments: Vec::with_capacity(most) },
            commands: Vec::with_capacity(2 * most + n),
            started: false,
        })
    }

    /// The next instant at which the engine has something to do by itself. O(1).
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        if !self.started {
            return Some(Time::ZERO);
        }
        self.state.agenda.first().map(|(at, _)| at)
    }

    /// As [`Engine::next_due`], for a driver that looks at the ends of budgets from `earliest` on only, because it shares a CPU with
    /// the jobs that it measures. Everything else is due when it is due. O(log tasks).
    #[must_use]
    pub fn next_due_with_budgets_from(&self, earliest: Time) -> Option<Time> {
        let first = self.state.agenda.first().filter(|_| self.started);
        match first {
            // The slots of budgets come first.
            Some((at, slot)) if slot < self.state.runs.len() => {
                Some(at.max(earliest).min(self.state.agenda.first_from(self.state.runs.len())))
            }
            _ => self.next_due(),
        }
    }

    /// Lets everything of the instant `now` happen: `inputs`, then all that is due by `now`, then one decision.
    /// Returns what the driver must do, in this order.
    ///
    /// # Panics
    /// When time runs backwards, or when the policy puts one job on two places, two jobs on one CPU, or a job where it
    /// may not run: these are faults of the program, not of its input.
    #[inline]
    pub fn step<S: Sink>(&mut self, now: Time, inputs: &[Input], sink: &mut S) -> &[Command] {
        let state = &mut self.state;
        assert!(now >= state.now, "time runs backwards: {now} after {}", state.now);
        state.now = now;
        state.visited = 0;
        state.due.clear();
        state.recording = sink.wants_records();
        if !self.started {
            self.started = true;
            self.policy.start(&mut Context { state, sink });
            deliver(state, &mut *self.policy, sink);
        }
        for input in inputs {
            match *input {
                Input::Configure { setting, value } => {
                    self.configure(setting, value, sink);
                    continue;
                }
                Input::Switch { domain, to } => {
                    self.switch(domain, to, sink);
                    continue;
                }
                Input::Call { task, call } => {
                    self.call(task, call, sink);
                    continue;
                }
                _ => {}
            }
            let state = &mut self.state;
            state.input(input, sink);
            deliver(state, &mut *self.policy, sink);
        }
        let (state, policy) = (&mut self.state, &mut *self.policy);
        loop {
            while let Some((at, slot)) = state.agenda.first().filter(|(at, _)| *at <= now) {
                state.due(at, slot, sink);
                deliver(state, policy, sink);
            }
            if state.system.late != Late::AbortAtEvent {
                break;
            }
            // One at a time, since what an abort gives back may go to another late job. Successors may be late, too, or due.
            let mut next = 0;
            while let Some(index) = state.abort_expired(next, sink) {
                deliver(state, policy, sink);
                next = index + 1;
            }
            if next == 0 {
                break;
            }
        }
        self.decide(sink)
    }

    /// Ends the run: `inputs` that arrive at its very end still count, and so do budgets, deadlines and windows that end
    /// with it; nothing is released or decided any more. Jobs whose deadline has come by then and that are unfinished are
    /// missed; the others stay undecided.
    ///
    /// # Panics
    /// When time runs backwards.
    pub fn close<S: Sink>(&mut self, end: Time, inputs: &[Input], sink: &mut S) {
        let state = &mut self.state;
        assert!(end >= state.now, "time runs backwards: {end} after {}", state.now);
        state.now = end;
        state.closing = true;
        state.recording = sink.wants_records();
        // Nobody decides by a setting, or by other terms, any more.
        let passed = |i: &&Input| matches!(i, Input::Configure { .. } | Input::Switch { .. } | Input::Call { .. });
        for input in inputs.iter().filter(|i| !passed(i)) {
            state.input(input, sink);
            // The policy learns of a budget that ends now, and must know by then which jobs are over.
            deliver(state, &mut *self.policy, sink);
        }
        let n = state.runs.len();
        while let Some((at, slot)) = state.agenda.first().filter(|(at, _)| *at <= end) {
            if slot < 2 * n {
                state.due(at, slot, sink);
                deliver(state, &mut *self.policy, sink);
            } else {
                state.agenda.remove(slot);
            }
        }
        for i in 0..n {
            let activated = state.is_activated(TaskId(i as u32));
            if activated && state.runs[i].has_job() && state.runs[i].deadline <= end {
                state.end_job(TaskId(i as u32), Outcome::Overrun, false, sink);
            }
            let (job, place) = (state.runs[i].job, state.runs[i].place);
            if let (Some(place), false) = (place, state.runs[i].stop_recorded) {
                let stop = What::Stop { task: TaskId(i as u32), job, place, reason: StopReason::Suspended };
                state.record(sink, stop);
            }
            // Hartstone notices a miss when the late job ends, which it did not.
            if !state.runs[i].has_job() || state.system.backlog == Backlog::Hartstone {
                continue;
            }
            let deadline = state.system.tasks[i].deadline;
            let due = |at: Time| at <= end && state.counted(Some(at));
            let mut missed = u64::from(!state.runs[i].handler && due(state.runs[i].deadline));
            let mut planned = state.runs[i].base;
            for job in state.runs[i].job..state.runs[i].job + state.runs[i].pending {
                planned =
                    state.next_release(TaskId(i as u32), job, planned).expect("a job that has arrived was planned");
                missed += u64::from(deadline.is_some_and(|d| due(planned + d)));
            }
            state.runs[i].counts.missed += missed;
        }
    }

    #[inline]
    fn decide<S: Sink>(&mut self, sink: &mut S) -> &[Command] {
        let Engine { state, policy, lent, decision, commands, .. } = self;
        decision.assignments.clear();
        commands.clear();
        if !(state.held.is_empty() && state.replace.is_empty()) {
            without_programs(state, &mut **policy, commands, sink);
        }
        policy.decide(lent, &mut Context { state, sink }, decision);
        assert!(state.events.is_empty(), "a policy ends jobs when it is told of events, not while it decides");
        state.apply(decision, commands, sink);
        commands
    }
}

/// Blocks the jobs of tasks that have no program, and asks for the programs that are to be replaced.
#[cold]
fn without_programs<S: Sink>(state: &mut State, policy: &mut dyn Policy, commands: &mut Vec<Command>, sink: &mut S) {
    state.block_held(sink);
    deliver(state, policy, sink);
    commands.extend(state.replace.drain(..).map(|task| Command::Replace { task }));
}

/// Hands the waiting events to the policy, and then those that its own reactions cause.
#[inline]
fn deliver<S: Sink>(state: &mut State, policy: &mut dyn Policy, sink: &mut S) {
    while !state.events.is_empty() {
        // The two lists take turns, so that an event is read where it was written: copying one costs a stall.
        let spare = core::mem::take(&mut state.spare);
        let mut events = core::mem::replace(&mut state.events, spare);
        for event in &events {
            policy.event(event, &mut Context { state, sink });
        }
        events.clear();
        state.spare = events;
    }
}

fn slot_release(tasks: usize, timers: u16, task: usize) -> usize {
    2 * tasks + usize::from(timers) + task
}

impl State {
    #[inline]
    fn record(&self, sink: &mut dyn Sink, what: What) {
        self.record_at(self.now, sink, what);
    }

    #[inline]
    fn record_at(&self, at: Time, sink: &mut dyn Sink, what: What) {
        if self.recording {
            sink.record(Record { at, what });
        }
    }

    fn job(&self, task: TaskId) -> Option<Job> {
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
    fn is_activated(&self, task: TaskId) -> bool {
        self.runs[task.index()].activated
    }

    /// Whether the completions of the task's jobs are signalled, as far as is known.
    fn signals(&self, task: TaskId) -> bool {
        let declared = self.system.tasks[task.index()].completion;
        self.runs[task.index()].signals || matches!(declared, Completion::Signal | Completion::Exit)
    }

    fn budget_left(&self, task: TaskId) -> Option<Span> {
        let run = &self.runs[task.index()];
        run.budget.map(|left| left - run.unaccounted(self.now))
    }

    /// Whether a job with this deadline is counted.
    #[inline]
    fn counted(&self, deadline: Option<Time>) -> bool {
        match (self.system.horizon, deadline) {
            (Some(horizon), Some(deadline)) => deadline <= horizon,
            _ => true,
        }
    }

    /// Counts a job that comes into being.
    #[inline]
    fn count_release(&mut self, task: TaskId, deadline: Option<Time>) {
        if self.counted(deadline) {
            let counts = &mut self.runs[task.index()].counts;
            counts.released += 1;
            let utility = self.system.tasks[task.index()].utility.as_ref();
            counts.utility_total += u128::from(utility.unwrap_or(&Utility::DEFAULT).height());
        }
    }

    #[inline]
    fn next_release(&self, task: TaskId, job: JobId, release: Time) -> Option<Time> {
        self.system.tasks[task.index()].arrival.next(self.system.seed, task, job, release)
    }
}
