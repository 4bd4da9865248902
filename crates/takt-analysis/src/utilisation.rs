//! Sums of fractions without rounding.

use std::fmt;

/// A sum of fractions: exact as long as its reduced form fits 128 bits, and in any case enclosed between two bounds that
/// are 2^-64 apart per addend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Utilisation {
    exact: Option<(u128, u128)>,
    /// Bounds in units of 2^-64.
    lower: u128,
    upper: u128,
}

impl Default for Utilisation {
    fn default() -> Self {
        Utilisation { exact: Some((0, 1)), lower: 0, upper: 0 }
    }
}

impl Utilisation {
    /// Adds `numerator / denominator`.
    ///
    /// # Panics
    /// When the denominator is zero.
    pub fn add(&mut self, numerator: u64, denominator: u64) {
        let (n, d) = (u128::from(numerator), u128::from(denominator));
        let scaled = n << 64;
        self.lower = self.lower.saturating_add(scaled / d);
        self.upper = self.upper.saturating_add(scaled.div_ceil(d));
        self.exact = self.exact.and_then(|(a, b)| {
            let common = gcd(b, d);
            let left = a.checked_mul(d / common)?;
            let right = n.checked_mul(b / common)?;
            let (sum, below) = (left.checked_add(right)?, (b / common).checked_mul(d)?);
            let shared = gcd(sum, below);
            Some((sum / shared, below / shared))
        });
    }

    /// The reduced fraction, or `None` when it does not fit 128 bits.
    #[must_use]
    pub fn fraction(&self) -> Option<(u128, u128)> {
        self.exact
    }

    /// Whether the sum is at most `whole`; `None` when it is too close to tell without the exact fraction.
    #[must_use]
    pub fn at_most(&self, whole: u64) -> Option<bool> {
        if let Some((n, d)) = self.exact {
            // A product that does not fit is above every numerator.
            return Some(d.checked_mul(u128::from(whole)).is_none_or(|bound| n <= bound));
        }
        let bound = u128::from(whole) << 64;
        if self.upper <= bound {
            Some(true)
        } else if self.lower > bound {
            Some(false)
        } else {
            None
        }
    }

    /// The least whole number that the sum is known not to exceed.
    #[must_use]
    pub fn ceiling(&self) -> u64 {
        let ceiling = match self.exact {
            Some((n, d)) => n.div_ceil(d),
            None => self.upper.div_ceil(1 << 64),
        };
        u64::try_from(ceiling).unwrap_or(u64::MAX)
    }

    /// `amount / (whole - self)`, rounded up; `None` where the sum is not known to be below `whole`, or the quotient does not fit.
    #[must_use]
    pub fn divide_by_rest(&self, amount: u128, whole: u64) -> Option<u64> {
        let exactly = |(n, d): (u128, u128)| {
            let rest = d.checked_mul(whole.into())?.checked_sub(n)?;
            Some((amount.checked_mul(d)?, rest))
        };
        let roughly = || Some((amount.checked_mul(1 << 64)?, (u128::from(whole) << 64).checked_sub(self.upper)?));
        let (above, below) = self.exact.and_then(exactly).or_else(roughly)?;
        (below > 0).then(|| u64::try_from(above.div_ceil(below)).ok()).flatten()
    }

    /// In thousandths, rounded to the nearest.
    #[must_use]
    pub fn per_mille(&self) -> u64 {
        (((self.lower >> 1).saturating_mul(1000) + (1 << 62)) >> 63) as u64
    }
}

/// Prints `0.971 (34/35)`, and without the fraction when it is unwieldy.
impl fmt::Display for Utilisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.per_mille();
        write!(f, "{}.{:03}", thousandths / 1000, thousandths % 1000)?;
        match self.exact {
            Some((n, d)) if d > 1 && d < 1_000_000 => write!(f, " ({n}/{d})"),
            _ => Ok(()),
        }
    }
}

/// The greatest common divisor, and one of zeros. O(log a).
pub(crate) fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_make_a_whole() {
        let mut sum = Utilisation::default();
        (0..3).for_each(|_| sum.add(1, 3));
        assert_eq!(sum.fraction(), Some((1, 1)));
        assert_eq!((sum.at_most(1), sum.at_most(0)), (Some(true), Some(false)));
        assert_eq!(sum.to_string(), "1.000");
        sum.add(1, u64::MAX);
        assert_eq!(sum.at_most(1), Some(false));
    }

    #[test]
    fn a_quotient_is_rounded_up() {
        let mut sum = Utilisation::default();
        assert_eq!((sum.ceiling(), sum.divide_by_rest(99, 4)), (0, Some(25)));
        sum.add(1, 2);
        assert_eq!((sum.ceiling(), sum.divide_by_rest(7, 4), sum.divide_by_rest(7, 0)), (1, Some(2), None));
        (0..7).for_each(|_| sum.add(1, 2));
        assert_eq!((sum.ceiling(), sum.divide_by_rest(7, 4)), (4, None));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_still_bounded() {
        let mut sum = Utilisation::default();
        for prime in [999_999_999_989, 999_999_999_961, 999_999_999_959, 999_999_999_937] {
            sum.add(prime / 5, prime);
        }
        assert_eq!(sum.fraction(), None);
        assert_eq!((sum.at_most(1), sum.at_most(0)), (Some(true), Some(false)));
        assert_eq!(sum.per_mille(), 800);
    }
}
