//! The workload becomes a table. By default it is the one with which `takt sim` shows how I+PI follows its set points. `TAKT_WORKLOAD` names
//! another one.

use std::env;

fn main() -> Result<(), takt_mcu_build::Failed> {
    println!("cargo::rerun-if-env-changed=TAKT_WORKLOAD");
    let file = env::var("TAKT_WORKLOAD").unwrap_or_else(|_| "../../../workloads/ipi-tracking.yaml".to_owned());
    takt_mcu_build::workload(file).name("TRACKING").default_stack(512).write()
}
