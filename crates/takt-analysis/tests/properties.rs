//! The tests against definitions: every point in time is tried where the tests look at a few.

use proptest::collection::vec;
use proptest::prelude::*;
use takt_analysis::assign::{Assignment, Fit, Placed, Split, Strategy as Way, assign};
use takt_analysis::online::{Answer, verdict};
use takt_analysis::taskset::{Task, TaskSet};
use takt_analysis::tests::edf::{Demand, Window, demand, growth, largest_piece};
use takt_analysis::tests::{self, Verdict, Why, fixed_priority};
use takt_core::cpus::CpuSet;
use takt_core::model::{self, Arrival, Backlog, PolicySpec, System};
use takt_core::time::Span;

/// Periods with a small common multiple, so that every instant of it can be tried.
const PERIODS: [u64; 8] = [2, 3, 4, 5, 6, 8, 10, 12];
/// A multiple of all of them.
const HYPERPERIOD: u64 = 120;

/// Tasks with deadlines from the runtime to `stretch` times the period.
fn tasks(stretch: u64, most: usize) -> impl Strategy<Value = Vec<Task>> {
    let task = (prop::sample::select(&PERIODS[..]), 1..=1000u64, 0..=1600u64).prop_map(move |(period, load, tight)| {
        let runtime = (period * load / 1600).max(1);
        let longest = stretch * period;
        // Deadlines at the ends of the periods deserve more than a rare visit.
        let deadline = if tight > 1000 { period } else { runtime + tight * (longest - runtime) / 1000 };
        Task { runtime, deadline, period }
    });
    vec(task, 1..=most)
}

fn due(tasks: &[Task], t: u64) -> u64 {
    let jobs = |k: &Task| if t >= k.deadline { (t - k.deadline) / k.period + 1 } else { 0 };
    tasks.iter().map(|k| jobs(k) * k.runtime).sum()
}

/// Work per hyperperiod of this length.
fn work(tasks: &[Task], hyperperiod: u64) -> u64 {
    tasks.iter().map(|t| hyperperiod / t.period * t.runtime).sum()
}

/// Whether all that is due fits, at every instant that can matter.
fn fits(tasks: &[Task]) -> bool {
    let longest = tasks.iter().map(|t| t.deadline).max().unwrap_or(0);
    work(tasks, HYPERPERIOD) <= HYPERPERIOD && (0..=2 * HYPERPERIOD + longest).all(|t| due(tasks, t) <= t)
}

fn scaled(task: &Task, by: u64) -> Task {
    Task { runtime: task.runtime * by, deadline: task.deadline * by, period: task.period * by }
}

fn set(tasks: &[Task]) -> TaskSet {
    TaskSet::new(tasks.to_vec(), Span::from_us(1)).unwrap()
}

fn says(name: &str, tasks: &[Task], cpus: usize) -> Verdict {
    tests::test(name).unwrap().run(&set(tasks), cpus).verdict
}

/// The rules of an assignment: each CPU is schedulable by itself, and the pieces of a task follow each other.
fn check(tasks: &[Task], assignment: &Assignment) -> Result<(), TestCaseError> {
    let mut found = vec![Vec::new(); tasks.len()];
    for (cpu, pieces) in assignment.cpus.iter().enumerate() {
        let loads: Vec<Task> = pieces.iter().map(|p| p.load).collect();
        prop_assert!(fits(&loads), "CPU {cpu}: {loads:?}");
        pieces.iter().for_each(|p| found[p.task].push((p.offset, cpu, p.load)));
    }
    for (index, (task, pieces)) in tasks.iter().zip(&mut found).enumerate() {
        pieces.sort_by_key(|(offset, cpu, _)| (*offset, *cpu));
        prop_assert_eq!(pieces.iter().map(|(_, _, load)| load.runtime).sum::<u64>(), task.runtime);
        prop_assert!(pieces.iter().all(|(_, _, load)| load.period == task.period));
        prop_assert!(pieces.len() == 1 || assignment.split.contains(&index));
        for pair in pieces.windows(2) {
            let ((offset, cpu, load), (next, next_cpu, _)) = (pair[0], pair[1]);
            prop_assert!(offset + load.deadline <= next && cpu != next_cpu, "{:?}", pieces);
        }
        let &(offset, _, load) = pieces.last().unwrap();
        let end = if pieces.len() > 1 { task.deadline.min(task.period) } else { task.deadline };
        prop_assert!(offset + load.deadline <= end, "{:?} of {:?}", pieces, task);
    }
    Ok(())
}

#[test]
fn the_demand_is_searched_completely() {
    takt_testing::for_all(2000, tasks(3, 5), |tasks| {
        match demand(&tasks) {
            Demand::Within => prop_assert!(fits(&tasks)),
            Demand::Above { at, due: wanted } => {
                prop_assert!(
                    wanted > at && (wanted == due(&tasks, at) || tasks.iter().any(|t| t.runtime > t.deadline))
                );
                prop_assert!(!fits(&tasks));
            }
            Demand::Overload => prop_assert!(work(&tasks, HYPERPERIOD) > HYPERPERIOD),
            Demand::Unknown => prop_assert!(false, "small numbers are no trouble"),
        }
        Ok(())
    });
}

#[test]
fn the_largest_piece_is_the_largest() {
    takt_testing::for_all(
        2000,
        (tasks(1, 4), prop::sample::select(&PERIODS[..]), 1..=10u64),
        |(mut tasks, period, part)| {
            while !fits(&tasks) {
                tasks.pop();
            }
            let with = |runtime, deadline| {
                let mut all = tasks.clone();
                all.push(Task { runtime, deadline, period });
                fits(&all)
            };
            let deadline = (period * part / 10).max(1);
            let found = largest_piece(&tasks, Window::Fixed(deadline), period, period).unwrap();
            prop_assert!(found <= deadline && (found == 0 || with(found, deadline)));
            prop_assert!(found == deadline || !with(found + 1, deadline));
            let found = largest_piece(&tasks, Window::Tight, period, period).unwrap();
            prop_assert!(found <= period && (found == 0 || with(found, found)));
            prop_assert!(found == period || !with(found + 1, found + 1));
            Ok(())
        },
    );
}

#[test]
fn runtimes_may_grow_so_far_and_no_further() {
    takt_testing::for_all(2000, tasks(2, 4), |tasks| {
        let (p, q) = growth(&tasks).unwrap().at_least;
        let points = || 1..=2 * HYPERPERIOD + tasks.iter().map(|t| t.deadline).max().unwrap();
        let grown = |t: u64| u128::from(due(&tasks, t)) * p;
        prop_assert!(points().all(|t| grown(t) <= u128::from(t) * q));
        let load = u128::from(work(&tasks, HYPERPERIOD)) * p;
        prop_assert!(load <= u128::from(HYPERPERIOD) * q);
        // Some interval, or the CPU, is full. The inverse of the utilisation may be rounded down.
        let full = load == u128::from(HYPERPERIOD) * q || points().any(|t| grown(t) == u128::from(t) * q);
        let nearly =
            q <= 1 << 24 && (1u128 << 24).is_multiple_of(q) && load + (load >> 20) >= u128::from(HYPERPERIOD) * q;
        prop_assert!(full || nearly, "{p}/{q}");
        prop_assert_eq!(p >= q, matches!(demand(&tasks), Demand::Within));
        Ok(())
    });
}

#[test]
fn fixed_priorities_grow_as_far_as_their_test_says() {
    takt_testing::for_all(2000, tasks(1, 4), |tasks| {
        let order = set(&tasks).priorities(|t| t.deadline);
        let (p, q) = fixed_priority::growth(&tasks, &order).unwrap().factor().unwrap();
        let scaled = |p: u64, q: u64| -> Vec<Task> {
            tasks
                .iter()
                .map(|t| Task { runtime: t.runtime * p, deadline: t.deadline * q, period: t.period * q })
                .collect()
        };
        let (p, q) = (u64::try_from(p).unwrap(), u64::try_from(q).unwrap());
        let within = |tasks: &[Task]| {
            let set = fixed_priority::Ranked { times: tasks, priorities: &order, jitter: &[], blocking: &[] };
            fixed_priority::responses(set).iter().all(|r| matches!(r, fixed_priority::Response::Within(_)))
        };
        prop_assert!(within(&scaled(p, q)));
        prop_assert!(!within(&scaled(p * 1000 + 1, q * 1000)));
        prop_assert_eq!(p >= q, says("dm-rta", &tasks, 1) == Verdict::Schedulable);
        Ok(())
    });
}

/// `takt check` and `takt analyze` ask different code.
#[test]
fn the_verdict_about_a_system_is_that_of_the_test_of_its_policy() {
    takt_testing::for_all(
        2000,
        (
            prop_oneof![tasks(1, 4), tasks(3, 4)],
            prop_oneof![Just(vec![0i64; 4]), vec(0..12i64, 4)],
            prop_oneof![Just(vec![0i64; 4]), vec(0..3i64, 4)],
        ),
        |(tasks, offsets, spreads)| {
            let us = |t: u64| Span::from_us(t as i64);
            let described = |(i, t): (usize, &Task)| model::Task {
                arrival: Arrival::Sporadic {
                    offset: Span::from_us(offsets[i]),
                    period: us(t.period),
                    spread: Span::from_us(spreads[i]),
                },
                deadline: Some(us(t.deadline)),
                runtime: Some(us(t.runtime)),
                ..model::Task::default()
            };
            for (policy, name) in [("edf", "edf"), ("rm", "rm-rta"), ("dm", "dm-rta")] {
                let mut system = System::new(CpuSet::first(1), PolicySpec::from_name(policy).unwrap());
                system.backlog = Backlog::Queue;
                system.tasks = tasks.iter().enumerate().map(described).collect();
                let (checked, set) = (verdict(&system), TaskSet::from_system(&system).unwrap());
                let test = tests::test(name).unwrap();
                let found = test.run(&set, 1).verdict;
                let same = match checked.schedulable {
                    Answer::Yes => found == Verdict::Schedulable && checked.kind == test.kind_for(&set),
                    Answer::No => found == Verdict::Unschedulable,
                    Answer::Unknown => found == Verdict::NotShown,
                };
                prop_assert!(same, "{name}: {found:?}, {}, and {checked}", test.kind_for(&set));
            }
            Ok(())
        },
    );
}

#[test]
fn a_stronger_test_accepts_what_a_weaker_one_does() {
    takt_testing::for_all(2000, (tasks(1, 6), 1..=4usize), |(tasks, cpus)| {
        for (weaker, stronger) in
            [("ff", "wm_ff"), ("ff", "ceqd_ff"), ("ffd", "wm_ffd"), ("ffd", "ceqd_ffd"), ("gdm-rta", "necessary")]
        {
            if says(weaker, &tasks, cpus) == Verdict::Schedulable {
                let said = says(stronger, &tasks, cpus);
                prop_assert!(
                    said != Verdict::Unschedulable && said != Verdict::NotShown,
                    "{weaker} and not {stronger}"
                );
            }
        }
        let implicit: Vec<Task> = tasks.iter().map(|t| Task { deadline: t.period, ..*t }).collect();
        for chain in ["ll", "hyperbolic", "rm-rta", "edf"].windows(2) {
            if says(chain[0], &implicit, 1) == Verdict::Schedulable {
                prop_assert_eq!(
                    says(chain[1], &implicit, 1),
                    Verdict::Schedulable,
                    "{} and not {}",
                    chain[0],
                    chain[1]
                );
            }
        }
        // EDF is optimal on one CPU.
        if says("dm-rta", &tasks, 1) == Verdict::Schedulable {
            prop_assert_eq!(says("edf", &tasks, 1), Verdict::Schedulable);
        }
        // One CPU is one CPU.
        for name in ["ff", "wf", "bfd", "wm_wf", "ceqd_ff"] {
            prop_assert_eq!(
                says(name, &tasks, 1) == Verdict::Schedulable,
                says("edf", &tasks, 1) == Verdict::Schedulable,
                "{}",
                name
            );
        }
        Ok(())
    });
}

#[test]
fn assignments_keep_their_rules() {
    takt_testing::for_all(
        2000,
        (
            tasks(2, 8),
            1..=4usize,
            prop::sample::select(&[Fit::First, Fit::Best, Fit::Worst][..]),
            prop::sample::select(&[Split::Never, Split::Windows, Split::Tight][..]),
            any::<bool>(),
        ),
        |(tasks, cpus, fit, split, decreasing)| {
            if let Placed::All(assignment) = assign(&tasks, cpus, Way { fit, decreasing, split }) {
                check(&tasks, &assignment)?;
            }
            Ok(())
        },
    );
}

/// Between two units of time a job can be held up, too.
#[test]
fn a_coarser_unit_makes_no_verdict_better() {
    takt_testing::for_all(300, (tasks(1, 7), 1..=4usize), |(tasks, cpus)| {
        let fine: Vec<Task> = tasks.iter().map(|t| scaled(t, 1000)).collect();
        let fine = TaskSet::new(fine, Span::from_ns(1)).unwrap();
        // Pieces of tasks are cut to units, and other pieces lead to other places.
        for test in tests::TESTS.iter().filter(|t| t.strategy().is_none()) {
            let cpus = if test.one_cpu { 1 } else { cpus };
            let (coarse, fine) = (test.run(&set(&tasks), cpus), test.run(&fine, cpus));
            if coarse.verdict == Verdict::Schedulable {
                prop_assert_eq!(fine.verdict, Verdict::Schedulable, "{}", test.name);
            }
            if let (Why::Responses(coarse), Why::Responses(fine)) = (coarse.why, fine.why) {
                prop_assert!(
                    coarse.iter().zip(&fine).all(|(c, f)| c * 1000 >= *f),
                    "{}: {:?} {:?}",
                    test.name,
                    coarse,
                    fine
                );
            }
        }
        Ok(())
    });
}

/// Four others of one unit each can keep three CPUs busy for 4/3 of a unit.
#[test]
fn a_bound_is_no_whole_number_of_units() {
    let tasks = vec![Task { runtime: 1, deadline: 10, period: 10 }; 5];
    let found = tests::test("gedf-rta").unwrap().run(&set(&tasks), 3);
    assert_eq!(found.why, Why::Responses(vec![3; 5]));
}

/// Sets that are split are rare among small ones.
#[test]
fn split_sets_keep_the_rules_too() {
    let task = |runtime| Task { runtime, deadline: 12, period: 12 };
    for (split, runtimes) in [
        (Split::Windows, &[7, 7, 7, 3][..]),
        (Split::Tight, &[8, 8, 8]),
        (Split::Tight, &[9, 9, 9, 9]),
        (Split::Windows, &[10, 10, 4]),
    ] {
        let tasks: Vec<Task> = runtimes.iter().map(|r| task(*r)).collect();
        let cpus = runtimes.iter().sum::<u64>().div_ceil(12) as usize;
        let placed = assign(&tasks, cpus, Way { fit: Fit::First, decreasing: false, split });
        let Placed::All(assignment) = placed else { panic!("{runtimes:?}: {placed:?}") };
        assert!(!assignment.split.is_empty(), "{assignment:?}");
        check(&tasks, &assignment).unwrap();
    }
}

/// Six movies of 25 ms every 41 ms fit on four CPUs and seven do not; fourteen of 9 ms every 33 ms, and fifteen do not: what
/// Kato, Rajkumar and Ishikawa say of AIRS (ECRTS 2010), which places by worst fit.
#[test]
fn movies() {
    for (runtime, period, most) in [(25_000, 41_000, 6), (9_000, 33_000, 14)] {
        for count in 1..=most + 1 {
            let movies = vec![Task { runtime, deadline: period, period }; count];
            for name in ["wm_wf", "wm_ff"] {
                assert_eq!(says(name, &movies, 4) == Verdict::Schedulable, count <= most, "{name}: {count}");
            }
        }
    }
}
