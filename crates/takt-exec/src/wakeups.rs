//! Programs that end their jobs by sleeps (`completion: sleep`): unmodified loops that work, and sleep until the next time.
//!
//! The kernel reports the sleep with its instant. The program is not frozen meanwhile, since the kernel would report the end of a sleep late, or not at
//! all; it has the lowest priority of the schedule. If its task is not dispatched when it wakes up, the program is frozen then. In the microseconds until
//! that it works on.
//!
//! With `event: wakeup` the wake-up is an event that releases the next job, at its true instant. A job that the program completes before its task is
//! dispatched ends at that dispatch. A program that is awake without a job, because its job was aborted or it is new, has the next one as soon as the
//! least distance allows. Otherwise the clock releases the jobs. One that is dispatched while its program sleeps is blocked until the program wakes up.
//!
//! A program of several threads is frozen at the end of each job: its other threads would run.
//!
//! As everything that the scheduler thread does, this neither allocates nor blocks.

use crate::actuator::{Actuator, Blocked};
use crate::life::{Program, Waits};
use crate::scheduler::{Refused, Scheduler};
use crate::sleeper::{Rest, Sleeper};
use takt_core::engine::Input;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};

/// Two records of one sleep, in different rings, are at most so far apart.
const APART: Span = Span::from_us(50);

impl<A: Actuator> Scheduler<A> {
    /// The tasks of such programs begin: those that have slept at the end of their initialisation sleep on, and are awake at time zero or not.
    pub(crate) fn begin_sleepers(&mut self) {
        for index in 0..self.sleepers.len() {
            let task = self.sleepers[index];
            let slot = &self.setup.slots[task.index()];
            if slot.program == Program::Waiting && self.leave_asleep(task, true) {
                let done = self.setup.actuator.start(self.setup.slots[task.index()].group);
                self.note(task, Refused::Stop, done);
            }
        }
    }

    /// The program of a task has ended a job by a sleep that began at this instant.
    pub(crate) fn falls_asleep(&mut self, task: TaskId, at: Span) {
        let on_schedule = |at: Span| Time::ZERO + (at - self.start);
        let slot = &mut self.setup.slots[task.index()];
        let Some(sleeper) = slot.sleeper.as_mut().filter(|sleeper| !sleeper.several) else { return };
        // The reports of the same sleep are no block of the job.
        let since = on_schedule(at - APART);
        self.blocks.waits.retain(|(at, input)| {
            *at < since || !matches!(*input, Input::Block { task: of } | Input::Wake { task: of } if of == task)
        });
        self.blocks.blocked[task.index()] = false;
        let (reported, blocked) = sleeper.reported;
        let used = self.setup.actuator.cpu_time(slot.group);
        let unseen = sleeper.woke_by(at, used);
        (sleeper.used, sleeper.fell) = (used.unwrap_or(sleeper.used), at);
        let before = std::mem::replace(&mut sleeper.rest, Rest::Asleep);
        if !blocked && reported > at {
            if sleeper.woken() {
                self.put_event(on_schedule(reported), task);
            }
        } else if sleeper.releases && before == Rest::Asleep && slot.program == Program::Waiting {
            // Its wake-up was not reported.
            self.put_event(on_schedule(unseen), task);
        }
    }

    /// The task is dispatched although its program sleeps: a command has released its job. It is blocked until the program wakes up.
    pub(crate) fn is_dispatched_asleep(&mut self, task: TaskId) {
        let slot = &mut self.setup.slots[task.index()];
        if slot.sleeper.is_some_and(|sleeper| sleeper.rest == Rest::Asleep && sleeper.early == 0) {
            slot.blocked = true;
            self.blocks.blocked[task.index()] = true;
        }
    }

    /// Takes in a report about the first thread of such a program. Returns whether it is more than a block or a wake-up of a job.
    pub(crate) fn take_report(&mut self, task: TaskId, at: Span, blocked: bool) -> bool {
        let slot = &mut self.setup.slots[task.index()];
        let Some(sleeper) = &mut slot.sleeper else { return false };
        sleeper.reported = (at, blocked);
        if at < self.start {
            // It sleeps on after its initialisation.
            if slot.waits != Waits::No {
                sleeper.rest = if blocked { Rest::Asleep } else { Rest::Awake };
            }
            return true;
        }
        if sleeper.rest == Rest::Asleep && !blocked {
            if matches!(slot.program, Program::At { .. }) {
                // It begins the job that has been waiting for that.
                sleeper.rest = Rest::Awake;
                return false;
            }
            if !sleeper.woken() {
                return true;
            }
            let at = match self.setup.actuator.samples_waits() {
                true => sleeper.woke_by(at, self.setup.actuator.cpu_time(slot.group)),
                false => at,
            };
            self.put_event(Time::ZERO + (at - self.start), task);
            return true;
        }
        sleeper.rest != Rest::Awake
    }

    /// The wake-up comes before later ones.
    fn put_event(&mut self, at: Time, task: TaskId) {
        let waits = &mut self.blocks.waits;
        if waits.len() == waits.capacity() {
            return self.inputs.push(Input::Release { task });
        }
        let follows = waits.partition_point(|(other, _)| *other <= at);
        waits.insert(follows, (at, Input::Release { task }));
    }

    /// The engine learns of the wake-up now.
    pub(crate) fn is_woken(&mut self, task: TaskId) {
        let now = self.setup.engine.now();
        if let Some(sleeper) = &mut self.setup.slots[task.index()].sleeper {
            sleeper.asked = Some(now);
            if sleeper.rest == Rest::Woken {
                sleeper.rest = Rest::Awake;
            }
        }
    }

    /// The engine has stopped the task of such a program, or the schedule begins. Returns whether the program sleeps, and stays thawed.
    pub(crate) fn leave_asleep(&mut self, task: TaskId, begins: bool) -> bool {
        let known = self.refused[task.index()].is_none();
        let slot = &mut self.setup.slots[task.index()];
        let waits = slot.program == Program::Waiting;
        let Some(sleeper) = slot.sleeper.as_mut().filter(|sleeper| known && waits && !sleeper.several) else {
            return false;
        };
        if begins {
            sleeper.rest = Rest::Asleep;
            sleeper.used = self.setup.actuator.cpu_time(slot.group).unwrap_or_default();
            sleeper.fell = self.setup.actuator.now();
        }
        if sleeper.rest == Rest::Awake || self.setup.rest(task).is_err() {
            return false;
        }
        self.setup.slots[task.index()].waits = Waits::Asleep;
        self.setup.actuator.watch(task, Some(Blocked(true)));
        true
    }

    /// After a step: a program that is awake, and has no job to come, gets one.
    pub(crate) fn release_awake(&mut self) {
        for index in 0..self.sleepers.len() {
            let task = self.sleepers[index];
            let Scheduler { setup, inputs, .. } = self;
            let (engine, slot) = (&setup.engine, &mut setup.slots[task.index()]);
            let releases = |sleeper: &&mut Sleeper| sleeper.releases && sleeper.rest == Rest::Awake;
            let Some(sleeper) = slot.sleeper.as_mut().filter(releases) else { continue };
            let there = matches!(slot.program, Program::New | Program::Waiting | Program::At { .. });
            let now = engine.now();
            // The engine takes no event of a task that has left.
            if there
                && engine.job(task).is_none()
                && !engine.is_planned(task)
                && sleeper.asked.is_none_or(|at| at < now)
            {
                sleeper.asked = Some(now);
                inputs.push(Input::Release { task });
            }
        }
    }

    /// Ends the jobs that programs have completed before the engine has dispatched them. Returns whether there is one.
    pub(crate) fn end_early(&mut self) -> bool {
        let before = self.inputs.len();
        for index in 0..self.sleepers.len() {
            let task = self.sleepers[index];
            let Scheduler { setup, inputs, .. } = self;
            let slot = &mut setup.slots[task.index()];
            let Some(sleeper) = slot.sleeper.as_mut().filter(|sleeper| sleeper.early > 0) else { continue };
            if let Program::At { job, .. } = slot.program
                && setup.engine.at(task) == Some(job)
                && setup.engine.job_number(task) == Some(job)
            {
                sleeper.early -= 1;
                slot.program = Program::Waiting;
                inputs.push(Input::Complete { task, job });
            }
        }
        self.inputs.len() > before
    }

    /// Freezes the programs that are awake and not dispatched.
    pub(crate) fn freeze_awake(&mut self) {
        for index in 0..self.sleepers.len() {
            let task = self.sleepers[index];
            let slot = &self.setup.slots[task.index()];
            let awake = slot.sleeper.is_some_and(|sleeper| sleeper.rest == Rest::Awake);
            if awake && slot.waits != Waits::No {
                self.freeze_waiting(task);
            }
        }
    }
}
