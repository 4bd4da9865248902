//! Properties of every set of jobs.

use super::*;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;
use takt_core::record::{Record, RecordKind};
use takt_core::time::Span;
use takt_testing::for_all;

const ONE_CPU: [&str; 6] = ["hvdf", "np-hvdf", "lbesa", "dasa-nd", "dasa", "gus"];

/// Periodic and sporadic tasks that load one CPU up to some part, often to the brim; their deadlines are the ends of their
/// periods, or single jobs. Offsets are in nanoseconds, so that deadlines are hardly ever equal.
fn underload() -> impl Strategy<Value = Vec<Task>> {
    let periods = select(&[2i64, 3, 4, 5, 6, 8, 10, 12, 20, 24, 30][..]);
    let task = (periods, 0i64..20_000_000, 1u64..100, any::<bool>(), 0u64..50);
    let load = prop_oneof![3 => Just(1000u64), 1 => 300u64..1000];
    (vec(task, 1..8), load).prop_map(|(drawn, load)| {
        let weights: u64 = drawn.iter().map(|d| d.2).sum();
        let task = |(period, offset, weight, sporadic, utility): (i64, i64, u64, bool, u64)| {
            let (offset, period) = (Span::from_ns(offset), ms(period));
            // Rounded down, so the utilisations add up to the load at most.
            let runtime = Span::from_ns((period.ns() as u64 * weight * load / weights / 1000) as i64);
            let arrival = match sporadic {
                true => Arrival::Sporadic { offset, period, spread: ms(3) },
                false => Arrival::Periodic { offset, period },
            };
            let runtime = Some(runtime.max(Span::from_ns(1)));
            worth(utility, Task { arrival, runtime, deadline: Some(period), ..Task::default() })
        };
        drawn.into_iter().map(task).collect()
    })
}

/// Single jobs that come at any time, in microseconds: release, runtime, how much later than that they are due, and units.
fn single_jobs() -> impl Strategy<Value = Vec<Task>> {
    let job = (0i64..20_000, 1i64..5_000, 0i64..40_000, 0u64..50);
    vec(job, 1..10).prop_map(|jobs| {
        let task = |(release, runtime, slack, utility): (i64, i64, i64, u64)| Task {
            arrival: Arrival::Listed { instants: vec![Span::from_us(release)] },
            runtime: Some(Span::from_us(runtime)),
            deadline: Some(Span::from_us(runtime + slack)),
            ..worth(utility, Task::default())
        };
        jobs.into_iter().map(task).collect()
    })
}

fn deadlines_are_distinct(records: &[Record]) -> bool {
    let mut seen = BTreeSet::new();
    records.iter().all(|r| match r.kind {
        RecordKind::Release { deadline, .. } => seen.insert(deadline),
        _ => true,
    })
}

#[test]
fn feasible_sets_with_distinct_deadlines_run_as_under_edf() {
    let sets = prop_oneof![underload(), single_jobs()];
    for_all(400, sets, |tasks| {
        let edf = tell(system(1, "edf", tasks.clone()), 300);
        prop_assume!(edf.missed().is_empty() && deadlines_are_distinct(&edf.records));
        for name in ["dasa-nd", "dasa", "lbesa"] {
            let told = tell(system(1, name, tasks.clone()), 300);
            prop_assert!(told.records == edf.records, "{name}: {} instead of {}", told.chart(), edf.chart());
        }
        Ok(())
    });
}

/// All kinds of time-utility functions.
fn time_utility() -> impl Strategy<Value = Utility> {
    let height = || (0u64..9).prop_map(|h| h * UNIT);
    let span = || (1i64..30).prop_map(ms);
    let points = vec((span(), height()), 1..5).prop_map(|mut points| {
        points.sort_by_key(|(at, _)| *at);
        Utility::Table(points)
    });
    prop_oneof![
        2 => height().prop_map(Utility::Step),
        1 => (height(), weighted(0.5, span())).prop_map(|(height, until)| Utility::Linear { height, until }),
        1 => (height(), span()).prop_map(|(height, half_life)| Utility::Exponential { height, half_life }),
        1 => points,
    ]
}

/// Periodic tasks that may want much more than there is, with handlers.
fn overload() -> impl Strategy<Value = Vec<Task>> {
    let handler = weighted(0.3, (1i64..3, weighted(0.7, 1i64..9), 0u64..9));
    let task = (0i64..10, 2i64..20, 1i64..8, time_utility(), handler);
    let task = task.prop_map(|(offset, period, runtime, utility, handler)| Task {
        arrival: Arrival::Periodic { offset: ms(offset), period: ms(period) },
        deadline: Some(ms(period)),
        runtime: Some(ms(runtime)),
        utility: Some(utility),
        handler: handler.map(|(runtime, deadline, utility)| Handler {
            runtime: ms(runtime),
            deadline: deadline.map(ms),
            utility: utility * UNIT,
        }),
        ..Task::default()
    });
    vec(task, 1..7)
}

fn lates() -> impl Strategy<Value = Late> {
    select(&[Late::Continue, Late::Abort, Late::AbortAtEvent][..])
}

#[test]
fn without_dependencies_dasa_is_dasa_without_dependencies() {
    for_all(300, (overload(), lates()), |(tasks, late)| {
        let records = |name| tell(System { late, ..system(1, name, tasks.clone()) }, 200).records;
        prop_assert!(records("dasa") == records("dasa-nd"));
        Ok(())
    });
}

/// Sections with up to two resources, nested or not, and sleeps.
fn sharing() -> impl Strategy<Value = Vec<Task>> {
    let section = (0u16..3, 0u16..3, 1i64..4, any::<bool>(), 0i64..3).prop_map(|(r, s, length, nested, sleep)| {
        let (r, s) = (ResourceId(r), ResourceId(s));
        let mut steps = vec![run(1), Step::Lock(r), run(length)];
        match nested && r != s {
            true => steps.extend([Step::Lock(s), run(1), Step::Unlock(s), Step::Unlock(r)]),
            false => steps.push(Step::Unlock(r)),
        }
        if sleep > 0 {
            steps.push(Step::Sleep(ms(sleep)));
        }
        steps
    });
    let task = (vec(section, 1..3), 0i64..12, 6i64..40, 0u64..20);
    let task = task.prop_map(|(sections, offset, period, utility)| {
        let steps = sections.concat();
        let runs = steps.iter().map(|s| if let Step::Run(span) = s { *span } else { Span::ZERO });
        let runtime = Some(runs.fold(Span::ZERO, |sum, span| sum + span));
        let arrival = Arrival::Periodic { offset: ms(offset), period: ms(period) };
        worth(
            utility,
            Task { arrival, deadline: Some(ms(period)), runtime, program: Program::doing(steps), ..Task::default() },
        )
    });
    vec(task, 2..6)
}

#[test]
fn only_the_proportions_of_utilities_matter() {
    let factors = select(&[2u64, 7, 1_000, 999_983][..]);
    let lockings = select(&[Locking::Fifo, Locking::Inheritance][..]);
    let scopes = ONE_CPU.map(|name| (1, name));
    let several = [(2, "g-hvdf"), (2, "g-np-hvdf"), (2, "p-dasa")];
    for (cpus, name) in scopes.into_iter().chain(several) {
        for_all(60, (sharing(), lates(), lockings.clone(), factors.clone()), |(tasks, late, locking, factor)| {
            let records = |factor: u64| {
                let mut tasks = tasks.clone();
                for task in &mut tasks {
                    let Some(Utility::Step(height)) = &mut task.utility else { unreachable!("they are steps") };
                    *height *= factor;
                }
                tell(System { late, locking, ..system(cpus, name, tasks) }, 150).records
            };
            prop_assert!(records(1) == records(factor), "{}", name);
            Ok(())
        });
    }
}

/// No job waits for ever for a job that waits for it, and what was accrued is no more than there was.
#[test]
fn circles_are_broken_and_the_others_go_on() {
    let handlers = weighted(0.5, (1i64..3, 0u64..9));
    let cycles = std::cell::Cell::new(0);
    for name in ONE_CPU {
        for_all(100, (sharing(), handlers.clone()), |(mut tasks, handler)| {
            let handler = handler.map(|(runtime, utility)| Handler {
                runtime: ms(runtime),
                deadline: None,
                utility: utility * UNIT,
            });
            // Three jobs of each, that have all the time in the world.
            for (index, task) in tasks.iter_mut().enumerate() {
                let instants = (0..3).map(|n| ms(index as i64 + n)).collect();
                (task.arrival, task.deadline, task.handler) = (Arrival::Listed { instants }, Some(ms(10_000)), handler);
            }
            let count = 3 * tasks.len() as u64;
            let told = tell(System { ..system(1, name, tasks) }, 1_000);
            let totals = told.engine.totals();
            // Each cycle costs one job, and all others are done.
            prop_assert_eq!((totals.released, totals.aborted), (count, told.engine.deadlocks()), "{}", name);
            prop_assert_eq!(totals.met, count - totals.aborted, "{}", name);
            prop_assert!(totals.utility <= totals.utility_total);
            cycles.set(cycles.get() + told.engine.deadlocks());
            Ok(())
        });
    }
    assert!(cycles.get() > 0, "no case had a cycle");
}

/// Jobs that are all there at 0: runtime, deadline, utility in units.
fn together(utilities: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<(i64, i64, u64)>> {
    vec((1i64..9, 1i64..25, utilities), 1..8)
}

/// The best sum of `value` over sets of jobs that can all be in time, found by trying each of them: what can be done at all can be
/// done in the order of deadlines.
fn best(jobs: &[(i64, i64, u64)], value: impl Fn(u64) -> u64) -> u64 {
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|job| job.1);
    let sets = 0..1u32 << jobs.len();
    let worth = |set: u32| {
        let (mut end, mut sum) = (0, 0);
        for (_, (runtime, deadline, utility)) in jobs.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1) {
            end += runtime;
            sum += value(*utility);
            if end > *deadline {
                return 0;
            }
        }
        sum
    };
    sets.map(worth).max().expect("the empty set is one")
}

fn done_together(name: &str, late: Late, jobs: &[(i64, i64, u64)]) -> Told {
    let task = |(runtime, deadline, utility): &(i64, i64, u64)| worth(*utility, once(0, *runtime, *deadline));
    tell(System { late, ..system(1, name, jobs.iter().map(task).collect()) }, 100)
}

#[test]
fn as_many_equal_simultaneous_jobs_as_possible_are_met() {
    for name in ["dasa-nd", "dasa"] {
        for_all(400, (together(1u64..50), lates()), |(mut jobs, late)| {
            let utility = jobs[0].2;
            jobs.iter_mut().for_each(|job| job.2 = utility);
            let met = done_together(name, late, &jobs).engine.totals().met;
            prop_assert_eq!(met, best(&jobs, |_| 1), "{}", name);
            Ok(())
        });
    }
}

/// Each is worth more, and denser, than all lesser ones together.
#[test]
fn the_best_of_simultaneous_jobs_are_met() {
    for name in ["dasa-nd", "dasa"] {
        for_all(400, (together(Just(0)).prop_shuffle(), lates()), |(mut jobs, late)| {
            jobs.iter_mut().enumerate().for_each(|(index, job)| job.2 = 16u64.pow(index as u32));
            let told = done_together(name, late, &jobs);
            prop_assert_eq!(accrued(&told).0, u128::from(best(&jobs, |utility| utility)), "{}", name);
            Ok(())
        });
    }
}

/// On one CPU no policy accrues more than the best that a search over all sets finds, and shedding is worth while.
#[test]
fn no_policy_beats_the_search_and_dasa_beats_edf_in_sum() {
    let sums = std::cell::Cell::new([0u128; 2]);
    for_all(300, together(1u64..50), |jobs| {
        let most = u128::from(best(&jobs, |utility| utility));
        for name in ONE_CPU {
            let earned = accrued(&done_together(name, Late::Abort, &jobs)).0;
            prop_assert!(earned <= most, "{name}: {earned} of {most}");
        }
        let earned = |name| accrued(&done_together(name, Late::Abort, &jobs)).0;
        let [edf, dasa] = sums.get();
        sums.set([edf + earned("edf"), dasa + earned("dasa")]);
        Ok(())
    });
    let [edf, dasa] = sums.get();
    assert!(dasa > edf, "dasa earned {dasa}, edf {edf}");
}
