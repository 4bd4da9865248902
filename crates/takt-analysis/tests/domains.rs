//! The verdict about a domain is that about its tasks and CPUs alone.

use proptest::collection::vec;
use proptest::prelude::*;
use takt_analysis::online::{self, Answer, Kind, Verdict, verdict};
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Domain, Late, PolicySpec, Reservation, System, Task, TaskId};
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
    let domain = |cpus, tasks: std::ops::Range<u32>, policy| Domain {
        band: 0,
        cpus,
        tasks: tasks.map(TaskId).collect(),
        policy,
    };
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

/// Runtime, period and deadline of tasks in milliseconds.
type Times = &'static [(i64, i64, i64)];

/// Bands on the first CPUs, the highest first: the policy of each, and its tasks.
fn bands(cpus: usize, bands: &[(&str, Times)]) -> System {
    let mut all = system("domains", CpuSet::first(cpus), Vec::new());
    for (index, (policy, tasks)) in bands.iter().enumerate() {
        let from = all.tasks.len() as u32;
        all.tasks.extend(tasks.iter().enumerate().map(|(i, &(runtime, period, deadline))| Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(period) },
            deadline: Some(Span::from_ms(deadline)),
            runtime: Some(Span::from_ms(runtime)),
            priority: (tasks.len() - i) as u32,
            affinity: all.cpus,
            ..Task::default()
        }));
        let tasks = (from..all.tasks.len() as u32).map(TaskId).collect();
        let band = 5 * (bands.len() - index) as u32;
        all.domains.push(Domain { band, cpus: all.cpus, tasks, policy: named(policy) });
    }
    all
}

#[test]
fn a_lower_band_is_judged_with_the_tasks_of_the_higher_ones() {
    let judged = |system: &System, index: usize| {
        let found = online::of_domains(system).swap_remove(index);
        let whole = verdict(system);
        let bound = found.responses.iter().rposition(Option::is_some).map(|task| found.responses[task].expect("it is"));
        (found.schedulable, found.test, found.kind, bound, whole.schedulable)
    };
    let ms = |ms| Some(Span::from_ms(ms));
    let high: Times = &[(2, 5, 5), (1, 10, 10)];
    for policy in ["edf", "fp", "rm", "np-edf", "rr"] {
        // 3 ms of its own, and 2 + 1 + 2 of the higher band.
        let fits = bands(1, &[(policy, high), ("dm", &[(3, 20, 8)])]);
        let whole = if ["np-edf", "rr"].contains(&policy) { verdict(&fits).schedulable } else { Answer::Yes };
        assert_eq!(judged(&fits, 1), (Answer::Yes, "rta", Kind::Exact, ms(8), whole), "{policy}");
    }
    // The same as one policy of fixed priorities.
    let apart = bands(1, &[("fp", high), ("fp", &[(3, 20, 8)]), ("fp", &[(4, 40, 39)])]);
    let mut one = apart.clone();
    one.domains.clear();
    one.policy = named("fp");
    one.tasks.iter_mut().zip([9, 8, 7, 6]).for_each(|(task, priority)| task.priority = priority);
    let lowest = &online::of_domains(&apart)[2];
    assert_eq!(lowest.responses[3], verdict(&one).responses[3]);
    assert_eq!(verdict(&apart).schedulable, Answer::Yes);
    // One millisecond more is too much, and so is a utilisation above 1.
    let over = bands(1, &[("edf", high), ("dm", &[(3, 20, 7)])]);
    assert_eq!(judged(&over, 1), (Answer::No, "rta", Kind::Exact, ms(8), Answer::No));
    assert_eq!(judged(&bands(1, &[("edf", high), ("fp", &[(11, 20, 20)])]), 1).0, Answer::No);
    // Where jobs of the higher band are late, their work is not known.
    let late = System { late: Late::Abort, ..bands(1, &[("rr", &[(3, 5, 5), (3, 10, 10)]), ("fp", &[(1, 20, 20)])]) };
    assert_eq!(judged(&late, 1).0, Answer::Unknown);
    // The order of other policies does not matter where all is done before the first job comes again.
    let light: Times = &[(1, 10, 10)];
    assert_eq!(judged(&bands(1, &[("edf", light), ("edf", &[(3, 20, 20), (4, 40, 40)])]), 1).1, "busy-period");
    assert_eq!(judged(&bands(1, &[("edf", light), ("edf", &[(3, 20, 20), (4, 40, 40)])]), 1).0, Answer::Yes);
    assert_eq!(judged(&bands(1, &[("edf", high), ("edf", &[(5, 20, 20)])]), 1).0, Answer::Unknown);
}

#[test]
fn bands_without_a_test_are_inconclusive_and_say_why() {
    let reason = |system: &System| {
        let found = online::of_domains(system).swap_remove(1);
        assert_eq!(found.schedulable, Answer::Unknown, "{found}");
        assert_eq!(verdict(system).schedulable, Answer::Unknown, "{found}");
        found.reason
    };
    let task: Times = &[(1, 10, 10)];
    assert!(reason(&bands(2, &[("g-edf", task), ("g-edf", task)])).contains("several CPUs"));
    assert!(reason(&bands(1, &[("pd2", task), ("edf", task)])).contains("idle"));
    // A demand that is too much alone stays too much.
    let over = bands(2, &[("g-edf", task), ("g-edf", &[(9, 10, 10), (9, 10, 10), (9, 10, 10)])]);
    assert_eq!(online::of_domains(&over)[1].schedulable, Answer::No);
    // The highest band is judged alone.
    let all = bands(2, &[("g-edf", task), ("g-edf", task)]);
    assert_eq!(online::of_domains(&all)[0].schedulable, Answer::Yes);
}

#[test]
fn a_tenth_of_the_cpu_is_left_by_all_bands_together() {
    let fits = bands(1, &[("edf", &[(5, 10, 10)]), ("edf", &[(4, 10, 10)])]);
    assert!(takt_analysis::idle::obstacle(&fits).is_none() && verdict(&fits).idle_10_percent);
    let full = bands(1, &[("edf", &[(5, 10, 10)]), ("edf", &[(5, 10, 10)])]);
    assert!(takt_analysis::idle::obstacle(&full).is_some() && !verdict(&full).idle_10_percent);
}
