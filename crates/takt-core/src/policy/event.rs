//! Events for a policy.

use crate::model::{ResourceId, TaskId};
use crate::record::JobId;
use crate::time::Time;
use crate::work::Work;

/// An event that a policy receives. All events of one instant arrive before the one call of [`Policy::decide`](crate::policy::Policy::decide).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A job is ready for the first time. Its release may lie in the past when it waited in its task's backlog.
    Release {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
    },
    /// A job is over, by its own signal, by a policy's verdict, or because its process ended.
    /// The events of the resources that it held follow.
    Finish {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// Its consumption, measured by its budget's clock.
        consumed: Work,
    },
    /// A budget is exhausted. The policy replenishes it, ends the job, or lets it wait.
    BudgetExpired {
        /// The task.
        task: TaskId,
        /// The consumption of the job so far.
        consumed: Work,
    },
    /// A job waits for something other than a CPU.
    Block {
        /// Its task.
        task: TaskId,
        /// The consumption of the job so far.
        consumed: Work,
    },
    /// A blocked job is ready again. If it waited for a resource and no granted [`Event::Lock`] came before, its request was withdrawn.
    Wake {
        /// Its task.
        task: TaskId,
    },
    /// A job passes its absolute deadline unfinished. Sent only when late jobs are aborted, just before the abort.
    Deadline {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
    },
    /// A job asks for a resource; `granted` says whether it has it. If not, [`Event::Block`] follows.
    Lock {
        /// Its task.
        task: TaskId,
        /// The requested resource.
        resource: ResourceId,
        /// Whether it has it now.
        granted: bool,
    },
    /// A job gives a resource back.
    Unlock {
        /// Its task.
        task: TaskId,
        /// The unlocked resource.
        resource: ResourceId,
    },
    /// A job was aborted and continues with its handler, with a new deadline and nothing consumed. If it waited for a resource,
    /// it waits no longer and is ready. It keeps the resources that it holds until the handler is over.
    Handler {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// Its consumption until then.
        consumed: Work,
    },
    /// A running job lets others run; it stays ready.
    Yield {
        /// Its task.
        task: TaskId,
        /// The consumption of the job so far.
        consumed: Work,
    },
    /// The task's share, importance, period, deadline, runtime or reservation has changed, or it came back after its
    /// [`Event::Exit`].
    Changed {
        /// The task.
        task: TaskId,
    },
    /// A timer that the policy set is due.
    Timer {
        /// Its number, from zero below [`Policy::timers`](crate::policy::Policy::timers).
        timer: u16,
        /// The instant it was set to, on the tick; it may be noticed later.
        due: Time,
    },
    /// The task's last process has ended; no job of it will run again.
    Exit {
        /// The task.
        task: TaskId,
    },
}

impl Event {
    /// The task that the event is about.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        match *self {
            Event::Release { task, .. }
            | Event::Finish { task, .. }
            | Event::BudgetExpired { task, .. }
            | Event::Block { task, .. }
            | Event::Wake { task }
            | Event::Deadline { task, .. }
            | Event::Lock { task, .. }
            | Event::Unlock { task, .. }
            | Event::Handler { task, .. }
            | Event::Yield { task, .. }
            | Event::Changed { task }
            | Event::Exit { task } => Some(task),
            Event::Timer { .. } => None,
        }
    }
}
