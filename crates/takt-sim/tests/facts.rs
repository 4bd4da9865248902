//! The facts of every policy of the registry, tried: each is stated where it shows in a schedule, and nowhere else.
//! (What conserves, preempts and moves tasks is tried by the conformance tests, with random systems.)

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::*;
use takt_core::policies::edf;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::registry::REGISTRY;
use takt_core::scenario::Scenario;
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;
use takt_sim::simulate;
use takt_testing::for_all;

fn ms(n: i64) -> Span {
    Span::from_ms(n)
}

/// Every policy that schedules jobs itself, in each form, with each value of each choice.
fn policies() -> Vec<PolicySpec> {
    let mut all = Vec::new();
    for entry in REGISTRY {
        for scope in entry.profile.scopes {
            let plain = PolicySpec::new(&entry.profile, *scope);
            all.push(plain);
            for (index, setting) in entry.profile.settings.iter().enumerate() {
                let Kind::Choice(words) = setting.kind else { continue };
                all.extend((0..words.len() as i64).map(|value| {
                    let mut spec = plain;
                    spec.values.set(index, Some(value));
                    spec
                }));
            }
        }
    }
    all.retain(|spec| spec.hosts().is_none());
    all
}

/// A task with what any policy needs. Its deadline is the end of its period.
fn task(runtime: i64, period: i64) -> Task {
    let [runtime, period] = [ms(runtime), ms(period)];
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period },
        deadline: Some(period),
        runtime: Some(runtime),
        utility: Some(Utility::Step(10)),
        ..Task::default()
    }
}

fn late(task: Task, by: i64) -> Task {
    let period = task.arrival.period().expect("it is periodic");
    Task { arrival: Arrival::Periodic { offset: ms(by), period }, ..task }
}

fn system(policy: PolicySpec, cpus: usize, tasks: Vec<Task>) -> System {
    System { tasks, ..System::new(CpuSet::first(cpus), policy) }
}

/// The records and the counts of the system in virtual time.
fn run(system: System, duration: i64) -> (Vec<Record>, Counts) {
    let spec = system.policy;
    let mut engine = Engine::new(system).unwrap_or_else(|e| panic!("{spec:?}: {e}"));
    let mut records: Vec<Record> = Vec::new();
    simulate(&mut engine, &Scenario::default(), ms(duration), &mut records, |_| ());
    (records, engine.totals())
}

/// Which task runs from when.
fn starts(records: &[Record]) -> Vec<(Time, TaskId)> {
    let start = |r: &Record| match r.kind {
        RecordKind::Start { task, .. } => Some((r.at, task)),
        _ => None,
    };
    records.iter().filter_map(start).collect()
}

/// When the jobs of a task complete.
fn ends(records: &[Record], of: TaskId) -> Vec<Time> {
    let end = |r: &Record| match r.kind {
        RecordKind::Finish { task, outcome: Outcome::Completed, .. } if task == of => Some(r.at),
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

#[test]
fn policies_that_rank_by_priority_notice_priorities() {
    for spec in policies() {
        let schedule = |priorities: [u32; 2]| {
            let tasks = priorities.map(|priority| Task { priority, ..task(2, 10) });
            starts(&run(system(spec, 1, tasks.to_vec()), 40).0)
        };
        let notices = schedule([1, 2]) != schedule([2, 1]);
        assert_eq!(spec.ranks_by_priority(), notices, "{spec:?}");
    }
}

#[test]
fn orders_are_followed() {
    let described = |runtime, deadline, period, priority, utility| Task {
        deadline: Some(deadline),
        priority,
        utility: Some(Utility::Step(utility)),
        ..task(runtime, period)
    };
    let usual = described(4, ms(20), 40, 5, 60);
    // Among equal jobs the first task goes first, so the second one does only where it is ahead.
    let is_ahead = |spec: PolicySpec, second: &Task| {
        let (records, _) = run(system(spec, 1, vec![usual.clone(), second.clone()]), 20);
        starts(&records)[0].1 == TaskId(1)
    };
    let dated = [Order::AbsoluteDeadline, Order::RelativeDeadline, Order::Laxity];
    let cases = [
        (usual.clone(), &[][..]),
        (described(4, ms(18), 40, 5, 60), &dated),
        (described(8, ms(21), 40, 5, 60), &[Order::Laxity]),
        (described(4, ms(20), 30, 5, 60), &[Order::Period]),
        (described(4, ms(20), 40, 6, 60), &[Order::Priority]),
        (described(4, ms(20), 40, 5, 80), &[Order::UtilityDensity]),
    ];
    for spec in policies() {
        let Some(order) = spec.order() else { continue };
        for (second, orders) in &cases {
            assert_eq!(is_ahead(spec, second), orders.contains(&order), "{spec:?}: {second:?}");
        }
        // The second one comes later and is ahead by everything else.
        let ahead = late(described(4, ms(10), 30, 6, 800), 1);
        let (records, _) = run(system(spec, 1, vec![usual.clone(), ahead]), 3);
        let preempts = starts(&records).contains(&(Time::ZERO + ms(1), TaskId(1)));
        assert_eq!(preempts, spec.preemptive_order().is_some(), "{spec:?}");
        // A relative deadline that is shorter by less than the release is later.
        let shorter = late(described(4, ms(20) - Span::from_us(500), 40, 5, 60), 1);
        let (records, _) = run(system(spec, 1, vec![usual.clone(), shorter.clone()]), 3);
        let preempts = starts(&records).contains(&(Time::ZERO + ms(1), TaskId(1)));
        assert_eq!(preempts, [Order::RelativeDeadline, Order::Turn].contains(&order), "{spec:?}");
    }
}

#[test]
fn policies_that_are_edf_in_underload_schedule_as_edf() {
    let sets = prop::collection::vec((1i64..9, 0usize..6), 2..12);
    for_all(800, sets, |set| {
        // No two deadlines are equal: whole milliseconds less as many microseconds as the task's number.
        let dated = |n: i64, task: Task| Task { deadline: task.deadline.map(|d| d - Span::from_us(n)), ..task };
        let period = |n: usize, which: usize| [7, 11, 13, 17, 19, 23][which] + 24 * (n as i64 % 3);
        let all = set.into_iter().enumerate().map(|(n, (runtime, which))| (n as i64, runtime, period(n, which)));
        let all: Vec<(i64, i64, i64)> = all.filter(|(_, runtime, period)| runtime <= period).collect();
        for spec in policies().into_iter().filter(|spec| spec.is_underload_edf(false)) {
            for cpus in 1..=if spec.is_underload_edf(true) { 2 } else { 1 } {
                let mut load = 0;
                let mut fits = |(_, runtime, period): &(i64, i64, i64)| {
                    load += runtime * 1_000_000 / period + 1;
                    load <= cpus * 1_000_000
                };
                let tasks =
                    all.iter().take_while(|t| fits(t)).map(|&(n, c, t)| dated(n, late(task(c, t), n))).collect();
                let described = system(spec, cpus as usize, tasks);
                let same = PolicySpec::new(&edf::ENTRY.profile, spec.scope);
                let (expected, counts) = run(System { policy: same, ..described.clone() }, 400);
                if counts.missed == 0 {
                    prop_assert_eq!(starts(&run(described, 400).0), starts(&expected), "{:?}", spec);
                }
            }
        }
        Ok(())
    });
}

#[test]
fn optimal_policies_meet_all_deadlines_of_full_machines() {
    let sets = prop::collection::vec((1i64..10, 0usize..3), 3..8);
    for_all(100, sets, |set| {
        let mut left = 2 * 60;
        let mut tasks = Vec::new();
        for (part, period) in set {
            let period = [10, 12, 20][period];
            let runtime = (period * part / 10).max(1).min(left * period / 60);
            if runtime > 0 {
                left -= runtime * 60 / period + i64::from(runtime * 60 % period > 0);
                tasks.push(task(runtime, period));
            }
        }
        for spec in policies().into_iter().filter(PolicySpec::is_optimal) {
            prop_assert_eq!(run(system(spec, 2, tasks.clone()), 240).1.missed, 0, "{:?}", spec);
        }
        Ok(())
    });
    // No other policy does: three tasks that each need two thirds of a CPU, and Dhall's two light ones beside a heavy one.
    let thirds = || vec![task(6, 9), task(6, 9), task(6, 9)];
    let dhall = || vec![task(2, 10), task(2, 10), task(10, 11)];
    // (By least laxity they are in time: that fails with more tasks.)
    let others = |spec: &PolicySpec| spec.scope == Scope::Global && spec.order() != Some(Order::Laxity);
    for spec in policies().into_iter().filter(others) {
        let missed: u64 = [thirds(), dhall()].map(|tasks| run(system(spec, 2, tasks), 990).1.missed).iter().sum();
        assert_eq!(spec.is_optimal(), missed == 0, "{spec:?}");
    }
}

#[test]
fn policies_that_ignore_locking_schedule_alike_under_every_protocol() {
    let holds = |runs: [i64; 3]| {
        let [before, within, after] = runs.map(|n| Step::Run(ms(n)));
        vec![before, Step::Lock(ResourceId(0)), within, Step::Unlock(ResourceId(0)), after]
    };
    for spec in policies() {
        let schedule = |locking| {
            let low = Task { program: Program::doing(holds([1, 6, 1])), priority: 1, ..task(8, 60) };
            let middle = Task { priority: 2, ..late(task(9, 40), 3) };
            let high = Task { program: Program::doing(holds([1, 1, 1])), priority: 3, ..late(task(3, 20), 2) };
            let described = system(spec, 1, vec![low, middle, high]);
            starts(&run(System { locking, resources: 1, ..described }, 60).0)
        };
        let alike = schedule(Locking::Fifo) == schedule(Locking::Inheritance);
        assert!(alike || !spec.ignores_locking(), "{spec:?}");
        // All policies with an order that preempt by rank are known to show it.
        let ranks = [Order::AbsoluteDeadline, Order::RelativeDeadline, Order::Period, Order::Priority];
        let shows = spec.preemptive_order().is_some_and(|order| ranks.contains(&order));
        assert!(!alike || !shows, "{spec:?}");
    }
}

#[test]
fn time_driven_policies_decide_between_releases_and_completions() {
    for spec in policies() {
        let cpus = if spec.scope == Scope::Global { 2 } else { 1 };
        let tasks = vec![task(7 * cpus, 21), task(7 * cpus, 21), task(6 * cpus, 21)];
        let (records, _) = run(system(spec, cpus as usize, tasks), 21 * 20);
        let at_event = |at: Time| {
            let is_event = |r: &Record| matches!(r.kind, RecordKind::Release { .. } | RecordKind::Finish { .. });
            records.iter().any(|r| r.at == at && is_event(r))
        };
        let between = starts(&records).iter().filter(|(at, _)| !at_event(*at)).count();
        assert!(between > 0 || !spec.is_time_driven(), "{spec:?}");
        let on_events = spec.order().is_some_and(|order| order != Order::Turn && order != Order::Laxity);
        assert!(between == 0 || !on_events, "{spec:?}: {between} decisions");
    }
}

#[test]
fn policies_that_give_shares_notice_shares() {
    for spec in policies() {
        let received = |shares: [u32; 2]| {
            let tasks = shares.map(|share| Task { share: Some(share), ..task(400, 1000) });
            starts(&run(system(spec, 1, tasks.to_vec()), 1000).0)
        };
        let notices = received([200_000, 700_000]) != received([700_000, 200_000]);
        assert!(!notices || spec.gives_shares(), "{spec:?}");
        let open = spec.profile.settings.iter().any(|s| s.name == "feedback");
        assert!(notices || !spec.gives_shares() || open, "{spec:?}");
    }
}

#[test]
fn reservations_have_the_deadlines_that_are_stated() {
    for spec in policies() {
        let Some(stated) = spec.reservations() else { continue };
        let reservation = Reservation { budget: ms(2), period: ms(10), deadline: Some(ms(5)) };
        let tasks = vec![Task { reservation: Some(reservation), ..task(2, 10) }];
        let built = Engine::new(system(spec, 1, tasks));
        assert_eq!(stated.constrained, built.is_ok(), "{spec:?}: {:?}", built.err());
    }
}

#[test]
fn hard_servers_wait_and_others_do_not() {
    for spec in policies() {
        let Some(stated) = spec.reservations() else { continue };
        let reservation = Reservation { budget: ms(2), period: ms(10), deadline: None };
        let tasks = vec![Task {
            reservation: Some(reservation),
            program: Program::needing(Execution::Declared),
            ..task(5, 50)
        }];
        let (records, _) = run(system(spec, 1, tasks), 50);
        let end = ends(&records, TaskId(0))[0];
        let waits = end > Time::ZERO + ms(5);
        // One server alone has all that it reclaims.
        assert_eq!(spec.holds(stated.hard) && !stated.reclaimed, waits, "{spec:?}: {end}");
    }
}

#[test]
fn budgets_are_used_back_to_back_where_that_is_stated() {
    for spec in policies() {
        let Some(stated) = spec.servers() else { continue };
        let reservation = Reservation { budget: ms(2), period: ms(10), deadline: None };
        let served = Task {
            arrival: Arrival::Listed { instants: vec![ms(8)] },
            deadline: None,
            runtime: Some(ms(4)),
            reservation: Some(reservation),
            priority: 5,
            ..Task::default()
        };
        // The rest of the CPU is taken, so that nothing is left for the background.
        let (records, _) = run(system(spec, 1, vec![served, task(70, 100)]), 90);
        let end = ends(&records, TaskId(0))[0];
        assert_eq!(stated.back_to_back, end <= Time::ZERO + ms(12), "{spec:?}: {end}");
    }
}

#[test]
fn servers_go_on_in_the_background_where_that_is_stated() {
    for spec in policies() {
        let Some(stated) = spec.servers() else { continue };
        let reservation = Reservation { budget: ms(2), period: ms(20), deadline: None };
        let served = Task { reservation: Some(reservation), deadline: None, ..task(9, 100) };
        let (records, _) = run(system(spec, 1, vec![served]), 100);
        let end = ends(&records, TaskId(0)).first().copied();
        assert_eq!(spec.holds(stated.background), end == Some(Time::ZERO + ms(9)), "{spec:?}: {end:?}");
        assert_eq!(spec.holds(stated.background), spec.is_work_conserving(), "{spec:?}");
    }
}
