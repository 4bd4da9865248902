//! A simulation that goes step by step, with inputs in between, is the one that has them in its scenario.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, Late, Program, Step, System, Task, TaskId};
use takt_core::policy::Registry;
use takt_core::record::Record;
use takt_core::scenario::{Costs, Scenario};
use takt_core::time::{Span, Time};
use takt_sim::{Simulation, simulate};

const END: Span = Span::from_ns(400);

fn at(ns: i64) -> Time {
    Time::from_ns(ns)
}

fn system(policy: &str, cpus: usize, tasks: &[(i64, i64, bool)]) -> System {
    let task = |&(period, runtime, sleeps): &(i64, i64, bool)| {
        let half = Step::Run(Span::from_ns(runtime.div_euclid(2)));
        Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ns(period) },
            deadline: Some(Span::from_ns(period)),
            runtime: Some(Span::from_ns(runtime)),
            program: Program::doing(if sleeps { vec![half, Step::Sleep(Span::from_ns(3)), half] } else { vec![] }),
            ..Task::default()
        }
    };
    let policy = Registry::standard().spec(policy).expect("a policy of Takt");
    System { tasks: tasks.iter().map(task).collect(), late: Late::Abort, ..System::new(CpuSet::first(cpus), policy) }
}

fn change(kind: u8, task: TaskId) -> Input {
    match kind {
        0 => Input::Leave { task },
        1 => Input::Enter { task },
        2 => Input::Block { task },
        3 => Input::Wake { task },
        4 => Input::Retime { task, period: Span::from_ns(17), deadline: Some(Span::from_ns(13)), runtime: None },
        _ => Input::Skew { task, by: Span::from_ns(2) },
    }
}

#[test]
fn inputs_in_between_are_changes_of_the_scenario() {
    takt_testing::for_all(
        256,
        (
            prop::sample::select(vec!["edf", "rr", "llf", "g-edf", "p-edf"]),
            prop::collection::vec((8i64..40, 2i64..12, any::<bool>()), 1..6),
            prop::collection::vec((0i64..400, 0u8..6, 0usize..6), 0..10),
            0i64..2,
            1i64..60,
        ),
        |(policy, tasks, mut changes, cost, stride)| {
            let tasks: Vec<_> =
                tasks.into_iter().map(|(period, runtime, s)| (period, runtime.min(period), s)).collect();
            let system = system(policy, if policy.contains('-') { 2 } else { 1 }, &tasks);
            changes.sort_by_key(|(at, ..)| *at);
            let changes: Vec<(Time, Input)> = changes
                .into_iter()
                .map(|(when, kind, task)| (at(when), change(kind, TaskId((task % tasks.len()) as u32))))
                .collect();
            let costs = Costs { context_switch: Span::from_ns(cost), ..Costs::default() };
            let with = Scenario { costs, changes: changes.clone(), ..Scenario::default() };
            let mut whole: Vec<Record> = Vec::new();
            let mut engine = Engine::new(system.clone()).expect("a system that runs");
            let report = simulate(&mut engine, &with, END, &mut whole, |_| ());

            let without = Scenario { costs, ..Scenario::default() };
            let mut stepped: Vec<Record> = Vec::new();
            let mut simulation = Simulation::new(Engine::new(system).expect("a system that runs"), &without);
            let mut rest = changes.into_iter().peekable();
            let mut reached = Time::ZERO;
            while reached < Time::ZERO + END {
                let next = reached + Span::from_ns(stride);
                while let Some((when, change)) = rest.next_if(|(when, _)| *when < next) {
                    simulation.run_until(when, &mut stepped);
                    prop_assert_eq!(simulation.now(), when);
                    simulation.input(change);
                    while let Some((_, change)) = rest.next_if(|(same, _)| *same == when) {
                        simulation.input(change);
                    }
                }
                reached = next.min(Time::ZERO + END);
                simulation.run_until(reached, &mut stepped);
            }
            let (engine_after, report_after) = simulation.finish(Time::ZERO + END, &mut stepped);
            prop_assert_eq!(&whole, &stepped);
            prop_assert_eq!(engine.totals(), engine_after.totals());
            prop_assert_eq!(report.tasks, report_after.tasks);
            Ok(())
        },
    );
}

#[test]
fn each_step_is_one_instant() {
    let system = system("edf", 1, &[(10, 3, false), (20, 4, false)]);
    let mut simulation = Simulation::new(Engine::new(system).expect("a system that runs"), &Scenario::default());
    let mut records: Vec<Record> = Vec::new();
    let steps: Vec<Time> =
        std::iter::from_fn(|| simulation.step(&mut records)).take_while(|now| *now < at(20)).collect();
    assert_eq!(steps, [0, 3, 7, 10, 13].map(at));
    assert_eq!(simulation.engine().counts(TaskId(0)).completed, 2);
    assert_eq!(simulation.engine().job(TaskId(1)).map(|job| job.number), Some(1));
}
