//! Exact sums of values, their means, and how sure these are. Sums are integers, so no order of values changes them.

use takt_latency::student;

/// A mean with half the width of its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mean {
    pub(super) value: f64,
    /// Half of the 95 % interval by Student's t; `None` of fewer than two numbers.
    pub(super) half: Option<f64>,
}

/// Parts of a ratio that is 1.
pub(super) const WHOLE: i128 = 1_000_000_000_000;

/// A ratio of counts in parts of [`WHOLE`], to the nearest. `whole` is above zero. Counts beyond 2^86 lose their last digits.
pub(super) fn ratio(part: u128, whole: u128) -> i128 {
    let beyond = u128::BITS - part.max(whole).leading_zeros();
    let digits = beyond.saturating_sub(86);
    let (part, whole) = (part >> digits, (whole >> digits).max(1));
    ((part * WHOLE as u128 + whole / 2) / whole) as i128
}

/// How many values there were, their sum and that of their squares.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sums {
    pub(super) count: u64,
    sum: i128,
    squares: i128,
}

impl Sums {
    /// Adds a value. `None` if a sum is out of range.
    pub(super) fn insert(&mut self, value: i128) -> Option<()> {
        self.add(&Sums { count: 1, sum: value, squares: value.checked_mul(value)? })
    }

    /// Adds the values of another one. `None` if a sum is out of range.
    pub(super) fn add(&mut self, other: &Sums) -> Option<()> {
        self.count = self.count.checked_add(other.count)?;
        self.sum = self.sum.checked_add(other.sum)?;
        self.squares = self.squares.checked_add(other.squares)?;
        Some(())
    }

    /// The mean of values in such units; none of no value.
    pub(super) fn mean(&self, unit: i128) -> Option<Mean> {
        let count = i128::from(self.count);
        if count == 0 {
            return None;
        }
        // With a whole number near the mean taken from each value, the squares are small, and no digit is lost.
        let (whole, rest) = (self.sum.div_euclid(count), self.sum.rem_euclid(count));
        let near = whole.checked_mul(self.sum + rest).and_then(|twice| self.squares.checked_sub(twice));
        let scale = unit as f64;
        let value = (whole as f64 + rest as f64 / count as f64) / scale;
        let half = (count > 1).then(|| {
            let count = count as f64;
            let squares = near.map_or_else(
                || (self.squares as f64 - self.sum as f64 / count * self.sum as f64).max(0.0),
                |near| near as f64 - rest as f64 * (rest as f64 / count),
            );
            student(self.count - 1) * (squares.max(0.0) / (count - 1.0) / count).sqrt() / scale
        });
        Some(Mean { value, half })
    }

    /// As text, since its numbers may be longer than those of JSON.
    pub(super) fn text(&self) -> String {
        format!("{} {} {}", self.count, self.sum, self.squares)
    }

    /// From the text. `None` of another one, and of sums that no values have.
    pub(super) fn read(text: &str) -> Option<Sums> {
        let mut words = text.split(' ');
        let mut next = || words.next();
        let (count, sum, squares) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
        let is_sound = next().is_none() && squares >= 0 && (count > 0 || (sum, squares) == (0, 0));
        is_sound.then_some(Sums { count, sum, squares })
    }
}

/// The mean of values in such units; none of no value, or if a sum is out of range. O(n).
pub(super) fn mean(values: impl Iterator<Item = i128>, unit: i128) -> Option<Mean> {
    let mut sums = Sums::default();
    for value in values {
        sums.insert(value)?;
    }
    sums.mean(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_known_for_two_numbers() {
        assert_eq!(mean([].into_iter(), 1), None);
        assert_eq!(mean([3].into_iter(), 1), Some(Mean { value: 3.0, half: None }));
        // The standard error is 1.
        assert_eq!(mean([1, 3].into_iter(), 1), Some(Mean { value: 2.0, half: Some(12.706) }));
        assert_eq!(mean([-4, 4].into_iter(), 4), Some(Mean { value: 0.0, half: Some(12.706) }));
    }

    /// A small spread around a large mean is exact: all values but one are 10^12, and the other is 1 less.
    #[test]
    fn squares_lose_no_digits() {
        let values = std::iter::repeat_n(WHOLE, 999_999).chain([WHOLE - 1]);
        let half = mean(values, 1).unwrap().half.unwrap();
        let variance = (1.0 - 1e-6) / 999_999.0;
        assert!((half - 1.96 * (variance / 1e6_f64).sqrt()).abs() < 1e-9, "{half}");
        assert_eq!(mean(std::iter::repeat_n(WHOLE / 3, 1000), WHOLE).unwrap().half, Some(0.0));
    }

    #[test]
    fn ratios_are_to_the_nearest() {
        assert_eq!((ratio(1, 3), ratio(2, 3), ratio(7, 7)), (333_333_333_333, 666_666_666_667, WHOLE));
        assert_eq!((ratio(u128::MAX / 2, u128::MAX), ratio(0, u128::MAX)), (WHOLE / 2, 0));
        assert_eq!((ratio(u128::MAX, u128::MAX), ratio((1 << 86) - 1, 1 << 86)), (WHOLE, WHOLE));
    }

    #[test]
    fn sums_are_read_as_they_are_written() {
        let mut sums = Sums::default();
        [i128::from(i64::MAX), -7].into_iter().for_each(|value| sums.insert(value).unwrap());
        assert_eq!(Sums::read(&sums.text()), Some(sums));
        for wrong in ["", "1 2", "1 2 3 4", "0 1 1", "1 1 -1", "-1 1 1", "a 1 1"] {
            assert_eq!(Sums::read(wrong), None, "{wrong}");
        }
        assert_eq!(sums.insert(i128::MAX), None);
    }

    /// Means of runs are ratios or counts, here uniform numbers and squares of them.
    #[test]
    fn intervals_of_means_have_the_true_one_in_95_of_100_experiments() {
        let number = |stream, index| i128::from(takt_core::rng::draw_up_to(1_000_000, 9, stream, index));
        for (runs, power, truth) in [(10, 1, 1.0 / 2.0), (40, 1, 1.0 / 2.0), (40, 2, 1.0 / 3.0), (100, 2, 1.0 / 3.0)] {
            let covers = (0..4000).filter(|experiment| {
                let values = (0..runs).map(|run| number(experiment * 1000 + runs, run).pow(power));
                let found = mean(values, 1_000_000_i128.pow(power)).unwrap();
                (found.value - truth).abs() <= found.half.unwrap()
            });
            let covers = covers.count();
            assert!((3720..=3880).contains(&covers), "{runs} runs: {covers} of 4000");
        }
    }
}
