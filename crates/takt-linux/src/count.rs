//! How many instructions a program executes: exact and the same every time, on machines without counters of their own, too
//! (virtual machines rarely have any).
//!
//! The kernel stops the program after each instruction (`PTRACE_SINGLESTEP`), which takes some microseconds each: this is for
//! stretches of thousands of instructions, not of millions. What the kernel executes for the program is not counted.

use crate::sys;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::io;
use std::process::{Child, Command};

/// A child that does not outlive its observer.
struct Traced(Child);

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program and counts its instructions between the stops that it makes itself by [`mark`]: entry k is what lies between
/// mark k and mark k + 1. The program is killed at the last one.
///
/// # Errors
/// Those of starting and tracing it; when it ends before its last mark; and when it executes more than `most` instructions.
pub fn instructions<const N: usize>(command: &mut Command, most: u64) -> io::Result<[u64; N]> {
    sys::trace_me(command);
    let child = Traced(command.spawn()?);
    let pid = Pid::from_child(&child.0);
    // Its `exec` stops it first.
    next_stop(pid)?;
    let mut signal = None;
    loop {
        sys::resume_traced(pid, false, signal)?;
        signal = Some(next_stop(pid)?);
        if signal == Some(Signal::STOP) {
            break;
        }
    }
    let (mut counts, mut executed) = ([0; N], 0);
    for count in &mut counts {
        let mut signal = None;
        loop {
            sys::resume_traced(pid, true, signal)?;
            match next_stop(pid)? {
                Signal::STOP => break,
                Signal::TRAP => signal = None,
                other => signal = Some(other),
            }
            *count += 1;
            executed += 1;
            if executed > most {
                return Err(io::Error::other(format!("it executes more than {most} instructions")));
            }
        }
    }
    Ok(counts)
}

/// Waits until the traced child stops, and says by which signal.
fn next_stop(pid: Pid) -> io::Result<Signal> {
    let status = loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let stopped = status.and_then(|(_, status)| status.stopping_signal());
    let signal = stopped.and_then(Signal::from_named_raw);
    signal.ok_or_else(|| io::Error::other("it ended before its last mark"))
}

/// A mark for [`instructions`]: the program stops itself, and continues when its observer lets it.
pub fn mark() {
    // Sending a signal to oneself fails only for a signal that there is not.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}
