//! Global EDF on m identical CPUs: sufficient tests for sporadic tasks.
//!
//! * `gfb`: Goossens, Funk, Baruah, "Priority-Driven Scheduling of Periodic Task Systems on Multiprocessors", Real-Time Systems
//!   25, 2003; with densities for deadlines below the period (Bertogna, Cirinei, Lipari, ECRTS 2005).
//! * `bcl`: Bertogna, Cirinei, Lipari, "Improved Schedulability Analysis of EDF on Multiprocessor Platforms", ECRTS 2005.
//! * `bak`: Baker, "Multiprocessor EDF and Deadline Monotonic Schedulability Analysis", RTSS 2003.
//! * `gedf-rta`: Bertogna and Cirinei, "Response-Time Analysis for Globally Scheduled Symmetric Multiprocessor Platforms",
//!   RTSS 2007.
//! * Tardiness: Devi and Anderson, "Tardiness Bounds under Global EDF Scheduling on a Multiprocessor", Real-Time Systems 38,
//!   2008.
//!
//! Inequalities are multiplied out, so that they hold between whole numbers or sums of fractions.

use crate::utilisation::Utilisation;
use std::cmp::Ordering;
use takt_core::policies::split::demand::{Effort, Times as Task, utilisation};
use takt_core::policies::split::exact::{Sum, divide};

/// The density bound: all densities are at most m - (m - 1) times the largest.
pub(crate) fn gfb(tasks: &[Task], cpus: u64) -> bool {
    let end = |t: &Task| t.deadline.min(t.period);
    let mut sum = Sum::default();
    let mut densest: Option<&Task> = None;
    for t in tasks {
        sum.add(u128::from(t.runtime), end(t));
        let denser =
            |d: &&Task| u128::from(t.runtime) * u128::from(end(d)) > u128::from(d.runtime) * u128::from(end(t));
        if densest.is_none_or(|d| denser(&d)) {
            densest = Some(t);
        }
    }
    if let Some(d) = densest {
        sum.add(u128::from(cpus - 1) * u128::from(d.runtime), end(d));
    }
    sum.compare_whole(u128::from(cpus)).is_le()
}

/// An error names the first task that this test does not show to be in time, or none when there are too many; for deadlines within
/// the periods. O(n²).
///
/// In a window of length D of task k, another task keeps all CPUs from k for as long as it can run in it at most, counted up to
/// the slack of k; that must be less than m times the slack.
pub(crate) fn bcl(tasks: &[Task], cpus: u64) -> Result<(), Option<usize>> {
    let mut effort = Effort::default();
    for (k, task) in tasks.iter().enumerate() {
        if !effort.spend(tasks.len()) {
            return Err(None);
        }
        let length = u128::from(task.deadline);
        let Some(slack) = length.checked_sub(u128::from(task.runtime)) else { return Err(Some(k)) };
        let (mut sum, mut some_within) = (0u128, false);
        for (_, other) in tasks.iter().enumerate().filter(|(i, _)| *i != k) {
            let (runtime, period) = (u128::from(other.runtime), u128::from(other.period));
            let whole = if other.deadline > task.deadline {
                0
            } else {
                u128::from((task.deadline - other.deadline) / other.period + 1)
            };
            let rest = runtime.min(length.saturating_sub(whole * period));
            let interference = whole * runtime + rest;
            some_within |= (1..=slack).contains(&interference);
            sum += interference.min(slack);
        }
        match sum.cmp(&(u128::from(cpus) * slack)) {
            Ordering::Less => {}
            Ordering::Equal if some_within => {}
            _ => return Err(Some(k)),
        }
    }
    Ok(())
}

/// The same as of [`bcl`]. O(n²).
pub(crate) fn bak(tasks: &[Task], cpus: u64) -> Result<(), Option<usize>> {
    let mut effort = Effort::default();
    for (k, task) in tasks.iter().enumerate() {
        if !effort.spend(tasks.len()) {
            return Err(None);
        }
        let (own, length) = (u128::from(task.runtime), u128::from(task.deadline));
        // Everything is multiplied by D_k: the sum of min(D_k, D_k beta_i) against m D_k - (m - 1) C_k. D_k beta_i is a fraction
        // over T_i and, where the task is denser than k, another one over D_k.
        let bound = (u128::from(cpus) * length).checked_sub(u128::from(cpus - 1) * own).ok_or(Some(k))?;
        let (mut sum, mut rests) = (Sum::default(), 0u128);
        for other in tasks {
            let (c, t, d) = (u128::from(other.runtime), u128::from(other.period), u128::from(other.deadline));
            let first = c * (length + t - d);
            let second = (c * length).saturating_sub(own * t);
            let ((a, r), (b, s)) = (divide(first, other.period), divide(second, task.deadline));
            let carry = u128::from(u128::from(r) * length + u128::from(s) * t >= t * length);
            if a + b + carry >= length {
                sum.add(length, 1);
            } else {
                sum.add(a + b, 1);
                sum.add(u128::from(r), other.period);
                rests += u128::from(s);
            }
        }
        sum.add(rests, task.deadline);
        if sum.compare_whole(bound).is_gt() {
            return Err(Some(k));
        }
    }
    Ok(())
}

/// Bounds of the response times, for deadlines within the periods; an error names the first task without one, or none when the
/// search would take too long.
///
/// The bounds are lowered from the deadlines in rounds: a shorter response of one task leaves less carried-in work for
/// the others. O(n²) for each round and step; of more than some 5000 tasks the first round alone takes too long, which is said at
/// once.
pub(crate) fn response_times(tasks: &[Task], cpus: u64) -> Result<Vec<u64>, Option<usize>> {
    let mut bounds: Vec<Option<u64>> = vec![None; tasks.len()];
    let mut effort = Effort::default();
    // To set up, and no task is done within a single step.
    if !effort.has(3 * LOOKS * tasks.len() * tasks.len()) {
        return Err(None);
    }
    loop {
        let mut lower = false;
        for k in 0..tasks.len() {
            let found = response_time(tasks, &bounds, k, cpus, &mut effort)?;
            if let Some(response) = found.filter(|r| bounds[k].is_none_or(|b| *r < b)) {
                bounds[k] = Some(response);
                lower = true;
            }
        }
        match bounds.iter().position(Option::is_none) {
            None => return Ok(bounds.into_iter().flatten().collect()),
            Some(task) if !lower => return Err(Some(task)),
            Some(_) => {}
        }
    }
}

/// A bound for one task that is within its bound or deadline, given the bounds of the others.
///
/// No runtime is above its deadline and no deadline above its period, so that all numbers but the sums fit 64 bits.
fn response_time(
    tasks: &[Task],
    bounds: &[Option<u64>],
    k: usize,
    cpus: u64,
    effort: &mut Effort,
) -> Result<Option<u64>, Option<usize>> {
    let task = &tasks[k];
    if !effort.spend(LOOKS * tasks.len()) {
        return Err(None);
    }
    let others: Vec<Interference> = tasks
        .iter()
        .zip(bounds)
        .enumerate()
        .filter(|(i, _)| *i != k)
        .map(|(_, (other, bound))| Interference::new(other, *bound, task.deadline))
        .collect();
    let step = |response: u64| {
        let most = response - task.runtime + 1;
        let sum: u128 = others.iter().map(|o| u128::from(o.within(response).min(most))).sum();
        u128::from(task.runtime) + sum / u128::from(cpus)
    };
    let most = bounds[k].unwrap_or(task.deadline);
    search(task.runtime, most, || effort.spend(LOOKS * tasks.len()), step).map_err(|Endless| None)
}

/// The most that a task can keep a CPU from another one.
struct Interference {
    runtime: u64,
    period: u64,
    /// By how much later than a job's release the last work of the one before can be done, less the runtime.
    carried: u64,
    /// Its work that is due before the deadline of the other one.
    due: u64,
}

impl Interference {
    /// Interference of a task with this bound of its response time, for one with this deadline.
    fn new(task: &Task, bound: Option<u64>, deadline: u64) -> Interference {
        let Task { runtime, period, deadline: own } = *task;
        let response = bound.unwrap_or(own).min(own);
        let whole = if deadline >= own { (deadline - own) / period + 1 } else { 0 };
        let rest = deadline.saturating_sub(whole * period + (own - response));
        Interference { runtime, period, carried: response - runtime, due: whole * runtime + runtime.min(rest) }
    }

    /// In a window of this length: jobs packed with the carried-in one as late as its bound allows.
    fn within(&self, length: u64) -> u64 {
        let reach = length + self.carried;
        ((reach / self.period) * self.runtime + self.runtime.min(reach % self.period)).min(self.due)
    }
}

/// A look at a task with a long division costs as much as so many without.
pub(super) const LOOKS: usize = 3;

/// A search that exhausted its effort.
#[derive(Debug)]
pub(super) struct Endless;

/// A length from `runtime` to `most` in which a job is done, if all that keeps it from running in a window of some length leaves it
/// done after `step` of that length: one with `step(x) <= x`.
///
/// The least one is sought by repeated steps. These can be of one unit each where every CPU is taken, so after a thousand of them
/// the search leaps by a part in a thousand, and what it finds is a bound that is so much less tight.
pub(super) fn search(
    runtime: u64,
    most: u64,
    mut spend: impl FnMut() -> bool,
    step: impl Fn(u64) -> u128,
) -> Result<Option<u64>, Endless> {
    const SMALL_STEPS: u64 = 1000;
    let mut response = runtime;
    for count in 0u64.. {
        if response > most {
            break;
        }
        if !spend() {
            return Err(Endless);
        }
        let next = step(response);
        if next <= u128::from(response) {
            return Ok(Some(response));
        }
        let leap = if count < SMALL_STEPS { 0 } else { response.saturating_add(response / 1000) };
        response = u64::try_from(next).unwrap_or(u64::MAX).max(leap);
    }
    // A leap may have been too far.
    Ok((runtime <= most && step(most) <= u128::from(most)).then_some(most))
}

/// By task the largest tardiness of a job, in the unit of the tasks' times, with deadlines at the ends of the periods and a
/// utilisation of at most m. `None` when there is no such bound. O(n log n).
///
/// Devi and Anderson, "Tardiness Bounds under Global EDF Scheduling on a Multiprocessor", Real-Time Systems 38, 2008; corollary 4.11 of
/// Devi's thesis, "Soft Real-Time Scheduling on Multiprocessors", University of North Carolina, 2006. With Λ = ⌈U⌉ - 1, a task with
/// runtime C is late by C + x at most. Here x is the sum of the Λ largest runtimes less the least one, divided by m less the sum of the
/// Λ - 1 largest utilisations.
pub fn tardiness(tasks: &[Task], cpus: u64) -> Option<Vec<u64>> {
    if utilisation(tasks).compare_whole(u128::from(cpus)).is_gt() || tasks.iter().any(|t| t.runtime > t.period) {
        return None;
    }
    if tasks.len() as u64 <= cpus || cpus == 1 {
        return Some(vec![0; tasks.len()]);
    }
    let mut total = Utilisation::default();
    tasks.iter().for_each(|t| total.add(t.runtime, t.period));
    let count = usize::try_from(total.ceiling().clamp(1, cpus) - 1).unwrap_or(usize::MAX);
    let mut longest: Vec<u128> = tasks.iter().map(|t| t.runtime.into()).collect();
    longest.sort_unstable_by(|a, b| b.cmp(a));
    let mut heaviest: Vec<&Task> = tasks.iter().collect();
    heaviest.sort_by(|a, b| {
        if a.heavier(b) {
            Ordering::Less
        } else if b.heavier(a) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    });
    let mut heavy = Utilisation::default();
    heaviest.iter().take(count.saturating_sub(1)).for_each(|t| heavy.add(t.runtime, t.period));
    let least = longest.last().copied().unwrap_or(0);
    let cost = longest.iter().take(count).sum::<u128>().saturating_sub(least);
    let x = heavy.divide_by_rest(cost, cpus)?;
    tasks.iter().map(|t| t.runtime.checked_add(x)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(runtime: u64, period: u64) -> Task {
        Task { runtime, deadline: period, period }
    }

    #[test]
    fn the_bounds_touch() {
        // Densities 1/2 three times: 3/2 <= 2 - 1/2 holds with equality.
        assert!(gfb(&[task(1, 2); 3], 2));
        assert!(!gfb(&[task(1, 2), task(1, 2), task(501, 1000)], 2));
        assert_eq!(bak(&[task(1, 2); 3], 2), Ok(()));
        assert_eq!(bcl(&[task(1, 10); 3], 2), Ok(()));
        assert_eq!(bcl(&[task(9, 10); 3], 2), Err(Some(0)));
    }

    #[test]
    fn dhalls_effect_is_not_accepted() {
        // Two light tasks and a heavy one, which comes last and misses.
        let tasks = [task(1, 9), task(1, 9), task(10, 10)];
        assert!(!gfb(&tasks, 2) && bcl(&tasks, 2).is_err() && bak(&tasks, 2).is_err());
        assert_eq!(response_times(&tasks, 2), Err(Some(2)));
        assert_eq!(tardiness(&tasks, 2), Some(vec![6, 6, 15]));
    }

    /// Dhall's example in Linux's documentation of SCHED_DEADLINE on four CPUs: U = 1.0404, so that Λ = 1, and x = (100 - 1) / 4.
    #[test]
    fn tardiness_is_that_of_the_corollary() {
        let long = task(100_000, 100_000);
        let tasks = [long, task(1_000, 99_000), task(1_000, 99_000), task(1_000, 99_000), task(1_000, 99_000)];
        assert_eq!(tardiness(&tasks, 4), Some(vec![124_750, 25_750, 25_750, 25_750, 25_750]));
    }

    #[test]
    fn response_bounds_of_light_tasks() {
        // With as many CPUs as tasks no job waits.
        assert_eq!(response_times(&[task(3, 10); 3], 3), Ok(vec![3, 3, 3]));
        assert_eq!(response_times(&[task(2, 10); 3], 2), Ok(vec![4, 4, 4]));
    }
}
