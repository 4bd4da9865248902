//! A small preemptive kernel whose scheduler is Takt's engine.
//!
//! The policy is the same object as in `takt sim` and `takt run`. A workload file becomes a table at build time (`takt-mcu-build`); the
//! kernel reads it, builds the engine, and allocates nothing after that. Calls of threads and notes of interrupts become inputs of the
//! engine; its commands decide which thread runs. The kernel runs at the lowest interrupt priority and does not mask interrupts while
//! the engine decides.
//!
//! The trace holds the inputs of each step, so that a replay on another machine makes the same decisions.
//!
//! A prediction needs two means: entries after which the last task continues cost the simulator's `scheduler`, and a change of the task
//! adds `context_switch`. One mean for all entries leaves errors that add up over a busy period. The build refuses `tick`,
//! `timer_resolution` and `timer_lateness`, which describe simulated clocks.
//!
//! An image has no code for other machines: features of `takt-core` leave it out, and an engine refuses a system that needs an absent
//! feature. The panic handler reads neither message nor place, so the linker drops them.
#![no_std]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

#[cfg(target_os = "none")]
mod arena;
mod board;
mod error;
mod fault;
mod kernel;
#[cfg(target_os = "none")]
mod panic;
mod port;
mod shared;
mod start;
pub mod sync;
mod table;
mod task;
mod trace;
mod wait;

pub use board::{Board, Ending};
pub use error::Error;
pub use fault::{Cause, Fault};
pub use start::{Handler, Main, Threads, alarm, start};
pub use table::Table;
pub use task::{Task, TaskRef, configure, figure, now};
pub use trace::Trace;

/// The core, for the paths in tables.
pub use takt_core as core;

/// Whether this crate has its feature `backlogs`. The table of a workload that needs it does not compile without it.
pub const BACKLOGS: bool = cfg!(feature = "backlogs");

/// A virtual machine, for tests.
#[cfg(not(target_os = "none"))]
pub mod host {
    pub use crate::port::host::{BOARD, Ended, HostBoard, Interrupt, Machine, burn, data, run};
}

/// Includes the table that the build script has written with `takt-mcu-build`: the table itself, `tasks` and `locks`.
#[macro_export]
macro_rules! tables {
    () => {
        include!(concat!(env!("OUT_DIR"), "/takt_tables.rs"));
    };
}
