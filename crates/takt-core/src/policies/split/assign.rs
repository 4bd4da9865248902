//! Tasks to CPUs under EDF: partitioned, and semi-partitioned where a task that fits nowhere is split.
//!
//! Tasks are placed one by one. The test that decides whether one fits is the exact one of [`super::demand`], so what is
//! accepted meets all deadlines: each CPU by itself is a uniprocessor with the tasks and pieces it got. A rejection proves
//! nothing about other assignments.

use super::demand::{Demand, Effort, Times, demand_with};
use super::exact::Sum;
use super::{tight, windows};
use crate::policy::Fit;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// What becomes of a task that fits on no CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// The set is rejected.
    Never,
    /// Its deadline is cut into equal windows, one for each CPU that it visits (EDF-WM).
    Windows,
    /// Pieces whose deadline is their length fill up CPUs, and the last one gets the rest (C=D).
    Tight,
}

/// How tasks are assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strategy {
    /// Who gets a task that fits.
    pub fit: Fit,
    /// Whether tasks come in the order of decreasing utilisation instead of their own.
    pub decreasing: bool,
    /// What becomes of the others.
    pub split: Split,
}

/// A task on a CPU, or a piece of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Position of the task in its set.
    pub task: usize,
    /// From the task's release to that of the piece.
    pub offset: u64,
    /// What runs here, with the deadline counted from the release of the piece.
    pub load: Times,
}

/// What runs on each CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// For each CPU its tasks and pieces in the order in which they were placed.
    pub cpus: Vec<Vec<Piece>>,
    /// Tasks that are split, in the order of their splitting.
    pub split: Vec<usize>,
}

/// What an assignment came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placed {
    /// Every task has its place, and all deadlines are met.
    All(Assignment),
    /// No place was found for this task.
    Rejected(usize),
    /// No place was found for this task, but some search was given up for its length.
    Unknown(usize),
}

/// A CPU while tasks are placed one by one.
pub(crate) trait Cpu {
    /// What is placed.
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

/// What the tasks of a CPU add up to. The bounds decide most questions without a look at every task.
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
    /// What all searches together may still take.
    pub(super) effort: Effort,
    /// Whether a search was given up.
    pub(super) gave_up: bool,
    /// Tasks that are split, in the order of their splitting.
    split: Vec<usize>,
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

    /// Finds a place for a task on some of the CPUs, which are in ascending order; `false` if there is none.
    pub fn place(&mut self, task: usize, load: Times, on: &[usize], strategy: Strategy) -> bool {
        let Bins { cpus, effort, gave_up, .. } = self;
        if let Some(cpu) = choose(cpus, &load, on, strategy.fit, effort, gave_up) {
            self.cpus[cpu].put(Piece { task, offset: 0, load });
            return true;
        }
        let done = match strategy.split {
            Split::Never => false,
            Split::Windows => windows::split(self, task, load, on),
            Split::Tight => tight::split(self, task, load, on),
        };
        if done {
            self.split.push(task);
        }
        done
    }

    /// Puts a task that has no place on the least utilised of these CPUs, the lowest of several, and overloads it.
    ///
    /// # Panics
    /// When there are none.
    pub fn force(&mut self, task: usize, load: Times, on: &[usize]) {
        let cpu = least_utilised(&self.cpus, on);
        self.cpus[cpu].put(Piece { task, offset: 0, load });
    }

    /// What runs where.
    #[must_use]
    pub fn into_assignment(self) -> Assignment {
        Assignment { cpus: self.cpus.into_iter().map(|bin| bin.pieces).collect(), split: self.split }
    }
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
        if !bins.place(task, tasks[task], &all, strategy) {
            return if bins.gave_up { Placed::Unknown(task) } else { Placed::Rejected(task) };
        }
    }
    Placed::All(bins.into_assignment())
}
