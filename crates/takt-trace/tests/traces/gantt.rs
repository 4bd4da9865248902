//! Charts of the sample traces, as golden files.

use crate::common::{Story, any_trace, ms, samples, windows};
use proptest::prelude::*;
use takt_core::model::{Call, TaskId};
use takt_core::record::RecordKind;
use takt_core::time::Span;
use takt_trace::DomainLabel;
use takt_trace::gantt::{SvgOptions, TextOptions, first_hyperperiod, svg, text};

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
    // All events of one instant are one line.
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
        // The first line, the legend, and the notes below may be longer.
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
    assert!(picture.contains("several tasks: 40000 pieces, 0s to 40s, running for 100.0 % of that"));
}

/// One job each of two tasks in every so many milliseconds, from the beginning and right after it.
fn periodic(names: [&str; 2], period: i64, runs: [i64; 2], end: i64) -> takt_trace::Trace {
    use takt_core::record::Outcome::Completed;
    let mut s = Story::new("edf", "uniprocessor", 1, &[(names[0], None), (names[1], None)]);
    for at in (0..end).step_by(period as usize) {
        let (job, mid, last) = ((at / period) as u64, at + runs[0], at + runs[0] + runs[1]);
        s.release(at, 0, job, None).release(at, 1, job, None).start(at, 0, job, 0);
        s.done(mid, 0, job, 0, Completed, runs[0]).start(mid, 1, job, 0).done(last, 1, job, 0, Completed, runs[1]);
    }
    s.end(end)
}

/// The rows of a text chart below the axis, each without its label.
fn rows(chart: &str) -> Vec<String> {
    let label = chart.lines().nth(1).unwrap_or("").find("0s").expect("an axis");
    chart.lines().skip(3).map(|line| line.chars().skip(label).collect()).collect()
}

#[test]
fn a_column_of_text_shows_the_part_in_which_it_runs() {
    // In a column of 100 ms are 25 periods of 4 ms: 1 ms of `a`, 2 ms of `b`, and 1 ms idle.
    let chart = text(&periodic(["a", "b"], 4, [1, 2], 4000), &TextOptions { width: 60, ..TextOptions::default() });
    assert!(chart.contains("a column is 100ms"), "{chart}");
    let of = |c: &str| c.repeat(40);
    assert_eq!(rows(&chart)[..3], [of("▆"), of("▂"), of("▄")], "{chart}");
    assert!(chart.contains("▁ to ▇ runs with pauses: part of the column"), "{chart}");
    // Without a pause the CPU is solid, and its column is that of the task that has most of it.
    let chart = text(&periodic(["a", "b"], 4, [1, 3], 4000), &TextOptions { width: 60, ..TextOptions::default() });
    assert_eq!(rows(&chart)[..3], [of("B"), of("▂"), of("▆")], "{chart}");
}

#[test]
fn a_pause_that_no_blank_column_shows_is_seen() {
    use takt_core::record::Outcome::Completed;
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    // In columns of 10 ms: a job alone in its column, and two long ones with a pause of 2 ms between them in column 19.
    for (job, (from, to)) in [(12, 15), (100, 195), (197, 300)].into_iter().enumerate() {
        let n = job as u64;
        s.release(from, 0, n, None).start(from, 0, n, 0).done(to, 0, n, 0, Completed, to - from);
    }
    let chart = text(&s.end(400), &TextOptions { width: 60, ..TextOptions::default() });
    let letters = format!(" A{}{}▆{}", " ".repeat(8), "A".repeat(9), "A".repeat(10));
    assert_eq!(rows(&chart)[0], letters, "{chart}");
    assert_eq!(rows(&chart)[1], letters.replacen('A', "░", 1).replace('A', "█"), "{chart}");
}

#[test]
fn a_pixel_shows_the_part_in_which_it_runs() {
    // A label of ten characters leaves 1000 pixels of 1154, each for 10 ms: two periods of 5 ms, with 1 ms of the first task, 2 ms
    // of the second, and 2 ms idle.
    let trace = periodic(["sensor-abc", "b"], 5, [1, 2], 10_000);
    let picture = svg(&trace, &SvgOptions { width: 1154, ..SvgOptions::default() });
    for (what, outline) in [
        // 60 % of 18 pixels, in steps of half a pixel.
        ("the CPU", "M114 66H114V55H1114V66z"),
        // 20 % of 15 pixels.
        ("the first task", "M114 98H114V95H1114V98z"),
        // 40 %, though its first job begins after 1 ms.
        ("the second task", "M114 124H114V118H1114V124z"),
    ] {
        assert!(picture.contains(&format!(r#"<path d="{outline}""#)), "{what}: {picture}");
    }
    assert!(picture.contains("several tasks: 4000 pieces, 0s to 9.998s, running for 60.0 % of that"), "{picture}");
    assert!(picture.contains("height: the part of a column of 10ms in which the CPU or task runs"), "{picture}");
    // Over 100 ms each job has its own bar.
    let part = svg(&trace, &SvgOptions { width: 1154, to: Some(ms(100)), ..SvgOptions::default() });
    assert!(!part.contains("pieces") && !part.contains("height: the part"), "{part}");
}

#[test]
fn a_job_alone_is_load_as_its_neighbours_are() {
    use takt_core::record::Outcome::Completed;
    let mut s = Story::new("edf", "uniprocessor", 1, &[("sensor-abc", None)]);
    // In pixels of 10 ms: two jobs of 2 ms in the first, one of 5 ms in pixel 5, and one from the middle of pixel 10 to 13.
    for (job, (from, to)) in [(0, 2), (5, 7), (52, 57), (105, 130)].into_iter().enumerate() {
        let n = job as u64;
        s.release(from, 0, n, None).start(from, 0, n, 0).done(to, 0, n, 0, Completed, to - from);
    }
    let picture = svg(&s.end(10_000), &SvgOptions { width: 1154, ..SvgOptions::default() });
    // 4 of 10 ms, and 5 of 10 ms.
    for outline in ["M114 98H114V92H115V98z", "M119 98H119V90.5H120V98z"] {
        assert!(picture.contains(&format!(r#"<path d="{outline}""#)), "{outline}: {picture}");
    }
    assert!(picture.contains(r##"<rect x="124.5" y="83" width="2.5" height="15" fill="#0072b2">"##), "{picture}");
}

/// Jobs of one task with a period of 10 ms, of which each third one is late.
fn many(jobs: i64) -> takt_trace::Trace {
    use takt_core::record::Outcome::Completed;
    let mut s = Story::new("edf", "uniprocessor", 1, &[("sensor-abc", None)]);
    for job in 0..jobs {
        let (at, n, runs) = (10 * job, job as u64, if job % 3 == 0 { 9 } else { 2 });
        s.release(at, 0, n, Some(at + 8)).start(at, 0, n, 0).done(at + runs, 0, n, 0, Completed, runs);
    }
    s.end(10 * jobs)
}

/// Ten jobs of 1 ms in 1 s: the arrow of a release would cover each bar.
#[test]
fn arrows_do_not_cover_short_executions() {
    use takt_core::record::Outcome::Completed;
    let picture = |runs: i64| {
        let mut s = Story::new("edf", "uniprocessor", 1, &[("sensor", None)]);
        for (n, at) in (0..10).map(|n| (n as u64, 100 * n)) {
            s.release(at, 0, n, Some(at + 100)).start(at, 0, n, 0).done(at + runs, 0, n, 0, Completed, runs);
        }
        svg(&s.end(1000), &SvgOptions { width: 1154, ..SvgOptions::default() })
    };
    let has = |picture: &str| ["ticks: releases above", ">release<"].map(|entry| picture.contains(entry));
    assert_eq!((has(&picture(1)), has(&picture(20))), ([true, false], [false, true]));
}

#[test]
fn arrows_of_many_jobs_are_ticks() {
    let options = SvgOptions { width: 1154, ..SvgOptions::default() };
    let entries = ["ticks: releases above, deadlines below", ">release<", ">deadline<"];
    let has = |picture: &str| entries.map(|entry| picture.contains(entry));
    let few = svg(&many(60), &options);
    assert_eq!(has(&few), [false, true, true], "{few}");
    let ticked = svg(&many(200), &options);
    assert_eq!(has(&ticked), [true, false, false], "{ticked}");
    assert!(ticked.contains(">deadline missed<") && !ticked.contains("l3 6h-6z"), "{ticked}");
    // One path for the releases, with one tick in 5 pixels.
    let releases = ticked.lines().find(|line| line.starts_with(r#"<path d="M114 83v5M119 83v5"#));
    assert_eq!(releases.map(|path| path.matches('M').count()), Some(200), "{ticked}");
    // Where ticks would touch, only misses are left.
    let missed = svg(&many(2000), &options);
    assert_eq!(has(&missed), [false; 3], "{missed}");
    assert!(missed.contains(">deadline missed<"), "{missed}");
    let chart = |jobs| text(&many(jobs), &TextOptions { width: 60, ..TextOptions::default() });
    assert!(chart(8).contains('↑') && !chart(8).contains('╵'), "{}", chart(8));
    assert!(!chart(30).contains('↑') && chart(30).contains("╷ deadline"), "{}", chart(30));
}

#[test]
fn the_legend_names_only_what_is_drawn() {
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None)]);
    use takt_core::record::Outcome::Completed;
    s.release(0, 0, 0, Some(10)).start(0, 0, 0, 0).done(4, 0, 0, 0, Completed, 4);
    s.release(20, 0, 1, Some(30)).start(25, 0, 1, 0).done(32, 0, 1, 0, Completed, 7);
    let trace = s.end(40);
    let legend = |to| {
        let picture = svg(&trace, &SvgOptions { to: Some(ms(to)), ..SvgOptions::default() });
        let known = ["release", "deadline", "released, not running", "deadline missed", "runs late", "sleeps"];
        known.into_iter().filter(|what| picture.contains(&format!(">{what}<"))).collect::<Vec<_>>()
    };
    assert_eq!(legend(19), ["release", "deadline"]);
    assert_eq!(legend(28), ["release", "deadline", "released, not running"]);
    assert_eq!(legend(40), ["release", "deadline", "released, not running", "deadline missed", "runs late"]);
}

/// An activation that continues a job after it was cut off is late work.
#[test]
fn late_work_of_a_window_table_is_hatched() {
    use takt_core::model::Completion;
    use takt_core::record::Outcome::{BudgetUsed, Completed};
    let mut s = Story::new("windows", "table", 1, &[("sensor-abc", None)]);
    s.trace.header.tasks[0].completion = Some(Completion::Signal);
    s.trace.header.window_lengths = vec![Span::from_ms(10)];
    for (job, (outcome, runs)) in [(BudgetUsed, 5), (Completed, 4), (Completed, 2)].into_iter().enumerate() {
        let (at, n) = (10 * job as i64, job as u64);
        s.window(at, 0, n).release(at, 0, n, Some(at + 10)).start(at, 0, n, 0);
        s.done(at + runs, 0, n, 0, outcome, runs);
    }
    // 1000 pixels for 40 ms: the activation from 10 ms to 14 ms.
    let picture = svg(&s.end(40), &SvgOptions { width: 1154, ..SvgOptions::default() });
    let hatched: Vec<&str> =
        picture.lines().filter(|line| line.contains("url(#late)") && line.contains("pointer")).collect();
    assert_eq!(hatched.len(), 1, "{picture}");
    assert!(hatched[0].starts_with(r#"<rect x="364" "#) && hatched[0].contains(r#"width="100""#), "{hatched:?}");
    assert!(picture.contains(">runs late<"), "{picture}");
}

#[test]
fn a_hyperperiod_is_that_of_all_releases() {
    let trace = periodic(["a", "b"], 4, [1, 2], 4000);
    assert_eq!(first_hyperperiod(&trace, 100), Some(ms(4)));
    // Nothing is left out of a short trace.
    assert_eq!(first_hyperperiod(&trace, 2000), None);
    assert_eq!(first_hyperperiod(&periodic(["a", "b"], 4, [1, 2], 4), 0), None);
    let mut s = Story::new("edf", "uniprocessor", 1, &[("a", None), ("b", None)]);
    use takt_core::record::Outcome::Completed;
    for (at, task) in [(0, 0), (5, 1), (6, 0), (12, 0), (14, 1), (18, 0), (23, 1), (24, 0), (30, 0), (32, 1), (100, 0)]
    {
        let job = if task == 0 { at as u64 / 6 } else { (at as u64 - 5) / 9 };
        s.release(at, task, job, None).start(at, task, job, 0).done(at + 1, task, job, 0, Completed, 1);
    }
    // The last release is not 6 ms after the one before it.
    assert_eq!(first_hyperperiod(&s.end(200), 0), None);
    s.trace.records.retain(|r| r.record.at < ms(100));
    assert_eq!(first_hyperperiod(&s.end(200), 0), Some(ms(5 + 18)));
    s.trace.header.window_lengths = vec![Span::from_ms(20), Span::from_ms(30)];
    assert_eq!(first_hyperperiod(&s.end(200), 0), Some(ms(50)));
}
