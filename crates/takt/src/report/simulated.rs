//! The parts of a summary that only a simulation has: costs of the machine, disturbances, shares of the CPUs.

use super::power::{Power, PowerEntry};
use super::tables::{percent, table};
use crate::header::header;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use takt_core::input::Input;
use takt_core::model::{Arrival, ResourceId, Step, System, Task, TaskId};
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::scenario::{Costs, Deciding};
use takt_core::time::{Span, Time};
use takt_sim::Report;
use takt_trace::rounds::Rounds;
use takt_trace::timeline::{Policies, Switch};
use takt_workload::Workload;

/// The counts beside the engine's own counters.
pub struct Notes {
    /// Calls for other terms, and how many of them were refused, by task.
    calls: Vec<(u64, u64)>,
    /// The first cycles of jobs that wait for each other, each from the one whose request closed it.
    deadlocks: Vec<Deadlock>,
    /// By resource, who holds it, and by task, what it asked for last without getting it.
    owners: Vec<Option<TaskId>>,
    asked: Vec<Option<ResourceId>>,
    /// Policies that took over, and what they are called.
    switches: Vec<Switch>,
    policies: Policies,
    /// Rounds of a regulator, if they are requested.
    pub rounds: Option<Rounds>,
    wanted: bool,
}

/// Jobs that wait for each other: each for what the next one holds, and the last for what the first one holds.
struct Deadlock {
    at: Time,
    cycle: Vec<(TaskId, ResourceId)>,
}

/// More deadlocks, or switches of policies, than this are only counted.
const TOLD_MAX: usize = 10;

impl Notes {
    /// Empty notes about this workload, with the rounds of a regulator if they are requested.
    #[must_use]
    pub fn new(workload: &Workload, rounds: bool) -> Notes {
        let system = &workload.system;
        Notes {
            switches: Vec::new(),
            policies: Policies::of(&header(workload, "sim", None)),
            calls: vec![(0, 0); system.tasks.len()],
            deadlocks: Vec::new(),
            owners: vec![None; usize::from(system.resources)],
            asked: vec![None; system.tasks.len()],
            rounds: rounds.then(Rounds::default),
            // Records cost time, so they are asked for only where there can be something in them.
            wanted: rounds
                || system.resources > 0
                || !system.alternatives.is_empty()
                || workload.scenario.changes.iter().any(|(_, what)| matches!(what, Input::Configure { .. }))
                || system.tasks.iter().any(|t| t.program.steps.iter().any(|step| matches!(step, Step::Call(_)))),
        }
    }

    /// The policy of the whole system with its settings, and since when it holds, if another one has taken over.
    #[must_use]
    pub fn switched(&self) -> Option<(Time, &str)> {
        let name = |policy: &str| policy.split(':').next().map(str::to_owned);
        let other = |switch: &&Switch| switch.domain.is_none() && name(&switch.from) != name(&switch.to);
        Some((self.switches.iter().rev().find(other)?.at, self.policies.system()))
    }

    /// Takes notes of a further task, the next in number.
    pub fn add_task(&mut self) {
        self.calls.push((0, 0));
        self.asked.push(None);
    }

    /// The cycle that the task's request has closed. Each member waits for the resource that it requested last.
    fn cycle(&self, first: TaskId) -> Vec<(TaskId, ResourceId)> {
        let mut cycle = Vec::new();
        let mut at = first;
        while let Some(resource) = self.asked[at.index()] {
            cycle.push((at, resource));
            match self.owners[usize::from(resource.0)] {
                Some(owner) if owner != first && cycle.len() < self.asked.len() => at = owner,
                _ => break,
            }
        }
        cycle
    }
}

impl Sink for Notes {
    fn record(&mut self, record: Record) {
        match record.kind {
            RecordKind::Lock { task, resource, granted: true } => {
                self.owners[usize::from(resource.0)] = Some(task);
                self.asked[task.index()] = None;
            }
            RecordKind::Lock { task, resource, granted: false } => self.asked[task.index()] = Some(resource),
            RecordKind::Withdraw { task, .. } => self.asked[task.index()] = None,
            RecordKind::Unlock { resource, .. } => self.owners[usize::from(resource.0)] = None,
            RecordKind::Deadlock { task, .. } if self.deadlocks.len() < TOLD_MAX => {
                self.deadlocks.push(Deadlock { at: record.at, cycle: self.cycle(task) });
            }
            RecordKind::Switch { domain, to } => self.switches.push(self.policies.switch(record.at, domain, to)),
            RecordKind::Configure { setting, value } => {
                self.switches.push(self.policies.configure(record.at, setting, value));
            }
            RecordKind::Call { task, granted, .. } => {
                let (asked, refused) = &mut self.calls[task.index()];
                (*asked, *refused) = (*asked + 1, *refused + u64::from(!granted));
            }
            RecordKind::Round { .. } | RecordKind::Burst { .. } => {
                if let Some(rounds) = &mut self.rounds {
                    rounds.record(&record);
                }
            }
            _ => {}
        }
    }
    fn wants_records(&self) -> bool {
        self.wanted
    }
}

/// A simulation that has ended.
pub struct Simulated<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The simulated time.
    pub duration: Span,
    /// `None` for a replay, in which time went where the recorded run let it.
    pub report: Option<&'a Report>,
    /// The counts beside the engine's own.
    pub notes: &'a Notes,
    /// How many deadlocks there were.
    pub deadlocks: u64,
    /// Energy, temperatures, and counts of the power policy.
    pub power: Option<Power<'a>>,
}

/// One task's part of the CPU time, in millionths of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Share {
    /// Its share or utilisation, as it declares.
    pub declared: Option<i64>,
    /// The policy's own prediction.
    pub predicted: Option<i64>,
    /// The share that it received.
    pub received: i64,
}

/// The part of a result that only a simulation has. `scheduler`, `charged` and `cpu_time` are `None` for a replay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Machine {
    /// The costs of the simulated machine, by their names in the file with `_ns` behind them.
    pub costs: BTreeMap<String, i64>,
    /// The clock.
    pub timing: Timing,
    /// Time that is stolen from each CPU.
    pub steal: Option<Steal>,
    /// Number of changes in the course of the simulation.
    pub changes: usize,
    /// Number of deadlocks.
    pub deadlocks: u64,
    /// The first of them.
    pub first_deadlocks: Vec<DeadlockEntry>,
    /// Runs of the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// The charges of each kind, summed over the jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged: Option<BTreeMap<String, i64>>,
    /// The use of each CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Vec<CpuTime>>,
    /// Policies that took over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchEntry>,
    /// Energy, temperatures, and counts of the power policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerEntry>,
}

/// The clock of the simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Timing {
    /// The period of the tick, at which sleeps end; 0 without one.
    pub tick_ns: i64,
    /// The resolution of timers.
    pub resolution_ns: i64,
    /// The lateness of timers.
    pub lateness_ns: i64,
}

/// Time that is stolen from each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Steal {
    /// How often.
    pub period_ns: i64,
    /// For how long.
    pub length_ns: i64,
}

/// Jobs that wait for each other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DeadlockEntry {
    /// The instant of the request that closed the wait-for cycle.
    pub at_ns: i64,
    /// The task that made it.
    pub task: String,
    /// The resource that it requested.
    pub resource: String,
    /// The wait-for cycle, from that task on.
    #[serde(rename = "circle")]
    pub cycle: Vec<Link>,
}

/// A link of a wait-for cycle.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Link {
    /// The waiting task.
    pub task: String,
    /// The resource.
    pub waits_for: String,
    /// The holder of the resource.
    pub held_by: String,
}

/// Runs of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Scheduler {
    /// The model of global scheduling: `one` (stop-the-world) or `each` (concurrent).
    pub deciding: &'static str,
    /// How often a CPU ran the scheduler.
    pub runs: u64,
    /// How often a CPU was interrupted by another one.
    pub interrupts: u64,
    /// How often a CPU waited at the scheduler for another one.
    pub blocked: u64,
}

/// The use of a CPU. The sum of the fields is the simulated time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CpuTime {
    /// A job held it and made progress.
    pub worked_ns: i64,
    /// A job held it and paid costs of the machine.
    pub overhead_ns: i64,
    /// A job held it while its time was stolen.
    pub stolen_ns: i64,
    /// No job held it.
    pub idle_ns: i64,
}

/// A policy that took over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SwitchEntry {
    /// When.
    pub at_ns: i64,
    /// The domain; `None` for the policy of the whole system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The policy.
    pub policy: String,
}

/// The part of a task's result that only a simulation has.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct SimulatedTask {
    /// Its calls for other terms, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// The refused ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_refused: Option<u64>,
    /// Time that its jobs held a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_ns: Option<i64>,
    /// The part of it in which they made progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worked_ns: Option<i64>,
    /// Energy in microjoules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_uj: Option<u64>,
    /// Its part of the CPU time, under a policy of shares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_millionths: Option<Share>,
}

impl Simulated<'_> {
    fn system(&self) -> &System {
        &self.workload.system
    }

    fn name(&self, task: TaskId) -> &str {
        &self.workload.tasks[task.index()].name
    }

    fn resource(&self, resource: ResourceId) -> &str {
        self.workload.resources.get(usize::from(resource.0)).map_or("a resource", String::as_str)
    }

    /// The waiting tasks, the resources and their holders.
    fn cycle<'a>(&'a self, deadlock: &'a Deadlock) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        let owners = deadlock.cycle.iter().cycle().skip(1);
        let named = |(&(task, resource), &(owner, _))| (self.name(task), self.resource(resource), self.name(owner));
        deadlock.cycle.iter().zip(owners).map(named)
    }

    /// Parts of the CPU time by task, where they tell more than deadlines do: for a policy that hands out shares, and for tasks
    /// without deadlines.
    fn shares(&self) -> Option<Vec<Share>> {
        let (system, report) = (self.system(), self.report?);
        let undated = |t: &Task| t.arrival != Arrival::Activated && t.deadline.is_none();
        let tells = system.policy.gives_shares() || system.tasks.iter().any(|t| t.share.is_some() || undated(t));
        if !tells || !system.windows.is_empty() || self.duration <= Span::ZERO {
            return None;
        }
        let predicted = predicted(system);
        let share = |(index, task): (usize, &Task)| {
            let received = i128::from(report.tasks[index].received.ns()) * 1_000_000 / i128::from(self.duration.ns());
            Share {
                declared: task.share.map(i64::from).or_else(|| load(task)),
                predicted: predicted.as_ref().and_then(|p| p.get(index).copied()),
                received: received as i64,
            }
        };
        Some(system.tasks.iter().enumerate().map(share).collect())
    }

    /// The part of the whole.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let (scenario, timing) = (&self.workload.scenario, self.system().timing);
        let of_costs = |c: &Costs| costs(c).map(|(name, span)| (format!("{name}_ns"), span.ns())).into();
        let deadlock = |deadlock: &Deadlock| {
            let link = |(task, resource, owner): (&str, &str, &str)| Link {
                task: task.into(),
                waits_for: resource.into(),
                held_by: owner.into(),
            };
            let cycle: Vec<Link> = self.cycle(deadlock).map(link).collect();
            let (task, resource) = (cycle[0].task.clone(), cycle[0].waits_for.clone());
            DeadlockEntry { at_ns: deadlock.at.ns(), task, resource, cycle }
        };
        let cpu = |c: &takt_sim::CpuTime| CpuTime {
            worked_ns: c.worked.ns(),
            overhead_ns: c.overhead.ns(),
            stolen_ns: c.stolen.ns(),
            idle_ns: c.idle.ns(),
        };
        let switch = |s: &Switch| SwitchEntry { at_ns: s.at.ns(), domain: s.domain.clone(), policy: s.to.clone() };
        Machine {
            costs: of_costs(&scenario.costs),
            timing: Timing {
                tick_ns: timing.tick.ns(),
                resolution_ns: timing.resolution.ns(),
                lateness_ns: timing.lateness.ns(),
            },
            steal: scenario.steal.map(|s| Steal { period_ns: s.period.ns(), length_ns: s.length.ns() }),
            changes: scenario.changes.len(),
            deadlocks: self.deadlocks,
            first_deadlocks: self.notes.deadlocks.iter().map(deadlock).collect(),
            scheduler: self.report.map(|report| Scheduler {
                deciding: deciding(scenario.deciding),
                runs: report.scheduler_runs,
                interrupts: report.interrupts,
                blocked: report.blocked_entries,
            }),
            charged: self.report.map(|report| of_costs(&report.charged)),
            cpu_time: self.report.map(|report| report.cpus.iter().map(cpu).collect()),
            switches: self.notes.switches.iter().map(switch).collect(),
            power: self.power.as_ref().map(Power::entry),
        }
    }

    /// The part of each task, by its index.
    pub fn tasks(&self) -> impl Fn(usize) -> SimulatedTask {
        let shares = self.shares();
        move |index: usize| {
            let time = self.report.map(|r| &r.tasks[index]);
            let calls = Some(self.notes.calls[index]).filter(|(requested, _)| *requested > 0);
            SimulatedTask {
                calls: calls.map(|(requested, _)| requested),
                calls_refused: calls.map(|(_, refused)| refused),
                received_ns: time.map(|time| time.received.ns()),
                worked_ns: time.map(|time| time.worked.ns()),
                energy_uj: self.power.as_ref().and_then(|power| power.of_task(index)),
                share_millionths: shares.as_ref().map(|shares| shares[index]),
            }
        }
    }

    /// The lines after the table of jobs.
    ///
    /// # Errors
    /// Those of the output.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let workload = self.workload;
        // A replay has the costs of the machine that it was recorded on.
        let Some(report) = self.report else { return self.power.iter().try_for_each(|power| power.print(out)) };
        // Where no CPU shares a ready queue no CPU interrupts another one, or waits for it.
        if report.interrupts + report.blocked_entries > 0 {
            let Report { scheduler_runs, interrupts, blocked_entries, .. } = report;
            let deciding = match workload.scenario.deciding {
                Deciding::StopTheWorld => "one CPU decides for all",
                Deciding::Concurrent => "each CPU decides for itself",
            };
            writeln!(
                out,
                "scheduler: {deciding}; runs {scheduler_runs}, interrupts {interrupts}, blocked entries {blocked_entries}"
            )?;
        }
        writeln!(out, "{}", self.costs_line(report))?;
        let timing = self.system().timing;
        let clock =
            [("tick", timing.tick), ("timer_resolution", timing.resolution), ("timer_lateness", timing.lateness)];
        let clock = words(clock.into_iter());
        if !clock.is_empty() {
            writeln!(out, "clock: {clock}")?;
        }
        if let Some(steal) = workload.scenario.steal {
            writeln!(out, "stolen: {} of every {} on each CPU", steal.length, steal.period)?;
        }
        if !workload.scenario.changes.is_empty() {
            writeln!(out, "changes: {} while it ran", workload.scenario.changes.len())?;
        }
        for switch in self.notes.switches.iter().take(TOLD_MAX) {
            writeln!(out, "switched: at {} {switch}", switch.at)?;
        }
        let more = self.notes.switches.len().saturating_sub(TOLD_MAX);
        if more > 0 {
            writeln!(out, "switched: {more} times more")?;
        }
        for (task, (asked, refused)) in workload.tasks.iter().zip(&self.notes.calls).filter(|(_, (n, _))| *n > 0) {
            writeln!(out, "calls: {} requested other terms {asked} times, {refused} refused", task.name)?;
        }
        for deadlock in &self.notes.deadlocks {
            let link = |(task, resource, owner)| format!("{task} waits for {resource}, held by {owner}");
            let cycle: Vec<String> = self.cycle(deadlock).map(link).collect();
            writeln!(out, "deadlock: at {} {}", deadlock.at, cycle.join("; "))?;
        }
        let more = self.deadlocks.saturating_sub(self.notes.deadlocks.len() as u64);
        if more > 0 {
            writeln!(out, "deadlock: {more} more")?;
        }
        self.power.iter().try_for_each(|power| power.print(out))?;
        let Some(shares) = self.shares() else { return Ok(()) };
        let known = |value: fn(&Share) -> Option<i64>| shares.iter().any(|s| value(s).is_some());
        let (predicted, changed) = (known(|s| s.predicted), !workload.scenario.changes.is_empty());
        let head = ["task", "declared", "importance"].map(String::from);
        let prediction = if changed { "predicted at the start" } else { "predicted" };
        let mut rows = vec![[&head[..], &[prediction.into(), "received".into()]].concat()];
        let text = |share: Option<i64>| share.map_or("-".to_string(), percent);
        for ((info, task), share) in workload.tasks.iter().zip(&self.system().tasks).zip(&shares) {
            let first = [info.name.clone(), text(share.declared), task.importance.to_string()];
            rows.push([&first[..], &[text(share.predicted), percent(share.received)]].concat());
        }
        let all: i64 = shares.iter().map(|s| s.received).sum();
        rows.push(["all".into(), "".into(), "".into(), "".into(), percent(all)].to_vec());
        if !predicted {
            rows.iter_mut().for_each(|row| drop(row.remove(3)));
        }
        writeln!(out, "\nparts of a CPU:")?;
        table(out, &rows)
    }

    fn costs_line(&self, report: &Report) -> String {
        let costs = words(costs(&self.workload.scenario.costs).into_iter());
        if costs.is_empty() {
            return "costs: none".into();
        }
        let overhead: i64 = report.cpus.iter().map(|c| c.overhead.ns()).sum();
        let time = i128::from(self.duration.ns().max(1)) * report.cpus.len().max(1) as i128;
        let part = (i128::from(overhead) * 1_000_000 / time) as i64;
        let beside = if self.workload.scenario.metered { ", no consumption of jobs" } else { "" };
        format!("costs: {costs}{beside}; they took {} of the CPU time", percent(part))
    }
}

/// The costs by their names in the file.
fn costs(c: &Costs) -> [(&'static str, Span); 7] {
    [
        ("context_switch", c.context_switch),
        ("migration", c.migration),
        ("cache_reload", c.cache_reload),
        ("scheduler", c.scheduler),
        ("scheduler_task", c.scheduler_task),
        ("lock", c.lock),
        ("interrupt", c.interrupt),
    ]
}

/// A model of global scheduling by its name in the file.
fn deciding(deciding: Deciding) -> &'static str {
    match deciding {
        Deciding::StopTheWorld => "one",
        Deciding::Concurrent => "each",
    }
}

/// Names and spans that are not zero: `tick 1ms, timer_lateness 50us`.
fn words(of: impl Iterator<Item = (&'static str, Span)>) -> String {
    let said: Vec<String> = of.filter(|(_, s)| *s != Span::ZERO).map(|(name, span)| format!("{name} {span}")).collect();
    said.join(", ")
}

/// The task's utilisation in millionths, by what it declares.
fn load(task: &Task) -> Option<i64> {
    let (runtime, period) = (task.runtime?, task.arrival.period()?);
    Some((i128::from(runtime.ns()) * 1_000_000 / i128::from(period.ns())) as i64)
}

/// The policy's own prediction of the share of each task, in millionths of a CPU.
fn predicted(system: &System) -> Option<Vec<i64>> {
    let report = takt_analysis::control::report(system)?;
    let mut shares = vec![0; system.tasks.len()];
    let tasks = report.cpus.iter().flat_map(|cpu| &cpu.tasks);
    tasks.for_each(|p| shares[p.task.index()] = i64::from(p.expected));
    Some(shares)
}
