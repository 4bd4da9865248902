//! Small systems told in a line for each CPU, to be held against schedules worked out by hand.

use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::scenario::Scenario;
use takt_core::time::Span;

pub(crate) fn ms(ms: i64) -> Span {
    Span::from_ms(ms)
}

pub(crate) fn run(length: i64) -> Step {
    Step::Run(ms(length))
}

/// One job.
pub(crate) fn once(release: i64, runtime: i64, deadline: i64) -> Task {
    Task {
        arrival: Arrival::Listed { instants: vec![ms(release)] },
        runtime: Some(ms(runtime)),
        deadline: Some(ms(deadline)),
        ..Task::default()
    }
}

/// A policy by name, with settings in the order of its entry.
pub(crate) fn policy(name: &str, values: &[Option<i64>]) -> PolicySpec {
    let mut spec = PolicySpec::from_name(name).unwrap_or_else(|| panic!("no policy is called {name}"));
    values.iter().enumerate().for_each(|(index, value)| spec.values.set(index, *value));
    spec
}

pub(crate) fn system(cpus: usize, name: &str, tasks: Vec<Task>) -> System {
    let resources = 4;
    System { tasks, resources, ..System::new(CpuSet::first(cpus), policy(name, &[])) }
}

pub(crate) struct Told {
    pub(crate) engine: Engine,
    pub(crate) records: Vec<Record>,
}

pub(crate) fn tell(system: System, until: i64) -> Told {
    tell_with(system, &Scenario::default(), until)
}

pub(crate) fn tell_with(system: System, scenario: &Scenario, until: i64) -> Told {
    let mut engine = Engine::new(system).unwrap_or_else(|e| panic!("{e}"));
    let mut records = vec![];
    takt_sim::simulate(&mut engine, scenario, ms(until), &mut records, |_| ());
    Told { engine, records }
}

impl Told {
    /// The schedule, a line for each CPU: task 0 is `a`, times are in milliseconds, `x` marks a job that was aborted there.
    pub(crate) fn chart(&self) -> String {
        let cpus = self.engine.system().cpus.len();
        let mut lines: Vec<Vec<(TaskId, Span, Span, &str)>> = vec![vec![]; cpus];
        let mut since = vec![None; self.engine.system().tasks.len()];
        for record in &self.records {
            let now = record.at - takt_core::time::Time::ZERO;
            match record.kind {
                RecordKind::Start { task, place, .. } => since[task.index()] = Some((place, now)),
                RecordKind::Stop { task, .. } => {
                    let (place, from) = since[task.index()].take().expect("it was started");
                    let line = &mut lines[place.index()];
                    match line.last_mut().filter(|last| (last.0, last.2, last.3) == (task, from, "")) {
                        Some(last) => last.2 = now,
                        None if from < now => line.push((task, from, now, "")),
                        None => {}
                    }
                }
                _ => {}
            }
            if let RecordKind::Finish { task, outcome: Outcome::Aborted, .. } = record.kind {
                // Its stop comes after this.
                if let Some((place, from)) = since[task.index()] {
                    lines[place.index()].push((task, from, now, "x"));
                    since[task.index()] = Some((place, now));
                }
            }
        }
        let time = |span: Span| {
            if span.ns() % 1_000_000 == 0 { (span.ns() / 1_000_000).to_string() } else { span.to_string() }
        };
        let piece = |(task, from, to, end): &(TaskId, Span, Span, &str)| {
            format!("{}{}-{}{end}", char::from(b'a' + task.0 as u8), time(*from), time(*to))
        };
        let line = |line: &Vec<_>| line.iter().map(piece).collect::<Vec<_>>().join(" ");
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The tasks that missed a deadline, as letters.
    pub(crate) fn missed(&self) -> String {
        let missed = |t: &usize| self.engine.counts(TaskId(*t as u32)).missed > 0;
        (0..self.engine.system().tasks.len()).filter(missed).map(|t| char::from(b'a' + t as u8)).collect()
    }
}

#[track_caller]
pub(crate) fn expect(told: &Told, chart: &str, missed: &str) {
    let expected: Vec<&str> = chart.lines().map(str::trim).collect();
    assert_eq!((told.chart(), told.missed()), (expected.join("\n"), missed.to_owned()));
}
