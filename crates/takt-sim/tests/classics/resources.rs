//! Shared resources: inversion, inheritance, ceilings, deadlock.

use super::*;
use Step::{Lock, Unlock};

const R: ResourceId = ResourceId(0);
const S: ResourceId = ResourceId(1);

fn sharing(cpus: usize, name: &str, locking: Locking, tasks: Vec<Task>) -> Told {
    tell(System { locking, ..system(cpus, name, tasks) }, 100)
}

fn blocks(told: &Told) -> usize {
    told.records.iter().filter(|r| matches!(r.kind, RecordKind::Block { .. })).count()
}

/// The three tasks of every text on priority inversion: high (a) and low (c) share a resource, medium (b) does not.
fn inversion() -> Vec<Task> {
    vec![
        prio(3, doing(1, &[Lock(R), run(1), Unlock(R), run(1)])),
        prio(2, doing(2, &[run(5)])),
        prio(1, doing(0, &[Lock(R), run(3), Unlock(R), run(1)])),
    ]
}

#[test]
fn without_a_protocol_the_medium_task_delays_the_high_one() {
    expect(&sharing(1, "fp", Locking::Fifo, inversion()), "c0-2 b2-7 c7-8 a8-10 c10-11", "");
}

#[test]
fn inheritance_bounds_the_delay_by_the_critical_section() {
    let told = sharing(1, "fp", Locking::Inheritance, inversion());
    expect(&told, "c0-3 a3-5 b5-10 c10-11", "");
    assert_eq!(blocks(&told), 1);
}

#[test]
fn under_the_ceiling_the_high_task_starts_when_it_can_run_through() {
    let told = sharing(1, "fp", Locking::Ceiling, inversion());
    expect(&told, "c0-3 a3-5 b5-10 c10-11", "");
    assert_eq!(blocks(&told), 0);
}

#[test]
fn the_ceiling_keeps_out_who_is_below_it_and_lets_in_who_is_above() {
    let tasks = |priority| {
        vec![
            prio(2, doing(3, &[Lock(R), run(1), Unlock(R)])),
            prio(1, doing(0, &[run(1), Lock(R), run(4), Unlock(R), run(1)])),
            prio(priority, doing(2, &[run(2)])),
        ]
    };
    expect(&sharing(1, "fp", Locking::Ceiling, tasks(1)), "b0-5 a5-6 b6-7 c7-9", "");
    // As urgent as the ceiling is not urgent enough.
    expect(&sharing(1, "fp", Locking::Ceiling, tasks(2)), "b0-5 c5-7 a7-8 b8-9", "");
    expect(&sharing(1, "fp", Locking::Ceiling, tasks(3)), "b0-2 c2-4 b4-7 a7-8 b8-9", "");
}

/// Under least laxity a ceiling is the least latest start of its users if they were released now.
#[test]
fn the_ceiling_of_a_laxity_is_that_of_a_release_now() {
    let tasks = |deadline| {
        let task = |release, deadline, runtime, steps: &[Step]| Task {
            deadline: Some(ms(deadline)),
            runtime: Some(ms(runtime)),
            ..doing(release, steps)
        };
        vec![
            task(30, 20, 1, &[Lock(R), run(1), Unlock(R)]),
            task(0, 60, 6, &[run(1), Lock(R), run(4), Unlock(R), run(1)]),
            task(2, deadline, 2, &[run(2)]),
        ]
    };
    // b locks at 1, when the ceiling is 1 + 20 - 1 = 20; c starts at 8 + 2 - 2 at the latest, or at 38.
    expect(&sharing(1, "llf", Locking::Ceiling, tasks(8)), "b0-2 c2-4 b4-8 a30-31", "");
    expect(&sharing(1, "llf", Locking::Ceiling, tasks(38)), "b0-5 c5-7 b7-8 a30-31", "");
}

#[test]
fn urgency_is_inherited_along_a_chain() {
    let tasks = vec![
        prio(4, doing(3, &[Lock(R), run(1), Unlock(R)])),
        prio(2, doing(1, &[Lock(R), run(1), Lock(S), run(1), Unlock(S), Unlock(R)])),
        prio(1, doing(0, &[Lock(S), run(4), Unlock(S)])),
        prio(3, doing(4, &[run(5)])),
    ];
    // c has S, b has R and waits for S, a waits for R; d is above b and c and below a.
    expect(&sharing(1, "fp", Locking::Inheritance, tasks.clone()), "c0-1 b1-2 c2-5 b5-6 a6-7 d7-12", "");
    expect(&sharing(1, "fp", Locking::Fifo, tasks), "c0-1 b1-2 c2-4 d4-9 c9-10 b10-11 a11-12", "");
}

#[test]
fn a_waiter_that_is_gone_is_not_inherited_from() {
    // a gives up at 4, its deadline; from then on c is behind b.
    let mut tasks = inversion();
    tasks[0].deadline = Some(ms(3));
    tasks[2] = prio(1, doing(0, &[Lock(R), run(6), Unlock(R)]));
    let told = tell(System { late: Late::Abort, ..system(1, "fp", tasks) }, 100);
    expect(&told, "c0-4 b4-9 c9-11", "a");
}

#[test]
fn the_most_urgent_waiter_gets_the_resource() {
    let waiter = |release, priority| prio(priority, doing(release, &[Lock(R), run(1), Unlock(R)]));
    let holder = prio(9, doing(0, &[Lock(R), run(5), Unlock(R)]));
    let tasks = || vec![holder.clone(), waiter(1, 1), waiter(2, 3), waiter(3, 2)];
    // All of them ask, one after the other, on the second CPU; c is first by its priority, d second.
    expect(&sharing(2, "g-fp", Locking::Inheritance, tasks()), "a0-5\nc5-6 d6-7 b7-8", "");
    expect(&sharing(2, "g-fp", Locking::Fifo, tasks()), "a0-5\nb5-6 c6-7 d7-8", "");
}

#[test]
fn a_holder_inherits_on_its_own_cpu_from_a_waiter_on_another() {
    let on = |cpu, task: Task| Task { affinity: CpuSet::single(cpu), ..task };
    let tasks = || {
        vec![
            on(0, prio(3, doing(1, &[Lock(R), run(1), Unlock(R)]))),
            on(1, prio(2, doing(2, &[run(5)]))),
            on(1, prio(1, doing(0, &[Lock(R), run(4), Unlock(R)]))),
        ]
    };
    for name in ["p-fp", "g-fp"] {
        let told = |locking| sharing(2, name, locking, tasks()).chart();
        assert_eq!(told(Locking::Fifo), "a9-10\nc0-2 b2-7 c7-9", "{name}");
        assert_eq!(told(Locking::Inheritance), "a4-5\nc0-4 b4-9", "{name}");
        assert_eq!(told(Locking::Ceiling), "a4-5\nc0-4 b4-9", "{name}");
    }
}

/// Two tasks that take two resources in opposite orders.
fn crossed() -> Vec<Task> {
    vec![
        prio(1, doing(0, &[Lock(R), run(2), Lock(S), run(1), Unlock(S), Unlock(R)])),
        prio(2, doing(1, &[Lock(S), run(2), Lock(R), run(1), Unlock(R), Unlock(S)])),
    ]
}

#[test]
fn crossed_locks_end_in_a_deadlock_that_is_seen() {
    for locking in [Locking::Inheritance, Locking::Fifo] {
        let told = sharing(1, "fp", locking, crossed());
        expect(&told, "a0-1 b1-3 a3-4", "");
        let found = told.records.iter().find(|r| matches!(r.kind, RecordKind::Deadlock { .. })).unwrap();
        assert_eq!(found.kind, RecordKind::Deadlock { task: TaskId(0), resource: S });
        assert_eq!((found.at - takt_core::time::Time::ZERO, told.engine.deadlocks()), (ms(4), 1));
    }
}

#[test]
fn the_ceiling_prevents_the_deadlock_on_one_cpu() {
    for name in ["fp", "dm", "edf", "llf", "fifo", "rr", "np-edf"] {
        let mut tasks = crossed();
        for (task, deadline) in tasks.iter_mut().zip([60, 30]) {
            (task.runtime, task.deadline) = (Some(ms(3)), Some(ms(deadline)));
        }
        let told = sharing(1, name, Locking::Ceiling, tasks);
        assert_eq!((told.chart().as_str(), told.engine.deadlocks()), ("a0-3 b3-6", 0), "{name}");
    }
}

#[test]
fn under_edf_the_ceiling_is_a_deadline_floor() {
    let tasks = || {
        vec![
            Task { deadline: Some(ms(20)), ..doing(0, &[run(1), Lock(R), run(2), Unlock(R), run(1)]) },
            Task { deadline: Some(ms(8)), ..doing(2, &[Lock(R), run(1), Unlock(R)]) },
            once(2, 2, 7),
        ]
    };
    // a locks at 1 and is then due by 9, as b would be if released then. c is due by 9, too, and waits; b is due by 10.
    let told = sharing(1, "edf", Locking::Ceiling, tasks());
    expect(&told, "a0-3 c3-5 b5-6 a6-7", "");
    assert_eq!(blocks(&told), 0);
    // With inheritance a is preempted until b waits for it.
    let told = sharing(1, "edf", Locking::Inheritance, tasks());
    expect(&told, "a0-2 c2-4 a4-5 b5-6 a6-7", "");
    assert_eq!(blocks(&told), 1);
    // A job that is due before the floor gets in.
    let mut before = tasks();
    before.push(once(2, 2, 6));
    expect(&sharing(1, "edf", Locking::Ceiling, before), "a0-2 d2-4 a4-5 c5-7 b7-8 a8-9", "");
}

#[test]
fn a_waiter_does_not_hand_on_that_it_was_not_to_be_preempted() {
    // a holds R and sleeps until 5; b asks for R at 3 and waits; c starts. When c ends, a is as urgent as b, and not more.
    let tasks = vec![
        Task { deadline: Some(ms(90)), ..doing(0, &[Lock(R), run(1), Step::Sleep(ms(4)), run(1), Unlock(R)]) },
        Task { deadline: Some(ms(19)), ..doing(1, &[run(2), Lock(R), run(1), Unlock(R)]) },
        once(2, 4, 50),
        once(2, 1, 60),
    ];
    for locking in [Locking::Inheritance, Locking::Ceiling] {
        expect(&sharing(1, "np-edf", locking, tasks.clone()), "a0-1 b1-3 c3-7 a7-8 b8-9 d9-10", "");
    }
    expect(&sharing(1, "np-edf", Locking::Fifo, tasks), "a0-1 b1-3 c3-7 d7-8 a8-9 b9-10", "");
}

/// H holds what W wants; I and K are in between. From a worked example for utility-accrual schedulers, one unit later.
fn dependencies() -> Vec<Task> {
    let after = |deadline: i64, steps: &[Step]| Task { deadline: Some(ms(deadline)), ..doing(1, steps) };
    vec![
        Task { deadline: Some(ms(21)), ..doing(0, &[Lock(R), run(3), Unlock(R)]) },
        after(5, &[Lock(R), run(2), Unlock(R)]),
        after(6, &[run(3)]),
        after(8, &[run(4)]),
    ]
}

#[test]
fn global_edf_needs_inheritance_for_dependent_jobs() {
    let told = |locking| sharing(2, "g-edf", locking, dependencies());
    let fifo = told(Locking::Fifo);
    assert_eq!(fifo.missed(), "b", "{}", fifo.chart());
    expect(&told(Locking::Inheritance), "a0-3 b3-5\nc1-4 d4-8", "");
}

#[test]
fn edf_without_inheritance_lets_a_third_job_in_between() {
    // T1 (a) has the resource that T2 (b) wants; T3 (c) is more urgent than either.
    let tasks = vec![
        Task { deadline: Some(ms(20)), ..doing(0, &[Lock(R), run(3), Unlock(R)]) },
        Task { deadline: Some(ms(5)), ..doing(1, &[Lock(R), run(2), Unlock(R)]) },
        once(1, 2, 4),
    ];
    expect(&sharing(1, "edf", Locking::Fifo, tasks), "a0-1 c1-3 a3-5 b5-7", "b");
}

#[test]
fn round_robin_turns_are_inherited_and_kept_under_the_ceiling() {
    let tasks =
        || vec![doing(0, &[Lock(R), run(3), Unlock(R)]), doing(0, &[Lock(R), run(1), Unlock(R)]), doing(0, &[run(3)])];
    // At 1 it is b's turn, which waits for a: with inheritance a continues. b comes to the end of the queue when it wakes at 3.
    expect(&sharing(1, "rr", Locking::Fifo, tasks()), "a0-1 c1-2 a2-3 c3-4 a4-5 c5-6 b6-7", "");
    expect(&sharing(1, "rr", Locking::Inheritance, tasks()), "a0-3 c3-4 b4-5 c5-7", "");
    let told = sharing(1, "rr", Locking::Ceiling, tasks());
    expect(&told, "a0-3 b3-4 c4-7", "");
    assert_eq!(blocks(&told), 0);
}
