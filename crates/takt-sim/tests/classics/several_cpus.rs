//! Several CPUs: global, partitioned and clustered schedules by hand.

use super::*;
use takt_core::model::Placement;
use takt_core::policies::scope;
use takt_core::policy::{Build, Registry};

#[test]
fn a_light_load_is_met_by_the_earliest_deadlines() {
    let tasks = vec![once(0, 2, 4), once(0, 2, 5), once(0, 2, 6), once(0, 3, 9)];
    expect(&tell(system(2, "g-edf", tasks), 20), "a0-2 c2-4\nb0-2 d2-5", "");
}

#[test]
fn under_overload_global_edf_serves_the_jobs_with_near_deadlines_whatever_they_are_worth() {
    let tasks = vec![once(0, 4, 4), once(0, 4, 5), once(0, 4, 5), once(0, 2, 10)];
    expect(&tell(system(2, "g-edf", tasks), 20), "a0-4 c4-8\nb0-4 d4-6", "c");
}

#[test]
fn global_edf_meets_a_set_that_greedy_utility_loses() {
    let tasks = vec![once(0, 1, 2), once(0, 1, 2), once(0, 3, 10), once(1, 1, 2), once(1, 1, 2)];
    expect(&tell(system(2, "g-edf", tasks), 20), "a0-1 d1-2 c2-5\nb0-1 e1-2", "");
}

/// Three tasks of utilisation 2/3 fill two CPUs exactly.
fn two_thirds() -> Vec<Task> {
    vec![periodic(2, 3), periodic(2, 3), periodic(2, 3)]
}

#[test]
fn global_edf_is_not_optimal() {
    let told = tell(system(2, "g-edf", two_thirds()), 3);
    assert_eq!(told.chart(), "a0-2 c2-3\nb0-2");
    // c ends at 4; and so in every period.
    assert_eq!(told.missed(), "c");
    let later = tell(system(2, "g-edf", two_thirds()), 300);
    assert!(later.engine.totals().missed >= 90, "{:?}", later.engine.totals());
}

#[test]
fn global_least_laxity_meets_that_set() {
    let told = tell(system(2, "g-llf", two_thirds()), 300);
    assert_eq!((told.missed(), told.engine.totals().met), (String::new(), 300));
    expect(&tell(system(2, "g-llf", two_thirds()), 3), "a0-2 b2-3\nb0-1 c1-3", "");
}

/// Two light tasks and one that needs a CPU of its own.
fn dhall() -> Vec<Task> {
    vec![periodic(1, 9), periodic(1, 9), periodic(10, 10)]
}

#[test]
fn light_tasks_make_a_heavy_one_miss_under_global_edf() {
    expect(&tell(system(2, "g-edf", dhall()), 10), "a0-1 c1-10\nb0-1 a9-10", "c");
    for name in ["g-rm", "g-dm"] {
        assert_eq!(tell(system(2, name, dhall()), 10).missed(), "c", "{name}");
    }
    for name in ["p-edf", "p-rm", "g-llf"] {
        assert_eq!(tell(system(2, name, dhall()), 900).missed(), "", "{name}");
    }
}

#[test]
fn without_preemption_a_free_cpu_takes_the_earliest_deadline() {
    let tasks = vec![once(0, 5, 20), once(0, 3, 20), once(1, 2, 4), once(1, 1, 3)];
    // c has until 5, d until 4: b's CPU is free at 3 and takes d.
    expect(&tell(system(2, "g-np-edf", tasks.clone()), 20), "a0-5\nb0-3 d3-4 c4-6", "c");
    expect(&tell(system(2, "g-fifo", tasks), 20), "a0-5 d5-6\nb0-3 c3-5", "d");
}

#[test]
fn global_round_robin_gives_every_job_its_turn() {
    let tasks = vec![once(0, 2, 100), once(0, 2, 100), once(0, 2, 100)];
    // At 1 a and b give way: c takes one CPU and a, that comes before b, keeps the other.
    expect(&tell(system(2, "g-rr", tasks), 20), "a0-2 b2-3\nb0-1 c1-3", "");
}

fn homes(name: &str, placement: &str, cpus: usize, tasks: Vec<Task>) -> Vec<u16> {
    let mut described = system(cpus, name, tasks);
    described.policy.placement = Placement::from_name(placement).unwrap();
    Build::whole(&described, &Registry::default(), scope::pack).homes
}

#[test]
fn six_ways_of_packing() {
    let tenths = |list: &[i64]| list.iter().map(|u| periodic(*u, 10)).collect::<Vec<_>>();
    // In descending order: first and best fit fill both CPUs, worst fit has no room for the last task.
    let descending = tenths(&[6, 5, 4, 3, 2]);
    assert_eq!(homes("p-edf", "ffd", 2, descending.clone()), [0, 1, 0, 1, 1]);
    assert_eq!(homes("p-edf", "bfd", 2, descending.clone()), [0, 1, 0, 1, 1]);
    assert_eq!(homes("p-edf", "wfd", 2, descending.clone()), [0, 1, 1, 0, 0]);
    for (placement, missed) in [("ffd", false), ("bfd", false), ("wfd", true)] {
        let mut described = system(2, "p-edf", descending.clone());
        described.policy.placement = Placement::from_name(placement).unwrap();
        assert_eq!(tell(described, 1000).engine.totals().missed > 0, missed, "{placement}");
    }
    // In the order of the file: .3 .6 .4 .2. Worst fit spreads, best fit fills up.
    let given = tenths(&[3, 6, 4, 2]);
    assert_eq!(homes("p-edf", "ff", 2, given.clone()), [0, 0, 1, 1]);
    assert_eq!(homes("p-edf", "bf", 2, given.clone()), [0, 0, 1, 1]);
    assert_eq!(homes("p-edf", "wf", 2, given.clone()), [0, 1, 0, 1]);
    assert_eq!(homes("p-edf", "ff", 2, tenths(&[5, 7, 3, 4])), [0, 1, 0, 1]);
    assert_eq!(homes("p-edf", "bf", 2, tenths(&[5, 7, 3, 4])), [0, 1, 1, 0]);
}

#[test]
fn a_cluster_holds_as_much_as_its_cpus_that_a_task_may_use() {
    // Three clusters of 2, 2 and 1 CPUs.
    let heavy = |n: usize| vec![periodic(8, 10); n];
    assert_eq!(homes("c-edf", "ff", 5, heavy(5)), [0, 0, 1, 1, 2]);
    // .8 + .8 + .4 fill a cluster of two although no split of them fills two CPUs.
    let mut tasks = heavy(2);
    tasks.push(periodic(4, 10));
    assert_eq!(homes("c-edf", "ff", 4, tasks.clone()), [0, 0, 0]);
    // Bound to CPU 0, the last one finds its part of the cluster full.
    tasks[2].affinity = CpuSet::single(0);
    tasks[2].affinity.insert(2);
    assert_eq!(homes("c-edf", "ff", 4, tasks), [0, 0, 1]);
    // One task never gets more than one CPU, so this one fits nowhere and goes to the emptiest.
    assert_eq!(homes("c-edf", "ff", 4, vec![periodic(3, 10), periodic(12, 10)]), [0, 1]);
    // Worst fit looks at the room that is left: the small cluster counts as the fuller one.
    assert_eq!(homes("c-edf", "wf", 5, heavy(3)), [0, 1, 0]);
}

#[test]
fn jobs_stay_in_their_cluster() {
    let tasks = vec![once(0, 4, 100), once(0, 4, 100), once(0, 4, 100), once(0, 4, 100), once(0, 4, 100)];
    // No utilisation is known of single jobs, so all go to the first of two clusters.
    let told = tell(system(4, "c-fifo", tasks), 20);
    expect(&told, "a0-4 c4-8 e8-12\nb0-4 d4-8\n\n\n", "");
}

#[test]
fn a_plain_name_is_for_one_cpu() {
    for name in ["fifo", "rr", "fp", "rm", "dm", "edf", "np-edf", "llf"] {
        assert!(Engine::new(system(2, name, vec![periodic(1, 2)])).is_err(), "{name}");
        let prefixed = |prefix: &str| Engine::new(system(2, &format!("{prefix}{name}"), vec![periodic(1, 2)]));
        assert!(["g-", "p-", "c-"].iter().all(|p| prefixed(p).is_ok()), "{name}");
    }
}
