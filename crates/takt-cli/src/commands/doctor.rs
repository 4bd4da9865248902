//! `takt doctor`: what this machine can do, and the fix for what it cannot.

use crate::failure::Failure;
use crate::{Outcome, Verdict};
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use takt_linux::leftovers::{self, OnCrash};

/// Show what this machine can do, and the fix for what it cannot
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// End the processes and remove the groups of runs that died
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
        let cleaned =
            cleaned.map_err(|e| Failure::machine(format!("not everything could be removed: {e}"), "run it as root"))?;
        if args.json {
            writeln!(out, "{}", json!({"groups": cleaned.groups, "processes": cleaned.processes}))?;
        } else {
            writeln!(out, "removed {} groups and ended {} processes of dead runs", cleaned.groups, cleaned.processes)?;
        }
        return Ok(Verdict::Done);
    }
    Ok(Verdict::Done)
}
