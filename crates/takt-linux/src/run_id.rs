//! The name of a run.

use crate::life::{self, Life, Outlasts};
use crate::namespace;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Environment variable that names the run in every process Takt starts, and so in all that those start.
pub(crate) const RUN_VARIABLE: &str = "TAKT_RUN";
/// Environment variable that names the group, such as `p0/t3`.
pub(crate) const GROUP_VARIABLE: &str = "TAKT_GROUP";

/// Name of the hidden subcommand: `takt __watch PID RUN kill|release`, which has to call [`watch`](crate::watcher::watch).
pub const SUBCOMMAND: &str = "__watch";

/// Prefix of every group that Takt makes.
pub(crate) const PREFIX: &str = "takt-";
/// It follows the prefix in the name of a mark.
const MARK: &str = "mark-";

/// Identity of a run: the process that drives it, by its number in its own PID namespace, and that process's start time.
///
/// It prints as `PID-STARTTIME`, or `PID-STARTTIME-N` for the N-th further run of that name. In a PID namespace of its own, as in a container, N is
/// random: two containers may have the same process id at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct RunId {
    pid: i32,
    start: u64,
    serial: u32,
}

impl RunId {
    /// A new identity for a run of the calling process; every call gives another. Its life begins: no other process takes it for dead, in any namespace.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn new() -> io::Result<RunId> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        // `/proc` may be that of another namespace, where the number is that of another process.
        let own = std::fs::read_to_string("/proc/self/stat")?;
        let start = parse(&own).ok_or_else(|| io::Error::other("/proc/self/stat cannot be read"))?.start;
        if namespace::own() != namespace::FIRST && SERIAL.load(Ordering::Relaxed) == 0 {
            SERIAL.store(RandomState::new().hash_one(pid) as u32, Ordering::Relaxed);
        }
        loop {
            let run = RunId { pid, start, serial: SERIAL.fetch_add(1, Ordering::Relaxed) };
            if life::begin(&run.to_string()) {
                return Ok(run);
            }
        }
    }
    /// The process that drives the run.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }
    /// Its life, as far as it can be seen from here.
    pub(crate) fn life(&self) -> Life {
        life::of(&self.to_string())
    }
    /// Whether the process that drives the run is proven to be dead. A run that cannot be seen from here has not died.
    #[must_use]
    pub fn has_died(&self) -> bool {
        self.life().has_ended()
    }
    /// Whether `/proc` shows a process of this number and start time. In another namespace it may not, or show another process.
    pub(crate) fn is_seen(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }
    /// The other runs of the process that drives this one, as far as their files show that they have ended.
    pub(crate) fn siblings(&self) -> Vec<RunId> {
        let ended = life::ended().into_iter().filter_map(|run| run.parse::<RunId>().ok());
        ended.filter(|other| other != self && (other.pid, other.start) == (self.pid, self.start)).collect()
    }
    /// Ends the life of a run of this process that has left nothing.
    pub(crate) fn end(&self) {
        life::end(&self.to_string());
    }
    /// Lets other processes see the end of a run of this process after the process has ended: the run may leave something behind.
    ///
    /// # Errors
    /// The run has no lock.
    pub(crate) fn outlast(&self, why: Outlasts) -> io::Result<()> {
        life::outlast(&self.to_string(), why)
    }
    /// A run of this process has ended as planned: its processes and groups are gone. In a container, its watcher may end with it.
    pub fn ends_well(&self) {
        self.settle(Outlasts::Watcher);
    }
    /// A reason of [`RunId::outlast`] holds no more.
    pub(crate) fn settle(&self, why: Outlasts) {
        life::settle(&self.to_string(), why);
    }
    /// Name of the directory that says whose a group is that has another name.
    pub(crate) fn mark_name(&self) -> String {
        format!("{PREFIX}{MARK}{self}")
    }
    /// The run that the name of a directory marks.
    pub(crate) fn of_mark(name: &str) -> Option<RunId> {
        name.strip_prefix(PREFIX)?.strip_prefix(MARK)?.parse().ok()
    }
    /// Name of the run's directory in each cgroup hierarchy.
    #[must_use]
    pub fn group_name(&self) -> String {
        format!("{PREFIX}{self}")
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.start)?;
        if self.serial > 0 {
            write!(f, "-{}", self.serial)?;
        }
        Ok(())
    }
}

/// The text is not the name of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the name of a run: PID-STARTTIME is expected")]
pub struct NotARun;

impl FromStr for RunId {
    type Err = NotARun;
    fn from_str(text: &str) -> Result<RunId, NotARun> {
        let mut parts = text.split('-');
        let pid = parts.next().and_then(|p| p.parse().ok()).filter(|p| *p > 0).ok_or(NotARun)?;
        let start = parts.next().and_then(|p| p.parse().ok()).ok_or(NotARun)?;
        let serial = parts.next().map_or(Ok(0), |p| p.parse().map_err(|_| NotARun))?;
        let run = RunId { pid, start, serial };
        // One spelling only, so that a name found on the machine and the one made here are equal as text.
        if run.to_string() == text { Ok(run) } else { Err(NotARun) }
    }
}

/// The fields of `/proc/PID/stat` that Takt looks at.
pub(crate) struct Stat {
    /// One letter, such as `R`, `S`, `T`, `Z`.
    pub(crate) state: char,
    /// Parent process.
    pub(crate) parent: i32,
    /// Process group.
    pub(crate) group: i32,
    /// Start time in clock ticks since boot, in the first time namespace.
    pub(crate) start: u64,
}

/// Reads `/proc/PID/stat`; `None` when there is no such process.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(text: &str) -> Option<Stat> {
    // The command name may hold blanks and parentheses, so fields are counted after the last one.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let start = fields.nth(16)?.parse().ok()?;
    Some(Stat { state, parent, group, start: namespace::start(start) })
}

/// Start time of a process that runs (a zombie has none).
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    stat(pid).filter(|s| !matches!(s.state, 'Z' | 'X')).map(|s| s.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_by_pid_and_start_time() {
        let run = RunId::new().unwrap();
        assert_eq!(run.to_string().parse(), Ok(run));
        assert!(run.is_seen() && run.life() == Life::Lives);
        let other = RunId { start: run.start + 1, ..run };
        assert!(!other.is_seen(), "the same process id with another start time is another process");
        assert!(other.life() == Life::Unseen && !other.has_died(), "nothing shows that it has died");
        assert_ne!(RunId::new().unwrap().group_name(), run.group_name());
        assert_eq!(RunId::of_mark(&run.mark_name()), Some(run));
        assert_eq!(RunId::of_mark(&run.group_name()), None);
        for bad in ["", "1", "x-1", "1-x", "1-2-3-4", "01-2", "1-2-0", "-1-2"] {
            assert_eq!(bad.parse::<RunId>(), Err(NotARun), "{bad:?}");
        }
    }
}
