//! The densest behaviour of a system.

use takt_core::model::{Arrival, Execution, PolicySpec, Scope, System};
use takt_core::time::Span;

/// Whether tasks, or pieces of them, have CPUs of their own.
#[must_use]
pub fn is_placed(system: &System) -> bool {
    let places = |policy: &PolicySpec| {
        matches!(policy.scope, Scope::Partitioned | Scope::Clustered) || policy.splits().is_some()
    };
    places(&system.policy) || system.domains.iter().any(|domain| places(&domain.policy))
}

/// The system with sporadic releases as close as they may be and each job as long as its task declares; `later` is added to the offset of
/// a sporadic task by its number. `None` if that is the system itself. O(n) for n tasks.
///
/// A placement depends on the kind of arrivals, so sporadic tasks that are placed stay sporadic, and each job is up to 1 ns late.
#[must_use]
pub fn densest(system: &System, later: impl Fn(usize) -> Span) -> Option<System> {
    let varies = |task: &takt_core::model::Task| {
        matches!(task.arrival, Arrival::Sporadic { .. }) || task.program.execution != Execution::Declared
    };
    if !system.tasks.iter().any(varies) {
        return None;
    }
    let (mut close, placed) = (system.clone(), is_placed(system));
    for (index, task) in close.tasks.iter_mut().enumerate() {
        if let Arrival::Sporadic { offset, period, .. } = task.arrival {
            let offset = offset + later(index);
            task.arrival = match placed {
                true => Arrival::Sporadic { offset, period, spread: Span::from_ns(1) },
                false => Arrival::Periodic { offset, period },
            };
        }
        task.program.execution = Execution::Declared;
    }
    Some(close)
}
