//! Counts that are given and taken, for which tasks wait.

use core::cell::Cell;
use critical_section::{CriticalSection, Mutex};

/// A count, and how many tasks wait for it. The kernel knows who waits; the object does not.
#[derive(Debug)]
pub(crate) struct Waiting {
    count: Mutex<Cell<u32>>,
    waiters: Mutex<Cell<u32>>,
    /// A count that no task waits for is forgotten: a condition variable.
    forgets: bool,
}

impl Waiting {
    pub(crate) const fn new(count: u32, forgets: bool) -> Waiting {
        Waiting { count: Mutex::new(Cell::new(count)), waiters: Mutex::new(Cell::new(0)), forgets }
    }

    /// Takes one if there is one.
    pub(crate) fn take(&self, cs: CriticalSection<'_>) -> bool {
        let count = self.count.borrow(cs);
        let there = count.get() > 0;
        count.set(count.get() - u32::from(there));
        there
    }

    /// Gives `number`, at most `u32::MAX` in all. Returns whether a task waits, so that the kernel has to run.
    pub(crate) fn give(&self, cs: CriticalSection<'_>, number: u32) -> bool {
        let (count, waiters) = (self.count.borrow(cs), self.waiters.borrow(cs).get());
        let sum = count.get().saturating_add(number);
        count.set(if self.forgets { sum.min(waiters) } else { sum });
        waiters > 0
    }

    pub(crate) fn count(&self, cs: CriticalSection<'_>) -> u32 {
        self.count.borrow(cs).get()
    }

    /// A task begins to wait.
    pub(crate) fn join(&self, cs: CriticalSection<'_>) {
        let waiters = self.waiters.borrow(cs);
        waiters.set(waiters.get() + 1);
    }

    /// A task stops waiting. A notification that was meant for it goes with it, if no other task waits.
    pub(crate) fn leave(&self, cs: CriticalSection<'_>) {
        let waiters = self.waiters.borrow(cs);
        waiters.set(waiters.get().saturating_sub(1));
        if self.forgets {
            let count = self.count.borrow(cs);
            count.set(count.get().min(waiters.get()));
        }
    }
}
