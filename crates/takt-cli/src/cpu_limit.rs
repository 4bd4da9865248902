//! The soft limit of CPU time (`ulimit -S -t`): SIGXCPU ends a command with a message, and a run as SIGTERM does.
//!
//! The hard limit is SIGKILL, after which the watcher of a run cleans up.

use crate::failure::Failure;
use rustix::process::{Resource, Signal, getpid, getrlimit, kill_process};
use signal_hook::consts::{SIGTERM, SIGXCPU};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use takt_workload::Code;

static REACHED: AtomicBool = AtomicBool::new(false);

fn failure() -> Failure {
    let message = "the limit of CPU time of this process (RLIMIT_CPU) is reached";
    Failure::machine(Code::SystemError, message, "raise it (`ulimit -S -t unlimited`)")
}

/// Waits for the signal, if this process has such a limit.
pub(crate) fn watch() {
    if getrlimit(Resource::Cpu).current.is_none() {
        return;
    }
    let Ok(mut signals) = Signals::new([SIGXCPU]) else { return };
    let wait = move || {
        for _ in signals.forever() {
            // The kernel repeats the signal each second.
            if REACHED.swap(true, Ordering::SeqCst) {
                continue;
            }
            // A command with an action for SIGTERM ends by itself, and restores what it has changed.
            if catches(SIGTERM) && kill_process(getpid(), Signal::TERM).is_ok() {
                continue;
            }
            let _ = failure().report();
            std::process::exit(3);
        }
    };
    // Without a thread, the signal ends the process as the kernel does.
    let _ = std::thread::Builder::new().name("takt-limit".into()).spawn(wait);
}

/// Whether this process has an action for a signal: the mask `SigCgt` of proc_pid_status(5).
fn catches(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The failure of a command that has ended because of the limit.
pub(crate) fn reached() -> Result<(), Failure> {
    if REACHED.load(Ordering::SeqCst) { Err(failure()) } else { Ok(()) }
}
