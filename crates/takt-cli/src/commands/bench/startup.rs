//! `takt bench startup`: how long a schedule of many processes takes to come into being, and to go.

use super::figures::{cell, median, ratio};
use super::lab::{Child, Claim, Lab, RunOptions, start_of};
use super::options::Common;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::report::Cell;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use takt_core::time::Span;
use takt_linux::timer::now;
use takt_workload::Code;

/// Measure the time until the first window of many processes: Takt and a plain loop that starts as many in turn
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
}

/// How long a start may take before the bench gives up.
const PATIENCE: Span = Span::from_secs(120);

struct Case {
    partitions: usize,
    processes: usize,
    takt: Vec<Start>,
    plain: Vec<i64>,
}

/// One start of Takt.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// From outside: from the spawn of Takt to time zero of the schedule.
    ready: i64,
    /// What Takt says itself.
    startup: i64,
    descriptors: usize,
    peak_kib: i64,
    stop: i64,
}

impl Case {
    fn median(&self, of: impl Fn(&Start) -> i64) -> i64 {
        median(self.takt.iter().map(of))
    }
    fn name(&self) -> String {
        format!("{} x {}", self.partitions, self.processes)
    }
    fn row(&self) -> Vec<Cell> {
        let (ready, plain) = (self.median(|s| s.ready), median(self.plain.iter().copied()));
        vec![
            self.name().into(),
            cell(plain),
            cell(ready),
            ratio(ready, plain).into(),
            cell(self.median(|s| s.startup)),
            self.median(|s| s.descriptors as i64).to_string().into(),
            format!("{} MiB", self.median(|s| s.peak_kib) / 1024).into(),
            cell(self.median(|s| s.stop)),
        ]
    }
    fn json(&self) -> Value {
        let rounds = self.takt.iter().map(|s| {
            json!({"first_window_ns": s.ready, "startup_ns": s.startup, "descriptors": s.descriptors,
                   "peak_rss_kib": s.peak_kib, "stop_ns": s.stop})
        });
        json!({
            "partitions": self.partitions, "processes_each": self.processes,
            "first_window_ns": self.median(|s| s.ready), "plain_loop_ns": median(self.plain.iter().copied()),
            "startup_ns": self.median(|s| s.startup), "descriptors": self.median(|s| s.descriptors as i64),
            "peak_rss_kib": self.median(|s| s.peak_kib), "stop_ns": self.median(|s| s.stop),
            "rounds": rounds.collect::<Vec<_>>(), "plain_loop_rounds_ns": self.plain,
        })
    }
    fn claims(&self, fixed: usize) -> Vec<Claim> {
        let (ready, plain) = (self.median(|s| s.ready), median(self.plain.iter().copied()));
        let descriptors = self.median(|s| s.descriptors as i64);
        let most = (fixed + self.partitions) as i64;
        vec![
            Claim {
                what: format!("{}: time to the first window", self.name()),
                measured: cell(ready),
                limit: vec!["2 x ".into(), cell(plain), " = ".into(), cell(2 * plain)],
                holds: Some(ready <= 2 * plain),
            },
            Claim {
                what: format!("{}: descriptors", self.name()),
                measured: descriptors.to_string().into(),
                limit: vec![format!("{fixed} + 1 per partition = {most}").into()],
                holds: Some(descriptors <= most),
            },
        ]
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("startup", &args.common)?;
    // The quick sizes, too, are above the 256 processes up to which Takt keeps a descriptor for each.
    let sizes = if lab.session.quick { [(260, 1), (3, 90)] } else { [(1000, 1), (3, 400)] };
    let case = |(partitions, processes)| Case { partitions, processes, takt: Vec::new(), plain: Vec::new() };
    let mut cases = sizes.map(case);
    lab.session.round(1, "one process");
    // What a run holds open without regard to its size.
    let fixed = takt(&lab, 1, 1)?.descriptors.saturating_sub(1);
    for round in 1..=lab.session.rounds {
        for case in &mut cases {
            lab.session.round(round, &format!("{}, plain loop", case.name()));
            case.plain.push(plain(&lab, case.partitions * case.processes)?);
            lab.session.round(round, &format!("{}, takt run", case.name()));
            case.takt.push(takt(&lab, case.partitions, case.processes)?);
        }
    }
    let heading =
        ["partitions x processes", "plain loop", "takt", "ratio", "takt says", "descriptors", "peak RSS", "stop"];
    let rows: Vec<_> = std::iter::once(heading.map(Cell::from).to_vec()).chain(cases.iter().map(Case::row)).collect();
    let claims: Vec<_> = cases.iter().flat_map(|c| c.claims(fixed)).collect();
    let settings = "processes `exec sleep 100000`; takt: from its start to its first window; plain loop: as many \
                    `sh -c 'exec sleep 100000'`, until the last is started";
    let results = json!({"descriptors_fixed": fixed, "cases": cases.iter().map(Case::json).collect::<Vec<_>>()});
    lab.show(settings, &[("start and stop, as medians over the rounds".into(), rows)], &claims, &results)
}

/// How long a plain loop takes to start so many.
fn plain(lab: &Lab, count: usize) -> Result<i64, Failure> {
    let args = lab.probe(&["spawn", &count.to_string()]);
    let command = Command::new(&args[0]).args(&args[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = command?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    // It ends its sleepers when its standard input ends.
    drop(child.stdin.take());
    child.wait()?;
    let refused = |_| {
        let fix = format!("allow this user {count} processes more (`ulimit -u`, `/proc/sys/kernel/pid_max`)");
        Failure::machine(Code::SystemError, format!("a plain loop cannot start {count} processes"), &fix)
    };
    line.trim().parse().map_err(refused)
}

/// Runs so many processes until their schedule has begun, looks at Takt, and stops it.
fn takt(lab: &Lab, partitions: usize, processes: usize) -> Result<Start, Failure> {
    let mut yaml = String::from("realtime: no\nwindows:\n");
    for p in 0..partitions {
        yaml += &format!("  - {{length: 10ms, cpu: {}, sc_partition: P{p}}}\n", lab.cpu);
    }
    yaml += "partitions:\n";
    for p in 0..partitions {
        yaml += &format!("  - name: P{p}\n    processes:\n");
        yaml += &"      - cmd: exec sleep 100000\n".repeat(processes);
    }
    let file = lab.workload(&yaml)?;
    let (trace, printed, said) = (lab.path("jsonl"), lab.path("json"), lab.path("err"));
    let mut command = lab.takt_run(&file, &trace, RunOptions { duration: Some(PATIENCE), ..RunOptions::default() });
    command.stdout(File::create(&printed)?).stderr(File::create(&said)?);
    let began = now();
    // If something goes wrong here, the guard's kill makes Takt's watcher clean up.
    let mut child = Child(command.spawn()?);
    let start = loop {
        if let Some(start) = start_of(&trace)? {
            break start;
        }
        if child.0.try_wait()?.is_some() || now() - began > PATIENCE {
            let text = fs::read_to_string(&said).unwrap_or_default();
            let reason = format!("`takt run` did not start {partitions} x {processes} processes: {}", text.trim());
            return Err(Failure::machine(Code::SystemError, reason, "see `takt doctor`"));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let pid = child.0.id();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kib = peak.and_then(|p| p.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let stopped = now();
    kill_process(Pid::from_child(&child.0), Signal::TERM).map_err(std::io::Error::from)?;
    child.0.wait()?;
    let stop = now() - stopped;
    let json: Value = serde_json::from_str(&fs::read_to_string(&printed)?)
        .map_err(|_| Failure::status(101, Code::InternalFault, "`takt run --json` did not print a JSON object"))?;
    let startup = json["startup_ns"].as_i64().unwrap_or(0);
    Ok(Start { ready: (start - began).ns(), startup, descriptors, peak_kib, stop: stop.ns() })
}
