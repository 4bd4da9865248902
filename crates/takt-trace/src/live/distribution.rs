//! Spans that are counted for quantiles and in fixed intervals.

use takt_core::stats::Histogram;
use takt_core::time::Span;

/// Upper bounds of the intervals, in nanoseconds: 1 us to 10 s.
pub const BOUNDS: [i64; 22] = {
    let mut bounds = [0; 22];
    let (mut at, mut decade) = (0, 1_000);
    while at < bounds.len() {
        bounds[at] = [decade, decade * 5 / 2, decade * 5][at % 3];
        if at % 3 == 2 {
            decade *= 10;
        }
        at += 1;
    }
    bounds
};

/// Spans of one kind. The memory is bounded: a [`Histogram`] for quantiles, and a counter for each of [`BOUNDS`].
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    histogram: Histogram,
    intervals: [u64; BOUNDS.len()],
    sum: i128,
}

impl Distribution {
    /// Counts a span; a negative one counts as zero. O(log intervals).
    pub fn add(&mut self, span: Span) {
        let span = span.or_zero();
        self.histogram.add(span);
        self.sum += i128::from(span.ns());
        if let Some(count) = self.intervals.get_mut(BOUNDS.partition_point(|bound| *bound < span.ns())) {
            *count += 1;
        }
    }

    /// The spans for quantiles.
    #[must_use]
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// The sum in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> i128 {
        self.sum
    }

    /// Each bound in nanoseconds, with the number of spans that do not exceed it.
    pub fn cumulative(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let counts = self.intervals.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        BOUNDS.into_iter().zip(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_at_a_bound_does_not_exceed_it() {
        assert_eq!((BOUNDS[0], BOUNDS[1], BOUNDS[21]), (1_000, 2_500, 10_000_000_000));
        let mut spans = Distribution::default();
        for ns in [-1, 1_000, 1_001, 2_500, 10_000_000_000, 10_000_000_001] {
            spans.add(Span::from_ns(ns));
        }
        let counts: Vec<u64> = spans.cumulative().map(|(_, count)| count).collect();
        assert_eq!((counts[0], counts[1], counts[20], counts[21]), (2, 4, 4, 5));
        assert_eq!((spans.histogram().count(), spans.sum_ns()), (6, 20_000_004_502));
    }
}
