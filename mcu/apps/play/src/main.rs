//! Does what the steps of a workload say: runs, sleeps, locks, unlocks and yields. Timer 1 releases the jobs of the tasks whose
//! arrival is `event`.
#![no_std]
#![no_main]

use mps2_an385::{acknowledge, board, burn, entry, interrupt, timer};
use takt_mcu::core::time::Span;
use takt_mcu::sync::Lock;
use takt_mcu::{Main, Task, TaskRef, Trace};

takt_mcu::tables!();
include!(concat!(env!("OUT_DIR"), "/takt_steps.rs"));

/// A step of a task's program.
#[derive(Clone, Copy)]
#[allow(dead_code)]
enum Do {
    /// Uses CPU time, in nanoseconds.
    Burn(u32),
    Sleep(Span),
    Lock(u16),
    Unlock(u16),
    Yield,
}

fn play(task: &Task) -> ! {
    let steps = STEPS.get(task.reference().number() as usize).copied().unwrap_or_default();
    loop {
        for step in steps {
            let _ = match *step {
                Do::Burn(nanoseconds) => {
                    burn(nanoseconds);
                    Ok(())
                }
                Do::Sleep(span) => task.sleep(span),
                Do::Lock(lock) => Lock::new(lock).acquire(),
                Do::Unlock(lock) => Lock::new(lock).release(),
                Do::Yield => task.yield_now(),
            };
        }
        let _ = task.wait_period();
    }
}

#[interrupt]
fn TIMER1() {
    acknowledge();
    for task in EVENTS {
        let _ = TaskRef::new(*task).release();
    }
}

#[entry]
fn main() -> ! {
    let board = board();
    if EVENT_PERIOD > Span::ZERO {
        timer(EVENT_PERIOD.ns() as u32);
    }
    // Without a trace the costs of the kernel alone are measured.
    let trace = if option_env!("TAKT_TRACE").is_some_and(|word| word == "figures") {
        Trace::FIGURES
    } else {
        Trace::ring(1 << 20)
    };
    takt_mcu::start(board, &TABLE, [play as Main; STEPS.len()], trace)
}
