//! EDF on one CPU, exactly: the demand that [`takt_core::policies::split::demand`] searches, and how far it may grow.

use super::growth::{Factor, Growth, less};
use crate::utilisation::Utilisation;
pub use takt_core::policies::split::demand::{Demand, Window, demand, largest_piece};
use takt_core::policies::split::demand::{Effort, Times as Task, demand_grown, early_deadlines};
pub(crate) use takt_core::policies::split::demand::{deadline_before, due};
use takt_core::policies::split::exact::Sum;

/// Looks at a task for a search that may well be in vain.
const FEW: u64 = 1 << 16;

/// By what factor every runtime may grow under EDF: the largest with which all deadlines are still met. Below 1 for a set that
/// is not schedulable. `None` without tasks.
///
/// Each failed test names an interval that is too short; the factor that just fills it is the next one tried, so that the
/// last one is exact. Where that search would take too long, the last factor tried is a bound from above, and one a little below it
/// that is shown to be kept the bound from below. Where the utilisation alone limits the growth and its inverse does not fit, they
/// are 2^-24 apart.
#[must_use]
pub fn growth(tasks: &[Task]) -> Option<Growth> {
    // By some deadlines alone; at least one task is due there, so that the factor is finite. The more of them, the further
    // the first trial lies from full load, where the search is long.
    let filled = |t: u64| (t, due(tasks, t));
    let mut most = filled(tasks.first()?.deadline);
    for at in early_deadlines(tasks) {
        if less(filled(at), most) {
            most = filled(at);
        }
    }
    let mut trial = most;
    let mut overload = Sum::default();
    tasks.iter().for_each(|t| overload.add(u128::from(t.runtime) * u128::from(most.0), t.period));
    if overload.compare_whole(most.1.into()).is_gt() {
        let mut load = Utilisation::default();
        tasks.iter().for_each(|t| load.add(t.runtime, t.period));
        // Full load is mostly one search too long, where deadlines are early.
        let full = |(p, q)| matches!(demand_grown(tasks, (p, q), &mut Effort::of(FEW)), Demand::Within);
        let word = |v: u128| u64::try_from(v).ok();
        let late = tasks.iter().all(|t| t.deadline >= t.period);
        match load.fraction() {
            Some((q, p)) if late || word(p).zip(word(q)).is_some_and(full) => return Some(Growth::exact((p, q))),
            _ => {}
        }
        trial = inverse_below(tasks, |t| t.period);
        if less((trial.0 + 1, trial.1), most) {
            most = (trial.0 + 1, trial.1);
        }
    }
    let mut effort = Effort::default();
    loop {
        match demand_grown(tasks, trial, &mut effort) {
            Demand::Within => return Some(Growth::reduced(trial, most)),
            Demand::Above { at, .. } if less(filled(at), trial) => {
                most = filled(at);
                trial = most;
            }
            // Too long, or more is due than can be counted.
            _ => break,
        }
    }
    let least = kept(tasks, trial, &mut most);
    Some(Growth::reduced(least, most))
}

/// A factor below `from` with which all deadlines are shown to be met. Ever less is tried, which is ever easier to show; what fails is
/// a new bound from above.
fn kept(tasks: &[Task], mut from: Factor, most: &mut Factor) -> Factor {
    /// How many looks at a task one trial may take.
    const LOOKS: u64 = 1 << 22;
    for step in (1..=20).rev() {
        // In units of a power of two, so that the numerator has some 62 digits.
        let digits = (from.0 / from.1).leading_zeros().clamp(1, 63) - 1;
        let units = ((u128::from(from.0) << digits) / u128::from(from.1)) as u64;
        let trial = (units - (units >> (2 * step)), 1 << digits);
        match demand_grown(tasks, trial, &mut Effort::of(LOOKS)) {
            Demand::Within => return trial,
            Demand::Above { at, .. } if less((at, due(tasks, at)), from) => {
                from = (at, due(tasks, at));
                *most = from;
            }
            _ => {}
        }
    }
    // The density is a bound that takes no search.
    inverse_below(tasks, |t| t.deadline.min(t.period))
}

/// The inverse of the sum of runtimes over these times, rounded down to a multiple of 2^-24.
fn inverse_below(tasks: &[Task], of: fn(&Task) -> u64) -> Factor {
    // The largest k with k U at most 2^24; U is at least one part of 2^62.
    let fits = |k: u64| {
        let mut sum = Sum::default();
        tasks.iter().for_each(|t| sum.add(u128::from(t.runtime) * u128::from(k), of(t)));
        sum.compare_whole(1 << 24).is_le()
    };
    let (mut yes, mut no) = (0, 1 << 60);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if fits(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    (yes, 1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(runtime: u64, deadline: u64, period: u64) -> Task {
        Task { runtime, deadline, period }
    }

    #[test]
    fn growth_is_exact() {
        let exact = |p, q| Some(Growth::exact((p, q)));
        assert_eq!(growth(&[task(1, 4, 4), task(1, 4, 4)]), exact(2, 1));
        assert_eq!(growth(&[task(2, 3, 6), task(2, 6, 6)]), exact(3, 2));
        assert_eq!(growth(&[task(4, 3, 6)]), exact(3, 4));
    }

    #[test]
    fn a_long_search_ends_with_bounds() {
        // Periods without a common divisor, and one early deadline: the least factor is found where all nearly coincide.
        let tasks = [task(300_000, 999_983, 999_983), task(300_000, 999_979, 999_979), task(290_000, 900_000, 999_961)];
        let Growth { at_least, at_most } = growth(&tasks).unwrap();
        let parts = |(p, q): (u128, u128)| p * 1_000_000 / q;
        assert!(parts(at_least) > 1_123_000 && parts(at_most) < 1_124_000, "{at_least:?} {at_most:?}");
        assert!(parts(at_most) - parts(at_least) < 100, "{at_least:?} {at_most:?}");
        // In units so fine that the runtimes are whole, the lower one is kept.
        let million = |t: u64| t * 1_000_000;
        let lower = |t: &Task| Task {
            runtime: u64::try_from(u128::from(t.runtime) * parts(at_least)).unwrap(),
            deadline: million(t.deadline),
            period: million(t.period),
        };
        assert_eq!(demand(&tasks.map(|t| lower(&t))), Demand::Within);
    }
}
