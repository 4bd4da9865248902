//! Calls that are refused. A refused call has changed nothing.

/// Why a call was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Error {
    /// An interrupt cannot block.
    InInterrupt = 1,
    /// The kernel has not started, or the caller is no task.
    NotATask = 2,
    /// The task has the lock already.
    Held = 3,
    /// The task does not have the lock.
    NotHeld = 4,
    /// A job cannot end while it has a lock.
    HoldsLock = 5,
    /// The job that had the lock was aborted. Its data may be half changed. The next call gets the lock.
    Poisoned = 6,
    /// The instant came before what was waited for.
    TimedOut = 7,
    /// Another task has the lock, the semaphore is at zero, or the queue is full or empty.
    WouldBlock = 8,
    /// The engine refused the call.
    Refused = 9,
    /// Events do not release jobs of this task.
    NoEvents = 10,
}

impl Error {
    /// Whether the call was a fault of the program, which the trace records.
    #[must_use]
    pub const fn is_misuse(self) -> bool {
        matches!(self, Error::Held | Error::NotHeld | Error::HoldsLock | Error::NoEvents | Error::Refused)
    }
}
