//! The costs of a simulated machine: schedules by hand, exact to the nanosecond, and sums that must come out.

mod story;

use proptest::prelude::*;
use story::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::*;
use takt_core::model::{Placement, PolicySpec, Scope};
use takt_core::record::{Place, RecordKind};
use takt_core::registry::REGISTRY;
use takt_core::scenario::{Costs, Deciding, Scenario, Steal};
use takt_core::time::Span;
use takt_core::utility::Utility;
use takt_sim::{CpuTime, Report};

fn costs(costs: Costs) -> Scenario {
    Scenario { costs, ..Scenario::default() }
}

fn cpu(worked: i64, overhead: i64, stolen: i64, idle: i64) -> CpuTime {
    CpuTime { worked: ns(worked), overhead: ns(overhead), stolen: ns(stolen), idle: ns(idle) }
}

/// The first job of a CPU follows none; then every change of the running task costs, with an idle stretch in between or not.
#[test]
fn context_switches() {
    let tasks = vec![plain(5, 3, 10), plain(0, 2, 20), plain(100, 1, 5), plain(200, 1, 5)];
    let told = tell(system(1, "fp", tasks), &costs(Costs { context_switch: ns(3), ..Costs::default() }), 1000);
    expect(
        &told,
        "0 start b 0
        5 preempted b, start a 0
        18 complete a, start b 0
        36 complete b
        100 start c 0
        108 complete c
        200 start d 0
        208 complete d",
    );
    assert_eq!(told.engine.context_switches(), 4);
    assert_eq!(told.report.charged.context_switch, ns(4 * 3));
    assert_eq!(told.report.cpus, [cpu(40, 12, 0, 948)]);
    assert_eq!((told.report.tasks[1].received, told.report.tasks[1].worked), (ns(23), ns(20)));
}

/// A task that comes back to its CPU, and one whose next job follows at once, is no change.
#[test]
fn the_same_task_again_is_no_context_switch() {
    let a = Task { arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(10) }, ..plain(0, 1, 10) };
    let told = tell(system(1, "fp", vec![a]), &costs(Costs { context_switch: ns(3), ..Costs::default() }), 100);
    assert_eq!((told.report.charged, told.report.cpus[0]), (Costs::default(), cpu(100, 0, 0, 0)));
}

/// Job b is preempted after 2 of the 6 that its own start costs: it pays the other 4 when it continues, and 6 for that.
#[test]
fn a_job_preempted_while_it_pays_pays_the_rest_once() {
    let told = tell(
        system(1, "fp", vec![plain(12, 3, 10), plain(10, 2, 20), plain(0, 1, 10)]),
        &costs(Costs { context_switch: ns(6), ..Costs::default() }),
        100,
    );
    expect(
        &told,
        "0 start c 0
        10 complete c, start b 0
        12 preempted b, start a 0
        28 complete a, start b 0
        58 complete b",
    );
    assert_eq!((told.report.charged.context_switch, told.report.cpus[0].overhead), (ns(18), ns(18)));
}

/// A budget of 10 and a switch of 3: what the job pays counts against its budget, or does not if the machine has a meter.
#[test]
fn costs_beside_consumption_use_up_no_budget() {
    let limited = Task { budget: Some(ns(10)), ..plain(0, 1, 15) };
    let scenario = |metered| Scenario { metered, ..costs(Costs { context_switch: ns(3), ..Costs::default() }) };
    let tasks = vec![limited, plain(0, 2, 4)];
    let told = |metered| tell(system(1, "fp", tasks.clone()), &scenario(metered), 100);
    // Task b begins without a switch, is done at 4, and the switch to a lasts until 7.
    let (consumed, beside) = (told(false), told(true));
    expect(
        &consumed,
        "0 start b 0
        4 complete b, start a 0
        14 aborted a",
    );
    expect(
        &beside,
        "0 start b 0
        4 complete b, start a 0
        17 aborted a",
    );
    assert_eq!((consumed.report.tasks[0].worked, beside.report.tasks[0].worked), (ns(7), ns(10)));
    assert_eq!(consumed.report.steps, beside.report.steps, "a budget's end is one step");
}

/// As before, with a preemption in the middle of what is paid, and steps of others before the budget ends.
#[test]
fn a_meter_reads_what_jobs_have_done_when_they_are_preempted() {
    let limited = Task { budget: Some(ns(10)), ..plain(0, 1, 30) };
    let short = |at| plain(at, 2, 2);
    let tasks = vec![limited, short(0), short(3), short(20)];
    let scenario = Scenario { metered: true, ..costs(Costs { context_switch: ns(3), ..Costs::default() }) };
    let told = tell(system(1, "fp", tasks), &scenario, 100);
    // Task a pays 1 of 3, then 2 and another 3 from 8 on, works from 13 to 20, and again from 28 on.
    expect(
        &told,
        "0 start b 0
        2 complete b, start a 0
        3 preempted a, start c 0
        8 complete c, start a 0
        20 preempted a, start d 0
        25 complete d, start a 0
        31 aborted a",
    );
    assert_eq!(told.report.tasks[0].worked, ns(10));
}

/// A run that ends when a budget would have ended with the costs: the job has 3 left, and is not aborted.
#[test]
fn a_meter_is_read_at_the_end_of_a_run() {
    let limited = Task { budget: Some(ns(10)), ..plain(0, 1, 15) };
    let scenario = Scenario { metered: true, ..costs(Costs { context_switch: ns(3), ..Costs::default() }) };
    let told = tell(system(1, "fp", vec![limited, plain(0, 2, 4)]), &scenario, 14);
    expect(
        &told,
        "0 start b 0
        4 complete b, start a 0
        14 suspended a",
    );
    assert_eq!(told.engine.budget_left(TaskId(0)), Some(ns(3)));
    // A job that completes with the run has consumed its work.
    let limited = Task { budget: Some(ns(10)), ..plain(0, 1, 7) };
    let told = tell(system(1, "fp", vec![limited, plain(0, 2, 4)]), &scenario, 14);
    let consumed = told.records.iter().find_map(|record| match record.kind {
        RecordKind::Finish { task: TaskId(0), consumed, .. } => Some(consumed.nominal_time()),
        _ => None,
    });
    assert_eq!(consumed, Some(ns(7)));
}

/// Caches are cold after another one ran, not after a sleep.
#[test]
fn cache_reload() {
    let a = once(10, 2, &[run(5), sleep(10), run(5)]);
    let told =
        tell(system(1, "fp", vec![a, plain(0, 1, 40)]), &costs(Costs { cache_reload: ns(4), ..Costs::default() }), 100);
    expect(
        &told,
        "0 start b 0
        10 preempted b, start a 0
        15 block a, blocked a, start b 0
        25 wake a, preempted b, start a 0
        30 complete a, start b 0
        58 complete b",
    );
    assert_eq!(told.report.charged.cache_reload, ns(8));
}

#[test]
fn migration() {
    // c is preempted on the CPU that a takes, and continues where b has left.
    let tasks = vec![plain(5, 3, 30), plain(0, 2, 10), plain(0, 1, 20)];
    let told = tell(system(2, "g-fp", tasks), &costs(Costs { migration: ns(7), ..Costs::default() }), 100);
    expect(
        &told,
        "0 start b 0, start c 1
        5 preempted c, start a 1
        10 complete b, start c 0
        32 complete c
        35 complete a",
    );
    assert_eq!(told.report.charged.migration, ns(7));
    assert_eq!(told.report.cpus, [cpu(25, 7, 0, 68), cpu(35, 0, 0, 65)]);
}

/// A starting job waits for the scheduler; a release that changes nothing interrupts the running job; an idle CPU bears it for nothing.
#[test]
fn calls_of_the_scheduler() {
    let told = tell(
        system(1, "fp", vec![plain(10, 2, 10), plain(0, 1, 20), plain(15, 1, 10)]),
        &costs(Costs { scheduler: ns(2), ..Costs::default() }),
        100,
    );
    expect(
        &told,
        "0 start b 0
        10 preempted b, start a 0
        24 complete a, start b 0
        38 complete b, start c 0
        50 complete c",
    );
    // At 0, 10, 15, 24 and 38; the call at 50 leaves the CPU idle.
    assert_eq!((told.report.steps, told.report.charged.scheduler), (6, ns(10)));
}

/// On two CPUs a call that changes nothing is charged on both: one decides for all, and the other one waits.
#[test]
fn calls_of_the_scheduler_that_change_nothing() {
    let tasks = vec![plain(0, 4, 100), once(0, 3, &[run(10), Step::Yield, run(90)]), plain(50, 1, 100)];
    let told = tell(system(2, "g-fp", tasks), &costs(Costs { scheduler: ns(2), ..Costs::default() }), 108);
    expect(
        &told,
        "0 start a 0, start b 1
        12 yield b
        106 complete a, complete b, start c 0
        108 suspended c",
    );
    assert_eq!(told.report.tasks[2].worked, Span::ZERO);
}

/// Stolen time begins each period, at zero: progress is [3, 10), [13, 20) …
#[test]
fn stolen_time() {
    let scenario = Scenario { steal: Some(Steal { period: ns(10), length: ns(3) }), ..Scenario::default() };
    let told = tell(system(1, "fp", vec![plain(5, 2, 5), plain(0, 1, 10)]), &scenario, 50);
    expect(
        &told,
        "0 start b 0
        5 preempted b, start a 0
        10 complete a, start b 0
        24 complete b",
    );
    assert_eq!(told.report.cpus, [cpu(15, 0, 9, 26)]);
    assert_eq!((told.report.tasks[1].received, told.report.tasks[1].worked), (ns(19), ns(10)));
}

/// A budget counts what a job is charged, so one that is just enough for its work is not.
#[test]
fn budgets_run_on() {
    let a = Task { budget: Some(ns(10)), ..plain(5, 2, 10) };
    let told = tell(
        system(1, "fp", vec![a, plain(0, 1, 20)]),
        &costs(Costs { context_switch: ns(1), ..Costs::default() }),
        100,
    );
    expect(
        &told,
        "0 start b 0
        5 preempted b, start a 0
        15 aborted a, start b 0
        31 complete b",
    );
    assert_eq!(told.report.tasks[0].worked, ns(9));
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let cost = || prop_oneof![Just(Span::ZERO), (0i64..4).prop_map(ns)];
    let costs = (cost(), cost(), cost(), cost(), cost(), cost(), cost()).prop_map(
        |(context_switch, migration, cache_reload, scheduler, scheduler_task, lock, interrupt)| Costs {
            context_switch,
            migration,
            cache_reload,
            scheduler,
            scheduler_task,
            lock,
            interrupt,
        },
    );
    let deciding = prop::sample::select(vec![Deciding::StopTheWorld, Deciding::Concurrent]);
    let steal = prop::option::of((1i64..30, 0i64..30))
        .prop_map(|steal| steal.map(|(period, length)| Steal { period: ns(period), length: ns(length.min(period)) }));
    (costs, deciding, steal).prop_map(|(costs, deciding, steal)| Scenario {
        costs,
        deciding,
        steal,
        ..Scenario::default()
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1i64..9).prop_map(|n| vec![run(n)]),
        (1i64..9).prop_map(|n| vec![sleep(n)]),
        Just(vec![Step::Yield]),
        (0u16..4, 1i64..9).prop_map(|(r, n)| vec![Step::Lock(ResourceId(r)), run(n), Step::Unlock(ResourceId(r))]),
    ];
    prop::collection::vec(step, 0..6).prop_map(|steps| steps.concat())
}

prop_compose! {
    fn task()(
        period in 10i64..80, offset in 0i64..40, runtime in prop::option::of(1i64..20), steps in steps(),
        late in 5i64..90, priority in 0u32..4, budget in prop::option::of(5i64..40),
    ) -> Task {
        Task {
            arrival: Arrival::Periodic { offset: ns(offset), period: ns(period) },
            deadline: Some(ns(late)),
            runtime: runtime.map(ns),
            program: Program::doing(steps),
            priority,
            budget: budget.map(ns),
            ..Task::default()
        }
    }
}

fn sum(report: &Report, of: impl Fn(&CpuTime) -> Span) -> Span {
    report.cpus.iter().fold(Span::ZERO, |sum, cpu| sum + of(cpu))
}

/// Every nanosecond of every CPU is accounted, and what is charged is spent or cancelled by the end of a job.
#[test]
fn the_sums_come_out() {
    takt_testing::for_all(
        400,
        (
            prop::collection::vec(task(), 1..7),
            1usize..4,
            prop::sample::select(vec!["g-fp", "g-edf", "p-edf", "c-edf"]),
            scenario(),
            any::<bool>(),
            prop::sample::select(vec![Backlog::Queue, Backlog::Skip, Backlog::Chronos]),
        ),
        |(tasks, cpus, policy, scenario, abort, backlog)| {
            let late = if abort { Late::Abort } else { Late::Continue };
            let described = System { late, backlog, ..system(cpus, policy, tasks) };
            let told = tell(described.clone(), &scenario, 700);
            let report = &told.report;
            for cpu in &report.cpus {
                prop_assert_eq!(cpu.worked + cpu.overhead + cpu.stolen + cpu.idle, ns(700));
                prop_assert!(cpu.idle >= Span::ZERO && cpu.worked >= Span::ZERO && cpu.overhead >= Span::ZERO);
            }
            let received = report.tasks.iter().fold(Span::ZERO, |sum, task| sum + task.received);
            prop_assert_eq!(received, sum(report, |cpu| cpu.worked + cpu.overhead + cpu.stolen));
            let worked = report.tasks.iter().fold(Span::ZERO, |sum, task| sum + task.worked);
            prop_assert_eq!(worked, sum(report, |cpu| cpu.worked));
            let charged = &report.charged;
            let calls = charged.scheduler + charged.scheduler_task + charged.lock + charged.interrupt;
            let all = charged.context_switch + charged.migration + charged.cache_reload + calls;
            prop_assert!(sum(report, |cpu| cpu.overhead) <= all);
            prop_assert!(charged.interrupt <= scenario.costs.interrupt * report.interrupts as i64);
            if policy == "p-edf" || cpus == 1 {
                prop_assert_eq!((charged.lock, report.interrupts, report.blocked_entries), (Span::ZERO, 0, 0));
            }
            prop_assert_eq!(
                charged.context_switch,
                scenario.costs.context_switch * told.engine.context_switches() as i64
            );
            prop_assert_eq!(charged.migration, scenario.costs.migration * told.engine.totals().migrations as i64);
            // The same again is the same.
            let again = tell(described, &scenario, 700);
            prop_assert_eq!(&again.records, &told.records);
            prop_assert_eq!(&again.report, report);
            Ok(())
        },
    );
}
/// The schedule is that of a machine that goes nanosecond by nanosecond.
#[test]
fn the_schedule_is_that_of_a_simple_machine() {
    takt_testing::for_all(
        400,
        (
            prop::collection::vec(simple_task(), 1..6),
            1usize..4,
            prop::sample::select(vec!["g-fp", "g-edf"]),
            prop::option::of((1i64..30, 0i64..10)),
            prop::option::of((0i64..5, 0i64..5)),
        ),
        |(tasks, cpus, policy, steal, costs)| {
            const END: i64 = 400;
            let steal = steal.map(|(period, length)| Steal { period: ns(period), length: ns(length.min(period)) });
            let costs = costs.filter(|_| cpus == 1).map_or(Costs::default(), |(switch, reload)| Costs {
                context_switch: ns(switch),
                cache_reload: ns(reload),
                ..Costs::default()
            });
            let scenario = Scenario { costs, steal, ..Scenario::default() };
            let described = system(cpus, policy, tasks);
            let simple = reference::reference(&described, &scenario, END);
            let told = tell(described, &scenario, END);
            let recorded = reference::recorded(&told.records, END);
            let differ = (0..END as usize).find(|&t| simple.runs[t] != recorded.runs[t]);
            prop_assert_eq!(
                differ,
                None,
                "at that instant {:?} should run:\n{}",
                differ.map(|t| &simple.runs[t]),
                told.lines
            );
            let sorted = |mut completions: Vec<(i64, usize)>| {
                completions.sort_unstable();
                completions
            };
            prop_assert_eq!(sorted(recorded.completions), sorted(simple.completions));
            Ok(())
        },
    );
}

/// Three tasks for two CPUs that are packed otherwise by what is reserved than by what they need.
fn reserved() -> Vec<Task> {
    let task = |offset, runtime, budget| Task {
        arrival: Arrival::Periodic { offset: ns(offset), period: ns(1000) },
        deadline: Some(ns(1000)),
        runtime: Some(ns(runtime)),
        reservation: Some(Reservation::new(ns(budget), ns(1000))),
        utility: Some(Utility::DEFAULT),
        ..Task::default()
    };
    vec![task(0, 100, 900), task(0, 800, 100), task(20, 100, 100)]
}

/// By what is reserved, a is alone on CPU 0. By what they need, b would be, and the release of c would interrupt a.
#[test]
fn a_release_costs_the_cpu_that_its_policy_chose() {
    let placement = Placement::from_name("wf").unwrap();
    let policy = PolicySpec { placement, ..PolicySpec::from_name("p-cbs").unwrap() };
    let system = System { policy, ..system(2, "p-cbs", reserved()) };
    let told = tell(system, &costs(Costs { scheduler: ns(10), ..Costs::default() }), 200);
    // It pays for its own start, and c for that of its own on CPU 1.
    assert!(told.lines.contains("110 complete a\n"), "{}", told.lines);
    assert_eq!(told.engine.home(TaskId(2)), Some(Place(1)));
}

/// Where each policy with a queue for each CPU has a task before it runs is where it runs first.
#[test]
fn a_task_that_has_not_run_is_where_it_will() {
    let mut asked = 0;
    for entry in REGISTRY.iter().filter(|entry| entry.profile.scopes.contains(&Scope::Partitioned)) {
        for (rule, placement) in Placement::ALL {
            let policy = PolicySpec { placement, ..PolicySpec::new(&entry.profile, Scope::Partitioned) };
            for cpus in 1..=3 {
                let whole = System { policy, ..system(cpus, "g-edf", reserved()) };
                let domains = (0..cpus).map(|cpu| Domain {
                    band: 0,
                    cpus: CpuSet::single(cpu),
                    tasks: vec![TaskId(cpu as u32)],
                    policy,
                });
                let parts = System {
                    policy: PolicySpec::from_name("domains").unwrap(),
                    domains: domains.collect(),
                    tasks: reserved()[..cpus].to_vec(),
                    ..whole.clone()
                };
                for system in [whole, parts] {
                    let Ok(engine) = Engine::new(system.clone()) else { continue };
                    let tasks = (0..system.tasks.len() as u32).map(TaskId);
                    let homes: Vec<_> = tasks.map(|task| engine.home(task)).collect();
                    let told = tell(system, &Scenario::default(), 5000);
                    for (task, home) in (0..).map(TaskId).zip(homes) {
                        let first = told.records.iter().find_map(|record| match record.kind {
                            RecordKind::Start { task: t, place, .. } if t == task => Some(place),
                            _ => None,
                        });
                        assert!(home.is_some(), "{} {rule} {cpus}", entry.profile.name);
                        assert!(
                            first.is_none_or(|place| Some(place) == home),
                            "{} {rule} {cpus} {task:?}",
                            entry.profile.name
                        );
                        asked += usize::from(first.is_some());
                    }
                }
            }
        }
    }
    assert!(asked > 1000, "{asked}");
}
