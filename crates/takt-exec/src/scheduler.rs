//! The scheduler: steps the engine and carries out its commands. What it waits with on Linux is in [`crate::thread`].
//!
//! Nothing in here may allocate after [`Scheduler::new`], block, or look at a file system.

use crate::actuator::{Actuator, Processes, is_gone};
use crate::life::{Incarnation, Life, Message, Program, Request, Resume};
use crate::lives::Lives;
use crate::plan::{Plan, Process};
use crate::requests::Requests;
use rtrb::{Consumer, Producer};
use rustix::process::Signal;
use std::io;
use std::sync::Arc;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Activity, Command, Ending, Engine, Input};
use takt_core::model::TaskId;
use takt_core::record::{JobId, Place, Record, RecordKind, Sink};
use takt_core::stats::{Histogram, Responses};
use takt_core::time::{Span, Time};
use takt_core::work::Work;
use takt_linux::{Group, PartitionHandle};
use takt_trace::Stamped;

/// How many completions one wait takes in.
pub(crate) const BATCH: usize = 256;

/// From time zero's choice to time zero: an instant that the first wait can still be on time for.
const LEAD: Span = Span::from_ms(2);

/// An act that the machine below has refused is repeated so much later.
const REPEAT: Span = Span::from_ms(1);

/// From the scheduler to the supervisor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// A trace record.
    Record(Stamped),
    /// An input of the step that follows.
    Input(Input),
    /// A step of the engine.
    Step(Time),
    /// The end of the run: the last step.
    Close(Time),
}

/// What ends a wait of the scheduler before it is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heard {
    /// The process has signalled the completion of a job.
    Completion(TaskId, Incarnation),
    /// The supervisor has sent messages.
    Messages,
}

/// What the scheduler waits with: descriptors and a timer on Linux, the machine and its clock in virtual time.
pub(crate) trait Waiting<A: Actuator> {
    /// Sleeps until something is heard, or until the scheduler is due ([`Scheduler::due`]).
    ///
    /// # Errors
    /// When the machine below cannot wait. The run ends then.
    fn wait(&mut self, scheduler: &Scheduler<A>) -> io::Result<()>;
    /// Takes the next of what was heard in the last wait.
    fn heard(&mut self) -> Option<Heard>;
}

/// A task and its process.
pub(crate) struct Slot<R> {
    pub(crate) group: Group,
    pub(crate) partition: PartitionHandle,
    /// The process that the scheduler knows, or waits for.
    pub(crate) incarnation: Incarnation,
    pub(crate) program: Program,
    pub(crate) resume: Resume<R>,
    /// The signal that reports an abort to the process.
    pub(crate) abort_signal: Option<Signal>,
    /// Its jobs have a CPU-time budget, so its CPU time is measured.
    pub(crate) budgeted: bool,
}

/// What has been refused, and is to be tried again.
#[derive(Clone, Copy, Debug)]
enum Refused {
    Stop,
    Dispatch { place: Option<Place>, work: Activity },
}

pub(crate) struct Setup<A: Actuator> {
    pub(crate) engine: Engine,
    pub(crate) actuator: A,
    pub(crate) slots: Vec<Slot<A::Resume>>,
    /// The tasks whose processes can be replaced during the run.
    pub(crate) replaceable: Vec<TaskId>,
    pub(crate) inbox: Consumer<Message<A::Resume>>,
    pub(crate) outbox: Producer<Item>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) duration: Option<Span>,
}

/// What the scheduler leaves.
pub(crate) struct Outcome {
    pub(crate) engine: Engine,
    pub(crate) responses: Responses,
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
}

/// Records of one step, in memory that is there already.
struct StepSink {
    records: Vec<Record>,
    responses: Responses,
    /// By task: the job that consumed most, and how much.
    most: Vec<Option<(JobId, Work)>>,
    dropped: u64,
}

impl Sink for StepSink {
    fn record(&mut self, record: Record) {
        if let RecordKind::Finish { task, job, consumed, .. } = record.kind {
            let most = &mut self.most[task.index()];
            if most.is_none_or(|(_, before)| consumed > before) {
                *most = Some((job, consumed));
            }
        }
        if self.records.len() < self.records.capacity() {
            self.records.push(record);
        } else {
            self.dropped += 1;
        }
    }
    fn response(&mut self, task: TaskId, response: Span) {
        self.responses.response(task, response);
    }
}

pub(crate) struct Scheduler<A: Actuator> {
    setup: Setup<A>,
    places: Vec<CpuSet>,
    sink: StepSink,
    inputs: Vec<Input>,
    /// Shortest window: a planned instant handled later than this has lost a window. `None` without a window table.
    tolerance: Option<Span>,
    start: Span,
    /// The planned end.
    end: Time,
    /// When the step before was carried out.
    applied: Time,
    meters: Vec<Meter>,
    /// By task: the act that was refused.
    refused: Vec<Option<Refused>>,
    /// When refused acts are repeated; [`Time::MAX`] when there are none.
    repeat: Time,
    /// Some jobs have a budget in CPU time.
    metered: bool,
    /// A message has asked for the end.
    stop: bool,
    results: Results,
}

/// The CPU time that a task's process had used when its job, or the handler of that, was dispatched first.
#[derive(Clone, Copy, Default)]
struct Meter {
    of: Option<(JobId, bool)>,
    base: Span,
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
            places: setup.engine.places().to_vec(),
            sink: StepSink {
                records: Vec::with_capacity(8 * n + 256),
                responses: Responses::reserved(n),
                most: vec![None; n],
                dropped: 0,
            },
            // Everything that one wait can bring: a full inbox, a batch of signals, a measurement per running task.
            inputs: Vec::with_capacity(10 * n + 2 * BATCH),
            tolerance: windows.iter().map(|w| w.length).min(),
            start: Span::ZERO,
            end: setup.duration.map_or(Time::MAX, |d| Time::ZERO + d),
            applied: Time::ZERO,
            meters: vec![Meter::default(); n],
            refused: vec![None; n],
            repeat: Time::MAX,
            metered: setup.slots.iter().any(|slot| slot.budgeted),
            stop: false,
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
        self.messages();
        self.start
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + (self.setup.actuator.now() - self.start)
    }

    /// When something is to be done next, the end of the run at the latest.
    pub(crate) fn due(&self) -> Time {
        // A budget in CPU time that is nearly used up is due at once. Where this thread shares the process's CPU, the process
        // would never get to use the rest of it. Releases, deadlines and timers are not for a budget to delay.
        let due = match self.metered {
            true => self.setup.engine.next_due_with_budgets_from(self.now() + self.setup.actuator.grain()),
            false => self.setup.engine.next_due(),
        };
        due.unwrap_or(Time::MAX).min(self.repeat).min(self.end)
    }

    /// Waits, takes in what is heard, and handles it with what is due, until the end of the run. Returns its instant.
    ///
    /// # Errors
    /// Those of [`Waiting::wait`].
    pub(crate) fn run(&mut self, waiting: &mut impl Waiting<A>) -> io::Result<Time> {
        loop {
            waiting.wait(self)?;
            while let Some(heard) = waiting.heard() {
                match heard {
                    Heard::Completion(task, incarnation) => self.completion(task, incarnation),
                    Heard::Messages => self.messages(),
                }
            }
            if let Some(end) = self.advance() {
                return Ok(end);
            }
        }
    }

    /// Handles what was taken in, and what is due. At the end of the run it gives the instant of that.
    fn advance(&mut self) -> Option<Time> {
        let now = self.now().min(self.end);
        let last = self.stop || now == self.end;
        if now >= self.repeat {
            self.repeat_refused();
        }
        self.catch_up(now, last);
        // A task whose program has failed misses its jobs until the planned end.
        let engine = &self.setup.engine;
        let misses = engine.any_failed() && self.setup.duration.is_some();
        if last || (!self.setup.slots.is_empty() && engine.all_gone() && !misses) {
            let at = now.max(self.setup.engine.now());
            self.close(at);
            return Some(at);
        }
        None
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

    /// What is left at `end`, the result of the last [`Scheduler::advance`].
    pub(crate) fn finish(self, end: Time) -> Outcome {
        let Scheduler { setup, sink, results, stop, .. } = self;
        let Results { lateness, effort, failures, first_failure } = results;
        let StepSink { responses, mut most, dropped, .. } = sink;
        // Of a task that is not measured only the time is known for which it had a CPU.
        most.iter_mut().zip(&setup.slots).filter(|(_, slot)| !slot.budgeted).for_each(|(most, _)| *most = None);
        Outcome {
            engine: setup.engine,
            responses,
            most_used: most,
            lateness,
            effort,
            end,
            dropped,
            failures,
            first_failure,
            stopped: stop,
        }
    }

    /// A process has signalled. Without a process that is at a job, nothing of the schedule ends by that.
    fn completion(&mut self, task: TaskId, incarnation: Incarnation) {
        let slot = &mut self.setup.slots[task.index()];
        if slot.incarnation != incarnation {
            return;
        }
        match slot.program {
            Program::At { job, .. } => {
                slot.program = Program::Waiting;
                self.inputs.push(Input::Complete { task, job });
                if matches!(slot.resume, Resume::Unknown) {
                    slot.resume = Resume::Asked { again: false };
                    self.ask(task, Request::Resume);
                }
            }
            // The signal of a replacement ends its initialisation.
            Program::Absent { asked: true, .. } => self.ask(task, Request::Initialised),
            Program::New | Program::Waiting | Program::Absent { asked: false, .. } | Program::Gone => {}
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
                    slot.program = if replaced { Program::Absent { held: true, asked: false } } else { Program::Gone };
                    slot.incarnation = incarnation;
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
                    let absent = Program::Absent { held: true, asked: false };
                    let program = std::mem::replace(&mut slot.program, absent);
                    self.inputs.push(match program {
                        Program::At { job, .. } if regular => Input::Complete { task, job },
                        _ => Input::Exit { task, ending: Ending { regular: false, replaced: true } },
                    });
                    self.inputs.push(Input::Hold { task });
                }
                Message::Ready { task, incarnation, resume } => {
                    let slot = &mut self.setup.slots[task.index()];
                    if slot.incarnation != incarnation {
                        continue;
                    }
                    slot.program = if resume.is_some() { Program::Waiting } else { Program::New };
                    slot.resume = resume.map_or(Resume::Unknown, Resume::Here);
                    if slot.budgeted {
                        self.meters[task.index()].base = self.setup.actuator.cpu_time(slot.group).unwrap_or_default();
                    }
                    self.inputs.push(Input::Wake { task });
                }
                Message::Resume { task, incarnation, resume } => {
                    let slot = &mut self.setup.slots[task.index()];
                    if slot.incarnation != incarnation {
                        continue;
                    }
                    if let Resume::Asked { again: true } = slot.resume {
                        let _ = self.setup.actuator.resume(&resume);
                    }
                    slot.resume = Resume::Here(resume);
                }
                Message::Stop => self.stop = true,
            }
        }
    }

    /// Steps the engine through everything that is due by `now`, and hands it what was collected. At the very end of the
    /// run nothing new begins, and what was collected is left for the close.
    fn catch_up(&mut self, now: Time, last: bool) {
        let mut before = Time::from_ns(i64::MIN / 2);
        while let Some(due) = self.setup.engine.next_due().filter(|due| if last { *due < now } else { *due <= now }) {
            self.results.lateness.add(now - due);
            // Planned instants are handled as of when they were planned, so that window borders and budgets do not drift. Only
            // when a whole window has gone by is the engine told the truth, so that the table can count what it lost.
            // Online policies have no grid to keep and always get the true instant.
            // A budget in CPU time that is nearly used up comes due again and again; the true instant ends that.
            let again = self.metered && due - before < self.setup.actuator.grain();
            before = due;
            let on_time = !again && self.tolerance.is_some_and(|shortest| now - due < shortest);
            // What is released at the end of the run is beyond it, also when the last step comes late.
            let true_now = if last { now - Span::from_ns(1) } else { now };
            let at = if on_time { due } else { true_now };
            self.step(at.max(self.setup.engine.now()));
        }
        // Before the start nothing is decided; what comes then waits for the first instant.
        if !last && now >= Time::ZERO && !self.inputs.is_empty() {
            self.step(now.max(self.setup.engine.now()));
        }
    }

    fn step(&mut self, at: Time) {
        self.measure();
        self.step_once(at);
        // A task whose process is to be replaced has none: to the engine its jobs are blocked.
        for index in 0..self.setup.replaceable.len() {
            let task = self.setup.replaceable[index];
            if let Program::Absent { held: held @ false, .. } = &mut self.setup.slots[task.index()].program {
                *held = true;
                self.inputs.push(Input::Hold { task });
            }
        }
        if !self.inputs.is_empty() {
            self.step_once(at);
        }
        // Only now may the supervisor touch the group: it is stopped, and is not started before the next process is there.
        for index in 0..self.setup.replaceable.len() {
            let task = self.setup.replaceable[index];
            if let Program::Absent { asked: false, .. } = self.setup.slots[task.index()].program {
                // The supervisor kills it in any case.
                let _ = self.setup.actuator.stop(self.setup.slots[task.index()].group);
                self.ask(task, Request::Next);
                let slot = &mut self.setup.slots[task.index()];
                slot.program = Program::Absent { held: true, asked: true };
                slot.resume = Resume::Unknown;
                slot.incarnation += 1;
            }
        }
    }

    /// Puts the CPU time of tasks with a CPU-time budget before the other inputs.
    fn measure(&mut self) {
        let Scheduler { setup, inputs, meters, .. } = self;
        for &task in setup.engine.running() {
            if setup.engine.wants_usage(task)
                && let Some(total) = setup.actuator.cpu_time(setup.slots[task.index()].group)
            {
                // Every CPU counts as one of nominal speed.
                let consumed = Work::nominal(total - meters[task.index()].base).or_zero();
                inputs.insert(0, Input::Usage { task, consumed });
            }
        }
    }

    fn step_once(&mut self, at: Time) {
        let began = self.setup.actuator.now();
        let acted = !self.setup.engine.step(at, &self.inputs, &mut self.sink).commands.is_empty();
        let mut started = None;
        for index in 0..self.setup.engine.commands().len() {
            let command = self.setup.engine.commands()[index];
            // Stops come first. Records are stamped before the first start: a process that is started may take the CPU from this
            // thread, if it has no real-time class, before it gets to look at the clock again.
            if started.is_none() && !matches!(command, Command::Stop { .. } | Command::Replace { .. }) {
                started = Some(self.setup.actuator.now());
            }
            match command {
                Command::Replace { task } => {
                    let slot = &mut self.setup.slots[task.index()];
                    // One that is absent is being replaced already.
                    if matches!(slot.program, Program::New | Program::Waiting | Program::At { .. }) {
                        slot.program = Program::Absent { held: false, asked: false };
                    }
                }
                Command::Stop { task, .. } => self.stop(task),
                Command::Start { task, place, work } => self.dispatch(task, Some(place), work, false),
                Command::Move { task, to, work, .. } => self.dispatch(task, Some(to), work, true),
                Command::Continue { task, work, .. } => self.dispatch(task, None, work, true),
            }
        }
        let done = self.setup.actuator.now();
        if acted {
            self.results.effort.add(done - began);
        }
        self.report(at, Item::Step(at), Time::ZERO + (started.unwrap_or(done) - self.start));
    }

    fn stop(&mut self, task: TaskId) {
        let done = self.setup.stop(task);
        self.note(task, Refused::Stop, done);
    }

    /// Lets a task run, at another place if one is given, with the work that the engine has it at; `runs` says that it runs already.
    fn dispatch(&mut self, task: TaskId, place: Option<Place>, work: Activity, runs: bool) {
        // What was refused before this has not been done: it may be at another place, and may be stopped.
        let before = self.refused[task.index()];
        let place = match before {
            Some(Refused::Dispatch { place: before, .. }) => place.or(before),
            _ => place,
        };
        let cpus = place.map(|place| &self.places[place.index()]);
        let done = self.setup.dispatch(task, cpus, work, runs && before.is_none(), &mut self.meters);
        self.note(task, Refused::Dispatch { place, work }, done);
    }

    /// Notes whether the machine below has done what it was asked for. The engine takes it as done, so it is asked again.
    fn note(&mut self, task: TaskId, act: Refused, done: io::Result<()>) {
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

    fn repeat_refused(&mut self) {
        self.repeat = Time::MAX;
        // Stops come first.
        for task in (0..self.refused.len() as u32).map(TaskId) {
            if let Some(Refused::Stop) = self.refused[task.index()] {
                self.stop(task);
            }
        }
        for task in (0..self.refused.len() as u32).map(TaskId) {
            if let Some(Refused::Dispatch { place, work }) = self.refused[task.index()] {
                self.dispatch(task, place, work, false);
            }
        }
    }

    fn close(&mut self, at: Time) {
        self.setup.engine.close(at, &self.inputs, &mut self.sink);
        // This thread leaves its real-time class next, and the supervisor has none: a process that kept running would keep the CPU from both.
        for index in 0..self.slots().len() {
            let task = TaskId(index as u32);
            if self.setup.engine.place_of(task).is_some() || self.refused[index].is_some() {
                // All processes are killed next. One that cannot be stopped only delays that.
                let _ = self.setup.stop(task);
            }
        }
        self.report(at, Item::Close(at), at);
    }

    /// Hands the step to the supervisor: its inputs, itself, its records.
    fn report(&mut self, at: Time, step: Item, applied: Time) {
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
            self.tell(Item::Record(Stamped { record, applied: applied.max(at).max(record.at) }));
        }
        self.sink.records.clear();
        self.applied = applied;
    }

    fn tell(&mut self, item: Item) {
        if self.setup.outbox.push(item).is_err() {
            self.sink.dropped += 1;
        }
    }
}

impl<A: Actuator> Setup<A> {
    /// The scheduler of a plan whose processes are there.
    pub(crate) fn new<P: Processes<Resume = A::Resume>>(
        engine: Engine,
        actuator: A,
        plan: &Plan,
        lives: &Lives<P>,
        inbox: Consumer<Message<A::Resume>>,
        outbox: Producer<Item>,
    ) -> Setup<A> {
        let slot = |(process, task): (&Process, TaskId)| {
            let known = &lives.tasks[task.index()];
            let initialised = process.init && known.life == Life::Alive;
            // Here in time for the first window of those that have initialised.
            let resume = if initialised { lives.fetch(task) } else { None };
            Slot {
                group: known.home.group,
                partition: known.home.partition,
                incarnation: 0,
                program: if initialised { Program::Waiting } else { Program::New },
                resume: resume.map_or(Resume::Unknown, Resume::Here),
                abort_signal: process.abort_signal,
                budgeted: engine.meters(task),
            }
        };
        Setup {
            slots: plan.processes.iter().zip((0..).map(TaskId)).map(slot).collect(),
            replaceable: plan.replaceable(engine.system()).collect(),
            requests: lives.requests(),
            duration: plan.duration,
            engine,
            actuator,
            inbox,
            outbox,
        }
    }

    fn stop(&self, task: TaskId) -> io::Result<()> {
        let slot = &self.slots[task.index()];
        match slot.program {
            // From the request for the next process on, the group is the supervisor's.
            Program::Absent { asked: true, .. } | Program::Gone => Ok(()),
            _ => self.actuator.stop(slot.group),
        }
    }

    fn dispatch(
        &mut self,
        task: TaskId,
        cpus: Option<&CpuSet>,
        work: Activity,
        runs: bool,
        meters: &mut [Meter],
    ) -> io::Result<()> {
        let Setup { engine, actuator, slots, .. } = self;
        let slot = &mut slots[task.index()];
        if slot.budgeted {
            let job = engine.job(task).map(|job| (job.number, work == Activity::Handler));
            let meter = &mut meters[task.index()];
            if meter.of != job || work == Activity::Handler {
                *meter = Meter { of: job, base: actuator.cpu_time(slot.group).unwrap_or_default() };
            }
        }
        if let Some(cpus) = cpus {
            actuator.assign(slot.partition, cpus)?;
        }
        let begins = |job| Program::At { job, notified: false };
        match slot.program {
            // The process that comes next is born stopped, and begins when it is there.
            Program::Absent { .. } | Program::Gone => return Ok(()),
            Program::New => slot.program = engine.at(task).map_or(Program::New, begins),
            Program::Waiting => {
                slot.program = engine.at(task).map_or(Program::Waiting, begins);
                match &mut slot.resume {
                    Resume::Here(by) => drop(actuator.resume(by)),
                    Resume::Asked { again } => *again = true,
                    Resume::Unknown => {}
                }
            }
            Program::At { job, notified } => {
                let aborted = matches!(work, Activity::Abandoned | Activity::Handler);
                // The handler of a job is at work for that job, whatever the program was at.
                let job = engine.at(task).unwrap_or(job);
                slot.program = Program::At { job, notified };
                if let Some(signal) = slot.abort_signal.filter(|_| aborted && !notified) {
                    actuator.signal(slot.group, signal)?;
                    slot.program = Program::At { job, notified: true };
                }
            }
        }
        if runs { Ok(()) } else { actuator.start(slot.group) }
    }
}
