//! Locks: resources of the table. The engine decides who is next, by the table's `locking`.

use crate::error::Error;
use crate::shared::Call;
use crate::task::call;
use takt_core::model::ResourceId;
#[cfg(feature = "timed-locks")]
use takt_core::time::Time;

/// A lock of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock(u16);

impl Lock {
    /// The lock with this number in the table.
    #[must_use]
    pub const fn new(number: u16) -> Lock {
        Lock(number)
    }

    pub(crate) const fn resource(self) -> ResourceId {
        ResourceId(self.0)
    }

    /// Runs `f` with the lock, and waits for it before.
    ///
    /// # Errors
    /// `f` did not run: [`Error::Held`] if the task has the lock already, [`Error::Poisoned`] once after a job that had it was aborted, [`Error::InInterrupt`].
    pub fn lock<R>(self, f: impl FnOnce() -> R) -> Result<R, Error> {
        self.acquire()?;
        self.with(f)
    }

    /// Runs `f` with the lock, if no other task has it.
    ///
    /// # Errors
    /// As [`Lock::lock`], and [`Error::WouldBlock`] if another task has it.
    pub fn try_lock<R>(self, f: impl FnOnce() -> R) -> Result<R, Error> {
        self.given(call(Call::TryLock(self.resource())))?;
        self.with(f)
    }

    /// As [`Lock::lock`], and gives up waiting at an instant. The task that has the lock then inherits nothing from this one any longer.
    ///
    /// # Errors
    /// As [`Lock::lock`], and [`Error::TimedOut`] if another task still has the lock at that instant.
    #[cfg(feature = "timed-locks")]
    pub fn lock_until<R>(self, until: Time, f: impl FnOnce() -> R) -> Result<R, Error> {
        self.acquire_until(until)?;
        self.with(f)
    }

    fn with<R>(self, f: impl FnOnce() -> R) -> Result<R, Error> {
        let result = f();
        self.release()?;
        Ok(result)
    }

    /// Takes the lock and waits for it if another task has it.
    ///
    /// # Errors
    /// As [`Lock::lock`]; the task does not have the lock then, or had it before.
    pub fn acquire(self) -> Result<(), Error> {
        self.given(call(Call::Lock(self.resource())))
    }

    /// As [`Lock::acquire`], and gives up waiting at an instant. If that has passed, the task takes the lock if it is free.
    ///
    /// # Errors
    /// As [`Lock::lock_until`]; after [`Error::TimedOut`] the task does not have the lock.
    #[cfg(feature = "timed-locks")]
    pub fn acquire_until(self, until: Time) -> Result<(), Error> {
        self.given(call(Call::LockUntil(self.resource(), until)))
    }

    /// A poisoned lock goes back at once.
    fn given(self, answer: Result<(), Error>) -> Result<(), Error> {
        if answer == Err(Error::Poisoned) {
            self.release()?;
        }
        answer
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the task does not have it.
    pub fn release(self) -> Result<(), Error> {
        call(Call::Unlock(self.resource()))
    }
}
