//! A command that ends with the process that has started it, also when that one is killed: `takt __until FD COMMAND…`.
//!
//! The descriptor is the reading end of a pipe, and only the other process holds the writing end. The Python package starts runs and sweeps like this.

use crate::failure::Failure;
use rustix::process::{Signal, getpid, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use takt_workload::Code;

const NAME: &str = "__until";

/// The arguments of this process, as if it were to live by itself.
pub(crate) fn arguments() -> Vec<OsString> {
    let mut given: Vec<OsString> = std::env::args_os().collect();
    if given.get(1).is_some_and(|name| name == NAME) {
        given.drain(1..given.len().min(3));
    }
    given
}

/// From now on the end of the other process is a SIGTERM to this one, if the arguments say so.
///
/// # Errors
/// The descriptor is no pipe.
pub(crate) fn watch() -> Result<(), Failure> {
    let mut given = std::env::args_os().skip(1);
    if given.next().is_none_or(|name| name != NAME) {
        return Ok(());
    }
    let number = given.next().and_then(|number| number.to_str()?.parse::<u32>().ok());
    let pipe = number.and_then(|number| File::open(format!("/proc/self/fd/{number}")).ok());
    let is_pipe = |file: &File| file.metadata().is_ok_and(|known| known.file_type().is_fifo());
    let Some(mut pipe) = pipe.filter(is_pipe) else {
        let message = format!("`{NAME}` needs the descriptor of a pipe, whose writing end the starting process holds");
        return Err(Failure::input(Code::WrongFormat, message, "leave it out: the command then lives by itself"));
    };
    let wait = move || {
        loop {
            match pipe.read(&mut [0; 64]) {
                Ok(0) => break,
                Err(error) if error.kind() != ErrorKind::Interrupted => break,
                _ => {}
            }
        }
        // A command without an action for it has nothing to restore.
        let _ = kill_process(getpid(), Signal::TERM);
    };
    std::thread::Builder::new().name("takt-life".into()).spawn(wait)?;
    Ok(())
}
