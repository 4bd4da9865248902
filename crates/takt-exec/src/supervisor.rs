//! The supervisor: everything around the scheduler thread that may block.

use crate::life::{Incarnation, Life, Message, Program, Request, Requests, Resume, completion_data, completion_of};
use crate::plan::{Observer, Plan, Process, SchedulerClass};
use crate::scheduler::{self, CONTROL, Item, Outcome, Setup, Slot};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, WaitOptions};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::collections::{HashMap, VecDeque};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Invalid, OnExit, System, TaskId};
use takt_core::record::JobId;
use takt_core::stats::{Counts, Histogram};
use takt_core::time::{Span, Time};
use takt_linux::rt::Class;
use takt_linux::{
    CpuLock, Group, Mechanism, Output, PartitionHandle, RunId, SpawnSpec, Unavailable, disturbance, leftovers,
    protocol, watcher,
};

/// Records that fit between two rounds of the supervisor.
const RING: usize = 1 << 16;
/// Not a round number, so that its wake-ups do not fall on the same windows again and again.
const ROUND: Duration = Duration::from_millis(47);

/// Why a run could not be started, or had to be given up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot do it.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The schedule names CPUs that are not there.
    #[error("CPU {missing} is not available on this machine, which offers {present}")]
    NoSuchCpu {
        /// The missing ones.
        missing: Box<CpuSet>,
        /// Those that are there.
        present: Box<CpuSet>,
    },
    /// The system is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Some processes did not finish their initialisation in time.
    #[error("{names} did not signal the end of initialisation within {timeout}")]
    InitTimeout {
        /// Which.
        names: String,
        /// The limit.
        timeout: Span,
    },
    /// A process ended before it was initialised.
    #[error("{name} {end} before it had signalled the end of its initialisation")]
    InitFailed {
        /// The task.
        name: String,
        /// How its process ended.
        end: TaskEnd,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Its answer.
        source: io::Error,
    },
    /// The scheduler thread ended by a fault of the program.
    #[error("the scheduler thread failed: {0}")]
    Scheduler(String),
}

trait What<T> {
    fn what(self, what: impl Into<String>) -> Result<T, Error>;
}
impl<T, E: Into<io::Error>> What<T> for Result<T, E> {
    fn what(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|e| Error::System { what: what.into(), source: e.into() })
    }
}

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Its time was over.
    Duration,
    /// All processes have ended.
    AllExited,
    /// A signal asked for it.
    Signal,
    /// The process of this task ended, and `on_exit: stop` ended the run.
    Exit(TaskId),
}

/// How a task's process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskEnd {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal, not sent by Takt.
    Signalled(i32),
}

/// `ended with status 3`.
impl std::fmt::Display for TaskEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TaskEnd::Exited(code) => write!(f, "ended with status {code}"),
            TaskEnd::Signalled(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

/// What a run was.
#[derive(Debug)]
pub struct Report {
    /// Counts by task.
    pub counts: Vec<Counts>,
    /// Response times by task.
    pub responses: Vec<Histogram>,
    /// Where CPU time is measured, because the policy or a budget needs that: the job of each task that used most, and how much.
    pub most_used: Vec<Option<(JobId, Span)>>,
    /// How long the processes of each task were ready to run without a CPU although they had their turn, as
    /// [`disturbance::waited`] has it; without those that a process started itself. `None` where the kernel does not count
    /// that, and where each job is a process.
    pub waited: Vec<Option<Span>>,
    /// CPU time of each task's processes since the schedule began, with that of the children that they have waited for. `None` where
    /// each job is a process.
    pub cpu_time: Vec<Option<Span>>,
    /// What the host of a virtual machine took of the CPUs of the schedule ([`disturbance::stolen`]).
    pub stolen: Option<Span>,
    /// See [`Engine::context_switches`].
    pub context_switches: u64,
    /// See [`Engine::windows_lost`].
    pub windows_lost: u64,
    /// Length of the run.
    pub length: Span,
    /// Why it ended.
    pub ended: Ended,
    /// Every task's process has ended badly, none of them ever well.
    pub all_failed: bool,
    /// Why a process of a per-job task could not be started; its task has ended with it.
    pub spawn_error: Option<Error>,
    /// How each task's process ended by itself, if it did. For per-job tasks the last one that failed, or the last one.
    pub ends: Vec<Option<TaskEnd>>,
    /// Whether each task ended for good: its process ended by itself, and no other took its place.
    pub gone: Vec<bool>,
    /// How many processes of each task ended by themselves with another status than 0 or by a signal.
    pub failures_of: Vec<u64>,
    /// How many processes of each task took the place of another one during the run; processes per job are not counted.
    pub replaced: Vec<u64>,
    /// The mechanism that was used, and what is weaker about it than the best.
    pub mechanism: &'static str,
    /// See [`Mechanism::notes`].
    pub notes: Vec<String>,
    /// Scheduling class of the scheduler thread.
    pub scheduler_class: &'static str,
    /// How late planned instants were handled.
    pub lateness: Histogram,
    /// How long one step's stops and starts took to carry out.
    pub effort: Histogram,
    /// Records that did not fit into the ring.
    pub dropped: u64,
    /// Stops, starts or moves that the kernel refused, and its first answer.
    pub failures: u64,
    /// See `failures`.
    pub first_failure: Option<io::Error>,
    /// The observer's first error, after which it was told nothing more.
    pub observer_error: Option<io::Error>,
    /// From the call to the start of the schedule.
    pub startup: Duration,
    /// Something of the run could not be removed.
    pub cleanup_error: Option<io::Error>,
}

/// Runs a plan to its end. Whatever happens, when this returns no process of the run is left and no group.
///
/// # Errors
/// See [`Error`]. Nothing is left running then either.
pub fn run(plan: Plan, observer: &mut dyn Observer) -> Result<Report, Error> {
    let began = Instant::now();
    let signals = Signals::new().what("cannot watch for signals")?;
    let engine = Engine::with_registry(plan.system.clone(), plan.registry.clone())?;
    let id = RunId::new().what("cannot name the run")?;
    // What dead runs left is removed if it can be; this run does not depend on it.
    let _ = leftovers::clean(plan.on_crash);
    watcher::spawn_watcher(&id, plan.on_crash).what("cannot start the watcher")?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).what("cannot become a subreaper")?;
    let mut lock = None;
    let result = Supervisor::set_up(plan, id, engine, signals, &mut lock).and_then(|s| s.run(began, observer));
    let _ = rustix::process::set_child_subreaper(None);
    result.map(|mut report| {
        let shared = lock.iter().flat_map(CpuLock::shared_with);
        report
            .notes
            .extend(shared.map(|other| format!("CPUs were shared with {other}, and each run delayed the other")));
        report
    })
}

/// Nobody listens any more, so that signals mean again what they mean to any program. The actions for that stay registered
/// for good: the kernel's own default does not come back when the last action of a signal goes.
fn unheard() -> &'static AtomicBool {
    static UNHEARD: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    UNHEARD.get_or_init(|| {
        let unheard = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // These signals are known, and a process that cannot handle them cannot register those of the run either.
            let _ = signal_hook::flag::register_conditional_default(signal, unheard.clone());
        }
        unheard
    })
}

/// Keeps the supervisor off the CPUs of the schedule for as long as it lives, where the machine has others. Its wake-ups
/// would otherwise delay the scheduled processes that have no real-time class.
struct StayAway(Option<CpuSet>);

impl StayAway {
    fn from(plan: &Plan) -> StayAway {
        // A process that is started later would inherit the restriction.
        let spawns = plan.starts_processes();
        let allowed = takt_linux::rt::affinity(0).ok().filter(|_| !spawns);
        let others = allowed.map(|all| all.difference(&plan.system.cpus)).filter(|others| !others.is_empty());
        let moved = others.is_some_and(|others| takt_linux::rt::set_affinity(0, &others).is_ok());
        StayAway(allowed.filter(|_| moved))
    }
}

impl Drop for StayAway {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = takt_linux::rt::set_affinity(0, before);
        }
    }
}

struct Signals {
    pipe: UnixStream,
    stop: Arc<AtomicBool>,
    registered: Vec<signal_hook::SigId>,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        let (pipe, write) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        unheard().store(false, Ordering::Release);
        let mut signals = Signals { pipe, stop, registered: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signals.registered.push(signal_hook::flag::register(signal, signals.stop.clone())?);
        }
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGCHLD] {
            signals.registered.push(signal_hook::low_level::pipe::register(signal, write.try_clone()?)?);
        }
        Ok(signals)
    }
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
    fn drain(&self) {
        let mut buffer = [0; 256];
        while matches!(rustix::io::read(&self.pipe, &mut buffer), Ok(n) if n > 0) {}
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
        unheard().store(true, Ordering::Release);
    }
}

/// Where a task's process lives.
#[derive(Clone, Copy)]
struct Home {
    group: Group,
    partition: PartitionHandle,
}

/// A task's processes: the present one, and what is not yet reported of earlier ones.
struct Task {
    home: Home,
    output: Option<std::fs::File>,
    life: Life,
    incarnation: Incarnation,
    pid: Option<i32>,
    /// Number of the continue descriptor in the process.
    continue_number: RawFd,
    /// When a replacement must have initialised.
    init_limit: Option<Instant>,
    end: Option<TaskEnd>,
    /// Whether the process that ended last ended well, and whether any did.
    well: bool,
    succeeded: bool,
    failures: u64,
    replaced: u64,
    /// Waiting time of the present process before the schedule began, and waiting time of the ended processes since then.
    had_waited: Span,
    waited: Option<Span>,
    /// Likewise CPU time.
    had_used: Span,
    used: Option<Span>,
}

impl Task {
    fn new(home: Home, output: Option<std::fs::File>) -> Task {
        Task {
            home,
            output,
            life: Life::Alive,
            incarnation: 0,
            pid: None,
            continue_number: -1,
            init_limit: None,
            end: None,
            well: true,
            succeeded: false,
            failures: 0,
            replaced: 0,
            had_waited: Span::ZERO,
            waited: None,
            had_used: Span::ZERO,
            used: None,
        }
    }
}

struct Supervisor {
    plan: Plan,
    mechanism: Arc<Mechanism>,
    tasks: Vec<Task>,
    tasks_by_group: HashMap<Group, TaskId>,
    tasks_by_pid: HashMap<i32, TaskId>,
    requests: Arc<Requests>,
    first_spawn_error: Option<Error>,
    engine: Option<Engine>,
    epoll: OwnedFd,
    control: OwnedFd,
    wake: OwnedFd,
    signals: Signals,
    /// From here on processes end because the run does: that says nothing about them, and nothing follows from it.
    closing: bool,
    /// The process of this task has ended, and the run with it.
    stopped_by: Option<TaskId>,
    /// Messages that did not fit into the ring yet.
    outgoing: VecDeque<Message>,
}

impl Supervisor {
    fn set_up(
        plan: Plan,
        id: RunId,
        engine: Engine,
        signals: Signals,
        lock: &mut Option<CpuLock>,
    ) -> Result<Supervisor, Error> {
        let n = plan.system.tasks.len();
        let open = if plan.starts_processes() { Mechanism::open_for_starts } else { Mechanism::open };
        let mut mechanism = open(plan.mechanism, &id)?;
        let present = mechanism.cpus();
        if !plan.system.cpus.is_subset(&present) {
            let missing = Box::new(plan.system.cpus.difference(&present));
            return Err(Error::NoSuchCpu { missing, present: Box::new(present) });
        }
        *lock = Some(CpuLock::acquire(&id, &plan.system.cpus, &plan.name, plan.share_cpus)?);
        let homes = homes(&plan.system, &mut mechanism).what("cannot create the groups of the processes")?;
        let tasks_by_group = homes.iter().enumerate().map(|(i, h)| (h.group, TaskId(i as u32))).collect();
        let mut tasks = Vec::with_capacity(n);
        for (process, home) in plan.processes.iter().zip(homes) {
            let output = match &process.output {
                None => None,
                Some(path) => {
                    let path = plan.directory.as_ref().map_or_else(|| path.clone(), |dir| dir.join(path));
                    let file = open_output(&path);
                    Some(file.what(format!("cannot open the output of {}, {}", process.name, path.display()))?)
                }
            };
            tasks.push(Task::new(home, output));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).what("epoll")?;
        let control = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).what("eventfd")?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).what("eventfd")?;
        epoll::add(&epoll, &control, EventData::new_u64(CONTROL), EventFlags::IN | EventFlags::ET).what("epoll")?;
        let mut supervisor = Supervisor {
            mechanism: Arc::new(mechanism),
            tasks,
            tasks_by_group,
            tasks_by_pid: HashMap::with_capacity(n),
            requests: Arc::new(Requests::new(n)),
            first_spawn_error: None,
            engine: Some(engine),
            epoll,
            control,
            wake,
            signals,
            closing: false,
            stopped_by: None,
            outgoing: VecDeque::new(),
            plan,
        };
        for task in (0..n as u32).map(TaskId) {
            supervisor.spawn(task)?;
            if supervisor.signals.stop() {
                break;
            }
        }
        supervisor.initialise()?;
        Ok(supervisor)
    }

    fn spawn(&mut self, task: TaskId) -> Result<(), Error> {
        let (index, process) = (task.index(), &self.plan.processes[task.index()]);
        let what = || format!("cannot start {}", process.name);
        let mut spec = SpawnSpec::shell(&process.cmd).what(what())?;
        if let Some(directory) = &self.plan.directory {
            use std::os::unix::ffi::OsStrExt;
            spec.cwd =
                Some(std::ffi::CString::new(directory.as_os_str().as_bytes()).map_err(io::Error::other).what(what())?);
        }
        let output = self.tasks[index].output.as_ref();
        if let Some(file) = output {
            spec.stdout = Output::Fd(file.as_fd());
        }
        let stderr = std::io::stderr();
        if self.plan.output_to_stderr && output.is_none() {
            spec.stdout = Output::Fd(stderr.as_fd());
        }
        spec.class = match self.tasks[index].life {
            // What initialises beside the schedule gets the CPU time that it leaves.
            Life::Initialising => Class::Idle,
            _ => self.plan.class(),
        };
        // So that a command finds `takt burn` and `takt done` wherever this program was started from.
        if let Some(own) = std::env::current_exe().ok().as_deref().and_then(|exe| exe.parent()) {
            let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
            spec.set_env("PATH", &format!("{path}:{}", own.display())).what(what())?;
        }
        let channel = protocol::Channel::new(process.init).what(what())?;
        let mut continue_number = -1;
        if process.signals {
            let data = completion_data(task, self.tasks[index].incarnation);
            channel.register_completion(&self.epoll, data).what(what())?;
            spec.set_env(protocol::VARIABLE, &channel.variable()).what(what())?;
            spec.pass_fds.extend(channel.pass_fds());
            continue_number = channel.continue_number();
        } else {
            // One that signalled all the same would wait to be resumed.
            let variable = format!("{}=", protocol::VARIABLE);
            spec.env.retain(|entry| !entry.to_bytes().starts_with(variable.as_bytes()));
        }
        let pid = self.mechanism.spawn(self.tasks[index].home.group, &spec).what(what())?;
        self.tasks_by_pid.insert(pid, task);
        let known = &mut self.tasks[index];
        (known.pid, known.continue_number) = (Some(pid), continue_number);
        Ok(())
    }

    /// Starts the process that takes the place of one that has ended. It is born frozen and waits for the next job, or it initialises
    /// first. Without it the task has failed.
    fn spawn_next(&mut self, task: TaskId) {
        let process = &self.plan.processes[task.index()];
        let (init, per_job) = (process.init, process.per_job);
        let limit = Instant::now() + Duration::from_nanos(self.plan.init_timeout.ns().max(0) as u64);
        let known = &mut self.tasks[task.index()];
        let group = known.home.group;
        known.incarnation += 1;
        known.replaced += u64::from(!per_job);
        (known.had_waited, known.had_used) = (Span::ZERO, Span::ZERO);
        known.life = if init { Life::Initialising } else { Life::Alive };
        known.init_limit = init.then_some(limit);
        let ready = self.mechanism.prepare(group).what("cannot freeze an empty group");
        let started = ready.and_then(|()| self.spawn(task)).and_then(|()| match init {
            true => self.mechanism.thaw(group).what("cannot start the initialisation"),
            false => Ok(()),
        });
        match started {
            Ok(()) if init => {}
            Ok(()) => self.ready(task, None),
            Err(e) => {
                self.first_spawn_error.get_or_insert(e);
                self.fail(task);
            }
        }
    }

    fn ready(&mut self, task: TaskId, resume: Option<OwnedFd>) {
        let incarnation = self.tasks[task.index()].incarnation;
        self.outgoing.push_back(Message::Ready { task, incarnation, resume });
    }

    /// The task has no process, and gets no other.
    fn fail(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        (known.life, known.init_limit) = (Life::Gone, None);
        let incarnation = known.incarnation;
        self.outgoing.push_back(Message::Exit { task, incarnation, regular: false, replaced: false });
    }

    /// A replacement has signalled the end of its initialisation.
    fn initialised(&mut self, task: TaskId) {
        let group = self.tasks[task.index()].home.group;
        let frozen = self.mechanism.freeze(group);
        self.mechanism.set_class(group, self.plan.class());
        let known = &mut self.tasks[task.index()];
        (known.life, known.init_limit) = (Life::Alive, None);
        match (frozen, self.continue_fd(task)) {
            (Ok(()), Some(resume)) => self.ready(task, Some(resume)),
            // It is gone, or has changed its user; then it cannot be resumed.
            _ => self.replace(task),
        }
    }

    /// Kills what is left of the task's process. The next one is started when the group is empty.
    fn replace(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        known.life = Life::Dying;
        let group = known.home.group;
        if let Err(e) = self.mechanism.kill(group).what("cannot end a process that is to be replaced") {
            self.first_spawn_error.get_or_insert(e);
            self.fail(task);
        } else if self.tasks[task.index()].pid.is_none_or(|pid| !self.tasks_by_pid.contains_key(&pid))
            && !self.mechanism.populated(group).unwrap_or(false)
        {
            self.emptied(task);
        }
    }

    /// Lets the processes that want it run before the schedule, all at once, until each has signalled.
    fn initialise(&mut self) -> Result<(), Error> {
        let tasks = || (0..self.tasks.len() as u32).map(TaskId);
        let waiting: Vec<TaskId> = tasks().filter(|task| self.plan.processes[task.index()].init).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        for task in &waiting {
            let known = &mut self.tasks[task.index()];
            known.life = Life::Initialising;
            self.mechanism.thaw(known.home.group).what("cannot start the initialisation")?;
        }
        let limit = Instant::now() + Duration::from_nanos(self.plan.init_timeout.ns().max(0) as u64);
        loop {
            let initialising = |task: &&TaskId| self.tasks[task.index()].life == Life::Initialising;
            let late: Vec<&TaskId> = waiting.iter().filter(initialising).collect();
            if late.is_empty() || self.signals.stop() {
                return Ok(());
            }
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let names: Vec<_> = late.iter().map(|t| self.plan.processes[t.index()].name.as_str()).collect();
                return Err(Error::InitTimeout { names: names.join(", "), timeout: self.plan.init_timeout });
            }
            self.wait(left.min(ROUND), true)?;
            // Signals first: a process may signal and then end.
            let mut events = Vec::with_capacity(64);
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)).what("epoll")?;
            for (task, _) in events.iter().map(|e| e.data.u64()).filter(|data| *data < CONTROL).map(completion_of) {
                let known = &mut self.tasks[task.index()];
                if known.life == Life::Initialising {
                    known.life = Life::Alive;
                    self.mechanism.freeze(known.home.group).what("cannot end the initialisation")?;
                }
            }
            self.reap();
            let failed = waiting.iter().find(|t| self.tasks[t.index()].life == Life::Gone && !self.tolerates(**t));
            if let Some((task, end)) = failed.and_then(|task| Some((task, self.tasks[task.index()].end?))) {
                return Err(Error::InitFailed { name: self.plan.processes[task.index()].name.clone(), end });
            }
        }
    }

    /// Whether the workload itself says that the schedule goes without the task's process.
    fn tolerates(&self, task: TaskId) -> bool {
        self.plan.processes[task.index()].on_exit == Some(OnExit::End)
    }

    /// Sleeps until a signal, a child's end, the scheduler's call, an emptied group or the limit.
    fn wait(&self, limit: Duration, completions: bool) -> Result<(), Error> {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut fds = vec![
            PollFd::new(&self.signals.pipe, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
            PollFd::from_borrowed_fd(self.mechanism.emptied(), PollFlags::IN),
        ];
        if completions {
            fds.push(PollFd::new(&self.epoll, PollFlags::IN));
        }
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).what("poll"),
        }
        self.signals.drain();
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        Ok(())
    }

    /// Collects ended processes and emptied groups.
    fn reap(&mut self) {
        // Any child, since each is in a process group of its own; also those that the processes left to this subreaper.
        while let Some(pid) = disturbance::ended_child() {
            let task = self.tasks_by_pid.remove(&pid).filter(|_| !self.closing);
            if let Some(task) = task {
                self.add_times(task, pid);
            }
            let status = match rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => status,
                _ => break,
            };
            let Some(task) = task else { continue };
            let end = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => TaskEnd::Exited(code),
                (None, signal) => TaskEnd::Signalled(signal.unwrap_or(0)),
            };
            let per_job = self.plan.processes[task.index()].per_job;
            let known = &mut self.tasks[task.index()];
            // One that is replaced was ended by Takt.
            if known.life != Life::Dying {
                known.well = end == TaskEnd::Exited(0);
                known.succeeded |= known.well;
                known.failures += u64::from(!known.well);
                if !(per_job && known.well && known.end.is_some()) {
                    known.end = Some(end);
                }
            }
            // A group that cannot be read is one that is gone.
            if self.mechanism.leader_exited(known.home.group).unwrap_or(true) {
                self.emptied(task);
            }
        }
        if self.closing {
            return;
        }
        let mut found = Vec::new();
        // An unreadable queue of events is caught up with by the check below.
        let _ = self.mechanism.drain_emptied(|group| found.push(group));
        for group in found {
            self.emptied(self.tasks_by_group[&group]);
        }
        for task in (0..self.tasks.len() as u32).map(TaskId) {
            let known = &self.tasks[task.index()];
            let lives = matches!(known.life, Life::Alive | Life::Dying | Life::Initialising);
            let led = known.pid.is_some_and(|pid| self.tasks_by_pid.contains_key(&pid));
            let unnoticed = !self.mechanism.notifies() && lives && !led && known.pid.is_some();
            if unnoticed && !self.mechanism.populated(known.home.group).unwrap_or(false) {
                self.emptied(task);
            } else if known.life == Life::Initialising && known.init_limit.is_some_and(|limit| limit < Instant::now()) {
                // A replacement that does not initialise is none.
                let _ = self.mechanism.kill(known.home.group);
                self.fail(task);
            }
        }
    }

    /// Adds what a process of the task has waited for a CPU and used of one, which is then over. One that is started for a job also waits on its way
    /// into its group, which is no part of a turn and cannot be told from that.
    fn add_times(&mut self, task: TaskId, pid: i32) {
        if self.plan.processes[task.index()].per_job {
            return;
        }
        let known = &mut self.tasks[task.index()];
        let before = std::mem::take(&mut known.had_waited);
        if let Some(waited) = disturbance::waited(pid) {
            *known.waited.get_or_insert_default() += (waited - before).or_zero();
        }
        let before = std::mem::take(&mut known.had_used);
        if let Some(used) = disturbance::used(pid) {
            *known.used.get_or_insert_default() += (used - before).or_zero();
        }
    }

    /// The last process of a task's group has ended.
    fn emptied(&mut self, task: TaskId) {
        let Process { per_job, on_exit, .. } = self.plan.processes[task.index()];
        let running = self.engine.is_none();
        let known = &mut self.tasks[task.index()];
        let (incarnation, regular) = (known.incarnation, known.well);
        match known.life {
            Life::Ended | Life::Gone => {}
            Life::Dying => self.spawn_next(task),
            // A replacement that fails in its initialisation would do so again.
            Life::Initialising if running => self.fail(task),
            Life::Alive if per_job => {
                known.life = Life::Ended;
                self.outgoing.push_back(Message::JobDone { task, incarnation, regular });
            }
            // The scheduler asks for the next process when it leaves the group alone.
            Life::Alive if on_exit == Some(OnExit::Restart) => {
                known.life = Life::Ended;
                self.outgoing.push_back(Message::Exit { task, incarnation, regular, replaced: true });
            }
            Life::Alive | Life::Initialising => {
                known.life = Life::Gone;
                self.outgoing.push_back(Message::Exit { task, incarnation, regular, replaced: false });
                if on_exit == Some(OnExit::Stop) && self.stopped_by.is_none() {
                    self.stopped_by = Some(task);
                    self.outgoing.push_back(Message::Stop);
                }
            }
        }
    }

    /// Does what the scheduler has asked for.
    fn serve(&mut self) {
        let mut asked = Vec::new();
        self.requests.take(|task, incarnation, request| asked.push((task, incarnation, request)));
        for (task, incarnation, request) in asked {
            let known = &self.tasks[task.index()];
            match (request, known.life) {
                (Request::Resume, _) if known.incarnation == incarnation => {
                    let resume = self.continue_fd(task);
                    self.outgoing.extend(resume.map(|resume| Message::Resume { task, incarnation, resume }));
                }
                // The scheduler has named the process that it waits for since it asked.
                (Request::Initialised, Life::Initialising) if known.incarnation == incarnation => {
                    self.initialised(task)
                }
                (Request::Next, Life::Ended) if known.incarnation == incarnation => self.spawn_next(task),
                (Request::Next, Life::Alive | Life::Initialising) if known.incarnation == incarnation => {
                    self.replace(task);
                }
                _ => {}
            }
        }
    }

    fn run(mut self, began: Instant, observer: &mut dyn Observer) -> Result<Report, Error> {
        let n = self.plan.system.tasks.len();
        let (mut inbox, scheduler_inbox) = RingBuffer::new(4 * n + 16);
        let (scheduler_outbox, mut outbox) = RingBuffer::new(RING + 16 * n);
        let (start, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let engine = self.engine.take().expect("the engine waits here for the scheduler thread");
        let slots = (0..n).map(|t| {
            let (known, process) = (&self.tasks[t], &self.plan.processes[t]);
            let initialised = process.init && known.life == Life::Alive;
            // Here in time for the first window of those that have initialised.
            let resume = if initialised { self.continue_fd(TaskId(t as u32)) } else { None };
            Slot {
                group: known.home.group,
                partition: known.home.partition,
                incarnation: 0,
                program: if initialised { Program::Waiting } else { Program::New },
                resume: resume.map_or(Resume::Unknown, Resume::Here),
                abort_signal: process.abort_signal,
                budgeted: engine.meters(TaskId(t as u32)),
            }
        });
        let single = (self.plan.system.cpus.len() == 1).then_some(self.plan.system.cpus);
        let setup = Setup {
            slots: slots.collect(),
            replaceable: self.plan.replaceable().collect(),
            engine,
            mechanism: self.mechanism.clone(),
            epoll: self.epoll.try_clone().what("epoll")?,
            inbox: scheduler_inbox,
            outbox: scheduler_outbox,
            requests: self.requests.clone(),
            wake_supervisor: self.wake.try_clone().what("eventfd")?,
            cpus: self.plan.scheduler_cpus.or(single),
            class: self.plan.scheduler_class,
            duration: self.plan.duration,
            hooks: self.plan.hooks,
            start: start.clone(),
            over: over.clone(),
        };
        // What ended during the initialisation; the scheduler looks before the first window, so it need not be woken.
        while let Some(message) = self.outgoing.pop_front() {
            if let Err(rtrb::PushError::Full(message)) = inbox.push(message) {
                self.outgoing.push_front(message);
                break;
            }
        }
        let mut observer = Watched { observer, error: None, inputs: Vec::new() };
        for task in &mut self.tasks {
            task.had_waited = task.pid.and_then(disturbance::waited).unwrap_or_default();
            task.had_used = task.pid.and_then(disturbance::used).unwrap_or_default();
        }
        let stolen_before = disturbance::stolen(&self.plan.system.cpus);
        // Memory is locked only now: a fork of locked memory would copy it.
        let locked = takt_linux::rt::lock_memory();
        let thread: JoinHandle<io::Result<Outcome>> = std::thread::Builder::new()
            .name("takt-scheduler".into())
            .spawn(move || scheduler::run(setup))
            .what("cannot start the scheduler thread")?;
        while start.load(Ordering::Acquire) == 0 && !thread.is_finished() {
            std::thread::sleep(Duration::from_micros(100));
        }
        let start = Span::from_ns(start.load(Ordering::Acquire) as i64);
        let startup = began.elapsed();
        let pids: Vec<Option<i32>> = self.tasks.iter().map(|task| task.pid).collect();
        observer.call(|o| o.started(start, &pids));
        let away = StayAway::from(&self.plan);
        let mut stopping = self.signals.stop();
        if stopping {
            // Asked to stop while it was still starting processes.
            self.tell(&mut inbox, Message::Stop);
        }
        while !thread.is_finished() {
            if let Err(e) = self.wait(ROUND, false) {
                self.tell(&mut inbox, Message::Stop);
                let _ = thread.join();
                return Err(e);
            }
            if over.load(Ordering::Acquire) {
                break;
            }
            self.reap();
            self.serve();
            self.drain(&mut outbox, &mut observer);
            if self.signals.stop() && !std::mem::replace(&mut stopping, true) {
                self.outgoing.push_back(Message::Stop);
            }
            self.send(&mut inbox);
            observer.call(|o| o.tick(Time::ZERO + (takt_linux::timer::now() - start)));
        }
        drop(away);
        let joined = thread.join();
        let stolen = disturbance::stolen(&self.plan.system.cpus);
        for (pid, task) in self.tasks_by_pid.clone() {
            self.add_times(task, pid);
        }
        self.closing = true;
        let destroyed = self.mechanism.destroy();
        self.reap();
        self.drain(&mut outbox, &mut observer);
        let outcome = match joined {
            Ok(outcome) => outcome.what("the scheduler thread failed")?,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_string()));
                return Err(Error::Scheduler(text.unwrap_or_default()));
            }
        };
        let Outcome { engine, responses, most_used, lateness, effort, end, .. } = outcome;
        let Outcome { dropped, failures, first_failure, class, stopped, .. } = outcome;
        let mut notes = self.mechanism.notes();
        if let Err(e) = locked {
            notes.push(format!("memory is not locked ({e}): a page fault may delay the scheduler"));
        }
        if self.plan.scheduler_class == SchedulerClass::Deadline && class != "deadline" {
            notes.push("SCHED_DEADLINE was refused for the scheduler".into());
        }
        if class == "other" {
            notes.push("the scheduler has no real-time class: other load delays it".into());
        }
        let ended = match (stopped, self.stopped_by) {
            (_, Some(task)) => Ended::Exit(task),
            (true, None) => Ended::Signal,
            (false, _) if n > 0 && engine.all_gone() && self.plan.duration.is_none_or(|d| end < Time::ZERO + d) => {
                Ended::AllExited
            }
            (false, _) => Ended::Duration,
        };
        let all_failed = n > 0 && self.tasks.iter().all(|task| task.end.is_some() && !task.succeeded);
        let tasks = || self.tasks.iter();
        Ok(Report {
            counts: (0..n as u32).map(|t| engine.counts(TaskId(t))).collect(),
            responses: responses.0,
            most_used,
            waited: tasks().map(|task| task.waited).collect(),
            cpu_time: tasks().map(|task| task.used).collect(),
            stolen: stolen.zip(stolen_before).map(|(after, before)| (after - before).or_zero()),
            context_switches: engine.context_switches(),
            windows_lost: engine.windows_lost(),
            length: end - Time::ZERO,
            ended,
            all_failed,
            ends: tasks().map(|task| task.end).collect(),
            gone: (0..n as u32).map(|task| engine.is_gone(TaskId(task))).collect(),
            failures_of: tasks().map(|task| task.failures).collect(),
            replaced: tasks().map(|task| task.replaced).collect(),
            spawn_error: self.first_spawn_error.take(),
            mechanism: self.mechanism.name(),
            notes,
            scheduler_class: class,
            lateness,
            effort,
            dropped,
            failures,
            first_failure,
            observer_error: observer.error,
            startup,
            cleanup_error: destroyed.err(),
        })
    }

    /// A copy of the descriptor that lets a task's process go on. Without one the process waits for ever after its first
    /// completion, which shows as overruns; that can only be when it is gone or belongs to somebody else now.
    fn continue_fd(&self, task: TaskId) -> Option<OwnedFd> {
        let known = &self.tasks[task.index()];
        let pid = known.pid.filter(|pid| self.tasks_by_pid.contains_key(pid))?;
        protocol::fetch_continue_fd(pid, known.continue_number).ok()
    }

    fn drain(&mut self, outbox: &mut Consumer<Item>, observer: &mut Watched<'_>) {
        while let Ok(item) = outbox.pop() {
            match item {
                Item::Record(record) => observer.call(|o| o.record(&record)),
                Item::Input(input) => observer.inputs.push(input),
                Item::Step(now) | Item::Close(now) => {
                    let inputs = std::mem::take(&mut observer.inputs);
                    observer.call(|o| o.step(now, &inputs));
                    observer.inputs = inputs;
                    observer.inputs.clear();
                }
            }
        }
    }

    fn send(&mut self, inbox: &mut Producer<Message>) {
        let mut sent = false;
        while let Some(message) = self.outgoing.pop_front() {
            match inbox.push(message) {
                Ok(()) => sent = true,
                Err(rtrb::PushError::Full(message)) => {
                    self.outgoing.push_front(message);
                    break;
                }
            }
        }
        if sent {
            let _ = rustix::io::write(&self.control, &1u64.to_ne_bytes());
        }
    }

    fn tell(&mut self, inbox: &mut Producer<Message>, message: Message) {
        self.outgoing.push_back(message);
        self.send(inbox);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.closing = true;
        // Also on the way out of an error: the groups go, and with them every process.
        let _ = self.mechanism.destroy();
        self.reap();
    }
}

/// The observer, until its first error.
struct Watched<'a> {
    observer: &'a mut dyn Observer,
    error: Option<io::Error>,
    inputs: Vec<Input>,
}

impl Watched<'_> {
    fn call(&mut self, f: impl FnOnce(&mut dyn Observer) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = f(self.observer).err();
        }
    }
}

/// Opens a file for a process's output. A named pipe that nobody reads is an error instead of a wait without end.
fn open_output(path: &std::path::Path) -> io::Result<std::fs::File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?;
    let plain = fcntl_getfl(&file)?.difference(OFlags::NONBLOCK);
    fcntl_setfl(&file, plain)?;
    Ok(file)
}

/// Makes the groups: one partition per `fifo` partition, and one per task where tasks are placed one by one.
fn homes(system: &System, mechanism: &mut Mechanism) -> io::Result<Vec<Home>> {
    let mut homes: Vec<Option<Home>> = vec![None; system.tasks.len()];
    for (index, partition) in system.partitions.iter().enumerate() {
        let mut sets: Vec<CpuSet> = Vec::new();
        for slice in system.windows.iter().flat_map(|w| &w.slices) {
            let used = [slice.sc, slice.be].iter().flatten().any(|p| p.index() == index);
            if used && !sets.contains(&slice.cpus) {
                sets.push(slice.cpus);
            }
        }
        // The widest set that it will ever get: what it finds while it initialises.
        let widest = sets.iter().copied().max_by_key(CpuSet::len).unwrap_or(system.cpus);
        if partition.policy.is_none() {
            let handle = mechanism.add_partition(&widest, partition.tasks.len())?;
            if sets.len() > 1 {
                mechanism.expect_cpu_changes(handle)?;
            }
            for (i, task) in partition.tasks.iter().enumerate() {
                homes[task.index()] = Some(Home { group: mechanism.group(handle, i), partition: handle });
            }
        } else {
            for task in &partition.tasks {
                homes[task.index()] = Some(own_partition(mechanism, &widest)?);
            }
        }
    }
    let rest = homes.into_iter().zip(&system.tasks);
    rest.map(|(home, task)| match home {
        Some(home) => Ok(home),
        None => own_partition(mechanism, &task.affinity.intersection(&system.cpus)),
    })
    .collect()
}

fn own_partition(mechanism: &mut Mechanism, cpus: &CpuSet) -> io::Result<Home> {
    let partition = mechanism.add_partition(cpus, 1)?;
    if cpus.len() > 1 {
        mechanism.expect_cpu_changes(partition)?;
    }
    Ok(Home { group: mechanism.group(partition, 0), partition })
}
