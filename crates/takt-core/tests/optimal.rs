//! LLREF and PD² miss nothing that can be met on identical CPUs: a worked example, and random task sets that use up to all of
//! the machine. A set that fails is printed with the seed that makes it again (`TAKT_SEED`).

use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::*;
use takt_core::model::{PolicySpec, Setting};
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::rng::draw_up_to;
use takt_core::time::{Span, Time};

/// A task: offset, runtime, relative deadline, period, and how much later than that a job may come.
#[derive(Clone, Copy, Debug)]
struct T {
    offset: i64,
    c: i64,
    d: i64,
    t: i64,
    spread: i64,
}

fn system(policy: &str, settings: &[(&str, i64)], m: usize, set: &[T], unit: i64) -> System {
    let ns = |x: i64| Span::from_ns(x * unit);
    let task = |t: &T| Task {
        arrival: match t.spread {
            0 => Arrival::Periodic { offset: ns(t.offset), period: ns(t.t) },
            spread => Arrival::Sporadic { offset: ns(t.offset), period: ns(t.t), spread: ns(spread) },
        },
        deadline: Some(ns(t.d)),
        runtime: Some(ns(t.c)),
        ..Task::default()
    };
    let mut spec = PolicySpec::from_name(policy).expect("a policy");
    for (name, value) in settings {
        let index = spec.profile.settings.iter().position(|s: &Setting| s.name == *name).expect("a setting");
        spec.values.set(index, Some(*value));
    }
    System { tasks: set.iter().map(task).collect(), ..System::new(CpuSet::first(m), spec) }
}

/// Lets every job run for its need, which is its declared runtime unless `execution` says otherwise, until `end`. Calls `seen`
/// after each step.
fn run<S: Sink>(system: System, end: Time, sink: &mut S, mut seen: impl FnMut(&Engine)) -> Engine {
    let mut engine = Engine::new(system).expect("a sound system");
    let mut inputs = Vec::new();
    loop {
        let done = |e: &Engine, task: TaskId| {
            let job = e.job(task).expect("it runs");
            let need = e.system().tasks[task.index()].demand(0, task, job.number).expect("it has a runtime");
            e.now() + (need - job.consumed.nominal_time())
        };
        let completions = engine.running().iter().map(|&t| done(&engine, t));
        let Some(now) = completions.chain(engine.next_due()).min().filter(|now| *now <= end) else { break };
        inputs.clear();
        let over = engine.running().iter().filter(|&&t| done(&engine, t) == now);
        inputs.extend(over.map(|&task| Input::Complete { task, job: engine.at(task).expect("it runs") }));
        if now == end {
            break;
        }
        let _ = engine.step(now, &inputs, sink);
        inputs.clear();
        seen(&engine);
    }
    engine.close(end, &inputs, sink);
    engine
}

const EXAMPLE: [T; 3] = [T { offset: 0, c: 2, d: 3, t: 3, spread: 0 }; 3];
const MS: i64 = 1_000_000;

#[test]
fn three_tasks_of_two_thirds_on_two_cpus() {
    for (policy, settings) in [("llref", &[][..]), ("pd2", &[]), ("pd2", &[("early", 1)])] {
        let mut rows: Vec<(i64, Vec<u32>)> = Vec::new();
        let engine = run(system(policy, settings, 2, &EXAMPLE, MS), Time::from_ns(6 * MS), &mut (), |e| {
            let mut row: Vec<u32> = e.running().iter().map(|t| t.0 + 1).collect();
            row.sort_unstable();
            rows.push((e.now().ns() / MS, row));
        });
        let once = [(0, [1, 2]), (1, [1, 3]), (2, [2, 3])];
        let twice: Vec<_> = (0..2).flat_map(|k| once.map(|(at, row)| (at + 3 * k, row.to_vec()))).collect();
        assert_eq!(rows, twice, "{policy} {settings:?}");
        assert_eq!((engine.totals().met, engine.totals().missed), (6, 0), "{policy} {settings:?}");
    }
    let engine = run(system("g-edf", &[], 2, &EXAMPLE, MS), Time::from_ns(6 * MS), &mut (), |_| ());
    assert!(engine.counts(TaskId(2)).missed > 0, "global EDF misses the third task's deadline");
}

/// Sets that use all CPUs and that PD² would miss without the comparison of overlaps (the first two) or of group deadlines,
/// found by random search.
#[test]
fn every_tie_break_of_pd2_is_needed() {
    let light: &[(i64, i64)] = &[(1, 3), (3, 6), (1, 3), (1, 2), (3, 6), (2, 5), (3, 6), (14, 30), (14, 30)];
    let mixed = &[(1, 2), (1, 3), (1, 2), (1, 3), (1, 3), (1, 6), (1, 2), (7, 15), (4, 10), (14, 30)];
    let heavy = &[(8, 9), (2, 3), (35, 36), (8, 12), (29, 36)];
    let some = &[(14, 15), (4, 5), (9, 10), (9, 10), (14, 30)];
    for pairs in [light, mixed, heavy, some] {
        let set: Vec<T> = pairs.iter().map(|&(c, t)| T { offset: 0, c, d: t, t, spread: 0 }).collect();
        misses_nothing(0, "pd2", &[("quantum", 1)], 4, &set, 1);
        misses_nothing(0, "llref", &[], 4, &set, 1);
    }
}

/// A task that needs more than it declares is late itself and makes no other task late.
#[test]
fn an_overrun_is_the_task_s_own_loss() {
    for (policy, settings) in [("llref", &[][..]), ("pd2", &[]), ("pd2", &[("early", 1)])] {
        let mut system = system(policy, settings, 2, &EXAMPLE, MS);
        system.tasks[0].program.execution = Execution::Series(vec![Span::from_ms(2), Span::from_ms(3)]);
        let engine = run(system, Time::from_ns(60 * MS), &mut (), |_| ());
        let [first, second, third] = [0, 1, 2].map(|t| engine.counts(TaskId(t)));
        assert_eq!((second.missed, third.missed), (0, 0), "{policy} {settings:?}");
        assert!(first.missed > 0 && first.completed > 5, "{policy} {settings:?}: {first:?}");
    }
}

/// Jobs that need less than they declare leave CPU time to no task that could miss by it.
#[test]
fn jobs_that_end_early_do_no_harm() {
    for number in 4000..4100 {
        let mut dice = Dice::new(number);
        let m = dice.roll(1, 4);
        let set = random_set(&mut dice, m, true);
        for (policy, settings) in [("llref", &[][..]), ("pd2", &[("quantum", 1)])] {
            let mut system = system(policy, settings, m as usize, &set, 1);
            for task in &mut system.tasks {
                let (least, most) = (Span::from_ns(1), task.runtime.expect("it has one"));
                task.program.execution = Execution::Uniform { least, most };
            }
            let engine = run(system, Time::from_ns(2 * HYPERPERIOD), &mut (), |_| ());
            let seed = dice.seed;
            assert_eq!(engine.totals().missed, 0, "{policy}, M = {m}, TAKT_SEED={seed}, set {number}: {set:?}");
        }
    }
}

/// The order in which the example's jobs take the CPUs, by name of the CPU: one migration per period for each of two tasks.
#[test]
fn the_example_moves_as_few_jobs_as_it_can() {
    for policy in ["llref", "pd2"] {
        let mut records: Vec<Record> = Vec::new();
        let _ = run(system(policy, &[], 2, &EXAMPLE, MS), Time::from_ns(3 * MS), &mut records, |_| ());
        let starts = records.iter().filter_map(|r| match r.kind {
            RecordKind::Start { task, place, .. } => Some((r.at.ns() / MS, task.0 + 1, place.0)),
            _ => None,
        });
        // T1 stays on CPU 0 while T3 takes CPU 1 from T2; then T2 continues where T1 was.
        assert_eq!(starts.collect::<Vec<_>>(), [(0, 1, 0), (0, 2, 1), (1, 3, 1), (2, 2, 0)], "{policy}");
    }
}

/// Random numbers by position, so that a set depends on nothing but the seed and its number.
struct Dice {
    seed: u64,
    set: u64,
    next: u64,
}

impl Dice {
    fn new(set: u64) -> Dice {
        Dice { seed: takt_testing::seed(), set, next: 0 }
    }
    /// From `least` to `most`, both included.
    fn roll(&mut self, least: i64, most: i64) -> i64 {
        self.next += 1;
        least + draw_up_to((most - least) as u64, self.seed, self.set, self.next) as i64
    }
}

/// All periods divide it.
const HYPERPERIOD: i64 = 420;

/// A set with a utilisation of exactly `m`, or with `full` false somewhat below, on periods that divide the hyperperiod.
fn random_set(dice: &mut Dice, m: i64, full: bool) -> Vec<T> {
    let periods: Vec<i64> = (2..=420).filter(|t| HYPERPERIOD % t == 0).collect();
    let mut left = m * HYPERPERIOD;
    let mut set = Vec::new();
    let mut add = |c: i64, t: i64| set.push(T { offset: 0, c, d: t, t, spread: 0 });
    while left > 0 {
        let t = periods[dice.roll(0, periods.len() as i64 - 1) as usize];
        // Light, even and heavy tasks.
        let most = [t / 4, t, t][dice.roll(0, 2) as usize].max(1);
        let c = if dice.roll(0, 4) == 0 { most } else { dice.roll(1, most) };
        let work = c * (HYPERPERIOD / t);
        if work <= left {
            add(c, t);
            left -= work;
        } else {
            // Whatever is still missing, on any period that makes it a whole number.
            let fits = |t: &&i64| left * **t % HYPERPERIOD == 0 && left <= HYPERPERIOD;
            let fitting: Vec<i64> = periods.iter().filter(fits).copied().collect();
            let t = match fitting.as_slice() {
                [] => HYPERPERIOD,
                some => some[dice.roll(0, some.len() as i64 - 1) as usize],
            };
            let part = left.min(HYPERPERIOD);
            if full {
                add(part * t / HYPERPERIOD, t);
            }
            left -= part;
        }
    }
    set
}

/// Fails unless every job whose deadline comes is met for two hyperperiods after the last offset.
fn misses_nothing(number: u64, policy: &str, settings: &[(&str, i64)], m: i64, set: &[T], unit: i64) {
    let last = set.iter().map(|t| t.offset + t.spread * 8).max().unwrap_or(0);
    let end = Time::from_ns((2 * HYPERPERIOD + last) * unit);
    let engine = run(system(policy, settings, m as usize, set, unit), end, &mut (), |_| ());
    let totals = engine.totals();
    let seed = Dice::new(0).seed;
    assert_eq!(
        totals.missed, 0,
        "{policy} {settings:?}, M = {m}, TAKT_SEED={seed}, set {number}: {set:?}, unit {unit}"
    );
    assert!(totals.met as usize >= set.len(), "set {number}: {totals:?}");
}

#[test]
fn llref_misses_nothing_with_local_times_that_are_whole() {
    for number in 0..250 {
        let mut dice = Dice::new(number);
        let (m, full) = (dice.roll(1, 4), dice.roll(0, 3) > 0);
        let set = random_set(&mut dice, m, full);
        // The unit is a multiple of every period, so that each share of each plane is whole.
        misses_nothing(number, "llref", &[], m, &set, HYPERPERIOD);
    }
}

/// One unit is 1 ns: planes are as short as can be, and nearly every local time is a fraction. No slack is left.
#[test]
fn llref_misses_nothing_with_local_times_that_are_rounded() {
    for number in 1000..1400 {
        let mut dice = Dice::new(number);
        let (m, full) = (dice.roll(1, 4), dice.roll(0, 7) > 0);
        let mut set = random_set(&mut dice, m, full);
        if dice.roll(0, 1) == 0 {
            set.iter_mut().for_each(|t| t.offset = dice.roll(0, 40));
        }
        misses_nothing(number, "llref", &[], m, &set, 1);
    }
}

#[test]
fn pd2_misses_nothing_on_whole_quanta() {
    for number in 2000..2220 {
        let mut dice = Dice::new(number);
        let (m, full) = (dice.roll(1, 4), dice.roll(0, 7) > 0);
        let mut set = random_set(&mut dice, m, full);
        if dice.roll(0, 1) == 0 {
            set.iter_mut().for_each(|t| t.offset = dice.roll(0, 40));
        }
        for early in [0, 1] {
            misses_nothing(number, "pd2", &[("quantum", 1), ("early", early)], m, &set, 1);
        }
    }
}

/// Jobs that come late by random amounts, and deadlines below the periods: the sum of runtime / deadline is at most m.
#[test]
fn sporadic_jobs_with_constrained_deadlines_are_met() {
    for number in 3000..3200 {
        let mut dice = Dice::new(number);
        let m = dice.roll(1, 4);
        let mut set = random_set(&mut dice, m, true);
        for t in &mut set {
            (t.offset, t.spread) = (dice.roll(0, 30), dice.roll(0, 20));
            t.t += dice.roll(0, 1) * dice.roll(0, 10);
        }
        misses_nothing(number, "llref", &[], m, &set, 1);
        for early in [0, 1] {
            misses_nothing(number, "pd2", &[("quantum", 1), ("early", early)], m, &set, 1);
        }
    }
}

#[test]
fn systems_beyond_optimal_policies_are_refused() {
    for policy in ["llref", "pd2"] {
        let sound = || system(policy, &[], 2, &EXAMPLE, MS);
        assert!(Engine::new(sound()).is_ok());
        let refused = |change: &dyn Fn(&mut Task)| {
            let mut system = sound();
            change(&mut system.tasks[1]);
            Engine::new(system).err()
        };
        let listed = Arrival::Listed { instants: vec![Span::ZERO] };
        let task = TaskId(1);
        assert_eq!(refused(&|t| t.runtime = None), Some(Invalid::Needs(task, "runtime")));
        assert_eq!(refused(&|t| t.deadline = None), Some(Invalid::Needs(task, "deadline")));
        assert_eq!(refused(&|t| t.arrival = listed.clone()), Some(Invalid::Needs(task, "period")));
        let bound = refused(&|t| t.affinity = CpuSet::first(1));
        assert!(matches!(bound, Some(Invalid::Unsuitable(why)) if why.contains("affinity")), "{bound:?}");
    }
    let short = Engine::new(system("pd2", &[("quantum", 4 * MS)], 2, &EXAMPLE, MS)).err();
    assert!(matches!(short, Some(Invalid::Unsuitable(why)) if why.contains("quantum")), "{short:?}");
}

/// A release within a quantum is noticed when the next one begins, and a job that ends within one leaves its CPU idle.
#[test]
fn pd2_decides_where_quanta_begin() {
    let set = [T { offset: 3, c: 15, d: 40, t: 40, spread: 0 }, T { offset: 0, c: 10, d: 40, t: 40, spread: 0 }];
    let mut records: Vec<Record> = Vec::new();
    let _ = run(system("pd2", &[("quantum", 10)], 1, &set, 1), Time::from_ns(40), &mut records, |_| ());
    let events = records.iter().filter_map(|r| match r.kind {
        RecordKind::Start { task, .. } => Some((r.at.ns(), task.0, "starts")),
        RecordKind::Finish { task, .. } => Some((r.at.ns(), task.0, "ends")),
        _ => None,
    });
    // Task 0 needs two quanta in four: from 10 to 30 for the first and from 30 to 50 for the second, of which it uses half.
    let expected = [(0, 1, "starts"), (10, 1, "ends"), (10, 0, "starts"), (30, 0, "starts"), (35, 0, "ends")];
    assert_eq!(events.collect::<Vec<_>>(), expected);
}
