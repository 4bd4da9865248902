//! The kernel and its locks on a virtual machine.

use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::Step::Run as Execute;
use takt_core::model::*;
use takt_core::policies::{edf, fp, reservation::cbs, rm, rr};
use takt_core::policy::{Entry, Registry};
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::wire::{self, FigureKind, Message, Reader};
use takt_mcu::host::{self, Ended, Machine};
use takt_mcu::sync::{Condvar, Lock, Queue, Semaphore};
use takt_mcu::{Ending, Error, Main, Table, TaskRef, Threads, Trace};

fn us(us: i64) -> Span {
    Span::from_us(us)
}

fn periodic(period: i64, runtime: i64) -> Task {
    let arrival = Arrival::Periodic { offset: Span::ZERO, period: us(period) };
    let cpus = CpuSet::single(0);
    Task { arrival, deadline: Some(us(period)), runtime: Some(us(runtime)), affinity: cpus, ..Task::default() }
}

fn event(distance: i64) -> Task {
    let arrival = Arrival::Event { distance: us(distance), queue: 8, after: None };
    Task { arrival, deadline: Some(us(1_000)), ..periodic(10_000, 100) }
}

fn system(entry: &'static Entry, tasks: Vec<Task>) -> System {
    System { tasks, ..System::new(CpuSet::single(0), PolicySpec::new(&entry.profile, Scope::Uniprocessor)) }
}

/// A table that lives as long as the test.
fn table<const N: usize>(entry: &'static Entry, system: &System, duration: Span) -> &'static Table<N> {
    let mut bytes = Vec::new();
    wire::put_system(&mut bytes, system).expect("an online system has a form");
    let table = Table {
        system: bytes.leak(),
        policy: entry,
        stacks: [512; N],
        restarts: [false; N],
        changes: &[],
        duration: Some(duration),
    };
    Box::leak(Box::new(table))
}

fn run<const N: usize>(table: &'static Table<N>, machine: Machine, mains: [Main; N]) -> Ended {
    host::run(machine, || takt_mcu::start(&host::BOARD, table, mains, Trace::ring(1 << 20)))
}

/// The contents of a stream.
#[derive(Default)]
struct Decoded {
    steps: Vec<takt_sim::Step>,
    records: Vec<Record>,
    figures: Vec<(FigureKind, u32, u64)>,
    misuses: Vec<(u32, u8)>,
    faults: Vec<(Option<u32>, u8)>,
}

fn decode(run: &Ended) -> Decoded {
    let (mut reader, mut base, mut decoded) = (Reader::new(&run.stream), Time::ZERO, Decoded::default());
    while let Some(message) = wire::next_message(&mut reader, &mut base).expect("the stream is sound") {
        match message {
            Message::Step { now } | Message::Close { end: now } => {
                decoded.steps.push(takt_sim::Step { now, inputs: Vec::new() });
            }
            Message::Input(input) => decoded.steps.last_mut().expect("inputs follow a step").inputs.push(input),
            Message::Record(record) => decoded.records.push(record),
            Message::Figure(figure) => decoded.figures.push((figure.kind, figure.index, figure.value)),
            Message::Misuse { task, error } => decoded.misuses.push((task, error)),
            Message::Fault { task, cause, .. } => decoded.faults.push((task, cause)),
            Message::Dropped { count } => panic!("{count} messages found no room"),
            Message::Header { .. } | Message::End => {}
        }
    }
    decoded
}

/// The engine makes the same decisions once more.
fn assert_replays(system: &System, entry: &'static Entry, decoded: &Decoded) {
    let registry = Registry::default().with(entry);
    let mut engine = Engine::with_registry(system.clone(), registry).expect("the policy can schedule it");
    let mut again: Vec<Record> = Vec::new();
    takt_sim::replay(&mut engine, &decoded.steps, &mut again);
    assert_same(&decoded.records, &again, entry.profile.name);
}

/// The records are the same; otherwise the first difference is shown, with what comes before it.
fn assert_same(own: &[Record], others: &[Record], name: &str) {
    let same = own.iter().zip(others).take_while(|(own, other)| own == other).count();
    let from = same.saturating_sub(3);
    let shown = |records: &[Record]| format!("{:#?}", &records[from..records.len().min(same + 3)]);
    let whole = same == own.len() && same == others.len();
    assert!(whole, "{name}: record {same} of {} and {}:\n{}\n{}", own.len(), others.len(), shown(own), shown(others));
}

/// The steps of each task's jobs, for [`play`].
struct Scripts(Vec<Vec<Step>>);

/// Does the steps of the task's script, again and again.
fn play(task: &takt_mcu::Task) -> ! {
    let scripts = host::data::<Scripts>().expect("the machine has scripts");
    loop {
        for step in &scripts.0[task.reference().number() as usize] {
            match *step {
                Execute(span) => host::burn(span.ns() as u64),
                Step::Sleep(span) => task.sleep(span).expect("a task may sleep"),
                Step::Lock(resource) => Lock::new(resource.0).acquire().expect("it is free some day"),
                Step::Unlock(resource) => Lock::new(resource.0).release().expect("it is held"),
                Step::Yield => task.yield_now().expect("a task may yield"),
                Step::Call(_) | Step::WaitPeriod => unreachable!("no script has it"),
            }
        }
        task.wait_period().expect("nothing is held");
    }
}

fn scripted(system: &System) -> Machine {
    let script = |task: &Task| match task.program.steps.is_empty() {
        true => vec![Execute(task.runtime.expect("it has one"))],
        false => task.program.steps.clone(),
    };
    let scripts = Scripts(system.tasks.iter().map(script).collect());
    Machine { data: Some(Arc::new(scripts)), ..Machine::default() }
}

/// Where code takes no time, the kernel has the records of the simulator.
fn assert_as_simulated<const N: usize>(entry: &'static Entry, system: &System, duration: Span) {
    let decoded = decode(&run::<N>(table(entry, system, duration), scripted(system), [play; N]));
    let registry = Registry::default().with(entry);
    let mut engine = Engine::with_registry(system.clone(), registry).expect("the policy can schedule it");
    let mut simulated: Vec<Record> = Vec::new();
    takt_sim::simulate(&mut engine, &Scenario::default(), duration, &mut simulated, |_| ());
    assert_same(&decoded.records, &simulated, entry.profile.name);
    assert_replays(system, entry, &decoded);
}

#[test]
fn periodic_tasks_have_the_records_of_the_simulator() {
    let tasks = || vec![periodic(10_000, 3_000), periodic(15_000, 4_000), periodic(35_000, 10_000)];
    for entry in [&edf::ONE_QUEUE, &rm::ENTRY, &rr::ENTRY, &cbs::ENTRY] {
        assert_as_simulated::<3>(entry, &system(entry, tasks()), Span::from_ms(210));
    }
}

#[test]
fn locks_and_sleeps_have_the_records_of_the_simulator() {
    let bus = ResourceId(0);
    let locked = |mut task: Task, before: i64, inside: i64| {
        let steps = vec![
            Execute(us(before)),
            Step::Lock(bus),
            Execute(us(inside)),
            Step::Unlock(bus),
            Step::Sleep(us(400)),
            Execute(us(before)),
        ];
        task.program = Program::doing(steps);
        task
    };
    for locking in [Locking::Fifo, Locking::Inheritance, Locking::Ceiling] {
        let tasks = vec![
            locked(periodic(10_000, 2_000), 300, 900),
            periodic(15_000, 4_000),
            locked(periodic(35_000, 9_000), 2_000, 5_000),
        ];
        let system = System { resources: 1, locking, ..system(&edf::ONE_QUEUE, tasks) };
        assert_as_simulated::<3>(&edf::ONE_QUEUE, &system, Span::from_ms(210));
    }
}

#[test]
fn the_clock_wraps_without_a_step_of_its_own() {
    // The counter of 32 bits wraps every 4.3 s here, and a job comes every 20 s.
    let tasks = vec![periodic(20_000_000, 1_000)];
    let system = system(&edf::ONE_QUEUE, tasks);
    let machine = Machine { counter: u32::MAX - 7, ..scripted(&system) };
    let decoded = decode(&run::<1>(table(&edf::ONE_QUEUE, &system, Span::from_secs(60)), machine, [play]));
    let releases = |r: &&Record| matches!(r.kind, RecordKind::Release { .. });
    assert_eq!(decoded.records.iter().filter(releases).count(), 3);
    // Three releases, three ends, and the close.
    assert_eq!(decoded.steps.len(), 7);
    assert_replays(&system, &edf::ONE_QUEUE, &decoded);
}

static TAKEN: AtomicU32 = AtomicU32::new(0);

#[test]
fn interrupts_release_jobs_and_none_is_lost() {
    fn counted(task: &takt_mcu::Task) -> ! {
        loop {
            host::burn(30_000);
            TAKEN.fetch_add(1, Ordering::Relaxed);
            task.wait_period().expect("nothing is held");
        }
    }
    let system = system(&edf::ONE_QUEUE, vec![event(0), periodic(10_000, 4_000)]);
    let interrupts: Vec<(u64, host::Interrupt)> = (1..=500u64)
        .map(|n| {
            let release = || TaskRef::new(0).release().expect("the kernel runs");
            (n * 100_000 + n % 7 * 1_000, Box::new(release) as host::Interrupt)
        })
        .collect();
    let machine = Machine { interrupts, ..scripted(&system) };
    let decoded = decode(&run(table(&edf::ONE_QUEUE, &system, Span::from_ms(60)), machine, [counted, play]));
    let inputs = decoded.steps.iter().flat_map(|step| &step.inputs);
    let released = inputs.filter(|input| matches!(input, Input::Release { .. })).count() as u64;
    let merged = decoded.figures.iter().find(|f| (f.0, f.1) == (FigureKind::Merged, 0)).map_or(0, |f| f.2);
    assert_eq!(released + merged, 500);
    assert!(TAKEN.load(Ordering::Relaxed) > 400);
    assert_replays(&system, &edf::ONE_QUEUE, &decoded);
}

#[test]
fn an_aborted_job_gives_its_lock_back_and_the_thread_begins_again() {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    static POISONED: AtomicU32 = AtomicU32::new(0);
    const BUS: Lock = Lock::new(0);
    fn late(_: &takt_mcu::Task) -> ! {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        BUS.acquire().or_else(|_| BUS.acquire()).expect("a poisoned lock is so once");
        loop {
            host::burn(1_000_000);
        }
    }
    fn other(task: &takt_mcu::Task) -> ! {
        loop {
            match BUS.lock(|| host::burn(10_000)) {
                Ok(()) => {}
                Err(Error::Poisoned) => {
                    POISONED.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(BUS.lock(|| 7), Ok(7));
                }
                Err(why) => panic!("{why:?}"),
            }
            task.wait_period().expect("nothing is held");
        }
    }
    let tasks = vec![periodic(10_000, 4_000), periodic(20_000, 1_000)];
    let system = System { resources: 1, late: Late::Abort, ..system(&edf::ONE_QUEUE, tasks) };
    let decoded = decode(&run(table(&edf::ONE_QUEUE, &system, Span::from_ms(100)), Machine::default(), [late, other]));
    assert_eq!(BEGUN.load(Ordering::Relaxed), 10, "each job begins at the task's function");
    assert!(POISONED.load(Ordering::Relaxed) > 0);
    let at: Vec<i64> = decoded
        .records
        .iter()
        .filter(|r| matches!(r.kind, RecordKind::Finish { task: TaskId(0), outcome: Outcome::Aborted, .. }))
        .map(|r| r.at.ns())
        .collect();
    assert_eq!(at, (1..=10).map(|n| n * 10_000_000).collect::<Vec<_>>());
    assert_replays(&system, &edf::ONE_QUEUE, &decoded);
}

/// The lock is unlocked at the deadline of the job that waits for it: the engine grants the lock, and then aborts the job.
#[test]
fn a_grant_to_a_job_that_is_aborted_at_the_same_instant_is_void() {
    static ANSWERS: Mutex<Vec<Result<(), Error>>> = Mutex::new(Vec::new());
    static HANDLED: AtomicU32 = AtomicU32::new(0);
    fn answered(answer: Result<(), Error>) {
        ANSWERS.lock().expect("no one panics").push(answer);
    }
    fn waits(task: &takt_mcu::Task) -> ! {
        loop {
            answered(BUS.acquire());
            answered(BUS.release());
            answered(task.wait_period());
        }
    }
    fn holds(task: &takt_mcu::Task) -> ! {
        loop {
            BUS.lock(|| host::burn(6_000_000)).expect("it is free");
            task.wait_period().expect("nothing is held");
        }
    }
    fn handler(_: &takt_mcu::Task) {
        host::burn(500_000);
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    for handled in [None, Some(Handler { runtime: us(500), deadline: Some(us(2_000)), utility: 0 })] {
        let arrival = Arrival::Periodic { offset: us(2_000), period: us(20_000) };
        let first =
            Task { arrival, deadline: Some(us(4_000)), handler: handled, priority: 2, ..periodic(20_000, 1_000) };
        let once = Arrival::Listed { instants: vec![Span::ZERO] };
        let second = Task { arrival: once, deadline: None, priority: 1, ..periodic(20_000, 6_000) };
        let system = System { resources: 1, late: Late::Abort, ..system(&fp::ENTRY, vec![first, second]) };
        let table = table::<2>(&fp::ENTRY, &system, Span::from_ms(50));
        let mut threads = Threads::new([waits as Main, holds]);
        if handled.is_some() {
            threads = threads.handler(TaskRef::new(0), handler);
        }
        let ran = host::run(Machine::default(), || takt_mcu::start(&host::BOARD, table, threads, Trace::ring(1 << 16)));
        let decoded = decode(&ran);
        // The second and the third job have the lock at once.
        let answers = core::mem::take(&mut *ANSWERS.lock().expect("no one panics"));
        assert_eq!((answers, decoded.misuses.as_slice()), (vec![Ok(()); 5], &[][..]), "handler: {}", handled.is_some());
        assert_eq!(HANDLED.load(Ordering::Relaxed), u32::from(handled.is_some()));
        assert_replays(&system, &fp::ENTRY, &decoded);
    }
}

#[test]
fn a_handler_runs_after_an_abort() {
    static HANDLED: AtomicU32 = AtomicU32::new(0);
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    fn late(_: &takt_mcu::Task) -> ! {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        loop {
            host::burn(1_000_000);
        }
    }
    fn handler(_: &takt_mcu::Task) {
        host::burn(500_000);
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    let handled = Handler { runtime: us(500), deadline: Some(us(2_000)), utility: 0 };
    let system = System {
        late: Late::Abort,
        ..system(
            &edf::ONE_QUEUE,
            vec![Task { handler: Some(handled), deadline: Some(us(5_000)), ..periodic(10_000, 4_000) }],
        )
    };
    let table = table::<1>(&edf::ONE_QUEUE, &system, Span::from_ms(95));
    let threads = Threads::new([late as Main]).handler(TaskRef::new(0), handler);
    let ran = host::run(Machine::default(), || takt_mcu::start(&host::BOARD, table, threads, Trace::ring(1 << 16)));
    let decoded = decode(&ran);
    assert_eq!((HANDLED.load(Ordering::Relaxed), BEGUN.load(Ordering::Relaxed)), (9, 10));
    assert_replays(&system, &edf::ONE_QUEUE, &decoded);
    // Without the function it is refused before anything starts.
    let refused = host::run(Machine::default(), || takt_mcu::start(&host::BOARD, table, [late as Main], Trace::OFF));
    assert_eq!(refused.ending, Ending::Failed);
    assert!(refused.report.contains("unsuitable table"), "{}", refused.report);
}

#[test]
fn misuses_are_refused_and_recorded() {
    const BUS: Lock = Lock::new(0);
    fn wrong(task: &takt_mcu::Task) -> ! {
        assert_eq!(BUS.release(), Err(Error::NotHeld));
        assert_eq!(BUS.acquire(), Ok(()));
        assert_eq!(BUS.acquire(), Err(Error::Held));
        assert_eq!(BUS.acquire_until(Time::MAX), Err(Error::Held));
        assert_eq!(task.wait_period(), Err(Error::HoldsLock));
        assert_eq!(BUS.release(), Ok(()));
        assert_eq!(TaskRef::new(0).release(), Ok(()), "it is noted, and refused by the kernel");
        assert_eq!(TaskRef::new(9).wake(), Err(Error::NotATask));
        assert_eq!(TaskRef::new(0).set_share(Some(0), 1), Err(Error::Refused));
        loop {
            task.wait_period().expect("nothing is held");
        }
    }
    let system = System { resources: 1, ..system(&edf::ONE_QUEUE, vec![periodic(10_000, 1_000)]) };
    let ran = run(table(&edf::ONE_QUEUE, &system, Span::from_ms(25)), Machine::default(), [wrong as Main]);
    let decoded = decode(&ran);
    assert_eq!(decoded.misuses.iter().map(|(_, error)| *error).collect::<Vec<_>>(), [4, 3, 3, 5, 10]);
    assert_eq!(ran.ending, Ending::Completed);
    assert_replays(&system, &edf::ONE_QUEUE, &decoded);
}

#[test]
fn a_panic_ends_the_kernel_or_the_job() {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    fn panics(_: &takt_mcu::Task) -> ! {
        host::burn(1_000);
        JOBS.fetch_add(1, Ordering::Relaxed);
        // As `panic!`, but without a message of the test harness.
        std::panic::resume_unwind(Box::new("fault"))
    }
    let system = system(&edf::ONE_QUEUE, vec![periodic(10_000, 1_000)]);
    let stops = table::<1>(&edf::ONE_QUEUE, &system, Span::from_ms(45));
    let ran = run(stops, Machine::default(), [panics as Main]);
    assert_eq!((ran.ending, JOBS.swap(0, Ordering::Relaxed)), (Ending::Failed, 1));
    assert!(ran.report.contains("panic in task 0"), "{}", ran.report);
    let continues: &'static Table<1> = Box::leak(Box::new(Table { restarts: [true], ..*stops }));
    let ran = run(continues, Machine::default(), [panics as Main]);
    assert_eq!((ran.ending, JOBS.load(Ordering::Relaxed)), (Ending::Completed, 5));
    let decoded = decode(&ran);
    assert_eq!(decoded.faults, [(Some(0), 6); 5]);
    assert_replays(&system, &edf::ONE_QUEUE, &decoded);
}

/// The high task waits for 2 ms. Until then the low one inherits from it, and afterwards the middle one comes first.
#[test]
fn a_task_gives_up_waiting_for_a_lock() {
    static ENDS: Mutex<Vec<(u32, i64)>> = Mutex::new(Vec::new());
    fn ended(task: &takt_mcu::Task) {
        let at = (takt_mcu::now() - Time::ZERO).ns() / 1_000;
        ENDS.lock().expect("no one panics").push((task.reference().number(), at));
        task.wait_period().expect("nothing is held");
    }
    fn high(task: &takt_mcu::Task) -> ! {
        loop {
            host::burn(1_000_000);
            let until = takt_mcu::now() + Span::from_ms(2);
            assert_eq!(BUS.lock_until(until, || ()), Err(Error::TimedOut));
            assert_eq!((takt_mcu::now(), BUS.release()), (until, Err(Error::NotHeld)));
            assert_eq!(BUS.acquire_until(Time::ZERO), Err(Error::TimedOut), "the instant has passed");
            ended(task);
            // The low task has ended by then.
            task.sleep_until(Time::ZERO + Span::from_ms(40)).expect("a task may sleep");
            assert_eq!(BUS.lock_until(Time::ZERO, || 5), Ok(5), "the lock is free");
            assert_eq!(BUS.lock_until(Time::MAX, || 6), Ok(6));
            ended(task);
        }
    }
    fn middle(task: &takt_mcu::Task) -> ! {
        loop {
            host::burn(20_000_000);
            ended(task);
        }
    }
    fn low(task: &takt_mcu::Task) -> ! {
        loop {
            BUS.lock(|| host::burn(5_000_000)).expect("it is free");
            host::burn(1_000_000);
            ended(task);
        }
    }
    let task = |offset: i64, priority: u32| {
        let arrival = Arrival::Periodic { offset: us(offset), period: us(100_000) };
        Task { arrival, priority, ..periodic(100_000, 1_000) }
    };
    // The second job of the high task comes while it sleeps.
    let first = Arrival::Listed { instants: vec![us(2_000), us(30_000)] };
    let tasks = vec![Task { arrival: first, ..task(0, 3) }, task(4_000, 2), task(0, 1)];
    let system = System { resources: 1, locking: Locking::Inheritance, ..system(&fp::ENTRY, tasks) };
    let ran = run(table(&fp::ENTRY, &system, Span::from_ms(90)), Machine::default(), [high as Main, middle, low]);
    let decoded = decode(&ran);
    assert_eq!(*ENDS.lock().expect("no one panics"), [(0, 5_000), (1, 25_000), (2, 27_000), (0, 40_000)]);
    let withdrawn = |r: &&Record| matches!(r.kind, RecordKind::Withdraw { task: TaskId(0), resource: ResourceId(0) });
    let at: Vec<i64> = decoded.records.iter().filter(withdrawn).map(|r| r.at.ns()).collect();
    assert_eq!(at, [5_000_000]);
    // The unlock of the other task's lock is the only misuse.
    assert_eq!((decoded.misuses, ran.ending), (vec![(0, Error::NotHeld as u8)], Ending::Completed));
    assert_replays(&system, &fp::ENTRY, &decode(&ran));
}

/// The unlock and the end of the waiting come in one entry of the kernel.
#[test]
fn a_lock_that_is_unlocked_at_the_last_instant_is_granted() {
    static GRANTED: AtomicU32 = AtomicU32::new(0);
    fn high(task: &takt_mcu::Task) -> ! {
        loop {
            let until = takt_mcu::now() + Span::from_ms(3);
            assert_eq!(BUS.acquire_until(until), Ok(()));
            assert_eq!(takt_mcu::now(), until);
            GRANTED.fetch_add(1, Ordering::Relaxed);
            BUS.release().expect("it is held");
            task.wait_period().expect("nothing is held");
        }
    }
    fn low(task: &takt_mcu::Task) -> ! {
        loop {
            BUS.lock(|| host::burn(5_000_000)).expect("it is free");
            task.wait_period().expect("nothing is held");
        }
    }
    let task = |offset: i64, priority: u32| {
        let arrival = Arrival::Periodic { offset: us(offset), period: us(10_000) };
        Task { arrival, priority, ..periodic(10_000, 1_000) }
    };
    let system = System { resources: 1, ..system(&fp::ENTRY, vec![task(2_000, 2), task(0, 1)]) };
    let ran = run(table(&fp::ENTRY, &system, Span::from_ms(30)), Machine::default(), [high as Main, low]);
    let decoded = decode(&ran);
    assert_eq!((ran.ending, GRANTED.load(Ordering::Relaxed)), (Ending::Completed, 3));
    let inputs = decoded.steps.iter().flat_map(|step| &step.inputs);
    assert_eq!(inputs.filter(|input| matches!(input, Input::Withdraw { .. })).count(), 3, "they came too late");
    assert!(!decoded.records.iter().any(|record| matches!(record.kind, RecordKind::Withdraw { .. })));
    assert_replays(&system, &fp::ENTRY, &decoded);
}

/// The objects on which tasks and interrupts act at random.
struct Stress {
    semaphore: Semaphore,
    given: AtomicU64,
    taken: AtomicU64,
    timed_out: AtomicU64,
    queue: Queue<u64, 4>,
    sent: AtomicU64,
    received: Mutex<Vec<u64>>,
    condvar: Condvar,
    /// Guarded by lock 0: how many are inside, and how many tokens there are.
    inside: AtomicU32,
    tokens: AtomicU64,
    eaten: AtomicU64,
    /// For tasks that give up: whether each of two locks is taken, and how many jobs each task has done.
    held: [AtomicU32; 2],
    jobs: [AtomicU64; 5],
    state: AtomicU64,
    trouble: Mutex<Vec<String>>,
}

impl Stress {
    fn new(seed: u64) -> Stress {
        Stress {
            semaphore: Semaphore::new(0),
            given: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            queue: Queue::new(),
            sent: AtomicU64::new(0),
            received: Mutex::new(Vec::new()),
            condvar: Condvar::new(),
            inside: AtomicU32::new(0),
            tokens: AtomicU64::new(0),
            eaten: AtomicU64::new(0),
            held: [const { AtomicU32::new(0) }; 2],
            jobs: [const { AtomicU64::new(0) }; 5],
            state: AtomicU64::new(seed | 1),
            trouble: Mutex::new(Vec::new()),
        }
    }
    fn draw(&self, below: u64) -> u64 {
        let mut state = self.state.load(Ordering::Relaxed);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.store(state, Ordering::Relaxed);
        state % below
    }
    fn expect(&self, holds: bool, what: &str) {
        if !holds {
            self.trouble.lock().expect("no one panics").push(what.to_owned());
        }
    }
}

const BUS: Lock = Lock::new(0);

/// The machine's data, for as long as the process: waiting objects are static.
struct Leaked(&'static Stress);

fn stress() -> &'static Stress {
    host::data::<Leaked>().expect("the machine has it").0
}

fn giver(task: &takt_mcu::Task) -> ! {
    let s = stress();
    loop {
        host::burn(s.draw(200_000));
        s.given.fetch_add(1, Ordering::Relaxed);
        s.semaphore.give();
        let value = s.sent.fetch_add(1, Ordering::Relaxed);
        s.expect(s.queue.send(value) == Ok(()), "send");
        task.wait_period().expect("nothing is held");
    }
}

fn taker(task: &takt_mcu::Task) -> ! {
    let s = stress();
    loop {
        let until = takt_mcu::now() + Span::from_ns(s.draw(3_000_000) as i64);
        match s.semaphore.take_until(until) {
            Ok(()) => s.taken.fetch_add(1, Ordering::Relaxed),
            Err(Error::TimedOut) => {
                s.expect(takt_mcu::now() >= until, "a time-out before its time");
                s.timed_out.fetch_add(1, Ordering::Relaxed)
            }
            Err(_) => {
                s.expect(false, "take");
                0
            }
        };
        host::burn(s.draw(100_000));
        task.wait_period().expect("nothing is held");
    }
}

fn receiver(task: &takt_mcu::Task) -> ! {
    let s = stress();
    loop {
        match s.queue.receive() {
            Ok(value) => s.received.lock().expect("no one panics").push(value),
            Err(_) => s.expect(false, "receive"),
        }
        host::burn(s.draw(50_000));
        if s.draw(3) == 0 {
            task.wait_period().expect("nothing is held");
        }
    }
}

/// Waits for tokens under the lock.
fn eater(task: &takt_mcu::Task) -> ! {
    let s = stress();
    loop {
        BUS.acquire().expect("it is free some day");
        while s.tokens.load(Ordering::Relaxed) == 0 {
            s.expect(s.inside.swap(0, Ordering::Relaxed) == 0, "the lock excludes others");
            let _ = s.condvar.wait_until(BUS, takt_mcu::now() + Span::from_ms(40));
            if s.draw(8) == 0 {
                break;
            }
        }
        s.expect(s.inside.swap(1, Ordering::Relaxed) == 0, "the lock excludes others");
        host::burn(s.draw(30_000));
        if s.tokens.load(Ordering::Relaxed) > 0 {
            s.tokens.fetch_sub(1, Ordering::Relaxed);
            s.eaten.fetch_add(1, Ordering::Relaxed);
        }
        s.expect(s.inside.swap(0, Ordering::Relaxed) == 1, "the lock excludes others");
        BUS.release().expect("it is held");
        task.wait_period().expect("nothing is held");
    }
}

fn cook(task: &takt_mcu::Task) -> ! {
    let s = stress();
    loop {
        BUS.lock(|| {
            s.expect(s.inside.swap(1, Ordering::Relaxed) == 0, "the lock excludes others");
            host::burn(s.draw(60_000));
            s.tokens.fetch_add(1, Ordering::Relaxed);
            s.expect(s.inside.swap(0, Ordering::Relaxed) == 1, "the lock excludes others");
        })
        .expect("it is free some day");
        if s.draw(2) == 0 {
            s.condvar.notify_one()
        } else {
            s.condvar.notify_all()
        }
        task.wait_period().expect("nothing is held");
    }
}

/// Random calls, with interrupts between any two critical sections: no wake-up is lost, one task at a time has a lock, and a replay has
/// the same records.
#[test]
fn random_calls_and_interrupts_lose_no_wake_up() {
    takt_testing::for_all(8, any::<u64>(), |seed| {
        let s: &'static Stress = Box::leak(Box::new(Stress::new(seed)));
        let tasks = vec![
            periodic(700, 100),
            periodic(1_100, 100),
            periodic(900, 100),
            periodic(1_300, 100),
            periodic(1_700, 100),
            event(0),
        ];
        let entries = [&edf::ONE_QUEUE, &fp::ENTRY, &rr::ENTRY];
        let entry = entries[(seed % 3) as usize];
        let locking = [Locking::Fifo, Locking::Inheritance, Locking::Ceiling][(seed / 3 % 3) as usize];
        let system = System { resources: 1, locking, ..system(entry, tasks) };
        // At random an interrupt gives, sends, notifies or releases.
        let between = move || match s.draw(40) {
            0 => {
                s.given.fetch_add(1, Ordering::Relaxed);
                s.semaphore.give();
            }
            1 => s.condvar.notify_one(),
            2 => drop(TaskRef::new(5).release()),
            3 => s.expect(s.semaphore.take_until(Time::ZERO) == Err(Error::InInterrupt), "an interrupt cannot block"),
            _ => {}
        };
        let machine = Machine {
            between: Some(Box::new(between)),
            data: Some(Arc::new(Leaked(s))),
            counter: (seed >> 32) as u32,
            ..Machine::default()
        };
        fn released(task: &takt_mcu::Task) -> ! {
            let s = stress();
            loop {
                if let Ok(value) = s.queue.try_receive() {
                    s.received.lock().expect("no one panics").push(value);
                }
                task.wait_period().expect("nothing is held");
            }
        }
        let ran =
            run(table(entry, &system, Span::from_ms(300)), machine, [giver, taker, receiver, eater, cook, released]);
        prop_assert_eq!(ran.ending, Ending::Completed);
        let trouble = s.trouble.lock().expect("no one panics").clone();
        prop_assert!(trouble.is_empty(), "{:?}", trouble);
        let loaded = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Each semaphore that was given was taken, or is there.
        let (given, taken) = (loaded(&s.given), loaded(&s.taken));
        prop_assert!(taken <= given && taken > 20, "{} given, {} taken", given, taken);
        let mut received = s.received.lock().expect("no one panics").clone();
        received.sort_unstable();
        prop_assert!(received.windows(2).all(|pair| pair[0] < pair[1]), "a value came twice");
        let sent = loaded(&s.sent);
        // The queue holds four at most, and a value may be on its way to it or from it.
        prop_assert!(received.len() as u64 + 7 >= sent, "{} sent, {} received", sent, received.len());
        prop_assert!(loaded(&s.eaten) > 20, "{} tokens eaten", loaded(&s.eaten));
        assert_replays(&system, entry, &decode(&ran));
        Ok(())
    });
}

/// Takes one of two locks. Only a task that has no lock waits without an end, so that each cycle of waiting tasks ends.
fn takes(s: &Stress, which: usize, has_another: bool) -> bool {
    let lock = Lock::new(which as u16);
    let until = match s.draw(8) {
        0 => Time::ZERO,
        1 if !has_another => Time::MAX,
        _ => takt_mcu::now() + Span::from_ns(s.draw(300_000) as i64),
    };
    let answer = if until == Time::MAX && s.draw(2) == 0 { lock.acquire() } else { lock.acquire_until(until) };
    match answer {
        Ok(()) => {
            s.expect(s.held[which].swap(1, Ordering::Relaxed) == 0, "the lock excludes others");
            s.taken.fetch_add(1, Ordering::Relaxed);
        }
        Err(Error::TimedOut) => {
            s.expect(takt_mcu::now() >= until, "a time-out before its time");
            s.timed_out.fetch_add(1, Ordering::Relaxed);
        }
        Err(_) => s.expect(false, "acquire"),
    }
    answer.is_ok()
}

fn returns(s: &Stress, which: usize) {
    s.expect(s.held[which].swap(0, Ordering::Relaxed) == 1, "the lock excludes others");
    s.expect(Lock::new(which as u16).release() == Ok(()), "release");
}

/// Takes both locks in any order.
fn impatient(task: &takt_mcu::Task) -> ! {
    let s = stress();
    loop {
        let first = s.draw(2) as usize;
        host::burn(s.draw(30_000));
        if takes(s, first, false) {
            host::burn(s.draw(120_000));
            if takes(s, 1 - first, true) {
                host::burn(s.draw(40_000));
                returns(s, 1 - first);
            }
            returns(s, first);
        }
        s.jobs[task.reference().number() as usize].fetch_add(1, Ordering::Relaxed);
        task.wait_period().expect("nothing is held");
    }
}

/// Tasks wait for two locks in both orders, and give up at random instants: one task at a time has a lock, no grant is lost, all tasks
/// continue, and a replay has the same records.
#[test]
fn random_time_outs_of_locks_lose_no_grant() {
    takt_testing::for_all(8, any::<u64>(), |seed| {
        let s: &'static Stress = Box::leak(Box::new(Stress::new(seed)));
        let task = |period: i64| Task { priority: period as u32, ..periodic(period, 200) };
        let tasks = [700, 1_100, 900, 1_300, 1_700].map(task).to_vec();
        let entry = [&edf::ONE_QUEUE, &fp::ENTRY, &rm::ENTRY, &cbs::ENTRY][(seed % 4) as usize];
        let locking = [Locking::Fifo, Locking::Inheritance, Locking::Ceiling][(seed / 4 % 3) as usize];
        let system = System { resources: 2, locking, ..system(entry, tasks) };
        let between = move || {
            if s.draw(60) == 0 {
                s.expect(Lock::new(0).acquire_until(Time::MAX) == Err(Error::InInterrupt), "an interrupt cannot block");
            }
        };
        let machine = Machine {
            between: Some(Box::new(between)),
            data: Some(Arc::new(Leaked(s))),
            counter: (seed >> 32) as u32,
            ..Machine::default()
        };
        let ran = run(table(entry, &system, Span::from_ms(300)), machine, [impatient; 5]);
        prop_assert_eq!(ran.ending, Ending::Completed);
        let trouble = s.trouble.lock().expect("no one panics").clone();
        prop_assert!(trouble.is_empty(), "{:?}", trouble);
        let loaded = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        prop_assert!(loaded(&s.taken) > 100, "{} taken", loaded(&s.taken));
        prop_assert!(loaded(&s.timed_out) > 10, "{} timed out", loaded(&s.timed_out));
        let jobs: Vec<u64> = s.jobs.iter().map(loaded).collect();
        prop_assert!(jobs.iter().all(|jobs| *jobs > 100), "{:?} jobs", jobs);
        let decoded = decode(&ran);
        prop_assert!(decoded.misuses.is_empty(), "{:?}", decoded.misuses);
        assert_replays(&system, entry, &decoded);
        Ok(())
    });
}
