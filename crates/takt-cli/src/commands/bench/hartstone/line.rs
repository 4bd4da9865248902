//! A line of the table, and what disturbs the machine.

use takt_core::model::PolicySpec;
use takt_core::scenario::Steal;
use takt_core::time::Span;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disturbance {
    Lateness(Span),
    Skew(Span),
    Steal(Steal),
}

/// One line of the results: a policy with what is said about importances.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Line {
    pub(super) policy: PolicySpec,
    pub(super) weighted: bool,
    /// Importances matter to it.
    pub(super) by_importance: bool,
}

impl Line {
    pub(super) fn name(&self, extended: bool) -> String {
        let name = takt_workload::policy_text(&self.policy);
        match (extended && self.by_importance, self.weighted) {
            (false, _) => name,
            (true, true) => name + " theta=set",
            (true, false) => name + " theta=1",
        }
    }
}
