//! A rule that a trace breaks.

use std::fmt;
use takt_core::time::Time;

/// A rule that a trace breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// When, in the time of the record that shows it.
    pub at: Time,
    /// The label of the task concerned.
    pub task: Option<String>,
    /// The rule's name, as in the module's table.
    pub rule: &'static str,
    /// The observation.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: ", self.at)?;
        if let Some(task) = &self.task {
            write!(f, "{task}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.rule)
    }
}
