//! A trace as one HTML page that needs nothing else: no network, no server, no other file.
//!
//! The page holds the records as columns of differences (`columns`), a chart as SVG for browsers without JavaScript, and a program that
//! draws lanes on a canvas. Its content policy allows this program and this style by their hashes, and nothing else.

mod columns;
mod document;

pub use document::{Document, preformatted};

use crate::diff::{self, Diff};
use crate::gantt::{SvgOptions, heading_of, svg};
use crate::summary::summarize;
use crate::timeline::{Interval, Job, Timeline};
use crate::why::{Cause, Causes, Why};
use crate::{Change, Footer, Header, Stamped, TaskLabel, Trace, Writer, names};
use columns::Column;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io;
use takt_core::record::{JobId, Outcome, RecordKind, StopReason};
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};

const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// A page with more pieces would not open in a browser's memory.
pub const PIECES_MAX: usize = 20_000_000;
/// The responses of so many late jobs are divided in the page.
const EXPLAINED_MAX: usize = 2000;
/// So many differences, changes, calls and switches are in the page.
const LISTED_MAX: usize = 2000;
/// The chart for browsers without JavaScript has about so many pieces, and at most so many bytes.
const DRAWN_PIECES: usize = 200;
const DRAWN_BYTES: usize = 60_000;

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

/// A trace with more than [`PIECES_MAX`] pieces.
#[derive(Debug, thiserror::Error)]
#[error("the trace has {pieces} pieces, and a page has at most {PIECES_MAX}")]
pub struct TooLarge {
    /// How often a job starts or resumes in it.
    pub pieces: usize,
}

fn within_limit(pieces: usize) -> Result<(), TooLarge> {
    if pieces > PIECES_MAX { Err(TooLarge { pieces }) } else { Ok(()) }
}

/// The page of a trace.
///
/// # Errors
/// If a trace has more than [`PIECES_MAX`] pieces.
pub fn page(trace: &Trace, options: &PageOptions<'_>) -> Result<String, TooLarge> {
    let starts = |trace: &Trace| {
        let starts = trace.records.iter().filter(|r| matches!(r.record.kind, RecordKind::Start { .. }));
        within_limit(starts.count())
    };
    starts(trace)?;
    options.with.map_or(Ok(()), starts)?;
    let diff = options.with.map(|with| diff::diff(trace, with, options.tolerance));
    let mut data = vec![("trace", encoded(trace))];
    data.extend(options.with.map(|with| ("other", encoded(with))));
    data.push(("diff", diff.map_or(Value::Null, |diff| difference(trace, &diff))));
    let document = Document {
        title: &heading_of(&trace.header),
        style: STYLE,
        scripts: &[SCRIPT],
        data: &data,
        body: &format!("<main id=\"app\"></main>{}", options.workload.map_or_else(String::new, folded)),
        drawing: &drawing(trace),
        drawing_note: "Without JavaScript, the page shows the first part of the trace.",
    };
    Ok(document.text())
}

/// A workload's text as a part that is folded at first.
fn folded(text: &str) -> String {
    format!("\n<details id=\"workload\"><summary>Workload</summary>\n<pre>{}</pre></details>", preformatted(text))
}

/// Collects the records of a simulation or a run, and writes its page at the end. An interrupted run leaves no page.
pub struct PageWriter {
    trace: Trace,
    workload: String,
    pieces: usize,
    out: Box<dyn io::Write + Send>,
}

impl PageWriter {
    /// Begins with a header and the text of the workload's file.
    #[must_use]
    pub fn new(header: &Header, workload: &str, out: Box<dyn io::Write + Send>) -> PageWriter {
        let trace = Trace { header: header.clone(), ..Trace::default() };
        PageWriter { trace, workload: workload.to_owned(), pieces: 0, out }
    }
}

impl Writer for PageWriter {
    fn record(&mut self, record: &Stamped) -> io::Result<()> {
        if let RecordKind::Start { .. } = record.record.kind {
            self.pieces += 1;
        }
        within_limit(self.pieces).map_err(io::Error::other)?;
        self.trace.records.push(*record);
        Ok(())
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        self.trace.changes.push(change.clone());
        Ok(())
    }

    fn task(&mut self, _: Time, task: &TaskLabel) -> io::Result<()> {
        self.trace.header.tasks.push(TaskLabel { added: true, ..task.clone() });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> io::Result<()> {
        self.trace.footer = Some(*footer);
        let options = PageOptions { workload: Some(&self.workload), ..PageOptions::default() };
        let page = page(&self.trace, &options).map_err(io::Error::other)?;
        self.out.write_all(page.as_bytes())?;
        self.out.flush()
    }
}

/// The beginning of the trace as SVG.
fn drawing(trace: &Trace) -> String {
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
fn shown(name: &str) -> String {
    name.chars().map(|c| if names::is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

/// A trace as names, counts and columns.
fn encoded(trace: &Trace) -> Value {
    let summary = summarize(trace);
    let causes = Causes::of(trace);
    let line = causes.timeline();
    let header = &trace.header;
    let labels = header.labels();
    let task = |((label, task), summary): ((&String, &crate::TaskLabel), &crate::summary::TaskSummary)| {
        json!({"name": shown(label), "partition": task.partition.as_deref().map(shown), "class": task.class.as_deref().map(shown),
            "counts": counts(&summary.counts)})
    };
    let tasks: Vec<_> = labels.iter().zip(&header.tasks).zip(&summary.tasks).map(task).collect();
    let places: Vec<Vec<usize>> =
        header.places.iter().map(|place| place.difference(&header.kernel_cpus).iter().collect()).collect();
    let mut used: Vec<u16> = line.holds.iter().map(|hold| hold.resource.0).collect();
    used.extend(line.waits.iter().filter_map(|wait| Some(wait.resource?.0)));
    let resources: Vec<_> = (0..used.into_iter().max().map_or(0, |last| last + 1))
        .map(|index| shown(&header.resource(takt_core::model::ResourceId(index))))
        .collect();
    let switches = line.switches.iter().map(|switch| json!([switch.at.ns(), shown(&switch.to_string())]));
    let calls = line.calls.iter();
    let calls = calls.map(|call| json!([call.at.ns(), call.task.0, call.job, shown(&call.to_string()), call.granted]));
    let changes = trace.changes.iter().map(|change| json!([change.at.ns(), change.to_string()]));
    let first = |values: &mut dyn Iterator<Item = Value>| values.take(LISTED_MAX).collect::<Vec<_>>();
    let unit = unit(line);
    json!({
        "heading": shown(&heading_of(header)), "source": header.source, "workload": shown(&header.workload),
        "seed": header.seed, "complete": trace.footer.is_some(), "unit_ns": unit, "end": line.end.ns() / unit,
        "tasks": tasks, "places": places, "resources": resources,
        "frequency_domains": header.frequency_domains.iter().map(|name| shown(name)).collect::<Vec<_>>(), "total": counts(&summary.total),
        "switches": first(&mut { switches }), "calls": first(&mut { calls }), "changes": first(&mut { changes }),
        "jobs": line.jobs.iter().map(Vec::len).collect::<Vec<_>>(),
        "columns": written(&causes, unit),
    })
}

/// The largest unit of which all instants are multiples.
fn unit(line: &Timeline) -> i64 {
    let intervals = line.intervals.iter().flat_map(|i| [i.from, i.to]);
    let ends = |job: &Job| {
        let handler = job.handler.map(|h| [Some(h.from), h.deadline, h.end]);
        [Some(job.release), job.deadline, job.finish.map(|(at, _)| at)].into_iter().chain(handler.into_iter().flatten())
    };
    let jobs = line.jobs.iter().flatten().flat_map(|job| ends(job).flatten());
    let waits = line.waits.iter().flat_map(|w| [w.from, w.to]);
    let holds = line.holds.iter().flat_map(|h| [h.from, h.to]);
    let windows = line.windows.iter().flat_map(|w| [w.from, w.to]);
    let overdue = line.overdue.iter().flat_map(|o| [o.from, o.to]);
    let others = line.grants.iter().map(|g| g.at).chain(line.frequencies.iter().map(|f| f.at));
    let all =
        intervals.chain(jobs).chain(waits).chain(holds).chain(windows).chain(overdue).chain(others).chain([line.end]);
    let mut unit = 0;
    for at in all {
        unit = greatest_common_divisor(unit, at.ns());
        if unit == 1 {
            break;
        }
    }
    unit.max(1)
}

/// The counts of which a page has the names; the others are in the summary of a command.
fn counts(counts: &Counts) -> Value {
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
fn reason_code(reason: Option<StopReason>) -> u64 {
    match reason {
        None => 0,
        Some(StopReason::Preempted) => 1,
        Some(StopReason::Suspended) => 2,
        Some(StopReason::Migrated) => 3,
        Some(StopReason::Finished) => 4,
        Some(StopReason::Blocked) => 5,
    }
}

fn outcome_code(job: &Job) -> u64 {
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

fn cause_code(cause: Cause) -> u64 {
    match cause {
        Cause::Own => 0,
        Cause::Behind => 1,
        Cause::Stolen => 2,
        Cause::Task(_) => 3,
        Cause::Earlier => 4,
        Cause::Blocking { .. } => 5,
        Cause::Sleep => 6,
        Cause::Scheduler => 7,
        Cause::Idle => 8,
    }
}

/// Columns by their names.
#[derive(Default)]
struct Columns(BTreeMap<&'static str, Column>);

impl Columns {
    fn at(&mut self, name: &'static str) -> &mut Column {
        self.0.entry(name).or_default()
    }
}

fn written(causes: &Causes<'_>, unit: i64) -> Value {
    let line = causes.timeline();
    let mut columns = Columns::default();
    for name in
        ["pStart", "pLength", "pTask", "pPlace", "pJob", "pHow", "jNumber", "jRelease", "jDeadline", "jHow", "jEnd"]
            .into_iter()
            .chain(["jHandler", "wTask", "wResource", "wFrom", "wLength", "hTask", "hResource", "hFrom", "hLength"])
            .chain(["oTask", "oFrom", "oLength", "bTask", "bJob", "bAt", "bAmount", "fOf", "fAt", "fValue"])
            .chain(["iNumber", "iFrame", "iFrom", "yTask", "yJob", "yCount", "yCause", "yOther", "yResource", "yTime"])
    {
        columns.at(name);
    }
    let last = pieces(line, unit, &mut columns);
    jobs(line, unit, &last, &mut columns);
    let mut before = 0;
    for wait in &line.waits {
        columns.at("wTask").unsigned(wait.task.0.into());
        columns.at("wResource").optional(wait.resource.map(|r| r.0.into()));
        let from = wait.from.ns() / unit;
        columns.at("wFrom").signed(from - std::mem::replace(&mut before, from));
        columns.at("wLength").unsigned((wait.to.ns() / unit - from) as u64);
    }
    before = 0;
    for hold in &line.holds {
        columns.at("hTask").unsigned(hold.task.0.into());
        columns.at("hResource").unsigned(hold.resource.0.into());
        let from = hold.from.ns() / unit;
        columns.at("hFrom").signed(from - std::mem::replace(&mut before, from));
        columns.at("hLength").unsigned((hold.to.ns() / unit - from) as u64);
    }
    before = 0;
    for overdue in &line.overdue {
        columns.at("oTask").unsigned(overdue.task.0.into());
        let from = overdue.from.ns() / unit;
        columns.at("oFrom").signed(from - std::mem::replace(&mut before, from));
        columns.at("oLength").unsigned((overdue.to.ns() / unit - from) as u64);
    }
    before = 0;
    let mut number: HashMap<u32, i64> = HashMap::new();
    for grant in &line.grants {
        columns.at("bTask").unsigned(grant.task.0.into());
        let job = grant.job as i64;
        columns.at("bJob").signed(job - number.insert(grant.task.0, job).unwrap_or(0));
        let at = grant.at.ns() / unit;
        columns.at("bAt").signed(at - std::mem::replace(&mut before, at));
        columns.at("bAmount").optional(grant.amount.map(|amount| amount.ns() as u64));
    }
    before = 0;
    for sample in &line.frequencies {
        columns.at("fOf").unsigned(sample.of.into());
        let at = sample.at.ns() / unit;
        columns.at("fAt").signed(at - std::mem::replace(&mut before, at));
        columns.at("fValue").unsigned(sample.value as u64);
    }
    let (mut from, mut frame) = (0, 0);
    for window in &line.windows {
        columns.at("iNumber").unsigned(window.window.into());
        columns.at("iFrame").signed(window.frame as i64 - std::mem::replace(&mut frame, window.frame as i64));
        let at = window.from.ns() / unit;
        columns.at("iFrom").signed(at - std::mem::replace(&mut from, at));
    }
    let missed = line.jobs.iter().flatten().filter(|job| job.missed(line.end));
    let mut late: Vec<&Job> = missed.collect();
    late.sort_by_key(|job| (job.release, job.task));
    for job in late.into_iter().take(EXPLAINED_MAX) {
        let Some(Why { parts, .. }) = causes.why(job.task, job.number) else { continue };
        columns.at("yTask").unsigned(job.task.0.into());
        columns.at("yJob").unsigned(job.number);
        columns.at("yCount").unsigned(parts.len() as u64);
        for part in parts {
            columns.at("yCause").unsigned(cause_code(part.cause));
            columns.at("yOther").optional(part.cause.task().map(|task| task.0.into()));
            let resource = if let Cause::Blocking { resource, .. } = part.cause { Some(resource) } else { None };
            columns.at("yResource").optional(resource.map(|r| r.0.into()));
            columns.at("yTime").unsigned(part.time.ns() as u64);
        }
    }
    json!(columns.0.iter().map(|(name, column)| (*name, column.text())).collect::<BTreeMap<_, _>>())
}

/// Writes the pieces, in the order of their starts. A start is written as the distance from the end of the piece before it on its CPUs, which is often
/// zero. Returns the end of each job's last piece.
fn pieces(line: &Timeline, unit: i64, columns: &mut Columns) -> HashMap<(u32, JobId), i64> {
    let mut order: Vec<&Interval> = line.intervals.iter().collect();
    order.sort_by_key(|piece| piece.from);
    let mut free: HashMap<u16, i64> = HashMap::new();
    let mut number: HashMap<u32, i64> = HashMap::new();
    let mut last = HashMap::new();
    for piece in order {
        let (from, to) = (piece.from.ns() / unit, piece.to.ns() / unit);
        columns.at("pTask").unsigned(piece.task.0.into());
        columns.at("pPlace").unsigned(piece.place.0.into());
        columns.at("pStart").signed(from - free.insert(piece.place.0, to).unwrap_or(0));
        columns.at("pLength").unsigned((to - from) as u64);
        let job = piece.job as i64;
        columns.at("pJob").signed(job - number.insert(piece.task.0, job).unwrap_or(0));
        columns.at("pHow").unsigned(reason_code(piece.reason) + if piece.handler { 8 } else { 0 });
        if !piece.handler {
            last.insert((piece.task.0, piece.job), to);
        }
    }
    last
}

/// Writes the jobs task by task. An end is written as the distance from the end of the job's last piece.
fn jobs(line: &Timeline, unit: i64, last: &HashMap<(u32, JobId), i64>, columns: &mut Columns) {
    for jobs in &line.jobs {
        let (mut number, mut release, mut period, mut relative) = (-1, 0, 0, 0);
        for job in jobs {
            let this = job.number as i64;
            columns.at("jNumber").signed(this - std::mem::replace(&mut number, this) - 1);
            let at = job.release.ns() / unit;
            let distance = at - std::mem::replace(&mut release, at);
            columns.at("jRelease").signed(distance - std::mem::replace(&mut period, distance));
            let handler = job.handler.is_some();
            let flags = [(job.deadline.is_some(), 8), (job.cut_off, 16), (handler, 32), (job.missed(line.end), 64)];
            let flags: u64 = flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
            columns.at("jHow").unsigned(outcome_code(job) + flags);
            if let Some(deadline) = job.deadline {
                let after = deadline.ns() / unit - at;
                columns.at("jDeadline").signed(after - std::mem::replace(&mut relative, after));
            }
            if let Some((end, _)) = job.finish {
                let from = last.get(&(job.task.0, job.number)).copied().unwrap_or(at);
                columns.at("jEnd").signed(end.ns() / unit - from);
            }
            if let Some(handler) = job.handler {
                let from = handler.from.ns() / unit;
                let column = columns.at("jHandler");
                column.unsigned(from as u64);
                let after = |at: Option<Time>| at.map(|at| (at.ns() / unit - from).max(0) as u64);
                column.optional(after(handler.deadline));
                column.optional(after(handler.end));
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_limit() {
        assert!(within_limit(PIECES_MAX).is_ok());
        assert_eq!(within_limit(PIECES_MAX + 1).unwrap_err().pieces, PIECES_MAX + 1);
    }

    #[test]
    fn the_unit_divides_all_instants() {
        assert_eq!([(12, 18), (0, 7), (7, 0), (-4, 6)].map(|(a, b)| greatest_common_divisor(a, b)), [6, 7, 7, 2]);
    }
}
