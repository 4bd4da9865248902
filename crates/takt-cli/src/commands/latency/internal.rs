//! The processes of `takt latency`; not for people.

use super::measure::{self, Echo, Method, WakeUp};
use super::scenario::{self, Scenario};
use super::stress::{self, Kind};
use crate::outcome::{Outcome, Verdict};
use rustix::io::Errno;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::{disturbance, rt, timerlat_file};

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
    /// Become cyclictest, which ends with this process's parent
    Cyclictest {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Become `takt run`, which ends with this process's parent
    Schedule {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
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
            enter(group)?;
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
    /// Wait for the timer of the kernel's tracer `timerlat` instead, which measures
    #[arg(long, conflicts_with = "gaps")]
    timerlat: bool,
    /// Write there instead of standard output
    #[arg(long)]
    output: Option<PathBuf>,
}

/// The numbers of a measuring process, as it writes them: eight bytes each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Measured {
    /// Time that the host took from the CPU, in nanoseconds.
    pub(super) stolen: i64,
    /// How many times a quota throttled a group of the process.
    pub(super) throttled: u64,
    /// The process.
    pub(super) pid: u32,
    /// The wake-ups, or gaps, whose lengths are the lateness.
    pub(super) samples: Vec<WakeUp>,
}

impl Measured {
    fn bytes(&self) -> Vec<u8> {
        let head = [self.stolen, self.throttled as i64, i64::from(self.pid)];
        let samples = self.samples.iter().flat_map(|one| [one.planned, one.late]);
        head.into_iter().chain(samples).flat_map(i64::to_le_bytes).collect()
    }

    pub(super) fn read(bytes: &[u8]) -> Measured {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_le_bytes);
        let mut numbers = bytes.chunks_exact(8).map(number);
        let mut next = || numbers.next().unwrap_or(0);
        let (stolen, throttled, pid) = (next(), next() as u64, u32::try_from(next()).unwrap_or(0));
        let numbers: Vec<i64> = numbers.collect();
        let samples = numbers.chunks_exact(2).map(|pair| WakeUp { planned: pair[0], late: pair[1] }).collect();
        Measured { stolen, throttled, pid, samples }
    }
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
        Process::Echo { echo } => {
            // A killed measurement leaves no process that waits for its messages.
            let end = rustix::process::Signal::KILL;
            rustix::process::set_parent_process_death_signal(Some(end)).map_err(io::Error::from)?;
            measure::answer(*echo)?;
        }
        // The signal stays over the execution of another program (PR_SET_PDEATHSIG in prctl(2)).
        Process::Cyclictest { arguments } => {
            let end = rustix::process::Signal::KILL;
            rustix::process::set_parent_process_death_signal(Some(end)).map_err(io::Error::from)?;
            return Err(Command::new("cyclictest").args(arguments).exec().into());
        }
        Process::Schedule { arguments } => {
            let end = rustix::process::Signal::TERM;
            rustix::process::set_parent_process_death_signal(Some(end)).map_err(io::Error::from)?;
            return Err(Command::new("/proc/self/exe").arg("run").args(arguments).exec().into());
        }
    }
    Ok(Verdict::Done)
}

/// The kernel refuses a class or a nice value: the right that this process lacks. `limit` is the option of `ulimit` that grants it to a user (sched(7)).
fn refused(wanted: &str, error: &io::Error, limit: Option<&str>) -> io::Error {
    let root = rustix::process::geteuid().is_root();
    let right = match (Errno::from_io_error(error), limit) {
        (Some(Errno::BUSY), _) => "; the other reservations leave too little of the CPUs".to_owned(),
        (Some(Errno::PERM | Errno::ACCESS), _) if root => {
            "; a group of the v1 cpu controller needs time for real-time classes (cpu.rt_runtime_us)".to_owned()
        }
        (Some(Errno::PERM | Errno::ACCESS), Some(limit)) => {
            format!("; it needs root, CAP_SYS_NICE or a higher `ulimit {limit}`")
        }
        (Some(Errno::PERM | Errno::ACCESS), None) => "; it needs root or CAP_SYS_NICE".to_owned(),
        _ => String::new(),
    };
    io::Error::new(error.kind(), format!("the kernel refuses {wanted}: {error}{right}"))
}

/// Another program can remove the group of an isolation meanwhile.
fn enter(group: &Path) -> io::Result<()> {
    let entered = std::fs::write(group.join("cgroup.procs"), "0");
    entered
        .map_err(|e| io::Error::new(e.kind(), format!("this process cannot enter the group {}: {e}", group.display())))
}

/// Gives this process its class.
fn take(class: rt::Class) -> io::Result<()> {
    let (name, limit) = match class {
        rt::Class::Other => ("SCHED_OTHER".to_owned(), None),
        rt::Class::Idle => ("SCHED_IDLE".to_owned(), None),
        rt::Class::Fifo(priority) => (format!("SCHED_FIFO {priority}"), Some("-r")),
        rt::Class::Deadline { .. } => ("SCHED_DEADLINE".to_owned(), None),
    };
    rt::set_class(0, class).map_err(|e| refused(&name, &e, limit))
}

/// Measures, and writes the numbers of [`Measured`].
fn measured(args: &Measure) -> io::Result<()> {
    let scenario = Scenario::named(&args.scenario).ok_or_else(|| io::Error::other("no such scenario"))?;
    let (cpus, period) = (CpuSet::single(args.cpu), Span::from_ns(args.period));
    let windows = scenario.place == scenario::Place::Windows;
    if !windows {
        // Nothing of a killed experiment remains on the CPU. The watcher of a run ends its processes.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    }
    if let Some(group) = &args.enter {
        enter(group)?;
    }
    if let Some(cpus) = scenario.bound(&cpus) {
        rt::set_affinity(0, &cpus)?;
    }
    // Memory that cannot be locked costs a few page faults, and is no failure.
    let _ = rt::lock_memory();
    rt::set_timer_slack(Span::from_ns(1))?;
    if scenario.nice() != 0 {
        let nice = format!("nice {}", scenario.nice());
        rustix::process::setpriority_process(None, scenario.nice())
            .map_err(|e| refused(&nice, &e.into(), Some("-e")))?;
    }
    // A task that is not bound to one CPU loses time on each of its own.
    let own = rt::affinity(0).unwrap_or(cpus);
    let stolen = || disturbance::stolen(&own).unwrap_or(Span::ZERO);
    let class = if args.gaps { rt::Class::Fifo(args.priority) } else { scenario.class(args.priority, period)? };
    take(class)?;
    let before = (stolen(), disturbance::throttled());
    let samples = match args.echo {
        _ if args.gaps => {
            let gaps = measure::gaps(period * args.count as i64, Span::from_us(5));
            gaps.into_iter().map(|late| WakeUp { planned: 0, late }).collect()
        }
        _ if args.timerlat => {
            measure::wait_in(&timerlat_file(args.cpu), args.count)?;
            Vec::new()
        }
        Some(echo) => measure::round_trips(echo, period, args.count)?,
        None if windows => measure::wake_in_windows(period, args.count)?,
        None => measure::wake(args.method, period, args.count)?,
    };
    rt::set_class(0, rt::Class::Other)?;
    let measured = Measured {
        stolen: (stolen() - before.0).ns(),
        throttled: disturbance::throttled().saturating_sub(before.1),
        pid: std::process::id(),
        samples,
    };
    match &args.output {
        Some(path) => std::fs::write(path, measured.bytes()),
        None => io::stdout().lock().write_all(&measured.bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_class_names_the_right_that_it_needs() {
        let of = |errno: Errno, limit| refused("SCHED_FIFO 50", &errno.into(), limit).to_string();
        let right = if rustix::process::geteuid().is_root() { "cpu.rt_runtime_us" } else { "a higher `ulimit -r`" };
        assert!(of(Errno::PERM, Some("-r")).contains(right), "{}", of(Errno::PERM, Some("-r")));
        assert!(of(Errno::BUSY, None).contains("other reservations"));
        let error = crate::failure::Failure::from(io::Error::other("`x` is refused: standard reason"));
        assert_eq!(stress::reason(error.text().as_bytes()), "`x` is refused: standard reason");
        assert_eq!(stress::reason(b""), "no message");
        assert_eq!(
            of(Errno::INVAL, None),
            format!("the kernel refuses SCHED_FIFO 50: {}", io::Error::from(Errno::INVAL))
        );
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let samples = vec![WakeUp { planned: 5, late: 7 }, WakeUp { planned: 9, late: -1 }];
        let measured = Measured { stolen: 3, throttled: 2, pid: 77, samples };
        assert_eq!(Measured::read(&measured.bytes()), measured);
        assert_eq!(Measured::read(&[]), Measured::default());
    }
}
