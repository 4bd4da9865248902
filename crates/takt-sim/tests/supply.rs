//! Verdicts about partitions with a policy of their own against the simulator: an accepted task never misses a deadline, and
//! a refused one does.

#[path = "../../takt-analysis/tests/common/partition.rs"]
mod partition;

use partition::system;
use proptest::prelude::*;
use std::cell::Cell;
use takt_analysis::online::{Answer, Kind};
use takt_analysis::supply::{Supply, verdicts};
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, Execution, PartitionId, PolicySpec, System, Task};
use takt_core::policy::Registry;
use takt_core::scenario::Scenario;
use takt_core::time::Span;
use takt_sim::freeze;
use takt_testing::for_all;

const PERIODS: [i64; 6] = [6, 8, 10, 12, 20, 30];
const POLICIES: [&str; 7] = ["edf", "rm", "dm", "fp", "fifo", "rr", "llf"];

fn table() -> impl Strategy<Value = Vec<(i64, bool)>> {
    prop::collection::vec((1..6_i64, prop::bool::weighted(0.6)), 1..6)
}

#[test]
fn verdicts_hold_in_the_simulator() {
    let task =
        (0..30_i64, 0..PERIODS.len(), 0..1000_i64, 1..5_i64, 0..3_u32).prop_map(|(offset, p, tight, c, rank)| {
            let (period, least) = (PERIODS[p], c.min(PERIODS[p]));
            (offset, period, least + (period - least) * tight / 999, least, rank)
        });
    let case = (0..POLICIES.len(), table(), prop::collection::vec(task, 1..4));
    let seen = [(); 3].map(|()| Cell::new(0_u32));
    for_all(3000, case, |(policy, table, tasks)| {
        let system = system(POLICIES[policy], Span::from_ns(1), &table, &tasks);
        let periods = tasks.iter().map(|t| Span::from_ns(t.1));
        let cycle = periods.fold(system.major_frame(), |l, period| l.lcm(period).unwrap());
        let missed = |system: &System| {
            let mut engine = Engine::new(system.clone()).unwrap();
            takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ns(30) + cycle * 3, &mut (), |_| ());
            engine.totals().missed
        };
        let (verdict, missed_all) = (&verdicts(&system)[0], missed(&system));
        match verdict.schedulable {
            Answer::Yes => {
                prop_assert_eq!(missed_all, 0, "{}", verdict);
                // Shorter jobs are in time, too.
                let mut lighter = system.clone();
                for task in &mut lighter.tasks {
                    task.program.execution =
                        Execution::Uniform { least: Span::from_ns(1), most: task.runtime.unwrap() };
                }
                prop_assert_eq!((verdicts(&lighter)[0].schedulable, missed(&lighter)), (Answer::Yes, 0), "{}", verdict);
            }
            Answer::No => prop_assert!(missed_all > 0, "{}", verdict),
            // Deadlines are within periods here, and so all is decided but for orders that have no test of their own.
            Answer::Unknown => {
                prop_assert!(["rr", "llf"].contains(&POLICIES[policy]) && tasks.len() > 1, "{}", verdict)
            }
        }
        let seen = &seen[verdict.schedulable as usize];
        seen.set(seen.get() + 1);
        Ok(())
    });
    let seen = seen.map(|s| s.get());
    assert!(seen.iter().all(|n| takt_testing::shows_enough(*n, 100, 3000)), "yes, no, unknown: {seen:?}");
}

#[test]
fn no_stretch_of_a_table_gives_less_than_the_bound() {
    for_all(500, (table(), 1..40_u128), |(table, work)| {
        let ours: Vec<bool> = table.iter().flat_map(|&(length, ours)| vec![ours; length as usize]).collect();
        let Some(within) =
            Supply::of(&system("edf", Span::from_ns(1), &table, &[]), PartitionId(0)).unwrap().within(work)
        else {
            prop_assert!(!ours.contains(&true));
            return Ok(());
        };
        let given = |from: usize, length: u128| {
            ours.iter().cycle().skip(from).take(length as usize).filter(|ours| **ours).count() as u128
        };
        prop_assert!((0..ours.len()).all(|from| given(from, within) >= work));
        prop_assert!((0..ours.len()).any(|from| given(from, within - 1) < work));
        Ok(())
    });
}

#[test]
fn frozen_schedules_are_shown_schedulable() {
    let task = (0..PERIODS.len(), 1..6_i64).prop_map(|(p, c)| (PERIODS[p], c));
    let frozen = Cell::new(0);
    for_all(200, (1..4_usize, prop::collection::vec(task, 1..6)), |(cpus, tasks)| {
        let task = |&(period, runtime): &(i64, i64)| Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ns(period) },
            deadline: Some(Span::from_ns(period)),
            runtime: Some(Span::from_ns(runtime)),
            ..Task::default()
        };
        let edf = System::new(CpuSet::first(cpus), PolicySpec::from_name("g-edf").unwrap());
        let Ok(table) =
            freeze(&System { tasks: tasks.iter().map(task).collect(), ..edf }, &Registry::standard(), 10_000)
        else {
            return Ok(());
        };
        frozen.set(frozen.get() + 1);
        for verdict in verdicts(&table) {
            prop_assert_eq!((verdict.schedulable, verdict.test.ends_with("-edf")), (Answer::Yes, true), "{}", verdict);
            prop_assert!(verdict.kind != Kind::Necessary);
        }
        Ok(())
    });
    assert!(takt_testing::shows_enough(frozen.get(), 50, 200), "only {} of the cases could be frozen", frozen.get());
}
