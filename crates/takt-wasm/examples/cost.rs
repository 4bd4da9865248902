//! The cost of a step of the engine under EDZL, native and as a module: `cargo run --release -p takt-rt-wasm --example cost -- edzl_wasm.wasm`.

use std::path::Path;
use std::time::Instant;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, PolicySpec, Profile, Scope, System, Task};
use takt_core::policy::Registry;
use takt_core::scenario::Scenario;
use takt_core::time::Span;

/// Periodic tasks on two CPUs, with a utilisation of 1.4.
fn system(profile: &'static Profile, tasks: i64) -> System {
    let task = |index: i64| {
        let period = Span::from_us(1_000 * tasks + 370 * index);
        let runtime = Some(period.scaled(14, 10 * tasks));
        let arrival = Arrival::Periodic { offset: Span::ZERO, period };
        Task { arrival, deadline: Some(period), runtime, ..Task::default() }
    };
    System {
        tasks: (0..tasks).map(task).collect(),
        ..System::new(CpuSet::first(2), PolicySpec::new(profile, Scope::Global))
    }
}

/// Nanoseconds of a step, the least of five runs.
fn cost(profile: &'static Profile, tasks: i64) -> u128 {
    let registry = Registry::standard().with(&edzl::ENTRY).with_loaded(takt_wasm::entry);
    let once = || {
        let mut engine = Engine::with_registry(system(profile, tasks), registry.clone()).expect("an engine");
        let begin = Instant::now();
        let report = takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_secs(2), &mut (), |_| ());
        begin.elapsed().as_nanos() / u128::from(report.steps.max(1))
    };
    (0..5).map(|_| once()).min().unwrap_or_default()
}

fn main() {
    let path = std::env::args().nth(1).expect("the file of the module");
    let module = takt_wasm::load(Path::new(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    println!("tasks  native  module  (ns per step of the simulation)");
    for tasks in [5, 20, 100, 200] {
        let (own, loaded) = (cost(&edzl::ENTRY.profile, tasks), cost(&module.entry().profile, tasks));
        println!("{tasks:5}  {own:6}  {loaded:6}");
    }
    assert_eq!(module.failed(), None);
}
