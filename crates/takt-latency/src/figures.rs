//! Figures of one scenario, with confidence intervals by rounds.

use crate::results::Scenario;
use takt_core::rng::draw_up_to;

/// A quantile by its share in parts of 100,000: 50,000 is the median.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantile(pub u32);

/// The quantiles of tables, with their names.
pub const QUANTILES: [(Quantile, &str); 4] =
    [(Quantile(50_000), "p50"), (Quantile(99_000), "p99"), (Quantile(99_900), "p99.9"), (Quantile(100_000), "max")];

/// How many times the rounds are drawn again.
const DRAWS: u64 = 1000;

/// A figure with its 95 % confidence interval. Nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The figure of all samples.
    pub value: i64,
    /// The lower end.
    pub low: i64,
    /// The upper end.
    pub high: i64,
}

/// The figures of one scenario. Nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    /// Number of samples.
    pub count: usize,
    /// The earliest wake-up.
    pub min: i64,
    /// The mean.
    pub mean: f64,
    /// The variance of the samples, in squared nanoseconds.
    pub variance: f64,
    /// The figures of [`QUANTILES`], in that order.
    pub quantiles: Vec<Interval>,
    /// Samples above the limit.
    pub over: usize,
    /// Stolen time.
    pub stolen: i64,
}

/// The samples of the rounds, each sorted. Rounds without samples are left out.
pub(crate) struct Rounds(Vec<Vec<i64>>);

impl Rounds {
    pub(crate) fn of(scenario: &Scenario) -> Rounds {
        let mut rounds: Vec<Vec<i64>> = scenario.rounds.iter().filter(|round| !round.is_empty()).cloned().collect();
        rounds.iter_mut().for_each(|round| round.sort_unstable());
        Rounds(rounds)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.len()).collect()
    }

    /// The rounds of both, those of the other one behind.
    pub(crate) fn joined(&self, other: &Rounds) -> Rounds {
        Rounds(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// Keeps the first rounds alone.
    pub(crate) fn truncate(&mut self, rounds: usize) {
        self.0.truncate(rounds);
    }

    /// The mean of the samples of these rounds, rounded towards zero; 0 without samples.
    pub(crate) fn mean(&self, rounds: &[usize]) -> i64 {
        let chosen = || rounds.iter().map(|index| &self.0[*index]);
        let count: usize = chosen().map(Vec::len).sum();
        let sum: i128 = chosen().flatten().map(|value| i128::from(*value)).sum();
        (sum / (count.max(1) as i128)) as i64
    }

    /// Rounds drawn with replacement, as many as there are.
    pub(crate) fn drawn(&self, seed: u64, draw: u64) -> Vec<usize> {
        let last = self.len() as u64 - 1;
        (0..=last).map(|index| draw_up_to(last, seed, draw, index) as usize).collect()
    }

    /// The smallest value that the quantile's share of the samples of these rounds does not exceed. O(rounds · log samples · log range).
    pub(crate) fn quantile(&self, rounds: &[usize], quantile: Quantile) -> i64 {
        let chosen = || rounds.iter().map(|index| &self.0[*index]);
        let total: usize = chosen().map(Vec::len).sum();
        let rank = (total as u64 * u64::from(quantile.0)).div_ceil(100_000).max(1) as usize;
        let mut low = chosen().filter_map(|round| round.first()).min().copied().unwrap_or(0);
        let mut high = chosen().filter_map(|round| round.last()).max().copied().unwrap_or(0);
        while low < high {
            let middle = low + (high - low) / 2;
            let below: usize = chosen().map(|round| round.partition_point(|value| *value <= middle)).sum();
            if below >= rank { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// The quantile of all samples, and of draws of rounds, in the order of the draws.
    pub(crate) fn bootstrap(&self, quantile: Quantile, seed: u64) -> (i64, Vec<i64>) {
        if self.0.is_empty() {
            return (0, Vec::new());
        }
        let draws = (0..DRAWS).map(|draw| self.quantile(&self.drawn(seed, draw), quantile)).collect();
        (self.quantile(&self.all(), quantile), draws)
    }
}

/// The middle 95 % of values.
pub(crate) fn middle(mut values: Vec<i64>) -> (i64, i64) {
    values.sort_unstable();
    let at = |part: usize| values.get((values.len() * part / 1000).min(values.len().saturating_sub(1)));
    (at(25).copied().unwrap_or(0), at(975).copied().unwrap_or(0))
}

impl Figures {
    /// The figures of a scenario. `limit` in nanoseconds. O(samples · log samples + draws).
    #[must_use]
    pub fn of(scenario: &Scenario, limit: i64, seed: u64) -> Figures {
        let rounds = Rounds::of(scenario);
        let values = || rounds.0.iter().flatten();
        let count = values().count();
        let mean = values().map(|value| *value as f64).sum::<f64>() / count.max(1) as f64;
        let squares: f64 = values().map(|value| (*value as f64 - mean).powi(2)).sum();
        let interval = |(quantile, _): &(Quantile, &str)| {
            let (value, draws) = rounds.bootstrap(*quantile, seed);
            let (low, high) = middle(draws);
            Interval { value, low, high }
        };
        Figures {
            count,
            min: values().min().copied().unwrap_or(0),
            mean,
            variance: squares / count.saturating_sub(1).max(1) as f64,
            quantiles: QUANTILES.iter().map(interval).collect(),
            over: values().filter(|value| **value > limit).count(),
            stolen: scenario.stolen.iter().fold(0, |sum, round| sum.saturating_add(*round)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scenario(rounds: Vec<Vec<i64>>) -> Scenario {
        Scenario {
            name: "s".into(),
            meaning: String::new(),
            rounds,
            stolen: vec![3, 4],
            skipped: None,
            worst: Vec::new(),
            agreement: None,
        }
    }

    #[test]
    fn figures_are_those_of_the_samples() {
        let f = Figures::of(&scenario(vec![(1..=500).collect(), (501..=1000).rev().collect()]), 990, 1);
        assert_eq!((f.count, f.min, f.over, f.stolen), (1000, 1, 10, 7));
        assert!((f.mean - 500.5).abs() < 1e-9 && (f.variance - 83_416.666_666).abs() < 1e-3, "{f:?}");
        assert_eq!(f.quantiles.iter().map(|q| q.value).collect::<Vec<_>>(), [500, 990, 999, 1000]);
        // Two rounds that differ say little about the median.
        assert_eq!((f.quantiles[0].low, f.quantiles[0].high), (250, 750));
        let empty = Figures::of(&scenario(vec![]), 0, 1);
        assert_eq!((empty.count, empty.quantiles[3].value), (0, 0));
    }

    #[test]
    fn the_quantile_of_rounds_is_that_of_all_their_samples() {
        let rounds = prop::collection::vec(prop::collection::vec(-50..2000i64, 1..40), 1..6);
        takt_testing::for_all(300, (rounds, 0..=100_000u32), |(rounds, share)| {
            let mut all: Vec<i64> = rounds.iter().flatten().copied().collect();
            all.sort_unstable();
            let rank = (all.len() as u64 * u64::from(share)).div_ceil(100_000).max(1) as usize;
            let rounds = Rounds::of(&scenario(rounds));
            prop_assert_eq!(rounds.quantile(&rounds.all(), Quantile(share)), all[rank - 1]);
            Ok(())
        });
    }

    /// An interval is right in about 95 of 100 experiments, here where each round has a shift of its own.
    #[test]
    fn intervals_cover_the_true_median() {
        let noise = |stream, index| draw_up_to(1000, 7, stream, index) as i64;
        let covers = (0..60u64).filter(|experiment| {
            let shift = |r: u64| noise(*experiment, 1_000_000 + r);
            let round = |r: u64| (0..20).map(|i| noise(experiment * 100 + r, i) + shift(r)).collect();
            let (_, draws) = Rounds::of(&scenario((0..20).map(round).collect())).bootstrap(QUANTILES[0].0, *experiment);
            let (low, high) = middle(draws);
            (low..=high).contains(&1000)
        });
        let covers = covers.count();
        assert!((50..=60).contains(&covers), "{covers} of 60");
    }
}
