//! Charts of the sample traces, as golden files.

use crate::common::{Story, any_trace, ms, samples, windows};
use proptest::prelude::*;
use takt_trace::gantt::{SvgOptions, TextOptions, svg, text};

#[test]
fn text_charts() {
    for (name, trace) in samples() {
        insta::assert_snapshot!(format!("text_{name}"), text(&trace, &TextOptions::default()));
    }
}

#[test]
fn svg_charts() {
    for (name, trace) in samples() {
        let picture = svg(&trace, &SvgOptions::default());
        insta::assert_snapshot!(format!("svg_{name}"), picture);
    }
}

#[test]
fn a_part_in_colour_and_narrow() {
    let options = TextOptions { width: 60, from: ms(5), to: Some(ms(20)), color: true };
    insta::assert_snapshot!(text(&windows(), &options).replace('\x1b', "␛"));
    let nothing = TextOptions { from: ms(40), ..options };
    assert_eq!(text(&windows(), &nothing), "windows (table), story.yaml, simulated: nothing between 40ms and 20ms\n");
}

proptest! {
    #[test]
    fn any_trace_can_be_drawn(trace in any_trace(), width in 0..200_usize, from in 0..9_000_i64) {
        let from = takt_core::time::Time::from_ns(from);
        let chart = text(&trace, &TextOptions { width, from, ..TextOptions::default() });
        // The first line and the legend may be longer.
        let most = width.max(40).max(12) + 30;
        let body = chart.lines().skip(1).filter(|l| !l.contains("   "));
        prop_assert!(body.map(|l| l.chars().count()).max().unwrap_or(0) <= most, "{chart}");
        let picture = svg(&trace, &SvgOptions { from, ..SvgOptions::default() });
        // Every element is closed and no name breaks out of its place.
        prop_assert!(!picture.contains("=\"NaN") && !picture.contains("=\"inf"));
        prop_assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
        prop_assert_eq!(picture.matches("<title>").count(), picture.matches("</title>").count());
    }
}

#[test]
fn a_long_trace_gives_a_small_picture_that_does_not_pretend() {
    use takt_core::record::Outcome;
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None), ("b", None)]);
    for job in 0..20_000 {
        let (at, n) = (2 * job, job as u64);
        s.release(at, 0, n, Some(at + 2)).release(at, 1, n, Some(at + 2)).start(at, 0, n, 0);
        s.done(at + 1, 0, n, 0, Outcome::Completed, 1).start(at + 1, 1, n, 0);
        s.done(at + 2, 1, n, 0, Outcome::Completed, 1);
    }
    let picture = svg(&s.end(40_000), &SvgOptions::default());
    assert!(picture.len() < 20_000, "{} bytes", picture.len());
    assert!(picture.contains("several tasks: 40000 pieces"));
}
