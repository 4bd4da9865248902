//! `event`: jobs that are released by events instead of a clock.

use crate::canonical::scalar;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::{Entry, Kind, Node, Place};
use crate::process::EventSource;
use crate::reader::{Bare, Reader};
use crate::scenario::task_called_by;
use crate::text::clipped;
use crate::workload::Workload;
use std::collections::HashMap;
use takt_core::model::{Arrival, TaskId};
use takt_core::time::Span;

const HINT: &str = "write `event: {after: TASK}` for a job after each completed job of another task, `event: {udp: \"127.0.0.1:5000\"}` for one \
     with a datagram, or `event: yes` for one with each `{at: 5ms, task: NAME, release: yes}` of `changes`";
/// The keys that name what the events are.
const SOURCES: [&str; 5] = ["after", "fd", "fifo", "udp", "signal"];
/// Signals that do not end a run, and that mean nothing to Takt.
const SIGNALS: [&str; 6] = ["USR1", "USR2", "ALRM", "URG", "IO", "WINCH"];
/// How many events and jobs of a task may wait unless the file says otherwise, and the most.
const QUEUE: u32 = 16;
const MOST: u64 = 4096;

/// What releases the jobs of a task, before other tasks are known.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) distance: Span,
    pub(crate) queue: u32,
    pub(crate) after: Option<(String, Place)>,
    pub(crate) source: Option<EventSource>,
}

/// Reads `event`: `yes`, or a mapping.
pub(crate) fn read(reader: &mut Reader, node: &Node) -> Option<Event> {
    let mut event = Event { distance: Span::ZERO, queue: QUEUE, after: None, source: None };
    if let Kind::Scalar { text, .. } = &node.kind
        && text.trim() == "yes"
    {
        return Some(event);
    }
    if !reader.is_map(node, "`event`", HINT) {
        return None;
    }
    reader.keys(node, "an event", &[SOURCES.as_slice(), &["distance", "queue"]].concat());
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
        match reader.whole(&entry.value, "queue", MOST) {
            Some(0) => {
                let fault = Diagnostic::error(Code::OutOfRange, &entry.value.span, "`queue` must be above zero");
                reader.push(fault.label("then each event is lost").hint("write `queue: 1` or more"));
            }
            Some(queue) => event.queue = queue as u32,
            None => {}
        }
    }
    (reader.diagnostics.len() == faults).then_some(event)
}

/// Reads a source outside the schedule.
fn source(reader: &mut Reader, entry: &Entry) -> Option<EventSource> {
    let (key, value) = (entry.key.as_str(), &entry.value);
    match key {
        "fd" => reader.whole(value, key, 1 << 20).map(|number| EventSource::Descriptor(number as i32)),
        "fifo" => reader.text(value, key, "the path of a named pipe").map(|path| EventSource::Fifo(path.into())),
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
        _ => {
            let names = SIGNALS.map(|name| (name, name));
            reader.choice(value, key, &names).map(EventSource::Signal)
        }
    }
}

/// The text of a source in a file: its key and its value.
pub(crate) fn source_text(source: &EventSource) -> String {
    match source {
        EventSource::Descriptor(number) => format!("fd: {number}"),
        EventSource::Fifo(path) => format!("fifo: {}", scalar(&path.to_string_lossy())),
        EventSource::Udp(address) => format!("udp: \"{address}\""),
        EventSource::Signal(name) => format!("signal: {name}"),
    }
}

/// Finds the tasks after which others are released. `followers` are these, with the names and where they stand.
pub(crate) fn connect(reader: &mut Reader, followers: Vec<(TaskId, String, Place)>, workload: &mut Workload) {
    if followers.is_empty() {
        return;
    }
    let names: HashMap<String, TaskId> =
        workload.tasks.iter().enumerate().map(|(i, t)| (t.name.clone(), TaskId(i as u32))).collect();
    let mut places = HashMap::new();
    for (task, name, place) in followers {
        let Some(first) = task_called_by(reader, &name, &place, &names) else { continue };
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
