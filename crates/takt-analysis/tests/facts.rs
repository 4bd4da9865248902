//! Verdicts about policies that no file here knows: they follow the facts, and without facts nothing is claimed.

use takt_analysis::online::{Answer, Verdict, verdict};
use takt_core::cpus::CpuSet;
use takt_core::model::*;
use takt_core::time::Span;

/// The profile of a policy from another crate.
fn foreign(scopes: &'static [Scope], facts: &'static [Fact], test: CpuTest) -> PolicySpec {
    let profile = Profile { name: "foreign", summary: "", scopes, needs: &[], facts, test, settings: &[] };
    PolicySpec::new(Box::leak(Box::new(profile)), scopes[0])
}

fn task(runtime: i64, period: i64) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(period) },
        deadline: Some(Span::from_ms(period)),
        runtime: Some(Span::from_ms(runtime)),
        ..Task::default()
    }
}

fn judged(policy: PolicySpec, cpus: usize, tasks: Vec<Task>) -> Verdict {
    verdict(&System { tasks, ..System::new(CpuSet::first(cpus), policy) })
}

/// The name of the test, and the answer, for tasks that EDF just schedules on one CPU.
fn on_one_cpu(facts: &'static [Fact], test: CpuTest) -> (&'static str, Answer) {
    let found = judged(foreign(&[Scope::Uniprocessor], facts, test), 1, vec![task(5, 10), task(10, 20)]);
    (found.test, found.schedulable)
}

#[test]
fn a_policy_without_facts_has_no_test() {
    assert_eq!(on_one_cpu(&[], CpuTest::Utilisation), ("none", Answer::Unknown));
    // A set that no policy can schedule is recognised all the same.
    let over = judged(foreign(&[Scope::Uniprocessor], &[], CpuTest::Utilisation), 1, vec![task(6, 10), task(10, 20)]);
    assert_eq!((over.test, over.schedulable), ("utilisation", Answer::No));
    for cpus in [1, 2, 4] {
        let found = judged(foreign(&[Scope::Global], &[], CpuTest::Utilisation), cpus, vec![task(1, 10)]);
        assert_eq!((found.test, found.schedulable), ("none", Answer::Unknown), "{cpus} CPUs");
    }
}

#[test]
fn an_order_has_the_test_of_that_order() {
    const EDF: &[Fact] = &[Fact::Order { by: Order::AbsoluteDeadline, preemptive: true }];
    const NP_EDF: &[Fact] = &[Fact::Order { by: Order::AbsoluteDeadline, preemptive: false }];
    const SHORTEST: &[Fact] = &[Fact::Order { by: Order::Period, preemptive: true }];
    assert_eq!(on_one_cpu(EDF, CpuTest::Demand), ("edf", Answer::Yes));
    assert_eq!(on_one_cpu(NP_EDF, CpuTest::Utilisation), ("np-edf", Answer::Unknown));
    assert_eq!(on_one_cpu(SHORTEST, CpuTest::Utilisation), ("rta", Answer::Yes));
    let global = |facts| judged(foreign(&[Scope::Global], facts, CpuTest::Utilisation), 2, vec![task(1, 10); 3]);
    assert_eq!((global(EDF).test, global(EDF).schedulable), ("gfb", Answer::Yes));
    assert_eq!((global(SHORTEST).test, global(SHORTEST).schedulable), ("grm-rta", Answer::Yes));
    assert_eq!(global(NP_EDF).schedulable, Answer::Unknown);
}

#[test]
fn a_policy_that_only_conserves_work_has_the_busy_period() {
    const CONSERVING: &[Fact] = &[Fact::WorkConserving(When::Always)];
    assert_eq!(on_one_cpu(CONSERVING, CpuTest::Utilisation), ("busy-period", Answer::Unknown));
    let short = judged(foreign(&[Scope::Uniprocessor], CONSERVING, CpuTest::Utilisation), 1, vec![task(1, 10); 4]);
    assert_eq!((short.test, short.schedulable), ("busy-period", Answer::Yes));
}

#[test]
fn a_job_that_runs_on_holds_up_the_most_urgent_one() {
    let by = |preemptive: bool| -> Answer {
        let facts: &'static [Fact] = Box::leak(Box::new([Fact::Order { by: Order::Period, preemptive }]));
        let policy = foreign(&[Scope::Uniprocessor], facts, CpuTest::Utilisation);
        judged(policy, 1, vec![task(2, 5), task(6, 20)]).schedulable
    };
    assert_eq!((by(true), by(false)), (Answer::Yes, Answer::Unknown));
}

#[test]
fn resources_that_are_granted_in_turn_are_beyond_the_test_of_an_order() {
    const DEAF: &[Fact] = &[Fact::Order { by: Order::AbsoluteDeadline, preemptive: true }, Fact::IgnoresLocking];
    let lock = Step::Lock(ResourceId(0));
    let steps = vec![lock, Step::Run(Span::from_ms(1)), Step::Unlock(ResourceId(0))];
    let tasks = vec![
        Task { program: Program::doing(steps.clone()), ..task(1, 10) },
        Task { program: Program::doing(steps), ..task(1, 20) },
    ];
    let found = |facts| {
        let policy = foreign(&[Scope::Uniprocessor], facts, CpuTest::Demand);
        let system = System {
            tasks: tasks.clone(),
            locking: Locking::Inheritance,
            resources: 1,
            ..System::new(CpuSet::first(1), policy)
        };
        verdict(&system).schedulable
    };
    assert_eq!((found(&DEAF[..1]), found(DEAF)), (Answer::Yes, Answer::Unknown));
}
