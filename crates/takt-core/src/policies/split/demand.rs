//! EDF on one CPU, exactly.
//!
//! Tasks released together meet all deadlines under EDF if and only if the utilisation is at most 1 and no interval from
//! the release on holds more work that is due in it than it is long (Baruah, Mok, Rosier, "Preemptively Scheduling
//! Hard-Real-Time Sporadic Tasks on One Processor", RTSS 1990). The intervals are searched in the order of QPA (Zhang and Burns,
//! "Schedulability Analysis for Real-Time Systems with EDF Scheduling", IEEE TC 58(9), 2009).
//!
//! The search begins at the shorter of two bounds: beyond the first, the slope of the demand rules out a miss; the second is
//! the end of the first busy period. The first is computed a little too large rather than rounded, which changes no answer.

use super::exact::{Sum, scaled_up};
use core::cmp::Ordering;

/// A periodic or sporadic task, in whole numbers of some unit of time. Nothing is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// The longest that a job runs (C).
    pub runtime: u64,
    /// Its relative deadline (D).
    pub deadline: u64,
    /// The least time between releases (T).
    pub period: u64,
}

impl Times {
    /// Whether its utilisation is above that of `other`.
    #[must_use]
    pub fn heavier(&self, other: &Times) -> bool {
        u128::from(self.runtime) * u128::from(other.period) > u128::from(other.runtime) * u128::from(self.period)
    }
}

/// The sum of runtime over period.
#[must_use]
pub fn utilisation(tasks: &[Times]) -> Sum {
    let mut sum = Sum::default();
    tasks.iter().for_each(|t| sum.add(u128::from(t.runtime), t.period));
    sum
}

/// Adding up exact fractions takes as long as so many looks at a task.
const SUM: usize = 8;

/// How many looks at a task a test may still take. A verdict must not take longer than a look at it is worth, and some
/// searches have no other end that anybody would wait for.
#[derive(Debug)]
pub struct Effort(u64);

impl Default for Effort {
    /// A few seconds.
    fn default() -> Effort {
        Effort(300_000_000)
    }
}

impl Effort {
    /// So many looks.
    #[must_use]
    pub fn of(looks: u64) -> Effort {
        Effort(looks)
    }

    /// Whether so many looks are left.
    #[must_use]
    pub fn has(&self, looks: usize) -> bool {
        self.0 >= looks as u64
    }

    /// Lends a sixteenth of the rest to one search, so that no search takes it all from the next ones.
    pub(crate) fn lend<T>(&mut self, search: impl FnOnce(&mut Effort) -> T) -> T {
        let lent = self.0 / 16;
        let mut part = Effort(lent);
        let found = search(&mut part);
        self.0 -= lent - part.0;
        found
    }

    /// Takes so many looks; `false` when they are exhausted.
    pub fn spend(&mut self, looks: usize) -> bool {
        match self.0.checked_sub(looks as u64) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

/// The result of the processor demand test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// There is time for all that is due, always.
    Within,
    /// By `at` more is due than there is time.
    Above {
        /// Time since the common release.
        at: u64,
        /// The demand due by then.
        due: u64,
    },
    /// The utilisation is above 1.
    Overload,
    /// The search would take too long.
    Unknown,
}

/// No point in time beyond this is looked at.
pub const HORIZON: u64 = 1 << 62;

/// Some absolute deadlines: of the first jobs of each task, of fewer where there are many tasks.
pub fn early_deadlines(tasks: &[Times]) -> impl Iterator<Item = u64> {
    let jobs = (0..32u64).flat_map(move |job| tasks.iter().map(move |task| (job, task)));
    jobs.take(512).filter_map(|(job, t)| t.period.checked_mul(job)?.checked_add(t.deadline))
}

/// The demand due by `t`; at most [`u64::MAX`], which is beyond every `t`. O(n).
#[must_use]
pub fn due(tasks: &[Times], t: u64) -> u64 {
    let mut sum = 0u64;
    for task in tasks {
        if task.deadline <= t {
            sum = sum.saturating_add(((t - task.deadline) / task.period + 1).saturating_mul(task.runtime));
        }
    }
    sum
}

/// The last absolute deadline before `t`. O(n).
#[must_use]
pub fn deadline_before(tasks: &[Times], t: u64) -> Option<u64> {
    let last = |k: &Times| (k.deadline < t).then(|| k.deadline + (t - k.deadline - 1) / k.period * k.period);
    tasks.iter().filter_map(last).max()
}

/// Tests tasks on one CPU. Exact for tasks that can be released together, sufficient for others.
///
/// O(n) for each point that it looks at; these are few unless the utilisation is within 10^-4 of 1.
#[must_use]
pub fn demand(tasks: &[Times]) -> Demand {
    demand_with(tasks, &mut Effort::default())
}

/// The same, with the rest of an effort that several tests share.
#[must_use]
pub fn demand_with(tasks: &[Times], effort: &mut Effort) -> Demand {
    if !effort.spend(tasks.len()) {
        return Demand::Unknown;
    }
    let (mut low, mut high, mut early) = (0u64, 0u64, false);
    for t in tasks {
        if t.runtime > t.deadline {
            return Demand::Above { at: t.deadline, due: t.runtime };
        }
        early |= t.deadline < t.period;
        // In units of 2^-32, which tells all but borderline sets apart.
        let share = if t.runtime < 1 << 32 {
            (t.runtime << 32) / t.period
        } else {
            u64::try_from((u128::from(t.runtime) << 32) / u128::from(t.period)).unwrap_or(u64::MAX)
        };
        low = low.saturating_add(share);
        high = high.saturating_add(share).saturating_add(1);
    }
    if low > 1 << 32 {
        return Demand::Overload;
    }
    let borderline = high > 1 << 32;
    if borderline && utilisation(tasks).compare_whole(1) == Ordering::Greater {
        return Demand::Overload;
    }
    if !early {
        return Demand::Within;
    }
    let end = if high < (1 << 32) - (1 << 16) { slope_bound(tasks, high) } else { fine_slope_bound(tasks) };
    search(tasks, end, effort, |due| due)
}

/// The same for runtimes that are all multiplied by `p / q`, with which the utilisation is at most 1. What is due is rounded up, to
/// no more than [`u64::MAX`], which changes no answer: the deadlines are whole.
///
/// # Panics
/// When `q` is zero.
#[must_use]
pub fn demand_grown(tasks: &[Times], (p, q): (u64, u64), effort: &mut Effort) -> Demand {
    if tasks.iter().all(|t| t.deadline >= t.period) {
        return Demand::Within;
    }
    let grown = |due: u64| match due {
        u64::MAX => u64::MAX,
        _ => u64::try_from((u128::from(due) * u128::from(p)).div_ceil(u128::from(q))).unwrap_or(u64::MAX),
    };
    search(tasks, grown_slope_bound(tasks, p, q), effort, grown)
}

/// The bound of the slope for such runtimes; `None` when it cannot be told. O(n).
fn grown_slope_bound(tasks: &[Times], p: u64, q: u64) -> Option<u64> {
    let share = |t: &Times| (u128::from(t.runtime) << 64).div_ceil(u128::from(t.period));
    let high = tasks.iter().try_fold(0u128, |sum, t| sum.checked_add(share(t)))?;
    // In units of 2^-64 / q.
    let left = (u128::from(q) << 64).checked_sub(high.checked_mul(p.into())?)?;
    let excess = u128::from(excess(tasks)?) * u128::from(p);
    // As many digits as there is room for; the divisor is rounded down.
    let shift = excess.leading_zeros().min(64);
    let bound = (excess << shift).div_ceil(Some(left >> (64 - shift)).filter(|left| *left > 0)?);
    Some(u64::try_from(bound).ok()?.max(latest_start(tasks)))
}

/// Beyond this no interval is too short. The utilisation is at most `high`, in units of 2^-32, and below 1.
fn slope_bound(tasks: &[Times], high: u64) -> Option<u64> {
    let excess = excess(tasks)?;
    let bound = match excess.checked_mul(1 << 32) {
        Some(scaled) => scaled.div_ceil((1 << 32) - high),
        None => u64::try_from((u128::from(excess) << 32).div_ceil((1 << 32) - u128::from(high))).ok()?,
    };
    Some(bound.max(latest_start(tasks)))
}

/// The same for a utilisation so close to 1 that it takes more digits, but no more than that; `None` when it cannot be told from 1.
/// O(n).
#[must_use]
pub fn fine_slope_bound(tasks: &[Times]) -> Option<u64> {
    let mut high = 0u128;
    for t in tasks {
        high += (u128::from(t.runtime) << 64).div_ceil(u128::from(t.period));
    }
    let left = (1u128 << 64).checked_sub(high).filter(|left| *left > 0)?;
    let bound = (u128::from(excess(tasks)?) << 64).div_ceil(left);
    Some(u64::try_from(bound).ok()?.max(latest_start(tasks)))
}

/// How far the demand can lie above the line of the utilisation: the sum of (T - D) C / T, rounded up.
fn excess(tasks: &[Times]) -> Option<u64> {
    let mut sum = 0u128;
    for t in tasks.iter().filter(|t| t.deadline < t.period) {
        sum += scaled_up(t.period - t.deadline, t.runtime, t.period);
    }
    u64::try_from(sum).ok()
}

fn latest_start(tasks: &[Times]) -> u64 {
    tasks.iter().map(|t| t.deadline.saturating_sub(t.period)).max().unwrap_or(0)
}

/// QPA from the end of the intervals that matter, at most `slope` or the end of the busy period. `grown` is what the work of these
/// tasks comes to: no function that falls, and none of it is none.
fn search(tasks: &[Times], slope: Option<u64>, effort: &mut Effort, grown: impl Fn(u64) -> u64) -> Demand {
    let n = tasks.len();
    let mut end = slope.unwrap_or(u64::MAX);
    let longest = tasks.iter().map(|t| t.deadline).max().unwrap_or(0);
    // The busy period takes a pass over the tasks per step; it pays only where the other bound is far.
    if end / 16 > longest {
        let mut length = grown(tasks.iter().fold(0u64, |sum, t| sum.saturating_add(t.runtime)));
        loop {
            let work = |sum: u64, t: &Times| sum.saturating_add(length.div_ceil(t.period).saturating_mul(t.runtime));
            let next = grown(tasks.iter().fold(0, work));
            if next == length {
                end = end.min(length);
                break;
            }
            length = next;
            if length >= end || length > HORIZON || !effort.spend(n) {
                break;
            }
        }
    }
    if end > HORIZON {
        return Demand::Unknown;
    }
    let first = tasks.iter().map(|t| t.deadline).min().unwrap_or(0);
    let Some(mut t) = deadline_before(tasks, end + 1) else { return Demand::Within };
    loop {
        let wanted = grown(due(tasks, t));
        match wanted.cmp(&t) {
            Ordering::Greater => return Demand::Above { at: t, due: wanted },
            _ if wanted <= first => return Demand::Within,
            Ordering::Less => t = wanted,
            Ordering::Equal => match deadline_before(tasks, t) {
                Some(before) => t = before,
                None => return Demand::Within,
            },
        }
        if !effort.spend(n) {
            return Demand::Unknown;
        }
    }
}

/// How the deadline of a piece depends on its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// It has this relative deadline.
    Fixed(u64),
    /// Its deadline is its length: once released, it runs at once and to its end.
    Tight,
}

/// The longest piece of work, at most `most`, that can be added to `tasks` every `period` with all deadlines still met.
///
/// Starts from the length that the utilisation leaves and lowers it by what the demand at each point found allows, so the
/// result is exact: a search of only the first deadlines, as EDF-WM's paper suggests, is too generous. `None` when the
/// search would take too long. `tasks` must be schedulable by themselves.
#[must_use]
pub fn largest_piece(tasks: &[Times], window: Window, period: u64, most: u64) -> Option<u64> {
    largest_piece_with(tasks, window, period, most, &mut Effort::default())
}

/// The same, with the rest of an effort that several tests share.
#[must_use]
pub fn largest_piece_with(tasks: &[Times], window: Window, period: u64, most: u64, effort: &mut Effort) -> Option<u64> {
    if !effort.spend(SUM * tasks.len()) {
        return None;
    }
    let mut used = Sum::default();
    for t in tasks {
        used.add(u128::from(t.runtime) * u128::from(period), t.period);
    }
    // One below what may round to too much; the test itself decides about the last unit.
    let used = u64::try_from(used.ceiling()).unwrap_or(u64::MAX);
    let mut length = most.min(period.saturating_sub(used.saturating_sub(1)));
    if let Window::Fixed(deadline) = window {
        length = length.min(deadline);
    }
    let deadline = |length: u64| match window {
        Window::Fixed(deadline) => deadline,
        Window::Tight => length,
    };
    // The time free by `at`, shared among the jobs of the piece that are due by then if it has this length. A shorter piece has no
    // fewer of them, so no longer one fits.
    let share = |length: u64, at: u64| {
        let due_by = at.checked_sub(deadline(length))?;
        Some(at.saturating_sub(due(tasks, at)) / (due_by / period + 1))
    };
    // The first deadlines bind most often, and close to full load the search for the one that does is long.
    let own = Times { runtime: 1, deadline: deadline(length), period };
    for at in early_deadlines(&[own]).chain(early_deadlines(tasks)) {
        if !effort.spend(tasks.len()) {
            return None;
        }
        length = share(length, at).map_or(length, |share| length.min(share));
    }
    let mut all = tasks.to_vec();
    let piece = all.len();
    while length > 0 {
        let added = Times { runtime: length, deadline: deadline(length), period };
        all.truncate(piece);
        all.push(added);
        match demand_with(&all, effort) {
            Demand::Within => return Some(length),
            Demand::Unknown => return None,
            Demand::Overload => length -= 1,
            Demand::Above { at, .. } => {
                // Without a job of the piece the others alone are too much, and nothing fits beside them.
                let Some(share) = share(length, at) else { return Some(0) };
                length = (length - 1).min(share);
            }
        }
    }
    Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn times(runtime: u64, deadline: u64, period: u64) -> Times {
        Times { runtime, deadline, period }
    }

    #[test]
    fn long_runtimes_overload_as_short_ones_do() {
        let demand = |unit: u64| {
            let tasks = [times(3 * unit, 4 * unit, 4 * unit), times(2 * unit, 4 * unit, 4 * unit)];
            demand_with(&tasks, &mut Effort::default())
        };
        assert_eq!((demand(1), demand(1 << 40)), (Demand::Overload, Demand::Overload));
    }

    #[test]
    fn grown_runtimes_need_not_be_whole() {
        let tasks = [times(2, 3, 6), times(1, 6, 6)];
        let grown = |p, q| demand_grown(&tasks, (p, q), &mut Effort::default());
        assert_eq!(grown(3, 2), Demand::Within);
        assert_eq!(grown(3_000_001, 2_000_000), Demand::Above { at: 3, due: 4 });
        assert_eq!(grown(u64::MAX / 2, u64::MAX / 3), Demand::Within);
    }

    /// The search ends at a bound. Without one, each interval up to the hyperperiod and the deadlines is looked at.
    #[test]
    fn the_bound_of_grown_runtimes_leaves_out_no_interval() {
        let all = |period: u64| (1..=period / 2).flat_map(move |c| (c..=period).map(move |d| times(c, d, period)));
        let single: Vec<Times> = [3, 4, 7, 10].into_iter().flat_map(all).collect();
        let (mut above, mut within) = (0, 0);
        for (p, q) in [(1, 1), (5, 4), (3, 2)] {
            for (a, b) in single.iter().flat_map(|a| single.iter().map(move |b| (*a, *b))) {
                let load = (a.runtime * b.period + b.runtime * a.period) * p;
                if load > a.period * b.period * q || a.deadline.min(b.deadline) < 1 {
                    continue;
                }
                let due = |t: &Times, at: u64| {
                    (at + t.period).checked_sub(t.deadline).map_or(0, |n| n / t.period * t.runtime)
                };
                let late = |at: &u64| ((due(&a, *at) + due(&b, *at)) * p).div_ceil(q) > *at;
                let first = (1..=2 * a.period * b.period).find(late);
                match (demand_grown(&[a, b], (p, q), &mut Effort::default()), first) {
                    (Demand::Within, None) => within += 1,
                    (Demand::Above { .. }, Some(_)) => above += 1,
                    (found, first) => panic!("{a:?} {b:?} {p}/{q}: {found:?}, and {first:?}"),
                }
            }
        }
        assert!(above > 1_000 && within > 1_000, "{above} {within}");
    }

    #[test]
    fn full_load_with_tight_deadlines() {
        assert_eq!(demand(&[times(1, 2, 2), times(2, 4, 4)]), Demand::Within);
        assert_eq!(demand(&[times(1, 1, 2), times(2, 4, 4)]), Demand::Within);
        assert_eq!(demand(&[times(1, 1, 2), times(2, 3, 4)]), Demand::Above { at: 3, due: 4 });
        assert_eq!(demand(&[times(1, 2, 2), times(3, 4, 4)]), Demand::Overload);
        assert_eq!(demand(&[times(3, 2, 9)]), Demand::Above { at: 2, due: 3 });
        assert_eq!(demand(&[]), Demand::Within);
    }

    #[test]
    fn the_first_deadlines_alone_allow_too_large_a_piece() {
        // The paper's shortcut looks at 50 only, where 35 fits; by 60 both jobs of the task are due.
        let there = [times(15, 30, 30)];
        assert_eq!(50 - due(&there, 50), 35);
        assert_eq!(largest_piece(&there, Window::Fixed(50), 100, 50), Some(30));
        assert_eq!(largest_piece(&[], Window::Fixed(50), 100, 60), Some(50));
        assert_eq!(largest_piece(&[times(30, 30, 30)], Window::Fixed(50), 100, 50), Some(0));
    }

    #[test]
    fn a_tight_piece_runs_ahead_of_all() {
        assert_eq!(largest_piece(&[times(5, 10, 10)], Window::Tight, 10, 10), Some(5));
        // In 0..20 the first job and two pieces have to fit before 10 and 20.
        assert_eq!(largest_piece(&[times(2, 4, 10), times(2, 8, 10)], Window::Tight, 10, 10), Some(2));
    }
}
