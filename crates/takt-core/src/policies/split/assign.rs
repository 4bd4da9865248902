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

/// One CPU and what it has got.
#[derive(Clone, Debug, Default)]
pub(super) struct Bin {
    pieces: Vec<Piece>,
    pub(super) loads: Vec<Times>,
    utilisation: Sum,
}

impl Bin {
    pub(super) fn put(&mut self, piece: Piece) {
        self.utilisation.add(u128::from(piece.load.runtime), piece.load.period);
        self.loads.push(piece.load);
        self.pieces.push(piece);
    }

    /// Whether the load fits beside what is there; `None` when the search is too long.
    pub(super) fn fits(&mut self, load: Times, effort: &mut Effort) -> Option<bool> {
        self.loads.push(load);
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
        if let Some(cpu) = self.choose(load, on, strategy.fit) {
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

    /// Puts a task that has no place on the emptiest of these CPUs, the lowest of several, and overloads it.
    ///
    /// # Panics
    /// When there are none.
    pub fn force(&mut self, task: usize, load: Times, on: &[usize]) {
        let emptier = |a: &usize, b: &usize| self.cpus[*a].utilisation.compare(&self.cpus[*b].utilisation);
        let cpu = *on.iter().min_by(|a, b| emptier(a, b)).expect("a task has a CPU that it may use");
        self.cpus[cpu].put(Piece { task, offset: 0, load });
    }

    /// What runs where.
    #[must_use]
    pub fn into_assignment(self) -> Assignment {
        Assignment { cpus: self.cpus.into_iter().map(|bin| bin.pieces).collect(), split: self.split }
    }

    /// The CPU for a task that is not split.
    fn choose(&mut self, task: Times, on: &[usize], fit: Fit) -> Option<usize> {
        let mut chosen: Option<usize> = None;
        for &cpu in on {
            let better = chosen.is_none_or(|best| {
                let order = self.cpus[cpu].utilisation.compare(&self.cpus[best].utilisation);
                match fit {
                    Fit::First => false,
                    Fit::Best => order == Ordering::Greater,
                    Fit::Worst => order == Ordering::Less,
                }
            });
            if !better {
                continue;
            }
            match self.cpus[cpu].fits(task, &mut self.effort) {
                Some(true) => chosen = Some(cpu),
                Some(false) => {}
                None => self.gave_up = true,
            }
            if fit == Fit::First && chosen.is_some() {
                break;
            }
        }
        chosen
    }
}

/// The order in which a strategy takes tasks: their own, or that of decreasing utilisation.
#[must_use]
pub fn order(tasks: &[Times], strategy: Strategy) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    if strategy.decreasing {
        let heavier = |a: &Times, b: &Times| {
            let (a, b) = (u128::from(a.runtime) * u128::from(b.period), u128::from(b.runtime) * u128::from(a.period));
            b.cmp(&a)
        };
        order.sort_by(|&a, &b| heavier(&tasks[a], &tasks[b]));
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
