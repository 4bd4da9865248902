//! The orders of policies of utility, worked out a second time from what the jobs are: where no job waits for a resource, and
//! something has just happened that such a policy decides by.

use crate::jobs::Open;
use crate::ledger::Ledger;
use std::cmp::Ordering;
use takt_core::engine::Engine;
use takt_core::model::TaskId;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;
use takt_core::work::Work;

/// A ready job.
#[derive(Clone, Copy, Debug)]
struct Job {
    task: TaskId,
    release: Time,
    deadline: Time,
    left: Span,
    /// Its potential utility from now on, and the utility accrued then.
    utility: u64,
    accrues: u64,
    declared: Span,
}

/// The densest first; among equals the earlier release, then the lower task.
fn denser(a: &Job, b: &Job) -> Ordering {
    let cross = |x: &Job, y: &Job| u128::from(x.utility) * y.left.ns() as u128;
    cross(b, a).cmp(&cross(a, b)).then((a.release, a.task).cmp(&(b.release, b.task)))
}

/// Whether all complete in time if they run in this order.
fn all_in_time(jobs: &[Job], now: Time) -> bool {
    let mut end = now;
    jobs.iter().all(|job| {
        end = end.saturating_add(job.left);
        end <= job.deadline
    })
}

/// With this job besides, behind those of equal deadline.
fn with(jobs: &[Job], job: Job) -> Vec<Job> {
    let mut more = jobs.to_vec();
    more.push(job);
    more.sort_by_key(|j| j.deadline);
    more
}

/// DASA: the densest that still fit, by deadline; among equal deadlines the denser one.
fn dasa(dense: &[Job], now: Time) -> Vec<Job> {
    let mut kept: Vec<Job> = Vec::new();
    for &job in dense {
        let more = with(&kept, job);
        if all_in_time(&more, now) {
            kept = more;
        }
    }
    kept
}

/// LBESA: as many of the densest as can be in time, by deadline, but one at least.
fn lbesa(dense: &[Job], now: Time) -> Vec<Job> {
    let of = |count: usize| {
        let mut jobs = dense[..count].to_vec();
        jobs.sort_by_key(|j| (j.deadline, j.release, j.task));
        jobs
    };
    (1..=dense.len()).rev().map(of).find(|jobs| jobs.len() == 1 || all_in_time(jobs, now)).unwrap_or_default()
}

/// GUS: the first is the densest by what they accrue if they are first.
fn gus(dense: &[Job]) -> Vec<Job> {
    let mut first: Vec<Job> = dense.iter().map(|job| Job { utility: job.accrues, ..*job }).collect();
    first.retain(|job| job.utility > 0);
    first.sort_by(denser);
    first.truncate(1);
    first
}

/// The CPU with the least load of those that will do; of equals the lowest.
fn emptiest(loads: &[Span], will_do: impl Fn(usize) -> bool) -> Option<usize> {
    (0..loads.len()).filter(|cpu| will_do(*cpu)).min_by_key(|cpu| (loads[*cpu], *cpu))
}

/// gMUA and NG-GUA: jobs are dealt by deadline, each to the CPU with the least load; then each CPU sheds its least dense jobs until
/// the others are in time, or one is left. The first of each.
fn dealt(dense: &[Job], cpus: usize, now: Time, cost: impl Fn(&Job) -> Span) -> Vec<Job> {
    let mut jobs: Vec<Job> = dense.iter().copied().filter(|job| job.deadline >= now).collect();
    jobs.sort_by_key(|job| (job.deadline, job.release, job.task));
    let (mut lists, mut loads) = (vec![Vec::new(); cpus], vec![Span::ZERO; cpus]);
    for job in jobs {
        let cpu = emptiest(&loads, |_| true).expect("there is a CPU");
        loads[cpu] += cost(&job);
        lists[cpu].push(job);
    }
    for list in &mut lists {
        while list.len() > 1 && !all_in_time(list, now) {
            let shed = list.iter().copied().max_by(denser).expect("there are two");
            list.retain(|job| job.task != shed.task);
        }
    }
    lists.iter().filter_map(|list| list.first().copied()).collect()
}

/// G-GUA: the densest first, each on the CPU with the least load on which all is in time with it. The first of each.
fn packed(dense: &[Job], cpus: usize, now: Time) -> Vec<Job> {
    let (mut lists, mut loads): (Vec<Vec<Job>>, _) = (vec![Vec::new(); cpus], vec![Span::ZERO; cpus]);
    for &job in dense.iter().filter(|job| job.deadline >= now) {
        if let Some(cpu) = emptiest(&loads, |cpu| all_in_time(&with(&lists[cpu], job), now)) {
            loads[cpu] += job.left;
            lists[cpu] = with(&lists[cpu], job);
        }
    }
    lists.iter().filter_map(|list| list.first().copied()).collect()
}

/// Whether the policy of this domain was told of something that it decides by. It is not told of a job that is released behind
/// another one.
fn decides(ledger: &Ledger, domain: Option<usize>, records: &[Record]) -> bool {
    records.iter().any(|record| {
        let (task, told) = match record.kind {
            RecordKind::Block { task, .. }
            | RecordKind::Wake { task, .. }
            | RecordKind::Lock { task, .. }
            | RecordKind::Unlock { task, .. }
            | RecordKind::Withdraw { task, .. }
            | RecordKind::Yield { task, .. }
            | RecordKind::Handler { task, .. }
            | RecordKind::HandlerEnd { task, .. }
            | RecordKind::Exit { task, .. } => (task, true),
            RecordKind::Finish { task, outcome, .. } => (task, outcome != Outcome::Skipped),
            RecordKind::Release { task, job, .. } => (task, ledger.account(task).is_current(job)),
            _ => return false,
        };
        told && ledger.domain_of(task) == domain
    })
}

/// The potential utility of the job at `end`, and the utility accrued then.
fn worth(ledger: &Ledger, task: TaskId, open: &Open, end: Time) -> (u64, u64) {
    let a = ledger.account(task);
    if a.handler.is_some() {
        let utility = a.task.handler.map_or(0, |handler| handler.utility);
        return (utility, if open.deadline.is_some_and(|deadline| end > deadline) { 0 } else { utility });
    }
    let function = a.task.utility.as_ref().unwrap_or(&Utility::DEFAULT);
    let elapsed = end - open.planned;
    let accrues = function.at(elapsed, open.relative);
    // A step keeps its height to a policy.
    (if let Utility::Step(height) = function { *height } else { accrues }, accrues)
}

/// The task's job, if it is ready.
fn ready(ledger: &Ledger, engine: &Engine, task: TaskId) -> Option<Job> {
    let job = engine.job(task).filter(|job| job.ready)?;
    let (_, open) = ledger.account(task).current()?;
    let declared = engine.declared(task).map_or(Span::ZERO, Work::nominal_time);
    let left = (declared - engine.own_work(task).nominal_time()).max(Span::from_ns(1));
    let (utility, accrues) = worth(ledger, task, open, engine.now().saturating_add(left));
    Some(Job { task, release: job.release, deadline: job.deadline, left, utility, accrues, declared })
}

/// The ready jobs of these tasks in the order of their policy, which has them on so many CPUs: those first that its schedule has,
/// then the others by density. `None` if it did not decide in this step, or goes by more than is stated here.
pub(crate) fn order(
    ledger: &Ledger,
    records: &[Record],
    engine: &Engine,
    members: &[TaskId],
    cpus: usize,
) -> Option<Vec<TaskId>> {
    let first = *members.first()?;
    let domain = ledger.domain_of(first);
    let mut tasks = (0..ledger.accounts.len()).map(|t| TaskId(t as u32));
    let waits = tasks.any(|task| ledger.sharing.waits_for(task).is_some());
    if waits || ledger.is_metered() || !decides(ledger, domain, records) {
        return None;
    }
    let (spec, _) = ledger.policy_of(first);
    let mut dense: Vec<Job> = members.iter().filter_map(|task| ready(ledger, engine, *task)).collect();
    dense.sort_by(denser);
    let now = engine.now();
    let schedule = match spec.profile.name {
        "hvdf" | "np-hvdf" => dense.clone(),
        "dasa" | "dasa-nd" => dasa(&dense, now),
        "lbesa" => lbesa(&dense, now),
        "gus" => gus(&dense),
        "gmua" => dealt(&dense, cpus, now, |job| job.left),
        "ng-gua" if spec.value("load") == Some(1) => dealt(&dense, cpus, now, |job| job.declared),
        "ng-gua" => dealt(&dense, cpus, now, |job| job.left),
        "g-gua" => packed(&dense, cpus, now),
        _ => return None,
    };
    let mut order: Vec<TaskId> = schedule.iter().map(|job| job.task).collect();
    order.extend(dense.iter().map(|job| job.task).filter(|task| !schedule.iter().any(|job| job.task == *task)));
    Some(order)
}
