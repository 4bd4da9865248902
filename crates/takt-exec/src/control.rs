//! The control of a run from outside: commands, their admission, and their answers.
//!
//! Commands come from any thread through a [`Handle`] and are carried out by the supervisor, which asks its mirror of the run. A change
//! is prepared here and handed to the scheduler as a [`Change`]. It becomes inputs of one step, so that a replay of the recorded inputs is
//! the run, changes included. There is one change at a time.
//!
//! The engine counts changes of terms. If the count differs at the installation of a prepared policy, the supervisor prepares it again,
//! and repeats the admission of terms. The step of a change is its own, after the measurements of that instant. `Leave` waits for the end
//! of the current job, so a reload that wants such a task is answered `busy`. The process of an added task starts first, and the change
//! is made when it is ready, so a program that fails changes nothing.

use crate::change::{Change, Install, New, Newcomer};
use crate::mirror::{Mirror, PolicyStatus, Status};
use crate::plan::{Issuer, NewTask, Process};
use crate::terms::SHORTEST;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input, Room};
use takt_core::model::{
    Arrival, PartitionId, PolicySpec, Scope, Slice, System, Task, TaskId, Terms, Window, WindowTable,
};
use takt_core::time::{Span, Time};
use takt_core::utility::MOST;
use takt_linux::rt::Class;

/// The most policies that a run learns of after its start, fallbacks included.
pub const MAX_LOADED: usize = 32;

/// The most commands that wait for the supervisor. Further ones are refused at once.
const WAITING: usize = 64;

/// The most tasks that one command adds. The admission of each one builds policies for the whole system, and their processes start together.
pub(crate) const MAX_NEW: usize = 256;

/// Differences and names that a message lists; it counts the others.
const LISTED: usize = 12;

/// New values for terms of a task; `None` keeps a term.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NewTerms {
    /// The period. A relative deadline that equals the period follows it.
    pub period: Option<Span>,
    /// The relative deadline.
    pub deadline: Option<Span>,
    /// The runtime.
    pub runtime: Option<Span>,
    /// The share of a CPU, in millionths.
    pub share: Option<u32>,
    /// The importance.
    pub importance: Option<u32>,
    /// The height of the time-utility function, in millionths.
    pub utility: Option<u64>,
}

/// A command for a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Reports the state of the run.
    Status,
    /// Gives a task other terms, if its policy accepts them.
    Set {
        /// The name of the task.
        task: String,
        /// Its terms.
        terms: NewTerms,
    },
    /// Another policy takes over.
    Policy {
        /// The domain; `None` for a system without domains.
        domain: Option<String>,
        /// The policy.
        to: PolicySpec,
        /// The policy in its place, should it fail. The run learns of a policy that has one, which was loaded, only now.
        fallback: Option<Box<PolicySpec>>,
    },
    /// A task that has left comes back, if its policy accepts it.
    Add(String),
    /// A task that is not in the workload is added, if there is a place for it, its process can be started, and its policy admits it.
    New(Box<NewTask>),
    /// A task leaves when its present job is over.
    Remove {
        /// The name of the task.
        task: String,
        /// Its process is asked to end then, and killed after this time of grace. Without, it stays frozen until the task comes back.
        end: Option<Span>,
    },
    /// An event for a task whose jobs are released by events.
    Trigger(String),
    /// The tasks, their terms, the policies and the window table of another version of the workload: all changes in one step, or none. A window table
    /// takes over at the end of the major frame. Tasks that it does not describe leave, new ones are added, and tasks that have left return.
    Reload(Box<Target>),
    /// Ends the run: its processes are asked to end, and killed after a time.
    Stop {
        /// The time.
        grace: Span,
    },
}

/// The system that a reload is to lead to.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The system.
    pub system: System,
    /// The names of its tasks.
    pub tasks: Vec<String>,
    /// The names of its domains.
    pub domains: Vec<String>,
    /// The differences that cannot change in place, as far as the reader of the file knows them.
    pub fixed: Vec<String>,
    /// Tasks that can be added, should the run not have them.
    pub new: Vec<NewTask>,
    /// The names of tasks that cannot be added, each with the reason.
    pub excluded: Vec<(String, String)>,
    /// By window: the frequencies in kHz that slices ask for, by frequency domain; empty unless the power policy goes by them.
    pub frequencies: Vec<Vec<(u16, u32)>>,
    /// Policies of the system that may fail, each with the one that takes over from it.
    pub fallbacks: Vec<(PolicySpec, PolicySpec)>,
}

/// The result of a command.
#[derive(Clone, Debug)]
pub enum Done {
    /// The answer to [`Command::Status`].
    Status(Box<Status>),
    /// The change was handed to the engine in the step of this instant.
    Changed(Time),
    /// The same, and now the tasks demand more than their CPUs have, which their policy accepts.
    Overloaded {
        /// The instant of the step.
        at: Time,
        /// The CPUs.
        cpus: CpuSet,
        /// The utilisation, in thousandths of a CPU, rounded up.
        per_mille: u64,
    },
    /// The change was handed to the engine in the step of `at`, and its window table holds from the border of a frame on; `None` when the
    /// run has ended before that.
    Table {
        /// The instant of the step.
        at: Time,
        /// The border.
        from: Option<Time>,
    },
    /// Everything is as wanted already.
    Unchanged,
    /// The run ends.
    Stopping,
}

/// Why nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The run has nothing of this name.
    Unknown {
        /// The kind of thing, such as `task`.
        what: &'static str,
        /// The name.
        name: String,
        /// All names that it has.
        known: Vec<String>,
    },
    /// The run cannot do it.
    Impossible {
        /// The reason.
        reason: String,
        /// The way out.
        hint: String,
    },
    /// The policy does not accept it.
    NotAdmitted(String),
    /// The process of this task could not be started, or has failed before it was ready.
    NotStarted {
        /// The task.
        task: String,
        /// The reason.
        reason: String,
    },
    /// Too many commands wait, or a change came between. It may be tried again.
    Busy(&'static str),
    /// The run has ended, or its figures have been lost.
    Over(&'static str),
}

/// The answer to a command.
pub type Answer = Result<Done, Refusal>;

/// Takes an answer. It is called on the supervisor's thread, so it must not wait.
pub type AnswerTo = Box<dyn FnOnce(Answer) + Send>;

/// Why a task cannot be wanted yet.
const LEAVES: &str = "a task that is to stay leaves when its present job is over";

/// A change is prepared so often at most for one command, since terms of tasks may change meanwhile.
const ATTEMPTS: u32 = 8;

/// A command with its sender.
pub struct Order {
    /// The sender.
    pub issuer: Issuer,
    /// The command as text, for the record of the run.
    pub text: String,
    /// The command.
    pub command: Command,
    /// Takes the answer.
    pub answer: AnswerTo,
}

/// Sends commands to a run, from any thread.
#[derive(Clone)]
pub struct Handle {
    orders: SyncSender<Order>,
    wake: Arc<OwnedFd>,
    phase: Arc<Phase>,
}

/// The part of a run's life that both sides of its control know.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    /// The schedule has begun: commands are carried out.
    begun: AtomicBool,
    /// A command to stop has come before that.
    stopped_early: AtomicBool,
    /// A command to stop has come. The preparation of other commands ends, so that the supervisor carries it out.
    stopping: AtomicBool,
    /// The schedule is over: commands are refused.
    over: AtomicBool,
}

impl Phase {
    pub(crate) fn is_stopped_early(&self) -> bool {
        self.stopped_early.load(Ordering::Acquire)
    }
}

impl Handle {
    /// Hands over a command, without waiting. The answer comes when the supervisor has carried it out. Before the schedule begins, only a command to
    /// stop has an effect at once; others wait.
    pub fn send(&self, order: Order) {
        if self.phase.over.load(Ordering::Acquire) {
            return (order.answer)(Err(Refusal::Over("the run ends")));
        }
        let mut stops_first = false;
        if matches!(order.command, Command::Stop { .. }) {
            stops_first = !self.phase.stopping.swap(true, Ordering::AcqRel);
            if !self.phase.begun.load(Ordering::Acquire) {
                self.phase.stopped_early.store(true, Ordering::Release);
            }
        }
        match self.orders.try_send(order) {
            Ok(()) => {
                let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
            }
            Err(TrySendError::Full(order)) => {
                // This one does not stop the run. Unless an earlier one does, the others are carried out.
                if stops_first {
                    self.phase.stopping.store(false, Ordering::Release);
                }
                (order.answer)(Err(Refusal::Busy("too many commands wait")));
            }
            Err(TrySendError::Disconnected(order)) => (order.answer)(Err(Refusal::Over("the run has ended"))),
        }
    }
}

/// Tasks that one command adds.
struct Joining {
    /// In the order of their numbers, which follow those of all tasks.
    tasks: Vec<NewTask>,
    /// By task: the process id of a process that is ready.
    ready: Vec<Option<Option<i32>>>,
    /// The command, as long as some process is not ready. Then it waits for its turn, or its change is on its way.
    order: Option<Order>,
}

/// A command that waits for its turn, or whose change is on its way.
struct Pending {
    order: Order,
    /// The tasks that it adds have processes that are ready.
    joins: bool,
}

/// The result of the preparation of a command.
enum Asked {
    /// Everything is as wanted already.
    Nothing,
    Change(Box<Change>),
    /// First the processes of these tasks are to be started.
    Start(Vec<NewTask>),
}

/// The supervisor's side of the control of a run.
pub struct Control {
    pub(crate) phase: Arc<Phase>,
    pub(crate) mirror: Mirror,
    /// How many policies could take over from the start.
    known: usize,
    domains: Vec<String>,
    /// The domain of commands that name none, and of the answers: a system whose other domains are the kernel's has one policy.
    one_policy: bool,
    tasks: Vec<(String, bool)>,
    /// The scheduling class of processes.
    class: Class,
    /// How many tasks there may be: those of the workload, and the ones that commands add.
    room: usize,
    /// The tasks that a command adds.
    joining: Option<Joining>,
    /// The tasks that commands have added, in the order of their numbers.
    added: Vec<NewTask>,
    /// First processes that the supervisor starts, and first processes that are not needed.
    starts: Vec<(TaskId, Process)>,
    dismissed: Vec<TaskId>,
    /// By task: it has a process of its own, which can end without another task or a job.
    endable: Vec<bool>,
    /// Tasks whose processes are to end when they have left, with their time of grace.
    ends: Vec<(TaskId, Span)>,
    /// Each of them is set when the run is to end: by a signal, or with its schedule.
    interrupts: Vec<Arc<AtomicBool>>,
    /// By partition of a window table: the CPU sets of its slices at the start, to which its processes can be bound.
    bound: Vec<Vec<CpuSet>>,
    /// Window tables that the observer has not been told of.
    new_tables: Vec<WindowTable>,
    orders: Receiver<Order>,
    wake: Arc<OwnedFd>,
    /// Changes that wait for the one before.
    waiting: VecDeque<Pending>,
    /// The command whose change is on its way to the engine.
    outstanding: Option<Pending>,
    /// The tasks that return by that change: their processes do not end meanwhile.
    returning: Vec<TaskId>,
    /// How often a policy for it came too late.
    attempts: u32,
    /// The answer to the command whose window table waits for the end of the major frame, and the instant of its step.
    awaited: Option<(Time, AnswerTo)>,
    /// A command has asked for the end, with this time of grace.
    pub(crate) stop: Option<Span>,
    /// The sender of that command, and the command, until the observer learns of it.
    pub(crate) stopped_by: Option<(Issuer, String)>,
    pub(crate) is_incomplete: bool,
}

/// Room for the timers of policies that take over: servers have one for each task, other policies a few for each CPU.
pub(crate) fn make_room(engine: &mut Engine) {
    let room = engine.room();
    let (tasks, cpus) = (engine.system().tasks.len(), engine.system().cpus.len());
    let timers = u16::try_from(2 * tasks + 4 * cpus + 16).unwrap_or(u16::MAX / 2);
    engine.reserve(Room { timers: room.timers.max(timers), ..room });
    engine.reserve_alternatives(MAX_LOADED);
}

impl Control {
    /// The control of a run. `engine` is a second engine of the same system as the run's, `domains` names its domains. With `one_policy`
    /// the first domain is all that the workload describes, and the others are the kernel's.
    ///
    /// # Errors
    /// When the operating system has no descriptor left.
    pub fn new(mut engine: Engine, domains: Vec<String>, one_policy: bool) -> io::Result<(Control, Handle)> {
        let (sender, orders) = sync_channel(WAITING);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let phase = Arc::new(Phase::default());
        let handle = Handle { orders: sender, wake: wake.clone(), phase: phase.clone() };
        make_room(&mut engine);
        let bound = bound(engine.system());
        let control = Control {
            phase,
            known: engine.system().alternatives.len(),
            mirror: Mirror::new(engine),
            domains,
            one_policy,
            tasks: Vec::new(),
            class: Class::Other,
            room: 0,
            joining: None,
            added: Vec::new(),
            starts: Vec::new(),
            dismissed: Vec::new(),
            endable: Vec::new(),
            ends: Vec::new(),
            interrupts: Vec::new(),
            bound,
            new_tables: Vec::new(),
            orders,
            wake,
            waiting: VecDeque::new(),
            outstanding: None,
            returning: Vec::new(),
            attempts: 0,
            awaited: None,
            stop: None,
            stopped_by: None,
            is_incomplete: false,
        };
        Ok((control, handle))
    }

    /// The preparation of a command ends when one of these is set.
    pub(crate) fn interrupted_by(&mut self, interrupts: Vec<Arc<AtomicBool>>) {
        self.interrupts = interrupts;
    }

    /// Fails when the run is to end: a command that takes long to prepare must not delay that.
    fn proceed(&self) -> Result<(), Refusal> {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let ends = is_set(&self.phase.stopping) || self.interrupts.iter().any(|flag| is_set(flag));
        if ends { Err(Refusal::Over("the run ends")) } else { Ok(()) }
    }

    /// By task: its name, and whether the kernel schedules it; and whether its process can end alone.
    pub(crate) fn begin(&mut self, tasks: Vec<(String, bool)>, endable: Vec<bool>, room: usize, class: Class) {
        (self.tasks, self.endable, self.room, self.class) = (tasks, endable, room, class);
        self.phase.begun.store(true, Ordering::Release);
    }

    /// The first processes that the supervisor is to start, since the last call.
    pub(crate) fn starts(&mut self) -> Vec<(TaskId, Process)> {
        std::mem::take(&mut self.starts)
    }

    /// Whether there are some.
    pub(crate) fn has_starts(&self) -> bool {
        !self.starts.is_empty()
    }

    /// The processes of tasks that were not added, since the last call.
    pub(crate) fn dismissed(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.dismissed)
    }

    /// The first process of a task that is to be added is ready, or there is none.
    pub(crate) fn entered(&mut self, task: TaskId, result: Result<Option<i32>, String>) {
        let first = self.tasks.len();
        let Some(joining) = self.joining.as_mut().filter(|joining| joining.order.is_some()) else { return };
        let index = task.index().wrapping_sub(first);
        let Some(ready) = joining.ready.get_mut(index) else { return };
        match result {
            Ok(pid) => {
                *ready = Some(pid);
                if joining.ready.iter().all(Option::is_some)
                    && let Some(order) = joining.order.take()
                {
                    self.waiting.push_front(Pending { order, joins: true });
                }
            }
            Err(reason) => {
                let others = (0..joining.tasks.len()).filter(|other| *other != index);
                self.dismissed.extend(others.map(|other| TaskId((first + other) as u32)));
                let name = joining.tasks[index].process.name.clone();
                if let Some(order) = self.joining.take().and_then(|joining| joining.order) {
                    (order.answer)(Err(Refusal::NotStarted { task: name, reason }));
                }
            }
        }
    }

    /// The tasks that these inputs add, and their processes.
    pub(crate) fn adds(&self, inputs: &[Input]) -> impl Iterator<Item = (&NewTask, Option<i32>)> {
        let adds = inputs.iter().any(|input| matches!(input, Input::Add { .. }));
        let joins = self.outstanding.as_ref().is_some_and(|pending| pending.joins);
        let joining = self.joining.iter().filter(move |_| adds && joins);
        joining.flat_map(|joining| joining.tasks.iter().zip(joining.ready.iter().map(|pid| pid.flatten())))
    }

    /// Tasks were not added: their processes are not needed.
    fn dismiss(&mut self) {
        if let Some(joining) = self.joining.take() {
            let first = self.tasks.len();
            self.dismissed.extend((first..first + joining.tasks.len()).map(|task| TaskId(task as u32)));
        }
    }

    /// The tasks that have left since the last call and whose processes are to end, with their time of grace.
    pub(crate) fn left(&mut self) -> Vec<(TaskId, Span)> {
        let (engine, returning) = (&self.mirror.engine, &self.returning);
        let has_left = |(task, _): &(TaskId, Span)| engine.is_gone(*task) && !returning.contains(task);
        let (left, stays) = self.ends.drain(..).partition(has_left);
        self.ends = stays;
        left
    }

    /// The process of this task is not there yet: it is asked to end later.
    pub(crate) fn ends_later(&mut self, task: TaskId, grace: Span) {
        self.ends.push((task, grace));
    }

    pub(crate) fn wakes(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Carries out the commands that have come. Returns a change for the scheduler, if there is one and none is on its way.
    pub(crate) fn serve(&mut self, elapsed: Span, pids: impl FnOnce() -> Vec<Option<i32>>) -> Option<Box<Change>> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        self.answer_for_table();
        let (mut pids, mut known) = (Some(pids), Vec::new());
        for _ in 0..WAITING {
            let Ok(order) = self.orders.try_recv() else { break };
            match order.command {
                Command::Status => {
                    if let Some(pids) = pids.take() {
                        known = pids();
                    }
                    let status = self.status(elapsed, &known);
                    (order.answer)(Ok(Done::Status(Box::new(status))));
                }
                Command::Stop { grace } => {
                    self.end_by(grace, order.issuer, order.text);
                    (order.answer)(Ok(Done::Stopping));
                }
                _ if self.waiting.len() >= WAITING => (order.answer)(Err(Refusal::Busy("too many changes wait"))),
                _ => self.waiting.push_back(Pending { order, joins: false }),
            }
        }
        while self.outstanding.is_none() {
            let pending = self.waiting.pop_front()?;
            match self.prepare(&pending.order.command, pending.joins) {
                Ok(Asked::Change(change)) => {
                    self.outstanding = Some(pending);
                    let returns = |input: &Input| if let Input::Enter { task } = *input { Some(task) } else { None };
                    self.returning = change.inputs.iter().filter_map(returns).collect();
                    return Some(change);
                }
                Ok(Asked::Start(tasks)) => {
                    let numbers = (self.tasks.len() as u32..).map(TaskId);
                    self.starts.extend(numbers.zip(&tasks).map(|(task, new)| (task, new.process.clone())));
                    let ready = vec![None; tasks.len()];
                    self.joining = Some(Joining { tasks, ready, order: Some(pending.order) });
                }
                Ok(Asked::Nothing) => (pending.order.answer)(Ok(Done::Unchanged)),
                Err(refusal) => {
                    if pending.joins {
                        self.dismiss();
                    }
                    (pending.order.answer)(Err(refusal));
                }
            }
        }
        None
    }

    /// The first command that asks for the end has an effect.
    fn end_by(&mut self, grace: Span, issuer: Issuer, text: String) {
        if self.stop.is_none() {
            (self.stop, self.stopped_by) = (Some(grace), Some((issuer, text)));
        }
    }

    /// The window tables that may take over since the last call.
    pub(crate) fn new_tables(&mut self) -> Vec<WindowTable> {
        std::mem::take(&mut self.new_tables)
    }

    fn answer_for_table(&mut self) {
        let from = if self.awaited.is_some() { self.mirror.new_table() } else { None };
        if (from.is_some() || self.is_incomplete)
            && let Some((at, answer)) = self.awaited.take()
        {
            answer(Ok(Done::Table { at, from }));
        }
    }

    /// A change has come back. The mirror has taken its step. Returns the instant and the sender of a change that was made.
    pub(crate) fn came_back(&mut self, change: &Change) -> Option<(Time, Issuer, String)> {
        let pending = self.outstanding.take()?;
        let returning = std::mem::take(&mut self.returning);
        let Some(at) = change.made else {
            self.attempts += 1;
            if (change.has_policy() || change.is_outdated) && self.attempts < ATTEMPTS {
                self.waiting.push_front(pending);
                return None;
            }
            self.attempts = 0;
            if pending.joins {
                self.dismiss();
            }
            // Nothing was changed, so no process is to end.
            if let Command::Remove { task, .. } = &pending.order.command
                && let Ok(task) = self.task(task)
            {
                self.ends.retain(|(other, _)| *other != task);
            }
            (pending.order.answer)(Err(Refusal::Busy("another change came between, or a job of the task is open")));
            return None;
        };
        self.attempts = 0;
        // Their processes, which were to end, have not been asked to.
        self.ends.retain(|(task, _)| !returning.contains(task));
        let Pending { order: Order { issuer, text, command, answer }, joins } = pending;
        for new in self.joining.take_if(|_| joins).into_iter().flat_map(|joining| joining.tasks) {
            self.tasks.push((new.process.name.clone(), false));
            self.endable.push(!new.process.per_job);
            self.added.push(new);
        }
        if change.has_table() {
            self.awaited = Some((at, answer));
        } else {
            let grows = matches!(command, Command::Set { .. } | Command::Add(_) | Command::New(_) | Command::Reload(_));
            let overload = if grows { self.overload() } else { None };
            answer(Ok(overload.map_or(Done::Changed(at), |(cpus, per_mille)| Done::Overloaded {
                at,
                cpus,
                per_mille,
            })));
        }
        Some((at, issuer, text))
    }

    /// The CPUs whose tasks demand more than these have, by their agreed terms, and the utilisation in thousandths of a CPU. O(domains² + tasks).
    fn overload(&self) -> Option<(CpuSet, u64)> {
        const WHOLE: u128 = 1_000_000_000;
        let engine = &self.mirror.engine;
        let system = engine.system();
        let share = |task: TaskId| {
            let terms = engine.agreed(task);
            let (runtime, period) = terms.runtime.zip(terms.period).filter(|_| !engine.is_gone(task))?;
            Some(runtime.ns() as u128 * WHOLE / period.ns().max(1) as u128)
        };
        let sum = |tasks: &mut dyn Iterator<Item = TaskId>| tasks.filter_map(share).sum::<u128>();
        let over = |(cpus, demand): &(CpuSet, u128)| *demand > cpus.len() as u128 * WHOLE;
        let rounded = |(cpus, demand): (CpuSet, u128)| (cpus, (demand * 1000).div_ceil(WHOLE) as u64);
        let whole = || (system.cpus, sum(&mut (0..system.tasks.len() as u32).map(TaskId)));
        // Domains in bands share their CPUs.
        let parts: Vec<(CpuSet, u128)> =
            system.domains.iter().map(|domain| (domain.cpus, sum(&mut domain.tasks.iter().copied()))).collect();
        let within =
            |cpus: CpuSet| parts.iter().filter(move |(own, _)| own.is_subset(&cpus)).map(|(_, demand)| demand).sum();
        let groups = parts.iter().map(|(cpus, _)| (*cpus, within(*cpus)));
        let found = if parts.is_empty() { Some(whole()).filter(over) } else { groups.into_iter().find(over) };
        found.map(rounded)
    }

    /// Answers all that is left at the end of the run.
    pub(crate) fn close(&mut self) {
        // Processes may still have a time of grace. Commands that come in it have their answer at once.
        self.phase.over.store(true, Ordering::Release);
        self.answer_for_table();
        if let Some((at, answer)) = self.awaited.take() {
            answer(Ok(Done::Table { at, from: None }));
        }
        let joining = self.joining.take().and_then(|joining| joining.order);
        let pending = self.outstanding.take().into_iter().chain(self.waiting.drain(..)).map(|pending| pending.order);
        let left: Vec<Order> = joining.into_iter().chain(pending).collect();
        let orders: Vec<Order> = left.into_iter().chain(self.orders.try_iter()).collect();
        for order in orders {
            match order.command {
                Command::Stop { grace } => {
                    self.end_by(grace, order.issuer, order.text);
                    (order.answer)(Ok(Done::Stopping));
                }
                _ => (order.answer)(Err(Refusal::Over("the run has ended"))),
            }
        }
    }

    /// The run at this instant. O(system).
    fn status(&self, elapsed: Span, pids: &[Option<i32>]) -> Status {
        let system = self.mirror.engine.system();
        let policies = match system.domains.as_slice() {
            [] => vec![PolicyStatus { domain: None, policy: system.policy }],
            [first, ..] if self.one_policy => vec![PolicyStatus { domain: None, policy: first.policy }],
            domains => {
                let named = self.domains.iter().zip(domains);
                named.map(|(name, domain)| PolicyStatus { domain: Some(name.clone()), policy: domain.policy }).collect()
            }
        };
        let tasks = self.tasks.iter().zip((0..).map(TaskId));
        let pid = |task: TaskId| pids.get(task.index()).copied().flatten();
        Status {
            elapsed,
            stepped: self.mirror.engine.now(),
            policies,
            tasks: tasks.map(|((name, kernel), task)| self.mirror.task(task, name, pid(task), *kernel)).collect(),
            cpus: self.mirror.cpus(),
            alternatives: system.alternatives.clone(),
            events: self.mirror.events(),
            is_incomplete: self.is_incomplete,
        }
    }

    /// The text of the engine, which knows tasks by number, with their names.
    fn named(&self, text: &str) -> String {
        self.named_with(text, &[])
    }

    /// As [`Control::named`], with the tasks that are to be added.
    fn named_with(&self, text: &str, new: &[NewTask]) -> String {
        let name = |index: usize| match self.tasks.get(index) {
            Some((name, _)) => Some(name),
            None => new.get(index - self.tasks.len()).map(|new| &new.process.name),
        };
        let mut parts = text.split("task ");
        let mut named = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            match part[..digits].parse().ok().and_then(name) {
                Some(name) => named.push_str(&format!("task `{name}`{}", &part[digits..])),
                None => named.push_str(&format!("task {part}")),
            }
        }
        named
    }

    fn task(&self, name: &str) -> Result<TaskId, Refusal> {
        let found = self.tasks.iter().position(|(task, _)| task == name);
        found.map(|index| TaskId(index as u32)).ok_or_else(|| Refusal::Unknown {
            what: "task",
            name: name.to_owned(),
            known: self.tasks.iter().map(|(name, _)| name.clone()).collect(),
        })
    }

    /// The change that a command asks for. With `joins` the processes of its tasks are ready.
    fn prepare(&mut self, command: &Command, joins: bool) -> Result<Asked, Refusal> {
        if self.is_incomplete {
            return Err(Refusal::Over("records of the run were lost, so that changes cannot be admitted any more"));
        }
        let (inputs, install) = match command {
            Command::Status | Command::Stop { .. } => return Ok(Asked::Nothing),
            Command::Set { task, terms } => {
                let task = self.task(task)?;
                let inputs = self.set(task, terms)?;
                self.admit_terms(task, &inputs)?;
                (inputs, None)
            }
            Command::Policy { domain, to, fallback } => {
                let domain = self.domain(domain.as_deref())?;
                (Vec::new(), self.switch(domain, *to, fallback.as_deref().copied())?)
            }
            Command::Add(name) => (self.enter(name)?, None),
            Command::New(new) => return self.new_task(new, joins),
            Command::Remove { task: name, end } => {
                let task = self.task(name)?;
                let is_gone = self.mirror.engine.is_gone(task);
                if is_gone && (end.is_none() || self.mirror.has_ended(task)) {
                    return Err(impossible(format!("task `{name}` has left already"), self.way_back(task)));
                }
                self.own(task)?;
                if end.is_some() && !self.endable[task.index()] {
                    let reason =
                        format!("task `{name}` has a process for each job, or shares its process with other tasks");
                    return Err(impossible(reason, "leave `--end` out"));
                }
                self.ends.retain(|(other, _)| *other != task);
                self.ends.extend(end.map(|grace| (task, grace)));
                (if is_gone { Vec::new() } else { vec![Input::Leave { task }] }, None)
            }
            Command::Trigger(name) => {
                let task = self.task(name)?;
                if !self.mirror.engine.is_released_by_events(task) {
                    let reason = format!("jobs of task `{name}` are not released by events");
                    return Err(impossible(reason, "only tasks with the key `event` can be triggered"));
                }
                if self.mirror.engine.is_gone(task) {
                    return Err(impossible(format!("task `{name}` has left"), self.way_back(task)));
                }
                (vec![Input::Release { task }], None)
            }
            Command::Reload(target) => return self.reload(target, joins),
        };
        Ok(self.change(inputs, install))
    }

    fn change(&self, inputs: Vec<Input>, install: Option<Install>) -> Asked {
        if inputs.is_empty() && install.is_none() {
            return Asked::Nothing;
        }
        let loaded = if install.is_some() { self.loaded().to_vec() } else { Vec::new() };
        Asked::Change(Box::new(Change::new(inputs, install, loaded, self.mirror.engine.changes_of_terms())))
    }

    /// A task that Takt schedules itself.
    fn own(&self, task: TaskId) -> Result<(), Refusal> {
        let (name, of_kernel) = &self.tasks[task.index()];
        if *of_kernel {
            let reason = format!("the kernel schedules task `{name}` (`class:`)");
            return Err(impossible(reason, "end the run to change it"));
        }
        Ok(())
    }

    /// The hint about a task that has left.
    fn way_back(&self, task: TaskId) -> &'static str {
        match self.mirror.has_ended(task) {
            false => "`add` lets it come back",
            true => "its program has ended, so it stays away; `add --from FILE` adds a task of another name",
        }
    }

    fn enter(&mut self, name: &str) -> Result<Vec<Input>, Refusal> {
        let task = self.task(name)?;
        self.own(task)?;
        if self.mirror.engine.is_leaving(task) {
            return Err(Refusal::Busy(LEAVES));
        }
        if !self.mirror.engine.is_gone(task) {
            return Err(impossible(format!("task `{name}` is there already"), "`remove` lets it leave"));
        }
        if self.mirror.has_ended(task) {
            let reason = format!("the program of task `{name}` has ended");
            return Err(impossible(
                reason,
                "`add --from FILE` adds a task of another name; `on_exit: restart` replaces a program that ends",
            ));
        }
        let terms = self.mirror.engine.agreed(task);
        self.admit(task, &terms)?;
        Ok(vec![Input::Enter { task }])
    }

    /// Adds a task.
    fn new_task(&mut self, new: &NewTask, joins: bool) -> Result<Asked, Refusal> {
        let name = &new.process.name;
        if self.tasks.iter().any(|(known, _)| known == name) {
            let hint = "without a file, `add` lets a task return that has left; a new task needs another name";
            return Err(impossible(format!("the run has a task `{name}`"), hint));
        }
        if self.joining.is_some() && !joins {
            return Err(Refusal::Busy("another task is being added"));
        }
        if !self.mirror.engine.system().windows.is_empty() {
            let reason = "a process of a window table comes with its table".to_owned();
            return Err(impossible(reason, "end the run and start it with the new file"));
        }
        self.find_places(1)?;
        let base = self.agreed_system();
        self.join(std::slice::from_ref(new), base, Vec::new(), joins)
    }

    /// Whether there are places for so many new tasks.
    fn find_places(&self, new: usize) -> Result<(), Refusal> {
        let first = self.tasks.len();
        if first + new > self.room {
            let places = self.room.saturating_sub(first);
            let reason = match new {
                1 => format!("the run has {first} tasks, and no place for another one"),
                new => format!("the run has {first} tasks, and {places} places for the {new} new ones"),
            };
            return Err(impossible(reason, "start the run with a higher `--spare-tasks`"));
        }
        if new > MAX_NEW {
            let reason = format!("a command adds at most {MAX_NEW} tasks, and there are {new} new ones");
            return Err(impossible(reason, "add them by several commands, each with a longer file"));
        }
        Ok(())
    }

    /// Adds tasks that the run does not have, for which there are places. Each follows only earlier ones of the list. Other changes are made in the same
    /// step. `base` is the
    /// system with these other changes.
    fn join(
        &mut self,
        tasks: &[NewTask],
        mut base: System,
        mut inputs: Vec<Input>,
        joins: bool,
    ) -> Result<Asked, Refusal> {
        let first = self.tasks.len();
        let mut domains = Vec::new();
        let mut earlier: HashMap<&str, TaskId> = HashMap::new();
        for (index, new) in tasks.iter().enumerate() {
            self.proceed()?;
            let (task, name) = (TaskId((first + index) as u32), &new.process.name);
            let domain = self.domain(new.domain.as_deref())?;
            let mut described = new.task.clone();
            if let Arrival::Event { after, .. } = &mut described.arrival {
                let number = |name: &str| earlier.get(name).map_or_else(|| self.task(name), |task| Ok(*task));
                *after = new.after.as_deref().map(number).transpose()?;
            }
            earlier.insert(name, task);
            self.mirror.comes(task);
            base = self.admit_new(base, task, domain, &described, name)?;
            let refused = |invalid: takt_core::model::Invalid| Refusal::NotAdmitted(invalid.to_string());
            self.mirror.engine.describe(task, described).map_err(refused)?;
            domains.push((task, domain));
        }
        if !joins {
            return Ok(Asked::Start(tasks.to_vec()));
        }
        let engine = &self.mirror.engine;
        let refused =
            |invalid: takt_core::model::Invalid| Refusal::NotAdmitted(self.named_with(&invalid.to_string(), tasks));
        let prepared = engine.prepare_described(domains.iter().copied()).map_err(refused)?;
        if prepared.timers() > engine.room().timers {
            let reason = format!("the policy needs {} timers with this task, and there is no room", prepared.timers());
            return Err(impossible(reason, "end the run and start it with the new file"));
        }
        inputs.extend(domains.iter().map(|(task, _)| Input::Enter { task: *task }));
        let adds = domains.iter().map(|(task, domain)| Input::Add { task: *task, domain: *domain }).collect();
        let install = Install { prepared: Some(New::Policy(prepared)), inputs: adds };
        let mut change = Change::new(inputs, Some(install), self.loaded().to_vec(), engine.changes_of_terms());
        let newcomers = domains.iter().zip(tasks);
        change.newcomers = newcomers.map(|((task, _), new)| Newcomer::new(*task, &new.process, self.class)).collect();
        Ok(Asked::Change(Box::new(change)))
    }

    /// Whether the policy of `system` admits a new task beside the others. An engine of its own has it from the start. Returns the system with it.
    fn admit_new(
        &self,
        mut system: System,
        task: TaskId,
        domain: Option<u16>,
        described: &Task,
        name: &str,
    ) -> Result<System, Refusal> {
        let terms = &described.terms();
        let refused = |invalid: takt_core::model::Invalid| {
            let text = invalid.to_string().replace(&format!("task {}", task.0), &format!("task `{name}`"));
            Refusal::NotAdmitted(self.named(&text))
        };
        system.tasks[task.index()] = described.clone();
        system.removed.retain(|free| *free != task);
        if let Some(domain) = domain.and_then(|domain| system.domains.get_mut(usize::from(domain))) {
            domain.tasks.push(task);
        }
        let of_system = |system: System| {
            let mut engine = self.mirror.engine.of_system(system).map_err(refused)?;
            engine.step(Time::ZERO, &[], &mut ());
            Ok::<_, Refusal>(engine)
        };
        // A policy grants a task what it has already. So the task has a little less here, and asks for the rest.
        let smaller = |system: &System| {
            let mut system = system.clone();
            let least = Span::from_ns(1);
            let described = &mut system.tasks[task.index()];
            let part = described.reservation.as_mut().map(|reservation| &mut reservation.budget);
            let part = part.or(described.runtime.as_mut()).filter(|part| **part > least)?;
            *part -= least;
            Some(system)
        };
        let mut whole = of_system(system.clone())?;
        let mut admitted = whole.admits(task, terms);
        if let Some(smaller) = smaller(&system).filter(|_| admitted) {
            let mut alone = smaller.clone();
            alone.removed = (0..alone.tasks.len() as u32).map(TaskId).filter(|other| *other != task).collect();
            alone.domains.iter_mut().for_each(|domain| domain.tasks.retain(|own| *own == task));
            // Under some policies no task receives more than it was placed with. They were asked when they were built.
            let grows = of_system(alone).is_ok_and(|mut alone| alone.admits(task, terms));
            admitted = !grows || of_system(smaller)?.admits(task, terms);
        }
        if admitted {
            return Ok(system);
        }
        Err(self.not_admitted(whole.system(), task, name, terms))
    }

    fn admit(&mut self, task: TaskId, terms: &Terms) -> Result<(), Refusal> {
        if self.mirror.engine.admits(task, terms) {
            return Ok(());
        }
        let name = &self.tasks[task.index()].0;
        Err(self.not_admitted(self.mirror.engine.system(), task, name, terms))
    }

    /// `system` is the one whose policy does not accept the task.
    fn not_admitted(&self, system: &System, task: TaskId, name: &str, terms: &Terms) -> Refusal {
        let domain = system.domains.iter().find(|domain| domain.tasks.contains(&task));
        let policy = domain.map_or(system.policy, |domain| domain.policy);
        let span = |span: Option<Span>| span.map_or("none".to_owned(), |span| span.to_string());
        let own = [
            format!("period {}", span(terms.period)),
            format!("deadline {}", span(terms.deadline)),
            format!("runtime {}", span(terms.runtime)),
        ];
        let reserved = terms.reserved().map(|reserved| format!(", reserved {}", reserved.budget));
        Refusal::NotAdmitted(format!(
            "the policy `{}{}` does not accept task `{}` with {}{}",
            policy.prefix(),
            policy.profile.name,
            name,
            own.join(", "),
            reserved.unwrap_or_default()
        ))
    }

    /// Other terms for a task that has not left.
    fn set(&mut self, task: TaskId, new: &NewTerms) -> Result<Vec<Input>, Refusal> {
        self.own(task)?;
        if self.mirror.engine.is_gone(task) {
            let name = &self.tasks[task.index()].0;
            return Err(impossible(format!("task `{name}` has left"), self.way_back(task)));
        }
        self.terms(task, new)
    }

    /// Other terms for a task.
    fn terms(&self, task: TaskId, new: &NewTerms) -> Result<Vec<Input>, Refusal> {
        let engine = &self.mirror.engine;
        let (name, described) = (&self.tasks[task.index()].0, &engine.system().tasks[task.index()]);
        for span in [new.period, new.deadline, new.runtime].into_iter().flatten() {
            if span <= Span::ZERO {
                return Err(impossible("a duration must be above zero".to_owned(), "write one such as `10ms`"));
            }
        }
        if new.period.is_some_and(|period| period < SHORTEST) {
            let reason = format!("a period must be at least {SHORTEST}");
            return Err(impossible(reason, "the scheduler would do nothing but release jobs"));
        }
        let mut inputs = Vec::new();
        let now = engine.agreed(task);
        match described.arrival {
            Arrival::Event { .. } => {
                if new.period.is_some() {
                    let reason = format!("events release the jobs of task `{name}`, so it has no period");
                    return Err(impossible(reason, "set `deadline`, `runtime` or `utility`"));
                }
                let utility = new.utility.unwrap_or(described.height());
                if utility > MOST {
                    return Err(impossible(
                        "the utility is too high".to_owned(),
                        "write a number of at most a billion",
                    ));
                }
                let (deadline, runtime) = (new.deadline.or(now.deadline), new.runtime.or(now.runtime));
                if (deadline, runtime, utility) != (now.deadline, now.runtime, described.height()) {
                    inputs.push(Input::Terms { task, deadline, runtime, utility });
                }
            }
            Arrival::Periodic { .. } | Arrival::Sporadic { .. } => {
                if new.utility.is_some() {
                    let reason = format!("the utility of task `{name}` is that of the file");
                    return Err(impossible(
                        reason,
                        "only tasks whose jobs are released by events can be given another",
                    ));
                }
                let before = now.period.unwrap_or_default();
                let period = new.period.unwrap_or(before);
                let follows = if now.deadline == Some(before) { Some(period) } else { now.deadline };
                let (deadline, runtime) = (new.deadline.or(follows), new.runtime.or(now.runtime));
                if (Some(period), deadline, runtime) != (now.period, now.deadline, now.runtime) {
                    inputs.push(Input::Retime { task, period, deadline, runtime });
                }
            }
            Arrival::Listed { .. } | Arrival::Activated => {
                if [new.period, new.deadline, new.runtime].iter().any(Option::is_some) || new.utility.is_some() {
                    let reason = format!("the releases of task `{name}` are a list, or those of its windows");
                    return Err(impossible(reason, "only `share` and `importance` can be set"));
                }
            }
        }
        if let Some(Input::Retime { deadline, runtime, .. } | Input::Terms { deadline, runtime, .. }) = inputs.first()
            && let (Some(runtime), Some(deadline)) = (*runtime, *deadline)
            && runtime > deadline
        {
            let reason = format!("task `{name}` could never meet its deadline: runtime {runtime}, deadline {deadline}");
            return Err(impossible(reason, "lower `runtime`, or raise `deadline` or `period`"));
        }
        let share = new.share.or(described.share);
        let importance = new.importance.unwrap_or(described.importance);
        if (share, importance) != (described.share, described.importance) {
            if importance == 0 || share.is_some_and(|share| !(1..=1_000_000).contains(&share)) {
                return Err(impossible(
                    "a share is above 0 and at most 1, an importance at least 1".to_owned(),
                    "write for example `share=0.25`",
                ));
            }
            inputs.push(Input::Share { task, share, importance });
        }
        Ok(inputs)
    }

    /// Whether the policy admits the terms that these inputs give a task, beside the present terms of the others.
    fn admit_terms(&mut self, task: TaskId, inputs: &[Input]) -> Result<(), Refusal> {
        let now = self.mirror.engine.agreed(task);
        match inputs.first().and_then(|input| terms_of(now, input)) {
            Some(terms) => self.admit(task, &terms),
            None => Ok(()),
        }
    }

    fn domain(&self, name: Option<&str>) -> Result<Option<u16>, Refusal> {
        let domains = &self.mirror.engine.system().domains;
        let known = || if self.one_policy { Vec::new() } else { self.domains.clone() };
        match name {
            None if domains.is_empty() => Ok(None),
            None if self.one_policy => Ok(Some(0)),
            None => Err(Refusal::Unknown { what: "domain", name: String::new(), known: known() }),
            Some(name) => {
                let found = known().iter().position(|domain| domain == name).map(|index| Some(index as u16));
                found.ok_or_else(|| Refusal::Unknown { what: "domain", name: name.to_owned(), known: known() })
            }
        }
    }

    /// The policies that the run has learned of since its start, in the order of their numbers.
    pub(crate) fn loaded(&self) -> &[PolicySpec] {
        &self.mirror.engine.system().alternatives[self.known..]
    }

    /// Another policy for the system or a domain.
    fn switch(
        &mut self,
        domain: Option<u16>,
        mut to: PolicySpec,
        fallback: Option<PolicySpec>,
    ) -> Result<Option<Install>, Refusal> {
        let engine = &self.mirror.engine;
        let system = engine.system();
        if !system.windows.is_empty() {
            let hint = "policies of online `tasks` can be switched; `reload` lets another table take over";
            return Err(impossible("a window table keeps its policy".to_owned(), hint));
        }
        let described = domain.map(|domain| &system.domains[usize::from(domain)]);
        let before = described.map_or(system.policy, |domain| domain.policy);
        to.placement = before.placement;
        if to == before {
            return Ok(None);
        }
        let cpus = described.map_or(system.cpus, |domain| domain.cpus);
        let name = format!("{}{}", to.prefix(), to.profile.name);
        let other = "choose another policy; `takt policies` lists them";
        if to.scope == Scope::Table {
            return Err(impossible(format!("the policy `{name}` schedules no tasks by itself"), other));
        }
        if to.scope == Scope::Uniprocessor && cpus.len() > 1 {
            let hint = "choose a form for several CPUs, such as `g-edf` or `p-edf`";
            return Err(impossible(
                format!("the policy `{name}` schedules one CPU, and there are {}", cpus.len()),
                hint,
            ));
        }
        let fallback = fallback.map(|fallback| PolicySpec { placement: before.placement, ..fallback });
        let new: Vec<PolicySpec> =
            [Some(to), fallback].into_iter().flatten().filter(|spec| !system.alternatives.contains(spec)).collect();
        if fallback.is_none() && new.contains(&to) {
            let reason = format!("the run has no policy `{name}` with these settings");
            return Err(impossible(reason, "leave the settings out, or name it in `changes:` of the file"));
        }
        if self.loaded().len() + new.len() > MAX_LOADED {
            let reason = format!("the run has loaded {MAX_LOADED} policies");
            return Err(impossible(reason, "choose one of these, or start another run"));
        }
        let prepared = match domain {
            None => engine.prepare(to),
            Some(domain) => engine.prepare_domain(domain, to),
        };
        let prepared = prepared.map_err(|invalid| {
            Refusal::NotAdmitted(format!("the policy `{name}` cannot take over: {}", self.named(&invalid.to_string())))
        })?;
        if domain.is_none() && prepared.timers() > engine.room().timers {
            let reason =
                format!("the policy `{name}` needs {} timers, and there is no room for them", prepared.timers());
            return Err(impossible(reason, "name it in `changes:` of the file"));
        }
        self.mirror.engine.add_alternatives(new);
        let mut alternatives = self.mirror.engine.system().alternatives.iter();
        let index = alternatives.position(|spec| *spec == to).expect("it is one of them by now");
        let inputs = vec![Input::Switch { domain, to: index as u16 }];
        Ok(Some(Install { prepared: Some(New::Policy(prepared)), inputs }))
    }

    /// The tasks of another version of the workload that the run does not have, each behind the task that it follows. A task that cannot be
    /// added is named in `fixed`.
    fn newcomers<'a>(&self, target: &'a Target, fixed: &mut Vec<String>) -> Vec<&'a NewTask> {
        let own: BTreeSet<&str> = self.tasks.iter().map(|(own, _)| own.as_str()).collect();
        let described = described(target);
        let excluded: HashMap<&str, &str> =
            target.excluded.iter().rev().map(|(name, why)| (name.as_str(), why.as_str())).collect();
        let side = match (&self.mirror.engine.system().windows[..], &target.system.windows[..]) {
            ([], []) => None,
            ([], _) => Some("the file"),
            _ => Some("the run"),
        };
        let mut new: Vec<&NewTask> = Vec::new();
        for name in target.tasks.iter().filter(|name| !own.contains(name.as_str())) {
            match (described.get(name.as_str()), side) {
                (_, Some(side)) => fixed.push(format!("task `{name}` is new, and {side} has a window table")),
                (Some(task), None) => new.push(task),
                (None, None) => fixed.push(match excluded.get(name.as_str()) {
                    Some(why) => format!("{why} (task `{name}` is new)"),
                    None => format!("task `{name}` is new"),
                }),
            }
        }
        in_order(&new)
    }

    /// The change that leads from the present system to another one, if that can be reached in place.
    fn reload(&mut self, target: &Target, joins: bool) -> Result<Asked, Refusal> {
        let (mut fixed, mut inputs, mut policies) = (target.fixed.clone(), Vec::new(), Vec::new());
        let newcomers = self.newcomers(target, &mut fixed);
        let own: Vec<&String> = self.tasks.iter().map(|(name, _)| name).collect();
        // By name: the number in this run, which new tasks have behind the others; the number in the other version.
        let new_names = newcomers.iter().map(|new| &new.process.name);
        let numbers: HashMap<&str, usize> = numbered(own.iter().copied().chain(new_names));
        let others: HashMap<&str, usize> = numbered(target.tasks.iter());
        let described = described(target);
        let system = self.mirror.engine.system();
        let has_windows = !system.windows.is_empty();
        // By task of the other version: its number here.
        let number = |task: TaskId| numbers.get(target.tasks[task.index()].as_str()).map(|index| TaskId(*index as u32));
        let (domains, other_domains) = (domains_by_task(system), domains_by_task(&target.system));
        let (mut wanted, mut leaving, mut leaves) = (Vec::new(), Vec::new(), false);
        for (index, name) in own.iter().enumerate() {
            let task = TaskId(index as u32);
            let (is_gone, of_kernel) = (self.mirror.engine.is_gone(task), self.tasks[index].1);
            let Some(&at) = others.get(name.as_str()) else {
                match (has_windows, of_kernel) {
                    (true, _) => fixed.push(format!("task `{name}` is missing, and the run has a window table")),
                    (_, true) => fixed.push(format!("task `{name}` is missing, and the kernel schedules it")),
                    _ if is_gone => {}
                    _ => leaving.push(task),
                }
                continue;
            };
            let (old, mut new) = (&system.tasks[index], target.system.tasks[at].clone());
            if let Arrival::Event { after, .. } = &mut new.arrival {
                *after = after.and_then(number);
            }
            fixed.extend(differences(old, &new).map(|what| format!("`{what}` of task `{name}`")));
            let added = index.checked_sub(own.len() - self.added.len()).map(|index| &self.added[index].process);
            let described = described.get(name.as_str()).map(|new| &new.process);
            if added.zip(described).is_some_and(|(added, described)| added != described) {
                fixed.push(format!("the process of task `{name}`"));
            }
            if domains[index] != other_domains[at] {
                fixed.push(format!("the domain of task `{name}`"));
            }
            let utility = matches!(old.arrival, Arrival::Event { .. }).then(|| new.height());
            let terms = NewTerms {
                period: new.arrival.period().filter(|_| !matches!(new.arrival, Arrival::Event { .. })),
                deadline: new.deadline,
                runtime: new.runtime,
                share: new.share,
                importance: Some(new.importance),
                utility: utility.filter(|utility| *utility != old.height()),
            };
            leaves |= !has_windows && self.mirror.engine.is_leaving(task);
            // A program that has ended does not return.
            if !of_kernel && !(is_gone && (has_windows || self.mirror.has_ended(task))) {
                inputs.extend(is_gone.then_some(Input::Enter { task }));
                wanted.push((task, terms));
            }
        }
        let (old, new) = (system, &target.system);
        let table = self.window_table(target, &mut fixed);
        let parts = [
            ("cpus", old.cpus != new.cpus),
            ("resources", old.resources != new.resources),
            ("servers", old.servers != new.servers),
            ("domains", old.domains.len() != new.domains.len()),
            ("late", old.late != new.late),
            ("backlog", old.backlog != new.backlog),
            ("seed", old.seed != new.seed),
            ("speeds", old.speeds != new.speeds),
            ("locking", old.locking != new.locking),
            ("rules", old.rules != new.rules),
            ("load", old.load != new.load),
        ];
        fixed.extend(parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| format!("`{name}`")));
        if old.domains.len() == new.domains.len() && old.domains.is_empty() {
            if old.policy != new.policy {
                policies.push((None, new.policy));
            }
        } else {
            let pairs = old.domains.iter().zip(&new.domains).zip(0..);
            for ((before, after), index) in pairs {
                if before.policy != after.policy {
                    policies.push((Some(index), after.policy));
                }
                if (before.cpus, before.band) != (after.cpus, after.band) {
                    fixed.push("the CPUs or the band of a domain".to_owned());
                }
            }
        }
        if policies.len() > 1 {
            fixed.push("the policies of several domains at once".to_owned());
        }
        if !policies.is_empty() && !newcomers.is_empty() {
            fixed.push("the policy together with new tasks (`policy` changes it before)".to_owned());
        }
        if !fixed.is_empty() {
            let more = fixed.len().saturating_sub(LISTED);
            let more = (more > 0).then(|| format!("and {more} more"));
            let few: Vec<String> = fixed.into_iter().take(LISTED).chain(more).collect();
            let reason = format!("this cannot change in place: {}", few.join(", "));
            return Err(impossible(reason, "end the run and start it with the new file, or leave these as they are"));
        }
        if leaves {
            return Err(Refusal::Busy(LEAVES));
        }
        // The present table may be the wanted one, and would not stay.
        if has_windows && self.awaited.is_some() {
            return Err(Refusal::Busy("another window table waits for the end of the major frame"));
        }
        let mut install = match policies.first() {
            Some((domain, to)) => {
                let fallback = target.fallbacks.iter().find(|(of, _)| of == to).map(|(_, fallback)| *fallback);
                self.switch(*domain, *to, fallback)?
            }
            None => None,
        };
        for (task, terms) in wanted {
            let described = &self.mirror.engine.system().tasks[task.index()];
            let movable = matches!(
                described.arrival,
                Arrival::Event { .. } | Arrival::Periodic { .. } | Arrival::Sporadic { .. }
            );
            let terms = if movable {
                terms
            } else {
                NewTerms { share: terms.share, importance: terms.importance, ..NewTerms::default() }
            };
            inputs.extend(self.terms(task, &terms)?);
        }
        if !newcomers.is_empty() {
            if self.joining.is_some() && !joins {
                return Err(Refusal::Busy("another task is being added"));
            }
            self.find_places(newcomers.len())?;
        }
        if !inputs.is_empty() || !leaving.is_empty() || install.is_some() || !newcomers.is_empty() {
            let mut system = self.admit_all(&inputs, &leaving, policies.first().copied())?;
            inputs.splice(0..0, leaving.iter().map(|task| Input::Leave { task: *task }));
            if !newcomers.is_empty() {
                let mut away: Vec<bool> =
                    (0..self.tasks.len() as u32).map(|task| self.mirror.engine.is_gone(TaskId(task))).collect();
                for input in &inputs {
                    if let Input::Enter { task } = *input {
                        away[task.index()] = false;
                    }
                }
                leaving.iter().for_each(|task| away[task.index()] = true);
                without(&mut system, &away);
                let newcomers: Vec<NewTask> = newcomers.into_iter().cloned().collect();
                return self.join(&newcomers, system, inputs, joins);
            }
        }
        if let Some(table) = table {
            install = Some(self.install_table(table)?);
        }
        Ok(self.change(inputs, install))
    }

    /// The present system, with the terms that are agreed, and without jobs at its start.
    fn agreed_system(&self) -> System {
        let engine = &self.mirror.engine;
        let mut system = engine.system().clone();
        system.alternatives.clear();
        // Terms that wait for the end of a job have been admitted.
        give_agreed(&mut system, engine);
        let there: Vec<bool> = (0..system.tasks.len() as u32).map(|task| !system.is_removed(TaskId(task))).collect();
        for (_, task) in system.tasks.iter_mut().enumerate().filter(|(index, _)| there[*index]) {
            // Without jobs, no server keeps a claim of its former terms.
            if let Arrival::Periodic { offset, period } | Arrival::Sporadic { offset, period, .. } = &mut task.arrival {
                *offset += *period;
            }
        }
        system
    }

    /// Whether the policy that is to hold admits all of these terms and returning tasks together, when some tasks have left. An engine of its own takes
    /// them, each when its policy admits it beside the tasks before it, so that the order of the tasks makes no difference. Returns the system
    /// with these terms.
    fn admit_all(
        &self,
        inputs: &[Input],
        leaving: &[TaskId],
        policy: Option<(Option<u16>, PolicySpec)>,
    ) -> Result<System, Refusal> {
        let engine = &self.mirror.engine;
        let mut system = self.agreed_system();
        match policy {
            Some((None, to)) => system.policy = to,
            Some((Some(domain), to)) => system.domains[usize::from(domain)].policy = to,
            None => {}
        }
        let refused = |invalid: takt_core::model::Invalid| Refusal::NotAdmitted(self.named(&invalid.to_string()));
        let mut whole = engine.of_system(system).map_err(refused)?;
        whole.step(Time::ZERO, &[], &mut ());
        let gone = (0..self.tasks.len() as u32).map(TaskId).filter(|task| engine.is_gone(*task));
        for task in gone.chain(leaving.iter().copied()) {
            self.proceed()?;
            whole.step(Time::ZERO, &[Input::Leave { task }], &mut ());
        }
        // A task returns with the terms that it is to have.
        let mut by_task: HashMap<TaskId, Vec<&Input>> = HashMap::new();
        for input in inputs {
            input.task().into_iter().for_each(|task| by_task.entry(task).or_default().push(input));
        }
        let wanted = |whole: &Engine, input: &Input| {
            let task = input.task()?;
            let now = whole.agreed(task);
            match input {
                Input::Enter { .. } => {
                    let own = by_task.get(&task).into_iter().flatten();
                    Some((task, own.filter_map(|other| terms_of(now, other)).next().unwrap_or(now)))
                }
                _ => Some((task, terms_of(now, input)?)),
            }
        };
        let mut left = inputs.to_vec();
        loop {
            let before = left.len();
            let mut ends = Ok(());
            left.retain(|input| {
                ends = ends.clone().and_then(|()| self.proceed());
                if ends.is_err() {
                    return true;
                }
                let admitted = wanted(&whole, input).is_none_or(|(task, terms)| whole.admits(task, &terms));
                if admitted {
                    whole.step(Time::ZERO, &[*input], &mut ());
                }
                !admitted
            });
            ends?;
            let Some(first) = left.first() else {
                let mut system = whole.system().clone();
                give_agreed(&mut system, &whole);
                return Ok(system);
            };
            if left.len() == before
                && let Some((task, terms)) = wanted(&whole, first)
            {
                let name = &self.tasks[task.index()].0;
                return Err(self.not_admitted(whole.system(), task, name, &terms));
            }
        }
    }

    /// The window table of another version of the workload, if it differs. Differences that cannot change with it are added to `fixed`.
    fn window_table(&self, target: &Target, fixed: &mut Vec<String>) -> Option<WindowTable> {
        let (old, new) = (self.mirror.engine.system(), &target.system);
        if old.windows.is_empty() != new.windows.is_empty() {
            fixed.push("`windows`".into());
        }
        if old.windows.is_empty() || new.windows.is_empty() {
            return None;
        }
        let own = |task: &TaskId| self.tasks[task.index()].0.as_str();
        let other = |task: &TaskId| target.tasks[task.index()].as_str();
        let before = fixed.len();
        // By partition of the other version: its number in this run.
        let mut numbers = Vec::new();
        for partition in &new.partitions {
            let names: Vec<&str> = partition.tasks.iter().map(other).collect();
            let same = |known: &&takt_core::model::Partition| known.tasks.iter().map(own).eq(names.iter().copied());
            let found = old.partitions.iter().position(|known| same(&known));
            match found {
                Some(number) if old.partitions[number].policy == partition.policy => numbers.push(number),
                Some(_) => fixed.push(format!("the policy of the partition of {}", list(&names))),
                // Tasks that are new are named as such.
                None if names.iter().all(|name| self.tasks.iter().any(|(own, _)| own == name)) => {
                    fixed.push(format!("the partition of {}", list(&names)));
                }
                None => {}
            }
        }
        if fixed.len() > before || numbers.len() < new.partitions.len() {
            return None;
        }
        let number = |partition: Option<PartitionId>| partition.map(|p| PartitionId(numbers[p.index()] as u32));
        let slice = |slice: &Slice| Slice { cpus: slice.cpus, sc: number(slice.sc), be: number(slice.be) };
        let window =
            |window: &Window| Window { length: window.length, slices: window.slices.iter().map(slice).collect() };
        let windows: Vec<Window> = new.windows.iter().map(window).collect();
        for slice in windows.iter().flat_map(|window| &window.slices) {
            for partition in [slice.sc, slice.be].into_iter().flatten().map(PartitionId::index) {
                if !self.bound[partition].contains(&slice.cpus) {
                    let names: Vec<&str> = old.partitions[partition].tasks.iter().map(own).collect();
                    let moved = format!("CPU {} for the partition of {}", slice.cpus, list(&names));
                    if !fixed.contains(&moved) {
                        fixed.push(moved);
                    }
                }
            }
        }
        let budget = |(index, (name, _)): (usize, &(String, bool))| {
            let described = target.tasks.iter().position(|other| other == name).map(|at| &new.tasks[at]);
            let described = described.unwrap_or(&old.tasks[index]);
            (described.budget, described.jitter)
        };
        let budgets: Vec<_> = self.tasks.iter().enumerate().map(budget).collect();
        let differs = |(old, new): (&Task, &(Option<Span>, Span))| {
            old.arrival == Arrival::Activated && (old.budget, old.jitter) != *new
        };
        let frequencies = self.mirror.engine.power().map_or(&[][..], |host| host.slice_frequencies());
        let changed = target.frequencies != frequencies
            || old.windows != windows
            || old.be_start != new.be_start
            || old.tasks.iter().zip(&budgets).any(differs);
        changed.then_some(WindowTable {
            windows,
            be_start: new.be_start,
            budgets,
            frequencies: target.frequencies.clone(),
        })
    }

    fn install_table(&mut self, table: WindowTable) -> Result<Install, Refusal> {
        let refused = |invalid: takt_core::model::Invalid| {
            impossible(
                format!("the window table cannot take over: {invalid}"),
                "end the run and start it with the new file",
            )
        };
        let shortest = table.windows.iter().map(|window| window.length).min();
        let engine = &mut self.mirror.engine;
        let known = engine.system().tables.len();
        let to = engine.add_table(table).map_err(refused)?;
        self.new_tables.extend(engine.system().tables[known..].iter().cloned());
        let table = engine.prepare_table(to).map_err(refused)?;
        Ok(Install { prepared: Some(New::Table { table, shortest }), inputs: vec![Input::Table { to }] })
    }
}

/// The keys of a task that differ and cannot change in place.
fn differences<'a>(
    old: &'a takt_core::model::Task,
    new: &'a takt_core::model::Task,
) -> impl Iterator<Item = &'static str> + use<'a> {
    use std::mem::discriminant;
    let fixed = !matches!(old.arrival, Arrival::Periodic { .. } | Arrival::Sporadic { .. } | Arrival::Event { .. });
    let all = [
        ("releases", discriminant(&old.arrival) != discriminant(&new.arrival) || (fixed && old.arrival != new.arrival)),
        ("deadline", old.deadline.is_some() && new.deadline.is_none() || fixed && old.deadline != new.deadline),
        ("runtime", old.runtime.is_some() && new.runtime.is_none() || fixed && old.runtime != new.runtime),
        // Budgets of processes in windows belong to the window table.
        ("budget", old.arrival != Arrival::Activated && (old.budget, old.jitter) != (new.budget, new.jitter)),
        ("reservation", old.reservation != new.reservation || old.server != new.server),
        ("handler", old.handler != new.handler),
        ("on_abort", old.on_abort != new.on_abort),
        ("completion", old.completion != new.completion),
        ("priority", old.priority != new.priority),
        ("cpu", old.affinity != new.affinity),
    ];
    let named = all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name);
    // With what a reload changes, and what has a name above, they are the same task.
    let arrival = match (&old.arrival, &new.arrival) {
        (Arrival::Periodic { period, .. }, Arrival::Periodic { offset, .. }) => {
            Arrival::Periodic { offset: *offset, period: *period }
        }
        (Arrival::Sporadic { period, .. }, Arrival::Sporadic { offset, spread, .. }) => {
            Arrival::Sporadic { offset: *offset, period: *period, spread: *spread }
        }
        (old, _) if fixed => old.clone(),
        (_, new) => new.clone(),
    };
    let by_events = matches!(old.arrival, Arrival::Event { .. });
    let instants = ("offset, spread or event", old.arrival != arrival);
    let share = ("share", old.share.is_some() && new.share.is_none());
    // The utility of a task that is released by events is among its terms.
    let utility = ("utility", !by_events && old.utility != new.utility);
    let steps = ("steps", old.program != new.program);
    named.chain([instants, share, utility, steps].into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name))
}

/// By partition: the CPU sets of its slices.
fn bound(system: &System) -> Vec<Vec<CpuSet>> {
    let mut bound: Vec<Vec<CpuSet>> = vec![Vec::new(); system.partitions.len()];
    for slice in system.windows.iter().flat_map(|window| &window.slices) {
        for partition in [slice.sc, slice.be].into_iter().flatten().map(PartitionId::index) {
            if !bound[partition].contains(&slice.cpus) {
                bound[partition].push(slice.cpus);
            }
        }
    }
    bound
}

/// The terms after an input that changes a period, a deadline or a runtime.
fn terms_of(now: Terms, input: &Input) -> Option<Terms> {
    match *input {
        Input::Retime { period, deadline, runtime, .. } => {
            Some(Terms { period: Some(period), deadline, runtime, ..now })
        }
        Input::Terms { deadline, runtime, .. } => Some(Terms { deadline, runtime, ..now }),
        _ => None,
    }
}

/// Takes tasks out of a system: the ones that are `away`, by number. A task that another one follows stays. O(tasks × domains).
fn without(system: &mut System, away: &[bool]) {
    let is_away = |task: TaskId| away.get(task.index()).copied().unwrap_or(false);
    let mut followed = vec![false; system.tasks.len()];
    for (index, other) in system.tasks.iter().enumerate() {
        let own = TaskId(index as u32);
        if let Arrival::Event { after: Some(first), .. } = other.arrival
            && !system.is_removed(own)
            && !is_away(own)
        {
            followed[first.index()] = true;
        }
    }
    let numbers = (0..away.len() as u32).map(TaskId);
    let leaves: Vec<TaskId> = numbers.filter(|task| is_away(*task) && !followed[task.index()]).collect();
    let leaves: Vec<TaskId> = leaves.into_iter().filter(|task| !system.is_removed(*task)).collect();
    let taken: BTreeSet<TaskId> = leaves.iter().copied().collect();
    system.removed.extend(leaves);
    system.removed.sort_unstable();
    system.domains.iter_mut().for_each(|domain| domain.tasks.retain(|task| !taken.contains(task)));
}

/// The tasks in their order, but each behind the one that it follows. Tasks in a cycle are left out. O(n log n).
fn in_order<'a>(tasks: &[&'a NewTask]) -> Vec<&'a NewTask> {
    let numbers = numbered(tasks.iter().map(|task| &task.process.name));
    // One that follows a task which does not exist is refused later.
    let first = |task: &NewTask| task.after.as_deref().and_then(|after| numbers.get(after).copied());
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    let mut ready = BTreeSet::new();
    for (index, task) in tasks.iter().enumerate() {
        match first(task) {
            Some(first) => followers[first].push(index),
            None => drop(ready.insert(index)),
        }
    }
    let mut sorted = Vec::with_capacity(tasks.len());
    while let Some(next) = ready.pop_first() {
        ready.extend(followers[next].iter().copied());
        sorted.push(tasks[next]);
    }
    sorted
}

/// By name: the number of the first one that has it.
fn numbered<'a>(names: impl Iterator<Item = &'a String>) -> HashMap<&'a str, usize> {
    let mut numbers = HashMap::new();
    for (index, name) in names.enumerate() {
        numbers.entry(name.as_str()).or_insert(index);
    }
    numbers
}

/// By name: the tasks of another version of the workload that can be added.
fn described(target: &Target) -> HashMap<&str, &NewTask> {
    target.new.iter().rev().map(|new| (new.process.name.as_str(), new)).collect()
}

/// By task: its domain.
fn domains_by_task(system: &System) -> Vec<Option<usize>> {
    let mut domains = vec![None; system.tasks.len()];
    for (index, domain) in system.domains.iter().enumerate().rev() {
        domain.tasks.iter().for_each(|task| domains[task.index()] = Some(index));
    }
    domains
}

/// Gives the tasks of a system the terms that are agreed in an engine.
fn give_agreed(system: &mut System, engine: &Engine) {
    for index in 0..system.tasks.len() {
        let task = TaskId(index as u32);
        if !system.is_removed(task) {
            let agreed = engine.agreed(task);
            give_terms(&mut system.tasks[index], agreed.period, agreed.deadline, agreed.runtime);
        }
    }
}

/// Gives a task the period, if it has one, the relative deadline and the runtime.
fn give_terms(task: &mut Task, period: Option<Span>, deadline: Option<Span>, runtime: Option<Span>) {
    if let (Arrival::Periodic { period: own, .. } | Arrival::Sporadic { period: own, .. }, Some(period)) =
        (&mut task.arrival, period)
    {
        *own = period;
    }
    (task.deadline, task.runtime) = (deadline, runtime);
}

/// The tasks, for a message.
fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn impossible(reason: String, hint: &str) -> Refusal {
    Refusal::Impossible { reason, hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::reserve;
    use takt_core::model::System;
    use takt_core::rng::draw_up_to;

    /// Random numbers below a bound.
    struct Rng {
        seed: u64,
        drawn: u64,
    }

    impl Rng {
        fn new(seed: u64) -> Rng {
            Rng { seed, drawn: 0 }
        }

        fn below(&mut self, bound: u64) -> u64 {
            self.drawn += 1;
            draw_up_to(bound - 1, self.seed, 0, self.drawn)
        }
    }

    fn new_task(name: &str, after: Option<String>) -> NewTask {
        let arrival = match after {
            Some(_) => Arrival::Event { distance: Span::ZERO, queue: 1, after: None },
            None => Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(10) },
        };
        let (deadline, runtime) = (Some(Span::from_ms(10)), Some(Span::from_us(1)));
        let task = Task { arrival, deadline, runtime, ..Task::default() };
        let process = Process { name: name.to_owned(), is_reserved: false, ..Process::reserved() };
        NewTask { task, after, domain: None, process, file: "f".into(), text: "t".into() }
    }

    /// The first task of the list that follows none of the list comes next, as long as there is one.
    #[test]
    fn new_tasks_are_behind_the_ones_that_they_follow() {
        let mut rng = Rng::new(1);
        for _ in 0..300 {
            let n = 1 + rng.below(8) as usize;
            let tasks: Vec<NewTask> = (0..n)
                .map(|index| {
                    let after = (rng.below(2) == 0).then(|| format!("t{}", rng.below(n as u64 + 1)));
                    new_task(&format!("t{index}"), after)
                })
                .collect();
            let mut left: Vec<&NewTask> = tasks.iter().collect();
            let mut expected: Vec<&NewTask> = Vec::new();
            while let Some(at) = left.iter().position(|task| {
                !task.after.as_ref().is_some_and(|after| left.iter().any(|other| other.process.name == *after))
            }) {
                expected.push(left.remove(at));
            }
            assert_eq!(in_order(&tasks.iter().collect::<Vec<_>>()), expected);
        }
    }

    /// A task stays if one that stays follows it.
    #[test]
    fn tasks_that_are_away_leave_a_system() {
        let mut rng = Rng::new(2);
        for _ in 0..300 {
            let n = 1 + rng.below(8) as usize;
            let follows = |rng: &mut Rng| (rng.below(2) == 0).then(|| TaskId(rng.below(n as u64) as u32));
            let tasks = (0..n).map(|_| Task {
                arrival: Arrival::Event { distance: Span::ZERO, queue: 1, after: follows(&mut rng) },
                ..Task::default()
            });
            let policy = PolicySpec::from_name("edf").expect("a policy");
            let mut system = System { tasks: tasks.collect(), ..System::new(CpuSet::first(1), policy) };
            system.removed = (0..n as u32).map(TaskId).filter(|_| rng.below(4) == 0).collect();
            let away: Vec<bool> = (0..n).map(|_| rng.below(2) == 0).collect();
            let stays = |index: usize| !system.is_removed(TaskId(index as u32)) && !away[index];
            let is_followed = |task: usize| {
                let follows = |other: &usize| matches!(system.tasks[*other].arrival, Arrival::Event { after: Some(first), .. } if first.index() == task);
                (0..n).filter(|other| stays(*other)).any(|other| follows(&other))
            };
            let is_removed =
                |task: &usize| system.is_removed(TaskId(*task as u32)) || away[*task] && !is_followed(*task);
            let expected: Vec<TaskId> = (0..n).filter(is_removed).map(|task| TaskId(task as u32)).collect();
            without(&mut system, &away);
            assert_eq!(system.removed, expected);
        }
    }

    fn control(places: usize) -> (Control, Handle) {
        let policy = PolicySpec::from_name("edf").expect("a policy");
        let mut system = System { tasks: vec![new_task("own", None).task], ..System::new(CpuSet::first(1), policy) };
        reserve(&mut system, &mut Vec::new(), places);
        let engine = Engine::new(system).expect("an engine");
        let (mut control, handle) = Control::new(engine, Vec::new(), false).expect("a control");
        control.begin(vec![("own".into(), false)], vec![true], 1 + places, Class::Other);
        (control, handle)
    }

    fn target(new: usize) -> Target {
        let policy = PolicySpec::from_name("edf").expect("a policy");
        let new: Vec<NewTask> = (0..new).map(|index| new_task(&format!("t{index}"), None)).collect();
        let own = new_task("own", None);
        let all = || std::iter::once(&own).chain(&new);
        let tasks = all().map(|new| new.task.clone()).collect();
        Target {
            system: System { tasks, ..System::new(CpuSet::first(1), policy) },
            tasks: all().map(|new| new.process.name.clone()).collect(),
            domains: Vec::new(),
            fixed: Vec::new(),
            new,
            excluded: Vec::new(),
            frequencies: Vec::new(),
            fallbacks: Vec::new(),
        }
    }

    /// A signal or a command to stop ends the preparation of a command that adds tasks.
    #[test]
    fn each_end_comes_before_a_command_that_takes_long() {
        let reload = || Command::Reload(Box::new(target(20)));
        let over = |asked: Result<Asked, Refusal>| matches!(asked, Err(Refusal::Over(_)));
        let (mut own, _handle) = control(20);
        let signal = Arc::new(AtomicBool::new(false));
        own.interrupted_by(vec![signal.clone()]);
        assert!(matches!(own.prepare(&reload(), false), Ok(Asked::Start(tasks)) if tasks.len() == 20));
        signal.store(true, Ordering::Release);
        assert!(over(own.prepare(&reload(), false)), "a signal");
        let (mut own, handle) = control(20);
        let issuer = Issuer { uid: 0, pid: 1 };
        let stop = Command::Stop { grace: Span::ZERO };
        handle.send(Order { issuer, text: "stop".into(), command: stop, answer: Box::new(|_| ()) });
        assert!(over(own.prepare(&reload(), false)), "a command to stop");
    }

    /// New tasks share the text of their file, and their number is bounded before any policy is asked.
    #[test]
    fn a_command_adds_a_bounded_number_of_tasks() {
        let refused = |places, new| match control(places).0.prepare(&Command::Reload(Box::new(target(new))), false) {
            Err(Refusal::Impossible { reason, .. }) => reason,
            _ => panic!("it is prepared"),
        };
        assert_eq!(refused(4, 10_000), "the run has 1 tasks, and 4 places for the 10000 new ones");
        assert_eq!(refused(300, 257), "a command adds at most 256 tasks, and there are 257 new ones");
        let (mut own, target) = (control(2).0, target(2));
        let Ok(Asked::Start(tasks)) = own.prepare(&Command::Reload(Box::new(target.clone())), false) else {
            panic!("there is room")
        };
        let shared = |(task, new): (&NewTask, &NewTask)| Arc::ptr_eq(&task.text, &new.text);
        assert!(tasks.iter().zip(&target.new).all(shared));
    }

    #[test]
    fn a_message_lists_a_bounded_number_of_differences() {
        let mut target = target(0);
        target.fixed = (0..10_000).map(|index| format!("`key{index}`")).collect();
        let Err(Refusal::Impossible { reason, .. }) = control(0).0.prepare(&Command::Reload(Box::new(target)), false)
        else {
            panic!("it changes")
        };
        assert!(reason.ends_with("`key11`, and 9988 more"), "{reason}");
    }
}
