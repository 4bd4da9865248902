//! The behaviour of a window table, line by line. The expected sequences are worked out by hand from the rules of the DEmOS
//! thesis (sections 3.2 and 3.5), not recorded from a run.

mod common;

use common::{Outcomes, scene};
use takt_core::record::RecordKind;
use takt_core::stats::Counts;
use takt_core::time::Span;

/// Compares after trimming what the indentation of the test adds.
#[track_caller]
fn expect(system: &str, expected: &str) -> Outcomes {
    let outcomes = scene(system).run();
    let expected: String = expected.lines().map(str::trim).filter(|l| !l.is_empty()).flat_map(|l| [l, "\n"]).collect();
    assert!(outcomes.lines == expected, "expected\n{expected}but was\n{}", outcomes.lines);
    outcomes
}

#[test]
fn a_process_runs_until_its_budget_is_used_once_per_window() {
    let o = expect(
        "process a 40
         partition P a
         window 100
         slice 0 sc P
         until 200",
        "0 window 0
         0 start a on 0
         40 finish a budget-used
         100 window 0
         100 start a on 0
         140 finish a budget-used",
    );
    // It never signals, so it has activations and no jobs.
    assert_eq!(o.counts, [Counts { activations: 2, dispatches: 2, jobless: true, ..Counts::default() }]);
}

#[test]
fn the_end_of_the_window_cuts_off_the_running_and_the_never_started() {
    for completion in ["", "completion signal"] {
        let o = expect(
            &format!(
                "process a 60 {completion}
                 process b 60 {completion}
                 process c 10 {completion}
                 partition P a b c
                 window 100
                 slice 0 sc P
                 until 200"
            ),
            "0 window 0
             0 start a on 0
             60 finish a budget-used
             60 start b on 0
             100 finish b overrun
             100 finish c overrun
             100 window 0
             100 start a on 0
             160 finish a budget-used
             160 start b on 0
             200 finish b overrun
             200 finish c overrun",
        );
        let activations = |c: &Counts| (c.activations, c.overruns);
        assert_eq!(o.counts.iter().map(activations).collect::<Vec<_>>(), [(2, 0), (2, 2), (2, 2)]);
        // Each has one job, which no activation has completed; without signals there is none.
        let jobs = if completion.is_empty() { [0; 5] } else { [3, 0, 0, 3, 6] };
        let t = o.totals;
        assert_eq!([t.released, t.completed, t.met, t.missed, t.cut_off], jobs, "{completion}");
    }
}

#[test]
fn a_budget_that_ends_with_its_window_is_used_and_not_overrun() {
    let o = expect(
        "process a 40
         process b 60
         partition P a b
         window 100
         slice 0 sc P
         until 200",
        "0 window 0
         0 start a on 0
         40 finish a budget-used
         40 start b on 0
         100 finish b budget-used
         100 window 0
         100 start a on 0
         140 finish a budget-used
         140 start b on 0
         200 finish b budget-used",
    );
    assert_eq!((o.totals.activations, o.totals.overruns, o.totals.released), (4, 0, 0));
}

#[test]
fn two_safety_critical_slices_run_side_by_side() {
    expect(
        "cpus 3
         process a 30
         process b 50
         process c 20
         partition P a c
         partition Q b
         window 100
         slice 0 sc P
         slice 1-2 sc Q
         until 100",
        "0 window 0
         0 start a on 0
         0 start b on 1-2
         30 finish a budget-used
         30 start c on 0
         50 finish b budget-used
         50 finish c budget-used",
    );
}

const BESIDE: &str = "cpus 2
     process a 30
     process b 50
     process c 45
     partition P a
     partition Q b
     partition R c
     window 100
     slice 0 sc P be R
     slice 1 sc Q
     until 100";

#[test]
fn best_effort_waits_for_all_safety_critical_slices_of_its_window() {
    expect(
        BESIDE,
        "0 window 0
         0 start a on 0
         0 start b on 1
         30 finish a budget-used
         50 finish b budget-used
         50 start c on 0
         95 finish c budget-used",
    );
}

#[test]
fn best_effort_may_be_told_to_wait_for_its_own_slice_only() {
    expect(
        &format!("be_start slice\n{BESIDE}"),
        "0 window 0
         0 start a on 0
         0 start b on 1
         30 finish a budget-used
         30 start c on 0
         50 finish b budget-used
         75 finish c budget-used",
    );
}

#[test]
fn a_best_effort_process_has_one_turn_per_window() {
    expect(
        "process c 30
         partition R c
         window 100
         slice 0 be R
         until 200",
        "0 window 0
         0 start c on 0
         30 finish c budget-used
         100 window 0
         100 start c on 0
         130 finish c budget-used",
    );
}

#[test]
fn a_best_effort_process_continues_with_the_rest_of_its_budget_in_its_next_window() {
    let o = expect(
        "process c 150
         partition R c
         window 100
         slice 0 be R
         window 50
         until 350",
        "0 window 0
         0 start c on 0
         100 window 1
         100 stop c suspended
         150 window 0
         150 start c on 0
         200 finish c budget-used
         250 window 1
         300 window 0
         300 start c on 0
         350 stop c suspended",
    );
    assert_eq!((o.totals.activations, o.totals.released), (2, 0));
}

#[test]
fn best_effort_over_windows_of_2_and_3_ms() {
    // c (4 ms) and d (2 ms) take turns. d is interrupted at 5 and comes first in the next window, c after it; what is
    // interrupted by a window that is its partition's again runs through.
    expect(
        "process c 4
         process d 2
         partition R c d
         window 2
         slice 0 be R
         window 3
         slice 0 be R
         until 14",
        "0 window 0
         0 start c on 0
         2 window 1
         4 finish c budget-used
         4 start d on 0
         5 window 0
         6 finish d budget-used
         6 start c on 0
         7 window 1
         10 finish c budget-used
         10 window 0
         10 start d on 0
         12 finish d budget-used
         12 window 1
         12 start c on 0
         14 stop c suspended",
    );
}

#[test]
fn best_effort_processes_take_turns_and_the_interrupted_one_is_first() {
    expect(
        "process a 10
         process c 30
         process d 40
         process e 10
         partition P a
         partition R c d e
         window 60
         slice 0 sc P be R
         until 180",
        "0 window 0
         0 start a on 0
         10 finish a budget-used
         10 start c on 0
         40 finish c budget-used
         40 start d on 0
         60 window 0
         60 stop d preempted
         60 start a on 0
         70 finish a budget-used
         70 start d on 0
         90 finish d budget-used
         90 start e on 0
         100 finish e budget-used
         100 start c on 0
         120 window 0
         120 stop c preempted
         120 start a on 0
         130 finish a budget-used
         130 start c on 0
         140 finish c budget-used
         140 start d on 0
         180 finish d budget-used",
    );
}

#[test]
fn a_partition_can_be_safety_critical_here_and_best_effort_there() {
    // In window 1 the turn is a's, the one after b, and its 60 ms do not fit. In window 0 the
    // partition starts again, with its first process and a full budget; what a had left over is given up.
    expect(
        "process a 60
         process b 20
         partition P a b
         window 100
         slice 0 sc P
         window 50
         slice 0 be P
         until 211",
        "0 window 0
         0 start a on 0
         60 finish a budget-used
         60 start b on 0
         80 finish b budget-used
         100 window 1
         100 start a on 0
         150 window 0
         150 finish a budget-used
         150 start a on 0
         210 finish a budget-used
         210 start b on 0
         211 stop b suspended",
    );
}

#[test]
fn draws_are_uniform_and_a_draw_of_zero_skips_its_window() {
    // A budget of 1 ns ± 1 ns draws 0, 1 or 2 ns; a window has 4 ns.
    let run = |side: &str| {
        let o = scene(&format!(
            "process a 0.000001 jitter 0.000002
             partition P a
             window 0.000004
             slice 0 {side} P
             until 0.012"
        ))
        .run();
        let budgets = o.records.iter().filter_map(|r| match r.kind {
            RecordKind::Budget { amount, .. } => amount,
            _ => None,
        });
        let of = |ns| budgets.clone().filter(|b| *b == Span::from_ns(ns)).count();
        // A draw of zero uses up a number, but is no activation.
        let last = o.records.iter().filter_map(|r| match r.kind {
            RecordKind::Release { job, .. } => Some(job),
            _ => None,
        });
        (of(1), of(2), budgets.clone().count(), o.totals, last.max().unwrap())
    };
    for side in ["sc", "be"] {
        let (ones, twos, all, totals, last) = run(side);
        assert!((900..1100).contains(&ones) && (900..1100).contains(&twos), "{side}: {ones} and {twos} of 3000");
        assert_eq!((all, totals.activations, totals.overruns), (ones + twos, all as u64, 0), "{side}");
        assert!((2990..3000).contains(&last), "{side}: {last} is the last of 3000");
    }
}

#[test]
fn completion_before_the_budget_frees_the_cpu() {
    let o = expect(
        "process a 40 runtime 10
         process b 30
         process c 100 runtime 25
         partition P a b
         partition R c
         window 100
         slice 0 sc P be R
         until 100",
        "0 window 0
         0 start a on 0
         10 finish a completed
         10 start b on 0
         40 finish b budget-used
         40 start c on 0
         65 finish c completed",
    );
    let jobs = |c: &Counts| (c.jobless, c.activations, c.released, c.completed, c.met);
    let expected = [(false, 1, 1, 1, 1), (true, 1, 0, 0, 0), (false, 1, 1, 1, 1)];
    assert_eq!(o.counts.iter().map(jobs).collect::<Vec<_>>(), expected);
}

#[test]
fn a_late_signal_belongs_to_the_job_that_is_over() {
    // At 85 no activation of a is left to end, but its job is completed. At 110 its next activation waits for b and has not run.
    let o = expect(
        "process b 40
         process a 40
         partition P b a
         window 100
         slice 0 sc P
         at 85 complete a
         at 110 complete a
         at 150 complete a
         until 200",
        "0 window 0
         0 start b on 0
         40 finish b budget-used
         40 start a on 0
         80 finish a budget-used
         85 late-signal a of job 0
         100 window 0
         100 start b on 0
         110 late-signal a of job 0
         140 finish b budget-used
         140 start a on 0
         150 finish a completed",
    );
    // The first job was cut off and completed late, the second one completed in time; b has no jobs.
    let a = o.counts[1];
    assert_eq!((a.late_signals, a.activations, a.cut_off), (2, 2, 1));
    assert_eq!((a.released, a.completed, a.met, a.missed), (2, 2, 1, 1));
    assert!(o.counts[0].jobless && o.counts[0].activations == 2, "{:?}", o.counts[0]);
}

#[test]
fn a_stall_loses_windows_and_nothing_is_replayed() {
    // Back at 370, the driver is in the fourth window; a can only have the rest of it.
    let o = expect(
        "process a 40
         partition P a
         window 100
         slice 0 sc P
         stall 50 370
         until 450",
        "0 window 0
         0 start a on 0
         40 finish a budget-used
         370 lost 2
         370 window 0
         370 start a on 0
         400 finish a overrun
         400 window 0
         400 start a on 0
         440 finish a budget-used",
    );
    assert_eq!((o.windows_lost, o.totals.activations, o.totals.overruns), (2, 3, 1));
}

#[test]
fn a_late_start_loses_windows() {
    let o = expect(
        "process a 40
         partition P a
         window 100
         slice 0 sc P
         stall 0 370
         until 450",
        "370 lost 3
         370 window 0
         370 start a on 0
         400 finish a overrun
         400 window 0
         400 start a on 0
         440 finish a budget-used",
    );
    assert_eq!((o.windows_lost, o.totals.activations, o.totals.overruns), (3, 2, 1));
}

#[test]
fn a_process_that_ran_on_while_the_driver_was_late_gets_no_second_window() {
    // The budget ended at 40 and the window at 100; both are noticed at 130.
    expect(
        "process a 40
         process b 10
         partition P a b
         window 100
         slice 0 sc P
         stall 30 130
         until 200",
        "0 window 0
         0 start a on 0
         130 finish a budget-used
         130 finish b overrun
         130 window 0
         130 start a on 0
         170 finish a budget-used
         170 start b on 0
         180 finish b budget-used",
    );
}

#[test]
fn an_ended_process_frees_the_cpu_for_good() {
    let o = expect(
        "process a 40
         process b 40 completion signal
         partition P a b
         window 100
         slice 0 sc P
         at 20 exit a
         until 200",
        "0 window 0
         0 start a on 0
         20 finish a exited
         20 exit a
         20 start b on 0
         60 finish b budget-used
         100 window 0
         100 start b on 0
         140 finish b budget-used",
    );
    assert_eq!((o.counts[0].activations, o.counts[0].released), (1, 0));
    let b = o.counts[1];
    assert_eq!((b.activations, b.cut_off, b.released, b.missed), (2, 2, 1, 1));
}

#[test]
fn a_process_that_ends_before_its_turn_is_passed_over() {
    let system = |ends: &str| {
        format!(
            "process a 40
             process b 40 completion signal
             process c 10 completion signal
             partition P a b c
             window 100
             slice 0 sc P
             at 20 {ends} b
             at 30 abort c
             until 200"
        )
    };
    let o = expect(
        &system("exit"),
        "0 window 0
         0 start a on 0
         20 finish b exited
         20 exit b
         30 finish c aborted
         40 finish a budget-used
         100 window 0
         100 start a on 0
         140 finish a budget-used
         140 start c on 0
         150 finish c budget-used",
    );
    // One that ends regularly has no job to be judged by. An aborted activation that never began leaves no job behind.
    assert_eq!((o.counts[1].activations, o.counts[1].released, o.counts[1].missed), (1, 0, 0));
    let c = o.counts[2];
    assert_eq!((c.activations, c.cut_off, c.released, c.missed, c.aborted), (2, 1, 2, 2, 1));
    // One that fails misses its job, and one in each further window.
    let o = expect(
        &system("fail"),
        "0 window 0
         0 start a on 0
         20 finish b skipped
         20 exit b failed
         30 finish c aborted
         40 finish a budget-used
         100 window 0
         100 finish b skipped
         100 start a on 0
         140 finish a budget-used
         140 start c on 0
         150 finish c budget-used",
    );
    assert_eq!((o.counts[1].activations, o.counts[1].released, o.counts[1].missed), (1, 2, 2));
}

#[test]
fn an_idle_window_is_idle() {
    expect(
        "process a 40
         process c 500
         partition P a
         partition R c
         window 100
         slice 0 sc P be R
         window 50
         until 200",
        "0 window 0
         0 start a on 0
         40 finish a budget-used
         40 start c on 0
         100 window 1
         100 stop c suspended
         150 window 0
         150 start a on 0
         190 finish a budget-used
         190 start c on 0
         200 stop c suspended",
    );
}

#[test]
fn windows_below_a_millisecond() {
    expect(
        "process a 0.1
         process b 0.05
         partition P a
         partition Q b
         window 0.25
         slice 0 sc P
         window 0.0625
         slice 0 sc Q
         until 0.625",
        "0 window 0
         0 start a on 0
         0.1 finish a budget-used
         0.25 window 1
         0.25 start b on 0
         0.3 finish b budget-used
         0.3125 window 0
         0.3125 start a on 0
         0.4125 finish a budget-used
         0.5625 window 1
         0.5625 start b on 0
         0.6125 finish b budget-used",
    );
}

#[test]
fn a_guest_policy_makes_room_for_best_effort_when_it_has_nothing_ready() {
    // y (8 ms of 40) is urgent only after x (3 ms of 10); c has what they leave, and nothing but its own window.
    expect(
        "task x period 10 runtime 3
         task y period 40 runtime 8
         process c 100
         partition E x y policy edf
         partition R c
         window 20
         slice 0 sc E be R
         window 5
         until 30",
        "0 window 0
         0 start x on 0
         3 finish x completed
         3 start y on 0
         10 stop y preempted
         10 start x on 0
         13 finish x completed
         13 start y on 0
         14 finish y completed
         14 start c on 0
         20 window 1
         20 stop c suspended
         25 window 0
         25 start x on 0
         28 finish x completed
         28 start c on 0
         30 stop c suspended",
    );
}

#[test]
fn a_guest_under_best_effort_runs_only_after_the_safety_critical_side() {
    // x is released at 0 and 10, y at 5; both wait for a, which has the first 6 ms of each window of 10.
    expect(
        "process a 6
         task x period 10 runtime 2
         task y period 20 offset 5 runtime 3
         partition P a
         partition E x y policy edf
         window 10
         slice 0 sc P be E
         until 20",
        "0 window 0
         0 start a on 0
         6 finish a budget-used
         6 start x on 0
         8 finish x completed
         8 start y on 0
         10 window 0
         10 stop y preempted
         10 start a on 0
         16 finish a budget-used
         16 start x on 0
         18 finish x completed
         18 start y on 0
         19 finish y completed",
    );
}

#[test]
fn the_slice_waits_for_a_blocked_process_whose_turn_it_is() {
    // Waiting does not use the budget, but the window does not wait: b has 10 ms left of it.
    let o = expect(
        "process a 40
         process b 40
         process c 40
         partition P a b
         partition R c
         window 100
         slice 0 sc P be R
         at 10 block a
         at 60 wake a
         until 110",
        "0 window 0
         0 start a on 0
         10 block a
         10 stop a blocked
         60 wake a
         60 start a on 0
         90 finish a budget-used
         90 start b on 0
         100 finish b overrun
         100 window 0
         100 start a on 0
         110 stop a suspended",
    );
    assert_eq!(o.totals.overruns, 1);
}

#[test]
fn a_budget_that_ends_as_its_process_blocks_is_used_up() {
    expect(
        "process a 40
         process b 40
         partition P a b
         window 100
         slice 0 sc P
         at 40 block a
         until 100",
        "0 window 0
         0 start a on 0
         40 block a
         40 finish a budget-used
         40 start b on 0
         80 finish b budget-used",
    );
}

#[test]
fn a_resource_is_handed_on_in_the_order_of_asking() {
    expect(
        "cpus 3
         policy g-fp
         resources 1
         locking fifo
         task a period 100 priority 1
         task b period 100 priority 2
         task c period 100 priority 3
         at 1 request a 0
         at 2 request b 0
         at 3 request c 0
         at 3.5 return b 0
         at 4 return a 0
         at 5 return b 0
         at 6 complete c
         at 7 request a 0
         until 8",
        "0 start c on 0
         0 start b on 1
         0 start a on 2
         1 grant a
         2 wait b
         2 block b
         2 stop b blocked
         3 wait c
         3 block c
         3 stop c blocked
         4 return a
         4 grant b
         4 wake b
         4 start b on 1
         5 return b
         5 grant c
         5 wake c
         5 start c on 0
         6 finish c completed
         6 return c
         7 grant a
         8 stop a suspended
         8 stop b suspended",
    );
}

#[test]
fn a_waiter_lets_the_next_run_and_returns() {
    // One CPU: b (more important) preempts a, which holds the resource, and gives the CPU back while it waits.
    expect(
        "policy fp
         resources 2
         task a period 100 priority 1
         task b period 100 offset 5 priority 2
         at 1 request a 0
         at 6 request b 0
         at 7 request b 1
         at 7 wake b
         at 9 return a 0
         at 12 exit b
         until 13",
        "0 start a on 0
         1 grant a
         5 stop a preempted
         5 start b on 0
         6 wait b
         6 block b
         6 stop b blocked
         6 start a on 0
         9 return a
         9 grant b
         9 wake b
         9 stop a preempted
         9 start b on 0
         12 finish b completed
         12 return b
         12 exit b
         12 start a on 0
         13 stop a suspended",
    );
}

#[test]
fn a_request_without_a_job_is_not_granted() {
    let o = expect(
        "policy fp
         resources 1
         task a period 10 priority 1
         at 1 complete a
         at 2 request a 0
         until 3",
        "0 start a on 0
         1 finish a completed",
    );
    assert_eq!(o.totals.released, 1);
}

/// 4 ms of work and a budget of 3 ms: each job takes two activations, so that its deadline is the end of the first one.
#[test]
fn a_job_is_what_one_signal_ends() {
    let system = "process a 3 runtime 4 completion signal
         partition P a
         window 10
         slice 0 sc P
         until";
    let o = expect(
        &format!("{system} 40"),
        "0 window 0
         0 start a on 0
         3 finish a budget-used
         10 window 0
         10 start a on 0
         11 finish a completed
         20 window 0
         20 start a on 0
         23 finish a budget-used
         30 window 0
         30 start a on 0
         31 finish a completed",
    );
    // The number of a job is that of its first activation, and activations are counted on.
    let releases = o.records.iter().filter_map(|r| match r.kind {
        RecordKind::Release { job, .. } => Some(job),
        _ => None,
    });
    assert_eq!(releases.collect::<Vec<_>>(), [0, 1, 2, 3]);
    let c = scene(&format!("{system} 400")).run().totals;
    assert_eq!((c.activations, c.cut_off, c.overruns), (40, 20, 0));
    assert_eq!((c.released, c.completed, c.met, c.missed, c.aborted), (20, 20, 0, 20, 0));
    assert_eq!((c.utility, c.utility_total, c.late_signals), (0, 20_000_000, 0));
}

#[test]
fn a_job_of_several_activations_is_missed_once() {
    // 10 ms of work in activations of 3 ms: the signal comes in the fourth one.
    let o = expect(
        "process a 3 runtime 10 completion signal
         partition P a
         window 10
         slice 0 sc P
         until 60",
        "0 window 0
         0 start a on 0
         3 finish a budget-used
         10 window 0
         10 start a on 0
         13 finish a budget-used
         20 window 0
         20 start a on 0
         23 finish a budget-used
         30 window 0
         30 start a on 0
         31 finish a completed
         40 window 0
         40 start a on 0
         43 finish a budget-used
         50 window 0
         50 start a on 0
         53 finish a budget-used",
    );
    let c = o.totals;
    assert_eq!((c.activations, c.cut_off), (6, 5));
    assert_eq!((c.released, c.completed, c.met, c.missed), (2, 1, 0, 2));
}

#[test]
fn a_best_effort_activation_that_continues_in_the_next_window_is_not_cut_off() {
    let o = expect(
        "process c 150 runtime 120 completion signal
         partition R c
         window 100
         slice 0 be R
         until 300",
        "0 window 0
         0 start c on 0
         100 window 0
         120 finish c completed
         200 window 0
         200 start c on 0
         300 stop c suspended",
    );
    // The second job is undecided at the end: a best-effort activation has no deadline.
    let c = o.totals;
    assert_eq!((c.activations, c.cut_off, c.overruns), (2, 0, 0));
    assert_eq!((c.released, c.completed, c.met, c.missed), (2, 1, 1, 0));
    // With a budget below its work the activation ends before its signal, and that is cut off there, too.
    let o = expect(
        "process c 150 runtime 160 completion signal
         partition R c
         window 100
         slice 0 be R
         until 300",
        "0 window 0
         0 start c on 0
         100 window 0
         150 finish c budget-used
         200 window 0
         200 start c on 0
         210 finish c completed",
    );
    let c = o.totals;
    assert_eq!((c.activations, c.cut_off, c.released, c.completed, c.met, c.missed), (2, 1, 1, 1, 0, 1));
}

#[test]
fn a_signal_after_a_cut_off_completes_the_job_late() {
    // The work of the first job ends at 95, in no activation. The next activation begins the second job.
    let o = expect(
        "process a 40
         partition P a
         window 100
         slice 0 sc P
         at 95 complete a 0
         at 120 complete a 1
         until 200",
        "0 window 0
         0 start a on 0
         40 finish a budget-used
         95 late-signal a of job 0
         100 window 0
         100 start a on 0
         120 finish a completed",
    );
    let c = o.totals;
    assert_eq!((c.activations, c.cut_off, c.late_signals), (2, 1, 1));
    assert_eq!((c.released, c.completed, c.met, c.missed), (2, 2, 1, 1));
}

#[test]
fn a_signal_before_the_next_dispatch_ends_the_job_that_was_cut_off() {
    // At 105 the second activation of a waits for b. Its first job is done then, and the activation is that of the second job.
    let o = expect(
        "process b 20 completion none
         process a 40
         partition P b a
         window 100
         slice 0 sc P
         at 105 complete a 0
         at 130 complete a 0
         at 140 complete a 1
         until 200",
        "0 window 0
         0 start b on 0
         20 finish b budget-used
         20 start a on 0
         60 finish a budget-used
         100 window 0
         100 start b on 0
         105 late-signal a of job 0
         120 finish b budget-used
         120 start a on 0
         130 late-signal a of job 0
         140 finish a completed",
    );
    // The signal at 130 names a job that is over, and ends nothing.
    let a = o.counts[1];
    assert_eq!((a.activations, a.cut_off, a.late_signals), (2, 1, 2));
    assert_eq!((a.released, a.completed, a.met, a.missed), (2, 2, 1, 1));
}

#[test]
fn an_activation_that_is_never_dispatched_is_an_overrun_of_its_job() {
    // b is dispatched first in the second window, where it completes the job of the first one.
    let o = expect(
        "process a 80 completion none
         process b 10 completion signal
         partition P a b
         window 80
         slice 0 sc P
         window 100
         slice 0 sc P
         at 165 complete b 1
         until 180",
        "0 window 0
         0 start a on 0
         80 finish a budget-used
         80 finish b overrun
         80 window 1
         80 start a on 0
         160 finish a budget-used
         160 start b on 0
         165 finish b completed",
    );
    let b = o.counts[1];
    assert_eq!((b.activations, b.cut_off, b.overruns), (2, 1, 1));
    assert_eq!((b.released, b.completed, b.met, b.missed), (1, 1, 0, 1));
}

#[test]
fn a_process_that_never_signals_has_no_jobs() {
    // It would complete at 10 if it were asked to signal; `none` has it use up its budget.
    let run = |completion: &str| {
        let system = format!(
            "process a 40 runtime 10 completion {completion}
             partition P a
             window 100
             slice 0 sc P
             until 200"
        );
        scene(&system).run().counts[0]
    };
    let expected = Counts { activations: 2, dispatches: 2, jobless: true, ..Counts::default() };
    assert_eq!(run("none"), expected);
    let c = run("signal");
    assert_eq!((c.jobless, c.activations, c.released, c.completed, c.met, c.cut_off), (false, 2, 2, 2, 2, 0));
}

/// The activations before the first signal are classified when it comes.
#[test]
fn undeclared_activations_belong_to_a_job_from_the_first_signal_on() {
    let run = |signal: &str| {
        scene(&format!(
            "process a 40
             partition P a
             window 100
             slice 0 sc P
             {signal}
             until 300"
        ))
        .run()
        .totals
    };
    let silent = run("at 150 wake a");
    assert_eq!((silent.activations, silent.cut_off, silent.released, silent.missed), (3, 0, 0, 0));
    let c = run("at 220 complete a");
    assert_eq!((c.activations, c.cut_off, c.late_signals), (3, 2, 0));
    assert_eq!((c.released, c.completed, c.met, c.missed), (1, 1, 0, 1));
}

#[test]
fn a_restarted_process_begins_a_new_job() {
    // The process fails in its second activation, the one that it was at is aborted; another process follows.
    let o = expect(
        "process a 40 completion signal
         partition P a
         window 100
         slice 0 sc P
         at 120 fail a restart
         at 230 complete a 2
         until 300",
        "0 window 0
         0 start a on 0
         40 finish a budget-used
         100 window 0
         100 start a on 0
         120 finish a aborted
         200 window 0
         200 start a on 0
         230 finish a completed",
    );
    let c = o.totals;
    assert_eq!((c.activations, c.cut_off), (3, 1));
    assert_eq!((c.released, c.completed, c.met, c.missed, c.aborted), (2, 1, 1, 1, 1));
}
