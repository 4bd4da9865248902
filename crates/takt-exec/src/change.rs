//! A change of a running schedule, from the supervisor to the scheduler and back. The supervisor allocates and frees
//! its memory.

use std::fmt;
use takt_core::engine::{Engine, Input, Prepared};
use takt_core::model::PolicySpec;
use takt_core::record::Sink;
use takt_core::time::Time;

/// A policy that has been built, and the input that stands for it in the record of the run.
pub(crate) struct Install {
    /// The policy that takes over, and after that the one that was replaced.
    pub(crate) prepared: Option<Prepared>,
    pub(crate) input: Input,
}

/// Inputs of one step: all of them, or none.
pub(crate) struct Change {
    pub(crate) inputs: Vec<Input>,
    pub(crate) install: Option<Install>,
    /// All policies that the run has learned of since its start.
    pub(crate) loaded: Vec<PolicySpec>,
    /// How many changes of terms the engine had seen when it was prepared. A policy that was prepared for other terms is not installed.
    pub(crate) terms: u64,
    /// The instant of the step that has taken it; `None` when it came too late.
    pub(crate) made: Option<Time>,
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("inputs", &self.inputs).field("made", &self.made).finish_non_exhaustive()
    }
}

impl Change {
    pub(crate) fn new(inputs: Vec<Input>, install: Option<Install>, loaded: Vec<PolicySpec>, terms: u64) -> Change {
        Change { inputs, install, loaded, terms, made: None }
    }

    /// Installs the policy, and gives the input that stands for it.
    ///
    /// # Errors
    /// The policy was prepared for another system.
    pub(crate) fn install(&mut self, at: Time, engine: &mut Engine, sink: &mut impl Sink) -> Result<Option<Input>, ()> {
        let Some(install) = &mut self.install else { return Ok(None) };
        let Some(prepared) = install.prepared.take() else { return Err(()) };
        // There is room for as many as the run may learn of.
        engine.add_alternatives(self.loaded.iter().copied());
        match engine.install(at, prepared, sink) {
            Ok(replaced) => {
                install.prepared = Some(replaced);
                Ok(Some(install.input))
            }
            Err(prepared) => {
                install.prepared = Some(prepared);
                Err(())
            }
        }
    }
}
