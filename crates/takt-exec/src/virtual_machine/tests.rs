//! The executive over a virtual machine decides as the simulator does, and survives what goes wrong.

#![cfg(test)]

use super::{Faults, Machine, drive};
use crate::plan::{Hooks, Plan, Process, SchedulerClass};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use takt_core::engine::Engine;
use takt_core::model::{Backlog, Completion, Execution, OnAbort, System, TaskId};
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::rng;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_linux::Choice;
use takt_linux::leftovers::OnCrash;
use takt_workload::{Options, Source, Spawn, TaskInfo, Workload};

/// What `takt run` makes of a workload, and what its jobs need, for a run of at most `limit`.
fn plan(workload: &Workload, limit: Span) -> (System, Arc<Plan>, Vec<Execution>) {
    let executions = workload.system.tasks.iter().map(|task| task.program.execution.clone()).collect();
    let mut real = workload.clone();
    real.clear_simulated();
    // A file for a simulation names no commands; here all its tasks have programs.
    for (info, task) in real.tasks.iter_mut().zip(&mut real.system.tasks) {
        info.cmd = Some("a program".into());
        task.on_abort = info.abort_rule(task.handler.is_some());
    }
    let process = |(task, id): (&TaskInfo, usize)| Process {
        name: task.name.clone(),
        cmd: String::new(),
        init: task.init,
        per_job: task.spawn == Spawn::PerJob,
        signals: matches!(task.completion_rule(), Completion::Undeclared | Completion::Signal),
        on_exit: task.on_exit,
        abort_signal: (real.system.tasks[id].on_abort == OnAbort::Signal).then_some(Signal::USR1),
        output: None,
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
        directory: None,
        scheduler_cpus: None,
        scheduler_class: SchedulerClass::Fifo,
        init_timeout: Span::from_ms(50),
        realtime: false,
        on_crash: OnCrash::Kill,
        duration: Some(duration),
        mechanism: Choice::Signal,
        output_to_stderr: false,
        hooks: Hooks::default(),
    };
    (real.system, Arc::new(plan), executions)
}

#[derive(Default)]
struct Records(Vec<Record>);

impl Sink for Records {
    fn record(&mut self, record: Record) {
        self.0.push(record);
    }
    fn response(&mut self, _: TaskId, _: Span) {}
}

fn engine(system: System) -> Engine {
    Engine::with_registry(system, takt_workload::registry().clone()).expect("a system that runs")
}

/// What a simulation of the same plan records.
fn simulated(mut system: System, plan: &Plan, executions: &[Execution]) -> Vec<Record> {
    for (task, execution) in system.tasks.iter_mut().zip(executions) {
        task.program.execution = execution.clone();
    }
    let mut engine = engine(system);
    let mut records = Records::default();
    let length = plan.duration.expect("a planned end");
    takt_sim::simulate(&mut engine, &Scenario::default(), length, &mut records, |_| {});
    records.0
}

fn load(source: Source) -> Workload {
    let name = source.name.clone();
    takt_workload::load(source, &Options::default()).unwrap_or_else(|faults| panic!("{name}: {faults:?}"))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => files(&path, found),
            Some("yaml") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn workloads_run_in_the_order_of_the_simulator() {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads"), &mut paths);
    paths.sort();
    assert!(paths.len() > 40, "{}", paths.len());
    let mut differ = Vec::new();
    for path in paths {
        let workload = load(Source::read(&path).expect("a file"));
        let (system, plan, executions) = plan(&workload, Span::from_ms(2000));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        let ran = drive::run(engine(system.clone()), &plan, &executions, &mut machine).expect("a run");
        let simulated = simulated(system, &plan, &executions);
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
        let (system, plan, executions) = plan(&load(Source { name: "budget.yaml".into(), text }), Span::from_ms(200));
        let mut machine = Machine::new(plan.clone(), Faults::none());
        machine.world().grain = Span::from_us(100);
        let ran = drive::run(engine(system), &plan, &executions, &mut machine).expect("a run");
        let starts = ran.records.iter().filter_map(|record| match record.kind {
            RecordKind::Start { task: TaskId(1), .. } => Some(record.at),
            _ => None,
        });
        let releases: Vec<Time> = (0..20).map(|n| Time::ZERO + Span::from_us(2060) + Span::from_ms(10) * n).collect();
        assert_eq!(starts.collect::<Vec<_>>(), releases, "{budget}");
        assert_eq!(ran.outcome.engine.totals().met, met, "{budget}");
    }
}

/// A workload with processes of every kind, drawn from a seed.
fn drawn(seed: u64) -> String {
    let mut drawn = 0;
    let mut draw = |most: u64| {
        drawn += 1;
        rng::draw_up_to(most, seed, 1, drawn)
    };
    if draw(3) == 0 {
        let (length, budget) = (5 + draw(10), 1 + draw(4));
        let (init, exit) = (["", ", init: yes"][draw(1) as usize], ["end", "restart"][draw(1) as usize]);
        return format!(
            "windows:\n\
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
    let mut text = format!("policy: {policy}\ncpus: {cpus}\nlate: {late}\ntasks:\n");
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
        ];
        let kind = kinds[draw(kinds.len() as u64 - 1) as usize];
        let utility = if policy == "dasa" { ", utility: 3" } else { "" };
        text.push_str(&format!(
            "- {{name: t{task}, cmd: x, period: {period}ms, runtime: {runtime}ms{kind}{utility}}}\n"
        ));
    }
    text
}

#[test]
fn runs_with_faults_end_with_nothing_frozen_and_nothing_lost() {
    let first = std::env::var("TAKT_FAULT_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = first.map_or(1..=10_000, |seed: u64| seed..=seed);
    let (mut refusals, mut replaced, mut ended, mut completed, mut failed) = (0, 0, 0, 0, 0);
    for seed in seeds.clone() {
        let again = || format!("seed {seed}; again: TAKT_FAULT_SEED={seed} cargo test -p takt-exec --lib faults");
        let source = Source { name: "drawn.yaml".into(), text: drawn(seed) };
        let (system, plan, executions) = plan(&load(source), Span::from_ms(400));
        let run = std::panic::catch_unwind(|| {
            let mut machine = Machine::new(plan.clone(), drive::faults(&plan, seed));
            drive::run(engine(system.clone()), &plan, &executions, &mut machine)
        });
        let run = run.unwrap_or_else(|_| panic!("{}\n{}", again(), drawn(seed)));
        let Ok(ran) = run else {
            failed += 1;
            continue;
        };
        assert_eq!(ran.outcome.dropped, 0, "{}", again());
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
    }
    println!(
        "{completed} jobs completed, {refusals} acts refused, {replaced} processes replaced, {ended} tasks ended, {failed} runs did not begin"
    );
    // Each kind of fault has come, and most of the work was done all the same.
    if first.is_none() {
        assert!(refusals > 10_000 && replaced > 1_000 && ended > 1_000 && completed > 100_000 && failed < 5_000);
    }
}
