//! `takt` with the policies of Takt.

use std::process::ExitCode;
use takt_core::policy::Registry;

fn main() -> ExitCode {
    takt_cli::main(Registry::standard())
}
