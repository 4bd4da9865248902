//! Counters of a run, and response times.

mod histogram;
mod spent;

pub use histogram::Histogram;
pub use spent::{Parts, Spent};

use crate::model::TaskId;
use crate::record::{Outcome, Record, RecordKind, Sink};
use crate::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Counts of one task, or summed over all.
///
/// `released = met + missed + undecided`; an undecided job is one whose deadline lies beyond the end of the run and that
/// has not completed. `completed` is the jobs met and those that completed late.
///
/// In a window table a job is what one completion signal ends. It is released at its first activation and due at the end of that
/// activation. An activation that ends without the signal is cut off: the job is missed, once, and the next activation continues it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Jobs released.
    pub released: u64,
    /// Jobs that completed, in time or late.
    pub completed: u64,
    /// Jobs that completed by their deadline; without a deadline every completed job.
    pub met: u64,
    /// Jobs that passed their absolute deadline unfinished.
    pub missed: u64,
    /// Jobs that were aborted; they are among the missed.
    pub aborted: u64,
    /// Jobs whose first dispatch found the program still at the work of an aborted job.
    pub behind: u64,
    /// Activations of a process in a window table.
    pub activations: u64,
    /// Activations that ended, by their budget or with their window, before the completion signal.
    pub cut_off: u64,
    /// Safety-critical activations cut off by the end of their window.
    pub overruns: u64,
    /// Handlers of aborted jobs that began.
    pub handlers: u64,
    /// Completion signals that came after their job was over.
    pub late_signals: u64,
    /// Events that released no job, because too many waited already ([`Arrival::Event`](crate::model::Arrival::Event)).
    pub lost: u64,
    /// Starts and resumptions on a CPU set.
    pub dispatches: u64,
    /// Times an unfinished job was stopped in favour of another.
    pub preemptions: u64,
    /// Times a job resumed on another CPU set.
    pub migrations: u64,
    /// Utility accrued, in millionths.
    pub utility: u128,
    /// The most that the released jobs could have accrued, in millionths.
    pub utility_total: u128,
    /// The task is a process of a window table that signals no completions, so that it has activations but no jobs.
    pub jobless: bool,
}

impl Counts {
    /// A job comes into being that can accrue `height` at most.
    #[inline]
    pub(crate) fn release(&mut self, height: u64) {
        self.released += 1;
        self.utility_total += u128::from(height);
    }

    /// The counts of a process without jobs: its activations, its overruns, and what the CPUs did.
    #[must_use]
    pub fn without_jobs(self) -> Counts {
        Counts {
            activations: self.activations,
            overruns: self.overruns,
            dispatches: self.dispatches,
            preemptions: self.preemptions,
            migrations: self.migrations,
            jobless: true,
            ..Counts::default()
        }
    }
}

/// Over several tasks. The sum has no jobs where none of them has any.
impl core::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(counts: I) -> Counts {
        let (mut sum, mut jobless, mut some) = (Counts::default(), true, false);
        for count in counts {
            sum += count;
            (jobless, some) = (jobless && count.jobless, true);
        }
        Counts { jobless: jobless && some, ..sum }
    }
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, o: Counts) {
        self.released += o.released;
        self.completed += o.completed;
        self.met += o.met;
        self.missed += o.missed;
        self.aborted += o.aborted;
        self.behind += o.behind;
        self.activations += o.activations;
        self.cut_off += o.cut_off;
        self.overruns += o.overruns;
        self.handlers += o.handlers;
        self.late_signals += o.late_signals;
        self.lost += o.lost;
        self.dispatches += o.dispatches;
        self.preemptions += o.preemptions;
        self.migrations += o.migrations;
        self.utility += o.utility;
        self.utility_total += o.utility_total;
    }
}

/// Response times per task, as a [`Sink`].
#[derive(Clone, Debug)]
pub struct Responses(pub Vec<Histogram>);

impl Responses {
    /// Empty histograms for so many tasks, which allocate when jobs complete.
    #[must_use]
    pub fn new(tasks: usize) -> Responses {
        Responses(vec![Histogram::default(); tasks])
    }

    /// Empty histograms that never allocate ([`Histogram::reserved`]).
    #[must_use]
    pub fn reserved(tasks: usize) -> Responses {
        Responses((0..tasks).map(|_| Histogram::reserved()).collect())
    }
}

impl Sink for Responses {
    fn record(&mut self, _: Record) {}
    fn wants_records(&self) -> bool {
        false
    }
    fn response(&mut self, task: TaskId, response: Span) {
        self.0[task.index()].add(response);
    }
}

/// How many jobs of each task complete in each interval of one length, as a [`Sink`]: frames per second, if jobs are frames and the
/// interval is a second.
///
/// Interval k is (k·length, (k+1)·length]: a job that completes at its end is of it. Jobs count whether they are in time or late,
/// since a late frame is shown, too; aborted ones do not. Only intervals that are whole by the end of the run are kept.
///
/// This is what Kato, Rajkumar, Ishikawa, "AIRS: Supporting Interactive Real-Time Applications on Multicore Platforms", ECRTS 2010,
/// show in figures 6 and 10: at each second the number of frames of the movie that had the fewest.
#[derive(Clone, Debug)]
pub struct Rates {
    tasks: Range<u32>,
    length: Span,
    /// By interval, then by task.
    done: Vec<u32>,
}

impl Rates {
    /// For these tasks, over a run of this duration. The memory is that of one number for each task and interval.
    ///
    /// # Panics
    /// When the length is not above zero, or there is no task.
    #[must_use]
    pub fn new(tasks: Range<u32>, length: Span, duration: Span) -> Rates {
        assert!(length > Span::ZERO && !tasks.is_empty(), "an interval has a length and a task to count");
        let intervals = (duration.ns().max(0) / length.ns()) as usize;
        let done = vec![0; intervals * tasks.len()];
        Rates { tasks, length, done }
    }

    /// For each interval how many jobs each task completed. O(1) for each.
    pub fn intervals(&self) -> impl Iterator<Item = &[u32]> {
        self.done.chunks_exact(self.tasks.len())
    }

    /// For each interval the fewest that any of the tasks completed. O(tasks) for each.
    pub fn worst(&self) -> impl Iterator<Item = u32> {
        self.intervals().map(|tasks| tasks.iter().copied().min().unwrap_or(0))
    }
}

impl Sink for Rates {
    fn record(&mut self, record: Record) {
        let RecordKind::Finish { task, outcome: Outcome::Completed, .. } = record.kind else { return };
        if !self.tasks.contains(&task.0) {
            return;
        }
        let interval = ((record.at - Time::ZERO).ns() - 1).max(0) / self.length.ns();
        let index = interval as usize * self.tasks.len() + (task.0 - self.tasks.start) as usize;
        if let Some(done) = self.done.get_mut(index) {
            *done += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Work;

    #[test]
    fn rates_count_what_completed_within_an_interval() {
        let mut rates = Rates::new(1..3, Span::from_ms(10), Span::from_ms(35));
        let mut finish = |task, ms, outcome| {
            let what = RecordKind::Finish { task: TaskId(task), job: 0, outcome, consumed: Work::ZERO };
            rates.record(Record { at: Time::ZERO + Span::from_ms(ms), kind: what });
        };
        for (task, ms) in [(1, 0), (1, 10), (1, 11), (2, 20), (2, 30), (0, 5), (3, 5), (1, 35)] {
            finish(task, ms, Outcome::Completed);
        }
        finish(2, 5, Outcome::Aborted);
        assert!(rates.intervals().eq([[2, 0], [1, 1], [0, 1]]));
        assert!(rates.worst().eq([0, 1, 0]));
    }
}
