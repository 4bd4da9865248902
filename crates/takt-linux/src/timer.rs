//! The monotonic clock and an absolute timer on it.

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_getres, clock_gettime,
    timerfd_create, timerfd_settime,
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

/// Time between two ticks of the kernel: what its coarse clock can tell apart.
#[must_use]
pub fn tick() -> Span {
    let length = clock_getres(ClockId::MonotonicCoarse);
    Span::from_ns(length.tv_sec * 1_000_000_000 + length.tv_nsec)
}

/// An instant of [`now`]'s clock at which the kernel's tick came; all others are multiples of [`tick`] from it, on every CPU
/// unless the kernel was told to skew them. It is late by what handling an interrupt takes. Spins for `ticks` ticks.
#[must_use]
pub fn observe_tick(ticks: u32) -> Span {
    let coarse = || clock_gettime(ClockId::MonotonicCoarse);
    let length = tick();
    let end = now() + length * i64::from(ticks);
    // The first tick that is seen, and the one that came earliest after a whole number of ticks from it.
    let (mut first, mut earliest) = (None, Span::ZERO);
    let mut before = coarse();
    while now() < end {
        let seen = coarse();
        if seen != before {
            before = seen;
            let at = now();
            let phase = (at - *first.get_or_insert(at)).ns().rem_euclid(length.ns());
            let phase = if 2 * phase > length.ns() { phase - length.ns() } else { phase };
            earliest = earliest.min(Span::from_ns(phase));
        }
    }
    first.unwrap_or_else(now) + earliest
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
    /// The cost of arming it for a near instant: the median of some attempts. In a virtual machine this is often ten times a system call, because
    /// the hypervisor has to program the hardware. The timer is not armed afterwards. Takes less than a millisecond.
    ///
    /// # Errors
    /// None known; the kernel's answer is passed on.
    pub fn cost(&self) -> io::Result<Span> {
        let mut costs = [Span::ZERO; 15];
        for (cost, n) in costs.iter_mut().zip(0..) {
            let began = now();
            // Each is earlier than the one before, so that it is the next of its CPU.
            self.arm(began + Span::from_ms(1) - Span::from_us(n * 20))?;
            *cost = now() - began;
        }
        self.disarm()?;
        costs.sort_unstable();
        Ok(costs[costs.len() / 2])
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

/// A periodic POSIX timer (`timer_create`) that sends SIGALRM. The signal is blocked in the thread that makes the timer, which must be the only one.
pub struct SignalTimer(crate::sys::PosixTimer);

impl std::fmt::Debug for SignalTimer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignalTimer")
    }
}

impl SignalTimer {
    /// Expires at `at` of [`now`]'s clock, and then once in each period.
    ///
    /// # Errors
    /// `EAGAIN` when the limit of pending signals is reached.
    pub fn start(at: Span, period: Span) -> io::Result<SignalTimer> {
        crate::sys::PosixTimer::start(at.ns().max(1), period.ns()).map(SignalTimer)
    }
    /// Waits for the next signal. Returns the number of expiries since the last one.
    ///
    /// # Errors
    /// None known; the kernel's answer is passed on.
    pub fn wait(&self) -> io::Result<i64> {
        self.0.wait()
    }
}

/// The time of day in the time zone of this process: hour, minute, second, millisecond. UTC where no time zone is known.
#[must_use]
pub fn time_of_day() -> (i32, i32, i32, u32) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = now.as_secs() as i64;
    let utc = || ((seconds / 3600 % 24) as i32, (seconds / 60 % 60) as i32, (seconds % 60) as i32);
    let (hour, minute, second) = crate::sys::local_time(seconds).unwrap_or_else(utc);
    (hour, minute, second, now.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn the_tick_is_one_that_kernels_are_built_with() {
        assert!((Span::from_us(900)..=Span::from_ms(10)).contains(&tick()), "{}", tick());
        let (seen, after) = (observe_tick(3), now());
        assert!(seen <= after && after - seen < tick() * 1000);
    }

    #[test]
    fn the_cost_of_arming_is_measured_without_a_trace() {
        let timer = Timer::new().unwrap();
        let cost = timer.cost().unwrap();
        assert!(cost > Span::ZERO && cost < Span::from_ms(1), "{cost}");
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert!(!timer.fired().unwrap());
    }

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
