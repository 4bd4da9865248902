//! Three tasks that run for ever. The regulators of I+PI divide the CPU among them, and the changes of the table disturb that: other rounds,
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
    takt_mcu::start(board(), &TRACKING, [endless as Main; 3], Trace::ring(1 << 20))
}
