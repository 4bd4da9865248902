//! Servers that are split over CPUs, by hand.

use super::*;
use takt_analysis::online::{Answer, verdict};

/// A periodic task with a server of its own runtime and period, whose jobs need these times, and the last of them from then on.
fn film(budget: i64, period: i64, lengths: &[i64]) -> Task {
    Task {
        program: Program::needing(Execution::Series(lengths.iter().map(|l| ms(*l)).collect())),
        ..periodic(budget, period)
    }
}

/// Jobs at these instants.
fn at(releases: &[i64], task: Task) -> Task {
    let instants = releases.iter().map(|r| ms(*r)).collect();
    let reserved = task.reserved();
    Task { arrival: Arrival::Listed { instants }, reservation: reserved, ..task }
}

const OFF: &[Option<i64>] = &[Some(1)];

/// On two CPUs, the first that has room.
fn two(values: &[Option<i64>], tasks: Vec<Task>) -> System {
    let placement = Placement::from_name("ff").unwrap();
    let policy = PolicySpec { placement, ..policy("edf-wmr", values) };
    System { policy, ..system(2, "edf-wmr", tasks) }
}

/// The third of them has 4 ms of the first CPU in windows of 5 ms, and 2 of the second.
fn three(third: Task) -> Vec<Task> {
    vec![film(6, 10, &[6]), film(6, 10, &[6]), third]
}

#[test]
fn a_split_server_moves_at_the_border_and_begins_on_the_first_cpu() {
    let told = tell(two(&[], three(film(6, 10, &[6]))), 20);
    expect(&told, "c0-4 a4-10 c10-14 a14-20\nb0-6 c6-8 b10-16 c16-18", "");
    // A job that is done before the border does not move.
    let told = tell(two(&[], three(film(6, 10, &[4, 6]))), 20);
    expect(&told, "c0-4 a4-10 c10-14 a14-20\nb0-6 b10-16 c16-18", "");
}

/// Twice as long, with a border at 10: from 8 on `c` has to wait for it.
fn waiting(first: i64) -> Vec<Task> {
    vec![film(12, 20, &[first]), film(12, 20, &[2]), film(12, 20, &[12])]
}

#[test]
fn a_used_up_piece_waits_for_the_border_unless_there_is_a_gift() {
    expect(&tell(two(OFF, waiting(1)), 20), "c0-8 a8-9\nb0-2 c10-14", "");
    // a leaves 11 ms at 9; c has a millisecond of them, and the rest does not go with it.
    expect(&tell(two(&[], waiting(1)), 20), "c0-8 a8-9 c9-10\nb0-2 c10-13", "");
    // It lags no more at the border itself.
    expect(&tell(two(&[], waiting(2)), 20), "c0-8 a8-10\nb0-2 c10-14", "");
}

#[test]
fn with_a_used_up_gift_it_waits_again() {
    // c leaves a millisecond at 9, with a deadline of 30, before that of a.
    let tasks = vec![film(28, 40, &[28]), film(24, 40, &[24]), film(2, 30, &[1]), film(24, 40, &[24])];
    expect(&tell(two(&[], tasks), 40), "d0-8 c8-9 d9-10 a10-38 c38-39\nb0-24 d24-39", "");
}

#[test]
fn the_rest_of_a_gift_is_donated_at_the_boundary() {
    // a leaves 14 ms at 18 with a deadline of 40, and e has 2 of them until its border. The other 12 are c's, whose deadline
    // stays before that of d at 25.
    let tasks = |second: i64| {
        let c = at(&[19], Task { deadline: Some(ms(60)), ..film(4, 30, &[16]) });
        let d = at(&[25], film(1, 40, &[1]));
        vec![film(24, 40, &[10]), film(24, 40, &[second]), c, d, film(24, 40, &[24])]
    };
    expect(&tell(two(&[], tasks(24)), 40), "e0-8 a8-18 e18-20 c20-36 d36-37\nb0-24 e24-38", "");
    // Without gifts c has 4 ms until 49, and comes behind d.
    expect(&tell(two(OFF, tasks(24)), 40), "e0-8 a8-18 c19-25 d25-26 c26-36\nb0-24 e24-40", "");
}

#[test]
fn an_overrun_continues_on_the_last_cpu_and_then_from_the_first_one() {
    // c has its piece of the second CPU twice, with deadlines of 10 and 20. Its period is over at 10.
    let told = tell(two(&[], three(film(6, 10, &[12, 6]))), 20);
    expect(&told, "c0-4 a4-10 c10-14 a14-20\nb0-6 c6-10 b10-16 c16-20", "c");
    // It uses 1 ms of its piece in advance. In the second window there is only the other one, and the piece after that has a
    // deadline of 30, behind b, which overruns at 16.
    let mut tasks = three(film(6, 10, &[7, 6]));
    tasks[1] = film(6, 10, &[6, 8]);
    expect(&tell(two(OFF, tasks), 20), "c0-4 a4-10 c10-14 a14-20\nb0-6 c6-9 b10-16 c16-17 b17-19 c19-20", "");
}

#[test]
fn a_piece_in_advance_does_no_harm() {
    // On the second CPU b just fits beside c's 2 ms in windows of 5 ms. c has the piece of the second window at 7. With another
    // one at 15 before b's deadline of 25, as the paper has it, b would end at 27.
    let b = Task { affinity: CpuSet::single(1), ..at(&[5], film(16, 20, &[16])) };
    let tasks = vec![film(6, 10, &[6]), b, film(6, 10, &[8, 6])];
    let told = tell(two(OFF, tasks), 26);
    expect(&told, "c0-4 a4-10 c10-14 a14-20 c20-24 a24-26\nc5-9 b9-25 c25-26", "c");
}

#[test]
fn windows_begin_no_earlier_than_a_period_after_the_last_ones() {
    // c's second job comes at 6: its windows begin at 10, but it may run at 8, with the deadline of the first.
    let tasks = || three(at(&[0, 6], Task { deadline: Some(ms(20)), ..film(6, 10, &[2, 6]) }));
    // On the second CPU it has the deadline of b, and the earlier release.
    expect(&tell(two(OFF, tasks()), 20), "c0-2 a2-8 c8-12 a12-18\nb0-6 b10-15 c15-17 b17-18", "");
    // c's first job leaves 2 ms for a, which leaves them for c's second.
    expect(&tell(two(&[], tasks()), 20), "c0-2 a2-8 c8-14 a14-20\nb0-6 b10-16", "");
}

#[test]
fn six_films_of_one_kind_and_fourteen_of_another_find_room_on_four_cpus() {
    for placement in ["ff", "wf", "ffd"] {
        for (budget, period, most) in [(25, 41, 6), (9, 33, 14)] {
            let films = |n: usize, lengths: &[i64]| {
                let policy =
                    PolicySpec { placement: Placement::from_name(placement).unwrap(), ..policy("edf-wmr", &[]) };
                System { policy, ..system(4, "edf-wmr", vec![film(budget, period, lengths); n]) }
            };
            let found = verdict(&films(most, &[budget]));
            assert_eq!((found.schedulable, found.test), (Answer::Yes, "edf-wmr"), "{}", found.reason);
            assert_eq!(tell(films(most, &[budget, budget - 5]), 3_000).missed(), "");
            let found = verdict(&films(most, &[budget, budget + 5]));
            assert_eq!((found.schedulable, found.test), (Answer::Unknown, "edf-wmr"), "{}", found.reason);
            assert_ne!(verdict(&films(most + 1, &[budget])).schedulable, Answer::Yes);
        }
    }
}

#[test]
fn a_sleeping_task_does_not_save_its_budget() {
    // c fills both CPUs in its windows from 7 on. If a went on at 7 with its last millisecond and the deadline of 10, as CBS has
    // it, c would be late at 12 and at 17.
    let bound = |cpu: usize, task: Task| Task { affinity: CpuSet::single(cpu), ..task };
    let sleeps = Task {
        program: Program::doing(vec![run(4), Step::Sleep(ms(3)), run(2)]),
        deadline: Some(ms(30)),
        ..periodic(5, 10)
    };
    let tasks = vec![bound(0, at(&[0], sleeps)), bound(1, at(&[0], film(5, 10, &[5]))), at(&[7], film(10, 10, &[10]))];
    expect(&tell(two(&[], tasks), 30), "a0-4 c7-12 a12-14\nb0-5 c12-17", "");
}
