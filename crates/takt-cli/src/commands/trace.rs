//! `takt trace`: what a simulation or a run recorded.

use crate::failure::Failure;
use crate::input::{Input, duration};
use crate::{Outcome, Verdict};
use serde_json::json;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use takt_core::time::{Span, Time};
use takt_trace::gantt::{SvgOptions, TextOptions};
use takt_trace::{Format, Trace, check, diff, gantt, summary};

/// Show, convert, check or compare traces
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Draw a trace in the terminal, with its counts
    Show {
        /// A .jsonl or .csv trace
        trace: PathBuf,
        /// First instant drawn
        #[arg(long, value_parser = takt_workload::parse_duration)]
        from: Option<Span>,
        /// Last instant drawn
        #[arg(long, value_parser = duration)]
        to: Option<Span>,
        /// Columns
        #[arg(long, default_value_t = 100)]
        width: u16,
    },
    /// Write a trace in another format: .pftrace, .jsonl, .csv or .svg
    Convert {
        /// A .jsonl or .csv trace
        from: PathBuf,
        /// Where to write; the ending names the format
        to: PathBuf,
    },
    /// Check a trace against the rules of scheduling, and against its workload
    Check {
        /// A .jsonl or .csv trace
        trace: PathBuf,
        /// The workload that was simulated or run
        file: Option<PathBuf>,
        /// How late the real world may be behind the plan
        #[arg(long, default_value = "1ms", value_parser = takt_workload::parse_duration)]
        tolerance: Span,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Compare the schedules of two traces: order, and instants within a tolerance
    Diff {
        /// A .jsonl or .csv trace
        a: PathBuf,
        /// Another one
        b: PathBuf,
        /// Instants that differ by at most this are equal
        #[arg(long, default_value = "1ms", value_parser = takt_workload::parse_duration)]
        tolerance: Span,
        /// Share of points, in percent, that may differ by more
        #[arg(long, default_value_t = 0)]
        allow: u8,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = io::stdout().lock();
    match &args.command {
        Command::Show { trace, from, to, width } => {
            let trace = read(trace)?;
            let options = TextOptions {
                width: usize::from(*width),
                from: Time::ZERO + from.unwrap_or(Span::ZERO),
                to: to.map(|to| Time::ZERO + to),
                color: io::stdout().is_terminal(),
            };
            write!(out, "{}", gantt::text(&trace, &options))?;
            let total = summary::summarize(&trace).total;
            writeln!(
                out,
                "\nreleased {}, completed {}, met {}, missed {}, aborted {}, dispatches {}, preemptions {}, migrations {}",
                total.released,
                total.completed,
                total.met,
                total.missed,
                total.aborted,
                total.dispatches,
                total.preemptions,
                total.migrations
            )?;
            if trace.footer.is_none() {
                writeln!(out, "note: the trace has no end; its writer was interrupted")?;
            }
            Ok(Verdict::Done)
        }
        Command::Convert { from, to } => {
            let trace = read(from)?;
            convert(&trace, to)?;
            Ok(Verdict::Done)
        }
        Command::Check { trace: path, file, tolerance, json } => {
            let trace = read(path)?;
            let system = match file {
                None => None,
                Some(file) => Some(workload_of(&trace, file)?),
            };
            let findings = check::check(&trace, system.as_ref(), *tolerance);
            if *json {
                let all: Vec<_> = findings
                    .iter()
                    .map(|f| json!({"at_ns": f.at.ns(), "task": f.task, "rule": f.rule, "message": f.message}))
                    .collect();
                writeln!(out, "{}", json!({"records": trace.records.len(), "findings": all}))?;
            } else {
                findings.iter().try_for_each(|f| writeln!(out, "{f}"))?;
                writeln!(out, "{} records, {} findings", trace.records.len(), findings.len())?;
            }
            Ok(if findings.is_empty() { Verdict::Done } else { Verdict::No })
        }
        Command::Diff { a, b, tolerance, allow, json } => {
            let diff = diff::diff(&read(a)?, &read(b)?, *tolerance);
            let equal = diff.order_equal && diff.beyond * 100 <= diff.compared * usize::from(*allow);
            if *json {
                let points: Vec<_> = diff
                    .points
                    .iter()
                    .map(
                        |p| json!({"task": p.task, "job": p.job, "a_ns": p.a.map(Time::ns), "b_ns": p.b.map(Time::ns)}),
                    )
                    .collect();
                let object = json!({"compared": diff.compared, "beyond": diff.beyond, "order_equal": diff.order_equal,
                    "largest_ns": diff.largest.ns(), "points": points, "places": diff.places});
                writeln!(out, "{object}")?;
            } else {
                writeln!(out, "{diff}")?;
            }
            Ok(if equal { Verdict::Done } else { Verdict::No })
        }
    }
}

fn read(path: &Path) -> Result<Trace, Failure> {
    let hint = "give a trace that `takt sim` or `takt run` wrote as .jsonl or .csv";
    let format = Format::from_path(path)
        .ok_or_else(|| Failure::input(format!("the ending of `{}` names no trace format", path.display()), hint))?;
    let file = File::open(path).map_err(|e| Failure::file("read", path, &e))?;
    takt_trace::read(io::BufReader::new(file), format)
        .map_err(|e| Failure::input(format!("`{}` cannot be read: {e}", path.display()), hint))
}

/// The system of the trace's workload, on the machine and with the policy and seed of the trace.
fn workload_of(trace: &Trace, file: &Path) -> Result<takt_core::model::System, Failure> {
    let header = &trace.header;
    let prefix = match header.scope.as_str() {
        "global" => "g-",
        "partitioned" => "p-",
        _ => "",
    };
    let policy = takt_core::policy::PolicySpec::from_name(&format!("{prefix}{}", header.policy));
    let singles = header.places.iter().filter(|p| p.len() == 1).flat_map(|p| p.iter().collect::<Vec<_>>());
    let machine = singles.collect::<takt_core::cpus::CpuSet>();
    let input = Input { file: file.to_path_buf(), policy, placement: None, cpus: None, seed: Some(header.seed) };
    Ok(input.load(Some(machine))?.system)
}

fn convert(trace: &Trace, to: &Path) -> Result<(), Failure> {
    let wrong = |e: io::Error| Failure::file("write", to, &e);
    if to.extension().is_some_and(|e| e == "svg") {
        return std::fs::write(to, gantt::svg(trace, &SvgOptions::default())).map_err(wrong);
    }
    let format = Format::from_path(to).ok_or_else(|| {
        let message = format!("the ending of `{}` names no trace format", to.display());
        Failure::input(message, "name it .pftrace, .jsonl, .csv or .svg")
    })?;
    let file = File::create(to).map_err(wrong)?;
    let mut writer = takt_trace::writer(format, &trace.header, Box::new(file)).map_err(wrong)?;
    trace.records.iter().try_for_each(|r| writer.record(r)).map_err(wrong)?;
    match &trace.footer {
        Some(footer) => writer.finish(footer).map_err(wrong),
        None => writer.flush().map_err(wrong),
    }
}
