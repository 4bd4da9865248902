//! The schedulability tests by name against the simulator: what a test accepts never misses a deadline, and what an exact one
//! refuses does.

use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::Cell;
use takt_analysis::assign::{Placed, assign};
use takt_analysis::generate::{Deadlines, Generator, Periods, Utilisations};
use takt_analysis::online::Kind;
use takt_analysis::taskset::{self, Task, TaskSet};
use takt_analysis::tests::{self, TESTS, Test, Verdict, Why};
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, Execution, PolicySpec, Program, System, Task as Described};
use takt_core::scenario::Scenario;
use takt_core::stats::Responses;
use takt_core::time::{Span, Time};
use takt_testing::for_all;

/// A multiple of all periods drawn.
const HYPERPERIOD: i64 = 120;

fn tasks(stretch: u64, most: usize) -> impl Strategy<Value = Vec<Task>> {
    let periods = prop::sample::select(&[2u64, 3, 4, 5, 6, 8, 10, 12][..]);
    let task = (periods, 1..=1000u64, 0..=1600u64).prop_map(move |(period, load, tight)| {
        let runtime = (period * load / 1700).max(1);
        let longest = stretch * period;
        let deadline = if tight > 1000 { period } else { runtime + tight * (longest - runtime) / 1000 };
        Task { runtime, deadline, period }
    });
    vec(task, 1..=most)
}

/// How jobs come.
#[derive(Clone, Copy, Debug)]
enum Releases<'a> {
    /// Periodically with these offsets; none is zero.
    Periodic(&'a [i64]),
    /// At random, no sooner than a period after the one before.
    Sporadic(u64),
    /// At random by much more, and jobs need less than their runtimes, at random, too.
    Wild(u64),
}

impl Releases<'_> {
    /// The tasks as the tests receive them.
    fn told(self, tasks: &[Task]) -> TaskSet {
        let first = |index: usize| match self {
            Releases::Periodic(offsets) => offsets.get(index).copied().unwrap_or(0),
            _ => 0,
        };
        let releases = |index| taskset::Releases {
            first: Time::from_ns(first(index)),
            regular: matches!(self, Releases::Periodic(_)),
        };
        TaskSet { releases: (0..tasks.len()).map(releases).collect(), ..set(tasks) }
    }
}

/// Jobs missed in some hyperperiods, and the longest responses.
fn run(tasks: &[Task], cpus: usize, policy: &str, releases: Releases<'_>) -> (u64, Vec<u64>) {
    run_for(tasks, cpus, policy, releases, Span::from_ns(3 * HYPERPERIOD + 40))
}

fn run_for(tasks: &[Task], cpus: usize, policy: &str, releases: Releases<'_>, length: Span) -> (u64, Vec<u64>) {
    let ns = |t: u64| Span::from_ns(t as i64);
    let described = |(index, task): (usize, &Task)| Described {
        arrival: match releases {
            Releases::Periodic(offsets) => Arrival::Periodic {
                offset: Span::from_ns(offsets.get(index).copied().unwrap_or(0)),
                period: ns(task.period),
            },
            Releases::Sporadic(_) => {
                Arrival::Sporadic { offset: Span::ZERO, period: ns(task.period), spread: Span::from_ns(3) }
            }
            Releases::Wild(_) => {
                Arrival::Sporadic { offset: Span::ZERO, period: ns(task.period), spread: Span::from_ns(1_700) }
            }
        },
        program: Program::needing(match releases {
            Releases::Wild(_) => Execution::Uniform { least: ns(task.runtime / 2), most: ns(task.runtime) },
            _ => Execution::Declared,
        }),
        deadline: Some(ns(task.deadline)),
        runtime: Some(ns(task.runtime)),
        ..Described::default()
    };
    let mut system = System::new(CpuSet::first(cpus), PolicySpec::from_name(policy).unwrap());
    system.tasks = tasks.iter().enumerate().map(described).collect();
    if let Releases::Sporadic(seed) | Releases::Wild(seed) = releases {
        system.seed = seed;
    }
    let mut engine = Engine::new(system).unwrap();
    let mut responses = Responses::new(tasks.len());
    takt_sim::simulate(&mut engine, &Scenario::default(), length, &mut responses, |_| ());
    (engine.totals().missed, responses.0.iter().map(|h| h.max().ns() as u64).collect())
}

fn set(tasks: &[Task]) -> TaskSet {
    TaskSet::new(tasks.to_vec(), Span::from_ns(1)).unwrap()
}

/// The scheduler that a test is about; `None` for those that assign tasks to CPUs, and for the one about none.
fn policy(test: &Test) -> Option<&'static str> {
    let policy = takt_testing::policy_of_test(test.name);
    let assigns = test.strategy().is_some() || test.name == "necessary";
    assert!(policy.is_some() != assigns, "which scheduler is {} about?", test.name);
    policy
}

/// Sets of AIRS's generator at nine tenths of four CPUs, where nearly every accepted one is split: no CPU misses in two seconds.
#[test]
fn split_sets_at_high_load_meet_their_deadlines() {
    let mut split = 0;
    for number in 0..60 {
        let tasks = Generator::AIRS.set(3_600_000, 3, number).unwrap();
        for name in ["wm_ff", "wm_wf", "ceqd_ff"] {
            let strategy = tests::test(name).unwrap().strategy().unwrap();
            let Placed::All(assignment) = assign(&tasks, 4, strategy) else { continue };
            split += assignment.split.len();
            for pieces in assignment.cpus {
                let loads: Vec<Task> = pieces.iter().map(|p| p.load).collect();
                let starts: Vec<i64> = pieces.iter().map(|p| p.offset as i64).collect();
                // The unit does not matter to the simulator: microseconds are played as nanoseconds.
                let (missed, _) = run_for(&loads, 1, "edf", Releases::Periodic(&starts), Span::from_ns(2_000_000));
                assert_eq!(missed, 0, "{name} of set {number}: {pieces:?}");
            }
        }
    }
    assert!(split > 30, "only {split} tasks are split");
}

fn tied(tasks: &[Task]) -> bool {
    tasks.iter().enumerate().any(|(i, a)| tasks[..i].iter().any(|b| b.deadline == a.deadline))
}

/// No CPU of an accepted assignment misses, with every piece released at its offset.
fn assigned(tasks: &[Task], cpus: usize, test: &Test, offsets: &[i64]) -> Result<(), TestCaseError> {
    let Some(strategy) = test.strategy() else { return Ok(()) };
    let Placed::All(assignment) = assign(tasks, cpus, strategy) else { return Ok(()) };
    for pieces in assignment.cpus.iter().filter(|pieces| !pieces.is_empty()) {
        let loads: Vec<Task> = pieces.iter().map(|p| p.load).collect();
        let starts: Vec<i64> =
            pieces.iter().map(|p| p.offset as i64 + offsets.get(p.task).copied().unwrap_or(0)).collect();
        let (missed, _) = run(&loads, 1, "edf", Releases::Periodic(&starts));
        prop_assert_eq!(missed, 0, "{}: {:?}", test.name, pieces);
    }
    Ok(())
}

#[test]
fn accepted_sets_meet_their_deadlines() {
    takt_testing::for_all(
        600,
        (tasks(1, 7), 1..=4usize, vec(0i64..12, 7), any::<u64>()),
        |(tasks, cpus, offsets, seed)| {
            for test in TESTS {
                let cpus = if test.one_cpu { 1 } else { cpus };
                let Some(policy) = policy(test) else {
                    assigned(&tasks, cpus, test, &offsets)?;
                    continue;
                };
                for releases in [Releases::Periodic(&[]), Releases::Periodic(&offsets), Releases::Sporadic(seed)] {
                    let found = test.run(&releases.told(&tasks), cpus);
                    if found.verdict != Verdict::Schedulable {
                        continue;
                    }
                    let (missed, seen) = run(&tasks, cpus, policy, releases);
                    prop_assert_eq!(missed, 0, "{}: {:?}", test.name, releases);
                    if let Why::Responses(bounds) = &found.why {
                        // Equal deadlines with different periods are served by release, not by position, even if all start together.
                        let within = tied(&tasks) || seen.iter().zip(bounds).all(|(seen, bound)| seen <= bound);
                        prop_assert!(within, "{}: {seen:?} above {bounds:?}", test.name);
                    }
                }
            }
            Ok(())
        },
    );
}

#[test]
fn sets_refused_by_an_exact_test_miss() {
    takt_testing::for_all(600, tasks(1, 5), |tasks| {
        for (name, policy) in [("edf", "edf"), ("rm-rta", "rm"), ("dm-rta", "dm")] {
            let found = tests::test(name).unwrap().run(&set(&tasks), 1);
            let (missed, seen) = run(&tasks, 1, policy, Releases::Periodic(&[]));
            match found.verdict {
                Verdict::Unschedulable => prop_assert!(missed > 0, "{}: {:?}", name, found),
                Verdict::Schedulable => prop_assert_eq!(missed, 0, "{}", name),
                other => prop_assert!(false, "{}: {:?}", name, other),
            }
            if let Why::Responses(times) = found.why {
                prop_assert!(tied(&tasks) || seen == times, "{}: {:?} and not {:?}", name, seen, times);
            }
        }
        Ok(())
    });
}

/// Jobs that may come later by chance, of tasks with different first releases, can meet those of the periodic tasks, and then
/// come as densely as they may. A `no` of an exact test is proven by that.
#[test]
fn sets_refused_by_an_exact_test_can_miss() {
    takt_testing::for_all(
        600,
        (tasks(1, 5), vec(0i64..12, 5), vec(any::<bool>(), 5), 0i64..12),
        |(tasks, offsets, regular, common)| {
            let releases = |i: usize| taskset::Releases {
                first: Time::from_ns(if regular[i] { common } else { offsets[i] }),
                regular: regular[i],
            };
            let told = TaskSet { releases: (0..tasks.len()).map(releases).collect(), ..set(&tasks) };
            prop_assert!(told.can_meet());
            let meeting = common + 2 * HYPERPERIOD;
            // Gaps between one and two periods lead to the instant at which all meet.
            let instants = |i: usize| {
                let (period, first) = (tasks[i].period as i64, releases(i).first.ns());
                let gaps = (meeting - first) / period;
                let before = (0..gaps).map(move |k| first + (meeting - first) * k / gaps);
                let after = (0..HYPERPERIOD / period).map(move |k| meeting + k * period);
                Arrival::Listed { instants: before.chain(after).map(Span::from_ns).collect() }
            };
            for (name, policy) in [("edf", "edf"), ("rm-rta", "rm"), ("dm-rta", "dm")] {
                let test = tests::test(name).unwrap();
                let verdict = test.run(&told, 1).verdict;
                prop_assert!(verdict != Verdict::NotShown || test.kind_for(&told) == Kind::Sufficient, "{}", name);
                // A policy ranks listed jobs by `priority`, not by period.
                let priority = |t: &Task| 100 - if policy == "rm" { t.period } else { t.deadline } as u32;
                let mut system = System::new(
                    CpuSet::first(1),
                    PolicySpec::from_name(if policy == "edf" { "edf" } else { "fp" }).unwrap(),
                );
                let ns = |t: u64| Some(Span::from_ns(t as i64));
                system.tasks = tasks
                    .iter()
                    .enumerate()
                    .map(|(i, t)| Described {
                        arrival: instants(i),
                        deadline: ns(t.deadline),
                        runtime: ns(t.runtime),
                        priority: priority(t),
                        ..Described::default()
                    })
                    .collect();
                let mut engine = Engine::new(system).unwrap();
                takt_sim::simulate(
                    &mut engine,
                    &Scenario::default(),
                    Span::from_ns(meeting + HYPERPERIOD),
                    &mut (),
                    |_| (),
                );
                let missed = engine.totals().missed;
                match verdict {
                    Verdict::Schedulable => prop_assert_eq!(missed, 0, "{}", name),
                    Verdict::Unschedulable => prop_assert!(missed > 0, "{}", name),
                    _ => {}
                }
            }
            Ok(())
        },
    );
}

#[test]
fn deadlines_beyond_the_periods_are_met_too() {
    takt_testing::for_all(600, (tasks(3, 5), vec(0i64..12, 5)), |(tasks, offsets)| {
        for (name, policy) in [("edf", "edf"), ("rm-rta", "rm"), ("dm-rta", "dm")] {
            for releases in [Releases::Periodic(&[]), Releases::Periodic(&offsets)] {
                let set = releases.told(&tasks);
                if tests::test(name).unwrap().run(&set, 1).verdict == Verdict::Schedulable {
                    prop_assert_eq!(run(&tasks, 1, policy, releases).0, 0, "{}: {:?}", name, releases);
                }
            }
        }
        for test in TESTS.iter().filter(|t| t.strategy().is_some()) {
            assigned(&tasks, 2, test, &offsets)?;
        }
        Ok(())
    });
}

/// Sets in microseconds, whose jobs come and end at any nanosecond.
#[test]
fn no_verdict_is_too_generous_between_two_units() {
    takt_testing::for_all(200, (tasks(1, 7), 1..=4usize, any::<u64>()), |(tasks, cpus, seed)| {
        let fine: Vec<Task> = tasks
            .iter()
            .map(|t| Task { runtime: t.runtime * 1000, deadline: t.deadline * 1000, period: t.period * 1000 })
            .collect();
        let coarse = TaskSet { lighter: true, unit: Span::from_us(1), ..Releases::Wild(seed).told(&tasks) };
        for test in TESTS {
            let cpus = if test.one_cpu { 1 } else { cpus };
            let Some(policy) = policy(test) else { continue };
            let found = test.run(&coarse, cpus);
            if found.verdict == Verdict::Schedulable {
                let length = Span::from_ns(2000 * HYPERPERIOD);
                let (missed, seen) = run_for(&fine, cpus, policy, Releases::Wild(seed), length);
                prop_assert_eq!(missed, 0, "{}", test.name);
                if let Why::Responses(bounds) = &found.why {
                    let within = seen.iter().zip(bounds).all(|(seen, bound)| *seen <= bound * 1000);
                    prop_assert!(within, "{}: {seen:?} above {bounds:?}", test.name);
                }
            }
        }
        Ok(())
    });
}

/// Sets that nearly fill two to four CPUs: jobs are late, and never by more than the bound.
#[test]
fn lateness_under_global_edf_is_bounded() {
    let late_sets = Cell::new(0);
    let periods = vec(prop::sample::select(&[200u64, 300, 400, 500, 600, 800, 1000, 1200][..]), 9);
    let case = (2..=4usize, 1..=5usize, any::<u64>(), periods, vec(0i64..1200, 9), 0..3u8);
    for_all(80, case, |(cpus, more, seed, periods, offsets, how)| {
        // Utilisations in thousandths.
        let utilisations = Utilisations::RandFixedSum { tasks: cpus + more };
        let thousandths =
            Generator { utilisations, periods: Periods::Uniform(1000, 1000), deadlines: Deadlines::Implicit };
        let drawn = thousandths.set(cpus as u64 * 1_000_000, seed, 0).unwrap();
        let task = |(drawn, &period): (&Task, &u64)| Task {
            runtime: (drawn.runtime * period / 1000).max(1),
            deadline: period,
            period,
        };
        let tasks: Vec<Task> = drawn.iter().zip(&periods).map(task).collect();
        let Some(bound) = tests::tardiness(&tasks, cpus as u64) else { return Ok(()) };
        let releases = match how {
            0 => Releases::Periodic(&[]),
            1 => Releases::Periodic(&offsets),
            _ => Releases::Sporadic(seed),
        };
        let (missed, seen) = run_for(&tasks, cpus, "g-edf", releases, Span::from_ns(3 * 12_000));
        for ((task, bound), seen) in tasks.iter().zip(bound).zip(seen) {
            prop_assert!(seen <= task.deadline + bound, "{seen} after a deadline of {} and {bound}", task.deadline);
        }
        late_sets.set(late_sets.get() + u32::from(missed > 0));
        Ok(())
    });
    assert!(late_sets.get() >= 20, "only {} sets are late at all", late_sets.get());
}
