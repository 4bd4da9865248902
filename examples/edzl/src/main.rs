//! `takt` with one policy more: `cargo run -p edzl -- sim FILE --policy g-edzl`.

use std::process::ExitCode;
use takt_core::policy::Registry;

fn main() -> ExitCode {
    takt_cli::main(Registry::standard().with(&edzl::ENTRY))
}
