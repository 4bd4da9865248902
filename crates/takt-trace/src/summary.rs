//! Counting what a trace holds, by the rules that the engine counts by but independently of its counters.

use crate::Trace;
use crate::timeline::{Job, Timeline};
use takt_core::record::{Outcome, StopReason, What};
use takt_core::stats::{Counts, Histogram};
use takt_core::time::Time;

/// Counts of a whole trace.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Summed over all tasks.
    pub total: Counts,
    /// Per task, in the header's order.
    pub tasks: Vec<TaskSummary>,
    /// Response times of all tasks.
    pub responses: Histogram,
    /// How often the running task of a CPU changed; idling in between is passed over.
    pub context_switches: u64,
    /// Windows that passed unserved.
    pub windows_lost: u64,
    /// Requests that closed a circle of jobs that wait for each other.
    pub deadlocks: u64,
    /// The end of the trace, up to which jobs are judged.
    pub end: Time,
}

/// Counts of one task.
#[derive(Clone, Debug, Default)]
pub struct TaskSummary {
    /// Its label.
    pub name: String,
    /// The counts.
    pub counts: Counts,
    /// Times from release to completion.
    pub responses: Histogram,
    /// Handlers of aborted jobs that began.
    pub handlers: u64,
}

/// Counts a trace.
#[must_use]
pub fn summarize(trace: &Trace) -> Summary {
    let line = Timeline::of(trace);
    let name = |name| TaskSummary { name, ..TaskSummary::default() };
    let mut summary =
        Summary { tasks: trace.header.labels().into_iter().map(name).collect(), end: line.end, ..Summary::default() };
    let mut last_on_cpu: Vec<Option<u32>> = vec![None; takt_core::cpus::MAX_CPUS];
    let mut last_run = vec![None; trace.header.tasks.len()];
    for r in &trace.records {
        match r.record.what {
            What::Start { task, job, place } => {
                let counts = &mut summary.tasks[task.index()].counts;
                counts.dispatches += 1;
                let before = last_run[task.index()].replace((job, place));
                counts.migrations += u64::from(before.is_some_and(|(j, p)| j == job && p != place));
                for cpu in trace.header.places[place.index()].iter() {
                    let other = last_on_cpu[cpu].replace(task.0);
                    summary.context_switches += u64::from(other.is_some_and(|t| t != task.0));
                }
            }
            What::Stop { task, reason: StopReason::Preempted, .. } => {
                summary.tasks[task.index()].counts.preemptions += 1;
            }
            What::LateSignal { task, .. } => summary.tasks[task.index()].counts.late_signals += 1,
            What::WindowsLost { count } => summary.windows_lost += count,
            What::Handler { task, .. } => {
                summary.tasks[task.index()].handlers += 1;
                // It is fresh work, wherever its job ran.
                last_run[task.index()] = None;
            }
            What::Deadlock { .. } => summary.deadlocks += 1,
            _ => {}
        }
    }
    for job in line.jobs.iter().flatten() {
        let task = &mut summary.tasks[job.task.index()];
        count(job, line.end, &mut task.counts);
        if let Some((at, Outcome::Completed | Outcome::BudgetUsed | Outcome::Exited)) = job.finish {
            task.responses.add(at - job.release);
            summary.responses.add(at - job.release);
        }
    }
    summary.tasks.iter().for_each(|t| summary.total += t.counts);
    summary
}

fn count(job: &Job, end: Time, counts: &mut Counts) {
    let missed = job.missed(end);
    counts.released += 1;
    counts.missed += u64::from(missed);
    match job.finish {
        Some((_, Outcome::Completed | Outcome::BudgetUsed | Outcome::Exited)) => {
            counts.completed += 1;
            counts.met += u64::from(!missed);
        }
        Some((_, Outcome::Overrun)) => counts.overruns += 1,
        Some((_, Outcome::Aborted)) => counts.aborted += 1,
        Some((_, Outcome::Skipped)) | None => {}
    }
}
