//! Every power policy of the registry over random window tables and events: it allocates nothing after construction, requests allowed
//! frequencies only, and does the same again.

use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System as Heap};
use std::cell::Cell;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::*;
use takt_core::power::{
    Demands, FrequencyDomain, Host, Kind as Takes, OperatingPoint, Parameter, Platform, Point, PowerSpec, Registry,
    Value,
};
use takt_core::record::{Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_core::work::Speed;

struct Counting;

thread_local! {
    /// Per thread, so that the test harness does not count.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        unsafe { Heap.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        unsafe { Heap.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        unsafe { Heap.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CPUS: usize = 4;

fn platform() -> Platform {
    let point =
        |(khz, millionths)| OperatingPoint { khz, speed: Speed::from_millionths(millionths).expect("above zero") };
    let domain = |name: &str, cpus: [usize; 2], points: &[(u32, u32)]| FrequencyDomain {
        name: name.to_owned(),
        cpus: cpus.into_iter().collect(),
        points: points.iter().copied().map(point).collect(),
    };
    Platform {
        domains: vec![
            domain("little", [0, 1], &[(600_000, 300_000), (900_000, 450_000), (1_200_000, 600_000)]),
            domain("big", [2, 3], &[(800_000, 500_000), (1_600_000, 1_000_000)]),
        ],
        zones: vec!["soc".to_owned()],
        simulated: false,
    }
}

/// A value of an argument that the machine allows.
fn value(parameter: &Parameter) -> Option<Value> {
    match parameter.kind {
        Takes::Zone => Some(Value::Zone("soc".to_owned())),
        Takes::Temperature(..) => Some(Value::Number(60_000)),
        Takes::Difference(..) => Some(Value::Number(1_000)),
        Takes::Points(each) => Some(Value::Points((0..2 * each).map(|n| Point::Index(n as u32 % 2)).collect())),
        Takes::Duration(..) | Takes::Count(..) => None,
        // Where demands disagree, the policy must choose.
        Takes::Choice(words) => Some(Value::Number(words.len() as i64 - 1)),
    }
}

fn specs() -> Vec<PowerSpec> {
    let spec = |entry: &'static takt_core::power::Entry| PowerSpec {
        profile: &entry.profile,
        values: entry.profile.parameters.iter().map(value).collect(),
    };
    Registry::standard().entries().map(spec).collect()
}

/// A window of a random table: its length in milliseconds, and for each half of the CPUs the partitions of both sides.
type Shape = (i64, [(Option<u32>, Option<u32>); 2]);

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let side = || prop::option::of(0u32..2);
    prop::collection::vec((1i64..40, [(side(), side()), (side(), side())]), 1..5)
}

/// Four partitions: two for each side, so that none is twice in a window.
fn table(shapes: &[Shape]) -> (System, Demands) {
    let tasks = (0..8).map(|i| Task {
        arrival: Arrival::Activated,
        budget: Some(Span::from_ms(3 + i)),
        jitter: Span::from_ms(i % 3),
        completion: Completion::None,
        ..Task::default()
    });
    let partition = |p: u32| Partition { tasks: vec![TaskId(2 * p), TaskId(2 * p + 1)], policy: None };
    let window = |(ms, halves): &Shape| {
        let half = |(index, (sc, be)): (usize, &(Option<u32>, Option<u32>))| Slice {
            cpus: [2 * index, 2 * index + 1].into_iter().collect(),
            // The second slice of a window must not have the partition of the first one.
            sc: sc.filter(|sc| index == 0 || halves[0].0 != Some(*sc)).map(PartitionId),
            be: be.filter(|be| index == 0 || halves[0].1 != Some(*be)).map(|be| PartitionId(2 + be)),
        };
        Window { length: Span::from_ms(*ms), slices: halves.iter().enumerate().map(half).collect() }
    };
    let policy = PolicySpec::from_name("windows").expect("the policy of tables");
    let system = System {
        tasks: tasks.collect(),
        partitions: (0..4).map(partition).collect(),
        windows: shapes.iter().map(window).collect(),
        seed: 7,
        ..System::new(CpuSet::first(CPUS), policy)
    };
    let khz = |index: usize| Some([600_000, 800_000][index % 2]);
    let slices = shapes.iter().map(|_| vec![khz(0), khz(1)]).collect();
    (system, Demands { slices, tasks: Vec::new() })
}

/// Samples of the zone: milliseconds after the one before, and a value if there is one.
type Samples = Vec<(i64, Option<i32>)>;

/// Runs a system for a second. Returns the records, and the allocations after the first step.
fn run(spec: &PowerSpec, system: &System, demands: &Demands, samples: &Samples) -> (Vec<Record>, u64) {
    let mut engine = Engine::new(system.clone()).expect("a sound table");
    let host = Host::new(spec, &Registry::standard(), system, platform(), demands);
    engine.set_power(host.unwrap_or_else(|fault| panic!("{}: {fault:?}", spec.profile.name)));
    let mut records = Vec::with_capacity(1 << 16);
    let end = Time::ZERO + Span::from_secs(1);
    let mut samples = samples.iter();
    let mut next = samples.next().map(|(ms, value)| (Time::ZERO + Span::from_ms(*ms), *value));
    let mut before = None;
    loop {
        let sampled = next.map_or(Time::MAX, |(at, _)| at);
        let now = engine.next_due().unwrap_or(Time::MAX).min(sampled);
        if now >= end {
            break;
        }
        let sample =
            next.filter(|(at, _)| *at <= now).map(|(_, millidegrees)| [Input::Temperature { zone: 0, millidegrees }]);
        if sample.is_some() {
            next = samples.next().map(|(ms, value)| (now + Span::from_ms(*ms), *value));
        }
        let _ = engine.step(now, sample.as_ref().map_or(&[], |sample| sample), &mut records);
        before.get_or_insert_with(|| CALLS.with(Cell::get));
    }
    let calls = before.map_or(0, |before| CALLS.with(Cell::get) - before);
    assert!(records.capacity() == 1 << 16, "the records of this test need more room");
    for record in &records {
        if let RecordKind::Frequency { domain, khz } = record.kind {
            let allowed = platform().domains[usize::from(domain)].index(khz).is_some();
            assert!(allowed, "{}: {khz} kHz", spec.profile.name);
        }
    }
    (records, calls)
}

#[test]
fn every_policy_requests_allowed_frequencies_without_allocating_and_does_the_same_again() {
    let samples = prop::collection::vec((1i64..300, prop::option::of(-60_000i32..160_000)), 0..20);
    takt_testing::for_all(48, (shapes(), samples), |(shapes, samples)| {
        let (system, demands) = table(&shapes);
        for spec in specs() {
            let (records, calls) = run(&spec, &system, &demands, &samples);
            let (again, _) = run(&spec, &system, &demands, &samples);
            prop_assert_eq!(calls, 0, "{} allocates", spec.profile.name);
            prop_assert!(records == again, "{} differs", spec.profile.name);
        }
        Ok(())
    });
}

/// Without the records of power, the schedule under a policy that neither skips nor scales budgets is the one without a policy.
#[test]
fn policies_that_only_choose_frequencies_leave_the_schedule_alone() {
    takt_testing::for_all(48, shapes(), |shapes| {
        let (system, demands) = table(&shapes);
        let schedule = |records: Vec<Record>| -> Vec<Record> {
            let of = |record: &Record| {
                !matches!(
                    record.kind,
                    RecordKind::Frequency { .. } | RecordKind::IdleLatency { .. } | RecordKind::Temperature { .. }
                )
            };
            records.into_iter().filter(of).collect()
        };
        let specs = specs();
        let none = schedule(run(&specs[0], &system, &demands, &Vec::new()).0);
        for spec in specs.iter().filter(|spec| spec.profile.uses.frequencies && !spec.profile.uses.budgets) {
            let own = schedule(run(spec, &system, &demands, &Vec::new()).0);
            prop_assert!(own == none, "{} changes the schedule", spec.profile.name);
        }
        Ok(())
    });
}

/// A best-effort partition does not start while it is too hot: it keeps its place, and a start in the same window stays forbidden.
#[test]
fn a_running_best_effort_partition_is_not_cut() {
    let shapes: Vec<Shape> = vec![(20, [(Some(0), Some(0)), (None, None)])];
    let (system, demands) = table(&shapes);
    let spec = specs().into_iter().find(|spec| spec.profile.name == "skip_be").expect("the policy");
    // Too hot at 15 ms, while the best-effort side runs; cool at 50 ms, within a window whose start was skipped.
    let samples = vec![(15, Some(70_000)), (35, Some(40_000)), (500, Some(40_000)), (400, Some(40_000))];
    let (records, _) = run(&spec, &system, &demands, &samples);
    let ms = |record: &Record| (record.at - Time::ZERO).ns() / 1_000_000;
    let of =
        |kind: fn(&RecordKind) -> bool| records.iter().filter(|r| kind(&r.kind)).map(ms).take(3).collect::<Vec<_>>();
    let skipped = of(|kind| matches!(kind, RecordKind::StartSkipped { .. }));
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!((20..40).contains(&skipped[0]) && (40..50).contains(&skipped[1]), "{skipped:?}");
    let best_effort = |record: &&Record| matches!(record.kind, RecordKind::Start { task, .. } if task.0 >= 4);
    let starts: Vec<i64> = records.iter().filter(best_effort).map(ms).collect();
    assert!(starts.iter().any(|at| (0..15).contains(at)), "{starts:?}");
    assert!(
        !starts.iter().any(|at| (20..60).contains(at)) && starts.iter().any(|at| (60..80).contains(at)),
        "{starts:?}"
    );
    let stops = records.iter().filter(|r| matches!(r.kind, RecordKind::Stop { task, .. } if task.0 >= 4));
    assert!(!stops.map(ms).any(|at| at == 15), "cut off as it became hot");
}

/// A policy from outside: while something runs on a domain, its frequency goes up by one step for each window.
mod outside {
    use takt_core::power::{Entry, Event, PowerPolicy, Profile, Requests, Uses};

    struct Climb;

    impl PowerPolicy for Climb {
        fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
            match event {
                Event::Start => requests.set_lowest(0),
                Event::WindowStart { frame, .. } => requests.set_point(0, *frame as usize),
                _ => {}
            }
        }
    }

    pub(super) static ENTRY: Entry = Entry {
        profile: Profile {
            name: "climb",
            aliases: &[],
            summary: "a higher frequency in each major frame",
            parameters: &[],
            uses: Uses {
                slices: false,
                processes: false,
                budgets: false,
                windows: true,
                frequencies: true,
                latencies: false,
            },
        },
        manual: "",
        build: |_| Ok(Box::new(Climb)),
    };
}

#[test]
fn a_policy_from_outside_is_found_by_its_name_and_hosted() {
    let registry = Registry::standard().with(&outside::ENTRY);
    let entry = registry.entry("Climb").expect("it was added");
    assert!(Registry::standard().entry("climb").is_none() && registry.entry("IMX8_FIXED").is_some());
    let (system, demands) = table(&[(10, [(Some(0), None), (None, None)])]);
    let mut engine = Engine::new(system.clone()).expect("a sound table");
    let host = Host::new(&PowerSpec::new(&entry.profile), &registry, &system, platform(), &demands).expect("it suits");
    engine.set_power(host);
    let mut records: Vec<Record> = Vec::new();
    while let Some(now) = engine.next_due().filter(|now| *now < Time::ZERO + Span::from_ms(45)) {
        let _ = engine.step(now, &[], &mut records);
    }
    let khz = records.iter().filter_map(|record| match record.kind {
        RecordKind::Frequency { khz, .. } => Some((record.at.ns() / 1_000_000, khz)),
        _ => None,
    });
    assert!(khz.eq([(0, 600_000), (10, 900_000), (20, 1_200_000)]));
    assert_eq!(engine.power().expect("it is hosted").frequency(0), Some(1_200_000));
}
