//! The workload becomes a table, and its steps another one. `TAKT_WORKLOAD` names the file, and `TAKT_POLICY` another policy than its own.

use std::env;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=TAKT_WORKLOAD");
    println!("cargo::rerun-if-env-changed=TAKT_POLICY");
    let file = env::var("TAKT_WORKLOAD").unwrap_or_else(|_| "periodic.yaml".to_owned());
    let mut builder = takt_mcu_build::workload(file).name("TABLE").allow_unschedulable();
    if let Ok(policy) = env::var("TAKT_POLICY") {
        builder = builder.policy(&policy);
    }
    builder.write()?;
    builder.write_steps()?;
    Ok(())
}
