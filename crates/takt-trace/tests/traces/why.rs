//! Responses divided by their causes: the parts add up, and a planted cause is found with its exact length.

use crate::common::{Story, any_trace, ms, overload, samples};
use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::model::{ResourceId, TaskId};
use takt_core::record::{Outcome, Place, Record, RecordKind, StopReason};
use takt_core::time::{Span, Time};
use takt_core::work::Work;
use takt_trace::why::{Cause, Causes, Why};
use takt_trace::{Footer, Header, Stamped, TaskLabel, Trace};

fn parts(why: &Why) -> Vec<(Cause, i64)> {
    why.parts.iter().map(|part| (part.cause, part.time.ns() / 1_000_000)).collect()
}

/// Every job of a trace: its parts are positive and add up to its response.
pub(crate) fn add_up(trace: &Trace) -> Result<usize, TestCaseError> {
    let causes = Causes::of(trace);
    let mut jobs = 0;
    for job in causes.timeline().jobs.iter().flatten() {
        let why = causes.why(job.task, job.number).expect("the trace has the job");
        let sum = why.parts.iter().fold(Span::ZERO, |sum, part| sum + part.time);
        prop_assert_eq!(sum, why.response(), "{:?}", why);
        prop_assert!(why.parts.iter().all(|part| part.time > Span::ZERO), "{:?}", why);
        prop_assert!(why.parts.windows(2).all(|pair| pair[0].time >= pair[1].time), "{:?}", why);
        jobs += 1;
    }
    Ok(jobs)
}

#[test]
fn a_story_of_a_lock_is_divided_by_hand() {
    let trace = overload();
    let causes = Causes::of(&trace);
    let why = |task, job| causes.why(TaskId(task), job).unwrap();
    // Released at 1, runs 1 to 2, waits for the resource of `low` 2 to 4, runs 4 to 7.
    let high = why(0, 0);
    let lock = Cause::Blocking { by: Some(TaskId(1)), resource: ResourceId(0) };
    assert_eq!(parts(&high), [(Cause::Own, 4), (lock, 2)]);
    assert!(high.missed);
    // Released at 6, and its task is busy with the job before to 7.
    assert_eq!(parts(&why(0, 1)), [(Cause::Own, 3), (Cause::Earlier, 1)]);
    // Runs 0 to 1 and 2 to 4, and is aborted at 8; `high` has the CPU meanwhile.
    assert_eq!(parts(&why(1, 0)), [(Cause::Task(TaskId(0)), 5), (Cause::Own, 3)]);
    assert_eq!(why(1, 0).response(), Span::from_ms(8));
    // It was skipped as it was released.
    assert_eq!(parts(&why(2, 0)), []);
    assert!(causes.why(TaskId(2), 1).is_none());
    assert!(causes.why(TaskId(3), 0).is_none());
}

#[test]
fn work_of_an_aborted_job_is_none_of_the_own() {
    let (_, trace) = samples().into_iter().find(|(name, _)| *name == "behind").unwrap();
    let causes = Causes::of(&trace);
    let why = |job| parts(&causes.why(TaskId(0), job).unwrap());
    assert_eq!(why(1), [(Cause::Own, 5), (Cause::Behind, 5)]);
    assert_eq!(why(2), [(Cause::Behind, 10)]);
    assert_eq!(why(3), [(Cause::Own, 8), (Cause::Behind, 1)]);
}

#[test]
fn late_starts_stolen_time_and_idle_cpus_have_parts_of_their_own() {
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    s.late(Span::from_ms(2)).release(0, 0, 0, Some(10)).start(3, 0, 0, 0);
    s.late(Span::ZERO).done(12, 0, 0, 0, Outcome::Completed, 4);
    let trace = s.end(20);
    let why = Causes::of(&trace).why(TaskId(0), 0).unwrap();
    // The release is known at 2, the start is decided at 3 and carried out at 5.
    let expected = [(Cause::Own, 4), (Cause::Scheduler, 4), (Cause::Stolen, 3), (Cause::Idle, 1)];
    assert_eq!(parts(&why), expected);
}

#[test]
fn time_is_divided_among_busy_cpus() {
    let mut s = Story::new("edf", "global", 2, &[("a", None), ("b", None), ("c", None)]);
    s.release(0, 0, 0, Some(9)).start(0, 0, 0, 0).stop(1, 0, 0, 0, StopReason::Preempted);
    s.release(1, 1, 0, None).release(1, 2, 0, None).start(1, 1, 0, 0).start(1, 2, 0, 1);
    s.done(5, 1, 0, 0, Outcome::Completed, 4).start(5, 0, 0, 0).stop(7, 0, 0, 0, StopReason::Migrated);
    s.done(7, 2, 0, 1, Outcome::Completed, 6).start(7, 0, 0, 1).done(10, 0, 0, 1, Outcome::Completed, 6);
    let why = Causes::of(&s.end(10)).why(TaskId(0), 0).unwrap();
    assert_eq!(parts(&why), [(Cause::Own, 6), (Cause::Task(TaskId(1)), 2), (Cause::Task(TaskId(2)), 2)]);
    assert_eq!(why.end, ms(10));
}

/// The cause for which the job of a planted trace is late.
#[derive(Clone, Copy, Debug)]
enum Planted {
    Lock,
    Scheduler,
    Hog,
    Steal,
    Sleep,
    Aborted,
}

/// A job on one CPU between short jobs of others, with one cause that is longer than everything else together.
#[derive(Clone, Debug)]
struct Plot {
    planted: Planted,
    /// Lengths in nanoseconds: of the job's own pieces, each with the job of another task before it.
    pieces: Vec<(i64, i64, usize)>,
    /// The piece before which the cause stands.
    place: usize,
    extra: i64,
}

const VICTIM: TaskId = TaskId(0);
const CULPRIT: TaskId = TaskId(1);
const OTHERS: usize = 4;

impl Plot {
    fn other(&self, piece: usize) -> TaskId {
        TaskId(2 + (self.pieces[piece].2 % OTHERS) as u32)
    }

    fn length(&self) -> i64 {
        self.extra + self.pieces.iter().map(|(own, other, _)| own + other).sum::<i64>()
    }

    fn cause(&self) -> Cause {
        match self.planted {
            Planted::Lock => Cause::Blocking { by: Some(CULPRIT), resource: ResourceId(0) },
            Planted::Scheduler => Cause::Scheduler,
            Planted::Hog => Cause::Task(CULPRIT),
            Planted::Steal => Cause::Stolen,
            Planted::Sleep => Cause::Sleep,
            Planted::Aborted => Cause::Behind,
        }
    }

    fn trace(&self) -> Trace {
        let label = |name: String| TaskLabel { name, ..TaskLabel::default() };
        let header = Header {
            source: "run".into(),
            policy: "fp".into(),
            scope: "uniprocessor".into(),
            places: vec![CpuSet::single(0)],
            tasks: (0..OTHERS + 2).map(|index| label(format!("t{index}"))).collect(),
            resources: vec!["bus".into()],
            ..Header::default()
        };
        let mut trace = Trace { header, ..Trace::default() };
        let place = Place(0);
        let mut numbers = [0; OTHERS + 2];
        let mut push = |at: i64, applied: i64, kind| {
            let record = Record { at: Time::from_ns(at), kind };
            trace.records.push(Stamped { record, applied: Time::from_ns(applied) });
        };
        let (mut now, mut own) = (1000, 0);
        let job = 1;
        push(now, now, RecordKind::Release { task: VICTIM, job, deadline: Some(Time::from_ns(now + 1)) });
        // A whole job of another task.
        let mut whole = |push: &mut dyn FnMut(i64, i64, RecordKind), task: TaskId, from: i64, to: i64| {
            let number = &mut numbers[task.index()];
            let (job, consumed) = (*number, Work::nominal(Span::from_ns(to - from)));
            *number += 1;
            push(from, from, RecordKind::Release { task, job, deadline: None });
            push(from, from, RecordKind::Start { task, job, place });
            push(to, to, RecordKind::Finish { task, job, outcome: Outcome::Completed, consumed });
            push(to, to, RecordKind::Stop { task, job, place, reason: StopReason::Finished });
        };
        for (index, &(length, before, _)) in self.pieces.iter().enumerate() {
            whole(&mut push, self.other(index), now, now + before);
            now += before;
            let extra = if index == self.place { self.extra } else { 0 };
            let mut applied = now;
            let (task, resource) = (CULPRIT, ResourceId(0));
            match self.planted {
                _ if extra == 0 => {}
                Planted::Lock => {
                    // It runs for a nanosecond that is counted below, and finds the resource locked.
                    push(now, now, RecordKind::Lock { task, resource, granted: true });
                    push(now, now, RecordKind::Lock { task: VICTIM, resource, granted: false });
                    push(now, now, RecordKind::Block { task: VICTIM, job });
                    whole(&mut push, CULPRIT, now, now + extra);
                    push(now + extra, now + extra, RecordKind::Unlock { task, resource });
                    push(now + extra, now + extra, RecordKind::Lock { task: VICTIM, resource, granted: true });
                    push(now + extra, now + extra, RecordKind::Wake { task: VICTIM, job });
                    (now, applied) = (now + extra, applied + extra);
                }
                Planted::Hog => {
                    whole(&mut push, CULPRIT, now, now + extra);
                    (now, applied) = (now + extra, applied + extra);
                }
                Planted::Sleep => {
                    push(now, now, RecordKind::Block { task: VICTIM, job });
                    push(now + extra, now + extra, RecordKind::Wake { task: VICTIM, job });
                    (now, applied) = (now + extra, applied + extra);
                }
                Planted::Scheduler => applied += extra,
                Planted::Steal | Planted::Aborted => {}
            }
            let until = applied + length + if applied == now { extra * i64::from(self.stretches()) } else { 0 };
            if matches!(self.planted, Planted::Aborted) && extra > 0 {
                push(now, applied, RecordKind::Behind { task: VICTIM, job, abandoned: 0 });
            }
            push(now, applied, RecordKind::Start { task: VICTIM, job, place });
            if matches!(self.planted, Planted::Aborted) && extra > 0 {
                push(now + extra, now + extra, RecordKind::LateSignal { task: VICTIM, job: 0 });
                own += extra;
            }
            now = until;
            own += length;
            if index + 1 == self.pieces.len() {
                let consumed = Work::nominal(Span::from_ns(own));
                push(now, now, RecordKind::Finish { task: VICTIM, job, outcome: Outcome::Completed, consumed });
                push(now, now, RecordKind::Stop { task: VICTIM, job, place, reason: StopReason::Finished });
            } else {
                push(now, now, RecordKind::Stop { task: VICTIM, job, place, reason: StopReason::Preempted });
            }
        }
        trace.footer = Some(Footer { end: Time::from_ns(now + 5), dropped: 0 });
        trace
    }

    /// Whether the job has the CPU during the planted time.
    fn stretches(&self) -> bool {
        matches!(self.planted, Planted::Steal | Planted::Aborted)
    }

    /// The parts as planted.
    fn expected(&self) -> Vec<(Cause, i64)> {
        let mut sums: Vec<(Cause, i64)> = vec![(self.cause(), self.extra)];
        let mut add = |cause, time| match sums.iter_mut().find(|(c, _)| *c == cause) {
            Some((_, sum)) => *sum += time,
            None => sums.push((cause, time)),
        };
        for (index, &(own, before, _)) in self.pieces.iter().enumerate() {
            add(Cause::Own, own);
            add(Cause::Task(self.other(index)), before);
        }
        sums
    }
}

fn any_plot() -> impl Strategy<Value = Plot> {
    let planted = prop_oneof![
        Just(Planted::Lock),
        Just(Planted::Scheduler),
        Just(Planted::Hog),
        Just(Planted::Steal),
        Just(Planted::Sleep),
        Just(Planted::Aborted),
    ];
    let pieces = prop::collection::vec((1..500_i64, 1..500_i64, 0..OTHERS), 1..8);
    (planted, pieces, any::<prop::sample::Index>(), 1..1000_i64).prop_map(|(planted, pieces, place, more)| {
        let sum: i64 = pieces.iter().map(|(own, other, _)| own + other).sum();
        Plot { planted, place: place.index(pieces.len()), pieces, extra: sum + more }
    })
}

#[test]
fn a_planted_cause_is_the_largest_part_and_the_parts_are_exact() {
    takt_testing::for_all(1000, any_plot(), |plot| {
        let trace = plot.trace();
        let why = Causes::of(&trace).why(VICTIM, 1).expect("the job is there");
        prop_assert!(why.missed);
        prop_assert_eq!(why.response().ns(), plot.length());
        prop_assert_eq!(why.parts[0].cause, plot.cause(), "{:?}", why);
        let key = |cause: &Cause| format!("{cause:?}");
        let mut found: Vec<(Cause, i64)> = why.parts.iter().map(|part| (part.cause, part.time.ns())).collect();
        let mut expected = plot.expected();
        found.sort_by_key(|(cause, _)| key(cause));
        expected.sort_by_key(|(cause, _)| key(cause));
        prop_assert_eq!(found, expected);
        add_up(&trace).map(|_| ())
    });
}

#[test]
fn the_parts_of_any_trace_add_up() {
    takt_testing::for_all(256, any_trace(), |trace| add_up(&trace).map(|_| ()));
    for (name, trace) in samples() {
        let jobs = add_up(&trace).unwrap();
        assert_eq!(jobs > 0, name != "nothing", "{name}");
    }
}
