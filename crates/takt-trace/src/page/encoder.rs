//! A trace as names, counts and columns, written while its records come.
//!
//! A piece is written at its stop, and a job when the next one of its task comes after its end. So only open pieces, jobs, waits and locks are in memory,
//! besides the deflated columns. Instants are multiples of a unit, the greatest common divisor of all instants so far. Where it becomes smaller, the
//! numbers of values before that are noted.

use super::columns::Column;
use super::document::Data;
use super::parts::{DRAWN_PIECES, PIECES_MAX, TooLarge, counts, drawing, outcome_code, reason_code, shown};
use crate::gantt::heading_of;
use crate::summary::{Counter, TaskSummary};
use crate::timeline::{Asked, Handler, Job, Policies, Switch};
use crate::why::has_deadline_order;
use crate::{Change, Footer, Header, Measured, Stamped, TaskLabel, Trace};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use takt_core::model::{ResourceId, TaskId};
use takt_core::record::{JobId, Outcome, Place, RecordKind, StopReason};
use takt_core::time::{Span, Time};

/// So many changes, calls and switches are in the page.
pub(super) const LISTED_MAX: usize = 2000;
/// The chart for browsers without JavaScript is of at most so many records.
const DRAWN_RECORDS: usize = 20_000;

/// The columns: pieces, jobs, waits, locks held, continued jobs of a window table, granted budgets, samples, windows, handlers, work of aborted jobs.
#[derive(Clone, Copy)]
enum Of {
    PieceTask,
    PiecePlace,
    PieceStart,
    PieceLength,
    PieceJob,
    PieceHow,
    PieceDecided,
    JobTask,
    JobNumber,
    JobRelease,
    JobDeadline,
    JobHow,
    JobEnd,
    JobKnown,
    JobConsumed,
    WaitTask,
    WaitResource,
    WaitFrom,
    WaitLength,
    HoldTask,
    HoldResource,
    HoldFrom,
    HoldLength,
    OverdueTask,
    OverdueFrom,
    OverdueLength,
    BudgetTask,
    BudgetJob,
    BudgetAt,
    BudgetAmount,
    SampleSeries,
    SampleAt,
    SampleValue,
    WindowNumber,
    WindowFrame,
    WindowFrom,
    HandlerTask,
    HandlerJob,
    HandlerFrom,
    HandlerDeadline,
    HandlerEnd,
    BehindTask,
    BehindFrom,
    BehindLength,
}

/// Their names in the page, in their order.
const NAMES: [&str; 44] = [
    "pTask",
    "pPlace",
    "pStart",
    "pLength",
    "pJob",
    "pHow",
    "pDecided",
    "jTask",
    "jNumber",
    "jRelease",
    "jDeadline",
    "jHow",
    "jEnd",
    "jKnown",
    "jConsumed",
    "wTask",
    "wResource",
    "wFrom",
    "wLength",
    "hTask",
    "hResource",
    "hFrom",
    "hLength",
    "oTask",
    "oFrom",
    "oLength",
    "bTask",
    "bJob",
    "bAt",
    "bAmount",
    "sOf",
    "sAt",
    "sValue",
    "iNumber",
    "iFrame",
    "iFrom",
    "aTask",
    "aJob",
    "aFrom",
    "aDeadline",
    "aEnd",
    "xTask",
    "xFrom",
    "xLength",
];

/// The flag of a job with a deadline, above the code of its outcome, and that of a piece of a handler, above the code of its reason.
const FLAG: u64 = 8;

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

/// The columns, and the unit of their instants.
struct Columns {
    columns: [Column; NAMES.len()],
    /// Zero as long as all instants are zero.
    unit: i64,
    /// Each unit, with the numbers of values that were written before it.
    units: Vec<(i64, Vec<u64>)>,
}

impl Columns {
    fn at(&mut self, column: Of) -> &mut Column {
        &mut self.columns[column as usize]
    }

    /// Makes the unit a divisor of an instant.
    fn fit(&mut self, at: Time) {
        let ns = at.ns();
        if ns == 0 || (self.unit != 0 && ns % self.unit == 0) {
            return;
        }
        self.unit = greatest_common_divisor(self.unit, ns);
        self.units.push((self.unit, self.columns.iter().map(|column| column.count).collect()));
    }

    /// Writes a difference of instants, which the unit divides.
    fn time(&mut self, column: Of, ns: i64) {
        let unit = self.unit.max(1);
        self.at(column).signed(ns / unit);
    }

    /// Writes a length, which the unit divides.
    fn length(&mut self, column: Of, ns: i64) {
        let unit = self.unit.max(1);
        self.at(column).unsigned((ns.max(0) / unit) as u64);
    }

    /// Writes a span of a task. Its start is written as the distance from the start of the one before in these columns.
    fn span(&mut self, [task, from, length]: [Of; 3], before: &mut Time, (of, begin, end): (TaskId, Time, Time)) {
        self.fit(begin);
        self.fit(end);
        self.at(task).unsigned(of.0.into());
        self.time(from, (begin - std::mem::replace(before, begin)).ns());
        self.length(length, (end - begin).ns());
    }
}

/// A job on its CPUs.
struct Running {
    job: JobId,
    place: Place,
    decided: Time,
    from: Time,
    handler: bool,
}

/// A job that is not written yet.
struct Open {
    job: Job,
    known: Time,
    consumed: Span,
    /// How long it ran, without its handler.
    ran: Span,
    /// The end of its last piece.
    last: Option<Time>,
}

/// A task in the course of the trace. Differences refer to the value before.
#[derive(Default)]
struct Task {
    running: Option<Running>,
    waiting: Option<(Time, Option<ResourceId>)>,
    asked: Option<ResourceId>,
    in_handler: bool,
    handler: Option<(JobId, Handler)>,
    /// By ascending number.
    open: VecDeque<Open>,
    /// Since when a process of a window table continues a job that was cut off.
    overdue: Option<Time>,
    /// The job at whose place an aborted job's work is done, this aborted job, and since when.
    behind: Option<(JobId, JobId, Time)>,
    jobs: u64,
    number: i64,
    release: Time,
    distance: Span,
    relative: Span,
    piece: i64,
    granted: i64,
}

/// The quantity of a lane of samples. Its words are those of the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Series {
    Frequency(u16),
    Temperature(u16),
    Round(u16),
    RoundPlanned(u16),
    Meter(u16),
}

/// The beginning of the trace, for the chart of browsers without JavaScript.
#[derive(Default)]
struct Beginning {
    trace: Trace,
    pieces: usize,
    /// The start of the first piece that is not drawn.
    end: Option<Time>,
    is_full: bool,
}

impl Beginning {
    fn record(&mut self, r: &Stamped) {
        if self.is_full {
            return;
        }
        if self.trace.records.len() >= DRAWN_RECORDS || self.end.is_some_and(|end| r.applied > end) {
            self.is_full = true;
            return;
        }
        if let RecordKind::Start { .. } = r.record.kind {
            self.pieces += 1;
            if self.pieces > DRAWN_PIECES {
                self.end.get_or_insert(r.applied);
            }
        }
        self.trace.records.push(*r);
    }

    fn drawing(mut self, header: Header, footer: Option<Footer>) -> String {
        self.trace.header = header;
        if self.is_full {
            self.trace.header.duration = None;
        } else {
            self.trace.footer = footer;
        }
        drawing(&self.trace)
    }
}

/// Takes the parts of a trace, and gives it as data of a page.
pub(super) struct Encoder {
    header: Header,
    tasks: Vec<Task>,
    columns: Columns,
    counter: Counter,
    policies: Policies,
    switches: Vec<Switch>,
    calls: Vec<Asked>,
    changes: Vec<Change>,
    holds: Vec<(TaskId, ResourceId, Time)>,
    /// By place, the end of its last piece.
    free: Vec<Time>,
    series: BTreeMap<Series, u64>,
    names: Vec<Series>,
    resources: usize,
    beginning: Beginning,
    pieces: usize,
    last: Time,
    wait: Time,
    hold: Time,
    overdue: Time,
    budget: Time,
    sample: Time,
    window: Time,
    frame: i64,
    handler: Time,
    behind: Time,
}

impl Encoder {
    pub(super) fn new(header: &Header) -> Encoder {
        Encoder {
            tasks: header.tasks.iter().map(|_| Task::default()).collect(),
            columns: Columns { columns: std::array::from_fn(|_| Column::default()), unit: 0, units: Vec::new() },
            counter: Counter::new(header),
            policies: Policies::of(header),
            switches: Vec::new(),
            calls: Vec::new(),
            changes: Vec::new(),
            holds: Vec::new(),
            free: vec![Time::ZERO; header.places.len()],
            series: BTreeMap::new(),
            names: Vec::new(),
            resources: 0,
            beginning: Beginning::default(),
            pieces: 0,
            last: Time::ZERO,
            wait: Time::ZERO,
            hold: Time::ZERO,
            overdue: Time::ZERO,
            budget: Time::ZERO,
            sample: Time::ZERO,
            window: Time::ZERO,
            frame: 0,
            handler: Time::ZERO,
            behind: Time::ZERO,
            header: header.clone(),
        }
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn change(&mut self, change: &Change) {
        if self.changes.len() < LISTED_MAX {
            self.changes.push(change.clone());
        }
    }

    pub(super) fn task(&mut self, task: &TaskLabel) {
        self.counter.task(task.name.clone(), task);
        self.tasks.push(Task::default());
        self.header.tasks.push(TaskLabel { added: true, ..task.clone() });
    }

    pub(super) fn measured(&mut self, measured: &Measured) {
        if !self.beginning.is_full && self.beginning.trace.measured.len() < DRAWN_RECORDS {
            self.beginning.trace.measured.push(*measured);
        }
        self.sample(Series::Meter(measured.meter), measured.at, measured.value);
    }

    /// Takes a record.
    pub(super) fn record(&mut self, r: &Stamped) -> Result<(), TooLarge> {
        self.last = self.last.max(r.applied).max(r.record.at);
        self.beginning.record(r);
        self.counter.record(r);
        let at = r.applied;
        match r.record.kind {
            RecordKind::Window { window, frame } => {
                self.columns.fit(at);
                self.columns.at(Of::WindowNumber).unsigned(window.into());
                let frame = frame as i64;
                self.columns.at(Of::WindowFrame).signed(frame - std::mem::replace(&mut self.frame, frame));
                self.columns.time(Of::WindowFrom, (at - std::mem::replace(&mut self.window, at)).ns());
            }
            RecordKind::Release { task, job: number, deadline } => {
                self.written_jobs(task);
                let release = r.record.at;
                let job = Job {
                    task,
                    number,
                    release,
                    deadline,
                    finish: None,
                    handler: None,
                    cut_off: false,
                    continues: None,
                };
                let open = Open { job, known: at.max(release), consumed: Span::ZERO, ran: Span::ZERO, last: None };
                self.tasks[task.index()].open.push_back(open);
            }
            RecordKind::Budget { task, job, amount } => {
                self.columns.fit(at);
                self.columns.at(Of::BudgetTask).unsigned(task.0.into());
                let job = job as i64;
                let before = std::mem::replace(&mut self.tasks[task.index()].granted, job);
                self.columns.at(Of::BudgetJob).signed(job - before);
                self.columns.time(Of::BudgetAt, (at - std::mem::replace(&mut self.budget, at)).ns());
                self.columns.at(Of::BudgetAmount).optional(amount.map(|amount| amount.ns() as u64));
            }
            RecordKind::Start { task, job, place } => {
                self.pieces += 1;
                if self.pieces > PIECES_MAX {
                    return Err(TooLarge);
                }
                let own = &mut self.tasks[task.index()];
                let handler = own.in_handler;
                // A contradiction: the piece before has no stop.
                let before =
                    own.running.replace(Running { job, place, decided: r.record.at.min(at), from: at, handler });
                if let Some(before) = before {
                    self.piece(task, &before, at, None);
                }
            }
            RecordKind::Stop { task, reason, .. } => {
                if let Some(running) = self.tasks[task.index()].running.take() {
                    self.piece(task, &running, at, Some(reason));
                }
            }
            RecordKind::Finish { task, job, outcome, consumed } => {
                self.finished(task, job, outcome, consumed.nominal_time(), r)
            }
            RecordKind::Block { task, .. } => {
                self.woken(task, at);
                let own = &mut self.tasks[task.index()];
                own.waiting = Some((at, own.asked));
            }
            RecordKind::Wake { task, .. } => self.woken(task, at),
            RecordKind::Lock { task, resource, granted } => {
                self.tasks[task.index()].asked = (!granted).then_some(resource);
                if granted {
                    self.holds.push((task, resource, at));
                }
            }
            RecordKind::Withdraw { task, .. } => self.tasks[task.index()].asked = None,
            RecordKind::Unlock { task, resource } => {
                let held = |hold: &(TaskId, ResourceId, Time)| (hold.0, hold.1) == (task, resource);
                if let Some(index) = self.holds.iter().rposition(held) {
                    let (.., from) = self.holds.remove(index);
                    self.held(task, resource, from, at.max(from));
                }
            }
            RecordKind::Handler { task, job, deadline } => {
                let own = &mut self.tasks[task.index()];
                own.in_handler = true;
                own.handler = Some((job, Handler { from: r.record.at, deadline, end: None }));
            }
            RecordKind::HandlerEnd { task, .. } => {
                self.woken(task, at);
                let own = &mut self.tasks[task.index()];
                own.in_handler = false;
                if let Some((job, handler)) = own.handler.take() {
                    self.handler(task, job, Handler { end: Some(r.record.at), ..handler });
                }
            }
            RecordKind::Behind { task, job, abandoned } => {
                self.caught_up(task, at);
                self.tasks[task.index()].behind = Some((job, abandoned, at));
            }
            RecordKind::LateSignal { task, job } => {
                self.no_longer_overdue(task, at);
                if self.tasks[task.index()].behind.is_some_and(|(_, abandoned, _)| abandoned == job) {
                    self.caught_up(task, at);
                }
            }
            RecordKind::Exit { task, .. } => self.no_longer_overdue(task, at),
            RecordKind::Round { place, set_point, measured, .. } => {
                self.sample(Series::Round(place.0), at, measured.ns());
                self.sample(Series::RoundPlanned(place.0), at, set_point.ns());
            }
            RecordKind::Frequency { domain, khz } => self.sample(Series::Frequency(domain), at, khz.into()),
            RecordKind::Temperature { zone, millidegrees: Some(value) } => {
                self.sample(Series::Temperature(zone), at, value.into());
            }
            RecordKind::Switch { domain, to } => {
                let switch = self.policies.switch(at, domain, to);
                self.switched(switch);
            }
            RecordKind::Table { to } => {
                let switch = self.policies.table(at, to);
                self.switched(switch);
            }
            RecordKind::Configure { setting, value } => {
                let switch = self.policies.configure(at, setting, value);
                self.switched(switch);
            }
            RecordKind::Call { task, job, call, granted } => {
                if self.calls.len() < LISTED_MAX {
                    self.calls.push(Asked { at, task, job, call, granted });
                }
            }
            RecordKind::WindowsLost { .. }
            | RecordKind::Yield { .. }
            | RecordKind::Deadlock { .. }
            | RecordKind::Burst { .. }
            | RecordKind::Lost { .. }
            | RecordKind::IdleLatency { .. }
            | RecordKind::Temperature { millidegrees: None, .. }
            | RecordKind::StartSkipped { .. } => {}
        }
        Ok(())
    }

    fn switched(&mut self, switch: Switch) {
        if self.switches.len() < LISTED_MAX {
            self.switches.push(switch);
        }
    }

    fn finished(&mut self, task: TaskId, job: JobId, outcome: Outcome, consumed: Span, r: &Stamped) {
        let own = &mut self.tasks[task.index()];
        let index = own.open.partition_point(|open| open.job.number < job);
        if let Some(open) = own.open.get_mut(index).filter(|open| open.job.number == job) {
            open.job.finish = Some((r.record.at, outcome));
            open.consumed = consumed;
        }
        if outcome != Outcome::Skipped {
            own.asked = None;
            self.woken(task, r.applied);
        } else if let Some(open) = self.tasks[task.index()].open.remove(index) {
            // It waits for no job before it, which may never end.
            self.job(&open);
        }
        let own = &mut self.tasks[task.index()];
        let is_behind = own.behind.is_some_and(|(of, ..)| of == job);
        let is_cut = matches!(outcome, Outcome::BudgetUsed | Outcome::Overrun);
        if is_cut && self.header.tasks[task.index()].completion.is_some() {
            own.overdue.get_or_insert(r.applied);
        }
        if !is_cut {
            self.no_longer_overdue(task, r.applied);
        }
        if is_behind {
            self.caught_up(task, r.applied);
        }
    }

    fn no_longer_overdue(&mut self, task: TaskId, at: Time) {
        if let Some(from) = self.tasks[task.index()].overdue.take() {
            let columns = [Of::OverdueTask, Of::OverdueFrom, Of::OverdueLength];
            self.columns.span(columns, &mut self.overdue, (task, from, at.max(from)));
        }
    }

    fn caught_up(&mut self, task: TaskId, at: Time) {
        if let Some((.., from)) = self.tasks[task.index()].behind.take() {
            let columns = [Of::BehindTask, Of::BehindFrom, Of::BehindLength];
            self.columns.span(columns, &mut self.behind, (task, from, at.max(from)));
        }
    }

    fn woken(&mut self, task: TaskId, at: Time) {
        if let Some((from, resource)) = self.tasks[task.index()].waiting.take() {
            let columns = [Of::WaitTask, Of::WaitFrom, Of::WaitLength];
            self.columns.span(columns, &mut self.wait, (task, from, at.max(from)));
            self.columns.at(Of::WaitResource).optional(resource.map(|r| r.0.into()));
            self.resources = self.resources.max(resource.map_or(0, |r| usize::from(r.0) + 1));
        }
    }

    fn held(&mut self, task: TaskId, resource: ResourceId, from: Time, to: Time) {
        let columns = [Of::HoldTask, Of::HoldFrom, Of::HoldLength];
        self.columns.span(columns, &mut self.hold, (task, from, to));
        self.columns.at(Of::HoldResource).unsigned(resource.0.into());
        self.resources = self.resources.max(usize::from(resource.0) + 1);
    }

    fn sample(&mut self, series: Series, at: Time, value: i64) {
        let next = self.names.len() as u64;
        let index = *self.series.entry(series).or_insert(next);
        if index == next {
            self.names.push(series);
        }
        self.columns.fit(at);
        self.columns.at(Of::SampleSeries).unsigned(index);
        self.columns.time(Of::SampleAt, (at - std::mem::replace(&mut self.sample, at)).ns());
        self.columns.at(Of::SampleValue).signed(value);
    }

    /// Writes a piece. Its start is the distance from the end of the piece before it on its CPUs, which is often zero.
    fn piece(&mut self, task: TaskId, running: &Running, to: Time, reason: Option<StopReason>) {
        let Running { job, place, decided, from, handler } = *running;
        let to = to.max(from);
        let columns = &mut self.columns;
        [decided, from, to].into_iter().for_each(|at| columns.fit(at));
        columns.at(Of::PieceTask).unsigned(task.0.into());
        columns.at(Of::PiecePlace).unsigned(place.0.into());
        columns.time(Of::PieceStart, (from - std::mem::replace(&mut self.free[place.index()], to)).ns());
        columns.length(Of::PieceLength, (to - from).ns());
        columns.length(Of::PieceDecided, (from - decided).ns());
        let own = &mut self.tasks[task.index()];
        columns.at(Of::PieceJob).signed(job as i64 - std::mem::replace(&mut own.piece, job as i64));
        columns.at(Of::PieceHow).unsigned(reason_code(reason) + if handler { FLAG } else { 0 });
        if handler {
            return;
        }
        let index = own.open.partition_point(|open| open.job.number < job);
        if let Some(open) = own.open.get_mut(index).filter(|open| open.job.number == job) {
            open.ran += to - from;
            open.last = Some(to);
        }
    }

    fn handler(&mut self, task: TaskId, job: JobId, handler: Handler) {
        let from = handler.from;
        let columns = &mut self.columns;
        [Some(from), handler.deadline, handler.end].into_iter().flatten().for_each(|at| columns.fit(at));
        columns.at(Of::HandlerTask).unsigned(task.0.into());
        columns.at(Of::HandlerJob).unsigned(job);
        columns.time(Of::HandlerFrom, (from - std::mem::replace(&mut self.handler, from)).ns());
        let unit = columns.unit.max(1);
        let after = |at: Option<Time>| at.map(|at| ((at - from).ns().max(0) / unit) as u64);
        columns.at(Of::HandlerDeadline).optional(after(handler.deadline));
        columns.at(Of::HandlerEnd).optional(after(handler.end));
    }

    /// Writes the jobs of a task that are over, and whose last piece is.
    fn written_jobs(&mut self, task: TaskId) {
        loop {
            let own = &mut self.tasks[task.index()];
            let running = own.running.as_ref().map(|running| running.job);
            let is_over = |open: &&Open| open.job.finish.is_some() && running != Some(open.job.number);
            if own.open.front().filter(is_over).is_none() {
                return;
            }
            let open = own.open.pop_front().expect("the front was seen");
            self.job(&open);
        }
    }

    /// Writes a job. Its end is the distance from the end of its last piece, and its consumed time the difference from the time for which it ran.
    fn job(&mut self, open: &Open) {
        let Open { job, known, consumed, ran, last } = open;
        self.counter.job(job, self.last);
        let own = &mut self.tasks[job.task.index()];
        own.jobs += 1;
        let columns = &mut self.columns;
        let instants = [Some(job.release), Some(*known), job.deadline, job.finish.map(|(at, _)| at)];
        instants.into_iter().flatten().for_each(|at| columns.fit(at));
        columns.at(Of::JobTask).unsigned(job.task.0.into());
        let number = job.number as i64;
        columns.at(Of::JobNumber).signed(number - std::mem::replace(&mut own.number, number) - 1);
        let distance = job.release - std::mem::replace(&mut own.release, job.release);
        columns.time(Of::JobRelease, (distance - std::mem::replace(&mut own.distance, distance)).ns());
        columns.length(Of::JobKnown, (*known - job.release).ns());
        columns.at(Of::JobHow).unsigned(outcome_code(job) + if job.deadline.is_some() { FLAG } else { 0 });
        if let Some(deadline) = job.deadline {
            let relative = deadline - job.release;
            columns.time(Of::JobDeadline, (relative - std::mem::replace(&mut own.relative, relative)).ns());
        }
        if let Some((end, _)) = job.finish {
            columns.time(Of::JobEnd, (end - last.unwrap_or(job.release)).ns());
            columns.at(Of::JobConsumed).signed((*ran - *consumed).ns());
        }
    }

    /// The data and the chart for browsers without JavaScript. Jobs and pieces are open up to the end.
    pub(super) fn done(mut self, id: &'static str, footer: Option<Footer>) -> (Data, String) {
        let end = match (footer, self.header.duration) {
            (Some(footer), _) => footer.end,
            (None, Some(duration)) => self.last.max(Time::ZERO + duration),
            (None, None) => self.last,
        };
        self.last = end;
        let tasks = (0..self.tasks.len()).map(|index| TaskId(index as u32));
        for task in tasks.clone() {
            if let Some(running) = self.tasks[task.index()].running.take() {
                self.piece(task, &running, end, None);
            }
            self.woken(task, end);
            self.no_longer_overdue(task, end);
            self.caught_up(task, end);
            if let Some((job, handler)) = self.tasks[task.index()].handler.take() {
                self.handler(task, job, handler);
            }
            let open = std::mem::take(&mut self.tasks[task.index()].open);
            open.iter().for_each(|open| self.job(open));
        }
        for (task, resource, from) in std::mem::take(&mut self.holds) {
            self.held(task, resource, from, end.max(from));
        }
        self.columns.fit(end);
        let signals: Vec<bool> = tasks.map(|task| self.counter.signals(task.index())).collect();
        let summary = self.counter.summary(end);
        let header = &self.header;
        let labels = header.labels();
        let task = |(((label, task), TaskSummary { counts: c, .. }), signals): (((&String, &TaskLabel), _), &bool)| {
            json!({"name": shown(label), "partition": task.partition.as_deref().map(shown), "class": task.class.as_deref().map(shown),
                "counts": counts(&c), "signals": signals})
        };
        let tasks: Vec<_> = labels.iter().zip(&header.tasks).zip(summary.tasks).zip(&signals).map(task).collect();
        let places: Vec<Vec<usize>> =
            header.places.iter().map(|place| place.difference(&header.kernel_cpus).iter().collect()).collect();
        let resources: Vec<_> =
            (0..self.resources).map(|index| shown(&header.resource(ResourceId(index as u16)))).collect();
        let switches: Vec<_> = self.switches.iter().map(|s| json!([s.at.ns(), shown(&s.to_string())])).collect();
        let call = |c: &Asked| json!([c.at.ns(), c.task.0, c.job, shown(&c.to_string()), c.granted]);
        let changes: Vec<_> = self.changes.iter().map(|c| json!([c.at.ns(), c.to_string()])).collect();
        let value = json!({
            "heading": shown(&heading_of(header)), "source": header.source, "workload": shown(&header.workload),
            "seed": header.seed, "complete": footer.is_some(), "end": end.ns(), "names": NAMES[..], "units": self.columns.units,
            "tasks": tasks, "places": places, "resources": resources, "total": counts(&summary.total),
            "has_deadline_order": has_deadline_order(header), "has_speeds": !header.frequency_domains.is_empty(), "samples": self.names.iter().map(|of| series(header, *of)).collect::<Vec<_>>(),
            "switches": switches, "calls": self.calls.iter().map(call).collect::<Vec<_>>(), "changes": changes,
            "jobs": self.tasks.iter().map(|task| task.jobs).collect::<Vec<_>>(), "pieces": self.columns.at(Of::PieceTask).count,
        });
        let columns = NAMES.into_iter().zip(self.columns.columns.map(Column::packed)).collect();
        (Data { id, value, columns }, self.beginning.drawing(self.header, footer))
    }
}

/// The kind of a lane of samples, its name, and the unit of its values.
fn series(header: &Header, of: Series) -> Value {
    let title =
        |place: u16| header.places.get(usize::from(place)).map_or_else(String::new, |set| header.place_title(set));
    let (kind, name, unit) = match of {
        Series::Frequency(domain) => ("frequency", header.frequency_domain(domain), "kHz"),
        Series::Temperature(zone) => ("temperature", header.zone(zone), "m°C"),
        Series::Round(place) => ("round", title(place), "ns"),
        Series::RoundPlanned(place) => ("planned", title(place), "ns"),
        Series::Meter(meter) => {
            let unit = header.meters.get(usize::from(meter)).map_or("", |label| label.quantity.unit());
            ("measured", header.meter(meter), unit)
        }
    };
    json!([kind, shown(&name), unit])
}
