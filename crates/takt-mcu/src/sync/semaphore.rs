//! Counting semaphores.

use crate::error::Error;
use crate::port::{self, free};
use crate::shared::Call;
use crate::task::call_if;
use crate::wait::Waiting;
use takt_core::time::Time;

/// A counting semaphore. Tasks that wait for it get it in the order in which they came.
#[derive(Debug)]
pub struct Semaphore(Waiting);

impl Semaphore {
    /// A semaphore with this count.
    #[must_use]
    pub const fn new(count: u32) -> Semaphore {
        Semaphore(Waiting::new(count, false))
    }

    /// Adds one. Interrupts and tasks may call it.
    pub fn give(&self) {
        free(|cs| {
            if self.0.give(cs, 1) {
                port::pend();
            }
        });
    }

    /// Takes one and waits until there is one.
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn take(&'static self) -> Result<(), Error> {
        self.wait(None)
    }

    /// As [`Semaphore::take`], until an instant.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::InInterrupt`].
    pub fn take_until(&'static self, until: Time) -> Result<(), Error> {
        self.wait(Some(until))
    }

    fn wait(&'static self, until: Option<Time>) -> Result<(), Error> {
        call_if(|cs| {
            if self.0.take(cs) {
                return None;
            }
            self.0.join(cs);
            Some(Call::Wait { on: &self.0, until, unlock: None })
        })
    }

    /// Takes one if there is one. Interrupts and tasks may call it.
    ///
    /// # Errors
    /// [`Error::WouldBlock`].
    pub fn try_take(&self) -> Result<(), Error> {
        if free(|cs| self.0.take(cs)) { Ok(()) } else { Err(Error::WouldBlock) }
    }

    /// The present count.
    #[must_use]
    pub fn count(&self) -> u32 {
        free(|cs| self.0.count(cs))
    }
}
