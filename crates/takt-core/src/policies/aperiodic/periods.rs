//! A budget that is there anew at each multiple of the period.

use crate::model::Reservation;
use crate::time::{Span, Time};

/// The budget of the present period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periods {
    reserved: Reservation,
    /// What is left. Below zero it was overrun before that was noticed, and the next budgets pay for it.
    pub(super) left: Span,
    /// When the period began.
    pub(super) begin: Time,
}

impl Periods {
    pub(super) fn new(reserved: Reservation, now: Time) -> Periods {
        Periods { reserved, left: reserved.budget, begin: now.round_down(reserved.period) }
    }

    /// Enters the period of this instant.
    pub(super) fn advance(&mut self, now: Time) {
        if now >= self.end() {
            self.begin = now.round_down(self.reserved.period);
            self.left = self.reserved.budget + self.left.min(Span::ZERO);
        }
    }

    /// When the period ends.
    pub(super) fn end(&self) -> Time {
        self.begin.saturating_add(self.reserved.period)
    }
}
