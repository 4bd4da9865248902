//! Summaries of a simulation or a run: a table for people, an object for programs.

pub mod assignment;
pub mod power;
pub mod simulated;
pub mod tables;

use assignment::Refused;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};
pub use tables::{Cell, aligned, alike, percent, short, table, visible};
use takt_core::model::{Domain, Hosts, PolicySpec};
use takt_core::stats::{Counts, Histogram};
use takt_core::time::{Span, Time};
use takt_core::utility::UNIT;
use takt_workload::{AssignedPriorities, Class, TaskInfo, Workload};

/// The key of the tasks' entries.
const TASKS: &str = "tasks";

/// The measurements of both drivers.
pub struct Summary<'a> {
    /// The scheduled workload.
    pub workload: &'a Workload,
    /// The length of the simulation or run.
    pub duration: Span,
    /// By task.
    pub counts: &'a [Counts],
    /// By task: response times from release to completion.
    pub responses: &'a [Histogram],
    /// How often a CPU changed from one task to another.
    pub context_switches: u64,
    /// Windows that were lost because the scheduler was late.
    pub windows_lost: u64,
    /// The report of a simulation: its processes do what the file says.
    pub simulated: bool,
}

/// The sums over all tasks, and the system that was scheduled. Counts of jobs are `None` where no task has jobs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Totals {
    /// The policy, without the prefix of its scope.
    pub policy: &'static str,
    /// The scope of the policy: `uniprocessor`, `global`, `partitioned`, `clustered` or `table`.
    pub scope: &'static str,
    /// Number of CPUs.
    pub cpus: usize,
    /// The length of the simulation or run.
    pub duration_ns: i64,
    /// Seed of all random values.
    pub seed: u64,
    /// Counts of jobs.
    pub jobs: Jobs,
    /// Utility of all jobs.
    pub utility: Option<Utility>,
    /// Starts and resumptions of jobs.
    pub dispatches: u64,
    /// Times an unfinished job was stopped in favour of another.
    pub preemptions: u64,
    /// Times a job resumed on another CPU.
    pub migrations: u64,
    /// How often a CPU changed from one task to another.
    pub context_switches: u64,
    /// Activations of processes of a window table.
    pub activations: u64,
    /// Activations that ended before the completion signal.
    pub cut_off: Option<u64>,
    /// Jobs whose first dispatch found the program at the work of an aborted job.
    pub behind: Option<u64>,
    /// Handlers of aborted jobs that began.
    pub handlers: Option<u64>,
    /// Safety-critical activations cut off by the end of their window.
    pub overruns: u64,
    /// Completion signals that came after their job was over.
    pub late_signals: Option<u64>,
    /// Windows that were lost because the scheduler was late.
    pub windows_lost: u64,
    /// Notes and warnings, each a line.
    pub notes: Vec<String>,
    /// The rule that assigned priorities, for a file that cannot state them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priorities: Option<Priorities>,
    /// The domains of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainEntry>,
    /// The tasks that no CPU accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_accepted: Vec<Refused>,
    /// The settings of the policy that are not at their defaults.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Counts of the jobs of all tasks. `released = met + missed + undecided`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Jobs {
    /// Jobs released.
    pub released: Option<u64>,
    /// Jobs that completed, in time or late.
    pub completed: Option<u64>,
    /// Jobs that completed by their deadline.
    pub met: Option<u64>,
    /// Jobs that passed their absolute deadline unfinished.
    pub missed: Option<u64>,
    /// Jobs that were aborted; they are among the missed.
    pub aborted: Option<u64>,
}

/// The rule that assigned priorities.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Priorities {
    /// `rm`, `dm`, `opa` or `random`.
    pub rule: &'static str,
    /// The rule found none, so the priorities are deadline-monotonic.
    pub fallback: bool,
}

impl From<AssignedPriorities> for Priorities {
    fn from(AssignedPriorities { rule, fallback }: AssignedPriorities) -> Priorities {
        Priorities { rule, fallback }
    }
}

/// A part of the machine with a policy of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DomainEntry {
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
}

/// Counts and response times of one task. Counts of jobs are `None` for a process that signals no completions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskCounts {
    /// Its name.
    pub name: String,
    /// The partition of its window table.
    pub partition: Option<String>,
    /// Jobs released.
    pub released: Option<u64>,
    /// Jobs that completed, in time or late.
    pub completed: Option<u64>,
    /// Jobs that completed by their deadline; without a deadline every completed job.
    pub met: Option<u64>,
    /// Jobs that passed their absolute deadline unfinished.
    pub missed: Option<u64>,
    /// Jobs that were aborted; they are among the missed.
    pub aborted: Option<u64>,
    /// Jobs whose first dispatch found the program at the work of an aborted job.
    pub behind: Option<u64>,
    /// Handlers of aborted jobs that began.
    pub handlers: Option<u64>,
    /// Activations of a process of a window table.
    pub activations: u64,
    /// Activations that ended before the completion signal.
    pub cut_off: Option<u64>,
    /// Safety-critical activations cut off by the end of their window.
    pub overruns: u64,
    /// Completion signals that came after their job was over.
    pub late_signals: Option<u64>,
    /// Starts and resumptions.
    pub dispatches: u64,
    /// Times an unfinished job was stopped in favour of another.
    pub preemptions: u64,
    /// Times a job resumed on another CPU.
    pub migrations: u64,
    /// Response times, from release to completion; `None` if no job completed.
    pub response_ns: Option<Response>,
    /// The class of the kernel that scheduled its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Events that released no job, for a task whose jobs are released by events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Utility of its jobs, where some task of the workload states one; `Some(None)` for a task without jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utility: Option<Option<Utility>>,
}

/// Response times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Response {
    /// The shortest.
    pub min: i64,
    /// The mean.
    pub mean: i64,
    /// The 99 % quantile.
    pub p99: i64,
    /// The longest.
    pub max: i64,
}

/// Utility accrued, and the most that the released jobs could have accrued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Utility {
    /// Accrued.
    pub accrued: Millionths,
    /// The most that is possible.
    pub total: Millionths,
}

impl Utility {
    fn of(counts: &Counts) -> Utility {
        Utility { accrued: Millionths(counts.utility), total: Millionths(counts.utility_total) }
    }
}

/// An exact decimal number, in millionths. In JSON it is a whole number if it is one, else it has up to six decimals. Up to 10^9 that
/// is exact; beyond, a fraction is the nearest double, as every reader of JSON would take it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Millionths(pub u128);

impl Serialize for Millionths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.0 / MILLION) {
            Ok(whole) if self.0.is_multiple_of(MILLION) => serializer.serialize_u64(whole),
            _ => match decimal(self.0).parse::<f64>() {
                Ok(number) => serializer.serialize_f64(number),
                Err(_) => serializer.serialize_none(),
            },
        }
    }
}

/// Up to 10^9 the number that was written.
impl<'de> Deserialize<'de> for Millionths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Millionths, D::Error> {
        f64::deserialize(deserializer).map(|number| Millionths((number * MILLION as f64).round() as u128))
    }
}

impl Summary<'_> {
    /// The sums over all tasks.
    #[must_use]
    pub fn sums(&self) -> Counts {
        self.counts.iter().copied().sum()
    }

    /// Whether `--strict` fails: a deadline was missed, or an activation was cut off before its job was done or its budget used.
    #[must_use]
    pub fn fails(&self) -> bool {
        let totals = self.sums();
        totals.missed > 0 || totals.cut_off > 0 || totals.overruns > 0
    }

    /// Whether some job is worth more or less than another.
    fn valued(&self) -> bool {
        self.workload.system.tasks.iter().any(|t| t.utility.is_some())
    }

    /// Writes the one JSON object of `--json`, with the driver's own keys added, for the whole and for each task by its index, and
    /// with the driver's notes and warnings ([`Summary::remarks`] are among them). The tasks are written one after the other and never held together.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write_json<T: Serialize>(
        &self,
        more: impl Serialize,
        notes: Vec<String>,
        of_task: impl Fn(usize) -> T,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let mut object = object(&self.totals(notes))?;
        object.extend(self::object(&more)?);
        object.insert(TASKS.into(), Value::Null);
        write!(out, "{{")?;
        for (n, (key, value)) in object.iter().enumerate() {
            write!(out, "{}{}:", if n > 0 { "," } else { "" }, Value::from(key.as_str()))?;
            if key != TASKS {
                write!(out, "{value}")?;
                continue;
            }
            for index in 0..self.workload.tasks.len() {
                let mut task = self::object(&self.task(index))?;
                task.extend(self::object(&of_task(index))?);
                write!(out, "{}{}", if index == 0 { "[" } else { "," }, Value::Object(task))?;
            }
            write!(out, "{}", if self.workload.tasks.is_empty() { "[]" } else { "]" })?;
        }
        writeln!(out, "}}")
    }

    /// Counts and response times of a task, by its index.
    #[must_use]
    pub fn task(&self, index: usize) -> TaskCounts {
        let (task, c, h) = (&self.workload.tasks[index], &self.counts[index], &self.responses[index]);
        // A process without completion signals has no jobs.
        let jobs = |count: u64| (!c.jobless).then_some(count);
        TaskCounts {
            name: task.name.clone(),
            partition: task.partition.map(|p| self.workload.partitions[p].clone()),
            released: jobs(c.released),
            completed: jobs(c.completed),
            met: jobs(c.met),
            missed: jobs(c.missed),
            aborted: jobs(c.aborted),
            behind: jobs(c.behind),
            handlers: jobs(c.handlers),
            activations: c.activations,
            cut_off: jobs(c.cut_off),
            overruns: c.overruns,
            late_signals: jobs(c.late_signals),
            dispatches: c.dispatches,
            preemptions: c.preemptions,
            migrations: c.migrations,
            response_ns: (h.count() > 0).then(|| Response {
                min: h.min().ns(),
                mean: h.mean().ns(),
                p99: h.quantile(990).ns(),
                max: h.max().ns(),
            }),
            class: task.class.filter(|_| self.workload.handed.is_some()).map(|class| class.to_string()),
            lost: self.workload.is_released_by_events(index).then_some(c.lost),
            utility: self.valued().then(|| (!c.jobless).then(|| Utility::of(c))),
        }
    }

    /// The sums over all tasks, with the driver's notes and warnings ([`Summary::remarks`] are among them).
    #[must_use]
    pub fn totals(&self, notes: Vec<String>) -> Totals {
        let (system, own, totals) = (&self.workload.system, self.workload.policy(), self.sums());
        // Where no task has jobs, nothing is said of jobs.
        let jobs = |count: u64| (!totals.jobless).then_some(count);
        let domain = |(domain, name): (&Domain, &String)| DomainEntry {
            name: name.clone(),
            cpus: domain.cpus.to_string(),
            band: system.band(domain),
            policy: domain.policy.profile.name,
            scope: domain.policy.scope.name(),
        };
        Totals {
            policy: own.profile.name,
            scope: own.scope.name(),
            cpus: self.workload.machine().len(),
            duration_ns: self.duration.ns(),
            seed: system.seed,
            jobs: Jobs {
                released: jobs(totals.released),
                completed: jobs(totals.completed),
                met: jobs(totals.met),
                missed: jobs(totals.missed),
                aborted: jobs(totals.aborted),
            },
            utility: (!totals.jobless).then(|| Utility::of(&totals)),
            dispatches: totals.dispatches,
            preemptions: totals.preemptions,
            migrations: totals.migrations,
            context_switches: self.context_switches,
            activations: totals.activations,
            cut_off: jobs(totals.cut_off),
            behind: jobs(totals.behind),
            handlers: jobs(totals.handlers),
            overruns: totals.overruns,
            late_signals: jobs(totals.late_signals),
            windows_lost: self.windows_lost,
            notes,
            priorities: self.workload.settings.priorities.map(Priorities::from),
            domains: self.workload.own_domains().map(domain).collect(),
            not_accepted: assignment::refused_tasks(&assignment::refused(self.workload), self.workload),
            settings: settings(own).into_iter().collect(),
        }
    }

    /// The table and the lines under it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let totals = self.sums();
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
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
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

/// The same, with the policy that has taken over and holds at the end: `edf (uniprocessor), rm since 1.5s`.
#[must_use]
pub fn policies(first: &PolicySpec, switched: Option<(Time, &str)>) -> String {
    let now =
        switched.map_or_else(String::new, |(at, now)| format!(", {} since {}", visible(now), short(at - Time::ZERO)));
    policy(first) + &now
}

/// The object of a struct.
pub(crate) fn object(of: &impl Serialize) -> io::Result<Map<String, Value>> {
    match serde_json::to_value(of)? {
        Value::Object(object) => Ok(object),
        _ => Ok(Map::new()),
    }
}

/// The tardiness of jobs, in words: the largest bound, and those of the tasks where they differ.
#[must_use]
pub fn lateness(names: &[String], late: &[Span]) -> String {
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

const MILLION: u128 = UNIT as u128;

/// Millionths as a decimal number, exactly.
#[must_use]
pub fn decimal(millionths: u128) -> String {
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
#[must_use]
pub fn settings(policy: &PolicySpec) -> Vec<(String, String)> {
    let all = crate::header::settings(policy);
    all.split(',').filter_map(|s| s.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

/// A policy in a heading, by the name that `--policy` takes: `rr (uniprocessor), quantum=2ms`, `g-edf (global)`. Domains are of no
/// scope themselves.
#[must_use]
pub fn policy(policy: &PolicySpec) -> String {
    let settings: String = settings(policy).iter().map(|(name, value)| format!(", {name}={value}")).collect();
    let scope = match policy.hosts() {
        Some(Hosts::Domains) => String::new(),
        Some(Hosts::Windows) | None => format!(" ({})", policy.scope.name()),
    };
    format!("{}{}{scope}{settings}", policy.prefix(), policy.profile.name)
}

/// A histogram's figures in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Figures {
    /// The number of values.
    pub count: u64,
    /// The median.
    pub p50: i64,
    /// The 99 % quantile.
    pub p99: i64,
    /// The largest value.
    pub max: i64,
}

/// A histogram's figures in nanoseconds, for `--json`.
#[must_use]
pub fn figures(h: &Histogram) -> Figures {
    Figures { count: h.count(), p50: h.quantile(500).ns(), p99: h.quantile(990).ns(), max: h.max().ns() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn utilities_are_exact() {
        for (millionths, text, number) in [
            (0, "0", json!(0)),
            (13_000_000, "13", json!(13)),
            (500, "0.0005", json!(0.000_5)),
            (12_345_678_901_234, "12345678.901234", json!(12_345_678.901_234)),
            (999_999_999_999_999, "999999999.999999", json!(999_999_999.999_999)),
        ] {
            let written = serde_json::to_value(Millionths(millionths)).unwrap();
            assert_eq!((decimal(millionths).as_str(), written.to_string().as_str(), &written), (text, text, &number));
        }
        assert_eq!((ratio(13, 16).as_str(), ratio(2, 3).as_str(), ratio(0, 0).as_str()), ("0.8125", "0.6667", "-"));
    }
}
