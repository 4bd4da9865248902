//! A small process of its own that outlives the run and cleans up after it, however the run ended.
//!
//! It is started before anything else is created. It ignores the signals that end a terminal's processes, lives in
//! its own session, holds no descriptor but the one that tells it of the run's end, and is not a child of the run.

use crate::leftovers::{OnCrash, clean_run, clean_seen};
use crate::life::{Life, Outlasts, Succession};
use crate::run_id::RunId;
pub use crate::run_id::SUBCOMMAND;
use crate::sys;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio, exit};
use std::time::Duration;

/// Tries to clean up; each takes up to about a second.
const TRIES: usize = 5;

/// Bytes of the stack of the thread that cleans up.
const STACK: usize = 1 << 20;

/// Starts the watcher of a run of this process and returns once it watches.
///
/// # Errors
/// When it cannot be started or refuses.
pub fn spawn_watcher(run: &RunId, on_crash: OnCrash) -> io::Result<()> {
    // The watcher removes the lock. A machine that has no place for it can be used without.
    let _ = run.outlast(Outlasts::Watcher);
    let arguments = [SUBCOMMAND.to_string(), run.pid().to_string(), run.to_string(), on_crash.to_string()];
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    for name in crate::service::VARIABLES {
        command.env_remove(name);
    }
    // Not in the foreground group of the terminal, whose signals it must survive from its first instruction on.
    let status = rustix::io::retry_on_intr(|| Ok(command.process_group(0).status()))??;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the watcher did not start: {status}"))) }
}

/// The body of the hidden subcommand. It ends this process: with 0 in the caller's sight as soon as the watching,
/// which a child does, has begun.
///
/// To be called before any thread is started.
pub fn watch(pid: i32, run: &RunId, on_crash: OnCrash) -> ! {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE, libc::SIGTSTP] {
        sys::ignore(signal);
    }
    // It goes first, before other processes that clean up: it knows what is to become of the run's processes.
    let right = Succession::take(&run.to_string());
    let process = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    // Asked after the descriptor is there: then it belongs to the run, not to a later process of that number.
    let lives = || match run.life() {
        Life::Lives => true,
        Life::Unseen => run.is_seen(),
        Life::Ends | Life::Ended => false,
    };
    let process = process.and_then(Result::ok).filter(|_| lives());
    // The caller waits for this process, so only its child can continue beside it; the child has no parent among Takt's processes.
    match sys::fork_single_threaded() {
        Ok(0) => {}
        Ok(_) => exit(0),
        Err(_) => exit(3),
    }
    let _ = rustix::process::setsid();
    let kept = [process.as_ref().map(AsRawFd::as_raw_fd), right.as_ref().map(|right| right.file().as_raw_fd())];
    sys::close_all_but(&mut kept.into_iter().flatten().collect::<Vec<_>>());
    let work = || tend(process.as_ref(), run, on_crash, right.as_ref());
    // The main thread may have a small stack (`ulimit -s`), and the work must not fail for that.
    exit(std::thread::scope(|scope| match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work) {
        Ok(thread) => thread.join().unwrap_or(1),
        Err(_) => work(),
    }))
}

/// Waits for the end of the process, and removes what its run has left. Returns the status of the watcher.
fn tend(process: Option<&OwnedFd>, run: &RunId, on_crash: OnCrash, right: Option<&Succession>) -> i32 {
    if let Some(process) = process {
        // Readable when the process ends.
        while poll(&mut [PollFd::new(process, PollFlags::IN)], None).is_err() {}
    }
    for _ in 0..TRIES {
        match clean_seen(run, on_crash, right) {
            Ok(_) => {
                // Parts of an experiment are runs of their own without a watcher.
                run.siblings().iter().for_each(|other| drop(clean_run(other, on_crash)));
                return 0;
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    1
}
