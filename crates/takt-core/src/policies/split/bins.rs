//! CPUs under EDF, and what each has while tasks are placed.

use super::demand::{Demand, Effort, Times, demand_with};
use super::exact::Sum;
use crate::model::Fit;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A task on a CPU, or a piece of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Position of the task in its set.
    pub task: usize,
    /// From the task's release to that of the piece.
    pub offset: u64,
    /// The piece that runs here, with the deadline counted from the release of the piece.
    pub load: Times,
}

/// The pieces that run on each CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// For each CPU its tasks and pieces in the order in which they were placed.
    pub cpus: Vec<Vec<Piece>>,
    /// Tasks that are split, in the order of their splitting.
    pub split: Vec<usize>,
}

/// A CPU while tasks are placed one by one.
pub(crate) trait Cpu {
    /// The placed piece.
    type Task;

    /// The utilisation of what is there, by which fits compare CPUs.
    fn utilisation(&self) -> &Sum;

    /// Whether the task and all that are there meet their deadlines; `None` when the search is too long.
    fn accepts(&mut self, task: &Self::Task, effort: &mut Effort) -> Option<bool>;
}

/// The CPU that gets a task, of those `on` these positions in ascending order; `None` if none accepts it. `gave_up` is set where a
/// search was too long, which counts as a no. At most one test for each CPU.
pub(crate) fn choose<C: Cpu>(
    cpus: &mut [C],
    task: &C::Task,
    on: &[usize],
    fit: Fit,
    effort: &mut Effort,
    gave_up: &mut bool,
) -> Option<usize> {
    let mut chosen: Option<usize> = None;
    for &cpu in on {
        let better = chosen.is_none_or(|best| {
            let order = cpus[cpu].utilisation().compare(cpus[best].utilisation());
            match fit {
                Fit::First => false,
                Fit::Best => order == Ordering::Greater,
                Fit::Worst => order == Ordering::Less,
            }
        });
        if !better {
            continue;
        }
        match effort.lend(|effort| cpus[cpu].accepts(task, effort)) {
            Some(true) => chosen = Some(cpu),
            Some(false) => {}
            None => *gave_up = true,
        }
        if fit == Fit::First && chosen.is_some() {
            break;
        }
    }
    chosen
}

/// The least utilised of the CPUs `on` these positions, the lowest of several.
///
/// # Panics
/// When there are none.
pub(crate) fn least_utilised<C: Cpu>(cpus: &[C], on: &[usize]) -> usize {
    let by_utilisation = |a: &usize, b: &usize| cpus[*a].utilisation().compare(cpus[*b].utilisation());
    *on.iter().min_by(|a, b| by_utilisation(a, b)).expect("a task has a CPU that it may use")
}

/// A CPU in units of 2^-64.
const ONE: u128 = 1 << 64;

/// The sums of the tasks of a CPU. The bounds decide most questions without a look at every task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pub(crate) utilisation: Sum,
    /// Bounds of the utilisation in units of 2^-64.
    low: u128,
    high: u128,
    /// The sum of C / min(D, T) in the same units, rounded up.
    density: u128,
}

impl Used {
    pub(crate) fn add(&mut self, task: Times) {
        let (low, high, density) = self.with(task);
        self.utilisation.add(u128::from(task.runtime), task.period);
        (self.low, self.high, self.density) = (low, high, density);
    }

    /// The bounds with one more task.
    fn with(&self, task: Times) -> (u128, u128, u128) {
        let scaled = u128::from(task.runtime) << 64;
        let (low, rest) = (scaled / u128::from(task.period), scaled % u128::from(task.period));
        let high = low + u128::from(rest > 0);
        let density = if task.deadline < task.period { scaled.div_ceil(u128::from(task.deadline)) } else { high };
        (self.low.saturating_add(low), self.high.saturating_add(high), self.density.saturating_add(density))
    }

    /// Whether the utilisation is at most 1 with one more task. O(1), and O(n²) where it is all but 1.
    pub(crate) fn has_room(&self, task: Times) -> bool {
        let (low, high, _) = self.with(task);
        high <= ONE
            || low <= ONE && {
                let mut sum = self.utilisation.clone();
                sum.add(u128::from(task.runtime), task.period);
                sum.compare_whole(1) != Ordering::Greater
            }
    }

    /// Whether the density is at most 1 with one more task, which is enough under EDF (Liu, "Real-Time Systems", 2000, section
    /// 6.3). O(1).
    fn is_sparse(&self, task: Times) -> bool {
        self.with(task).2 <= ONE
    }
}

/// One CPU under EDF and what it has got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bin {
    pieces: Vec<Piece>,
    pub(super) loads: Vec<Times>,
    used: Used,
}

impl Bin {
    pub(crate) fn used(&self) -> &Used {
        &self.used
    }

    pub(crate) fn put(&mut self, piece: Piece) {
        self.used.add(piece.load);
        self.loads.push(piece.load);
        self.pieces.push(piece);
    }
}

impl Cpu for Bin {
    type Task = Times;

    fn utilisation(&self) -> &Sum {
        &self.used.utilisation
    }

    fn accepts(&mut self, task: &Times, effort: &mut Effort) -> Option<bool> {
        if task.runtime > task.deadline || !self.used.has_room(*task) {
            return Some(false);
        }
        if self.used.is_sparse(*task) {
            return Some(true);
        }
        self.loads.push(*task);
        let found = demand_with(&self.loads, effort);
        self.loads.pop();
        match found {
            Demand::Within => Some(true),
            Demand::Above { .. } | Demand::Overload => Some(false),
            Demand::Unknown => None,
        }
    }
}

/// The CPUs while tasks are placed one by one.
pub struct Bins {
    pub(super) cpus: Vec<Bin>,
    /// The remaining effort of all searches.
    pub(super) effort: Effort,
    /// Whether a search was given up.
    pub(super) gave_up: bool,
    /// Tasks that are split, in the order of their splitting.
    pub(super) split: Vec<usize>,
}

impl Bins {
    /// So many CPUs, all empty.
    #[must_use]
    pub fn new(cpus: usize) -> Bins {
        Bins { cpus: vec![Bin::default(); cpus], effort: Effort::default(), gave_up: false, split: Vec::new() }
    }

    /// Whether a search was given up for its length, so that a task may have a place that was not found.
    #[must_use]
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Puts a task that has no place on the least utilised of these CPUs, the lowest of several, and overloads it.
    ///
    /// # Panics
    /// When there are none.
    pub fn force(&mut self, task: usize, load: Times, on: &[usize]) {
        let cpu = least_utilised(&self.cpus, on);
        self.cpus[cpu].put(Piece { task, offset: 0, load });
    }

    /// The pieces and their CPUs.
    #[must_use]
    pub fn into_assignment(self) -> Assignment {
        Assignment { cpus: self.cpus.into_iter().map(|bin| bin.pieces).collect(), split: self.split }
    }
}
