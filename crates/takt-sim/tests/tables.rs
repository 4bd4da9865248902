//! Window tables that take over in a run: at the end of a major frame, so that no window is missed and none is doubled. The expected
//! schedules are worked out by hand.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{
    Arrival, BestEffortStart, Completion, Partition, PartitionId, PolicySpec, Slice, System, Task, TaskId, Window,
    WindowTable,
};
use takt_core::record::{Outcome, Record, RecordKind, Sink};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_sim::Step;

#[derive(Default)]
struct Records(Vec<Record>);

impl Sink for Records {
    fn record(&mut self, record: Record) {
        self.0.push(record);
    }
}

fn at(ms: i64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn window(length: i64, sc: Option<u32>, be: Option<u32>) -> Window {
    let slice = Slice { cpus: CpuSet::single(0), sc: sc.map(PartitionId), be: be.map(PartitionId) };
    Window { length: Span::from_ms(length), slices: vec![slice] }
}

fn budgets(budgets: [i64; 2]) -> Vec<(Option<Span>, Span)> {
    budgets.map(|budget| (Some(Span::from_ms(budget)), Span::ZERO)).to_vec()
}

fn table(windows: Vec<Window>, of: [i64; 2]) -> WindowTable {
    WindowTable { windows, be_start: BestEffortStart::AllDone, budgets: budgets(of), frequencies: Vec::new() }
}

/// Two partitions of one process each, in windows of 10 and 20 ms, with budgets of 4 and 6 ms.
fn system() -> System {
    let spec = PolicySpec::from_name("windows").expect("it is in the registry");
    let task = |budget| Task {
        arrival: Arrival::Activated,
        budget: Some(Span::from_ms(budget)),
        completion: Completion::None,
        ..Task::default()
    };
    let partition = |task| Partition { tasks: vec![TaskId(task)], policy: None };
    System {
        tasks: vec![task(4), task(6)],
        partitions: vec![partition(0), partition(1)],
        windows: vec![window(10, Some(0), None), window(20, Some(1), None)],
        ..System::new(CpuSet::single(0), spec)
    }
}

fn engine(tables: &[WindowTable]) -> Engine {
    let mut engine = Engine::new(system()).expect("it is sound");
    for (index, table) in tables.iter().enumerate() {
        assert_eq!(engine.add_table(table.clone()), Ok(index as u16));
    }
    engine
}

/// The records of a simulation with these changes.
fn simulated(tables: &[WindowTable], changes: &[(Time, Input)], length: i64) -> Vec<Record> {
    let scenario = Scenario { changes: changes.to_vec(), ..Scenario::default() };
    let mut records = Records::default();
    takt_sim::simulate(&mut engine(tables), &scenario, Span::from_ms(length), &mut records, |_| {});
    records.0
}

/// Windows as `instant window/frame`, takeovers as `instant =table`, and starts as `instant task`, in milliseconds.
fn told(records: &[Record]) -> String {
    let line = |Record { at, kind }: &Record| {
        let at = at.ns() / 1_000_000;
        match kind {
            RecordKind::Window { window, frame } => Some(format!("{at} {window}/{frame}")),
            RecordKind::Table { to } => Some(format!("{at} ={to}")),
            RecordKind::Start { task, .. } => Some(format!("{at} {}", ["a", "b"][task.index()])),
            _ => None,
        }
    };
    records.iter().filter_map(line).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_table_takes_over_at_the_end_of_the_frame() {
    let other = table(vec![window(5, Some(1), None), window(5, None, None), window(15, Some(0), Some(1))], [7, 2]);
    let told = told(&simulated(&[other], &[(at(13), Input::Table { to: 0 })], 60));
    assert_eq!(
        told, "0 0/0, 0 a, 10 1/0, 10 b, 30 =0, 30 0/1, 30 b, 35 1/1, 40 2/1, 40 a, 47 b, 55 0/2, 55 b",
        "the window at 10 ms is served to its end, and budgets are those of the table"
    );
}

#[test]
fn a_change_at_the_border_holds_from_there_on() {
    let other = table(vec![window(30, Some(0), None)], [4, 6]);
    let told = told(&simulated(&[other], &[(at(30), Input::Table { to: 0 })], 61));
    assert_eq!(told, "0 0/0, 0 a, 10 1/0, 10 b, 30 =0, 30 0/1, 30 a, 60 0/2, 60 a");
}

#[test]
fn the_last_table_before_the_border_takes_over() {
    let tables = [table(vec![window(5, Some(0), None)], [1, 1]), table(vec![window(7, Some(1), None)], [1, 1])];
    let changes = [(at(3), Input::Table { to: 0 }), (at(4), Input::Table { to: 1 }), (at(5), Input::Table { to: 9 })];
    let told = told(&simulated(&tables, &changes, 40));
    assert_eq!(told, "0 0/0, 0 a, 10 1/0, 10 b, 30 =1, 30 0/1, 30 b, 37 0/2, 37 b");
}

/// A best-effort process that is cut off by the border continues with its remaining budget, and one without a further slice waits.
#[test]
fn a_best_effort_process_continues_in_the_new_table() {
    let first = table(vec![window(4, None, Some(1))], [4, 6]);
    let second = table(vec![window(10, None, Some(1))], [4, 6]);
    let none = table(vec![window(10, None, None)], [4, 6]);
    let changes = [(at(1), Input::Table { to: 0 }), (at(31), Input::Table { to: 1 }), (at(35), Input::Table { to: 2 })];
    let records = simulated(&[first, second, none], &changes, 60);
    let over = |record: &&Record| matches!(record.kind, RecordKind::Finish { task: TaskId(1), .. });
    let ends: Vec<_> = records.iter().filter(over).map(|record| (record.at, record.kind)).collect();
    // Six milliseconds of budget: four in the window at 30 ms, two in the next table's at 34 ms.
    let RecordKind::Finish { outcome, .. } = ends[1].1 else { unreachable!("it was asked for") };
    assert_eq!((ends.len(), ends[1].0, outcome), (2, at(36), Outcome::BudgetUsed), "{}", told(&records));
    assert!(told(&records).ends_with("34 =1, 34 0/2, 44 =2, 44 0/3, 54 0/4"), "{}", told(&records));
}

/// A driver that comes late loses windows of both tables, and the new one keeps to its grid.
#[test]
fn a_late_driver_loses_windows_of_both_tables() {
    let other = table(vec![window(5, Some(0), None)], [1, 1]);
    let mut engine = engine(&[other]);
    let mut records = Records::default();
    engine.step(at(0), &[], &mut records);
    engine.step(at(2), &[Input::Table { to: 0 }], &mut records);
    // Lost: that at 10 ms of the first table, those at 30 and 35 ms of the second.
    engine.step(at(42), &[], &mut records);
    engine.step(at(45), &[], &mut records);
    assert_eq!(engine.windows_lost(), 3);
    assert_eq!(told(&records.0), "0 0/0, 0 a, 42 =0, 42 0/3, 42 a, 45 0/4, 45 a");
}

/// A table that was prepared elsewhere and installed acts as the input, and no table that was replaced is lost.
#[test]
fn an_installed_table_is_the_input() {
    let tables = [
        table(vec![window(5, Some(1), None), window(9, Some(0), None)], [3, 2]),
        table(vec![window(3, Some(0), None)], [2, 2]),
    ];
    let (mut installed, mut by_input, mirror) = (engine(&[]), engine(&tables), engine(&tables));
    let [mut one, mut other] = [Records::default(), Records::default()];
    let mut steps = Vec::new();
    for (index, now) in [0, 3, 10, 30, 32, 33, 35, 44, 47, 50].into_iter().map(at).enumerate() {
        let to = match index {
            1 | 5 => Some(0),
            4 => Some(1),
            _ => None,
        };
        let inputs: Vec<Input> = to.map(|to| Input::Table { to }).into_iter().collect();
        by_input.step(now, &inputs, &mut other);
        steps.push(Step { now, inputs });
        if let Some(to) = to {
            let back = installed.install_table(mirror.prepare_table(to).expect("it is there")).expect("it has tables");
            // The first one finds none; the second gives the table of the system back, and the third the second.
            assert_eq!(back.is_some(), index > 1, "{index}");
        }
        installed.step(now, &[], &mut one);
    }
    assert_eq!(one.0, other.0);
    assert!(told(&one.0).contains("30 =0, 30 0/1, 30 b"), "{}", told(&one.0));
    assert!(told(&one.0).contains("44 =0, 44 0/2, 44 b"), "{}", told(&one.0));
    steps.push(Step { now: at(50), inputs: Vec::new() });
    let mut replayed = Records::default();
    takt_sim::replay(&mut engine(&tables), &steps, &mut replayed);
    assert_eq!(replayed.0[..one.0.len()], one.0);
}

#[test]
fn a_table_that_does_not_fit_is_refused() {
    let mut engine = engine(&[]);
    let good = table(vec![window(5, Some(0), None)], [1, 1]);
    assert_eq!(engine.add_table(good.clone()), Ok(0));
    assert_eq!(engine.add_table(good.clone()), Ok(0), "the same table has one number");
    let mut other_cpu = good.clone();
    other_cpu.windows[0].slices[0].cpus = CpuSet::single(1);
    let bad = [
        WindowTable { windows: Vec::new(), ..good.clone() },
        table(vec![window(0, Some(0), None)], [1, 1]),
        table(vec![window(5, Some(2), None)], [1, 1]),
        table(vec![window(5, Some(0), Some(0))], [1, 1]),
        table(vec![window(5, Some(0), None)], [0, 1]),
        WindowTable { budgets: vec![(None, Span::ZERO); 2], ..good.clone() },
        WindowTable { budgets: budgets([1, 1])[..1].to_vec(), ..good.clone() },
        WindowTable { budgets: vec![(Some(Span::from_ms(1)), Span::from_ms(3)); 2], ..good },
        other_cpu,
    ];
    for table in bad {
        assert!(engine.add_table(table.clone()).is_err(), "{table:?}");
    }
    assert!(engine.prepare_table(1).is_err());
    let edf = PolicySpec::from_name("edf").expect("it is in the registry");
    let other = System::new(CpuSet::single(0), edf);
    let online = Engine::new(other).expect("it is sound");
    assert!(online.prepare_table(0).is_err(), "a policy without a window table");
}
