//! The effects of calls on others, and of tasks that come and go.

use super::told::*;
use super::{periodic, reservation};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use takt_core::cpus::CpuSet;
use takt_core::input::Input;
use takt_core::model::*;
use takt_core::record::RecordKind;
use takt_core::rng::draw_up_to;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_testing::for_all;

const SOUND: [(&str, Option<i64>); 5] =
    [("cbs", None), ("cbs", Some(1)), ("fcbs", None), ("grub", None), ("grub", Some(1))];

fn lowers_early(asks: i64) -> Vec<Task> {
    let program = |steps: &[Step]| steps.to_vec();
    let a =
        Task { program: Program::doing(program(&[run(90), Step::Call(Call::Runtime(ms(10)))])), ..periodic(90, 200) };
    let b = Task {
        arrival: Arrival::Periodic { offset: ms(asks), period: ms(200) },
        deadline: None,
        reservation: Some(reservation((1, 20))),
        program: Program::doing(program(&[Step::Run(Span::from_us(10)), Step::Call(Call::Runtime(ms(9))), run(100)])),
        ..Task::default()
    };
    vec![a, b, periodic(100, 200)]
}

/// A server that has used its budget ahead of time asks for less: no server can have the rest before its deadline.
#[test]
fn returned_bandwidth_is_available_from_the_servers_deadline() {
    for (name, enforcement) in SOUND {
        for (asks, granted) in [(90, false), (199, false), (200, true)] {
            let system = System { policy: policy(name, &[enforcement]), ..system(1, "cbs", lowers_early(asks)) };
            let told = tell(system, 1200);
            let calls = told.records.iter().filter_map(|r| match r.kind {
                RecordKind::Call { task: TaskId(1), granted, .. } => Some(granted),
                _ => None,
            });
            assert_eq!(calls.take(1).collect::<Vec<_>>(), [granted], "{name} {enforcement:?}, asked at {asks} ms");
            assert_eq!(told.engine.counts(TaskId(2)).missed, 0, "{name} {enforcement:?}, asked at {asks} ms");
        }
    }
}

/// A task that has left may come back, so its share is not there for others.
#[test]
fn a_leaving_task_keeps_its_reservation() {
    let a = Task { deadline: None, ..periodic(10, 20) };
    let steps = vec![run(1), Step::Sleep(ms(30)), Step::Call(Call::Runtime(ms(15))), run(1000)];
    let b = Task {
        deadline: None,
        reservation: Some(reservation((5, 20))),
        program: Program::doing(steps),
        ..periodic(5, 20)
    };
    let at = |t: i64| Time::ZERO + ms(t);
    let changes = vec![(at(1), Input::Leave { task: TaskId(0) }), (at(100), Input::Enter { task: TaskId(0) })];
    for (name, enforcement) in SOUND {
        let tasks = vec![a.clone(), b.clone(), periodic(5, 20)];
        let system = System { policy: policy(name, &[enforcement]), ..system(1, "cbs", tasks) };
        let told = tell_with(system, &Scenario { changes: changes.clone(), ..Scenario::default() }, 400);
        assert!(told.records.iter().any(|r| matches!(r.kind, RecordKind::Call { granted: false, .. })), "{name}");
        assert_eq!(told.engine.counts(TaskId(2)).missed, 0, "{name} {enforcement:?}");
    }
}

/// Servers that fill a CPU. Every other one needs what it likes, and asks for what it likes.
fn restless(seed: u64) -> (Vec<Task>, Vec<(Time, Input)>) {
    let draw = |most: u64, what: u64, which: u64| draw_up_to(most, seed, what, which) as i64;
    let n = 3 + draw(3, 0, 0) as u64;
    let mut cuts: Vec<i64> = (1..n).map(|k| 1 + draw(118, 1, k)).chain([0, 120]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let (mut tasks, mut changes) = (vec![], vec![]);
    for (k, cut) in cuts.windows(2).enumerate() {
        let (which, share) = (k as u64, cut[1] - cut[0]);
        let period = [12, 24, 60, 120][draw(3, 2, which) as usize];
        let budget = Span::from_ns(share * ms(period).ns() / 120);
        let hard = periodic(1, period);
        let task = Task { runtime: Some(budget), ..hard };
        if k % 2 == 0 {
            tasks.push(task);
            continue;
        }
        let step = |j: u64| {
            let some = |most: i64, what: u64| Span::from_ns(1 + draw(most as u64, what, which * 100 + j));
            match draw(6, 3, which * 100 + j) {
                0 => Step::Call(Call::Runtime(some(2 * budget.ns(), 4))),
                1 => Step::Call(Call::Period(ms([6, 12, 24, 60, 120][draw(4, 5, which * 100 + j) as usize]))),
                2 => Step::WaitPeriod,
                3 => Step::Sleep(some(2 * ms(period).ns(), 6)),
                _ => Step::Run(some(2 * budget.ns(), 7)),
            }
        };
        let steps = (0..2 + draw(8, 8, which) as u64).map(step).chain([run(1)]).collect();
        if draw(2, 9, which) == 0 {
            let leave = ms(draw(600, 10, which));
            let task = TaskId(k as u32);
            changes.push((Time::ZERO + leave, Input::Leave { task }));
            changes.push((Time::ZERO + leave + ms(1 + draw(600, 11, which)), Input::Enter { task }));
        }
        tasks.push(Task { program: Program::doing(steps), deadline: None, ..task });
    }
    changes.sort_by_key(|(at, _)| *at);
    (tasks, changes)
}

fn reserved_tasks_meet_their_deadlines(seed: u64) -> Result<(), TestCaseError> {
    let (tasks, changes) = restless(seed);
    for (name, enforcement) in SOUND {
        let spec = policy(name, &[enforcement]);
        let hard = (0..tasks.len()).step_by(2).map(|t| TaskId(t as u32));
        let system = System { tasks: tasks.clone(), seed, ..System::new(CpuSet::first(1), spec) };
        let told = tell_with(system, &Scenario { changes: changes.clone(), ..Scenario::default() }, 2400);
        let missed: u64 = hard.map(|t| told.engine.counts(t).missed).sum();
        prop_assert_eq!(missed, 0, "{} {:?}", name, enforcement);
    }
    Ok(())
}

#[test]
fn calls_of_others_make_no_task_within_its_reservation_late() {
    for_all(200, any::<u64>(), reserved_tasks_meet_their_deadlines);
}

/// The task has used budgets ahead of time, lowers its runtime, sleeps and raises it again.
#[test]
fn a_smaller_share_brings_no_budget_early() {
    reserved_tasks_meet_their_deadlines(4_455_953_959_876_257_417).unwrap_or_else(|error| panic!("{error}"));
}

/// GRUB: the task has asked for a longer period. Its next budget lasts as the smaller share says.
#[test]
fn a_budget_of_a_smaller_share_is_out_of_date_earlier() {
    reserved_tasks_meet_their_deadlines(15_884_485_746_966_730_804).unwrap_or_else(|error| panic!("{error}"));
}

/// GRUB: rests of budgets below a nanosecond would add up to a nanosecond more than the reservation.
#[test]
fn rests_of_budgets_do_not_add_up() {
    for seed in [8_915_417_734_889_436_179, 6_046_188_189_274_918_369, 8_875_472_291_335_875_793] {
        reserved_tasks_meet_their_deadlines(seed).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

/// A server that sleeps with a gift must not have both that and its own budget when it wakes up.
#[test]
fn a_gift_is_not_kept_during_sleep() {
    for seed in [1_178_198_094_307_783_757, 9_615_467_189_930_062_479] {
        reserved_tasks_meet_their_deadlines(seed).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

/// The runtime of a call held at once and its period later: for a while the server had more than was admitted.
#[test]
fn a_call_changes_runtime_and_period_of_a_server_together() {
    for seed in [584_244_536_003_420_726, 6_357_514_929_188_492_791] {
        reserved_tasks_meet_their_deadlines(seed).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}
