//! Settings of a workload beside its schedule, and those of the command line.

use crate::limits::{DEFAULT_EXEC_LIMIT, DEFAULT_INIT_TIMEOUT, DEFAULT_PRIORITY};
use crate::source::Source;
use std::path::PathBuf;
use takt_core::cpus::CpuSet;
use takt_core::model::{PolicySpec, TableRules};
use takt_core::power::PowerSpec;
use takt_core::time::Span;

/// Settings of a workload beside its schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Working directory of all tasks: the file's own, unless `set_cwd` is off or the workload comes through a pipe.
    pub directory: Option<PathBuf>,
    /// CPUs of the executive itself (`scheduler_cpu`, in DEmOS `demos_cpu`); `None` for any.
    pub scheduler_cpus: Option<CpuSet>,
    /// How long tasks with `init` may take.
    pub init_timeout: Span,
    /// How many commands of `on_miss` and `on_overrun` may be started in a second.
    pub exec_limit: u32,
    /// Whether the executive uses real-time priority.
    pub realtime: Realtime,
    /// FIFO priority of the processes that get a real-time class; the lowest one if they are dispatched by priority.
    pub priority: u8,
    /// How the executive keeps a preempted process off its CPU.
    pub dispatch: Dispatch,
    /// The rule for the tasks if the executive dies.
    pub on_crash: OnCrash,
    /// Treatment of CPUs of the window table that the machine lacks.
    pub missing_cpus: MissingCpus,
    /// How many descriptors a run keeps open.
    pub descriptors: Descriptors,
    /// Energy performance preferences (EPP) of CPUs, by the kernel's names. No CPU has two.
    pub epp: Vec<(CpuSet, &'static str)>,
    /// Length of a run; `None` leaves it to the command line.
    pub duration: Option<Span>,
    /// The file names no CPU by its number and gives no count, so the machine is CPU 0 alone
    /// (or [`Options::machine`]).
    pub cpus_from_all: bool,
    /// The file says itself what becomes of late jobs (`late`), if only what holds anyway.
    pub late_stated: bool,
    /// The rule that assigned priorities to the tasks of a file that cannot state them. `None` if the priorities are those of the
    /// file, or no policy ranks by priority.
    pub priorities: Option<AssignedPriorities>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            directory: None,
            scheduler_cpus: None,
            init_timeout: DEFAULT_INIT_TIMEOUT,
            exec_limit: DEFAULT_EXEC_LIMIT,
            realtime: Realtime::default(),
            priority: DEFAULT_PRIORITY,
            dispatch: Dispatch::default(),
            on_crash: OnCrash::default(),
            missing_cpus: MissingCpus::default(),
            descriptors: Descriptors::default(),
            epp: Vec::new(),
            duration: None,
            cpus_from_all: false,
            late_stated: false,
            priorities: None,
        }
    }
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

/// How the executive keeps a preempted process off its CPU.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// It freezes the process.
    #[default]
    Freeze,
    /// It gives the preempting process a higher FIFO priority.
    Priority,
    /// It gives each process with a job the FIFO priority of its rank, so that the kernel runs the next one when a job blocks.
    Rank,
}

impl Dispatch {
    /// Whether the processes have FIFO priorities of their own, which requires the right to that class.
    #[must_use]
    pub fn has_priorities(self) -> bool {
        self != Dispatch::Freeze
    }

    /// Its word in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dispatch::Freeze => "freeze",
            Dispatch::Priority => "priority",
            Dispatch::Rank => "rank",
        }
    }
}

/// The rule for the tasks if the executive dies.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OnCrash {
    /// They are killed.
    #[default]
    Kill,
    /// They are thawed and left to Linux's own scheduler.
    Release,
}

/// Treatment of CPUs of the window table that the machine lacks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum MissingCpus {
    /// A run is refused.
    #[default]
    Refuse,
    /// A slice has those of its CPUs that the machine has; without any, the lowest CPU of the machine.
    Remap,
}

/// Whether a process is given what a client of the scheduler needs: the descriptors of the completion protocol, a shared page, and the
/// variables that name them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Client {
    /// If it can signal completions, by the other keys of its task.
    #[default]
    Auto,
    /// No. It costs the scheduler no descriptor, and cannot signal.
    None,
}

/// How many descriptors a run keeps open.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Descriptors {
    /// One control file for each process in small runs, and for each partition in large ones.
    #[default]
    Many,
    /// A fixed number. A control file that was not used lately is opened when a window needs it.
    Few,
}

/// Priorities that are not those of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssignedPriorities {
    /// The name of the rule: `rm`, `dm`, `opa` or `random`.
    pub rule: &'static str,
    /// The rule found none on some CPUs, where the priorities are deadline-monotonic.
    pub fallback: bool,
}

/// The settings of the command line; they win over the file.
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
    /// Rules for the window table, in place of the file's `rules`.
    pub rules: Option<TableRules>,
    /// Treatment of missing CPUs where the file has no `missing_cpus`.
    pub missing_cpus: Option<MissingCpus>,
    /// The power policy, in place of the file's `power`.
    pub power: Option<PowerSpec>,
    /// Texts that are read instead of the files that the workload names, by their paths.
    pub texts: Vec<Source>,
}
