//! The engine itself: what it consists of, and one step.

use super::messages::{Command, Reaction};
use crate::cpus::CpuSet;
use crate::input::Input;
use crate::model::{Arrival, Backlog, Invalid, Late, System, TaskId, Timing};
use crate::policy::state::{Cpu, Resource, State, TaskState, Timer, slot_release};
use crate::policy::{Build, Context, Decision, Policy, Registry};
use crate::queue::Agenda;
use crate::record::{Outcome, Place, RecordKind, Sink, StopReason};
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
        let mut agenda = Agenda::without(3 * n + usize::from(policy.timers()), n, unused);
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
            system,
        };
        state.make_lists(n);
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
    #[inline]
    pub fn step<S: Sink>(&mut self, now: Time, inputs: &[Input], sink: &mut S) -> Reaction<'_> {
        let state = &mut self.state;
        state.replies.clear();
        assert!(now >= state.now, "time runs backwards: {now} after {}", state.now);
        state.now = now;
        state.visited = 0;
        state.due.clear();
        state.recording = sink.wants_records();
        if !self.decided {
            self.decided = true;
            if !self.started {
                self.started = true;
                #[cfg(feature = "power")]
                state.tell_power(crate::power::Event::Start);
                self.policy.start(&mut Context { state, sink });
                deliver(state, &mut *self.policy, sink);
            }
        }
        #[cfg(feature = "additions")]
        let mut added = 0;
        for (index, input) in inputs.iter().enumerate() {
            #[cfg(not(feature = "additions"))]
            let _ = index;
            match *input {
                // The usual one goes the short way.
                Input::Complete { task, job } => {
                    let state = &mut self.state;
                    state.complete(task, job, sink);
                    deliver(state, &mut *self.policy, sink);
                    continue;
                }
                Input::Configure { setting, value } => {
                    self.configure(setting, value, sink);
                    continue;
                }
                Input::Switch { domain, to } => {
                    if cfg!(feature = "switching") {
                        self.switch(domain, to, sink);
                    }
                    continue;
                }
                Input::Table { to } => {
                    if cfg!(feature = "multiprocessor") {
                        let state = &mut self.state;
                        self.policy.table(to, &mut Context { state, sink });
                    }
                    continue;
                }
                #[cfg(feature = "additions")]
                Input::Add { .. } => {
                    // Consecutive additions are one change.
                    if index >= added {
                        added = index + inputs[index..].iter().take_while(|i| matches!(i, Input::Add { .. })).count();
                        self.add(&inputs[index..added], sink);
                    }
                    continue;
                }
                Input::Call { task, call } => {
                    if cfg!(feature = "programs") {
                        self.call(task, call, sink);
                    }
                    continue;
                }
                _ => {}
            }
            let state = &mut self.state;
            state.input(input, sink);
            deliver(state, &mut *self.policy, sink);
        }
        #[cfg(feature = "power")]
        self.fire_power_timer();
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
        self.decide(sink);
        #[cfg(feature = "power")]
        self.request_power(sink);
        Reaction { commands: &self.commands, replies: &self.state.replies }
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
        // Nobody decides by a setting, or by other terms, any more.
        let passed = |i: &&Input| {
            #[cfg(feature = "additions")]
            if let Input::Add { .. } = i {
                return true;
            }
            matches!(i, Input::Configure { .. } | Input::Switch { .. } | Input::Table { .. } | Input::Call { .. })
        };
        for input in inputs.iter().filter(|i| !passed(i)) {
            state.input(input, sink);
            // The policy learns of a budget that ends now, and must know by then which jobs are over.
            deliver(state, &mut *self.policy, sink);
        }
        while let Some((at, slot)) = state.agenda.first().filter(|(at, _)| *at <= end) {
            if slot < 2 * state.room {
                state.due(at, slot, sink);
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

    #[inline]
    fn decide<S: Sink>(&mut self, sink: &mut S) {
        let Engine { state, policy, lent, decision, commands, .. } = self;
        decision.clear();
        commands.clear();
        if state.held.len() + state.replace.len() > 0 {
            without_programs(state, &mut **policy, commands, sink);
        }
        policy.decide(lent, &mut Context { state, sink }, decision);
        assert!(state.events.is_empty(), "a policy ends jobs when it is told of events, not while it decides");
        state.apply(decision, commands, sink);
    }
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
fn without_programs<S: Sink>(state: &mut State, policy: &mut dyn Policy, commands: &mut Vec<Command>, sink: &mut S) {
    if cfg!(feature = "programs") {
        state.block_held(sink);
        deliver(state, policy, sink);
    }
    commands.extend(state.replace.drain(..).map(|task| Command::Replace { task }));
}

/// Hands the waiting events to the policy, and then those that its own reactions cause.
#[inline]
pub(super) fn deliver<S: Sink>(state: &mut State, policy: &mut dyn Policy, sink: &mut S) {
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
