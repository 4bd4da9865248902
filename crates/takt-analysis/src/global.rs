//! Global policies on identical CPUs, by the strongest of their sufficient tests.

use crate::accrual::is_global_edf;
use crate::demand::{Demand, impossible};
use crate::taskset::{Task, TaskSet};
use crate::tests::fixed_priority::{Peer, Priorities};
use crate::tests::{self, Verdict, Why};
use crate::verdict::{Answer, Finding, Kind, beyond};
use takt_core::model::{Order, System, TaskId};
use takt_core::time::Span;

/// Tests that look at every pair of tasks are for at most so many: a verdict must not take longer than a look at it is worth.
const PAIRS_MAX: usize = 2_000;

/// The verdict under a global policy: `gfb`, `bcl`, `bak` and `gedf-rta` for EDF, response times for fixed priorities.
///
/// The tests are those of [`tests::TESTS`], with the papers that they follow. The first that says yes is named. None of them
/// says no: the only remaining verdict is that no policy can.
pub(crate) fn global(system: &System, tasks: &[Demand], least: &[Demand]) -> (&'static str, Finding) {
    let cpus = system.cpus.len() as u64;
    if let Some(no) = impossible(least, cpus) {
        return no;
    }
    if !system.tasks.iter().all(|t| system.cpus.is_subset(&t.affinity)) {
        return beyond("some tasks may not run on every CPU");
    }
    // A job that is queued behind an earlier one of its own task is beyond these tests.
    let constrained = tasks.iter().all(|t| t.deadline.is_none_or(|d| d <= t.period));
    let fit = tasks.iter().all(|t| t.runtime <= t.period && t.deadline.is_none_or(|d| t.runtime <= d));
    if constrained && fit && tasks.len() as u64 <= cpus {
        return ("one-cpu-each", Finding::new(Answer::Yes, Kind::Exact, "there are no more tasks than CPUs"));
    }
    let by_priority = match system.policy.preemptive_order() {
        Some(Order::Period) => Some("grm-rta"),
        Some(Order::RelativeDeadline) => Some("gdm-rta"),
        Some(Order::Priority) => Some("gfp-rta"),
        _ => None,
    };
    let edf = is_global_edf(&system.policy);
    let Some(set) = set_of(tasks).filter(|_| fit && constrained && (edf || by_priority.is_some())) else {
        return beyond("there is no sufficient test for this policy and these deadlines");
    };
    match by_priority {
        Some(test) => (test, by_fixed_priority(&set, tasks, cpus)),
        None => by_edf(&set, tasks, cpus),
    }
}

/// The tasks in nanoseconds, if all have a deadline and no time is absurd. In a coarser unit response times would be found with
/// fewer steps, but jobs that need less than their most, or come at random, do not keep to one.
fn set_of(tasks: &[Demand]) -> Option<TaskSet> {
    let whole = |t: i128| u64::try_from(t).ok();
    let times =
        |t: &Demand| Some(Task { runtime: whole(t.runtime)?, deadline: whole(t.deadline?)?, period: whole(t.period)? });
    let times: Option<Vec<Task>> = tasks.iter().map(times).collect();
    TaskSet::new(times?, Span::from_ns(1)).ok()
}

/// The same for global EDF with deadlines within periods, by the sufficient tests alone.
pub(crate) fn by_edf_alone(tasks: &[Demand], cpus: u64) -> (&'static str, Finding) {
    match set_of(tasks) {
        Some(set) => by_edf(&set, tasks, cpus),
        None => ("gfb", Finding::new(Answer::Unknown, Kind::Sufficient, "a task has no deadline, or a time is absurd")),
    }
}

fn by_edf(set: &TaskSet, tasks: &[Demand], cpus: u64) -> (&'static str, Finding) {
    let tried = if tasks.len() > PAIRS_MAX { &["gfb"][..] } else { &["gfb", "bcl", "bak", "gedf-rta"] };
    for name in tried {
        let test = tests::test(name).expect("it is in the list");
        let found = test.run(set, cpus as usize);
        if found.verdict == Verdict::Schedulable {
            let (why, bounds) = match found.why {
                Why::Responses(bounds) => ("every bound of a response time is within its deadline", bounds),
                Why::Condition => ("its condition holds for every task", Vec::new()),
                _ => ("the total density is within the bound of GFB", Vec::new()),
            };
            let responses = responses(set, tasks, &bounds);
            return (test.name, Finding { responses, ..Finding::new(Answer::Yes, Kind::Sufficient, why) });
        }
    }
    let why = match tried {
        [_] => {
            format!(
                "the total density is above its bound, and more than {PAIRS_MAX} tasks are not tested in pairs (inconclusive)"
            )
        }
        _ => "neither this test nor bcl, bak or gedf-rta shows it (inconclusive)".to_owned(),
    };
    ("gfb", Finding::new(Answer::Unknown, Kind::Sufficient, why))
}

/// Between equal priorities the earlier release goes first, so that each is taken to wait for the others.
fn by_fixed_priority(set: &TaskSet, tasks: &[Demand], cpus: u64) -> Finding {
    let unknown = |why: String| Finding::new(Answer::Unknown, Kind::Sufficient, why);
    if tasks.len() > PAIRS_MAX {
        return unknown(format!("more than {PAIRS_MAX} tasks are not tested in pairs"));
    }
    let key = |i: usize| tasks[i].rank.wrapping_sub(i64::MIN) as u64;
    match tests::global_responses(&set.tasks, &Priorities::by_key(tasks.len(), key, |_| Peer::default()), cpus) {
        Ok(bounds) => {
            let why = "every bound of a response time is within its deadline";
            Finding { responses: responses(set, tasks, &bounds), ..Finding::new(Answer::Yes, Kind::Sufficient, why) }
        }
        Err(Some(k)) => {
            unknown(format!("task {} has no bound of its response time within its deadline", tasks[k].task.0))
        }
        Err(None) => unknown("the response times take too long to be searched".into()),
    }
}

fn responses(set: &TaskSet, tasks: &[Demand], bounds: &[u64]) -> Vec<(TaskId, Span)> {
    tasks.iter().zip(bounds).map(|(t, bound)| (t.task, set.span(*bound))).collect()
}
