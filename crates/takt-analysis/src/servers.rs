//! Servers for aperiodic work beside periodic tasks: to those they are one more task each.
//!
//! Lehoczky, Sha and Strosnider, "Enhanced Aperiodic Responsiveness in Hard Real-Time Environments", RTSS 1987, for polling
//! servers; Davis and Burns, "Hierarchical Fixed Priority Pre-Emptive Scheduling", RTSS 2005, for periodic ones; Sprunt, Sha and
//! Lehoczky, "Aperiodic Task Scheduling for Hard-Real-Time Systems", Real-Time Systems 1, 1989, for sporadic ones; Bernat and
//! Burns, "New Results on Fixed Priority Aperiodic Servers", RTSS 1999, for the release jitter of deferrable ones. What a server
//! does for its own jobs: Buttazzo, "Hard Real-Time Computing Systems", on aperiodic guarantees.

pub(crate) mod ranks;

use crate::idle;
use crate::need::{MAY_SKIP, budgets, may_skip, most, unbounded};
use crate::verdict::{Answer, Kind, Verdict, first_of};
use ranks::with_servers;
pub(crate) use ranks::{By, as_tasks, jitter, ranking};
use takt_core::model::{Arrival, Reservation, Step, System, Task, TaskId, Timing};
use takt_core::time::Span;

/// The verdict: tasks without a server meet their deadlines if they do beside tasks in place of the servers; served tasks do if in
/// addition each job has been served when the next one of its task comes.
/// `judge` gives the verdict about tasks, which are placed as those of its second system.
pub(crate) fn verdict(
    system: &System,
    declared: &System,
    by: By,
    judge: impl Fn(&System, &System) -> Verdict,
) -> Verdict {
    let found = judge(&as_tasks(system, by), &as_tasks(declared, by));
    // Servers are not the tasks that they are taken for for the idle time.
    let idle = if system.domains.is_empty() {
        idle::in_whole(system, declared, None).is_none()
    } else {
        found.idle_10_percent
    };
    let mut found = Verdict { idle_10_percent: idle, ..found };
    let bounds = served(system);
    let on_time = budgets_on_time(system, &found);
    let fails = |task: usize| matches!(bounds[task], Some(Err(_)));
    // A task that shares a server with one that has no bound may have to wait for it.
    let is_held_up = |task: usize| {
        let server = system.tasks[task].server;
        server.is_some() && (0..bounds.len()).any(|other| fails(other) && system.tasks[other].server == server)
    };
    let held_up: Vec<bool> = (0..bounds.len()).map(is_held_up).collect();
    for (task, bound) in bounds.iter().enumerate() {
        // The response of the task in the place of a server is not that of the served jobs.
        if let Some(bound) = bound {
            let holds = on_time[task] && !held_up[task];
            found.responses[task] = bound.as_ref().ok().copied().flatten().filter(|_| holds);
        }
    }
    let unknown = unknown(system, by);
    if unknown.is_some() {
        found.responses.fill(None);
    }
    match (found.schedulable, unknown) {
        (Answer::No, _) => {
            let without = judge(&with_servers(system, by, |_, _| None), &as_tasks(declared, by));
            if without.schedulable == Answer::No {
                let mut reason = format!("{}, even if servers have no work", without.reason);
                if without.reason != found.reason {
                    reason += &format!("; if they exhaust their budgets, {}", found.reason);
                }
                let Verdict { utilisation, hyperperiod, responses, .. } = found;
                return Verdict { utilisation, hyperperiod, responses, reason, ..without };
            }
            let reason = format!("{}, if servers exhaust their budgets", found.reason);
            Verdict { schedulable: Answer::Unknown, kind: found.kind.weakened(), reason, ..found }
        }
        (_, Some(reason)) => {
            let (schedulable, test, kind) = (Answer::Unknown, "none", Kind::Nothing);
            Verdict { schedulable, test, kind, reason, ..found }
        }
        (Answer::Unknown, None) => {
            let reason = format!("with each server as a task, {}", found.reason);
            Verdict { kind: found.kind.weakened(), reason, ..found }
        }
        (Answer::Yes, None) => {
            let some = held_up.contains(&true);
            let others = if some { "tasks that do not share a server with it" } else { "the others" };
            let reason = format!("with each server as a task, {}", found.reason);
            match first_of(bounds.into_iter().flatten().filter_map(Result::err)) {
                Some(own) => {
                    let reason = format!("{own}; {others} meet their deadlines in any case: {reason}");
                    Verdict { schedulable: Answer::Unknown, kind: Kind::Sufficient, reason, ..found }
                }
                None => Verdict { kind: Kind::Sufficient, reason, ..found },
            }
        }
    }
}

/// By task whether its server has its budget in each period: where all deadlines are met, or the task in its place responds within
/// the period.
fn budgets_on_time(system: &System, found: &Verdict) -> Vec<bool> {
    let leads = system.leads();
    let in_time = |id: TaskId| {
        let response = found.responses[leads[id.index()].0.index()];
        let within = |period: Span| response.is_some_and(|response| response <= period);
        found.schedulable == Answer::Yes || system.server(id).is_some_and(|server| within(server.reservation.period))
    };
    (0..system.tasks.len() as u32).map(|id| in_time(TaskId(id))).collect()
}

/// Why the tests say nothing about these servers.
fn unknown(system: &System, by: By) -> Option<String> {
    // No verdict covers such a task.
    let is_last = |t: &Task| t.arrival.earliest().is_some() && t.arrival.period().is_none() && t.deadline.is_none();
    let is_short = |t: &Task| budgets(t).is_some_and(|(least, _)| most(t).is_none_or(|need| need > least));
    let mut tasks = (0..).map(TaskId).zip(&system.tasks);
    if let Some((id, _)) = tasks.find(|(id, t)| system.server(*id).is_none() && is_last(t) && is_short(t)) {
        return Some(format!("task {} can be aborted when its budget is used, before its work is done", id.0));
    }
    let locks = |t: &Task| t.program.steps.iter().any(|s| matches!(s, Step::Lock(_)));
    let policy = &system.policy;
    let why = if system.tasks.iter().any(locks) {
        "this policy has no priority inheritance"
    } else if system.timing != Timing::default() {
        "the budgets of servers need a clock that is never late"
    } else if by == By::Deadline && policy.servers().is_some_and(|s| s.back_to_back) {
        "there is no test for deferrable servers that are ranked by deadline"
    } else if policy.servers().is_some_and(|s| policy.holds(s.premature)) {
        "by the rules of POSIX a part of a budget can come back too early"
    } else if may_skip(system) {
        // Asked of the system itself: a task in place of a server may have a deadline that its jobs lack.
        MAY_SKIP
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// How long a job of each task takes at most, if its server gets its budget in each period; an error says why nothing is known of
/// the task, and tasks without a server have none. O(tasks + instants).
///
/// A job can have to wait for the next budget, and needs as many as it takes with all that is ahead of it, each of which is used
/// by the end of its period. Ahead of it is one job of each other task behind the server at most, if all of them are served
/// within a time in which no task releases two: of the first one that took longer that would have to be false before.
fn served(system: &System) -> Vec<Option<Result<Option<Span>, String>>> {
    let leads = system.leads();
    let mut behind: Vec<Behind> = vec![Behind::default(); system.tasks.len()];
    let tasks = || (0..).map(TaskId).zip(&system.tasks);
    for (id, task) in tasks().filter(|(id, _)| system.server(*id).is_some()) {
        behind[leads[id.index()].0.index()].joins(id, task);
    }
    let bound = |(id, task): (TaskId, &Task)| {
        let server = system.server(id)?;
        Some(behind[leads[id.index()].0.index()].bound(id, task, server.reservation))
    };
    tasks().map(bound).collect()
}

/// Facts about the tasks behind a server.
#[derive(Clone, Default)]
struct Behind {
    /// Their demand per job together, and how many there are.
    work: Span,
    tasks: usize,
    /// The least time between two releases of one task, and of which.
    apart: Option<(Span, TaskId)>,
    /// Why nothing is known, with the task to blame.
    fault: Option<(TaskId, &'static str)>,
}

impl Behind {
    fn joins(&mut self, id: TaskId, task: &Task) {
        let apart = match &task.arrival {
            Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. } => *period,
            Arrival::Listed { instants } => instants.windows(2).map(|w| w[1] - w[0]).min().unwrap_or(Span::MAX),
            Arrival::Event { distance, .. } => *distance,
            Arrival::Activated => Span::MAX,
        };
        let fault = match most(task) {
            None => Some(unbounded(task)),
            _ if task.program.steps.iter().any(|s| !matches!(s, Step::Run(_))) => {
                Some("is served and sleeps or yields, which is not covered by the tests")
            }
            _ if task.arrival == Arrival::Activated => Some("is released by its policy"),
            _ if apart <= Span::ZERO => Some("is released by events without a least distance"),
            _ => None,
        };
        self.fault = self.fault.or(fault.map(|why| (id, why)));
        self.work = Span::from_ns(self.work.ns().saturating_add(most(task).map_or(0, Span::ns)));
        self.tasks += 1;
        self.apart = self.apart.filter(|(before, _)| *before <= apart).or(Some((apart, id)));
    }

    fn bound(&self, id: TaskId, task: &Task, server: Reservation) -> Result<Option<Span>, String> {
        let need = most(task);
        if budgets(task).is_some_and(|(least, _)| need.is_none_or(|need| need > least)) {
            return Err(format!("task {} can be aborted when its budget is used, before its work is done", id.0));
        }
        let Some(deadline) = task.deadline else { return Ok(None) };
        if let Some((culprit, why)) = self.fault {
            return Err(format!("task {} {why}", culprit.0));
        }
        let (work, budget) = (self.work.ns(), server.budget.ns());
        let periods = 1 + work / budget + i64::from(work % budget > 0);
        let bound = Span::from_ns(server.period.ns().saturating_mul(periods));
        let behind = if self.tasks > 1 { ", behind a job of each other task of its server" } else { "" };
        if bound > deadline {
            let alone = match self.apart {
                Some((apart, of)) if bound > apart => format!(", if jobs of task {} are at least {bound} apart", of.0),
                _ => String::new(),
            };
            let why = format!("within {bound}{behind}{alone}, which is beyond its deadline of {deadline}");
            return Err(format!("task {} is served {why}", id.0));
        }
        match self.apart {
            Some((apart, of)) if bound > apart => Err(match self.tasks {
                1 => format!(
                    "jobs of task {} come within {apart}, and each is served within {bound} only if alone",
                    of.0
                ),
                _ => format!(
                    "jobs of task {} come within {apart}, and what its server has of each task is served within {bound} \
                     only if that is one job",
                    of.0
                ),
            }),
            _ => Ok(Some(bound)),
        }
    }
}
