//! Several CPUs: schedules by hand, and what is known of gMUA, NG-GUA and G-GUA.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use takt_analysis::generate::{Deadlines, Generator, Periods, Utilisations};
use takt_core::engine::Engine;
use takt_core::model::PolicySpec;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::rng;
use takt_core::scenario::Scenario;
use takt_core::stats::Responses;
use takt_core::time::{Span, Time};
use takt_testing::for_all;

const ACCRUING: [&str; 3] = ["gmua", "ng-gua", "g-gua"];

/// Late jobs are aborted at their deadline.
fn aborting(cpus: usize, name: &str, tasks: Vec<Task>) -> System {
    System { late: Late::Abort, ..system(cpus, name, tasks) }
}

#[test]
fn an_underload_is_met_by_all() {
    let tasks =
        || vec![worth(1, once(0, 2, 4)), worth(10, once(0, 2, 5)), worth(5, once(0, 2, 6)), worth(2, once(0, 3, 9))];
    for name in ["g-edf", "gmua", "ng-gua"] {
        expect(&tell(aborting(2, name, tasks()), 20), "a0-2 c2-4\nb0-2 d2-5", "");
    }
    // The densest is placed first: a comes last, before d on the less loaded CPU.
    expect(&tell(aborting(2, "g-gua", tasks()), 20), "b0-2 c2-4\na0-2 d2-5", "");
}

fn overload() -> Vec<Task> {
    vec![worth(4, once(0, 4, 4)), worth(20, once(0, 4, 5)), worth(16, once(0, 4, 5)), worth(2, once(0, 2, 10))]
}

#[test]
fn an_overload_costs_what_is_worth_least() {
    let edf = tell(system(2, "g-edf", overload()), 20);
    expect(&edf, "a0-4 c4-8\nb0-4 d4-6", "c");
    assert_eq!(accrued(&edf), (26, 42));
    for name in ["gmua", "ng-gua"] {
        let told = tell(aborting(2, name, overload()), 20);
        expect(&told, "c0-4 d4-6\nb0-4", "a");
        assert_eq!(accrued(&told), (38, 42), "{name}");
    }
    let greedy = tell(aborting(2, "g-gua", overload()), 20);
    expect(&greedy, "b0-4 d4-6\nc0-4", "a");
    assert_eq!(accrued(&greedy), (38, 42));
}

#[test]
fn the_greedy_one_misses_what_global_edf_meets() {
    // At 0 c is the densest by far and takes a CPU that b would need.
    let late = [worth(10, once(1, 1, 1)), worth(10, once(1, 1, 1))];
    let first = [worth(10, once(0, 1, 2)), worth(9, once(0, 1, 2)), worth(300, once(0, 3, 10))];
    let tasks = || [&first[..], &late[..]].concat();
    for name in ["g-edf", "gmua", "ng-gua"] {
        expect(&tell(aborting(2, name, tasks()), 20), "a0-1 d1-2 c2-5\nb0-1 e1-2", "");
    }
    let greedy = tell(aborting(2, "g-gua", tasks()), 20);
    assert_eq!((greedy.missed(), greedy.engine.totals().met), ("b".to_owned(), 4));
}

/// H holds what W wants from the start on, when it has 2 ms to go; I and K compete with both. All is a millisecond later than in
/// the example, so that H is there first.
fn dependent() -> Vec<Task> {
    let (lock, unlock) = (Step::Lock(ResourceId(0)), Step::Unlock(ResourceId(0)));
    vec![
        worth(1, Task { program: Program::doing(vec![lock, run(3), unlock]), ..once(0, 3, 21) }),
        worth(20, Task { program: Program::doing(vec![lock, run(2), unlock]), ..once(1, 2, 5) }),
        worth(6, once(1, 3, 6)),
        worth(2, once(1, 4, 8)),
    ]
}

#[test]
fn a_holder_counts_with_its_waiters() {
    // W asks at 1 and waits. H, that need not run before 21, is then the densest and the most urgent.
    for name in ["gmua", "ng-gua", "g-gua"] {
        let told = tell(aborting(2, name, dependent()), 30);
        assert_eq!(told.missed(), "", "{name}\n{}", told.chart());
    }
    expect(&tell(aborting(2, "ng-gua", dependent()), 30), "a0-3 b3-5\nc1-4 d4-8", "");
    let alone = System { locking: Locking::Fifo, ..system(2, "g-edf", dependent()) };
    expect(&tell(alone, 30), "a0-1 d1-5 b6-8\nc1-4 a4-6", "b");
}

/// B waits for A and C for B: A is worth what all three are, and D, though denser than A alone, is left out for it.
#[test]
fn a_chain_counts_as_a_whole() {
    let [r, s] = [0, 1].map(ResourceId);
    let held = |held, length| vec![Step::Lock(held), run(length), Step::Unlock(held)];
    let nested = vec![Step::Lock(s), run(1), Step::Lock(r), run(1), Step::Unlock(r), Step::Unlock(s)];
    let tasks = || {
        vec![
            worth(1, Task { program: Program::doing(held(r, 4)), ..once(0, 4, 50) }),
            worth(1, Task { program: Program::doing(nested.clone()), ..once(1, 2, 40) }),
            worth(30, Task { program: Program::doing(held(s, 2)), ..once(3, 2, 5) }),
            worth(10, once(3, 5, 6)),
        ]
    };
    for name in ["ng-gua", "g-gua"] {
        expect(&tell(aborting(1, name, tasks()), 50), "a0-1 b1-2 a2-5 b5-6 c6-8 d8-9x", "d");
    }
}

#[test]
fn a_hopeless_waiter_no_longer_counts() {
    let held = |length| vec![Step::Lock(ResourceId(0)), run(length), Step::Unlock(ResourceId(0))];
    let tasks = || {
        vec![
            worth(1, Task { program: Program::doing(held(6)), ..once(0, 6, 100) }),
            worth(100, Task { program: Program::doing(held(2)), ..once(1, 2, 3) }),
            worth(2, once(5, 3, 4)),
        ]
    };
    for name in ["ng-gua", "g-gua"] {
        // At 4 b has missed its deadline: a, for which it waits, is then urgent for no job.
        expect(&tell(system(1, name, tasks()), 50), "a0-5 c5-8 a8-9 b9-11", "b");
    }
}

#[test]
fn the_least_dense_job_of_a_deadlock_is_aborted() {
    let crossed = |first: u16, second: u16| {
        let [first, second] = [first, second].map(ResourceId);
        vec![Step::Lock(first), run(1), Step::Lock(second), run(2), Step::Unlock(second), Step::Unlock(first)]
    };
    // At 1 each holds what the other wants: a is worth 4 for 2 ms more, b 4 for 4 ms by its declaration.
    let tasks = || {
        vec![
            worth(4, Task { program: Program::doing(crossed(0, 1)), ..once(0, 3, 100) }),
            worth(4, Task { program: Program::doing(crossed(1, 0)), ..once(0, 5, 100) }),
        ]
    };
    for name in ACCRUING {
        let told = tell(aborting(2, name, tasks()), 20);
        expect(&told, "a0-3\nb0-1x", "b");
        assert_eq!(accrued(&told), (4, 8), "{name}");
    }
}

/// Seven jobs at once that global EDF just meets: by what jobs still need no CPU is overloaded, by declarations one seems to be.
#[test]
fn a_load_by_declarations_is_a_false_overload() {
    let figures =
        [(4, 8, 6), (3, 10, 18), (1, 6, 6), (3, 8, 13), (6, 27, 5), (6, 6, 11), (4, 16, 19)].map(|(c, d, u)| (c, d, u));
    let tasks = || figures.iter().map(|&(c, d, u)| worth(u, once(0, c, d))).collect::<Vec<_>>();
    let edf = tell(aborting(2, "g-edf", tasks()), 40);
    let declared = System { policy: policy("ng-gua", &[Some(1)]), ..aborting(2, "ng-gua", tasks()) };
    let remaining = tell(aborting(2, "ng-gua", tasks()), 40);
    assert_eq!((edf.missed(), remaining.missed()), (String::new(), String::new()));
    assert_eq!(edf.records, remaining.records);
    assert_ne!(tell(declared, 40).missed(), "");
}

/// A plain name is the global form; the clustered one has its prefix.
#[test]
fn names_are_those_of_the_field() {
    for name in ACCRUING {
        let clustered = format!("c-{name}");
        for (name, prefix) in [(name, ""), (clustered.as_str(), "c-")] {
            assert_eq!(PolicySpec::from_name(name).unwrap().prefix(), prefix);
        }
        assert_eq!(PolicySpec::from_name(&format!("p-{name}")), None);
    }
}

/// Jobs by release, runtime, relative deadline and utility, all small, so that ties are common.
fn jobs() -> impl Strategy<Value = Vec<(i64, i64, i64, u64)>> {
    let job = (0i64..8, 1i64..6, 0i64..10, 1u64..13);
    vec(job.prop_map(|(release, runtime, laxity, utility)| (release, runtime, runtime + laxity - 1, utility)), 1..10)
        .prop_map(|mut jobs| {
            jobs.iter_mut().for_each(|job| job.2 = job.2.max(1));
            jobs
        })
}

fn tasks_of(jobs: &[(i64, i64, i64, u64)]) -> Vec<Task> {
    jobs.iter().map(|&(release, runtime, deadline, utility)| worth(utility, once(release, runtime, deadline))).collect()
}

/// Periodic tasks that load so many CPUs to some part, and single jobs.
fn mixed() -> impl Strategy<Value = (usize, Vec<Task>)> {
    let task = (2i64..16, 0i64..10, 5u64..95, 1u64..50, 0i64..3);
    (1usize..4, vec(task, 1..8), jobs(), 200i64..1100).prop_map(|(cpus, drawn, jobs, load)| {
        let weights: i64 = drawn.iter().map(|d| d.2 as i64).sum();
        let periodic = drawn.into_iter().map(|(period, offset, weight, utility, shorter)| {
            let part = cpus as i64 * 1000 * load * weight as i64 / weights;
            let runtime = Span::from_ns((period * part).min(ms(period).ns()).max(1));
            Task {
                arrival: Arrival::Periodic { offset: ms(offset), period: ms(period) },
                runtime: Some(runtime),
                ..worth(utility, once(0, 1, period - shorter.min(period - 1)))
            }
        });
        let single = jobs.into_iter().filter(|job| job.0 % 3 == 0);
        let single: Vec<_> = single.map(|(release, _, deadline, utility)| (release, 1, deadline, utility)).collect();
        (cpus, periodic.chain(tasks_of(&single)).collect())
    })
}

fn records(system: System) -> Vec<Record> {
    tell(system, 60).records
}

#[test]
fn non_greedy_policies_follow_global_edf_while_it_meets() {
    // Equal deadlines included: both take the earlier release first, then the lower task.
    let (met, all) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    for_all(400, mixed(), |(cpus, tasks)| {
        all.set(all.get() + 1);
        // So long that the jobs of the runs below have all passed their deadlines.
        if !tell(system(cpus, "g-edf", tasks.clone()), 80).missed().is_empty() {
            return Ok(());
        }
        met.set(met.get() + 1);
        let edf = records(system(cpus, "g-edf", tasks.clone()));
        for name in ["ng-gua", "gmua"] {
            for late in [Late::Continue, Late::Abort, Late::AbortAtEvent] {
                let same = records(System { late, ..system(cpus, name, tasks.clone()) }) == edf;
                prop_assert!(same, "{} {:?}", name, late);
            }
        }
        Ok(())
    });
    assert!(met.get() * 4 > all.get(), "only {} of {} sets are met by global EDF", met.get(), all.get());
}

#[test]
fn without_dependencies_some_policies_are_one() {
    for_all(200, mixed(), |(cpus, tasks)| {
        for late in [Late::Continue, Late::Abort, Late::AbortAtEvent] {
            let run = |cpus, name| records(System { late, ..system(cpus, name, tasks.clone()) });
            prop_assert!(run(cpus, "gmua") == run(cpus, "ng-gua"));
            prop_assert!(run(1, "g-gua") == run(1, "dasa-nd"));
            // Where late jobs continue, LBESA sheds others for them.
            prop_assert!(late == Late::Continue || run(1, "ng-gua") == run(1, "lbesa"));
        }
        Ok(())
    });
}

#[test]
fn only_ratios_of_utilities_matter() {
    for_all(150, (mixed(), 2u64..1000), |((cpus, tasks), factor)| {
        let mut scaled = tasks.clone();
        for task in &mut scaled {
            let Some(Utility::Step(height)) = &mut task.utility else { unreachable!() };
            *height *= factor;
        }
        for name in ACCRUING {
            prop_assert!(
                records(aborting(cpus, name, tasks.clone())) == records(aborting(cpus, name, scaled.clone())),
                "{}",
                name
            );
        }
        Ok(())
    });
}

/// A job of the model below.
#[derive(Clone, Copy)]
struct Job {
    deadline: i64,
    left: i64,
    utility: i64,
}

fn denser(a: &Job, b: &Job) -> std::cmp::Ordering {
    (b.utility * a.left).cmp(&(a.utility * b.left))
}

fn feasible(list: &[usize], jobs: &[Job], now: i64) -> bool {
    let mut end = now;
    list.iter().all(|&j| {
        end += jobs[j].left;
        end <= jobs[j].deadline
    })
}

/// The job of `present` (by release, then number) that runs now, as the literature puts it down: sorts are stable.
fn choose(name: &str, present: &[usize], jobs: &[Job], now: i64, cpus: usize) -> Vec<usize> {
    let mut by_deadline = present.to_vec();
    by_deadline.sort_by_key(|&j| jobs[j].deadline);
    let mut by_density = present.to_vec();
    by_density.sort_by(|&a, &b| denser(&jobs[a], &jobs[b]));
    let mut lists = vec![vec![]; cpus];
    let load = |list: &Vec<usize>| list.iter().map(|&j| jobs[j].left).sum::<i64>();
    match name {
        "g-edf" => by_deadline.iter().take(cpus).enumerate().for_each(|(k, &j)| lists[k].push(j)),
        "ng-gua" => {
            for &j in &by_deadline {
                let k = (0..cpus).min_by_key(|&k| load(&lists[k])).unwrap();
                lists[k].push(j);
            }
            for list in &mut lists {
                while !feasible(list, jobs, now) && list.len() > 1 {
                    let worst = *by_density.iter().rev().find(|j| list.contains(j)).unwrap();
                    list.retain(|&j| j != worst);
                }
            }
        }
        "g-gua" => {
            for &j in &by_density {
                let mut order: Vec<usize> = (0..cpus).collect();
                order.sort_by_key(|&k| load(&lists[k]));
                for k in order {
                    let mut with = lists[k].clone();
                    with.insert(with.partition_point(|&other| jobs[other].deadline <= jobs[j].deadline), j);
                    if feasible(&with, jobs, now) {
                        lists[k] = with;
                        break;
                    }
                }
            }
        }
        other => panic!("{other}"),
    }
    let mut chosen: Vec<usize> = lists.iter().filter_map(|list| list.first().copied()).collect();
    let others: Vec<usize> = by_density.into_iter().filter(|j| !chosen.contains(j)).collect();
    chosen.extend(others);
    chosen.truncate(cpus);
    chosen
}

/// When each job completes, if it does before its deadline: decided again at each release, completion and abort.
fn model(name: &str, described: &[(i64, i64, i64, u64)], cpus: usize) -> Vec<Option<i64>> {
    let job = |&(release, left, deadline, utility): &(i64, i64, i64, u64)| Job {
        deadline: release + deadline,
        left,
        utility: utility as i64,
    };
    let mut jobs: Vec<Job> = described.iter().map(job).collect();
    let mut ends = vec![None; jobs.len()];
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&j| described[j].0);
    let mut now = 0;
    loop {
        let open = |j: &usize| ends[*j].is_none() && jobs[*j].deadline > now;
        let present: Vec<usize> = order.iter().copied().filter(|j| described[*j].0 <= now && open(j)).collect();
        let chosen = choose(name, &present, &jobs, now, cpus);
        let releases = described.iter().map(|job| job.0).filter(|release| *release > now);
        let deadlines = present.iter().map(|&j| jobs[j].deadline);
        let completions = chosen.iter().map(|&j| now + jobs[j].left);
        let Some(next) = releases.chain(deadlines).chain(completions).min() else { return ends };
        for j in chosen {
            jobs[j].left -= next - now;
            if jobs[j].left == 0 {
                ends[j] = Some(next);
            }
        }
        now = next;
    }
}

#[test]
fn completions_are_those_of_the_pseudo_code() {
    for_all(1000, (jobs(), 1usize..4), |(jobs, cpus)| {
        for name in ["g-edf", "ng-gua", "g-gua"] {
            let mut ends = vec![None; jobs.len()];
            for record in records(aborting(cpus, name, tasks_of(&jobs))) {
                if let RecordKind::Finish { task, outcome: Outcome::Completed, .. } = record.kind {
                    ends[task.index()] = Some((record.at - Time::ZERO).ns() / 1_000_000);
                }
            }
            prop_assert_eq!(ends, model(name, &jobs, cpus), "{} on {} CPUs", name, cpus);
        }
        Ok(())
    });
}

/// Random periodic sets that want 1.1 to 1.7 of their CPUs, with utilities between 1 and 100: the part of the utility that is
/// accrued, on average, is what the policies are for. `TAKT_CASES` is the number of sets.
#[test]
fn under_overload_the_greedy_one_accrues_most_and_global_edf_least() {
    const END: Span = Span::from_ms(600);
    let sets = std::env::var("TAKT_CASES").map_or(150, |n| n.parse().expect("a number"));
    let mut sums = [0.0; 4];
    for set in 0..sets {
        let cpus = 3 + (set % 2) as usize;
        let total = cpus as u64 * (1_100_000 + 100_000 * (set / 2 % 7));
        let generator = Generator {
            utilisations: Utilisations::RandFixedSum { tasks: 3 * cpus },
            periods: Periods::LogUniform(10_000, 200_000),
            deadlines: Deadlines::Implicit,
        };
        let drawn = generator.set(total, 1, set).unwrap();
        let tasks: Vec<Task> = drawn
            .iter()
            .enumerate()
            .map(|(i, task)| {
                let us = |us: u64| Span::from_us(us as i64);
                Task {
                    arrival: Arrival::Periodic { offset: Span::ZERO, period: us(task.period) },
                    deadline: Some(us(task.deadline)),
                    runtime: Some(us(task.runtime)),
                    ..worth(1 + rng::draw_up_to(99, 2, set, i as u64), once(0, 1, 1))
                }
            })
            .collect();
        let runs = [("g-gua", Late::Abort), ("ng-gua", Late::Abort), ("g-edf", Late::Abort), ("g-edf", Late::Continue)];
        for (sum, (name, late)) in sums.iter_mut().zip(runs) {
            let horizon = Some(Time::ZERO + END);
            let described = System { late, horizon, ..system(cpus, name, tasks.clone()) };
            let mut engine = Engine::new(described).unwrap();
            // Keeps no records.
            let mut sink = Responses::new(tasks.len());
            takt_sim::simulate(&mut engine, &Scenario::default(), END, &mut sink, |_| ());
            let totals = engine.totals();
            *sum += totals.utility as f64 / totals.utility_total as f64 / sets as f64;
        }
    }
    println!("G-GUA, NG-GUA, G-EDF with aborts, G-EDF: {sums:.3?}");
    assert!(sums.is_sorted_by(|a, b| a > b), "{sums:?}");
}
