//! The processes of `takt latency`; not for people.

use super::measure::{self, Echo, Method};
use super::scenario::Scenario;
use super::stress::{self, Kind};
use crate::outcome::{Outcome, Verdict};
use std::io::{self, Write};
use std::path::PathBuf;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::{disturbance, rt};

/// Internal
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    process: Process,
}

#[derive(clap::Subcommand, Debug)]
enum Process {
    /// Measure, and write numbers to standard output
    Measure(Measure),
    /// Put load on the machine
    Stress {
        kind: Kind,
        threads: usize,
        seconds: u64,
        #[command(flatten)]
        place: Place,
    },
    /// Execute a command as load
    StressCommand {
        command: String,
        seconds: u64,
        #[command(flatten)]
        place: Place,
    },
    /// Answer each message
    Echo { echo: Echo },
}

/// Where load runs.
#[derive(clap::Args, Debug)]
struct Place {
    /// Directory of the group to enter
    #[arg(long)]
    enter: Option<PathBuf>,
    /// CPU to be bound to
    #[arg(long)]
    on: Option<usize>,
}

impl Place {
    fn take(&self) -> io::Result<()> {
        if let Some(group) = &self.enter {
            std::fs::write(group.join("cgroup.procs"), "0")?;
        }
        self.on.map_or(Ok(()), |cpu| rt::set_affinity(0, &CpuSet::single(cpu)))
    }
}

#[derive(clap::Args, Debug)]
struct Measure {
    scenario: String,
    cpu: usize,
    period: i64,
    count: usize,
    priority: u8,
    method: Method,
    #[arg(long)]
    echo: Option<Echo>,
    /// Directory of the set to enter
    #[arg(long)]
    enter: Option<PathBuf>,
    /// Look for gaps instead
    #[arg(long)]
    gaps: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.process {
        Process::Measure(args) => measured(args)?,
        Process::Stress { kind, threads, seconds, place } => {
            place.take()?;
            stress::run(*kind, *threads, *seconds)?;
        }
        Process::StressCommand { command, seconds, place } => {
            place.take()?;
            stress::run_command(command, *seconds)?;
        }
        Process::Echo { echo } => measure::answer(*echo)?,
    }
    Ok(Verdict::Done)
}

/// Numbers of eight bytes: stolen time, then samples.
fn measured(args: &Measure) -> io::Result<()> {
    // Of a killed experiment nothing remains on the CPU.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let scenario = Scenario::named(&args.scenario).ok_or_else(|| io::Error::other("no such scenario"))?;
    let (cpus, period) = (CpuSet::single(args.cpu), Span::from_ns(args.period));
    if let Some(group) = &args.enter {
        std::fs::write(group.join("cgroup.procs"), "0")?;
    }
    if let Some(cpus) = scenario.bound(&cpus) {
        rt::set_affinity(0, &cpus)?;
    }
    // Memory that cannot be locked costs a few page faults, and is no failure.
    let _ = rt::lock_memory();
    rt::set_timer_slack(Span::from_ns(1))?;
    if scenario.nice() != 0 {
        rustix::process::setpriority_process(None, scenario.nice())?;
    }
    let stolen = || disturbance::stolen(&cpus).unwrap_or(Span::ZERO);
    rt::set_class(0, scenario.class(args.priority, period))?;
    let before = stolen();
    let samples = match args.echo {
        _ if args.gaps => measure::gaps(period * args.count as i64, Span::from_us(5)),
        Some(echo) => measure::round_trips(echo, period, args.count)?,
        None => measure::wake(args.method, period, args.count)?,
    };
    let taken = stolen() - before;
    rt::set_class(0, rt::Class::Other)?;
    let bytes: Vec<u8> = [taken.ns()].iter().chain(&samples).flat_map(|number| number.to_le_bytes()).collect();
    io::stdout().lock().write_all(&bytes)
}
