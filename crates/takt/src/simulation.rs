//! A workload in virtual time: the engine with its surroundings, and the result.

use crate::error::Error;
use crate::header::{header, with_power};
use crate::load::{assign_priorities, priorities_note};
use crate::report::power::Power;
use crate::report::simulated::{Machine, Notes, Simulated, SimulatedTask};
use crate::report::{self, Summary, TaskCounts, Totals};
use serde::Serialize;
use std::io::{self, Write};
use takt_analysis::priorities::Rule;
use takt_core::engine::Engine;
use takt_core::model::{
    Arrival, Backlog, Late, Load, OnAbort, PolicySpec, Scope, Step, System, TableRules, Task, TaskId,
};
use takt_core::policy::Registry;
use takt_core::power::{Host, Platform};
use takt_core::record::{Record, Sink};
use takt_core::stats::{Counts, Histogram, Responses};
use takt_core::time::{Span, Time};
use takt_sim::Report;
use takt_trace::gantt::{self, SvgOptions};
use takt_trace::{Footer, Format, Header, Stamped, Trace, Writer};
use takt_workload::{Code, Driver, Severity, Workload};

/// The most records that a trace in memory has.
pub const MAX_RECORDS: usize = 20_000_000;

/// Settings of a caller about a simulation; the default changes nothing.
#[derive(Clone, Default, Debug)]
pub struct SimulateOptions {
    /// Simulated time; by default that of the file, else two major frames, or one hyperperiod up to 10 s.
    pub duration: Option<Span>,
    /// Another policy than that of the workload, which then has neither windows nor domains.
    pub policy: Option<PolicySpec>,
    /// The policies that the engine knows; by default those that names in files stand for.
    pub registry: Option<Registry>,
    /// Factor in millionths for what the tasks declare and need, on top of the `load` of the file.
    pub load: Option<u32>,
    /// Rule for late jobs, in place of `late` of the file.
    pub late: Option<Late>,
    /// Rule for the work of an aborted job, for all tasks without a handler.
    pub on_abort: Option<OnAbort>,
    /// Count the jobs whose deadline is not after the end alone (`true`), or all (`false`); by default all, under `preset: chronos` the
    /// decided ones.
    pub decided: Option<bool>,
    /// The rule that assigned priorities is applied again after `load`, for files that cannot state any.
    pub priorities: Option<Rule>,
    /// Simulate although a simulation ignores keys of the file that would change outcomes.
    pub allow_differences: bool,
    /// Keep the records ([`Simulation::trace`]), at most [`MAX_RECORDS`].
    pub trace: bool,
}

/// Simulates a workload.
///
/// # Errors
/// The policy cannot schedule the workload, the file has keys that a simulation ignores, or an option cannot be carried out.
///
/// ```
/// let text = "policy: edf\ntasks:\n- {name: a, period: 10ms, runtime: 6ms}\n- {name: b, period: 20ms, runtime: 8ms}\n";
/// let workload = takt::load_text("tasks.yaml", text, &Default::default())?;
/// let simulation = takt::simulate(&workload, &Default::default())?;
/// assert_eq!(simulation.result().totals.jobs.met, Some(3));
/// # Ok::<(), takt::Error>(())
/// ```
pub fn simulate(workload: &Workload, options: &SimulateOptions) -> Result<Simulation, Error> {
    simulate_while(workload, options, |_| true)
}

/// As [`simulate`]; `proceed` is called now and then with the instant reached, and stops the simulation when it returns `false`.
///
/// # Errors
/// As [`simulate`], and [`Error::Stopped`].
pub fn simulate_while(
    workload: &Workload,
    options: &SimulateOptions,
    mut proceed: impl FnMut(Time) -> bool,
) -> Result<Simulation, Error> {
    let mut workload = workload.clone();
    if let Some(policy) = options.policy {
        if workload.system.policy.scope == Scope::Table && policy.scope != Scope::Table {
            return Err(Error::argument(
                Code::UnsuitablePolicy,
                format!("`{}` has windows or domains, which another policy cannot replace", workload.source.name),
                "leave the policy out, or take a workload without windows and domains",
            ));
        }
        workload.system.policy = policy;
    }
    workload.settle_platform();
    workload.settle_simulation(options.on_abort);
    let length = options.duration.or(workload.settings.duration).unwrap_or_else(|| default_length(&workload.system));
    settle(&mut workload, options)?;
    workload.system.horizon = horizon(options.decided, workload.system.backlog, length);
    let found = workload.ignored_by(Driver::Simulation);
    if !options.allow_differences && found.iter().any(|d| d.severity == Severity::Error) {
        return Err(Error::faults(&workload.source, found));
    }
    let registry = options.registry.clone().unwrap_or_else(|| takt_workload::registry().clone());
    let ready = Ready::new(workload, length, false, registry, None)?;
    let host = host(&ready.workload)?;
    let ready = ready.with_power(host);
    let (mut trace, mut stopped) = (options.trace.then(|| Kept(Vec::new())), false);
    let header = ready.header.clone();
    let simulation = ready.simulate(trace.as_mut(), |now| {
        stopped |= !proceed(now);
        !stopped
    });
    if stopped {
        return Err(Error::Stopped);
    }
    let Some(Kept(records)) = trace else { return Ok(simulation) };
    if records.len() > MAX_RECORDS {
        return Err(Error::argument(
            Code::OutOfRange,
            format!("the trace has more than {MAX_RECORDS} records, too many for the memory"),
            "shorten `--duration`, or write the trace to a file with `takt sim --trace`",
        ));
    }
    let footer = Some(Footer { end: Time::ZERO + simulation.end, dropped: 0 });
    Ok(Simulation { trace: Some(Trace { header, records, footer, ..Trace::default() }), ..simulation })
}

/// Keeps records in memory.
struct Kept(Vec<Stamped>);

impl Sink for Kept {
    fn record(&mut self, record: Record) {
        if self.0.len() <= MAX_RECORDS {
            self.0.push(Stamped { record, applied: record.at });
        }
    }
}

/// Applies `load` and `late` of the caller.
///
/// # Errors
/// One of them is out of range, or contradicts the file.
pub fn settle(workload: &mut Workload, options: &SimulateOptions) -> Result<(), Error> {
    if let Some(factor) = options.load {
        check_load(workload.system.load.as_ref(), factor)?;
        takt_workload::scale(&mut workload.system, &mut workload.scenario, factor);
        // The best order of priorities depends on the runtimes.
        if workload.settings.priorities.is_some() {
            let (rule, seed) = (options.priorities.unwrap_or(Rule::RateMonotonic), workload.system.seed);
            workload.settings.priorities = assign_priorities(rule, &mut workload.system, seed, 0);
        }
    }
    if let Some(late) = options.late {
        if workload.system.backlog == Backlog::Hartstone && late != Late::Continue {
            return Err(Error::argument(
                Code::ConflictingOptions,
                "`--late` contradicts the file's `preset: hartstone`, which counts what a job missed when it completes",
                "leave `--late` out, or remove the preset",
            ));
        }
        workload.system.late = late;
        workload.settings.late_stated = true;
    }
    Ok(())
}

/// Whether a load times a factor in millionths is what a load may be.
fn check_load(load: Option<&Load>, factor: u32) -> Result<(), Error> {
    let highest = load.into_iter().flat_map(|load| &load.points).map(|(_, point)| *point).max().unwrap_or(Load::ONE);
    if u64::from(highest) * u64::from(factor) / u64::from(Load::ONE) > u64::from(takt_workload::MAX_LOAD) {
        let most = takt_workload::MAX_LOAD / Load::ONE;
        let message = format!("the file's `load` times `--load` is above {most}");
        return Err(Error::argument(Code::OutOfRange, message, "lower one of them"));
    }
    Ok(())
}

/// The instant after which deadlines are not counted. ChronOS's test application counts the jobs whose periods end within the run.
#[must_use]
pub fn horizon(decided: Option<bool>, backlog: Backlog, length: Span) -> Option<Time> {
    decided.unwrap_or(backlog == Backlog::Chronos).then_some(Time::ZERO + length)
}

/// The power policy of a workload, and the machine that has frequencies and zones.
///
/// # Errors
/// When the policy needs a machine that the file does not describe.
pub fn host(workload: &Workload) -> Result<Option<(Option<Host>, Platform)>, Error> {
    let spec = workload.power.as_ref().filter(|spec| !spec.is_none());
    let Some((platform, _)) = &workload.scenario.machine else {
        let Some(spec) = spec else { return Ok(None) };
        let message = format!("the power policy `{}` needs a `platform` in a simulation", spec.profile.name);
        let hint =
            "add `platform:` to the file, such as `platform: platforms/imx8qm.yaml`, or leave the power policy out";
        return Err(Error::argument(Code::MissingKey, message, hint));
    };
    let host = workload.power_host(platform.clone()).map_err(|fault| Error::faults(&workload.source, vec![*fault]))?;
    Ok(Some((host, platform.clone())))
}

/// The length of a run that ends at `length`. By DEmOS's rules the instant of the end belongs to the run: what begins then, begins.
#[must_use]
pub fn last_instant(system: &System, length: Span) -> Span {
    let inclusive = system.rules == TableRules::Demos && length > Span::ZERO;
    if inclusive { length + Span::from_ns(1) } else { length }
}

/// Two major frames; one hyperperiod (with the largest offset) up to ten seconds.
#[must_use]
pub fn default_length(system: &System) -> Span {
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

/// Whether a simulation changes no task, so that the engine needs no copy of them.
fn stays(workload: &Workload) -> bool {
    let calls = |task: &Task| task.program.steps.iter().any(|step| matches!(step, Step::Call(_)));
    workload.scenario.changes.is_empty() && !workload.system.tasks.iter().any(calls)
}

/// A workload and its engine before the first step.
pub struct Ready {
    /// The workload. Its tasks are with the engine until the end, if nothing changes them.
    pub workload: Workload,
    /// The engine.
    pub engine: Engine,
    /// The header of the trace.
    pub header: Header,
    /// The counts beside the engine's own.
    pub notes: Notes,
    length: Span,
    end: Span,
    platform: Option<Platform>,
    lent: bool,
}

impl Ready {
    /// Builds the engine. `recorded` is for the inputs of a recorded run: it makes room in the system for the tasks that they add.
    ///
    /// # Errors
    /// The policy cannot schedule the workload.
    pub fn new(
        mut workload: Workload,
        length: Span,
        rounds: bool,
        registry: Registry,
        recorded: Option<&dyn Fn(&mut System)>,
    ) -> Result<Ready, Error> {
        let notes = Notes::new(&workload, rounds);
        let end = last_instant(&workload.system, length);
        let header = header(&workload, "sim", Some(end));
        // A power policy is built from the tasks of the workload, and recorded inputs change tasks.
        let lent = stays(&workload) && recorded.is_none() && workload.power.is_none();
        let tasks = lent.then(|| std::mem::take(&mut workload.system.tasks));
        let mut system = workload.system.clone();
        if let Some(tasks) = tasks {
            system.tasks = tasks;
        }
        recorded.iter().for_each(|make_room| make_room(&mut system));
        let engine = Engine::with_registry(system, registry).map_err(|error| Error::unsuitable(&workload, &error))?;
        Ok(Ready { workload, engine, header, notes, length, end, platform: None, lent })
    }

    /// Gives the engine a power policy, and the machine that it is about.
    #[must_use]
    pub fn with_power(mut self, host: Option<(Option<Host>, Platform)>) -> Ready {
        if let Some((host, platform)) = host {
            if let Some(host) = host {
                self.engine.set_power(host);
            }
            self.header = with_power(self.header, &self.workload, &platform);
            self.platform = Some(platform);
        }
        self
    }

    /// Simulates. Records go to `sink`, and without one cost nothing. `proceed` is called now and then with the instant reached, and stops
    /// the simulation when it returns `false`.
    pub fn simulate<S: Sink>(mut self, sink: Option<S>, proceed: impl FnMut(Time) -> bool) -> Simulation {
        let mut responses = Responses::new(self.workload.tasks.len());
        let mut own = (&mut responses, &mut self.notes);
        let (engine, scenario) = (&mut self.engine, &self.workload.scenario);
        let report = match sink {
            None => takt_sim::simulate_while(engine, scenario, self.end, &mut own, proceed),
            Some(sink) => takt_sim::simulate_while(engine, scenario, self.end, &mut (own, sink), proceed),
        };
        self.ended(responses, Some(report))
    }

    /// Gives the engine the steps of a recorded run.
    pub fn replay<S: Sink>(mut self, steps: &[takt_sim::Step], sink: S) -> Simulation {
        let mut responses = Responses::new(self.workload.tasks.len());
        takt_sim::replay(&mut self.engine, steps, &mut ((&mut responses, &mut self.notes), sink));
        self.ended(responses, None)
    }

    fn ended(self, responses: Responses, report: Option<Report>) -> Simulation {
        let Ready { mut workload, engine, notes, length, end, platform, lent, .. } = self;
        let counts = (0..workload.tasks.len() as u32).map(|task| engine.counts(TaskId(task))).collect();
        let (context_switches, windows_lost) = (engine.context_switches(), engine.windows_lost());
        let deadlocks = engine.deadlocks();
        let power_counts = engine.power().map(Host::counts);
        // The engine's memory is needed for what is printed.
        let system = engine.into_system();
        if lent {
            workload.system.tasks = system.tasks;
        }
        Simulation {
            workload,
            length,
            end,
            counts,
            responses: responses.0,
            context_switches,
            windows_lost,
            deadlocks,
            report,
            notes,
            platform,
            power_counts,
            trace: None,
        }
    }
}

/// A simulation that has ended.
pub struct Simulation {
    /// The simulated workload.
    pub workload: Workload,
    /// The simulated time.
    pub length: Span,
    /// The end, which [`last_instant`] gives.
    pub end: Span,
    /// By task.
    pub counts: Vec<Counts>,
    /// By task: response times.
    pub responses: Vec<Histogram>,
    /// The use of the machine; `None` for a replay, in which time went where the recorded run let it.
    pub report: Option<Report>,
    /// The counts beside the engine's own.
    pub notes: Notes,
    /// The records, if they were kept.
    pub trace: Option<Trace>,
    context_switches: u64,
    windows_lost: u64,
    deadlocks: u64,
    platform: Option<Platform>,
    power_counts: Option<takt_core::power::Counts>,
}

/// The result of a simulation: the keys of `takt sim --json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SimulationResult {
    /// `sim`.
    pub source: &'static str,
    /// Sums over all tasks.
    #[serde(flatten)]
    pub totals: Totals,
    /// The machine.
    #[serde(flatten)]
    pub machine: Machine,
    /// By task.
    pub tasks: Vec<TaskResult>,
}

/// The result of a task.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TaskResult {
    /// Counts and response times.
    #[serde(flatten)]
    pub counts: TaskCounts,
    /// CPU time, energy and calls.
    #[serde(flatten)]
    pub simulated: SimulatedTask,
}

impl Simulation {
    /// The counts, as they are printed.
    #[must_use]
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            workload: &self.workload,
            duration: self.length,
            counts: &self.counts,
            responses: &self.responses,
            context_switches: self.context_switches,
            windows_lost: self.windows_lost,
            simulated: self.report.is_some(),
        }
    }

    /// The machine, as it is printed.
    #[must_use]
    pub fn simulated(&self) -> Simulated<'_> {
        Simulated {
            workload: &self.workload,
            duration: self.length,
            report: self.report.as_ref(),
            notes: &self.notes,
            deadlocks: self.deadlocks,
            power: self.power(),
        }
    }

    /// Energy, temperatures, and counts of the power policy.
    #[must_use]
    pub fn power(&self) -> Option<Power<'_>> {
        self.platform.as_ref().map(|platform| Power {
            workload: &self.workload,
            platform,
            report: self.report.as_ref().and_then(|report| report.power.as_ref()),
            counts: self.power_counts,
        })
    }

    /// The result for a program.
    #[must_use]
    pub fn result(&self) -> SimulationResult {
        let (summary, simulated) = (self.summary(), self.simulated());
        let of_task = simulated.tasks();
        let task = |index: usize| TaskResult { counts: summary.task(index), simulated: of_task(index) };
        SimulationResult {
            source: "sim",
            totals: summary.totals([self.general(), summary.remarks()].concat()),
            machine: simulated.machine(),
            tasks: (0..self.counts.len()).map(task).collect(),
        }
    }

    /// The text of `takt sim`, without a chart.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        // Memory takes everything.
        let _ = self.heading("simulated", &[], &mut out);
        let _ = self.summary().print(&mut out);
        let _ = self.simulated().print(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The Gantt chart as SVG; `None` without a trace.
    #[must_use]
    pub fn gantt(&self, options: &SvgOptions) -> Option<String> {
        self.trace.as_ref().map(|trace| gantt::svg(trace, options))
    }

    /// Writes the trace; without one, nothing.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write_trace(&self, format: Format, out: Box<dyn Write + Send>) -> io::Result<()> {
        let Some(trace) = &self.trace else { return Ok(()) };
        pour(trace, takt_trace::writer(format, &trace.header, out)?)
    }

    /// The heading above the table. `verb` says how it was obtained; `more` are lines below it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn heading(&self, verb: &str, more: &[String], out: &mut impl Write) -> io::Result<()> {
        let (workload, length) = (&self.workload, self.length);
        let (name, policy) = (&workload.source.name, report::policies(workload.policy(), self.notes.switched()));
        let (machine, seed) = (workload.machine(), workload.system.seed);
        writeln!(out, "{name}: policy {policy}, CPU {machine}, {verb} {length}, seed {seed}")?;
        more.iter().chain(&self.general()).try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out)
    }

    /// Notes about what is simulated, whatever comes out.
    #[must_use]
    pub fn general(&self) -> Vec<String> {
        let (workload, mut notes) = (&self.workload, Vec::new());
        let one_only = workload.system.policy.scope == Scope::Uniprocessor;
        if workload.settings.cpus_from_all && !one_only && self.report.is_some() {
            let note = "note: the file names no CPU by number, so one CPU was simulated; --cpus N takes more";
            notes.push(note.to_owned());
        }
        notes.extend(workload.settings.priorities.map(|assigned| format!("note: {}", priorities_note(assigned))));
        notes
    }
}

/// Writes all records of a trace.
pub(crate) fn pour(trace: &Trace, mut writer: Box<dyn Writer + Send>) -> io::Result<()> {
    trace.records.iter().try_for_each(|record| writer.record(record))?;
    writer.finish(&trace.footer.unwrap_or(Footer { end: trace.end(), dropped: 0 }))
}
