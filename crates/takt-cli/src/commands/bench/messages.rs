//! `takt bench messages`: what messages at window starts cost, with a reader that stops reading.

use super::figures::{Figures, cell};
use super::lab::{Child, Claim, Lab};
use super::options::Common;
use crate::failure::Failure;
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use takt::report::Cell;
use takt_core::record::RecordKind;
use takt_core::time::Span;
use takt_trace::Format;
use takt_workload::Code;

/// Measure the lateness of window starts with a message at each, whose reader stops for a second, without messages, and without once more
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of windows per round
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(400..=1_000_000))]
    windows: u32,
}

const WINDOW: Span = Span::from_ms(5);
const WINDOWS_QUICK: u32 = 400;
/// Two hundred windows: several times what a pipe holds of these messages.
const PAUSE: Duration = Duration::from_secs(1);
const MESSAGE: usize = 1000;

/// Three runs of each round. Two are alike, so that their difference is that of this machine.
const RUNS: [&str; 3] = ["alone", "control", "messages"];

/// The figures of one run.
#[derive(Clone, Copy)]
struct Measured {
    lateness: Figures,
    lost: u64,
    /// Messages that the reader has got.
    read: u64,
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("messages", &args.common)?;
    let quick = lab.session.quick;
    let windows = if quick { args.windows.min(WINDOWS_QUICK) } else { args.windows };
    let file = workload(&lab)?;
    let mut rounds: [Vec<Measured>; 3] = Default::default();
    for round in 1..=lab.session.rounds {
        for step in 0..RUNS.len() {
            // Each kind comes first, second and third in turn.
            let kind = (step + round as usize) % RUNS.len();
            lab.session.round(round, RUNS[kind]);
            rounds[kind].push(measure(&lab, &file, windows, RUNS[kind] == "messages")?);
        }
    }
    let of = |kind: &Vec<Measured>| Figures::median(&kind.iter().map(|m| m.lateness).collect::<Vec<_>>());
    let late: Vec<Figures> = rounds.iter().map(of).collect();
    let head = ["run", "windows", "p50", "p99", "max", "windows lost", "messages read"].map(Cell::from).to_vec();
    let row = |((name, figures), rounds): ((&&str, &Figures), &Vec<Measured>)| {
        let sum = |of: fn(&Measured) -> u64| Cell::from(rounds.iter().map(of).sum::<u64>().to_string());
        let mut cells = vec![Cell::from(*name), figures.count.to_string().into()];
        cells.extend(figures.cells());
        cells.extend([sum(|measured| measured.lost), sum(|measured| measured.read)]);
        cells
    };
    let rows = std::iter::once(head).chain(RUNS.iter().zip(&late).zip(&rounds).map(row)).collect();
    let [alone, control, messages] = [late[0].p99, late[1].p99, late[2].p99];
    let limit = (alone * 12 / 10).max(alone + (alone - control).abs());
    let claims = [Claim {
        what: "p99 of the lateness with messages".into(),
        measured: cell(messages),
        limit: vec!["1.2 x ".into(), cell(alone), " or the control's = ".into(), cell(limit)],
        holds: (!quick).then_some(messages <= limit),
    }];
    let settings = format!(
        "windows of {WINDOW}, {windows} per round; a message of {MESSAGE} bytes at each, whose reader stops for {} s in the middle; \
         lateness from the planned instant until the processes of the window are started",
        PAUSE.as_secs()
    );
    let kind = |(name, rounds): (&&str, &Vec<Measured>)| {
        let round = |m: &Measured| json!({"lateness_ns": m.lateness.json(), "windows_lost": m.lost, "read": m.read});
        json!({"run": name, "rounds": rounds.iter().map(round).collect::<Vec<_>>()})
    };
    let results = json!({
        "windows": windows, "runs": RUNS.iter().zip(&rounds).map(kind).collect::<Vec<Value>>(),
        "p99_ns": {"alone": alone, "control": control, "messages": messages},
    });
    lab.show(&settings, &[("lateness of window starts".into(), rows)], &claims, &results)
}

/// Two partitions that alternate, each with a process that uses its whole window.
fn workload(lab: &Lab) -> Result<std::path::PathBuf, Failure> {
    let burn = lab.cmd(&lab.own(&["burn", "--runtime", "1h"]));
    let (mut windows, mut partitions) = (String::new(), String::new());
    for name in ["A", "B"] {
        windows += &format!("  - {{length: {}ns, cpu: {}, sc_partition: {name}}}\n", WINDOW.ns(), lab.cpu);
        partitions += &format!("  - {{name: {name}, processes: [{{budget: {}ns, cmd: {burn}}}]}}\n", WINDOW.ns());
    }
    lab.workload(&format!("realtime: no\nwindows:\n{windows}partitions:\n{partitions}"))
}

fn measure(lab: &Lab, file: &Path, windows: u32, messages: bool) -> Result<Measured, Failure> {
    let (trace, said) = (lab.path("jsonl"), lab.path("err"));
    let own = lab.own(&["run"]);
    let mut command = Command::new(&own[0]);
    command.args(&own[1..]).arg(file).args(["--mechanism", lab.mechanism, "--trace"]).arg(&trace);
    let length = WINDOW * i64::from(windows);
    command.args(["--duration", &format!("{}ns", length.ns())]);
    let message = "m".repeat(MESSAGE);
    if messages {
        command.args(["--on-window", &message, "--on-frame", "frame"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&said)?);
    let mut run = Child(command.spawn()?);
    let mut read = 0;
    if let Some(output) = run.0.stdout.take() {
        read = read_messages(output, &message, Duration::from_nanos(length.ns().unsigned_abs() / 4))?;
    }
    if !run.0.wait()?.success() {
        let text = fs::read_to_string(&said).unwrap_or_default();
        return Err(Failure::machine(
            Code::SystemError,
            format!("`takt run` has failed: {}", text.trim()),
            "see `takt doctor`",
        ));
    }
    let unreadable = |e| Failure::status(101, Code::InternalFault, format!("the trace of `takt run`: {e}"));
    let records = takt_trace::read(File::open(&trace)?, Format::JsonLines).map_err(unreadable)?.records;
    fs::remove_file(&trace)?;
    let (mut late, mut lost) = (Vec::new(), 0);
    for stamped in &records {
        match stamped.record.kind {
            RecordKind::Window { .. } => late.push((stamped.applied - stamped.record.at).ns()),
            RecordKind::WindowsLost { count } => lost += count,
            _ => {}
        }
    }
    Ok(Measured { lateness: Figures::of(late), lost, read })
}

/// Reads to the end of the run, with one pause at the first message after so long. Returns the number of messages.
fn read_messages(output: impl Read, message: &str, after: Duration) -> Result<u64, Failure> {
    let (mut output, mut line, mut read) = (BufReader::with_capacity(4096, output), String::new(), 0);
    let mut began = None;
    let mut paused = false;
    while output.read_line(&mut line)? > 0 {
        if line.trim_end() == message {
            read += 1;
            let began = *began.get_or_insert_with(Instant::now);
            if !paused && began.elapsed() >= after {
                paused = true;
                std::thread::sleep(PAUSE);
            }
        }
        line.clear();
    }
    Ok(read)
}
