//! `takt run`: a workload over real processes.

mod causes;
mod exposition;
mod log;
mod metrics;
pub(super) mod power;

use super::demos::narrator::Narrator;
use super::isolate::common as isolate;
use super::output::{self, Recorder};
use super::schedule_log::ScheduleLog;
use crate::additions::{self, Added};
use crate::control::server::{Finder, Loader, Server, Service};
use crate::control::wire::{About, Fault};
use crate::failure::Failure;
use crate::files;
use crate::input::{Input, duration, ignored, last_instant};
use crate::outcome::{Outcome, Verdict};
use crate::processes::{is_ignored, process, signal};
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use takt::header;
use takt::report::{Summary, figures, short};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input as EngineInput};
use takt_core::model::{Backlog, OnAbort, PolicySpec, TableRules, TaskId, WindowTable};
use takt_core::power::Platform;
use takt_core::record::JobId;
use takt_core::time::{Span, Time};
use takt_exec::{Blocking, Cause, Ended, Issuer, NewTask, Observer, Plan, Report, TaskEnd};
use takt_linux::admission::Admission;
use takt_linux::leftovers;
use takt_linux::rt::Class;
use takt_linux::service::ServiceManager;
use takt_linux::socket::ControlSocket;
use takt_linux::{Announcer, Choice, RunId};
use takt_trace::Stamped;
use takt_trace::live::{self, Live};
use takt_workload::{Code, Descriptors, Dispatch, Driver, MissingCpus, OnCrash, Realtime, Spawn, Workload};

/// Run a workload over real processes
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) input: Input,
    /// How long to run, such as 2s; by default until all processes have ended
    #[arg(long, value_parser = duration)]
    pub(super) duration: Option<Span>,
    /// How processes are stopped and started
    #[arg(long, value_enum, default_value_t = MechanismName::Auto)]
    pub(super) mechanism: MechanismName,
    /// Scheduling class of Takt's own scheduler thread; by default fifo, and deadline beside tasks with `class: deadline`
    #[arg(long, value_enum)]
    pub(super) scheduler_class: Option<ClassName>,
    /// Run although `takt run` ignores keys of the file that would change outcomes; they become warnings
    #[arg(long)]
    pub(super) allow_differences: bool,
    /// Run on CPUs that another run of this machine has; otherwise such a run is refused with status 3
    #[arg(long)]
    pub(super) share_cpus: bool,
    /// Isolate the schedule's CPUs for the run, and undo it at its end; needs root, and a CPU that the schedule does not use. STEPS are some of the steps
    /// of `takt isolate create`, as in `--isolate=kernel-threads,interrupts`; without STEPS, its default steps
    #[arg(long, value_name = "STEPS", num_args = 0..=1, require_equals = true, default_missing_value = "default",
          value_parser = isolate::steps)]
    pub(super) isolate: Option<isolate::Steps>,
    /// Open no socket for `takt ctl`
    #[arg(long)]
    pub(super) no_control: bool,
    /// How many tasks `takt ctl add TASK --from FILE` may add; files with `windows` take none
    #[arg(long, value_name = "N", default_value_t = SPARE_TASKS, value_parser = clap::value_parser!(u16).range(0..=SPARE_TASKS_MAX),
          conflicts_with = "no_control")]
    pub(super) spare_tasks: u16,
    /// Control the power management of an imitated machine, whose files are below this directory
    #[arg(long, value_name = "DIR", hide = true)]
    pub(super) sysfs_root: Option<std::path::PathBuf>,
    /// Write the text of the result into this file beside `--json`, for the Python package
    #[arg(long, value_name = "FILE", hide = true)]
    pub(super) text: Option<std::path::PathBuf>,
    /// Write the inputs of the engine, for `takt sim --replay`
    #[arg(long, value_name = "OUT.steps")]
    pub(super) record: Option<std::path::PathBuf>,
    /// Serve metrics in the text format of Prometheus during the run, at `127.0.0.1:PORT` or `unix:PATH`
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<String>,
    /// Print a line on standard output at the begin of each window, before its processes run
    #[arg(long, value_name = "MSG")]
    pub(super) on_window: Option<String>,
    /// Print a line at the begin of each major frame, before that of its first window
    #[arg(long, value_name = "MSG")]
    pub(super) on_frame: Option<String>,
    /// Write a line for each miss, overrun, end of a process and overload to standard error
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) log: Option<log::LogFormat>,
    #[command(flatten)]
    pub(super) output: output::OutputArgs,
}

/// Places for tasks that commands add, by default. Each costs a group, a page of memory and a few descriptors.
pub(super) const SPARE_TASKS: u16 = 4;
const SPARE_TASKS_MAX: i64 = 1000;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum ClassName {
    /// SCHED_FIFO, pinned when the schedule uses one CPU
    Fifo,
    /// SCHED_DEADLINE, not pinned
    Deadline,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum MechanismName {
    /// The best that works here
    Auto,
    /// cgroup v2
    V2,
    /// The v1 freezer and cpuset (with v2 where mounted)
    V1,
    /// SIGSTOP and SIGCONT, without cgroups
    Signal,
}

impl MechanismName {
    pub(crate) fn choice(self) -> Choice {
        match self {
            MechanismName::Auto => Choice::Auto,
            MechanismName::V2 => Choice::V2,
            MechanismName::V1 => Choice::V1,
            MechanismName::Signal => Choice::Signal,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let machine = takt_linux::rt::affinity(0).ok();
    execute(args, args.input.load(machine)?, None)
}

/// Runs a workload. For `takt demos` it prints nothing on standard output.
pub(super) fn execute(args: &Args, mut workload: Workload, mut demos: Option<&mut Narrator>) -> Outcome {
    if args.isolate.is_some() && matches!(args.mechanism, MechanismName::Signal) {
        let message = "`--isolate` needs control groups, and `--mechanism signal` uses none";
        return Err(Failure::input(Code::ConflictingOptions, message, "leave one of them out"));
    }
    if let Some(why) = without_ranks(&workload) {
        workload.settings.dispatch = Dispatch::Freeze;
        warn(demos.as_deref_mut(), &why);
    }
    let own = workload.without_classes();
    workload.hand_over();
    let (mut engine, mut plan) = plan(args, &workload, &own)?;
    if let Some(narrator) = demos.as_deref_mut() {
        plan.names = narrator.names(&workload);
    }
    if workload.settings.missing_cpus == MissingCpus::Remap {
        remap(&workload, demos.as_deref_mut());
    }
    let platform = power::set_up(args.sysfs_root.as_deref(), &mut workload, &mut engine, &mut plan, |text| {
        warn(demos.as_deref_mut(), &text);
    })?;
    plan.announcer = announcer(args, &workload)?;
    let announcer = plan.announcer.clone();
    let _outputs =
        files::ready([&args.input.file], args.output.files("run", &workload.source.name)?.chain(&args.record))?;
    ignored(&workload, Driver::Run, args.allow_differences)?;
    crate::input::warn(&workload.source, &workload.unbounded_events());
    let (length, realtime) = (args.duration.or(workload.settings.duration), plan.realtime);
    let schedule = ScheduleLog::from_env(&workload)?;
    let mut steps = super::steps::Writer::new(args.record.as_deref(), &workload, engine.system(), !args.no_control);
    let (control, opened) = match args.no_control {
        true => (None, None),
        false => {
            let (control, opened) = control(args, &workload, &mut engine, platform.as_ref())?;
            // The trace names the policies that may take over.
            workload.system.alternatives = engine.system().alternatives.clone();
            (Some(control), Some(opened))
        }
    };
    let mut header = header::header(&workload, "run", length);
    if let Some(platform) = &platform {
        header = header::with_power(header, &workload, platform);
        power::recorded(&workload, platform).iter().for_each(|recorded| steps.power(recorded));
    }
    if let Some(settings) = &plan.power {
        header.meters = power::labels(&settings.meters);
        steps.meters(&header.meters);
    }
    if let (MissingCpus::Remap, Ok(present)) = (workload.settings.missing_cpus, takt_linux::rt::affinity(0)) {
        let real: Vec<CpuSet> = header.places.iter().map(|place| takt_linux::rt::remapped(place, &present)).collect();
        header.real_places = if real == header.places { Vec::new() } else { real };
    }
    if control.is_some() {
        // The names of policies that are loaded while it runs are in the record.
        header.alternatives.extend((1..=takt_exec::MAX_LOADED).map(|number| format!("loaded-{number}")));
    }
    let live = Arc::new(Mutex::new(Live::new(&header)));
    let log = args.log.map(|log::LogFormat::Json| {
        let per_job = plan.processes.iter().map(|process| process.per_job).collect();
        log::Log::new(header.labels(), per_job, Box::new(io::stderr()))
    });
    let log = log.transpose().map_err(|e| Failure::thread(&e))?;
    let mut recorder = Recorder::new(&args.output, header, &workload)?;
    let metrics = |address: &String| metrics::Server::start(address, live.clone(), workload.machine());
    let metrics = args.metrics.as_ref().map(metrics).transpose()?;
    let rotate = args.output.trace_size.map(|_| recorder.rotation());
    if let Some(rotate) = &rotate {
        rotates_by_signal(&workload, rotate.clone());
    }
    let manager = plan.manager.clone();
    let terminal = std::fs::File::open("/dev/tty").is_ok();
    let mut watch = Watch {
        recorder: &mut recorder,
        steps: &mut steps,
        length,
        bar: Bar::new(args.output.for_people() && log.is_none() && demos.is_none()),
        opened,
        terminal,
        nohup: terminal && demos.is_none() && is_ignored(signal_hook::consts::SIGHUP),
        server: None,
        uncontrolled: None,
        live: live.clone(),
        log,
        rotate,
        manager,
        schedule,
        demos,
        added: Vec::new(),
    };
    let report = takt_exec::run_controlled(engine, plan, control, &mut watch);
    watch.bar.clear();
    let uncontrolled = watch.uncontrolled.take();
    let log = watch.log.take();
    let added = std::mem::take(&mut watch.added);
    let (schedule, demos) = (watch.schedule.take(), watch.demos.take());
    // The socket goes before the summary is printed, which may wait for its reader.
    drop(watch);
    let mut report = report.map_err(|e| failure(&workload, args.input.cpus, e))?;
    additions::join_all(&mut workload, &added);
    report.keep(workload.tasks.len());
    finish(&live, log, &report);
    drop(metrics);
    report.length = length.map_or(report.length, |length| report.length.min(length));
    report.notes.extend(uncontrolled.map(|why| format!("`takt ctl` cannot reach this run: {why}")));
    let unread = announcer.map_or(0, |announcer| announcer.dropped());
    if unread > 0 {
        report
            .notes
            .push(format!("{unread} lines at window starts were dropped, because standard output was not read"));
    }
    let counts = report.counts.clone();
    let switched = locked(&live).switched().map(|(at, policy)| (at, policy.to_owned()));
    let summary = Summary {
        workload: &workload,
        duration: report.length,
        counts: &counts,
        responses: &report.responses,
        context_switches: report.context_switches,
        windows_lost: report.windows_lost,
        simulated: false,
    };
    // A client that requested the end must get it, even if standard output is a pipe without a reader.
    let heard = !matches!(report.ended, Ended::Signal | Ended::Command) || takt_exec::is_writable(io::stdout());
    let mut out: Box<dyn Write> = if heard { Box::new(BufWriter::new(io::stdout())) } else { Box::new(io::sink()) };
    let for_people = |mut out: &mut dyn Write, switched| -> io::Result<()> {
        print(&mut out, &workload, &report, (&summary, switched), realtime)?;
        crate::modules::failures(&workload).iter().try_for_each(|note| writeln!(out, "{note}"))?;
        out.flush()
    };
    // A failure to print must not keep the files from their ends.
    let show = || -> Result<(), Failure> {
        if let Some(narrator) = demos {
            narrator.ended(&report, unread);
            if narrator.reports() {
                print(&mut BufWriter::new(io::stderr()), &workload, &report, (&summary, switched), realtime)?;
            }
        } else if args.output.json {
            let notes = [summary.remarks(), remarks(&workload, &report, realtime), crate::modules::failures(&workload)];
            let causes = |task| causes::of_task(&report, task);
            let mut more = more(&workload, &report, realtime);
            if let Some((at, policy)) = &switched {
                more["switched"] = json!({"at_ns": at.ns(), "policy": policy});
            }
            summary.write_json(more, notes.concat(), causes, &mut out)?;
            if let Some(path) = &args.text {
                let written =
                    std::fs::File::create(path).and_then(|file| for_people(&mut BufWriter::new(file), switched));
                written.map_err(|error| Failure::write(path, &error))?;
            }
        } else if args.output.for_people() {
            for_people(&mut out, switched)?;
        }
        Ok(())
    };
    let shown = show();
    let recorded = steps.finish(report.dropped);
    let patience =
        matches!(report.ended, Ended::Signal | Ended::Command | Ended::Observer).then_some(Duration::from_secs(1));
    let drawn = recorder.finish(Time::ZERO + report.length, report.dropped, patience, &mut out);
    let logged = schedule.map_or(Ok(()), ScheduleLog::finish);
    drawn.and(recorded).and(logged).and(shown)?;
    out.flush()?;
    let failed = report.failures_of.iter().any(|n| *n > 0) || report.spawn_error.is_some();
    let strict = args.output.strict && (summary.fails() || failed);
    let stopped = matches!(report.ended, Ended::Exit(_) | Ended::Reaction(..));
    Ok(if report.all_failed || stopped || strict { Verdict::No } else { Verdict::Done })
}

/// The engine, and the processes that it is to schedule. `own` is the part of the workload that the kernel does not schedule.
fn plan(args: &Args, workload: &Workload, own: &Workload) -> Result<(Engine, Plan), Failure> {
    let by_demos = workload.system.rules == TableRules::Demos;
    let mut processes = Vec::with_capacity(workload.tasks.len());
    for id in (0..workload.tasks.len() as u32).map(TaskId) {
        processes.push(process(workload, id, by_demos)?);
    }
    let mut real = workload.clone();
    real.clear_simulated();
    let duration = args.duration.or(workload.settings.duration);
    let duration = duration.map(|length| last_instant(&workload.system, length));
    // Counted as in a simulation.
    if real.system.backlog == Backlog::Chronos {
        real.system.horizon = duration.map(|duration| Time::ZERO + duration);
    }
    // Invalid systems are the file's fault and not the machine's, so they are found before anything is tried on it.
    let mut system = real.system.clone();
    // The processes of a window table come with the table.
    let places = if args.no_control || !system.windows.is_empty() { 0 } else { args.spare_tasks };
    takt_exec::reserve(&mut system, &mut processes, usize::from(places));
    let engine = takt::load::engine(system).map_err(|e| takt::Error::unsuitable(workload, &e))?;
    // Properties of simulation alone, such as a load, say nothing of the room that the real jobs leave.
    let mut own = own.clone();
    own.clear_simulated();
    let realtime = realtime(&own)?;
    let plan = Plan {
        name: workload.source.name.clone(),
        share_cpus: args.share_cpus,
        processes,
        resources: workload.resources.clone(),
        directory: workload.settings.directory.clone(),
        scheduler_cpus: workload.settings.scheduler_cpus,
        scheduler_class: match args.scheduler_class {
            Some(ClassName::Fifo) => takt_exec::SchedulerClass::Fifo,
            Some(ClassName::Deadline) => takt_exec::SchedulerClass::Deadline,
            // Such tasks run before all other classes.
            None if workload.tasks.iter().any(|task| task.class == Some(takt_workload::Class::Deadline)) => {
                takt_exec::SchedulerClass::Deadline
            }
            None => takt_exec::SchedulerClass::Fifo,
        },
        init_timeout: workload.settings.init_timeout,
        realtime,
        priority: workload.settings.priority,
        dispatch: match workload.settings.dispatch {
            Dispatch::Freeze => takt_exec::Dispatch::Freeze,
            Dispatch::Priority => takt_exec::Dispatch::Priority,
            Dispatch::Rank => takt_exec::Dispatch::Rank,
        },
        on_crash: match workload.settings.on_crash {
            OnCrash::Kill => leftovers::OnCrash::Kill,
            OnCrash::Release => leftovers::OnCrash::Release,
        },
        changes: real.scenario.changes.clone(),
        duration,
        mechanism: args.mechanism.choice(),
        exec_limit: workload.settings.exec_limit,
        output_to_stderr: args.output.takes_stdout(),
        manager: manager()?,
        names: None,
        remaps_cpus: workload.settings.missing_cpus == MissingCpus::Remap,
        few_descriptors: workload.settings.descriptors == Descriptors::Few,
        ends_with_processes: by_demos,
        announcer: None,
        power: None,
        isolate: args.isolate.as_ref().map(|steps| steps.0.clone()),
        hooks: takt_exec::Hooks::default(),
    };
    Ok((engine, plan))
}

/// The lines at window starts.
fn announcer(args: &Args, workload: &Workload) -> Result<Option<Arc<Announcer>>, Failure> {
    let [window, frame] = [&args.on_window, &args.on_frame].map(|text| text.as_deref().unwrap_or_default());
    if window.is_empty() && frame.is_empty() {
        return Ok(None);
    }
    if workload.system.windows.is_empty() {
        let message = format!("`--on-window` and `--on-frame` need `windows`, and {} has none", workload.source.name);
        return Err(Failure::input(Code::NotApplicable, message, "leave them out; `--log json` reports jobs"));
    }
    if args.output.takes_stdout() {
        let message = "`--on-window` and `--on-frame` write to standard output, and so does `--json` or `--trace -`";
        return Err(Failure::input(Code::ConflictingOptions, message, "leave one of them out"));
    }
    let announcer = Announcer::new(window, frame).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput => {
            let hint = "shorten them: a longer text is not written as a whole";
            Failure::input(Code::OutOfRange, format!("the lines at window starts are too long: {e}"), hint)
        }
        _ => {
            let message = format!("standard output cannot be written to without waiting for its reader: {e}");
            Failure::machine(Code::SystemError, message, "send it through a pipe of this user: takt … | cat")
        }
    })?;
    Ok(Some(Arc::new(announcer)))
}

/// Says on standard error what is legal but suspicious.
fn warn(demos: Option<&mut Narrator>, text: &str) {
    match demos {
        Some(narrator) => narrator.warning(text),
        None => drop(writeln!(io::stderr(), "warning: {text}")),
    }
}

/// Reports the slices that have other CPUs than the file says, because the machine lacks these.
fn remap(workload: &Workload, mut demos: Option<&mut Narrator>) {
    let Ok(present) = takt_linux::rt::affinity(0) else { return };
    let mut say = |text: String| warn(demos.as_deref_mut(), &text);
    for (number, window) in workload.system.windows.iter().enumerate() {
        let mut taken: Vec<(CpuSet, CpuSet)> = Vec::new();
        for slice in &window.slices {
            let (cpus, there) = (slice.cpus, takt_linux::rt::remapped(&slice.cpus, &present));
            if cpus.is_disjoint(&present) {
                say(format!(
                    "Slice is supposed to run on CPU cores '{cpus}', but Takt can only run on cores '{present}' (the remaining cores are \
                     either not present on the current system or Takt has restricted CPU affinity); the slice will run on core '{there}' \
                     instead (the lowest allowed CPU core)"
                ));
            } else if there != cpus {
                say(format!(
                    "Slice will run on CPU cores '{there}' instead of '{cpus}', as the remaining cores are either not available on current \
                     system or Takt is not allowed to run on them due to configured process CPU affinity"
                ));
            }
            if let Some((other, on)) = taken.iter().find(|(_, on)| !on.is_disjoint(&there)) {
                let shared = on.intersection(&there);
                say(format!(
                    "The slices on CPU cores '{other}' and '{cpus}' of window #{number} both run on core '{shared}', and delay each other"
                ));
            }
            taken.push((cpus, there));
        }
    }
}

/// SIGUSR1 begins another file of the trace, unless it releases jobs of a task.
fn rotates_by_signal(workload: &Workload, rotate: Arc<AtomicBool>) {
    let source = takt_workload::EventSource::Signal("USR1");
    if workload.tasks.iter().all(|task| task.event.as_deref() != Some(&source)) {
        // The signal is known, and one that cannot be handled only does nothing here.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGUSR1, rotate);
    }
}

/// The service manager that started this program, if any.
fn manager() -> Result<Option<Arc<ServiceManager>>, Failure> {
    let found = ServiceManager::from_env().map_err(|e| {
        let hint = "under systemd, write `Type=notify` into the unit; elsewhere, `env -u NOTIFY_SOCKET takt run …`";
        Failure::machine(Code::SystemError, format!("the service manager cannot be reached: {e}"), hint)
    })?;
    Ok(found.map(Arc::new))
}

/// Why the kernel refuses a class to the process of a task, and the way out.
fn class_refused(name: &str, class: Class, error: &io::Error) -> Failure {
    use io::ErrorKind;
    let deadline = matches!(class, Class::Deadline { .. });
    let admitted = Admission::here().map_or(String::new(), |here| format!(", {}", here.words()));
    let busy = format!("the reservations of SCHED_DEADLINE would exceed what the kernel admits{admitted}");
    let (reason, fix) = match error.kind() {
        ErrorKind::ResourceBusy if deadline => (
            busy.as_str(),
            "lower `runtime` or raise `period` of such tasks; other processes of the machine may have reservations, too",
        ),
        ErrorKind::InvalidInput if deadline => (
            "SCHED_DEADLINE does not take these parameters",
            "choose a `period` between `sysctl kernel.sched_deadline_period_min_us` and `sched_deadline_period_max_us`",
        ),
        _ if deadline => (
            "this user may not use SCHED_DEADLINE, or the process may not run on all CPUs of its root domain",
            "run as root, without `taskset` and outside of cpusets; or use another class",
        ),
        _ => ("this user may not use a real-time class here", "run as root, or write `class: other`"),
    };
    let message = format!("the kernel refuses its class to the process of task `{name}` ({error}): {reason}");
    Failure::machine(Code::MissingCapability, message, fix)
}

/// Why some CPU may not keep a tenth of its time in this schedule.
fn crowded(workload: &Workload) -> Option<String> {
    if workload.system.windows.is_empty() {
        return takt::check::not_realtime(workload);
    }
    let room = takt_analysis::table::report(&workload.system).cpus_with_10_percent_idle;
    (!room).then(|| "the budgets in its windows are too large".to_owned())
}

/// Whether the processes get a real-time class: by default only if the schedule leaves every CPU a tenth of its time. A CPU
/// that real-time processes fill is throttled by the kernel for 50 ms of each second, in the middle of a window.
/// And not on PREEMPT_RT: a machine of two CPUs filled by such processes stood still for good when changing a control group
/// had to wait for the kernel's RCU thread, which in turn waited for a CPU.
///
/// # Errors
/// When the file demands dispatch by priority, and the processes cannot have the class.
fn realtime(workload: &Workload) -> Result<bool, Failure> {
    let dispatch = workload.settings.dispatch;
    let by_priority = dispatch.has_priorities();
    if by_priority {
        can_dispatch_by_priority(dispatch, workload.settings.realtime)?;
    }
    let crowded = crowded(workload);
    Ok(match workload.settings.realtime {
        Realtime::No => false,
        Realtime::Auto if !by_priority => {
            crowded.is_none() && takt_linux::rt::rt_allowed() && !takt_linux::rt::preempt_rt()
        }
        Realtime::Auto | Realtime::Yes => {
            let key = match dispatch {
                Dispatch::Freeze => "realtime: yes".to_owned(),
                Dispatch::Priority | Dispatch::Rank => format!("dispatch: {}", dispatch.name()),
            };
            if takt_linux::rt::preempt_rt() {
                let text = "on a PREEMPT_RT kernel: its own timer and RCU threads have priority 1 and can be held up for ever; boot with \
                            rcutree.kthread_prio=20 and run chrt -f -p 20 on each ktimers thread";
                let _ = writeln!(io::stderr(), "warning: `{key}` {text}");
            }
            if let Some(why) = crowded {
                let text = "but the schedule may leave some CPU less than 10 % idle, and then real-time throttling cuts up to 50 ms out \
                            of each second";
                let _ = writeln!(io::stderr(), "warning: `{key}`, {text}: {why}");
            }
            true
        }
    })
}

/// Why a run with `dispatch: rank` freezes preempted processes instead.
fn without_ranks(workload: &Workload) -> Option<String> {
    let ranks = workload.settings.dispatch == Dispatch::Rank && workload.settings.realtime != Realtime::No;
    (ranks && !takt_linux::rt::rt_allowed()).then(|| {
        "`dispatch: rank` needs SCHED_FIFO, which this user may not use here, so preempted processes are frozen (`dispatch: freeze`): \
         while a job sleeps, its CPU idles; run as root, or: setcap cap_sys_nice=ep $(command -v takt); see `takt doctor`"
            .to_owned()
    })
}

/// Whether the processes can have FIFO priorities.
fn can_dispatch_by_priority(dispatch: Dispatch, realtime: Realtime) -> Result<(), Failure> {
    let (obstacle, fix) = match realtime {
        Realtime::No => ("the file has `realtime: no`", "remove `realtime: no`"),
        Realtime::Auto if takt_linux::rt::preempt_rt() && dispatch == Dispatch::Priority => {
            ("`realtime: auto` is no on a PREEMPT_RT kernel", "see docs/dispatch.md, and write `realtime: yes`")
        }
        _ if !takt_linux::rt::rt_allowed() => (
            "this user may not use it here",
            "run as root, or: setcap cap_sys_nice=ep $(command -v takt); see `takt doctor`",
        ),
        _ => return Ok(()),
    };
    let message = format!("`dispatch: {}` needs SCHED_FIFO for the processes, but {obstacle}", dispatch.name());
    Err(Failure::machine(Code::MissingCapability, message, &format!("{fix}; or write `dispatch: freeze`")))
}

fn failure(workload: &Workload, cpus: Option<u16>, error: takt_exec::Error) -> Failure {
    use takt_exec::Error as E;
    match error {
        E::Unavailable(u) => Failure::machine(Code::MissingCapability, &u.reason, &u.fix),
        E::CpuInUse(u) => Failure::machine(Code::CpuInUse, &u.reason, &u.fix),
        E::Isolation(refusal) => isolate::failure(refusal),
        E::FrequencyInUse(u) => Failure::machine(Code::FrequencyInUse, &u.reason, &u.fix),
        E::Power(u) => Failure::machine(Code::PowerUnavailable, &u.reason, &u.fix),
        E::NoSuchCpu { .. } => {
            let other = || "change the CPU numbers in the file, or run it on a larger machine".to_owned();
            let fix = match workload.system.windows.is_empty() {
                true if cpus.is_some() => "lower `--cpus`, or run it on a larger machine".to_owned(),
                true => takt_workload::number_not_count(&workload.machine()).unwrap_or_else(other),
                false => "change the `cpu` of the windows, or run it on a larger machine".to_owned(),
            };
            Failure::machine(Code::MissingCpu, format!("{}: {error}", workload.source.name), &fix)
        }
        E::InitTimeout { .. } => {
            let hint = "a process with `init: yes` must signal (`takt done`); or raise `init_timeout`";
            Failure::status(1, Code::InitFailed, format!("{}: {error}\nhint: {hint}", workload.source.name))
        }
        E::InitFailed { .. } => {
            let hint = "mend the program; or write `on_exit: end` if the schedule may go without this process";
            Failure::status(1, Code::InitFailed, format!("{}: {error}\nhint: {hint}", workload.source.name))
        }
        E::ThreadRefused { .. } => {
            let hint = "the thread calls `takt_attach_thread` with the name of its task, and then `takt_ready`";
            Failure::status(1, Code::InitFailed, format!("{}: {error}\nhint: {hint}", workload.source.name))
        }
        E::Source { task, .. } => {
            let hint =
                "make the pipe (`mkfifo`), pass the descriptor (`takt run … 7<&0`), or choose an address that is free";
            Failure::at(Code::UnreadableFile, workload, Some(task), error.to_string(), hint)
        }
        E::ClassRefused { name, class, source } => class_refused(&name, class, &source),
        E::Descriptors { needed, .. } => {
            let fix = format!(
                "raise the limit (`ulimit -n {needed}`; `LimitNOFILE={needed}` of a unit), or write `descriptors: few` into the file"
            );
            Failure::machine(Code::SystemError, error, &fix)
        }
        E::System { ref source, .. } if source.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            let hint = "write `descriptors: few` and `client: none` into the file, or raise the limit (RLIMIT_NOFILE: `ulimit -n`)";
            Failure::machine(Code::SystemError, error, hint)
        }
        E::ForeignFile { ref user, .. } => {
            let hint = format!(
                "let the user {user} write the file (chown, chmod), name one in a folder of that user, or leave out `output`"
            );
            Failure::machine(Code::SystemError, error, &hint)
        }
        E::System { .. } => Failure::machine(Code::SystemError, error, "see `takt doctor`"),
        E::Scheduler(_) => Failure::status(101, Code::InternalFault, error),
    }
}

/// The most characters of a command in a trace: it has room in a file of a series.
const COMMAND_MOST: usize = 200;

struct Opened {
    handle: takt_exec::Handle,
    load: Loader,
    find: Finder,
    schedule: CpuSet,
    file: String,
    path: std::path::PathBuf,
}

/// The control of a run. Its engine learns which policies may take over.
fn control(
    args: &Args,
    workload: &Workload,
    engine: &mut Engine,
    platform: Option<&Platform>,
) -> Result<(takt_exec::Control, Opened), Failure> {
    let system = engine.system().clone();
    let others = crate::input::takeovers(&system);
    let mut mirror = takt::load::engine(system).map_err(|e| takt::Error::unsuitable(workload, &e))?;
    if let Some(host) = platform.map(|platform| power::host(workload, platform)).transpose()?.flatten() {
        mirror.set_power(host);
    }
    engine.add_alternatives(others.iter().copied());
    mirror.add_alternatives(others);
    let one_policy = workload.handed.as_ref().is_some_and(|handed| handed.one_policy);
    let (control, handle) = takt_exec::Control::new(mirror, workload.domains.clone(), one_policy)?;
    let opened = Opened {
        handle,
        load: loader(args.input.clone(), workload, platform),
        find: additions::finder(workload),
        schedule: workload.machine(),
        file: workload.source.name.clone(),
        path: args.input.file.clone(),
    };
    Ok((control, opened))
}

/// Reads another version of the workload of a run.
fn loader(input: Input, workload: &Workload, platform: Option<&Platform>) -> Loader {
    let power = workload.power.clone().zip(platform.cloned());
    let (infos, settings, machine) = (workload.tasks.clone(), workload.settings.clone(), workload.machine());
    let run = additions::Surroundings::of(workload);
    Arc::new(move |file| {
        let fault = |code: &str, message: String, hint: &str| Fault { code: code.into(), message, hint: hint.into() };
        let input = Input { file: file.into(), ..input.clone() };
        let regular = std::fs::metadata(file).is_ok_and(|known| known.is_file());
        if !regular {
            return Err(fault(
                "unreadable-file",
                format!("`{file}` is no file that the run can read"),
                "name a workload",
            ));
        }
        let read = input.load_quietly(Some(machine)).map_err(|failure| {
            fault(
                "wrong-file",
                anstream::adapter::strip_str(failure.text()).to_string(),
                "nothing has changed; correct the file",
            )
        });
        let mut other = read?;
        let numbers: HashMap<&str, TaskId> =
            infos.iter().map(|info| info.name.as_str()).zip((0..).map(TaskId)).collect();
        let known = numbers.keys().copied().collect();
        let additions::Candidates { new, excluded, unseen } = run.candidates(&other.source, &known)?;
        other.hand_over();
        other.clear_simulated();
        let mut fixed = Vec::new();
        if unseen > 0 {
            fixed.push(format!("{} tasks cannot be added, and {unseen} more were not looked at", excluded.len()));
        }
        let others: HashMap<&str, &takt_workload::TaskInfo> =
            other.tasks.iter().map(|new| (new.name.as_str(), new)).collect();
        for own in &infos {
            let Some(mut new) = others.get(own.name.as_str()).map(|new| (*new).clone()) else { continue };
            // The number of a task depends on the tasks before it.
            let leader = new.thread_of.map(|leader| &other.tasks[leader.index()].name);
            new.thread_of = leader.and_then(|leader| numbers.get(leader.as_str()).copied());
            if new != *own {
                fixed.push(format!("the process of task `{}`", own.name));
            }
        }
        let (mut then, now) = (other.settings.clone(), &settings);
        // The run has its length, and directories of processes are those of the first file.
        (then.duration, then.directory) = (now.duration, now.directory.clone());
        if then != *now {
            fixed.push("settings of the file".into());
        }
        let tasks = other.tasks.iter().map(|task| task.name.clone()).collect();
        let frequencies = power.as_ref().map(|(spec, platform)| other.slice_frequencies(spec, platform)).transpose();
        let frequencies = frequencies.map_err(|diagnostic| {
            let hint = diagnostic.hint.clone().unwrap_or_default();
            fault("wrong-file", diagnostic.message.clone(), &format!("nothing has changed; {hint}"))
        })?;
        let frequencies = frequencies.unwrap_or_default();
        let policies = std::iter::once(&other.system.policy).chain(other.system.domains.iter().map(|d| &d.policy));
        let modules = policies.filter(|policy| crate::modules::module(policy).is_some());
        let fallbacks = modules.map(|policy| (*policy, takt_wasm::fallback(policy))).collect();
        let domains = other.domains;
        let system = other.system;
        Ok(takt_exec::Target { system, tasks, domains, fixed, new, excluded, frequencies, fallbacks })
    })
}

struct Watch<'a> {
    opened: Option<Opened>,
    /// There was a controlling terminal at the start. After a hangup there is none.
    terminal: bool,
    /// The run is to outlive that terminal.
    nohup: bool,
    server: Option<Server>,
    /// Why there is no socket.
    uncontrolled: Option<io::Error>,
    recorder: &'a mut Recorder,
    steps: &'a mut super::steps::Writer,
    length: Option<Span>,
    bar: Bar,
    /// The figures of the run, which other threads read. The scheduler thread never takes this lock.
    live: Arc<Mutex<Live>>,
    log: Option<log::Log>,
    rotate: Option<Arc<AtomicBool>>,
    manager: Option<Arc<ServiceManager>>,
    schedule: Option<ScheduleLog>,
    demos: Option<&'a mut Narrator>,
    /// The tasks that commands have added.
    added: Vec<Added>,
}

impl Watch<'_> {
    /// Tells the figures of the run something, and the log of the events in it.
    fn watch(&mut self, tell: impl FnOnce(&mut Live, live::Listener<'_>)) {
        let log = &mut self.log;
        let mut listener = |event: &live::Event| {
            if let Some(log) = log {
                log.event(event);
            }
        };
        tell(&mut locked(&self.live), &mut listener);
    }
}

/// A change from outside, for the trace.
fn change(at: Time, by: Issuer, command: &str) -> takt_trace::Change {
    let (uid, pid) = (by.uid, u32::try_from(by.pid).unwrap_or_default());
    takt_trace::Change { at, uid, pid, command: command.chars().take(COMMAND_MOST).collect() }
}

fn locked(live: &Mutex<Live>) -> MutexGuard<'_, Live> {
    live.lock().unwrap_or_else(|e| e.into_inner())
}

/// The figures and the log at the end of a run.
fn finish(live: &Mutex<Live>, log: Option<log::Log>, report: &Report) {
    let end = Time::ZERO + report.length;
    let mut log = log;
    let mut listener = |event: &live::Event| {
        if let Some(log) = &mut log {
            log.event(event);
        }
    };
    let mut live = locked(live);
    live.lost(report.dropped);
    live.finish(end, &mut listener);
    if let Some(log) = log {
        log.finish(end);
    }
}

impl Observer for Watch<'_> {
    fn named(&mut self, run: &RunId) {
        if let Some(narrator) = &mut self.demos {
            narrator.begins();
        }
        let Some(Opened { handle, load, find, schedule, file, path }) = self.opened.take() else { return };
        let about = About { run: run.to_string(), file, duration: self.length };
        let live = self.live.clone();
        let started = ControlSocket::bind(run).and_then(|socket| {
            let (rotate, manager) = (self.rotate.clone(), self.manager.clone());
            Server::start(Service { socket, about, run: handle, load, find, live, schedule, path, rotate, manager })
        });
        match started {
            Ok(server) => self.server = Some(server),
            Err(e) => self.uncontrolled = Some(e),
        }
    }
    fn ignores_hangups(&self) -> bool {
        self.nohup
    }
    /// Without a terminal that could have hung up, the signal asks for the file to be read again, as it does of services.
    fn hangs_up(&mut self) -> bool {
        let reloads = !self.terminal && self.demos.is_none();
        let Some(server) = self.server.as_ref().filter(|_| reloads) else { return false };
        server.reload();
        true
    }
    fn starting(&mut self, processes: usize, all: usize) {
        self.bar.starting(processes, all);
    }
    fn changed(&mut self, at: Time, by: Issuer, command: &str, loaded: &[PolicySpec]) -> io::Result<()> {
        self.steps.changed(at, by, command, loaded);
        self.recorder.change(change(at, by, command));
        let names: Vec<String> = loaded.iter().map(takt_workload::policy_text).collect();
        self.watch(|live, listener| {
            live.name_loaded(names.iter().map(String::as_str));
            live.changed(at, command, listener);
        });
        Ok(())
    }
    fn stopped(&mut self, at: Time, by: Issuer, command: &str) -> io::Result<()> {
        self.recorder.change(change(at, by, command));
        Ok(())
    }
    fn measured(&mut self, at: Time, meter: u16, value: i64) -> io::Result<()> {
        self.steps.measured(at, meter, value);
        self.recorder.measured(takt_trace::Measured { at, meter, value });
        Ok(())
    }
    fn table(&mut self, table: &WindowTable) -> io::Result<()> {
        self.steps.table(table);
        let now = locked(&self.live).now();
        self.recorder.table(now, table);
        Ok(())
    }
    fn added(&mut self, at: Time, new: &NewTask, pid: Option<i32>) -> io::Result<()> {
        self.steps.task(new);
        let added = Added::new(new);
        let label = added.label(pid);
        self.recorder.task(at, &label);
        if let Some(log) = &mut self.log {
            log.add(&label.name, new.process.per_job);
        }
        locked(&self.live).add(&label);
        self.added.push(added);
        Ok(())
    }
    fn started(&mut self, start: Span, pids: &[Option<i32>]) -> io::Result<()> {
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let since = takt_linux::timer::now() - start;
        let start_unix_ns = (unix.as_nanos() as i64 - since.ns()) as u64;
        if let Some(log) = &mut self.log {
            log.begin(start_unix_ns);
        }
        if let Some(narrator) = &mut self.demos {
            narrator.started(pids);
        }
        self.steps.begin();
        self.recorder.begin(true, |header| {
            header.start_monotonic_ns = Some(start.ns() as u64);
            header.start_unix_ns = Some(start_unix_ns);
            for (task, pid) in header.tasks.iter_mut().zip(pids) {
                task.pid = pid.map(|p| p as u32);
            }
        });
        Ok(())
    }
    fn record(&mut self, record: &Stamped) -> io::Result<()> {
        self.recorder.record(record);
        if let Some(schedule) = &mut self.schedule {
            schedule.take(&record.record);
        }
        if let Some(narrator) = &mut self.demos {
            narrator.record(&record.record);
        }
        self.watch(|live, listener| live.record(record, listener));
        Ok(())
    }
    fn late(&mut self, by: Option<Span>, lost: u64) -> io::Result<()> {
        self.watch(|live, _| {
            if let Some(by) = by {
                live.late_by(by);
            }
            live.lost(lost);
        });
        Ok(())
    }
    fn found(&mut self, task: TaskId, job: JobId, cause: Cause) -> io::Result<()> {
        if cause == Cause::Overrun {
            self.watch(|live, listener| live.overran(task, job, listener));
        }
        Ok(())
    }
    fn exited(&mut self, task: TaskId, end: TaskEnd) -> io::Result<()> {
        if let Some(narrator) = &mut self.demos {
            narrator.exited(task, end);
        }
        let at = locked(&self.live).now();
        if let Some(log) = &mut self.log {
            log.exited(at, task.index(), end);
        }
        Ok(())
    }
    /// At once, since a service may never end. Standard error is not waited for.
    fn noticed(&mut self, what: &str) -> io::Result<()> {
        match &mut self.demos {
            Some(narrator) => narrator.warning(what),
            None if writable() => drop(writeln!(io::stderr(), "warning: {what}")),
            None => {}
        }
        Ok(())
    }
    fn step(&mut self, now: Time, inputs: &[EngineInput]) -> io::Result<()> {
        self.steps.step(now, inputs);
        self.watch(|live, listener| live.advance(now, listener));
        Ok(())
    }
    fn tick(&mut self, now: Time) -> io::Result<()> {
        self.recorder.flush();
        self.steps.flush();
        self.bar.show(now, self.length);
        self.watch(|live, listener| live.tick(now, listener));
        if let Some(log) = &mut self.log {
            log.tick(now);
        }
        Ok(())
    }
    /// A file that cannot be written any more ends the run. It is named when it is closed.
    fn ends_run(&self) -> bool {
        self.recorder.has_failed() || self.steps.has_failed()
    }
}

/// One line of progress on a terminal. It is written only when the terminal takes it at once, so that one that has been
/// stopped (Ctrl-S) cannot hold up the run.
struct Bar {
    shown: bool,
    next: Time,
    /// When the start of the processes is shown next; `None` if it never is.
    next_start: Option<Instant>,
}

impl Bar {
    fn new(wanted: bool) -> Bar {
        let wanted = wanted && io::stderr().is_terminal();
        Bar {
            shown: false,
            next: if wanted { Time::from_ns(500_000_000) } else { Time::MAX },
            next_start: wanted.then(|| Instant::now() + Duration::from_millis(500)),
        }
    }
    /// So many of all processes have been started.
    fn starting(&mut self, processes: usize, all: usize) {
        // The clock is read for few of many processes.
        if !processes.is_multiple_of(16) && processes != all {
            return;
        }
        if self.next_start.is_none_or(|next| Instant::now() < next) || !writable() {
            return;
        }
        self.next_start = Some(Instant::now() + Duration::from_millis(200));
        self.shown = true;
        let what = match processes {
            0 => format!("making the groups of {all} processes"),
            _ => format!("{processes} of {all} processes"),
        };
        let _ = write!(io::stderr(), "\r\x1b[Kstarting: {what}");
    }
    fn show(&mut self, now: Time, length: Option<Span>) {
        if now < self.next || !writable() {
            return;
        }
        self.next = now + Span::from_ms(200);
        self.shown = true;
        let now = Span::from_ms((now - Time::ZERO).ns() / 1_000_000);
        let of = length.map_or_else(|| "until all processes have ended".to_string(), |l| format!("of {l}"));
        let _ = write!(io::stderr(), "\r\x1b[Krunning: {now} {of}");
    }
    fn clear(&self) {
        if self.shown && writable() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn writable() -> bool {
    takt_exec::is_writable(io::stderr())
}

fn more(workload: &Workload, report: &Report, realtime: bool) -> serde_json::Value {
    json!({
        "source": "run", "mechanism": report.mechanism, "scheduler_class": report.scheduler_class, "realtime": realtime,
        "priority": realtime.then_some(workload.settings.priority),
        "dispatch": workload.settings.dispatch.name(),
        "ended": match report.ended {
            Ended::Duration => "duration",
            Ended::AllExited => "all exited",
            Ended::Signal => "signal",
            Ended::Command => "command",
            Ended::Observer => "output",
            Ended::Exit(_) => "exit",
            Ended::Reaction(_, _, Cause::Miss) => "miss",
            Ended::Reaction(_, _, Cause::Overrun) => "overrun",
        },
        "ended_by": match report.ended {
            Ended::Exit(task) | Ended::Reaction(task, ..) => Some(&workload.tasks[task.index()].name),
            _ => None,
        },
        "ended_by_job": match report.ended {
            Ended::Reaction(_, job, _) => Some(job),
            _ => None,
        },
        "reactions": report.reactions.iter().map(|reacted| json!({
            "task": workload.tasks[reacted.task.index()].name, "cause": reacted.cause.to_string(), "jobs": reacted.jobs,
            "done": reacted.done, "suppressed": reacted.suppressed, "failed": reacted.failed,
        })).collect::<Vec<_>>(),
        "failed_commands": report.failed_commands,
        "startup_ns": report.startup.as_nanos() as u64, "startup_cpu_ns": report.startup_cpu.ns(),
        "scheduler_page_faults": report.page_faults,
        "lateness_ns": figures(&report.lateness), "switch_ns": figures(&report.effort),
        "stolen_ns": report.stolen.map(Span::ns),
        "blocking": match &report.blocking {
            Blocking::Tracepoints => json!("tracepoints"),
            Blocking::States => json!("states"),
            Blocking::Unavailable(_) | Blocking::NotFollowed => serde_json::Value::Null,
        },
        "dropped_records": report.dropped, "refused": report.failures, "power": power::object(report),
        "ends": report.ends.iter().map(|end| match end {
            None => serde_json::Value::Null,
            Some(TaskEnd::Exited(code)) => json!({"exited": code}),
            Some(TaskEnd::Signalled(signal)) => json!({"signal": signal}),
        }).collect::<Vec<_>>(),
    })
}

fn print(
    out: &mut impl Write,
    workload: &Workload,
    report: &Report,
    (summary, switched): (&Summary<'_>, Option<(Time, String)>),
    realtime: bool,
) -> io::Result<()> {
    let policy = takt::report::policies(workload.policy(), switched.as_ref().map(|(at, to)| (*at, to.as_str())));
    let ended = match report.ended {
        Ended::Duration => String::new(),
        Ended::AllExited => ", all processes ended".to_owned(),
        Ended::Signal => ", stopped by a signal".to_owned(),
        Ended::Command => ", stopped by `takt ctl stop`".to_owned(),
        Ended::Observer => ", stopped because a file could not be written".to_owned(),
        Ended::Exit(task) => format!(", stopped because {} ended", workload.tasks[task.index()].name),
        Ended::Reaction(task, job, cause) => {
            let name = &workload.tasks[task.index()].name;
            match cause {
                Cause::Miss => format!(", stopped because job {job} of {name} missed its deadline (`on_miss: stop`)"),
                Cause::Overrun => format!(", stopped because job {job} of {name} overran (`on_overrun: stop`)"),
            }
        }
    };
    // A run of a given length has that length. The others end at any instant.
    let length = match report.ended {
        Ended::Duration => Span::from_us(report.length.ns() / 1000).to_string(),
        _ => short(report.length),
    };
    writeln!(
        out,
        "{}: policy {policy}, CPU {}, mechanism {}, ran {length}{ended}, seed {}\n",
        workload.source.name,
        workload.machine(),
        report.mechanism,
        workload.system.seed
    )?;
    summary.print(out)?;
    let (late, effort) = (&report.lateness, &report.effort);
    writeln!(
        out,
        "scheduling latency ({}): p50 {}, p99 {}, max {}; a switch took: p50 {}, p99 {}, max {}",
        report.scheduler_class,
        short(late.quantile(500)),
        short(late.quantile(990)),
        short(late.max()),
        short(effort.quantile(500)),
        short(effort.quantile(990)),
        short(effort.max())
    )?;
    power::lines(workload, report).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    remarks(workload, report, realtime).iter().try_for_each(|remark| writeln!(out, "{}", takt::report::visible(remark)))
}

/// Whether the signal of this number is the one that reports aborts to the task's process.
fn reports_aborts(workload: &Workload, index: usize, number: i32) -> bool {
    let rule = workload.system.tasks[index].on_abort;
    rule == OnAbort::Signal && signal(workload.tasks[index].abort_signal.unwrap_or("USR1")).as_raw() == number
}

/// How the processes of a task ended.
fn remarks_on_ends(workload: &Workload, report: &Report, index: usize) -> Vec<String> {
    let task = &workload.tasks[index];
    let (name, failures, replaced) = (&task.name, report.failures_of[index], report.replaced[index]);
    let mut remarks = Vec::new();
    match report.ends[index] {
        Some(TaskEnd::Exited(127)) => {
            remarks.push(format!("warning: {name} ended with status 127: its command was not found"));
        }
        Some(TaskEnd::Exited(0)) if task.spawn == Spawn::Once && replaced == 0 => {
            remarks.push(format!("note: {name} ended regularly (status 0)"));
        }
        Some(TaskEnd::Exited(0)) | None => {}
        Some(TaskEnd::Signalled(number)) if reports_aborts(workload, index, number) => remarks.push(format!(
            "warning: {name} was ended by signal {number}, with which Takt reports an abort (`on_abort: signal`); its program \
             has to handle that signal"
        )),
        Some(end) if failures > 1 => remarks.push(format!("warning: {failures} processes of {name} failed; one {end}")),
        Some(end) => remarks.push(format!("warning: {name} {end}")),
    }
    if replaced > 0 {
        remarks.push(format!("note: the process of {name} was restarted {replaced} times"));
    }
    if report.floods[index] > 0 {
        remarks.push(format!(
            "warning: {name} flooded its scheduler with requests, and was frozen for 10 ms each of {} times",
            report.floods[index]
        ));
    }
    if report.event_floods[index] > 0 {
        remarks.push(format!(
            "warning: the source of the events of {name} changed all the time, and was not heard for 10 ms each of {} times",
            report.event_floods[index]
        ));
    }
    remarks
}

/// Counts of the reactions to missed deadlines and overruns.
fn remarks_on_reactions(workload: &Workload, report: &Report) -> Vec<String> {
    let mut remarks = Vec::new();
    for reacted in report.reactions.iter().filter(|reacted| reacted.jobs > 0) {
        let task = &workload.tasks[reacted.task.index()];
        let (key, jobs, reaction) = match reacted.cause {
            Cause::Miss => ("on_miss", "missed jobs", &task.on_miss),
            Cause::Overrun => ("on_overrun", "overruns", &task.on_overrun),
        };
        let head = format!("`{key}` of {}: {} {jobs}", task.name, reacted.jobs);
        match reaction.as_deref() {
            Some(takt_workload::Reaction::Signal(name)) => {
                let unsent = match reacted.failed {
                    0 => String::new(),
                    failed => format!(", {failed} not sent: there was no process that had run"),
                };
                remarks.push(format!("note: {head}, {} signals {name} sent{unsent}", reacted.done));
            }
            Some(takt_workload::Reaction::Exec(_)) => {
                remarks.push(format!("note: {head}, {} commands started", reacted.done));
                if reacted.suppressed > 0 {
                    remarks.push(format!(
                        "warning: {} commands of `{key}` of {} were not started: at most {} start in a second (`exec_limit`), at most {} \
                         live at one time, and none starts after the end of the run",
                        reacted.suppressed,
                        task.name,
                        workload.settings.exec_limit,
                        takt_exec::COMMANDS_MAX
                    ));
                }
                if reacted.failed > 0 {
                    let why = report.command_error.as_ref().map(|e| format!(": {e}")).unwrap_or_default();
                    remarks.push(format!(
                        "warning: {} commands of `{key}` of {} could not be started{why}",
                        reacted.failed, task.name
                    ));
                }
            }
            _ => {}
        }
    }
    if report.failed_commands > 0 {
        remarks.push(format!(
            "warning: {} commands of `on_miss` or `on_overrun` ended with another status than 0, or by a signal",
            report.failed_commands
        ));
    }
    remarks
}

/// Notes and warnings beside the figures.
fn remarks(workload: &Workload, report: &Report, realtime: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    if !realtime {
        let note =
            "note: the processes have no real-time class, so other load delays them (`realtime:`, see `takt check`)";
        remarks.push(note.to_string());
        if report.blocking == Blocking::States {
            let each = takt_linux::blocking::INTERVAL;
            remarks.push(format!("note: blocking inside a job is looked for each {each} without a real-time class"));
        }
    }
    if let Blocking::Unavailable(lack) = &report.blocking {
        remarks.push(format!("note: blocking inside a job is not observed here: {lack} (fix: {})", lack.fix));
    }
    remarks.extend(causes::blocked(workload, report).into_iter().map(|parts| format!("note: {parts}")));
    remarks.extend(causes::of_misses(workload, report, realtime).into_iter().map(|why| format!("note: {why}")));
    if workload.settings.cpus_from_all {
        remarks.push(format!("note: the file names no CPU by number; here that is CPU {}", workload.machine()));
    }
    remarks.extend(report.notes.iter().map(|note| format!("note: {note}")));
    remarks.extend((0..workload.tasks.len()).flat_map(|index| remarks_on_ends(workload, report, index)));
    remarks.extend(remarks_on_reactions(workload, report));
    remarks.extend(power::remarks(report));
    if let Some(e) = &report.spawn_error {
        remarks.push(format!("warning: a task has ended because its next process could not be started: {e}"));
    }
    if let Some(e) = &report.observer_error {
        remarks.push(format!("warning: the run could not be watched to its end: {e}"));
    }
    if report.dropped > 0 {
        remarks.push(format!(
            "warning: {} trace records were lost because the trace was not written in time",
            report.dropped
        ));
    }
    if let Some(e) = &report.first_failure {
        remarks.push(format!("warning: the kernel refused {} stops or starts, first with: {e}", report.failures));
    }
    if let Some(e) = &report.cleanup_error {
        let next = "`takt doctor --clean` tries again";
        remarks.push(format!("warning: something of this run could not be removed: {e}; {next}"));
    }
    remarks
}
