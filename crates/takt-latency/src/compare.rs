//! Which quantiles of two experiments differ beyond noise.

use crate::figures::{QUANTILES, Rounds, middle};
use crate::results::{MIN_ROUNDS, Results, Scenario};

/// A quantile of one scenario in two experiments. Nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The scenario.
    pub scenario: String,
    /// The quantile's name.
    pub quantile: &'static str,
    /// The first experiment's value.
    pub first: i64,
    /// The second experiment's value.
    pub second: i64,
    /// The lower end of the 95 % interval of the second value minus the first.
    pub low: i64,
    /// Its upper end.
    pub high: i64,
    /// Whether the interval excludes zero, and both have at least three rounds.
    pub differs: bool,
}

/// Compares the scenarios that both experiments have measured, in the order of the first one.
#[must_use]
pub fn compare(first: &Results, second: &Results, seed: u64) -> Vec<Difference> {
    let pairs = first.measured().filter_map(|a| Some((a, second.measured().find(|b| b.name == a.name)?)));
    let mut differences = Vec::new();
    for (a, b) in pairs {
        let (rounds_a, rounds_b) = (Rounds::of(a), Rounds::of(b));
        for (quantile, name) in QUANTILES {
            let (first, draws_a) = rounds_a.bootstrap(quantile, seed);
            // Another stream: the experiments are independent.
            let (second, draws_b) = rounds_b.bootstrap(quantile, !seed);
            let (low, high) = middle(draws_a.iter().zip(&draws_b).map(|(a, b)| b - a).collect());
            let enough = a.has_intervals() && b.has_intervals();
            let differs = enough && (low > 0 || high < 0);
            differences.push(Difference {
                scenario: a.name.clone(),
                quantile: name,
                first,
                second,
                low,
                high,
                differs,
            });
        }
    }
    differences
}

/// Settings in which two experiments differ, and samples that are too few, in sentences. A difference between figures may be one of these settings.
#[must_use]
pub fn unlike(first: &Results, second: &Results) -> Vec<String> {
    let settings = [("task", &first.task, &second.task), ("stress", &first.stress, &second.stress)];
    let mut notes: Vec<String> = settings
        .iter()
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| format!("the experiments differ in their {name}: {a} and {b}"))
        .collect();
    let few = |results: &Results| !results.measured().all(Scenario::has_intervals);
    if few(first) || few(second) {
        notes.push(format!("a scenario with fewer than {MIN_ROUNDS} rounds differs from nothing beyond noise"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::rng::draw_up_to;

    fn results(seed: u64, shift: i64) -> Results {
        let mut results = Results::new(String::new(), String::new(), String::new(), 0);
        let round = |r: u64| (0..200).map(|i| shift + draw_up_to(1000, seed, r, i) as i64).collect();
        results.scenarios.push(Scenario {
            name: "idle".into(),
            meaning: String::new(),
            rounds: (0..12).map(round).collect(),
            stolen: Vec::new(),
            skipped: None,
            worst: Vec::new(),
            agreement: None,
        });
        results
    }

    #[test]
    fn a_shift_is_seen_and_noise_is_not() {
        let same = compare(&results(1, 0), &results(2, 0), 5);
        assert_eq!(same.iter().map(|d| d.quantile).collect::<Vec<_>>(), ["p50", "p99", "p99.9", "max"]);
        assert!(!same[0].differs && !same[1].differs, "{same:?}");
        let shifted = compare(&results(1, 0), &results(2, 300), 5);
        assert!(shifted.iter().all(|d| d.differs && d.low > 200 && d.high < 400), "{shifted:?}");
        assert_eq!(shifted, compare(&results(1, 0), &results(2, 300), 5), "the same seed gives the same intervals");
        let mut few = results(2, 300);
        few.scenarios[0].rounds.truncate(2);
        assert!(compare(&results(1, 0), &few, 5).iter().all(|d| !d.differs), "two rounds prove nothing");
        assert_eq!(unlike(&results(1, 0), &few).len(), 1);
        let mut other = results(1, 0);
        other.stress = "memory".into();
        let notes = unlike(&results(1, 0), &other);
        assert!(notes.len() == 1 && notes[0].contains("their stress:  and memory"), "{notes:?}");
        assert!(unlike(&other, &other).is_empty());
        few.scenarios[0].name = "other".into();
        assert!(compare(&results(1, 0), &few, 5).is_empty());
    }
}
