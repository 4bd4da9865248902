//! A set that the test accepts meets its deadlines, however jobs come.

use super::*;
use proptest::prelude::*;
use takt_analysis::generate::Generator;
use takt_analysis::online::{Answer, verdict};
use takt_core::engine::Engine;
use takt_core::policies::split::Routes;
use takt_core::policies::split::assign::Split;
use takt_core::policy::{Build, Registry};
use takt_core::scenario::Scenario;
use takt_testing::for_all;

const FORMS: [(&str, &str); 5] =
    [("edf-wm", "ff"), ("edf-wm", "wf"), ("edf-wm", "ffd"), ("edf-cd", "ff"), ("edf-cd", "ffd")];

/// How many of its tasks the policy splits, and how many find no place.
fn split(system: &System) -> (usize, usize) {
    let way = if system.policy.profile.name == "edf-wm" { Split::Windows } else { Split::Tight };
    let routes = Build::whole(system, &Registry::default(), |build| Routes::new(build, way)).unwrap();
    let mut tasks = (0..system.tasks.len() as u32).map(TaskId);
    (tasks.by_ref().filter(|t| routes.of(*t).len() > 1).count(), routes.refused.len())
}

/// Jobs missed, and migrations.
fn run(system: System, length: Span) -> (u64, u64) {
    let mut engine = Engine::new(system).unwrap();
    takt_sim::simulate(&mut engine, &Scenario::default(), length, &mut (), |_| ());
    (engine.totals().missed, engine.totals().migrations)
}

/// Sets of AIRS's generator on four CPUs that are accepted with a split task, without a miss. `TAKT_CASES` says how many sets,
/// `TAKT_SEED` which. Each is run for 20 s, or a second below a thousand cases; periods are 100 ms at most.
#[test]
fn accepted_split_sets_meet_their_deadlines() {
    let (cases, seed) = (u64::from(takt_testing::cases(100)), takt_testing::seed());
    let length = Span::from_secs(if cases < 1_000 { 1 } else { 20 });
    let (mut done, mut migrations) = (0, 0);
    for number in 0.. {
        if done == cases {
            break;
        }
        let total = 3_200_000 + 50_000 * (number % 12);
        let us = |us: u64| Span::from_us(us as i64);
        let set = Generator::AIRS.set(total, seed, number).unwrap();
        let tasks: Vec<Task> = set.iter().map(|t| periodic(us(t.runtime), us(t.period))).collect();
        let (name, placement) = FORMS[(number % FORMS.len() as u64) as usize];
        let system = placed(4, name, placement, tasks);
        let (split, refused) = split(&system);
        if split == 0 || refused > 0 {
            continue;
        }
        let (missed, moved) = run(system, length);
        assert_eq!(
            missed, 0,
            "{name} {placement}, set {number} at {total}; repeat with TAKT_SEED={seed} TAKT_CASES={cases}"
        );
        assert!(moved > 0, "no task migrates in set {number}");
        (done, migrations) = (done + 1, migrations + moved);
    }
    println!("{done} sets, {migrations} migrations");
}

/// Runtime, period and offset, how much of the runtime the deadline leaves free, and how jobs come.
type Row = (i64, i64, i64, i64, (bool, bool));

fn task((load, period, offset, tight, (sporadic, varies)): Row) -> Task {
    let ns = Span::from_ns;
    let runtime = (period * load / 100).max(1);
    let deadline = if tight > 60 { period } else { runtime + (period - runtime) * tight / 60 };
    let (offset, period) = (ns(offset), ns(period));
    let arrival = if sporadic {
        Arrival::Sporadic { offset, period, spread: ns(5) }
    } else {
        Arrival::Periodic { offset, period }
    };
    let execution = if varies { Execution::Uniform { least: ns(1), most: ns(runtime) } } else { Execution::Declared };
    Task {
        arrival,
        runtime: Some(ns(runtime)),
        deadline: Some(ns(deadline)),
        program: Program::needing(execution),
        ..Task::default()
    }
}

#[test]
fn accepted_sets_meet_their_deadlines() {
    let period = prop::sample::select(&[20i64, 24, 30, 40, 50, 60, 80, 100, 120][..]);
    let row = (20i64..80, period, 0i64..30, 0i64..120, any::<(bool, bool)>()).prop_map(task);
    let tasks = proptest::collection::vec(row, 2..8);
    let forms = prop::sample::select(&FORMS[..]);
    let cases = (tasks, 2..=4usize, forms, any::<u64>());
    let seen = std::cell::Cell::new((0u32, 0u32));
    for_all(2_000, cases, |(tasks, cpus, (name, placement), seed)| {
        let system = System { seed, ..placed(cpus, name, placement, tasks) };
        let (all, split_ones) = seen.get();
        if verdict(&system).schedulable == Answer::Yes {
            seen.set((all + 1, split_ones + u32::from(split(&system).0 > 0)));
            prop_assert_eq!(run(system, Span::from_ns(3_000)).0, 0);
        }
        Ok(())
    });
    let (accepted, split_ones) = seen.get();
    let enough = |found, least| takt_testing::shows_enough(found, least, 2_000);
    assert!(
        enough(accepted, 100) && enough(split_ones, 20),
        "{accepted} accepted, {split_ones} of them with a split task"
    );
}
