//! Programs that wait for their next job without being frozen.
//!
//! A program with a page sleeps until the answer to its request for the next job comes, so it uses no CPU. To freeze it at the end of each job and to thaw it
//! at the next one would wake it twice more. Only programs of a single thread are trusted with that, and the kernel is asked whether it really sleeps:
//! after each wait of the scheduler for programs that have just requested a job, and from time to time for one of the others. A program that does not sleep is frozen.
//!
//! As everything that the scheduler thread does, this neither allocates nor blocks.
//!
//! `FUTEX_REQUEUE` of a word to itself counts the waiters of the word and wakes none. A program that does not wait after 50 us is frozen.
//! The scheduler leaves it thawed for that long only if it looks again within 100 us.

use crate::actuator::Actuator;
use crate::life::{Program, Waits};
use crate::scheduler::{Refused, Scheduler};
use crate::slot::{Awaited, Slot};
use takt_core::model::TaskId;
use takt_core::time::Span;

/// From its request a program has so long until it sleeps.
const PATIENCE: Span = Span::from_us(50);

/// The scheduler leaves a program that does not sleep yet alone only if it will look again that soon.
const SOON: Span = Span::from_us(100);

/// From one question about a program that has slept to the next.
const AGAIN: Span = Span::from_us(250);

/// At most so many tasks are looked at to find the next one to be asked about.
const LOOKS: usize = 16;

impl<R> Slot<R> {
    /// Whether the process may wait for its next job without being frozen.
    fn may_wait(&self) -> bool {
        let waits = self.program == Program::Waiting && self.asked.waits_for == Some(Awaited::Job);
        waits && self.alone && self.kernel.is_none() && self.segments.is_none()
    }
}

impl<A: Actuator> Scheduler<A> {
    /// The engine has stopped a task. Returns whether its program waits for its next job without being frozen.
    pub(crate) fn leave_waiting(&mut self, task: TaskId) -> bool {
        if self.leave_asleep(task, false) {
            return true;
        }
        let now = self.now();
        // After a refused act it is not known whether the process is frozen.
        let known = self.refused[task.index()].is_none();
        let slot = &mut self.setup.slots[task.index()];
        let waits = known && slot.may_wait() && self.waiting.len() < self.waiting.capacity();
        if waits {
            slot.waits = Waits::Since(now);
            self.waiting.push(task);
            self.setup.dispatcher.frozen(task);
            self.setup.actuator.watch(task, None);
        }
        waits
    }

    /// Freezes the programs that should sleep and do not. To be called after each step.
    pub(crate) fn look_at_waiting(&mut self) {
        let mut index = 0;
        while let Some(&task) = self.waiting.get(index) {
            let Waits::Since(since) = self.setup.slots[task.index()].waits else {
                self.waiting.swap_remove(index);
                continue;
            };
            if self.setup.actuator.waits(task) {
                self.setup.slots[task.index()].waits = Waits::Asleep;
            } else {
                let now = self.now();
                if now - since < PATIENCE && self.due() - now < SOON {
                    index += 1;
                    continue;
                }
                self.freeze_waiting(task);
            }
            self.waiting.swap_remove(index);
        }
        // A program can be woken by a signal.
        let now = self.now();
        if now - self.asked_again < AGAIN {
            return;
        }
        self.asked_again = now;
        let tasks = self.setup.slots.len();
        for _ in 0..tasks.min(LOOKS) {
            let task = TaskId(self.next_waiting);
            self.next_waiting = if task.index() + 1 < tasks { self.next_waiting + 1 } else { 0 };
            let slot = &self.setup.slots[task.index()];
            if slot.waits == Waits::Asleep && slot.sleeper.is_none() {
                if !self.setup.actuator.waits(task) {
                    self.freeze_waiting(task);
                }
                return;
            }
        }
    }

    /// Freezes a program that waits for its next job, if it is not frozen. A dispatch that is to be repeated comes first.
    pub(crate) fn freeze_waiting(&mut self, task: TaskId) {
        if self.setup.slots[task.index()].waits != Waits::No && self.refused[task.index()].is_none() {
            let done = self.setup.freeze(task);
            self.note(task, Refused::Stop, done);
        }
    }
}
