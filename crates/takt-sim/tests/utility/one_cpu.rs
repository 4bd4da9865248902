//! One CPU: schedules by hand.

use super::*;
use takt_core::time::Span;

#[track_caller]
fn earns(told: &Told, chart: &str, missed: &str, units: (u128, u128)) {
    expect(told, chart, missed);
    assert_eq!(accrued(told), units);
}

fn aborts(name: &str, tasks: Vec<Task>) -> Told {
    tell(System { late: Late::Abort, ..system(1, name, tasks) }, 50)
}

fn continues(name: &str, tasks: Vec<Task>) -> Told {
    tell(system(1, name, tasks), 50)
}

/// Everyone wants more than there is: A (3, deadline 4, utility 3), B (3, 5, 9), C (2, 7, 4), all at 0.
fn overload() -> Vec<Task> {
    vec![worth(3, once(0, 3, 4)), worth(9, once(0, 3, 5)), worth(4, once(0, 2, 7))]
}

#[test]
fn edf_earns_little_under_overload() {
    earns(&continues("edf", overload()), "a0-3 b3-6 c6-8", "bc", (3, 16));
    earns(&aborts("edf", overload()), "a0-3 b3-5x c5-7", "b", (7, 16));
}

#[test]
fn policies_of_utility_give_up_what_is_worth_least_for_its_time() {
    for name in ["hvdf", "np-hvdf", "lbesa", "dasa-nd", "dasa", "gus"] {
        // A lost job runs in idle time.
        earns(&continues(name, overload()), "b0-3 c3-5 a5-8", "a", (13, 16));
        earns(&aborts(name, overload()), "b0-3 c3-5", "a", (13, 16));
    }
}

/// X (4, deadline 4, utility 8), Y (1, 3, 10), Z (1, 20, 1), all at 0: X and Y do not go together.
#[test]
fn lbesa_sheds_what_is_innocent_and_dasa_does_not() {
    let tasks = || vec![worth(8, once(0, 4, 4)), worth(10, once(0, 1, 3)), worth(1, once(0, 1, 20))];
    for name in ["dasa-nd", "dasa", "gus"] {
        earns(&aborts(name, tasks()), "b0-1 c1-2 a2-4x", "a", (11, 19));
    }
    earns(&aborts("lbesa", tasks()), "b0-1 a1-4x c4-5", "a", (11, 19));
}

#[test]
fn highest_value_density_does_not_look_at_deadlines() {
    // Both could be in time: EDF and DASA run b first.
    let tasks = || vec![worth(9, once(0, 3, 10)), worth(1, once(0, 1, 2))];
    earns(&continues("hvdf", tasks()), "a0-3 b3-4", "b", (9, 10));
    for name in ["edf", "lbesa", "dasa-nd", "dasa"] {
        earns(&continues(name, tasks()), "b0-1 a1-4", "", (10, 10));
    }
    // It continues with a lost job of high density, until that is aborted.
    let lost = || vec![worth(90, once(0, 9, 4)), worth(3, once(0, 3, 20))];
    earns(&continues("hvdf", lost()), "a0-9 b9-12", "a", (3, 93));
    earns(&aborts("hvdf", lost()), "a0-4x b4-7", "a", (3, 93));
    earns(&aborts("dasa-nd", lost()), "b0-3 a3-4x", "a", (3, 93));
}

#[test]
fn without_preemption_a_dense_job_waits() {
    let tasks = || vec![worth(5, once(0, 5, 20)), worth(9, once(1, 1, 4))];
    earns(&continues("hvdf", tasks()), "a0-1 b1-2 a2-6", "", (14, 14));
    earns(&continues("np-hvdf", tasks()), "a0-5 b5-6", "b", (5, 14));
}

#[test]
fn a_free_cpu_takes_the_densest_and_a_job_that_slept_competes_again() {
    let sleeps = Task { program: Program::doing(vec![run(1), Step::Sleep(ms(1)), run(3)]), ..once(0, 4, 50) };
    let tasks = vec![worth(4, sleeps), worth(2, once(0, 2, 50)), worth(6, once(2, 2, 50))];
    // At 1 a sleeps and b starts; a wakes at 2, when c comes. At 3 c is the densest with 3, then a with 4/3.
    earns(&continues("np-hvdf", tasks), "a0-1 b1-3 c3-5 a5-8", "", (12, 12));
}

#[test]
fn equal_densities_go_by_release_and_then_by_task() {
    for name in ["hvdf", "np-hvdf", "dasa-nd", "dasa", "gus"] {
        // None of the three can be in time together with another one.
        let tasks = vec![worth(3, once(1, 3, 3)), worth(2, once(1, 2, 2)), worth(3, once(0, 1, 9))];
        earns(&aborts(name, tasks), "c0-1 a1-4", "b", (6, 8));
    }
}

#[test]
fn densities_are_compared_exactly() {
    // 1 ms each, worth 600 and 900: the time over the value, in whole microseconds, would be 1 for both.
    let tasks = || vec![worth(600, once(0, 1, 1)), worth(900, once(0, 1, 1))];
    for name in ["hvdf", "lbesa", "dasa-nd", "dasa", "gus"] {
        earns(&aborts(name, tasks()), "b0-1", "a", (900, 1500));
    }
    // They differ in the seventh digit.
    let close = |utility, runtime| {
        let task = Task { runtime: Some(Span::from_ns(runtime)), ..once(0, 1, 4) };
        Task { utility: Some(Utility::Step(utility)), ..task }
    };
    let tasks = vec![close(3_000_000, 3_000_001), close(3_000_000, 3_000_000)];
    assert_eq!(aborts("hvdf", tasks).missed(), "a");
}

/// J1 (2 ms, worth 10 units and one less with each millisecond), J2 (1 ms, worth 3 until 2) and J3 (1 ms, worth 5).
#[test]
fn gus_takes_what_is_worth_most_when_it_would_end() {
    let tasks = || {
        let falls = Utility::Linear { height: 10 * UNIT, until: None };
        vec![Task { utility: Some(falls), ..once(0, 2, 10) }, worth(3, once(0, 1, 2)), worth(5, once(0, 1, 30))]
    };
    // The best possible is b, a, c, which is worth 3 + 7 + 5.
    earns(&aborts("gus", tasks()), "c0-1 a1-3", "b", (12, 18));
}

/// At the end of b, at 2, a would be worth nothing any more; a step would keep its height.
#[test]
fn gus_counts_a_job_that_would_be_late_for_nothing() {
    let tasks = || vec![worth(8, once(0, 2, 3)), worth(9, once(0, 2, 8)), worth(1, once(0, 2, 8))];
    earns(&continues("gus", tasks()), "b0-2 c2-4 a4-6", "a", (10, 18));
    earns(&continues("hvdf", tasks()), "b0-2 a2-4 c4-6", "a", (10, 18));
}

/// A job worth 9 that cannot be in time (9 ms, deadline 4) and leaves 2 ms of work for 3 ms; b comes at 1.
fn with_handler(worth_of_handler: u64, b: Task) -> Vec<Task> {
    let handler = Handler { runtime: ms(2), deadline: Some(ms(3)), utility: worth_of_handler * UNIT };
    vec![Task { handler: Some(handler), ..worth(9, once(0, 9, 4)) }, b]
}

#[test]
fn a_handler_competes_with_its_own_utility_and_deadline() {
    // b is as dense as 1, the handler as 1/2 or 9/2.
    let long = || worth(6, once(1, 6, 20));
    assert_eq!(aborts("hvdf", with_handler(1, long())).chart(), "a0-4x b4-10 a10-12");
    assert_eq!(aborts("hvdf", with_handler(9, long())).chart(), "a0-4x a4-6 b6-12");
    assert_eq!(aborts("np-hvdf", with_handler(1, long())).chart(), "a0-4x b4-10 a10-12");
    // Both have room.
    let short = || worth(6, once(1, 3, 20));
    for name in ["dasa-nd", "dasa", "lbesa"] {
        // `lbesa` sheds b, as the less dense one, and then a is the last job and stays.
        let chart = if name == "lbesa" { "a0-4x a4-6 b6-12" } else { "a0-1 b1-4 a4-6 b6-9" };
        assert_eq!(aborts(name, with_handler(1, long())).chart(), chart, "{name}");
        assert_eq!(aborts(name, with_handler(1, short())).chart(), "a0-1 b1-4 a4-6", "{name}");
    }
    // The utility of a handler is never accrued.
    let told = aborts("dasa", with_handler(9, short()));
    assert_eq!((accrued(&told), told.engine.totals().aborted), ((6, 15), 1));
}

#[test]
fn a_handler_that_would_be_late_is_worth_nothing() {
    // The handler is there from 3 on, worth 9 for 4 ms; b is worth 1 for as long.
    let chart = |name, deadline| {
        let handler = Handler { runtime: ms(4), deadline: Some(ms(deadline)), utility: 9 * UNIT };
        let tasks = vec![Task { handler: Some(handler), ..worth(9, once(0, 9, 3)) }, worth(1, once(3, 4, 20))];
        aborts(name, tasks).chart()
    };
    assert_eq!(chart("gus", 4), "a0-3x a3-7 b7-11");
    assert_eq!(chart("gus", 3), "a0-3x b3-7 a7-11");
    // `hvdf` does not ask when it ends.
    assert_eq!(chart("hvdf", 3), "a0-3x a3-7 b7-11");
}

#[test]
fn without_preemption_a_yielding_job_competes_again() {
    let parted = |pause| {
        let steps = [vec![run(2)], pause, vec![run(2)]].concat();
        aborts(
            "np-hvdf",
            vec![worth(1, Task { program: Program::doing(steps), ..once(0, 4, 20) }), worth(9, once(1, 1, 20))],
        )
        .chart()
    };
    assert_eq!(parted(vec![]), "a0-4 b4-5");
    assert_eq!(parted(vec![Step::Yield]), "a0-2 b2-3 a3-5");
    assert_eq!(parted(vec![Step::Sleep(ms(1))]), "a0-2 b2-3 a3-5");
}

#[test]
fn an_abort_waits_for_an_event_where_there_is_no_timer() {
    let tasks = || vec![worth(9, once(0, 9, 4)), worth(1, once(6, 1, 5))];
    earns(&aborts("hvdf", tasks()), "a0-4x b6-7", "a", (1, 10));
    let at_event = |tasks| tell(System { late: Late::AbortAtEvent, ..system(1, "hvdf", tasks) }, 50);
    earns(&at_event(tasks()), "a0-6x b6-7", "a", (1, 10));
    // Its own completion is the first event: it is late and not aborted.
    let alone = at_event(vec![worth(9, once(0, 9, 4))]);
    earns(&alone, "a0-9", "a", (0, 9));
    assert_eq!(alone.engine.totals().aborted, 0);
}

#[test]
fn partitioned_dasa_schedules_each_cpu_for_itself() {
    let on = |cpu, task: Task| Task { affinity: takt_core::cpus::CpuSet::single(cpu), ..task };
    let tasks = overload().into_iter().map(|t| on(0, t)).chain(overload().into_iter().map(|t| on(1, t)));
    let told = tell(System { late: Late::Abort, ..system(2, "p-dasa", tasks.collect()) }, 50);
    earns(&told, "b0-3 c3-5\ne0-3 f3-5", "ad", (26, 32));
}
