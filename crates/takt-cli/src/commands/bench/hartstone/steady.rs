//! The benefit of feedback: three tasks that always want to run, on a machine whose bursts do not end when they should.
//!
//! Hartstone's tasks block all the time, and each time the regulator starts again from its set points. Here no task blocks,
//! so that only measurements can tell the regulator what a disturbance did.

use super::trial::Machine;
use takt_core::cpus::CpuSet;
use takt_core::input::Input;
use takt_core::model::{Arrival, Invalid, PolicySpec, System, Task, TaskId};
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};

/// Wanted shares, in millionths.
pub(super) const SHARES: [u32; 3] = [500_000, 300_000, 200_000];
/// How long it runs; the first half does not count.
pub(super) const LENGTH: Span = Span::from_secs(10);

/// The results of one policy.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Steady {
    /// Set point and mean duration of a round, as the policy measured it.
    pub(super) set_point: Span,
    pub(super) measured: Span,
    /// The shares of the tasks, in millionths of the total.
    pub(super) received: Vec<u32>,
}

impl Steady {
    /// The largest deviation from the wanted shares, in millionths.
    pub(super) fn share_error(&self) -> u32 {
        self.received.iter().zip(SHARES).map(|(got, wanted)| got.abs_diff(wanted)).max().unwrap_or(0)
    }
    /// Deviation of the round from its set point, in millionths of it.
    pub(super) fn round_error(&self) -> i64 {
        let off = i128::from((self.measured - self.set_point).ns()) * 1_000_000;
        (off / i128::from(self.set_point.ns().max(1))) as i64
    }
}

/// # Errors
/// When the policy cannot schedule tasks without periods and deadlines.
pub(super) fn run(machine: &Machine, policy: PolicySpec) -> Result<Steady, Invalid> {
    let task = |share: u32| Task {
        arrival: Arrival::Listed { instants: vec![Span::ZERO] },
        share: Some(share),
        ..Task::default()
    };
    let system = System {
        tasks: SHARES.map(task).to_vec(),
        timing: machine.timing,
        seed: machine.seed,
        ..System::new(CpuSet::first(1), policy)
    };
    let skews = (0..SHARES.len() as u32).map(|i| (Time::ZERO, Input::Skew { task: TaskId(i), by: machine.skew }));
    let scenario = Scenario {
        costs: machine.costs,
        metered: machine.metered,
        steal: machine.steal,
        changes: skews.collect(),
        ..Scenario::default()
    };
    let mut engine = takt::load::engine(system)?;
    let mut rounds = Rounds::default();
    takt_sim::simulate(&mut engine, &scenario, LENGTH, &mut rounds, |_| ());
    let all: i64 = rounds.received.iter().map(|s| s.ns()).sum();
    let part = |s: &Span| (i128::from(s.ns()) * 1_000_000 / i128::from(all.max(1))) as u32;
    Ok(Steady {
        set_point: rounds.set_point / rounds.count.max(1),
        measured: rounds.measured / rounds.count.max(1),
        received: rounds.received.iter().map(part).collect(),
    })
}

/// Sums over the rounds of the second half.
#[derive(Default)]
struct Rounds {
    count: i64,
    set_point: Span,
    measured: Span,
    received: [Span; SHARES.len()],
    since: Time,
}

impl Sink for Rounds {
    fn record(&mut self, record: Record) {
        let counts = record.at >= Time::ZERO + LENGTH / 2;
        match record.kind {
            RecordKind::Round { set_point, measured, .. } if counts => {
                self.count += 1;
                self.set_point += set_point;
                self.measured += measured;
            }
            RecordKind::Start { .. } => self.since = record.at,
            RecordKind::Stop { task, .. } if counts => self.received[task.index()] += record.at - self.since,
            _ => {}
        }
    }
}
