//! One task written once and there several times: `copies: 6`, or `copies: {count: 6, apart: 5ms, skip: 100}`.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{COPIES_KEYS, names};
use crate::node::{Kind, Node};
use crate::reader::{Bare, Reader};
use crate::value::MAX_DURATION;
use crate::{MAX_ENTRIES, MAX_TASKS};
use takt_core::model::{Arrival, Execution, Task};
use takt_core::time::Span;

/// How often a task is there, and how its copies differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copies {
    pub(crate) count: usize,
    /// From the releases of one copy to those of the next.
    apart: Span,
    /// From the first entry of one copy's `execution` to that of the next.
    skip: u64,
}

impl Copies {
    /// The task as copy number `index`, from zero.
    pub(crate) fn copy(&self, task: &Task, index: usize) -> Task {
        let mut copy = task.clone();
        shift(&mut copy, self.apart * index as i64, self.skip * index as u64);
        copy
    }

    /// When events come for copy number `index`, from zero. Random instants are drawn for each copy anyway.
    pub(crate) fn events(&self, arrival: &Arrival, index: usize) -> Arrival {
        let mut arrival = arrival.clone();
        if let Arrival::Listed { instants } = &mut arrival {
            instants.iter_mut().for_each(|instant| *instant += self.apart * index as i64);
        }
        arrival
    }
}

/// Releases a task's jobs so much later, and lets them begin so many entries further in the list of what they need. O(entries).
///
/// With this, instances of one program differ in when they began and in where they are.
pub fn shift(task: &mut Task, later: Span, entries: u64) {
    match &mut task.arrival {
        Arrival::Periodic { offset, .. } | Arrival::Sporadic { offset, .. } => *offset += later,
        Arrival::Listed { instants } => instants.iter_mut().for_each(|instant| *instant += later),
        Arrival::Event { .. } | Arrival::Activated => {}
    }
    if let Execution::Series(spans) = &mut task.program.execution
        && !spans.is_empty()
    {
        let by = (entries % spans.len() as u64) as usize;
        spans.rotate_left(by);
    }
}

/// The name of a copy, from zero.
pub(crate) fn copy_name(name: &str, index: usize) -> String {
    format!("{name}-{}", index + 1)
}

/// The copies of a task, from the `copies` of the file and from what the command line wants instead of their number.
pub(crate) fn of(reader: &mut Reader, node: Option<&Node>, wanted: Option<usize>) -> Option<Copies> {
    let mut copies = node.and_then(|node| read(reader, node));
    if let Some(count) = wanted {
        copies = Some(Copies { count, ..copies.unwrap_or(Copies { count, apart: Span::ZERO, skip: 0 }) });
    }
    if let (Some(copies), Some(node)) = (copies, node)
        && copies.apart > MAX_DURATION / copies.count as i64
    {
        reader.push(
            Diagnostic::error(Code::OutOfRange, &node.head(), "the last copy begins after more than a year")
                .label(format!("{} copies, {} apart", copies.count, copies.apart))
                .hint("lower `apart`"),
        );
        return None;
    }
    copies
}

fn read(reader: &mut Reader, node: &Node) -> Option<Copies> {
    let hint = "write `copies: 6`, or `copies: {count: 6, apart: 5ms, skip: 100}`";
    if !matches!(node.kind, Kind::Map(_)) {
        return count(reader, node, "copies", hint).map(|count| Copies { count, apart: Span::ZERO, skip: 0 });
    }
    reader.keys(node, "`copies`", &names(&COPIES_KEYS));
    let entry = reader.required(node, "`copies`", "count", "how many?", hint)?;
    let faults = reader.diagnostics.len();
    let count = count(reader, &entry.value, "count", hint);
    let apart = node.get("apart").and_then(|e| reader.span(&e.value, "apart", Bare::Refused, true));
    let skip = node.get("skip").and_then(|e| reader.whole(&e.value, "skip", MAX_ENTRIES as u64));
    let copies = Copies { count: count?, apart: apart.unwrap_or(Span::ZERO), skip: skip.unwrap_or(0) };
    (reader.diagnostics.len() == faults).then_some(copies)
}

fn count(reader: &mut Reader, node: &Node, key: &str, hint: &str) -> Option<usize> {
    let count = reader.hinted(hint, |reader| reader.whole(node, key, MAX_TASKS as u64))?;
    if count == 0 {
        reader.push(
            Diagnostic::error(Code::OutOfRange, &node.span, format!("`{key}` must be above zero"))
                .label("a task that is not there")
                .hint("write 1, or remove the task"),
        );
        return None;
    }
    Some(count as usize)
}
