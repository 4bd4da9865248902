//! The processes that `takt bench` measures with; not for people.

use super::burn::burn;
use crate::clock::sleep_until;
use crate::failure::Failure;
use crate::files;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt::{self, Class};
use takt_linux::timer::{cpu_now, now};

/// Internal
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    probe: Probe,
}

#[derive(clap::Subcommand, Debug)]
enum Probe {
    /// Call the scheduler so many times in each way, and write down how long it took
    Calls { count: usize, out: PathBuf },
    /// Execute so many real-time segments, and write down how long their calls took
    Segments { count: usize, out: PathBuf },
    /// Spin, and write down both ends of each pause longer than the threshold
    Gaps {
        out: PathBuf,
        #[arg(value_parser = duration)]
        threshold: Span,
    },
    /// Do a fixed amount of work, and write down start, end and CPU time
    Work {
        iterations: u64,
        out: PathBuf,
        #[arg(long)]
        cpu: Option<usize>,
    },
    /// Burn CPU time in each period by the kernel's own scheduling, and write down each job's response time
    Periodic(Periodic),
    /// Start so many sleepers by a plain loop, say how long it took, and end them when standard input ends
    Spawn { count: usize },
    /// Make decisions between marks, for a tracer to count instructions
    Decide(super::bench::decide::Observed),
    /// Act the jobs of a workload's task in SCHED_DEADLINE, and write down when they ran
    Deadline(super::bench::deadline::Worker),
    /// Keep these CPUs busy until the parent is gone
    Hog {
        #[arg(required = true)]
        cpus: Vec<usize>,
    },
    /// Become a program that comes before all others of the ordinary class, and ends with its parent
    Ahead {
        #[arg(required = true, last = true)]
        words: Vec<OsString>,
    },
}

#[derive(clap::Args, Debug)]
struct Periodic {
    out: PathBuf,
    #[arg(long, value_parser = duration)]
    period: Span,
    #[arg(long, value_parser = duration)]
    runtime: Span,
    #[arg(long)]
    count: usize,
    /// The first release, in nanoseconds of the monotonic clock
    #[arg(long)]
    start: i64,
    #[arg(long)]
    cpu: usize,
    /// Priority in SCHED_FIFO
    #[arg(long)]
    priority: u8,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.probe {
        Probe::Calls { count, out } => super::bench::calls::probe(*count, out),
        Probe::Segments { count, out } => super::bench::calls::probe_segments(*count, out),
        Probe::Gaps { out, threshold } => gaps(out, *threshold),
        Probe::Work { iterations, out, cpu } => work(*iterations, out, *cpu),
        Probe::Periodic(args) => periodic(args),
        Probe::Spawn { count } => spawn(*count),
        Probe::Decide(observed) => observed.run(),
        Probe::Deadline(worker) => worker.run(),
        Probe::Hog { cpus } => hog(cpus),
        Probe::Ahead { words } => ahead(words),
    }?;
    Ok(Verdict::Done)
}

fn gaps(out: &PathBuf, threshold: Span) -> Result<(), Failure> {
    let file = OpenOptions::new().create(true).append(true).open(out);
    let mut file = file.map_err(|e| Failure::file("write", out, &e))?;
    let mut last = now();
    loop {
        let next = now();
        if next - last > threshold {
            // One write, so that a kill cannot leave half a record.
            let mut record = [0; 16];
            record[..8].copy_from_slice(&last.ns().to_ne_bytes());
            record[8..].copy_from_slice(&next.ns().to_ne_bytes());
            file.write_all(&record)?;
        }
        last = next;
    }
}

fn work(iterations: u64, out: &Path, cpu: Option<usize>) -> Result<(), Failure> {
    if let Some(cpu) = cpu {
        rt::set_affinity(0, &CpuSet::single(cpu))?;
    }
    let (start, used) = (now(), cpu_now());
    let mut state = 1u64;
    for _ in 0..iterations {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    let (used, end) = (cpu_now() - used, now());
    files::write(out, format!("{} {} {}\n", start.ns(), end.ns(), used.ns()))
}

fn periodic(args: &Periodic) -> Result<(), Failure> {
    let mut responses = Vec::with_capacity(args.count);
    rt::set_affinity(0, &CpuSet::single(args.cpu))?;
    rt::set_class(0, Class::Fifo(args.priority))?;
    for job in 0..args.count as i64 {
        let release = Span::from_ns(args.start + job * args.period.ns());
        sleep_until(release);
        burn(args.runtime);
        responses.push(now() - release);
    }
    rt::set_class(0, Class::Other)?;
    let lines: String = responses.iter().map(|r| format!("{}\n", r.ns())).collect();
    files::write(&args.out, lines)
}

fn spawn(count: usize) -> Result<(), Failure> {
    let began = now();
    let mut children = Vec::with_capacity(count);
    let mut failed = None;
    for _ in 0..count {
        let mut command = Command::new("sh");
        command.args(["-c", "exec sleep 100000"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => children.push(child),
            Err(e) => {
                failed = Some(e);
                break;
            }
        }
    }
    let took = now() - began;
    let said = if failed.is_none() { writeln!(io::stdout(), "{}", took.ns()) } else { Ok(()) };
    if said.is_ok() && failed.is_none() {
        // The process that started this has seen the number when it closes its end, or has ended.
        let _ = io::stdin().read(&mut [0]);
    }
    for child in &mut children {
        let _ = child.kill();
    }
    for child in &mut children {
        let _ = child.wait();
    }
    failed.map_or(said, Err).map_err(Failure::from)
}

fn hog(cpus: &[usize]) -> Result<(), Failure> {
    rt::set_affinity(0, &cpus.iter().copied().collect())?;
    let parent = rustix::process::getppid();
    while rustix::process::getppid() == parent {
        burn(Span::from_ms(10));
    }
    Ok(())
}

fn ahead(words: &[OsString]) -> Result<(), Failure> {
    use rustix::process::{Signal, set_parent_process_death_signal, setpriority_process, setsid};
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(io::Error::from)?;
    // Where the kernel shares CPUs between sessions first, nice values count within one session only. The new one has a value, too. Where
    // it does not, or this process may not, nothing else changes, and the bench sees what was lost.
    let _ = setsid();
    let _ = std::fs::write("/proc/self/autogroup", "-20");
    let _ = setpriority_process(None, -20);
    Err(Command::new(&words[0]).args(&words[1..]).exec().into())
}
