//! Charts of the sample traces, as golden files.

use crate::common::{Story, any_trace, ms, samples, windows};
use proptest::prelude::*;
use takt_core::model::{Call, TaskId};
use takt_core::record::RecordKind;
use takt_core::time::Span;
use takt_trace::DomainLabel;
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

#[test]
fn a_queued_job_misses_its_deadline_before_it_is_aborted() {
    use takt_core::record::Outcome::{Aborted, Completed};
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    s.release(0, 0, 0, Some(10)).start(0, 0, 0, 0).release(10, 0, 1, Some(20));
    s.done(30, 0, 0, 0, Completed, 30).finish(30, 0, 1, Aborted, 0);
    let chart = text(&s.end(40), &TextOptions { width: 50, ..TextOptions::default() });
    let marks: String = chart.lines().nth(5).unwrap_or("").chars().skip(8).filter(|c| *c != ' ').collect();
    assert_eq!(marks, "↑!!!", "{chart}");
}

#[test]
fn switches_of_policies_are_told_with_their_names() {
    let mut s = Story::new("domains", "table", 2, &[("a", None), ("b", None)]);
    let label = |name: &str| DomainLabel { name: name.into(), policy: "g-edf".into() };
    s.trace.header.domains = vec![label("left"), label("right")];
    s.trace.header.alternatives = vec!["g-gua".into(), "fp".into()];
    s.release(0, 0, 0, None).start(0, 0, 0, 0);
    for (at, domain, to) in [(5, Some(0), 0), (5, Some(1), 1), (9, Some(0), 1), (19, None, 1)] {
        s.push(at, RecordKind::Switch { domain, to });
    }
    let trace = s.end(20);
    let told = ["left: g-edf → g-gua", "right: g-edf → fp", "left: g-gua → fp", "domains → fp"];
    let chart = text(&trace, &TextOptions::default());
    let lines: Vec<&str> = chart.lines().filter(|l| l.starts_with("at ")).collect();
    let said = ["5ms", "5ms", "9ms", "19ms"].iter().zip(told).map(|(at, told)| format!("at {at} {told}"));
    assert_eq!(lines, said.collect::<Vec<_>>(), "{chart}");
    assert!(chart.starts_with("domains, story.yaml"), "{chart}");
    let picture = svg(&trace, &SvgOptions::default());
    // What happens in one instant is one line.
    let both = format!("at 5ms {}, {}", told[0], told[1]);
    for title in [both.as_str(), "at 9ms left: g-gua → fp", "at 19ms domains → fp"] {
        assert!(picture.contains(&format!("<title>{title}</title>")), "{title}: {picture}");
    }
    assert_eq!(picture.matches(r#"stroke-dasharray="6 3"><title>"#).count(), 3);
    let part = text(&trace, &TextOptions { from: ms(6), to: Some(ms(12)), ..TextOptions::default() });
    assert_eq!(part.lines().filter(|l| l.starts_with("at ")).collect::<Vec<_>>(), ["at 9ms left: g-gua → fp"]);
}

#[test]
fn settings_that_change_are_told_as_the_command_line_takes_them() {
    let mut s = Story::new("rr", "uniprocessor", 1, &[("a", None)]);
    s.release(0, 0, 0, None).start(0, 0, 0, 0);
    for (at, setting, value) in [(5, 0, Some(2_000_000)), (9, 0, Some(3_000_000)), (12, 0, None), (15, 9, Some(7))] {
        s.push(at, RecordKind::Configure { setting, value });
    }
    let chart = text(&s.end(20), &TextOptions::default());
    let lines: Vec<&str> = chart.lines().filter(|l| l.starts_with("at ")).collect();
    let told = ["rr → rr:quantum=2ms", "rr:quantum=2ms → rr:quantum=3ms", "rr:quantum=3ms → rr", "rr → rr:setting 9=7"];
    let said = ["5ms", "9ms", "12ms", "15ms"].iter().zip(told).map(|(at, told)| format!("at {at} {told}"));
    assert_eq!(lines, said.collect::<Vec<_>>(), "{chart}");
}

#[test]
fn calls_are_told_with_what_became_of_them() {
    let mut s = Story::new("cbs", "uniprocessor", 1, &[("film", None)]);
    s.release(0, 0, 0, Some(10)).start(0, 0, 0, 0);
    for (at, call, granted) in
        [(5, Call::Period(Span::from_ms(40)), true), (6, Call::Runtime(Span::from_ms(39)), false)]
    {
        s.push(at, RecordKind::Call { task: TaskId(0), job: 0, call, granted });
    }
    let trace = s.end(20);
    let chart = text(&trace, &TextOptions::default());
    let lines: Vec<&str> = chart.lines().filter(|l| l.starts_with("at ")).collect();
    assert_eq!(lines, ["at 5ms A film: set-period 40ms", "at 6ms A film: set-runtime 39ms refused"], "{chart}");
    let picture = svg(&trace, &SvgOptions::default());
    for title in ["film job 0: set-period 40ms at 5ms", "film job 0: set-runtime 39ms refused at 6ms"] {
        assert!(picture.contains(&format!("<title>{title}</title>")), "{title}: {picture}");
    }
    assert!(picture.contains("calls; red: refused"), "{picture}");
}

#[test]
fn any_trace_can_be_drawn() {
    takt_testing::for_all(256, (any_trace(), 0..200_usize, 0..9_000_i64), |(trace, width, from)| {
        let from = takt_core::time::Time::from_ns(from);
        let chart = text(&trace, &TextOptions { width, from, ..TextOptions::default() });
        // The first line, the legend, and what is told below may be longer.
        let most = width.max(40).max(12) + 30;
        let body = chart.lines().skip(1).filter(|l| !l.contains("   ") && !l.starts_with("at "));
        prop_assert!(body.map(|l| l.chars().count()).max().unwrap_or(0) <= most, "{chart}");
        let picture = svg(&trace, &SvgOptions { from, ..SvgOptions::default() });
        // Every element is closed and no name breaks out of its place.
        prop_assert!(!picture.contains("=\"NaN") && !picture.contains("=\"inf"));
        prop_assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
        prop_assert_eq!(picture.matches("<title>").count(), picture.matches("</title>").count());
        Ok(())
    });
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
