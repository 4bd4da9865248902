//! Resources: dependency chains, inheritance, cycles, and what becomes of them.

use super::*;
use Step::{Lock, Unlock};
use takt_core::engine::{Engine, Input};
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::time::Time;

const R: ResourceId = ResourceId(0);
const S: ResourceId = ResourceId(1);
const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
const C: TaskId = TaskId(2);

const EVERY: [&str; 6] = ["hvdf", "np-hvdf", "lbesa", "dasa-nd", "dasa", "gus"];

/// At 2 T1 (a) holds R and needs 2 ms (deadline 22, utility 1), T2 (b) has waited for R since 1 and needs 2 ms (7, 20), and
/// T3 (c) comes, which needs 2 ms and nothing else (6, 6).
fn waiting() -> Vec<Task> {
    let t1 = Task { program: Program::doing(vec![Lock(R), run(4), Unlock(R)]), ..once(0, 4, 22) };
    let t2 = Task { program: Program::doing(vec![Lock(R), run(2), Unlock(R)]), ..once(1, 2, 6) };
    vec![worth(1, t1), worth(20, t2), worth(6, once(2, 2, 4))]
}

fn told(name: &str, locking: Locking) -> Told {
    tell(System { locking, late: Late::Abort, ..system(1, name, waiting()) }, 50)
}

#[test]
fn dasa_plans_a_chain_as_one() {
    for locking in [Locking::Inheritance, Locking::Ceiling, Locking::Fifo] {
        let told = told("dasa", locking);
        expect(&told, "a0-4 b4-6", "c");
        assert_eq!(accrued(&told), (21, 27));
    }
}

#[test]
fn gus_takes_a_chain_as_one() {
    // 21 for 4 ms is more than 6 for 2.
    let told = told("gus", Locking::Inheritance);
    expect(&told, "a0-4 b4-6", "c");
    assert_eq!(accrued(&told), (21, 27));
}

#[test]
fn edf_loses_the_chain() {
    let told = tell(System { locking: Locking::Fifo, ..system(1, "edf", waiting()) }, 50);
    expect(&told, "a0-2 c2-4 a4-6 b6-8", "b");
    assert_eq!(accrued(&told), (7, 27));
}

#[test]
fn the_holder_runs_in_place_of_a_chosen_waiter() {
    // By itself T2 is the densest with 10 units for each millisecond, T3 has 3 and T1 1/2.
    for name in ["hvdf", "np-hvdf", "lbesa", "dasa-nd"] {
        for locking in [Locking::Inheritance, Locking::Ceiling] {
            let told = told(name, locking);
            // `lbesa` and `dasa-nd` do not see that T2 waits: they count 2 + 2 + 2 ms, and T3, which is due first, goes first.
            match name {
                "hvdf" | "np-hvdf" => expect(&told, "a0-4 b4-6", "c"),
                _ => expect(&told, "a0-2 c2-4 a4-6 b6-7x", "b"),
            }
        }
        // First come first served, T1 counts for itself only. It has the CPU where that is not taken away.
        let told = told(name, Locking::Fifo);
        let chart = if name == "np-hvdf" { "a0-4 b4-6" } else { "a0-2 c2-4 a4-6 b6-7x" };
        assert_eq!(told.chart(), chart, "{name}");
    }
}

#[test]
fn an_owner_inherits_along_a_chain_of_three() {
    // c holds S, b holds R and waits for S, a waits for R and is worth much; d comes at 3 and would be in time alone.
    let tasks = || {
        vec![
            worth(60, Task { program: Program::doing(vec![Lock(R), run(1), Unlock(R)]), ..once(2, 1, 6) }),
            worth(
                2,
                Task {
                    program: Program::doing(vec![Lock(R), run(1), Lock(S), run(1), Unlock(S), Unlock(R)]),
                    ..once(0, 2, 40)
                },
            ),
            worth(
                9,
                Task {
                    program: Program::doing(vec![Lock(S), Step::Sleep(ms(1)), run(3), Unlock(S)]),
                    ..once(0, 3, 40)
                },
            ),
            worth(8, once(3, 3, 4)),
        ]
    };
    // c has S and sleeps until 1, while b runs with R and then asks for S. At 2 a asks for R.
    for name in ["dasa", "gus", "hvdf"] {
        let system = System { late: Late::Abort, ..system(1, name, tasks()) };
        expect(&tell(system, 50), "b0-1 c1-4 b4-5 a5-6 d6-7x", "d");
    }
}

#[test]
fn chains_are_left_out_as_one_when_they_do_not_fit() {
    // T1 needs so long that T2 cannot be in time any more: T3 goes first.
    let mut tasks = waiting();
    (tasks[0].program.steps, tasks[0].runtime) = (vec![Lock(R), run(6), Unlock(R)], Some(ms(6)));
    let told = tell(System { late: Late::Abort, ..system(1, "dasa", tasks) }, 50);
    expect(&told, "a0-2 c2-4 a4-8", "b");
}

/// An engine in which all jobs are there at 0 and nothing was done yet.
fn begun(name: &str, tasks: Vec<Task>) -> (Engine, Vec<Record>) {
    let mut engine = Engine::new(system(1, name, tasks)).unwrap_or_else(|e| panic!("{e}"));
    let mut records = vec![];
    let _ = engine.step(Time::ZERO, &[], &mut records);
    (engine, records)
}

fn does(engine: &mut Engine, records: &mut Vec<Record>, at: i64, inputs: &[Input]) {
    let _ = engine.step(Time::ZERO + ms(at), inputs, records);
}

fn wants(task: TaskId, resource: ResourceId) -> Input {
    Input::Lock { task, resource }
}

fn aborted(records: &[Record]) -> Vec<TaskId> {
    let over = records.iter().filter_map(|r| match r.kind {
        RecordKind::Finish { task, outcome: Outcome::Aborted, .. } => Some(task),
        _ => None,
    });
    over.collect()
}

/// Jobs of these runtimes and utilities at 0.
fn jobs(described: &[(i64, u64)]) -> Vec<Task> {
    described.iter().map(|(runtime, utility)| worth(*utility, once(0, *runtime, 90))).collect()
}

#[test]
fn the_least_dense_job_of_a_cycle_is_aborted() {
    for name in EVERY {
        for closes in [A, B] {
            // a needs 2 ms more and b 4, for 4 units each.
            let (mut engine, mut records) = begun(name, jobs(&[(2, 4), (4, 4)]));
            does(&mut engine, &mut records, 0, &[wants(A, R), wants(B, S)]);
            let crossed = if closes == B { [wants(A, S), wants(B, R)] } else { [wants(B, R), wants(A, S)] };
            does(&mut engine, &mut records, 0, &crossed);
            assert_eq!((aborted(&records), engine.deadlocks()), (vec![B], 1), "{name}");
            // The resource that b held is a's now.
            assert_eq!((engine.waits(A), engine.running()), (false, &[A][..]), "{name}");
            does(&mut engine, &mut records, 2, &[Input::Complete { task: A, job: 0 }]);
            assert_eq!(engine.totals().met, 1, "{name}");
        }
    }
}

#[test]
fn a_longer_circle_loses_one_job_and_the_others_go_on() {
    for name in EVERY {
        // b is the least dense of the three, and none of those that close the cycle; d only waits for one of it.
        let (mut engine, mut records) = begun(name, jobs(&[(2, 8), (4, 1), (2, 4), (1, 1)]));
        let (d, t) = (TaskId(3), ResourceId(2));
        does(&mut engine, &mut records, 0, &[wants(A, R), wants(B, S), wants(C, t), wants(d, R)]);
        does(&mut engine, &mut records, 0, &[wants(A, S), wants(B, t), wants(C, R)]);
        assert_eq!((aborted(&records), engine.deadlocks()), (vec![B], 1), "{name}");
        assert_eq!(engine.running(), [A], "{name}");
        assert!(engine.waits(C) && engine.waits(d), "{name}");
    }
}

#[test]
fn the_last_of_equally_dense_jobs_in_a_cycle_is_aborted() {
    for name in EVERY {
        let (mut engine, mut records) = begun(name, jobs(&[(2, 4), (2, 4)]));
        does(&mut engine, &mut records, 0, &[wants(A, R), wants(B, S)]);
        does(&mut engine, &mut records, 0, &[wants(B, R), wants(A, S)]);
        assert_eq!(aborted(&records), [B], "{name}");
    }
}

#[test]
fn jobs_that_sleep_can_close_a_circle_too() {
    for name in EVERY {
        let (mut engine, mut records) = begun(name, jobs(&[(2, 4), (4, 4)]));
        does(&mut engine, &mut records, 0, &[wants(A, R), wants(B, S)]);
        does(&mut engine, &mut records, 0, &[Input::Block { task: A }, Input::Block { task: B }]);
        does(&mut engine, &mut records, 1, &[wants(A, S), wants(B, R)]);
        assert_eq!(aborted(&records), [B], "{name}");
        assert_eq!(engine.running(), [A], "{name}");
    }
}

/// The handler of an aborted job keeps what that held, so that it can put it in order; who waits for it lends its urgency.
#[test]
fn the_victims_handler_runs_first_and_then_gives_back() {
    for name in EVERY {
        let mut tasks = jobs(&[(2, 4), (4, 4), (1, 1)]);
        tasks[1].handler = Some(Handler { runtime: ms(1), deadline: Some(ms(9)), utility: 0 });
        let (mut engine, mut records) = begun(name, tasks);
        does(&mut engine, &mut records, 0, &[wants(A, R), wants(B, S)]);
        does(&mut engine, &mut records, 0, &[wants(A, S), wants(B, R)]);
        assert_eq!(aborted(&records), [B], "{name}");
        assert_eq!((engine.waits(A), engine.running()), (true, &[B][..]), "{name}");
        does(&mut engine, &mut records, 1, &[Input::Complete { task: B, job: 0 }]);
        assert_eq!((engine.waits(A), engine.running()), (false, &[A][..]), "{name}");
    }
}

#[test]
fn a_resource_given_back_by_another_stays_where_it_is() {
    for name in EVERY {
        let (mut engine, mut records) = begun(name, jobs(&[(2, 4), (4, 4)]));
        does(&mut engine, &mut records, 0, &[wants(A, R)]);
        does(&mut engine, &mut records, 0, &[wants(B, R)]);
        let before = records.len();
        does(&mut engine, &mut records, 1, &[Input::Unlock { task: B, resource: R }]);
        assert_eq!((&records[before..], engine.waits(B), engine.running()), (&[][..], true, &[A][..]), "{name}");
    }
}

/// Two jobs are late when c comes: a, which holds R, and b, which gets R by the abort of a.
#[test]
fn late_jobs_are_aborted_one_after_the_other_at_an_event() {
    for name in EVERY.into_iter().chain(["edf"]) {
        let locks = |task: Task| Task { program: Program::doing(vec![Lock(R), run(9), Unlock(R)]), ..task };
        let tasks = vec![worth(1, locks(once(0, 9, 4))), worth(2, locks(once(0, 9, 4))), worth(1, once(6, 1, 5))];
        let mut engine = Engine::new(System { late: Late::AbortAtEvent, ..system(1, name, tasks) })
            .unwrap_or_else(|e| panic!("{e}"));
        let mut records = vec![];
        does(&mut engine, &mut records, 0, &[]);
        does(&mut engine, &mut records, 0, &[wants(A, R), wants(B, R)]);
        does(&mut engine, &mut records, 6, &[]);
        assert_eq!((aborted(&records), engine.running()), (vec![A, B], &[C][..]), "{name}");
    }
}

/// T1 needs 8 ms more, so that the chain of T2 is worth 7 for 9 ms; T3 is worth 3 for 2 ms. By itself T2 is worth 6 for 1 ms.
#[test]
fn dasa_goes_by_the_density_of_the_chain() {
    let t1 = Task { program: Program::doing(vec![Lock(R), run(10), Unlock(R)]), ..once(0, 10, 40) };
    let t2 = Task { program: Program::doing(vec![Lock(R), run(1), Unlock(R)]), ..once(1, 1, 10) };
    let tasks = vec![worth(1, t1), worth(6, t2), worth(3, once(2, 2, 4))];
    let told = tell(System { late: Late::Abort, ..system(1, "dasa", tasks) }, 50);
    expect(&told, "a0-2 c2-4 a4-12", "b");
}

#[test]
fn a_holder_inherits_on_its_own_cpu_from_a_waiter_on_another() {
    let on = |cpu, task: Task| Task { affinity: takt_core::cpus::CpuSet::single(cpu), ..task };
    let tasks = || {
        vec![
            on(0, worth(20, Task { program: Program::doing(vec![Lock(R), run(1), Unlock(R)]), ..once(1, 1, 20) })),
            on(1, worth(6, once(2, 5, 40))),
            on(1, worth(1, Task { program: Program::doing(vec![Lock(R), run(4), Unlock(R)]), ..once(0, 4, 50) })),
        ]
    };
    for name in ["p-hvdf", "c-hvdf", "p-dasa", "p-gus"] {
        let chart = |locking| {
            let mut described = system(2, name, tasks());
            described.locking = locking;
            described.policy.cluster = 1;
            tell(described, 50).chart()
        };
        assert_eq!(chart(Locking::Inheritance), "a4-5\nc0-4 b4-9", "{name}");
        // Those that plan with dependencies follow them whatever the protocol.
        let fifo = if name.ends_with("hvdf") { "a9-10\nc0-2 b2-7 c7-9" } else { "a4-5\nc0-4 b4-9" };
        assert_eq!(chart(Locking::Fifo), fifo, "{name}");
    }
}

/// a holds R and is the only one with a reason to run on; w asks for R at 2 on another CPU, which is idle.
#[test]
fn a_request_is_an_event_of_the_cpu_of_who_holds() {
    let on = |cpu, task: Task| Task { affinity: takt_core::cpus::CpuSet::single(cpu), ..task };
    for name in ["p-hvdf", "c-hvdf", "p-dasa", "p-gus"] {
        let tasks = vec![
            on(0, worth(20, Task { program: Program::doing(vec![Lock(R), run(1), Unlock(R)]), ..once(2, 1, 20) })),
            on(1, worth(6, once(1, 5, 40))),
            on(1, worth(1, Task { program: Program::doing(vec![Lock(R), run(4), Unlock(R)]), ..once(0, 4, 50) })),
        ];
        let mut described = system(2, name, tasks);
        described.policy.cluster = 1;
        assert_eq!(tell(described, 50).chart(), "a5-6\nc0-1 b1-2 c2-5 b5-9", "{name}");
    }
}

/// b and c wait for what a holds while it sleeps; b has asked first, c is denser and due earlier.
#[test]
fn a_released_resource_goes_to_the_most_urgent() {
    let locks = |utility, task: Task, work| {
        let steps = [vec![Lock(R)], work, vec![Unlock(R)]].concat();
        worth(utility, Task { program: Program::doing(steps), ..task })
    };
    for name in EVERY {
        let chart = |locking| {
            let tasks = vec![
                locks(1, once(0, 1, 90), vec![Step::Sleep(ms(3)), run(1)]),
                locks(5, once(1, 1, 50), vec![run(1)]),
                locks(9, once(2, 1, 30), vec![run(1)]),
            ];
            tell(System { locking, ..system(1, name, tasks) }, 50).chart()
        };
        assert_eq!(chart(Locking::Inheritance), "a3-4 c4-5 b5-6", "{name}");
        assert_eq!(chart(Locking::Ceiling), "a3-4 c4-5 b5-6", "{name}");
        assert_eq!(chart(Locking::Fifo), "a3-4 b4-5 c5-6", "{name}");
    }
}

/// From 2 on a and b are worth 4 for 1 ms each; b was released earlier, on the CPU of c, which holds what a waits for.
#[test]
fn the_tie_rule_holds_among_jobs_of_several_cpus() {
    let on = |cpu, task: Task| Task { affinity: takt_core::cpus::CpuSet::single(cpu), ..task };
    for name in ["p-hvdf", "c-hvdf"] {
        let chart = |released| {
            let tasks = vec![
                on(0, worth(4, Task { program: Program::doing(vec![Lock(R), run(1), Unlock(R)]), ..once(2, 1, 50) })),
                on(1, worth(4, once(released, 3 - released, 50))),
                on(1, worth(1, Task { program: Program::doing(vec![Lock(R), run(4), Unlock(R)]), ..once(0, 4, 50) })),
            ];
            let mut described = system(2, name, tasks);
            described.policy.cluster = 1;
            tell(described, 50).chart()
        };
        assert_eq!(chart(1), "a6-7\nc0-1 b1-3 c3-6", "{name}");
        // Among equal releases the lower task is first.
        assert_eq!(chart(2), "a4-5\nc0-4 b4-5", "{name}");
    }
}
