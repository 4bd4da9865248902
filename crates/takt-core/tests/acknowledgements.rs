//! A driver whose decisions take effect later says when a job began to run.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Command, Engine, Input};
use takt_core::model::{Arrival, System, Task, TaskId};
use takt_core::policy::Registry;
use takt_core::record::Place;
use takt_core::time::{Span, Time};

const A: TaskId = TaskId(0);

fn at(ns: i64) -> Time {
    Time::from_ns(ns)
}

fn ns(ns: i64) -> Span {
    Span::from_ns(ns)
}

fn engine() -> Engine {
    let task = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(100) },
        deadline: Some(ns(100)),
        runtime: Some(ns(20)),
        budget: Some(ns(20)),
        ..Task::default()
    };
    let policy = Registry::standard().spec("g-edf").expect("a policy of Takt");
    Engine::new(System { tasks: vec![task; 2], ..System::new(CpuSet::first(2), policy) }).expect("a system that runs")
}

#[test]
fn a_job_consumes_from_the_instant_at_which_it_is_dispatched() {
    let mut engine = engine();
    let reaction = engine.step(at(0), &[], &mut ());
    let Command::Start { task: A, place, .. } = reaction.commands[0] else { panic!("{reaction:?}") };
    assert_eq!(engine.next_due(), Some(at(20)), "the end of the budget");
    let _ = engine.step(at(7), &[Input::Dispatched { task: A, place, at: at(5) }], &mut ());
    assert_eq!(engine.job(A).map(|job| job.consumed.nominal_time()), Some(ns(2)));
    // The other task's budget ends first.
    assert_eq!(engine.next_due(), Some(at(20)));
    let _ = engine.step(at(20), &[], &mut ());
    assert_eq!(engine.counts(TaskId(1)).aborted, 1);
    assert_eq!((engine.next_due(), engine.counts(A).aborted), (Some(at(25)), 0));
    let _ = engine.step(at(25), &[], &mut ());
    assert_eq!(engine.counts(A).aborted, 1, "after 20 ns from its dispatch on");
}

#[test]
fn stale_acknowledgements_change_nothing() {
    let mut engine = engine();
    let _ = engine.step(at(0), &[], &mut ());
    let place = engine.place_of(A).expect("it runs");
    let other = Place(1 - place.0);
    let said = [(other, 5), (place, 9)].map(|(place, when)| Input::Dispatched { task: A, place, at: at(when) });
    let _ = engine.step(at(7), &said, &mut ());
    assert_eq!(engine.job(A).map(|job| job.consumed.nominal_time()), Some(ns(7)), "elsewhere, and in the future");
    let done = Input::Complete { task: A, job: 0 };
    let _ = engine.step(at(8), &[done, Input::Dispatched { task: A, place, at: at(1) }], &mut ());
    assert_eq!(engine.counts(A).completed, 1);
}
