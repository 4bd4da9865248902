//! The verdict about semi-partitioned EDF: the assignment that the policy itself makes says whether all deadlines are met.

use crate::demand::Demand;
use crate::parts::is_absent;
use crate::verdict::{Answer, Finding, Kind};
use takt_core::model::{Backlog, Invalid, PolicySpec, Split, Step, System, TaskId, Timing};
use takt_core::policies::split::Routes;
use takt_core::policy::{Build, Registry};
use takt_core::record::Place;

/// How the policy splits tasks; `None` for every other policy, and for one that splits servers.
pub(crate) fn way(policy: &PolicySpec) -> Option<Split> {
    policy.splits().filter(|_| policy.reservations().is_none())
}

/// Whether the policy assigns tasks, or their servers, to routes over several CPUs.
pub(crate) fn has_routes(policy: &PolicySpec) -> bool {
    policy.splits().is_some()
}

/// How many tasks are split, where all have a place; else why not.
fn routes(system: &System, of: impl Fn(&Build<'_>) -> Result<Routes, Invalid>) -> Result<usize, String> {
    // In a domain the tasks of the others are none of its business, and lack what is asked of its own.
    let here = (0..).map(TaskId).zip(&system.tasks).filter(|(_, task)| !is_absent(task));
    let all: Vec<TaskId> = here.map(|(id, _)| id).collect();
    let places: Vec<Place> = (0..system.cpus.len()).map(|p| Place(p as u16)).collect();
    let build = Build {
        system,
        tasks: &all,
        places: &places,
        spec: system.policy,
        first_timer: 0,
        registry: &Registry::default(),
    };
    let routes = of(&build).map_err(|invalid| invalid.to_string())?;
    match routes.refused.first() {
        Some(_) if routes.gave_up => Err("the assignment takes too long to be searched".to_owned()),
        Some(task) => Err(format!("no CPU has capacity for task {}, whole or split", task.0)),
        None => Ok(all.iter().filter(|t| routes.of(**t).len() > 1).count()),
    }
}

/// So many tasks are split.
fn told(split: usize) -> String {
    match split {
        0 => "no task is split".to_owned(),
        1 => "one task is split".to_owned(),
        n => format!("{n} tasks are split"),
    }
}

/// How the servers of a system find their CPUs under EDF-WMR, in words; as an error why they do not.
pub(crate) fn servers(declared: &System) -> Result<String, String> {
    routes(declared, Routes::of_servers).map(told)
}

/// The test of the assignment, for `tasks` that are placed as those of `declared` are. It proves a yes; another assignment might
/// do better. `Err` is why it does not apply.
pub(crate) fn judge(system: &System, declared: &System, tasks: &[Demand], way: Split) -> Result<Finding, String> {
    let beyond = |d: &&Demand| {
        let runtime = declared.tasks[d.task.index()].runtime.map_or(0, |runtime| runtime.ns());
        d.runtime > i128::from(runtime)
    };
    if let Some(demand) = tasks.iter().find(beyond) {
        return Err(format!("task {} may need more than the runtime by which it was placed", demand.task.0));
    }
    if system.backlog != Backlog::Queue && tasks.iter().any(|d| d.deadline.is_some_and(|deadline| deadline > d.period))
    {
        return Err("a deadline beyond the period, and releases do not simply wait (`backlog`)".to_owned());
    }
    let any = |wanted: fn(&Step) -> bool| system.tasks.iter().any(|t| t.program.steps.iter().any(wanted));
    if any(|s| matches!(s, Step::Lock(_))) {
        return Err("this policy has no priority inheritance".to_owned());
    }
    let split = match routes(declared, |build| Routes::new(build, way)) {
        Ok(split) => split,
        Err(why) => return Ok(Finding::new(Answer::Unknown, Kind::Sufficient, why)),
    };
    if split > 0 && system.timing != Timing::default() {
        return Err("split tasks need timers that are never late".to_owned());
    }
    if split > 0 && any(|s| matches!(s, Step::Sleep(_))) {
        return Err("jobs that sleep beside split tasks are not covered by the test".to_owned());
    }
    let reason = format!("{}, and the demand on every CPU never exceeds the available time", told(split));
    Ok(Finding::new(Answer::Yes, Kind::Sufficient, reason))
}
