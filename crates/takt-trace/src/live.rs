//! A schedule in figures while it runs.
//!
//! [`Live`] takes the records of a run one by one, from the thread that drains them or from a recorded trace. Its memory depends on the
//! number of tasks and of unfinished jobs, and not on the length of the run. Its counts follow the rules of [`crate::summary`].
//!
//! The clock of a run is ahead of its records by up to a round of the supervisor. So a job without an end is a miss only half a second
//! after its deadline, and a later record of its end corrects the count. A second without a miss ends an overload. Utilisation is counted
//! in eleven slots of 100 ms: after a second an idle task shows zero.

mod distribution;
mod event;
mod load;
mod snapshot;

pub use distribution::{BOUNDS, Distribution};
pub use event::{Event, EventKind};
pub use snapshot::{CpuStatus, EventStatus, Figures, Overload, Snapshot, TaskState, TaskStatus};

use crate::Header;
use crate::Stamped;
use crate::table::Table;
use crate::timeline::{Policies, Switch};
use load::Load;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use takt_core::cpus::CpuSet;
use takt_core::model::TaskId;
use takt_core::record::{JobId, Outcome, Place, RecordKind, StopReason};
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};

/// An overload is over when for so long no deadline was missed and no job is late.
pub const QUIET: Span = Span::from_secs(1);
/// Far longer than the records of an instant take from the scheduler to here.
const GRACE: Span = Span::from_ms(500);
/// The latest events that a snapshot has.
const EVENTS: usize = 64;
/// Unfinished jobs of all tasks together that are remembered, in equal shares, so that a task whose program hangs takes none of the others'. The
/// outcomes of further jobs are counted, and their response times are not.
const OPEN_MAX: usize = 1 << 17;
/// The least share of a task.
const OPEN_LEAST: usize = 16;

/// Takes each event when it is known.
pub type Listener<'a> = &'a mut dyn FnMut(&Event);

/// The figures of a run so far.
#[derive(Clone, Debug)]
pub struct Live {
    header: Header,
    policies: Policies,
    tasks: Vec<Task>,
    /// By number; empty where a CPU is none of the schedule's.
    cpus: BTreeMap<usize, Cpu>,
    /// The instant reached.
    now: Time,
    /// Deadlines of unfinished jobs that have not passed.
    deadlines: BTreeSet<(Time, u32, JobId)>,
    /// Unfinished jobs whose deadline has passed.
    late: usize,
    /// With their numbers, and more about each ([`EventStatus::detail`]).
    events: VecDeque<(u64, Event, String)>,
    sequence: u64,
    /// When a policy of the whole system took over last.
    switched: Option<Time>,
    overload: Option<Running>,
    overloads: u64,
    lateness: Distribution,
    context_switches: u64,
    windows_lost: u64,
    lost_records: u64,
}

/// An overload that is not over.
#[derive(Clone, Copy, Debug)]
struct Running {
    since: Time,
    /// The last miss, or the end of the last late job.
    last: Time,
    misses: u64,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    runs: Option<(TaskId, Time)>,
    load: Load,
    /// The task that ran last, for context switches.
    last: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    release: Time,
    deadline: Option<Time>,
    missed: bool,
}

#[derive(Clone, Debug, Default)]
struct Task {
    label: String,
    of_kernel: bool,
    counts: Counts,
    skipped: u64,
    table: Option<Table>,
    open: BTreeMap<JobId, Open>,
    /// The activation that is not over, of a process of a window table.
    activation: Option<(JobId, Option<Time>)>,
    running: Option<(JobId, Place, Time)>,
    /// The latest dispatch, for migrations.
    last_run: Option<(JobId, Place)>,
    handler: Option<JobId>,
    blocked: bool,
    gone: bool,
    /// Its program has failed.
    failed: bool,
    /// The budget granted last, and the time on CPUs before that.
    budget: Option<(Span, Span)>,
    load: Load,
    responses: Distribution,
    last_response: Option<Span>,
}

impl Task {
    fn counts(&self) -> Counts {
        if self.table.as_ref().is_some_and(|table| !table.signals) { self.counts.without_jobs() } else { self.counts }
    }

    /// Counts the current interval on CPUs up to an instant, and how long that was.
    fn charge(&mut self, to: Time) {
        if let Some((.., since)) = &mut self.running
            && !self.of_kernel
        {
            self.load.add(*since, to);
            *since = to.max(*since);
        }
    }

    fn respond(&mut self, response: Span) {
        self.responses.add(response);
        self.last_response = Some(response);
    }
}

impl Live {
    /// Before the first record of a run or trace with this header.
    #[must_use]
    pub fn new(header: &Header) -> Live {
        let task = |(label, task): (String, &crate::TaskLabel)| Task {
            label,
            of_kernel: task.class.is_some(),
            table: task.completion.map(Table::new),
            ..Task::default()
        };
        let cpus = header.places.iter().filter(|place| !header.is_of_kernel(place)).flat_map(CpuSet::iter);
        Live {
            tasks: header.labels().into_iter().zip(&header.tasks).map(task).collect(),
            cpus: cpus.map(|cpu| (cpu, Cpu::default())).collect(),
            policies: Policies::of(header),
            header: header.clone(),
            now: Time::ZERO,
            deadlines: BTreeSet::new(),
            late: 0,
            switched: None,
            events: VecDeque::with_capacity(EVENTS),
            sequence: 0,
            overload: None,
            overloads: 0,
            lateness: Distribution::default(),
            context_switches: 0,
            windows_lost: 0,
            lost_records: 0,
        }
    }

    /// A task is added. Its records, which follow, name it by the next index.
    pub fn add(&mut self, label: &crate::TaskLabel) {
        self.header.tasks.push(label.clone());
        self.tasks.push(Task { label: label.name.clone(), ..Task::default() });
    }

    /// The label of each task.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tasks.iter().map(|task| task.label.as_str())
    }

    /// The counts of each task, as in [`crate::summary::summarize`].
    pub fn counts(&self) -> impl ExactSizeIterator<Item = Counts> + '_ {
        self.tasks.iter().map(Task::counts)
    }

    /// The jobs of each task that were skipped. They are among the missed.
    pub fn skipped(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.tasks.iter().map(|task| task.skipped)
    }

    /// The response times of each task.
    pub fn responses(&self) -> impl ExactSizeIterator<Item = &Distribution> {
        self.tasks.iter().map(|task| &task.responses)
    }

    /// Lateness of the scheduler at planned instants.
    #[must_use]
    pub fn lateness(&self) -> &Distribution {
        &self.lateness
    }

    /// How often the running task of a CPU changed; idle time is not counted.
    #[must_use]
    pub fn context_switches(&self) -> u64 {
        self.context_switches
    }

    /// Windows that passed unserved.
    #[must_use]
    pub fn windows_lost(&self) -> u64 {
        self.windows_lost
    }

    /// Records that were lost because the trace was not drained in time. Counts lack them.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        self.lost_records
    }

    /// Overloads that have begun.
    #[must_use]
    pub fn overloads(&self) -> u64 {
        self.overloads
    }

    /// The instant reached.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// A planned instant was handled so late by the scheduler.
    pub fn late_by(&mut self, lateness: Span) {
        self.lateness.add(lateness);
    }

    /// So many records of the run are lost by now.
    pub fn lost(&mut self, records: u64) {
        self.lost_records = records;
    }

    /// A job of a task overran, found by the driver and not in a record. Activations of window tables are found in records.
    pub fn overran(&mut self, task: TaskId, job: JobId, listener: Listener<'_>) {
        let at = self.now;
        if self.tasks.get(task.index()).is_some_and(|task| task.table.is_none()) {
            self.tell(at, Some(task), Some(job), EventKind::Overrun, listener);
        }
    }

    fn tell(&mut self, at: Time, task: Option<TaskId>, job: Option<JobId>, kind: EventKind, listener: Listener<'_>) {
        self.tell_more(Event { at, task, job, kind }, kind.detail(), listener);
    }

    fn tell_more(&mut self, event: Event, detail: String, listener: Listener<'_>) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((self.sequence, event, detail));
        self.sequence += 1;
        listener(&event);
    }

    fn tell_switch(&mut self, switch: &Switch, listener: Listener<'_>) {
        let event = Event { at: switch.at, task: None, job: None, kind: EventKind::Policy };
        self.tell_more(event, switch.to_string(), listener);
    }

    /// A command from outside has changed the schedule in the step of this instant. A policy that takes over is in a record.
    pub fn changed(&mut self, at: Time, command: &str, listener: Listener<'_>) {
        if !command.starts_with("policy ") && !command.starts_with("trigger ") {
            let event = Event { at, task: None, job: None, kind: EventKind::Change };
            self.tell_more(event, command.to_owned(), listener);
        }
    }

    /// Names the policies that the run has loaded while it ran, in their order. The header has `loaded-1` and so on for them.
    pub fn name_loaded<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for (number, name) in (1..).zip(names) {
            let before = format!("loaded-{number}");
            if self.policies.rename(&before, name) {
                for (_, event, detail) in &mut self.events {
                    if event.kind == EventKind::Policy {
                        *detail = detail
                            .split(' ')
                            .map(|word| if word == before { name } else { word })
                            .collect::<Vec<_>>()
                            .join(" ");
                    }
                }
            }
        }
    }

    /// The policy of the whole system with its settings, and since when it holds, if another one has taken over.
    #[must_use]
    pub fn switched(&self) -> Option<(Time, &str)> {
        self.switched.map(|at| (at, self.policies.system()))
    }

    /// A job of a task is missed.
    fn missed(&mut self, at: Time, task: TaskId, job: JobId, outcome: Option<Outcome>, listener: Listener<'_>) {
        self.tell(at, Some(task), Some(job), EventKind::Miss(outcome), listener);
        if self.overload.is_none() {
            self.overloads += 1;
            self.tell(at, None, None, EventKind::OverloadBegin, listener);
        }
        let overload = self.overload.get_or_insert(Running { since: at, last: at, misses: 0 });
        overload.last = overload.last.max(at);
        overload.misses += 1;
    }

    /// When the overload is over, if nothing happens before.
    fn overload_ends(&self) -> Option<Time> {
        self.overload.filter(|_| self.late == 0).map(|overload| overload.last.saturating_add(QUIET))
    }

    /// Advances to an instant: deadlines before it have passed.
    pub fn advance(&mut self, now: Time, listener: Listener<'_>) {
        self.pass(now, false, listener);
        self.now = self.now.max(now);
    }

    /// The clock of a run shows this instant. Records before it may still come, so a deadline has passed only a moment later.
    pub fn tick(&mut self, now: Time, listener: Listener<'_>) {
        self.pass(Time::from_ns(now.ns() - GRACE.ns()), false, listener);
        self.now = self.now.max(now);
    }

    /// The run is over at this instant. A deadline at it has passed.
    pub fn finish(&mut self, end: Time, listener: Listener<'_>) {
        self.pass(end, true, listener);
        self.now = self.now.max(end);
    }

    fn pass(&mut self, now: Time, last: bool, listener: Listener<'_>) {
        loop {
            let due = self.deadlines.first().copied().filter(|(at, ..)| *at < now || last && *at == now);
            let quiet = self.overload_ends().filter(|end| *end <= now && due.is_none_or(|(at, ..)| *end < at));
            match (due, quiet, self.overload) {
                (_, Some(end), Some(Running { since, last, misses })) => {
                    self.overload = None;
                    self.tell(end, None, None, EventKind::OverloadEnd { length: last - since, misses }, listener);
                }
                (Some((at, index, number)), ..) => {
                    self.deadlines.pop_first();
                    let task = &mut self.tasks[index as usize];
                    if let Some(job) = task.open.get_mut(&number) {
                        job.missed = true;
                        task.counts.missed += 1;
                        self.late += 1;
                        self.missed(at, TaskId(index), number, None, listener);
                    }
                }
                _ => break,
            }
        }
    }

    /// Takes a record, in the engine's order. Its tasks and places are those of the header; others are ignored.
    pub fn record(&mut self, record: &Stamped, listener: Listener<'_>) {
        let (at, applied) = (record.record.at, record.applied);
        self.advance(at, listener);
        let kind = record.record.kind;
        match kind {
            RecordKind::WindowsLost { count } => {
                self.windows_lost += count;
                self.tell(at, None, None, EventKind::WindowsLost(count), listener);
            }
            RecordKind::Switch { domain, to } => {
                let switch = self.policies.switch(at, domain, to);
                self.switched = Some(at).filter(|_| domain.is_none()).or(self.switched);
                self.tell_switch(&switch, listener);
            }
            RecordKind::Table { .. } => self.tell(at, None, None, EventKind::Table, listener),
            RecordKind::Configure { setting, value } => {
                let switch = self.policies.configure(at, setting, value);
                self.tell_switch(&switch, listener);
            }
            _ => {}
        }
        let (_, Some(index), _) = crate::jsonl::split(&kind) else { return };
        if index >= self.tasks.len() {
            return;
        }
        let id = TaskId(index as u32);
        if self.tasks[index].table.is_some() {
            self.count_in_table(at, index, &kind, listener);
        }
        let task = &mut self.tasks[index];
        // One that has left may return. One that has failed misses its further jobs, and starts none.
        let returns = match kind {
            RecordKind::Release { .. } => !task.failed,
            RecordKind::Start { .. } => true,
            _ => false,
        };
        if returns {
            (task.gone, task.failed) = (false, false);
        }
        match kind {
            RecordKind::Release { job, deadline, .. } if task.table.is_some() => {
                task.activation = Some((job, deadline))
            }
            RecordKind::Release { job, deadline, .. } => self.release(at, id, job, deadline),
            RecordKind::Start { job, place, .. } => self.start(applied, id, job, place),
            RecordKind::Stop { reason, .. } => {
                task.counts.preemptions += u64::from(reason == StopReason::Preempted);
                task.charge(applied);
                let place = task.running.take().map(|(_, place, _)| place);
                self.leave(applied, place);
            }
            RecordKind::Finish { job, outcome, .. } => {
                if outcome != Outcome::Skipped {
                    (task.blocked, task.budget) = (false, None);
                }
                if task.table.is_some() {
                    task.activation = None;
                } else {
                    self.end(at, id, job, outcome, listener);
                }
            }
            RecordKind::Budget { amount, .. } => {
                task.charge(applied);
                task.budget = amount.map(|amount| (amount, task.load.total));
            }
            RecordKind::Block { .. } => task.blocked = true,
            RecordKind::Wake { .. } => task.blocked = false,
            RecordKind::Handler { job, .. } => {
                task.counts.handlers += 1;
                (task.handler, task.last_run) = (Some(job), None);
            }
            RecordKind::HandlerEnd { .. } => (task.handler, task.blocked) = (None, false),
            RecordKind::LateSignal { .. } => task.counts.late_signals += 1,
            RecordKind::Behind { .. } => task.counts.behind += 1,
            RecordKind::Lost { .. } => {
                task.counts.lost += 1;
                self.tell(at, Some(id), None, EventKind::Lost, listener);
            }
            RecordKind::Deadlock { .. } => self.tell(at, Some(id), None, EventKind::Deadlock, listener),
            RecordKind::Exit { failed, .. } => {
                (task.gone, task.failed, task.activation) = (true, failed, None);
                self.tell(at, Some(id), None, EventKind::Exit { failed }, listener);
            }
            _ => {}
        }
    }

    /// Counts a record of a process of a window table.
    fn count_in_table(&mut self, at: Time, index: usize, kind: &RecordKind, listener: Listener<'_>) {
        let task = &mut self.tasks[index];
        let Some(table) = &mut task.table else { return };
        let before = task.counts;
        let response = table.record(at, kind, &mut task.counts);
        let (signals, counts) = (table.signals, task.counts);
        if let Some(response) = response {
            task.respond(response);
        }
        if !signals {
            return;
        }
        let (job, outcome) = match *kind {
            RecordKind::Finish { job, outcome, .. } => (job, outcome),
            RecordKind::Exit { .. } => (task.activation.map_or(0, |(job, _)| job), Outcome::Aborted),
            _ => return,
        };
        let id = TaskId(index as u32);
        if counts.cut_off > before.cut_off {
            self.tell(at, Some(id), Some(job), EventKind::Overrun, listener);
        }
        if counts.missed > before.missed {
            self.missed(at, id, job, Some(outcome), listener);
        }
    }

    fn release(&mut self, at: Time, id: TaskId, job: JobId, deadline: Option<Time>) {
        let share = (OPEN_MAX / self.tasks.len()).max(OPEN_LEAST);
        let task = &mut self.tasks[id.index()];
        task.counts.released += 1;
        let open = Open { release: at, deadline, missed: false };
        if task.open.len() < share && task.open.insert(job, open).is_none() {
            self.deadlines.extend(deadline.map(|deadline| (deadline, id.0, job)));
        }
    }

    fn start(&mut self, applied: Time, id: TaskId, job: JobId, place: Place) {
        let task = &mut self.tasks[id.index()];
        task.counts.dispatches += 1;
        let before = task.last_run.replace((job, place));
        task.counts.migrations += u64::from(before.is_some_and(|(j, p)| j == job && p != place));
        task.charge(applied);
        task.running = Some((job, place, applied));
        let Some(set) = self.header.places.get(place.index()) else { return };
        let of_kernel = self.header.is_of_kernel(set);
        for cpu in set.iter() {
            let cpu = self.cpus.entry(cpu).or_default();
            let other = cpu.last.replace(id.0);
            self.context_switches += u64::from(other.is_some_and(|other| other != id.0));
            if !of_kernel {
                cpu.runs = Some((id, applied));
            }
        }
    }

    /// The CPUs of a place are idle from this instant.
    fn leave(&mut self, applied: Time, place: Option<Place>) {
        let set = place.and_then(|place| self.header.places.get(place.index()));
        for cpu in set.iter().flat_map(|set| set.iter()) {
            if let Some(cpu) = self.cpus.get_mut(&cpu)
                && let Some((_, since)) = cpu.runs.take()
            {
                cpu.load.add(since, applied);
            }
        }
    }

    /// A job of a task is over.
    fn end(&mut self, at: Time, id: TaskId, number: JobId, outcome: Outcome, listener: Listener<'_>) {
        let task = &mut self.tasks[id.index()];
        task.skipped += u64::from(outcome == Outcome::Skipped);
        if outcome != Outcome::Skipped && self.lost_records > 0 {
            // One job of a task runs at a time. The ends of earlier jobs are among the records that were lost.
            let later = task.open.split_off(&number);
            for (earlier, job) in std::mem::replace(&mut task.open, later) {
                self.late -= usize::from(job.missed);
                if let Some(deadline) = job.deadline {
                    self.deadlines.remove(&(deadline, id.0, earlier));
                }
            }
        }
        let task = &mut self.tasks[id.index()];
        let job = task.open.remove(&number);
        let passed = job.and_then(|job| job.deadline).is_some_and(|deadline| at > deadline);
        let missed = passed || matches!(outcome, Outcome::Overrun | Outcome::Aborted | Outcome::Skipped);
        let counts = &mut task.counts;
        match outcome {
            Outcome::Exited if !missed => counts.released -= u64::from(counts.released > 0),
            Outcome::Completed | Outcome::BudgetUsed => {
                counts.completed += 1;
                counts.met += u64::from(!missed);
            }
            Outcome::Overrun => counts.overruns += 1,
            Outcome::Aborted => counts.aborted += 1,
            Outcome::Skipped | Outcome::Exited => {}
        }
        if let Some(job) = job.filter(|_| outcome == Outcome::Completed) {
            task.respond(at - job.release);
        }
        let known = job.is_some_and(|job| job.missed);
        match (missed, known) {
            (true, false) => task.counts.missed += 1,
            // Its record took longer than expected.
            (false, true) => task.counts.missed -= 1,
            _ => {}
        }
        if let Some(deadline) = job.and_then(|job| job.deadline) {
            self.deadlines.remove(&(deadline, id.0, number));
        }
        if known {
            self.late -= 1;
            if let Some(overload) = &mut self.overload {
                overload.last = overload.last.max(at);
            }
        } else if missed {
            self.missed(at, id, number, Some(outcome), listener);
        }
        if outcome == Outcome::Overrun {
            self.tell(at, Some(id), Some(number), EventKind::Overrun, listener);
        }
    }

    /// The figures at the instant reached. O(tasks).
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let kernel = &self.header.kernel_cpus;
        let cpus = self.cpus.iter().filter(|(number, _)| !kernel.contains(**number));
        let event = |(sequence, event, detail): &(u64, Event, String)| EventStatus {
            sequence: *sequence,
            at_ns: event.at.ns(),
            event: event.kind.name().into(),
            task: event.task.map(TaskId::index),
            job: event.job,
            detail: detail.clone(),
        };
        Snapshot {
            takt_status: snapshot::VERSION,
            workload: self.header.workload.clone(),
            source: self.header.source.clone(),
            policy: self.policies.system().to_owned(),
            now_ns: self.now.ns(),
            duration_ns: self.header.duration.map(Span::ns),
            tasks: self.tasks.iter().map(|task| self.task_status(task)).collect(),
            cpus: cpus.map(|(number, cpu)| self.cpu_status(*number, cpu)).collect(),
            events: self.events.iter().map(event).collect(),
            overload: self.overload.map(|overload| Overload { since_ns: overload.since.ns(), misses: overload.misses }),
            overloads: self.overloads,
            lateness: self.lateness.histogram().into(),
            context_switches: self.context_switches,
            windows_lost: self.windows_lost,
            lost_records: self.lost_records,
        }
    }

    fn cpu_status(&self, number: usize, cpu: &Cpu) -> CpuStatus {
        let mut load = cpu.load;
        if let Some((_, since)) = cpu.runs {
            load.add(since, self.now);
        }
        CpuStatus {
            cpu: number,
            task: cpu.runs.map(|(task, _)| task.index()),
            load_ppm: load.recent(self.now),
            load_total_ppm: load::share(load.total, self.now - Time::ZERO),
        }
    }

    fn task_status(&self, task: &Task) -> TaskStatus {
        let (counts, mut load) = (task.counts(), task.load);
        if let Some((.., since)) = task.running.filter(|_| !task.of_kernel) {
            load.add(since, self.now);
        }
        let first = task.open.first_key_value().map(|(number, job)| (*number, job.deadline));
        let handled = task.handler.map(|job| (job, None));
        let current = task.activation.or(handled).or(first);
        let state = match task.running {
            Some(_) => TaskState::Running,
            None if task.gone => TaskState::Gone,
            None if current.is_none() => TaskState::Idle,
            None if task.blocked => TaskState::Blocked,
            None => TaskState::Ready,
        };
        let place = task.running.and_then(|(_, place, _)| self.header.places.get(place.index()));
        let utilisation = |ppm: u64| (!task.of_kernel).then_some(ppm);
        TaskStatus {
            name: task.label.clone(),
            state,
            cpus: place.map(|set| if task.of_kernel { "kernel".into() } else { set.to_string() }),
            job: current.map(|(job, _)| job),
            deadline_ns: current.and_then(|(_, deadline)| deadline).map(Time::ns),
            utilisation_ppm: utilisation(load.recent(self.now)),
            utilisation_total_ppm: utilisation(load::share(load.total, self.now - Time::ZERO)),
            ran_ns: load.total.ns(),
            budget_left_ns: task.budget.map(|(amount, before)| (amount - (load.total - before)).or_zero().ns()),
            jobless: counts.jobless,
            released: counts.released,
            completed: counts.completed,
            met: counts.met,
            missed: counts.missed,
            aborted: counts.aborted,
            skipped: task.skipped,
            activations: counts.activations,
            cut_off: counts.cut_off,
            lost: counts.lost,
            dispatches: counts.dispatches,
            preemptions: counts.preemptions,
            migrations: counts.migrations,
            response: task.responses.histogram().into(),
            last_response_ns: task.last_response.map(Span::ns),
        }
    }
}
