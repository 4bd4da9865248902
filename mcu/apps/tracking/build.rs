//! The workload becomes a table. It is the one with which `takt sim` shows how I+PI follows its set points.

fn main() -> Result<(), takt_mcu_build::Failed> {
    takt_mcu_build::workload("../../../workloads/ipi-tracking.yaml").name("TRACKING").default_stack(512).write()
}
