//! Policies that go by utility, held to schedules worked out by hand and to what is known of them.

mod dependencies;
mod global;
mod one_cpu;
mod prediction;
mod properties;

#[path = "../common/told.rs"]
mod told;

use takt_core::model::*;
use takt_core::utility::{UNIT, Utility};
use told::*;

/// The task with a step of so many units up to its deadline.
fn worth(utility: u64, task: Task) -> Task {
    Task { utility: Some(Utility::Step(utility * UNIT)), ..task }
}

/// The accrued utility and the most that could have been accrued, in units.
fn accrued(told: &Told) -> (u128, u128) {
    let totals = told.engine.totals();
    (totals.utility / u128::from(UNIT), totals.utility_total / u128::from(UNIT))
}
