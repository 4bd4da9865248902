//! The acts of a policy while it handles an event or decides: timers, budgets, beginnings and ends of jobs, records.

use crate::model::{Arrival, PolicySpec, TaskId, WindowTable};
use crate::policy::state::Phase;
use crate::policy::{Budget, Context, Event};
use crate::record::{JobId, Outcome, RecordKind};
use crate::time::Time;
use crate::work::Work;

/// Notes an act where the engine mirrors another one, which has to carry it out. With `alone` that is all: the act changes nothing that a
/// policy sees.
macro_rules! note {
    ($cx:ident, $act:expr) => {
        #[cfg(feature = "mirror")]
        if let Some(acts) = &mut $cx.state.acts {
            #[allow(unused_imports)]
            use crate::policy::Act;
            acts.push($act);
        }
    };
    ($cx:ident, $act:expr, alone) => {
        #[cfg(feature = "mirror")]
        if let Some(acts) = &mut $cx.state.acts {
            #[allow(unused_imports)]
            use crate::policy::Act;
            acts.push($act);
            return;
        }
    };
}

impl Context<'_> {
    /// The policy has looked at `tasks` tasks one by one, as a regulator does once per round. A simulator may charge for it.
    pub fn visited(&mut self, tasks: usize) {
        note!(self, Act::Visited { tasks: tasks as u64 }, alone);
        self.state.visited += tasks as u64;
    }
    /// Writes something that only the policy knows into the trace: [`RecordKind::Round`] and [`RecordKind::Burst`].
    pub fn record(&mut self, what: RecordKind) {
        note!(self, Act::Record { what }, alone);
        self.state.record(self.sink, what);
    }
    /// Sets one of the policy's timers; a timer that was set before is moved. It is noticed as
    /// [`Timing`](crate::model::Timing) says, so perhaps late, but [`Event::Timer`] names the instant that was planned.
    pub fn set_timer(&mut self, timer: u16, at: Time) {
        note!(self, Act::SetTimer { timer, at }, alone);
        self.state.set_timer(timer, at, false);
    }
    /// Sets a timer for a border of a table. As releases and deadlines it is noticed at the tick and never later, so that the
    /// table keeps to its grid.
    pub fn set_border(&mut self, timer: u16, at: Time) {
        note!(self, Act::SetBorder { timer, at }, alone);
        self.state.set_timer(timer, at, true);
    }
    /// Cancels a timer.
    pub fn cancel_timer(&mut self, timer: u16) {
        note!(self, Act::CancelTimer { timer }, alone);
        let slot = 2 * self.state.room + usize::from(timer);
        self.state.agenda.remove(slot);
    }
    /// The budgets that another policy has granted these tasks are none of the new one's; those of the tasks themselves stay.
    pub(crate) fn forget_grants(&mut self, tasks: &[TaskId]) {
        for &task in tasks {
            self.state.runs[task.index()].urgency = 0;
            self.state.forget_grant(task, self.sink);
        }
    }
    /// Tells the policy once more that the task waits for a resource, when all have started, if that closes a cycle of jobs that
    /// wait for each other: what a policy that breaks cycles asks for when it takes over from one that does not.
    pub(crate) fn remind_of_cycle(&mut self, task: TaskId) {
        note!(self, Act::Remind { task }, alone);
        if let Some(resource) = self.waits_for(task).filter(|_| self.state.closes_cycle(task)) {
            self.state.events.push(Event::Lock { task, resource, granted: false });
        }
    }
    /// A domain has another policy from now on; what that one makes known comes after it.
    pub(crate) fn domain_policy(&mut self, domain: usize, policy: PolicySpec) {
        self.state.system.domains[domain].policy = policy;
        self.state.domain_switches += 1;
        self.state.takeovers = self.state.takeovers.wrapping_add(1);
        // Which of several equal ones it was makes no difference.
        if let Some(to) = self.state.system.alternatives.iter().position(|other| *other == policy) {
            self.state.record(self.sink, RecordKind::Switch { domain: Some(domain as u16), to: to as u16 });
        }
    }
    /// Another window table holds from now on. `next` becomes the one before. O(tasks).
    pub(crate) fn replace_table(&mut self, to: u16, next: &mut WindowTable) {
        let system = &mut self.state.system;
        core::mem::swap(&mut system.windows, &mut next.windows);
        core::mem::swap(&mut system.be_start, &mut next.be_start);
        let activated = system.tasks.iter_mut().zip(&mut next.budgets);
        for (task, (budget, jitter)) in activated.filter(|(task, _)| task.arrival == Arrival::Activated) {
            core::mem::swap(&mut task.budget, budget);
            core::mem::swap(&mut task.jitter, jitter);
        }
        self.state.record(self.sink, RecordKind::Table { to });
        #[cfg(feature = "power")]
        if let Some(host) = &mut self.state.power {
            host.replace_frequencies(&mut next.frequencies);
            self.state.tell_power(crate::power::Event::Table);
        }
    }
    /// Replenishes a budget: `budget` replaces the rest.
    pub fn replenish(&mut self, task: TaskId, budget: Budget) {
        note!(self, Act::Replenish { task, budget });
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
        state.record(self.sink, RecordKind::Release { task, job, deadline });
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
            state.record(self.sink, RecordKind::Release { task, job, deadline });
            state.count_activation(task, Outcome::Skipped, self.sink);
            let what = RecordKind::Finish { task, job, outcome: Outcome::Skipped, consumed: Work::ZERO };
            state.record(self.sink, what);
        }
    }
    /// Skips an activation whose drawn budget is zero: its number is consumed, so that the next draw is another one.
    pub fn pass_activation(&mut self, task: TaskId) {
        self.state.runs[task.index()].next_job += 1;
    }
    /// Ends the task's current job. The policy gets no [`Event::Finish`] for it; the task's next queued job is released as usual.
    pub fn finish(&mut self, task: TaskId, outcome: Outcome) {
        #[cfg(feature = "mirror")]
        if let Some(acts) = &mut self.state.acts {
            acts.push(crate::policy::Act::Finish { task, outcome });
            // All that follows from it comes with the next view of the engine.
            self.state.runs[task.index()].phase = Phase::Idle;
            return;
        }
        self.state.end_job(task, outcome, false, self.sink);
    }
    /// A window of a table begins.
    pub fn window(&mut self, window: u32, frame: u64) {
        self.state.record(self.sink, RecordKind::Window { window, frame });
        #[cfg(feature = "power")]
        self.state.tell_power(crate::power::Event::WindowStart { window, frame });
    }
    /// Windows passed unserved.
    pub fn windows_lost(&mut self, count: u64) {
        self.state.windows_lost += count;
        self.state.record(self.sink, RecordKind::WindowsLost { count });
    }
    /// Grants the task's present job what its own budget leaves it of CPU time, if it has one. When that is exhausted the engine gives the
    /// job up, so that it delays no other job, and the policy hears of its end ([`Event::Finish`], or [`Event::Handler`]). So it does when
    /// that is found at the end of another budget, which a policy grants in place of it: a smaller one.
    #[inline]
    pub fn grant_own(&mut self, task: TaskId) {
        if self.task(task).budget.is_some() {
            note!(self, Act::GrantOwn { task });
            self.state.grant_own(task, self.sink);
        }
    }
}

#[cfg(feature = "remote")]
impl Context<'_> {
    /// Carries out what a policy did that mirrors this engine. The caller has checked that an act names timers of the policy, and tasks that
    /// have a job where it is about one.
    pub fn carry_out(&mut self, act: crate::policy::Act) {
        use crate::policy::Act;
        match act {
            Act::Visited { tasks } => self.visited(usize::try_from(tasks).unwrap_or(usize::MAX)),
            Act::Record { what } => self.record(what),
            Act::SetTimer { timer, at } => self.set_timer(timer, at),
            Act::SetBorder { timer, at } => self.set_border(timer, at),
            Act::CancelTimer { timer } => self.cancel_timer(timer),
            Act::Replenish { task, budget } => self.replenish(task, budget),
            Act::GrantOwn { task } => self.grant_own(task),
            Act::Finish { task, outcome } => self.finish(task, outcome),
            Act::Urgency { task, urgency } => self.set_urgency(task, urgency),
            Act::Remind { task } => self.remind_of_cycle(task),
        }
    }

    /// The policy `spec` is that of the whole system, or of a domain, from now on: the policy that is asked has failed, and asks this one in its
    /// place. Budgets that it granted are dropped. Budgets of the tasks are granted, also to jobs whose release it did not handle.
    pub fn fall_back(&mut self, domain: Option<u16>, spec: PolicySpec, tasks: &[TaskId]) {
        match domain {
            Some(domain) => self.domain_policy(usize::from(domain), spec),
            None => {
                self.state.system.policy = spec;
                if let Some(to) = self.state.system.alternatives.iter().position(|other| *other == spec) {
                    self.state.record(self.sink, RecordKind::Switch { domain: None, to: to as u16 });
                }
            }
        }
        self.forget_grants(tasks);
    }
}
