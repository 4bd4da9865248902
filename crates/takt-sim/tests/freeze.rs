//! Schedules frozen into window tables: the table does what the policy did.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, Execution, Load, PolicySpec, System, Task, TaskId};
use takt_core::policy::Registry;
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_sim::Unfrozen;
use takt_testing::for_all;

/// Freezes the schedule of one of Takt's own policies.
fn freeze(system: &System, most: usize) -> Result<System, Unfrozen> {
    takt_sim::freeze(system, &Registry::standard(), most)
}

fn ms(ms: i64) -> Span {
    Span::from_ms(ms)
}

fn task(offset: i64, period: i64, runtime: i64) -> Task {
    let arrival = Arrival::Periodic { offset: ms(offset), period: ms(period) };
    Task { arrival, deadline: Some(ms(period)), runtime: Some(ms(runtime)), ..Task::default() }
}

fn system(policy: &str, cpus: usize, tasks: &[(i64, i64, i64)]) -> System {
    let spec = PolicySpec::from_name(policy).expect("a policy");
    let tasks = tasks.iter().map(|&(o, p, c)| task(o, p, c)).collect();
    System { tasks, ..System::new(CpuSet::first(cpus), spec) }
}

/// The tasks on the CPUs, in the order of CPUs and time, within an interval.
struct Occupancy {
    from: Time,
    running: Vec<Option<(Time, TaskId)>>,
    stretches: Vec<(usize, Time, Time, TaskId)>,
}

impl Sink for Occupancy {
    fn record(&mut self, Record { at, kind: what }: Record) {
        match what {
            RecordKind::Start { task, place, .. } => self.running[place.index()] = Some((at, task)),
            RecordKind::Stop { place, .. } => self.stop(place.index(), at),
            _ => {}
        }
    }
}

impl Occupancy {
    fn stop(&mut self, cpu: usize, at: Time) {
        if let Some((began, task)) = self.running[cpu].take() {
            let began = began.max(self.from);
            if began < at {
                self.stretches.push((cpu, began, at, task));
            }
        }
    }
}

fn occupancy(system: &System, from: Span, to: Span) -> (Vec<(usize, Time, Time, TaskId)>, u64) {
    let mut engine = Engine::new(system.clone()).expect("a sound system");
    let (from, running) = (Time::ZERO + from, vec![None; system.places().len()]);
    let mut sink = Occupancy { from, running, stretches: Vec::new() };
    takt_sim::simulate(&mut engine, &Scenario::default(), to, &mut sink, |_| ());
    (0..sink.running.len()).for_each(|cpu| sink.stop(cpu, Time::ZERO + to));
    (join(sink.stretches), engine.totals().missed)
}

fn join(mut stretches: Vec<(usize, Time, Time, TaskId)>) -> Vec<(usize, Time, Time, TaskId)> {
    stretches.sort_unstable_by_key(|&(cpu, from, _, task)| (cpu, task, from));
    stretches.dedup_by(|next, last| {
        let joined = (last.0, last.3, last.2) == (next.0, next.3, next.1);
        if joined {
            last.2 = next.2;
        }
        joined
    });
    stretches.sort_unstable();
    stretches
}

fn by_task(stretches: Vec<(usize, Time, Time, TaskId)>) -> Vec<(usize, Time, Time, TaskId)> {
    join(stretches.into_iter().map(|(_, from, to, task)| (0, from, to, task)).collect())
}

#[test]
fn a_table_by_hand() {
    // Rate-monotonic: (5, 2) at 0 and 5, (10, 4) from 2 to 5 and from 7 to 8.
    let frozen = freeze(&system("rm", 1, &[(0, 5, 2), (0, 10, 4)]), 100).unwrap();
    let windows: Vec<_> =
        frozen.windows.iter().map(|w| (w.length, w.slices.first().map(|s| s.sc.unwrap().0))).collect();
    let expected = [(2, Some(0)), (3, Some(1)), (2, Some(0)), (1, Some(1)), (2, None)];
    assert_eq!(windows, expected.map(|(l, p)| (ms(l), p)));
    assert_eq!(frozen.major_frame(), ms(10));
    frozen.validate().unwrap();
}

#[test]
fn cpus_of_one_instant_are_slices_of_one_window() {
    // On CPUs 3 and 5: task 2 migrates under global EDF, so its partition has a global policy.
    let mut source = system("g-edf", 2, &[(0, 4, 2), (0, 4, 2), (0, 8, 5)]);
    source.cpus = [3, 5].into_iter().fold(CpuSet::EMPTY, |all, cpu| all.union(&CpuSet::single(cpu)));
    let frozen = freeze(&source, 100).unwrap();
    assert_eq!(frozen.windows[0].slices.len(), 2);
    assert_eq!(frozen.windows[0].slices[1].cpus, CpuSet::single(5));
    assert_eq!(occupancy(&frozen, ms(0), ms(16)), occupancy(&source, ms(0), ms(16)));
}

#[test]
fn a_schedule_that_begins_late_is_frozen_once_it_repeats() {
    // The second task begins after more than a hyperperiod; before that the first one has its part alone.
    let source = system("edf", 1, &[(0, 4, 2), (9, 8, 3)]);
    let frozen = freeze(&source, 100).unwrap();
    assert_eq!(frozen.major_frame(), ms(8));
    assert_eq!(occupancy(&frozen, ms(16), ms(48)), occupancy(&source, ms(16), ms(48)));
}

#[test]
fn unfreezable_schedules_are_refused() {
    let unfrozen = |source: &System| freeze(source, 100).unwrap_err();
    let sound = system("edf", 1, &[(0, 5, 2), (0, 10, 4)]);
    let table = freeze(&sound, 100).unwrap();
    assert_eq!(unfrozen(&table), Unfrozen::Table);
    assert_eq!(freeze(&sound, 3), Err(Unfrozen::Windows(3)));
    assert_eq!(unfrozen(&system("edf", 1, &[])), Unfrozen::Empty);
    // Rate-monotonic misses the job of 7 ms: 5 ms of 2 each leave it 1 + 3 + … within its period.
    let late = Unfrozen::Late { task: TaskId(1), job: 0, due: Time::ZERO + ms(7) };
    assert_eq!(unfrozen(&system("rm", 1, &[(0, 5, 2), (0, 7, 4)])), late);
    let primes = [(0, 999_983, 1), (0, 999_979, 1), (0, 1, 1)];
    assert_eq!(unfrozen(&system("g-edf", 2, &primes)), Unfrozen::Long);
    let change = |change: fn(&mut System)| {
        let mut source = sound.clone();
        change(&mut source);
        unfrozen(&source)
    };
    assert_eq!(change(|s| s.tasks[1].arrival = Arrival::Activated), Unfrozen::NotPeriodic(TaskId(1)));
    assert_eq!(change(|s| s.tasks[0].runtime = None), Unfrozen::Unknown(TaskId(0)));
    assert_eq!(change(|s| s.tasks[0].program.execution = Execution::Series(vec![ms(1)])), Unfrozen::Unknown(TaskId(0)));
    assert_eq!(change(|s| s.timing.tick = ms(1)), Unfrozen::Machine);
    let load = Load { points: vec![(Span::ZERO, 500_000)], repeat: None };
    assert_eq!(unfrozen(&System { load: Some(load), ..sound }), Unfrozen::Machine);
}

#[test]
fn a_task_without_a_deadline_is_frozen_if_it_keeps_up() {
    let mut source = system("rm", 1, &[(0, 4, 3), (0, 8, 2)]);
    source.tasks[1].deadline = None;
    let frozen = freeze(&source, 100).unwrap();
    assert_eq!(occupancy(&frozen, ms(0), ms(24)), occupancy(&source, ms(0), ms(24)));
    // One millisecond more, and its jobs pile up.
    source.tasks[1].runtime = Some(ms(3));
    let late = Unfrozen::Late { task: TaskId(1), job: 0, due: Time::ZERO + ms(8) };
    assert_eq!(freeze(&source, 100), Err(late));
}

const PERIODS: [i64; 7] = [4, 5, 6, 8, 10, 12, 20];
const POLICIES: [&str; 14] = [
    "g-edf", "p-edf", "g-rm", "p-rm", "p-dm", "g-fp", "p-llf", "g-llf", "g-fifo", "p-rr", "llref", "pd2", "g-gua",
    "p-np-edf",
];

#[test]
fn a_table_gives_every_cpu_to_whom_the_policy_gave_it() {
    let tasks = || {
        let one = (0..3_i64, 0..PERIODS.len(), 1..6_i64);
        prop::collection::vec(one.prop_map(|(o, p, c)| (o, PERIODS[p], c.min(PERIODS[p] - 1))), 1..6)
    };
    let case = (0..POLICIES.len(), 1..4_usize, prop::bool::ANY, tasks());
    let frozen = std::cell::Cell::new(0);
    let traded = std::cell::Cell::new(0);
    for_all(400, case, |(policy, cpus, together, mut tasks)| {
        if together {
            tasks.iter_mut().for_each(|t| t.0 = 0);
        }
        let source = system(POLICIES[policy], cpus, &tasks);
        let table = match freeze(&source, 10_000) {
            Ok(table) => table,
            // Chance makes overloads, too, and tasks that no CPU has room for.
            Err(Unfrozen::Late { .. } | Unfrozen::Invalid(_)) => return Ok(()),
            Err(why) => return Err(TestCaseError::fail(why.to_string())),
        };
        frozen.set(frozen.get() + 1);
        let frame = table.major_frame();
        let (from, to) = if together { (Span::ZERO, frame * 3) } else { (frame * 9, frame * 11) };
        let ((given, missed), (wanted, _)) = (occupancy(&table, from, to), occupancy(&source, from, to));
        prop_assert_eq!(missed, 0);
        if given != wanted {
            // Tasks that trade CPUs for ever.
            traded.set(traded.get() + 1);
            prop_assert_eq!(by_task(given), by_task(wanted));
        }
        Ok(())
    });
    assert!(takt_testing::shows_enough(frozen.get(), 100, 400), "only {} of the cases could be frozen", frozen.get());
    assert!(traded.get() * 10 < frozen.get(), "in {} of {} cases tasks trade CPUs", traded.get(), frozen.get());
}
