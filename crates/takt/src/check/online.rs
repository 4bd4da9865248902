//! The check of tasks under a policy.

use super::control::{self, ControlEntry};
use super::words::{CheckText, answer, beside, in_scenario, left_out, little_idle, named, not_realtime, several};
use crate::aborts::{self, Abort};
use crate::load::priorities_note;
use crate::report::assignment::{self, Piece, Placed, Refused};
use crate::report::{Cell, Millionths, Priorities, lateness, table};
use serde::Serialize;
use std::io::{self, Write};
use takt_analysis::control::ControlReport;
use takt_analysis::online::{self, Answer, Verdict};
use takt_analysis::placement::{self, Home};
use takt_analysis::tardiness;
use takt_core::model::Domain;
use takt_core::time::Span;
use takt_core::utility;
use takt_workload::Workload;

/// The verdict about tasks under a policy.
#[derive(Clone, Debug, Serialize)]
pub struct OnlineCheck {
    /// Whether every deadline is met.
    #[serde(serialize_with = "answer")]
    pub schedulable: Answer,
    /// The test that gave the answer; [`Verdict::test`] lists them.
    pub test: &'static str,
    /// The strength of that test: `exact`, `sufficient`, `necessary` or `none`.
    pub kind: String,
    /// The ground of the answer.
    pub reason: String,
    /// Sum of runtime over period.
    pub utilisation_per_mille: u64,
    /// Least common multiple of the periods; `None` when it does not fit.
    pub hyperperiod_ns: Option<i64>,
    /// By task.
    pub tasks: Vec<TaskBound>,
    /// The tasks that the kernel schedules, which the check leaves out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub of_kernel: Vec<String>,
    /// The loops of a regulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlEntry>,
    /// The CPU of each task, under a policy that gives each one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assignment: Vec<Placed>,
    /// The tasks that no CPU accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_accepted: Vec<Refused>,
    /// Bound of the tardiness under global EDF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gedf_tardiness_ns: Option<Option<i64>>,
    /// The same by task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gedf_tardiness_of_tasks_ns: Option<Vec<i64>>,
    /// The rule that assigned priorities, for a file that cannot state them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priorities: Option<Priorities>,
    /// The verdict about each domain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainVerdict>,
    /// The tasks whose jobs can be aborted.
    pub aborts: Vec<Abort>,
    #[serde(skip)]
    workload: Workload,
    #[serde(skip)]
    verdict: Verdict,
    #[serde(skip)]
    parts: Vec<Verdict>,
    #[serde(skip)]
    refused: Vec<Home>,
    #[serde(skip)]
    late: Option<Vec<Span>>,
    #[serde(skip)]
    report: Option<ControlReport>,
}

/// Bounds of a task.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TaskBound {
    /// Its name.
    pub name: String,
    /// Bound of its response time, where the test gives one.
    pub response_bound_ns: Option<i64>,
    /// The most that a job can accrue, where some task of the workload states a utility.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utility: Option<Millionths>,
    /// The runtime that follows from `steps`, where the task states none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_of_steps_ns: Option<i64>,
}

/// The verdict about a domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DomainVerdict {
    /// Its name.
    pub name: String,
    /// Its CPUs, as in `0-3`.
    pub cpus: String,
    /// Its band, where domains share CPUs.
    pub band: Option<u32>,
    /// Its policy, without the prefix of the scope.
    pub policy: &'static str,
    /// The scope of the policy.
    pub scope: &'static str,
    /// Whether every deadline is met.
    #[serde(serialize_with = "answer")]
    pub schedulable: Answer,
    /// The test that gave the answer.
    pub test: &'static str,
    /// The strength of that test.
    pub kind: String,
    /// The ground of the answer.
    pub reason: String,
}

impl OnlineCheck {
    /// `of_kernel` are the tasks of the kernel's classes, which the workload does not have any more.
    pub(super) fn of(workload: Workload, of_kernel: Vec<String>) -> OnlineCheck {
        let system = &workload.system;
        let judged = |verdict| beside(in_scenario(named(verdict, &workload), &workload), &of_kernel);
        let verdict = judged(online::verdict(system));
        let report = takt_analysis::control::report(system);
        let parts: Vec<Verdict> = online::of_domains(system).into_iter().map(judged).collect();
        let homes = placement::placement(system);
        let refused: Vec<Home> = homes.iter().filter(|home| !home.fits).cloned().collect();
        let late = tardiness::bound(system).filter(|_| left_out(&workload).is_empty());
        let valued = system.tasks.iter().any(|t| t.utility.is_some());
        let tasks = workload.tasks.iter().zip(&system.tasks).zip(&verdict.responses);
        let tasks = tasks.map(|((info, task), response)| TaskBound {
            name: info.name.clone(),
            response_bound_ns: response.map(Span::ns),
            utility: valued.then(|| {
                let of_task = task.utility.as_ref().unwrap_or(&utility::Utility::DEFAULT);
                Millionths(u128::from(of_task.height()))
            }),
            runtime_of_steps_ns: takt_workload::runtime_of_steps(task).map(Span::ns),
        });
        let domains = workload.domains.iter().zip(&system.domains).zip(&parts);
        let domain = |((name, domain), v): ((&String, &Domain), &Verdict)| DomainVerdict {
            name: name.clone(),
            cpus: domain.cpus.to_string(),
            band: system.band(domain),
            policy: domain.policy.profile.name,
            scope: domain.policy.scope.name(),
            schedulable: v.schedulable,
            test: v.test,
            kind: v.kind.to_string(),
            reason: v.reason.clone(),
        };
        let in_ns = |late: &Vec<Span>| late.iter().map(|late| late.ns()).collect::<Vec<i64>>();
        OnlineCheck {
            schedulable: verdict.schedulable,
            test: verdict.test,
            kind: verdict.kind.to_string(),
            reason: verdict.reason.clone(),
            utilisation_per_mille: verdict.utilisation.per_mille(),
            hyperperiod_ns: verdict.hyperperiod.map(Span::ns),
            tasks: tasks.collect(),
            control: report.as_ref().map(|report| ControlEntry::of(&workload, report)),
            assignment: placed(&workload, &homes),
            not_accepted: assignment::refused_tasks(&refused, &workload),
            gedf_tardiness_ns: late.as_ref().map(|late| late.iter().map(|late| late.ns()).max()),
            gedf_tardiness_of_tasks_ns: late.as_ref().map(in_ns),
            priorities: workload.settings.priorities.map(Priorities::from),
            domains: domains.map(domain).collect(),
            aborts: aborts::entries(&workload),
            of_kernel,
            verdict,
            parts,
            refused,
            late,
            report,
            workload,
        }
    }

    pub(super) fn print(&self, with: &CheckText, out: &mut impl Write) -> io::Result<()> {
        let (workload, verdict) = (&self.workload, &self.verdict);
        let system = &workload.system;
        let policy = takt_workload::policy_text(&system.policy);
        let tasks = several(system.tasks.len(), "task", "tasks");
        writeln!(out, "{}: {tasks}, policy {policy}, CPU {}", workload.source.name, system.cpus)?;
        with.more.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if !self.of_kernel.is_empty() {
            writeln!(out, "note: the kernel schedules {}; this check leaves them out", self.of_kernel.join(", "))?;
        }
        if let Some(taken) = of_steps(workload) {
            writeln!(out, "{taken}")?;
        }
        if let Some(assigned) = workload.settings.priorities {
            writeln!(out, "note: {}", priorities_note(assigned))?;
        }
        for ((name, domain), part) in workload.domains.iter().zip(&system.domains).zip(&self.parts) {
            let policy = takt_workload::policy_text(&domain.policy);
            let tasks = several(domain.tasks.len(), "task", "tasks");
            let band = system.band(domain).map_or(String::new(), |band| format!(", band {band}"));
            writeln!(out, "domain {name}: {tasks}, policy {policy}, CPU {}{band}: {part}", domain.cpus)?;
        }
        writeln!(out, "{verdict}")?;
        if let Some(late) = self.late.as_ref().filter(|_| verdict.schedulable != online::Answer::Yes) {
            let names: Vec<String> = workload.tasks.iter().map(|task| task.name.clone()).collect();
            writeln!(out, "note: {} (Devi, Anderson 2008)", lateness(&names, late))?;
        }
        assignment::warn(&self.refused, workload, out)?;
        aborts::print(workload, out)?;
        if with.assignment && self.assignment.is_empty() {
            writeln!(out, "note: this policy gives no task a CPU of its own")?;
        }
        if !self.assignment.is_empty() && (with.assignment || assignment::splits(&self.assignment)) {
            writeln!(out)?;
            assignment::print(&self.assignment, out)?;
        }
        if verdict.responses.iter().any(Option::is_some) {
            let mut rows = vec![["task", "response at most", "deadline"].map(Cell::from).to_vec()];
            for ((info, task), response) in workload.tasks.iter().zip(&system.tasks).zip(&verdict.responses) {
                rows.push(vec![info.name.as_str().into(), (*response).into(), task.deadline.into()]);
            }
            writeln!(out)?;
            table(out, &rows)?;
        }
        if let Some(why) = not_realtime(workload).filter(|_| workload.tasks.iter().any(|t| t.is_program())) {
            writeln!(out, "{}: {why}", little_idle(workload, "some CPU may have"))?;
        }
        if let Some(report) = &self.report {
            control::print(workload, report, out)?;
        }
        Ok(())
    }
}

/// The CPU of each task, under a policy that places tasks.
fn placed(workload: &Workload, homes: &[Home]) -> Vec<Placed> {
    let piece = |stop: &placement::Stop| Piece { cpu: stop.cpu, budget: stop.budget, from: stop.from, to: stop.to };
    let place = |home: &Home| {
        let task = workload.tasks[home.task.index()].name.clone();
        Placed { task, period: home.period, fits: home.fits, pieces: home.stops.iter().map(piece).collect() }
    };
    homes.iter().map(place).collect()
}

/// The runtimes that are counted with where only `steps` say something of them.
fn of_steps(workload: &Workload) -> Option<String> {
    const TOLD: usize = 8;
    let taken = workload.tasks.iter().zip(&workload.system.tasks);
    let taken =
        taken.filter_map(|(info, task)| Some(format!("{} {}", info.name, takt_workload::runtime_of_steps(task)?)));
    let mut taken: Vec<String> = taken.collect();
    let more = taken.len().saturating_sub(TOLD);
    taken.truncate(TOLD);
    if more > 0 {
        taken.push(format!("{more} more"));
    }
    let taken = taken.join(", ");
    (!taken.is_empty()).then(|| format!("note: runtime from `steps`, that of the longest job, at any time: {taken}"))
}
