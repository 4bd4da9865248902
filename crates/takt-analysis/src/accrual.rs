//! Facts about policies of utility accrual: where they are EDF.

use crate::demand::Demand;
use takt_core::model::{Need, PolicySpec, Scope, System};

/// Whether the policy goes by what jobs are worth.
pub(crate) fn by_utility(system: &System) -> bool {
    system.policy.profile.needs.contains(&Need::Utility)
}

/// Whether the policy sheds jobs from a schedule in order of deadlines, and only where that is not feasible by what is declared.
/// While EDF meets all deadlines, what is present is feasible at every event (it is, with all that is yet to come), so nothing
/// is shed and the policy is EDF (Locke, thesis, Carnegie Mellon University, 1986; Clark, thesis, Carnegie Mellon University,
/// 1990). That holds on one CPU, and for NG-GUA and gMUA beside global EDF.
pub(crate) fn sheds(system: &System) -> bool {
    let one_cpu = system.cpus.len() == 1 || system.policy.scope == Scope::Partitioned;
    one_cpu && system.policy.is_underload_edf(false)
}

/// Whether a global policy is global EDF while that meets all deadlines.
pub(crate) fn is_global_edf(policy: &PolicySpec) -> bool {
    policy.is_edf() || policy.is_underload_edf(true)
}

/// The order of a policy that sheds jobs: by the declaration, where a job does not need more.
pub(crate) fn as_declared(system: &System, mut demand: Demand) -> Demand {
    let declared = system.tasks[demand.task.index()].runtime.map_or(0, |runtime| i128::from(runtime.ns()));
    demand.runtime = demand.runtime.max(declared);
    demand
}
