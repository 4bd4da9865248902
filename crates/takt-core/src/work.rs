//! Work, and the speeds of CPUs.
//!
//! Work is execution time at nominal speed. A CPU at [`Speed::NOMINAL`] does a nanosecond of work per nanosecond; a CPU of smaller capacity, or at
//! a lower frequency, does less. Linux scales the runtimes of SCHED_DEADLINE tasks by the same rule
//! (`Documentation/scheduler/sched-deadline.rst`, section 2.3, and `sched-capacity.rst`). Execution times, reservations and budgets of
//! CPU time are work; clocks show time. At another than the nominal speed, each update of a consumption loses less than a nanosecond of work.

use crate::time::{Span, multiply_divide};
use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// An amount of work, in nanoseconds at nominal speed; negative when it is a difference that went below zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work(i64);

/// How much work a CPU does in a span of time, in millionths of what it does at nominal speed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Speed(u32);

impl Work {
    /// None.
    pub const ZERO: Work = Work(0);
    /// More than all: a job that never completes.
    pub const MAX: Work = Work(i64::MAX);

    /// The work that takes so long at nominal speed.
    #[must_use]
    #[inline]
    pub const fn nominal(time: Span) -> Work {
        Work(time.ns())
    }
    /// How long it takes at nominal speed. What else it takes depends on a CPU ([`Speed::time_for`]).
    #[must_use]
    #[inline]
    pub const fn nominal_time(self) -> Span {
        Span::from_ns(self.0)
    }
    /// Nanoseconds at nominal speed.
    #[must_use]
    pub const fn ns(self) -> i64 {
        self.0
    }
    /// The greater of zero and this.
    #[must_use]
    pub const fn or_zero(self) -> Work {
        if self.0 < 0 { Work(0) } else { self }
    }
}

impl Speed {
    /// A nanosecond of work in a nanosecond.
    pub const NOMINAL: Speed = Speed(1_000_000);

    /// So many millionths of the nominal speed; `None` for zero.
    #[must_use]
    pub const fn from_millionths(millionths: u32) -> Option<Speed> {
        if millionths == 0 { None } else { Some(Speed(millionths)) }
    }
    /// In millionths of the nominal speed.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }
    /// The work that is done in so long, which is not negative; what is less than a nanosecond is not counted.
    #[must_use]
    #[inline]
    pub fn work_in(self, time: Span) -> Work {
        if self == Speed::NOMINAL { Work(time.ns()) } else { self.scaled_work_in(time) }
    }
    #[cold]
    fn scaled_work_in(self, time: Span) -> Work {
        let ns = time.ns().max(0) as u64;
        Work(i64::try_from(multiply_divide(ns, self.0.into(), 1_000_000)).unwrap_or(i64::MAX))
    }
    /// The least time in which so much is done; none for none or less.
    #[must_use]
    #[inline]
    pub fn time_for(self, work: Work) -> Span {
        if self == Speed::NOMINAL { Span::from_ns(work.0) } else { self.scaled_time_for(work) }
    }
    #[cold]
    fn scaled_time_for(self, work: Work) -> Span {
        if work == Work::MAX {
            return Span::MAX;
        }
        let speed = u64::from(self.0);
        let whole = multiply_divide(work.0.max(0) as u64, 1_000_000, speed);
        let least = i64::try_from(whole).unwrap_or(i64::MAX);
        let enough = self.scaled_work_in(Span::from_ns(least)) >= work;
        Span::from_ns(if enough { least } else { least.saturating_add(1) })
    }
}

impl Default for Speed {
    fn default() -> Speed {
        Speed::NOMINAL
    }
}

impl Add for Work {
    type Output = Work;
    #[inline]
    fn add(self, rhs: Work) -> Work {
        Work(self.0 + rhs.0)
    }
}
impl AddAssign for Work {
    #[inline]
    fn add_assign(&mut self, rhs: Work) {
        self.0 += rhs.0;
    }
}
impl Sub for Work {
    type Output = Work;
    #[inline]
    fn sub(self, rhs: Work) -> Work {
        Work(self.0 - rhs.0)
    }
}
impl SubAssign for Work {
    #[inline]
    fn sub_assign(&mut self, rhs: Work) {
        self.0 -= rhs.0;
    }
}

/// As the time that it takes at nominal speed.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.nominal_time(), f)
    }
}
impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_time_for_work_is_the_least_in_which_it_is_done() {
        takt_testing::for_all(256, (0i64..1 << 50, 1u32..5_000_000), |(work, millionths)| {
            let (work, speed) = (Work(work), Speed(millionths));
            let time = speed.time_for(work);
            prop_assert!(speed.work_in(time) >= work);
            prop_assert!(time == Span::ZERO || speed.work_in(time - Span::from_ns(1)) < work);
            Ok(())
        });
    }

    #[test]
    fn at_nominal_speed_work_is_time() {
        takt_testing::for_all(256, any::<i64>(), |ns| {
            let time = Span::from_ns(ns);
            prop_assert_eq!(Speed::NOMINAL.time_for(Speed::NOMINAL.work_in(time)), time);
            Ok(())
        });
    }

    #[test]
    fn work_without_end_never_ends() {
        let half = Speed::from_millionths(500_000).expect("it is above zero");
        assert_eq!((half.time_for(Work::MAX), half.time_for(Work(i64::MAX - 1))), (Span::MAX, Span::MAX));
        assert_eq!(Speed::from_millionths(0), None);
    }
}
