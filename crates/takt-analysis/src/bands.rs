//! Verdicts about domains that share CPUs in an order of bands.
//!
//! The highest band is scheduled as if it were alone. A lower one has the CPUs that the higher bands leave idle. On one CPU all bands
//! together are one system in which no job waits while a job of a lower band runs. If every policy of the higher bands always runs a
//! ready job, the work that they do in a busy period depends on their releases alone, whatever their order. So response-time analysis
//! holds for tasks of fixed priorities with all tasks of higher bands above them, and the bound for any order holds for others.

use crate::demand::fixed_rank;
use crate::parts;
use crate::verdict::{Answer, Kind, Verdict};
use takt_core::model::{Backlog, Completion, Domain, Late, PolicySpec, Scope, Step, System, TaskId};
use takt_core::policies::{fifo, fp};

/// The verdict about the domain at this index by `judge`, which judges a system whose tasks are placed as those of its second one.
pub(crate) fn judge(
    system: &System,
    declared: &System,
    index: usize,
    judge_alone: &impl Fn(&System, &System) -> Verdict,
) -> Verdict {
    let domain = &system.domains[index];
    let part = |system: &System| parts::alone(system, &system.domains[index], &system.domains[index].tasks);
    let alone = judge_alone(&part(system), &part(declared));
    if parts::shares(system, domain) && alone.test != "no-deadlines" && alone.kind != Kind::Necessary {
        let reason = "resources that domains share are not covered by the tests".to_owned();
        let responses = vec![None; alone.responses.len()];
        return Verdict { schedulable: Answer::Unknown, test: "none", kind: Kind::Nothing, reason, responses, ..alone };
    }
    let above: Vec<(usize, &Domain)> = parts::above(system, domain).filter(|(_, d)| !d.tasks.is_empty()).collect();
    if above.is_empty() || alone.test == "no-deadlines" {
        return alone;
    }
    // A demand that is too much for all CPUs is too much for the part that is left.
    if alone.schedulable == Answer::No && alone.kind == Kind::Necessary {
        return alone;
    }
    let judge_above = |&(above, _): &(usize, &Domain)| judge(system, declared, above, judge_alone).schedulable;
    let answers: Vec<Answer> = above.iter().map(judge_above).collect();
    let in_time = answers.iter().all(|answer| *answer == Answer::Yes);
    let together = match merged(system, domain, &above) {
        Err(why) => Err(why),
        Ok(_) if answers.contains(&Answer::No) => Err("a higher band on the same CPUs is not schedulable"),
        // Late jobs may need more than they declare: their handlers run, or their successors are released early.
        Ok(_) if !in_time && (system.late != Late::Continue || system.backlog != Backlog::Queue) => {
            Err("a higher band on the same CPUs is not shown to be schedulable")
        }
        Ok(both) => Ok(both),
    };
    let found = match together {
        Ok(both) => judge_alone(&both, &both),
        Err(why) => {
            let responses = vec![None; alone.responses.len()];
            let (schedulable, kind, reason) = (Answer::Unknown, Kind::Nothing, why.to_owned());
            return Verdict { schedulable, test: "none", kind, reason, responses, ..alone };
        }
    };
    let reason = format!("with the tasks of higher bands, {}", found.reason);
    let verdict = Verdict { test: found.test, kind: found.kind, reason, responses: found.responses, ..alone };
    match found.schedulable {
        // Jobs that a higher band does not do leave time to this one.
        Answer::No if !in_time => Verdict { schedulable: Answer::Unknown, kind: found.kind.weakened(), ..verdict },
        answer => Verdict { schedulable: answer, ..verdict },
    }
}

/// The tasks of a band and of those above it as a system under one policy for one CPU, in which only its own tasks have deadlines; an
/// error where there is no test.
fn merged(system: &System, domain: &Domain, above: &[(usize, &Domain)]) -> Result<System, &'static str> {
    if domain.cpus.len() > 1 {
        return Err("for a lower band of several CPUs there is no test");
    }
    let conserves = |policy: &PolicySpec| {
        policy.is_work_conserving() && policy.reservations().is_none() && policy.servers().is_none()
    };
    if !above.iter().map(|(_, d)| *d).chain([domain]).all(|d| conserves(&d.policy)) {
        return Err("for bands with a policy that leaves the CPU idle while jobs are ready there is no test");
    }
    let of_above = || above.iter().flat_map(|(_, d)| d.tasks.iter().copied());
    if of_above().any(|task| system.tasks[task.index()].completion == Completion::None) {
        return Err("jobs of a higher band never complete (`completion: none`)");
    }
    let all: Vec<TaskId> = of_above().chain(domain.tasks.iter().copied()).collect();
    let mut both = parts::alone(system, domain, &all);
    let locks = |task: &TaskId| both.tasks[task.index()].program.steps.iter().any(|step| matches!(step, Step::Lock(_)));
    let ranks = priorities(&both, domain);
    if ranks.is_none() && all.iter().any(locks) {
        return Err("for bands whose jobs share resources there is a test only under fixed priorities");
    }
    let entry = if ranks.is_some() { &fp::ENTRY } else { &fifo::ENTRY };
    both.policy = PolicySpec::new(&entry.profile, Scope::Uniprocessor);
    for (task, priority) in ranks.into_iter().flatten() {
        both.tasks[task.index()].priority = priority;
    }
    // Their order among themselves does not matter; one without ties leaves the test exact.
    for (task, priority) in of_above().zip((0..=u32::MAX).rev()) {
        let task = &mut both.tasks[task.index()];
        (task.deadline, task.priority) = (None, priority);
    }
    Ok(both)
}

/// The order of a band's tasks as priorities below the highest one; `None` if its jobs have no fixed priorities, or are not preempted.
fn priorities(system: &System, domain: &Domain) -> Option<Vec<(TaskId, u32)>> {
    if domain.policy.is_non_preemptive() {
        return None;
    }
    let rank = |task: &TaskId| fixed_rank(&domain.policy, &system.tasks[task.index()]);
    let ranks: Vec<i64> = domain.tasks.iter().map(rank).collect::<Option<_>>()?;
    let mut order = ranks.clone();
    order.sort_unstable();
    let priority = |rank: &i64| (order.len() - order.partition_point(|other| other < rank)) as u32;
    Some(domain.tasks.iter().copied().zip(ranks.iter().map(priority)).collect())
}
