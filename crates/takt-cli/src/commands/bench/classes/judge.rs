//! Whether what a run recorded of its machine explains that a job was late.

use takt_core::model::TaskId;
use takt_core::record::{JobId, RecordKind};
use takt_core::time::{Span, Time};
use takt_trace::{Trace, timeline::Timeline};

/// A missed job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Miss {
    /// Its task and its number.
    pub(super) job: (TaskId, JobId),
    /// From the deadline to the end of the job, or of the run.
    pub(super) tardiness: Span,
    /// The lateness of the scheduler and the steal that were recorded in its busy period.
    pub(super) recorded: Span,
}

impl Miss {
    pub(super) fn is_explained(&self) -> bool {
        self.tardiness <= self.recorded
    }
}

/// An interval, its end included.
type Interval = (Time, Time);

/// The missed jobs of the tasks of one group, which share their CPUs with no others. `stolen` is the steal on these CPUs in an interval. With `ranked`, the
/// kernel dispatches by ranks, so that only a late release has an effect. O(n log n) for n records.
pub(super) fn misses(trace: &Trace, group: &[usize], ranked: bool, stolen: impl Fn(Interval) -> Span) -> Vec<Miss> {
    let line = Timeline::of(trace);
    let end = |finish: Option<Time>| finish.unwrap_or(line.end);
    let jobs = || group.iter().flat_map(|task| &line.jobs[*task]);
    let pending = jobs().map(|job| (job.release, end(job.finish.map(|(at, _)| at)))).collect();
    let busy = united(pending);
    let of_group =
        trace.records.iter().filter(|r| scheduled(&r.record.kind, ranked).is_some_and(|t| group.contains(&t.index())));
    let late = united(of_group.map(|r| (r.record.at, r.applied)).filter(|(at, applied)| at < applied).collect());
    let missed = jobs().filter_map(|job| {
        let finish = end(job.finish.map(|(at, _)| at));
        // A job that ends at its deadline meets it.
        let misses = |deadline: &Time| *deadline < finish || (*deadline == finish && job.finish.is_none());
        let deadline = job.deadline.filter(misses)?;
        let period = busy[busy.partition_point(|(from, _)| *from <= job.release) - 1];
        // Records after the end of the job did not delay it.
        let period = (period.0, finish.min(period.1));
        let recorded = within(&late, period) + stolen(period);
        Some(Miss { job: (job.task, job.number), tardiness: finish - deadline, recorded })
    });
    missed.collect()
}

/// The task of a record that shows when the scheduler has acted.
fn scheduled(kind: &RecordKind, ranked: bool) -> Option<TaskId> {
    match *kind {
        RecordKind::Release { task, .. } => Some(task),
        _ if ranked => None,
        RecordKind::Start { task, .. } | RecordKind::Stop { task, .. } | RecordKind::Finish { task, .. } => Some(task),
        _ => None,
    }
}

/// The union of intervals, as disjoint ones in order. Two that touch are one.
fn united(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort();
    let mut united: Vec<Interval> = Vec::new();
    for (from, to) in intervals {
        match united.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => united.push((from, to)),
        }
    }
    united
}

/// How much of disjoint intervals is within a period.
fn within(intervals: &[Interval], (from, to): Interval) -> Span {
    let first = intervals.partition_point(|(_, end)| *end <= from);
    let inside = intervals[first..].iter().take_while(|(begin, _)| *begin < to);
    inside.fold(Span::ZERO, |sum, (begin, end)| sum + ((*end).min(to) - (*begin).max(from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::record::{Outcome, Record};
    use takt_core::work::Work;
    use takt_trace::{Stamped, TaskLabel};

    fn at(ms: i64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }

    /// A trace of two tasks, from its records with their instants and when they were carried out, in milliseconds.
    fn trace(records: &[(i64, i64, RecordKind)]) -> Trace {
        let mut trace = Trace::default();
        trace.header.tasks = vec![TaskLabel::default(); 2];
        let stamped = |(time, applied, kind): &(i64, i64, RecordKind)| Stamped {
            record: Record { at: at(*time), kind: *kind },
            applied: at(*applied),
        };
        trace.records = records.iter().map(stamped).collect();
        trace
    }

    fn release(task: u32, job: u64, deadline: i64) -> RecordKind {
        RecordKind::Release { task: TaskId(task), job, deadline: Some(at(deadline)) }
    }

    fn finish(task: u32, job: u64) -> RecordKind {
        RecordKind::Finish { task: TaskId(task), job, outcome: Outcome::Completed, consumed: Work::ZERO }
    }

    /// A job of task 0 is released at 0 and handled at 2 ms. In its busy period task 1 has a job from 8 to 25 ms, which is late by 5 ms.
    fn example() -> Trace {
        trace(&[
            (0, 2, release(0, 0, 30)),
            (8, 8, release(1, 0, 20)),
            (10, 10, finish(0, 0)),
            (25, 25, finish(1, 0)),
            // Another busy period.
            (30, 33, release(1, 1, 40)),
            (35, 39, finish(1, 1)),
        ])
    }

    #[test]
    fn the_lateness_of_a_busy_period_counts_for_its_misses() {
        let all = |stolen: Span| misses(&example(), &[0, 1], false, |_| stolen);
        let job = (TaskId(1), 0);
        let miss = |recorded| Miss { job, tardiness: Span::from_ms(5), recorded: Span::from_ms(recorded) };
        assert_eq!(all(Span::ZERO), [miss(2)]);
        assert!(!all(Span::ZERO)[0].is_explained());
        assert_eq!(all(Span::from_ms(3)), [miss(5)]);
        assert!(all(Span::from_ms(3))[0].is_explained());
        // On a CPU of its own the late task has a busy period of its own.
        assert_eq!(misses(&example(), &[1], false, |_| Span::ZERO), [miss(0)]);
        assert_eq!(misses(&example(), &[0], false, |_| Span::ZERO), []);
    }

    #[test]
    fn steal_is_asked_for_the_busy_period_up_to_the_end_of_the_job() {
        misses(&example(), &[0, 1], false, |(from, to)| {
            assert_eq!((from, to), (at(0), at(25)));
            Span::ZERO
        });
    }

    #[test]
    fn a_job_without_an_end_is_late_until_the_run_ends() {
        let unfinished = trace(&[(0, 0, release(0, 0, 10)), (40, 40, release(1, 0, 90))]);
        assert_eq!(
            misses(&unfinished, &[0], false, |_| Span::ZERO),
            [Miss { job: (TaskId(0), 0), tardiness: Span::from_ms(30), recorded: Span::ZERO }]
        );
    }

    #[test]
    fn lateness_that_several_records_share_counts_once() {
        let shared =
            trace(&[(0, 4, release(0, 0, 5)), (0, 4, release(1, 0, 50)), (3, 5, finish(1, 0)), (9, 9, finish(0, 0))]);
        assert_eq!(misses(&shared, &[0, 1], false, |_| Span::ZERO)[0].recorded, Span::from_ms(5));
        assert_eq!(misses(&shared, &[0, 1], true, |_| Span::ZERO)[0].recorded, Span::from_ms(4), "of the releases");
    }
}
