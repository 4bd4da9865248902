//! The load of a system over time.

use crate::time::{Span, Time, multiply_divide};
use alloc::vec::Vec;

/// How what jobs need changes in the course of a run: a factor on declared runtimes and on what jobs really need, by the planned
/// release of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Load {
    /// Instants after the start of the schedule and the factor then, in millionths, in ascending order and joined by straight
    /// lines; constant before the first and after the last. Of two points of one instant the second counts in it.
    pub points: Vec<(Span, u32)>,
    /// The points begin again after so long; above zero.
    pub repeat: Option<Span>,
}

impl Load {
    /// The factor of one, in millionths.
    pub const ONE: u32 = 1_000_000;

    /// The factor for a job with this planned release. O(log points).
    #[must_use]
    pub fn factor(&self, release: Time) -> u32 {
        let at = release - Time::ZERO;
        let at = self.repeat.map_or(at, |repeat| Span::from_ns(at.ns().rem_euclid(repeat.ns())));
        let next = self.points.partition_point(|(t, _)| *t <= at);
        match (next.checked_sub(1).map(|before| self.points[before]), self.points.get(next)) {
            (None, None) => Load::ONE,
            (None, Some(&(_, factor))) | (Some((_, factor)), None) => factor,
            (Some((t0, f0)), Some((t1, f1))) => {
                let rise =
                    multiply_divide(f1.abs_diff(f0).into(), (at - t0).ns() as u64, (*t1 - t0).ns() as u64) as u32;
                if *f1 < f0 { f0 - rise } else { f0 + rise }
            }
        }
    }
}

/// `span` times a factor in millionths, rounded down, but a nanosecond at least.
#[must_use]
#[inline]
pub fn scaled(span: Span, factor: u32) -> Span {
    if factor == Load::ONE {
        return span;
    }
    let ns = multiply_divide(span.or_zero().ns() as u64, u64::from(factor), u64::from(Load::ONE));
    Span::from_ns(i64::try_from(ns).unwrap_or(i64::MAX).max(1))
}
