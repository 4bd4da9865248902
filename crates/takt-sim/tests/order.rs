//! Faults of policies and of the engine that the conformance tests have found by their orders, as small cases.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Engine, Input};
use takt_core::model::{Arrival, PolicySpec, Reservation, System, Task, TaskId};
use takt_core::record::{Place, Record};
use takt_core::time::{Span, Time};

const fn us(n: i64) -> Span {
    Span::from_us(n)
}

fn at(n: i64) -> Time {
    Time::ZERO + us(n)
}

fn exit(task: TaskId) -> Input {
    Input::Exit { task, ending: Ending { regular: false, replaced: false } }
}

/// A task with one job.
fn once(release: i64, runtime: i64, deadline: i64) -> Task {
    let arrival = Arrival::Listed { instants: vec![us(release)] };
    Task { arrival, runtime: Some(us(runtime)), deadline: Some(us(deadline)), ..Task::default() }
}

fn policy(name: &str, settings: &[(&str, i64)]) -> PolicySpec {
    let mut spec = PolicySpec::from_name(name).expect("it is in the registry");
    for (setting, value) in settings {
        let index = spec.profile.settings.iter().position(|s| s.name == *setting).expect("it has this setting");
        spec.values.set(index, Some(*value));
    }
    spec
}

fn engine(policy: PolicySpec, cpus: usize, tasks: Vec<Task>) -> Engine {
    Engine::new(System { tasks, ..System::new(CpuSet::first(cpus), policy) }).expect("the policy takes the system")
}

/// Steps through all that is due before `end`, and then to `end` with these inputs.
fn run_to(engine: &mut Engine, end: Time, inputs: &[Input]) {
    let mut records: Vec<Record> = Vec::new();
    while let Some(due) = engine.next_due().filter(|due| *due < end) {
        engine.step(due, &[], &mut records);
    }
    engine.step(end, inputs, &mut records);
}

/// A job that has not begun takes over another runtime, and with it another laxity.
#[test]
fn least_laxity_knows_a_runtime_that_has_changed() {
    let jobs = vec![once(0, 5, 10), once(0, 5, 20), once(0, 5, 21)];
    let mut engine = engine(policy("llf", &[("threshold", 1_000)]), 1, jobs);
    let longer = Input::Retime { task: TaskId(2), period: us(50), deadline: Some(us(21)), runtime: Some(us(15)) };
    run_to(&mut engine, at(1), &[longer]);
    run_to(&mut engine, at(2), &[exit(TaskId(0))]);
    assert_eq!(engine.running(), [TaskId(2)], "its laxity is 4 us, that of the other one 13 us");
}

/// A task that moves as its burst ends runs at once on a CPU that was idle.
#[test]
fn a_task_that_moves_to_an_idle_cpu_runs_there_at_once() {
    let task = |runtime| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(100) },
        runtime: Some(Span::from_ms(runtime)),
        ..Task::default()
    };
    let settings = [("nominal", 1_000_000), ("migration", 1_500_000), ("threshold", 0)];
    let mut engine = engine(policy("p-ipi", &settings), 2, vec![task(80), task(70), task(70)]);
    run_to(&mut engine, at(100), &[exit(TaskId(0))]);
    run_to(&mut engine, at(1_600), &[]);
    assert_eq!((engine.place_of(TaskId(1)), engine.home(TaskId(1))), (Some(Place(1)), Some(Place(1))));
    run_to(&mut engine, at(2_000), &[]);
    assert_eq!((engine.place_of(TaskId(1)), engine.place_of(TaskId(2))), (Some(Place(0)), Some(Place(1))));
}

/// At the end of a run a server whose job has just completed is given nothing.
#[test]
fn completions_at_the_end_reach_the_policy() {
    let reserved = |budget, task| Task { reservation: Some(Reservation::new(us(budget), us(10))), ..task };
    let limited = Task { budget: Some(us(1)), ..once(4, 2, 100) };
    let mut engine = engine(policy("g-fcbs", &[]), 2, vec![reserved(1, once(0, 9, 100)), reserved(5, limited)]);
    run_to(&mut engine, Time::from_ns(4_500), &[]);
    let mut records: Vec<Record> = Vec::new();
    engine.close(at(5), &[Input::Complete { task: TaskId(0), job: 0 }], &mut records);
    assert_eq!((engine.counts(TaskId(0)).completed, engine.counts(TaskId(1)).aborted), (1, 1));
}
