//! Remains of runs that died, and their removal.
//!
//! Each object of a run is judged by itself, since a run in another namespace may have the name of a dead one. A group has a lock of its own. A process
//! in no group carries a mark, the variable `TAKT_RUN`, and is judged by the file of its run that it sees. Everything else is judged by the file of its
//! run here (`life.rs`). An object whose run can neither be seen to live nor to have died stays.
//!
//! Groups with names of their own have a child `takt-mark-RUN`, by which they are found. It needs no other right than that to make groups.

use crate::control;
use crate::delegated;
use crate::environments;
use crate::freezer::{v1, v2};
use crate::isolate;
use crate::layout::Layout;
use crate::life::{self, Life, Seized, Succession};
use crate::members::{self, Process};
use crate::rt::{self, Class};
use crate::run_id::{PREFIX, RunId, start_time};
use crate::socket;
use crate::tracing;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The rule for the processes of a run that died (`on_crash`).
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
    let mut found: BTreeMap<RunId, Remains> = BTreeMap::new();
    for (run, group) in groups()? {
        let judge = Judge::of(run);
        if judge.condemns_group(&group, life::of_group(&run.to_string(), &group.locked).has_ended()) {
            let remains = found.entry(run).or_default();
            let list = if group.supervises { &mut remains.supervisors } else { &mut remains.groups };
            list.push(group.top);
        }
    }
    for (process, run, environment) in marked() {
        if Judge::of(run).condemns(process.pid, &environment) {
            found.entry(run).or_default().processes.push(process.pid);
        }
    }
    for (run, path) in socket::remains() {
        if Judge::of(run).died() {
            found.entry(run).or_default().sockets.push(path);
        }
    }
    for (run, settings) in isolate::holders().into_iter().filter(|(run, _)| run.has_died()) {
        found.entry(run).or_default().settings = settings;
    }
    for run in tracing::instances().into_iter().filter(RunId::has_died) {
        found.entry(run).or_default().traced = true;
    }
    Ok(found)
}

/// Removes all remains of dead runs. Waits up to a second for other processes that already clean up after one. O(groups + processes), and not for each run,
/// since another user can have many processes with marks.
///
/// # Errors
/// The first failure, after everything was tried.
pub fn clean(on_crash: OnCrash) -> io::Result<Cleaned> {
    // Runs that have left nothing but their locks are among them.
    let ended = life::ended().into_iter().filter_map(|run| run.parse().ok());
    let runs: BTreeSet<RunId> = find()?.into_keys().chain(ended).collect();
    let deadline = Instant::now() + PRECEDENCE;
    let dead = runs.into_iter().map(|run| {
        // Its watcher knows what is to become of its processes. A watcher may be stopped, though.
        while run.life() == Life::Ends && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        (Judge::of(run), Succession::take(&run.to_string()))
    });
    let dead: Vec<_> = dead.collect();
    clean_all(dead.iter().map(|(judge, right)| Dead::new(judge, right.as_ref())).collect(), on_crash)
}

/// How long another process that cleans up goes first.
const PRECEDENCE: Duration = Duration::from_secs(1);

/// Removes the remains of one run.
///
/// # Errors
/// When the run is not proven to be dead, or when something could not be removed within about a second, and 3 ms more for each process.
pub fn clean_run(run: &RunId, on_crash: OnCrash) -> io::Result<Cleaned> {
    let judge = Judge::of(*run);
    match judge.life {
        Life::Lives => return Err(io::Error::other(format!("run {run} is alive"))),
        // Its groups have locks of their own.
        Life::Unseen | Life::Ends | Life::Ended => {}
    }
    clean_all(vec![Dead::new(&judge, Succession::take(&run.to_string()).as_ref())], on_crash)
}

/// As [`clean_run`], for the watcher of a run, which has seen the death of its driver.
///
/// # Errors
/// When something could not be removed.
pub(crate) fn clean_seen(run: &RunId, on_crash: OnCrash, right: Option<&Succession>) -> io::Result<Cleaned> {
    clean_all(vec![Dead::new(&Judge { run: *run, life: Life::Ended }, right)], on_crash)
}

/// The journal of settings, for one clean-up of all runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Journal {
    Free,
    /// Another process has held it for the longest wait, so the other runs do not wait for it.
    Held,
}

impl Journal {
    /// Does something with the journal, or fails at once where it is held.
    fn with<T>(&mut self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if *self == Journal::Held {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "another process has the journal of settings"));
        }
        act().inspect_err(|e| {
            if e.kind() == io::ErrorKind::TimedOut {
                *self = Journal::Held;
            }
        })
    }
}

/// A dead run while it is cleaned up.
struct Dead<'j> {
    judge: &'j Judge,
    right: Option<&'j Succession>,
    tops: Vec<PathBuf>,
    supervisors: Vec<PathBuf>,
    /// Until the groups are gone, no other run can take one of them for its own.
    seized: Vec<Seized>,
    counted: BTreeSet<Process>,
    /// The last round has found no further process.
    is_quiet: bool,
    cleaned: Cleaned,
    result: io::Result<()>,
}

impl<'j> Dead<'j> {
    fn new(judge: &'j Judge, right: Option<&'j Succession>) -> Dead<'j> {
        Dead {
            judge,
            right,
            tops: Vec::new(),
            supervisors: Vec::new(),
            seized: Vec::new(),
            counted: BTreeSet::new(),
            is_quiet: false,
            cleaned: Cleaned::default(),
            result: Ok(()),
        }
    }

    fn note(&mut self, result: io::Result<()>) {
        self.result = std::mem::replace(&mut self.result, Ok(())).and(result);
    }

    /// Takes a group for the clean-up, if its run has died.
    fn seize(&mut self, group: Group) {
        let lock = life::seize_group(&self.judge.run.to_string(), &group.locked);
        let free = lock.is_some();
        self.seized.extend(lock);
        if self.judge.condemns_group(&group, free) {
            let list = if group.supervises { &mut self.supervisors } else { &mut self.tops };
            list.push(group.top);
        }
    }

    /// Ends or releases the processes in its groups, and these others.
    fn end(&mut self, others: Vec<Process>, on_crash: OnCrash) {
        let mut members: Vec<Process> = self.tops.iter().flat_map(|top| members(top)).collect();
        members.extend(others);
        let new = members.iter().filter(|process| self.counted.insert(**process)).count();
        self.is_quiet = new == 0;
        // A group that another process has removed keeps none of the others.
        let done = match on_crash {
            OnCrash::Kill => kill(&self.tops, &members),
            OnCrash::Release => release(&self.tops, &members),
        };
        self.note(done);
    }

    /// Removes its groups: those of this user, or those of other users, which may continue to make groups in them.
    fn remove_groups(&mut self, own: bool, deadline: Instant) {
        let user = rustix::process::geteuid().as_raw();
        let is_own = |top: &PathBuf| fs::metadata(top).is_ok_and(|known| known.uid() == user);
        let (now, later) = std::mem::take(&mut self.tops).into_iter().partition(|top| is_own(top) == own);
        self.tops = later;
        for top in now {
            self.cleaned.groups += control::tree(&top).len();
            self.note(control::remove_tree(&top, deadline));
        }
    }
}

/// How long the removal of groups of other users takes, all together, and how much more it takes at most for their processes.
const FOREIGN: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(400)];

/// Removes the remains of dead runs.
fn clean_all(mut dead: Vec<Dead<'_>>, on_crash: OnCrash) -> io::Result<Cleaned> {
    if dead.is_empty() {
        return environments::are_read().map(|()| Cleaned::default());
    }
    let index: BTreeMap<RunId, usize> = dead.iter().enumerate().map(|(i, dead)| (dead.judge.run, i)).collect();
    for (run, group) in groups()? {
        if let Some(&i) = index.get(&run) {
            dead[i].seize(group);
        }
    }
    // Before any journal or lock: no process stays frozen while another one has these.
    for round in 0..8 {
        // Processes that had forked just before they were stopped or killed show up in the next round.
        let mut others: BTreeMap<usize, Vec<Process>> = BTreeMap::new();
        // The groups come first: the owner of a process elsewhere could have the reader of its environment wait.
        if round > 0 {
            for (process, run, environment) in marked() {
                if let Some(&i) = index.get(&run)
                    && dead[i].judge.condemns(process.pid, &environment)
                {
                    others.entry(i).or_default().push(process);
                }
            }
        }
        for (i, dead) in dead.iter_mut().enumerate() {
            dead.end(others.remove(&i).unwrap_or_default(), on_crash);
        }
        if round > 1 && dead.iter().all(|dead| dead.is_quiet) {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let counted: usize = dead.iter().map(|dead| dead.counted.len()).sum();
    let each = Duration::from_millis(3).saturating_mul(u32::try_from(counted).unwrap_or(u32::MAX));
    let [foreign, more] = FOREIGN;
    for (own, limit) in [(true, Duration::from_secs(1).saturating_add(each)), (false, foreign + more.min(each))] {
        let deadline = Instant::now() + limit;
        dead.iter_mut().for_each(|dead| dead.remove_groups(own, deadline));
    }
    let mut journal = Journal::Free;
    for dead in &mut dead {
        for group in std::mem::take(&mut dead.supervisors) {
            dead.cleaned.groups += 1;
            dead.note(delegated::clean(&group));
        }
        if dead.judge.life.has_ended() {
            // Its writer has died with it, so nothing is written after this.
            match journal.with(|| isolate::release(&dead.judge.run)) {
                Ok(restored) => dead.cleaned.settings += restored,
                Err(e) => dead.note(Err(e)),
            }
            dead.note(tracing::remove(&dead.judge.run).map(drop));
        }
    }
    let recovered = journal.with(isolate::recover).and(environments::are_read());
    for (run, path) in socket::remains() {
        if index.get(&run).is_some_and(|&i| dead[i].judge.died()) {
            // A missing file is no failure, and a file of another user remains.
            let _ = fs::remove_file(path);
        }
    }
    let (mut total, mut result) = (Cleaned::default(), Ok(()));
    for dead in dead {
        total.groups += dead.cleaned.groups;
        total.processes += dead.counted.len();
        total.settings += dead.cleaned.settings;
        if let (Some(right), Ok(()), Ok(())) = (dead.right, &dead.result, &recovered) {
            right.finish();
        }
        result = result.and(dead.result);
    }
    result.and(recovered).map(|()| total)
}

/// Kills the processes of a group below that of this process, in every hierarchy, and removes it with all groups below it. For programs beside Takt
/// that freeze processes and end without cleaning up. A group that is not there is no error.
///
/// # Errors
/// When a process does not end within a second, or the kernel refuses something.
pub fn remove_group(name: &str) -> io::Result<()> {
    let layout = Layout::read()?;
    let tops = layout.hierarchies().into_iter().map(|hierarchy| hierarchy.own.join(name));
    let tops: Vec<PathBuf> = tops.filter(|top| top.is_dir()).collect();
    let members: Vec<Process> = tops.iter().flat_map(|top| members(top)).collect();
    kill(&tops, &members)?;
    let deadline = Instant::now() + Duration::from_secs(1);
    tops.iter().try_for_each(|top| control::remove_tree(top, deadline))
}

/// A group that names a run.
struct Group {
    /// The top of its groups in one hierarchy, or the group of its supervisor.
    top: PathBuf,
    /// The directory with the lock: the top, or a mark in it.
    locked: PathBuf,
    /// The run's processes are not in it, but Takt.
    supervises: bool,
}

/// Groups that name runs, in every hierarchy and at any depth.
fn groups() -> io::Result<Vec<(RunId, Group)>> {
    let layout = Layout::read()?;
    let mut found = Vec::new();
    for hierarchy in layout.hierarchies() {
        for dir in control::tree(&hierarchy.mount) {
            found.extend(named(dir));
        }
    }
    Ok(found)
}

/// The run that a directory names.
fn named(dir: PathBuf) -> Option<(RunId, Group)> {
    let name = dir.file_name()?.to_str()?;
    if let Some(run) = RunId::of_mark(name) {
        return Some((run, Group { top: dir.parent()?.to_path_buf(), locked: dir, supervises: false }));
    }
    if let Some(run) = name.strip_prefix(PREFIX).and_then(|name| name.parse().ok()) {
        return Some((run, Group { top: dir.clone(), locked: dir, supervises: false }));
    }
    delegated::run_of(&dir).map(|run| (run, Group { top: dir.clone(), locked: dir, supervises: true }))
}

/// Judges the objects of one run.
struct Judge {
    run: RunId,
    life: Life,
}

impl Judge {
    fn of(run: RunId) -> Judge {
        Judge { life: run.life(), run }
    }

    /// Whether the run of a group has died. `free`: the lock of the group is not that of a live run.
    fn condemns_group(&self, group: &Group, free: bool) -> bool {
        match self.life {
            Life::Lives => false,
            // A run of an earlier version has no locks.
            Life::Unseen => free && !self.run.is_seen(),
            // The same name in another namespace is another run.
            Life::Ends | Life::Ended => free || life::of_group(&self.run.to_string(), &group.locked) != Life::Lives,
        }
    }

    /// Whether the run of a marked process has died.
    fn condemns(&self, pid: i32, environment: &[u8]) -> bool {
        match life::of_marked(pid, &self.run.to_string(), environment) {
            Life::Unseen => self.life.has_ended(),
            seen => seen.has_ended(),
        }
    }

    /// Whether the run has died, for a control socket without a listener: a live run has one.
    fn died(&self) -> bool {
        self.life.has_ended() || self.life == Life::Unseen && !self.run.is_seen()
    }
}

/// Processes that carry the mark of a run, with their environments.
fn marked() -> impl Iterator<Item = (Process, RunId, Vec<u8>)> {
    members::claimed().filter_map(|(run, process, environment)| Some((process, run.parse().ok()?, environment)))
}

/// Processes in a group and all groups below it.
fn members(top: &Path) -> Vec<Process> {
    let pids = control::tree(top).into_iter().flat_map(|dir| control::pids(&dir.join("cgroup.procs")));
    pids.filter_map(Process::of).collect()
}

fn is_v1_freezer(dir: &Path) -> bool {
    dir.join("freezer.state").exists()
}

/// Tries everything even when a part fails.
fn kill(tops: &[PathBuf], members: &[Process]) -> io::Result<()> {
    let mut result = Ok(());
    for top in tops {
        if top.join("cgroup.events").exists() {
            result = result.and(v2::kill_all(top));
        }
        for dir in control::tree(top).iter().filter(|dir| is_v1_freezer(dir) && v1::is_occupied(dir)) {
            result = result.and(v1::kill(dir));
        }
    }
    members.iter().for_each(|process| process.signal(Signal::KILL));
    result
}

/// Tries everything even when a part fails, because a process that stays frozen is the worst outcome.
fn release(tops: &[PathBuf], members: &[Process]) -> io::Result<()> {
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
    for process in members.iter().filter(|process| process.is_alive()) {
        for thread in threads(process.pid) {
            // Best effort: a thread that ended, or a stricter cpuset above, is none of our concern.
            let _ = rt::set_class(thread, Class::Other);
            let _ = rt::set_affinity(thread, &all);
        }
        process.signal(Signal::CONT);
    }
    result
}

fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
