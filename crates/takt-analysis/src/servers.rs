//! Servers for aperiodic work beside periodic tasks: to those they are one more task each.
//!
//! Lehoczky, Sha and Strosnider, "Enhanced Aperiodic Responsiveness in Hard Real-Time Environments", RTSS 1987, for polling servers;
//! Davis and Burns, "Hierarchical Fixed Priority Pre-Emptive Scheduling", RTSS 2005, for periodic ones; Sprunt, Sha and Lehoczky,
//! "Aperiodic Task Scheduling for Hard-Real-Time Systems", Real-Time Systems 1, 1989, for sporadic ones; Bernat and Burns, "New
//! Results on Fixed Priority Aperiodic Servers", RTSS 1999, for the release jitter of deferrable ones. What a server does for its own
//! jobs: Buttazzo, "Hard Real-Time Computing Systems", on aperiodic guarantees.

use crate::idle;
use crate::online::{Answer, Kind, Verdict, budgets, most, packed_as_tasks};
use takt_core::model::{Arrival, Reservation, Step, System, Task, TaskId, Timing};
use takt_core::policy::PolicySpec;
use takt_core::time::Span;

/// What tasks and servers are ranked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Period,
    Priority,
    Deadline,
}

/// The ranking of a policy of servers; `None` for every other policy.
pub(crate) fn ranking(policy: &PolicySpec) -> Option<By> {
    let known = ["polling-server", "periodic-server", "deferrable-server", "sporadic-server"];
    known.contains(&policy.entry.name).then(|| match policy.value("by") {
        Some(1) => By::Priority,
        Some(2) => By::Deadline,
        _ => By::Period,
    })
}

/// By how much later than a period after the one before the budget of a server can be used, as far as others notice: a deferrable
/// server can use one at the end of its period and the next one at the beginning.
pub(crate) fn jitter(policy: &PolicySpec, task: &Task) -> Span {
    match task.reservation {
        Some(Reservation { budget, period }) if policy.entry.name == "deferrable-server" => period - budget,
        _ => Span::ZERO,
    }
}

/// The system with a task for each server; `None` leaves servers out.
fn with_servers(system: &System, by: By, server: impl Fn(&Task, Reservation) -> Option<Task>) -> System {
    let never = || Task { arrival: Arrival::Listed { instants: Vec::new() }, ..Task::default() };
    let task = |task: &Task| match task.reservation {
        Some(reserved) => server(task, reserved).unwrap_or_else(never),
        // Without a period it comes after all others.
        None if by == By::Period && task.arrival.period().is_none() && task.deadline.is_none() => never(),
        None => task.clone(),
    };
    System { tasks: system.tasks.iter().map(task).collect(), ..system.clone() }
}

/// Every server as a task that uses up all of its budget. It has a deadline where the test needs one, or its own jobs do.
pub(crate) fn as_tasks(system: &System, by: By) -> System {
    with_servers(system, by, |task, Reservation { budget, period }| {
        Some(Task {
            arrival: Arrival::Sporadic { offset: Span::ZERO, period, spread: Span::from_ns(1) },
            runtime: Some(budget),
            deadline: (by == By::Deadline || task.deadline.is_some()).then_some(period),
            reservation: task.reservation,
            priority: task.priority,
            affinity: task.affinity,
            ..Task::default()
        })
    })
}

/// The verdict: tasks without a server meet their deadlines if they do beside tasks in place of the servers; served tasks do if in
/// addition each job has been served when the next one comes.
pub(crate) fn verdict(system: &System, declared: &System, by: By) -> Verdict {
    let found = packed_as_tasks(&as_tasks(system, by), &as_tasks(declared, by));
    // Servers are not the tasks that they are taken for where it comes to what is left idle.
    let idle =
        if system.domains.is_empty() { idle::in_whole(system, declared).is_none() } else { found.idle_10_percent };
    let mut found = Verdict { idle_10_percent: idle, ..found };
    let bounds: Vec<Result<Option<Span>, String>> = (0..).map(TaskId).zip(&system.tasks).map(served).collect();
    for (response, bound) in found.responses.iter_mut().zip(&bounds) {
        match bound {
            Ok(None) => {}
            Ok(bound) => *response = *bound,
            Err(_) => *response = None,
        }
    }
    match (found.schedulable, unknown(system, by).or_else(|| bounds.into_iter().find_map(Result::err))) {
        (Answer::No, _) => {
            let without = packed_as_tasks(&with_servers(system, by, |_, _| None), &as_tasks(declared, by));
            if without.schedulable == Answer::No {
                return Verdict { utilisation: found.utilisation, hyperperiod: found.hyperperiod, ..without };
            }
            let reason = format!("{}, if servers use up their budgets", found.reason);
            Verdict { schedulable: Answer::Unknown, kind: Kind::Sufficient, reason, ..found }
        }
        (_, Some(reason)) => {
            let responses = vec![None; system.tasks.len()];
            Verdict { schedulable: Answer::Unknown, kind: Kind::Sufficient, reason, responses, ..found }
        }
        (Answer::Yes | Answer::Unknown, None) => {
            let reason = format!("with each server as a task, {}", found.reason);
            Verdict { kind: Kind::Sufficient, reason, ..found }
        }
    }
}

/// Why the tests say nothing about these servers.
fn unknown(system: &System, by: By) -> Option<String> {
    let locks = |t: &Task| t.steps.iter().any(|s| matches!(s, Step::Lock(_)));
    let why = if system.tasks.iter().any(locks) {
        "under this policy holders of resources inherit nothing"
    } else if system.timing != Timing::default() {
        "the budgets of servers need a clock that is never late"
    } else if by == By::Deadline && system.policy.entry.name == "deferrable-server" {
        "there is no test for deferrable servers that are ranked by deadline"
    } else if system.policy.entry.name == "sporadic-server" && system.policy.value("variant") == Some(1) {
        "by the rules of POSIX a part of a budget can come back too early"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// How long a job of a served task takes at most, if its server gets its budget in each period and no two jobs are there at once;
/// `Ok(None)` for tasks without a server or a deadline. A job can have to wait for the next budget, and needs as many as it
/// takes, each of which is used by the end of its period.
fn served((id, task): (TaskId, &Task)) -> Result<Option<Span>, String> {
    let Some(Reservation { budget, period }) = task.reservation else { return Ok(None) };
    let need = most(task);
    if budgets(task).is_some_and(|(least, _)| need.is_none_or(|need| need > least)) {
        return Err(format!("task {} can be aborted when its budget is used, before its work is done", id.0));
    }
    let Some(deadline) = task.deadline else { return Ok(None) };
    let Some(need) = need else { return Err(format!("task {} has no runtime", id.0)) };
    if task.steps.iter().any(|s| !matches!(s, Step::Run(_))) {
        return Err(format!("task {} is served and sleeps or yields, which is beyond the tests", id.0));
    }
    let periods = 1 + need.ns() / budget.ns() + i64::from(need.ns() % budget.ns() > 0);
    let bound = Span::from_ns(period.ns().saturating_mul(periods));
    let apart = match &task.arrival {
        Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. } => *period,
        Arrival::Listed { instants } => instants.windows(2).map(|w| w[1] - w[0]).min().unwrap_or(Span::MAX),
        Arrival::Activated => return Err(format!("task {} is released by its policy", id.0)),
    };
    if bound > deadline {
        let why = format!("task {} is served within {bound}, which is beyond its deadline of {deadline}", id.0);
        return Err(why);
    }
    if bound > apart {
        return Err(format!(
            "jobs of task {} come within {apart}, and each is served within {bound} only if alone",
            id.0
        ));
    }
    Ok(Some(bound))
}
