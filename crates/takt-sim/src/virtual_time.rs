//! Virtual time: the clock of the simulator, and of a replay.

use crate::machine::Machine;
use crate::report::Report;
use std::borrow::BorrowMut;
use takt_core::engine::{Borrower, Engine, Input, Prepared, Room};
use takt_core::policy::Policy;
use takt_core::record::Sink;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};

/// A simulation that goes step by step, or up to an instant, and takes inputs in between.
///
/// ```
/// # use takt_core::{engine::{Engine, Input}, cpus::CpuSet, model::*, record::Record, registry, scenario::Scenario, time::Time};
/// # use takt_sim::Simulation;
/// # let arrival = Arrival::Periodic { offset: takt_core::time::Span::ZERO, period: takt_core::time::Span::from_ms(10) };
/// # let task = Task { arrival, runtime: Some(takt_core::time::Span::from_ms(2)), ..Task::default() };
/// # let policy = takt_core::policy::Registry::standard().spec("fifo").unwrap();
/// # let system = System { tasks: vec![task], ..System::new(CpuSet::first(1), policy) };
/// # let engine = Engine::new(system).unwrap();
/// let mut records: Vec<Record> = Vec::new();
/// let mut simulation = Simulation::new(engine, &Scenario::default());
/// simulation.run_until(Time::from_ns(25_000_000), &mut records);
/// assert_eq!(simulation.engine().counts(TaskId(0)).completed, 3);
/// simulation.input(Input::Leave { task: TaskId(0) });
/// simulation.run_until(Time::from_ns(95_000_000), &mut records);
/// assert_eq!(simulation.engine().counts(TaskId(0)).completed, 3);
/// ```
pub struct Simulation<E: BorrowMut<Engine> = Engine> {
    engine: E,
    machine: Machine,
    inputs: Vec<Input>,
    /// Up to here everything has happened, but for what happens in this very instant.
    now: Time,
    /// The inputs since the last step.
    between: Vec<Input>,
}

impl<E: BorrowMut<Engine>> Simulation<E> {
    /// A simulation at time zero, before its first step.
    ///
    /// # Panics
    /// When stolen time is not a part of its period.
    pub fn new(mut engine: E, scenario: &Scenario) -> Simulation<E> {
        let borrowed: &mut Engine = engine.borrow_mut();
        let most = 2 * borrowed.system().tasks.len() + scenario.changes.len() + scenario.events.len() + 8;
        let machine = Machine::new(borrowed, scenario);
        Simulation { engine, machine, inputs: Vec::with_capacity(most), now: Time::ZERO, between: Vec::new() }
    }

    /// The engine, which tells of jobs, counts and the present assignment.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.engine.borrow()
    }

    /// The instant that has been reached.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// When something happens next; [`Time::MAX`] if nothing does any more. O(m) for m CPUs.
    #[must_use]
    pub fn due(&mut self) -> Time {
        match self.between.is_empty() {
            true => self.machine.due(self.engine.borrow()).min(self.machine.next()),
            false => self.now,
        }
    }

    /// Something changes from outside at [`Simulation::now`], in the next step. What programs do by themselves is the simulation's
    /// business: a completion of a job that its program has not done yet is taken as one all the same, and the program continues.
    pub fn input(&mut self, change: Input) {
        self.between.push(change);
    }

    /// Installs what was prepared ([`Engine::prepare`], [`Engine::prepare_task`], [`Engine::prepare_removal`]) at [`Simulation::now`], and
    /// gives back what was there before. A task that was added begins with [`Input::Enter`].
    ///
    /// # Errors
    /// As [`Engine::install`].
    #[expect(clippy::result_large_err, reason = "it is given back as it came")]
    pub fn install<S: Sink>(&mut self, prepared: Prepared, sink: &mut S) -> Result<Prepared, Prepared> {
        let engine = self.engine.borrow_mut();
        let added = prepared.added();
        let before = engine.install(self.now, prepared, sink)?;
        self.machine.taken_over(added, engine);
        Ok(before)
    }

    /// Makes room for so many tasks and timers ([`Engine::reserve`]).
    pub fn reserve(&mut self, room: Room) {
        self.engine.borrow_mut().reserve(room);
    }

    /// The next step, if anything happens any more: its instant. What is due then, and what was put in, happens. Costs what the engine's
    /// step costs, plus O(m) for m CPUs.
    pub fn step<S: Sink>(&mut self, sink: &mut S) -> Option<Time> {
        self.step_before(Time::MAX, sink)
    }

    fn step_before<S: Sink>(&mut self, end: Time, sink: &mut S) -> Option<Time> {
        loop {
            let now = self.due();
            if now >= end {
                return None;
            }
            self.now = now;
            self.inputs.clear();
            self.machine.measure(now, self.engine.borrow(), &mut self.inputs);
            let measured = self.inputs.len();
            if self.machine.next() <= now {
                self.machine.inputs(now, self.engine.borrow(), &mut self.inputs);
            }
            for change in self.between.drain(..) {
                self.machine.change(change, now, self.engine.borrow(), &mut self.inputs);
            }
            // A program may have gone on by itself, which is no step of the engine.
            let engine = self.engine.borrow_mut();
            if self.inputs.len() > measured || self.machine.due(engine) <= now {
                let _ = engine.step(now, &self.inputs, sink);
                self.machine.apply(now, engine, &self.inputs);
                return Some(now);
            }
        }
    }

    /// All steps before the instant `until`, which is then reached. Nothing happens if it is past.
    pub fn run_until<S: Sink>(&mut self, until: Time, sink: &mut S) {
        while self.step_before(until, sink).is_some() {}
        self.now = self.now.max(until);
    }

    /// Ends the run at `end`: completions at that instant still count, nothing new is released or decided. What was put in and not yet
    /// handled counts as far as it ends jobs ([`Engine::close`]).
    ///
    /// # Panics
    /// When a step was made after `end`.
    pub fn finish<S: Sink>(mut self, end: Time, sink: &mut S) -> (E, Report) {
        let engine = self.engine.borrow_mut();
        self.inputs.clear();
        self.machine.last_inputs(end, engine, &mut self.inputs);
        self.inputs.append(&mut self.between);
        engine.close(end, &self.inputs, sink);
        let report = self.machine.finish(end);
        (self.engine, report)
    }
}

/// Simulates from time zero to `duration`: releases before it, completions up to and including it.
///
/// `progress` is called now and then with the instant reached. Costs what the engine's steps cost plus O(m) per step for m CPUs.
///
/// # Panics
/// When stolen time is not a part of its period.
pub fn simulate<S: Sink>(
    engine: &mut Engine,
    scenario: &Scenario,
    duration: Span,
    sink: &mut S,
    mut progress: impl FnMut(Time),
) -> Report {
    let until_the_end = |now: Time| {
        progress(now);
        true
    };
    simulate_while(engine, scenario, duration, sink, until_the_end)
}

/// As [`simulate`], which ends at the instant reached if `progress` returns `false`.
///
/// # Panics
/// When stolen time is not a part of its period.
pub fn simulate_while<S: Sink>(
    engine: &mut Engine,
    scenario: &Scenario,
    duration: Span,
    sink: &mut S,
    mut progress: impl FnMut(Time) -> bool,
) -> Report {
    drive(engine, scenario, duration, sink, 65_536, &mut |_, now| progress(now))
}

/// As [`simulate`] without records, which ends some steps after the first missed deadline. Returns the instant reached. Costs O(n) more
/// for n tasks now and then.
///
/// # Panics
/// When stolen time is not a part of its period.
pub fn simulate_to_a_miss(engine: &mut Engine, scenario: &Scenario, duration: Span) -> Time {
    let mut reached = Time::ZERO + duration;
    drive(engine, scenario, duration, &mut (), 64, &mut |engine, now| {
        let missed = engine.totals().missed > 0;
        if missed {
            reached = now;
        }
        !missed
    });
    reached
}

/// Asks `progress` after each `every` steps, a power of two, whether the simulation continues.
fn drive<S: Sink>(
    engine: &mut Engine,
    scenario: &Scenario,
    duration: Span,
    sink: &mut S,
    every: u64,
    progress: &mut dyn FnMut(&Engine, Time) -> bool,
) -> Report {
    let end = Time::ZERO + duration;
    let Simulation { engine, machine, inputs, now, between } = Simulation::new(engine, scenario);
    let mut run = Drive { machine, inputs, now, end, sink, every, progress };
    loop {
        if run.machine.is_direct() && engine.can_lend_policy() {
            if !engine.lend_policy(&mut run) {
                break;
            }
        } else if !run.collect(engine) {
            break;
        }
        let _ = engine.step(run.now, &run.inputs, run.sink);
        run.machine.apply(run.now, engine, &run.inputs);
        run.report_progress(engine);
    }
    let Drive { machine, inputs, end, sink, .. } = run;
    Simulation { engine, machine, inputs, now, between }.finish(end, sink).1
}

/// A simulation from its start to its end.
struct Drive<'a, S> {
    machine: Machine,
    inputs: Vec<Input>,
    /// The instant of the present step.
    now: Time,
    end: Time,
    sink: &'a mut S,
    /// Steps between two calls of `progress`, a power of two.
    every: u64,
    progress: &'a mut dyn FnMut(&Engine, Time) -> bool,
}

impl<S> Drive<'_, S> {
    /// Finds the instant and the inputs of the next step; `false` if there is none before the end. As [`Simulation::run_until`] without inputs in
    /// between, and with one look at what is next for each step.
    fn collect(&mut self, engine: &Engine) -> bool {
        loop {
            let (due, act) = (self.machine.due(engine), self.machine.next());
            self.now = due.min(act);
            if self.now >= self.end {
                return false;
            }
            self.inputs.clear();
            self.machine.measure(self.now, engine, &mut self.inputs);
            let measured = self.inputs.len();
            if act <= self.now {
                self.machine.inputs(self.now, engine, &mut self.inputs);
            }
            // A program may have continued by itself, which is no step of the engine.
            if self.inputs.len() > measured || due <= self.now {
                return true;
            }
        }
    }

    #[inline(always)]
    fn report_progress(&mut self, engine: &Engine) {
        if self.machine.steps() & (self.every - 1) == 0 && !(self.progress)(engine, self.now) {
            self.end = self.now;
        }
    }
}

impl<S: Sink> Borrower for Drive<'_, S> {
    /// Takes steps in which the machine carries out commands at once. Returns `true` before a step with an input that concerns the policy, which is
    /// left to the caller, and `false` at the end.
    #[inline(never)]
    fn run<P: Policy + ?Sized>(&mut self, engine: &mut Engine, policy: &mut P) -> bool {
        loop {
            let (due, act) = (engine.next_event(), self.machine.next());
            self.now = due.min(act);
            if self.now >= self.end {
                return false;
            }
            let only = if act <= self.now { self.machine.only_completion() } else { None };
            let inputs: &[Input] = match &only {
                Some(only) => core::slice::from_ref(only),
                None if act > self.now => &[],
                None => {
                    self.inputs.clear();
                    self.machine.many_inputs(self.now, engine, &mut self.inputs);
                    if self.inputs.is_empty() && due > self.now {
                        continue;
                    }
                    if self.inputs.iter().any(Input::concerns_policy) {
                        return true;
                    }
                    &self.inputs
                }
            };
            self.machine.begin_step(self.now, inputs);
            engine.step_with(policy, self.now, inputs, &mut self.machine, self.sink);
            self.machine.end_step(engine);
            self.report_progress(engine);
        }
    }
}

/// One step of a recorded run: its instant and what the driver saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The instant handed to the engine.
    pub now: Time,
    /// The driver's inputs with it.
    pub inputs: Vec<Input>,
}

/// Feeds the steps of a recorded run to a fresh engine: the same records come out, bit for bit. The last step is the close of the
/// run. Costs what these steps cost.
pub fn replay<S: Sink>(engine: &mut Engine, steps: &[Step], sink: &mut S) {
    let Some((last, steps)) = steps.split_last() else { return };
    for step in steps {
        let _ = engine.step(step.now, &step.inputs, sink);
    }
    engine.close(last.now, &last.inputs, sink);
}
