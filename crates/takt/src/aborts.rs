//! The consequence of an abort for each task, in `takt check`.

use serde::Serialize;
use std::io::{self, Write};
use takt_core::model::{Arrival, Late, OnAbort, Task};
use takt_workload::{TaskInfo, Workload};

/// The tasks whose jobs can be aborted, each with the keys that abort them: `late`, its own `budget`.
fn aborted(workload: &Workload) -> impl Iterator<Item = (&TaskInfo, &Task, Vec<&'static str>)> {
    let late = workload.system.late != Late::Continue;
    workload.tasks.iter().zip(&workload.system.tasks).filter_map(move |(info, task)| {
        // The budget of a window cuts an activation off; the next one continues its job.
        let online = task.arrival != Arrival::Activated;
        let by_deadline = (late && online && task.deadline.is_some()).then_some("late");
        let by_budget = (online && task.budget.is_some()).then_some("budget");
        let by: Vec<&str> = by_deadline.into_iter().chain(by_budget).collect();
        (!by.is_empty()).then_some((info, task, by))
    })
}

fn rule(task: &Task) -> &'static str {
    match task.on_abort {
        OnAbort::Finish => "finish",
        OnAbort::Restart => "restart",
        OnAbort::Signal => "signal",
    }
}

/// A task whose jobs can be aborted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Abort {
    /// Its name.
    pub task: String,
    /// The keys that abort them: `late`, `budget`.
    pub by: Vec<&'static str>,
    /// The rule for their work: `finish`, `restart` or `signal`.
    pub on_abort: &'static str,
}

/// The tasks whose jobs can be aborted.
pub(crate) fn entries(workload: &Workload) -> Vec<Abort> {
    aborted(workload).map(|(info, task, by)| Abort { task: info.name.clone(), by, on_abort: rule(task) }).collect()
}

/// A line for each consequence, with its tasks.
pub(crate) fn print(workload: &Workload, out: &mut impl Write) -> io::Result<()> {
    let consequence = |info: &TaskInfo, task: &Task| match (task.on_abort, info.is_program()) {
        (OnAbort::Finish, true) => {
            "its process completes the abandoned work first, before the work of its next job".to_owned()
        }
        (OnAbort::Finish, false) => "the abandoned work is completed first, before the work of its next job".to_owned(),
        (OnAbort::Restart, true) => "its process is killed and started again".to_owned(),
        (OnAbort::Signal, true) => {
            format!("its process receives SIG{} and returns to its job loop", info.abort_signal.unwrap_or("USR1"))
        }
        (_, false) if task.handler.is_some() => "the rest of its work is dropped, and its handler follows".to_owned(),
        (_, false) => "the rest of its work is dropped".to_owned(),
    };
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (info, task, by) in aborted(workload) {
        let keys = by.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" or ");
        let by_handler = !info.is_program() && task.handler.is_some();
        let rule = if by_handler { "`handler`".to_owned() } else { format!("`on_abort: {}`", rule(task)) };
        let line = format!("a job aborted by {keys}: {} ({rule})", consequence(info, task));
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) => names.push(&info.name),
            None => lines.push((line, vec![&info.name])),
        }
    }
    for (line, names) in lines {
        let more = names.len().saturating_sub(NAMED);
        let names = names[..names.len() - more].join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(out, "{names}{more}: {line}")?;
    }
    Ok(())
}

/// How many tasks a line names.
const NAMED: usize = 12;
