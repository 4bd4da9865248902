//! Schedules worked out by hand.

use super::*;
use takt_core::cpus::CpuSet;
use takt_core::input::Input;
use takt_core::scenario::Scenario;

const POSIX: Option<i64> = Some(1);

#[test]
fn the_same_requests_behind_each_server() {
    let tasks = || vec![served(&[2, 4, 12], &[1, 2, 2], (2, 5)), periodic(0, 4, 10), periodic(0, 3, 20)];
    let told = ALL.map(|name| tell(with(name, &[], tasks()), 20));
    // Polls at 0, 5, 10 and 15; between them nothing is left. While the server could run, time does the same to a periodic one.
    expect(&told[0], "b0-4 c4-5 a5-7 c7-9 a10-11 b11-15 a15-17", "");
    expect(&told[1], "b0-4 c4-5 a5-7 c7-9 a10-11 b11-15 a15-17", "");
    // At 5 the next budget is there before the second request has exhausted the first one.
    expect(&told[2], "b0-2 a2-3 b3-4 a4-6 b6-7 c7-10 b10-12 a12-14 b14-16", "");
    // 1 ms comes back at 7, and the other at 9.
    expect(&told[3], "b0-2 a2-3 b3-4 a4-5 b5-6 c6-7 a7-8 c8-10 b10-12 a12-14 b14-16", "");
    let expected = [[4, 7, 5], [4, 7, 5], [1, 2, 2], [1, 4, 2]];
    for (told, expected) in told.iter().zip(expected) {
        assert_eq!(responses(told), expected.map(ms));
    }
}

#[test]
fn time_uses_up_the_budget_of_a_periodic_server_unless_others_are_ahead() {
    // Until 2 the other task is ahead. 1 ms of 2 is left at 3.
    let tasks = || vec![served(&[3], &[2], (2, 10)), periodic(0, 2, 5)];
    expect(&tell(with("periodic-server", &[], tasks()), 14), "b0-2 a3-4 b5-7 b10-12 a12-13", "");
    expect(&tell(with("polling-server", &[], tasks()), 14), "b0-2 b5-7 b10-12 a12-14", "");
    // A job that comes at a multiple of the period finds all of it, however long the server was idle.
    let tasks = || vec![served(&[10], &[2], (2, 10)), periodic(0, 2, 5)];
    for name in ALL {
        expect(&tell(with(name, &[], tasks()), 14), "b0-2 b5-7 b10-12 a12-14", "");
    }
}

#[test]
fn a_deferrable_server_can_strike_twice_in_a_row() {
    // With the server as a periodic task the other one responds within 4 + 2 + 2 ms, which is its deadline.
    let tasks = || vec![served(&[3], &[6], (2, 5)), periodic(3, 4, 8)];
    expect(&tell(with("deferrable-server", &[], tasks()), 13), "a3-7 b7-10 a10-12 b12-13", "b");
    expect(&tell(with("sporadic-server", &[], tasks()), 13), "a3-5 b5-8 a8-10 b10-13", "");
    expect(&tell(with("polling-server", &[], tasks()), 13), "b3-5 a5-7 b7-9 a10-12 b12-13", "");
    expect(&tell(with("periodic-server", &[], tasks()), 13), "b3-5 a5-7 b7-9 a10-12 b12-13", "");
}

#[test]
fn each_part_of_a_sporadic_server_has_an_instant_of_its_own() {
    // 3 of 4 ms are used at 0. The next request comes at 4, but b is ahead of it until 10. By the rules of POSIX all of what it
    // used then, 4 ms, would be back 10 ms after it came, at 14, and it would run from 10 to 18 without a pause. Only 1 ms of that
    // was there at 4; the 3 ms that came back at 10 are there again at 20.
    let b = Task { priority: 1, ..once(4, 6, 6) };
    let tasks = || {
        vec![
            served(&[0, 4], &[3, 8], (4, 10)),
            b.clone(),
            Task { arrival: once(10, 1, 1).arrival, ..periodic(0, 5, 10) },
        ]
    };
    let told = tell(with("sporadic-server", &[Some(1)], tasks()), 30);
    expect(&told, "a0-3 b4-10 a10-15 c15-20 a20-23", "");
    let told = tell(with("sporadic-server", &[Some(1), None, None, POSIX], tasks()), 30);
    expect(&told, "a0-3 b4-10 a10-18 c18-23", "c");
}

#[test]
fn an_overrun_does_not_enlarge_a_budget() {
    // Budgets end at multiples of 4 ms: 2 ms become 4. By the rules of POSIX the 4 ms that were used are back at 10.
    let timing = Timing { resolution: ms(4), ..Timing::default() };
    let system = |name| System { timing, ..with(name, &[], vec![served(&[0], &[9], (2, 10))]) };
    expect(&tell(system("sporadic-server"), 60), "a0-4 a20-24 a40-41", "");
    let posix = System { policy: policy("sporadic-server", &[None, None, None, POSIX]), ..system("sporadic-server") };
    expect(&tell(posix, 60), "a0-4 a12-16 a24-25", "");
    // For others it is taken off the next budget, too.
    for name in &ALL[..3] {
        expect(&tell(system(name), 60), "a0-4 a20-24 a40-41", "");
    }
}

#[test]
fn a_budget_falls_into_so_many_parts_and_no_more() {
    // Four requests of 1 ms, 2 ms apart, on 4 of 20 ms: the next ones follow 20 ms later at the same distances.
    let tasks = || vec![served(&[0, 2, 4, 6, 10], &[1, 1, 1, 1, 4], (4, 20))];
    expect(&tell(with("sporadic-server", &[], tasks()), 30), "a0-1 a2-3 a4-5 a6-7 a20-21 a22-23 a24-25 a26-27", "");
    for variant in [None, POSIX] {
        let parts = |most, tasks| with("sporadic-server", &[None, None, Some(most), variant], tasks);
        // The second request uses the last one of two parts: the rest of it, 2 ms, waits for the 1 ms of the first
        // one.
        expect(&tell(parts(2, tasks()), 50), "a0-1 a2-3 a20-24 a40-42", "");
        // Undivided it is there again 20 ms after it could be used.
        expect(&tell(parts(1, tasks()), 50), "a0-1 a20-24 a40-43", "");

        // The 2 ms that are left at 3 wait for the 1 ms of 0, which is back at 10: those 3 ms are used and back at 20. The 1 ms
        // of 2 is back at 12, and used from 14 on.
        let more = || vec![served(&[0, 2, 4, 14], &[1, 1, 3, 2], (4, 10))];
        expect(&tell(parts(2, more()), 40), "a0-1 a2-3 a10-13 a14-15 a20-21", "");
        // Undivided it is all back at 10 and at 20.
        expect(&tell(parts(1, more()), 40), "a0-1 a10-14 a20-22", "");
    }
}

#[test]
fn a_server_whose_replenishments_run_out_has_no_budget() {
    for variant in [None, POSIX] {
        let system =
            |most, background, tasks| with("sporadic-server", &[None, Some(background), Some(most), variant], tasks);
        let requests = || served(&[0, 2, 9], &[1, 3, 4], (4, 10));
        // The 3 ms that are left at 1 cannot be used before the other one is back. From 10 on all 4 ms are: they are back at 20.
        let tasks = || vec![requests(), periodic(0, 8, 20)];
        expect(&tell(system(1, 0, tasks()), 40), "a0-1 b1-9 a10-14 a20-23 b23-31", "");
        // The second of two parts, used from 2 on, is back at 12.
        expect(&tell(system(2, 0, tasks()), 20), "a0-1 b1-2 a2-5 b5-10 a10-11 b11-12 a12-15 b15-16", "");
        // In the background it runs while no other job does: from 9 to 10, and from 18 to 20. At 11 it is served.
        let tasks = || vec![requests(), periodic(0, 8, 40), periodic(11, 4, 40)];
        expect(&tell(system(1, 1, tasks()), 40), "a0-1 b1-9 a9-14 c14-18 a18-20", "");
    }
}

#[test]
fn a_sleeping_task_leaves_its_server_idle() {
    let sleeps =
        Task { program: Program::doing(vec![run(1), Step::Sleep(ms(2)), run(1)]), ..served(&[0], &[2], (3, 10)) };
    let charts = ["a0-1 a10-11", "a0-1 a10-11", "a0-1 a3-4", "a0-1 a3-4"];
    for (name, chart) in ALL.into_iter().zip(charts) {
        expect(&tell(with(name, &[], vec![sleeps.clone()]), 20), chart, "");
    }
}

/// A policy that takes over in the middle of a period finds a job there, of which 3 ms remain.
#[test]
fn a_switch_to_a_server_is_like_work_that_comes_then() {
    let switched = |name: &str, at: i64| {
        let tasks = vec![served(&[1], &[at + 2], (2, 5)), periodic(0, 1, 20)];
        let system = System { alternatives: vec![policy(name, &[])], ..with("fifo", &[], tasks) };
        let to = Input::Switch { domain: None, to: 0 };
        let changes = vec![(takt_core::time::Time::ZERO + ms(at), to)];
        tell_with(system, &Scenario { changes, ..Scenario::default() }, 20)
    };
    expect(&switched("polling-server", 2), "b0-1 a1-2 a5-7 a10-11", "");
    expect(&switched("deferrable-server", 2), "b0-1 a1-4 a5-6", "");
    // As a period begins, there is a budget.
    expect(&switched("polling-server", 5), "b0-1 a1-7 a10-11", "");
}

#[test]
fn a_periodic_server_that_takes_over_without_a_job_has_the_deadline_of_the_present_period() {
    // From 12 to 14 b, with a deadline of 17, is ahead of the server, whose period ends at 20: time uses up none of its budget.
    let b = once(12, 2, 5);
    let system = System {
        alternatives: vec![policy("periodic-server", &[Some(2)])],
        ..with("fifo", &[], vec![served(&[14], &[2], (2, 10)), b])
    };
    let to = Input::Switch { domain: None, to: 0 };
    let changes = vec![(takt_core::time::Time::ZERO + ms(12), to)];
    expect(&tell_with(system, &Scenario { changes, ..Scenario::default() }, 30), "b12-14 a14-16", "");
}

#[test]
fn without_budget_the_background_is_left() {
    const BACKGROUND: &[Option<i64>] = &[None, Some(1)];
    for name in ALL {
        let tasks = || vec![served(&[0], &[4], (1, 6)), periodic(0, 2, 20)];
        expect(&tell(with(name, &[], tasks()), 20), "a0-1 b1-3 a6-7 a12-13 a18-19", "");
        // From 3 to 5 it runs because no other job does, and of the next budget nothing was used.
        let more = || vec![served(&[0, 6], &[3, 1], (1, 6)), periodic(0, 2, 20)];
        expect(&tell(with(name, BACKGROUND, more()), 20), "a0-1 b1-3 a3-5 a6-7", "");
        // In the background it comes after all others.
        let late = || vec![served(&[0], &[4], (1, 6)), periodic(3, 2, 20)];
        expect(&tell(with(name, BACKGROUND, late()), 20), "a0-3 b3-5 a5-6", "");
    }
}

#[test]
fn servers_are_ranked_like_tasks() {
    let tasks =
        |priority| vec![Task { priority, ..served(&[1], &[6], (6, 12)) }, Task { priority: 1, ..periodic(6, 5, 8) }];
    let by = |by, priority| tell(with("sporadic-server", &[Some(by)], tasks(priority)), 14);
    expect(&by(0, 2), "a1-6 b6-11 a11-12", "");
    expect(&by(1, 2), "a1-7 b7-12", "");
    expect(&by(1, 0), "a1-6 b6-11 a11-12", "");
    // The deadline of the server is 13, that of the task 14.
    expect(&by(2, 0), "a1-7 b7-12", "");
    // The deadline of the others is the next multiple of their period, 12; until 1 time has exhausted 1 ms of a periodic one.
    expect(&tell(with("deferrable-server", &[Some(2)], tasks(0)), 14), "a1-7 b7-12", "");
    expect(&tell(with("periodic-server", &[Some(2)], tasks(0)), 14), "a1-6 b6-11 a12-13", "");
}

#[test]
fn jobs_have_budgets_of_their_own_besides() {
    let limited = Task { budget: Some(ms(3)), deadline: Some(ms(90)), ..served(&[0], &[9], (2, 10)) };
    let told = tell(with("deferrable-server", &[], vec![limited, Task { budget: Some(ms(1)), ..once(3, 2, 9) }]), 40);
    expect(&told, "a0-2 b3-4x a10-11x", "ab");
}

#[test]
fn each_cpu_has_servers_of_its_own() {
    let bound = |cpu, task: Task| Task { affinity: CpuSet::single(cpu), ..task };
    let tasks = vec![
        bound(0, served(&[1], &[3], (2, 5))),
        bound(1, served(&[1], &[3], (1, 5))),
        bound(0, periodic(0, 2, 10)),
        bound(1, periodic(0, 2, 10)),
    ];
    let system = System { cpus: CpuSet::first(2), ..with("p-deferrable-server", &[], tasks) };
    expect(&tell(system, 10), "c0-1 a1-3 c3-4 a5-6\nd0-1 b1-2 d2-3 b5-6", "");
}

/// From 10 on b (due at 18) is ahead of the idle server (due at 20), whose budget waits. Nothing else happens at 10.
#[test]
fn an_idle_periodic_server_has_the_deadline_of_its_present_period() {
    for offset in [10, 11] {
        let urgent = Task { deadline: Some(ms(18 - offset)), ..periodic(offset, 3, 40) };
        let tasks = vec![served(&[14], &[4], (4, 10)), urgent];
        let expected = if offset == 10 { "b10-13 a14-17 a20-21" } else { "b11-14 a14-17 a20-21" };
        expect(&tell(with("periodic-server", &[Some(2)], tasks), 24), expected, "");
    }
}
