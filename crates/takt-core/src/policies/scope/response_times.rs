//! Response times under fixed priorities on one CPU.
//!
//! Joseph and Pandya, "Finding Response Times in a Real-Time System", The Computer Journal 29(5), 1986; for deadlines beyond the
//! period, Lehoczky, "Fixed Priority Scheduling of Periodic Task Sets with Arbitrary Deadlines", RTSS 1990; with blocking,
//! Audsley and others, "Applying New Scheduling Theory to Static Priority Pre-emptive Scheduling", Software Engineering Journal
//! 8(5), 1993. The upper bound that spares most searches: Bini, Nguyen, Richard, Baruah, "A Response-Time Bound in
//! Fixed-Priority Scheduling with Arbitrary Deadlines", IEEE TC 58(2), 2009.

use crate::policies::split::demand::{Effort, HORIZON, Times};
use crate::policies::split::exact::scaled_up;
use alloc::vec::Vec;
use core::ops::Range;

/// The rule between tasks of equal priority.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Period and first release of a task whose jobs come at the period exactly.
    pub beat: Option<(i128, i128)>,
    /// Its relative deadline, if that is within the period.
    pub deadline: Option<i128>,
}

impl Peer {
    /// The beat of a task whose jobs, as long as they are in time, meet only those jobs of others with the same beat that were
    /// released with them.
    fn in_step(self) -> Option<(i128, i128)> {
        self.beat.filter(|_| self.deadline.is_some())
    }

    /// Whether the jobs of both tasks always come together.
    fn comes_with(self, other: Peer) -> bool {
        self.in_step().is_some() && self.in_step() == other.in_step()
    }
}

/// Whether the task at `other` goes before the one of equal priority at `place`, or can.
fn goes_before(other: usize, its: Peer, place: usize, own: Peer) -> bool {
    other != place && (other < place || !its.comes_with(own))
}

/// The order of tasks.
///
/// Between equals the earlier release goes first, and then the earlier task. So of two tasks whose jobs always come together the
/// earlier one goes first; otherwise each is taken to wait for the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Priorities {
    /// The tasks' positions, the most important first, and equals in their own order.
    order: Vec<usize>,
    /// For each place in `order`, the places of all tasks that are as important as the one there.
    tied: Vec<Range<usize>>,
    /// For each place what decides between the task there and those of equal priority.
    peers: Vec<Peer>,
    /// Whether nothing is lost by that waiting.
    settled: bool,
}

impl Priorities {
    /// The lower the key, the more important. O(n log n).
    #[must_use]
    pub fn by_key(tasks: usize, key: impl Fn(usize) -> u64, peer: impl Fn(usize) -> Peer) -> Priorities {
        let mut order: Vec<usize> = (0..tasks).collect();
        order.sort_by_key(|&i| key(i));
        let peers: Vec<Peer> = order.iter().map(|&i| peer(i)).collect();
        let (mut tied, mut settled) = (Vec::with_capacity(tasks), true);
        while tied.len() < tasks {
            let start = tied.len();
            let equal = order[start..].iter().take_while(|&&i| key(i) == key(order[start])).count();
            let group = start..start + equal;
            let head = peers[start];
            let alike = |p: &Peer| p.comes_with(head);
            let due_alike = |p: &Peer| p.deadline.is_some() && p.deadline == head.deadline;
            let group_peers = &peers[group.clone()];
            settled &= equal == 1 || group_peers.iter().all(alike) || group_peers.iter().all(due_alike);
            tied.resize(start + equal, group);
        }
        Priorities { order, tied, peers, settled }
    }

    /// Whether the task at `other` goes before the one at `place`, or can.
    fn goes_before(&self, other: usize, place: usize) -> bool {
        let Range { start, end } = self.tied[place];
        other < start || other < end && goes_before(other, self.peers[other], place, self.peers[place])
    }

    /// The tasks' positions, the most important first, and equals in their own order.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Positions of the tasks that go before the one at `place`, or can. O(n).
    pub fn above(&self, place: usize) -> impl Iterator<Item = usize> {
        (0..self.tied[place].end).filter(move |&p| self.goes_before(p, place)).map(|p| self.order[p])
    }

    /// How many tasks are no less important than the one at `place`.
    #[must_use]
    pub fn level(&self, place: usize) -> usize {
        self.tied[place].end
    }

    /// Positions of the other tasks. O(n).
    pub fn below(&self, place: usize) -> impl Iterator<Item = usize> {
        let rest = self.tied[place].start..self.order.len();
        rest.filter(move |&p| p != place && !self.goes_before(p, place)).map(|p| self.order[p])
    }

    /// Whether response times by these priorities refuse no tasks that can be released together and meet their deadlines then.
    ///
    /// Those that wait for each other must have the same deadline, which is within their periods. Then none comes twice before it
    /// is over, and the last of them does wait for all the others when all are released together.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Places in an order in which a task comes before those of equal priority that it may have to wait for, when all are released
    /// together.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.order.len()).map(|place| self.tied[place].start + self.tied[place].end - 1 - place)
    }
}

/// A task above another one, as the response time of that one depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Above {
    /// Worst-case execution time C.
    pub runtime: u64,
    /// Least time T between two releases.
    pub period: u64,
    /// Release jitter J: by so much later than its release a job may begin to interfere.
    pub jitter: u64,
}

impl From<&Times> for Above {
    fn from(task: &Times) -> Above {
        Above { runtime: task.runtime, period: task.period, jitter: 0 }
    }
}

/// A task on a CPU, as [`in_time`] looks at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    pub(super) times: Times,
    /// The lowest rank is the most urgent, and among equals the lowest number counts as the earlier task.
    pub(super) order: (i64, usize),
    peer: Peer,
    /// C / T in units of 2^-64, rounded up.
    share: u128,
    /// C (1 - C / T), rounded up.
    carry: u128,
}

impl Ranked {
    /// A deadline of [`u64::MAX`] is none. O(1).
    pub(super) fn new(times: Times, order: (i64, usize), peer: Peer) -> Ranked {
        let Times { runtime, period, .. } = times;
        let share = (u128::from(runtime) << 64).div_ceil(u128::from(period));
        Ranked { times, order, peer, share, carry: scaled_up(runtime, period.saturating_sub(runtime), period) }
    }
}

/// Whether all tasks that have a deadline respond within it; `None` when the search is too long. The tasks are sorted by
/// [`Ranked::order`], and their utilisation is at most 1.
///
/// Exact where [`response`] is, and [`Priorities::is_settled`]. Only tasks that [`doubtful`] names are searched, so that most calls take O(n).
pub(super) fn in_time(tasks: &[Ranked], effort: &mut Effort) -> Option<bool> {
    let doubtful = doubtful(tasks);
    if doubtful.is_empty() {
        return Some(true);
    }
    let times: Vec<Times> = tasks.iter().map(|task| task.times).collect();
    let mut known = Some(true);
    // The least urgent task is the one that most often responds too late.
    for (place, level) in doubtful.into_iter().rev() {
        let own = tasks[place].peer;
        let found = if level.len() == 1 {
            is_in_time(&times[place], &times[..place], effort)
        } else {
            let before = |p: &usize| *p < level.start || goes_before(*p, tasks[*p].peer, place, own);
            let above: Vec<Times> = (0..level.end).filter(before).map(|p| times[p]).collect();
            is_in_time(&times[place], &above, effort)
        };
        match found {
            Some(true) => {}
            Some(false) => return Some(false),
            None => known = None,
        }
    }
    known
}

/// Whether a task below `above` responds within its deadline; `None` when the search is too long. Together their utilisation is
/// at most 1.
fn is_in_time(task: &Times, above: &[Times], effort: &mut Effort) -> Option<bool> {
    let by = |at: u64| {
        let work = |sum: u64, o: &Times| sum.saturating_add(at.div_ceil(o.period).saturating_mul(o.runtime));
        above.iter().fold(task.runtime, work)
    };
    if !effort.spend(above.len() + 1) {
        return None;
    }
    // If all that comes before the deadline is done by then, the first job is in time.
    if task.deadline <= task.period && by(task.deadline) <= task.deadline {
        return Some(true);
    }
    let search = Search { until_late: true, ..Search::default() };
    response(task, above.iter().map(Above::from), search, effort).map(|found| found.worst <= task.deadline)
}

/// The places of the tasks that an upper bound of their response times does not show to be in time, each with those of all tasks
/// of its rank. O(n).
///
/// The bound is (C + sum of C (1 - U)) / (1 - sum of U), with the sums over the more urgent tasks. Tasks of equal rank are taken
/// to wait for each other.
fn doubtful(tasks: &[Ranked]) -> Vec<(usize, Range<usize>)> {
    const ONE: u128 = 1 << 64;
    let (mut shares, mut carries) = (0, 0);
    let mut doubtful = Vec::new();
    let mut start = 0;
    for level in tasks.chunk_by(|a, b| a.order.0 == b.order.0) {
        for t in level {
            shares += t.share;
            carries += t.carry;
        }
        for (i, t) in (start..).zip(level) {
            let Times { runtime, deadline, .. } = t.times;
            let (left, work) = (ONE.saturating_sub(shares - t.share), carries - t.carry + u128::from(runtime));
            let in_time = work < ONE && work << 64 <= u128::from(deadline) * left;
            if !in_time && deadline < u64::MAX {
                doubtful.push((i, start..start + level.len()));
            }
        }
        start += level.len();
    }
    doubtful
}

/// Where a search for a response time begins and ends.
#[derive(Clone, Copy, Default, Debug)]
pub struct Search {
    /// How long a job may wait for less important ones.
    pub blocked: u64,
    /// No first job ends before this, counted from its release.
    pub first: u64,
    /// The search ends as soon as a job is known to be late; what it finds is then a bound from below.
    pub until_late: bool,
}

/// The response times that a search finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The worst response time in a busy period.
    pub worst: u64,
    /// The response time of the first job of the busy period.
    pub first: u64,
}

/// The worst response time of a task below `above` on one CPU; `None` where the search takes too long.
///
/// Exact without blocking for tasks that can be released together. It depends on the set of the tasks above, and not on their order.
/// Pseudo-polynomial; O(n) for each step.
#[must_use]
pub fn response(
    task: &Times,
    above: impl ExactSizeIterator<Item = Above> + Clone,
    search: Search,
    effort: &mut Effort,
) -> Option<Found> {
    let mut found = Found { worst: 0, first: 0 };
    // Completion of the job under consideration, counted from the common release.
    let mut end = search.blocked;
    for job in 0u64.. {
        let own = search.blocked.saturating_add((job + 1).checked_mul(task.runtime)?);
        let release = job.checked_mul(task.period)?;
        end = end.saturating_add(task.runtime).max(own);
        if job == 0 {
            end = end.max(search.first);
        }
        loop {
            let jobs = |o: &Above| end.saturating_add(o.jitter).div_ceil(o.period);
            let next = above.clone().fold(own, |sum, o| sum.saturating_add(jobs(&o).saturating_mul(o.runtime)));
            // Late is late: the least fixed point is not needed then.
            if next == end || search.until_late && next > release.saturating_add(task.deadline) {
                end = next;
                break;
            }
            end = next;
            if end > HORIZON || !effort.spend(above.len() + 1) {
                return None;
            }
        }
        found.worst = found.worst.max(end.saturating_sub(release));
        if job == 0 {
            found.first = end;
        }
        let late = search.until_late && found.worst > task.deadline;
        if late || end <= release.saturating_add(task.period) {
            return Some(found);
        }
        if !effort.spend(above.len() + 1) {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(runtime: u64, deadline: u64, period: u64) -> Times {
        Times { runtime, deadline, period }
    }

    fn worst(task: &Times, above: &[Times], search: Search, looks: u64) -> Option<u64> {
        response(task, above.iter().map(Above::from), search, &mut Effort::of(looks)).map(|found| found.worst)
    }

    /// After two of its iterations the response time is 3, which is no fixed point: at 2 another job of the task above begins.
    #[test]
    fn a_deadline_that_an_iteration_meets_can_be_missed() {
        let above = [task(1, 2, 2)];
        let early = Search { until_late: true, ..Search::default() };
        assert!(worst(&task(2, 3, 10), &above, early, 1000) > Some(3));
        assert_eq!(worst(&task(2, 4, 10), &above, early, 1000), Some(4));
    }

    /// The set of LWN article 743740: (1, 4), (2, 6), (3, 8). The iterates are 6, 7, 9 and 10.
    #[test]
    fn a_late_response_is_found_to_its_end() {
        let above = [task(1, 4, 4), task(2, 6, 6)];
        assert_eq!(worst(&task(3, 8, 8), &above, Search::default(), 1000), Some(10));
    }

    #[test]
    fn a_search_ends_with_its_effort() {
        let response = |looks| worst(&task(50, 1000, 1000), &[task(1, 2, 2)], Search::default(), looks);
        assert_eq!((response(1000), response(4)), (Some(100), None));
    }

    #[test]
    fn a_bound_from_below_changes_nothing_but_the_effort() {
        let above = [task(1, 4, 4), task(2, 6, 6)];
        for first in 0..=10 {
            let search = Search { first, ..Search::default() };
            assert_eq!(worst(&task(3, 8, 8), &above, search, 1000), Some(10));
        }
    }

    #[test]
    fn jitter_lets_jobs_come_closer() {
        // A deferrable server of 2 every 6 can run from 4 to 8.
        let above = [Above { runtime: 2, period: 6, jitter: 4 }];
        let found = response(&task(1, 9, 20), above.into_iter(), Search::default(), &mut Effort::default());
        assert_eq!(found, Some(Found { worst: 5, first: 5 }));
    }
}
