//! Simulated traces of all policies: the checker finds nothing in them, and it finds the faults that are planted in them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::cell::RefCell;
use std::collections::BTreeMap;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::*;
use takt_core::record::{Outcome, Place, Record, RecordKind, StopReason};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::work::Work;
use takt_trace::check::{Conditions, Consumption, arrivals, check, schedule};
use takt_trace::{Footer, Header, Stamped, TaskLabel, Trace};

const UNIT: i64 = 1_000;

const POLICIES: [&str; 46] = [
    "edf",
    "edf",
    "rm",
    "dm",
    "fp",
    "np-edf",
    "llf",
    "rr",
    "fifo",
    "hvdf",
    "np-hvdf",
    "g-edf",
    "g-edf",
    "g-rm",
    "g-fp",
    "g-dm",
    "g-rr",
    "g-fifo",
    "g-np-edf",
    "g-llf",
    "p-edf",
    "p-rm",
    "p-fp",
    "p-np-edf",
    "p-fifo",
    "c-edf",
    "c-fp",
    "llref",
    "pd2",
    "edf-wm",
    "edf-cd",
    "g-cbs",
    "cbs",
    "p-grub",
    "g-fcbs",
    "polling-server",
    "periodic-server",
    "deferrable-server",
    "sporadic-server",
    "p-polling-server",
    "dasa",
    "dasa-nd",
    "lbesa",
    "gmua",
    "ng-gua",
    "g-gua",
];

#[derive(Clone, Copy, Debug)]
enum Shape {
    Plain,
    Locked(u16),
    Nested(u16),
    Asleep(i64),
    Budgeted(i64),
    Undated,
    Yields,
}

#[derive(Clone, Debug)]
struct Row {
    times: (i64, i64, i64, i64),
    spread: i64,
    shape: Shape,
    priority: u32,
}

#[derive(Clone, Debug)]
struct File {
    rows: Vec<Row>,
    policies: Vec<&'static str>,
    cpus: usize,
    backlog: Backlog,
    late: Late,
    locking: Locking,
    bands: bool,
    seed: u64,
}

fn row() -> impl Strategy<Value = Row> {
    let shape = prop_oneof![
        8 => Just(Shape::Plain),
        2 => (0u16..2).prop_map(Shape::Locked),
        1 => (0u16..2).prop_map(Shape::Nested),
        2 => (1i64..8).prop_map(Shape::Asleep),
        3 => (-2i64..3).prop_map(Shape::Budgeted),
        1 => Just(Shape::Undated),
        1 => Just(Shape::Yields),
    ];
    let times = (2i64..12, 5i64..30, 1i64..30, 0i64..8);
    (times, prop_oneof![3 => Just(0i64), 1 => 1i64..12], shape, 0u32..4)
        .prop_map(|(times, spread, shape, priority)| Row { times, spread, shape, priority })
}

fn file() -> impl Strategy<Value = File> {
    let rules = (
        prop_oneof![4 => Just(Backlog::Queue), 1 => Just(Backlog::Skip)],
        prop_oneof![3 => Just(Late::Continue), 1 => Just(Late::Abort)],
        select(&[Locking::Inheritance, Locking::Ceiling, Locking::Fifo][..]),
        prop::bool::weighted(0.15),
        any::<u64>(),
    );
    (vec(row(), 2..6), vec(select(&POLICIES[..]), 2), 1usize..4, rules).prop_map(
        |(rows, policies, cpus, (backlog, late, locking, bands, seed))| File {
            rows,
            policies,
            cpus,
            backlog,
            late,
            locking,
            bands,
            seed,
        },
    )
}

fn units(n: i64) -> Span {
    Span::from_ns(n * UNIT)
}

fn run(work: Span) -> Step {
    Step::Run(work)
}

fn policy(name: &str) -> PolicySpec {
    let mut policy = PolicySpec::from_name(name).unwrap_or_else(|| panic!("no policy is called {name}"));
    for (index, setting) in policy.profile.settings.iter().enumerate() {
        if setting.name == "quantum" {
            policy.values.set(index, Some(if name == "pd2" { UNIT } else { 2 * UNIT }));
        }
    }
    policy
}

fn task(row: &Row) -> Task {
    let (runtime, period, deadline, offset) = row.times;
    let (runtime, period, offset) = (units(runtime), units(period), units(offset));
    let deadline = units(deadline);
    let third = runtime / 3;
    let rest = runtime - third;
    let arrival = match row.spread {
        0 => Arrival::Periodic { offset, period },
        spread => Arrival::Sporadic { offset, period, spread: units(spread) },
    };
    let mut task = Task {
        arrival,
        deadline: Some(deadline.max(runtime).min(period.max(runtime))),
        runtime: Some(runtime),
        priority: row.priority,
        utility: Some(takt_core::utility::Utility::Step(1_000_000 * u64::from(row.priority + 1))),
        reservation: Some(Reservation::new(runtime.min(period), period)),
        ..Task::default()
    };
    match row.shape {
        Shape::Plain => {}
        Shape::Locked(r) => {
            let r = ResourceId(r);
            task.program.steps = vec![run(third), Step::Lock(r), run(rest), Step::Unlock(r)];
        }
        Shape::Nested(r) => {
            let [outer, inner] = [ResourceId(r), ResourceId(1 - r)];
            let locked = [run(third), Step::Lock(inner), run(rest), Step::Unlock(inner), Step::Unlock(outer)];
            task.program.steps = [&[Step::Lock(outer)][..], &locked].concat();
        }
        Shape::Asleep(by) => task.program.steps = vec![run(third), Step::Sleep(units(by)), run(rest)],
        Shape::Budgeted(more) => task.budget = Some((runtime + units(more)).max(Span::from_ns(1))),
        Shape::Undated => task.deadline = None,
        Shape::Yields => task.program.steps = vec![run(third), Step::Yield, run(rest)],
    }
    task
}

fn system(file: &File) -> System {
    let named = policy(file.policies[0]);
    let single =
        |policy: PolicySpec| policy.scope == Scope::Uniprocessor && !policy.is_optimal() && policy.splits().is_none();
    let cpus = if !file.bands && single(named) { 1 } else { file.cpus };
    let all = CpuSet::first(cpus);
    let mut tasks: Vec<Task> = file.rows.iter().map(task).collect();
    tasks.iter_mut().for_each(|task| task.affinity = all);
    let mut domains = Vec::new();
    if file.bands {
        for band in 0..2usize {
            let tasks = (0..tasks.len()).filter(|i| i % 2 == band).map(|i| TaskId(i as u32)).collect();
            domains.push(Domain { band: 2 - band as u32, cpus: all, tasks, policy: policy(file.policies[band]) });
        }
    }
    System {
        tasks,
        domains,
        resources: 2,
        backlog: file.backlog,
        late: file.late,
        locking: file.locking,
        seed: file.seed,
        ..System::new(all, if file.bands { policy("domains") } else { named })
    }
}

const LENGTH: i64 = 150;

/// The trace of a simulation; `None` where the policy does not suit the system.
fn trace(system: &System) -> Option<Trace> {
    trace_of(system, units(LENGTH))
}

fn trace_of(system: &System, length: Span) -> Option<Trace> {
    let mut engine = Engine::new(system.clone()).ok()?;
    let mut records: Vec<Record> = Vec::new();
    takt_sim::simulate(&mut engine, &Scenario::default(), length, &mut records, |_| ());
    let label = |index: usize| TaskLabel { name: format!("t{index}"), ..TaskLabel::default() };
    let header = Header {
        source: "sim".into(),
        policy: system.policy.profile.name.into(),
        scope: system.policy.scope.name().into(),
        places: engine.places().to_vec(),
        tasks: (0..system.tasks.len()).map(label).collect(),
        seed: system.seed,
        ..Header::default()
    };
    let records = records.into_iter().map(|record| Stamped { record, applied: record.at }).collect();
    let footer = Some(Footer { end: Time::ZERO + length, dropped: 0 });
    Some(Trace { header, records, footer, ..Trace::default() })
}

const EXACT: Conditions = Conditions { tolerance: Span::ZERO, consumption: Consumption::Exact, changed: false };

fn findings(trace: &Trace, system: &System) -> Vec<String> {
    let mut found = check(trace, Some(system), Span::ZERO);
    found.extend(arrivals(trace, system, Span::ZERO));
    found.extend(schedule(trace, system, &EXACT).findings);
    found.iter().map(ToString::to_string).collect()
}

/// The process of a blocked job of a run continues by itself: the record of its wake-up can be late by up to the whole time for which it was blocked.
#[test]
fn a_blocked_job_of_a_run_consumes_at_most_its_blocked_time_besides() {
    let ms = Span::from_ms;
    let mut task = Task { deadline: Some(ms(20)), runtime: Some(ms(4)), ..Task::default() };
    task.arrival = Arrival::Periodic { offset: Span::ZERO, period: ms(20) };
    task.program.steps = vec![run(ms(2)), Step::Sleep(ms(5)), run(ms(2))];
    let cpu = CpuSet::single(0);
    let system = System { tasks: vec![Task { affinity: cpu, ..task }], ..System::new(cpu, policy("edf")) };
    let right = trace_of(&system, ms(20)).expect("a system of EDF");
    let found = |source: &str, used: i64, consumption| {
        let mut trace = right.clone();
        trace.header.source = source.into();
        for record in &mut trace.records {
            if let RecordKind::Finish { consumed, .. } = &mut record.record.kind {
                *consumed = Work::nominal(ms(used));
            }
        }
        let conditions = Conditions { tolerance: Span::ZERO, consumption, changed: false };
        let found = schedule(&trace, &system, &conditions).findings;
        found.iter().any(|finding| finding.to_string().ends_with("[consumption]"))
    };
    let bounded = |source: &str| [4, 5, 9, 10].map(|used| found(source, used, Consumption::Bounded));
    assert_eq!(bounded("run"), [false, false, false, true]);
    assert_eq!(bounded("sim"), [false, true, true, true]);
    assert_eq!([4, 5].map(|used| found("sim", used, Consumption::Exact)), [false, true]);
}

#[test]
fn right_traces_have_no_findings() {
    let judged = RefCell::new(0);
    takt_testing::for_all(2000, file(), |file| {
        let system = system(&file);
        let Some(trace) = trace(&system) else { return Ok(()) };
        *judged.borrow_mut() += 1;
        let found = findings(&trace, &system);
        prop_assert!(found.is_empty(), "{found:#?}");
        Ok(())
    });
    let judged = judged.into_inner();
    assert!(takt_testing::shows_enough(judged, 1000, 2000), "only {judged} files suit their policies");
}

/// A band above takes the CPU of a started job of a policy without preemption, and the policy chooses which of its jobs waits.
/// The smallest files in which the checker once found a fault.
#[test]
fn jobs_displaced_by_a_band_above_are_no_faults() {
    let row = |times, shape| Row { times, spread: 0, shape, priority: 0 };
    let (plain, asleep) = (Shape::Plain, Shape::Asleep);
    let fifo = vec![
        row((3, 7, 1, 4), asleep(1)),
        row((3, 18, 1, 2), plain),
        row((6, 10, 10, 0), asleep(4)),
        row((2, 12, 1, 1), plain),
    ];
    let edf = [
        vec![
            row((8, 12, 1, 2), plain),
            row((6, 5, 1, 1), plain),
            row((5, 11, 1, 3), plain),
            row((10, 5, 1, 1), asleep(3)),
            row((3, 14, 7, 1), plain),
        ],
        vec![
            row((4, 9, 1, 2), plain),
            row((9, 5, 1, 1), plain),
            row((7, 11, 1, 4), plain),
            row((7, 5, 1, 1), plain),
            row((3, 14, 1, 0), plain),
        ],
        vec![
            row((5, 9, 1, 7), Shape::Budgeted(0)),
            row((3, 5, 5, 0), plain),
            row((9, 11, 1, 1), plain),
            row((3, 7, 7, 0), plain),
        ],
    ];
    let cases = edf.into_iter().map(|rows| (rows, ["g-edf", "g-np-edf"], Backlog::Queue));
    for (rows, policies, backlog) in cases.chain([(fifo, ["llref", "g-fifo"], Backlog::Skip)]) {
        let file = File {
            rows,
            policies: policies.to_vec(),
            cpus: 2,
            backlog,
            late: Late::Continue,
            locking: Locking::Inheritance,
            bands: true,
            seed: 0,
        };
        let system = system(&file);
        let trace = trace(&system).expect("the policies suit the system");
        assert_eq!(findings(&trace, &system), Vec::<String>::new(), "{policies:?}");
    }
}

/// One that `keep` chooses of the records, by index.
fn pick(trace: &Trace, at: usize, keep: impl Fn(&RecordKind) -> bool) -> Option<usize> {
    let all: Vec<usize> = (0..trace.records.len()).filter(|i| keep(&trace.records[*i].record.kind)).collect();
    (!all.is_empty()).then(|| all[at % all.len()])
}

/// The task of a record about a job.
fn task_in(kind: &mut RecordKind) -> Option<&mut TaskId> {
    match kind {
        RecordKind::Release { task, .. }
        | RecordKind::Budget { task, .. }
        | RecordKind::Start { task, .. }
        | RecordKind::Stop { task, .. }
        | RecordKind::Finish { task, .. }
        | RecordKind::Block { task, .. }
        | RecordKind::Wake { task, .. }
        | RecordKind::Lock { task, .. }
        | RecordKind::Unlock { task, .. }
        | RecordKind::Yield { task, .. }
        | RecordKind::Deadlock { task, .. } => Some(task),
        _ => None,
    }
}

fn of(kind: &RecordKind) -> Option<TaskId> {
    task_in(&mut kind.clone()).copied()
}

fn is_start(kind: &RecordKind) -> bool {
    matches!(kind, RecordKind::Start { .. })
}
fn is_stop(kind: &RecordKind) -> bool {
    matches!(kind, RecordKind::Stop { .. })
}
fn is_release(kind: &RecordKind) -> bool {
    matches!(kind, RecordKind::Release { .. })
}
fn is_end(kind: &RecordKind) -> bool {
    matches!(kind, RecordKind::Finish { outcome: Outcome::Completed, .. })
}

/// The instants of the records from `from` on become later; the order stays that of the instants.
fn shift(trace: &mut Trace, chosen: impl Fn(usize, &RecordKind) -> bool, by: i64) {
    for (index, record) in trace.records.iter_mut().enumerate() {
        if chosen(index, &record.record.kind) {
            record.record.at += Span::from_ns(by);
            record.applied = record.record.at;
        }
    }
    trace.records.sort_by_key(|record| record.record.at);
}

/// The stop that belongs to a start.
fn stop_of(trace: &Trace, start: usize) -> Option<usize> {
    let task = of(&trace.records[start].record.kind)?;
    (start + 1..trace.records.len()).find(|i| {
        let kind = &trace.records[*i].record.kind;
        is_stop(kind) && of(kind) == Some(task)
    })
}

/// How long the state after a record lasts.
fn lasts(trace: &Trace, index: usize) -> Span {
    let at = trace.records[index].record.at;
    let next = trace.records[index..].iter().map(|r| r.record.at).find(|next| *next > at);
    next.map_or(Span::ZERO, |next| next - at)
}

/// The kinds of faults.
const KINDS: [&str; 41] = [
    "release dropped",
    "release twice",
    "release later",
    "deadline later",
    "deadline dropped",
    "job number of a release",
    "start dropped",
    "stop dropped",
    "end dropped",
    "end twice",
    "completed becomes aborted",
    "consumes 1 us more",
    "consumes 1 ns",
    "consumes twice as much",
    "no record of a task",
    "a task never runs",
    "starts on another CPU",
    "runs on another CPU",
    "stops elsewhere",
    "stops early",
    "stops late",
    "starts late",
    "starts before its release",
    "job number of a start",
    "job number of an end",
    "preempted becomes suspended",
    "preempted becomes blocked",
    "finished becomes preempted",
    "budget doubled",
    "budget dropped",
    "executions exchanged",
    "tasks exchanged",
    "request granted",
    "request dropped",
    "unlock dropped",
    "unlock twice",
    "block dropped",
    "wake-up dropped",
    "wake-up twice",
    "waiting job beside the running one",
    "records end in the middle",
];

/// A trace with a fault of this kind; `None` where it has no place for one.
fn plant(kind: &str, trace: &Trace, system: &System, at: usize) -> Option<Trace> {
    let mut t = trace.clone();
    let us = Span::from_ns(UNIT);
    let drop_one = |keep: fn(&RecordKind) -> bool| {
        let mut t = trace.clone();
        t.records.remove(pick(trace, at, keep)?);
        Some(t)
    };
    let twice = |keep: fn(&RecordKind) -> bool| {
        let mut t = trace.clone();
        let index = pick(trace, at, keep)?;
        t.records.insert(index, t.records[index]);
        Some(t)
    };
    let change = |keep: fn(&RecordKind) -> bool, how: &dyn Fn(&mut RecordKind)| {
        let mut t = trace.clone();
        let index = pick(trace, at, keep)?;
        how(&mut t.records[index].record.kind);
        Some(t)
    };
    let lock =
        |granted: bool| move |kind: &RecordKind| matches!(kind, RecordKind::Lock { granted: g, .. } if *g == granted);
    let exchange = |keep: fn(&RecordKind) -> bool| {
        let mut t = trace.clone();
        let n = t.header.tasks.len();
        let (a, b) = (TaskId((at % n) as u32), TaskId(((at + 1) % n) as u32));
        let ran = |task| t.records.iter().any(|r| is_start(&r.record.kind) && of(&r.record.kind) == Some(task));
        if !ran(a) && !ran(b) || system.tasks[a.index()] == system.tasks[b.index()] {
            return None;
        }
        for record in t.records.iter_mut().filter(|r| keep(&r.record.kind)) {
            let Some(task) = task_in(&mut record.record.kind) else { continue };
            *task = if *task == a {
                b
            } else if *task == b {
                a
            } else {
                *task
            };
        }
        Some(t)
    };
    match kind {
        "release dropped" => drop_one(is_release),
        "release twice" => twice(is_release),
        "release later" => {
            let chosen = pick(trace, at, is_release)?;
            shift(&mut t, |index, _| index == chosen, UNIT);
            Some(t)
        }
        "deadline later" => change(|k| matches!(k, RecordKind::Release { deadline: Some(_), .. }), &|kind| {
            if let RecordKind::Release { deadline: Some(deadline), .. } = kind {
                *deadline += us;
            }
        }),
        "deadline dropped" => change(|k| matches!(k, RecordKind::Release { deadline: Some(_), .. }), &|kind| {
            if let RecordKind::Release { deadline, .. } = kind {
                *deadline = None;
            }
        }),
        "job number of a release" => change(is_release, &|kind| {
            if let RecordKind::Release { job, .. } = kind {
                *job += 1;
            }
        }),
        "start dropped" => drop_one(is_start),
        "stop dropped" => drop_one(is_stop),
        "end dropped" => drop_one(is_end),
        "end twice" => twice(is_end),
        "completed becomes aborted" => {
            // At its deadline or with its budget exhausted, a job may be aborted.
            let index = pick(trace, at, is_end)?;
            let RecordKind::Finish { task, job, consumed, .. } = t.records[index].record.kind else { return None };
            let described = &system.tasks[task.index()];
            let deadline = trace.records.iter().find_map(|r| match r.record.kind {
                RecordKind::Release { task: of, job: number, deadline } if of == task && number == job => deadline,
                _ => None,
            });
            let late = system.late != Late::Continue && deadline.is_some_and(|d| d <= t.records[index].record.at);
            let spent = described.budget.is_some_and(|budget| consumed.nominal_time() >= budget);
            if let RecordKind::Finish { outcome, .. } = &mut t.records[index].record.kind {
                *outcome = Outcome::Aborted;
            }
            (!late && !spent).then_some(t)
        }
        "consumes 1 us more" | "consumes 1 ns" | "consumes twice as much" => change(is_end, &|of| {
            if let RecordKind::Finish { consumed, .. } = of {
                let had = consumed.nominal_time();
                let now = match kind {
                    "consumes 1 us more" => had + us,
                    "consumes 1 ns" => Span::from_ns(1),
                    _ => had * 2,
                };
                *consumed = Work::nominal(now);
            }
        }),
        "no record of a task" | "a task never runs" => {
            let chosen = of(&trace.records[pick(trace, at, is_start)?].record.kind);
            let stays =
                |kind: &RecordKind| of(kind) != chosen || is_release(kind) || matches!(kind, RecordKind::Budget { .. });
            let whole = kind == "no record of a task";
            t.records.retain(|r| if whole { of(&r.record.kind) != chosen } else { stays(&r.record.kind) });
            Some(t)
        }
        "starts on another CPU" | "runs on another CPU" => {
            if t.header.places.len() < 2 {
                return None;
            }
            let start = pick(trace, at, is_start)?;
            let RecordKind::Start { place, .. } = &mut t.records[start].record.kind else { return None };
            *place = Place((place.0 + 1) % t.header.places.len() as u16);
            let other = *place;
            if kind == "runs on another CPU" {
                // Where tasks may run anywhere, an idle CPU is as good.
                let fixed = matches!(system.policy.scope, Scope::Partitioned) && !system.policy.migrates();
                let stop = stop_of(trace, start).filter(|_| fixed)?;
                if let RecordKind::Stop { place, .. } = &mut t.records[stop].record.kind {
                    *place = other;
                }
                // A task that runs once has no other home that a trace shows.
                let task = of(&trace.records[start].record.kind);
                let runs = trace.records.iter().filter(|r| is_start(&r.record.kind) && of(&r.record.kind) == task);
                return (runs.count() > 1).then_some(t);
            }
            Some(t)
        }
        "stops elsewhere" => {
            if t.header.places.len() < 2 {
                return None;
            }
            let n = t.header.places.len() as u16;
            change(is_stop, &|kind| {
                if let RecordKind::Stop { place, .. } = kind {
                    *place = Place((place.0 + 1) % n);
                }
            })
        }
        "stops early" | "stops late" => {
            let stop = pick(trace, at, is_stop)?;
            let by = if kind == "stops early" { -1 } else { 1 };
            shift(&mut t, |index, _| index == stop, by);
            Some(t)
        }
        "starts late" => {
            let start = pick(trace, at, is_start)?;
            if lasts(trace, start) <= Span::from_ns(1) {
                return None;
            }
            shift(&mut t, |index, _| index == start, 1);
            Some(t)
        }
        "starts before its release" => {
            let start = pick(trace, at, is_start)?;
            let (task, now) = (of(&trace.records[start].record.kind), trace.records[start].record.at);
            let released = trace.records[..start]
                .iter()
                .any(|r| is_release(&r.record.kind) && of(&r.record.kind) == task && r.record.at == now);
            shift(&mut t, |index, _| index == start, -1);
            (released && now > Time::ZERO).then_some(t)
        }
        "job number of a start" => change(is_start, &|kind| {
            if let RecordKind::Start { job, .. } = kind {
                *job += 1;
            }
        }),
        "job number of an end" => change(is_end, &|kind| {
            if let RecordKind::Finish { job, .. } = kind {
                *job += 1;
            }
        }),
        "preempted becomes suspended" | "preempted becomes blocked" | "finished becomes preempted" => {
            let (from, to) = match kind {
                "preempted becomes suspended" => (StopReason::Preempted, StopReason::Suspended),
                "preempted becomes blocked" => (StopReason::Preempted, StopReason::Blocked),
                _ => (StopReason::Finished, StopReason::Preempted),
            };
            let index = pick(trace, at, |kind| matches!(kind, RecordKind::Stop { reason, .. } if *reason == from))?;
            if let RecordKind::Stop { reason, .. } = &mut t.records[index].record.kind {
                *reason = to;
            }
            Some(t)
        }
        "budget doubled" | "budget dropped" => {
            let budgeted = |kind: &RecordKind| {
                matches!(kind, RecordKind::Budget { .. })
                    && of(kind).is_some_and(|t| system.tasks[t.index()].budget.is_some())
            };
            let index = pick(trace, at, budgeted)?;
            let RecordKind::Budget { task, job, amount: Some(amount) } = &mut t.records[index].record.kind else {
                return None;
            };
            // A job that never runs needs none.
            let (task, job) = (*task, *job);
            let runs = |r: &Stamped| matches!(r.record.kind, RecordKind::Start { task: t, job: j, .. } if t == task && j == job);
            if !trace.records.iter().any(runs) {
                return None;
            }
            let whole = *amount == system.tasks[task.index()].budget?;
            *amount = *amount * 2;
            if kind == "budget dropped" {
                t.records.remove(index);
            }
            whole.then_some(t)
        }
        "executions exchanged" => {
            exchange(|kind| is_start(kind) || is_stop(kind) || matches!(kind, RecordKind::Finish { .. }))
        }
        "tasks exchanged" => exchange(|kind| of(kind).is_some()),
        "request granted" => {
            let index = pick(trace, at, lock(false))?;
            if let RecordKind::Lock { granted, .. } = &mut t.records[index].record.kind {
                *granted = true;
            }
            Some(t)
        }
        "request dropped" => {
            t.records.remove(pick(trace, at, lock(true))?);
            Some(t)
        }
        "unlock dropped" => drop_one(|kind| matches!(kind, RecordKind::Unlock { .. })),
        "unlock twice" => twice(|kind| matches!(kind, RecordKind::Unlock { .. })),
        "block dropped" => drop_one(|kind| matches!(kind, RecordKind::Block { .. })),
        "wake-up dropped" => drop_one(|kind| matches!(kind, RecordKind::Wake { .. })),
        "wake-up twice" => twice(|kind| matches!(kind, RecordKind::Wake { .. })),
        "waiting job beside the running one" => {
            let index = pick(trace, at, |kind| matches!(kind, RecordKind::Stop { reason: StopReason::Preempted, .. }))?;
            let RecordKind::Stop { task, job, place, .. } = t.records[index].record.kind else { return None };
            let later = (index..t.records.len()).find(|i| t.records[*i].record.at > t.records[index].record.at)?;
            let (at, kind) = (t.records[later - 1].record.at, RecordKind::Start { task, job, place });
            t.records.insert(later, Stamped { record: Record { at, kind }, applied: at });
            Some(t)
        }
        "records end in the middle" => {
            let half = t.records.len() / 2;
            t.records.truncate(half);
            (half > 4).then_some(t)
        }
        _ => unreachable!("{kind}"),
    }
}

/// At least 95 of 100 planted faults are found.
#[test]
fn planted_faults_are_found() {
    let counts: RefCell<BTreeMap<&str, (u32, u32)>> = RefCell::default();
    let lost: RefCell<BTreeMap<&str, String>> = RefCell::default();
    takt_testing::for_all(300, (file(), any::<u16>()), |(file, at)| {
        let system = system(&file);
        let Some(trace) = trace(&system) else { return Ok(()) };
        for kind in KINDS {
            let Some(planted) = plant(kind, &trace, &system, usize::from(at)) else { continue };
            let found = !findings(&planted, &system).is_empty();
            let mut counts = counts.borrow_mut();
            let count = counts.entry(kind).or_default();
            *count = (count.0 + 1, count.1 + u32::from(found));
            if !found {
                let policy = format!("{}{}", system.policy.prefix(), system.policy.profile.name);
                lost.borrow_mut().entry(kind).or_default().push_str(&format!(" {policy}"));
            }
        }
        Ok(())
    });
    let (counts, lost) = (counts.into_inner(), lost.into_inner());
    for (kind, (planted, found)) in &counts {
        println!("{found:>5} of {planted:>5}  {kind}{}", lost.get(kind).map_or("", String::as_str));
    }
    let (planted, found) = counts.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    println!("{found} of {planted}, {} kinds", counts.len());
    assert!(takt_testing::cases(300) < 100 || counts.len() >= 40, "{} kinds have a place", counts.len());
    assert!(found * 100 >= planted * 95, "{found} of {planted} planted faults are found");
}

/// Two jobs under EDF, and nine faults in their trace.
#[test]
fn each_of_nine_faults_is_found() {
    let ms = Span::from_ms;
    let all = CpuSet::first(1);
    let arrival = Arrival::Periodic { offset: Span::ZERO, period: ms(20) };
    let a = Task { arrival, deadline: Some(ms(10)), runtime: Some(ms(4)), affinity: all, ..Task::default() };
    let b = Task { deadline: Some(ms(20)), runtime: Some(ms(6)), budget: Some(ms(8)), ..a.clone() };
    let system = System { tasks: vec![a, b], ..System::new(all, policy("edf")) };
    let right = trace_of(&system, ms(20)).expect("it suits");
    assert_eq!(findings(&right, &system), [""; 0]);
    let with = |change: &dyn Fn(&mut Trace)| {
        let mut trace = right.clone();
        change(&mut trace);
        trace.records.sort_by_key(|record| record.record.at);
        findings(&trace, &system)
    };
    let (first, second) = (TaskId(0), TaskId(1));
    let starts = |kind: &RecordKind| matches!(kind, RecordKind::Release { .. } | RecordKind::Budget { .. });
    // The executions in other intervals: task, start, end, consumption.
    let runs = |of: &[(TaskId, i64, i64, i64)]| {
        with(&|trace| {
            trace.records.retain(|record| starts(&record.record.kind));
            for &(task, from, to, used) in of {
                let (place, job, consumed) = (Place(0), 0, Work::nominal(ms(used)));
                let kinds = [
                    (from, RecordKind::Start { task, job, place }),
                    (to, RecordKind::Finish { task, job, outcome: Outcome::Completed, consumed }),
                    (to, RecordKind::Stop { task, job, place, reason: StopReason::Finished }),
                ];
                for (at, kind) in kinds {
                    let at = Time::ZERO + ms(at);
                    trace.records.push(Stamped { record: Record { at, kind }, applied: at });
                }
            }
        })
    };
    let ended = |task, used: Option<Work>, how: Outcome| {
        with(&|trace| {
            for record in &mut trace.records {
                if let RecordKind::Finish { task: of, consumed, outcome, .. } = &mut record.record.kind
                    && *of == task
                {
                    (*consumed, *outcome) = (used.unwrap_or(*consumed), how);
                }
            }
        })
    };
    let without = |lost: &dyn Fn(&RecordKind) -> bool| with(&|trace| trace.records.retain(|r| !lost(&r.record.kind)));
    let work = |used: Span| Some(Work::nominal(used));
    let faults = [
        ("order", runs(&[(second, 0, 6, 6), (first, 6, 10, 4)])),
        ("idle", runs(&[(first, 5, 9, 4), (second, 9, 15, 6)])),
        ("consumption", ended(second, work(ms(9)), Outcome::Completed)),
        ("budget", runs(&[(first, 0, 4, 4), (second, 4, 16, 12)])),
        ("abort", ended(first, None, Outcome::Aborted)),
        ("missing", without(&|kind| of(kind) == Some(second))),
        ("idle", without(&|kind| of(kind) == Some(second) && !starts(kind))),
        ("consumption", ended(second, work(Span::from_ns(1)), Outcome::Completed)),
        ("budget", runs(&[(first, 0, 4, 4), (second, 4, 13, 9)])),
    ];
    for (number, (rule, found)) in faults.iter().enumerate() {
        assert!(found.iter().any(|line| line.ends_with(&format!("[{rule}]"))), "{number}: {rule} is not in {found:?}");
    }
}
