//! Rounds and bursts against their set points.

use crate::common::{Story, any_trace, ms, rounds};
use proptest::prelude::*;
use takt_core::record::{Place, Record, RecordKind};
use takt_core::time::Span;
use takt_trace::Trace;
use takt_trace::rounds::{Rounds, csv, svg};

fn of(trace: &Trace) -> Rounds {
    let mut rounds = Rounds::default();
    trace.records.iter().for_each(|r| rounds.record(&r.record));
    rounds
}

#[test]
fn rounds_and_bursts_are_drawn_and_written() {
    let trace = rounds();
    let rounds = of(&trace);
    insta::assert_snapshot!("tracking_svg", svg(&trace.header, &rounds));
    let mut text = Vec::new();
    csv(&trace.header, &rounds, &mut text).unwrap();
    insta::assert_snapshot!("tracking_csv", String::from_utf8(text).unwrap());
}

#[test]
fn each_cpu_has_its_plots() {
    let mut s = Story::new("ipi", "partitioned", 2, &[("a", None), ("b", None)]);
    s.round(4, 0, 4, 4, 0).burst(4, 0, 4, 4, 4).round(5, 1, 6, 5, 1).burst(5, 1, 6, 5, 6);
    let trace = s.end(6);
    let picture = svg(&trace.header, &of(&trace));
    for heading in ["CPU 0: round duration", "CPU 0: bursts", "CPU 1: round duration", "CPU 1: bursts"] {
        assert_eq!(picture.matches(heading).count(), 1, "{heading}");
    }
}

#[test]
fn a_picture_of_many_rounds_is_small_and_says_what_it_leaves_out() {
    let mut rounds = Rounds::default();
    for k in 0..60_000 {
        let [set_point, measured, correction] = [12, 11 + k % 3, 0].map(Span::from_ms);
        let what = RecordKind::Round { place: Place(0), set_point, measured, correction };
        rounds.record(&Record { at: ms(12 * k), kind: what });
    }
    let trace = Story::new("ipi", "uniprocessor", 1, &[("a", None)]).end(1);
    let picture = svg(&trace.header, &rounds);
    assert!(picture.len() < 100_000, "{} bytes", picture.len());
    assert!(picture.contains("10000 later rounds are not drawn"));
}

#[test]
fn any_rounds_can_be_drawn() {
    takt_testing::for_all(256, any_trace(), |trace| {
        let mut trace = trace;
        // The names of tasks are the only words that may look like a number that is none.
        for task in &mut trace.header.tasks {
            task.name = task.name.replace("inf", "_").replace("NaN", "_");
        }
        let rounds = of(&trace);
        let picture = svg(&trace.header, &rounds);
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf"));
        prop_assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
        let mut text = Vec::new();
        csv(&trace.header, &rounds, &mut text).unwrap();
        let bursts: usize = rounds.all.iter().map(|r| 1 + r.bursts.len()).sum();
        // A task's name may hold line ends, which are quoted.
        prop_assert!(text.iter().filter(|b| **b == b'\n').count() > bursts);
        Ok(())
    });
}
