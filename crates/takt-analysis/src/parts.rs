//! Parts of a system: its domains, each as a system of its own, and the system at one factor of its load.

use takt_core::model::{Arrival, Domain, Load, Step, System, Task, TaskId};

/// The lowest and the highest factor of a load. It is piecewise linear, so both are at points.
pub(crate) fn extremes(load: &Load) -> (u32, u32) {
    let factors = || load.points.iter().map(|(_, factor)| *factor);
    (factors().min().unwrap_or(Load::ONE), factors().max().unwrap_or(Load::ONE))
}

/// The system with what its jobs need at a load, and no load any more.
pub(crate) fn at_load(system: &System, factor: u32) -> System {
    let mut system = System { load: None, ..system.clone() };
    system.tasks.iter_mut().for_each(|task| task.scale(factor));
    system
}

/// Whether a task never has a job, as those of other domains never do here.
pub(crate) fn is_absent(task: &Task) -> bool {
    matches!(&task.arrival, Arrival::Listed { instants } if instants.is_empty())
}

/// Each domain as a system of its own: the tasks of the others are in it, so that numbers stay, and never have a job
/// ([`is_absent`]).
pub(crate) fn domains(system: &System) -> Vec<System> {
    system.domains.iter().map(|domain| alone(system, domain, &domain.tasks)).collect()
}

/// A domain as a system of its own, in which these tasks are.
pub(crate) fn alone(system: &System, domain: &Domain, tasks: &[TaskId]) -> System {
    let mut here = vec![false; system.tasks.len()];
    tasks.iter().for_each(|task| here[task.index()] = true);
    let absent = || Task { arrival: Arrival::Listed { instants: Vec::new() }, ..Task::default() };
    let tasks = system.tasks.iter().zip(here).map(|(task, here)| if here { task.clone() } else { absent() });
    let (cpus, policy, tasks) = (domain.cpus, domain.policy, tasks.collect());
    System { cpus, policy, tasks, domains: Vec::new(), ..system.clone() }
}

/// The domains of higher bands on the same CPUs.
pub(crate) fn above<'a>(system: &'a System, domain: &'a Domain) -> impl Iterator<Item = (usize, &'a Domain)> {
    system.domains.iter().enumerate().filter(|(_, other)| other.is_above(domain))
}

/// Whether tasks of this domain, or of one above it, lock a resource that another domain uses, too: then jobs of others delay them.
pub(crate) fn shares(system: &System, domain: &Domain) -> bool {
    let locks = |task: &TaskId, r: u16| {
        let lock = |s: &Step| matches!(s, Step::Lock(resource) if resource.0 == r);
        system.tasks[task.index()].program.steps.iter().any(lock)
    };
    let uses = |d: &Domain, r: u16| d.tasks.iter().any(|t| locks(t, r));
    let users = |r: u16| system.domains.iter().filter(move |d| uses(d, r)).count();
    let shared: Vec<u16> = (0..system.resources).filter(|r| users(*r) > 1).collect();
    let here = || above(system, domain).map(|(_, d)| d).chain([domain]);
    shared.iter().any(|r| here().any(|d| uses(d, *r)))
}
