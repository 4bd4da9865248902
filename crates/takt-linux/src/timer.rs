//! The monotonic clock and an absolute timer on it.

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use takt_core::time::Span;

/// The monotonic clock: time since an arbitrary moment (about the boot) that never steps.
#[must_use]
pub fn now() -> Span {
    let time = clock_gettime(ClockId::Monotonic);
    Span::from_ns(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// CPU time that this process has used, all its threads together.
#[must_use]
pub fn cpu_now() -> Span {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Span::from_ns(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// A timer that becomes readable at an instant of the monotonic clock. Instants are absolute, so a schedule built
/// on it does not drift.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that is not armed. Its descriptor does not block and is closed on `exec`.
    ///
    /// # Errors
    /// When the limit of open files is reached.
    pub fn new() -> io::Result<Timer> {
        Ok(Timer(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?))
    }
    /// Arms it for the instant `at` of [`now`]'s clock, replacing an earlier one. An instant in the past fires at once.
    ///
    /// # Errors
    /// None known; the kernel's answer is passed on.
    pub fn arm(&self, at: Span) -> io::Result<()> {
        // Zero would disarm it.
        self.set(at.ns().max(1))
    }
    /// Makes it never fire.
    ///
    /// # Errors
    /// None known; the kernel's answer is passed on.
    pub fn disarm(&self) -> io::Result<()> {
        self.set(0)
    }
    fn set(&self, ns: i64) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: zero, it_value: at })?;
        Ok(())
    }
    /// Whether it fired since it was armed or last asked; then it is no longer readable.
    ///
    /// # Errors
    /// None known; the kernel's answer is passed on.
    pub fn fired(&self) -> io::Result<bool> {
        match rustix::io::read(&self.0, &mut [0u8; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn it_fires_at_its_instant_and_not_before() {
        let timer = Timer::new().unwrap();
        let at = now() + Span::from_ms(20);
        timer.arm(at).unwrap();
        assert!(!timer.fired().unwrap());
        let wait = |ms: i64| {
            let limit = Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
            poll(&mut [PollFd::new(&timer, PollFlags::IN)], Some(&limit)).unwrap()
        };
        assert_eq!(wait(900), 1);
        assert!(now() >= at && timer.fired().unwrap() && !timer.fired().unwrap());
        timer.arm(Span::ZERO).unwrap();
        assert_eq!(wait(900), 1, "an instant in the past fires at once");
        timer.arm(now() + Span::from_ms(5)).unwrap();
        timer.disarm().unwrap();
        assert_eq!(wait(20), 0);
    }
}
