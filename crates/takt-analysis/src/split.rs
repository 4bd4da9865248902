//! What is known of semi-partitioned EDF: the assignment that the policy itself makes says whether all deadlines are met.

use crate::online::{Answer, Kind};
use crate::uniprocessor::{Demand, Finding};
use takt_core::model::{Step, System, TaskId, Timing};
use takt_core::policies::split::Routes;
use takt_core::policies::split::assign::Split;
use takt_core::policy::{Build, PolicySpec};
use takt_core::record::Place;

/// How the policy splits tasks; `None` for every other policy.
pub(crate) fn way(policy: &PolicySpec) -> Option<Split> {
    match policy.entry.name {
        "edf-wm" => Some(Split::Windows),
        "edf-cd" => Some(Split::Tight),
        _ => None,
    }
}

/// The test of the assignment, for `tasks` that are placed as those of `declared` are. It proves a yes; another assignment might
/// do better. `Err` is why it says nothing.
pub(crate) fn accepted(system: &System, declared: &System, tasks: &[Demand], way: Split) -> Result<Finding, String> {
    let beyond = |d: &&Demand| {
        let runtime = declared.tasks[d.task.index()].runtime.map_or(0, |runtime| runtime.ns());
        d.runtime > i128::from(runtime)
    };
    if let Some(demand) = tasks.iter().find(beyond) {
        return Err(format!("task {} may need more than the runtime by which it was placed", demand.task.0));
    }
    let any = |wanted: fn(&Step) -> bool| system.tasks.iter().any(|t| t.steps.iter().any(wanted));
    if any(|s| matches!(s, Step::Lock(_))) {
        return Err("under this policy holders of resources inherit nothing".to_owned());
    }
    let all: Vec<TaskId> = (0..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
    let places: Vec<Place> = (0..system.cpus.len()).map(|p| Place(p as u16)).collect();
    let build = Build { system: declared, tasks: &all, places: &places, spec: system.policy, first_timer: 0 };
    let routes = Routes::new(&build, way).map_err(|invalid| invalid.to_string())?;
    let split = all.iter().filter(|t| routes.of(**t).len() > 1).count();
    match routes.refused.first() {
        Some(_) if routes.gave_up => Err("the assignment takes too long to be searched".to_owned()),
        Some(task) => Err(format!("there is no room for task {}, whole or split", task.0)),
        None if split > 0 && system.timing != Timing::default() => {
            Err("split tasks need timers that are never late".to_owned())
        }
        None if split > 0 && any(|s| matches!(s, Step::Sleep(_))) => {
            Err("jobs that sleep beside split tasks are beyond the test".to_owned())
        }
        None => {
            let split = match split {
                0 => "no task is split".to_owned(),
                1 => "one task is split".to_owned(),
                n => format!("{n} tasks are split"),
            };
            let reason = format!("{split}, and the demand on every CPU never exceeds the time there is");
            Ok(Finding::new(Answer::Yes, Kind::Sufficient, reason))
        }
    }
}
