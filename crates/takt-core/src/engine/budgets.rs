//! Budgets: how they are granted, and when their end is noticed.
//!
//! Servers, reservations, `edf-wm` and `ipi` also grant budgets of their own, never above the remaining budget of the task. When such a
//! budget is exhausted, the engine checks the budget of the task, too.

use crate::model::TaskId;
use crate::policy::state::{Phase, State};
use crate::policy::{Budget, Clock};
use crate::record::{RecordKind, Sink};
use crate::rng;
use crate::time::{Span, Time};

// Draws for different purposes must not be the same numbers.
const LATENESS: u64 = 0x4c41_5445_4e45_5353;

impl State {
    /// Drops the budget that the previous policy granted, a burst or a quantum. The task's own budget stays a limit, or becomes one: a policy that
    /// grants budgets at dispatch may not have dispatched this job. A job that its policy releases keeps the budget of its window.
    pub(super) fn forget_grant(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let now = self.now;
        let activated = self.is_activated(task);
        let run = &mut self.runs[task.index()];
        if !run.has_job() || activated {
            return;
        }
        run.account(now);
        // Without a budget the rest of the job is not measured.
        run.metered = false;
        let granted = run.budget.take().is_some();
        let job = run.job;
        self.agenda.remove(task.index());
        if !self.grant_own(task, sink) && granted {
            self.record(sink, RecordKind::Budget { task, job, amount: None });
        }
    }

    /// Grants the task's present job the rest of its own budget, in CPU time; whether it has one. An exhausted budget is noticed
    /// a nanosecond later.
    pub(super) fn grant_own(&mut self, task: TaskId, sink: &mut dyn Sink) -> bool {
        let Some(left) = self.own_budget_left(task) else { return false };
        self.grant(task, Budget { amount: left.max(Span::from_ns(1)), clock: Clock::Cpu }, sink);
        self.runs[task.index()].own = true;
        true
    }

    /// Puts the end of a running task's budget on the agenda, but not before the task has run for `soonest`: nothing while the
    /// instant's events are still to come, then a nanosecond, or a budget that ends early could be granted again for ever in
    /// one instant.
    #[inline]
    pub(super) fn arm_budget(&mut self, task: TaskId, now: Time, soonest: Span) {
        let run = &self.runs[task.index()];
        match run.budget {
            Some(left) if run.place.is_some() && run.phase == Phase::Ready => {
                let end = (run.lasts(left) + run.notice()).max(soonest);
                let at = now.max(run.since + end);
                self.agenda.set(task.index(), self.system.timing.noticed(at));
            }
            _ => self.agenda.remove(task.index()),
        }
    }

    /// Grants the task's present job a budget in place of what it has left of the one before.
    pub(super) fn grant(&mut self, task: TaskId, budget: Budget, sink: &mut dyn Sink) {
        let now = self.now;
        let run = &mut self.runs[task.index()];
        run.account(now);
        run.budget = Some(budget.amount);
        run.own = false;
        run.granted = budget.amount;
        run.clock = budget.clock;
        run.grants += 1;
        if cfg!(feature = "timing") && self.system.timing.lateness > Span::ZERO {
            let (most, seed) = (self.system.timing.lateness.ns() as u64, self.system.seed ^ LATENESS);
            run.lateness = Span::from_ns(rng::draw_up_to(most, seed, u64::from(task.0), run.grants) as i64);
        }
        let job = run.job;
        self.record(sink, RecordKind::Budget { task, job, amount: Some(budget.amount) });
        self.arm_budget(task, now, Span::from_ns(1));
    }
}
