//! `takt doctor`: what this machine can do, and the fix for what it cannot.

use crate::commands::{isolate, mcu};
use crate::failure::{Failure, colour};
use crate::outcome::{Outcome, Verdict};
use serde_json::json;
use std::io::{self, Write};
use takt_linux::leftovers::{self, OnCrash};
use takt_linux::probe::{self, Status};
use takt_workload::Code;

/// Show the capabilities of this machine, and the fix for each missing one
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// End the processes, remove the groups and restore the power settings of runs that died, and undo isolations that were not completed
    #[arg(long)]
    clean: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = io::stdout().lock();
    if args.clean {
        let cleaned = leftovers::clean(OnCrash::Kill);
        let cleaned = cleaned.map_err(|e| {
            let fix = match e.kind() {
                io::ErrorKind::TimedOut => "end that process, or wait for its end, and repeat the command",
                _ => "run it as root",
            };
            Failure::machine(Code::CleanupFailed, format!("not everything could be removed: {e}"), fix)
        })?;
        let undone = isolate::recover()?.names;
        if args.json {
            let found = json!({"groups": cleaned.groups, "processes": cleaned.processes, "settings": cleaned.settings, "isolations": undone});
            writeln!(out, "{found}")?;
        } else {
            for name in undone {
                writeln!(out, "undid the isolation {name}, which was not completed")?;
            }
            writeln!(out, "removed {} groups and ended {} processes of dead runs", cleaned.groups, cleaned.processes)?;
            if cleaned.settings > 0 {
                writeln!(out, "restored {} power settings of dead runs", cleaned.settings)?;
            }
        }
        return Ok(Verdict::Done);
    }
    let mut report = probe::probe();
    report.findings.extend(mcu::findings());
    if args.json {
        let findings = report.findings.iter().map(|f| {
            let status = match f.status {
                Status::Ok => "ok",
                Status::Weak => "weak",
                Status::Missing => "missing",
            };
            json!({"name": f.name, "status": status, "found": f.found, "fix": f.fix})
        });
        writeln!(out, "{}", json!({"findings": findings.collect::<Vec<_>>()}))?;
        return Ok(Verdict::Done);
    }
    let color = colour(&io::stdout());
    let width = report.findings.iter().map(|f| f.name.len()).max().unwrap_or(0);
    for f in &report.findings {
        let (mark, code) = match f.status {
            Status::Ok => ("ok     ", "32"),
            Status::Weak => ("weak   ", "33"),
            Status::Missing => ("missing", "31"),
        };
        let mark = if color { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_string() };
        writeln!(out, "{mark}  {:<width$}  {}", f.name, f.found)?;
        if let Some(fix) = &f.fix {
            writeln!(out, "         {:<width$}  fix: {fix}", "")?;
        }
    }
    Ok(Verdict::Done)
}
