//! Traces of the real engine: the checker finds nothing, and counting them gives what the engine counted.

use crate::common::write;
use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Activity, Command, Ending, Engine, Input};
use takt_core::model::{
    Arrival, Backlog, BestEffortStart, Completion, Handler, Late, Locking, OnAbort, Partition, PartitionId, PolicySpec,
    Program, ResourceId, Slice, Step, System, Task, TaskId, Window,
};
use takt_core::record::Record;
use takt_core::scenario::Scenario;
use takt_core::stats::{Counts, Responses};
use takt_core::time::{Span, Time};
use takt_trace::check::check;
use takt_trace::live::{EventKind, Live};
use takt_trace::summary::summarize;
use takt_trace::why::{Cause, Causes};
use takt_trace::{Footer, Format, Header, Stamped, TaskLabel, Trace};

/// The acts of a program besides working.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// It signals the completion of the work that it is at, whether or not its task runs.
    Signal,
    /// It signals the completion of an earlier job.
    Stale,
    /// It ends for good, with status 0 or not.
    Exit(bool),
}

/// Runs a system to `end`: a program has done the work of a job when it has run for its task's runtime.
fn run(system: &System, acts: &[(Time, TaskId, Act)], end: Time) -> (Engine, Trace, Responses) {
    let mut engine = Engine::new(system.clone()).expect("the system is valid");
    let n = system.tasks.len();
    let mut sink: (Vec<Record>, Responses) = (Vec::new(), Responses::new(n));
    let mut left = vec![Span::ZERO; n];
    let mut now = Time::ZERO;
    loop {
        let ends = engine.running().iter().map(|t| now.saturating_add(left[t.index()])).min();
        let act = acts.iter().map(|(at, ..)| *at).find(|at| *at > now);
        let next = ends.into_iter().chain(engine.next_due()).chain(act).min().unwrap_or(end).max(now).min(end);
        let running = engine.running().to_vec();
        running.iter().for_each(|t| left[t.index()] = left[t.index()] - (next - now));
        let begins = now < next;
        now = next;
        let mut inputs: Vec<Input> = (running.iter())
            .filter(|t| left[t.index()] == Span::ZERO)
            .map(|task| Input::Complete { task: *task, job: engine.at(*task).expect("it runs") })
            .collect();
        for &(_, task, act) in acts.iter().filter(|(at, ..)| begins && *at == now) {
            let (at, through) = (engine.at(task), inputs.iter().any(|i| i.task() == Some(task)));
            inputs.extend(match act {
                Act::Signal => at.filter(|_| !through).map(|job| Input::Complete { task, job }),
                Act::Stale => at.and_then(|job| job.checked_sub(1)).map(|job| Input::Complete { task, job }),
                Act::Exit(regular) => Some(Input::Exit { task, ending: Ending { regular, replaced: false } }),
            });
        }
        if now == end {
            engine.close(end, &inputs, &mut sink);
            break;
        }
        let mut renew = |task: TaskId, work: Activity| {
            let described = &system.tasks[task.index()];
            left[task.index()] = match work {
                Activity::Fresh if described.completion == Completion::None => Span::MAX,
                Activity::Abandoned if described.on_abort == OnAbort::Signal => Span::ZERO,
                Activity::Fresh => described.runtime.unwrap_or(Span::MAX),
                Activity::Handler => described.handler.expect("it has one").runtime,
                Activity::Resumed | Activity::Abandoned => return,
            }
        };
        for command in engine.step(now, &inputs, &mut sink).commands {
            match *command {
                Command::Move { task, work, .. }
                | Command::Start { task, work, .. }
                | Command::Continue { task, work, .. } => renew(task, work),
                _ => {}
            }
        }
    }
    (engine, traced(system, sink.0, end), sink.1)
}

/// A trace of a system's records.
fn traced(system: &System, records: Vec<Record>, end: Time) -> Trace {
    let label = |t: usize| {
        let task = &system.tasks[t];
        let completion = (task.arrival == Arrival::Activated).then_some(task.completion);
        TaskLabel { name: format!("t{t}"), completion, ..TaskLabel::default() }
    };
    let header = Header {
        source: "sim".into(),
        policy: system.policy.profile.name.into(),
        places: system.places(),
        tasks: (0..system.tasks.len()).map(label).collect(),
        window_lengths: system.windows.iter().map(|w| w.length).collect(),
        ..Header::default()
    };
    let records = records.into_iter().map(|record| Stamped { record, applied: record.at }).collect();
    Trace { header, records, footer: Some(Footer { end, dropped: 0 }), ..Trace::default() }
}

/// Checks the figures of a trace record by record, and at its end against its summary.
fn watch(trace: &Trace) {
    let (mut live, mut events) = (Live::new(&trace.header), Vec::new());
    for record in &trace.records {
        live.record(record, &mut |event| events.push(*event));
        let (status, tasks) = (live.snapshot(), trace.header.tasks.len());
        assert_eq!(status.tasks.len(), tasks);
        for task in &status.tasks {
            assert!(task.met + task.missed <= task.released && task.completed <= task.released, "{task:?}");
            assert!(task.utilisation_ppm.is_some_and(|ppm| ppm <= 1_000_000), "{task:?}");
        }
    }
    let footer = trace.footer.expect("a whole trace");
    live.finish(footer.end, &mut |event| events.push(*event));
    let summary = summarize(trace);
    let counted: Vec<Counts> = live.counts().collect();
    let summed: Vec<Counts> = summary.tasks.iter().map(|task| task.counts).collect();
    assert_eq!(counted, summed, "{trace:#?}");
    for (own, its) in live.responses().zip(&summary.tasks) {
        let figures =
            |spans: &takt_core::stats::Histogram| (spans.count(), spans.min(), spans.quantile(990), spans.mean());
        assert_eq!(figures(own.histogram()), figures(&its.responses));
        assert_eq!(own.cumulative().last().map(|(_, count)| count), Some(its.responses.count()));
    }
    assert_eq!((live.context_switches(), live.windows_lost()), (summary.context_switches, summary.windows_lost));
    // Each missed job is an event, but for those of processes that have not shown yet that they signal.
    let misses = events.iter().filter(|event| matches!(event.kind, EventKind::Miss(_))).count() as u64;
    if trace.header.tasks.iter().all(|task| matches!(task.completion, None | Some(Completion::Signal))) {
        assert_eq!(misses, summary.total.missed);
    }
    assert!(misses <= summary.total.missed);
    let begun = events.iter().filter(|event| event.kind == EventKind::OverloadBegin).count() as u64;
    assert_eq!((begun, begun > 0), (live.overloads(), misses > 0));
    assert!(events.is_sorted_by_key(|event| event.at), "{events:?}");
}

/// A trace does not say what jobs are worth.
fn without_utility(counts: Counts) -> Counts {
    Counts { utility: 0, utility_total: 0, ..counts }
}

fn agree(system: &System, acts: &[(Time, TaskId, Act)], end: Time) {
    let (engine, trace, responses) = run(system, acts, end);
    let findings: Vec<String> = check(&trace, Some(system), Span::ZERO).iter().map(ToString::to_string).collect();
    assert_eq!(findings, [""; 0], "{system:#?}");
    watch(&trace);
    let summary = summarize(&trace);
    for (i, task) in summary.tasks.iter().enumerate() {
        let counts = engine.counts(TaskId(i as u32));
        assert_eq!(task.counts, without_utility(counts), "task {i} of {system:#?} with {acts:?}");
        if counts.jobless {
            assert_eq!(responses.0[i].count(), 0);
        }
        let (own, its) = (&task.responses, &responses.0[i]);
        assert_eq!((own.count(), own.min(), own.max(), own.mean()), (its.count(), its.min(), its.max(), its.mean()));
    }
    assert_eq!(summary.total, without_utility(engine.totals()));
    assert_eq!(summary.context_switches, engine.context_switches());
    assert_eq!(summary.windows_lost, engine.windows_lost());
    let text = write(&trace, Format::JsonLines);
    assert_eq!(takt_trace::read(&text[..], Format::JsonLines).unwrap(), trace);
}

fn blank(cpus: usize, policy: &str) -> System {
    System { seed: 1, ..System::new(CpuSet::first(cpus), PolicySpec::from_name(policy).unwrap()) }
}

fn span(range: std::ops::Range<i64>) -> impl Strategy<Value = Span> {
    range.prop_map(Span::from_us)
}

prop_compose! {
    fn periodic(cpus: usize)(
        handler in prop::option::of((span(1..20), prop::option::of(span(1..40)))),
        offset in span(0..50), period in span(10..100), deadline in span(5..150), runtime in span(1..60), priority in 0..4_u32,
        on_abort in prop::sample::select(vec![OnAbort::Finish, OnAbort::Restart, OnAbort::Signal]),
    ) -> Task {
        // A program that continues after an abort leaves nothing that it could finish.
        let on_abort = if handler.is_some() && on_abort == OnAbort::Finish { OnAbort::Signal } else { on_abort };
        Task { on_abort, arrival: Arrival::Periodic { offset, period }, deadline: Some(deadline), runtime: Some(runtime), handler: handler.map(|(runtime, deadline)| Handler { runtime, deadline, utility: 0 }), priority, affinity: CpuSet::first(cpus), ..Task::default() }
    }
}

prop_compose! {
    fn online()(cpus in 1..4_usize, name in prop::sample::select(vec!["edf", "rm", "fp"]), abort in any::<bool>(), skip in any::<bool>())
        (tasks in prop::collection::vec(periodic(cpus), 1..6), cpus in Just(cpus), name in Just(name),
         abort in Just(abort), skip in Just(skip)) -> System {
        let policy = if cpus == 1 { name.to_string() } else { format!("g-{name}") };
        System {
            tasks,
            late: if abort { Late::Abort } else { Late::Continue },
            backlog: if skip { Backlog::Skip } else { Backlog::Queue },
            ..blank(cpus, &policy)
        }
    }
}

fn completion() -> impl Strategy<Value = Completion> {
    prop::sample::select(vec![Completion::Undeclared, Completion::Signal, Completion::None])
}

/// At most eight tasks' doings, in the order of time.
fn acts(most: usize) -> impl Strategy<Value = Vec<(u8, Act, Span)>> {
    let act = prop_oneof![6 => Just(Act::Signal), 3 => Just(Act::Stale), 1 => any::<bool>().prop_map(Act::Exit)];
    prop::collection::vec((any::<u8>(), act, span(1..600)), 0..most).prop_map(|mut acts| {
        acts.sort_by_key(|(.., at)| *at);
        acts
    })
}

/// The programs of this system.
fn of(system: &System, acts: &[(u8, Act, Span)]) -> Vec<(Time, TaskId, Act)> {
    let task = |n: u8| TaskId(u32::from(n) % system.tasks.len() as u32);
    acts.iter().map(|(n, act, at)| (Time::ZERO + *at, task(*n), *act)).collect()
}

prop_compose! {
    fn table()(
        lengths in prop::collection::vec(span(10..40), 1..4),
        sides in prop::collection::vec((0..4_u32, 0..4_u32), 4),
        tasks in prop::collection::vec((span(1..30), 0..20_i64, prop::option::of(span(1..40)), completion()), 8),
        slice_done in any::<bool>(), seed in any::<u64>(),
    ) -> System {
        let affinity = CpuSet::first(4);
        let task = |(budget, jitter, runtime, completion): &(Span, i64, Option<Span>, Completion)| Task { completion: *completion, runtime: *runtime, budget: Some(*budget), jitter: (*budget * 2).scaled(*jitter, 20), affinity, ..Task::default() };
        let partition = |p: u32| Partition { tasks: vec![TaskId(2 * p), TaskId(2 * p + 1)], policy: None };
        let window = |(i, length): (usize, &Span)| {
            let (sc, be) = sides[i];
            let distinct = |p: u32| (p != sc).then_some(PartitionId(p));
            let other = (0..4).find(|p| *p != sc && *p != be).map(PartitionId);
            let first = Slice { cpus: CpuSet::first(2), sc: Some(PartitionId(sc)), be: distinct(be) };
            Window { length: *length, slices: vec![first, Slice { cpus: (2..4).collect(), sc: other, be: None }] }
        };
        System {
            tasks: tasks.iter().map(task).collect(),
            partitions: (0..4).map(partition).collect(),
            windows: lengths.iter().enumerate().map(window).collect(),
            be_start: if slice_done { BestEffortStart::SliceDone } else { BestEffortStart::AllDone },
            seed,
            ..blank(4, "windows")
        }
    }
}

#[test]
fn online_policies_keep_the_rules() {
    takt_testing::for_all(200, (online(), acts(4), 100..1_000_i64), |(system, acts, end)| {
        agree(&system, &of(&system, &acts), Time::ZERO + Span::from_us(end));
        Ok(())
    });
}

#[test]
fn window_tables_keep_the_rules() {
    takt_testing::for_all(200, (table(), acts(12), 50..600_i64), |(system, acts, end)| {
        agree(&system, &of(&system, &acts), Time::ZERO + Span::from_us(end));
        Ok(())
    });
}

/// The jobs of a task, and their outcomes.
fn busy(cpus: usize) -> impl Strategy<Value = Task> {
    let middle = prop_oneof![
        2 => Just(Vec::new()),
        3 => (0..2_u16, span(1..20)).prop_map(|(r, by)| {
            let resource = ResourceId(r);
            vec![Step::Lock(resource), Step::Run(by), Step::Unlock(resource)]
        }),
        // In the other order for the other resource first: two such tasks may wait for each other.
        2 => (0..2_u16, span(1..20)).prop_map(|(r, by)| {
            let (one, two) = (ResourceId(r), ResourceId(1 - r));
            vec![Step::Lock(one), Step::Run(by), Step::Lock(two), Step::Run(by), Step::Unlock(two), Step::Unlock(one)]
        }),
        1 => span(1..30).prop_map(|by| vec![Step::Sleep(by)]),
        1 => Just(vec![Step::Yield]),
    ];
    (periodic(cpus), middle, prop::option::of(0..400_000_u32)).prop_map(|(task, middle, share)| {
        let runtime = task.runtime.expect("a periodic task has one");
        let half = Span::from_ns((runtime.ns() / 2).max(1));
        let steps = [&[Step::Run(half)][..], &middle, &[Step::Run(half)]].concat();
        Task { program: Program::doing(steps), share, ..task }
    })
}

prop_compose! {
    fn locking()(cpus in 1..4_usize, name in prop::sample::select(vec!["edf", "fp", "np-edf", "rr", "fifo", "llf", "ipi"]),
                 rules in any::<(bool, bool, u8)>())
        (tasks in prop::collection::vec(busy(cpus), 1..6), cpus in Just(cpus), name in Just(name), rules in Just(rules))
    -> System {
        let several = if name == "ipi" { "p-" } else { "g-" };
        let policy = if cpus == 1 { name.to_string() } else { format!("{several}{name}") };
        let (abort, chronos, locking) = rules;
        System {
            tasks,
            resources: 2,
            late: if abort { Late::Abort } else { Late::Continue },
            backlog: if chronos { Backlog::Chronos } else { Backlog::Queue },
            locking: [Locking::Fifo, Locking::Inheritance, Locking::Ceiling][usize::from(locking % 3)],
            ..blank(cpus, &policy)
        }
    }
}

/// Whatever a simulated system does, its trace keeps the rules, and counting it gives what the engine counted.
#[test]
fn locks_handlers_and_rounds_keep_the_rules() {
    takt_testing::for_all(150, (locking(), 200..3_000_i64), |(system, end)| {
        let mut engine = Engine::new(system.clone()).expect("the system is valid");
        let mut records: Vec<Record> = Vec::new();
        takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_us(end), &mut records, |_| ());
        let trace = traced(&system, records, Time::ZERO + Span::from_us(end));
        let findings: Vec<String> = check(&trace, Some(&system), Span::ZERO).iter().map(ToString::to_string).collect();
        prop_assert_eq!(findings, [""; 0]);
        watch(&trace);
        crate::why::add_up(&trace)?;
        // The simulated scheduler is not late, and nothing is stolen.
        let causes = Causes::of(&trace);
        for job in causes.timeline().jobs.iter().flatten() {
            let why = causes.why(job.task, job.number).expect("the trace has the job");
            let strange = why.parts.iter().any(|p| matches!(p.cause, Cause::Scheduler | Cause::Stolen));
            prop_assert!(!strange, "{:?}", why);
        }
        let summary = summarize(&trace);
        prop_assert_eq!(summary.total, without_utility(engine.totals()));
        prop_assert_eq!(summary.deadlocks, engine.deadlocks());
        for format in [Format::JsonLines, Format::Csv] {
            prop_assert_eq!(&takt_trace::read(&write(&trace, format)[..], format).unwrap(), &trace);
        }
        Ok(())
    });
}

/// Windows after the takeover of a table are judged by that table, if the trace has it.
#[test]
fn windows_of_a_table_that_has_taken_over_are_checked() {
    use takt_core::model::WindowTable;
    use takt_core::record::{Place, RecordKind};
    let ms = Span::from_ms;
    let window = |length, partition| Window {
        length: ms(length),
        slices: vec![Slice { cpus: CpuSet::single(0), sc: Some(PartitionId(partition)), be: None }],
    };
    let task =
        Task { arrival: Arrival::Activated, budget: Some(ms(3)), completion: Completion::None, ..Task::default() };
    let partition = |task| Partition { tasks: vec![TaskId(task)], policy: None };
    let spec = PolicySpec::from_name("windows").expect("it is in the registry");
    let system = System {
        tasks: vec![task; 2],
        partitions: vec![partition(0), partition(1)],
        windows: vec![window(10, 0), window(10, 1)],
        ..System::new(CpuSet::single(0), spec)
    };
    let table = WindowTable {
        frequencies: Vec::new(),
        windows: vec![window(4, 1), window(6, 0), window(5, 1)],
        be_start: BestEffortStart::AllDone,
        budgets: vec![(Some(ms(3)), Span::ZERO); 2],
    };
    let mut engine = Engine::new(system.clone()).expect("it is sound");
    engine.add_table(table.clone()).expect("it fits");
    let scenario = Scenario { changes: vec![(Time::ZERO + ms(7), Input::Table { to: 0 })], ..Scenario::default() };
    let mut records: Vec<Record> = Vec::new();
    takt_sim::simulate(&mut engine, &scenario, ms(80), &mut records, |_| ());
    let label =
        |name: &str| TaskLabel { name: name.into(), completion: Some(Completion::None), ..TaskLabel::default() };
    let trace = Trace {
        header: Header {
            source: "sim".into(),
            places: system.places(),
            tasks: vec![label("a"), label("b")],
            window_lengths: system.windows.iter().map(|window| window.length).collect(),
            tables: [(0, table)].into(),
            ..Header::default()
        },
        records: records.iter().map(|record| Stamped { record: *record, applied: record.at }).collect(),
        footer: Some(Footer { end: Time::ZERO + ms(80), dropped: 0 }),
        ..Trace::default()
    };
    let rules = |trace: &Trace| {
        let findings = check(trace, Some(&system), Span::ZERO);
        findings.into_iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(&trace), [""; 0]);
    let after = |kind: &dyn Fn(&RecordKind) -> bool| {
        let table = trace.records.iter().position(|r| matches!(r.record.kind, RecordKind::Table { .. }));
        let table = table.expect("it has taken over");
        table + trace.records[table..].iter().position(|r| kind(&r.record.kind)).expect("it is there")
    };
    // A window at another instant, a job in a window of another partition, and a takeover in the middle of a frame.
    let mut late = trace.clone();
    let second = after(&|kind| matches!(kind, RecordKind::Window { window: 1, .. }));
    late.records[second].record.at += ms(1);
    assert!(rules(&late).contains(&"window-order"), "{:?}", rules(&late));
    let mut foreign = trace.clone();
    let start = after(&|kind| matches!(kind, RecordKind::Start { task: TaskId(1), .. }));
    let RecordKind::Start { job, .. } = foreign.records[start].record.kind else { unreachable!() };
    foreign.records[start].record.kind = RecordKind::Start { task: TaskId(0), job, place: Place(0) };
    assert!(rules(&foreign).contains(&"window"), "{:?}", rules(&foreign));
    let mut early = trace.clone();
    let border = after(&|kind| matches!(kind, RecordKind::Table { .. }));
    early.records[border].record.at = Time::ZERO + ms(15);
    assert!(rules(&early).contains(&"window-order"), "{:?}", rules(&early));
    // Without the table nothing is judged.
    late.header.tables.clear();
    assert_eq!(rules(&late), [""; 0]);
    // A later file of a series has the present table in its header.
    let mut later = trace.clone();
    let from = after(&|kind| matches!(kind, RecordKind::Window { window: 0, .. }));
    later.records.drain(..from);
    later.header.table = Some(0);
    assert_eq!(rules(&later), [""; 0]);
    later.header.table = None;
    assert!(!rules(&later).is_empty(), "judged by the table of the file");
}
