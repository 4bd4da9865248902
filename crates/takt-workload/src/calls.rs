//! Rules for the calls among the steps of a program: what it may ask for, and what can come of it.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::Place;
use crate::reader::Reader;
use crate::steps;
use crate::text::clipped;
use takt_core::model::{Arrival, Call, Step, Task, Terms};
use takt_core::time::Span;

/// Where a program, or something of it, is in the file.
pub(crate) struct Places<'p> {
    /// The list of steps.
    pub(crate) steps: &'p Place,
    /// Each call and each wait.
    pub(crate) calls: &'p [Place],
    /// The declared runtime is that of the longest job of the program, since no other one is declared.
    pub(crate) measured: bool,
}

/// Whether its jobs differ, or may meet different terms: then each of them is judged by itself, here.
pub(crate) fn is_program(task: &Task) -> bool {
    task.program.steps.iter().any(|step| matches!(step, Step::Call(_) | Step::WaitPeriod))
}

/// Follows what is agreed about a task through its program, which begins again with what it agreed to last. The first fault is
/// reported. O(steps).
pub(crate) fn check(reader: &mut Reader, name: &str, task: &Task, places: &Places) {
    if !is_program(task) {
        return;
    }
    // A runtime that is not declared says nothing of a job; its steps do.
    let runtime = task.runtime.filter(|_| !places.measured);
    let mut terms = Terms { runtime, ..task.terms() };
    let jobs = match &task.arrival {
        Arrival::Listed { instants } => instants.len(),
        _ => usize::MAX,
    };
    // Nothing is sure any more after a call, which may be refused.
    let mut asked = false;
    for round in 0..2 {
        let (mut at, mut begin) = (places.calls.iter(), places.steps);
        // The sum of the runtimes of a round, and the time from the release of the first to that of the next round.
        let (mut needed, mut time) = (Span::ZERO, Some(Span::ZERO));
        for (turn, number) in task.program.turns().zip(round * task.program.turns().count()..) {
            let job = Job { begin, asked, deadline: terms.deadline, steps: turn };
            if number < jobs && !job.fits(reader, name, terms.runtime) {
                return;
            }
            let mut called = None;
            for call in turn.iter().filter_map(|step| if let Step::Call(call) = step { Some(*call) } else { None }) {
                called = at.next();
                let Some(place) = called else { return };
                match agreed(terms, call, task) {
                    Ok(after) => terms = after,
                    Err(fault) => {
                        return reader.push(fault(Diagnostic::error(Code::ImpossibleCall, place, title(name, call))));
                    }
                }
                asked = true;
            }
            if !lasts(reader, name, &terms, called) {
                return;
            }
            needed += steps::times(turn).0;
            time = time.zip(terms.period).map(|(time, period)| time + period);
            begin = at.next().unwrap_or(begin);
        }
        if let Some(time) = time.filter(|time| round > 0 && needed > *time) {
            let message = format!("task `{}` needs more time than it has", clipped(name));
            let label = format!("a round of its program runs for {needed}, in {time}");
            let granted = if asked { "if its calls are granted, " } else { "" };
            let hint =
                format!("{granted}its jobs will queue up without end: let the steps run less or raise its periods");
            return reader.push(Diagnostic::warning(Code::Overload, places.steps, message).label(label).hint(hint));
        }
    }
    comes(reader, name, task, places.calls);
}

/// A job of a program.
struct Job<'t> {
    /// Where it begins: at the wait for it, or with the list.
    begin: &'t Place,
    /// Whether there was a call before it.
    asked: bool,
    /// In force as it is released.
    deadline: Option<Span>,
    steps: &'t [Step],
}

impl Job<'_> {
    /// Whether it can meet its deadline. That it cannot is an error where it is sure; a declared runtime beyond the deadline has
    /// been said.
    fn fits(&self, reader: &mut Reader, name: &str, declared: Option<Span>) -> bool {
        let Some(deadline) = self.deadline.filter(|d| declared.is_none_or(|runtime| runtime <= *d)) else {
            return true;
        };
        let (run, taken) = steps::times(self.steps);
        let name = clipped(name);
        let (fault, label) = if run > deadline && !self.asked {
            let message = format!("task `{name}` has a job that can never meet its deadline");
            (
                Diagnostic::error(Code::ImpossibleDeadline, self.begin, message),
                format!("it begins here and runs for {run}, its deadline is {deadline}"),
            )
        } else if taken > deadline {
            let when = if self.asked { "if the calls before it are granted" } else { "if it does all its steps" };
            let message = format!("task `{name}` has a job that misses its deadline {when}");
            let does = if run == taken { "runs for" } else { "runs and sleeps for" };
            let label = format!("it begins here and {does} {taken}, its deadline is {deadline}");
            (Diagnostic::warning(Code::PossibleMiss, self.begin, message), label)
        } else {
            return true;
        };
        let hint = format!(
            "shorten its steps, or give it a deadline of at least {taken}, by `deadline` or by a call before it"
        );
        reader.push(fault.label(label).hint(hint));
        false
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
    let (budget, deadline, period) = (reservation.budget, reservation.relative_deadline(), reservation.period);
    let (label, hint) = match call {
        Call::Period(wanted) | Call::Deadline(wanted) if wanted < budget => {
            (format!("it would still have {budget} in that"), "put a `set-runtime` before it")
        }
        Call::Period(_) => (format!("the deadline of its reservation is {deadline}"), "put a `set-deadline` before it"),
        Call::Deadline(_) => {
            (format!("beyond the period of its reservation, {period}"), "put a `set-period` before it")
        }
        Call::Runtime(_) if deadline < period => {
            (format!("more than the {deadline} that it is reserved in"), "put a `set-deadline` before it")
        }
        Call::Runtime(_) => (format!("more than the {period} that it is reserved in"), "put a `set-period` before it"),
    };
    Err(Box::new(move |fault| fault.label(label).hint(format!("{hint}, or change the value"))))
}

/// Whether what a task declares fits its deadline after the calls of a job; where it does not from the start, that has been said.
fn lasts(reader: &mut Reader, name: &str, terms: &Terms, called: Option<&Place>) -> bool {
    let (Some(place), Some(deadline)) = (called, terms.deadline) else { return true };
    let needed = terms.runtime.unwrap_or(Span::ZERO);
    if needed > deadline {
        let message = format!("task `{}` can never meet its deadline from here on", clipped(name));
        let label = format!("its runtime is {needed} then, its deadline {deadline}");
        let hint = "set the runtime, the period and the deadline that go together in the same job";
        reader.push(Diagnostic::warning(Code::ImpossibleDeadline, place, message).label(label).hint(hint));
    }
    needed <= deadline
}

/// A wait for a job that never comes.
fn comes(reader: &mut Reader, name: &str, task: &Task, places: &[Place]) {
    let Arrival::Listed { instants } = &task.arrival else { return };
    let waits =
        || task.program.steps.iter().filter(|step| matches!(step, Step::Call(_) | Step::WaitPeriod)).zip(places);
    let mut waits = waits().filter(|(step, _)| **step == Step::WaitPeriod).map(|(_, place)| place);
    if let Some(place) =
        waits.nth(instants.len().saturating_sub(1)).filter(|_| task.program.turns().count() > instants.len())
    {
        let message = format!("task `{}` waits for a job that never comes", clipped(name));
        let jobs = if instants.len() == 1 { "one job".to_owned() } else { format!("{} jobs", instants.len()) };
        let fault = Diagnostic::warning(Code::NeverReached, place, message).label(format!("it has {jobs}"));
        reader.push(fault.hint("give the task a `period`, or remove the steps from here on"));
    }
}
