//! `takt done`: the completion signal for scripts.

use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use takt_linux::protocol::Client;
use takt_workload::Code;

/// Signal from a script that its job (or its initialisation) is done, and wait to be let on
///
/// Exit status as DEmOS's demos-signal-completion: 100 not started by a scheduler, 101 malformed DEMOS_PARAMETERS, 1 and 2
/// when a descriptor could not be written or read.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Outcome {
    let signal = || {
        let mut client = Client::from_env()?;
        if client.initializing() { client.initialization_completed() } else { client.completed() }
    };
    signal().map(|()| Verdict::Done).map_err(|e| Failure::status(e.exit_code(), Code::ClientProtocol, e))
}
