//! `takt bench startup`: how long a schedule of many processes takes to come into being, and to go.

use super::figures::{cell, median, ratio};
use super::lab::{Child, Claim, Lab, RunOptions, start_of};
use super::options::Common;
use crate::failure::Failure;
use crate::outcome::Outcome;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use takt::report::Cell;
use takt_core::time::Span;
use takt_linux::timer::now;
use takt_linux::{disturbance, leftovers};
use takt_workload::Code;

/// Measure the time until the first window of many processes: Takt and a plain loop that starts as many in turn
///
/// With `--large` also 10,000 partitions, which run for a minute: with their own descriptors, and with `client: none` and `descriptors: few`. The
/// CPU time of these starts, and of `takt check`, is compared with that of 1000 partitions.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Also start 10,000 partitions and let them run for a minute; this takes some 5 GiB of memory
    #[arg(long)]
    large: bool,
}

/// How long a start may take before the bench gives up.
const PATIENCE: Span = Span::from_secs(300);
/// How long a large schedule runs.
const RUN: Span = Span::from_secs(60);
const RUN_QUICK: Span = Span::from_ms(500);

/// Ten times as many partitions may take so many times the CPU time, in tenths of their number.
const GROWTH: i64 = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Size {
    partitions: usize,
    processes: usize,
    /// `client: none` and `descriptors: few`.
    few: bool,
    /// The time to the first window must not exceed this percentage of the plain loop's. Without one there is no plain loop.
    most: Option<i64>,
}

struct Case {
    size: Size,
    /// How long the schedule runs before it is stopped.
    run: Span,
    takt: Vec<Start>,
    plain: Vec<i64>,
    /// CPU time of `takt check`.
    check: Vec<i64>,
}

/// One start of Takt.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// From outside: from the spawn of Takt to time zero of the schedule.
    ready: i64,
    /// Takt's own figures.
    startup: i64,
    /// CPU time of Takt until then, and of the process that starts the others.
    cpu: i64,
    descriptors: usize,
    peak_kib: i64,
    /// Memory of the whole machine that was available before, and was not at the first window.
    machine_kib: i64,
    stop: i64,
    /// Groups and processes of the run after its end.
    left: usize,
}

impl Size {
    fn name(self) -> String {
        let few = if self.few { ", few descriptors" } else { "" };
        format!("{} x {}{few}", self.partitions, self.processes)
    }
}

impl Case {
    fn median(&self, of: impl Fn(&Start) -> i64) -> i64 {
        median(self.takt.iter().map(of))
    }
    fn plain(&self) -> Option<i64> {
        (!self.plain.is_empty()).then(|| median(self.plain.iter().copied()))
    }
    /// Memory of Takt and of the machine for each partition, in KiB.
    fn memory_each(&self) -> [i64; 2] {
        [self.median(|s| s.peak_kib), self.median(|s| s.machine_kib)].map(|kib| kib / self.size.partitions as i64)
    }
    fn row(&self) -> Vec<Cell> {
        let (ready, plain) = (self.median(|s| s.ready), self.plain());
        let [own, machine] = self.memory_each();
        vec![
            self.size.name().into(),
            plain.map_or("-".into(), cell),
            cell(ready),
            plain.map_or("-".into(), |plain| ratio(ready, plain)).into(),
            cell(self.median(|s| s.cpu)),
            self.median(|s| s.descriptors as i64).to_string().into(),
            format!("{} MiB", self.median(|s| s.peak_kib) / 1024).into(),
            format!("{own} KiB").into(),
            format!("{machine} KiB").into(),
            cell(self.median(|s| s.stop)),
        ]
    }
    fn json(&self) -> Value {
        let rounds = self.takt.iter().map(|s| {
            json!({"first_window_ns": s.ready, "startup_ns": s.startup, "cpu_ns": s.cpu, "descriptors": s.descriptors,
                   "peak_rss_kib": s.peak_kib, "machine_kib": s.machine_kib, "stop_ns": s.stop, "left": s.left})
        });
        let [own, machine] = self.memory_each();
        json!({
            "partitions": self.size.partitions, "processes_each": self.size.processes, "few_descriptors": self.size.few,
            "run_ns": self.run.ns(),
            "first_window_ns": self.median(|s| s.ready), "plain_loop_ns": self.plain(),
            "startup_ns": self.median(|s| s.startup), "cpu_ns": self.median(|s| s.cpu),
            "descriptors": self.median(|s| s.descriptors as i64), "peak_rss_kib": self.median(|s| s.peak_kib),
            "peak_rss_kib_per_partition": own, "machine_kib_per_partition": machine,
            "stop_ns": self.median(|s| s.stop), "check_cpu_ns": self.check.first().map(|_| median(self.check.iter().copied())),
            "rounds": rounds.collect::<Vec<_>>(), "plain_loop_rounds_ns": self.plain, "check_rounds_cpu_ns": self.check,
        })
    }
    fn claims(&self, base: &Case) -> Vec<Claim> {
        let name = self.size.name();
        let mut claims = Vec::new();
        if let (Some(most), Some(plain)) = (self.size.most, self.plain()) {
            let (ready, limit) = (self.median(|s| s.ready), plain * most / 100);
            claims.push(Claim {
                what: format!("{name}: time to the first window"),
                measured: cell(ready),
                limit: vec![
                    format!("{}.{} x ", most / 100, most % 100 / 10).into(),
                    cell(plain),
                    " = ".into(),
                    cell(limit),
                ],
                holds: Some(ready <= limit),
            });
        }
        let descriptors = self.median(|s| s.descriptors as i64);
        let (most, text) = match self.size.few {
            true => (FEW, format!("{FEW}")),
            false => {
                let most = FIXED + self.size.partitions as i64;
                (most, format!("{FIXED} + 1 per partition = {most}"))
            }
        };
        claims.push(Claim {
            what: format!("{name}: descriptors"),
            measured: descriptors.to_string().into(),
            limit: vec![text.into()],
            holds: Some(descriptors <= most),
        });
        let left = self.takt.iter().map(|s| s.left).max().unwrap_or(0);
        claims.push(Claim {
            what: format!("{name}: left after the end"),
            measured: left.to_string().into(),
            limit: vec!["0".into()],
            holds: Some(left == 0),
        });
        if self.size.partitions > base.size.partitions {
            let tenths = GROWTH * (self.size.partitions / base.size.partitions) as i64;
            let check = |case: &Case| median(case.check.iter().copied());
            let of = [
                ("CPU time of the start", self.median(|s| s.cpu), base.median(|s| s.cpu)),
                ("CPU time of takt check", check(self), check(base)),
            ];
            claims.extend(of.map(|(what, own, base_time)| Claim {
                what: format!("{name}: {what}"),
                measured: cell(own),
                limit: vec![
                    format!("{}.{} x ", tenths / 10, tenths % 10).into(),
                    cell(base_time),
                    " = ".into(),
                    cell(tenths * base_time / 10),
                    format!(" ({} partitions)", base.size.partitions).into(),
                ],
                holds: Some(own <= tenths * base_time / 10),
            }));
        }
        claims
    }
}

/// Descriptors of a run beside those of its partitions, and of one with few.
const FIXED: i64 = 64;
const FEW: i64 = 512;

/// The sizes in their order. The first one is the base of the large ones.
fn sizes(quick: bool, large: bool) -> Vec<(Size, Span)> {
    let size = |partitions, processes, few, most| Size { partitions, processes, few, most };
    // The quick sizes, too, are above the 256 processes up to which Takt keeps a descriptor for each.
    let (base, wide, many) = if quick { (260, (3, 90), 520) } else { (1000, (3, 400), 10_000) };
    let mut sizes =
        vec![(size(base, 1, false, Some(100)), Span::ZERO), (size(wide.0, wide.1, false, Some(70)), Span::ZERO)];
    if large {
        let run = if quick { RUN_QUICK } else { RUN };
        sizes.extend([false, true].map(|few| (size(many, 1, few, None), run)));
    }
    sizes
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("startup", &args.common)?;
    let case = |(size, run)| Case { size, run, takt: Vec::new(), plain: Vec::new(), check: Vec::new() };
    let mut cases: Vec<Case> = sizes(lab.session.quick, args.large).into_iter().map(case).collect();
    for round in 1..=lab.session.rounds {
        for case in &mut cases {
            let (size, name) = (case.size, case.size.name());
            if size.most.is_some() {
                lab.session.round(round, &format!("{name}, plain loop"));
                case.plain.push(plain(&lab, size.partitions * size.processes)?);
            }
            let file = lab.workload(&workload(&lab, size))?;
            if args.large && size.processes == 1 {
                lab.session.round(round, &format!("{name}, takt check"));
                case.check.push(check(&lab, &file)?);
            }
            lab.session.round(round, &format!("{name}, takt run"));
            case.takt.push(takt(&lab, size, &file, case.run)?);
        }
    }
    let heading = [
        "partitions x processes",
        "plain loop",
        "takt",
        "ratio",
        "takt, CPU",
        "descriptors",
        "peak RSS",
        "per partition",
        "machine, per partition",
        "stop",
    ];
    let rows: Vec<_> = std::iter::once(heading.map(Cell::from).to_vec()).chain(cases.iter().map(Case::row)).collect();
    let claims: Vec<_> = cases.iter().flat_map(|case| case.claims(&cases[0])).collect();
    let settings = "processes `exec sleep 100000`; takt: from its start to its first window; plain loop: as many \
                    `sh -c 'exec sleep 100000'`, until the last is started";
    let results = json!({"cases": cases.iter().map(Case::json).collect::<Vec<_>>()});
    lab.show(settings, &[("start and stop, as medians over the rounds".into(), rows)], &claims, &results)
}

/// CPU time of `takt check` on a file.
fn check(lab: &Lab, file: &Path) -> Result<i64, Failure> {
    let own = lab.own(&["check"]);
    let mut command = Command::new(&own[0]);
    command.args(&own[1..]).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Child(command.spawn()?);
    // A process that has ended and is not reaped still has its CPU time.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(&child.0)), options))
        .map_err(std::io::Error::from)?;
    let used = disturbance::used(child.0.id() as i32).unwrap_or_default();
    let status = child.0.wait()?;
    if !status.success() {
        let reason = format!("`takt check` ended with {status}");
        return Err(Failure::status(101, Code::InternalFault, reason));
    }
    Ok(used.ns())
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

/// A window for each partition, in the order of their numbers.
fn workload(lab: &Lab, size: Size) -> String {
    let mut yaml = String::from("realtime: no\n");
    if size.few {
        yaml += "client: none\ndescriptors: few\n";
    }
    yaml += "windows:\n";
    for p in 0..size.partitions {
        yaml += &format!("  - {{length: 10ms, cpu: {}, sc_partition: P{p}}}\n", lab.cpu);
    }
    yaml += "partitions:\n";
    for p in 0..size.partitions {
        yaml += &format!("  - name: P{p}\n    processes:\n");
        yaml += &"      - cmd: exec sleep 100000\n".repeat(size.processes);
    }
    yaml
}

/// Memory of the machine that processes could have, in KiB.
fn available() -> i64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Runs so many processes until their schedule has begun, and so long after that, looks at Takt, and stops it.
fn takt(lab: &Lab, size: Size, file: &Path, run: Span) -> Result<Start, Failure> {
    let (trace, printed, said) = (lab.path("jsonl"), lab.path("json"), lab.path("err"));
    let mut command =
        lab.takt_run(file, &trace, RunOptions { duration: Some(PATIENCE + run), ..RunOptions::default() });
    command.stdout(File::create(&printed)?).stderr(File::create(&said)?);
    let available_before = available();
    let began = now();
    // If something goes wrong here, the guard's kill makes Takt's watcher clean up.
    let mut child = Child(command.spawn()?);
    let refused = |why: &str| {
        let text = fs::read_to_string(&said).unwrap_or_default();
        let reason = format!("`takt run` {why} {} processes: {}", size.name(), text.trim());
        Failure::machine(Code::SystemError, reason, "see `takt doctor`")
    };
    let start = loop {
        if let Some(start) = start_of(&trace)? {
            break start;
        }
        if child.0.try_wait()?.is_some() || now() - began > PATIENCE {
            return Err(refused("did not start"));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let pid = child.0.id();
    let machine_kib = available_before - available();
    let end = now() + run;
    while now() < end {
        if child.0.try_wait()?.is_some() {
            return Err(refused("did not continue with"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
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
    let figure = |key: &str| json[key].as_i64().unwrap_or(0);
    let remains = leftovers::find()?.into_iter().filter(|(id, _)| id.pid() == pid as i32);
    let left = remains.map(|(_, remains)| remains.groups.len() + remains.processes.len()).sum();
    Ok(Start {
        ready: (start - began).ns(),
        startup: figure("startup_ns"),
        cpu: figure("startup_cpu_ns"),
        descriptors,
        peak_kib,
        machine_kib,
        stop: stop.ns(),
        left,
    })
}
