//! Which policies give tasks servers of their own, and these servers as tasks.

use takt_core::model::{Arrival, PolicySpec, System};
use takt_core::time::Span;

/// Whether the policy is one of servers whose guarantee is proven.
pub(crate) fn isolates(policy: &PolicySpec) -> bool {
    policy.reservations().is_some_and(|reservations| reservations.isolated)
}

/// The system with budgets as runtimes and the servers' relative deadlines as periods, by which its tasks are packed.
pub(crate) fn as_runtimes(system: &System) -> System {
    let mut system = system.clone();
    for task in &mut system.tasks {
        if let Some(reserved) = task.reserved() {
            task.runtime = Some(reserved.budget);
            task.arrival = Arrival::Periodic { offset: Span::ZERO, period: reserved.relative_deadline() };
        }
    }
    system
}
