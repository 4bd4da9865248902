//! How late jobs can be under global EDF, where deadlines are missed though there is no more work than the CPUs can do.

use crate::taskset::TaskSet;
use crate::tests;
use takt_core::model::{Backlog, Scope, System, Timing};
use takt_core::time::Span;

/// The most by which a job of the set can be late under global EDF on so many CPUs (Devi, Anderson, "Tardiness Bounds under Global
/// EDF Scheduling on a Multiprocessor", Real-Time Systems 38, 2008). O(n).
///
/// # Errors
/// Why no bound is known.
pub fn of_set(set: &TaskSet, cpus: usize) -> Result<Span, &'static str> {
    if let Some(why) = set.beyond {
        return Err(why);
    }
    if !set.is_implicit() {
        return Err("a deadline is not at the end of its period");
    }
    let late = tests::tardiness(&set.tasks, cpus as u64).ok_or("there is more work than the CPUs can do")?;
    Ok(set.span(late))
}

/// The same for a system under global EDF whose late jobs queue; `None` where no bound is known, or the policy is another. What a
/// machine costs and what happens to it is not known here. O(n), beside what it takes to read the steps of the tasks.
#[must_use]
pub fn bound(system: &System) -> Option<Span> {
    let alone = system.domains.is_empty() && system.windows.is_empty() && system.cpus.len() > 1;
    let global = system.policy.is_edf() && system.policy.scope == Scope::Global;
    if !alone || !global || system.backlog != Backlog::Queue || system.timing != Timing::default() {
        return None;
    }
    of_set(&TaskSet::from_system(system).ok()?, system.cpus.len()).ok()
}
