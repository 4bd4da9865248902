//! The plan of a run, and its observers.

use crate::levels::highest;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, Late, OnAbort, OnExit, Order, PolicySpec, System, Task, TaskId, WindowTable};
use takt_core::record::JobId;
use takt_core::time::{Span, Time};
use takt_linux::blocking::Notices;
use takt_linux::isolate::Step;
use takt_linux::leftovers::OnCrash;
use takt_linux::power;
use takt_linux::rt::Class;
use takt_linux::service::ServiceManager;
use takt_linux::{Announcer, Choice, Identity, JobEnd, Limit, Names, RunId, Signal};
use takt_trace::Stamped;

/// The processes behind the tasks of a system, and how they are run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload's name, reported to other runs that ask for the same CPUs.
    pub name: String,
    /// Whether it takes CPUs that another run has.
    pub share_cpus: bool,
    /// One process per task of the system, in the same order.
    pub processes: Vec<Process>,
    /// The names of the resources that programs can lock, by number.
    pub resources: Vec<String>,
    /// Working directory of the processes; `None` is the caller's.
    pub directory: Option<PathBuf>,
    /// CPUs of the scheduler thread. By default the schedule's CPU when it uses only one and the thread has a real-time class, else
    /// wherever Linux puts it.
    pub scheduler_cpus: Option<CpuSet>,
    /// Scheduling class of the scheduler thread.
    pub scheduler_class: SchedulerClass,
    /// How long the processes with `init` may take in all.
    pub init_timeout: Span,
    /// Whether the processes get a real-time class.
    pub realtime: bool,
    /// FIFO priority of the processes that get a real-time class, from 1 to 79. With [`Dispatch::Priority`] and [`Dispatch::Rank`] it is the lowest one of up to
    /// 61, and at most 69. The scheduler has 80.
    pub priority: u8,
    /// How a preempted process is kept off its CPU.
    pub dispatch: Dispatch,
    /// The rule for the processes when the executive dies.
    pub on_crash: OnCrash,
    /// Changes of the tasks and the policy, in ascending order of time.
    pub changes: Vec<(Time, Input)>,
    /// When to end; `None` when all processes have ended.
    pub duration: Option<Span>,
    /// How processes are stopped and started.
    pub mechanism: Choice,
    /// How many commands of reactions may be started in a second.
    pub exec_limit: u32,
    /// Whether the processes' standard output goes to standard error.
    pub output_to_stderr: bool,
    /// The service manager that started this process, which learns when the schedule begins and ends and that the scheduler lives.
    pub manager: Option<Arc<ServiceManager>>,
    /// Names of the groups of the run, in place of names with the number of the run.
    pub names: Option<Names>,
    /// Whether a slice has those of its CPUs that are there, and without any the lowest one. Otherwise a missing CPU is an error. For window
    /// tables.
    pub remaps_cpus: bool,
    /// Whether the run keeps at most 512 descriptors open. A control file, or the descriptor by which a process continues, is then opened
    /// when it is needed. Outputs to files, sources of events, and pages of processes that can be replaced come on top of them.
    pub few_descriptors: bool,
    /// Whether the run ends with the last process, although failed tasks would miss further jobs until its planned end.
    pub ends_with_processes: bool,
    /// Lines at the begin of windows.
    pub announcer: Option<Arc<Announcer>>,
    /// The frequencies, idle states and sensors that the engine's power policy uses, numbered as its platform is. The CPUs of the latencies are those of
    /// the system, in ascending order.
    pub power: Option<power::Settings>,
    /// The steps of the isolation of the schedule's CPUs, if these are isolated for the run.
    pub isolate: Option<Vec<Step>>,
    /// Called by the scheduler thread around its loop; for tests that count what happens inside.
    pub hooks: Hooks,
}

impl Plan {
    /// The tasks whose processes can be replaced during the run.
    pub(crate) fn replaceable<'a>(&'a self, system: &'a System) -> impl Iterator<Item = TaskId> + 'a {
        let tasks = system.tasks.iter().zip(&self.processes).zip((0..).map(TaskId));
        let replaced = |task: &Task, process: &Process| {
            process.is_reserved
                || process.per_job
                || process.on_exit == Some(OnExit::Restart)
                || task.on_abort == OnAbort::Restart
        };
        tasks.filter(move |((task, process), _)| replaced(task, process)).map(|(_, id)| id)
    }

    /// The tasks that are threads of other tasks' programs.
    pub(crate) fn threads(&self) -> Threads {
        let mut threads = Threads::default();
        for (task, process) in (0..).map(TaskId).zip(&self.processes) {
            if let Some(program) = process.thread_of {
                threads.0.entry(program).or_default().push(task);
            }
        }
        threads
    }

    /// The CPUs that stand for those of a slice on a machine with these CPUs.
    pub(crate) fn real(&self, cpus: &CpuSet, present: &CpuSet) -> CpuSet {
        match self.remaps_cpus {
            true => takt_linux::rt::remapped(cpus, present),
            false => *cpus,
        }
    }

    /// The CPUs of the system on which Takt schedules: without imaginary ones.
    pub(crate) fn own_cpus(&self, system: &System, present: &CpuSet) -> CpuSet {
        if self.remaps_cpus {
            let slices = system.windows.iter().flat_map(|window| &window.slices);
            return slices.fold(CpuSet::EMPTY, |own, slice| own.union(&self.real(&slice.cpus, present)));
        }
        let of_kernel = system.tasks.iter().zip(&self.processes).filter(|(_, process)| process.kernel.is_some());
        of_kernel.fold(system.cpus, |own, (task, _)| own.difference(&task.affinity))
    }

    /// All real CPUs of the run that the machine has.
    pub(crate) fn cpus(&self, system: &System, present: &CpuSet) -> CpuSet {
        let of_kernel = self.processes.iter().filter_map(|process| process.kernel);
        of_kernel.fold(self.own_cpus(system, present), |all, kernel| all.union(&kernel.cpus.unwrap_or(*present)))
    }

    /// Whether a process is in the class `SCHED_DEADLINE`, which runs before the scheduler.
    pub(crate) fn outranks_scheduler(&self) -> bool {
        let class = |process: &Process| process.kernel.map(|kernel| kernel.class);
        self.processes.iter().any(|process| matches!(class(process), Some(Class::Deadline { .. })))
    }

    /// Whether processes can be started while others are scheduled.
    ///
    /// Tasks that commands add are rare. For them the supervisor stays where it is, and the groups are the best ones for the other tasks.
    pub(crate) fn starts_processes(&self, system: &System) -> bool {
        self.replaceable(system).any(|task| !self.processes[task.index()].is_reserved)
    }

    /// The plan with another process for a task.
    pub(crate) fn with_process(&self, task: TaskId, process: Process) -> Plan {
        let mut plan = self.clone();
        plan.processes[task.index()] = process;
        plan
    }

    /// Whether its processes are in a real-time class, and the kernel gives no task of this plan their CPUs before them.
    pub(crate) fn keeps_its_cpus(&self) -> bool {
        let before = |kernel: KernelTask| match kernel.class {
            Class::Deadline { .. } => true,
            Class::Fifo(priority) => priority >= self.priority,
            Class::Other | Class::Idle => false,
        };
        self.has_real_time() && !self.processes.iter().filter_map(|process| process.kernel).any(before)
    }

    /// Whether the processes that Takt schedules are in the class FIFO.
    pub(crate) fn has_real_time(&self) -> bool {
        self.realtime || self.dispatch != Dispatch::Freeze
    }

    /// Whether blocks and wake-ups of a task's process are observed: under an online policy, of processes that Takt schedules. In a window table a budget is
    /// elapsed time. Sleeps that end jobs are observed where wake-ups release the jobs, or no job is aborted: the sleep that ends an aborted job lies in the
    /// next one, which the file describes as work.
    pub(crate) fn follows(&self, system: &System, task: TaskId) -> bool {
        let process = &self.processes[task.index()];
        let online = system.windows.is_empty() && process.kernel.is_none();
        let continues = system.late == Late::Continue && system.tasks[task.index()].budget.is_none();
        online && (process.observed != Some(JobEnd::Sleep) || process.wakeups || continues)
    }

    /// Whether sleeps end the jobs of a task, and are observed to their ends.
    pub(crate) fn sleeps(&self, system: &System, task: TaskId) -> bool {
        self.processes[task.index()].observed == Some(JobEnd::Sleep) && self.follows(system, task)
    }

    /// Whether each block and wake-up wakes the scheduler. With ranks the kernel does by itself what a policy decides whose ranks do not change by them, so
    /// the records are read when the scheduler wakes up for another reason. The consumption of a job that wakes up has to be looked at.
    pub(crate) fn notices(&self, engine: &Engine) -> Notices {
        let system = engine.system();
        let keeps = matches!(
            system.policy.preemptive_order(),
            Some(Order::AbsoluteDeadline | Order::RelativeDeadline | Order::Period | Order::Priority)
        );
        let switches =
            self.changes.iter().any(|(_, change)| matches!(change, Input::Switch { .. } | Input::Configure { .. }));
        let limited = self.processes.iter().any(|process| process.on_overrun.is_some());
        let sleeps = (0..system.tasks.len() as u32).any(|task| self.sleeps(system, TaskId(task)));
        let meters = (0..system.tasks.len() as u32).any(|task| engine.meters(TaskId(task)));
        match self.dispatch {
            Dispatch::Rank if keeps && !switches && !limited && !meters && !sleeps => Notices::Quiet,
            _ => Notices::Each,
        }
    }

    /// The FIFO priorities of the processes that Takt schedules.
    pub(crate) fn levels(&self) -> std::ops::RangeInclusive<u8> {
        match self.dispatch {
            Dispatch::Priority | Dispatch::Rank => self.priority..=highest(self.priority),
            Dispatch::Freeze => self.priority..=self.priority,
        }
    }

    /// Scheduling class of the process of a task that a command adds.
    pub(crate) fn class_of_added(&self) -> Class {
        match self.dispatch {
            Dispatch::Priority | Dispatch::Rank => Class::Fifo(highest(self.priority)),
            Dispatch::Freeze if self.realtime => Class::Fifo(self.priority),
            Dispatch::Freeze => Class::Other,
        }
    }

    /// Scheduling class of the process of a task.
    pub(crate) fn class(&self, task: TaskId) -> Class {
        match self.dispatch {
            _ if let Some(kernel) = self.processes[task.index()].kernel => kernel.class,
            _ => self.class_of_added(),
        }
    }
}

/// By task with a program of several tasks: its threads. A large run looks into it for each of its processes.
#[derive(Clone, Default, Debug)]
pub(crate) struct Threads(HashMap<TaskId, Vec<TaskId>>);

impl Threads {
    /// The tasks that are threads of this task's program.
    pub(crate) fn of(&self, program: TaskId) -> &[TaskId] {
        self.0.get(&program).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn are_there(&self) -> bool {
        !self.0.is_empty()
    }
}

/// How a preempted process is kept off its CPU.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// Its group is frozen.
    #[default]
    Freeze,
    /// Its FIFO priority is below that of the process that preempts it. All processes are in the class FIFO.
    Priority,
    /// Its FIFO priority is that of its rank in the policy's order, which blocked jobs keep. All processes are in the class FIFO.
    Rank,
}

/// Scheduling class of the scheduler thread.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum SchedulerClass {
    /// `SCHED_FIFO`, and the ordinary class where that is not allowed. It can be pinned to the CPU of the schedule.
    #[default]
    Fifo,
    /// `SCHED_DEADLINE` with 0.2 ms in every 1 ms. Not even the kernel's fair server delays it, but it cannot be pinned.
    Deadline,
}

/// See [`Plan::hooks`].
#[derive(Clone, Copy, Default, Debug)]
pub struct Hooks {
    /// Before the first instant.
    pub enter: Option<fn()>,
    /// After the last.
    pub leave: Option<fn()>,
}

/// The process of a task.
#[derive(Clone, PartialEq, Debug)]
pub struct Process {
    /// The task's name, for messages.
    pub name: String,
    /// Command for `/bin/sh -c`; empty for a thread of another task's program.
    pub cmd: String,
    /// The task whose program it is a thread of. That task's own jobs are those of the program's first thread. Both have [`Process::init`],
    /// since the threads attach in the initialisation.
    pub thread_of: Option<TaskId>,
    /// Whether it runs before the schedule starts, until it signals.
    pub init: bool,
    /// Whether each job is a process of its own, which completes by ending. It cannot signal completion.
    pub per_job: bool,
    /// Whether it signals completions: it is given the descriptors for that.
    pub signals: bool,
    /// The kernel reports the ends of its jobs: this. The process is given no descriptors.
    pub observed: Option<JobEnd>,
    /// The reaction when it ends by itself; `None` where the workload does not say, which is [`OnExit::End`], but tolerates no
    /// failed initialisation. Not for processes per job.
    pub on_exit: Option<OnExit>,
    /// The reaction to a job that misses its deadline.
    pub on_miss: Option<Reaction>,
    /// The reaction to a job that exhausts its budget, is cut off, or exceeds its runtime.
    pub on_overrun: Option<Reaction>,
    /// The signal by which it learns that its job was aborted.
    pub abort_signal: Option<Signal>,
    /// Where its standard output goes.
    pub output: Output,
    /// How it differs from the process of Takt.
    pub settings: ProcessSettings,
    /// The source of its events outside the schedule ([`takt_core::model::Arrival::Event`]).
    pub event: Option<EventSource>,
    /// Its jobs are real-time segments of the program, which otherwise runs as an ordinary process.
    pub segments: bool,
    /// The wake-ups of its program release its jobs, which end by sleeps ([`Process::observed`]).
    pub wakeups: bool,
    /// For a task that the kernel schedules. It has an imaginary CPU of the system for itself.
    pub kernel: Option<KernelTask>,
    /// No process, but the place for one whose task a command may add ([`crate::Command::New`]). The number of its task is free.
    pub is_reserved: bool,
}

/// A task that is not in the workload of a run, with its process.
#[derive(Clone, PartialEq, Debug)]
pub struct NewTask {
    /// The task. A task of its file that it follows ([`takt_core::model::Arrival::Event`]) is named by `after`.
    pub task: Task,
    /// The name of the task that it follows.
    pub after: Option<String>,
    /// The name of its domain, if the run has domains.
    pub domain: Option<String>,
    /// Its process, with the name of the task. It is one of its own, which Takt schedules.
    pub process: Process,
    /// The file that describes it, for the record of the run.
    pub file: Arc<str>,
    /// The text of that file. All tasks of a file share it.
    pub text: Arc<str>,
}

impl NewTask {
    /// The task in a run whose tasks have these names, by number. `None` if the run has no task that it is to follow.
    #[must_use]
    pub fn described(&self, names: &[String]) -> Option<Task> {
        let mut task = self.task.clone();
        if let Arrival::Event { after, .. } = &mut task.arrival {
            let number = |name: &String| names.iter().position(|other| other == name).map(|index| TaskId(index as u32));
            *after = match &self.after {
                Some(name) => Some(number(name)?),
                None => None,
            };
        }
        Some(task)
    }
}

/// Makes places for so many tasks that commands may add: free numbers of the system, and their processes.
pub fn reserve(system: &mut System, processes: &mut Vec<Process>, places: usize) {
    for _ in 0..places {
        system.removed.push(TaskId(system.tasks.len() as u32));
        system.tasks.push(Task::default());
        processes.push(Process::reserved());
    }
}

/// Where the standard output of a process goes.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Output {
    /// Where that of Takt goes.
    #[default]
    Inherit,
    /// Nowhere.
    Null,
    /// Into a file, which Takt opens before the first process starts, with the rights of the process's user.
    File {
        /// Relative to the directory of the processes.
        path: PathBuf,
        /// Whether it is emptied when it is opened.
        truncate: bool,
    },
}

/// How a process differs from the process of Takt.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ProcessSettings {
    /// Its user and groups.
    pub identity: Option<Identity>,
    /// Variables of its environment; `None` removes one.
    pub env: Vec<(String, Option<String>)>,
    /// Its directory, in place of that of all processes.
    pub cwd: Option<PathBuf>,
    /// The bits that its new files lack.
    pub umask: Option<u32>,
    /// Its limits.
    pub limits: Vec<Limit>,
}

impl Process {
    /// A place for a process of a task that a command may add.
    #[must_use]
    pub fn reserved() -> Process {
        Process {
            name: String::new(),
            cmd: String::new(),
            thread_of: None,
            init: false,
            per_job: false,
            // Its page is made at the start.
            signals: true,
            observed: None,
            on_exit: None,
            on_miss: None,
            on_overrun: None,
            abort_signal: None,
            output: Output::default(),
            settings: ProcessSettings::default(),
            event: None,
            segments: false,
            wakeups: false,
            kernel: None,
            is_reserved: true,
        }
    }

    /// The reaction to this cause, besides a count and a record.
    pub(crate) fn reaction(&self, cause: Cause) -> Option<&Reaction> {
        match cause {
            Cause::Miss => self.on_miss.as_ref(),
            Cause::Overrun => self.on_overrun.as_ref(),
        }
    }
}

/// The reaction to a job that misses its deadline or overruns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// The task's present process receives this signal.
    Signal(Signal),
    /// The supervisor starts this command for `/bin/sh -c`, in the ordinary class and in no group of the run.
    Command(String),
    /// The run ends.
    Stop,
}

/// The cause of a reaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A job has missed its deadline.
    Miss,
    /// A job has exhausted its budget, was cut off, or has exceeded its runtime.
    Overrun,
}

/// `miss`, `overrun`.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Miss => "miss",
            Cause::Overrun => "overrun",
        })
    }
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
impl fmt::Display for TaskEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskEnd::Exited(code) => write!(f, "ended with status {code}"),
            TaskEnd::Signalled(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

/// How the kernel schedules the process of a task. The executive neither freezes nor binds the process during the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelTask {
    /// The class of its process.
    pub class: Class,
    /// The CPUs on which it may run; `None` is all CPUs that are there.
    pub cpus: Option<CpuSet>,
}

/// A source of events outside the schedule. A process receives the descriptor of its source, unless that is a signal: the environment
/// variable `TAKT_EVENT` has its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventSource {
    /// A descriptor of this process becomes readable.
    Descriptor(i32),
    /// A named pipe becomes readable.
    Pipe(PathBuf),
    /// A datagram arrives at this address.
    Udp(SocketAddr),
    /// A signal arrives at this process.
    Signal(Signal),
}

impl fmt::Display for EventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventSource::Descriptor(number) => write!(f, "descriptor {number}"),
            EventSource::Pipe(path) => write!(f, "{}", path.display()),
            EventSource::Udp(address) => write!(f, "UDP {address}"),
            EventSource::Signal(signal) => write!(f, "signal {}", signal.as_raw()),
        }
    }
}

/// The sender of a command, as the kernel names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Issuer {
    /// Its user.
    pub uid: u32,
    /// Its process.
    pub pid: i32,
}

/// Watches a run from the supervisor's thread; never from the scheduler's.
pub trait Observer {
    /// So many of all processes are there, of which none runs yet. Called often while a run starts.
    fn starting(&mut self, processes: usize, all: usize) {
        let _ = (processes, all);
    }
    /// The run has a name, and its watcher watches.
    fn named(&mut self, run: &RunId) {
        let _ = run;
    }
    /// A change from outside was made in the step of this instant. With a policy, `loaded` are all that the run has learned of since its start.
    fn changed(&mut self, at: Time, by: Issuer, command: &str, loaded: &[PolicySpec]) -> io::Result<()> {
        let _ = (at, by, command, loaded);
        Ok(())
    }
    /// A command from outside has ended the schedule, whose last step was that of this instant.
    fn stopped(&mut self, at: Time, by: Issuer, command: &str) -> io::Result<()> {
        let _ = (at, by, command);
        Ok(())
    }
    /// A window table may take over in a later step. The tables of a run are numbered in this order.
    fn table(&mut self, table: &WindowTable) -> io::Result<()> {
        let _ = table;
        Ok(())
    }
    /// A command has added a task in the step of this instant, which follows. The task has the next number.
    fn added(&mut self, at: Time, new: &NewTask, pid: Option<i32>) -> io::Result<()> {
        let _ = (at, new, pid);
        Ok(())
    }
    /// The processes exist and the schedule starts at `start` on the monotonic clock, with these process ids by task.
    fn started(&mut self, start: Span, pids: &[Option<i32>]) -> io::Result<()> {
        let _ = (start, pids);
        Ok(())
    }
    /// A trace record. After an error no more are handed over.
    fn record(&mut self, record: &Stamped) -> io::Result<()>;
    /// A step of the engine; these are what a replay needs.
    fn step(&mut self, now: Time, inputs: &[Input]) -> io::Result<()> {
        let _ = (now, inputs);
        Ok(())
    }
    /// The step that follows handles a planned instant so late, unless it handles none. So many records have been lost by now.
    fn late(&mut self, by: Option<Span>, lost: u64) -> io::Result<()> {
        let _ = (by, lost);
        Ok(())
    }
    /// A job has missed its deadline or has overrun. Only jobs of tasks with a reaction to that are found.
    fn found(&mut self, task: TaskId, job: JobId, cause: Cause) -> io::Result<()> {
        let _ = (task, job, cause);
        Ok(())
    }
    /// A process of a task has ended by itself.
    fn exited(&mut self, task: TaskId, end: TaskEnd) -> io::Result<()> {
        let _ = (task, end);
        Ok(())
    }
    /// A meter of [`takt_linux::power::Settings::meters`] has had this value since this instant. The engine does not learn of it.
    fn measured(&mut self, at: Time, meter: u16, value: i64) -> io::Result<()> {
        let _ = (at, meter, value);
        Ok(())
    }
    /// Something has happened to the machine or the groups of the run, about which this is a sentence: a CPU has gone offline, the
    /// machine was suspended, another program has moved a process.
    fn noticed(&mut self, what: &str) -> io::Result<()> {
        let _ = what;
        Ok(())
    }
    /// Whether SIGHUP is ignored, as it was when this program began. Asked once, before the run.
    fn ignores_hangups(&self) -> bool {
        false
    }
    /// SIGHUP has come. `true` says that it has been taken for something else than the end of the run.
    fn hangs_up(&mut self) -> bool {
        false
    }
    /// Whether the run is to end now, as after a signal. Asked some twenty times a second.
    fn ends_run(&self) -> bool {
        false
    }
    /// Called some twenty times a second with the instant reached. What was recorded should reach the disk now.
    fn tick(&mut self, now: Time) -> io::Result<()> {
        let _ = now;
        Ok(())
    }
}
