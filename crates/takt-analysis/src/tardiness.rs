//! How late jobs can be under global EDF, where deadlines are missed though there is no more work than the CPUs can do.

use crate::taskset::TaskSet;
use crate::tests;
use takt_core::model::{Backlog, Scope, System, Timing};
use takt_core::time::Span;

/// By task the most by which a job can be late under global EDF on so many CPUs (Devi, Anderson, "Tardiness Bounds under Global
/// EDF Scheduling on a Multiprocessor", Real-Time Systems 38, 2008). O(n log n).
///
/// # Errors
/// Why no bound is known.
pub fn of_set(set: &TaskSet, cpus: usize) -> Result<Vec<Span>, &'static str> {
    if let Some(why) = set.beyond {
        return Err(why);
    }
    if !set.is_implicit() {
        return Err("a deadline is not at the end of its period");
    }
    let late = tests::tardiness(&set.tasks, cpus as u64).ok_or("there is more work than the CPUs can do")?;
    Ok(late.into_iter().map(|late| set.span(late)).collect())
}

/// The same for a system under global EDF whose late jobs queue; `None` where no bound is known, or the policy is another. What a
/// machine costs and what happens to it is not known here. O(n log n), beside what it takes to read the steps of the tasks.
#[must_use]
pub fn bound(system: &System) -> Option<Vec<Span>> {
    let alone = system.domains.is_empty() && system.windows.is_empty() && system.cpus.len() > 1;
    let global = system.policy.is_edf() && system.policy.scope == Scope::Global;
    if !alone || !global || system.backlog != Backlog::Queue || system.timing != Timing::default() {
        return None;
    }
    of_set(&TaskSet::from_system(system).ok()?, system.cpus.len()).ok()
}
