//! The workload becomes a table.

fn main() -> Result<(), takt_mcu_build::Failed> {
    println!("cargo::rerun-if-env-changed=TAKT_TRACE");
    takt_mcu_build::workload("interrupts.yaml").name("TABLE").default_stack(512).allow_unschedulable().write()
}
