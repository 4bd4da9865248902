//! Condition variables.

use super::lock::Lock;
use crate::error::Error;
use crate::port::{self, free};
use crate::shared::Call;
use crate::task::call_if;
use crate::wait::Waiting;
use takt_core::time::Time;

/// A condition variable. A notification wakes a task that waits at that instant, in the order in which they came; without one it is lost.
#[derive(Debug)]
pub struct Condvar(Waiting);

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl Condvar {
    /// A condition variable that no task waits for.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar(Waiting::new(0, true))
    }

    /// Gives `lock` back, waits for a notification, and takes the lock again. The first two are one instant, so that no notification
    /// in between is lost.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the task does not have the lock; [`Error::Poisoned`] as for [`Lock::acquire`].
    pub fn wait(&'static self, lock: Lock) -> Result<(), Error> {
        self.wait_for(lock, None)
    }

    /// As [`Condvar::wait`], until an instant. The task has the lock again also after [`Error::TimedOut`].
    ///
    /// # Errors
    /// [`Error::TimedOut`], and those of [`Condvar::wait`].
    pub fn wait_until(&'static self, lock: Lock, until: Time) -> Result<(), Error> {
        self.wait_for(lock, Some(until))
    }

    fn wait_for(&'static self, lock: Lock, until: Option<Time>) -> Result<(), Error> {
        let ended = call_if(|cs| {
            self.0.join(cs);
            Some(Call::Wait { on: &self.0, until, unlock: Some(lock.resource()) })
        });
        match ended {
            Ok(()) | Err(Error::TimedOut) => lock.acquire().and(ended),
            Err(_) => ended,
        }
    }

    /// Wakes one task. Interrupts and tasks may call it.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all tasks that wait. Interrupts and tasks may call it.
    pub fn notify_all(&self) {
        self.notify(u32::MAX);
    }

    fn notify(&self, number: u32) {
        free(|cs| {
            if self.0.give(cs, number) {
                port::pend();
            }
        });
    }
}
