//! Whom policies of utility choose, worked out anew from what the jobs are: where nobody waits for a resource, utilities are
//! steps, and something has just happened that such a policy decides by.

use crate::ledger::Ledger;
use std::cmp::Ordering;
use takt_core::engine::Engine;
use takt_core::model::TaskId;
use takt_core::policy::Scope;
use takt_core::record::{Outcome, Record, What};
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;

/// A ready job.
#[derive(Clone, Copy, Debug)]
struct Job {
    task: TaskId,
    release: Time,
    deadline: Time,
    left: Span,
    utility: u64,
}

/// The densest first; among equals the earlier release, then the lower task.
fn denser(a: &Job, b: &Job) -> Ordering {
    let cross = |x: &Job, y: &Job| u128::from(x.utility) * y.left.ns() as u128;
    cross(b, a).cmp(&cross(a, b)).then((a.release, a.task).cmp(&(b.release, b.task)))
}

/// Those that complete in time if they run in this order.
fn all_in_time(jobs: &[Job], now: Time) -> bool {
    let mut end = now;
    jobs.iter().all(|job| {
        end = end.saturating_add(job.left);
        end <= job.deadline
    })
}

/// DASA: the densest that still fit, by deadline; among equal deadlines the denser one.
fn dasa(dense: &[Job], now: Time) -> Vec<Job> {
    let mut kept: Vec<Job> = Vec::new();
    for &job in dense {
        let mut more = kept.clone();
        more.push(job);
        more.sort_by_key(|j| j.deadline);
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

/// GUS: the first is the densest of those that are in time if they are first.
fn gus(dense: &[Job], now: Time) -> Vec<Job> {
    dense.iter().copied().filter(|job| job.utility > 0 && all_in_time(&[*job], now)).collect()
}

/// Whether policies were told of something that they decide by. A job that is released behind another one is not told of.
fn decided_anew(ledger: &Ledger, records: &[Record]) -> bool {
    records.iter().any(|record| match record.what {
        What::Block { .. } | What::Wake { .. } | What::Request { .. } | What::Return { .. } | What::Yield { .. } => {
            true
        }
        What::Handler { .. } | What::HandlerEnd { .. } | What::Exit { .. } => true,
        What::Finish { outcome, .. } => outcome != Outcome::Skipped,
        What::Release { task, job, .. } => ledger.account(task).is_current(job),
        _ => false,
    })
}

/// The task's job, if it is ready; `Err` if its utility is not a step.
fn ready(ledger: &Ledger, engine: &Engine, task: TaskId) -> Result<Option<Job>, ()> {
    let a = ledger.account(task);
    let Some(job) = engine.job(task).filter(|j| j.ready) else { return Ok(None) };
    let utility = match (&a.task.utility, a.task.handler.filter(|_| a.handler.is_some())) {
        (_, Some(handler)) => handler.utility,
        (None, None) => Utility::DEFAULT.height(),
        (Some(Utility::Step(height)), None) => *height,
        (Some(_), None) => return Err(()),
    };
    let declared = engine.declared(task).unwrap_or(Span::ZERO);
    let left = (declared - job.own).max(Span::from_ns(1));
    Ok(Some(Job { task, release: job.release, deadline: job.deadline, left, utility }))
}

/// Checks the choice of this step.
pub(crate) fn check(ledger: &Ledger, records: &[Record], engine: &Engine) {
    let spec = ledger.system.policy;
    let tasks = || (0..ledger.accounts.len()).map(|t| TaskId(t as u32));
    let waits = tasks().any(|task| ledger.sharing.waits_for(task).is_some());
    if ledger.tabled() || waits || ledger.is_metered() || !decided_anew(ledger, records) {
        return;
    }
    let jobs: Result<Vec<Option<Job>>, ()> = tasks().map(|task| ready(ledger, engine, task)).collect();
    let Ok(jobs) = jobs else { return };
    let mut dense: Vec<Job> = jobs.iter().copied().flatten().collect();
    dense.sort_by(denser);
    let now = engine.now();
    let schedule = match (spec.entry.name, spec.scope) {
        ("hvdf", Scope::Uniprocessor) => dense.clone(),
        ("dasa" | "dasa-nd", Scope::Uniprocessor) => dasa(&dense, now),
        ("lbesa", Scope::Uniprocessor) => lbesa(&dense, now),
        ("gus", Scope::Uniprocessor) => gus(&dense, now),
        ("hvdf", Scope::Global) => {
            for job in dense.iter().filter(|job| ledger.account(job.task).place.is_none()) {
                for cpu in ledger.system.tasks[job.task.index()].affinity.intersection(&ledger.system.cpus).iter() {
                    let other = ledger.cpu_owner[cpu].and_then(|other| jobs[other.index()]);
                    let other = other.unwrap_or_else(|| panic!("{job:?} waits and CPU {cpu} is idle"));
                    assert!(denser(&other, job) == Ordering::Less, "{job:?} waits for {other:?} at {now}");
                }
            }
            return;
        }
        _ => return,
    };
    // A CPU without a schedule takes the densest.
    let first = schedule.first().or(dense.first()).map(|job| job.task);
    assert_eq!(engine.running().first().copied(), first, "{} chooses at {now} from {dense:?}", spec.entry.name);
}
