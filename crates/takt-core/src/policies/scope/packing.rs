//! Bin packing of tasks on clusters of CPUs.
//!
//! Coffman, Garey, Johnson, "Approximation Algorithms for Bin Packing: A Survey", 1996, for the rules; Lopez, Diaz, Garcia,
//! "Utilization Bounds for EDF Scheduling on Real-Time Multiprocessor Systems", Real-Time Systems 28, 2004, for what they
//! guarantee under EDF.

use crate::cpus::CpuSet;
use crate::model::{System, TaskId};
use crate::policy::{Build, Fit, Placement, Scope};
use crate::record::Place;
use crate::time::Span;
use alloc::vec;
use alloc::vec::Vec;

/// One CPU in the unit of utilisations.
const FULL: i128 = 1 << 62;

/// The part of a CPU that is `need` in each `period`, in units of 2^-62, rounded down: tasks that fill a CPU exactly must fit on
/// it, and n tasks that pass for a full CPU overload it by less than n units.
pub(crate) fn share(need: Span, period: Span) -> i128 {
    i128::from(need.ns()) * FULL / i128::from(period.ns())
}

/// Utilisation of a task in units of 2^-62, rounded down.
pub(super) fn utilisation(system: &System, task: TaskId) -> i128 {
    let t = &system.tasks[task.index()];
    match (t.runtime, t.arrival.period()) {
        (Some(c), Some(period)) => share(c, period),
        _ => 0,
    }
}

/// The clusters of the scope that `build` names, each a run of consecutive places; there is at least one. Uniprocessor and
/// global: one of all places. Partitioned: one for each. Clustered: groups of `cluster`, of which the last may be smaller.
pub(super) fn clusters<'a>(build: &Build<'a>) -> Vec<&'a [Place]> {
    let size = match build.spec.scope {
        Scope::Uniprocessor | Scope::Global | Scope::Table => build.places.len(),
        Scope::Partitioned => 1,
        Scope::Clustered => usize::from(build.spec.cluster),
    };
    if build.places.is_empty() {
        return vec![build.places];
    }
    build.places.chunks(size.max(1)).collect()
}

/// Gives every task a home cluster by bin packing over utilisations. The result is indexed by task and holds indexes into
/// the scope's clusters, which under a partitioned scope over all CPUs are those of the CPUs.
///
/// A task that fits nowhere makes the system overloaded, which is for `takt check` to say and for the run to show; one that may
/// use no CPU at all is given the first cluster. O(n log n + n m) for n tasks and m CPUs.
#[must_use]
pub fn pack(build: &Build<'_>) -> Vec<u16> {
    homes(build, &clusters(build), |task| utilisation(build.system, task))
}

/// The same for these clusters, by what each task `needs`, in units of 2^-62 of a CPU.
pub(super) fn homes(build: &Build<'_>, clusters: &[&[Place]], needs: impl Fn(TaskId) -> i128) -> Vec<u16> {
    let homes = build.pack_by(clusters, build.spec.placement, needs);
    homes.into_iter().map(Option::unwrap_or_default).collect()
}

impl Build<'_> {
    /// Bin packing of the tasks on `clusters` by what each needs, in units of 2^-62 of a CPU. The result is indexed by task of the
    /// system and holds indexes into `clusters`; `None` is a task that may use none of them, or is not one of this build.
    ///
    /// The capacity of a cluster is the number of its CPUs that the task may use, and no task alone may need more than one. A
    /// task that fits nowhere goes to the emptiest cluster that it may use. O(n log n + n m) for n tasks and m CPUs.
    pub(crate) fn pack_by(
        &self,
        clusters: &[&[Place]],
        rule: Placement,
        need: impl Fn(TaskId) -> i128,
    ) -> Vec<Option<u16>> {
        let system = self.system;
        let cpus: Vec<usize> = system.cpus.iter().collect();
        let set = |places: &&[Place]| places.iter().map(|p| cpus[p.index()]).collect::<CpuSet>();
        let clusters: Vec<CpuSet> = clusters.iter().map(set).collect();
        let mut order: Vec<TaskId> = self.tasks.to_vec();
        if rule.decreasing {
            order.sort_by_key(|&t| (core::cmp::Reverse(need(t)), t));
        }
        let mut load = vec![0; clusters.len()];
        let mut home = vec![None; system.tasks.len()];
        for task in order {
            let need = need(task);
            let allowed = |c: usize| clusters[c].intersection(&system.tasks[task.index()].affinity).len();
            let usable = || (0..clusters.len()).filter(|&c| allowed(c) > 0);
            let room = |c: usize| allowed(c) as i128 * FULL - load[c];
            let fits = || usable().filter(|&c| need <= room(c).min(FULL));
            let chosen = match rule.fit {
                Fit::First => fits().next(),
                Fit::Best => fits().min_by_key(|&c| (room(c), c)),
                Fit::Worst => fits().max_by_key(|&c| (room(c), core::cmp::Reverse(c))),
            };
            let emptiest = || usable().max_by_key(|&c| (room(c), core::cmp::Reverse(c)));
            if let Some(cluster) = chosen.or_else(emptiest) {
                load[cluster] += need;
                home[task.index()] = Some(cluster as u16);
            }
        }
        home
    }
}
