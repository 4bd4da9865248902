//! Schedules worked out by hand.

use super::*;

/// One job whose server has this budget and period.
fn served(release: i64, runtime: i64, deadline: i64, reserved: (i64, i64)) -> Task {
    Task { reservation: Some(reservation(reserved)), ..once(release, runtime, deadline) }
}

/// Jobs at these instants, each of so long as the next of `lengths`.
fn jobs(releases: &[i64], lengths: &[i64], deadline: i64, reserved: (i64, i64)) -> Task {
    Task {
        arrival: Arrival::Listed { instants: releases.iter().map(|r| ms(*r)).collect() },
        program: Program::needing(Execution::Series(lengths.iter().map(|l| ms(*l)).collect())),
        ..served(0, 1, deadline, reserved)
    }
}

fn with(name: &str, values: &[Option<i64>], tasks: Vec<Task>) -> System {
    System { policy: policy(name, values), ..system(1, name, tasks) }
}

/// A critical section of so long.
fn locks(length: i64) -> Vec<Step> {
    vec![Step::Lock(ResourceId(0)), run(length), Step::Unlock(ResourceId(0))]
}

const HARD: &[Option<i64>] = &[Some(1)];
const LITERAL: &[Option<i64>] = &[Some(1)];

#[test]
fn only_an_overrunning_job_falls_behind() {
    let film = Task { reservation: Some(reservation((4, 10))), ..periodic(6, 10) };
    let told = tell(with("cbs", &[], vec![film, periodic(6, 10)]), 20);
    // At 4 the film's deadline becomes 20. At 10 it is the earlier release of two with that deadline; its next job continues with the
    // 2 ms that are left at 12, and has a deadline of 30 from 14.
    expect(&told, "a0-4 b4-10 a10-14 b14-20", "a");
}

#[test]
fn a_soft_server_continues_and_a_hard_one_waits_on_an_idle_cpu() {
    let one = || vec![served(0, 5, 20, (2, 5))];
    expect(&tell(with("cbs", &[], one()), 20), "a0-5", "");
    expect(&tell(with("cbs", HARD, one()), 20), "a0-2 a5-7 a10-11", "");
}

#[test]
fn a_wake_up_with_exactly_its_share_renews_or_keeps_the_budget() {
    // At 4 the first server has 2 of 4 ms left, and 4 of 8 ms until its deadline.
    let tasks = || vec![jobs(&[0, 4], &[2, 3], 20, (4, 8)), served(4, 1, 20, (1, 9))];
    let renewed = "a0-2 a4-7 b7-8";
    // After 2 ms its deadline is 16, and that of the other server is 13.
    let kept = "a0-2 a4-6 b6-7 a7-8";
    expect(&tell(with("cbs", &[], tasks()), 20), renewed, "");
    expect(&tell(with("cbs", &[None, Some(1)], tasks()), 20), renewed, "");
    expect(&tell(with("cbs", &[None, Some(2)], tasks()), 20), kept, "");
    expect(&tell(with("cbs", &[Some(1), Some(1)], tasks()), 20), renewed, "");
    // A hard one that keeps its 2 ms is throttled at 6, and has another 4 at its deadline.
    expect(&tell(with("cbs", HARD, tasks()), 20), "a0-2 a4-6 b6-7 a8-9", "");
}

#[test]
fn a_job_that_slept_wakes_its_server_up_as_a_new_one_does() {
    let sleeps = Task { program: Program::doing(vec![run(2), Step::Sleep(ms(2)), run(3)]), ..served(0, 5, 20, (4, 8)) };
    let tasks = || vec![sleeps.clone(), served(4, 1, 20, (1, 9))];
    expect(&tell(with("cbs", &[], tasks()), 20), "a0-2 a4-7 b7-8", "");
    expect(&tell(with("cbs", &[None, Some(2)], tasks()), 20), "a0-2 a4-6 b6-7 a7-8", "");
}

#[test]
fn a_job_that_sleeps_loses_its_gift() {
    // b lags with a deadline of 20 when a leaves 3 ms at 5, with a deadline of 12. It sleeps from 6 on, and at 7 has its own
    // deadline again, which is behind that of c.
    let b = Task { program: Program::doing(vec![run(3), Step::Sleep(ms(1)), run(2)]), ..served(0, 5, 20, (2, 10)) };
    let tasks = || vec![served(2, 3, 20, (6, 10)), b.clone(), served(2, 3, 20, (3, 15))];
    expect(&tell(with("fcbs", &[], tasks()), 40), "b0-2 a2-5 b5-6 c6-9 b9-11", "");
}

#[test]
fn late_wake_ups_renew_the_budget_and_early_ones_keep_it() {
    // At 3 there are 2 ms left for 5 ms, which is less than a half; at 6 two for two are more.
    let tasks = |at| vec![jobs(&[0, at], &[2, 3], 20, (4, 8)), served(at, 1, 20, (1, 9))];
    expect(&tell(with("cbs", &[], tasks(3)), 20), "a0-2 a3-5 b5-6 a6-7", "");
    expect(&tell(with("cbs", &[], tasks(6)), 20), "a0-2 a6-9 b9-10", "");
}

#[test]
fn a_budget_that_ends_with_its_job_is_not_replenished_before_the_next_one() {
    // The first job ends with its budget at 4. At 6 the server has nothing until 8: soft it takes the next budget, with a deadline
    // of 16, which comes behind 15.
    let tasks = || vec![jobs(&[0, 6], &[4, 2], 20, (4, 8)), served(6, 3, 20, (3, 9))];
    expect(&tell(with("cbs", &[], tasks()), 20), "a0-4 b6-9 a9-11", "");
    expect(&tell(with("cbs", HARD, tasks()), 20), "a0-4 b6-9 a9-11", "");
}

#[test]
fn an_overrun_that_is_noticed_late_is_paid_for() {
    // Budgets end at multiples of 4 ms: 3 ms become 4, and then 2 are left of the next 3, which end at 8 or 12.
    let tasks = vec![served(0, 9, 90, (3, 10))];
    let timing = Timing { resolution: ms(4), ..Timing::default() };
    let told = tell(System { timing, ..with("cbs", HARD, tasks) }, 60);
    // 4 ms from 0, one too much; from 12, when the end of throttling at 10 is noticed, 2 ms are left, which end at 16: two too
    // much, so that 1 ms is left at 20, and the job needs just that.
    expect(&told, "a0-4 a12-16 a20-21", "");
}

#[test]
fn an_overrun_is_paid_for_by_the_budget_that_came_while_the_server_had_no_job() {
    // 3 ms become 4. At 10 it has 2 ms until 20, which at 12 are less than its share of 3 in 10: they are kept, and exhausted at
    // 14. At 16 they would be more, and it begins again with 3.
    let timing = Timing { resolution: ms(2), ..Timing::default() };
    let at = |at| vec![jobs(&[0, at], &[4, 3], 90, (3, 10))];
    let told = |tasks| tell(System { timing, ..with("cbs", HARD, tasks) }, 60);
    expect(&told(at(12)), "a0-4 a12-14 a20-21", "");
    expect(&told(at(16)), "a0-4 a16-19", "");
}

#[test]
fn a_yield_returns_the_budget_of_a_hard_server() {
    let steps = vec![run(1), Step::Yield, run(2)];
    let tasks =
        || vec![Task { program: Program::doing(steps.clone()), ..served(0, 3, 30, (4, 8)) }, served(0, 2, 20, (4, 9))];
    expect(&tell(with("cbs", HARD, tasks()), 20), "a0-1 b1-3 a8-10", "");
    // A soft one stays the first of all.
    expect(&tell(with("cbs", &[], tasks()), 20), "a0-3 b3-5", "");
}

#[test]
fn jobs_have_budgets_of_their_own_besides() {
    let limited = Task { budget: Some(ms(3)), ..served(0, 9, 90, (2, 10)) };
    expect(&tell(with("cbs", &[], vec![limited, served(0, 4, 90, (4, 15))]), 60), "a0-2 b2-6 a6-7x", "a");
}

#[test]
fn a_bonus_is_not_for_a_server_with_an_earlier_deadline() {
    // 40 of 100, of which 30 are left at 10 and 20 at 20; 5 of 10, which overruns then; 1 of 10 at 21, with a deadline of 31.
    let tasks = || vec![served(0, 10, 100, (40, 100)), served(20, 50, 300, (5, 10)), served(21, 1, 10, (1, 10))];
    let literal = tell(with("fcbs", LITERAL, tasks()), 100);
    expect(&literal, "a0-10 b20-45 c45-46 b46-71", "c");
    let resolved = tell(with("fcbs", &[], tasks()), 100);
    expect(&resolved, "a0-10 b20-25 c25-26 b26-71", "");
}

#[test]
fn a_bonus_shrinks_while_its_cpu_is_idle() {
    // 6 ms are left at 4, 3 of them at 7, which is when a job of 5 ms comes for a server of 2 in 10: it has 5 ms until 17.
    let tasks = || vec![served(0, 4, 30, (10, 16)), served(7, 5, 30, (2, 10)), served(8, 2, 30, (2, 14))];
    expect(&tell(with("fcbs", &[], tasks()), 40), "a0-4 b7-12 c12-14", "");
    // Without it the third server's deadline of 22 is before 27.
    expect(&tell(with("cbs", &[], tasks()), 40), "a0-4 b7-9 c9-11 b11-14", "");
}

#[test]
fn a_server_that_wakes_up_as_a_job_ends_gets_what_that_leaves() {
    // b preempts a at 1 and blocks. a is aborted at 4 and leaves 2 ms until 12; b wakes up with 2 ms until 13, and has 4 with these.
    let a = Task { program: Program::doing(locks(9)), ..served(0, 9, 4, (6, 12)) };
    let b = Task { program: Program::doing(locks(4)), ..served(1, 4, 20, (2, 9)) };
    let tasks = || vec![a.clone(), b.clone(), served(5, 2, 20, (2, 9))];
    let told = |name| tell(System { late: Late::Abort, ..with(name, &[], tasks()) }, 20);
    expect(&told("fcbs"), "a0-1 a1-4x b4-8 c8-10", "a");
    // Under CBS b has a deadline of 22 from 6 on, behind 14.
    expect(&told("cbs"), "a0-1 a1-4x b4-6 c6-8 b8-10", "a");
}

#[test]
fn slack_goes_to_a_lagging_server_with_the_donors_deadline() {
    // b uses up its 2 ms until 2, and lags from then on: its deadline is 20. a leaves 3 ms at 8, with a deadline of 12.
    let tasks = || vec![served(2, 3, 20, (6, 10)), served(0, 5, 10, (2, 10)), served(2, 3, 20, (3, 15))];
    // Under CBS c, with a deadline of 17, comes before b.
    expect(&tell(with("cbs", &[], tasks()), 40), "b0-2 a2-5 c5-8 b8-11", "b");
    expect(&tell(with("fcbs", &[], tasks()), 40), "b0-2 a2-5 b5-8 c8-11", "");
}

#[test]
fn donated_slack_is_no_longer_available() {
    // a leaves 4 ms at 2, for b. Its next job at 3 has nothing until 12, so that its deadline is 24; literally it has 4 ms until
    // 12.
    let tasks = || vec![jobs(&[0, 3], &[2, 4], 40, (6, 12)), served(0, 6, 40, (2, 12)), served(3, 2, 40, (2, 12))];
    expect(&tell(with("fcbs", &[], tasks()), 40), "a0-2 b2-8 c8-10 a10-14", "");
    expect(&tell(with("fcbs", LITERAL, tasks()), 40), "a0-2 b2-8 a8-12 c12-14", "");
}

#[test]
fn gifts_stay_on_their_cpu_where_tasks_do() {
    // a leaves 8 ms at 2. Globally they are b's, so that it stays ahead of d; if c and d have to share a CPU with b, it does not.
    let tasks = || {
        vec![
            served(0, 2, 40, (10, 12)),
            served(0, 6, 40, (2, 12)),
            served(1, 6, 40, (6, 12)),
            served(1, 6, 40, (4, 12)),
        ]
    };
    let global = with("g-fcbs", &[], tasks());
    expect(&tell(System { cpus: CpuSet::first(2), ..global }, 40), "a0-2 c2-8\nb0-6 d6-12", "");
    let bound = tasks().into_iter().enumerate();
    let bound = bound.map(|(k, task)| Task { affinity: CpuSet::single(usize::from(k > 0)), ..task });
    let partitioned = with("p-fcbs", &[], bound.collect());
    expect(
        &tell(System { cpus: CpuSet::first(2), ..partitioned }, 40),
        "a0-2\nb0-2 c2-8 d8-12 b12-14 d14-16 b16-18",
        "",
    );
}

#[test]
fn a_budget_drains_at_the_rate_of_the_active_servers() {
    // The kernel's example: two servers of 4 in 8. The first stops at 2 and is active until 4, after which the other one's last 2
    // ms last for 4.
    let tasks = || vec![served(0, 2, 20, (4, 8)), served(0, 8, 20, (4, 8))];
    expect(&tell(with("grub", HARD, tasks()), 20), "a0-2 b2-10", "");
    expect(&tell(with("cbs", HARD, tasks()), 20), "a0-2 b2-6 b8-12", "");
}

#[test]
fn a_wake_up_before_the_0_lag_time_keeps_the_budget_and_after_it_renews_it() {
    // a is active until 4. At 5 its next job finds b with 1.5 ms, and takes its part of the rate again: b has used 4.5 ms at 6.5.
    let tasks = |at| vec![jobs(&[0, at], &[2, 2], 20, (4, 8)), served(0, 6, 20, (4, 8))];
    expect(&tell(with("grub", HARD, tasks(5)), 20), "a0-2 b2-6.5ms a6.5ms-8.5ms b8.5ms-10", "");
    // At 3 a has its 2 ms until 8, and b no more than its 4.
    expect(&tell(with("grub", HARD, tasks(3)), 20), "a0-2 b2-6 a6-8 b8-10", "");
}

#[test]
fn a_hard_server_that_is_active_after_its_deadline_renews_its_budget() {
    // Timers expire at 16, so the server of a, with a 0-lag time of 4, is still active at 10: 2 ms remain, and its deadline is 8. A
    // soft server keeps both. A hard one receives a budget with a deadline of 18, and the deadline of b is 16.
    let timing = Timing { resolution: ms(16), ..Timing::default() };
    let tasks = || vec![jobs(&[0, 10], &[2, 2], 20, (4, 8)), jobs(&[0, 10], &[4, 1], 20, (4, 8))];
    let told = |values| tell(System { timing, ..with("grub", values, tasks()) }, 20);
    expect(&told(HARD), "a0-2 b2-6 b10-11 a11-13", "");
    expect(&told(&[]), "a0-2 b2-6 a10-12 b12-13", "");
}

#[test]
fn a_job_that_ends_with_a_resource_is_charged_at_the_rate_before_the_next_holder_wakes() {
    let a = Task { program: Program::doing(locks(9)), ..jobs(&[0, 5], &[9, 9], 4, (4, 8)) };
    let b = Task { program: Program::doing(locks(1)), ..served(1, 1, 20, (1, 4)) };
    let tasks = vec![a, b, served(0, 3, 20, (4, 16))];
    let told = tell(System { late: Late::Abort, ..with("grub", HARD, tasks) }, 20);
    // At 1 b preempts a and blocks, and is inactive from then on: its whole budget is its share of the time until 5. The rate is
    // 1/2 + 1/4 until a is aborted at 4, so that a has 1 ms left until 8. At 4 b wakes, and the rate is 1: a runs from 5 to 6, and
    // is throttled until 8. Its next deadline is 16, as that of c, which was released earlier.
    expect(&told, "a0-1 a1-4x b4-5 a5-6 c6-9", "a");
}

#[test]
fn on_several_cpus_a_budget_drains_no_slower_than_at_its_share() {
    // Two of 6 in 8 on two CPUs: both active, the rate is (3/2 + 3/4) / 2, but no more than 1; one active, it is 3/4.
    let tasks = vec![served(0, 2, 20, (6, 8)), served(0, 9, 20, (6, 8))];
    let system = System { cpus: CpuSet::first(2), ..with("g-grub", HARD, tasks) };
    // a is active until 8 - 4 / (3/4) = 2.667, and b's budget of 3.333 then lasts until 7.111, where it waits for its deadline.
    let told = tell(system, 20);
    expect(&told, "a0-2\nb0-7111.111us b8-9888.889us", "");
}

#[test]
fn shares_whose_periods_have_no_common_multiple_are_rounded_up() {
    // The periods are primes beyond 2^29 ns.
    let prime = |p: i64| Reservation::new(ms(250), Span::from_ns(p));
    let with_prime = |p: i64, task: Task| Task { reservation: Some(prime(p)), ..task };
    let tasks = vec![
        with_prime(536_870_923, once(0, 100, 600)),
        with_prime(536_870_951, once(0, 200, 600)),
        with_prime(536_870_969, once(1_000, 100, 600)),
    ];
    expect(&tell(with("grub", HARD, tasks), 2_000), "a0-100 b100-300 c1000-1100", "");
}

#[test]
fn a_job_that_its_own_budget_ends_is_charged_once() {
    // At 4 both budgets of the film are exhausted. Its handler continues with the next one of the server, whose deadline is 20.
    let film = Task {
        reservation: Some(reservation((4, 10))),
        program: Program::needing(Execution::Series(vec![ms(9)])),
        budget: Some(ms(4)),
        handler: Some(Handler { runtime: ms(1), deadline: None, utility: 0 }),
        ..once(0, 4, 30)
    };
    let told = tell(with("cbs", &[], vec![film, periodic(5, 25)]), 25);
    assert_eq!(told.chart(), "a0-4x a4-5 b5-10");
}
