//! Absurd numbers: every test gives a right answer or none, within a bounded number of steps, and nothing overflows.

use proptest::collection::vec;
use proptest::prelude::*;
use takt_analysis::assign::Split;
use takt_analysis::generate::{Deadlines, Generator, Impossible, Periods, Utilisations};
use takt_analysis::online::Kind;
use takt_analysis::taskset::{TIME_MAX, Task, TaskSet, Unsuitable};
use takt_analysis::tests::{self, Growth, TESTS, Verdict, edf};
use takt_core::time::Span;

fn set(tasks: &[Task]) -> TaskSet {
    TaskSet::new(tasks.to_vec(), Span::from_ns(1)).unwrap()
}

fn says(name: &str, tasks: &[Task], cpus: usize) -> Verdict {
    tests::test(name).unwrap().run(&set(tasks), cpus).verdict
}

/// The tests whose verdict does not depend on the unit of time.
const FREE_OF_UNITS: [&str; 8] = ["edf", "ll", "hyperbolic", "rm-rta", "dm-rta", "gfb", "bcl", "bak"];

/// Small tasks, so that a search of all instants is short; deadlines up to twice the period.
fn small(most: usize) -> impl Strategy<Value = Vec<Task>> {
    let task = (prop::sample::select(&[2u64, 3, 4, 5, 6, 8, 10, 12][..]), 1..12u64, 1..24u64);
    let task = task.prop_map(|(period, runtime, deadline)| Task { runtime: runtime.min(period), deadline, period });
    vec(task, 1..=most)
}

/// Times from the smallest to the largest, and their neighbours.
fn extreme() -> impl Strategy<Value = u64> {
    let around = prop::sample::select(
        &[1u64, 2, 3, 7, 1_000, 999_999, 1 << 31, 1 << 32, 1_000_000_000_000, 1 << 53, 1 << 61, TIME_MAX][..],
    );
    (around, -2..=2i64).prop_map(|(time, by)| time.saturating_add_signed(by).clamp(1, TIME_MAX))
}

#[test]
fn verdicts_do_not_depend_on_the_size_of_numbers() {
    takt_testing::for_all(200, (small(5), 1..=4usize, 0..1000u64), |(tasks, cpus, odd)| {
        // The end of every search must stay within the range of times, too: some lie at a few hyperperiods, of 120.
        let factor = TIME_MAX / 4000 - odd;
        let huge: Vec<Task> = tasks
            .iter()
            .map(|t| Task { runtime: t.runtime * factor, deadline: t.deadline * factor, period: t.period * factor })
            .collect();
        for name in FREE_OF_UNITS {
            prop_assert_eq!(says(name, &tasks, cpus), says(name, &huge, cpus), "{}", name);
        }
        // By one part in 10^15 or less, a set that is just schedulable is not so any more, and one that is not stays so.
        if edf::growth(&tasks) == Some(Growth::exact((1, 1))) {
            prop_assert_eq!(says("edf", &huge, 1), Verdict::Schedulable);
            let mut over = huge.clone();
            over.iter_mut().for_each(|t| t.runtime += 1);
            prop_assert_eq!(says("edf", &over, 1), Verdict::Unschedulable);
        }
        Ok(())
    });
}

#[test]
fn no_test_contradicts_another() {
    takt_testing::for_all(
        200,
        (vec((extreme(), extreme(), extreme()), 1..5), (any::<bool>(), 1..=4usize)),
        |(times, (constrained, cpus))| {
            let tasks: Vec<Task> = times
                .iter()
                .map(|&(runtime, deadline, period)| {
                    let deadline = if constrained { deadline.min(period) } else { deadline };
                    Task { runtime: runtime.min(period), deadline, period }
                })
                .collect();
            // Splitting goes to the edge of full load, where a search gives up late.
            for test in TESTS.iter().filter(|t| t.strategy().is_none_or(|s| s.split == Split::Never)) {
                let cpus = if test.one_cpu { 1 } else { cpus };
                let verdict = test.run(&set(&tasks), cpus).verdict;
                let possible = says("necessary", &tasks, cpus) != Verdict::Unschedulable;
                prop_assert!(verdict != Verdict::Schedulable || possible, "{}", test.name);
                prop_assert!(
                    verdict != Verdict::Unschedulable || !possible || test.kind == Kind::Exact,
                    "{}",
                    test.name
                );
            }
            for chain in ["ll", "hyperbolic", "rm-rta", "edf"].windows(2) {
                let [weaker, stronger] = [0, 1].map(|i| says(chain[i], &tasks, 1));
                prop_assert!(
                    weaker != Verdict::Schedulable || matches!(stronger, Verdict::Schedulable | Verdict::Unknown),
                    "{:?}",
                    chain
                );
            }
            let longest = u128::from(tasks.iter().map(|t| t.runtime).max().unwrap());
            let bounded = |late: &Vec<u64>| late.iter().all(|late| u128::from(*late) <= 3 * longest);
            prop_assert!(tests::tardiness(&tasks, cpus as u64).as_ref().is_none_or(bounded));
            Ok(())
        },
    );
}

#[test]
fn invalid_task_sets_are_reported() {
    let task = |runtime, deadline, period| Task { runtime, deadline, period };
    let new = |tasks: &[Task]| TaskSet::new(tasks.to_vec(), Span::from_us(1)).map(|_| ());
    assert_eq!(new(&[]), Err(Unsuitable::Empty));
    for bad in [task(0, 1, 1), task(1, 0, 1), task(1, 1, 0), task(1, 1, TIME_MAX + 1), task(u64::MAX, 1, 1)] {
        assert_eq!(new(&[task(1, 1, 1), bad]), Err(Unsuitable::Range(1)), "{bad:?}");
    }
    assert_eq!(new(&[task(TIME_MAX, TIME_MAX, TIME_MAX)]), Ok(()));
    // A runtime above the deadline or the period, and a deadline beyond the period.
    for (bad, edf) in [(task(3, 2, 9), "0"), (task(9, 20, 5), "0"), (task(2, 9, 5), "1")] {
        for test in TESTS {
            let cell = test.run(&set(&[bad]), 2).verdict.cell();
            assert!(cell == edf || cell == "unknown", "{}: {bad:?} {cell}", test.name);
        }
        assert_eq!(says("edf", &[bad], 1).cell(), edf);
    }
}

/// One look at each pair of so many tasks is more than a test takes.
#[test]
fn too_many_tasks_are_reported() {
    let tasks: Vec<Task> = (0..40_000).map(|i| Task { runtime: 1, deadline: 50_000 + i, period: 50_000 + i }).collect();
    let set = TaskSet::new(tasks, Span::from_us(1)).unwrap();
    assert_eq!(tests::test("hyperbolic").unwrap().run(&set, 1).verdict, Verdict::Unknown);
    assert_eq!(tests::test("gfb").unwrap().run(&set, 4).verdict, Verdict::Schedulable);
    assert_eq!(tests::test("edf").unwrap().run(&set, 1).verdict, Verdict::Schedulable);
}

#[test]
fn sets_that_cannot_be_drawn_are_refused() {
    let (periods, deadlines) = (Periods::LogUniform(1, TIME_MAX), Deadlines::Constrained);
    let draw = |utilisations, total| Generator { utilisations, periods, deadlines }.set(total, 1, 0);
    let tasks = 100_000;
    assert_eq!(draw(Utilisations::RandFixedSum { tasks }, 1_000_000), Err(Impossible::TooMany));
    assert_eq!(draw(Utilisations::UUniFast { tasks: 3 }, 3_000_001), Err(Impossible::Total));
    assert_eq!(draw(Utilisations::Airs, 0), Err(Impossible::Nothing));
    let bad = Generator { periods: Periods::Uniform(5, 4), ..Generator::AIRS };
    assert_eq!(bad.set(1_000_000, 1, 0), Err(Impossible::Periods));
    for drawn in [draw(Utilisations::UUniFast { tasks }, 1), draw(Utilisations::Airs, 1_000_000_000)] {
        let tasks = drawn.unwrap();
        assert!(tasks.iter().all(|t| 1 <= t.runtime && t.runtime <= t.deadline && t.deadline <= t.period));
    }
}
