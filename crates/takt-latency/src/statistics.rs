//! Estimates and their intervals.

/// A figure, its squared standard error, and the degrees of freedom of that error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Estimate {
    pub(crate) value: i64,
    error: Option<(f64, f64)>,
}

impl Estimate {
    /// A figure of all samples, whose error is the spread of the same figure of each round around it (sectioning: Asmussen, Glynn, "Stochastic Simulation",
    /// 2007, III.5; for quantiles Nakayama, ACM TOMACS 24(4), 2014). Without rounds it has no error.
    pub(crate) fn of(value: i64, of_rounds: &[i64]) -> Estimate {
        let count = of_rounds.len() as f64;
        let squares: f64 = of_rounds.iter().map(|of_round| ((of_round - value) as f64).powi(2)).sum();
        Estimate { value, error: (count > 1.0).then(|| (squares / (count - 1.0) / count, count - 1.0)) }
    }

    /// Another, independent figure minus this one (Welch, "The generalization of 'Student's' problem", Biometrika 34, 1947).
    pub(crate) fn until(&self, other: &Estimate) -> Estimate {
        let error = self.error.zip(other.error).map(|((a, of_a), (b, of_b))| {
            let sum = a + b;
            let freedom = if sum > 0.0 { sum * sum / (a * a / of_a + b * b / of_b) } else { of_a + of_b };
            (sum, freedom)
        });
        Estimate { value: other.value - self.value, error }
    }

    /// Half of the 95 % interval.
    pub(crate) fn half(&self) -> Option<f64> {
        self.error.map(|(square, freedom)| {
            let whole = (freedom as u64).max(1);
            let [low, high] = [whole, whole + 1].map(student);
            (low + (high - low) * (freedom - whole as f64).max(0.0)) * square.sqrt()
        })
    }
}

/// The 97.5th percentile of Student's t distribution, for at least one degree of freedom.
///
/// Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964: table 26.10 for few degrees of freedom, for more the expansion
/// 26.7.5, which is right to 0.001 there.
#[must_use]
pub fn student(freedom: u64) -> f64 {
    const NORMAL: f64 = 1.959_964;
    const FEW: [f64; 4] = [12.706, 4.303, 3.182, 2.776];
    if let Some(few) = usize::try_from(freedom - 1).ok().and_then(|row| FEW.get(row)) {
        return *few;
    }
    let (z, n) = (NORMAL, freedom as f64);
    let square = z * z;
    // Each is a polynomial in z, odd, by Horner's rule in its square.
    let odd = |factors: &[f64]| z * factors.iter().fold(0.0, |sum, factor| sum * square + factor);
    let terms = [
        odd(&[1.0, 1.0]) / 4.0,
        odd(&[5.0, 16.0, 3.0]) / 96.0,
        odd(&[3.0, 19.0, 17.0, -15.0]) / 384.0,
        odd(&[79.0, 776.0, 1482.0, -1920.0, -945.0]) / 92_160.0,
    ];
    z + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_table() {
        for (freedom, known) in [(1, 12.706), (4, 2.776), (5, 2.571), (9, 2.262), (30, 2.042), (120, 1.980)] {
            assert!((student(freedom) - known).abs() < 1e-3, "{freedom}: {}", student(freedom));
        }
        assert!((student(1_000_000) - 1.959_966).abs() < 1e-5);
    }

    /// Equal spreads and counts: Welch's degrees of freedom are those of both together.
    #[test]
    fn a_difference_of_independent_figures_is_less_sure() {
        let (a, b) = (Estimate::of(2, &[1, 2, 3]), Estimate::of(12, &[11, 12, 13]));
        let both = a.until(&b);
        assert_eq!(both.value, 10);
        assert!((both.half().unwrap() - 2.776 * (2.0f64 / 3.0).sqrt()).abs() < 1e-9, "{both:?}");
        assert_eq!(Estimate::of(7, &[]).half(), None);
        assert_eq!(Estimate::of(7, &[7, 7]).half(), Some(0.0));
    }
}
