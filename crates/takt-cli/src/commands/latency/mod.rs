//! `takt latency`: how late a process is on this machine, in scenarios that are measured in turn.

pub(crate) mod internal;
pub(crate) mod measure;
mod output;
mod scenario;
mod stress;
mod sweep;

use crate::failure::Failure;
use crate::files;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use measure::{Echo, Method};
use scenario::Scenario;
use std::fs;
use std::path::{Path, PathBuf};
use stress::Kind;
use takt_core::time::Span;
use takt_latency::Results;
use takt_workload::Code;

/// Measure how late a time-critical process is on this machine, and what helps
///
/// A task wakes in each period and records its lateness. Scenarios differ in load, class and CPUs; they are measured in turn for several rounds, so
/// that disturbances of the machine meet all of them. `docs/latency.md` describes the scenarios and the figures.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    sweep: Sweep,
}

#[derive(clap::Subcommand, Debug)]
enum Sub {
    Compare(Compare),
}

#[derive(clap::Args, Debug)]
struct Sweep {
    /// Scenarios to measure; by default all
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = scenario_name())]
    scenario: Vec<Scenario>,
    /// Period of the task
    #[arg(long, default_value = "1ms", value_parser = duration)]
    period: Span,
    /// Samples of each scenario, over all rounds
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    samples: u32,
    /// Number of rounds; intervals need at least three
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// CPU of the task; by default the last one
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Priority of the task where it is in SCHED_FIFO
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=98))]
    priority: u8,
    /// The way the task waits for its next period
    #[arg(long, value_enum, default_value_t = Method::Nanosleep)]
    method: Method,
    /// Measure to the answer of a second process
    #[arg(long, value_enum, conflicts_with = "method")]
    echo: Option<Echo>,
    /// Kinds of load
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',', default_value = "cpu")]
    stress: Vec<Kind>,
    /// Threads of each kind of load
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    stress_threads: u16,
    /// A command as load, which is started again whenever it ends
    #[arg(long, value_name = "COMMAND", conflicts_with = "stress")]
    stress_command: Option<String>,
    /// Count samples that are later
    #[arg(long, default_value = "100us", value_parser = duration)]
    limit: Span,
    /// Seed of the confidence intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write all samples and settings, for `takt latency compare`
    #[arg(long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Write all samples
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Write a report with charts that needs no network
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Write the chart of the tails
    #[arg(long, value_name = "FILE.svg")]
    tails: Option<PathBuf>,
    /// Write the chart of the densities
    #[arg(long, value_name = "FILE.svg")]
    density: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Compare two experiments: which quantiles differ beyond noise; status 1 if the second is later somewhere
#[derive(clap::Args, Debug)]
struct Compare {
    /// Results of `takt latency --output`
    first: PathBuf,
    /// Results to compare with them
    second: PathBuf,
    /// Seed of the confidence intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A parser that lists the scenarios in the help.
fn scenario_name() -> impl clap::builder::TypedValueParser<Value = Scenario> {
    use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
    let values = scenario::ALL.map(|scenario| PossibleValue::new(scenario.name).help(scenario.meaning));
    PossibleValuesParser::new(values).map(|name| Scenario::named(&name).expect("it is one of the list"))
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Some(Sub::Compare(args)) => compare(args),
        None => sweep(&args.sweep),
    }
}

fn sweep(args: &Sweep) -> Outcome {
    if args.period < Span::from_us(50) {
        let message = format!("a period of {} leaves the CPU no time for anything else", args.period);
        return Err(Failure::input(Code::OutOfRange, message, "choose a period of at least 50us"));
    }
    let written = [&args.output, &args.csv, &args.html, &args.tails, &args.density];
    files::ready([], written.into_iter().flatten())?;
    let results = sweep::measure(args)?;
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| {
        path.as_ref().map_or(Ok(()), |path| files::write(path, text()))
    };
    write(&args.output, &|| results.json())?;
    write(&args.csv, &|| results.csv())?;
    write(&args.html, &|| takt_latency::html(&results, args.seed))?;
    write(&args.tails, &|| takt_latency::tails(&results))?;
    write(&args.density, &|| takt_latency::density(&results))?;
    output::results(&results, args.seed, args.json)?;
    Ok(Verdict::Done)
}

fn read(path: &Path) -> Result<Results, Failure> {
    let text = fs::read_to_string(path).map_err(|e| Failure::file("read", path, &e))?;
    Results::read(&text).map_err(|e| {
        let message = format!("`{}`: {e}", path.display());
        Failure::input(Code::WrongFormat, message, "give a file that `takt latency --output` wrote")
    })
}

fn compare(args: &Compare) -> Outcome {
    let (first, second) = (read(&args.first)?, read(&args.second)?);
    let differences = takt_latency::compare(&first, &second, args.seed);
    if differences.is_empty() {
        let message = "the two experiments have no scenario in common";
        return Err(Failure::input(Code::OtherRecord, message, "measure the same scenarios with --scenario"));
    }
    output::differences(&first, &second, &differences, args.json)?;
    let later = differences.iter().any(|d| d.differs && d.low > 0);
    Ok(if later { Verdict::No } else { Verdict::Done })
}
