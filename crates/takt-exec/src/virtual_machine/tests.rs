//! The executive over a virtual machine decides as the simulator does, and survives what goes wrong.

#![cfg(test)]

use super::{Changing, Faults, Hostile, Looping, Machine, Segmenting, drive};
use crate::causes::Found;
use crate::meter::PER_STEP;
use crate::plan::{Cause, Dispatch, Hooks, KernelTask, Plan, Process, Reaction, SchedulerClass};
use crate::rings::BURST;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, Backlog, Completion, OnAbort, Program, Step, System, Task, TaskId};
use takt_core::record::{JobId, Outcome, Record, RecordKind, Sink};
use takt_core::rng;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::work::Work;
use takt_linux::leftovers::OnCrash;
use takt_linux::rt::Class;
use takt_linux::{Choice, JobEnd};
use takt_workload::{Options, Source, Spawn, TaskInfo, Workload};

/// The plan that `takt run` makes of a workload, and the demand of its jobs, for a run of at most `limit`.
pub(super) fn plan(workload: &Workload, limit: Span) -> (System, Arc<Plan>, Vec<Program>) {
    plan_of_class(workload, limit, false)
}

/// As [`plan`]; with `realtime` the processes are in a real-time class.
pub(super) fn plan_of_class(workload: &Workload, limit: Span, realtime: bool) -> (System, Arc<Plan>, Vec<Program>) {
    let mut real = workload.clone();
    real.clear_simulated();
    real.hand_over();
    // A file for a simulation names no commands; here all its tasks have programs.
    for (info, task) in real.tasks.iter_mut().zip(&mut real.system.tasks) {
        info.cmd = Some("a program".into());
        task.on_abort = info.abort_rule(task.handler.is_some());
    }
    let process = |(task, id): (&TaskInfo, usize)| Process {
        name: task.name.clone(),
        cmd: String::new(),
        thread_of: task.thread_of,
        init: task.init,
        per_job: task.spawn == Spawn::PerJob,
        signals: matches!(task.completion_rule(), Completion::Undeclared | Completion::Signal)
            && task.observed.is_none(),
        observed: task.observed.map(|_| JobEnd::Yield),
        on_exit: task.on_exit,
        on_miss: Some(Reaction::Stop),
        on_overrun: Some(Reaction::Stop),
        abort_signal: (real.system.tasks[id].on_abort == OnAbort::Signal).then_some(Signal::USR1),
        output: crate::Output::Inherit,
        settings: crate::ProcessSettings::default(),
        event: None,
        segments: task.event.as_deref() == Some(&takt_workload::EventSource::Segments),
        wakeups: task.event.as_deref() == Some(&takt_workload::EventSource::WakeUp),
        kernel: real.tasks[id].class.map(|_| KernelTask { class: Class::Other, cpus: None }),
        is_reserved: false,
    };
    let processes = real.tasks.iter().zip(0..).map(process).collect();
    let duration = workload.settings.duration.unwrap_or(limit).min(limit);
    if real.system.backlog == Backlog::Chronos {
        real.system.horizon = Some(Time::ZERO + duration);
    }
    let plan = Plan {
        name: workload.source.name.clone(),
        share_cpus: false,
        processes,
        resources: workload.resources.clone(),
        directory: None,
        scheduler_cpus: None,
        scheduler_class: SchedulerClass::Fifo,
        init_timeout: Span::from_ms(50),
        realtime,
        priority: workload.settings.priority,
        dispatch: match workload.settings.dispatch {
            takt_workload::Dispatch::Freeze => Dispatch::Freeze,
            takt_workload::Dispatch::Priority => Dispatch::Priority,
            takt_workload::Dispatch::Rank => Dispatch::Rank,
        },
        on_crash: OnCrash::Kill,
        changes: real.scenario.changes.clone(),
        duration: Some(duration),
        mechanism: Choice::Signal,
        exec_limit: 10,
        output_to_stderr: false,
        manager: None,
        names: None,
        remaps_cpus: false,
        few_descriptors: false,
        ends_with_processes: false,
        announcer: None,
        power: None,
        isolate: None,
        hooks: Hooks::default(),
    };
    // A process that sleeps unseen has the jobs without steps.
    let sleeps = |program: &Program| program.steps.iter().any(|step| matches!(step, Step::Sleep(_)));
    let program = |(task, id): (&Task, u32)| match sleeps(&task.program) && !plan.follows(&real.system, TaskId(id)) {
        true => Program::needing(task.program.execution.clone()),
        false => task.program.clone(),
    };
    let programs = workload.system.tasks.iter().zip(0..).map(program).collect();
    (real.system, Arc::new(plan), programs)
}

#[derive(Default)]
pub(super) struct Records(pub(super) Vec<Record>);

impl Sink for Records {
    fn record(&mut self, record: Record) {
        self.0.push(record);
    }
    fn response(&mut self, _: TaskId, _: Span) {}
}

pub(super) fn engine(system: System) -> Engine {
    Engine::with_registry(system, takt_workload::registry().clone()).expect("a system that runs")
}

/// The records of a simulation of the same plan.
fn simulated(mut system: System, plan: &Plan, programs: &[Program]) -> Vec<Record> {
    for (task, program) in system.tasks.iter_mut().zip(programs) {
        task.program = program.clone();
    }
    let mut engine = engine(system);
    let mut records = Records::default();
    let length = plan.duration.expect("a planned end");
    let scenario = Scenario { changes: plan.changes.clone(), ..Scenario::default() };
    takt_sim::simulate(&mut engine, &scenario, length, &mut records, |_| {});
    records.0
}

pub(super) fn load(source: Source) -> Workload {
    let name = source.name.clone();
    takt_workload::load(source, &Options::default()).unwrap_or_else(|faults| panic!("{name}: {faults:?}"))
}

pub(super) fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.extension().and_then(|extension| extension.to_str()) {
            // Machines, which a workload names, and no workloads.
            _ if path.ends_with("platforms") => {}
            _ if path.is_dir() => files(&path, found),
            Some("yaml") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn workloads_run_in_the_order_of_the_simulator() {
    workloads_run_as_simulated(takt_workload::Dispatch::Freeze);
}

#[test]
fn workloads_that_are_dispatched_by_priority_run_in_the_order_of_the_simulator() {
    workloads_run_as_simulated(takt_workload::Dispatch::Priority);
}

#[test]
fn workloads_that_are_dispatched_by_rank_run_in_the_order_of_the_simulator() {
    workloads_run_as_simulated(takt_workload::Dispatch::Rank);
}

#[test]
fn workloads_of_real_time_processes_run_in_the_order_of_the_simulator() {
    workloads_of_class_run_as_simulated(takt_workload::Dispatch::Freeze, true);
}

fn workloads_run_as_simulated(dispatch: takt_workload::Dispatch) {
    workloads_of_class_run_as_simulated(dispatch, false);
}

fn workloads_of_class_run_as_simulated(dispatch: takt_workload::Dispatch, realtime: bool) {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads"), &mut paths);
    paths.sort();
    assert!(paths.len() > 40, "{}", paths.len());
    let (mut differ, mut asked) = (Vec::new(), 0);
    for path in paths {
        let mut workload = load(Source::read(&path).expect("a file"));
        workload.settings.dispatch = dispatch;
        let (system, plan, programs) = plan_of_class(&workload, Span::from_ms(2000), realtime);
        let mut machine = Machine::new(plan.clone(), Faults::none());
        let ran = drive::run(engine(system.clone()), &plan, &programs, &mut machine).expect("a run");
        found_as_counted(&system, &ran);
        let simulated = simulated(system, &plan, &programs);
        if programs.iter().any(|program| !program.steps.is_empty()) {
            // The requests at the end of a job are one step each. In a simulation they are one step together, so the order within an instant
            // differs.
            // By rank, the next job runs while a request is answered, and may take a resource then.
            let locks = dispatch != takt_workload::Dispatch::Rank;
            let [ran, simulated] = [&ran.records, &simulated].map(|records| ends(records, locks));
            if ran != simulated {
                println!("{}: {:#?}", path.display(), (ran, simulated));
                differ.push(path.file_name().unwrap().to_owned());
            }
            asked += 1;
            continue;
        }
        let first = ran.records.iter().zip(&simulated).position(|(ran, simulated)| ran != simulated);
        if first.is_some() || ran.records.len() != simulated.len() {
            let at = first.unwrap_or(ran.records.len().min(simulated.len()));
            let around = |records: &[Record]| {
                format!("{:#?}", &records[at.saturating_sub(1).min(records.len())..(at + 4).min(records.len())])
            };
            println!(
                "{}: {} and {} records, first differs {at}: ran {} simulated {}",
                path.display(),
                ran.records.len(),
                simulated.len(),
                around(&ran.records),
                around(&simulated)
            );
            differ.push(path.file_name().unwrap().to_owned());
        }
    }
    assert!(differ.is_empty(), "{differ:?}");
    assert!(asked >= 5, "programs that ask: {asked}");
}

/// The ends of all jobs and the answers to all requests, with or without those for resources, in the order of instants and tasks.
fn ends(records: &[Record], locks: bool) -> Vec<Record> {
    let told = |record: &&Record| match record.kind {
        RecordKind::Finish { .. } | RecordKind::Call { .. } => true,
        RecordKind::Lock { .. } => locks,
        _ => false,
    };
    let mut ends: Vec<Record> = records.iter().filter(told).copied().collect();
    ends.sort_by_key(|record| (record.at, format!("{:?}", record.kind)));
    ends
}

/// Reactions follow the jobs that the records and the engine's counts call missed, each once.
fn found_as_counted(system: &System, ran: &drive::Ran) {
    let jobs = |cause: Cause| ran.found.iter().filter(move |found| found.cause == cause);
    let all: BTreeSet<(TaskId, JobId)> = jobs(Cause::Miss).map(|found| (found.task, found.job)).collect();
    assert_eq!(all.len(), jobs(Cause::Miss).count(), "a job is found twice: {:?}", ran.found);
    let mut deadlines = BTreeMap::new();
    // A job that ends with the run may have been found before, but is not found any more.
    let (mut missed, mut last) = (BTreeSet::new(), BTreeSet::new());
    let end = ran.steps.last().map_or(Time::ZERO, |(now, _)| *now);
    for record in &ran.records {
        match record.kind {
            RecordKind::Release { task, job, deadline } => {
                deadlines.insert((task, job), deadline);
            }
            RecordKind::Finish { task, job, outcome, .. } => {
                let deadline = deadlines.remove(&(task, job)).flatten();
                let late = deadline.is_some_and(|deadline| deadline < record.at);
                if (late || matches!(outcome, Outcome::Aborted | Outcome::Skipped)) && system.counts(deadline) {
                    let with_run = record.at >= end;
                    (if with_run { &mut last } else { &mut missed }).insert((task, job));
                }
            }
            _ => {}
        }
    }
    for (index, task) in system.tasks.iter().enumerate() {
        let id = TaskId(index as u32);
        let found = || all.iter().filter(move |(task, _)| *task == id);
        if task.arrival == Arrival::Activated {
            let (found, counted) = (found().count() as u64, ran.outcome.engine.counts(id).missed);
            assert!(found <= counted && found + 1 >= counted, "task {index}: {found} of {counted}");
            continue;
        }
        let expected = missed.iter().filter(|(task, _)| *task == id);
        expected.for_each(|job| assert!(all.contains(job), "{job:?} is not found"));
        let late = |job| deadlines.get(job).is_some_and(|deadline| deadline.is_some_and(|deadline| deadline < end));
        found().for_each(|job| assert!(missed.contains(job) || last.contains(job) || late(job), "{job:?} is found"));
    }
}

/// With room for one descriptor, a process that has signalled mostly continues through the supervisor.
#[test]
fn few_descriptors_resume_as_many_jobs() {
    let task = |name: &str| {
        format!("- {{name: {name}, cmd: a, period: 20ms, runtime: 2ms, execution: [1ms], completion: signal}}\n")
    };
    let text = format!("policy: edf\ncpus: 0\ntasks:\n{}{}{}", task("a"), task("b"), task("c"));
    let completed = |few: bool| {
        let workload = load(Source { name: "few.yaml".into(), text: text.clone() });
        let (system, mut plan, programs) = plan(&workload, Span::from_ms(400));
        Arc::get_mut(&mut plan).expect("the only one").few_descriptors = few;
        let mut machine = Machine::new(plan.clone(), Faults::none());
        let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
        (0..3).map(|task| ran.outcome.engine.counts(TaskId(task)).completed).collect::<Vec<_>>()
    };
    assert_eq!(completed(false), [20; 3]);
    assert_eq!(completed(true), [20; 3]);
}

/// A late job is found when its deadline passes, and not when it ends; one that waits, when its turn comes. A job that exceeds its
/// runtime or exhausts its budget is found, and no other.
#[test]
fn jobs_are_found_when_they_are_late() {
    let found = |tasks: &str| {
        let text = format!("policy: edf\ncpus: 0\ntasks:\n{tasks}");
        let (system, plan, programs) = plan(&load(Source { name: "late.yaml".into(), text }), Span::from_ms(100));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        let ran = drive::run(engine(system.clone()), &plan, &programs, &mut machine).expect("a run");
        found_as_counted(&system, &ran);
        ran.found
    };
    let miss = |job| Found { task: TaskId(0), job, cause: Cause::Miss };
    let overrun = |job| Found { task: TaskId(0), job, cause: Cause::Overrun };
    // Job 0 never ends. It is found all the same.
    assert_eq!(found("- {name: a, batch: yes, cmd: x, deadline: 10ms}\n"), [miss(0)]);
    let late =
        "- {name: a, releases: [0ms, 1ms, 50ms], deadline: 15ms, runtime: 5ms, execution: [20ms, 4ms, 2ms], cmd: x}\n";
    assert_eq!(found(late), [miss(0), overrun(0), miss(1)]);
    let budget = "- {name: a, period: 40ms, budget: 10ms, execution: [5ms, 20ms, 5ms], runtime: 10ms, cmd: x, on_abort: restart}\n";
    let found = found(budget);
    assert!(found.contains(&overrun(1)) && found.contains(&miss(1)) && found.len() == 2, "{found:?}");
}

/// A budget of one task makes the releases of another no later. When `c` is released, the end of a's budget is nearer than the machine can wait
/// for, and so is the release of `b` after it.
#[test]
fn a_budget_delays_no_release() {
    for (budget, met) in [("", 60), (", budget: 2040us", 40)] {
        let text = format!(
            "policy: edf\ncpus: 0\ntasks:\n\
             - {{name: a, cmd: x, period: 10ms, runtime: 2ms, execution: 5ms{budget}}}\n\
             - {{name: b, cmd: x, period: 10ms, deadline: 5ms, offset: 2060us, runtime: 1ms}}\n\
             - {{name: c, cmd: x, period: 10ms, offset: 2000us, runtime: 1ms}}\n"
        );
        let (system, plan, programs) = plan(&load(Source { name: "budget.yaml".into(), text }), Span::from_ms(200));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        machine.world().grain = Span::from_us(100);
        let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
        let starts = ran.records.iter().filter_map(|record| match record.kind {
            RecordKind::Start { task: TaskId(1), .. } => Some(record.at),
            _ => None,
        });
        let releases: Vec<Time> = (0..20).map(|n| Time::ZERO + Span::from_us(2060) + Span::from_ms(10) * n).collect();
        assert_eq!(starts.collect::<Vec<_>>(), releases, "{budget}");
        assert_eq!(ran.outcome.engine.totals().met, met, "{budget}");
    }
}

/// Each job of `long` is preempted four times. With dispatch by priority these preemptions need neither a stop nor a start.
#[test]
fn a_preemption_by_priority_needs_no_stop_and_no_start() {
    let acts = |head: &str, several: Option<TaskId>| {
        let text = format!(
            "{head}policy: edf\ncpus: 0\ntasks:\n\
             - {{name: short, cmd: x, period: 10ms, runtime: 2ms, init: yes}}\n\
             - {{name: long, cmd: x, period: 100ms, runtime: 40ms, init: yes}}\n"
        );
        let (system, plan, programs) = plan(&load(Source { name: "acts.yaml".into(), text }), Span::from_ms(1000));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        machine.world().several = several;
        let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
        let totals = ran.outcome.engine.totals();
        assert_eq!((totals.met, totals.preemptions), (110, 40));
        machine.world().acts
    };
    // A start and a stop around each initialisation, and each job.
    let jobs = 2 + 110;
    assert_eq!(acts("", None), [jobs + 40, jobs + 40, 0]);
    // Each gets the lowest priority at its first job, and `short` one more at the first preemption.
    assert_eq!(acts("dispatch: priority\n", None), [jobs, jobs, 3]);
    assert_eq!(acts("dispatch: priority\n", Some(TaskId(1))), [jobs + 40, jobs + 40, 1]);
}

/// The deadline of `low` passes before it is dispatched, while its program sleeps without being frozen. The signal of `on_miss` does not wake it then.
#[test]
fn a_signal_wakes_no_program_that_waits_for_its_job() {
    let text = "policy: fp\ncpus: 0\ntasks:\n\
        - {name: high, cmd: x, init: yes, period: 40ms, runtime: 20ms, priority: 9}\n\
        - {name: low, cmd: x, init: yes, period: 40ms, deadline: 10ms, runtime: 1ms, priority: 1, steps: [run 1ms]}\n";
    let (system, mut plan, programs) =
        plan(&load(Source { name: "signal.yaml".into(), text: text.into() }), Span::from_ms(1000));
    let processes = &mut Arc::get_mut(&mut plan).expect("the only owner").processes;
    processes[1].on_miss = Some(Reaction::Signal(Signal::USR1));
    let mut machine = Machine::new(plan.clone(), Faults::none());
    let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
    assert_eq!(ran.outcome.engine.counts(TaskId(1)).missed, 25);
    let [waiting, awake] = machine.world().signalled;
    assert!(waiting >= 23 && awake == 0, "{waiting} {awake}");
}

/// A program with two more threads, of which one ends with its third job, and one names a thread of another process.
#[test]
fn threads_of_a_program_end_alone_and_do_not_lie() {
    let text = "policy: edf\ndispatch: priority\ncpus: 0\ntasks:\n\
        - {name: control, cmd: x, init: yes, period: 20ms, runtime: 3ms}\n\
        - {name: video, thread_of: control, period: 40ms, runtime: 8ms}\n\
        - {name: log, thread_of: control, period: 100ms, runtime: 20ms}\n";
    let (system, plan, programs) =
        plan(&load(Source { name: "threads.yaml".into(), text: text.into() }), Span::from_ms(1000));
    let run = |faults: Faults, lies: Option<TaskId>| {
        let mut machine = Machine::new(plan.clone(), faults);
        machine.world().lies = lies;
        drive::run(engine(system.clone()), &plan, &programs, &mut machine)
    };
    let counts = |ran: &drive::Ran| {
        [0, 1, 2].map(|task| {
            let counts = ran.outcome.engine.counts(TaskId(task));
            (counts.released, counts.met)
        })
    };
    let ran = run(Faults::none(), None).expect("a run");
    assert_eq!(counts(&ran), [(50, 50), (25, 25), (10, 10)]);
    // The end is found in the next round of the supervisor.
    let ran = run(Faults::killing(TaskId(1), Span::from_ms(1095)), None).expect("a run");
    assert_eq!((counts(&ran)[0], counts(&ran)[2]), ((50, 50), (10, 10)), "the others continue");
    assert!(ran.outcome.engine.is_gone(TaskId(1)) && (2..5).contains(&counts(&ran)[1].0), "{:?}", counts(&ran));
    // The end of the program is that of all.
    let ran = run(Faults::killing(TaskId(0), Span::from_ms(1095)), None).expect("a run");
    assert!((0..3).all(|task| ran.outcome.engine.is_gone(TaskId(task))), "{:?}", counts(&ran));
    let refused = run(Faults::none(), Some(TaskId(2))).err().expect("no run");
    assert!(refused.to_string().contains("no thread of its own as log"), "{refused}");
}

/// A workload with processes of every kind, drawn from a seed.
fn drawn(seed: u64) -> String {
    let mut drawn = 0;
    let mut draw = |most: u64| {
        drawn += 1;
        rng::draw_up_to(most, seed, 1, drawn)
    };
    let dispatch = ["freeze", "priority", "rank"][draw(2) as usize];
    if draw(3) == 0 {
        let (length, budget) = (5 + draw(10), 1 + draw(4));
        let (init, exit) = (["", ", init: yes"][draw(1) as usize], ["end", "restart"][draw(1) as usize]);
        return format!(
            "dispatch: {dispatch}\nwindows:\n\
             - {{length: {length}ms, slices: [{{cpu: 0, sc_partition: A, be_partition: C}}, {{cpu: 1, sc_partition: B}}]}}\n\
             - {{length: {budget}ms, slices: [{{cpu: 1, sc_partition: A}}]}}\n\
             partitions:\n\
             - {{name: A, processes: [{{cmd: a, budget: {budget}ms, runtime: 2ms{init}, on_exit: {exit}}}, {{cmd: b, budget: 2ms}}]}}\n\
             - {{name: B, processes: [{{cmd: c, budget: 4ms, runtime: 9ms, completion: signal}}]}}\n\
             - {{name: C, processes: [{{cmd: d, budget: 20ms, completion: none}}]}}\n"
        );
    }
    let policies = ["edf", "rm", "rr", "cbs", "llf", "g-edf", "p-edf", "g-np-edf", "dasa", "g-llf"];
    let policy = policies[draw(policies.len() as u64 - 1) as usize];
    let late = ["continue", "abort"][draw(1) as usize];
    let cpus = if policy.starts_with(['g', 'p']) { "0-1" } else { "0" };
    let mut text =
        format!("dispatch: {dispatch}\npolicy: {policy}\ncpus: {cpus}\nlate: {late}\nresources: [r, s]\ntasks:\n");
    for task in 0..2 + draw(2) {
        let (period, runtime) = (8 + draw(25), 1 + draw(5));
        let kinds = [
            "",
            ", init: yes",
            ", on_exit: restart",
            ", init: yes, on_exit: restart",
            ", spawn: per-job",
            ", on_abort: restart",
            ", init: yes, on_abort: restart, on_exit: restart",
            ", on_abort: signal, init: yes",
            ", handler: 1ms",
            ", budget: 2ms",
            ", on_exit: stop",
            ", completion: none",
            ", completion: yield",
            ", completion: yield, init: yes, on_exit: restart",
            ", completion: yield, on_abort: signal",
            ", steps: [run 1ms, lock r, run 1ms, unlock r, run 500us]",
            ", steps: [lock r, run 500us, lock s, run 500us, unlock s, unlock r, run 500us], on_abort: signal",
            ", steps: [lock s, run 500us, lock r, run 500us, unlock r, unlock s, run 500us], on_abort: restart, init: yes",
            ", steps: [run 1ms, set-period 15ms, run 1ms, yield, run 1ms, set-runtime 4ms, run 500us], on_exit: restart",
            ", steps: [run 500us, sleep 3ms, run 1ms, sleep 1ms]",
            ", steps: [sleep 2ms, run 1ms, lock r, sleep 1ms, run 500us, unlock r], on_abort: signal, init: yes",
            ", steps: [run 1ms, sleep 4ms, run 1ms], on_abort: restart, on_exit: restart, budget: 2ms",
        ];
        let kind = kinds[draw(kinds.len() as u64 - 1) as usize];
        let utility = if policy == "dasa" { ", utility: 3" } else { "" };
        text.push_str(&format!(
            "- {{name: t{task}, cmd: x, period: {period}ms, runtime: {runtime}ms{kind}{utility}}}\n"
        ));
    }
    if dispatch == "priority" && draw(2) == 0 {
        let utility = if policy == "dasa" { ", utility: 2" } else { "" };
        let of = [("", ""), (", on_abort: signal", ", on_exit: stop"), (", budget: 2ms", ", on_abort: signal")];
        let (first, second) = of[draw(2) as usize];
        text.push_str(&format!(
            "- {{name: p, cmd: x, init: yes, period: 12ms, runtime: 2ms{first}{utility}}}\n\
             - {{name: q, thread_of: p, period: 18ms, runtime: 3ms{second}{utility}}}\n"
        ));
    }
    text
}

/// Tasks on one CPU, most of which sleep in their jobs. No two events are meant to have one instant, so each time has some odd microseconds.
fn drawn_with_sleeps(seed: u64, policy: &str, dispatch: &str) -> String {
    let mut drawn = 0;
    let mut draw = |most: u64| {
        drawn += 1;
        rng::draw_up_to(most, seed, 4, drawn)
    };
    let mut text = format!(
        "dispatch: {dispatch}\npolicy: {policy}\ncpus: {}\ntasks:\n",
        if policy == "g-edf" { "0-1" } else { "0" }
    );
    for task in 0..3 + draw(2) {
        let period = 10_000 * (1 + seed % 2) + 7 * draw(4000) + task;
        let mut us = |least: u64, most: u64| least + draw(most - least);
        let steps = match us(0, 3) {
            0 => format!("run {}us", us(1000, 6000)),
            // The kernel runs the next job until the job after a completed one begins, in which a sleep could begin.
            1 if dispatch == "rank" => format!("run 9us, sleep {}us, run {}us", us(500, 9000), us(500, 4000)),
            1 => format!("sleep {}us, run {}us", us(500, 9000), us(500, 4000)),
            2 => format!("run {}us, sleep {}us, run {}us", us(300, 3000), us(500, 9000), us(300, 3000)),
            // A real program needs its CPU after the last sleep, to signal.
            _ => format!(
                "run {}us, sleep {}us, run {}us, sleep {}us, run {}us",
                us(300, 2000),
                us(500, 5000),
                us(300, 2000),
                us(500, 5000),
                us(100, 500)
            ),
        };
        let reservation = if policy == "cbs" { ", reservation: {budget: 5ms, period: 20ms}" } else { "" };
        text.push_str(&format!(
            "- {{name: t{task}, cmd: x, period: {period}us, runtime: 6ms, steps: [{steps}]{reservation}}}\n"
        ));
    }
    text
}

#[test]
fn jobs_that_sleep_run_as_simulated() {
    let (mut blocks, mut missed) = (0, 0);
    for seed in 1..=300 {
        let policy = ["edf", "rm", "llf", "cbs", "g-edf", "rr"][seed as usize % 6];
        for dispatch in ["freeze", "priority", "rank"] {
            let late = if seed % 5 == 0 { "late: abort\n" } else { "" };
            let text = format!("{late}{}", drawn_with_sleeps(seed, policy, dispatch));
            let workload = load(Source { name: "drawn.yaml".into(), text: text.clone() });
            let (system, plan, programs) = plan_of_class(&workload, Span::from_ms(500), true);
            let mut machine = Machine::new(plan.clone(), Faults::none());
            let ran = drive::run(engine(system.clone()), &plan, &programs, &mut machine).expect("a run");
            let simulated = simulated(system, &plan, &programs);
            let (left, right) = (ends(&ran.records, true), ends(&simulated, true));
            let first = left.iter().zip(&right).find(|(left, right)| left != right);
            if let Some((left, right)) = first {
                let around = |records: &[Record]| {
                    let near = |record: &&Record| (record.at - left.at).ns().abs() < 8_000_000;
                    records.iter().filter(near).map(|record| format!("{record:?}\n")).collect::<String>()
                };
                panic!(
                    "seed {seed}\n{text}{left:?}\n{right:?}\nran:\n{}simulated:\n{}",
                    around(&ran.records),
                    around(&simulated)
                );
            }
            let is_block = |record: &&Record| matches!(record.kind, RecordKind::Block { .. });
            blocks += ran.records.iter().filter(is_block).count();
            missed += ran.outcome.engine.totals().missed;
        }
    }
    assert!(blocks > 10_000 && missed > 100, "{blocks} blocks, {missed} jobs missed");
}

#[test]
fn runs_with_faults_end_with_nothing_frozen_and_nothing_lost() {
    let first = std::env::var("TAKT_FAULT_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = first.map_or(1..=10_000, |seed: u64| seed..=seed);
    let (mut refusals, mut replaced, mut ended, mut completed, mut failed) = (0, 0, 0, 0, 0);
    let (mut escapes, mut pauses) = ([0, 0], 0);
    for seed in seeds.clone() {
        let again = || format!("seed {seed}; again: TAKT_FAULT_SEED={seed} cargo test -p takt-rt-exec --lib faults");
        let source = Source { name: "drawn.yaml".into(), text: drawn(seed) };
        let (system, plan, programs) = plan_of_class(&load(source), Span::from_ms(400), seed % 2 == 1);
        let run = std::panic::catch_unwind(|| {
            let mut machine = Machine::new(plan.clone(), drive::faults(&plan, seed));
            machine.world().observes = seed % 5 != 0;
            // As on Linux: a process that is started late uses nothing of a nearly spent budget, and each nanosecond would be a step.
            machine.world().grain = Span::from_us(100);
            drive::run(engine(system.clone()), &plan, &programs, &mut machine)
        });
        let run = run.unwrap_or_else(|_| panic!("{}\n{}", again(), drawn(seed)));
        let Ok(ran) = run else {
            failed += 1;
            continue;
        };
        assert_eq!(ran.outcome.dropped, 0, "{}", again());
        let judged = std::panic::AssertUnwindSafe(|| found_as_counted(&system, &ran));
        let agreed = std::panic::catch_unwind(judged);
        assert!(agreed.is_ok(), "{}\n{}", again(), drawn(seed));
        // Nothing is lost: what was recorded is what the engine does with what the scheduler saw.
        let mut engine = engine(system);
        let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
        let mut replayed = Records::default();
        takt_sim::replay(&mut engine, &steps.collect::<Vec<_>>(), &mut replayed);
        assert!(replayed.0 == ran.records, "{}", again());
        let counts = engine.totals();
        assert_eq!(counts, ran.outcome.engine.totals(), "{}", again());
        (refusals, replaced, ended) = (refusals + ran.refusals, replaced + ran.replaced, ended + ran.ended);
        completed += counts.completed;
        escapes = [escapes[0] + ran.escapes[0], escapes[1] + ran.escapes[1]];
        pauses += u64::from(ran.paused > Span::ZERO);
    }
    println!(
        "{completed} jobs completed, {refusals} acts refused, {replaced} processes replaced, {ended} tasks ended, {failed} runs did not begin, \
         {} processes moved out of their groups and {} back, {pauses} runs on a machine that stood still",
        escapes[0], escapes[1]
    );
    // Each kind of fault has come, and most of the work was done all the same.
    if first.is_none() {
        assert!(refusals > 10_000 && replaced > 1_000 && ended > 1_000 && completed > 100_000 && failed < 5_000);
        assert!(escapes[0] > 1_000 && escapes[1] > 500 && pauses > 500);
    }
}

/// Eight hours of windows, in which processes end and are moved, acts are refused, and the machine stands still. Each window is recorded or
/// counted as lost, and a replay of the steps gives the records.
#[test]
fn eight_hours_of_windows_lose_nothing() {
    let seed = std::env::var("TAKT_FAULT_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let text = "windows:\n\
         - {length: 700ms, slices: [{cpu: 0, sc_partition: A, be_partition: B}, {cpu: 1, sc_partition: C}]}\n\
         - {length: 300ms, slices: [{cpu: 0, sc_partition: C}, {cpu: 1, sc_partition: A}]}\n\
         partitions:\n\
         - {name: A, processes: [{cmd: a, budget: 200ms, runtime: 90ms, on_exit: restart}]}\n\
         - {name: B, processes: [{cmd: b, budget: 400ms, completion: none, on_exit: restart}]}\n\
         - {name: C, processes: [{cmd: c, budget: 250ms, runtime: 300ms, completion: signal, on_exit: restart}]}\n";
    let length = Span::from_secs(8 * 3600);
    let (system, plan, programs) = plan(&load(Source { name: "long.yaml".into(), text: text.into() }), length);
    let faults = Faults::long(seed, plan.processes.len(), Span::from_ms(1000), length);
    let mut machine = Machine::new(plan.clone(), faults);
    let ran = drive::run(engine(system.clone()), &plan, &programs, &mut machine).expect("a run");
    assert_eq!(ran.outcome.dropped, 0);
    let windows = ran.records.iter().filter(|record| matches!(record.kind, RecordKind::Window { .. })).count() as u64;
    let lost = ran.outcome.engine.windows_lost();
    println!(
        "{windows} windows, {lost} lost while the machine stood still for {}; {:?} moves out and back, {} replacements",
        ran.paused, ran.escapes, ran.replaced
    );
    assert_eq!(windows + lost, 2 * 8 * 3600, "with TAKT_FAULT_SEED={seed}");
    assert!(ran.escapes[0] > 20 && ran.escapes[1] > 20 && ran.replaced > 20 && ran.paused > Span::from_secs(10));
    // A process that was moved or replaced continues its schedule.
    assert!((0..3).map(TaskId).all(|task| ran.outcome.engine.counts(task).activations > 20_000));
    let mut engine = engine(system);
    let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
    let mut replayed = Records::default();
    takt_sim::replay(&mut engine, &steps.collect::<Vec<_>>(), &mut replayed);
    assert!(replayed.0 == ran.records);
}

/// The records about other tasks than the hostile one.
fn of_others(records: &[Record], hostile: TaskId) -> Vec<String> {
    let text = |record: &Record| format!("{} {:?}", record.at - Time::ZERO, record.kind);
    let of = format!("task: {hostile:?}");
    records.iter().map(text).filter(|text| !text.contains(&of)).collect()
}

/// A program or a thread that rings all the time, and changes its page between any two loads of the scheduler, harms its own task only. The other
/// threads of its program are such others, too.
#[test]
fn a_page_that_changes_while_it_is_read_harms_only_its_own_task() {
    let first = std::env::var("TAKT_FAULT_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = first.map_or(1..=1500, |seed: u64| seed..=seed);
    let (mut requests, mut compared, mut floods, mut threads) = (0, 0, 0, 0);
    for seed in seeds {
        let again = || {
            format!("seed {seed}; again: TAKT_FAULT_SEED={seed} cargo test -p takt-rt-exec --lib a_page_that_changes")
        };
        let draw = |number: u64, most: u64| rng::draw_up_to(most, seed, 5, number) as usize;
        let dispatch = ["freeze", "priority", "rank"][draw(1, 2)];
        // With the lowest priority and no shared resource it has no influence on the others. Otherwise it may outrank or block them, as its
        // requests demand, and what is recorded is still sound.
        let alone = draw(2, 1) == 0;
        let policy = if alone { "fp" } else { ["edf", "cbs", "g-edf", "dasa", "rr", "g-llf"][draw(3, 5)] };
        let (resources, utility) =
            (["resources: [r]\n", ""][usize::from(alone)], if policy == "dasa" { ", utility: 2" } else { "" });
        let reservation = if policy == "cbs" { ", reservation: {budget: 3ms, period: 10ms}" } else { "" };
        let late = ["continue", "abort"][draw(4, 1)];
        let kinds = [
            "period: 9ms, runtime: 3ms, budget: 4ms",
            "period: 12ms, runtime: 4ms, on_abort: signal",
            "event: segments, deadline: 8ms, runtime: 2ms, budget: 3ms",
        ];
        let is_thread = dispatch == "priority" && draw(6, 1) == 0;
        // A thread has no segments of its own.
        let (kind, of, init) = match is_thread {
            true => (kinds[draw(5, 1)], "thread_of: a", ", init: yes"),
            false => (kinds[draw(5, 2)], "cmd: x", ""),
        };
        let head = format!(
            "dispatch: {dispatch}\npolicy: {policy}\ncpus: 0\nlate: {late}\n{resources}tasks:\n\
             - {{name: a, cmd: x, period: 10ms, runtime: 2ms, priority: 9{utility}{init}}}\n\
             - {{name: b, cmd: x, period: 7ms, runtime: 1ms, priority: 8{utility}}}\n"
        );
        let text = format!("{head}- {{name: hostile, {of}, {kind}, priority: 1{utility}{reservation}}}\n");
        let run = |text: &str, faults: Faults, hostile: Option<Hostile>| {
            let source = Source { name: "hostile.yaml".into(), text: text.to_owned() };
            let (system, plan, programs) = plan(&load(source), Span::from_ms(60));
            let mut machine = Machine::new(plan.clone(), faults);
            (machine.world().hostile, machine.world().grain) = (hostile, Span::from_us(100));
            // As on Linux. With a budget of some nanoseconds, each ring is a step.
            machine.world().ring = 1 << 16;
            (system.clone(), drive::run(engine(system), &plan, &programs, &mut machine).expect("a run"))
        };
        let hostile = Hostile::new(TaskId(2), seed);
        let ringing = Faults::ringing(seed, hostile.task, Span::from_ms(1000), Span::from_ms(64));
        let ran = std::panic::catch_unwind(|| run(&text, ringing, Some(hostile)));
        let (system, ran) = ran.unwrap_or_else(|_| panic!("{}\n{text}", again()));
        assert_eq!(ran.outcome.dropped, 0, "{}", again());
        let mut engine = engine(system);
        let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
        let mut replayed = Records::default();
        takt_sim::replay(&mut engine, &steps.collect::<Vec<_>>(), &mut replayed);
        assert!(replayed.0 == ran.records, "{}", again());
        requests += ran.steps.iter().map(|(_, inputs)| inputs.len()).sum::<usize>();
        floods += ran.outcome.floods[2];
        if alone {
            let (_, without) = run(&head, Faults::none(), None);
            let (with, without) = (of_others(&ran.records, hostile.task), of_others(&without.records, hostile.task));
            assert_eq!(with, without, "{}\n{text}", again());
            compared += 1;
            threads += u32::from(is_thread);
        }
    }
    println!("{requests} inputs, {compared} runs compared, {threads} of them with a hostile thread, {floods} floods");
    let all = requests > 100_000 && compared > 500 && threads > 100 && floods > 1000;
    assert!(first.is_some() || all, "{requests} {compared} {threads} {floods}");
}

/// A run of a program that executes segments all the time, beside a task that is more urgent.
fn segmenting(deadline: Span, faults: Faults, length: Span) -> (drive::Ran, Segmenting) {
    let text = "policy: fp\ncpus: 0\nlate: abort\ntasks:\n\
                - {name: a, cmd: x, period: 50ms, runtime: 200us, priority: 9}\n\
                - {name: segments, cmd: x, event: {segments: yes, distance: 1us}, deadline: 20ms, runtime: 10us, \
                   budget: 1ms, priority: 1}\n";
    let source = Source { name: "segments.yaml".into(), text: text.to_owned() };
    let (system, plan, programs) = plan(&load(source), length);
    let mut machine = Machine::new(plan.clone(), faults);
    machine.world().segmenting = Some(Segmenting::new(TaskId(1), deadline, Span::from_us(2)));
    let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
    let own = machine.world().segmenting.take().expect("its own account");
    (ran, own)
}

/// A program that waits for each answer is never frozen, however often it asks. It also rings after the scheduler has read its request.
#[test]
fn ten_thousand_segments_in_a_row_are_no_flood() {
    for faults in [Faults::none(), Faults::echoing()] {
        let (ran, own) = segmenting(Span::from_ms(20), faults, Span::from_ms(120));
        assert!(own.begun > 10_000 && own.aborted == 0, "{own:?}");
        assert!(own.longest <= Span::from_ms(1), "{own:?}");
        assert_eq!(ran.outcome.floods, [0, 0], "{own:?}");
        assert_eq!(ran.outcome.engine.counts(TaskId(1)).missed, 0);
    }
}

/// Segments that are over at once have no job that bounds their program. So it is contained.
#[test]
fn segments_that_are_aborted_at_once_are_a_flood() {
    let (ran, own) = segmenting(Span::from_ns(1), Faults::none(), Span::from_ms(120));
    assert!(own.aborted > 500, "{own:?}");
    assert!((5..=12).contains(&ran.outcome.floods[1]), "{:?} {own:?}", ran.outcome.floods);
    assert_eq!(ran.outcome.engine.counts(TaskId(0)).missed, 0);
}

/// The releases of each task's jobs by events, among the inputs of a run.
fn events_of(ran: &drive::Ran, task: TaskId) -> Vec<Time> {
    let of = |(now, inputs): &(Time, Vec<Input>)| {
        let events = inputs.iter().filter(|input| **input == Input::Release { task }).count();
        std::iter::repeat_n(*now, events).collect::<Vec<_>>()
    };
    ran.steps.iter().flat_map(of).collect()
}

/// A source that changes every 5 us costs the scheduler a bounded number of steps, and the other tasks nothing. Events are heard again when
/// the flood is over.
#[test]
fn a_source_that_floods_costs_a_bounded_number_of_steps() {
    let us = Span::from_us;
    let flooded = TaskId(2);
    let head = "policy: edf\ncpus: 0\ntasks:\n\
                - {name: a, cmd: x, period: 10ms, runtime: 2ms}\n\
                - {name: b, cmd: x, period: 7ms, runtime: 1ms}\n";
    let text =
        format!("{head}- {{name: c, cmd: x, event: {{signal: USR1, queue: 4}}, deadline: 500ms, runtime: 1ms}}\n");
    let run = |text: &str, faults: &dyn Fn(&Plan) -> Faults, sources: &[Changing]| {
        let source = Source { name: "flood.yaml".into(), text: text.to_owned() };
        let (system, plan, programs) = plan(&load(source), Span::from_ms(200));
        let mut machine = Machine::new(plan.clone(), faults(&plan));
        machine.world().sources = sources.to_vec();
        drive::run(engine(system.clone()), &plan, &programs, &mut machine).map(|ran| (system, ran))
    };
    // Time zero is at some 1002 ms. A flood of 100 ms, and single changes after it.
    let flood = Changing::new(flooded, us(1_012_000), us(5), us(1_112_000));
    let after = Changing::new(flooded, us(1_150_000), us(5_000), us(1_170_000));
    let none = |_: &Plan| Faults::none();
    let (_, ran) = run(&text, &none, &[flood, after]).expect("a run");
    let events = events_of(&ran, flooded);
    let ms = |from: i64, to: i64| events.iter().filter(|at| (from..to).contains(&(at.ns() / 1_000_000))).count();
    // As many as pass before each of some ten times at which it is muted.
    assert!((BURST as usize * 8..BURST as usize * 11).contains(&ms(0, 125)), "{}", ms(0, 125));
    assert_eq!(ms(125, 200), 5, "the changes after the flood");
    assert!((8..=11).contains(&ran.outcome.event_floods[2]), "{:?}", ran.outcome.event_floods);
    assert_eq!((ran.outcome.dropped, &ran.outcome.floods), (0, &vec![0; 3]));
    // All events have a record: they released a job, wait, or are lost.
    let counts = ran.outcome.engine.counts(flooded);
    let lost = counts.lost;
    let all = events.len() as u64;
    assert!(
        counts.released + lost <= all && counts.released + lost + 4 >= all && lost > 900,
        "{counts:?} {lost} {all}"
    );
    let (_, without) = run(head, &none, &[]).expect("a run");
    assert_eq!(of_others(&ran.records, flooded), of_others(&without.records, flooded));

    let (mut muted, mut heard) = (0, 0);
    for seed in 1..=60 {
        // A machine may refuse to start a process.
        let Ok((system, ran)) = run(&text, &|plan| drive::faults(plan, seed), &[flood, after]) else { continue };
        let mut engine = engine(system);
        let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
        let mut replayed = Records::default();
        takt_sim::replay(&mut engine, &steps.collect::<Vec<_>>(), &mut replayed);
        assert!(replayed.0 == ran.records, "seed {seed}");
        muted += ran.outcome.event_floods[2];
        heard += events_of(&ran, flooded).len();
    }
    assert!(muted > 200 && heard < 60 * 11 * BURST as usize, "{muted} {heard}");
}

/// The ring between the threads is full when jobs are late: the end of the run is asked for all the same, by the first of them.
#[test]
fn a_full_ring_loses_no_end_of_the_run() {
    let text = "policy: edf\ncpus: 0\ntasks:\n\
                - {name: a, cmd: x, period: 10ms, runtime: 2ms}\n\
                - {name: b, cmd: x, period: 20ms, runtime: 5ms, execution: 19ms}\n";
    let run = |ring: usize| {
        let source = Source { name: "late.yaml".into(), text: text.to_owned() };
        let (system, plan, programs) = plan(&load(source), Span::from_ms(200));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        machine.world().ring = ring;
        drive::run(engine(system), &plan, &programs, &mut machine).expect("a run")
    };
    let whole = run(1 << 12);
    assert_eq!((whole.outcome.dropped, whole.ends_by), (0, None), "what is in the ring needs nothing beside it");
    // No room at all, as if the supervisor never ran.
    let full = run(0);
    assert!(full.outcome.dropped > 100 && full.found.is_empty(), "{} {:?}", full.outcome.dropped, full.found);
    assert_eq!(full.ends_by, Some(whole.found[0]));
    for found in whole.found {
        assert_eq!(Found::of((found.about(), found.job)), found);
    }
}

/// A step measures few of many tasks of the kernel's classes, and what their jobs consumed is known all the same.
#[test]
fn many_tasks_of_the_kernel_cost_few_measurements() {
    let many = 100;
    let task =
        |n: usize| format!("- {{name: k{n}, cmd: x, class: other, period: 40ms, offset: {n}us, runtime: 3ms}}\n");
    let kernel: String = (0..many).map(task).collect();
    let text = format!("policy: edf\ncpus: 0\ntasks:\n{kernel}- {{name: own, cmd: x, period: 1ms, runtime: 300us}}\n");
    let source = Source { name: "many.yaml".into(), text };
    let (system, plan, programs) = plan(&load(source), Span::from_ms(160));
    let mut machine = Machine::new(plan.clone(), Faults::none());
    let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
    let engine = &ran.outcome.engine;
    for number in 0..many as u32 {
        let counts = engine.counts(TaskId(number));
        assert_eq!((counts.released, counts.met, counts.missed), (4, 4, 0), "task {number}");
        let (_, most) = ran.outcome.most_used[number as usize].expect("it is measured");
        assert_eq!(most, Work::nominal(Span::from_ms(3)), "task {number}");
    }
    // At the dispatch and at the end of a job, and some of the others in turn.
    let (steps, jobs) = (ran.steps.len() as u64, many as u64 * 4);
    let most = 3 * jobs + (PER_STEP as u64 + 1) * 2 * steps;
    let measurements = machine.world().measurements;
    println!("{measurements} measurements in {steps} steps for {jobs} jobs, at most {most}");
    assert!(measurements <= most && most < steps * many as u64 / 4, "{measurements} in {steps} steps, not {most}");
}

/// The jobs of a run that ended, with their ends.
fn finished(records: &[Record]) -> Vec<(Time, TaskId, JobId, Outcome)> {
    let end = |record: &Record| match record.kind {
        RecordKind::Finish { task, job, outcome, .. } => Some((record.at, task, job, outcome)),
        _ => None,
    };
    let mut all: Vec<_> = records.iter().filter_map(end).collect();
    all.sort_by_key(|(at, task, job, _)| (*at, *task, *job));
    all
}

/// A file of tasks whose jobs sleep in their middle, by a seed. With `late: abort` in its `head` it is an overload.
fn sleepers(policy: &str, cpus: usize, head: &str, seed: u64) -> String {
    let mut drawn = 0;
    let mut draw = |most: u64| {
        drawn += 1;
        rng::draw_up_to(most, seed, 11, drawn) as i64
    };
    let tasks = 2 + draw(4);
    let mut text =
        format!("policy: {policy}\ncpus: {}\ndispatch: rank\n{head}tasks:\n", if cpus == 1 { "0" } else { "\"0,1\"" });
    for task in 0..tasks {
        let period = [20, 30, 40, 50, 60, 90][draw(5) as usize] * 1000;
        // Odd times, so that few events come at one instant.
        let most = period as u64 / tasks as u64 / if head.is_empty() { 2 } else { 1 };
        let times = [(); 3].map(|()| 100 + draw(most) + 7 * task);
        let steps = match draw(3) {
            0 => format!("[run: {}us, sleep: {}us, run: {}us]", times[0], times[1], times[2]),
            1 => format!("[run: 9us, sleep: {}us, run: {}us]", times[1], times[0]),
            2 => format!(
                "[run: {}us, sleep: {}us, run: {}us, sleep: {}us, run: 130us]",
                times[0], times[1], times[2], times[0]
            ),
            _ => format!("[run: {}us]", times[0] + times[2]),
        };
        text += &format!(
            "- {{name: t{task}, cmd: x, init: yes, period: {period}us, offset: {}us, priority: {}, steps: {steps}}}\n",
            draw(9000),
            20 - task
        );
    }
    text
}

/// Runs a file of sleepers with and without observation, and simulates it. Returns the ends of jobs if they are alike.
fn as_simulated(name: &str, text: &str) -> Option<usize> {
    let seen = run_as_simulated(name, text, true);
    run_as_simulated(name, text, false).and(seen)
}

fn run_as_simulated(name: &str, text: &str, observes: bool) -> Option<usize> {
    let workload = load(Source { name: "sleep.yaml".into(), text: text.to_owned() });
    let (system, mut plan, programs) = plan(&workload, Span::from_ms(1000));
    Arc::get_mut(&mut plan).expect("the only one").init_timeout = Span::from_secs(10);
    let mut machine = Machine::new(plan.clone(), Faults::none());
    machine.world().observes = observes;
    let ran = drive::run(engine(system.clone()), &plan, &programs, &mut machine).expect("a run");
    let (ran, simulated) = (finished(&ran.records), finished(&simulated(system, &plan, &programs)));
    if ran == simulated {
        return Some(ran.len());
    }
    let at = ran.iter().zip(&simulated).position(|(a, b)| a != b).unwrap_or(ran.len().min(simulated.len()));
    let (here, there) = (ran.get(at), simulated.get(at));
    println!(
        "{name}, observed: {observes}: {} and {} ends, the first that differs is {at}: {here:?} {there:?}\n{text}",
        ran.len(),
        simulated.len()
    );
    None
}

/// The kernel runs the next job while one sleeps, so the ends of all jobs are those of the simulation.
#[test]
fn jobs_that_sleep_end_as_simulated_by_rank() {
    let (mut differ, mut ends, mut slept) = (Vec::new(), 0, 0);
    for (policy, cpus) in [("edf", 1), ("rm", 1), ("dm", 1), ("fp", 1), ("p-edf", 2), ("g-edf", 2), ("g-rm", 2)] {
        for seed in 0..12 {
            let text = sleepers(policy, cpus, "", seed);
            slept += u64::from(text.contains("sleep"));
            match as_simulated(&format!("{policy} {seed}"), &text) {
                Some(count) => ends += count,
                None => differ.push((policy, seed)),
            }
        }
    }
    println!("{ends} ends, {slept} files that sleep");
    assert!(differ.is_empty(), "{differ:?}");
    assert!(ends > 8000 && slept > 60, "{ends} {slept}");
}

/// Jobs are aborted, some before they have run, and the work of others continues after their abort.
#[test]
fn jobs_that_sleep_are_aborted_as_simulated_by_rank() {
    let (mut differ, mut ends) = (Vec::new(), 0);
    for policy in ["edf", "fp"] {
        for seed in 0..15 {
            let text = sleepers(policy, 1, "late: abort\n", seed);
            match as_simulated(&format!("{policy} {seed}"), &text) {
                Some(count) => ends += count,
                None => differ.push((policy, seed)),
            }
        }
    }
    println!("{ends} ends, differ: {differ:?}");
    assert!(differ.is_empty(), "{differ:?}");
}

/// There are more jobs than levels. The least urgent wait until a level is free.
#[test]
fn two_hundred_ready_jobs_have_sixty_levels() {
    {
        let policy = "edf";
        let task = |n: i64| {
            let steps = if n % 7 == 3 { "[run: 311us, sleep: 2ms, run: 400us]" } else { "[run: 713us]" };
            // The order of the deadlines is not that of the tasks.
            let period = 400 + (n * 37) % 200;
            format!("- {{name: t{n}, cmd: x, init: yes, period: {period}ms, steps: {steps}}}\n")
        };
        let tasks: String = (0..200).map(task).collect();
        let text = format!("policy: {policy}\ncpus: 0\nduration: 170ms\ndispatch: rank\ntasks:\n{tasks}");
        let ends = as_simulated(policy, &text).unwrap_or_else(|| panic!("{policy} differs"));
        assert!(ends == 200, "{ends}");
    }
}

/// Also where no policy and no budget needs it: a job that used more than its runtime is the cause of misses.
#[test]
fn the_most_used_cpu_time_is_measured_under_every_online_policy() {
    let policies = ["edf", "llf", "fp", "rm", "np-edf", "rr", "fifo"];
    for (policy, dispatch) in policies.into_iter().flat_map(|policy| [(policy, "freeze"), (policy, "rank")]) {
        let text = format!(
            "policy: {policy}\ncpus: 0\ndispatch: {dispatch}\ntasks:\n\
             - {{name: greedy, cmd: x, init: yes, period: 100ms, runtime: 12ms, steps: [run: 47ms]}}\n\
             - {{name: other, cmd: x, init: yes, period: 100ms, offset: 10ms, runtime: 8ms, steps: [run: 8ms]}}\n"
        );
        let (system, plan, programs) = plan(&load(Source { name: "greedy.yaml".into(), text }), Span::from_ms(1000));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
        let most = |task: usize| ran.outcome.most_used[task].expect("it is measured").1;
        assert_eq!([most(0), most(1)], [47, 8].map(|ms| Work::nominal(Span::from_ms(ms))), "{policy} {dispatch}");
    }
}

/// A task that sleeps within its reservation takes nothing from another one, although nothing tells that it sleeps.
#[test]
fn a_reserved_task_meets_its_deadlines_beside_one_that_sleeps() {
    let policies = ["cbs", "fcbs", "grub", "cbs:enforcement=hard"];
    for (policy, observes) in policies.into_iter().flat_map(|policy| [(policy, false), (policy, true)]) {
        let text = format!(
            "policy: {policy}\ncpus: 0\ndispatch: rank\ntasks:\n\
             - {{name: player, cmd: x, init: yes, period: 40ms, reservation: {{budget: 20ms, period: 40ms}}, steps: [sleep: 300ms, run: 7ms]}}\n\
             - {{name: other, cmd: x, init: yes, period: 50ms, reservation: {{budget: 20ms, period: 50ms}}, steps: [run: 8ms]}}\n"
        );
        let (system, plan, programs) = plan(&load(Source { name: "player.yaml".into(), text }), Span::from_ms(2000));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        machine.world().grain = Span::from_us(100);
        machine.world().observes = observes;
        let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
        let counts = ran.outcome.engine.counts(TaskId(1));
        assert_eq!((counts.released, counts.met), (40, 40), "{policy}: {counts:?}");
        let (_, most) = ran.outcome.most_used[1].expect("it is measured");
        assert_eq!(most, Work::nominal(Span::from_ms(8)), "{policy}");
    }
}

/// A program that was let begin a job, and got no CPU before the job was aborted, begins the next one.
#[test]
fn a_job_that_is_aborted_before_it_runs_was_not_begun() {
    for programs_signal in ["", ", completion: signal"] {
        let text = format!(
            "policy: fp\ncpus: 0\ndispatch: rank\nlate: abort\ntasks:\n\
             - {{name: high, cmd: x, init: yes, period: 100ms, priority: 2, runtime: 60ms{programs_signal}}}\n\
             - {{name: low, cmd: x, init: yes, period: 50ms, deadline: 20ms, priority: 1, runtime: 10ms{programs_signal}}}\n"
        );
        let (system, plan, programs) = plan(&load(Source { name: "abort.yaml".into(), text }), Span::from_ms(1000));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        let ran = drive::run(engine(system.clone()), &plan, &programs, &mut machine).expect("a run");
        assert_eq!(ran.records, simulated(system, &plan, &programs));
        let counts = ran.outcome.engine.counts(TaskId(1));
        assert_eq!((counts.met, counts.aborted, counts.behind), (10, 10, 0), "{counts:?}");
    }
}

/// The scheduler learns of a block, a wake-up and the end of a job at once. Their replay begins the job no second time.
#[test]
fn a_job_that_is_over_when_its_block_is_noticed_runs_once() {
    for (dispatch, seed) in
        ["freeze", "priority", "rank"].into_iter().flat_map(|dispatch| [(dispatch, 1), (dispatch, 2)])
    {
        let text = format!(
            "policy: edf\ncpus: 0\ndispatch: {dispatch}\ntasks:\n\
             - {{name: short, cmd: x, init: yes, period: 20ms, steps: [run: 1ms, sleep: 300us, run: 500us, sleep: 200us, run: 100us]}}\n"
        );
        let source = Source { name: "short.yaml".into(), text };
        let (system, plan, programs) = plan_of_class(&load(source), Span::from_secs(1), true);
        let mut machine = Machine::new(plan.clone(), Faults::noticing_late(seed));
        let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
        let late = ran.records.iter().filter(|record| matches!(record.kind, RecordKind::LateSignal { .. })).count();
        let counts = ran.outcome.engine.counts(TaskId(0));
        assert_eq!((counts.met, counts.behind, late), (50, 0, 0), "{dispatch}: {counts:?}");
        let blocks = ran.records.iter().filter(|record| matches!(record.kind, RecordKind::Block { .. })).count();
        assert_eq!(blocks, 100, "{dispatch}");
    }
}

/// No act is needed when a job blocks or wakes up, and one at most for a release, where a program waits for its next job without being frozen.
#[test]
fn a_job_that_sleeps_needs_no_act() {
    let text = "policy: edf\ncpus: 0\ndispatch: rank\ntasks:\n\
         - {name: io, cmd: x, init: yes, period: 50ms, steps: [sleep: 20ms, run: 1ms]}\n\
         - {name: cpu, cmd: x, init: yes, period: 60ms, steps: [run: 38ms]}\n";
    let source = Source { name: "io.yaml".into(), text: text.to_owned() };
    let (system, plan, programs) = plan(&load(source), Span::from_secs(3));
    for observes in [false, true] {
        let mut machine = Machine::new(plan.clone(), Faults::none());
        machine.world().observes = observes;
        let ran = drive::run(engine(system.clone()), &plan, &programs, &mut machine).expect("a run");
        assert_eq!((ran.outcome.engine.totals().met, ran.outcome.engine.totals().missed), (110, 0));
        let [stops, starts, priorities] = machine.world().acts;
        println!("{stops} stops, {starts} starts and {priorities} priorities for 110 jobs, observed: {observes}");
        assert!(stops + starts < 12 && priorities <= 66, "{stops} {starts} {priorities}");
    }
}

/// Loops that sleep, beside other tasks: the wake-ups of some release their jobs, and the clock those of others.
#[test]
fn loops_that_sleep_keep_their_jobs() {
    let (mut jobs, mut aborted, mut early, mut replaced) = (0, 0, 0, 0);
    for seed in 1..=2000u64 {
        let mut draws = 0;
        let mut draw = |below: u64| {
            draws += 1;
            rng::draw_up_to(below - 1, seed, 12, draws)
        };
        let us = |n: u64| Span::from_us(n as i64);
        let policy = ["edf", "rm", "fifo", "rr", "g-edf", "llf"][draw(6) as usize];
        let dispatch = ["freeze", "priority", "rank"][draw(3) as usize];
        let cpus = if policy == "g-edf" { "0-1" } else { "0" };
        let (loops, others) = (1 + draw(2), draw(3));
        let faulty = draw(2) == 0;
        let mut text = format!("policy: {policy}\ncpus: {cpus}\nrealtime: yes\ndispatch: {dispatch}\ntasks:\n");
        let mut looping = Vec::new();
        let (mut by_wakeups, mut keeps_cpu) = (Vec::new(), others > 0);
        for n in 0..loops {
            let work: Vec<Span> = (0..1 + draw(3)).map(|_| us(20 + draw(3000))).collect();
            let sleep = us(500 + draw(20_000));
            let distance = us(2000 + draw(15_000));
            let wakes = draw(3) > 0;
            let releases = if wakes {
                format!("event: {{wakeup: yes, distance: {distance}}}")
            } else {
                format!("period: {distance}")
            };
            // Jobs that the clock releases and a budget aborts are not observed in their sleeps.
            let budget = if draw(3) == 0 { ", budget: 2ms" } else { "" };
            keeps_cpu |= !wakes && !budget.is_empty();
            let restart = if draw(3) == 0 { ", on_exit: restart" } else { "" };
            text +=
                &format!("- {{name: loop{n}, cmd: x, completion: sleep, {releases}, runtime: 2ms{budget}{restart}}}\n");
            looping.push(Some(Looping { work, sleep, begun: 0, sleeps: Vec::new() }));
            by_wakeups.push((wakes && budget.is_empty()).then_some(distance));
        }
        for n in 0..others {
            let (period, runtime) = (10 + draw(40), 1 + draw(6));
            text += &format!("- {{name: other{n}, cmd: x, period: {period}ms, runtime: {runtime}ms}}\n");
        }
        looping.resize(looping.len() + others as usize, None);
        let source = Source { name: format!("seed {seed}"), text: text.clone() };
        let (system, mut plan, programs) = plan_of_class(&load(source), Span::from_ms(300), true);
        for process in &mut Arc::get_mut(&mut plan).expect("the only one").processes {
            process.observed = process.observed.map(|_| JobEnd::Sleep);
        }
        let noticed = Faults::noticing_after(us(draw(2) * 60));
        let faults = if faulty { drive::faults(&plan, seed) } else { noticed };
        let mut machine = Machine::new(plan.clone(), faults);
        machine.world().looping = looping;
        // As on Linux: a program that sleeps unobserved has its budget measured again and again.
        machine.world().grain = us(100);
        println!("seed {seed}, faults {faulty}:\n{text}");
        // A machine may refuse to start a process.
        let Ok(ran) = drive::run(engine(system.clone()), &plan, &programs, &mut machine) else { continue };
        let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
        let (mut engine, mut replayed) = (engine(system), Records::default());
        takt_sim::replay(&mut engine, &steps.collect::<Vec<_>>(), &mut replayed);
        assert!(ran.outcome.dropped == 0 && replayed.0 == ran.records, "seed {seed}, {} dropped", ran.outcome.dropped);
        replaced += ran.replaced;
        for (index, wakes) in by_wakeups.iter().enumerate() {
            let task = TaskId(index as u32);
            let counts = ran.outcome.engine.counts(task);
            jobs += counts.completed;
            aborted += counts.aborted;
            assert_eq!(counts.lost, 0, "each event has a job");
            let (Some(distance), false) = (wakes, faulty) else { continue };
            // The next job is released by the wake-up, or as soon as the distance allows.
            let mut releases = BTreeMap::new();
            for record in &ran.records {
                if let RecordKind::Release { task: of, job, .. } = record.kind
                    && of == task
                {
                    releases.insert(job, record.at);
                }
            }
            // Time zero is 2 ms after the first instant of the machine.
            let zero = Span::from_ms(1002);
            let looping = machine.world().looping[index].take().expect("a loop");
            // A job of each loop and its sleep take less than 27 ms.
            assert!(keeps_cpu || releases.len() > 9, "{releases:?}, seed {seed}");
            for (job, at) in releases.range(1..) {
                let at_earliest = releases[&(job - 1)] + *distance;
                let woken = Time::ZERO + (looping.sleeps[*job as usize - 1].1 - zero);
                early += u64::from(woken < at_earliest);
                assert_eq!(*at, woken.max(at_earliest), "job {job} of task {index}, seed {seed}");
            }
        }
    }
    println!("{jobs} jobs, {aborted} aborted, {early} wake-ups too early, {replaced} processes replaced");
    assert!(jobs > 5000 && aborted > 300 && early > 300 && replaced > 20, "{jobs} {aborted} {early} {replaced}");
}

/// `a` wakes up, and before the scheduler knows, `b` blocks, which it was to preempt. A process that was frozen in its sleep would be blocked for ever.
#[test]
fn a_job_that_blocks_while_it_is_preempted_wakes_up() {
    for dispatch in ["freeze", "priority", "rank"] {
        let text = format!(
            "policy: edf\ncpus: 0\nrealtime: yes\ndispatch: {dispatch}\ntasks:\n\
             - {{name: a, cmd: x, period: 20ms, deadline: 10ms, steps: [run 1ms, sleep 3ms, run 1ms]}}\n\
             - {{name: b, cmd: x, period: 20ms, steps: [run 2950us, sleep 2ms, run 1ms]}}\n"
        );
        let source = Source { name: format!("{dispatch}.yaml"), text };
        let (system, plan, programs) = plan_of_class(&load(source), Span::from_ms(200), true);
        let mut machine = Machine::new(plan.clone(), Faults::noticing_after(Span::from_us(100)));
        let ran = drive::run(engine(system), &plan, &programs, &mut machine).expect("a run");
        for task in [TaskId(0), TaskId(1)] {
            let counts = ran.outcome.engine.counts(task);
            assert_eq!((counts.completed, counts.missed), (10, 0), "{dispatch}: {task:?}");
        }
    }
}
