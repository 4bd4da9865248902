//! A budget that is there again at each multiple of the period.

use super::Rule;
use crate::model::{PolicySpec, Reservation};
use crate::time::{Span, Time};

/// The budget of the present period. If it is `POLLED`, work that comes later in the period finds nothing of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periods<const POLLED: bool> {
    reserved: Reservation,
    /// The rest. Below zero it was overrun before that was noticed, and the next budgets pay for it.
    pub(super) left: Span,
    /// When the period began.
    pub(super) begin: Time,
}

impl<const POLLED: bool> Periods<POLLED> {
    pub(super) fn begun(reserved: Reservation, now: Time) -> Self {
        Periods { reserved, left: reserved.budget, begin: now.round_down(reserved.period) }
    }

    /// When the period ends.
    pub(super) fn end(&self) -> Time {
        self.begin.saturating_add(self.reserved.period)
    }
}

impl<const POLLED: bool> Rule for Periods<POLLED> {
    fn new(reserved: Reservation, _: &PolicySpec) -> Self {
        Periods::begun(reserved, Time::ZERO)
    }
    fn restart(&mut self, reserved: Reservation, now: Time) {
        *self = Periods::begun(reserved, now);
        // As for all that comes after a period has begun.
        self.wakes(now);
    }
    fn advance(&mut self, now: Time) {
        if now >= self.end() {
            self.begin = now.round_down(self.reserved.period);
            self.left = self.reserved.budget + self.left.min(Span::ZERO);
        }
    }
    fn wakes(&mut self, now: Time) {
        self.advance(now);
        if POLLED && self.begin < now {
            self.left = self.left.min(Span::ZERO);
        }
    }
    fn consume(&mut self, amount: Span) {
        self.left -= amount;
    }
    fn left(&self, _: Time) -> Span {
        self.left
    }
    fn next(&self, _: Time) -> Option<Time> {
        Some(self.end())
    }
    fn deadline(&self) -> Time {
        self.end()
    }
}
