//! Response times under fixed priorities on one CPU.
//!
//! Joseph and Pandya, "Finding Response Times in a Real-Time System", The Computer Journal 29(5), 1986; for deadlines beyond the
//! period, Lehoczky, "Fixed Priority Scheduling of Periodic Task Sets with Arbitrary Deadlines", RTSS 1990; with blocking,
//! Audsley and others, "Applying New Scheduling Theory to Static Priority Pre-emptive Scheduling", Software Engineering Journal
//! 8(5), 1993. The upper bound that spares most searches: Bini, Nguyen, Richard, Baruah, "A Response-Time Bound in
//! Fixed-Priority Scheduling with Arbitrary Deadlines", IEEE TC 58(2), 2009.

use crate::policies::split::demand::{Effort, HORIZON, Times};
use crate::policies::split::exact::scaled_up;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// What decides between tasks of equal priority.
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

/// Who goes before whom.
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

/// What a response-time analysis finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Responses {
    /// The worst response time of each task, none above its deadline.
    Within(Vec<u64>),
    /// This task can respond that late or later, which is after its deadline.
    Above(usize, u64),
    /// The search would take too long.
    Unknown,
}

/// Worst response times under fixed priorities. `blocking[i]` is how long a job of task i may wait for less important ones; empty
/// for not at all.
///
/// Exact without blocking for tasks that can be released together if [`Priorities::is_settled`], else sufficient.
/// Pseudo-polynomial; O(n²) steps at least.
#[must_use]
pub fn responses(tasks: &[Times], priorities: &Priorities, blocking: &[u64]) -> Responses {
    let mut found = vec![0; tasks.len()];
    let mut effort = Effort::default();
    let mut above: Vec<Times> = Vec::with_capacity(tasks.len());
    for place in priorities.places() {
        let i = priorities.order[place];
        let blocked = blocking.get(i).copied().unwrap_or(0);
        above.clear();
        above.extend(priorities.above(place).map(|o| tasks[o]));
        match response(&tasks[i], &above, blocked, &mut effort) {
            None => return Responses::Unknown,
            Some(response) if response > tasks[i].deadline => return Responses::Above(i, response),
            Some(response) => found[i] = response,
        }
    }
    Responses::Within(found)
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
/// Exact where [`responses`] is. Only tasks that [`doubtful`] names are searched, so that most calls take O(n).
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
    response(task, above, 0, effort).map(|response| response <= task.deadline)
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

/// The worst response time of a task below `above` on one CPU, or the first found that is above its deadline; `None` where the
/// search takes too long. Its job may wait for less important ones for as long as `blocked`.
///
/// Exact without blocking for tasks that can be released together. It depends on the set of the tasks above, and not on their order.
#[must_use]
pub fn response(task: &Times, above: &[Times], blocked: u64, effort: &mut Effort) -> Option<u64> {
    let mut worst = 0;
    // Completion of the job under consideration, counted from the common release.
    let mut end = blocked;
    for job in 0u64.. {
        let own = blocked.saturating_add((job + 1).checked_mul(task.runtime)?);
        let release = job.checked_mul(task.period)?;
        end = end.saturating_add(task.runtime).max(own);
        loop {
            let work = |sum: u64, o: &Times| sum.saturating_add(end.div_ceil(o.period).saturating_mul(o.runtime));
            let next = above.iter().fold(own, work);
            // Late is late: the least fixed point is not needed then.
            if next == end || next > release.saturating_add(task.deadline) {
                end = next;
                break;
            }
            end = next;
            if end > HORIZON || !effort.spend(above.len() + 1) {
                return None;
            }
        }
        worst = worst.max(end.saturating_sub(release));
        if worst > task.deadline || end <= release.saturating_add(task.period) {
            return Some(worst);
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

    /// Tasks in this order.
    fn ordered(order: &[usize]) -> Priorities {
        let key = |i| order.iter().position(|o| *o == i).unwrap() as u64;
        Priorities::by_key(order.len(), key, |_| Peer::default())
    }

    /// After two of its iterations the response time is 3, which is no fixed point: at 2 another job of the task above begins.
    #[test]
    fn a_deadline_that_an_iteration_meets_can_be_missed() {
        let above = [task(1, 2, 2)];
        let response = |deadline| response(&task(2, deadline, 10), &above, 0, &mut Effort::default());
        assert!(response(3) > Some(3));
        assert_eq!(response(4), Some(4));
    }

    #[test]
    fn a_search_ends_with_its_effort() {
        let response = |looks| response(&task(50, 1000, 1000), &[task(1, 2, 2)], 0, &mut Effort::of(looks));
        assert_eq!((response(1000), response(4)), (Some(100), None));
    }

    #[test]
    fn equals_wait_for_each_other() {
        let tasks = [task(1, 2, 8), task(1, 1, 2), task(1, 4, 8)];
        let keys = |beats: [i128; 3]| {
            let peer = |i: usize| Peer { beat: Some((8, beats[i])), deadline: Some(tasks[i].deadline.into()) };
            Priorities::by_key(3, |i| tasks[i].period, peer)
        };
        let together = keys([0; 3]);
        assert_eq!(responses(&tasks, &together, &[]), Responses::Within(vec![2, 1, 4]));
        assert!(together.is_settled());
        let apart = keys([0, 0, 3]);
        assert!(matches!(responses(&tasks, &apart, &[]), Responses::Above(0, _)));
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
        assert_eq!(responses(&tasks, &order(Some(6)), &[]), Responses::Within(vec![5; 3]));
        assert!(order(Some(6)).is_settled() && !order(None).is_settled());
        // Released together, the last one is late.
        let longer = [tasks[0], task(3, 6, 9), tasks[2]];
        assert_eq!(responses(&longer, &order(Some(6)), &[]), Responses::Above(2, 7));
    }

    #[test]
    fn a_later_job_can_be_the_worst() {
        // Lehoczky's set: the first job of the second task takes 114, a later one 118.
        let tasks = [task(26, 70, 70), task(62, 118, 100)];
        assert_eq!(responses(&tasks, &ordered(&[0, 1]), &[]), Responses::Within(vec![26, 118]));
        assert_eq!(responses(&[tasks[0], task(62, 117, 100)], &ordered(&[0, 1]), &[]), Responses::Above(1, 118));
    }
}
