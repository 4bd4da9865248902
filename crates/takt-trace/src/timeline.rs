//! The records of a trace put together: who ran where from when to when, and the life of each job.

use crate::Trace;
use takt_core::model::TaskId;
use takt_core::record::{JobId, Outcome, Place, StopReason, What};
use takt_core::time::Time;

/// A job on its CPUs without a break. Times are those of carrying out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Whose.
    pub task: TaskId,
    /// Which.
    pub job: JobId,
    /// Where.
    pub place: Place,
    /// Its start.
    pub from: Time,
    /// Its stop, or the end of the trace.
    pub to: Time,
    /// Why it left; `None` when it still ran at the end of the trace.
    pub reason: Option<StopReason>,
}

/// The life of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Whose.
    pub task: TaskId,
    /// Its number.
    pub number: JobId,
    /// Its release.
    pub release: Time,
    /// Its absolute deadline.
    pub deadline: Option<Time>,
    /// When and how it ended, in the engine's time.
    pub finish: Option<(Time, Outcome)>,
}

impl Job {
    /// Whether it had passed its deadline unfinished by `end`, was cut off, or was skipped.
    #[must_use]
    pub fn missed(&self, end: Time) -> bool {
        match self.finish {
            Some((_, Outcome::Overrun | Outcome::Aborted | Outcome::Skipped)) => true,
            Some((at, _)) => self.deadline.is_some_and(|d| at > d),
            None => self.deadline.is_some_and(|d| d <= end),
        }
    }
}

/// One window as it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpan {
    /// Index in the major frame.
    pub window: u32,
    /// Number of the major frame.
    pub frame: u64,
    /// Its start.
    pub from: Time,
    /// The start of the next one, or the end of the trace.
    pub to: Time,
}

/// A trace as intervals and jobs.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// In the order of their starts as recorded.
    pub intervals: Vec<Interval>,
    /// Per task in the order of release.
    pub jobs: Vec<Vec<Job>>,
    /// In their order.
    pub windows: Vec<WindowSpan>,
    /// The end of the trace.
    pub end: Time,
}

impl Timeline {
    /// Puts a trace together. Contradictions (a stop without a start) are passed over: finding them is the business of [`crate::check`].
    #[must_use]
    pub fn of(trace: &Trace) -> Timeline {
        let end = trace.end();
        let n = trace.header.tasks.len();
        let mut line = Timeline { jobs: vec![Vec::new(); n], end, ..Timeline::default() };
        let mut running: Vec<Option<usize>> = vec![None; n];
        for r in &trace.records {
            match r.record.what {
                What::Window { window, frame } => {
                    if let Some(before) = line.windows.last_mut() {
                        before.to = r.applied;
                    }
                    line.windows.push(WindowSpan { window, frame, from: r.applied, to: end.max(r.applied) });
                }
                What::Release { task, job, deadline } => {
                    let release = r.record.at;
                    line.jobs[task.index()].push(Job { task, number: job, release, deadline, finish: None });
                }
                What::Finish { task, job, outcome, .. } => {
                    if let Some(job) = line.job_mut(task, job) {
                        job.finish = Some((r.record.at, outcome));
                    }
                }
                What::Start { task, job, place } => {
                    running[task.index()] = Some(line.intervals.len());
                    let (from, to) = (r.applied, end.max(r.applied));
                    line.intervals.push(Interval { task, job, place, from, to, reason: None });
                }
                What::Stop { task, reason, .. } => {
                    if let Some(index) = running[task.index()].take() {
                        let interval = &mut line.intervals[index];
                        interval.to = r.applied.max(interval.from);
                        interval.reason = Some(reason);
                    }
                }
                _ => {}
            }
        }
        line
    }

    fn job_mut(&mut self, task: TaskId, number: JobId) -> Option<&mut Job> {
        let jobs = &mut self.jobs[task.index()];
        let index = jobs.binary_search_by_key(&number, |j| j.number).ok()?;
        Some(&mut jobs[index])
    }
}
