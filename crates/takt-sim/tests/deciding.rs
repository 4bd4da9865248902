//! How the CPUs of a ready queue come to a decision: the two models of global scheduling of ChronOS (Dellinger, Garyali,
//! Ravindran, DAC 2011, section 5.2), what they cost and what is counted. Schedules by hand, exact to the nanosecond.

mod story;

use proptest::prelude::*;
use story::*;
use takt_core::cpus::CpuSet;
use takt_core::input::Input;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::scenario::{Costs, Deciding, Scenario};
use takt_core::time::Span;

/// A run of the scheduler takes 2 and its lock 3, so that a call takes 5; an interrupt takes 7.
const COSTS: Costs = Costs {
    context_switch: Span::ZERO,
    migration: Span::ZERO,
    cache_reload: Span::ZERO,
    scheduler: Span::from_ns(2),
    scheduler_task: Span::ZERO,
    lock: Span::from_ns(3),
    interrupt: Span::from_ns(7),
};

fn scenario(costs: Costs, deciding: Deciding) -> Scenario {
    Scenario { costs, deciding, ..Scenario::default() }
}

/// Runs of the scheduler, interrupts, blocked entries.
fn counted(told: &Story) -> (u64, u64, u64) {
    (told.report.scheduler_runs, told.report.interrupts, told.report.blocked_entries)
}

/// Job c comes on CPU 0, where it has never run, and takes CPU 1 from b. What is counted, and how many calls and interrupts are
/// charged.
fn three(deciding: Deciding, expected: &str, counts: (u64, u64, u64), calls: i64, interrupts: i64) {
    let described = system(2, "g-fp", vec![plain(0, 3, 25), plain(0, 2, 40), plain(12, 4, 7)]);
    let told = tell(described, &scenario(COSTS, deciding), 200);
    expect(&told, expected);
    assert_eq!(counted(&told), counts);
    let (scheduler, lock, interrupt) = (ns(calls * 2), ns(calls * 3), ns(interrupts * 7));
    assert_eq!(told.report.charged, Costs { scheduler, lock, interrupt, ..Costs::default() });
}

#[test]
fn one_cpu_decides_for_all() {
    // a pays a call at 0 and at 12, and an interrupt and a call when c completes on CPU 1; b an interrupt and a call at 0, a
    // call at 31, and an interrupt and a call when a completes.
    let expected = "0 start a 0, start b 1
        12 preempted b, start c 1
        31 complete c, start b 1
        47 complete a
        88 complete b";
    three(Deciding::StopTheWorld, expected, (5, 4, 4), 7, 4);
}

#[test]
fn each_cpu_decides_for_itself() {
    // Only CPU 1 waits for c to complete.
    let expected = "0 start a 0, start b 1
        12 preempted b, start c 1
        31 complete c, start b 1
        35 complete a
        76 complete b";
    three(Deciding::Concurrent, expected, (7, 2, 0), 5, 2);
}

/// Two jobs complete at one instant. If one CPU decides, the other comes by itself and waits for it; if each does, the second
/// one has the scheduler after the first.
#[test]
fn two_cpus_at_one_instant() {
    let described = || system(2, "g-fp", vec![plain(0, 4, 10), plain(0, 3, 10), plain(0, 2, 9), plain(0, 1, 9)]);
    let lock = Costs { lock: ns(3), ..Costs::default() };
    let told = tell(described(), &scenario(lock, Deciding::StopTheWorld), 100);
    expect(
        &told,
        "0 start a 0, start b 1
        13 complete a, complete b, start c 0, start d 1
        25 complete c, complete d",
    );
    assert_eq!(counted(&told), (3, 1, 3));
    let told = tell(described(), &scenario(lock, Deciding::Concurrent), 100);
    expect(
        &told,
        "0 start a 0, start b 1
        13 complete a, complete b, start c 0, start d 1
        25 complete c
        28 complete d",
    );
    assert_eq!(counted(&told), (6, 1, 1));
}

/// CPUs that have nothing to do before and after are left alone.
#[test]
fn idle_cpus_are_not_interrupted() {
    let tasks = vec![plain(0, 2, 30), plain(0, 1, 20), plain(5, 1, 5)];
    let told = tell(system(8, "g-fp", tasks), &scenario(Costs::default(), Deciding::StopTheWorld), 100);
    // At 0 CPU 1, at 5 the CPUs 1 and 2, at 10 when c completes 0 and 1, at 20 CPU 0, at 30 none.
    assert_eq!(counted(&told), (5, 6, 6));
    let tasks = vec![plain(0, 2, 30), plain(0, 1, 20), plain(5, 1, 5)];
    let told = tell(system(8, "g-fp", tasks), &scenario(Costs::default(), Deciding::Concurrent), 100);
    // CPU 1 at 0 and CPU 2 at 5.
    assert_eq!(counted(&told), (7, 2, 0));
}

/// A task comes back where it ran last: its release at 20 happens on CPU 1.
#[test]
fn a_release_happens_where_its_task_ran_last() {
    let tasks =
        vec![plain(0, 2, 30), Task { arrival: Arrival::Listed { instants: vec![ns(0), ns(20)] }, ..plain(0, 1, 5) }];
    let interrupt = Costs { interrupt: ns(7), ..Costs::default() };
    let told = tell(system(2, "g-fp", tasks), &scenario(interrupt, Deciding::Concurrent), 100);
    // b is interrupted at 0, but not at 20.
    expect(
        &told,
        "0 start a 0, start b 1
        12 complete b
        20 start b 1
        25 complete b
        30 complete a",
    );
    assert_eq!(counted(&told), (6, 1, 0));
}

/// Under a partitioned policy each CPU has a scheduler of its own, without a lock, and no CPU is interrupted.
#[test]
fn partitioned_cpus_mind_their_own_business() {
    let on = |cpu: usize, task: Task| Task { affinity: CpuSet::single(cpu), ..task };
    let tasks = || vec![on(0, plain(0, 2, 20)), on(1, plain(0, 2, 20)), on(1, plain(5, 1, 5))];
    for deciding in [Deciding::StopTheWorld, Deciding::Concurrent] {
        let told = tell(system(2, "p-fp", tasks()), &scenario(COSTS, deciding), 100);
        // b pays 2 at 0 and 2 when c comes, on its CPU.
        expect(
            &told,
            "0 start a 0, start b 1
            22 complete a
            24 complete b, start c 1
            31 complete c",
        );
        assert_eq!(counted(&told), (6, 0, 0));
        assert_eq!((told.report.charged.lock, told.report.charged.interrupt), (Span::ZERO, Span::ZERO));
    }
}

/// A cluster minds its own business, too.
#[test]
fn a_cluster_is_interrupted_as_a_whole() {
    let on = |cpus: &[usize], task: Task| Task { affinity: cpus.iter().copied().collect(), ..task };
    let tasks = vec![on(&[0, 1], plain(0, 2, 50)), on(&[0, 1], plain(0, 2, 60)), on(&[2, 3], plain(10, 2, 10))];
    let told = tell(system(4, "c-fp", tasks), &scenario(COSTS, Deciding::StopTheWorld), 100);
    // c starts on CPU 2, its first one, and is alone there. b is interrupted at 0 and when a completes.
    expect(
        &told,
        "0 start a 0, start b 1
        10 start c 2
        25 complete c
        55 complete a
        84 complete b",
    );
    assert_eq!(counted(&told), (5, 2, 2));
}

/// Domains have schedulers of their own, and a switched policy decides in its own way from then on.
#[test]
fn domains_and_switches() {
    let (name, whole) = (|name| PolicySpec::from_name(name).unwrap(), CpuSet::first(3));
    let domain = |cpus: &[usize], tasks: &[u32], policy| Domain {
        band: 0,
        cpus: cpus.iter().copied().collect(),
        tasks: tasks.iter().map(|t| TaskId(*t)).collect(),
        policy: name(policy),
    };
    let periodic = |offset, period, runtime| Task {
        arrival: Arrival::Periodic { offset: ns(offset), period: ns(period) },
        deadline: Some(ns(period)),
        runtime: Some(ns(runtime)),
        ..Task::default()
    };
    let described = System {
        tasks: vec![periodic(0, 10, 2), periodic(0, 50, 20), periodic(1, 50, 20)],
        domains: vec![domain(&[0], &[0], "edf"), domain(&[1, 2], &[1, 2], "g-edf")],
        alternatives: vec![name("p-edf")],
        ..System::new(whole, name("domains"))
    };
    let still = tell(described.clone(), &scenario(Costs::default(), Deciding::StopTheWorld), 100);
    // Task a runs the scheduler of CPU 0 twice a period. In the other domain the release of c and the completion of b each find
    // the other CPU busy or make it so; the release of b and the completion of c do not.
    assert_eq!(counted(&still), (20 + 8, 4, 4));
    let changes = vec![(at(45), Input::Switch { domain: Some(1), to: 0 })];
    let switched = tell(described, &Scenario { changes, ..Scenario::default() }, 100);
    assert_eq!((switched.report.interrupts, switched.report.blocked_entries), (2, 2));
}

/// A policy that is switched as a whole changes which CPUs have a queue in common.
#[test]
fn a_switch_to_partitions_ends_the_interrupts() {
    let p_fp = PolicySpec::from_name("p-fp").unwrap();
    let again = |release| Arrival::Listed { instants: vec![ns(0), ns(release)] };
    let tasks = vec![
        Task { arrival: again(100), affinity: CpuSet::single(0), ..plain(0, 2, 10) },
        Task { arrival: again(101), affinity: CpuSet::single(1), ..plain(0, 1, 20) },
    ];
    let described = System { alternatives: vec![p_fp], ..system(2, "g-fp", tasks) };
    let changes = vec![(at(50), Input::Switch { domain: None, to: 0 })];
    let told = tell(described.clone(), &Scenario { changes, costs: COSTS, ..Scenario::default() }, 200);
    // Before it b is interrupted at 0 and when a completes; after it each pays for its own scheduler.
    expect(
        &told,
        "0 start a 0, start b 1
        15 complete a
        44 complete b
        50 switch to 0
        100 start a 0
        101 start b 1
        112 complete a
        123 complete b",
    );
    assert_eq!(counted(&told), (3 + 1 + 4, 2, 2));
    let told = tell(described, &scenario(COSTS, Deciding::StopTheWorld), 200);
    assert_eq!(counted(&told), (7, 4, 4));
}

/// Each CPU goes by its own copy of a window table: what happens in one slice costs the other one nothing.
#[test]
fn slices_of_a_table_do_not_disturb_each_other() {
    let process = |runtime| Task { budget: Some(ns(80)), runtime: Some(ns(runtime)), ..Task::default() };
    let partition = |tasks: &[u32]| Partition { tasks: tasks.iter().map(|t| TaskId(*t)).collect(), policy: None };
    let slice = |cpus: &[usize], partition| Slice {
        cpus: cpus.iter().copied().collect(),
        sc: Some(PartitionId(partition)),
        be: None,
    };
    let described = System {
        tasks: vec![process(10), process(20), process(60)],
        partitions: vec![partition(&[0, 1]), partition(&[2])],
        windows: vec![Window { length: ns(100), slices: vec![slice(&[0], 0), slice(&[1, 2], 1)] }],
        ..System::new(CpuSet::first(3), PolicySpec::from_name("windows").unwrap())
    };
    let told = tell(described, &scenario(COSTS, Deciding::StopTheWorld), 99);
    let lines: Vec<&str> = told.lines.lines().filter(|l| !l.contains("Window")).collect();
    // Every process pays for the run of the scheduler that starts it, c on two CPUs as one.
    let expected = ["0 start a 0", "0 start c 3", "12 complete a", "12 start b 0", "34 complete b", "62 complete c"];
    assert_eq!(lines, expected, "{}", told.lines);
    assert_eq!((told.report.interrupts, told.report.blocked_entries), (0, 0));
    assert_eq!(told.report.charged, Costs { scheduler: ns(3 * 2), ..Costs::default() });
}

/// Where nothing costs anything the models differ in what is counted alone, and that as they are defined.
#[test]
fn without_costs_the_models_decide_the_same() {
    takt_testing::for_all(
        300,
        (
            prop::collection::vec(simple_task(), 1..8),
            1usize..6,
            prop::sample::select(vec!["g-fp", "g-edf", "g-np-edf", "p-edf", "c-edf", "g-rr", "g-llf"]),
        ),
        |(tasks, cpus, policy)| {
            let described = System { late: Late::Abort, ..system(cpus, policy, tasks) };
            let one = tell(described.clone(), &scenario(Costs::default(), Deciding::StopTheWorld), 400);
            let each = tell(described, &scenario(Costs::default(), Deciding::Concurrent), 400);
            prop_assert_eq!(&one.records, &each.records);
            prop_assert_eq!(one.report.steps, each.report.steps);
            let (one, each, steps) = (counted(&one), counted(&each), one.report.steps);
            // Each CPU that is interrupted or waits in the one model runs a scheduler of its own in the other.
            prop_assert_eq!(each.0, one.0 + each.1 + each.2);
            prop_assert_eq!(one.2, one.1 + each.2);
            prop_assert!(each.1 <= one.1);
            // Each step is about one queue at least, and about the only one where there is one.
            let queues = match policy {
                "p-edf" => cpus,
                "c-edf" => cpus.div_ceil(2),
                _ => 1,
            };
            prop_assert!(one.0 >= steps && one.0 <= steps * queues as u64);
            prop_assert!(one.1 <= one.0 * (cpus - 1) as u64);
            if queues == cpus {
                prop_assert_eq!((one.1, one.2), (0, 0));
            }
            Ok(())
        },
    );
}
