//! Programs that ask for other terms while they run, and that continue from job to job: the calls of AIRS.

#[path = "common/told.rs"]
#[allow(dead_code)]
mod told;

use takt_core::engine::Engine;
use takt_core::input::Input;
use takt_core::model::*;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::utility::{UNIT, Utility};
use told::*;

const A: TaskId = TaskId(0);

fn at(ms: i64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn period(span: i64) -> Step {
    Step::Call(Call::Period(ms(span)))
}
fn deadline(span: i64) -> Step {
    Step::Call(Call::Deadline(ms(span)))
}
fn runtime(span: i64) -> Step {
    Step::Call(Call::Runtime(ms(span)))
}
const WAIT: Step = Step::WaitPeriod;

/// A task whose deadline is its period, and whose program has these steps.
fn program(period: i64, runtime: i64, steps: &[Step]) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ms(period) },
        deadline: Some(ms(period)),
        runtime: Some(ms(runtime)),
        program: Program::doing(steps.to_vec()),
        ..Task::default()
    }
}

/// When jobs of the first task were released, and their absolute deadlines.
fn releases(told: &Told) -> Vec<(i64, i64)> {
    let of = |r: &Record| match r.kind {
        RecordKind::Release { task: A, deadline, .. } => Some((r.at, deadline.expect("it has one"))),
        _ => None,
    };
    let in_ms = |t: Time| (t - Time::ZERO).ns() / 1_000_000;
    told.records.iter().filter_map(of).map(|(at, deadline)| (in_ms(at), in_ms(deadline))).collect()
}

/// When jobs of the first task were over.
fn ends(told: &Told) -> Vec<i64> {
    let of = |r: &Record| match r.kind {
        RecordKind::Finish { task: A, .. } => Some((r.at - Time::ZERO).ns() / 1_000_000),
        _ => None,
    };
    told.records.iter().filter_map(of).collect()
}

/// The request, and whether it was granted.
fn calls(told: &Told) -> Vec<(Call, bool)> {
    let of = |r: &Record| match r.kind {
        RecordKind::Call { call, granted, .. } => Some((call, granted)),
        _ => None,
    };
    told.records.iter().filter_map(of).collect()
}

#[test]
fn a_program_continues_with_the_next_job_and_begins_again() {
    let steps = [run(1), WAIT, run(2), run(1), WAIT, run(5)];
    let told = tell(system(1, "edf", vec![program(10, 5, &steps)]), 50);
    assert_eq!(ends(&told), [1, 13, 25, 31, 43]);
    // A wait at the end is the end.
    let ended: Vec<Step> = steps.iter().copied().chain([WAIT]).collect();
    assert_eq!(tell(system(1, "edf", vec![program(10, 5, &ended)]), 50).records, told.records);
}

/// The job of 10 ms is aborted in its first run; the next one does what comes after the wait.
#[test]
fn an_aborted_job_leaves_its_steps_behind() {
    let a = program(10, 5, &[run(1), WAIT, run(20), period(20), WAIT, run(3)]);
    let told = tell(System { late: Late::Abort, ..system(1, "edf", vec![a]) }, 50);
    assert_eq!(ends(&told), [1, 20, 23, 31, 50]);
    assert_eq!(calls(&told), [], "the call was among the steps left behind");
}

/// A job that is skipped, or aborted before it ran, did nothing of the program.
#[test]
fn a_job_that_never_ran_takes_no_steps() {
    let a = program(10, 5, &[run(15), WAIT, run(2), WAIT, run(3)]);
    let told = tell(System { backlog: Backlog::Skip, ..system(1, "edf", vec![a]) }, 50);
    let finish = |r: &Record| match r.kind {
        RecordKind::Finish { outcome, .. } => Some((r.at, outcome)),
        _ => None,
    };
    let (completed, skipped) = (Outcome::Completed, Outcome::Skipped);
    let ends: Vec<_> = told.records.iter().filter_map(finish).collect();
    assert_eq!(ends[..4], [(at(10), skipped), (at(15), completed), (at(22), completed), (at(33), completed)]);
}

#[test]
fn a_returning_task_restarts_its_program() {
    let a = program(10, 5, &[run(1), WAIT, run(2), WAIT, run(3)]);
    let changes = vec![(at(11), Input::Leave { task: A }), (at(25), Input::Enter { task: A })];
    let mut engine = Engine::new(system(1, "edf", vec![a])).expect("it is sound");
    let mut records: Vec<Record> = vec![];
    takt_sim::simulate(&mut engine, &Scenario { changes, ..Scenario::default() }, ms(40), &mut records, |_| ());
    assert_eq!(ends(&Told { engine, records }), [1, 12, 26, 37]);
}

/// The call comes at 5 ms: the next release is 20 ms after the last one and no longer 10 ms, and the present deadline stays.
#[test]
fn a_longer_period_holds_from_the_present_release() {
    let told = tell(system(1, "edf", vec![program(10, 5, &[run(5), period(20)])]), 60);
    assert_eq!(releases(&told), [(0, 10), (20, 40), (40, 60)]);
}

/// At 30 ms the release of 20 ms would be past: it is now, and the others follow it.
#[test]
fn a_shorter_period_releases_nothing_in_the_past() {
    let a = program(100, 40, &[run(30), period(20), run(10), WAIT, run(1), WAIT, run(1)]);
    let told = tell(system(1, "edf", vec![a]), 100);
    assert_eq!(releases(&told), [(0, 100), (30, 50), (50, 70), (70, 90), (90, 110)]);
    assert_eq!(ends(&told)[..3], [40, 41, 51]);
}

/// Two jobs are released when the first one calls at 25 ms. They keep what they were announced with; what comes after the second of
/// them has the new period and deadline.
#[test]
fn released_jobs_keep_their_terms() {
    let a = program(10, 5, &[run(25), period(40), deadline(30), WAIT, run(1), WAIT, run(1), WAIT, run(1)]);
    let told = tell(system(1, "edf", vec![a]), 110);
    assert_eq!(releases(&told), [(0, 10), (10, 20), (20, 30), (60, 90), (100, 130)]);
    assert_eq!(ends(&told), [25, 26, 27, 61]);
}

#[test]
fn a_deadline_of_its_own_stays_when_the_period_changes() {
    let a = program(10, 1, &[run(1), deadline(8), WAIT, run(1), period(20), WAIT, run(1), WAIT, run(1)]);
    let told = tell(system(1, "edf", vec![a]), 60);
    assert_eq!(releases(&told)[..4], [(0, 10), (10, 18), (30, 38), (50, 58)]);
}

/// The utility of a job goes by the deadline that it began with.
#[test]
fn the_present_job_keeps_its_worth() {
    let a = |steps: &[Step]| Task {
        utility: Some(Utility::Linear { height: 10 * UNIT, until: None }),
        ..program(10, 2, steps)
    };
    let with = tell(system(1, "dasa", vec![a(&[run(2), deadline(4), WAIT, run(2)])]), 9);
    let without = tell(system(1, "dasa", vec![a(&[run(2)])]), 9);
    assert_eq!(with.engine.totals().utility, without.engine.totals().utility);
}

fn reserved(period: i64, budget: i64, steps: &[Step]) -> Task {
    let reservation = Some(Reservation::new(ms(budget), ms(period)));
    Task { reservation, ..program(period, budget, steps) }
}

/// Beside 5 ms in 10 ms there is room for 5 ms in 10 ms and not more. Less can always be had, and then the same again.
#[test]
fn a_server_gets_what_there_is_room_for() {
    let a = [run(1), runtime(6), runtime(2), runtime(5), period(9), period(20), runtime(10), runtime(11), WAIT, run(1)];
    for (policy, cpus) in [("cbs", 1), ("fcbs", 1), ("grub", 1), ("p-cbs", 1)] {
        let told = tell(system(cpus, policy, vec![reserved(10, 5, &a), reserved(10, 5, &[run(1)])]), 15);
        let (granted, refused): (Vec<_>, Vec<_>) = calls(&told).into_iter().partition(|(_, granted)| *granted);
        let expected = [Call::Runtime(ms(6)), Call::Period(ms(9)), Call::Runtime(ms(11))];
        assert_eq!(refused.iter().map(|(call, _)| *call).collect::<Vec<_>>(), expected, "{policy}");
        assert_eq!(granted.len(), 4, "{policy}");
        let now = told.engine.system().tasks[0].reservation;
        assert_eq!(now, Some(Reservation::new(ms(10), ms(20))), "{policy}");
    }
}

/// On two CPUs a global policy has room for twice as much; a policy without reservations admits everything.
#[test]
fn admission_is_the_business_of_the_policy() {
    let tasks = || vec![reserved(10, 5, &[run(1), runtime(9)]), reserved(10, 5, &[run(1)]), reserved(10, 5, &[run(1)])];
    let ask = |cpus, policy| calls(&tell(system(cpus, policy, tasks()), 5));
    assert_eq!(ask(2, "g-cbs"), [(Call::Runtime(ms(9)), true)]);
    assert_eq!(ask(1, "edf"), [(Call::Runtime(ms(9)), true)]);
    assert_eq!(ask(2, "p-cbs"), [(Call::Runtime(ms(9)), false)], "the first two share a CPU");
}

/// Where tasks are placed once, by an assignment, a task can have less than it was placed by, and that again.
#[test]
fn a_task_that_is_split_gets_no_more_than_its_route() {
    let steps = [run(1), runtime(4), period(20), runtime(6), deadline(15), runtime(7), deadline(9), period(9)];
    for (policy, cpus) in [("edf-wm", 2), ("edf-cd", 2)] {
        let tasks = vec![program(10, 6, &steps), program(10, 6, &[run(6)]), program(10, 6, &[run(6)])];
        let granted: Vec<bool> = calls(&tell(system(cpus, policy, tasks), 20)).iter().map(|(_, g)| *g).collect();
        assert_eq!(granted, [true, true, true, true, false, false, false], "{policy}");
    }
}

/// Three thirds are a whole, exactly.
#[test]
fn room_is_exact_where_shares_are_fractions() {
    let others = || vec![reserved(3, 1, &[run(1)]), reserved(7, 2, &[run(1)])];
    let ask = |budget| {
        let mut tasks = vec![reserved(21, 1, &[run(1), runtime(budget)])];
        tasks.extend(others());
        calls(&tell(system(1, "cbs", tasks), 30))[0].1
    };
    assert!(ask(8), "1/3 + 2/7 + 8/21 = 1");
    assert!(!ask(9));
}

/// The budget that is there is exhausted first: the new one comes with the next server period.
#[test]
fn a_budget_holds_from_the_next_one_on() {
    let a = Task { deadline: Some(ms(100)), ..reserved(10, 2, &[run(1), runtime(5), run(6)]) };
    let a = Task { arrival: Arrival::Listed { instants: vec![Span::ZERO] }, ..a };
    let spec = policy("cbs", &[Some(1)]);
    let told = tell(System { policy: spec, ..system(1, "cbs", vec![a]) }, 40);
    let starts: Vec<_> =
        told.records.iter().filter(|r| matches!(r.kind, RecordKind::Start { .. })).map(|r| r.at).collect();
    assert_eq!(starts, [at(0), at(10)], "2 ms, and then 5 ms of the 5 ms reserved");
    assert_eq!(ends(&told), [15]);
}

/// A call in the very instant of the end of a job comes before the end; one in a handler would belong to no job.
#[test]
fn the_last_call_of_a_job_counts() {
    let told = tell(system(1, "edf", vec![program(10, 1, &[run(1), period(30), deadline(20)])]), 40);
    assert_eq!(releases(&told), [(0, 10), (30, 50)]);
    let order: Vec<_> = told.records.iter().filter(|r| r.at == at(1)).map(|r| r.kind).collect();
    assert!(
        matches!(order[..3], [RecordKind::Call { .. }, RecordKind::Call { .. }, RecordKind::Finish { .. }]),
        "{order:?}"
    );
}

#[test]
fn steps_that_make_no_sense_are_refused() {
    let resources = |steps: &[Step]| Engine::new(system(1, "edf", vec![program(10, 1, steps)])).err();
    let lock = |r| Step::Lock(ResourceId(r));
    let held = [lock(0), run(1), WAIT, run(1), Step::Unlock(ResourceId(0))];
    for steps in [&held[..], &[run(1), period(0)], &[run(1), deadline(-1)], &[run(1), runtime(0)]] {
        assert_eq!(resources(steps), Some(Invalid::Steps(A)), "{steps:?}");
    }
}
