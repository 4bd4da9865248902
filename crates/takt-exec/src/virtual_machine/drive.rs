//! Both halves of the executive over a virtual machine, turn by turn on one thread: the supervisor gets its turns while the scheduler waits.

use super::{Doing, Faults, Machine, World};
use crate::actuator::Actuator;
use crate::causes::Found;
use crate::change::Change;
use crate::control::{self, Answer, Command, Control, Handle, Order};
use crate::life::Waits;
use crate::life::{Life, Message, Program as At, Resume};
use crate::lives::{Lives, homes};
use crate::plan::{Dispatch, Issuer, NewTask, Observer, Plan};
use crate::report::Error;
use crate::resumes::Resumes;
use crate::scheduler::{Heard, Item, Links, Outcome, Scheduler, Setup, Waiting};
use crate::sleeper::Rest;
use crate::supervisor::Watched;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use takt_core::engine::{Engine, Input};
use takt_core::model::{Completion, Execution, Program, TaskId, WindowTable, scaled};
use takt_core::record::Record;
use takt_core::time::{Span, Time};
use takt_core::work::Work;
use takt_trace::Stamped;

/// Time between two rounds of the supervisor, as that of the real one.
const ROUND: Span = Span::from_ms(47);

/// The observations of a run, and its remains.
pub(crate) struct Ran {
    pub(crate) records: Vec<Record>,
    pub(crate) steps: Vec<(Time, Vec<Input>)>,
    /// The window tables that may take over.
    pub(crate) tables: Vec<WindowTable>,
    /// The tasks that were added.
    pub(crate) added: Vec<NewTask>,
    /// The jobs that a reaction would follow.
    pub(crate) found: Vec<Found>,
    /// The job by which the run is to end, if its report found no room.
    pub(crate) ends_by: Option<Found>,
    pub(crate) outcome: Outcome,
    pub(crate) refusals: u64,
    /// Processes that were moved out of their groups, and how often one was moved back.
    pub(crate) escapes: [u64; 2],
    /// Time for which the machine stood still.
    pub(crate) paused: Span,
    pub(crate) replaced: u64,
    pub(crate) ended: u64,
}

#[derive(Default)]
struct Notes {
    records: Vec<Record>,
    steps: Vec<(Time, Vec<Input>)>,
    tables: Vec<WindowTable>,
    added: Vec<NewTask>,
}

impl Observer for Notes {
    fn added(&mut self, _: Time, new: &NewTask, _: Option<i32>) -> io::Result<()> {
        self.added.push(new.clone());
        Ok(())
    }
    fn table(&mut self, table: &WindowTable) -> io::Result<()> {
        self.tables.push(table.clone());
        Ok(())
    }
    fn record(&mut self, record: &Stamped) -> io::Result<()> {
        self.records.push(record.record);
        Ok(())
    }
    fn step(&mut self, now: Time, inputs: &[Input]) -> io::Result<()> {
        self.steps.push((now, inputs.to_vec()));
        Ok(())
    }
}

/// Commands from outside, each at an instant of the schedule.
pub(crate) struct Commands {
    pub(crate) control: Control,
    pub(crate) handle: Handle,
    /// In ascending order.
    pub(crate) list: VecDeque<(Time, Command)>,
    /// How many were sent, and the answers as they come.
    pub(crate) answers: Arc<Mutex<(usize, Vec<Answer>)>>,
}

/// Runs a plan on a machine. `programs` describes the jobs of each task.
///
/// # Errors
/// Those of a run. The machine is empty then, too.
///
/// # Panics
/// When the executive and the machine disagree about who runs, or time stands still.
pub(crate) fn run(engine: Engine, plan: &Arc<Plan>, programs: &[Program], machine: &mut Machine) -> Result<Ran, Error> {
    run_controlled(engine, plan, programs, machine, None)
}

/// As [`run`], with commands.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub(crate) fn run_controlled(
    engine: Engine,
    plan: &Arc<Plan>,
    programs: &[Program],
    machine: &mut Machine,
    commands: Option<Commands>,
) -> Result<Ran, Error> {
    let mut programs = programs.to_vec();
    programs.resize(plan.processes.len(), Program::AS_DECLARED);
    machine.world().programs = programs;
    let result = drive(engine, plan, machine, commands);
    assert!(machine.world().is_empty(), "something is left on the machine");
    result
}

fn drive(
    mut engine: Engine,
    plan: &Arc<Plan>,
    machine: &mut Machine,
    commands: Option<Commands>,
) -> Result<Ran, Error> {
    let n = plan.processes.len();
    let homes = homes(engine.system(), plan, &engine.system().cpus, machine).expect("a virtual machine has room");
    let mut lives = Lives::new(plan.clone(), machine.clone(), homes);
    for task in (0..n as u32).map(TaskId) {
        lives.spawn(task)?;
    }
    lives.initialise()?;
    while !lives.have_initialised()? {
        let next = machine.world().next();
        let round = machine.world().now + ROUND;
        machine.world().advance(next.min(round));
        let heard = machine.world().hear();
        for (task, _) in heard {
            lives.signalled_early(task)?;
        }
        lives.reap();
    }
    let (mut inbox, scheduler_inbox) = RingBuffer::new(machine.world().faults.inbox().unwrap_or(4 * n + 16));
    let (scheduler_outbox, mut outbox) = RingBuffer::new(machine.world().ring);
    let (scheduler_returned, mut returned) = RingBuffer::new(1);
    let (control, mut orders) = match commands {
        Some(Commands { control, handle, list, answers }) => {
            control::make_room(&mut engine);
            (Some(control), Orders { handle: Some(handle), list, answers })
        }
        None => (None, Orders::default()),
    };
    let links = Links { inbox: scheduler_inbox, outbox: scheduler_outbox, returned: scheduler_returned };
    let resumes = Resumes::new(if plan.few_descriptors { 1 } else { usize::MAX }, n);
    let setup = Setup::new(engine, machine.clone(), plan, &lives, links, resumes);
    let lost = setup.lost.clone();
    lives.look_at_all();
    lives.send(&mut inbox);
    lives.begin();
    let mut notes = Notes::default();
    let mut observer = Watched::new(&mut notes, control, plan, lost);
    machine.world().quiet = setup.quiet;
    for task in (0..n as u32).map(TaskId).filter(|task| setup.slots[task.index()].follows) {
        machine.follow(task, Some(setup.slots[task.index()].group));
    }
    let mut scheduler = Scheduler::new(setup);
    let start = scheduler.begin();

    let mut turns = Turns {
        machine,
        lives: &mut lives,
        observer: &mut observer,
        inbox: &mut inbox,
        outbox: &mut outbox,
        returned: &mut returned,
        orders: &mut orders,
        agreement: Agreement::new(n),
        start,
        round: machine.world().now,
        stalls: Stalls::default(),
        heard: VecDeque::new(),
        messages: false,
        stepped: false,
        supervisor_is_next: false,
        instant: Span::ZERO,
        turns: 0,
    };
    let end = scheduler.run(&mut turns).expect("a virtual machine can wait");
    if machine.world().refusals == 0 {
        let own = scheduler
            .slots()
            .iter()
            .filter(|slot| !matches!(slot.program, At::Absent { .. } | At::Gone | At::Outside { .. }));
        own.for_each(|slot| {
            let world = machine.world();
            // One that sleeps until its next job is not frozen.
            let sleeps = slot.waits != Waits::No && world.is_asleep(slot.group);
            assert!(sleeps || world.frozen(slot.group), "a process runs after the end");
        });
    }
    let closed = lives.close();
    assert!(closed.is_ok());
    observer.drain(&mut outbox, &mut returned);
    observer.end();
    let found = observer.found.iter().map(|(found, _)| *found).collect();
    let ends_by = lives.requests().end().map(Found::of);
    let outcome = scheduler.finish(end);
    let (replaced, ended) = lives.tasks.iter().fold((0, 0), |(replaced, ended), task| {
        (replaced + task.replaced, ended + u64::from(matches!(task.life, Life::Ended | Life::Gone)))
    });
    let World { refusals, paused, escapes, .. } = *machine.world();
    let escapes = [escapes, lives.tasks.iter().map(|task| task.strayed).sum()];
    drop(lives);
    let Notes { records, steps, tables, added } = notes;
    Ok(Ran { records, steps, tables, added, found, ends_by, outcome, refusals, escapes, paused, replaced, ended })
}

/// The commands that have not been sent.
#[derive(Default)]
struct Orders {
    handle: Option<Handle>,
    list: VecDeque<(Time, Command)>,
    answers: Arc<Mutex<(usize, Vec<Answer>)>>,
}

impl Orders {
    fn next(&self, start: Span) -> Span {
        self.list.front().map_or(Span::MAX, |(at, _)| start + (*at - Time::ZERO))
    }

    fn send(&mut self, now: Span, start: Span) {
        while self.next(start) <= now {
            let (Some((_, command)), Some(handle)) = (self.list.pop_front(), &self.handle) else { return };
            let answers = self.answers.clone();
            answers.lock().expect("no test has failed").0 += 1;
            let answer = Box::new(move |answer| answers.lock().expect("no test has failed").1.push(answer));
            let issuer = Issuer { uid: 0, pid: 1 };
            handle.send(Order { issuer, text: format!("{command:?}"), command, answer });
        }
    }
}

/// Until when each of the two does not get to run.
#[derive(Default)]
struct Stalls {
    scheduler: Span,
    supervisor: Span,
}

/// The scheduler's wait in virtual time: meanwhile the machine works and the supervisor gets its turns.
struct Turns<'a, 'o> {
    machine: &'a Machine,
    lives: &'a mut Lives<Machine>,
    observer: &'a mut Watched<'o>,
    inbox: &'a mut Producer<Message<<Machine as Actuator>::Resume>>,
    outbox: &'a mut Consumer<Item>,
    returned: &'a mut Consumer<Box<Change>>,
    orders: &'a mut Orders,
    agreement: Agreement,
    /// Time zero of the schedule.
    start: Span,
    /// When the supervisor comes if nothing wakes it.
    round: Span,
    stalls: Stalls,
    heard: VecDeque<Heard>,
    /// The supervisor has sent messages.
    messages: bool,
    /// The scheduler has had a turn since the last wait.
    stepped: bool,
    /// The supervisor comes after the scheduler in this instant.
    supervisor_is_next: bool,
    /// The last instant of a turn, and how many turns were at it.
    instant: Span,
    turns: u32,
}

impl Turns<'_, '_> {
    /// When the next sample of a temperature comes.
    fn next_temperature(&self) -> Span {
        self.machine.world().temperatures.front().map_or(Span::MAX, |(at, ..)| self.start + *at)
    }

    fn supervise(&mut self) {
        let now = self.machine.world().now;
        self.machine.world().wake = false;
        self.round = now + ROUND;
        self.lives.reap();
        self.lives.serve();
        self.lives.look();
        self.observer.drain(self.outbox, self.returned);
        self.orders.send(now, self.start);
        while self.next_temperature() <= now {
            let sample = self.machine.world().temperatures.pop_front();
            let message = sample.map(|(_, zone, millidegrees)| Message::Temperature { zone, millidegrees });
            self.lives.outgoing.extend(message);
        }
        let elapsed = (now - self.start).or_zero();
        for _ in 0..2 {
            self.lives.outgoing.extend(self.observer.serve(elapsed, Vec::new));
            self.observer.admit(self.lives);
        }
        for (task, grace) in self.observer.left() {
            self.lives.end(task, grace);
        }
        self.messages |= self.lives.send(self.inbox);
        self.stalls.supervisor = self.machine.world().faults.stall().map_or(now, |stall| now + stall);
    }
}

impl Waiting<Machine> for Turns<'_, '_> {
    fn wait(&mut self, scheduler: &Scheduler<Machine>) -> io::Result<()> {
        let machine = self.machine;
        if std::mem::take(&mut self.stepped) {
            name_jobs(scheduler, machine);
            self.agreement.check(scheduler, machine);
            let now = machine.world().now;
            self.stalls.scheduler = machine.world().faults.stall().map_or(now, |stall| now + stall);
        }
        if std::mem::take(&mut self.supervisor_is_next) {
            self.supervise();
        }
        loop {
            let due = Span::from_ns(self.start.ns().saturating_add((scheduler.due() - Time::ZERO).ns()));
            let now = machine.world().now;
            let called = self.messages || machine.world().has_heard();
            let scheduler_at = if called { now } else { due.max(now) }.max(self.stalls.scheduler);
            let called = machine.world().wakes_supervisor();
            let round = self.round.min(self.orders.next(self.start)).min(self.next_temperature()).max(now);
            let supervisor_at = if called { now } else { round }.max(self.stalls.supervisor);
            let next = machine.world().next().min(scheduler_at).min(supervisor_at);
            self.turns = if next == self.instant { self.turns + 1 } else { 0 };
            self.instant = next;
            assert!(self.turns < 10_000, "time stands still at {}, the engine's next instant {due}", next - self.start);
            machine.world().advance(next);
            let supervisor_first = machine.world().faults.supervisor_first();
            let supervisor_runs = supervisor_at <= next;
            if supervisor_runs && supervisor_first {
                self.supervise();
            }
            if scheduler_at <= next || (self.messages && self.stalls.scheduler <= next) {
                let heard = machine.world().hear();
                self.heard.extend(heard.into_iter().map(|(task, incarnation)| Heard::Completion(task, incarnation)));
                self.heard.extend(machine.world().hear_sources().into_iter().map(Heard::Event));
                self.heard.extend(machine.world().hear_notice().then_some(Heard::Waits));
                self.heard.extend(std::mem::take(&mut self.messages).then_some(Heard::Messages));
                self.stepped = true;
                self.supervisor_is_next = supervisor_runs && !supervisor_first;
                return Ok(());
            }
            if supervisor_runs && !supervisor_first {
                self.supervise();
            }
        }
    }

    fn hear_more(&mut self, _: &Scheduler<Machine>) -> io::Result<()> {
        Ok(())
    }

    fn heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }
}

/// Tells programs that begin a job its need: the scheduler knows which one it is.
fn name_jobs(scheduler: &Scheduler<Machine>, machine: &Machine) {
    let engine = scheduler.engine();
    let system = engine.system();
    let world = &mut *machine.world();
    for process in world.processes.values_mut() {
        let task = process.task;
        let described = &system.tasks[task.index()];
        let handler = described.handler.map_or(Span::ZERO, |handler| handler.runtime);
        let program = &world.programs[task.index()];
        let slot = &scheduler.slots()[task.index()];
        // It was let begin a job that was over before it ran.
        if slot.given && !matches!(process.doing, Doing::Begins | Doing::GivesUp) && process.leader {
            process.doing = Doing::Begins;
            process.turn = process.before;
        }
        if process.doing == Doing::Begins
            && engine.at(task).is_some()
            && let Some(looping) = &mut world.looping[task.index()]
        {
            process.doing = looping.next();
            continue;
        }
        let at = engine.at(task).or(match slot.program {
            At::At { job, .. } if slot.ahead.is_some() => Some(job),
            _ => None,
        });
        if process.doing == Doing::Begins && at.is_some() && !program.steps.is_empty() {
            process.begin(&program.steps, engine.load(task));
            // It continues as soon as it runs.
            process.doing = Doing::Work(Span::ZERO);
            continue;
        }
        process.doing = match (process.doing, at) {
            (Doing::GivesUp, _) => Doing::Work(handler),
            (Doing::Begins, Some(_)) if described.completion == Completion::None => Doing::Work(Span::MAX),
            (Doing::Begins, Some(job)) => Doing::Work(match &program.execution {
                Execution::Declared => engine.declared(task).map_or(Span::MAX, Work::nominal_time),
                execution => {
                    let mut drawn = described.clone();
                    drawn.program.execution = execution.clone();
                    drawn.demand(system.seed, task, job).map_or(Span::MAX, |need| scaled(need, engine.load(task)))
                }
            }),
            (doing, _) => doing,
        };
    }
}

/// The invariants between the executive and the machine after each step.
struct Agreement {
    /// By task: since when it has been without a process, and since when an act has been refused.
    absent: Vec<Option<Span>>,
    refused: Vec<Option<Span>>,
    /// By task: since when its program has been awake between two jobs without being frozen.
    awake: Vec<Option<Span>>,
    /// By task: since when its process has been out of its group.
    escaped: Vec<Option<Span>>,
}

/// Longer than all delays of a fault together: a round of the supervisor, stalls, a late end, an initialisation.
const PATIENCE: Span = Span::from_ms(150);

impl Agreement {
    fn new(tasks: usize) -> Agreement {
        let [absent, refused, escaped, awake] = [(); 4].map(|()| vec![None; tasks]);
        Agreement { absent, refused, escaped, awake }
    }

    /// Exactly the processes that the engine runs have been started, on their CPUs, except for refused requests, which do not last. A process
    /// works at its present job, unless signals come twice. A replaced process is soon there.
    fn check(&mut self, scheduler: &Scheduler<Machine>, machine: &Machine) {
        let (engine, world) = (scheduler.engine(), machine.world());
        let plan = world.plan.clone();
        let exact = world.faults.signals_are_exact();
        // While the machine stands still, nothing can be repaired.
        let now = world.now - world.paused;
        let lasts = |since: &mut Option<Span>, is: bool| {
            *since = is.then(|| since.unwrap_or(now));
            since.is_some_and(|since| now - since > PATIENCE)
        };
        let escaped = |task: TaskId| world.processes.values().any(|process| process.task == task && process.escaped);
        for (slot, task) in scheduler.slots().iter().zip((0..).map(TaskId)) {
            // A free number has no process, or one that its task is to be added to.
            let absent = matches!(slot.program, At::Absent { .. }) && !slot.is_reserved;
            if slot.is_reserved && matches!(slot.program, At::Absent { .. }) {
                continue;
            }
            let refused = scheduler.was_refused(task);
            assert!(!lasts(&mut self.absent[task.index()], absent), "task {} gets no process", task.0);
            assert!(!lasts(&mut self.refused[task.index()], refused), "an act on task {} is not repeated", task.0);
            let strays = lasts(&mut self.escaped[task.index()], escaped(task));
            assert!(!strays, "the process of task {} stays out of its group", task.0);
            // Outside of segments a process runs as an ordinary one, and one of the kernel's classes always does.
            if slot.kernel.is_some() || absent || matches!(slot.program, At::Gone | At::Outside { .. }) {
                continue;
            }
            let asks = slot.asked.waits_for.is_some();
            let hostile = world.hostile.is_some_and(|hostile| hostile.task == task);
            assert!(
                asks || slot.blocked || engine.job(task).is_none_or(|job| job.ready),
                "task {} is blocked, and has a process",
                task.0
            );
            // The scheduler learns of a wake-up by a notice.
            let sleeper = slot.sleeper.is_some_and(|sleeper| sleeper.rest != Rest::Awake);
            let awake = sleeper && slot.waits != Waits::No && !world.is_asleep(slot.group);
            assert!(!lasts(&mut self.awake[task.index()], awake), "the wake-up of task {} is not noticed", task.0);
            // It is thawed and sleeps, or has woken up since.
            let asleep = slot.blocked && matches!(slot.program, At::At { .. });
            if !refused {
                let (runs, frozen) = (engine.running().contains(&task), world.frozen(slot.group));
                // One that does not sleep, or has left a process behind, is found and frozen soon.
                let sleeps = match slot.waits {
                    Waits::No => false,
                    Waits::Since(_) => true,
                    Waits::Asleep => hostile || sleeper || world.is_asleep(slot.group),
                };
                let ranked = plan.dispatch == Dispatch::Rank && scheduler.is_ranked(task);
                assert!(
                    !ranked || !frozen || sleeps,
                    "task {} has a rank, and its group is frozen: {:?}, job {:?}, at {:?}, runs {runs}",
                    task.0,
                    slot.program,
                    engine.job(task),
                    engine.at(task)
                );
                let waits = !runs && plan.dispatch == Dispatch::Priority && !frozen && !sleeps;
                assert!(
                    ranked || waits || sleeps || asleep || runs != frozen,
                    "task {} runs for the engine: {runs}, its group is frozen: {frozen}, it waits: {:?}",
                    task.0,
                    slot.waits
                );
                let place = engine.place_of(task).filter(|_| runs);
                let cpus = place.map_or(world.cpus(slot.partition), |place| engine.places()[place.index()]);
                let ranked = ranked || plan.dispatch == Dispatch::Rank && !scheduler.is_by_freezing(task);
                let elsewhere = ranked || waits || sleeps || asleep;
                assert!(elsewhere || world.cpus(slot.partition) == cpus, "the CPUs of task {}", task.0);
                if waits && !asleep {
                    self.check_preempted(task, scheduler, &world);
                }
            }
            // One that is observed and has initialised is as one that has not run.
            let unknown = hostile
                || slot.given
                || world.looping[task.index()].is_some()
                || slot.observed.is_some() && slot.program == At::New;
            let known = exact && !unknown;
            if let Some(waits) = world.waits(task, slot.incarnation).filter(|_| known) {
                let again = matches!(slot.resume, Resume::Asked { again: true });
                let known = slot.program == At::Waiting || again || asks || world.is_signalling(task, slot.incarnation);
                assert_eq!(waits, known, "the program of task {} waits: {waits}, as {:?}", task.0, slot.program);
            }
        }
    }

    /// A task that is thawed and does not run for the engine has a job, and a CPU that a task of a higher priority has.
    fn check_preempted(&self, task: TaskId, scheduler: &Scheduler<Machine>, world: &World) {
        let (engine, slots) = (scheduler.engine(), scheduler.slots());
        assert!(engine.job(task).is_some_and(|job| job.ready), "task {} is thawed without a job", task.0);
        let budget = engine.budget_left(task);
        assert!(budget.is_none_or(|left| left > Span::ZERO), "task {} is thawed without a budget", task.0);
        let at_work = matches!(slots[task.index()].program, At::At { .. });
        assert!(at_work && !scheduler.is_by_freezing(task), "task {} is thawed", task.0);
        let cpus = world.cpus(slots[task.index()].partition);
        assert_eq!(cpus.len(), 1, "task {} is thawed on several CPUs", task.0);
        let on_cpu = |other: &&TaskId| {
            let place = engine.place_of(**other).expect("it runs");
            !engine.places()[place.index()].is_disjoint(&cpus)
        };
        let other = *engine.running().iter().find(on_cpu).unwrap_or_else(|| panic!("task {} is thawed alone", task.0));
        let system = engine.system();
        let both = |tasks: &[TaskId]| tasks.contains(&task) == tasks.contains(&other);
        let has_window = system.windows.is_empty() || system.partitions.iter().all(|partition| both(&partition.tasks));
        assert!(has_window, "task {} is thawed outside of the windows of its partition", task.0);
        let exempt =
            scheduler.was_refused(other) || !matches!(slots[other.index()].program, At::At { .. } | At::Waiting);
        let (low, high) = (world.priority(task), world.priority(other));
        let is_above = low.zip(high).is_none_or(|(low, high)| low < high);
        assert!(exempt || is_above, "task {} at {low:?} is thawed below task {} at {high:?}", task.0, other.0);
    }
}

/// Faults for a plan, from the start of its processes on.
pub(crate) fn faults(plan: &Plan, seed: u64) -> Faults {
    let length = plan.duration.expect("a planned end");
    Faults::new(seed, plan.processes.len(), Span::from_ms(1000), length + Span::from_ms(4))
}
