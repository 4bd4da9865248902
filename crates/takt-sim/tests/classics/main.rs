//! The classical policies, held to schedules worked out by hand and to what is known of them.

mod one_cpu;
mod properties;
mod resources;
mod several_cpus;

#[path = "../common/told.rs"]
mod told;

use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::input::Input;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::record::RecordKind;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use told::*;

/// One job that does these steps; the deadline is far.
fn doing(release: i64, steps: &[Step]) -> Task {
    Task { runtime: None, program: Program::doing(steps.to_vec()), ..once(release, 1, 1_000) }
}

fn periodic(runtime: i64, period: i64) -> Task {
    Task { arrival: Arrival::Periodic { offset: Span::ZERO, period: ms(period) }, ..once(0, runtime, period) }
}

fn prio(priority: u32, task: Task) -> Task {
    Task { priority, ..task }
}
