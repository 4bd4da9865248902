//! The programs and demands of jobs: `steps`, `execution`, `handler`, `releases`; and the shared resources that steps name.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{BOUNDS, HANDLER_KEYS, RESERVATION, SERIES, STEP, names};
use crate::node::{Entry, Kind, Node, Place};
use crate::reader::{Bare, Reader, bounded};
use crate::text::clipped;
use crate::value::{MAX_DURATION, choices, duration_text, nearest, parse_ratio};
use crate::{MAX_ENTRIES, series, utility};
use std::collections::HashMap;
use takt_core::model::{Call, Execution, Handler, Reservation, ResourceId, Step, Task};
use takt_core::time::Span;
use takt_core::utility::UNIT;

/// The most steps of a job.
const MAX_STEPS: usize = 10_000;
/// The most shared resources.
pub(crate) const MAX_RESOURCES: usize = 10_000;

const STEP_WORDS: [&str; STEP.len()] = names(&STEP);
const STEP_HINT: &str = "a step is `run 2ms`, `sleep 5ms`, `lock bus`, `unlock bus` or `yield`";

/// Reads the top level's `resources`.
pub(crate) fn declare(reader: &mut Reader, entry: &Entry) {
    let hint = "write their names as in `resources: [bus, log]`";
    let mut seen: HashMap<String, Place> = HashMap::new();
    reader.resources.list = Some(entry.key_span.clone());
    for item in bounded(reader, &entry.value, "resources", hint, MAX_RESOURCES).unwrap_or_default() {
        let Some(name) = reader.text(item, "resources", "a list of names") else { continue };
        let name = name.trim();
        if name.chars().any(char::is_control) {
            reader.push(
                Diagnostic::error(
                    Code::InvalidCharacter,
                    &item.span,
                    "a resource's name cannot hold control characters",
                )
                .label("such a character is in here"),
            );
        } else if let Some(first) = seen.insert(name.to_owned(), item.span.clone()) {
            reader.push(
                Diagnostic::error(
                    Code::DuplicateName,
                    &item.span,
                    format!("the resource `{}` is listed twice", clipped(name)),
                )
                .label("the second one")
                .also(&first, "the first one")
                .hint("remove one of them"),
            );
        } else {
            reader.resources.add(name);
        }
    }
}

fn resource(reader: &mut Reader, name: &str, place: &Place) -> Option<ResourceId> {
    if let Some(number) = reader.resources.index.get(name) {
        return Some(ResourceId(*number));
    }
    let known = &reader.resources;
    let fault = match &known.list {
        _ if name.is_empty() => {
            Diagnostic::error(Code::MissingValue, place, "a step names no resource").hint(STEP_HINT)
        }
        _ if name.chars().any(char::is_control) => {
            Diagnostic::error(Code::InvalidCharacter, place, "a resource's name cannot hold control characters")
                .label("such a character is in here")
        }
        Some(list) => {
            let names = || known.names.iter().map(String::as_str);
            let label = match reader.nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "not in the list".to_owned(),
            };
            Diagnostic::error(Code::UnknownName, place, format!("no resource is called `{}`", clipped(name)))
                .label(label)
                .also(list, "the resources are listed here")
                .hint("add it to `resources`, or remove that list: then steps introduce them")
        }
        None if known.names.len() >= MAX_RESOURCES => {
            Diagnostic::error(Code::LimitExceeded, place, format!("there are more than {MAX_RESOURCES} resources"))
                .label("the first one too many")
        }
        None => return Some(reader.resources.add(name)),
    };
    reader.push(fault);
    None
}

/// The steps of a program, as a file says them.
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    /// Where the whole list is.
    pub(crate) place: Place,
    /// Where each call and each wait is.
    pub(crate) calls: Vec<Place>,
}

/// Reads `steps`. The result does what [`takt_core::model::System::validate`] asks for.
pub(crate) fn steps(reader: &mut Reader, node: &Node) -> Option<Steps> {
    let faults = reader.diagnostics.len();
    let items = bounded(reader, node, "steps", STEP_HINT, MAX_STEPS)?;
    let mut steps = Vec::with_capacity(items.len());
    // The held resources, with the places of their locks.
    let mut held: Vec<(ResourceId, String, Place)> = Vec::new();
    let mut needed = Span::ZERO;
    let mut calls = Vec::new();
    // Whether the present job runs, and where it begins.
    let (mut runs, mut begins) = (false, node.head());
    // After a step that could not be read, one that unlocks may well be right.
    let mut readable = true;
    for item in items {
        let Some((step, name)) = step(reader, item) else {
            readable = false;
            continue;
        };
        match step {
            Step::Lock(id) => {
                if let Some((.., first)) = held.iter().find(|(h, ..)| *h == id) {
                    reader.push(
                        Diagnostic::error(
                            Code::UnbalancedLock,
                            &item.head(),
                            format!("`{}` is locked twice", clipped(&name)),
                        )
                        .label("the job would wait for itself")
                        .also(first, "it has it since here")
                        .hint(format!("put `unlock {}` between them, or remove this step", clipped(&name))),
                    );
                } else {
                    held.push((id, name, item.head()));
                }
            }
            Step::Unlock(id) => match held.iter().position(|(h, ..)| *h == id) {
                Some(at) => {
                    held.swap_remove(at);
                }
                None if !readable => {}
                None => reader.push(
                    Diagnostic::error(
                        Code::UnbalancedLock,
                        &item.head(),
                        format!("`{}` is not locked here", clipped(&name)),
                    )
                    .label("there is nothing to give back")
                    .hint(format!("put `lock {}` before it, or remove this step", clipped(&name))),
                ),
            },
            Step::Run(span) | Step::Sleep(span) => {
                needed = (needed + span).min(MAX_DURATION * 2);
                runs |= matches!(step, Step::Run(_));
            }
            Step::Yield => {}
            Step::Call(_) => calls.push(item.head()),
            Step::WaitPeriod => {
                calls.push(item.head());
                for (_, name, place) in held.drain(..) {
                    reader.push(
                        Diagnostic::error(
                            Code::UnbalancedLock,
                            &item.head(),
                            format!("`{}` is held while waiting", clipped(&name)),
                        )
                        .label("the job ends here, and what it holds goes back")
                        .also(&place, "it has it since here")
                        .hint(format!("put `unlock {}` before it", clipped(&name))),
                    );
                }
                if !core::mem::take(&mut runs) && readable {
                    idle(reader, &begins);
                }
                begins = item.head();
            }
        }
        steps.push(step);
    }
    if reader.diagnostics.len() > faults {
        return None;
    }
    if let Some((_, name, place)) = held.first() {
        reader.push(
            Diagnostic::error(Code::UnbalancedLock, place, format!("`{}` is never unlocked", clipped(name)))
                .label("the job would end with it")
                .hint(format!("add `unlock {}`", clipped(name))),
        );
    }
    if !runs && steps.last() != Some(&Step::WaitPeriod) {
        idle(reader, &begins);
    }
    if needed > MAX_DURATION {
        let fault = Diagnostic::error(Code::OutOfRange, &node.head(), "the steps together are longer than a year");
        reader.push(fault.label("they run and sleep too long"));
    }
    (reader.diagnostics.len() == faults).then(|| Steps { steps, place: node.head(), calls })
}

/// Says that the job that begins here does not run.
fn idle(reader: &mut Reader, place: &Place) {
    reader.push(
        Diagnostic::error(Code::NoExecution, place, "no step of the job runs")
            .label("a job needs the CPU for some time")
            .hint("add a step such as `run 1ms`"),
    );
}

/// One step, and the name of its resource.
fn step(reader: &mut Reader, node: &Node) -> Option<(Step, String)> {
    let (word, argument, place) = match &node.kind {
        Kind::Scalar { text, .. } if !text.trim().is_empty() => {
            let text = text.trim();
            let (word, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            (word, argument.trim(), node.span.clone())
        }
        Kind::Map(entries) if entries.len() == 1 => {
            let entry = &entries[0];
            let argument = match &entry.value.kind {
                _ if entry.value.is_null() => "",
                Kind::Scalar { text, .. } => text.trim(),
                _ => reader.scalar(&entry.value, &entry.key, "a single value")?,
            };
            let place = if entry.value.is_null() { entry.key_span.clone() } else { entry.value.span.clone() };
            (entry.key.as_str(), argument, place)
        }
        _ => {
            let fault = Diagnostic::error(Code::WrongType, &node.head(), "a step must be one thing to do");
            reader.push(fault.label(format!("this is {}", node.describe())).hint(STEP_HINT));
            return None;
        }
    };
    let step = match word {
        "run" | "sleep" if argument.is_empty() => {
            let fault =
                Diagnostic::error(Code::MissingValue, &place, format!("a step does not say how long to `{word}`"));
            reader.push(fault.hint(STEP_HINT));
            return None;
        }
        "set-period" | "set-deadline" | "set-runtime" => {
            if argument.is_empty() {
                let fault = Diagnostic::error(Code::MissingValue, &place, format!("`{word}` does not say to what"));
                reader.push(fault.label("a call without a value").hint(format!("write `{word} 20ms`")));
                return None;
            }
            let span = reader.span_text(argument, &place, word, Bare::Refused, false)?;
            Step::Call(Call::from_parts(word, span).expect("it is one of the three"))
        }
        "run" => Step::Run(reader.span_text(argument, &place, "run", Bare::Refused, false)?),
        "sleep" => Step::Sleep(reader.span_text(argument, &place, "sleep", Bare::Refused, false)?),
        "lock" => Step::Lock(resource(reader, argument, &place)?),
        "unlock" => Step::Unlock(resource(reader, argument, &place)?),
        "yield" if argument.is_empty() => Step::Yield,
        "wait-period" if argument.is_empty() => Step::WaitPeriod,
        "yield" | "wait-period" => {
            let fault = Diagnostic::error(Code::WrongType, &place, format!("`{word}` takes nothing"))
                .label("one word too many");
            reader.push(fault.hint(format!("write `{word}`; to wait for a time, `sleep 5ms`")));
            return None;
        }
        _ => {
            // `wait period` is a slip, too.
            let both = argument.split_whitespace().next().map(|second| format!("{word}-{second}"));
            let joined = both.and_then(|both| nearest(&both, STEP_WORDS.into_iter().filter(|w| w.contains('-'))));
            let near = joined.or_else(|| nearest(word, STEP_WORDS));
            let label = near.map_or("no such step".to_owned(), |n| format!("did you mean `{n}`?"));
            let fault = Diagnostic::error(Code::UnknownKey, &node.head(), format!("a step cannot `{}`", clipped(word)));
            reader.push(fault.label(label).hint(format!("it is one of {}", choices(STEP_WORDS, "or"))));
            return None;
        }
    };
    Some((step, argument.to_owned()))
}

/// The runtime that a task has by its `steps`: what its longest job runs for. `None` without steps, and where another one is
/// declared. O(steps).
#[must_use]
pub fn runtime_of_steps(task: &Task) -> Option<Span> {
    let (runs, _) = times(&task.program.steps);
    task.runtime.filter(|runtime| !task.program.steps.is_empty() && *runtime == runs)
}

/// How long a job of the program runs at most, and how long it takes without interference.
pub(crate) fn times(steps: &[Step]) -> (Span, Span) {
    let of = |steps: &[Step]| {
        steps.iter().fold((Span::ZERO, Span::ZERO), |(run, all), step| match *step {
            Step::Run(span) => (run + span, all + span),
            Step::Sleep(span) => (run, all + span),
            _ => (run, all),
        })
    };
    let jobs = steps.split(|step| *step == Step::WaitPeriod).map(of);
    jobs.fold((Span::ZERO, Span::ZERO), |(run, all), job| (run.max(job.0), all.max(job.1)))
}

/// Writes a step so that [`step`] reads it back; `quoted` makes a text a YAML scalar.
pub(crate) fn step_text(step: &Step, resources: &[String], quoted: impl Fn(&str) -> String) -> String {
    let name = |id: ResourceId| resources.get(usize::from(id.0)).map_or("", String::as_str);
    match *step {
        Step::Run(span) => format!("run {}", duration_text(span)),
        Step::Sleep(span) => format!("sleep {}", duration_text(span)),
        Step::Lock(id) => quoted(&format!("lock {}", name(id))),
        Step::Unlock(id) => quoted(&format!("unlock {}", name(id))),
        Step::Yield => "yield".to_owned(),
        Step::Call(call) => {
            let (name, span) = call.parts();
            format!("{name} {}", duration_text(span))
        }
        Step::WaitPeriod => "wait-period".to_owned(),
    }
}

/// Reads `execution`: a time, a list of times, a file with such a list, or the bounds of a drawn one.
pub(crate) fn execution(reader: &mut Reader, node: &Node) -> Option<Execution> {
    let hint = "write `execution: 3ms`, `execution: [2ms, 3ms]`, `execution: {least: 1ms, most: 4ms}` or `execution: {file: \
                frames.csv}`";
    match &node.kind {
        Kind::Scalar { .. } => Some(Execution::Series(vec![reader.span(node, "execution", Bare::Refused, false)?])),
        Kind::List(_) => {
            let items = bounded(reader, node, "execution", hint, MAX_ENTRIES)?;
            if items.is_empty() {
                reader.push(
                    Diagnostic::error(Code::EmptyValue, &node.span, "`execution` is empty")
                        .label("no time at all")
                        .hint(hint),
                );
                return None;
            }
            let faults = reader.diagnostics.len();
            let spans: Vec<Span> =
                items.iter().filter_map(|i| reader.span(i, "execution", Bare::Refused, false)).collect();
            (reader.diagnostics.len() == faults).then_some(Execution::Series(spans))
        }
        Kind::Map(_) if node.get("file").is_some() => series::execution(reader, node),
        Kind::Map(_) => {
            reader.keys(node, "`execution`", &[&names(&BOUNDS)[..], &names(&SERIES)[..1]].concat());
            let mut bound = |key: &str| {
                let entry = reader.required(node, "`execution`", key, "one bound alone", hint)?;
                reader.span(&entry.value, key, Bare::Refused, false)
            };
            let (least, most) = (bound("least"), bound("most"));
            let (least, most) = (least?, most?);
            if least > most {
                reader.push(
                    Diagnostic::error(Code::OutOfRange, &node.head(), "`least` is more than `most`")
                        .label(format!("{least} and {most}"))
                        .hint("swap them"),
                );
                return None;
            }
            Some(Execution::Uniform { least, most })
        }
    }
}

/// Reads `handler`: its runtime, or its runtime, deadline and utility. Without one it is worth as much as a job without one.
pub(crate) fn handler(reader: &mut Reader, node: &Node) -> Option<Handler> {
    if !matches!(node.kind, Kind::Map(_)) {
        return Some(Handler {
            runtime: reader.span(node, "handler", Bare::Refused, false)?,
            deadline: None,
            utility: UNIT,
        });
    }
    reader.keys(node, "a handler", &names(&HANDLER_KEYS));
    let hint = "write `handler: {runtime: 1ms, deadline: 5ms}`";
    let runtime = reader.required(node, "a handler", "runtime", "in this handler", hint)?;
    let place = &runtime.value.span;
    let runtime = reader.span(&runtime.value, "runtime", Bare::Refused, false);
    let deadline = match node.get("deadline") {
        Some(entry) => Some(reader.span(&entry.value, "deadline", Bare::Refused, false)?),
        None => None,
    };
    let utility = match node.get("utility") {
        Some(entry) => utility::amount(reader, &entry.value, "utility")?,
        None => UNIT,
    };
    let runtime = runtime?;
    if let Some(deadline) = deadline.filter(|d| *d < runtime) {
        reader.push(
            Diagnostic::error(Code::ImpossibleDeadline, place, "a handler can never meet its deadline")
                .label(format!("longer than its deadline of {deadline}"))
                .hint(format!("raise `deadline` to at least {runtime}, or lower `runtime`")),
        );
        return None;
    }
    Some(Handler { runtime, deadline, utility })
}

/// Reads `reservation: {budget: 5ms, period: 20ms}`.
pub(crate) fn reservation(reader: &mut Reader, node: &Node) -> Option<Reservation> {
    let form = "write `reservation: {budget: 5ms, period: 20ms}`";
    if !reader.is_map(node, "`reservation`", form) {
        return None;
    }
    reader.keys(node, "a reservation", &names(&RESERVATION));
    let whole = reserved(reader, node, "a reservation", form);
    let Some(entry) = node.get("deadline") else { return whole };
    let deadline = reader.span(&entry.value, "deadline", Bare::Refused, false);
    let (whole, deadline) = (whole?, deadline?);
    let Reservation { budget, period, .. } = whole;
    let fault = Diagnostic::error(
        Code::OutOfRange,
        &entry.value.span,
        "the deadline of a reservation is between its budget and its period",
    );
    if deadline < budget {
        let hint = format!("raise `deadline` to at least {budget}, or lower `budget`");
        reader.push(fault.label(format!("shorter than its budget of {budget}")).hint(hint));
        return None;
    }
    if deadline > period {
        let hint = format!("lower `deadline` to at most {period}, or remove it: then it is the end of the period");
        reader.push(fault.label(format!("longer than its period of {period}")).hint(hint));
        return None;
    }
    Some(Reservation { deadline: Some(deadline), ..whole })
}

/// Reads the `budget` and the `period` of what this is.
pub(crate) fn reserved(reader: &mut Reader, node: &Node, what: &str, form: &str) -> Option<Reservation> {
    let label = format!("in this {}", what.trim_start_matches("a "));
    for key in ["budget", "period"] {
        reader.required(node, what, key, &label, form);
    }
    let place = &node.get("budget")?.value.span;
    let [budget, period] = ["budget", "period"]
        .map(|key| node.get(key).and_then(|entry| reader.span(&entry.value, key, Bare::Refused, false)));
    let (budget, period) = (budget?, period?);
    if budget > period {
        reader.push(
            Diagnostic::error(Code::OutOfRange, place, format!("{what} of more than a whole CPU"))
                .label(format!("longer than its period of {period}"))
                .hint(format!("lower `budget` to at most {period}, or raise `period`")),
        );
        return None;
    }
    Some(Reservation::new(budget, period))
}

/// Reads `releases`: instants in ascending order, or `never`.
pub(crate) fn releases(reader: &mut Reader, node: &Node) -> Option<Vec<Span>> {
    let hint = "write `releases: [0ms, 3ms, 10ms]`, or `releases: never` for a task without jobs";
    if let Kind::Scalar { text, .. } = &node.kind
        && !node.is_null()
    {
        return match text.trim() {
            "never" => Some(Vec::new()),
            _ => reader.hinted(hint, |r| Some(vec![r.span(node, "releases", Bare::Refused, true)?])),
        };
    }
    let items = bounded(reader, node, "releases", hint, MAX_ENTRIES)?;
    if items.is_empty() {
        reader.push(
            Diagnostic::error(Code::EmptyValue, &node.head(), "`releases` is empty").label("no instant").hint(hint),
        );
        return None;
    }
    let faults = reader.diagnostics.len();
    let mut instants: Vec<Span> = Vec::with_capacity(items.len());
    for item in items {
        let Some(instant) = reader.span(item, "releases", Bare::Refused, true) else { continue };
        if let Some(before) = instants.last().filter(|i| **i > instant) {
            let fault = Diagnostic::error(Code::NotAscending, &item.span, "`releases` must be in ascending order");
            reader.push(fault.label(format!("earlier than {before}, the one before")).hint("sort them"));
        }
        instants.push(instant);
    }
    (reader.diagnostics.len() == faults).then_some(instants)
}

/// Reads `deadline`: a duration, or `none`.
pub(crate) fn deadline(reader: &mut Reader, node: &Node) -> Option<Option<Span>> {
    match &node.kind {
        Kind::Scalar { text, .. } if text.trim() == "none" => Some(None),
        _ => {
            let span = |r: &mut Reader| r.span(node, "deadline", Bare::Refused, false);
            reader.hinted("a task whose jobs may end at any time has `deadline: none`", span).map(Some)
        }
    }
}

/// Reads `share`, into millionths of a CPU.
pub(crate) fn share(reader: &mut Reader, node: &Node) -> Option<u32> {
    let text = reader.scalar(node, "share", "a part of a CPU such as `30%` or `0.3`")?;
    let fault = match parse_ratio(text) {
        Ok(share @ 1..=1_000_000) => return Some(share as u32),
        Ok(share) if share > 0 => Diagnostic::error(Code::OutOfRange, &node.span, "`share` is more than a CPU")
            .label("a task runs on one CPU at a time")
            .hint("lower it to at most `100%`"),
        Ok(_) => Diagnostic::error(Code::OutOfRange, &node.span, "`share` must be above zero")
            .label("no CPU time at all")
            .hint("write a part of a CPU such as `30%` or `0.3`, or remove the key"),
        Err(why) => {
            Diagnostic::error(Code::WrongType, &node.span, "`share` must be a part of a CPU such as `30%` or `0.3`")
                .label(why)
        }
    };
    reader.push(fault);
    None
}

/// Reads `importance`.
pub(crate) fn importance(reader: &mut Reader, node: &Node) -> Option<u32> {
    let importance = reader.whole(node, "importance", u64::from(u32::MAX))?;
    if importance == 0 {
        reader.push(
            Diagnostic::error(Code::OutOfRange, &node.span, "`importance` must be above zero")
                .label("it multiplies the task's share")
                .hint("write 1, and more for those that count more"),
        );
        return None;
    }
    Some(importance as u32)
}
