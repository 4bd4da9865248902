//! The watcher that a run starts beside itself; not for people.

use crate::outcome::{Outcome, Verdict};
use std::ffi::OsString;
use takt_linux::leftovers::OnCrash;

/// Internal
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    pid: i32,
    run: String,
    on_crash: String,
}

impl Args {
    /// Those of a command line that a run has made, without a parser: the watcher has to work with a small stack, too.
    pub(crate) fn quick(given: &[OsString]) -> Option<Args> {
        let [_, command, pid, run, on_crash] = given else { return None };
        let text = |argument: &OsString| argument.to_str().map(str::to_owned);
        let is_watch = command == takt_linux::watcher::SUBCOMMAND;
        is_watch.then_some(Args { pid: text(pid)?.parse().ok()?, run: text(run)?, on_crash: text(on_crash)? })
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let on_crash = if args.on_crash == "release" { OnCrash::Release } else { OnCrash::Kill };
    if let Ok(run) = args.run.parse() {
        takt_linux::watcher::watch(args.pid, &run, on_crash);
    }
    Ok(Verdict::Done)
}
