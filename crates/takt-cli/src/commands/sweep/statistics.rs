//! Means and how sure they are. Sums run in a fixed order, so the same numbers give the same bits.

/// A mean with half the width of its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mean {
    pub(super) value: f64,
    /// Half of the 95 % interval by Student's t; `None` of fewer than two numbers.
    pub(super) half: Option<f64>,
}

/// The mean of numbers; none of none. O(n).
pub(super) fn mean(numbers: impl Iterator<Item = f64> + Clone) -> Option<Mean> {
    let (count, sum) = numbers.clone().fold((0_u64, 0.0), |(count, sum), x| (count + 1, sum + x));
    if count == 0 {
        return None;
    }
    let value = sum / count as f64;
    let half = (count > 1).then(|| {
        let squares: f64 = numbers.map(|x| (x - value) * (x - value)).sum();
        let freedom = (count - 1) as f64;
        student(count - 1) * (squares / freedom / count as f64).sqrt()
    });
    Some(Mean { value, half })
}

/// The 97.5th percentile of Student's t distribution.
///
/// Abramowitz, Stegun, "Handbook of Mathematical Functions", 1964: table 26.10 for few degrees of freedom, for more the expansion
/// 26.7.5, which is right to 0.001 there.
fn student(freedom: u64) -> f64 {
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

    #[test]
    fn an_interval_is_known_for_two_numbers() {
        assert_eq!(mean([].into_iter()), None);
        assert_eq!(mean([3.0].into_iter()), Some(Mean { value: 3.0, half: None }));
        let two = mean([1.0, 3.0].into_iter()).unwrap();
        // The standard error is 1.
        assert_eq!((two.value, two.half), (2.0, Some(12.706)));
    }
}
