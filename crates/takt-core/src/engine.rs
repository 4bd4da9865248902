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
//! Each step costs O(events × (log n + policy)) + O(m) for n tasks and m CPUs.

use crate::cpus::CpuSet;
use crate::model::{Arrival, Backlog, Invalid, Late, Locking, ResourceId, Step, System, Task, TaskId};
use crate::policy::{Budget, Build, Clock, Decision, Event, Policy};
use crate::queue::Agenda;
use crate::record::{JobId, Outcome, Place, Record, Sink, StopReason, What};
use crate::rng;
use crate::stats::Counts;
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

// What is drawn for different purposes must not be the same numbers.
const LATENESS: u64 = 0x4c41_5445_4e45_5353;

/// What a driver saw happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A measurement: the CPU time that the task's current job has used. It comes before the other inputs of its instant.
    /// From the first one on, the engine takes the task's CPU-clock consumption from these and no longer from elapsed time.
    Usage {
        /// Whose.
        task: TaskId,
        /// Since the job's release.
        consumed: Span,
    },
    /// The task signals the completion of its job.
    Complete {
        /// Who.
        task: TaskId,
    },
    /// The task waits for something other than a CPU.
    Block {
        /// Who.
        task: TaskId,
    },
    /// The task can go on.
    Wake {
        /// Who.
        task: TaskId,
    },
    /// The task asks for a resource and blocks if another has it. Waiters get it in the order of asking.
    Request {
        /// Who.
        task: TaskId,
        /// What.
        resource: ResourceId,
    },
    /// The task gives a resource back. Returning what it does not hold changes nothing.
    Return {
        /// Who.
        task: TaskId,
        /// What.
        resource: ResourceId,
    },
    /// The running task lets others run and stays ready.
    Yield {
        /// Who.
        task: TaskId,
    },
    /// From now on the ends of the task's budgets are noticed so much later, or earlier: a late timer, a stretch of code that
    /// cannot be preempted, a task that gives up the rest of its burst.
    Skew {
        /// Whose.
        task: TaskId,
        /// How much.
        by: Span,
    },
    /// The task's wanted share of a CPU and its importance change.
    Share {
        /// Whose.
        task: TaskId,
        /// In millionths.
        share: Option<u32>,
        /// Its importance.
        importance: u32,
    },
    /// A mode change. The declared runtime is changed for the next job that begins; period and relative deadline when the
    /// task's present job ends, or the next one if it has none, and from the release on that follows then. (They wait for as
    /// long as released jobs of the task wait for their turn.) A task whose releases are a list or its policy's business keeps them.
    Retime {
        /// Whose.
        task: TaskId,
        /// Above zero.
        period: Span,
        /// Above zero.
        deadline: Option<Span>,
        /// Above zero.
        runtime: Option<Span>,
    },
    /// A task that is gone ([`Input::Leave`], [`Input::Exit`]) begins anew: its first job comes after its offset, or at the next
    /// instant of its list.
    Enter {
        /// Who.
        task: TaskId,
    },
    /// The task is gone as soon as its present job is over, at once if it has none.
    Leave {
        /// Who.
        task: TaskId,
    },
    /// A setting of the policy changes. A policy that cannot take it over is built anew, which allocates.
    Configure {
        /// Index of the setting in [`crate::policy::Entry::settings`].
        setting: u8,
        /// Its new value; `None` is the default.
        value: Option<i64>,
    },
    /// The current job of the task is given up; if it has a handler, that follows.
    Abort {
        /// Who.
        task: TaskId,
    },
    /// The last process of the task has ended: its job is over and there will be no other.
    Exit {
        /// Who.
        task: TaskId,
    },
}

/// What a task goes on with when it is let run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A job that has not run yet.
    Fresh,
    /// The job that it was at.
    Resumed,
    /// The handler of an aborted job, which has not run yet.
    Handler,
}

/// What a driver must do. Stops come first, then moves, then starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Take the task off its CPUs.
    Stop {
        /// Who.
        task: TaskId,
        /// Where it runs now.
        place: Place,
    },
    /// Let the running task go on at another place.
    Move {
        /// Who.
        task: TaskId,
        /// Where it runs now.
        from: Place,
        /// Where it goes on.
        to: Place,
        /// What it goes on with.
        work: Work,
    },
    /// Let the task run.
    Start {
        /// Who.
        task: TaskId,
        /// Where.
        place: Place,
        /// What it goes on with.
        work: Work,
    },
    /// The running task stays where it is and begins its next job, or the handler of the one that was aborted.
    Continue {
        /// Who.
        task: TaskId,
        /// Where it runs.
        place: Place,
        /// What it goes on with.
        work: Work,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No job.
    Idle,
    /// A job that can run (and does, if it has a place).
    Ready,
    /// A job that waits for something other than a CPU.
    Blocked,
    /// The task's processes have ended.
    Gone,
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
    deadline: Time,
    /// The current job was aborted and its handler is at work.
    handler: bool,
    consumed: Span,
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
    /// A mode change that waits for the end of a job: period and deadline.
    mode: Option<(Span, Option<Span>)>,
    /// It is gone when its present job is over.
    leaving: bool,
    /// What the policy said of its urgency when it last ranked it.
    urgency: i64,
    waits_for: Option<ResourceId>,
    /// Decision round in which it was last chosen, and where.
    round: u64,
    wanted: Place,
    counts: Counts,
}

impl Run {
    /// Brings consumption and budget up to `now`.
    #[inline]
    fn account(&mut self, now: Time) {
        if self.place.is_some() && self.phase == Phase::Ready && !(self.metered && self.clock == Clock::Cpu) {
            self.spend(now - self.since);
        }
        self.since = now;
    }
    #[inline]
    fn spend(&mut self, span: Span) {
        self.consumed += span;
        if let Some(left) = &mut self.budget {
            *left -= span;
        }
    }
    #[inline]
    fn has_job(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Blocked)
    }
    #[inline]
    fn work(&self) -> Work {
        match (self.fresh, self.handler) {
            (true, true) => Work::Handler,
            (true, false) => Work::Fresh,
            (false, _) => Work::Resumed,
        }
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
    now: Time,
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
    /// Builds the engine and its policy. This is the last time that memory is allocated.
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
        let policy = (spec.entry.build)(&build)?;
        let n = system.tasks.len();
        let mut agenda = Agenda::new(3 * n + usize::from(policy.timers()));
        for (i, task) in system.tasks.iter().enumerate() {
            if let Some(first) = task.arrival.first() {
                agenda.set(slot_release(n, policy.timers(), i), first.round_up(system.timing.tick));
            }
        }
        let run = Run {
            phase: Phase::Idle,
            job: 0,
            release: Time::ZERO,
            planned: Time::ZERO,
            deadline: Time::MAX,
            handler: false,
            consumed: Span::ZERO,
            since: Time::ZERO,
            budget: None,
            clock: Clock::Elapsed,
            metered: false,
            grants: 0,
            lateness: Span::ZERO,
            skew: Span::ZERO,
            place: None,
            last_place: None,
            fresh: true,
            stop_recorded: false,
            next_job: 0,
            next_release: None,
            pending: 0,
            mode: None,
            leaving: false,
            urgency: 0,
            waits_for: None,
            round: 0,
            wanted: Place(0),
            counts: Counts::default(),
        };
        let place_cpus =
            places.iter().map(|set| (0..cpus.len()).filter(|&i| set.contains(cpus[i])).map(|i| i as u16).collect());
        let most = n.min(cpus.len());
        let locks = |task: &Task, r: u16| task.steps.contains(&Step::Lock(ResourceId(r)));
        let users = |r: u16| tasks.iter().copied().filter(|t| locks(&system.tasks[t.index()], r)).collect();
        let most_events = 4 * n + 3 * usize::from(system.resources) + 16;
        let state = State {
            place_cpus: place_cpus.collect(),
            places,
            runs: system.tasks.iter().map(|t| Run { next_release: t.arrival.first(), ..run.clone() }).collect(),
            agenda,
            now: Time::ZERO,
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
            recording: true,
            closing: false,
            system,
        };
        Ok(Engine {
            state,
            policy,
            lent,
            decision: Decision { assignments: Vec::with_capacity(most) },
            commands: Vec::with_capacity(2 * most),
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

    /// Lets everything of the instant `now` happen: `inputs`, then all that is due by `now`, then one decision.
    /// Returns what the driver must do, in this order.
    ///
    /// # Panics
    /// When time runs backwards, or when the policy puts one job on two places, two jobs on one CPU, or a job where it
    /// may not run: these are faults of the program, not of its input.
    pub fn step<S: Sink>(&mut self, now: Time, inputs: &[Input], sink: &mut S) -> &[Command] {
        let state = &mut self.state;
        assert!(now >= state.now, "time runs backwards: {now} after {}", state.now);
        state.now = now;
        state.visited = 0;
        state.recording = sink.wants_records();
        if !self.started {
            self.started = true;
            self.policy.start(&mut Context { state, sink });
            deliver(state, &mut *self.policy, sink);
        }
        for input in inputs {
            if let Input::Configure { setting, value } = *input {
                self.configure(setting, value, sink);
                continue;
            }
            let state = &mut self.state;
            state.input(input, sink);
            deliver(state, &mut *self.policy, sink);
        }
        let (state, policy) = (&mut self.state, &mut *self.policy);
        while let Some((at, slot)) = state.agenda.first() {
            if at > now {
                break;
            }
            state.due(at, slot, sink);
            deliver(state, policy, sink);
        }
        self.decide(sink)
    }

    /// Ends the run: `inputs` that arrive at its very end still count, and so do budgets, deadlines and windows that end
    /// with it; nothing is released or decided any more. Jobs whose deadline has come by then and that are unfinished are
    /// missed; the others stay undecided.
    pub fn close<S: Sink>(&mut self, end: Time, inputs: &[Input], sink: &mut S) {
        let state = &mut self.state;
        state.now = end;
        state.closing = true;
        state.recording = sink.wants_records();
        // Nobody decides by a setting any more.
        for input in inputs.iter().filter(|i| !matches!(i, Input::Configure { .. })) {
            state.input(input, sink);
            state.events.clear();
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
            let activated = state.system.tasks[i].arrival == Arrival::Activated;
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
            let mut missed = u64::from(!state.runs[i].handler && state.runs[i].deadline <= end);
            let mut planned = state.runs[i].planned;
            for job in state.runs[i].job..state.runs[i].job + state.runs[i].pending {
                planned =
                    state.next_release(TaskId(i as u32), job, planned).expect("a job that has arrived was planned");
                missed += u64::from(deadline.is_some_and(|d| planned + d <= end));
            }
            state.runs[i].counts.missed += missed;
        }
    }

    /// Replaces the policy in the middle of a run. The new one takes over every job in its present state; the change
    /// shows with the next decision. This allocates.
    ///
    /// # Errors
    /// When the new policy cannot schedule the system; the old one goes on.
    pub fn switch_policy<S: Sink>(&mut self, spec: crate::policy::PolicySpec, sink: &mut S) -> Result<(), Invalid> {
        self.state.recording = sink.wants_records();
        let tasks: Vec<TaskId> = (0..self.state.runs.len()).map(|i| TaskId(i as u32)).collect();
        let build = Build { system: &self.state.system, tasks: &tasks, places: &self.lent, spec, first_timer: 0 };
        let policy = (spec.entry.build)(&build)?;
        let first = 2 * self.state.runs.len();
        let more = usize::from(policy.timers()).saturating_sub(self.state.timers());
        self.state.agenda.insert_slots(first + self.state.timers(), more);
        (0..self.state.timers()).for_each(|t| self.state.agenda.remove(first + t));
        self.policy = policy;
        self.state.system.policy = spec;
        if self.started {
            // What the old one said of jobs is not the new one's word.
            self.state.runs.iter_mut().for_each(|run| run.urgency = 0);
            tasks.iter().for_each(|task| self.state.forget_grant(*task, sink));
            self.policy.start(&mut Context { state: &mut self.state, sink });
            deliver(&mut self.state, &mut *self.policy, sink);
        }
        Ok(())
    }

    /// Changes a setting of the policy, in place if it can take that over.
    fn configure<S: Sink>(&mut self, setting: u8, value: Option<i64>, sink: &mut S) {
        let mut spec = self.state.system.policy;
        spec.values[usize::from(setting)] = value;
        let cx = &mut Context { state: &mut self.state, sink };
        if self.policy.configure(&spec, cx) {
            self.state.system.policy = spec;
            deliver(&mut self.state, &mut *self.policy, sink);
        } else {
            // A value that the policy refuses changes nothing: whoever makes the input checks it.
            let _ = self.switch_policy(spec, sink);
        }
    }

    /// The system that is scheduled.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.state.system
    }
    /// The interned CPU sets.
    #[must_use]
    pub fn places(&self) -> &[CpuSet] {
        &self.state.places
    }
    /// The instant of the last step.
    #[must_use]
    pub fn now(&self) -> Time {
        self.state.now
    }
    /// What the last step told the driver to do.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }
    /// The tasks that run now.
    #[must_use]
    pub fn running(&self) -> &[TaskId] {
        &self.state.running
    }
    /// The task's current job.
    #[must_use]
    pub fn job(&self, task: TaskId) -> Option<Job> {
        self.state.job(task)
    }
    /// Where the task runs.
    #[must_use]
    pub fn place_of(&self, task: TaskId) -> Option<Place> {
        self.state.runs[task.index()].place
    }
    /// Whether the task's consumption is limited by a CPU-time budget now, so that a driver with a meter should send [`Input::Usage`].
    #[must_use]
    pub fn wants_usage(&self, task: TaskId) -> bool {
        let run = &self.state.runs[task.index()];
        run.clock == Clock::Cpu && run.budget.is_some() && run.has_job()
    }
    /// Counts of one task.
    #[must_use]
    pub fn counts(&self, task: TaskId) -> Counts {
        self.state.runs[task.index()].counts
    }
    /// Counts summed over all tasks.
    #[must_use]
    pub fn totals(&self) -> Counts {
        let mut sum = Counts::default();
        self.state.runs.iter().for_each(|run| sum += run.counts);
        sum
    }
    /// How often the running task of a CPU changed; a CPU that idles in between still counts once, and going idle does not count.
    #[must_use]
    pub fn context_switches(&self) -> u64 {
        self.state.context_switches
    }
    /// Windows that passed unserved because the driver came too late.
    #[must_use]
    pub fn windows_lost(&self) -> u64 {
        self.state.windows_lost
    }
    /// How many requests for a resource closed a circle of jobs that wait for each other.
    #[must_use]
    pub fn deadlocks(&self) -> u64 {
        self.state.deadlocks
    }
    /// How many tasks the policy has looked at one by one in the last step, beyond handling its events
    /// ([`Context::visited`]): what a simulator charges for.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.state.visited
    }
    /// What is left of the task's budget; `None` when it has none.
    #[must_use]
    pub fn budget_left(&self, task: TaskId) -> Option<Span> {
        self.state.budget_left(task)
    }
    /// Whether the task waits for a resource.
    #[must_use]
    pub fn waits(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].waits_for.is_some()
    }
    /// Whether every task's processes have ended.
    #[must_use]
    pub fn all_gone(&self) -> bool {
        self.state.alive == 0
    }

    #[inline]
    fn decide<S: Sink>(&mut self, sink: &mut S) -> &[Command] {
        let Engine { state, policy, lent, decision, commands, .. } = self;
        decision.assignments.clear();
        commands.clear();
        policy.decide(lent, &mut Context { state, sink }, decision);
        assert!(state.events.is_empty(), "a policy ends jobs when it is told of events, not while it decides");
        state.apply(decision, commands, sink);
        commands
    }
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
    fn timers(&self) -> usize {
        self.agenda.slots() - 3 * self.runs.len()
    }

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
        run.has_job().then(|| {
            let running = run.place.is_some() && run.phase == Phase::Ready && !(run.metered && run.clock == Clock::Cpu);
            let extra = if running { self.now - run.since } else { Span::ZERO };
            Job {
                number: run.job,
                release: run.release,
                deadline: run.deadline,
                consumed: run.consumed + extra,
                ready: run.phase == Phase::Ready,
            }
        })
    }

    fn budget_left(&self, task: TaskId) -> Option<Span> {
        let run = &self.runs[task.index()];
        let running = run.place.is_some() && run.phase == Phase::Ready && !(run.metered && run.clock == Clock::Cpu);
        let extra = if running { self.now - run.since } else { Span::ZERO };
        run.budget.map(|left| left - extra)
    }

    #[inline]
    fn next_release(&self, task: TaskId, job: JobId, release: Time) -> Option<Time> {
        self.system.tasks[task.index()].arrival.next(self.system.seed, task, job, release)
    }

    #[inline]
    fn input(&mut self, input: &Input, sink: &mut dyn Sink) {
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
            Input::Complete { task } => {
                let run = &mut self.runs[task.index()];
                // A job that has not run cannot have completed: the signal belongs to the one before.
                if run.has_job() && !run.fresh {
                    self.end_job(task, Outcome::Completed, true, sink);
                } else if run.phase != Phase::Gone {
                    run.counts.late_signals += 1;
                    let job = if run.has_job() && !run.handler { run.job.saturating_sub(1) } else { run.job };
                    self.record(sink, What::LateSignal { task, job });
                }
            }
            Input::Block { task } => self.block(task, sink),
            Input::Wake { task } => self.wake(task, sink),
            Input::Request { task, resource } => {
                // Only a job can hold something, and one that waits cannot ask again: what a task holds goes back with its job.
                let run = &self.runs[task.index()];
                if !run.has_job() || run.waits_for.is_some() {
                    return;
                }
                let held = &mut self.resources[usize::from(resource.0)];
                let granted = match held.owner {
                    None => {
                        held.owner = Some(task);
                        true
                    }
                    Some(owner) => owner == task,
                };
                if !granted {
                    held.waiters.push_back(task);
                    self.runs[task.index()].waits_for = Some(resource);
                }
                self.record(sink, What::Request { task, resource, granted });
                if !granted && self.closes_circle(task) {
                    self.deadlocks += 1;
                    self.record(sink, What::Deadlock { task, resource });
                }
                self.events.push(Event::Request { task, resource, granted });
                if !granted {
                    self.block(task, sink);
                }
            }
            Input::Return { task, resource } => self.give_back(task, resource, sink),
            Input::Yield { task } => {
                let now = self.now;
                let run = &mut self.runs[task.index()];
                if run.phase == Phase::Ready && run.place.is_some() && !run.fresh {
                    run.account(now);
                    let (job, consumed) = (run.job, run.consumed);
                    self.record(sink, What::Yield { task, job });
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
                self.events.push(Event::Changed { task });
            }
            Input::Retime { task, period, deadline, runtime } => {
                self.runs[task.index()].mode = Some((period, deadline));
                self.system.tasks[task.index()].runtime = runtime;
                self.events.push(Event::Changed { task });
            }
            Input::Enter { task } => self.enter(task),
            Input::Leave { task } => {
                if self.runs[task.index()].has_job() {
                    self.runs[task.index()].leaving = true;
                } else {
                    self.depart(task, sink);
                }
            }
            Input::Configure { .. } => unreachable!("settings are the engine's own business"),
            Input::Abort { task } => {
                if self.runs[task.index()].has_job() {
                    self.end_job(task, Outcome::Aborted, true, sink);
                }
            }
            Input::Exit { task } => {
                if self.runs[task.index()].has_job() {
                    // A job that never ran did not complete by its process's end.
                    let outcome = if self.runs[task.index()].fresh { Outcome::Skipped } else { Outcome::Exited };
                    self.end_job(task, outcome, true, sink);
                }
                self.depart(task, sink);
            }
        }
    }

    /// Handles one entry of the agenda.
    #[inline]
    fn due(&mut self, at: Time, slot: usize, sink: &mut dyn Sink) {
        let n = self.runs.len();
        let timers = self.timers();
        if slot < n {
            let task = TaskId(slot as u32);
            let now = self.now;
            // Counted at the planned instant and not when a late timer fired: what ran on in between is the driver's lateness.
            let run = &mut self.runs[slot];
            run.account(at.max(run.since).min(now));
            if run.budget.is_some_and(|left| left + run.lateness + run.skew > Span::ZERO) {
                // A measurement said that less was consumed than time has passed.
                self.arm_budget(task, now, Span::ZERO);
                return;
            }
            self.agenda.remove(slot);
            let consumed = self.runs[slot].consumed;
            self.events.push(Event::BudgetExpired { task, consumed });
        } else if slot < 2 * n {
            let task = TaskId((slot - n) as u32);
            self.agenda.remove(slot);
            let job = self.runs[task.index()].job;
            self.events.push(Event::Deadline { task, job });
            self.end_job(task, Outcome::Aborted, true, sink);
        } else if slot < 2 * n + timers {
            self.agenda.remove(slot);
            self.events.push(Event::Timer { timer: (slot - 2 * n) as u16, due: at });
        } else {
            let index = slot - 2 * n - timers;
            let (task, run) = (TaskId(index as u32), &self.runs[index]);
            let planned = run.next_release.expect("a release on the agenda was planned");
            let next = self.next_release(task, run.next_job, planned);
            self.plan(task, next);
            self.arrive(task, planned, sink);
        }
    }

    /// Puts the task's next release on the agenda.
    #[inline]
    fn plan(&mut self, task: TaskId, next: Option<Time>) {
        let slot = slot_release(self.runs.len(), self.timers() as u16, task.index());
        self.runs[task.index()].next_release = next;
        match next {
            Some(at) => self.agenda.set(slot, at.round_up(self.system.timing.tick)),
            None => self.agenda.remove(slot),
        }
    }

    fn absolute_deadline(&self, task: TaskId, release: Time) -> Option<Time> {
        self.system.tasks[task.index()].deadline.map(|d| release + d)
    }

    /// A job comes into being at `release`.
    #[inline]
    fn arrive(&mut self, task: TaskId, release: Time, sink: &mut dyn Sink) {
        let deadline = self.absolute_deadline(task, release);
        let backlog = self.system.backlog;
        let run = &mut self.runs[task.index()];
        let job = run.next_job;
        run.next_job += 1;
        if run.has_job() && backlog == Backlog::Hartstone {
            run.pending += 1;
            return;
        }
        run.counts.released += 1;
        let busy = run.has_job();
        self.record_at(release, sink, What::Release { task, job, deadline });
        let run = &mut self.runs[task.index()];
        if !busy {
            run.job = job;
            self.begin_job(task, release, release, deadline.unwrap_or(Time::MAX));
        } else if backlog == Backlog::Skip {
            run.counts.missed += 1;
            let what = What::Finish { task, job, outcome: Outcome::Skipped, consumed: Span::ZERO };
            self.record_at(release, sink, what);
        } else {
            run.pending += 1;
        }
    }

    /// Job number `run.job`, which was to come at `planned`, becomes the task's current job as if it came at `release`.
    #[inline]
    fn begin_job(&mut self, task: TaskId, release: Time, planned: Time, deadline: Time) {
        let now = self.now;
        let abort = self.system.late == Late::Abort
            && deadline < Time::MAX
            && self.system.tasks[task.index()].arrival != Arrival::Activated;
        let n = self.runs.len();
        let run = &mut self.runs[task.index()];
        run.phase = Phase::Ready;
        run.release = release;
        run.planned = planned;
        run.deadline = deadline;
        run.handler = false;
        run.consumed = Span::ZERO;
        run.since = now;
        run.budget = None;
        run.metered = false;
        run.fresh = true;
        let job = run.job;
        if abort {
            self.agenda.set(n + task.index(), deadline.max(now).round_up(self.system.timing.tick));
        }
        self.events.push(Event::Release { task, job });
    }

    /// The current job is over. `tell` says whether the policy learns of it (it does not when it ended the job itself).
    #[inline]
    fn end_job(&mut self, task: TaskId, outcome: Outcome, tell: bool, sink: &mut dyn Sink) {
        let (index, now, n) = (task.index(), self.now, self.runs.len());
        let rule = self.system.backlog;
        let judged = if rule == Backlog::Hartstone { now.round_down(self.system.timing.tick) } else { now };
        let run = &mut self.runs[index];
        run.account(now);
        let (job, consumed, was_handler) = (run.job, run.consumed, run.handler);
        let in_time = judged <= run.deadline;
        match outcome {
            _ if was_handler => {}
            Outcome::Completed | Outcome::BudgetUsed | Outcome::Exited => {
                run.counts.completed += 1;
                if in_time {
                    run.counts.met += 1;
                } else {
                    run.counts.missed += 1;
                }
                sink.response(task, now - run.release);
            }
            Outcome::Overrun => {
                run.counts.missed += 1;
                run.counts.overruns += 1;
            }
            Outcome::Aborted => {
                run.counts.missed += 1;
                run.counts.aborted += 1;
            }
            Outcome::Skipped => run.counts.missed += 1,
        }
        run.phase = Phase::Idle;
        run.budget = None;
        let waits_for = run.waits_for.take();
        let stop = run.place.filter(|_| !run.stop_recorded && !run.fresh);
        run.stop_recorded |= stop.is_some();
        self.agenda.remove(index);
        self.agenda.remove(n + index);
        let over = What::Finish { task, job, outcome, consumed };
        self.record(sink, if was_handler { What::HandlerEnd { task, job, consumed } } else { over });
        if let Some(place) = stop {
            self.record(sink, What::Stop { task, job, place, reason: StopReason::Finished });
        }
        if let Some(resource) = waits_for {
            self.resources[usize::from(resource.0)].waiters.retain(|t| *t != task);
        }
        if outcome == Outcome::Aborted
            && !was_handler
            && let Some(handler) = self.system.tasks[index].handler
        {
            let deadline = handler.deadline.map(|d| now + d);
            let run = &mut self.runs[index];
            run.phase = Phase::Ready;
            run.handler = true;
            run.fresh = true;
            run.deadline = deadline.unwrap_or(Time::MAX);
            run.consumed = Span::ZERO;
            run.metered = false;
            self.record(sink, What::Handler { task, job, deadline });
            self.events.push(Event::Handler { task, job, consumed });
            return;
        }
        for resource in 0..self.resources.len() {
            if self.resources[resource].owner == Some(task) {
                self.give_back(task, ResourceId(resource as u16), sink);
            }
        }
        if tell {
            self.events.push(Event::Finish { task, job, consumed });
        }
        let aborted = was_handler || outcome == Outcome::Aborted;
        if self.runs[index].mode.is_some() {
            self.retime(task);
        }
        match rule {
            // Its process has ended: nothing follows.
            _ if matches!(outcome, Outcome::Exited | Outcome::Skipped) => {}
            Backlog::Hartstone => self.pass_periods(task, judged, sink),
            _ if self.runs[index].leaving => {}
            Backlog::Chronos if aborted || !in_time => self.succeed(task, Some(now), sink),
            _ => self.succeed(task, None, sink),
        }
        if self.runs[index].leaving {
            self.depart(task, sink);
        }
    }

    /// A task without a present job is gone; jobs that waited for their turn are missed.
    fn depart(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let run = &mut self.runs[task.index()];
        if run.phase == Phase::Gone {
            return;
        }
        let queued = core::mem::take(&mut run.pending);
        let queued = if self.system.backlog == Backlog::Hartstone { 0 } else { queued };
        let last = run.job;
        run.counts.missed += queued;
        run.phase = Phase::Gone;
        run.leaving = false;
        for job in last + 1..=last + queued {
            self.record(sink, What::Finish { task, job, outcome: Outcome::Skipped, consumed: Span::ZERO });
        }
        let n = self.runs.len();
        self.agenda.remove(slot_release(n, self.timers() as u16, task.index()));
        self.alive -= 1;
        self.record(sink, What::Exit { task });
        self.events.push(Event::Exit { task });
    }

    /// Carries out a mode change at the end of a job, unless others wait that were released before it. Periods that passed by
    /// Hartstone's rule were no releases: they are reckoned anew from the end of the job's own. O(periods passed).
    fn retime(&mut self, task: TaskId) {
        let (index, seed, now) = (task.index(), self.system.seed, self.now);
        let run = &self.runs[index];
        if run.mode.is_none() || run.pending > 0 && self.system.backlog != Backlog::Hartstone {
            return;
        }
        let end = if run.pending > 0 { self.next_release(task, run.job, run.planned) } else { run.next_release };
        let described = &mut self.system.tasks[index];
        let run = &mut self.runs[index];
        let Some((new, deadline)) = run.mode.take() else { return };
        described.deadline = deadline;
        if let (Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. }, Some(end)) =
            (&mut described.arrival, end)
        {
            *period = new;
            // Successors are reckoned from the planned release of the present job.
            let gap = described.arrival.next(seed, task, run.job, Time::ZERO).map_or(new, |next| next - Time::ZERO);
            run.planned = end - gap;
            run.pending = 0;
            run.next_job = run.job + 1;
            let mut next = end;
            while next < now {
                let run = &mut self.runs[index];
                let job = run.next_job;
                (run.pending, run.next_job) = (run.pending + 1, job + 1);
                next = self.next_release(task, job, next).expect("such releases never end");
            }
            self.plan(task, Some(next));
        }
        self.events.push(Event::Changed { task });
    }

    fn enter(&mut self, task: TaskId) {
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
                run.next_job = run.next_job.max(next as u64);
                instants.get(next).map(|i| Time::ZERO + *i)
            }
            Arrival::Activated => None,
        };
        self.alive += 1;
        self.plan(task, next);
        self.events.push(Event::Changed { task });
    }

    /// The next job of a task that is now idle begins, if it has arrived, or if a late predecessor calls it in (`at`).
    #[inline]
    fn succeed(&mut self, task: TaskId, at: Option<Time>, sink: &mut dyn Sink) {
        let run = &self.runs[task.index()];
        if run.pending > 0 {
            let planned = self.next_release(task, run.job, run.planned).expect("a job that has arrived was planned");
            let deadline = self.absolute_deadline(task, planned).unwrap_or(Time::MAX);
            let run = &mut self.runs[task.index()];
            run.pending -= 1;
            run.job += 1;
            self.begin_job(task, at.unwrap_or(planned), planned, deadline);
        } else if let (Some(at), Some(planned)) = (at, run.next_release.filter(|_| !self.closing)) {
            let next = self.next_release(task, run.next_job, planned);
            self.plan(task, next);
            let deadline = self.absolute_deadline(task, planned);
            let run = &mut self.runs[task.index()];
            (run.job, run.next_job) = (run.next_job, run.next_job + 1);
            run.counts.released += 1;
            let job = run.job;
            self.record(sink, What::Release { task, job, deadline });
            self.begin_job(task, at, planned, deadline.unwrap_or(Time::MAX));
        }
    }

    /// Hartstone's task loop at the end of a job: the job of the last period that began before `judged` is next, and those of
    /// the periods before it never run. If none has, the job ended in time and the next one begins with its period, which by a
    /// coarse clock may have begun. O(periods passed).
    fn pass_periods(&mut self, task: TaskId, judged: Time, sink: &mut dyn Sink) {
        while self.runs[task.index()].pending > 0 {
            let run = &self.runs[task.index()];
            let (job, begun) = (run.job + 1, run.planned);
            let planned = self.next_release(task, run.job, begun).expect("a period that has passed was planned");
            let after = self.next_release(task, job, planned);
            let deadline = self.absolute_deadline(task, planned);
            // The last period that began is the present one.
            let last = run.pending == 1 || after.is_none_or(|after| after >= judged);
            let run = &mut self.runs[task.index()];
            if last && run.leaving {
                return;
            }
            run.pending -= 1;
            run.job = job;
            run.counts.released += 1;
            self.record(sink, What::Release { task, job, deadline });
            if last {
                self.begin_job(task, planned, planned, deadline.unwrap_or(Time::MAX));
                return;
            }
            self.runs[task.index()].planned = planned;
            self.runs[task.index()].counts.missed += 1;
            self.record(sink, What::Finish { task, job, outcome: Outcome::Skipped, consumed: Span::ZERO });
        }
    }

    /// Whether the task waits for itself through those that hold what the others wait for. O(tasks).
    fn closes_circle(&self, task: TaskId) -> bool {
        let mut at = task;
        for _ in 0..self.runs.len() {
            let Some(resource) = self.runs[at.index()].waits_for else { return false };
            let Some(owner) = self.resources[usize::from(resource.0)].owner else { return false };
            if owner == task {
                return true;
            }
            at = owner;
        }
        false
    }

    fn block(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let now = self.now;
        let run = &mut self.runs[task.index()];
        if run.phase != Phase::Ready {
            return;
        }
        run.account(now);
        run.phase = Phase::Blocked;
        let (job, consumed) = (run.job, run.consumed);
        // A budget that ends in this very instant is used up all the same.
        if run.budget.is_none_or(|left| left + run.lateness + run.skew > Span::ZERO) {
            self.agenda.remove(task.index());
        }
        self.record(sink, What::Block { task, job });
        self.events.push(Event::Block { task, consumed });
    }

    fn wake(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let now = self.now;
        let run = &mut self.runs[task.index()];
        if run.phase != Phase::Blocked || run.waits_for.is_some() {
            return;
        }
        run.phase = Phase::Ready;
        run.since = now;
        let job = run.job;
        self.record(sink, What::Wake { task, job });
        self.events.push(Event::Wake { task });
        if self.runs[task.index()].place.is_some() {
            self.arm_budget(task, now, Span::ZERO);
        }
    }

    fn give_back(&mut self, task: TaskId, resource: ResourceId, sink: &mut dyn Sink) {
        let held = &mut self.resources[usize::from(resource.0)];
        if held.owner != Some(task) {
            return;
        }
        let next = match self.system.locking {
            Locking::Fifo => 0,
            // The most urgent; among equals, who asked first.
            Locking::Inheritance | Locking::Ceiling => {
                let waiters = held.waiters.iter().enumerate();
                waiters.min_by_key(|(_, t)| self.runs[t.index()].urgency).map_or(0, |(i, _)| i)
            }
        };
        held.owner = held.waiters.remove(next);
        let next = held.owner;
        self.record(sink, What::Return { task, resource });
        self.events.push(Event::Return { task, resource });
        if let Some(next) = next {
            self.runs[next.index()].waits_for = None;
            self.record(sink, What::Request { task: next, resource, granted: true });
            self.events.push(Event::Request { task: next, resource, granted: true });
            self.wake(next, sink);
        }
    }

    /// What one policy has granted the task, a burst or a quantum, is not for the next one to enforce. The budget of the task
    /// itself stays a limit. A job that its policy releases has the budget of its window, which stays too.
    fn forget_grant(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let now = self.now;
        let described = &self.system.tasks[task.index()];
        let (own, activated) = (described.budget, described.arrival == Arrival::Activated);
        let run = &mut self.runs[task.index()];
        if !run.has_job() || activated || run.budget.is_none() {
            return;
        }
        run.account(now);
        run.budget = None;
        let left = own.filter(|_| !run.handler).map(|own| (own - run.consumed).max(Span::from_ns(1)));
        self.agenda.remove(task.index());
        if let Some(amount) = left {
            self.grant(task, Budget { amount, clock: Clock::Cpu }, sink);
        }
    }

    /// Puts the end of a running task's budget on the agenda, but not before the task has run for `soonest`: nothing while the
    /// instant's events are still to come, then a nanosecond, or a budget that ends early could be granted again for ever in
    /// one instant.
    #[inline]
    fn arm_budget(&mut self, task: TaskId, now: Time, soonest: Span) {
        let run = &self.runs[task.index()];
        match run.budget {
            Some(left) if run.place.is_some() && run.phase == Phase::Ready => {
                let end = (left + run.lateness + run.skew).max(soonest);
                let at = now.max(run.since + end);
                self.agenda.set(task.index(), at.round_up(self.system.timing.resolution));
            }
            _ => self.agenda.remove(task.index()),
        }
    }

    fn grant(&mut self, task: TaskId, budget: Budget, sink: &mut dyn Sink) {
        let now = self.now;
        let run = &mut self.runs[task.index()];
        run.account(now);
        run.budget = Some(budget.amount);
        run.clock = budget.clock;
        run.grants += 1;
        if self.system.timing.lateness > Span::ZERO {
            let (most, seed) = (self.system.timing.lateness.ns() as u64, self.system.seed ^ LATENESS);
            run.lateness = Span::from_ns(rng::draw_up_to(most, seed, u64::from(task.0), run.grants) as i64);
        }
        let job = run.job;
        self.record(sink, What::Budget { task, job, amount: budget.amount });
        self.arm_budget(task, now, Span::from_ns(1));
    }

    /// Turns the difference between the present assignment and the decision into commands.
    #[inline]
    fn apply(&mut self, decision: &Decision, commands: &mut Vec<Command>, sink: &mut dyn Sink) {
        self.round += 1;
        let round = self.round;
        let (mut kept, mut moves, mut news) = (0, false, false);
        for a in &decision.assignments {
            let run = &mut self.runs[a.task.index()];
            assert!(run.phase == Phase::Ready, "task {} was chosen without a job that can run", a.task.0);
            assert!(run.round != round, "task {} was put on two places", a.task.0);
            run.round = round;
            run.wanted = a.place;
            kept += usize::from(run.place.is_some());
            moves |= run.place.is_some_and(|place| place != a.place);
            news |= run.place != Some(a.place) || run.fresh || a.budget.is_some();
            each_cpu(&self.place_cpus, self.cpu_task.len(), a.place, |cpu| {
                let claimed = core::mem::replace(&mut self.cpu_round[cpu], round);
                assert!(claimed != round, "two tasks were put on CPU index {cpu}, task {} is one", a.task.0);
            });
        }
        if kept < self.running.len() {
            self.stop_others(commands, sink);
        }
        if moves {
            self.move_away(commands, sink);
        }
        if news {
            self.arrive_there(decision, commands, sink);
        }
    }

    /// Stops who runs and was not chosen.
    #[inline]
    fn stop_others(&mut self, commands: &mut Vec<Command>, sink: &mut dyn Sink) {
        let (round, now, cpus) = (self.round, self.now, self.cpu_task.len());
        let mut kept = 0;
        for index in 0..self.running.len() {
            let task = self.running[index];
            let run = &mut self.runs[task.index()];
            if run.round == round {
                self.running[kept] = task;
                kept += 1;
                continue;
            }
            let place = run.place.expect("a running task has a place");
            run.account(now);
            run.place = None;
            run.last_place = Some(place);
            let (job, recorded, blocked) = (run.job, run.stop_recorded, run.phase == Phase::Blocked);
            run.stop_recorded = false;
            let mut taken = false;
            each_cpu(&self.place_cpus, cpus, place, |cpu| {
                taken |= self.cpu_round[cpu] == round;
                self.cpu_task[cpu] = None;
            });
            if run.budget.is_some() {
                self.agenda.remove(task.index());
            }
            if !recorded {
                let reason = match (blocked, taken) {
                    (true, _) => StopReason::Blocked,
                    (false, true) => StopReason::Preempted,
                    (false, false) => StopReason::Suspended,
                };
                run.counts.preemptions += u64::from(reason == StopReason::Preempted);
                self.record(sink, What::Stop { task, job, place, reason });
            }
            commands.push(Command::Stop { task, place });
        }
        self.running.truncate(kept);
    }

    /// Takes who moves off its place: everyone leaves before anyone arrives, so that two tasks can swap.
    fn move_away(&mut self, commands: &mut Vec<Command>, sink: &mut dyn Sink) {
        for index in 0..self.running.len() {
            let task = self.running[index];
            let run = &self.runs[task.index()];
            let (from, to) = (run.place.expect("it runs"), run.wanted);
            if from != to {
                each_cpu(&self.place_cpus, self.cpu_task.len(), from, |cpu| self.cpu_task[cpu] = None);
                if !run.stop_recorded {
                    let what = What::Stop { task, job: run.job, place: from, reason: StopReason::Migrated };
                    self.record(sink, what);
                }
                commands.push(Command::Move { task, from, to, work: run.work() });
            }
        }
    }

    /// Starts, moves, next jobs and new budgets, in the order of the decision.
    #[inline]
    fn arrive_there(&mut self, decision: &Decision, commands: &mut Vec<Command>, sink: &mut dyn Sink) {
        let (now, cpus) = (self.now, self.cpu_task.len());
        for a in &decision.assignments {
            let (task, to) = (a.task, a.place);
            let run = &mut self.runs[task.index()];
            let (before, fresh) = (run.place, run.fresh);
            if before != Some(to) || fresh {
                let (job, work) = (run.job, run.work());
                run.account(now);
                run.place = Some(to);
                run.fresh = false;
                run.stop_recorded = false;
                run.counts.dispatches += 1;
                let came_from = before.or(run.last_place);
                run.counts.migrations += u64::from(!fresh && came_from.is_some_and(|p| p != to));
                run.last_place = Some(to);
                each_cpu(&self.place_cpus, cpus, to, |cpu| {
                    self.cpu_task[cpu] = Some(task);
                    let last = self.cpu_last[cpu].replace(task);
                    self.context_switches += u64::from(last.is_some_and(|t| t != task));
                });
                match before {
                    None => {
                        self.running.push(task);
                        commands.push(Command::Start { task, place: to, work });
                    }
                    Some(place) if place == to => commands.push(Command::Continue { task, place, work }),
                    Some(_) => {}
                }
                match a.budget {
                    Some(budget) => self.grant(task, budget, sink),
                    None if run.budget.is_some() => self.arm_budget(task, now, Span::from_ns(1)),
                    None => {}
                }
                self.record(sink, What::Start { task, job, place: to });
            } else if let Some(budget) = a.budget {
                self.grant(task, budget, sink);
            }
        }
    }
}

/// Visits the CPUs of a place. The first places are the single CPUs, of which there are `cpus`.
#[inline]
fn each_cpu(place_cpus: &[Vec<u16>], cpus: usize, place: Place, mut visit: impl FnMut(usize)) {
    if place.index() < cpus {
        visit(place.index());
    } else {
        place_cpus[place.index()].iter().for_each(|&cpu| visit(usize::from(cpu)));
    }
}

/// What a policy may see and do while it handles an event or decides.
pub struct Context<'a> {
    state: &'a mut State,
    sink: &'a mut dyn Sink,
}

impl Context<'_> {
    /// The instant.
    #[must_use]
    pub fn now(&self) -> Time {
        self.state.now
    }
    /// The whole system.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.state.system
    }
    /// A task as it was described.
    #[must_use]
    pub fn task(&self, task: TaskId) -> &Task {
        &self.state.system.tasks[task.index()]
    }
    /// The task's current job, if it has one.
    #[must_use]
    pub fn job(&self, task: TaskId) -> Option<Job> {
        self.state.job(task)
    }
    /// Whether the task has a job that could run now.
    #[must_use]
    pub fn is_ready(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].phase == Phase::Ready
    }
    /// Whether the task's processes have ended.
    #[must_use]
    pub fn is_gone(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].phase == Phase::Gone
    }
    /// Where the task runs now.
    #[must_use]
    pub fn place_of(&self, task: TaskId) -> Option<Place> {
        self.state.runs[task.index()].place
    }
    /// Where the task ran last.
    #[must_use]
    pub fn last_place(&self, task: TaskId) -> Option<Place> {
        self.state.runs[task.index()].last_place
    }
    /// Who runs on a single-CPU place.
    #[must_use]
    pub fn running_on(&self, place: Place) -> Option<TaskId> {
        self.state.cpu_task.get(place.index()).copied().flatten()
    }
    /// Whether the task's affinity allows a single-CPU place.
    #[must_use]
    pub fn may_run(&self, task: TaskId, place: Place) -> bool {
        !self.state.system.tasks[task.index()].affinity.is_disjoint(&self.state.places[place.index()])
    }
    /// What is left of the task's budget; `None` when it has none.
    #[must_use]
    pub fn budget_left(&self, task: TaskId) -> Option<Span> {
        self.state.budget_left(task)
    }
    /// CPU time that the task's current job still needs by its declaration, or its handler: zero when it has overrun it,
    /// `None` when nothing was declared or there is no job.
    #[must_use]
    pub fn remaining(&self, task: TaskId) -> Option<Span> {
        let job = self.state.job(task)?;
        let described = self.task(task);
        let handler = described.handler.filter(|_| self.state.runs[task.index()].handler);
        let declared = handler.map(|h| h.runtime).or(described.runtime)?;
        Some((declared - job.consumed).max(Span::ZERO))
    }
    /// Whether the task's current job has not run yet.
    #[must_use]
    pub fn is_fresh(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].fresh
    }
    /// Whether the task is at the handler of an aborted job.
    #[must_use]
    pub fn in_handler(&self, task: TaskId) -> bool {
        let run = &self.state.runs[task.index()];
        run.handler && run.has_job()
    }
    /// When the task's next job will be released, as far as the engine releases it.
    #[must_use]
    pub fn next_release(&self, task: TaskId) -> Option<Time> {
        self.state.runs[task.index()].next_release
    }
    /// How resources are handed out.
    #[must_use]
    pub fn locking(&self) -> Locking {
        self.state.system.locking
    }
    /// What the task waits for.
    #[must_use]
    pub fn waits_for(&self, task: TaskId) -> Option<ResourceId> {
        self.state.runs[task.index()].waits_for
    }
    /// Who waits for a resource, in the order of asking.
    pub fn waiters(&self, resource: ResourceId) -> impl Iterator<Item = TaskId> + '_ {
        self.state.resources[usize::from(resource.0)].waiters.iter().copied()
    }
    /// The tasks whose steps lock a resource.
    #[must_use]
    pub fn users(&self, resource: ResourceId) -> &[TaskId] {
        &self.state.resources[usize::from(resource.0)].users
    }
    /// Tells the engine how urgent the task's job is; lower is more urgent. It decides who of those that wait for a resource
    /// gets it, and holds until it is told anew.
    pub fn set_urgency(&mut self, task: TaskId, urgency: i64) {
        self.state.runs[task.index()].urgency = urgency;
    }
    /// The policy has looked at `tasks` tasks one by one, as a regulator does once per round. A simulator may charge for it.
    pub fn visited(&mut self, tasks: usize) {
        self.state.visited += tasks as u64;
    }
    /// Writes something that only the policy knows into the trace: [`What::Round`] and [`What::Burst`].
    pub fn record(&mut self, what: What) {
        self.state.record(self.sink, what);
    }
    /// Who holds a resource.
    #[must_use]
    pub fn owner(&self, resource: ResourceId) -> Option<TaskId> {
        self.state.resources[usize::from(resource.0)].owner
    }

    /// Sets one of the policy's timers; a timer that was set before is moved.
    pub fn set_timer(&mut self, timer: u16, at: Time) {
        assert!(usize::from(timer) < self.state.timers(), "timer {timer} was not asked for");
        let slot = 2 * self.state.runs.len() + usize::from(timer);
        self.state.agenda.set(slot, at.max(self.state.now).round_up(self.state.system.timing.tick));
    }
    /// Cancels a timer.
    pub fn cancel_timer(&mut self, timer: u16) {
        let slot = 2 * self.state.runs.len() + usize::from(timer);
        self.state.agenda.remove(slot);
    }
    /// Replenishes a budget: `budget` replaces what is left.
    pub fn replenish(&mut self, task: TaskId, budget: Budget) {
        self.state.grant(task, budget, self.sink);
    }
    /// Releases a job of a task whose arrivals are the policy's own business ([`Arrival::Activated`]). The policy gets no event for it.
    ///
    /// # Panics
    /// When the task still has a job, or its processes have ended.
    pub fn activate(&mut self, task: TaskId, deadline: Option<Time>) -> JobId {
        let state = &mut *self.state;
        let (now, run) = (state.now, &mut state.runs[task.index()]);
        assert!(run.phase == Phase::Idle, "task {} cannot be activated now", task.0);
        let job = run.next_job;
        run.job = job;
        run.next_job += 1;
        run.counts.released += 1;
        state.record(self.sink, What::Release { task, job, deadline });
        state.begin_job(task, now, now, deadline.unwrap_or(Time::MAX));
        let told = state.events.pop();
        debug_assert!(matches!(told, Some(Event::Release { .. })));
        job
    }
    /// Passes over an activation whose drawn budget is zero: its number is used up, so that the next draw is another one.
    pub fn pass_activation(&mut self, task: TaskId) {
        self.state.runs[task.index()].next_job += 1;
    }
    /// Ends the task's current job. The policy gets no [`Event::Finish`] for it; the task's next queued job is released as usual.
    pub fn finish(&mut self, task: TaskId, outcome: Outcome) {
        self.state.end_job(task, outcome, false, self.sink);
    }
    /// A window of a table begins.
    pub fn window(&mut self, window: u32, frame: u64) {
        self.state.record(self.sink, What::Window { window, frame });
    }
    /// Windows passed unserved.
    pub fn windows_lost(&mut self, count: u64) {
        self.state.windows_lost += count;
        self.state.record(self.sink, What::WindowsLost { count });
    }
    /// The effective budget of a task's job: drawn uniformly from `budget ± jitter / 2`, the same for the same seed.
    #[must_use]
    pub fn drawn_budget(&self, task: TaskId, job: JobId) -> Span {
        let t = &self.state.system.tasks[task.index()];
        let budget = t.budget.unwrap_or(Span::MAX);
        if t.jitter == Span::ZERO {
            return budget;
        }
        let drawn = rng::draw_up_to(t.jitter.ns() as u64, self.state.system.seed, u64::from(task.0), job);
        budget - t.jitter / 2 + Span::from_ns(drawn as i64)
    }
    /// Number of the job that the next activation of the task will be.
    #[must_use]
    pub fn next_job(&self, task: TaskId) -> JobId {
        self.state.runs[task.index()].next_job
    }
}
