//! What is said of a domain is what is said of its tasks and CPUs alone.

use proptest::collection::vec;
use proptest::prelude::*;
use takt_analysis::online::{self, Answer, Kind, Verdict, verdict};
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Domain, PolicySpec, Reservation, System, Task, TaskId};
use takt_core::policy::Registry;
use takt_core::time::Span;

/// Every policy, in each of its forms, that can have a domain to itself.
fn policies() -> impl Iterator<Item = String> {
    let names: Vec<String> = Registry::standard().names().map(|(prefix, name)| format!("{prefix}{name}")).collect();
    names.into_iter().filter(|name| !["domains", "windows"].contains(&name.as_str()))
}

/// Tasks that every policy takes: a period, a part of it that is needed, and one that is left until the deadline, both in percent.
fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let task = |(priority, (period, load, early, served)): (usize, (i64, i64, i64, bool))| {
        let (whole, runtime) = (Span::from_ms(period), Span::from_us(period * load * 10));
        let reservation = Reservation { budget: runtime, deadline: None, period: whole };
        Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: whole },
            deadline: Some(runtime.max(Span::from_us(period * early * 10))),
            runtime: Some(runtime),
            priority: priority as u32 + 1,
            reservation: served.then_some(reservation),
            affinity: CpuSet::first(3),
            ..Task::default()
        }
    };
    let row = (
        prop::sample::select(&[4i64, 5, 8, 10, 20][..]),
        10..=70i64,
        prop_oneof![Just(100i64), 60..=99i64],
        any::<bool>(),
    );
    vec(row, 1..=5).prop_map(move |rows| rows.into_iter().enumerate().map(task).collect())
}

fn named(name: &str) -> PolicySpec {
    PolicySpec::from_name(name).expect("it is in the registry")
}

fn system(policy: &str, cpus: CpuSet, tasks: Vec<Task>) -> System {
    System { tasks, ..System::new(cpus, named(policy)) }
}

/// Answer, test, kind and ground.
fn said(verdict: &Verdict) -> (Answer, &'static str, Kind, &str) {
    (verdict.schedulable, verdict.test, verdict.kind, &verdict.reason)
}

/// The tasks on CPUs 1 and 2, or on CPU 1, beside a domain on CPU 0 whose tasks come after them, so that numbers stay.
fn beside(alone: &System, others: &[Task]) -> System {
    let here = alone.tasks.len() as u32;
    let all = here + others.len() as u32;
    let domain =
        |cpus, tasks: std::ops::Range<u32>, policy| Domain { band: 0, cpus, tasks: tasks.map(TaskId).collect(), policy };
    let tasks = alone.tasks.iter().chain(others).cloned().collect();
    let machine = alone.cpus.iter().chain([0]).collect();
    let domains = vec![domain(alone.cpus, 0..here, alone.policy), domain(CpuSet::single(0), here..all, named("edf"))];
    System { domains, ..system("domains", machine, tasks) }
}

#[test]
fn a_domain_is_judged_as_if_it_were_alone() {
    takt_testing::for_all(200, (tasks(), any::<bool>(), any::<bool>()), |(tasks, several, untimed)| {
        let cpus: CpuSet = if several { [1, 2].into_iter().collect() } else { CpuSet::single(1) };
        // A job at a listed instant without anything that policies ask of tasks, which no domain but its own may notice.
        let rest = Task { arrival: Arrival::Listed { instants: Vec::new() }, ..Task::default() };
        let light = Task { deadline: Some(Span::from_ms(4)), runtime: Some(Span::from_ms(1)), ..tasks[0].clone() };
        let others = [if untimed { rest } else { light.clone() }, light];
        for policy in policies() {
            let alone = system(&policy, cpus, tasks.clone());
            let (found, both) = (verdict(&alone), beside(&alone, &others));
            let parts = online::of_domains(&both);
            prop_assert_eq!(said(&parts[0]), said(&found), "{}", &policy);
            prop_assert_eq!(&parts[0].responses[..tasks.len()], &found.responses[..], "{}", &policy);
            // The other domain is in time, so that this one decides.
            prop_assert_eq!(parts[1].schedulable, Answer::Yes);
            prop_assert_eq!(verdict(&both).schedulable, found.schedulable, "{}", &policy);
        }
        Ok(())
    });
}

/// Three tasks of 6 ms in 10 ms fit on two CPUs if one is split, whatever another domain does.
#[test]
fn tasks_of_a_domain_are_split_over_its_cpus() {
    let task = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(10) },
        deadline: Some(Span::from_ms(10)),
        runtime: Some(Span::from_ms(6)),
        ..Task::default()
    };
    for policy in ["edf-wm", "edf-cd", "edf-wmr"] {
        let alone = system(policy, [1, 2].into_iter().collect(), vec![task.clone(); 3]);
        let found = &online::of_domains(&beside(&alone, std::slice::from_ref(&task)))[0];
        assert_eq!((found.schedulable, found.test, found.kind), (Answer::Yes, policy, Kind::Sufficient), "{found}");
    }
    for policy in ["edf-wm", "edf-cd"] {
        // Where every CPU is full until 9 ms nothing more is done by then, though the utilisation is only 2.
        let at = |ms| Task { runtime: Some(Span::from_ms(ms)), deadline: Some(Span::from_ms(ms)), ..task.clone() };
        let crowded = system(policy, [1, 2].into_iter().collect(), vec![at(9), at(9), at(2)]);
        let found = verdict(&crowded);
        assert_eq!((found.schedulable, found.test, found.kind), (Answer::Unknown, policy, Kind::Sufficient), "{found}");
        assert!(found.reason.starts_with("no CPU has capacity for task "), "{found}");
    }
}
