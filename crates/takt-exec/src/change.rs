//! A change of a running schedule, from the supervisor to the scheduler and back. The supervisor allocates and frees
//! its memory.

use crate::causes::{CAUSES, Response};
use crate::plan::Process;
use rustix::process::Signal;
use std::fmt;
use takt_core::engine::{Engine, Input, Prepared};
use takt_core::model::{PolicySpec, TaskId};
use takt_core::policy::PreparedTable;
use takt_core::record::Sink;
use takt_core::time::{Span, Time};
use takt_linux::rt::Class;

/// A policy or a window table that has been built, and the inputs that stand for it in the record of the run.
pub(crate) struct Install {
    /// The prepared part that takes over, and after that the replaced one.
    pub(crate) prepared: Option<New>,
    /// One, or one for each task that comes with the policy.
    pub(crate) inputs: Vec<Input>,
}

/// A prepared part of the schedule.
#[expect(clippy::large_enum_variant, reason = "policies are exchanged in place, without the allocator")]
pub(crate) enum New {
    Policy(Prepared),
    Table {
        /// A window table. It takes over at the end of the major frame; then the one that was replaced stays with the policy until the next
        /// change of this kind.
        table: PreparedTable,
        /// Its shortest window.
        shortest: Option<Span>,
    },
}

/// Inputs of one step: all of them, or none.
pub(crate) struct Change {
    pub(crate) inputs: Vec<Input>,
    pub(crate) install: Option<Install>,
    /// All policies that the run has learned of since its start.
    pub(crate) loaded: Vec<PolicySpec>,
    /// How often terms of tasks had changed in the engine when it was prepared ([`Engine::changes_of_terms`]). A policy that was prepared for other
    /// terms is not installed: the replay of the run would build it for the present ones. Terms that a policy has admitted beside others are not set: a
    /// program may have been granted the rest of the CPU time meanwhile.
    pub(crate) terms: u32,
    /// The tasks that it adds.
    pub(crate) newcomers: Vec<Newcomer>,
    /// The instant of the step that has taken it; `None` when it came too late.
    pub(crate) made: Option<Time>,
    /// It came too late because terms of tasks have changed since it was prepared.
    pub(crate) is_outdated: bool,
}

/// A task that is added, as far as the scheduler has to know its process.
pub(crate) struct Newcomer {
    pub(crate) task: TaskId,
    pub(crate) abort_signal: Option<Signal>,
    pub(crate) class: Class,
    pub(crate) responses: [Response; 2],
    pub(crate) on_miss: bool,
    pub(crate) on_overrun: bool,
    /// A reaction follows when a job exceeds its runtime.
    pub(crate) limited: bool,
    /// The CPU time of its jobs is read at their ends.
    pub(crate) counted: bool,
}

/// Whether the CPU time of the jobs of a process is read at their ends: each job of the process has a part of it.
pub(crate) fn is_counted(process: &Process) -> bool {
    !process.per_job && process.kernel.is_none()
}

impl Newcomer {
    pub(crate) fn new(task: TaskId, process: &Process, class: Class) -> Newcomer {
        Newcomer {
            task,
            abort_signal: process.abort_signal,
            class,
            responses: CAUSES.map(|cause| Response::new(process, cause)),
            on_miss: process.on_miss.is_some(),
            on_overrun: process.on_overrun.is_some(),
            limited: process.on_overrun.is_some() && !process.per_job,
            counted: is_counted(process),
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("inputs", &self.inputs).field("made", &self.made).finish_non_exhaustive()
    }
}

impl Change {
    pub(crate) fn new(inputs: Vec<Input>, install: Option<Install>, loaded: Vec<PolicySpec>, terms: u32) -> Change {
        Change { inputs, install, loaded, terms, newcomers: Vec::new(), made: None, is_outdated: false }
    }

    /// Installs the policy or the window table, and gives the inputs that stand for it.
    ///
    /// # Errors
    /// The prepared part is for another system.
    pub(crate) fn install(&mut self, at: Time, engine: &mut Engine, sink: &mut impl Sink) -> Result<&[Input], ()> {
        let Some(install) = &mut self.install else { return Ok(&[]) };
        // There is room for as many as the run may learn of.
        engine.add_alternatives(self.loaded.iter().copied());
        let (prepared, done) = match install.prepared.take() {
            Some(New::Policy(policy)) => match engine.install(at, policy, sink) {
                Ok(replaced) => (Some(New::Policy(replaced)), true),
                Err(policy) => (Some(New::Policy(policy)), false),
            },
            Some(New::Table { table, shortest }) => match engine.install_table(table) {
                Ok(replaced) => (replaced.map(|table| New::Table { table, shortest: None }), true),
                Err(table) => (Some(New::Table { table, shortest }), false),
            },
            None => (None, false),
        };
        install.prepared = prepared;
        if done { Ok(&install.inputs) } else { Err(()) }
    }

    /// Whether a policy takes over.
    pub(crate) fn has_policy(&self) -> bool {
        let is_built = |input: &Input| matches!(input, Input::Switch { .. } | Input::Add { .. });
        self.install.as_ref().is_some_and(|install| install.inputs.iter().any(is_built))
    }

    /// Whether it was prepared for the terms that all tasks had then.
    pub(crate) fn depends_on_terms(&self) -> bool {
        let is_admitted =
            |input: &Input| matches!(input, Input::Retime { .. } | Input::Terms { .. } | Input::Enter { .. });
        self.has_policy() || self.inputs.iter().any(is_admitted)
    }

    /// Whether a window table takes over.
    pub(crate) fn has_table(&self) -> bool {
        let is_table = |input: &Input| matches!(input, Input::Table { .. });
        self.install.as_ref().is_some_and(|install| install.inputs.iter().any(is_table))
    }

    /// The shortest window of a window table that is to take over.
    pub(crate) fn shortest(&self) -> Option<Span> {
        match self.install.as_ref()?.prepared.as_ref()? {
            New::Table { shortest, .. } => *shortest,
            New::Policy(_) => None,
        }
    }
}
