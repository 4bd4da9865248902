//! `takt bench deadline`: the hard constant bandwidth server in simulation, against the kernel's SCHED_DEADLINE.

mod course;
mod jobs;
mod patterns;
mod worker;

use super::figures::{median, text};
use super::lab::{Child, Machine, Session, load};
use super::options::{Form, Rounds};
use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use crate::scratch::Scratch;
use course::{Apart, Course, simulated};
use patterns::{PATTERNS, Pattern};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use takt::report::table;
use takt_core::time::Span;
use takt_linux::rt::{self, Class};
use takt_linux::timer::{now, observe_tick, tick};
use takt_workload::Code;
pub(crate) use worker::Worker;

/// Compare the hard constant bandwidth server in simulation with SCHED_DEADLINE of this machine's kernel
///
/// Processes of class SCHED_DEADLINE execute the jobs of small workloads: they overrun their budgets, sleep, wake up early and late,
/// and yield. The same workloads are simulated under `cbs:enforcement=hard`. A run ends when a process has used the CPU time of a
/// `run` step.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    form: Form,
    /// Largest difference between the end of a run and its end in the simulation; by default one tick of the kernel
    #[arg(long, value_name = "D", value_parser = duration)]
    tolerance: Option<Span>,
}

/// How the kernel comes to see that a budget is exhausted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Noticed {
    /// The process reads its clock of CPU time all the while, and the kernel looks at the budget each time.
    AtOnce,
    /// At the kernel's tick.
    AtTick,
    /// By a timer for the very instant, where the kernel has that switched on (HRTICK_DL).
    ByTimer,
}

impl Noticed {
    fn words(self) -> &'static str {
        match self {
            Noticed::AtOnce => "at once",
            Noticed::AtTick => "at the tick",
            Noticed::ByTimer => "by a timer",
        }
    }
}

/// A pattern under one way of noticing, and what was measured.
struct Case {
    pattern: &'static Pattern,
    noticed: Noticed,
    /// By task, with the budgets noticed as the kernel does, and at once.
    simulated: Vec<Course>,
    exact: Vec<Course>,
    rounds: Vec<Round>,
}

/// The results of one round.
struct Round {
    /// When runs ended, by task.
    ends: Vec<Vec<Span>>,
    /// How far that is from the simulation with budgets noticed as the kernel does, and at once.
    apart: [Apart; 2],
}

impl Case {
    fn new(pattern: &'static Pattern, noticed: Noticed) -> Case {
        let workload = pattern.workload();
        let step = (noticed == Noticed::AtTick).then(tick);
        Case {
            pattern,
            noticed,
            simulated: simulated(&workload, step),
            exact: simulated(&workload, None),
            rounds: vec![],
        }
    }

    fn runs(&self) -> usize {
        self.simulated.iter().map(|c| c.ends.len()).sum()
    }

    fn median(&self, part: impl Fn(&[Apart; 2]) -> Span) -> Span {
        Span::from_ns(median(self.rounds.iter().map(|r| part(&r.apart).ns())))
    }

    fn ends(&self) -> Span {
        self.median(|[own, _]| own.ends)
    }
    fn consumed(&self) -> Span {
        self.median(|[own, _]| own.consumed)
    }
    /// The surplus that the kernel grants over an exact budget by then.
    fn ahead(&self) -> Span {
        self.median(|[_, exact]| exact.ahead)
    }

    fn agrees(&self, tolerance: Span) -> bool {
        self.ends() <= tolerance && self.consumed() <= tolerance && self.ahead() <= tick().max(tolerance)
    }

    fn json(&self, tolerance: Span) -> Value {
        let ns = |ends: &[Span]| ends.iter().map(|e| e.ns()).collect::<Vec<_>>();
        let all = |courses: &[Course]| courses.iter().map(|c| ns(&c.ends)).collect::<Vec<_>>();
        let round = |Round { ends, apart: [own, exact] }: &Round| {
            json!({"measured_ends_ns": ends.iter().map(|e| ns(e)).collect::<Vec<_>>(),
                   "ends_ns": own.ends.ns(), "consumed_ns": own.consumed.ns(), "ahead_of_exact_ns": exact.ahead.ns()})
        };
        json!({
            "pattern": self.pattern.name, "noticed": self.noticed.words(), "runs": self.runs(),
            "simulated_ends_ns": all(&self.simulated), "exact_ends_ns": all(&self.exact),
            "ends_ns": self.ends().ns(), "consumed_ns": self.consumed().ns(), "ahead_of_exact_ns": self.ahead().ns(),
            "agrees": self.agrees(tolerance), "rounds": self.rounds.iter().map(round).collect::<Vec<_>>(),
        })
    }
}

/// Where processes are started from.
struct Stage {
    dir: Scratch,
    exe: std::path::PathBuf,
    /// An instant of the kernel's tick.
    tick: Span,
}

impl Stage {
    fn new() -> Result<Stage, Failure> {
        allowed()?;
        let dir = Scratch::new("takt-bench-")?;
        // A process that a tick preempts sees it too late.
        let observed = std::thread::spawn(|| {
            let _ = rt::set_class(0, Class::Fifo(1));
            observe_tick(8)
        });
        let tick = observed.join().map_err(|_| Failure::status(101, Code::InternalFault, "a thread failed"))?;
        Ok(Stage { dir, exe: std::env::current_exe()?, tick })
    }

    /// The courses of a pattern's tasks on this machine, by task. Time zero is an instant of the tick.
    fn act(&self, pattern: &Pattern, meters: bool) -> Result<Vec<Course>, Failure> {
        /// A machine that is so busy all the time cannot be measured on.
        const TRIES: u32 = 10;
        let file = self.dir.path().join("pattern.yaml");
        std::fs::write(&file, pattern.text()).map_err(|e| Failure::file("write", &file, &e))?;
        for _ in 0..TRIES {
            let courses = self.attempt(&file, pattern.workload().tasks.len(), meters)?;
            if courses.iter().all(|c| !c.pieces.is_empty()) {
                return Ok(courses);
            }
        }
        Err(Failure::machine(
            Code::BusyMachine,
            "processes learn too late when to start",
            "repeat it on a machine with less to do",
        ))
    }

    /// Empty courses if it took too long to tell all processes when to start.
    fn attempt(&self, file: &Path, tasks: usize, meters: bool) -> Result<Vec<Course>, Failure> {
        /// Time to tell them, in which their first budgets get out of date, too.
        const AHEAD: Span = Span::from_ms(100);
        let mut workers = Vec::new();
        for task in 0..tasks {
            let out = self.dir.path().join(format!("{task}.course"));
            let mut command = Command::new(&self.exe);
            command.args(["__probe", "deadline"]).arg(file).arg(task.to_string()).arg(&out);
            command.args(meters.then_some("--meters"));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            workers.push((Child(command.spawn()?), out));
        }
        for (worker, _) in &mut workers {
            // One that fails says nothing, and is asked for the reason below.
            if let Some(stdout) = &mut worker.0.stdout {
                let _ = stdout.read(&mut [0; 16])?;
            }
        }
        let ticks = (now() + AHEAD - self.tick).ns() / tick().ns() + 1;
        let start = self.tick + tick() * ticks;
        for (worker, _) in &mut workers {
            if let Some(stdin) = &mut worker.0.stdin {
                let _ = writeln!(stdin, "{}", start.ns());
            }
        }
        let mut courses = Vec::new();
        for (worker, out) in &mut workers {
            wait(worker)?;
            courses.push(worker::read(out)?);
        }
        Ok(courses)
    }
}

/// Waits for a worker's end, but not for ever.
fn wait(worker: &mut Child) -> Result<(), Failure> {
    let began = Instant::now();
    let most = Duration::from_nanos(jobs::LONGEST.ns() as u64) + Duration::from_secs(2);
    loop {
        if let Some(status) = worker.0.try_wait()? {
            if status.success() {
                return Ok(());
            }
            let mut said = String::new();
            if let Some(mut stderr) = worker.0.stderr.take() {
                stderr.read_to_string(&mut said)?;
            }
            let message = format!("a process of class SCHED_DEADLINE ended with {status}: {}", said.trim());
            return Err(Failure::machine(Code::SystemError, message, "see `takt doctor`"));
        }
        if began.elapsed() > most {
            let message = "a process of class SCHED_DEADLINE does not come to its end";
            return Err(Failure::machine(Code::BusyMachine, message, "repeat it on a machine with less to do"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether the kernel lets this process have the class at all.
fn allowed() -> Result<(), Failure> {
    let small = Class::Deadline { runtime: Span::from_ms(1), deadline: Span::from_ms(100), period: Span::from_ms(100) };
    let tried = std::thread::spawn(move || rt::set_class(0, small)).join();
    let error = match tried.map_err(|_| Failure::status(101, Code::InternalFault, "a thread failed"))? {
        Ok(()) => return Ok(()),
        Err(e) => e,
    };
    Err(match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::BUSY) => Failure::machine(
            Code::MissingCapability,
            "the kernel has no CPU time left to reserve for SCHED_DEADLINE",
            "end what holds reservations, or raise kernel.sched_rt_runtime_us; a half of one CPU is needed",
        ),
        Some(rustix::io::Errno::PERM) => Failure::machine(
            Code::MissingCapability,
            "the kernel refuses SCHED_DEADLINE",
            "run it as root and on all CPUs (not under `taskset` or in a cpuset): sudo takt bench deadline",
        ),
        _ => Failure::machine(
            Code::MissingCapability,
            format!("there is no SCHED_DEADLINE here: {error}"),
            "use a kernel that has it",
        ),
    })
}

/// Whether the end of a budget is noticed at the tick. The first pattern tells, whose budget is exhausted before a tick; of a few
/// times, since the host of a virtual machine may have it noticed early.
fn noticed(stage: &Stage) -> Result<Noticed, Failure> {
    const TIMES: u32 = 3;
    let case = Case::new(&PATTERNS[0], Noticed::AtTick);
    let ahead = |course: &Course| course.apart(&case.exact[0]).map_or(Span::ZERO, |apart| apart.ahead);
    let enough = ahead(&case.simulated[0]) / 2;
    for _ in 0..TIMES {
        if ahead(&stage.act(case.pattern, false)?[0]) > enough {
            return Ok(Noticed::AtTick);
        }
    }
    Ok(Noticed::ByTimer)
}

pub(super) fn run(args: &Args) -> Outcome {
    let before = load();
    let rounds = args.rounds.count(&args.form);
    let session = Session::begin("deadline", rounds, args.form.quick);
    let stage = Stage::new()?;
    let tolerance = args.tolerance.unwrap_or_else(tick);
    let cpus = rt::affinity(0)?.iter().count();
    let unmetered = noticed(&stage)?;
    // Tasks of this class go to whatever CPU of their root domain is free, so that two compete only where there is one.
    let (suited, left_out): (Vec<_>, Vec<_>) =
        PATTERNS.iter().partition(|p| cpus == 1 || p.workload().tasks.len() == 1);
    let both = |p: &&'static Pattern| [Noticed::AtOnce, unmetered].map(|noticed| Case::new(p, noticed));
    let mut cases: Vec<Case> = suited.iter().flat_map(both).collect();
    for round in 1..=rounds {
        for case in &mut cases {
            session.round(round, case.pattern.name);
            let real = stage.act(case.pattern, case.noticed == Noticed::AtOnce)?;
            let from = |courses: &[Course]| {
                let apart = real.iter().zip(courses).map(|(real, course)| real.apart(course));
                apart.reduce(|a, b| Some(a?.or(b?))).flatten()
            };
            let fault = || {
                Failure::status(101, Code::InternalFault, "a process did other runs than its task in the simulation")
            };
            let apart = [from(&case.simulated).ok_or_else(fault)?, from(&case.exact).ok_or_else(fault)?];
            case.rounds.push(Round { apart, ends: real.into_iter().map(|course| course.ends).collect() });
        }
    }
    session.clear();
    let (machine, after) = (Machine::read(), load());
    let agrees = |case: &Case| (!args.form.quick).then(|| case.agrees(tolerance));
    let mut out = io::stdout().lock();
    if args.form.json {
        let limit = |case: &Case| {
            json!({"what": format!("{}, {}", case.pattern.name, case.noticed.words()),
                   "measured": text(case.ends().max(case.consumed()).ns()), "limit": text(tolerance.ns()), "holds": agrees(case)})
        };
        let object = json!({
            "bench": "deadline", "rounds": rounds, "quick": args.form.quick, "machine": machine.json(&before, &after),
            "tick_ns": tick().ns(), "tolerance_ns": tolerance.ns(), "noticed": unmetered.words(),
            "results": {"cases": cases.iter().map(|c| c.json(tolerance)).collect::<Vec<_>>(),
                        "left_out": left_out.iter().map(|p| p.name).collect::<Vec<_>>()},
            "limits": cases.iter().map(limit).collect::<Vec<Value>>(),
        });
        writeln!(out, "{object}")?;
    } else {
        let quick = if args.form.quick { " (quick: the numbers mean nothing)" } else { "" };
        let medians = if rounds == 1 { "1 round".into() } else { format!("medians of {rounds} rounds") };
        writeln!(out, "deadline: {medians}{quick}; cbs:enforcement=hard in simulation against SCHED_DEADLINE")?;
        writeln!(out, "machine: {}, {} CPUs, Linux {}", machine.model, machine.cpus, machine.kernel)?;
        writeln!(out, "load average before {before}, after {after}")?;
        let noticing = if unmetered == Noticed::AtTick { "at its tick" } else { "by a timer for the very instant" };
        writeln!(
            out,
            "the kernel's tick is {}; by itself it notices the end of a budget {noticing}\n",
            text(tick().ns())
        )?;
        let heading = ["pattern", "noticed", "runs", "ends off by", "consumed off by", "ahead of exact", "verdict"];
        let mut rows = vec![heading.map(String::from).to_vec()];
        for case in &cases {
            let verdict = match agrees(case) {
                Some(true) => "agrees",
                Some(false) => "DIFFERS",
                None => "not judged",
            };
            let [ends, consumed, ahead] = [case.ends(), case.consumed(), case.ahead()].map(|s| text(s.ns()));
            let runs = case.runs().to_string();
            rows.push(vec![
                case.pattern.name.into(),
                case.noticed.words().into(),
                runs,
                ends,
                consumed,
                ahead,
                verdict.into(),
            ]);
        }
        table(&mut out, &rows)?;
        writeln!(
            out,
            "\noff by at most {}, ahead by at most {}",
            text(tolerance.ns()),
            text(tick().max(tolerance).ns())
        )?;
        if !left_out.is_empty() {
            let names: Vec<_> = left_out.iter().map(|p| p.name).collect();
            writeln!(out, "not run, because it needs a machine with one CPU: {}", names.join("; "))?;
        }
    }
    let differs = !args.form.quick && cases.iter().any(|c| !c.agrees(tolerance));
    Ok(if args.form.strict && differs { Verdict::No } else { Verdict::Done })
}
