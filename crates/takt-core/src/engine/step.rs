//! The engine itself: what it consists of, and one step.
//!
//! A feature that the common release and completion do not handle belongs into `State::note_quiet`. The flag is computed when the system,
//! the power policy or the set of tasks changes. Builds for small processors have one path: the flag is a constant there, because the
//! common paths take kilobytes of flash.
//!
//! The simulator lends the policy to its loop ([`Engine::lend_policy`]), which is compiled for EDF and for policies behind the table.

use super::messages::{Carrier, Command, Reaction, Seen};
use crate::cpus::CpuSet;
use crate::input::Input;
use crate::model::{Arrival, Backlog, Invalid, Late, System, TaskId, Timing};
use crate::policy::state::{Cpu, Resource, State, TaskState, Timer, slot_release};
use crate::policy::{Build, Context, Decision, Event, Policy, Registry};
use crate::queue::Agenda;
use crate::record::{JobId, Outcome, Place, RecordKind, Sink, StopReason};
use crate::time::Time;
use crate::work::Speed;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// A scheduling engine: one system under one policy.
pub struct Engine {
    pub(super) state: State,
    pub(super) policy: Box<dyn Policy>,
    /// The policies that it may be switched to.
    pub(super) registry: Registry,
    pub(super) lent: Vec<Place>,
    pub(super) decision: Decision,
    pub(super) commands: Vec<Command>,
    pub(super) started: bool,
    /// Whether the last decision is that of the present policy.
    pub(super) decided: bool,
}

impl Engine {
    /// Bytes of the engine's own state of a task, which it allocates once for each.
    pub const TASK_STATE: usize = size_of::<TaskState>();

    /// Builds the engine and the system's policy, which `registry` holds. Later memory is allocated only where a policy or a setting
    /// of it is changed ([`Input::Switch`], [`Input::Table`], [`Input::Configure`], [`Engine::switch_policy`]).
    ///
    /// # Errors
    /// When the system breaks a rule of [`System::validate`], or the policy is not in the registry or cannot schedule the system.
    pub fn with_registry(system: System, registry: Registry) -> Result<Engine, Invalid> {
        suits_build(&system, BUILT)?;
        system.validate()?;
        let policy = Build::whole(&system, &registry, |build| build.policy())?;
        Ok(Engine::assemble(system, policy, registry))
    }

    /// Builds the engine around a policy that has been built ([`Build::whole`]). It has no registry. [`Input::Switch`] changes
    /// nothing, nor does [`Input::Configure`] where the policy does not take the setting over itself; [`Engine::prepare`] and
    /// [`Engine::prepare_task`] are refused. A registry of one entry allows all of that ([`Engine::with_registry`]).
    ///
    /// # Errors
    /// When the system breaks a rule of [`System::validate`].
    pub fn with_policy(system: System, policy: Box<dyn Policy>) -> Result<Engine, Invalid> {
        suits_build(&system, BUILT)?;
        system.validate()?;
        Ok(Engine::assemble(system, policy, Registry::default()))
    }

    /// As [`Engine::with_policy`], for a system that [`System::validate`] has accepted before, maybe on another machine: the checks take
    /// kilobytes of a microcontroller's flash. The engine may panic in a later step if the system breaks a rule.
    ///
    /// # Panics
    /// When the system needs a feature of this crate that the build lacks.
    #[must_use]
    pub fn with_validated(system: System, policy: Box<dyn Policy>) -> Engine {
        assert!(suits_build(&system, BUILT).is_ok(), "the system needs a feature that this build lacks");
        Engine::assemble(system, policy, Registry::default())
    }

    fn assemble(system: System, policy: Box<dyn Policy>, registry: Registry) -> Engine {
        let places = system.places();
        let cpus: Vec<usize> = system.cpus.iter().collect();
        let lent: Vec<Place> = (0..cpus.len()).map(|i| Place(i as u16)).collect();
        let tasks: Vec<TaskId> = (0..system.tasks.len()).map(|i| TaskId(i as u32)).collect();
        let n = system.tasks.len();
        // Deadlines are on the agenda where jobs are aborted at them.
        let unused = if system.late == Late::Abort { 0 } else { n };
        // Releases are set most often.
        let others = 2 * n + usize::from(policy.timers());
        let mut agenda = Agenda::split(others + n, (n, unused), others);
        let is_there = |i: usize| !system.is_removed(TaskId(i as u32));
        for (i, task) in system.tasks.iter().enumerate().filter(|(i, _)| is_there(*i)) {
            if let Some(first) = task.arrival.first() {
                agenda.set(slot_release(n, policy.timers(), i), system.timing.on_tick(first));
            }
        }
        let takes_changes = policy.passes_changes();
        let place_cpus =
            places.iter().map(|set| (0..cpus.len()).filter(|&i| set.contains(cpus[i])).map(|i| i as u16).collect());
        let most = n.min(cpus.len());
        let after = |task: &TaskId| match system.tasks[task.index()].arrival {
            Arrival::Event { after: Some(first), .. } => Some((first, *task)),
            _ => None,
        };
        let there = |(first, follower): &(TaskId, TaskId)| !system.is_removed(*first) && !system.is_removed(*follower);
        let followers = tasks.iter().filter_map(after).filter(there).collect();
        let users = |r| tasks.iter().copied().filter(|t| system.tasks[t.index()].program.locks(r)).collect();
        let mut state = State {
            place_cpus: place_cpus.collect(),
            speeds: speeds(&system, &places),
            places,
            runs: system.tasks.iter().enumerate().map(|(i, t)| TaskState::at_start(&t.arrival, is_there(i))).collect(),
            agenda,
            timers: vec![Timer::default(); usize::from(policy.timers())],
            now: Time::ZERO,
            due: Vec::new(),
            replace: Vec::new(),
            held: Vec::new(),
            followers,
            replies: Vec::new(),
            own_work_begins: false,
            events: Vec::new(),
            resources: (0..usize::from(system.resources))
                .map(|r| Resource { owner: None, waiters: VecDeque::new(), users: users(r) })
                .collect(),
            cpus: vec![Cpu::default(); cpus.len()],
            running: Vec::new(),
            room: n,
            generation: 0,
            domain_switches: 0,
            takeovers: 0,
            terms_changes: 0,
            departed: None,
            round: 0,
            context_switches: 0,
            windows_lost: 0,
            deadlocks: 0,
            visited: 0,
            alive: n - system.removed.len(),
            failed: 0,
            recording: true,
            closing: false,
            #[cfg(feature = "mirror")]
            acts: None,
            #[cfg(feature = "power")]
            power: None,
            quiet: false,
            system,
        };
        state.make_lists(n);
        state.note_quiet();
        Engine {
            state,
            policy,
            registry,
            lent,
            decision: Decision { takes_changes, ..Decision::with_capacity(cpus.len()) },
            commands: Vec::with_capacity(2 * most + n),
            started: false,
            decided: false,
        }
    }

    /// The next instant at which the engine has something to do by itself. O(1).
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        if !self.decided {
            return Some(self.state.now);
        }
        let first = self.state.agenda.first().map(|(at, _)| at);
        #[cfg(feature = "power")]
        let first = self.earlier_power_timer(first);
        first
    }

    /// As [`Engine::next_due`], for a driver that looks at the ends of budgets from `earliest` on only, because it shares a CPU with
    /// the jobs that it measures. Everything else is due when it is due. O(log tasks).
    #[must_use]
    pub fn next_due_with_budgets_from(&self, earliest: Time) -> Option<Time> {
        let first = self.state.agenda.first().filter(|_| self.decided);
        match first {
            // The slots of budgets come first.
            Some((at, slot)) if slot < self.state.room => {
                let first = Some(at.max(earliest).min(self.state.agenda.first_from(self.state.room)));
                #[cfg(feature = "power")]
                let first = self.earlier_power_timer(first);
                first
            }
            _ => self.next_due(),
        }
    }

    /// Lets everything of the instant `now` happen: `inputs`, then all that is due by `now`, then one decision.
    /// Returns what the driver must do, and what it is to tell programs. For more questions in one step than 2 n + 16 it allocates.
    ///
    /// # Panics
    /// When time runs backwards, an input names a task or a resource that the system does not have, or the policy puts one job on two
    /// places, two jobs on one CPU, or a job where it may not run: these are faults of the program.
    pub fn step<S: Sink>(&mut self, now: Time, inputs: &[Input], sink: &mut S) -> Reaction<'_> {
        self.begin_step(now, sink);
        if !self.decided {
            self.begin(sink);
        }
        let rest = if inputs.iter().any(Input::concerns_policy) { self.changes(inputs, sink) } else { inputs };
        let Engine { state, policy, lent, decision, commands, .. } = self;
        commands.clear();
        advance(state, &mut **policy, (lent, decision), rest, commands, sink);
        #[cfg(feature = "power")]
        self.request_power(sink);
        Reaction { commands: &self.commands, replies: &self.state.replies }
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn begin_step<S: Sink>(&mut self, now: Time, sink: &S) {
        let state = &mut self.state;
        state.replies.clear();
        assert!(now >= state.now, "time runs backwards: {now} after {}", state.now);
        state.now = now;
        state.visited = 0;
        state.due.clear();
        state.recording = sink.wants_records();
    }

    /// The first decision of the present policy is to come.
    #[cold]
    fn begin<S: Sink>(&mut self, sink: &mut S) {
        self.decided = true;
        if !self.started {
            self.started = true;
            let state = &mut self.state;
            #[cfg(feature = "power")]
            state.tell_power(crate::power::Event::Start);
            self.policy.start(&mut Context { state, sink });
            deliver(state, &mut *self.policy, sink);
        }
    }

    /// Handles the inputs up to the last one that concerns the policy. Returns the inputs that follow it.
    #[cold]
    fn changes<'i, S: Sink>(&mut self, inputs: &'i [Input], sink: &mut S) -> &'i [Input] {
        let count = inputs.iter().rposition(Input::concerns_policy).map_or(0, |last| last + 1);
        let (inputs, rest) = inputs.split_at(count);
        #[cfg(feature = "additions")]
        let mut added = 0;
        for (index, input) in inputs.iter().enumerate() {
            #[cfg(not(feature = "additions"))]
            let _ = index;
            match *input {
                Input::Configure { setting, value } => self.configure(setting, value, sink),
                Input::Switch { domain, to } => {
                    if cfg!(feature = "switching") {
                        self.switch(domain, to, sink);
                    }
                }
                Input::Table { to } => {
                    if cfg!(feature = "multiprocessor") {
                        let state = &mut self.state;
                        self.policy.table(to, &mut Context { state, sink });
                    }
                }
                #[cfg(feature = "additions")]
                Input::Add { .. } => {
                    // Consecutive additions are one change.
                    if index >= added {
                        added = index + inputs[index..].iter().take_while(|i| matches!(i, Input::Add { .. })).count();
                        self.add(&inputs[index..added], sink);
                    }
                }
                Input::Call { task, call } => {
                    if cfg!(feature = "programs") {
                        self.call(task, call, sink);
                    }
                }
                _ => take(&mut self.state, &mut *self.policy, input, sink),
            }
        }
        rest
    }

    /// As [`Engine::step`], with the policy that was lent ([`Engine::lend_policy`]), and with commands that `carrier` takes. None of `inputs` may concern the
    /// policy ([`Input::concerns_policy`]).
    ///
    /// # Panics
    /// As [`Engine::step`].
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub fn step_with<P: Policy + ?Sized, C: Carrier, S: Sink>(
        &mut self,
        policy: &mut P,
        now: Time,
        inputs: &[Input],
        carrier: &mut C,
        sink: &mut S,
    ) {
        self.begin_step(now, sink);
        let Engine { state, lent, decision, .. } = self;
        advance(state, policy, (lent, decision), inputs, carrier, sink);
    }

    /// Whether [`Engine::step_with`] can take the next steps: the policy has decided before, and there is no power policy, which sees the list of commands.
    #[must_use]
    pub fn can_lend_policy(&self) -> bool {
        #[cfg(feature = "power")]
        if self.state.power.is_some() {
            return false;
        }
        self.decided
    }

    /// Lends the policy to `borrower`, which takes steps with it ([`Engine::step_with`]). The types of common policies are known in there, so that the
    /// compiler joins them with the steps. Returns the value of [`Borrower::run`].
    pub fn lend_policy<B: Borrower>(&mut self, borrower: &mut B) -> bool {
        let mut policy = core::mem::replace(&mut self.policy, Box::new(Lent));
        let known = policy.any_mut().and_then(|any| any.downcast_mut::<crate::policies::edf::EdfPolicy>());
        let result = match known {
            Some(policy) => borrower.run(self, policy),
            None => borrower.run(self, &mut *policy),
        };
        self.policy = policy;
        result
    }

    /// As [`Engine::next_due`] where [`Engine::can_lend_policy`]; [`Time::MAX`] if nothing is due any more.
    #[must_use]
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub fn next_event(&self) -> Time {
        self.state.agenda.earliest()
    }

    /// The part of the engine that a [`Carrier`] sees.
    #[must_use]
    #[inline]
    pub fn seen(&self) -> Seen<'_> {
        Seen(&self.state)
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
        state.due.clear();
        state.replies.clear();
        state.recording = sink.wants_records();
        // No decision depends on a setting, or on other terms, any more.
        for input in inputs.iter().filter(|input| !input.concerns_policy()) {
            // The policy learns of a budget that ends now, and must know by then which jobs are over.
            take(state, &mut *self.policy, input, sink);
        }
        while let Some((at, slot)) = state.agenda.first().filter(|(at, _)| *at <= end) {
            if slot < 2 * state.room {
                state.expire(at, slot, sink);
                deliver(state, &mut *self.policy, sink);
            } else {
                state.agenda.remove(slot);
            }
        }
        for i in 0..state.runs.len() {
            let activated = state.is_activated(TaskId(i as u32));
            if activated && state.runs[i].has_job() && state.runs[i].deadline <= end {
                state.end_job(TaskId(i as u32), Outcome::Overrun, false, sink);
            }
            let (job, place) = (state.runs[i].job, state.runs[i].place);
            if let (Some(place), false) = (place, state.runs[i].stop_recorded) {
                let stop = RecordKind::Stop { task: TaskId(i as u32), job, place, reason: StopReason::Suspended };
                state.record(sink, stop);
            }
            // Hartstone notices a miss when the late job ends, which it did not.
            if !state.runs[i].has_job() || state.backlog() == Backlog::Hartstone {
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
}

/// A driver that takes steps with a policy that an engine lends ([`Engine::lend_policy`]).
pub trait Borrower {
    /// Takes steps. The return value is that of [`Engine::lend_policy`].
    fn run<P: Policy + ?Sized>(&mut self, engine: &mut Engine, policy: &mut P) -> bool;
}

/// The policy of an engine that has lent its own.
struct Lent;

impl Policy for Lent {
    fn start(&mut self, _: &mut Context<'_>) {
        unreachable!("the policy is lent");
    }
    fn event(&mut self, _: &Event, _: &mut Context<'_>) {
        unreachable!("the policy is lent");
    }
    fn decide(&mut self, _: &[Place], _: &mut Context<'_>, _: &mut Decision) {
        unreachable!("the policy is lent");
    }
}

/// Handles all that happens in the instant of a step, and decides. `lent` are the CPUs of the system.
#[cfg_attr(target_pointer_width = "64", inline(always))]
fn advance<P: Policy + ?Sized, C: Carrier, S: Sink>(
    state: &mut State,
    policy: &mut P,
    (lent, decision): (&[Place], &mut Decision),
    inputs: &[Input],
    carrier: &mut C,
    sink: &mut S,
) {
    for input in inputs {
        match *input {
            Input::Complete { task, job } => complete(state, policy, task, job, sink),
            _ => take(state, policy, input, sink),
        }
    }
    #[cfg(feature = "power")]
    if !state.is_quiet() {
        state.fire_power_timer();
    }
    let now = state.now;
    loop {
        while let Some((at, slot)) = state.agenda.due(now) {
            if let Some((task, job)) = state.due(at, slot, carrier, sink) {
                policy.event(&Event::Release { task, job }, &mut Context { state, sink });
            }
            deliver(state, policy, sink);
        }
        if state.is_quiet() || state.system.late != Late::AbortAtEvent {
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
    if state.held.len() + state.replace.len() > 0 {
        without_programs(state, policy, carrier, sink);
    }
    // On small processors a policy has one way to decide.
    if cfg!(target_pointer_width = "64")
        && decision.takes_changes
        && let Some(exchange) = policy.exchange(lent, &mut Context { state, sink })
    {
        debug_assert!(state.events.is_empty(), "a policy ends no jobs in an exchange");
        return state.exchange(exchange, carrier, sink);
    }
    decision.clear();
    policy.decide(lent, &mut Context { state, sink }, decision);
    assert!(state.events.is_empty(), "a policy ends jobs in its handling of events, not in its decision");
    state.apply(decision, carrier, sink);
}

/// The program of a task has done the work of `job`.
#[cfg_attr(target_pointer_width = "64", inline(always))]
fn complete<P: Policy + ?Sized, S: Sink>(state: &mut State, policy: &mut P, task: TaskId, job: JobId, sink: &mut S) {
    match state.complete_alone(task, job, sink) {
        Some(consumed) => policy.event(&Event::Finish { task, job, consumed }, &mut Context { state, sink }),
        None => state.complete(task, job, sink),
    }
    deliver(state, policy, sink);
}

/// Handles an input that does not concern the policy itself.
#[inline(never)]
fn take<P: Policy + ?Sized, S: Sink>(state: &mut State, policy: &mut P, input: &Input, sink: &mut S) {
    state.input(input, sink);
    deliver(state, policy, sink);
}

/// The features of this crate that a system can need.
#[derive(Clone, Copy)]
struct Features {
    multiprocessor: bool,
    backlogs: bool,
    timing: bool,
}

/// Those of this build.
const BUILT: Features = Features {
    multiprocessor: cfg!(feature = "multiprocessor"),
    backlogs: cfg!(feature = "backlogs"),
    timing: cfg!(feature = "timing"),
};

/// Whether a build with these features has all that the system needs.
///
/// # Errors
/// The feature that is missing.
#[inline]
fn suits_build(system: &System, features: Features) -> Result<(), Invalid> {
    let System { cpus, speeds, windows, domains, tasks, backlog, timing, load, .. } = system;
    let activated = || tasks.iter().any(|task| task.arrival == Arrival::Activated);
    let one_cpu = || cpus.len() == 1 && speeds.is_empty() && windows.is_empty() && domains.is_empty() && !activated();
    if !features.multiprocessor && !one_cpu() {
        return Err(Invalid::Unsuitable(
            "this build of the engine is for one CPU: it lacks the feature `multiprocessor`",
        ));
    }
    if !features.backlogs && *backlog != Backlog::Queue {
        return Err(Invalid::Unsuitable("this build of the engine queues late jobs: it lacks the feature `backlogs`"));
    }
    if !features.timing && (*timing != Timing::default() || load.is_some()) {
        return Err(Invalid::Unsuitable("this build of the engine has an exact clock: it lacks the feature `timing`"));
    }
    Ok(())
}

/// The speed of each place: that of its slowest CPU. Empty if all have the nominal one.
fn speeds(system: &System, places: &[CpuSet]) -> Vec<Speed> {
    if !cfg!(feature = "multiprocessor") || system.speeds.iter().all(|speed| *speed == Speed::NOMINAL) {
        return Vec::new();
    }
    let slowest = |place: &CpuSet| {
        let cpus = system.cpus.iter().zip(&system.speeds).filter(|(cpu, _)| place.contains(*cpu));
        cpus.map(|(_, speed)| *speed).min().unwrap_or_default()
    };
    places.iter().map(slowest).collect()
}

/// Blocks the jobs of tasks that have no program, and asks for the programs that are to be replaced.
#[cold]
fn without_programs<P: Policy + ?Sized, C: Carrier, S: Sink>(
    state: &mut State,
    policy: &mut P,
    carrier: &mut C,
    sink: &mut S,
) {
    if cfg!(feature = "programs") {
        state.block_held(sink);
        deliver(state, policy, sink);
    }
    for index in 0..state.replace.len() {
        carrier.other(Command::Replace { task: state.replace[index] }, Seen(state));
    }
    state.replace.clear();
}

/// Hands the waiting events to the policy, and then those that its own reactions cause.
#[cfg_attr(target_pointer_width = "64", inline(always))]
pub(super) fn deliver<P: Policy + ?Sized, S: Sink>(state: &mut State, policy: &mut P, sink: &mut S) {
    if !state.events.is_empty() {
        deliver_all(state, policy, sink);
    }
}

#[inline(never)]
fn deliver_all<P: Policy + ?Sized>(state: &mut State, policy: &mut P, sink: &mut dyn Sink) {
    let mut next = 0;
    while let Some(&event) = state.events.get(next) {
        next += 1;
        policy.event(&event, &mut Context { state, sink });
    }
    state.events.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::CpuSet;
    use crate::model::{Domain, Load, PartitionId, PolicySpec, Scope, Slice, Task, Window};
    use crate::policies::edf;
    use crate::time::Span;
    use alloc::vec;

    const ALL: Features = Features { multiprocessor: true, backlogs: true, timing: true };

    fn system() -> System {
        let arrival = Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(10) };
        let tasks = vec![Task { arrival, ..Task::default() }];
        System {
            tasks,
            ..System::new(CpuSet::single(0), PolicySpec::new(&edf::ONE_QUEUE.profile, Scope::Uniprocessor))
        }
    }

    /// The feature that such a build lacks for the system.
    fn lacks(system: &System, features: Features) -> Option<&'static str> {
        match suits_build(system, features) {
            Ok(()) => None,
            Err(Invalid::Unsuitable(why)) => why.split('`').nth(1),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_build_refuses_what_it_has_no_feature_for() {
        let ms = Span::from_ms;
        let slice = Slice { cpus: CpuSet::single(0), sc: Some(PartitionId(0)), be: None };
        let policy = system().policy;
        let timing = |timing: Timing| System { timing, ..system() };
        let several = [
            System { cpus: CpuSet::first(2), ..system() },
            System { speeds: vec![Speed::NOMINAL], ..system() },
            System { windows: vec![Window { length: ms(10), slices: vec![slice] }], ..system() },
            System {
                domains: vec![Domain { band: 0, cpus: CpuSet::single(0), tasks: vec![TaskId(0)], policy }],
                ..system()
            },
            System { tasks: vec![Task { arrival: Arrival::Activated, ..Task::default() }], ..system() },
        ];
        let late = [Backlog::Skip, Backlog::Chronos, Backlog::Hartstone].map(|backlog| System { backlog, ..system() });
        let clocks = [
            timing(Timing { tick: ms(1), ..Timing::default() }),
            timing(Timing { resolution: ms(1), ..Timing::default() }),
            timing(Timing { lateness: ms(1), ..Timing::default() }),
            System { load: Some(Load { points: vec![(Span::ZERO, 2_000_000)], repeat: None }), ..system() },
        ];
        let without = [
            ("multiprocessor", Features { multiprocessor: false, ..ALL }, &several[..]),
            ("backlogs", Features { backlogs: false, ..ALL }, &late[..]),
            ("timing", Features { timing: false, ..ALL }, &clocks[..]),
        ];
        for (feature, features, needing) in &without {
            assert_eq!(lacks(&system(), *features), None, "without {feature}");
            for system in *needing {
                assert_eq!(lacks(system, *features), Some(*feature), "{system:?}");
                assert_eq!(lacks(system, ALL), None, "{system:?}");
                // Only this feature matters for it.
                let others = without.iter().filter(|(other, ..)| other != feature);
                others.for_each(|(_, features, _)| assert_eq!(lacks(system, *features), None, "{system:?}"));
            }
        }
    }
}
