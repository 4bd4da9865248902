//! The part of a workload that only a simulation carries out.

use crate::workload::Workload;
use crate::{scenario, task};
use takt_core::input::Input;
use takt_core::model::{Program, Step, TaskId, Timing};
use takt_core::scenario::Scenario;

impl Workload {
    /// The keys that only a simulation carries out, in the words of the file: each key with the tasks that have it, or with none for a key
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

    /// Removes the part that only a simulation carries out. A run schedules the rest, and so does its replay. Of the steps of programs the
    /// locks remain.
    pub fn clear_simulated(&mut self) {
        for task in &mut self.system.tasks {
            // The locks declare the users of a resource, for its ceiling.
            let locks = task.program.steps.iter().filter(|step| matches!(step, Step::Lock(_) | Step::Unlock(_)));
            task.program = Program::doing(locks.copied().collect());
        }
        self.system.timing = Timing::default();
        if !self.follows_load() {
            self.system.load = None;
        }
        let mut changes = std::mem::take(&mut self.scenario.changes);
        changes.retain(|(_, change)| is_real(change));
        if !changes.iter().any(|(_, change)| matches!(change, Input::Switch { .. })) {
            self.system.alternatives.clear();
        }
        self.scenario = Scenario { changes, ..Scenario::default() };
    }

    /// Whether the programs of all tasks apply the `load`, as `takt burn` does.
    #[must_use]
    pub fn follows_load(&self) -> bool {
        self.tasks.iter().all(|task| task.cmd.as_ref().is_some_and(|cmd| cmd.contains("takt burn")))
    }
}

/// Whether a run carries out this change of tasks or policy. A real program is not blocked from outside.
pub(crate) fn is_real(change: &Input) -> bool {
    !matches!(change, Input::Block { .. } | Input::Wake { .. } | Input::Skew { .. })
}
