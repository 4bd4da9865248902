//! Workload files: what is to be scheduled, and what to run for it.
//!
//! [`load`] reads a YAML file (DEmOS's configuration files load as they are, Takt adds keys of its own) or a
//! task set in CSV, and gives the [`System`] for the engine beside the names, commands and settings that the
//! engine does not need. Everything wrong with a file comes back at once, each fault as a [`Diagnostic`] that
//! knows its place in the text.
//!
//! This crate opens files only through [`Source::read`]; it starts nothing and prints nothing.

mod calls;
mod canonical;
mod copies;
mod csv;
mod diagnostic;
mod domains;
mod drivers;
mod freeze;
mod load;
mod node;
mod policy;
mod reader;
mod rules;
mod scenario;
mod series;
mod servers;
mod source;
mod steps;
mod switches;
mod table;
mod task;
mod tasks;
mod utility;
mod value;
mod yaml;

pub mod import;

pub use canonical::canonical;
pub use copies::shift;
pub use csv::{TaskRows, load_sets};
pub use diagnostic::{Diagnostic, Severity};
pub use drivers::Driver;
pub use freeze::frozen;
pub use load::{MAX_LOAD, parse_factor, scale};
pub use policy::{policy_from_text, policy_text};
pub use source::{MAX_BYTES, Source, Unreadable, remedy};
pub use steps::runtime_of_steps;
pub use tasks::number_not_count;
pub use utility::utility_text;
pub use value::{MAX_DURATION, duration_text, nearest, parse_cpus, parse_duration};

use std::ops::Range;
use std::path::PathBuf;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Completion, Execution, OnAbort, OnExit, PolicySpec, System, TaskId, Timing};
use takt_core::scenario::Scenario;
use takt_core::time::Span;

/// The most tasks that a workload may have.
pub const MAX_TASKS: usize = 100_000;
/// The most entries of execution times that come from files, counted for each copy of a task.
pub const MAX_SERIES: usize = 10_000_000;
/// The most windows of a major frame.
pub const MAX_WINDOWS: usize = 100_000;
/// The most entries of `changes`, and of a task's `releases` or `execution`.
pub const MAX_ENTRIES: usize = 100_000;
/// The most diagnostics that [`load`] returns; the first ones of the file.
pub const MAX_DIAGNOSTICS: usize = 100;
/// Time that tasks with `init` get to initialise, unless the file says otherwise.
pub const DEFAULT_INIT_TIMEOUT: Span = Span::from_secs(10);

/// A workload, ready to be simulated or run.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Where it was read from.
    pub source: Source,
    /// What the engine needs.
    pub system: System,
    /// Names and commands, parallel to [`System::tasks`].
    pub tasks: Vec<TaskInfo>,
    /// Where messages about each task point, as bytes of [`Source::text`], parallel to [`System::tasks`].
    pub places: Vec<Range<usize>>,
    /// Names, parallel to [`System::partitions`].
    pub partitions: Vec<String>,
    /// Names, parallel to [`System::domains`].
    pub domains: Vec<String>,
    /// Names, parallel to [`System::servers`].
    pub servers: Vec<String>,
    /// Requested frequency in megahertz of each slice of each window, parallel to [`System::windows`].
    pub slice_frequencies_mhz: Vec<Vec<Option<f64>>>,
    /// Names of the shared resources.
    pub resources: Vec<String>,
    /// Where keys are that a driver may not carry out ([`Workload::ignored_by`]).
    pub key_places: Vec<(&'static str, Range<usize>)>,
    /// What a simulated machine costs and what happens to it.
    pub scenario: Scenario,
    /// Everything else.
    pub settings: Settings,
    /// What is legal but suspicious, in the order of the file.
    pub warnings: Vec<Diagnostic>,
}

impl Workload {
    /// A workload with nothing but its system.
    fn new(source: &Source, system: System, settings: Settings) -> Workload {
        Workload {
            source: source.clone(),
            system,
            tasks: Vec::new(),
            places: Vec::new(),
            partitions: Vec::new(),
            domains: Vec::new(),
            servers: Vec::new(),
            slice_frequencies_mhz: Vec::new(),
            resources: Vec::new(),
            key_places: Vec::new(),
            scenario: Scenario::default(),
            settings,
            warnings: Vec::new(),
        }
    }

    /// Where messages about the task point: its place, or the file as a whole.
    #[must_use]
    pub fn place(&self, task: TaskId) -> Range<usize> {
        self.places.get(task.index()).cloned().unwrap_or_default()
    }

    /// The text of a library that knows tasks by number only, with the names of the tasks: ``task `left` `` for `task 0`.
    /// O(length).
    #[must_use]
    pub fn named(&self, text: &str) -> String {
        diagnostic::named(text, |task| self.tasks.get(task).map(|info| info.name.as_str()))
    }

    /// What only a simulation carries out, in the words of the file: each key with the tasks that have it, or with none for a key
    /// of the whole file. A real machine has costs of its own, and a real job does what its program does.
    #[must_use]
    pub fn simulated_only(&self) -> Vec<(&'static str, Vec<TaskId>)> {
        let mut keys: Vec<(&'static str, Vec<TaskId>)> = Vec::new();
        for (task, id) in self.system.tasks.iter().zip((0..).map(TaskId)) {
            for key in task::simulated_keys(task) {
                match keys.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, tasks)) => tasks.push(id),
                    None => keys.push((key, vec![id])),
                }
            }
        }
        keys.extend(scenario::simulated_keys(&self.system, &self.scenario).map(|key| (key, Vec::new())));
        keys
    }

    /// Gives each task of the system the rules that follow from what is known of its process.
    fn settle_processes(&mut self) {
        for (task, info) in self.system.tasks.iter_mut().zip(&self.tasks) {
            task.on_abort = info.abort_rule(task.handler.is_some());
            task.completion = info.completion_rule();
        }
    }

    /// Makes of the workload what is simulated. A simulated process of a window table signals if the file says so, or says how much
    /// its jobs need; otherwise it uses up its budgets and has no jobs. `on_abort` overrides what the file says of aborted jobs; a
    /// task with a handler keeps it.
    pub fn settle_simulation(&mut self, on_abort: Option<OnAbort>) {
        for (task, info) in self.system.tasks.iter_mut().zip(&self.tasks) {
            if let Some(rule) = on_abort.filter(|_| task.handler.is_none()) {
                task.on_abort = rule;
            }
            if task.arrival == Arrival::Activated {
                let needs = task.runtime.is_some() || task.execution != Execution::Declared || !task.steps.is_empty();
                let default = if needs { Completion::Signal } else { Completion::None };
                task.completion = info.completion.unwrap_or(default);
            }
        }
    }

    /// Takes out what only a simulation carries out, so that [`Workload::simulated_only`] names nothing: what is left is what a
    /// run schedules, and what its replay must schedule to decide alike.
    pub fn clear_simulated(&mut self) {
        for task in &mut self.system.tasks {
            task.steps.clear();
            task.execution = Execution::Declared;
        }
        self.system.timing = Timing::default();
        self.system.load = None;
        self.system.alternatives.clear();
        self.scenario = Scenario::default();
    }
}

/// What the engine need not know of a task.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct TaskInfo {
    /// Its name, unique in the workload: its `name`, or that of its partition and its number there (`SC1-1`).
    pub name: String,
    /// Its partition, an index into [`Workload::partitions`].
    pub partition: Option<usize>,
    /// Its command for `/bin/sh -c`; without it the task can only be simulated.
    pub cmd: Option<String>,
    /// Whether it may initialise before the schedule starts.
    pub init: bool,
    /// When its process is started.
    pub spawn: Spawn,
    /// What becomes of the work of an aborted job, if the file says it ([`TaskInfo::abort_rule`]).
    pub on_abort: Option<OnAbort>,
    /// Name of the signal that tells the process of an abort (`on_abort: signal=USR2`), if the file says it.
    pub abort_signal: Option<&'static str>,
    /// How the end of its jobs is known, if the file says it ([`TaskInfo::completion_rule`]).
    pub completion: Option<Completion>,
    /// What follows when its process ends by itself, if the file says it; [`OnExit::End`] otherwise.
    pub on_exit: Option<OnExit>,
    /// File for its standard output.
    pub output: Option<PathBuf>,
    /// CPU frequency in megahertz that it asks for; power policies use it.
    pub frequency_mhz: Option<f64>,
}

impl TaskInfo {
    /// What becomes of the work of an aborted job. By default a process completes it, since it knows nothing of the abort; a task
    /// without a command drops it, and so does a process per job, which is replaced. A process with a `handler` receives a signal.
    #[must_use]
    pub fn abort_rule(&self, handler: bool) -> OnAbort {
        self.on_abort.unwrap_or(match (&self.cmd, self.spawn) {
            (Some(_), _) if handler => OnAbort::Signal,
            (Some(_), Spawn::Once) => OnAbort::Finish,
            _ => OnAbort::Restart,
        })
    }

    /// How the end of its jobs is known.
    #[must_use]
    pub fn completion_rule(&self) -> Completion {
        self.completion.unwrap_or(match (self.spawn, self.init) {
            (Spawn::PerJob, _) => Completion::Exit,
            (Spawn::Once, true) => Completion::Signal,
            (Spawn::Once, false) => Completion::Undeclared,
        })
    }
}

/// When the process of a task is started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Spawn {
    /// Once, before the schedule; the process tells when a job is done.
    #[default]
    Once,
    /// Anew for every job; the job is done when the process ends.
    PerJob,
}

/// Whether the executive uses real-time priority.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Realtime {
    /// If the system lets it.
    #[default]
    Auto,
    /// Yes, or not at all.
    Yes,
    /// No.
    No,
}

/// What becomes of the tasks if the executive dies.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OnCrash {
    /// They are killed.
    #[default]
    Kill,
    /// They are thawed and left to Linux's own scheduler.
    Release,
}

/// What a workload says beside its schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Working directory of all tasks: the file's own, unless `set_cwd` is off.
    pub directory: Option<PathBuf>,
    /// CPUs of the executive itself (`scheduler_cpu`, in DEmOS `demos_cpu`); `None` for any.
    pub scheduler_cpus: Option<CpuSet>,
    /// How long tasks with `init` may take.
    pub init_timeout: Span,
    /// Whether the executive uses real-time priority.
    pub realtime: Realtime,
    /// What becomes of the tasks if the executive dies.
    pub on_crash: OnCrash,
    /// Length of a run; `None` leaves it to the command line.
    pub duration: Option<Span>,
    /// The file names no CPU by its number and nobody said how many there are, so the machine is CPU 0 alone
    /// (or [`Options::machine`]).
    pub cpus_from_all: bool,
    /// The file says itself what becomes of late jobs (`late`), if only what holds anyway.
    pub late_stated: bool,
    /// The rule that assigned priorities to the tasks of a file that cannot state them. `None` if the priorities are those of the
    /// file, or no policy ranks by priority.
    pub priorities: Option<AssignedPriorities>,
}

/// Priorities that are not those of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssignedPriorities {
    /// The name of the rule: `rm`, `dm`, `opa` or `random`.
    pub rule: &'static str,
    /// The rule found none on some CPUs, where the priorities are deadline-monotonic.
    pub fallback: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            directory: None,
            scheduler_cpus: None,
            init_timeout: DEFAULT_INIT_TIMEOUT,
            realtime: Realtime::default(),
            on_crash: OnCrash::default(),
            duration: None,
            cpus_from_all: false,
            late_stated: false,
            priorities: None,
        }
    }
}

/// What the command line says about a workload; it wins over the file.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Options {
    /// The machine is CPUs 0 to `cpus - 1`.
    pub cpus: Option<usize>,
    /// The policy of the whole system, with its settings: those of the file's policy are the file's alone. Its placement is the
    /// file's `placement`, unless it differs from the default.
    pub policy: Option<PolicySpec>,
    /// Seed of everything drawn at random.
    pub seed: Option<u64>,
    /// The CPUs that are there, for a real run: what `all` stands for.
    pub machine: Option<CpuSet>,
    /// How often tasks of a YAML file are there, by their names, in place of the `copies` of the file.
    pub copies: Vec<(String, usize)>,
}

/// Reads a workload: a task set if the name ends in `.csv`, a task set of ChronOS if it begins like one, else YAML.
///
/// # Errors
/// The faults of the file in its order, at most [`MAX_DIAGNOSTICS`].
pub fn load(source: Source, options: &Options) -> Result<Workload, Vec<Diagnostic>> {
    let read = |()| {
        if source.is_csv() {
            csv::load(&source, options)
        } else if import::chronos::is_task_set(&source.text) {
            if !options.copies.is_empty() {
                return Err(vec![yaml::no_copies(&(0..0), "a task set of ChronOS")]);
            }
            import::chronos::load(&source, &import::chronos::Run::default(), options)
        } else {
            yaml::load(&source, options)
        }
    };
    let result = source.check().map_err(|fault| vec![fault]).and_then(read);
    match result {
        Ok(mut workload) => {
            workload.settle_processes();
            sort(&mut workload.warnings);
            Ok(workload)
        }
        Err(mut faults) => {
            sort(&mut faults);
            Err(faults)
        }
    }
}

fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|d| d.span.start);
    diagnostics.truncate(MAX_DIAGNOSTICS);
}
