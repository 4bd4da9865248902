//! Whether jobs were released when the workload says.

use super::finding::Finding;
use crate::Trace;
use takt_core::model::{Arrival, Backlog, System, Task, TaskId};
use takt_core::record::{JobId, Record, RecordKind};
use takt_core::time::{Span, Time};

/// Compares releases and absolute deadlines with those of the system's tasks, as far as their instants are planned: not where
/// a policy releases jobs, nor by rules under which late jobs move their successors. Events have a least distance only. Reports the first
/// difference of each task. A job that was to be released before the end, later than the tolerance, must have a record.
/// The trace must be of these tasks, and none of them may change its period while it runs. O(records + releases).
#[must_use]
pub fn arrivals(trace: &Trace, system: &System, tolerance: Span) -> Vec<Finding> {
    let mut checker = Arrivals::new(trace, system, tolerance);
    trace.records.iter().for_each(|record| checker.take(&record.record));
    checker.findings()
}

/// The rules about releases, as [`arrivals`] applies them.
pub struct Arrivals<'a> {
    trace: &'a Trace,
    system: &'a System,
    tolerance: Span,
    labels: Vec<String>,
    tasks: Vec<Planned>,
    findings: Vec<Finding>,
}

/// So many releases without records between two are counted one by one. Beyond that, a task is not checked.
const MOST: u64 = 100_000_000;

/// The releases of a task.
struct Planned {
    /// The next job and its instant; `None` after a difference.
    next: Option<(JobId, Option<Time>)>,
    /// A job of the task has a record.
    begun: bool,
    /// Its program has ended.
    gone: bool,
    /// Jobs that are not over.
    open: i64,
}

impl<'a> Arrivals<'a> {
    /// A checker of a trace without its records, which come one after the other.
    #[must_use]
    pub fn new(trace: &'a Trace, system: &'a System, tolerance: Span) -> Arrivals<'a> {
        let planned = matches!(system.backlog, Backlog::Queue | Backlog::Skip);
        let tasks = if planned { &system.tasks[..] } else { &[] };
        let plan = |task: &Task| Planned { next: Some((0, task.arrival.first())), begun: false, gone: false, open: 0 };
        let tasks = tasks.iter().map(plan).collect();
        Arrivals { trace, system, tolerance, labels: trace.header.labels(), tasks, findings: Vec::new() }
    }

    fn find(&mut self, rule: &'static str, at: Time, task: TaskId, message: String) {
        self.findings.push(Finding { at, task: self.labels.get(task.index()).cloned(), rule, message });
    }

    /// The next record.
    pub fn take(&mut self, record: &Record) {
        match record.kind {
            RecordKind::Exit { task, .. } => {
                self.tasks.get_mut(task.index()).into_iter().for_each(|planned| planned.gone = true);
            }
            RecordKind::Finish { task, .. } => {
                self.tasks.get_mut(task.index()).into_iter().for_each(|planned| planned.open -= 1);
            }
            RecordKind::Release { task, job, deadline } => self.release(record.at, task, job, deadline),
            _ => {}
        }
    }

    fn release(&mut self, release: Time, task: TaskId, job: JobId, deadline: Option<Time>) {
        let Some(planned) = self.tasks.get_mut(task.index()) else { return };
        let described = &self.system.tasks[task.index()];
        match described.arrival {
            Arrival::Activated => return,
            // Events have no plan but their least distance.
            Arrival::Event { distance, .. } => {
                let early = planned.next.and_then(|(_, last)| last).filter(|last| release < *last + distance);
                planned.next = Some((job.wrapping_add(1), Some(release)));
                if let Some(last) = early {
                    let after = release - last;
                    let message =
                        format!("job {job} is released {after} after the one before, and the distance is {distance}");
                    self.find("arrival", release, task, message);
                }
                return;
            }
            _ => {}
        }
        planned.open += 1;
        let Some((mut number, mut at)) = planned.next else { return };
        if planned.begun && job.saturating_sub(number) > 1 && self.system.backlog == Backlog::Queue {
            planned.next = None;
            let message = format!("job {job} is released, and job {} before it has no record", number + 1);
            return self.find("missing", release, task, message);
        }
        if let (Arrival::Periodic { period, .. }, Some(first), true) = (&described.arrival, at, number < job) {
            let later = (job - number - 1).min(((release - first).or_zero().ns() / period.ns()).unsigned_abs());
            (number, at) = (number + later, Some(first + *period * later.cast_signed()));
        }
        // No workload releases a job before the one before it, so the numbers of a damaged trace are not counted up to.
        for _ in 0..MOST {
            let Some(before) = at.filter(|at| number < job && *at <= release) else { break };
            at = described.arrival.next(self.system.seed, task, number, before);
            number += 1;
        }
        if number < job && at.is_some_and(|at| at <= release) {
            planned.next = None;
            let message = format!(
                "job {job} is released {MOST} jobs after the one before, and neither it nor later ones are checked"
            );
            return self.find("arrival", release, task, message);
        }
        (planned.next, planned.begun) = (Some((number, at)), true);
        let message = match at {
            Some(at) if number < job => {
                format!("job {job} is released at {release}, and job {number} is to be released at {at}")
            }
            Some(at) if at != release => format!("job {job} is released at {release}, by the workload at {at}"),
            Some(at) if deadline != described.deadline.map(|d| at + d) => {
                format!("job {job} has another deadline than in the workload")
            }
            Some(_) => return,
            None => format!("job {job} is released, and the workload has no such job"),
        };
        planned.next = None;
        self.find("arrival", release, task, message);
    }

    /// Ends the check and returns its findings.
    #[must_use]
    pub fn findings(mut self) -> Vec<Finding> {
        let header = &self.trace.header;
        let Some(footer) = self.trace.footer.filter(|footer| footer.dropped == 0) else { return self.findings };
        let end = header.duration.map_or(footer.end, |duration| footer.end.min(Time::ZERO + duration));
        for (index, planned) in std::mem::take(&mut self.tasks).into_iter().enumerate() {
            let (task, described) = (TaskId(index as u32), &self.system.tasks[index]);
            let of_kernel = header.tasks.get(index).is_none_or(|label| label.class.is_some());
            let plan = !matches!(described.arrival, Arrival::Activated | Arrival::Event { .. });
            let next = planned.next.filter(|_| plan && !planned.gone && !of_kernel);
            let Some((number, Some(at))) = next else { continue };
            let due = if planned.begun { described.arrival.next(self.system.seed, task, number, at) } else { Some(at) };
            let number = number + u64::from(planned.begun);
            // A release that finds its task busy may have been skipped.
            let skips = self.system.backlog == Backlog::Skip && planned.open > 0;
            if let Some(due) = due.filter(|due| !skips && due.round_up(self.system.timing.tick) + self.tolerance < end)
            {
                let message = format!("job {number} was to be released at {due}, and has no record");
                self.find("missing", due, task, message);
            }
        }
        self.findings
    }
}
