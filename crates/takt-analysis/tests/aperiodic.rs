//! A deadline of an aperiodic task says nothing about the others: they are judged as if it had none.

use takt_analysis::online::{Answer, Kind, Verdict, verdict};
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, PolicySpec, Reservation, System, Task};
use takt_core::time::Span;

const MS: fn(i64) -> Span = Span::from_ms;

/// Two periodic tasks of 1 ms every 4 ms and 2 ms every 8 ms, and one of 3 ms at 0 and 50 ms.
fn system(policy: &str, deadline: Option<i64>) -> System {
    let periodic = |runtime, period, priority| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: MS(period) },
        runtime: Some(MS(runtime)),
        deadline: Some(MS(period)),
        priority,
        ..Task::default()
    };
    let requests = Task {
        arrival: Arrival::Listed { instants: vec![Span::ZERO, MS(50)] },
        runtime: Some(MS(3)),
        deadline: deadline.map(MS),
        priority: 1,
        ..Task::default()
    };
    let tasks = vec![periodic(1, 4, 3), periodic(2, 8, 2), requests];
    System { tasks, ..System::new(CpuSet::first(1), PolicySpec::from_name(policy).unwrap()) }
}

fn judged(system: &System) -> (Answer, Kind, Vec<Option<Span>>, String) {
    let Verdict { schedulable, kind, responses, reason, .. } = verdict(system);
    (schedulable, kind, responses, reason)
}

#[test]
fn a_task_of_the_least_priority_hides_no_bounds() {
    let bounds = vec![Some(MS(1)), Some(MS(3)), None];
    for policy in ["dm", "fp"] {
        let (answer, kind, responses, _) = judged(&system(policy, None));
        assert_eq!((answer, kind, &responses), (Answer::Yes, Kind::Exact, &bounds), "{policy}");
        let (answer, _, responses, reason) = judged(&system(policy, Some(20)));
        assert_eq!((answer, &responses), (Answer::Unknown, &bounds), "{policy}");
        let why = "task 2 is released at listed instants, for which there is no test; the others meet their deadlines in any case";
        assert_eq!(reason, why, "{policy}");
    }
}

#[test]
fn one_that_is_more_urgent_can_disturb_others() {
    let mut urgent = system("fp", Some(20));
    urgent.tasks[2].priority = 2;
    let beyond = "jobs at listed instants are not covered by the tests";
    let unknown = vec![None; 3];
    assert_eq!(judged(&urgent), (Answer::Unknown, Kind::Nothing, unknown.clone(), beyond.to_owned()));
    for policy in ["dm", "edf"] {
        let deadline = if policy == "dm" { 8 } else { 20 };
        let (answer, _, responses, reason) = judged(&system(policy, Some(deadline)));
        assert_eq!((answer, &responses, &reason[..]), (Answer::Unknown, &unknown, beyond), "{policy}");
    }
}

#[test]
fn one_with_a_server_is_contained() {
    let served = |policy: &str, deadline| {
        let mut system = system(policy, deadline);
        system.tasks[2].reservation = Some(Reservation::new(MS(1), MS(4)));
        system
    };
    // Three budgets of 1 ms, one more period for the wait: 16 ms. To the first task the server is an equal that may come before.
    let bounds = |own: Option<i64>| vec![Some(MS(2)), Some(MS(4)), own.map(MS)];
    for policy in ["polling-server", "sporadic-server"] {
        let (answer, _, responses, reason) = judged(&served(policy, Some(20)));
        assert_eq!((answer, responses), (Answer::Yes, bounds(Some(16))), "{policy}: {reason}");
        let (answer, _, responses, reason) = judged(&served(policy, Some(10)));
        assert_eq!((answer, responses), (Answer::Unknown, bounds(None)), "{policy}: {reason}");
        assert!(
            reason.starts_with("task 2 is served within 16ms, which is beyond its deadline of 10ms; the others"),
            "{reason}"
        );
    }
    let (answer, _, _, reason) = judged(&served("cbs", Some(20)));
    assert_eq!(answer, Answer::Unknown);
    let why =
        "task 2 is neither periodic nor sporadic; the servers fit, so the others meet their deadlines in any case";
    assert_eq!(reason, why);
}
