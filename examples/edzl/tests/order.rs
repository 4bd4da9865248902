//! The order of EDZL, stated a second time, nanosecond by nanosecond.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, System, Task};
use takt_core::policy::Registry;
use takt_core::record::{Record, RecordKind};
use takt_core::scenario::Scenario;
use takt_core::time::Span;

const UNTIL: i64 = 300;

/// When jobs end, as (instant, task, job): in each nanosecond the CPUs run the first jobs of the order. Tasks are (period, runtime).
fn by_hand(cpus: usize, tasks: &[(i64, i64)]) -> Vec<(i64, u32, u64)> {
    let (mut left, mut job, mut ends) = (tasks.iter().map(|t| t.1).collect::<Vec<_>>(), vec![0; tasks.len()], vec![]);
    for now in 0..UNTIL {
        let released = |i: &usize| job[*i] * tasks[*i].0 <= now;
        let mut ready: Vec<usize> = (0..tasks.len()).filter(released).collect();
        ready.sort_by_key(|&i| {
            let deadline = (job[i] + 1) * tasks[i].0;
            (if deadline - left[i] <= now { i64::MIN } else { deadline }, job[i] * tasks[i].0, i)
        });
        for &i in ready.iter().take(cpus) {
            left[i] -= 1;
            if left[i] == 0 {
                ends.push((now + 1, i as u32, job[i] as u64));
                (left[i], job[i]) = (tasks[i].1, job[i] + 1);
            }
        }
    }
    ends.sort_unstable();
    ends
}

fn simulated(cpus: usize, tasks: &[(i64, i64)]) -> Vec<(i64, u32, u64)> {
    let registry = Registry::standard().with(&edzl::ENTRY);
    let task = |&(period, runtime): &(i64, i64)| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ns(period) },
        deadline: Some(Span::from_ns(period)),
        runtime: Some(Span::from_ns(runtime)),
        ..Task::default()
    };
    let policy = registry.spec("g-edzl").expect("it has a global form");
    let system = System { tasks: tasks.iter().map(task).collect(), ..System::new(CpuSet::first(cpus), policy) };
    let mut engine = Engine::with_registry(system, registry).expect("it suits the policy");
    let mut records: Vec<Record> = Vec::new();
    takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ns(UNTIL), &mut records, |_| ());
    let end = |record: &Record| match record.kind {
        RecordKind::Finish { task, job, .. } => Some((record.at.ns(), task.0, job)),
        _ => None,
    };
    let mut ends: Vec<_> = records.iter().filter_map(end).collect();
    ends.sort_unstable();
    ends
}

proptest! {
    #[test]
    fn jobs_end_in_the_order_of_the_rule(cpus in 1usize..4, tasks in prop::collection::vec((4i64..30, 1i64..15), 1..8)) {
        let tasks: Vec<_> = tasks.into_iter().map(|(period, runtime)| (period, runtime.min(period))).collect();
        prop_assert_eq!(simulated(cpus, &tasks), by_hand(cpus, &tasks));
    }
}
