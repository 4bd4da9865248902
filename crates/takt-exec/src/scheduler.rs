//! The scheduler thread: waits, steps the engine, carries out its commands.
//!
//! Nothing in here may allocate, block on anything but its own epoll, or look at a file system.

use crate::life::{Incarnation, Message, Program, Request, Requests, Resume, completion_of};
use crate::plan::{Hooks, SchedulerClass};
use rtrb::{Consumer, Producer};
use rustix::event::epoll::{self, Event as EpollEvent, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Command, Ending, Engine, Input, Work};
use takt_core::model::TaskId;
use takt_core::record::{JobId, Record, Sink, What};
use takt_core::stats::{Histogram, Responses};
use takt_core::time::{Span, Time};
use takt_linux::rt::{self, Class};
use takt_linux::timer::{self, Timer};
use takt_linux::{Group, Mechanism, PartitionHandle, protocol};
use takt_trace::Stamped;

/// Data of the epoll entries that are no task's completion descriptor.
pub(crate) const TIMER: u64 = u64::MAX;
pub(crate) const CONTROL: u64 = u64::MAX - 1;

/// How many events one wait takes in. More stay ready for the next wait of the same instant.
const BATCH: usize = 256;

/// With CPU-time budgets the scheduler leaves the CPU for at least so long. Several times what a step takes.
const GRAIN: Span = Span::from_us(100);

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

/// A task and its process.
pub(crate) struct Slot {
    pub(crate) group: Group,
    pub(crate) partition: PartitionHandle,
    /// The process that the scheduler knows, or waits for.
    pub(crate) incarnation: Incarnation,
    pub(crate) program: Program,
    pub(crate) resume: Resume,
    /// The signal that reports an abort to the process.
    pub(crate) abort_signal: Option<Signal>,
    /// Its jobs have a CPU-time budget, so its CPU time is measured.
    pub(crate) budgeted: bool,
}

pub(crate) struct Setup {
    pub(crate) engine: Engine,
    pub(crate) mechanism: Arc<Mechanism>,
    pub(crate) slots: Vec<Slot>,
    /// The tasks whose processes can be replaced during the run.
    pub(crate) replaceable: Vec<TaskId>,
    pub(crate) epoll: OwnedFd,
    pub(crate) inbox: Consumer<Message>,
    pub(crate) outbox: Producer<Item>,
    pub(crate) requests: Arc<Requests>,
    /// Wakes the supervisor when something should not wait for its next round.
    pub(crate) wake_supervisor: OwnedFd,
    pub(crate) cpus: Option<CpuSet>,
    pub(crate) class: SchedulerClass,
    pub(crate) duration: Option<Span>,
    pub(crate) hooks: Hooks,
    /// Nanoseconds on the monotonic clock at which the schedule starts; set by the scheduler.
    pub(crate) start: Arc<AtomicU64>,
    /// The schedule is over: what processes do from now on is no part of it. Set by the scheduler.
    pub(crate) over: Arc<AtomicBool>,
}

/// What the scheduler thread leaves.
pub(crate) struct Outcome {
    pub(crate) engine: Engine,
    pub(crate) responses: Responses,
    /// See [`crate::Report::most_used`].
    pub(crate) most_used: Vec<Option<(JobId, Span)>>,
    /// How late planned instants were handled.
    pub(crate) lateness: Histogram,
    /// How long stopping and starting took per step that did so.
    pub(crate) effort: Histogram,
    pub(crate) end: Time,
    pub(crate) dropped: u64,
    pub(crate) failures: u64,
    pub(crate) first_failure: Option<io::Error>,
    pub(crate) class: &'static str,
    pub(crate) stopped: bool,
}

/// Records of one step, in memory that is there already.
struct StepSink {
    records: Vec<Record>,
    responses: Responses,
    /// By task: the job that consumed most, and how much.
    most: Vec<Option<(JobId, Span)>>,
    dropped: u64,
}

impl Sink for StepSink {
    fn record(&mut self, record: Record) {
        if let What::Finish { task, job, consumed, .. } = record.what {
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

struct Scheduler {
    setup: Setup,
    places: Vec<CpuSet>,
    sink: StepSink,
    inputs: Vec<Input>,
    /// Shortest window: a planned instant handled later than this has lost a window. `None` without a window table.
    tolerance: Option<Span>,
    start: Span,
    /// What the timer descriptor is set to.
    armed: Option<Time>,
    /// When the step before was carried out.
    applied: Time,
    meters: Vec<Meter>,
    /// The tasks whose processes can be replaced during the run, so that they can lack one.
    replaceable: Vec<TaskId>,
    /// Some jobs have a budget in CPU time.
    metered: bool,
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

/// The body of the scheduler thread. Its descriptors, rings and vectors are ready; it takes its scheduling class, fixes time
/// zero and runs until the end of the run.
pub(crate) fn run(setup: Setup) -> io::Result<Outcome> {
    let n = setup.engine.system().tasks.len();
    let windows = &setup.engine.system().windows;
    let mut scheduler = Scheduler {
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
        armed: None,
        applied: Time::ZERO,
        meters: vec![Meter::default(); n],
        replaceable: setup.replaceable.clone(),
        metered: setup.slots.iter().any(|slot| slot.budgeted),
        results: Results { lateness: Histogram::wide(), effort: Histogram::wide(), failures: 0, first_failure: None },
        setup,
    };
    let mut events: Vec<EpollEvent> = Vec::with_capacity(BATCH);
    let class = take_class(&scheduler.setup);
    let by_timeout = class != "other" && rt::preempt_rt();
    let timer = if by_timeout { None } else { Some(Timer::new()?) };
    if let Some(timer) = &timer {
        epoll::add(&scheduler.setup.epoll, timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
    }
    // A lead of two milliseconds: time zero is an instant that the first wait can still be on time for.
    scheduler.start = timer::now() + Span::from_ms(2);
    scheduler.setup.start.store(scheduler.start.ns() as u64, Ordering::Release);
    let hooks = scheduler.setup.hooks;
    if let Some(enter) = hooks.enter {
        enter();
    }
    let ended = scheduler.loop_until_end(timer.as_ref(), &mut events);
    if let Some(leave) = hooks.leave {
        leave();
    }
    let _ = rt::set_class(0, Class::Other);
    let (end, stopped) = ended?;
    scheduler.setup.over.store(true, Ordering::Release);
    let _ = rustix::io::write(&scheduler.setup.wake_supervisor, &1u64.to_ne_bytes());
    let Scheduler { setup, sink, results, .. } = scheduler;
    let Results { lateness, effort, failures, first_failure } = results;
    let StepSink { responses, mut most, dropped, .. } = sink;
    // Of a task that is not measured only the time is known for which it had a CPU.
    most.iter_mut().zip(&setup.slots).filter(|(_, slot)| !slot.budgeted).for_each(|(most, _)| *most = None);
    let (engine, most_used) = (setup.engine, most);
    Ok(Outcome {
        engine,
        responses,
        most_used,
        lateness,
        effort,
        end,
        dropped,
        failures,
        first_failure,
        class,
        stopped,
    })
}

/// Gives this thread its scheduling class and CPUs, and says which class it got.
fn take_class(setup: &Setup) -> &'static str {
    let (runtime, period) = (Span::from_us(200), Span::from_ms(1));
    let deadline = Class::Deadline { runtime, deadline: period, period };
    if setup.class == SchedulerClass::Deadline && rt::set_class(0, deadline).is_ok() {
        return "deadline";
    }
    if let Some(cpus) = setup.cpus {
        // A CPU that the caller may not use is no reason to fail: the thread then stays where it may run.
        let _ = rt::set_affinity(0, &cpus);
    }
    if rt::set_class(0, Class::Fifo(80)).is_ok() {
        return "fifo";
    }
    let _ = rt::set_timer_slack(Span::from_ns(1));
    "other"
}

impl Scheduler {
    fn now(&self) -> Time {
        Time::ZERO + (timer::now() - self.start)
    }

    fn loop_until_end(&mut self, timer: Option<&Timer>, events: &mut Vec<EpollEvent>) -> io::Result<(Time, bool)> {
        let end = self.setup.duration.map_or(Time::MAX, |d| Time::ZERO + d);
        // What happened before the start belongs to the first instant.
        self.read_inbox();
        loop {
            // A budget in CPU time that is nearly used up is due at once. Where this thread shares the process's CPU, the process
            // would never get to use the rest of it. Releases, deadlines and timers are not for a budget to delay.
            let due = match self.metered {
                true => self.setup.engine.next_due_with_budgets_from(self.now() + GRAIN),
                false => self.setup.engine.next_due(),
            };
            let due = due.unwrap_or(Time::MAX).min(end);
            match self.wait(due, timer, events) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let stop = self.collect(events);
            let now = self.now().min(end);
            let last = stop || now == end;
            self.catch_up(now, last);
            // A task whose program has failed misses its jobs until the planned end.
            let engine = &self.setup.engine;
            let misses = engine.any_failed() && self.setup.duration.is_some();
            if last || (!self.setup.slots.is_empty() && engine.all_gone() && !misses) {
                let at = now.max(self.setup.engine.now());
                self.close(at);
                return Ok((at, stop));
            }
        }
    }

    /// Sleeps until a descriptor has something to tell or until `due`, and takes in what there is.
    ///
    /// Usually by a timer descriptor in the same wait. On PREEMPT_RT the kernel handles such a timer in a thread of priority 1,
    /// which a busy real-time process on that CPU keeps from running for ever; the timeout of a real-time thread's own wait
    /// comes straight from the interrupt. It is a timeout of `poll`, because that of `epoll_wait` counts milliseconds.
    fn wait(&mut self, due: Time, timer: Option<&Timer>, events: &mut Vec<EpollEvent>) -> Result<(), Errno> {
        events.clear();
        if let Some(timer) = timer {
            if self.armed != Some(due) {
                let at = self.start.ns().saturating_add((due - Time::ZERO).ns());
                timer.arm(Span::from_ns(at)).map_err(|_| Errno::INVAL)?;
                self.armed = Some(due);
            }
            epoll::wait(&self.setup.epoll, rustix::buffer::spare_capacity(events), None)?;
            return Ok(());
        }
        let left = (due - self.now()).or_zero().ns();
        let limit = Timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 };
        let limit = (due != Time::MAX).then_some(&limit);
        poll(&mut [PollFd::new(&self.setup.epoll, PollFlags::IN)], limit)?;
        // Also after a timeout: a completion that came before the instant is handled must be seen before it.
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.setup.epoll, rustix::buffer::spare_capacity(events), Some(&at_once))?;
        Ok(())
    }

    /// Takes in what the descriptors told; `true` when the run is to end.
    fn collect(&mut self, events: &[EpollEvent]) -> bool {
        let mut stop = false;
        for event in events {
            match event.data.u64() {
                TIMER => {}
                CONTROL => stop |= self.read_inbox(),
                data => self.completion(data),
            }
        }
        stop
    }

    /// A process has signalled. Without a process that is at a job, nothing of the schedule ends by that.
    fn completion(&mut self, data: u64) {
        let (task, incarnation) = completion_of(data);
        let slot = &mut self.setup.slots[task.index()];
        if slot.incarnation != incarnation {
            return;
        }
        match slot.program {
            Program::At { job, .. } => {
                slot.program = Program::Waiting;
                self.inputs.push(Input::Complete { task, job });
                if matches!(slot.resume, Resume::Unknown) {
                    slot.resume = Resume::Asked { owed: false };
                    self.ask(task, Request::Resume);
                }
            }
            // The signal of a replacement ends its initialisation.
            Program::Absent { asked: true, .. } => self.ask(task, Request::Initialised),
            Program::New | Program::Waiting | Program::Absent { asked: false, .. } | Program::Gone => {}
        }
    }

    fn ask(&self, task: TaskId, request: Request) {
        self.setup.requests.ask(task, self.setup.slots[task.index()].incarnation, request);
        let _ = rustix::io::write(&self.setup.wake_supervisor, &1u64.to_ne_bytes());
    }

    fn read_inbox(&mut self) -> bool {
        let mut stop = false;
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
                        self.meters[task.index()].base = self.setup.mechanism.cpu_time(slot.group).unwrap_or_default();
                    }
                    self.inputs.push(Input::Wake { task });
                }
                Message::Resume { task, incarnation, resume } => {
                    let slot = &mut self.setup.slots[task.index()];
                    if slot.incarnation != incarnation {
                        continue;
                    }
                    if let Resume::Asked { owed: true } = slot.resume {
                        let _ = protocol::send_continue(&resume);
                    }
                    slot.resume = Resume::Here(resume);
                }
                Message::Stop => stop = true,
            }
        }
        stop
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
            let again = self.metered && due - before < GRAIN;
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
        for index in 0..self.replaceable.len() {
            let task = self.replaceable[index];
            if let Program::Absent { held: held @ false, .. } = &mut self.setup.slots[task.index()].program {
                *held = true;
                self.inputs.push(Input::Hold { task });
            }
        }
        if !self.inputs.is_empty() {
            self.step_once(at);
        }
        // Only now may the supervisor touch the group: it is stopped, and is not started before the next process is there.
        for index in 0..self.replaceable.len() {
            let task = self.replaceable[index];
            if let Program::Absent { asked: false, .. } = self.setup.slots[task.index()].program {
                let _ = self.setup.mechanism.freeze(self.setup.slots[task.index()].group);
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
                && let Some(total) = setup.mechanism.cpu_time(setup.slots[task.index()].group)
            {
                let consumed = (total - meters[task.index()].base).or_zero();
                inputs.insert(0, Input::Usage { task, consumed });
            }
        }
    }

    fn step_once(&mut self, at: Time) {
        let Scheduler { setup, places, sink, inputs, meters, results, .. } = self;
        let began = timer::now();
        let acted = !setup.engine.step(at, inputs, sink).is_empty();
        let mut started = None;
        for index in 0..setup.engine.commands().len() {
            let command = &setup.engine.commands()[index];
            // Stops come first. Records are stamped before the first start: a process that is started may take the CPU from this
            // thread, if it has no real-time class, before it gets to look at the clock again.
            if started.is_none() && !matches!(command, Command::Stop { .. } | Command::Replace { .. }) {
                started = Some(timer::now());
            }
            let done = match *command {
                Command::Replace { task } => {
                    let slot = &mut setup.slots[task.index()];
                    // One that is absent is being replaced already.
                    if matches!(slot.program, Program::New | Program::Waiting | Program::At { .. }) {
                        slot.program = Program::Absent { held: false, asked: false };
                    }
                    Ok(())
                }
                Command::Stop { task, .. } => setup.slots[task.index()].stop(&setup.mechanism),
                Command::Start { task, place, work } => {
                    setup.dispatch(task, Some(&places[place.index()]), work, false, meters)
                }
                Command::Move { task, to, work, .. } => {
                    setup.dispatch(task, Some(&places[to.index()]), work, true, meters)
                }
                Command::Continue { task, work, .. } => setup.dispatch(task, None, work, true, meters),
            };
            match done {
                // The group or process is gone: its exit will be reported by the supervisor.
                Err(e) if matches!(e.raw_os_error(), Some(GONE_DEVICE | GONE_ENTRY | GONE_PROCESS)) => {}
                Err(e) => {
                    results.failures += 1;
                    results.first_failure.get_or_insert(e);
                }
                Ok(()) => {}
            }
        }
        let done = timer::now();
        if acted {
            results.effort.add(done - began);
        }
        self.report(at, Item::Step(at), Time::ZERO + (started.unwrap_or(done) - self.start));
    }

    fn close(&mut self, at: Time) {
        self.setup.engine.close(at, &self.inputs, &mut self.sink);
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

const GONE_DEVICE: i32 = rustix::io::Errno::NODEV.raw_os_error();
const GONE_ENTRY: i32 = rustix::io::Errno::NOENT.raw_os_error();
const GONE_PROCESS: i32 = rustix::io::Errno::SRCH.raw_os_error();

impl Setup {
    /// Lets a task run, on other CPUs if they are given, with the work that the engine has it at; `runs` says that it runs already.
    fn dispatch(
        &mut self,
        task: TaskId,
        cpus: Option<&CpuSet>,
        work: Work,
        runs: bool,
        meters: &mut [Meter],
    ) -> io::Result<()> {
        let slot = &mut self.slots[task.index()];
        if slot.budgeted {
            let job = self.engine.job(task).map(|job| (job.number, work == Work::Handler));
            let meter = &mut meters[task.index()];
            if meter.of != job || work == Work::Handler {
                *meter = Meter { of: job, base: self.mechanism.cpu_time(slot.group).unwrap_or_default() };
            }
        }
        if let Some(cpus) = cpus {
            self.mechanism.set_cpus(slot.partition, cpus)?;
        }
        let begins = |job| Program::At { job, notified: false };
        // The process of the next job may be another one, which was born stopped.
        let stopped = !runs || slot.program == Program::New;
        match slot.program {
            // The process that comes next is born stopped, and begins when it is there.
            Program::Absent { .. } | Program::Gone => return Ok(()),
            Program::New => slot.program = self.engine.at(task).map_or(Program::New, begins),
            Program::Waiting => {
                slot.program = self.engine.at(task).map_or(Program::Waiting, begins);
                slot.let_continue();
            }
            Program::At { job, notified } => {
                let aborted = matches!(work, Work::Abandoned | Work::Handler);
                // The handler of a job is at work for that job, whatever the program was at.
                let job = self.engine.at(task).unwrap_or(job);
                slot.program = Program::At { job, notified };
                if let Some(signal) = slot.abort_signal.filter(|_| aborted && !notified) {
                    slot.program = Program::At { job, notified: true };
                    self.mechanism.signal_leader(slot.group, signal)?;
                }
            }
        }
        if stopped { self.mechanism.thaw(slot.group) } else { Ok(()) }
    }
}

impl Slot {
    fn stop(&self, mechanism: &Mechanism) -> io::Result<()> {
        // From the request for the next process on, the group is the supervisor's.
        if matches!(self.program, Program::Absent { asked: true, .. }) { Ok(()) } else { mechanism.freeze(self.group) }
    }

    /// Lets a process that has signalled continue with its next job.
    fn let_continue(&mut self) {
        match &mut self.resume {
            // It can only fail when the process is gone.
            Resume::Here(fd) => drop(protocol::send_continue(fd)),
            Resume::Asked { owed } => *owed = true,
            Resume::Unknown => {}
        }
    }
}
