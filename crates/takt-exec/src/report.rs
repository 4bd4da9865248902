//! The report of a run, and the errors of one that failed.

use crate::plan::{Cause, TaskEnd};
use std::io;
use std::time::Duration;
use takt_core::cpus::CpuSet;
#[cfg(doc)]
use takt_core::engine::Engine;
use takt_core::model::TaskId;
use takt_core::record::JobId;
use takt_core::stats::{Counts, Histogram, Parts};
use takt_core::time::Span;
use takt_core::work::Work;
use takt_linux::Unavailable;
use takt_linux::isolate;
use takt_linux::power;
use takt_linux::rt::Class;
#[cfg(doc)]
use takt_linux::{Mechanism, disturbance};

/// Why a run could not be started, or had to be given up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot do it.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A CPU of the run cannot be locked against other runs.
    #[error(transparent)]
    CpuInUse(Unavailable),
    /// A frequency domain of the run belongs to another run.
    #[error(transparent)]
    FrequencyInUse(Unavailable),
    /// The power settings of this machine cannot be controlled.
    #[error(transparent)]
    Power(Unavailable),
    /// The CPUs of the schedule cannot be isolated.
    #[error(transparent)]
    Isolation(isolate::Refusal),
    /// The limit of open files is too low for the run.
    #[error("the run needs {needed} open files, and the limit (RLIMIT_NOFILE) is {limit}")]
    Descriptors {
        /// So many suffice.
        needed: usize,
        /// The hard limit.
        limit: usize,
    },
    /// The schedule names CPUs that are not there.
    #[error("CPU {missing} is not available on this machine, which offers {present}")]
    NoSuchCpu {
        /// The missing ones.
        missing: Box<CpuSet>,
        /// Those that are there.
        present: Box<CpuSet>,
    },
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
    /// A program has named a thread that is not one of its own, or none.
    #[error("the program of {program} has named no thread of its own as {name}: {source}")]
    ThreadRefused {
        /// The task that would be that thread.
        name: String,
        /// The task of the program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// The source of a task's events cannot be opened.
    #[error("the source of its events, {name}, cannot be opened: {source}")]
    Source {
        /// The task.
        task: TaskId,
        /// The source.
        name: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The kernel has refused a scheduling class to the process of a task.
    #[error("the kernel refuses its class to the process of task `{name}`: {source}")]
    ClassRefused {
        /// The task.
        name: String,
        /// The class.
        class: Class,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A user may not open a file for a process of this user.
    #[error("{what}, with the rights of its user {user}: {source}")]
    ForeignFile {
        /// The attempt.
        what: String,
        /// The user.
        user: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// The attempt.
        what: String,
        /// Its answer.
        source: io::Error,
    },
    /// The scheduler thread ended by a fault of the program.
    #[error("the scheduler thread failed: {0}")]
    Scheduler(String),
}

/// Says what was tried, for the operating system's answer.
pub(crate) trait Attempt<T> {
    fn what(self, what: impl Into<String>) -> Result<T, Error>;
}
impl<T, E: Into<io::Error>> Attempt<T> for Result<T, E> {
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
    /// A command asked for it ([`Command::Stop`](crate::Command::Stop)).
    Command,
    /// The observer asked for it ([`Observer::ends_run`](crate::Observer::ends_run)).
    Observer,
    /// A job of this task missed its deadline or overran, and the task's reaction ended the run.
    Reaction(TaskId, JobId, Cause),
    /// The process of this task ended, and `on_exit: stop` ended the run.
    Exit(TaskId),
}

/// How a run observes blocks and wake-ups in the middle of jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Blocking {
    /// By the tracepoints of the kernel's scheduler.
    Tracepoints,
    /// By the states of processes, each [`takt_linux::blocking::INTERVAL`]: they have no real-time class.
    States,
    /// It would, and the machine does not allow it.
    Unavailable(Unavailable),
    /// Not at all: its jobs run in windows, or end at their first sleep, or the kernel schedules them.
    NotFollowed,
}

/// Counts of a task's reactions to a cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reacted {
    /// The task.
    pub task: TaskId,
    /// The cause.
    pub cause: Cause,
    /// The jobs with this cause.
    pub jobs: u64,
    /// Reactions that were carried out.
    pub done: u64,
    /// Commands that were not started, because too many were started in that second or lived, or because the run was about to end.
    pub suppressed: u64,
    /// Signals without a process to receive them, and commands that could not be started.
    pub failed: u64,
}

/// The report of a run.
#[derive(Debug)]
pub struct Report {
    /// Counts by task.
    pub counts: Vec<Counts>,
    /// Response times by task.
    pub responses: Vec<Histogram>,
    /// By task: the time that its jobs with response times spent on a CPU and blocked, summed, and how many jobs these were. `None` before the first one and
    /// for tasks of the kernel's classes. `None` also in window tables without a policy, where a job continues from one activation to the next.
    pub spent: Vec<Option<(Parts, u64)>>,
    /// The job of each task that used most CPU time, and how much. `None` in window tables without a policy, where each job is a process, and before the
    /// first end of a job.
    pub most_used: Vec<Option<(JobId, Work)>>,
    /// How long the processes of each task were ready to run without a CPU although they had their turn, as
    /// [`disturbance::waited`] has it; without those that a process started itself. `None` where the kernel does not count
    /// that, and where each job is a process.
    pub waited: Vec<Option<Span>>,
    /// CPU time of each task's processes since the schedule began, with that of the children that they have waited for. `None` where
    /// each job is a process.
    pub cpu_time: Vec<Option<Span>>,
    /// Time that the host of a virtual machine took from the CPUs of the schedule ([`disturbance::stolen`]).
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
    /// By task and cause, where there is a reaction.
    pub reactions: Vec<Reacted>,
    /// Commands of reactions that ended with another status than 0 or by a signal, before the end of the run.
    pub failed_commands: u64,
    /// Why the first command of a reaction that could not be started was not.
    pub command_error: Option<io::Error>,
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
    /// How often the program of each task was frozen for a while, because it flooded the scheduler with rings or requests.
    pub floods: Vec<u64>,
    /// How often the source of each task's events was muted for a while, because it changed all the time.
    pub event_floods: Vec<u64>,
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
    /// With a power policy: its requests, and what was measured.
    pub power: Option<power::Account>,
    /// From the call to the start of the schedule.
    pub startup: Duration,
    /// CPU time that Takt used until then: this process, and the one that starts the processes of the run.
    pub startup_cpu: Span,
    /// Page faults of the scheduler thread during the schedule; `None` where the kernel does not count them.
    pub page_faults: Option<u64>,
    /// How blocks and wake-ups in the middle of jobs were observed.
    pub blocking: Blocking,
    /// Something of the run could not be removed.
    pub cleanup_error: Option<io::Error>,
}

impl Report {
    /// Keeps the figures of the first tasks: a run has places for tasks that no command has added.
    pub fn keep(&mut self, tasks: usize) {
        self.counts.truncate(tasks);
        self.responses.truncate(tasks);
        self.spent.truncate(tasks);
        self.most_used.truncate(tasks);
        self.waited.truncate(tasks);
        self.cpu_time.truncate(tasks);
        self.ends.truncate(tasks);
        self.gone.truncate(tasks);
        self.failures_of.truncate(tasks);
        self.replaced.truncate(tasks);
        self.floods.truncate(tasks);
        self.event_floods.truncate(tasks);
        self.reactions.retain(|reacted| reacted.task.index() < tasks);
    }
}
