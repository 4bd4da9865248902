//! Parts of a page that its writer and its encoder share: limits, codes of words, counts and the chart without JavaScript.

use crate::gantt::{SvgOptions, svg};
use crate::timeline::{Job, Timeline};
use crate::{Trace, names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use takt_core::record::{Outcome, StopReason};
use takt_core::stats::Counts;
use takt_core::time::Time;

/// A page with more pieces would not open in a browser's memory.
pub const PIECES_MAX: usize = 20_000_000;
/// The chart for browsers without JavaScript has at most so many bytes.
const DRAWN_BYTES: usize = 60_000;
/// It has about so many pieces.
pub(super) const DRAWN_PIECES: usize = 200;

/// A trace with more than [`PIECES_MAX`] pieces.
#[derive(Debug, thiserror::Error)]
#[error("the trace has more than {PIECES_MAX} pieces, the most for a page")]
pub struct TooLarge;

/// The beginning of a trace as SVG.
pub(super) fn drawing(trace: &Trace) -> String {
    let line = Timeline::of(trace);
    let mut pieces = DRAWN_PIECES;
    loop {
        let mut starts: Vec<Time> = line.intervals.iter().map(|interval| interval.from).collect();
        starts.sort_unstable();
        let to = starts.get(pieces).copied().filter(|to| *to > Time::ZERO);
        let picture = svg(trace, &SvgOptions { to, ..SvgOptions::default() });
        if picture.len() <= DRAWN_BYTES || pieces < 2 {
            return picture;
        }
        pieces /= 2;
    }
}

/// A name as the page shows it.
pub(super) fn shown(name: &str) -> String {
    name.chars().map(|c| if names::is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// The counts of which a page has the names; the others are in the summary of a command.
pub(super) fn counts(counts: &Counts) -> Value {
    let all = [
        ("activations", counts.activations),
        ("released", counts.released),
        ("completed", counts.completed),
        ("met", counts.met),
        ("missed", counts.missed),
        ("aborted", counts.aborted),
        ("cut_off", counts.cut_off),
        ("dispatches", counts.dispatches),
        ("preemptions", counts.preemptions),
        ("migrations", counts.migrations),
    ];
    let mut object: BTreeMap<&str, Value> = all.into_iter().map(|(name, count)| (name, count.into())).collect();
    object.insert("jobless", counts.jobless.into());
    json!(object)
}

/// The order of the words in the page's program.
pub(super) fn reason_code(reason: Option<StopReason>) -> u64 {
    match reason {
        None => 0,
        Some(StopReason::Preempted) => 1,
        Some(StopReason::Suspended) => 2,
        Some(StopReason::Migrated) => 3,
        Some(StopReason::Finished) => 4,
        Some(StopReason::Blocked) => 5,
    }
}

pub(super) fn outcome_code(job: &Job) -> u64 {
    match job.finish.map(|(_, outcome)| outcome) {
        None => 0,
        Some(Outcome::Completed) => 1,
        Some(Outcome::BudgetUsed) => 2,
        Some(Outcome::Overrun) => 3,
        Some(Outcome::Aborted) => 4,
        Some(Outcome::Exited) => 5,
        Some(Outcome::Skipped) => 6,
    }
}
