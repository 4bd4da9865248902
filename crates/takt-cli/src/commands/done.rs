//! `takt done`: the completion signal for scripts.

use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use takt_linux::protocol::Client;
use takt_workload::Code;

/// Signal from a script that its job (or its initialisation) is done, and wait for the next job
///
/// The exit status is that of DEmOS's demos-signal-completion: 100 if no scheduler has started it, 101 if `DEMOS_PARAMETERS` is malformed.
/// It is 1 if a descriptor could not be written, and 2 if one could not be read.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Outcome {
    let signal = || {
        let mut client = Client::from_env()?;
        if client.initializing() { client.initialization_completed() } else { client.completed() }
    };
    signal().map(|()| Verdict::Done).map_err(|e| Failure::status(e.exit_code(), Code::ClientProtocol, e))
}
