//! The workload becomes a table. `TAKT_WORKLOAD` names the file of a test, and `TAKT_POLICY` another policy than its own.

use std::env;

fn main() -> Result<(), takt_mcu_build::Failed> {
    println!("cargo::rerun-if-env-changed=TAKT_WORKLOAD");
    println!("cargo::rerun-if-env-changed=TAKT_POLICY");
    let file = env::var("TAKT_WORKLOAD").unwrap_or_else(|_| "hartstone.yaml".to_owned());
    let builder = takt_mcu_build::workload(file).name("TABLE").default_stack(512).allow_unschedulable();
    let builder = match env::var("TAKT_POLICY") {
        Ok(policy) => builder.policy(&policy),
        Err(_) => builder,
    };
    builder.write()
}
