//! The observation of blocks and wake-ups on Linux: records of the kernel's scheduler, as changes of tasks.

use crate::actuator::Wait;
use crate::life::WAITS;
use rustix::fd::AsFd;
use std::io;
use std::ops::RangeInclusive;
use takt_core::model::TaskId;
use takt_core::time::Span;
use takt_linux::blocking::{Notices, Switches, Threads, Transition};
use takt_linux::{Unavailable, timer};

/// Room for threads beside one for each task.
const THREADS: usize = 4096;

/// The threads of all followed tasks.
#[derive(Debug)]
pub(crate) struct Observation {
    switches: Switches,
    threads: Threads,
    tasks: usize,
    /// Records were lost before this instant. The tasks from this one on are to count as runnable.
    doubt: Option<(Span, usize)>,
    lost: u64,
}

impl Observation {
    /// An observation of so many tasks, whose processes have FIFO priorities in this range. None is followed yet.
    ///
    /// # Errors
    /// Those of [`Switches::open`].
    pub(crate) fn open(
        tasks: usize,
        levels: &RangeInclusive<u8>,
        notices: Notices,
    ) -> Result<Observation, Unavailable> {
        let switches = Switches::open(levels, notices)?;
        Ok(Observation { switches, threads: Threads::with_room(tasks, tasks + THREADS), tasks, doubt: None, lost: 0 })
    }

    /// The process of the task has these threads, all of which wait. Without one it is not followed.
    pub(crate) fn follow(&mut self, task: TaskId, threads: &[i32]) {
        let now = timer::now();
        self.threads.forget(task.index());
        threads.iter().for_each(|thread| self.threads.follow(task.index(), *thread, false, now));
    }

    /// Whether notices are heard there.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn hear(&self, epoll: &impl AsFd, heard: bool) -> io::Result<()> {
        if heard { self.switches.register(epoll, WAITS) } else { self.switches.unregister(epoll) }
    }

    pub(crate) fn has_waits(&self) -> bool {
        self.doubt.is_some() || self.switches.has_records()
    }

    /// Takes the next change of a task, if its instant is not after `until`.
    pub(crate) fn take(&mut self, until: Span) -> Option<Wait> {
        loop {
            if let Some(wait) = self.doubted() {
                return Some(wait);
            }
            let switch = self.switches.take(until)?;
            let lost = self.switches.take_lost();
            if lost > 0 {
                self.lost += lost;
                self.doubt = Some((switch.at, 0));
            }
            if let Some(Transition { task, blocked }) = self.threads.take_in(&switch) {
                return Some(Wait { at: switch.at, task: TaskId(task as u32), blocked });
            }
        }
    }

    /// After a loss: the next task that was blocked, and counts as runnable from now on.
    fn doubted(&mut self) -> Option<Wait> {
        let (at, from) = self.doubt?;
        let blocked = (from..self.tasks).find(|task| self.threads.is_blocked(*task));
        self.doubt = blocked.map(|task| (at, task + 1));
        if blocked.is_none() {
            self.threads.doubt();
        }
        blocked.map(|task| Wait { at, task: TaskId(task as u32), blocked: false })
    }
}
