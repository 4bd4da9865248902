//! Semi-partitioned EDF: by hand, and what its test promises, against the simulator.

// Not every helper is needed here.
#[allow(dead_code)]
#[path = "../common/told.rs"]
mod told;

mod by_hand;
mod properties;

use takt_core::cpus::CpuSet;
use takt_core::model::*;
use takt_core::model::{Placement, PolicySpec};
use takt_core::time::Span;
use told::*;

/// A task with its period as its deadline.
pub(crate) fn periodic(runtime: Span, period: Span) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period },
        runtime: Some(runtime),
        deadline: Some(period),
        ..Task::default()
    }
}

/// These tasks under a policy with a placement.
pub(crate) fn placed(cpus: usize, name: &str, placement: &str, tasks: Vec<Task>) -> System {
    let placement = Placement::from_name(placement).unwrap();
    let policy = PolicySpec { placement, ..policy(name, &[]) };
    System { tasks, resources: 4, ..System::new(CpuSet::first(cpus), policy) }
}
