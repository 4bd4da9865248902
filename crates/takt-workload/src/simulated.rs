//! What of a workload only a simulation carries out.

use crate::workload::Workload;
use crate::{scenario, task};
use takt_core::model::TaskId;

impl Workload {
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
}
