//! The CPU of each task, the pieces of a task that is split, and the tasks that no CPU accepted: as text and in JSON.

use super::tables::{Cell, aligned, percent};
use serde::{Serialize, Serializer};
use std::io::{self, Write};
use takt_analysis::placement::{self, Home};
use takt_core::time::Span;
use takt_workload::Workload;

/// The place of a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Placed {
    /// Its name.
    pub task: String,
    /// The least time between two jobs, or the period of the task's server.
    #[serde(rename = "period_ns", serialize_with = "ns_or_null")]
    pub period: Option<Span>,
    /// Whether it fits there; what does not is on a CPU that has too much to do, or may have.
    pub fits: bool,
    /// The pieces and their CPUs, in the order of time: one piece for a task that is not split.
    pub pieces: Vec<Piece>,
}

/// A task on a CPU, or a piece of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Piece {
    /// The CPU.
    pub cpu: usize,
    /// The longest runtime of a job here; `None` where none is declared.
    #[serde(rename = "budget_ns", serialize_with = "ns_or_null")]
    pub budget: Option<Span>,
    /// The window, from the release of the job on.
    #[serde(rename = "from_ns", serialize_with = "ns")]
    pub from: Span,
    /// Its end, which is the deadline here; `None` without one.
    #[serde(rename = "to_ns", serialize_with = "ns_or_null")]
    pub to: Option<Span>,
}

/// Whether any task is split.
#[must_use]
pub fn splits(placed: &[Placed]) -> bool {
    placed.iter().any(|p| p.pieces.len() > 1)
}

/// A row for each piece.
///
/// # Errors
/// Those of the output.
pub fn print(placed: &[Placed], out: &mut impl Write) -> io::Result<()> {
    let mut rows = vec![["task", "CPU", "budget", "from", "to", "of the CPU", ""].map(Cell::from).to_vec()];
    for p in placed {
        for piece in &p.pieces {
            let share = piece.budget.zip(p.period).map(|(budget, period)| {
                let millionths = i128::from(budget.ns()) * 1_000_000 / i128::from(period.ns().max(1));
                percent(i64::try_from(millionths).unwrap_or(i64::MAX))
            });
            rows.push(vec![
                p.task.as_str().into(),
                piece.cpu.to_string().into(),
                piece.budget.into(),
                Cell::Exact(piece.from),
                piece.to.into(),
                share.map_or_else(|| "-".into(), Cell::from),
                if p.fits { "" } else { "does not fit" }.into(),
            ]);
        }
    }
    aligned(out, &rows, |column| column == 0 || column == 6)
}

/// A time in nanoseconds.
pub(crate) fn ns<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(span.ns())
}

/// A time in nanoseconds that need not be there.
pub(crate) fn ns_or_null<S: Serializer>(span: &Option<Span>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(Span::ns).serialize(serializer)
}

/// The tasks that no CPU accepted, so that placement has put each on the least utilised one. As long as the policy takes to place
/// the tasks.
#[must_use]
pub fn refused(workload: &Workload) -> Vec<Home> {
    placement::placement(&workload.system).into_iter().filter(|home| !home.fits).collect()
}

/// A warning about the tasks that no CPU accepted; nothing if there are none.
///
/// # Errors
/// Those of the output.
pub fn warn(refused: &[Home], workload: &Workload, out: &mut impl Write) -> io::Result<()> {
    const TOLD: usize = 8;
    if refused.is_empty() {
        return Ok(());
    }
    let one = |home: &Home| {
        let name = &workload.tasks[home.task.index()].name;
        let test = if home.inconclusive { ", test inconclusive" } else { "" };
        home.stops.first().map_or_else(|| name.clone(), |stop| format!("{name} (CPU {}{test})", stop.cpu))
    };
    let mut told: Vec<String> = refused.iter().take(TOLD).map(one).collect();
    if refused.len() > TOLD {
        told.push(format!("{} more", refused.len() - TOLD));
    }
    let told = told.join(", ");
    match refused {
        [_] => writeln!(out, "warning: no CPU accepts this task, so it is on the least utilised one: {told}"),
        _ => writeln!(out, "warning: no CPU accepts these tasks, so each is on the least utilised one: {told}"),
    }
}

/// A task that no CPU accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Refused {
    /// Its name.
    pub task: String,
    /// The CPU on which it is nevertheless.
    pub cpu: Option<usize>,
    /// The test did not show that it does not fit.
    pub inconclusive: bool,
}

/// The tasks that no CPU accepted, by name.
#[must_use]
pub fn refused_tasks(refused: &[Home], workload: &Workload) -> Vec<Refused> {
    let task = |home: &Home| Refused {
        task: workload.tasks[home.task.index()].name.clone(),
        cpu: home.stops.first().map(|stop| stop.cpu),
        inconclusive: home.inconclusive,
    };
    refused.iter().map(task).collect()
}
