//! Whether jobs were released when the workload says.

use super::finding::Finding;
use crate::Trace;
use takt_core::model::{Arrival, Backlog, System, TaskId};
use takt_core::record::RecordKind;
use takt_core::time::{Span, Time};

/// Compares releases and absolute deadlines with those of the system's tasks, as far as their instants are planned: not where
/// a policy releases jobs, nor by rules under which late jobs move their successors. Events have a least distance only. Reports the first
/// difference of each task. A job that was to be released before the end, later than the tolerance, must have a record.
/// The trace must be of these tasks, and none of them may change its period while it runs. O(records + releases).
#[must_use]
pub fn arrivals(trace: &Trace, system: &System, tolerance: Span) -> Vec<Finding> {
    if !matches!(system.backlog, Backlog::Queue | Backlog::Skip) {
        return Vec::new();
    }
    let labels = trace.header.labels();
    let mut planned: Vec<_> = system.tasks.iter().map(|t| Some((0, t.arrival.first()))).collect();
    // Whether a job of the task has a record, and whether its program has ended.
    let mut seen = vec![(false, false); system.tasks.len()];
    // By task: jobs that are not over.
    let mut open = vec![0i64; system.tasks.len()];
    let finding = |at, task: TaskId, message| {
        let label = labels.get(task.index()).cloned();
        Finding { at, task: label, rule: "arrival", message }
    };
    let mut findings = Vec::new();
    for record in &trace.records {
        if let RecordKind::Exit { task, .. } = record.record.kind
            && let Some(seen) = seen.get_mut(task.index())
        {
            seen.1 = true;
        }
        if let RecordKind::Finish { task, .. } = record.record.kind
            && let Some(open) = open.get_mut(task.index())
        {
            *open -= 1;
        }
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
        open[task.index()] += 1;
        let Some((mut number, mut at)) = *next else { continue };
        if seen[task.index()].0 && job > number + 1 && system.backlog == Backlog::Queue {
            *next = None;
            let message = format!("job {job} is released, and job {} before it has no record", number + 1);
            findings.push(Finding { rule: "missing", ..finding(record.record.at, task, message) });
            continue;
        }
        while number < job {
            at = at.and_then(|at| described.arrival.next(system.seed, task, number, at));
            number += 1;
        }
        *next = Some((number, at));
        seen[task.index()].0 = true;
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
    let Some(footer) = trace.footer.filter(|footer| footer.dropped == 0) else { return findings };
    let end = trace.header.duration.map_or(footer.end, |duration| footer.end.min(Time::ZERO + duration));
    for (index, (next, (begun, gone))) in planned.into_iter().zip(seen).enumerate() {
        let (task, described) = (TaskId(index as u32), &system.tasks[index]);
        let of_kernel = trace.header.tasks.get(index).is_none_or(|label| label.class.is_some());
        let plan = !matches!(described.arrival, Arrival::Activated | Arrival::Event { .. });
        let Some((number, Some(at))) = next.filter(|_| plan && !gone && !of_kernel) else { continue };
        let due = if begun { described.arrival.next(system.seed, task, number, at) } else { Some(at) };
        let number = number + u64::from(begun);
        // A release that finds its task busy may have been skipped.
        let skips = system.backlog == Backlog::Skip && open[index] > 0;
        if let Some(due) = due.filter(|due| !skips && due.round_up(system.timing.tick) + tolerance < end) {
            let message = format!("job {number} was to be released at {due}, and has no record");
            findings.push(Finding { rule: "missing", ..finding(due, task, message) });
        }
    }
    findings
}
