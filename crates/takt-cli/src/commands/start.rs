//! The process that starts those of a run; not for people.

use crate::outcome::Outcome;

/// Internal
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// In the list of processes it says to which run this one belongs.
    #[allow(dead_code, reason = "it is only seen from outside")]
    run: String,
}

pub(crate) fn run(_: &Args) -> Outcome {
    takt_linux::starter::serve()
}
