//! Virtual time under the engine: the simulator, and the replay of a recorded run.
//!
//! A simulated job does what its task's steps say, or runs for as long as [`takt_core::model::Task::demand`] says and then
//! completes; a job that has neither steps nor a runtime never completes by itself. The machine costs nothing unless the
//! [`Scenario`] says so. Memory does not grow with the simulated time.
//!
//! # What jobs do
//! Locking, unlocking and yielding take no time. A job does one of these at a time, and each is followed by a decision, so
//! that a job that is preempted by its own unlocking goes on only when it runs again. Only the unlocks and yields with which it
//! ends are one instant with its completion. A sleep begins with [`Input::Block`] and ends with [`Input::Wake`] at the first
//! multiple of the system's tick that is not before its end; if it is the last step, the job completes as it wakes up. An
//! aborted job leaves its steps and its sleep undone, and its handler runs for its runtime.
//!
//! # What happens to them
//! A [`Happening::Block`] holds its task until a [`Happening::Wake`]: its ready job blocks at once; one that sleeps or waits
//! for a resource then, or that comes later, blocks as soon as it could go on. A `Wake` does not end a sleep of the job's own.
//!
//! # What it costs
//! A cost is time in which a job holds its CPU and makes no progress, while deadlines and budgets run on. It is charged to a
//! job, which pays it before it goes on, once and in full: a job that is preempted before it has paid pays the rest when it
//! runs again, together with what that costs. Only the end of the job cancels a rest.
//!
//! * `context_switch`: to a job that starts on a CPU where another task ran last, whether or not the CPU was idle in between: the
//!   changes that [`Engine::context_switches`] counts. A job on several CPUs pays once.
//! * `migration`: to a job that goes on on another CPU than before.
//! * `cache_reload`: to a job that goes on after it was stopped in favour of another one; not after it blocked or was suspended.
//! * `scheduler`, and `scheduler_task` for each task that the policy looked at: for each step of the engine, to every job that
//!   starts, moves or begins by its decision, since all of them wait for it. If nothing changes, then to the job whose own act led
//!   to the step, or else to the one that runs on the first CPU, which has been interrupted. A CPU that is or becomes idle
//!   bears it for nothing.
//!
//! Stolen time is the beginning of each period on every CPU, the first one at time zero. Whoever holds a CPU then makes no
//! progress, and the engine does not learn of it.

mod machine;
mod report;
mod steal;

pub use report::{CpuTime, Report, TaskTime};

use machine::Machine;
use takt_core::engine::{Engine, Input};
use takt_core::record::Sink;
#[cfg(doc)]
use takt_core::scenario::Happening;
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
        machine.apply(now, engine);
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

/// Feeds the steps of a recorded run to a fresh engine: the same records come out, bit for bit. The last step is the close of the run.
pub fn replay<S: Sink>(engine: &mut Engine, steps: &[Step], sink: &mut S) {
    let Some((last, steps)) = steps.split_last() else { return };
    for step in steps {
        let _ = engine.step(step.now, &step.inputs, sink);
    }
    engine.close(last.now, &last.inputs, sink);
}
