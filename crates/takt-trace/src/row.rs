//! The common part of both text formats: a record as a flat row, and the header as JSON.

use crate::{Change, DomainLabel, Footer, Header, Measured, MeterLabel, Part, Quantity, Stamped, TaskLabel};
use crate::{names, window_table};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use takt_core::cpus::CpuSet;
use takt_core::model::{Call, PartitionId, ResourceId, TaskId};
use takt_core::record::{Place, Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_core::work::Work;

/// One line of a trace before its words are understood. Times are nanoseconds.
#[derive(Deserialize, Default)]
pub(crate) struct Row<'a> {
    pub(crate) at: i64,
    pub(crate) applied: Option<i64>,
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) task: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) job: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) cpus: Option<Cow<'a, str>>,
    #[serde(borrow, default, alias = "reason", alias = "outcome", alias = "call", alias = "command")]
    pub(crate) detail: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) deadline: Option<i64>,
    #[serde(default, alias = "consumed", alias = "value", alias = "millidegrees")]
    pub(crate) amount: Option<i64>,
    #[serde(default, alias = "domain", alias = "uid", alias = "zone", alias = "meter")]
    pub(crate) window: Option<u32>,
    #[serde(
        default,
        alias = "frame",
        alias = "count",
        alias = "resource",
        alias = "dropped",
        alias = "to",
        alias = "setting",
        alias = "pid",
        alias = "abandoned",
        alias = "khz",
        alias = "limit_us",
        alias = "partition"
    )]
    pub(crate) number: Option<u64>,
    #[serde(default)]
    pub(crate) granted: Option<bool>,
    #[serde(default)]
    pub(crate) failed: bool,
    #[serde(default)]
    pub(crate) set_point: Option<i64>,
    #[serde(default)]
    pub(crate) measured: Option<i64>,
    /// The consequence: the next burst, or the addition to the next round.
    #[serde(default, alias = "correction")]
    pub(crate) next: Option<i64>,
}

/// The longest time that a trace may name, 2^56 ns or 834 days: no run is as long, and sums and differences of a few do not
/// overflow.
const FAR: i64 = 1 << 56;

/// The fault of a time, if it is out of reach.
fn within_reach(name: &str, ns: Option<i64>) -> Result<(), String> {
    match ns {
        Some(ns) if ns.unsigned_abs() > FAR as u64 => Err(format!("`{name}` is {ns} ns, which is more than two years")),
        _ => Ok(()),
    }
}

/// Turns rows into the parts of one trace.
pub(crate) struct Rows {
    /// The header, with the tasks, tables and policies of the rows so far.
    pub(crate) header: Header,
    /// The row of the end was read.
    ended: bool,
    /// The last switch to a policy, and the instant of the last record.
    switch: Option<(Time, u16)>,
    last: Time,
    tasks: HashMap<String, u32>,
    places: HashMap<CpuSet, u16>,
    /// The spelling of the last set that was looked up, since neighbours repeat.
    last_place: (String, u16),
}

impl Rows {
    pub(crate) fn new(header: Header) -> Rows {
        let tasks = header.labels().into_iter().zip(0..).collect();
        let places = header.places.iter().copied().zip(0..).collect();
        let last_place = ("none yet".into(), 0);
        Rows { header, ended: false, switch: None, last: Time::ZERO, tasks, places, last_place }
    }

    /// A run learns the name of a policy by a command, after the header was written. The command follows the record of the switch.
    fn name_loaded(&mut self, change: &Change) {
        let policy = change.command.strip_prefix("policy ").and_then(|words| words.split(' ').next_back());
        // A module is no name: the policy is in the file.
        let Some(policy) = policy.filter(|policy| !policy.contains(".wasm")) else { return };
        let to = self.switch.filter(|(at, _)| *at == change.at && self.last == change.at).map(|(_, to)| to);
        let alternative = to.and_then(|to| self.header.alternatives.get_mut(usize::from(to)));
        if let Some(alternative) = alternative.filter(|alternative| alternative.starts_with("loaded-")) {
            policy.clone_into(alternative);
        }
    }

    fn place(&mut self, text: &str) -> Result<Place, String> {
        if self.last_place.0 != text {
            let set = names::cpus_from(text).ok_or_else(|| format!("`{text}` is not a list of CPUs"))?;
            let index = self.places.get(&set);
            let index = *index.ok_or_else(|| format!("the CPUs `{text}` are not among the header's places"))?;
            self.last_place = (text.into(), index);
        }
        Ok(Place(self.last_place.1))
    }

    pub(crate) fn part(&mut self, row: &Row<'_>) -> Result<Part, String> {
        if self.ended {
            return Err("there is a record after the end of the trace".into());
        }
        let times = [("at", Some(row.at)), ("applied", row.applied), ("deadline", row.deadline)];
        // The value of a setting, and a measured one, need not be a time.
        let amount = row.amount.filter(|_| row.kind != "configure" && row.kind != "measured");
        let spans = [("amount", amount), ("set_point", row.set_point), ("measured", row.measured), ("next", row.next)];
        times.into_iter().chain(spans).try_for_each(|(name, ns)| within_reach(name, ns))?;
        fn need<T>(value: Option<T>, name: &str, row: &Row<'_>) -> Result<T, String> {
            value.ok_or_else(|| format!("a record of type `{}` needs `{name}`", row.kind))
        }
        let number = |name| need(row.number, name, row);
        let job = || need(row.job, "job", row);
        let amount = |name| need(row.amount, name, row).map(Span::from_ns);
        let span = |value: Option<i64>, name| need(value, name, row).map(Span::from_ns);
        let resource = || {
            let n = number("resource")?;
            u16::try_from(n).map(ResourceId).map_err(|_| format!("there is no resource {n}"))
        };
        let task = || {
            let name = need(row.task.as_deref(), "task", row)?;
            self.tasks.get(name).map(|i| TaskId(*i)).ok_or_else(|| format!("there is no task `{name}` in the header"))
        };
        let what = match &*row.kind {
            "end" => {
                self.ended = true;
                return Ok(Part::End(Footer { end: Time::from_ns(row.at), dropped: row.number.unwrap_or(0) }));
            }
            "change" => {
                let pid = number("pid")?;
                let change = Change {
                    at: Time::from_ns(row.at),
                    uid: need(row.window, "uid", row)?,
                    pid: u32::try_from(pid).map_err(|_| format!("there is no process {pid}"))?,
                    command: row.detail.as_deref().unwrap_or_default().to_owned(),
                };
                self.name_loaded(&change);
                return Ok(Part::Change(change));
            }
            "measured" => {
                let meter = need(row.window, "meter", row)?;
                let known = (meter as usize) < self.header.meters.len();
                let meter = u16::try_from(meter).ok().filter(|_| known);
                return Ok(Part::Measured(Measured {
                    at: Time::from_ns(row.at),
                    meter: meter.ok_or("there is no such meter in the header")?,
                    value: need(row.amount, "value", row)?,
                }));
            }
            "task" => {
                let name = need(row.task.as_deref(), "task", row)?.to_owned();
                let pid = row.number.map(u32::try_from).transpose().map_err(|_| "there is no such process")?;
                let index = u32::try_from(self.header.tasks.len()).map_err(|_| "there are too many tasks")?;
                if self.tasks.insert(name.clone(), index).is_some() {
                    return Err(format!("there is a task `{name}` already"));
                }
                let partition = row.detail.as_deref().map(str::to_owned);
                let label = TaskLabel { name, partition, pid, added: true, ..TaskLabel::default() };
                self.header.tasks.push(label.clone());
                return Ok(Part::Task(Time::from_ns(row.at), label));
            }
            "window_table" => {
                let text = need(row.detail.as_deref(), "detail", row)?;
                let value = serde_json::from_str(text).ok().as_ref().and_then(window_table::from_json);
                let number = number("to")?;
                let number = u16::try_from(number).map_err(|_| format!("there is no window table {number}"))?;
                let table = value.ok_or("this is no window table")?;
                self.header.tables.insert(number, table.clone());
                return Ok(Part::Table(Time::from_ns(row.at), number, table));
            }
            "window" => RecordKind::Window { window: need(row.window, "window", row)?, frame: number("frame")? },
            "windows_lost" => RecordKind::WindowsLost { count: number("count")? },
            "release" => RecordKind::Release { task: task()?, job: job()?, deadline: row.deadline.map(Time::from_ns) },
            "budget" => RecordKind::Budget { task: task()?, job: job()?, amount: row.amount.map(Span::from_ns) },
            "start" | "stop" => {
                let (task, job) = (task()?, job()?);
                let place = self.place(need(row.cpus.as_deref(), "cpus", row)?)?;
                if row.kind == "start" {
                    RecordKind::Start { task, job, place }
                } else {
                    let name = need(row.detail.as_deref(), "reason", row)?;
                    let reason = names::reason_from(name).ok_or_else(|| format!("`{name}` is not a reason to stop"))?;
                    RecordKind::Stop { task, job, place, reason }
                }
            }
            "finish" => {
                let name = need(row.detail.as_deref(), "outcome", row)?;
                let outcome = names::outcome_from(name).ok_or_else(|| format!("`{name}` is not an outcome"))?;
                RecordKind::Finish { task: task()?, job: job()?, outcome, consumed: Work::nominal(amount("consumed")?) }
            }
            "block" => RecordKind::Block { task: task()?, job: job()? },
            "wake" => RecordKind::Wake { task: task()?, job: job()? },
            "request" => {
                let granted = need(row.granted, "granted", row)?;
                RecordKind::Lock { task: task()?, resource: resource()?, granted }
            }
            "return" => RecordKind::Unlock { task: task()?, resource: resource()? },
            "withdraw" => RecordKind::Withdraw { task: task()?, resource: resource()? },
            "handler" => RecordKind::Handler { task: task()?, job: job()?, deadline: row.deadline.map(Time::from_ns) },
            "handler_end" => {
                RecordKind::HandlerEnd { task: task()?, job: job()?, consumed: Work::nominal(amount("consumed")?) }
            }
            "yield" => RecordKind::Yield { task: task()?, job: job()? },
            "deadlock" => RecordKind::Deadlock { task: task()?, resource: resource()? },
            "round" => RecordKind::Round {
                set_point: span(row.set_point, "set_point")?,
                measured: span(row.measured, "measured")?,
                correction: span(row.next, "correction")?,
                place: self.place(need(row.cpus.as_deref(), "cpus", row)?)?,
            },
            "burst" => RecordKind::Burst {
                task: task()?,
                set_point: span(row.set_point, "set_point")?,
                measured: span(row.measured, "measured")?,
                next: span(row.next, "next")?,
            },
            "switch" => {
                let domains = self.header.domains.len();
                let domain = row.window.map(|d| u16::try_from(d).ok().filter(|d| usize::from(*d) < domains).ok_or(d));
                let domain = domain.transpose().map_err(|d| format!("there is no domain {d} in the header"))?;
                let (to, known) = (number("to")?, self.header.alternatives.len());
                let to = u16::try_from(to).ok().filter(|to| usize::from(*to) < known);
                RecordKind::Switch {
                    domain,
                    to: to.ok_or("the policy to switch to is not among the header's alternatives")?,
                }
            }
            "table" => {
                let to = number("to")?;
                RecordKind::Table { to: u16::try_from(to).map_err(|_| format!("there is no window table {to}"))? }
            }
            "configure" => {
                let setting = number("setting")?;
                let setting = u8::try_from(setting).map_err(|_| format!("there is no setting {setting}"))?;
                RecordKind::Configure { setting, value: row.amount }
            }
            "call" => {
                let name = need(row.detail.as_deref(), "call", row)?;
                let call = Call::from_parts(name, amount("value")?).ok_or_else(|| format!("`{name}` is not a call"))?;
                RecordKind::Call { task: task()?, job: job()?, call, granted: need(row.granted, "granted", row)? }
            }
            "late_signal" => RecordKind::LateSignal { task: task()?, job: job()? },
            "behind" => RecordKind::Behind { task: task()?, job: job()?, abandoned: number("abandoned")? },
            "lost" => RecordKind::Lost { task: task()? },
            "frequency" => {
                let (domain, khz) = (need(row.window, "domain", row)?, number("khz")?);
                RecordKind::Frequency {
                    domain: u16::try_from(domain).map_err(|_| format!("there is no frequency domain {domain}"))?,
                    khz: u32::try_from(khz).map_err(|_| format!("{khz} kHz is no frequency"))?,
                }
            }
            "idle_latency" => {
                let limit = row.number.map(u32::try_from).transpose();
                RecordKind::IdleLatency {
                    place: self.place(need(row.cpus.as_deref(), "cpus", row)?)?,
                    limit_us: limit.map_err(|_| "the limit of the latency is too large".to_owned())?,
                }
            }
            "temperature" => {
                let zone = need(row.window, "zone", row)?;
                let millidegrees = row.amount.map(i32::try_from).transpose();
                RecordKind::Temperature {
                    zone: u16::try_from(zone).map_err(|_| format!("there is no zone {zone}"))?,
                    millidegrees: millidegrees.map_err(|_| "the value is no temperature".to_owned())?,
                }
            }
            "start_skipped" => {
                let partition = number("partition")?;
                let partition = u32::try_from(partition).map_err(|_| format!("there is no partition {partition}"))?;
                RecordKind::StartSkipped { partition: PartitionId(partition), window: need(row.window, "window", row)? }
            }
            "exit" => RecordKind::Exit {
                task: task()?,
                failed: row.failed || row.detail.as_deref() == Some(crate::names::FAILED),
            },
            other => return Err(format!("`{other}` is not a type of record")),
        };
        let record = Record { at: Time::from_ns(row.at), kind: what };
        self.last = record.at;
        if let RecordKind::Switch { to, .. } = record.kind {
            self.switch = Some((record.at, to));
        }
        Ok(Part::Record(Stamped { record, applied: Time::from_ns(row.applied.unwrap_or(row.at)) }))
    }
}

/// The version of the text formats. What is only added (keys of the header, types of records, columns at the end) does not
/// change it: traces without the additions are read as before.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct HeaderJson {
    takt_trace: u32,
    source: String,
    workload: String,
    policy: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    settings: String,
    scope: String,
    seed: u64,
    places: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    real_places: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kernel_cpus: String,
    tasks: Vec<TaskJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    domains: Vec<DomainJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alternatives: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    frequency_domains: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    zones: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    meters: Vec<MeterJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    window_lengths_ns: Vec<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tables: BTreeMap<u16, serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_unix_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_monotonic_ns: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct MeterJson {
    name: String,
    quantity: String,
}

#[derive(Serialize, Deserialize)]
struct DomainJson {
    name: String,
    policy: String,
}

#[derive(Serialize, Deserialize)]
struct TaskJson {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completion: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    added: bool,
}

pub(crate) fn header_to_json(h: &Header) -> String {
    let task = |t: &TaskLabel| TaskJson {
        name: t.name.clone(),
        partition: t.partition.clone(),
        pid: t.pid,
        class: t.class.clone(),
        completion: t.completion.map(|c| names::completion(c).into()),
        added: t.added,
    };
    let meter = |m: &MeterLabel| MeterJson { name: m.name.clone(), quantity: m.quantity.name().into() };
    let json = HeaderJson {
        takt_trace: VERSION,
        source: h.source.clone(),
        workload: h.workload.clone(),
        policy: h.policy.clone(),
        settings: h.settings.clone(),
        scope: h.scope.clone(),
        seed: h.seed,
        places: h.places.iter().map(CpuSet::to_string).collect(),
        real_places: h.real_places.iter().map(CpuSet::to_string).collect(),
        kernel_cpus: h.kernel_cpus.to_string(),
        tasks: h.tasks.iter().map(task).collect(),
        resources: h.resources.clone(),
        domains: h.domains.iter().map(|d| DomainJson { name: d.name.clone(), policy: d.policy.clone() }).collect(),
        alternatives: h.alternatives.clone(),
        frequency_domains: h.frequency_domains.clone(),
        zones: h.zones.clone(),
        meters: h.meters.iter().map(meter).collect(),
        partitions: h.partitions.clone(),
        window_lengths_ns: h.window_lengths.iter().map(|s| s.ns()).collect(),
        tables: h.tables.iter().map(|(number, table)| (*number, window_table::to_json(table))).collect(),
        table: h.table,
        duration_ns: h.duration.map(Span::ns),
        start_unix_ns: h.start_unix_ns,
        start_monotonic_ns: h.start_monotonic_ns,
    };
    serde_json::to_string(&json).expect("strings and numbers always have a JSON form")
}

/// The begin of [`header_to_json`], as far as the workload.
pub(crate) fn source_and_workload(h: &Header) -> String {
    let header = Header { source: h.source.clone(), workload: h.workload.clone(), ..Header::default() };
    let mut text = header_to_json(&header);
    // Quotes in a name are escaped, so this is the next key.
    if let Some(end) = text.find("\"policy\":") {
        text.truncate(end);
    }
    text
}

pub(crate) fn header_from_json(text: &str) -> Result<Header, String> {
    let h: HeaderJson = serde_json::from_str(text).map_err(|e| format!("this is not the header of a trace: {e}"))?;
    if h.takt_trace != VERSION {
        return Err(format!("the trace has version {}, this program reads version {VERSION}", h.takt_trace));
    }
    if h.places.len() > usize::from(u16::MAX) {
        return Err(format!("the header has {} places, which is more than 65535", h.places.len()));
    }
    within_reach("duration_ns", h.duration_ns)?;
    h.window_lengths_ns.iter().try_for_each(|ns| within_reach("window_lengths_ns", Some(*ns)))?;
    let place = |text: &String| names::cpus_from(text).ok_or_else(|| format!("`{text}` is not a list of CPUs"));
    let meter = |m: MeterJson| {
        let quantity = Quantity::from_name(&m.quantity).ok_or_else(|| format!("`{}` is no quantity", m.quantity))?;
        Ok::<_, String>(MeterLabel { name: m.name, quantity })
    };
    let task = |t: TaskJson| {
        let known = |word: &String| names::completion_from(word).ok_or_else(|| format!("`{word}` is no completion"));
        let completion = t.completion.as_ref().map(known).transpose()?;
        let TaskJson { name, partition, pid, class, added, .. } = t;
        Ok::<_, String>(TaskLabel { name, partition, pid, class, completion, added })
    };
    Ok(Header {
        source: h.source,
        workload: h.workload,
        policy: h.policy,
        settings: h.settings,
        scope: h.scope,
        seed: h.seed,
        places: h.places.iter().map(place).collect::<Result<_, _>>()?,
        real_places: h.real_places.iter().map(place).collect::<Result<_, _>>()?,
        kernel_cpus: place(&h.kernel_cpus)?,
        tasks: h.tasks.into_iter().map(task).collect::<Result<_, _>>()?,
        resources: h.resources,
        domains: h.domains.into_iter().map(|d| DomainLabel { name: d.name, policy: d.policy }).collect(),
        alternatives: h.alternatives,
        frequency_domains: h.frequency_domains,
        zones: h.zones,
        meters: h.meters.into_iter().map(meter).collect::<Result<_, _>>()?,
        partitions: h.partitions,
        window_lengths: h.window_lengths_ns.into_iter().map(Span::from_ns).collect(),
        tables: (h.tables.iter())
            .map(|(number, table)| {
                let table = window_table::from_json(table);
                table.map(|table| (*number, table)).ok_or("a window table of the header is none")
            })
            .collect::<Result<_, _>>()?,
        table: h.table,
        duration: h.duration_ns.map(Span::from_ns),
        start_unix_ns: h.start_unix_ns,
        start_monotonic_ns: h.start_monotonic_ns,
    })
}
