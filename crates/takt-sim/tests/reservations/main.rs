//! Policies with reservations: by hand, and what they promise over random servers.

#[path = "../common/told.rs"]
mod told;

mod by_hand;
mod calls;
mod constrained;
mod fcbs_model;
mod properties;
mod wmr_by_hand;
mod wmr_properties;

use std::collections::BTreeMap;
use takt_core::cpus::CpuSet;
use takt_core::model::*;
use takt_core::model::{Placement, PolicySpec};
use takt_core::record::{Record, RecordKind};
use takt_core::time::{Span, Time};
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

/// The schedule, with CPUs.
pub(crate) fn schedule(records: &[Record]) -> Vec<Record> {
    let runs =
        |r: &&Record| matches!(r.kind, RecordKind::Start { .. } | RecordKind::Stop { .. } | RecordKind::Finish { .. });
    records.iter().filter(runs).copied().collect()
}

/// The consumption of a task in each of its periods, by their numbers, counted from zero.
pub(crate) fn by_period(of: TaskId, period: Span, records: &[Record]) -> BTreeMap<i64, Span> {
    let (mut had, mut since) = (BTreeMap::new(), Time::ZERO);
    for record in records {
        match record.kind {
            RecordKind::Start { task, .. } if task == of => since = record.at,
            RecordKind::Stop { task, .. } if task == of => {
                let mut at = since;
                while at < record.at {
                    let next = (at.round_down(period) + period).min(record.at);
                    *had.entry(at.ns() / period.ns()).or_default() += next - at;
                    at = next;
                }
            }
            _ => {}
        }
    }
    had
}
