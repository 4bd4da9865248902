//! Small systems in nanoseconds, and what happened to them as a line of text per record. Task 0 is `a`, task 1 is `b` …

// Not every test needs all of it.
#![allow(dead_code)]

pub(crate) mod reference;

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, PolicySpec, Program, Step, System, Task};
use takt_core::record::{Outcome, Record, RecordKind, StopReason};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_sim::Report;

pub(crate) fn ns(ns: i64) -> Span {
    Span::from_ns(ns)
}

pub(crate) fn at(ns: i64) -> Time {
    Time::from_ns(ns)
}

pub(crate) fn run(ns: i64) -> Step {
    Step::Run(Span::from_ns(ns))
}

pub(crate) fn sleep(ns: i64) -> Step {
    Step::Sleep(Span::from_ns(ns))
}

/// One job, released at `release`, that does these steps.
pub(crate) fn once(release: i64, priority: u32, steps: &[Step]) -> Task {
    Task {
        arrival: Arrival::Listed { instants: vec![ns(release)] },
        priority,
        program: Program::doing(steps.to_vec()),
        ..Task::default()
    }
}

/// One job, released at `release`, that runs for so long.
pub(crate) fn plain(release: i64, priority: u32, runtime: i64) -> Task {
    Task { runtime: Some(ns(runtime)), ..once(release, priority, &[]) }
}

pub(crate) fn system(cpus: usize, policy: &str, tasks: Vec<Task>) -> System {
    let resources = 4;
    System { tasks, resources, ..System::new(CpuSet::first(cpus), PolicySpec::from_name(policy).unwrap()) }
}

prop_compose! {
    /// A periodic task that runs and sleeps.
    pub(crate) fn simple_task()(
        period in 10i64..80, offset in 0i64..40, runtime in 1i64..20, late in 5i64..90, priority in 0u32..4,
        steps in prop::collection::vec(prop_oneof![(1i64..9).prop_map(run), (1i64..9).prop_map(sleep)], 0..5),
    ) -> Task {
        Task {
            arrival: Arrival::Periodic { offset: ns(offset), period: ns(period) },
            deadline: Some(ns(late)),
            runtime: Some(ns(runtime)),
            program: Program::doing(steps),
            priority,
            ..Task::default()
        }
    }
}

/// How it went.
pub(crate) struct Story {
    pub(crate) lines: String,
    pub(crate) records: Vec<Record>,
    pub(crate) report: Report,
    pub(crate) engine: Engine,
}

pub(crate) fn tell(system: System, scenario: &Scenario, until: i64) -> Story {
    let mut engine = Engine::new(system).unwrap();
    let mut records: Vec<Record> = vec![];
    let report = takt_sim::simulate(&mut engine, scenario, ns(until), &mut records, |_| ());
    let lines = records.iter().filter_map(line).collect();
    Story { lines, records, report, engine }
}

fn line(record: &Record) -> Option<String> {
    let name = |task: takt_core::model::TaskId| char::from(b'a' + task.0 as u8);
    let text = match record.kind {
        RecordKind::Release { .. } | RecordKind::Budget { .. } => return None,
        RecordKind::Stop { reason: StopReason::Finished, .. } => return None,
        RecordKind::Start { task, place, .. } => format!("start {} {}", name(task), place.0),
        RecordKind::Stop { task, reason, .. } => format!("{} {}", format!("{reason:?}").to_lowercase(), name(task)),
        RecordKind::Finish { task, outcome: Outcome::Completed, .. } => format!("complete {}", name(task)),
        RecordKind::Finish { task, outcome, .. } => format!("{} {}", format!("{outcome:?}").to_lowercase(), name(task)),
        RecordKind::Block { task, .. } => format!("block {}", name(task)),
        RecordKind::Wake { task, .. } => format!("wake {}", name(task)),
        RecordKind::Lock { task, resource, granted } => {
            format!("{} {} {}", if granted { "grant" } else { "refuse" }, name(task), resource.0)
        }
        RecordKind::Unlock { task, resource } => format!("return {} {}", name(task), resource.0),
        RecordKind::Yield { task, .. } => format!("yield {}", name(task)),
        RecordKind::Handler { task, .. } => format!("handler {}", name(task)),
        RecordKind::HandlerEnd { task, .. } => format!("handled {}", name(task)),
        RecordKind::Exit { task, .. } => format!("exit {}", name(task)),
        RecordKind::Switch { to, .. } => format!("switch to {to}"),
        RecordKind::Configure { setting, .. } => format!("setting {setting}"),
        RecordKind::Call { call, granted, .. } => format!("{call:?} {granted}"),
        other => format!("{other:?}"),
    };
    Some(format!("{} {text}\n", record.at.ns()))
}

/// Compares a story with what is expected: lines `instant what`, where a line may have several separated by commas.
#[track_caller]
pub(crate) fn expect(story: &Story, expected: &str) {
    let mut lines = String::new();
    for line in expected.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (instant, what) = line.split_once(' ').unwrap();
        what.split(", ").for_each(|what| lines.push_str(&format!("{instant} {what}\n")));
    }
    assert!(story.lines == lines, "expected\n{lines}\nbut it was\n{}", story.lines);
}
