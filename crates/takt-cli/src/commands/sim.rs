//! `takt sim`: a workload in virtual time.

use super::output::{self, Recorder};
use super::schedule_log::{Logged, ScheduleLog};
use super::steps::{self, Replay};
use crate::additions;
use crate::failure::Failure;
use crate::files;
use crate::header;
use crate::input::{Input, LateJobs, duration, ignored, priorities_note};
use crate::outcome::{Outcome, Verdict};
use crate::progress::Progress;
use crate::report::Summary;
use crate::report::power::{self, Power};
use crate::report::simulated::{Notes, Simulated};
use serde_json::json;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use takt_core::engine::Input as EngineInput;
use takt_core::model::{Arrival, Backlog, Invalid, Late, Load, OnAbort, Step, System, Task, TaskId};
use takt_core::power::{Host, Platform};
use takt_core::record::{Record, Sink};
use takt_core::stats::Responses;
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
    /// Write one hyperperiod of the schedule as a window table that `takt run` and `takt sim` accept
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
    let (record, changing) = if args.replay.is_some() { (record, None) } else { (None, record) };
    let given = changing.map(|record| changes(record, &mut workload)).transpose()?;
    let (length, replayed) = prepare(args, record, given.as_ref(), &mut workload)?;
    ignored(&workload, Driver::Simulation, args.allow_differences)?;
    if let Some(path) = &args.emit_windows {
        super::freeze::write(&workload, path)?;
    }
    let mut notes = Notes::new(&workload, args.rounds.is_some());
    let end = crate::input::last_instant(&workload.system, length);
    let mut header = header::header(&workload, "sim", Some(end));
    // A power policy is built from the tasks of the workload.
    let lent = stays(&workload) && replayed.is_none() && workload.power.is_none();
    let tasks = lent.then(|| std::mem::take(&mut workload.system.tasks));
    let mut system = workload.system.clone();
    if let Some(tasks) = tasks {
        system.tasks = tasks;
    }
    let recorded = replayed.as_ref().or(given.as_ref());
    let added = recorded.map_or(0, |replay| replay.added.len());
    takt_exec::reserve(&mut system, &mut Vec::new(), added);
    let mut engine = crate::input::engine(system).map_err(|e| unsuitable(&workload, &e))?;
    let platform = host_power(&workload, replayed.as_ref(), &mut engine)?;
    if let Some(platform) = &platform {
        header = header::with_power(header, &workload, platform);
    }
    if let Some(replay) = recorded {
        for added in &replay.added {
            let number = TaskId(workload.tasks.len() as u32);
            engine.describe(number, added.task.clone()).map_err(|e| unsuitable(&workload, &e))?;
            let (task, info) = (added.task.clone(), added.info.clone());
            header.tasks.push(TaskLabel { name: info.name.clone(), added: true, ..TaskLabel::default() });
            additions::join(&mut workload, task, info, added.domain.as_deref());
            notes.add_task();
        }
        header.tables = (0..).zip(replay.tables.iter().cloned()).collect();
        engine.add_alternatives(replay.policies.iter().copied());
        for table in &replay.tables {
            engine.add_table(table.clone()).map_err(|e| unsuitable(&workload, &e))?;
        }
        header.alternatives = engine.system().alternatives.iter().map(takt_workload::policy_text).collect();
    }
    let n = workload.tasks.len();
    let mut responses = Responses::new(n);
    // A bar would stand between the records.
    let progress = match args.output.to_stdout() && io::stdout().is_terminal() {
        true => Progress::none(),
        false => Progress::part((length.ns() as u64).max(1), "of simulated time"),
    };
    let tick = |now: Time| progress.set(now.ns() as u64);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut recorder = Recorder::new(&args.output, header)?;
    recorder.begin(false, |_| ());
    let mut log = ScheduleLog::from_env(&workload)?;
    let idle = recorder.is_idle() && log.is_none();
    let mut sink = ((&mut responses, &mut notes), (Traced(&mut recorder), Logged(&mut log)));
    let report = match &replayed {
        Some(replay) => {
            takt_sim::replay(&mut engine, &replay.steps, &mut sink);
            None
        }
        // A run that only counts is not held up by records.
        None if idle => Some(takt_sim::simulate(&mut engine, &workload.scenario, end, &mut sink.0, tick)),
        None => Some(takt_sim::simulate(&mut engine, &workload.scenario, end, &mut sink, tick)),
    };
    progress.finish();
    let counts: Vec<_> = (0..n as u32).map(|t| engine.counts(TaskId(t))).collect();
    let (context_switches, windows_lost) = (engine.context_switches(), engine.windows_lost());
    let deadlocks = engine.deadlocks();
    let power_counts = engine.power().map(takt_core::power::Host::counts);
    // The engine's memory is needed for what is printed.
    let system = engine.into_system();
    if lent {
        workload.system.tasks = system.tasks;
    }
    let summary = Summary {
        workload: &workload,
        duration: length,
        counts: &counts,
        responses: &responses.0,
        context_switches,
        windows_lost,
        simulated: replayed.is_none(),
    };
    let power = platform.as_ref().map(|platform| Power {
        workload: &workload,
        platform,
        report: report.as_ref().and_then(|report| report.power.as_ref()),
        counts: power_counts,
    });
    if let (Some(_), None) = (&args.energy, &power) {
        let message = "`--energy` has nothing to write: the file describes no machine that draws power";
        return Err(Failure::input(Code::NoEffect, message, "add `platform:` to the file, or leave `--energy` out"));
    }
    if let (Some(path), Some(power)) = (&args.energy, &power) {
        let mut file = BufWriter::new(files::create(path)?);
        power::write_csv(power, &mut file).and_then(|()| file.flush()).map_err(|e| Failure::write(path, &e))?;
    }
    let simulated =
        Simulated { workload: &workload, duration: length, report: report.as_ref(), notes: &notes, deadlocks, power };
    // A failure to print must not keep the files from their ends.
    let mut show = || -> Result<(), Failure> {
        if args.output.json {
            let (mut more, tasks) = simulated.json();
            more["source"] = "sim".into();
            if let (Some(replay), Some(path)) = (&replayed, &args.replay) {
                more["replay"] = replay_json(path, replay);
            }
            let mut all = general(&workload, replayed.is_some());
            all.extend(crate::modules::failures(&workload));
            all.extend(summary.remarks());
            summary.write_json(more, &all, tasks, &mut out)?;
        } else if args.output.for_people() {
            heading(&workload, length, args.replay.as_deref().zip(replayed.as_ref()), &mut out)?;
            summary.print(&mut out)?;
            simulated.print(&mut out)?;
            crate::modules::failures(&workload).iter().try_for_each(|note| writeln!(out, "{note}"))?;
        }
        Ok(())
    };
    let shown = show();
    if let (Some(path), Some(rounds)) = (&args.rounds, &notes.rounds) {
        write_rounds(path, &header::header(&workload, "sim", None), rounds)?;
    }
    let drawn = recorder.finish(Time::ZERO + end, 0, None, &mut out);
    let logged = log.map_or(Ok(()), ScheduleLog::finish);
    drawn.and(logged).and(shown)?;
    out.flush()?;
    Ok(if args.output.strict && summary.fails() { Verdict::No } else { Verdict::Done })
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

/// Gives the engine the power policy: that of the recorded run, or of the workload. Returns the machine that has frequencies and zones.
///
/// # Errors
/// When the policy needs a machine that the file does not describe.
fn host_power(
    workload: &Workload,
    replayed: Option<&Replay>,
    engine: &mut takt_core::engine::Engine,
) -> Result<Option<Platform>, Failure> {
    if let Some(replay) = replayed {
        let Some(recorded) = &replay.power else { return Ok(None) };
        let registry = takt_workload::power_registry();
        let host = Host::new(&recorded.spec, registry, engine.system(), recorded.platform.clone(), &recorded.demands);
        let host = host.map_err(|_| {
            let message = "the power policy of the record does not suit this workload";
            Failure::input(Code::OtherRecord, message, "give the workload of the recorded run")
        })?;
        engine.set_power(host);
        return Ok(Some(recorded.platform.clone()));
    }
    let spec = workload.power.as_ref().filter(|spec| !spec.is_none());
    let Some((platform, _)) = &workload.scenario.machine else {
        let Some(spec) = spec else { return Ok(None) };
        let message = format!("the power policy `{}` needs a `platform` in a simulation", spec.profile.name);
        let hint =
            "add `platform:` to the file, such as `platform: platforms/imx8qm.yaml`, or leave the power policy out";
        return Err(Failure::input(Code::MissingKey, message, hint));
    };
    let host = workload.power_host(platform.clone());
    let host = host.map_err(|fault| Failure::diagnostics(&workload.source, &[*fault]))?;
    if let Some(host) = host {
        engine.set_power(host);
    }
    Ok(Some(platform.clone()))
}

/// Whether a simulation changes no task, so that the engine needs no copy of them.
fn stays(workload: &Workload) -> bool {
    let calls = |task: &Task| task.program.steps.iter().any(|step| matches!(step, Step::Call(_)));
    workload.scenario.changes.is_empty() && !workload.system.tasks.iter().any(calls)
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
        .unwrap_or_else(|| default_length(&workload.system));
    if let Some(factor) = args.load {
        check_load(workload.system.load.as_ref(), factor)?;
        takt_workload::scale(&mut workload.system, &mut workload.scenario, factor);
        // The best order of priorities depends on the runtimes.
        if workload.settings.priorities.is_some() {
            let (rule, seed) = (args.input.priorities.unwrap_or_default(), workload.system.seed);
            workload.settings.priorities = rule.assign(&mut workload.system, seed, 0);
        }
    }
    if let Some(late) = args.late {
        set_late(workload, late.into())?;
    }
    // ChronOS's test application counts the jobs whose periods end within the run.
    workload.system.horizon = match (args.count, workload.system.backlog, &replayed) {
        (Some(Counted::Decided), ..) | (None, Backlog::Chronos, None) => Some(Time::ZERO + length),
        // As the run counted.
        (None, _, Some(replay)) => replay.horizon,
        _ => None,
    };
    Ok((length, replayed))
}

/// The heading above the table.
fn heading(
    workload: &Workload,
    length: Span,
    replay: Option<(&Path, &Replay)>,
    out: &mut impl Write,
) -> io::Result<()> {
    let (system, machine) = (&workload.system, workload.machine());
    let (name, policy) = (&workload.source.name, crate::report::policy(workload.policy()));
    let verb = match replay {
        None => "simulated",
        Some((_, replay)) if replay.is_what_if() => "what-if replay of",
        Some(_) => "replayed",
    };
    writeln!(out, "{name}: policy {policy}, CPU {machine}, {verb} {length}, seed {}", system.seed)?;
    if let Some((path, replay)) = replay.filter(|(_, replay)| replay.is_what_if()) {
        writeln!(
            out,
            "what-if: {} is not shown to be a record of this system; these figures are of no run",
            path.display()
        )?;
        let lines = replay.doubts.iter().cloned().chain(steps::listed(&replay.differences));
        lines.into_iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    general(workload, replay.is_some()).iter().try_for_each(|note| writeln!(out, "{note}"))?;
    writeln!(out)
}

/// Notes about what is simulated, whatever comes out.
fn general(workload: &Workload, replayed: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let one_only = workload.system.policy.scope == takt_core::model::Scope::Uniprocessor;
    if workload.settings.cpus_from_all && !one_only && !replayed {
        let note = "note: the file names no CPU by number, so one CPU was simulated; --cpus N takes more";
        notes.push(note.to_owned());
    }
    notes.extend(workload.settings.priorities.map(|assigned| format!("note: {}", priorities_note(assigned))));
    notes
}

/// The record in the output of `--json`.
fn replay_json(path: &Path, replay: &Replay) -> serde_json::Value {
    let difference = |d: &steps::fingerprint::Difference| json!({"key": d.key, "recorded": d.recorded, "now": d.asked});
    json!({"record": path.to_string_lossy(), "what_if": replay.is_what_if(), "doubts": replay.doubts,
           "differences": replay.differences.iter().map(difference).collect::<Vec<_>>()})
}

/// Whether a load times a factor in millionths is what a load may be.
fn check_load(load: Option<&Load>, factor: u32) -> Result<(), Failure> {
    let highest = load.into_iter().flat_map(|load| &load.points).map(|(_, point)| *point).max().unwrap_or(Load::ONE);
    if u64::from(highest) * u64::from(factor) / u64::from(Load::ONE) > u64::from(takt_workload::MAX_LOAD) {
        let most = takt_workload::MAX_LOAD / Load::ONE;
        let message = format!("the file's `load` times `--load` is above {most}");
        return Err(Failure::input(Code::OutOfRange, message, "lower one of them"));
    }
    Ok(())
}

/// Replaces the rule of the file for late jobs.
fn set_late(workload: &mut Workload, late: Late) -> Result<(), Failure> {
    if workload.system.backlog == Backlog::Hartstone && late != Late::Continue {
        let message =
            "`--late` contradicts the file's `preset: hartstone`, which counts what a job missed when it completes";
        return Err(Failure::input(Code::ConflictingOptions, message, "leave `--late` out, or remove the preset"));
    }
    workload.system.late = late;
    workload.settings.late_stated = true;
    Ok(())
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

/// The engine refused what the file's reader let pass.
pub(crate) fn unsuitable(workload: &Workload, error: &Invalid) -> Failure {
    let policy = workload.system.policy;
    let hint = "choose another policy with --policy, or another machine with --cpus; `takt policies` lists them";
    let name = takt_workload::policy_text(&policy);
    let task = match *error {
        Invalid::Period(task) | Invalid::Length(task) | Invalid::Jitter(task) | Invalid::Reservation(task) => {
            Some(task)
        }
        Invalid::Affinity(task) | Invalid::Instants(task) | Invalid::Steps(task) | Invalid::Utility(task) => Some(task),
        Invalid::Needs(task, _) | Invalid::Constrained(task) => Some(task),
        _ => None,
    };
    let why = workload.named(&error.to_string());
    Failure::at(
        Code::UnsuitablePolicy,
        workload,
        task,
        format!("`{}` cannot be scheduled by {name}: {why}", workload.source.name),
        hint,
    )
}

/// Two major frames; one hyperperiod (with the largest offset) up to ten seconds.
fn default_length(system: &System) -> Span {
    const MOST: Span = Span::from_secs(10);
    if !system.windows.is_empty() {
        return system.major_frame() * 2;
    }
    let (mut hyperperiod, mut last_offset) = (Span::from_ns(1), Span::ZERO);
    for task in &system.tasks {
        let Arrival::Periodic { offset, period } = task.arrival else { continue };
        last_offset = last_offset.max(offset);
        match hyperperiod.lcm(period) {
            Some(lcm) if lcm <= MOST => hyperperiod = lcm,
            _ => return MOST,
        }
    }
    hyperperiod + last_offset
}
