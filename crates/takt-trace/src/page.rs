//! A trace as one HTML page that needs nothing else: no network, no server, no other file.
//!
//! The page holds the records as columns of differences (`encoder`), a chart as SVG for browsers without JavaScript, and a program that
//! draws lanes on a canvas. Its content policy allows this program and this style by their hashes, and nothing else.

mod columns;
mod document;
mod encoder;
mod parts;

pub use document::{Data, Document, preformatted};
pub use parts::{PIECES_MAX, TooLarge};

use crate::diff::{self, Diff};
use crate::gantt::heading_of;
use crate::{Change, Footer, Header, Measured, Part, Stamped, TaskLabel, Trace, Writer};
use encoder::{Encoder, LISTED_MAX};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use takt_core::time::{Span, Time};

const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// The options of a page.
#[derive(Clone, Debug, Default)]
pub struct PageOptions<'t> {
    /// Another trace of the same workload, which is drawn below each lane.
    pub with: Option<&'t Trace>,
    /// The text of the workload's file.
    pub workload: Option<&'t str>,
    /// Instants of the two that differ by at most this are equal.
    pub tolerance: Span,
}

/// Writes the page of a trace that is in memory.
///
/// # Errors
/// [`TooLarge`] if a trace has more than [`PIECES_MAX`] pieces; the error of the output.
pub fn page(trace: &Trace, options: &PageOptions<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let diff = options.with.map(|with| diff::diff(trace, with, options.tolerance));
    let first = encoded(trace)?;
    let other = options.with.map(encoded).transpose()?;
    let diff = diff.map_or(Value::Null, |diff| difference(trace, &diff));
    let with = other.map(|other| (other.done("other", options.with.and_then(|with| with.footer)).0, diff));
    written(first, trace.footer, with, options.workload, out)
}

fn encoded(trace: &Trace) -> io::Result<Encoder> {
    let mut encoder = Encoder::new(&trace.header);
    trace.changes.iter().for_each(|change| encoder.change(change));
    trace.measured.iter().for_each(|measured| encoder.measured(measured));
    trace.records.iter().try_for_each(|record| encoder.record(record)).map_err(io::Error::other)?;
    Ok(encoder)
}

fn written(
    first: Encoder,
    footer: Option<Footer>,
    with: Option<(Data, Value)>,
    workload: Option<&str>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let title = heading_of(first.header());
    let (first, drawing) = first.done("trace", footer);
    let mut data = vec![first];
    let mut diff = Value::Null;
    if let Some((other, difference)) = with {
        data.push(other);
        diff = difference;
    }
    data.push(Data::new("diff", diff));
    let document = Document {
        title: &title,
        style: STYLE,
        scripts: &[SCRIPT],
        data: &data,
        body: &format!("<main id=\"app\"></main>{}", workload.map_or_else(String::new, folded)),
        drawing: &drawing,
        drawing_note: "Without JavaScript, the page shows the first part of the trace.",
    };
    document.write(out)
}

/// A workload's text as a part that is folded at first.
fn folded(text: &str) -> String {
    format!("\n<details id=\"workload\"><summary>Workload</summary>\n<pre>{}</pre></details>", preformatted(text))
}

/// Takes the parts of a trace as they come. Memory grows by the deflated records only.
pub struct Page {
    encoder: Encoder,
    workload: Option<String>,
}

impl Page {
    /// Begins with a header and the text of the workload's file.
    #[must_use]
    pub fn new(header: &Header, workload: Option<&str>) -> Page {
        Page { encoder: Encoder::new(header), workload: workload.map(str::to_owned) }
    }

    /// Takes a part of the trace.
    ///
    /// # Errors
    /// If the trace has more than [`PIECES_MAX`] pieces.
    pub fn part(&mut self, part: &Part) -> Result<(), TooLarge> {
        match part {
            Part::Record(record) => return self.encoder.record(record),
            Part::Change(change) => self.encoder.change(change),
            Part::Measured(measured) => self.encoder.measured(measured),
            Part::Task(_, task) => self.encoder.task(task),
            Part::Table(..) | Part::End(_) => {}
        }
        Ok(())
    }

    /// Writes the page of the trace, which may have no end.
    ///
    /// # Errors
    /// The error of the output.
    pub fn write(self, footer: Option<Footer>, out: &mut dyn io::Write) -> io::Result<()> {
        written(self.encoder, footer, None, self.workload.as_deref(), out)?;
        out.flush()
    }
}

/// Takes the records of a simulation or a run, and writes their page at the end. An interrupted run leaves no page.
pub struct PageWriter {
    page: Page,
    out: Box<dyn io::Write + Send>,
}

impl PageWriter {
    /// Begins with a header and the text of the workload's file.
    #[must_use]
    pub fn new(header: &Header, workload: &str, out: Box<dyn io::Write + Send>) -> PageWriter {
        PageWriter { page: Page::new(header, Some(workload)), out }
    }
}

impl Writer for PageWriter {
    fn record(&mut self, record: &Stamped) -> io::Result<()> {
        self.page.encoder.record(record).map_err(io::Error::other)
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        self.page.encoder.change(change);
        Ok(())
    }

    fn measured(&mut self, measured: &Measured) -> io::Result<()> {
        self.page.encoder.measured(measured);
        Ok(())
    }

    fn task(&mut self, _: Time, task: &TaskLabel) -> io::Result<()> {
        self.page.encoder.task(task);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> io::Result<()> {
        self.page.write(Some(*footer), &mut self.out)
    }
}

/// The verdict of a comparison, and the places of its differences.
fn difference(trace: &Trace, diff: &Diff) -> Value {
    let labels = trace.header.labels();
    let order = match (diff.order_equal, diff.only_cpus) {
        (true, _) => "the same order",
        (false, true) => "the same order on other CPUs",
        (false, false) => "a different order",
    };
    let task: HashMap<&str, usize> = labels.iter().enumerate().map(|(index, label)| (label.as_str(), index)).collect();
    let point = |point: &diff::Point| {
        let at = point.a.or(point.b).unwrap_or(Time::ZERO);
        let words = match (point.a, point.b) {
            (Some(_), Some(_)) => format!("{} later by {}", point.kind, point.delta().unwrap_or(Span::ZERO)),
            (Some(_), None) => format!("{} in the first trace only", point.kind),
            _ => format!("{} in the other trace only", point.kind),
        };
        json!([at.ns(), task.get(point.task.as_str()), point.job, words])
    };
    json!({
        "text": format!("{} points compared, {} differ by more than {}, largest difference {}; {order}",
            diff.compared, diff.beyond, diff.tolerance, diff.largest),
        "equal": diff.is_equal(),
        "count": diff.points.len(),
        "points": diff.points.iter().take(LISTED_MAX).map(point).collect::<Vec<_>>(),
    })
}
