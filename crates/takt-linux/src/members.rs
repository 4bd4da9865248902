//! Processes of a run that are found without control groups.
//!
//! A process belongs to the run of this process if this process is among its ancestors. As the child subreaper it becomes the parent of each descendant
//! whose parent has ended (prctl(2), `PR_SET_CHILD_SUBREAPER`), so the chain of parents never breaks. The kernel alone sets parents. The environment of a
//! process belongs to its user, so its marks only choose among the descendants.
//!
//! A run that has died has no descendants. Then a mark is the claim of a user about an own process, and the most that follows is that this process ends
//! or becomes an ordinary one.

use crate::control::processes;
use crate::environments;
use crate::run_id::{GROUP_VARIABLE, RUN_VARIABLE, start_time, stat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, HashMap};

/// How often a chain of parents is followed again after one of them has ended.
const CHANGES_MAX: usize = 16;

/// A live process. Its start time tells it from a later process with its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: i32,
    start: u64,
}

impl Process {
    /// The process with this number now.
    pub(crate) fn of(pid: i32) -> Option<Process> {
        start_time(pid).map(|start| Process { pid, start })
    }

    /// Whether it lives.
    pub(crate) fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }

    /// Sends a signal to it, and never to a later process with its number. One that has ended is no failure.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // The descriptor is there first, so a process that lives now is the one of the descriptor.
            Ok(process) if self.is_alive() => drop(pidfd_send_signal(process, signal)),
            Ok(_) | Err(Errno::SRCH) => {}
            // There is no descriptor left. It must end all the same.
            Err(_) if self.is_alive() => drop(kill_process(pid, signal)),
            Err(_) => {}
        }
    }
}

/// Answers about the ancestors of processes, which are looked up once.
struct Ancestry {
    ancestor: i32,
    known: HashMap<i32, bool>,
}

impl Ancestry {
    fn of(ancestor: i32) -> Ancestry {
        Ancestry { ancestor, known: HashMap::new() }
    }

    /// Whether the ancestor is one of this process. Amortised O(1) for all processes of the machine.
    fn includes(&mut self, pid: i32) -> bool {
        // A parent that ends while it is looked up has left its children to another one.
        let found = (0..CHANGES_MAX).find_map(|_| self.follow(pid));
        found.unwrap_or(false)
    }

    /// Follows the chain of parents; `None` if one of them has ended meanwhile.
    fn follow(&mut self, pid: i32) -> Option<bool> {
        let (mut passed, mut at) = (Vec::new(), pid);
        let includes = loop {
            if let Some(known) = self.known.get(&at) {
                break *known;
            }
            let parent = match stat(at) {
                Some(stat) => stat.parent,
                None if at == pid => return Some(false),
                None => return None,
            };
            passed.push(at);
            // Numbers that are used again could close a cycle for a moment.
            if parent == self.ancestor || parent <= 0 || passed.contains(&parent) {
                break parent == self.ancestor;
            }
            at = parent;
        };
        self.known.extend(passed.into_iter().map(|pid| (pid, includes)));
        Some(includes)
    }
}

/// The live processes that this process has started, directly or not, and that are in a process group which `in_group` accepts or carry these marks. Their
/// number is that of the group; `None` accepts all groups of the run. O(processes of the machine).
///
/// The memory of other processes is not read: its owner could have the reader wait.
pub(crate) fn search(run: &str, group: Option<&str>, in_group: impl Fn(i32) -> bool) -> Vec<Process> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut ancestry = Ancestry::of(own);
    let descendants = processes().filter(|pid| *pid != own && ancestry.includes(*pid));
    let (grouped, others): (Vec<i32>, Vec<i32>) =
        descendants.partition(|pid| stat(*pid).is_some_and(|stat| in_group(stat.group)));
    let marked = environments::of(others.into_iter()).into_iter().filter(|(_, text)| is_marked(text, run, group));
    grouped.into_iter().chain(marked.map(|(pid, _)| pid)).filter_map(Process::of).collect()
}

/// The live processes that this process has started, directly or not, and that carry the marks of the run, and of the group if given.
pub(crate) fn marked(run: &str, group: Option<&str>) -> Vec<Process> {
    search(run, group, |_| false)
}

fn is_marked(environment: &[u8], run: &str, group: Option<&str>) -> bool {
    let has = |name: &str, value: &str| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.any(|entry| {
            entry.strip_prefix(name.as_bytes()).and_then(|e| e.strip_prefix(b"=")) == Some(value.as_bytes())
        })
    };
    has(RUN_VARIABLE, run) && group.is_none_or(|group| has(GROUP_VARIABLE, group))
}

/// The live processes with the mark of a run that is not the one of this process. A setuid program is none: its user could not end it, and has chosen
/// its environment. The environment is the last part.
pub(crate) fn claimed() -> impl Iterator<Item = (String, Process, Vec<u8>)> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let seen = processes().filter(|pid| *pid != own).filter_map(|pid| Some((pid, Process::of(pid)?)));
    let seen: BTreeMap<i32, Process> = seen.collect();
    environments::of(seen.keys().copied()).into_iter().filter_map(move |(pid, environment)| {
        let process = *seen.get(&pid)?;
        let mut entries = environment.split(|byte| *byte == 0);
        let run = entries.find_map(|entry| entry.strip_prefix(RUN_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
        let run = std::str::from_utf8(run).ok()?.to_owned();
        let has_one_user = environments::users(pid).is_some_and(|[first, rest @ ..]| rest == [first; 3]);
        (has_one_user && process.is_alive()).then_some((run, process, environment))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::{Command, Stdio};

    #[test]
    fn a_mark_chooses_among_descendants() {
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        // One that lives: another test may remove the remains of dead runs.
        let run = crate::run_id::RunId::new().unwrap().to_string();
        // The shell ends, so the sleeper has another parent. It has a session and a process group of its own.
        let script = "setsid sleep 60 &";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env(RUN_VARIABLE, &run).env(GROUP_VARIABLE, "p0/t1");
        assert!(shell.stdin(Stdio::null()).status().unwrap().success());
        // A process that begins another program has no environment for a moment.
        let sleeps = |found: &Vec<Process>| {
            let name =
                |process: &Process| fs::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
            found.len() == 1 && name(&found[0]) == "sleep\n" && marked(&run, Some("p0/t1")) == *found
        };
        let looks = (0..500).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            marked(&run, Some("p0/t1"))
        });
        let found = looks.into_iter().find(sleeps).expect("the sleeper");
        assert_eq!(marked(&run, Some("p0/t2")), []);
        assert_eq!(marked(&run, None), found);
        let sleeper = found[0];
        // The same process is none of another ancestor, whatever it carries.
        let other = Command::new("sleep").arg("60").spawn();
        let mut other = other.unwrap();
        let mut ancestry = Ancestry::of(other.id() as i32);
        assert!(!ancestry.includes(sleeper.pid) && !ancestry.includes(1));
        assert!(Ancestry::of(std::process::id() as i32).includes(sleeper.pid));
        let _ = other.kill();
        let _ = other.wait();
        assert!(claimed().any(|(of, process, _)| of == run && process == sleeper));
        let later = Process { start: sleeper.start + 1, ..sleeper };
        later.signal(Signal::KILL);
        assert!(sleeper.is_alive() && !later.is_alive());
        sleeper.signal(Signal::KILL);
        let _ = rustix::process::waitpid(Pid::from_raw(sleeper.pid), rustix::process::WaitOptions::empty());
        assert_eq!(marked(&run, None), []);
    }
}
