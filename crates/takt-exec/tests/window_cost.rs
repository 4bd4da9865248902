//! The engine executes hardly more instructions for a window of a table with ten thousand partitions than for one with ten.
//!
//! Counted are the instructions of a stretch of windows, each with one process of its own, which exhausts its budget. The count is the same on a
//! busy machine. The report of `takt check` about such a table is counted, too: it takes a time in proportion to the partitions.
//!
//! This program runs itself as the counted one, so it has no test harness: `window_cost __windows PARTITIONS`, and `… __report PARTITIONS`.

use std::process::Command;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, Partition, PartitionId, Slice, System, Task, TaskId, Window};
use takt_core::time::{Span, Time};
use takt_linux::count::{instructions, mark};
use takt_testing::{Capability, skip};

const SUBCOMMANDS: [&str; 2] = ["__windows", "__report"];
/// Windows of each stretch.
const WINDOWS: usize = 5;
/// A stretch that executes more has no bound at all.
const MOST: u64 = 2_000_000;
const PARTITIONS: [usize; 4] = [10, 100, 1000, 10_000];
const REPORTED: [usize; 2] = [20, 80];

/// As many windows as partitions, with a slice for each; a process and a window of 1 ms for each partition.
fn system(partitions: usize) -> System {
    let slice = |partition| Slice { cpus: CpuSet::single(0), sc: Some(PartitionId(partition)), be: None };
    let task = || Task { arrival: Arrival::Activated, budget: Some(Span::from_us(600)), ..Task::default() };
    let policy = takt_workload::registry().spec("windows").expect("it is in the registry");
    System {
        tasks: (0..partitions).map(|_| task()).collect(),
        partitions: (0..partitions as u32).map(|task| Partition { tasks: vec![TaskId(task)], policy: None }).collect(),
        windows: (0..partitions as u32)
            .map(|partition| Window { length: Span::from_ms(1), slices: vec![slice(partition)] })
            .collect(),
        ..System::new(CpuSet::single(0), policy)
    }
}

/// Takes the steps of so many windows. Returns how many steps that were.
fn windows(engine: &mut Engine, count: usize, begin: &mut Time) -> usize {
    let end = *begin + Span::from_ms(count as i64);
    let mut steps = 0;
    while let Some(due) = engine.next_due().filter(|due| *due < end) {
        let _ = engine.step(due, &[], &mut ());
        steps += 1;
    }
    *begin = end;
    steps
}

fn counted(partitions: usize) {
    let registry = takt_workload::registry().clone();
    let mut engine = Engine::with_registry(system(partitions), registry).expect("a system");
    let mut begin = Time::ZERO;
    // The table begins, and then comes to its first frame border.
    windows(&mut engine, partitions - WINDOWS.min(partitions) / 2, &mut begin);
    mark();
    let steps = windows(&mut engine, WINDOWS, &mut begin);
    mark();
    // A window begins, and its process exhausts its budget.
    assert_eq!(steps, 2 * WINDOWS);
}

fn reported(partitions: usize) {
    let system = system(partitions);
    mark();
    let report = takt_analysis::table::report(&system);
    mark();
    assert_eq!(report.major_frame, Span::from_ms(partitions as i64));
}

/// The instructions of this program between its marks; `None` where tracing is forbidden.
fn count(subcommand: &str, partitions: usize) -> Option<u64> {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args([subcommand, &partitions.to_string()]);
    match instructions::<1>(&mut command, MOST) {
        Ok([count]) => Some(count),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            skip(Capability::Ptrace, &e.to_string());
            None
        }
        Err(e) => panic!("{subcommand} {partitions}: {e}"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, subcommand, partitions] = &arguments[..]
        && SUBCOMMANDS.contains(&subcommand.as_str())
    {
        let partitions = partitions.parse().expect("a number");
        return if subcommand == SUBCOMMANDS[0] { counted(partitions) } else { reported(partitions) };
    }
    let mut counts = Vec::new();
    for partitions in PARTITIONS {
        let Some(count) = count(SUBCOMMANDS[0], partitions) else { return };
        counts.push(count / WINDOWS as u64);
        println!("{partitions:>6} partitions: {:>8} instructions for each window", counts[counts.len() - 1]);
    }
    let [least, most] = [counts.iter().min(), counts.iter().max()].map(|count| *count.expect("four counts"));
    assert!(least > 100, "nothing is executed: {counts:?}");
    // The queue of instants is a tree, whose depth is the logarithm of that number.
    assert!(most <= 2 * least, "the cost of a window grows with the number of partitions: {counts:?}");
    let mut counts = Vec::new();
    for partitions in REPORTED {
        let Some(count) = count(SUBCOMMANDS[1], partitions) else { return };
        counts.push(count);
        println!("{partitions:>6} partitions: {count:>8} instructions for the report");
    }
    let factor = (REPORTED[1] / REPORTED[0]) as u64;
    assert!(counts[0] > 1000, "nothing is executed: {counts:?}");
    assert!(2 * counts[1] <= 3 * factor * counts[0], "the report grows faster than the table: {counts:?}");
}
