//! The view of a policy on the engine. Its acts are in `engine::acts`.

use super::state::{Job, Phase, State};
use crate::cpus::CpuSet;
use crate::model::{Locking, ResourceId, System, Task, TaskId, Terms};
use crate::record::{JobId, Place, Sink};
use crate::time::{Span, Time};
use crate::utility::Utility;
use crate::work::Work;

/// A timer of a policy, and what it is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    timer: u16,
    set: Option<Time>,
}

impl Alarm {
    pub(crate) const fn new(timer: u16) -> Alarm {
        Alarm { timer, set: None }
    }
    /// The timer is not set: it has gone off, or the policy starts.
    pub(crate) fn clear(&mut self) {
        self.set = None;
    }
    /// The timer has gone off, if it was not set again since.
    pub(crate) fn passed(&mut self, now: Time) {
        self.set = self.set.filter(|at| *at > now);
    }
    /// Sets the timer, or cancels it, unless that is so already.
    pub(crate) fn set(&mut self, wanted: Option<Time>, cx: &mut Context<'_>) {
        if wanted == self.set {
            return;
        }
        self.set = wanted;
        match wanted {
            Some(at) => cx.set_timer(self.timer, at),
            None => cx.cancel_timer(self.timer),
        }
    }
}

/// The view and the acts of a policy while it handles an event or decides. A query costs O(1), and the utility of a job O(log points) of
/// its utility. A timer, a budget and the beginning or end of a job cost O(log n) for n tasks, an end also what the engine says of
/// resources.
pub struct Context<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) sink: &'a mut dyn Sink,
}

impl Context<'_> {
    /// The instant.
    #[must_use]
    pub fn now(&self) -> Time {
        self.state.now
    }
    /// The whole system.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.state.system
    }
    /// The interned CPU sets.
    pub(crate) fn places(&self) -> &[CpuSet] {
        &self.state.places
    }
    /// A task as it was described.
    #[must_use]
    pub fn task(&self, task: TaskId) -> &Task {
        &self.state.system.tasks[task.index()]
    }
    /// The terms that hold for the task, or will hold from a later release on. A server takes them over at once: its period is not that of the
    /// releases, and a new runtime in an old period would be more than was admitted.
    #[must_use]
    pub fn agreed(&self, task: TaskId) -> Terms {
        self.state.agreed(task)
    }
    /// The task's current job, if it has one.
    #[must_use]
    pub fn job(&self, task: TaskId) -> Option<Job> {
        self.state.job(task)
    }
    /// The work that the task's current job has done so far, if it has one.
    #[must_use]
    #[inline]
    pub fn consumed(&self, task: TaskId) -> Option<Work> {
        let run = &self.state.runs[task.index()];
        run.has_job().then(|| run.consumed + run.unaccounted(self.state.now))
    }
    /// When the task's current job was released, if it has one.
    #[must_use]
    #[inline]
    pub fn release_of(&self, task: TaskId) -> Option<Time> {
        let run = &self.state.runs[task.index()];
        run.has_job().then_some(run.release)
    }
    /// The absolute deadline of the task's current job, if it has one; [`Time::MAX`] without one.
    #[must_use]
    #[inline]
    pub fn deadline_of(&self, task: TaskId) -> Option<Time> {
        let run = &self.state.runs[task.index()];
        run.has_job().then_some(run.deadline)
    }
    /// Whether the task has a job that could run now.
    #[must_use]
    pub fn is_ready(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].phase == Phase::Ready
    }
    /// Whether the task's processes have ended.
    #[must_use]
    pub fn is_gone(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].is_gone()
    }
    /// Where the task runs now.
    #[must_use]
    pub fn place_of(&self, task: TaskId) -> Option<Place> {
        self.state.runs[task.index()].place
    }
    /// Where the task ran last.
    #[must_use]
    pub fn last_place(&self, task: TaskId) -> Option<Place> {
        self.state.runs[task.index()].last_place
    }
    /// How many CPUs the system has.
    #[inline]
    pub(crate) fn cpus(&self) -> usize {
        self.state.cpus.len()
    }
    /// The task on a single-CPU place.
    #[must_use]
    #[inline]
    pub fn running_on(&self, place: Place) -> Option<TaskId> {
        self.state.cpus.get(place.index()).and_then(|cpu| cpu.task)
    }
    /// The number of the decision that is to come.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.state.round
    }
    /// Whether the decision before this one is still carried out as it was made, so that CPUs can be kept
    /// ([`Decision::keep`](super::Decision::keep)) by a policy that decided about them then.
    #[must_use]
    #[inline]
    pub fn stands(&self) -> bool {
        !self.state.own_work_begins
    }
    /// Whether the task's affinity allows a single-CPU place.
    #[must_use]
    pub fn may_run(&self, task: TaskId, place: Place) -> bool {
        !self.state.system.tasks[task.index()].affinity.is_disjoint(&self.state.places[place.index()])
    }
    /// The rest of the task's budget; `None` when it has none.
    #[must_use]
    pub fn budget_left(&self, task: TaskId) -> Option<Span> {
        self.state.budget_left(task)
    }
    /// CPU time that the task's current job still needs by its declaration, or its handler: zero when it has overrun it,
    /// `None` when nothing was declared or there is no job.
    #[must_use]
    pub fn remaining(&self, task: TaskId) -> Option<Work> {
        let run = &self.state.runs[task.index()];
        let declared = run.declared.filter(|_| run.has_job())?;
        Some((declared - run.own(run.unaccounted(self.state.now))).or_zero())
    }
    /// How long the rest of its job's declared work takes, at the speed of the CPU on which the task runs or ran last. `None` when
    /// nothing was declared or there is no job.
    #[must_use]
    #[inline]
    pub fn time_left(&self, task: TaskId) -> Option<Span> {
        let left = self.remaining(task)?;
        let run = &self.state.runs[task.index()];
        Some(if cfg!(feature = "multiprocessor") { run.speed.time_for(left) } else { left.nominal_time() })
    }

    /// The remaining part of the task's own budget for its job, in CPU time at nominal speed; a handler has no such limit, nor has a task without a
    /// budget.
    #[must_use]
    pub fn own_budget_left(&self, task: TaskId) -> Option<Span> {
        self.state.own_budget_left(task)
    }

    /// The work that the task's current job was declared to need when it began, or its handler.
    #[must_use]
    pub fn declared(&self, task: TaskId) -> Option<Work> {
        let run = &self.state.runs[task.index()];
        run.declared.filter(|_| run.has_job())
    }
    /// The utility, in millionths, that the task's current job is worth to a policy if it completes at `finish`
    /// ([`Utility::potential`]); that of its handler where it is at that, and zero without a job.
    #[must_use]
    pub fn potential(&self, task: TaskId, finish: Time) -> u64 {
        self.value(task, |function, deadline, planned| function.potential(finish - planned, deadline))
    }
    /// The utility, in millionths, that the task's current job accrues if it completes at `finish` ([`Utility::at`]). A handler,
    /// which accrues nothing, counts as a step at its own deadline; zero without a job.
    #[must_use]
    pub fn worth(&self, task: TaskId, finish: Time) -> u64 {
        if self.in_handler(task) && finish > self.state.runs[task.index()].deadline {
            return 0;
        }
        self.value(task, |function, deadline, planned| function.at(finish - planned, deadline))
    }
    /// The utility of the task's job by its time-utility function, relative deadline and planned release, or that of its handler.
    fn value(&self, task: TaskId, of: impl Fn(&Utility, Option<Span>, Time) -> u64) -> u64 {
        let (run, described) = (&self.state.runs[task.index()], self.task(task));
        match (run.has_job(), run.handler) {
            (false, _) => 0,
            (true, true) => described.handler.map_or(0, |h| h.utility),
            (true, false) => of(described.utility.as_ref().unwrap_or(&Utility::DEFAULT), run.relative, run.planned),
        }
    }
    /// Whether the task's current job has not run yet.
    #[must_use]
    pub fn is_fresh(&self, task: TaskId) -> bool {
        self.state.runs[task.index()].fresh
    }
    /// Whether the task is at the handler of an aborted job.
    #[must_use]
    pub fn in_handler(&self, task: TaskId) -> bool {
        let run = &self.state.runs[task.index()];
        run.handler && run.has_job()
    }
    /// When the task's next job will be released, as far as the engine releases it.
    #[must_use]
    pub fn next_release(&self, task: TaskId) -> Option<Time> {
        self.state.runs[task.index()].next_release
    }
    /// How resources are handed out.
    #[must_use]
    pub fn locking(&self) -> Locking {
        self.state.system.locking
    }
    /// The resource for which the task waits.
    #[must_use]
    pub fn waits_for(&self, task: TaskId) -> Option<ResourceId> {
        self.state.runs[task.index()].waits_for
    }
    /// The tasks that wait for a resource, in the order of asking.
    pub fn waiters(&self, resource: ResourceId) -> impl Iterator<Item = TaskId> + '_ {
        self.state.resources[usize::from(resource.0)].waiters.iter().copied()
    }
    /// The tasks whose steps lock a resource.
    #[must_use]
    pub fn users(&self, resource: ResourceId) -> &[TaskId] {
        &self.state.resources[usize::from(resource.0)].users
    }
    /// Tells the engine how urgent the task's job is; lower is more urgent. It decides who of those that wait for a resource
    /// gets it, and holds until it is set again.
    pub fn set_urgency(&mut self, task: TaskId, urgency: i64) {
        #[cfg(feature = "mirror")]
        if let Some(acts) = &mut self.state.acts {
            acts.push(super::act::Act::Urgency { task, urgency });
        }
        self.state.runs[task.index()].urgency = urgency;
    }
    /// The holder of a resource.
    #[must_use]
    pub fn owner(&self, resource: ResourceId) -> Option<TaskId> {
        self.state.resources[usize::from(resource.0)].owner
    }
    /// The effective budget of a task's job: drawn uniformly from `budget ± jitter / 2`, the same for the same seed.
    #[must_use]
    pub fn drawn_budget(&self, task: TaskId, job: JobId) -> Span {
        self.state.drawn_budget(task, job)
    }
    /// The task's own budget for its present job: drawn like that, at least a nanosecond. `None` when the task has no
    /// budget, or is at a handler, which has no such limit.
    #[must_use]
    pub fn job_budget(&self, task: TaskId) -> Option<Span> {
        self.state.job_budget(task)
    }
    /// Number of the job that the next activation of the task will be.
    #[must_use]
    pub fn next_job(&self, task: TaskId) -> JobId {
        self.state.runs[task.index()].next_job
    }
}
