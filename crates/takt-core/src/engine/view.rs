//! Queries of a driver between two steps: in O(1), but for [`Engine::totals`] and what the policy is asked
//! ([`Engine::home`]).

use super::messages::Command;
use super::step::Engine;
use crate::cpus::CpuSet;
#[cfg(doc)]
use crate::input::Input;
use crate::model::{Arrival, ResourceId, System, TaskId, Terms};
use crate::policy::{Clock, Job};
#[cfg(doc)]
use crate::policy::{Context, Policy};
use crate::record::{JobId, Place};
use crate::stats::Counts;
use crate::time::{Span, Time};
use crate::work::{Speed, Work};

impl Engine {
    /// The system that is scheduled.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.state.system
    }
    /// The system, with what has changed of it: terms of tasks, and the policy.
    #[must_use]
    pub fn into_system(self) -> System {
        self.state.system
    }
    /// The terms that hold for the task, or will hold from a later release on ([`Context::agreed`](crate::policy::Context::agreed)).
    #[must_use]
    pub fn agreed(&self, task: TaskId) -> Terms {
        self.state.agreed(task)
    }
    /// How often the terms of a task in [`Engine::system`] have changed, or a task has returned. A mode change counts when it is asked for, and again
    /// when its period and deadline hold. It wraps around.
    #[must_use]
    pub fn changes_of_terms(&self) -> u32 {
        self.state.terms_changes
    }
    /// The interned CPU sets.
    #[must_use]
    pub fn places(&self) -> &[CpuSet] {
        &self.state.places
    }
    /// The speed of a place: that of its slowest CPU.
    #[must_use]
    #[inline]
    pub fn speed(&self, place: Place) -> Speed {
        self.state.speed(place)
    }
    /// The instant of the last step.
    #[must_use]
    pub fn now(&self) -> Time {
        self.state.now
    }
    /// The commands of the last step.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }
    /// The tasks that run now. Their order has no meaning.
    #[must_use]
    pub fn running(&self) -> &[TaskId] {
        &self.state.running
    }
    /// The task's current job.
    #[must_use]
    pub fn job(&self, task: TaskId) -> Option<Job> {
        self.state.job(task)
    }
    /// The number of the task's current job. O(1).
    #[must_use]
    #[inline]
    pub fn job_number(&self, task: TaskId) -> Option<JobId> {
        let run = &self.state.runs[task.index()];
        run.has_job().then_some(run.job)
    }
    /// Whether events release the jobs of the task. O(1).
    #[must_use]
    pub fn is_released_by_events(&self, task: TaskId) -> bool {
        matches!(self.state.system.tasks[task.index()].arrival, crate::model::Arrival::Event { .. })
    }

    /// Whether a release of the task is planned. O(1).
    #[must_use]
    pub fn is_planned(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].next_release.is_some()
    }

    /// Where the task runs.
    #[must_use]
    pub fn place_of(&self, task: TaskId) -> Option<Place> {
        self.state.runs[task.index()].place
    }
    /// The task on a single-CPU place, alone or as a task on several CPUs.
    #[must_use]
    pub fn running_on(&self, place: Place) -> Option<TaskId> {
        self.state.cpus.get(place.index()).and_then(|cpu| cpu.task)
    }
    /// The CPU that the policy has the task on before it runs for the first time ([`Policy::home`]).
    #[must_use]
    pub fn home(&self, task: TaskId) -> Option<Place> {
        self.policy.home(task)
    }
    /// Whether the task's current job has been dispatched.
    #[must_use]
    pub fn is_dispatched(&self, task: TaskId) -> bool {
        let run = &self.state.runs[task.index()];
        run.has_job() && !run.fresh
    }
    /// Whether the task's program, which is between two jobs, would begin the current job if that were dispatched now.
    #[must_use]
    pub fn may_begin(&self, task: TaskId) -> bool {
        let run = &self.state.runs[task.index()];
        run.phase == crate::policy::state::Phase::Ready && run.at.is_none() && !run.handler
    }
    /// Shows the jobs that may run in the order of the policy ([`Policy::order`]). O(jobs).
    #[cfg(feature = "order")]
    pub fn order(&mut self, show: &mut dyn FnMut(crate::policy::Standing<'_>)) {
        let Engine { state, policy, .. } = self;
        policy.order(&crate::policy::Context { state, sink: &mut () }, show);
    }
    /// Whether the task's consumption is limited by a CPU-time budget now, so that a driver with a meter should send
    /// [`Input::Usage`].
    #[must_use]
    pub fn wants_usage(&self, task: TaskId) -> bool {
        let run = &self.state.runs[task.index()];
        run.clock == Clock::Cpu && run.budget.is_some() && run.has_job()
    }
    /// Whether the task's jobs are ever granted budgets of CPU time: its own, or those of its policy.
    #[must_use]
    pub fn meters(&self, task: TaskId) -> bool {
        let described = &self.state.system.tasks[task.index()];
        described.arrival != Arrival::Activated && (described.budget.is_some() || self.policy.meters())
    }
    /// How often a policy has taken over from another one, of the whole system or of a domain. A driver with meters asks for [`Engine::meters`] again when
    /// it has changed. It wraps around.
    #[must_use]
    pub fn takeovers(&self) -> u32 {
        self.state.takeovers
    }
    /// How much the task's current job has consumed up to the last step, as far as the engine knows. Without a meter that is the time for which it had
    /// its CPUs.
    #[must_use]
    pub fn consumed(&self, task: TaskId) -> Work {
        let run = &self.state.runs[task.index()];
        run.consumed + run.unaccounted(self.state.now)
    }
    /// Counts of one task.
    #[must_use]
    pub fn counts(&self, task: TaskId) -> Counts {
        let counts = self.state.runs[task.index()].counts;
        if self.state.is_activated(task) && !self.state.signals(task) { counts.without_jobs() } else { counts }
    }
    /// Counts summed over all tasks, those included whose numbers other tasks have now. O(tasks).
    #[must_use]
    pub fn totals(&self) -> Counts {
        let present = (0..self.state.runs.len()).map(|task| self.counts(TaskId(task as u32)));
        present.chain(self.state.departed).sum()
    }
    /// How much of what the task's current job has consumed went into its own work, and not into that of an aborted job.
    #[must_use]
    pub fn own_work(&self, task: TaskId) -> Work {
        let run = &self.state.runs[task.index()];
        run.own(run.unaccounted(self.state.now))
    }
    /// The job whose work the task's program is at: an earlier one than the current job while the task is behind
    /// ([`crate::model::OnAbort`]), and in a window table the first activation of the job. `None` between two jobs.
    #[must_use]
    #[inline]
    pub fn at(&self, task: TaskId) -> Option<JobId> {
        self.state.runs[task.index()].at
    }
    /// How often the running task of a CPU changed; a CPU that idles in between still counts once, and going idle does not count.
    #[must_use]
    pub fn context_switches(&self) -> u64 {
        self.state.context_switches
    }
    /// Windows that passed unserved because the driver came too late.
    #[must_use]
    pub fn windows_lost(&self) -> u64 {
        self.state.windows_lost
    }
    /// How many requests for a resource closed a cycle of jobs that wait for each other.
    #[must_use]
    pub fn deadlocks(&self) -> u64 {
        self.state.deadlocks
    }
    /// How many tasks the policy has looked at one by one in the last step, beyond handling its events
    /// ([`Context::visited`]): what a simulator charges for.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.state.visited
    }
    /// The tasks of which a release, a deadline or the end of a budget was due in the last step, each once, in the order in
    /// which that was handled.
    #[must_use]
    pub fn due(&self) -> &[TaskId] {
        &self.state.due
    }
    /// The factor on what the task's current job needs ([`System::load`]), in millionths. A handler's work is not scaled.
    #[must_use]
    pub fn load(&self, task: TaskId) -> u32 {
        self.state.runs[task.index()].load
    }
    /// CPU time that the task's current job, or its handler, was declared to need when it began, its load included.
    #[must_use]
    pub fn declared(&self, task: TaskId) -> Option<Work> {
        self.state.runs[task.index()].declared
    }
    /// The rest of the task's budget; `None` when it has none.
    #[must_use]
    pub fn budget_left(&self, task: TaskId) -> Option<Span> {
        self.state.budget_left(task)
    }
    /// CPU time after which the engine notices the end of the task's budget: what remains of it, and the task's skew
    /// ([`Input::Skew`](crate::input::Input::Skew)). `None` without a budget.
    #[must_use]
    pub fn budget_noticed_in(&self, task: TaskId) -> Option<Span> {
        Some(self.state.budget_left(task)? + self.state.runs[task.index()].notice())
    }
    /// The rest of the budget that the task declares for each job; `None` without one, and for a handler.
    #[must_use]
    pub fn own_budget_left(&self, task: TaskId) -> Option<Span> {
        self.state.own_budget_left(task)
    }
    /// Whether the task waits for a resource.
    #[must_use]
    pub fn waits(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].waits_for.is_some()
    }
    /// The resource that the task waits for.
    #[must_use]
    pub fn waits_for(&self, task: TaskId) -> Option<ResourceId> {
        self.state.runs[task.index()].waits_for
    }
    /// Whether the task's program has ended for good.
    #[must_use]
    pub fn is_gone(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].is_gone()
    }
    /// Whether the task leaves when its present job is over ([`Input::Leave`](crate::input::Input::Leave)).
    #[must_use]
    pub fn is_leaving(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].leaving.is_some()
    }
    /// Whether every task's program has ended for good.
    #[must_use]
    pub fn all_gone(&self) -> bool {
        self.state.alive == 0
    }
    /// Whether some task's program has failed, so that the task misses its jobs.
    #[must_use]
    pub fn any_failed(&self) -> bool {
        self.state.failed > 0
    }
}
