//! The CPU to which each task belongs at the start.

use super::regulator::WHOLE;
use super::setpoints;
use crate::model::{Fit, Placement, TaskId};
use crate::policy::Build;
use crate::record::Place;
use alloc::vec::Vec;

/// Gives every task a home CPU: each in turn goes to the emptiest one that it may use (worst fit), in the order of decreasing
/// load if the placement says so. A task that declares less than a hundredth of a CPU, or nothing, counts as a hundredth. The
/// result is indexed by task and holds indexes of single-CPU places; `None` is a task that may run on none.
/// O(tasks × CPUs + tasks × log tasks).
#[must_use]
pub fn homes(build: &Build<'_>) -> Vec<Option<u16>> {
    let load = |t: TaskId| setpoints::load(&build.system.tasks[t.index()]).unwrap_or(0).max(WHOLE as u64 / 100);
    let cpus: Vec<&[Place]> = build.places.chunks(1).collect();
    let rule = Placement { fit: Fit::Worst, ..build.spec.placement };
    let (homes, _) = build.pack_by(&cpus, rule, |t| i128::from(load(t)) << 30);
    homes.into_iter().map(|home| home.map(|c| build.places[usize::from(c)].index() as u16)).collect()
}
