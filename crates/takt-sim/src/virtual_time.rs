//! Virtual time: the clock of the simulator, and of a replay.

use crate::machine::Machine;
use crate::report::Report;
use takt_core::engine::{Engine, Input};
use takt_core::record::Sink;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};

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
    let end = Time::ZERO + duration;
    let mut machine = Machine::new(engine, scenario);
    let mut inputs = Vec::with_capacity(2 * engine.system().tasks.len() + scenario.changes.len() + 8);
    loop {
        let (due, act) = (engine.next_due().unwrap_or(Time::MAX), machine.next());
        let now = due.min(act);
        if now >= end {
            break;
        }
        inputs.clear();
        if act <= now {
            machine.inputs(now, engine, &mut inputs);
            if inputs.is_empty() && due > now {
                continue;
            }
        }
        let _ = engine.step(now, &inputs, sink);
        machine.apply(now, engine, &inputs);
        if machine.steps().is_multiple_of(65_536) {
            progress(now);
        }
    }
    machine.last_inputs(end, engine, &mut inputs);
    engine.close(end, &inputs, sink);
    machine.finish(end)
}

/// One step of a recorded run: its instant and what the driver saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The instant handed to the engine.
    pub now: Time,
    /// What the driver handed in with it.
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
