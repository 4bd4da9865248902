//! Schedules worked out by hand, in milliseconds.

use super::*;
use takt_analysis::online::{Answer, verdict};

/// Three tasks of 6 ms every 10 ms: two have a CPU each, and `c` is split.
fn three() -> Vec<Task> {
    vec![periodic(ms(6), ms(10)); 3]
}

#[test]
fn equal_windows() {
    // Beside 6 ms in 10 there are 4 ms for `c` in its window of 5 ms, on either CPU: it takes 4 of the first and 2 of the second.
    // There `b` with the same deadline is the lower task.
    let told = tell(placed(2, "edf-wm", "ff", three()), 20);
    expect(&told, "c0-4 a4-10 c10-14 a14-20\nb0-6 c6-8 b10-16 c16-18", "");
    let totals = told.engine.totals();
    assert_eq!((totals.completed, totals.migrations), (6, 2));
}

#[test]
fn tight_pieces() {
    // At most 4 ms: twice that and 6 ms are due by 14. The rest has a deadline of 6 ms, from 4 on.
    let told = tell(placed(2, "edf-cd", "ff", three()), 20);
    expect(&told, "c0-4 a4-10 c10-14 a14-20\nb0-6 c6-8 b10-16 c16-18", "");
    // With a longer period `b` has the later deadline, and the last piece goes first.
    let tasks = vec![periodic(ms(6), ms(10)), periodic(ms(12), ms(20)), periodic(ms(6), ms(10))];
    let told = tell(placed(2, "edf-cd", "ff", tasks), 20);
    expect(&told, "c0-4 a4-10 c10-14 a14-20\nb0-4 c4-6 b6-14 c14-16", "");
}

#[test]
fn a_piece_that_is_used_up_waits_for_its_border() {
    // `a` leaves its CPU idle at once, and still `c` does not run from 4 to 5: only on the other CPU, from its window on.
    let mut tasks = three();
    tasks[0].program.execution = Execution::Series(vec![ms(1)]);
    tasks[1].program.execution = Execution::Series(vec![ms(1)]);
    expect(&tell(placed(2, "edf-wm", "ff", tasks), 10), "c0-4 a4-5\nb0-1 c5-7", "");
}

#[test]
fn an_early_completion_stays_on_the_first_cpu() {
    let mut tasks = three();
    tasks[2].program.execution = Execution::Series(vec![ms(3), ms(4), ms(6)]);
    let told = tell(placed(2, "edf-wm", "ff", tasks), 30);
    expect(&told, "c0-3 a3-9 c10-14 a14-20 c20-24 a24-30\nb0-6 b10-16 b20-26 c26-28", "");
}

#[test]
fn the_windows_of_a_late_job_delay_those_of_the_next() {
    // c's first job needs 16 ms and gets the rest of them after its last piece, with the deadline of that: until 18. So the
    // windows of the second begin at 18, and those of the third at 28, though it may start at 26: with the deadline 33 behind a's.
    let mut tasks = three();
    tasks[2].program.execution = Execution::Series(vec![ms(16), ms(6), ms(6), ms(6)]);
    let told = tell(placed(2, "edf-wm", "ff", tasks), 40);
    let chart = "c0-4 a4-16 c18-22 a22-28 c28-32 a32-38 c38-40\nb0-6 c6-18 b18-24 c24-26 b26-33 c33-35 b35-40";
    assert_eq!(told.chart(), chart);
}

#[test]
fn tasks_keep_to_their_cpus() {
    // `c` may use the last two CPUs only, and `d` no other than the first.
    let mut tasks = vec![periodic(ms(6), ms(10)); 4];
    tasks[2].affinity = [1, 2].into_iter().collect();
    tasks[3].affinity = CpuSet::first(1);
    let told = tell(placed(3, "edf-wm", "ff", tasks), 10);
    expect(&told, "a0-6 d6-10\nb0-6\nc0-6", "d");
}

#[test]
fn movies() {
    let movies = |n: usize, runtime: i64, period: i64| vec![periodic(ms(runtime), ms(period)); n];
    for placement in ["ff", "wf", "ffd"] {
        for (n, runtime, period, most) in [(4, 25, 41, 6), (5, 25, 41, 6), (6, 25, 41, 6), (14, 9, 33, 14)] {
            let system = placed(4, "edf-wm", placement, movies(n, runtime, period));
            let found = verdict(&system);
            assert_eq!((found.schedulable, found.test), (Answer::Yes, "edf-wm"), "{n} × {runtime}: {}", found.reason);
            assert_eq!(tell(system, 3_000).missed(), "");
            let system = placed(4, "edf-wm", placement, movies(most + 1, runtime, period));
            assert_ne!(verdict(&system).schedulable, Answer::Yes);
            assert_ne!(tell(system, 3_000).missed(), "", "the overload shows");
        }
    }
}

#[test]
fn more_than_there_is_is_refused_for_certain() {
    let found = verdict(&placed(2, "edf-cd", "ffd", vec![periodic(ms(7), ms(10)); 3]));
    assert_eq!((found.schedulable, found.test), (Answer::No, "utilisation"));
    let found = verdict(&placed(2, "edf-cd", "ffd", three()));
    assert_eq!((found.schedulable, found.test), (Answer::Yes, "edf-cd"));
    assert_eq!(found.reason, "one task is split, and the demand on every CPU never exceeds the available time");
}
