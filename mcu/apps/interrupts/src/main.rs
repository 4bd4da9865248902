//! A hundred interrupts far apart, and then ten thousand in a second. Each of them releases a job. Figure 0 counts the interrupts, and figure 1
//! the jobs. Figure 2 is the longest time from the timer's expiry to its handler. Figure 3 is the longest time from the handler to the first
//! instruction of the job, among the first hundred. Both are in ticks of 40 ns. With `TAKT_TRACE=figures` there is no trace.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};
use mps2_an385::{acknowledge, board, burn, entry, interrupt, since_timer, ticks, timer};
use takt_mcu::{Task, Trace, figure};

takt_mcu::tables!();

/// Interrupts far apart, in nanoseconds. The interval has no common factor with the tasks' periods.
const FEW: u32 = 100;
const APART: u32 = 4_870_000;
/// Interrupts close together.
const MANY: u32 = 10_000;
const CLOSE: u32 = 100_000;

static COUNT: AtomicU32 = AtomicU32::new(0);
static JOBS: AtomicU32 = AtomicU32::new(0);
static LATEST: AtomicU32 = AtomicU32::new(0);
static SLOWEST: AtomicU32 = AtomicU32::new(0);
/// The tick of the interrupt whose job has not begun; zero for none.
static NOTED: AtomicU32 = AtomicU32::new(0);

#[interrupt]
fn TIMER1() {
    let late = since_timer();
    acknowledge();
    let count = COUNT.load(Ordering::Relaxed) + 1;
    COUNT.store(count, Ordering::Relaxed);
    match count {
        FEW => timer(CLOSE),
        FEW.. if count == FEW + MANY => timer(0),
        _ => {}
    }
    LATEST.store(LATEST.load(Ordering::Relaxed).max(late), Ordering::Relaxed);
    if count < FEW {
        NOTED.store(ticks().max(1), Ordering::Relaxed);
    }
    let _ = tasks::SERVED.release();
    if count % 100 == 0 {
        // The kernel has not run in between, so that the second note is merged with the first.
        let _ = tasks::SERVED.release();
    }
}

fn served(task: &Task) -> ! {
    loop {
        let noted = NOTED.load(Ordering::Relaxed);
        if noted > 0 {
            let took = ticks().wrapping_sub(noted);
            SLOWEST.store(SLOWEST.load(Ordering::Relaxed).max(took), Ordering::Relaxed);
            NOTED.store(0, Ordering::Relaxed);
        }
        burn(10_000);
        JOBS.store(JOBS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        for (index, value) in [&COUNT, &JOBS, &LATEST, &SLOWEST].into_iter().enumerate() {
            figure(index, value.load(Ordering::Relaxed).into());
        }
        let _ = task.wait_period();
    }
}

fn background(task: &Task) -> ! {
    // From here on each interrupt finds a kernel that runs.
    timer(APART);
    loop {
        burn(1_000_000);
        let _ = task.wait_period();
    }
}

#[entry]
fn main() -> ! {
    // Without a trace the kernel takes less time.
    let quiet = option_env!("TAKT_TRACE").is_some_and(|word| word == "figures");
    let trace = if quiet { Trace::FIGURES } else { Trace::ring(1 << 21) };
    takt_mcu::start(board(), &TABLE, [served, background], trace)
}
