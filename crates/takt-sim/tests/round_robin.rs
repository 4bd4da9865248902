//! Round robin gives endless jobs equal shares, whatever interrupts them.
//!
//! POSIX.1-2024, section 2.8.4 (SCHED_RR): a preempted thread that runs again completes the unexpired part of its interval.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::*;
use takt_core::scenario::Scenario;
use takt_core::time::Span;

const UNIT: i64 = 1_000;

fn units(n: i64) -> Span {
    Span::from_ns(n * UNIT)
}

fn named(name: &str, settings: &[(&str, i64)]) -> PolicySpec {
    let mut policy = PolicySpec::from_name(name).unwrap_or_else(|| panic!("no policy is called {name}"));
    for (name, value) in settings {
        let index = policy.profile.settings.iter().position(|s| s.name == *name).expect("it has the setting");
        policy.values.set(index, Some(*value));
    }
    policy
}

fn endless(cpus: CpuSet) -> Task {
    let arrival = Arrival::Listed { instants: vec![Span::ZERO] };
    Task { arrival, affinity: cpus, completion: Completion::None, ..Task::default() }
}

fn periodic(period: i64, runtime: i64, offset: i64, priority: u32, cpus: CpuSet) -> Task {
    let arrival = Arrival::Periodic { offset: units(offset), period: units(period) };
    Task { arrival, runtime: Some(units(runtime)), priority, affinity: cpus, ..Task::default() }
}

/// The CPU time of the first tasks after so long.
fn shares(system: System, jobs: usize, length: i64) -> Vec<i64> {
    let mut engine = Engine::new(system).expect("the policy suits the system");
    takt_sim::simulate(&mut engine, &Scenario::default(), units(length), &mut (), |_| ());
    let had = |t| engine.job(TaskId(t)).expect("the job never ends").consumed.nominal_time().ns() / UNIT;
    (0..jobs as u32).map(had).collect()
}

/// Endless jobs in the lower of two bands.
fn banded(cpus: usize, jobs: usize, quantum: i64, grid: bool, above: &[(i64, i64, i64)]) -> System {
    let all = CpuSet::first(cpus);
    let mut tasks = vec![endless(all); jobs];
    tasks
        .extend(above.iter().zip(1..).map(|(&(period, runtime, offset), p)| periodic(period, runtime, offset, p, all)));
    let ids = |range: std::ops::Range<usize>| range.map(|t| TaskId(t as u32)).collect();
    let settings = [("quantum", quantum * UNIT), ("grid", i64::from(grid))];
    let (high, low) = if cpus == 1 { ("fp", "rr") } else { ("g-fp", "g-rr") };
    let domains = vec![
        Domain { cpus: all, band: 2, tasks: ids(jobs..tasks.len()), policy: named(high, &[]) },
        Domain { cpus: all, band: 1, tasks: ids(0..jobs), policy: named(low, &settings) },
    ];
    System { tasks, domains, ..System::new(all, named("domains", &[])) }
}

fn spread(shares: &[i64]) -> i64 {
    shares.iter().max().unwrap_or(&0) - shares.iter().min().unwrap_or(&0)
}

/// On a grid a job that starts between two ticks gets only the rest, so that shares can differ; but none is starved, where the higher bands leave
/// enough for some turns of each job.
fn equal(had: &[i64], quantum: i64, grid: bool) -> Result<(), TestCaseError> {
    prop_assert!(grid || spread(had) <= 3 * quantum + 1, "{had:?} with a quantum of {quantum}");
    let turns = had.iter().sum::<i64>() / (quantum * had.len() as i64);
    prop_assert!(turns < 8 || had.iter().all(|had| *had > 0), "{had:?} with a quantum of {quantum}");
    Ok(())
}

/// CMSIS_5, issue 228: a higher band takes 1 ms of every 2, which is shorter than the quantum of 5 ms.
#[test]
fn an_interrupted_job_completes_its_quantum() {
    for quantum in [5_000, 1_000, 3_000] {
        let had = shares(banded(1, 2, quantum, false, &[(2_000, 1_000, 0)]), 2, 1_000_000);
        assert!(had.iter().sum::<i64>() == 500_000 && spread(&had) <= quantum, "{had:?}");
    }
    let had = shares(banded(1, 2, 1_000, false, &[(1_000, 500, 0)]), 2, 1_000_000);
    assert!(spread(&had) <= 1_000, "{had:?}");
}

/// Quanta that end at one instant.
#[test]
fn endless_jobs_on_several_cpus_get_equal_shares() {
    for (jobs, cpus) in [(3, 2), (5, 4), (5, 2), (7, 3), (4, 4)] {
        for grid in [false, true] {
            let system = System {
                tasks: vec![endless(CpuSet::first(cpus)); jobs],
                ..System::new(CpuSet::first(cpus), named("g-rr", &[("quantum", 5_000_000), ("grid", i64::from(grid))]))
            };
            let had = shares(system, jobs, 6_000_000);
            assert_eq!(had.iter().sum::<i64>(), 6_000_000 * cpus as i64);
            assert!(spread(&had) <= 5_000, "{jobs} jobs on {cpus} CPUs: {had:?}");
        }
    }
}

#[test]
fn no_interruption_favours_a_job() {
    let above = vec((select(&[3i64, 5, 7, 11, 13, 20, 41][..]), 0.05f64..0.4, 0i64..10), 0..4);
    let case = (above, 1usize..4, 2usize..6, 1i64..40, any::<bool>(), vec((2i64..30, 1i64..4), 0..3));
    takt_testing::for_all(300, case, |(above, cpus, jobs, quantum, grid, beside)| {
        let above: Vec<(i64, i64, i64)> = above
            .into_iter()
            .map(|(period, load, offset)| (period, ((period as f64 * load) as i64).max(1), offset))
            .collect();
        let jobs = jobs.max(cpus);
        let mut system = banded(cpus, jobs, quantum, grid, &above);
        // Short jobs in the same queue, which sleep in between.
        for (period, runtime) in beside {
            let task = TaskId(system.tasks.len() as u32);
            system.tasks.push(periodic(period * 10, runtime, 3, 0, system.cpus));
            system.domains[1].tasks.push(task);
        }
        let had = shares(system, jobs, 20_000);
        equal(&had, quantum, grid)?;
        Ok(())
    });
}

/// A partition's windows end in the middle of quanta.
#[test]
fn the_end_of_a_window_takes_nothing_of_a_quantum() {
    takt_testing::for_all(
        300,
        (2usize..5, 1i64..40, 1i64..30, 1i64..30, any::<bool>()),
        |(jobs, quantum, on, off, grid)| {
            let all = CpuSet::first(1);
            let policy = named("rr", &[("quantum", quantum * UNIT), ("grid", i64::from(grid))]);
            let partition = Partition { tasks: (0..jobs as u32).map(TaskId).collect(), policy: Some(policy) };
            let slice = Slice { cpus: all, sc: Some(PartitionId(0)), be: None };
            let windows = vec![
                Window { length: units(on), slices: vec![slice] },
                Window { length: units(off), slices: Vec::new() },
            ];
            let system = System {
                tasks: vec![endless(all); jobs],
                partitions: vec![partition],
                windows,
                ..System::new(all, named("windows", &[]))
            };
            let had = shares(system, jobs, 20_000);
            equal(&had, quantum, grid)?;
            Ok(())
        },
    );
}
