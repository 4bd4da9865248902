//! Process groups that can be frozen, thawed, moved between CPUs and killed.
//!
//! One group per process: `takt-RUN/p<i>/t<k>` in every hierarchy that is used. The CPU set belongs to the
//! partition `p<i>`.
//!
//! What the kernel does that shaped this:
//! * v1: freezing something while nothing is frozen, and thawing the last frozen thing, patches kernel code (0.2 ms
//!   on both CPUs of the machine it was measured on), so an empty group `keep` stays frozen for the whole run.
//! * A process on its way into the v2 freezer can miss that the v1 freezer wants it, and then runs on once v2 lets go. So
//!   the two are never combined: under v1, a new process waits for a descriptor until it is in its frozen group.
//! * v1: a frozen process survives SIGKILL until it is thawed. v2: it dies at once.
//! * v2: from Linux 6.14 on, a process that is born into a group that was ever killed by `cgroup.kill` dies at once: its parent's count
//!   of kills is compared with that of the group (`cgroup_css_set_fork`). So a group that is used again is killed process by process.
//! * v2: freezing takes the lock that every creation, move and removal of any group takes.

use crate::control::{self, Text};
use crate::layout::{Hierarchy, Layout};
use crate::rt;
use crate::run_id::{RunId, stat};
use crate::spawn::SpawnSpec;
use crate::sys;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, inotify};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getrlimit, kill_process, kill_process_group,
    setpgid, setrlimit, waitid, waitpid,
};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use std::thread::sleep;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;

/// Runs up to this many processes keep one open control file per process; larger ones keep one per partition.
const FILES_MAX: usize = 256;
/// At most this many partitions keep their CPU set's control file open.
const CPU_FILES_MAX: usize = 64;
/// How long [`Mechanism::destroy`] waits for killed processes to be gone.
const DESTROY_TIME: Duration = Duration::from_secs(2);

/// Which mechanism to use (`--mechanism`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The best that works: v1, then v2, then signals. v1 comes first because a v2 freeze waits, up to 16 ms where it was
    /// measured, while anybody on the machine creates or moves groups.
    Auto,
    /// `cgroup.freeze`.
    V2,
    /// The v1 freezer, with v2 for killing and events where mounted.
    V1,
    /// SIGSTOP and SIGCONT to the process group.
    Signal,
}

/// This machine cannot do what was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// What is missing.
    pub reason: String,
    /// What to do about it, as an exact command where there is one.
    pub fix: String,
}

/// A partition of a run, in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PartitionHandle(pub u32);

/// A process group of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Group {
    /// Its partition.
    pub partition: PartitionHandle,
    /// Its place in the partition.
    pub index: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Freezer {
    V2,
    V1,
    Signal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CpusBy {
    V2,
    V1,
    Affinity,
}

/// The run's directory in one hierarchy. Dropping it removes the directory if it is empty.
#[derive(Debug)]
struct Tree {
    path: PathBuf,
    dir: OwnedFd,
}

impl Tree {
    fn create(hierarchy: &Hierarchy, name: &str) -> Result<Tree, Unavailable> {
        let path = hierarchy.own.join(name);
        let made = fs::create_dir(&path).and_then(|()| control::open_dir(&path));
        made.map(|dir| Tree { path: path.clone(), dir }).map_err(|e| Unavailable {
            reason: format!("cannot create a group in {}: {e}", hierarchy.own.display()),
            fix: match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes takt …".into()
                }
                _ => format!("mkdir {} must succeed", path.display()),
            },
        })
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// A CPU set that one thread writes and others read without ever holding it up: readers repeat when the version moved.
#[derive(Default)]
struct SharedCpus {
    version: AtomicU32,
    words: [AtomicU64; takt_core::cpus::MAX_CPUS / 64],
}

impl SharedCpus {
    fn words(cpus: &CpuSet) -> [u64; takt_core::cpus::MAX_CPUS / 64] {
        let mut words = [0; takt_core::cpus::MAX_CPUS / 64];
        cpus.iter().for_each(|cpu| words[cpu / 64] |= 1 << (cpu % 64));
        words
    }
    /// Stores the set and says whether it is another one. One writer at a time.
    fn replace(&self, cpus: &CpuSet) -> bool {
        let words = Self::words(cpus);
        if self.words.iter().zip(&words).all(|(old, new)| old.load(Relaxed) == *new) {
            return false;
        }
        self.version.fetch_add(1, AcqRel);
        self.words.iter().zip(&words).for_each(|(old, new)| old.store(*new, Release));
        self.version.fetch_add(1, Release);
        true
    }
    /// Makes the next [`SharedCpus::replace`] see a change.
    fn forget(&self) {
        self.version.fetch_add(1, AcqRel);
        self.words.iter().for_each(|word| word.store(0, Release));
        self.version.fetch_add(1, Release);
    }
    fn load(&self) -> (u32, CpuSet) {
        loop {
            let version = self.version.load(Acquire);
            let words = self.words.each_ref().map(|word| word.load(Acquire));
            if version.is_multiple_of(2) && self.version.load(Acquire) == version {
                let in_word = |(i, word): (usize, &u64)| {
                    let word = *word;
                    (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| i * 64 + bit)
                };
                return (version, words.iter().enumerate().flat_map(in_word).collect());
            }
            std::thread::yield_now();
        }
    }
}

#[derive(Default)]
struct Member {
    /// Process id of the process that was started, 0 when there is none (any more).
    leader: AtomicI32,
    /// Process group for signals; outlives the leader as long as the group is populated.
    process_group: AtomicI32,
    /// Set once the group is being killed: freezing it again would keep its processes alive under v1.
    killed: AtomicBool,
    /// Its open freezer file in small runs.
    file: Option<OwnedFd>,
}

struct Partition {
    cpus: SharedCpus,
    cpu_file: Option<OwnedFd>,
    members: Vec<Member>,
    /// In large runs the freezer file used last. Only ever tried, never waited for.
    cached: Mutex<Option<(u32, OwnedFd)>>,
}

/// The process groups of one run.
///
/// Set up with `&mut self`, then shared in an `Arc`. [`thaw`](Mechanism::thaw), [`freeze`](Mechanism::freeze),
/// [`set_cpus`](Mechanism::set_cpus) and [`cpu_time`](Mechanism::cpu_time) are for the scheduler thread: they do not
/// allocate, and up to 256 processes they only write to files that are already open. Everything else is for an
/// ordinary thread. Dropping it destroys what is left of the run.
pub struct Mechanism {
    run: RunId,
    freezer: Freezer,
    cpus_by: CpusBy,
    unified: Option<Tree>,
    v1_freezer: Option<Tree>,
    cpuset: Option<Tree>,
    cpus: CpuSet,
    partitions: Vec<Partition>,
    processes: usize,
    cpu_files: usize,
    inotify: OwnedFd,
    watched: Mutex<HashMap<i32, Group>>,
    null: OwnedFd,
    nofile: Option<Rlimit>,
    notes: Vec<String>,
}

impl Mechanism {
    /// Creates the (empty) groups of a run.
    ///
    /// It also raises this process's soft limit of open files to the hard one; started processes get the old one.
    ///
    /// # Errors
    /// When the chosen mechanism does not work here; [`Choice::Auto`] always finds one.
    pub fn open(choice: Choice, run: &RunId) -> Result<Mechanism, Unavailable> {
        let layout = Layout::read()
            .map_err(|e| Unavailable { reason: e.to_string(), fix: "mount -t proc proc /proc".to_string() })?;
        Mechanism::open_on(&layout, choice, run)
    }

    /// [`Mechanism::open`] for a run that starts processes while others are scheduled.
    ///
    /// Moving a process into a v1 cpuset waits for a grace period of RCU, 5 to 20 ms, under the one lock that whoever freezes a v2
    /// group needs, too (`cgroup_mutex` in the kernel's cgroup.c). So where the two come together, CPU sets are set by affinities.
    ///
    /// # Errors
    /// As for [`Mechanism::open`].
    pub fn open_for_starts(choice: Choice, run: &RunId) -> Result<Mechanism, Unavailable> {
        let mut mechanism = Mechanism::open(choice, run)?;
        if mechanism.freezer == Freezer::V2 && mechanism.cpus_by == CpusBy::V1 {
            mechanism.cpuset = None;
            mechanism.cpus_by = CpusBy::Affinity;
            mechanism.notes.push(
                "CPU sets are set by sched_setaffinity, thread by thread (processes are started during the run, and a v1 cpuset would \
                 hold up the scheduler with each)"
                    .into(),
            );
        }
        Ok(mechanism)
    }

    /// [`Mechanism::open`] on a given layout, such as that of this machine without one of its hierarchies.
    ///
    /// # Errors
    /// As for [`Mechanism::open`].
    pub fn open_on(layout: &Layout, choice: Choice, run: &RunId) -> Result<Mechanism, Unavailable> {
        match choice {
            Choice::V2 => Mechanism::open_v2(layout, run),
            Choice::V1 => Mechanism::open_v1(layout, run),
            Choice::Signal => Mechanism::open_signal(run),
            Choice::Auto => {
                let v1 = match Mechanism::open_v1(layout, run) {
                    Ok(v1) => return Ok(v1),
                    Err(e) => e,
                };
                let v2 = match Mechanism::open_v2(layout, run) {
                    Ok(v2) => return Ok(v2),
                    Err(e) => e,
                };
                let mut signal = Mechanism::open_signal(run)?;
                signal.notes.push(format!("v1 is not possible: {v1} (fix: {})", v1.fix));
                signal.notes.push(format!("v2 is not possible: {v2} (fix: {})", v2.fix));
                Ok(signal)
            }
        }
    }

    fn open_v2(layout: &Layout, run: &RunId) -> Result<Mechanism, Unavailable> {
        let unified = layout.unified.as_ref().ok_or_else(|| Unavailable {
            reason: "no cgroup v2 hierarchy is mounted".into(),
            fix: "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified".into(),
        })?;
        let tree = Tree::create(unified, &run.group_name())?;
        if !tree.path.join("cgroup.freeze").exists() {
            return Err(Unavailable {
                reason: "this kernel's cgroup v2 cannot freeze".into(),
                fix: "use Linux 5.14 or newer".into(),
            });
        }
        let mut notes =
            vec!["v2: freezing waits (10 ms were seen) while anybody on this machine creates or moves cgroups".into()];
        let delegated = control::read(&unified.own.join("cgroup.controllers"))
            .is_ok_and(|list| list.split(' ').any(|c| c == "cpuset"))
            && control::write(&unified.own.join("cgroup.subtree_control"), "+cpuset").is_ok()
            && control::write(&tree.path.join("cgroup.subtree_control"), "+cpuset").is_ok();
        let (cpuset, cpus) = if delegated {
            let list = control::read(&tree.path.join("cpuset.cpus.effective")).unwrap_or_default();
            (None, Some(control::parse_cpus(&list)))
        } else {
            open_cpuset(layout, run, &mut notes)
        };
        let cpus_by = match (delegated, &cpuset) {
            (true, _) => CpusBy::V2,
            (false, Some(_)) => CpusBy::V1,
            (false, None) => CpusBy::Affinity,
        };
        Mechanism::new(run, Freezer::V2, cpus_by, [Some(tree), None, cpuset], cpus, notes)
    }

    fn open_v1(layout: &Layout, run: &RunId) -> Result<Mechanism, Unavailable> {
        let freezer = layout.freezer.as_ref().ok_or_else(|| Unavailable {
            reason: "no v1 freezer hierarchy is mounted".into(),
            fix: "mkdir -p /sys/fs/cgroup/freezer && mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer".into(),
        })?;
        let mut notes = Vec::new();
        let tree = Tree::create(freezer, &run.group_name())?;
        let keep = tree.path.join("keep");
        let kept = fs::create_dir(&keep).and_then(|()| control::write(&keep.join("freezer.state"), "FROZEN"));
        if let Err(e) = kept {
            let _ = fs::remove_dir(&keep);
            return Err(Unavailable {
                reason: format!("the v1 freezer does not freeze: {e}"),
                fix: "a kernel with CONFIG_CGROUP_FREEZER is needed".into(),
            });
        }
        let unified = match layout.unified.as_ref().map(|h| Tree::create(h, &run.group_name())) {
            Some(Ok(unified)) => Some(unified),
            Some(Err(e)) => {
                notes.push(format!("v1 without v2: {e}; ends of processes that outlive their parent are polled for"));
                None
            }
            None => {
                notes.push("v1 without v2: ends of processes that outlive their parent are polled for".into());
                None
            }
        };
        let (cpuset, cpus) = open_cpuset(layout, run, &mut notes);
        let cpus_by = if cpuset.is_some() { CpusBy::V1 } else { CpusBy::Affinity };
        let opened = Mechanism::new(run, Freezer::V1, cpus_by, [unified, Some(tree), cpuset], cpus, notes);
        if opened.is_err() {
            let _ = fs::remove_dir(&keep);
        }
        opened
    }

    fn open_signal(run: &RunId) -> Result<Mechanism, Unavailable> {
        let notes = vec![
            "signal: a process that starts a new session or process group is not stopped with its group".into(),
            "signal: anybody may continue a stopped process, and its parent sees that it stopped".into(),
            "CPU sets are set by sched_setaffinity, thread by thread; a process can change its own".into(),
        ];
        Mechanism::new(run, Freezer::Signal, CpusBy::Affinity, [None, None, None], None, notes)
    }

    fn new(
        run: &RunId,
        freezer: Freezer,
        cpus_by: CpusBy,
        [unified, v1_freezer, cpuset]: [Option<Tree>; 3],
        cpus: Option<CpuSet>,
        notes: Vec<String>,
    ) -> Result<Mechanism, Unavailable> {
        let limit = |e: io::Error| Unavailable { reason: e.to_string(), fix: "ulimit -n 4096".into() };
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK);
        let inotify = inotify.map_err(|e| limit(e.into()))?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let null = null.map_err(|e| limit(e.into()))?;
        let cpus = match cpus {
            Some(cpus) => cpus,
            None => rt::affinity(0).map_err(limit)?,
        };
        let old = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: old.maximum, maximum: old.maximum });
        Ok(Mechanism {
            run: *run,
            freezer,
            cpus_by,
            unified,
            v1_freezer,
            cpuset,
            cpus,
            partitions: Vec::new(),
            processes: 0,
            cpu_files: 0,
            inotify,
            watched: Mutex::new(HashMap::new()),
            null,
            nofile: raised.is_ok().then_some(old),
            notes,
        })
    }

    /// `v2`, `v1` or `signal`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.freezer {
            Freezer::V2 => "v2",
            Freezer::V1 => "v1",
            Freezer::Signal => "signal",
        }
    }
    /// In what this is weaker than the best, a line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
    /// The run that it belongs to.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }
    /// The CPUs that partitions can be given.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.cpus
    }
    /// Whether [`Mechanism::emptied`] tells when a group becomes empty after its leader is gone. Without, ask
    /// [`Mechanism::populated`] from time to time.
    #[must_use]
    pub fn notifies(&self) -> bool {
        self.unified.is_some()
    }

    /// Adds a partition with its CPU set and `processes` groups, all frozen.
    ///
    /// # Errors
    /// `InvalidInput` when a CPU is not in [`Mechanism::cpus`]; else the kernel's answer.
    pub fn add_partition(&mut self, cpus: &CpuSet, processes: usize) -> io::Result<PartitionHandle> {
        let number = self.partitions.len();
        if cpus.is_empty() || !cpus.is_subset(&self.cpus) {
            let what = format!("CPUs {cpus} asked for, CPUs {} are there", self.cpus);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let name = format!("p{number}");
        for tree in [&self.unified, &self.v1_freezer, &self.cpuset].into_iter().flatten() {
            fs::create_dir(tree.path.join(&name))?;
        }
        match (self.cpus_by, &self.cpuset, &self.unified) {
            (CpusBy::V1, Some(tree), _) => {
                let dir = tree.path.join(&name);
                prepare_cpuset(&dir, &control::read(&tree.path.join("cpuset.mems"))?, cpus)?;
            }
            (CpusBy::V2, _, Some(tree)) => {
                control::write(&tree.path.join(&name).join("cpuset.cpus"), &cpus.to_string())?;
            }
            _ => {}
        }
        for index in 0..processes {
            let group = format!("p{number}/t{index}");
            if let Some(tree) = &self.unified {
                fs::create_dir(tree.path.join(&group))?;
                if self.freezer == Freezer::V2 {
                    control::write(&tree.path.join(&group).join("cgroup.freeze"), "1")?;
                }
            }
            if let Some(tree) = &self.v1_freezer {
                fs::create_dir(tree.path.join(&group))?;
                control::write(&tree.path.join(&group).join("freezer.state"), "FROZEN")?;
            }
        }
        let shared = SharedCpus::default();
        shared.replace(cpus);
        self.partitions.push(Partition {
            cpus: shared,
            cpu_file: None,
            members: std::iter::repeat_with(Member::default).take(processes).collect(),
            cached: Mutex::new(None),
        });
        self.processes += processes;
        let handle = PartitionHandle(number as u32);
        if self.processes <= FILES_MAX {
            for index in 0..processes {
                let file = self.open_freezer(self.group(handle, index))?;
                self.partitions[number].members[index].file = file;
            }
        } else {
            // One per partition from here on, also for those that were added before.
            for partition in &mut self.partitions {
                partition.members.iter_mut().for_each(|member| member.file = None);
            }
            if processes > 0 {
                let file = self.open_freezer(self.group(handle, 0))?;
                self.partitions[number].cached = Mutex::new(file.map(|file| (0, file)));
            }
        }
        Ok(handle)
    }

    /// Says that [`Mechanism::set_cpus`] will be called for this partition, so that its file is opened in advance.
    /// Only the first 64 are; the others open it at each change.
    ///
    /// # Errors
    /// When the control file cannot be opened.
    pub fn expect_cpu_changes(&mut self, partition: PartitionHandle) -> io::Result<()> {
        if self.cpu_files < CPU_FILES_MAX && self.partitions[partition.0 as usize].cpu_file.is_none() {
            self.partitions[partition.0 as usize].cpu_file = self.open_cpus(partition)?;
            self.cpu_files += 1;
        }
        Ok(())
    }

    /// The group of a partition's process.
    ///
    /// # Panics
    /// When the partition has no such process.
    #[must_use]
    pub fn group(&self, partition: PartitionHandle, index: usize) -> Group {
        assert!(index < self.partitions[partition.0 as usize].members.len(), "no such process in the partition");
        Group { partition, index: index as u32 }
    }

    fn member(&self, group: Group) -> &Member {
        &self.partitions[group.partition.0 as usize].members[group.index as usize]
    }

    fn path(&self, tree: &Tree, group: Group) -> PathBuf {
        tree.path.join(format!("p{}/t{}", group.partition.0, group.index))
    }

    /// Opens the control file that freezes the group; `None` for signals.
    fn open_freezer(&self, group: Group) -> Result<Option<OwnedFd>, Errno> {
        let (tree, name) = match (self.freezer, &self.unified, &self.v1_freezer) {
            (Freezer::V2, Some(tree), _) => (tree, "cgroup.freeze"),
            (Freezer::V1, _, Some(tree)) => (tree, "freezer.state"),
            _ => return Ok(None),
        };
        let path = Text::<64>::format(format_args!("p{}/t{}/{name}", group.partition.0, group.index))?;
        control::open_below(&tree.dir, path.c_str()?).map(Some)
    }

    fn open_cpus(&self, partition: PartitionHandle) -> Result<Option<OwnedFd>, Errno> {
        let tree = match (self.cpus_by, &self.unified, &self.cpuset) {
            (CpusBy::V2, Some(tree), _) | (CpusBy::V1, _, Some(tree)) => tree,
            _ => return Ok(None),
        };
        let path = Text::<64>::format(format_args!("p{}/cpuset.cpus", partition.0))?;
        control::open_below(&tree.dir, path.c_str()?).map(Some)
    }

    /// Starts a process in its group, which should be frozen: then its program has not run one instruction when this
    /// returns, and will not before the group's first [`Mechanism::thaw`]. Returns the process id; the caller reaps it and then
    /// calls [`Mechanism::leader_exited`]. A program that cannot be run ends with status 127 (not found) or 126 after
    /// its first thaw.
    ///
    /// Not for the scheduler thread. The calling thread should live as long as the run: without cgroup v2, processes
    /// that have not been thawed yet are killed when that thread ends.
    ///
    /// # Errors
    /// When the process cannot be started or put into its place; then nothing is left of it.
    pub fn spawn(&self, group: Group, spec: &SpawnSpec<'_>) -> io::Result<i32> {
        let programs = spec.programs()?;
        let name = format!("p{}/t{}", group.partition.0, group.index);
        let env = spec.marked_env(&self.run.to_string(), &name)?;
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let gate = match self.freezer {
            Freezer::V1 => Some(eventfd(0, EventfdFlags::CLOEXEC)?),
            Freezer::V2 | Freezer::Signal => None,
        };
        let hold = match (&gate, self.freezer) {
            (Some(gate), _) => sys::Hold::Gate(gate.as_fd()),
            (None, Freezer::Signal) => sys::Hold::Stop,
            (None, _) => sys::Hold::Frozen,
        };
        let child = sys::Child {
            programs: &programs,
            argv: &spec.argv,
            env: &env,
            cwd: spec.cwd.as_deref(),
            stdio: [
                self.null.as_fd(),
                spec.stdout.fd(stdout.as_fd(), self.null.as_fd()),
                spec.stderr.fd(stderr.as_fd(), self.null.as_fd()),
            ],
            pass: &spec.pass_fds,
            nofile: self.nofile.as_ref().map(|l| (l.current.unwrap_or(u64::MAX), l.maximum.unwrap_or(u64::MAX))),
            hold,
        };
        let place = self.unified.as_ref().map(|tree| self.path(tree, group));
        let birth = place.as_deref().map(control::open_dir).transpose()?;
        let pid = sys::spawn(&child, birth.as_ref().map(AsFd::as_fd))?;
        let placed = self.settle(group, spec, pid, gate.as_ref());
        if placed.is_err() {
            self.discard(group, pid);
        }
        placed.map(|()| pid)
    }

    /// Puts a held child into its place.
    fn settle(&self, group: Group, spec: &SpawnSpec<'_>, pid: i32, gate: Option<&OwnedFd>) -> io::Result<()> {
        let id = pid_of(pid)?;
        if self.freezer != Freezer::Signal {
            setpgid(Some(id), Some(id))?;
        }
        if let Some(tree) = &self.cpuset {
            control::write(&tree.path.join(format!("p{}/cgroup.procs", group.partition.0)), &pid.to_string())?;
        }
        if let Some(tree) = &self.v1_freezer {
            control::write(&self.path(tree, group).join("cgroup.procs"), &pid.to_string())?;
        }
        if self.freezer == Freezer::Signal {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            rustix::io::retry_on_intr(|| waitid(WaitId::Pid(id), options))?;
        }
        if spec.class != rt::Class::Other {
            rt::set_class(pid, spec.class)?;
        }
        let member = self.member(group);
        member.killed.store(false, Release);
        member.process_group.store(pid, Release);
        member.leader.store(pid, Release);
        let partition = &self.partitions[group.partition.0 as usize];
        loop {
            let (version, mut cpus) = partition.cpus.load();
            if let Some(own) = &spec.cpus {
                cpus = cpus.intersection(own);
            }
            if self.cpus_by == CpusBy::Affinity || spec.cpus.is_some() {
                rt::set_affinity(pid, &cpus)?;
            }
            // The scheduler may have moved the partition meanwhile.
            if self.cpus_by != CpusBy::Affinity || partition.cpus.load().0 == version {
                break;
            }
        }
        if let Some(gate) = gate {
            rustix::io::write(gate, &1u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Removes a child that could not be put into its place; it has not run anything.
    fn discard(&self, group: Group, pid: i32) {
        let member = self.member(group);
        member.leader.store(0, Release);
        member.process_group.store(0, Release);
        let Ok(id) = pid_of(pid) else { return };
        let _ = kill_process(id, Signal::KILL);
        if let Some(tree) = &self.v1_freezer {
            let state = self.path(tree, group).join("freezer.state");
            let _ = control::write(&state, "THAWED");
            let _ = waitpid(Some(id), WaitOptions::empty());
            let _ = control::write(&state, "FROZEN");
        } else {
            let _ = waitpid(Some(id), WaitOptions::empty());
        }
    }

    /// Lets the processes of a group run.
    ///
    /// # Errors
    /// The kernel's answer. A group without processes is no error.
    pub fn thaw(&self, group: Group) -> io::Result<()> {
        match self.freezer {
            Freezer::V2 => self.set_frozen(group, b"0"),
            Freezer::V1 => self.set_frozen(group, b"THAWED"),
            Freezer::Signal => self.signal(group, Signal::CONT),
        }
    }

    /// Stops the processes of a group. It takes effect at the latest when each next leaves the kernel.
    ///
    /// # Errors
    /// The kernel's answer. A group without processes is no error.
    pub fn freeze(&self, group: Group) -> io::Result<()> {
        if self.member(group).killed.load(Acquire) {
            return Ok(());
        }
        match self.freezer {
            Freezer::V2 => self.set_frozen(group, b"1"),
            Freezer::V1 => self.set_frozen(group, b"FROZEN"),
            Freezer::Signal => self.signal(group, Signal::STOP),
        }
    }

    fn set_frozen(&self, group: Group, value: &[u8]) -> io::Result<()> {
        if let Some(file) = &self.member(group).file {
            return Ok(control::put(file, value)?);
        }
        // Never wait here: whoever holds the lock may be a thread that the caller keeps from running.
        let Ok(mut cached) = self.partitions[group.partition.0 as usize].cached.try_lock() else {
            return Ok(self.open_freezer(group)?.map_or(Ok(()), |file| control::put(file, value))?);
        };
        if cached.as_ref().is_none_or(|(index, _)| *index != group.index) {
            *cached = self.open_freezer(group)?.map(|file| (group.index, file));
        }
        Ok(cached.as_ref().map_or(Ok(()), |(_, file)| control::put(file, value))?)
    }

    /// Sends a signal to the process that was started in the group, and to none that it started. It takes effect when the group is
    /// thawed. For the scheduler thread, too.
    ///
    /// # Errors
    /// The kernel's answer. A process that is gone is no error.
    pub fn signal_leader(&self, group: Group, signal: Signal) -> io::Result<()> {
        let Some(leader) = Pid::from_raw(self.member(group).leader.load(Acquire)) else { return Ok(()) };
        match kill_process(leader, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Gives every thread of a group, as far as it can be found, a scheduling class. Not for the scheduler thread.
    pub fn set_class(&self, group: Group, class: rt::Class) {
        let pids = match (&self.unified, &self.v1_freezer) {
            (Some(tree), _) | (None, Some(tree)) => control::pids(&self.path(tree, group).join("cgroup.procs")),
            (None, None) => self.members_by_search(group),
        };
        for pid in pids {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for thread in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
                // A thread that has ended has no class.
                let _ = rt::set_class(thread, class);
            }
        }
    }

    /// Makes an empty group ready for another process, which is then born frozen.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn prepare(&self, group: Group) -> io::Result<()> {
        self.member(group).killed.store(false, Release);
        self.freeze(group)
    }

    fn signal(&self, group: Group, signal: Signal) -> io::Result<()> {
        let Some(process_group) = Pid::from_raw(self.member(group).process_group.load(Acquire)) else {
            return Ok(());
        };
        match kill_process_group(process_group, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Moves a partition to other CPUs; does nothing when they are the ones it has. To be called by one thread.
    ///
    /// # Errors
    /// The kernel's answer, such as `EINVAL` for a CPU that is not there.
    pub fn set_cpus(&self, partition: PartitionHandle, cpus: &CpuSet) -> io::Result<()> {
        let state = &self.partitions[partition.0 as usize];
        if cpus.is_empty() {
            return Err(Errno::INVAL.into());
        }
        if !state.cpus.replace(cpus) {
            return Ok(());
        }
        let done = match (self.cpus_by, &state.cpu_file) {
            (CpusBy::Affinity, _) => self.set_affinities(partition, cpus),
            (_, Some(file)) => put_cpus(file, cpus),
            (_, None) => self.open_cpus(partition).and_then(|file| file.map_or(Ok(()), |file| put_cpus(file, cpus))),
        };
        if done.is_err() {
            state.cpus.forget();
        }
        Ok(done?)
    }

    /// Sets the affinity of every thread that can be found without searching the whole machine: those of the group in
    /// v2, else those of the process that was started.
    fn set_affinities(&self, partition: PartitionHandle, cpus: &CpuSet) -> Result<(), Errno> {
        let mut set = rustix::thread::CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(cpu));
        // A thread that is gone is no error, nor one that was restricted to other CPUs by the kernel.
        let apply = |thread: i32| {
            if let Some(id) = Pid::from_raw(thread) {
                let _ = rustix::thread::sched_setaffinity(Some(id), &set);
            }
        };
        for (index, member) in self.partitions[partition.0 as usize].members.iter().enumerate() {
            if let Some(tree) = &self.unified {
                let path = Text::<64>::format(format_args!("p{}/t{index}/cgroup.threads", partition.0))?;
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&tree.dir, path.c_str()?, flags, Mode::empty())?;
                each_number(&file, apply)?;
            } else if let leader @ 1.. = member.leader.load(Acquire) {
                let path = Text::<64>::format(format_args!("/proc/{leader}/task"))?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let Ok(dir) = rustix::fs::open(path.c_str()?, flags, Mode::empty()) else { continue };
                let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
                let mut threads = rustix::fs::RawDir::new(dir, &mut buffer);
                while let Some(Ok(entry)) = threads.next() {
                    if let Some(thread) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) {
                        apply(thread);
                    }
                }
            }
        }
        Ok(())
    }

    /// CPU time used so far by the process that was started in the group (all its threads, not its children); `None`
    /// when it is gone.
    #[must_use]
    pub fn cpu_time(&self, group: Group) -> Option<Span> {
        match self.member(group).leader.load(Acquire) {
            0 => None,
            pid => sys::process_cpu_time(pid).map(Span::from_ns),
        }
    }

    /// To be called once the process that was started in the group has been reaped. Says whether the group is
    /// empty; if not, its end is reported by [`Mechanism::drain_emptied`] where [`Mechanism::notifies`]. Some kernels
    /// take a process out of its group a moment after it can be reaped, so that happens without a child too.
    ///
    /// # Errors
    /// When the group cannot be read or watched.
    pub fn leader_exited(&self, group: Group) -> io::Result<bool> {
        self.member(group).leader.store(0, Release);
        if self.populated(group)? {
            let Some(tree) = &self.unified else { return Ok(false) };
            // Watched only now: a v2 freeze writes to the same file, and would wake the supervisor at every switch.
            let file = self.path(tree, group).join("cgroup.events");
            let watch = inotify::add_watch(&self.inotify, &file, inotify::WatchFlags::MODIFY)?;
            self.watched.lock().unwrap_or_else(|e| e.into_inner()).insert(watch, group);
            // It may have become empty before the watch was there.
            if self.populated(group)? {
                return Ok(false);
            }
            self.unwatch(watch);
        }
        self.member(group).process_group.store(0, Release);
        Ok(true)
    }

    fn unwatch(&self, watch: i32) {
        self.watched.lock().unwrap_or_else(|e| e.into_inner()).remove(&watch);
        let _ = inotify::remove_watch(&self.inotify, watch);
    }

    /// Becomes readable when a group that its leader left behind may have become empty.
    #[must_use]
    pub fn emptied(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Reports each group that became empty after [`Mechanism::leader_exited`] said it was not, once.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn drain_emptied(&self, mut report: impl FnMut(Group)) -> io::Result<()> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            let watch = match events.next() {
                Ok(event) => event.wd(),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            };
            let group = self.watched.lock().unwrap_or_else(|e| e.into_inner()).get(&watch).copied();
            let Some(group) = group else { continue };
            if !self.populated(group)? {
                self.unwatch(watch);
                self.member(group).process_group.store(0, Release);
                report(group);
            }
        }
    }

    /// Whether the group holds a process, zombies not counted.
    ///
    /// # Errors
    /// When the group cannot be read.
    pub fn populated(&self, group: Group) -> io::Result<bool> {
        match (&self.unified, &self.v1_freezer) {
            (Some(tree), _) => control::populated(&self.path(tree, group)),
            (None, Some(tree)) => Ok(!control::pids(&self.path(tree, group).join("cgroup.procs")).is_empty()),
            (None, None) => {
                // A process that is just becoming another program has no environment to be found by, for a moment.
                let found = || !self.members_by_search(group).is_empty();
                Ok(found() || {
                    sleep(Duration::from_millis(1));
                    found()
                })
            }
        }
    }

    /// Processes of a group without cgroups: its process group, and whoever carries its marks.
    fn members_by_search(&self, group: Group) -> Vec<i32> {
        let own = self.member(group).process_group.load(Acquire);
        let name = format!("p{}/t{}", group.partition.0, group.index);
        self.search(Some(&name), |process_group| own > 0 && process_group == own)
    }

    /// Live processes that carry the marks of the run (and group) or are in a process group that is asked for.
    fn search(&self, name: Option<&str>, in_group: impl Fn(i32) -> bool) -> Vec<i32> {
        let mut found = control::marked(&self.run.to_string(), name);
        found.extend(control::processes().filter(|pid| stat(*pid).is_some_and(|s| in_group(s.group))));
        found.retain(|pid| stat(*pid).is_some_and(|s| !matches!(s.state, 'Z' | 'X')));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Kills every process of a group, however it escaped from its parent; it may still be on its way out when this
    /// returns. From here on the group stays thawed until something is started in it again.
    ///
    /// # Errors
    /// The kernel's answer; an empty group is no error.
    pub fn kill(&self, group: Group) -> io::Result<()> {
        self.member(group).killed.store(true, Release);
        if let Some(tree) = &self.v1_freezer {
            return kill_v1(&self.path(tree, group));
        }
        if let Some(tree) = &self.unified {
            return kill_frozen_v2(&self.path(tree, group));
        }
        self.signal(group, Signal::KILL)?;
        kill_found(|| self.members_by_search(group), Instant::now() + Duration::from_secs(1));
        Ok(())
    }

    /// Kills everything in the run, waits until it is gone (at most about 2 s) and removes all groups. The scheduler thread
    /// must have stopped; the caller still reaps the processes that it started. Calling it again does no harm.
    ///
    /// # Errors
    /// When something could not be removed; then a later clean-up of leftovers will find it.
    pub fn destroy(&self) -> io::Result<()> {
        let deadline = Instant::now() + DESTROY_TIME;
        for member in self.partitions.iter().flat_map(|p| &p.members) {
            member.killed.store(true, Release);
        }
        let handles = (0..).map(PartitionHandle).zip(&self.partitions);
        let groups = handles.flat_map(|(partition, state)| {
            (0..state.members.len() as u32).map(move |index| Group { partition, index })
        });
        match (&self.unified, &self.v1_freezer) {
            (Some(tree), freezer) => {
                kill_v2(&tree.path)?;
                if let Some(freezer) = freezer {
                    groups.into_iter().try_for_each(|group| thaw_v1(&self.path(freezer, group)))?;
                }
            }
            (None, Some(freezer)) => groups.into_iter().try_for_each(|group| kill_v1(&self.path(freezer, group)))?,
            (None, None) => {
                let process_groups: HashSet<i32> = groups
                    .map(|group| {
                        self.signal(group, Signal::KILL)?;
                        Ok(self.member(group).process_group.load(Acquire))
                    })
                    .collect::<io::Result<_>>()?;
                let found =
                    || self.search(None, |process_group| process_group > 0 && process_groups.contains(&process_group));
                if !kill_found(found, deadline) {
                    return Err(io::Error::other("some processes could not be killed"));
                }
            }
        }
        let trees = [&self.unified, &self.v1_freezer, &self.cpuset];
        trees.into_iter().flatten().try_for_each(|tree| control::remove_tree(&tree.path, deadline))
    }
}

impl Drop for Mechanism {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}

/// Kills what a search finds until it finds nothing more, which is its result, or time is up. Killed processes
/// cannot fork, so each round finds only children of those that were missed.
fn kill_found(search: impl Fn() -> Vec<i32>, deadline: Instant) -> bool {
    loop {
        let found = search();
        if found.is_empty() || Instant::now() > deadline {
            return found.is_empty();
        }
        for pid in found.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        sleep(Duration::from_millis(1));
    }
}

/// Creates the run's v1 cpuset if that is possible, and tells the CPUs in it.
fn open_cpuset(layout: &Layout, run: &RunId, notes: &mut Vec<String>) -> (Option<Tree>, Option<CpuSet>) {
    let made =
        layout.cpuset.as_ref().ok_or_else(|| "no cpuset controller can be used".to_string()).and_then(|parent| {
            let cpus = control::read(&parent.own.join("cpuset.cpus")).map_err(|e| e.to_string())?;
            let mems = control::read(&parent.own.join("cpuset.mems")).map_err(|e| e.to_string())?;
            let mut cpus = control::parse_cpus(&cpus);
            for (name, taken) in exclusive_siblings(&parent.own) {
                if !taken.is_disjoint(&cpus) {
                    notes.push(format!("CPUs {taken} belong exclusively to the cpuset {name}"));
                    cpus = cpus.difference(&taken);
                }
            }
            let tree = Tree::create(parent, &run.group_name()).map_err(|e| e.reason)?;
            prepare_cpuset(&tree.path, &mems, &cpus).map_err(|e| e.to_string())?;
            Ok((tree, cpus))
        });
    match made {
        Ok((tree, cpus)) => (Some(tree), Some(cpus)),
        Err(why) => {
            notes.push(format!("CPU sets are set by sched_setaffinity, thread by thread ({why})"));
            (None, None)
        }
    }
}

fn prepare_cpuset(dir: &Path, mems: &str, cpus: &CpuSet) -> io::Result<()> {
    // First, while the set is empty: a balanced v1 cpuset makes the kernel rebuild its scheduling domains at each change
    // of its CPUs. Tasks are still balanced, in the parent's domain.
    control::write(&dir.join("cpuset.sched_load_balance"), "0")?;
    // Without memory nodes no task can enter.
    control::write(&dir.join("cpuset.mems"), mems)?;
    control::write(&dir.join("cpuset.cpus"), &cpus.to_string())
}

/// Child cpusets of `parent` that exclude others from their CPUs.
fn exclusive_siblings(parent: &Path) -> Vec<(String, CpuSet)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let exclusive = |dir: &Path| control::read(&dir.join("cpuset.cpu_exclusive")).is_ok_and(|flag| flag == "1");
    entries
        .filter(|entry| exclusive(&entry.path()))
        .filter_map(|entry| {
            let cpus = control::read(&entry.path().join("cpuset.cpus")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), control::parse_cpus(&cpus)))
        })
        .collect()
}

fn put_cpus(file: impl AsFd, cpus: &CpuSet) -> Result<(), Errno> {
    // The longest list of 1024 CPUs names every second one.
    control::put(file, Text::<4096>::format(format_args!("{cpus}"))?.bytes())
}

/// Calls `f` for each number in a file of one number per line, without allocating.
fn each_number(file: &OwnedFd, f: impl Fn(i32)) -> Result<(), Errno> {
    let mut buffer = [0u8; 1024];
    let mut number = 0;
    loop {
        let len = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut buffer))?;
        if len == 0 {
            return Ok(());
        }
        for byte in &buffer[..len] {
            match byte {
                b'0'..=b'9' => number = number * 10 + i32::from(byte - b'0'),
                _ => f(std::mem::take(&mut number)),
            }
        }
    }
}

fn pid_of(pid: i32) -> io::Result<Pid> {
    Pid::from_raw(pid).ok_or_else(|| Errno::SRCH.into())
}

/// Kills all below a v2 group, forks included.
pub(crate) fn kill_v2(group: &Path) -> io::Result<()> {
    match control::write(&group.join("cgroup.kill"), "1") {
        // Before Linux 5.14.
        Err(e) if e.kind() == io::ErrorKind::NotFound && group.exists() => {
            kill_frozen_v2(group)?;
            control::write(&group.join("cgroup.freeze"), "0")
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Kills all below a v2 group process by process: a frozen group cannot fork, so none is missed, and in v2 a frozen process dies.
fn kill_frozen_v2(group: &Path) -> io::Result<()> {
    let frozen = |_: &u32| {
        let frozen = control::read(&group.join("cgroup.events")).map_or(true, |e| !e.contains("frozen 0"));
        if !frozen {
            sleep(Duration::from_millis(1));
        }
        frozen
    };
    control::write(&group.join("cgroup.freeze"), "1")?;
    // A process in an uninterruptible wait keeps the group from getting frozen; then it cannot fork either.
    (0..200).find(frozen);
    for dir in control::tree(group) {
        for pid in control::pids(&dir.join("cgroup.procs")).into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    Ok(())
}

/// Kills all in one v1 freezer group: frozen processes cannot fork, so none is missed; the signal waits for the thaw.
pub(crate) fn kill_v1(group: &Path) -> io::Result<()> {
    let state = group.join("freezer.state");
    let frozen = |_: &u32| {
        let frozen = control::read(&state).map_or(true, |s| s == "FROZEN");
        if !frozen {
            sleep(Duration::from_millis(1));
        }
        frozen
    };
    match control::write(&state, "FROZEN") {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => done?,
    }
    // A process in an uninterruptible wait keeps the group from getting frozen; then it cannot fork either.
    (0..200).find(frozen);
    for pid in control::pids(&group.join("cgroup.procs")).into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    thaw_v1(group)
}

/// Thaws one v1 freezer group; one that is gone is no error.
pub(crate) fn thaw_v1(group: &Path) -> io::Result<()> {
    match control::write(&group.join("freezer.state"), "THAWED") {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
