//! By what factor runtimes may grow.

use crate::utilisation::gcd;

/// By what factor every runtime may grow until a deadline is missed, as fractions in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    /// So much is safe.
    pub at_least: (u128, u128),
    /// More is not: the same, where the factor is known exactly.
    pub at_most: (u128, u128),
}

impl Growth {
    /// A factor that is known exactly.
    #[must_use]
    pub fn exact(factor: (u128, u128)) -> Growth {
        Growth::between(factor, factor)
    }

    /// A factor between two bounds.
    #[must_use]
    pub fn between(at_least: (u128, u128), at_most: (u128, u128)) -> Growth {
        Growth { at_least, at_most }
    }

    pub(super) fn reduced(at_least: Factor, at_most: Factor) -> Growth {
        let lowest = |(p, q): Factor| {
            let (p, q) = (u128::from(p), u128::from(q));
            let common = gcd(p, q);
            (p / common, q / common)
        };
        Growth::between(lowest(at_least), lowest(at_most))
    }

    /// The factor, if it is known exactly.
    #[must_use]
    pub fn factor(&self) -> Option<(u128, u128)> {
        (self.at_least == self.at_most).then_some(self.at_least)
    }
}

/// Numerator and denominator of a factor that is searched for.
pub(super) type Factor = (u64, u64);

pub(super) fn less(a: Factor, b: Factor) -> bool {
    u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1)
}
