//! Summaries of a simulation or a run: a table for people, an object for programs.

pub(crate) mod assignment;
pub(crate) mod power;
pub(crate) mod simulated;
pub(crate) mod tables;

use serde_json::{Map, Value, json};
use std::io::{self, Write};
pub(crate) use tables::{Cell, aligned, alike, percent, short, table, visible};
use takt_core::model::{Domain, Hosts, PolicySpec};
use takt_core::stats::{Counts, Histogram};
use takt_core::time::Span;
use takt_core::utility::UNIT;
use takt_workload::{Class, TaskInfo, Workload};

/// The key of the tasks' entries.
const TASKS: &str = "tasks";

/// The measurements of both drivers.
pub(crate) struct Summary<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) duration: Span,
    pub(crate) counts: &'a [Counts],
    pub(crate) responses: &'a [Histogram],
    pub(crate) context_switches: u64,
    pub(crate) windows_lost: u64,
    /// The report of a simulation: its processes do what the file says.
    pub(crate) simulated: bool,
}

impl Summary<'_> {
    pub(crate) fn totals(&self) -> Counts {
        self.counts.iter().copied().sum()
    }

    /// Whether `--strict` fails: a deadline was missed, or an activation was cut off before its job was done or its budget used.
    pub(crate) fn fails(&self) -> bool {
        let totals = self.totals();
        totals.missed > 0 || totals.cut_off > 0 || totals.overruns > 0
    }

    /// Whether some job is worth more or less than another.
    fn valued(&self) -> bool {
        self.workload.system.tasks.iter().any(|t| t.utility.is_some())
    }

    /// Writes the one JSON object of `--json`, with the driver's own keys added, for the whole and for each task by its index, and
    /// with the driver's notes and warnings ([`Summary::remarks`] are among them). The tasks are written one after the other and never held together.
    pub(crate) fn write_json(
        &self,
        more: Value,
        notes: &[String],
        of_task: impl Fn(usize) -> Value,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (object, valued) = (self.json(more, notes), self.valued());
        write!(out, "{{")?;
        for (n, (key, value)) in object.iter().enumerate() {
            write!(out, "{}{}:", if n > 0 { "," } else { "" }, Value::from(key.as_str()))?;
            if key != TASKS {
                write!(out, "{value}")?;
                continue;
            }
            for index in 0..self.workload.tasks.len() {
                let task = self.task_json(index, valued, of_task(index));
                write!(out, "{}{task}", if index == 0 { "[" } else { "," })?;
            }
            write!(out, "{}", if self.workload.tasks.is_empty() { "[]" } else { "]" })?;
        }
        writeln!(out, "}}")
    }

    /// A task's entry, with the driver's own keys.
    fn task_json(&self, index: usize, valued: bool, more: Value) -> Value {
        let (task, c) = (&self.workload.tasks[index], &self.counts[index]);
        // A process without completion signals has no jobs.
        let jobs = |count: u64| (!c.jobless).then_some(count);
        let mut entry = json!({
            "name": task.name, "partition": task.partition.map(|p| &self.workload.partitions[p]),
            "released": jobs(c.released), "completed": jobs(c.completed), "met": jobs(c.met),
            "missed": jobs(c.missed), "aborted": jobs(c.aborted), "behind": jobs(c.behind), "handlers": jobs(c.handlers),
            "activations": c.activations, "cut_off": jobs(c.cut_off),
            "overruns": c.overruns, "late_signals": jobs(c.late_signals),
            "dispatches": c.dispatches, "preemptions": c.preemptions, "migrations": c.migrations,
            "response_ns": (self.responses[index].count() > 0).then(|| response(&self.responses[index])),
        });
        if let Some(class) = task.class.filter(|_| self.workload.handed.is_some()) {
            entry["class"] = class.to_string().into();
        }
        if self.workload.is_released_by_events(index) {
            entry["lost"] = c.lost.into();
        }
        if let (Some(entry), Value::Object(more)) = (entry.as_object_mut(), more) {
            entry.extend(more);
        }
        if valued {
            entry["utility"] = if c.jobless { Value::Null } else { utility(c) };
        }
        entry
    }

    /// The object without its tasks, which have an empty entry.
    fn json(&self, more: Value, notes: &[String]) -> Map<String, Value> {
        let (system, own, totals) = (&self.workload.system, self.workload.policy(), self.totals());
        // Where no task has jobs, nothing is said of jobs.
        let jobs = |count: u64| (!totals.jobless).then_some(count);
        let object = json!({
            "policy": own.profile.name, "scope": own.scope.name(), "cpus": self.workload.machine().len(),
            "duration_ns": self.duration.ns(), "seed": system.seed,
            "jobs": {"released": jobs(totals.released), "completed": jobs(totals.completed), "met": jobs(totals.met),
                     "missed": jobs(totals.missed), "aborted": jobs(totals.aborted)},
            "utility": (!totals.jobless).then(|| utility(&totals)),
            "dispatches": totals.dispatches, "preemptions": totals.preemptions, "migrations": totals.migrations,
            "context_switches": self.context_switches,
            "activations": totals.activations, "cut_off": jobs(totals.cut_off), "behind": jobs(totals.behind),
            "handlers": jobs(totals.handlers), "overruns": totals.overruns, "late_signals": jobs(totals.late_signals),
            "windows_lost": self.windows_lost, "notes": notes,
            TASKS: [],
        });
        let objects = [object, more].into_iter().filter_map(|value| match value {
            Value::Object(object) => Some(object),
            _ => None,
        });
        let mut object: Map<String, Value> = objects.flatten().collect();
        let domain = |(domain, name): (&Domain, &String)| {
            json!({"name": name, "cpus": domain.cpus.to_string(), "band": system.band(domain),
                   "policy": domain.policy.profile.name, "scope": domain.policy.scope.name()})
        };
        if let Some(assigned) = self.workload.settings.priorities {
            object.insert("priorities".into(), json!({"rule": assigned.rule, "fallback": assigned.fallback}));
        }
        if self.workload.own_domains().next().is_some() {
            object.insert("domains".into(), self.workload.own_domains().map(domain).collect());
        }
        let refused = assignment::refused(self.workload);
        if !refused.is_empty() {
            object.insert("not_accepted".into(), assignment::refused_json(&refused, self.workload));
        }
        let settings = settings(own);
        if !settings.is_empty() {
            let settings = settings.into_iter().map(|(name, value)| (name, Value::from(value)));
            object.insert("settings".into(), settings.collect());
        }
        object
    }

    /// The table and the lines under it.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let totals = self.totals();
        let (valued, tables, behind) = (self.valued(), totals.activations > 0, totals.behind > 0);
        // The columns: how they are called, whether they are wanted, and what of the counts they show. Columns that are not about jobs
        // also apply to processes without jobs.
        let number = |of: fn(&Counts) -> u64| move |c: &Counts| of(c).to_string();
        let worth = |c: &Counts| format!("{}/{}", decimal(c.utility), decimal(c.utility_total));
        type Column<'a> = (&'a str, bool, bool, Box<dyn Fn(&Counts) -> String>);
        let columns: [Column<'_>; 9] = [
            ("activations", tables, false, Box::new(number(|c| c.activations))),
            ("cut off", tables, true, Box::new(number(|c| c.cut_off))),
            ("released", true, true, Box::new(number(|c| c.released))),
            ("completed", true, true, Box::new(number(|c| c.completed))),
            ("met", true, true, Box::new(number(|c| c.met))),
            ("missed", true, true, Box::new(number(|c| c.missed))),
            ("aborted", true, true, Box::new(number(|c| c.aborted))),
            ("behind", behind, true, Box::new(number(|c| c.behind))),
            ("utility", valued, true, Box::new(worth)),
        ];
        let columns: Vec<&Column<'_>> = columns.iter().filter(|(_, wanted, ..)| *wanted).collect();
        let classes = self.workload.handed.is_some();
        let head =
            std::iter::once("task").chain(classes.then_some("class")).chain(columns.iter().map(|(name, ..)| *name));
        let mut rows = vec![head.chain(["min", "mean", "p99", "max"]).map(Cell::from).collect::<Vec<_>>()];
        let row = |name: &str, class: Option<Class>, c: &Counts, h: Option<&Histogram>| {
            let text = |(_, _, jobs, text): &&Column<'_>| if *jobs && c.jobless { "-".into() } else { text(c) };
            let counts = columns.iter().map(|column| Cell::from(text(column)));
            let times = match h.filter(|h| h.count() > 0) {
                Some(h) => [h.min(), h.mean(), h.quantile(990), h.max()].map(Cell::Measured),
                None => ["-"; 4].map(Cell::from),
            };
            let class = class.map_or_else(|| "-".to_owned(), |class| class.to_string());
            let class = classes.then(|| Cell::from(class));
            std::iter::once(Cell::from(name)).chain(class).chain(counts).chain(times).collect::<Vec<_>>()
        };
        for ((task, c), h) in self.workload.tasks.iter().zip(self.counts).zip(self.responses) {
            rows.push(row(&task.name, task.class, c, Some(h)));
        }
        if self.counts.len() > 1 {
            rows.push(row("all", None, &totals, None));
        }
        table(out, &rows)?;
        writeln!(
            out,
            "response times from release to completion; dispatches {}, preemptions {}, migrations {}, context switches {}",
            totals.dispatches, totals.preemptions, totals.migrations, self.context_switches
        )?;
        if valued {
            let (accrued, most) = (totals.utility, totals.utility_total);
            let (met, released) = (u128::from(totals.met), u128::from(totals.released));
            let (aur, dsr) = (ratio(accrued, most), ratio(met, released));
            let (accrued, most) = (decimal(accrued), decimal(most));
            writeln!(
                out,
                "utility: accrued {accrued} of {most} (AUR {aur}); deadlines met {met} of {released} (DSR {dsr})"
            )?;
        }
        for (domain, name) in self.workload.own_domains() {
            let band = self.workload.system.band(domain).map_or(String::new(), |band| format!("band {band}, "));
            writeln!(out, "domain {name}: CPU {}, {band}{}", domain.cpus, policy(&domain.policy))?;
        }
        assignment::warn(&assignment::refused(self.workload), self.workload, out)?;
        self.remarks().iter().try_for_each(|remark| writeln!(out, "{}", visible(remark)))
    }

    /// Notes and warnings about the counts, each a line.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let of_kernel = |task: &TaskInfo| task.class.map(|class| format!("{} ({class})", task.name));
        let of_kernel: Vec<String> = self.workload.tasks.iter().filter_map(of_kernel).collect();
        if self.workload.handed.is_some() {
            remarks.push(format!(
                "note: the kernel scheduled {}; Takt released their jobs, and a dispatch of theirs is a release",
                of_kernel.join(", ")
            ));
        }
        for (task, c) in self.workload.tasks.iter().zip(self.counts) {
            let name = &task.name;
            if c.overruns > 0 {
                remarks.push(format!("warning: {name} overran its window {}", times(c.overruns)));
            }
            if c.cut_off > c.overruns {
                let n = c.cut_off - c.overruns;
                remarks
                    .push(format!("warning: {name} exhausted its budget {} before it signalled completion", times(n)));
            }
            if c.behind > 0 {
                let jobs = if c.behind == 1 { "1 job".to_owned() } else { format!("{} jobs", c.behind) };
                remarks.push(format!("note: {jobs} of {name} began with the work of an aborted job"));
            }
            if c.handlers > 0 {
                let handlers =
                    if c.handlers == 1 { "1 handler".to_owned() } else { format!("{} handlers", c.handlers) };
                remarks.push(format!("note: {handlers} of {name} began"));
            }
            if c.lost > 0 {
                remarks.push(format!("note: {} of {name} released no job, as its `queue` was full", events(c.lost)));
            }
            if c.late_signals > 0 {
                remarks.push(format!(
                    "note: {name} signalled completion {} after its job was over",
                    times(c.late_signals)
                ));
            }
        }
        let tasks = self.workload.tasks.iter().zip(self.counts);
        let without_jobs = tasks.filter(|(task, c)| c.jobless && task.completion.is_none());
        let names: Vec<&str> = without_jobs.map(|(task, _)| task.name.as_str()).collect();
        if let [first, others @ ..] = names.as_slice() {
            let (who, several) = match others.len() {
                0 => (first.to_string(), false),
                1 => (format!("{first} and {}", others[0]), true),
                n => (format!("{first} and {n} other processes"), true),
            };
            let have = if several { "they have" } else { "it has" };
            remarks.push(if self.simulated {
                let state = if several { "state" } else { "states" };
                format!(
                    "note: {who} {state} no `runtime`, `execution` or `steps`, so {have} activations and no jobs here; \
                     `completion: signal` declares jobs"
                )
            } else {
                let signal = if several { "signal" } else { "signals" };
                format!("note: {who} {signal} no completion, so {have} activations and no jobs; `completion: signal` declares jobs")
            });
        }
        if self.windows_lost > 0 {
            remarks.push(format!("warning: {} windows were lost because the scheduler was late", self.windows_lost));
        }
        remarks
    }
}

fn events(n: u64) -> String {
    if n == 1 { "1 event".to_owned() } else { format!("{n} events") }
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

/// Utility accrued, and the most that the released jobs could have accrued.
fn utility(counts: &Counts) -> Value {
    json!({"accrued": number(counts.utility), "total": number(counts.utility_total)})
}

/// The tardiness of jobs, in words: the largest bound, and those of the tasks where they differ.
pub(crate) fn lateness(names: &[String], late: &[Span]) -> String {
    const TOLD: usize = 8;
    let most = late.iter().copied().max().unwrap_or(Span::ZERO);
    let text = format!("no job is later than {most}");
    if late.iter().all(|bound| *bound == most) {
        return text;
    }
    let mut tasks: Vec<(&String, &Span)> = names.iter().zip(late).collect();
    tasks.sort_by(|(_, a), (_, b)| b.cmp(a));
    let mut told: Vec<String> = tasks.iter().take(TOLD).map(|(name, bound)| format!("{name} {bound}")).collect();
    if tasks.len() > TOLD {
        told.push(format!("{} more tasks by no more", tasks.len() - TOLD));
    }
    format!("{text}; by task: {}", told.join(", "))
}

/// Millionths as a number of JSON: a whole one if it is, else with up to six decimals. Up to 10^9 that is exact; beyond,
/// a fraction is the nearest double, as every reader of JSON would take it.
pub(crate) fn number(millionths: u128) -> Value {
    match u64::try_from(millionths / MILLION) {
        Ok(whole) if millionths.is_multiple_of(MILLION) => Value::from(whole),
        _ => decimal(millionths).parse::<f64>().map_or(Value::Null, Value::from),
    }
}

const MILLION: u128 = UNIT as u128;

/// Millionths as a decimal number, exactly.
pub(crate) fn decimal(millionths: u128) -> String {
    let text = format!("{}.{:06}", millionths / MILLION, millionths % MILLION);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A ratio of two sums, rounded to four decimals.
fn ratio(part: u128, whole: u128) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let parts = (part * 20_000 + whole) / (2 * whole);
    format!("{}.{:04}", parts / 10_000, parts % 10_000)
}

/// The settings that are not at their defaults, by name, as the file takes them.
pub(crate) fn settings(policy: &PolicySpec) -> Vec<(String, String)> {
    let all = crate::header::settings(policy);
    all.split(',').filter_map(|s| s.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

/// A policy in a heading, by the name that `--policy` takes: `rr (uniprocessor), quantum=2ms`, `g-edf (global)`. Domains are of no
/// scope themselves.
pub(crate) fn policy(policy: &PolicySpec) -> String {
    let settings: String = settings(policy).iter().map(|(name, value)| format!(", {name}={value}")).collect();
    let scope = match policy.hosts() {
        Some(Hosts::Domains) => String::new(),
        Some(Hosts::Windows) | None => format!(" ({})", policy.scope.name()),
    };
    format!("{}{}{scope}{settings}", policy.prefix(), policy.profile.name)
}

fn response(h: &Histogram) -> Value {
    json!({"min": h.min().ns(), "mean": h.mean().ns(), "p99": h.quantile(990).ns(), "max": h.max().ns()})
}

/// A histogram's figures in nanoseconds, for `--json`.
pub(crate) fn figures(h: &Histogram) -> Value {
    json!({"count": h.count(), "p50": h.quantile(500).ns(), "p99": h.quantile(990).ns(), "max": h.max().ns()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilities_are_exact() {
        for (millionths, text, number) in [
            (0, "0", json!(0)),
            (13_000_000, "13", json!(13)),
            (500, "0.0005", json!(0.000_5)),
            (12_345_678_901_234, "12345678.901234", json!(12_345_678.901_234)),
            (999_999_999_999_999, "999999999.999999", json!(999_999_999.999_999)),
        ] {
            assert_eq!((decimal(millionths).as_str(), super::number(millionths)), (text, number));
            assert_eq!(super::number(millionths).to_string(), text);
        }
        assert_eq!((ratio(13, 16).as_str(), ratio(2, 3).as_str(), ratio(0, 0).as_str()), ("0.8125", "0.6667", "-"));
    }
}
