//! Tasks that run for ever. The regulators of I+PI divide the CPU among them, and the changes of the table disturb that: other rounds,
//! other shares, bursts that end too early, and a task that is blocked.
#![no_std]
#![no_main]

use mps2_an385::{board, burn, entry};
use takt_mcu::{Main, Task, Trace};

takt_mcu::tables!();

fn endless(_: &Task) -> ! {
    loop {
        burn(1_000_000);
    }
}

#[entry]
fn main() -> ! {
    // Without a trace the costs of the kernel alone are measured.
    let trace = if option_env!("TAKT_TRACE").is_some_and(|word| word == "figures") {
        Trace::FIGURES
    } else {
        Trace::ring(1 << 20)
    };
    takt_mcu::start(board(), &TRACKING, [endless as Main; TRACKING.stacks.len()], trace)
}
