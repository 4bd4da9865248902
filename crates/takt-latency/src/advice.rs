//! The worth of changes of a machine: a figure of one scenario minus the same figure of another one that was measured in turn with it.

use crate::figures::{Figure, Interval, Rounds};
use crate::results::{Results, Scenario};

/// The worth of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gain {
    /// The scenario with the change.
    pub name: String,
    /// The figure with it. Nanoseconds.
    pub figure: i64,
    /// The figure without the change minus the one with it, with its 95 % interval. Nanoseconds.
    pub gain: Interval,
}

impl Gain {
    /// Whether the change is worth something beyond noise: the interval is above zero.
    #[must_use]
    pub fn is_gain(&self) -> bool {
        self.gain.is_above(0)
    }
    /// Whether the change makes it worse beyond noise.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.gain.is_below(0)
    }
}

/// The figure of a scenario with its 95 % interval.
#[must_use]
pub fn figure(scenario: &Scenario, figure: Figure) -> Interval {
    Rounds::of(scenario).interval(figure)
}

/// The gain of the second scenario over the first. Both were measured in turn, so a disturbance of the machine in one round is in both figures.
fn gain(before: &Scenario, after: &Scenario, of: Figure) -> Gain {
    let (mut a, mut b) = (Rounds::of(before), Rounds::of(after));
    let common = a.len().min(b.len());
    a.truncate(common);
    b.truncate(common);
    Gain { name: after.name.clone(), figure: b.by_round(of).0, gain: Interval::of(&a.minus(&b, of)) }
}

/// The gain of each scenario of an experiment over its first one, the largest gain first. Scenarios that were not measured are left out.
/// O(scenarios · samples · log samples).
#[must_use]
pub fn ranked(results: &Results, of: Figure) -> Vec<Gain> {
    let mut measured = results.measured();
    let Some(baseline) = measured.next() else { return Vec::new() };
    let mut gains: Vec<Gain> = measured.map(|scenario| gain(baseline, scenario, of)).collect();
    // Gains beyond noise are before all others: a large difference with a larger interval says nothing.
    gains.sort_by_key(|gain| (!gain.is_gain(), std::cmp::Reverse(gain.gain.value)));
    gains
}

/// The gain of each scenario of an experiment over the one before it: the worth of each change beside the earlier ones.
#[must_use]
pub fn successive(results: &Results, of: Figure) -> Vec<Gain> {
    let measured: Vec<&Scenario> = results.measured().collect();
    measured.windows(2).map(|pair| gain(pair[0], pair[1], of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::rng::draw_up_to;

    /// Rounds of samples around a value, with a disturbance of each round that all scenarios share.
    fn scenario(name: &str, seed: u64, shift: i64, noise: u64) -> Scenario {
        let of_round = |round: u64| draw_up_to(5000, 77, round, 0) as i64;
        let sample = |round: u64, i: u64| shift + of_round(round) + draw_up_to(noise, seed, round, i) as i64;
        let rounds = (0..10).map(|round| (0..500).map(|i| sample(round, i)).collect()).collect();
        Scenario {
            name: name.into(),
            meaning: String::new(),
            rounds,
            stolen: Vec::new(),
            worst: Vec::new(),
            agreement: None,
            skipped: None,
        }
    }

    fn results(scenarios: Vec<Scenario>) -> Results {
        let mut results = Results::new(String::new(), String::new(), String::new(), 0);
        results.scenarios = scenarios;
        results
    }

    #[test]
    fn gains_are_ranked_and_noise_is_none() {
        let all = results(vec![
            scenario("none", 1, 9000, 1000),
            scenario("small", 2, 8500, 1000),
            scenario("nothing", 3, 9000, 1000),
            scenario("worse", 4, 9900, 1000),
            scenario("large", 5, 2000, 1000),
            scenario("middle", 6, 7000, 1000),
            Scenario { skipped: Some("no such setting".into()), rounds: Vec::new(), ..scenario("skipped", 7, 0, 1) },
        ]);
        for figure in ["mean", "p50", "p99"] {
            let figure = figure.parse().unwrap();
            let gains = ranked(&all, figure);
            let names: Vec<&str> = gains.iter().map(|gain| gain.name.as_str()).collect();
            assert_eq!(names[..3], ["large", "middle", "small"], "{figure}: {gains:?}");
            let of = |name: &str| gains.iter().find(|gain| gain.name == name).unwrap();
            assert!(["large", "middle", "small"].iter().all(|name| of(name).is_gain()), "{gains:?}");
            assert!(!of("nothing").is_gain() && !of("nothing").is_loss(), "{gains:?}");
            assert!(of("worse").is_loss(), "{gains:?}");
            assert_eq!(names.len(), 5, "the one that was not measured is left out");
            // The disturbance of the rounds is ten times as large as the gain of `small`, and in both figures.
            let small = of("small").gain;
            assert!(small.is_above(350) && small.is_below(650), "{small:?}");
        }
    }

    #[test]
    fn a_large_difference_within_noise_is_behind_a_small_gain() {
        let mut wild = scenario("wild", 2, 9000, 1000);
        for (number, round) in wild.rounds.iter_mut().enumerate() {
            let shift = if number % 2 == 0 { 60_000 } else { -70_000 };
            round.iter_mut().for_each(|value| *value += shift);
        }
        let all = results(vec![scenario("none", 1, 9000, 1000), wild, scenario("small", 3, 8500, 1000)]);
        let gains = ranked(&all, Figure::Mean);
        assert_eq!(gains[0].name, "small", "{gains:?}");
        assert!(!gains[1].is_gain(), "{gains:?}");
    }

    #[test]
    fn a_change_beside_another_one_is_worth_only_what_it_adds() {
        let all = results(vec![
            scenario("none", 1, 9000, 1000),
            scenario("a", 2, 4000, 1000),
            scenario("a+b", 3, 4000, 1000),
            scenario("a+b+c", 4, 3000, 1000),
        ]);
        let gains = successive(&all, Figure::Mean);
        assert_eq!(gains.iter().map(Gain::is_gain).collect::<Vec<_>>(), [true, false, true], "{gains:?}");
        let mut few = all;
        few.scenarios.iter_mut().for_each(|scenario| scenario.rounds.truncate(2));
        assert!(successive(&few, Figure::Mean).iter().all(|gain| !gain.is_gain()), "two rounds prove nothing");
        assert!(ranked(&results(Vec::new()), Figure::Mean).is_empty());
    }
}
