//! The mapping of chosen jobs to CPUs, seen from outside: who runs where, and who has migrated.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, PolicySpec, System, Task, TaskId};
use takt_core::policies::mapping::MAPPERS;
use takt_core::record::Place;
use takt_core::time::{Span, Time};

/// One task under fixed priorities that is released once.
fn once(at: i64, priority: u32) -> Task {
    Task { arrival: Arrival::Listed { instants: vec![Span::from_ns(at)] }, priority, ..Task::default() }
}

fn engine(cpus: usize, tasks: Vec<Task>) -> Engine {
    mapped_by("three-pass", cpus, tasks)
}

fn mapped_by(mapper: &str, cpus: usize, tasks: Vec<Task>) -> Engine {
    let mapper = MAPPERS.iter().position(|m| m.name == mapper).unwrap() as u8;
    let policy = PolicySpec { mapper, ..PolicySpec::from_name("g-fp").unwrap() };
    Engine::new(System { tasks, ..System::new(CpuSet::first(cpus), policy) }).unwrap()
}

fn step(engine: &mut Engine, at: i64, inputs: &[Input]) {
    let _ = engine.step(Time::from_ns(at), inputs, &mut ());
}

fn running(engine: &Engine, cpus: u16) -> Vec<Option<u32>> {
    let on = |place| engine.running().iter().find(|t| engine.place_of(**t) == Some(Place(place)));
    (0..cpus).map(|place| on(place).map(|t| t.0)).collect()
}

/// Figure 4 of "ChronOS Linux: A Best-Effort Real-Time Multiprocessor Linux Kernel" (DAC 2011): RT2, RT5, RT9 and RT7 run on
/// P0 to P3; RT1 and RT4 were last on P0, RT8 on P2; chosen are RT5, RT8, RT1, RT4. Task numbers are those of the figure.
const AWAKE: [Input; 3] =
    [Input::Wake { task: TaskId(1) }, Input::Wake { task: TaskId(4) }, Input::Wake { task: TaskId(8) }];

fn figure_4(mapper: &str) -> Engine {
    let urgency = |rt: usize| [5, 8, 1, 4, 2, 9, 7].iter().position(|x| *x == rt);
    let released = |rt| [(1, 0), (4, 1), (2, 2), (5, 3), (8, 4), (9, 5), (7, 6)].iter().find(|(t, _)| *t == rt);
    let tasks = (0..10).map(|rt| match (urgency(rt), released(rt)) {
        (Some(place), Some(&(_, at))) => once(at, 100 - place as u32),
        _ => once(1_000, 0),
    });
    let mut engine = mapped_by(mapper, 4, tasks.collect());
    let block = |task| Input::Block { task: TaskId(task) };
    for (at, inputs) in [
        (0, vec![]),
        (1, vec![block(1)]),
        (2, vec![block(4)]),
        (3, vec![]),
        (4, vec![]),
        (5, vec![block(8)]),
        (6, vec![]),
    ] {
        step(&mut engine, at, &inputs);
    }
    engine
}

#[test]
fn the_figure_of_the_paper_costs_one_migration() {
    let mut engine = figure_4("three-pass");
    assert_eq!(running(&engine, 4), [Some(2), Some(5), Some(9), Some(7)]);
    step(&mut engine, 7, &AWAKE);
    assert_eq!(running(&engine, 4), [Some(4), Some(5), Some(8), Some(1)]);
    let migrations: Vec<u64> = (0..10).map(|t| engine.counts(TaskId(t)).migrations).collect();
    assert_eq!(migrations, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "RT1 alone has migrated");
}

/// The same with each job on the CPU of its rank: RT5 and RT8 come to P0 and P1, RT1 to P2, and RT4 to P3. (Which CPUs they were
/// on before is not the paper's: on the way there this mapper has moved them, too.)
#[test]
fn in_order_the_figure_costs_more() {
    let mut engine = figure_4("in-order");
    let before = engine.totals().migrations;
    step(&mut engine, 7, &AWAKE);
    assert_eq!(running(&engine, 4), [Some(5), Some(8), Some(1), Some(4)]);
    assert_eq!(engine.totals().migrations - before, 2);
}

/// The worst case of the paper: of m chosen jobs that ran last on one CPU, m - 1 migrate.
#[test]
fn jobs_that_ran_last_on_one_cpu_spread_with_one_migration_less_than_cpus() {
    let mut engine = engine(3, (0..3).map(|t| once(t, 1)).collect());
    step(&mut engine, 0, &[]);
    step(&mut engine, 1, &[Input::Block { task: TaskId(0) }]);
    step(&mut engine, 2, &[Input::Block { task: TaskId(1) }]);
    step(&mut engine, 3, &[Input::Wake { task: TaskId(0) }, Input::Wake { task: TaskId(1) }]);
    assert_eq!(running(&engine, 3), [Some(2), Some(0), Some(1)]);
    assert_eq!(engine.totals().migrations, 2);
}

/// A job that may use one CPU only takes it from a job that could go elsewhere; that one finds another.
#[test]
fn bound_jobs_take_their_cpus_in_order_of_urgency() {
    let bound = Task { affinity: CpuSet::single(0), ..once(1, 2) };
    let second = Task { affinity: CpuSet::single(0), ..once(2, 1) };
    let mut engine = engine(2, vec![once(0, 0), bound, second]);
    step(&mut engine, 0, &[]);
    assert_eq!(running(&engine, 2), [Some(0), None]);
    step(&mut engine, 1, &[]);
    assert_eq!(running(&engine, 2), [Some(1), Some(0)]);
    // The second one bound to CPU 0 is passed over, and the least urgent of the three keeps CPU 1.
    step(&mut engine, 2, &[]);
    assert_eq!(running(&engine, 2), [Some(1), Some(0)]);
    step(&mut engine, 3, &[Input::Complete { task: TaskId(1), job: 0 }]);
    assert_eq!(running(&engine, 2), [Some(2), Some(0)]);
}

/// The job that runs on CPU 0 could use CPU 1, and the one that comes could not.
#[test]
fn a_job_makes_room_for_one_that_is_bound() {
    let bound = Task { affinity: CpuSet::single(0), ..once(1, 0) };
    let mut engine = engine(2, vec![once(0, 1), bound]);
    step(&mut engine, 0, &[]);
    assert_eq!(running(&engine, 2), [Some(0), None]);
    step(&mut engine, 1, &[]);
    assert_eq!(running(&engine, 2), [Some(1), Some(0)]);
}

/// Whether these tasks can all run at once, by trying every place for each.
fn fit(tasks: &[u32], affinities: &[u32], used: u32) -> bool {
    let Some((&task, rest)) = tasks.split_first() else { return true };
    (0..32)
        .map(|cpu| 1 << cpu)
        .any(|cpu| affinities[task as usize] & !used & cpu != 0 && fit(rest, affinities, used | cpu))
}

/// Jobs come one by one, and some block and wake: those that run are at all times the most urgent that can run at once.
#[test]
fn the_most_urgent_jobs_that_can_run_at_once_run() {
    takt_testing::for_all(
        256,
        (
            0..MAPPERS.len(),
            (1usize..5).prop_flat_map(|cpus| {
                (Just(cpus), prop::collection::vec(1u32..1 << cpus, 1..8), prop::collection::vec(0usize..8, 0..40))
            }),
        ),
        |(mapper, (cpus, affinities, toggles))| {
            let mapper = MAPPERS[mapper].name;
            let n = affinities.len();
            let set = |mask: u32| (0..cpus).filter(|cpu| mask >> cpu & 1 == 1).collect::<CpuSet>();
            let task = |(i, mask): (usize, &u32)| Task { affinity: set(*mask), ..once(i as i64, (i * 5 % 8) as u32) };
            let mut engine = mapped_by(mapper, cpus, affinities.iter().enumerate().map(task).collect());
            let mut blocked = vec![false; n];
            for at in 0..n + toggles.len() {
                let mut inputs = Vec::new();
                if at >= n {
                    let index = toggles[at - n] % n;
                    let task = TaskId(index as u32);
                    inputs.push(if blocked[index] { Input::Wake { task } } else { Input::Block { task } });
                    blocked[index] = !blocked[index];
                }
                let before: Vec<_> = (0..n).map(|i| engine.place_of(TaskId(i as u32))).collect();
                step(&mut engine, at as i64, &inputs);
                let mut ready: Vec<u32> = (0..n as u32).filter(|&i| i as usize <= at && !blocked[i as usize]).collect();
                ready.sort_by_key(|&i| (std::cmp::Reverse(i * 5 % 8), i));
                let mut expected = Vec::new();
                for task in ready {
                    expected.push(task);
                    if !fit(&expected, &affinities, 0) {
                        expected.pop();
                    }
                }
                let places: Vec<_> = (0..n).map(|i| engine.place_of(TaskId(i as u32))).collect();
                let runs: Vec<u32> = (0..n as u32).filter(|&i| places[i as usize].is_some()).collect();
                expected.sort_unstable();
                prop_assert_eq!(&runs, &expected);
                let used: std::collections::BTreeSet<_> = places.iter().flatten().collect();
                prop_assert_eq!(used.len(), runs.len());
                for (mask, place) in affinities.iter().zip(&places) {
                    prop_assert!(place.is_none_or(|p| mask >> p.0 & 1 == 1));
                }
                // Where no new job runs, no job moves.
                if mapper == "three-pass" && runs.iter().all(|&i| before[i as usize].is_some()) {
                    prop_assert!(runs.iter().all(|&i| before[i as usize] == places[i as usize]));
                }
            }
            Ok(())
        },
    );
}
