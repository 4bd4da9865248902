//! Comparing traces.

use crate::common::{any_trace, edf, ms, windows};
use proptest::prelude::*;
use takt_core::model::TaskId;
use takt_core::record::{Outcome, RecordKind};
use takt_core::time::{Span, Time};
use takt_trace::Trace;
use takt_trace::diff::{Comparison, Side, compare, diff, diff_ignoring_cpus};

fn shifted(trace: &Trace, by: impl Fn(usize) -> Span) -> Trace {
    let mut trace = trace.clone();
    trace.records.iter_mut().enumerate().for_each(|(i, r)| r.applied += by(i));
    trace
}

#[test]
fn a_trace_equals_itself() {
    takt_testing::for_all(256, any_trace(), |trace| {
        let d = diff(&trace, &trace, Span::ZERO);
        prop_assert!(d.is_equal() && d.points.is_empty() && d.largest == Span::ZERO);
        let points = trace.records.iter().filter(|r| {
            matches!(
                r.record.kind,
                RecordKind::Start { .. }
                    | RecordKind::Stop { .. }
                    | RecordKind::Finish { .. }
                    | RecordKind::HandlerEnd { .. }
                    | RecordKind::Call { .. }
            )
        });
        prop_assert_eq!(d.compared, points.count());
        Ok(())
    });
}

/// However the records of the two traces come, interleaved at random, the result is the same.
#[test]
fn the_order_of_arrival_does_not_matter() {
    let drawn = (any_trace(), 0..200_i64, any::<prop::sample::Index>(), any::<u64>());
    takt_testing::for_all(256, drawn, |(trace, shift, pick, mut order)| {
        let mut other = shifted(&trace, |i| Span::from_ns(shift * (i as i64 % 3)));
        if !other.records.is_empty() {
            other.records.remove(pick.index(other.records.len()));
        }
        let length = trace.header.duration.map_or_else(|| trace.end(), |duration| Time::ZERO + duration);
        for ignore_cpus in [false, true] {
            let mut interleaved = |comparison: &mut Comparison| {
                let (mut a, mut b) = (trace.records.iter().peekable(), other.records.iter().peekable());
                while a.peek().is_some() || b.peek().is_some() {
                    order = order.rotate_left(1);
                    let (side, from) = if order & 1 == 0 { (Side::A, &mut a) } else { (Side::B, &mut b) };
                    from.next().into_iter().for_each(|record| comparison.record(side, record));
                    order ^= u64::from(order == 0 || order == u64::MAX);
                }
                Ok::<_, std::convert::Infallible>(())
            };
            let headers = [&trace.header, &other.header];
            let lengths = [length, other.header.duration.map_or_else(|| other.end(), |d| Time::ZERO + d)];
            let tolerance = Span::from_ns(100);
            let Ok(d) = compare(headers, lengths, tolerance, ignore_cpus, &mut interleaved);
            let whole = if ignore_cpus { diff_ignoring_cpus } else { diff };
            prop_assert_eq!(d, whole(&trace, &other, tolerance));
        }
        Ok(())
    });
}

#[test]
fn a_shift_is_measured() {
    takt_testing::for_all(256, (any_trace(), 1..1_000_i64), |(trace, shift)| {
        let later = shifted(&trace, |_| Span::from_ns(shift));
        let d = diff(&trace, &later, Span::from_ns(shift));
        prop_assert!(d.is_equal(), "{:?}", d);
        let strict = diff(&trace, &later, Span::from_ns(shift - 1));
        prop_assert_eq!(strict.beyond, strict.compared);
        prop_assert!(strict.order_equal && strict.points.iter().all(|p| p.delta() == Some(Span::from_ns(shift))));
        Ok(())
    });
}

#[test]
fn removed_records_are_reported() {
    takt_testing::for_all(256, (any_trace(), any::<prop::sample::Index>()), |(trace, pick)| {
        let points: Vec<usize> = (0..trace.records.len())
            .filter(|i| {
                let r = trace.records[*i];
                r.applied < trace.end()
                    && matches!(
                        r.record.kind,
                        RecordKind::Start { .. } | RecordKind::Stop { .. } | RecordKind::Finish { .. }
                    )
            })
            .collect();
        prop_assume!(!points.is_empty());
        let mut less = trace.clone();
        let gone = less.records.remove(*pick.get(&points));
        // Both must have the same length, or the end is left out of the comparison.
        less.footer = Some(takt_trace::Footer { end: trace.end(), dropped: 0 });
        let d = diff(&trace, &less, Span::ZERO);
        prop_assert!(!d.order_equal);
        prop_assert_eq!(d.points.len(), 1);
        prop_assert_eq!((d.points[0].a, d.points[0].b), (Some(gone.applied), None));
        Ok(())
    });
}

#[test]
fn the_order_between_cpus_does_not_matter_but_on_one_it_does() {
    let trace = edf();
    let start = |t: &Trace, task: u32| {
        let of = |w: &RecordKind| matches!(w, RecordKind::Start { task: t, job: 0, .. } if t.0 == task);
        t.records.iter().position(|r| of(&r.record.kind)).unwrap()
    };
    let mut other = trace.clone();
    let (a, b) = (start(&other, 0), start(&other, 1));
    other.records.swap(a, b);
    assert!(diff(&trace, &other, Span::ZERO).is_equal());

    // Both tasks do what they did before, but take turns on CPU 0 in another order.
    let mut other = windows();
    let first = other.records.iter().position(|r| r.record.at == ms(3)).unwrap();
    let second = other.records.iter().position(|r| r.record.at == ms(6)).unwrap();
    let third = other.records.iter().position(|r| r.record.at == ms(10)).unwrap();
    let moved: Vec<_> = other.records.drain(second..third).collect();
    moved.into_iter().rev().for_each(|r| other.records.insert(first, r));
    other.records.iter_mut().for_each(|r| r.applied = Time::ZERO);
    let flat = shifted(&windows(), |_| Span::ZERO);
    let d = diff(&flat, &other, Span::MAX);
    assert!(!d.order_equal && !d.only_cpus && d.beyond == 0 && d.points.is_empty(), "{d:?}");
    insta::assert_debug_snapshot!(d.places);
}

#[test]
fn differences_are_points_of_either_trace() {
    let a = edf();
    let mut b = shifted(&a, |i| Span::from_us(if i % 5 == 0 { 1500 } else { 20 }));
    // A job that ended otherwise, and one that ran once more.
    for r in &mut b.records {
        if let RecordKind::Finish { outcome, job: 1, task: TaskId(0), .. } = &mut r.record.kind {
            *outcome = Outcome::Aborted;
        }
    }
    let extra = b.records.iter().position(|r| matches!(r.record.kind, RecordKind::Start { job: 1, .. })).unwrap();
    let mut twice = b.records[extra];
    twice.applied += Span::from_us(5);
    b.records.insert(extra + 1, twice);
    let d = diff(&a, &b, Span::from_ms(1));
    assert_eq!((d.compared, d.beyond, d.largest, d.order_equal), (23, 4, Span::from_us(1500), false));
    let points = d.points.iter().map(|p| (p.task.as_str(), p.job, p.kind, p.detail.as_str(), p.a, p.b, p.delta()));
    insta::assert_snapshot!(points.map(|point| format!("{point:?}\n")).collect::<String>());
}

#[test]
fn traces_of_different_length_are_compared_as_far_as_both_go() {
    let long = windows();
    let mut short = long.clone();
    short.records.retain(|r| r.record.at < ms(15));
    short.footer = Some(takt_trace::Footer { end: ms(15), dropped: 0 });
    let d = diff(&long, &short, Span::ZERO);
    assert!(d.is_equal(), "{d:?}");
    assert_eq!(d.up_to, Some(ms(15)));
}

#[test]
fn tasks_go_by_their_names() {
    let a = edf();
    let mut b = edf();
    b.header.tasks.swap(0, 1);
    for r in &mut b.records {
        match &mut r.record.kind {
            RecordKind::Release { task, .. }
            | RecordKind::Start { task, .. }
            | RecordKind::Stop { task, .. }
            | RecordKind::Finish { task, .. }
                if task.0 < 2 =>
            {
                task.0 = 1 - task.0;
            }
            _ => {}
        }
    }
    assert!(diff(&a, &b, Span::ZERO).is_equal());
    b.header.tasks[0].name = "someone else".into();
    assert!(!diff(&a, &b, Span::ZERO).order_equal);
}

/// Jobs on each other's CPUs were "a different order".
#[test]
fn a_swap_of_cpus_differs_from_another_order() {
    let trace = edf();
    let mut swapped = trace.clone();
    for r in &mut swapped.records {
        if let RecordKind::Start { place, .. } | RecordKind::Stop { place, .. } = &mut r.record.kind {
            place.0 = 1 - place.0;
        }
    }
    let d = diff(&trace, &swapped, Span::ZERO);
    assert!(!d.order_equal && d.only_cpus, "{d:?}");
    assert!(diff_ignoring_cpus(&trace, &swapped, Span::ZERO).is_equal());
    assert!(!diff(&trace, &trace, Span::ZERO).only_cpus);

    // Later than the tolerance, or with another end of a job, it is more than that.
    let late = shifted(&swapped, |_| Span::from_us(2));
    let d = diff(&trace, &late, Span::from_us(1));
    assert!(!d.order_equal && !d.only_cpus);
    assert!(diff_ignoring_cpus(&trace, &late, Span::from_us(1)).beyond > 0);
    let mut other = swapped.clone();
    let end = other.records.iter_mut().find_map(|r| match &mut r.record.kind {
        RecordKind::Finish { outcome, .. } => Some(outcome),
        _ => None,
    });
    *end.unwrap() = Outcome::Aborted;
    assert!(!diff(&trace, &other, Span::ZERO).only_cpus);
    assert!(!diff_ignoring_cpus(&trace, &other, Span::ZERO).order_equal);
}
