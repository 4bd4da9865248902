//! The CPU of each task, the pieces of a task that is split, and the tasks that no CPU accepted: as text and in JSON.

use super::tables::{Cell, aligned, percent};
use serde_json::{Value, json};
use std::io::{self, Write};
use takt_analysis::placement::{self, Home};
use takt_core::time::Span;
use takt_workload::Workload;

/// The place of a task.
pub(crate) struct Placed {
    pub(crate) task: String,
    /// The least time between two jobs, or the period of the task's server.
    pub(crate) period: Option<Span>,
    /// Whether it fits there; what does not is on a CPU that has too much to do, or may have.
    pub(crate) fits: bool,
    /// The pieces and their CPUs, in the order of time: one piece for a task that is not split.
    pub(crate) pieces: Vec<Piece>,
}

/// A task on a CPU, or a piece of one.
pub(crate) struct Piece {
    pub(crate) cpu: usize,
    /// The longest runtime of a job here; `None` where none is declared.
    pub(crate) budget: Option<Span>,
    /// The window, from the release of the job on.
    pub(crate) from: Span,
    /// Its end, which is the deadline here; `None` without one.
    pub(crate) to: Option<Span>,
}

/// Whether any task is split.
pub(crate) fn splits(placed: &[Placed]) -> bool {
    placed.iter().any(|p| p.pieces.len() > 1)
}

/// A row for each piece.
pub(crate) fn print(placed: &[Placed], out: &mut impl Write) -> io::Result<()> {
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

/// An object for each task.
pub(crate) fn json(placed: &[Placed]) -> Value {
    let piece = |p: &Piece| json!({"cpu": p.cpu, "budget_ns": p.budget.map(Span::ns), "from_ns": p.from.ns(), "to_ns": p.to.map(Span::ns)});
    let task = |p: &Placed| {
        json!({"task": p.task, "period_ns": p.period.map(Span::ns), "fits": p.fits,
               "pieces": p.pieces.iter().map(piece).collect::<Vec<_>>()})
    };
    placed.iter().map(task).collect()
}

/// The tasks that no CPU accepted, so that placement has put each on the least utilised one. As long as the policy takes to place
/// the tasks.
pub(crate) fn refused(workload: &Workload) -> Vec<Home> {
    placement::placement(&workload.system).into_iter().filter(|home| !home.fits).collect()
}

/// A warning about the tasks that no CPU accepted; nothing if there are none.
pub(crate) fn warn(refused: &[Home], workload: &Workload, out: &mut impl Write) -> io::Result<()> {
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

/// The tasks that no CPU accepted, an object each.
pub(crate) fn refused_json(refused: &[Home], workload: &Workload) -> Value {
    let task = |home: &Home| {
        json!({"task": workload.tasks[home.task.index()].name, "cpu": home.stops.first().map(|stop| stop.cpu),
               "inconclusive": home.inconclusive})
    };
    refused.iter().map(task).collect()
}
