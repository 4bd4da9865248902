//! The windows of Pfair subtasks, and what policies that are optimal on several CPUs ask of a system.
//!
//! Baruah, Cohen, Plaxton and Varvel, "Proportionate Progress: A Notion of Fairness in Resource Allocation", Algorithmica
//! 15(6), 1996; Anderson and Srinivasan, "Mixed Pfair/ERfair Scheduling of Asynchronous Periodic Tasks", JCSS 68(1), 2004.

use crate::model::{Invalid, TaskId};
use crate::policy::Build;
use core::cmp::Reverse;

/// The window of one subtask, in units of time since the first subtask of its job was released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// It is not to be scheduled earlier.
    pub(crate) release: i64,
    /// It must be scheduled earlier than this.
    pub(crate) deadline: i64,
    /// Whether its window overlaps that of its successor, so that scheduling it last leaves that one less.
    pub(crate) overlaps: bool,
    /// By when a chain of subtasks ends that leave each other no choice; light tasks (weight below one half) have none.
    pub(crate) group: Option<i64>,
}

/// The order of PD²: the lowest is the most urgent. Deadline; windows that overlap first; the later group deadline first;
/// the lower task.
pub(crate) type Urgency = (i64, Reverse<bool>, Reverse<Option<i64>>, TaskId);

impl Window {
    /// Subtask `i`, counted from zero, of a job that needs `e` units in `p`. It takes 0 < `e` <= `p`.
    pub(crate) fn new(e: i64, p: i64, i: i64) -> Window {
        let (wide_e, wide_p, i) = (i128::from(e), i128::from(p), i128::from(i));
        let ceil = |a: i128, b: i128| (a + b - 1) / b;
        let deadline = ceil(wide_p * (i + 1), wide_e);
        // A task of weight one has windows of one unit that do not overlap: its group deadlines are never looked at.
        let heavy = 2 * wide_e >= wide_p && e < p;
        Window {
            release: (wide_p * i / wide_e) as i64,
            deadline: deadline as i64,
            overlaps: deadline * wide_e > wide_p * (i + 1),
            group: heavy.then(|| ceil((deadline - (i + 1)) * wide_p, wide_p - wide_e) as i64),
        }
    }

    /// Its rank among the subtasks of all tasks, for a job whose first subtask was released at `base`.
    pub(crate) fn urgency(&self, base: i64, task: TaskId) -> Urgency {
        (base + self.deadline, Reverse(self.overlaps), Reverse(self.group.map(|g| base + g)), task)
    }
}

/// Checks that every task may use all CPUs, as the optimal policies need it.
///
/// # Errors
/// When an affinity keeps a task from one of them.
pub(crate) fn check(build: &Build<'_>) -> Result<(), Invalid> {
    let cpus: alloc::vec::Vec<usize> = build.system.cpus.iter().collect();
    for &task in build.tasks {
        let described = &build.system.tasks[task.index()];
        if !build.places.iter().all(|p| described.affinity.contains(cpus[p.index()])) {
            return Err(Invalid::Unsuitable("this policy moves every task over all CPUs; no affinity may forbid one"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The windows of a task with weight 8/11, drawn in figure 1 of Anderson and Srinivasan, JCSS 68(1).
    #[test]
    fn windows_of_a_heavy_task() {
        let windows: alloc::vec::Vec<_> = (0..8).map(|i| Window::new(8, 11, i)).collect();
        let edges = windows.iter().map(|w| (w.release, w.deadline));
        assert!(edges.eq([(0, 2), (1, 3), (2, 5), (4, 6), (5, 7), (6, 9), (8, 10), (9, 11)]));
        assert!(windows[..7].iter().all(|w| w.overlaps) && !windows[7].overlaps);
        let groups: alloc::vec::Vec<_> = windows.iter().map(|w| w.group.unwrap()).collect();
        assert_eq!(groups, [4, 4, 8, 8, 8, 11, 11, 11]);
    }

    #[test]
    fn a_light_task_and_a_whole_cpu() {
        assert_eq!(Window::new(1, 3, 0), Window { release: 0, deadline: 3, overlaps: false, group: None });
        assert_eq!(Window::new(5, 5, 3), Window { release: 3, deadline: 4, overlaps: false, group: None });
    }
}
