//! Time-utility functions: what it is worth that a job completes, by when it does.
//!
//! Jensen, Locke, Tokuda, "A Time-Driven Scheduling Model for Real-Time Operating Systems", RTSS 1985. Utilities are integers,
//! in millionths of a unit, so that sums and comparisons of densities are exact.

use crate::time::{Span, multiply_divide};
use alloc::vec::Vec;

/// One unit of utility, in millionths.
pub const UNIT: u64 = 1_000_000;

/// The highest utility that a job may have: 10^9 units, which is 50 bits in millionths, so that its products with durations and
/// with fractions in units of 2^-63 fit 128 bits.
pub const MOST: u64 = 1_000_000_000 * UNIT;

/// The utility that a job accrues, by the time from its planned release to its completion. All values are in millionths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Utility {
    /// So much up to the deadline, which meets it, and nothing afterwards.
    Step(u64),
    /// It falls evenly from `height` at the release to nothing.
    Linear {
        /// At the release.
        height: u64,
        /// When it is nothing, after the release; `None` is the relative deadline.
        until: Option<Span>,
    },
    /// It falls by half in every half-life.
    Exponential {
        /// At the release.
        height: u64,
        /// Above zero.
        half_life: Span,
    },
    /// Points in ascending order of time after the release, joined by straight lines. Before the first one it is that one's
    /// value; after the last one it is nothing. Of two points of one instant the first counts in it: a step down.
    Table(Vec<(Span, u64)>),
}

impl Utility {
    /// The utility of a job without a time-utility function: one unit if it meets its deadline.
    pub const DEFAULT: Utility = Utility::Step(UNIT);

    /// The most that a job can accrue. O(points).
    #[must_use]
    pub fn height(&self) -> u64 {
        match self {
            Utility::Step(height) | Utility::Linear { height, .. } | Utility::Exponential { height, .. } => *height,
            Utility::Table(points) => points.iter().map(|(_, value)| *value).max().unwrap_or(0),
        }
    }

    /// Gives the function another height, at most [`MOST`]. Its shape stays: the values of a table change in proportion. O(points).
    pub fn set_height(&mut self, to: u64) {
        let (before, to) = (self.height(), to.min(MOST));
        match self {
            Utility::Step(height) | Utility::Linear { height, .. } | Utility::Exponential { height, .. } => {
                *height = to
            }
            Utility::Table(points) => {
                for (_, value) in points {
                    *value = multiply_divide(*value, to, before.max(1)) as u64;
                }
            }
        }
    }

    /// The utility that a job accrues that completes `elapsed` after its release. O(log points).
    #[must_use]
    pub fn at(&self, elapsed: Span, deadline: Option<Span>) -> u64 {
        let elapsed = elapsed.or_zero();
        match self {
            Utility::Step(height) => {
                if deadline.is_some_and(|d| elapsed > d) {
                    0
                } else {
                    *height
                }
            }
            Utility::Linear { height, until } => match until.or(deadline) {
                None => *height,
                Some(until) => part(*height, until - elapsed, until),
            },
            Utility::Exponential { height, half_life } => halved(*height, elapsed, *half_life),
            Utility::Table(points) => {
                let next = points.partition_point(|(at, _)| *at < elapsed);
                match (next.checked_sub(1).map(|before| points[before]), points.get(next)) {
                    (_, None) => 0,
                    (None, Some((_, value))) => *value,
                    (Some((t0, v0)), Some(&(t1, v1))) => {
                        let (gone, whole) = (elapsed - t0, t1 - t0);
                        if v1 >= v0 { v0 + part(v1 - v0, gone, whole) } else { v1 + part(v0 - v1, whole - gone, whole) }
                    }
                }
            }
        }
    }

    /// The potential utility of a job that would complete `elapsed` after its release. A step keeps its height after the
    /// deadline: whether a job is late is for feasibility tests to say.
    #[must_use]
    pub fn potential(&self, elapsed: Span, deadline: Option<Span>) -> u64 {
        match self {
            Utility::Step(height) => *height,
            _ => self.at(elapsed, deadline),
        }
    }

    /// Whether the values are no more than [`MOST`], spans above zero and points in order.
    pub(crate) fn is_sound(&self) -> bool {
        let shape = match self {
            Utility::Step(_) => true,
            Utility::Linear { until, .. } => until.is_none_or(|u| u > Span::ZERO),
            Utility::Exponential { half_life, .. } => *half_life > Span::ZERO,
            Utility::Table(points) => {
                points.first().is_some_and(|(at, _)| *at >= Span::ZERO) && points.is_sorted_by_key(|(at, _)| *at)
            }
        };
        shape && self.height() <= MOST
    }
}

/// `of * left / whole`, and nothing when nothing is left.
fn part(of: u64, left: Span, whole: Span) -> u64 {
    multiply_divide(of, left.or_zero().ns() as u64, whole.ns().max(1) as u64) as u64
}

/// `height * 2^(-elapsed / half_life)`, to within 2^-30 of it. The binary digits of the exponent's fraction each stand for one
/// root of a half, as in the classic digit-by-digit method for powers.
fn halved(height: u64, elapsed: Span, half_life: Span) -> u64 {
    let (elapsed, half_life) = (elapsed.ns() as u64, half_life.ns() as u64);
    let halves = elapsed / half_life;
    if halves >= 64 {
        return 0;
    }
    let fraction = multiply_divide(elapsed % half_life, 1 << 32, half_life) as u32;
    // In units of 2^-63, and at most one.
    let mut factor = 1_u128 << 63;
    for (place, root) in ROOTS_OF_A_HALF.iter().enumerate() {
        if fraction << place >> 31 == 1 {
            factor = (factor * u128::from(*root)) >> 63;
        }
    }
    ((u128::from(height) * factor) >> 63 >> halves) as u64
}

/// 2^(-1/2), 2^(-1/4) and so on, in units of 2^-63.
const ROOTS_OF_A_HALF: [u64; 32] = {
    let mut roots = [6_521_908_912_666_391_106; 32];
    let mut place = 1;
    while place < 32 {
        roots[place] = ((roots[place - 1] as u128) << 63).isqrt() as u64;
        place += 1;
    }
    roots
};

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: i64) -> Span {
        Span::from_ms(n)
    }

    #[test]
    fn a_step_counts_up_to_the_deadline() {
        let step = Utility::Step(7);
        assert_eq!([ms(0), ms(5), ms(5) + Span::from_ns(1)].map(|t| step.at(t, Some(ms(5)))), [7, 7, 0]);
        assert_eq!((step.at(ms(9), None), step.potential(ms(9), Some(ms(5)))), (7, 7));
    }

    #[test]
    fn a_line_falls_to_the_deadline_or_its_own_end() {
        let line = Utility::Linear { height: 10 * UNIT, until: None };
        assert_eq!([0, 4, 10, 11].map(|t| line.at(ms(t), Some(ms(10)))), [10 * UNIT, 6 * UNIT, 0, 0]);
        let longer = Utility::Linear { height: 10 * UNIT, until: Some(ms(20)) };
        assert_eq!(longer.at(ms(10), Some(ms(10))), 5 * UNIT);
    }

    #[test]
    fn halves_are_exact_and_between_them_it_is_the_power() {
        let decay = Utility::Exponential { height: 1_000_000_000, half_life: ms(10) };
        assert_eq!(
            [0, 10, 20, 90].map(|t| decay.at(ms(t), None)),
            [1_000_000_000, 500_000_000, 250_000_000, 1_953_125]
        );
        for t in 0..200 {
            let power = 1e9 * 2f64.powf(-f64::from(t) / 10.0);
            let value = decay.at(ms(i64::from(t)), None) as f64;
            assert!((value - power).abs() <= 2.0, "{t}: {value} is not {power}");
        }
        assert_eq!(decay.at(Span::from_secs(1_000_000), None), 0);
    }

    #[test]
    fn an_exponential_falls_from_any_height() {
        for height in [1, 8_589 * UNIT, 8_590 * UNIT, 1_000_000 * UNIT, MOST / 3, MOST] {
            let decay = Utility::Exponential { height, half_life: ms(10) };
            assert!(decay.is_sound());
            assert_eq!([0, 10, 20, 640].map(|t| decay.at(ms(t), None)), [height, height / 2, height / 4, 0]);
            for t in 0..100 {
                let power = height as f64 * 2f64.powf(-f64::from(t) / 10.0);
                let value = decay.at(ms(i64::from(t)), None) as f64;
                assert!((value - power).abs() <= 1.0 + power * 2f64.powi(-30), "{height}, {t}: {value} is not {power}");
            }
        }
        assert!(!Utility::Exponential { height: MOST + 1, half_life: ms(10) }.is_sound());
    }

    #[test]
    fn a_table_is_joined_by_lines_and_ends() {
        let table = Utility::Table([(ms(2), 4), (ms(6), 8), (ms(6), 2), (ms(8), 0), (ms(9), 5)].to_vec());
        let values = [0, 2, 3, 4, 6, 7, 8, 9].map(|t| table.at(ms(t), None));
        assert_eq!(values, [4, 4, 5, 6, 8, 1, 0, 5]);
        assert_eq!((table.at(ms(10), None), table.height()), (0, 8));
    }
}
