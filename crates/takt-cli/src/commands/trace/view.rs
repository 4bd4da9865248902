//! `takt trace view`: a trace as one page for a browser.

use crate::failure::Failure;
use crate::files::{self, ready};
use crate::outcome::{Outcome, Verdict};
use crate::progress::Progress;
use std::path::Path;
use takt_core::time::Span;
use takt_trace::Trace;
use takt_trace::page::{self, PageOptions};
use takt_workload::Code;

/// Writes the page of a trace, with the text of its workload and another trace below each lane.
pub(super) fn view(
    (trace, first): (&Path, &Trace),
    workload: Option<(&Path, &str)>,
    with: Option<(&Path, &Trace)>,
    output: &Path,
    tolerance: Span,
) -> Outcome {
    if output.extension().is_none_or(|e| e != "html") {
        let message = format!("`{}` does not end in .html", output.display());
        return Err(Failure::input(Code::WrongFormat, message, "a page is written as HTML: name it .html"));
    }
    let inputs: Vec<_> = [Some(trace), workload.map(|(path, _)| path), with.map(|(path, _)| path)]
        .into_iter()
        .flatten()
        .map(Path::to_path_buf)
        .collect();
    if let Some((path, other)) = with {
        let tasks = |trace: &Trace| trace.header.labels();
        if !tasks(first).iter().any(|label| tasks(other).contains(label)) {
            let message = format!("`{}` and `{}` have no task in common", trace.display(), path.display());
            return Err(Failure::input(Code::OtherRecord, message, "give two traces of the same workload"));
        }
    }
    let _outputs = ready(&inputs, [&output.to_path_buf()])?;
    let progress = Progress::busy("drawing");
    let (workload, with) = (workload.map(|(_, text)| text), with.map(|(_, other)| other));
    let options = PageOptions { with, workload, tolerance };
    let page = page::page(first, &options);
    progress.finish();
    let page = page.map_err(|large| Failure::too_large(&large))?;
    files::write(output, page)?;
    Ok(Verdict::Done)
}
