//! Random task sets.
//!
//! Everything is drawn from [`takt_core::rng`] by (seed, set), so a set does not depend on those before it. Utilisations are
//! floating-point numbers that only additions, multiplications, divisions and square roots have touched, which are the same on
//! every machine; so the same seed gives the same sets everywhere.
//!
//! * UUniFast: Bini and Buttazzo, "Measuring the Performance of Schedulability Tests", Real-Time Systems 30, 2005; with discarding:
//!   Davis and Burns, "Priority Assignment for Global Fixed Priority Pre-emptive Scheduling in Multiprocessor Real-Time
//!   Systems", RTSS 2009.
//! * RandFixedSum: Emberson, Stafford, Davis, "Techniques for the Synthesis of Multiprocessor Tasksets", WATERS 2010, after
//!   Stafford's program of that name.
//! * AIRS: Kato, Rajkumar, Ishikawa, "AIRS: Supporting Interactive Real-Time Applications on Multicore Platforms", ECRTS 2010,
//!   section 6.

use crate::taskset::{TIME_MAX, Task};
use takt_core::rng;
use takt_core::utility::{MOST, UNIT};

/// How the utilisations of a set are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Utilisations {
    /// Evenly among all that add up to the total.
    UUniFast {
        /// Number of tasks.
        tasks: usize,
    },
    /// The same, drawn again until none is above 1. Takes for ever as the total comes near the number of tasks.
    UUniFastDiscard {
        /// Number of tasks.
        tasks: usize,
    },
    /// Evenly among those that add up to the total with none above 1; never drawn again. For up to 2000 tasks.
    RandFixedSum {
        /// Number of tasks.
        tasks: usize,
    },
    /// Each between 0.1 and 1, as many as it takes; the last is trimmed so that they add up to the total.
    Airs,
}

/// How periods are drawn, in units of time, both bounds included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Periods {
    /// Evenly.
    Uniform(u64, u64),
    /// Evenly in the logarithm, so that each decade has as many.
    LogUniform(u64, u64),
}

/// How deadlines are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadlines {
    /// The period.
    Implicit,
    /// Evenly between the runtime and the period.
    Constrained,
}

/// Random sets of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Generator {
    /// How utilisations are drawn.
    pub utilisations: Utilisations,
    /// How periods are drawn.
    pub periods: Periods,
    /// How deadlines are drawn.
    pub deadlines: Deadlines,
}

/// How the utilities of tasks are drawn, in millionths of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Utilities {
    /// One unit each.
    Equal,
    /// Whole units, evenly, both bounds included.
    Uniform(u64, u64),
    /// A unit for each unit of runtime, so that all densities are equal.
    Proportional,
    /// 1, 2, 4, 8 … units in random order: each is worth more than all lesser ones together.
    Geometric,
}

/// Why sets cannot be drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Impossible {
    /// No task, or a total utilisation of zero.
    Nothing,
    /// The total utilisation is above the number of tasks, of which each can have 1 at most.
    Total,
    /// Bounds of the periods that are zero, out of order or too large.
    Periods,
    /// No multiple of the grid between the bounds of the periods.
    Grid,
    /// So many sets were thrown away that another would take too long.
    Discarded,
    /// RandFixedSum for so many tasks would take too much memory.
    TooMany,
    /// Utilities above the highest that there is.
    Utilities,
}

impl std::fmt::Display for Impossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Impossible::Nothing => "a set needs a task and a utilisation above zero",
            Impossible::Total => "the total utilisation is above the number of tasks, and none may have more than 1",
            Impossible::Periods => "the bounds of the periods are out of order or out of range",
            Impossible::Grid => "no multiple of the grid is between the bounds of the periods",
            Impossible::Discarded => {
                "UUniFast-Discard threw away too many sets; use RandFixedSum so near to the number of tasks"
            }
            Impossible::TooMany => "RandFixedSum is for at most 2000 tasks; use UUniFast-Discard for more",
            Impossible::Utilities => "utilities above 10^9 units, or bounds out of order",
        })
    }
}

/// Utilisations thrown away before UUniFast-Discard gives up.
const DISCARDED_MAX: usize = 10_000_000;

/// Its tables hold the square of so many numbers.
const RAND_FIXED_SUM_MAX: usize = 2_000;

/// A stream of random numbers.
struct Stream {
    seed: u64,
    set: u64,
    drawn: u64,
}

impl Stream {
    fn bits(&mut self) -> u64 {
        self.drawn += 1;
        rng::draw(self.seed, self.set, self.drawn)
    }

    /// Evenly in [0, 1), a multiple of 2^-53.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Evenly in `low..=high`.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + ((u128::from(self.bits()) * (u128::from(high - low) + 1)) >> 64) as u64
    }

    /// Puts items into an order that is drawn evenly (Fisher and Yates). O(n).
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.between(0, i as u64) as usize);
        }
    }
}

/// `base` to the power of `exponent`, which is between 0 and 1, by square roots: exact operations in a fixed order.
fn power(base: f64, exponent: f64) -> f64 {
    if exponent >= 1.0 {
        return base;
    }
    let (mut root, mut rest, mut result) = (base, exponent, 1.0);
    while rest > 0.0 {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            rest -= 1.0;
            result *= root;
        }
    }
    result
}

impl Generator {
    /// The generator of AIRS's figure 13: utilisations between 0.1 and 1, periods evenly between 1 and 100 ms, deadlines at their
    /// ends. Times are microseconds.
    pub const AIRS: Generator = Generator {
        utilisations: Utilisations::Airs,
        periods: Periods::Uniform(1_000, 100_000),
        deadlines: Deadlines::Implicit,
    };

    /// Set number `set` of those with this seed and a total utilisation of `total` millionths.
    ///
    /// Runtimes are rounded down, to at least one unit, so the utilisation of a set is a little off the total. O(n), and
    /// O(n²) for RandFixedSum.
    ///
    /// # Errors
    /// Why there is no such set.
    pub fn set(&self, total: u64, seed: u64, set: u64) -> Result<Vec<Task>, Impossible> {
        self.set_on(1, total, seed, set)
    }

    /// The same with periods that are multiples of `grid`, evenly among those between the bounds; logarithmic ones are rounded to
    /// the nearest. Utilisations are those of the same set without a grid.
    ///
    /// # Errors
    /// Why there is no such set.
    pub fn set_on(&self, grid: u64, total: u64, seed: u64, set: u64) -> Result<Vec<Task>, Impossible> {
        let (Periods::Uniform(low, high) | Periods::LogUniform(low, high)) = self.periods;
        if low == 0 || low > high || high > TIME_MAX {
            return Err(Impossible::Periods);
        }
        // In multiples of the grid.
        let (least, most) = match grid {
            0 => return Err(Impossible::Grid),
            grid => (low.div_ceil(grid), high / grid),
        };
        if least > most {
            return Err(Impossible::Grid);
        }
        // The total belongs to the stream: sets of neighbouring points of an experiment must not share their numbers.
        let mut stream = Stream { seed: rng::draw(seed, total, 0), set, drawn: 0 };
        let utilisations = self.utilisations(total, &mut stream)?;
        let task = |u: f64| {
            let period = match self.periods {
                Periods::Uniform(..) => stream.between(least, most) * grid,
                Periods::LogUniform(low, high) => {
                    let drawn = low as f64 * power(high as f64 / low as f64, stream.unit());
                    ((drawn / grid as f64).round() as u64).clamp(least, most) * grid
                }
            };
            let runtime = ((u * period as f64) as u64).clamp(1, period);
            let deadline = match self.deadlines {
                Deadlines::Implicit => period,
                Deadlines::Constrained => stream.between(runtime, period),
            };
            Task { runtime, deadline, period }
        };
        Ok(utilisations.into_iter().map(task).collect())
    }

    fn utilisations(&self, total: u64, stream: &mut Stream) -> Result<Vec<f64>, Impossible> {
        let sum = total as f64 / 1e6;
        let tasks = match self.utilisations {
            Utilisations::Airs if total > 0 => return Ok(airs(sum, stream)),
            Utilisations::Airs => return Err(Impossible::Nothing),
            Utilisations::UUniFast { tasks }
            | Utilisations::UUniFastDiscard { tasks }
            | Utilisations::RandFixedSum { tasks } => tasks,
        };
        if tasks == 0 || total == 0 {
            return Err(Impossible::Nothing);
        }
        if u128::from(total) > tasks as u128 * 1_000_000 {
            return Err(Impossible::Total);
        }
        match self.utilisations {
            Utilisations::RandFixedSum { .. } if tasks > RAND_FIXED_SUM_MAX => Err(Impossible::TooMany),
            Utilisations::RandFixedSum { .. } => Ok(rand_fixed_sum(tasks, sum, stream)),
            Utilisations::UUniFastDiscard { .. } => {
                let mut tries =
                    std::iter::repeat_with(|| uunifast(tasks, sum, stream)).take(DISCARDED_MAX.div_ceil(tasks));
                tries.find(|us| us.iter().all(|u| *u <= 1.0)).ok_or(Impossible::Discarded)
            }
            _ => Ok(uunifast(tasks, sum, stream)),
        }
    }
}

impl Utilities {
    /// The utilities of a set of tasks, in millionths of a unit. They are drawn from a stream of their own: those of different
    /// kinds are of the same tasks. O(n).
    ///
    /// # Errors
    /// [`Impossible::Utilities`].
    pub fn of(&self, tasks: &[Task], seed: u64, set: u64) -> Result<Vec<u64>, Impossible> {
        let mut stream = Stream { seed: rng::draw(seed, UTILITIES, 1), set, drawn: 0 };
        let units: Vec<u64> = match *self {
            Utilities::Equal => vec![1; tasks.len()],
            Utilities::Uniform(low, high) if low > high => return Err(Impossible::Utilities),
            Utilities::Uniform(low, high) => tasks.iter().map(|_| stream.between(low, high)).collect(),
            Utilities::Proportional => tasks.iter().map(|t| t.runtime).collect(),
            Utilities::Geometric => {
                let power = |rank| u32::try_from(rank).ok().and_then(|rank| 2u64.checked_pow(rank));
                let powers = (0..tasks.len()).map(power).collect::<Option<Vec<u64>>>();
                let mut units = powers.ok_or(Impossible::Utilities)?;
                stream.shuffle(&mut units);
                units
            }
        };
        let in_range = |units: u64| units.checked_mul(UNIT).filter(|u| *u <= MOST).ok_or(Impossible::Utilities);
        units.into_iter().map(in_range).collect()
    }
}

/// The numbers from 0 below `count` in an order that is drawn evenly, from a stream of its own. O(n).
pub(crate) fn order(count: usize, seed: u64, set: u64) -> Vec<usize> {
    let mut stream = Stream { seed: rng::draw(seed, ORDER, 1), set, drawn: 0 };
    let mut order: Vec<usize> = (0..count).collect();
    stream.shuffle(&mut order);
    order
}

/// Marks the stream that orders are drawn from.
const ORDER: u64 = 0x4f52_4445_524f_5244;

/// Marks the stream that utilities are drawn from.
const UTILITIES: u64 = 0x5554_494c_4954_4945;

fn airs(total: f64, stream: &mut Stream) -> Vec<f64> {
    let mut utilisations = Vec::new();
    let mut left = total;
    while left > 0.0 {
        let drawn = (0.1 + 0.9 * stream.unit()).min(left);
        left -= drawn;
        utilisations.push(drawn);
    }
    utilisations
}

fn uunifast(tasks: usize, total: f64, stream: &mut Stream) -> Vec<f64> {
    let mut left = total;
    let mut utilisations = Vec::with_capacity(tasks);
    for others in (1..tasks).rev() {
        let next = left * power(stream.unit(), 1.0 / others as f64);
        utilisations.push(left - next);
        left = next;
    }
    utilisations.push(left);
    utilisations
}

/// A point drawn evenly from those of the cube of side 1 whose coordinates add up to `total`.
///
/// That slice of the cube is divided into simplices again and again, one dimension at a time. Which part to go into is decided
/// by the parts' volumes, tabulated for all dimensions; within the last simplex the point is drawn evenly. The coordinates are
/// then shuffled.
fn rand_fixed_sum(tasks: usize, total: f64, stream: &mut Stream) -> Vec<f64> {
    if tasks == 1 {
        return vec![total];
    }
    let n = tasks;
    let k = (total.floor() as usize).min(n - 1);
    let s = total.clamp(k as f64, k as f64 + 1.0);
    // Distances of the sum from the whole numbers below and above it.
    let below = |i: usize| s - (k as f64 - i as f64);
    let above = |i: usize| (k as f64 + (n - i) as f64) - s;
    // Rows by dimension: relative volumes, scaled so that they do not vanish, and the probabilities of going down.
    let mut volumes = vec![0.0; n + 1];
    volumes[1] = f64::MAX.sqrt();
    let mut chances = vec![vec![0.0; n]; n];
    for dimension in 2..=n {
        let mut next = vec![0.0; n + 1];
        for i in 1..=dimension {
            let (lower, upper) = (below(i - 1), above(n - dimension + i - 1));
            let from_lower = volumes[i] * lower / dimension as f64;
            let from_upper = volumes[i - 1] * upper / dimension as f64;
            let sum = from_lower + from_upper;
            next[i] = sum;
            // From the smaller part, which is known better. An empty set of tasks has none.
            chances[dimension - 1][i - 1] = match (upper > lower, sum > 0.0) {
                (true, true) => from_upper / sum,
                (false, true) => 1.0 - from_lower / sum,
                (above, false) => f64::from(u8::from(!above)),
            };
        }
        let largest = next.iter().copied().fold(0.0, f64::max);
        if largest > 0.0 {
            next.iter_mut().for_each(|v| *v *= f64::MAX.sqrt() / largest);
        }
        volumes = next;
    }
    let mut utilisations = Vec::with_capacity(n);
    let (mut rest, mut level) = (s, k + 1);
    let (mut sum, mut product) = (0.0, 1.0);
    for dimension in (1..n).rev() {
        let down = stream.unit() < chances[dimension][level - 1];
        let scale = power(stream.unit(), 1.0 / dimension as f64);
        sum += (1.0 - scale) * product * rest / (dimension + 1) as f64;
        product *= scale;
        let one = if down { 1.0 } else { 0.0 };
        utilisations.push(sum + product * one);
        rest -= one;
        level = (level - usize::from(down)).max(1);
    }
    utilisations.push(sum + product * rest);
    stream.shuffle(&mut utilisations);
    utilisations.iter().map(|u| u.clamp(0.0, 1.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(set: u64) -> Stream {
        Stream { seed: 1, set, drawn: 0 }
    }

    #[test]
    fn powers_are_close() {
        for (base, exponent) in [(2.0, 0.5), (0.3, 0.25), (100.0, 0.123_456), (0.7, 1.0), (0.5, 1e-3), (3.0, 0.0)] {
            let wanted = f64::powf(base, exponent);
            assert!((power(base, exponent) / wanted - 1.0).abs() < 1e-13, "{base}^{exponent}");
        }
        assert_eq!(power(0.0, 0.3), 0.0);
    }

    #[test]
    fn periods_are_on_the_grid() {
        for periods in [Periods::Uniform(1_500, 9_900), Periods::LogUniform(1_500, 9_900)] {
            let generator = Generator { periods, deadlines: Deadlines::Constrained, ..Generator::AIRS };
            let mut seen = std::collections::BTreeSet::new();
            for set in 0..200 {
                let tasks = generator.set_on(1_000, 2_000_000, 1, set).unwrap();
                seen.extend(tasks.iter().map(|t| t.period));
                let load: f64 = tasks.iter().map(|t| t.runtime as f64 / t.period as f64).sum();
                assert!((load - 2.0).abs() < 0.02, "{load}");
                assert_eq!(generator.set_on(1, 2_000_000, 1, set), generator.set(2_000_000, 1, set));
            }
            assert!(seen.iter().copied().eq((2..=9).map(|n| n * 1_000)), "{seen:?}");
            for grid in [0, 5_000_000] {
                assert_eq!(generator.set_on(grid, 2_000_000, 1, 0), Err(Impossible::Grid));
            }
        }
    }

    #[test]
    fn utilisations_add_up() {
        for set in 0..200 {
            for (tasks, total) in [(2, 1.5), (5, 3.2), (30, 7.0), (12, 11.9), (1, 0.4), (4, 4.0)] {
                let drawn = rand_fixed_sum(tasks, total, &mut stream(set));
                assert!((drawn.iter().sum::<f64>() - total).abs() < 1e-9, "{drawn:?}");
                assert!(drawn.len() == tasks && drawn.iter().all(|u| (0.0..=1.0).contains(u)), "{drawn:?}");
                let drawn = uunifast(tasks, total, &mut stream(set));
                assert!((drawn.iter().sum::<f64>() - total).abs() < 1e-9 && drawn.iter().all(|u| *u >= 0.0));
            }
            let drawn = airs(3.3, &mut stream(set));
            assert!((drawn.iter().sum::<f64>() - 3.3).abs() < 1e-9);
            assert!(drawn[..drawn.len() - 1].iter().all(|u| (0.1..1.0).contains(u)), "{drawn:?}");
        }
    }

    /// Mean and mean square of the utilisations of many sets.
    fn moments(draw: impl Fn(&mut Stream) -> Vec<f64>) -> (f64, f64) {
        let all: Vec<f64> = (0..20_000).flat_map(|set| draw(&mut stream(set))).collect();
        let n = all.len() as f64;
        (all.iter().sum::<f64>() / n, all.iter().map(|u| u * u).sum::<f64>() / n)
    }

    #[test]
    fn both_methods_draw_from_the_same_sets() {
        // Evenly from a simplex of side s in n dimensions: the mean square is 2 s² / (n (n + 1)).
        let (mean, square) = moments(|s| uunifast(4, 0.9, s));
        assert!((mean - 0.225).abs() < 1e-9 && (square - 2.0 * 0.81 / 20.0).abs() < 1e-3, "{square}");
        // Below 1 the upper bound of a utilisation does not matter.
        let (mean, square) = moments(|s| rand_fixed_sum(4, 0.9, s));
        assert!((mean - 0.225).abs() < 1e-9 && (square - 2.0 * 0.81 / 20.0).abs() < 1e-3, "{square}");
        // Above it, throwing away is the other way to the same distribution.
        let discarded = |s: &mut Stream| loop {
            let drawn = uunifast(4, 1.7, s);
            if drawn.iter().all(|u| *u <= 1.0) {
                return drawn;
            }
        };
        let ((_, a), (_, b)) = (moments(discarded), moments(|s| rand_fixed_sum(4, 1.7, s)));
        assert!((a - b).abs() < 2e-3, "{a} {b}");
    }

    #[test]
    fn sets_are_the_same_every_time() {
        let set = Generator::AIRS.set(3_000_000, 42, 7).unwrap();
        assert_eq!(set, Generator::AIRS.set(3_000_000, 42, 7).unwrap());
        assert_ne!(set, Generator::AIRS.set(3_000_000, 42, 8).unwrap());
        let total: f64 = set.iter().map(|t| t.runtime as f64 / t.period as f64).sum();
        assert!((total - 3.0).abs() < 0.01, "{total}");
        assert!(set.iter().all(|t| t.deadline == t.period && (1_000..=100_000).contains(&t.period)));
    }

    #[test]
    fn utilities_are_of_their_kind() {
        let tasks = Generator { utilisations: Utilisations::UUniFast { tasks: 8 }, ..Generator::AIRS };
        let tasks = |set| tasks.set(3_000_000, 1, set).unwrap();
        let of = |kind: Utilities, set| kind.of(&tasks(set), 1, set).unwrap();
        assert_eq!(of(Utilities::Equal, 0), [UNIT; 8]);
        let proportional: Vec<u64> = tasks(3).iter().map(|t| t.runtime * UNIT).collect();
        assert_eq!(of(Utilities::Proportional, 3), proportional);
        let mut geometric = of(Utilities::Geometric, 5);
        assert_ne!(geometric, of(Utilities::Geometric, 6));
        geometric.sort_unstable();
        assert_eq!(geometric, (0..8).map(|rank| UNIT << rank).collect::<Vec<_>>());
        let uniform: Vec<u64> = (0..500).flat_map(|set| of(Utilities::Uniform(1, 100), set)).collect();
        assert!(uniform.iter().all(|u| u.is_multiple_of(UNIT) && (UNIT..=100 * UNIT).contains(u)));
        let mean = uniform.iter().sum::<u64>() / uniform.len() as u64;
        // The deviation of the mean of 4000 draws is less than half a unit.
        assert!((49 * UNIT..52 * UNIT).contains(&mean), "{mean}");
        let refused = |kind: Utilities, tasks: &[Task]| kind.of(tasks, 1, 1) == Err(Impossible::Utilities);
        assert!(refused(Utilities::Geometric, &[tasks(1)[0]; 31]) && refused(Utilities::Geometric, &[tasks(1)[0]; 99]));
        assert!(refused(Utilities::Uniform(2, 1), &tasks(1)) && refused(Utilities::Uniform(0, u64::MAX), &tasks(1)));
    }

    #[test]
    fn impossible_requests_are_refused() {
        let fast = |tasks, total| {
            Generator { utilisations: Utilisations::UUniFast { tasks }, ..Generator::AIRS }.set(total, 1, 1)
        };
        assert_eq!(fast(0, 500_000), Err(Impossible::Nothing));
        assert_eq!(fast(3, 0), Err(Impossible::Nothing));
        assert_eq!(fast(3, 3_000_001), Err(Impossible::Total));
        let periods = |periods| Generator { periods, ..Generator::AIRS }.set(1_000_000, 1, 1);
        assert_eq!(periods(Periods::Uniform(0, 5)), Err(Impossible::Periods));
        assert_eq!(periods(Periods::LogUniform(9, 5)), Err(Impossible::Periods));
        let set = Generator {
            deadlines: Deadlines::Constrained,
            periods: Periods::LogUniform(10, 1_000_000),
            ..Generator::AIRS
        };
        let sets: Vec<Task> = (0..2000).flat_map(|i| set.set(1_000_000, 5, i).unwrap()).collect();
        assert!(sets.iter().all(|t| t.runtime <= t.deadline && t.deadline <= t.period));
        // Each of the five decades has a fifth.
        let decade = sets.iter().filter(|t| (100..1_000).contains(&t.period)).count() * 5;
        assert!((sets.len() * 9 / 10..sets.len() * 11 / 10).contains(&decade), "{decade} of {}", sets.len());
    }
}
