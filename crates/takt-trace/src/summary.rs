//! Counting what a trace holds, by the rules that the engine counts by but independently of its counters.

use crate::table::Table;
use crate::timeline::{Job, Timeline};
use crate::{Header, Stamped, TaskLabel, Trace};
use takt_core::cpus::CpuSet;
use takt_core::record::{JobId, Outcome, Place, RecordKind, StopReason};
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
    /// Requests that closed a cycle of jobs that wait for each other.
    pub deadlocks: u64,
    /// Frequencies that the power policy requested.
    pub frequencies: u64,
    /// Best-effort partitions that did not start in their window, since the power policy forbade it.
    pub skipped_starts: u64,
    /// By thermal zone its samples; empty without any.
    pub zones: Vec<ZoneSummary>,
    /// The end of the trace, up to which jobs are judged.
    pub end: Time,
}

/// The samples of a thermal zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneSummary {
    /// How many there were.
    pub samples: u64,
    /// Those without a valid value.
    pub bad: u64,
    /// The last valid value in thousandths of a degree Celsius.
    pub last: Option<i32>,
    /// The highest one.
    pub highest: Option<i32>,
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
}

/// Counts a trace.
#[must_use]
pub fn summarize(trace: &Trace) -> Summary {
    let line = Timeline::of(trace);
    let mut counter = Counter::new(&trace.header);
    trace.records.iter().for_each(|r| counter.record(r));
    line.jobs.iter().flatten().for_each(|job| counter.job(job, line.end));
    counter.summary(line.end)
}

/// Counts records as they come, and jobs that are over.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    places: Vec<CpuSet>,
    tables: Vec<Option<Table>>,
    last_on_cpu: Vec<Option<u32>>,
    last_run: Vec<Option<(JobId, Place)>>,
    summary: Summary,
}

impl Counter {
    pub(crate) fn new(header: &Header) -> Counter {
        let mut counter = Counter {
            places: header.places.clone(),
            tables: Vec::new(),
            last_on_cpu: vec![None; takt_core::cpus::MAX_CPUS],
            last_run: Vec::new(),
            summary: Summary::default(),
        };
        header.labels().into_iter().zip(&header.tasks).for_each(|(name, task)| counter.task(name, task));
        counter
    }

    /// A task is added, whose records follow.
    pub(crate) fn task(&mut self, name: String, task: &TaskLabel) {
        self.tables.push(task.completion.map(Table::new));
        self.last_run.push(None);
        self.summary.tasks.push(TaskSummary { name, ..TaskSummary::default() });
    }

    pub(crate) fn record(&mut self, r: &Stamped) {
        let summary = &mut self.summary;
        let about = match r.record.kind {
            RecordKind::Release { task, .. }
            | RecordKind::Start { task, .. }
            | RecordKind::Finish { task, .. }
            | RecordKind::LateSignal { task, .. }
            | RecordKind::Exit { task, .. } => Some(task.index()),
            _ => None,
        };
        if let Some((table, index)) = about.and_then(|index| Some((self.tables[index].as_mut()?, index)))
            && let Some(response) = table.record(r.record.at, &r.record.kind, &mut summary.tasks[index].counts)
        {
            summary.tasks[index].responses.add(response);
            summary.responses.add(response);
        }
        match r.record.kind {
            RecordKind::Start { task, job, place } => {
                let counts = &mut summary.tasks[task.index()].counts;
                counts.dispatches += 1;
                let before = self.last_run[task.index()].replace((job, place));
                counts.migrations += u64::from(before.is_some_and(|(j, p)| j == job && p != place));
                for cpu in self.places[place.index()].iter() {
                    let other = self.last_on_cpu[cpu].replace(task.0);
                    summary.context_switches += u64::from(other.is_some_and(|t| t != task.0));
                }
            }
            RecordKind::Stop { task, reason: StopReason::Preempted, .. } => {
                summary.tasks[task.index()].counts.preemptions += 1;
            }
            RecordKind::LateSignal { task, .. } => summary.tasks[task.index()].counts.late_signals += 1,
            RecordKind::Lost { task } => summary.tasks[task.index()].counts.lost += 1,
            RecordKind::WindowsLost { count } => summary.windows_lost += count,
            RecordKind::Behind { task, .. } => summary.tasks[task.index()].counts.behind += 1,
            RecordKind::Handler { task, .. } => {
                summary.tasks[task.index()].counts.handlers += 1;
                // It is fresh work, wherever its job ran.
                self.last_run[task.index()] = None;
            }
            RecordKind::Deadlock { .. } => summary.deadlocks += 1,
            RecordKind::Frequency { .. } => summary.frequencies += 1,
            RecordKind::StartSkipped { .. } => summary.skipped_starts += 1,
            RecordKind::Temperature { zone, millidegrees } => {
                let zone = usize::from(zone);
                if summary.zones.len() <= zone {
                    summary.zones.resize(zone + 1, ZoneSummary::default());
                }
                let zone = &mut summary.zones[zone];
                zone.samples += 1;
                zone.bad += u64::from(millidegrees.is_none());
                zone.last = millidegrees.or(zone.last);
                zone.highest = zone.highest.max(millidegrees);
            }
            _ => {}
        }
    }

    /// A job is over, or the trace is. Jobs of a window table are counted by their records.
    pub(crate) fn job(&mut self, job: &Job, end: Time) {
        if self.tables[job.task.index()].is_some() {
            return;
        }
        let task = &mut self.summary.tasks[job.task.index()];
        count(job, end, &mut task.counts);
        if let Some((at, Outcome::Completed)) = job.finish {
            task.responses.add(at - job.release);
            self.summary.responses.add(at - job.release);
        }
    }

    /// Whether a process of a window table signals its completions, as far as is known.
    pub(crate) fn signals(&self, task: usize) -> bool {
        self.tables[task].as_ref().is_some_and(|table| table.signals)
    }

    pub(crate) fn summary(mut self, end: Time) -> Summary {
        for (table, task) in self.tables.iter().zip(&mut self.summary.tasks) {
            if table.as_ref().is_some_and(|table| !table.signals) {
                task.counts = task.counts.without_jobs();
            }
        }
        self.summary.total = self.summary.tasks.iter().map(|task| task.counts).sum();
        self.summary.end = end;
        self.summary
    }
}

fn count(job: &Job, end: Time, counts: &mut Counts) {
    let missed = job.missed(end);
    match job.finish {
        Some((_, Outcome::Exited)) if !missed => return,
        Some((_, Outcome::Completed | Outcome::BudgetUsed)) => {
            counts.completed += 1;
            counts.met += u64::from(!missed);
        }
        Some((_, Outcome::Overrun)) => counts.overruns += 1,
        Some((_, Outcome::Aborted)) => counts.aborted += 1,
        Some((_, Outcome::Skipped | Outcome::Exited)) | None => {}
    }
    counts.released += 1;
    counts.missed += u64::from(missed);
}
