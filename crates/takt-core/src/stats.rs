//! Counters of a run, and response times.

use crate::model::TaskId;
use crate::record::{Record, Sink};
use crate::time::Span;
use alloc::vec;
use alloc::vec::Vec;

/// Counts of one task, or summed over all.
///
/// `released = met + missed + undecided`; an undecided job is one whose deadline lies beyond the end of the run and that
/// has not completed. `completed` is the jobs met and those that completed late.
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
    /// Safety-critical activations cut off by the end of their window; they are among the missed.
    pub overruns: u64,
    /// Completion signals that came after their job was over.
    pub late_signals: u64,
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
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, o: Counts) {
        self.released += o.released;
        self.completed += o.completed;
        self.met += o.met;
        self.missed += o.missed;
        self.aborted += o.aborted;
        self.overruns += o.overruns;
        self.late_signals += o.late_signals;
        self.dispatches += o.dispatches;
        self.preemptions += o.preemptions;
        self.migrations += o.migrations;
        self.utility += o.utility;
        self.utility_total += o.utility_total;
    }
}

const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize) * SUB;

/// A histogram of spans with a relative error below 1/64; fixed memory, one increment per value.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u32>,
    count: u64,
    sum: i128,
    min: Span,
    max: Span,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: vec![0; BUCKETS], count: 0, sum: 0, min: Span::MAX, max: Span::ZERO }
    }
}

impl Histogram {
    /// Counts a value; a negative one counts as zero.
    pub fn add(&mut self, value: Span) {
        let value = value.or_zero();
        self.buckets[bucket(value.ns() as u64)] += 1;
        self.count += 1;
        self.sum += i128::from(value.ns());
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The smallest value, exactly; zero when there is none.
    #[must_use]
    pub fn min(&self) -> Span {
        if self.count == 0 { Span::ZERO } else { self.min }
    }
    /// The largest value, exactly.
    #[must_use]
    pub fn max(&self) -> Span {
        self.max
    }
    /// The mean, rounded down to a nanosecond.
    #[must_use]
    pub fn mean(&self) -> Span {
        if self.count == 0 { Span::ZERO } else { Span::from_ns((self.sum / i128::from(self.count)) as i64) }
    }
    /// The value that `permille` of 1000 values do not exceed, rounded up to its bucket and never above the maximum.
    #[must_use]
    pub fn quantile(&self, permille: u64) -> Span {
        let rank = (self.count * permille).div_ceil(1000);
        let mut below = 0;
        for (index, &n) in self.buckets.iter().enumerate() {
            below += u64::from(n);
            if n > 0 && below >= rank {
                return Span::from_ns(upper(index).min(self.max.ns() as u64) as i64);
            }
        }
        Span::ZERO
    }
}

/// Values below 64 have a bucket each; above, each power of two has 64.
fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    ((shift as usize + 1) << SUB_BITS) + (value >> shift) as usize - SUB
}

/// The largest value of a bucket.
fn upper(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let shift = (index >> SUB_BITS) - 1;
    let base = (SUB + (index & (SUB - 1))) as u64;
    (base << shift) + ((1 << shift) - 1)
}

/// Response times per task, as a [`Sink`].
#[derive(Clone, Debug)]
pub struct Responses(pub Vec<Histogram>);

impl Responses {
    /// Empty histograms for so many tasks.
    #[must_use]
    pub fn new(tasks: usize) -> Responses {
        Responses(vec![Histogram::default(); tasks])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_it_says() {
        for value in (0..10_000).chain([u64::MAX / 2, 1 << 40, (1 << 40) - 1]) {
            let index = bucket(value);
            assert!(upper(index) >= value, "{value}");
            assert!(index == 0 || upper(index - 1) < value, "{value}");
            assert!(upper(index) - value <= value / 64, "{value}");
        }
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut h = Histogram::default();
        (1..=1000).for_each(|us| h.add(Span::from_us(us)));
        assert_eq!((h.min(), h.max(), h.count()), (Span::from_us(1), Span::from_us(1000), 1000));
        assert_eq!(h.mean(), Span::from_ns(500_500));
        let p99 = h.quantile(990).ns();
        assert!((990_000..=1_000_000).contains(&p99), "{p99}");
    }
}
