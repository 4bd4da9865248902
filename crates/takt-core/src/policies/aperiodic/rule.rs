//! The difference between servers for aperiodic work: when each has which budget. And the settings of all of them.

use crate::model::{Fact, Kind, Order, PolicySpec, Reservation, Scope, Setting, When};
use crate::time::{Span, Time};

/// When a server has which budget.
pub trait Rule: Send + Sized + 'static {
    /// Whether the budget shrinks with time, too ([`Rule::stands_by`]).
    const DRAINS: bool = false;

    /// A server without work and with its whole budget, at the start of the schedule.
    fn new(reserved: Reservation, spec: &PolicySpec) -> Self;

    /// The same as of `now`, with what is reserved by then.
    fn restart(&mut self, reserved: Reservation, now: Time);

    /// Budgets that are due by now are there. All that was consumed before is known.
    fn advance(&mut self, now: Time);

    /// Work has come, and there was none since an earlier instant.
    fn wakes(&mut self, now: Time) {
        let _ = now;
    }

    /// The work came to an end at this instant.
    fn idles(&mut self, at: Time) {
        let _ = at;
    }

    /// Its jobs have consumed so much of the budget.
    fn consume(&mut self, amount: Span);

    /// How much its jobs may consume as of now; zero or less is nothing.
    fn left(&self, now: Time) -> Span;

    /// When more can be there than is left now, for a server that has work.
    fn next(&self, now: Time) -> Option<Time>;

    /// The instant by which the rest should be consumed, for servers that are ranked by deadline.
    fn deadline(&self) -> Time;

    /// Until the next event the server has no work, and if it had, it `could` run.
    fn stands_by(&mut self, could: bool, now: Time) {
        let _ = (could, now);
    }
}

/// The rank of tasks and servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    Period,
    Priority,
    Deadline,
}

/// The setting `by` of all servers.
pub const BY: Setting = Setting {
    name: "by",
    kind: Kind::Choice(&["period", "priority", "deadline"]),
    default: "period",
    summary: "what tasks and servers are ranked by: their periods (RM), their `priority` (FP), or deadlines (EDF)",
};

/// The order for each value of [`BY`].
pub const RANKED_BY: (&str, &[Order]) = (BY.name, &[Order::Period, Order::Priority, Order::AbsoluteDeadline]);

/// The setting `background` of all servers.
pub const BACKGROUND: Setting = Setting {
    name: "background",
    kind: Kind::Choice(&["no", "yes"]),
    default: "no",
    summary: "whether a server without budget is served after all others, so that no CPU idles",
};

/// Servers without a budget are served under one value of [`BACKGROUND`].
pub const SERVED_LAST: When = When::Is(BACKGROUND.name, 1);

/// No CPU idles while jobs wait under the same value.
pub const CONSERVING: Fact = Fact::WorkConserving(SERVED_LAST);

impl By {
    pub(super) fn new(spec: &PolicySpec) -> By {
        match spec.value(BY.name) {
            Some(1) => By::Priority,
            Some(2) => By::Deadline,
            _ => By::Period,
        }
    }
}

/// The forms of all servers: what their budgets mean for others is known for one CPU.
pub const SCOPES: &[Scope] = &[Scope::Uniprocessor, Scope::Partitioned];
