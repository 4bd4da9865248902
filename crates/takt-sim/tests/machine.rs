//! Simulated jobs, step by step: schedules by hand, exact to the nanosecond.

mod story;

use story::*;
use takt_core::model::*;
use takt_core::scenario::Scenario;
use takt_core::time::Span;

const R: ResourceId = ResourceId(0);
const S: ResourceId = ResourceId(1);

fn tell(system: System, until: i64) -> Story {
    story::tell(system, &Scenario::default(), until)
}

#[test]
fn a_job_runs_sleeps_and_runs_on_while_another_has_the_cpu() {
    let a = once(0, 2, &[run(10), sleep(25), run(5), run(2)]);
    let told = tell(system(1, "fp", vec![a, plain(0, 1, 40)]), 100);
    expect(
        &told,
        "0 start a 0
        10 block a, blocked a, start b 0
        35 wake a, preempted b, start a 0
        42 complete a, start b 0
        57 complete b",
    );
    let tasks = &told.report.tasks;
    assert_eq!((tasks[0].received, tasks[1].worked), (ns(17), ns(40)));
    assert_eq!((told.report.cpus[0].worked, told.report.cpus[0].idle), (ns(57), ns(43)));
}

#[test]
fn a_job_that_ends_asleep_completes_as_it_wakes() {
    let a = Task { deadline: Some(ns(30)), ..once(0, 2, &[run(10), sleep(20)]) };
    let told = tell(system(1, "fp", vec![a, plain(0, 1, 40)]), 100);
    expect(
        &told,
        "0 start a 0
        10 block a, blocked a, start b 0
        30 wake a, complete a
        50 complete b",
    );
    assert_eq!(told.engine.counts(TaskId(0)).met, 1);
}

#[test]
fn a_sleeping_job_is_woken_by_the_tick() {
    let timing = Timing { tick: ns(8), ..Timing::default() };
    let described =
        System { timing, ..system(1, "fp", vec![once(0, 1, &[run(3), sleep(6), run(1), sleep(12), run(1)])]) };
    expect(
        &tell(described, 100),
        "0 start a 0
        3 block a, blocked a
        16 wake a, start a 0
        17 block a, blocked a
        32 wake a, start a 0
        33 complete a",
    );
}

#[test]
fn a_lock_that_is_held_blocks_until_it_is_returned() {
    let a = once(2, 2, &[run(1), Step::Lock(R), run(4), Step::Unlock(R), run(1)]);
    let b = once(0, 1, &[run(1), Step::Lock(R), run(10), Step::Unlock(R), run(5)]);
    expect(
        &tell(system(1, "fp", vec![a, b]), 100),
        "0 start b 0
        1 grant b 0
        2 preempted b, start a 0
        3 refuse a 0, block a, blocked a, start b 0
        12 return b 0, grant a 0, wake a, preempted b, start a 0
        16 return a 0
        17 complete a, start b 0
        22 complete b",
    );
}

/// The lock is the first thing that its job does, and the unlock the last: both are one instant with start and completion.
#[test]
fn a_job_may_begin_with_a_lock_and_end_with_unlocks() {
    let steps = [Step::Lock(R), Step::Lock(S), run(4), Step::Unlock(S), Step::Unlock(R)];
    let (a, b) = (once(1, 2, &steps), once(0, 1, &steps));
    let described = System { locking: Locking::Fifo, ..system(1, "fp", vec![a, b]) };
    expect(
        &tell(described, 100),
        "0 start b 0, grant b 0, grant b 1
        1 preempted b, start a 0, refuse a 0, block a, blocked a, start b 0
        4 return b 1, return b 0, grant a 0, wake a, complete b, start a 0, grant a 1
        8 return a 1, return a 0, complete a",
    );
}

/// On two CPUs: the one that asks gets the resource in the instant in which the other returns it, and does not stop.
#[test]
fn a_lock_returned_in_the_instant_of_the_request() {
    let a = once(0, 2, &[Step::Lock(R), run(5), Step::Unlock(R), run(1)]);
    let b = once(0, 1, &[run(5), Step::Lock(R), run(3), Step::Unlock(R)]);
    expect(
        &tell(system(2, "g-fp", vec![a, b]), 100),
        "0 start a 0, start b 1, grant a 0
        5 return a 0, grant b 0
        6 complete a
        8 return b 0, complete b",
    );
}

/// The classic (Sha, Rajkumar, Lehoczky, IEEE Trans. Computers 39(9), 1990): the middle job delays the urgent one although they
/// share nothing, unless the holder inherits urgency. Whether a policy heeds [`Locking`] is its own business, so this is about
/// the simulator: the job that waits continues when, and only when, the holder has had its time.
#[test]
fn priority_inversion() {
    let high = once(2, 3, &[run(1), Step::Lock(R), run(2), Step::Unlock(R)]);
    let middle = plain(4, 2, 20);
    let low = once(0, 1, &[run(1), Step::Lock(R), run(5), Step::Unlock(R), run(1)]);
    let described = |locking| System { locking, ..system(1, "fp", vec![high.clone(), middle.clone(), low.clone()]) };
    expect(
        &tell(described(Locking::Fifo), 100),
        "0 start c 0
        1 grant c 0
        2 preempted c, start a 0
        3 refuse a 0, block a, blocked a, start c 0
        4 preempted c, start b 0
        24 complete b, start c 0
        27 return c 0, grant a 0, wake a, preempted c, start a 0
        29 return a 0, complete a, start c 0
        30 complete c",
    );
}

#[test]
fn a_yield_is_reported_and_the_job_continues_without_competitors() {
    let told = tell(system(1, "fp", vec![once(0, 1, &[run(2), Step::Yield, run(3), Step::Yield])]), 100);
    expect(
        &told,
        "0 start a 0
        2 yield a
        5 yield a, complete a",
    );
}

/// Job 0 is aborted in its sleep, so that its wake-up must not wake job 1, which sleeps then, and its steps begin again.
#[test]
fn an_aborted_job_forgets_its_steps_and_its_sleep() {
    let a = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(20) },
        deadline: Some(ns(20)),
        ..once(0, 1, &[run(2), sleep(30), run(1)])
    };
    let described = System { late: Late::Abort, ..system(1, "fp", vec![a]) };
    expect(
        &tell(described, 50),
        "0 start a 0
        2 block a, blocked a
        20 aborted a, start a 0
        22 block a, blocked a
        40 aborted a, start a 0
        42 block a, blocked a",
    );
}

/// The handler runs for its own runtime, whatever step its job was at, and gives back what the job held when it is over.
#[test]
fn the_handler_of_an_aborted_job() {
    let a = Task {
        deadline: Some(ns(20)),
        handler: Some(Handler { runtime: ns(6), deadline: None, utility: 0 }),
        ..once(0, 2, &[run(2), Step::Lock(R), sleep(30), Step::Unlock(R), run(1)])
    };
    let b = once(5, 1, &[run(30), Step::Lock(R), run(4), Step::Unlock(R)]);
    let c = plain(22, 3, 1);
    let described = System { late: Late::Abort, locking: Locking::Fifo, ..system(1, "fp", vec![a, b, c]) };
    expect(
        &tell(described, 60),
        "0 start a 0
        2 grant a 0, block a, blocked a
        5 start b 0
        20 aborted a, handler a, preempted b, start a 0
        22 preempted a, start c 0
        23 complete c, start a 0
        27 handled a, return a 0, start b 0
        42 grant b 0
        46 return b 0, complete b",
    );
}

/// A last sleep that outlives its job does not complete the next one.
#[test]
fn a_sleep_that_outlives_its_job_ends_nothing() {
    let a = Task {
        arrival: Arrival::Listed { instants: vec![ns(0), ns(25)] },
        deadline: Some(ns(20)),
        ..once(0, 1, &[run(2), sleep(24)])
    };
    let described = System { late: Late::Abort, ..system(1, "fp", vec![a, plain(25, 2, 10)]) };
    let told = tell(described, 44);
    expect(
        &told,
        "0 start a 0
        2 block a, blocked a
        20 aborted a
        25 start b 0
        35 complete b, start a 0
        37 block a, blocked a",
    );
    // At 0, 2, 20, 25, 35 and 37, and not at 26, when the first job would have woken up.
    assert_eq!(told.report.steps, 6);
}

#[test]
fn demands_follow_the_series_whatever_is_declared() {
    let a = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(20) },
        runtime: Some(ns(9)),
        program: Program::needing(Execution::Series(vec![ns(3), ns(12)])),
        ..Task::default()
    };
    expect(
        &tell(system(1, "fp", vec![a]), 50),
        "0 start a 0
        3 complete a
        20 start a 0
        32 complete a
        40 start a 0
        43 complete a",
    );
}

#[test]
fn a_job_without_steps_and_runtime_never_completes() {
    let batch = Task { runtime: None, ..plain(0, 1, 1) };
    let told = tell(system(1, "fp", vec![batch, plain(10, 2, 5)]), 1000);
    expect(
        &told,
        "0 start a 0
        10 preempted a, start b 0
        15 complete b, start a 0
        1000 suspended a",
    );
    assert_eq!(told.report.tasks[0].worked, ns(995));
    assert_eq!(told.report.cpus[0].idle, Span::ZERO);
}

/// Everything that happens at once: completions come first, then other acts, each in the order of tasks, then wake-ups.
#[test]
fn events_of_one_instant_have_an_order() {
    let tasks = vec![
        once(0, 4, &[run(10), sleep(5), run(1)]),
        once(0, 3, &[run(10), Step::Yield, run(1)]),
        plain(0, 2, 10),
        once(0, 1, &[run(1), sleep(9), run(1)]),
    ];
    let told = tell(system(4, "g-fp", tasks), 100);
    expect(
        &told,
        "0 start a 0, start b 1, start c 2, start d 3
        1 block d, blocked d
        10 complete c, block a, yield b, wake d, blocked a, start d 3
        11 complete b, complete d
        15 wake a, start a 0
        16 complete a",
    );
}

/// A job that has done its work at the very end of the run has completed, with what it returns.
#[test]
fn the_end_of_the_run_counts() {
    let tasks = vec![
        once(0, 2, &[Step::Lock(R), run(10), Step::Unlock(R)]),
        once(0, 1, &[run(10), Step::Lock(R), run(1), Step::Unlock(R)]),
    ];
    let told = tell(system(2, "g-fp", tasks), 10);
    expect(
        &told,
        "0 start a 0, start b 1, grant a 0
        10 return a 0, complete a, suspended b",
    );
}
