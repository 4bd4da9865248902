//! The workload becomes a table. `TAKT_FAULT` names the fault that task `faulty` has, or the lack of memory; with `TAKT_RESTART` its job is aborted.

use std::env;

fn main() -> Result<(), takt_mcu_build::Failed> {
    println!("cargo::rerun-if-env-changed=TAKT_FAULT");
    println!("cargo::rerun-if-env-changed=TAKT_RESTART");
    // With `memory` the stacks do not fit in the RAM.
    let memory = env::var("TAKT_FAULT").is_ok_and(|fault| fault == "memory");
    let builder = takt_mcu_build::workload("faults.yaml").default_stack(if memory { 2 << 20 } else { 512 });
    if env::var_os("TAKT_RESTART").is_some() { builder.on_fault_restart("faulty").write() } else { builder.write() }
}
