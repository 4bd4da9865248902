//! One task has the fault that the build names: `stack`, `bus`, `undefined`, `panic`, or none. Another one never ends its jobs, and
//! holds a lock when it is aborted. Figures 0 to 3 are the jobs of `sound`, the beginnings of `faulty` and `late`, and poisoned locks.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};
use mps2_an385::{board, burn, entry};
use takt_mcu::{Error, Task, Trace, figure};

takt_mcu::tables!();

static COUNTS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

fn count(index: usize) {
    let value = COUNTS[index].load(Ordering::Relaxed) + 1;
    COUNTS[index].store(value, Ordering::Relaxed);
    figure(index, value.into());
}

fn sound(task: &Task) -> ! {
    loop {
        match locks::BUS.lock(|| burn(1_000_000)) {
            Err(Error::Poisoned) => count(3),
            _ => count(0),
        }
        let _ = task.wait_period();
    }
}

/// Uses more and more of the stack.
#[inline(never)]
fn deep(level: u32) -> u32 {
    let words = [level; 8];
    core::hint::black_box(&words);
    if level == 0 { 0 } else { deep(level - 1).wrapping_add(core::hint::black_box(&words)[(level % 8) as usize]) }
}

fn faulty(task: &Task) -> ! {
    count(1);
    loop {
        burn(500_000);
        match option_env!("TAKT_FAULT") {
            Some("stack") => drop(core::hint::black_box(deep(100))),
            // SAFETY: it is a fault, and meant to be one.
            Some("bus") => drop(unsafe { core::ptr::read_volatile(0x6000_0000 as *const u32) }),
            // SAFETY: as above.
            Some("undefined") => unsafe { core::arch::asm!("udf #0") },
            Some("panic") => panic!(),
            _ => {}
        }
        let _ = task.wait_period();
    }
}

fn late(_: &Task) -> ! {
    count(2);
    while locks::BUS.acquire().is_err() {}
    loop {
        burn(1_000_000);
    }
}

#[entry]
fn main() -> ! {
    takt_mcu::start(board(), &FAULTS, [sound, faulty, late], Trace::ring(1 << 16))
}
