//! `takt` with the policies of Takt.

use std::process::ExitCode;
use takt_core::policy::Registry;
use takt_linux::memory::OrExit;
use takt_workload::Code;

#[global_allocator]
static MEMORY: OrExit = OrExit(Code::OutOfMemory.name());

fn main() -> ExitCode {
    takt_cli::main(Registry::standard())
}
