//! Servers for aperiodic work, behind which several tasks may queue.
//!
//! Sprunt, Sha and Lehoczky, "Aperiodic Task Scheduling for Hard-Real-Time Systems", Real-Time Systems 1, 1989: a server has a budget
//! and a period, and serves the aperiodic jobs that come in the order in which they come, whosever they are.

use super::{Invalid, Reservation, System, TaskId};
use crate::cpus::CpuSet;
use crate::time::Span;
use alloc::vec;
use alloc::vec::Vec;

/// A server that tasks share: the index into [`System::servers`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerId(pub u32);

impl ServerId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A server for aperiodic work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// The budget in each period for all jobs that it serves.
    pub reservation: Reservation,
    /// Fixed priority of these jobs where servers are ranked by priority; a higher number is more important.
    pub priority: u32,
}

impl Reservation {
    /// So much in each period, by its end.
    #[must_use]
    pub const fn new(budget: Span, period: Span) -> Reservation {
        Reservation { budget, period, deadline: None }
    }

    /// The relative deadline by which a budget is there.
    #[must_use]
    pub fn relative_deadline(&self) -> Span {
        self.deadline.unwrap_or(self.period)
    }

    /// Whether there is a budget, no more of it than the deadline allows, and no later deadline than the end of the period.
    pub(super) fn is_sound(&self) -> bool {
        let deadline = self.relative_deadline();
        self.budget > Span::ZERO && self.budget <= deadline && deadline <= self.period
    }
}

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
        let unsound = |(_, task): &(TaskId, &super::Task)| {
            task.server.is_some_and(|s| s.index() >= self.servers.len() || task.reservation.is_some())
        };
        match (0..).map(TaskId).zip(&self.tasks).find(unsound) {
            Some((id, _)) => Err(Invalid::Server(id)),
            None => Ok(()),
        }
    }
}
