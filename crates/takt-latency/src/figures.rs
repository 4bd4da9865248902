//! Figures of one scenario, with confidence intervals by rounds.

use crate::results::{MIN_ROUNDS, Scenario};
use crate::statistics::Estimate;
use std::fmt;
use std::str::FromStr;

/// A quantile by its share in parts of 100,000: 50,000 is the median.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantile(pub u32);

/// The quantiles of tables, with their names.
pub const QUANTILES: [(Quantile, &str); 4] =
    [(Quantile(50_000), "p50"), (Quantile(99_000), "p99"), (Quantile(99_900), "p99.9"), (Quantile(100_000), "max")];

/// The figure that is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// The mean of all samples.
    Mean,
    /// A quantile of the table of quantiles. That of all samples, the greatest one, is the mean of those of the rounds.
    Quantile(Quantile),
}

impl Figure {
    /// All figures with their names.
    pub fn all() -> impl Iterator<Item = (Figure, &'static str)> {
        let quantiles = QUANTILES.into_iter().map(|(quantile, name)| (Figure::Quantile(quantile), name));
        [(Figure::Mean, "mean")].into_iter().chain(quantiles)
    }

    /// With fewer samples of a round its interval misses the truth too often (`tests/coverage.rs`).
    #[must_use]
    pub fn samples(self) -> usize {
        match self {
            Figure::Mean | Figure::Quantile(Quantile(100_000)) => 1,
            Figure::Quantile(Quantile(..=50_000)) => 10,
            Figure::Quantile(Quantile(..=99_000)) => 200,
            Figure::Quantile(_) => 5000,
        }
    }

    /// Of these rounds.
    pub(crate) fn of(self, rounds: &Rounds, chosen: &[usize]) -> i64 {
        match self {
            Figure::Mean => rounds.mean(chosen),
            Figure::Quantile(quantile) => rounds.quantile(chosen, quantile),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Figure::all().find(|(figure, _)| figure == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Figure {
    type Err = String;
    fn from_str(text: &str) -> Result<Figure, String> {
        let found = Figure::all().find(|(_, name)| *name == text).map(|(figure, _)| figure);
        found.ok_or_else(|| {
            let names: Vec<&str> = Figure::all().map(|(_, name)| name).collect();
            format!("a figure is one of {}", names.join(", "))
        })
    }
}

/// A figure with its 95 % confidence interval. Nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The figure of all samples.
    pub value: i64,
    /// The lower and the upper end. `None` of fewer than [`MIN_ROUNDS`] rounds, of a quantile that single rounds cannot carry, and of the greatest sample, since
    /// a later one is always possible.
    pub ends: Option<(i64, i64)>,
}

impl Interval {
    pub(crate) fn of(estimate: &Estimate) -> Interval {
        let half = estimate.half().filter(|half| half.is_finite());
        let ends = half.map(|half| half.ceil() as i64);
        let ends = ends.map(|half| (estimate.value.saturating_sub(half), estimate.value.saturating_add(half)));
        Interval { value: estimate.value, ends }
    }

    /// Whether the whole interval is above a value.
    #[must_use]
    pub fn is_above(&self, value: i64) -> bool {
        self.ends.is_some_and(|(low, _)| low > value)
    }

    /// Whether the whole interval is below a value.
    #[must_use]
    pub fn is_below(&self, value: i64) -> bool {
        self.ends.is_some_and(|(_, high)| high < value)
    }
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

    /// A figure of all samples, and of each round alone.
    pub(crate) fn by_round(&self, figure: Figure) -> (i64, Vec<i64>) {
        let all = self.all();
        let of_rounds: Vec<i64> = all.iter().map(|round| figure.of(self, &[*round])).collect();
        match figure {
            // A longer experiment has a later sample. The latest one of a round has a mean.
            Figure::Quantile(Quantile(100_000)) => {
                let sum: i128 = of_rounds.iter().map(|value| i128::from(*value)).sum();
                ((sum / all.len().max(1) as i128) as i64, of_rounds)
            }
            _ => (figure.of(self, &all), of_rounds),
        }
    }

    /// Whether each round has so many samples that the figure has an interval.
    pub(crate) fn carry(&self, figure: Figure) -> bool {
        let least = self.0.iter().map(Vec::len).min().unwrap_or(0);
        self.len() >= MIN_ROUNDS && least >= figure.samples()
    }

    /// A figure with its error.
    pub(crate) fn estimate(&self, figure: Figure) -> Estimate {
        let (value, of_rounds) = self.by_round(figure);
        Estimate::of(value, if self.carry(figure) { &of_rounds } else { &[] })
    }

    /// A figure with its interval, which does not begin below all samples and zero.
    pub(crate) fn interval(&self, figure: Figure) -> Interval {
        let least = self.0.iter().filter_map(|round| round.first()).min().copied().unwrap_or(0).min(0);
        let Interval { value, ends } = Interval::of(&self.estimate(figure));
        Interval { value, ends: ends.map(|(low, high)| (low.max(least), high)) }
    }

    /// A figure minus that of other rounds, which were measured in turn with these. A disturbance in a round is in both.
    pub(crate) fn minus(&self, other: &Rounds, figure: Figure) -> Estimate {
        let (value, of_rounds) = self.by_round(figure);
        let (of_other, of_others) = other.by_round(figure);
        let differences: Vec<i64> = of_rounds.iter().zip(&of_others).map(|(one, other)| one - other).collect();
        let carry = self.carry(figure) && other.carry(figure);
        Estimate::of(value - of_other, if carry { &differences } else { &[] })
    }
}

impl Figures {
    /// The figures of a scenario. `limit` in nanoseconds. O(samples · log samples).
    #[must_use]
    pub fn of(scenario: &Scenario, limit: i64) -> Figures {
        let rounds = Rounds::of(scenario);
        let values = || rounds.0.iter().flatten();
        let count = values().count();
        let mean = values().map(|value| *value as f64).sum::<f64>() / count.max(1) as f64;
        let squares: f64 = values().map(|value| (*value as f64 - mean).powi(2)).sum();
        let interval = |(quantile, _): &(Quantile, &str)| match quantile {
            Quantile(100_000) => Interval { value: rounds.quantile(&rounds.all(), *quantile), ends: None },
            _ => rounds.interval(Figure::Quantile(*quantile)),
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
        let f = Figures::of(&scenario(vec![(1..=500).collect(), (501..=1000).rev().collect()]), 990);
        assert_eq!((f.count, f.min, f.over, f.stolen), (1000, 1, 10, 7));
        assert!((f.mean - 500.5).abs() < 1e-9 && (f.variance - 83_416.666_666).abs() < 1e-3, "{f:?}");
        assert_eq!(f.quantiles.iter().map(|q| q.value).collect::<Vec<_>>(), [500, 990, 999, 1000]);
        assert!(f.quantiles.iter().all(|q| q.ends.is_none()), "two rounds say nothing: {f:?}");
        let empty = Figures::of(&scenario(vec![]), 0);
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

    /// Medians 10, 20 and 30: the standard error is 10 / sqrt(3), and Student's t of two degrees of freedom is 4.303.
    #[test]
    fn an_interval_is_known_and_needs_samples() {
        let round = |median: i64, samples: i64| (0..samples).map(|i| median + (i % 3) - 1).collect::<Vec<i64>>();
        let of = |samples| Figures::of(&scenario(vec![round(10, samples), round(20, samples), round(30, samples)]), 0);
        let ends = |f: &Figures| f.quantiles.iter().map(|q| q.ends).collect::<Vec<_>>();
        assert_eq!((ends(&of(9))[0], ends(&of(30))[0]), (None, Some((0, 20 + 25))));
        let carried = |samples| ends(&of(samples)).iter().map(Option::is_some).collect::<Vec<bool>>();
        assert_eq!(carried(150), [true, false, false, false]);
        assert_eq!(carried(210), [true, true, false, false]);
        assert_eq!(carried(5100), [true, true, true, false]);
    }
}
