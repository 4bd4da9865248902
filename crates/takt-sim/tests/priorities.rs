//! Assigned priorities against the simulator: under those that Audsley's algorithm finds no deadline is missed, and on one CPU it
//! finds some whenever there are any.

use proptest::collection::vec;
use proptest::prelude::*;
use takt_analysis::generate::{Deadlines, Generator, Utilisations};
use takt_analysis::priorities::{Rule, Unassigned, assign};
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, PolicySpec, System, Task};
use takt_core::scenario::Scenario;
use takt_core::time::Span;

/// A multiple of all periods drawn.
const HYPERPERIOD: i64 = 120;

/// Runtime, deadline and period.
type Times = (i64, i64, i64);

fn tasks(stretch: i64, most: usize) -> impl Strategy<Value = Vec<Times>> {
    let periods = prop::sample::select(&[3i64, 4, 5, 6, 8, 10, 12][..]);
    let task = (periods, 1..=1000i64, 0..=1000i64).prop_map(move |(period, load, tight)| {
        let runtime = (period * load / 1500).max(1);
        (runtime, runtime + tight * (stretch * period - runtime) / 1000, period)
    });
    vec(task, 1..=most)
}

fn system(policy: &str, cpus: usize, tasks: &[Times]) -> System {
    let ns = Span::from_ns;
    let task = |&(runtime, deadline, period): &Times| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(period) },
        deadline: Some(ns(deadline)),
        runtime: Some(ns(runtime)),
        ..Task::default()
    };
    let policy = PolicySpec::from_name(policy).unwrap();
    System { tasks: tasks.iter().map(task).collect(), ..System::new(CpuSet::first(cpus), policy) }
}

fn missed(system: System, length: Span) -> u64 {
    let mut engine = Engine::new(system).unwrap();
    takt_sim::simulate(&mut engine, &Scenario::default(), length, &mut (), |_| ());
    engine.totals().missed
}

fn permutations(n: usize) -> Vec<Vec<u32>> {
    let Some(less) = n.checked_sub(1) else { return vec![Vec::new()] };
    let with = |rest: Vec<u32>| {
        (0..n).map(move |at| {
            let mut all = rest.clone();
            all.insert(at, n as u32);
            all
        })
    };
    permutations(less).into_iter().flat_map(with).collect()
}

#[test]
fn optimal_priorities_meet_all_deadlines() {
    takt_testing::for_all(
        400,
        (tasks(1, 7), 1..=4usize, vec(0i64..12, 7), any::<u64>()),
        |(tasks, cpus, offsets, seed)| {
            for policy in ["g-fp", "p-fp", "c-fp"] {
                let mut system = system(policy, cpus, &tasks);
                if assign(&mut system, Rule::Optimal, 0, 0).is_err() {
                    continue;
                }
                let length = Span::from_ns(3 * HYPERPERIOD);
                prop_assert_eq!(missed(system.clone(), length), 0, "{}", policy);
                let mut apart = system.clone();
                for (task, offset) in apart.tasks.iter_mut().zip(&offsets) {
                    let period = task.arrival.period().unwrap();
                    task.arrival = Arrival::Periodic { offset: Span::from_ns(*offset), period };
                }
                prop_assert_eq!(missed(apart, length), 0, "{} with {:?}", policy, offsets);
                let mut sporadic = System { seed, ..system };
                for task in &mut sporadic.tasks {
                    let period = task.arrival.period().unwrap();
                    task.arrival = Arrival::Sporadic { offset: Span::ZERO, period, spread: Span::from_ns(3) };
                }
                prop_assert_eq!(missed(sporadic, length), 0, "{} with sporadic jobs", policy);
            }
            Ok(())
        },
    );
}

/// Deadlines are up to three periods long here, for which no order by a key is optimal.
#[test]
fn on_one_cpu_priorities_are_found_whenever_there_are_any() {
    takt_testing::for_all(400, tasks(3, 4), |tasks| {
        let mut system = system("fp", 1, &tasks);
        let found = assign(&mut system, Rule::Optimal, 0, 0);
        let meets = |priorities: &Vec<u32>| {
            let mut system = system.clone();
            system.tasks.iter_mut().zip(priorities).for_each(|(task, priority)| task.priority = *priority);
            missed(system, Span::from_ns(5 * HYPERPERIOD)) == 0
        };
        let any = permutations(tasks.len()).iter().any(meets);
        let overload = tasks.iter().map(|(c, _, t)| c * HYPERPERIOD / t).sum::<i64>() > HYPERPERIOD;
        prop_assert!(found.is_ok() == any || overload && found.is_err(), "{:?}, and some order meets: {}", found, any);
        Ok(())
    });
}

/// Sets of twelve tasks for four CPUs, with deadlines below the periods. Finding no order is inconclusive, so the rules are
/// compared on the sets for which one is found.
#[test]
fn optimal_priorities_beat_the_monotonic_ones() {
    let utilisations = Utilisations::UUniFastDiscard { tasks: 12 };
    let generator = Generator { utilisations, deadlines: Deadlines::Constrained, ..Generator::AIRS };
    let (mut optimal, mut by_rule) = (0, [0; 3]);
    for number in 0..200 {
        let set = generator.set(2_000_000, 5, number).unwrap();
        let tasks: Vec<Times> =
            set.iter().map(|t| (1000 * t.runtime as i64, 1000 * t.deadline as i64, 1000 * t.period as i64)).collect();
        let under = |rule| {
            let mut system = system("g-fp", 4, &tasks);
            let found = assign(&mut system, rule, 5, number);
            (found, missed(system, Span::from_secs(1)))
        };
        match under(Rule::Optimal) {
            (Ok(()), missed) => {
                assert_eq!(missed, 0, "set {number}");
                optimal += 1;
                for (count, rule) in
                    by_rule.iter_mut().zip([Rule::RateMonotonic, Rule::DeadlineMonotonic, Rule::Random])
                {
                    *count += u32::from(under(rule).1 == 0);
                }
            }
            (Err(why), _) => assert_eq!(why, Unassigned::NoOrder),
        }
    }
    assert_eq!(
        (optimal, by_rule),
        (174, [94, 146, 11]),
        "sets without a miss under opa, and of these under rm, dm and random"
    );
}
