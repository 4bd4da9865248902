//! The engine's answers to programs that ask for a resource, or for other terms.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Answer, Engine, Input, Question, Reply};
use takt_core::model::{Arrival, Call, Locking, Reservation, ResourceId, System, Task, TaskId};
use takt_core::policy::Registry;
use takt_core::time::{Span, Time};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
const R: ResourceId = ResourceId(0);

fn at(ns: i64) -> Time {
    Time::from_ns(ns)
}

fn engine(policy: &str, cpus: usize) -> Engine {
    let task = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ns(100) },
        deadline: Some(Span::from_ns(100)),
        runtime: Some(Span::from_ns(10)),
        reservation: Some(Reservation::new(Span::from_ns(20), Span::from_ns(100))),
        ..Task::default()
    };
    let policy = Registry::standard().spec(policy).expect("a policy of Takt");
    let locking = Locking::Inheritance;
    Engine::new(System { tasks: vec![task; 2], resources: 1, locking, ..System::new(CpuSet::first(cpus), policy) })
        .expect("a system that runs")
}

fn step(engine: &mut Engine, now: i64, inputs: &[Input]) -> Vec<Reply> {
    engine.step(at(now), inputs, &mut ()).replies.to_vec()
}

fn resource(task: TaskId, answer: Answer) -> Reply {
    Reply { task, question: Question::Resource(R), answer }
}

#[test]
fn a_request_for_a_resource_is_granted_or_waits() {
    let mut engine = engine("g-edf", 2);
    assert_eq!(step(&mut engine, 0, &[]), []);
    let ask = |task| Input::Lock { task, resource: R };
    assert_eq!(step(&mut engine, 1, &[ask(A)]), [resource(A, Answer::Granted)]);
    assert_eq!(step(&mut engine, 2, &[ask(B)]), [resource(B, Answer::Waits)]);
    assert_eq!(step(&mut engine, 3, &[ask(B)]), [resource(B, Answer::Refused)], "it waits already");
    let back = Input::Unlock { task: A, resource: R };
    assert_eq!(step(&mut engine, 4, &[back, ask(A)]), [resource(B, Answer::Granted), resource(A, Answer::Waits)]);
    // The end of a job unlocks its resources.
    assert_eq!(step(&mut engine, 5, &[Input::Complete { task: B, job: 0 }]), [resource(A, Answer::Granted)]);
    assert_eq!(step(&mut engine, 6, &[ask(B)]), [resource(B, Answer::Refused)], "it has no job");
    assert_eq!(step(&mut engine, 7, &[]), []);
}

#[test]
fn a_request_for_other_terms_is_answered_by_the_policy() {
    let mut engine = engine("cbs", 1);
    step(&mut engine, 0, &[]);
    let ask = |ns| {
        let call = Call::Runtime(Span::from_ns(ns));
        (Input::Call { task: A, call }, move |answer| Reply { task: A, question: Question::Terms(call), answer })
    };
    let ((small, to_small), (large, to_large)) = (ask(30), ask(90));
    assert_eq!(step(&mut engine, 1, &[small]), [to_small(Answer::Granted)]);
    assert_eq!(step(&mut engine, 2, &[large]), [to_large(Answer::Refused)], "90 and 20 of 100 are too much");
    let done = Input::Complete { task: A, job: 0 };
    assert_eq!(step(&mut engine, 3, &[done, small]), [to_small(Answer::Refused)], "no request without a job");
}

/// A and B have the ranks 100 and 150 by period; a third task has 120 and no resource. A waits for what B holds.
#[test]
fn other_terms_of_a_waiting_job_change_what_the_holder_inherits() {
    let task = |period, offset| Task {
        arrival: Arrival::Periodic { offset: Span::from_ns(offset), period: Span::from_ns(period) },
        runtime: Some(Span::from_ns(10)),
        ..Task::default()
    };
    let policy = Registry::standard().spec("rm").expect("a policy of Takt");
    let tasks = vec![task(100, 2), task(150, 0), task(120, 4)];
    let system = System { tasks, resources: 1, locking: Locking::Inheritance, ..System::new(CpuSet::first(1), policy) };
    let mut engine = Engine::new(system).expect("a system that runs");
    let runs = |engine: &Engine| (0..3).map(TaskId).find(|task| engine.place_of(*task).is_some());
    step(&mut engine, 0, &[]);
    step(&mut engine, 1, &[Input::Lock { task: B, resource: R }]);
    step(&mut engine, 2, &[]);
    assert_eq!(runs(&engine), Some(A));
    step(&mut engine, 3, &[Input::Lock { task: A, resource: R }]);
    step(&mut engine, 4, &[]);
    assert_eq!(runs(&engine), Some(B), "B has inherited 100");
    step(&mut engine, 5, &[Input::Call { task: A, call: Call::Period(Span::from_ns(140)) }]);
    assert_eq!(runs(&engine), Some(TaskId(2)), "B has inherited 140");
}
