//! A counter-based random number: the same seed and counters give the same number, in whatever order they are asked for.
//!
//! Budgets are drawn by (task, job), so a schedule disturbed by late events still draws the same budgets.
//! The mixing function is SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).

/// 64 random bits for `(seed, stream, index)`.
#[must_use]
pub const fn draw(seed: u64, stream: u64, index: u64) -> u64 {
    mix(mix(mix(seed).wrapping_add(stream)).wrapping_add(index))
}

/// A number from 0 to `most`, both included, without modulo bias beyond 2^-64.
#[must_use]
pub const fn draw_up_to(most: u64, seed: u64, stream: u64, index: u64) -> u64 {
    ((draw(seed, stream, index) as u128 * (most as u128 + 1)) >> 64) as u64
}

const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_cover_the_range_evenly_and_repeat() {
        let mut seen = [0u32; 5];
        for i in 0..50_000 {
            seen[draw_up_to(4, 7, 3, i) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
        assert_eq!(draw(1, 2, 3), draw(1, 2, 3));
        assert_ne!(draw(1, 2, 3), draw(1, 3, 2));
    }
}
