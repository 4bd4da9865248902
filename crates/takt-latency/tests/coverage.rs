//! Measured coverage: how many of the 95 % intervals have the true figure, for samples of known distributions. `UPDATE=1` writes the table of docs/latency.md.

use std::fmt::Write;
use takt_core::rng::draw_up_to;
use takt_latency::{Figure, Figures, QUANTILES, Results, Scenario, change, figure, ranked};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/latency.md");
const HEAD: &str = "| lateness | rounds | mean | p50 | p99 | p99.9 | gain of p99 | difference of p99 |\n|---|---|---|---|---|---|---|---|\n";

/// Experiments with so many rounds of so many samples, and how many of them are drawn.
const SIZES: [(u64, u64, u64); 4] = [(3, 200, 400), (5, 200, 400), (10, 500, 150), (5, 5000, 50)];

#[derive(Clone, Copy)]
struct Lateness {
    name: &'static str,
    /// From a number above 0 and at most 1, in nanoseconds.
    of: fn(f64) -> f64,
    /// Each round is later by its own draw.
    differs: bool,
}

const LATENESS: [Lateness; 4] = [
    Lateness { name: "exponential", of: exponential, differs: false },
    Lateness { name: "exponential, rounds differ", of: exponential, differs: true },
    Lateness { name: "long tail", of: long_tail, differs: false },
    Lateness { name: "long tail, rounds differ", of: long_tail, differs: true },
];

fn exponential(u: f64) -> f64 {
    -10_000.0 * u.ln()
}

/// Pareto's distribution, whose variance is finite.
fn long_tail(u: f64) -> f64 {
    10_000.0 * u.powf(-1.0 / 4.0)
}

fn number(stream: u64, index: u64) -> f64 {
    (draw_up_to(999_999_999, 20_261_130, stream, index) + 1) as f64 / 1e9
}

impl Lateness {
    fn round(&self, stream: u64, samples: u64) -> Vec<i64> {
        let shift = if self.differs { 5_000.0 * number(stream, u64::MAX) } else { 0.0 };
        (0..samples).map(|index| ((self.of)(number(stream, index)) + shift) as i64).collect()
    }

    fn scenario(&self, stream: u64, rounds: u64, samples: u64) -> Scenario {
        let mut scenario = Scenario::new("s", "");
        scenario.rounds = (0..rounds).map(|round| self.round(stream * 1000 + round, samples)).collect();
        scenario
    }

    /// Mean, p50, p99 and p99.9 of very many rounds.
    fn truth(&self) -> (i64, [i64; 3]) {
        let mut all: Vec<i64> = (0..50_000).flat_map(|round| self.round(1 << 40 | round, 20)).collect();
        all.sort_unstable();
        let mean = all.iter().sum::<i64>() / all.len() as i64;
        (mean, [0, 1, 2].map(|index| all[all.len() * QUANTILES[index].0.0 as usize / 100_000]))
    }
}

fn experiment(scenarios: Vec<Scenario>) -> Results {
    let mut results = Results::new(String::new(), String::new(), String::new(), 0);
    results.scenarios = scenarios;
    results
}

#[test]
fn intervals_have_the_true_figure_as_often_as_they_say() {
    let p99 = Figure::Quantile(QUANTILES[1].0);
    let (mut rows, mut columns) = (String::new(), [(0u32, 0u32); 6]);
    for lateness in LATENESS {
        let (mean, quantiles) = lateness.truth();
        for (rounds, samples, draws) in SIZES {
            let mut found = [(0u32, 0u32); 6];
            for draw in 0..draws {
                let [a, b] = [2 * draw, 2 * draw + 1].map(|stream| lateness.scenario(stream, rounds, samples));
                let mut count = |column: usize, ends: Option<(i64, i64)>, truth: i64| {
                    let Some((low, high)) = ends else { return };
                    found[column].0 += u32::from((low..=high).contains(&truth));
                    found[column].1 += 1;
                };
                count(0, figure(&a, Figure::Mean).ends, mean);
                let figures = Figures::of(&a, 0);
                (0..3).for_each(|index| count(1 + index, figures.quantiles[index].ends, quantiles[index]));
                let other = Scenario { name: "other".into(), ..b };
                let gains = ranked(&experiment(vec![a.clone(), other.clone()]), p99);
                count(4, gains[0].gain.ends, 0);
                count(5, change(&a, &other, QUANTILES[1].0).ends, 0);
            }
            let cell = |(within, all): (u32, u32)| match all {
                0 => "–".to_owned(),
                _ => format!("{:.0} %", f64::from(within) * 100.0 / f64::from(all)),
            };
            let cells = found.map(cell).join(" | ");
            writeln!(rows, "| {} | {rounds} of {samples} samples | {cells} |", lateness.name).unwrap();
            for (sum, (within, all)) in columns.iter_mut().zip(found) {
                // The spread of a share of 95 % by chance is four of its standard deviations.
                let chance = 400.0 * (0.95 * 0.05 / f64::from(all.max(1))).sqrt();
                let share = f64::from(within) * 100.0 / f64::from(all.max(1));
                assert!(
                    all == 0 || (share - 95.0).abs() < 2.0 + chance,
                    "{} {rounds} {samples}: {found:?}",
                    lateness.name
                );
                *sum = (sum.0 + within, sum.1 + all);
            }
        }
    }
    for (within, all) in columns {
        let share = f64::from(within) * 100.0 / f64::from(all);
        assert!((93.0..=97.5).contains(&share), "{columns:?}");
    }

    takt_testing::table(DOCUMENT, HEAD, &rows);
}
