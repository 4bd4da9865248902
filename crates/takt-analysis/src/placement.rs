//! Which CPU a policy gives to each task, and in what pieces it runs a task that is split.

use crate::homes::packed;
use crate::parts;
use crate::reserved;
use crate::servers;
use crate::split;
use takt_core::model::{Reservation, Scope, System, Task, TaskId};
use takt_core::policies::split::Routes;
use takt_core::policy::{Build, Registry};
use takt_core::record::Place;
use takt_core::time::Span;

/// Where a task runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Home {
    /// The task.
    pub task: TaskId,
    /// The least time between two of its jobs, or the period of its server.
    pub period: Option<Span>,
    /// Whether a CPU accepted it, or several CPUs its pieces. A task that no CPU accepted is on the least utilised one.
    pub fits: bool,
    /// Whether it was not accepted because a test was given up for its length, so that it may have room.
    pub inconclusive: bool,
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

/// The reservation of a task of a policy with servers.
fn server(system: &System, task: &Task) -> Option<Reservation> {
    task.reserved().filter(|_| reserved::isolates(&system.policy))
}

fn alone(system: &System, tasks: &[TaskId]) -> Vec<Home> {
    let cpus: Vec<usize> = system.cpus.iter().collect();
    let home = |id: TaskId, refused: Option<bool>, stops: Vec<Stop>| {
        let task = &system.tasks[id.index()];
        let period = server(system, task).map(|server| server.period).or(task.arrival.period());
        Home { task: id, period, fits: refused.is_none(), inconclusive: refused == Some(true), stops }
    };
    if split::has_routes(&system.policy) {
        let places: Vec<Place> = (0..cpus.len()).map(|p| Place(p as u16)).collect();
        let build = Build {
            system,
            tasks,
            places: &places,
            spec: system.policy,
            first_timer: 0,
            registry: &Registry::default(),
        };
        let routes = match split::way(&system.policy) {
            Some(way) => Routes::new(&build, way),
            None => Routes::of_servers(&build),
        };
        let Ok(routes) = routes else { return Vec::new() };
        let stop = |s: &takt_core::policies::split::Stop| {
            let (cpu, to) = (cpus[s.place.index()], Some(s.offset + s.window));
            Stop { cpu, budget: Some(s.piece), from: s.offset, to }
        };
        let refused = |id: &TaskId| routes.refused.contains(id).then_some(routes.gave_up);
        let route = |id: &TaskId| home(*id, refused(id), routes.of(*id).iter().map(stop).collect());
        return tasks.iter().map(route).collect();
    }
    if system.policy.scope != Scope::Partitioned {
        return Vec::new();
    }
    // A server is placed, and the tasks behind it with it.
    let with_servers = servers::ranking(&system.policy).map(|by| (servers::as_tasks(system, by), system.leads()));
    let packed = packed(with_servers.as_ref().map_or(system, |(tasks, _)| tasks));
    let lead = |id: TaskId| with_servers.as_ref().map_or(id, |(_, leads)| leads[id.index()].0);
    let refused = |id: TaskId| {
        let at = packed.refused.binary_search_by_key(&lead(id), |refused| refused.task).ok()?;
        Some(packed.refused[at].inconclusive)
    };
    let whole = |id: &TaskId| {
        let task = &system.tasks[id.index()];
        let server = server(system, task);
        let budget = server.map(|server| server.budget).or(task.runtime);
        let to = server.map(|server| server.deadline.unwrap_or(server.period)).or(task.deadline);
        let stop = Stop { cpu: cpus[usize::from(packed.homes[lead(*id).index()])], budget, from: Span::ZERO, to };
        home(*id, refused(*id), vec![stop])
    };
    tasks.iter().map(whole).collect()
}
