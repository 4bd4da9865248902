//! A budget in parts, each of which comes back a period after it could be used.

use crate::model::Reservation;
use crate::time::{Span, Time};
use alloc::collections::VecDeque;

/// A part of the budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refill {
    /// When it is there, and once it is used, since when it could be.
    pub(super) at: Time,
    pub(super) amount: Span,
}

/// The whole budget, always. Each nanosecond of it is used at most once in a period from the instant at which it could be.
#[derive(Clone, Debug)]
pub(super) struct Refills {
    reserved: Reservation,
    /// In the order of their instants, at least one.
    parts: VecDeque<Refill>,
    /// How many there may be.
    most: usize,
    /// How much of the first one has been used. It may be used before it is there: what was overrun before that was noticed.
    used: Span,
}

impl Refills {
    pub(super) fn new(reserved: Reservation, most: usize) -> Refills {
        let mut new = Refills { reserved, parts: VecDeque::with_capacity(most), most, used: Span::ZERO };
        new.restart(reserved, Time::ZERO);
        new
    }

    /// The whole budget is there, undivided.
    pub(super) fn restart(&mut self, reserved: Reservation, now: Time) {
        self.parts.clear();
        self.parts.push_back(Refill { at: now, amount: reserved.budget });
        (self.reserved, self.used) = (reserved, Span::ZERO);
    }

    fn first(&self) -> Refill {
        self.parts[0]
    }

    /// Since when the first part is there, or when it will be.
    pub(super) fn at(&self) -> Time {
        self.first().at
    }

    /// When what is used of it now comes back.
    pub(super) fn back(&self) -> Time {
        self.at().saturating_add(self.reserved.period)
    }

    /// The usable amount of the first part.
    pub(super) fn left(&self, now: Time) -> Span {
        if self.at() <= now { self.first().amount - self.used } else { Span::ZERO }
    }

    /// The parts that are there can be used from now on, and not before.
    pub(super) fn activate(&mut self, now: Time) {
        while self.parts.len() > 1 && self.parts[1].at <= now {
            let before = self.parts.pop_front().expect("there are two");
            self.parts[0].amount += before.amount;
        }
        self.parts[0].at = self.at().max(now);
    }

    /// Uses up parts in their order. O(parts).
    pub(super) fn consume(&mut self, amount: Span) {
        self.used += amount;
        // An overrun of whole budgets puts all parts off by as many periods.
        let rounds = self.used.ns() / self.reserved.budget.ns();
        if rounds > 0 {
            let later = Span::from_ns(self.reserved.period.ns().saturating_mul(rounds));
            self.parts.iter_mut().for_each(|part| part.at = part.at.saturating_add(later));
            self.used -= self.reserved.budget * rounds;
        }
        while self.used >= self.first().amount {
            let Refill { at, amount } = self.parts.pop_front().expect("there is one at least");
            self.used -= amount;
            self.come_back(at, amount);
        }
    }

    /// The work came to an end at `now`. What was used of the first part is a part of its own, because the rest of it will be
    /// used from a later instant on. If there are too many, the rest waits for the next part. O(1).
    pub(super) fn split(&mut self, now: Time) {
        if self.used <= Span::ZERO || self.at() > now {
            return;
        }
        let Refill { at, amount } = self.first();
        let used = core::mem::take(&mut self.used);
        let rest = amount - used;
        let joins = self.parts.back().is_some_and(|last| last.at == at.saturating_add(self.reserved.period));
        if self.parts.len() < self.most || joins {
            self.parts[0].amount = rest;
            self.come_back(at, used);
            return;
        }
        self.parts.pop_front();
        match self.parts.front_mut() {
            Some(next) => {
                next.amount += rest;
                self.come_back(at, used);
            }
            None => self.come_back(at, amount),
        }
    }

    /// The amount that was usable since `at` returns a period later.
    fn come_back(&mut self, at: Time, amount: Span) {
        let at = at.saturating_add(self.reserved.period);
        match self.parts.back_mut().filter(|last| last.at == at) {
            Some(last) => last.amount += amount,
            None => self.parts.push_back(Refill { at, amount }),
        }
    }
}
