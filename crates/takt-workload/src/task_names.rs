//! Tasks by their names, for keys that name one.

use crate::MAX_DIAGNOSTICS;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::Place;
use crate::reader::Reader;
use crate::text::clipped;
use crate::value::{choices, nearest};
use std::collections::HashMap;
use takt_core::model::TaskId;

/// The task of this name, which stands at `place`.
pub(crate) fn called(
    reader: &mut Reader,
    name: &str,
    place: &Place,
    names: &HashMap<String, TaskId>,
) -> Option<TaskId> {
    if let Some(id) = names.get(name) {
        return Some(*id);
    }
    // In the order of the tasks, so that the same file gets the same answer.
    let mut all: Vec<(TaskId, &str)> = Vec::new();
    if reader.diagnostics.len() < MAX_DIAGNOSTICS {
        all.extend(names.iter().map(|(name, id)| (*id, name.as_str())));
        all.sort_unstable();
    }
    let all = || all.iter().map(|(_, name)| *name);
    let fault = Diagnostic::error(Code::UnknownName, place, format!("no task is called `{}`", clipped(name)));
    let fault = match nearest(name, all()) {
        Some(near) => fault.label(format!("did you mean `{near}`?")),
        None => fault.label("not defined in this file"),
    };
    reader.push(match names.len() {
        1..=20 => fault.hint(format!("the tasks are {}", choices(all(), "and"))),
        n => fault.hint(format!("the file has {n} tasks; `takt check --canonical` prints their names")),
    });
    None
}
