//! Reservations of CPU time.

use crate::time::Span;

/// CPU time reserved for a task, or for those that share a [`Server`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// CPU time in each period: the server's maximum budget Q.
    pub budget: Span,
    /// The server's period P.
    pub period: Span,
    /// The server's relative deadline D, at least Q and at most P; `None` is the end of the period.
    pub deadline: Option<Span>,
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
    pub(crate) fn is_sound(&self) -> bool {
        let deadline = self.relative_deadline();
        self.budget > Span::ZERO && self.budget <= deadline && deadline <= self.period
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
