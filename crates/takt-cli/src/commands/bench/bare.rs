//! The bare mechanism: a thread that wakes at fixed instants, stops one process and starts the next. It is what any
//! scheduler over the same mechanism has to do at least.

use super::lab::Lab;
use crate::failure::Failure;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt::{self, Class};
use takt_linux::timer::{Timer, now};
use takt_linux::{Group, Mechanism, SpawnSpec};
use takt_workload::Code;

/// One instant of the frame: stop a process, then start one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) at: Span,
    pub(super) stop: Option<usize>,
    pub(super) start: Option<usize>,
}

/// The task of the bare mechanism.
pub(super) struct Plan {
    /// The processes, each in a group of its own.
    pub(super) processes: Vec<Vec<String>>,
    pub(super) class: Class,
    /// CPUs of the thread that stops and starts them.
    pub(super) controller: CpuSet,
    pub(super) frame: Span,
    pub(super) steps: Vec<Step>,
    /// The frame repeats at most so often.
    pub(super) frames: usize,
    /// Whether it ends when the first process does.
    pub(super) until_exit: bool,
}

/// The outcome of one step, on the monotonic clock.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Wake {
    pub(super) ideal: Span,
    pub(super) woke: Span,
    pub(super) stopped: Span,
    pub(super) started: Span,
}

pub(super) struct Measured {
    /// Time zero of the frames.
    pub(super) start: Span,
    /// The steps in order.
    pub(super) wakes: Vec<Wake>,
}

/// Runs the plan with all processes on the lab's CPU. Nothing is left of it afterwards.
pub(super) fn run(lab: &Lab, plan: &Plan) -> Result<Measured, Failure> {
    let mut mechanism = Mechanism::open(lab.choice, &lab.run_id)
        .map_err(|e| Failure::machine(Code::MissingCapability, &e.reason, &e.fix))?;
    let mut groups = Vec::new();
    for _ in &plan.processes {
        let partition = mechanism.add_partition(&CpuSet::single(lab.cpu), 1)?;
        groups.push(mechanism.group(partition, 0));
    }
    let mut pids = Vec::new();
    for (args, group) in plan.processes.iter().zip(&groups) {
        let mut spec = SpawnSpec::new(args)?;
        spec.class = plan.class;
        pids.push(Pid::from_raw(mechanism.spawn(*group, &spec)?).expect("a process id is above zero"));
    }
    let mechanism = Arc::new(mechanism);
    let ended = Arc::new(AtomicBool::new(false));
    let first =
        plan.until_exit.then(|| pidfd_open(pids[0], PidfdFlags::empty())).transpose().map_err(io::Error::from)?;
    let controller = Controller {
        mechanism: mechanism.clone(),
        groups,
        steps: plan.steps.clone(),
        frame: plan.frame,
        frames: plan.frames,
        cpus: plan.controller,
        ended: ended.clone(),
    };
    let thread = std::thread::Builder::new().name("bare".into()).spawn(move || controller.run())?;
    if let Some(process) = first {
        wait_for(&process, plan.frame, plan.frames)?;
        ended.store(true, Ordering::Release);
    }
    let measured = thread.join().map_err(|_| Failure::status(101, Code::InternalFault, "the bare mechanism failed"))?;
    mechanism.destroy()?;
    for pid in pids {
        // A process that was reaped already has ended, as required.
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    Ok(measured?)
}

/// Waits for the end of a process, at most a little longer than all frames take.
fn wait_for(process: &OwnedFd, frame: Span, frames: usize) -> io::Result<()> {
    let end = now() + Span::from_ns(frame.ns() * frames as i64) + Span::from_secs(1);
    while now() < end {
        let left = end - now();
        let left = Timespec { tv_sec: left.ns() / 1_000_000_000, tv_nsec: left.ns() % 1_000_000_000 };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

struct Controller {
    mechanism: Arc<Mechanism>,
    groups: Vec<Group>,
    steps: Vec<Step>,
    frame: Span,
    frames: usize,
    cpus: CpuSet,
    ended: Arc<AtomicBool>,
}

impl Controller {
    fn run(self) -> io::Result<Measured> {
        // Everything is in memory before the first instant.
        let mut wakes = vec![Wake::default(); self.frames * self.steps.len()];
        let timer = Timer::new()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &timer, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        let mut events = Vec::with_capacity(4);
        rt::set_affinity(0, &self.cpus)?;
        rt::set_class(0, Class::Fifo(80))?;
        let start = now() + Span::from_ms(2);
        let done = self.frames(start, &timer, &epoll, &mut events, &mut wakes);
        rt::set_class(0, Class::Other)?;
        wakes.truncate(done?);
        Ok(Measured { start, wakes })
    }

    fn frames(
        &self,
        start: Span,
        timer: &Timer,
        epoll: &OwnedFd,
        events: &mut Vec<epoll::Event>,
        wakes: &mut [Wake],
    ) -> io::Result<usize> {
        for (index, wake) in wakes.iter_mut().enumerate() {
            let (frame, step) = (index / self.steps.len(), self.steps[index % self.steps.len()]);
            wake.ideal = start + Span::from_ns(self.frame.ns() * frame as i64) + step.at;
            timer.arm(wake.ideal)?;
            events.clear();
            while let Err(e) = epoll::wait(epoll, rustix::buffer::spare_capacity(events), None) {
                if e != rustix::io::Errno::INTR {
                    return Err(e.into());
                }
            }
            if self.ended.load(Ordering::Acquire) {
                return Ok(index);
            }
            wake.woke = now();
            if let Some(process) = step.stop {
                self.mechanism.freeze(self.groups[process])?;
            }
            wake.stopped = now();
            if let Some(process) = step.start {
                self.mechanism.thaw(self.groups[process])?;
            }
            wake.started = now();
        }
        Ok(wakes.len())
    }
}
