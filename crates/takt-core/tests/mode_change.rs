//! Mode changes: periods, deadlines and runtimes that change, tasks that come and go.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, Backlog, System, Task, TaskId};
use takt_core::policy::PolicySpec;
use takt_core::record::{Outcome, Record, What};
use takt_core::time::{Span, Time};

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
        seen.extend((done == Some(now)).then_some(Input::Complete { task: TASK }));
        seen.extend(inputs.iter().filter(|(at, _)| *at == now).map(|(_, input)| *input));
        let before = records.len();
        let _ = engine.step(Time::from_ns(now), &seen, &mut records);
        if done == Some(now) {
            done = None;
        }
        for record in &records[before..] {
            match record.what {
                What::Start { job, .. } => done = Some(now + need(job)),
                What::Finish { outcome: Outcome::Exited, .. } => done = None,
                _ => {}
            }
        }
    }
    engine.close(Time::from_ns(end), &[], &mut records);
    records
}

/// When jobs were released, and their deadlines.
fn releases(records: &[Record]) -> Vec<(i64, i64)> {
    let release = |r: &Record| match r.what {
        What::Release { deadline, .. } => Some((r.at.ns(), deadline.map_or(-1, Time::ns))),
        _ => None,
    };
    records.iter().filter_map(release).collect()
}

fn retime(period: i64, runtime: i64) -> Input {
    Input::Retime { task: TASK, period: ns(period), deadline: Some(ns(period)), runtime: Some(ns(runtime)) }
}

#[test]
fn the_release_that_was_planned_stays_and_the_next_ones_follow_at_the_new_period() {
    for arrival in [
        Arrival::Periodic { offset: ns(0), period: ns(10) },
        Arrival::Sporadic { offset: ns(0), period: ns(10), spread: ns(0) },
    ] {
        for backlog in [Backlog::Queue, Backlog::Skip, Backlog::Chronos, Backlog::Hartstone] {
            let mut engine = engine(arrival.clone(), backlog);
            let records = run(&mut engine, 30, |_| 3, &[(12, retime(4, 2))]);
            let expected = [(0, 10), (10, 20), (20, 24), (24, 28), (28, 32)];
            assert_eq!(releases(&records), expected, "{arrival:?} {backlog:?}");
            assert_eq!(engine.system().tasks[0].runtime, Some(ns(2)));
        }
    }
}

#[test]
fn a_mode_change_waits_for_jobs_that_were_released_before_it() {
    // Job 0 runs until 23; jobs 1 and 2 wait at the change, and start the new period's count when they are through.
    let arrival = Arrival::Periodic { offset: ns(0), period: ns(10) };
    let mut queue = engine(arrival.clone(), Backlog::Queue);
    let records = run(&mut queue, 50, |job| if job == 0 { 23 } else { 3 }, &[(21, retime(4, 3))]);
    assert_eq!(releases(&records), [(0, 10), (10, 20), (20, 30), (30, 34), (34, 38), (38, 42), (42, 46), (46, 50)]);
    // 23 after 10, 26 after 20: two late jobs. The third was in time at 29.
    assert_eq!(queue.counts(TASK).missed, 2);
    // By Hartstone's rule the late job counts one miss and the period in between another, both noticed at its end; the period
    // of its end is passed over.
    let mut hartstone = engine(arrival, Backlog::Hartstone);
    let records = run(&mut hartstone, 50, |job| if job == 0 { 23 } else { 3 }, &[(21, retime(4, 3))]);
    assert_eq!(releases(&records), [(0, 10), (23, 20), (30, 34), (34, 38), (38, 42), (42, 46), (46, 50)]);
    assert_eq!(hartstone.counts(TASK).missed, 2);
}

#[test]
fn a_running_job_keeps_its_deadline_and_its_successors_their_places() {
    // The change comes while job 1 runs; it ends late at 26, and the period from 24 to 28 passes.
    let mut engine = engine(Arrival::Periodic { offset: ns(0), period: ns(10) }, Backlog::Hartstone);
    let records = run(&mut engine, 32, |job| if job == 1 { 16 } else { 2 }, &[(12, retime(4, 2))]);
    assert_eq!(releases(&records), [(0, 10), (10, 20), (26, 24), (28, 32)]);
    assert_eq!((engine.counts(TASK).missed, engine.counts(TASK).met), (2, 2));
}

#[test]
fn a_task_comes_and_goes() {
    let task = TASK;
    let periodic = Arrival::Periodic { offset: ns(5), period: ns(10) };
    let mut engine = engine(periodic, Backlog::Queue);
    let inputs = [(0, Input::Exit { task }), (12, Input::Enter { task }), (38, Input::Exit { task })];
    let records = run(&mut engine, 60, |_| 3, &inputs);
    assert_eq!(releases(&records), [(17, 27), (27, 37), (37, 47)]);
    assert!(engine.all_gone());

    let instants = [1, 11, 21, 31, 41].map(ns).to_vec();
    let mut engine = self::engine(Arrival::Listed { instants }, Backlog::Queue);
    let records = run(&mut engine, 60, |_| 3, &[(0, Input::Exit { task }), (21, Input::Enter { task })]);
    assert_eq!(releases(&records), [(21, 31), (31, 41), (41, 51)]);
    // Whoever is there need not come.
    let records = run(&mut self::engine(Arrival::Activated, Backlog::Queue), 9, |_| 3, &[(3, Input::Enter { task })]);
    assert_eq!(releases(&records), []);
}
