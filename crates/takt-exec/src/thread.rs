//! The scheduler thread: its class and CPUs, and what it waits with.
//!
//! Nothing in here may allocate after the first instant, block on anything but its own epoll, or look at a file system.
//!
//! From another CPU a stop takes two interrupts across CPUs. `takt bench overhead` measures both places. The kernel's `khugepaged` holds
//! the lock of an address space while it is preempted, so the program runs without transparent huge pages; scheduled processes keep their
//! own setting.
//!
//! On PREEMPT_RT a thread of priority 1 handles timer descriptors, and so does RCU. Both starve while real-time processes fill the CPUs.
//! So there the thread waits by the timeout of its own wait.
//!
//! A wait that is shorter than arming the timer is spun. Where no task runs, twice that time is spun, because the sleep and the interrupt
//! at its end take as long again.

use crate::life::{SOURCE, WAITS, completion_of};
use crate::linux::Acts;
use crate::plan::{Hooks, SchedulerClass};
use crate::scheduler::{BATCH, Heard, Outcome, Scheduler, Setup, Waiting};
use crate::service::Heartbeat;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use takt_core::cpus::CpuSet;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};
use takt_linux::disturbance;
use takt_linux::rt::{self, Class};
use takt_linux::timer::Timer;

/// Data of the epoll entries that are no task's completion descriptor.
const TIMER: u64 = u64::MAX;
pub(crate) const CONTROL: u64 = u64::MAX - 1;

/// No wait that is longer is spun, whatever arming a timer takes.
const LONGEST_SPIN: Span = Span::from_us(20);

/// How the thread runs, and what it shares.
pub(crate) struct Frame {
    pub(crate) epoll: OwnedFd,
    /// Its CPUs, if it is bound to any.
    pub(crate) cpus: Option<CpuSet>,
    /// The user has chosen them.
    pub(crate) chosen: bool,
    pub(crate) class: SchedulerClass,
    pub(crate) hooks: Hooks,
    /// Nanoseconds on the monotonic clock at which the schedule starts; set by the scheduler.
    pub(crate) start: Arc<AtomicU64>,
    /// The schedule is over: what processes do from now on is no part of it. Set by the scheduler.
    pub(crate) over: Arc<AtomicBool>,
    /// Wakes the supervisor at the end.
    pub(crate) wake: OwnedFd,
    /// The sign that this thread makes progress.
    pub(crate) heart: Heartbeat,
}

/// The end of the thread.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// The scheduling class that it had.
    pub(crate) class: &'static str,
    /// See [`crate::Report::page_faults`].
    pub(crate) page_faults: Option<u64>,
}

/// The body of the thread. Its descriptors and rings are ready; it takes its scheduling class, fixes time zero and runs until the
/// end of the run.
pub(crate) fn run(setup: Setup<Acts>, frame: Frame) -> io::Result<Ended> {
    // A handler here would delay the schedule; the supervisor handles the signals of the process.
    rt::block_signals();
    let mut scheduler = Scheduler::new(setup);
    let events: Vec<Event> = Vec::with_capacity(BATCH);
    let observed = scheduler.slots().iter().zip((0..).map(TaskId)).filter(|(slot, _)| slot.observed.is_some());
    let observed: Vec<TaskId> = observed.map(|(_, task)| task).collect();
    let class = take_class(&frame);
    let by_timeout = class != "other" && rt::preempt_rt();
    let timer = if by_timeout { None } else { Some(Timer::new()?) };
    if let Some(timer) = &timer {
        epoll::add(&frame.epoll, timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
    }
    let short = timer.as_ref().map_or(Ok(Span::ZERO), Timer::cost)?.min(LONGEST_SPIN);
    let mut waiter = Waiter {
        epoll: &frame.epoll,
        heart: &frame.heart,
        timer,
        short,
        start: Span::ZERO,
        armed: None,
        events,
        next: 0,
        observed,
        looked: 0,
    };
    let start = scheduler.begin();
    waiter.start = start;
    frame.start.store(start.ns() as u64, Ordering::Release);
    if let Some(enter) = frame.hooks.enter {
        enter();
    }
    let faults_before = disturbance::page_faults();
    let ended = scheduler.run(&mut waiter);
    let page_faults = disturbance::page_faults().zip(faults_before).map(|(after, before)| after - before);
    if let Some(leave) = frame.hooks.leave {
        leave();
    }
    let _ = rt::set_class(0, Class::Other);
    let end = ended?;
    frame.over.store(true, Ordering::Release);
    let _ = rustix::io::write(&frame.wake, &1u64.to_ne_bytes());
    Ok(Ended { outcome: scheduler.finish(end), class, page_faults })
}

/// Gives this thread its scheduling class and CPUs, and says which class it got.
fn take_class(frame: &Frame) -> &'static str {
    let (runtime, period) = (Span::from_us(200), Span::from_ms(1));
    let deadline = Class::Deadline { runtime, deadline: period, period };
    if frame.class == SchedulerClass::Deadline && rt::set_class(0, deadline).is_ok() {
        return "deadline";
    }
    let real_time = rt::set_class(0, Class::Fifo(80)).is_ok();
    // Without a real-time class it would wait behind the process on the only CPU of the schedule.
    if let Some(cpus) = frame.cpus.filter(|_| real_time || frame.chosen) {
        // A CPU that the caller may not use is no reason to fail: the thread then stays where it may run.
        let _ = rt::set_affinity(0, &cpus);
    }
    if real_time {
        return "fifo";
    }
    let _ = rt::set_timer_slack(Span::from_ns(1));
    "other"
}

struct Waiter<'a> {
    epoll: &'a OwnedFd,
    heart: &'a Heartbeat,
    timer: Option<Timer>,
    /// The cost of arming the timer. A shorter wait is spun. Where no task has a CPU, twice as long a wait is: a sleep and the interrupt at its end take as
    /// much again.
    short: Span,
    start: Span,
    /// The instant of the timer descriptor.
    armed: Option<Time>,
    /// The events of the last wait, of which the first `next` were given out.
    events: Vec<Event>,
    next: usize,
    /// The tasks with ends of jobs that the kernel reports. Without a timer descriptor all are looked at after each wait, of which
    /// `looked` have been: the `poll` there takes the readiness of their descriptors away.
    observed: Vec<TaskId>,
    looked: usize,
}

impl Waiting<Acts> for Waiter<'_> {
    fn wait(&mut self, scheduler: &Scheduler<Acts>) -> io::Result<()> {
        self.heart.beat();
        loop {
            match self.sleep(scheduler) {
                Err(Errno::INTR) => {}
                slept => return Ok(slept?),
            }
        }
    }

    fn hear_more(&mut self, _: &Scheduler<Acts>) -> io::Result<()> {
        loop {
            match self.take_in() {
                Err(Errno::INTR) => {}
                taken => return Ok(taken?),
            }
        }
    }

    fn heard(&mut self) -> Option<Heard> {
        loop {
            let Some(event) = self.events.get(self.next) else {
                let task = self.observed.get(self.looked).filter(|_| self.timer.is_none())?;
                self.looked += 1;
                return Some(Heard::Observed(*task));
            };
            self.next += 1;
            match event.data.u64() {
                TIMER => {}
                CONTROL => return Some(Heard::Messages),
                WAITS => return Some(Heard::Waits),
                data => {
                    let (task, incarnation) = completion_of(data);
                    if incarnation == SOURCE {
                        return Some(Heard::Event(task));
                    }
                    return Some(Heard::Completion(task, incarnation));
                }
            }
        }
    }
}

impl Waiter<'_> {
    /// Takes in what is ready, as far as there is room.
    fn take_in(&mut self) -> Result<(), Errno> {
        if self.events.len() < self.events.capacity() {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&at_once))?;
        }
        Ok(())
    }

    /// Sleeps until a descriptor has something to tell or something is due, and takes in what there is. What does not fit stays ready
    /// for the next wait of the same instant.
    ///
    /// Usually by a timer descriptor in the same wait. On PREEMPT_RT the kernel handles such a timer in a thread of priority 1,
    /// which a busy real-time process on that CPU keeps from running for ever; the timeout of a real-time thread's own wait
    /// comes straight from the interrupt. It is a timeout of `poll`, because that of `epoll_wait` counts milliseconds.
    fn sleep(&mut self, scheduler: &Scheduler<Acts>) -> Result<(), Errno> {
        self.events.clear();
        (self.next, self.looked) = (0, 0);
        let due = scheduler.due();
        if let Some(timer) = &self.timer {
            let short = if scheduler.runs_nothing() { self.short * 2 } else { self.short };
            if self.armed != Some(due) && due - scheduler.now() < short {
                return self.spin(scheduler, due);
            }
            if self.armed != Some(due) {
                let at = self.start.ns().saturating_add((due - Time::ZERO).ns());
                timer.arm(Span::from_ns(at)).map_err(|_| Errno::INVAL)?;
                self.armed = Some(due);
            }
            epoll::wait(self.epoll, rustix::buffer::spare_capacity(&mut self.events), None)?;
            return Ok(());
        }
        let left = (due - scheduler.now()).or_zero().ns();
        let limit = Timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 };
        let limit = (due != Time::MAX).then_some(&limit);
        poll(&mut [PollFd::new(self.epoll, PollFlags::IN)], limit)?;
        // Also after a timeout: a completion that came before the instant is handled must be seen before it.
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&at_once))?;
        Ok(())
    }

    /// Waits without the timer, for about as long as arming it takes: the CPU would be no more use to anybody else meanwhile.
    fn spin(&mut self, scheduler: &Scheduler<Acts>, due: Time) -> Result<(), Errno> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            // A completion that came before the instant is handled before it.
            let is_due = scheduler.now() >= due;
            epoll::wait(self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&at_once))?;
            if is_due || !self.events.is_empty() {
                return Ok(());
            }
        }
    }
}
