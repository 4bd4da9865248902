//! `takt sweep load`: what policies make of the same jobs as the load rises.

mod args;
mod cases;
mod report;
mod runs;

use super::experiment;
use super::state::Subject;
use crate::failure::Failure;
use crate::files::{self, ready};
use crate::outcome::{Outcome, Verdict};
pub(super) use args::{Args, Policies, Seeds, late_text, policies, seeds};
use cases::Cases;
pub(super) use report::{cells, described, millionths, quoted, runs_of};
use std::io::{self, Write};
use takt_core::time::Span;
use takt_workload::Code;

/// The name of the subcommand in a state.
pub(super) const COMMAND: &str = "load";
/// Runs of one load that one thread takes at a time.
const BLOCK: u64 = 5;

pub(super) fn run(args: &Args) -> Outcome {
    let cases = Cases::new(args)?;
    let names = cases.names();
    let against = args.against.as_deref().map(|name| position(name, &names)).transpose()?;
    args.common.drawn(args.common.pictures().next().is_some())?;
    let _outputs = ready(args.file.iter().chain(&args.common.state), args.runs.iter().chain(args.common.pictures()))?;
    // Sets that cannot be drawn or scheduled are reported before the work.
    for load in 0..args.loads.0.len() {
        cases.run_block((load, 0, 1), Span::from_ns(1))?;
    }
    let layout = args.common.layout(vec![cases.runs(); args.loads.0.len()], BLOCK)?;
    let subject = Subject { command: COMMAND, setup: cases.setup(), questions: names.len(), layout };
    let work = |block| cases.run_block(block, args.duration);
    let Some(found) = experiment::carry_out(&args.common, &subject, "runs", work)? else { return Ok(Verdict::Done) };
    cases.notes();
    let table = report::Table::new(&cases, found.into_iter().map(|(_, runs)| runs).collect(), against);
    for remark in &table.remarks {
        // The result stands without it.
        let _ = writeln!(io::stderr(), "note: {remark}");
    }
    if let Some(path) = &args.runs {
        files::write(path, table.single_runs())?;
    }
    table.draw(&subject.setup)?;
    table.print(args.common.json, subject.setup)?;
    Ok(Verdict::Done)
}

/// Which of the policies this is.
fn position(name: &str, names: &[String]) -> Result<usize, Failure> {
    let unknown = || {
        let message = format!("`--against {name}` is none of the policies");
        Failure::input(Code::UnknownName, message, &format!("name one of {}", names.join(", ")))
    };
    names.iter().position(|n| n == name).ok_or_else(unknown)
}
