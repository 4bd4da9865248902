//! Comma-separated values: a row of column names, a `meta` row whose `detail` is the header as JSON, a row per record,
//! an `end` row. Empty cells are what a record does not have. `number` is the frame of a window, the count of lost
//! windows, the number of a resource, the number of the policy that is switched to (`window` then is that of the domain, empty for
//! the whole system), that of a window table that takes over, that of a setting of the policy (`amount_ns` then is its value), 1 or 0 for a call that is granted or
//! refused, the process that has sent a change (`window` then is that of its user, `detail` its command), that of a task that is added
//! (`detail` then is its partition), or the records dropped (in the `end` row). The `detail` of a row `window_table` is a window table as JSON, and
//! `number` is that of the table. A frequency has its domain as `window` and kilohertz as `number`, a temperature its zone as `window` and
//! thousandths of a degree as `amount_ns`, a limit of an idle latency microseconds as `number`, and a skipped start its partition as
//! `number`. A measured value has its meter as `window` and itself as `amount_ns`. `next_ns` is the next burst, or the correction
//! of the next round. The last three columns were added later: a file may end without them.

use crate::jsonl::split;
use crate::out::Out;
use crate::row::{Row, Rows, header_from_json, header_to_json, source_and_workload};
use crate::{Change, Footer, Header, Measured, Part, ReadError, Stamped, TaskLabel, Writer, names, window_table};
use std::borrow::Cow;
use std::io::{self, BufRead};
use takt_core::model::WindowTable;
use takt_core::record::RecordKind;
use takt_core::time::{Span, Time};

const COLUMNS: [&str; 14] = [
    "at_ns",
    "applied_ns",
    "type",
    "task",
    "job",
    "cpus",
    "detail",
    "deadline_ns",
    "amount_ns",
    "window",
    "number",
    "set_point_ns",
    "measured_ns",
    "next_ns",
];

/// The begin of each file.
pub(crate) fn head() -> Vec<u8> {
    // The last columns were added later, so the header is compared without them.
    COLUMNS[..COLUMNS_LEAST].join(",").into_bytes()
}

/// How many there were at first.
const COLUMNS_LEAST: usize = 11;
const BLOCKED: &str = "waits";
const GRANTED: &str = "granted";

pub(crate) struct Csv {
    out: Out,
    tasks: Vec<String>,
    places: Vec<String>,
}

pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// The begin of the row with the header, before its text.
const META: &str = "\n,,meta,,,,";

/// The begin of each file of this source and workload.
pub(crate) fn start(header: &Header) -> Vec<u8> {
    let quoted = quoted(&source_and_workload(header));
    let quoted = quoted.strip_suffix('"').unwrap_or(&quoted);
    format!("{}{META}{quoted}", COLUMNS.join(",")).into_bytes()
}

impl Csv {
    pub(crate) fn new(header: &Header, out: Box<dyn io::Write + Send>) -> io::Result<Csv> {
        let mut out = Out::new(out);
        out.text(&COLUMNS.join(","));
        out.text(META);
        out.text(&quoted(&header_to_json(header)));
        out.text(",,,,,,,\n");
        let tasks = header.labels().iter().map(|l| quoted(l)).collect();
        let places = header.places.iter().map(|p| quoted(&p.to_string())).collect();
        Ok(Csv { out, tasks, places })
    }
}

impl Writer for Csv {
    fn record(&mut self, r: &Stamped) -> io::Result<()> {
        let (kind, task, job) = split(&r.record.kind);
        let (mut place, mut detail, mut deadline, mut amount, mut window, mut number) =
            (None, "", None, None, None, None);
        let mut regulated: Option<[Span; 3]> = None;
        match r.record.kind {
            RecordKind::Window { window: w, frame } => (window, number) = (Some(w), Some(frame)),
            RecordKind::WindowsLost { count } => number = Some(count),
            RecordKind::Release { deadline: d, .. } | RecordKind::Handler { deadline: d, .. } => deadline = d,
            RecordKind::Budget { amount: a, .. } => amount = a,
            RecordKind::Start { place: p, .. } => place = Some(p),
            RecordKind::Stop { place: p, reason, .. } => (place, detail) = (Some(p), names::reason(reason)),
            RecordKind::Finish { outcome, consumed, .. } => {
                (detail, amount) = (names::outcome(outcome), Some(consumed.nominal_time()))
            }
            RecordKind::Lock { resource, granted, .. } => {
                (detail, number) = (if granted { GRANTED } else { BLOCKED }, Some(resource.0.into()));
            }
            RecordKind::Unlock { resource, .. }
            | RecordKind::Withdraw { resource, .. }
            | RecordKind::Deadlock { resource, .. } => number = Some(resource.0.into()),
            RecordKind::HandlerEnd { consumed, .. } => amount = Some(consumed.nominal_time()),
            RecordKind::Round { place: p, set_point, measured, correction } => {
                (place, regulated) = (Some(p), Some([set_point, measured, correction]));
            }
            RecordKind::Burst { set_point, measured, next, .. } => regulated = Some([set_point, measured, next]),
            RecordKind::Switch { domain, to } => (window, number) = (domain.map(u32::from), Some(to.into())),
            RecordKind::Table { to } => number = Some(to.into()),
            RecordKind::Configure { setting, value } => {
                (number, amount) = (Some(setting.into()), value.map(Span::from_ns))
            }
            RecordKind::Call { call, granted, .. } => {
                let (name, span) = call.parts();
                (detail, amount, number) = (name, Some(span), Some(granted.into()));
            }
            RecordKind::Behind { abandoned, .. } => number = Some(abandoned),
            RecordKind::Frequency { domain, khz } => (window, number) = (Some(domain.into()), Some(khz.into())),
            RecordKind::IdleLatency { place: p, limit_us } => (place, number) = (Some(p), limit_us.map(u64::from)),
            RecordKind::Temperature { zone, millidegrees } => {
                (window, amount) = (Some(zone.into()), millidegrees.map(|value| Span::from_ns(value.into())));
            }
            RecordKind::StartSkipped { partition, window: w } => {
                (window, number) = (Some(w), Some(partition.0.into()));
            }
            RecordKind::Block { .. }
            | RecordKind::Wake { .. }
            | RecordKind::Yield { .. }
            | RecordKind::Lost { .. }
            | RecordKind::LateSignal { .. } => {}
            RecordKind::Exit { failed, .. } => detail = if failed { names::FAILED } else { "" },
        }
        let out = &mut self.out;
        out.int(r.record.at.ns());
        out.text(",");
        out.int(r.applied.ns());
        out.text(",");
        out.text(kind);
        out.text(",");
        out.text(task.map_or("", |t| &self.tasks[t]));
        out.text(",");
        if let Some(job) = job {
            out.int(job);
        }
        out.text(",");
        out.text(place.map_or("", |p| &self.places[p.index()]));
        out.text(",");
        out.text(detail);
        out.text(",");
        if let Some(deadline) = deadline {
            out.int(deadline.ns());
        }
        out.text(",");
        if let Some(amount) = amount {
            out.int(amount.ns());
        }
        out.text(",");
        if let Some(window) = window {
            out.int(window);
        }
        out.text(",");
        if let Some(number) = number {
            out.int(number);
        }
        match regulated {
            None => out.text(",,,\n"),
            Some(spans) => {
                for span in spans {
                    out.text(",");
                    out.int(span.ns());
                }
                out.text("\n");
            }
        }
        out.spill()
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        self.out.int(change.at.ns());
        self.out.text(",,change,,,,");
        self.out.text(&quoted(&change.command));
        self.out.text(",,,");
        self.out.int(change.uid);
        self.out.text(",");
        self.out.int(change.pid);
        self.out.text(",,,\n");
        self.out.spill()
    }

    fn measured(&mut self, measured: &Measured) -> io::Result<()> {
        self.out.int(measured.at.ns());
        self.out.text(",,measured,,,,,,");
        self.out.int(measured.value);
        self.out.text(",");
        self.out.int(measured.meter);
        self.out.text(",,,,\n");
        self.out.spill()
    }

    fn task(&mut self, at: Time, task: &TaskLabel) -> io::Result<()> {
        let name = quoted(&task.name);
        self.out.int(at.ns());
        self.out.text(",,task,");
        self.out.text(&name);
        self.out.text(",,,");
        self.out.text(&task.partition.as_deref().map_or(String::new(), quoted));
        self.out.text(",,,,");
        if let Some(pid) = task.pid {
            self.out.int(pid);
        }
        self.out.text(",,,\n");
        self.tasks.push(name);
        self.out.spill()
    }

    fn table(&mut self, at: Time, number: u16, table: &WindowTable) -> io::Result<()> {
        self.out.int(at.ns());
        self.out.text(",,window_table,,,,");
        self.out.text(&quoted(&window_table::to_json(table).to_string()));
        self.out.text(",,,,");
        self.out.int(number);
        self.out.text(",,,\n");
        self.out.spill()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.finish()
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> io::Result<()> {
        self.out.int(footer.end.ns());
        self.out.text(",,end,,,,,,,,");
        self.out.int(footer.dropped);
        self.out.text(",,,\n");
        self.out.finish()
    }
}

/// The cells of one record of the file.
type Cells<'a> = Vec<Cow<'a, [u8]>>;

/// The next record and what follows it; `None` at the end, or when the record is cut off there.
fn cells(mut rest: &[u8]) -> Result<Option<(Cells<'_>, &[u8])>, String> {
    let mut cells = Vec::with_capacity(COLUMNS.len());
    loop {
        if let Some(mut inside) = rest.strip_prefix(b"\"") {
            let mut cell = Vec::new();
            loop {
                let Some(quote) = inside.iter().position(|b| *b == b'"') else { return Ok(None) };
                cell.extend_from_slice(&inside[..quote]);
                inside = &inside[quote + 1..];
                match inside.strip_prefix(b"\"") {
                    Some(more) => {
                        cell.push(b'"');
                        inside = more;
                    }
                    None => break,
                }
            }
            rest = inside;
            cells.push(Cow::Owned(cell));
        } else {
            let Some(end) = rest.iter().position(|b| matches!(b, b',' | b'\n' | b'\r')) else { return Ok(None) };
            cells.push(Cow::Borrowed(&rest[..end]));
            rest = &rest[end..];
        }
        match rest {
            [b',', after @ ..] => rest = after,
            [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] => return Ok(Some((cells, after))),
            [] | [b'\r'] => return Ok(None),
            _ => return Err("a quoted cell is followed by something other than a comma".into()),
        }
    }
}

fn number<T: std::str::FromStr>(text: &str, column: &str) -> Result<Option<T>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("`{text}` is not a number (column `{column}`)"))
}

fn row<'a>(c: &[&'a str]) -> Result<Row<'a>, String> {
    let filled = |text: &'a str| (!text.is_empty()).then_some(Cow::Borrowed(text));
    let granted = match (c[2], c[6]) {
        ("request", GRANTED) => Some(true),
        ("request", BLOCKED) => Some(false),
        ("call", _) => Some(c[10] == "1"),
        _ => None,
    };
    // A file of the first form has no such columns.
    let later = |column: usize| number(c.get(column).copied().unwrap_or(""), COLUMNS[column]);
    Ok(Row {
        at: number(c[0], COLUMNS[0])?.ok_or("the first column, `at_ns`, is empty")?,
        applied: number(c[1], COLUMNS[1])?,
        kind: Cow::Borrowed(c[2]),
        // A task or a CPU set may be the empty string.
        task: Some(Cow::Borrowed(c[3])),
        job: number(c[4], COLUMNS[4])?,
        cpus: Some(Cow::Borrowed(c[5])),
        detail: filled(c[6]),
        failed: false,
        deadline: number(c[7], COLUMNS[7])?,
        amount: number(c[8], COLUMNS[8])?,
        window: number(c[9], COLUMNS[9])?,
        number: number(c[10], COLUMNS[10])?,
        granted,
        set_point: later(11)?,
        measured: later(12)?,
        next: later(13)?,
    })
}

/// The mark of UTF-8 at the begin of a file.
const BYTE_ORDER: &[u8] = b"\xef\xbb\xbf";

/// The place within a row at which a line ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// The begin of a cell.
    Begin,
    /// A cell without quotes.
    Plain,
    /// Quotes that are open, so that the row continues.
    Quotes,
    /// A quote that ends the cell, or is the first of two.
    Quote,
}

impl Within {
    fn after(self, byte: u8) -> Within {
        match (self, byte) {
            (Within::Quotes, b'"') => Within::Quote,
            (Within::Begin | Within::Quote, b'"') | (Within::Quotes, _) => Within::Quotes,
            (_, b',') => Within::Begin,
            _ => Within::Plain,
        }
    }
}

/// The parts of a trace, row by row.
pub(crate) struct Table<R> {
    input: R,
    /// The row that is read, with its end. A quoted cell can have several lines.
    row: Vec<u8>,
    /// The line at which it begins, and that of the next one, from one.
    line: usize,
    next: usize,
    columns: usize,
    pub(crate) rows: Rows,
}

impl<R: BufRead> Table<R> {
    pub(crate) fn open(input: R) -> Result<Table<R>, ReadError> {
        let rows = Rows::new(Header::default());
        let mut table = Table { input, row: Vec::new(), line: 1, next: 1, columns: 0, rows };
        let right = |texts: &[&str]| match COLUMNS.starts_with(texts) && texts.len() >= COLUMNS_LEAST {
            true => Ok(texts.len()),
            false => Err(format!("the columns of a trace are {}", COLUMNS.join(","))),
        };
        let meta = |texts: &[&str]| match texts[2] {
            "meta" => header_from_json(texts[6]),
            _ => Err("the second row must be the `meta` row".into()),
        };
        let missing = "the trace ends before its `meta` row";
        table.columns = table.row(|_, texts| right(texts))?.ok_or_else(|| table.missing(missing))?;
        let header = table.row(|_, texts| meta(texts))?.ok_or_else(|| table.missing(missing))?;
        table.rows = Rows::new(header);
        Ok(table)
    }

    fn missing(&self, message: &str) -> ReadError {
        ReadError::Syntax { line: self.line, message: message.into() }
    }

    /// The next row that is not empty, as `read` returns it; `None` at the end, or when the row is cut off there.
    fn row<T>(&mut self, read: impl FnOnce(&mut Rows, &[&str]) -> Result<T, String>) -> Result<Option<T>, ReadError> {
        loop {
            self.row.clear();
            self.line = self.next;
            let fail = |message: String| ReadError::Syntax { line: self.line, message };
            let mut place = Within::Begin;
            while place == Within::Quotes || !self.row.ends_with(b"\n") {
                let before = self.row.len();
                if self.input.read_until(b'\n', &mut self.row)? == 0 {
                    // The rest can have a fault all the same.
                    cells(&self.row).map_err(fail)?;
                    return Ok(None);
                }
                if self.next == 1 && self.row.starts_with(BYTE_ORDER) {
                    self.row.drain(..BYTE_ORDER.len());
                }
                self.next += 1;
                place = self.row[before..].iter().fold(place, |place, byte| place.after(*byte));
            }
            let Some((raw, _)) = cells(&self.row).map_err(fail)? else { return Ok(None) };
            let texts: Result<Vec<&str>, _> = raw.iter().map(|cell| std::str::from_utf8(cell)).collect();
            let texts = texts.map_err(|e| fail(e.to_string()))?;
            if texts.iter().all(|text| text.is_empty()) {
                continue;
            }
            if self.columns > 0 && texts.len() != self.columns {
                return Err(fail(format!("{} columns instead of {}", texts.len(), self.columns)));
            }
            return read(&mut self.rows, &texts).map(Some).map_err(fail);
        }
    }

    pub(crate) fn part(&mut self) -> Result<Option<Part>, ReadError> {
        self.row(|rows, texts| row(texts).and_then(|row| rows.part(&row)))
    }
}
