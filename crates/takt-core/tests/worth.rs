//! Utilities and demands of jobs over time, and the jobs that are counted, each in an example by hand. All times are nanoseconds.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Command, Engine, Input};
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};
use takt_core::utility::{UNIT, Utility};

const A: TaskId = TaskId(0);

fn ns(ns: i64) -> Span {
    Span::from_ns(ns)
}

fn at(ns: i64) -> Time {
    Time::from_ns(ns)
}

/// One job every 10, due after 10.
fn task(utility: Option<Utility>) -> Task {
    let arrival = Arrival::Periodic { offset: ns(0), period: ns(10) };
    Task { arrival, deadline: Some(ns(10)), runtime: Some(ns(4)), utility, ..Task::default() }
}

fn system(tasks: Vec<Task>) -> System {
    let policy = PolicySpec::from_name("edf").expect("edf");
    System { tasks, ..System::new(CpuSet::first(1), policy) }
}

/// Lets jobs of the first task complete at these instants, and ends the run at `end`.
fn completing(system: System, instants: &[i64], end: i64) -> Counts {
    let mut engine = Engine::new(system).expect("a sound system");
    let mut done = instants.iter().map(|i| at(*i)).peekable();
    loop {
        let due = engine.next_due().unwrap_or(Time::MAX);
        let now = done.peek().map_or(due, |d| due.min(*d));
        if now >= at(end) {
            break;
        }
        let completes = done.next_if_eq(&now).map(|_| Input::Complete { task: A, job: engine.at(A).unwrap_or(0) });
        let _ = engine.step(now, completes.as_slice(), &mut ());
    }
    engine.close(at(end), &[], &mut ());
    engine.counts(A)
}

#[test]
fn a_job_accrues_what_its_completion_is_worth() {
    let accrued = |utility, instants: &[i64]| {
        let counts = completing(system(vec![task(utility)]), instants, 20);
        (counts.utility, counts.utility_total)
    };
    let unit = u128::from(UNIT);
    assert_eq!(accrued(None, &[4, 14]), (2 * unit, 2 * unit), "one for each job met");
    assert_eq!(accrued(Some(Utility::Step(7)), &[4, 20]), (7, 14), "the second is still at work");
    let line = Utility::Linear { height: 100, until: None };
    assert_eq!(accrued(Some(line), &[4, 19]), (60 + 10, 200));
    // The second job is late by 2 for its line of 30, and begins behind the first, from its planned release on.
    let long = Utility::Linear { height: 30, until: Some(ns(30)) };
    assert_eq!(accrued(Some(long), &[13, 19]), (17 + 21, 60));
    assert_eq!(accrued(Some(Utility::Step(7)), &[11, 19]), (7, 14), "a late job is worth nothing");
}

#[test]
fn only_jobs_due_by_the_horizon_are_counted() {
    let counts = |horizon: Option<i64>, instants: &[i64]| {
        let system = System { horizon: horizon.map(at), ..system(vec![task(Some(Utility::Step(5)))]) };
        let c = completing(system, instants, 35);
        (c.released, c.met, c.missed, c.utility, c.utility_total)
    };
    assert_eq!(counts(None, &[4, 14, 24, 34]), (4, 4, 0, 20, 20));
    assert_eq!(counts(Some(35), &[4, 14, 24, 34]), (3, 3, 0, 15, 15), "the fourth is due at 40");
    assert_eq!(counts(Some(30), &[12, 24, 34]), (3, 0, 3, 0, 15), "late, late, and after its deadline");
    assert_eq!(counts(Some(29), &[12, 24, 34]), (2, 0, 2, 0, 10));
}

#[test]
fn a_late_job_is_aborted_by_its_deadline_or_by_the_next_event() {
    let ends = |late| {
        let other = Task { arrival: Arrival::Listed { instants: vec![ns(13)] }, deadline: Some(ns(50)), ..task(None) };
        let system = System { late, backlog: Backlog::Skip, ..system(vec![task(None), other]) };
        let mut engine = Engine::new(system).expect("a sound system");
        let mut records = Vec::<Record>::new();
        while let Some(now) = engine.next_due().filter(|due| *due < at(25)) {
            let _ = engine.step(now, &[], &mut records);
        }
        let aborted = |r: &Record| matches!(r.kind, RecordKind::Finish { outcome: Outcome::Aborted, .. });
        records.iter().filter(|r| aborted(r)).map(|r| r.at.ns()).collect::<Vec<_>>()
    };
    assert_eq!(ends(Late::Continue), Vec::<i64>::new());
    assert_eq!(ends(Late::Abort), [10, 20]);
    // At 10 it is not late yet; the release at 13 of the other task notices, and so does the third release, at 20, in vain.
    assert_eq!(ends(Late::AbortAtEvent), [13]);
}

#[test]
fn declared_runtimes_follow_the_load() {
    let points = vec![(ns(0), 500_000), (ns(10), 1_500_000), (ns(10), 2_000_000), (ns(20), 1_000_000)];
    let factors = |load: &Load, instants: &[i64]| instants.iter().map(|i| load.factor(at(*i))).collect::<Vec<_>>();
    let mut load = Load { points, repeat: None };
    assert_eq!(
        factors(&load, &[0, 5, 9, 10, 15, 20, 99]),
        [500_000, 1_000_000, 1_400_000, 2_000_000, 1_500_000, 1_000_000, 1_000_000]
    );
    load.repeat = Some(ns(20));
    assert_eq!(factors(&load, &[20, 25, 39]), [500_000, 1_000_000, 1_100_000]);
    assert_eq!((scaled(ns(3), 500_000), scaled(ns(1), 1), scaled(ns(7), Load::ONE)), (ns(1), ns(1), ns(7)));
    // LLF sees it: the second task has less laxity only from the second job on.
    let llf = PolicySpec::from_name("llf").expect("llf");
    let steep = Load { points: vec![(ns(0), 1_000_000), (ns(10), 1_000_000), (ns(10), 2_000_000)], repeat: None };
    let tasks = vec![
        Task { runtime: Some(ns(5)), ..task(None) },
        Task { deadline: Some(ns(9)), runtime: Some(ns(3)), ..task(None) },
    ];
    let mut engine = Engine::new(System { load: Some(steep), policy: llf, ..system(tasks) }).expect("a sound system");
    let started = |commands: &[Command]| match commands {
        [.., Command::Start { task, .. } | Command::Continue { task, .. }] => task.0,
        other => panic!("{other:?}"),
    };
    assert_eq!(started(engine.step(at(0), &[], &mut ()).commands), 0, "laxities 5 and 6");
    let _ = engine.step(at(5), &[Input::Complete { task: A, job: 0 }], &mut ());
    let _ = engine.step(at(8), &[Input::Complete { task: TaskId(1), job: 0 }], &mut ());
    assert_eq!(started(engine.step(at(10), &[], &mut ()).commands), 0, "laxities 0 and 3");
    assert_eq!(engine.job(A).map(|job| job.number), Some(1));
}

#[test]
fn all_that_a_job_needs_is_scaled() {
    let handler = Some(Handler { runtime: ns(4), deadline: None, utility: 0 });
    let mut task = Task {
        program: Program::new(
            vec![Step::Run(ns(20)), Step::Sleep(ns(30)), Step::Run(ns(1))],
            Execution::Uniform { least: ns(10), most: ns(40) },
        ),
        handler,
        ..task(None)
    };
    task.scale(1_500_000);
    assert_eq!((task.runtime, task.handler), (Some(ns(6)), handler));
    assert_eq!(task.program.steps, [Step::Run(ns(30)), Step::Sleep(ns(30)), Step::Run(ns(1))]);
    assert_eq!(task.program.execution, Execution::Uniform { least: ns(15), most: ns(60) });
    let mut listed =
        Task { runtime: None, program: Program::needing(Execution::Series(vec![ns(8), ns(1)])), ..Task::default() };
    listed.scale(250_000);
    assert_eq!((listed.runtime, &listed.program.execution), (None, &Execution::Series(vec![ns(2), ns(1)])));
}

#[test]
fn utilities_loads_and_domains_are_checked() {
    let refused = |system: System| Engine::new(system).map(|_| ()).expect_err("refused");
    let with = |utility| system(vec![task(Some(utility))]);
    assert_eq!(refused(with(Utility::Step(u64::MAX))), Invalid::Utility(A));
    assert_eq!(refused(with(Utility::Exponential { height: 1, half_life: ns(0) })), Invalid::Utility(A));
    assert_eq!(refused(with(Utility::Table(vec![(ns(3), 1), (ns(2), 1)]))), Invalid::Utility(A));
    assert_eq!(refused(with(Utility::Table(vec![]))), Invalid::Utility(A));
    let load = |points: Vec<(Span, u32)>, repeat| {
        refused(System { load: Some(Load { points, repeat }), ..system(vec![task(None)]) })
    };
    assert_eq!(load(vec![], None), Invalid::Load);
    assert_eq!(load(vec![(ns(0), 0)], None), Invalid::Load);
    assert_eq!(load(vec![(ns(0), 1)], Some(ns(0))), Invalid::Load);
    let edf = PolicySpec::from_name("edf").expect("edf");
    let in_band = |band, cpus: &[usize], tasks: &[u32]| Domain {
        band,
        cpus: cpus.iter().copied().collect(),
        tasks: tasks.iter().map(|t| TaskId(*t)).collect(),
        policy: edf,
    };
    let domain = |cpus: &[usize], tasks: &[u32]| in_band(0, cpus, tasks);
    let domains = |domains| refused(System { domains, ..system(vec![task(None), task(None)]) });
    assert_eq!(domains(vec![domain(&[0], &[0])]), Invalid::Domains, "a task has none");
    assert_eq!(domains(vec![domain(&[0], &[0, 1, 1])]), Invalid::Domains);
    assert_eq!(domains(vec![domain(&[0, 1], &[0, 1])]), Invalid::Domains, "there is one CPU");
    assert_eq!(domains(vec![domain(&[0], &[0, 7])]), Invalid::Domains);
    let hosted = |domains| {
        let (policy, cpus) = (PolicySpec::from_name("domains").expect("domains"), CpuSet::first(2));
        Engine::new(System { domains, policy, cpus, ..system(vec![task(None), task(None)]) }).map(|_| ()).err()
    };
    let twice = vec![domain(&[0], &[0]), domain(&[0], &[1])];
    assert_eq!(hosted(twice), Some(Invalid::Domains), "one band twice");
    assert_eq!(
        hosted(vec![in_band(1, &[0], &[0]), domain(&[0, 1], &[1])]),
        Some(Invalid::Domains),
        "some CPUs in common"
    );
    assert_eq!(hosted(vec![in_band(1, &[0], &[0]), domain(&[0], &[1])]), None);
}

/// A budget whose end is noticed early lasts for half of it at least: a job that blocks before that is not out of it.
#[test]
fn a_blocked_job_keeps_the_rest_of_its_budget_however_early_its_end_is_noticed() {
    let limited = Task { budget: Some(ns(8)), ..task(None) };
    let mut engine = Engine::new(system(vec![limited])).expect("a sound system");
    let _ = engine.step(at(0), &[Input::Skew { task: A, by: ns(-100) }], &mut ());
    let _ = engine.step(at(2), &[Input::Block { task: A }], &mut ());
    assert_eq!(engine.budget_left(A), Some(ns(6)));
    let mut records = Vec::<Record>::new();
    while let Some(now) = engine.next_due().filter(|due| *due < at(9)) {
        let _ = engine.step(now, &[], &mut records);
    }
    assert_eq!(
        (records, engine.job(A).map(|job| job.number)),
        (vec![], Some(0)),
        "nothing happens while it is blocked"
    );
}
