//! What a policy may see and do while it handles an event or decides.

use super::{Job, Phase, State};
use crate::model::{Locking, ResourceId, System, Task, TaskId};
use crate::policy::{Budget, Clock, Event, PolicySpec};
use crate::record::{JobId, Outcome, Place, Sink, What};
use crate::time::{Span, Time};
use crate::utility::Utility;

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
    /// The timer has gone off, if it was not set anew since.
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

/// What a policy may see and do while it handles an event or decides. To look costs O(1), and what a job is worth O(log points) of
/// its utility. A timer, a budget and the beginning or end of a job cost O(log n) for n tasks, an end also what [`super`] says of
/// resources.
pub struct Context<'a> {
    pub(super) state: &'a mut State,
    pub(super) sink: &'a mut dyn Sink,
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
    /// A task as it was described.
    #[must_use]
    pub fn task(&self, task: TaskId) -> &Task {
        &self.state.system.tasks[task.index()]
    }
    /// The task's current job, if it has one.
    #[must_use]
    pub fn job(&self, task: TaskId) -> Option<Job> {
        self.state.job(task)
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
    /// Who runs on a single-CPU place.
    #[must_use]
    pub fn running_on(&self, place: Place) -> Option<TaskId> {
        self.state.cpu_task.get(place.index()).copied().flatten()
    }
    /// Whether the task's affinity allows a single-CPU place.
    #[must_use]
    pub fn may_run(&self, task: TaskId, place: Place) -> bool {
        !self.state.system.tasks[task.index()].affinity.is_disjoint(&self.state.places[place.index()])
    }
    /// What is left of the task's budget; `None` when it has none.
    #[must_use]
    pub fn budget_left(&self, task: TaskId) -> Option<Span> {
        self.state.budget_left(task)
    }
    /// CPU time that the task's current job still needs by its declaration, or its handler: zero when it has overrun it,
    /// `None` when nothing was declared or there is no job.
    #[must_use]
    pub fn remaining(&self, task: TaskId) -> Option<Span> {
        let run = &self.state.runs[task.index()];
        let declared = run.declared.filter(|_| run.has_job())?;
        Some((declared - run.own(run.unaccounted(self.state.now))).max(Span::ZERO))
    }
    /// CPU time that the task's current job was declared to need when it began, or its handler.
    #[must_use]
    pub fn declared(&self, task: TaskId) -> Option<Span> {
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
    /// What the task's job is worth by its time-utility function, relative deadline and planned release, or what its handler is.
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
    /// What the task waits for.
    #[must_use]
    pub fn waits_for(&self, task: TaskId) -> Option<ResourceId> {
        self.state.runs[task.index()].waits_for
    }
    /// Who waits for a resource, in the order of asking.
    pub fn waiters(&self, resource: ResourceId) -> impl Iterator<Item = TaskId> + '_ {
        self.state.resources[usize::from(resource.0)].waiters.iter().copied()
    }
    /// The tasks whose steps lock a resource.
    #[must_use]
    pub fn users(&self, resource: ResourceId) -> &[TaskId] {
        &self.state.resources[usize::from(resource.0)].users
    }
    /// Tells the engine how urgent the task's job is; lower is more urgent. It decides who of those that wait for a resource
    /// gets it, and holds until it is told anew.
    pub fn set_urgency(&mut self, task: TaskId, urgency: i64) {
        self.state.runs[task.index()].urgency = urgency;
    }
    /// The policy has looked at `tasks` tasks one by one, as a regulator does once per round. A simulator may charge for it.
    pub fn visited(&mut self, tasks: usize) {
        self.state.visited += tasks as u64;
    }
    /// Writes something that only the policy knows into the trace: [`What::Round`] and [`What::Burst`].
    pub fn record(&mut self, what: What) {
        self.state.record(self.sink, what);
    }
    /// Who holds a resource.
    #[must_use]
    pub fn owner(&self, resource: ResourceId) -> Option<TaskId> {
        self.state.resources[usize::from(resource.0)].owner
    }

    /// Sets one of the policy's timers; a timer that was set before is moved. It is noticed as
    /// [`Timing`](crate::model::Timing) says, so perhaps late, but [`Event::Timer`] names the instant that was planned.
    pub fn set_timer(&mut self, timer: u16, at: Time) {
        self.state.set_timer(timer, at, false);
    }
    /// Sets a timer for a border of a table. As releases and deadlines it is noticed at the tick and never later, so that the
    /// table keeps to its grid.
    pub fn set_border(&mut self, timer: u16, at: Time) {
        self.state.set_timer(timer, at, true);
    }
    /// Cancels a timer.
    pub fn cancel_timer(&mut self, timer: u16) {
        let slot = 2 * self.state.runs.len() + usize::from(timer);
        self.state.agenda.remove(slot);
    }
    /// The budgets that another policy has granted these tasks are none of the new one's; those of the tasks themselves stay.
    pub(crate) fn forget_grants(&mut self, tasks: &[TaskId]) {
        for &task in tasks {
            self.state.runs[task.index()].urgency = 0;
            self.state.forget_grant(task, self.sink);
        }
    }
    /// Tells the policy once more that the task waits for a resource, when all have started, if that closes a circle of jobs that
    /// wait for each other: what a policy that breaks circles asks for when it takes over from one that does not.
    pub(crate) fn remind_of_circle(&mut self, task: TaskId) {
        if let Some(resource) = self.waits_for(task).filter(|_| self.state.closes_circle(task)) {
            self.state.events.push(Event::Request { task, resource, granted: false });
        }
    }
    /// A domain has another policy from now on; what that one makes known comes after it.
    pub(crate) fn domain_policy(&mut self, domain: usize, policy: PolicySpec) {
        self.state.system.domains[domain].policy = policy;
        // Which of several equal ones it was makes no difference.
        if let Some(to) = self.state.system.alternatives.iter().position(|other| *other == policy) {
            self.state.record(self.sink, What::Switch { domain: Some(domain as u16), to: to as u16 });
        }
    }
    /// Replenishes a budget: `budget` replaces what is left.
    pub fn replenish(&mut self, task: TaskId, budget: Budget) {
        self.state.grant(task, budget, self.sink);
    }
    /// Activates a process of a window table ([`crate::model::Arrival::Activated`]). A job that no signal has ended yet is continued;
    /// otherwise a job is released. Returns the number of the activation. The policy gets no event for it.
    ///
    /// # Panics
    /// When the task still has a job, or its processes have ended.
    pub fn activate(&mut self, task: TaskId, deadline: Option<Time>) -> JobId {
        let state = &mut *self.state;
        let (now, run) = (state.now, &mut state.runs[task.index()]);
        assert!(run.phase == Phase::Idle, "task {} cannot be activated now", task.0);
        let job = run.next_job;
        run.job = job;
        run.next_job += 1;
        run.counts.activations += 1;
        if run.open.is_none() {
            state.open_job(task, deadline);
        }
        state.record(self.sink, What::Release { task, job, deadline });
        state.begin_job(task, now, now, deadline.unwrap_or(Time::MAX));
        let told = state.events.pop();
        debug_assert!(matches!(told, Some(Event::Release { .. })));
        job
    }
    /// A process of a window table that has failed misses what would have been its next job. Nothing happens to one that has ended
    /// regularly.
    pub fn miss_activation(&mut self, task: TaskId, deadline: Option<Time>) {
        let state = &mut *self.state;
        if state.runs[task.index()].phase == Phase::Failed {
            let job = state.runs[task.index()].next_job;
            state.runs[task.index()].next_job += 1;
            state.open_job(task, deadline);
            state.record(self.sink, What::Release { task, job, deadline });
            state.count_activation(task, Outcome::Skipped, self.sink);
            let what = What::Finish { task, job, outcome: Outcome::Skipped, consumed: Span::ZERO };
            state.record(self.sink, what);
        }
    }
    /// Passes over an activation whose drawn budget is zero: its number is used up, so that the next draw is another one.
    pub fn pass_activation(&mut self, task: TaskId) {
        self.state.runs[task.index()].next_job += 1;
    }
    /// Ends the task's current job. The policy gets no [`Event::Finish`] for it; the task's next queued job is released as usual.
    pub fn finish(&mut self, task: TaskId, outcome: Outcome) {
        self.state.end_job(task, outcome, false, self.sink);
    }
    /// A window of a table begins.
    pub fn window(&mut self, window: u32, frame: u64) {
        self.state.record(self.sink, What::Window { window, frame });
    }
    /// Windows passed unserved.
    pub fn windows_lost(&mut self, count: u64) {
        self.state.windows_lost += count;
        self.state.record(self.sink, What::WindowsLost { count });
    }
    /// The effective budget of a task's job: drawn uniformly from `budget ± jitter / 2`, the same for the same seed.
    #[must_use]
    pub fn drawn_budget(&self, task: TaskId, job: JobId) -> Span {
        self.state.drawn_budget(task, job)
    }
    /// What the task's own budget allows its present job: drawn like that, at least a nanosecond. `None` when the task has no
    /// budget, or is at a handler, which has no such limit.
    #[must_use]
    pub fn job_budget(&self, task: TaskId) -> Option<Span> {
        self.state.job_budget(task)
    }
    /// Grants the task's present job what its own budget allows it of CPU time, if it has one.
    pub(crate) fn grant_own(&mut self, task: TaskId) {
        if let Some(amount) = self.job_budget(task) {
            self.replenish(task, Budget { amount, clock: Clock::Cpu });
        }
    }
    /// Number of the job that the next activation of the task will be.
    #[must_use]
    pub fn next_job(&self, task: TaskId) -> JobId {
        self.state.runs[task.index()].next_job
    }
}
