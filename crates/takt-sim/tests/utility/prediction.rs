//! A load sweep on four CPUs that was predicted before Takt had these policies.
//!
//! The task set is `12t_nl_g` of ChronOS's test application (`chronos-project` by vadixidav on GitHub), a probable original of that
//! in Dellinger, Garyali, Ravindran, "ChronOS Linux", DAC 2011. At a load of 100 % it wants one CPU; the load is in percent of
//! that. It runs for 60 s at no cost and by that application's rules: a job needs its usage times the load, the successor of a late
//! or aborted job is released at its end, and jobs with deadlines beyond the end do not count. Policies that go by utility abort
//! late jobs.

use super::*;
use takt_core::cpus::CpuSet;
use takt_core::model::Placement;
use takt_core::time::{Span, Time};

/// Period and usage at 100 %, both in microseconds, and utility.
const TASKS: [(i64, i64, u64); 12] = [
    (400_000, 58_195, 285),
    (750_000, 53_963, 68),
    (1_000_000, 206_330, 628),
    (1_200_000, 53_968, 818),
    (1_500_000, 117_449, 562),
    (2_400_000, 221_143, 1238),
    (3_000_000, 290_428, 816),
    (4_000_000, 83_420, 3487),
    (7_500_000, 380_917, 4349),
    (10_000_000, 613_700, 5125),
    (15_000_000, 936_422, 4890),
    (20_000_000, 1_371_302, 4191),
];

const CPUS: usize = 4;
const RUN: Span = Span::from_secs(60);
const LOADS: [i64; 5] = [300, 400, 420, 500, 700];

/// Jobs met of a thousand, by load, as predicted by a model that is independent of Takt.
const PREDICTED: [(&str, [u64; 5]); 7] = [
    ("g-edf", [1000, 987, 696, 176, 15]),
    ("g-np-edf", [985, 633, 336, 98, 37]),
    ("g-fifo", [920, 273, 167, 59, 30]),
    ("p-edf", [1000, 826, 588, 226, 15]),
    ("p-dasa-nd", [1000, 963, 937, 777, 334]),
    ("ng-gua", [1000, 987, 944, 813, 367]),
    ("g-gua", [1000, 996, 987, 868, 531]),
];

/// Jobs that are counted.
fn counted() -> u64 {
    TASKS.iter().map(|task| (RUN.ns() / 1000 / task.0) as u64).sum()
}

fn thousandths(met: u64) -> u64 {
    (met * 1000 + counted() / 2) / counted()
}

/// Jobs met by a policy; `keeps` says what those without preemption do about the successor of a late job.
fn met(name: &str, keeps: bool, load: i64) -> u64 {
    let task = |&(period, usage, utility): &(i64, i64, u64)| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_us(period) },
        deadline: Some(Span::from_us(period)),
        runtime: Some(Span::from_us(usage * load / 100)),
        ..worth(utility, Task::default())
    };
    let runs_on = ["g-np-edf", "g-fifo"].contains(&name);
    let successor = [Some(i64::from(keeps))];
    let mut policy = policy(name, if runs_on { &successor } else { &[] });
    policy.placement = Placement::from_name("wfd").unwrap();
    let accruing = ["p-dasa-nd", "ng-gua", "g-gua"].contains(&name);
    let described = System {
        tasks: TASKS.iter().map(task).collect(),
        late: if accruing { Late::Abort } else { Late::Continue },
        backlog: Backlog::Chronos,
        horizon: Some(Time::ZERO + RUN),
        ..System::new(CpuSet::first(CPUS), policy)
    };
    let totals = tell(described, RUN.ns() / 1_000_000).engine.totals();
    assert_eq!(totals.released, counted());
    totals.met
}

#[test]
fn policies_meet_as_many_jobs_as_predicted() {
    for (name, predicted) in PREDICTED {
        assert_eq!(LOADS.map(|load| thousandths(met(name, true, load))), predicted, "{name}");
    }
}

/// In order of load: who meets more than whom.
#[test]
fn utility_accrual_pays_under_overload() {
    for load in LOADS.into_iter().filter(|load| *load > 400) {
        let order = ["g-gua", "ng-gua", "p-dasa-nd", "g-edf", "g-np-edf"].map(|name| met(name, false, load));
        assert!(order.is_sorted_by(|a, b| a > b), "{load} %: {order:?}");
    }
}

/// Jobs met by G-FIFO or G-NP-EDF in another model: a job runs to its end, then a free CPU takes the job that is first by rank,
/// begin and task. `keeps` says what becomes of a successor that begins because its predecessor was late: it continues where that
/// ran, or it queues like others.
fn run_to_the_end(fifo: bool, keeps: bool, load: i64) -> u64 {
    let end = RUN.ns() / 1000;
    let need = |task: usize| TASKS[task].1 * load / 100;
    let deadline = |task: usize, job: i64| (job + 1) * TASKS[task].0;
    let mut cpus: [Option<(i64, usize, i64)>; CPUS] = [None; CPUS];
    let mut releases: std::collections::BTreeSet<(i64, usize, i64)> = (0..TASKS.len()).map(|t| (0, t, 0)).collect();
    let mut ready = std::collections::BTreeSet::new();
    let mut met = 0;
    loop {
        let next = releases.first().map(|release| release.0).into_iter();
        let now = next.chain(cpus.iter().flatten().map(|cpu| cpu.0)).min().expect("there is always another job");
        if now > end {
            return met;
        }
        for cpu in &mut cpus {
            let Some((_, task, job)) = cpu.take_if(|(end, ..)| *end == now) else { continue };
            let due = deadline(task, job);
            met += u64::from(now <= due && due <= end);
            match (now > due, keeps) {
                (true, true) => *cpu = Some((now + need(task), task, job + 1)),
                (late, _) => drop(releases.insert((if late { now } else { due }, task, job + 1))),
            }
        }
        while let Some((_, task, job)) = releases.first().copied().filter(|release| release.0 == now) {
            releases.pop_first();
            ready.insert((if fifo { 0 } else { deadline(task, job) }, now, task, job));
        }
        for cpu in cpus.iter_mut().filter(|cpu| cpu.is_none()) {
            *cpu = ready.pop_first().map(|(_, _, task, job)| (now + need(task), task, job));
        }
    }
}

/// Without preemption it matters what becomes of the task of a late job. In the prediction it keeps its CPU for the next one. In
/// ChronOS a task that begins a segment has no CPU (`begin_rt_seg` in `chronos/chronos_seg.c`, ChronOS 3.0) and waits for its turn
/// with the others, which is what Takt does by default. With either rule every number of jobs is the other model's.
#[test]
fn without_preemption_both_rules_for_late_tasks_are_those_of_another_model() {
    for (name, fifo) in [("g-np-edf", false), ("g-fifo", true)] {
        for keeps in [false, true] {
            let other = LOADS.map(|load| run_to_the_end(fifo, keeps, load));
            assert_eq!(LOADS.map(|load| met(name, keeps, load)), other, "{name}, keeps: {keeps}");
        }
    }
}
