//! Sums and products of fractions, compared without rounding.
//!
//! A [`Sum`] keeps its whole part, bounds of its fractional part that are 2^-128 apart per addend, and the addends themselves.
//! Comparisons are decided by the bounds; the few that these leave open are decided with numbers of any length.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A sum of fractions that are not negative.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    whole: u128,
    /// The sum of the proper fractions, each rounded down to a multiple of 2^-128: whole part and the rest.
    low: (u128, u128),
    /// Fractions that were added, which are as many as `low` may be units too small.
    added: u128,
    /// Denominators and numerators of the proper fractions; those that were added one after the other with the same denominator
    /// are one.
    parts: Vec<(u64, u128)>,
}

impl Sum {
    /// Adds `numerator / denominator`.
    ///
    /// # Panics
    /// When the denominator is zero, or whole parts add up to more than 128 bits.
    pub fn add(&mut self, numerator: u128, denominator: u64) {
        let (whole, rest) = divide(numerator, denominator);
        self.whole += whole;
        if rest > 0 {
            let (high, rest_again) = divide(u128::from(rest) << 64, denominator);
            let (low, _) = divide(u128::from(rest_again) << 64, denominator);
            let (sum, carry) = self.low.1.overflowing_add(high << 64 | low);
            self.low = (self.low.0 + u128::from(carry), sum);
            self.added += 1;
            match self.parts.last_mut() {
                Some((d, numerator)) if *d == denominator => *numerator += u128::from(rest),
                _ => self.parts.push((denominator, u128::from(rest))),
            }
        }
    }

    /// Lower and upper bound: whole parts and fractions in multiples of 2^-128.
    fn bounds(&self) -> [(u128, u128); 2] {
        let whole = self.whole + self.low.0;
        let (high, carry) = self.low.1.overflowing_add(self.added);
        [(whole, self.low.1), (whole + u128::from(carry), high)]
    }

    /// A bound that the sum does not exceed, in whole numbers: its value rounded up, or one more.
    #[must_use]
    pub fn ceiling(&self) -> u128 {
        let [_, (whole, fraction)] = self.bounds();
        whole + u128::from(fraction != 0)
    }

    /// The parts by denominator, one for each.
    fn gathered(&self) -> Vec<(u64, u128)> {
        let mut parts = self.parts.clone();
        parts.sort_unstable();
        parts.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        parts
    }

    /// How the sum compares with a whole number. O(1), and O(n²) in the rare case that the bounds do not tell.
    #[must_use]
    pub fn compare_whole(&self, other: u128) -> Ordering {
        let [low, high] = self.bounds();
        if low > (other, 0) {
            Ordering::Greater
        } else if high < (other, 0) {
            Ordering::Less
        } else {
            let (numerator, denominator) = fraction(self.whole, &self.gathered());
            numerator.cmp(&denominator.times_wide(other))
        }
    }

    /// How two sums compare. O(1), and O(n²) in the rare case that the bounds do not tell.
    #[must_use]
    pub fn compare(&self, other: &Sum) -> Ordering {
        let ([low, high], [other_low, other_high]) = (self.bounds(), other.bounds());
        if low > other_high {
            Ordering::Greater
        } else if high < other_low {
            Ordering::Less
        } else {
            // Equal sums are mostly sums of the same: what is on both sides is left out.
            let (ours, theirs) = (self.gathered(), other.gathered());
            let without = |parts: &[(u64, u128)], others: &[(u64, u128)]| -> Vec<(u64, u128)> {
                parts.iter().copied().filter(|p| others.binary_search(p).is_err()).collect()
            };
            let ((a, b), (c, d)) =
                (fraction(self.whole, &without(&ours, &theirs)), fraction(other.whole, &without(&theirs, &ours)));
            a.times(&d).cmp(&c.times(&b))
        }
    }
}

/// Numerator and denominator of a sum. O(n²).
fn fraction(whole: u128, parts: &[(u64, u128)]) -> (Big, Big) {
    let (mut numerator, mut denominator) = (Big::one().times_wide(whole), Big::one());
    for &(d, n) in parts {
        numerator = numerator.times_word(d).plus(&denominator.times_wide(n));
        denominator = denominator.times_word(d);
    }
    (numerator, denominator)
}

/// Quotient and remainder, without the long division of wide numbers where there is no need for it.
///
/// # Panics
/// When the denominator is zero.
#[must_use]
pub fn divide(numerator: u128, denominator: u64) -> (u128, u64) {
    match u64::try_from(numerator) {
        Ok(small) => (u128::from(small / denominator), small % denominator),
        Err(_) => (numerator / u128::from(denominator), (numerator % u128::from(denominator)) as u64),
    }
}

/// `a * b / c`, rounded up.
///
/// # Panics
/// When `c` is zero.
#[must_use]
pub fn scaled_up(a: u64, b: u64, c: u64) -> u128 {
    match a.checked_mul(b) {
        Some(product) => u128::from(product.div_ceil(c)),
        None => (u128::from(a) * u128::from(b)).div_ceil(u128::from(c)),
    }
}

/// A whole number of any length that is not negative; the lowest word first, no zero words at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Big(Vec<u64>);

impl Big {
    /// 1.
    #[must_use]
    pub fn one() -> Big {
        Big(vec![1])
    }

    fn trimmed(mut words: Vec<u64>) -> Big {
        while words.last() == Some(&0) {
            words.pop();
        }
        Big(words)
    }

    /// The product with a word. O(words).
    #[must_use]
    pub fn times_word(&self, by: u64) -> Big {
        let mut carry = 0u128;
        let mut words: Vec<u64> = Vec::with_capacity(self.0.len() + 1);
        for &word in &self.0 {
            carry += u128::from(word) * u128::from(by);
            words.push(carry as u64);
            carry >>= 64;
        }
        words.push(carry as u64);
        Big::trimmed(words)
    }

    fn times_wide(&self, by: u128) -> Big {
        self.times(&Big::trimmed(vec![by as u64, (by >> 64) as u64]))
    }

    fn times(&self, other: &Big) -> Big {
        let mut words = vec![0u64; self.0.len() + other.0.len()];
        for (i, &a) in self.0.iter().enumerate() {
            let mut carry = 0u128;
            for (j, &b) in other.0.iter().enumerate() {
                carry += u128::from(a) * u128::from(b) + u128::from(words[i + j]);
                words[i + j] = carry as u64;
                carry >>= 64;
            }
            words[i + other.0.len()] = carry as u64;
        }
        Big::trimmed(words)
    }

    fn plus(&self, other: &Big) -> Big {
        let mut words = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        let mut carry = 0u128;
        for i in 0..self.0.len().max(other.0.len()) {
            let word = |b: &Big| u128::from(b.0.get(i).copied().unwrap_or(0));
            carry += word(self) + word(other);
            words.push(carry as u64);
            carry >>= 64;
        }
        words.push(carry as u64);
        Big::trimmed(words)
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Big) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Big) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(fractions: &[(u128, u64)]) -> Sum {
        let mut sum = Sum::default();
        fractions.iter().for_each(|&(n, d)| sum.add(n, d));
        sum
    }

    #[test]
    fn inconclusive_bounds_are_decided_exactly() {
        let thirds = sum(&[(1, 3), (1, 3), (1, 3)]);
        assert_eq!(thirds.compare_whole(1), Ordering::Equal);
        assert_eq!(thirds.compare(&sum(&[(1, 7), (6, 7)])), Ordering::Equal);
        let primes = [999_999_999_989, 999_999_999_961, 999_999_999_959, 999_999_999_937];
        let fifths: Vec<(u128, u64)> = primes.iter().map(|&p| (u128::from(p / 4), p)).collect();
        assert_eq!(sum(&fifths).compare_whole(1), Ordering::Less);
        let above: Vec<(u128, u64)> = primes.iter().map(|&p| (u128::from(p / 4 + 1), p)).collect();
        assert_eq!(sum(&above).compare_whole(1), Ordering::Greater);
        // They differ by far less than the bounds are apart.
        let (a, b) = (u64::MAX / 2, u64::MAX / 2 - 1);
        let near = sum(&[(u128::from(b - 1), b)]);
        assert_eq!(sum(&[(u128::from(a - 1), a)]).compare(&near), Ordering::Greater);
        assert_eq!(near.compare(&sum(&[(u128::from(a - 1), a)])), Ordering::Less);
    }

    #[test]
    fn equal_sums_are_equal_however_they_came_to_be() {
        let (mut a, mut b) = (Sum::default(), Sum::default());
        for i in 0..2000 {
            a.add(5, 1_000_003 + 2 * i);
            b.add(5, 1_000_003 + 2 * (1999 - i));
            assert_eq!(a.compare(&b) == Ordering::Equal, i == 1999);
        }
        let halves = [(1, 2), (1, 2), (1, 2), (1, 3), (1, 3), (1, 3)];
        assert_eq!(sum(&halves).compare(&sum(&[(5, 2)])), Ordering::Equal);
        assert_eq!(sum(&halves).compare_whole(2), Ordering::Greater);
    }

    #[test]
    fn whole_parts_count() {
        let s = sum(&[(u128::from(u64::MAX) * 5, 7), (3, 2), (8, 4)]);
        let wanted = u128::from(u64::MAX) * 5 / 7 + 3;
        assert!(s.ceiling() == wanted + 1 || s.ceiling() == wanted + 2);
        assert_eq!((s.compare_whole(wanted), s.compare_whole(wanted + 2)), (Ordering::Greater, Ordering::Less));
        assert_eq!(sum(&[]).compare_whole(0), Ordering::Equal);
        assert_eq!(sum(&[(4, 2)]).ceiling(), 2);
    }

    #[test]
    fn long_numbers_multiply_and_add() {
        let a = Big::one().times_wide(u128::MAX);
        let square = a.times(&a);
        // (2^128 - 1)² + 2 (2^128 - 1) + 1 = 2^256
        let whole = square.plus(&a.times_word(2)).plus(&Big::one());
        assert_eq!(whole, Big(vec![0, 0, 0, 0, 1]));
        assert!(square < whole && a < square && Big(vec![]) < Big::one());
    }
}
