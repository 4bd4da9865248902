//! Reading a workload, as `check`, `sim` and `run` do it.

use crate::failure::{Failure, colour};
use crate::progress::Progress;
use std::io::{self, Write};
use std::path::PathBuf;
use takt::load::assign_priorities;
pub(crate) use takt::simulation::last_instant;
use takt_analysis::priorities::Rule;
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{Late, Placement, PolicySpec, Scope, System, TableRules, TaskId};
use takt_core::power::PowerSpec;
use takt_core::time::Span;
use takt_workload::{
    AssignedPriorities, Code, Diagnostic, Driver, INLINE, MissingCpus, Options, Severity, Source, Workload,
};

/// The workload and what the command line changes about it.
#[derive(clap::Args, Clone, Default, Debug)]
pub(crate) struct Input {
    /// Workload: a YAML file (DEmOS configurations load as they are), or a task set in CSV or ChronOS's form; `-` is standard input
    pub(crate) file: PathBuf,
    /// Policy for the tasks, such as edf, g-edf, p-rm; see `takt policies`. A file that ends in .wasm is a policy as a WebAssembly module, with the
    /// prefix of a form before it, as in g-edzl.wasm
    #[arg(long, value_parser = policy)]
    pub(crate) policy: Option<PolicySpec>,
    /// How a partitioned policy places tasks on CPUs: ff, bf, wf, ffd, bfd or wfd
    #[arg(long, value_parser = placement)]
    pub(crate) placement: Option<Placement>,
    /// Number of CPUs of the machine (CPU 0 to N-1); by default the CPUs that the file names, where `cpus` lists their numbers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    pub(crate) cpus: Option<u16>,
    /// Rule that assigns priorities, for policies that rank by priority; by default rm. Only for files that cannot state priorities
    /// (CSV, ChronOS)
    #[arg(long, value_enum)]
    pub(crate) priorities: Option<Priorities>,
    /// Seed of all random values
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Number of copies of a task, as in `player=6`, in place of its `copies`; may be given for several tasks
    #[arg(long, value_name = "TASK=N", value_parser = copies)]
    pub(crate) copies: Vec<(String, usize)>,
    /// Power policy, such as minbe or skip_be:cpu-thermal,80,5, in place of the file's `power`; see `takt policies --power`
    #[arg(long, value_name = "NAME[:ARGS]", value_parser = power)]
    pub(crate) power: Option<PowerSpec>,
    /// The text of the workload, where that is on the command line (`takt demos -C`).
    #[arg(skip)]
    pub(crate) text: Option<String>,
    /// Texts that are read instead of files, by their paths: the parts of an experiment hold them.
    #[arg(skip)]
    pub(crate) texts: Vec<Source>,
    /// The rules of `takt demos`.
    #[arg(skip)]
    pub(crate) demos: bool,
}

fn copies(text: &str) -> Result<(String, usize), String> {
    let (name, count) = text.rsplit_once('=').ok_or("write the name of a task and a number, as in `player=6`")?;
    let count = count.parse().ok().filter(|n| (1..=takt_workload::MAX_TASKS).contains(n));
    let count = count.ok_or_else(|| format!("the number of copies is from 1 to {}", takt_workload::MAX_TASKS))?;
    Ok((name.to_owned(), count))
}

/// All policies that the program knows, with default settings, for each part of the system: they may take over.
pub(crate) fn takeovers(system: &System) -> Vec<PolicySpec> {
    if !system.windows.is_empty() {
        return Vec::new();
    }
    let mut placements: Vec<Placement> = system.domains.iter().map(|domain| domain.policy.placement).collect();
    if placements.is_empty() {
        placements.push(system.policy.placement);
    }
    placements.dedup();
    let registry = takt_workload::registry();
    let specs = registry.names().filter_map(|(prefix, name)| registry.spec(&format!("{prefix}{name}")));
    let specs: Vec<PolicySpec> = specs.filter(|spec| spec.scope != Scope::Table).collect();
    placements
        .into_iter()
        .flat_map(|placement| specs.iter().map(move |spec| PolicySpec { placement, ..*spec }))
        .collect()
}

fn policy(name: &str) -> Result<PolicySpec, String> {
    crate::modules::policy(name).map_err(|fault| fault.to_string())
}

fn power(text: &str) -> Result<PowerSpec, String> {
    takt_workload::power_from_text(text).map_err(|fault| fault.to_string())
}

/// Parses a placement rule of the command line.
pub(crate) fn placement(name: &str) -> Result<Placement, String> {
    let names = || Placement::ALL.map(|(name, _)| name).join(", ");
    Placement::from_name(name).ok_or_else(|| format!("unknown placement; use one of {}", names()))
}

/// A rule that assigns priorities to tasks without any.
#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Debug)]
pub(crate) enum Priorities {
    /// Rate-monotonic: the shorter the period, the higher
    #[default]
    Rm,
    /// Deadline-monotonic: the shorter the deadline, the higher
    Dm,
    /// Audsley's optimal assignment, by exact response times on one CPU and by DA-LC on several. Deadline-monotonic if there is none
    Opa,
    /// In random order, drawn from the seed
    Random,
}

impl From<Priorities> for Rule {
    fn from(priorities: Priorities) -> Rule {
        match priorities {
            Priorities::Rm => Rule::RateMonotonic,
            Priorities::Dm => Rule::DeadlineMonotonic,
            Priorities::Opa => Rule::Optimal,
            Priorities::Random => Rule::Random,
        }
    }
}

impl Priorities {
    /// Assigns them where a policy of the system ranks by priority. `set` is the number of the task set.
    pub(crate) fn assign(self, system: &mut System, seed: u64, set: u64) -> Option<AssignedPriorities> {
        assign_priorities(self.into(), system, seed, set)
    }
}

/// The note about assigned priorities of many sets, for `fallback` of which the rule found none.
pub(crate) fn priorities_of_sets(policy: &str, priorities: Priorities, fallback: u64, sets: u64) -> String {
    takt::load::priorities_of_sets(policy, priorities.into(), fallback, sets)
}

/// A rule for late jobs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
pub(crate) enum LateJobs {
    /// They continue
    Continue,
    /// They are aborted at their deadline
    Abort,
    /// They are aborted at the first event after it, as by ChronOS 3.0
    AbortAtEvent,
}

impl From<LateJobs> for Late {
    fn from(rule: LateJobs) -> Late {
        match rule {
            LateJobs::Continue => Late::Continue,
            LateJobs::Abort => Late::Abort,
            LateJobs::AbortAtEvent => Late::AbortAtEvent,
        }
    }
}

/// Parses a duration of the command line.
pub(crate) fn duration(text: &str) -> Result<Span, String> {
    let above_zero = || Err("a duration must be above zero, such as `10ms`".into());
    match takt_workload::parse_duration(text) {
        Err(_) if text.trim_start().starts_with('-') => above_zero(),
        Ok(span) if span <= Span::ZERO => above_zero(),
        read => read,
    }
}

/// Refuses a workload with tasks that the kernel schedules: `missing` says what the command lacks for them, `instead` names another command.
///
/// # Errors
/// The first of these tasks.
pub(crate) fn without_kernel(workload: &Workload, missing: &str, instead: &str) -> Result<(), Failure> {
    let Some(index) = workload.tasks.iter().position(|task| task.class.is_some()) else { return Ok(()) };
    let message = format!("the kernel schedules task `{}` (`class`), and {missing}", workload.tasks[index].name);
    let hint = format!("use `{instead}`, or remove `class`, so that the policy schedules the task");
    Err(Failure::at(Code::NotApplicable, workload, Some(TaskId(index as u32)), message, &hint))
}

impl Input {
    /// Reads and checks the file. Warnings go to standard error. `machine` is what `all` stands for in a real run.
    pub(crate) fn load(&self, machine: Option<CpuSet>) -> Result<Workload, Failure> {
        let progress = Progress::busy("reading the workload");
        let read = self.load_quietly(machine);
        progress.finish();
        let workload = read?;
        let policy = &workload.system.policy;
        if self.placement.is_some() && !policy.uses_placement() {
            let name = takt::report::policy(policy);
            let message = format!("`--placement` has no effect under `{name}`, which assigns no tasks to CPUs");
            let hint = match policy.scope {
                Scope::Table => "write `placement:` beside the `policy` of a partition or domain",
                _ => "leave it out, or use a partitioned policy such as `--policy p-edf`",
            };
            return Err(Failure::input(Code::NoEffect, message, hint));
        }
        warn(&workload.source, &workload.warnings);
        Ok(workload)
    }

    /// The text of the workload.
    pub(crate) fn source(&self) -> Result<Source, Failure> {
        match &self.text {
            Some(text) => Source::from_bytes(INLINE, text.clone().into_bytes()),
            None => Source::among(&self.texts, &self.file),
        }
        .map_err(|unreadable| Failure::unreadable(&unreadable))
    }

    /// The options of the command line about it, without the policy.
    pub(crate) fn options(&self, machine: Option<CpuSet>) -> Options {
        Options {
            cpus: self.cpus.map(usize::from),
            policy: None,
            seed: self.seed,
            machine,
            copies: self.copies.clone(),
            rules: self.demos.then_some(TableRules::Demos),
            missing_cpus: self.demos.then_some(MissingCpus::Remap),
            power: self.power.clone(),
            texts: self.texts.clone(),
        }
    }

    /// Like [`Input::load`], and keeps the warnings for itself.
    pub(crate) fn load_quietly(&self, machine: Option<CpuSet>) -> Result<Workload, Failure> {
        self.load_source(&self.source()?, machine)
    }

    /// As [`Input::load_quietly`], from a text that has been read.
    pub(crate) fn load_source(&self, source: &Source, machine: Option<CpuSet>) -> Result<Workload, Failure> {
        let mut policy = self.policy;
        if let (Some(spec), Some(placement)) = (&mut policy, self.placement) {
            spec.placement = placement;
        }
        let options = Options { policy, ..self.options(machine) };
        let mut workload =
            takt_workload::load(source.clone(), &options).map_err(|f| Failure::diagnostics(source, &f))?;
        crate::modules::may_fall_back(&mut workload.system);
        takt::load::settle(&mut workload, self.placement, self.priorities.map(Rule::from))?;
        Ok(workload)
    }
}

/// Reports the keys that a driver does not carry out. One that changes outcomes is an error, or with `allow` a warning as others are.
pub(crate) fn ignored(workload: &Workload, driver: Driver, allow: bool) -> Result<(), Failure> {
    let mut found = workload.ignored_by(driver);
    if !allow && found.iter().any(|d| d.severity == Severity::Error) {
        return Err(Failure::diagnostics(&workload.source, &found));
    }
    found.iter_mut().for_each(|d| d.severity = Severity::Warning);
    warn(&workload.source, &found);
    Ok(())
}

/// Says what is legal but suspicious, on standard error.
pub(crate) fn warn(source: &Source, warnings: &[Diagnostic]) {
    let color = colour(&io::stderr());
    for warning in warnings {
        debug_assert!(warning.severity != Severity::Error);
        // A warning that cannot be said must not keep a schedule from running.
        let _ = writeln!(io::stderr(), "{}\n", warning.render(source, color).trim_end());
    }
}
