//! Tasks that are added to a simulation and removed from it.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Engine, Input, Room};
use takt_core::model::{Arrival, Call, Domain, Invalid, Program, Scope, Step, System, Task, TaskId};
use takt_core::policy::Registry;
use takt_core::record::{Place, Record, RecordKind};
use takt_core::registry::REGISTRY;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;
use takt_core::work::Work;
use takt_sim::Simulation;

fn ms(n: i64) -> Span {
    Span::from_ms(n)
}

fn at(n: i64) -> Time {
    Time::ZERO + Span::from_ms(n)
}

fn periodic(period: i64, runtime: i64) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ms(period) },
        deadline: Some(ms(period)),
        runtime: Some(ms(runtime)),
        utility: Some(Utility::Step(5)),
        ..Task::default()
    }
}

/// With a resource that it locks, and a sleep.
fn sharing(task: Task) -> Task {
    let third = Step::Run(task.runtime.expect("it was given").min(ms(2)));
    let resource = takt_core::model::ResourceId(0);
    Task {
        program: Program::doing(vec![Step::Lock(resource), third, Step::Unlock(resource), Step::Sleep(ms(3)), third]),
        ..task
    }
}

fn system(policy: &str, cpus: usize, tasks: Vec<Task>) -> System {
    let policy = Registry::standard().spec(policy).expect("a policy of Takt");
    System { tasks, resources: 1, ..System::new(CpuSet::first(cpus), policy) }
}

fn of(records: &[Record], task: TaskId) -> usize {
    records
        .iter()
        .filter(
            |r| matches!(r.kind, RecordKind::Release { task: t, .. } | RecordKind::Start { task: t, .. } if t == task),
        )
        .count()
}

/// Those that name the task.
fn of_any(records: &[Record], task: TaskId) -> Vec<&Record> {
    let name = format!("TaskId({})", task.0);
    records.iter().filter(|record| format!("{record:?}").contains(&name)).collect()
}

/// A task that is added is one that was there from the beginning and had left: policies that keep nothing between two decisions
/// cannot tell.
#[test]
fn a_task_that_is_added_was_there_and_had_left() {
    takt_testing::for_all(
        256,
        (
            prop::sample::select(vec!["edf", "fp", "llf", "dasa", "g-edf", "g-llf", "g-fp"]),
            prop::collection::vec((8i64..40, 2i64..8, any::<bool>()), 2..7),
            1i64..200,
            prop::option::of(1i64..100),
        ),
        |(policy, tasks, when, gone)| {
            let cpus = if policy.contains('-') { 2 } else { 1 };
            let mut tasks: Vec<Task> = tasks
                .into_iter()
                .map(|(period, runtime, shares)| {
                    let task = periodic(period, runtime.min(period / 2));
                    if shares { sharing(task) } else { task }
                })
                .collect();
            let whole = system(policy, cpus, tasks.clone());
            let late = tasks.pop().expect("there are two");
            let id = TaskId(tasks.len() as u32);

            let mut there: Vec<Record> = Vec::new();
            let mut one = Simulation::new(Engine::new(whole).expect("a system that runs"), &Scenario::default());
            one.input(Input::Leave { task: id });
            one.run_until(at(when), &mut there);
            one.input(Input::Enter { task: id });

            let mut added: Vec<Record> = Vec::new();
            let mut other = Simulation::new(
                Engine::new(system(policy, cpus, tasks)).expect("a system that runs"),
                &Scenario::default(),
            );
            prop_assert_eq!(other.engine().prepare_task(late.clone(), None).err(), Some(Invalid::NoRoom(id.index())));
            other.reserve(Room { tasks: id.index() + 1, timers: 0 });
            other.run_until(at(when), &mut added);
            let prepared = other.engine().prepare_task(late, None).expect("there is room");
            prop_assert_eq!(prepared.added(), Some(id));
            prop_assert!(other.install(prepared, &mut added).is_ok());
            other.input(Input::Enter { task: id });

            if let Some(gone) = gone {
                for (simulation, records) in [(&mut one, &mut there), (&mut other, &mut added)] {
                    simulation.run_until(at(when + gone), records);
                    simulation.input(Input::Leave { task: id });
                }
            }
            one.run_until(at(400), &mut there);
            other.run_until(at(400), &mut added);
            let (one, other) = (one.engine(), other.engine());
            there.retain(|r| r.at > Time::ZERO || !matches!(r.kind, RecordKind::Exit { .. }));
            prop_assert_eq!(there, added);
            prop_assert_eq!(one.totals(), other.totals());
            Ok(())
        },
    );
}

/// Under every policy: tasks come and go, and their numbers are used again.
#[test]
fn tasks_come_and_go() {
    takt_testing::for_all(
        256,
        (any::<u64>(), prop::collection::vec((1i64..90, 5i64..40, any::<bool>()), 1..12)),
        |(seed, moves)| {
            let forms = REGISTRY
                .iter()
                .flat_map(|entry| entry.profile.scopes.iter().map(move |scope| (entry.profile.name, *scope)));
            for (name, scope) in forms.filter(|(_, scope)| *scope != Scope::Table) {
                let profile = &REGISTRY.iter().find(|entry| entry.profile.name == name).expect("it is there").profile;
                let policy = takt_core::model::PolicySpec::new(profile, scope);
                let cpus = if scope == Scope::Uniprocessor { 1 } else { 2 };
                let task = |period: i64| Task { priority: period as u32, share: Some(10_000), ..periodic(period, 2) };
                let tasks = vec![task(20), task(30)];
                let start = System { tasks, seed, ..System::new(CpuSet::first(cpus), policy) };
                let mut simulation = Simulation::new(Engine::new(start).expect("a light load"), &Scenario::default());
                simulation.reserve(Room { tasks: 4, timers: 0 });
                let mut records: Vec<Record> = Vec::new();
                let (mut now, mut present) = (0, Vec::new());
                for &(gap, period, adds) in &moves {
                    now += gap;
                    simulation.run_until(at(now), &mut records);
                    let room = present.len() < 2;
                    if adds {
                        // The policy may have no place for it, too.
                        let prepared = simulation.engine().prepare_task(task(period), None);
                        if !room {
                            prop_assert_eq!(prepared.err(), Some(Invalid::NoRoom(4)));
                            continue;
                        }
                        let Ok(prepared) = prepared else { continue };
                        let task = prepared.added().expect("a task was to be added");
                        prop_assert!(!present.contains(&task));
                        let old = simulation
                            .install(prepared, &mut records)
                            .unwrap_or_else(|_| panic!("nothing has changed"));
                        // Previous state fits the tasks of before.
                        prop_assert!(simulation.install(old, &mut records).is_err());
                        simulation.input(Input::Enter { task });
                        present.push(task);
                    } else if let Some(task) = present.pop() {
                        prop_assert!(simulation.engine().prepare_removal(task).is_err(), "it is still there");
                        simulation.input(Input::Leave { task });
                        while !simulation.engine().is_gone(task) {
                            simulation.step(&mut records);
                        }
                        now = (simulation.now() - Time::ZERO).ns() / 1_000_000 + 1;
                        simulation.run_until(at(now), &mut records);
                        let prepared = simulation.engine().prepare_removal(task).expect("it is gone");
                        prop_assert!(simulation.install(prepared, &mut records).is_ok());
                        prop_assert!(simulation.engine().prepare_removal(task).is_err(), "it is none any more");
                    }
                }
                let count = records.len();
                simulation.run_until(at(now + 100), &mut records);
                for task in [TaskId(2), TaskId(3)].into_iter().filter(|task| !present.contains(task)) {
                    prop_assert_eq!(of(&records[count..], task), 0, "{} {:?}: {:?} is none", name, scope, task);
                }
                // Each of them is released every 40 ms at least.
                for task in present {
                    prop_assert!(of(&records[count..], task) > 0, "{} {:?}: {:?} never ran", name, scope, task);
                }
                let released = records.iter().filter(|r| matches!(r.kind, RecordKind::Release { .. })).count();
                prop_assert_eq!(simulation.engine().totals().released, released as u64, "{} {:?}", name, scope);
            }
            Ok(())
        },
    );
}

#[test]
fn a_change_of_the_tasks_is_refused_when_something_else_came_first() {
    let registry = Registry::standard();
    let edf = registry.spec("edf").expect("a policy of Takt");
    let engine = Engine::new(system("fifo", 1, vec![periodic(10, 2), periodic(20, 2)])).expect("a light load");
    let mut simulation = Simulation::new(engine, &Scenario::default());
    simulation.reserve(Room { tasks: 3, timers: 0 });
    let mut records: Vec<Record> = Vec::new();
    simulation.run_until(at(5), &mut records);
    let first = simulation.engine().prepare_task(periodic(30, 1), None).expect("there is room");
    let second = simulation.engine().prepare_task(periodic(40, 1), None).expect("there is room");
    let policy = simulation.engine().prepare(edf).expect("it can");
    simulation.install(policy, &mut records).unwrap_or_else(|_| panic!("the tasks are the same"));
    // It was to continue with the policy of then.
    assert!(simulation.install(first, &mut records).is_err());
    let third = simulation.engine().prepare_task(periodic(40, 1), None).expect("there is room");
    assert!(simulation.install(third, &mut records).is_ok());
    assert!(simulation.install(second, &mut records).is_err(), "the number is taken");

    simulation.run_until(at(15), &mut records);
    let removal = simulation.engine().prepare_removal(TaskId(2)).expect("it has never entered");
    simulation.input(Input::Enter { task: TaskId(2) });
    simulation.run_until(at(16), &mut records);
    assert!(simulation.install(removal, &mut records).is_err(), "it is back");
    simulation.run_until(at(50), &mut records);
    assert_eq!(simulation.engine().counts(TaskId(2)).completed, 1);
}

#[test]
fn a_task_that_was_removed_does_not_return_and_leaves_nothing_to_the_next() {
    let engine = Engine::new(system("edf", 1, vec![periodic(10, 2), periodic(20, 2)])).expect("a light load");
    let mut simulation = Simulation::new(engine, &Scenario::default());
    let mut records: Vec<Record> = Vec::new();
    let task = TaskId(1);
    simulation.run_until(at(15), &mut records);
    simulation.input(Input::Hold { task });
    simulation.input(Input::Leave { task });
    simulation.run_until(at(18), &mut records);
    let removal = simulation.engine().prepare_removal(task).expect("it is gone");
    assert!(simulation.install(removal, &mut records).is_ok());
    simulation.input(Input::Enter { task });
    simulation.run_until(at(60), &mut records);
    assert!(simulation.engine().is_gone(task));
    assert_eq!(simulation.engine().counts(task).released, 1);
    // The next one has its number, and a program.
    let next = simulation.engine().prepare_task(periodic(20, 3), None).expect("a number is free");
    assert_eq!(next.added(), Some(task));
    assert!(simulation.install(next, &mut records).is_ok());
    simulation.input(Input::Enter { task });
    simulation.run_until(at(99), &mut records);
    let counts = simulation.engine().counts(task);
    assert_eq!((counts.released, counts.completed), (2, 2));
    assert_eq!(simulation.engine().totals().released, 10 + 1 + 2);
}

#[test]
fn terms_that_change_in_between_are_kept() {
    let engine = Engine::new(system("edf", 1, vec![periodic(10, 2)])).expect("a light load");
    let mut simulation = Simulation::new(engine, &Scenario::default());
    simulation.reserve(Room { tasks: 2, timers: 0 });
    simulation.run_until(at(5), &mut ());
    let prepared = simulation.engine().prepare_task(periodic(30, 1), None).expect("there is room");
    let longer = Input::Retime { task: TaskId(0), period: ms(25), deadline: Some(ms(25)), runtime: Some(ms(3)) };
    simulation.input(longer);
    simulation.run_until(at(45), &mut ());
    assert!(simulation.install(prepared, &mut ()).is_ok());
    assert_eq!(simulation.engine().system().tasks[0].arrival.period(), Some(ms(25)));
    assert_eq!(simulation.engine().system().tasks[0].runtime, Some(ms(3)));
}

#[test]
fn a_task_joins_a_domain() {
    let spec = |name: &str| Registry::standard().spec(name).expect("a policy of Takt");
    let domain = |cpu, tasks| Domain { band: 0, cpus: CpuSet::single(cpu), tasks, policy: spec("edf") };
    let whole = System {
        domains: vec![domain(0, vec![TaskId(0)]), domain(1, vec![TaskId(1)])],
        ..system("domains", 2, vec![periodic(10, 2), periodic(20, 2)])
    };
    let mut simulation = Simulation::new(Engine::new(whole).expect("a light load"), &Scenario::default());
    simulation.reserve(Room { tasks: 3, timers: 0 });
    let mut records: Vec<Record> = Vec::new();
    simulation.run_until(at(5), &mut records);
    let refused = |domain| simulation.engine().prepare_task(periodic(10, 6), domain).err();
    assert_eq!((refused(None), refused(Some(2))), (Some(Invalid::Domains), Some(Invalid::Domains)));
    let prepared = simulation.engine().prepare_task(periodic(10, 6), Some(1)).expect("there is room");
    assert!(simulation.install(prepared, &mut records).is_ok());
    simulation.input(Input::Enter { task: TaskId(2) });
    simulation.run_until(at(30), &mut records);
    let there = |r: &&Record| matches!(r.kind, RecordKind::Start { task: TaskId(2), place, .. } if place.0 == 1);
    assert_eq!(records.iter().filter(there).count(), 3);
    simulation.input(Input::Leave { task: TaskId(2) });
    simulation.run_until(at(40), &mut records);
    let prepared = simulation.engine().prepare_removal(TaskId(2)).expect("it is gone");
    assert!(simulation.install(prepared, &mut records).is_ok());
    assert_eq!(simulation.engine().system().domains[1].tasks, [TaskId(1)]);
}

#[test]
fn tasks_of_window_tables_stay() {
    let registry = Registry::standard();
    let slice =
        takt_core::model::Slice { cpus: CpuSet::single(0), sc: Some(takt_core::model::PartitionId(0)), be: None };
    let table = System {
        tasks: vec![Task { budget: Some(ms(4)), ..Task::default() }],
        partitions: vec![takt_core::model::Partition { tasks: vec![TaskId(0)], policy: None }],
        windows: vec![takt_core::model::Window { length: ms(10), slices: vec![slice] }],
        ..System::new(CpuSet::first(1), registry.spec("windows").expect("a policy of Takt"))
    };
    let mut engine = Engine::new(table).expect("a sound table");
    engine.reserve(Room { tasks: 2, timers: 0 });
    assert!(matches!(engine.prepare_task(periodic(10, 2), None), Err(Invalid::Unsuitable(_))));
    assert!(matches!(engine.prepare_removal(TaskId(0)), Err(Invalid::Unsuitable(_))));
}

/// Every input about the task, and all inputs for a resource that it could lock.
fn all_about(task: TaskId) -> Vec<Input> {
    let resource = takt_core::model::ResourceId(0);
    let ending = Ending { regular: true, replaced: false };
    vec![
        Input::Usage { task, consumed: Work::nominal(ms(1)) },
        Input::Dispatched { task, place: Place(0), at: Time::ZERO },
        Input::Complete { task, job: 0 },
        Input::Block { task },
        Input::Hold { task },
        Input::Wake { task },
        Input::Lock { task, resource },
        Input::Unlock { task, resource },
        Input::Withdraw { task, resource },
        Input::Yield { task },
        Input::Skew { task, by: ms(1) },
        Input::Share { task, share: Some(500_000), importance: 3 },
        Input::Retime { task, period: ms(9), deadline: Some(ms(9)), runtime: Some(ms(1)) },
        Input::Call { task, call: Call::Period(ms(9)) },
        Input::Enter { task },
        Input::Leave { task },
        Input::Abort { task },
        Input::Exit { task, ending },
        Input::Exit { task, ending: Ending { regular: false, replaced: true } },
    ]
}

/// Under every policy.
#[test]
fn nothing_happens_to_a_removed_task() {
    let task = |period: i64| Task { priority: period as u32, share: Some(10_000), ..periodic(period, 2) };
    let removed = TaskId(1);
    for entry in REGISTRY {
        for &scope in entry.profile.scopes.iter().filter(|scope| **scope != Scope::Table) {
            let policy = takt_core::model::PolicySpec::new(&entry.profile, scope);
            let cpus = if scope == Scope::Uniprocessor { 1 } else { 2 };
            let tasks = vec![task(20), task(30), task(40)];
            let start = System { tasks, resources: 1, ..System::new(CpuSet::first(cpus), policy) };
            let mut engine = Engine::new(start).expect("a light load");
            let mut records: Vec<Record> = Vec::new();
            let _ = engine.step(Time::ZERO, &[Input::Leave { task: removed }], &mut records);
            let ending = Ending { regular: true, replaced: false };
            let _ = engine.step(at(1), &[Input::Exit { task: removed, ending }], &mut records);
            let removal = engine.prepare_removal(removed).expect("it is gone");
            assert!(engine.install(at(1), removal, &mut records).is_ok());
            let _ = engine.step(at(1), &[], &mut records);
            let count = records.len();
            let name = format!("{:?} {}", scope, entry.profile.name);
            for input in all_about(removed) {
                let _ = engine.step(at(1), &[input], &mut records);
            }
            assert_eq!(of_any(&records[count..], removed), Vec::<&Record>::new(), "{name}");

            // A system with a free number is one to begin with, too.
            let engine = Engine::new(engine.into_system()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let mut simulation = Simulation::new(engine, &Scenario::default());
            all_about(removed).into_iter().for_each(|input| simulation.input(input));
            let mut records: Vec<Record> = Vec::new();
            simulation.run_until(at(200), &mut records);
            assert_eq!(of_any(&records, removed), Vec::<&Record>::new(), "{name}");
            assert!(of(&records, TaskId(0)) >= 10 && of(&records, TaskId(2)) >= 5, "{name}");
            simulation.reserve(Room { tasks: 3, timers: 0 });
            let prepared = simulation.engine().prepare_task(task(30), None).expect("there is room");
            assert_eq!(prepared.added(), Some(removed), "{name}");
        }
    }
}

#[test]
fn room_is_made_after_a_step_with_more_questions_than_it_was_for() {
    let mut engine = Engine::new(system("edf", 1, vec![sharing(periodic(10, 3))])).expect("a light load");
    let ask = Input::Call { task: TaskId(0), call: Call::Period(ms(20)) };
    assert_eq!(engine.step(Time::ZERO, &[ask; 30], &mut ()).replies.len(), 30);
    engine.reserve(Room { tasks: 2, timers: 0 });
    assert!(engine.prepare_task(periodic(10, 1), None).is_ok());
}

#[test]
fn jobs_of_a_number_that_is_used_again_go_on_counting() {
    let engine = Engine::new(system("edf", 1, vec![periodic(10, 2), periodic(20, 2)])).expect("a light load");
    let mut simulation = Simulation::new(engine, &Scenario::default());
    let (task, mut records) = (TaskId(1), Vec::<Record>::new());
    simulation.run_until(at(45), &mut records);
    simulation.input(Input::Leave { task });
    simulation.run_until(at(50), &mut records);
    let removal = simulation.engine().prepare_removal(task).expect("it is gone");
    assert!(simulation.install(removal, &mut records).is_ok());
    let addition = simulation.engine().prepare_task(periodic(20, 1), None).expect("there is room");
    assert!(simulation.install(addition, &mut records).is_ok());
    simulation.input(Input::Enter { task });
    simulation.run_until(at(85), &mut records);
    let jobs = records.iter().filter_map(|r| match r.kind {
        RecordKind::Release { task: t, job, .. } if t == task => Some(job),
        _ => None,
    });
    assert_eq!(jobs.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

/// The removal of a task that completions of another one released.
#[test]
fn the_other_tasks_are_still_released_after_one_another() {
    let after = |first| Task {
        arrival: Arrival::Event { distance: Span::ZERO, queue: 4, after: Some(TaskId(first)) },
        ..periodic(50, 1)
    };
    let engine =
        Engine::new(system("edf", 1, vec![periodic(10, 2), after(0), after(0), after(1)])).expect("a light load");
    let mut simulation = Simulation::new(engine, &Scenario::default());
    let task = TaskId(2);
    simulation.run_until(at(19), &mut ());
    simulation.input(Input::Leave { task });
    simulation.run_until(at(28), &mut ());
    let removal = simulation.engine().prepare_removal(task).expect("it is gone");
    assert!(simulation.install(removal, &mut ()).is_ok());
    // The next task of this number is released by nothing but its own events.
    let alone = Task { arrival: Arrival::Event { distance: ms(3), queue: 4, after: None }, ..periodic(50, 1) };
    let next = simulation.engine().prepare_task(alone, None).expect("a number is free");
    assert!(simulation.install(next, &mut ()).is_ok());
    simulation.input(Input::Enter { task });
    simulation.input(Input::Release { task });
    simulation.input(Input::Release { task });
    simulation.run_until(at(59), &mut ());
    let released = [0, 1, 2, 3].map(|task| simulation.engine().counts(TaskId(task)).released);
    assert_eq!(released, [6, 6, 2, 6]);
}

/// A server has its whole budget after a task has been added, from then on.
#[test]
fn servers_begin_with_whole_budgets_after_an_addition() {
    // A polling server has it at the next multiple of its period.
    for (name, end) in [("polling-server", 7), ("deferrable-server", 5), ("sporadic-server", 5), ("periodic-server", 5)]
    {
        let served = Task {
            arrival: Arrival::Listed { instants: vec![Span::ZERO] },
            deadline: None,
            reservation: Some(takt_core::model::Reservation::new(ms(2), ms(5))),
            ..periodic(50, 4)
        };
        let engine = Engine::new(system(name, 1, vec![served])).expect("a light load");
        let mut simulation = Simulation::new(engine, &Scenario::default());
        simulation.reserve(Room { tasks: 2, timers: 4 });
        let mut records: Vec<Record> = Vec::new();
        // It has used its 2 ms, and the next ones would come at 5.
        simulation.run_until(at(3), &mut records);
        let prepared = simulation.engine().prepare_task(periodic(100, 1), None).expect("there is room");
        assert!(simulation.install(prepared, &mut records).is_ok());
        simulation.run_until(at(20), &mut records);
        let ended = records.iter().find(|record| matches!(record.kind, RecordKind::Finish { task: TaskId(0), .. }));
        assert_eq!(ended.map(|record| record.at), Some(at(end)), "{name}");
    }
}
