//! Bin packing of tasks on clusters of CPUs.
//!
//! A cluster of one CPU accepts a task by the exact test of its policy ([`Entry::test`](crate::policy::Entry)), if there is one; all
//! other clusters by utilisation.
//!
//! Coffman, Garey, Johnson, "Approximation Algorithms for Bin Packing: A Survey", 1996, for the rules; Lopez, Diaz, Garcia,
//! "Utilization Bounds for EDF Scheduling on Real-Time Multiprocessor Systems", Real-Time Systems 28, 2004, for what they
//! guarantee under EDF.
//!
//! A task that no CPU accepts is placed on the least utilised one, which then accepts no other task, so its misses stay on that CPU. All
//! exact tests of one placement share the effort of one long search, and each may use a sixteenth of the rest. Two sums avoid most
//! searches: the density under EDF, and an upper bound of response times under fixed priorities.

use super::candidate::{Candidate, Load};
use crate::cpus::CpuSet;
use crate::model::{Fit, Placement, Scope, System, TaskId};
use crate::policies::split::assign::order_of;
use crate::policies::split::bins::{choose, least_utilised};
use crate::policies::split::demand::Effort;
use crate::policy::Build;
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

/// Where placement has put the tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packed {
    /// By task of the system an index into the scope's clusters, which under a partitioned scope over all CPUs are those of the
    /// CPUs. A task that may use none of them, or is not one of the build, has the first one.
    pub homes: Vec<u16>,
    /// Tasks that no cluster accepted, in the order of their numbers. Each is in the least utilised one that it may use.
    pub refused: Vec<Refused>,
}

/// A task that no cluster accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The task.
    pub task: TaskId,
    /// Whether a test was given up for its length: the task may have room on a CPU.
    pub inconclusive: bool,
}

/// Gives every task a home cluster by bin packing. Clusters of one CPU accept tasks by the exact test of their policy, others by
/// utilisation.
///
/// A task that no cluster accepts goes to the least utilised one. Where that takes an exact test, the CPU accepts no further
/// task: those that are placed later must not suffer from it. A scope with one cluster for all CPUs refuses nothing. O(n m)
/// tests for n tasks and m CPUs; all of them together have the effort of one long search, and a test that has exhausted its part of
/// it counts as a no.
#[must_use]
pub fn pack(build: &Build<'_>) -> Packed {
    let clusters = clusters(build);
    let is_one = matches!(build.spec.scope, Scope::Uniprocessor | Scope::Global | Scope::Table);
    if !cfg!(feature = "multiprocessor") || is_one {
        return Packed { homes: vec![0; build.system.tasks.len()], refused: Vec::new() };
    }
    let single = clusters.iter().all(|places| places.len() == 1);
    let candidates =
        clusters.iter().map_while(|_| Candidate::new(build.spec.profile.test).filter(|_| single)).collect();
    let (homes, refused) = match build.by_test(&clusters, candidates) {
        Some(placed) => placed,
        None => build.pack_by(&clusters, build.spec.placement, |task| utilisation(build.system, task)),
    };
    Packed { homes: homes.into_iter().map(Option::unwrap_or_default).collect(), refused }
}

/// The homes of tasks in the clusters of the scope, by what each task `needs`, in units of 2^-62 of a CPU.
pub(super) fn homes(build: &Build<'_>, needs: impl Fn(TaskId) -> i128) -> Vec<u16> {
    let (homes, _) = build.pack_by(&clusters(build), build.spec.placement, needs);
    homes.into_iter().map(Option::unwrap_or_default).collect()
}

/// For each task of the system its cluster, and the tasks that no cluster accepted.
type Placed = (Vec<Option<u16>>, Vec<Refused>);

impl Build<'_> {
    /// Bin packing of the tasks on `clusters` by what each needs, in units of 2^-62 of a CPU. The result is indexed by task of the
    /// system and holds indexes into `clusters`; `None` is a task that may use none of them, or is not one of this build. Beside it
    /// come the tasks that no cluster accepted.
    ///
    /// The capacity of a cluster is the number of its CPUs that the task may use, and no task alone may need more than one. A
    /// task that fits nowhere goes to the emptiest cluster that it may use. O(n log n + n m) for n tasks and m CPUs.
    pub(crate) fn pack_by(&self, clusters: &[&[Place]], rule: Placement, need: impl Fn(TaskId) -> i128) -> Placed {
        let system = self.system;
        let clusters = self.sets(clusters);
        if !cfg!(feature = "multiprocessor") {
            // There is one CPU.
            let mut home = vec![None; system.tasks.len()];
            for task in self.tasks {
                let affinity = &system.tasks[task.index()].affinity;
                home[task.index()] = clusters.iter().position(|cpus| !cpus.is_disjoint(affinity)).map(|c| c as u16);
            }
            return (home, Vec::new());
        }
        let mut order: Vec<TaskId> = self.tasks.to_vec();
        if rule.decreasing {
            order.sort_by_key(|&t| (core::cmp::Reverse(need(t)), t));
        }
        let mut load = vec![0; clusters.len()];
        let mut home = vec![None; system.tasks.len()];
        let mut refused = Vec::new();
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
            if chosen.is_none() && need > 0 {
                refused.push(Refused { task, inconclusive: false });
            }
            if let Some(cluster) = chosen.or_else(emptiest) {
                load[cluster] += need;
                home[task.index()] = Some(cluster as u16);
            }
        }
        refused.sort_by_key(|refused| refused.task);
        (home, refused)
    }

    /// Bin packing of the tasks on `clusters` of one CPU each by exact tests; `None` without a candidate for each.
    fn by_test(&self, clusters: &[&[Place]], mut candidates: Vec<Candidate>) -> Option<Placed> {
        if candidates.len() < clusters.len() {
            return None;
        }
        let (system, spec) = (self.system, &self.spec);
        let clusters = self.sets(clusters);
        let load = |(index, task): (usize, &TaskId)| Load::of(&system.tasks[task.index()], index, spec);
        let loads: Vec<Option<Load>> = self.tasks.iter().enumerate().map(load).collect();
        let mut home = vec![None; system.tasks.len()];
        let mut refused = Vec::new();
        let mut effort = Effort::default();
        for index in order_of(loads.len(), spec.placement.decreasing, |i| loads[i].map(|load| load.times)) {
            let (task, load) = (self.tasks[index], loads[index]);
            let affinity = &system.tasks[task.index()].affinity;
            let on: Vec<usize> = (0..clusters.len()).filter(|c| !clusters[*c].is_disjoint(affinity)).collect();
            if on.is_empty() {
                continue;
            }
            let mut inconclusive = false;
            let chosen = choose(&mut candidates, &load, &on, spec.placement.fit, &mut effort, &mut inconclusive);
            let cpu = chosen.unwrap_or_else(|| least_utilised(&candidates, &on));
            home[task.index()] = Some(cpu as u16);
            match (load, chosen) {
                (Some(load), Some(_)) => candidates[cpu].put(load),
                (Some(load), None) => {
                    candidates[cpu].force(load);
                    refused.push(Refused { task, inconclusive });
                }
                (None, _) => {}
            }
        }
        refused.sort_by_key(|refused| refused.task);
        Some((home, refused))
    }

    /// The CPUs of each cluster.
    fn sets(&self, clusters: &[&[Place]]) -> Vec<CpuSet> {
        let cpus: Vec<usize> = self.system.cpus.iter().collect();
        let set = |places: &&[Place]| places.iter().map(|p| cpus[p.index()]).collect();
        clusters.iter().map(set).collect()
    }
}
