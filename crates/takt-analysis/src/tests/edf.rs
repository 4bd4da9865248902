//! EDF on one CPU, exactly: the demand that [`takt_core::policies::split::demand`] searches, and how far it may grow.

use super::Effort;
use crate::taskset::Task;
use crate::utilisation::{Utilisation, gcd};
pub use takt_core::policies::split::demand::{Demand, Window, demand, largest_piece};
use takt_core::policies::split::demand::{HORIZON, early_deadlines};
pub(crate) use takt_core::policies::split::demand::{deadline_before, demand_with, due};
use takt_core::policies::split::exact::Sum;

/// By what factor every runtime may grow under EDF: the largest fraction with which all deadlines are still met. Below 1 for a
/// set that is not schedulable. `None` when the search would take too long or the numbers grow too large.
///
/// Each failed test names an interval that is too short; the factor that just fills it is the next one tried, so that the
/// last one is exact. Where the utilisation alone limits the growth and its inverse does not fit, the factor is rounded down
/// to a multiple of 2^-24.
#[must_use]
pub fn growth(tasks: &[Task]) -> Option<(u128, u128)> {
    let filled = |t: u64| (u128::from(t), u128::from(due(tasks, t)));
    let less = |a: (u128, u128), b: (u128, u128)| a.0 * b.1 < b.0 * a.1;
    // By some deadlines alone; at least one task is due there, so that the factor is finite. The more of them, the further
    // the first trial lies from full load, where the search is long.
    let mut factor = filled(tasks.first()?.deadline);
    for at in early_deadlines(tasks) {
        if less(filled(at), factor) {
            factor = filled(at);
        }
    }
    let mut overload = Sum::default();
    for t in tasks {
        overload.add(u128::from(t.runtime).checked_mul(factor.0)?, t.period);
    }
    if overload.compare_whole(factor.1).is_gt() {
        let mut load = Utilisation::default();
        tasks.iter().for_each(|t| load.add(t.runtime, t.period));
        let inverse = load.fraction().filter(|_| tasks.iter().all(|t| t.deadline >= t.period));
        if let Some((numerator, denominator)) = inverse {
            return Some((denominator, numerator));
        }
        factor = inverse_below(tasks)?;
    }
    let mut effort = Effort::default();
    loop {
        let common = gcd(factor.0, factor.1);
        let (p, q) = (factor.0 / common, factor.1 / common);
        // Everything is scaled to whole numbers: runtimes times p, times times q.
        let scale = |v: u64, by: u128| u64::try_from(u128::from(v).checked_mul(by)?).ok().filter(|v| *v <= HORIZON);
        let mut grown = Vec::with_capacity(tasks.len());
        for t in tasks {
            let (runtime, deadline) = (scale(t.runtime, p)?, scale(t.deadline, q)?);
            grown.push(Task { runtime, deadline, period: scale(t.period, q)? });
        }
        match demand_with(&grown, &mut effort) {
            Demand::Within => return Some((p, q)),
            Demand::Above { at, .. } => factor = filled(u64::try_from(u128::from(at) / q).ok()?),
            Demand::Overload | Demand::Unknown => return None,
        }
    }
}

/// The inverse of the utilisation, rounded down to a multiple of 2^-24.
fn inverse_below(tasks: &[Task]) -> Option<(u128, u128)> {
    // The largest k with k U at most 2^24; U is at least one part of 2^62.
    let fits = |k: u128| {
        let mut sum = Sum::default();
        for t in tasks {
            sum.add(u128::from(t.runtime).checked_mul(k)?, t.period);
        }
        Some(sum.compare_whole(1 << 24).is_le())
    };
    let (mut yes, mut no) = (0u128, 1 << 60);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if fits(middle)? {
            yes = middle;
        } else {
            no = middle;
        }
    }
    (yes > 0).then_some((yes, 1 << 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(runtime: u64, deadline: u64, period: u64) -> Task {
        Task { runtime, deadline, period }
    }

    #[test]
    fn growth_is_exact() {
        assert_eq!(growth(&[task(1, 4, 4), task(1, 4, 4)]), Some((2, 1)));
        assert_eq!(growth(&[task(2, 3, 6), task(2, 6, 6)]), Some((3, 2)));
        assert_eq!(growth(&[task(4, 3, 6)]), Some((3, 4)));
    }
}
