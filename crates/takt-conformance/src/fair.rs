//! The orders of policies that give each job its fair part of the time: LLREF and PD².
//!
//! LLREF: when a plane begins, the jobs with the largest local execution times run; Cho, Ravindran and Jensen, RTSS 2006. PD²: in
//! each quantum the eligible subtasks with the earliest pseudo-deadlines run; Anderson and Srinivasan, JCSS 68(1), 2004.

use crate::ledger::Ledger;
use crate::standing::{Key, LAST, Seen, Standing};
use takt_core::engine::Engine;
use takt_core::model::TaskId;
use takt_core::record::JobId;
use takt_core::time::{Span, Time};
use takt_core::work::Work;

/// A task under PD²: e quanta in p, and the quantum in which the windows of its job begin.
#[derive(Clone, Copy, Debug)]
struct Quanta {
    e: i64,
    p: i64,
    base: i64,
    job: Option<(JobId, bool)>,
    /// Its terms may have changed before they were looked at.
    unsure: bool,
}

/// Facts about all jobs.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    quanta: Vec<Quanta>,
    /// By task: a job of it came in this step, which begins a T-L plane.
    came: Vec<bool>,
}

/// A job is so much away from its local time at most, by the rounding of all planes before.
const ROUNDING: i64 = 3;

impl Fair {
    pub(crate) fn follow(&mut self, ledger: &Ledger, seen: &[Seen], begins: &[bool], came: &[bool], engine: &Engine) {
        self.came = came.to_vec();
        self.quanta.resize(seen.len(), Quanta { e: 1, p: 1, base: 0, job: None, unsure: true });
        for (index, seen) in seen.iter().enumerate() {
            let task = TaskId(index as u32);
            let (spec, _) = ledger.policy_of(task);
            if spec.profile.name != "pd2" {
                continue;
            }
            let quantum = quantum(ledger, task);
            let now_quantum = (engine.now() + quantum - Span::from_ns(1)).ns() / quantum.ns();
            let own = &mut self.quanta[index];
            let job = engine.job(task);
            let current = job.map(|job| (job.number, ledger.account(task).handler.is_some()));
            let before = core::mem::replace(&mut own.job, current);
            if begins[index] || before != current {
                if begins[index] || before.map(|job| job.0) != current.map(|job| job.0) {
                    let described = &engine.system().tasks[index];
                    let within = [described.deadline, described.arrival.period()];
                    let within = within.into_iter().flatten().min().expect("the policy needs both");
                    own.p = (within.ns() / quantum.ns()).max(1);
                    let runtime = described.runtime.expect("the policy needs it").ns();
                    own.e = ((runtime + quantum.ns() - 1) / quantum.ns()).min(own.p);
                    own.unsure = false;
                }
                own.base = i64::MIN / 2;
            }
            own.unsure |= seen.retimed > 0 && (begins[index] || came[index]);
            if let (Some(job), true) = (job.filter(|job| job.ready), came[index]) {
                let i = subtask(job.consumed.nominal_time(), quantum).min(own.e - 1);
                own.base = own.base.max(now_quantum - own.p * i / own.e);
            }
        }
    }

    pub(crate) fn standing(&self, ledger: &Ledger, task: TaskId, engine: &Engine) -> Option<Standing> {
        match ledger.policy_of(task).0.profile.name {
            _ if ledger.is_metered() => None,
            "pd2" => self.by_window(ledger, task, engine),
            _ => self.by_local_time(ledger, task, engine),
        }
    }

    fn by_window(&self, ledger: &Ledger, task: TaskId, engine: &Engine) -> Option<Standing> {
        let quantum = quantum(ledger, task);
        let (now, job) = (engine.now(), engine.job(task)?);
        let Quanta { e, p, base, unsure, .. } = self.quanta[task.index()];
        if now.ns() % quantum.ns() != 0 || unsure {
            return None;
        }
        let i = subtask(job.consumed.nominal_time(), quantum);
        let number = i64::from(task.0);
        if i >= e {
            return Some(Standing::exactly([1, job.deadline.ns(), job.release.ns(), number, 0]));
        }
        let early = ledger.policy_of(task).0.value("early") == Some(1);
        let begins = if early { base } else { base + p * i / e };
        if begins > now.ns() / quantum.ns() {
            // It is not eligible: it runs behind all others, and nothing is wrong if it waits.
            return Some(Standing::between([2, 0, 0, 0, 0], LAST));
        }
        let end = (p * (i + 1) + e - 1) / e;
        let overlaps = end * e > p * (i + 1);
        // A light task has no group deadline, which counts as the earliest.
        let heavy = 2 * e >= p && e < p;
        let group = if heavy { base + ((end - (i + 1)) * p + (p - e) - 1) / (p - e) } else { i64::MIN + 1 };
        Some(Standing::exactly([0, base + end, i64::from(!overlaps), -group, number]))
    }

    fn by_local_time(&self, ledger: &Ledger, task: TaskId, engine: &Engine) -> Option<Standing> {
        let (policy, cpus) = ledger.policy_of(task);
        let domain = ledger.domain_of(task);
        let now = engine.now();
        debug_assert_eq!(policy.profile.name, "llref");
        // How many CPUs a plane is for is not known where higher bands use some.
        if ledger.is_lower_band(task) {
            return None;
        }
        let mine = || (0..ledger.accounts.len()).map(|t| TaskId(t as u32)).filter(|t| ledger.domain_of(*t) == domain);
        // Which releases a plane ends with is not known where tasks have gone.
        if !mine().any(|t| self.came[t.index()]) || mine().any(|t| ledger.account(t).gone) {
            return None;
        }
        let due = |t: TaskId| {
            let job = engine.job(t).filter(|job| job.ready && job.deadline < Time::MAX && job.deadline > now)?;
            let successor = job.release + engine.system().tasks[t.index()].arrival.period()?;
            Some(if successor > now { job.deadline.min(successor) } else { job.deadline })
        };
        let left = |t: TaskId| (engine.declared(t).unwrap_or(Work::ZERO) - engine.own_work(t)).or_zero().nominal_time();
        let ends = mine().flat_map(|t| [due(t), ledger.account(t).next_release(now)]).flatten().filter(|at| *at > now);
        let length = ends.min().map_or(0, |end| (end - now).ns());
        let local = |t: TaskId| {
            let part = due(t).map_or(0, |due| length * left(t).ns() / (due - now).ns());
            part.min(length).min(left(t).ns())
        };
        let (mut all, mut jobs) = (0, 0);
        for t in mine().filter(|t| due(*t).is_some()) {
            (all, jobs) = (all + local(t), jobs + 1);
        }
        if all > length * cpus.len() as i64 - jobs {
            // The CPUs are overloaded, or may be by what is rounded up.
            return None;
        }
        let job = engine.job(task).filter(|job| job.ready)?;
        if due(task).is_none() || left(task) == Span::ZERO {
            return Some(Standing::exactly([1, job.deadline.ns(), job.release.ns(), i64::from(task.0), 0]));
        }
        let key = |local: i64| -> Key { [-local, i64::MIN, 0, 0, 0] };
        let own = local(task);
        let most = if own > ROUNDING { key(own - ROUNDING) } else { LAST };
        Some(Standing::between(key(own + ROUNDING), most))
    }
}

fn quantum(ledger: &Ledger, task: TaskId) -> Span {
    ledger.policy_of(task).0.value("quantum").map_or(Span::from_ms(1), Span::from_ns)
}

/// Which subtask a job is at.
fn subtask(consumed: Span, quantum: Span) -> i64 {
    (consumed.ns() + quantum.ns() - quantum.ns() / 2 - 1) / quantum.ns()
}
