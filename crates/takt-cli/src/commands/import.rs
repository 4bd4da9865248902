//! `takt import`: task sets of other systems as workloads.

use crate::failure::Failure;
use crate::input::{duration, warn};
use crate::outcome::{Outcome, Verdict};
use crate::progress::Progress;
use std::io::{self, Write};
use std::path::PathBuf;
use takt_core::cpus::MAX_CPUS;
use takt_core::model::PolicySpec;
use takt_core::time::Span;
use takt_workload::import::{chronos, litmus};
use takt_workload::{Diagnostic, Options, Source, Workload};

/// Turn a task set of another system into a workload, on standard output
///
/// Warnings on standard error name everything that has no counterpart in a workload. `takt sim`, `check` and `sweep` also read
/// ChronOS task sets directly, at full usage and without their locks.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    format: Format,
}

#[derive(clap::Subcommand, Debug)]
enum Format {
    /// A task set of ChronOS's test application: lines `T cpus group wss period usage utility [locks [handler's utility]]`
    ///
    /// Brackets hold the options of that program.
    Chronos(ChronosArgs),
    /// A shell script that calls LITMUS^RT's rtspin and rt_launch
    Litmus(LitmusArgs),
}

#[derive(clap::Args, Debug)]
struct ChronosArgs {
    /// The task set
    file: PathBuf,
    /// Takt's name of a policy, or ChronOS's of its scheduler, such as GEDF [-s]
    #[arg(long, value_parser = scheduler)]
    policy: PolicySpec,
    /// Kernel whose scheduler is meant. The utility-accrual schedulers of ChronOS 3.0 abort late jobs at the next event. HVDF of the
    /// course tree of 2017, from which the public measurements are, lets them continue
    #[arg(long, value_enum, default_value_t = Version::V3_0)]
    version: Version,
    /// Part of its usage that each job executes, in percent [-c]
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = usage)]
    usage: u32,
    /// Take the locks; part of each job in critical sections, in percent [-l]
    #[arg(long, value_name = "PERCENT", value_parser = section)]
    locks: Option<u32>,
    /// Hold the locks of a job together instead of one after another [-n]
    #[arg(long, requires = "locks")]
    nested: bool,
    /// Priority inheritance: the holder of a lock inherits the urgency of the waiting jobs [-p]
    #[arg(long, requires = "locks")]
    inheritance: bool,
    /// Give aborted jobs handlers, with this runtime for each lock of the set, such as 50us [-h]
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    handlers: Option<Span>,
    /// Length of a run, such as 20s [-r]
    #[arg(long, value_parser = duration)]
    duration: Option<Span>,
    /// Number of CPUs (CPU 0 to N-1); by default the CPUs that the file names
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    cpus: Option<u16>,
}

#[derive(clap::Args, Debug)]
struct LitmusArgs {
    /// The script
    file: PathBuf,
    /// Policy, such as g-edf or c-edf:cluster=4; by default that of the plugin that the script sets
    #[arg(long, value_parser = takt_workload::policy_from_text)]
    policy: Option<PolicySpec>,
    /// Number of CPUs (CPU 0 to N-1); by default those that the script names
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    cpus: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum Version {
    /// ChronOS 3.0, with all its schedulers
    #[value(name = "3.0")]
    V3_0,
    /// The course tree of 2017, which has FIFO, RMA, EDF, HVDF, GFIFO and GRMA
    #[value(name = "2017")]
    Course2017,
}

impl From<Version> for chronos::Version {
    fn from(version: Version) -> chronos::Version {
        match version {
            Version::V3_0 => chronos::Version::V3_0,
            Version::Course2017 => chronos::Version::Course2017,
        }
    }
}

fn scheduler(name: &str) -> Result<PolicySpec, String> {
    chronos::scheduler(name)
        .map_or_else(|| takt_workload::policy_from_text(name), Ok)
        .map_err(|fault| fault.to_string())
}

/// A whole number of percent, with or without the sign.
fn percent(text: &str, most: u32) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let value = number.parse::<u32>().ok().filter(|n| (1..=most).contains(n));
    value.ok_or_else(|| format!("a whole number from 1 to {most} is wanted"))
}

fn usage(text: &str) -> Result<u32, String> {
    percent(text, chronos::MAX_USAGE)
}

fn section(text: &str) -> Result<u32, String> {
    percent(text, 100)
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.format {
        Format::Chronos(args) => import_chronos(args),
        Format::Litmus(args) => import_litmus(args),
    }
}

fn import_chronos(args: &ChronosArgs) -> Outcome {
    let source = Source::read(&args.file).map_err(|u| Failure::unreadable(&u))?;
    let version = chronos::Version::from(args.version);
    let run = chronos::Run {
        usage: args.usage,
        locks: args.locks,
        nested: args.nested,
        inheritance: args.inheritance,
        handlers: args.handlers,
        duration: args.duration,
    };
    let options = Options { policy: Some(args.policy), cpus: args.cpus.map(usize::from), ..Options::default() };
    let origin =
        format!("the ChronOS task set {} at a usage of {} %, for {}", source.name, args.usage, version.title());
    write(&source, || chronos::load_for(version, &source, &run, &options), &origin)
}

fn import_litmus(args: &LitmusArgs) -> Outcome {
    let source = Source::read(&args.file).map_err(|u| Failure::unreadable(&u))?;
    let options = Options { policy: args.policy, cpus: args.cpus.map(usize::from), ..Options::default() };
    let origin = format!("the calls of rtspin and rt_launch in {}", source.name);
    write(&source, || litmus::load(&source, &options), &origin)
}

fn write(source: &Source, read: impl Fn() -> Result<Workload, Vec<Diagnostic>>, origin: &str) -> Outcome {
    let progress = Progress::busy("reading the task set");
    let read = read();
    progress.finish();
    let workload = read.map_err(|faults| Failure::diagnostics(source, &faults))?;
    warn(source, &workload.warnings);
    let origin: String = origin.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let mut out = io::stdout().lock();
    write!(out, "# Imported from {origin}.\n{}", takt_workload::canonical(&workload))?;
    Ok(Verdict::Done)
}
