//! Hartstone's series of periodic, harmonic tasks (Weiderman and Kamenoff, "Hartstone Uniprocessor Benchmark", Real-Time Systems 4, 1992). The
//! table's changes let the load grow once a second, after two seconds of warm-up.
//!
//! Each task detects its own misses, as Hartstone does: when a job ends, the task reads the clock. Figure 0 is the iteration of the first
//! miss plus one, with 1 for the warm-up, and 0 without a miss. Figure 1 is the number of that task plus one. Figures 2 to 15 are the
//! misses of the first tasks.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicBool, Ordering};
use mps2_an385::{board, burn, entry};
use takt_mcu::core::input::Input;
use takt_mcu::core::model::TaskId;
use takt_mcu::core::time::{Span, Time};
use takt_mcu::{Main, Task, Trace, figure, now};

takt_mcu::tables!();

/// The tasks of the set. Others are copies of the third one, which enter later.
const SET: u32 = 5;
const WARM_UP: Span = Span::from_secs(2);
const ITERATION: Span = Span::from_secs(1);

/// The terms of a task, which follow the changes of the table.
struct Terms {
    task: TaskId,
    period: Span,
    runtime: Span,
    /// Changes that have not taken place yet.
    later: &'static [(Time, Input)],
}

impl Terms {
    /// The terms of a task until they change.
    fn baseline(task: u32) -> Terms {
        let like = if task < SET { task } else { 2 };
        Terms {
            task: TaskId(task),
            period: Span::from_us(500_000 >> like),
            runtime: Span::from_us(40_000 >> like),
            later: TABLE.changes,
        }
    }

    /// Brings the terms up to an instant. O(changes since the last call): a pass over all changes would be a load of its own.
    fn follow(&mut self, at: Time) {
        while let [(instant, change), later @ ..] = self.later {
            if *instant > at {
                return;
            }
            self.later = later;
            match *change {
                Input::Retime { task, period, runtime, .. } if task == self.task => {
                    (self.period, self.runtime) = (period, runtime.unwrap_or(self.runtime));
                }
                _ => {}
            }
        }
    }
}

/// The instant at which a copy enters.
fn entrance(task: u32) -> Time {
    let enters = |change: &&(Time, Input)| change.1 == Input::Enter { task: TaskId(task) };
    TABLE.changes.iter().find(enters).map_or(Time::ZERO, |(at, _)| *at)
}

static MISSED: AtomicBool = AtomicBool::new(false);

fn missed(task: u32, at: Time) {
    if MISSED.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut border = Time::ZERO + WARM_UP;
    let mut iteration = 1;
    while border <= at {
        border += ITERATION;
        iteration += 1;
    }
    figure(0, iteration);
    figure(1, u64::from(task) + 1);
}

fn periodic(task: &Task) -> ! {
    let number = task.reference().number();
    let mut terms = Terms::baseline(number);
    let mut deadline = entrance(number) + terms.period;
    let mut misses = 0;
    loop {
        terms.follow(now());
        burn(terms.runtime.ns() as u32);
        let end = now();
        // A period is fixed when the job before it ends.
        terms.follow(end);
        if end <= deadline {
            deadline += terms.period;
        }
        // The last period that has begun is the next job's, and those before it pass without a job.
        while deadline < end {
            missed(number, end);
            misses += 1;
            figure(2 + number as usize, misses);
            deadline += terms.period;
        }
        let _ = task.wait_period();
    }
}

#[entry]
fn main() -> ! {
    takt_mcu::start(board(), &TABLE, [periodic as Main; TABLE.stacks.len()], Trace::FIGURES)
}
