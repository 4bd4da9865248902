//! The executive: a real clock and Linux processes under the same engine that the simulator drives.
//!
//! Two threads. The *scheduler* (`thread`, `scheduler`) keeps time: it waits for the engine's next instant or a completion
//! signal, steps the engine, and stops and starts process groups. It allocates nothing, forks nothing, reaps nothing
//! and touches no disk. The *supervisor* ([`run`], `lives`, on the caller's thread, ordinary class) does all that: it spawns, reaps,
//! fetches descriptors, takes the records out of a ring, and cleans up. Two rings connect them.
//!
//! Neither `scheduler` nor `lives` knows Linux. They act through the traits of `actuator`, which `linux` implements, and in tests a
//! machine in virtual time that also refuses, delays and loses things.

mod actuator;
mod ahead;
mod blocks;
mod causes;
mod change;
mod control;
mod dispatch;
mod floods;
mod following;
mod incidents;
mod levels;
mod life;
mod linux;
mod lives;
mod meter;
mod mirror;
mod observation;
mod plan;
mod reactions;
mod report;
mod requests;
mod resumes;
mod rings;
mod scheduler;
mod segments;
mod service;
mod sleeper;
mod slot;
mod sources;
mod supervisor;
mod sync;
mod terms;
mod thread;
mod unseen;
mod used;
#[cfg(test)]
mod virtual_machine;
mod waits;
mod wakeups;

pub use control::{Answer, AnswerTo, Command, Control, Done, Handle, MAX_LOADED, NewTerms, Order, Refusal, Target};
pub use mirror::{CpuStatus, EVENTS_MAX, EventKind, PolicyStatus, RunEvent, Status, TaskState, TaskStatus};
pub use plan::{
    Cause, Dispatch, EventSource, Hooks, Issuer, KernelTask, NewTask, Observer, Output, Plan, Process, ProcessSettings,
    Reaction, SchedulerClass, TaskEnd, reserve,
};
/// Whether writing a little to this descriptor would not block now.
#[must_use]
pub fn is_writable(fd: impl std::os::fd::AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&now)), Ok(1))
}

pub use reactions::COMMANDS_MAX;
pub use report::{Blocking, Ended, Error, Reacted, Report};
pub use supervisor::{GRACE, run, run_controlled};
