//! Task sets with answers that other simulators agree on.
//!
//! Four simulators: SimSo 0.8.5, the one in C++ of schedcat (86211bc), PARTSim (37a9a4c) and fillien/schedsim (adbf0ad).
//!
//! `data/uni10_s1.csv`: 10 periodic tasks, utilisation 0.8, one CPU; they count 191,952 jobs completed and none missed
//! under EDF in 1000 s (two of them report 325,560 and 325,561 dispatches).
//! `data/g4_20_s1.csv`: 20 tasks, utilisation 3.2, four CPUs; 350,561 completed and 58 missed under global EDF.

use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::time::Span;

fn read(csv: &str, cpus: usize, policy: &str) -> System {
    let tasks = csv.lines().skip(1).map(|line| {
        let us: Vec<i64> = line.split(',').skip(2).map(|n| n.parse().unwrap()).collect();
        Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_us(us[2]) },
            deadline: Some(Span::from_us(us[1])),
            runtime: Some(Span::from_us(us[0])),
            affinity: CpuSet::first(cpus),
            ..Task::default()
        }
    });
    System { tasks: tasks.collect(), ..System::new(CpuSet::first(cpus), PolicySpec::from_name(policy).unwrap()) }
}

fn run(csv: &str, cpus: usize, policy: &str) -> Engine {
    let mut engine = Engine::new(read(csv, cpus, policy)).unwrap();
    takt_sim::simulate(&mut engine, &takt_core::scenario::Scenario::default(), Span::from_secs(1000), &mut (), |_| ());
    engine
}

#[test]
fn edf_on_one_cpu() {
    let engine = run(include_str!("data/uni10_s1.csv"), 1, "edf");
    let counts = engine.totals();
    assert_eq!((counts.completed, counts.missed), (191_952, 0));
    assert!((325_560..=325_561).contains(&counts.dispatches), "{}", counts.dispatches);
}

#[test]
fn global_edf_on_four_cpus() {
    let counts = run(include_str!("data/g4_20_s1.csv"), 4, "g-edf").totals();
    assert_eq!((counts.completed, counts.missed), (350_561, 58));
}
