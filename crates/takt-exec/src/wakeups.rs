//! Programs that end their jobs by sleeps (`completion: sleep`): unmodified loops that work, and sleep until the next time.
//!
//! The kernel reports the sleep with its instant. The program is not frozen meanwhile, since the kernel could report the end of a sleep late, or not at
//! all. Where tasks have priorities, it has the lowest one. If its task is not dispatched when it wakes up, the program is frozen. Before that it works
//! for some microseconds.
//!
//! With `event: wakeup` the wake-up is an event that releases the next job, at its true instant. A job that the program completes before its task is
//! dispatched ends at that dispatch. A program that is new, or whose job was aborted, is awake without a job. It has the next one as soon as the least
//! distance allows. Otherwise the clock releases the jobs. One that is dispatched while its program sleeps is blocked until the program wakes up.
//!
//! A program of several threads is frozen at the end of each job: its other threads would run.
//!
//! As everything that the scheduler thread does, this neither allocates nor blocks.

use crate::actuator::{Actuator, Blocked};
use crate::life::{Program, Waits};
use crate::scheduler::{REPEAT, Refused, Scheduler};
use crate::sleeper::{Rest, Sleeper};
use takt_core::engine::Input;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};

/// Two records of one sleep, in different rings, are at most so far apart.
const APART: Span = Span::from_us(50);

impl<A: Actuator> Scheduler<A> {
    /// Programs that have ended their initialisation by a sleep continue it, thawed, before the schedule begins. At time zero each sleeps or is awake.
    pub(crate) fn begin_sleepers(&mut self) {
        for index in 0..self.sleepers.len() {
            let task = self.sleepers[index];
            let slot = &mut self.setup.slots[task.index()];
            if slot.program == Program::Waiting && self.leave_asleep(task, true) {
                let Scheduler { setup, .. } = self;
                let slot = &mut setup.slots[task.index()];
                slot.observed.iter_mut().for_each(|observed| observed.since = setup.actuator.now());
                let done = setup.actuator.start(slot.group);
                self.note(task, Refused::Stop, done);
            }
        }
    }

    /// The program of a task has ended a job by a sleep that began at this instant.
    pub(crate) fn falls_asleep(&mut self, task: TaskId, at: Span) {
        let start = self.start;
        let on_schedule = |at: Span| Time::ZERO + (at - start);
        let Scheduler { setup, blocks, .. } = &mut *self;
        let slot = &mut setup.slots[task.index()];
        let Some(sleeper) = slot.sleeper.as_mut().filter(|sleeper| !sleeper.several) else { return };
        // The reports of the same sleep, and of its end, concern no job.
        let since = on_schedule(at - APART);
        let block = |(at, input): &(Time, Input)| *at >= since && *input == Input::Block { task };
        if let Some(first) = blocks.waits.iter().rposition(block) {
            let mut place = 0;
            blocks.waits.retain(|(_, input)| {
                place += 1;
                let of_job = matches!(*input, Input::Block { task: of } | Input::Wake { task: of } if of == task);
                place <= first || !of_job
            });
        }
        blocks.blocked[task.index()] = false;
        let (reported, blocked) = sleeper.reported;
        let is_over = !blocked && reported > at;
        let used = setup.actuator.cpu_time(slot.group);
        let unseen = sleeper.woke_by(setup.actuator.now(), used).min(at);
        (sleeper.used, sleeper.fell) = (used.unwrap_or(sleeper.used), at);
        sleeper.since = if is_over { reported } else { at + Span::from_ns(1) };
        let before = std::mem::replace(&mut sleeper.rest, Rest::Asleep);
        if at < start {
            sleeper.rest = if is_over { Rest::Awake } else { Rest::Asleep };
            return;
        }
        // The wake-up before was not reported.
        let hidden = sleeper.releases && before == Rest::Asleep && slot.program == Program::Waiting;
        let woken = is_over && sleeper.woken();
        if hidden {
            self.put_event(on_schedule(unseen), task);
        }
        if woken {
            self.put_event(on_schedule(reported), task);
        }
    }

    /// The task is dispatched although its program sleeps: the clock or a command has released its job. It is blocked until the program wakes up.
    pub(crate) fn is_dispatched_asleep(&mut self, task: TaskId) {
        let slot = &mut self.setup.slots[task.index()];
        if slot.sleeper.is_some_and(|sleeper| sleeper.rest == Rest::Asleep && sleeper.early == 0) {
            slot.blocked = true;
            self.blocks.blocked[task.index()] = true;
        }
    }

    /// Takes in a report about the first thread of such a program. Returns whether it is more than a block or a wake-up of a job.
    pub(crate) fn take_report(&mut self, task: TaskId, at: Span, blocked: bool) -> bool {
        let Scheduler { setup, start, .. } = &mut *self;
        let start = *start;
        let slot = &mut setup.slots[task.index()];
        let Some(sleeper) = &mut slot.sleeper else { return false };
        // A report of before the present sleep.
        if sleeper.rest == Rest::Asleep && at < sleeper.fell {
            return true;
        }
        sleeper.reported = (at, blocked);
        if at < start {
            // It sleeps on after its initialisation.
            if slot.waits != Waits::No {
                sleeper.rest = if blocked { Rest::Asleep } else { Rest::Awake };
                sleeper.since = at;
            }
            return true;
        }
        if sleeper.rest == Rest::Asleep && !blocked {
            if matches!(slot.program, Program::At { .. }) && sleeper.early == 0 {
                // It begins the job that has been waiting for that.
                sleeper.rest = Rest::Awake;
                return false;
            }
            let at = match setup.actuator.samples_waits() {
                true => sleeper.woke_by(setup.actuator.now(), setup.actuator.cpu_time(slot.group)).min(at),
                false => at,
            };
            sleeper.since = at;
            if sleeper.woken() {
                self.put_event(Time::ZERO + (at - start), task);
            }
            return true;
        }
        sleeper.rest != Rest::Awake
    }

    /// The wake-up comes before later ones.
    fn put_event(&mut self, at: Time, task: TaskId) {
        let waits = &mut self.blocks.waits;
        if waits.len() == waits.capacity() {
            self.is_woken(task);
            return self.inputs.push(Input::Release { task });
        }
        let follows = waits.partition_point(|(other, _)| *other <= at);
        waits.insert(follows, (at, Input::Release { task }));
    }

    /// The engine learns of the wake-up now.
    pub(crate) fn is_woken(&mut self, task: TaskId) {
        let now = (self.setup.engine.now(), self.now());
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

    /// A program that is awake, and has no job to come, gets one. If its last one was ended in the same instant, it comes later.
    pub(crate) fn release_awake(&mut self) {
        let now = self.now();
        for index in 0..self.sleepers.len() {
            let task = self.sleepers[index];
            let Scheduler { setup, inputs, repeat, .. } = self;
            let (engine, slot) = (&setup.engine, &mut setup.slots[task.index()]);
            let releases = |sleeper: &&mut Sleeper| sleeper.releases && sleeper.rest == Rest::Awake;
            let Some(sleeper) = slot.sleeper.as_mut().filter(releases) else { continue };
            let there = matches!(slot.program, Program::New | Program::Waiting | Program::At { .. });
            if !there || engine.is_gone(task) || engine.job(task).is_some() || engine.is_planned(task) {
                continue;
            }
            if sleeper.asked.is_some_and(|(step, at)| step == engine.now() && now - at < REPEAT) {
                *repeat = (*repeat).min(now + REPEAT);
                continue;
            }
            sleeper.asked = Some((engine.now(), now));
            inputs.push(Input::Release { task });
        }
    }

    /// All that was heard is handled: the programs that are awake have their jobs, or are frozen until then.
    pub(crate) fn settle_sleepers(&mut self, now: Time) {
        if self.sleepers.is_empty() || now < Time::ZERO {
            return;
        }
        loop {
            self.release_awake();
            self.end_early();
            if self.inputs.is_empty() {
                break;
            }
            self.step(now.max(self.setup.engine.now()));
        }
        for index in 0..self.sleepers.len() {
            let task = self.sleepers[index];
            let Scheduler { setup, .. } = self;
            let slot = &mut setup.slots[task.index()];
            let Some(sleeper) = &mut slot.sleeper else { continue };
            if setup.engine.job(task).is_none() && !setup.engine.is_planned(task) {
                // The job that it has completed was ended before its dispatch.
                sleeper.early = 0;
            }
            if sleeper.rest == Rest::Awake && slot.waits != Waits::No {
                self.freeze_waiting(task);
            }
        }
    }

    /// Ends the jobs that programs have completed before the engine has dispatched them.
    pub(crate) fn end_early(&mut self) {
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
    }
}
