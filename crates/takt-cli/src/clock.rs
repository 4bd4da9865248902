//! The monotonic clock.

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;
use takt_core::time::Span;

/// Sleeps until an instant of the monotonic clock.
pub(crate) fn sleep_until(at: Span) {
    let at = Timespec { tv_sec: at.ns() / 1_000_000_000, tv_nsec: at.ns() % 1_000_000_000 };
    while clock_nanosleep_absolute(ClockId::Monotonic, &at) == Err(rustix::io::Errno::INTR) {}
}
