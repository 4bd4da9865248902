//! Three periodic tasks share a bus, and an interrupt releases the jobs of a logger.
#![no_std]
#![no_main]

#[cfg(feature = "mps2-an385")]
use mps2_an385 as machine;
#[cfg(feature = "stm32f103")]
use stm32f103 as machine;

use machine::{acknowledge, board, burn, entry, interrupt, timer};
use takt_mcu::sync::Queue;
use takt_mcu::{Task, Trace};

takt_mcu::tables!();

/// Measurements that the logger has not seen.
static VALUES: Queue<u32, 8> = Queue::new();

fn sensor(task: &Task) -> ! {
    let mut value = 0;
    loop {
        burn(500_000);
        let _ = locks::BUS.lock(|| {
            burn(1_000_000);
            value += 1;
        });
        burn(500_000);
        // A full queue loses the value.
        let _ = VALUES.try_send(value);
        let _ = task.wait_period();
    }
}

fn control(task: &Task) -> ! {
    loop {
        burn(1_000_000);
        let _ = locks::BUS.lock(|| burn(2_000_000));
        burn(1_000_000);
        let _ = task.wait_period();
    }
}

fn display(task: &Task) -> ! {
    loop {
        burn(8_000_000);
        let _ = task.wait_period();
    }
}

fn statistics(task: &Task) -> ! {
    loop {
        burn(5_000_000);
        let _ = task.wait_period();
    }
}

fn logger(task: &Task) -> ! {
    loop {
        while VALUES.try_receive().is_ok() {}
        burn(1_000_000);
        let _ = task.wait_period();
    }
}

fn measured() {
    acknowledge();
    let _ = tasks::LOGGER.release();
}

#[cfg(feature = "mps2-an385")]
#[interrupt]
fn TIMER1() {
    measured();
}

#[cfg(feature = "stm32f103")]
#[interrupt]
fn TIM4() {
    measured();
}

#[entry]
fn main() -> ! {
    let board = board();
    timer(5_000_000);
    takt_mcu::start(board, &FIRST, [sensor, control, display, statistics, logger], Trace::ring(2048))
}
