//! Execution times of jobs, as far as a trace shows them.

use crate::Trace;
use takt_core::record::{Outcome, RecordKind};
use takt_core::time::Span;

/// The open job of a task.
#[derive(Clone, Copy, Default)]
struct Open {
    /// Consumed in earlier activations of a window table.
    before: Span,
    /// The program is also at the work of another job, and the trace does not divide what is consumed.
    mixed: bool,
}

/// The execution times of the completed jobs of each task, in the order of their ends. O(records).
///
/// A job of a window table has the sum over its activations. A job is not counted if the trace does not show its own consumption: during it, the
/// program was also at the work of an earlier job, or the kernel scheduled it.
#[must_use]
pub fn execution_times(trace: &Trace) -> Vec<Vec<Span>> {
    let tasks = &trace.header.tasks;
    let (mut times, mut open) = (vec![Vec::new(); tasks.len()], vec![Open::default(); tasks.len()]);
    for r in &trace.records {
        match r.record.kind {
            RecordKind::Behind { task, .. } => open[task.index()].mixed = true,
            // In a window table, the signal ends a job within an activation that then belongs to the next one.
            RecordKind::LateSignal { task, .. } if tasks[task.index()].completion.is_some() => {
                open[task.index()] = Open { before: Span::ZERO, mixed: true };
            }
            RecordKind::Finish { task, outcome, consumed, .. } => {
                let job = &mut open[task.index()];
                let total = job.before + consumed.nominal_time();
                let is_cut = matches!(outcome, Outcome::BudgetUsed | Outcome::Overrun);
                if is_cut && tasks[task.index()].completion.is_some() {
                    job.before = total;
                    continue;
                }
                let is_known = outcome == Outcome::Completed && !job.mixed && total > Span::ZERO;
                *job = Open::default();
                if is_known {
                    times[task.index()].push(total);
                }
            }
            _ => {}
        }
    }
    times
}
