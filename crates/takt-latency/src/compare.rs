//! Which quantiles of two experiments differ beyond noise.
//!
//! The verdict is a permutation test over rounds, which has its level with any number of rounds: if both experiments measure the same, each
//! division of all rounds into two experiments is equally probable (Good, "Permutation, Parametric, and Bootstrap Tests of Hypotheses", 2005,
//! chapter 3). The verdicts of all quantiles and scenarios together are wrong with at most 5 % (Holm, "A Simple Sequentially Rejective Multiple
//! Test Procedure", Scandinavian Journal of Statistics 6, 1979).

use crate::figures::{Figure, Interval, QUANTILES, Quantile, Rounds};
use crate::results::{Results, Scenario};
use takt_core::rng::draw_up_to;

/// The probability of any wrong verdict of a comparison.
const LEVEL: f64 = 0.05;

/// The most divisions of rounds that are tried; with more possible ones, so many are drawn.
const DIVISIONS: u64 = 4000;

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
    /// The 95 % interval of the second value minus the first, as those of [`Interval::ends`].
    pub ends: Option<(i64, i64)>,
    /// Whether the difference is beyond noise, as one of all quantiles and scenarios that are compared.
    pub differs: bool,
}

/// Compares the scenarios that both experiments have measured, in the order of the first one.
#[must_use]
pub fn compare(first: &Results, second: &Results, seed: u64) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut probabilities = Vec::new();
    for (a, b) in pairs(first, second) {
        let (rounds_a, rounds_b) = (Rounds::of(a), Rounds::of(b));
        for (quantile, name) in QUANTILES {
            let [first, second] = [&rounds_a, &rounds_b].map(|rounds| rounds.quantile(&rounds.all(), quantile));
            let ends = between(&rounds_a, &rounds_b, quantile).ends;
            // A test that can't reach the level counts, too, and never passes it.
            probabilities.push(probability(&rounds_a, &rounds_b, quantile, seed));
            let scenario = a.name.clone();
            differences.push(Difference { scenario, quantile: name, first, second, ends, differs: false });
        }
    }
    let mut order: Vec<usize> = (0..differences.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    for (rank, index) in order.iter().enumerate() {
        if probabilities[*index] * (differences.len() - rank) as f64 > LEVEL {
            break;
        }
        differences[*index].differs = true;
    }
    differences
}

/// A quantile of the second of two independent experiments minus that of the first, in nanoseconds. O(samples · log samples).
#[must_use]
pub fn change(first: &Scenario, second: &Scenario, quantile: Quantile) -> Interval {
    between(&Rounds::of(first), &Rounds::of(second), quantile)
}

fn between(first: &Rounds, second: &Rounds, quantile: Quantile) -> Interval {
    let [a, b] = [first, second].map(|rounds| rounds.estimate(Figure::Quantile(quantile)));
    let change = Interval::of(&a.until(&b));
    Interval { ends: change.ends.filter(|_| quantile != QUANTILES[3].0), ..change }
}

fn pairs<'a>(first: &'a Results, second: &'a Results) -> Vec<(&'a Scenario, &'a Scenario)> {
    first.measured().filter_map(|a| Some((a, second.measured().find(|b| b.name == a.name)?))).collect()
}

/// The probability that a division of all rounds into two experiments differs at least as much as the experiments do, if all divisions are
/// equally probable.
fn probability(a: &Rounds, b: &Rounds, quantile: Quantile, seed: u64) -> f64 {
    if a.len() == 0 || b.len() == 0 {
        return 1.0;
    }
    let all = a.joined(b);
    let (n, m) = (a.len(), all.len());
    let distance = |first: &[usize]| {
        let second: Vec<usize> = (0..m).filter(|round| !first.contains(round)).collect();
        (all.quantile(first, quantile) - all.quantile(&second, quantile)).abs()
    };
    let observed = distance(&(0..n).collect::<Vec<_>>());
    if divisions(n, m) <= DIVISIONS as f64 && m <= 16 {
        let chosen = |mask: u32| (0..m).filter(|round| mask & 1 << round != 0).collect::<Vec<_>>();
        let masks = (0..1u32 << m).filter(|mask| mask.count_ones() as usize == n);
        let (count, far) = masks
            .fold((0u32, 0u32), |(count, far), mask| (count + 1, far + u32::from(distance(&chosen(mask)) >= observed)));
        return f64::from(far) / f64::from(count);
    }
    let far = (0..DIVISIONS).filter(|draw| {
        let mut rounds: Vec<usize> = (0..m).collect();
        for at in 0..n {
            let left = (m - 1 - at) as u64;
            rounds.swap(at, at + draw_up_to(left, seed ^ 0x5eed, *draw, at as u64) as usize);
        }
        distance(&rounds[..n]) >= observed
    });
    (far.count() + 1) as f64 / (DIVISIONS + 1) as f64
}

/// How many divisions there are of `m` rounds into `n` and the others.
fn divisions(n: usize, m: usize) -> f64 {
    (0..n).fold(1.0, |product, i| product * (m - i) as f64 / (i + 1) as f64)
}

/// Whether so many rounds of two experiments can carry a verdict about so many quantiles: the most extreme division is rare enough.
fn carries(n: usize, m: usize, tests: usize) -> bool {
    if n == 0 || m == 0 {
        return false;
    }
    // Equally many rounds give each difference with the experiments exchanged, too.
    let extreme = if n == m { 2.0 } else { 1.0 };
    let least = (extreme / divisions(n, n + m)).max(1.0 / (DIVISIONS + 1) as f64);
    least * tests as f64 <= LEVEL
}

/// The number of rounds of each experiment that a verdict about so many quantiles needs.
fn needed(tests: usize) -> Option<usize> {
    (2..100).find(|rounds| carries(*rounds, *rounds, tests))
}

/// Settings in which two experiments differ, and rounds that are too few, in sentences. A difference between figures may be one of these settings.
#[must_use]
pub fn unlike(first: &Results, second: &Results) -> Vec<String> {
    let settings = [("task", &first.task, &second.task), ("stress", &first.stress, &second.stress)];
    let mut notes: Vec<String> = settings
        .iter()
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| format!("the experiments differ in their {name}: {a} and {b}"))
        .collect();
    let pairs = pairs(first, second);
    let tests = pairs.len() * QUANTILES.len();
    for (a, b) in pairs {
        let (n, m) = (Rounds::of(a).len(), Rounds::of(b).len());
        if !carries(n, m, tests) {
            let needed = needed(tests).map_or(String::new(), |rounds| format!("; {rounds} rounds of each can"));
            notes.push(format!(
                "`{}`: {n} and {m} rounds cannot carry a verdict about {tests} quantiles{needed}",
                a.name
            ));
        }
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
        assert!(
            shifted.iter().all(|d| d.differs && d.ends.is_none_or(|(low, high)| low > 200 && high < 400)),
            "{shifted:?}"
        );
        assert_eq!(shifted, compare(&results(1, 0), &results(2, 300), 5), "the same seed gives the same verdicts");
        let mut few = results(2, 300);
        few.scenarios[0].rounds.truncate(2);
        let mut fewer = results(1, 0);
        fewer.scenarios[0].rounds.truncate(2);
        assert!(compare(&fewer, &few, 5).iter().all(|d| !d.differs), "two rounds prove nothing");
        let notes = unlike(&fewer, &few);
        assert_eq!(notes, ["`idle`: 2 and 2 rounds cannot carry a verdict about 4 quantiles; 5 rounds of each can"]);
        let mut other = results(1, 0);
        other.stress = "memory".into();
        let notes = unlike(&results(1, 0), &other);
        assert!(notes.len() == 1 && notes[0].contains("their stress:  and memory"), "{notes:?}");
        assert!(unlike(&other, &other).is_empty());
        few.scenarios[0].name = "other".into();
        assert!(compare(&results(1, 0), &few, 5).is_empty());
    }

    /// An experiment of some rounds, each with a shift of its own of up to `common`.
    fn drawn(seed: u64, rounds: u64, common: u64) -> Results {
        let mut results = results(0, 0);
        let round = |r: u64| {
            let shift = draw_up_to(common, seed, r, 1_000_000);
            // The product of two uniform figures has a long tail.
            let sample = |i: u64| draw_up_to(1000, seed, r, i) * draw_up_to(1000, !seed, r, i) / 1000;
            (0..100).map(|i| (shift + sample(i)) as i64).collect()
        };
        results.scenarios[0].rounds = (0..rounds).map(round).collect();
        results
    }

    /// Two experiments of one distribution: any verdict is false. At 5 %, 200 comparisons have more than 20 false ones with a probability of 0.1 %.
    #[test]
    fn one_distribution_rarely_differs_from_itself() {
        let pairs = takt_testing::cases(200);
        for (rounds, common) in [(3, 0), (5, 0), (5, 500), (6, 500)] {
            let seed = takt_testing::seed().wrapping_mul(1000);
            let differ = |pair: u64| {
                let [a, b] = [2 * pair, 2 * pair + 1].map(|n| drawn(seed + n, rounds, common));
                compare(&a, &b, pair).iter().any(|d| d.differs)
            };
            let wrong = (0..u64::from(pairs)).filter(|pair| differ(*pair)).count();
            println!("{rounds} rounds, common shift up to {common}: {wrong} of {pairs} differ");
            assert!(wrong <= (pairs as usize / 10).max(3), "{wrong} of {pairs} with {rounds} rounds");
        }
    }

    #[test]
    fn drawn_divisions_have_the_level_of_all_divisions() {
        // 9 and 9 rounds have 48,620 divisions, so they are drawn.
        let wrong = (0..20).filter(|n| {
            let [a, b] = [2 * n, 2 * n + 1].map(|n| drawn(n, 9, 500));
            let (a, b) = (Rounds::of(&a.scenarios[0]), Rounds::of(&b.scenarios[0]));
            probability(&a, &b, QUANTILES[0].0, *n) <= LEVEL
        });
        assert!(wrong.count() <= 5);
        let far = drawn(1, 9, 0);
        let mut later = drawn(2, 9, 0);
        later.scenarios[0].rounds.iter_mut().flatten().for_each(|sample| *sample += 2000);
        assert!(compare(&far, &later, 1).iter().all(|d| d.differs));
    }

    #[test]
    fn few_rounds_carry_few_verdicts() {
        // Among 70 divisions of eight rounds two are the most extreme: 2.9 %.
        assert!(carries(4, 4, 1) && !carries(3, 3, 1) && !carries(4, 4, 4) && carries(5, 5, 4) && !carries(5, 0, 1));
        assert_eq!((needed(4), needed(12)), (Some(5), Some(6)));
    }
}
