//! `takt burn`: a load whose CPU time is exact.

use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use takt_core::time::Span;
use takt_linux::protocol::{Client, ClientError};
use takt_linux::timer;
use takt_workload::Code;

/// Use CPU time: without end, or a given amount per job
///
/// The amount is CPU time of this process, so time in which it is stopped does not count. If a scheduler started it, it signals
/// completion after each job and waits for the next one. Otherwise the next job follows at once. At the signal USR1 its job is
/// aborted (`on_abort: signal`), and it skips the rest of the job.
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
    /// CPU time of the handler that follows when a job was aborted
    #[arg(long, value_parser = duration, requires = "runtime")]
    handler: Option<Span>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = match Client::from_env() {
        Ok(client) => Some(client),
        Err(ClientError::NoVariable) => None,
        Err(e) => return Err(Failure::status(e.exit_code(), Code::ClientProtocol, e)),
    };
    let lost = |e: ClientError| Failure::status(e.exit_code(), Code::ClientProtocol, e);
    if let Some(init) = args.init {
        burn(init);
    }
    if let Some(client) = client.as_mut().filter(|c| c.initializing()) {
        client.initialization_completed().map_err(lost)?;
    }
    let aborted = Arc::new(AtomicBool::new(false));
    if client.is_some() {
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, aborted.clone())?;
    }
    let Some(runtime) = args.runtime else {
        loop {
            burn(Span::from_secs(3600));
        }
    };
    let mut done = 0;
    while args.jobs.is_none_or(|jobs| done < jobs) {
        if !burn_until(runtime, &aborted) {
            burn(args.handler.unwrap_or(Span::ZERO));
        }
        done += 1;
        if let Some(client) = &client {
            client.completed().map_err(lost)?;
            // A signal about a job that was done by then is not about the next one.
            aborted.store(false, Ordering::Relaxed);
        }
    }
    Ok(Verdict::Done)
}

/// Uses `amount` of this process's CPU time.
pub(crate) fn burn(amount: Span) {
    burn_until(amount, &AtomicBool::new(false));
}

/// Uses `amount` of this process's CPU time, or less if the flag is set meanwhile. Returns whether all of it was used.
fn burn_until(amount: Span, aborted: &AtomicBool) -> bool {
    let end = timer::cpu_now() + amount;
    while timer::cpu_now() < end {
        if aborted.load(Ordering::Relaxed) {
            return false;
        }
        for _ in 0..64 {
            std::hint::spin_loop();
        }
    }
    true
}
