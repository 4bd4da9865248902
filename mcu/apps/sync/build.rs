//! The workload becomes a table. `TAKT_LOCKING` chooses the file: `inheritance`, `fifo` or `timed`.

use std::env;

fn main() -> Result<(), takt_mcu_build::Failed> {
    println!("cargo::rerun-if-env-changed=TAKT_LOCKING");
    let locking = env::var("TAKT_LOCKING").unwrap_or_else(|_| "inheritance".to_owned());
    takt_mcu_build::workload(format!("{locking}.yaml")).name("TABLE").default_stack(512).write()
}
