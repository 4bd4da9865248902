//! The scheduler: steps the engine and carries out its commands. What it waits with on Linux is in [`crate::thread`].
//!
//! Nothing in here may allocate after [`Scheduler::new`], block, or look at a file system.
//!
//! A nearly exhausted budget of CPU time is due again after each measurement. At least 100 us are left in between, or a process on a
//! shared CPU would not use its rest. No other planned instant is coarsened. A refused act is repeated after a millisecond and until the
//! next act on that process; only the answer that a process is gone ends it.

use crate::actuator::{Actuator, Blocked, Processes, Rung, is_gone};
use crate::ahead::WindowsAhead;
use crate::blocks::Blocks;
use crate::causes::{CAUSES, Causes, Found, Response};
use crate::change::{Change, Newcomer, is_counted};
use crate::dispatch::{Before, Bench, Dispatcher, Kernel, of_plan};
use crate::life::Waits;
use crate::life::{Incarnation, Life, Message, Program, Request, Resume};
use crate::lives::Lives;
use crate::meter::{Measured, Meter};
use crate::plan::{Dispatch, Plan, Process};
use crate::requests::Requests;
use crate::resumes::Resumes;
use crate::rings::Rings;
use crate::sleeper::Sleeper;
use crate::slot::{Ahead, Asked, Awaited, Observed, OfKernel, Slot};
use crate::terms::{LONGEST, SHORTEST, Terms};
use crate::used::Used;
use rtrb::{Consumer, Producer};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use takt_abi::{Kind, Statistics, Status};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Activity, Answer, Command, Ending, Engine, Input};
use takt_core::model::{Arrival, Call, PartitionId, ResourceId, System, TaskId};
use takt_core::record::{JobId, Outcome as JobOutcome, Place, Record, RecordKind, Sink};
use takt_core::stats::{Histogram, Parts, Responses, Spent};
use takt_core::time::{Span, Time};
use takt_core::work::Work;
use takt_linux::Announcer;
use takt_linux::blocking::Notices;
use takt_linux::rt::Class;
use takt_trace::Stamped;

/// How many completions one wait takes in.
pub(crate) const BATCH: usize = 256;

/// From time zero's choice to time zero: an instant that the first wait can still be on time for.
const LEAD: Span = Span::from_ms(2);

/// An act that the machine below has refused is repeated so much later.
pub(crate) const REPEAT: Span = Span::from_ms(1);

/// The supervisor is woken at most so often for reactions. It also comes by itself.
const CALL: Span = Span::from_ms(10);

/// From the scheduler to the supervisor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// A trace record.
    Record(Stamped),
    /// An input of the step that follows.
    Input(Input),
    /// A job that a reaction follows. `sent` says that its process has received a signal.
    Found { found: Found, sent: bool },
    /// A step of the engine. A planned instant was handled `late`. So many items have been lost by now, because the ring was full.
    Step { at: Time, late: Option<Span>, lost: u64 },
    /// The end of the run: the last step.
    Close(Time),
}

/// The events that end a wait of the scheduler before it is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heard {
    /// The process has signalled the completion of a job.
    Completion(TaskId, Incarnation),
    /// The kernel may have reported the end of a job of the task's process.
    Observed(TaskId),
    /// The source of a task's events has changed.
    Event(TaskId),
    /// The supervisor has sent messages.
    Messages,
    /// A process of a task has blocked or is runnable again.
    Waits,
}

/// The means by which the scheduler waits: descriptors and a timer on Linux, the machine and its clock in virtual time.
pub(crate) trait Waiting<A: Actuator> {
    /// Sleeps until something is heard, or until the scheduler is due ([`Scheduler::due`]).
    ///
    /// # Errors
    /// When the machine below cannot wait. The run ends then.
    fn wait(&mut self, scheduler: &Scheduler<A>) -> io::Result<()>;
    /// Takes the next of what was heard in the last wait.
    fn heard(&mut self) -> Option<Heard>;
    /// Takes in what can be heard by now without a wait, after what the last wait took in.
    ///
    /// # Errors
    /// As [`Waiting::wait`].
    fn hear_more(&mut self, scheduler: &Scheduler<A>) -> io::Result<()>;
}

/// The refused acts, to be tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    Stop,
    /// The process enters a segment.
    Enter,
    /// The process leaves a segment.
    Leave,
    /// The priority of a running task.
    Raise,
    /// The process begins or continues its job although the engine does not run the task.
    Ahead,
    Dispatch {
        place: Option<Place>,
        work: Activity,
    },
    /// Not refused: the program floods its channel, and is frozen until an instant.
    Held {
        until: Time,
    },
}

/// How a task is dispatched.
#[derive(Clone, Copy, Debug)]
struct How {
    work: Activity,
    /// It runs already.
    runs: bool,
    /// Its program has completed the job by now, which the engine does not know yet.
    is_over: bool,
}

/// The ends of the rings that the scheduler has.
pub(crate) struct Links<R> {
    pub(crate) inbox: Consumer<Message<R>>,
    pub(crate) outbox: Producer<Item>,
    pub(crate) returned: Producer<Box<Change>>,
}

pub(crate) struct Setup<A: Actuator> {
    pub(crate) engine: Engine,
    pub(crate) actuator: A,
    pub(crate) slots: Vec<Slot<A::Resume>>,
    /// The tasks whose processes can be replaced during the run.
    pub(crate) replaceable: Vec<TaskId>,
    pub(crate) inbox: Consumer<Message<A::Resume>>,
    pub(crate) outbox: Producer<Item>,
    /// Changes go back through this, after the items of their step. There is one at a time, so it is never full.
    pub(crate) returned: Producer<Box<Change>>,
    /// An item did not fit into the outbox.
    pub(crate) lost: Arc<AtomicBool>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) resumes: Resumes,
    /// See [`Plan::changes`].
    pub(crate) changes: Vec<(Time, Input)>,
    pub(crate) duration: Option<Span>,
    /// The CPUs of the engine's places on this machine.
    pub(crate) places: Vec<CpuSet>,
    pub(crate) announcer: Option<Arc<Announcer>>,
    /// See [`Plan::ends_with_processes`].
    pub(crate) ends_with_processes: bool,
    /// How the tasks are dispatched that the kernel does not schedule.
    pub(crate) dispatcher: Box<dyn Dispatcher<A>>,
    pub(crate) of_kernel: Kernel,
    /// By task: its reactions.
    pub(crate) reactions: Vec<[Response; 2]>,
    pub(crate) causes: Causes,
    /// By task: its partition in a window table.
    pub(crate) partitions: Vec<Option<PartitionId>>,
    /// Nothing but tasks of the schedule takes the CPU from a dispatched process, so a job that does not use it pauses.
    pub(crate) bounds: bool,
    /// By task: the scheduling class of its process.
    pub(crate) classes: Vec<Class>,
    /// Blocks and wake-ups do not wake the scheduler ([`Plan::notices`]).
    pub(crate) quiet: bool,
}

/// The results of the scheduler.
pub(crate) struct Outcome {
    pub(crate) engine: Engine,
    pub(crate) responses: Responses,
    /// See [`crate::Report::spent`].
    pub(crate) spent: Vec<Option<(Parts, u64)>>,
    /// See [`crate::Report::most_used`].
    pub(crate) most_used: Vec<Option<(JobId, Work)>>,
    /// How late planned instants were handled.
    pub(crate) lateness: Histogram,
    /// How long stopping and starting took per step that did so.
    pub(crate) effort: Histogram,
    pub(crate) end: Time,
    pub(crate) dropped: u64,
    pub(crate) failures: u64,
    pub(crate) first_failure: Option<io::Error>,
    /// The run was asked to end.
    pub(crate) stopped: bool,
    /// See [`crate::Report::floods`].
    pub(crate) floods: Vec<u64>,
    /// See [`crate::Report::event_floods`].
    pub(crate) event_floods: Vec<u64>,
}

/// Records of one step, in memory that is there already.
struct StepSink {
    records: Vec<Record>,
    responses: Responses,
    present: Spent,
    /// By task: the response time of the job whose end is recorded next counts.
    responded: Vec<bool>,
    /// By task: what its jobs with response times spent, and how many these were.
    spent: Vec<(Parts, u64)>,
    /// By task: the job that used most CPU time, and how much.
    most: Vec<Option<(JobId, Work)>>,
    /// By task: a job, and the CPU time that it has used as measured last. Its consumption can be more ([`crate::meter`]).
    used: Vec<(JobId, Work)>,
    dropped: u64,
}

impl Sink for StepSink {
    fn record(&mut self, record: Record) {
        let ended = self.present.record(&record);
        if let RecordKind::Finish { task, job, consumed, outcome } = record.kind {
            let counts = std::mem::take(&mut self.responded[task.index()]);
            if let Some((.., parts)) = ended.filter(|_| counts && outcome == JobOutcome::Completed) {
                let (sum, jobs) = &mut self.spent[task.index()];
                *sum += parts;
                *jobs += 1;
            }
            let (most, (of, used)) = (&mut self.most[task.index()], self.used[task.index()]);
            let used = if of == job { used.min(consumed) } else { consumed };
            if most.is_none_or(|(_, before)| used > before) {
                *most = Some((job, used));
            }
        }
        if self.records.len() < self.records.capacity() {
            self.records.push(record);
        } else {
            self.dropped += 1;
        }
    }
    fn response(&mut self, task: TaskId, response: Span) {
        self.responded[task.index()] = true;
        self.responses.response(task, response);
    }
}

pub(crate) struct Scheduler<A: Actuator> {
    pub(crate) setup: Setup<A>,
    sink: StepSink,
    pub(crate) inputs: Vec<Input>,
    /// The tasks whose jobs are segments.
    pub(crate) segmented: Vec<TaskId>,
    /// The tasks whose programs end their jobs by sleeps.
    pub(crate) sleepers: Vec<TaskId>,
    /// Tasks with a request that the next step answers.
    pub(crate) asking: Vec<TaskId>,
    /// Tasks whose programs have begun their jobs before the engine has dispatched them, and those of them that have been heard since the last step.
    pub(crate) begun_ahead: Vec<TaskId>,
    pub(crate) unseen: Vec<TaskId>,
    /// A priority was refused in the last step.
    pub(crate) unplaced: bool,
    /// Tasks whose programs have just requested their next jobs, and wait for them without being frozen.
    pub(crate) waiting: Vec<TaskId>,
    /// The task that is looked at next ([`Scheduler::look_at_waiting`]).
    pub(crate) next_waiting: u32,
    /// When that happened last.
    pub(crate) asked_again: Time,
    /// How many changes of [`Setup::changes`] have been made.
    changed: usize,
    /// Shortest window: a planned instant handled later than this has lost a window. `None` without a window table.
    tolerance: Option<Span>,
    /// The same for the window table that takes over at the end of the frame.
    next_tolerance: Option<Span>,
    pub(crate) start: Span,
    /// The planned end.
    end: Time,
    /// When the step before was carried out.
    applied: Time,
    pub(crate) meters: Vec<Meter>,
    /// The CPU time of jobs that need no meter.
    used: Used,
    measured: Measured,
    /// By task: the act that was refused.
    pub(crate) refused: Vec<Option<Refused>>,
    /// When the next source is heard again; [`Time::MAX`] when none is.
    pub(crate) unmute: Time,
    /// When refused acts are repeated; [`Time::MAX`] when there are none.
    pub(crate) repeat: Time,
    /// The lateness of the planned instant whose step is next.
    late: Option<Span>,
    /// Some jobs have a budget in CPU time.
    metered: bool,
    /// [`Engine::takeovers`] after the last step.
    takeovers: u32,
    /// When the supervisor may be woken again for a reaction.
    next_call: Time,
    /// A message has asked for the end.
    stop: bool,
    /// A change that the next step takes.
    change: Option<Box<Change>>,
    /// The inputs that stand for the policy that has taken over before the inputs of the step.
    installed: Vec<Input>,
    /// With messages at the begin of windows.
    ahead: WindowsAhead,
    pub(crate) blocks: Blocks,
    /// All that the last wait has brought.
    pub(crate) heard: Vec<Heard>,
    results: Results,
    absent: Absent,
}

/// Tasks whose processes have ended, or are to be replaced, since the last step. A step is not to look at all tasks.
struct Absent {
    tasks: Vec<TaskId>,
    /// By task: its process can be replaced, and the task is not listed.
    listens: Vec<bool>,
}

impl Absent {
    fn new(tasks: usize, replaceable: &[TaskId]) -> Absent {
        let mut listens = vec![false; tasks];
        replaceable.iter().for_each(|task| listens[task.index()] = true);
        Absent { tasks: Vec::with_capacity(replaceable.len()), listens }
    }

    /// There is room for each task once.
    fn note(&mut self, task: TaskId) {
        if std::mem::take(&mut self.listens[task.index()]) {
            self.tasks.push(task);
        }
    }

    /// The order of inputs and requests is that of the tasks.
    fn sort(&mut self) {
        self.tasks.sort_unstable();
    }

    fn clear(&mut self) {
        for task in self.tasks.drain(..) {
            self.listens[task.index()] = true;
        }
    }
}

struct Results {
    lateness: Histogram,
    effort: Histogram,
    failures: u64,
    first_failure: Option<io::Error>,
}

impl<A: Actuator> Scheduler<A> {
    /// A scheduler with all the memory that it needs.
    pub(crate) fn new(setup: Setup<A>) -> Scheduler<A> {
        let n = setup.engine.system().tasks.len();
        let windows = &setup.engine.system().windows;
        Scheduler {
            sleepers: (0..n as u32).map(TaskId).filter(|task| setup.slots[task.index()].sleeper.is_some()).collect(),
            segmented: (0..n as u32).map(TaskId).filter(|task| setup.slots[task.index()].segments.is_some()).collect(),
            sink: StepSink {
                records: Vec::with_capacity(records_of(n)),
                responses: Responses::reserved(n),
                present: Spent::new(n),
                responded: vec![false; n],
                spent: vec![(Parts::default(), 0); n],
                most: vec![None; n],
                used: vec![(JobId::MAX, Work::ZERO); n],
                dropped: 0,
            },
            // Everything that one wait can bring: a full inbox, a batch of signals, a measurement per running task.
            inputs: Vec::with_capacity(10 * n + 2 * BATCH),
            asking: Vec::with_capacity(n),
            begun_ahead: Vec::with_capacity(n),
            unseen: Vec::with_capacity(n),
            unplaced: false,
            waiting: Vec::with_capacity(n),
            next_waiting: 0,
            asked_again: Time::ZERO,
            changed: 0,
            tolerance: windows.iter().map(|w| w.length).min(),
            next_tolerance: None,
            start: Span::ZERO,
            end: setup.duration.map_or(Time::MAX, |d| Time::ZERO + d),
            applied: Time::ZERO,
            meters: vec![Meter::default(); n],
            used: Used::new(n, 10 * n + 2 * BATCH),
            measured: Measured::new(setup.slots.iter().map(|slot| slot.kernel.is_some())),
            refused: vec![None; n],
            unmute: Time::MAX,
            repeat: Time::MAX,
            late: None,
            takeovers: setup.engine.takeovers(),
            metered: setup.slots.iter().any(|slot| slot.metered && slot.kernel.is_none()),
            next_call: Time::ZERO,
            stop: false,
            change: None,
            // All places for further tasks at once.
            installed: Vec::with_capacity(n + 1),
            absent: Absent::new(n, &setup.replaceable),
            ahead: WindowsAhead::default(),
            blocks: Blocks::new(n, 10 * n + 2 * BATCH),
            heard: Vec::with_capacity(3 * n + 2 * BATCH + 16),
            results: Results {
                lateness: Histogram::wide(),
                effort: Histogram::wide(),
                failures: 0,
                first_failure: None,
            },
            setup,
        }
    }

    /// Fixes time zero, and gives it on the monotonic clock. What happened before belongs to the first instant.
    pub(crate) fn begin(&mut self) -> Span {
        self.start = self.setup.actuator.now() + LEAD;
        self.setup.actuator.set_frame(self.setup.engine.system().major_frame());
        self.messages();
        self.begin_segments();
        // Blocks before the start concern no job.
        while self.setup.actuator.take_wait(self.start).is_some() {}
        self.begin_sleepers();
        self.start
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + (self.setup.actuator.now() - self.start)
    }

    /// When something is to be done next, the end of the run at the latest.
    pub(crate) fn due(&self) -> Time {
        // A budget in CPU time that is nearly exhausted is due at once. Where this thread shares the process's CPU, the process
        // would never get to use the rest of it. Releases, deadlines and timers are not for a budget to delay.
        let due = match self.metered {
            true => self.setup.engine.next_due_with_budgets_from(self.now() + self.setup.actuator.grain()),
            false => self.setup.engine.next_due(),
        };
        let due = due.unwrap_or(Time::MAX).min(self.next_change()).min(self.setup.causes.due());
        let limits = Time::ZERO + (self.setup.dispatcher.limits_due() - self.start);
        let due = due.min(limits).min(self.repeat).min(self.unmute).min(self.hears_again());
        due.min(self.ahead.due(self.end)).min(self.end)
    }

    /// Whether no task has a CPU.
    pub(crate) fn runs_nothing(&self) -> bool {
        self.setup.engine.running().is_empty()
    }

    /// When the next change comes; [`Time::MAX`] if none does.
    fn next_change(&self) -> Time {
        self.setup.changes.get(self.changed).map_or(Time::MAX, |(at, _)| *at)
    }

    /// Waits, takes in what is heard, and handles it with what is due, until the end of the run. Returns its instant.
    ///
    /// # Errors
    /// Those of [`Waiting::wait`].
    pub(crate) fn run(&mut self, waiting: &mut impl Waiting<A>) -> io::Result<Time> {
        loop {
            waiting.wait(self)?;
            self.hear(waiting)?;
            for index in 0..self.heard.len() {
                match self.heard[index] {
                    Heard::Completion(task, incarnation) => self.completion(task, incarnation),
                    Heard::Observed(task) => {
                        let incarnation = self.setup.slots[task.index()].incarnation;
                        self.completion(task, incarnation);
                    }
                    Heard::Event(task) => self.source_changed(task),
                    Heard::Messages => self.messages(),
                    Heard::Waits => self.count_notice(),
                }
            }
            self.settle_waits();
            if let Some(end) = self.advance() {
                return Ok(end);
            }
        }
    }

    /// Collects all that the last wait has brought, with the blocks and wake-ups before.
    fn hear(&mut self, waiting: &mut impl Waiting<A>) -> io::Result<()> {
        let until = self.setup.actuator.has_waits().then(|| self.setup.actuator.now());
        if until.is_some() {
            waiting.hear_more(self)?;
        }
        self.heard.clear();
        while let Some(heard) = waiting.heard() {
            self.heard.push(heard);
        }
        until.into_iter().for_each(|until| self.take_waits(until));
        Ok(())
    }

    /// Handles what was taken in, and what is due. At the end of the run it gives the instant of that.
    fn advance(&mut self) -> Option<Time> {
        let now = self.now().min(self.end);
        let last = self.stop || now == self.end;
        if now >= self.repeat {
            self.repeat_refused();
        }
        if now >= self.unmute {
            self.unmute_sources(now);
        }
        self.hear_again(now);
        if let Some(announcer) = self.setup.announcer.as_ref().filter(|_| !last)
            && let Some(frame) = self.ahead.announces(now, self.end)
        {
            announcer.announce(frame);
        }
        self.catch_up(now, last);
        if !last {
            let Setup { causes, engine, .. } = &mut self.setup;
            causes.look(engine, now);
            self.react();
            self.look_at_waiting();
            self.settle_sleepers(now);
        }
        // A task whose program has failed misses its jobs until the planned end.
        let engine = &self.setup.engine;
        let misses = engine.any_failed() && self.setup.duration.is_some() && !self.setup.ends_with_processes;
        if last || (!self.setup.slots.is_empty() && engine.all_gone() && !misses && !self.returns()) {
            let at = now.max(self.setup.engine.now());
            self.close(at);
            return Some(at);
        }
        None
    }

    /// Whether a task that has left is to come back.
    fn returns(&self) -> bool {
        self.setup.changes[self.changed..].iter().any(|(_, change)| matches!(change, Input::Enter { .. }))
    }

    /// The engine as it is between two instants.
    #[cfg(test)]
    pub(crate) fn engine(&self) -> &Engine {
        &self.setup.engine
    }

    pub(crate) fn slots(&self) -> &[Slot<A::Resume>] {
        &self.setup.slots
    }

    /// Whether the last act on the task's process was refused, and waits to be repeated.
    #[cfg(test)]
    pub(crate) fn was_refused(&self, task: TaskId) -> bool {
        self.refused[task.index()].is_some()
    }

    /// Whether the task's process is dispatched by its rank.
    #[cfg(test)]
    pub(crate) fn is_ranked(&self, task: TaskId) -> bool {
        self.setup.dispatcher.is_ranked(task)
    }

    /// Whether the task's process is dispatched by freezing.
    #[cfg(test)]
    pub(crate) fn is_by_freezing(&self, task: TaskId) -> bool {
        self.setup.dispatcher.is_by_freezing(task)
    }

    /// The rest at `end`, the result of the last [`Scheduler::advance`].
    pub(crate) fn finish(self, end: Time) -> Outcome {
        let Scheduler { setup, sink, results, stop, used, .. } = self;
        let Results { lateness, effort, failures, first_failure } = results;
        let StepSink { responses, spent, mut most, dropped, .. } = sink;
        let tasks = setup.slots.iter().zip(&setup.engine.system().tasks);
        let divided = tasks.map(|(slot, task)| slot.kernel.is_none() && task.arrival != Arrival::Activated);
        let spent = spent.into_iter().zip(divided).map(|(sum, divided)| Some(sum).filter(|(_, n)| divided && *n > 0));
        let spent = spent.collect();
        let floods = setup.slots.iter().map(|slot| slot.rings.floods).collect();
        let event_floods = setup.slots.iter().map(|slot| slot.changes.floods).collect();
        // Without a meter, the engine knows only the time for which a task had a CPU.
        for ((most, slot), task) in
            most.iter_mut().zip(&setup.slots).zip((0..).map(TaskId)).filter(|((_, slot), _)| !slot.metered)
        {
            *most = used.most(task).filter(|_| slot.counted).map(|(job, used)| (job, Work::nominal(used).or_zero()));
        }
        Outcome {
            engine: setup.engine,
            responses,
            spent,
            most_used: most,
            lateness,
            effort,
            end,
            dropped,
            failures,
            first_failure,
            stopped: stop,
            floods,
            event_floods,
        }
    }

    /// A process has signalled. Without a process that is at a job, nothing of the schedule ends by that.
    fn completion(&mut self, task: TaskId, incarnation: Incarnation) {
        let slot = &mut self.setup.slots[task.index()];
        if slot.is_reserved && slot.incarnation < incarnation {
            // A process that was ready before was dismissed, and another one initialises.
            slot.program = Program::Absent { held: true, asked: true };
            slot.incarnation = incarnation;
        }
        if slot.incarnation != incarnation {
            return;
        }
        // A replacement ends its initialisation.
        let initialises = matches!(slot.program, Program::Absent { .. });
        let since = slot.observed.map(|observed| if initialises { Span::ZERO } else { observed.since });
        let end = since.map(|since| self.setup.actuator.ended_job(task, since));
        if end == Some(None) {
            return;
        }
        if slot.ahead.is_some() {
            self.unseen.push(task);
        }
        if matches!(slot.program, Program::At { .. } | Program::Outside { .. }) {
            match self.setup.actuator.rung(task, slot.asked.number) {
                Rung::Request(request) => {
                    if self.is_admitted(task, &request) {
                        self.asked(task, request);
                    }
                    return;
                }
                Rung::Nothing => return self.rung_without_request(task),
                Rung::Completion => {}
            }
        }
        match slot.program {
            Program::At { job, .. } => {
                slot.program = Program::Waiting;
                self.inputs.push(Input::Complete { task, job });
                let slot = &mut self.setup.slots[task.index()];
                // The work of an aborted job was all that its program had to do in the present one.
                if self.setup.engine.job_number(task).is_some_and(|present| present != job)
                    && let Some(sleeper) = &mut slot.sleeper
                {
                    sleeper.ended_early();
                }
                if matches!(slot.resume, Resume::Unknown) && slot.observed.is_none() {
                    slot.resume = Resume::Asked { again: false };
                    self.ask(task, Request::Resume);
                }
                end.flatten().into_iter().for_each(|end| self.falls_asleep(task, end));
            }
            Program::Waiting if slot.sleeper.is_some() => {
                // Before the start there is no job.
                if end.flatten() >= Some(self.start) {
                    slot.sleeper.iter_mut().for_each(Sleeper::ended_early);
                }
                end.flatten().into_iter().for_each(|end| self.falls_asleep(task, end));
            }
            // The signal of a replacement ends its initialisation.
            Program::Absent { asked: true, .. } => self.ask(task, Request::Initialised),
            Program::New
            | Program::Waiting
            | Program::Outside { .. }
            | Program::Absent { asked: false, .. }
            | Program::Gone => self.rung_without_request(task),
        }
    }

    /// Handles a request of a program that is at a job. Its fields are untrusted.
    pub(crate) fn asked(&mut self, task: TaskId, request: takt_abi::Request) {
        let slot = &mut self.setup.slots[task.index()];
        let job = match slot.program {
            Program::At { job, .. } => job,
            Program::Outside { job } => return self.asked_outside(task, request, job),
            _ => return,
        };
        let segments = slot.segments.is_some();
        slot.asked.number = request.number;
        let [argument, other, _] = request.arguments;
        let resources = self.setup.engine.system().resources;
        let resource = || u16::try_from(argument).ok().filter(|number| *number < resources).map(ResourceId);
        let span = || Some(Span::from_ns(argument)).filter(|span| (Span::from_ns(1)..=LONGEST).contains(span));
        let call = |call: Option<Call>| call.map(|call| Input::Call { task, call });
        let input = match request.kind {
            Some(Kind::End) if segments && request.at == slot.asked.told => return self.end_segment(task, job),
            Some(Kind::Next) if !segments => {
                // A request that names another job completes none. The engine records it.
                let knows = request.at == slot.asked.told;
                self.inputs.push(Input::Complete { task, job: if knows { job } else { request.at } });
                if knows {
                    slot.program = Program::Waiting;
                    slot.asked.waits_for = Some(Awaited::Job);
                    return;
                }
                None
            }
            Some(Kind::Yield) => Some(Input::Yield { task }),
            Some(Kind::Lock) => resource().map(|resource| Input::Lock { task, resource }),
            Some(Kind::Unlock) => resource().map(|resource| Input::Unlock { task, resource }),
            // The process has a reservation of the kernel, which Takt does not change.
            Some(Kind::SetPeriod | Kind::SetDeadline | Kind::SetRuntime) if slot.kernel.is_some_and(|k| k.fixed) => {
                return self.setup.answer(task, Status::Refused);
            }
            // Events have no period.
            Some(Kind::SetPeriod) if self.setup.engine.is_released_by_events(task) => {
                return self.setup.answer(task, Status::Refused);
            }
            Some(Kind::SetPeriod) => call(span().filter(|period| *period >= SHORTEST).map(Call::Period)),
            Some(Kind::SetDeadline) => call(span().map(Call::Deadline)),
            Some(Kind::SetRuntime) => call(span().map(Call::Runtime)),
            Some(Kind::SetShare) => share(task, argument, other),
            // The next step answers it without an input.
            Some(Kind::Statistics) => return self.ask_step(task, Kind::Statistics),
            Some(Kind::Next | Kind::Begin | Kind::End) | None => None,
        };
        match (input, request.kind) {
            (Some(input), Some(kind)) => {
                self.inputs.push(input);
                self.ask_step(task, kind);
            }
            _ => self.setup.answer(task, Status::Invalid),
        }
    }

    /// The next step answers the request of a task. A second request without an answer to the first replaces it.
    pub(crate) fn ask_step(&mut self, task: TaskId, kind: Kind) {
        let waits_for = &mut self.setup.slots[task.index()].asked.waits_for;
        if !matches!(waits_for.replace(Awaited::Step(kind)), Some(Awaited::Step(_))) {
            self.asking.push(task);
        }
    }

    fn ask(&self, task: TaskId, request: Request) {
        self.setup.requests.ask(task.index(), self.setup.slots[task.index()].incarnation, request as u8);
        self.setup.actuator.wake_supervisor();
    }

    /// Takes in what the supervisor has told.
    fn messages(&mut self) {
        while let Ok(message) = self.setup.inbox.pop() {
            match message {
                Message::Exit { task, incarnation, regular, replaced } => {
                    let slot = &mut self.setup.slots[task.index()];
                    // One that was to be replaced anyway has been replaced.
                    if slot.incarnation != incarnation && replaced {
                        continue;
                    }
                    slot.resume = Resume::Unknown;
                    (slot.alone, slot.waits, slot.given) = (false, Waits::No, false);
                    if slot.ahead.is_some() {
                        self.unseen.push(task);
                    }
                    self.forget_waits(task);
                    self.setup.actuator.follow(task, None);
                    let slot = &mut self.setup.slots[task.index()];
                    slot.sleeper.iter_mut().for_each(Sleeper::is_replaced);
                    slot.program = if replaced { Program::Absent { held: true, asked: false } } else { Program::Gone };
                    slot.incarnation = incarnation;
                    if replaced {
                        self.absent.note(task);
                    }
                    self.used.forget(task);
                    self.setup.dispatcher.replaced(task);
                    self.inputs.push(Input::Exit { task, ending: Ending { regular, replaced } });
                    if replaced {
                        self.inputs.push(Input::Hold { task });
                    }
                }
                Message::JobDone { task, incarnation, regular } => {
                    let slot = &mut self.setup.slots[task.index()];
                    if slot.incarnation != incarnation {
                        continue;
                    }
                    (slot.alone, slot.waits, slot.blocked) = (false, Waits::No, false);
                    self.blocks.forget(task);
                    self.setup.actuator.follow(task, None);
                    let absent = Program::Absent { held: true, asked: false };
                    let program = std::mem::replace(&mut slot.program, absent);
                    self.absent.note(task);
                    self.setup.dispatcher.replaced(task);
                    self.inputs.push(match program {
                        Program::At { job, .. } if regular => Input::Complete { task, job },
                        _ => Input::Exit { task, ending: Ending { regular: false, replaced: true } },
                    });
                    self.inputs.push(Input::Hold { task });
                }
                Message::Ready { task, incarnation, resume } => {
                    let slot = &mut self.setup.slots[task.index()];
                    if slot.is_reserved {
                        slot.incarnation = incarnation;
                    }
                    if slot.incarnation != incarnation {
                        continue;
                    }
                    slot.program = if resume.is_some() { Program::Waiting } else { Program::New };
                    slot.kernel.iter_mut().for_each(|kernel| kernel.thawed = false);
                    (slot.alone, slot.waits, slot.blocked) = (false, Waits::No, false);
                    (slot.given, slot.ahead) = (false, None);
                    slot.sleeper.iter_mut().for_each(Sleeper::is_replaced);
                    slot.began_unseen = slot.program == Program::Waiting;
                    let followed = slot.follows.then_some(slot.group);
                    slot.asked = initial_request(&self.setup.actuator, task, slot.program);
                    slot.resume = Resume::Unknown;
                    self.blocks.forget(task);
                    self.setup.actuator.follow(task, followed);
                    if let Some(resume) = resume {
                        self.setup.keep_resume(task, resume);
                    }
                    let slot = &self.setup.slots[task.index()];
                    if slot.metered || slot.limited {
                        self.meters[task.index()].base = self.setup.actuator.cpu_time(slot.group).unwrap_or_default();
                    }
                    self.setup.dispatcher.replaced(task);
                    if self.setup.slots[task.index()].is_reserved {
                        // The engine does not know the task yet.
                        continue;
                    }
                    self.inputs.push(Input::Wake { task });
                    if self.setup.slots[task.index()].segments.is_some() {
                        let done = self.setup.begin_outside(task);
                        self.note(task, Refused::Leave, done);
                    }
                }
                Message::Resume { task, incarnation, resume } => {
                    let slot = &mut self.setup.slots[task.index()];
                    if slot.incarnation != incarnation {
                        continue;
                    }
                    if let Resume::Asked { again: true } = slot.resume {
                        let _ = self.setup.actuator.resume(&resume);
                    }
                    self.setup.keep_resume(task, resume);
                }
                Message::Threads { task, incarnation, several } => {
                    if self.setup.slots[task.index()].incarnation == incarnation {
                        self.threads(task, several);
                    }
                }
                Message::Temperature { zone, millidegrees } => {
                    self.inputs.push(Input::Temperature { zone, millidegrees });
                }
                Message::Change { change } => self.change = Some(change),
                Message::Stop => self.stop = true,
            }
        }
    }

    /// From now on a task with dispatch by priority is dispatched by freezing, or by priority. An act that was refused is repeated in the new way.
    fn threads(&mut self, task: TaskId, several: bool) {
        self.setup.slots[task.index()].alone = !several;
        if several {
            self.lose_sight(task);
            self.freeze_waiting(task);
            self.setup.slots[task.index()].sleeper.iter_mut().for_each(|sleeper| sleeper.several = true);
        }
        let dispatcher = &mut self.setup.dispatcher;
        dispatcher.set_several(task, several);
        let thawed = dispatcher.is_thawed(task);
        if several && thawed && self.refused[task.index()].is_none() {
            match self.setup.engine.place_of(task) {
                Some(_) => self.raise(task),
                None => self.stop(task),
            }
        }
    }

    fn raise(&mut self, task: TaskId) {
        let done = self.setup.raise(task);
        self.note(task, Refused::Raise, done);
    }

    /// Steps the engine through everything that is due by `now`, and hands it what was collected. At the very end of the
    /// run nothing new begins, and what was collected is left for the close.
    fn catch_up(&mut self, now: Time, last: bool) {
        let mut before = Time::from_ns(i64::MIN / 2);
        // A change follows all that was planned before it.
        let change = self.change.take();
        self.replay_waits(now, last, &mut before);
        self.replay_unseen(now, last);
        let is_due = |due: &Time| if last { *due < now } else { *due <= now };
        loop {
            let due = self.next_planned();
            if !is_due(&due) {
                break;
            }
            self.step_planned(due, now, last, Time::MAX, &mut before);
        }
        self.change = change;
        // Before the start nothing is decided; what comes then waits for the first instant.
        let idle = self.inputs.is_empty() && self.asking.is_empty() && self.change.is_none();
        if !last && now >= Time::ZERO && !idle {
            // Nothing planned has the instant of a change: a simulation with the same change would hand it in first.
            let apart = Span::from_ns(self.change.is_some().into());
            self.step(now.max(self.setup.engine.now() + apart));
        }
        if !last {
            self.settle_sleepers(now);
        }
    }

    /// When something planned is due next.
    pub(crate) fn next_planned(&self) -> Time {
        self.setup.engine.next_due().unwrap_or(Time::MAX).min(self.next_change())
    }

    /// A planned instant is handled so late in the next step.
    pub(crate) fn planned_is_late(&mut self, late: Span) {
        self.results.lateness.add(late);
        self.late = Some(late);
    }

    /// Steps the engine through what was planned for `due`, not after `until`. `before` is the planned instant of the step before.
    pub(crate) fn step_planned(&mut self, due: Time, now: Time, last: bool, until: Time, before: &mut Time) {
        self.planned_is_late(now - due);
        // Planned instants are handled as of when they were planned, so that window borders and budgets do not drift. Only
        // when a whole window has gone by is the engine told the truth, so that the table can count what it lost.
        // Online policies have no grid to keep and always get the true instant.
        // A budget in CPU time that is nearly exhausted comes due again and again; the true instant ends that.
        let again = self.metered && due - *before < self.setup.actuator.grain();
        *before = due;
        let on_time = !again && self.tolerance.is_some_and(|shortest| now - due < shortest);
        // A job that is released at the end of the run is beyond it, also when the last step comes late.
        let true_now = if last { now - Span::from_ns(1) } else { now };
        let at = if on_time { due } else { true_now.min(until) };
        while self.next_change() <= due {
            let (_, change) = self.setup.changes[self.changed];
            // Further changes wait for the next step, which is due at once: this thread does not allocate.
            if self.inputs.len() == self.inputs.capacity() {
                break;
            }
            self.changed += 1;
            self.inputs.push(change);
        }
        self.step(at.max(self.setup.engine.now()));
    }

    pub(crate) fn step(&mut self, at: Time) {
        self.measured.begin(self.inputs.iter().filter_map(Input::task).chain(self.asking.iter().copied()));
        self.measure(at);
        self.step_measured(at);
    }

    /// As [`Scheduler::step`], without measurements.
    pub(crate) fn step_measured(&mut self, at: Time) {
        self.step_once(at);
        self.make_change(at);
        // A task whose process is to be replaced has none: to the engine its jobs are blocked.
        self.absent.sort();
        for index in 0..self.absent.tasks.len() {
            let task = self.absent.tasks[index];
            if let Program::Absent { held: held @ false, .. } = &mut self.setup.slots[task.index()].program {
                *held = true;
                self.inputs.push(Input::Hold { task });
            }
        }
        self.abort_orphans();
        self.step_rest(at);
        // Only now may the supervisor touch the group: it is stopped, and is not started before the next process is there.
        self.absent.sort();
        for index in 0..self.absent.tasks.len() {
            let task = self.absent.tasks[index];
            if let Program::Absent { asked: false, .. } = self.setup.slots[task.index()].program {
                // The supervisor kills it in any case.
                let _ = self.setup.actuator.stop(self.setup.slots[task.index()].group);
                self.ask(task, Request::Next);
                let slot = &mut self.setup.slots[task.index()];
                slot.program = Program::Absent { held: true, asked: true };
                slot.resume = Resume::Unknown;
                slot.waits = Waits::No;
                slot.incarnation += 1;
            }
        }
        self.absent.clear();
    }

    /// Puts a change from outside among the inputs of this step. It comes too late if terms have changed since a policy was built for it, or was asked.
    #[cold]
    fn put_change(&mut self, change: &mut Change, at: Time) -> Result<(), ()> {
        let room = self.inputs.capacity() - self.inputs.len();
        let engine = &self.setup.engine;
        // Terms of a task whose jobs are segments or events do not hold while a job is open.
        let open = |task: TaskId| engine.job(task).is_some() || engine.is_planned(task);
        let kept = change.inputs.iter().any(|input| matches!(*input, Input::Terms { task, .. } if open(task)));
        let ended = |task: TaskId| self.setup.slots[task.index()].program == Program::Gone;
        let enters = change.inputs.iter().any(|input| matches!(*input, Input::Enter { task } if ended(task)));
        // The process of a task that is to be added has ended, or been dismissed.
        let absent =
            |newcomer: &Newcomer| matches!(self.setup.slots[newcomer.task.index()].program, Program::Absent { .. });
        let enters = enters || change.newcomers.iter().any(absent);
        change.is_outdated = change.depends_on_terms() && change.terms != engine.changes_of_terms();
        if kept || enters || change.inputs.len() > room || change.is_outdated {
            return Err(());
        }
        let shortest = change.shortest();
        let installed = change.install(at, &mut self.setup.engine, &mut self.sink)?;
        self.installed.extend_from_slice(installed);
        if let Some(shortest) = shortest {
            // Both tables hold until the end of the frame.
            self.tolerance = self.tolerance.map(|tolerance| tolerance.min(shortest));
            self.next_tolerance = Some(shortest);
        }
        change.newcomers.iter().for_each(|newcomer| self.take_in(newcomer));
        self.inputs.extend_from_slice(&change.inputs);
        change.made = Some(at);
        Ok(())
    }

    /// A task has been added to the engine, and its process waits in its frozen group.
    #[cold]
    fn take_in(&mut self, newcomer: &Newcomer) {
        let Newcomer { task, abort_signal, class, responses, on_miss, on_overrun, limited, counted } = *newcomer;
        let Setup { engine, actuator, slots, classes, reactions, causes, .. } = &mut self.setup;
        let slot = &mut slots[task.index()];
        (slot.is_reserved, slot.abort_signal, slot.limited) = (false, abort_signal, limited);
        (slot.metered, slot.counted) = (engine.meters(task), counted);
        self.metered |= slot.metered;
        if slot.metered || slot.limited {
            self.meters[task.index()].base = actuator.cpu_time(slot.group).unwrap_or_default();
        }
        classes[task.index()] = class;
        reactions[task.index()] = responses;
        causes.watch(task, on_miss, on_overrun);
    }

    /// Takes a change in a step of its own, after the measurements of the instant, and gives it back.
    fn make_change(&mut self, at: Time) {
        let Some(mut change) = self.change.take() else { return };
        // One that comes too late goes back as it is.
        if self.put_change(&mut change, at).is_ok() {
            self.step_once(at);
        }
        let _ = self.setup.returned.push(change);
        self.setup.actuator.wake_supervisor();
    }

    /// Puts the CPU time of a task among the inputs, if its policy or its budget needs that.
    pub(crate) fn measure_task(&mut self, task: TaskId) {
        let Scheduler { setup, inputs, meters, .. } = self;
        if setup.engine.wants_usage(task)
            && let Some(total) = setup.actuator.cpu_time(setup.slots[task.index()].group)
        {
            let consumed = meters[task.index()].consumed(total, setup.actuator.now(), setup.bounds);
            inputs.push(Input::Usage { task, consumed: Work::nominal(consumed).or_zero() });
        }
    }

    /// Puts the CPU time of tasks with a CPU-time budget before the other inputs.
    pub(crate) fn measure(&mut self, at: Time) {
        let Scheduler { setup, inputs, meters, measured, sink, .. } = self;
        for &task in setup.engine.running() {
            let bounds = setup.bounds && setup.slots[task.index()].kernel.is_none();
            if setup.engine.wants_usage(task)
                && measured.has(task, is_due(&setup.engine, task, at))
                && let Some(total) = setup.actuator.cpu_time(setup.slots[task.index()].group)
            {
                // Every CPU counts as one of nominal speed.
                let meter = &meters[task.index()];
                if let Some((job, false)) = meter.of {
                    sink.used[task.index()] = (job, Work::nominal(total - meter.base).or_zero());
                }
                let consumed = meter.consumed(total, setup.actuator.now(), bounds);
                let consumed = Work::nominal(consumed).or_zero();
                inputs.insert(0, Input::Usage { task, consumed });
            }
        }
    }

    pub(crate) fn step_once(&mut self, at: Time) {
        let began = self.setup.actuator.now();
        self.find_before(at);
        self.read_ends(at);
        let acted = self.setup.step(at, &self.inputs, &mut self.asking, &mut self.sink);
        self.used.stepped(|task| self.setup.engine.job_number(task));
        if self.takeovers != self.setup.engine.takeovers() {
            self.begin_metering();
        }
        self.put_back();
        self.place();
        let (mut started, mut power) = (None, false);
        for index in 0..self.setup.engine.commands().len() {
            let command = self.setup.engine.commands()[index];
            // Stops come first. Records are stamped before the first start: a process that is started may take the CPU from this
            // thread, if it has no real-time class, before it gets to look at the clock again.
            if started.is_none() && !matches!(command, Command::Stop { .. } | Command::Replace { .. }) {
                self.announce(at);
                started = Some(self.setup.actuator.now());
            }
            match command {
                Command::Replace { task } => {
                    let slot = &mut self.setup.slots[task.index()];
                    // One that is absent is being replaced already.
                    if !matches!(slot.program, Program::Absent { .. } | Program::Gone) {
                        slot.program = Program::Absent { held: false, asked: false };
                        self.absent.note(task);
                    }
                }
                Command::Stop { task, .. } => self.stop(task),
                Command::Start { task, place, work } => self.dispatch(task, Some(place), work, false),
                Command::Move { task, to, work, .. } => self.dispatch(task, Some(to), work, true),
                Command::Continue { task, work, .. } => self.dispatch(task, None, work, true),
                Command::Frequency { domain, khz } => {
                    self.setup.actuator.set_frequency(domain, khz);
                    power = true;
                }
                Command::IdleLatency { cpu, limit_us } => {
                    self.setup.actuator.limit_latency(cpu, limit_us);
                    power = true;
                }
            }
        }
        if started.is_none() {
            self.announce(at);
        }
        self.leave_aborted();
        self.freeze_unpreempted();
        self.start_ahead();
        // Last, because it may wake another thread.
        if power {
            self.setup.actuator.post_power(self.late.map(|_| self.start + (at - Time::ZERO)));
        }
        let done = self.setup.actuator.now();
        if acted {
            self.results.effort.add(done - began);
        }
        let Setup { causes, engine, .. } = &mut self.setup;
        causes.after(engine, &self.sink.records);
        let step = Item::Step { at, late: self.late.take(), lost: self.sink.dropped };
        self.report(at, step, Time::ZERO + (started.unwrap_or(done) - self.start));
        self.put_blocked();
        self.release_awake();
        self.react();
    }

    /// Another policy has taken over. Tasks that it meters, and the one before did not, have a meter from now on, and what their jobs have consumed stays.
    #[cold]
    fn begin_metering(&mut self) {
        let Scheduler { setup: Setup { engine, actuator, slots, .. }, meters, .. } = self;
        self.takeovers = engine.takeovers();
        for (task, slot) in (0..).map(TaskId).zip(slots).filter(|(task, slot)| !slot.metered && engine.meters(*task)) {
            slot.metered = true;
            self.metered |= slot.kernel.is_none();
            // A task with a limited runtime has its meter already.
            if slot.is_reserved || slot.limited {
                continue;
            }
            let total = actuator.cpu_time(slot.group).unwrap_or_default();
            let consumed = engine.consumed(task).nominal_time();
            let meter = &mut meters[task.index()];
            *meter = Meter::new(engine.job(task).map(|job| (job.number, false)), total - consumed);
            if engine.place_of(task).is_some() {
                meter.run(actuator.now());
            }
        }
    }

    /// Announces the window that begins in this step, unless that was done ahead. The processes of the window before have stopped by then.
    fn announce(&mut self, at: Time) {
        let Some(announcer) = &self.setup.announcer else { return };
        if let Some(frame) = self.ahead.begins(at, &self.sink.records, &self.setup.engine.system().windows) {
            announcer.announce(frame);
        }
    }

    /// Reads the CPU time of the jobs that the step may end, where nothing measures it.
    fn read_ends(&mut self, at: Time) {
        let Scheduler { setup: Setup { engine, slots, actuator, .. }, inputs, used, .. } = self;
        let ended = inputs.iter().filter_map(|input| match *input {
            Input::Complete { task, .. } | Input::Abort { task } => Some(task),
            _ => None,
        });
        let due = engine.running().iter().copied().filter(|task| is_due(engine, *task, at));
        for task in ended.chain(due) {
            let slot = &slots[task.index()];
            if slot.counted
                && !slot.metered
                && let Some(job) = engine.job_number(task)
                && let Some(total) = actuator.cpu_time(slot.group)
            {
                used.read(task, job, total);
            }
        }
    }

    /// Finds the jobs that are late or have exceeded their runtime before a step ends them.
    fn find_before(&mut self, at: Time) {
        let Scheduler { setup: Setup { causes, engine, slots, actuator, .. }, meters, measured, .. } = self;
        causes.before(engine, at, |task| {
            let (slot, meter) = (&slots[task.index()], &meters[task.index()]);
            let (job, _) = meter.of.filter(|(_, handler)| slot.limited && !handler)?;
            if !measured.has(task, is_due(engine, task, at)) {
                return None;
            }
            Some((job, actuator.cpu_time(slot.group)? - meter.base))
        });
    }

    /// Sends the signals that follow from the jobs that were found, and leaves the rest to the supervisor.
    fn react(&mut self) {
        let mut calls = false;
        for index in 0..self.setup.causes.found().len() {
            let found = self.setup.causes.found()[index];
            let response = self.setup.reactions[found.task.index()][found.cause as usize];
            let sent = match response {
                Response::Report => false,
                Response::Call | Response::Stop => {
                    calls = true;
                    false
                }
                // A process that has not run yet could not handle it, and one that is to be replaced is none.
                Response::Signal(signal) => {
                    // The signal would wake a program that waits, and the program would use a CPU before its next job. The end of a sleep is heard.
                    if self.setup.slots[found.task.index()].sleeper.is_none() {
                        self.freeze_waiting(found.task);
                    }
                    let slot = &self.setup.slots[found.task.index()];
                    matches!(slot.program, Program::At { .. } | Program::Waiting | Program::Outside { .. })
                        && self.setup.actuator.signal(slot.group, signal).is_ok()
                }
            };
            if !self.tell(Item::Found { found, sent }) && response == Response::Stop {
                self.setup.requests.ask_end(found.about(), found.job);
            }
        }
        self.setup.causes.clear();
        let now = self.setup.engine.now();
        if calls && now >= self.next_call {
            self.next_call = now + CALL;
            self.setup.actuator.wake_supervisor();
        }
    }

    /// Freezes the tasks that the dispatcher has left thawed and that may not stay so: their job has ended, is blocked, or their CPU idles.
    fn freeze_unpreempted(&mut self) {
        let mut index = 0;
        while let Some(&task) = self.setup.dispatcher.all_thawed().get(index) {
            if !self.setup.may_stay(task) && self.refused[task.index()].is_none() {
                self.stop(task);
            }
            // A frozen task has left the list.
            index += usize::from(self.setup.dispatcher.is_thawed(task));
        }
    }

    fn stop(&mut self, task: TaskId) {
        self.meters[task.index()].halt(self.setup.actuator.now());
        // A program outside of its segments is not stopped. Its way there may have been refused, and is repeated.
        if matches!(self.setup.slots[task.index()].program, Program::Outside { .. }) {
            return;
        }
        if self.leave_waiting(task) {
            return self.note(task, Refused::Stop, Ok(()));
        }
        let done = self.setup.stop(task);
        self.note(task, Refused::Stop, done);
    }

    /// Lets a task run, at another place if one is given, with the work that the engine has it at; `runs` says that it runs already.
    fn dispatch(&mut self, task: TaskId, place: Option<Place>, work: Activity, runs: bool) {
        // An act that was refused before this has not been done: it may be at another place, and may be stopped.
        let before = self.refused[task.index()];
        let place = match before {
            Some(Refused::Dispatch { place: before, .. }) => place.or(before),
            _ => place,
        };
        if let Some(Refused::Enter) = before
            && let Err(refused) = self.setup.enter_segment(task)
        {
            // The job begins when its process has the class of the schedule.
            return self.note(task, Refused::Dispatch { place, work }, Err(refused));
        }
        let slot = &self.setup.slots[task.index()];
        let is_over = slot.program == Program::Waiting && self.is_over(task);
        // The blocks of a job that it has begun ahead, or that is over by now, are to be replayed.
        if slot.ahead.is_none() && !is_over && matches!(slot.program, Program::New | Program::Waiting) {
            self.forget_waits(task);
        }
        let slot = &self.setup.slots[task.index()];
        if slot.counted
            && !slot.metered
            && let Some(job) = self.setup.engine.job_number(task)
        {
            // Outside of its segments the program does other work.
            if slot.segments.is_some() {
                self.used.forget(task);
            }
            self.used.dispatched(task, job, || self.setup.actuator.cpu_time(slot.group));
        }
        let cpus = place.map(|place| self.setup.cpus(task, place));
        let how = How { work, runs: runs && before.is_none(), is_over };
        if !is_over {
            self.is_dispatched_asleep(task);
        }
        let done = self.setup.dispatch(task, cpus.as_ref(), how, self.start, &mut self.meters);
        self.note(task, Refused::Dispatch { place, work }, done);
        self.note_blocked(task);
    }

    /// Notes whether the machine below has done what it was asked for. The engine takes it as done, so it is asked again.
    pub(crate) fn note(&mut self, task: TaskId, act: Refused, done: io::Result<()>) {
        self.refused[task.index()] = None;
        match done {
            Ok(()) => {}
            // Its exit will be reported by the supervisor.
            Err(e) if is_gone(&e) => {}
            Err(e) => {
                self.results.failures += 1;
                self.results.first_failure.get_or_insert(e);
                self.refused[task.index()] = Some(act);
                // A later refusal does not postpone the repetition of an earlier one.
                self.repeat = self.repeat.min(self.now() + REPEAT);
            }
        }
    }

    /// The machine below has refused a priority, which is asked for again.
    pub(crate) fn refused_place(&mut self, error: io::Error) {
        self.results.failures += 1;
        self.results.first_failure.get_or_insert(error);
        self.repeat = self.repeat.min(self.now() + REPEAT);
    }

    /// The task's process stays frozen until an instant, without a command of the engine.
    pub(crate) fn hold(&mut self, task: TaskId, until: Time) {
        self.refused[task.index()] = Some(Refused::Held { until });
        self.repeat = self.repeat.min(until);
    }

    fn repeat_refused(&mut self) {
        self.repeat = Time::MAX;
        if self.unplaced {
            self.place();
            self.start_ahead();
        }
        // Stops come first.
        for task in (0..self.refused.len() as u32).map(TaskId) {
            if let Some(Refused::Stop) = self.refused[task.index()] {
                self.stop(task);
            }
        }
        for task in (0..self.refused.len() as u32).map(TaskId) {
            match self.refused[task.index()] {
                // The step that follows ends the job. A dispatch now would begin the next one.
                Some(_) if self.has_completed(task) => self.repeat = self.repeat.min(self.now() + REPEAT),
                Some(Refused::Dispatch { place, work }) => self.dispatch(task, place, work, false),
                Some(Refused::Raise) => self.raise(task),
                Some(Refused::Ahead) => {
                    self.refused[task.index()] = None;
                    self.start_one_ahead(task);
                }
                Some(Refused::Leave) => {
                    let Program::Outside { job } = self.setup.slots[task.index()].program else { continue };
                    let done = self.setup.leave_segment(task, job);
                    self.note(task, Refused::Leave, done);
                }
                Some(Refused::Enter) => {
                    let done = self.setup.enter_segment(task);
                    self.note(task, Refused::Enter, done);
                }
                Some(Refused::Held { until }) if until > self.now() => self.repeat = self.repeat.min(until),
                Some(Refused::Held { .. }) => self.release_flooding(task),
                Some(Refused::Stop) | None => {}
            }
        }
        // A task with a rank may run although the engine has stopped it.
        for task in (0..self.refused.len() as u32).map(TaskId) {
            if self.refused[task.index()].is_none() && !self.has_completed(task) {
                self.start_one_ahead(task);
            }
        }
        self.put_blocked();
    }

    /// Whether the next step completes the task's job.
    fn has_completed(&self, task: TaskId) -> bool {
        self.inputs.iter().any(|input| matches!(input, Input::Complete { task: of, .. } if *of == task))
    }

    fn close(&mut self, at: Time) {
        self.measure(at);
        self.setup.engine.close(at, &self.inputs, &mut self.sink);
        // This thread leaves its real-time class next, and the supervisor has none: a process that kept running would keep the CPU from both.
        for index in 0..self.slots().len() {
            let task = TaskId(index as u32);
            let thawed = self.setup.dispatcher.is_thawed(task);
            let waits = self.slots()[index].waits != Waits::No && !self.setup.actuator.waits(task);
            let runs = thawed || waits || self.slots()[index].kernel.is_some();
            if runs || self.setup.engine.place_of(task).is_some() || self.refused[index].is_some() {
                // All processes are killed next. One that cannot be stopped only delays that.
                let _ = self.setup.freeze(task);
            }
        }
        self.report(at, Item::Close(at), at);
    }

    /// Hands the step to the supervisor: its inputs, itself, its records.
    fn report(&mut self, at: Time, step: Item, applied: Time) {
        for index in 0..self.installed.len() {
            self.tell(Item::Input(self.installed[index]));
        }
        self.installed.clear();
        for index in 0..self.inputs.len() {
            let input = self.inputs[index];
            self.tell(Item::Input(input));
        }
        self.inputs.clear();
        self.tell(step);
        // A start that was carried out after the planned end of the run is not stopped before.
        let applied = applied.max(self.applied);
        for index in 0..self.sink.records.len() {
            let record = self.sink.records[index];
            if let RecordKind::Table { .. } = record.kind {
                self.tolerance = self.next_tolerance.take().or(self.tolerance);
                self.setup.actuator.set_frame(self.setup.engine.system().major_frame());
                // The command for it waits for an answer.
                self.setup.actuator.wake_supervisor();
            }
            self.tell(Item::Record(Stamped { record, applied: applied.max(at).max(record.at) }));
        }
        self.sink.records.clear();
        self.applied = applied;
    }

    /// Hands something to the supervisor. Returns whether the ring had room for it.
    fn tell(&mut self, item: Item) -> bool {
        let fits = self.setup.outbox.push(item).is_ok();
        if !fits {
            self.sink.dropped += 1;
            self.setup.lost.store(true, Ordering::Release);
        }
        fits
    }
}

impl<A: Actuator> Setup<A> {
    /// The scheduler of a plan whose processes are there.
    pub(crate) fn new<P: Processes<Resume = A::Resume>>(
        engine: Engine,
        actuator: A,
        plan: &Plan,
        lives: &Lives<P>,
        links: Links<A::Resume>,
        mut resumes: Resumes,
    ) -> Setup<A> {
        let Links { inbox, outbox, returned } = links;
        let slot = |(process, task): (&Process, TaskId)| {
            let known = &lives.tasks[task.index()];
            let initialised = process.init && known.life == Life::Alive;
            let program = match initialised {
                _ if process.is_reserved => Program::Absent { held: true, asked: true },
                true => Program::Waiting,
                false => Program::New,
            };
            let asked = initial_request(&actuator, task, program);
            // Fetched in time for the first window. A program that uses its page is resumed through that.
            let wanted = initialised && asked.waits_for.is_none() && resumes.has_room();
            let resume = if wanted { lives.fetch(task) } else { None };
            if resume.is_some() {
                resumes.add(task);
            }
            Slot {
                group: known.home.group,
                partition: known.home.partition,
                incarnation: 0,
                program,
                asked,
                resume: resume.map_or(Resume::Unknown, Resume::Here),
                ahead: None,
                given: false,
                abort_signal: process.abort_signal,
                observed: process.observed.map(|of| Observed::new(of, &actuator)),
                metered: engine.meters(task),
                counted: is_counted(process) && engine.system().tasks[task.index()].arrival != Arrival::Activated,
                sleeper: plan.sleeps(engine.system(), task).then(|| Sleeper::new(process.wakeups)),
                segments: process.segments.then(|| Terms::of(&engine, task)),
                limited: process.on_overrun.is_some() && !process.per_job,
                kernel: process
                    .kernel
                    .map(|kernel| OfKernel { thawed: false, fixed: matches!(kernel.class, Class::Deadline { .. }) }),
                rings: Rings::default(),
                changes: Rings::default(),
                muted_until: None,
                alone: false,
                waits: Waits::No,
                follows: plan.follows(engine.system(), task),
                waits_since: Span::MAX,
                blocked: false,
                began_unseen: false,
                is_reserved: process.is_reserved,
            }
        };
        Setup {
            slots: plan.processes.iter().zip((0..).map(TaskId)).map(slot).collect(),
            dispatcher: of_plan(plan, engine.system().cpus.len()),
            of_kernel: Kernel,
            partitions: partitions(engine.system()),
            // A job that sleeps leaves its CPU to others, and consumes nothing.
            bounds: plan.keeps_its_cpus() && plan.dispatch != Dispatch::Rank,
            quiet: plan.notices(&engine) == Notices::Quiet,
            classes: (0..plan.processes.len() as u32).map(|task| plan.class(TaskId(task))).collect(),
            reactions: plan.processes.iter().map(|process| CAUSES.map(|cause| Response::new(process, cause))).collect(),
            causes: Causes::new(plan, records_of(plan.processes.len())),
            replaceable: plan.replaceable(engine.system()).collect(),
            requests: lives.requests(),
            resumes,
            changes: plan.changes.clone(),
            duration: plan.duration,
            places: engine.places().to_vec(),
            announcer: plan.announcer.clone(),
            ends_with_processes: plan.ends_with_processes,
            engine,
            actuator,
            inbox,
            outbox,
            returned,
            lost: Arc::default(),
        }
    }

    /// Keeps the descriptor by which the process of a task continues. Another one may have to be closed for that.
    fn keep_resume(&mut self, task: TaskId, resume: A::Resume) {
        if let Some(oldest) = self.resumes.add(task) {
            let held = &mut self.slots[oldest.index()].resume;
            if matches!(held, Resume::Here(_)) {
                *held = Resume::Unknown;
            }
        }
        self.slots[task.index()].resume = Resume::Here(resume);
    }

    /// Steps the engine and answers requests. Returns whether there are commands.
    fn step(&mut self, at: Time, inputs: &[Input], asking: &mut Vec<TaskId>, sink: &mut StepSink) -> bool {
        let Setup { engine, actuator, slots, .. } = self;
        let reaction = engine.step(at, inputs, sink);
        let acts = !reaction.commands.is_empty();
        for reply in reaction.replies {
            let slot = &mut slots[reply.task.index()];
            slot.is_answered(actuator);
            let asked = &mut slot.asked;
            let status = match reply.answer {
                Answer::Granted => Status::Done,
                Answer::Refused => Status::Refused,
                Answer::Waits => {
                    asked.waits_for = asked.waits_for.map(|_| Awaited::Resource);
                    continue;
                }
            };
            if matches!(asked.waits_for, Some(Awaited::Step(_) | Awaited::Resource)) {
                asked.waits_for = None;
                actuator.answer(reply.task, asked.number, status);
            }
        }
        for task in asking.drain(..) {
            let Some(Awaited::Step(kind)) = slots[task.index()].asked.waits_for else { continue };
            if kind == Kind::Statistics {
                let mut statistics = statistics(engine, task);
                if slots[task.index()].kernel.is_some() {
                    // Its budget is one without end, for the measurement.
                    statistics.budget = takt_abi::NEVER;
                }
                actuator.tell(task, statistics);
            }
            let slot = &mut slots[task.index()];
            slot.is_answered(actuator);
            slot.asked.waits_for = None;
            actuator.answer(task, slot.asked.number, Status::Done);
        }
        acts
    }

    /// Answers the outstanding request of a task's program.
    pub(crate) fn answer(&mut self, task: TaskId, status: Status) {
        let slot = &mut self.slots[task.index()];
        slot.asked.waits_for = None;
        slot.is_answered(&self.actuator);
        self.actuator.answer(task, slot.asked.number, status);
    }

    /// The dispatcher of a task, and what it acts on.
    pub(crate) fn bench(&mut self, task: TaskId) -> (&mut dyn Dispatcher<A>, Bench<'_, A>) {
        let Setup { engine, actuator, slots, places, partitions, dispatcher, of_kernel, .. } = self;
        let dispatcher: &mut dyn Dispatcher<A> =
            if slots[task.index()].kernel.is_some() { of_kernel } else { &mut **dispatcher };
        (dispatcher, Bench { engine, actuator, slots, places, partitions })
    }

    /// The CPUs of a task's process when the engine runs the task at a place.
    fn cpus(&self, task: TaskId, place: Place) -> CpuSet {
        *self.dispatcher.cpus(task).unwrap_or(&self.places[place.index()])
    }

    /// The dispatcher of the run, and what it acts on.
    fn all(&mut self) -> (&mut dyn Dispatcher<A>, Bench<'_, A>) {
        let Setup { engine, actuator, slots, places, partitions, dispatcher, .. } = self;
        (&mut **dispatcher, Bench { engine, actuator, slots, places, partitions })
    }

    /// The engine has taken a step. See [`Dispatcher::stepped`].
    pub(crate) fn stepped(&mut self) -> io::Result<()> {
        let (dispatcher, mut bench) = self.all();
        dispatcher.stepped(&mut bench)
    }

    /// See [`Dispatcher::blocked_before`].
    pub(crate) fn blocked_before(&mut self, task: TaskId) -> Option<TaskId> {
        let (dispatcher, bench) = self.all();
        dispatcher.blocked_before(task, &bench)
    }

    /// See [`Dispatcher::next_ahead`].
    pub(crate) fn next_ahead(&mut self) -> Option<TaskId> {
        let (dispatcher, bench) = self.all();
        dispatcher.next_ahead(&bench)
    }

    /// See [`Dispatcher::exhausted`].
    pub(crate) fn exhausted(&mut self) -> Option<TaskId> {
        let (dispatcher, bench) = self.all();
        dispatcher.exhausted(&bench)
    }

    /// See [`Dispatcher::rest`].
    pub(crate) fn rest(&mut self, task: TaskId) -> io::Result<()> {
        let (dispatcher, mut bench) = self.bench(task);
        dispatcher.rest(task, &mut bench)
    }

    /// Whether a thawed task may stay so.
    fn may_stay(&mut self, task: TaskId) -> bool {
        let (dispatcher, bench) = self.bench(task);
        dispatcher.may_stay(task, &bench)
    }

    /// Keeps a task off its CPU.
    pub(crate) fn stop(&mut self, task: TaskId) -> io::Result<()> {
        if self.slots[task.index()].kernel.is_some() {
            self.report_abort(task)?;
        }
        let (dispatcher, mut bench) = self.bench(task);
        dispatcher.stop(task, &mut bench)
    }

    /// The process of a task that the kernel schedules is not stopped, so it learns at once that its job was aborted.
    fn report_abort(&mut self, task: TaskId) -> io::Result<()> {
        let slot = &self.slots[task.index()];
        let Program::At { job, notified: false } = slot.program else { return Ok(()) };
        if self.engine.job(task).is_some_and(|present| present.number == job) || self.engine.at(task) != Some(job) {
            return Ok(());
        }
        let (group, signal) = (slot.group, slot.abort_signal);
        if slot.asked.waits_for == Some(Awaited::Resource) {
            self.answer(task, Status::Aborted);
        }
        if let Some(signal) = signal {
            self.actuator.abort(task, job);
            self.actuator.signal(group, signal)?;
        }
        self.slots[task.index()].program = Program::At { job, notified: true };
        Ok(())
    }

    pub(crate) fn freeze(&mut self, task: TaskId) -> io::Result<()> {
        self.bench(task).1.freeze(task)?;
        self.dispatcher.frozen(task);
        Ok(())
    }

    fn raise(&mut self, task: TaskId) -> io::Result<()> {
        let (dispatcher, mut bench) = self.bench(task);
        dispatcher.raise(task, &mut bench)
    }

    /// Lets the program of a task begin the present job, which it is announced. `start` is time zero on the monotonic clock.
    fn begin_job(&mut self, task: TaskId, start: Span) {
        let Setup { engine, actuator, slots, requests, .. } = self;
        let slot = &mut slots[task.index()];
        // Its events up to here belong to earlier jobs, or are stops that the kernel reports as sleeps.
        let since = slot.begins_since(actuator);
        if let Some(observed) = &mut slot.observed {
            observed.since = since;
        }
        let waited = slot.program == Program::Waiting;
        if let Some(job) = begin(engine, actuator, task, start) {
            slot.asked.told = job;
            slot.program = Program::At { job, notified: false };
        }
        if !waited || std::mem::take(&mut slot.given) {
            return;
        }
        match &mut slot.resume {
            _ if slot.asked.waits_for == Some(Awaited::Job) => {
                slot.asked.waits_for = None;
                actuator.answer(task, slot.asked.number, Status::Done);
            }
            Resume::Here(by) => drop(actuator.resume(by)),
            Resume::Asked { again } => *again = true,
            Resume::Unknown if slot.observed.is_some() => {}
            // It was closed, or there was no room for it.
            resume @ Resume::Unknown => {
                *resume = Resume::Asked { again: true };
                requests.ask(task.index(), slot.incarnation, Request::Resume as u8);
                actuator.wake_supervisor();
            }
        }
    }

    /// Lets the program of a task begin or continue its job, which the engine has not dispatched, or has stopped.
    pub(crate) fn start_ahead(&mut self, task: TaskId, start: Span, meters: &mut [Meter]) -> io::Result<()> {
        let Setup { engine, actuator, slots, dispatcher, .. } = self;
        let slot = &mut slots[task.index()];
        let begins = matches!(slot.program, Program::New | Program::Waiting);
        if begins && !engine.may_begin(task) {
            return Ok(());
        }
        if let Some(cpus) = dispatcher.cpus(task) {
            actuator.assign(slot.partition, cpus)?;
        }
        if begins {
            let used = actuator.cpu_time(slot.group).unwrap_or_default();
            slot.ahead = Some(Ahead { before: slot.program, used });
            if slot.metered || slot.limited {
                meters[task.index()] = Meter::new(engine.job_number(task).map(|job| (job, false)), used);
            }
            self.begin_job(task, start);
        }
        self.slots[task.index()].is_started(&self.actuator, begins);
        let waited = std::mem::take(&mut self.slots[task.index()].waits) != Waits::No;
        let (dispatcher, mut bench) = self.bench(task);
        dispatcher.start(task, if waited { Before::Asleep } else { Before::Frozen }, &mut bench)?;
        self.watch(task);
        Ok(())
    }

    fn dispatch(
        &mut self,
        task: TaskId,
        cpus: Option<&CpuSet>,
        how: How,
        start: Span,
        meters: &mut [Meter],
    ) -> io::Result<()> {
        let How { work, runs, is_over } = how;
        if work != Activity::Resumed && self.slots[task.index()].asked.waits_for == Some(Awaited::Resource) {
            // The requesting job is over, and its wait with it.
            self.answer(task, Status::Aborted);
        }
        let Setup { engine, actuator, slots, .. } = self;
        let slot = &mut slots[task.index()];
        let begun = slot.ahead.take().is_some();
        if slot.metered || slot.limited {
            let job = engine.job(task).map(|job| (job.number, work == Activity::Handler));
            let meter = &mut meters[task.index()];
            if meter.of != job || work == Activity::Handler {
                *meter = meter.next(job, actuator.cpu_time(slot.group).unwrap_or_default());
            }
            meter.run(actuator.now());
        }
        if let Some(cpus) = cpus.filter(|_| slot.kernel.is_none()) {
            actuator.assign(slot.partition, cpus)?;
        }
        let begins = matches!(slot.program, Program::New | Program::Waiting) && !begun && !is_over;
        slot.is_started(actuator, begins);
        match slot.program {
            // The process that comes next is born stopped, and begins when it is there.
            Program::Absent { .. } | Program::Gone | Program::Outside { .. } => return Ok(()),
            // The job that it has begun ahead is done.
            Program::Waiting if begun => return Ok(()),
            Program::Waiting if is_over => {}
            Program::New | Program::Waiting => self.begin_job(task, start),
            Program::At { job, notified } => {
                // Its events up to here are stops that the kernel reports as sleeps.
                if let Some(observed) = slot.observed.as_mut().filter(|observed| observed.since == Span::MAX) {
                    observed.since = actuator.now();
                }
                let aborted = matches!(work, Activity::Abandoned | Activity::Handler);
                // Without `on_abort: signal` the program completes the abandoned work.
                if aborted && slot.abort_signal.is_some() {
                    actuator.abort(task, job);
                }
                // The handler of a job is at work for that job, whatever the program was at.
                let job = engine.at(task).unwrap_or(job);
                slot.program = Program::At { job, notified };
                if let Some(signal) = slot.abort_signal.filter(|_| aborted && !notified) {
                    actuator.signal(slot.group, signal)?;
                    slot.program = Program::At { job, notified: true };
                }
            }
        }
        let slot = &mut self.slots[task.index()];
        let waited = std::mem::take(&mut slot.waits) != Waits::No;
        let before = match (waited, runs) {
            (true, _) => Before::Asleep,
            (false, true) => Before::Running,
            (false, false) => Before::Frozen,
        };
        let (dispatcher, mut bench) = self.bench(task);
        dispatcher.start(task, before, &mut bench)?;
        self.watch(task);
        Ok(())
    }

    /// The process of a task has been started, and is at work.
    pub(crate) fn watch(&self, task: TaskId) {
        let slot = &self.slots[task.index()];
        if slot.follows {
            self.actuator.watch(task, Some(Blocked(slot.blocked)));
        }
    }
}

/// The most records of one step that are kept.
fn records_of(tasks: usize) -> usize {
    8 * tasks + 256
}

/// By task: its partition in a window table. Without a table all tasks share their CPUs.
fn partitions(system: &System) -> Vec<Option<PartitionId>> {
    let mut partitions = vec![None; system.tasks.len()];
    for (partition, id) in system.partitions.iter().zip((0..).map(PartitionId)) {
        partition
            .tasks
            .iter()
            .filter(|_| !system.windows.is_empty())
            .for_each(|task| partitions[task.index()] = Some(id));
    }
    partitions
}

/// The request that ended the initialisation of a program. The first job answers it.
fn initial_request(actuator: &impl Actuator, task: TaskId, program: Program) -> Asked {
    match actuator.rung(task, 0) {
        Rung::Request(request) if program == Program::Waiting => {
            Asked { number: request.number, waits_for: Some(Awaited::Job), ..Asked::default() }
        }
        _ => Asked::default(),
    }
}

/// Announces the job that the program begins, in times of the monotonic clock. Returns the job's number.
fn begin(engine: &Engine, actuator: &impl Actuator, task: TaskId, start: Span) -> Option<JobId> {
    let job = engine.job(task)?;
    let number = engine.at(task).or_else(|| engine.may_begin(task).then_some(job.number))?;
    let since = |at: Time| if at == Time::MAX { takt_abi::NEVER } else { (start + (at - Time::ZERO)).ns() };
    let (release, deadline) = (since(job.release), since(job.deadline));
    actuator.begin(task, takt_abi::Job { number, release, deadline, load: engine.load(task) });
    Some(number)
}

/// The change of share and importance that a program has requested.
fn share(task: TaskId, share: i64, importance: i64) -> Option<Input> {
    let share = match share {
        -1 => None,
        share => Some(u32::try_from(share).ok().filter(|share| (1..=1_000_000).contains(share))?),
    };
    let importance = u32::try_from(importance).ok().filter(|importance| *importance > 0)?;
    Some(Input::Share { task, share, importance })
}

/// Whether the deadline of the task's job has come, which may end it.
fn is_due(engine: &Engine, task: TaskId, at: Time) -> bool {
    engine.job(task).is_some_and(|job| job.deadline <= at)
}

/// Statistics of a job and its task.
fn statistics(engine: &Engine, task: TaskId) -> Statistics {
    let counts = engine.counts(task);
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Statistics {
        consumed: engine.job(task).map_or(0, |job| job.consumed.nominal_time().ns()),
        budget: engine.budget_left(task).map_or(takt_abi::NEVER, Span::ns),
        released: number(counts.released),
        completed: number(counts.completed),
        met: number(counts.met),
        missed: number(counts.missed),
        aborted: number(counts.aborted),
        utility: i64::try_from(counts.utility).unwrap_or(i64::MAX),
    }
}
