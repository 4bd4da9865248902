//! JSON lines: a header object (`"takt_trace":1`), an object per record, an `end` object. Times are nanoseconds.

use crate::out::Out;
use crate::row::{Row, Rows, header_from_json, header_to_json, source_and_workload};
use crate::{Change, Footer, Header, Measured, Part, ReadError, Stamped, TaskLabel, Writer, names, window_table};
use std::io::{self, BufRead};
use takt_core::model::WindowTable;
use takt_core::record::RecordKind;
use takt_core::time::Time;

pub(crate) struct JsonLines {
    out: Out,
    /// Labels and CPU sets as JSON strings, made once.
    tasks: Vec<String>,
    places: Vec<String>,
}

/// The begin of each file of this source and workload.
pub(crate) fn start(header: &Header) -> Vec<u8> {
    source_and_workload(header).into_bytes()
}

impl JsonLines {
    pub(crate) fn new(header: &Header, out: Box<dyn io::Write + Send>) -> io::Result<JsonLines> {
        let mut out = Out::new(out);
        out.text(&header_to_json(header));
        out.text("\n");
        let tasks = header.labels().iter().map(|l| serde_json::Value::from(l.as_str()).to_string()).collect();
        let places = header.places.iter().map(|p| format!("\"{p}\"")).collect();
        Ok(JsonLines { out, tasks, places })
    }
    fn word(&mut self, key: &str, value: &str) {
        self.out.text(key);
        self.out.text("\"");
        self.out.text(value);
        self.out.text("\"");
    }
    fn number(&mut self, key: &str, value: impl itoa::Integer) {
        self.out.text(key);
        self.out.int(value);
    }
}

impl Writer for JsonLines {
    fn record(&mut self, r: &Stamped) -> io::Result<()> {
        self.number("{\"at\":", r.record.at.ns());
        self.number(",\"applied\":", r.applied.ns());
        let (kind, task, job) = split(&r.record.kind);
        self.word(",\"type\":", kind);
        if let Some(task) = task {
            self.out.text(",\"task\":");
            self.out.text(&self.tasks[task]);
        }
        if let Some(job) = job {
            self.number(",\"job\":", job);
        }
        match r.record.kind {
            RecordKind::Window { window, frame } => {
                self.number(",\"window\":", window);
                self.number(",\"frame\":", frame);
            }
            RecordKind::WindowsLost { count } => self.number(",\"count\":", count),
            RecordKind::Release { deadline, .. } | RecordKind::Handler { deadline, .. } => {
                if let Some(deadline) = deadline {
                    self.number(",\"deadline\":", deadline.ns());
                }
            }
            RecordKind::Budget { amount, .. } => {
                if let Some(amount) = amount {
                    self.number(",\"amount\":", amount.ns());
                }
            }
            RecordKind::Start { place, .. } => {
                self.out.text(",\"cpus\":");
                self.out.text(&self.places[place.index()]);
            }
            RecordKind::Stop { place, reason, .. } => {
                self.out.text(",\"cpus\":");
                self.out.text(&self.places[place.index()]);
                self.word(",\"reason\":", names::reason(reason));
            }
            RecordKind::Finish { outcome, consumed, .. } => {
                self.word(",\"outcome\":", names::outcome(outcome));
                self.number(",\"consumed\":", consumed.ns());
            }
            RecordKind::Lock { resource, granted, .. } => {
                self.number(",\"resource\":", resource.0);
                self.out.text(if granted { ",\"granted\":true" } else { ",\"granted\":false" });
            }
            RecordKind::Unlock { resource, .. }
            | RecordKind::Withdraw { resource, .. }
            | RecordKind::Deadlock { resource, .. } => {
                self.number(",\"resource\":", resource.0);
            }
            RecordKind::HandlerEnd { consumed, .. } => self.number(",\"consumed\":", consumed.ns()),
            RecordKind::Round { place, set_point, measured, correction } => {
                self.out.text(",\"cpus\":");
                self.out.text(&self.places[place.index()]);
                self.number(",\"set_point\":", set_point.ns());
                self.number(",\"measured\":", measured.ns());
                self.number(",\"correction\":", correction.ns());
            }
            RecordKind::Burst { set_point, measured, next, .. } => {
                self.number(",\"set_point\":", set_point.ns());
                self.number(",\"measured\":", measured.ns());
                self.number(",\"next\":", next.ns());
            }
            RecordKind::Switch { domain, to } => {
                if let Some(domain) = domain {
                    self.number(",\"domain\":", domain);
                }
                self.number(",\"to\":", to);
            }
            RecordKind::Table { to } => self.number(",\"to\":", to),
            RecordKind::Configure { setting, value } => {
                self.number(",\"setting\":", setting);
                if let Some(value) = value {
                    self.number(",\"value\":", value);
                }
            }
            RecordKind::Call { call, granted, .. } => {
                let (name, span) = call.parts();
                self.word(",\"call\":", name);
                self.number(",\"value\":", span.ns());
                self.out.text(if granted { ",\"granted\":true" } else { ",\"granted\":false" });
            }
            RecordKind::Behind { abandoned, .. } => self.number(",\"abandoned\":", abandoned),
            RecordKind::Frequency { domain, khz } => {
                self.number(",\"domain\":", domain);
                self.number(",\"khz\":", khz);
            }
            RecordKind::IdleLatency { place, limit_us } => {
                self.out.text(",\"cpus\":");
                self.out.text(&self.places[place.index()]);
                if let Some(limit) = limit_us {
                    self.number(",\"limit_us\":", limit);
                }
            }
            RecordKind::Temperature { zone, millidegrees } => {
                self.number(",\"zone\":", zone);
                if let Some(value) = millidegrees {
                    self.number(",\"millidegrees\":", value);
                }
            }
            RecordKind::StartSkipped { partition, window } => {
                self.number(",\"window\":", window);
                self.number(",\"partition\":", partition.0);
            }
            RecordKind::Block { .. }
            | RecordKind::Wake { .. }
            | RecordKind::Yield { .. }
            | RecordKind::Lost { .. }
            | RecordKind::LateSignal { .. }
            | RecordKind::Exit { failed: false, .. } => {}
            RecordKind::Exit { failed: true, .. } => self.out.text(",\"failed\":true"),
        }
        self.out.text("}\n");
        self.out.spill()
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        self.number("{\"at\":", change.at.ns());
        self.number(",\"type\":\"change\",\"uid\":", change.uid);
        self.number(",\"pid\":", change.pid);
        self.out.text(",\"command\":");
        self.out.text(&serde_json::Value::from(change.command.as_str()).to_string());
        self.out.text("}\n");
        self.out.spill()
    }

    fn measured(&mut self, measured: &Measured) -> io::Result<()> {
        self.number("{\"at\":", measured.at.ns());
        self.number(",\"type\":\"measured\",\"meter\":", measured.meter);
        self.number(",\"value\":", measured.value);
        self.out.text("}\n");
        self.out.spill()
    }

    fn task(&mut self, at: Time, task: &TaskLabel) -> io::Result<()> {
        let name = serde_json::Value::from(task.name.as_str()).to_string();
        self.number("{\"at\":", at.ns());
        self.out.text(",\"type\":\"task\",\"task\":");
        self.out.text(&name);
        if let Some(partition) = &task.partition {
            self.out.text(",\"detail\":");
            self.out.text(&serde_json::Value::from(partition.as_str()).to_string());
        }
        if let Some(pid) = task.pid {
            self.number(",\"pid\":", pid);
        }
        self.out.text("}\n");
        self.tasks.push(name);
        self.out.spill()
    }

    fn table(&mut self, at: Time, number: u16, table: &WindowTable) -> io::Result<()> {
        self.number("{\"at\":", at.ns());
        self.number(",\"type\":\"window_table\",\"to\":", number);
        self.out.text(",\"detail\":");
        self.out.text(&serde_json::Value::from(window_table::to_json(table).to_string()).to_string());
        self.out.text("}\n");
        self.out.spill()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.finish()
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> io::Result<()> {
        self.number("{\"at\":", footer.end.ns());
        self.number(",\"type\":\"end\",\"dropped\":", footer.dropped);
        self.out.text("}\n");
        self.out.finish()
    }
}

/// The type's word, and the task's index and the job where there are any.
pub(crate) fn split(what: &RecordKind) -> (&'static str, Option<usize>, Option<u64>) {
    match *what {
        RecordKind::Window { .. } => ("window", None, None),
        RecordKind::WindowsLost { .. } => ("windows_lost", None, None),
        RecordKind::Release { task, job, .. } => ("release", Some(task.index()), Some(job)),
        RecordKind::Budget { task, job, .. } => ("budget", Some(task.index()), Some(job)),
        RecordKind::Start { task, job, .. } => ("start", Some(task.index()), Some(job)),
        RecordKind::Stop { task, job, .. } => ("stop", Some(task.index()), Some(job)),
        RecordKind::Finish { task, job, .. } => ("finish", Some(task.index()), Some(job)),
        RecordKind::Block { task, job } => ("block", Some(task.index()), Some(job)),
        RecordKind::Wake { task, job } => ("wake", Some(task.index()), Some(job)),
        RecordKind::Lock { task, .. } => ("request", Some(task.index()), None),
        RecordKind::Unlock { task, .. } => ("return", Some(task.index()), None),
        RecordKind::Withdraw { task, .. } => ("withdraw", Some(task.index()), None),
        RecordKind::Handler { task, job, .. } => ("handler", Some(task.index()), Some(job)),
        RecordKind::HandlerEnd { task, job, .. } => ("handler_end", Some(task.index()), Some(job)),
        RecordKind::Yield { task, job } => ("yield", Some(task.index()), Some(job)),
        RecordKind::Deadlock { task, .. } => ("deadlock", Some(task.index()), None),
        RecordKind::Round { .. } => ("round", None, None),
        RecordKind::Burst { task, .. } => ("burst", Some(task.index()), None),
        RecordKind::Switch { .. } => ("switch", None, None),
        RecordKind::Table { .. } => ("table", None, None),
        RecordKind::Configure { .. } => ("configure", None, None),
        RecordKind::Call { task, job, .. } => ("call", Some(task.index()), Some(job)),
        RecordKind::Behind { task, job, .. } => ("behind", Some(task.index()), Some(job)),
        RecordKind::LateSignal { task, job } => ("late_signal", Some(task.index()), Some(job)),
        RecordKind::Lost { task } => ("lost", Some(task.index()), None),
        RecordKind::Exit { task, .. } => ("exit", Some(task.index()), None),
        RecordKind::Frequency { .. } => ("frequency", None, None),
        RecordKind::IdleLatency { .. } => ("idle_latency", None, None),
        RecordKind::Temperature { .. } => ("temperature", None, None),
        RecordKind::StartSkipped { .. } => ("start_skipped", None, None),
    }
}

/// The parts of a trace, line by line.
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    /// The number of the line, from one.
    number: usize,
    pub(crate) rows: Rows,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn open(input: R) -> Result<Lines<R>, ReadError> {
        let mut lines = Lines { input, line: Vec::new(), number: 0, rows: Rows::new(Header::default()) };
        if lines.next_line()?.is_none() {
            let message = "the file is empty; a trace begins with its header".into();
            return Err(ReadError::Syntax { line: 1, message });
        }
        let text = std::str::from_utf8(&lines.line).map_err(|e| e.to_string());
        let header = text.and_then(header_from_json).map_err(|message| lines.fault(message))?;
        lines.rows = Rows::new(header);
        Ok(lines)
    }

    fn fault(&self, message: String) -> ReadError {
        ReadError::Syntax { line: self.number, message }
    }

    /// Reads the next line that is not empty, and returns whether it ends with a newline.
    fn next_line(&mut self) -> io::Result<Option<bool>> {
        loop {
            self.line.clear();
            if self.input.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let whole = self.line.pop_if(|last| *last == b'\n').is_some();
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(whole));
            }
        }
    }

    pub(crate) fn part(&mut self) -> Result<Option<Part>, ReadError> {
        let Some(whole) = self.next_line()? else { return Ok(None) };
        let text = std::str::from_utf8(&self.line).map_err(|e| e.to_string());
        match text.and_then(|text| serde_json::from_str::<Row<'_>>(text).map_err(|e| e.to_string())) {
            Ok(row) => self.rows.part(&row).map(Some).map_err(|message| self.fault(message)),
            // A crash can leave half a line, which is the last one and has no newline.
            Err(_) if !whole => Ok(None),
            Err(message) => Err(self.fault(message)),
        }
    }
}
