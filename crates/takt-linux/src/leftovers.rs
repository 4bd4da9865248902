//! What runs that died have left behind, and its removal.
//!
//! A run is dead when the process that drove it is. Its groups are known by their name, its processes by their groups
//! or, where it used no cgroups and for daemons that left theirs, by the variable `TAKT_RUN` in their environment.

use crate::control;
use crate::delegated;
use crate::freezer::{v1, v2};
use crate::isolate;
use crate::layout::Layout;
use crate::members;
use crate::rt::{self, Class};
use crate::run_id::{PREFIX, RunId, start_time};
use crate::socket;
use crate::tracing;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// What becomes of the processes of a run that died (`on_crash`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnCrash {
    /// They are killed.
    #[default]
    Kill,
    /// They run on, thawed, under Linux's own scheduler and on all CPUs.
    Release,
}

impl FromStr for OnCrash {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<OnCrash, &'static str> {
        match text {
            "kill" => Ok(OnCrash::Kill),
            "release" => Ok(OnCrash::Release),
            _ => Err("`kill` or `release` is expected"),
        }
    }
}

impl std::fmt::Display for OnCrash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OnCrash::Kill => "kill",
            OnCrash::Release => "release",
        })
    }
}

/// How much was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaned {
    /// Groups removed, counted in every hierarchy.
    pub groups: usize,
    /// Processes killed or released.
    pub processes: usize,
    /// Settings restored: files whose value was another one.
    pub settings: usize,
}

/// The remains of one dead run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Remains {
    /// Its top groups.
    pub groups: Vec<PathBuf>,
    /// Its processes in no group.
    pub processes: Vec<i32>,
    /// The groups of its supervisor, each in a delegated group.
    pub supervisors: Vec<PathBuf>,
    /// Its control socket.
    pub sockets: Vec<PathBuf>,
    /// The number of its settings in the journal.
    pub settings: usize,
    /// It has an instance of the kernel's tracing.
    pub traced: bool,
}

/// All remains of dead runs on this machine, as far as this process may see them. What a live run owns is never
/// among them.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn find() -> io::Result<BTreeMap<RunId, Remains>> {
    let mut found = groups(|run| !run.is_alive())?;
    for (run, process) in members::claimed() {
        if let Some(run) = run.parse().ok().filter(|run: &RunId| !run.is_alive()) {
            found.entry(run).or_default().processes.push(process.pid);
        }
    }
    for (run, path) in socket::sockets().into_iter().filter(|(run, _)| !run.is_alive()) {
        found.entry(run).or_default().sockets.push(path);
    }
    for (run, settings) in isolate::holders().into_iter().filter(|(run, _)| !run.is_alive()) {
        found.entry(run).or_default().settings = settings;
    }
    for run in tracing::instances().into_iter().filter(|run| !run.is_alive()) {
        found.entry(run).or_default().traced = true;
    }
    Ok(found)
}

/// Removes all remains of dead runs.
///
/// # Errors
/// The first failure, after everything was tried.
pub fn clean(on_crash: OnCrash) -> io::Result<Cleaned> {
    let mut total = Cleaned::default();
    let mut result = Ok(());
    for run in find()?.into_keys() {
        match clean_run(&run, on_crash) {
            Ok(cleaned) => {
                total.groups += cleaned.groups;
                total.processes += cleaned.processes;
                total.settings += cleaned.settings;
            }
            Err(e) => result = result.and(Err(e)),
        }
    }
    result.map(|()| total)
}

/// Removes the remains of one run.
///
/// # Errors
/// When the run is alive, or when something could not be removed within about a second, and 3 ms more for each process.
pub fn clean_run(run: &RunId, on_crash: OnCrash) -> io::Result<Cleaned> {
    if run.is_alive() {
        return Err(io::Error::other(format!("run {run} is alive")));
    }
    let Remains { groups: tops, supervisors, .. } = groups(|found| found == run)?.remove(run).unwrap_or_default();
    let mut counted = BTreeSet::new();
    let (mut result, mut settings) = (Ok(()), 0);
    // Before any journal or lock: no process stays frozen while another one has these.
    for round in 0..8 {
        // Processes that had forked just before they were stopped or killed show up in the next round.
        let mut members: Vec<i32> = tops.iter().flat_map(|top| members(top)).collect();
        let name = run.to_string();
        members.extend(members::claimed().filter(|(of, _)| *of == name).map(|(_, process)| process.pid));
        let new = members.iter().filter(|pid| counted.insert(**pid)).count();
        if new == 0 && round > 0 {
            break;
        }
        // A group that another process has removed keeps none of the others.
        result = result.and(match on_crash {
            OnCrash::Kill => kill(&tops, &members),
            OnCrash::Release => release(&tops, &members),
        });
        std::thread::sleep(Duration::from_millis(2));
    }
    let each = Duration::from_millis(3).saturating_mul(u32::try_from(counted.len()).unwrap_or(u32::MAX));
    let deadline = Instant::now() + Duration::from_secs(1).saturating_add(each);
    let mut removed = 0;
    for top in &tops {
        removed += control::tree(top).len();
        result = result.and(control::remove_tree(top, deadline));
    }
    for group in &supervisors {
        removed += 1;
        result = result.and(delegated::clean(group));
    }
    // Its writer has died with it, so nothing is written after this.
    match isolate::release(run) {
        Ok(restored) => settings += restored,
        Err(e) => result = result.and(Err(e)),
    }
    result = result.and(isolate::recover());
    result = result.and(tracing::remove(run).map(drop));
    for path in socket::remains(run) {
        // A missing file is no failure, and a file of another user remains.
        let _ = fs::remove_file(path);
    }
    result.map(|()| Cleaned { groups: removed, processes: counted.len(), settings })
}

/// Kills the processes of a group below that of this process, in every hierarchy, and removes it with all groups below it. For programs beside Takt
/// that freeze processes and end without cleaning up. A group that is not there is no error.
///
/// # Errors
/// When a process does not end within a second, or the kernel refuses something.
pub fn remove_group(name: &str) -> io::Result<()> {
    let layout = Layout::read()?;
    let hierarchies = [&layout.unified, &layout.freezer, &layout.cpuset, &layout.cpu].into_iter().flatten();
    let tops: Vec<PathBuf> = hierarchies.map(|h| h.own.join(name)).filter(|top| top.is_dir()).collect();
    let members: Vec<i32> = tops.iter().flat_map(|top| members(top)).collect();
    kill(&tops, &members)?;
    let deadline = Instant::now() + Duration::from_secs(1);
    tops.iter().try_for_each(|top| control::remove_tree(top, deadline))
}

/// Top groups of the runs that `wanted` accepts, and of their supervisors, in every hierarchy and at any depth.
fn groups(wanted: impl Fn(&RunId) -> bool) -> io::Result<BTreeMap<RunId, Remains>> {
    let layout = Layout::read()?;
    let mut found: BTreeMap<RunId, Remains> = BTreeMap::new();
    for hierarchy in [&layout.unified, &layout.freezer, &layout.cpuset].into_iter().flatten() {
        for dir in control::tree(&hierarchy.mount) {
            let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { continue };
            let marked = RunId::of_mark(name).zip(dir.parent().map(Path::to_path_buf));
            let named = name.strip_prefix(PREFIX).and_then(|name| name.parse().ok()).map(|run| (run, dir.clone()));
            if let Some((run, top)) = named.or(marked).filter(|(run, _)| wanted(run)) {
                found.entry(run).or_default().groups.push(top);
            } else if let Some(run) = delegated::run_of(&dir).filter(&wanted) {
                found.entry(run).or_default().supervisors.push(dir);
            }
        }
    }
    Ok(found)
}

/// Processes in a group and all groups below it.
fn members(top: &Path) -> Vec<i32> {
    control::tree(top).iter().flat_map(|dir| control::pids(&dir.join("cgroup.procs"))).collect()
}

fn is_v1_freezer(dir: &Path) -> bool {
    dir.join("freezer.state").exists()
}

/// Tries everything even when a part fails.
fn kill(tops: &[PathBuf], members: &[i32]) -> io::Result<()> {
    let mut result = Ok(());
    for top in tops {
        if top.join("cgroup.events").exists() {
            result = result.and(v2::kill_all(top));
        }
        let occupied = |dir: &&PathBuf| is_v1_freezer(dir) && !control::pids(&dir.join("cgroup.procs")).is_empty();
        for dir in control::tree(top).iter().filter(occupied) {
            result = result.and(v1::kill(dir));
        }
    }
    for pid in members.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    result
}

/// Tries everything even when a part fails, because a process that stays frozen is the worst outcome.
fn release(tops: &[PathBuf], members: &[i32]) -> io::Result<()> {
    let mut result = Ok(());
    for top in tops {
        let Some(parent) = top.parent() else { continue };
        for dir in control::tree(top) {
            if is_v1_freezer(&dir) && dir != *top {
                result = result.and(v1::thaw(&dir));
            }
            if dir.join("cgroup.freeze").exists() {
                result = result.and(control::write(&dir.join("cgroup.freeze"), "0"));
            }
            for pid in control::pids(&dir.join("cgroup.procs")) {
                let moved = control::write(&parent.join("cgroup.procs"), &pid.to_string());
                // One that ended meanwhile is no failure.
                result = result.and(moved.or_else(|e| if start_time(pid).is_none() { Ok(()) } else { Err(e) }));
            }
        }
    }
    let all = (0..takt_core::cpus::MAX_CPUS).collect();
    for pid in members {
        for thread in threads(*pid) {
            // Best effort: a thread that ended, or a stricter cpuset above, is none of our concern.
            let _ = rt::set_class(thread, Class::Other);
            let _ = rt::set_affinity(thread, &all);
        }
        if let Some(pid) = Pid::from_raw(*pid) {
            let _ = kill_process(pid, Signal::CONT);
        }
    }
    result
}

fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
