//! A workload whose schedule was frozen into a window table.

use crate::{TaskInfo, Workload};
use takt_core::model::System;

/// The workload with `table`, which schedules the same tasks with task `i` alone in partition `i`, in place of its system.
/// Partitions are called as their tasks are; commands and settings stay. What belongs to the frozen policy alone (domains,
/// resources, a simulated machine) is gone.
#[must_use]
pub fn frozen(workload: &Workload, table: System) -> Workload {
    let tasks = workload.tasks.iter().enumerate();
    let mut settings = workload.settings.clone();
    settings.cpus_from_all = false;
    Workload {
        tasks: tasks.map(|(i, info)| TaskInfo { partition: Some(i), ..info.clone() }).collect(),
        places: workload.places.clone(),
        partitions: workload.tasks.iter().map(|info| info.name.clone()).collect(),
        slice_frequencies_mhz: table.windows.iter().map(|w| vec![None; w.slices.len()]).collect(),
        ..Workload::new(&workload.source, table, settings)
    }
}
