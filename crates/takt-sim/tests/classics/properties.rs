//! Properties of every set of tasks.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use takt_core::model::Scope;
use takt_core::registry::REGISTRY;
use takt_testing::for_all;

use takt_core::utility::Utility;

/// Tasks with deadlines at the ends of their periods that load one CPU up to some part, often to the brim.
fn feasible() -> impl Strategy<Value = Vec<Task>> {
    let periods = select(&[2i64, 3, 4, 5, 6, 8, 10, 12, 20, 24, 30][..]);
    let task = (periods, 0i64..20, 1u64..100, any::<bool>());
    let load = prop_oneof![3 => Just(1000u64), 1 => 300u64..1000];
    (vec(task, 1..8), load).prop_map(|(drawn, load)| {
        let weights: u64 = drawn.iter().map(|d| d.2).sum();
        let task = |(period, offset, weight, sporadic): (i64, i64, u64, bool)| {
            let (offset, period) = (ms(offset), ms(period));
            // Rounded down, so the utilisations add up to the load at most.
            let runtime =
                Span::from_ns((period.ns() as u64 * weight * load / weights / 1000) as i64).max(Span::from_ns(1));
            let spread = ms(3);
            let arrival = if sporadic {
                Arrival::Sporadic { offset, period, spread }
            } else {
                Arrival::Periodic { offset, period }
            };
            Task { arrival, runtime: Some(runtime), deadline: Some(period), ..Task::default() }
        };
        drawn.into_iter().map(task).collect()
    })
}

/// How much later than its deadline the latest completion is; jobs that do not end within the run count with its end.
fn most_late(told: &Told, end: Time) -> Span {
    let mut open = std::collections::BTreeMap::new();
    let mut most = Span::from_ns(i64::MIN);
    for record in &told.records {
        match record.kind {
            RecordKind::Release { task, job, deadline: Some(deadline) } => drop(open.insert((task, job), deadline)),
            RecordKind::Finish { task, job, .. } => {
                let deadline = open.remove(&(task, job)).expect("it was released");
                most = most.max(record.at - deadline);
            }
            _ => {}
        }
    }
    open.values().map(|deadline| end - *deadline).fold(most, Span::max)
}

#[test]
fn edf_on_one_cpu_meets_every_deadline_of_a_set_that_fits() {
    for_all(300, feasible(), |tasks| {
        let told = tell(system(1, "edf", tasks), 400);
        prop_assert_eq!(told.missed(), "");
        prop_assert!(told.engine.totals().met > 0);
        Ok(())
    });
}

/// The bound of `llf`'s manual page. Let a job be late by x at t0, that is, its latest start is t0 - x. Go back to the last
/// instant s at which nothing ran or a job whose latest start was beyond t0 - x + h (h is the threshold). What waited then had
/// a latest start beyond t0 - x, so the late job came after s. From s on only jobs with a latest start up to t0 - x + h run. The
/// demand of those that came after s fits between s and their last deadline; the others, of at most n - 2 other tasks, were
/// within h of that limit and so ran for at most h each. Together x is at most h + (n - 2) h.
#[test]
fn least_laxity_on_one_cpu_is_late_by_the_threshold_for_each_other_task_at_most() {
    let thresholds = select(&[1_000, 50_000, 200_000, 1_000_000, 3_000_000][..]);
    for_all(400, (feasible(), thresholds), |(tasks, threshold)| {
        let others = tasks.len() as i64 - 1;
        let described = System { policy: policy("llf", &[Some(threshold)]), ..system(1, "llf", tasks) };
        let late = most_late(&tell(described, 400), Time::ZERO + ms(400));
        prop_assert!(late <= Span::from_ns(threshold) * others, "late by {late}");
        Ok(())
    });
}

/// With so much to spare nothing is late.
#[test]
fn least_laxity_on_one_cpu_meets_deadlines_that_spare_the_thresholds() {
    for_all(200, feasible(), |mut tasks| {
        let threshold = Span::from_us(100);
        let spare = threshold * (tasks.len() as i64 - 1);
        // A set that is schedulable by its deadlines is schedulable by later ones.
        tasks.iter_mut().for_each(|t| t.deadline = t.deadline.map(|d| d + spare));
        let described = System { policy: policy("llf", &[Some(threshold.ns())]), ..system(1, "llf", tasks) };
        prop_assert_eq!(tell(described, 400).missed(), "");
        Ok(())
    });
}

/// Steps that run, sleep and lock, nested or one after the other.
fn steps(sleeps: bool) -> impl Strategy<Value = Vec<Step>> {
    let section = (0u16..3, 0u16..3, 1i64..4, any::<bool>(), 0i64..3).prop_map(move |(r, s, length, nested, sleep)| {
        let (r, s) = (ResourceId(r), ResourceId(s));
        let mut steps = vec![run(length), Step::Lock(r), run(length)];
        match nested && r != s {
            true => steps.extend([Step::Lock(s), run(1), Step::Unlock(s), Step::Unlock(r)]),
            false => steps.push(Step::Unlock(r)),
        }
        if sleeps && sleep > 0 {
            steps.extend([Step::Sleep(ms(sleep)), Step::Yield]);
        }
        steps
    });
    vec(section, 1..3).prop_map(|sections| sections.concat())
}

fn sharing_tasks(sleeps: bool) -> impl Strategy<Value = Vec<Task>> {
    let task = (steps(sleeps), 0i64..12, 15i64..60, 0u32..4);
    let task = task.prop_map(|(steps, offset, period, priority)| Task {
        arrival: Arrival::Periodic { offset: ms(offset), period: ms(period) },
        deadline: Some(ms(period)),
        runtime: Some(ms(5)),
        utility: Some(Utility::DEFAULT),
        program: Program::doing(steps),
        priority,
        ..Task::default()
    });
    vec(task, 2..6)
}

/// The purpose of the immediate ceiling, on one CPU and where no job sleeps with a locked resource.
#[test]
fn under_the_ceiling_no_job_is_refused_a_resource() {
    for name in ["fp", "rm", "dm", "edf", "llf", "fifo", "rr", "np-edf"] {
        for_all(100, sharing_tasks(false), |tasks| {
            let told = tell(System { locking: Locking::Ceiling, ..system(1, name, tasks) }, 300);
            let refused = told.records.iter().find(|r| matches!(r.kind, RecordKind::Lock { granted: false, .. }));
            prop_assert_eq!(refused, None, "{}", name);
            prop_assert_eq!(told.engine.deadlocks(), 0, "{}", name);
            Ok(())
        });
    }
}

/// A cluster of all CPUs is global, clusters of one CPU are partitions: the same records.
#[test]
fn the_largest_and_the_smallest_clusters_are_the_other_scopes() {
    let clustered = REGISTRY.iter().filter(|entry| entry.profile.scopes.contains(&Scope::Clustered));
    for entry in clustered {
        let lockings = select(&[Locking::Fifo, Locking::Inheritance, Locking::Ceiling][..]);
        let case = (sharing_tasks(true), 1usize..4, lockings, any::<bool>(), 0usize..6);
        for_all(40, case, |(tasks, cpus, locking, bound, placement)| {
            let records = |scope, cluster| {
                let placement = takt_core::model::Placement::ALL[placement].1;
                let policy = PolicySpec { cluster, placement, ..PolicySpec::new(&entry.profile, scope) };
                let mut described = System { policy, locking, ..system(cpus, "g-edf", tasks.clone()) };
                if bound {
                    described.tasks[0].affinity = CpuSet::single(0);
                }
                tell(described, 200).records
            };
            prop_assert!(
                records(Scope::Global, 1) == records(Scope::Clustered, cpus as u16),
                "{} global",
                entry.profile.name
            );
            prop_assert!(
                records(Scope::Partitioned, 1) == records(Scope::Clustered, 1),
                "{} partitioned",
                entry.profile.name
            );
            Ok(())
        });
    }
}

/// FIFO starts jobs in the order of their arrival and lets each run to its end.
#[test]
fn fifo_starts_in_the_order_of_arrival_and_never_preempts() {
    let jobs = vec((0i64..30, 1i64..6), 1..12);
    for_all(300, (jobs, 1usize..4), |(jobs, cpus)| {
        let tasks = jobs.iter().map(|(release, runtime)| once(*release, *runtime, 1_000));
        let told = tell(system(cpus, "g-fifo", tasks.collect()), 200);
        let starts = told.records.iter().filter_map(|r| match r.kind {
            RecordKind::Start { task, .. } => Some((jobs[task.index()].0, task)),
            _ => None,
        });
        // On several CPUs those that start at one instant are in the order of their arrival, too.
        prop_assert!(starts.clone().is_sorted());
        prop_assert_eq!(starts.count(), jobs.len());
        Ok(())
    });
}
