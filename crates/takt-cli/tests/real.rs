//! `takt run` over real processes: outcomes, order, ends, crashes, and remains of runs (none).
//!
//! Each test has the machine to itself, and what its host does to it does not count ([`machine`]). Their names begin with `real::`:
//! `cargo xtask test` skips them, `cargo xtask ci` runs them.

#[allow(dead_code, reason = "shared with the tests of the command line")]
#[path = "cli/common.rs"]
mod common;
mod machine;
#[path = "../../takt-wasm/tests/common/mod.rs"]
mod modules;
#[path = "real/mod.rs"]
mod real;
#[path = "../src/commands/bench/schedules.rs"]
mod schedules;
mod tmux;
