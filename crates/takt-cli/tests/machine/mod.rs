//! The machine under tests over real processes: one test at a time has its CPUs, and what it takes for a failure can be the
//! machine's.
//!
//! The host of a virtual machine can take its CPUs away for tenths of a second, and nothing runs on time then. Whether it did is
//! measured beside each test by threads that nothing on this machine can delay ([`Watch`]). A failure is tried again, and the attempts are
//! listed. It counts when [`QUIET`] attempts failed although the machine did not stand still, or when the last attempt failed. If a great part
//! of the time was taken away in each attempt, the test is skipped instead. A condition of [`always`] counts at its first failure.
#![allow(dead_code, reason = "each test program uses its part")]

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::{disturbance, rt};
use takt_testing::append;
pub(crate) use takt_testing::{Capability, skip};

/// How often a test that fails on a disturbed machine is tried.
const TRIES: usize = 4;
/// So many failures without a stall are the test's. Interrupts and other guests delay single runs by less than a stall.
const QUIET: usize = 3;
/// The longest that one test keeps trying, and all tests of a program together.
const REPEATS: [Duration; 2] = [Duration::from_secs(150), Duration::from_secs(400)];
/// The longest that all tests of a program together wait for [`calm`].
const CALM: Duration = Duration::from_secs(100);
/// A thread before all others that wakes this late shows that the machine stood still: shorter than the tolerances of the tests, and
/// longer than a quiet virtual machine takes to wake up.
const STALL: Duration = Duration::from_millis(5);
/// Many stalls that are each too short to be seen disturb a test as one long one does: where the host took one part in so many of the CPUs'
/// time.
const STOLEN: u32 = 50;
/// Stalls excuse a failure that repeats where they took one part in so many of a CPU's time. A quarter of that is usual where a virtual
/// machine has neighbours.
const ONE_IN: u32 = 10;

/// Runs a test over real processes: alone on this machine, whichever test program it is in, and again where the machine stood still
/// while it failed.
pub(crate) fn on_cpus(test: impl Fn()) {
    static ALL: Mutex<Duration> = Mutex::new(Duration::ZERO);
    let _alone = alone();
    let whole = Instant::now();
    let (mut excused, mut quiet, mut own) = (true, 0, Duration::ZERO);
    ATTEMPTS.set(1);
    for attempt in 1.. {
        calm();
        let (began, watch) = (Instant::now(), Watch::begin());
        let result = catch_unwind(AssertUnwindSafe(&test));
        let stalls = watch.end();
        let Err(why) = result else { return tell_attempts(whole.elapsed()) };
        another_attempt();
        let took = began.elapsed();
        let mut all = ALL.lock().unwrap_or_else(|e| e.into_inner());
        (own, *all) = (own + took, *all + took);
        excused &= stalls.total.max(stalls.stolen) * ONE_IN > took;
        quiet += usize::from(stalls.longest < STALL && stalls.stolen * STOLEN < took);
        let last = attempt == TRIES || own > REPEATS[0] || *all > REPEATS[1];
        if why.is::<Always>() || quiet == QUIET || last && !excused {
            println!("attempt {attempt}: {stalls}");
            resume_unwind(why);
        }
        if last {
            return skip(Capability::Calm, &format!("attempt {attempt}: {stalls}, and it failed: {}", text(&*why)));
        }
        println!("attempt {attempt}: {stalls}; once more");
    }
}

thread_local! {
    /// How many attempts the test of this thread has made, at all of it or at a part.
    static ATTEMPTS: Cell<usize> = const { Cell::new(1) };
}

/// The test of this thread tries something once more.
pub(crate) fn another_attempt() {
    ATTEMPTS.set(ATTEMPTS.get() + 1);
}

/// Tells continuous integration, which gives a file for it, how many attempts the test of this thread needed, and how long it had the machine.
fn tell_attempts(time: Duration) {
    let name = std::thread::current().name().unwrap_or("main").to_owned();
    let line = format!("{}\t{}\t{name}\n", ATTEMPTS.get(), time.as_millis());
    append("TAKT_TESTS_ATTEMPTS", &line);
}

/// The message of a panic.
fn text(why: &(dyn Any + Send)) -> &str {
    let line = why.downcast_ref::<String>().map(String::as_str).or_else(|| why.downcast_ref().copied());
    line.and_then(|text| text.lines().next()).unwrap_or_default()
}

/// A failure that no delay explains.
struct Always;

/// A condition that holds however late everything is.
#[track_caller]
pub(crate) fn always(holds: bool, why: impl FnOnce() -> String) {
    if !holds {
        println!("{}: {}", std::panic::Location::caller(), why());
        panic_any(Always);
    }
}

/// The CPUs of this machine, for one test at a time, whichever test program it is in.
pub(crate) fn alone() -> File {
    let name = format!("takt-tests-{}.lock", rustix::process::getuid().as_raw());
    let file = File::options().create(true).append(true).open(std::env::temp_dir().join(name)).unwrap();
    file.lock().unwrap();
    file
}

fn here() -> CpuSet {
    rt::affinity(0).expect("the CPUs of this thread")
}

/// Waits until the host of this virtual machine lets it have its CPUs: until of a tenth of a second of work on each of them no more
/// than a tick is taken away (steal). Where that takes too long, the tests continue as they are.
pub(crate) fn calm() {
    static WAITED: Mutex<Duration> = Mutex::new(Duration::ZERO);
    let began = Instant::now();
    let mut waited = WAITED.lock().unwrap_or_else(|e| e.into_inner());
    loop {
        let (before, end) = (stolen(), Instant::now() + Duration::from_millis(100));
        let work = || while Instant::now() < end {};
        std::thread::scope(|scope| here().iter().for_each(|_| drop(scope.spawn(work))));
        let taken = stolen() - before;
        if taken <= Span::from_ms(10) {
            break;
        }
        if *waited + began.elapsed() > CALM {
            println!("the host of this machine takes {taken} of 100 ms on each of {} CPUs", here().iter().count());
            return;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    *waited += began.elapsed();
}

/// How much of its time a CPU was taken away.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stalls {
    pub(crate) longest: Duration,
    pub(crate) total: Duration,
    /// The steal time of the kernel, a mean over the CPUs.
    pub(crate) stolen: Duration,
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stalls { longest, total, stolen } = self;
        write!(
            f,
            "this machine stood still for up to {longest:.1?}, together {total:.1?}; its host took {stolen:.1?} of a CPU"
        )
    }
}

/// Threads, one per CPU, of the highest real-time priority where that is allowed, that sleep for a millisecond over and over and see
/// how late they wake.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Stalls>>,
    stolen: Span,
}

/// The time that the host took of all CPUs of this thread since boot.
fn stolen() -> Span {
    disturbance::stolen(&here()).unwrap_or(Span::ZERO)
}

impl Watch {
    pub(crate) fn begin() -> Watch {
        let over = Arc::new(AtomicBool::new(false));
        let watch = |cpu| {
            let over = over.clone();
            std::thread::spawn(move || {
                let _ = rt::set_affinity(0, &CpuSet::single(cpu));
                // From here on it only sleeps and reads clocks, for nothing could take the CPU from it.
                let _ = rt::set_class(0, rt::Class::Fifo(99));
                // A step of 1 ms took more than 1 % of a CPU from the processes under test, on a virtual machine.
                let (step, mut stalls) = (Duration::from_millis(4), Stalls::default());
                while !over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    std::thread::sleep(step);
                    let late = began.elapsed().saturating_sub(step);
                    stalls.longest = stalls.longest.max(late);
                    stalls.total += if late > Duration::from_millis(1) { late } else { Duration::ZERO };
                }
                let _ = rt::set_class(0, rt::Class::Other);
                stalls
            })
        };
        Watch { threads: here().iter().map(watch).collect(), over, stolen: stolen() }
    }
    /// Ends it, and tells of the longest stall of any CPU since the beginning, and how long the CPU with the most stood still.
    pub(crate) fn end(self) -> Stalls {
        self.over.store(true, Ordering::Relaxed);
        let cpus = self.threads.len().max(1) as u64;
        let stolen = Duration::from_nanos((stolen() - self.stolen).ns().unsigned_abs() / cpus);
        let of_cpus = self.threads.into_iter().map(|thread| thread.join().expect("it only sleeps"));
        of_cpus.fold(Stalls { stolen, ..Stalls::default() }, |a, b| Stalls {
            longest: a.longest.max(b.longest),
            total: a.total.max(b.total),
            stolen,
        })
    }
}
