//! The mirror of a run: a second engine on the supervisor's side, which takes the recorded steps as a replay does. Status, admission
//! and preparation ask it, so none of them takes time of the scheduler thread.

use std::collections::VecDeque;
use takt_core::engine::{Ending, Engine, Input};
use takt_core::model::TaskId;
use takt_core::record::{JobId, Outcome, Place, Record, RecordKind, Sink};
use takt_core::stats::{Counts, Histogram, Responses};
use takt_core::time::{Span, Time};
use takt_core::work::Work;

/// The most events that a status holds.
pub const EVENTS_MAX: usize = 64;

/// A run at one instant.
#[derive(Clone, Debug)]
pub struct Status {
    /// Time since the start of the schedule.
    pub elapsed: Span,
    /// The instant of the last step of the engine that is accounted for.
    pub stepped: Time,
    /// The policy of the whole system, or of each domain.
    pub policies: Vec<PolicyStatus>,
    /// By task.
    pub tasks: Vec<TaskStatus>,
    /// By CPU of the schedule.
    pub cpus: Vec<CpuStatus>,
    /// The policies that may take over, which events name by number.
    pub alternatives: Vec<takt_core::model::PolicySpec>,
    /// The last events, the latest at the end.
    pub events: Vec<RunEvent>,
    /// Records were lost, so the figures stand still and changes are refused.
    pub is_incomplete: bool,
}

/// The policy of the system or of a domain.
#[derive(Clone, Debug)]
pub struct PolicyStatus {
    /// The domain; `None` for the whole system.
    pub domain: Option<String>,
    /// Its policy.
    pub policy: takt_core::model::PolicySpec,
}

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// It has no job.
    Idle,
    /// Its job waits for a CPU.
    Ready,
    /// Its job runs.
    Running,
    /// Its job waits for something other than a CPU.
    Blocked,
    /// It has left, or its program has ended.
    Gone,
}

/// A task at one instant.
#[derive(Clone, Debug)]
pub struct TaskStatus {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: Option<i32>,
    /// Its state.
    pub state: TaskState,
    /// The kernel schedules it.
    pub of_kernel: bool,
    /// The CPUs on which its job runs, or last ran.
    pub cpus: Option<takt_core::cpus::CpuSet>,
    /// Its period, or the least time between releases.
    pub period: Option<Span>,
    /// Its relative deadline.
    pub deadline: Option<Span>,
    /// Its declared runtime.
    pub runtime: Option<Span>,
    /// Its share of a CPU, in millionths.
    pub share: Option<u32>,
    /// Its importance.
    pub importance: u32,
    /// The number of its current job.
    pub job: Option<JobId>,
    /// Its counts.
    pub counts: Counts,
    /// Jobs that never ran.
    pub skipped: u64,
    /// The consumption of its jobs.
    pub consumed: Work,
    /// The rest of its budget.
    pub budget_left: Option<Span>,
    /// Response times of completed jobs.
    pub responses: Histogram,
}

/// A CPU at one instant.
#[derive(Clone, Copy, Debug)]
pub struct CpuStatus {
    /// Its number.
    pub cpu: usize,
    /// The task that runs on it.
    pub task: Option<TaskId>,
    /// How long jobs have had it.
    pub busy: Span,
}

/// An event of a run that deserves attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunEvent {
    /// Its number, from zero. A gap says that events between two statuses were dropped.
    pub number: u64,
    /// Its instant.
    pub at: Time,
    /// Its task.
    pub task: Option<TaskId>,
    /// Its job.
    pub job: Option<JobId>,
    /// Its kind.
    pub kind: EventKind,
}

/// The kind of a [`RunEvent`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// A job was aborted.
    Aborted,
    /// A job was cut off by the end of its window.
    Overrun,
    /// A job never ran.
    Skipped,
    /// An event released no job.
    Lost,
    /// A program has ended.
    Exit,
    /// A program has failed.
    Failed,
    /// A cycle of jobs that wait for each other was closed.
    Deadlock,
    /// Windows of the table passed unserved.
    WindowsLost,
    /// Another policy has taken over: an index into [`Status::alternatives`].
    Switch(u16),
    /// A setting of the policy has changed.
    Configure,
    /// Another window table has taken over.
    Table,
}

impl EventKind {
    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Aborted => "aborted",
            EventKind::Overrun => "overrun",
            EventKind::Skipped => "skipped",
            EventKind::Lost => "lost",
            EventKind::Exit => "exit",
            EventKind::Failed => "failed",
            EventKind::Deadlock => "deadlock",
            EventKind::WindowsLost => "windows-lost",
            EventKind::Switch(_) => "switch",
            EventKind::Configure => "configure",
            EventKind::Table => "table",
        }
    }
}

impl TaskState {
    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TaskState::Idle => "idle",
            TaskState::Ready => "ready",
            TaskState::Running => "running",
            TaskState::Blocked => "blocked",
            TaskState::Gone => "gone",
        }
    }
}

#[derive(Default)]
struct Tally {
    skipped: u64,
    consumed: Work,
    /// Where it runs, and since when.
    since: Option<(Place, Time)>,
    last: Option<Place>,
}

struct Account {
    responses: Responses,
    tallies: Vec<Tally>,
    /// By place of a single CPU or of several: how long jobs have had it.
    busy: Vec<Span>,
    events: VecDeque<RunEvent>,
    numbered: u64,
    /// When a window table has taken over last.
    table_since: Option<Time>,
}

impl Account {
    fn note(&mut self, at: Time, task: Option<TaskId>, job: Option<JobId>, kind: EventKind) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(RunEvent { number: self.numbered, at, task, job, kind });
        self.numbered += 1;
    }
}

impl Sink for Account {
    fn record(&mut self, Record { at, kind }: Record) {
        match kind {
            RecordKind::Start { task, place, .. } => {
                let tally = &mut self.tallies[task.index()];
                (tally.since, tally.last) = (Some((place, at)), Some(place));
            }
            RecordKind::Stop { task, .. } => {
                if let Some((place, since)) = self.tallies[task.index()].since.take() {
                    self.busy[place.index()] += (at - since).or_zero();
                }
            }
            RecordKind::Finish { task, job, outcome, consumed } => {
                let tally = &mut self.tallies[task.index()];
                tally.consumed += consumed;
                tally.skipped += u64::from(outcome == Outcome::Skipped);
                let kind = match outcome {
                    Outcome::Aborted => EventKind::Aborted,
                    Outcome::Overrun => EventKind::Overrun,
                    Outcome::Skipped => EventKind::Skipped,
                    Outcome::Completed | Outcome::BudgetUsed | Outcome::Exited => return,
                };
                self.note(at, Some(task), Some(job), kind);
            }
            RecordKind::HandlerEnd { task, consumed, .. } => {
                let tally = &mut self.tallies[task.index()];
                tally.consumed += consumed;
            }
            RecordKind::Lost { task } => self.note(at, Some(task), None, EventKind::Lost),
            RecordKind::Exit { task, failed } => {
                let kind = if failed { EventKind::Failed } else { EventKind::Exit };
                self.note(at, Some(task), None, kind);
            }
            RecordKind::Deadlock { task, .. } => self.note(at, Some(task), None, EventKind::Deadlock),
            RecordKind::WindowsLost { .. } => self.note(at, None, None, EventKind::WindowsLost),
            RecordKind::Switch { to, .. } => self.note(at, None, None, EventKind::Switch(to)),
            RecordKind::Configure { .. } => self.note(at, None, None, EventKind::Configure),
            RecordKind::Table { .. } => {
                self.table_since = Some(at);
                self.note(at, None, None, EventKind::Table);
            }
            _ => {}
        }
    }

    fn response(&mut self, task: TaskId, response: Span) {
        self.responses.response(task, response);
    }
}

pub(crate) struct Mirror {
    pub(crate) engine: Engine,
    account: Account,
    /// By task: its program has ended, and is not replaced.
    ended: Vec<bool>,
}

impl Mirror {
    /// `engine` is one of the same system as the run's, and has taken no step.
    pub(crate) fn new(engine: Engine) -> Mirror {
        let (tasks, places) = (engine.system().tasks.len(), engine.places().len());
        let account = Account {
            responses: Responses::new(tasks),
            tallies: (0..tasks).map(|_| Tally::default()).collect(),
            busy: vec![Span::ZERO; places],
            events: VecDeque::with_capacity(EVENTS_MAX),
            numbered: 0,
            table_since: None,
        };
        Mirror { engine, account, ended: vec![false; tasks] }
    }

    /// Takes a step of the run.
    pub(crate) fn step(&mut self, now: Time, inputs: &[Input]) {
        for input in inputs {
            if let Input::Exit { task, ending: Ending { replaced: false, .. } } = *input {
                self.ended[task.index()] = true;
            }
        }
        self.engine.step(now, inputs, &mut self.account);
    }

    /// The task of a free number is to be added. A process that has ended before was dismissed.
    pub(crate) fn comes(&mut self, task: TaskId) {
        self.ended[task.index()] = false;
    }

    /// Whether the program of a task has ended, and is not replaced.
    pub(crate) fn has_ended(&self, task: TaskId) -> bool {
        self.ended[task.index()]
    }

    /// Takes the last step of the run.
    pub(crate) fn close(&mut self, end: Time, inputs: &[Input]) {
        self.engine.close(end, inputs, &mut self.account);
    }

    /// The task at this instant. O(response times).
    pub(crate) fn task(&self, task: TaskId, name: &str, pid: Option<i32>, of_kernel: bool) -> TaskStatus {
        let engine = &self.engine;
        let (described, tally) = (&engine.system().tasks[task.index()], &self.account.tallies[task.index()]);
        let (job, terms) = (engine.job(task), engine.agreed(task));
        let state = match job {
            _ if engine.is_gone(task) => TaskState::Gone,
            _ if engine.place_of(task).is_some() => TaskState::Running,
            Some(job) if job.ready => TaskState::Ready,
            Some(_) => TaskState::Blocked,
            None => TaskState::Idle,
        };
        let place = engine.place_of(task).or(tally.last).filter(|_| !of_kernel);
        TaskStatus {
            name: name.to_owned(),
            pid,
            state,
            of_kernel,
            cpus: place.map(|place| engine.places()[place.index()]),
            period: terms.period,
            deadline: terms.deadline,
            runtime: terms.runtime,
            share: described.share,
            importance: described.importance,
            job: job.map(|job| job.number),
            counts: engine.counts(task),
            skipped: tally.skipped,
            consumed: job.map_or(tally.consumed, |job| tally.consumed + job.consumed),
            budget_left: engine.budget_left(task).filter(|_| !of_kernel),
            responses: self.account.responses.0[task.index()].clone(),
        }
    }

    /// The CPUs at this instant. O(CPUs × places).
    pub(crate) fn cpus(&self) -> Vec<CpuStatus> {
        let (engine, account) = (&self.engine, &self.account);
        let mut busy = account.busy.clone();
        for (place, since) in account.tallies.iter().filter_map(|tally| tally.since) {
            busy[place.index()] += (engine.now() - since).or_zero();
        }
        let cpus = engine.system().cpus.iter().enumerate();
        cpus.map(|(index, cpu)| {
            let on = engine.places().iter().zip(&busy).filter(|(place, _)| place.contains(cpu));
            let busy = on.fold(Span::ZERO, |sum, (_, busy)| sum + *busy);
            CpuStatus { cpu, task: engine.running_on(Place(index as u16)), busy }
        })
        .collect()
    }

    /// When a window table has taken over since the last call.
    pub(crate) fn new_table(&mut self) -> Option<Time> {
        self.account.table_since.take()
    }

    pub(crate) fn events(&self) -> Vec<RunEvent> {
        self.account.events.iter().copied().collect()
    }
}
