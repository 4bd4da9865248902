//! Means over the runs as CSV, JSON and curves; the runs themselves as CSV.

use super::super::curves::{Dot, Panel, Picture};
use super::super::points::ratio;
use super::super::singles::quoted;
use super::super::statistics::Mean;
use super::cases::Cases;
use super::runs::{MEASURES, MIGRATIONS, Runs, WITH_INTERVALS};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write as _};

/// The runs of each load, by policy.
pub(super) struct Table<'a> {
    cases: &'a Cases<'a>,
    names: Vec<String>,
    /// By load.
    runs: Vec<Runs>,
    /// The number of runs of each load.
    counts: Vec<u64>,
    /// Notes about policies, for standard error, JSON and the picture.
    pub(super) remarks: Vec<String>,
}

impl<'a> Table<'a> {
    pub(super) fn new(cases: &'a Cases<'a>, points: Vec<(u64, Runs)>) -> Table<'a> {
        let names = cases.names();
        let (counts, runs): (Vec<u64>, Vec<Runs>) = points.into_iter().unzip();
        let fallbacks = |policy: usize| runs.iter().map(|of_load| of_load.0[policy].fallbacks).sum();
        let fallbacks: Vec<u64> = (0..names.len()).map(fallbacks).collect();
        let remarks = cases.remarks(&fallbacks, counts.iter().sum());
        Table { cases, names, runs, counts, remarks }
    }

    /// The fewest and the most runs of a load.
    fn least_and_most(&self) -> (u64, u64) {
        let counts = || self.counts.iter().copied();
        (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
    }

    /// How many runs the means are of: those in which a job was counted.
    fn counted(&self, load: usize, policy: usize) -> u64 {
        self.runs[load].0[policy].counted
    }

    /// The mean of a column.
    fn mean(&self, load: usize, policy: usize, column: usize) -> Option<Mean> {
        MEASURES[column].mean(&self.runs[load].0[policy].sums[column])
    }

    /// The mean difference from the policy that is compared with: each run with the run of the same jobs.
    fn gain(&self, load: usize, policy: usize, column: usize) -> Option<Mean> {
        MEASURES[column].mean(&self.runs[load].0[policy].gains[column])
    }

    /// The columns, each with whether its interval stands beside it.
    fn columns(&self) -> Vec<(usize, bool)> {
        match &self.cases.args.columns {
            Some(chosen) => chosen.0.iter().map(|column| (*column, true)).collect(),
            None => (0..MEASURES.len()).map(|column| (column, column < WITH_INTERVALS)).collect(),
        }
    }

    /// The columns of which `--against` shows differences.
    fn gains(&self) -> Vec<usize> {
        let columns = self.columns().into_iter().filter(|(_, interval)| *interval && self.cases.against.is_some());
        columns.map(|(column, _)| column).collect()
    }

    pub(super) fn print(&self, as_json: bool, setup: Value) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        if as_json {
            let points: Vec<Value> = (0..self.runs.len()).map(|load| self.point(load)).collect();
            let runs = runs_of(self.least_and_most(), self.counts.iter().copied());
            writeln!(out, "{}", json!({"setup": setup, "runs": runs, "notes": self.remarks, "points": points}))?;
        } else {
            out.write_all(self.csv().as_bytes())?;
        }
        out.flush()
    }

    fn point(&self, load: usize) -> Value {
        let number = |mean: Option<Mean>| json!({"mean": mean.map(|m| m.value), "ci95": mean.and_then(|m| m.half)});
        let policy = |policy: usize| {
            let mut object = json!({"policy": self.names[policy], "runs": self.counted(load, policy)});
            for (column, _) in self.columns() {
                object[MEASURES[column].name] = number(self.mean(load, policy, column));
            }
            for column in self.gains() {
                object[format!("{}_gain", MEASURES[column].name)] = number(self.gain(load, policy, column));
            }
            object
        };
        let factor = self.cases.args.loads.0[load];
        let policies: Vec<Value> = (0..self.names.len()).map(policy).collect();
        json!({"load": ratio(factor), "utilisation": ratio(self.cases.utilisation(factor)), "policies": policies})
    }

    fn csv(&self) -> String {
        let mut text = "load,utilisation,policy,runs".to_owned();
        let with_interval = |name: String| format!(",{name},{name}_ci95");
        for (column, interval) in self.columns() {
            let name = MEASURES[column].name;
            text += &if interval { with_interval(name.into()) } else { format!(",{name}") };
        }
        for column in self.gains() {
            text += &with_interval(format!("{}_gain", MEASURES[column].name));
        }
        text.push('\n');
        for (load, factor) in self.cases.args.loads.0.iter().enumerate() {
            let utilisation = ratio(self.cases.utilisation(*factor));
            for (policy, name) in self.names.iter().enumerate() {
                let counted = self.counted(load, policy).to_string();
                let mut row = vec![ratio(*factor), utilisation.clone(), quoted(name), counted];
                for (column, interval) in self.columns() {
                    match self.mean(load, policy, column) {
                        mean if interval => row.extend(cells(mean)),
                        Some(Mean { value, .. }) if MEASURES[column].ratio => row.push(format!("{value:.4}")),
                        Some(Mean { value, .. }) => row.push(format!("{value:.1}")),
                        None => row.push(String::new()),
                    }
                }
                for column in self.gains() {
                    row.extend(cells(self.gain(load, policy, column)));
                }
                text.push_str(&row.join(","));
                text.push('\n');
            }
        }
        text
    }

    /// Draws the chosen columns over the load; by default deadlines met, utility accrued and migrations.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn draw(&self, setup: &Value) -> Result<(), Failure> {
        let args = self.cases.args;
        let lines = |column: usize| {
            let dot = |load, policy| {
                let mean = self.mean(load, policy, column)?;
                Some(Dot::around(millionths(mean.value), millionths(mean.half.unwrap_or(0.0))))
            };
            let dots = |policy| (0..self.runs.len()).map(|load| dot(load, policy)).collect::<Vec<Option<Dot>>>();
            self.names.iter().enumerate().map(|(p, name)| (name.clone(), dots(p))).collect::<Vec<_>>()
        };
        let panel = |column: usize| {
            let (measure, lines) = (&MEASURES[column], lines(column));
            let most = lines.iter().flat_map(|(_, dots)| dots).flatten().map(|d| d.top()).max().unwrap_or(0);
            let top = if measure.ratio { 1_000_000 } else { round_up(most) };
            Panel { title: measure.title.into(), unit: measure.unit.into(), top, lines }
        };
        // On one CPU no job migrates.
        let by_default = [0, 1, MIGRATIONS].into_iter().filter(|column| *column != MIGRATIONS || self.cases.cpus > 1);
        let columns: Vec<usize> = args.columns.as_ref().map_or_else(|| by_default.collect(), |chosen| chosen.0.clone());
        let panels: Vec<Panel> = columns.iter().map(|column| panel(*column)).collect();
        let across = if args.file.is_some() { "load (factor on runtimes)" } else { "load (total utilisation in CPUs)" };
        let (least, most) = self.least_and_most();
        let runs = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        let note = [&[self.cases.caption(&runs)], &self.remarks[..]].concat().join("\n");
        let bars = "bars: 95 % confidence intervals of the means";
        let title = args.common.title.as_deref().unwrap_or("Policies as the load rises");
        let (points, size) = (&args.loads.0, args.common.size);
        let picture = Picture { title, note: &note, bars, across, points, panels: &panels, whole: false, size };
        let text = |panel: usize, policy, load| {
            let mean = self.mean(load, policy, columns[panel]);
            described(mean, self.counted(load, policy)).unwrap_or_else(|| "unknown".into())
        };
        args.common.draw(&picture, setup, &text)
    }
}

/// The number of runs at each point, in JSON: one number if it is the same everywhere.
pub(in super::super) fn runs_of((least, most): (u64, u64), counts: impl Iterator<Item = u64>) -> Value {
    if least == most { json!(most) } else { counts.map(|count| json!(count)).collect() }
}

pub(in super::super) fn millionths(value: f64) -> u64 {
    (value * 1e6).round().max(0.0) as u64
}

/// The next of 5, 10, 20, 50, 100 …, in millionths: the fifths of those are round.
fn round_up(most: u64) -> u64 {
    let powers = (6..19).map(|digits| 10_u64.pow(digits));
    powers.flat_map(|power| [5, 10, 20].map(|n| power.saturating_mul(n))).find(|end| *end >= most).unwrap_or(most)
}

pub(in super::super) fn cells(mean: Option<Mean>) -> [String; 2] {
    let text = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.4}"));
    [text(mean.map(|m| m.value)), text(mean.and_then(|m| m.half))]
}

/// A mean with its interval and the number of runs, as text.
pub(in super::super) fn described(mean: Option<Mean>, runs: u64) -> Option<String> {
    let [value, half] = cells(Some(mean?));
    let interval = if half.is_empty() { half } else { format!(" ± {half}") };
    Some(format!("{value}{interval}, {runs} run{}", if runs == 1 { "" } else { "s" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [0, 5, 6, 20, 21, 99, 101, 1_001].map(|n| round_up(n * 1_000_000) / 1_000_000);
        assert_eq!(ends, [5, 5, 10, 20, 50, 100, 200, 2_000]);
        assert!(round_up(u64::MAX) == u64::MAX);
    }
}
