//! `takt bench misses`: deadlines under load, by Takt and by the kernel itself.

use super::figures::{Figures, cell, median};
use super::lab::{Child, Claim, Lab, RunOptions};
use super::options::Common;
use crate::failure::Failure;
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use takt::report::Cell;
use takt_core::time::Span;
use takt_linux::timer::now;

/// Measure missed deadlines: EDF and RM of Takt, and the kernel's SCHED_FIFO in turn, with load on the other CPUs
///
/// EDF can schedule two further sets, closer to a full CPU, and RM cannot.
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
/// U = 0.44 + 0.443 = 0.883: leaves the tenth of the CPU that real-time processes must leave. Under RM the second
/// task gets 26 of its 31 ms before its first deadline.
const TIGHT_SET: [Task; 2] = [Task { period: 50_000, runtime: 22_000 }, Task { period: 70_000, runtime: 31_000 }];
/// U = 0.5 + 0.457 = 0.957. Under RM the second task gets 30 of its 32 ms before its first deadline.
const FULL_SET: [Task; 2] = [Task { period: 40_000, runtime: 20_000 }, Task { period: 70_000, runtime: 32_000 }];

/// Highest priority of the kernel's variant is this plus the number of tasks.
const PRIORITY: usize = 10;
/// Busy processes on the other CPUs.
const HOGS: usize = 2;

/// The scheduler, and its policy.
#[derive(Clone, Copy)]
enum By {
    Takt(&'static str),
    Kernel,
    Simulator(&'static str),
}

struct Variant {
    key: &'static str,
    name: &'static str,
    by: By,
    rounds: Vec<Round>,
}

/// One set of tasks with all who schedule it: Takt's EDF, Takt's RM, and what they are compared with.
struct Part {
    name: &'static str,
    set: &'static [Task],
    /// As in a workload.
    realtime: &'static str,
    hogs: usize,
    variants: Vec<Variant>,
}

/// The results of one round.
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
    fn row(&self, tasks: usize) -> Vec<Cell> {
        let jobs: i64 = self.rounds.iter().map(|r| r.jobs).sum();
        // Without a completed job there is no response time.
        let p99 = |t: usize| match median(self.rounds.iter().filter_map(|r| r.p99.get(t).copied())) {
            0 => "-".into(),
            ns => cell(ns),
        };
        let by_round = self.rounds.iter().map(|r| r.missed.to_string()).collect::<Vec<_>>().join(" ");
        let first = [self.name.to_string(), jobs.to_string(), self.missed().to_string(), by_round];
        first.into_iter().map(Cell::from).chain((0..tasks).map(p99)).collect()
    }
    fn json(&self) -> Value {
        json!({"name": self.key, "missed": self.missed(), "rounds": self.rounds.iter().map(Round::json).collect::<Vec<_>>()})
    }
}

impl Part {
    fn heading(&self, lab: &Lab) -> String {
        let class = if self.realtime == "yes" { "SCHED_FIFO" } else { "SCHED_OTHER" };
        let load = match self.hogs {
            0 => "no load on the other CPUs".to_string(),
            n => format!("{n} busy processes on CPU {}", lab.others),
        };
        format!("{}; processes of class {class}; {load}", self.name)
    }
    fn rows(&self) -> Vec<Vec<Cell>> {
        let tasks = self.set.iter().map(|t| format!("T = {}ms", t.period / 1000).into());
        let heading = ["", "jobs", "missed", "by round"].map(Cell::from).into_iter().chain(tasks).collect();
        std::iter::once(heading).chain(self.variants.iter().map(|v| v.row(self.set.len()))).collect()
    }
    fn missed(&self, key: &str) -> Option<i64> {
        self.variants.iter().find(|v| v.key == key).map(Variant::missed)
    }
    fn limits(&self) -> Vec<Claim> {
        let [edf, rm] = ["takt_edf", "takt_rm"].map(|key| self.missed(key).unwrap_or(0));
        if let Some(kernel) = self.missed("kernel") {
            let claim = |name: &str, missed: i64| Claim {
                what: format!("{}, {name}: missed deadlines", self.name),
                measured: missed.to_string().into(),
                limit: vec![format!("{kernel} (kernel)").into()],
                holds: Some(missed <= kernel),
            };
            return vec![claim("takt edf", edf), claim("takt rm", rm)];
        }
        let [sim_edf, sim_rm] = ["sim_edf", "sim_rm"].map(|key| self.missed(key).unwrap_or(0));
        vec![Claim {
            what: format!("{}: EDF misses fewer than RM", self.name),
            measured: format!("{edf} (simulated {sim_edf})").into(),
            limit: vec![format!("below {rm} (simulated {sim_rm})").into()],
            holds: Some(edf < rm && sim_edf < sim_rm),
        }]
    }
    fn json(&self) -> Value {
        json!({"name": self.name, "realtime": self.realtime, "hogs": self.hogs,
               "variants": self.variants.iter().map(Variant::json).collect::<Vec<_>>()})
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("misses", &args.common)?;
    let duration = if lab.session.quick { Span::from_ms(300) } else { Span::from_secs(10) };
    let options = |policy| RunOptions { policy, duration: Some(duration), power: None };
    let mut parts = parts(&lab);
    for round in 1..=lab.session.rounds {
        for part in &mut parts {
            let file = lab.workload(&workload(&lab, part.set, part.realtime))?;
            for variant in &mut part.variants {
                lab.session.round(round, &format!("{}, {}", part.name, variant.name));
                let simulated = matches!(variant.by, By::Simulator(_));
                let _hogs = hogs(&lab, if simulated { 0 } else { part.hogs })?;
                variant.rounds.push(match variant.by {
                    By::Takt(policy) => Round::from_json(&lab.run(&file, options(Some(policy)))?.json),
                    By::Kernel => kernel(&lab, part.set, duration)?,
                    // Every round would be the same.
                    By::Simulator(_) if round > 1 => continue,
                    By::Simulator(policy) => Round::from_json(&lab.simulate(&file, options(Some(policy)))?),
                });
            }
        }
    }
    let settings = format!("{duration} per round and variant; response times p99 by task, as medians over the rounds");
    let tables: Vec<_> = parts.iter().map(|part| (part.heading(&lab), part.rows())).collect();
    let claims: Vec<_> = parts.iter().flat_map(Part::limits).collect();
    let results = json!({"duration_ns": duration.ns(), "sets": parts.iter().map(Part::json).collect::<Vec<_>>()});
    lab.show(&settings, &tables, &claims, &results)
}

fn parts(lab: &Lab) -> [Part; 3] {
    let variant = |(key, name, by)| Variant { key, name, by, rounds: Vec::new() };
    let takt = [("takt_edf", "takt edf", By::Takt("edf")), ("takt_rm", "takt rm", By::Takt("rm"))];
    let kernel = ("kernel", "kernel, SCHED_FIFO by RM", By::Kernel);
    let simulated =
        [("sim_edf", "simulated edf", By::Simulator("edf")), ("sim_rm", "simulated rm", By::Simulator("rm"))];
    let against_kernel = [takt[0], takt[1], kernel].map(variant).into();
    let simulated = || takt.into_iter().chain(simulated).map(variant).collect();
    let hogs = if lab.others.is_empty() { 0 } else { HOGS };
    [
        Part { name: "U = 0.70", set: &SET, realtime: "yes", hogs, variants: against_kernel },
        Part { name: "U = 0.883", set: &TIGHT_SET, realtime: "yes", hogs, variants: simulated() },
        // Real-time processes on a CPU as full as this would be throttled by the kernel; ordinary ones share it with
        // whatever else there is, and so nothing is driven onto it from the other CPUs.
        Part { name: "U = 0.957", set: &FULL_SET, realtime: "no", hogs: 0, variants: simulated() },
    ]
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
fn hogs(lab: &Lab, count: usize) -> Result<Vec<Child>, Failure> {
    let cpus = lab.others.iter().map(|cpu| cpu.to_string());
    let words: Vec<String> = std::iter::once("hog".to_string()).chain(cpus).collect();
    let args = lab.probe(&words);
    let hogs = (0..count).map(|_| Command::new(&args[0]).args(&args[1..]).stdin(Stdio::null()).spawn().map(Child));
    Ok(hogs.collect::<Result<_, _>>()?)
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
    fn the_sets_have_the_requested_utilisation() {
        let per_mille = |set: &[Task]| set.iter().map(|t| t.runtime * 1000 / t.period).sum::<i64>();
        assert_eq!(per_mille(&SET), 700);
        assert_eq!(per_mille(&TIGHT_SET), 882);
        assert_eq!(per_mille(&FULL_SET), 957);
        for set in [&SET[..], &TIGHT_SET, &FULL_SET] {
            assert!(set.is_sorted_by_key(|t| t.period), "priorities go by the place in the set");
        }
    }
}
