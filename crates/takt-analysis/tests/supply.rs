//! Partitions with a policy of their own, by hand.

#[path = "common/partition.rs"]
mod partition;

use partition::Row;
use takt_analysis::online::{Answer, Kind};
use takt_analysis::supply::{Supply, verdicts};
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Partition, PartitionId, PolicySpec, System};
use takt_core::time::Span;

/// In milliseconds: windows, and tasks as period, deadline and runtime.
fn system(policy: &str, table: &[(i64, bool)], tasks: &[(i64, i64, i64)]) -> System {
    let rows: Vec<Row> = tasks.iter().map(|&(period, deadline, runtime)| (0, period, deadline, runtime, 0)).collect();
    partition::system(policy, Span::from_ms(1), table, &rows)
}

fn told(system: &System) -> (Answer, &'static str, Kind) {
    let v = &verdicts(system)[0];
    (v.schedulable, v.test, v.kind)
}

const MS: u128 = 1_000_000;

#[test]
fn the_bound_by_hand() {
    // 2 of every 10 ms, and 3 more after 3 ms: gaps of 3 and 2 ms.
    let table = [(2, true), (3, false), (3, true), (2, false)];
    let supply = Supply::of(&system("edf", &table, &[]), PartitionId(0)).unwrap();
    let within = |work: u128| supply.within(work * MS).unwrap() / MS;
    // From 2 ms on: nothing until 5, 3 by 8, more from 10 on. From 8 on: 2 by 12, nothing until 15, 5 by 18.
    assert_eq!([1, 2, 3, 4, 5, 6, 10].map(within), [4, 5, 8, 9, 10, 14, 20]);
    assert_eq!(supply.within(0), Some(0));
    let none = Supply::of(&system("edf", &[(1, false)], &[]), PartitionId(0)).unwrap();
    assert_eq!(none.within(1), None);
}

#[test]
fn verdicts_by_hand() {
    let half = [(5, true), (5, false)];
    // A job of 2 ms that meets the gap takes 7 ms; of 3 ms each two jobs of one period take 6 = 5 + 1 of 16 ms.
    assert_eq!(told(&system("edf", &half, &[(20, 7, 2)])), (Answer::Yes, "sbf-edf", Kind::Sufficient));
    assert_eq!(told(&system("rm", &half, &[(20, 20, 3), (20, 20, 3)])), (Answer::Yes, "sbf-rta", Kind::Sufficient));
    assert_eq!(told(&system("rr", &half, &[(20, 16, 3), (20, 20, 3)])), (Answer::Yes, "sbf-busy", Kind::Sufficient));
    assert_eq!(
        told(&system("rr", &half, &[(20, 15, 3), (20, 20, 3)])),
        (Answer::Unknown, "sbf-busy", Kind::Sufficient)
    );
    // Due within 6 ms of its release, which is always when a slot begins.
    assert_eq!(told(&system("edf", &half, &[(20, 6, 5)])), (Answer::Yes, "frame-edf", Kind::Exact));
    // Two jobs that begin with the slot and need 6 ms by 10 ms get 5.
    let tight = system("edf", &half, &[(20, 10, 3), (20, 10, 3)]);
    assert_eq!(told(&tight), (Answer::No, "frame-edf", Kind::Exact));
    let why = &verdicts(&tight)[0].reason;
    assert_eq!(why, "jobs released from 0s on with deadlines by 10ms need 6ms, and the slices supply 5ms");
    assert_eq!(told(&system("fp", &half, &[(10, 10, 6)])), (Answer::No, "utilisation", Kind::Necessary));
    // Jobs of 2 and 3 ms that come as the slot begins fill it, and would not be done by then if they met the gap.
    for policy in ["rm", "fifo"] {
        let fitting = system(policy, &half, &[(10, 2, 2), (20, 5, 3)]);
        assert_eq!(told(&fitting), (Answer::Yes, "frame-rta", Kind::Exact), "{policy}");
        let late = system(policy, &half, &[(10, 10, 3), (20, 10, 3)]);
        assert_eq!(told(&late), (Answer::No, "frame-rta", Kind::Exact), "{policy}");
        assert_eq!(verdicts(&late)[0].reason, "the job of task 1 released at 0s does not complete by 10ms");
    }
}

#[test]
fn an_uncertain_supply_proves_no_miss() {
    let half = [(5, true), (5, false)];
    let overload = || system("edf", &half, &[(10, 10, 6)]);
    let mut best_effort = overload();
    for slice in best_effort.windows.iter_mut().flat_map(|w| &mut w.slices) {
        slice.be = slice.sc.take();
    }
    assert_eq!(told(&best_effort).0, Answer::Unknown);
    // A rival on the safety-critical side leaves nothing that is sure.
    best_effort.partitions.push(Partition { tasks: Vec::new(), policy: None });
    best_effort.windows[0].slices[0].sc = Some(PartitionId(1));
    assert_eq!(Supply::of(&best_effort, PartitionId(0)).unwrap().within(1), None);
    let mut wide = overload();
    wide.windows[0].slices[0].cpus = CpuSet::first(2);
    assert_eq!(told(&wide), (Answer::Unknown, "none", Kind::Nothing));
    let mut sporadic = system("edf", &half, &[(20, 6, 5)]);
    let (offset, period, spread) = (Span::ZERO, Span::from_ms(20), Span::from_ms(1));
    sporadic.tasks[0].arrival = Arrival::Sporadic { offset, period, spread };
    assert_eq!(told(&sporadic), (Answer::No, "sbf-edf", Kind::Exact));
}

#[test]
fn a_policy_without_a_test_is_said_first() {
    let half = [(5, true), (5, false)];
    for (policy, why) in [
        ("polling-server", "no test is known for the policy `polling-server` within windows"),
        ("cbs", "no test is known for the policy `cbs` within windows"),
        ("edf", "task 1 is neither periodic nor sporadic"),
    ] {
        let mut served = system(policy, &half, &[(20, 20, 1), (20, 20, 1)]);
        // A period would not help where there is no test.
        served.tasks[1].arrival = Arrival::Listed { instants: vec![Span::ZERO] };
        let verdict = &verdicts(&served)[0];
        assert_eq!((verdict.schedulable, verdict.test, verdict.reason.as_str()), (Answer::Unknown, "none", why));
        for task in &mut served.tasks {
            task.deadline = None;
        }
        assert_eq!(told(&served), (Answer::Yes, "no-deadlines", Kind::Exact), "{policy}");
    }
}

#[test]
fn absurd_numbers_give_no_wrong_answer() {
    let huge = Span::from_ns(i64::MAX / 4);
    let mut absurd = system("edf", &[(5, true), (5, false)], &[(1, 1, 1), (7, 7, 7), (11, 11, 11)]);
    for (i, task) in absurd.tasks.iter_mut().enumerate() {
        let period = huge - Span::from_ns(i as i64);
        task.arrival = Arrival::Periodic { offset: Span::ZERO, period };
        (task.deadline, task.runtime) = (Some(period), Some(period));
    }
    for policy in ["edf", "rm", "rr"] {
        absurd.partitions[0].policy = PolicySpec::from_name(policy);
        assert_ne!(told(&absurd).0, Answer::Yes, "{policy}");
    }
}
