//! The freezer of cgroup v1.
//!
//! * Freezing something while nothing is frozen, and thawing the last frozen thing, patches kernel code (0.2 ms on both CPUs of the
//!   machine it was measured on), so an empty group `keep` stays frozen for the whole run.
//! * A process on its way into the v2 freezer can miss that the v1 freezer wants it, and then runs on once v2 lets go. So the two are
//!   never combined: a new process waits for a descriptor until it is in its frozen group.
//! * A frozen process survives SIGKILL until it is thawed.

use super::{Freezer, wait_until_frozen};
use crate::control;
use crate::group::{Group, Thread, Tree};
use crate::sys::Hold;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, setpgid, waitpid};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

pub(crate) struct V1 {
    pub(crate) tree: Arc<Tree>,
}

impl V1 {
    fn state(&self, group: Group) -> std::path::PathBuf {
        self.tree.group(group).join("freezer.state")
    }
}

impl Freezer for V1 {
    fn name(&self) -> &'static str {
        "v1"
    }
    fn add(&self, group: Group) -> io::Result<()> {
        fs::create_dir(self.tree.group(group))?;
        control::write(&self.state(group), "FROZEN")
    }
    fn open(&self, group: Group) -> Result<Option<OwnedFd>, Errno> {
        control::open_below(&self.tree.dir, self.tree.file(group, "freezer.state")?.c_str()?).map(Some)
    }
    fn set(&self, file: Option<&OwnedFd>, _: i32, frozen: bool) -> io::Result<()> {
        let word: &[u8] = if frozen { b"FROZEN" } else { b"THAWED" };
        Ok(file.map_or(Ok(()), |file| control::put(file, word))?)
    }
    fn gate(&self) -> io::Result<Option<OwnedFd>> {
        Ok(Some(eventfd(0, EventfdFlags::CLOEXEC)?))
    }
    fn hold<'a>(&self, gate: Option<&'a OwnedFd>) -> Hold<'a> {
        gate.map_or(Hold::Frozen, |gate| Hold::Gate(gate.as_fd()))
    }
    fn take_in(&self, group: Group, child: Pid) -> io::Result<()> {
        setpgid(Some(child), Some(child))?;
        control::write(&self.tree.group(group).join("cgroup.procs"), &child.as_raw_nonzero().to_string())
    }
    fn discard(&self, group: Group, child: Pid) {
        let _ = control::write(&self.state(group), "THAWED");
        let _ = waitpid(Some(child), WaitOptions::empty());
        let _ = control::write(&self.state(group), "FROZEN");
    }
    fn kill(&self, group: Group, _: i32) -> io::Result<bool> {
        kill(&self.tree.group(group)).map(|()| true)
    }
    fn release(&self, group: Group) -> io::Result<()> {
        thaw(&self.tree.group(group))
    }
    /// The freezer of cgroup v1 stops threads, and `tasks` takes one of them.
    fn host(&self, program: Group) -> io::Result<Thread> {
        Ok(Thread::new(self.tree.group(program).join("tasks"), None))
    }
    fn adopt(&self, _: Group, own: Group, thread: i32) -> io::Result<Thread> {
        let tasks = self.tree.group(own).join("tasks");
        control::write(&tasks, &thread.to_string())?;
        Ok(Thread::new(tasks, None))
    }
    fn tree(&self) -> Option<&Tree> {
        Some(&self.tree)
    }
}

/// Kills all in one v1 freezer group: frozen processes cannot fork, so none is missed; the signal waits for the thaw.
pub(crate) fn kill(group: &Path) -> io::Result<()> {
    let state = group.join("freezer.state");
    match control::write(&state, "FROZEN") {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => done?,
    }
    wait_until_frozen(&state, |state| state == "FROZEN");
    for pid in control::pids(&group.join("cgroup.procs")).into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    thaw(group)
}

/// Whether a v1 freezer group can have processes. The list of processes of a group leaves out processes of another PID
/// namespace; such processes have died with their namespace, and end when the group is thawed.
pub(crate) fn is_occupied(group: &Path) -> bool {
    let thawed = std::fs::read_to_string(group.join("freezer.state")).is_ok_and(|state| state.trim() == "THAWED");
    !thawed || !control::pids(&group.join("cgroup.procs")).is_empty()
}

/// Thaws one v1 freezer group; one that is gone is no error.
pub(crate) fn thaw(group: &Path) -> io::Result<()> {
    match control::write(&group.join("freezer.state"), "THAWED") {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
