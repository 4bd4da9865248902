//! The workload becomes a table.

fn main() -> Result<(), takt_mcu_build::Failed> {
    takt_mcu_build::workload("parallel.yaml").write()
}
