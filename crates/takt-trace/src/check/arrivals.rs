//! Whether jobs were released when the workload says.

use super::finding::Finding;
use crate::Trace;
use takt_core::model::{Arrival, Backlog, System, TaskId};
use takt_core::record::RecordKind;

/// Compares releases and absolute deadlines with those of the system's tasks, as far as their instants are planned: not where
/// a policy releases jobs, nor by rules under which late jobs move their successors. Events have a least distance only. Reports the first
/// difference of each task.
/// The trace must be of these tasks, and none of them may change its period while it runs. O(records + releases).
#[must_use]
pub fn arrivals(trace: &Trace, system: &System) -> Vec<Finding> {
    if !matches!(system.backlog, Backlog::Queue | Backlog::Skip) {
        return Vec::new();
    }
    let labels = trace.header.labels();
    let mut planned: Vec<_> = system.tasks.iter().map(|t| Some((0, t.arrival.first()))).collect();
    let finding = |at, task: TaskId, message| {
        let label = labels.get(task.index()).cloned();
        Finding { at, task: label, rule: "arrival", message }
    };
    let mut findings = Vec::new();
    for record in &trace.records {
        let RecordKind::Release { task, job, deadline } = record.record.kind else { continue };
        let (Some(described), Some(next)) = (system.tasks.get(task.index()), planned.get_mut(task.index())) else {
            continue;
        };
        match described.arrival {
            Arrival::Activated => continue,
            // Events have no plan but their least distance.
            Arrival::Event { distance, .. } => {
                let release = record.record.at;
                let early = next.and_then(|(_, last)| last).filter(|last| release < *last + distance);
                *next = Some((job + 1, Some(release)));
                if let Some(last) = early {
                    let message = format!(
                        "job {job} is released {} after the one before, and the distance is {distance}",
                        release - last
                    );
                    findings.push(finding(record.record.at, task, message));
                }
                continue;
            }
            _ => {}
        }
        let Some((mut number, mut at)) = *next else { continue };
        while number < job {
            at = at.and_then(|at| described.arrival.next(system.seed, task, number, at));
            number += 1;
        }
        *next = Some((number, at));
        let message = match at {
            Some(at) if at != record.record.at => {
                format!("job {job} is released at {}, by the workload at {at}", record.record.at)
            }
            Some(at) if deadline != described.deadline.map(|d| at + d) => {
                format!("job {job} has another deadline than in the workload")
            }
            Some(_) => continue,
            None => format!("job {job} is released, and the workload has no such job"),
        };
        *next = None;
        findings.push(finding(record.record.at, task, message));
    }
    findings
}
