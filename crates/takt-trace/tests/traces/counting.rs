//! Counting, on samples whose numbers were worked out by hand.

use crate::common::{edf, overload, windows};
use takt_core::time::Span;
use takt_trace::summary::{Summary, summarize};

fn table(s: &Summary) -> String {
    let all = s.tasks.iter().map(|t| (t.name.as_str(), &t.counts, &t.responses));
    let row = |(name, c, r): (&str, &takt_core::stats::Counts, &takt_core::stats::Histogram)| {
        format!(
            "{name}: released {} completed {} met {} missed {} aborted {} overruns {} dispatches {} preemptions {} migrations {} responses {} to {}",
            c.released,
            c.completed,
            c.met,
            c.missed,
            c.aborted,
            c.overruns,
            c.dispatches,
            c.preemptions,
            c.migrations,
            r.min(),
            r.max()
        )
    };
    let rows: Vec<String> = all.chain([("all", &s.total, &s.responses)]).map(row).collect();
    rows.join("\n") + &format!("\ncontext switches {}, windows lost {}", s.context_switches, s.windows_lost)
}

#[test]
fn the_samples_are_counted() {
    let all = [edf(), windows(), overload()].map(|t| table(&summarize(&t)));
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
