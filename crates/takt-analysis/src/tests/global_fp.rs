//! Global fixed priorities on m identical CPUs: response-time bounds.
//!
//! Bertogna and Cirinei, "Response-Time Analysis for Globally Scheduled Symmetric Multiprocessor Platforms", RTSS 2007: a job
//! waits only while all m CPUs run more important work, so a m-th part of what these can do in its window delays it.

use super::fixed_priority::Priorities;
use super::global_edf::{Endless, LOOKS, search};
use takt_core::policies::split::demand::{Effort, Times as Task};

/// Bounds of the response times for deadlines within the periods. An error names the first task that is not shown to be in time,
/// or none when the search would take too long.
///
/// Sufficient for sporadic tasks. Pseudo-polynomial; O(n²) steps at least, and where these alone are too many, that is said at
/// once.
pub(crate) fn response_times(tasks: &[Task], priorities: &Priorities, cpus: u64) -> Result<Vec<u64>, Option<usize>> {
    // An equal that has no bound yet meets its deadline as long as no job has missed one, and the first to miss is sought here.
    let mut bounds: Vec<u64> = tasks.iter().map(|t| t.deadline).collect();
    let mut effort = Effort::default();
    // Each task waits for half of them, and is not done within a single step.
    if !effort.has(LOOKS * tasks.len() * tasks.len()) {
        return Err(None);
    }
    for (place, &k) in priorities.order().iter().enumerate() {
        let above: Vec<usize> = priorities.above(place).collect();
        bounds[k] = bound(tasks, &bounds, &above, k, cpus, &mut effort)?;
    }
    Ok(bounds)
}

/// DA-LC, the deadline analysis with limited carry-in: whether a task meets its deadline below `above`, for deadlines within the
/// periods.
///
/// Davis and Burns, Real-Time Systems 47, 2011: Bertogna's deadline analysis with the result of Guan, Stigge, Yi and Yu ("New
/// Response Time Bounds for Fixed Priority Multiprocessor Scheduling", RTSS 2009) that at most m - 1 of the tasks above bring in
/// work from before the window. Sufficient for sporadic tasks. It depends on the set of the tasks above, and not on their order.
/// O(n log n).
pub(crate) fn deadline_analysis(task: &Task, above: impl Iterator<Item = Task>, cpus: u64) -> bool {
    let length = task.deadline;
    let Some(slack) = length.checked_sub(task.runtime) else { return false };
    // The work of a task within `reach`. More than the slack delays the job beyond its deadline anyway, so more does not count.
    let work = |t: &Task, reach: u64| {
        let whole = u128::from(reach / t.period) * u128::from(t.runtime);
        (whole + u128::from(t.runtime.min(reach % t.period))).min(u128::from(slack) + 1)
    };
    let mut sum = 0;
    let mut carried_in: Vec<u128> = Vec::new();
    for t in above {
        // Without carry-in the first job comes with the window; with it, the one before ends at its deadline.
        let without = work(&t, length);
        sum += without;
        carried_in.push(work(&t, length + t.deadline.saturating_sub(t.runtime)) - without);
    }
    carried_in.sort_unstable_by(|a, b| b.cmp(a));
    let limit = usize::try_from(cpus - 1).unwrap_or(usize::MAX);
    sum += carried_in.into_iter().take(limit).sum::<u128>();
    sum / u128::from(cpus) <= u128::from(slack)
}

fn bound(
    tasks: &[Task],
    bounds: &[u64],
    above: &[usize],
    k: usize,
    cpus: u64,
    effort: &mut Effort,
) -> Result<u64, Option<usize>> {
    let (own, deadline) = (tasks[k].runtime, tasks[k].deadline);
    // Runtimes are within deadlines and these within periods, so that only the sum can be long.
    let step = |response: u64| {
        let most = response - own + 1;
        let work = |&i: &usize| {
            let (c, t) = (tasks[i].runtime, tasks[i].period);
            // The job carried in ends as late as its bound allows, the others follow as soon as they can.
            let reach = response + bounds[i] - c;
            u128::from(((reach / t) * c + c.min(reach % t)).min(most))
        };
        u128::from(own) + above.iter().map(work).sum::<u128>() / u128::from(cpus)
    };
    match search(own, deadline, || effort.spend(LOOKS * above.len() + 1), step) {
        Ok(Some(response)) => Ok(response),
        Ok(None) => Err(Some(k)),
        Err(Endless) => Err(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixed_priority::Peer;

    #[test]
    fn few_tasks_carry_work_in() {
        // In the window of 8: 2 and 3 of work without carry-in, 4 and 5 (of 6, more does not count) with it. On two CPUs one of
        // them carries in: (2 + 3 + 2) / 2 = 3.
        let task = |runtime, period| Task { runtime, deadline: period, period };
        let above = || [task(2, 10), task(3, 12)].into_iter();
        let passes = |runtime| deadline_analysis(&Task { runtime, deadline: 8, period: 9 }, above(), 2);
        assert!(passes(4) && passes(5) && !passes(6));
        // On three CPUs both carry in. With a slack of 2 each counts up to 3: (3 + 3) / 3 = 2.
        let three = |runtime| deadline_analysis(&Task { runtime, deadline: 8, period: 9 }, above(), 3);
        assert!(three(6) && !deadline_analysis(&Task { runtime: 9, deadline: 8, period: 9 }, above(), 3));
    }

    #[test]
    fn the_most_important_tasks_do_not_wait() {
        let task = |runtime, period| Task { runtime, deadline: period, period };
        let order = Priorities::by_key(3, |i| i as u64, |_| Peer::default());
        assert_eq!(response_times(&[task(5, 10), task(6, 10), task(2, 20)], &order, 2), Ok(vec![5, 6, 7]));
        assert_eq!(response_times(&[task(5, 10), task(6, 10), task(9, 20)], &order, 1), Err(Some(1)));
    }
}
