//! The `takt` command from outside: what it prints, what it starts, and what it leaves behind (nothing).
//!
//! Tests that need something this machine may not have say `skipped: REASON`. Those over real processes take a lock of the
//! whole machine, so that they do not disturb one another. `UPDATE=1` writes the expected texts anew.

mod analyze;
mod children;
mod common;
mod contract;
mod copies;
mod ends;
mod freeze;
mod golden;
mod import;
mod kernel;
mod online;
mod order;
mod protocol;
mod replay;
mod summary;
mod sweep;
