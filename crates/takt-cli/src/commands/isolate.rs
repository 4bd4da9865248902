//! `takt isolate`: CPUs for time-critical processes alone, with every change undone exactly.

mod advise;
pub(super) mod common;

use crate::failure::{Failure, colour};
use crate::outcome::{Outcome, Verdict};
use common::{check_steps, failure, look, open, step};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::isolate::{Linux, Request, Step, Undone};
use takt_linux::rt;
use takt_workload::Code;

/// Set CPUs apart for time-critical processes, and undo it exactly
///
/// An isolation is an exclusive CPU set, with tasks, kernel threads, work queues and interrupts moved to the other CPUs. Every change is noted in
/// `/run/takt-isolate/journal` before it is made, so it can be undone after a crash, too. It lasts until `undo` or the next boot.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Sub,
}

#[derive(clap::Subcommand, Debug)]
enum Sub {
    Create(Create),
    #[command(name = "run")]
    Execute(Execute),
    Move(Move),
    Status(Status),
    Verify(Verify),
    Undo(Undo),
    Advise(advise::Args),
    #[command(name = "__sample", hide = true)]
    Sample(advise::Sample),
}

/// Create an isolation
#[derive(clap::Args, Debug)]
struct Create {
    /// CPUs to isolate, such as 1 or 2-3,5
    #[arg(long, value_name = "LIST", value_parser = takt_workload::parse_cpus)]
    cpus: CpuSet,
    /// Name of the isolation
    #[arg(long, default_value = "rt")]
    name: String,
    /// Leave a step out
    #[arg(long, value_name = "STEP", value_parser = step())]
    without: Vec<Step>,
    /// Add a step: one that costs energy or safety is not carried out unless it is asked for
    #[arg(long, value_name = "STEP", value_parser = step())]
    with: Vec<Step>,
    /// Balance the isolated processes among the isolated CPUs
    #[arg(long)]
    balance: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Execute a command on isolated CPUs
///
/// The command replaces Takt. Its timers have no slack.
#[derive(clap::Args, Debug)]
struct Execute {
    /// Name of the isolation; not needed if there is one only
    #[arg(long)]
    name: Option<String>,
    /// Keep the timer slack of this process, mostly 50 us
    #[arg(long)]
    keep_slack: bool,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Move a process to isolated CPUs, until the isolation is undone
#[derive(clap::Args, Debug)]
struct Move {
    /// Number of the process
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// Name of the isolation; not needed if there is one only
    #[arg(long)]
    name: Option<String>,
}

/// List the isolations and the processes in them
#[derive(clap::Args, Debug)]
struct Status {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The isolation that a command means
#[derive(clap::Args, Debug)]
struct Which {
    /// Name of the isolation; not needed if there is one only
    #[arg(value_name = "NAME")]
    plain: Option<String>,
    /// The same
    #[arg(long, conflicts_with = "plain")]
    name: Option<String>,
}

impl Which {
    fn name(&self) -> Option<&str> {
        self.plain.as_deref().or(self.name.as_deref())
    }
}

/// Check whether each step of an isolation still holds; status 1 if one does not
#[derive(clap::Args, Debug)]
struct Verify {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Undo an isolation: every setting gets its value from before, and every process its place
#[derive(clap::Args, Debug)]
struct Undo {
    #[command(flatten)]
    which: Which,
    /// Undo all isolations
    #[arg(long, conflicts_with_all = ["plain", "name"])]
    all: bool,
}

/// Undoes the isolations that dead processes have left unfinished, and those of dead runs. Does nothing for a user who is not root.
pub(crate) fn recover() -> Result<Undone, Failure> {
    if !Linux::journal().exists() || !rustix::process::geteuid().is_root() {
        return Ok(Undone::default());
    }
    open()?.recover().map_err(failure)
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Sub::Create(args) => create(args),
        Sub::Execute(args) => run_in(args),
        Sub::Move(args) => move_in(args),
        Sub::Status(args) => status(args),
        Sub::Verify(args) => verify(args),
        Sub::Undo(args) => undo(args),
        Sub::Advise(args) => advise::run(args),
        Sub::Sample(args) => advise::sample(args),
    }
}

fn create(args: &Create) -> Outcome {
    let mut isolator = open()?;
    check_steps(&args.with, &args.without)?;
    let wanted = |step: &Step| (step.is_default() || args.with.contains(step)) && !args.without.contains(step);
    let request = Request {
        name: args.name.clone(),
        cpus: args.cpus,
        steps: Step::all().filter(wanted).collect(),
        balanced: args.balance,
        owner: None,
    };
    // A signal in the middle ends with nothing changed, and not with half of it.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let created = isolator.create(&request).map_err(failure)?;
    if interrupted.load(Ordering::Relaxed) {
        isolator.undo(&args.name).map_err(failure)?;
        return Err(Failure::status(130, Code::CommandRefused, "interrupted: the isolation is undone"));
    }
    let remaining = isolator.remaining(&args.name).map_err(failure)?;
    let mut out = io::stdout().lock();
    if args.json {
        let steps: Vec<&str> = request.steps.iter().map(|step| step.name()).collect();
        let object = json!({"name": args.name, "cpus": args.cpus.to_string(), "group": created.group, "steps": steps,
            "settings": created.settings, "threads": created.threads, "notes": created.notes, "remaining": remaining,
            "boot_parameters": created.boot});
        writeln!(out, "{object}")?;
        return Ok(Verdict::Done);
    }
    writeln!(out, "isolation {}: CPU {} ({})", args.name, args.cpus, created.group)?;
    writeln!(out, "{} settings changed, {} threads moved or bound", created.settings, created.threads)?;
    for note in created.notes.iter().chain(&remaining) {
        writeln!(out, "note: {note}")?;
    }
    if !created.boot.is_empty() {
        writeln!(out, "only a boot parameter could do more: {}", created.boot.join(" "))?;
    }
    writeln!(out, "undo: takt isolate undo --name {}", args.name)?;
    Ok(Verdict::Done)
}

/// The entrance of an isolation, looked up by any user: the kernel decides who may enter.
fn entrance(name: Option<&str>) -> Result<String, Failure> {
    let isolator = look()?;
    let name = isolator.choose(name).map_err(failure)?;
    isolator.entrance(&name).map_err(failure)
}

fn run_in(args: &Execute) -> Outcome {
    let group = entrance(args.name.as_deref())?;
    let file = PathBuf::from(group).join("cgroup.procs");
    std::fs::write(&file, "0").map_err(|e| {
        let message = format!("this process cannot enter the isolation: {}: {e}", file.display());
        Failure::machine(Code::MissingCapability, message, "run it as root: sudo takt isolate run …")
    })?;
    if !args.keep_slack {
        // Children inherit it. Real-time classes have none anyway.
        rt::set_timer_slack(Span::from_ns(1))?;
    }
    let (program, arguments) = args.command.split_first().expect("clap requires it");
    let error = Command::new(program).args(arguments).exec();
    let message = format!("`{}` cannot be started: {error}", program.display());
    Err(Failure::input(Code::MissingProgram, message, "correct the command"))
}

fn move_in(args: &Move) -> Outcome {
    let mut isolator = open()?;
    let name = isolator.choose(args.name.as_deref()).map_err(failure)?;
    isolator.move_in(&name, args.pid).map_err(failure)?;
    writeln!(io::stdout(), "process {} is in the isolation {name}", args.pid)?;
    Ok(Verdict::Done)
}

fn status(args: &Status) -> Outcome {
    let all = look()?.status();
    let mut out = io::stdout().lock();
    if args.json {
        let of = |s: &takt_linux::isolate::Status| {
            let members: Vec<_> = s.members.iter().map(|(id, name)| json!({"thread": id, "name": name})).collect();
            let steps: Vec<&str> = s.steps.iter().map(|step| step.name()).collect();
            json!({"name": s.name, "cpus": s.cpus.to_string(), "group": s.group, "steps": steps, "settings": s.settings,
                "complete": s.complete, "of_run": s.of_run, "members": members})
        };
        writeln!(out, "{}", json!({"isolations": all.iter().map(of).collect::<Vec<_>>()}))?;
        return Ok(Verdict::Done);
    }
    if all.is_empty() {
        writeln!(out, "no CPU is isolated")?;
    }
    for s in &all {
        let state = if s.complete { "" } else { ", not complete: `takt doctor --clean` undoes it" };
        let of_run = if s.of_run { ", ends with its run" } else { "" };
        writeln!(out, "isolation {}: CPU {} ({}{of_run}{state})", s.name, s.cpus, s.group)?;
        let steps: Vec<&str> = s.steps.iter().map(|step| step.name()).collect();
        writeln!(out, "  steps: {}; {} settings changed", steps.join(", "), s.settings)?;
        for (id, name) in &s.members {
            writeln!(out, "  {id} {name}")?;
        }
    }
    Ok(Verdict::Done)
}

fn verify(args: &Verify) -> Outcome {
    let isolator = look()?;
    let name = isolator.choose(args.which.name()).map_err(failure)?;
    let findings = isolator.verify(&name).map_err(failure)?;
    let remaining = isolator.remaining(&name).map_err(failure)?;
    let holds = findings.iter().all(|finding| finding.holds);
    let mut out = io::stdout().lock();
    if args.json {
        let all = findings.iter().map(|f| json!({"step": f.step.name(), "holds": f.holds, "found": f.found}));
        let object = json!({"name": name, "holds": holds, "findings": all.collect::<Vec<_>>(), "remaining": remaining});
        writeln!(out, "{object}")?;
    } else {
        let colour = colour(&io::stdout());
        for f in &findings {
            let (mark, code) = if f.holds { ("ok    ", "32") } else { ("broken", "31") };
            let mark = if colour { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() };
            writeln!(out, "{mark}  {:<14}  {}", f.step, f.found)?;
        }
        for fact in remaining {
            writeln!(out, "note: {fact}")?;
        }
    }
    Ok(if holds { Verdict::Done } else { Verdict::No })
}

fn undo(args: &Undo) -> Outcome {
    let mut isolator = open()?;
    let names = if args.all { isolator.names() } else { vec![isolator.choose(args.which.name()).map_err(failure)?] };
    let mut out = io::stdout().lock();
    for name in names {
        if let Some(run) = isolator.live_owner(&name) {
            let what = format!("the isolation `{name}` belongs to process {}, which undoes it at its end", run.pid());
            if args.all {
                writeln!(out, "note: {what}")?;
                continue;
            }
            return Err(Failure::machine(Code::CpuInUse, what, "end that process or wait for its end"));
        }
        let undone = isolator.undo(&name).map_err(failure)?;
        writeln!(out, "isolation {name} is undone: {} settings have their earlier values", undone.settings)?;
        for note in undone.notes {
            writeln!(out, "note: {note}")?;
        }
    }
    Ok(Verdict::Done)
}
