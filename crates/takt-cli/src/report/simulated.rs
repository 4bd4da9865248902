//! The parts of a summary that only a simulation has: costs of the machine, disturbances, shares of the CPUs.

use super::power::Power;
use super::tables::{percent, table};
use crate::header::header;
use serde_json::{Map, Value, json};
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
pub(crate) struct Notes {
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
    pub(crate) rounds: Option<Rounds>,
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
    pub(crate) fn new(workload: &Workload, rounds: bool) -> Notes {
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

    /// Takes notes of a further task, the next in number.
    pub(crate) fn add_task(&mut self) {
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
pub(crate) struct Simulated<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) duration: Span,
    /// `None` for a replay, in which time went where the recorded run let it.
    pub(crate) report: Option<&'a Report>,
    pub(crate) notes: &'a Notes,
    /// How many deadlocks there were.
    pub(crate) deadlocks: u64,
    /// Energy, temperatures, and counts of the power policy.
    pub(crate) power: Option<Power<'a>>,
}

/// One task's part of the CPU time, in millionths of a CPU.
struct Share {
    declared: Option<i64>,
    predicted: Option<i64>,
    received: i64,
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

    /// Keys for `--json`, of the whole and of each task by its index.
    pub(crate) fn json(&self) -> (Value, impl Fn(usize) -> Value) {
        let (scenario, timing) = (&self.workload.scenario, self.system().timing);
        let of_costs = |c: &Costs| costs(c).map(|(name, span)| (format!("{name}_ns"), json!(span.ns())));
        let mut object = json!({
            "costs": Map::from_iter(of_costs(&scenario.costs)),
            "timing": {"tick_ns": timing.tick.ns(), "resolution_ns": timing.resolution.ns(), "lateness_ns": timing.lateness.ns()},
            "steal": scenario.steal.map(|s| json!({"period_ns": s.period.ns(), "length_ns": s.length.ns()})),
            "changes": scenario.changes.len(),
            "deadlocks": self.deadlocks,
        });
        let told = |deadlock: &Deadlock| {
            let cycle: Vec<_> = self.cycle(deadlock).collect();
            let (task, resource, _) = cycle[0];
            let link = |(task, resource, owner)| json!({"task": task, "waits_for": resource, "held_by": owner});
            let cycle: Vec<Value> = cycle.iter().copied().map(link).collect();
            json!({"at_ns": deadlock.at.ns(), "task": task, "resource": resource, "circle": cycle})
        };
        object["first_deadlocks"] = self.notes.deadlocks.iter().map(told).collect();
        if let Some(report) = self.report {
            object["scheduler"] = json!({
                "deciding": deciding(scenario.deciding), "runs": report.scheduler_runs,
                "interrupts": report.interrupts, "blocked": report.blocked_entries,
            });
            object["charged"] = Value::Object(Map::from_iter(of_costs(&report.charged)));
            let cpu = |c: &takt_sim::CpuTime| json!({"worked_ns": c.worked.ns(), "overhead_ns": c.overhead.ns(), "stolen_ns": c.stolen.ns(), "idle_ns": c.idle.ns()});
            object["cpu_time"] = report.cpus.iter().map(cpu).collect();
        }
        if !self.notes.switches.is_empty() {
            let switch = |s: &Switch| match &s.domain {
                Some(domain) => json!({"at_ns": s.at.ns(), "domain": domain, "policy": s.to}),
                None => json!({"at_ns": s.at.ns(), "policy": s.to}),
            };
            object["switches"] = self.notes.switches.iter().map(switch).collect();
        }
        if let Some(power) = &self.power {
            object["power"] = power.json();
        }
        let shares = self.shares();
        let task = move |index: usize| {
            let mut task = json!({});
            if let (asked @ 1.., refused) = self.notes.calls[index] {
                (task["calls"], task["calls_refused"]) = (asked.into(), refused.into());
            }
            if let Some(time) = self.report.map(|r| &r.tasks[index]) {
                (task["received_ns"], task["worked_ns"]) = (time.received.ns().into(), time.worked.ns().into());
            }
            if let Some(uj) = self.power.as_ref().and_then(|power| power.of_task(index)) {
                task["energy_uj"] = uj.into();
            }
            if let Some(share) = shares.as_ref().map(|s| &s[index]) {
                task["share_millionths"] =
                    json!({"declared": share.declared, "predicted": share.predicted, "received": share.received});
            }
            task
        };
        (object, task)
    }

    /// The lines after the table of jobs.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
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
