//! Ways to stop the processes of a group, one file each.

pub(crate) mod signal;
pub(crate) mod v1;
pub(crate) mod v2;

use crate::control;
use crate::group::{Group, Thread, Tree};
use crate::sys::Hold;
use rustix::io::Errno;
use rustix::process::Pid;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Stops and starts groups. [`Freezer::open`] and [`Freezer::set`] are for the scheduler thread: they neither allocate nor wait for
/// another thread of this program.
pub(crate) trait Freezer: Send + Sync {
    /// `v2`, `v1` or `signal`.
    fn name(&self) -> &'static str;
    /// Makes a group, which is frozen, in a partition that has a directory in each tree.
    fn add(&self, group: Group) -> io::Result<()>;
    /// Opens what [`Freezer::set`] writes to; `None` if it needs no file.
    fn open(&self, group: Group) -> Result<Option<OwnedFd>, Errno>;
    /// Stops or starts the processes of a group, by its open file or its process group (0 when there is none). A group without
    /// processes is no error.
    fn set(&self, file: Option<&OwnedFd>, process_group: i32, frozen: bool) -> io::Result<()>;
    /// A gate for a child that would run before it is in its group.
    fn gate(&self) -> io::Result<Option<OwnedFd>>;
    /// How a child is held that is being started; with the gate, if there is one.
    fn hold<'a>(&self, gate: Option<&'a OwnedFd>) -> Hold<'a>;
    /// Takes a held child into its group.
    fn take_in(&self, group: Group, child: Pid) -> io::Result<()>;
    /// Lets a child die that was killed in its group.
    fn discard(&self, group: Group, child: Pid);
    /// Kills what is in a group; `false` if some of that can only be found by search.
    fn kill(&self, group: Group, process_group: i32) -> io::Result<bool>;
    /// Lets killed processes of a group die that would stay frozen.
    fn release(&self, group: Group) -> io::Result<()>;
    /// Prepares the group of a program of which other groups take threads; before it is started.
    ///
    /// # Errors
    /// `ENOTSUP` where threads cannot be stopped one by one; else the kernel's answer.
    fn host(&self, program: Group) -> io::Result<Thread>;
    /// Takes a thread of a program out of the program's group into one of its own, which is frozen.
    ///
    /// # Errors
    /// As [`Freezer::host`].
    fn adopt(&self, program: Group, own: Group, thread: i32) -> io::Result<Thread>;
    /// The tree in which each group lists its processes.
    fn tree(&self) -> Option<&Tree>;
}

/// Waits until what a file says means frozen. A process in an uninterruptible wait keeps its group from that; then it cannot fork
/// either, so the wait is bounded.
fn wait_until_frozen(file: &Path, frozen: impl Fn(&str) -> bool) {
    let is_frozen = |_: &u32| {
        let is_frozen = control::read(file).map_or(true, |text| frozen(&text));
        if !is_frozen {
            sleep(Duration::from_millis(1));
        }
        is_frozen
    };
    (0..200).find(is_frozen);
}
