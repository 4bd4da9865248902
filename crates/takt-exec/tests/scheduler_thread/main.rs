//! Between the start of the schedule and its end the scheduler thread allocates nothing, has no page fault, and makes no system call but
//! those on a list.
//!
//! This program is its own watcher, starter and load, so it has no test harness: `scheduler_thread __watch …`, `… __start …` and
//! `… __load …`.

mod calls;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use takt_core::time::Span;
use takt_exec::{Dispatch, Ended, Hooks, Observer, Plan, Process, Reaction, Report, SchedulerClass};
use takt_linux::leftovers::OnCrash;
use takt_linux::protocol::Client;
use takt_linux::{Choice, JobEnd, Mechanism, RunId, Signal, starter, timer, watcher};
use takt_testing::{Capability, skip};
use takt_trace::Stamped;
use takt_workload::{Descriptors, Observed, Options, Source, Spawn};

struct Counting;

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}
/// Calls of the allocator, of any kind, by the thread that counts.
static CALLS: AtomicU64 = AtomicU64::new(0);
static ENTERED: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);

fn count() {
    if COUNTS.with(Cell::get) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Without filters of the kernel, calls are not watched.
static WATCHED: AtomicU64 = AtomicU64::new(0);

fn enter() {
    WATCHED.fetch_add(u64::from(calls::watch()), Ordering::Relaxed);
    COUNTS.with(|counts| counts.set(true));
    ENTERED.fetch_add(1, Ordering::Relaxed);
}

fn leave() {
    calls::leave();
    COUNTS.with(|counts| counts.set(false));
    LEFT.fetch_add(1, Ordering::Relaxed);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[1..] {
        [watcher::SUBCOMMAND, pid, run, mode] => {
            watcher::watch(pid.parse().unwrap(), &run.parse().unwrap(), mode.parse().unwrap())
        }
        [starter::SUBCOMMAND, _] => starter::serve(),
        ["__load", us] => load(Span::from_us(us.parse().unwrap())),
        ["__client", us] => client(Span::from_us(us.parse().unwrap())),
        ["__unmodified", us, end] => unmodified(Span::from_us(us.parse().unwrap()), end == "yield"),
        _ => {}
    }
    // One test at a time on this machine's CPUs, whichever test program it is in.
    let name = format!("takt-tests-{}.lock", rustix::process::getuid().as_raw());
    let cpus = std::fs::File::options().create(true).append(true).open(std::env::temp_dir().join(name)).unwrap();
    cpus.lock().unwrap();
    // A scheduler that never comes back must not hang the test.
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(600));
        eprintln!("not within 600 s");
        std::process::abort();
    });
    the_counter_counts();
    calls::begin();
    the_filter_reports();
    let (mut watched, mut locked, mut unlisted) = (true, true, Vec::new());
    let load = std::env::current_exe().unwrap();
    let mechanisms = [
        ("v1", Choice::V1, Capability::V1),
        ("v2", Choice::V2, Capability::V2),
        ("signal", Choice::Signal, Capability::Signals),
    ];
    for (name, choice, capability) in mechanisms {
        if let Err(e) = Mechanism::open(choice, &RunId::new().unwrap()) {
            skip(capability, &format!("{name}: {e}; {}", e.fix));
            continue;
        }
        for (what, text) in workloads(&load.display().to_string()) {
            if text.contains("completion: sleep") && !Capability::Tracepoints.is_present() {
                skip(Capability::Tracepoints, "no right to observe processes");
                continue;
            }
            if what == MOVED && !Capability::Cpus.is_present() {
                skip(Capability::Cpus, "a partition that moves");
                continue;
            }
            if text.starts_with("dispatch: priority") && !takt_linux::rt::rt_allowed() {
                skip(Capability::RealTime, "dispatch by priority needs SCHED_FIFO");
                continue;
            }
            let mut listed = LISTED.to_vec();
            if what == MOVED && name != "v1" {
                listed.extend(OF_AFFINITIES);
            }
            if what == CLIENTS {
                listed.extend(OF_CLIENTS);
            }
            if text.contains("descriptors: few") {
                listed.extend(OF_FEW_DESCRIPTORS);
            }
            if text.starts_with("dispatch: priority") {
                listed.extend(OF_PRIORITIES);
            }
            // Before it closes a descriptor, the standard library asks for it in builds with checks.
            if cfg!(debug_assertions) && listed.contains(&libc::SYS_close) {
                listed.push(libc::SYS_fcntl);
            }
            calls::list(&listed);
            // The kernel may move pages at any time. A fault of the program comes back in each run.
            let mut faults = u64::MAX;
            // A machine that stalls for most of a run spoils it.
            let did_something = (0..10).any(|_| {
                let report = run(&text, choice);
                let calls = CALLS.swap(0, Ordering::Relaxed);
                let marks = (ENTERED.swap(0, Ordering::Relaxed), LEFT.swap(0, Ordering::Relaxed));
                let completed: u64 = report.counts.iter().map(|c| c.completed).sum();
                watched &= WATCHED.swap(0, Ordering::Relaxed) == 1;
                locked &= !report.notes.iter().any(|note| note.contains("memory is not locked"));
                let other = calls::found();
                println!(
                    "{name}, {what}: {calls} calls of the allocator, {:?} page faults, unlisted system calls {other:?} in {completed} jobs",
                    report.page_faults
                );
                faults = faults.min(report.page_faults.expect("the kernel counts them"));
                assert_eq!(marks, (1, 1), "the scheduler thread was watched");
                assert_eq!(report.ended, Ended::Duration);
                assert_eq!(calls, 0, "{name}, {what}");
                if !other.is_empty() {
                    unlisted.push(format!("{name}, {what}: {other:?}"));
                }
                completed >= 5 && (!locked || faults == 0)
            });
            assert!(did_something, "{name}, {what}: {faults} page faults");
        }
    }
    assert!(unlisted.is_empty(), "system calls that are not on the list: {unlisted:#?}");
    if !watched {
        skip(Capability::CallFilters, "the system calls of the scheduler thread");
    }
    if !locked {
        skip(Capability::LockedMemory, "the page faults of the scheduler thread");
    }
}

/// The system calls of the scheduler thread during every schedule: `epoll_pwait` and `timerfd_settime` wait for an instant, a completion or a
/// message. `pwrite64` stops and starts processes. `write` answers completions and wakes the supervisor. `clock_gettime` reads the CPU time of
/// processes. `kill` sends the signals of reactions, and `getrusage` is the thread's own account of its page faults. PREEMPT_RT (`ppoll`) and
/// sources that are muted (`epoll_ctl`) have no test, for lack of such a machine and of a muted source.
const LISTED: &[libc::c_long] = &[
    libc::SYS_epoll_pwait,
    libc::SYS_timerfd_settime,
    libc::SYS_pwrite64,
    libc::SYS_write,
    libc::SYS_clock_gettime,
    libc::SYS_kill,
    libc::SYS_getrusage,
];
/// Where CPU sets are set thread by thread, for which the threads of a partition are listed.
const OF_AFFINITIES: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_getdents64,
    libc::SYS_close,
    libc::SYS_sched_setaffinity,
];
/// For programs that signal by their pages: they are woken, and asked whether they sleep.
const OF_CLIENTS: &[libc::c_long] = &[libc::SYS_futex];
/// Where a control file, or the descriptor by which a process continues, may have to be opened and closed.
const OF_FEW_DESCRIPTORS: &[libc::c_long] = &[libc::SYS_openat, libc::SYS_close];
/// With dispatch by priority.
const OF_PRIORITIES: &[libc::c_long] = &[libc::SYS_sched_setattr];

/// If nothing were reported, nothing would be shown.
fn the_filter_reports() {
    let watch = || {
        let watched = calls::watch();
        // Neither is made without a system call.
        let _ = rustix::process::getppid();
        let _ = rustix::process::getuid();
        calls::leave();
        let _ = rustix::process::getuid();
        watched
    };
    calls::list(&[libc::SYS_getuid]);
    if std::thread::spawn(watch).join().unwrap() {
        assert_eq!(calls::found(), [libc::SYS_getppid]);
    }
}

/// If nothing were counted, nothing would be shown.
fn the_counter_counts() {
    COUNTS.with(|counts| counts.set(true));
    drop(std::hint::black_box(Vec::<u64>::with_capacity(10)));
    COUNTS.with(|counts| counts.set(false));
    drop(std::hint::black_box(Vec::<u64>::with_capacity(10)));
    assert_eq!(CALLS.swap(0, Ordering::Relaxed), 2);
}

/// A task that uses CPU time and signals completion, again and again.
fn load(amount: Span) -> ! {
    let client = Client::from_env().unwrap();
    loop {
        let end = timer::cpu_now() + amount;
        while timer::cpu_now() < end {
            std::hint::spin_loop();
        }
        client.completed().unwrap();
    }
}

/// A task that signals by its page, and asks for statistics.
fn client(amount: Span) -> ! {
    let mut client = takt_client::Client::attach().unwrap();
    client.ready().unwrap();
    loop {
        let end = timer::cpu_now() + amount;
        while timer::cpu_now() < end {
            std::hint::spin_loop();
        }
        client.statistics().unwrap();
        client.next_job().unwrap();
    }
}

/// A task that uses CPU time and knows of no scheduler.
fn unmodified(amount: Span, yields: bool) -> ! {
    loop {
        let end = timer::cpu_now() + amount;
        while timer::cpu_now() < end {
            std::hint::spin_loop();
        }
        if yields { std::thread::yield_now() } else { std::thread::sleep(Duration::from_micros(100)) }
    }
}

const MOVED: &str = "a partition that moves between CPUs";
const CLIENTS: &str = "edf with pages of programs";

/// Work that takes every path of the scheduler: completions, budgets that end, overruns, best effort, CPU sets that change, late jobs
/// and their abortion, processes that end, and one process per job.
fn workloads(program: &str) -> [(&'static str, String); 9] {
    let load = |us: u64| format!("exec {program} __load {us}");
    let unmodified = format!("exec {program} __unmodified 1000 sleep");
    [
        (
            "windows",
            format!(
                "windows:\n\
                 - {{length: 20ms, cpu: 0, sc_partition: A, be_partition: C}}\n\
                 - {{length: 10ms, cpu: 0, sc_partition: B, be_partition: D}}\n\
                 partitions:\n\
                 - {{name: A, processes: [{{cmd: {0}, budget: 10ms}}, {{cmd: {1}, budget: 2ms}}]}}\n\
                 - {{name: B, processes: [{{cmd: {1}, budget: 20ms}}, {{cmd: 'sleep 0.1', budget: 1ms}}]}}\n\
                 - {{name: C, processes: [{{cmd: {1}, budget: 20ms}}]}}\n\
                 - {{name: D, processes: [{{cmd: 'exit 0', budget: 20ms}}]}}\n",
                load(1000),
                load(100_000)
            ),
        ),
        (
            "windows with few descriptors",
            format!(
                "descriptors: few\n\
                 windows:\n\
                 - {{length: 10ms, cpu: 0, sc_partition: A}}\n\
                 - {{length: 10ms, cpu: 0, sc_partition: B}}\n\
                 partitions:\n\
                 - {{name: A, processes: [{{cmd: {0}, budget: 4ms}}, {{cmd: {0}, budget: 4ms}}]}}\n\
                 - {{name: B, client: none, processes: [{{cmd: {1}, budget: 20ms}}]}}\n",
                load(1000),
                unmodified
            ),
        ),
        (
            MOVED,
            format!(
                "windows:\n\
                 - {{length: 10ms, cpu: 0, sc_partition: A}}\n\
                 - {{length: 10ms, cpu: 1, sc_partition: A}}\n\
                 partitions:\n\
                 - {{name: A, processes: [{{cmd: {}, budget: 5ms}}]}}\n",
                load(1000)
            ),
        ),
        (
            CLIENTS,
            format!(
                "policy: edf\n\
                 tasks:\n\
                 - {{cmd: exec {program} __client 500, init: yes, period: 5ms, runtime: 2ms}}\n\
                 - {{cmd: exec {program} __client 1000, init: yes, period: 20ms, runtime: 3ms}}\n"
            ),
        ),
        (
            "edf with budgets",
            format!(
                "policy: edf\n\
                 tasks:\n\
                 - {{cmd: {}, period: 20ms, runtime: 4ms, budget: 6ms}}\n\
                 - {{cmd: {}, period: 30ms, runtime: 4ms, budget: 5ms}}\n",
                load(3000),
                load(50_000)
            ),
        ),
        (
            "rate monotonic, one process per job",
            "policy: rm\n\
             tasks:\n\
             - {cmd: 'exit 0', period: 50ms, runtime: 5ms, spawn: per-job}\n\
             - {cmd: 'exit 0', period: 100ms, runtime: 5ms, spawn: per-job}\n"
                .into(),
        ),
        (
            "edf with dispatch by priority",
            format!(
                "dispatch: priority\npolicy: edf\n\
                 tasks:\n\
                 - {{cmd: {0}, period: 10ms, runtime: 2ms}}\n\
                 - {{cmd: {0}, period: 15ms, runtime: 2ms}}\n\
                 - {{cmd: {1}, period: 100ms, runtime: 14ms, budget: 15ms}}\n",
                load(1000),
                load(12_000)
            ),
        ),
        (
            "edf, with ends of jobs that are observed",
            format!(
                "policy: edf\n\
                 tasks:\n\
                 - {{cmd: 'exec {program} __unmodified 1000 yield', completion: yield, period: 10ms, runtime: 2ms}}\n\
                 - {{cmd: 'exec {program} __unmodified 3000 sleep', completion: sleep, period: 25ms, runtime: 5ms}}\n"
            ),
        ),
        (
            "edf inside a window",
            format!(
                "partitions:\n\
                 - {{name: A, policy: edf, processes: [{{cmd: {0}, period: 20ms, runtime: 2ms}}, {{cmd: {0}, period: 40ms, runtime: 2ms}}]}}\n\
                 - {{name: B, processes: [{{cmd: {1}, budget: 4ms}}]}}\n\
                 windows:\n\
                 - {{length: 15ms, cpu: 0, sc_partition: A}}\n\
                 - {{length: 5ms, cpu: 0, sc_partition: B}}\n",
                load(1000),
                load(100_000)
            ),
        ),
    ]
}

/// Reads all of its input.
#[derive(Default)]
struct Watch {
    records: usize,
}

impl Observer for Watch {
    fn record(&mut self, _: &Stamped) -> std::io::Result<()> {
        self.records += 1;
        Ok(())
    }
}

fn run(text: &str, mechanism: Choice) -> Report {
    let source = Source::from_bytes("scheduler.yaml", text.into()).unwrap();
    let workload = takt_workload::load(source.clone(), &Options::default()).unwrap_or_else(|faults| {
        let faults: Vec<String> = faults.iter().map(|f| f.render(&source, false)).collect();
        panic!("{}", faults.join("\n"))
    });
    let process = |task: &takt_workload::TaskInfo| Process {
        is_reserved: false,
        name: task.name.clone(),
        cmd: task.cmd.clone().unwrap(),
        thread_of: None,
        init: task.init,
        per_job: task.spawn == Spawn::PerJob,
        signals: task.spawn == Spawn::Once && task.observed.is_none() && task.client == takt_workload::Client::Auto,
        observed: task.observed.map(|observed| match observed {
            Observed::Yield => JobEnd::Yield,
            Observed::Sleep => JobEnd::Sleep,
        }),
        on_exit: None,
        on_miss: Some(Reaction::Signal(Signal::URG)),
        on_overrun: Some(Reaction::Command(": >/dev/null".into())),
        abort_signal: None,
        output: takt_exec::Output::Inherit,
        settings: takt_exec::ProcessSettings::default(),
        event: None,
        segments: false,
        wakeups: task.event.as_deref() == Some(&takt_workload::EventSource::WakeUp),
        kernel: None,
    };
    let registry = takt_core::policy::Registry::standard();
    let engine = takt_core::engine::Engine::with_registry(workload.system, registry).unwrap();
    let dispatch = match workload.settings.dispatch {
        takt_workload::Dispatch::Freeze => Dispatch::Freeze,
        takt_workload::Dispatch::Priority => Dispatch::Priority,
        takt_workload::Dispatch::Rank => Dispatch::Rank,
    };
    let plan = Plan {
        name: "scheduler".into(),
        share_cpus: false,
        processes: workload.tasks.iter().map(process).collect(),
        resources: Vec::new(),
        directory: None,
        scheduler_cpus: None,
        scheduler_class: SchedulerClass::default(),
        init_timeout: Span::from_ms(1000),
        realtime: false,
        priority: 10,
        dispatch,
        on_crash: OnCrash::Kill,
        changes: Vec::new(),
        duration: Some(Span::from_ms(600)),
        mechanism,
        exec_limit: 10,
        output_to_stderr: true,
        manager: None,
        names: None,
        remaps_cpus: false,
        few_descriptors: workload.settings.descriptors == Descriptors::Few,
        ends_with_processes: false,
        announcer: None,
        power: None,
        isolate: None,
        hooks: Hooks { enter: Some(enter), leave: Some(leave) },
    };
    let mut watch = Watch::default();
    let report = takt_exec::run(engine, plan, &mut watch).unwrap();
    assert!(report.observer_error.is_none() && report.dropped == 0 && watch.records > 0);
    assert!(report.cleanup_error.is_none(), "{:?}", report.cleanup_error);
    report
}
