//! Servers: a budget, a deadline, and the integer rules between them.

use crate::model::Reservation;
use crate::policies::scope::share;
use crate::time::{Span, Time};
use crate::work::Work;

/// The server of one task. Its jobs queue in the order of their release and run with the deadline of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    /// Q: CPU time in each period.
    pub(super) budget: Span,
    /// P.
    pub(super) period: Span,
    /// D: how long after a new beginning its deadline is.
    pub(super) relative: Span,
    /// The rest of the budget as of `mark`, in parts of a nanosecond ([`super::Servers::unit`]). Below zero it was
    /// overrun before that was noticed, and the next budgets pay for it.
    pub(super) left: i128,
    /// The rank of its jobs.
    pub(super) deadline: Time,
    /// The consumption of the present job when `left` was brought up to date.
    pub(super) mark: Work,
    /// It has a job that is not blocked.
    pub(super) busy: bool,
    /// It must not run before its next period.
    pub(super) throttled: bool,
    /// The engine has reported that the budget is exhausted; it still needs the remaining amount.
    pub(super) told: bool,
    /// How fast its budget drains at least, in parts of a nanosecond for each nanosecond.
    pub(super) least_rate: i128,
    /// The cluster whose timer it uses, and its place among the alarms there.
    pub(super) timed_by: usize,
    pub(super) slot: usize,
    /// The larger share that it had before, and until when no other server may have that.
    pub(super) claim: (i128, Time),
}

impl Server {
    pub(super) const NEW: Server = Server {
        budget: Span::ZERO,
        period: Span::ZERO,
        relative: Span::ZERO,
        left: 0,
        deadline: Time::ZERO,
        mark: Work::ZERO,
        busy: false,
        throttled: false,
        told: false,
        least_rate: 0,
        timed_by: 0,
        slot: 0,
        claim: (0, Time::ZERO),
    };

    /// The share of a CPU that is its own: that of its reservation, or a larger one that it had.
    pub(super) fn claim(&self, now: Time) -> i128 {
        let (before, until) = self.claim;
        share(self.budget, self.relative).max(if now < until { before } else { 0 })
    }

    /// Whether its deadline is before the end of the period.
    pub(super) fn is_constrained(&self) -> bool {
        self.relative < self.period
    }

    /// When its next period begins, and with it the next budget: at the deadline, or later where that is constrained.
    pub(super) fn next_period(&self) -> Time {
        self.deadline.saturating_add(self.period - self.relative)
    }

    /// A server that has never run has a budget that is out of date.
    pub(super) fn reset(&mut self, reserved: Reservation, unit: i128) {
        let Server { timed_by, slot, .. } = *self;
        let (budget, period, relative) = (reserved.budget, reserved.period, reserved.relative_deadline());
        *self = Server { budget, period, relative, timed_by, slot, ..Server::NEW };
        self.left = i128::from(budget.ns()) * unit;
        self.deadline = Time::ZERO + (relative - period);
    }

    /// Another reservation, for its next budget. It may have used what it had before ahead of time, so until its deadline,
    /// `until`, the larger share stays its own.
    pub(super) fn retune(&mut self, reserved: Reservation, until: Time, now: Time) {
        let before = self.claim(now);
        let relative = reserved.relative_deadline();
        if before > share(reserved.budget, relative) {
            self.claim = (before, until.max(self.claim.1));
        }
        (self.budget, self.period, self.relative) = (reserved.budget, reserved.period, relative);
    }

    /// Whether the rest, consumed by the deadline, would be more than its share of the time until then; if `or_equal`, or
    /// just that. Then a server that wakes up needs a new budget and deadline.
    pub(super) fn is_stale(&self, now: Time, or_equal: bool) -> bool {
        if self.deadline < now || (or_equal && self.deadline == now) {
            return true;
        }
        let time = i128::from((self.deadline - now).ns());
        let (left, share) = if self.deadline <= self.claim.1 {
            // The budget is from before the share became smaller. By the smaller one, a server that has used later budgets ahead of time
            // could begin again before them.
            (self.left, (time * self.claim.0) >> 62)
        } else {
            (self.left.saturating_mul(i128::from(self.period.ns())), time * i128::from(self.budget.ns()))
        };
        left > share || (or_equal && left == share)
    }

    /// Has a server with a constrained deadline that wakes up go by the revised rule: it keeps its deadline and no more than Q / D
    /// of the time until then, and once that has passed nothing, until its next period has begun.
    pub(super) fn revise(&mut self, now: Time, unit: i128) {
        if self.next_period() <= now {
            return self.renew(now, unit);
        }
        let laxity = i128::from((self.deadline - now).or_zero().ns());
        self.left = self.left.min(laxity * i128::from(self.budget.ns()) * unit / i128::from(self.relative.ns()));
    }

    /// A whole budget from now on.
    pub(super) fn renew(&mut self, now: Time, unit: i128) {
        self.left = i128::from(self.budget.ns()) * unit;
        self.deadline = now.saturating_add(self.relative);
    }

    /// Moves the deadline by as many periods as budgets are needed for at least `least` to be left.
    pub(super) fn postpone(&mut self, least: i128, unit: i128) {
        let whole = i128::from(self.budget.ns()) * unit;
        let lacking = (least - self.left).max(1);
        let times = (lacking + whole - 1) / whole;
        self.left += times * whole;
        let later = i128::from(self.deadline.ns()) + times * i128::from(self.period.ns());
        self.deadline = Time::from_ns(i64::try_from(later).unwrap_or(i64::MAX));
    }
}
