//! Schedule synthesis: the schedule of an online policy, frozen into a static window table.
//!
//! An offline scheduler computes a table before the run and the run only looks it up. Any policy can be that scheduler: the
//! schedule of periodic tasks repeats after a hyperperiod, once all of them have begun (Leung and Merrill, "A Note on Preemptive
//! Scheduling of Periodic, Real-Time Tasks", Information Processing Letters 11, 1980, for one CPU). It is simulated, one
//! hyperperiod of it is cut where any CPU changes its task, and each piece becomes a window with one slice per busy CPU.
//!
//! Invariant: each task is alone in a partition that owns exactly the time that its jobs had in the simulated schedule. Since
//! every job is over before its task's next release, each finds its own time in the table, whatever the other tasks do.

use crate::virtual_time::simulate;
use std::fmt;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{
    Arrival, Backlog, Execution, Invalid, Partition, PartitionId, PolicySpec, Scope, Slice, System, Task, TaskId,
    Timing, Window,
};
use takt_core::policies::{edf, rm, windows};
use takt_core::policy::Registry;
use takt_core::record::{Outcome, Record, RecordKind, Sink};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};

/// The most jobs that are simulated for a table.
pub const MAX_FROZEN_JOBS: u64 = 1_000_000;

/// How many hyperperiods after the last first release are looked at, for two in a row that are alike: first few, then more.
const LOOKS: [i64; 2] = [2, 8];

/// Why a schedule cannot be frozen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unfrozen {
    /// The system is a window table already.
    Table,
    /// There are no tasks.
    Empty,
    /// The task has no jobs at a fixed period.
    NotPeriodic(TaskId),
    /// How long jobs of the task take is not known beforehand: no runtime, or `steps`, `execution`, a `handler` or a `jitter`.
    Unknown(TaskId),
    /// The machine's clock or load is not that of a table: `tick`, `resolution`, `lateness` or `load`.
    Machine,
    /// The schedule has more than [`MAX_FROZEN_JOBS`] jobs until it repeats.
    Long,
    /// The table would have more windows than this.
    Windows(usize),
    /// A job of the task is not over by its deadline, or not before the next one comes.
    Late {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: u64,
        /// When it had to be over.
        due: Time,
    },
    /// The schedule does not repeat with the hyperperiod.
    Changing,
    /// The policy does not suit the system.
    Invalid(Invalid),
}

impl fmt::Display for Unfrozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfrozen::Table => write!(f, "it is a window table already"),
            Unfrozen::Empty => write!(f, "there are no tasks"),
            Unfrozen::NotPeriodic(t) => write!(f, "task {} is not periodic", t.0),
            Unfrozen::Unknown(t) => write!(f, "task {} has jobs whose length is not known beforehand", t.0),
            Unfrozen::Machine => write!(f, "a tick, a timer's resolution or a changing load has no place in a table"),
            Unfrozen::Long => write!(f, "there are more than {MAX_FROZEN_JOBS} jobs until it repeats"),
            Unfrozen::Windows(most) => write!(f, "the table would have more than {most} windows"),
            Unfrozen::Late { task, job, due } => write!(f, "task {} has not ended its job {job} by {due}", task.0),
            Unfrozen::Changing => write!(f, "it does not repeat with the hyperperiod"),
            Unfrozen::Invalid(why) => write!(f, "{why}"),
        }
    }
}
impl std::error::Error for Unfrozen {}

/// Freezes the schedule of a system under its online policy, which `registry` holds, into a window table of at most `most` windows.
///
/// The major frame is the hyperperiod. Task `i` is alone in partition `i`, under `edf`, or `rm` if it has no deadline (`g-edf` and
/// `g-rm` if it has several CPUs in turn), and keeps its period, offset and deadline. Simulated, the table gives every CPU to the
/// same task at every instant as the source does, from the first hyperperiod on in which all tasks have begun and the source's
/// schedule repeats. If tasks trade CPUs from one hyperperiod to the next, the table has the CPUs of one of them, and at every
/// instant the same tasks run.
/// Costs the simulation of that many hyperperiods.
///
/// # Errors
/// See [`Unfrozen`].
pub fn freeze(system: &System, registry: &Registry, most: usize) -> Result<System, Unfrozen> {
    let (frame, offset) = periodic(system)?;
    let first = offset.ns().div_euclid(frame.ns()) + i64::from(offset.ns() % frame.ns() > 0);
    let mut jobs_per_frame: u64 = 0;
    for task in &system.tasks {
        let period = task.arrival.period().expect("all are periodic");
        jobs_per_frame = jobs_per_frame.saturating_add((frame.ns() / period.ns()) as u64);
    }
    for look in LOOKS {
        let frames = first.saturating_add(look);
        let length = frame.ns().checked_mul(frames).map(Span::from_ns).ok_or(Unfrozen::Long)?;
        if jobs_per_frame.saturating_mul(frames as u64) > MAX_FROZEN_JOBS {
            return Err(Unfrozen::Long);
        }
        let pieces = watch(
            system,
            registry,
            length,
            Time::ZERO + frame * first,
            most.saturating_mul(look as usize * system.cpus.len()),
        )?;
        let Some(pieces) = pieces else { return Err(Unfrozen::Windows(most)) };
        let cut = |k: i64| cut(&pieces, frame * k, frame * (k + 1));
        let frames: Vec<Vec<Piece>> = (first..first + look).map(cut).collect();
        let pair = |alike: fn(&[Piece], &[Piece]) -> bool| frames.windows(2).find(|pair| alike(&pair[0], &pair[1]));
        // Tasks may trade CPUs from one hyperperiod to the next for longer than anybody wants to look.
        let last = look == LOOKS[LOOKS.len() - 1];
        let found = pair(|a, b| a == b).or_else(|| pair(|a, b| by_task(a) == by_task(b)).filter(|_| last));
        if let Some(pair) = found {
            return table(system, frame, &pair[0], most);
        }
    }
    Err(Unfrozen::Changing)
}

/// The hyperperiod and the last first release, when every task is periodic and its jobs take a known time.
fn periodic(system: &System) -> Result<(Span, Span), Unfrozen> {
    if !system.windows.is_empty() {
        return Err(Unfrozen::Table);
    }
    if system.tasks.is_empty() {
        return Err(Unfrozen::Empty);
    }
    if system.timing != Timing::default() || system.load.is_some() {
        return Err(Unfrozen::Machine);
    }
    let (mut hyperperiod, mut last) = (Span::from_ns(1), Span::ZERO);
    for (id, task) in (0..).map(TaskId).zip(&system.tasks) {
        let Arrival::Periodic { offset, period } = task.arrival else { return Err(Unfrozen::NotPeriodic(id)) };
        let plain =
            task.program.steps.is_empty() && task.program.execution == Execution::Declared && task.handler.is_none();
        if !plain || task.runtime.is_none() || task.jitter != Span::ZERO {
            return Err(Unfrozen::Unknown(id));
        }
        last = last.max(offset);
        hyperperiod = hyperperiod.lcm(period).ok_or(Unfrozen::Long)?;
    }
    Ok((hyperperiod, last))
}

/// A CPU that runs a task for a time, which is counted from the start of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Piece {
    from: Span,
    to: Span,
    cpu: usize,
    task: u32,
}

/// Watches a simulation from an instant on.
struct Watch<'a> {
    system: &'a System,
    from: Span,
    most: usize,
    running: Vec<Option<(Span, u32)>>,
    pieces: Vec<Piece>,
    /// How many jobs of each task are over.
    over: Vec<u64>,
    late: Option<(TaskId, u64, Time)>,
}

impl Watch<'_> {
    fn stop(&mut self, place: usize, at: Span) {
        let Some((began, task)) = self.running[place].take() else { return };
        let began = began.max(self.from);
        if began < at && self.pieces.len() <= self.most {
            self.pieces.push(Piece { from: began, to: at, cpu: place, task });
        }
    }

    /// By when a job must be over: its deadline, and the next release.
    fn due(&self, task: TaskId, job: u64) -> Time {
        let described = &self.system.tasks[task.index()];
        let (first, period) = (described.arrival.first(), described.arrival.period());
        let (first, period) = (first.expect("all are periodic"), period.expect("all are periodic"));
        first + period * job as i64 + described.deadline.map_or(period, |d| d.min(period))
    }

    fn judge(&mut self, task: TaskId, job: u64, good: bool) {
        let due = self.due(task, job);
        if !good && self.late.is_none_or(|(_, _, earlier)| due < earlier) {
            self.late = Some((task, job, due));
        }
    }
}

impl Sink for Watch<'_> {
    fn record(&mut self, Record { at, kind: what }: Record) {
        let since = at - Time::ZERO;
        match what {
            RecordKind::Start { task, place, .. } => self.running[place.index()] = Some((since, task.0)),
            RecordKind::Stop { place, .. } => self.stop(place.index(), since),
            RecordKind::Finish { task, job, outcome, .. } => {
                self.over[task.index()] = self.over[task.index()].max(job + 1);
                self.judge(task, job, outcome == Outcome::Completed && at <= self.due(task, job));
            }
            _ => {}
        }
    }
}

/// Simulates, and gives the pieces after `from`; `None` when there are more than `most`.
fn watch(
    system: &System,
    registry: &Registry,
    length: Span,
    from: Time,
    most: usize,
) -> Result<Option<Vec<Piece>>, Unfrozen> {
    let mut engine = Engine::with_registry(system.clone(), registry.clone()).map_err(Unfrozen::Invalid)?;
    let n = system.tasks.len();
    let running = vec![None; system.places().len()];
    let from = from - Time::ZERO;
    let mut watch = Watch { system, from, most, running, pieces: Vec::new(), over: vec![0; n], late: None };
    simulate(&mut engine, &Scenario::default(), length, &mut watch, |_| ());
    let end = Time::ZERO + length;
    for task in (0..n as u32).map(TaskId) {
        let next = watch.over[task.index()];
        let good = watch.due(task, next) > end;
        watch.judge(task, next, good);
    }
    (0..watch.running.len()).for_each(|place| watch.stop(place, length));
    if let Some((task, job, due)) = watch.late {
        return Err(Unfrozen::Late { task, job, due });
    }
    Ok((watch.pieces.len() <= most).then_some(watch.pieces))
}

/// The pieces between two instants, counted from the first, in order, those that meet joined.
fn cut(pieces: &[Piece], from: Span, to: Span) -> Vec<Piece> {
    let within = pieces.iter().filter(|p| p.to > from && p.from < to);
    let mut cut: Vec<Piece> =
        within.map(|p| Piece { from: p.from.max(from) - from, to: p.to.min(to) - from, ..*p }).collect();
    join(&mut cut);
    cut
}

/// Joins those that meet, and puts them in order.
fn join(pieces: &mut Vec<Piece>) {
    pieces.sort_unstable_by_key(|p| (p.cpu, p.task, p.from));
    pieces.dedup_by(|next, p| {
        let same = (p.cpu, p.task, p.to) == (next.cpu, next.task, next.from);
        if same {
            p.to = next.to;
        }
        same
    });
    pieces.sort_unstable();
}

/// The pieces without their CPUs.
fn by_task(pieces: &[Piece]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = pieces.iter().map(|p| Piece { cpu: 0, ..*p }).collect();
    join(&mut pieces);
    pieces
}

/// The table of these pieces of a frame.
fn table(system: &System, frame: Span, pieces: &[Piece], most: usize) -> Result<System, Unfrozen> {
    let mut borders: Vec<Span> = pieces.iter().flat_map(|p| [p.from, p.to]).chain([Span::ZERO, frame]).collect();
    borders.sort_unstable();
    borders.dedup();
    if borders.len() - 1 > most {
        return Err(Unfrozen::Windows(most));
    }
    let cpus: Vec<usize> = system.cpus.iter().collect();
    let mut reach = vec![CpuSet::EMPTY; system.tasks.len()];
    let mut windows = Vec::with_capacity(borders.len() - 1);
    let (mut running, mut coming): (Vec<Piece>, _) = (Vec::new(), pieces.iter().peekable());
    for border in borders.windows(2) {
        running.retain(|p| p.to > border[0]);
        while let Some(piece) = coming.next_if(|p| p.from <= border[0]) {
            running.push(*piece);
        }
        running.sort_unstable_by_key(|p| p.cpu);
        let slice = |p: &Piece| {
            let cpu = CpuSet::single(cpus[p.cpu]);
            reach[p.task as usize] = reach[p.task as usize].union(&cpu);
            Slice { cpus: cpu, sc: Some(PartitionId(p.task)), be: None }
        };
        windows.push(Window { length: border[1] - border[0], slices: running.iter().map(slice).collect() });
    }
    let alone = |(task, reach): (u32, &CpuSet)| {
        // Any order does for one task; that of EDF needs a deadline.
        let dated = system.tasks[task as usize].deadline.is_some();
        let guest = if dated { &edf::ENTRY.profile } else { &rm::ENTRY.profile };
        let scope = if reach.len() == 1 { Scope::Uniprocessor } else { Scope::Global };
        Partition { tasks: vec![TaskId(task)], policy: Some(PolicySpec::new(guest, scope)) }
    };
    // Settings of the frozen policy mean nothing to the table.
    let plain = Task::default();
    let task = |(task, reach): (&Task, &CpuSet)| Task {
        affinity: *reach,
        priority: plain.priority,
        share: plain.share,
        importance: plain.importance,
        reservation: plain.reservation,
        server: plain.server,
        ..task.clone()
    };
    let backlog = if system.backlog == Backlog::Skip { Backlog::Skip } else { Backlog::Queue };
    Ok(System {
        tasks: system.tasks.iter().zip(&reach).map(task).collect(),
        partitions: (0..).zip(&reach).map(alone).collect(),
        windows,
        late: system.late,
        backlog,
        seed: system.seed,
        ..System::new(system.cpus, PolicySpec::new(&windows::ENTRY.profile, Scope::Table))
    })
}
