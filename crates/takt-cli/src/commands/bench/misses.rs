//! `takt bench misses`: deadlines under load, by Takt and by the kernel itself.

use super::Common;
use super::figures::{Figures, median, text};
use super::lab::{Child, Claim, Lab, RunOptions};
use crate::Outcome;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use takt_core::time::Span;
use takt_linux::timer::now;

/// Measure missed deadlines: EDF and RM by Takt, and the kernel's SCHED_FIFO in turn, with load on the other CPUs
///
/// A second set, close to a full CPU, is one that RM cannot schedule and EDF can.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
}

/// A periodic task; its deadline is its period. Microseconds.
struct Task {
    period: i64,
    runtime: i64,
}

/// U = 0.15 + 0.15 + 0.14 + 0.14 + 0.12 = 0.70, below the bound for five tasks under RM (0.743).
const SET: [Task; 5] = [
    Task { period: 10_000, runtime: 1_500 },
    Task { period: 14_000, runtime: 2_100 },
    Task { period: 25_000, runtime: 3_500 },
    Task { period: 60_000, runtime: 8_400 },
    Task { period: 100_000, runtime: 12_000 },
];
/// U = 0.5 + 0.457 = 0.957. Under RM the second task gets 30 of its 32 ms before its first deadline.
const FULL_SET: [Task; 2] = [Task { period: 40_000, runtime: 20_000 }, Task { period: 70_000, runtime: 32_000 }];

/// Highest priority of the kernel's variant is this plus the number of tasks.
const PRIORITY: usize = 10;
/// Busy processes on the other CPUs.
const HOGS: usize = 2;

/// Who schedules.
struct Variant {
    key: &'static str,
    name: &'static str,
    policy: Option<&'static str>,
    rounds: Vec<Round>,
}

/// What one round gave.
#[derive(Default)]
struct Round {
    jobs: i64,
    missed: i64,
    /// By task.
    p99: Vec<i64>,
}

impl Round {
    fn from_json(json: &Value) -> Round {
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        Round {
            jobs: number(&json["jobs"]["released"]),
            missed: number(&json["jobs"]["missed"]),
            p99: json["tasks"].as_array().into_iter().flatten().map(|t| number(&t["response_ns"]["p99"])).collect(),
        }
    }
    fn json(&self) -> Value {
        json!({"jobs": self.jobs, "missed": self.missed, "p99_ns": self.p99})
    }
}

impl Variant {
    fn missed(&self) -> i64 {
        self.rounds.iter().map(|r| r.missed).sum()
    }
    fn row(&self, tasks: usize) -> Vec<String> {
        let jobs: i64 = self.rounds.iter().map(|r| r.jobs).sum();
        let p99 = |t: usize| text(median(self.rounds.iter().filter_map(|r| r.p99.get(t).copied())));
        let by_round = self.rounds.iter().map(|r| r.missed.to_string()).collect::<Vec<_>>().join(" ");
        let first = [self.name.to_string(), jobs.to_string(), self.missed().to_string(), by_round];
        first.into_iter().chain((0..tasks).map(p99)).collect()
    }
    fn json(&self) -> Value {
        json!({"name": self.key, "missed": self.missed(), "rounds": self.rounds.iter().map(Round::json).collect::<Vec<_>>()})
    }
}

fn variants<const N: usize>(names: [(&'static str, &'static str, Option<&'static str>); N]) -> [Variant; N] {
    names.map(|(key, name, policy)| Variant { key, name, policy, rounds: Vec::new() })
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("misses", &args.common)?;
    let duration = if lab.quick { Span::from_ms(300) } else { Span::from_secs(10) };
    let set = lab.workload(&workload(&lab, &SET, "yes"))?;
    // Real-time processes on a CPU that is as full as this would be throttled by the kernel.
    let full = lab.workload(&workload(&lab, &FULL_SET, "no"))?;
    let mut first = variants([
        ("takt_edf", "takt edf", Some("edf")),
        ("takt_rm", "takt rm", Some("rm")),
        ("kernel", "kernel, SCHED_FIFO by RM", None),
    ]);
    let mut second = variants([("takt_edf", "takt edf", Some("edf")), ("takt_rm", "takt rm", Some("rm"))]);
    for round in 1..=lab.rounds {
        for variant in &mut first {
            lab.progress(round, &format!("U = 0.70, {}", variant.name));
            let _hogs = hogs(&lab)?;
            variant.rounds.push(match variant.policy {
                Some(policy) => takt(&lab, &set, policy, duration)?,
                None => kernel(&lab, &SET, duration)?,
            });
        }
        for variant in &mut second {
            lab.progress(round, &format!("U = 0.957, {}", variant.name));
            let _hogs = hogs(&lab)?;
            let policy = variant.policy.unwrap_or("edf");
            variant.rounds.push(takt(&lab, &full, policy, duration)?);
        }
    }
    let mut simulated = variants([("sim_edf", "simulated edf", Some("edf")), ("sim_rm", "simulated rm", Some("rm"))]);
    for variant in &mut simulated {
        let options = RunOptions { policy: variant.policy, duration: Some(duration) };
        variant.rounds.push(Round::from_json(&lab.simulate(&full, options)?));
    }
    let hogs = if lab.others.is_empty() {
        "no other CPU, so no load beside".to_string()
    } else {
        format!("{HOGS} busy processes on CPU {}", lab.others)
    };
    let settings =
        format!("{duration} per round and variant; {hogs}; response times p99 by task, as medians over the rounds");
    let tables = [
        ("U = 0.70; processes of class SCHED_FIFO".to_string(), rows(&SET, &first.iter().collect::<Vec<_>>())),
        (
            "U = 0.957; processes of class SCHED_OTHER".to_string(),
            rows(&FULL_SET, &second.iter().chain(&simulated).collect::<Vec<_>>()),
        ),
    ];
    let claims = limits(&first, &second, &simulated);
    let all = |variants: &[Variant]| variants.iter().map(Variant::json).collect::<Vec<_>>();
    let results = json!({
        "duration_ns": duration.ns(), "hogs": if lab.others.is_empty() { 0 } else { HOGS },
        "u70": all(&first), "u96": all(&second), "u96_simulated": all(&simulated),
    });
    lab.show(&settings, &tables, &claims, &results)
}

fn limits(first: &[Variant; 3], second: &[Variant; 2], simulated: &[Variant; 2]) -> Vec<Claim> {
    let [edf, rm, kernel] = first.each_ref().map(Variant::missed);
    let against_kernel = |name: &str, missed: i64| Claim {
        what: format!("U = 0.70, {name}: missed deadlines"),
        measured: missed.to_string(),
        limit: format!("{kernel} (kernel)"),
        holds: Some(missed <= kernel),
    };
    let [full_edf, full_rm] = second.each_ref().map(Variant::missed);
    let [sim_edf, sim_rm] = simulated.each_ref().map(Variant::missed);
    vec![
        against_kernel("takt edf", edf),
        against_kernel("takt rm", rm),
        Claim {
            what: "U = 0.957: EDF misses fewer than RM".into(),
            measured: format!("{full_edf} (simulated {sim_edf})"),
            limit: format!("below {full_rm} (simulated {sim_rm})"),
            holds: Some(full_edf < full_rm && sim_edf == 0 && sim_rm > 0),
        },
    ]
}

fn rows(set: &[Task], variants: &[&Variant]) -> Vec<Vec<String>> {
    let tasks = set.iter().map(|t| format!("T = {}ms", t.period / 1000));
    let heading = ["", "jobs", "missed", "by round"].map(String::from).into_iter().chain(tasks).collect();
    std::iter::once(heading).chain(variants.iter().map(|v| v.row(set.len()))).collect()
}

fn workload(lab: &Lab, set: &[Task], realtime: &str) -> String {
    // Each process initialises before the schedule starts, as those of the kernel's variant do.
    let mut yaml = format!("policy: edf\nrealtime: {realtime}\ninit_timeout: 30s\ntasks:\n");
    for Task { period, runtime } in set {
        let cmd = lab.cmd(&lab.own(&["burn", "--init", "1ms", "--runtime", &format!("{runtime}us")]));
        yaml += &format!(
            "  - {{name: t{period}, cpu: {}, period: {period}us, runtime: {runtime}us, init: yes, cmd: {cmd}}}\n",
            lab.cpu
        );
    }
    yaml
}

/// Busy processes on the other CPUs, until they go out of scope.
fn hogs(lab: &Lab) -> Result<Vec<Child>, Failure> {
    let cpus = lab.others.iter().map(|cpu| cpu.to_string());
    let words: Vec<String> = std::iter::once("hog".to_string()).chain(cpus).collect();
    let args = lab.probe(&words);
    let count = if lab.others.is_empty() { 0 } else { HOGS };
    let hogs = (0..count).map(|_| Command::new(&args[0]).args(&args[1..]).stdin(Stdio::null()).spawn().map(Child));
    Ok(hogs.collect::<Result<_, _>>()?)
}

fn takt(lab: &Lab, file: &Path, policy: &'static str, duration: Span) -> Result<Round, Failure> {
    let run = lab.run(file, RunOptions { policy: Some(policy), duration: Some(duration) })?;
    Ok(Round::from_json(&run.json))
}

/// The same tasks as processes that time themselves, with rate monotonic priorities in the kernel.
fn kernel(lab: &Lab, set: &[Task], duration: Span) -> Result<Round, Failure> {
    // Time for all of them to come into being.
    let start = now() + Span::from_ms(500);
    let mut children = Vec::new();
    for (rank, task) in set.iter().enumerate() {
        let out = lab.path("responses");
        let args = lab.probe(&[
            "periodic",
            &out.to_string_lossy(),
            "--period",
            &format!("{}us", task.period),
            "--runtime",
            &format!("{}us", task.runtime),
            "--count",
            &(duration.ns() as u64).div_ceil(1000 * task.period as u64).to_string(),
            "--start",
            &start.ns().to_string(),
            "--cpu",
            &lab.cpu.to_string(),
            "--priority",
            // The sets are in the order of their periods.
            &(PRIORITY + set.len() - rank).to_string(),
        ]);
        let child = Command::new(&args[0]).args(&args[1..]).stdin(Stdio::null()).spawn()?;
        children.push((Child(child), out));
    }
    let mut round = Round::default();
    for ((mut child, out), task) in children.into_iter().zip(set) {
        child.0.wait()?;
        let text = std::fs::read_to_string(&out).map_err(|e| Failure::file("read", &out, &e))?;
        let responses: Vec<i64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        round.jobs += responses.len() as i64;
        round.missed += responses.iter().filter(|r| **r > task.period * 1000).count() as i64;
        round.p99.push(Figures::of(responses).p99);
    }
    Ok(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_have_the_utilisation_that_is_told() {
        let per_mille = |set: &[Task]| set.iter().map(|t| t.runtime * 1000 / t.period).sum::<i64>();
        assert_eq!(per_mille(&SET), 700);
        assert_eq!(per_mille(&FULL_SET), 957);
        assert!(SET.is_sorted_by_key(|t| t.period) && FULL_SET.is_sorted_by_key(|t| t.period));
    }
}
