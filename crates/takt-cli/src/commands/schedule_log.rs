//! `DEMOS_SCHEDULE_LOG`: the activations of a window table with `rules: demos`, in the lines of DEmOS.
//!
//! DEmOS writes a line whenever a process gets its CPUs, and so again in each window over which a best-effort activation extends. Its
//! instants are those of the plan. The lines of one instant are in the order of DEmOS: the safety-critical side of each slice, then
//! the best-effort side.

use crate::failure::Failure;
use crate::files::{self, Output};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use takt_core::cpus::CpuSet;
use takt_core::model::{System, TableRules, TaskId};
use takt_core::record::{Place, Record, RecordKind, Sink};
use takt_core::time::{Span, Time};
use takt_workload::Workload;

const VARIABLE: &str = "DEMOS_SCHEDULE_LOG";

/// A line that waits for the others of its instant.
struct Line {
    /// Whether the process is on the best-effort side, and its slice.
    order: (bool, usize),
    task: TaskId,
    place: Place,
    budget: Span,
}

/// The log while the schedule runs.
pub(super) struct ScheduleLog {
    out: BufWriter<Output>,
    path: PathBuf,
    system: System,
    places: Vec<CpuSet>,
    commands: Vec<String>,
    partition_of: Vec<usize>,
    /// By task: the budget that was granted last, and the place where it runs.
    budgets: Vec<Span>,
    running: Vec<Option<Place>>,
    /// The instant that is collected.
    at: Time,
    window: usize,
    lines: Vec<Line>,
    /// Running tasks whose budgets were rounded at the end of a window: they continue if they still run.
    continuing: Vec<TaskId>,
    error: Option<io::Error>,
}

impl ScheduleLog {
    /// The log that the environment asks for, if the workload has `rules: demos`.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub(super) fn from_env(workload: &Workload) -> Result<Option<ScheduleLog>, Failure> {
        let path = std::env::var_os(VARIABLE).filter(|_| workload.system.rules == TableRules::Demos);
        path.map(|path| ScheduleLog::new(workload, path.into())).transpose()
    }

    fn new(workload: &Workload, path: PathBuf) -> Result<ScheduleLog, Failure> {
        let file = files::create(&path)?;
        let tasks = workload.tasks.len();
        let mut partition_of = vec![usize::MAX; tasks];
        for (index, partition) in workload.system.partitions.iter().enumerate() {
            partition.tasks.iter().for_each(|task| partition_of[task.index()] = index);
        }
        let command = |task: &takt_workload::TaskInfo| task.cmd.clone().unwrap_or_else(|| task.name.clone());
        Ok(ScheduleLog {
            out: BufWriter::new(file),
            path,
            places: workload.system.places(),
            commands: workload.tasks.iter().map(command).collect(),
            system: workload.system.clone(),
            partition_of,
            budgets: vec![Span::ZERO; tasks],
            running: vec![None; tasks],
            at: Time::ZERO,
            window: 0,
            lines: Vec::new(),
            continuing: Vec::new(),
            error: None,
        })
    }

    /// Adds a record.
    pub(super) fn take(&mut self, record: &Record) {
        if record.at != self.at {
            self.flush();
            self.at = record.at;
        }
        match record.kind {
            RecordKind::Window { window, .. } => self.window = window as usize,
            RecordKind::Budget { task, amount: Some(amount), .. } => {
                self.budgets[task.index()] = amount;
                if self.running[task.index()].is_some() {
                    self.continuing.push(task);
                }
            }
            RecordKind::Start { task, place, .. } => {
                self.running[task.index()] = Some(place);
                self.add(task, place);
            }
            RecordKind::Stop { task, .. } => self.running[task.index()] = None,
            _ => {}
        }
    }

    fn add(&mut self, task: TaskId, place: Place) {
        let partition = self.partition_of[task.index()];
        let slices = self.system.windows[self.window].slices.iter().enumerate();
        let sides = slices.flat_map(|(n, slice)| [((false, n), slice.sc), ((true, n), slice.be)]);
        let order =
            sides.filter(|(_, side)| side.is_some_and(|side| side.index() == partition)).map(|(order, _)| order);
        let order = order.min().unwrap_or((true, usize::MAX));
        self.lines.push(Line { order, task, place, budget: self.budgets[task.index()] });
    }

    /// Writes the lines of an instant.
    fn flush(&mut self) {
        for task in std::mem::take(&mut self.continuing) {
            let started = self.lines.iter().any(|line| line.task == task);
            if let Some(place) = self.running[task.index()].filter(|_| !started) {
                self.add(task, place);
            }
        }
        self.lines.sort_by_key(|line| line.order);
        let milliseconds = |span: Span| span.ns() / 1_000_000;
        for line in self.lines.drain(..) {
            let (at, cpus) = (milliseconds(self.at - Time::ZERO), self.places[line.place.index()]);
            let (command, budget) = (&self.commands[line.task.index()], milliseconds(line.budget));
            let written = writeln!(self.out, "{at:6}: cpus={cpus} cmd='{command}' budget={budget}");
            self.error = self.error.take().or(written.err());
        }
    }

    /// Writes the last instant.
    ///
    /// # Errors
    /// When the file could not be written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        let written = self.error.take().map_or_else(|| self.out.flush(), Err);
        written.map_err(|e| Failure::write(&self.path, &e))
    }
}

/// The log of a simulation, if there is one.
pub(super) struct Logged<'a>(pub(super) &'a mut Option<ScheduleLog>);

impl Sink for Logged<'_> {
    fn record(&mut self, record: Record) {
        if let Some(log) = self.0 {
            log.take(&record);
        }
    }
    fn wants_records(&self) -> bool {
        self.0.is_some()
    }
}
