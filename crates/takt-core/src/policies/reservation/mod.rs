//! Reservations: the host of policies in which every task owns a server, a budget of CPU time with a deadline.
//!
//! Abeni and Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems", RTSS 1998 (CBS), for the rules that all
//! of them share; `kernel/sched/deadline.c` of Linux for the hard form. Invariant: a server's jobs never run beyond its budget
//! with one and the same deadline. So what a task needs beyond its reservation is at the expense of its own deadline, and not of
//! other tasks.
//!
//! The host ranks ready jobs by the deadlines of their servers, over clusters of CPUs as [`crate::policies::scope`] has them, and
//! applies the rules of waking up and of exhaustion. What else is done with budgets is a `Rule`: [`grub`] lets them last longer
//! while others are inactive, [`fcbs`] gives away the rest of them, and [`edf_wmr`] has servers move from CPU to CPU besides.
//! Throttled servers, and whatever else waits for an instant, share one timer per cluster.

pub mod cbs;
pub mod edf_wmr;
pub mod fcbs;
pub mod grub;
mod server;
mod servers;

use crate::model::{Invalid, Reservation, TaskId, Terms};
use crate::policies::scope;
#[cfg(feature = "order")]
use crate::policy::Standing;
use crate::policy::{Budget, Build, Clock, Context, Decision, Event, Policy};
use crate::record::Place;
use crate::time::Time;
use crate::work::Work;
use alloc::boxed::Box;
use server::Server;
use servers::Servers;

/// The treatment of budgets beyond the rules of CBS.
trait Rule: Send + Sized + 'static {
    /// Whether it knows deadlines of servers before the ends of their periods.
    const CONSTRAINED: bool = false;

    /// The rule with the settings of `build`, for these servers.
    fn new(build: &Build<'_>, servers: &mut Servers) -> Self;

    /// Whether a server whose budget is exhausted waits for its next period (hard), or continues with a later one (soft).
    fn is_hard(&self) -> bool {
        false
    }

    /// Whether a server that wakes up needs a new budget and deadline.
    fn is_stale(&self, task: TaskId, server: &Server, now: Time) -> bool {
        let _ = task;
        server.is_stale(now, true)
    }

    /// The server wakes up: sets the budget and deadline with which it continues.
    fn wakes(&mut self, task: TaskId, servers: &mut Servers, cx: &mut Context<'_>) {
        let (now, unit) = (cx.now(), servers.unit);
        if servers.get(task).is_constrained() {
            servers.get_mut(task).revise(now, unit);
        } else if self.is_stale(task, servers.get(task), now) {
            servers.get_mut(task).renew(now, unit);
        }
    }

    /// The server has woken up, because a job was `released` or unblocked, and it continues with its present budget
    /// and deadline.
    fn woken(&mut self, task: TaskId, released: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        let _ = (task, released, servers, cx);
    }

    /// The server has no work any more: its last job is over, which could have run on until now (`finished`), or its job has
    /// blocked.
    fn idles(&mut self, task: TaskId, finished: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        let _ = (task, finished, servers, cx);
    }

    /// The server's budget is exhausted. Whether the rule has another one for it, of which something is left.
    fn restores(&mut self, task: TaskId, servers: &mut Servers) -> bool {
        let _ = (task, servers);
        false
    }

    /// The server's budget is exhausted, and the rule has no other one. Whether it waits until the rule gives it one, because a
    /// server leaves something or by [`Rule::alarm`].
    fn holds(&mut self, task: TaskId, servers: &mut Servers) -> bool {
        let _ = (task, servers);
        false
    }

    /// The instant of [`Servers::set_alarm`] has come, for a server that is not throttled, or is held.
    fn alarm(&mut self, task: TaskId, servers: &mut Servers, cx: &mut Context<'_>) {
        let _ = (task, servers, cx);
    }

    /// Everything begins again, with servers that are all idle.
    fn start(&mut self, servers: &mut Servers) {
        let _ = servers;
    }

    /// Whether so much can be reserved for the task from now on.
    fn admits(&self, task: TaskId, wanted: Reservation, servers: &Servers, cx: &Context<'_>) -> bool {
        servers.has_room(task, wanted, cx.now())
    }

    /// The latest deadline of a budget that the server has.
    fn latest(&self, task: TaskId, servers: &Servers) -> Time {
        servers.get(task).deadline
    }

    /// The reservation of a task has changed.
    fn retuned(&mut self, servers: &mut Servers, cx: &mut Context<'_>) {
        let _ = (servers, cx);
    }
}

/// Builds the policy that goes by this rule.
///
/// # Errors
/// Those of [`scope::check`], a task with neither a reservation nor a runtime and a period, and a deadline of a reservation that the
/// rule does not know.
fn build<R: Rule>(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    scope::check(build)?;
    if !R::CONSTRAINED {
        build.knows_whole_periods()?;
    }
    let mut servers = Servers::new(build)?;
    Ok(Box::new(Reservations { rule: R::new(build, &mut servers), servers }))
}

struct Reservations<R> {
    rule: R,
    servers: Servers,
}

impl<R: Rule> Reservations<R> {
    /// A job has come for a server that had none, or its job continues.
    fn wakes(&mut self, task: TaskId, released: bool, cx: &mut Context<'_>) {
        let consumed = cx.job(task).map_or(Work::ZERO, |job| job.consumed);
        let server = self.servers.get_mut(task);
        (server.busy, server.mark) = (true, consumed);
        if server.throttled {
            return;
        }
        let next_period = self.servers.get(task).next_period();
        if self.rule.is_hard() && self.servers.is_used_up(task) && next_period <= cx.now() {
            // It got its next budget then, less what it had overrun, even if it had no job.
            self.servers.replenish(task, true, next_period);
        }
        self.rule.wakes(task, &mut self.servers, cx);
        self.rule.woken(task, released, &mut self.servers, cx);
        self.queue(task, cx);
    }

    /// The next job of a server that is busy begins, or its job continues with its handler: with the budget and the deadline that
    /// are there.
    fn continues(&mut self, task: TaskId, cx: &mut Context<'_>) {
        self.servers.get_mut(task).mark = Work::ZERO;
        if !self.servers.get(task).throttled {
            self.queue(task, cx);
        }
    }

    /// Queues a server that may run, with a budget that is not exhausted.
    fn queue(&mut self, task: TaskId, cx: &mut Context<'_>) {
        while self.servers.is_used_up(task) {
            if self.rule.restores(task, &mut self.servers) {
                continue;
            }
            if self.rule.holds(task, &mut self.servers) {
                self.servers.hold(task, cx);
                return;
            }
            if self.rule.is_hard() && self.servers.get(task).next_period() > cx.now() {
                self.servers.throttle(task);
                return;
            }
            self.servers.replenish(task, self.rule.is_hard(), cx.now());
        }
        self.servers.rank(task, cx);
    }

    /// The server has no job that could run.
    fn idles(&mut self, task: TaskId, finished: bool, cx: &mut Context<'_>) {
        self.servers.leave(task);
        let was_busy = core::mem::replace(&mut self.servers.get_mut(task).busy, false);
        self.rule.idles(task, finished && was_busy, &mut self.servers, cx);
    }

    /// A job is over; it consumed so much.
    fn over(&mut self, task: TaskId, consumed: Work, cx: &mut Context<'_>) {
        self.servers.charge(task, consumed);
        self.servers.get_mut(task).mark = Work::ZERO;
        if cx.job(task).is_none() {
            self.idles(task, true, cx);
        } else {
            // Its successor, or its handler, is there already, and the policy learns of it next.
            self.servers.leave(task);
        }
    }

    /// Another budget, if that of a server that would run is exhausted. One whose job has blocked waits for its waking up.
    fn settle(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let server = self.servers.get(task);
        if server.busy && !server.throttled && self.servers.is_used_up(task) {
            self.queue(task, cx);
        }
    }

    /// A job lets others run: those of the same deadline, or, under a hard server, all of them until its next period, since
    /// it gives up the rest of the budget.
    fn yields(&mut self, task: TaskId, cx: &mut Context<'_>) {
        if self.rule.is_hard() {
            let server = self.servers.get_mut(task);
            server.left = server.left.min(0);
            self.settle(task, cx);
        } else {
            self.servers.yields(task, cx);
        }
    }

    /// The timer of a cluster is due.
    fn timer(&mut self, cluster: usize, cx: &mut Context<'_>) {
        while let Some(task) = self.servers.next_alarm(cluster, cx.now()) {
            if !self.rule.is_hard() || !self.servers.get(task).throttled {
                self.rule.alarm(task, &mut self.servers, cx);
                if self.servers.get(task).busy {
                    self.queue(task, cx);
                }
                continue;
            }
            self.servers.get_mut(task).throttled = false;
            self.servers.replenish(task, true, cx.now());
            if self.servers.get(task).busy {
                self.queue(task, cx);
            } else {
                self.rule.idles(task, false, &mut self.servers, cx);
            }
        }
    }
}

impl<R: Rule> Policy for Reservations<R> {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.servers.reset(cx);
        self.rule.start(&mut self.servers);
        for index in 0..self.servers.tasks.len() {
            let task = self.servers.tasks[index];
            if cx.is_ready(task) {
                self.wakes(task, true, cx);
            }
        }
        self.servers.arm_timers(cx);
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        #[cfg(feature = "order")]
        if let Event::Wake { task } | Event::Finish { task, .. } | Event::Handler { task, .. } = *event {
            self.servers.is_not_blocked(task);
        }
        match *event {
            Event::Release { task, .. } if self.servers.get(task).busy => self.continues(task, cx),
            Event::Release { task, .. } => self.wakes(task, true, cx),
            Event::Wake { task } => self.wakes(task, false, cx),
            Event::Finish { task, consumed, .. } => self.over(task, consumed, cx),
            Event::Block { task, consumed } => {
                self.servers.charge(task, consumed);
                self.idles(task, false, cx);
                #[cfg(feature = "order")]
                self.servers.blocks(task, cx);
            }
            Event::BudgetExpired { task, consumed } => {
                self.servers.charge(task, consumed);
                self.servers.get_mut(task).told = true;
                self.settle(task, cx);
            }
            Event::Handler { task, consumed, .. } => {
                self.servers.charge(task, consumed);
                self.servers.leave(task);
                if self.servers.get(task).busy { self.continues(task, cx) } else { self.wakes(task, false, cx) }
            }
            Event::Yield { task, consumed } => {
                self.servers.charge(task, consumed);
                self.yields(task, cx);
            }
            Event::Timer { timer, .. } => self.timer(self.servers.timed(timer), cx),
            Event::Changed { task } => {
                self.servers.retune(task, self.rule.latest(task, &self.servers), cx);
                self.rule.retuned(&mut self.servers, cx);
            }
            Event::Lock { .. } | Event::Unlock { .. } | Event::Deadline { .. } | Event::Exit { .. } => return,
        }
        self.servers.arm_timers(cx);
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let mut rest = lent;
        while let Some((cluster, group, others)) = self.servers.split(rest) {
            rest = others;
            // Consumption that is known now need not wait until that is noticed.
            for index in 0..self.servers.running(cluster).len() {
                let task = self.servers.running(cluster)[index];
                self.servers.sync(task, cx);
                self.settle(task, cx);
            }
            let before = decision.assignments.len();
            self.servers.map(cluster, group, cx, decision);
            for assignment in &mut decision.assignments[before..] {
                let amount = self.servers.lasts(assignment.task, cx);
                assignment.budget = amount.map(|amount| Budget { amount, clock: Clock::Cpu });
            }
        }
        self.servers.arm_timers(cx);
    }

    fn home(&self, task: TaskId) -> Option<Place> {
        self.servers.first_cpu(task)
    }

    #[cfg(feature = "order")]
    fn order(&self, cx: &Context<'_>, show: &mut dyn FnMut(Standing<'_>)) {
        // A job that has become ready is no longer blocked, and a blocked server that has used its budget up gets another one when it wakes up.
        let is_stale = |task: TaskId| {
            let server = self.servers.get(task);
            !server.busy && (self.servers.is_used_up(task) || self.rule.is_stale(task, server, cx.now()))
        };
        self.servers.order(cx, is_stale, show);
    }

    fn timers(&self) -> u16 {
        self.servers.timers()
    }

    fn meters(&self) -> bool {
        true
    }

    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        terms.reserved().is_some_and(|wanted| self.rule.admits(task, wanted, &self.servers, cx))
    }
}
