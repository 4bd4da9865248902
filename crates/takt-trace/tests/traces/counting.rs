//! Counting, on samples whose numbers were worked out by hand.

use crate::common::{Story, behind, edf, overload, windows};
use takt_core::model::{Completion, TaskId};
use takt_core::record::{Outcome, RecordKind};
use takt_core::stats::Counts;
use takt_core::time::Span;
use takt_trace::gantt::{TextOptions, text};
use takt_trace::summary::{Summary, summarize};

fn table(s: &Summary) -> String {
    let all = s.tasks.iter().map(|t| (t.name.as_str(), &t.counts, &t.responses));
    let row = |(name, c, r): (&str, &Counts, &takt_core::stats::Histogram)| {
        let jobs = match c.jobless {
            true => "no jobs".to_owned(),
            false => format!(
                "released {} completed {} met {} missed {} aborted {} behind {} late signals {} cut off {}",
                c.released, c.completed, c.met, c.missed, c.aborted, c.behind, c.late_signals, c.cut_off
            ),
        };
        let others = format!(
            "activations {} overruns {} dispatches {} preemptions {} migrations {}",
            c.activations, c.overruns, c.dispatches, c.preemptions, c.migrations
        );
        format!("{name}: {jobs} {others} responses {} to {}", r.min(), r.max())
    };
    let rows: Vec<String> = all.chain([("all", &s.total, &s.responses)]).map(row).collect();
    rows.join("\n") + &format!("\ncontext switches {}, windows lost {}", s.context_switches, s.windows_lost)
}

#[test]
fn the_samples_are_counted() {
    let all = [edf(), windows(), overload(), behind()].map(|t| table(&summarize(&t)));
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn a_deadline_at_the_end_of_the_run_is_judged_and_a_later_one_is_not() {
    let mut trace = edf();
    // The second job of `log` is due at 40 ms, the third of `radar` at 36 ms.
    let undecided = |t: &takt_trace::Trace| {
        let s = summarize(t).total;
        s.released - s.met - s.missed
    };
    assert_eq!(undecided(&trace), 2);
    trace.footer = trace.footer.map(|f| takt_trace::Footer { end: f.end + Span::from_ms(8), ..f });
    assert_eq!(undecided(&trace), 1);
    trace.footer = trace.footer.map(|f| takt_trace::Footer { end: f.end + Span::from_ms(4), ..f });
    assert_eq!(undecided(&trace), 0);
}

/// Whether an undeclared process signals shows at its first signal, be that late or in time.
#[test]
fn a_late_signal_shows_that_activations_were_cut_off() {
    let story = |signal: Option<u64>| {
        let mut s = Story::new("windows", "table", 1, &[("a", Some("P"))]);
        s.trace.header.tasks[0].completion = Some(Completion::Undeclared);
        for (job, at) in [(0, 0), (1, 10)] {
            s.release(at, 0, job, Some(at + 10)).start(at, 0, job, 0).done(at + 3, 0, job, 0, Outcome::BudgetUsed, 3);
        }
        if let Some(job) = signal {
            s.push(15, RecordKind::LateSignal { task: TaskId(0), job });
        }
        let trace = s.end(20);
        let continues = takt_trace::timeline::Timeline::of(&trace).jobs[0][1].continues;
        assert_eq!(continues, signal.and(Some(0)), "the second activation continues the first one");
        let c = summarize(&trace).total;
        let chart = text(&trace, &TextOptions { width: 50, ..TextOptions::default() });
        ([c.activations, c.cut_off, c.released, c.completed, c.missed, c.late_signals], chart.matches("!").count())
    };
    // The first activation gives the job its number. A signal that names another one ends nothing.
    assert_eq!(story(Some(0)), ([2, 2, 1, 1, 1, 1], 3));
    assert_eq!(story(Some(1)), ([2, 2, 1, 0, 1, 1], 3));
    assert_eq!(story(None), ([2, 0, 0, 0, 0, 0], 0));
}
