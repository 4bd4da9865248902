//! Does what the steps of a workload say: runs, sleeps, locks, unlocks and yields. Timer 1 releases the jobs of the tasks whose
//! arrival is `event`.
#![no_std]
#![no_main]

use mps2_an385::{acknowledge, board, burn, entry, interrupt, timer};
use takt_mcu::core::model::Step;
use takt_mcu::core::time::Span;
use takt_mcu::sync::Lock;
use takt_mcu::{Main, Task, TaskRef, Trace};

takt_mcu::tables!();
include!(concat!(env!("OUT_DIR"), "/takt_steps.rs"));

fn play(task: &Task) -> ! {
    let steps = STEPS.get(task.reference().number() as usize).copied().unwrap_or_default();
    loop {
        for step in steps {
            let _ = match *step {
                Step::Run(span) => {
                    burn(span.ns() as u32);
                    Ok(())
                }
                Step::Sleep(span) => task.sleep(span),
                Step::Lock(resource) => Lock::new(resource.0).acquire(),
                Step::Unlock(resource) => Lock::new(resource.0).release(),
                Step::Yield => task.yield_now(),
                Step::Call(_) | Step::WaitPeriod => Ok(()),
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
    takt_mcu::start(board, &TABLE, [play as Main; STEPS.len()], Trace::ring(1 << 20))
}
