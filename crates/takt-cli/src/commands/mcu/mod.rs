//! `takt mcu`: tables for the microcontroller kernel, images in QEMU, and their traces.

mod emulator;
mod stream;

use super::output::{self, Recorder};
use super::steps;
use crate::failure::Failure;
use crate::files;
use crate::input::{Input, duration, warn};
use crate::outcome::{Outcome, Verdict};
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use takt::header;
use takt::report::{Cell, Summary, table};
use takt_core::model::TaskId;
use takt_core::record::Record;
use takt_core::stats::Responses;
use takt_core::time::{Span, Time};
use takt_core::wire::FigureKind;
use takt_linux::probe::Finding;
use takt_mcu_build::Settings;
use takt_workload::{Code, Diagnostic, Severity, Workload};

/// Make tables for the microcontroller kernel, run images in QEMU, and read their traces
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Print the table that the kernel gets of a workload
    Table {
        #[command(flatten)]
        input: Input,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Start an image in QEMU (mps2-an385), and summarise its trace as `takt run` does
    #[command(name = "run")]
    Emulate {
        /// The image, an ELF file
        image: PathBuf,
        #[command(flatten)]
        read: Read,
        /// Wall-clock time after which the emulator is ended
        #[arg(long, default_value = "2min", value_parser = duration)]
        timeout: Span,
        /// Keep the bytes of the trace
        #[arg(long, value_name = "OUT")]
        stream: Option<PathBuf>,
    },
    /// Turn the bytes of a trace into a trace, steps and a summary
    Decode {
        /// The bytes that the kernel wrote, as by its UART
        stream: PathBuf,
        #[command(flatten)]
        read: Read,
    },
    /// Print the costs of a board as a `costs:` block for the workload
    Calibrate {
        /// The bytes that the kernel wrote
        stream: PathBuf,
        #[command(flatten)]
        input: Input,
    },
}

/// How the bytes of a trace are read.
#[derive(clap::Args, Debug)]
struct Read {
    #[command(flatten)]
    input: Input,
    /// Write the steps, for `takt sim --replay`
    #[arg(long, value_name = "OUT.steps")]
    record: Option<PathBuf>,
    #[command(flatten)]
    output: output::OutputArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Table { input, json } => print_table(input, *json),
        Command::Emulate { image, read, timeout, stream } => {
            let (workload, table) = tabled(&read.input)?;
            let _outputs = ready(read, &workload, [image].into_iter().chain([&read.input.file]), stream.iter())?;
            let ran = emulator::run(image, *timeout)?;
            if let Some(path) = stream {
                files::write(path, &ran.stream)?;
            }
            io::stderr().write_all(&ran.report)?;
            let done = decode(read, &image.display().to_string(), &ran.stream, workload, &table)?;
            if ran.status == 0 {
                return Ok(done);
            }
            let _ = writeln!(io::stderr(), "the image ended with status {}", ran.status);
            Ok(Verdict::No)
        }
        Command::Decode { stream, read } => {
            let (workload, table) = tabled(&read.input)?;
            let _outputs = ready(read, &workload, [stream].into_iter().chain([&read.input.file]), [])?;
            let bytes = files::contents(stream)?;
            decode(read, &stream.display().to_string(), &bytes, workload, &table)
        }
        Command::Calibrate { stream, input } => {
            let (_, table) = tabled(input)?;
            let bytes = files::contents(stream)?;
            calibrate(&stream.display().to_string(), &bytes, &table)
        }
    }
}

/// The findings of `takt doctor` about images for microcontrollers.
pub(crate) fn findings() -> [Finding; 2] {
    emulator::findings()
}

fn ready<'p>(
    read: &'p Read,
    workload: &Workload,
    inputs: impl Iterator<Item = &'p PathBuf>,
    more: impl IntoIterator<Item = &'p PathBuf>,
) -> Result<files::Outputs, Failure> {
    files::ready(inputs, read.output.files("run", &workload.source.name)?.chain(&read.record).chain(more))
}

/// The workload, and its table. A workload that is not schedulable has one, too.
fn tabled(input: &Input) -> Result<(Workload, takt_mcu_build::Table), Failure> {
    let workload = input.load(None)?;
    let settings = Settings { allow_unschedulable: true, ..Settings::default() };
    let table = takt_mcu_build::table(&workload, &settings);
    let table = table.map_err(|faults| Failure::diagnostics(&workload.source, &faults))?;
    let own = |warning: &&Diagnostic| !workload.warnings.contains(warning) && warning.severity == Severity::Warning;
    warn(&workload.source, &table.warnings.iter().filter(own).cloned().collect::<Vec<_>>());
    Ok((workload, table))
}

fn print_table(input: &Input, as_json: bool) -> Outcome {
    let (workload, made) = tabled(input)?;
    let mut out = io::stdout().lock();
    let text = |span: Option<Span>| span.map(|span| span.to_string()).unwrap_or_else(|| "-".into());
    if as_json {
        let tasks = made.tasks.iter().zip(&made.system.tasks).zip(&made.stacks).map(|((name, task), stack)| {
            json!({"name": name, "period_ns": task.arrival.period().map(Span::ns), "deadline_ns": task.deadline.map(Span::ns),
                   "runtime_ns": task.runtime.map(Span::ns), "stack": stack})
        });
        let object = json!({"policy": takt_workload::policy_text(&made.system.policy), "entry": made.path, "hash": format!("{:016x}", made.hash),
                            "bytes": made.bytes.len(), "locks": made.locks, "duration_ns": made.duration.map(Span::ns),
                            "tasks": tasks.collect::<Vec<_>>()});
        writeln!(out, "{object}")?;
        return Ok(Verdict::Done);
    }
    let policy = takt_workload::policy_text(&made.system.policy);
    writeln!(out, "{}: policy {policy} (takt_core::policies::{})", workload.source.name, made.path)?;
    writeln!(out, "table: {} bytes, hash {:016x}, duration {}", made.bytes.len(), made.hash, text(made.duration))?;
    writeln!(out, "locks: {}\n", if made.locks.is_empty() { "none".into() } else { made.locks.join(", ") })?;
    let mut rows = vec![["task", "period", "deadline", "runtime", "stack"].map(Cell::from).to_vec()];
    for ((name, task), stack) in made.tasks.iter().zip(&made.system.tasks).zip(&made.stacks) {
        let times = [task.arrival.period(), task.deadline, task.runtime].map(Cell::from);
        rows.push([&[Cell::from(name.as_str())], &times[..], &[Cell::from(stack.to_string())]].concat());
    }
    table(&mut out, &rows)?;
    Ok(Verdict::Done)
}

/// Reads a stream, and replays its steps: the engine has to decide here as it did on the board.
fn decode(read: &Read, name: &str, bytes: &[u8], mut workload: Workload, table: &takt_mcu_build::Table) -> Outcome {
    let decoded = stream::decode(name, bytes, table)?;
    workload.clear_simulated();
    if let Some(path) = &read.record {
        let mut writer = steps::Writer::new(Some(path), &workload, &workload.system, false);
        writer.begin();
        decoded.steps.iter().for_each(|step| writer.step(step.now, &step.inputs));
        writer.finish(decoded.dropped + u64::from(decoded.damage.is_some()))?;
    }
    let n = workload.tasks.len();
    let mut engine = takt::load::engine(table.system.clone()).map_err(|e| takt::Error::unsuitable(&workload, &e))?;
    let mut responses = Responses::new(n);
    let mut records: Vec<Record> = Vec::new();
    takt_sim::replay(&mut engine, &decoded.steps, &mut (&mut responses, &mut records));
    let differing = decoded.differing(&records);
    let end = decoded.steps.last().map_or(Time::ZERO, |step| step.now);
    let length = end - Time::ZERO;
    let counts: Vec<_> = (0..n as u32).map(|task| engine.counts(TaskId(task))).collect();
    let summary = Summary {
        workload: &workload,
        duration: length,
        counts: &counts,
        responses: &responses.0,
        context_switches: engine.context_switches(),
        windows_lost: 0,
        simulated: false,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut recorder = Recorder::new(&read.output, header::header(&workload, "run", Some(length)), &workload)?;
    recorder.begin(false, |_| ());
    decoded.records.iter().for_each(|record| recorder.record(record));
    if read.output.json {
        let more = json!({"source": "mcu", "records": decoded.records.len(), "differing_from_replay": differing,
                          "dropped": decoded.dropped, "misuses": decoded.misuses, "faults": decoded.faults.len(),
                          "damaged_at_byte": decoded.damage.as_ref().map(|(at, _)| *at), "figures": decoded.figures_json()});
        summary.write_json(more, summary.remarks(), |task| decoded.task_json(task), &mut out)?;
    } else if read.output.for_people() {
        let policy = takt::report::policy(workload.policy());
        writeln!(out, "{name}: {}, policy {policy}, {length} on the board", workload.source.name)?;
        decoded.print(&workload, records.len(), differing, &mut out)?;
        writeln!(out)?;
        summary.print(&mut out)?;
    }
    recorder.finish(end, decoded.dropped, None, &mut out)?;
    out.flush()?;
    let complete = decoded.damage.is_none() && decoded.faults.is_empty() && differing == 0;
    let fails = read.output.strict && summary.fails();
    Ok(if complete && !fails { Verdict::Done } else { Verdict::No })
}

/// The mean costs of an entry into the kernel in which the engine makes a step, as costs of the simulator. An entry after which the last
/// task continues is a run of the scheduler. An entry after which another task runs has a context switch, too.
fn calibrate(name: &str, bytes: &[u8], table: &takt_mcu_build::Table) -> Outcome {
    let decoded = stream::decode(name, bytes, table)?;
    let (same, other) = (decoded.mean(3), decoded.mean(4));
    let Some(least) = same.or(other) else {
        let message = format!("{name}: the stream has no figures about steps");
        return Err(Failure::input(Code::DamagedFile, message, "let the image run to the end of its duration"));
    };
    let rounded = |ticks: u64| {
        let span = decoded.time(ticks);
        takt_workload::duration_text(Span::from_us((span.ns() + 500) / 1000))
    };
    let (outside, steps) = (decoded.figure(FigureKind::Outside, 0), decoded.figure(FigureKind::Steps, 0));
    let scheduler = rounded(least + outside);
    let switch = other.map_or(0, |other| other.saturating_sub(least));
    let mut out = io::stdout().lock();
    let whole = decoded.time(outside);
    writeln!(out, "# Of {steps} steps on the board; of each entry, {whole} are calls, exceptions and registers.")?;
    // The kernel measures what jobs use.
    writeln!(out, "costs: {{scheduler: {scheduler}, context_switch: {}, consumed: no}}", rounded(switch))?;
    Ok(Verdict::Done)
}
