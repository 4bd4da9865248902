//! How jobs spend their response times.

use crate::model::TaskId;
use crate::record::{JobId, Record, RecordKind};
use crate::time::{Span, Time};
use alloc::vec::Vec;

/// Parts of the time from a job's release to its end. In the rest of it, the job waits for a CPU or for an earlier job of its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// It has a CPU.
    pub running: Span,
    /// It sleeps, or waits for a resource or for something outside.
    pub blocked: Span,
}

impl core::ops::AddAssign for Parts {
    fn add_assign(&mut self, other: Parts) {
        self.running += other.running;
        self.blocked += other.blocked;
    }
}

/// The present job of a task.
#[derive(Clone, Copy, Debug)]
struct Present {
    job: JobId,
    since: Time,
    has_cpu: bool,
    is_blocked: bool,
    parts: Parts,
}

const NONE: Present = Present {
    job: JobId::MAX,
    since: Time::ZERO,
    has_cpu: false,
    is_blocked: false,
    parts: Parts { running: Span::ZERO, blocked: Span::ZERO },
};

impl Present {
    fn account(&mut self, now: Time) {
        let span = (now - self.since).or_zero();
        match (self.is_blocked, self.has_cpu) {
            (true, _) => self.parts.blocked += span,
            (false, true) => self.parts.running += span,
            (false, false) => {}
        }
        self.since = now;
    }
}

/// Divides the time of jobs by their records. A task has one job at a time; those behind it wait. O(tasks) memory.
#[derive(Clone, Debug, Default)]
pub struct Spent(Vec<Present>);

impl Spent {
    /// For so many tasks. More follow by themselves ([`Spent::record`]), which allocates.
    #[must_use]
    pub fn new(tasks: usize) -> Spent {
        Spent(alloc::vec![NONE; tasks])
    }

    /// Takes the next record. At the end of a job it returns the task, the job and its parts. The parts are zero if the trace has
    /// only this record of the job. O(1).
    pub fn record(&mut self, record: &Record) -> Option<(TaskId, JobId, Parts)> {
        let (task, job, ends) = match record.kind {
            RecordKind::Start { task, job, .. }
            | RecordKind::Stop { task, job, .. }
            | RecordKind::Block { task, job }
            | RecordKind::Wake { task, job } => (task, job, false),
            RecordKind::Finish { task, job, .. } => (task, job, true),
            RecordKind::HandlerEnd { task, .. } => {
                // The handler's time is not of the task's next job.
                if let Some(present) = self.0.get_mut(task.index()) {
                    *present = NONE;
                }
                return None;
            }
            _ => return None,
        };
        if task.index() >= self.0.len() {
            self.0.resize(task.index() + 1, NONE);
        }
        let present = &mut self.0[task.index()];
        if present.job != job {
            // A job that waits behind the present one can end, too.
            if ends {
                return Some((task, job, Parts::default()));
            }
            *present = Present { job, since: record.at, ..NONE };
        }
        present.account(record.at);
        match record.kind {
            RecordKind::Start { .. } => present.has_cpu = true,
            RecordKind::Stop { .. } => present.has_cpu = false,
            RecordKind::Block { .. } => present.is_blocked = true,
            RecordKind::Wake { .. } => present.is_blocked = false,
            _ => {}
        }
        ends.then(|| (task, job, core::mem::replace(present, NONE).parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcome, Place, StopReason};
    use crate::work::Work;

    #[test]
    fn a_response_is_divided_by_what_the_job_did() {
        let (task, place, job) = (TaskId(1), Place(0), 7);
        let stop = |reason| RecordKind::Stop { task, job, place, reason };
        let finish = |job, outcome| RecordKind::Finish { task, job, outcome, consumed: Work::ZERO };
        let records = [
            (0, RecordKind::Release { task, job, deadline: None }),
            (2, RecordKind::Start { task, job, place }),
            (5, stop(StopReason::Preempted)),
            (6, RecordKind::Start { task, job, place }),
            // It keeps its CPU while it sleeps.
            (10, RecordKind::Block { task, job }),
            (30, RecordKind::Wake { task, job }),
            (31, RecordKind::Block { task, job }),
            (31, stop(StopReason::Blocked)),
            (40, RecordKind::Wake { task, job }),
            (44, RecordKind::Start { task, job, place }),
            // The next one is skipped meanwhile.
            (45, finish(8, Outcome::Skipped)),
            (46, finish(7, Outcome::Completed)),
            (46, stop(StopReason::Finished)),
            (50, finish(9, Outcome::Aborted)),
        ];
        let mut spent = Spent::new(0);
        let ends = records.map(|(us, kind)| spent.record(&Record { at: Time::ZERO + Span::from_us(us), kind }));
        let us = Span::from_us;
        let expected = [
            (task, 8, Parts::default()),
            (task, 7, Parts { running: us(3 + 4 + 1 + 2), blocked: us(20 + 9) }),
            (task, 9, Parts::default()),
        ];
        assert_eq!(ends.into_iter().flatten().collect::<Vec<_>>(), expected);
    }
}
