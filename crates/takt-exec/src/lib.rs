//! The executive: a real clock and Linux processes under the same engine that the simulator drives.
//!
//! Two threads. The *scheduler* (`scheduler`) keeps time: it waits for the engine's next instant or a completion
//! signal, steps the engine, and stops and starts process groups. It allocates nothing, forks nothing, reaps nothing
//! and touches no disk. The *supervisor* ([`run`], on the caller's thread, ordinary class) does all that: it spawns, reaps,
//! fetches descriptors, takes the records out of a ring, and cleans up. Two rings connect them.

mod life;
mod plan;
mod scheduler;
mod supervisor;

pub use plan::{Hooks, Observer, Plan, Process, SchedulerClass};
/// Whether writing a little to this descriptor would not block now.
#[must_use]
pub fn is_writable(fd: impl std::os::fd::AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&now)), Ok(1))
}

pub use supervisor::{Ended, Error, Report, TaskEnd, run};
