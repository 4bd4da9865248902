//! The ranks of servers, and servers as tasks.

use takt_core::model::{Arrival, Order, PolicySpec, Reservation, Server, System, Task, TaskId};
use takt_core::time::Span;

/// The order of tasks and servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Period,
    Priority,
    Deadline,
}

/// The ranking of a policy of servers; `None` for every other policy, and for a ranking that no test covers.
pub(crate) fn ranking(policy: &PolicySpec) -> Option<By> {
    match policy.server_order()? {
        Order::Period => Some(By::Period),
        Order::Priority => Some(By::Priority),
        Order::AbsoluteDeadline => Some(By::Deadline),
        _ => None,
    }
}

/// By how much later than a period after the one before the budget of a server can be used, as far as others notice: a deferrable
/// server can use one at the end of its period and the next one at the beginning.
pub(crate) fn jitter(policy: &PolicySpec, task: &Task) -> Span {
    match task.reservation {
        Some(Reservation { budget, period, .. }) if policy.servers().is_some_and(|s| s.back_to_back) => period - budget,
        _ => Span::ZERO,
    }
}

/// The system with a task for each server, in the place of the first task behind it; `None` leaves servers out.
pub(super) fn with_servers(system: &System, by: By, server: impl Fn(TaskId, Server) -> Option<Task>) -> System {
    let never = || Task { arrival: Arrival::Listed { instants: Vec::new() }, ..Task::default() };
    let leads = system.leads();
    let task = |(id, task): (TaskId, &Task)| match system.server(id) {
        Some(_) if leads[id.index()].0 != id => never(),
        Some(served) => server(id, served).map_or_else(never, |task| Task { affinity: leads[id.index()].1, ..task }),
        // Without a period it comes after all others.
        None if by == By::Period && task.arrival.period().is_none() && task.deadline.is_none() => never(),
        None => task.clone(),
    };
    let tasks = (0..).map(TaskId).zip(&system.tasks).map(task).collect();
    System { tasks, servers: Vec::new(), ..system.clone() }
}

/// Every server as a task that uses up all of its budget. It has a deadline where the test needs one, or jobs of its own do.
pub(crate) fn as_tasks(system: &System, by: By) -> System {
    let mut dated = vec![false; system.servers.len()];
    for task in system.tasks.iter().filter(|task| task.deadline.is_some()) {
        task.server.into_iter().for_each(|shared| dated[shared.index()] = true);
    }
    with_servers(system, by, |id, Server { reservation, priority }| {
        let task = &system.tasks[id.index()];
        let dated = task.server.map_or(task.deadline.is_some(), |shared| dated[shared.index()]);
        Some(Task {
            arrival: Arrival::Sporadic { offset: Span::ZERO, period: reservation.period, spread: Span::from_ns(1) },
            runtime: Some(reservation.budget),
            deadline: (by == By::Deadline || dated).then_some(reservation.period),
            reservation: Some(reservation),
            priority,
            ..Task::default()
        })
    })
}
