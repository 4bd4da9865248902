//! The observation of blocks and wake-ups on Linux: records of the kernel's scheduler, or states of processes, as changes of tasks.

use crate::actuator::{Blocked, Wait};
use crate::life::WAITS;
use rustix::fd::AsFd;
use std::io;
use std::ops::RangeInclusive;
use takt_core::model::TaskId;
use takt_core::time::Span;
use takt_linux::blocking::{Notices, States, Switches, Threads, Transition};
use takt_linux::{Unavailable, timer};

/// Room for threads beside one for each task.
const THREADS: usize = 4096;

/// The source of blocks and wake-ups.
#[derive(Debug)]
pub(crate) enum Observation {
    /// Records of the kernel's scheduler.
    Records(Records),
    /// States of processes, sampled.
    States(States),
}

impl Observation {
    /// An observation of so many tasks by records, whose processes have FIFO priorities in this range. None is followed yet.
    ///
    /// # Errors
    /// Those of [`Switches::open`].
    pub(crate) fn by_records(
        tasks: usize,
        levels: &RangeInclusive<u8>,
        notices: Notices,
    ) -> Result<Observation, Unavailable> {
        let switches = Switches::open(levels, notices)?;
        let threads = Threads::with_room(tasks, tasks + THREADS);
        Ok(Observation::Records(Records { switches, threads, tasks, doubt: None, lost: 0 }))
    }

    /// An observation of so many tasks by the states of their processes.
    ///
    /// # Errors
    /// Those of [`States::open`].
    pub(crate) fn by_states(tasks: usize) -> Result<Observation, Unavailable> {
        Ok(Observation::States(States::open(tasks)?))
    }

    /// The process of the task has this number and these threads, all of which wait. Without one it is not followed.
    pub(crate) fn follow(&mut self, task: TaskId, leader: Option<i32>, threads: &[i32]) {
        match self {
            Observation::Records(records) => records.follow(task, threads),
            Observation::States(states) => states.follow(task.index(), leader),
        }
    }

    /// As [`Observation::follow`], from now on without the threads and children that the process creates, where the kernel's records tell of them.
    pub(crate) fn follow_leader(&mut self, task: TaskId, leader: Option<i32>) {
        if let Observation::Records(records) = self {
            records.threads.close(task.index());
        }
        self.follow(task, leader, leader.as_slice());
    }

    /// The process of the task begins or continues its job, and counts as blocked or not; or it is stopped.
    pub(crate) fn watch(&self, task: TaskId, watched: Option<Blocked>) {
        let Observation::States(states) = self else { return };
        match watched {
            Some(Blocked(blocked)) => states.watch(task.index(), blocked),
            None => states.unwatch(task.index()),
        }
    }

    /// Whether notices are heard there.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn hear(&self, epoll: &impl AsFd, heard: bool) -> io::Result<()> {
        match (self, heard) {
            (Observation::Records(records), true) => records.switches.register(epoll, WAITS),
            (Observation::Records(records), false) => records.switches.unregister(epoll),
            (Observation::States(states), true) => states.register(epoll, WAITS),
            (Observation::States(states), false) => states.unregister(epoll),
        }
    }

    pub(crate) fn has_waits(&self) -> bool {
        match self {
            Observation::Records(records) => records.doubt.is_some() || records.switches.has_records(),
            Observation::States(states) => states.has_changes(),
        }
    }

    /// Takes the next change of a task, if its instant is not after `until`.
    pub(crate) fn take(&mut self, until: Span) -> Option<Wait> {
        let wait =
            |(at, change): (Span, Transition)| Wait { at, task: TaskId(change.task as u32), blocked: change.blocked };
        match self {
            Observation::Records(records) => records.take(until),
            Observation::States(states) => states.take(until).map(wait),
        }
    }
}

/// The threads of all followed tasks.
#[derive(Debug)]
pub(crate) struct Records {
    switches: Switches,
    threads: Threads,
    tasks: usize,
    /// Records were lost before this instant. The tasks from this one on are to count as runnable.
    doubt: Option<(Span, usize)>,
    lost: u64,
}

impl Drop for Records {
    /// The processes of the run are ended meanwhile.
    fn drop(&mut self) {
        self.switches.close_beside();
    }
}

impl Records {
    fn follow(&mut self, task: TaskId, threads: &[i32]) {
        let now = timer::now();
        self.threads.forget(task.index());
        threads.iter().for_each(|thread| self.threads.follow(task.index(), *thread, false, now));
    }

    fn take(&mut self, until: Span) -> Option<Wait> {
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
