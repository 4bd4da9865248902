//! Policies with reservations: by hand, and what they promise over random servers.

#[path = "../common/for_all.rs"]
mod for_all;
#[path = "../common/told.rs"]
mod told;

mod by_hand;
mod calls;
mod constrained;
mod fcbs_model;
mod properties;
mod wmr_by_hand;
mod wmr_properties;

use takt_core::cpus::CpuSet;
use takt_core::model::*;
use takt_core::policy::{Placement, PolicySpec};
use takt_core::time::Span;
use told::*;

pub(crate) fn reservation((budget, period): (i64, i64)) -> Reservation {
    Reservation::new(ms(budget), ms(period))
}

/// A task with its period as its deadline.
pub(crate) fn periodic(runtime: i64, period: i64) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: ms(0), period: ms(period) },
        runtime: Some(ms(runtime)),
        deadline: Some(ms(period)),
        ..Task::default()
    }
}
