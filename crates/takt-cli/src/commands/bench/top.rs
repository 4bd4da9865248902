//! `takt bench top`: the cost of watching a run, for its scheduler and for the watcher.

use super::figures::{Figures, cell};
use super::lab::{Child, Claim, Lab, RunOptions, start_of};
use super::options::Common;
use crate::failure::Failure;
use crate::outcome::Outcome;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use takt::report::Cell;
use takt_core::time::Span;
use takt_workload::Code;

/// Measure the lateness of the scheduler beside `takt top`, without it, and without it once more, and the CPU time of `takt top`
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of tasks of the run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    tasks: u32,
}

const LENGTH: Span = Span::from_secs(20);
const LENGTH_QUICK: Span = Span::from_secs(3);
const TASKS_QUICK: u32 = 10;
/// Pictures at 10 Hz.
const INTERVAL: &str = "100ms";
/// The largest part of a CPU that `takt top` may take, as time in each second.
const PART_MAX: i64 = 50_000_000;
/// A run whose processes have not started by then does not start.
const START: Duration = Duration::from_secs(120);

/// Three runs of each round. Two are alike, so that their difference is that of this machine.
const RUNS: [&str; 3] = ["alone", "control", "watched"];

/// The figures of one run.
#[derive(Clone, Copy)]
struct Measured {
    lateness: Figures,
    /// CPU time of `takt top` in each second, in nanoseconds.
    part: Option<i64>,
    missed: u64,
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("top", &args.common)?;
    let quick = lab.session.quick;
    let (tasks, length) = if quick { (args.tasks.min(TASKS_QUICK), LENGTH_QUICK) } else { (args.tasks, LENGTH) };
    let file = workload(&lab, tasks)?;
    let mut rounds: [Vec<Measured>; 3] = Default::default();
    for round in 1..=lab.session.rounds {
        for step in 0..RUNS.len() {
            // Each kind comes first, second and third in turn.
            let kind = (step + round as usize) % RUNS.len();
            lab.session.round(round, RUNS[kind]);
            rounds[kind].push(measure(&lab, &file, length, RUNS[kind] == "watched")?);
        }
    }
    let late: Vec<Figures> = rounds
        .iter()
        .map(|kind| Figures::median(&kind.iter().map(|measured| measured.lateness).collect::<Vec<_>>()))
        .collect();
    let parts = rounds[2].iter().filter_map(|measured| measured.part);
    let part = super::figures::median(parts);
    let head = ["run", "instants", "p50", "p99", "max"].map(Cell::from).to_vec();
    let row = |(name, figures): (&&str, &Figures)| {
        let count = Cell::from(figures.count.to_string());
        [Cell::from(*name), count].into_iter().chain(figures.cells()).collect::<Vec<_>>()
    };
    let rows = std::iter::once(head).chain(RUNS.iter().zip(&late).map(row)).collect();
    let [alone, control, watched] = [late[0].p99, late[1].p99, late[2].p99];
    let limit = (alone * 11 / 10).max(alone + (alone - control).abs());
    let claims = [
        Claim {
            what: "p99 of the lateness beside takt top".into(),
            measured: cell(watched),
            limit: vec!["1.1 x ".into(), cell(alone), " or the control's = ".into(), cell(limit)],
            holds: (!quick).then_some(watched <= limit),
        },
        Claim {
            what: "CPU time of takt top in a second".into(),
            measured: cell(part),
            limit: vec![cell(PART_MAX)],
            holds: (!quick).then_some(part <= PART_MAX),
        },
    ];
    let settings = format!("{tasks} tasks of one process each for {length}; `takt top` draws each {INTERVAL}");
    let kind = |(name, rounds): (&&str, &Vec<Measured>)| {
        let round = |measured: &Measured| json!({"lateness_ns": measured.lateness.json(), "top_cpu_ns_per_s": measured.part, "missed": measured.missed});
        json!({"run": name, "rounds": rounds.iter().map(round).collect::<Vec<_>>()})
    };
    let results = json!({
        "tasks": tasks, "runs": RUNS.iter().zip(&rounds).map(kind).collect::<Vec<_>>(),
        "p99_ns": {"alone": alone, "control": control, "watched": watched}, "top_cpu_ns_per_s": part,
    });
    lab.show(&settings, &[("lateness of the scheduler at planned instants".into(), rows)], &claims, &results)
}

/// Tasks that together use a tenth of the CPU and never wait for each other.
fn workload(lab: &Lab, tasks: u32) -> Result<std::path::PathBuf, Failure> {
    let burn = lab.cmd(&lab.own(&["burn", "--runtime", "50us"]));
    let period = Span::from_ms(100) * i64::from(tasks.div_ceil(200));
    let mut yaml = format!("policy: edf\ncpus: {}\ninit_timeout: 100s\ntasks:\n", lab.cpu);
    for task in 0..tasks {
        let offset = period.ns() * i64::from(task) / i64::from(tasks);
        let _ = writeln!(
            yaml,
            "- {{name: t{task:04}, period: {}ns, offset: {offset}ns, runtime: 100us, init: yes, cmd: {burn}}}",
            period.ns()
        );
    }
    lab.workload(&yaml)
}

fn measure(lab: &Lab, file: &Path, length: Span, is_watched: bool) -> Result<Measured, Failure> {
    let (trace, output) = (lab.path("jsonl"), lab.path("json"));
    let options = RunOptions { duration: Some(length), ..RunOptions::default() };
    let mut command = lab.takt_run(file, &trace, options);
    let mut run = Child(command.stdout(File::create(&output)?).spawn()?);
    let begin = Instant::now();
    while start_of(&trace)?.is_none() {
        if run.0.try_wait()?.is_some() || begin.elapsed() > START {
            return Err(failed("`takt run` has not started its processes"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let part = if is_watched { Some(watch(lab, run.0.id(), length)?) } else { None };
    if !run.0.wait()?.success() {
        return Err(failed("`takt run` has failed"));
    }
    let said: Value =
        serde_json::from_slice(&fs::read(&output)?).map_err(|e| failed(&format!("`takt run` said: {e}")))?;
    let late = &said["lateness_ns"];
    let figure = |key: &str| late[key].as_i64().unwrap_or_default();
    let lateness =
        Figures { count: figure("count") as usize, p50: figure("p50"), p99: figure("p99"), max: figure("max") };
    fs::remove_file(&trace)?;
    Ok(Measured { lateness, part, missed: said["jobs"]["missed"].as_u64().unwrap_or_default() })
}

fn failed(why: &str) -> Failure {
    Failure::machine(Code::SystemError, why, "see `takt doctor`, or ask for fewer `--tasks`")
}

/// Watches a run from a terminal of its own until shortly before its end. Returns the CPU time of that in each second.
fn watch(lab: &Lab, run: u32, length: Span) -> Result<i64, Failure> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).map_err(io::Error::from)?;
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).map_err(io::Error::from)?;
    let size = Winsize { ws_row: 50, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).map_err(io::Error::from)?;
    let name = ptsname(&terminal, Vec::new()).map_err(io::Error::from)?;
    let other = File::options().read(true).write(true).open(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())))?;
    let args = lab.own(&["top", "--run", &run.to_string(), "--interval", INTERVAL, "--sort", "util"]);
    let mut command = Command::new(&args[0]);
    command.args(&args[1..]).env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").stderr(Stdio::null());
    let mut top = Child(command.stdin(other.try_clone()?).stdout(other).spawn()?);
    // The command holds the other end open, too.
    drop(command);
    let drawn = std::thread::spawn(move || {
        let (mut terminal, mut bytes, mut drawn) = (File::from(terminal), [0; 1 << 16], 0_usize);
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            drawn += count;
        }
        drawn
    });
    // Its start and the end of the run are not part of it.
    std::thread::sleep(Duration::from_millis(500));
    let (before, begin) = (cpu_time(top.0.id())?, Instant::now());
    let rest = Duration::from_nanos(length.ns().unsigned_abs()).saturating_sub(Duration::from_secs(1));
    std::thread::sleep(rest.min(Duration::from_secs(15)));
    let (used, passed) = (cpu_time(top.0.id())? - before, begin.elapsed());
    if top.0.try_wait()?.is_some() {
        return Err(failed("`takt top` has ended before the run"));
    }
    drop(top);
    match drawn.join() {
        Ok(1000..) => Ok((i128::from(used.ns()) * 1_000_000_000 / passed.as_nanos().max(1) as i128) as i64),
        _ => Err(failed("`takt top` has drawn nothing")),
    }
}

/// CPU time of all threads of a process.
fn cpu_time(pid: u32) -> Result<Span, Failure> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: i64 = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<i64>().ok()).sum();
    Ok(Span::from_ms(ticks * 1000 / rustix::param::clock_ticks_per_second() as i64))
}
