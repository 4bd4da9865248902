//! `rules: demos`, line by line. The expected sequences are worked out by hand from the source of DEmOS (commit a70ef526: `slice.cpp`,
//! `partition.cpp`, `process.cpp`), not recorded from a run.

mod common;

use common::{Outcomes, scene};
use takt_core::record::RecordKind;
use takt_core::time::Span;

#[track_caller]
fn expect(system: &str, expected: &str) -> Outcomes {
    let outcomes = scene(system).run();
    let expected: String = expected.lines().map(str::trim).filter(|l| !l.is_empty()).flat_map(|l| [l, "\n"]).collect();
    assert!(outcomes.lines == expected, "expected\n{expected}but was\n{}", outcomes.lines);
    assert_eq!(outcomes.windows_lost, 0);
    outcomes
}

/// The budgets that were granted, in whole milliseconds, in order.
fn granted(outcomes: &Outcomes) -> Vec<i64> {
    let amounts = outcomes.records.iter().filter_map(|record| match record.kind {
        RecordKind::Budget { amount: Some(amount), .. } => Some(amount.ns() / 1_000_000),
        _ => None,
    });
    amounts.collect()
}

/// A process that ends keeps its CPUs idle until its budget ends; the next process and the best-effort side wait.
#[test]
fn a_process_that_has_ended_leaves_the_rest_of_its_budget_unused() {
    let o = expect(
        "rules demos 0
         cpus 2
         process a 40
         process b 20
         process c 30
         process d 50
         partition P a b
         partition Q c
         partition R d
         window 100
         slice 0 sc P be R
         slice 1 sc Q
         at 10 exit a
         at 45 fail b
         until 200",
        "0 window 0
         0 start a on 0
         0 start c on 1
         10 finish a exited
         10 exit a
         30 finish c budget-used
         40 start b on 0
         45 finish b aborted
         45 exit b failed
         60 start d on 0
         100 window 0
         100 finish b skipped
         100 stop d suspended
         100 start c on 1
         130 finish c budget-used
         130 start d on 0
         140 finish d budget-used",
    );
    assert_eq!((o.counts[0].activations, o.counts[1].activations), (1, 1));
    // Takt's own rules give these CPUs to the next process at once.
    let own = scene(
        "process a 40
         process b 20
         partition P a b
         window 100
         slice 0 sc P
         at 10 exit a
         until 100",
    )
    .run();
    assert!(own.lines.contains("10 start b on 0"), "{}", own.lines);
}

/// A window that ends in the rest of such a budget ends the wait, too.
#[test]
fn a_window_ends_the_wait_for_an_ended_process() {
    expect(
        "rules demos 0
         process a 40
         process b 20
         partition P a b
         window 30
         slice 0 be P
         at 10 exit a
         until 60",
        "0 window 0
         0 start a on 0
         10 finish a exited
         10 exit a
         30 window 0
         30 start b on 0
         50 finish b budget-used",
    );
}

#[test]
fn a_completion_frees_the_cpu_at_once_and_remainders_are_whole_milliseconds() {
    let o = expect(
        "rules demos 0
         process a 4 completion signal
         process b 9
         partition P a
         partition Q b
         window 10
         slice 0 sc P be Q
         at 2.3 complete a
         at 13.7 complete a
         until 30",
        "0 window 0
         0 start a on 0
         2.3 finish a completed
         2.3 start b on 0
         10 window 0
         10 stop b preempted
         10 start a on 0
         13.7 finish a completed
         13.7 start b on 0
         14.7 finish b budget-used
         20 window 0
         20 start a on 0
         24 finish a budget-used
         24 start b on 0
         30 stop b suspended",
    );
    // 1.3 ms are left of the first activation of b, and hold as 1 ms.
    assert_eq!(granted(&o), [4, 9, 1, 4, 4, 9]);
}

#[test]
fn less_than_a_millisecond_at_the_end_of_a_window_is_none() {
    let o = expect(
        "rules demos 0
         process a 4 completion signal
         process b 7
         process c 5
         partition P a
         partition Q b c
         window 10
         slice 0 sc P be Q
         at 3.5 complete a
         until 20",
        "0 window 0
         0 start a on 0
         3.5 finish a completed
         3.5 start b on 0
         10 finish b budget-used
         10 window 0
         10 start a on 0
         14 finish a budget-used
         14 start c on 0
         19 finish c budget-used
         19 start b on 0
         20 stop b suspended",
    );
    assert_eq!(o.counts[0].overruns, 0);
    // So is that of a safety-critical activation, which is no overrun then.
    let o = scene(
        "rules demos 0
         process a 4 completion signal
         process b 7
         partition P a b
         window 10
         slice 0 sc P
         at 3.5 complete a
         until 20",
    )
    .run();
    assert_eq!((o.counts[1].overruns, o.totals.activations), (1, 4), "{}", o.lines);
}

/// The same partition is best-effort in one window and safety-critical in the next.
#[test]
fn the_remainder_of_a_best_effort_activation_also_holds_on_the_safety_critical_side() {
    let o = expect(
        "rules demos 0
         process a 6
         process b 8
         partition P a b
         window 10
         slice 0 be P
         window 12
         slice 0 sc P
         until 44",
        "0 window 0
         0 start a on 0
         6 finish a budget-used
         6 start b on 0
         10 window 1
         10 stop b preempted
         10 start a on 0
         16 finish a budget-used
         16 start b on 0
         20 finish b budget-used
         22 window 0
         22 start a on 0
         28 finish a budget-used
         28 start b on 0
         32 window 1
         32 stop b preempted
         32 start a on 0
         38 finish a budget-used
         38 start b on 0
         42 finish b budget-used",
    );
    assert_eq!(granted(&o), [6, 8, 4, 6, 6, 8, 4, 6]);
    assert_eq!(o.counts[1].overruns, 0);
}

#[test]
fn a_remainder_outlasts_a_window_in_which_it_is_not_reached() {
    let o = scene(
        "rules demos 0
         process a 6
         process b 8
         partition P a b
         window 10
         slice 0 be P
         window 5
         slice 0 sc P
         until 45",
    )
    .run();
    // b has 4 ms left at 10. At 10 the safety-critical window starts with a, which is cut off at 15; at 15 the best-effort side
    // continues with the process that the window has cut off, and b has its 4 ms after that.
    let lines = "0 window 0
0 start a on 0
6 finish a budget-used
6 start b on 0
10 window 1
10 stop b preempted
10 start a on 0
15 finish a overrun
15 window 0
15 start a on 0
21 finish a budget-used
21 start b on 0
25 finish b budget-used
25 window 1
";
    assert!(o.lines.starts_with(lines), "{}", o.lines);
    assert_eq!(granted(&o)[..5], [6, 8, 4, 6, 6]);
}

/// One generator for all, in the order of the activations; also those without a jitter draw.
#[test]
fn budgets_are_drawn_in_the_order_of_the_activations() {
    // The seed 2 draws 1 0 0 2 1 2 from three values (DEmOS's test of the maximum jitter).
    let o = scene(
        "rules demos 2
         process a 1 jitter 2
         partition P a
         window 2
         slice 0 sc P
         until 12",
    )
    .run();
    let starts = |o: &Outcomes| {
        let starts = o.records.iter().filter(|r| matches!(r.kind, RecordKind::Start { .. }));
        starts.map(|r| r.at.ns() / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!((starts(&o), granted(&o)), (vec![0, 6, 8, 10], vec![1, 2, 1, 2]), "a draw of zero skips the window");
    // b, which has no jitter, uses up every second number: a gets 1, 0 and 1.
    let o = scene(
        "rules demos 2
         process a 1 jitter 2
         process b 1
         partition P a b
         window 4
         slice 0 sc P
         until 12",
    )
    .run();
    assert_eq!((starts(&o), granted(&o)), (vec![0, 1, 4, 8, 9], vec![1, 1, 1, 1, 1]));
    // An activation that a window does not reach draws nothing.
    let o = scene(
        "rules demos 2
         process a 4
         process b 2 jitter 2
         partition P a b
         window 4
         slice 0 sc P
         window 6
         slice 0 sc P
         until 10",
    )
    .run();
    // 0: a draws 1; 4: a draws the second number; 8: b draws the third, which is 0: 2 - 1 + 0.
    assert_eq!(granted(&o), [4, 4, 1]);
    assert_eq!(o.counts[1].overruns, 1, "b was not reached in the first window");
}

#[test]
fn an_odd_jitter_is_rounded_as_in_demos() {
    let o = scene(
        "rules demos 7
         process a 10 jitter 5
         partition P a
         window 20
         slice 0 sc P
         until 4000",
    )
    .run();
    let amounts = granted(&o);
    // From 10 - 2 to 10 + 3.
    assert_eq!((amounts.iter().min(), amounts.iter().max()), (Some(&8), Some(&13)));
    assert_eq!(amounts.len(), 200);
    let exact = o.records.iter().all(|r| match r.kind {
        RecordKind::Budget { amount: Some(amount), .. } => amount == Span::from_ms(amount.ns() / 1_000_000),
        _ => true,
    });
    assert!(exact, "whole milliseconds only");
}
