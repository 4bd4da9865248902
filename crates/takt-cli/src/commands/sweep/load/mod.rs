//! `takt sweep load`: what policies make of the same jobs as the load rises.

mod args;
mod cases;
mod report;
mod runs;

use super::experiment::{self, Singles};
use super::singles;
use super::state::{Results, Subject};
use crate::files::{self, ready};
use crate::outcome::{Outcome, Verdict};
pub(super) use args::{Args, Policies, Seeds, late_text, policies, seeds};
use cases::Cases;
pub(super) use report::{cells, described, millionths, runs_of};
use std::io::{self, Write};
use takt_core::time::Span;

/// The name of the subcommand in a state.
pub(super) const COMMAND: &str = "load";
/// Runs of one load that one thread takes at a time.
const BLOCK: u64 = 5;

pub(super) fn run(args: &Args) -> Outcome {
    let cases = Cases::new(args)?;
    let names = cases.names();
    args.common.drawn(args.common.pictures().next().is_some())?;
    args.common.kept(args.keep_runs, "runs")?;
    let _outputs =
        ready(args.file.iter().chain(&args.common.states()), args.runs.iter().chain(args.common.pictures()))?;
    // Sets that cannot be drawn or scheduled are reported before the work.
    for load in 0..args.loads.0.len() {
        cases.run_block((load, 0, 1), Span::from_ns(1), false)?;
    }
    let layout = args.common.layout(vec![cases.runs(); args.loads.0.len()], BLOCK)?;
    let (setup, files) = (cases.setup(), cases.files());
    let subject = Subject { command: COMMAND, setup, files, unit: "runs", questions: names.len(), layout };
    let work = |block, keeps| cases.run_block(block, args.duration, keeps);
    let singles = Singles { kept: args.keep_runs, wanted: args.runs.is_some() };
    let found = experiment::carry_out(&args.common, &subject, singles, work)?;
    let Some(Results { points, rows }) = found else { return Ok(Verdict::Done) };
    cases.notes();
    let table = report::Table::new(&cases, points);
    for remark in &table.remarks {
        // The result stands without it.
        let _ = writeln!(io::stderr(), "note: {remark}");
    }
    if let Some(path) = &args.runs {
        files::write(path, singles::csv(&cases.title(), &rows))?;
    }
    table.draw(&subject.setup)?;
    table.print(args.common.json, subject.setup)?;
    Ok(Verdict::Done)
}
