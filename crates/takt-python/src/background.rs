//! Native work beside the interpreter.

use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The interval at which the interpreter looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// Stack of the thread that works.
const STACK: usize = 8 << 20;

/// Whether the caller still waits for the result.
#[derive(Clone, Default)]
pub(crate) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// Whether the result is still wanted.
    pub(crate) fn holds(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Works on a thread of its own while the interpreter's lock is free for other threads.
///
/// # Errors
/// A signal handler raised, as that of Ctrl-C does. The work then ends at its next look at [`Wanted`].
pub(crate) fn native<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Wanted) -> T + Send + 'static,
) -> PyResult<T> {
    let wanted = Wanted::default();
    let (send, receive) = channel();
    let of_thread = wanted.clone();
    let thread = thread::Builder::new().name("takt".into()).stack_size(STACK).spawn(move || {
        // Nothing receives it after a signal.
        let _ = send.send(work(&of_thread));
    })?;
    let mut receive = receive;
    loop {
        let received;
        // The receiver belongs to one thread at a time, so it moves into the closure and back.
        (receive, received) = py.detach(move || {
            let received = receive.recv_timeout(LOOK);
            (receive, received)
        });
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| {
                wanted.0.store(true, Ordering::Relaxed);
            })?,
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("the thread sends its result"),
            },
        }
    }
}
