//! Ends of jobs that the kernel reports, for programs that signal nothing: a process calls `sched_yield`, or it sleeps.
//!
//! The kernel's tracepoints write to a ring that it shares with the scheduler (`perf_event_open`). The ring of a process has a descriptor
//! for the scheduler's epoll, and a look at it is no system call. The events are bound to one thread of this machine, so nothing changes
//! for other processes but that a traced system call takes a little longer. They end with their descriptors, and so with a run that is killed.
//!
//! Only the first thread of the process is observed, and also after an `exec`.
//!
//! A sleep counts if a system call has returned since the last one, because a process that was stopped within a sleep sleeps again when
//! it starts. Events before the dispatch of a job are void, and so are, under cgroup v2, those between a stop and the next start, because
//! the stop itself is reported as a sleep. A `poll` of the epoll clears the readiness of these descriptors, so all rings are read after
//! such a wait.

use crate::group::{Unavailable, fix_of};
use crate::sys::{Counter, Ring};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::read;
use std::io;
use takt_core::time::Span;

/// An end of a job of a program that signals nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// The call of `sched_yield`.
    Yield,
    /// A sleep that a signal could interrupt (state S). Waiting for a disk (state D) is no such sleep.
    Sleep,
}

/// `sched_switch`: the thread leaves its CPU in this state, and in no other.
const SLEEPS: &str = "prev_state == 1";

/// `sys_exit`: the system call is over. These four results are those of a call that a signal or a stop has interrupted, and that the kernel
/// restarts: the program does not see them.
const RETURNS: &str = "ret != -512 && ret != -513 && ret != -514 && ret != -516";

/// The kernel's numbers of the tracepoints.
#[derive(Clone, Copy, Debug)]
pub struct Tracepoints {
    of: JobEnd,
    sampled: u64,
    counted: Option<u64>,
}

impl Tracepoints {
    /// Finds those for an end of jobs.
    ///
    /// # Errors
    /// When the kernel has none, or does not show them to this user.
    pub fn find(of: JobEnd) -> Result<Tracepoints, Unavailable> {
        let events = events().map_err(|e| Unavailable {
            reason: format!("the kernel's tracepoints cannot be read: {e}"),
            fix: "run as root; the kernel needs CONFIG_TRACEFS".to_owned(),
        })?;
        let number = |name: &str| {
            number(&events, name).map_err(|e| Unavailable {
                reason: format!("the kernel has no tracepoint {name}: {e}"),
                fix: "use a kernel with CONFIG_FTRACE_SYSCALLS, or `completion: signal`".to_owned(),
            })
        };
        Ok(match of {
            JobEnd::Yield => Tracepoints { of, sampled: number("syscalls/sys_enter_sched_yield")?, counted: None },
            JobEnd::Sleep => {
                let counted = Some(number("raw_syscalls/sys_exit")?);
                Tracepoints { of, sampled: number("sched/sched_switch")?, counted }
            }
        })
    }

    /// Tries them on the calling thread.
    ///
    /// # Errors
    /// When the kernel does not let this user observe a process.
    pub fn try_out(&self) -> Result<(), Unavailable> {
        JobEnds::open(self, 0).map(drop).map_err(|e| Unavailable {
            reason: format!("the kernel refuses to observe a process: {e}"),
            fix: fix_of(&e, "run as root, or: setcap cap_perfmon,cap_ipc_lock=ep $(command -v takt)"),
        })
    }
}

/// The folder of all tracepoints.
pub(crate) fn events() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(crate::tracing::root()?, "events", flags, Mode::empty())?)
}

/// The kernel's number of a tracepoint.
pub(crate) fn number(events: &OwnedFd, name: &str) -> io::Result<u64> {
    let file = openat(events, format!("{name}/id"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0; 24];
    let length = read(&file, &mut text)?;
    let number = std::str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("its number is unreadable"))
}

/// The ends of jobs of one process.
#[derive(Debug)]
pub struct JobEnds {
    of: JobEnd,
    ring: Ring,
    /// Counts the system calls that have returned to the program.
    _returns: Option<Counter>,
    /// That count at the last sleep.
    last: u64,
}

impl JobEnds {
    /// Observes the process from now on. Zero is the calling thread.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn open(points: &Tracepoints, pid: i32) -> io::Result<JobEnds> {
        let events = Counter::open(points.sampled, pid, None)?;
        let mut returns = None;
        if let Some(counted) = points.counted {
            events.filter(SLEEPS)?;
            let counter = Counter::open(counted, pid, Some(&events))?;
            counter.filter(RETURNS)?;
            returns = Some(counter);
        }
        Ok(JobEnds { of: points.of, ring: events.into_ring(1)?, _returns: returns, last: 0 })
    }

    /// From now on its events are heard there, each as a change.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn register(&self, epoll: &impl AsFd, data: u64) -> io::Result<()> {
        Ok(epoll::add(epoll, &self.ring, EventData::new_u64(data), EventFlags::IN | EventFlags::ET)?)
    }

    /// Takes in all events, and returns the instant of the last one that ended a job, if it is this instant of the monotonic clock or later. It
    /// neither blocks nor allocates, and makes no system call.
    ///
    /// A sleep that was interrupted by a stop continues at the next start, which the kernel reports as another one. It is none: no system call has
    /// returned to the program since. The calls that the thread made before it was observed do not count either.
    pub fn take(&mut self, since: Span) -> Option<Span> {
        let mut ended = None;
        // A sample: the instant; and for a sleep the number of counters and their values, that of the sampled event first.
        let mut sample = [0; 4];
        while let Some(length) = self.ring.take(&mut sample) {
            let expected = if self.of == JobEnd::Yield { 1 } else { 4 };
            let at = Span::from_ns(sample[0] as i64);
            if length < expected || at < since {
                continue;
            }
            if self.of == JobEnd::Sleep && std::mem::replace(&mut self.last, sample[3]) == sample[3] {
                continue;
            }
            ended = Some(at);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll::CreateFlags;
    use takt_testing::{Capability, skip};

    fn observe(of: JobEnd) -> Option<JobEnds> {
        if !Capability::Tracepoints.is_present() {
            skip(Capability::Tracepoints, "no right to observe processes");
            return None;
        }
        let points = Tracepoints::find(of).expect("tracepoints");
        Some(JobEnds::open(&points, 0).expect("an observer"))
    }

    #[test]
    fn a_yield_is_heard_and_counts_from_an_instant_on() {
        let Some(mut ends) = observe(JobEnd::Yield) else { return };
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        ends.register(&epoll, 7).unwrap();
        assert_eq!(ends.take(Span::ZERO), None, "nothing has happened");
        std::thread::yield_now();
        let mut heard = Vec::with_capacity(1);
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut heard), None).unwrap();
        assert_eq!(heard[0].data.u64(), 7);
        assert_eq!(ends.take(crate::timer::now()), None, "it was before that");
        std::thread::yield_now();
        assert!(ends.take(Span::ZERO).is_some());
        assert_eq!(ends.take(Span::ZERO), None, "it has been taken");
        // Another thread is another process to the kernel, and a sleep is no yield.
        std::thread::spawn(std::thread::yield_now).join().unwrap();
        assert_eq!(ends.take(Span::ZERO), None);
    }

    #[test]
    fn a_ring_that_is_full_continues_when_it_has_been_read() {
        for of in [JobEnd::Yield, JobEnd::Sleep] {
            let Some(mut ends) = observe(of) else { return };
            let act = |micros| match of {
                JobEnd::Yield => std::thread::yield_now(),
                JobEnd::Sleep => std::thread::sleep(std::time::Duration::from_micros(micros)),
            };
            for _ in 0..3 {
                (0..1000).for_each(|_| act(1));
                assert!(ends.take(Span::ZERO).is_some(), "{of:?}");
            }
            for number in 0..100 {
                // On a CPU that is emulated and shared, a sleep can be over before the thread has left it.
                let heard = (0..3).any(|_| {
                    act(10_000);
                    ends.take(Span::ZERO).is_some()
                });
                assert!(heard, "{of:?} {number}");
            }
        }
    }

    #[test]
    fn a_sleep_that_continues_after_a_stop_is_one_sleep() {
        let Some(points) = observe(JobEnd::Sleep).and(Tracepoints::find(JobEnd::Sleep).ok()) else { return };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = rustix::process::Pid::from_child(&child);
        let send = |signal| rustix::process::kill_process(pid, signal).unwrap();
        let pause = || std::thread::sleep(std::time::Duration::from_millis(50));
        send(rustix::process::Signal::STOP);
        let mut ends = JobEnds::open(&points, pid.as_raw_nonzero().get()).unwrap();
        send(rustix::process::Signal::CONT);
        // It may have been anywhere before; from here on it sleeps.
        pause();
        ends.take(Span::ZERO);
        for _ in 0..3 {
            send(rustix::process::Signal::STOP);
            pause();
            send(rustix::process::Signal::CONT);
            pause();
            assert_eq!(ends.take(Span::ZERO), None);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
