//! `takt check`: is this file good, and is the schedule?

mod power;

use super::aborts;
use crate::failure::Failure;
use crate::input::{Input, priorities_note, warn};
use crate::outcome::Outcome;
use crate::processes;
use crate::progress::Progress;
use crate::report::assignment::{self, Piece, Placed};
use crate::report::percent as millionths;
use crate::report::{Cell, lateness, number, table};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use takt_analysis::control::{self, ControlReport, CpuPlan, Loops, Pole};
use takt_analysis::online::Verdict;
use takt_analysis::placement::{self, Home};
use takt_analysis::table::{Shortage, TableReport};
use takt_analysis::{online, supply, table as windows, tardiness};
use takt_core::input::Input as Change;
use takt_core::model::{Domain, PartitionId, Task};
use takt_core::time::Span;
use takt_core::utility::Utility;
use takt_workload::{Dispatch, Driver, Severity, TaskInfo, Workload};

/// Validate a workload and say whether it is schedulable, and by which test
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Print the file in its canonical form instead
    #[arg(long)]
    canonical: bool,
    /// Print the CPU of each task even if the policy splits no task; JSON always has it
    #[arg(long, conflicts_with_all = ["canonical", "json"])]
    assignment: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "canonical")]
    json: bool,
    /// Report the power management of an imitated machine, whose files are below this directory
    #[arg(long, value_name = "DIR", hide = true)]
    sysfs_root: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let workload = args.input.load(None)?;
    let mut out = io::stdout().lock();
    if args.canonical {
        write!(out, "{}", takt_workload::canonical(&workload))?;
        return Ok(crate::outcome::Verdict::Done);
    }
    // The engine has the last word on whether the policy can work on this system at all.
    let mut handed = workload.clone();
    handed.hand_over();
    crate::input::engine(handed.system).map_err(|e| super::sim::unsuitable(&workload, &e))?;
    not_carried_out(&workload);
    warn(&workload.source, &workload.unbounded_events());
    processes_here(&workload)?;
    let power = power::Plan::of(&workload, args.sysfs_root.as_deref());
    if workload.system.windows.is_empty() {
        let class = |task: &TaskInfo| task.class.map(|class| format!("{} ({class})", task.name));
        let of_kernel: Vec<String> = workload.tasks.iter().filter_map(class).collect();
        check_online(&workload.without_classes(), &of_kernel, power.as_ref(), args, &mut out)
    } else {
        if args.assignment {
            writeln!(out, "note: under a window table the windows say which partition has which CPU")?;
        }
        check_table(&workload, power.as_ref(), args.json, &mut out)
    }
}

/// A setting that this machine does not have is an error; one that this user may not use is a warning.
fn processes_here(workload: &Workload) -> Result<(), Failure> {
    let (rights, faults): (Vec<_>, Vec<_>) =
        processes::faults(workload).into_iter().partition(processes::Fault::is_missing_right);
    // Another user may run the workload than the one that checks it.
    let mut rights: Vec<_> = rights.iter().map(|fault| fault.diagnostic(workload)).collect();
    rights.iter_mut().for_each(|right| right.severity = Severity::Warning);
    warn(&workload.source, &rights);
    let faults: Vec<_> = faults.iter().map(|fault| fault.diagnostic(workload)).collect();
    if faults.is_empty() { Ok(()) } else { Err(Failure::diagnostics(&workload.source, &faults)) }
}

/// Warns of the keys that `takt run` or `takt sim` does not carry out.
fn not_carried_out(workload: &Workload) {
    let real = workload.tasks.iter().any(|task| task.is_program());
    let mut found = if real { workload.ignored_by(Driver::Run) } else { Vec::new() };
    for simulated in workload.ignored_by(Driver::Simulation) {
        if found.iter().all(|other| other.span != simulated.span) {
            found.push(simulated);
        }
    }
    found.iter_mut().for_each(|finding| finding.severity = Severity::Warning);
    warn(&workload.source, &found);
}

/// `of_kernel` are the tasks of the kernel's classes, which the workload does not have any more.
fn check_online(
    workload: &Workload,
    of_kernel: &[String],
    power: Option<&power::Plan>,
    args: &Args,
    out: &mut impl Write,
) -> Outcome {
    let progress = Progress::busy("checking");
    let judged = |verdict| beside(in_scenario(named(verdict, workload), workload), of_kernel);
    let verdict = judged(online::verdict(&workload.system));
    let report = control::report(&workload.system);
    let parts: Vec<Verdict> = online::of_domains(&workload.system).into_iter().map(judged).collect();
    let no = verdict.schedulable == online::Answer::No;
    let homes = placement::placement(&workload.system);
    let refused: Vec<Home> = homes.iter().filter(|home| !home.fits).cloned().collect();
    let placed = placed(workload, &homes);
    let late = tardiness::bound(&workload.system).filter(|_| left_out(workload).is_empty());
    progress.finish();
    if args.json {
        let valued = workload.system.tasks.iter().any(|t| t.utility.is_some());
        let tasks = workload.tasks.iter().zip(&workload.system.tasks).zip(&verdict.responses);
        let bounds = tasks.map(|((info, task), response)| {
            let mut object = json!({"name": info.name, "response_bound_ns": response.map(Span::ns)});
            if valued {
                object["utility"] = worth(task);
            }
            if let Some(runtime) = takt_workload::runtime_of_steps(task) {
                object["runtime_of_steps_ns"] = runtime.ns().into();
            }
            object
        });
        let object = json!({
            "schedulable": answer(verdict.schedulable), "test": verdict.test, "kind": verdict.kind.to_string(), "reason": verdict.reason,
            "utilisation_per_mille": verdict.utilisation.per_mille(),
            "hyperperiod_ns": verdict.hyperperiod.map(Span::ns), "tasks": bounds.collect::<Vec<_>>(),
        });
        let mut object = object;
        if !of_kernel.is_empty() {
            object["of_kernel"] = of_kernel.into();
        }
        if let Some(report) = &report {
            object["control"] = control_json(workload, report);
        }
        if !placed.is_empty() {
            object["assignment"] = assignment::json(&placed);
        }
        if !refused.is_empty() {
            object["not_accepted"] = assignment::refused_json(&refused, workload);
        }
        if let Some(late) = late {
            object["gedf_tardiness_ns"] = json!(late.iter().map(|late| late.ns()).max());
            object["gedf_tardiness_of_tasks_ns"] = late.iter().map(|late| late.ns()).collect();
        }
        if let Some(assigned) = workload.settings.priorities {
            object["priorities"] = json!({"rule": assigned.rule, "fallback": assigned.fallback});
        }
        if !parts.is_empty() {
            let named = workload.domains.iter().zip(&workload.system.domains).zip(&parts);
            let part = |((name, domain), v): ((&String, &Domain), &Verdict)| {
                json!({"name": name, "cpus": domain.cpus.to_string(), "band": workload.system.band(domain),
                       "policy": domain.policy.profile.name,
                       "scope": domain.policy.scope.name(), "schedulable": answer(v.schedulable),
                       "test": v.test, "kind": v.kind.to_string(), "reason": v.reason})
            };
            object["domains"] = named.map(part).collect();
        }
        object["aborts"] = aborts::json(workload);
        if let Some(power) = power {
            object["power"] = power.json();
        }
        writeln!(out, "{object}")?;
    } else {
        let system = &workload.system;
        let policy = takt_workload::policy_text(&system.policy);
        let tasks = several(system.tasks.len(), "task", "tasks");
        writeln!(out, "{}: {tasks}, policy {policy}, CPU {}", workload.source.name, system.cpus)?;
        crate::modules::hashes(system).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        power.map_or(Vec::new(), power::Plan::lines).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if !of_kernel.is_empty() {
            writeln!(out, "note: the kernel schedules {}; this check leaves them out", of_kernel.join(", "))?;
        }
        if let Some(taken) = of_steps(workload) {
            writeln!(out, "{taken}")?;
        }
        if let Some(assigned) = workload.settings.priorities {
            writeln!(out, "note: {}", priorities_note(assigned))?;
        }
        for ((name, domain), part) in workload.domains.iter().zip(&system.domains).zip(&parts) {
            let policy = takt_workload::policy_text(&domain.policy);
            let tasks = several(domain.tasks.len(), "task", "tasks");
            let band = system.band(domain).map_or(String::new(), |band| format!(", band {band}"));
            writeln!(out, "domain {name}: {tasks}, policy {policy}, CPU {}{band}: {part}", domain.cpus)?;
        }
        writeln!(out, "{verdict}")?;
        if let Some(late) = late.filter(|_| verdict.schedulable != online::Answer::Yes) {
            let names: Vec<String> = workload.tasks.iter().map(|task| task.name.clone()).collect();
            writeln!(out, "note: {} (Devi, Anderson 2008)", lateness(&names, &late))?;
        }
        assignment::warn(&refused, workload, out)?;
        aborts::print(workload, out)?;
        if args.assignment && placed.is_empty() {
            writeln!(out, "note: this policy gives no task a CPU of its own")?;
        }
        if !placed.is_empty() && (args.assignment || assignment::splits(&placed)) {
            writeln!(out)?;
            assignment::print(&placed, out)?;
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
        if let Some(report) = &report {
            print_control(workload, report, out)?;
        }
    }
    Ok(if no { crate::outcome::Verdict::No } else { crate::outcome::Verdict::Done })
}

/// Where the policy has the tasks, for those that give each a CPU.
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

/// The note about processes on a CPU with little idle time.
fn little_idle(workload: &Workload, has: &str) -> String {
    match workload.settings.dispatch {
        Dispatch::Freeze => {
            format!(
                "note: processes get no real-time class by default (`realtime:`), and their blocks are not observed, because {has} less than 10 % idle"
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
pub(super) fn not_realtime(workload: &Workload) -> Option<String> {
    let mut real = workload.clone();
    real.clear_simulated();
    let obstacle = takt_analysis::idle::obstacle(&real.system)?;
    let task = obstacle.task.and_then(|task| workload.tasks.get(task.index()));
    Some(task.map_or(String::new(), |task| format!("task `{}`: ", task.name)) + &obstacle.reason)
}

fn answer(answer: online::Answer) -> Value {
    match answer {
        online::Answer::Yes => json!(true),
        online::Answer::No => json!(false),
        online::Answer::Unknown => json!("unknown"),
    }
}

/// The most that a job of the task can accrue.
fn worth(task: &Task) -> Value {
    number(u128::from(task.utility.as_ref().unwrap_or(&Utility::DEFAULT).height()))
}

/// The analysis knows tasks and domains by number, people by name.
fn named(mut verdict: Verdict, workload: &Workload) -> Verdict {
    verdict.reason = workload.named(&verdict.reason);
    let domain = verdict.reason.strip_prefix("in the domain at index ").and_then(|rest| rest.split_once(": "));
    if let Some((number, rest)) = domain
        && let Some(name) = number.parse::<usize>().ok().and_then(|n| workload.domains.get(n))
    {
        verdict.reason = format!("in domain `{name}`, {rest}");
    }
    verdict
}

/// The tests know nothing of what a machine costs and how late its clock is, nor of what happens to it: a yes that counts on none
/// of that is inconclusive then, and where the system itself changes, nor does a no.
fn in_scenario(verdict: Verdict, workload: &Workload) -> Verdict {
    let changes = &workload.scenario.changes;
    // Without deadlines only what sets one, or sends a task away from its waiting jobs, can make a miss.
    let harms = |h: &Change| matches!(h, Change::Leave { .. } | Change::Retime { deadline: Some(_), .. });
    match verdict.schedulable {
        online::Answer::Unknown => return verdict,
        _ if verdict.test == "no-deadlines" && !changes.iter().any(|(_, h)| harms(h)) => return verdict,
        online::Answer::No if changes.is_empty() => return verdict,
        _ => {}
    }
    let why = match left_out(workload).as_slice() {
        [] => return verdict,
        [key] => format!("but that leaves out {key}"),
        [keys @ .., last] => format!("but that leaves out {} and {last}", keys.join(", ")),
    };
    let reason = format!("{}, {why}", verdict.reason);
    let responses = vec![None; verdict.responses.len()];
    Verdict { schedulable: online::Answer::Unknown, kind: verdict.kind.weakened(), reason, responses, ..verdict }
}

/// Tasks that the kernel schedules can delay the others on the same CPUs, by an unknown time.
fn beside(verdict: Verdict, of_kernel: &[String]) -> Verdict {
    if of_kernel.is_empty() || verdict.schedulable != online::Answer::Yes {
        return verdict;
    }
    let reason = format!("{}, but that leaves out the tasks of the kernel's classes", verdict.reason);
    let responses = vec![None; verdict.responses.len()];
    Verdict { schedulable: online::Answer::Unknown, kind: verdict.kind.weakened(), reason, responses, ..verdict }
}

/// The keys of the scenario that the tests do not know of.
fn left_out(workload: &Workload) -> Vec<String> {
    // Keys of tasks and the load are known to the tests, and who decides changes nothing but costs.
    let known = |key: &str| ["load", "deciding"].contains(&key);
    let keys = workload.simulated_only().into_iter().filter(|(key, tasks)| tasks.is_empty() && !known(key));
    keys.map(|(key, _)| format!("`{key}`")).collect()
}

/// The behaviour of a regulator: its loops and the resulting shares.
fn print_control(workload: &Workload, report: &ControlReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{report}")?;
    for cpu in &report.cpus {
        let declared = millionths(cpu.declared as i64);
        let load = if cpu.overloaded { ", overloaded: importance counts" } else { "" };
        writeln!(out, "\nCPU {}: rounds of {}, declared {declared}{load}", cpu.cpu, cpu.round)?;
        let mut rows = vec![["task", "declared", "part of a round", "predicted of the CPU"].map(String::from).to_vec()];
        for p in &cpu.tasks {
            let declared = p.declared.map_or("-".into(), |d| millionths(d.into()));
            let name = workload.tasks[p.task.index()].name.clone();
            rows.push(vec![name, declared, millionths(p.alpha.into()), millionths(p.expected.into())]);
        }
        table(out, &rows)?;
    }
    Ok(())
}

fn control_json(workload: &Workload, report: &ControlReport) -> Value {
    let poles = |poles: &[Pole]| poles.iter().map(|p| json!({"re": p.re, "im": p.im})).collect::<Vec<_>>();
    let timing = |loops: &Loops| {
        json!({"stable": loops.stable, "round_poles": poles(&loops.outer), "burst_poles": poles(&loops.inner),
               "settling_rounds": loops.settling})
    };
    let cpu = |cpu: &CpuPlan| {
        let tasks = cpu.tasks.iter().map(|p| {
            json!({"name": workload.tasks[p.task.index()].name, "declared_millionths": p.declared,
                   "alpha_millionths": p.alpha, "predicted_millionths": p.expected})
        });
        json!({"cpu": cpu.cpu, "round_ns": cpu.round.ns(), "declared_millionths": cpu.declared,
               "overloaded": cpu.overloaded, "tasks": tasks.collect::<Vec<_>>()})
    };
    let gains = report.gains;
    json!({
        "stable": report.stable(), "feedback": report.feedback,
        "gains_millionths": {"kpi": gains.kpi, "krr": gains.krr, "zrr": gains.zrr},
        "as_it_runs": timing(&report.loops[0]), "as_modelled": timing(&report.loops[1]),
        "cpus": report.cpus.iter().map(cpu).collect::<Vec<_>>(),
    })
}

fn percent(part: Span, whole: Span) -> String {
    let per_mille = i128::from(part.ns()) * 1000 / i128::from(whole.ns().max(1));
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

fn several(n: usize, thing: &str, things: &str) -> String {
    format!("{n} {}", if n == 1 { thing } else { things })
}

/// A window table with what is said of it.
struct Tables<'a> {
    workload: &'a Workload,
    report: TableReport,
    /// All budgets fit their windows.
    fits: bool,
    /// Verdicts about the partitions that have a policy of their own.
    guests: Vec<supply::Verdict>,
}

fn check_table(workload: &Workload, power: Option<&power::Plan>, as_json: bool, out: &mut impl Write) -> Outcome {
    let system = &workload.system;
    let report = windows::report(system);
    let fits = report.windows.iter().all(|w| w.fits);
    let guests = supply::verdicts(system).into_iter().map(|v| in_surroundings(v, workload)).collect();
    let tables = Tables { workload, report, fits, guests };
    let no = tables.answer() == online::Answer::No;
    if as_json {
        let mut object = tables.json();
        if let Some(power) = power {
            object["power"] = power.json();
        }
        writeln!(out, "{object}")?;
    } else {
        tables.print(power.map_or(Vec::new(), power::Plan::lines), out)?;
    }
    Ok(if no { crate::outcome::Verdict::No } else { crate::outcome::Verdict::Done })
}

impl Tables<'_> {
    fn name(&self, partition: PartitionId) -> &str {
        &self.workload.partitions[partition.index()]
    }

    /// The partition that keeps the table from being schedulable, or from being known to be.
    fn worst(&self) -> Option<&supply::Verdict> {
        let worst = |wanted: online::Answer| self.guests.iter().find(|v| v.schedulable == wanted);
        worst(online::Answer::No).or_else(|| worst(online::Answer::Unknown))
    }

    /// The processes whose jobs are cut off by their budgets, those first whose jobs all are.
    fn short(&self) -> impl Iterator<Item = &Shortage> {
        let short = |always: bool| self.report.short.iter().filter(move |s| s.always == always);
        short(true).chain(short(false))
    }

    /// The answer about the whole table.
    fn answer(&self) -> online::Answer {
        let worst = self.worst().map_or(online::Answer::Yes, |v| v.schedulable);
        match self.short().next() {
            _ if !self.fits || worst == online::Answer::No => online::Answer::No,
            Some(short) if short.always => online::Answer::No,
            Some(_) => online::Answer::Unknown,
            None => worst,
        }
    }

    fn json(&self) -> Value {
        let windows = self.report.windows.iter().map(|w| {
            let slices = w
                .slices
                .iter()
                .map(|s| json!({"cpus": s.cpus.to_string(), "sc_load_ns": s.load.0.ns(), "fits": s.fits}));
            json!({"length_ns": w.length.ns(), "fits": w.fits, "slices": slices.collect::<Vec<_>>()})
        });
        let partitions = self.report.partitions.iter().map(|p| {
            let mut object = json!({"name": self.name(p.partition), "never_scheduled": p.never_scheduled,
                   "cpu_time_ns": p.cpu_time.ns(), "longest_gap_ns": p.gap_max.map(Span::ns), "best_effort": p.best_effort});
            if let Some(v) = self.guests.iter().find(|v| v.partition == p.partition) {
                object["schedulable"] = answer(v.schedulable);
                object["test"] = v.test.into();
                object["kind"] = v.kind.to_string().into();
                object["reason"] = v.reason.clone().into();
            }
            object
        });
        let cpus = self.report.cpus.iter();
        let cpus = cpus.map(|c| json!({"cpu": c.cpu, "busy_ns": c.busy.ns(), "idle_per_mille": c.idle_per_mille}));
        let (test, kind) = match (self.short().next(), self.worst()) {
            _ if !self.fits => ("budgets fit their windows", online::Kind::Exact),
            (Some(_), _) => ("jobs fit their budgets", online::Kind::Necessary),
            (None, Some(v)) => (v.test, v.kind),
            (None, None) if self.guests.is_empty() => ("budgets fit their windows", online::Kind::Exact),
            (None, None) => ("budgets and supply", kind_of(&self.guests)),
        };
        let short = |s: &Shortage| {
            json!({"name": self.workload.tasks[s.task.index()].name, "need_ns": s.need.ns(), "budget_ns": s.budget.ns(),
                   "always": s.always})
        };
        json!({
            "schedulable": answer(self.answer()), "test": test, "cut_off": self.short().map(short).collect::<Vec<_>>(), "kind": kind.to_string(),
            "hyperperiod_ns": self.report.major_frame.ns(), "windows": windows.collect::<Vec<_>>(),
            "partitions": partitions.collect::<Vec<_>>(), "cpus": cpus.collect::<Vec<_>>(),
            "idle_for_realtime": self.report.cpus_with_10_percent_idle,
            "aborts": aborts::json(self.workload),
        })
    }

    /// With these lines after the first one.
    fn print(&self, more: Vec<String>, out: &mut impl Write) -> io::Result<()> {
        let (system, report) = (&self.workload.system, &self.report);
        writeln!(
            out,
            "{}: {}, {}, {}, hyperperiod (major frame) {}",
            self.workload.source.name,
            several(system.partitions.len(), "partition", "partitions"),
            several(system.tasks.len(), "process", "processes"),
            several(report.windows.len(), "window", "windows"),
            report.major_frame
        )?;
        more.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out)?;
        table(out, &self.window_rows())?;
        writeln!(out)?;
        table(out, &self.partition_rows())?;
        writeln!(out)?;
        for c in &report.cpus {
            let idle = c.idle_per_mille;
            writeln!(out, "CPU {}: idle {}.{} % if every budget is used", c.cpu, idle / 10, idle % 10)?;
        }
        for p in report.partitions.iter().filter(|p| p.never_scheduled) {
            writeln!(out, "warning: partition {} is never scheduled", self.name(p.partition))?;
        }
        if !report.cpus_with_10_percent_idle {
            let text =
                "note: some CPU has less than 10 % idle, so processes get no real-time class by default (`realtime:`)";
            match self.workload.settings.dispatch {
                Dispatch::Freeze => writeln!(out, "{text}")?,
                Dispatch::Priority | Dispatch::Rank => writeln!(out, "{}", little_idle(self.workload, "some CPU has"))?,
            }
        }
        for v in &self.guests {
            writeln!(out, "partition {}: {v}", self.name(v.partition))?;
        }
        for Shortage { task, need, budget, always } in self.short() {
            let name = &self.workload.tasks[task.index()].name;
            let cut = if *always { "each is" } else { "some can be" };
            writeln!(
                out,
                "process {name}: jobs need up to {need} of a budget of {budget}, so {cut} cut off and missed"
            )?;
        }
        aborts::print(self.workload, out)?;
        writeln!(out, "{}", self.in_short())
    }

    fn window_rows(&self) -> Vec<Vec<Cell>> {
        let system = &self.workload.system;
        let head = ["window", "length", "CPU", "SC partition", "SC load", "of window"];
        let mut rows = vec![head.map(Cell::from).to_vec()];
        for (index, (window, described)) in self.report.windows.iter().zip(&system.windows).enumerate() {
            let first = || [index.to_string().into(), Cell::Exact(window.length)];
            if window.slices.is_empty() {
                rows.push([&first()[..], &["-", "idle", "-", "-"].map(Cell::from)].concat());
            }
            for (slice, d) in window.slices.iter().zip(&described.slices) {
                let guest = d.sc.is_some_and(|p| system.partitions[p.index()].policy.is_some());
                let (load, share) = match (d.sc, guest) {
                    (None, _) => ("-".into(), "-".into()),
                    (_, true) => ("online".into(), "-".into()),
                    _ => (Cell::Exact(slice.load.0), percent(slice.load.0, window.length).into()),
                };
                let sc = d.sc.map_or("-", |p| self.name(p));
                rows.push([&first()[..], &[slice.cpus.to_string().into(), sc.into(), load, share]].concat());
            }
        }
        rows
    }

    fn partition_rows(&self) -> Vec<Vec<Cell>> {
        let head = ["partition", "windows", "CPU time per frame", "longest time without"];
        let mut rows = vec![head.map(Cell::from).to_vec()];
        for p in &self.report.partitions {
            let gap = p.gap_max.map_or_else(|| "for ever".into(), Cell::Exact);
            let more = if p.best_effort && p.gap_max.is_some() { "or more (BE)" } else { "" };
            let (name, windows) = (self.name(p.partition).into(), p.windows.len().to_string().into());
            rows.push(vec![name, windows, Cell::Exact(p.cpu_time), gap, more.into()]);
        }
        rows
    }

    /// The last line: the verdict about the whole.
    fn in_short(&self) -> String {
        if !self.fits {
            return "not schedulable: SC budgets do not fit their window (exact)".into();
        }
        if let Some(short) = self.short().next() {
            let name = &self.workload.tasks[short.task.index()].name;
            return match short.always {
                true => format!("not schedulable: `{name}` is cut off in each job, see above"),
                false => format!("not known to be schedulable: `{name}` can be cut off, see above"),
            };
        }
        match self.worst() {
            Some(v) => {
                let no = v.schedulable == online::Answer::No;
                let not = if no { "not schedulable" } else { "not known to be schedulable" };
                format!("{not}: partition {}, see above", self.name(v.partition))
            }
            None if self.guests.is_empty() => "schedulable: the SC budgets fit their windows (exact)".into(),
            None => {
                let kind = kind_of(&self.guests);
                format!(
                    "schedulable: the SC budgets fit their windows, and the partitions with a policy their supply ({kind})"
                )
            }
        }
    }
}

/// The joint proof of verdicts that all say yes.
fn kind_of(guests: &[supply::Verdict]) -> online::Kind {
    let exact = guests.iter().all(|v| v.kind == online::Kind::Exact);
    if exact { online::Kind::Exact } else { online::Kind::Sufficient }
}

/// The verdict about a partition with the names of its tasks, and without what the machine's costs and changes take from it.
fn in_surroundings(verdict: supply::Verdict, workload: &Workload) -> supply::Verdict {
    let supply::Verdict { partition, schedulable, test, kind, reason } = verdict;
    let (utilisation, responses) = (Default::default(), Vec::new());
    let online =
        Verdict { schedulable, test, kind, reason, utilisation, hyperperiod: None, responses, idle_10_percent: false };
    let Verdict { schedulable, test, kind, reason, .. } = in_scenario(named(online, workload), workload);
    supply::Verdict { partition, schedulable, test, kind, reason }
}
