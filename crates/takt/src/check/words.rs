//! Verdicts and notes in the names of the file, and as far as they hold on a machine with costs.

use serde::Serializer;
use takt_analysis::online::{self, Verdict};
use takt_core::input::Input as Change;
use takt_core::power::FrequencyDomain;
use takt_core::work::Speed;
use takt_workload::{Dispatch, Workload};

/// Additions of a caller to the text of a check.
#[derive(Clone, Default, Debug)]
pub struct CheckText {
    /// Lines after the first one.
    pub more: Vec<String>,
    /// The CPU of each task, even if the policy splits no task.
    pub assignment: bool,
}

/// In JSON an answer is `true`, `false` or `"unknown"`.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
pub(super) fn answer<S: Serializer>(answer: &online::Answer, serializer: S) -> Result<S::Ok, S::Error> {
    match answer {
        online::Answer::Yes => serializer.serialize_bool(true),
        online::Answer::No => serializer.serialize_bool(false),
        online::Answer::Unknown => serializer.serialize_str("unknown"),
    }
}

/// The note about processes on a CPU with little idle time.
pub(super) fn little_idle(workload: &Workload, has: &str) -> String {
    match workload.settings.dispatch {
        Dispatch::Freeze => {
            format!(
                "note: processes get no real-time class by default (`realtime:`), and their blocks are found up to 1 ms late, because {has} less than 10 % idle"
            )
        }
        Dispatch::Priority | Dispatch::Rank => format!(
            "note: {has} less than 10 % idle, and real-time throttling then cuts up to 50 ms out of each second (`dispatch: {}`)",
            workload.settings.dispatch.name()
        ),
    }
}

/// Why real-time processes under the online policy may leave too little of a CPU to others. What is only simulated says nothing of
/// that.
#[must_use]
pub fn not_realtime(workload: &Workload) -> Option<String> {
    let mut real = workload.clone();
    real.clear_simulated();
    let obstacle = takt_analysis::idle::obstacle(&real.system)?;
    let task = obstacle.task.and_then(|task| workload.tasks.get(task.index()));
    Some(task.map_or(String::new(), |task| format!("task `{}`: ", task.name)) + &obstacle.reason)
}

/// The analysis knows tasks and domains by number, people by name.
pub(super) fn named(mut verdict: Verdict, workload: &Workload) -> Verdict {
    verdict.reason = workload.named(&verdict.reason);
    let domain = verdict.reason.strip_prefix("in the domain at index ").and_then(|rest| rest.split_once(": "));
    if let Some((number, rest)) = domain
        && let Some(name) = number.parse::<usize>().ok().and_then(|n| workload.domains.get(n))
    {
        verdict.reason = format!("in domain `{name}`, {rest}");
    }
    verdict
}

/// The tests know nothing of what a machine costs, how fast it is and how late its clock is, nor of what happens to it. A yes that counts on
/// none of that is inconclusive then, no bound holds, and where the system itself changes, nor does a no.
pub(super) fn in_scenario(verdict: Verdict, workload: &Workload) -> Verdict {
    let why = match left_out(workload).as_slice() {
        [] => return verdict,
        [key] => format!("but that leaves out {key}"),
        [keys @ .., last] => format!("but that leaves out {} and {last}", keys.join(", ")),
    };
    let changes = &workload.scenario.changes;
    // Without deadlines only what sets one, or sends a task away from its waiting jobs, can make a miss.
    let harms = |h: &Change| matches!(h, Change::Leave { .. } | Change::Retime { deadline: Some(_), .. });
    let without = vec![None; verdict.responses.len()];
    let verdict = Verdict { responses: without, ..verdict };
    match verdict.schedulable {
        online::Answer::Unknown => return verdict,
        _ if verdict.test == "no-deadlines" && !changes.iter().any(|(_, h)| harms(h)) => return verdict,
        online::Answer::No if changes.is_empty() && !has_other_speeds(workload) => return verdict,
        _ => {}
    }
    let reason = format!("{}, {why}", verdict.reason);
    Verdict { schedulable: online::Answer::Unknown, kind: verdict.kind.weakened(), reason, ..verdict }
}

/// Tasks that the kernel schedules can delay the others on the same CPUs, by an unknown time.
pub(super) fn beside(verdict: Verdict, of_kernel: &[String]) -> Verdict {
    if of_kernel.is_empty() || verdict.schedulable != online::Answer::Yes {
        return verdict;
    }
    let reason = format!("{}, but that leaves out the tasks of the kernel's classes", verdict.reason);
    let responses = vec![None; verdict.responses.len()];
    Verdict { schedulable: online::Answer::Unknown, kind: verdict.kind.weakened(), reason, responses, ..verdict }
}

/// The keys of the scenario that the tests do not know of.
pub(crate) fn left_out(workload: &Workload) -> Vec<String> {
    // Keys of tasks and the load are known to the tests, and who decides changes nothing but costs.
    let known = |key: &str| ["load", "deciding"].contains(&key);
    let keys = workload.simulated_only().into_iter().filter(|(key, tasks)| tasks.is_empty() && !known(key));
    let speeds = has_other_speeds(workload).then_some("platform");
    keys.map(|(key, _)| key).chain(speeds).map(|key| format!("`{key}`")).collect()
}

/// Whether a simulated CPU can have another speed than the nominal one, by which the tests go. Without a power policy its frequency is the highest.
fn has_other_speeds(workload: &Workload) -> bool {
    let Some(description) = &workload.platform else { return false };
    let governed = workload.power.as_ref().is_some_and(|power| !power.is_none());
    let of_domain = |domain: &FrequencyDomain| {
        let first = if governed { 0 } else { domain.points.len().saturating_sub(1) };
        domain.points[first..].iter().any(|point| point.speed != Speed::default())
    };
    description.platform().domains.iter().any(of_domain)
}

pub(super) fn several(n: usize, thing: &str, things: &str) -> String {
    format!("{n} {}", if n == 1 { thing } else { things })
}
