//! `takt burn`: a load whose CPU time is exact.

use crate::failure::Failure;
use crate::input::duration;
use crate::{Outcome, Verdict};
use takt_core::time::Span;
use takt_linux::protocol::{Client, ClientError};
use takt_linux::timer;

/// Use CPU time: for ever, or a given amount per job
///
/// The amount is CPU time of this process, so being stopped in between does not count. After each job it signals completion
/// and waits to be let on, if a scheduler started it; otherwise the next job follows at once.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// CPU time of one job, such as 5ms; without it there is one job without end
    #[arg(long, value_parser = duration)]
    runtime: Option<Span>,
    /// End after so many jobs
    #[arg(long, requires = "runtime")]
    jobs: Option<u64>,
    /// CPU time of the initialisation, which is signalled too (for `init: yes`)
    #[arg(long, value_parser = duration)]
    init: Option<Span>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = match Client::from_env() {
        Ok(client) => Some(client),
        Err(ClientError::NoVariable) => None,
        Err(e) => return Err(Failure::status(e.exit_code(), e)),
    };
    let lost = |e: ClientError| Failure::status(e.exit_code(), e);
    if let Some(init) = args.init {
        burn(init);
    }
    if let Some(client) = client.as_mut().filter(|c| c.initializing()) {
        client.initialization_completed().map_err(lost)?;
    }
    let Some(runtime) = args.runtime else {
        loop {
            burn(Span::from_secs(3600));
        }
    };
    let mut done = 0;
    while args.jobs.is_none_or(|jobs| done < jobs) {
        burn(runtime);
        done += 1;
        if let Some(client) = &client {
            client.completed().map_err(lost)?;
        }
    }
    Ok(Verdict::Done)
}

/// Uses `amount` of this process's CPU time.
pub(crate) fn burn(amount: Span) {
    let end = timer::cpu_now() + amount;
    while timer::cpu_now() < end {
        for _ in 0..64 {
            std::hint::spin_loop();
        }
    }
}
