//! Fixed priorities on one CPU: utilisation bounds and response times.
//!
//! * `ll`: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment", JACM 20(1), 1973.
//! * `hyperbolic`: Bini, Buttazzo, Buttazzo, "Rate Monotonic Analysis: The Hyperbolic Bound", IEEE TC 52(7), 2003.
//! * Response times: [`takt_core::policies::scope::response_times`], by which placement accepts tasks, too. [`responses`] is the one
//!   analysis of a set; `takt check`, `takt analyze` and the growth of runtimes use it.

use super::growth::{Factor, Growth, less};
use crate::utilisation::{Utilisation, gcd};
pub use takt_core::policies::scope::response_times::{Above, Peer, Priorities, Search, response};
use takt_core::policies::split::demand::{Effort, HORIZON, Times as Task, utilisation};
use takt_core::policies::split::exact::{Big, Sum};

/// Whether the utilisation is within n (2^(1/n) - 1), in which case rate-monotonic priorities meet all deadlines at the ends of
/// the periods. `None` within 2^-40 of the bound.
pub(crate) fn liu_layland(tasks: &[Task]) -> Option<bool> {
    let n = tasks.len() as u64;
    let load = utilisation(tasks);
    if n == 1 {
        return Some(load.compare_whole(1).is_le());
    }
    // Lower and upper bound of 2^(1/n) - 1 in units of 2^-56.
    let (low, high) = root_of_two(n);
    let scaled = |bound: u64| {
        let mut sum = Sum::default();
        // U <= n b / 2^56 is 2^56 U <= n b.
        tasks.iter().for_each(|t| sum.add(u128::from(t.runtime) << 56, t.period));
        sum.compare_whole(u128::from(n) * u128::from(bound)).is_le()
    };
    match (scaled(low), scaled(high)) {
        (true, _) => Some(true),
        (_, false) => Some(false),
        _ => None,
    }
}

/// Bounds of 2^(1/n) - 1 in units of 2^-56, a few units apart.
fn root_of_two(n: u64) -> (u64, u64) {
    const ONE: u64 = 1 << 56;
    // Whether (1 + x)^n is at most 2 for sure, with every product rounded up; or above 2 for sure, rounded down.
    let power = |x: u64, up: bool| {
        let product = |a: u128, b: u128| {
            let exact = a * b;
            ((exact >> 56) + u128::from(up && exact & u128::from(ONE - 1) != 0)).min(4 * u128::from(ONE))
        };
        let (mut base, mut result, mut rest) = (u128::from(ONE + x), u128::from(ONE), n);
        while rest > 0 {
            if rest & 1 == 1 {
                result = product(result, base);
            }
            base = product(base, base);
            rest >>= 1;
        }
        result
    };
    let largest = |up: bool| {
        let (mut yes, mut no) = (0, ONE + 1);
        while no - yes > 1 {
            let middle = yes + (no - yes) / 2;
            if power(middle, up) <= 2 * u128::from(ONE) {
                yes = middle;
            } else {
                no = middle;
            }
        }
        yes
    };
    (largest(true), largest(false) + 1)
}

/// Whether the product of U + 1 is at most 2, in which case rate-monotonic priorities meet all deadlines at the ends of the
/// periods. `None` for too many tasks. O(n²) for long products.
pub(crate) fn hyperbolic(tasks: &[Task]) -> Option<bool> {
    let (mut grown, mut periods) = (Big::one(), Big::one().times_word(2));
    let mut effort = Effort::default();
    for (words, t) in (1..).zip(tasks) {
        if !effort.spend(words) {
            return None;
        }
        let common = gcd(u128::from(t.runtime), u128::from(t.period)) as u64;
        grown = grown.times_word((t.runtime + t.period) / common);
        periods = periods.times_word(t.period / common);
    }
    Some(grown <= periods)
}

/// The finding of a response-time analysis about a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Response {
    /// It has no deadline, and is not analysed.
    Undated,
    /// Its worst response time, which is within its deadline.
    Within(u64),
    /// It responds late: its worst response time, or nothing where that takes too long to be searched.
    Late(Option<u64>),
    /// The utilisation of the task and those before it is above 1: its backlog grows for ever.
    Endless,
    /// That utilisation is 1, which leaves no time for what is added to it: a busy period never ends.
    Full,
    /// The search would take too long.
    Unknown,
}

/// Tasks of one CPU as [`responses`] sees them.
#[derive(Clone, Copy)]
pub struct Ranked<'a> {
    /// Their times. A deadline of [`u64::MAX`] is none.
    pub times: &'a [Task],
    /// Which goes before which.
    pub priorities: &'a Priorities,
    /// Release jitter by task; empty for none.
    pub jitter: &'a [u64],
    /// By task for how long less important ones can block it; empty for not at all.
    pub blocking: &'a [u64],
}

impl Ranked<'_> {
    fn jitter(&self, task: usize) -> u64 {
        self.jitter.get(task).copied().unwrap_or(0)
    }

    fn blocking(&self, task: usize) -> u64 {
        self.blocking.get(task).copied().unwrap_or(0)
    }

    /// Task `i` as those below see it.
    pub(crate) fn above(&self, i: usize) -> Above {
        Above { jitter: self.jitter(i), ..Above::from(&self.times[i]) }
    }

    /// The utilisation of a task and those before it where a busy period of the task need not end.
    fn endless(&self, level: Utilisation, task: usize, above: &[Above]) -> Option<Response> {
        let added = self.blocking(task) > 0 || above.iter().any(|o| o.jitter > 0);
        match level.at_most(1) {
            Some(false) => Some(Response::Endless),
            None => Some(Response::Unknown),
            Some(true) if added && level.fraction() == Some((1, 1)) => {
                let mut own = Utilisation::default();
                own.add(self.times[task].runtime, self.times[task].period);
                above.iter().for_each(|o| own.add(o.runtime, o.period));
                (own.fraction() == Some((1, 1))).then_some(Response::Full)
            }
            Some(true) => None,
        }
    }
}

/// Worst response times under fixed priorities, by task.
///
/// Exact without jitter and blocking for tasks that can be released together if [`Priorities::is_settled`], else sufficient.
/// Pseudo-polynomial; O(n²) steps at least.
#[must_use]
pub fn responses(set: Ranked<'_>) -> Vec<Response> {
    let Ranked { times, priorities, .. } = set;
    let mut found = vec![Response::Undated; times.len()];
    let (mut effort, mut last_effort) = (Effort::default(), Effort::default());
    let (mut level, mut summed) = (Utilisation::default(), 0);
    let mut above: Vec<Above> = Vec::with_capacity(times.len());
    // The place before, and the end of the first job there.
    let mut before: Option<(usize, u64)> = None;
    for place in priorities.places() {
        let i = priorities.order()[place];
        // Among equals the last one comes first, so this is the utilisation of it and those before it.
        while summed < priorities.level(place) {
            let t = &times[priorities.order()[summed]];
            level.add(t.runtime, t.period);
            summed += 1;
        }
        if times[i].deadline == u64::MAX {
            before = None;
            continue;
        }
        above.clear();
        above.extend(priorities.above(place).map(|o| set.above(o)));
        if let Some(endless) = set.endless(level, i, &above) {
            (found[i], before) = (endless, None);
            continue;
        }
        // All that goes before the place before goes before this one, and that one does, too: so its first job ends later, by its
        // runtime at least.
        let follows = |at: usize| at + 1 == place && above.len() == place && priorities.level(at) == place;
        let first = before.filter(|(at, _)| follows(*at) && set.blocking.is_empty());
        let first = first.map_or(0, |(_, end)| end.saturating_add(times[i].runtime));
        let search = Search { blocked: set.blocking(i), first, until_late: false };
        before = None;
        found[i] = match response(&times[i], above.iter().copied(), search, &mut effort) {
            Some(response) => {
                before = Some((place, response.first));
                if response.worst > times[i].deadline {
                    Response::Late(Some(response.worst))
                } else {
                    Response::Within(response.worst)
                }
            }
            None => {
                // A search that ends with the first late job takes fewer steps.
                let search = Search { until_late: true, ..search };
                match response(&times[i], above.iter().copied(), search, &mut last_effort) {
                    Some(response) if response.worst > times[i].deadline => Response::Late(None),
                    Some(response) => Response::Within(response.worst),
                    None => Response::Unknown,
                }
            }
        };
    }
    found
}

/// By what factor every runtime may grow under these priorities, for deadlines within the periods. `None` without tasks.
///
/// A task is in time if by some release of a more important one, or by its deadline, all that must run until then fits
/// (Lehoczky, Sha, Ding, "The Rate Monotonic Scheduling Algorithm: Exact Characterization and Average Case Behavior", RTSS
/// 1989); the factor is the best of these points for each task, and the least of these over the tasks. Where there are too many
/// points, some of them give a bound from below, and the other tasks one from above.
#[must_use]
pub fn growth(tasks: &[Task], priorities: &Priorities) -> Option<Growth> {
    // The first bound holds for sure, the second is kept by no factor above it.
    let (mut kept, mut least): (Option<Factor>, Option<Factor>) = (None, None);
    let lower = |bound: &mut Option<Factor>, to| {
        if bound.is_none_or(|bound| less(to, bound)) {
            *bound = Some(to);
        }
    };
    let mut effort = Effort::default();
    for (place, &i) in priorities.order().iter().enumerate() {
        let task = &tasks[i];
        let above: Vec<Task> = priorities.above(place).map(|o| tasks[o]).collect();
        // The most that just fits by a point in time; none where it cannot be counted.
        let filled = |at: u64| {
            let add = |work: u64, o: &Task| work.checked_add(at.div_ceil(o.period).checked_mul(o.runtime)?);
            above.iter().try_fold(task.runtime, add).map(|work| (at, work))
        };
        let better = |a: Factor, b: Factor| if less(a, b) { b } else { a };
        // The last points are mostly good enough for a task that others limit.
        let looked_at = if effort.spend((above.len() + 1) * (above.len() + 1)) { above.len() } else { 0 };
        let last = above[..looked_at].iter().map(|o| task.deadline / o.period * o.period).filter(|at| *at > 0);
        let mut best = last.chain([task.deadline]).filter_map(filled).reduce(better).unwrap_or((0, 1));
        if least.is_some_and(|least| !less(best, least)) {
            continue;
        }
        let releases = above.iter().flat_map(|o| (1..=task.deadline / o.period).map(move |k| k * o.period));
        let mut whole = true;
        for at in releases.chain([task.deadline]) {
            let point = if effort.spend(above.len() + 1) { filled(at) } else { None };
            whole &= point.is_some();
            match point {
                Some(point) => best = better(best, point),
                None => break,
            }
        }
        lower(&mut kept, best);
        if whole {
            lower(&mut least, best);
        }
    }
    // Without a task whose points are all known, its runtime alone is the bound.
    let alone = || tasks.iter().map(|t| (t.deadline, t.runtime)).reduce(|a, b| if less(b, a) { b } else { a });
    let (mut kept, mut least) = (kept?, least.or_else(alone)?);
    if less(kept, least) {
        narrow(tasks, priorities, &mut kept, &mut least);
    }
    Some(Growth::reduced(kept, least))
}

/// Brings the bounds of a factor closer together by response times, which take fewer steps than there are points. The factors tried
/// are multiples of a power of two, so that in finer units the runtimes are whole.
fn narrow(tasks: &[Task], priorities: &Priorities, kept: &mut Factor, least: &mut Factor) {
    const DIGITS: u32 = 20;
    let longest = tasks.iter().map(|t| t.period.max(t.deadline)).max().unwrap_or(1);
    let unit = 1u64 << (HORIZON / longest).max(1).ilog2().min(DIGITS);
    let units = |(p, q): Factor| u128::from(p) * u128::from(unit) / u128::from(q);
    let (mut yes, mut no) = (units(*kept), units(*least) + 1);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        let grown = |t: &Task| {
            let runtime = u64::try_from(u128::from(t.runtime) * middle).ok().filter(|c| *c <= HORIZON)?;
            Some(Task { runtime, deadline: t.deadline * unit, period: t.period * unit })
        };
        let (Ok(numerator), Some(grown)) = (u64::try_from(middle), tasks.iter().map(grown).collect::<Option<Vec<_>>>())
        else {
            return;
        };
        let trial = (numerator, unit);
        let found = responses(Ranked { times: &grown, priorities, jitter: &[], blocking: &[] });
        if found.iter().any(|r| matches!(r, Response::Late(_) | Response::Endless)) {
            no = middle;
            *least = if less(trial, *least) { trial } else { *least };
        } else if found.contains(&Response::Unknown) {
            return;
        } else {
            yes = middle;
            *kept = if less(*kept, trial) { trial } else { *kept };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(runtime: u64, deadline: u64, period: u64) -> Task {
        Task { runtime, deadline, period }
    }

    #[test]
    fn the_bound_of_two_tasks() {
        // 2 (2^(1/2) - 1) = 0.828427...
        assert_eq!(liu_layland(&[task(414, 1000, 1000); 2]), Some(true));
        assert_eq!(liu_layland(&[task(415, 1000, 1000); 2]), Some(false));
        assert_eq!(liu_layland(&[task(7, 7, 7)]), Some(true));
        let (low, high) = root_of_two(10_000);
        assert!(high - low < 1 << 20 && low > 0, "{low} {high}");
        assert_eq!(liu_layland(&vec![task(69, 1_000_000, 1_000_000); 10_000]), Some(true));
        assert_eq!(liu_layland(&vec![task(70, 1_000_000, 1_000_000); 10_000]), Some(false));
    }

    #[test]
    fn the_hyperbolic_bound_is_wider() {
        // 1.5 * 4/3 = 2 exactly, and 1/2 + 1/3 is above 0.8284.
        let tasks = [task(1, 2, 2), task(1, 3, 3)];
        assert_eq!((hyperbolic(&tasks), liu_layland(&tasks)), (Some(true), Some(false)));
        assert_eq!(hyperbolic(&[task(501, 1000, 1000), task(1, 3, 3)]), Some(false));
        assert_eq!(hyperbolic(&vec![task(1, 2, 2); 10_000]), Some(false));
    }

    fn found(times: &[Task], priorities: &Priorities, blocking: &[u64]) -> Vec<Response> {
        responses(Ranked { times, priorities, jitter: &[], blocking })
    }

    /// RT-Thread pull request 489: (2, 6), (2, 7), (2, 8), (2, 20), of which the last one responds within 24.
    #[test]
    fn a_late_response_is_the_response_and_not_an_iterate() {
        let tasks = [task(2, 6, 6), task(2, 7, 7), task(2, 8, 8), task(2, 20, 20)];
        let order = ordered(&[0, 1, 2, 3]);
        let expected = [Response::Within(2), Response::Within(4), Response::Within(6), Response::Late(Some(24))];
        assert_eq!(found(&tasks, &order, &[]), expected);
    }

    #[test]
    fn equals_wait_for_each_other() {
        let tasks = [task(1, 2, 8), task(1, 1, 2), task(1, 4, 8)];
        let keys = |beats: [i128; 3]| {
            let peer = |i: usize| Peer { beat: Some((8, beats[i])), deadline: Some(tasks[i].deadline.into()) };
            Priorities::by_key(3, |i| tasks[i].period, peer)
        };
        let together = keys([0; 3]);
        assert_eq!(found(&tasks, &together, &[]), [2, 1, 4].map(Response::Within));
        assert!(together.is_settled());
        let apart = keys([0, 0, 3]);
        assert_eq!(found(&tasks, &apart, &[])[0], Response::Late(Some(4)));
        assert!(!apart.is_settled());
        let places: Vec<Vec<usize>> = (0..3).map(|place| apart.above(place).collect()).collect();
        assert_eq!(places, [vec![], vec![1, 2], vec![1, 0]]);
    }

    #[test]
    fn equals_with_one_deadline_are_settled_by_the_last() {
        let tasks = [task(2, 6, 7), task(1, 6, 9), task(2, 6, 6)];
        let order = |deadline: Option<i128>| {
            Priorities::by_key(3, |_| 0, |i| Peer { beat: Some((tasks[i].period.into(), 0)), deadline })
        };
        assert_eq!(found(&tasks, &order(Some(6)), &[]), [Response::Within(5); 3]);
        assert!(order(Some(6)).is_settled() && !order(None).is_settled());
        // Released together, the last one is late.
        let longer = [tasks[0], task(3, 6, 9), tasks[2]];
        assert!(matches!(found(&longer, &order(Some(6)), &[])[2], Response::Late(Some(_))));
    }

    #[test]
    fn a_later_job_can_be_the_worst() {
        // Lehoczky's set: the first job of the second task takes 114, a later one 118.
        let tasks = [task(26, 70, 70), task(62, 118, 100)];
        let order = ordered(&[0, 1]);
        assert_eq!(found(&tasks, &order, &[]), [26, 118].map(Response::Within));
        let short = [tasks[0], task(62, 117, 100)];
        assert_eq!(found(&short, &order, &[]), [Response::Within(26), Response::Late(Some(118))]);
    }

    /// Eight thousand tasks take as many steps as the limit allows, because each search begins where the one before ended.
    #[test]
    fn thousands_of_tasks_are_analysed() {
        let tasks: Vec<Task> = (0..8_000).map(|i| task(50 + i % 7, 1_000_000 + 100 * i, 1_000_000 + 100 * i)).collect();
        let order = ordered_by_period(&tasks);
        assert!(found(&tasks, &order, &[]).iter().all(|r| matches!(r, Response::Within(_))));
    }

    fn ordered_by_period(tasks: &[Task]) -> Priorities {
        Priorities::by_key(tasks.len(), |i| tasks[i].period, |_| Peer::default())
    }

    /// Tasks in this order.
    fn ordered(order: &[usize]) -> Priorities {
        let key = |i| order.iter().position(|o| *o == i).unwrap() as u64;
        Priorities::by_key(order.len(), key, |_| Peer::default())
    }

    #[test]
    fn response_times_of_a_textbook_set() {
        let tasks = [task(1, 4, 4), task(2, 6, 6), task(3, 12, 12)];
        let order = ordered(&[0, 1, 2]);
        assert_eq!(found(&tasks, &order, &[]), [1, 3, 10].map(Response::Within));
        assert_eq!(found(&tasks, &order, &[2, 1, 0]), [3, 4, 10].map(Response::Within));
        let reversed = [Response::Late(Some(6)), Response::Within(5), Response::Within(3)];
        assert_eq!(found(&tasks, &ordered(&[2, 1, 0]), &[]), reversed);
        assert_eq!(growth(&tasks, &order), Some(Growth::exact((6, 5))));
    }

    #[test]
    fn a_period_of_hours_beside_short_ones_leaves_no_growth_unsaid() {
        // Eight thousand hours in microseconds: too many releases to look at each. The second task is the limit.
        let long = task(1_000, 28_800_000_000_000, 28_800_000_000_000);
        let growth = |others: [Task; 3]| {
            let tasks = [others[0], others[1], others[2], long];
            growth(&tasks, &ordered(&[0, 1, 2, 3]))
        };
        assert_eq!(growth([task(2, 4, 4), task(2, 6, 6), task(1, 99, 99)]), Some(Growth::exact((1, 1))));
        // All others together take five sixths of the time, exactly; the last deadline is the best point, but that takes a search.
        let found = growth([task(1, 4, 4), task(2, 6, 6), task(3, 12, 12)]);
        assert_eq!(found, Some(Growth::between((28_800_000_000, 24_000_000_001), (6, 5))));
    }

    #[test]
    fn response_times_narrow_the_bounds_of_many_tasks() {
        // Too many releases to look at each, and points far from the best for the last of them.
        let tasks: Vec<Task> =
            (0..1_000).map(|i| task(2_000 + i, 9_000_000 + 7_001 * i, 10_000_000 + 9_973 * i)).collect();
        let order = ordered(&(0..1_000).collect::<Vec<_>>());
        let Growth { at_least, at_most } = growth(&tasks, &order).unwrap();
        let parts = |(p, q): (u128, u128)| p * 1_000_000 / q;
        assert!(parts(at_most) - parts(at_least) <= 2, "{at_least:?} {at_most:?}");
    }
}
