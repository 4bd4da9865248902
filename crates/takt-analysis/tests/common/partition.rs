//! One partition with a policy of its own in a window table of one CPU.

use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Partition, PartitionId, PolicySpec, Slice, System, Task, TaskId, Window};
use takt_core::time::Span;

/// A periodic task: offset, period, deadline and runtime in units, and priority.
pub(crate) type Row = (i64, i64, i64, i64, u32);

/// A table, as lengths in units and whether the partition has the window, with the tasks of the partition.
pub(crate) fn system(policy: &str, unit: Span, table: &[(i64, bool)], tasks: &[Row]) -> System {
    let units = |n: i64| unit * n;
    let task = |&(offset, period, deadline, runtime, priority): &Row| Task {
        arrival: Arrival::Periodic { offset: units(offset), period: units(period) },
        deadline: Some(units(deadline)),
        runtime: Some(units(runtime)),
        priority,
        ..Task::default()
    };
    let slice = Slice { cpus: CpuSet::single(0), sc: Some(PartitionId(0)), be: None };
    let window = |&(length, ours): &(i64, bool)| {
        let slices = if ours { vec![slice.clone()] } else { Vec::new() };
        Window { length: units(length), slices }
    };
    let ids = (0..tasks.len() as u32).map(TaskId).collect();
    System {
        tasks: tasks.iter().map(task).collect(),
        partitions: vec![Partition { tasks: ids, policy: PolicySpec::from_name(policy) }],
        windows: table.iter().map(window).collect(),
        ..System::new(CpuSet::first(1), PolicySpec::from_name("windows").unwrap())
    }
}
