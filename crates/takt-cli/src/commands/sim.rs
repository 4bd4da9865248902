//! `takt sim`: a workload in virtual time.

use super::output::{self, Recorder};
use super::schedule_log::{Logged, ScheduleLog};
use super::steps::{self, Replay};
use crate::additions;
use crate::failure::Failure;
use crate::files;
use crate::input::{Input, LateJobs, duration, ignored};
use crate::outcome::{Outcome, Verdict};
use crate::progress::Progress;
use serde_json::json;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use takt::header;
use takt::report::power;
use takt::simulation::Ready;
use takt::{SimulateOptions, Simulation};
use takt_analysis::priorities::Rule;
use takt_core::engine::Input as EngineInput;
use takt_core::model::{Arrival, Late, OnAbort, System, TaskId};
use takt_core::power::{Host, Platform};
use takt_core::record::{Record, Sink};
use takt_core::time::{Span, Time};
use takt_trace::rounds::Rounds;
use takt_trace::{Stamped, TaskLabel};
use takt_workload::{Code, Driver, Workload};

/// Simulate a workload in virtual time
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Simulated time, such as 10s; by default two major frames, or one hyperperiod up to 10s
    #[arg(long, value_parser = duration)]
    duration: Option<Span>,
    /// Scale what the tasks declare and need by a factor such as 1.3 or 130%, on top of the file's `load`
    #[arg(long, value_name = "FACTOR", value_parser = takt_workload::parse_factor)]
    load: Option<u32>,
    /// Rule for late jobs, in place of the file's `late`
    #[arg(long, value_enum)]
    late: Option<LateJobs>,
    /// Simulate although `takt sim` ignores keys of the file that would change outcomes; they become warnings
    #[arg(long)]
    allow_differences: bool,
    /// Jobs that are counted; by default all, under `preset: chronos` the decided ones
    #[arg(long, value_enum)]
    count: Option<Counted>,
    /// Rule for the work of an aborted job, for all tasks without a handler; by default that of the file
    #[arg(long, value_enum, conflicts_with = "replay")]
    on_abort: Option<AbortRule>,
    /// Give the engine the inputs that `takt run --record` wrote, instead of simulating
    #[arg(long, value_name = "IN.steps", conflicts_with_all = ["duration", "load", "late", "count"])]
    replay: Option<std::path::PathBuf>,
    /// Simulate with the changes that `takt run --record` wrote, at their instants: commands, window tables, tasks that were added, releases by events
    #[arg(long, value_name = "IN.steps", conflicts_with_all = ["replay", "emit_windows"])]
    changes: Option<std::path::PathBuf>,
    /// Replay also the record of another system (workload, policy, placement, seed, CPUs), or an incomplete one
    #[arg(long, requires = "replay")]
    what_if: bool,
    /// A policy that the recorded run loaded while it ran; may be given for several
    #[arg(long, value_name = "FILE.wasm")]
    module: Vec<std::path::PathBuf>,
    /// Draw the rounds and bursts of a regulator (policy ipi) against their set points (.svg), or write them as numbers (.csv)
    #[arg(long, value_name = "OUT.svg|OUT.csv")]
    rounds: Option<std::path::PathBuf>,
    /// Write the energy of each frequency domain and task, and the temperatures, as a table (needs `platform` in the file)
    #[arg(long, value_name = "OUT.csv", conflicts_with = "replay")]
    energy: Option<std::path::PathBuf>,
    /// Write one hyperperiod of the schedule as a window table that `takt run` and `takt sim` accept. A file that exists is replaced if this option has
    /// written it, and otherwise kept
    #[arg(long, value_name = "OUT.yaml", conflicts_with = "replay")]
    emit_windows: Option<std::path::PathBuf>,
    #[command(flatten)]
    output: output::OutputArgs,
}

/// The rule for the work of an aborted job.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum AbortRule {
    /// The task completes it when it is next scheduled, before the work of the next job
    Finish,
    /// It is dropped, as the program is replaced
    Restart,
    /// It is dropped, as the program returns to its job loop
    Signal,
}

/// Which jobs are counted.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Counted {
    /// All released jobs
    All,
    /// Jobs whose deadline is not after the end of the run
    Decided,
}

struct Traced<'a>(&'a mut Recorder);

impl Sink for Traced<'_> {
    fn record(&mut self, record: Record) {
        self.0.record(&Stamped { record, applied: record.at });
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    for module in &args.module {
        crate::modules::load(module)?;
    }
    let record = args.replay.as_deref().or(args.changes.as_deref()).map(steps::Reader::open).transpose()?;
    if let (None, Some(module)) = (&record, args.module.first()) {
        let message = format!("`--module {}` is for the record of a run, and there is none", module.display());
        let hint = "give `--replay` or `--changes`; `--policy FILE.wasm` simulates a module";
        return Err(Failure::input(Code::NoEffect, message, hint));
    }
    // `all` in the file stands for the CPUs of the recorded run.
    let mut workload = args.input.load(record.as_ref().and_then(steps::Reader::cpus))?;
    args.rounds.iter().try_for_each(|path| rounds_ending(path))?;
    let read = std::iter::once(&args.input.file).chain(&args.replay).chain(&args.changes);
    let _outputs = files::ready(
        read,
        args.output
            .files("sim", &workload.source.name)?
            .chain(&args.rounds)
            .chain(&args.emit_windows)
            .chain(&args.energy),
    )?;
    args.emit_windows.iter().try_for_each(|path| super::freeze::spares(path))?;
    let (record, changing) = if args.replay.is_some() { (record, None) } else { (None, record) };
    let given = changing.map(|record| changes(record, &mut workload)).transpose()?;
    let (length, replayed) = prepare(args, record, given.as_ref(), &mut workload)?;
    ignored(&workload, Driver::Simulation, args.allow_differences)?;
    if let Some(path) = &args.emit_windows {
        super::freeze::write(&workload, path)?;
    }
    let recorded = replayed.as_ref().or(given.as_ref());
    let make_room = |system: &mut System| {
        takt_exec::reserve(system, &mut Vec::new(), recorded.map_or(0, |replay| replay.added.len()));
    };
    let make_room = recorded.is_some().then_some(&make_room as &dyn Fn(&mut System));
    let registry = takt_workload::registry().clone();
    let ready = Ready::new(workload, length, args.rounds.is_some(), registry, make_room)?;
    let host = match &replayed {
        Some(replay) => recorded_host(replay, &ready)?,
        None => takt::simulation::host(&ready.workload)?,
    };
    let mut ready = ready.with_power(host);
    recorded.map_or(Ok(()), |replay| add(replay, &mut ready))?;
    // A bar would stand between the records.
    let progress = match args.output.to_stdout() && io::stdout().is_terminal() {
        true => Progress::none(),
        false => Progress::part((length.ns() as u64).max(1), "of simulated time"),
    };
    let tick = |now: Time| {
        progress.set(now.ns() as u64);
        true
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut recorder = Recorder::new(&args.output, ready.header.clone(), &ready.workload)?;
    recorder.begin(false, |_| ());
    let mut log = ScheduleLog::from_env(&ready.workload)?;
    // A run that only counts is not held up by records.
    let idle = recorder.is_idle() && log.is_none();
    let sink = (Traced(&mut recorder), Logged(&mut log));
    let simulation = match &replayed {
        Some(replay) => ready.replay(&replay.steps, sink),
        None => ready.simulate((!idle).then_some(sink), tick),
    };
    progress.finish();
    let (workload, summary, simulated) = (&simulation.workload, simulation.summary(), simulation.simulated());
    if let (Some(_), None) = (&args.energy, &simulated.power) {
        let message = "`--energy` has nothing to write: the file describes no machine that draws power";
        return Err(Failure::input(Code::NoEffect, message, "add `platform:` to the file, or leave `--energy` out"));
    }
    if let (Some(path), Some(power)) = (&args.energy, &simulated.power) {
        let mut file = BufWriter::new(files::create(path)?);
        power::write_csv(power, &mut file).and_then(|()| file.flush()).map_err(|e| Failure::write(path, &e))?;
    }
    // A failure to print must not keep the files from their ends.
    let mut show = || -> Result<(), Failure> {
        if args.output.json {
            let mut more = serde_json::to_value(simulated.machine()).map_err(io::Error::from)?;
            more["source"] = "sim".into();
            if let (Some(replay), Some(path)) = (&replayed, &args.replay) {
                more["replay"] = replay_json(path, replay);
            }
            let notes = [simulation.general(), crate::modules::failures(workload), summary.remarks()];
            summary.write_json(more, notes.concat(), simulated.tasks(), &mut out)?;
        } else if args.output.for_people() {
            heading(&simulation, args.replay.as_deref().zip(replayed.as_ref()), &mut out)?;
            summary.print(&mut out)?;
            simulated.print(&mut out)?;
            crate::modules::failures(workload).iter().try_for_each(|note| writeln!(out, "{note}"))?;
        }
        Ok(())
    };
    let shown = show();
    if let (Some(path), Some(rounds)) = (&args.rounds, &simulation.notes.rounds) {
        write_rounds(path, &header::header(workload, "sim", None), rounds)?;
    }
    let drawn = recorder.finish(Time::ZERO + simulation.end, 0, None, &mut out);
    let logged = log.map_or(Ok(()), ScheduleLog::finish);
    drawn.and(logged).and(shown)?;
    out.flush()?;
    Ok(if args.output.strict && summary.fails() { Verdict::No } else { Verdict::Done })
}

/// Gives the engine and its surroundings what a record adds: tasks, policies that may take over, and window tables.
fn add(replay: &Replay, ready: &mut Ready) -> Result<(), Failure> {
    for added in &replay.added {
        let number = TaskId(ready.workload.tasks.len() as u32);
        let described = ready.engine.describe(number, added.task.clone());
        described.map_err(|e| takt::Error::unsuitable(&ready.workload, &e))?;
        let (task, info) = (added.task.clone(), added.info.clone());
        ready.header.tasks.push(TaskLabel { name: info.name.clone(), added: true, ..TaskLabel::default() });
        additions::join(&mut ready.workload, task, info, added.domain.as_deref());
        ready.notes.add_task();
    }
    ready.header.tables = (0..).zip(replay.tables.iter().cloned()).collect();
    ready.engine.add_alternatives(replay.policies.iter().copied());
    for table in &replay.tables {
        let known = ready.engine.add_table(table.clone());
        known.map_err(|e| takt::Error::unsuitable(&ready.workload, &e))?;
    }
    ready.header.alternatives = ready.engine.system().alternatives.iter().map(takt_workload::policy_text).collect();
    Ok(())
}

/// The changes of a recorded run become those of the simulation. Changes and events that the file itself describes are among them.
///
/// # Errors
/// Status 2: the record is of another workload, or the kernel schedules tasks, which a simulation does not separate from the others.
fn changes(record: steps::Reader, workload: &mut Workload) -> Result<Replay, Failure> {
    crate::input::without_kernel(workload, "the changes of a run with it cannot be simulated", "takt sim --replay")?;
    let mut real = workload.clone();
    real.clear_simulated();
    let replay = record.read(&real, false, true)?;
    let scenario = &mut workload.scenario;
    scenario.events.clear();
    scenario.changes.clear();
    for step in &replay.steps {
        scenario.changes.extend(step.inputs.iter().filter(|input| is_change(input)).map(|input| (step.now, *input)));
    }
    Ok(replay)
}

/// Whether an input of a run comes from outside of its programs.
fn is_change(input: &EngineInput) -> bool {
    matches!(
        input,
        EngineInput::Retime { .. }
            | EngineInput::Share { .. }
            | EngineInput::Terms { .. }
            | EngineInput::Enter { .. }
            | EngineInput::Leave { .. }
            | EngineInput::Release { .. }
            | EngineInput::Configure { .. }
            | EngineInput::Switch { .. }
            | EngineInput::Table { .. }
            | EngineInput::Add { .. }
    )
}

/// The power policy of the recorded run, and its machine.
///
/// # Errors
/// When the policy does not suit this workload.
fn recorded_host(replay: &Replay, ready: &Ready) -> Result<Option<(Option<Host>, Platform)>, Failure> {
    let Some(recorded) = &replay.power else { return Ok(None) };
    let registry = takt_workload::power_registry();
    let (system, platform) = (ready.engine.system(), recorded.platform.clone());
    let host = Host::new(&recorded.spec, registry, system, platform.clone(), &recorded.demands);
    let host = host.map_err(|_| {
        let message = "the power policy of the record does not suit this workload";
        Failure::input(Code::OtherRecord, message, "give the workload of the recorded run")
    })?;
    Ok(Some((Some(host), platform)))
}

/// Makes of the workload what is simulated. Returns for how long, and the steps of a recorded run if that is to be replayed.
fn prepare(
    args: &Args,
    record: Option<steps::Reader>,
    given: Option<&Replay>,
    workload: &mut Workload,
) -> Result<(Span, Option<Replay>), Failure> {
    if args.on_abort.is_some() {
        on_abort_matters(&workload.system)?;
    }
    if record.is_some() {
        workload.hand_over();
        workload.clear_simulated();
    } else {
        workload.settle_platform();
        workload.settle_simulation(args.on_abort.map(|rule| match rule {
            AbortRule::Finish => OnAbort::Finish,
            AbortRule::Restart => OnAbort::Restart,
            AbortRule::Signal => OnAbort::Signal,
        }));
    }
    let replayed = record.map(|record| record.read(workload, args.what_if, false)).transpose()?;
    let last = |replay: &Replay| replay.steps.last().map(|step| step.now - Time::ZERO);
    let recorded = replayed.as_ref().and_then(last);
    let length = recorded
        .or(args.duration)
        .or(given.and_then(last))
        .or(workload.settings.duration)
        .unwrap_or_else(|| takt::simulation::default_length(&workload.system));
    let options = SimulateOptions {
        load: args.load,
        late: args.late.map(Late::from),
        priorities: args.input.priorities.map(Rule::from),
        ..SimulateOptions::default()
    };
    takt::simulation::settle(workload, &options)?;
    let decided = args.count.map(|count| count == Counted::Decided);
    workload.system.horizon = match (decided, &replayed) {
        // As the run counted.
        (None, Some(replay)) => replay.horizon,
        _ => takt::simulation::horizon(decided, workload.system.backlog, length),
    };
    Ok((length, replayed))
}

/// The heading above the table.
fn heading(simulation: &Simulation, replay: Option<(&Path, &Replay)>, out: &mut impl Write) -> io::Result<()> {
    let verb = match replay {
        None => "simulated",
        Some((_, replay)) if replay.is_what_if() => "what-if replay of",
        Some(_) => "replayed",
    };
    let mut more = Vec::new();
    if let Some((path, replay)) = replay.filter(|(_, replay)| replay.is_what_if()) {
        let record = path.display();
        more.push(format!("what-if: {record} is not shown to be a record of this system; these figures are of no run"));
        let lines = replay.doubts.iter().cloned().chain(steps::listed(&replay.differences));
        more.extend(lines.map(|line| format!("  {line}")));
    }
    simulation.heading(verb, &more, out)
}

/// The record in the output of `--json`.
fn replay_json(path: &Path, replay: &Replay) -> serde_json::Value {
    let difference = |d: &steps::fingerprint::Difference| json!({"key": d.key, "recorded": d.recorded, "now": d.asked});
    json!({"record": path.to_string_lossy(), "what_if": replay.is_what_if(), "doubts": replay.doubts,
           "differences": replay.differences.iter().map(difference).collect::<Vec<_>>()})
}

/// Whether `--on-abort` can concern a task of the system.
fn on_abort_matters(system: &System) -> Result<(), Failure> {
    let online = || system.tasks.iter().filter(|task| task.arrival != Arrival::Activated);
    let (why, hint) = if online().next().is_none() {
        ("activations are cut off, and not aborted", "leave it out, or give the partitions a `policy` such as `edf`")
    } else if online().all(|task| task.handler.is_some()) {
        ("each task has a `handler`, which says what an abort does", "leave it out, or remove the handlers")
    } else {
        return Ok(());
    };
    Err(Failure::input(Code::NoEffect, format!("`--on-abort` has no effect here: {why}"), hint))
}

/// Whether rounds can be written to a file of this name.
fn rounds_ending(path: &Path) -> Result<(), Failure> {
    if matches!(path.extension().and_then(|e| e.to_str()), Some("svg" | "csv")) {
        return Ok(());
    }
    let message = format!("the ending of `{}` is neither .svg nor .csv", path.display());
    Err(Failure::input(Code::WrongFormat, message, "name it .svg for a picture, or .csv for numbers"))
}

fn write_rounds(path: &Path, header: &takt_trace::Header, rounds: &Rounds) -> Result<(), Failure> {
    let mut out = BufWriter::new(files::create(path)?);
    let mut write = || {
        match path.extension().and_then(|e| e.to_str()) {
            Some("csv") => takt_trace::rounds::csv(header, rounds, &mut out)?,
            _ => out.write_all(takt_trace::rounds::svg(header, rounds).as_bytes())?,
        }
        out.flush()
    };
    write().map_err(|e| Failure::write(path, &e))?;
    if rounds.all.is_empty() {
        let note = "note: there were no rounds; only a policy that schedules in rounds (ipi) has them";
        let _ = writeln!(io::stderr(), "{note}");
    }
    Ok(())
}
