//! Virtual time under the engine: the simulator, and the replay of a recorded run.
//!
//! A simulated job completes when it has run for its declared runtime; an activation without one runs until its budget is used.
//! Nothing costs time but the jobs themselves. Memory does not grow with the simulated time.

use takt_core::engine::{Command, Engine, Input, Work};
use takt_core::model::{System, TaskId};
use takt_core::record::Sink;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};

/// The execution of jobs in virtual time.
struct Machine {
    demand: Vec<Option<Span>>,
    handler: Vec<Option<Span>>,
    /// What the task's current job still needs; [`Span::MAX`] for ever.
    left: Vec<Span>,
    since: Vec<Time>,
    /// Tasks that run and the instants at which their jobs complete.
    running: Vec<(Time, TaskId)>,
}

impl Machine {
    fn new(system: &System) -> Machine {
        let n = system.tasks.len();
        Machine {
            demand: system.tasks.iter().map(|t| t.runtime).collect(),
            handler: system.tasks.iter().map(|t| t.handler.map(|h| h.runtime)).collect(),
            left: vec![Span::ZERO; n],
            since: vec![Time::ZERO; n],
            running: Vec::with_capacity(n.min(system.cpus.len())),
        }
    }

    fn start(&mut self, task: TaskId, work: Work, now: Time) {
        let i = task.index();
        match work {
            Work::Fresh => self.left[i] = self.demand[i].unwrap_or(Span::MAX),
            Work::Handler => self.left[i] = self.handler[i].unwrap_or(Span::MAX),
            Work::Resumed => {}
        }
        self.since[i] = now;
        self.running.push((now.saturating_add(self.left[i]), task));
    }

    fn stop(&mut self, task: TaskId, now: Time) {
        let i = task.index();
        if self.left[i] != Span::MAX {
            self.left[i] -= now - self.since[i];
        }
        self.running.retain(|(_, t)| *t != task);
    }

    fn apply(&mut self, commands: &[Command], now: Time) {
        for command in commands {
            match *command {
                Command::Stop { task, .. } => self.stop(task, now),
                Command::Start { task, work, .. } => self.start(task, work, now),
                // Moving costs nothing, so only a new job matters.
                Command::Move { work: Work::Resumed, .. } => {}
                Command::Move { task, work, .. } | Command::Continue { task, work, .. } => {
                    self.stop(task, now);
                    self.start(task, work, now);
                }
            }
        }
    }

    /// The jobs that complete at `now`, in the order of their tasks.
    fn completed(&self, now: Time, inputs: &mut Vec<Input>) {
        inputs.clear();
        inputs.extend(self.running.iter().filter(|(at, _)| *at == now).map(|&(_, task)| Input::Complete { task }));
        if inputs.len() > 1 {
            inputs.sort_by_key(|input| match input {
                Input::Complete { task } => *task,
                _ => unreachable!("only completions are collected"),
            });
        }
    }

    fn next(&self) -> Option<Time> {
        self.running.iter().map(|(at, _)| *at).min()
    }
}

/// Simulates from time zero to `duration`: releases before it, completions up to and including it.
///
/// `progress` is called now and then with the instant reached. Costs what the engine's steps cost plus O(m) per step for m CPUs.
pub fn simulate<S: Sink>(
    engine: &mut Engine,
    scenario: &Scenario,
    duration: Span,
    sink: &mut S,
    mut progress: impl FnMut(Time),
) {
    let _ = scenario;
    let end = Time::ZERO + duration;
    let mut machine = Machine::new(engine.system());
    let mut inputs = Vec::new();
    let mut steps = 0u32;
    loop {
        let now = match (engine.next_due(), machine.next()) {
            (Some(a), Some(b)) => a.min(b),
            (Some(a), None) | (None, Some(a)) => a,
            (None, None) => break,
        };
        if now >= end {
            break;
        }
        machine.completed(now, &mut inputs);
        machine.apply(engine.step(now, &inputs, sink), now);
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(65_536) {
            progress(now);
        }
    }
    machine.completed(end, &mut inputs);
    engine.close(end, &inputs, sink);
}

/// One step of a recorded run: its instant and what the driver saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The instant handed to the engine.
    pub now: Time,
    /// What the driver handed in with it.
    pub inputs: Vec<Input>,
}

/// Feeds the steps of a recorded run to a fresh engine: the same records come out, bit for bit. The last step is the close of the run.
pub fn replay<S: Sink>(engine: &mut Engine, steps: &[Step], sink: &mut S) {
    let Some((last, steps)) = steps.split_last() else { return };
    for step in steps {
        let _ = engine.step(step.now, &step.inputs, sink);
    }
    engine.close(last.now, &last.inputs, sink);
}
