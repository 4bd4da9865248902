//! I+PI: the control law in closed loop with the engine, on tasks that never end, with disturbances of their bursts.
//!
//! The figures of the tracking test are those of a floating-point model of the law (three tasks, bursts between 0.2 and 20 ms,
//! α = 0.5, 0.3, 0.2): rounds until the error stays below 2 %.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Engine, Input};
use takt_core::model::{Arrival, Handler, Invalid, PolicySpec, Scope, System, Task, TaskId};
use takt_core::policies::ipi::regulator::{Split, WHOLE};
use takt_core::record::{Outcome, Place, Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_core::work::Work;

fn ms(ms: f64) -> Span {
    Span::from_ns((ms * 1e6).round() as i64)
}

/// The policy with settings as they are written in a file: durations in milliseconds, words as words.
fn spec(name: &str, settings: &[(&str, &str)]) -> PolicySpec {
    let mut spec = PolicySpec::from_name(name).expect("a policy");
    for (name, text) in settings {
        let index = index(name);
        spec.values.set(index, Some(value(index, text)));
    }
    spec
}

fn index(name: &str) -> usize {
    let settings = PolicySpec::from_name("ipi").expect("ipi").profile.settings;
    settings.iter().position(|s| s.name == name).expect("a setting")
}

fn value(index: usize, text: &str) -> i64 {
    use takt_core::model::Kind;
    let number = || (text.parse::<f64>().expect("a number") * 1e6).round() as i64;
    match PolicySpec::from_name("ipi").expect("ipi").profile.settings[index].kind {
        Kind::Choice(words) => words.iter().position(|w| *w == text).expect("a word") as i64,
        Kind::Count(..) => text.parse().expect("a number"),
        // Millionths, and nanoseconds from milliseconds.
        Kind::Ratio(..) | Kind::Duration(..) => number(),
    }
}

/// One of the tasks that always want to run.
fn batch(share: f64) -> Task {
    let share = Some((share * 1e6).round() as u32);
    Task { arrival: Arrival::Listed { instants: vec![Span::ZERO] }, share, ..Task::default() }
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    cpu: Place,
    set_point: Span,
    measured: Span,
    correction: Span,
    /// By the order of the round.
    bursts: Vec<(TaskId, Span)>,
}

struct Plant {
    engine: Engine,
    records: Vec<Record>,
    rounds: Vec<Seen>,
}

impl Plant {
    fn new(policy: PolicySpec, cpus: usize, tasks: Vec<Task>) -> Plant {
        let system = System { tasks, ..System::new(CpuSet::first(cpus), policy) };
        let engine = Engine::new(system).expect("a sound system");
        Plant { engine, records: Vec::new(), rounds: Vec::new() }
    }

    fn step(&mut self, now: Time, inputs: &[Input]) {
        let before = self.records.len();
        let _ = self.engine.step(now, inputs, &mut self.records);
        for record in &self.records[before..] {
            match record.kind {
                RecordKind::Round { place, set_point, measured, correction } => {
                    self.rounds.push(Seen { cpu: place, set_point, measured, correction, bursts: vec![] });
                }
                RecordKind::Burst { task, measured, .. } => {
                    self.rounds.last_mut().expect("bursts come with their round").bursts.push((task, measured));
                }
                _ => {}
            }
        }
    }

    /// The next `count` rounds.
    fn rounds(&mut self, count: usize) -> Vec<Seen> {
        let first = self.rounds.len();
        while self.rounds.len() < first + count {
            let due = self.engine.next_due().expect("a task runs");
            self.step(due, &[]);
        }
        self.rounds[first..].to_vec()
    }

    /// Something happens 10 µs later, in the first burst of a round that has just begun.
    fn happens(&mut self, inputs: &[Input]) {
        let now = self.engine.now() + Span::from_us(10);
        assert!(self.engine.next_due().is_none_or(|due| due > now));
        self.step(now, inputs);
    }

    fn set(&mut self, name: &str, text: &str) {
        let index = index(name);
        self.happens(&[Input::Configure { setting: index as u8, value: Some(value(index, text)) }]);
    }
}

/// Rounds until the length stays within 2 % of `target` milliseconds, the longest round, and the last error in milliseconds.
fn settling(rounds: &[Seen], target: f64) -> (usize, f64, f64) {
    let length = |r: &Seen| r.measured.ns() as f64 / 1e6;
    let error = |r: &Seen| (length(r) - target).abs();
    let outside = rounds.iter().rposition(|r| error(r) > 0.02 * target).map_or(0, |last| last + 1);
    (outside, rounds.iter().map(length).fold(0.0, f64::max), error(rounds.last().expect("some rounds")))
}

const T1: TaskId = TaskId(0);
const T2: TaskId = TaskId(1);
const T3: TaskId = TaskId(2);

/// The run of the thesis' figure 2.3, and what its figure 2.5 is about. Returns what [`settling`] says after each event.
fn tracking(kpi: &str, krr: &str, zrr: &str, feedforward: &str, reinit: &str) -> Vec<(&'static str, usize, f64, f64)> {
    let settings =
        [("kpi", kpi), ("krr", krr), ("zrr", zrr), ("most", "20"), ("feedforward", feedforward), ("reinit", reinit)];
    let mut plant = Plant::new(spec("ipi", &settings), 1, vec![batch(1.0 / 3.0); 3]);
    assert_eq!(settling(&plant.rounds(20), 12.0), (0, 12.0, 0.0));
    let mut seen = Vec::new();
    let mut watch = |plant: &mut Plant, what, rounds| {
        let (settled, peak, error) = settling(&plant.rounds(rounds), 18.0);
        seen.push((what, settled, peak, error));
    };
    let share = |task, share| Input::Share { task, share: Some(share), importance: 1 };
    let skew = |task, by| Input::Skew { task, by: ms(by) };
    plant.set("nominal", "6");
    watch(&mut plant, "set point", 50);
    plant.happens(&[share(T1, 500_000), share(T2, 300_000), share(T3, 200_000)]);
    watch(&mut plant, "alpha", 50);
    plant.happens(&[skew(T1, -2.0)]);
    watch(&mut plant, "disturbed", 50);
    plant.happens(&[skew(T1, 0.0)]);
    watch(&mut plant, "undisturbed", 50);
    // From here on all bursts are disturbed, and must be held all the same.
    plant.happens(&[skew(T2, 1.5), skew(T3, -1.0)]);
    plant.rounds(60);
    plant.happens(&[Input::Block { task: T2 }]);
    watch(&mut plant, "block", 60);
    plant.happens(&[Input::Wake { task: T2 }]);
    watch(&mut plant, "wake", 60);
    seen
}

#[test]
fn set_points_are_tracked_as_the_model_of_the_law_says() {
    let check = |gains: (&str, &str, &str), rules: (&str, &str), expected: [(usize, f64); 6]| {
        let seen = tracking(gains.0, gains.1, gains.2, rules.0, rules.1);
        for ((what, settled, peak, error), expected) in seen.into_iter().zip(expected) {
            assert_eq!(settled, expected.0, "{gains:?} {rules:?}: {what}");
            assert!((peak - expected.1).abs() < 0.05, "{gains:?} {rules:?}: {what}: {peak} ms, not {expected:?}");
            assert!(error < 0.04, "{gains:?} {rules:?}: {what}: {error} ms");
        }
    };
    let (older, newer) = (("0.25", "1.4", "0.88"), ("0.5", "0.9", "0.88"));
    let step = [(19, 19.26), (0, 18.0), (12, 18.42), (12, 20.0)];
    check(older, ("no", "no"), [step[0], step[1], step[2], step[3], (19, 18.0), (23, 39.5)]);
    check(older, ("yes", "no"), [step[0], step[1], step[2], step[3], (19, 19.13), (19, 23.4)]);
    let step = [(16, 19.10), (0, 18.0), (9, 18.37), (9, 20.0)];
    check(newer, ("no", "no"), [step[0], step[1], step[2], step[3], (29, 18.0), (10, 39.47)]);
    check(newer, ("yes", "no"), [step[0], step[1], step[2], step[3], (16, 18.99), (16, 23.4)]);
    check(newer, ("yes", "always"), [(1, 18.0), (0, 18.0), (9, 18.37), (9, 20.0), (3, 18.18), (2, 19.7)]);
    check(newer, ("yes", "changed"), [(1, 18.0), (0, 18.0), (9, 18.37), (9, 20.0), (3, 18.18), (2, 19.7)]);
    let improved = ("1", "1", "0.75");
    let step = [(7, 19.5), (0, 18.0), (5, 18.5), (5, 20.0)];
    check(improved, ("no", "no"), [step[0], step[1], step[2], step[3], (12, 18.0), (4, 39.5)]);
    check(improved, ("yes", "no"), [step[0], step[1], step[2], step[3], (7, 19.35), (7, 23.4)]);
    check(improved, ("yes", "changed"), [(1, 18.0), (0, 18.0), (5, 18.5), (5, 20.0), (2, 18.25), (2, 19.7)]);
}

#[test]
fn shares_are_exact_in_steady_state_whatever_disturbs_the_bursts() {
    let mut plant = Plant::new(spec("ipi", &[]), 1, vec![batch(0.5), batch(0.3), batch(0.2)]);
    let skews = [(T1, -1.25), (T2, 0.7), (T3, 0.3)];
    plant.step(Time::ZERO, &skews.map(|(task, by)| Input::Skew { task, by: ms(by) }));
    plant.rounds(200);
    for round in plant.rounds(50) {
        assert!((round.measured - ms(12.0)).ns().abs() <= 2, "{round:?}");
        for (task, expected) in [(T3, 2.4), (T2, 3.6), (T1, 6.0)] {
            let (_, burst) = round.bursts.iter().find(|b| b.0 == task).expect("all have bursts");
            assert!((*burst - ms(expected)).ns().abs() <= 2, "{round:?}");
        }
    }
}

#[test]
fn without_feedback_disturbances_stay() {
    let mut plant = Plant::new(spec("ipi", &[("feedback", "no")]), 1, vec![batch(0.5), batch(0.3), batch(0.2)]);
    plant.step(Time::ZERO, &[Input::Skew { task: T1, by: ms(0.75) }, Input::Skew { task: T3, by: ms(-0.25) }]);
    for round in plant.rounds(100) {
        assert_eq!(round.measured, ms(12.5));
        assert_eq!(round.bursts, [(T3, ms(2.15)), (T2, ms(3.6)), (T1, ms(6.75))]);
    }
}

#[test]
fn a_loop_just_beyond_its_limit_diverges_and_one_just_inside_does_not() {
    // zrr = 0.88: stable below g = kpi krr = 2.1277.
    let late = |krr| {
        let settings = [("kpi", "0.5"), ("krr", krr), ("least", "0")];
        let mut plant = Plant::new(spec("ipi", &settings), 1, vec![batch(0.25); 4]);
        plant.step(Time::ZERO, &[Input::Skew { task: T1, by: ms(0.01) }]);
        let error = |rounds: &[Seen]| rounds.iter().map(|r| (r.measured - ms(16.0)).ns().abs()).max().expect("rounds");
        plant.rounds(20);
        let early = error(&plant.rounds(10));
        plant.rounds(400);
        (early, error(&plant.rounds(10)))
    };
    let (early, end) = late("4.24");
    assert!(end < early / 10, "g = 2.12: {early} ns, {end} ns");
    let (early, end) = late("4.28");
    assert!(end > early * 10, "g = 2.14: {early} ns, {end} ns");
}

#[test]
fn while_all_bursts_are_at_their_most_the_correction_does_not_wind_up() {
    // Nine milliseconds of each burst of 20 ms are lost, so that a round cannot be longer than 33 ms, whatever is asked.
    let settings = [("nominal", "12"), ("most", "20")];
    let mut plant = Plant::new(spec("ipi", &settings), 1, vec![batch(0.2); 3]);
    let skew = |by: f64| [T1, T2, T3].map(|task| Input::Skew { task, by: ms(by) });
    plant.rounds(3);
    plant.happens(&skew(-9.0));
    let long = plant.rounds(500);
    assert_eq!(long.last().map(|r| r.measured), Some(ms(33.0)));
    assert!(long.iter().all(|r| r.correction <= ms(60.0)));
    plant.happens(&skew(0.0));
    // An integrator that had followed 500 rounds of error would hold the bursts up for hundreds more.
    let (settled, peak, _) = settling(&plant.rounds(100), 36.0);
    assert!(settled <= 20 && peak <= 60.0, "{settled} rounds, {peak} ms");
    // The floor: when everything comes late, the correction stops at minus the round.
    plant.happens(&skew(25.0));
    for round in plant.rounds(100) {
        assert!(round.correction >= -round.measured, "{round:?}");
    }
    plant.happens(&skew(0.0));
    assert!(settling(&plant.rounds(100), 36.0).0 <= 30);
}

#[test]
fn overload_is_divided_by_importance_and_underload_is_not() {
    let task = |share, importance| Task { importance, ..batch(share) };
    let bursts = |tasks: Vec<Task>, settings: &[(&str, &str)]| {
        let mut plant = Plant::new(spec("ipi", settings), 1, tasks);
        let last = plant.rounds(30).pop().expect("rounds");
        last.bursts.iter().rev().map(|(_, b)| (b.ns() + 500) / 1_000).collect::<Vec<_>>()
    };
    let free = [("least", "0"), ("most", "100")];
    // Three tasks that want 20 % get a third each; what is important does not matter.
    assert_eq!(bursts(vec![task(0.2, 1), task(0.2, 9), task(0.2, 1)], &free), [4_000; 3]);
    // 0.6 + 0.6 is too much: 1 to 3.
    assert_eq!(bursts(vec![task(0.6, 1), task(0.6, 3)], &free), [2_000, 6_000]);
    // Without importance a task does not run in overload; its burst of zero is skipped.
    assert_eq!(bursts(vec![task(0.6, 0), task(0.6, 1)], &free), [0, 8_000]);
    // Exactly one is not overload.
    assert_eq!(bursts(vec![task(0.5, 1), task(0.5, 3)], &free), [4_000, 4_000]);
    // All without importance: one task must run.
    assert_eq!(bursts(vec![task(0.9, 0), task(0.6, 0)], &free), [4_000, 4_000]);
}

#[test]
fn overload_is_judged_over_the_ready_tasks_or_over_all() {
    let tasks = || vec![Task { importance: 3, ..batch(0.4) }, batch(0.4), batch(0.8)];
    let first = |rule| {
        let mut plant = Plant::new(spec("ipi", &[("overload", rule), ("most", "100")]), 1, tasks());
        plant.step(Time::ZERO, &[]);
        plant.happens(&[Input::Block { task: T3 }]);
        plant.rounds(10).pop().expect("rounds").bursts
    };
    // Nominal bursts of 4 ms, three tasks: 12 ms.
    assert_eq!(first("ready"), [(T3, Span::ZERO), (T2, ms(6.0)), (T1, ms(6.0))]);
    assert_eq!(first("all"), [(T3, Span::ZERO), (T2, ms(3.0)), (T1, ms(9.0))]);
}

#[test]
fn tasks_without_shares_want_their_load_or_their_rate_or_the_same() {
    let periodic = |period, runtime| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ms(period) },
        runtime: Some(ms(runtime)),
        ..Task::default()
    };
    let aperiodic = || Task { share: None, ..batch(0.0) };
    let bursts = |alpha, tasks: Vec<Task>| {
        let settings = [("alpha", alpha), ("least", "0"), ("most", "1000"), ("nominal", "3")];
        let mut plant = Plant::new(spec("ipi", &settings), 1, tasks);
        let last = plant.rounds(3).pop().expect("rounds");
        last.bursts.iter().rev().map(|(_, b)| (b.ns() + 500) / 1_000).collect::<Vec<_>>()
    };
    // Loads of 0.1 and 0.3, and what they leave; rates of 1 to 2, the third as slow as the slowest.
    let tasks = || vec![periodic(2000.0, 200.0), periodic(1000.0, 300.0), aperiodic()];
    assert_eq!(bursts("load", tasks()), [900, 2_700, 5_400]);
    assert_eq!(bursts("rate", tasks()), [2_250, 4_500, 2_250]);
    assert_eq!(bursts("equal", tasks()), [3_000; 3]);
    // A declared share is kept under all of them.
    let tasks = || vec![Task { share: Some(600_000), ..periodic(2000.0, 200.0) }, periodic(1000.0, 300.0), aperiodic()];
    assert_eq!(bursts("load", tasks()), [5_400, 2_700, 900]);
    assert_eq!(bursts("rate", tasks()), [5_400, 1_800, 1_800]);
    assert_eq!(bursts("equal", tasks()), [5_400, 1_800, 1_800]);
}

#[test]
fn a_round_is_bound_by_the_shortest_period_and_counts_all_or_the_ready_ones() {
    let periodic = |period| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ms(period) },
        share: Some(200_000),
        ..Task::default()
    };
    let length = |settings: &[(&str, &str)], block: Option<TaskId>| {
        let mut plant = Plant::new(spec("ipi", settings), 1, vec![periodic(10.0), periodic(500.0), batch(0.2)]);
        plant.step(Time::ZERO, &[]);
        if let Some(task) = block {
            plant.happens(&[Input::Block { task }]);
        }
        plant.rounds(5).pop().expect("rounds").set_point
    };
    assert_eq!(length(&[], Some(T1)), ms(12.0));
    assert_eq!(length(&[("count", "ready")], None), ms(12.0));
    assert_eq!(length(&[("count", "ready")], Some(T1)), ms(8.0));
    assert_eq!(length(&[("round", "shortest")], None), ms(5.0));
    assert_eq!(length(&[("round", "shortest")], Some(T1)), ms(5.0));
    assert_eq!(length(&[("round", "shortest"), ("count", "ready")], Some(T1)), ms(8.0));
}

/// The tasks whose bursts begin, in microseconds, from `from` on.
fn bursts(records: &[Record], from: i64) -> Vec<(i64, u32)> {
    let start = |r: &Record| match r.kind {
        RecordKind::Start { task, .. } if r.at.ns() >= from * 1_000 => Some((r.at.ns() / 1_000, task.0)),
        _ => None,
    };
    records.iter().filter_map(start).collect()
}

#[test]
fn a_task_that_wakes_waits_its_turn_or_runs_at_once_as_the_setting_says() {
    // The order of the round is 3, 2, 1, 0 with bursts of 4 ms. Task 3 is blocked at 1 ms and woken at 6 ms, in task 1's burst.
    let run = |wake| {
        let settings = [("wake", wake), ("reinit", "no"), ("feedforward", "no"), ("feedback", "no")];
        let mut plant = Plant::new(spec("ipi", &settings), 1, vec![batch(0.25); 4]);
        let task = TaskId(3);
        plant.step(Time::ZERO, &[]);
        plant.step(Time::from_ns(1_000_000), &[Input::Block { task }]);
        plant.step(Time::from_ns(5_000_000), &[]);
        plant.step(Time::from_ns(6_000_000), &[Input::Wake { task }]);
        plant.rounds(1);
        bursts(&plant.records, 0)
    };
    let start = [(0, 3), (1_000, 2), (5_000, 1)];
    let with = |rest: &[(i64, u32)]| [&start[..], rest].concat();
    assert_eq!(run("turn"), with(&[(9_000, 0), (13_000, 3)]));
    assert_eq!(run("cut"), with(&[(6_000, 0), (10_000, 3)]));
    // It may use what it left of its burst.
    assert_eq!(run("next"), with(&[(9_000, 3), (12_000, 0), (16_000, 3)]));
    assert_eq!(run("preempt"), with(&[(6_000, 3), (9_000, 1), (12_000, 0), (16_000, 3)]));
}

#[test]
fn a_yielding_task_is_not_called_again_in_the_same_round() {
    for wake in ["turn", "cut", "next", "preempt"] {
        let mut plant = Plant::new(spec("ipi", &[("wake", wake), ("feedback", "no")]), 1, vec![batch(0.5), batch(0.5)]);
        plant.step(Time::ZERO, &[]);
        plant.step(Time::from_ns(1_000_000), &[Input::Yield { task: T2 }]);
        plant.rounds(2);
        assert_eq!(bursts(&plant.records, 0)[..4], [(0, 1), (1_000, 0), (5_000, 1), (9_000, 0)], "{wake}");
    }
}

#[test]
fn a_job_that_uses_up_its_own_budget_is_aborted_across_bursts() {
    let limited = Task { budget: Some(ms(10.0)), ..batch(0.5) };
    let mut plant = Plant::new(spec("ipi", &[]), 1, vec![limited, batch(0.5)]);
    plant.rounds(6);
    let over = |r: &&Record| matches!(r.kind, RecordKind::Finish { .. });
    let over: Vec<Record> = plant.records.iter().filter(over).copied().collect();
    // Bursts of 4 ms: it is at 10 ms in its third one.
    let consumed = ms(10.0);
    let what = RecordKind::Finish { task: T1, job: 0, outcome: Outcome::Aborted, consumed: Work::nominal(consumed) };
    assert_eq!(over, [Record { at: Time::from_ns(22_000_000), kind: what }]);
    assert_eq!(plant.rounds[2].measured, ms(6.0));
    // Its handler is work in the same burst, and has no limit.
    let handled = Task {
        budget: Some(ms(3.0)),
        handler: Some(Handler { runtime: ms(50.0), deadline: None, utility: 0 }),
        ..batch(0.5)
    };
    let mut plant = Plant::new(spec("ipi", &[]), 1, vec![handled, batch(0.5)]);
    let rounds = plant.rounds(6);
    assert!(rounds.iter().all(|r| r.measured == ms(8.0)), "{rounds:?}");
    assert!(plant.records.iter().any(|r| matches!(r.kind, RecordKind::Handler { task: T1, .. })));
}

#[test]
fn idle_time_is_no_part_of_a_round() {
    let mut plant = Plant::new(spec("ipi", &[("reinit", "no")]), 1, vec![batch(0.5), batch(0.5)]);
    plant.rounds(1);
    for task in [T1, T2] {
        plant.happens(&[Input::Block { task }]);
    }
    let idle = plant.engine.now() + ms(100.0);
    plant.step(idle, &[Input::Wake { task: T1 }, Input::Wake { task: T2 }]);
    assert_eq!(plant.rounds.last().map(|r| r.measured), Some(Span::from_us(20)));
}

#[test]
fn measured_cpu_time_is_the_sensor() {
    // A machine that gives only half of the time: bursts last twice as long, and the round of CPU time is held all the same.
    let mut plant = Plant::new(spec("ipi", &[]), 1, vec![batch(0.75), batch(0.25)]);
    let mut used = [Span::ZERO; 2];
    let (mut now, quantum) = (Time::ZERO, Span::from_us(100));
    plant.step(now, &[]);
    while plant.rounds.len() < 60 {
        now += quantum;
        let task = plant.engine.running()[0];
        used[task.index()] += quantum / 2;
        plant.step(now, &[Input::Usage { task, consumed: Work::nominal(used[task.index()]) }]);
    }
    let last = &plant.rounds[50..];
    assert!(last.iter().all(|r| r.measured == ms(8.0)), "{last:?}");
    assert!((used[0].ns() - 3 * used[1].ns()).abs() <= ms(12.0).ns(), "{used:?}");
}

#[test]
fn gains_change_in_place_and_the_state_stays() {
    let mut plant = Plant::new(spec("ipi", &[]), 1, vec![batch(0.5), batch(0.5)]);
    plant.step(Time::ZERO, &[Input::Skew { task: T1, by: ms(1.0) }]);
    plant.rounds(100);
    for (name, text) in [("kpi", "1"), ("krr", "1"), ("zrr", "0.5"), ("least", "0"), ("migration", "0")] {
        plant.set(name, text);
        assert!(settling(&plant.rounds(5), 8.0).0 == 0, "{name}");
    }
    // A shortest burst above the longest is refused, and nothing happens.
    plant.set("least", "5000");
    let least = plant.engine.system().policy.value("least");
    assert_eq!((settling(&plant.rounds(5), 8.0).0, least), (0, Some(0)));
}

#[test]
fn a_burst_binds_only_its_own_policy() {
    let limited = Task { budget: Some(ms(9.0)), priority: 1, ..batch(0.5) };
    let mut plant = Plant::new(spec("ipi", &[]), 1, vec![batch(0.5), limited]);
    plant.rounds(1);
    plant.step(Time::from_ns(9_000_000), &[]);
    // Task 2 has used 5 ms, 1 ms of it in a burst of 4 ms. Under fixed priorities it continues to its own limit, and the other
    // task for ever.
    plant.engine.switch_policy(spec("fp", &[]), &mut plant.records).expect("a sound system");
    plant.step(Time::from_ns(9_000_000), &[]);
    while plant.engine.next_due().is_some_and(|due| due < Time::from_ns(100_000_000)) {
        let due = plant.engine.next_due().expect("it was there");
        plant.step(due, &[]);
    }
    let over: Vec<_> = plant.records.iter().filter(|r| matches!(r.kind, RecordKind::Finish { .. })).collect();
    let what = RecordKind::Finish { task: T2, job: 0, outcome: Outcome::Aborted, consumed: Work::nominal(ms(9.0)) };
    assert_eq!(over, [&Record { at: Time::from_ns(13_000_000), kind: what }]);
    assert_eq!(plant.engine.running(), [T1]);
}

#[test]
fn tasks_come_at_the_head_and_go() {
    let late = Task { arrival: Arrival::Listed { instants: vec![Span::ZERO, ms(30.0)] }, ..batch(0.25) };
    let mut plant = Plant::new(spec("ipi", &[]), 1, vec![late, batch(0.25), batch(0.25)]);
    plant.rounds(1);
    assert_eq!(plant.rounds[0].bursts.iter().map(|b| b.0).collect::<Vec<_>>(), [T3, T2, T1]);
    plant.happens(&[Input::Exit { task: T1, ending: Ending { regular: true, replaced: false } }]);
    let round = plant.rounds(2).pop().expect("rounds");
    assert_eq!((round.set_point, round.bursts.len()), (ms(8.0), 2));
    plant.happens(&[Input::Enter { task: T1 }]);
    let round = plant.rounds(4).pop().expect("rounds");
    assert_eq!(round.set_point, ms(12.0));
    assert_eq!(round.bursts, [(T1, ms(4.0)), (T3, ms(4.0)), (T2, ms(4.0))]);
}

#[test]
fn the_regulators_of_several_cpus_do_not_disturb_each_other() {
    // Worst fit by share: 0.9 | 0.5 + 0.4.
    let shares = [0.5, 0.9, 0.4];
    let run = |skew: f64| {
        let mut plant = Plant::new(spec("p-ipi", &[]), 2, shares.map(batch).to_vec());
        plant.step(Time::ZERO, &[Input::Skew { task: T2, by: ms(skew) }]);
        let rounds = plant.rounds(300);
        let of = |cpu| rounds.iter().filter(|r| r.cpu == Place(cpu)).take(50).cloned().collect::<Vec<_>>();
        (of(0), of(1))
    };
    let ((alone, other), (disturbed, same)) = (run(0.0), run(1.5));
    assert_eq!(other, same);
    assert_ne!(alone, disturbed);
    assert!(other.iter().all(|r| r.bursts.iter().map(|b| b.0).eq([T3, T1])), "{other:?}");
    assert!((disturbed[49].measured - ms(4.0)).ns().abs() < 1_000, "{disturbed:?}");
}

/// Where each task runs last, and how many migrations there were.
fn homes(plant: &Plant, tasks: usize) -> (Vec<u16>, u64) {
    let mut last = vec![u16::MAX; tasks];
    for record in &plant.records {
        if let RecordKind::Start { task, place, .. } = record.kind {
            last[task.index()] = place.0;
        }
    }
    (last, (0..tasks).map(|t| plant.engine.counts(TaskId(t as u32)).migrations).sum())
}

#[test]
fn an_overloaded_cpu_is_relieved_and_then_there_is_peace() {
    let mut plant = Plant::new(spec("p-ipi", &[]), 2, [0.3, 0.3, 0.3, 0.3].map(batch).to_vec());
    plant.rounds(20);
    assert_eq!(homes(&plant, 4), (vec![0, 1, 0, 1], 0));
    // CPU 0 has 0.9 + 0.3 now; 0.3 moves to CPU 1, which is at 0.9 then.
    plant.happens(&[Input::Share { task: T1, share: Some(900_000), importance: 1 }]);
    plant.rounds(400);
    assert!(plant.engine.now() > Time::from_ns(1_000_000_000));
    assert_eq!(homes(&plant, 4), (vec![0, 1, 1, 1], 1));
    // Without the loop it stays; with a threshold it stays until that is reached.
    for (settings, moved) in
        [([("migration", "0"), ("threshold", "0")], 0), ([("migration", "50"), ("threshold", "1000")], 1)]
    {
        let mut plant = Plant::new(spec("p-ipi", &settings), 2, [0.3, 0.3, 0.3, 0.3].map(batch).to_vec());
        plant.step(Time::ZERO, &[]);
        plant.happens(&[Input::Share { task: T1, share: Some(900_000), importance: 1 }]);
        // 0.2 of a CPU is lacking: 5 s make one second.
        while plant.engine.now() < Time::from_ns(4_900_000_000) {
            plant.rounds(1);
        }
        assert_eq!(homes(&plant, 4).1, 0, "{settings:?}");
        while plant.engine.now() < Time::from_ns(6_000_000_000) {
            plant.rounds(1);
        }
        assert_eq!(homes(&plant, 4).1, moved, "{settings:?}");
    }
}

#[test]
fn a_task_stays_where_its_affinity_wants_it() {
    let pinned = |cpu, share| Task { affinity: CpuSet::single(cpu), ..batch(share) };
    let mut plant = Plant::new(spec("p-ipi", &[]), 2, vec![pinned(0, 0.9), pinned(0, 0.9), batch(0.1)]);
    plant.rounds(300);
    assert_eq!(homes(&plant, 3), (vec![0, 0, 1], 0));
    let alone = System { tasks: vec![pinned(1, 0.5)], ..System::new(CpuSet::first(1), spec("p-ipi", &[])) };
    assert_eq!(Engine::new(alone).err(), Some(Invalid::Affinity(T1)));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |name, value| {
        let mut spec = spec("ipi", &[]);
        spec.values.set(index(name), Some(value));
        Engine::new(System { tasks: vec![batch(1.0)], ..System::new(CpuSet::first(1), spec) }).err()
    };
    for (name, value) in
        [("kpi", 0), ("kpi", -500_000), ("krr", -1), ("zrr", -1), ("nominal", 0), ("wake", 4), ("most", 0)]
    {
        assert_eq!(refused(name, value), Some(Invalid::Setting(name)), "{name} = {value}");
    }
    assert!(matches!(refused("least", 30_000_000), Some(Invalid::Unsuitable(_))), "above the longest burst of 20 ms");
    assert_eq!(refused("least", 20_000_000), None);
    let two = System { tasks: vec![batch(1.0)], ..System::new(CpuSet::first(2), spec("ipi", &[])) };
    assert!(matches!(Engine::new(two).err(), Some(Invalid::Unsuitable(_))));
    assert_eq!(spec("p-ipi", &[]).scope, Scope::Partitioned);
}

/// Parts add up to the whole, and none is further than one unit from what it should be.
#[test]
fn a_split_gives_everything_away() {
    takt_testing::for_all(64, (prop::collection::vec(0i128..1 << 40, 1..20), 0i64..1 << 50), |(parts, whole)| {
        let of: i128 = parts.iter().sum::<i128>().max(1);
        let mut split = Split::new(whole, of);
        let given: Vec<i64> = parts.iter().map(|p| split.next(*p)).collect();
        if parts.iter().any(|p| *p > 0) {
            prop_assert_eq!(given.iter().sum::<i64>(), whole);
        }
        for (part, given) in parts.iter().zip(given) {
            let error = i128::from(given) * of - i128::from(whole) * part;
            prop_assert!(error.abs() <= of, "{part} of {of}: {given} of {whole}");
        }
        prop_assert!(whole <= 1 << 50 && WHOLE == 1 << 32);
        Ok(())
    });
}

/// Whatever the parts do, the sum does not see it: with standing disturbances the round goes to its set point while α
/// jumps in every round.
#[test]
fn alpha_may_change_at_any_time() {
    takt_testing::for_all(
        64,
        (
            prop::collection::vec([1u32..1_000_000, 1..1_000_000, 1..1_000_000], 60),
            [-100i64..100, -100..100, -100..100],
        ),
        |(shares, skews)| {
            let settings = [("least", "0"), ("most", "1000"), ("reinit", "no"), ("nominal", "4")];
            let mut plant = Plant::new(spec("ipi", &settings), 1, vec![batch(0.3); 3]);
            let skew = |i: usize| Input::Skew { task: TaskId(i as u32), by: Span::from_us(skews[i]) };
            plant.step(Time::ZERO, &[skew(0), skew(1), skew(2)]);
            let mut last = Vec::new();
            for shares in shares {
                let share = |i: usize| Input::Share { task: TaskId(i as u32), share: Some(shares[i]), importance: 1 };
                let at = plant.engine.now();
                plant.step(at, &[share(0), share(1), share(2)]);
                last = plant.rounds(1);
            }
            // Bursts that would be negative are none; only then is the sum disturbed.
            let clipped = plant.rounds.iter().skip(20).any(|r| r.bursts.iter().any(|b| b.1 < Span::from_us(200)));
            let error = (last[0].measured - ms(12.0)).ns().abs();
            prop_assert!(clipped || error < 1_000, "{error} ns with {skews:?}");
            Ok(())
        },
    );
}
