//! Process groups that can be frozen, thawed, moved between CPUs and killed.
//!
//! One group per process: `takt-RUN/p<i>/t<k>` in every hierarchy that is used, or with names that scripts know. The CPU set belongs to the
//! partition `p<i>`.
//!
//! How it is done is a [`Freezer`] and a [`CpuBinder`], each with what the kernel does that shaped it.
//!
//! `auto` prefers the v1 freezer with cpusets, then cgroup v2, then signals, because a v2 freeze takes the kernel's one lock of control
//! groups (`cgroup_freeze_write` in `kernel/cgroup/cgroup.c`). cgroup v2 takes part even if it neither freezes nor binds: it lists
//! processes, reports empty groups, and kills.

use crate::binder::{self, CpuBinder, v1::open_cpuset};
use crate::control;
use crate::control_files::ControlFiles;
use crate::delegated::Delegated;
use crate::freezer::{self, Freezer};
use crate::group::{Group, Member, Names, PartitionHandle, Thread, Tree, Unavailable};
use crate::identity::Limit;
use crate::layout::Layout;
use crate::members::{self, Process};
use crate::rt;
use crate::run_id::{RunId, start_time, stat};
use crate::shared_cpus::SharedCpus;
use crate::spawn::SpawnSpec;
use crate::starter::{Start, Starter};
use crate::stdio;
use crate::sys;
use rustix::fs::{Mode, OFlags, inotify};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;

/// Runs up to this many processes keep one open control file per process; larger ones keep one per partition.
const FILES_MAX: usize = 256;
/// At most this many partitions keep their CPU set's control file open.
const CPU_FILES_MAX: usize = 64;
/// How long [`Mechanism::destroy`] waits for killed processes to be gone, and so much longer for each.
const DESTROY_TIME: Duration = Duration::from_secs(2);
const DESTROY_TIME_EACH: Duration = Duration::from_millis(3);

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

/// The state of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadState {
    /// It lives.
    Alive,
    /// It was killed, and ends when it is started.
    Dying,
    /// It has ended.
    Ended,
}

struct Partition {
    cpus: SharedCpus,
    /// The processes may be on other CPUs than these, by an act of the kernel.
    stale: AtomicBool,
    cpu_file: Option<OwnedFd>,
    members: Vec<Member>,
}

/// The options of a mechanism.
#[derive(Default)]
struct Trees {
    unified: Option<Arc<Tree>>,
    /// The cpuset controller of the unified tree is this run's.
    delegated: Option<Delegated>,
    /// That of the v1 freezer.
    frozen: Option<Arc<Tree>>,
    cpuset: Option<Arc<Tree>>,
}

/// The process groups of one run.
///
/// Set up with `&mut self`, then shared in an `Arc`. [`thaw`](Mechanism::thaw), [`freeze`](Mechanism::freeze),
/// [`set_cpus`](Mechanism::set_cpus) and [`cpu_time`](Mechanism::cpu_time) are for the scheduler thread: they do not
/// allocate, and up to 256 processes they only write to files that are already open (but see [`Mechanism::keep_few_files`]). Everything else is for an
/// ordinary thread. Dropping it destroys the rest of the run.
pub struct Mechanism {
    run: RunId,
    freezer: Box<dyn Freezer>,
    binder: Box<dyn CpuBinder>,
    /// The tree of cgroup v2, which lists processes and tells of empty groups, whatever freezes.
    unified: Option<Arc<Tree>>,
    /// The cpuset of cgroup v1, if that binds.
    cpuset: Option<Arc<Tree>>,
    /// All trees, in the order in which they are removed.
    trees: Vec<Arc<Tree>>,
    cpus: CpuSet,
    partitions: Vec<Partition>,
    /// In large runs, and with few descriptors.
    files: ControlFiles,
    processes: usize,
    cpu_files: usize,
    inotify: OwnedFd,
    watched: Mutex<HashMap<i32, Group>>,
    null: OwnedFd,
    nofile: Option<Rlimit>,
    /// The setting of huge pages that processes inherit ([`rt::without_huge_pages`]).
    huge_pages: bool,
    notes: Vec<String>,
    starter: Option<Starter>,
    /// Dropped after the trees, and when the starter has left it.
    _delegated: Option<Delegated>,
}

impl Mechanism {
    /// Creates the (empty) groups of a run.
    ///
    /// It also raises this process's soft limit of open files to the hard one; started processes get the old one.
    ///
    /// # Errors
    /// When the chosen mechanism does not work here; [`Choice::Auto`] always finds one.
    pub fn open(choice: Choice, run: &RunId) -> Result<Mechanism, Unavailable> {
        Mechanism::open_as(choice, run, None)
    }

    /// [`Mechanism::open`] with names for the groups, and a mark beside these that says whose they are.
    ///
    /// # Errors
    /// As for [`Mechanism::open`], and when there is a group of that name.
    pub fn open_as(choice: Choice, run: &RunId, names: Option<Names>) -> Result<Mechanism, Unavailable> {
        let layout = Layout::read()
            .map_err(|e| Unavailable { reason: e.to_string(), fix: "mount -t proc proc /proc".to_string() })?;
        if let Some(names) = &names {
            let hierarchies = [&layout.unified, &layout.freezer, &layout.cpuset].into_iter().flatten();
            hierarchies.into_iter().try_for_each(|hierarchy| names.are_free(&hierarchy.own))?;
        }
        Mechanism::open_named(&layout, choice, run, names.map(Arc::new).as_ref())
    }

    /// [`Mechanism::open`] for a run that starts processes while others are scheduled.
    ///
    /// Moving a process into a v1 cpuset waits for a grace period of RCU, 5 to 20 ms, under the one lock that a freezer of a v2
    /// group needs, too (`cgroup_mutex` in the kernel's cgroup.c). So where the two come together, CPU sets are set by affinities.
    ///
    /// # Errors
    /// As for [`Mechanism::open_as`].
    pub fn open_for_starts(choice: Choice, run: &RunId, names: Option<Names>) -> Result<Mechanism, Unavailable> {
        let mut mechanism = Mechanism::open_as(choice, run, names)?;
        let slow = mechanism.cpuset.take_if(|_| mechanism.freezer.name() == "v2");
        if let Some(slow) = slow {
            mechanism.trees.retain(|tree| !Arc::ptr_eq(tree, &slow));
            mechanism.binder = Box::new(binder::affinity::Affinity { tree: mechanism.unified.clone() });
            mechanism.notes.push(
                "CPU sets are set by sched_setaffinity, thread by thread (processes are started during the run, and a v1 cpuset would \
                 hold up the scheduler with each)"
                    .into(),
            );
        }
        Ok(mechanism)
    }

    /// [`Mechanism::open_as`] for a run whose CPUs are isolated: its processes are in groups below the CPU set of the isolation, and this process stays
    /// where it is. Processes may be started while others are scheduled.
    ///
    /// # Errors
    /// As for [`Mechanism::open_as`], and when processes cannot be placed in that set.
    pub fn open_isolated(
        choice: Choice,
        run: &RunId,
        names: Option<Names>,
        set: &Path,
    ) -> Result<Mechanism, Unavailable> {
        let unavailable = |reason: String| Unavailable {
            reason: format!("processes cannot be placed in the isolated CPU set: {reason}"),
            fix: "mount the v1 freezer or cgroup v2 (see `takt doctor`), or run without --isolate".into(),
        };
        let mut layout = Layout::read().map_err(|e| unavailable(e.to_string()))?;
        let hierarchies = [&mut layout.cpuset, &mut layout.unified].into_iter().flatten();
        for hierarchy in hierarchies.filter(|hierarchy| set.starts_with(&hierarchy.mount)) {
            hierarchy.own = set.to_owned();
        }
        if let Some(names) = &names {
            let hierarchies = [&layout.unified, &layout.freezer, &layout.cpuset].into_iter().flatten();
            hierarchies.into_iter().try_for_each(|hierarchy| names.are_free(&hierarchy.own))?;
        }
        let mechanism = Mechanism::open_named(&layout, choice, run, names.map(Arc::new).as_ref())?;
        if mechanism.cpuset.is_none() && mechanism._delegated.is_none() {
            return Err(unavailable(mechanism.notes.join("; ")));
        }
        Ok(mechanism)
    }

    /// Prepares for programs whose threads are stopped and bound one by one ([`Mechanism::host`]). To be called before partitions are added.
    ///
    /// # Errors
    /// Where that is not possible.
    pub fn expect_threads(&mut self) -> Result<(), Unavailable> {
        if self.freezer.tree().is_none() {
            return Err(Unavailable {
                reason: "threads of a program cannot be stopped one by one without control groups".into(),
                fix: "mkdir -p /sys/fs/cgroup/freezer && mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer; see `takt doctor`".into(),
            });
        }
        sys::Counter::cpu_time(0).map_err(|e| Unavailable {
            reason: format!("the CPU time of a thread cannot be measured (perf_event_open: {e})"),
            fix: "run as root, or: setcap cap_perfmon=ep $(command -v takt)".into(),
        })?;
        // The groups of threads are below that of their program, and have no other CPUs.
        if let (true, Some(tree), None) = (self.freezer.name() == "v2", &self.unified, &self.cpuset) {
            self.binder = Box::new(binder::affinity::Affinity { tree: Some(tree.clone()) });
        }
        Ok(())
    }

    /// Has processes started by this one. Without, or where it cannot, they are forks of the calling process.
    pub fn start_by(&mut self, starter: Starter) {
        self.starter = Some(starter);
    }

    /// CPU time that the starter has used; zero without one.
    #[must_use]
    pub fn starter_time(&self) -> Span {
        self.starter.as_ref().and_then(Starter::cpu_time).unwrap_or_default()
    }

    /// [`Mechanism::open`] on a given layout, such as that of this machine without one of its hierarchies.
    ///
    /// # Errors
    /// As for [`Mechanism::open`].
    pub fn open_on(layout: &Layout, choice: Choice, run: &RunId) -> Result<Mechanism, Unavailable> {
        Mechanism::open_named(layout, choice, run, None)
    }

    fn open_named(
        layout: &Layout,
        choice: Choice,
        run: &RunId,
        names: Option<&Arc<Names>>,
    ) -> Result<Mechanism, Unavailable> {
        match choice {
            Choice::V2 => Mechanism::open_v2(layout, run, names),
            Choice::V1 => Mechanism::open_v1(layout, run, names),
            Choice::Signal => Mechanism::open_signal(run),
            Choice::Auto => {
                let v1 = match Mechanism::open_v1(layout, run, names) {
                    Ok(v1) => return Ok(v1),
                    Err(e) => e,
                };
                let v2 = match Mechanism::open_v2(layout, run, names) {
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

    fn open_v2(layout: &Layout, run: &RunId, names: Option<&Arc<Names>>) -> Result<Mechanism, Unavailable> {
        let unified = layout.unified.as_ref().ok_or_else(|| Unavailable {
            reason: "no cgroup v2 hierarchy is mounted".into(),
            fix: "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified".into(),
        })?;
        let tree = Tree::create(unified, run, names)?;
        if !tree.path.join("cgroup.freeze").exists() {
            return Err(Unavailable {
                reason: "this kernel's cgroup v2 cannot freeze".into(),
                fix: "use Linux 5.14 or newer".into(),
            });
        }
        let mut notes =
            vec!["v2: freezing waits (10 ms were seen) while another program creates or moves cgroups".into()];
        let delegated = Delegated::enter(&unified.own, run).and_then(|delegated| {
            control::write(&tree.path.join("cgroup.subtree_control"), "+cpuset")?;
            Ok(delegated)
        });
        let delegated = delegated.ok();
        let (cpuset, cpus) = if delegated.is_some() {
            let list = control::read(&tree.path.join("cpuset.cpus.effective")).unwrap_or_default();
            (None, Some(control::parse_cpus(&list)))
        } else {
            open_cpuset(layout, run, names, &mut notes)
        };
        let unified = Arc::new(tree);
        let freezer = Box::new(freezer::v2::V2 { tree: unified.clone() });
        let trees = Trees { unified: Some(unified), delegated, frozen: None, cpuset };
        Mechanism::new(run, freezer, trees, cpus, notes)
    }

    fn open_v1(layout: &Layout, run: &RunId, names: Option<&Arc<Names>>) -> Result<Mechanism, Unavailable> {
        let freezer = layout.freezer.as_ref().ok_or_else(|| Unavailable {
            reason: "no v1 freezer hierarchy is mounted".into(),
            fix: "mkdir -p /sys/fs/cgroup/freezer && mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer".into(),
        })?;
        let mut notes = Vec::new();
        let tree = Tree::create(freezer, run, names)?;
        let keep = tree.own("keep");
        let kept = fs::create_dir(&keep).and_then(|()| control::write(&keep.join("freezer.state"), "FROZEN"));
        if let Err(e) = kept {
            let _ = fs::remove_dir(&keep);
            return Err(Unavailable {
                reason: format!("the v1 freezer does not freeze: {e}"),
                fix: "a kernel with CONFIG_CGROUP_FREEZER is needed".into(),
            });
        }
        let unified = match layout.unified.as_ref().map(|h| Tree::create(h, run, names)) {
            Some(Ok(unified)) => Some(unified),
            Some(Err(e)) => {
                notes
                    .push(format!("v1 without v2: {e}; Takt polls for the end of processes that outlive their parent"));
                None
            }
            None => {
                notes.push("v1 without v2: Takt polls for the end of processes that outlive their parent".into());
                None
            }
        };
        let (cpuset, cpus) = open_cpuset(layout, run, names, &mut notes);
        let tree = Arc::new(tree);
        let freezer = Box::new(freezer::v1::V1 { tree: tree.clone() });
        let trees = Trees { unified: unified.map(Arc::new), delegated: None, frozen: Some(tree), cpuset };
        let opened = Mechanism::new(run, freezer, trees, cpus, notes);
        if opened.is_err() {
            let _ = fs::remove_dir(&keep);
        }
        opened
    }

    fn open_signal(run: &RunId) -> Result<Mechanism, Unavailable> {
        let notes = vec![
            "signal: a process that starts a new session or process group is not stopped with its group".into(),
            "signal: any other program may continue a stopped process, and its parent sees that it stopped".into(),
            "CPU sets are set by sched_setaffinity, thread by thread; a process can change its own".into(),
        ];
        Mechanism::new(run, Box::new(freezer::signal::Signal), Trees::default(), None, notes)
    }

    fn new(
        run: &RunId,
        freezer: Box<dyn Freezer>,
        Trees { unified, delegated, frozen, cpuset }: Trees,
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
        Ok(Mechanism {
            run: *run,
            binder: match (&unified, &cpuset) {
                (_, Some(tree)) => Box::new(binder::v1::V1 { tree: tree.clone() }),
                (Some(tree), None) if delegated.is_some() => Box::new(binder::v2::V2 { tree: tree.clone() }),
                (tree, None) => Box::new(binder::affinity::Affinity { tree: tree.clone() }),
            },
            freezer,
            trees: [&unified, &frozen, &cpuset].into_iter().flatten().cloned().collect(),
            unified,
            cpuset,
            cpus,
            partitions: Vec::new(),
            files: ControlFiles::of_partitions(),
            processes: 0,
            cpu_files: 0,
            inotify,
            watched: Mutex::new(HashMap::new()),
            null,
            nofile: crate::descriptors::raise(),
            huge_pages: rt::has_huge_pages(),
            notes,
            starter: None,
            _delegated: delegated,
        })
    }

    /// `v2`, `v1` or `signal`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.freezer.name()
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
        // The binder makes those of the v1 cpuset.
        let cpuset = |tree: &&Arc<Tree>| self.cpuset.as_ref().is_some_and(|cpuset| Arc::ptr_eq(tree, cpuset));
        for tree in self.trees.iter().filter(|tree| !cpuset(tree)) {
            fs::create_dir(tree.partition(number))?;
        }
        self.binder.add(number, cpus)?;
        let partition = PartitionHandle(number as u32);
        for index in 0..processes as u32 {
            let group = Group { partition, index };
            if let Some(tree) = &self.unified {
                fs::create_dir(tree.group(group))?;
            }
            self.freezer.add(group)?;
        }
        let shared = SharedCpus::new();
        shared.replace(cpus);
        self.partitions.push(Partition {
            cpus: shared,
            stale: AtomicBool::new(false),
            cpu_file: None,
            members: std::iter::repeat_with(Member::default).take(processes).collect(),
        });
        let were_few = self.processes <= FILES_MAX;
        self.processes += processes;
        let handle = PartitionHandle(number as u32);
        if self.files.are_few() {
            return Ok(handle);
        }
        if self.processes <= FILES_MAX {
            for index in 0..processes {
                let file = self.freezer.open(self.group(handle, index))?;
                self.partitions[number].members[index].file = file;
            }
            self.files.add(None);
            return Ok(handle);
        }
        if were_few {
            // One per partition from here on, also for the partitions that were added before.
            for partition in &mut self.partitions {
                partition.members.iter_mut().for_each(|member| member.file = None);
            }
        }
        let first = (processes > 0).then(|| self.group(handle, 0));
        let file =
            first.map(|group| Ok::<_, Errno>(self.freezer.open(group)?.map(|file| (group, file)))).transpose()?;
        self.files.add(file.flatten());
        Ok(handle)
    }

    /// Keeps at most 256 control files of groups open, whatever the number of partitions. To be called before partitions are added.
    ///
    /// Each further group then opens its file when it is stopped or started: two system calls of the scheduler thread more.
    pub fn keep_few_files(&mut self) {
        debug_assert!(self.partitions.is_empty());
        self.files = ControlFiles::few();
    }

    /// Says that [`Mechanism::set_cpus`] will be called for this partition, so that its file is opened in advance.
    /// Only the first 64 are; the others open it at each change.
    ///
    /// # Errors
    /// When the control file cannot be opened.
    pub fn expect_cpu_changes(&mut self, partition: PartitionHandle) -> io::Result<()> {
        if self.cpu_files < CPU_FILES_MAX && self.partitions[partition.0 as usize].cpu_file.is_none() {
            self.partitions[partition.0 as usize].cpu_file = self.binder.open(partition)?;
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
        // Processes are known by their ancestors, so those whose parents have ended come to this one, which has to reap them. A program that starts
        // none need not.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let env = spec.marked_env(&self.run.to_string(), &name)?;
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let inherited = if stdio::output_was_closed() { self.null.as_fd() } else { stdout.as_fd() };
        let gate = self.freezer.gate()?;
        let hold = self.freezer.hold(gate.as_ref());
        // First the soft limit of open files that Takt has raised for itself.
        let nofile = self.nofile.map(|l| Limit { resource: Resource::Nofile, soft: l.current, hard: l.maximum });
        let limits: Vec<Limit> = nofile.into_iter().chain(spec.limits.iter().copied()).collect();
        let child = sys::Child {
            programs: &programs,
            argv: &spec.argv,
            env: &env,
            cwd: spec.cwd.as_deref(),
            enters: spec.enters.as_deref(),
            stdio: [
                self.null.as_fd(),
                spec.stdout.fd(inherited, self.null.as_fd()),
                spec.stderr.fd(stderr.as_fd(), self.null.as_fd()),
            ],
            pass: &spec.pass_fds,
            limits: &limits,
            umask: spec.umask,
            identity: spec.identity.as_ref().filter(|identity| !identity.is_own()),
            huge_pages: self.huge_pages,
            hold,
        };
        let hosted = self.member(group).thread.get().filter(|thread| thread.file.is_some());
        let hosted = hosted.and_then(|thread| thread.list.parent()).map(Path::to_path_buf);
        let place = hosted.or_else(|| self.unified.as_ref().map(|tree| tree.group(group)));
        let birth = place.as_deref().map(control::open_dir).transpose()?;
        let birth = birth.as_ref().map(AsFd::as_fd);
        let start = self.starter.as_ref().map_or(Start::Cannot, |starter| starter.spawn(&child, birth));
        let (pid, gate) = match start {
            Start::Answered(started) => (started?, gate),
            Start::Cannot | Start::Died => {
                if matches!(start, Start::Died) {
                    self.discard_unborn(place.as_deref());
                }
                let gate = self.freezer.gate()?;
                let child = sys::Child { hold: self.freezer.hold(gate.as_ref()), ..child };
                (sys::spawn(&child, birth, None)?, gate)
            }
        };
        let placed = self.settle(group, spec, pid, gate.as_ref());
        if placed.is_err() {
            self.discard(group, pid);
        }
        placed.map(|()| pid)
    }

    /// Puts a held child into its place.
    fn settle(&self, group: Group, spec: &SpawnSpec<'_>, pid: i32, gate: Option<&OwnedFd>) -> io::Result<()> {
        let id = pid_of(pid)?;
        self.binder.take_in(group.partition, pid)?;
        self.freezer.take_in(group, id)?;
        if spec.class != rt::Class::Other {
            rt::set_class(pid, spec.class)?;
        }
        let member = self.member(group);
        member.killed.store(false, Release);
        member.process_group.store(pid, Release);
        member.leader.store(pid, Release);
        if let Some(thread) = member.thread.get() {
            thread.process.store(pid, Release);
            let _ = thread.clock.set(sys::Counter::cpu_time(pid)?);
        }
        self.bind(group.partition, pid, spec.cpus.as_ref())?;
        if let Some(gate) = gate {
            rustix::io::write(gate, &1u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Gives a thread the CPUs of its partition, of these only.
    fn bind(&self, partition: PartitionHandle, thread: i32, only: Option<&CpuSet>) -> io::Result<()> {
        let partition = &self.partitions[partition.0 as usize];
        loop {
            let (version, mut cpus) = partition.cpus.load();
            if let Some(only) = only {
                cpus = cpus.intersection(only);
            }
            if self.binder.binds_threads() || only.is_some() {
                rt::set_affinity(thread, &cpus)?;
            }
            // The scheduler may have moved the partition meanwhile.
            if !self.binder.binds_threads() || partition.cpus.load().0 == version {
                return Ok(());
            }
        }
    }

    /// Says of a group, before its process is started, that other groups take threads of this. The first thread, and the ones that no group
    /// takes, stay in the group of the process. From then on the group is stopped, measured and bound as these threads.
    ///
    /// # Errors
    /// `ENOTSUP` where [`Mechanism::expect_threads`] fails; else the kernel's answer.
    pub fn host(&self, group: Group) -> io::Result<()> {
        let _ = self.member(group).thread.set(self.freezer.host(group)?);
        Ok(())
    }

    /// Takes a thread of a process out of the group of that into one of its own, where it is stopped, and gives it a class. Not for the
    /// scheduler thread.
    ///
    /// # Errors
    /// `ESRCH` if it is no thread of that process, or no longer; `EBUSY` if it is the first thread, or a group has it; else the kernel's answer.
    pub fn adopt(&self, program: Group, own: Group, thread: i32, class: rt::Class) -> io::Result<()> {
        let process = self.member(program).leader.load(Acquire);
        let members = self.partitions.iter().flat_map(|partition| &partition.members);
        // The process is not reaped, so its number is that of no other process. That of a thread can be.
        let is_own =
            || if process > 0 && thread > 0 { sys::signal_thread(process, thread, 0) } else { Err(Errno::SRCH.into()) };
        is_own()?;
        if members.into_iter().any(|member| member.leader.load(Acquire) == thread) {
            return Err(Errno::BUSY.into());
        }
        let adopted = self.freezer.adopt(program, own, thread)?;
        adopted.process.store(process, Release);
        let _ = adopted.clock.set(sys::Counter::cpu_time(thread)?);
        self.binder.take_in_thread(own.partition, thread)?;
        self.bind(own.partition, thread, None)?;
        let member = self.member(own);
        let _ = member.thread.set(adopted);
        is_own()?;
        rt::set_class(thread, class)?;
        member.leader.store(thread, Release);
        Ok(())
    }

    /// The state of the thread of a group ([`Mechanism::adopt`], [`Mechanism::host`]). Not for the scheduler thread.
    #[must_use]
    pub fn thread_state(&self, group: Group) -> ThreadState {
        let (Some(thread), number) = (self.member(group).thread.get(), self.member(group).leader.load(Acquire)) else {
            return ThreadState::Ended;
        };
        let process = thread.process.load(Acquire);
        let status = fs::read_to_string(format!("/proc/{process}/task/{number}/status")).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        let killed = |set: &str| u64::from_str_radix(set, 16).is_ok_and(|set| set & 1 << (libc::SIGKILL - 1) != 0);
        match field("State").and_then(|state| state.chars().next()) {
            None | Some('Z' | 'X') => ThreadState::Ended,
            Some(_) if field("SigPnd").is_some_and(killed) => ThreadState::Dying,
            Some(_) => ThreadState::Alive,
        }
    }

    /// Lets the threads of a group end that were killed. From here on the group stays thawed.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn let_die(&self, group: Group) -> io::Result<()> {
        self.member(group).killed.store(true, Release);
        self.set_frozen(group, false)
    }

    /// Kills a program whose first thread is no longer stopped with its group. A thread that calls `exec` ends all others and becomes the
    /// first one, in a group of its own. To be called when the other threads that have groups have ended. Not for the scheduler thread.
    pub fn end_displaced(&self, group: Group) {
        let (Some(thread), leader) = (self.member(group).thread.get(), self.member(group).leader.load(Acquire)) else {
            return;
        };
        let displaced = self.member(group).killed.load(Acquire) || !control::pids(&thread.list).contains(&leader);
        // A first thread that has ended is in no list.
        if displaced && leader > 0 && self.thread_state(group) == ThreadState::Alive {
            let _ = self.signal_leader(group, Signal::KILL);
        }
    }

    /// The thread of a group has ended. Its number may become that of another thread.
    pub fn forget_thread(&self, group: Group) {
        self.member(group).leader.store(0, Release);
    }

    /// CPU time that the thread of a group has used since it was started or adopted, also when it has ended.
    #[must_use]
    pub fn thread_time(&self, group: Group) -> Option<Span> {
        let mut count = [0; 8];
        let read = rustix::io::read(self.member(group).thread.get()?.clock.get()?, &mut count).ok()?;
        (read == count.len()).then(|| Span::from_ns(u64::from_ne_bytes(count) as i64))
    }

    /// Removes a child that could not be put into its place; it has not run anything.
    fn discard(&self, group: Group, pid: i32) {
        let member = self.member(group);
        member.leader.store(0, Release);
        member.process_group.store(0, Release);
        let Ok(id) = pid_of(pid) else { return };
        let _ = kill_process(id, Signal::KILL);
        self.freezer.discard(group, id);
    }

    /// The starter may have died after it had started a process, for this v2 group if there is one. That process waits for good: it is killed. The
    /// caller of [`Mechanism::spawn`] reaps it.
    fn discard_unborn(&self, place: Option<&Path>) {
        let members = self.partitions.iter().flat_map(|partition| &partition.members);
        let known: HashSet<i32> = members.map(|member| member.leader.load(Acquire)).collect();
        let unborn = self.starter.iter().flat_map(|starter| starter.unborn(&self.run));
        let born = place.into_iter().flat_map(|group| control::pids(&group.join("cgroup.procs")));
        for pid in unborn.chain(born).filter(|pid| !known.contains(pid)).filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Whether the kernel reports a stop as a sleep of the process.
    #[must_use]
    pub fn stops_as_sleep(&self) -> bool {
        self.freezer.name() == "v2"
    }

    /// Lets the processes of a group run.
    ///
    /// # Errors
    /// The kernel's answer. A group without processes is no error.
    pub fn thaw(&self, group: Group) -> io::Result<()> {
        self.set_frozen(group, false)
    }

    /// Stops the processes of a group. It takes effect at the latest when each next leaves the kernel.
    ///
    /// # Errors
    /// The kernel's answer. A group without processes is no error.
    pub fn freeze(&self, group: Group) -> io::Result<()> {
        if self.member(group).killed.load(Acquire) {
            return Ok(());
        }
        self.set_frozen(group, true)
    }

    fn set_frozen(&self, group: Group, frozen: bool) -> io::Result<()> {
        let member = self.member(group);
        let set = |file: Option<&OwnedFd>| self.freezer.set(file, member.process_group.load(Acquire), frozen);
        let of_thread = member.thread.get().and_then(|thread| thread.file.as_ref());
        let file = of_thread.or(member.file.as_ref());
        if file.is_some() || self.freezer.tree().is_none() {
            return set(file);
        }
        self.files.with(group, || self.freezer.open(group), set)
    }

    /// Sends a signal to the process that was started in the group, and to none that it started. It takes effect when the group is
    /// thawed. For the scheduler thread, too.
    ///
    /// # Errors
    /// The kernel's answer. A process that is gone is no error.
    pub fn signal_leader(&self, group: Group, signal: Signal) -> io::Result<()> {
        let number = self.member(group).leader.load(Acquire);
        let Some(leader) = Pid::from_raw(number) else { return Ok(()) };
        if let Some(thread) = self.member(group).thread.get() {
            return match sys::signal_thread(thread.process.load(Acquire), number, signal.as_raw()) {
                Err(e) if e.raw_os_error() != Some(libc::ESRCH) => Err(e),
                _ => Ok(()),
            };
        }
        match kill_process(leader, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Sends a signal to every process of the group, and lets the group run. This reads files.
    ///
    /// # Errors
    /// When the group cannot be thawed. A process that is gone is no error.
    pub fn signal_all(&self, group: Group, signal: Signal) -> io::Result<()> {
        match self.listing() {
            Some(tree) => {
                let pids = control::pids(&tree.group(group).join("cgroup.procs"));
                pids.into_iter().filter_map(Pid::from_raw).for_each(|pid| {
                    let _ = kill_process(pid, signal);
                });
            }
            None => self.members_by_search(group).iter().for_each(|process| process.signal(signal)),
        }
        self.thaw(group)
    }

    /// Sets the FIFO priority of the process that was started in the group, that is, of its first thread. For the scheduler thread, too.
    ///
    /// # Errors
    /// `ESRCH` when the process is gone, else the kernel's answer.
    pub fn set_priority(&self, group: Group, priority: u8) -> io::Result<()> {
        self.with_leader(group, |leader| rt::set_class(leader, rt::Class::Fifo(priority)))
    }

    fn with_leader(&self, group: Group, act: impl FnOnce(i32) -> io::Result<()>) -> io::Result<()> {
        match self.member(group).leader.load(Acquire) {
            0 => Err(Errno::SRCH.into()),
            leader => {
                // The number of a thread that has ended may be one of another process.
                if let Some(thread) = self.member(group).thread.get() {
                    sys::signal_thread(thread.process.load(Acquire), leader, 0)?;
                }
                act(leader)
            }
        }
    }

    /// Sets the scheduling class of the process that was started in the group, that is, of its first thread. Threads and processes that it
    /// starts then are ordinary ones: they would keep a real-time class when it leaves that. For the scheduler thread, too.
    ///
    /// # Errors
    /// As [`Mechanism::set_priority`].
    pub fn set_leader_class(&self, group: Group, class: rt::Class) -> io::Result<()> {
        self.with_leader(group, |leader| rt::set_class_of_one(leader, class))
    }

    /// The number of threads of all processes in a group; `None` when the group cannot be read. Without control groups it counts the process that
    /// was started in the group and its children. Not for the scheduler thread.
    #[must_use]
    pub fn threads(&self, group: Group) -> Option<usize> {
        let of_process = |pid: i32| Some(fs::read_dir(format!("/proc/{pid}/task")).ok()?.count());
        if let Some(thread) = self.member(group).thread.get() {
            return Some(control::pids(&thread.list).len());
        }
        if let Some(tree) = self.listing() {
            let pids = control::pids(&tree.group(group).join("cgroup.procs"));
            return pids.into_iter().map(of_process).sum();
        }
        let leader = self.member(group).leader.load(Acquire);
        let own = of_process(leader).filter(|_| leader != 0)?;
        // Only kernels with CONFIG_PROC_CHILDREN list them.
        let children = fs::read_to_string(format!("/proc/{leader}/task/{leader}/children")).unwrap_or_default();
        Some(own + children.split_ascii_whitespace().count())
    }

    /// The process that was started in a group, or the thread that is alone in it; `None` when it is gone. No system call.
    #[must_use]
    pub fn leader(&self, group: Group) -> Option<i32> {
        Some(self.member(group).leader.load(Acquire)).filter(|leader| *leader > 0)
    }

    /// The threads in a group, with those of children where they can be listed. Not for the scheduler thread.
    #[must_use]
    pub fn thread_numbers(&self, group: Group) -> Vec<i32> {
        let of_process = |pid: i32| {
            let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<Vec<i32>>()
        };
        if let Some(thread) = self.member(group).thread.get() {
            return control::pids(&thread.list);
        }
        match self.listing() {
            Some(tree) => {
                let pids = control::pids(&tree.group(group).join("cgroup.procs"));
                pids.into_iter().flat_map(of_process).collect()
            }
            None => self.leader(group).map(of_process).unwrap_or_default(),
        }
    }

    /// Gives all threads of a group that are in the class FIFO this priority, as far as they can be found. Not for the scheduler thread.
    pub fn set_priorities(&self, group: Group, priority: u8) {
        self.each_thread(group, |thread| {
            // A program may have given a thread of its own another class.
            if rt::is_fifo(thread) {
                let _ = rt::set_class(thread, rt::Class::Fifo(priority));
            }
        });
    }

    /// Gives every thread of a group, as far as it can be found, a scheduling class. Not for the scheduler thread.
    pub fn set_class(&self, group: Group, class: rt::Class) {
        // A thread that has ended has no class.
        self.each_thread(group, |thread| drop(rt::set_class(thread, class)));
    }

    fn each_thread(&self, group: Group, mut act: impl FnMut(i32)) {
        if let Some(thread) = self.member(group).thread.get() {
            return control::pids(&thread.list).into_iter().for_each(act);
        }
        match self.listing() {
            Some(tree) => {
                let pids = control::pids(&tree.group(group).join("cgroup.procs"));
                pids.into_iter().for_each(|pid| threads_of(pid).for_each(&mut act));
            }
            None => {
                for process in self.members_by_search(group) {
                    for thread in threads_of(process.pid) {
                        act(thread);
                        // The number may have become that of a thread of another program meanwhile, which keeps no class of this run.
                        if !process.is_alive() || sys::signal_thread(process.pid, thread, 0).is_err() {
                            let _ = rt::set_class(thread, rt::Class::Other);
                        }
                    }
                }
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

    /// The tree in which each group lists its processes.
    fn listing(&self) -> Option<&Tree> {
        self.unified.as_deref().or(self.freezer.tree())
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
        let stale = state.stale.load(Relaxed) && state.stale.swap(false, AcqRel);
        if !state.cpus.replace(cpus) && !stale {
            return Ok(());
        }
        let done =
            self.binder.set(partition, state.cpu_file.as_ref(), &state.members, &|thread| self.is_task(thread), cpus);
        if done.is_err() {
            state.cpus.forget();
        }
        Ok(done?)
    }

    /// Says that the kernel may have moved processes to other CPUs, as it does when the last CPU of a set goes offline. The next
    /// [`Mechanism::set_cpus`] of each partition sets its CPUs, whichever it had.
    pub fn distrust_cpus(&self) {
        self.partitions.iter().for_each(|partition| partition.stale.store(true, Release));
    }

    /// Whether another program has moved the process that was started in the group to another group, where it is not stopped with its own. It is
    /// moved back, with the processes that carry the marks of the group. Costs O(1) if it is in its place, else O(processes of the
    /// machine). Not for the scheduler thread.
    ///
    /// # Errors
    /// The kernel's answer to the move. A process that is gone is no error.
    pub fn take_back(&self, group: Group) -> io::Result<bool> {
        let leader = self.member(group).leader.load(Acquire);
        if leader <= 0 || self.trees.is_empty() {
            return Ok(false);
        }
        let Ok(places) = fs::read_to_string(format!("/proc/{leader}/cgroup")) else { return Ok(false) };
        let hosted = self.member(group).thread.get().is_some();
        let is_v1 = self.freezer.name() == "v1";
        let mut homes: Vec<(&str, &Tree, PathBuf)> = Vec::new();
        let freezer = self.freezer.tree().map(|tree| (if is_v1 { "freezer" } else { "" }, tree));
        let listing = self.unified.as_deref().filter(|_| is_v1).map(|tree| ("", tree));
        homes.extend(freezer.into_iter().chain(listing).map(|(name, tree)| (name, tree, tree.group(group))));
        let bound = self.cpuset.as_deref().zip(self.binder.home(group.partition));
        homes.extend(bound.map(|(tree, home)| ("cpuset", tree, home)));
        let is_home = |(controller, tree, home): &(&str, &Tree, PathBuf)| {
            let line = places.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let controllers = fields.next()?;
                controllers.split(',').any(|known| known == *controller).then(|| fields.next())?
            });
            // Mounts and namespaces change the beginning of a path, so that it is compared from the directory of the run on.
            let own = tree.path.parent().and_then(|above| home.strip_prefix(above).ok());
            line.zip(own).is_none_or(|(line, own)| is_below(Path::new(line), own))
        };
        let strayed: Vec<PathBuf> = homes.into_iter().filter(|home| !is_home(home)).map(|(.., home)| home).collect();
        if strayed.is_empty() || stat(leader).is_none_or(|stat| matches!(stat.state, 'Z' | 'X')) {
            return Ok(false);
        }
        if hosted {
            // Its threads have groups of their own, which only the program itself fills.
            kill_process(pid_of(leader)?, Signal::KILL)?;
            return Ok(true);
        }
        let name = format!("p{}/t{}", group.partition.0, group.index);
        let marked = members::marked(&self.run.to_string(), Some(&name));
        let mut result = Ok(());
        for home in strayed {
            let others = marked.iter().filter(|process| process.is_alive()).map(|process| process.pid);
            for pid in std::iter::once(leader).chain(others.filter(|pid| *pid != leader)) {
                let moved = control::write(&home.join("cgroup.procs"), &pid.to_string());
                // One that ended meanwhile is no failure.
                result = result.and(moved.or_else(|e| if start_time(pid).is_none() { Ok(()) } else { Err(e) }));
            }
        }
        result.map(|()| true)
    }

    /// CPU time used so far by the process that was started in the group (all its threads, not its children); `None`
    /// when it is gone.
    #[must_use]
    pub fn cpu_time(&self, group: Group) -> Option<Span> {
        match self.member(group).leader.load(Acquire) {
            0 => None,
            _ if self.member(group).thread.get().is_some() => self.thread_time(group),
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
        if let Some(thread) = self.member(group).thread.get() {
            let process = thread.process.load(Acquire);
            self.threads_of(process).for_each(|thread| thread.process.store(0, Release));
        }
        if self.populated(group)? {
            let Some(tree) = &self.unified else { return Ok(false) };
            // Watched only now: a v2 freeze writes to the same file, and would wake the supervisor at every switch.
            let file = tree.group(group).join("cgroup.events");
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

    /// The threads of a process that have groups.
    fn threads_of(&self, process: i32) -> impl Iterator<Item = &Thread> {
        let members = self.partitions.iter().flat_map(|partition| &partition.members);
        let threads = members.filter_map(|member| member.thread.get());
        threads.filter(move |thread| thread.process.load(Acquire) == process)
    }

    /// Whether a group has the thread for itself.
    fn is_task(&self, thread: i32) -> bool {
        let mut members = self.partitions.iter().flat_map(|partition| &partition.members);
        members.any(|member| member.thread.get().is_some() && member.leader.load(Acquire) == thread)
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
        match (&self.unified, self.freezer.tree()) {
            (Some(tree), _) => control::populated(&tree.group(group)),
            (None, Some(tree)) => Ok(!control::pids(&tree.group(group).join("cgroup.procs")).is_empty()),
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

    /// Processes of a group without cgroups: descendants of this process that are in its process group or carry its marks.
    fn members_by_search(&self, group: Group) -> Vec<Process> {
        let own = self.member(group).process_group.load(Acquire);
        let name = format!("p{}/t{}", group.partition.0, group.index);
        self.search(Some(&name), |process_group| own > 0 && process_group == own)
    }

    /// Live descendants of this process that carry the marks of the run (and group) or are in a process group that is asked for.
    fn search(&self, name: Option<&str>, in_group: impl Fn(i32) -> bool) -> Vec<Process> {
        members::search(&self.run.to_string(), name, in_group)
    }

    /// Kills every process of a group, however it escaped from its parent; it may still be on its way out when this
    /// returns. From here on the group stays thawed until something is started in it again.
    ///
    /// # Errors
    /// The kernel's answer; an empty group is no error.
    pub fn kill(&self, group: Group) -> io::Result<()> {
        self.member(group).killed.store(true, Release);
        // Another program may have moved it to another group. It has not been reaped, so the number is its own.
        if self.member(group).thread.get().is_none() {
            let _ = self.signal_leader(group, Signal::KILL);
        }
        if !self.freezer.kill(group, self.member(group).process_group.load(Acquire))? {
            kill_found(|| self.members_by_search(group), Instant::now() + Duration::from_secs(1));
        }
        Ok(())
    }

    /// Kills everything in the run, waits until it is gone (at most about 2 s) and removes all groups. The scheduler thread
    /// must have stopped; the caller still reaps the processes that it started. Calling it again does no harm.
    ///
    /// # Errors
    /// When something could not be removed; then a later clean-up of leftovers will find it.
    pub fn destroy(&self) -> io::Result<()> {
        let each = u32::try_from(self.processes).unwrap_or(u32::MAX);
        let deadline = Instant::now() + DESTROY_TIME.saturating_add(DESTROY_TIME_EACH.saturating_mul(each));
        for member in self.partitions.iter().flat_map(|p| &p.members) {
            member.killed.store(true, Release);
        }
        // `cgroup.kill` does not reach a process whose first thread has ended, nor one that was moved to another group.
        for member in self.partitions.iter().flat_map(|p| &p.members) {
            let leader = || member.leader.load(Acquire);
            let process = member.thread.get().map_or_else(leader, |thread| thread.process.load(Acquire));
            if let Some(process) = Pid::from_raw(process) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
        let handles = (0..).map(PartitionHandle).zip(&self.partitions);
        let groups = handles.flat_map(|(partition, state)| {
            (0..state.members.len() as u32).map(move |index| Group { partition, index })
        });
        if let Some(tree) = &self.unified {
            freezer::v2::kill_all(&tree.path)?;
            groups.into_iter().try_for_each(|group| self.freezer.release(group))?;
        } else {
            let mut searched = HashSet::new();
            for group in groups {
                let process_group = self.member(group).process_group.load(Acquire);
                if !self.freezer.kill(group, process_group)? {
                    searched.insert(process_group);
                }
            }
            let found = || self.search(None, |process_group| process_group > 0 && searched.contains(&process_group));
            if self.freezer.tree().is_none() && !kill_found(found, deadline) {
                return Err(io::Error::other("some processes could not be killed"));
            }
        }
        if !self.trees.is_empty() {
            // Processes that another program has moved out of the groups, or that were started by such a process.
            let strays = || members::marked(&self.run.to_string(), None);
            if !kill_found(strays, deadline) {
                return Err(io::Error::other("some processes could not be killed"));
            }
        }
        self.trees.iter().try_for_each(|tree| control::remove_tree(&tree.path, deadline))
    }
}

/// Whether a path contains all parts of another one in a row.
fn is_below(path: &Path, own: &Path) -> bool {
    let (path, own): (Vec<_>, Vec<_>) = (path.components().collect(), own.components().collect());
    path.windows(own.len()).any(|parts| parts == own)
}

impl Drop for Mechanism {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}

/// Kills what a search finds until it finds nothing more, which is its result, or time is up. Killed processes
/// cannot fork, so each round finds only children of those that were missed.
fn kill_found(search: impl Fn() -> Vec<Process>, deadline: Instant) -> bool {
    loop {
        let found = search();
        if found.is_empty() || Instant::now() > deadline {
            return found.is_empty();
        }
        found.iter().for_each(|process| process.signal(Signal::KILL));
        sleep(Duration::from_millis(1));
    }
}

/// The threads of a process. One that has ended has none.
fn threads_of(pid: i32) -> impl Iterator<Item = i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn pid_of(pid: i32) -> io::Result<Pid> {
    Pid::from_raw(pid).ok_or_else(|| Errno::SRCH.into())
}
