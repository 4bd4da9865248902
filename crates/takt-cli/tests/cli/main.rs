//! The `takt` command from outside: what it prints, what it starts, and what it leaves behind (nothing).
//!
//! Tests that need something this machine may not have say `skipped: REASON`. Those over real processes have the machine to
//! themselves, and what its host does to it does not count ([`machine`]). `UPDATE=1` writes the expected texts anew.

mod analyze;
mod children;
mod common;
mod contract;
mod copies;
mod ends;
mod freeze;
mod golden;
mod import;
mod jobs;
mod kernel;
#[path = "../machine/mod.rs"]
mod machine;
mod online;
mod order;
mod placement;
mod protocol;
mod replay;
mod summary;
mod sweep;
