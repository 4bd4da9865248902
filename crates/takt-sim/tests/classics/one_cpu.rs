//! One CPU: schedules by hand.

use super::*;

/// Utility-accrual examples use this set: A (3, deadline 4), B (3, 5), C (2, 7), all at 0.
fn overload() -> Vec<Task> {
    vec![once(0, 3, 4), once(0, 3, 5), once(0, 2, 7)]
}

#[test]
fn edf_under_overload_meets_the_first_deadline_only() {
    expect(&tell(system(1, "edf", overload()), 20), "a0-3 b3-6 c6-8", "bc");
}

#[test]
fn edf_that_aborts_at_deadlines_saves_the_last_job() {
    let described = System { late: Late::Abort, ..system(1, "edf", overload()) };
    expect(&tell(described, 20), "a0-3 b3-5x c5-7", "b");
}

/// A long job at 0 and a short one with a near deadline at 1.
fn long_and_short() -> Vec<Task> {
    vec![once(0, 5, 10), once(1, 1, 3)]
}

#[test]
fn without_preemption_a_long_job_makes_a_short_one_miss() {
    expect(&tell(system(1, "edf", long_and_short()), 20), "a0-1 b1-2 a2-6", "");
    expect(&tell(system(1, "np-edf", long_and_short()), 20), "a0-5 b5-6", "b");
    expect(&tell(system(1, "fifo", long_and_short()), 20), "a0-5 b5-6", "b");
}

#[test]
fn np_edf_starts_the_earliest_deadline_when_the_cpu_is_free() {
    // d has the latest deadline but has started; then c before b.
    let tasks = vec![once(0, 4, 90), once(1, 2, 30), once(2, 2, 20), once(0, 1, 80)];
    expect(&tell(system(1, "np-edf", tasks), 20), "d0-1 b1-3 c3-5 a5-9", "");
}

#[test]
fn np_edf_lets_others_in_where_a_job_blocks_or_yields() {
    let blocks =
        Task { deadline: Some(ms(20)), ..doing(0, &[run(2), Step::Sleep(ms(2)), run(2), Step::Yield, run(2)]) };
    let tasks = vec![blocks, once(1, 4, 30), once(7, 1, 10)];
    // a wakes at 4 but b has started; at 8 a yields to c, whose deadline is earlier.
    expect(&tell(system(1, "np-edf", tasks), 20), "a0-2 b2-6 a6-8 c8-9 a9-11", "");
}

#[test]
fn rate_monotonic_misses_where_edf_does_not() {
    let tasks = || vec![periodic(2, 5), periodic(4, 7)];
    assert_eq!(tell(system(1, "edf", tasks()), 700).missed(), "");
    let told = tell(system(1, "rm", tasks()), 8);
    expect(&told, "a0-2 b2-5 a5-7 b7-8", "b");
}

#[test]
fn rate_monotonic_meets_a_harmonic_set_at_full_load() {
    let told = tell(system(1, "rm", vec![periodic(2, 4), periodic(2, 8), periodic(4, 16)]), 160);
    assert_eq!((told.missed(), told.engine.totals().met), (String::new(), 40 + 20 + 10));
}

#[test]
fn deadline_monotonic_goes_by_deadlines_and_not_by_periods() {
    let tasks = || vec![periodic(2, 5), Task { deadline: Some(ms(3)), ..periodic(2, 10) }];
    expect(&tell(system(1, "dm", tasks()), 10), "b0-2 a2-4 a5-7", "");
    expect(&tell(system(1, "rm", tasks()), 10), "a0-2 b2-4 a5-7", "b");
}

#[test]
fn jobs_without_a_deadline_come_last() {
    // From its second job on a has none.
    let a = Task { arrival: Arrival::Periodic { offset: ms(0), period: ms(10) }, ..once(0, 2, 5) };
    let freed = Input::Retime { task: TaskId(0), period: ms(10), deadline: None, runtime: Some(ms(2)) };
    let scenario = Scenario { changes: vec![(Time::ZERO + ms(1), freed)], ..Scenario::default() };
    for name in ["edf", "dm", "np-edf", "llf"] {
        let described = system(1, name, vec![a.clone(), once(10, 3, 100)]);
        assert_eq!(tell_with(described, &scenario, 20).chart(), "a0-2 b10-13 a13-15", "{name}");
    }
}

#[test]
fn fifo_goes_by_the_instant_of_becoming_ready() {
    // a sleeps from 1 to 3; by then b runs and c waits.
    let a = doing(0, &[run(1), Step::Sleep(ms(2)), run(2)]);
    let tasks = vec![a, once(0, 4, 100), once(2, 1, 1)];
    expect(&tell(system(1, "fifo", tasks), 20), "a0-1 b1-5 c5-6 a6-8", "c");
}

#[test]
fn fifo_breaks_ties_by_release_and_task_and_sends_who_yields_to_the_end() {
    let yields = doing(0, &[run(1), Step::Yield, run(2)]);
    let tasks = vec![once(1, 1, 100), yields, once(0, 2, 100)];
    // At 1 b yields as a is released: c waits already, a is new, b comes behind both.
    expect(&tell(system(1, "fifo", tasks), 20), "b0-1 c1-3 a3-4 b4-6", "");
    // a wakes at 2, the instant at which c is released: a's release is earlier.
    let sleeps = doing(0, &[run(1), Step::Sleep(ms(1)), run(1)]);
    let tasks = vec![once(2, 1, 100), sleeps, once(0, 3, 100)];
    expect(&tell(system(1, "fifo", tasks), 20), "b0-1 c1-4 b4-5 a5-6", "");
}

fn rr(quantum: i64, grid: bool, tasks: Vec<Task>) -> System {
    let policy = policy("rr", &[Some(ms(quantum).ns()), Some(i64::from(grid))]);
    System { policy, ..system(1, "rr", tasks) }
}

#[test]
fn round_robin_takes_turns() {
    expect(&tell(rr(2, false, vec![once(0, 3, 100), once(0, 3, 100)]), 20), "a0-2 b2-4 a4-5 b5-6", "");
    // The default is 1 ms. c is new at 2, the end of b's quantum, and goes before it.
    let tasks = vec![once(0, 3, 100), once(0, 2, 100), once(2, 2, 100)];
    expect(&tell(system(1, "rr", tasks), 20), "a0-1 b1-2 a2-3 c3-4 b4-5 a5-6 c6-7", "");
}

#[test]
fn a_job_alone_keeps_the_cpu_under_round_robin() {
    let told = tell(rr(2, false, vec![once(0, 9, 100), once(5, 2, 100)]), 20);
    // a begins a quantum at 4; b waits until it is over.
    expect(&told, "a0-6 b6-8 a8-11", "");
    assert_eq!(told.engine.totals().dispatches, 3);
}

#[test]
fn a_whole_quantum_follows_a_block_or_a_yield() {
    let sleeps = doing(0, &[run(1), Step::Sleep(ms(1)), run(3)]);
    // a wakes at 2 and queues behind b, whose quantum ends at 4; then it has 3 ms at once.
    expect(&tell(rr(3, false, vec![sleeps, once(0, 6, 100)]), 20), "a0-1 b1-4 a4-7 b7-10", "");
    let yields = doing(0, &[run(1), Step::Yield, run(3)]);
    expect(&tell(rr(3, false, vec![yields, once(0, 2, 100)]), 20), "a0-1 b1-3 a3-6", "");
}

#[test]
fn on_the_grid_a_job_that_starts_between_ticks_gets_the_rest() {
    // Quantum 4. a blocks at 3; b starts there and has only 1 ms before the tick at 4. Off the grid it has 4.
    let tasks = || vec![doing(0, &[run(3), Step::Sleep(ms(100))]), once(0, 6, 100), once(0, 2, 100)];
    expect(&tell(rr(4, true, tasks()), 20), "a0-3 b3-4 c4-6 b6-11", "");
    expect(&tell(rr(4, false, tasks()), 20), "a0-3 b3-7 c7-9 b9-11", "");
}

#[test]
fn a_new_quantum_counts_from_the_next_dispatch() {
    use takt_core::engine::Input;
    use takt_core::time::Time;
    let mut engine = Engine::new(rr(4, false, vec![once(0, 50, 100), once(0, 50, 100)])).unwrap();
    let now = |engine: &mut Engine, at: i64, inputs: &[Input]| {
        let _ = engine.step(Time::ZERO + ms(at), inputs, &mut ());
        (engine.running().to_vec(), engine.next_due())
    };
    assert_eq!(now(&mut engine, 0, &[]), (vec![TaskId(0)], Some(Time::ZERO + ms(4))));
    let shorter = Input::Configure { setting: 0, value: Some(ms(1).ns()) };
    assert_eq!(now(&mut engine, 2, &[shorter]), (vec![TaskId(0)], Some(Time::ZERO + ms(4))));
    assert_eq!(now(&mut engine, 4, &[]), (vec![TaskId(1)], Some(Time::ZERO + ms(5))));
    assert_eq!(now(&mut engine, 5, &[]), (vec![TaskId(0)], Some(Time::ZERO + ms(6))));
}

fn llf(threshold: i64, tasks: Vec<Task>) -> System {
    System { policy: policy("llf", &[Some(ms(threshold).ns())]), ..system(1, "llf", tasks) }
}

#[test]
fn two_jobs_of_equal_laxity_take_turns_no_faster_than_the_threshold() {
    // The first turn is one threshold long, the others two.
    let tasks = || vec![once(0, 3, 10), once(0, 3, 10)];
    expect(&tell(llf(1, tasks()), 20), "a0-1 b1-3 a3-5 b5-6", "");
    expect(&tell(llf(4, tasks()), 20), "a0-3 b3-6", "");
}

#[test]
fn a_job_with_less_laxity_preempts_by_the_threshold_only() {
    // At 2 a must continue by 10 (deadline 14, 4 left) and b by 9. At 4 b must by 11, one more than a; and so on.
    let tasks = |deadline| vec![once(0, 6, 14), once(2, 3, deadline)];
    expect(&tell(llf(1, tasks(10)), 20), "a0-2 b2-4 a4-6 b6-7 a7-9", "");
    expect(&tell(llf(2, tasks(10)), 20), "a0-3 b3-6 a6-9", "");
    // Due two later, b waits two longer.
    expect(&tell(llf(1, tasks(12)), 20), "a0-4 b4-6 a6-8 b8-9", "");
}

#[test]
fn an_overrun_job_has_the_laxity_of_one_that_needs_nothing_more() {
    // a was to take 2 ms and takes 6: from 2 on it must continue by 10, its deadline. b must by 9 and, at 4, by 11. While a is in
    // overrun its latest start does not change any more, and it keeps the CPU.
    let overruns = Task { program: Program::needing(Execution::Series(vec![ms(6)])), ..once(0, 2, 10) };
    let told = tell(llf(1, vec![overruns, once(1, 4, 12)]), 30);
    expect(&told, "a0-2 b2-4 a4-8 b8-10", "");
}

#[test]
fn a_job_that_yields_goes_behind_its_equals() {
    let yields = || prio(1, Task { deadline: Some(ms(100)), ..doing(0, &[run(1), Step::Yield, run(1)]) });
    let other = || prio(1, once(0, 2, 100));
    let less = || prio(0, once(0, 2, 200));
    for name in ["fp", "dm", "edf", "np-edf", "fifo", "rr"] {
        let tasks = vec![yields(), other(), less()];
        let told = tell(
            System {
                policy: policy(name, if name == "rr" { &[Some(5_000_000)] } else { &[] }),
                ..system(1, name, tasks)
            },
            20,
        );
        let expected = if ["fifo", "rr"].contains(&name) { "a0-1 b1-3 c3-5 a5-6" } else { "a0-1 b1-3 a3-4 c4-6" };
        assert_eq!(told.chart(), expected, "{name}");
    }
}

#[test]
fn the_handler_of_an_aborted_job_ranks_by_its_own_deadline() {
    let urgent = Some(Handler { runtime: ms(2), deadline: Some(ms(3)), utility: 0 });
    let patient = Some(Handler { runtime: ms(2), deadline: None, utility: 0 });
    let tasks = |handler| vec![Task { handler, ..once(0, 9, 4) }, once(1, 3, 20)];
    for name in ["edf", "dm", "llf"] {
        let told = |handler| tell(System { late: Late::Abort, ..system(1, name, tasks(handler)) }, 20);
        assert_eq!(told(urgent).chart(), "a0-4x a4-6 b6-9", "{name}");
        assert_eq!(told(patient).chart(), "a0-4x b4-7 a7-9", "{name}");
    }
}
