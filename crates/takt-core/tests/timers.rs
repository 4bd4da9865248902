//! The clock that a policy's timers obey: tick, resolution and lateness.

use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{
    Arrival, Late, Partition, PartitionId, PolicySpec, Slice, System, Task, TaskId, Timing, Window,
};
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::time::Span;

#[derive(Default)]
struct Starts(Vec<(i64, u32)>);

impl Sink for Starts {
    fn record(&mut self, record: Record) {
        match record.kind {
            RecordKind::Start { task, .. } => self.0.push((record.at.ns(), task.0)),
            RecordKind::Window { window, .. } => self.0.push((record.at.ns(), window)),
            _ => {}
        }
    }
}

/// When jobs start, or windows, until `end` ns; no job ever completes.
fn starts(system: System, end: i64) -> Vec<(i64, u32)> {
    let mut engine = Engine::new(system).unwrap();
    let mut seen = Starts::default();
    while let Some(due) = engine.next_due().filter(|due| due.ns() <= end) {
        let _ = engine.step(due, &[], &mut seen);
    }
    seen.0
}

fn policy(name: &str, settings: &[(&str, i64)]) -> PolicySpec {
    let mut spec = PolicySpec::from_name(name).unwrap();
    for (setting, value) in settings {
        let index = spec.profile.settings.iter().position(|s| s.name == *setting).unwrap();
        spec.values.set(index, Some(*value));
    }
    spec
}

/// Tasks that always want to run on one CPU.
fn busy(tasks: usize, policy: PolicySpec, timing: Timing) -> System {
    let period = Span::from_secs(1);
    let task = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period },
        deadline: Some(period),
        runtime: Some(period / tasks as i64),
        ..Task::default()
    };
    System { tasks: vec![task; tasks], timing, ..System::new(CpuSet::first(1), policy) }
}

const QUANTUM: i64 = 1_000_000;
const LATE: i64 = 300_000;

fn lateness() -> Timing {
    Timing { lateness: Span::from_ns(LATE), ..Timing::default() }
}

fn lengths(starts: &[(i64, u32)]) -> Vec<i64> {
    starts.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
}

/// Most of the range is seen in both directions, and nothing outside it.
fn spread(late: &[i64]) {
    assert!(late.iter().all(|l| (0..=LATE).contains(l)), "{late:?}");
    let (least, most) = (late.iter().min().unwrap(), late.iter().max().unwrap());
    assert!(late.len() > 100 && *least < LATE / 10 && *most > LATE * 9 / 10, "{} from {least} to {most}", late.len());
}

#[test]
fn quanta_of_round_robin_end_late() {
    let seen = starts(busy(3, policy("rr", &[("quantum", QUANTUM)]), lateness()), 300 * QUANTUM);
    assert!(seen.iter().zip((0..3).cycle()).all(|(start, task)| start.1 == task), "each in turn");
    spread(&lengths(&seen).iter().map(|length| length - QUANTUM).collect::<Vec<_>>());
    assert_eq!(seen, starts(busy(3, policy("rr", &[("quantum", QUANTUM)]), lateness()), 300 * QUANTUM));
    let mut other = busy(3, policy("rr", &[("quantum", QUANTUM)]), lateness());
    other.seed = 1;
    assert_ne!(seen, starts(other, 300 * QUANTUM));
}

/// One late quantum shortens the next one, and they do not drift.
#[test]
fn quanta_on_a_grid_stay_on_it() {
    for spec in [policy("rr", &[("quantum", QUANTUM), ("grid", 1)]), policy("pd2", &[("quantum", QUANTUM)])] {
        let seen = starts(busy(2, spec, lateness()), 300 * QUANTUM);
        let slots: Vec<i64> = seen.iter().map(|start| start.0 / QUANTUM).collect();
        // Under pd2 a short quantum may be followed by another one of the same job.
        let gap = if spec.profile.name == "rr" { 1 } else { 2 };
        assert!(slots.windows(2).all(|pair| (1..=gap).contains(&(pair[1] - pair[0]))), "{slots:?}");
        spread(&seen.iter().map(|start| start.0 % QUANTUM).collect::<Vec<_>>());
    }
}

#[test]
fn preemptions_by_laxity_come_late() {
    let on_time = lengths(&starts(busy(2, policy("llf", &[]), Timing::default()), 300 * QUANTUM));
    assert!(on_time[1..].iter().all(|l| *l == 2 * QUANTUM), "{on_time:?}");
    let seen = lengths(&starts(busy(2, policy("llf", &[]), lateness()), 600 * QUANTUM));
    assert!(seen.iter().any(|l| l % QUANTUM != 0), "{seen:?}");
    // A job that got more by one delay waits for as much longer.
    assert!(seen[1..].iter().all(|l| (2 * QUANTUM..=2 * QUANTUM + 2 * LATE).contains(l)), "{seen:?}");
}

#[test]
fn quanta_end_at_multiples_of_the_resolution() {
    let timing = Timing { resolution: Span::from_ns(700), ..Timing::default() };
    let seen = starts(busy(2, policy("rr", &[("quantum", 1_000)]), timing), 10_000);
    assert_eq!(seen, [(0, 0), (1_400, 1), (2_800, 0), (4_200, 1), (5_600, 0), (7_000, 1), (8_400, 0), (9_800, 1)]);
}

/// A release between the end of a quantum and the moment when that is noticed does not put the next decision off.
#[test]
fn a_release_does_not_swallow_a_late_boundary() {
    let mut disturbed = busy(2, policy("pd2", &[("quantum", QUANTUM)]), lateness());
    let often = Arrival::Periodic { offset: Span::from_ns(1), period: Span::from_ns(QUANTUM) };
    let runtime = Some(Span::from_ns(1));
    disturbed.tasks.push(Task { arrival: often, deadline: Some(Span::from_ns(QUANTUM)), runtime, ..Task::default() });
    disturbed.cpus = CpuSet::first(2);
    disturbed.late = Late::Abort;
    let seen = starts(disturbed, 300 * QUANTUM);
    // Both run in every second quantum, now and then in the next one.
    let boundaries: std::collections::BTreeSet<i64> = seen.iter().map(|start| start.0 / QUANTUM).collect();
    assert!(seen.iter().all(|start| start.0 % QUANTUM <= LATE), "{seen:?}");
    assert!(boundaries.len() > 100, "{boundaries:?}");
}

#[test]
fn windows_begin_on_time() {
    let none = Task { arrival: Arrival::Activated, budget: Some(Span::from_ns(400)), ..Task::default() };
    let cpus = CpuSet::first(1);
    let slice = Slice { cpus, sc: Some(PartitionId(0)), be: None };
    let window = Window { length: Span::from_ns(1_000), slices: vec![slice] };
    let system = System {
        tasks: vec![none],
        partitions: vec![Partition { tasks: vec![TaskId(0)], policy: None }],
        windows: vec![window],
        timing: Timing { resolution: Span::from_ns(700), ..lateness() },
        ..System::new(cpus, policy("windows", &[]))
    };
    let seen = starts(system, 9_500);
    let borders: Vec<i64> = seen.iter().map(|s| s.0).collect();
    assert!((0..10).all(|k| borders.contains(&(k * 1_000))), "{borders:?}");
}
