//! A workload that has been read.

use crate::diagnostic::{Diagnostic, named};
use crate::platform::Description;
use crate::process::TaskInfo;
use crate::settings::{Client, Settings};
use crate::source::Source;
use std::ops::Range;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Completion, Domain, Execution, OnAbort, PolicySpec, System, TaskId};
use takt_core::power::PowerSpec;
use takt_core::scenario::Scenario;

/// A workload, ready to be simulated or run.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Where it was read from.
    pub source: Source,
    /// The other files that it names, as they were read: series and a platform.
    pub files: Vec<Source>,
    /// The engine's part.
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
    /// Where these are written, as bytes of [`Source::text`].
    pub slice_frequency_places: Vec<Vec<Option<Range<usize>>>>,
    /// The power policy.
    pub power: Option<PowerSpec>,
    /// Where messages about it point.
    pub power_place: Range<usize>,
    /// Frequencies, power and temperatures of a simulated machine.
    pub platform: Option<Description>,
    /// Names of the shared resources.
    pub resources: Vec<String>,
    /// Where keys are that a driver may not carry out ([`Workload::ignored_by`]).
    pub key_places: Vec<(&'static str, Range<usize>)>,
    /// The costs and disturbances of a simulated machine.
    pub scenario: Scenario,
    /// Everything else.
    pub settings: Settings,
    /// The tasks of the kernel's classes, after [`Workload::hand_over`].
    pub handed: Option<Box<Handed>>,
    /// The warnings, in the order of the file.
    pub warnings: Vec<Diagnostic>,
}

/// Tasks that were handed to the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handed {
    /// Their imaginary CPUs, one for each task.
    pub cpus: CpuSet,
    /// By task: the real CPUs on which the kernel may run it; `None` for Takt's own tasks.
    pub affinities: Vec<Option<CpuSet>>,
    /// How many of the domains are Takt's own. They come first.
    pub own_domains: usize,
    /// The file has no domains, but one policy, which is now that of the only own domain.
    pub one_policy: bool,
}

impl Workload {
    /// A workload with nothing but its system.
    pub(crate) fn new(source: &Source, system: System, settings: Settings) -> Workload {
        Workload {
            source: source.clone(),
            files: Vec::new(),
            system,
            tasks: Vec::new(),
            places: Vec::new(),
            partitions: Vec::new(),
            domains: Vec::new(),
            servers: Vec::new(),
            slice_frequencies_mhz: Vec::new(),
            slice_frequency_places: Vec::new(),
            power: None,
            power_place: 0..0,
            platform: None,
            resources: Vec::new(),
            key_places: Vec::new(),
            scenario: Scenario::default(),
            settings,
            handed: None,
            warnings: Vec::new(),
        }
    }

    /// The text of the workload and those of the files that it names.
    #[must_use]
    pub fn sources(&self) -> Vec<Source> {
        [std::slice::from_ref(&self.source), &self.files].concat()
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
        named(text, |task| self.tasks.get(task).map(|info| info.name.as_str()))
    }

    /// Whether the kernel schedules some task.
    #[must_use]
    pub fn has_classes(&self) -> bool {
        self.tasks.iter().any(|task| task.class.is_some())
    }

    /// The CPUs of the machine, without imaginary ones.
    #[must_use]
    pub fn machine(&self) -> CpuSet {
        self.handed.as_ref().map_or(self.system.cpus, |handed| self.system.cpus.difference(&handed.cpus))
    }

    /// The policy of the file.
    #[must_use]
    pub fn policy(&self) -> &PolicySpec {
        match &self.handed {
            Some(handed) if handed.one_policy => &self.system.domains[0].policy,
            _ => &self.system.policy,
        }
    }

    /// The domains of the file, with their names.
    pub fn own_domains(&self) -> impl Iterator<Item = (&Domain, &String)> {
        let own =
            self.handed.as_ref().map_or(usize::MAX, |handed| if handed.one_policy { 0 } else { handed.own_domains });
        self.system.domains.iter().zip(&self.domains).take(own)
    }

    /// Whether jobs of this task are released by events.
    #[must_use]
    pub fn is_released_by_events(&self, task: usize) -> bool {
        matches!(self.system.tasks[task].arrival, Arrival::Event { .. })
    }

    /// Gives each task of the system the rules that follow from what is known of its process.
    pub(crate) fn settle_processes(&mut self) {
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
                let needs = task.runtime.is_some()
                    || task.program.execution != Execution::Declared
                    || !task.program.steps.is_empty();
                let default = if needs { Completion::Signal } else { Completion::None };
                // The same process could not signal in a run either.
                let default = if info.client == Client::None { Completion::None } else { default };
                task.completion = info.completion.unwrap_or(default);
            }
        }
    }
}
