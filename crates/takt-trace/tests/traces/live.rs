//! The figures of a schedule while it runs, on stories whose numbers were worked out by hand.

use crate::common::{Story, edf, ms, write};
use takt_core::model::TaskId;
use takt_core::record::{Outcome, RecordKind, StopReason};
use takt_core::time::{Span, Time};
use takt_trace::Trace;
use takt_trace::live::{EventKind, Live, Snapshot, TaskState};

/// The figures at an instant, and the events until then as `ms name`.
fn at(trace: &Trace, to: Time) -> (Snapshot, Vec<String>) {
    let (mut live, mut events) = (Live::new(&trace.header), Vec::new());
    let mut listener =
        |event: &takt_trace::live::Event| events.push(format!("{} {}", event.at.ns() / 1_000_000, event.kind.name()));
    for record in trace.records.iter().take_while(|record| record.record.at <= to) {
        live.record(record, &mut listener);
    }
    live.advance(to, &mut listener);
    (live.snapshot(), events)
}

#[test]
fn states_loads_and_budgets_are_those_of_the_instant() {
    let mut trace = edf();
    trace.records.insert(
        5,
        takt_trace::Stamped {
            record: takt_core::record::Record {
                at: ms(0),
                kind: RecordKind::Budget { task: TaskId(2), job: 0, amount: Some(Span::from_ms(9)) },
            },
            applied: ms(0),
        },
    );
    // `log` ran from 4 ms to 10 ms and, after a migration, from 10 ms on.
    let (status, events) = at(&trace, ms(12));
    let states: Vec<TaskState> = status.tasks.iter().map(|task| task.state).collect();
    assert_eq!(states, [TaskState::Running, TaskState::Ready, TaskState::Running]);
    let log = &status.tasks[2];
    assert_eq!((log.cpus.as_deref(), log.migrations, log.job), (Some("1"), 1, Some(0)));
    assert_eq!((log.budget_left_ns, log.ran_ns), (Some(1_000_000), 8_000_000));
    assert_eq!(log.utilisation_ppm, Some(666_666));
    assert_eq!(log.deadline_ns, Some(20_000_000));
    let cpus: Vec<(usize, Option<usize>, u64)> = status.cpus.iter().map(|c| (c.cpu, c.task, c.load_ppm)).collect();
    assert_eq!(cpus, [(0, Some(0), 1_000_000), (1, Some(2), 666_666)]);
    assert_eq!(events, [""; 0]);
    // Its deadline passes while it runs.
    let (status, events) = at(&trace, ms(21));
    assert_eq!(events, ["20 miss", "20 overload_begin"]);
    assert_eq!((status.tasks[2].missed, status.tasks[2].completed), (1, 0));
    assert_eq!(status.events[0].detail, "late");
    let (status, _) = at(&trace, ms(28));
    assert_eq!((status.tasks[2].missed, status.tasks[2].completed, status.tasks[2].response.count), (1, 1, 1));
    assert_eq!(status.tasks[2].last_response_ns, Some(23_000_000));
}

/// An overload lasts until no job is late and a second has passed without a miss.
#[test]
fn overloads_begin_with_a_miss_and_end_after_a_quiet_second() {
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    s.release(0, 0, 0, Some(10)).start(0, 0, 0, 0).done(900, 0, 0, 0, Outcome::Completed, 900);
    s.release(1000, 0, 1, Some(1010)).finish(1500, 0, 1, Outcome::Aborted, 0);
    s.release(3000, 0, 2, Some(3010)).start(3000, 0, 2, 0).done(3005, 0, 2, 0, Outcome::Completed, 5);
    s.release(4000, 0, 3, Some(4010));
    let trace = s.end(6000);
    let expected = ["10 miss", "10 overload_begin", "1010 miss", "2500 overload_end"].map(String::from);
    let (status, events) = at(&trace, ms(2499));
    assert_eq!((&events[..], status.overload.map(|o| (o.since_ns, o.misses))), (&expected[..3], Some((10_000_000, 2))));
    let (status, events) = at(&trace, ms(4000));
    assert_eq!((&events[..], status.overload, status.overloads), (&expected[..], None, 1));
    assert_eq!(status.events[3].detail, "2 missed in 1.49s");
    // A job that never ends stays late.
    let (status, events) = at(&trace, ms(100_000));
    assert_eq!(events[4..], ["4010 miss", "4010 overload_begin"]);
    assert!(status.overload.is_some());
}

/// A clock is ahead of the records: a deadline that it has passed is not missed yet.
#[test]
fn a_clock_judges_no_job_whose_end_may_be_on_its_way() {
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    let trace = s.release(0, 0, 0, Some(10)).start(0, 0, 0, 0).end(5000);
    let mut live = Live::new(&trace.header);
    let mut misses = 0;
    let mut listener = |event: &takt_trace::live::Event| misses += u32::from(matches!(event.kind, EventKind::Miss(_)));
    trace.records.iter().for_each(|record| live.record(record, &mut listener));
    live.tick(ms(300), &mut listener);
    assert_eq!(live.snapshot().now_ns, 300_000_000);
    assert_eq!(live.counts().next().map(|counts| counts.missed), Some(0));
    live.tick(ms(600), &mut listener);
    assert_eq!(live.counts().next().map(|counts| counts.missed), Some(1));
    // Its end comes after all, and was in time.
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    let late = s.done(9, 0, 0, 0, Outcome::Completed, 9).end(5000);
    late.records.iter().for_each(|record| live.record(record, &mut listener));
    let counts = live.counts().next().expect("a task");
    assert_eq!((counts.met, counts.missed, counts.completed), (1, 0, 1));
    assert_eq!(misses, 1);
}

/// The memory does not grow with the length of a run, even where ends of jobs are among records that were lost.
#[test]
fn ends_that_were_lost_leave_no_jobs_behind() {
    let s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    let mut live = Live::new(&s.trace.header);
    live.lost(1);
    for job in 0..1000 {
        let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
        let at = 10 * job as i64;
        s.release(at, 0, job, None).start(at, 0, job, 0);
        if job % 10 == 9 {
            s.finish(at + 5, 0, job, Outcome::Completed, 5);
        }
        s.stop(at + 5, 0, job, 0, StopReason::Finished);
        s.trace.records.iter().for_each(|record| live.record(record, &mut |_| ()));
    }
    let task = &live.snapshot().tasks[0];
    assert_eq!((task.released, task.completed, task.job), (1000, 100, None));
    assert_eq!(task.response.max_ns, 5_000_000);
}

#[test]
fn a_snapshot_survives_its_json_form() {
    let (status, _) = at(&edf(), ms(28));
    let text = serde_json::to_string(&status).expect("it has a JSON form");
    assert_eq!(serde_json::from_str::<Snapshot>(&text).expect("its own form"), status);
}

/// A task whose program hangs has unfinished jobs without end, and takes none of the room of the others.
#[test]
fn a_task_that_hangs_hides_no_other() {
    let mut s = Story::new("edf", "uniprocessor", 1, &[("hangs", None), ("works", None)]);
    let many = 140_000;
    for job in 0..many {
        s.release(0, 0, job, None);
    }
    s.release(1, 1, 0, Some(10)).start(1, 1, 0, 0).done(4, 1, 0, 0, Outcome::Completed, 3);
    let (status, _) = at(&s.end(20), ms(20));
    assert_eq!((status.tasks[0].released, status.tasks[0].completed), (many, 0));
    assert_eq!((status.tasks[1].completed, status.tasks[1].response.count), (1, 1));
    assert_eq!(status.tasks[1].last_response_ns, Some(3_000_000));
}

/// A task that has left may return; one that has failed misses its jobs, and is gone for good.
#[test]
fn a_task_that_returns_is_not_gone() {
    for failed in [false, true] {
        let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
        s.push(5, RecordKind::Exit { task: TaskId(0), failed }).release(10, 0, 1, Some(20));
        let trace = s.end(30);
        assert_eq!(at(&trace, ms(7)).0.tasks[0].state, TaskState::Gone);
        let state = at(&trace, ms(12)).0.tasks[0].state;
        assert_eq!(state == TaskState::Gone, failed, "{state:?}");
    }
}

/// A run calls policies that it learns of `loaded-1` and so on, until their names are known.
#[test]
fn policies_of_commands_have_their_names_and_changes_are_events() {
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    s.trace.header.alternatives = vec!["rm".into(), "loaded-1".into(), "loaded-2".into()];
    s.push(5, RecordKind::Switch { domain: None, to: 1 }).push(8, RecordKind::Switch { domain: None, to: 0 });
    let trace = s.end(20);
    let mut live = Live::new(&trace.header);
    let mut heard = Vec::new();
    let mut take =
        |live: &mut Live, number: usize| live.record(&trace.records[number], &mut |event| heard.push(event.kind));
    assert_eq!(live.switched(), None);
    take(&mut live, 0);
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    live.name_loaded(["fifo"].into_iter());
    live.changed(at(5), "policy fifo", &mut |_| panic!("a record has reported it"));
    assert_eq!(live.switched(), Some((at(5), "fifo")));
    live.changed(at(6), "set a.period=30ms", &mut |event| assert_eq!(event.kind, EventKind::Change));
    take(&mut live, 1);
    assert_eq!(live.switched(), Some((at(8), "rm")));
    let events = live.snapshot().events;
    let told: Vec<_> = events.iter().map(|e| (e.event.as_str(), e.detail.as_str())).collect();
    assert_eq!(told, [("policy", "edf → fifo"), ("change", "set a.period=30ms"), ("policy", "fifo → rm")]);
    assert_eq!(heard, [EventKind::Policy; 2]);
}

/// The header of a trace is written before the run learns a policy by a command. Its readers know the name.
#[test]
fn a_trace_has_the_names_of_policies_of_commands() {
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    s.trace.header.alternatives = ["rm", "loaded-1", "loaded-2", "loaded-3"].map(str::to_owned).to_vec();
    s.push(5, RecordKind::Switch { domain: None, to: 2 }).push(8, RecordKind::Switch { domain: None, to: 0 });
    s.push(9, RecordKind::Switch { domain: None, to: 1 });
    let mut trace = s.end(20);
    let commands = [(5, "policy rr:quantum=2ms"), (8, "policy rm"), (9, "policy /a/b.wasm"), (9, "set a.period=30ms")];
    let change = |(at, command): (i64, &str)| takt_trace::Change {
        at: Time::ZERO + Span::from_ms(at),
        uid: 0,
        pid: 7,
        command: command.to_owned(),
    };
    trace.changes = commands.map(change).to_vec();
    for format in [takt_trace::Format::JsonLines, takt_trace::Format::Csv] {
        let read = takt_trace::read(&write(&trace, format)[..], format).expect("a trace");
        assert_eq!(read.header.alternatives, ["rm", "loaded-1", "rr:quantum=2ms", "loaded-3"]);
    }
}
