//! `takt latency`: the lateness of a process on this machine, in scenarios that are measured in turn.

pub(crate) mod cyclictest;
pub(crate) mod internal;
pub(crate) mod measure;
mod options;
mod output;
mod scenario;
pub(crate) mod stress;
mod sweep;
mod tracer;
mod windows;

use crate::failure::Failure;
use crate::files;
use crate::outcome::{Outcome, Verdict};
use options::Sweep;
use std::path::{Path, PathBuf};
use takt_core::time::Span;
use takt_latency::{MIN_ROUNDS, Results};
use takt_workload::Code;

/// The medians of two programs that measure the same differ by that at most.
const PROGRAMS_LIMIT: Span = Span::from_us(2);
const DOCTOR: &str = "run it as root; `takt doctor` reports what this machine can do";
/// The samples of a scenario take less than this.
const LONGEST: Span = Span::from_secs(366 * 24 * 3600);

/// Measure the lateness of a time-critical process on this machine, and what reduces it
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

/// Compare two experiments: which quantiles differ beyond noise; status 1 if the second is later somewhere
#[derive(clap::Args, Debug)]
struct Compare {
    /// Results of `takt latency --output`
    first: PathBuf,
    /// Results to compare with them
    second: PathBuf,
    /// Seed of the permutation test
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
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
    // All samples of a scenario together; instants of a longer experiment would not be numbers of nanoseconds.
    let longest = i128::from(args.period.ns()) * i128::from(args.samples);
    if longest > i128::from(LONGEST.ns()) {
        let message = format!("{} samples with a period of {} take more than {LONGEST}", args.samples, args.period);
        return Err(Failure::input(Code::OutOfRange, message, "choose a shorter --period or fewer --samples"));
    }
    if (args.check_order || args.check_cyclictest) && (args.rounds as usize) < MIN_ROUNDS {
        let message = format!("a check needs confidence intervals, and {} rounds give none", args.rounds);
        let hint = format!("choose --rounds {} or more", MIN_ROUNDS);
        return Err(Failure::input(Code::OutOfRange, message, &hint));
    }
    if args.check_trace.is_some() && args.method == measure::Method::Timer {
        let message =
            "--check-trace cannot be combined with `--method timer`: the kernel arms a periodic timer in its interrupt";
        return Err(Failure::input(
            Code::ConflictingOptions,
            message,
            "choose `--method nanosleep` or `--method timerfd`",
        ));
    }
    if args.check_cyclictest || args.scenario.iter().any(|scenario| scenario.place == scenario::Place::Peer) {
        if args.method != measure::Method::Nanosleep || args.echo.is_some() {
            let message = "cyclictest waits by nanosleep, and measures no answers";
            let hint = "leave --method and --echo out, or `cyclictest`";
            return Err(Failure::input(Code::ConflictingOptions, message, hint));
        }
        if args.period.ns() % 1000 != 0 {
            let message = format!("cyclictest has periods of whole microseconds, and not {}", args.period);
            return Err(Failure::input(Code::OutOfRange, message, "choose another --period"));
        }
    }
    let files = [&args.output, &args.csv, &args.histogram, &args.html, &args.tails, &args.density];
    let _outputs = files::ready([], files.into_iter().flatten())?;
    let results = sweep::measure(args)?;
    if results.measured().next().is_none() {
        let reasons = results.scenarios.iter().filter_map(|s| Some(format!("{}: {}", s.name, s.skipped.as_ref()?)));
        let message = format!("no scenario was measured: {}", reasons.collect::<Vec<_>>().join("; "));
        return Err(Failure::machine(Code::MissingCapability, message, DOCTOR));
    }
    let claims = match args {
        Sweep { check_order: true, .. } => takt_latency::order(&results),
        Sweep { check_cyclictest: true, .. } => {
            vec![takt_latency::programs(&results, PROGRAMS_LIMIT.ns())]
        }
        _ => Vec::new(),
    };
    // A full disk costs the one file: the table is printed before, and the other files are written.
    output::results(&results, &claims, args.check_trace, args.json)?;
    let mut written = Ok(());
    let mut write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| {
        let result = path.as_ref().map_or(Ok(()), |path| files::write(path, text()));
        written = std::mem::replace(&mut written, Ok(())).and(result);
    };
    write(&args.output, &|| results.json());
    write(&args.csv, &|| results.csv());
    write(&args.histogram, &|| results.histogram());
    write(&args.html, &|| output::page(&results));
    write(&args.tails, &|| takt_latency::tails(&results));
    write(&args.density, &|| takt_latency::density(&results));
    written?;
    // A scenario that was not measured is no answer to the check.
    let unmeasured: Vec<String> = results.scenarios.iter().filter_map(takt_latency::Scenario::unmeasured).collect();
    if (args.check_order || args.check_cyclictest) && !unmeasured.is_empty() {
        let message = format!("this cannot be checked: {}", unmeasured.join("; "));
        return Err(Failure::machine(Code::MissingCapability, message, DOCTOR));
    }
    let agrees = |limit: Span| results.agreements().all(|(_, agreement)| agreement.holds(limit.ns()));
    let holds = claims.iter().all(|claim| claim.holds) && args.check_trace.is_none_or(agrees);
    Ok(if holds { Verdict::Done } else { Verdict::No })
}

fn read(path: &Path) -> Result<Results, Failure> {
    let text = files::contents(path)?;
    Results::read(&String::from_utf8_lossy(&text)).map_err(|e| {
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
    let notes = takt_latency::unlike(&first, &second);
    output::differences([&first, &second], &differences, &notes, args.json)?;
    let later = differences.iter().any(|d| d.differs && d.second > d.first);
    Ok(if later { Verdict::No } else { Verdict::Done })
}
