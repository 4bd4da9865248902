//! Servers for aperiodic work, behind which several tasks may queue.
//!
//! Sprunt, Sha and Lehoczky, "Aperiodic Task Scheduling for Hard-Real-Time Systems", Real-Time Systems 1, 1989: a server has a budget
//! and a period, and serves the aperiodic jobs that come in the order in which they come, whosever they are.

use super::ids::{ServerId, TaskId};
use super::invalid::Invalid;
use super::reservation::Server;
use super::system::System;
use super::task::Task;
use crate::cpus::CpuSet;
use alloc::vec;
use alloc::vec::Vec;

impl System {
    /// The server of the task's jobs under policies with servers for aperiodic work: the one that it shares with others, or one of its
    /// own if it has a reservation. O(1).
    #[must_use]
    pub fn server(&self, task: TaskId) -> Option<Server> {
        let task = &self.tasks[task.index()];
        let own = || Some(Server { reservation: task.reservation?, priority: task.priority });
        task.server.and_then(|shared| self.servers.get(shared.index()).copied()).or_else(own)
    }

    /// By task: the first of the tasks that share its server, in whose place the server stands, and the CPUs that all of them may run
    /// on. A task that shares none leads itself. O(tasks + servers).
    #[must_use]
    pub fn leads(&self) -> Vec<(TaskId, CpuSet)> {
        let mut shared: Vec<Option<(TaskId, CpuSet)>> = vec![None; self.servers.len()];
        let tasks = || (0..).map(TaskId).zip(&self.tasks);
        for (id, task) in tasks() {
            if let Some(slot) = task.server.and_then(|s| shared.get_mut(s.index())) {
                let (_, cpus) = slot.get_or_insert((id, task.affinity));
                *cpus = cpus.intersection(&task.affinity);
            }
        }
        let lead = |s: ServerId| shared.get(s.index()).copied().flatten();
        tasks().map(|(id, task)| task.server.and_then(lead).unwrap_or((id, task.affinity))).collect()
    }

    /// Checks the servers and who is behind them.
    pub(super) fn sound_servers(&self) -> Result<(), Invalid> {
        if let Some(index) =
            self.servers.iter().position(|s| !s.reservation.is_sound() || s.reservation.deadline.is_some())
        {
            return Err(Invalid::Budget(index));
        }
        let unsound = |(_, task): &(TaskId, &Task)| {
            task.server.is_some_and(|s| s.index() >= self.servers.len() || task.reservation.is_some())
        };
        match (0..).map(TaskId).zip(&self.tasks).find(unsound) {
            Some((id, _)) => Err(Invalid::Server(id)),
            None => Ok(()),
        }
    }
}
