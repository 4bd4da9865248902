//! Domains with policies of their own, and switches of policies: of a domain and of the whole system.

#[path = "../common/told.rs"]
mod told;

mod bands;

use proptest::prelude::*;
use proptest::sample::select;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::input::Input;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::utility::{UNIT, Utility};
use takt_sim::Simulation;
use takt_testing::for_all;
use told::*;

/// Parts of a machine: the first CPU of each, how many follow each other, the policy, and the tasks.
fn parts<const N: usize>(parts: [(usize, usize, &str, Vec<Task>); N]) -> System {
    let mut all = system(1, "domains", vec![]);
    all.cpus = CpuSet::EMPTY;
    for (first, count, name, tasks) in parts {
        let cpus: CpuSet = (first..first + count).collect();
        all.cpus = all.cpus.union(&cpus);
        let from = all.tasks.len();
        all.tasks.extend(tasks);
        let tasks = (from..all.tasks.len()).map(|t| TaskId(t as u32)).collect();
        all.domains.push(Domain { band: 0, cpus, tasks, policy: policy(name, &[]) });
    }
    all
}

/// The system with switches: when, of which domain or of the whole, to what.
fn switched(mut system: System, switches: &[(i64, Option<u16>, PolicySpec)], until: i64) -> Told {
    let mut scenario = Scenario::default();
    for (at, domain, to) in switches {
        let index = system.alternatives.len() as u16;
        system.alternatives.push(*to);
        scenario.changes.push((Time::ZERO + ms(*at), Input::Switch { domain: *domain, to: index }));
    }
    let mut engine = Engine::new(system).unwrap_or_else(|e| panic!("{e}"));
    let mut records = vec![];
    takt_sim::simulate(&mut engine, &scenario, ms(until), &mut records, |_| ());
    Told { engine, records }
}

fn worth(utility: u64, task: Task) -> Task {
    Task { utility: Some(Utility::Step(utility * UNIT)), ..task }
}

/// An overload: 8 ms of work until 7, of which 6 ms are due at 5.
fn overload() -> Vec<Task> {
    vec![worth(3, once(0, 3, 4)), worth(9, once(0, 3, 5)), worth(4, once(0, 2, 7))]
}

#[test]
fn each_domain_goes_by_its_own_policy() {
    let system = parts([(0, 1, "edf", overload()), (1, 1, "dasa-nd", overload()), (2, 2, "g-edf", overload())]);
    // The third part has two CPUs and no overload.
    expect(
        &tell(system, 20),
        "a0-3 b3-6 c6-8
         e0-3 f3-5 d5-8
         g0-3 i3-5
         h0-3",
        "bcd",
    );
}

#[test]
fn a_domain_is_switched_in_the_middle_of_a_job() {
    let system = parts([(0, 1, "edf", overload()), (1, 1, "edf", overload())]);
    // At 1 there are 2 ms left of a: b and c are worth more for each millisecond, and a does not fit before them.
    let told = switched(system, &[(1, Some(0), policy("dasa-nd", &[]))], 20);
    expect(
        &told,
        "a0-1 b1-4 c4-6 a6-8
         d0-3 e3-6 f6-8",
        "aef",
    );
    assert_eq!(told.engine.system().domains[0].policy.profile.name, "dasa-nd");
    assert_eq!(told.engine.system().domains[1].policy.profile.name, "edf");
}

#[test]
fn timers_belong_to_their_domain() {
    let rr = PolicySpec { values: policy("rr", &[Some(1_000_000)]).values, ..policy("rr", &[]) };
    let two = || vec![once(0, 4, 20), once(0, 4, 21)];
    let mut system = parts([(0, 1, "edf", two()), (1, 1, "rr", two()), (2, 1, "rr", two())]);
    (system.domains[1].policy, system.domains[2].policy) = (rr, rr);
    // The first part gets a quantum, the second loses its own, and the third keeps it.
    let told = switched(system, &[(2, Some(0), rr), (2, Some(1), policy("edf", &[]))], 20);
    expect(
        &told,
        "a0-3 b3-4 a4-5 b5-8
         c0-1 d1-2 c2-5 d5-8
         e0-1 f1-2 e2-3 f3-4 e4-5 f5-6 e6-7 f7-8",
        "",
    );
}

#[test]
fn a_timer_of_the_policy_before_is_no_event() {
    // Late jobs are aborted at the next event, and nothing happens any more after the switch.
    let quanta = PolicySpec { values: policy("rr", &[Some(5_000_000)]).values, ..policy("rr", &[]) };
    let chart = |switches: &[(i64, Option<u16>, PolicySpec)]| {
        let mut system = parts([(0, 1, "rr", vec![worth(1, once(0, 9, 3))])]);
        (system.late, system.domains[0].policy) = (Late::AbortAtEvent, quanta);
        switched(system, switches, 20).chart()
    };
    assert_eq!(chart(&[]), "a0-5x", "its quantum ends");
    for to in ["edf", "hvdf", "fp"] {
        assert_eq!(chart(&[(1, Some(0), policy(to, &[]))]), "a0-9", "{to}");
        assert_eq!(chart(&[(1, None, policy(to, &[]))]), "a0-9", "{to}");
    }
}

#[test]
fn a_running_job_continues_at_a_switch_without_preemption() {
    // b is the denser from 1 on, but edf runs a, which is due earlier.
    let tasks = || vec![worth(1, once(0, 4, 5)), worth(9, once(1, 1, 20))];
    let chart = |to| {
        let whole = switched(told::system(1, "edf", tasks()), &[(2, None, policy(to, &[]))], 20).chart();
        let domain = switched(parts([(0, 1, "edf", tasks())]), &[(2, Some(0), policy(to, &[]))], 20).chart();
        assert_eq!(whole, domain);
        whole
    };
    assert_eq!(chart("np-hvdf"), "a0-4 b4-5");
    assert_eq!(chart("hvdf"), "a0-2 b2-3 a3-5");
    // A job that waits at the switch has lost its CPU: a was preempted at 1, and c has the higher density.
    let tasks = vec![worth(1, once(0, 4, 20)), worth(1, once(1, 3, 5)), worth(9, once(1, 1, 30))];
    assert_eq!(
        switched(told::system(1, "edf", tasks), &[(2, None, policy("np-hvdf", &[]))], 20).chart(),
        "a0-1 b1-4 c4-5 a5-8"
    );
}

#[test]
fn a_refused_switch_changes_nothing() {
    let system = || parts([(0, 2, "g-edf", overload()), (2, 1, "edf", overload())]);
    let before = switched(system(), &[], 20);
    for (domain, name) in
        [(Some(0), "edf"), (Some(0), "windows"), (Some(1), "domains"), (Some(2), "g-edf"), (None, "edf")]
    {
        let after = switched(system(), &[(2, domain, policy(name, &[]))], 20);
        assert_eq!(before.records, after.records, "{name}");
        assert_eq!(before.engine.system().domains, after.engine.system().domains, "{name}");
    }
    // A system without domains has none to switch.
    let plain = || told::system(1, "edf", overload());
    assert_eq!(switched(plain(), &[(1, Some(0), policy("hvdf", &[]))], 20).records, switched(plain(), &[], 20).records);
}

fn without_switches(mut records: Vec<Record>) -> Vec<Record> {
    records.retain(|r| !matches!(r.kind, RecordKind::Switch { .. }));
    records
}

#[test]
fn a_switch_that_takes_effect_is_recorded_before_what_follows_from_it() {
    let limited = || Task { budget: Some(ms(4)), ..once(0, 3, 9) };
    let system = || parts([(0, 1, "rr", vec![limited()]), (1, 1, "edf", vec![once(0, 2, 9)])]);
    let switches = [
        (1, Some(0), policy("edf", &[])),
        // A domain that there is not, and a policy that cannot schedule this one.
        (1, Some(7), policy("edf", &[])),
        (1, Some(1), policy("windows", &[])),
        (2, None, policy("g-edf", &[])),
        // There are no domains any more.
        (2, Some(0), policy("fifo", &[])),
    ];
    let records = switched(system(), &switches, 20).records;
    let told: Vec<_> = records.iter().filter(|r| matches!(r.kind, RecordKind::Switch { .. })).copied().collect();
    let at = |at, what| Record { at: Time::ZERO + ms(at), kind: what };
    let expected =
        [at(1, RecordKind::Switch { domain: Some(0), to: 0 }), at(2, RecordKind::Switch { domain: None, to: 3 })];
    assert_eq!(told, expected);
    // A quantum is forgotten and the task's own budget granted by what takes over.
    let position = |of: &Record| records.iter().position(|r| r == of).expect("it was recorded");
    let granted = records.iter().position(|r| r.at == expected[0].at && matches!(r.kind, RecordKind::Budget { .. }));
    assert_eq!(granted, Some(position(&expected[0]) + 1), "{records:?}");
}

#[test]
fn the_whole_system_is_switched_to_domains_and_back() {
    let system =
        System { policy: policy("g-edf", &[]), ..parts([(0, 1, "edf", overload()), (1, 1, "edf", overload())]) };
    // At 1 the first job of each part is on either CPU; the first three tasks belong on the first. At 4 all may run anywhere again.
    let told = switched(system, &[(1, None, policy("domains", &[])), (4, None, policy("g-edf", &[]))], 20);
    expect(
        &told,
        "a0-3 b3-6 c6-8
         d0-3 e3-6 f6-8",
        "bcef",
    );
}

#[test]
fn the_own_budget_of_a_job_is_none_of_the_policys_grants() {
    // Its job may use 3 ms under any policy.
    let limited = || Task { budget: Some(ms(3)), ..once(0, 9, 20) };
    for switches in [&[][..], &[(1, Some(0), policy("rr", &[]))], &[(2, None, policy("g-edf", &[]))]] {
        let told = switched(parts([(0, 1, "edf", vec![limited()]), (1, 1, "edf", vec![once(0, 1, 5)])]), switches, 20);
        let over: Vec<Record> =
            told.records.iter().copied().filter(|r| matches!(r.kind, RecordKind::Finish { .. })).collect();
        let aborted =
            |r: &Record| matches!(r.kind, RecordKind::Finish { task: TaskId(0), outcome: Outcome::Aborted, .. });
        let at = over.iter().find(|r| aborted(r)).map(|r| r.at);
        assert_eq!(at, Some(Time::ZERO + ms(3)), "{switches:?}");
    }
}

const R: ResourceId = ResourceId(0);
const S: ResourceId = ResourceId(1);

/// A job that takes one resource, works, and asks for the other.
fn takes(first: ResourceId, second: ResourceId, release: i64, deadline: i64) -> Task {
    use Step::{Lock, Unlock};
    let steps = vec![Lock(first), run(2), Lock(second), run(1), Unlock(second), Unlock(first)];
    Task { program: Program::doing(steps), ..once(release, 3, deadline) }
}

#[test]
fn a_circle_that_is_there_is_broken_by_the_policy_that_takes_over() {
    // By edf, b takes S at 1, works until 3 and asks for R; a continues until 4 and asks for S. Nothing moves until the switch.
    let tasks = || vec![worth(1, takes(R, S, 0, 20)), worth(5, takes(S, R, 1, 9)), worth(1, once(5, 2, 30))];
    let stuck = tell(told::system(1, "edf", tasks()), 40);
    assert_eq!((stuck.chart(), stuck.engine.totals().completed), ("a0-1 b1-3 a3-4 c5-7".to_owned(), 1));
    for (domain, to) in [(None, "hvdf"), (None, "dasa"), (Some(0), "dasa-nd"), (Some(0), "gus")] {
        let system = match domain {
            None => told::system(1, "edf", tasks()),
            Some(_) => parts([(0, 1, "edf", tasks()), (1, 1, "edf", vec![])]),
        };
        let told = switched(system, &[(8, domain, policy(to, &[]))], 40);
        assert_eq!(told.chart().lines().next(), Some("a0-1 b1-3 a3-4 c5-7 b8-9"), "{to}");
        assert_eq!((told.engine.totals().completed, told.engine.totals().aborted), (2, 1), "{to}");
    }
}

#[test]
fn a_circle_over_two_domains_is_broken_by_the_one_that_closes_it() {
    let tasks = || (vec![worth(5, takes(R, S, 0, 20))], vec![worth(1, takes(S, R, 1, 20))]);
    let both = |first: &str, second: &str| {
        let (a, b) = tasks();
        let told = tell(parts([(0, 1, first, a), (1, 1, second, b)]), 40);
        (told.engine.totals().completed, told.engine.totals().aborted, told.engine.deadlocks())
    };
    // The second job closes the cycle at 3; its own policy ends it, although the first one could not.
    assert_eq!(both("dasa", "dasa"), (1, 1, 1));
    assert_eq!(both("edf", "dasa"), (1, 1, 1));
    // Under EDF no job is aborted.
    assert_eq!(both("dasa", "edf"), (0, 0, 1));
}

#[test]
fn a_handler_continues_under_the_policy_that_takes_over() {
    let handler = Handler { runtime: ms(4), deadline: Some(ms(10)), utility: UNIT };
    let tasks = || vec![worth(1, Task { handler: Some(handler), ..once(0, 9, 3) }), worth(8, once(5, 2, 6))];
    for (from, to) in [("edf", "dasa"), ("hvdf", "edf"), ("edf", "llf"), ("lbesa", "hvdf")] {
        let system = System { late: Late::Abort, ..parts([(0, 1, from, tasks()), (1, 1, "edf", vec![])]) };
        let told = switched(system, &[(4, Some(0), policy(to, &[]))], 20);
        let chart = told.chart();
        // The handler begins at 3 and has 3 ms left at 4; the second job is more urgent and denser.
        assert_eq!(chart.lines().next(), Some("a0-3x a3-5 b5-7 a7-9"), "from {from} to {to}");
    }
}

#[test]
fn domains_that_make_no_sense_are_refused() {
    let refused = |system: System| Engine::new(system).map(|_| ()).unwrap_err();
    let domains = || parts([(0, 1, "edf", overload()), (1, 2, "g-edf", overload())]);
    assert!(matches!(refused(System { domains: vec![], ..domains() }), Invalid::Unsuitable(_)));
    for name in ["edf", "windows", "domains"] {
        let mut system = domains();
        system.domains[1].policy = policy(name, &[]);
        assert!(matches!(refused(system), Invalid::Unsuitable(_)), "{name}");
    }
    let mut outside = domains();
    outside.tasks[4].affinity = CpuSet::single(0);
    assert_eq!(refused(outside), Invalid::Affinity(TaskId(4)));
    let mut twice = domains();
    twice.domains[1].tasks.push(TaskId(0));
    assert_eq!(refused(twice), Invalid::Domains);
    let mut overlap = domains();
    overlap.domains[1].cpus = CpuSet::first(3);
    assert_eq!(refused(overlap), Invalid::Domains);
}

const ON_ONE: [&str; 9] = ["edf", "rm", "rr", "llf", "np-edf", "hvdf", "lbesa", "dasa", "gus"];
const ON_TWO: [&str; 6] = ["g-edf", "p-rm", "g-llf", "ng-gua", "g-gua", "llref"];

fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let task =
        (0i64..5, 2i64..20, 1i64..5, 1i64..25, 1u64..9).prop_map(|(offset, period, runtime, deadline, worth)| {
            let arrival = Arrival::Periodic { offset: ms(offset), period: ms(period) };
            let utility = Some(Utility::Step(worth * UNIT));
            Task { arrival, runtime: Some(ms(runtime)), deadline: Some(ms(deadline)), utility, ..Task::default() }
        });
    prop::collection::vec(task, 1..5)
}

/// The records about these tasks, as if they and their places were counted from zero.
fn part(records: &[Record], first_task: u32, tasks: usize, first_place: u16) -> Vec<String> {
    let own = |task: TaskId| (first_task..first_task + tasks as u32).contains(&task.0);
    let of = |record: &Record| {
        let (task, text) = match record.kind {
            RecordKind::Start { task, job, place } => {
                (task, format!("start {job} {}", place.0.wrapping_sub(first_place)))
            }
            RecordKind::Stop { task, job, place, reason } => {
                (task, format!("stop {job} {} {reason:?}", place.0.wrapping_sub(first_place)))
            }
            RecordKind::Release { task, job, .. } => (task, format!("release {job}")),
            RecordKind::Finish { task, job, outcome, consumed } => {
                (task, format!("finish {job} {outcome:?} {consumed}"))
            }
            _ => return None,
        };
        own(task).then(|| format!("{} {} {text}", record.at, task.0 - first_task))
    };
    records.iter().filter_map(of).collect()
}

#[test]
fn a_domain_runs_as_if_it_were_alone() {
    let case = (select(&ON_ONE[..]), tasks(), select(&ON_TWO[..]), tasks(), any::<bool>());
    for_all(300, case, |(one, first, two, second, abort)| {
        let late = if abort { Late::Abort } else { Late::Continue };
        let both = tell(System { late, ..parts([(0, 1, one, first.clone()), (1, 2, two, second.clone())]) }, 60);
        for (name, cpus, tasks, from, place) in [(one, 1, &first, 0, 0), (two, 2, &second, first.len() as u32, 1)] {
            let alone = tell(System { late, ..told::system(cpus, name, tasks.clone()) }, 60);
            let (apart, beside) =
                (part(&alone.records, 0, tasks.len(), 0), part(&both.records, from, tasks.len(), place));
            prop_assert_eq!(&apart, &beside, "{} beside another one", name);
            prop_assert!(apart.len() > 1);
        }
        Ok(())
    });
}

/// A switch to the very policy that is there shows in nothing, for policies that remember nothing of the past.
#[test]
fn a_switch_to_the_same_policy_changes_nothing() {
    let case =
        (select(&["edf", "rm", "fp", "hvdf", "lbesa", "dasa-nd", "dasa", "gus"][..]), tasks(), tasks(), 0i64..50);
    for_all(200, case, |(name, first, second, at)| {
        let system = || parts([(0, 1, name, first.clone()), (1, 1, name, second.clone())]);
        let to = policy(name, &[]);
        let plain = switched(system(), &[], 60).records;
        prop_assert_eq!(&without_switches(switched(system(), &[(at, Some(1), to)], 60).records), &plain);
        let whole = || System { policy: policy("g-edf", &[]), ..system() };
        let plain = switched(whole(), &[], 60).records;
        let again = switched(whole(), &[(at, None, policy("g-edf", &[]))], 60).records;
        prop_assert_eq!(&without_switches(again), &plain);
        Ok(())
    });
}

/// A policy that is prepared and installed does what the input does that builds it at once.
#[test]
fn a_prepared_policy_is_the_one_of_the_input() {
    let case =
        (select(&ON_ONE[..]), tasks(), select(&ON_ONE[..]), tasks(), select(&ON_ONE[..]), any::<bool>(), 1i64..50);
    for_all(300, case, |(one, first, two, second, to, domain, at)| {
        let of = domain.then_some(1);
        let to = if domain { policy(to, &[]) } else { policy("g-edf", &[]) };
        let alternatives = vec![to];
        let system = System { alternatives, ..parts([(0, 1, one, first), (1, 1, two, second)]) };
        // Between two instants at which jobs end: an installation comes before those of its own instant, an input after them.
        let at = Time::ZERO + ms(at) + Span::from_us(500);
        let engine = || Simulation::new(Engine::new(system.clone()).expect("it runs"), &Scenario::default());
        let (mut by_input, mut expected) = (engine(), Vec::<Record>::new());
        by_input.run_until(at, &mut expected);
        by_input.input(Input::Switch { domain: of, to: 0 });
        by_input.run_until(Time::ZERO + ms(60), &mut expected);

        let (mut installed, mut records) = (engine(), Vec::<Record>::new());
        let prepared = match of {
            Some(domain) => installed.engine().prepare_domain(domain, to),
            None => installed.engine().prepare(to),
        };
        let prepared = prepared.expect("it suits");
        installed.run_until(at, &mut records);
        prop_assert!(installed.install(prepared, &mut records).is_ok());
        installed.run_until(Time::ZERO + ms(60), &mut records);
        prop_assert_eq!(records, expected);
        prop_assert_eq!(installed.engine().totals(), by_input.engine().totals());
        Ok(())
    });
}

#[test]
fn a_preparation_from_before_another_domains_switch_fits_that_domain_only() {
    let system = parts([(0, 1, "edf", vec![once(0, 3, 9)]), (1, 1, "fifo", vec![once(0, 3, 9)])]);
    let host = system.policy;
    let mut engine = Engine::new(system).expect("it runs");
    let _ = engine.step(Time::ZERO, &[], &mut ());
    let whole = engine.prepare(host).expect("it is the present one");
    let domain = engine.prepare_domain(0, policy("rm", &[])).err();
    assert!(domain.is_some(), "`rm` needs periods");
    assert!(engine.prepare_domain(2, policy("fp", &[])).is_err(), "there are two");
    let first = engine.prepare_domain(0, policy("fp", &[])).expect("it suits");
    let second = engine.prepare_domain(1, policy("fp", &[])).expect("it suits");
    let old = engine.install(Time::ZERO, first, &mut ()).unwrap_or_else(|_| panic!("nothing has changed"));
    assert_eq!(old.spec(), policy("edf", &[]));
    assert!(engine.install(Time::ZERO, second, &mut ()).is_ok());
    // It was built with `edf` and `fifo` inside.
    assert!(engine.install(Time::ZERO, whole, &mut ()).is_err());
    let names: Vec<_> = engine.system().domains.iter().map(|domain| domain.policy.profile.name).collect();
    assert_eq!(names, ["fp", "fp"]);
    let whole = engine.prepare(policy("g-edf", &[])).expect("it suits");
    let domain = engine.prepare_domain(1, policy("edf", &[])).expect("it suits");
    assert!(engine.install(Time::ZERO, whole, &mut ()).is_ok());
    assert!(engine.install(Time::ZERO, domain, &mut ()).is_err(), "the policy has no domains");
}
