//! The generator of DEmOS's jitter: MT19937, and the draw of a whole number as the C++ library of GCC makes it.
//!
//! Matsumoto and Nishimura, "Mersenne Twister: A 623-Dimensionally Equidistributed Uniform Pseudo-Random Number Generator", ACM TOMACS
//! 8(1), 1998; the names are those of the paper. The draw is Lemire's ("Fast Random Integer Generation in an Interval", ACM TOMACS 29(1),
//! 2019). It is written out here because the core depends on nothing, and because the policy keeps its state: an equal system and equal
//! inputs give equal budgets.

use alloc::boxed::Box;

const N: usize = 624;
const M: usize = 397;
const MATRIX_A: u32 = 0x9908_b0df;
const UPPER: u32 = 0x8000_0000;

/// The generator.
pub(crate) struct Mt19937 {
    state: Box<[u32; N]>,
    next: usize,
}

impl Mt19937 {
    pub(crate) fn new(seed: u32) -> Mt19937 {
        let mut state = Box::new([seed; N]);
        for i in 1..N {
            let before = state[i - 1];
            state[i] = 1_812_433_253_u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(i as u32);
        }
        Mt19937 { state, next: N }
    }

    /// The next 32 bits.
    fn draw(&mut self) -> u32 {
        if self.next == N {
            self.twist();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn twist(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & UPPER) | (self.state[(i + 1) % N] & !UPPER);
            let odd = if y & 1 == 1 { MATRIX_A } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// A whole number from 0 to `most`, both included, each as likely as any other.
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        let Some(range) = most.checked_add(1) else { return self.draw() };
        let mut product = u64::from(self.draw()) * u64::from(range);
        if (product as u32) < range {
            let threshold = range.wrapping_neg() % range;
            while (product as u32) < threshold {
                product = u64::from(self.draw()) * u64::from(range);
            }
        }
        (product >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard states the 10000th number of the generator with its default seed ([rand.predef]).
    #[test]
    fn the_generator_is_that_of_the_standard() {
        let mut generator = Mt19937::new(5489);
        let last = (0..10_000).map(|_| generator.draw()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    /// Six draws from three values, as DEmOS makes them for a budget of 1 ms with a jitter of 2 ms and the seed 2.
    #[test]
    fn draws_are_those_of_demos() {
        let mut generator = Mt19937::new(2);
        assert_eq!([(); 6].map(|()| generator.up_to(2)), [1, 0, 0, 2, 1, 2]);
    }

    #[test]
    fn draws_cover_their_range_evenly() {
        let mut generator = Mt19937::new(7);
        let mut seen = [0u32; 5];
        (0..50_000).for_each(|_| seen[generator.up_to(4) as usize] += 1);
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
        assert_ne!(generator.up_to(u32::MAX), generator.up_to(u32::MAX));
    }
}
