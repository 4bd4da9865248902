//! Rules for the calls among the steps of a program: what it may ask for, and what can come of it.

use crate::diagnostic::Diagnostic;
use crate::node::Place;
use crate::reader::{Reader, clipped};
use takt_core::model::{Arrival, Call, Step, Task, Terms};
use takt_core::time::Span;

/// Follows what is agreed about a task through its program, which begins again with what it agreed to last; `places` are those of
/// its calls and waits. The first fault is told. O(steps).
pub(crate) fn check(reader: &mut Reader, name: &str, task: &Task, places: &[Place]) {
    let steps = || task.steps.iter().filter(|step| matches!(step, Step::Call(_) | Step::WaitPeriod)).zip(places);
    let mut terms = task.terms();
    // The place of the last call, if no job has ended since.
    let mut called: Option<&Place> = None;
    for (step, place) in steps().chain(steps()) {
        if let Step::Call(call) = *step {
            match agreed(terms, call, task) {
                Ok(after) => terms = after,
                Err(fault) => return reader.push(fault(Diagnostic::error(place, title(name, call)))),
            }
            called = Some(place);
        } else if !lasts(reader, name, &terms, called.take()) {
            return;
        }
    }
    if lasts(reader, name, &terms, called) {
        comes(reader, name, task, places);
    }
}

fn title(name: &str, call: Call) -> String {
    let (word, span) = call.parts();
    format!("task `{}` cannot `{word} {span}`", clipped(name))
}

/// The terms after a call that can be agreed to, or what is to be said of one that cannot.
fn agreed(terms: Terms, call: Call, task: &Task) -> Result<Terms, Box<dyn FnOnce(Diagnostic) -> Diagnostic>> {
    if task.arrival == Arrival::Activated {
        return Err(Box::new(|fault| {
            fault.label("the window table says when it runs").hint("give its partition a `policy`, or remove the step")
        }));
    }
    if let Some(after) = terms.after(call) {
        return Ok(after);
    }
    let Some(reservation) = terms.reservation.filter(|_| terms.period.is_some() || !matches!(call, Call::Period(_)))
    else {
        return Err(Box::new(|fault| {
            fault.label("its releases have no period").hint("give the task a `period`, or remove the step")
        }));
    };
    let (budget, period) = (reservation.budget, reservation.period);
    let (label, hint) = match call {
        Call::Period(_) => (format!("it would still have {budget} in that"), "put a `set-runtime` before it"),
        _ => (format!("more than the {period} that it is reserved in"), "put a `set-period` before it"),
    };
    Err(Box::new(move |fault| fault.label(label).hint(format!("{hint}, or change the value"))))
}

/// Whether the next job can meet its deadline after the calls of this one; where the task declares no less from the start, that
/// has been said.
fn lasts(reader: &mut Reader, name: &str, terms: &Terms, called: Option<&Place>) -> bool {
    let (Some(place), Some(deadline)) = (called, terms.deadline) else { return true };
    let needed = terms.runtime.unwrap_or(Span::ZERO);
    if needed > deadline {
        let message = format!("task `{}` can never meet its deadline from here on", clipped(name));
        let label = format!("its runtime is {needed} then, its deadline {deadline}");
        let hint = "set the runtime, the period and the deadline that go together in the same job";
        reader.push(Diagnostic::warning(place, message).label(label).hint(hint));
    }
    needed <= deadline
}

/// A wait for a job that never comes.
fn comes(reader: &mut Reader, name: &str, task: &Task, places: &[Place]) {
    let Arrival::Listed { instants } = &task.arrival else { return };
    let waits = || task.steps.iter().filter(|step| matches!(step, Step::Call(_) | Step::WaitPeriod)).zip(places);
    let mut waits = waits().filter(|(step, _)| **step == Step::WaitPeriod).map(|(_, place)| place);
    if let Some(place) = waits.nth(instants.len().saturating_sub(1)).filter(|_| task.turns().count() > instants.len()) {
        let message = format!("task `{}` waits for a job that never comes", clipped(name));
        let jobs = if instants.len() == 1 { "one job".to_owned() } else { format!("{} jobs", instants.len()) };
        let fault = Diagnostic::warning(place, message).label(format!("it has {jobs}"));
        reader.push(fault.hint("give the task a `period`, or remove the steps from here on"));
    }
}
