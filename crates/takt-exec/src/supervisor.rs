//! The supervisor: everything around the scheduler thread that may block.

use crate::actuator::Processes;
use crate::causes::Found;
use crate::change::Change;
use crate::control::{self, Control, Phase};
use crate::incidents::{Incident, Incidents};
use crate::life::{Message, completion_of};
use crate::linux::{Acts, Children};
use crate::lives::{Lives, homes};
use crate::observation::Observation;
use crate::plan::{Dispatch, Observer, Plan, Process, SchedulerClass};
use crate::reactions::Reactions;
use crate::report::{Attempt, Blocking, Ended, Error, Report};
use crate::resumes::Resumes;
use crate::scheduler::{Item, Links, Outcome, Setup};
use crate::service::Service;
use crate::thread::{self, CONTROL, Frame};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{System, TaskId};
use takt_core::time::{Span, Time};
use takt_linux::isolate::Isolation;
use takt_linux::power::{Power, Refusal, Sample};
use takt_linux::rt::Class;
use takt_linux::starter::Starter;
use takt_linux::{CpuLock, Group, Mechanism, RunId, Signal, Unavailable, descriptors, disturbance, leftovers, watcher};

/// Records that fit between two rounds of the supervisor.
const RING: usize = 1 << 16;
/// Not a round number, so that its wake-ups do not fall on the same windows again and again.
const ROUND: Duration = Duration::from_millis(47);
/// How long killed commands of reactions may take to end.
const COMMANDS_END: Duration = Duration::from_secs(1);

/// With few descriptors the scheduler holds so many by which processes continue.
const RESUMES_FEW: usize = 128;
/// So many descriptors are left for all else during a run.
const RESERVE: usize = 128;

/// So many descriptors a run needs beside those of its processes: the lasting ones, as measured with each mechanism, and some for a moment.
const OF_RUN: usize = 52;

/// How long processes may take to end after SIGTERM, by default.
pub const GRACE: Span = Span::from_secs(2);
/// How long the end of a run takes at most after the time of grace.
const CLOSING: Duration = Duration::from_secs(10);
/// Between two looks at processes that are asked to end.
const LOOK: Duration = Duration::from_millis(3);

/// Runs the processes of a plan under an engine, to the end. Whatever happens, when this returns no process of the run is left and no group.
/// The running program is started again beside it, as its watcher and its starter: so it has to call [`watcher::watch`] and
/// [`serve`](takt_linux::starter::serve) for their subcommands.
///
/// # Errors
/// See [`Error`]. Nothing is left running then either.
pub fn run(engine: Engine, plan: Plan, observer: &mut dyn Observer) -> Result<Report, Error> {
    run_controlled(engine, plan, None, observer)
}

/// As [`run`], with commands from outside.
///
/// # Errors
/// See [`Error`].
pub fn run_controlled(
    engine: Engine,
    plan: Plan,
    control: Option<Control>,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    let began = Instant::now();
    can_open_files(&plan)?;
    let mut signals = Signals::new(observer.ignores_hangups()).what("cannot watch for signals")?;
    signals.control = control.as_ref().map(|control| control.phase.clone());
    let id = RunId::new().what("cannot name the run")?;
    // Remains of dead runs are removed if possible; this run does not depend on it.
    let remains = leftovers::clean(plan.on_crash).err();
    watcher::spawn_watcher(&id, plan.on_crash).what("cannot start the watcher")?;
    observer.named(&id);
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).what("cannot become a subreaper")?;
    let mut claims = Claims::default();
    let result = Supervisor::set_up(engine.system(), plan, id, signals, &mut claims, observer)
        .and_then(|s| s.run(engine, began, control, observer));
    let _ = rustix::process::set_child_subreaper(None);
    let Claims { lock, isolation } = claims;
    // The groups of the run are gone, which were in the set.
    let isolated = isolation.map(end_isolation);
    id.ends_well();
    result.map(|mut report| {
        report.notes.extend(isolated.into_iter().flatten());
        report
            .notes
            .extend(remains.map(|e| format!("remains of a dead run stay: {e} (`takt doctor --clean` says more)")));
        let shared = lock.iter().flat_map(CpuLock::shared_with);
        report
            .notes
            .extend(shared.map(|other| format!("CPUs were shared with {other}, and each run delayed the other")));
        report
    })
}

/// CPUs that belong to the run until its processes are gone.
#[derive(Default)]
struct Claims {
    lock: Option<CpuLock>,
    isolation: Option<Isolation>,
}

/// Undoes the isolation of the run's CPUs. Returns notes for its report.
fn end_isolation(isolation: Isolation) -> Vec<String> {
    let (cpus, created) = (isolation.cpus(), isolation.created().clone());
    let mut notes = vec![format!(
        "CPU {cpus} was isolated for this run: {} settings changed, {} threads moved or bound",
        created.settings, created.threads
    )];
    notes.extend(created.notes);
    if !created.boot.is_empty() {
        notes.push(format!("only a boot parameter could isolate CPU {cpus} more: {}", created.boot.join(" ")));
    }
    match isolation.undo() {
        Ok(undone) => notes.extend(undone.notes),
        Err(e) => {
            notes.push(format!("the isolation of CPU {cpus} is not undone completely (takt doctor --clean): {e}"))
        }
    }
    notes
}

/// No listener is left, so that signals mean again what they mean to any program. The actions for that stay registered
/// for good: the kernel's own default does not come back when the last action of a signal goes.
fn unheard(heard: &[i32]) -> &'static AtomicBool {
    static UNHEARD: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    UNHEARD.get_or_init(|| {
        let unheard = Arc::new(AtomicBool::new(false));
        for &signal in heard {
            // These signals are known, and a process that cannot handle them cannot register those of the run either.
            let _ = signal_hook::flag::register_conditional_default(signal, unheard.clone());
        }
        unheard
    })
}

/// Keeps the supervisor off the CPUs of the schedule for as long as it lives, where the machine has others. Its wake-ups
/// would otherwise delay the scheduled processes that have no real-time class.
struct StayAway(Option<CpuSet>);

impl StayAway {
    fn from(plan: &Plan, system: &System, cpus: &CpuSet) -> StayAway {
        // A process that is started later would inherit the restriction.
        let spawns = plan.starts_processes(system);
        let allowed = takt_linux::rt::affinity(0).ok().filter(|_| !spawns);
        let others = allowed.map(|all| all.difference(cpus)).filter(|others| !others.is_empty());
        let moved = others.is_some_and(|others| takt_linux::rt::set_affinity(0, &others).is_ok());
        StayAway(allowed.filter(|_| moved))
    }
}

impl Drop for StayAway {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = takt_linux::rt::set_affinity(0, before);
        }
    }
}

struct Signals {
    pipe: UnixStream,
    /// A byte for each SIGTERM, and how many were read.
    terminations: UnixStream,
    terminated: Cell<usize>,
    /// A command to stop may come before the schedule.
    control: Option<Arc<Phase>>,
    interrupt: Arc<AtomicBool>,
    terminate: Arc<AtomicBool>,
    hangup: Arc<AtomicBool>,
    /// A hangup that reloads nothing.
    hung_up: AtomicBool,
    registered: Vec<signal_hook::SigId>,
}

impl Signals {
    /// With `ignores_hangups`, SIGHUP stays ignored.
    fn new(ignores_hangups: bool) -> io::Result<Signals> {
        let heard = &[SIGINT, SIGTERM, SIGHUP][..if ignores_hangups { 2 } else { 3 }];
        let (pipe, write) = UnixStream::pair()?;
        let (terminations, terminated) = UnixStream::pair()?;
        [&pipe, &terminations].iter().try_for_each(|pipe| pipe.set_nonblocking(true))?;
        let [interrupt, terminate, hangup] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        unheard(heard).store(false, Ordering::Release);
        let hung_up = AtomicBool::new(false);
        let mut signals = Signals {
            pipe,
            terminations,
            terminated: Cell::new(0),
            control: None,
            interrupt,
            terminate,
            hangup,
            hung_up,
            registered: Vec::new(),
        };
        let flags = [(SIGINT, &signals.interrupt), (SIGTERM, &signals.terminate), (SIGHUP, &signals.hangup)];
        for (signal, flag) in flags.map(|(signal, flag)| (signal, flag.clone())) {
            if heard.contains(&signal) {
                signals.registered.push(signal_hook::flag::register(signal, flag)?);
            }
        }
        for signal in heard.iter().chain(&[SIGCHLD]) {
            signals.registered.push(signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?);
        }
        signals.registered.push(signal_hook::low_level::pipe::register(SIGTERM, terminated)?);
        Ok(signals)
    }
    /// The flags of the signals that end a run in any case.
    fn interrupts(&self) -> [Arc<AtomicBool>; 2] {
        [self.interrupt.clone(), self.terminate.clone()]
    }
    /// Before the schedule, each signal ends the run.
    fn stop(&self) -> bool {
        self.hangup.load(Ordering::Acquire) || self.stops_early()
    }
    /// Whether the run is to end before its schedule begins, other than by SIGHUP.
    fn stops_early(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.is_stopped_early()) || self.ends_run()
    }
    /// How many SIGTERMs have come.
    fn terminations(&self) -> usize {
        let mut buffer = [0; 16];
        while let Ok(n @ 1..) = rustix::io::read(&self.terminations, &mut buffer) {
            self.terminated.set(self.terminated.get() + n);
        }
        self.terminated.get()
    }
    /// During the schedule, SIGHUP ends the run only if it reloads nothing.
    fn ends_run(&self) -> bool {
        self.terminate.load(Ordering::Acquire) || self.stop_at_once()
    }
    /// Whether the run is to end at once: at any signal but the first SIGTERM.
    fn stop_at_once(&self) -> bool {
        [&self.interrupt, &self.hung_up].iter().any(|signal| signal.load(Ordering::Acquire))
    }
    fn drain(&self) {
        let mut buffer = [0; 256];
        while matches!(rustix::io::read(&self.pipe, &mut buffer), Ok(n) if n > 0) {}
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
        unheard(&[]).store(true, Ordering::Release);
    }
}

/// How many descriptors this process may open, but for a reserve.
fn free_descriptors() -> usize {
    let (limit, open) = descriptors::limit_and_use();
    limit.saturating_sub(open + RESERVE)
}

/// Raises the limit of open files, and finds out whether it suffices for a run, before anything is started.
fn can_open_files(plan: &Plan) -> Result<(), Error> {
    descriptors::raise();
    let (limit, open) = descriptors::limit_and_use();
    let processes = plan.processes.iter().filter(|process| !process.is_reserved && process.thread_of.is_none());
    let of_process = |process: &Process| {
        let channel = usize::from(process.signals && !plan.few_descriptors);
        let group = if plan.few_descriptors { 1 } else { 2 };
        channel + group + usize::from(process.event.is_some())
    };
    // Each setting and each sensor has a file.
    let of_power = |power: &takt_linux::power::Settings| {
        power.domains.len() + power.preferences.len() + power.latencies.len() + power.zones.len() + power.meters.len()
    };
    let of_power = plan.power.as_ref().map_or(0, of_power);
    let needed = open + OF_RUN + of_power + processes.map(of_process).sum::<usize>();
    if limit < needed { Err(Error::Descriptors { needed, limit }) } else { Ok(()) }
}

struct Supervisor {
    plan: Arc<Plan>,
    mechanism: Arc<Mechanism>,
    lives: Lives<Children>,
    reactions: Reactions,
    epoll: OwnedFd,
    control: OwnedFd,
    wake: OwnedFd,
    signals: Signals,
    service: Service,
    /// With a power policy.
    power: Option<(Power, Receiver<Sample>)>,
    /// Values of meters from before the schedule.
    measured: Vec<(Span, u16, i64)>,
}

impl Supervisor {
    fn set_up(
        system: &System,
        plan: Plan,
        id: RunId,
        signals: Signals,
        claims: &mut Claims,
        observer: &mut dyn Observer,
    ) -> Result<Supervisor, Error> {
        let n = plan.processes.iter().filter(|process| !process.is_reserved).count();
        // Before the groups: a delegated one must hold no process but those of Takt.
        let starter = Starter::open(&id).ok();
        if let Some(steps) = &plan.isolate {
            let present = takt_linux::rt::affinity(0).what("cannot ask for the CPUs of this process")?;
            let cpus = there(&plan, system, &present)?;
            // Another run that has a CPU must not lose its processes there.
            claims.lock = Some(CpuLock::acquire(&id, &cpus, &plan.name, plan.share_cpus).map_err(Error::CpuInUse)?);
            claims.isolation = Some(Isolation::create(&id, &cpus, steps).map_err(Error::Isolation)?);
        }
        let names = plan.names.clone();
        let mut mechanism = match &claims.isolation {
            Some(isolation) => Mechanism::open_isolated(plan.mechanism, &id, names, &isolation.set())?,
            None if plan.starts_processes(system) => Mechanism::open_for_starts(plan.mechanism, &id, names)?,
            None => Mechanism::open_as(plan.mechanism, &id, names)?,
        };
        starter.into_iter().for_each(|starter| mechanism.start_by(starter));
        if plan.threads().are_there() {
            mechanism.expect_threads()?;
        }
        if plan.few_descriptors {
            mechanism.keep_few_files();
        }
        observer.starting(0, n);
        let present = mechanism.cpus();
        let cpus = there(&plan, system, &present)?;
        if claims.lock.is_none() {
            claims.lock = Some(CpuLock::acquire(&id, &cpus, &plan.name, plan.share_cpus).map_err(Error::CpuInUse)?);
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).what("eventfd")?;
        // Before the groups: what this machine refuses is refused before anything is started.
        let power = match &plan.power {
            None => None,
            Some(settings) => {
                let scheduler = scheduler_cpus(&plan, system, &present);
                let wake = wake.try_clone().what("eventfd")?;
                let opened = Power::open(&id, settings.clone(), scheduler, &cpus, wake);
                Some(opened.map_err(|refusal| match refusal {
                    Refusal::InUse(u) => Error::FrequencyInUse(u),
                    Refusal::Unavailable(u) => Error::Power(u),
                })?)
            }
        };
        let homes = homes(system, &plan, &present, &mut mechanism).what("cannot create the groups of the processes")?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).what("epoll")?;
        let control = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).what("eventfd")?;
        epoll::add(&epoll, &control, EventData::new_u64(CONTROL), EventFlags::IN | EventFlags::ET).what("epoll")?;
        let (plan, mechanism) = (Arc::new(plan), Arc::new(mechanism));
        let children = Children::new(mechanism.clone(), plan.clone(), system, epoll.try_clone().what("epoll")?)?;
        let reactions = Reactions::new(plan.clone(), &id);
        let lives = Lives::new(plan.clone(), children, homes);
        let service = Service::new(plan.manager.clone());
        service.status(|| format!("{}: starting {n} processes", plan.name));
        let measured = Vec::new();
        let mut supervisor =
            Supervisor { plan, mechanism, lives, reactions, epoll, control, wake, signals, service, power, measured };
        for task in (0..system.tasks.len() as u32).map(TaskId) {
            supervisor.lives.spawn(task)?;
            observer.starting(task.index() + 1, n);
            if supervisor.signals.stop() {
                break;
            }
        }
        supervisor.initialise()?;
        Ok(supervisor)
    }

    /// Lets the processes that want it run before the schedule, until each has signalled.
    fn initialise(&mut self) -> Result<(), Error> {
        if self.plan.processes.iter().any(|process| process.init) {
            // A service manager would give up before.
            self.service.extend(Duration::from_nanos(self.plan.init_timeout.ns().unsigned_abs()) + CLOSING);
        }
        self.lives.initialise()?;
        while !self.lives.have_initialised()? && !self.signals.stop() {
            self.wait(true, None)?;
            // Signals first: a process may signal and then end.
            let mut events = Vec::with_capacity(64);
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)).what("epoll")?;
            let heard = events.iter().map(|e| e.data.u64()).filter(|data| *data < CONTROL);
            let heard = heard.map(|data| completion_of(data).0).filter(|task| !self.lives.processes.is_observed(*task));
            let ended: Vec<TaskId> = heard.chain(self.lives.processes.ended_jobs()).collect();
            for task in ended {
                self.lives.signalled_early(task)?;
            }
            self.lives.reap();
        }
        Ok(())
    }

    /// Sleeps until a signal, a child's end, the scheduler's call, an emptied group, on request a completion, or the next round.
    fn wait(&self, completions: bool, control: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        let limit = Timespec { tv_sec: 0, tv_nsec: ROUND.as_nanos() as i64 };
        let mut fds = vec![
            PollFd::new(&self.signals.pipe, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
            PollFd::from_borrowed_fd(self.mechanism.emptied(), PollFlags::IN),
        ];
        if completions {
            fds.push(PollFd::new(&self.epoll, PollFlags::IN));
        }
        fds.extend(control.map(|control| PollFd::from_borrowed_fd(control, PollFlags::IN)));
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).what("poll"),
        }
        self.signals.drain();
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        Ok(())
    }

    /// Begins to observe blocks and wake-ups of the processes, where the plan wants that and the machine can do it.
    fn observe(&self, engine: &Engine) -> Result<(Option<Observation>, Blocking), Error> {
        let system = engine.system();
        let tasks = (0..system.tasks.len() as u32).map(TaskId);
        let followed: Vec<TaskId> = tasks.filter(|task| self.plan.follows(system, *task)).collect();
        if followed.is_empty() {
            return Ok((None, Blocking::NotFollowed));
        }
        let tasks = system.tasks.len();
        let (opened, by) = if self.plan.has_real_time() {
            (Observation::by_records(tasks, &self.plan.levels(), self.plan.notices(engine)), Blocking::Tracepoints)
        } else {
            (Observation::by_states(tasks), Blocking::States)
        };
        let woken = |task: &&TaskId| self.plan.processes[task.index()].wakeups;
        match opened {
            Err(lack) => match followed.iter().find(woken) {
                Some(task) => Err(Error::Unavailable(Unavailable {
                    reason: format!(
                        "the wake-ups of {} cannot be observed: {}",
                        self.plan.processes[task.index()].name,
                        lack.reason
                    ),
                    fix: format!("{}; or write a `period` in place of `event: wakeup`", lack.fix),
                })),
                None => Ok((None, Blocking::Unavailable(lack))),
            },
            Ok(mut observation) => {
                for task in followed {
                    let group = self.lives.tasks[task.index()].home.group;
                    let leader = self.mechanism.leader(group);
                    if self.plan.sleeps(system, task) {
                        observation.follow_leader(task, leader);
                    } else {
                        observation.follow(task, leader, &self.mechanism.thread_numbers(group));
                    }
                }
                observation.hear(&self.epoll, true).what("epoll")?;
                Ok((Some(observation), by))
            }
        }
    }

    fn run(
        mut self,
        mut engine: Engine,
        began: Instant,
        control: Option<Control>,
        observer: &mut dyn Observer,
    ) -> Result<Report, Error> {
        let (n, system) = (engine.system().tasks.len(), engine.system().clone());
        let (mut inbox, scheduler_inbox) = RingBuffer::new(4 * n + 16);
        let (scheduler_outbox, mut outbox) = RingBuffer::new(RING + 16 * n);
        let (scheduler_returned, mut returned) = RingBuffer::new(1);
        let (start, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let present = self.mechanism.cpus();
        let cpus = self.plan.cpus(&system, &present);
        let (observation, blocking) = self.observe(&engine)?;
        let acts = Acts {
            mechanism: self.mechanism.clone(),
            pages: self.lives.processes.pages(),
            sources: self.lives.processes.listen().what("epoll")?,
            epoll: self.epoll.try_clone().what("epoll")?,
            ends: self.lives.processes.ends(),
            wake: self.wake.try_clone().what("eventfd")?,
            observation: observation.map(RefCell::new),
            power: self.power.as_ref().map(|(power, _)| power.requests()),
        };
        let frame = Frame {
            epoll: self.epoll.try_clone().what("epoll")?,
            cpus: scheduler_cpus(&self.plan, &system, &present),
            chosen: self.plan.scheduler_cpus.is_some(),
            class: self.plan.scheduler_class,
            hooks: self.plan.hooks,
            start: start.clone(),
            over: over.clone(),
            wake: self.wake.try_clone().what("eventfd")?,
            heart: self.service.heart(),
        };
        if control.is_some() {
            control::make_room(&mut engine);
        }
        let resumes = Resumes::new(if self.plan.few_descriptors { RESUMES_FEW } else { free_descriptors() }, n);
        let links = Links { inbox: scheduler_inbox, outbox: scheduler_outbox, returned: scheduler_returned };
        let mut setup = Setup::new(engine, acts, &self.plan, &self.lives, links, resumes);
        setup.places.iter_mut().for_each(|cpus| *cpus = self.plan.real(cpus, &present));
        if let Blocking::Unavailable(_) = blocking {
            // Their wake-ups would not be seen.
            setup.slots.iter_mut().for_each(|slot| slot.sleeper = None);
        }
        let lost = setup.lost.clone();
        self.lives.look_at_all();
        // Ends during the initialisation; the scheduler looks before the first window, so it need not be woken.
        self.lives.send(&mut inbox);
        self.forget_samples();
        let mut observer = Watched::new(observer, control, &self.plan, lost);
        observer.interrupted_by(self.signals.interrupts().into_iter().chain([over.clone()]).collect());
        // From here on SIGHUP reloads: a manager may send it as soon as it learns that the run is ready.
        let mut stopping = self.signals.stop();
        self.lives.begin();
        let stolen_before = disturbance::stolen(&cpus);
        // Memory is locked only now: a fork of locked memory would copy it.
        let locked = takt_linux::rt::lock_memory();
        let small_pages = takt_linux::rt::without_huge_pages();
        let thread: JoinHandle<io::Result<thread::Ended>> = std::thread::Builder::new()
            .name("takt-scheduler".into())
            .spawn(move || thread::run(setup, frame))
            .what("cannot start the scheduler thread")?;
        while start.load(Ordering::Acquire) == 0 && !thread.is_finished() {
            std::thread::sleep(Duration::from_micros(100));
        }
        let start = Span::from_ns(start.load(Ordering::Acquire) as i64);
        let startup = began.elapsed();
        let startup_cpu = takt_linux::timer::cpu_now() + self.mechanism.starter_time();
        let pids: Vec<Option<i32>> = self.lives.tasks.iter().map(|task| task.pid).collect();
        observer.call(|o| o.started(start, &pids));
        if !thread.is_finished() {
            let scheduled = self.plan.processes.iter().filter(|process| !process.is_reserved).count();
            self.service.ready(|| format!("{}: {scheduled} processes scheduled on CPU {cpus}", self.plan.name));
        }
        let mut away = Some(StayAway::from(&self.plan, &system, &cpus));
        let mut incidents = Incidents::new(cpus);
        stopping |= self.signals.stops_early();
        if stopping {
            // Asked to stop while it was still starting processes.
            self.tell(&mut inbox, Message::Stop);
        }
        while !thread.is_finished() {
            if let Err(e) = self.wait(false, observer.wakes()) {
                self.tell(&mut inbox, Message::Stop);
                let _ = thread.join();
                return Err(e);
            }
            if over.load(Ordering::Acquire) {
                break;
            }
            self.lives.reap();
            self.lives.serve();
            self.lives.look();
            let measured = self.take_samples();
            observer.drain(&mut outbox, &mut returned);
            for (at, meter, value) in measured {
                // A value from before the schedule holds at its start.
                observer.call(|o| o.measured(Time::ZERO + (at - start).max(Span::ZERO), meter, value));
            }
            let strayed = self.lives.tasks.iter().map(|task| task.strayed).sum();
            for incident in incidents.look(strayed) {
                if matches!(incident, Incident::Offline(_) | Incident::Online(_)) {
                    self.mechanism.distrust_cpus();
                }
                observer.call(|o| o.noticed(&incident.text()));
            }
            for (task, end) in std::mem::take(&mut self.lives.ends) {
                observer.call(|o| o.exited(task, end));
            }
            if self.signals.hangup.swap(false, Ordering::AcqRel) && !observer.hangs_up() {
                self.signals.hung_up.store(true, Ordering::Release);
            }
            let elapsed = takt_linux::timer::now() - start;
            // A process that is started may be ready at once. The second round sends the change for it.
            for _ in 0..2 {
                self.lives
                    .outgoing
                    .extend(observer.serve(elapsed, || self.lives.tasks.iter().map(|task| task.pid).collect()));
                if observer.starts() {
                    // A process that is started by this thread would inherit the restriction.
                    away = None;
                }
                if let Some(plan) = observer.admit(&mut self.lives) {
                    self.take_in(plan);
                }
            }
            for (task, grace) in observer.left() {
                if !self.lives.end(task, grace) {
                    observer.ends_later(task, grace);
                }
            }
            let ends = self.react(&mut observer) || self.signals.ends_run() || observer.ends_run();
            if ends && !std::mem::replace(&mut stopping, true) {
                self.lives.outgoing.push_back(Message::Stop);
            }
            if stopping {
                self.service.stopping(|| format!("{}: the run ends", self.plan.name));
            }
            self.send(&mut inbox);
            if self.service.watch(Instant::now(), ROUND) {
                let _ = rustix::io::write(&self.control, &1u64.to_ne_bytes());
            }
            observer.call(|o| o.tick(Time::ZERO + (takt_linux::timer::now() - start)));
        }
        drop(away);
        self.service.stopping(|| format!("{}: the schedule is over", self.plan.name));
        let joined = thread.join();
        let stolen = disturbance::stolen(&cpus);
        self.reactions.close();
        observer.drain(&mut outbox, &mut returned);
        observer.end();
        let signalled = self.signals.ends_run();
        let asked = observer.grace();
        let gently = asked.or_else(|| self.signals.terminate.load(Ordering::Acquire).then_some(GRACE));
        if let Some(grace) = gently.filter(|_| !self.signals.stop_at_once()) {
            // A service manager that has the run stopped by a command sends a SIGTERM after it.
            let heard = if asked.is_some() { self.signals.terminations() } else { 1 };
            self.end_gently(grace, heard);
        }
        // A command may have come in the instant in which the others were answered.
        observer.end();
        let destroyed = self.lives.close();
        let destroyed = destroyed.and(self.end_commands());
        // Until here the processes had the frequencies of the schedule.
        let mut power = self.power.take().map(|(power, _)| power.close());
        let unrestored = power.as_mut().and_then(|power| std::mem::replace(&mut power.restored, Ok(())).err());
        let destroyed = destroyed.and(unrestored.map_or(Ok(()), Err));
        self.react(&mut observer);
        let thread::Ended { outcome, class, page_faults } = match joined {
            Ok(outcome) => outcome.what("the scheduler thread failed")?,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_string()));
                return Err(Error::Scheduler(text.unwrap_or_default()));
            }
        };
        let Outcome { engine, responses, spent, most_used, lateness, effort, end, .. } = outcome;
        let Outcome { dropped, failures, first_failure, stopped, floods, event_floods, .. } = outcome;
        let mut notes = self.mechanism.notes();
        notes.extend(incidents.notes());
        for (task, process) in self.lives.tasks.iter().zip(&self.plan.processes).filter(|(task, _)| task.strayed > 0) {
            let times = if task.strayed == 1 { "once".into() } else { format!("{} times", task.strayed) };
            let name = &process.name;
            notes.push(format!(
                "another program moved the process of {name} out of its group {times}; it was moved back"
            ));
        }
        if let Err(e) = locked {
            notes.push(format!("memory is not locked ({e}): a page fault may delay the scheduler"));
        }
        if let Err(e) = small_pages {
            notes.push(format!("huge pages are not disabled ({e}): `khugepaged` may delay the scheduler"));
        }
        if self.plan.scheduler_class == SchedulerClass::Deadline && class != "deadline" {
            notes.push("SCHED_DEADLINE was refused for the scheduler".into());
        }
        if class == "other" {
            notes.push("the scheduler has no real-time class: other load delays it".into());
        }
        let several = self.lives.tasks.iter().zip(&self.plan.processes).filter(|(task, _)| task.had_several);
        let several: Vec<&str> = several.map(|(_, process)| process.name.as_str()).collect();
        if !several.is_empty() {
            let names = several.join(", ");
            notes.push(format!(
                "preemption by freezing instead of priority, because of several threads or processes: {names}"
            ));
        }
        let reaction = self.reactions.stopped_by.filter(|_| stopped && self.lives.stopped_by.is_none());
        let ended = match (stopped, self.lives.stopped_by) {
            _ if reaction.is_some() => {
                reaction.map_or(Ended::Signal, |(task, job, cause)| Ended::Reaction(task, job, cause))
            }
            (_, Some(task)) => Ended::Exit(task),
            (true, None) if asked.is_some() && !signalled => Ended::Command,
            (true, None) if observer.ends_run() && !signalled => Ended::Observer,
            (true, None) => Ended::Signal,
            (false, _) if n > 0 && engine.all_gone() && self.plan.duration.is_none_or(|d| end < Time::ZERO + d) => {
                Ended::AllExited
            }
            (false, _) => Ended::Duration,
        };
        let own = self.lives.tasks.iter().zip(&self.plan.processes).filter(|(_, process)| !process.is_reserved);
        let all_failed = n > 0 && own.into_iter().all(|(task, _)| task.end.is_some() && !task.succeeded);
        let tasks = || self.lives.tasks.iter();
        Ok(Report {
            counts: (0..n as u32).map(|t| engine.counts(TaskId(t))).collect(),
            responses: responses.0,
            spent,
            most_used,
            // A preempted process that is not frozen waits for a CPU, too.
            waited: tasks().map(|task| task.sum.waited.filter(|_| self.plan.dispatch == Dispatch::Freeze)).collect(),
            cpu_time: tasks().map(|task| task.sum.used).collect(),
            stolen: stolen.zip(stolen_before).map(|(after, before)| (after - before).or_zero()),
            context_switches: engine.context_switches(),
            windows_lost: engine.windows_lost(),
            length: end - Time::ZERO,
            ended,
            all_failed,
            ends: tasks().map(|task| task.end).collect(),
            gone: (0..n as u32).map(|task| engine.is_gone(TaskId(task))).collect(),
            failures_of: tasks().map(|task| task.failures).collect(),
            replaced: tasks().map(|task| task.replaced).collect(),
            reactions: self.reactions.counts(),
            failed_commands: self.reactions.failed_commands,
            command_error: self.reactions.first_error.take(),
            spawn_error: self.lives.first_spawn_error.take(),
            floods,
            event_floods,
            mechanism: self.mechanism.name(),
            notes,
            scheduler_class: class,
            lateness,
            effort,
            dropped,
            failures,
            first_failure,
            observer_error: observer.error,
            power,
            startup,
            startup_cpu,
            page_faults,
            blocking,
            cleanup_error: destroyed.err(),
        })
    }

    /// From now on the plan has the process of an added task.
    fn take_in(&mut self, plan: Arc<Plan>) {
        for (index, _) in plan
            .processes
            .iter()
            .enumerate()
            .filter(|(index, process)| !process.is_reserved && self.plan.processes[*index].name != process.name)
        {
            self.reactions.take_in(TaskId(index as u32), plan.clone());
        }
        self.plan = plan;
    }

    /// Reacts to the jobs that the scheduler has found. Returns whether the run is to end by that.
    fn react(&mut self, observer: &mut Watched<'_>) -> bool {
        for (pid, end) in std::mem::take(&mut self.lives.strangers) {
            self.reactions.ended(pid, end);
        }
        let now = takt_linux::timer::now();
        let mut ends = false;
        for (found, sent) in std::mem::take(&mut observer.found) {
            ends |= self.reactions.react(found, sent, now);
        }
        if let Some(found) = self.lives.requests().end().map(Found::of).filter(|_| self.reactions.stopped_by.is_none())
        {
            ends |= self.reactions.react(found, false, now);
        }
        ends
    }

    /// Asks all processes to end, as ordinary processes, and waits for it. SIGINT and the SIGTERM after `terminations` others end the wait.
    fn end_gently(&mut self, grace: Span, terminations: usize) {
        self.lives.settle();
        self.service.extend(Duration::from_nanos(grace.ns().unsigned_abs()) + CLOSING);
        let limit = takt_linux::timer::now() + grace;
        let groups: Vec<Group> = self.lives.tasks.iter().map(|task| task.home.group).collect();
        let mut left: Vec<Group> = groups;
        left.retain(|group| {
            // One that keeps a real-time class could keep the CPU from this thread.
            self.mechanism.set_class(*group, Class::Other);
            // A group that cannot be thawed is killed.
            self.mechanism.signal_all(*group, Signal::TERM).is_ok()
        });
        loop {
            self.lives.reap();
            left.retain(|group| self.mechanism.populated(*group).unwrap_or(false));
            let ends = self.signals.stop_at_once() || self.signals.terminations() > terminations;
            if left.is_empty() || ends || takt_linux::timer::now() > limit {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills the commands of reactions, and waits for their end, but not for long.
    fn end_commands(&mut self) -> io::Result<()> {
        let limit = Instant::now() + COMMANDS_END;
        while self.reactions.kill() {
            self.lives.reap();
            for (pid, end) in std::mem::take(&mut self.lives.strangers) {
                self.reactions.ended(pid, end);
            }
            if Instant::now() > limit {
                return Err(io::Error::other("a command of `on_miss` or `on_overrun` does not end"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Drops the samples of temperatures from before the schedule. Values of meters hold until they change, so the last ones are kept.
    fn forget_samples(&mut self) {
        let Some((_, samples)) = &self.power else { return };
        while let Ok(sample) = samples.try_recv() {
            if let Sample::Measured { meter, value, .. } = sample {
                self.measured.retain(|(_, other, _)| *other != meter);
                self.measured.push((Span::ZERO, meter, value));
            }
        }
    }

    /// Hands the samples of temperatures on. Returns what meters have measured since the last call: instants on the monotonic clock, meters, values.
    fn take_samples(&mut self) -> Vec<(Span, u16, i64)> {
        let mut measured = std::mem::take(&mut self.measured);
        let Some((_, samples)) = &self.power else { return measured };
        while let Ok(sample) = samples.try_recv() {
            match sample {
                Sample::Temperature { zone, millidegrees } => {
                    let zone = u16::try_from(zone).unwrap_or(u16::MAX);
                    self.lives.outgoing.push_back(Message::Temperature { zone, millidegrees });
                }
                Sample::Measured { meter, value, at } => measured.push((at, meter, value)),
            }
        }
        measured
    }

    fn send(&mut self, inbox: &mut Producer<Message<OwnedFd>>) {
        if self.lives.send(inbox) {
            let _ = rustix::io::write(&self.control, &1u64.to_ne_bytes());
        }
    }

    fn tell(&mut self, inbox: &mut Producer<Message<OwnedFd>>, message: Message<OwnedFd>) {
        self.lives.outgoing.push_back(message);
        self.send(inbox);
    }
}

/// The CPUs of a schedule on a machine with the CPUs `present`.
fn there(plan: &Plan, system: &System, present: &CpuSet) -> Result<CpuSet, Error> {
    let cpus = plan.cpus(system, present);
    let missing = cpus.difference(present);
    match missing.is_empty() {
        true => Ok(cpus),
        false => Err(Error::NoSuchCpu { missing: Box::new(missing), present: Box::new(*present) }),
    }
}

/// The CPUs of the scheduler thread, if it is bound to any.
fn scheduler_cpus(plan: &Plan, system: &System, present: &CpuSet) -> Option<CpuSet> {
    let own = plan.own_cpus(system, present);
    // Beside processes that run before it, the scheduler runs on the CPU that they leave.
    let single = (own.len() == 1 && !plan.outranks_scheduler()).then_some(own);
    plan.scheduler_cpus.or(single)
}

/// The observer, until its first error.
pub(crate) struct Watched<'a> {
    observer: &'a mut dyn Observer,
    error: Option<io::Error>,
    control: Option<Control>,
    /// An item has found no room in the ring.
    lost: Arc<AtomicBool>,
    inputs: Vec<Input>,
    /// The last step that the observer knows.
    stepped: Time,
    /// Jobs that reactions follow, and whether their processes have received a signal.
    pub(crate) found: Vec<(Found, bool)>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(
        observer: &'a mut dyn Observer,
        mut control: Option<Control>,
        plan: &Plan,
        lost: Arc<AtomicBool>,
    ) -> Watched<'a> {
        if let Some(control) = &mut control {
            let own = plan.processes.iter().filter(|process| !process.is_reserved).count();
            let processes = || (0..).map(TaskId).zip(&plan.processes).take(own);
            let tasks = processes().map(|(_, process)| (process.name.clone(), process.kernel.is_some()));
            let threads = plan.threads();
            let alone = |task| threads.of(task).is_empty();
            let endable =
                |(task, process): (TaskId, &Process)| !process.per_job && process.thread_of.is_none() && alone(task);
            let class = plan.class_of_added();
            control.begin(tasks.collect(), processes().map(endable).collect(), plan.processes.len(), class);
        }
        Watched { observer, error: None, control, lost, inputs: Vec::new(), stepped: Time::ZERO, found: Vec::new() }
    }

    /// Commands are prepared until one of these is set.
    fn interrupted_by(&mut self, interrupts: Vec<Arc<AtomicBool>>) {
        self.control.iter_mut().for_each(|control| control.interrupted_by(interrupts.clone()));
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.control.as_ref().map(Control::wakes)
    }

    /// Carries out commands from outside. Returns the message for the scheduler.
    pub(crate) fn serve<R>(&mut self, elapsed: Span, pids: impl FnOnce() -> Vec<Option<i32>>) -> Option<Message<R>> {
        let change = self.control.as_mut()?.serve(elapsed, pids);
        let tables = self.control.as_mut().map(Control::new_tables).unwrap_or_default();
        tables.iter().for_each(|table| self.call(|o| o.table(table)));
        change.map(|change| Message::Change { change })
    }

    /// Whether a process of a task that a command adds is to be started.
    pub(crate) fn starts(&self) -> bool {
        self.control.as_ref().is_some_and(Control::has_starts)
    }

    /// Starts the first processes of tasks that commands add, and ends the unneeded ones.
    pub(crate) fn admit<P: Processes>(&mut self, lives: &mut Lives<P>) -> Option<Arc<Plan>> {
        let control = self.control.as_mut()?;
        control.dismissed().into_iter().for_each(|task| lives.dismiss(task));
        let plan = control.starts().into_iter().map(|(task, process)| lives.take_in(task, process)).last();
        lives.entered.drain(..).for_each(|(task, result)| control.entered(task, result));
        plan
    }

    /// The tasks whose processes are to end, with their time of grace.
    pub(crate) fn left(&mut self) -> Vec<(TaskId, Span)> {
        self.control.as_mut().map(Control::left).unwrap_or_default()
    }

    /// The time of grace, if a command has asked for the end.
    fn grace(&self) -> Option<Span> {
        self.control.as_ref()?.stop
    }

    /// Whether SIGHUP does not end the run.
    fn hangs_up(&mut self) -> bool {
        self.observer.hangs_up()
    }

    fn ends_later(&mut self, task: TaskId, grace: Span) {
        self.control.iter_mut().for_each(|control| control.ends_later(task, grace));
    }

    /// Answers the commands that have no answer yet.
    pub(crate) fn end(&mut self) {
        self.control.iter_mut().for_each(Control::close);
        if let Some((by, command)) = self.control.as_mut().and_then(|control| control.stopped_by.take()) {
            let at = self.stepped;
            self.call(|o| o.stopped(at, by, &command));
        }
    }

    /// Takes the change that the scheduler has given back. The items of its step have been told.
    fn take_back(&mut self, change: &Change) {
        let made = self.control.as_mut().and_then(|control| control.came_back(change));
        if let Some((at, by, command)) = made {
            self.call(|o| o.changed(at, by, &command, &change.loaded));
        }
    }

    fn call(&mut self, f: impl FnOnce(&mut dyn Observer) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = f(self.observer).err();
        }
    }

    fn ends_run(&self) -> bool {
        let asked = self.control.as_ref().is_some_and(|control| control.stop.is_some());
        self.error.is_some() || asked || self.observer.ends_run()
    }

    /// Tells what the scheduler has recorded.
    pub(crate) fn drain(&mut self, outbox: &mut Consumer<Item>, returned: &mut Consumer<Box<Change>>) {
        // The items of its step came before it.
        let mut change = returned.pop().ok();
        while let Ok(item) = outbox.pop() {
            match item {
                Item::Record(record) => {
                    // The change follows the records up to its instant.
                    let is_over = |change: &mut Box<Change>| change.made.is_some_and(|made| made < record.record.at);
                    if let Some(change) = change.take_if(is_over) {
                        self.take_back(&change);
                    }
                    self.call(|o| o.record(&record));
                }
                Item::Found { found, sent } => {
                    self.call(|o| o.found(found.task, found.job, found.cause));
                    self.found.push((found, sent));
                }
                Item::Input(input) => self.inputs.push(input),
                Item::Step { at: now, .. } | Item::Close(now) => {
                    if let Item::Step { late, lost, .. } = item {
                        self.call(|o| o.late(late, lost));
                    }
                    let inputs = std::mem::take(&mut self.inputs);
                    self.tell_added(now, &inputs);
                    self.call(|o| o.step(now, &inputs));
                    self.stepped = now;
                    // The flag was set before any item after the lost one came into the ring, so the mirror takes no step after the gap.
                    self.note_loss();
                    if let Some(control) = self.control.as_mut().filter(|control| !control.is_incomplete) {
                        match item {
                            Item::Close(_) => control.mirror.close(now, &inputs),
                            _ => control.mirror.step(now, &inputs),
                        }
                    }
                    self.inputs = inputs;
                    self.inputs.clear();
                }
            }
        }
        self.note_loss();
        if let Some(change) = change {
            self.take_back(&change);
        }
    }

    /// Reports the tasks that the inputs of a step add.
    fn tell_added(&mut self, at: Time, inputs: &[Input]) {
        for (new, pid) in self.control.iter().flat_map(|control| control.adds(inputs)) {
            if self.error.is_none() {
                self.error = self.observer.added(at, new, pid).err();
            }
        }
    }

    /// After a lost item the mirror is no longer the run.
    fn note_loss(&mut self) {
        if self.lost.load(Ordering::Acquire) {
            self.control.iter_mut().for_each(|control| control.is_incomplete = true);
        }
    }
}
