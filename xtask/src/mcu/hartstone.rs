//! Hartstone on a board: its workloads, and the iterations of the first miss beside those of `takt bench hartstone`. The extended form, a transient
//! overload, is compared by the misses of each task.

use super::behaviour::own;
use super::bench::Bench;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// The iterations of each test that are carried out. The load is infeasible before the last one.
const ITERATIONS: [u64; 4] = [32, 18, 11, 10];
/// The tests in the extended form, each with the importances of the tasks (Terraneo, "Control based design of OS components", Politecnico di
/// Milano, 2011).
const EXTENDED: [(usize, [u32; TASKS]); 2] = [(1, [1, 1, 1, 1, 125]), (3, [10, 10, 10, 10, 1])];
/// The seconds at which the quiet load, the overload, and the quiet load again begin, and the end.
const STAGES: [u64; 4] = [2, 32, 47, 122];
const TASKS: usize = 5;
/// A policy whose steps the simulator cannot charge, and the least iterations of its first misses. It counts threads, so that the
/// benchmark's own one is among the tasks.
pub(super) struct Regulator {
    policy: String,
    least: Vec<u64>,
}

impl Regulator {
    /// Reads `policy` and `least` of an entry.
    pub(super) fn new(entry: &Value) -> Result<Regulator> {
        let policy = entry["policy"].as_str().context("a regulator without `policy`")?.to_owned();
        let least: Vec<u64> = entry["least"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        ensure!(least.len() == ITERATIONS.len(), "`least` of {policy} has a number for each test");
        Ok(Regulator { policy, least })
    }
}

/// The period of a task in the baseline, in nanoseconds.
fn baseline_period(task: u64) -> u64 {
    500_000_000 >> task
}

/// The execution time of a task in the baseline, in microseconds.
fn baseline_runtime(task: u64) -> u64 {
    40_000 >> task
}

/// The workload of an extended test. It has the loads of `takt bench hartstone --extended`.
fn extended_workload(test: usize, policy: &str, counts_threads: bool, importances: [u32; TASKS]) -> String {
    let mut text = format!("policy: \"{policy}\"\npreset: hartstone\nduration: {}s\ntasks:\n", STAGES[3]);
    // Writing to a string cannot fail.
    for (task, importance) in (0..).zip(importances) {
        let (period, runtime) = (baseline_period(task), baseline_runtime(task));
        let importance = if counts_threads { format!(", importance: {importance}") } else { String::new() };
        let _ = writeln!(text, "  - {{name: t{task}, period: {period}ns, runtime: {runtime}us{importance}}}");
    }
    if counts_threads {
        // The benchmark's own thread has no jobs.
        text.push_str("  - {name: main, releases: never, share: 5%}\n");
    }
    text.push_str("changes:\n");
    for (at, overload) in STAGES.into_iter().zip([false, true, false]) {
        if test == 1 {
            // The fastest task has 64 Hz, and 333 Hz in the overload.
            let period = if overload { 3_003_003 } else { baseline_period(4) / 2 };
            let _ = writeln!(text, "  - {{at: {at}s, task: t4, period: {period}ns}}");
            continue;
        }
        // One kilo-Whetstone more, and eleven in the overload.
        let more = 1_250 * if overload { 11 } else { 1 };
        for task in 0..TASKS as u64 {
            let runtime = baseline_runtime(task) + more;
            let _ = writeln!(text, "  - {{at: {at}s, task: t{task}, runtime: {runtime}us}}");
        }
    }
    text
}

/// The workload of a test: five periodic tasks, and changes that let their load grow (`crates/takt-cli/src/commands/bench/hartstone`).
fn workload(test: usize, policy: &str, counts_threads: bool) -> String {
    let iterations = ITERATIONS[test - 1];
    let mut text = format!("policy: \"{policy}\"\npreset: hartstone\nduration: {}s\ntasks:\n", iterations + 2);
    // Writing to a string cannot fail.
    let mut line = |indent: &str, fields: String| {
        let _ = writeln!(text, "{indent}- {{{fields}}}");
    };
    let period = baseline_period;
    for task in 0..5 {
        line("  ", format!("name: t{task}, period: {}ns, runtime: {}us", period(task), baseline_runtime(task)));
    }
    let copies = if test == 4 { iterations } else { 0 };
    for copy in 0..copies {
        line("  ", format!("name: c{copy}, period: {}ns, runtime: 10ms", period(2)));
    }
    // The benchmark's own thread has no jobs.
    if counts_threads {
        line("  ", "name: main, releases: never, share: 5%".into());
    }
    text.push_str("changes:\n");
    let mut line = |fields: String| {
        let _ = writeln!(text, "  - {{{fields}}}");
    };
    for copy in 0..copies {
        line(format!("at: 0s, task: c{copy}, leave: yes"));
    }
    for iteration in 1..=iterations {
        let at = format!("at: {}s", iteration + 1);
        match test {
            1 => line(format!("{at}, task: t4, period: {}ns", period(4) * 4 / (4 + iteration))),
            2 => {
                (0..5).for_each(|t| line(format!("{at}, task: t{t}, period: {}ns", period(t) * 10 / (10 + iteration))))
            }
            3 => (0..5).for_each(|t| {
                let runtime = baseline_runtime(t) + 1250 * iteration;
                line(format!("{at}, task: t{t}, runtime: {runtime}us"));
            }),
            _ => line(format!("{at}, task: c{}, enter: yes", iteration - 1)),
        }
    }
    text
}

impl Bench {
    /// The iteration of the first miss on the board, or `None` without one.
    fn first_miss(&self, test: usize, policy: &str, counts_threads: bool) -> Result<Option<u64>> {
        let name = policy.split(':').next().unwrap_or(policy);
        let file = self.images.join(format!("hartstone-{test}-{name}.yaml"));
        fs::write(&file, workload(test, policy, counts_threads))?;
        let path = file.to_string_lossy();
        let image = self.build("hartstone", "s", &[("TAKT_WORKLOAD", &path)])?;
        let summary = self.emulate(&image, &file, None, &["--timeout", "4min"])?;
        Ok(own(&summary, 0).checked_sub(1))
    }

    /// The same in the simulator, with the costs of the board.
    fn simulated(&self, policy: &str, [scheduler, switch]: &[String; 2]) -> Result<[Option<u64>; 4]> {
        let costs =
            ["--clock", "tickless", "--scheduler", scheduler, "--context-switch", switch, "--scheduler-task", "0us"];
        let mut command = Command::new(&self.takt);
        command.args(["bench", "hartstone", "--json", "--policy", policy]).args(costs);
        let output = command.output()?;
        ensure!(output.status.success(), "takt bench hartstone: {}", String::from_utf8_lossy(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).context("takt bench hartstone --json")?;
        let trials = found["results"].as_array().context("no results")?;
        let of = |test: usize| {
            let trial = trials.iter().find(|trial| trial["test"] == test && trial["policy"] == policy);
            trial.and_then(|trial| trial["iterations"][0].as_u64())
        };
        Ok([1, 2, 3, 4].map(of))
    }

    /// Tests 1 to 4. Policies of the simulator are within one iteration of it, and the regulator has the least iterations at least.
    pub(super) fn hartstone(&self, policies: &[String], regulators: &[Regulator]) -> Result<()> {
        let costs = self.quiet_costs()?;
        for policy in policies {
            let simulated = self.simulated(policy, &costs)?;
            for test in 1..=4 {
                let (board, expected) = (self.first_miss(test, policy, false)?, simulated[test - 1]);
                println!("hartstone {test}, {policy}: first miss in iteration {board:?}, simulated {expected:?}");
                let (board, expected) = (board.unwrap_or(u64::MAX), expected.unwrap_or(u64::MAX));
                ensure!(board > 0, "hartstone {test}, {policy}: a miss in the baseline");
                ensure!(board.abs_diff(expected) <= 1, "hartstone {test}, {policy}: {board}, simulated {expected}");
            }
        }
        for Regulator { policy, least } in regulators {
            for (test, least) in (1..).zip(least) {
                let board = self.first_miss(test, policy, true)?.unwrap_or(u64::MAX);
                println!("hartstone {test}, {policy}: first miss in iteration {board}, at least {least}");
                ensure!(board >= *least, "hartstone {test}, {policy}: {board}, and not {least}");
            }
        }
        Ok(())
    }

    /// The extended tests under EDF and I+PI: misses by task on the board, and in the simulator with the costs of the same run.
    pub(super) fn extended_hartstone(&self) -> Result<()> {
        for (test, importances) in EXTENDED {
            for (policy, counts_threads) in [("edf", false), ("ipi", true)] {
                let file = self.images.join(format!("hartstone-extended-{test}-{policy}.yaml"));
                fs::write(&file, extended_workload(test, policy, counts_threads, importances))?;
                let image = self.build("hartstone", "s", &[("TAKT_WORKLOAD", &file.to_string_lossy())])?;
                let stream = self.file("hartstone-extended.stream");
                let summary = self.emulate(&image, &file, None, &["--timeout", "4min", "--stream", &stream])?;
                let board = [0, 1, 2, 3, 4].map(|task| own(&summary, 2 + task));
                let costs = self.scheduler_and_switch(&stream, &file)?;
                let simulated = self.simulated_misses(test, policy, &costs)?;
                let sums = [board, simulated].map(|misses| misses.iter().sum::<u64>());
                println!("hartstone {test} extended, {policy}, scheduler {}, context switch {}:", costs[0], costs[1]);
                println!("  misses by task on the board {board:?}, in all {}", sums[0]);
                println!("  misses by task in the simulator {simulated:?}, in all {}", sums[1]);
                // In the overload the tasks want a sixth of the CPU more than there is, for 15 seconds.
                ensure!(sums.iter().all(|sum| *sum > 100), "hartstone {test} extended, {policy}: no overload");
                ensure!(sums[0].abs_diff(sums[1]) * 10 <= sums[0], "hartstone {test} extended, {policy}: {sums:?}");
            }
        }
        Ok(())
    }

    /// Misses by task of an extended test in the simulator.
    fn simulated_misses(&self, test: usize, policy: &str, [scheduler, switch]: &[String; 2]) -> Result<[u64; TASKS]> {
        let test = test.to_string();
        let form =
            ["bench", "hartstone", "--extended", "--test", &test, "--theta", "set", "--json", "--policy", policy];
        let costs =
            ["--clock", "tickless", "--scheduler", scheduler, "--context-switch", switch, "--scheduler-task", "0us"];
        // The kernel measures what jobs use.
        let form = [&form[..], &["--unconsumed-costs"]].concat();
        let text = self.takt(&[&form[..], &costs[..]].concat())?;
        let found: Value = serde_json::from_str(&text).context("takt bench hartstone --json")?;
        let trials = found["results"].as_array().context("no results")?;
        let trial = trials.iter().find(|trial| trial["policy"] == policy).context("no result of the policy")?;
        let misses = trial["misses_by_task"][0].as_array().into_iter().flatten().filter_map(Value::as_u64);
        misses.collect::<Vec<_>>().try_into().ok().context("misses of five tasks")
    }
}
