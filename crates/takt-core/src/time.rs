//! The two kinds of time: an instant and a span, both whole nanoseconds.
//!
//! `deadline - now` is a [`Span`]; `deadline + now` does not compile. Nothing in Takt's core
//! uses floating point for time.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Neg, Rem, Sub, SubAssign};

/// An instant, in nanoseconds since the start of the schedule (time zero of the run).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// A length of time in nanoseconds; negative when it is a difference that went below zero (a laxity).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Time {
    /// The start of the schedule.
    pub const ZERO: Time = Time(0);
    /// Later than everything: "never".
    pub const MAX: Time = Time(i64::MAX);

    /// The instant `ns` nanoseconds after the start.
    #[must_use]
    pub const fn from_ns(ns: i64) -> Time {
        Time(ns)
    }
    /// The first multiple of `grid` that is not before this; itself when `grid` is zero.
    #[must_use]
    pub const fn round_up(self, grid: Span) -> Time {
        if grid.0 <= 0 || self.0 == i64::MAX { self } else { Time(self.0 + (grid.0 - self.0 % grid.0) % grid.0) }
    }
    /// The last multiple of `grid` that is not after this; itself when `grid` is zero.
    #[must_use]
    pub const fn round_down(self, grid: Span) -> Time {
        if grid.0 <= 0 { self } else { Time(self.0 - self.0 % grid.0) }
    }
    /// Nanoseconds since the start.
    #[must_use]
    pub const fn ns(self) -> i64 {
        self.0
    }
    /// `self + span`, staying at [`Time::MAX`] instead of overflowing.
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span.
    pub const MAX: Span = Span(i64::MAX);

    /// A span of `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: i64) -> Span {
        Span(ns)
    }
    /// A span of `us` microseconds.
    #[must_use]
    pub const fn from_us(us: i64) -> Span {
        Span(us * 1_000)
    }
    /// A span of `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Span {
        Span(ms * 1_000_000)
    }
    /// A span of `s` seconds.
    #[must_use]
    pub const fn from_secs(s: i64) -> Span {
        Span(s * 1_000_000_000)
    }
    /// Length in nanoseconds.
    #[must_use]
    pub const fn ns(self) -> i64 {
        self.0
    }
    /// The longer of zero and this span.
    #[must_use]
    pub const fn or_zero(self) -> Span {
        if self.0 < 0 { Span(0) } else { self }
    }
    /// Exact product with a fraction, rounded towards zero; for default budgets (0.6 of a window).
    #[must_use]
    pub const fn scaled(self, numerator: i64, denominator: i64) -> Span {
        Span((self.0 as i128 * numerator as i128 / denominator as i128) as i64)
    }
    /// The least common multiple, as in a hyperperiod; `None` where it is longer than [`Span::MAX`].
    ///
    /// # Panics
    /// When both are zero.
    #[must_use]
    pub const fn lcm(self, other: Span) -> Option<Span> {
        let (mut a, mut b) = (self.0, other.0);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        match (self.0 / a).checked_mul(other.0) {
            Some(ns) => Some(Span(ns)),
            None => None,
        }
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, rhs: Span) -> Time {
        Time(self.0 + rhs.0)
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, rhs: Span) {
        self.0 += rhs.0;
    }
}
impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, rhs: Span) -> Time {
        Time(self.0 - rhs.0)
    }
}
impl Sub for Time {
    type Output = Span;
    fn sub(self, rhs: Time) -> Span {
        Span(self.0 - rhs.0)
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, rhs: Span) -> Span {
        Span(self.0 + rhs.0)
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, rhs: Span) {
        self.0 += rhs.0;
    }
}
impl Sub for Span {
    type Output = Span;
    fn sub(self, rhs: Span) -> Span {
        Span(self.0 - rhs.0)
    }
}
impl SubAssign for Span {
    fn sub_assign(&mut self, rhs: Span) {
        self.0 -= rhs.0;
    }
}
impl Neg for Span {
    type Output = Span;
    fn neg(self) -> Span {
        Span(-self.0)
    }
}
impl Mul<i64> for Span {
    type Output = Span;
    fn mul(self, rhs: i64) -> Span {
        Span(self.0 * rhs)
    }
}
impl Div<i64> for Span {
    type Output = Span;
    fn div(self, rhs: i64) -> Span {
        Span(self.0 / rhs)
    }
}
impl Rem for Span {
    type Output = Span;
    fn rem(self, rhs: Span) -> Span {
        Span(self.0 % rhs.0)
    }
}

/// Prints with the largest unit that keeps the value exact to three decimals: `1.5ms`, `250us`, `2s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let (unit, name) = match ns {
            0 => return f.pad("0s"),
            n if n >= 1_000_000_000 && n % 1_000_000 == 0 => (1_000_000_000, "s"),
            n if n >= 1_000_000 && n % 1_000 == 0 => (1_000_000, "ms"),
            n if n >= 1_000 => (1_000, "us"),
            _ => (1, "ns"),
        };
        let (whole, mut rest) = (ns / unit, ns % unit);
        if rest == 0 {
            return write!(f, "{sign}{whole}{name}");
        }
        let mut digits = 0;
        let mut scale = unit;
        while scale > 1 {
            scale /= 10;
            digits += 1;
        }
        while rest % 10 == 0 {
            rest /= 10;
            digits -= 1;
        }
        write!(f, "{sign}{whole}.{rest:0digits$}{name}")
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Span(self.0), f)
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `a * b / c`, rounded down. One function has the division of 128 bits, which on a processor of 32 bits is long code.
#[inline(never)]
pub(crate) fn multiply_divide(a: u64, b: u64, c: u64) -> u128 {
    u128::from(a) * u128::from(b) / u128::from(c)
}

/// `a / b`, rounded down, for `b` above zero: [`i128::div_euclid`], but without a division of 128 bits where `b` is a power of two, or below
/// 2^63 and the quotient fits 64 bits. On a processor of 32 bits that is a fraction of the instructions (schoolbook division; Knuth, The Art
/// of Computer Programming, volume 2, section 4.3.1).
pub(crate) fn divide(a: i128, b: i128) -> i128 {
    // Most operands are short, and shorter operations are a fraction of the instructions.
    if let (Ok(a), Ok(b)) = (i64::try_from(a), u64::try_from(b)) {
        if b.is_power_of_two() {
            return i128::from(a >> b.trailing_zeros());
        }
        if let Ok(b) = u32::try_from(b) {
            let sign = a >> 63;
            return i128::from(divide_by_word((a ^ sign) as u64, b) as i64 ^ sign);
        }
    }
    if b & (b - 1) == 0 {
        return a >> b.trailing_zeros();
    }
    // Rounded down, the quotient of -n is the complement of that of n - 1.
    let sign = a >> 127;
    let magnitude = (a ^ sign) as u128;
    let bits = 128 - magnitude.leading_zeros();
    let Some(divisor) = u64::try_from(b).ok().filter(|b| *b < 1 << 63) else { return a.div_euclid(b) };
    // So many bits are certainly less than the divisor; the others are the digits of the quotient.
    let known = 63 - divisor.leading_zeros();
    let digits = bits.saturating_sub(known);
    match u32::try_from(divisor) {
        Ok(divisor) if digits > 16 => by_words(magnitude, divisor) as i128 ^ sign,
        _ if digits > 16 && digits <= 64 && divisor < 1 << 48 => {
            i128::from(by_halves(magnitude, divisor, digits)) ^ sign
        }
        _ if digits <= 64 => i128::from(by_bits(magnitude, divisor, digits)) ^ sign,
        _ => a.div_euclid(b),
    }
}

/// A division of two words by one, rounded down.
pub(crate) fn divide_by_word(a: u64, b: u32) -> u64 {
    let (upper, rest) = divide_words(0, (a >> 32) as u32, b);
    let (lower, _) = divide_words(rest, a as u32, b);
    u64::from(upper) << 32 | u64::from(lower)
}

/// A division whose digits are words.
fn by_words(a: u128, b: u32) -> u128 {
    // Shifts by constants are moves.
    let words = [(a >> 96) as u32, (a >> 64) as u32, (a >> 32) as u32, a as u32];
    let (mut quotient, mut rest) = ([0u32; 4], 0u32);
    for (word, digit) in words.into_iter().zip(&mut quotient) {
        (*digit, rest) = divide_words(rest, word, b);
    }
    quotient.into_iter().fold(0, |all, digit| all << 32 | u128::from(digit))
}

/// Quotient and remainder of `rest` with `word` behind it, for `rest` below `b`: one instruction divides words, and two digits of 16 bits take two
/// of them (Knuth, section 4.3.1, theorem B).
#[inline]
fn divide_words(rest: u32, word: u32, b: u32) -> (u32, u32) {
    if rest == 0 {
        return (word / b, word % b);
    }
    // The divisor has its highest bit at 31.
    let shift = b.leading_zeros();
    let (b, a) = (b << shift, (u64::from(rest) << 32 | u64::from(word)) << shift);
    let (upper, mut rest, mut quotient) = (b >> 16, (a >> 32) as u32, 0);
    for half in [(a >> 16) as u32 & 0xffff, a as u32 & 0xffff] {
        let mut digit = (rest / upper).min(0xffff);
        let mut left = (u64::from(rest) << 16 | u64::from(half)).wrapping_sub(u64::from(digit) * u64::from(b)) as i64;
        while left < 0 {
            digit -= 1;
            left += i64::from(b);
        }
        rest = left as u32;
        quotient = quotient << 16 | digit;
    }
    (quotient, rest >> shift)
}

/// A division whose digits are of 16 bits, at most 64 bits in all, for a divisor below 2^48: `a` without its last `bits` is less than the
/// divisor. Each digit is estimated by the upper halves and is at most two too large (Knuth, section 4.3.1, theorem B).
fn by_halves(a: u128, b: u64, bits: u32) -> u64 {
    // The divisor has its highest bit at 47.
    let shift = b.leading_zeros() - 16;
    let (a, b) = (a << shift, b << shift);
    let (upper, lower) = ((b >> 32) as u32, b as u32);
    let digits = bits.div_ceil(16);
    let mut rest = (a >> (16 * digits)) as u64;
    // The halves that follow, the next one first.
    let mut low = (a as u64) << (64 - 16 * digits);
    let mut quotient = 0;
    for _ in 0..digits {
        let part = rest << 16 | low >> 48;
        low <<= 16;
        let mut digit = ((part >> 32) as u32 / upper).min(0xffff);
        let product = (u64::from(digit * upper) << 32) + u64::from(digit) * u64::from(lower);
        let mut left = part.wrapping_sub(product) as i64;
        while left < 0 {
            digit -= 1;
            left += b as i64;
        }
        rest = left as u64;
        quotient = quotient << 16 | u64::from(digit);
    }
    quotient
}

/// A division whose digits are bits, at most 64, for a divisor below 2^63: `a` without its last digits is less than the divisor.
fn by_bits(a: u128, b: u64, digits: u32) -> u64 {
    let mut rest = (a >> digits) as u64;
    // The bits that follow, the next one first.
    let mut low = if digits == 0 { 0 } else { (a as u64) << (64 - digits) };
    let mut quotient = 0;
    for _ in 0..digits {
        rest = rest << 1 | low >> 63;
        low <<= 1;
        quotient <<= 1;
        if rest >= b {
            rest -= b;
            quotient |= 1;
        }
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_division_by_digits_is_a_division() {
        let draw = |n: u64| crate::rng::draw(7, n, 0);
        for n in 0..200_000 {
            let wide = (u128::from(draw(4 * n)) << 64 | u128::from(draw(4 * n + 1))) as i128;
            let a = wide >> (draw(4 * n + 2) % 128);
            let b = i128::from(draw(4 * n + 3) >> (n % 64)).max(1);
            for b in [b, 1 << (n % 126), 1_000_000, (1 << 48) - 1, (1 << 32) + 1] {
                // Quotients of all lengths, with all digits as large as they can be.
                let full = (b << (n % 64)).saturating_sub(1);
                for a in [a, a - a % b, i128::MIN, i128::MAX, 0, -1, full, full.wrapping_neg()] {
                    assert_eq!(divide(a, b), a.div_euclid(b), "{a} / {b}");
                }
            }
        }
    }

    #[test]
    fn a_division_of_two_words_is_a_division() {
        let draw = |n: u64| crate::rng::draw(11, n, 0);
        for n in 0..200_000 {
            let b = ((draw(3 * n) as u32) >> (n % 32)).max(1);
            for b in [b, u32::MAX, 1 << 31, (1 << 31) + 1, 0xffff, 0x1_0000, 0x1_ffff] {
                let rest = (draw(3 * n + 1) % u64::from(b)) as u32;
                for (rest, word) in [(rest, draw(3 * n + 2) as u32), (b - 1, u32::MAX), (b - 1, 0), (0, u32::MAX)] {
                    let a = u64::from(rest) << 32 | u64::from(word);
                    let (quotient, remainder) = divide_words(rest, word, b);
                    let found = (u64::from(quotient), u64::from(remainder));
                    assert_eq!(found, (a / u64::from(b), a % u64::from(b)), "{a} / {b}");
                }
            }
        }
    }

    #[test]
    fn multiples_that_are_too_long_are_none() {
        let lcm = |a, b| Span::from_ns(a).lcm(Span::from_ns(b)).map(Span::ns);
        assert_eq!((lcm(4, 6), lcm(1, 7), lcm(9, 3)), (Some(12), Some(7), Some(9)));
        assert_eq!((lcm(i64::MAX, i64::MAX), lcm(i64::MAX, 2)), (Some(i64::MAX), None));
    }

    #[test]
    fn a_span_prints_with_its_unit() {
        for (ns, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5us"),
            (250_000, "250us"),
            (1_000_000, "1ms"),
            (12_345_000, "12.345ms"),
            (1_000_001, "1000.001us"),
            (2_000_000_000, "2s"),
            (2_050_000_000, "2.05s"),
            (-1_500_000, "-1.5ms"),
        ] {
            assert_eq!(Span::from_ns(ns).to_string(), text);
        }
    }
}
