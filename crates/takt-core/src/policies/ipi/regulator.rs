//! The two control loops of a round, on numbers alone.
//!
//! Spans inside of the regulator have [`FRACTION`] binary digits below the nanosecond, so that an error of one nanosecond is
//! still integrated. Sums are split by cumulative rounding: the parts of a whole always add up to the whole, and the error of
//! each part is below one unit.

use super::parameters::{Parameters, UNIT};
use crate::time::{Span, divide, divide_by_word};

/// Binary digits below the nanosecond.
pub const FRACTION: u32 = 16;
/// One, for the parts α of a round.
pub const WHOLE: i64 = 1 << 32;

/// A span in the regulator's own unit.
#[must_use]
pub const fn fine(span: Span) -> i64 {
    span.ns() << FRACTION
}

/// Splits a whole by parts that are asked for one after the other: cumulative rounding. The results add up to `whole` when the
/// parts add up to `of`.
pub struct Split {
    whole: i64,
    of: i128,
    sum: i128,
    given: i64,
}

impl Split {
    /// Splits `whole` by parts of `of`, which is above zero.
    #[must_use]
    pub const fn new(whole: i64, of: i128) -> Split {
        Split { whole, of, sum: 0, given: 0 }
    }
    /// The amount of the next part. O(1).
    #[inline]
    pub fn next(&mut self, part: i128) -> i64 {
        // A task that is not ready has none.
        if part == 0 { 0 } else { self.next_part(part) }
    }

    fn next_part(&mut self, part: i128) -> i64 {
        self.sum += part;
        // The last part needs no division: it is the rest.
        let upto = if self.sum == self.of { self.whole } else { part_of(self.whole, self.sum, self.of) };
        let next = upto - self.given;
        self.given = upto;
        next
    }
}

/// `whole * sum / of`, rounded to the nearest. O(1).
fn part_of(whole: i64, sum: i128, of: i128) -> i64 {
    // The usual operands have a word each, or are one, so that their product has two.
    const ONE: u64 = WHOLE as u64;
    if let (Ok(whole @ 0..=ONE), Ok(sum), Ok(of @ 1..=ONE)) =
        (u64::try_from(whole), u32::try_from(sum), u64::try_from(of))
    {
        let product = whole * u64::from(sum) + (of >> 1);
        return match u32::try_from(of) {
            Ok(of) => divide_by_word(product, of) as i64,
            Err(_) => (product >> 32) as i64,
        };
    }
    divide(i128::from(whole) * sum + (of >> 1), of) as i64
}

/// The outer loop: holds the length of the round at its set point.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Outer {
    /// The burst correction b_c, in the regulator's unit.
    pub correction: i64,
    /// The error of the round before, in nanoseconds.
    error: i64,
}

impl Outer {
    /// One step of b_c(k) = b_c(k-1) + krr e(k-1) - krr zrr e(k-2), and its saturations: when all inner regulators are at
    /// their upper bound the correction may only fall; the round that it asks for is never negative, and never above what
    /// all `tasks` can use. O(1).
    pub fn step(&mut self, p: &Parameters, set_point: Span, measured: Span, saturated: bool, tasks: usize) {
        let error = (set_point - measured).ns();
        let unit = i128::from(UNIT);
        let change = i128::from(p.krr) * (i128::from(error) * unit - i128::from(p.zrr) * i128::from(self.error));
        let change = divide(divide(change << FRACTION, unit), unit);
        let mut next = i128::from(self.correction) + change;
        if saturated {
            next = next.min(i128::from(self.correction));
        }
        let most = i128::from(fine(p.most)) * tasks as i128;
        self.correction = next.clamp(-i128::from(fine(measured)), most) as i64;
        self.error = error;
    }
}

/// One pass over the inner regulators, b_i(k) = b_i(k-1) + kpi (α_i (τ_r + b_c) - τ_i), clamped.
pub struct Inner<'a> {
    p: &'a Parameters,
    set_points: Split,
    errors: i128,
    moved: i128,
    states: i128,
    given: i128,
}

impl<'a> Inner<'a> {
    /// Begins the pass, for a round that took `measured` and shall be corrected by `correction`.
    #[must_use]
    pub fn new(p: &'a Parameters, measured: Span, correction: i64) -> Inner<'a> {
        // Set points are whole nanoseconds as the measurements are: a burst that is where it should be is left there.
        let correction = (correction + (1 << (FRACTION - 1))) >> FRACTION;
        let asked = (measured.ns() + correction).max(0);
        Inner { p, set_points: Split::new(asked, i128::from(WHOLE)), errors: 0, moved: 0, states: 0, given: 0 }
    }
    /// The next task's regulator: `state` is its integrator. Returns the burst. O(1).
    pub fn step(&mut self, alpha: i64, measured: Span, state: &mut i64) -> Span {
        let error = fine(Span::from_ns(self.set_points.next(i128::from(alpha))) - measured);
        self.errors += i128::from(error);
        let moved = divide(self.errors * i128::from(self.p.kpi), i128::from(UNIT));
        let next = i128::from(*state) + moved - self.moved;
        self.moved = moved;
        *state = next.clamp(i128::from(fine(self.p.least)), i128::from(fine(self.p.most))) as i64;
        self.burst(*state)
    }
    /// The whole nanoseconds of a state, rounded cumulatively like everything else.
    fn burst(&mut self, state: i64) -> Span {
        self.states += i128::from(state);
        let upto = (self.states + (1 << (FRACTION - 1))) >> FRACTION;
        let next = upto - self.given;
        self.given = upto;
        Span::from_ns(next as i64)
    }
}
