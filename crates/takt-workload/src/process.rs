//! The process of a task in a workload.

use crate::settings::Client;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use takt_core::model::{Completion, OnAbort, OnExit, TaskId};

/// A source of events outside the schedule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum EventSource {
    /// An open descriptor of the process that starts the run becomes readable.
    Descriptor(i32),
    /// A named pipe becomes readable.
    Pipe(PathBuf),
    /// A datagram arrives at this address.
    Udp(SocketAddr),
    /// A signal of this name, without `SIG`, arrives at the process of the run.
    Signal(&'static str),
    /// The program begins a real-time segment.
    Segments,
    /// The program wakes up from the sleep that has ended its job before.
    WakeUp,
}

/// The reaction of `takt run` to a job that misses its deadline (`on_miss`), or uses more than it may (`on_overrun`).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// It is counted and recorded, as always.
    #[default]
    Log,
    /// The task's process is sent the signal of this name, without `SIG`.
    Signal(&'static str),
    /// A command for `/bin/sh -c` is started beside the schedule.
    Exec(String),
    /// The run ends, with status 1.
    Stop,
}

/// A scheduling class of the kernel to which a task is handed: the kernel schedules its process, and Takt releases its jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// `SCHED_DEADLINE` with the task's runtime, deadline and period.
    Deadline,
    /// `SCHED_FIFO` with this priority.
    Fifo(u8),
    /// `SCHED_OTHER`, the fair class.
    Other,
}

/// As the file takes it.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Deadline => f.write_str("deadline"),
            Class::Fifo(priority) => write!(f, "fifo={priority}"),
            Class::Other => f.write_str("other"),
        }
    }
}

/// The properties of a task that the engine need not know.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct TaskInfo {
    /// Its name, unique in the workload: its `name`, or that of its partition and its number there (`SC1-1`).
    pub name: String,
    /// Its partition, an index into [`crate::Workload::partitions`].
    pub partition: Option<usize>,
    /// Its command for `/bin/sh -c`; without it the task can only be simulated.
    pub cmd: Option<String>,
    /// The task of whose program it is a thread. That task has the command; its own jobs are those of the first thread.
    pub thread_of: Option<TaskId>,
    /// Whether it may initialise before the schedule starts.
    pub init: bool,
    /// When its process is started.
    pub spawn: Spawn,
    /// The rule for the work of an aborted job, if the file says it ([`TaskInfo::abort_rule`]).
    pub on_abort: Option<OnAbort>,
    /// Name of the signal that tells the process of an abort (`on_abort: signal=USR2`), if the file says it.
    pub abort_signal: Option<&'static str>,
    /// How the end of its jobs is known, if the file says it ([`TaskInfo::completion_rule`]).
    pub completion: Option<Completion>,
    /// The end of its jobs in a run, instead of a signal (`completion: yield` and `sleep`). A simulation takes it as a signal.
    pub observed: Option<Observed>,
    /// Whether its process is given what a client of the scheduler needs.
    pub client: Client,
    /// The reaction when its process ends by itself, if the file says it; [`OnExit::End`] otherwise.
    pub on_exit: Option<OnExit>,
    /// The reaction to a missed job, if the file says it; [`Reaction::Log`] otherwise.
    pub on_miss: Option<Box<Reaction>>,
    /// The reaction to a job that exhausts its budget or exceeds its runtime, if the file says it; [`Reaction::Log`] otherwise.
    pub on_overrun: Option<Box<Reaction>>,
    /// Where its standard output goes, if the file says it; [`Output::Inherit`] otherwise.
    pub output: Option<Box<Output>>,
    /// How its process differs from the process of Takt.
    pub settings: Option<Box<ProcessSettings>>,
    /// The source of its events in a run, for a task with `event`. The system has those of `after`.
    pub event: Option<Box<EventSource>>,
    /// The class of the kernel that schedules its process in a run; `None` if Takt does.
    pub class: Option<Class>,
    /// CPU frequency in megahertz that it asks for; power policies use it.
    pub frequency_mhz: Option<f64>,
}

impl TaskInfo {
    /// Whether `takt run` can run it: it has a command, or is a thread of another task's program.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.cmd.is_some() || self.thread_of.is_some()
    }

    /// The rule for the work of an aborted job. By default a process completes it, since it knows nothing of the abort; a task
    /// without a command drops it, and so does a process per job, which is replaced. A process with a `handler` receives a signal.
    #[must_use]
    pub fn abort_rule(&self, handler: bool) -> OnAbort {
        self.on_abort.unwrap_or(match (self.is_program(), self.spawn) {
            (true, _) if handler => OnAbort::Signal,
            (true, Spawn::Once) => OnAbort::Finish,
            _ => OnAbort::Restart,
        })
    }

    /// How the end of its jobs is known.
    #[must_use]
    pub fn completion_rule(&self) -> Completion {
        self.completion.unwrap_or(match (self.spawn, self.init) {
            (Spawn::PerJob, _) => Completion::Exit,
            (Spawn::Once, true) => Completion::Signal,
            (Spawn::Once, false) if self.client == Client::None => Completion::None,
            (Spawn::Once, false) => Completion::Undeclared,
        })
    }
}

/// An end of a job that the kernel reports, of a program that signals nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observed {
    /// Its call of `sched_yield`.
    Yield,
    /// A sleep.
    Sleep,
}

/// When the process of a task is started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Spawn {
    /// Once, before the schedule; the process tells when a job is done.
    #[default]
    Once,
    /// A new process for every job; the job is done when the process ends.
    PerJob,
}

/// How the process of a task differs from the process of Takt. A simulation ignores it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ProcessSettings {
    /// The name or number of its user.
    pub user: Option<String>,
    /// The name or number of its group; by default that of the user.
    pub group: Option<String>,
    /// Variables of its environment; `None` removes one that Takt has.
    pub env: Vec<(String, Option<String>)>,
    /// Its directory, relative to that of the file.
    pub cwd: Option<PathBuf>,
    /// The bits that its new files lack.
    pub umask: Option<u32>,
    /// Its limits.
    pub limits: Vec<ResourceLimit>,
}

/// A limit of `setrlimit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceLimit {
    /// One of [`LIMITS`](crate::LIMITS).
    pub name: &'static str,
    /// The limit that the kernel enforces; `None` is no limit.
    pub soft: Option<u64>,
    /// The highest value to which the process can raise it; `None` is no limit.
    pub hard: Option<u64>,
}

/// Where the standard output of a process goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Where that of Takt goes.
    Inherit,
    /// Nowhere.
    Null,
    /// Into a file.
    File {
        /// Its path, relative to the directory of the processes.
        path: PathBuf,
        /// Whether the file is emptied when the run starts; otherwise the output is appended.
        truncate: bool,
    },
}

/// As the file takes it.
impl fmt::Display for ResourceLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        match self.soft == self.hard {
            true => f.write_str(&text(self.soft)),
            false => write!(f, "{}:{}", text(self.soft), text(self.hard)),
        }
    }
}
