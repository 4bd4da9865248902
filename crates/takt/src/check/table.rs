//! The check of a window table.

use super::words::{CheckText, answer, in_scenario, left_out, little_idle, named, several};
use crate::aborts::{self, Abort};
use crate::report::{Cell, table};
use serde::Serialize;
use std::io::{self, Write};
use takt_analysis::online::{Answer, Kind, Verdict};
use takt_analysis::table::{Shortage, TableReport};
use takt_analysis::{supply, table as windows};
use takt_core::model::{Arrival, Completion, PartitionId, Task};
use takt_core::time::Span;
use takt_workload::{Dispatch, Workload};

/// The verdict about a window table.
#[derive(Clone, Debug, Serialize)]
pub struct TableCheck {
    /// Whether all budgets fit their windows, and all partitions with a policy their supply.
    #[serde(serialize_with = "answer")]
    pub schedulable: Answer,
    /// The test that gave the answer.
    pub test: &'static str,
    /// The processes whose jobs are cut off by their budgets.
    pub cut_off: Vec<CutOff>,
    /// The strength of the test.
    pub kind: String,
    /// The major frame.
    pub hyperperiod_ns: i64,
    /// The windows.
    pub windows: Vec<WindowLoad>,
    /// The partitions.
    pub partitions: Vec<PartitionLoad>,
    /// The CPUs.
    pub cpus: Vec<CpuLoad>,
    /// Whether each CPU has 10 % idle.
    pub idle_for_realtime: bool,
    /// The tasks whose jobs can be aborted.
    pub aborts: Vec<Abort>,
    #[serde(skip)]
    workload: Workload,
    #[serde(skip)]
    report: TableReport,
    /// All budgets fit their windows.
    #[serde(skip)]
    fits: bool,
    /// The keys that the budgets of processes with jobs leave out.
    #[serde(skip)]
    left_out: Vec<String>,
    /// Verdicts about the partitions that have a policy of their own.
    #[serde(skip)]
    verdicts: Vec<supply::Verdict>,
}

/// A process whose jobs are cut off by its budget.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CutOff {
    /// Its name.
    pub name: String,
    /// The longest runtime of a job.
    pub need_ns: i64,
    /// The budget.
    pub budget_ns: i64,
    /// Whether each job is cut off.
    pub always: bool,
}

/// The load of a window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WindowLoad {
    /// Its length.
    pub length_ns: i64,
    /// Whether the budgets of each slice fit.
    pub fits: bool,
    /// Its slices.
    pub slices: Vec<SliceLoad>,
}

/// The load of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SliceLoad {
    /// Its CPUs, as in `0-3`.
    pub cpus: String,
    /// The safety-critical load.
    pub sc_load_ns: i64,
    /// Whether it fits.
    pub fits: bool,
}

/// The supply of a partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PartitionLoad {
    /// Its name.
    pub name: String,
    /// Whether no window names it.
    pub never_scheduled: bool,
    /// CPU time per major frame.
    pub cpu_time_ns: i64,
    /// The longest time between two of its windows.
    pub longest_gap_ns: Option<i64>,
    /// Whether it is best-effort somewhere.
    pub best_effort: bool,
    /// The verdict about its own policy.
    #[serde(flatten)]
    pub verdict: Option<PartitionVerdict>,
}

/// The verdict about a partition with a policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PartitionVerdict {
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

/// The load of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CpuLoad {
    /// Its number.
    pub cpu: usize,
    /// Busy time per major frame if every budget is used.
    pub busy_ns: i64,
    /// Idle share of the frame in thousandths.
    pub idle_per_mille: u32,
}

impl TableCheck {
    pub(super) fn of(workload: &Workload) -> TableCheck {
        let report = windows::report(&workload.system);
        let verdicts = supply::verdicts(&workload.system);
        let mut check = TableCheck {
            schedulable: Answer::Unknown,
            test: "",
            cut_off: Vec::new(),
            kind: String::new(),
            hyperperiod_ns: report.major_frame.ns(),
            windows: Vec::new(),
            partitions: Vec::new(),
            cpus: Vec::new(),
            idle_for_realtime: report.cpus_with_10_percent_idle,
            aborts: aborts::entries(workload),
            fits: report.windows.iter().all(|w| w.fits),
            left_out: if has_jobs(workload) { left_out(workload) } else { Vec::new() },
            verdicts: verdicts.into_iter().map(|v| in_surroundings(v, workload)).collect(),
            workload: workload.clone(),
            report,
        };
        check.fill();
        check
    }

    /// The fields that follow from the report.
    fn fill(&mut self) {
        let slice =
            |s: &windows::SliceReport| SliceLoad { cpus: s.cpus.to_string(), sc_load_ns: s.load.0.ns(), fits: s.fits };
        let window = |w: &windows::WindowReport| WindowLoad {
            length_ns: w.length.ns(),
            fits: w.fits,
            slices: w.slices.iter().map(slice).collect(),
        };
        let verdict = |v: &supply::Verdict| PartitionVerdict {
            schedulable: v.schedulable,
            test: v.test,
            kind: v.kind.to_string(),
            reason: v.reason.clone(),
        };
        let partition = |p: &windows::PartitionReport| PartitionLoad {
            name: self.name(p.partition).to_owned(),
            never_scheduled: p.never_scheduled,
            cpu_time_ns: p.cpu_time.ns(),
            longest_gap_ns: p.gap_max.map(Span::ns),
            best_effort: p.best_effort,
            verdict: self.verdicts.iter().find(|v| v.partition == p.partition).map(verdict),
        };
        let cpu =
            |c: &windows::CpuReport| CpuLoad { cpu: c.cpu, busy_ns: c.busy.ns(), idle_per_mille: c.idle_per_mille };
        let short = |s: &Shortage| CutOff {
            name: self.workload.tasks[s.task.index()].name.clone(),
            need_ns: s.need.ns(),
            budget_ns: s.budget.ns(),
            always: s.always,
        };
        let (test, kind) = match (self.short().next(), self.worst()) {
            _ if !self.fits => ("budgets fit their windows", Kind::Exact),
            (Some(_), _) => ("jobs fit their budgets", Kind::Necessary),
            (None, Some(v)) => (v.test, v.kind),
            (None, None) if self.verdicts.is_empty() => {
                ("budgets fit their windows", if self.left_out.is_empty() { Kind::Exact } else { Kind::Sufficient })
            }
            (None, None) => ("budgets and supply", kind_of(&self.verdicts)),
        };
        let cut_off = self.short().map(short).collect();
        let windows = self.report.windows.iter().map(window).collect();
        let partitions = self.report.partitions.iter().map(partition).collect();
        let cpus = self.report.cpus.iter().map(cpu).collect();
        self.schedulable = self.answer();
        (self.test, self.kind) = (test, kind.to_string());
        (self.cut_off, self.windows, self.partitions, self.cpus) = (cut_off, windows, partitions, cpus);
    }

    fn name(&self, partition: PartitionId) -> &str {
        &self.workload.partitions[partition.index()]
    }

    /// The partition that keeps the table from being schedulable, or from being known to be.
    fn worst(&self) -> Option<&supply::Verdict> {
        let worst = |wanted: Answer| self.verdicts.iter().find(|v| v.schedulable == wanted);
        worst(Answer::No).or_else(|| worst(Answer::Unknown))
    }

    /// The processes whose jobs are cut off by their budgets, those first whose jobs all are.
    fn short(&self) -> impl Iterator<Item = &Shortage> {
        let short = |always: bool| self.report.short.iter().filter(move |s| s.always == always);
        short(true).chain(short(false))
    }

    /// The answer about the whole table.
    fn answer(&self) -> Answer {
        let worst = self.worst().map_or(Answer::Yes, |v| v.schedulable);
        match self.short().next() {
            _ if !self.fits || worst == Answer::No => Answer::No,
            Some(short) if short.always => Answer::No,
            Some(_) => Answer::Unknown,
            None if worst == Answer::Yes && !self.left_out.is_empty() => Answer::Unknown,
            None => worst,
        }
    }

    pub(super) fn print(&self, with: &CheckText, out: &mut impl Write) -> io::Result<()> {
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
        with.more.iter().try_for_each(|line| writeln!(out, "{line}"))?;
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
                Dispatch::Priority | Dispatch::Rank => {
                    writeln!(out, "{}", little_idle(&self.workload, "some CPU has"))?
                }
            }
        }
        for v in &self.verdicts {
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
        aborts::print(&self.workload, out)?;
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
                let no = v.schedulable == Answer::No;
                let not = if no { "not schedulable" } else { "not known to be schedulable" };
                format!("{not}: partition {}, see above", self.name(v.partition))
            }
            None if !self.left_out.is_empty() => {
                let left_out = self.left_out.join(", ");
                format!("not known to be schedulable: the SC budgets fit their windows, but that leaves out {left_out}")
            }
            None if self.verdicts.is_empty() => "schedulable: the SC budgets fit their windows (exact)".into(),
            None => {
                let kind = kind_of(&self.verdicts);
                format!(
                    "schedulable: the SC budgets fit their windows, and the partitions with a policy their supply ({kind})"
                )
            }
        }
    }
}

fn percent(part: Span, whole: Span) -> String {
    let per_mille = i128::from(part.ns()) * 1000 / i128::from(whole.ns().max(1));
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

/// Whether a process of the table has jobs in a simulation, which a budget can cut off.
fn has_jobs(workload: &Workload) -> bool {
    let mut simulated = workload.clone();
    simulated.settle_simulation(None);
    let has = |task: &Task| task.arrival == Arrival::Activated && task.completion != Completion::None;
    simulated.system.tasks.iter().any(has)
}

/// The joint proof of verdicts that all say yes.
fn kind_of(guests: &[supply::Verdict]) -> Kind {
    let exact = guests.iter().all(|v| v.kind == Kind::Exact);
    if exact { Kind::Exact } else { Kind::Sufficient }
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
