//! The costs and the disturbances of a simulated machine.
//!
//! Only plain data, so that readers of files and the simulator agree on it. On Linux the real machine has costs of its own.

use crate::input::Input;
use crate::model::{Arrival, TaskId};
use crate::time::{Span, Time};
use alloc::vec::Vec;

/// Overheads of a simulated machine, each zero by default. They are CPU time in which the job that runs next on the CPU makes
/// no progress.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Costs {
    /// When the running task of a CPU changes.
    pub context_switch: Span,
    /// In addition, when a job resumes on another CPU than before.
    pub migration: Span,
    /// In addition, when a job resumes that was preempted: its caches are cold.
    pub cache_reload: Span,
    /// Each time the scheduler is run.
    pub scheduler: Span,
    /// In addition, for each task that it looks at while it visits all of them ([`crate::policy::Context::visited`]).
    pub scheduler_task: Span,
    /// Each time a CPU takes the lock of a ready queue that it shares with other CPUs, to run the scheduler.
    pub lock: Span,
    /// Each time a CPU is interrupted by another one, to enter the scheduler.
    pub interrupt: Span,
}

/// How the CPUs of one ready queue come to a decision: what it costs, not what it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Deciding {
    /// The CPU on which something happened decides for all, while the others are interrupted and wait (ChronOS:
    /// "stop-the-world").
    #[default]
    StopTheWorld,
    /// Each CPU picks for itself, and interrupts only those whose job changes (ChronOS: "concurrent").
    Concurrent,
}

/// Time stolen from each CPU: a hypervisor, an interrupt, a task of another class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steal {
    /// How often; above zero.
    pub period: Span,
    /// How long each time; at most the period.
    pub length: Span,
}

/// The surroundings of a simulated system.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// The costs of the machine.
    pub costs: Costs,
    /// The driver has a meter ([`Input::Usage`]): costs are time in which no job runs, so they use up neither budgets nor bursts.
    pub metered: bool,
    /// How CPUs come to a decision.
    pub deciding: Deciding,
    /// The stolen time.
    pub steal: Option<Steal>,
    /// The inputs from outside, in ascending order of time.
    pub changes: Vec<(Time, Input)>,
    /// When the source of a task's events has events, for tasks that events release ([`Arrival::Event`]).
    pub events: Vec<(TaskId, Arrival)>,
    /// Frequencies, power and temperatures of the machine.
    #[cfg(feature = "power")]
    pub machine: Option<(crate::power::Platform, crate::power::Model)>,
}
