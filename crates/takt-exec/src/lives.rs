//! The life cycles of all tasks' processes on the supervisor's side (`docs/protocol.md`): who is started, killed, replaced, and what
//! the scheduler learns. It neither waits nor knows a clock but that of its [`Processes`].

use crate::actuator::{Groups, Processes, Times};
use crate::levels::highest;
use crate::life::{Incarnation, Life, Message, Request};
use crate::plan::{Dispatch, Plan, Process, TaskEnd, Threads as ThreadsOfPrograms};
use crate::report::{Attempt, Error};
use crate::requests::Requests;
use rtrb::Producer;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use takt_core::cpus::CpuSet;
use takt_core::model::{OnExit, System, TaskId};
use takt_core::time::Span;
use takt_linux::rt::Class;
use takt_linux::{Group, JobEnd, PartitionHandle, ThreadState};

/// Where a task's process lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pub(crate) group: Group,
    pub(crate) partition: PartitionHandle,
}

/// At most so many groups are read in one round.
const LOOKS: usize = 64;
/// The number of processes whose group is looked up in one round.
const PLACES: usize = 4;

/// The threads in the group of a task's process, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Threads {
    Unknown,
    One,
    Several,
}

/// A task's processes: the present one, and what is not yet reported of earlier ones.
pub(crate) struct Task {
    pub(crate) home: Home,
    pub(crate) life: Life,
    incarnation: Incarnation,
    pub(crate) pid: Option<i32>,
    /// It has signalled the end of its initialisation, for which its program may still need other threads.
    signalled: bool,
    /// When a replacement must have initialised.
    init_limit: Option<Span>,
    /// It initialises beside the schedule, so far in idle time.
    initialises_idle: bool,
    /// The task has left for good, and its process is asked to end.
    ending: Option<Ending>,
    /// A command adds the task, and its first process is not ready.
    entering: Option<Entering>,
    threads: Threads,
    /// Some process of the task had several threads or processes.
    pub(crate) had_several: bool,
    /// How often another program has moved its process to another group.
    pub(crate) strayed: u64,
    pub(crate) end: Option<TaskEnd>,
    /// Whether the process that ended last ended well, and whether any did.
    well: bool,
    pub(crate) succeeded: bool,
    pub(crate) failures: u64,
    pub(crate) replaced: u64,
    /// Times of the present process before the schedule began.
    had: Times,
    /// Times of the ended processes since then.
    pub(crate) sum: Times,
}

/// The first process of a task that a command adds.
#[derive(Clone, Debug)]
enum Entering {
    /// It is started, or initialises.
    Starts,
    /// It is being killed. The reason is reported when its group is empty; without one, the command knows.
    Fails(Option<String>),
}

/// The end of a process whose task has left.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The scheduler learns that it leaves the process alone.
    Begins {
        grace: Span,
    },
    /// The process has received SIGTERM, and is killed at this instant.
    Asked {
        limit: Span,
    },
    Killed,
}

impl Task {
    fn new(home: Home) -> Task {
        Task {
            home,
            life: Life::Alive,
            incarnation: 0,
            pid: None,
            signalled: false,
            init_limit: None,
            initialises_idle: false,
            ending: None,
            entering: None,
            threads: Threads::Unknown,
            had_several: false,
            strayed: 0,
            end: None,
            well: true,
            succeeded: false,
            failures: 0,
            replaced: 0,
            had: Times::default(),
            sum: Times::default(),
        }
    }
}

pub(crate) struct Lives<P: Processes> {
    plan: Arc<Plan>,
    threads: Arc<ThreadsOfPrograms>,
    pub(crate) processes: P,
    pub(crate) tasks: Vec<Task>,
    tasks_by_group: HashMap<Group, TaskId>,
    tasks_by_pid: HashMap<i32, TaskId>,
    requests: Arc<Requests>,
    pub(crate) first_spawn_error: Option<Error>,
    /// The schedule has begun.
    begun: bool,
    /// From here on processes end because the run does: that says nothing about them, and nothing follows from it.
    closing: bool,
    /// The process of this task has ended, and the run with it.
    pub(crate) stopped_by: Option<TaskId>,
    /// Children that were reaped and were no process of a task, since the supervisor looked.
    pub(crate) strangers: Vec<(i32, TaskEnd)>,
    /// The ends of processes of tasks, since the supervisor looked.
    pub(crate) ends: Vec<(TaskId, TaskEnd)>,
    /// The first processes of added tasks: ready, with their process id, or the reason why there is none. Since the supervisor looked.
    pub(crate) entered: Vec<(TaskId, Result<Option<i32>, String>)>,
    /// Messages that did not fit into the ring yet.
    pub(crate) outgoing: VecDeque<Message<P::Resume>>,
    /// The task whose threads are counted next.
    next_look: usize,
    /// The task whose process is looked for next.
    next_place: usize,
}

impl<P: Processes> Lives<P> {
    /// Tasks without processes so far, at home in these groups.
    pub(crate) fn new(plan: Arc<Plan>, processes: P, homes: Vec<Home>) -> Lives<P> {
        let life = |process: &Process| if process.is_reserved { Life::Ended } else { Life::Alive };
        let task = |(home, process)| Task { life: life(process), ..Task::new(home) };
        Lives {
            tasks_by_group: homes.iter().map(|home| home.group).zip((0..).map(TaskId)).collect(),
            tasks_by_pid: HashMap::with_capacity(homes.len()),
            requests: Arc::new(Requests::new(homes.len())),
            tasks: homes.into_iter().zip(&plan.processes).map(task).collect(),
            threads: Arc::new(plan.threads()),
            plan,
            processes,
            first_spawn_error: None,
            begun: false,
            closing: false,
            stopped_by: None,
            strangers: Vec::new(),
            ends: Vec::new(),
            entered: Vec::new(),
            outgoing: VecDeque::new(),
            next_look: 0,
            next_place: 0,
        }
    }

    /// Where the scheduler asks.
    pub(crate) fn requests(&self) -> Arc<Requests> {
        self.requests.clone()
    }

    /// Starts the present process of a task, which does not run yet.
    /// Threads of other programs come with these.
    pub(crate) fn spawn(&mut self, task: TaskId) -> Result<(), Error> {
        let process = &self.plan.processes[task.index()];
        if process.thread_of.is_some() || process.is_reserved {
            return Ok(());
        }
        let known = &self.tasks[task.index()];
        let class = match known.life {
            // An initialisation beside the schedule runs in idle time, for half of its limit.
            Life::Initialising => Class::Idle,
            // The process does not wait at the end of its initialisation. It must not keep the CPU from this thread, which then stops it.
            _ if !self.begun && self.initialises_observed(task) => Class::Other,
            _ => self.class_of(task),
        };
        let pid = self.processes.spawn(task, known.home.group, known.incarnation, class)?;
        self.tasks_by_pid.insert(pid, task);
        self.tasks[task.index()].pid = Some(pid);
        Ok(())
    }

    fn initialises_observed(&self, task: TaskId) -> bool {
        let process = &self.plan.processes[task.index()];
        process.init && process.observed.is_some()
    }

    /// The scheduling class in which the process of a task begins. Outside of segments a program is an ordinary process, with all its threads.
    fn class_of(&self, task: TaskId) -> Class {
        if self.plan.processes[task.index()].segments { Class::Other } else { self.plan.class(task) }
    }

    /// Starts the process that takes the place of one that has ended. It is born frozen and waits for the next job, or it initialises
    /// first. Without it the task has failed.
    fn spawn_next(&mut self, task: TaskId) {
        let process = &self.plan.processes[task.index()];
        let (init, per_job) = (process.init, process.per_job);
        let limit = self.processes.now() + self.plan.init_timeout;
        let known = &mut self.tasks[task.index()];
        let group = known.home.group;
        known.incarnation += 1;
        known.replaced += u64::from(!per_job && known.entering.is_none());
        known.had = Times::default();
        known.threads = Threads::Unknown;
        known.life = if init { Life::Initialising } else { Life::Alive };
        known.init_limit = init.then_some(limit);
        known.initialises_idle = init;
        let ready = self.processes.prepare(group).what("cannot freeze an empty group");
        let started = ready.and_then(|()| self.spawn(task)).and_then(|()| match init {
            true => self.processes.start(group).what("cannot start the initialisation"),
            false => Ok(()),
        });
        match started {
            Ok(()) if init => {}
            Ok(()) => self.ready(task, None),
            Err(e) if self.tasks[task.index()].entering.is_some() => self.fail_entry(task, Some(e.to_string())),
            Err(e) => {
                self.first_spawn_error.get_or_insert(e);
                self.fail(task);
            }
        }
    }

    /// Starts the first process of a task that a command adds. It is born frozen, or it initialises first. [`Lives::entered`] has the result.
    pub(crate) fn take_in(&mut self, task: TaskId, process: Process) -> Arc<Plan> {
        let known = &mut self.tasks[task.index()];
        if known.life != Life::Ended {
            let reason = "the process of an earlier command has not ended".to_owned();
            self.entered.push((task, Err(reason)));
            return self.plan.clone();
        }
        let group = known.home.group;
        *known = Task { life: known.life, incarnation: known.incarnation, ..Task::new(known.home) };
        known.entering = Some(Entering::Starts);
        self.plan = Arc::new(self.plan.with_process(task, process));
        match self.processes.take_in(task, self.plan.clone()) {
            Ok(()) => self.spawn_next(task),
            Err(e) => self.refuse_entry(task, e.to_string()),
        }
        self.tasks_by_group.insert(group, task);
        self.plan.clone()
    }

    /// The process of a task that a command was to add is not needed.
    pub(crate) fn dismiss(&mut self, task: TaskId) {
        if self.tasks[task.index()].life == Life::Gone {
            self.tasks[task.index()].life = Life::Ended;
        } else {
            self.fail_entry(task, None);
        }
    }

    /// A task gets no process.
    fn refuse_entry(&mut self, task: TaskId, reason: String) {
        let known = &mut self.tasks[task.index()];
        (known.entering, known.life, known.init_limit) = (None, Life::Ended, None);
        self.entered.push((task, Err(reason)));
    }

    /// The process of a task that a command was to add is killed.
    fn fail_entry(&mut self, task: TaskId, reason: Option<String>) {
        let known = &mut self.tasks[task.index()];
        (known.entering, known.life, known.init_limit) = (Some(Entering::Fails(reason)), Life::Dying, None);
        let group = known.home.group;
        let leads = known.pid.is_some_and(|pid| self.tasks_by_pid.contains_key(&pid));
        // A process that cannot be killed keeps the place.
        let _ = self.processes.kill(group);
        if !leads && !self.processes.populated(group).unwrap_or(false) {
            self.end_entry(task, None);
        }
    }

    /// The group of a task that a command was to add is empty.
    fn end_entry(&mut self, task: TaskId, end: Option<TaskEnd>) {
        let known = &mut self.tasks[task.index()];
        let entering = known.entering.take();
        (known.life, known.init_limit) = (Life::Ended, None);
        let reason = match entering {
            Some(Entering::Fails(reason)) => reason,
            _ => Some(end.map_or("its process has ended".to_owned(), |end| format!("its process {end}"))),
        };
        self.entered.extend(reason.map(|reason| (task, Err(reason))));
    }

    fn ready(&mut self, task: TaskId, resume: Option<P::Resume>) {
        let known = &mut self.tasks[task.index()];
        if known.entering.take().is_some() {
            self.entered.push((task, Ok(known.pid)));
        }
        let incarnation = known.incarnation;
        self.outgoing.push_back(Message::Ready { task, incarnation, resume });
    }

    /// The task has no process, and gets no other.
    fn fail(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        (known.life, known.init_limit) = (Life::Gone, None);
        let incarnation = known.incarnation;
        self.outgoing.push_back(Message::Exit { task, incarnation, regular: false, replaced: false });
    }

    /// A replacement has signalled the end of its initialisation.
    fn initialised(&mut self, task: TaskId) {
        let group = self.tasks[task.index()].home.group;
        let frozen = self.processes.stop(group);
        self.processes.set_class(group, self.class_of(task));
        let observed = self.plan.processes[task.index()].observed.is_some();
        let known = &mut self.tasks[task.index()];
        (known.life, known.init_limit) = (Life::Alive, None);
        match (frozen, self.fetch(task)) {
            (Ok(()), Some(resume)) => self.ready(task, Some(resume)),
            // It waits for no descriptor.
            (Ok(()), None) if observed => self.ready(task, None),
            _ if self.tasks[task.index()].entering.is_some() => {
                self.fail_entry(task, Some("its process cannot be resumed after its initialisation".to_owned()));
            }
            // It is gone, or has changed its user; then it cannot be resumed.
            _ => self.replace(task),
        }
    }

    /// Kills the rest of the task's process. The next one is started when the group is empty.
    fn replace(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        known.life = Life::Dying;
        let group = known.home.group;
        if let Err(e) = self.processes.kill(group).what("cannot end a process that is to be replaced") {
            self.first_spawn_error.get_or_insert(e);
            self.fail(task);
        } else if self.tasks[task.index()].pid.is_none_or(|pid| !self.tasks_by_pid.contains_key(&pid))
            && !self.processes.populated(group).unwrap_or(false)
        {
            self.emptied(task);
        }
    }

    /// Asks the process of a task that has left to end, and has it killed after the time of grace. Returns whether that is not to be repeated: a process
    /// that initialises, or is being replaced, cannot be asked yet.
    pub(crate) fn end(&mut self, task: TaskId, grace: Span) -> bool {
        let known = &mut self.tasks[task.index()];
        if known.life != Life::Alive || known.ending.is_some() {
            return !matches!(known.life, Life::Initialising | Life::Dying);
        }
        known.ending = Some(Ending::Begins { grace });
        let incarnation = known.incarnation;
        // From then on the scheduler acts no more on the group. To the engine the task is gone already.
        self.outgoing.push_back(Message::Exit { task, incarnation, regular: true, replaced: false });
        true
    }

    /// The next part of the ends that were begun in an earlier round.
    fn advance_ends(&mut self) {
        let now = self.processes.now();
        for known in self.tasks.iter_mut().filter(|known| known.life == Life::Alive) {
            let group = known.home.group;
            known.ending = match known.ending {
                Some(Ending::Begins { grace }) => {
                    // A process that cannot be asked is killed at once.
                    let asked = self.processes.ask_to_end(group).is_ok();
                    Some(Ending::Asked { limit: if asked { now + grace } else { now } })
                }
                Some(Ending::Asked { limit }) if limit <= now => {
                    // It is tried again as long as it fails.
                    self.processes.kill(group).is_ok().then_some(Ending::Killed).or(known.ending)
                }
                other => other,
            };
        }
    }

    /// Lets the processes that want it run before the schedule, all at once.
    pub(crate) fn initialise(&mut self) -> Result<(), Error> {
        let limit = self.processes.now() + self.plan.init_timeout;
        for (known, _) in self.tasks.iter_mut().zip(&self.plan.processes).filter(|(_, process)| process.init) {
            (known.life, known.init_limit) = (Life::Initialising, Some(limit));
        }
        let all = self.tasks.iter().zip(&self.plan.processes);
        for (known, _) in all.filter(|(_, process)| process.init && process.thread_of.is_none()) {
            self.processes.start(known.home.group).what("cannot start the initialisation")?;
        }
        Ok(())
    }

    /// Whether all processes have initialised that are to before the schedule begins.
    ///
    /// # Errors
    /// When one of them has failed, or the limit has been reached.
    pub(crate) fn have_initialised(&self) -> Result<bool, Error> {
        let mut late = Vec::new();
        for (known, process) in self.tasks.iter().zip(&self.plan.processes).filter(|(_, process)| process.init) {
            match (known.life, known.end) {
                // It waits for the threads of its program.
                (Life::Initialising, _) if known.signalled => {}
                (Life::Initialising, _) => late.push(process.name.as_str()),
                // The workload may say itself that the schedule goes without it.
                (Life::Gone, Some(end)) if process.thread_of.is_none() && process.on_exit != Some(OnExit::End) => {
                    return Err(Error::InitFailed { name: process.name.clone(), end });
                }
                _ => {}
            }
        }
        let now = self.processes.now();
        if self.tasks.iter().any(|task| task.life == Life::Initialising && task.init_limit.is_some_and(|l| l <= now)) {
            return Err(Error::InitTimeout { names: late.join(", "), timeout: self.plan.init_timeout });
        }
        Ok(late.is_empty())
    }

    /// A process has signalled before the schedule, which ends its initialisation.
    pub(crate) fn signalled_early(&mut self, task: TaskId) -> Result<(), Error> {
        if self.tasks[task.index()].life != Life::Initialising {
            return Ok(());
        }
        let program = self.plan.processes[task.index()].thread_of;
        if let Some(program) = program {
            let (own, of) = (self.tasks[task.index()].home.group, self.tasks[program.index()].home.group);
            let class = self.class_of(task);
            let name = |task: TaskId| self.plan.processes[task.index()].name.clone();
            self.processes.adopt(task, of, own, class).map_err(|source| Error::ThreadRefused {
                name: name(task),
                program: name(program),
                source,
            })?;
            let known = &mut self.tasks[task.index()];
            (known.life, known.init_limit) = (Life::Alive, None);
        }
        let program = program.unwrap_or(task);
        self.tasks[task.index()].signalled = true;
        // Threads that have not attached are in the group of the program.
        let of_program = self.threads.of(program);
        let waits = of_program.iter().any(|task| self.tasks[task.index()].life == Life::Initialising);
        let known = &mut self.tasks[program.index()];
        if known.life == Life::Initialising && known.signalled && !waits {
            (known.life, known.init_limit) = (Life::Alive, None);
            let group = known.home.group;
            self.processes.stop(group).what("cannot end the initialisation")?;
            if self.initialises_observed(program) {
                self.processes.set_class(group, self.class_of(program));
            }
        }
        Ok(())
    }

    /// Whether the task is one of several of its program.
    fn is_thread(&self, task: TaskId) -> bool {
        self.plan.processes[task.index()].thread_of.is_some() || !self.threads.of(task).is_empty()
    }

    /// The schedule begins: what processes do from now on is counted.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
        for task in (0..self.tasks.len() as u32).map(TaskId) {
            let had = self.times(task, self.tasks[task.index()].pid);
            self.tasks[task.index()].had = had;
        }
    }

    /// The schedule is over: later consumption of processes is not counted.
    pub(crate) fn settle(&mut self) {
        if !std::mem::replace(&mut self.closing, true) {
            for (pid, task) in self.tasks_by_pid.clone() {
                self.add_times(task, Some(pid));
            }
            for task in (0..self.tasks.len() as u32).map(TaskId) {
                if self.plan.processes[task.index()].thread_of.is_some() && self.tasks[task.index()].life == Life::Alive
                {
                    self.add_times(task, None);
                }
            }
        }
    }

    /// The run ends: all processes are killed and all groups removed.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.settle();
        let destroyed = self.processes.destroy();
        self.reap();
        destroyed
    }

    /// Collects ended processes and emptied groups.
    pub(crate) fn reap(&mut self) {
        while let Some(pid) = self.processes.ended() {
            let task = self.tasks_by_pid.remove(&pid);
            if let Some(task) = task.filter(|_| self.closing) {
                // Its number may be another process's from now on.
                let _ = self.processes.leader_exited(self.tasks[task.index()].home.group);
            }
            let task = task.filter(|_| !self.closing);
            if let Some(task) = task {
                self.add_times(task, Some(pid));
            }
            let Some(end) = self.processes.reap(pid) else { break };
            let Some(task) = task else {
                self.strangers.push((pid, end));
                continue;
            };
            let per_job = self.plan.processes[task.index()].per_job;
            let known = &mut self.tasks[task.index()];
            // One that is replaced, or whose task has left for good, was ended by Takt. Before a task is there, its command fails by that.
            if known.entering.is_some() {
                known.end = Some(end);
            } else if known.life != Life::Dying && known.ending.is_none() {
                self.ends.push((task, end));
                known.well = end == TaskEnd::Exited(0);
                known.succeeded |= known.well;
                known.failures += u64::from(!known.well);
                if !(per_job && known.well && known.end.is_some()) {
                    known.end = Some(end);
                }
            }
            // A group that cannot be read is one that is gone.
            if self.processes.leader_exited(known.home.group).unwrap_or(true) {
                self.emptied(task);
            }
        }
        if self.closing {
            return;
        }
        let mut found = Vec::new();
        self.processes.emptied(|group| found.push(group));
        for group in found {
            self.emptied(self.tasks_by_group[&group]);
        }
        for task in (0..self.tasks.len() as u32).map(TaskId) {
            let known = &self.tasks[task.index()];
            let lives = matches!(known.life, Life::Alive | Life::Dying | Life::Initialising);
            let led = known.pid.is_some_and(|pid| self.tasks_by_pid.contains_key(&pid));
            let unnoticed = !self.processes.notifies() && lives && !led && known.pid.is_some();
            let left = known.init_limit.filter(|_| known.life == Life::Initialising).map(|l| l - self.processes.now());
            let late = left.is_some_and(|left| left < Span::ZERO);
            if known.initialises_idle && left.is_some_and(|left| left < self.plan.init_timeout / 2) {
                // Other programs of the machine can take all idle time.
                self.processes.set_class(known.home.group, Class::Other);
                self.tasks[task.index()].initialises_idle = false;
            }
            let known = &self.tasks[task.index()];
            if unnoticed && !self.processes.populated(known.home.group).unwrap_or(false) {
                self.emptied(task);
            } else if self.begun && late {
                if known.entering.is_some() {
                    let limit = self.plan.init_timeout;
                    let reason = format!("its process has not signalled the end of its initialisation within {limit}");
                    self.fail_entry(task, Some(reason));
                    continue;
                }
                // A replacement that does not initialise is none.
                let _ = self.processes.kill(known.home.group);
                self.fail(task);
            }
        }
    }

    /// Adds what a process of the task has waited for a CPU and used of one, which is then over. One that is started for a job also waits on its way
    /// into its group, which is no part of a turn and cannot be told from that.
    fn add_times(&mut self, task: TaskId, pid: Option<i32>) {
        if self.plan.processes[task.index()].per_job {
            return;
        }
        let now = self.times(task, pid);
        let known = &mut self.tasks[task.index()];
        let had = std::mem::take(&mut known.had);
        let add = |sum: &mut Option<Span>, now: Option<Span>, had: Option<Span>| {
            if let Some(now) = now {
                *sum.get_or_insert_default() += (now - had.unwrap_or_default()).or_zero();
            }
        };
        add(&mut known.sum.waited, now.waited, had.waited);
        add(&mut known.sum.used, now.used, had.used);
    }

    /// Times of the present process or thread of a task.
    fn times(&self, task: TaskId, pid: Option<i32>) -> Times {
        if self.is_thread(task) {
            return Times { waited: None, used: self.processes.thread_time(self.tasks[task.index()].home.group) };
        }
        pid.map(|pid| self.processes.times(pid)).unwrap_or_default()
    }

    /// The thread of a task has ended, alone or with its program.
    fn thread_ended(&mut self, task: TaskId, end: Option<TaskEnd>) {
        if self.tasks[task.index()].life == Life::Gone {
            return;
        }
        self.add_times(task, None);
        let on_exit = self.plan.processes[task.index()].on_exit;
        let known = &mut self.tasks[task.index()];
        let regular = end == Some(TaskEnd::Exited(0));
        (known.life, known.init_limit) = (Life::Gone, None);
        (known.end, known.succeeded) = (end, regular);
        known.failures += u64::from(!regular);
        let incarnation = known.incarnation;
        self.processes.forget_thread(known.home.group);
        self.outgoing.push_back(Message::Exit { task, incarnation, regular, replaced: false });
        if on_exit == Some(OnExit::Stop) && self.stopped_by.is_none() {
            self.stopped_by = Some(task);
            self.outgoing.push_back(Message::Stop);
        }
    }

    /// Finds the threads that have ended, and the ones that cannot end since they are frozen.
    fn look_at_threads(&mut self) {
        if !self.begun || !self.threads.are_there() {
            return;
        }
        let threads = self.threads.clone();
        for program in (0..self.tasks.len() as u32).map(TaskId) {
            let known = &self.tasks[program.index()];
            let lives = known.pid.is_some_and(|pid| self.tasks_by_pid.contains_key(&pid));
            let of_program = threads.of(program);
            if !lives || of_program.is_empty() {
                continue;
            }
            let states: Vec<(TaskId, ThreadState)> = std::iter::once(program)
                .chain(of_program.iter().copied())
                .filter(|task| self.tasks[task.index()].life == Life::Alive)
                .map(|task| (task, self.processes.thread_state(self.tasks[task.index()].home.group)))
                .collect();
            if states.iter().any(|(_, state)| *state == ThreadState::Dying) {
                // The program has ended or was killed. Its end is reported when all of its threads have ended.
                for (task, _) in states {
                    // Each is started in any case when it is dispatched.
                    let _ = self.processes.let_die(self.tasks[task.index()].home.group);
                }
                continue;
            }
            let ended = |task: TaskId| {
                let state = states.iter().find(|(of, _)| *of == task);
                state.is_none_or(|(_, state)| *state == ThreadState::Ended)
            };
            if states.first() == Some(&(program, ThreadState::Alive)) && of_program.iter().copied().all(ended) {
                self.processes.end_displaced(self.tasks[program.index()].home.group);
            }
            // All at once: the end of the program is reported by its parent, this process.
            let alive = states.iter().any(|(_, state)| *state == ThreadState::Alive);
            for (task, _) in states.into_iter().filter(|(_, state)| alive && *state == ThreadState::Ended) {
                self.thread_ended(task, Some(TaskEnd::Exited(0)));
            }
        }
    }

    /// The last process of a task's group has ended.
    fn emptied(&mut self, task: TaskId) {
        let end = self.tasks[task.index()].end;
        if self.tasks[task.index()].entering.is_some() {
            self.tasks[task.index()].end = None;
            return self.end_entry(task, end);
        }
        for thread in self.threads.clone().of(task) {
            self.thread_ended(*thread, end);
        }
        let Process { per_job, on_exit, .. } = self.plan.processes[task.index()];
        let known = &mut self.tasks[task.index()];
        let (incarnation, regular) = (known.incarnation, known.well);
        match known.life {
            Life::Ended | Life::Gone => {}
            Life::Dying => self.spawn_next(task),
            // The scheduler knows.
            Life::Alive if known.ending.is_some() => known.life = Life::Gone,
            // A replacement that fails in its initialisation would do so again.
            Life::Initialising if self.begun => self.fail(task),
            Life::Alive if per_job => {
                known.life = Life::Ended;
                self.outgoing.push_back(Message::JobDone { task, incarnation, regular });
            }
            // The scheduler asks for the next process when it leaves the group alone.
            Life::Alive if on_exit == Some(OnExit::Restart) => {
                known.life = Life::Ended;
                self.outgoing.push_back(Message::Exit { task, incarnation, regular, replaced: true });
            }
            Life::Alive | Life::Initialising => {
                known.life = Life::Gone;
                self.outgoing.push_back(Message::Exit { task, incarnation, regular, replaced: false });
                if on_exit == Some(OnExit::Stop) && self.stopped_by.is_none() {
                    self.stopped_by = Some(task);
                    self.outgoing.push_back(Message::Stop);
                }
            }
        }
    }

    /// Looks at all processes before the schedule begins, so that none is dispatched by freezing only because it was not looked at.
    pub(crate) fn look_at_all(&mut self) {
        (0..self.tasks.len().div_ceil(LOOKS)).for_each(|_| self.look());
    }

    /// Reports which processes have one thread, and which have several threads or processes. That concerns dispatch by priority, programs with a page, and
    /// programs whose sleeps end their jobs. A process counts as one with a single thread only when it has run: a shell that has not, may still start others.
    pub(crate) fn look(&mut self) {
        self.advance_ends();
        self.look_at_threads();
        self.take_back();
        let by_priority = self.plan.dispatch != Dispatch::Freeze;
        for _ in 0..self.tasks.len().min(LOOKS) {
            let index = self.next_look % self.tasks.len();
            self.next_look = index + 1;
            let (known, process) = (&mut self.tasks[index], &self.plan.processes[index]);
            let pid = known.pid.filter(|pid| self.tasks_by_pid.contains_key(pid));
            let (Life::Alive, false, None) = (known.life, process.per_job, process.kernel) else { continue };
            if !by_priority
                && process.observed != Some(JobEnd::Sleep)
                && !self.processes.uses_page(TaskId(index as u32))
            {
                continue;
            }
            let group = known.home.group;
            // Without the process that was started, a process that it has started may be left.
            let led = pid.is_some() || process.thread_of.is_some();
            let several = match self.processes.threads(group) {
                Some(threads) => threads > usize::from(led),
                None => !led,
            };
            let found = match (known.threads, several) {
                (_, true) => Threads::Several,
                (Threads::Unknown, false) => {
                    let used = pid.and_then(|pid| self.processes.times(pid).used);
                    let has_run = process.init || used.is_some_and(|used| used > Span::ZERO);
                    if has_run { Threads::One } else { Threads::Unknown }
                }
                // A thread that has ended may have others after it.
                (before, false) => before,
            };
            // Outside of its segments a program is an ordinary process.
            if by_priority && found == Threads::Several && !process.segments {
                // Also those that were started since the last round.
                self.processes.set_priorities(group, highest(self.plan.priority));
                known.had_several = true;
            }
            if found != known.threads {
                known.threads = found;
                let (task, incarnation) = (TaskId(index as u32), known.incarnation);
                let several = found == Threads::Several;
                self.outgoing.push_back(Message::Threads { task, incarnation, several });
            }
        }
    }

    /// Looks whether processes are in their groups. In another one a process would not be stopped.
    fn take_back(&mut self) {
        for _ in 0..self.tasks.len().min(PLACES) {
            let index = self.next_place % self.tasks.len();
            self.next_place = index + 1;
            let known = &mut self.tasks[index];
            let lives = known.pid.is_some_and(|pid| self.tasks_by_pid.contains_key(&pid));
            if !lives || known.life == Life::Dying {
                continue;
            }
            let group = known.home.group;
            match self.processes.take_back(group) {
                Ok(false) => {}
                Ok(true) => known.strayed += 1,
                // A process that cannot be scheduled does not run either.
                Err(_) => {
                    known.strayed += 1;
                    let _ = self.processes.kill(group);
                }
            }
        }
    }

    /// Does what the scheduler has asked for.
    pub(crate) fn serve(&mut self) {
        let mut asked = Vec::new();
        self.requests.take(|task, incarnation, kinds| {
            let wanted = Request::ALL.into_iter().filter(|request| kinds & *request as u8 != 0);
            asked.extend(wanted.map(|request| (TaskId(task as u32), incarnation, request)));
        });
        for (task, incarnation, request) in asked {
            let known = &self.tasks[task.index()];
            match (request, known.life) {
                (Request::Resume, _) if known.incarnation == incarnation => {
                    let resume = self.fetch(task);
                    self.outgoing.extend(resume.map(|resume| Message::Resume { task, incarnation, resume }));
                }
                // The scheduler has named the process that it waits for since it asked.
                (Request::Initialised, Life::Initialising) if known.incarnation == incarnation => {
                    self.initialised(task)
                }
                (Request::Next, Life::Ended) if known.incarnation == incarnation => self.spawn_next(task),
                (Request::Next, Life::Alive | Life::Initialising) if known.incarnation == incarnation => {
                    self.replace(task);
                }
                _ => {}
            }
        }
    }

    /// Hands over the messages for which there is room, and says whether there were any.
    pub(crate) fn send(&mut self, inbox: &mut Producer<Message<P::Resume>>) -> bool {
        let mut sent = false;
        while let Some(message) = self.outgoing.pop_front() {
            match inbox.push(message) {
                Ok(()) => sent = true,
                Err(rtrb::PushError::Full(message)) => {
                    self.outgoing.push_front(message);
                    break;
                }
            }
        }
        sent
    }

    /// The means to resume a task's process. Without it the process waits for ever after its first completion, which shows as overruns;
    /// that can only be when it is gone or belongs to another process now.
    pub(crate) fn fetch(&self, task: TaskId) -> Option<P::Resume> {
        let pid = self.tasks[task.index()].pid.filter(|pid| self.tasks_by_pid.contains_key(pid))?;
        self.processes.fetch(task, pid)
    }
}

impl<P: Processes> Drop for Lives<P> {
    /// Also on the way out of an error the groups go, and with them every process.
    fn drop(&mut self) {
        self.closing = true;
        let _ = self.processes.destroy();
        self.reap();
    }
}

/// Makes the groups: one partition per `fifo` partition, and one per task where tasks are placed one by one.
/// `present` are the CPUs that are there.
pub(crate) fn homes(system: &System, plan: &Plan, present: &CpuSet, groups: &mut impl Groups) -> io::Result<Vec<Home>> {
    let mut homes: Vec<Option<Home>> = vec![None; system.tasks.len()];
    let mut sets_of: Vec<Vec<CpuSet>> = vec![Vec::new(); system.partitions.len()];
    for slice in system.windows.iter().flat_map(|w| &w.slices) {
        let cpus = plan.real(&slice.cpus, present);
        for partition in [slice.sc, slice.be].into_iter().flatten() {
            let sets = &mut sets_of[partition.index()];
            if !sets.contains(&cpus) {
                sets.push(cpus);
            }
        }
    }
    for (partition, sets) in system.partitions.iter().zip(sets_of) {
        // The widest set that it will ever get: what it finds while it initialises.
        let widest = sets.iter().copied().max_by_key(CpuSet::len).unwrap_or_else(|| plan.real(&system.cpus, present));
        if partition.policy.is_none() {
            let handle = groups.add(&widest, partition.tasks.len(), sets.len() > 1)?;
            for (i, task) in (0..).zip(&partition.tasks) {
                let group = Group { partition: handle, index: i };
                homes[task.index()] = Some(Home { group, partition: handle });
            }
        } else {
            for task in &partition.tasks {
                homes[task.index()] = Some(own_partition(groups, &widest)?);
            }
        }
    }
    let rest = homes.into_iter().zip(&system.tasks).zip(&plan.processes);
    rest.map(|((home, task), process)| match (home, process.kernel) {
        (Some(home), _) => Ok(home),
        _ if process.is_reserved => own_partition(groups, &plan.own_cpus(system, present)),
        // It stays there.
        (None, Some(kernel)) => single(groups, &kernel.cpus.unwrap_or(*present), false),
        (None, None) => own_partition(groups, &task.affinity.intersection(&system.cpus)),
    })
    .collect()
}

fn own_partition(groups: &mut impl Groups, cpus: &CpuSet) -> io::Result<Home> {
    single(groups, cpus, cpus.len() > 1)
}

fn single(groups: &mut impl Groups, cpus: &CpuSet, moves: bool) -> io::Result<Home> {
    let partition = groups.add(cpus, 1, moves)?;
    Ok(Home { group: Group { partition, index: 0 }, partition })
}
