//! Schedulability of a system under its online policy.

use crate::uniprocessor::{self, Demand, Finding, Test};
use crate::utilisation::{Utilisation, gcd};
use std::fmt;
use takt_core::model::{Arrival, Backlog, System, TaskId};
use takt_core::policies::scope;
use takt_core::policy::{Build, Scope};
use takt_core::record::Place;
use takt_core::time::Span;

/// Whether every deadline is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Every one.
    Yes,
    /// At least one is missed.
    No,
    /// The test does not say.
    Unknown,
}

/// What a test can prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Both yes and no.
    Exact,
    /// Only yes.
    Sufficient,
    /// Only no.
    Necessary,
}

/// What a test found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The answer.
    pub schedulable: Answer,
    /// The test that gave it: `edf`, `rta` (response-time analysis), `gfb`, `utilisation`, `one-cpu-each`, `none`.
    pub test: &'static str,
    /// What that test can prove.
    pub kind: Kind,
    /// The ground of the answer in plain words.
    pub reason: String,
    /// Sum of runtime over period of the tasks that have both.
    pub utilisation: Utilisation,
    /// Least common multiple of the periods; `None` when it does not fit.
    pub hyperperiod: Option<Span>,
    /// Bound of each task's response time, where the test gives one.
    pub responses: Vec<Option<Span>>,
    /// Whether a tenth of the time is left idle: of each CPU under a partitioned policy, of all together otherwise.
    /// False when a runtime is not known.
    pub idle_10_percent: bool,
}

/// Tests the system under its policy with the strongest test there is for it.
#[must_use]
pub fn verdict(system: &System) -> Verdict {
    let demands = demands(system);
    let known: Vec<Demand> = demands.iter().filter_map(|d| d.ok()).collect();
    let cpus = system.cpus.len() as u64;
    let queue = system.backlog == Backlog::Queue;
    let load = uniprocessor::utilisation(&known);
    let mut idle = load.at_most(cpus) == Some(true) && idle_tenth(&known, cpus);
    let name = system.policy.entry.name;
    let test: Option<(&'static str, Test)> = match name {
        "edf" => Some(("edf", uniprocessor::edf)),
        "rm" | "fp" => Some(("rta", uniprocessor::fixed_priority)),
        _ => None,
    };
    let unknown = demands.iter().find_map(|d| d.err());
    let (test, found) = match (unknown, test, system.policy.scope) {
        (Some(task), ..) => {
            idle = false;
            let why = format!("task {} has no runtime", task.0);
            ("none", Finding::new(Answer::Unknown, Kind::Sufficient, why))
        }
        _ if over_budget(system).is_some() => {
            let task = over_budget(system).expect("just looked");
            let why = format!("task {} is aborted when its budget is used, before its runtime is over", task.0);
            ("utilisation", Finding::new(Answer::No, Kind::Necessary, why))
        }
        (None, Some((test, run)), Scope::Uniprocessor) => (test, run(&known, queue)),
        (None, Some((test, run)), Scope::Partitioned) => {
            let home = homes(system);
            let on = |cpu: u16| known.iter().copied().filter(|d| home[d.task.index()] == cpu).collect::<Vec<_>>();
            let packed: Vec<Vec<Demand>> = (0..cpus as u16).map(on).collect();
            idle = packed.iter().all(|tasks| idle_tenth(tasks, 1));
            (test, partitioned(packed.iter().map(|tasks| run(tasks, queue)).collect()))
        }
        (None, Some(_), Scope::Global) => global(system, &known, name),
        _ => necessary(&known, cpus, "there is no test for this policy"),
    };
    let mut responses = vec![None; system.tasks.len()];
    found.responses.iter().for_each(|&(task, bound)| responses[task.index()] = Some(bound));
    Verdict {
        schedulable: found.answer,
        test,
        kind: found.kind,
        reason: found.reason,
        utilisation: load,
        hyperperiod: hyperperiod(system),
        responses,
        idle_10_percent: idle,
    }
}

/// The periodic tasks; an error names one without a runtime.
fn demands(system: &System) -> Vec<Result<Demand, TaskId>> {
    let demand = |(index, task): (usize, &takt_core::model::Task)| {
        let Arrival::Periodic { offset, period } = task.arrival else { return None };
        let id = TaskId(index as u32);
        let rank = match system.policy.entry.name {
            "rm" => period.ns(),
            _ => -i64::from(task.priority),
        };
        Some(task.runtime.ok_or(id).map(|runtime| Demand {
            task: id,
            runtime: i128::from(runtime.ns()),
            period: i128::from(period.ns()),
            deadline: task.deadline.map(|d| i128::from(d.ns())),
            offset: i128::from(offset.ns()),
            rank,
        }))
    };
    system.tasks.iter().enumerate().filter_map(demand).collect()
}

fn over_budget(system: &System) -> Option<TaskId> {
    let short = system.tasks.iter().position(|t| {
        matches!(t.arrival, Arrival::Periodic { .. }) && t.budget.is_some_and(|b| t.runtime.is_some_and(|c| c > b))
    });
    short.map(|index| TaskId(index as u32))
}

fn homes(system: &System) -> Vec<u16> {
    let tasks: Vec<TaskId> = (0..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
    let places: Vec<Place> = (0..system.cpus.len()).map(|p| Place(p as u16)).collect();
    scope::pack(&Build { system, tasks: &tasks, places: &places, spec: system.policy, first_timer: 0 })
}

fn partitioned(cpus: Vec<Finding>) -> Finding {
    let mut responses = Vec::new();
    cpus.iter().for_each(|found| responses.extend_from_slice(&found.responses));
    let worst = |answer: Answer| cpus.iter().position(|found| found.answer == answer);
    let found = match worst(Answer::No).or_else(|| worst(Answer::Unknown)) {
        Some(cpu) => {
            let Finding { answer, kind, reason, .. } = &cpus[cpu];
            Finding::new(*answer, *kind, format!("on the CPU at index {cpu}: {reason}"))
        }
        None => {
            let exact = cpus.iter().all(|found| found.kind == Kind::Exact);
            let kind = if exact { Kind::Exact } else { Kind::Sufficient };
            Finding::new(Answer::Yes, kind, "the test says yes on every CPU")
        }
    };
    Finding { responses, ..found }
}

/// Global policies on identical CPUs.
///
/// GFB: Goossens, Funk, Baruah, "Priority-Driven Scheduling of Periodic Task Systems on Multiprocessors", Real-Time
/// Systems 25, 2003; with densities for deadlines below the period.
fn global(system: &System, tasks: &[Demand], name: &str) -> (&'static str, Finding) {
    let cpus = system.cpus.len() as u64;
    if let ("utilisation", no @ Finding { answer: Answer::No, .. }) = necessary(tasks, cpus, "") {
        return ("utilisation", no);
    }
    if !system.tasks.iter().all(|t| system.cpus.is_subset(&t.affinity)) {
        return necessary(tasks, cpus, "some tasks may not run on every CPU");
    }
    // A job that is queued behind an earlier one of its own task is beyond these tests.
    let constrained = tasks.iter().all(|t| t.deadline.is_none_or(|d| d <= t.period));
    if constrained && tasks.len() as u64 <= cpus {
        return ("one-cpu-each", Finding::new(Answer::Yes, Kind::Exact, "there are no more tasks than CPUs"));
    }
    if name != "edf" || tasks.iter().any(|t| t.deadline.is_none_or(|d| d > t.period)) {
        return necessary(tasks, cpus, "there is no sufficient test for this policy and these deadlines");
    }
    let density = |t: &Demand| (t.runtime as u64, t.deadline.expect("all have one") as u64);
    let above = |a: (u64, u64), b: (u64, u64)| u128::from(a.0) * u128::from(b.1) > u128::from(b.0) * u128::from(a.1);
    let mut densest = (0, 1);
    let mut sum = Utilisation::default();
    for task in tasks {
        let (c, d) = density(task);
        sum.add(c, d);
        if above((c, d), densest) {
            densest = (c, d);
        }
    }
    (1..cpus).for_each(|_| sum.add(densest.0, densest.1));
    let found = match sum.at_most(cpus) {
        Some(true) => Finding::new(Answer::Yes, Kind::Sufficient, "the total density is within the bound of GFB"),
        _ => Finding::new(
            Answer::Unknown,
            Kind::Sufficient,
            "the total density is above the bound of GFB, which proves nothing",
        ),
    };
    ("gfb", found)
}

/// What holds for every policy: more work than CPUs cannot be done, nor a job longer than its deadline.
fn necessary(tasks: &[Demand], cpus: u64, otherwise: &str) -> (&'static str, Finding) {
    let timed = || tasks.iter().filter(|t| t.deadline.is_some());
    let load = uniprocessor::utilisation(timed());
    if load.at_most(cpus) == Some(false) {
        let why = format!("utilisation {load} is above {cpus}");
        return ("utilisation", Finding::new(Answer::No, Kind::Necessary, why));
    }
    let too_long = |t: &&Demand| t.deadline.is_some_and(|d| d < t.runtime) || t.runtime > t.period;
    if let Some(t) = timed().find(too_long) {
        let why = format!("task {} needs more than its deadline or period allows", t.task.0);
        return ("utilisation", Finding::new(Answer::No, Kind::Necessary, why));
    }
    ("utilisation", Finding::new(Answer::Unknown, Kind::Necessary, otherwise))
}

/// Whether tasks leave a tenth of so many CPUs idle.
fn idle_tenth(tasks: &[Demand], cpus: u64) -> bool {
    let mut tenfold = Utilisation::default();
    tasks.iter().for_each(|t| (0..10).for_each(|_| tenfold.add(t.runtime as u64, t.period as u64)));
    tenfold.at_most(9 * cpus) == Some(true)
}

fn hyperperiod(system: &System) -> Option<Span> {
    let periods = system.tasks.iter().filter_map(|t| t.arrival.period().map(|p| p.ns() as u128));
    let lcm =
        |a: Option<u128>, b: u128| a.and_then(|a| (a / gcd(a, b)).checked_mul(b)).filter(|l| *l <= i64::MAX as u128);
    periods.fold(Some(1), lcm).map(|l| Span::from_ns(l as i64))
}

/// One sentence: `schedulable (exact test edf): utilisation 0.971 (34/35) is at most 1`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = match self.schedulable {
            Answer::Yes => "schedulable",
            Answer::No => "not schedulable",
            Answer::Unknown => "not known to be schedulable",
        };
        if self.test == "none" {
            return write!(f, "{answer}: {}", self.reason);
        }
        write!(f, "{answer} ({} test {}): {}", self.kind, self.test, self.reason)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Exact => "exact",
            Kind::Sufficient => "sufficient",
            Kind::Necessary => "necessary",
        })
    }
}
