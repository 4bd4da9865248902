//! CPUs of different speeds: a job needs work, and a CPU gives time.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, Invalid, Late, Program, Reservation, Step, System, Task, TaskId};
use takt_core::policy::Registry;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::scenario::{Costs, Scenario};
use takt_core::time::{Span, Time};
use takt_core::work::{Speed, Work};
use takt_sim::simulate;

fn us(n: i64) -> Span {
    Span::from_us(n)
}

fn speed(millionths: u32) -> Speed {
    Speed::from_millionths(millionths).expect("above zero")
}

fn periodic(period: i64, runtime: i64) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: us(period) },
        deadline: Some(us(period)),
        runtime: Some(us(runtime)),
        ..Task::default()
    }
}

fn system(policy: &str, speeds: &[u32], tasks: Vec<Task>) -> System {
    let policy = Registry::standard().spec(policy).expect("a policy of Takt");
    let speeds: Vec<Speed> = speeds.iter().map(|s| speed(*s)).collect();
    System { tasks, speeds: speeds.clone(), ..System::new(CpuSet::first(speeds.len()), policy) }
}

fn run(system: System, scenario: &Scenario, until: Span) -> (Engine, Vec<Record>, takt_sim::Report) {
    let mut engine = Engine::new(system).expect("a system that runs");
    let mut records: Vec<Record> = Vec::new();
    let report = simulate(&mut engine, scenario, until, &mut records, |_| ());
    (engine, records, report)
}

fn ends(records: &[Record]) -> Vec<(u32, Time, Outcome, Work)> {
    let end = |r: &Record| match r.kind {
        RecordKind::Finish { task, outcome, consumed, .. } => Some((task.0, r.at, outcome, consumed)),
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

fn at(n: i64) -> Time {
    Time::ZERO + us(n)
}

fn work(n: i64) -> Work {
    Work::nominal(us(n))
}

#[test]
fn a_slow_cpu_takes_longer_for_the_same_work() {
    let (engine, records, _) = run(system("edf", &[500_000], vec![periodic(20, 4)]), &Scenario::default(), us(35));
    let done = |n| (0, at(n), Outcome::Completed, work(4));
    assert_eq!(ends(&records), [done(8), done(28)]);
    assert_eq!(engine.counts(TaskId(0)).met, 2);
    // One that is twice as fast as nominal takes half of the time.
    let (_, records, _) = run(system("edf", &[2_000_000], vec![periodic(20, 4)]), &Scenario::default(), us(35));
    assert_eq!(ends(&records).iter().map(|end| end.1).collect::<Vec<_>>(), [at(2), at(22)]);
}

#[test]
fn a_budget_of_cpu_time_is_work_and_one_of_a_window_is_time() {
    let limited = Task { budget: Some(us(3)), ..periodic(20, 4) };
    let (_, records, _) = run(system("edf", &[500_000], vec![limited]), &Scenario::default(), us(15));
    assert_eq!(ends(&records), [(0, at(6), Outcome::Aborted, work(3))]);

    let served = Task { reservation: Some(Reservation::new(us(3), us(10))), deadline: None, ..periodic(40, 4) };
    let (_, records, _) = run(system("cbs", &[500_000], vec![served, periodic(100, 90)]), &Scenario::default(), us(60));
    let mine: Vec<_> = records
        .iter()
        .filter_map(|r| matches!(r.kind, RecordKind::Budget { task: TaskId(0), .. }).then_some(r.at))
        .collect();
    // Three of four are done after six; the rest has the deadline of the next period.
    assert!(mine.contains(&at(6)), "{mine:?}");

    let activated =
        Task { arrival: Arrival::Activated, deadline: None, runtime: None, budget: Some(us(3)), ..Task::default() };
    let slice =
        takt_core::model::Slice { cpus: CpuSet::first(1), sc: Some(takt_core::model::PartitionId(0)), be: None };
    let table = System {
        partitions: vec![takt_core::model::Partition { tasks: vec![TaskId(0)], policy: None }],
        windows: vec![takt_core::model::Window { length: us(10), slices: vec![slice] }],
        ..system("windows", &[500_000], vec![activated])
    };
    let (_, records, _) = run(table, &Scenario::default(), us(9));
    let stops: Vec<Time> = records.iter().filter(|r| matches!(r.kind, RecordKind::Stop { .. })).map(|r| r.at).collect();
    assert_eq!(stops.first(), Some(&at(3)));
}

#[test]
fn a_migrated_job_continues_at_the_other_speed() {
    // The short one has the fast CPU from 2 on: of the other job's 6 it has done 2 there, and does 4 at half speed until 10.
    let long = periodic(100, 6);
    let short = Task { arrival: Arrival::Listed { instants: vec![us(2)] }, deadline: Some(us(30)), ..periodic(1, 9) };
    let only = Task { affinity: CpuSet::single(0), ..short };
    let (_, records, _) = run(system("g-edf", &[1_000_000, 500_000], vec![long, only]), &Scenario::default(), us(50));
    let of_long = ends(&records).into_iter().find(|end| end.0 == 0);
    assert_eq!(of_long, Some((0, at(10), Outcome::Completed, work(6))));
}

#[test]
fn the_end_of_a_budget_is_noticed_late_once() {
    let limited = || Task { budget: Some(us(3)), ..periodic(20, 9) };
    for (millionths, ends_at) in [(500_000, 6_000), (1_000_000, 3_000), (2_000_000, 1_500)] {
        for by in [1, 700, -200] {
            let skew = Input::Skew { task: TaskId(0), by: Span::from_ns(by) };
            let scenario = Scenario { changes: vec![(Time::ZERO, skew)], ..Scenario::default() };
            let (_, records, report) = run(system("edf", &[millionths], vec![limited()]), &scenario, us(15));
            let end = ends(&records).first().map(|end| (end.1, end.2));
            assert_eq!(end, Some((Time::from_ns(ends_at + by), Outcome::Aborted)), "{millionths} {by}");
            assert!(report.steps < 10, "{}", report.steps);
        }
    }
}

#[test]
fn laxity_is_what_the_slow_cpu_leaves() {
    // At half speed both need all of 16 before their deadlines at 20 and 18: at nominal speed the first one had the smaller laxity.
    let a = Task { deadline: Some(us(20)), ..periodic(100, 5) };
    let b = Task { deadline: Some(us(18)), ..periodic(100, 3) };
    let (engine, ..) = run(system("edf", &[500_000], vec![a.clone(), b.clone()]), &Scenario::default(), us(50));
    assert_eq!(engine.totals().met, 2);
    let (engine, ..) = run(system("llf", &[500_000], vec![a, b]), &Scenario::default(), us(50));
    assert_eq!(engine.totals().met, 2);
}

#[test]
fn each_cpu_has_a_speed_or_none_has() {
    let wrong = System { cpus: CpuSet::first(2), ..system("g-edf", &[500_000], vec![periodic(10, 1)]) };
    assert_eq!(Engine::new(wrong).err(), Some(Invalid::Speeds));
}

/// On CPUs of half speed all takes twice as long: the schedule is that of the same jobs with twice the work, on nominal ones.
#[test]
fn half_the_speed_is_twice_the_work() {
    takt_testing::for_all(
        256,
        (
            prop::sample::select(vec!["edf", "fifo", "fp", "g-edf", "cbs", "g-fp"]),
            prop::collection::vec((20i64..90, 1i64..9, any::<bool>(), prop::option::of(1i64..9)), 1..6),
            0i64..3,
            any::<bool>(),
        ),
        |(policy, tasks, switch, aborts)| {
            let cpus = if policy.contains('-') { 2 } else { 1 };
            let of = |factor: i64| {
                let task = |&(period, runtime, sleeps, budget): &(i64, i64, bool, Option<i64>)| {
                    let half = Step::Run(us(runtime * factor));
                    let steps = if sleeps { vec![half, Step::Sleep(us(3)), half] } else { vec![] };
                    let budget = budget.map(|budget| us(budget * factor));
                    let reservation = (policy == "cbs").then(|| Reservation::new(us(factor), us(period)));
                    Task {
                        program: Program::doing(steps),
                        budget,
                        reservation,
                        ..periodic(period, 2 * runtime * factor)
                    }
                };
                let late = if aborts { Late::Abort } else { Late::Continue };
                let speeds = vec![if factor == 1 { 500_000 } else { 1_000_000 }; cpus];
                System { late, ..system(policy, &speeds, tasks.iter().map(task).collect()) }
            };
            // The costs of the machine are time.
            let costs = Costs { context_switch: us(switch), ..Costs::default() };
            let scenario = Scenario { costs, ..Scenario::default() };
            let (slow, slow_records, slow_report) = run(of(1), &scenario, us(400));
            let (plain, plain_records, plain_report) = run(of(2), &scenario, us(400));
            prop_assert_eq!(slow.totals(), plain.totals());
            prop_assert_eq!(slow_report.cpus, plain_report.cpus);
            let instants = |records: &[Record]| {
                let but_budgets = |r: &&Record| !matches!(r.kind, RecordKind::Budget { .. });
                records.iter().filter(but_budgets).map(|r| (r.at, core::mem::discriminant(&r.kind))).collect::<Vec<_>>()
            };
            prop_assert_eq!(instants(&slow_records), instants(&plain_records));
            let twice: Vec<_> =
                ends(&slow_records).into_iter().map(|(t, at, o, done)| (t, at, o, done + done)).collect();
            prop_assert_eq!(twice, ends(&plain_records));
            Ok(())
        },
    );
}

/// Odd speeds: no work is lost or made, and each job completes in the first nanosecond in which it can have.
#[test]
fn jobs_do_their_work_at_any_speed() {
    takt_testing::for_all(
        256,
        (prop::collection::vec(1_000u32..4_000_000, 1..4), prop::collection::vec((200i64..900, 1i64..90), 1..6)),
        |(speeds, tasks)| {
            let tasks: Vec<Task> = tasks.iter().map(|(period, runtime)| periodic(*period, *runtime)).collect();
            let (_, records, report) = run(system("g-edf", &speeds, tasks.clone()), &Scenario::default(), us(3_000));
            let mut moved = vec![0i64; tasks.len()];
            for record in &records {
                match record.kind {
                    RecordKind::Start { task, .. } => moved[task.index()] += 1,
                    RecordKind::Finish { task, outcome: Outcome::Completed, consumed, .. } => {
                        let declared = tasks[task.index()].runtime.expect("it was given").ns();
                        // Up to a nanosecond of time on each stretch on a CPU is not counted, and one more at the end.
                        let fast = i64::from(speeds.iter().max().expect("there is one") / 1_000_000 + 1);
                        let most = fast * (moved[task.index()] + 1);
                        let over = consumed.ns() - declared;
                        prop_assert!((-most..=most).contains(&over), "{task:?} did {consumed} of {declared}, {most}");
                        moved[task.index()] = 0;
                    }
                    _ => {}
                }
            }
            let held: Span = report.cpus.iter().fold(Span::ZERO, |sum, cpu| sum + cpu.worked + cpu.idle);
            prop_assert_eq!(held, us(3_000) * speeds.len() as i64);
            Ok(())
        },
    );
}
