//! SIGSTOP and SIGCONT to the process group, where there are no control groups.

use super::Freezer;
use crate::group::{Group, Thread, Tree};
use crate::sys::Hold;
use rustix::io::Errno;
use rustix::process::{Pid, Signal as Number, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid, waitpid};
use std::io;
use std::os::fd::OwnedFd;

pub(crate) struct Signal;

/// Sends a signal to a process group; one that is gone is no error.
fn send(process_group: i32, number: Number) -> io::Result<()> {
    let Some(process_group) = Pid::from_raw(process_group) else { return Ok(()) };
    match kill_process_group(process_group, number) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

impl Freezer for Signal {
    fn name(&self) -> &'static str {
        "signal"
    }
    fn add(&self, _: Group) -> io::Result<()> {
        Ok(())
    }
    fn open(&self, _: Group) -> Result<Option<OwnedFd>, Errno> {
        Ok(None)
    }
    fn set(&self, _: Option<&OwnedFd>, process_group: i32, frozen: bool) -> io::Result<()> {
        send(process_group, if frozen { Number::STOP } else { Number::CONT })
    }
    fn gate(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
    fn hold<'a>(&self, _: Option<&'a OwnedFd>) -> Hold<'a> {
        Hold::Stop
    }
    /// It leads a process group of its own already, and stops itself.
    fn take_in(&self, _: Group, child: Pid) -> io::Result<()> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::io::retry_on_intr(|| waitid(WaitId::Pid(child), options))?;
        Ok(())
    }
    fn discard(&self, _: Group, child: Pid) {
        let _ = waitpid(Some(child), WaitOptions::empty());
    }
    fn kill(&self, _: Group, process_group: i32) -> io::Result<bool> {
        send(process_group, Number::KILL).map(|()| false)
    }
    fn release(&self, _: Group) -> io::Result<()> {
        Ok(())
    }
    /// A stop signal stops the whole process.
    fn host(&self, _: Group) -> io::Result<Thread> {
        Err(Errno::NOTSUP.into())
    }
    fn adopt(&self, _: Group, _: Group, _: i32) -> io::Result<Thread> {
        Err(Errno::NOTSUP.into())
    }
    fn tree(&self) -> Option<&Tree> {
        None
    }
}
