//! Traces to test with: a few written by hand, and arbitrary valid ones.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_core::model::{Call, Completion, PartitionId, ResourceId, TaskId};
use takt_core::record::{Outcome, Place, Record, RecordKind, StopReason};
use takt_core::time::{Span, Time};
use takt_core::work::Work;
use takt_trace::{Change, DomainLabel, Footer, Format, Header, MeterLabel, Quantity, Stamped, TaskLabel, Trace};

pub(crate) fn ms(ms: i64) -> Time {
    Time::from_ns(ms * 1_000_000)
}

/// Writes records in a line each; times are milliseconds.
pub(crate) struct Story {
    pub(crate) trace: Trace,
    late: Span,
}

impl Story {
    pub(crate) fn new(policy: &str, scope: &str, cpus: usize, tasks: &[(&str, Option<&str>)]) -> Story {
        let task = |(name, partition): &(&str, Option<&str>)| TaskLabel {
            name: name.to_string(),
            partition: partition.map(String::from),
            ..TaskLabel::default()
        };
        let header = Header {
            source: "sim".into(),
            workload: "story.yaml".into(),
            policy: policy.into(),
            scope: scope.into(),
            seed: 7,
            places: (0..cpus).map(CpuSet::single).collect(),
            tasks: tasks.iter().map(task).collect(),
            ..Header::default()
        };
        Story { trace: Trace { header, ..Trace::default() }, late: Span::ZERO }
    }
    /// From now on things are carried out so much after they were decided.
    pub(crate) fn late(&mut self, late: Span) -> &mut Self {
        self.late = late;
        self
    }
    pub(crate) fn push(&mut self, at: i64, what: RecordKind) -> &mut Self {
        let applied = ms(at) + self.late;
        self.trace.records.push(Stamped { record: Record { at: ms(at), kind: what }, applied });
        self
    }
    pub(crate) fn window(&mut self, at: i64, window: u32, frame: u64) -> &mut Self {
        self.push(at, RecordKind::Window { window, frame })
    }
    pub(crate) fn release(&mut self, at: i64, task: u32, job: u64, deadline: Option<i64>) -> &mut Self {
        self.push(at, RecordKind::Release { task: TaskId(task), job, deadline: deadline.map(ms) })
    }
    pub(crate) fn budget(&mut self, at: i64, task: u32, job: u64, amount: i64) -> &mut Self {
        self.push(at, RecordKind::Budget { task: TaskId(task), job, amount: Some(Span::from_ms(amount)) })
    }
    /// The job has no budget any more.
    pub(crate) fn lifted(&mut self, at: i64, task: u32, job: u64) -> &mut Self {
        self.push(at, RecordKind::Budget { task: TaskId(task), job, amount: None })
    }
    pub(crate) fn start(&mut self, at: i64, task: u32, job: u64, place: u16) -> &mut Self {
        self.push(at, RecordKind::Start { task: TaskId(task), job, place: Place(place) })
    }
    pub(crate) fn stop(&mut self, at: i64, task: u32, job: u64, place: u16, reason: StopReason) -> &mut Self {
        self.push(at, RecordKind::Stop { task: TaskId(task), job, place: Place(place), reason })
    }
    pub(crate) fn request(&mut self, at: i64, task: u32, resource: u16, granted: bool) -> &mut Self {
        self.push(at, RecordKind::Lock { task: TaskId(task), resource: ResourceId(resource), granted })
    }
    pub(crate) fn give_back(&mut self, at: i64, task: u32, resource: u16) -> &mut Self {
        self.push(at, RecordKind::Unlock { task: TaskId(task), resource: ResourceId(resource) })
    }
    /// It waits for a resource no longer, and is ready.
    pub(crate) fn withdraw(&mut self, at: i64, task: u32, resource: u16) -> &mut Self {
        self.push(at, RecordKind::Withdraw { task: TaskId(task), resource: ResourceId(resource) })
    }
    pub(crate) fn round(&mut self, at: i64, place: u16, set_point: i64, measured: i64, correction: i64) -> &mut Self {
        let [set_point, measured, correction] = [set_point, measured, correction].map(Span::from_ms);
        self.push(at, RecordKind::Round { place: Place(place), set_point, measured, correction })
    }
    pub(crate) fn burst(&mut self, at: i64, task: u32, set_point: i64, measured: i64, next: i64) -> &mut Self {
        let [set_point, measured, next] = [set_point, measured, next].map(Span::from_ms);
        self.push(at, RecordKind::Burst { task: TaskId(task), set_point, measured, next })
    }
    pub(crate) fn finish(&mut self, at: i64, task: u32, job: u64, outcome: Outcome, consumed: i64) -> &mut Self {
        self.push(
            at,
            RecordKind::Finish { task: TaskId(task), job, outcome, consumed: Work::nominal(Span::from_ms(consumed)) },
        )
    }
    /// Ends a running job: the end and the stop that follows.
    pub(crate) fn done(
        &mut self,
        at: i64,
        task: u32,
        job: u64,
        place: u16,
        outcome: Outcome,
        consumed: i64,
    ) -> &mut Self {
        self.finish(at, task, job, outcome, consumed).stop(at, task, job, place, StopReason::Finished)
    }
    pub(crate) fn end(&mut self, at: i64) -> Trace {
        self.trace.footer = Some(Footer { end: ms(at), dropped: 0 });
        self.trace.clone()
    }
}

/// Global EDF on two CPUs: a preemption, a migration, a miss.
pub(crate) fn edf() -> Trace {
    use Outcome::Completed;
    let mut s = Story::new("edf", "global", 2, &[("camera", None), ("radar", None), ("log <&>", None)]);
    s.release(0, 0, 0, Some(10)).release(0, 1, 0, Some(12)).release(0, 2, 0, Some(20));
    s.start(0, 0, 0, 0).start(0, 1, 0, 1);
    s.done(4, 0, 0, 0, Completed, 4).start(4, 2, 0, 0);
    s.done(6, 1, 0, 1, Completed, 6);
    s.release(10, 0, 1, Some(20)).stop(10, 2, 0, 0, StopReason::Migrated).start(10, 2, 0, 1).start(10, 0, 1, 0);
    s.release(12, 1, 1, Some(24)).done(14, 0, 1, 0, Completed, 4).start(14, 1, 1, 0);
    s.release(20, 0, 2, Some(30)).release(20, 2, 1, Some(40));
    s.done(20, 1, 1, 0, Completed, 6).start(20, 0, 2, 0);
    s.done(23, 2, 0, 1, Completed, 19).start(23, 2, 1, 1);
    s.done(24, 0, 2, 0, Completed, 4).release(24, 1, 2, Some(36));
    s.stop(24, 2, 1, 1, StopReason::Preempted).start(24, 1, 2, 1);
    s.stop(28, 1, 2, 1, StopReason::Suspended);
    s.end(28)
}

/// A window table on four CPUs: two slices, best effort behind safety-critical, an overrun, a lost window. `control` signals its
/// completions, of which one is late; `vision` should and does not; the other two have no jobs.
pub(crate) fn windows() -> Trace {
    use Outcome::{BudgetUsed, Completed, Overrun};
    let tasks =
        [("control", Some("flight")), ("guidance", Some("flight")), ("vision", Some("payload")), ("log", Some("misc"))];
    let mut s = Story::new("windows", "table", 4, &tasks);
    let completions = [Completion::Undeclared, Completion::None, Completion::Signal, Completion::Undeclared];
    for (task, completion) in s.trace.header.tasks.iter_mut().zip(completions) {
        task.completion = Some(completion);
    }
    s.trace.header.places.push(CpuSet::first(2));
    s.trace.header.places.push((2..4).collect());
    s.trace.header.window_lengths = vec![Span::from_ms(10), Span::from_ms(5)];
    s.window(0, 0, 0);
    s.release(0, 0, 0, None).budget(0, 0, 0, 4).start(0, 0, 0, 4);
    s.release(0, 2, 0, None).budget(0, 2, 0, 6).start(0, 2, 0, 5);
    s.done(3, 0, 0, 4, Completed, 3);
    s.release(3, 1, 0, None).budget(3, 1, 0, 3).start(3, 1, 0, 4);
    s.done(6, 1, 0, 4, BudgetUsed, 3).done(6, 2, 0, 5, BudgetUsed, 6);
    s.release(6, 3, 0, None).budget(6, 3, 0, 8).start(6, 3, 0, 4);
    s.window(10, 1, 0).stop(10, 3, 0, 4, StopReason::Suspended);
    s.release(10, 2, 1, None).budget(10, 2, 1, 9).start(10, 2, 1, 5);
    s.finish(15, 2, 1, Overrun, 5).stop(15, 2, 1, 5, StopReason::Finished);
    s.window(15, 0, 1).release(15, 0, 1, None).budget(15, 0, 1, 4).start(15, 0, 1, 4);
    s.done(19, 0, 1, 4, BudgetUsed, 4).start(19, 3, 0, 4);
    s.push(25, RecordKind::LateSignal { task: TaskId(0), job: 1 });
    s.done(23, 3, 0, 4, BudgetUsed, 8);
    s.push(30, RecordKind::WindowsLost { count: 1 })
        .window(30, 0, 2)
        .push(30, RecordKind::Exit { task: TaskId(1), failed: false });
    s.end(32)
}

/// Overload on one CPU: a queue, an abort, skipped jobs, blocking and a resource.
pub(crate) fn overload() -> Trace {
    use Outcome::{Aborted, Completed, Skipped};
    let mut s = Story::new("fp", "uniprocessor", 1, &[("high", None), ("low", None), ("low", None)]);
    s.release(0, 1, 0, Some(8)).start(0, 1, 0, 0).request(1, 1, 0, true);
    s.release(1, 0, 0, Some(6)).stop(1, 1, 0, 0, StopReason::Preempted).start(1, 0, 0, 0);
    s.request(2, 0, 0, false).push(2, RecordKind::Block { task: TaskId(0), job: 0 });
    s.stop(2, 0, 0, 0, StopReason::Blocked).start(2, 1, 0, 0);
    s.give_back(4, 1, 0).request(4, 0, 0, true).push(4, RecordKind::Wake { task: TaskId(0), job: 0 });
    s.stop(4, 1, 0, 0, StopReason::Preempted).start(4, 0, 0, 0);
    s.release(6, 0, 1, Some(11)).give_back(7, 0, 0).done(7, 0, 0, 0, Completed, 4).start(7, 0, 1, 0);
    s.finish(8, 1, 0, Aborted, 3).release(8, 1, 1, Some(16));
    s.release(9, 2, 0, Some(14)).finish(9, 2, 0, Skipped, 0);
    s.done(10, 0, 1, 0, Completed, 3).start(10, 1, 1, 0);
    s.done(12, 1, 1, 0, Completed, 2);
    s.end(20)
}

/// A deadlock of two, the handlers of both aborted jobs, a yield, a sleep, and the rounds of a regulator.
pub(crate) fn rounds() -> Trace {
    use Outcome::{Aborted, Completed};
    let mut s = Story::new("ipi", "uniprocessor", 1, &[("left", None), ("right", None), ("log", None)]);
    s.trace.header.resources = vec!["bus".into(), "disk".into()];
    let block = |task, job| RecordKind::Block { task: TaskId(task), job };
    s.release(0, 0, 0, Some(10)).release(0, 1, 0, Some(12)).release(0, 2, 0, None);
    s.budget(0, 0, 0, 2).start(0, 0, 0, 0).request(1, 0, 0, true);
    s.stop(2, 0, 0, 0, StopReason::Preempted).budget(2, 1, 0, 3).start(2, 1, 0, 0).request(3, 1, 1, true);
    s.request(4, 1, 0, false).push(4, block(1, 0)).stop(4, 1, 0, 0, StopReason::Blocked);
    s.budget(4, 2, 0, 4).start(4, 2, 0, 0).push(5, RecordKind::Yield { task: TaskId(2), job: 0 });
    s.stop(5, 2, 0, 0, StopReason::Preempted).round(5, 0, 6, 5, 1);
    s.burst(5, 0, 2, 2, 2).burst(5, 1, 2, 2, 2).burst(5, 2, 2, 1, 3);
    s.budget(5, 0, 0, 2).start(5, 0, 0, 0).request(6, 0, 1, false);
    s.push(6, RecordKind::Deadlock { task: TaskId(0), resource: ResourceId(1) });
    s.push(6, block(0, 0)).stop(6, 0, 0, 0, StopReason::Blocked).budget(6, 2, 0, 3).start(6, 2, 0, 0);
    s.push(8, block(2, 0)).stop(8, 2, 0, 0, StopReason::Blocked);
    s.finish(10, 0, 0, Aborted, 3).push(10, RecordKind::Handler { task: TaskId(0), job: 0, deadline: Some(ms(13)) });
    s.budget(10, 0, 0, 2).start(10, 0, 0, 0);
    s.push(11, RecordKind::HandlerEnd { task: TaskId(0), job: 0, consumed: Work::nominal(Span::from_ms(1)) });
    s.stop(11, 0, 0, 0, StopReason::Finished);
    s.give_back(11, 0, 0).request(11, 1, 0, true).push(11, RecordKind::Wake { task: TaskId(1), job: 0 });
    s.start(11, 1, 0, 0).round(11, 0, 7, 4, 2).burst(11, 0, 3, 2, 3).burst(11, 2, 4, 2, 4);
    s.done(12, 1, 0, 0, Aborted, 3).push(12, RecordKind::Handler { task: TaskId(1), job: 0, deadline: Some(ms(13)) });
    s.push(12, RecordKind::Wake { task: TaskId(2), job: 0 }).budget(12, 1, 0, 3).start(12, 1, 0, 0);
    s.push(14, RecordKind::HandlerEnd { task: TaskId(1), job: 0, consumed: Work::nominal(Span::from_ms(2)) });
    s.stop(14, 1, 0, 0, StopReason::Finished).give_back(14, 1, 0).give_back(14, 1, 1);
    s.budget(14, 2, 0, 4).start(14, 2, 0, 0).done(16, 2, 0, 0, Completed, 5);
    s.end(16)
}

/// Jobs of 15 ms every 10 ms, each aborted at its deadline, and the program completes what was abandoned first. It fails at 44 ms.
/// Beside it a program that ends regularly with a job in the queue.
pub(crate) fn behind() -> Trace {
    use Outcome::{Aborted, Completed, Exited, Skipped};
    let mut s = Story::new("edf", "global", 2, &[("slow", None), ("short", None)]);
    let task = TaskId(0);
    let behind = |job, abandoned| RecordKind::Behind { task, job, abandoned };
    s.release(0, 0, 0, Some(10)).release(0, 1, 0, Some(20)).start(0, 0, 0, 0).start(0, 1, 0, 1);
    s.done(10, 0, 0, 0, Aborted, 10).release(10, 0, 1, Some(20)).release(10, 1, 1, Some(30));
    s.push(10, behind(1, 0)).start(10, 0, 1, 0).push(15, RecordKind::LateSignal { task, job: 0 });
    s.done(16, 1, 0, 1, Exited, 16).finish(16, 1, 1, Exited, 0);
    s.push(16, RecordKind::Exit { task: TaskId(1), failed: false });
    // Its own work has begun, so that it is abandoned in turn.
    s.done(20, 0, 1, 0, Aborted, 10).release(20, 0, 2, Some(30)).push(20, behind(2, 1)).start(20, 0, 2, 0);
    s.done(30, 0, 2, 0, Aborted, 10).release(30, 0, 3, Some(40)).push(30, behind(3, 1)).start(30, 0, 3, 0);
    s.push(31, RecordKind::LateSignal { task, job: 1 }).done(39, 0, 3, 0, Completed, 9);
    s.release(40, 0, 4, Some(50)).start(40, 0, 4, 0).done(44, 0, 4, 0, Aborted, 4);
    s.push(44, RecordKind::Exit { task, failed: true }).release(50, 0, 5, Some(60)).finish(50, 0, 5, Skipped, 0);
    s.end(55)
}

pub(crate) fn samples() -> [(&'static str, Trace); 6] {
    let nothing = Story::new("edf", "uniprocessor", 1, &[("idle", None)]).end(1000);
    let [edf, windows, overload] = [("edf", edf()), ("windows", windows()), ("overload", overload())];
    [edf, windows, overload, ("rounds", rounds()), ("behind", behind()), ("nothing", nothing)]
}

/// An output that is read when its writer is done.
#[derive(Clone, Default)]
pub(crate) struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Shared {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn write(trace: &Trace, format: Format) -> Vec<u8> {
    let shared = Shared::default();
    let mut writer = takt_trace::writer(format, &trace.header, Box::new(shared.clone())).unwrap();
    let mut changes = trace.changes.iter().peekable();
    for record in &trace.records {
        while let Some(change) = changes.next_if(|change| change.at < record.record.at) {
            writer.change(change).unwrap();
        }
        writer.record(record).unwrap();
    }
    changes.for_each(|change| writer.change(change).unwrap());
    match &trace.footer {
        Some(footer) => writer.finish(footer).unwrap(),
        None => drop(writer),
    }
    shared.bytes()
}

/// One step of a random schedule.
type Choice = (u8, u8, u8, i64, i64);

/// Traces that keep every rule that needs no system: a random scheduler over random steps.
pub(crate) fn any_trace() -> impl Strategy<Value = Trace> {
    let name = prop_oneof![3 => "[a-z]{0,6}", 1 => "\\PC{0,5}", 1 => "[\n\r,;\"'\\\\<&]{1,4}"];
    let completions = [Completion::Undeclared, Completion::Signal, Completion::Exit, Completion::None];
    let completion = proptest::option::weighted(0.2, proptest::sample::select(completions.to_vec()));
    let label = (name, proptest::option::of("[A-Z ,\"]{0,3}"), proptest::option::of(any::<u32>()), completion)
        .prop_map(|(name, partition, pid, completion)| TaskLabel {
            name,
            partition,
            pid,
            class: pid.filter(|pid| pid % 3 == 0).map(|_| "fifo=20".to_owned()),
            completion,
            added: pid.is_some_and(|pid| pid % 5 == 0),
        });
    let tasks = proptest::collection::vec(label, 1..6);
    let steps = proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), 0..5_000_i64, 0..900_i64), 0..120);
    let numbers = (any::<u64>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<bool>(), any::<u32>());
    (1..5_usize, tasks, steps, numbers, "\\PC{0,8}").prop_map(|(cpus, tasks, steps, numbers, workload)| {
        let (seed, start_unix_ns, start_monotonic_ns, closed, dropped) = numbers;
        let mut places: Vec<CpuSet> = (0..cpus).map(CpuSet::single).collect();
        if cpus > 2 {
            places.extend([CpuSet::first(2), CpuSet::first(cpus)]);
        }
        let header = Header {
            source: "run".into(),
            workload,
            policy: "random".into(),
            settings: "quantum=2ms,kpi=0.5".into(),
            scope: "global".into(),
            seed,
            real_places: places.iter().rev().copied().collect(),
            places,
            kernel_cpus: CpuSet::EMPTY,
            tasks,
            resources: vec!["the \"bus\"".into()],
            domains: vec![DomainLabel { name: "l<e,ft".into(), policy: "g-edf".into() }],
            alternatives: vec!["g-gua".into(), "rr:quantum=2ms,kpi=1".into()],
            frequency_domains: vec!["0-3".into(), "4,5".into()],
            zones: vec!["cpu \"big\"".into()],
            meters: vec![MeterLabel { name: "0-3 \"a\"".into(), quantity: Quantity::Frequency }],
            partitions: vec!["a,b".into()],
            window_lengths: Vec::new(),
            tables: Default::default(),
            table: start_unix_ns.map(|unix| unix as u16),
            duration: None,
            start_unix_ns,
            start_monotonic_ns,
        };
        let mut trace = Trace { header, ..Trace::default() };
        schedule(&mut trace, &steps);
        // Each fourth record is that of a change from outside.
        let changed = trace.records.iter().enumerate().step_by(4);
        let change = |(index, record): (usize, &Stamped)| Change {
            at: record.record.at,
            uid: u32::MAX - index as u32,
            pid: index as u32,
            command: ["", "set \"a\".period=4ms, 5", "reload /a\nb,\u{1b}[1m\u{e4}"][index / 4 % 3].into(),
        };
        trace.changes = changed.map(change).collect();
        trace.footer = closed.then(|| Footer { end: trace.end(), dropped: u64::from(dropped) });
        trace
    })
}

/// Resources that a random schedule has.
const RESOURCES: usize = 3;

fn schedule(trace: &mut Trace, steps: &[Choice]) {
    let n = trace.header.tasks.len();
    let mut next = vec![0_u64; n];
    // The current job, whether it has run, and whether it is at its handler.
    let mut job: Vec<Option<(u64, bool, bool)>> = vec![None; n];
    let mut running: Vec<Option<u16>> = vec![None; n];
    let mut waits: Vec<Option<usize>> = vec![None; n];
    let mut owner: [Option<usize>; RESOURCES] = [None; RESOURCES];
    let (mut at, mut applied) = (Time::ZERO, Time::ZERO);
    for &(what, who, how, wait, late) in steps {
        at += Span::from_ns(wait);
        applied = applied.max(at + Span::from_ns(late));
        let index = usize::from(who) % n;
        let task = TaskId(index as u32);
        let mut push = |what| trace.records.push(Stamped { record: Record { at, kind: what }, applied });
        match (what % 13, job[index], running[index]) {
            (0..=1, None, _) => {
                let deadline = how.is_multiple_of(2).then(|| at + Span::from_ns(i64::from(how) * 10));
                push(RecordKind::Release { task, job: next[index], deadline });
                job[index] = Some((next[index], false, false));
                next[index] += 1;
            }
            (0..=3, Some((number, _, handler)), None) if waits[index].is_none() => {
                let place = u16::from(how) % trace.header.places.len() as u16;
                let set = trace.header.places[usize::from(place)];
                let taken = running.iter().flatten().any(|p| !trace.header.places[usize::from(*p)].is_disjoint(&set));
                if !taken {
                    push(RecordKind::Start { task, job: number, place: Place(place) });
                    running[index] = Some(place);
                    job[index] = Some((number, true, handler));
                }
            }
            (4, Some((number, ..)), Some(place)) => {
                let reasons = [StopReason::Preempted, StopReason::Suspended, StopReason::Blocked];
                push(RecordKind::Stop {
                    task,
                    job: number,
                    place: Place(place),
                    reason: reasons[usize::from(how) % 3],
                });
                running[index] = None;
            }
            (5, Some((number, ran, handler)), place) => {
                let outcomes: &[Outcome] = match ran {
                    true => &[Outcome::Completed, Outcome::BudgetUsed, Outcome::Aborted],
                    false => &[Outcome::Aborted],
                };
                let (outcome, consumed) = (outcomes[usize::from(how) % outcomes.len()], Span::from_ns(late));
                push(match handler {
                    true => RecordKind::HandlerEnd { task, job: number, consumed: Work::nominal(consumed) },
                    false => RecordKind::Finish { task, job: number, outcome, consumed: Work::nominal(consumed) },
                });
                if let Some(place) = place {
                    push(RecordKind::Stop { task, job: number, place: Place(place), reason: StopReason::Finished });
                }
                (job[index], running[index], waits[index]) = (None, None, None);
                if outcome == Outcome::Aborted && !handler && how > 99 {
                    let deadline = how.is_multiple_of(2).then(|| at + Span::from_ns(i64::from(how)));
                    push(RecordKind::Handler { task, job: number, deadline });
                    job[index] = Some((number, false, true));
                    continue;
                }
                for resource in (0..RESOURCES).filter(|r| owner[*r] == Some(index)).collect::<Vec<_>>() {
                    push(RecordKind::Unlock { task, resource: ResourceId(resource as u16) });
                    owner[resource] = None;
                }
            }
            (6, Some((number, ..)), _) => push(RecordKind::Block { task, job: number }),
            (7, Some((number, true, false)), Some(_)) if how % 2 == 1 => {
                let span = Span::from_ns(1 + late);
                let calls = [Call::Period(span), Call::Deadline(span), Call::Runtime(span)];
                let call = calls[usize::from(how) % 3];
                push(RecordKind::Call { task, job: number, call, granted: how % 4 == 1 });
            }
            (7, Some((job, ..)), _) if how % 7 == 0 && how > 99 => {
                let abandoned = next[index];
                push(RecordKind::Behind { task, job, abandoned });
                push(RecordKind::LateSignal { task, job: abandoned });
            }
            (7, _, _) => push(match how % 7 {
                0 => RecordKind::LateSignal { task, job: next[index] },
                1 => RecordKind::Exit { task, failed: next[index] % 2 == 1 },
                2 => RecordKind::Yield { task, job: next[index] },
                3 if how > 199 => RecordKind::Table { to: u16::from(how) },
                3 => RecordKind::Switch { domain: (how > 99).then_some(0), to: u16::from(how % 2 == 1) },
                4 => RecordKind::Configure { setting: how % 7, value: (how > 99).then_some(wait - 500) },
                5 => {
                    RecordKind::Budget { task, job: next[index], amount: (how > 99).then_some(Span::from_ns(1 << 50)) }
                }
                _ => RecordKind::Wake { task, job: next[index] },
            }),
            (8, Some((number, ..)), place) if waits[index].is_none() => {
                let wanted = usize::from(how) % RESOURCES;
                let granted = owner[wanted].is_none_or(|o| o == index);
                push(RecordKind::Lock { task, resource: ResourceId(wanted as u16), granted });
                if granted {
                    owner[wanted] = Some(index);
                    continue;
                }
                waits[index] = Some(wanted);
                let holder = |task: usize| waits[task].and_then(|r| owner[r]);
                if std::iter::successors(holder(index), |t| holder(*t)).take(n).any(|t| t == index) {
                    push(RecordKind::Deadlock { task, resource: ResourceId(wanted as u16) });
                }
                push(RecordKind::Block { task, job: number });
                if let Some(place) = place {
                    push(RecordKind::Stop { task, job: number, place: Place(place), reason: StopReason::Blocked });
                    running[index] = None;
                }
            }
            (9, ..) => {
                let Some(resource) = (0..RESOURCES).find(|r| owner[*r] == Some(index)) else { continue };
                push(RecordKind::Unlock { task, resource: ResourceId(resource as u16) });
                owner[resource] = (0..n).find(|t| waits[*t] == Some(resource));
                if let Some(heir) = owner[resource] {
                    waits[heir] = None;
                    push(RecordKind::Lock {
                        task: TaskId(heir as u32),
                        resource: ResourceId(resource as u16),
                        granted: true,
                    });
                }
            }
            (12, Some((number, ..)), None) if waits[index].is_some() => {
                let resource = waits[index].take().expect("it waits");
                push(RecordKind::Withdraw { task, resource: ResourceId(resource as u16) });
                push(RecordKind::Wake { task, job: number });
            }
            (10, ..) => {
                let bursts: Vec<i64> = (0..n as i64).map(|t| (t + 1) * late).collect();
                let [measured, set_point] = [bursts.iter().sum(), wait].map(Span::from_ns);
                let place = Place(u16::from(how) % trace.header.places.len() as u16);
                push(RecordKind::Round { place, set_point, measured, correction: Span::from_ns(-late) });
                for (task, burst) in (0..).zip(bursts) {
                    let [set_point, measured, next] = [wait, burst, wait + late].map(Span::from_ns);
                    push(RecordKind::Burst { task: TaskId(task), set_point, measured, next });
                }
            }
            (11, ..) => push(match how % 4 {
                0 => RecordKind::Frequency { domain: u16::from(how / 4 % 2), khz: u32::from(how) * 1000 },
                1 => RecordKind::IdleLatency {
                    place: Place(u16::from(how) % trace.header.places.len() as u16),
                    limit_us: (how > 99).then_some(u32::from(how)),
                },
                2 => RecordKind::Temperature { zone: 0, millidegrees: (how > 99).then_some((late - 400) as i32) },
                _ => RecordKind::StartSkipped { partition: PartitionId(0), window: u32::from(how) },
            }),
            _ => {}
        }
    }
}
