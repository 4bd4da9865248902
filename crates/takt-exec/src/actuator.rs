//! The executive's interface to the machine below. The two threads know no more of it, so that they run over Linux
//! ([`crate::linux`]) and, in tests, over a machine in virtual time.
//!
//! The scheduler has an [`Actuator`], which neither blocks nor allocates, the supervisor [`Processes`], which may do both.

use crate::life::Incarnation;
use crate::plan::{Plan, TaskEnd};
use crate::report::Error;
use rustix::io::Errno;
use rustix::process::Signal;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use takt_abi::{Job, Page, Request, Statistics, Status};
use takt_core::cpus::CpuSet;
use takt_core::model::TaskId;
use takt_core::record::{JobId, Place};
use takt_core::time::Span;
use takt_linux::rt::Class;
use takt_linux::{Group, PartitionHandle, ThreadState};

/// Stops, starts, moves, measures and signals processes for the scheduler. Each act is O(1) but for [`Actuator::assign`], which may
/// cost O(threads of the partition).
///
/// An act that fails for another reason than that the process is gone ([`is_gone`]) is repeated until it succeeds.
pub(crate) trait Actuator {
    /// The descriptor that lets a process continue that has signalled.
    type Resume: Debug;
    /// The monotonic clock.
    fn now(&self) -> Span;
    /// With CPU-time budgets the scheduler leaves the CPU for at least so long: several times what a step takes.
    fn grain(&self) -> Span;
    /// Stops the processes of a group, at the latest when each next leaves the kernel.
    fn stop(&self, group: Group) -> io::Result<()>;
    /// Lets the processes of a group run.
    fn start(&self, group: Group) -> io::Result<()>;
    /// Sets the FIFO priority of the process of the group: of its first thread.
    fn set_priority(&self, group: Group, priority: u8) -> io::Result<()>;
    /// Sets the scheduling class of the process that was started in a group.
    fn set_leader_class(&self, group: Group, class: Class) -> io::Result<()>;
    /// Moves the processes of a partition to these CPUs; nothing is done when it has them.
    fn assign(&self, partition: PartitionHandle, cpus: &CpuSet) -> io::Result<()>;
    /// The CPU time that the process of the group has used; `None` when it is gone.
    fn cpu_time(&self, group: Group) -> Option<Span>;
    /// Sends a signal to the process of the group, which takes effect when it runs.
    fn signal(&self, group: Group, signal: Signal) -> io::Result<()>;
    /// Lets a process continue. It can only fail when the process is gone.
    fn resume(&self, by: &Self::Resume) -> io::Result<()>;
    /// The last end of a job of the task's process that the kernel has reported, if it was at this instant or later. All reports are taken in.
    fn ended_job(&self, task: TaskId, since: Span) -> Option<Span>;
    /// Observes blocks and wake-ups of the task's process in this group, instead of those of the one before; without a group of none.
    fn follow(&self, task: TaskId, group: Option<Group>);
    /// The task's process begins or continues its job, and counts as blocked or not until a report; or it is stopped. Without a report by the kernel it is looked at
    /// in between.
    fn watch(&self, task: TaskId, watched: Option<Blocked>) {
        let _ = (task, watched);
    }
    /// Whether blocks and wake-ups are looked for from time to time, so that their instants are those of the looks.
    fn samples_waits(&self) -> bool {
        false
    }
    /// Whether a block or wake-up has been reported that has not been taken.
    fn has_waits(&self) -> bool;
    /// Takes the next block or wake-up, if its instant is not after `until`.
    fn take_wait(&self, until: Span) -> Option<Wait>;
    /// Whether the scheduler is woken by blocks and wake-ups.
    fn hear_waits(&self, heard: bool);
    /// Whether the kernel reports a stop as a sleep of the process.
    fn stops_as_sleep(&self) -> bool;
    /// The reason why the program of a task rang the bell, after the request of number `last`.
    fn rung(&self, task: TaskId, last: u32) -> Rung;
    /// Answers the last request, of this number.
    fn answer(&self, task: TaskId, number: u32, status: Status);
    /// Whether the program of a task sleeps until its last request is answered.
    fn waits(&self, task: TaskId) -> bool;
    /// Announces the job that the program begins. The program reads it after the next answer, or at its start.
    fn begin(&self, task: TaskId, job: Job);
    /// Announces the abort of the program's job.
    fn abort(&self, task: TaskId, job: JobId);
    /// Writes the statistics that the program has requested. The answer follows.
    fn tell(&self, task: TaskId, statistics: Statistics);
    /// The source of a task's events has changed.
    fn hear_source(&self, task: TaskId);
    /// Whether changes of the source of a task's events are not to be heard. If it has something to read when it is heard again, that is a change.
    fn mute_source(&self, task: TaskId, muted: bool) -> io::Result<()>;
    /// The supervisor is to look at its requests now.
    fn wake_supervisor(&self);
    /// Requests a frequency in kHz for a domain of the plan. [`Actuator::post_power`] follows.
    fn set_frequency(&self, domain: u16, khz: u32);
    /// Requests a limit for the latency of a CPU of the system, in µs; `None` is no limit. [`Actuator::post_power`] follows.
    fn limit_latency(&self, cpu: Place, limit_us: Option<u32>);
    /// Hands the requests over to the thread that writes them. `planned` is their instant of the monotonic clock, if the schedule had planned it.
    fn post_power(&self, planned: Option<Span>);
    /// From now on the window table has a major frame of this length; zero without a table. Requests of planned instants repeat with it.
    fn set_frame(&self, length: Span);
}

/// Whether a process counts as blocked in the middle of its job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocked(pub(crate) bool);

/// The process of a task has blocked, or is runnable again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    /// On the monotonic clock.
    pub(crate) at: Span,
    pub(crate) task: TaskId,
    /// None of its threads is runnable from then on.
    pub(crate) blocked: bool,
}

/// The reason why a program rang its bell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rung {
    /// A completion signal: the program has no page, or does not use it.
    Completion,
    /// A request, which has not been checked.
    Request(Request),
    /// None: the program uses its page, and there is no new request.
    Nothing,
}

impl Rung {
    /// By the page of the program.
    pub(crate) fn by(page: Option<&Page>, last: u32) -> Rung {
        match page.and_then(|page| page.take(last)) {
            Some(request) => Rung::Request(request),
            None if page.is_some_and(Page::is_attached) => Rung::Nothing,
            None => Rung::Completion,
        }
    }
}

/// Whether an act failed because its process or group is gone: then its end is reported, and nothing is left to be done.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    const GONE: [Errno; 3] = [Errno::NODEV, Errno::NOENT, Errno::SRCH];
    error.raw_os_error().is_some_and(|number| GONE.iter().any(|gone| gone.raw_os_error() == number))
}

/// The groups of a run, while it is set up.
pub(crate) trait Groups {
    /// Adds a partition with its CPUs and so many frozen groups. `moves` says that it will be assigned other CPUs.
    ///
    /// # Errors
    /// When a CPU is not there; else the kernel's answer.
    fn add(&mut self, cpus: &CpuSet, groups: usize, moves: bool) -> io::Result<PartitionHandle>;
}

/// How long the processes of a task waited for a CPU, and what they used of one, since they began; where that is known.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Times {
    pub(crate) waited: Option<Span>,
    pub(crate) used: Option<Span>,
}

/// Starts, ends and observes processes for the supervisor.
pub(crate) trait Processes {
    /// See [`Actuator::Resume`].
    type Resume;
    /// The monotonic clock.
    fn now(&self) -> Span;
    /// From now on the process of a task, whose number was free, is that of this plan. Opens the files for it.
    fn take_in(&mut self, task: TaskId, plan: Arc<Plan>) -> Result<(), Error>;
    /// Starts the process of a task in its group, which is frozen, and gives its process id.
    fn spawn(&mut self, task: TaskId, group: Group, incarnation: Incarnation, class: Class) -> Result<i32, Error>;
    /// The descriptor that lets the process of a task continue. `None` when it is gone, or belongs to another program now.
    fn fetch(&self, task: TaskId, pid: i32) -> Option<Self::Resume>;
    /// Stops the processes of a group.
    fn stop(&self, group: Group) -> io::Result<()>;
    /// Lets the processes of a group run.
    fn start(&self, group: Group) -> io::Result<()>;
    /// Makes an empty group ready for another process, which is then born frozen.
    fn prepare(&self, group: Group) -> io::Result<()>;
    /// Kills every process of a group, frozen or not; they may still be on their way out afterwards.
    fn kill(&self, group: Group) -> io::Result<()>;
    /// Lets the processes of a group run in idle time, and asks them to end (SIGTERM).
    fn ask_to_end(&self, group: Group) -> io::Result<()>;
    /// Gives the processes of a group a scheduling class.
    fn set_class(&self, group: Group, class: Class);
    /// Takes the thread that a program has named for one of its tasks into the group of that task, where it is stopped, and gives it a class.
    fn adopt(&mut self, task: TaskId, program: Group, own: Group, class: Class) -> io::Result<()>;
    /// The state of the thread of a group.
    fn thread_state(&self, group: Group) -> ThreadState;
    /// Lets the threads of a group end that were killed.
    fn let_die(&self, group: Group) -> io::Result<()>;
    /// Kills a program whose first thread is no longer stopped with its group, since another one has become that by `exec`.
    fn end_displaced(&self, group: Group);
    /// The thread of a group has ended.
    fn forget_thread(&self, group: Group);
    /// CPU time of the thread of a group, also when it has ended.
    fn thread_time(&self, group: Group) -> Option<Span>;
    /// The number of threads in a group; `None` when it cannot be read.
    fn threads(&self, group: Group) -> Option<usize>;
    /// Whether the program of a task uses its page.
    fn uses_page(&self, task: TaskId) -> bool;
    /// Gives all threads of a group that are in the class FIFO this priority.
    fn set_priorities(&self, group: Group, priority: u8);
    /// Whether another program has moved the process of a group to another group. It is moved back.
    fn take_back(&self, group: Group) -> io::Result<bool>;
    /// Whether the group holds a process.
    fn populated(&self, group: Group) -> io::Result<bool>;
    /// Whether [`Processes::emptied`] tells of a group that its first process has left behind. Without, [`Processes::populated`] is
    /// asked from time to time.
    fn notifies(&self) -> bool;
    /// The process id of one that has ended and has not been reaped, if there is one; [`Processes::times`] still knows it.
    fn ended(&mut self) -> Option<i32>;
    /// Reaps a process that has ended, and says how it ended.
    fn reap(&mut self, pid: i32) -> Option<TaskEnd>;
    /// To be called when the process that was started in a group has been reaped: whether the group is empty.
    fn leader_exited(&self, group: Group) -> io::Result<bool>;
    /// Reports each group that became empty after its first process, once.
    fn emptied(&self, report: impl FnMut(Group));
    /// The wait and the consumption of a process, also one that has ended and is not reaped yet.
    fn times(&self, pid: i32) -> Times;
    /// Kills all processes and removes all groups.
    fn destroy(&self) -> io::Result<()>;
}
