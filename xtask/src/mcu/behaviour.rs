//! The behaviour of a board beside that of the simulator: instants, rounds of a regulator, and counts.

use super::bench::Bench;
use crate::workspace::root;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A board's instants and those of a simulation differ by this at most.
const TOLERANCE: &str = "150us";
/// The same for a policy with bursts or budgets.
const WIDE: &str = "300us";
/// The least share of its points within that, in percent.
const GOAL: f64 = 90.0;

impl Bench {
    /// Runs `takt`, and returns its output.
    pub(super) fn takt(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(&self.takt).args(args).output()?;
        let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "takt {}: {out}{errors}", args.join(" "));
        Ok(out.into_owned())
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.images.join(name).to_string_lossy().into_owned()
    }

    /// The costs of the board as a line of a workload, by the stream of an image.
    fn costs(&self, stream: &str, workload: &Path, policy: Option<&str>) -> Result<String> {
        let workload = workload.to_string_lossy();
        let policy = policy.into_iter().flat_map(|policy| ["--policy", policy]);
        let args: Vec<&str> = ["mcu", "calibrate", stream, &workload].into_iter().chain(policy).collect();
        let text = self.takt(&args)?;
        let line = text.lines().find(|line| line.starts_with("costs:"));
        Ok(line.with_context(|| format!("no costs in {text}"))?.to_owned())
    }

    /// The costs of a board without a trace: of the scheduler and of a context switch.
    pub(super) fn quiet_costs(&self) -> Result<[String; 2]> {
        let variables = [("TAKT_WORKLOAD", "five.yaml"), ("TAKT_TRACE", "figures")];
        let (image, workload, stream) =
            (self.build("play", "s", &variables)?, Bench::workload("five"), self.file("quiet.stream"));
        self.emulate(&image, &workload, None, &["--stream", &stream])?;
        self.scheduler_and_switch(&stream, &workload)
    }

    /// The costs by a stream: of the scheduler and of a context switch.
    pub(super) fn scheduler_and_switch(&self, stream: &str, workload: &Path) -> Result<[String; 2]> {
        let line = self.costs(stream, workload, None)?;
        let value = |key: &str| {
            let after = line.split_once(&format!("{key}: ")).map(|(_, after)| after);
            let value = after.and_then(|after| after.split([',', '}']).next());
            value.map(str::to_owned).with_context(|| format!("no {key} in {line}"))
        };
        Ok([value("scheduler")?, value("context_switch")?])
    }

    /// `takt sim` with the board's costs has the board's order of points, and their instants but for the tolerance. Returns the line of costs.
    pub(super) fn predict(&self, policy: &str, name: &str) -> Result<String> {
        let (costs, equal, found) = self.predicted(policy, name, TOLERANCE)?;
        println!("prediction of {policy} {name} with {costs}: {found}");
        ensure!(equal, "{policy} {name} is not as simulated: {found}");
        Ok(costs)
    }

    /// The share of the points of a policy with bursts or budgets that the simulator predicts within the wider tolerance.
    pub(super) fn share(&self, policy: &str, name: &str) -> Result<()> {
        let (costs, _, found) = self.predicted(policy, name, WIDE)?;
        let [beyond, compared] = ["beyond", "compared"].map(|key| found[key].as_f64().unwrap_or(0.0));
        ensure!(compared > 0.0, "{policy} {name}: nothing was compared: {found}");
        let share = 100.0 * (compared - beyond) / compared;
        println!(
            "prediction of {policy} {name} with {costs}: {share:.1} % of {compared} points within {WIDE}, order equal: {}",
            found["order_equal"]
        );
        // Jobs of the other workload need exactly their budgets, which the board and the simulator cannot decide alike.
        ensure!(name != "periodic" || share >= GOAL, "{policy} {name}: {share:.1} %, and not {GOAL} %");
        Ok(())
    }

    /// The calibrated costs, whether the simulation with them is equal, and the differences.
    fn predicted(&self, policy: &str, name: &str, tolerance: &str) -> Result<(String, bool, Value)> {
        let workload = Bench::workload(name);
        let image = self.build("play", "s", &[("TAKT_POLICY", policy), ("TAKT_WORKLOAD", &format!("{name}.yaml"))])?;
        let [stream, board, simulated, costly] =
            ["board.stream", "board.jsonl", "simulated.jsonl", "costly.yaml"].map(|name| self.file(name));
        self.emulate(&image, &workload, Some(policy), &["--stream", &stream, "--trace", &board])?;
        let costs = self.costs(&stream, &workload, Some(policy))?;
        fs::write(&costly, fs::read_to_string(&workload)? + &costs + "\n")?;
        self.takt(&["sim", &costly, "--policy", policy, "--trace", &simulated])?;
        let output = Command::new(&self.takt)
            .args(["trace", "diff", &board, &simulated, "--tolerance", tolerance, "--json"])
            .output()?;
        let found: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("trace diff: {}", String::from_utf8_lossy(&output.stderr)))?;
        Ok((costs, output.status.success(), found))
    }

    /// A task with one job in 200 s: the kernel has no other steps, and the clock wraps meanwhile.
    pub(super) fn idle(&self) -> Result<()> {
        let image = self.build("play", "s", &[("TAKT_WORKLOAD", "idle.yaml")])?;
        let summary = self.emulate(&image, &Bench::workload("idle"), None, &[])?;
        let (steps, met) = (&summary["figures"]["steps"], &summary["jobs"]["met"]);
        println!("600 s with three jobs: {steps} steps, {met} jobs met");
        ensure!(*steps == 6 && *met == 3, "a release and an end of each job, and no other step: {summary}");
        Ok(())
    }

    /// Each of ten thousand interrupts in a second is a release of a job, or merged with another one.
    pub(super) fn interrupts(&self) -> Result<()> {
        let workload = root().join("mcu/apps/interrupts/interrupts.yaml");
        let image = self.build("interrupts", "s", &[])?;
        let summary = self.emulate(&image, &workload, None, &[])?;
        let merged = summary["tasks"][0]["merged"].as_u64().unwrap_or(0);
        let released = summary["figures"]["event_inputs"].as_u64().unwrap_or(0);
        let [interrupts, jobs] = [0, 1].map(|index| own(&summary, index));
        println!("{interrupts} interrupts: {released} released jobs, {merged} were merged, {jobs} jobs ended");
        // Every hundredth interrupt asks twice, before the kernel can run.
        let (doubled, all) = (interrupts / 100, interrupts + interrupts / 100);
        ensure!(interrupts == 10_100 && released + merged == all, "interrupts were lost: {summary}");
        ensure!(merged >= doubled && jobs > 1_000 && summary["differing_from_replay"] == 0, "interrupts: {summary}");
        let image = self.build("interrupts", "s", &[("TAKT_TRACE", "figures")])?;
        let summary = self.emulate(&image, &workload, None, &[])?;
        // QEMU counts 32 ns for an instruction, and a tick is 40 ns.
        let [masked, first] = [2, 3].map(|index| own(&summary, index) * 40 / 32);
        println!("interrupts: the handler after {masked} instructions at most, its job after {first}");
        ensure!(masked <= 100 && first <= 3_000, "interrupts: the handler after {masked}, its job after {first}");
        Ok(())
    }

    /// Computations that preempt each other have the results that they have in sequence.
    pub(super) fn parallel(&self) -> Result<()> {
        let workload = root().join("mcu/apps/parallel/parallel.yaml");
        let image = self.build("parallel", "s", &[])?;
        let summary = self.emulate(&image, &workload, None, &[])?;
        let switches = summary["context_switches"].as_u64().unwrap_or(0);
        for index in 0..4 {
            let (alone, together, different) =
                (own(&summary, index), own(&summary, 4 + index), own(&summary, 8 + index));
            let done = own(&summary, 12 + index);
            println!("computation {index}: {done} results {together:#x}, alone {alone:#x}");
            ensure!(alone == together && different == 0 && done >= 3, "computation {index}: {summary}");
        }
        ensure!(switches > 1_000, "the computations did not preempt each other: {summary}");
        Ok(())
    }

    /// The workload in which I+PI follows its set points: after each change the rounds reach the set point as soon as in the simulator.
    pub(super) fn tracking(&self) -> Result<()> {
        let workload = root().join("workloads/ipi-tracking.yaml");
        let image = self.build("tracking", "s", &[])?;
        let [board, simulated] = ["tracking-board.jsonl", "tracking-simulated.jsonl"].map(|name| self.file(name));
        self.emulate(&image, &workload, None, &["--trace", &board])?;
        self.takt(&["sim", &workload.to_string_lossy(), "--trace", &simulated])?;
        let [board, simulated] = [board, simulated].map(|file| rounds(&file));
        let (board, simulated) = (board?, simulated?);
        ensure!(board.len() > 300, "{} rounds on the board", board.len());
        // Each second begins with a change, the first one with the start.
        for second in 0..7 {
            let (own, other) = (settled(&board, second), settled(&simulated, second));
            println!("tracking from {second} s: within 2 % after {own:?} rounds, simulated {other:?}");
            let near = match (own, other) {
                (Some(own), Some(other)) => own.abs_diff(other) <= 2,
                (own, other) => own == other,
            };
            ensure!(near, "tracking from {second} s: {own:?} rounds, simulated {other:?}");
        }
        let last = board.last().context("no rounds")?;
        let off = (last.measured - last.set_point).abs();
        println!("tracking: the last round is {off} ns from its set point");
        ensure!(off <= 5_000, "the last round is {off} ns from its set point");
        Ok(())
    }
}

/// A figure of the application.
pub(super) fn own(summary: &Value, index: u64) -> u64 {
    let all = summary["figures"]["own"].as_array().into_iter().flatten();
    all.filter(|pair| pair[0] == index).find_map(|pair| pair[1].as_u64()).unwrap_or(0)
}

/// Late jobs of task `late` are aborted within 150 us of their deadlines, and the lock that each of them held is granted afterwards.
pub(super) fn aborts_in_time(file: &str) -> Result<()> {
    let text = fs::read_to_string(file).context(file.to_owned())?;
    let (mut deadline, mut aborted, mut granted) = (0, 0, 0);
    for line in text.lines() {
        let record: Value = serde_json::from_str(line)?;
        let at = record["at"].as_i64().unwrap_or(0);
        let late = record["task"] == "late";
        match record["type"].as_str() {
            Some("release") if late => deadline = record["deadline"].as_i64().context("a deadline")?,
            Some("finish") if late && record["outcome"] == "aborted" => {
                aborted += 1;
                ensure!((deadline..=deadline + 150_000).contains(&at), "aborted at {at}, deadline {deadline}");
            }
            Some("request") if aborted > 0 && record["task"] == "sound" && record["granted"] == true => granted += 1,
            _ => {}
        }
    }
    println!(
        "late jobs: {aborted} aborted within 150 us of their deadlines, the lock is granted {granted} times afterwards"
    );
    ensure!(aborted >= 3 && granted >= 3, "{aborted} jobs aborted, {granted} locks granted afterwards");
    Ok(())
}

/// A round of a regulator, in nanoseconds.
struct Round {
    at: i64,
    set_point: i64,
    measured: i64,
}

/// The rounds of a trace in JSON lines.
fn rounds(file: &str) -> Result<Vec<Round>> {
    let text = fs::read_to_string(PathBuf::from(file)).context(file.to_owned())?;
    let mut rounds = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line)?;
        if record["type"] == "round" {
            let number = |key: &str| record[key].as_i64().with_context(|| format!("{file}: {key} of {record}"));
            rounds.push(Round { at: number("at")?, set_point: number("set_point")?, measured: number("measured")? });
        }
    }
    Ok(rounds)
}

/// How many rounds of this second end before one that is within 2 % of its set point, as are all after it; `None` if the last one is not.
fn settled(rounds: &[Round], second: i64) -> Option<usize> {
    let second = (second * 1_000_000_000)..((second + 1) * 1_000_000_000);
    let of: Vec<&Round> = rounds.iter().filter(|round| second.contains(&round.at)).collect();
    let near = |round: &&Round| (round.measured - round.set_point).abs() * 50 <= round.set_point;
    let first = of.iter().rposition(|round| !near(round)).map_or(0, |last| last + 1);
    (first < of.len()).then_some(first)
}
