//! The watcher that a run starts beside itself; not for people.

use crate::outcome::{Outcome, Verdict};
use takt_linux::leftovers::OnCrash;

/// Internal
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    pid: i32,
    run: String,
    on_crash: String,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let on_crash = if args.on_crash == "release" { OnCrash::Release } else { OnCrash::Kill };
    if let Ok(run) = args.run.parse() {
        takt_linux::watcher::watch(args.pid, &run, on_crash);
    }
    Ok(Verdict::Done)
}
