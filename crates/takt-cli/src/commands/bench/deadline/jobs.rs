//! The jobs of the tasks of a pattern.

use takt_core::model::{Arrival, Step, Task};
use takt_core::time::Span;

/// No pattern takes so long; a process that is still busy then has been starved.
pub(super) const LONGEST: Span = Span::from_secs(3);

/// The releases of a task's jobs, and what each of them does.
pub(super) fn jobs(task: &Task) -> Option<Vec<(Span, Vec<Step>)>> {
    let Arrival::Listed { instants } = &task.arrival else { return None };
    let steps = |job: usize| match task.program.steps.as_slice() {
        [] => task.demand(0, takt_core::model::TaskId(0), job as u64).map(|run| vec![Step::Run(run)]),
        steps => Some(steps.to_vec()),
    };
    instants.iter().enumerate().map(|(job, release)| Some((*release, steps(job)?))).collect()
}
