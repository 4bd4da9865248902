//! Priority inversion of three tasks. Figure 0 is the longest response time of the high task in microseconds: with `inheritance` it waits
//! for the critical section of the low one alone, with `fifo` for the middle task, too. With `timed` it gives up after 2 ms, so often as figure 1
//! says, and the low task then no longer inherits from it. Figure 2 is the longest response time of the middle task.
#![no_std]
#![no_main]

use mps2_an385::{board, burn, entry};
use takt_mcu::core::time::{Span, Time};
use takt_mcu::{Error, Task, Trace, figure, now};

takt_mcu::tables!();

fn high(task: &Task) -> ! {
    let (mut release, mut longest, mut given_up) = (Time::ZERO + Span::from_ms(2), Span::ZERO, 0);
    loop {
        burn(1_000_000);
        let inside = || burn(1_000_000);
        let answer = match option_env!("TAKT_LOCKING") {
            Some("timed") => locks::BUS.lock_until(now() + Span::from_ms(2), inside),
            _ => locks::BUS.lock(inside),
        };
        given_up += u64::from(answer == Err(Error::TimedOut));
        figure(1, given_up);
        longest = longest.max(now() - release);
        figure(0, (longest.ns() / 1000) as u64);
        release += Span::from_ms(100);
        let _ = task.wait_period();
    }
}

fn middle(task: &Task) -> ! {
    let (mut release, mut longest) = (Time::ZERO + Span::from_ms(4), Span::ZERO);
    loop {
        burn(20_000_000);
        longest = longest.max(now() - release);
        figure(2, (longest.ns() / 1000) as u64);
        release += Span::from_ms(100);
        let _ = task.wait_period();
    }
}

fn low(task: &Task) -> ! {
    loop {
        let _ = locks::BUS.lock(|| burn(5_000_000));
        burn(1_000_000);
        let _ = task.wait_period();
    }
}

#[entry]
fn main() -> ! {
    takt_mcu::start(board(), &TABLE, [high, middle, low], Trace::ring(1 << 16))
}
