//! The results of the trials, as a table, JSON or CSV. No figure stands without its settings.

use super::line::{Disturbance, Line};
use super::series::{Experiment, Set};
use super::steady::{LENGTH, SHARES, Steady};
use super::trial::{Findings, Machine};
use crate::commands::policies::decimal;
use serde_json::{Value, json};
use std::io::{self, Write};
use takt::report::{Cell, table};
use takt_core::model::PolicySpec;
use takt_core::time::Span;
use takt_workload::policy_text;

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Table,
    Json,
    Csv,
}

/// Everything that was asked and found.
pub(super) struct Results<'a> {
    pub(super) set: &'a Set,
    pub(super) extended: bool,
    pub(super) tests: Vec<Experiment>,
    pub(super) lines: Vec<Line>,
    pub(super) phases: Vec<Option<u32>>,
    pub(super) machine: Machine,
    pub(super) disturbed: &'a [Disturbance],
    /// By line, test and phase.
    pub(super) trials: Vec<Findings>,
    pub(super) steady: Vec<(PolicySpec, Steady)>,
}

/// Mean, least and most over the phases.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spread {
    /// In thousandths.
    mean: u64,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Spread {
    fn of(values: impl Iterator<Item = u64> + Clone) -> Spread {
        let (sum, count) = values.clone().fold((0, 0), |(s, n), v| (s + v, n + 1));
        Spread {
            mean: (sum * 1000 + count / 2) / count.max(1),
            least: values.clone().min().unwrap_or(0),
            most: values.max().unwrap_or(0),
        }
    }
    pub(super) fn mean(&self) -> f64 {
        self.mean as f64 / 1000.0
    }
    /// `14`, or the mean to one decimal and the range.
    pub(super) fn text(&self) -> String {
        let tenths = (self.mean + 50) / 100;
        match self.least == self.most {
            true => self.least.to_string(),
            false => format!("{}.{} [{}-{}]", tenths / 10, tenths % 10, self.least, self.most),
        }
    }
    fn json(&self) -> Value {
        json!({"mean": self.mean(), "min": self.least, "max": self.most})
    }
}

impl Results<'_> {
    /// The trials of a line in a test, one for each phase.
    fn of(&self, line: usize, test: usize) -> &[Findings] {
        let first = (line * self.tests.len() + test) * self.phases.len();
        &self.trials[first..first + self.phases.len()]
    }
    fn spread(&self, line: usize, test: usize, value: impl Fn(&Findings) -> u64) -> Spread {
        Spread::of(self.of(line, test).iter().map(value).collect::<Vec<_>>().into_iter())
    }
    /// The figure of the test: the iteration of the first miss, or the misses.
    pub(super) fn score(&self, line: usize, test: usize) -> Spread {
        let longest = self.set.iterations(self.tests[test], self.machine.timing.tick) as u64;
        // Without a miss it lasted for longer than any that was simulated.
        self.spread(line, test, |f| match self.extended {
            true => f.misses.iter().sum(),
            false => f.iteration.map_or(longest + 1, |k| k as u64),
        })
    }
    pub(super) fn switches(&self, line: usize, test: usize) -> Spread {
        self.spread(line, test, |f| f.switches)
    }
    pub(super) fn names(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.name(self.extended)).collect()
    }
    pub(super) fn what(&self) -> &'static str {
        if self.extended { "deadline misses in 120 s" } else { "iteration of the first miss" }
    }

    fn clock(&self) -> String {
        let timing = &self.machine.timing;
        if timing.tick == Span::ZERO {
            return "tickless".into();
        }
        format!("tick of {}, ends of bursts at multiples of {}", timing.tick, timing.resolution)
    }
    fn phases(&self) -> String {
        match self.phases.as_slice() {
            [None] => "synchronous".into(),
            phases => format!("{} random", phases.len()),
        }
    }
    fn disturbance(&self) -> String {
        let text = |d: &Disturbance| match d {
            Disturbance::Lateness(most) => format!("lateness={most}"),
            Disturbance::Skew(by) => format!("skew={by}"),
            Disturbance::Steal(steal) => format!("steal={}/{}", steal.length, steal.period),
        };
        match self.disturbed {
            [] => "none".into(),
            list => list.iter().map(text).collect::<Vec<_>>().join(" "),
        }
    }

    /// All that figures depend on, in lines of bounded length.
    pub(super) fn head(&self) -> Vec<String> {
        let defaults = self.defaults().into_iter().map(|(name, text)| format!("{name} by default: {text}"));
        self.settings().into_iter().chain(defaults).flat_map(|text| wrapped(&text)).collect()
    }

    /// The settings that all figures share.
    fn settings(&self) -> Vec<String> {
        let costs = &self.machine.costs;
        let form = if self.extended { "extended: 30 s quiet, 15 s of too much, 75 s quiet" } else { "PH series" };
        let mut lines = vec![
            format!("{form}, after 2 s of warm-up; set {}; virtual time, one CPU", self.set.name),
            format!("clock: {}; phases: {}; seed {}", self.clock(), self.phases(), self.machine.seed),
            format!(
                "costs: context switch {}, call of the scheduler {} and {} for each task that it looks at, migration {}{}",
                costs.context_switch,
                costs.scheduler,
                costs.scheduler_task,
                costs.migration,
                if self.machine.metered { "; no consumption of jobs" } else { "" }
            ),
            format!("disturbance: {}", self.disturbance()),
        ];
        if self.lines.iter().any(|line| self.theta(line) == Some("set")) {
            let importances = |test: &Experiment| {
                let tasks = if *test == Experiment::Tasks { self.set.len() + 2 } else { self.set.len() };
                let list = self.set.importances(*test, tasks).iter().map(u32::to_string).collect::<Vec<_>>();
                format!("test {}: {}", test.number(), list.join(" "))
            };
            let all: Vec<String> = self.tests.iter().map(importances).collect();
            lines.push(format!("theta=set, by task: {}; further copies: 1", all.join("; ")));
        }
        lines
    }

    /// The default settings of the policies, for each policy that has some.
    fn defaults(&self) -> Vec<(&'static str, String)> {
        let mut seen: Vec<(&'static str, String)> = Vec::new();
        for entry in self.lines.iter().map(|line| line.policy.profile) {
            let defaults: Vec<String> = entry.settings.iter().map(|s| format!("{}={}", s.name, s.default)).collect();
            if !defaults.is_empty() && !seen.iter().any(|(name, _)| *name == entry.name) {
                seen.push((entry.name, defaults.join(", ")));
            }
        }
        seen
    }

    pub(super) fn print(&self, format: Format, out: &mut impl Write) -> io::Result<()> {
        match format {
            Format::Table => self.table(out),
            Format::Json => writeln!(out, "{}", self.json()),
            Format::Csv => self.csv(out),
        }
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "hartstone: {}", self.what())?;
        self.head().iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out)?;
        let mut heading = vec!["policy".to_string()];
        for test in &self.tests {
            heading.extend([format!("test {}", test.number()), "switches/s".into()]);
        }
        let row = |line: usize, name: &String| {
            let cells = (0..self.tests.len()).flat_map(|test| {
                let score = self.score(line, test);
                let never = !self.extended && self.of(line, test).iter().any(|f| f.iteration.is_none());
                [
                    if never { format!(">{}", score.least - 1) } else { score.text() },
                    format!("{:.0}", self.switches(line, test).mean()),
                ]
            });
            std::iter::once(name.clone()).chain(cells).collect()
        };
        let names = self.names();
        let mut rows = vec![heading];
        rows.extend(names.iter().enumerate().map(|(line, name)| row(line, name)));
        table(out, &rows)?;
        let trials =
            || (0..self.lines.len()).flat_map(|line| (0..self.tests.len()).flat_map(move |test| self.of(line, test)));
        if !self.extended && trials().any(|f| f.iteration == Some(0)) {
            writeln!(out, "0: missed in the baseline already, before any growth; see docs/hartstone.md")?;
        }
        for (test, experiment) in self.tests.iter().enumerate() {
            let until = if self.extended { "" } else { " until the end of that iteration" };
            let mean = if self.phases.len() > 1 { ", means over the phases" } else { "" };
            writeln!(out, "\ntest {}: misses by task{until}{mean}", experiment.number())?;
            table(out, &self.by_task(test, &names))?;
        }
        if !self.steady.is_empty() {
            writeln!(
                out,
                "\nthree tasks that always want to run, for shares of 0.5, 0.3 and 0.2, disturbed likewise; the second half of {LENGTH}"
            )?;
            table(out, &self.steady_rows())?;
        }
        Ok(())
    }

    /// Misses by task; copies in one column.
    fn by_task(&self, test: usize, names: &[String]) -> Vec<Vec<String>> {
        let own = self.set.len();
        let copies = self.of(0, test).iter().any(|f| f.misses.len() > own);
        let mut heading = vec!["policy".to_string()];
        heading.extend((0..own).map(|i| self.set.task_name(i)));
        heading.extend(copies.then(|| "copies".into()));
        heading.extend(["before", "overload", "after"].iter().filter(|_| self.extended).map(|s| (*s).into()));
        let mut rows = vec![heading];
        for (line, name) in names.iter().enumerate() {
            let mean = |value: &dyn Fn(&Findings) -> u64| {
                let all: Vec<u64> = self.of(line, test).iter().map(value).collect();
                let sum: u64 = all.iter().sum();
                ((sum + all.len() as u64 / 2) / all.len() as u64).to_string()
            };
            let mut row = vec![name.clone()];
            row.extend((0..own).map(|i| mean(&|f| f.misses[i])));
            row.extend(copies.then(|| mean(&|f| f.misses[own..].iter().sum())));
            row.extend((0..3).filter(|_| self.extended).map(|part| mean(&|f| f.parts[part])));
            rows.push(row);
        }
        rows
    }

    fn steady_rows(&self) -> Vec<Vec<Cell>> {
        let heading = ["policy", "round: set point", "mean", "off by", "shares received", "largest error"];
        let mut rows = vec![heading.map(Cell::from).to_vec()];
        for (policy, found) in &self.steady {
            let received = found.received.iter().map(|s| decimal(i64::from(*s))).collect::<Vec<_>>().join(" ");
            rows.push(vec![
                policy_text(policy).into(),
                Cell::Exact(found.set_point),
                Cell::Measured(found.measured),
                format!("{} %", decimal(hundredths(found.round_error() * 100))).into(),
                received.into(),
                decimal(i64::from(found.share_error())).into(),
            ]);
        }
        rows
    }

    fn json(&self) -> Value {
        let (timing, costs) = (&self.machine.timing, &self.machine.costs);
        let defaults = self.defaults().into_iter().map(|(name, text)| (name.to_string(), Value::from(text)));
        let mut results = Vec::new();
        for (n, line) in self.lines.iter().enumerate() {
            for (t, test) in self.tests.iter().enumerate() {
                let trials = self.of(n, t);
                let by_task: Vec<Value> = trials.iter().map(|f| json!(f.misses)).collect();
                results.push(json!({
                    "policy": policy_text(&line.policy), "theta": self.theta(line), "test": test.number(),
                    "first_miss": (!self.extended).then(|| self.score(n, t).json()),
                    "iterations": (!self.extended).then(|| trials.iter().map(|f| f.iteration).collect::<Vec<_>>()),
                    "misses": self.extended.then(|| self.score(n, t).json()),
                    "misses_before_overload_after":
                        self.extended.then(|| trials.iter().map(|f| f.parts).collect::<Vec<_>>()),
                    "context_switches_per_s": self.switches(n, t).json(), "misses_by_task": by_task,
                }));
            }
        }
        let steady = self.steady.iter().map(|(policy, found)| {
            json!({"policy": policy_text(policy), "set_point_ns": found.set_point.ns(), "round_ns": found.measured.ns(),
                   "round_error_millionths": found.round_error(), "wanted_millionths": SHARES,
                   "received_millionths": found.received, "share_error_millionths": found.share_error()})
        });
        json!({
            "bench": "hartstone", "form": if self.extended { "extended" } else { "series" }, "set": self.set.name,
            "clock": {"tick_ns": timing.tick.ns(), "resolution_ns": timing.resolution.ns()},
            "phases": self.phases.iter().flatten().count(), "seed": self.machine.seed,
            "costs": {"context_switch_ns": costs.context_switch.ns(), "migration_ns": costs.migration.ns(),
                      "scheduler_ns": costs.scheduler.ns(), "scheduler_task_ns": costs.scheduler_task.ns(),
                      "consumed": !self.machine.metered},
            "disturbance": self.disturbance(), "defaults": Value::Object(defaults.collect()), "results": results,
            "steady": steady.collect::<Vec<_>>(),
        })
    }

    /// The form of importances in the output; nothing where they do not matter.
    fn theta(&self, line: &Line) -> Option<&'static str> {
        (self.extended && line.by_importance).then_some(if line.weighted { "set" } else { "1" })
    }

    fn csv(&self, out: &mut impl Write) -> io::Result<()> {
        let (timing, costs) = (&self.machine.timing, &self.machine.costs);
        writeln!(
            out,
            "form,set,tick_ns,resolution_ns,phase,seed,context_switch_ns,migration_ns,scheduler_ns,scheduler_task_ns,\
             disturbance,policy,defaults,theta,test,first_miss,misses,misses_before,misses_overload,misses_after,\
             context_switches_per_s,misses_by_task"
        )?;
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let defaults = self.defaults();
        for (n, line) in self.lines.iter().enumerate() {
            let policy = policy_text(&line.policy);
            let defaults =
                defaults.iter().find(|(name, _)| *name == line.policy.profile.name).map_or("", |(_, text)| text);
            for (t, test) in self.tests.iter().enumerate() {
                for (phase, found) in self.phases.iter().zip(self.of(n, t)) {
                    let list = found.misses.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
                    let cells = [
                        if self.extended { "extended" } else { "series" }.to_string(),
                        quoted(&self.set.name),
                        timing.tick.ns().to_string(),
                        timing.resolution.ns().to_string(),
                        phase.map_or("sync".into(), |p| p.to_string()),
                        self.machine.seed.to_string(),
                        costs.context_switch.ns().to_string(),
                        costs.migration.ns().to_string(),
                        costs.scheduler.ns().to_string(),
                        costs.scheduler_task.ns().to_string(),
                        self.disturbance(),
                        quoted(&policy),
                        quoted(defaults),
                        self.theta(line).unwrap_or("").to_string(),
                        test.number().to_string(),
                        found.iteration.map_or(String::new(), |k| k.to_string()),
                        found.misses.iter().sum::<u64>().to_string(),
                        found.parts[0].to_string(),
                        found.parts[1].to_string(),
                        found.parts[2].to_string(),
                        found.switches.to_string(),
                        list,
                    ];
                    writeln!(out, "{}", cells.join(","))?;
                }
            }
        }
        Ok(())
    }
}

/// Breaks a text between words; what continues a line is indented.
fn wrapped(text: &str) -> Vec<String> {
    const WIDTH: usize = 120;
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        match last.chars().count() + 1 + word.chars().count() {
            _ if last.trim().is_empty() => last.push_str(word),
            0..=WIDTH => *last = format!("{last} {word}"),
            _ => lines.push(format!("  {word}")),
        }
    }
    lines
}

/// Millionths rounded to hundredths.
fn hundredths(millionths: i64) -> i64 {
    (millionths + 5_000 * millionths.signum()) / 10_000 * 10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_a_number_or_a_mean_with_its_range() {
        assert_eq!(Spread::of([14, 14].into_iter()).text(), "14");
        assert_eq!(Spread::of([14, 15, 15].into_iter()).text(), "14.7 [14-15]");
        let long = wrapped(&"word ".repeat(40));
        assert!(long.len() == 2 && long.iter().all(|l| l.len() <= 120) && long[1].starts_with("  word word"));
        assert_eq!([-1_234_567, 1_234_567, 4_999].map(hundredths), [-1_230_000, 1_230_000, 0]);
    }
}
