//! A histogram of spans in less than a kilobyte, for any number of values.
//!
//! The buckets of an HDR histogram or of DDSketch (Masson, Rim, Lee, "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with
//! Relative-Error Guarantees", PVLDB 12(12), 2019) take tens of kilobytes over all spans of 63 bits. The response times of one task
//! occupy few of them. So the memory covers only the buckets between the least and the greatest value, and a counter has 16
//! bits until it needs more.
//!
//! An octave has 24 buckets. Buckets of equal length within an octave would need 32 for 1.6 %; a parabola in place of the logarithm needs
//! 24 and one multiplication. A bucket is reported by its middle, the least and the greatest value exactly.
//!
//! Beyond 440 words the lowest buckets become one. 18 octaves stay apart, so only values more than 250,000 times smaller than the
//! greatest lose accuracy, and they are reported too high.

use crate::time::Span;
use alloc::vec::Vec;

/// Buckets of one octave (a power of two).
const STEPS: u16 = 24;
/// Buckets of all values: one for zero, and those of 64 octaves.
const BUCKETS: u16 = 1 + 64 * STEPS;
/// The most 16-bit words of a histogram for one task: with the struct itself less than 1 KiB.
const WORDS: usize = 440;
/// Words of a carry: the number of its bucket, and 32 bits of its count.
const CARRY: usize = 3;
/// The memory grows by so many buckets if it can.
const GROWTH: usize = 8;

/// A histogram of spans. Count, mean, least and greatest value are exact.
///
/// A quantile is exact where it is the least or the greatest value. Otherwise it is within 1.6 % of the true one, or a
/// nanosecond more. That holds above [`Histogram::floor`], which is zero until the values occupy more buckets than there is memory for.
/// Then the lowest buckets become one: 18 octaves stay apart, so the floor is below the greatest value by a factor of 250 000.
/// A bucket with more than 65535 values takes the memory of three others, so the factor is smaller where many buckets have as many.
///
/// An empty histogram has no memory of its own. Others have at most 886 bytes on the heap, and below 1 KiB with the struct.
///
/// Adding a value is O(1), and O(buckets) when the memory grows, at most once for each bucket. It never allocates after
/// [`Histogram::reserved`] and [`Histogram::wide`].
#[derive(Clone, Debug)]
pub struct Histogram {
    /// `len` counters, then the carries in any order.
    words: Vec<u16>,
    /// The bucket of the first counter.
    base: u16,
    /// The number of counters.
    len: u16,
    /// The most words, apart from one carry for a moment.
    limit: u16,
    /// The first counter includes all values below it.
    grouped: bool,
    count: u64,
    sum: i128,
    min: Span,
    max: Span,
    /// How many values equal `min`, and how many equal `max`.
    ends: [u64; 2],
}

impl Default for Histogram {
    fn default() -> Self {
        let (base, len, limit, grouped) = (0, 0, WORDS as u16, false);
        let (count, sum, min, max, ends) = (0, 0, Span::MAX, Span::ZERO, [0; 2]);
        Histogram { words: Vec::new(), base, len, limit, grouped, count, sum, min, max, ends }
    }
}

impl Histogram {
    /// A histogram that has all its memory from the start.
    #[must_use]
    pub fn reserved() -> Histogram {
        Histogram { words: Vec::with_capacity(WORDS + CARRY), ..Histogram::default() }
    }

    /// A histogram whose floor stays zero, with all its memory (12 KiB) from the start: for a figure of a whole run.
    #[must_use]
    pub fn wide() -> Histogram {
        let limit = usize::from(BUCKETS) * (1 + CARRY);
        Histogram { words: Vec::with_capacity(limit + CARRY), limit: limit as u16, ..Histogram::default() }
    }

    /// Counts a value; a negative one counts as zero.
    #[inline]
    pub fn add(&mut self, value: Span) {
        let value = value.or_zero();
        self.count += 1;
        self.sum += i128::from(value.ns());
        if value <= self.min {
            self.ends[0] = if value < self.min { 1 } else { self.ends[0] + 1 };
            self.min = value;
        }
        if value >= self.max {
            self.ends[1] = if value > self.max { 1 } else { self.ends[1] + 1 };
            self.max = value;
        }
        let bucket = bucket(value.ns() as u64);
        let slot = usize::from(bucket.wrapping_sub(self.base));
        match self.words.get_mut(slot) {
            Some(word) if slot < usize::from(self.len) && *word < u16::MAX => *word += 1,
            _ => self.add_slowly(bucket),
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap(&self) -> usize {
        self.words.capacity() * size_of::<u16>()
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value, exactly; zero when there is none.
    #[must_use]
    pub fn min(&self) -> Span {
        if self.count == 0 { Span::ZERO } else { self.min }
    }

    /// The largest value, exactly.
    #[must_use]
    pub fn max(&self) -> Span {
        self.max
    }

    /// The mean, rounded down to a nanosecond.
    #[must_use]
    pub fn mean(&self) -> Span {
        if self.count == 0 { Span::ZERO } else { Span::from_ns((self.sum / i128::from(self.count)) as i64) }
    }

    /// The value up to which all values are counted in one bucket, or zero: a quantile up to it is reported as the floor.
    #[must_use]
    pub fn floor(&self) -> Span {
        if self.grouped { span(upper(self.base)).min(self.max) } else { Span::ZERO }
    }

    /// The least value that is not exceeded by `permille` of 1000 values, within 1.6 % (see [`Histogram`]); zero without values.
    /// O(buckets).
    #[must_use]
    pub fn quantile(&self, permille: u64) -> Span {
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1000) as u64;
        if rank <= self.ends[0] {
            return self.min();
        }
        if rank > self.count - self.ends[1] {
            return self.max;
        }
        let mut below = 0;
        for bucket in self.base..self.base + self.len {
            below += self.counted(bucket);
            if below < rank {
                continue;
            }
            if self.grouped && bucket == self.base {
                return self.floor();
            }
            // The true value is between these, so the middle is wrong by half of their distance at most.
            let (low, high) = (span(lower(bucket)).max(self.min), span(upper(bucket)).min(self.max));
            return low + Span::from_ns((high - low).ns() / 2);
        }
        self.max
    }

    /// Where the carry of a bucket is among the words.
    fn carry(&self, bucket: u16) -> Option<usize> {
        (usize::from(self.len)..self.words.len()).step_by(CARRY).find(|at| self.words[*at] == bucket)
    }

    /// The values in one of the buckets that have a counter.
    fn counted(&self, bucket: u16) -> u64 {
        let high = self.carry(bucket).map_or(0, |at| {
            let [low, high] = [1, 2].map(|word| u64::from(self.words[at + word]));
            low << 16 | high << 32
        });
        u64::from(self.words[usize::from(bucket - self.base)]) | high
    }

    /// Sets what [`Histogram::counted`] returns, up to 2^48 - 1.
    fn set(&mut self, bucket: u16, values: u64) {
        let slot = usize::from(bucket - self.base);
        self.words[slot] = values as u16;
        let carry = self.carry(bucket);
        if values >> 16 == 0 && carry.is_none() {
            return;
        }
        let at = carry.unwrap_or(self.words.len());
        if carry.is_none() {
            self.extend(CARRY);
        }
        self.words[at..at + CARRY].copy_from_slice(&[bucket, (values >> 16) as u16, (values >> 32) as u16]);
    }

    /// Counts a value whose bucket has no counter, or a full one.
    #[cold]
    fn add_slowly(&mut self, bucket: u16) {
        self.cover(bucket);
        let full = |h: &Histogram| {
            let bucket = bucket.max(h.base);
            h.words[usize::from(bucket - h.base)] == u16::MAX && h.carry(bucket).is_none()
        };
        while full(self) && self.excess(CARRY) > 0 {
            self.group(self.base + self.excess(CARRY) as u16);
        }
        let bucket = bucket.max(self.base);
        self.set(bucket, self.counted(bucket) + 1);
    }

    /// How many words there are too many, if there are so many more.
    fn excess(&self, more: usize) -> usize {
        (self.words.len() + more).saturating_sub(usize::from(self.limit))
    }

    /// Gives a bucket a counter. Where the memory is exhausted, the lowest counters become one.
    fn cover(&mut self, bucket: u16) {
        if self.words.is_empty() {
            self.base = bucket;
        }
        while bucket >= self.base + self.len {
            let wanted = usize::from(bucket - (self.base + self.len)) + 1;
            let excess = self.excess(wanted);
            if excess > 0 {
                self.group(self.base + excess as u16);
                continue;
            }
            let room = usize::from(self.limit) - self.words.len();
            let above = usize::from(BUCKETS - self.base - self.len);
            self.insert(usize::from(self.len), wanted.max(GROWTH).min(room).min(above));
        }
        if bucket < self.base && !self.grouped {
            let wanted = usize::from(self.base - bucket);
            let room = usize::from(self.limit).saturating_sub(self.words.len());
            let more = wanted.max(GROWTH).min(room).min(usize::from(self.base));
            self.insert(0, more);
            self.base -= more as u16;
            self.grouped = more < wanted;
        }
    }

    /// Makes `to` the first bucket, with all values that were counted below it.
    fn group(&mut self, to: u16) {
        let end = self.base + self.len;
        let values = (self.base..end.min(to + 1)).map(|bucket| self.counted(bucket)).sum();
        let mut at = usize::from(self.len);
        while at < self.words.len() {
            if self.words[at] <= to {
                let last = self.words.len() - CARRY;
                self.words.copy_within(last.., at);
                self.words.truncate(last);
            } else {
                at += CARRY;
            }
        }
        let dropped = usize::from((to - self.base).min(self.len));
        self.words.copy_within(dropped.., 0);
        self.words.truncate(self.words.len() - dropped);
        (self.base, self.len, self.grouped) = (to, self.len - dropped as u16, true);
        if self.len == 0 {
            self.insert(0, 1);
        }
        self.set(to, values);
    }

    /// Appends words. The memory doubles, but is never more than there may ever be words.
    fn extend(&mut self, more: usize) {
        let words = self.words.len();
        if words + more > self.words.capacity() {
            let most = usize::from(self.limit) + CARRY - words;
            self.words.reserve_exact(more.max(words).min(most));
        }
        self.words.resize(words + more, 0);
    }

    /// Inserts counters of zero at the lower or upper end.
    fn insert(&mut self, at: usize, counters: usize) {
        let words = self.words.len();
        self.extend(counters);
        self.words.copy_within(at..words, at + counters);
        self.words[at..at + counters].fill(0);
        self.len += counters as u16;
    }
}

fn span(ns: u64) -> Span {
    Span::from_ns(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// The step of a fraction of an octave in units of 2^-16: 24 times `(4 f - f²) / 3`, which is the logarithm of `1 + f` to the base 2
/// up to 1 %. So a bucket is at most 3.2 % of its lower end wide.
#[inline]
const fn step(fraction: u64) -> u64 {
    (fraction * ((4 << 16) - fraction)) >> 29
}

/// The least fraction of each step.
const FRACTIONS: [u64; STEPS as usize] = {
    let (mut fractions, mut fraction, mut at) = ([0; STEPS as usize], 0, 0);
    while at < STEPS as usize {
        while step(fraction) < at as u64 {
            fraction += 1;
        }
        fractions[at] = fraction;
        at += 1;
    }
    fractions
};

/// The bucket of a value. The first one is that of zero.
#[inline]
fn bucket(value: u64) -> u16 {
    let Some(octave) = value.checked_ilog2() else { return 0 };
    let fraction = ((value << (63 - octave)) & (u64::MAX >> 1)) >> 47;
    1 + octave as u16 * STEPS + step(fraction) as u16
}

/// The least value of a bucket.
fn lower(bucket: u16) -> u64 {
    let Some(index) = bucket.checked_sub(1) else { return 0 };
    let (octave, step) = (index / STEPS, index % STEPS);
    let value = (u128::from((1 << 16) + FRACTIONS[usize::from(step)]) << octave).div_ceil(1 << 16);
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// The largest value of a bucket.
fn upper(bucket: u16) -> u64 {
    if bucket + 1 == BUCKETS { u64::MAX } else { lower(bucket + 1) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::draw_up_to;
    use alloc::vec;

    /// The exact values at these permilles.
    fn exact(sorted: &[u64], permille: u64) -> u64 {
        let rank = (sorted.len() as u64 * permille).div_ceil(1000).max(1);
        sorted[rank as usize - 1]
    }

    /// Compares every quantile with the exact one, and the memory with its bound.
    #[track_caller]
    fn check(values: &[u64]) -> Histogram {
        let mut h = Histogram::default();
        values.iter().for_each(|v| h.add(span(*v)));
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        for permille in 0..=1000 {
            let (found, exact) = (h.quantile(permille).ns() as u64, exact(&sorted, permille));
            let wrong = found.abs_diff(exact);
            let close = u128::from(wrong.saturating_sub(1)) * 1000 <= u128::from(exact) * 16;
            let grouped = exact <= h.floor().ns() as u64 && found == h.floor().ns() as u64;
            assert!(close || grouped, "p{permille} is {exact} and not {found}");
        }
        assert!(h.heap() + size_of::<Histogram>() < 1024, "{} bytes", h.heap());
        assert!(h.floor() <= Span::from_ns(h.max().ns() / 250_000), "{:?}", h.floor());
        assert_eq!((h.count(), h.min().ns() as u64), (values.len() as u64, sorted[0]));
        assert_eq!(h.max().ns() as u64, sorted[sorted.len() - 1]);
        let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
        assert_eq!(h.mean().ns() as u128, sum / values.len() as u128);
        h
    }

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        for bucket in 0..BUCKETS - 1 {
            let (low, high) = (lower(bucket), upper(bucket));
            assert_eq!(lower(bucket + 1), high + 1);
            if high < low {
                // Below 32 some hold no whole number.
                assert!(bucket < 1 + 5 * STEPS, "{bucket}");
                continue;
            }
            assert!(u128::from(high - low) * 1000 <= u128::from(low) * 32, "bucket {bucket} is from {low} to {high}");
        }
        let edges =
            (0..64).flat_map(|octave: u32| [1_u64 << octave, (1 << octave) - 1, (1 << octave) + (1 << octave) / 3]);
        for value in (0..100_000).chain(edges).chain([u64::MAX]) {
            let found = bucket(value);
            assert!(lower(found) <= value && value <= upper(found), "{value} is not in bucket {found}");
        }
    }

    #[test]
    fn an_empty_histogram_has_no_memory() {
        let h = Histogram::default();
        assert_eq!((h.heap(), h.count(), h.min(), h.max(), h.mean()), (0, 0, Span::ZERO, Span::ZERO, Span::ZERO));
        assert_eq!((h.quantile(0), h.quantile(500), h.quantile(1000)), (Span::ZERO, Span::ZERO, Span::ZERO));
    }

    #[test]
    fn few_different_values_are_exact() {
        let h = check(&[2_000_000; 500]);
        assert_eq!([1, 500, 990].map(|p| h.quantile(p)), [Span::from_ms(2); 3]);
        let mut values = vec![2_000_000; 60];
        values.extend([2_001_000; 40]);
        let h = check(&values);
        assert_eq!([500, 600, 601, 990].map(|p| h.quantile(p).ns()), [2_000_000, 2_000_000, 2_001_000, 2_001_000]);
        // Far less than the bound for what is usual.
        assert!(h.heap() <= 64, "{}", h.heap());
    }

    #[test]
    fn quantiles_are_close_whatever_the_values() {
        for seed in 0..300 {
            let draw = |most: u64, n: u64| draw_up_to(most, seed, n, 7);
            let spread = draw(18, 1_000_001);
            let lowest = draw(40, 1_000_002);
            let number = 1 + draw(6_000, 1_000_003);
            // In turn: spread over octaves, even, in two groups, rising, falling, and with outliers.
            let value = |n: u64| {
                let within = draw((1 << spread) - 1, n);
                match seed % 6 {
                    0 => (1 << lowest) + (draw(u64::from(u32::MAX), n) << draw(spread, n ^ 1) >> 18),
                    1 => (1 << lowest) + within,
                    2 => {
                        if n.is_multiple_of(3) {
                            1 << lowest
                        } else {
                            (1 << lowest) + within
                        }
                    }
                    3 => n * n,
                    4 => (number - n) * 1000,
                    _ => {
                        if n % 200 == 7 {
                            100_000_000 + within
                        } else {
                            1_000 + within % 800
                        }
                    }
                }
            };
            let h = check(&(0..number).map(value).collect::<Vec<_>>());
            assert!(
                h.floor() == Span::ZERO || seed % 6 == 0 || seed % 6 == 2 || seed % 6 == 3,
                "{seed}: {:?}",
                h.floor()
            );
        }
    }

    #[test]
    fn values_far_below_the_greatest_are_one_group() {
        let doubling: Vec<u64> = (0..63).map(|octave| 1 << octave).collect();
        for values in [doubling.clone(), doubling.iter().rev().copied().collect()] {
            let h = check(&values);
            let factor = h.max().ns() / h.floor().ns();
            assert!((250_000..400_000).contains(&factor), "{factor}");
            assert_eq!(h.quantile(200), h.floor());
        }
        // From the least to the greatest at once, and back.
        check(&[0, i64::MAX as u64, 5, 1 << 40, i64::MAX as u64 - 1, 0, 1]);
        check(&[1 << 62, 1, 1 << 61, 1 << 30]);
        let mut wide = Histogram::wide();
        let memory = wide.heap();
        doubling.iter().for_each(|v| wide.add(span(*v)));
        assert_eq!((wide.floor(), wide.heap()), (Span::ZERO, memory));
        assert!(wide.quantile(500).ns().abs_diff(1 << 31) * 1000 <= (1 << 31) * 16, "{:?}", wide.quantile(500));
    }

    #[test]
    fn counts_have_no_bound_and_the_memory_has_one() {
        // 200 buckets of 70 000 values each do not fit beside each other with their carries.
        let mut h = Histogram::default();
        let value = |bucket: u64| lower((241 + bucket) as u16);
        for _ in 0..70_000 {
            (0..200).for_each(|bucket| h.add(span(value(bucket))));
        }
        assert!(h.heap() + size_of::<Histogram>() < 1024, "{}", h.heap());
        assert!(h.floor() > Span::ZERO && h.floor() < span(value(100)), "{:?}", h.floor());
        for permille in (500..1000).step_by(5) {
            let (found, exact) = (h.quantile(permille).ns() as u64, value(permille / 5 - 1));
            assert!(found.abs_diff(exact) * 1000 <= exact * 16, "{permille}: {found} and not {exact}");
        }
        let last = h.base + h.len - 1;
        let total: u64 = (h.base..=last).map(|bucket| h.counted(bucket)).sum();
        assert_eq!((h.count(), total), (14_000_000, 14_000_000));
    }

    #[test]
    fn a_bucket_counts_on_after_four_thousand_million_equal_values() {
        let mut h = Histogram::default();
        let (value, before) = (Span::from_us(7), u64::from(u32::MAX));
        h.add(value);
        h.set(bucket(7_000), before);
        (h.count, h.ends[0]) = (before, before);
        h.add(value);
        h.add(Span::from_ms(1));
        assert_eq!((h.count(), h.quantile(500), h.max()), ((1 << 32) + 1, value, Span::from_ms(1)));
        assert_eq!(h.counted(bucket(7_000)), 1 << 32);
    }

    #[test]
    fn reserved_memory_is_never_exceeded() {
        let (mut h, mut wide) = (Histogram::reserved(), Histogram::wide());
        let (memory, of_wide) = (h.heap(), wide.heap());
        for n in 0..2_000_000 {
            let value = span(draw_up_to(u64::MAX >> 1, 5, n, 0) >> draw_up_to(62, 6, n, 0));
            h.add(value);
            wide.add(value);
        }
        assert_eq!((h.heap(), wide.heap()), (memory, of_wide));
        assert!(memory + size_of::<Histogram>() < 1024);
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut h = Histogram::default();
        (1..=1000).for_each(|us| h.add(Span::from_us(us)));
        assert_eq!((h.min(), h.max(), h.count()), (Span::from_us(1), Span::from_us(1000), 1000));
        assert_eq!(h.mean(), Span::from_ns(500_500));
        let p99 = h.quantile(990).ns();
        assert!((974_000..=1_000_000).contains(&p99), "{p99}");
    }
}
