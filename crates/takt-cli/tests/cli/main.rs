//! The `takt` command from outside: what it prints, what it starts, and what it leaves behind (nothing).
//!
//! Tests that need something this machine may not have say `skipped: REASON`. Those over real processes have the machine to
//! themselves, and what its host does to it does not count ([`machine`]). `UPDATE=1` writes the expected texts again.

mod analyze;
mod check;
#[allow(dead_code, reason = "shared with the tests over real processes")]
mod common;
mod contract;
mod copies;
mod ctl;
mod curves;
mod demos;
mod freeze;
mod golden;
mod import;
mod jobs;
mod latency;
mod library;
#[path = "../machine/mod.rs"]
mod machine;
mod mcu;
mod measure;

#[path = "../../../takt-wasm/tests/common/mod.rs"]
mod modules;
mod outputs;
mod pictures;
mod placement;
mod policy_modules;
mod power;
mod repro;
#[path = "../../src/commands/bench/schedules.rs"]
mod schedules;
mod series;
mod setup;
mod shards;
mod summary;
mod sweep;
#[path = "../tmux/mod.rs"]
mod tmux;
mod top;
mod view;
mod why;
