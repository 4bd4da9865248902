//! `cgroup.freeze` of cgroup v2.
//!
//! * A frozen process that is killed dies at once.
//! * From Linux 6.14 on, a process that is born into a group that was ever killed by `cgroup.kill` dies at once: its parent's count
//!   of kills is compared with that of the group (`cgroup_css_set_fork`). So a group that is used again is killed process by process.
//! * Freezing takes the lock that every creation, move and removal of any group takes.

use super::{Freezer, wait_until_frozen};
use crate::control;
use crate::group::{Group, Thread, Tree};
use crate::sys::Hold;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, setpgid, waitpid};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

pub(crate) struct V2 {
    /// In which the maker of partitions makes groups, for other freezers, too.
    pub(crate) tree: Arc<Tree>,
}

impl V2 {
    /// A frozen group for one thread of a program. Only groups below the one of the program can have its threads (`cgroup.type`).
    fn threaded(&self, program: Group, own: Group) -> io::Result<Thread> {
        let dir = self.tree.group(program).join(format!("p{}t{}", own.partition.0, own.index));
        fs::create_dir(&dir)?;
        control::write(&dir.join("cgroup.type"), "threaded")?;
        control::write(&dir.join("cgroup.freeze"), "1")?;
        let file = rustix::fs::open(dir.join("cgroup.freeze"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Thread::new(dir.join("cgroup.threads"), Some(file)))
    }
}

impl Freezer for V2 {
    fn name(&self) -> &'static str {
        "v2"
    }
    fn add(&self, group: Group) -> io::Result<()> {
        control::write(&self.tree.group(group).join("cgroup.freeze"), "1")
    }
    fn open(&self, group: Group) -> Result<Option<OwnedFd>, Errno> {
        control::open_below(&self.tree.dir, self.tree.file(group, "cgroup.freeze")?.c_str()?).map(Some)
    }
    fn set(&self, file: Option<&OwnedFd>, _: i32, frozen: bool) -> io::Result<()> {
        Ok(file.map_or(Ok(()), |file| control::put(file, if frozen { b"1" } else { b"0" }))?)
    }
    fn gate(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
    fn hold<'a>(&self, _: Option<&'a OwnedFd>) -> Hold<'a> {
        Hold::Frozen
    }
    fn take_in(&self, _: Group, child: Pid) -> io::Result<()> {
        Ok(setpgid(Some(child), Some(child))?)
    }
    fn discard(&self, _: Group, child: Pid) {
        let _ = waitpid(Some(child), WaitOptions::empty());
    }
    fn kill(&self, group: Group, _: i32) -> io::Result<bool> {
        kill_one_by_one(&self.tree.group(group)).map(|()| true)
    }
    fn release(&self, _: Group) -> io::Result<()> {
        Ok(())
    }
    fn host(&self, program: Group) -> io::Result<Thread> {
        let own = self.threaded(program, program)?;
        // A group below one that is frozen is frozen, too.
        control::write(&self.tree.group(program).join("cgroup.freeze"), "0")?;
        Ok(own)
    }
    fn adopt(&self, program: Group, own: Group, thread: i32) -> io::Result<Thread> {
        let own = self.threaded(program, own)?;
        control::write(&own.list, &thread.to_string())?;
        Ok(own)
    }
    fn tree(&self) -> Option<&Tree> {
        Some(&self.tree)
    }
}

/// Kills all below a v2 group, forks included.
pub(crate) fn kill_all(group: &Path) -> io::Result<()> {
    match control::write(&group.join("cgroup.kill"), "1") {
        // Before Linux 5.14.
        Err(e) if e.kind() == io::ErrorKind::NotFound && group.exists() => {
            kill_one_by_one(group)?;
            control::write(&group.join("cgroup.freeze"), "0")
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Kills all below a v2 group process by process: a frozen group cannot fork, so none is missed, and in v2 a frozen process dies.
pub(crate) fn kill_one_by_one(group: &Path) -> io::Result<()> {
    control::write(&group.join("cgroup.freeze"), "1")?;
    wait_until_frozen(&group.join("cgroup.events"), |events| !events.contains("frozen 0"));
    for dir in control::tree(group) {
        for pid in control::pids(&dir.join("cgroup.procs")).into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    Ok(())
}
