//! The measurements of a policy.

use super::super::figures::median;
use super::scene::{Scene, Situation};
use crate::failure::Failure;
use takt_core::model::{PolicySpec, Scope};
use takt_core::time::Span;
use takt_workload::{Code, policy_text};

/// One policy in one situation.
pub(super) struct Cell {
    pub(super) situation: Situation,
    pub(super) scene: Scene,
    /// Picoseconds for a decision, by round.
    pub(super) rounds: Vec<i64>,
    /// For a decision, or why there is no such number.
    pub(super) instructions: Option<Result<u64, String>>,
}

impl Cell {
    pub(super) fn new(policy: PolicySpec, situation: Situation) -> Result<Cell, Failure> {
        let cannot = |e| {
            Failure::input(
                Code::UnsuitablePolicy,
                format!("{} cannot schedule the jobs: {e}", policy_text(&policy)),
                "leave it out",
            )
        };
        let cpus = if policy.scope == Scope::Uniprocessor { 1 } else { situation.cpus };
        let situation = Situation { cpus, ..situation };
        Ok(Cell {
            situation,
            scene: Scene::new(policy, situation).map_err(cannot)?,
            rounds: vec![],
            instructions: None,
        })
    }
    pub(super) fn cost(&self) -> i64 {
        median(self.rounds.iter().copied())
    }
    pub(super) fn measure(&mut self, least: Span) {
        self.rounds.push(self.scene.cost(least));
    }
}

/// The measurements of a policy.
pub(super) struct Measured {
    pub(super) policy: PolicySpec,
    /// By number of jobs, in ascending order, as far as it was asked.
    pub(super) jobs: Vec<Cell>,
    /// By load.
    pub(super) loads: Vec<Cell>,
}
