//! Means and how sure they are. Sums run in a fixed order, so the same numbers give the same bits.

use takt_latency::student;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_known_for_two_numbers() {
        assert_eq!(mean([].into_iter()), None);
        assert_eq!(mean([3.0].into_iter()), Some(Mean { value: 3.0, half: None }));
        let two = mean([1.0, 3.0].into_iter()).unwrap();
        // The standard error is 1.
        assert_eq!((two.value, two.half), (2.0, Some(12.706)));
    }

    /// Means of runs are ratios or counts, here uniform numbers and squares of them.
    #[test]
    fn intervals_of_means_have_the_true_one_in_95_of_100_experiments() {
        let number = |stream, index| takt_core::rng::draw_up_to(1_000_000, 9, stream, index) as f64 / 1e6;
        for (runs, power, truth) in [(10, 1, 1.0 / 2.0), (40, 1, 1.0 / 2.0), (40, 2, 1.0 / 3.0), (100, 2, 1.0 / 3.0)] {
            let covers = (0..4000).filter(|experiment| {
                let found = mean((0..runs).map(|run| number(experiment * 1000 + runs, run).powi(power))).unwrap();
                (found.value - truth).abs() <= found.half.unwrap()
            });
            let covers = covers.count();
            assert!((3720..=3880).contains(&covers), "{runs} runs: {covers} of 4000");
        }
    }
}
