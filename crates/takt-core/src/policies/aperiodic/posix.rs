//! A budget by the rules of POSIX, with their defects.
//!
//! IEEE Std 1003.1, "System Interfaces", 2.8.4, SCHED_SPORADIC; Stanovich, Baker, Wang and González Harbour, "Defects of the POSIX
//! Sporadic Server and How to Correct Them", RTAS 2010. One instant counts for all that is used between two pauses, also for what
//! came back in between; and a budget never falls below zero, so that what was overrun comes back without having been paid for.

use super::refills::Refill;
use crate::model::Reservation;
use crate::time::{Span, Time};
use alloc::collections::VecDeque;

/// The execution capacity, and the replenishments that are pending.
#[derive(Clone, Debug)]
pub(super) struct Posix {
    reserved: Reservation,
    capacity: Span,
    /// Since when it could be used: the activation time.
    activation: Time,
    /// How much was used since then.
    used: Span,
    /// In the order of their instants.
    pending: VecDeque<Refill>,
    /// How many there may be. With so many the capacity cannot be used.
    most: usize,
}

impl Posix {
    pub(super) fn new(reserved: Reservation, most: usize) -> Posix {
        let pending = VecDeque::with_capacity(most);
        Posix { reserved, capacity: reserved.budget, activation: Time::ZERO, used: Span::ZERO, pending, most }
    }

    pub(super) fn restart(&mut self, reserved: Reservation, now: Time) {
        self.pending.clear();
        (self.reserved, self.capacity, self.used, self.activation) = (reserved, reserved.budget, Span::ZERO, now);
    }

    /// The usable amount: nothing while too many replenishments are pending.
    pub(super) fn left(&self) -> Span {
        if self.pending.len() < self.most { self.capacity } else { Span::ZERO }
    }

    /// When what is used now comes back.
    pub(super) fn back(&self) -> Time {
        self.activation.saturating_add(self.reserved.period)
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.pending.front().map(|refill| refill.at)
    }

    /// Due replenishments return; a server that had nothing is activated by that.
    pub(super) fn advance(&mut self, now: Time) {
        while let Some(refill) = self.pending.front().copied().filter(|refill| refill.at <= now) {
            if self.left() == Span::ZERO {
                self.activation = now;
            }
            self.pending.pop_front();
            self.capacity = (self.capacity + refill.amount).min(self.reserved.budget);
        }
    }

    /// Work has come.
    pub(super) fn activate(&mut self, now: Time) {
        self.advance(now);
        if self.left() > Span::ZERO {
            self.activation = now;
        }
    }

    pub(super) fn consume(&mut self, amount: Span) {
        self.used += amount;
        self.capacity = (self.capacity - amount).or_zero();
        if self.capacity == Span::ZERO {
            self.schedule();
        }
    }

    /// The consumption will be replenished: when nothing is left of the capacity, and when the work is done. What is overrun after that
    /// comes back with it.
    pub(super) fn schedule(&mut self) {
        let (at, amount) = (self.back(), core::mem::take(&mut self.used));
        if amount > Span::ZERO {
            match self.pending.back_mut().filter(|last| last.at == at) {
                Some(last) => last.amount += amount,
                None => self.pending.push_back(Refill { at, amount }),
            }
        }
    }
}
