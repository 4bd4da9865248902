//! Load shapes: what jobs declare and what they really need is scaled alike, by their planned release.

mod story;

use proptest::prelude::*;
use story::*;
use takt_core::input::Input;
use takt_core::model::*;
use takt_core::scenario::Scenario;
use takt_core::time::Span;
use takt_core::utility::{UNIT, Utility};

fn tell(system: System, until: i64) -> Story {
    story::tell(system, &Scenario::default(), until)
}

/// A load through these points: instants, and factors in hundredths.
fn load(points: &[(i64, u32)], repeat: Option<i64>) -> Option<Load> {
    let points = points.iter().map(|&(at, factor)| (ns(at), factor * 10_000)).collect();
    Some(Load { points, repeat: repeat.map(ns) })
}

fn periodic(period: i64, runtime: i64) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(period) },
        deadline: Some(ns(period)),
        runtime: Some(ns(runtime)),
        ..Task::default()
    }
}

#[test]
fn a_ramp_makes_each_job_longer_than_the_one_before() {
    let described = System { load: load(&[(0, 50), (40, 150)], None), ..system(1, "edf", vec![periodic(20, 10)]) };
    expect(
        &tell(described, 100),
        "0 start a 0
        5 complete a
        20 start a 0
        30 complete a
        40 start a 0
        55 complete a
        60 start a 0
        75 complete a
        80 start a 0
        95 complete a",
    );
}

#[test]
fn bursts_come_again() {
    // One part in two of every 40 at twice the load.
    let points = load(&[(0, 200), (20, 200), (20, 100)], Some(40));
    let described = System { load: points, ..system(1, "edf", vec![periodic(20, 5)]) };
    expect(
        &tell(described, 80),
        "0 start a 0
        10 complete a
        20 start a 0
        25 complete a
        40 start a 0
        50 complete a
        60 start a 0
        65 complete a",
    );
}

/// Runs among the steps are scaled, each by itself; a sleep takes as long as it takes.
#[test]
fn steps_are_scaled_but_not_sleeps() {
    let a = once(0, 1, &[run(3), sleep(10), run(4), Step::Yield, run(1)]);
    let told = tell(System { load: load(&[(0, 150)], None), ..system(1, "fp", vec![a]) }, 100);
    expect(
        &told,
        "0 start a 0
        4 block a, blocked a
        14 wake a, start a 0
        20 yield a
        21 complete a",
    );
}

#[test]
fn drawn_and_listed_times_are_scaled_and_handlers_are_not() {
    let listed = Task { program: Program::needing(Execution::Series(vec![ns(6), ns(20)])), ..periodic(30, 9) };
    let handler = Some(Handler { runtime: ns(4), deadline: None, utility: 0 });
    let described = System {
        load: load(&[(0, 200)], None),
        late: Late::Abort,
        ..system(1, "edf", vec![Task { handler, ..listed }])
    };
    expect(
        &tell(described, 80),
        "0 start a 0
        12 complete a
        30 start a 0
        60 aborted a, handler a, start a 0
        64 handled a, start a 0
        76 complete a",
    );
}

/// The handler of a is worth 8 for 4 whatever the load; b is worth 6 for 2, and for 4 under the load.
#[test]
fn handlers_are_declared_without_the_load() {
    let handler = Some(Handler { runtime: ns(4), deadline: None, utility: 8 * UNIT });
    let tasks = || {
        let a = Task { deadline: Some(ns(10)), handler, utility: Some(Utility::Step(UNIT)), ..plain(0, 0, 12) };
        let b = Task { deadline: Some(ns(50)), utility: Some(Utility::Step(6 * UNIT)), ..plain(10, 0, 2) };
        vec![a, b]
    };
    let described = |load| System { load, late: Late::Abort, ..system(1, "hvdf", tasks()) };
    expect(
        &tell(described(load(&[(0, 200)], None)), 80),
        "0 start a 0
        10 aborted a, handler a, start a 0
        14 handled a, start b 0
        18 complete b",
    );
    expect(
        &tell(described(None), 80),
        "0 start a 0
        10 aborted a, handler a, start b 0
        12 complete b, start a 0
        16 handled a",
    );
}

/// Least laxity goes by what is declared under the load: b, released under the double load, has 40 - 2 * 15 left at 0, and a
/// 30 - 2 * 5.
#[test]
fn laxity_counts_the_load() {
    let tasks = || vec![periodic(30, 5), periodic(40, 15)];
    let first = |described| tell(described, 1).lines;
    let doubled = System { load: load(&[(0, 200)], None), ..system(1, "llf", tasks()) };
    assert_eq!(first(doubled), "0 start b 0\n1 suspended b\n");
    let tasks = || vec![periodic(30, 5), periodic(43, 15)];
    assert_eq!(first(system(1, "llf", tasks())), "0 start a 0\n1 suspended a\n");
    let doubled = System { load: load(&[(0, 200)], None), ..system(1, "llf", tasks()) };
    assert_eq!(first(doubled), "0 start b 0\n1 suspended b\n");
}

/// The planned release counts: the job of 20 begins late, when the load has fallen, and is long all the same. A mode change is not
/// that of a job that has run: that at 42 comes before the job of 40 starts, a short one, and that at 61 after the next one does.
#[test]
fn the_planned_release_counts_and_a_mode_is_that_of_jobs_that_have_not_run() {
    let a = Task { priority: 1, ..periodic(20, 6) };
    let b = once(10, 2, &[run(15)]);
    let c = once(39, 2, &[run(10)]);
    let retime = |n| Input::Retime { task: TaskId(0), period: ns(20), deadline: Some(ns(20)), runtime: Some(ns(n)) };
    let described =
        System { load: load(&[(0, 100), (20, 100), (20, 200), (21, 100)], None), ..system(1, "fp", vec![a, b, c]) };
    let scenario = Scenario { changes: vec![(at(42), retime(2)), (at(61), retime(9))], ..Scenario::default() };
    let told = story::tell(described, &scenario, 80);
    // b and c are not late for the load: 15 and 10 at factors of one.
    expect(
        &told,
        "0 start a 0
        6 complete a
        10 start b 0
        25 complete b, start a 0
        37 complete a
        39 start c 0
        49 complete c, start a 0
        51 complete a
        60 start a 0
        62 complete a",
    );
}

fn described_task() -> impl Strategy<Value = Task> {
    let steps = prop::collection::vec(
        prop_oneof![
            (1i64..90).prop_map(|n| vec![run(n)]),
            (1i64..90).prop_map(|n| vec![sleep(n)]),
            (0u16..4, 1i64..90).prop_map(|(r, n)| vec![Step::Lock(ResourceId(r)), run(n), Step::Unlock(ResourceId(r))]),
        ],
        0..4,
    );
    let execution = prop_oneof![
        Just(Execution::Declared),
        prop::collection::vec((1i64..200).prop_map(ns), 1..4).prop_map(Execution::Series),
    ];
    (100i64..800, 0i64..400, 1i64..200, steps, 50i64..900, 0u32..4, execution).prop_map(
        |(period, offset, runtime, steps, late, priority, execution)| Task {
            arrival: Arrival::Periodic { offset: ns(offset), period: ns(period) },
            deadline: Some(ns(late)),
            runtime: Some(ns(runtime)),
            program: Program::new(steps.concat(), execution),
            priority,
            utility: Some(Utility::Step(UNIT)),
            ..Task::default()
        },
    )
}

/// A constant load is the same as tasks that are described so, for policies that do not place tasks by their loads.
#[test]
fn a_constant_load_is_other_runtimes() {
    takt_testing::for_all(
        300,
        (
            prop::collection::vec(described_task(), 1..6),
            1u32..3_000_000,
            1usize..4,
            prop::sample::select(vec!["g-edf", "g-llf", "g-rr", "g-fp", "hvdf", "dasa-nd", "edf"]),
            any::<bool>(),
            prop::sample::select(vec![Backlog::Queue, Backlog::Skip, Backlog::Chronos]),
        ),
        |(tasks, factor, cpus, policy, abort, backlog)| {
            let late = if abort { Late::Abort } else { Late::Continue };
            let cpus = if policy.starts_with("g-") { cpus } else { 1 };
            let times = |span: Span| scaled(span, factor);
            let step = |step: &Step| match *step {
                Step::Run(span) => Step::Run(times(span)),
                other => other,
            };
            let longer = |task: &Task| Task {
                runtime: task.runtime.map(times),
                program: Program::new(
                    task.program.steps.iter().map(step).collect(),
                    match &task.program.execution {
                        Execution::Series(spans) => Execution::Series(spans.iter().copied().map(times).collect()),
                        other => other.clone(),
                    },
                ),
                ..task.clone()
            };
            let otherwise = tasks.iter().map(longer).collect();
            let loaded = System {
                late,
                backlog,
                load: Some(Load { points: vec![(Span::ZERO, factor)], repeat: None }),
                ..system(cpus, policy, tasks)
            };
            let otherwise = System { late, backlog, ..system(cpus, policy, otherwise) };
            let (loaded, otherwise) = (tell(loaded, 3000), tell(otherwise, 3000));
            prop_assert_eq!(loaded.records, otherwise.records);
            prop_assert_eq!(loaded.report, otherwise.report);
            Ok(())
        },
    );
}
