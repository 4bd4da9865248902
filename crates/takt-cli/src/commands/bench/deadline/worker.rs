//! One process of class SCHED_DEADLINE, which does what the jobs of a task do and writes down when it ran.

use super::course::{Course, Piece};
use super::jobs::{LONGEST, jobs};
use crate::clock::sleep_until;
use crate::failure::Failure;
use rustix::thread::sched_yield;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use takt_core::model::{Reservation, Step};
use takt_core::time::Span;
use takt_linux::rt::{self, Class};
use takt_linux::timer::{cpu_now, now};
use takt_workload::{Code, Options, Source};

/// Longer between two readings of the clock is a pause, in which it did not run. An interrupt takes less.
const PAUSE: Span = Span::from_us(150);
/// The options of the hidden subcommand.
#[derive(clap::Args, Debug)]
pub(crate) struct Worker {
    workload: PathBuf,
    /// Number of the task in the workload
    task: usize,
    out: PathBuf,
    /// Read the clock of CPU time all the while
    #[arg(long)]
    meters: bool,
}

impl Worker {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let source = Source::read(&self.workload).map_err(|u| Failure::unreadable(&u))?;
        let workload = takt_workload::load(source.clone(), &Options::default())
            .map_err(|faults| Failure::diagnostics(&source, &faults))?;
        let task = workload.system.tasks.get(self.task);
        let (jobs, class) = task.and_then(|task| Some((jobs(task)?, class(task.reserved()?)))).ok_or_else(|| {
            Failure::status(101, Code::InternalFault, "the task has no list of releases, or nothing is reserved for it")
        })?;
        let mut meter = Meter::new(self.meters);
        // Without the right to it, pages are touched as they come.
        let _ = rt::lock_memory();
        rt::set_class(0, class)?;
        let told = told_start();
        let mut ended = true;
        if let Some(start) = *told.as_ref().unwrap_or(&None) {
            meter.start = start;
            ended = meter.follow(&jobs);
        }
        rt::set_class(0, Class::Other)?;
        told?;
        if !ended {
            return Err(Failure::machine(
                Code::BusyMachine,
                format!("a process of class SCHED_DEADLINE was not done within {LONGEST}"),
                "repeat it on a machine with less to do",
            ));
        }
        write(&self.out, &meter.course)
    }
}

/// Says that it is ready, and receives time zero of the workload, in nanoseconds of the monotonic clock. `None` if that is past.
fn told_start() -> io::Result<Option<Span>> {
    writeln!(io::stdout(), "ready")?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let start = line.trim().parse().map(Span::from_ns).map_err(io::Error::other)?;
    Ok((now() < start).then_some(start))
}

/// The class of a task for which this is reserved.
pub(super) fn class(reservation: Reservation) -> Class {
    let (deadline, period) = (reservation.relative_deadline(), reservation.period);
    Class::Deadline { runtime: reservation.budget, deadline, period }
}

/// Uses CPU time and watches when it is let.
struct Meter {
    start: Span,
    meters: bool,
    course: Course,
}

impl Meter {
    fn new(meters: bool) -> Meter {
        // Nothing is allocated while the kernel schedules by deadlines.
        let course = Course { pieces: Vec::with_capacity(4096), ends: Vec::with_capacity(256) };
        Meter { start: Span::ZERO, meters, course }
    }

    /// Whether all jobs were done in time.
    fn follow(&mut self, jobs: &[(Span, Vec<Step>)]) -> bool {
        for (release, steps) in jobs {
            sleep_until(self.start + *release);
            for step in steps {
                match *step {
                    Step::Run(amount) if !self.burn(amount) => return false,
                    Step::Sleep(length) => sleep_until(now() + length),
                    Step::Yield => sched_yield(),
                    _ => {}
                }
            }
        }
        true
    }

    /// Uses so much CPU time.
    ///
    /// Whenever a process reads its clock of CPU time, the kernel brings its account up to date and takes it off the CPU if
    /// its budget is exhausted. One that does so all the while has exact budgets. Otherwise only the monotonic clock is read, which
    /// tells the same as long as nothing comes between, and the kernel looks at the budget when its own timer tells it to, and
    /// when the process goes to sleep or begins to run again.
    fn burn(&mut self, amount: Span) -> bool {
        let mut used = cpu_now();
        let end = used + amount;
        let mut began = now();
        let (mut read, mut last) = (began, began);
        loop {
            let at = now();
            if at - last > PAUSE {
                self.ran(began, last);
                (used, read, began) = (cpu_now(), at, at);
            } else if self.meters {
                (used, read) = (cpu_now(), at);
            }
            if used + (at - read) >= end {
                self.ran(began, at);
                self.course.ends.push(at - self.start);
                return true;
            }
            if at - self.start > LONGEST || self.course.pieces.len() == self.course.pieces.capacity() {
                return false;
            }
            last = at;
        }
    }

    fn ran(&mut self, from: Span, to: Span) {
        self.course.pieces.push(Piece { from: from - self.start, to: to - self.start });
    }
}

fn write(out: &Path, course: &Course) -> Result<(), Failure> {
    let mut text = String::new();
    for Piece { from, to } in &course.pieces {
        let _ = writeln!(text, "ran {} {}", from.ns(), to.ns());
    }
    for end in &course.ends {
        let _ = writeln!(text, "end {}", end.ns());
    }
    std::fs::write(out, text).map_err(|e| Failure::file("write", out, &e))
}

/// The output of a worker; nothing if it was started too late.
pub(super) fn read(out: &Path) -> Result<Course, Failure> {
    let text = std::fs::read_to_string(out).map_err(|e| Failure::file("read", out, &e))?;
    let mut course = Course::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let word = words.next();
        let mut number = || words.next().and_then(|w| w.parse().ok()).map(Span::from_ns);
        match (word, number(), number()) {
            (Some("ran"), Some(from), Some(to)) => course.pieces.push(Piece { from, to }),
            (Some("end"), Some(end), None) => course.ends.push(end),
            _ => return Err(Failure::status(101, Code::InternalFault, format!("a worker wrote `{line}`"))),
        }
    }
    Ok(course)
}
