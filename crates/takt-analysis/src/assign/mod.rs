//! Tasks to CPUs under EDF: partitioned, and semi-partitioned where a task that fits nowhere is split.
//!
//! Tasks are placed one by one. The test that decides whether one fits is the exact one of [`crate::tests::edf`], so what is
//! accepted meets all deadlines: each CPU by itself is a uniprocessor with the tasks and pieces it got. A rejection proves
//! nothing about other assignments.

mod tight;
mod windows;

use crate::exact::Sum;
use crate::taskset::Task;
use crate::tests::Effort;
use crate::tests::edf::{Demand, demand_with};
use std::cmp::Ordering;

/// Which of the CPUs on which a task fits gets it. Ties go to the lower CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// The first.
    First,
    /// The one with the highest utilisation.
    Best,
    /// The one with the lowest utilisation.
    Worst,
}

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
    pub load: Task,
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
pub(crate) struct Bin {
    pieces: Vec<Piece>,
    loads: Vec<Task>,
    utilisation: Sum,
}

impl Bin {
    fn put(&mut self, piece: Piece) {
        self.utilisation.add(u128::from(piece.load.runtime), piece.load.period);
        self.loads.push(piece.load);
        self.pieces.push(piece);
    }

    /// Whether the load fits beside what is there; `None` when the search is too long.
    fn fits(&mut self, load: Task, effort: &mut Effort) -> Option<bool> {
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

/// The CPUs while tasks are placed.
pub(crate) struct Bins {
    cpus: Vec<Bin>,
    /// What all searches together may still take.
    effort: Effort,
    /// Whether a search was given up.
    gave_up: bool,
}

impl Bins {
    /// The CPU for a task that is not split.
    fn choose(&mut self, task: Task, fit: Fit) -> Option<usize> {
        let mut chosen: Option<usize> = None;
        for cpu in 0..self.cpus.len() {
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

/// Assigns tasks to `cpus` CPUs.
///
/// O(n m) exact tests where nothing is split; a split task takes about m² more. All tests together have the effort of one long
/// search.
///
/// # Panics
/// When there is no CPU.
#[must_use]
pub fn assign(tasks: &[Task], cpus: usize, strategy: Strategy) -> Placed {
    assert!(cpus > 0, "a machine has a CPU");
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    if strategy.decreasing {
        let heavier = |a: &Task, b: &Task| {
            let (a, b) = (u128::from(a.runtime) * u128::from(b.period), u128::from(b.runtime) * u128::from(a.period));
            b.cmp(&a)
        };
        order.sort_by(|&a, &b| heavier(&tasks[a], &tasks[b]));
    }
    let mut bins = Bins { cpus: vec![Bin::default(); cpus], effort: Effort::default(), gave_up: false };
    let mut split = Vec::new();
    for task in order {
        let load = tasks[task];
        if let Some(cpu) = bins.choose(load, strategy.fit) {
            bins.cpus[cpu].put(Piece { task, offset: 0, load });
            continue;
        }
        let done = match strategy.split {
            Split::Never => false,
            Split::Windows => windows::split(&mut bins, task, load),
            Split::Tight => tight::split(&mut bins, task, load),
        };
        if !done {
            return if bins.gave_up { Placed::Unknown(task) } else { Placed::Rejected(task) };
        }
        split.push(task);
    }
    Placed::All(Assignment { cpus: bins.cpus.into_iter().map(|bin| bin.pieces).collect(), split })
}
