//! Which CPU a policy gives to each task, and in what pieces it runs a task that is split.

use crate::online::homes;
use crate::parts;
use crate::reservation;
use crate::split;
use takt_core::model::{Reservation, System, Task, TaskId};
use takt_core::policies::split::Routes;
use takt_core::policy::{Build, Scope};
use takt_core::record::Place;
use takt_core::time::Span;

/// Where a task runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Home {
    /// The task.
    pub task: TaskId,
    /// The least time between two of its jobs, or the period of its server.
    pub period: Option<Span>,
    /// Whether the policy found room for it. A task without room is on a CPU that is overloaded, or may be. Always so under a policy
    /// that splits nothing, which looks at utilisations only.
    pub fits: bool,
    /// One CPU for a task that is not split; else as many as there are pieces, in the order of time.
    pub stops: Vec<Stop>,
}

/// A CPU on which a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The CPU's number.
    pub cpu: usize,
    /// How long a job, or the server in a period, runs here at most; `None` where it is not known.
    pub budget: Option<Span>,
    /// When its window here begins, from its release on.
    pub from: Span,
    /// When the window ends, which is the deadline here; `None` without one.
    pub to: Option<Span>,
}

/// Where the tasks of a system run that is partitioned or semi-partitioned, in the order of their numbers; those of each domain for
/// itself. Empty for other policies, and where the policy does not accept the tasks. As long as the policy takes to assign them.
#[must_use]
pub fn placement(system: &System) -> Vec<Home> {
    let mut homes = Vec::new();
    for (domain, part) in system.domains.iter().zip(parts::domains(system)) {
        homes.extend(alone(&part, &domain.tasks));
    }
    if system.domains.is_empty() {
        let all: Vec<TaskId> = (0..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
        homes = alone(system, &all);
    }
    homes.sort_by_key(|home| home.task);
    homes
}

/// What is reserved for a task of a policy with servers.
fn server(system: &System, task: &Task) -> Option<Reservation> {
    task.reserved().filter(|_| reservation::knows(system.policy.entry.name))
}

fn alone(system: &System, tasks: &[TaskId]) -> Vec<Home> {
    let cpus: Vec<usize> = system.cpus.iter().collect();
    let home = |id: TaskId, fits: bool, stops: Vec<Stop>| {
        let task = &system.tasks[id.index()];
        let period = server(system, task).map(|server| server.period).or(task.arrival.period());
        Home { task: id, period, fits, stops }
    };
    if split::has_routes(&system.policy) {
        let places: Vec<Place> = (0..cpus.len()).map(|p| Place(p as u16)).collect();
        let build = Build { system, tasks, places: &places, spec: system.policy, first_timer: 0 };
        let routes = match split::way(&system.policy) {
            Some(way) => Routes::new(&build, way),
            None => Routes::of_servers(&build),
        };
        let Ok(routes) = routes else { return Vec::new() };
        let stop = |s: &takt_core::policies::split::Stop| {
            let (cpu, to) = (cpus[s.place.index()], Some(s.offset + s.window));
            Stop { cpu, budget: Some(s.piece), from: s.offset, to }
        };
        let route = |id: &TaskId| home(*id, !routes.refused.contains(id), routes.of(*id).iter().map(stop).collect());
        return tasks.iter().map(route).collect();
    }
    if system.policy.scope != Scope::Partitioned {
        return Vec::new();
    }
    let packed = homes(system);
    let whole = |id: &TaskId| {
        let task = &system.tasks[id.index()];
        let server = server(system, task);
        let budget = server.map(|server| server.budget).or(task.runtime);
        let to = server.map(|server| server.deadline.unwrap_or(server.period)).or(task.deadline);
        let stop = Stop { cpu: cpus[usize::from(packed[id.index()])], budget, from: Span::ZERO, to };
        home(*id, true, vec![stop])
    };
    tasks.iter().map(whole).collect()
}
