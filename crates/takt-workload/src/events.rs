//! `event`: jobs that are released by events instead of a clock.

use crate::code::Code;
use crate::copies::Copies;
use crate::diagnostic::Diagnostic;
use crate::keys::{EVENT, names};
use crate::limits::MOST_QUEUED;
use crate::node::{Entry, Kind, Node, Place};
use crate::process::EventSource;
use crate::reader::{Bare, Reader};
use crate::steps;
use crate::task_names;
use crate::text::clipped;
use crate::words::SIGNALS_TO_RUNS;
use crate::workload::Workload;
use std::collections::HashMap;
use takt_core::model::{Arrival, TaskId};
use takt_core::time::Span;

const HINT: &str = "write `event: {after: TASK}` for a job after each completed job of another task, `event: {udp: \"127.0.0.1:5000\"}` for one \
     with a datagram, `event: segments` for one with each real-time segment of the program, `event: wakeup` for one with each of its wake-ups, or `event: yes` for one with each `{at: 5ms, task: NAME, release: yes}` of `changes`";
/// The keys that plan the events of a simulation.
const SIMULATED: [&str; 2] = ["releases", "spread"];
/// The keys that name what the events are.
const SOURCES: [&str; 7] = ["after", "fd", "pipe", "udp", "signal", "segments", "wakeup"];
/// How many events and jobs of a task may wait unless the file says otherwise.
const QUEUE: u32 = 16;

/// The events of a task, before other tasks are known.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) distance: Span,
    pub(crate) queue: u32,
    pub(crate) after: Option<(String, Place)>,
    pub(crate) source: Option<EventSource>,
    /// When events come in a simulation.
    pub(crate) simulated: Option<Arrival>,
}

/// Reads `event`: `yes`, or a mapping.
pub(crate) fn read(reader: &mut Reader, node: &Node) -> Option<Event> {
    let mut event = Event { distance: Span::ZERO, queue: QUEUE, after: None, source: None, simulated: None };
    match &node.kind {
        Kind::Scalar { text, .. } if text.trim() == "yes" => return Some(event),
        Kind::Scalar { text, .. } if text.trim() == "segments" => {
            event.source = Some(EventSource::Segments);
            return Some(event);
        }
        Kind::Scalar { text, .. } if text.trim() == "wakeup" => {
            event.source = Some(EventSource::WakeUp);
            return Some(event);
        }
        _ => {}
    }
    if !reader.is_map(node, "`event`", HINT) {
        return None;
    }
    reader.keys(node, "an event", &names(&EVENT));
    let faults = reader.diagnostics.len();
    let given: Vec<&Entry> = SOURCES.iter().filter_map(|key| node.get(key)).collect();
    if let [first, second, ..] = given[..] {
        let message = format!("an event has both `{}` and `{}`", first.key, second.key);
        let fault = Diagnostic::error(Code::ConflictingKeys, &second.key_span, message);
        reader.push(fault.label("a second source").also(&first.key_span, "the first one").hint("keep one of them"));
        return None;
    }
    if let Some(entry) = given.first().filter(|entry| entry.key != "after") {
        event.source = source(reader, entry);
    }
    if let Some(entry) = node.get("after") {
        event.after = reader
            .scalar(&entry.value, "after", "the name of a task")
            .map(|name| (name.to_owned(), entry.value.span.clone()));
    }
    if let Some(entry) = node.get("distance") {
        event.distance = reader.span(&entry.value, "distance", Bare::Refused, true).unwrap_or_default();
    }
    if let Some(entry) = node.get("queue") {
        match reader.whole(&entry.value, "queue", MOST_QUEUED) {
            Some(0) => {
                let fault = Diagnostic::error(Code::OutOfRange, &entry.value.span, "`queue` must be above zero");
                reader.push(fault.label("then each event is lost").hint("write `queue: 1` or more"));
            }
            Some(queue) => event.queue = queue as u32,
            None => {}
        }
    }
    event.simulated = simulated(reader, node, &event);
    (reader.diagnostics.len() == faults).then_some(event)
}

/// Reads `releases` or `spread` of an event.
fn simulated(reader: &mut Reader, node: &Node, event: &Event) -> Option<Arrival> {
    let given: Vec<&Entry> = SIMULATED.iter().filter_map(|key| node.get(key)).collect();
    let other = node.get("after").into_iter().chain(given.get(1).copied()).next();
    if let (Some(first), Some(other)) = (given.first(), other) {
        let message = format!("an event has both `{}` and `{}`", first.key, other.key);
        let fault = Diagnostic::error(Code::ConflictingKeys, &first.key_span, message);
        reader.push(
            fault.label("a second plan of its events").also(&other.key_span, "the first one").hint("keep one of them"),
        );
        return None;
    }
    let Some(entry) = given.first() else {
        // A loop that sleeps until its next time comes as often as it may.
        let repeats = event.source == Some(EventSource::WakeUp) && event.distance > Span::ZERO;
        return repeats.then_some(Arrival::Sporadic { offset: Span::ZERO, period: event.distance, spread: Span::ZERO });
    };
    match entry {
        entry if entry.key == "releases" => {
            steps::releases(reader, &entry.value).map(|instants| Arrival::Listed { instants })
        }
        entry => {
            let spread = reader.span(&entry.value, "spread", Bare::Refused, true)?;
            if event.distance <= Span::ZERO {
                let fault =
                    Diagnostic::error(Code::MissingKey, &entry.key_span, "an event has a `spread` and no `distance`");
                let fault = fault.label("the time between two events varies from the distance to this much more");
                reader.push(fault.hint("add `distance`, the least time between two releases"));
                return None;
            }
            Some(Arrival::Sporadic { offset: Span::ZERO, period: event.distance, spread })
        }
    }
}

/// Reads a source outside the schedule.
fn source(reader: &mut Reader, entry: &Entry) -> Option<EventSource> {
    let (key, value) = (entry.key.as_str(), &entry.value);
    match key {
        "fd" => reader.whole(value, key, 1 << 20).map(|number| EventSource::Descriptor(number as i32)),
        "pipe" => reader.text(value, key, "the path of a named pipe").map(|path| EventSource::Pipe(path.into())),
        "udp" => {
            let text = reader.scalar(value, key, "an address and a port")?.to_owned();
            let address = text.parse().ok();
            if address.is_none() {
                let message = format!("`{}` is not an address with a port", clipped(&text));
                let fault = Diagnostic::error(Code::WrongType, &value.span, message).label("datagrams arrive nowhere");
                reader.push(fault.hint("write `udp: \"127.0.0.1:5000\"`, or `udp: \"[::1]:5000\"`"));
            }
            address.map(EventSource::Udp)
        }
        "segments" | "wakeup" => match reader.boolean(value, key)? {
            true if key == "wakeup" => Some(EventSource::WakeUp),
            true => Some(EventSource::Segments),
            false => {
                let message = format!("`{key}: no` names no source of events");
                let fault = Diagnostic::error(Code::NoEffect, &value.span, message);
                reader.push(fault.label("events without a source").hint(format!("remove it, or write `{key}: yes`")));
                None
            }
        },
        _ => {
            let names = SIGNALS_TO_RUNS.map(|name| (name, name));
            reader.choice(value, key, &names).map(EventSource::Signal)
        }
    }
}

/// Keeps the events of a task, or of a copy of it, until all tasks are known.
pub(crate) fn note(reader: &mut Reader, event: Option<&Event>, task: TaskId, copy: Option<(Copies, usize)>) {
    let Some(event) = event else { return };
    reader.followers.extend(event.after.clone().map(|(name, place)| (task, name, place)));
    let simulated = event.simulated.clone();
    let delayed =
        simulated.map(|arrival| copy.map_or(arrival.clone(), |(copies, index)| copies.events(&arrival, index)));
    reader.events.extend(delayed.map(|arrival| (task, arrival)));
}

/// Two tasks with one source. Its data would belong to one of them.
fn shared(reader: &mut Reader, workload: &Workload, heads: &[Place]) {
    let mut first: HashMap<&EventSource, usize> = HashMap::new();
    for (task, info) in workload.tasks.iter().enumerate() {
        let Some(source) = info.event.as_deref() else { continue };
        if matches!(source, EventSource::Signal(_) | EventSource::Segments | EventSource::WakeUp) {
            continue;
        }
        if let Some(other) = first.insert(source, task) {
            let [name, other] = [task, other].map(|task| clipped(&workload.tasks[task].name));
            let message = format!("tasks `{other}` and `{name}` have one source of events");
            let fault = Diagnostic::error(Code::ConflictingKeys, &heads[task], message);
            reader.push(
                fault
                    .label("each datagram belongs to one of them")
                    .hint(format!("give `{name}` another source, or release it by `event: {{after: {other}}}`")),
            );
            return;
        }
    }
}

/// Wake-ups in a window table, where a sleep takes time of its window and is not observed.
fn woken_in_windows(reader: &mut Reader, workload: &Workload, heads: &[Place]) {
    if workload.system.windows.is_empty() {
        return;
    }
    for (info, head) in workload.tasks.iter().zip(heads) {
        if info.event.as_deref() == Some(&EventSource::WakeUp) {
            let message = format!("task `{}` of a window table has `event: wakeup`", clipped(&info.name));
            let fault = Diagnostic::error(Code::NotSupportedHere, head, message);
            let fault = fault.label("its sleeps are not observed between its windows");
            reader.push(fault.hint("write a `period` in place of the event, or remove the windows"));
        }
    }
}

/// Finds the tasks after which others are released. `followers` are these, with the names and where they stand.
pub(crate) fn connect(
    reader: &mut Reader,
    followers: Vec<(TaskId, String, Place)>,
    workload: &mut Workload,
    places_of: &[Place],
) {
    workload.scenario.events = std::mem::take(&mut reader.events);
    shared(reader, workload, places_of);
    woken_in_windows(reader, workload, places_of);
    if followers.is_empty() {
        return;
    }
    let names: HashMap<String, TaskId> =
        workload.tasks.iter().enumerate().map(|(i, t)| (t.name.clone(), TaskId(i as u32))).collect();
    let mut places = HashMap::new();
    for (task, name, place) in followers {
        let Some(first) = task_names::called(reader, &name, &place, &names) else { continue };
        if let Arrival::Event { after, .. } = &mut workload.system.tasks[task.index()].arrival {
            *after = Some(first);
            places.insert(task, place);
        }
    }
    let before = |task: TaskId| match workload.system.tasks[task.index()].arrival {
        Arrival::Event { after, .. } => after,
        _ => None,
    };
    // Each task has one before it, so a walk that is longer than the list of tasks is in a cycle.
    let mut found: Vec<(&TaskId, &Place)> = places.iter().collect();
    found.sort_unstable_by_key(|(task, _)| **task);
    for (task, place) in found {
        let mut walk = before(*task);
        let mut steps = 0;
        while let Some(next) = walk.filter(|next| next != task && steps <= places.len()) {
            (walk, steps) = (before(next), steps + 1);
        }
        if walk == Some(*task) {
            let name = clipped(&workload.tasks[task.index()].name);
            let fault =
                Diagnostic::error(Code::ConflictingKeys, place, format!("task `{name}` is released after itself"));
            reader.push(fault.label("no job is ever the first").hint("release one of these tasks by its `period`"));
            return;
        }
    }
}
