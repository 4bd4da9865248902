//! Servers for aperiodic work: by hand, and what they promise to periodic tasks beside them.

#[path = "../common/told.rs"]
mod told;

mod by_hand;
mod properties;
mod shared;

use takt_core::model::*;
use takt_core::time::Span;
use told::*;

const ALL: [&str; 4] = ["polling-server", "periodic-server", "deferrable-server", "sporadic-server"];

/// Jobs at these instants, each of so long as the next of `lengths`, behind a server with this budget and period.
fn served(releases: &[i64], lengths: &[i64], (budget, period): (i64, i64)) -> Task {
    Task {
        arrival: Arrival::Listed { instants: releases.iter().map(|r| ms(*r)).collect() },
        runtime: lengths.iter().map(|l| ms(*l)).max(),
        program: Program::needing(Execution::Series(lengths.iter().map(|l| ms(*l)).collect())),
        reservation: Some(Reservation::new(ms(budget), ms(period))),
        ..Task::default()
    }
}

/// A task with its period as its deadline.
fn periodic(offset: i64, runtime: i64, period: i64) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: ms(offset), period: ms(period) },
        runtime: Some(ms(runtime)),
        deadline: Some(ms(period)),
        ..Task::default()
    }
}

fn with(name: &str, values: &[Option<i64>], tasks: Vec<Task>) -> System {
    System { policy: policy(name, values), ..system(1, name, tasks) }
}

/// How long the jobs of the first task took, in milliseconds.
fn responses(told: &Told) -> Vec<Span> {
    use takt_core::record::RecordKind;
    let mut released = std::collections::VecDeque::new();
    let mut responses = vec![];
    for record in &told.records {
        match record.kind {
            RecordKind::Release { task: TaskId(0), .. } => released.push_back(record.at),
            RecordKind::Finish { task: TaskId(0), .. } => responses.push(record.at - released.pop_front().unwrap()),
            _ => {}
        }
    }
    responses
}
