//! The part of a long trace on which a chart opens.

use crate::Trace;
use crate::timeline::{Job, Timeline};
use takt_core::time::{Span, Time};

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The period of releases that are equally far apart.
fn period(jobs: &[Job]) -> Option<i64> {
    let gap = |pair: &[Job]| (pair[1].release - pair[0].release).ns();
    let first = jobs.windows(2).map(gap).next().filter(|gap| *gap > 0)?;
    jobs.windows(2).all(|pair| gap(pair) == first).then_some(first)
}

/// The end of the first hyperperiod of a trace that has more pieces of execution than `pieces`, and lasts for two hyperperiods or longer. It is that of
/// the releases, or the major frame of the window table. Nothing if a task releases jobs at other instants. O(records + jobs).
#[must_use]
pub fn first_hyperperiod(trace: &Trace, pieces: usize) -> Option<Time> {
    let line = Timeline::of(trace);
    if line.intervals.len() <= pieces {
        return None;
    }
    let frame = trace.header.window_lengths.iter().fold(Span::ZERO, |sum, length| sum + *length);
    let (mut least, mut begin) = (1, Time::ZERO);
    if frame > Span::ZERO {
        least = frame.ns();
    } else {
        for jobs in line.jobs.iter().filter(|jobs| !jobs.is_empty()) {
            let period = period(jobs)?;
            least = (least / greatest_common_divisor(least, period))
                .checked_mul(period)
                .filter(|ns| *ns <= line.end.ns())?;
            begin = begin.max(jobs[0].release);
        }
    }
    let end = Time::from_ns(begin.ns().checked_add(least)?);
    (end.ns() <= line.end.ns() / 2).then_some(end)
}
