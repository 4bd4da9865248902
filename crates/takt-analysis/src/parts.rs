//! Systems that are judged in parts: domain by domain, and a load that changes at its extremes.

use crate::online::{self, Answer, Kind, Verdict};
use takt_core::model::{Arrival, Load, Step, System, Task, TaskId};

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

/// The verdict under a load: jobs need less than at its highest, so where that is too much nothing is shown, unless the lowest is
/// more than the CPUs can do.
pub(crate) fn loaded(system: &System, load: &Load) -> Verdict {
    let (lowest, highest) = extremes(load);
    // Placements go by what is declared, whatever the load.
    let at = |factor| online::packed_as(&at_load(system, factor), system);
    let high = at(highest);
    if lowest == highest {
        return high;
    }
    let factor = |f: u32| format!("{}.{:03}", f / Load::ONE, f % Load::ONE / 1000);
    let (schedulable, kind) = match high.schedulable {
        Answer::Yes if high.kind == Kind::Exact => (Answer::Yes, Kind::Sufficient),
        Answer::No => {
            let low = at(lowest);
            if low.schedulable == Answer::No && low.kind == Kind::Necessary {
                return low;
            }
            (Answer::Unknown, high.kind.weakened())
        }
        answer => (answer, high.kind),
    };
    let reason = format!("{}, at the highest load of {}", high.reason, factor(highest));
    let responses = if schedulable == Answer::Yes { high.responses } else { vec![None; high.responses.len()] };
    Verdict { schedulable, kind, reason, responses, ..high }
}

/// Whether a task never has a job, as those of other domains never do here.
pub(crate) fn is_absent(task: &Task) -> bool {
    matches!(&task.arrival, Arrival::Listed { instants } if instants.is_empty())
}

/// Each domain as a system of its own: the tasks of the others are in it, so that numbers stay, and never have a job
/// ([`is_absent`]).
pub(crate) fn domains(system: &System) -> Vec<System> {
    let alone = |domain: &takt_core::model::Domain| {
        let here = |index: usize| domain.tasks.contains(&TaskId(index as u32));
        let absent = || Task { arrival: Arrival::Listed { instants: Vec::new() }, ..Task::default() };
        let tasks = system.tasks.iter().enumerate().map(|(i, t)| if here(i) { t.clone() } else { absent() });
        let (cpus, policy, tasks) = (domain.cpus, domain.policy, tasks.collect());
        System { cpus, policy, tasks, domains: Vec::new(), ..system.clone() }
    };
    system.domains.iter().map(alone).collect()
}

/// Whether tasks of different domains lock the same resource.
fn shared(system: &System) -> bool {
    let locks = |task: &TaskId, r: u16| {
        let lock = |s: &Step| matches!(s, Step::Lock(resource) if resource.0 == r);
        system.tasks[task.index()].steps.iter().any(lock)
    };
    let users = |r: u16| system.domains.iter().filter(move |d| d.tasks.iter().any(|t| locks(t, r))).count();
    (0..system.resources).any(|r| users(r) > 1)
}

/// The verdict of each domain, in their order.
#[must_use]
pub fn verdicts(system: &System) -> Vec<Verdict> {
    domains(system).iter().map(online::verdict).collect()
}

fn packed_as(system: &System, declared: &System) -> Vec<Verdict> {
    domains(system).iter().zip(&domains(declared)).map(|(part, declared)| online::packed_as(part, declared)).collect()
}

/// The verdict of a system with domains: that of the worst of them.
pub(crate) fn together(system: &System, declared: &System, whole: Verdict) -> Verdict {
    let parts = packed_as(system, declared);
    let idle_10_percent = parts.iter().all(|p| p.idle_10_percent);
    let mut responses = vec![None; system.tasks.len()];
    for part in &parts {
        responses.iter_mut().zip(&part.responses).for_each(|(mine, bound)| *mine = mine.or(*bound));
    }
    let all = Verdict { responses, idle_10_percent, ..whole };
    if shared(system) {
        let reason = "resources that domains share are beyond the tests".to_owned();
        let responses = vec![None; system.tasks.len()];
        return Verdict { schedulable: Answer::Unknown, test: "none", kind: Kind::Nothing, reason, responses, ..all };
    }
    let worst = |answer: Answer| parts.iter().position(|part| part.schedulable == answer);
    match worst(Answer::No).or_else(|| worst(Answer::Unknown)) {
        Some(index) => {
            let Verdict { schedulable, test, kind, reason, .. } = parts[index].clone();
            Verdict { schedulable, test, kind, reason: format!("in the domain at index {index}: {reason}"), ..all }
        }
        None => {
            let exact = parts.iter().all(|part| part.kind == Kind::Exact);
            let kind = if exact { Kind::Exact } else { Kind::Sufficient };
            let mut tests = parts.iter().map(|part| part.test);
            let first = tests.next().unwrap_or("none");
            let test = if tests.all(|test| test == first) { first } else { "domains" };
            let reason = "the tests say yes in every domain".to_owned();
            Verdict { schedulable: Answer::Yes, test, kind, reason, ..all }
        }
    }
}
