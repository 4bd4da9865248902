//! The workload becomes a table. `TAKT_WORKLOAD` names another file: CI tries one that needs a feature which this program leaves out.

use std::env;

fn main() -> Result<(), takt_mcu_build::Failed> {
    println!("cargo::rerun-if-env-changed=TAKT_WORKLOAD");
    let workload = env::var("TAKT_WORKLOAD").unwrap_or_else(|_| "first.yaml".to_owned());
    takt_mcu_build::workload(workload).name("FIRST").default_stack(512).write()
}
