//! Tasks to CPUs under EDF: partitioned, and semi-partitioned where a task that fits nowhere is split.
//!
//! Tasks are placed one by one. The test that decides whether one fits is the exact one of [`super::demand`], so what is
//! accepted meets all deadlines: each CPU by itself is a uniprocessor with the tasks and pieces it got. A rejection proves
//! nothing about other assignments.

use super::bins::{Assignment, Bins, Piece, choose};
use super::demand::Times;
use super::{tight, windows};
use crate::model::Fit;
pub use crate::model::Split;
use alloc::vec::Vec;

/// How tasks are assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strategy {
    /// The CPU for a task that fits.
    pub fit: Fit,
    /// Whether tasks come in the order of decreasing utilisation instead of their own.
    pub decreasing: bool,
    /// The rule for the others.
    pub split: Split,
}

/// The result of an assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placed {
    /// Every task has its place, and all deadlines are met.
    All(Assignment),
    /// No place was found for this task.
    Rejected(usize),
    /// No place was found for this task, but some search was given up for its length.
    Unknown(usize),
}

/// Finds a place for a task on some of the CPUs, which are in ascending order; `false` if there is none.
pub(super) fn place(bins: &mut Bins, task: usize, load: Times, on: &[usize], strategy: Strategy) -> bool {
    let Bins { cpus, effort, gave_up, .. } = bins;
    if let Some(cpu) = choose(cpus, &load, on, strategy.fit, effort, gave_up) {
        cpus[cpu].put(Piece { task, offset: 0, load });
        return true;
    }
    let done = match strategy.split {
        Split::Never => false,
        Split::Windows => windows::split(bins, task, load, on),
        Split::Tight => tight::split(bins, task, load, on),
    };
    if done {
        bins.split.push(task);
    }
    done
}

/// The order in which a strategy takes tasks: their own, or that of decreasing utilisation.
#[must_use]
pub fn order(tasks: &[Times], strategy: Strategy) -> Vec<usize> {
    order_of(tasks.len(), strategy.decreasing, |i| Some(tasks[i]))
}

/// The same for `tasks` of which some have no load; these come last among decreasing ones.
pub(crate) fn order_of(tasks: usize, decreasing: bool, load: impl Fn(usize) -> Option<Times>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks).collect();
    if decreasing {
        order.sort_by(|&a, &b| match (load(a), load(b)) {
            (Some(a), Some(b)) => {
                let (a, b) =
                    (u128::from(a.runtime) * u128::from(b.period), u128::from(b.runtime) * u128::from(a.period));
                b.cmp(&a)
            }
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
    }
    order
}

/// Assigns tasks to `cpus` CPUs.
///
/// O(n m) exact tests where nothing is split; a split task takes about m² more. All tests together have the effort of one long
/// search.
///
/// # Panics
/// When there is no CPU.
#[must_use]
pub fn assign(tasks: &[Times], cpus: usize, strategy: Strategy) -> Placed {
    assert!(cpus > 0, "a machine has a CPU");
    let mut bins = Bins::new(cpus);
    let all: Vec<usize> = (0..cpus).collect();
    for task in order(tasks, strategy) {
        if !place(&mut bins, task, tasks[task], &all, strategy) {
            return if bins.gave_up { Placed::Unknown(task) } else { Placed::Rejected(task) };
        }
    }
    Placed::All(bins.into_assignment())
}
