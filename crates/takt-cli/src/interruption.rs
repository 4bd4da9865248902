//! Signals that end an experiment, and the process that measures at that moment.

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether an experiment is to end. Its child ends at once then, and not with its round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interruption {
    wanted: Arc<AtomicBool>,
    child: Arc<Mutex<Option<OwnedFd>>>,
}

impl Interruption {
    /// Waits for SIGINT, SIGTERM and SIGHUP from now on, in a thread that sleeps until then.
    pub(crate) fn wait() -> io::Result<Interruption> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let own = Interruption::default();
        let waiting = own.clone();
        std::thread::Builder::new().name("takt-signals".into()).spawn(move || {
            for _ in signals.forever() {
                waiting.wanted.store(true, Ordering::SeqCst);
                waiting.end_child();
            }
        })?;
        Ok(own)
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// As [`Command::output`] with the streams that are set. The child gets SIGTERM at an interruption.
    pub(crate) fn output(&self, command: &mut Command) -> io::Result<Output> {
        let child = command.spawn()?;
        // Kernels before 5.3 have no such descriptors. The experiment ends with the round there.
        let handle = Pid::from_raw(child.id() as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = handle;
        if self.is_wanted() {
            self.end_child();
        }
        let output = child.wait_with_output();
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = None;
        output
    }

    fn end_child(&self) {
        if let Some(child) = &*self.child.lock().unwrap_or_else(PoisonError::into_inner) {
            // It may have ended.
            let _ = pidfd_send_signal(child, Signal::TERM);
        }
    }
}
