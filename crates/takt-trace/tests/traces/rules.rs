//! The checker finds each kind of fault, and only where there is one.

use crate::common::{Story, any_trace, behind, edf, ms, overload, rounds, samples, windows};
use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Partition, PartitionId, PolicySpec, ResourceId, Slice, System, Task, TaskId, Window};
use takt_core::record::{Outcome, Place, Record, RecordKind, StopReason};
use takt_core::time::Span;
use takt_core::work::Work;
use takt_trace::check::{arrivals, check};
use takt_trace::{Footer, Stamped, Trace};

/// The system that the sample `windows` is a trace of.
fn system() -> System {
    let task = Task { budget: Some(Span::from_ms(4)), affinity: CpuSet::first(4), ..Task::default() };
    let partition = |tasks: &[u32]| Partition { tasks: tasks.iter().map(|t| TaskId(*t)).collect(), policy: None };
    let (left, right) = (CpuSet::first(2), (2..4).collect());
    let slice = |cpus, sc, be| Slice { cpus, sc: Some(PartitionId(sc)), be };
    System {
        tasks: vec![task; 4],
        partitions: vec![partition(&[0, 1]), partition(&[2]), partition(&[3])],
        windows: vec![
            Window {
                length: Span::from_ms(10),
                slices: vec![slice(left, 0, Some(PartitionId(2))), slice(right, 1, None)],
            },
            Window { length: Span::from_ms(5), slices: vec![slice(right, 1, None)] },
        ],
        ..System::new(CpuSet::first(4), PolicySpec::from_name("windows").unwrap())
    }
}

fn found(trace: &Trace, system: Option<&System>) -> Vec<String> {
    check(trace, system, Span::ZERO).iter().map(ToString::to_string).collect()
}

#[test]
fn valid_traces_have_no_findings() {
    assert_eq!(found(&edf(), None), [""; 0]);
    assert_eq!(found(&overload(), None), [""; 0]);
    assert_eq!(found(&rounds(), None), [""; 0]);
    assert_eq!(found(&behind(), None), [""; 0]);
    assert_eq!(found(&windows(), None), [""; 0]);
    assert_eq!(found(&windows(), Some(&system())), [""; 0]);
}

/// Each fault is injected into a valid trace; the snapshot shows what is found.
#[test]
fn each_fault_is_found() {
    use Outcome::Completed;
    let one = || Story::new("edf", "global", 2, &[("a", None), ("b", None)]);
    let mut cases: Vec<(&str, Trace, Option<System>)> = Vec::new();
    let mut case = |name, trace, system| cases.push((name, trace, system));

    let mut s = one();
    s.release(0, 0, 0, None).release(0, 1, 0, None).start(0, 0, 0, 0).start(1, 1, 0, 0);
    case("two tasks on one CPU", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).release(0, 1, 0, None).start(0, 0, 0, 0);
    s.late(Span::from_us(70)).done(2, 0, 0, 0, Completed, 2).late(Span::from_us(20)).start(2, 1, 0, 0);
    case("carried out in the wrong order", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).start(0, 0, 0, 0).start(1, 0, 0, 1);
    case("started twice", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).stop(1, 0, 0, 1, StopReason::Preempted);
    case("stopped without running", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).start(0, 0, 0, 0).stop(1, 0, 0, 1, StopReason::Preempted);
    case("stopped elsewhere", s.end(5), None);
    let mut s = one();
    s.start(0, 0, 0, 0).done(1, 0, 0, 0, Completed, 1);
    case("never released", s.end(5), None);
    let mut s = one();
    s.release(2, 0, 0, None).start(1, 0, 0, 0);
    case("started before its release", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 1, None).release(0, 0, 0, None);
    case("job numbers go back", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).release(0, 0, 1, None).start(0, 0, 1, 0);
    case("overtaken", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).start(0, 0, 0, 0).done(1, 0, 0, 0, Completed, 1).start(2, 0, 0, 0);
    case("resumed after its end", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).start(0, 0, 0, 0).finish(1, 0, 0, Completed, 1).stop(2, 0, 0, 0, StopReason::Finished);
    case("runs on after its end", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).finish(1, 0, 0, Completed, 0).finish(2, 0, 0, Outcome::Aborted, 0);
    case("ends without running, and twice", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).budget(0, 0, 0, 2).start(0, 0, 0, 0).stop(1, 0, 0, 0, StopReason::Preempted);
    s.start(2, 0, 0, 0).done(4, 0, 0, 0, Completed, 3);
    case("runs longer than its budget", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).budget(0, 0, 0, 2).start(0, 0, 0, 0).budget(2, 0, 0, 2).done(4, 0, 0, 0, Completed, 4);
    case("is replenished in time", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).budget(0, 0, 0, 2).start(0, 0, 0, 0).lifted(2, 0, 0);
    s.done(5, 0, 0, 0, Completed, 5);
    case("has its budget lifted in time", s.end(6), None);
    let mut s = one();
    s.release(0, 0, 0, None).budget(0, 0, 0, 2).start(0, 0, 0, 0).lifted(4, 0, 0).budget(6, 0, 0, 1);
    s.done(8, 0, 0, 0, Completed, 8);
    case("has its budget lifted too late, and another one that it overruns", s.end(9), None);

    let late_signal = |job| RecordKind::LateSignal { task: TaskId(0), job };
    let abandons = |s: &mut Story| {
        s.release(0, 0, 0, Some(2)).start(0, 0, 0, 0).done(2, 0, 0, 0, Outcome::Aborted, 2).release(2, 0, 1, Some(6));
        s.push(2, RecordKind::Behind { task: TaskId(0), job: 1, abandoned: 0 }).start(2, 0, 1, 0);
    };
    let mut s = one();
    abandons(&mut s);
    s.done(5, 0, 1, 0, Completed, 3);
    case("completes while its program is at the work of another job", s.end(6), None);
    let mut s = one();
    abandons(&mut s);
    s.push(3, late_signal(7)).done(5, 0, 1, 0, Completed, 3);
    case("completes after the signal of a third job", s.end(6), None);
    let mut s = one();
    abandons(&mut s);
    s.push(3, late_signal(0)).done(5, 0, 1, 0, Completed, 3);
    case("completes after the signal of the abandoned job", s.end(6), None);
    let mut s = one();
    abandons(&mut s);
    s.done(6, 0, 1, 0, Outcome::Aborted, 4).release(6, 0, 2, None).start(6, 0, 2, 0).done(7, 0, 2, 0, Completed, 1);
    case("is aborted while it is behind, and its program is replaced", s.end(8), None);

    let handler = |task: u32, job| RecordKind::Handler { task: TaskId(task), job, deadline: None };
    let handler_end =
        |task: u32, job| RecordKind::HandlerEnd { task: TaskId(task), job, consumed: Work::nominal(Span::from_ms(1)) };
    let mut s = one();
    s.release(0, 0, 0, None).start(0, 0, 0, 0).done(1, 0, 0, 0, Completed, 1).push(1, handler(0, 0));
    case("a handler of a job that completed", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).finish(1, 0, 0, Outcome::Aborted, 0).push(2, handler(0, 0));
    case("a handler later than the abort", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).finish(1, 0, 0, Outcome::Aborted, 0).push(1, handler(0, 0)).release(2, 0, 1, None);
    s.start(2, 0, 1, 0).stop(3, 0, 1, 0, StopReason::Suspended).push(3, handler_end(0, 0)).push(4, handler_end(0, 0));
    case("overtakes its handler, which ends twice", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).finish(1, 0, 0, Outcome::Aborted, 0).push(1, handler(0, 0)).start(1, 0, 0, 0);
    s.push(2, handler_end(0, 0)).stop(3, 0, 0, 0, StopReason::Finished);
    case("runs on after its handler", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).release(0, 1, 0, None).start(0, 0, 0, 0).start(0, 1, 0, 1);
    s.request(1, 0, 0, true).request(2, 1, 0, true).give_back(3, 0, 0);
    case("two owners", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).start(0, 0, 0, 0).request(1, 0, 0, false);
    case("refused what is free", s.end(1), None);
    let mut s = one();
    s.release(0, 0, 0, None).release(0, 1, 0, None).start(0, 0, 0, 0).start(0, 1, 0, 1);
    s.request(1, 0, 0, true).request(2, 1, 0, false).stop(3, 1, 0, 1, StopReason::Preempted).start(4, 1, 0, 1);
    case("runs while it waits", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).release(0, 1, 0, None).start(0, 0, 0, 0).start(0, 1, 0, 1);
    s.request(1, 0, 0, true).request(1, 1, 1, true).request(2, 0, 1, false).stop(2, 0, 0, 0, StopReason::Blocked);
    s.request(3, 1, 0, false).stop(3, 1, 0, 1, StopReason::Blocked);
    case("an unnoticed deadlock", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None).release(0, 1, 0, None).start(0, 0, 0, 0).start(0, 1, 0, 1);
    s.request(1, 0, 0, true).request(2, 1, 0, false).stop(2, 1, 0, 1, StopReason::Blocked);
    s.withdraw(3, 1, 1).start(3, 1, 0, 1);
    case("withdraws a request that it never made", s.end(5), None);
    let mut s = one();
    s.release(0, 0, 0, None)
        .start(0, 0, 0, 0)
        .push(1, RecordKind::Deadlock { task: TaskId(0), resource: ResourceId(0) });
    case("a deadlock that is none", s.end(5), None);
    let mut s = one();
    s.round(4, 0, 4, 4, 0).burst(4, 0, 2, 2, 2).burst(4, 1, 2, 1, 2);
    case("bursts that are no round", s.end(5), None);
    let mut s = one();
    s.round(4, 0, 4, 4, 0).burst(4, 0, 2, 2, 2).burst(4, 0, 2, 2, 2).burst(5, 1, 2, 1, 2);
    case("a burst twice, and one of no round", s.end(5), None);

    let table = |change: &dyn Fn(&mut Vec<Stamped>)| {
        let mut trace = windows();
        change(&mut trace.records);
        trace
    };
    let index = |records: &[Stamped], what: RecordKind| records.iter().position(|r| r.record.kind == what).unwrap();
    let second = RecordKind::Window { window: 1, frame: 0 };
    case(
        "a window is missing",
        table(&|r| {
            r.remove(index(r, second));
        }),
        Some(system()),
    );
    case(
        "a window is late",
        table(&|r| {
            let i = index(r, second);
            r[i].record.at = ms(10) + Span::from_us(1);
        }),
        Some(system()),
    );
    let suspended = RecordKind::Stop { task: TaskId(3), job: 0, place: Place(4), reason: StopReason::Suspended };
    case(
        "runs on into a foreign window",
        table(&|r| {
            let i = index(r, suspended);
            let mut stop = r.remove(i);
            (stop.record.at, stop.applied) = (ms(12), ms(12));
            let later = r.iter().position(|x| x.record.at > ms(12)).unwrap();
            r.insert(later, stop);
        }),
        Some(system()),
    );
    case(
        "is carried out late at the window's end",
        table(&|r| {
            let i = index(r, suspended);
            r[i].applied = ms(10) + Span::from_us(300);
        }),
        Some(system()),
    );
    let swap = |r: &mut Vec<Stamped>, task: u32, to: u16| {
        for record in r {
            match &mut record.record.kind {
                RecordKind::Start { task: t, place, .. } | RecordKind::Stop { task: t, place, .. } if t.0 == task => {
                    *place = Place(to);
                }
                _ => {}
            }
        }
    };
    case("in a foreign slice", table(&|r| swap(r, 1, 5)), Some(system()));
    let mut other_order = system();
    other_order.partitions[0].tasks.reverse();
    case("out of order in its partition", windows(), Some(other_order));
    let mut waits = system();
    waits.windows[0].slices[1].cpus = (2..4).collect();
    case(
        "best effort beside safety-critical",
        table(&|r| {
            let i = index(
                r,
                RecordKind::Finish {
                    task: TaskId(2),
                    job: 0,
                    outcome: Outcome::BudgetUsed,
                    consumed: Work::nominal(Span::from_ms(6)),
                },
            );
            for mut record in r.drain(i..i + 2).collect::<Vec<_>>() {
                (record.record.at, record.applied) = (ms(7), ms(7));
                let later = r.iter().position(|x| x.record.at > ms(7)).unwrap();
                r.insert(later, record);
            }
        }),
        Some(waits),
    );
    let mut pinned = system();
    pinned.windows.clear();
    pinned.tasks[2].affinity = CpuSet::first(2);
    case("not where it may run", windows(), Some(pinned));
    case("another system", edf(), Some(system()));
    let mut lossy = edf();
    lossy.footer = Some(Footer { end: ms(28), dropped: 3 });
    case("records are missing", lossy, None);

    let mut s = Story::new("windows", "table", 1, &[("a", Some("A")), ("b", Some("B"))]);
    s.push(1, RecordKind::StartSkipped { partition: PartitionId(1), window: 0 });
    s.release(1, 0, 0, None).start(1, 0, 0, 0).done(2, 0, 0, 0, Completed, 1).release(3, 1, 0, None).start(3, 1, 0, 0);
    let mut trace = s.end(5);
    trace.header.partitions = vec!["A".into(), "B".into()];
    case("a skipped partition starts", trace, None);

    let say = |(name, trace, system): &(&str, Trace, Option<System>)| {
        format!("{name}:\n    {}", found(trace, system.as_ref()).join("\n    "))
    };
    insta::assert_snapshot!(cases.iter().map(say).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_tolerance_covers_what_a_machine_adds() {
    let mut s = Story::new("windows", "table", 1, &[("a", None), ("b", None)]);
    s.trace.header.source = "run".into();
    s.trace.header.window_lengths = vec![Span::from_ms(10)];
    s.window(0, 0, 0).release(0, 0, 0, None).release(0, 1, 0, None).budget(0, 0, 0, 2).start(0, 0, 0, 0);
    s.late(Span::from_us(80)).done(2, 0, 0, 0, Outcome::BudgetUsed, 2);
    s.late(Span::from_us(60)).start(2, 1, 0, 0);
    let trace = s.end(10);
    assert_eq!(check(&trace, None, Span::from_us(100)), []);
    let rules: Vec<&str> = check(&trace, None, Span::from_us(10)).iter().map(|f| f.rule).collect();
    assert_eq!(rules, ["budget", "overlap"]);
    let rules: Vec<&str> = check(&trace, None, Span::from_us(50)).iter().map(|f| f.rule).collect();
    assert_eq!(rules, ["budget"]);
}

#[test]
fn valid_schedules_pass() {
    takt_testing::for_all(256, any_trace(), |trace| {
        let at_all_budgets = Span::from_ns(i64::from(u16::MAX));
        prop_assert_eq!(check(&trace, None, at_all_budgets).iter().filter(|f| f.rule != "dropped").count(), 0);
        Ok(())
    });
}

/// A task is started on top of another that runs; whatever else the trace does, this is found.
#[test]
fn an_injected_overlap_is_found() {
    takt_testing::for_all(256, (any_trace(), any::<prop::sample::Index>()), |(trace, pick)| {
        let mut trace = trace;
        let starts: Vec<usize> = (0..trace.records.len())
            .filter(|i| matches!(trace.records[*i].record.kind, RecordKind::Start { .. }))
            .collect();
        prop_assume!(!starts.is_empty());
        let at = *pick.get(&starts);
        let RecordKind::Start { place, .. } = trace.records[at].record.kind else { unreachable!() };
        let intruder = TaskId(trace.header.tasks.len() as u32);
        trace.header.tasks.push(takt_trace::TaskLabel { name: "intruder".into(), ..Default::default() });
        let Stamped { record: Record { at: instant, .. }, applied } = trace.records[at];
        let whats = [
            RecordKind::Release { task: intruder, job: 0, deadline: None },
            RecordKind::Start { task: intruder, job: 0, place },
            RecordKind::Stop { task: intruder, job: 0, place, reason: StopReason::Suspended },
        ];
        for (i, what) in whats.into_iter().enumerate() {
            trace.records.insert(at + 1 + i, Stamped { record: Record { at: instant, kind: what }, applied });
        }
        let findings = check(&trace, None, Span::ZERO);
        let label = trace.header.labels().pop();
        prop_assert!(findings.iter().any(|f| f.rule == "overlap" && f.task == label), "{findings:?}");
        Ok(())
    });
}

#[test]
fn every_rule_is_in_the_table_of_the_module() {
    let table = concat!(
        include_str!("../../src/check.rs"),
        include_str!("../../src/check/checker.rs"),
        include_str!("../../src/check/rules.rs"),
        include_str!("../../src/check/arrivals.rs"),
        include_str!("../../src/check/schedule.rs")
    );
    let rules = table.lines().filter(|l| l.starts_with("//! | `")).count();
    let used: std::collections::BTreeSet<&str> =
        table.split('"').filter(|w| table.contains(&format!("//! | `{w}` |"))).collect();
    assert_eq!(rules, used.len());
    assert!(samples().iter().all(|(_, trace)| check(trace, None, Span::ZERO).is_empty()));
}

/// A trace may begin with any job. Numbers that its instants cannot have are a finding, and take no time.
#[test]
fn the_numbers_of_jobs_fit_their_instants() {
    let period = Span::from_ms(10);
    let plans = [
        Arrival::Periodic { period, offset: Span::from_ms(3) },
        Arrival::Sporadic { period, spread: Span::ZERO, offset: Span::from_ms(3) },
    ];
    for arrival in plans {
        let system = System {
            tasks: vec![Task { arrival, ..Task::default() }],
            ..System::new(CpuSet::first(1), PolicySpec::from_name("edf").unwrap())
        };
        let judged = |at, job| {
            let mut story = Story::new("edf", "global", 1, &[("a", None)]);
            story.release(at, 0, job, None);
            let found = arrivals(&story.end(at), &system, Span::ZERO);
            found.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>()
        };
        assert_eq!(judged(73, 7), [""; 0]);
        assert_eq!(judged(73, 6), ["job 6 is released at 73ms, by the workload at 63ms"]);
        assert_eq!(judged(73, 8), ["job 8 is released at 73ms, by the workload at 83ms"]);
        assert_eq!(
            judged(73, u64::MAX),
            [format!("job {} is released at 73ms, and job 8 is to be released at 83ms", u64::MAX)]
        );
        assert_eq!(judged(1, 5), ["job 5 is released at 1ms, and job 0 is to be released at 3ms"]);
    }
}
