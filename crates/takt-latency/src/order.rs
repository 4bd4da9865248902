//! The order of scenarios that experiments with isolated CPUs have found, checked with confidence intervals.
//!
//! Source of the order: Cordemans, De Witte, Vankeirsbilck, Melis and Boydens, "Isolating Real-time from Processor-intensive Processes in Embedded
//! Multi-core Systems", on a board with four CPUs. A difference counts if the 95 % interval of it excludes zero. Rounds are drawn for both scenarios
//! together, because they share the disturbances of their time.

use crate::advice::figure;
use crate::explain::Kind;
use crate::figures::{Figure, Interval, QUANTILES, Quantile, Rounds};
use crate::results::{Results, Scenario};

/// The scenarios that [`order`] needs.
pub const ORDERED: [&str; 7] = ["idle-fifo", "stressed", "fifo", "set", "isolated", "isolated-fifo", "weight"];

/// The shortest slice of Linux's ordinary class: 0.7 ms on one CPU, and more on several (`sysctl_sched_base_slice` in `kernel/sched/fair.c`).
const SLICE: i64 = 700_000;

/// A statement about two scenarios, or about one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The statement.
    pub text: String,
    /// The figure that it is about, in nanoseconds; `None` if it was not measured.
    pub measured: Option<Interval>,
    /// Whether it holds.
    pub holds: bool,
}

/// The difference of a quantile of two scenarios of one experiment: the first minus the second. Nanoseconds.
#[must_use]
pub fn difference(first: &Scenario, second: &Scenario, quantile: Quantile) -> Interval {
    let (mut a, mut b) = (Rounds::of(first), Rounds::of(second));
    let common = a.len().min(b.len());
    a.truncate(common);
    b.truncate(common);
    Interval::of(&a.minus(&b, Figure::Quantile(quantile)))
}

/// The scenarios of two programs that measure the same: this one, and cyclictest.
pub const PROGRAMS: [&str; 2] = ["idle-fifo", "cyclictest"];

/// Checks whether both programs measure the same: the 95 % interval of the difference of their medians lies within `limit` nanoseconds of zero. The
/// difference of p99 is a figure without a limit. O(samples · log samples).
#[must_use]
pub fn programs(results: &Results, limit: i64) -> Claim {
    let of = |name: &str| results.measured().find(|scenario| scenario.name == name);
    let both = of(PROGRAMS[0]).zip(of(PROGRAMS[1]));
    let measured = both.map(|(own, peer)| difference(own, peer, QUANTILES[0].0));
    let text = format!("the medians of `{}` and `{}` differ by at most {} us", PROGRAMS[0], PROGRAMS[1], limit / 1000);
    let within = |interval: Interval| interval.is_above(-limit - 1) && interval.is_below(limit + 1);
    Claim { text, measured, holds: measured.is_some_and(within) }
}

/// Checks the order. O(samples · log samples).
#[must_use]
pub fn order(results: &Results) -> Vec<Claim> {
    let of = |name: &str| results.measured().find(|scenario| scenario.name == name);
    let later = |first: &str, second: &str, index: usize, why: &str| {
        let (quantile, name) = QUANTILES[index];
        let measured = of(first).zip(of(second)).map(|(a, b)| difference(a, b, quantile));
        let figure = if index == 3 { "the mean of the rounds' latest samples" } else { name };
        let text = format!("{figure} of `{first}` exceeds that of `{second}`: {why}");
        Claim { text, measured, holds: measured.is_some_and(|interval| interval.is_above(0)) }
    };
    let weight = of("weight");
    // A task that mostly sleeps is seldom behind, so one wake-up in hundreds waits. Even p99.9 depends on the round.
    let tail = weight.map(|scenario| figure(scenario, Figure::Quantile(QUANTILES[3].0)));
    let mut claims = vec![
        later("stressed", "isolated", 1, "isolation helps under load"),
        later("set", "isolated", 1, "a set helps only when the load leaves it"),
        later("set", "fifo", 1, "a real-time class is worth more than a set alone"),
        later("weight", "fifo", 3, "a weight is no reservation in time"),
        Claim {
            text: format!(
                "the mean of the rounds' latest samples of `weight` is at least a slice of the scheduler, {} us",
                SLICE / 1000
            ),
            measured: tail,
            holds: tail.is_some_and(|interval| interval.is_above(SLICE - 1)),
        },
    ];
    if let Some(worst) = weight.map(|scenario| &scenario.worst).filter(|worst| !worst.is_empty()) {
        let turn = |kind: Kind| matches!(kind, Kind::Turn | Kind::Quota);
        let count = worst.iter().filter(|one| one.why.parts.first().is_some_and(|part| turn(part.kind))).count();
        claims.push(Claim {
            text: format!("the latest samples of `weight` waited for their turn: {count} of {}", worst.len()),
            measured: None,
            holds: count * 2 > worst.len(),
        });
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::rng::draw_up_to;

    fn results(scales: [i64; 7]) -> Results {
        let mut results = Results::new(String::new(), String::new(), String::new(), 0);
        for (stream, (name, scale)) in (0..).zip(ORDERED.iter().zip(scales)) {
            let mut scenario = Scenario::new(name, "");
            let round = |r: u64| (0..500).map(|i| scale * (500 + draw_up_to(500, stream, r, i) as i64)).collect();
            scenario.rounds = (0..10).map(round).collect();
            results.scenarios.push(scenario);
        }
        results
    }

    #[test]
    fn the_order_is_found_and_its_absence_too() {
        let claims = order(&results([10, 9000, 20, 4000, 30, 20, 3000]));
        assert!(claims.len() == 5 && claims.iter().all(|claim| claim.holds), "{claims:#?}");
        // The set is as good as the isolated CPU, and the weight has no tail.
        let claims = order(&results([10, 9000, 20, 30, 30, 20, 20]));
        assert_eq!(claims.iter().map(|claim| claim.holds).collect::<Vec<_>>(), [true, false, true, false, false]);
        let mut few = results([10, 9000, 20, 4000, 30, 20, 3000]);
        few.scenarios.retain(|scenario| scenario.name != "isolated");
        let claims = order(&few);
        assert!(!claims[0].holds && claims[0].measured.is_none() && claims[2].holds);
    }

    #[test]
    fn two_programs_agree_if_the_whole_interval_is_within_the_limit() {
        let of = |own: i64, spread: i64| {
            let mut results = Results::new(String::new(), String::new(), String::new(), 0);
            for (name, median, spread) in [(PROGRAMS[0], own, spread), (PROGRAMS[1], 30_000, 0)] {
                let mut scenario = Scenario::new(name, "");
                scenario.rounds = (0..10i64).map(|r| vec![median + (r % 2) * spread; 50]).collect();
                results.scenarios.push(scenario);
            }
            programs(&results, 2000)
        };
        assert!(of(31_000, 0).holds && of(29_000, 500).holds);
        assert!(!of(32_500, 0).holds && !of(27_500, 0).holds);
        // The median is within the limit, and its interval is not.
        let wide = of(29_000, 4000);
        assert!(!wide.holds && wide.measured.is_some(), "{wide:?}");
        let mut none = results([10; 7]);
        none.scenarios.truncate(1);
        assert!(!programs(&none, 2000).holds);
    }

    /// A disturbance that two scenarios share in each round does not widen the interval of their difference.
    #[test]
    fn a_common_disturbance_cancels() {
        let scenario = |shift: i64| {
            let mut scenario = Scenario::new("x", "");
            scenario.rounds = (0..10i64).map(|r| vec![r * 1000 + shift; 50]).collect();
            scenario
        };
        let found = difference(&scenario(7), &scenario(0), QUANTILES[0].0);
        assert_eq!((found.value, found.ends), (7, Some((7, 7))));
    }
}
