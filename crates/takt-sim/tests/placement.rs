//! Placement by the exact test of each CPU: what is accepted meets all deadlines, what is refused does not, and the analysis places
//! tasks as the policies do.

use takt_analysis::assign::{Placed, assign};
use takt_analysis::online::{self, Answer};
use takt_analysis::placement::placement;
use takt_analysis::taskset::{Task as Times, TaskSet};
use takt_analysis::tests::{self, Verdict};
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, Placement, PolicySpec, System, Task, TaskId};
use takt_core::policies::scope::{Packed, pack};
use takt_core::policy::{Build, Registry};
use takt_core::rng::draw_up_to;
use takt_core::scenario::Scenario;
use takt_core::time::Span;

const NAMES: [&str; 6] = ["ff", "bf", "wf", "ffd", "bfd", "wfd"];

/// Periodic tasks with a common first release, in nanoseconds, under a policy with this placement.
fn system(policy: &str, placement: &str, cpus: usize, tasks: &[Times]) -> System {
    let ns = |t: u64| Span::from_ns(t as i64);
    let described = |t: &Times| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(t.period) },
        deadline: Some(ns(t.deadline)),
        runtime: Some(ns(t.runtime)),
        ..Task::default()
    };
    let spec =
        PolicySpec { placement: Placement::from_name(placement).unwrap(), ..PolicySpec::from_name(policy).unwrap() };
    System { tasks: tasks.iter().map(described).collect(), ..System::new(CpuSet::first(cpus), spec) }
}

fn packed(system: &System) -> Packed {
    Build::whole(system, &Registry::default(), pack)
}

fn missed(system: &System, length: u64) -> u64 {
    let mut engine = Engine::new(system.clone()).unwrap();
    takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ns(length as i64), &mut (), |_| ());
    engine.totals().missed
}

/// Two jobs of 8 ms that are due after 10 ms: a CPU has room for one, though its utilisation is 0.08.
#[test]
fn short_deadlines_spread_over_the_cpus() {
    let task = Times { runtime: 8_000_000, deadline: 10_000_000, period: 100_000_000 };
    for policy in ["p-edf", "p-rm", "p-dm", "p-fp", "c-edf:cluster=1"] {
        let mut described = system(policy.split(':').next().unwrap(), "ffd", 2, &[task; 2]);
        described.policy.cluster = 1;
        assert_eq!(packed(&described), Packed { homes: vec![0, 1], refused: Vec::new() }, "{policy}");
        assert_eq!(missed(&described, 1_000_000_000), 0, "{policy}");
    }
    // Without an exact test the utilisation counts.
    assert_eq!(packed(&system("p-fifo", "ffd", 2, &[task; 2])).homes, [0, 0]);
}

/// All periods drawn divide this.
const HYPERPERIOD: u64 = 12_000;

/// A random set with constrained deadlines for so many CPUs; about half of them can be placed.
fn draw(number: u64, cpus: usize) -> Vec<Times> {
    const PERIODS: [u64; 8] = [1_000, 1_200, 1_500, 2_000, 2_400, 3_000, 4_000, 6_000];
    let mut index = 0;
    let mut between = |low: u64, high: u64| {
        index += 1;
        low + draw_up_to(high - low, 11, number, index)
    };
    let total = cpus as u64 * between(600, 1_000);
    let (mut tasks, mut used) = (Vec::new(), 0);
    while used < total {
        let share = between(20, 600).min(total - used).max(5);
        used += share;
        let period = PERIODS[between(0, 7) as usize];
        let runtime = period * share / 1_000;
        let deadline = between(runtime + (period - runtime) / 3, period);
        tasks.push(Times { runtime, deadline, period });
    }
    tasks
}

/// Draws 2000 sets for two to eight CPUs, and asks about each under every placement. Counts the cases that hold.
fn for_all_sets(mut holds: impl FnMut(&[Times], usize, &str) -> bool) -> usize {
    let mut count = 0;
    for number in 0..2_000 {
        let cpus = 2 + number as usize % 7;
        let tasks = draw(number, cpus);
        count += NAMES.iter().filter(|name| holds(&tasks, cpus, name)).count();
    }
    count
}

#[test]
fn the_named_tests_and_partitioned_edf_agree() {
    let accepted = for_all_sets(|tasks, cpus, name| {
        let system = system("p-edf", name, cpus, tasks);
        let set = TaskSet::new(tasks.to_vec(), Span::from_ns(1)).unwrap();
        let test = tests::test(name).unwrap();
        let accepted = test.run(&set, cpus).verdict == Verdict::Schedulable;
        let case = || format!("{name} on {cpus} CPUs, {tasks:?}");
        let placed = packed(&system);
        assert_eq!(placed.refused.is_empty(), accepted, "{}", case());
        if let Placed::All(assignment) = assign(tasks, cpus, test.strategy().unwrap()) {
            for (cpu, pieces) in assignment.cpus.iter().enumerate() {
                assert!(pieces.iter().all(|p| usize::from(placed.homes[p.task]) == cpu), "{}", case());
            }
        }
        assert_eq!(missed(&system, HYPERPERIOD) == 0, accepted, "{}", case());
        accepted
    });
    // Counted in 12000 cases.
    assert!((4_000..=8_000).contains(&accepted), "{accepted}");
}

#[test]
fn sets_accepted_by_response_times_meet_their_deadlines() {
    for policy in ["p-dm", "p-rm"] {
        let accepted = for_all_sets(|tasks, cpus, name| {
            let system = system(policy, name, cpus, tasks);
            let accepted = packed(&system).refused.is_empty();
            let met = missed(&system, HYPERPERIOD) == 0;
            assert_eq!(met, accepted, "{policy}, {name} on {cpus} CPUs, {tasks:?}");
            if name == "ffd" {
                let answer = if accepted { Answer::Yes } else { Answer::No };
                assert_eq!(online::verdict(&system).schedulable, answer, "{policy} on {cpus} CPUs, {tasks:?}");
            }
            accepted
        });
        assert!((1_000..=8_000).contains(&accepted), "{policy}: {accepted}");
    }
}

#[test]
fn a_task_that_no_cpu_accepts_goes_to_the_least_utilised_one() {
    let task = |runtime, deadline, period| Times { runtime, deadline, period };
    // Each CPU has room for one of the first three; the second one has the lower utilisation. The fourth is accepted where
    // nothing is too much yet.
    let tasks = [task(8, 10, 20), task(8, 10, 40), task(8, 10, 80), task(1, 50, 100)];
    for policy in ["p-edf", "p-dm", "p-rm"] {
        let system = system(policy, "ff", 2, &tasks);
        let placed = packed(&system);
        assert_eq!(placed.homes, [0, 1, 1, 0], "{policy}");
        assert_eq!(placed.refused.iter().map(|r| (r.task, r.inconclusive)).collect::<Vec<_>>(), [(TaskId(2), false)]);
        let told: Vec<bool> = placement(&system).iter().map(|home| home.fits).collect();
        assert_eq!(told, [true, true, false, true], "{policy}");
    }
}

/// Periods without a common divisor and a utilisation of all but 1: the search would take years, and placement must not.
#[test]
fn a_search_without_end_is_inconclusive() {
    let primes = [999_999_937, 999_999_929, 999_999_893, 999_999_883];
    let mut tasks = primes.map(|period| Times { runtime: period / 4, deadline: period, period });
    tasks[0].deadline /= 2;
    let placed = packed(&system("p-edf", "ff", 1, &tasks));
    assert_eq!(placed.refused.iter().map(|r| (r.task, r.inconclusive)).collect::<Vec<_>>(), [(TaskId(3), true)]);
}
