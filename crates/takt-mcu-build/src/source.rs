//! The table as Rust source.

use crate::table::Table;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use takt_core::input::Input;
use takt_core::model::Step::Run as Execute;
use takt_core::model::{Backlog, Step, Task, TaskId, Timing};
use takt_core::time::{Span, Time};
use takt_workload::Workload;

/// The text that `takt_mcu::tables!` includes. `name` is that of the table.
#[must_use]
pub fn source(table: &Table, name: &str) -> String {
    let mut text = String::new();
    let n = table.tasks.len();
    let stacks: Vec<String> = table.stacks.iter().map(u32::to_string).collect();
    let restarts: Vec<String> = table.restarts.iter().map(bool::to_string).collect();
    let duration = match table.duration {
        Some(duration) => format!("Some(::takt_mcu::core::time::Span::from_ns({}))", duration.ns()),
        None => "None".to_owned(),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "/// The table of the workload.\n\
         pub static {name}: ::takt_mcu::Table<{n}> = ::takt_mcu::Table {{\n    \
         system: &{bytes:?},\n    \
         policy: &::takt_mcu::core::policies::{path},\n    \
         stacks: [{stacks}],\n    \
         restarts: [{restarts}],\n    \
         changes: &[{changes}],\n    \
         duration: {duration},\n}};\n",
        bytes = table.bytes,
        path = table.path,
        stacks = stacks.join(", "),
        restarts = restarts.join(", "),
        changes = table.changes.iter().map(change).collect::<Vec<_>>().join(", "),
    );
    if table.system.backlog != Backlog::Queue || table.system.timing != Timing::default() {
        text.push_str(
            "const _: () = assert!(::takt_mcu::BACKLOGS, \"the workload's rule for late jobs needs the feature `backlogs` of takt-mcu\");\n",
        );
    }
    let _ = writeln!(text, "/// The tasks of the workload.\n#[allow(dead_code)]\npub mod tasks {{");
    for (number, ident) in identifiers(&table.tasks).iter().enumerate() {
        let doc = &table.tasks[number];
        let _ = writeln!(
            text,
            "    /// Task {doc:?}.\n    pub const {ident}: ::takt_mcu::TaskRef = ::takt_mcu::TaskRef::new({number});"
        );
    }
    let _ = writeln!(text, "}}\n/// The locks of the workload.\n#[allow(dead_code)]\npub mod locks {{");
    for (number, ident) in identifiers(&table.locks).iter().enumerate() {
        let doc = &table.locks[number];
        let _ = writeln!(
            text,
            "    /// Lock {doc:?}.\n    pub const {ident}: ::takt_mcu::sync::Lock = ::takt_mcu::sync::Lock::new({number});"
        );
    }
    text.push_str("}\n");
    text
}

/// A change with its instant. `table` has refused all others.
fn change((at, input): &(Time, Input)) -> String {
    const CORE: &str = "::takt_mcu::core";
    let id = |task: TaskId| format!("task: {CORE}::model::TaskId({})", task.0);
    let span = |span: Span| format!("{CORE}::time::Span::from_ns({})", span.ns());
    let maybe = |value: Option<Span>| value.map_or("None".to_owned(), |value| format!("Some({})", span(value)));
    let input = match *input {
        Input::Share { task, share, importance } => {
            format!("Share {{ {}, share: {share:?}, importance: {importance} }}", id(task))
        }
        Input::Retime { task, period, deadline, runtime } => {
            let (period, deadline, runtime) = (span(period), maybe(deadline), maybe(runtime));
            format!("Retime {{ {}, period: {period}, deadline: {deadline}, runtime: {runtime} }}", id(task))
        }
        Input::Skew { task, by } => format!("Skew {{ {}, by: {} }}", id(task), span(by)),
        Input::Configure { setting, value } => format!("Configure {{ setting: {setting}, value: {value:?} }}"),
        Input::Block { task } => format!("Block {{ {} }}", id(task)),
        Input::Wake { task } => format!("Wake {{ {} }}", id(task)),
        Input::Leave { task } => format!("Leave {{ {} }}", id(task)),
        Input::Enter { task } => format!("Enter {{ {} }}", id(task)),
        Input::Release { task } => format!("Release {{ {} }}", id(task)),
        other => unreachable!("{other:?} is refused"),
    };
    format!("({CORE}::time::Time::from_ns({}), {CORE}::input::Input::{input})", at.ns())
}

/// The steps of the tasks' programs, and what releases jobs from outside.
pub(crate) fn steps(workload: &Workload) -> String {
    let span = |span: Span| format!("Span::from_ns({})", span.ns());
    let step = |step: &Step| match *step {
        Execute(length) => format!("Do::Burn({})", length.ns()),
        Step::Sleep(length) => format!("Do::Sleep({})", span(length)),
        Step::Lock(r) => format!("Do::Lock({})", r.0),
        Step::Unlock(r) => format!("Do::Unlock({})", r.0),
        // Terms of jobs do not change here, and each program is one job.
        Step::Yield | Step::Call(_) | Step::WaitPeriod => "Do::Yield".to_owned(),
    };
    let of = |task: &Task| match (task.program.steps.as_slice(), task.runtime) {
        ([], Some(runtime)) => format!("&[Do::Burn({})]", runtime.ns()),
        (steps, _) => format!("&[{}]", steps.iter().map(step).collect::<Vec<_>>().join(", ")),
    };
    let tasks = &workload.system.tasks;
    let all: Vec<String> = tasks.iter().map(of).collect();
    let events = (0..tasks.len()).filter(|task| workload.is_released_by_events(*task));
    let events: Vec<String> = events.map(|task| task.to_string()).collect();
    let period =
        workload.scenario.events.iter().filter_map(|(_, arrival)| arrival.period()).min().unwrap_or(Span::ZERO);
    format!(
        "const STEPS: [&[Do]; {}] = [{}];\nconst EVENTS: &[u32] = &[{}];\nconst EVENT_PERIOD: Span = {};\n",
        tasks.len(),
        all.join(", "),
        events.join(", "),
        span(period),
    )
}

/// Names of constants for these names, no two alike.
#[must_use]
pub fn identifiers(names: &[String]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    names
        .iter()
        .map(|name| {
            let mut ident: String =
                name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
            if ident.is_empty() || ident.starts_with(|c: char| c.is_ascii_digit()) || ident == "_" {
                ident.insert(0, 'N');
            }
            while !taken.insert(ident.clone()) {
                ident.push('_');
            }
            ident
        })
        .collect()
}
