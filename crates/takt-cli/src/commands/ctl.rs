//! `takt ctl`: commands for a run.

use crate::control::client::{Connection, find};
use crate::control::wire::{Fault, NOT_ADMITTED, NOT_STARTED, OVER, Reply, Request, Status};
use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use takt::report::short;
use takt_core::time::Span;
use takt_workload::Code;

/// Watch and change a run of `takt run`
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The run, by its name or process id, or the path of its socket; by default the only one
    #[arg(long, value_name = "ID|SOCKET")]
    run: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Show the tasks, the CPUs and the last events
    Status {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print a status as a line of JSON again and again
    Watch {
        /// Time between two statuses, from 10ms to 60s
        #[arg(long, value_parser = duration, default_value = "1s")]
        interval: Span,
    },
    /// Change terms of a task: period, deadline, runtime, share, importance, utility
    Set {
        /// Such as `video.period=40ms`; several are one change, and name one task
        #[arg(required = true, value_name = "TASK.TERM=VALUE")]
        terms: Vec<String>,
    },
    /// Let another policy take over, in the whole system or in one of its domains. A file that ends in .wasm is loaded into the run, as in g-edzl.wasm
    Policy {
        /// The domain, if the system has any, and the policy
        #[arg(required = true, num_args = 1..=2, value_name = "[DOMAIN] POLICY")]
        names: Vec<String>,
    },
    /// Let a task come back that has left, or add a task of another file, if the policy accepts it
    Add {
        /// The task
        task: String,
        /// The workload that describes a task which the run does not have
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Let a task leave when its present job is over
    Remove {
        /// The task
        task: String,
        /// End its process then: it receives SIGTERM, and is killed after a time
        #[arg(long)]
        end: bool,
        /// That time, at most 60s
        #[arg(long, value_parser = duration, default_value = "2s", requires = "end")]
        grace: Span,
    },
    /// Release a job of a task whose jobs are released by events
    Trigger {
        /// The task
        task: String,
    },
    /// Change tasks, terms and policies to those of another version of the workload, all at once or nothing
    Reload {
        /// The workload
        file: PathBuf,
    },
    /// End the run: its processes receive SIGTERM, and are killed after a time
    Stop {
        /// That time, at most 60s
        #[arg(long, value_parser = duration, default_value = "2s")]
        grace: Span,
    },
    /// Commands for the trace of the run
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },
}

#[derive(clap::Subcommand, Debug)]
enum TraceCommand {
    /// Begin another file
    Rotate,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let request = request(&args.command)?;
    let path = find(args.run.as_deref())?;
    let mut run = Connection::open(&path)?;
    let mut out = io::stdout().lock();
    if let Request::Watch { .. } = request {
        run.send(&request)?;
        while let Some(reply) = run.next()? {
            match reply {
                // The run has ended.
                Reply::Error(fault) if fault.code == OVER => break,
                Reply::Error(fault) => return refused(&fault),
                Reply::Status(status) => writeln!(out, "{}", serde_json::to_string(&status).unwrap_or_default())?,
                Reply::Done(_) | Reply::Figures(_) => {}
            }
            out.flush()?;
        }
        return Ok(Verdict::Done);
    }
    match run.ask(&request)? {
        Reply::Error(fault) => return refused(&fault),
        Reply::Status(status) => match args.command {
            Command::Status { json: true } => {
                writeln!(out, "{}", serde_json::to_string(&status).unwrap_or_default())?;
            }
            _ => print(&mut out, &status)?,
        },
        // No request of this command is answered so.
        Reply::Figures(_) => {}
        Reply::Done(done) => {
            match done.at_ns {
                Some(at) => {
                    let us = |ns: i64| Span::from_us(ns / 1000);
                    let from = done.from_ns.map(|from| format!(", window table from {}", us(from))).unwrap_or_default();
                    writeln!(out, "{} at {}{from}", done.result, us(at))?;
                }
                None => writeln!(out, "{}", done.result)?,
            }
            done.note.iter().try_for_each(|note| writeln!(out, "note: {}", takt::report::visible(note)))?;
        }
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// The failure of a command that the run refuses. A policy that does not accept a change is an answer, and no wrong command.
fn refused(fault: &Fault) -> Outcome {
    let Fault { code, message, hint } = fault;
    if code == NOT_ADMITTED {
        return Err(Failure::status(1, Code::NotAdmitted, format!("{message}\nhint: {hint}")));
    }
    if code == NOT_STARTED {
        return Err(Failure::status(1, Code::InitFailed, format!("{message}\nhint: {hint}")));
    }
    // The errors of a file are as elsewhere.
    let of_file = if message.starts_with("error[") { "the file has errors\n\n" } else { "" };
    Err(Failure::input(Code::CommandRefused, format!("{of_file}{message}"), hint))
}

fn request(command: &Command) -> Result<Request, Failure> {
    Ok(match command {
        Command::Status { .. } => Request::Status {},
        Command::Watch { interval } => Request::Watch { interval_ms: (interval.ns() / 1_000_000) as u64 },
        Command::Set { terms } => set(terms)?,
        Command::Policy { names } => {
            let absolute = |policy: &str| {
                crate::modules::absolute(policy).map_err(|e| Failure::file("read", std::path::Path::new(policy), &e))
            };
            match names.as_slice() {
                [domain, policy] => Request::Policy { domain: Some(domain.clone()), policy: absolute(policy)? },
                names => Request::Policy { domain: None, policy: absolute(&names.concat())? },
            }
        }
        Command::Add { task, from } => {
            Request::Add { task: task.clone(), file: from.as_deref().map(absolute).transpose()? }
        }
        Command::Remove { task, end, grace } => {
            Request::Remove { task: task.clone(), end_grace_ms: end.then_some((grace.ns() / 1_000_000) as u64) }
        }
        Command::Trigger { task } => Request::Trigger { task: task.clone() },
        Command::Reload { file } => Request::Reload { file: absolute(file)? },
        Command::Stop { grace } => Request::Stop { grace_ms: Some((grace.ns() / 1_000_000) as u64) },
        Command::Trace { command: TraceCommand::Rotate } => Request::TraceRotate {},
    })
}

/// The absolute path of a file, as text.
fn absolute(file: &Path) -> Result<String, Failure> {
    let path = file.canonicalize().map_err(|e| Failure::file("read", file, &e))?;
    path.into_os_string().into_string().map_err(|path| {
        let message = format!("the path `{}` is no text in UTF-8", path.display());
        Failure::input(Code::UnreadableFile, message, "rename the file")
    })
}

fn set(list: &[String]) -> Result<Request, Failure> {
    let hint = "write `TASK.TERM=VALUE`, such as `video.period=40ms`";
    let mut terms = Vec::with_capacity(list.len());
    let mut of: Option<&str> = None;
    for item in list {
        let parts = item.split_once('=').and_then(|(name, value)| Some((name.rsplit_once('.')?, value)));
        let Some(((task, term), value)) = parts else {
            return Err(Failure::input(Code::WrongType, format!("`{item}` sets no term of a task"), hint));
        };
        if of.is_some_and(|of| of != task) {
            let message = format!("`{item}` is about another task than the terms before it");
            return Err(Failure::input(Code::ConflictingOptions, message, "change one task at a time"));
        }
        of = Some(task);
        terms.push((term.to_owned(), value.to_owned()));
    }
    Ok(Request::Set { task: of.unwrap_or_default().to_owned(), terms })
}

/// The last events of a status that are printed; `--json` has all.
const EVENTS: usize = 8;

fn print(out: &mut impl Write, status: &Status) -> io::Result<()> {
    let elapsed = Span::from_ms(status.elapsed_ns / 1_000_000);
    let of = status.duration_ns.map(|ns| format!(" of {}", Span::from_ns(ns))).unwrap_or_default();
    let policies: Vec<String> = (status.policies.iter())
        .map(|own| match &own.domain {
            Some(domain) => format!("{domain}: {}", own.policy),
            None => own.policy.clone(),
        })
        .collect();
    let head = format!("{}: run {}, {elapsed}{of}, policy {}", status.file, status.run, policies.join(", "));
    writeln!(out, "{}\n", takt::report::visible(&head))?;
    let names: Vec<_> = status.tasks.iter().map(|task| takt::report::visible(&task.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(
        out,
        "{:<width$} {:<8} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}",
        "task", "state", "cpu", "period", "runtime", "released", "met", "missed", "aborted", "consumed", "p50", "p99"
    )?;
    let span = |ns: Option<i64>| ns.map_or("-".into(), |ns| short(Span::from_ns(ns)));
    for (task, name) in status.tasks.iter().zip(&names) {
        let response = task.response.as_ref();
        writeln!(
            out,
            "{:<width$} {:<8} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}",
            name,
            task.state,
            task.cpus.as_deref().unwrap_or("-"),
            span(task.period_ns),
            span(task.runtime_ns),
            task.released,
            task.met,
            task.missed,
            task.aborted,
            span(Some(task.consumed_ns)),
            span(response.map(|times| times.p50_ns)),
            span(response.map(|times| times.p99_ns)),
        )?;
    }
    writeln!(out)?;
    for cpu in &status.cpus {
        let busy = json!(cpu.busy_ns).as_f64().unwrap_or(0.0) / status.elapsed_ns.max(1) as f64 * 100.0;
        let task = cpu.task.as_deref().unwrap_or("-");
        writeln!(out, "CPU {}: {busy:.1} % busy, now {}", cpu.cpu, takt::report::visible(task))?;
    }
    if !status.events.is_empty() {
        writeln!(out, "\nlast events")?;
    }
    for event in &status.events[status.events.len().saturating_sub(EVENTS)..] {
        let more = [event.task.clone(), event.job.map(|job| format!("job {job}")), event.policy.clone()];
        let more: String = more.into_iter().flatten().map(|word| format!("  {word}")).collect();
        let at = Span::from_us(event.at_ns / 1000);
        writeln!(out, "{:>12}  {}{}", at.to_string(), event.kind, takt::report::visible(&more))?;
    }
    if status.incomplete {
        writeln!(out, "warning: records were lost, so these figures stand still and changes are refused")?;
    }
    Ok(())
}
