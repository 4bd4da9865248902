//! Mode changes: periods, deadlines and runtimes that change, tasks that come and go.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Engine, Input};
use takt_core::model::{Arrival, Backlog, Late, PolicySpec, System, Task, TaskId, Timing};
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_core::work::Work;

const TASK: TaskId = TaskId(0);

fn ns(ns: i64) -> Span {
    Span::from_ns(ns)
}

fn engine(arrival: Arrival, backlog: Backlog) -> Engine {
    let task = Task { arrival, deadline: Some(ns(10)), runtime: Some(ns(3)), ..Task::default() };
    let edf = PolicySpec::from_name("edf").expect("edf");
    let system = System { tasks: vec![task], backlog, ..System::new(CpuSet::first(1), edf) };
    Engine::new(system).expect("a sound system")
}

const ENDED: Ending = Ending { regular: true, replaced: false };

/// Runs to `end`; each job that begins needs `need(job)`, and the inputs come at their instants.
fn run(engine: &mut Engine, end: i64, need: impl Fn(u64) -> i64, inputs: &[(i64, Input)]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut done: Option<i64> = None;
    loop {
        let due = engine.next_due().map(Time::ns);
        let last = engine.now().ns();
        let input = inputs.iter().map(|(at, _)| *at).find(|at| *at > last || records.is_empty() && *at == 0);
        let Some(now) = [due, done, input].into_iter().flatten().min().filter(|now| *now < end) else { break };
        let mut seen: Vec<Input> = Vec::new();
        let job = engine.at(TASK).unwrap_or(0);
        seen.extend((done == Some(now)).then_some(Input::Complete { task: TASK, job }));
        seen.extend(inputs.iter().filter(|(at, _)| *at == now).map(|(_, input)| *input));
        let before = records.len();
        let _ = engine.step(Time::from_ns(now), &seen, &mut records);
        if done == Some(now) {
            done = None;
        }
        for record in &records[before..] {
            match record.kind {
                RecordKind::Start { job, .. } => done = Some(now + need(job)),
                RecordKind::Finish { outcome: Outcome::Exited | Outcome::Aborted, .. } => done = None,
                _ => {}
            }
        }
    }
    engine.close(Time::from_ns(end), &[], &mut records);
    records
}

/// When jobs were released, and their deadlines.
fn releases(records: &[Record]) -> Vec<(i64, i64)> {
    let release = |r: &Record| match r.kind {
        RecordKind::Release { deadline, .. } => Some((r.at.ns(), deadline.map_or(-1, Time::ns))),
        _ => None,
    };
    records.iter().filter_map(release).collect()
}

/// The numbers of the jobs that were released.
fn numbers(records: &[Record]) -> Vec<u64> {
    let number = |r: &Record| match r.kind {
        RecordKind::Release { job, .. } => Some(job),
        _ => None,
    };
    records.iter().filter_map(number).collect()
}

fn retime(period: i64, runtime: i64) -> Input {
    Input::Retime { task: TASK, period: ns(period), deadline: Some(ns(period)), runtime: Some(ns(runtime)) }
}

#[test]
fn period_and_deadline_change_when_a_job_ends() {
    for arrival in [
        Arrival::Periodic { offset: ns(0), period: ns(10) },
        Arrival::Sporadic { offset: ns(0), period: ns(10), spread: ns(0) },
    ] {
        for backlog in [Backlog::Queue, Backlog::Skip, Backlog::Chronos, Backlog::Hartstone] {
            // During job 1, and after it: then job 2 still has the old period.
            for (at, expected) in [
                (12, vec![(0, 10), (10, 20), (20, 24), (24, 28), (28, 32)]),
                (15, vec![(0, 10), (10, 20), (20, 30), (30, 34), (34, 38)]),
            ] {
                let mut engine = engine(arrival.clone(), backlog);
                let records = run(&mut engine, expected[4].0 + 1, |_| 3, &[(at, retime(4, 2))]);
                assert_eq!(releases(&records), expected, "{arrival:?} {backlog:?} {at}");
                assert_eq!(engine.system().tasks[0].runtime, Some(ns(2)));
            }
        }
    }
}

#[test]
fn a_mode_change_waits_for_jobs_that_were_released_before_it() {
    // Job 0 runs until 23; jobs 1 and 2 wait at the change, and the new period begins when they are through.
    let arrival = Arrival::Periodic { offset: ns(0), period: ns(10) };
    let mut engine = engine(arrival, Backlog::Queue);
    let records = run(&mut engine, 50, |job| if job == 0 { 23 } else { 3 }, &[(21, retime(4, 3))]);
    assert_eq!(releases(&records), [(0, 10), (10, 20), (20, 30), (30, 34), (34, 38), (38, 42), (42, 46), (46, 50)]);
    // Jobs 0 and 1 were late, job 2 was in time at 29.
    assert_eq!(engine.counts(TASK).missed, 2);
}

#[test]
fn a_mode_change_keeps_the_numbers_of_skipped_jobs() {
    // Job 0 runs until 33, and jobs 1 to 3 are skipped; job 4 comes when it was planned.
    let arrival = Arrival::Periodic { offset: ns(0), period: ns(10) };
    let mut engine = engine(arrival, Backlog::Skip);
    let records = run(&mut engine, 50, |job| if job == 0 { 33 } else { 3 }, &[(21, retime(4, 3))]);
    assert_eq!(releases(&records), [(0, 10), (10, 20), (20, 30), (30, 40), (40, 44), (44, 48), (48, 52)]);
    assert_eq!(numbers(&records), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!((engine.counts(TASK).missed, engine.counts(TASK).met), (4, 2));
}

#[test]
fn a_release_at_a_mode_change_is_reported() {
    // By a clock of 10 ns, the deadline of job 0 and the release of job 1 at 9 are both noticed at 10, the deadline first.
    for backlog in [Backlog::Queue, Backlog::Skip, Backlog::Chronos, Backlog::Hartstone] {
        let arrival = Arrival::Periodic { offset: ns(0), period: ns(9) };
        let task = Task { arrival, deadline: Some(ns(9)), runtime: Some(ns(3)), ..Task::default() };
        let edf = PolicySpec::from_name("edf").expect("edf");
        let timing = Timing { tick: ns(10), ..Timing::default() };
        let system = System::new(CpuSet::first(1), edf);
        let system = System { tasks: vec![task], backlog, late: Late::Abort, timing, ..system };
        let mut engine = Engine::new(system).expect("a sound system");
        let records = run(&mut engine, 40, |job| if job == 0 { 99 } else { 3 }, &[(5, retime(12, 3))]);
        // The old period ends at 9, and the new ones at 21 and 33.
        let deadlines: Vec<i64> = releases(&records).iter().map(|r| r.1).collect();
        assert_eq!((numbers(&records), deadlines), (vec![0, 1, 2], vec![9, 21, 33]), "{backlog:?}");
        let counts = engine.counts(TASK);
        assert_eq!((counts.released, counts.met, counts.missed), (3, 2, 1), "{backlog:?}");
    }
}

#[test]
fn by_hartstones_rule_a_late_job_is_followed_by_that_of_the_present_period() {
    let arrival = || Arrival::Periodic { offset: ns(0), period: ns(10) };
    let late = |late: u64, need: i64| move |job: u64| if job == late { need } else { 3 };
    // Job 0 ends at 23: it is missed, job 1 never ran, job 2 is next.
    let mut hartstone = engine(arrival(), Backlog::Hartstone);
    let records = run(&mut hartstone, 40, late(0, 23), &[]);
    assert_eq!(releases(&records), [(0, 10), (23, 20), (23, 30), (30, 40)]);
    assert_eq!((hartstone.counts(TASK).missed, hartstone.counts(TASK).met), (2, 2));
    // One that ends with a period belongs to it: job 1 is next, and late already.
    let mut hartstone = engine(arrival(), Backlog::Hartstone);
    let records = run(&mut hartstone, 40, late(0, 20), &[]);
    assert_eq!(releases(&records), [(0, 10), (20, 20), (23, 30), (30, 40)]);
    assert_eq!((hartstone.counts(TASK).missed, hartstone.counts(TASK).met), (2, 2));
    // A new period counts from the end of the job's own: 10, 14, 18 and 22 have passed at 23.
    let mut hartstone = engine(arrival(), Backlog::Hartstone);
    let records = run(&mut hartstone, 33, late(0, 23), &[(21, retime(4, 3))]);
    assert_eq!(releases(&records), [(0, 10), (23, 14), (23, 18), (23, 22), (23, 26), (26, 30), (30, 34)]);
    assert_eq!(hartstone.counts(TASK).missed, 4);
}

#[test]
fn a_task_comes_and_goes() {
    let task = TASK;
    let periodic = Arrival::Periodic { offset: ns(5), period: ns(10) };
    let mut engine = engine(periodic, Backlog::Queue);
    let inputs = [
        (0, Input::Exit { task, ending: ENDED }),
        (12, Input::Enter { task }),
        (38, Input::Exit { task, ending: ENDED }),
    ];
    let records = run(&mut engine, 60, |_| 3, &inputs);
    assert_eq!(releases(&records), [(17, 27), (27, 37), (37, 47)]);
    assert!(engine.all_gone());

    let instants = [1, 11, 21, 31, 41].map(ns).to_vec();
    let mut engine = self::engine(Arrival::Listed { instants }, Backlog::Queue);
    let records = run(&mut engine, 60, |_| 3, &[(0, Input::Exit { task, ending: ENDED }), (21, Input::Enter { task })]);
    assert_eq!(releases(&records), [(21, 31), (31, 41), (41, 51)]);
    // A job that a late one has called in by ChronOS's rule does not run again at its instant.
    let instants = [1, 30, 50].map(ns).to_vec();
    let mut engine = self::engine(Arrival::Listed { instants }, Backlog::Chronos);
    let inputs = [(20, Input::Exit { task, ending: ENDED }), (25, Input::Enter { task })];
    let records = run(&mut engine, 60, |job| if job == 0 { 14 } else { 3 }, &inputs);
    assert_eq!((releases(&records), numbers(&records)), (vec![(1, 11), (15, 40), (50, 60)], vec![0, 1, 2]));
    // A task that leaves ends its job first; jobs that wait are not run.
    for (backlog, last) in [(Backlog::Queue, vec![(10, 20), (20, 30)]), (Backlog::Hartstone, vec![(23, 20)])] {
        let mut engine = self::engine(Arrival::Periodic { offset: ns(0), period: ns(10) }, backlog);
        let need = |job| if job == 0 { 23 } else { 3 };
        let records = run(&mut engine, 60, need, &[(21, Input::Leave { task }), (45, Input::Leave { task })]);
        assert_eq!(releases(&records), [&[(0, 10)], &last[..]].concat());
        let counts = engine.counts(TASK);
        assert_eq!((counts.completed, counts.missed), (1, counts.released));
        assert!(engine.all_gone());
    }
    // A task that is present cannot enter.
    let records = run(&mut self::engine(Arrival::Activated, Backlog::Queue), 9, |_| 3, &[(3, Input::Enter { task })]);
    assert_eq!(releases(&records), []);
}

/// A job that waits when its task's runtime changes declares the new one, and one that has run keeps what it declared.
#[test]
fn a_new_runtime_is_that_of_a_job_that_has_not_run() {
    let declared = |fresh: bool| {
        let arrival = Arrival::Periodic { offset: ns(0), period: ns(10) };
        let task = Task { arrival, deadline: Some(ns(10)), runtime: Some(ns(3)), ..Task::default() };
        let other = Task { deadline: Some(ns(9)), ..task.clone() };
        let edf = PolicySpec::from_name("edf").expect("edf");
        let tasks = if fresh { vec![task, other] } else { vec![task] };
        let mut engine = Engine::new(System { tasks, ..System::new(CpuSet::first(1), edf) }).expect("a sound system");
        let _ = engine.step(Time::ZERO, &[], &mut ());
        let _ = engine.step(Time::from_ns(1), &[retime(10, 5)], &mut ());
        engine.declared(TASK)
    };
    assert_eq!((declared(true), declared(false)), (Some(Work::nominal(ns(5))), Some(Work::nominal(ns(3)))));
}

#[test]
fn a_mode_change_to_a_time_of_zero_or_less_changes_nothing() {
    let arrival = || Arrival::Periodic { offset: ns(0), period: ns(10) };
    let changed = |input: Input| {
        let mut engine = engine(arrival(), Backlog::Queue);
        let records = run(&mut engine, 31, |_| 3, &[(12, input)]);
        (records, engine.system().tasks[0].runtime)
    };
    let unchanged = run(&mut engine(arrival(), Backlog::Queue), 31, |_| 3, &[]);
    for (period, deadline, runtime) in [(4, 0, 2), (4, 4, 0), (4, 4, -1), (-4, 4, 2), (0, 4, 2)] {
        let input =
            Input::Retime { task: TASK, period: ns(period), deadline: Some(ns(deadline)), runtime: Some(ns(runtime)) };
        assert_eq!(changed(input), (unchanged.clone(), Some(ns(3))), "{input:?}");
    }
}

#[test]
#[should_panic(expected = "time runs backwards: 4ns after 5ns")]
fn a_run_does_not_end_before_its_last_step() {
    let mut engine = engine(Arrival::Periodic { offset: ns(0), period: ns(10) }, Backlog::Queue);
    let _ = engine.step(Time::from_ns(5), &[], &mut ());
    engine.close(Time::from_ns(4), &[], &mut ());
}

/// A policy that was built while a mode change waits is built for other terms than the ones after the end of the job. A driver that installs
/// policies compares the counts.
#[test]
fn a_mode_change_counts_again_when_it_holds() {
    let mut engine = engine(Arrival::Periodic { offset: ns(0), period: ns(10) }, Backlog::Queue);
    let _ = engine.step(Time::from_ns(0), &[], &mut ());
    assert_eq!(engine.changes_of_terms(), 0);
    let _ = engine.step(Time::from_ns(1), &[retime(4, 2)], &mut ());
    assert_eq!((engine.changes_of_terms(), engine.system().tasks[0].arrival.period()), (1, Some(ns(10))));
    let _ = engine.step(Time::from_ns(2), &[], &mut ());
    assert_eq!(engine.changes_of_terms(), 1);
    let _ = engine.step(Time::from_ns(3), &[Input::Complete { task: TASK, job: 0 }], &mut ());
    assert_eq!((engine.changes_of_terms(), engine.system().tasks[0].arrival.period()), (2, Some(ns(4))));
    let share = Input::Share { task: TASK, share: None, importance: 2 };
    let _ = engine.step(Time::from_ns(4), &[share, Input::Leave { task: TASK }], &mut ());
    assert_eq!(engine.changes_of_terms(), 3);
    let _ = engine.step(Time::from_ns(5), &[Input::Enter { task: TASK }], &mut ());
    assert_eq!(engine.changes_of_terms(), 4, "a policy sees which tasks are there");
}
