//! Queues between tasks, and from interrupts to tasks.

use super::semaphore::Semaphore;
use crate::error::Error;
use crate::port::free;
use core::cell::RefCell;
use critical_section::Mutex;
use takt_core::time::Time;

/// A queue of at most `N` values, first in, first out.
#[derive(Debug)]
pub struct Queue<T, const N: usize> {
    ring: Mutex<RefCell<Ring<T, N>>>,
    values: Semaphore,
    places: Semaphore,
}

#[derive(Debug)]
struct Ring<T, const N: usize> {
    slots: [Option<T>; N],
    first: usize,
    length: usize,
}

impl<T: Send, const N: usize> Default for Queue<T, N> {
    fn default() -> Queue<T, N> {
        Queue::new()
    }
}

impl<T: Send, const N: usize> Queue<T, N> {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Queue<T, N> {
        let ring = Ring { slots: [const { None }; N], first: 0, length: 0 };
        Queue { ring: Mutex::new(RefCell::new(ring)), values: Semaphore::new(0), places: Semaphore::new(N as u32) }
    }

    fn push(&self, value: T) {
        free(|cs| {
            let mut ring = self.ring.borrow(cs).borrow_mut();
            let at = (ring.first + ring.length) % N;
            ring.slots[at] = Some(value);
            ring.length += 1;
        });
        self.values.give();
    }

    fn pop(&self) -> Option<T> {
        let value = free(|cs| {
            let mut ring = self.ring.borrow(cs).borrow_mut();
            let at = ring.first;
            ring.first = (at + 1) % N;
            ring.length = ring.length.saturating_sub(1);
            ring.slots[at].take()
        });
        self.places.give();
        value
    }

    /// Sends a value and waits for room.
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn send(&'static self, value: T) -> Result<(), Error> {
        self.places.take()?;
        self.push(value);
        Ok(())
    }

    /// As [`Queue::send`], until an instant.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::InInterrupt`].
    pub fn send_until(&'static self, value: T, until: Time) -> Result<(), Error> {
        self.places.take_until(until)?;
        self.push(value);
        Ok(())
    }

    /// Sends a value if there is room. Interrupts and tasks may call it.
    ///
    /// # Errors
    /// The value, if the queue is full.
    pub fn try_send(&self, value: T) -> Result<(), T> {
        if self.places.try_take().is_err() {
            return Err(value);
        }
        self.push(value);
        Ok(())
    }

    /// Receives a value and waits for one.
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn receive(&'static self) -> Result<T, Error> {
        self.values.take()?;
        self.pop().ok_or(Error::WouldBlock)
    }

    /// As [`Queue::receive`], until an instant.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::InInterrupt`].
    pub fn receive_until(&'static self, until: Time) -> Result<T, Error> {
        self.values.take_until(until)?;
        self.pop().ok_or(Error::WouldBlock)
    }

    /// Receives a value if there is one. Interrupts and tasks may call it.
    ///
    /// # Errors
    /// [`Error::WouldBlock`].
    pub fn try_receive(&self) -> Result<T, Error> {
        self.values.try_take()?;
        self.pop().ok_or(Error::WouldBlock)
    }
}
