//! `takt trace view`: a trace as one page for a browser.

use super::{Counted, Frame, again, opened, parts, read, unread, workload_of};
use crate::failure::Failure;
use crate::files::{self, ready};
use crate::outcome::{Outcome, Verdict};
use crate::progress::Progress;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use takt_core::time::Span;
use takt_trace::page::{self, Page, PageOptions};
use takt_trace::{Part, Trace};
use takt_workload::Code;

/// Writes the page of a trace, with the text of its workload and another trace below each lane.
pub(super) fn view(
    trace: &Path,
    workload: Option<&Path>,
    with: Option<&Path>,
    output: &PathBuf,
    tolerance: Span,
) -> Outcome {
    if output.extension().is_none_or(|e| e != "html") {
        let message = format!("`{}` does not end in .html", output.display());
        return Err(Failure::input(Code::WrongFormat, message, "a page is written as HTML: name it .html"));
    }
    let inputs: Vec<_> = [Some(trace), workload, with].into_iter().flatten().map(Path::to_path_buf).collect();
    match with {
        Some(with) => both(trace, workload, with, (&inputs, output), tolerance)?,
        None => alone(trace, workload, (&inputs, output))?,
    }
    Ok(Verdict::Done)
}

/// Reads the trace while its page is made, so that it is never in memory as a whole.
fn alone(trace: &Path, workload: Option<&Path>, (inputs, output): (&[PathBuf], &PathBuf)) -> Result<(), Failure> {
    let (format, input, bytes) = opened(trace)?;
    let progress = Progress::part(bytes, "of the trace read");
    let begin = || parts(trace, format, Counted { inner: &input, progress: &progress });
    let mut begun = begin()?;
    let mut header = begun.header().clone();
    let mut text = None;
    // Some names come after the header: those of added tasks and of loaded policies.
    if workload.is_some() || header.alternatives.iter().any(|policy| policy.starts_with("loaded-")) {
        let whole = Frame::read(trace, begun)?.trace;
        header.alternatives.clone_from(&whole.header.alternatives);
        text = workload.map(|file| Ok::<_, Failure>(workload_of(&whole, file)?.source.text)).transpose()?;
        again(trace, &input)?;
        progress.set(0);
        begun = begin()?;
    }
    let _outputs = ready(inputs, [output])?;
    let mut page = Page::new(&header, text.as_deref());
    let mut footer = None;
    for part in begun {
        let part = part.map_err(|e| unread(trace, &e))?;
        if let Part::End(end) = part {
            footer = Some(end);
        }
        page.part(&part).map_err(|large| Failure::too_large(&large))?;
    }
    progress.finish();
    let mut out = BufWriter::new(files::create(output)?);
    page.write(footer, &mut out).map_err(|e| Failure::write(output, &e))
}

/// A comparison has both traces in memory.
fn both(
    trace: &Path,
    workload: Option<&Path>,
    with: &Path,
    (inputs, output): (&[PathBuf], &PathBuf),
    tolerance: Span,
) -> Result<(), Failure> {
    let first = read(trace)?;
    let workload = workload.map(|file| workload_of(&first, file)).transpose()?;
    let other = read(with)?;
    let tasks = |trace: &Trace| trace.header.labels();
    if !tasks(&first).iter().any(|label| tasks(&other).contains(label)) {
        let message = format!("`{}` and `{}` have no task in common", trace.display(), with.display());
        return Err(Failure::input(Code::OtherRecord, message, "give two traces of the same workload"));
    }
    let _outputs = ready(inputs, [output])?;
    let progress = Progress::busy("drawing");
    let workload = workload.as_ref().map(|workload| &*workload.source.text);
    let options = PageOptions { with: Some(&other), workload, tolerance };
    let mut text = Vec::new();
    let page = page::page(&first, &options, &mut text);
    progress.finish();
    page.map_err(|e| Failure::write(output, &e))?;
    files::create(output)?.write_all(&text).map_err(|e| Failure::write(output, &e))
}
