//! Calls of a running program to its scheduler, the calls of AIRS (Kato, Rajkumar, Ishikawa, "AIRS: Supporting Interactive
//! Real-Time Applications on Multicore Platforms", ECRTS 2010, table 1).
//!
//! Three of them change what is agreed about a task, its [`Terms`]; the fourth, `wait_period`, is a step ([`super::Step`]).

use super::reservation::Reservation;
use crate::time::Span;

/// A call by which a job changes the terms of its task. Each value is above zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// `set_period`: the least time between releases, and the period of its reservation if it has one. A deadline that is the
    /// period goes with it, the task's and the reservation's.
    Period(Span),
    /// `set_deadline`: the relative deadline, and that of its reservation if that has one of its own.
    Deadline(Span),
    /// `set_runtime`: the CPU time declared for each job, and reserved in each period if it has a reservation.
    Runtime(Span),
}

impl Call {
    /// The call's name and the value that it asks for.
    #[must_use]
    pub const fn parts(self) -> (&'static str, Span) {
        match self {
            Call::Period(span) => ("set-period", span),
            Call::Deadline(span) => ("set-deadline", span),
            Call::Runtime(span) => ("set-runtime", span),
        }
    }

    /// The call of this name, as [`Call::parts`] says it.
    #[must_use]
    pub fn from_parts(name: &str, span: Span) -> Option<Call> {
        [Call::Period(span), Call::Deadline(span), Call::Runtime(span)].into_iter().find(|call| call.parts().0 == name)
    }
}

/// The terms agreed about a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The least time between its releases; `None` where these are a list or its policy's business.
    pub period: Option<Span>,
    /// Its relative deadline.
    pub deadline: Option<Span>,
    /// CPU time of a job, as declared.
    pub runtime: Option<Span>,
    /// Its reservation, if the file or a call has declared one.
    pub reservation: Option<Reservation>,
}

impl Terms {
    /// Its reservation under policies with servers: the reservation, or the runtime in each period, but no more than the whole
    /// of that.
    #[must_use]
    pub fn reserved(&self) -> Option<Reservation> {
        let by_runtime = || {
            let period = self.period?;
            Some(Reservation::new(self.runtime?.min(period), period))
        };
        self.reservation.or_else(by_runtime)
    }

    /// The terms after a call. `None` if there can be no such terms: a time of zero or less, the period of a task that has
    /// none, a reservation of more than its deadline, or with a deadline beyond its period.
    #[must_use]
    pub fn after(mut self, call: Call) -> Option<Terms> {
        match call {
            Call::Period(period) => {
                let before = self.period.replace(period)?;
                self.deadline = if self.deadline == Some(before) { Some(period) } else { self.deadline };
                if let Some(r) = &mut self.reservation {
                    let before = core::mem::replace(&mut r.period, period);
                    r.deadline = r.deadline.map(|d| if d == before { period } else { d });
                }
            }
            Call::Deadline(deadline) => {
                self.deadline = Some(deadline);
                self.reservation.iter_mut().for_each(|r| r.deadline = r.deadline.map(|_| deadline));
            }
            Call::Runtime(runtime) => {
                self.runtime = Some(runtime);
                self.reservation.iter_mut().for_each(|r| r.budget = runtime);
            }
        }
        let sound = call.parts().1 > Span::ZERO && self.reservation.is_none_or(|r| r.is_sound());
        sound.then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(i64) -> Span = Span::from_ms;

    #[test]
    fn a_period_takes_its_deadline_and_its_reservation_along() {
        let reservation = Some(Reservation::new(MS(4), MS(10)));
        let terms = Terms { period: Some(MS(10)), deadline: Some(MS(10)), runtime: Some(MS(5)), reservation };
        let longer = terms.after(Call::Period(MS(20))).expect("it is sound");
        assert_eq!((longer.deadline, longer.runtime), (Some(MS(20)), Some(MS(5))));
        assert_eq!(longer.reserved(), Some(Reservation::new(MS(4), MS(20))));
        let own = longer.after(Call::Deadline(MS(15))).and_then(|t| t.after(Call::Period(MS(30))));
        assert_eq!(own.map(|t| t.deadline), Some(Some(MS(15))));
        assert_eq!(terms.after(Call::Runtime(MS(11))), None, "more than the period");
        assert_eq!(terms.after(Call::Period(MS(3))), None, "less than the budget");
        assert_eq!(Terms { period: None, ..terms }.after(Call::Period(MS(30))), None, "it has no period");
        for call in [Call::Period(Span::ZERO), Call::Deadline(Span::ZERO), Call::Runtime(Span::ZERO)] {
            assert_eq!(terms.after(call), None, "{call:?}");
        }
    }

    #[test]
    fn without_a_reservation_the_runtime_is_reserved() {
        let terms = Terms { period: Some(MS(10)), deadline: None, runtime: Some(MS(5)), reservation: None };
        let shorter = terms.after(Call::Period(MS(3))).expect("it is sound");
        assert_eq!(shorter.reserved(), Some(Reservation::new(MS(3), MS(3))));
        assert_eq!(shorter.deadline, None);
    }

    #[test]
    fn a_reservation_keeps_its_budget_within_its_deadline_and_that_within_its_period() {
        let reserved = |budget, deadline, period| Reservation {
            deadline: Some(MS(deadline)),
            ..Reservation::new(MS(budget), MS(period))
        };
        let terms = |reservation| Terms {
            period: Some(MS(10)),
            deadline: Some(MS(10)),
            runtime: Some(MS(4)),
            reservation: Some(reservation),
        };
        let constrained = terms(reserved(4, 6, 10));
        let after = |call| constrained.after(call).and_then(|t| t.reservation);
        assert_eq!(after(Call::Deadline(MS(5))), Some(reserved(4, 5, 10)));
        assert_eq!(after(Call::Deadline(MS(10))), Some(reserved(4, 10, 10)));
        assert_eq!(after(Call::Deadline(MS(3))), None, "less than the budget");
        assert_eq!(after(Call::Deadline(MS(11))), None, "beyond the period");
        assert_eq!(after(Call::Period(MS(20))), Some(reserved(4, 6, 20)));
        assert_eq!(after(Call::Period(MS(5))), None, "before the deadline");
        assert_eq!(after(Call::Runtime(MS(6))), Some(reserved(6, 6, 10)));
        assert_eq!(after(Call::Runtime(MS(7))), None, "more than the deadline");
        // One that is the period goes with it, and none stays none.
        let moved = terms(reserved(4, 10, 10)).after(Call::Period(MS(20))).and_then(|t| t.reservation);
        assert_eq!(moved, Some(reserved(4, 20, 20)));
        let implicit = terms(Reservation::new(MS(4), MS(10)));
        assert_eq!(implicit.after(Call::Deadline(MS(3))).and_then(|t| t.reservation), implicit.reservation);
    }

    #[test]
    fn calls_have_names() {
        for call in [Call::Period(MS(1)), Call::Deadline(MS(2)), Call::Runtime(MS(3))] {
            let (name, span) = call.parts();
            assert_eq!(Call::from_parts(name, span), Some(call));
        }
        assert_eq!(Call::from_parts("set", MS(1)), None);
    }
}
