//! The program in the Python package.

use std::process::ExitCode;
use takt_core::policy::Registry;
use takt_linux::memory::OrExit;
use takt_workload::Code;

#[global_allocator]
static MEMORY: OrExit = OrExit(Code::OutOfMemory.name());

fn main() -> ExitCode {
    takt_cli::helper(Registry::standard())
}
