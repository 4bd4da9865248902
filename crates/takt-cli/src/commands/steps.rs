//! The record of a run: each step's instant and inputs, for `takt sim --replay`, which feeds them to a fresh engine.
//!
//! The first line is a JSON object about the workload, with its [`fingerprint`]. Each step is a line `[now_ns, [input, …]]`. A window table
//! that may take over is an object `table` before the first step that names it; tables are numbered in the order of these lines. A task that was
//! added is an object `task` before its step, with the text of the file that describes it, unless that is the text of the task before; such tasks have
//! the numbers after those of the workload. An
//! object `measured` is a value that the machine measured; a replay ignores it. The
//! last line is an object `end` with the number of steps, the number of records that the run lost, and a checksum of all lines
//! before it. A record without that line was cut off.

pub(crate) mod fingerprint;
pub(crate) mod power;

use crate::additions;
use crate::failure::Failure;
use crate::files::{self, Output};
use crate::input::takeovers;
use fingerprint::Difference;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Input};
use takt_core::model::{
    Call, MAX_SETTINGS, Placement, PolicySpec, ResourceId, System, TABLES_MAX, Task, TaskId, WindowTable,
};
use takt_core::record::Place;
use takt_core::time::{Span, Time};
use takt_core::utility::MOST;
use takt_core::work::Work;
use takt_exec::{Issuer, NewTask};
use takt_sim::Step;
use takt_trace::{MeterLabel, window_table};
use takt_workload::{Code, MAX_DURATION, TaskInfo, Workload};

/// Version of the steps. Since version 2 completions name their jobs, and exits say how a program ended. Since version 3 a text is written once.
const VERSION: u64 = 3;
/// Since this version completions name their jobs.
const NAMED_JOBS: u64 = 2;

/// Writes steps, if there is a file for them.
pub(crate) struct Writer {
    path: Option<PathBuf>,
    header: Value,
    out: Option<BufWriter<Output>>,
    error: Option<io::Error>,
    steps: u64,
    checksum: Checksum,
    /// Names and quantities of the meters of the machine.
    meters: Vec<(String, &'static str)>,
    /// The text of the task that was added last.
    text: Option<Arc<str>>,
}

impl Writer {
    /// `system` is the one that runs: that of the workload without simulated surroundings. In a controlled run other policies may take over.
    pub(crate) fn new(path: Option<&Path>, workload: &Workload, system: &System, controlled: bool) -> Writer {
        let header = path.map_or(Value::Null, |_| {
            let mut system = system.clone();
            // Places of tasks that may be added are no part of the workload.
            let places = system.tasks.len() - workload.tasks.len();
            system.tasks.truncate(workload.tasks.len());
            system.removed.clear();
            let real = Workload { system: system.clone(), ..workload.clone() };
            let policies = controlled.then(|| names(&takeovers(&system)));
            json!({"takt_steps": VERSION, "policies": policies, "workload": workload.source.name, "tasks": system.tasks.len(),
                   "places": places, "seed": system.seed, "horizon_ns": system.horizon.map(Time::ns),
                   "fingerprint": fingerprint::of(&real)})
        });
        let (steps, checksum) = (0, Checksum::default());
        let path = path.map(Path::to_path_buf);
        Writer { path, header, out: None, error: None, steps, checksum, meters: Vec::new(), text: None }
    }

    /// The machine has these meters.
    pub(crate) fn meters(&mut self, meters: &[MeterLabel]) {
        self.meters = meters.iter().map(|meter| (meter.name.clone(), meter.quantity.name())).collect();
    }

    /// The run has this power policy.
    pub(crate) fn power(&mut self, power: &power::Recorded) {
        if self.path.is_some() {
            self.header["power"] = power.to_json();
        }
    }

    /// Creates the file, when there is something to write: a run that cannot begin leaves none behind.
    pub(crate) fn begin(&mut self) {
        let Some(path) = &self.path else { return };
        match files::created(path) {
            Ok(file) => {
                self.out = Some(BufWriter::new(file));
                let header = std::mem::take(&mut self.header);
                self.put(&header);
            }
            Err(why) => self.error = Some(why.into()),
        }
    }

    fn put(&mut self, line: &Value) {
        if let (Some(out), None) = (&mut self.out, &self.error) {
            let line = line.to_string();
            self.checksum.add(&line);
            self.error = writeln!(out, "{line}").err();
        }
    }

    pub(crate) fn step(&mut self, now: Time, inputs: &[Input]) {
        if self.out.is_some() {
            self.put(&json!([now.ns(), inputs.iter().map(to_json).collect::<Vec<_>>()]));
            self.steps += 1;
        }
    }

    /// A window table that may take over has the next number.
    pub(crate) fn table(&mut self, table: &WindowTable) {
        if self.out.is_some() {
            self.put(&json!({"table": window_table::to_json(table)}));
        }
    }

    /// A task that the step which follows adds has the next number.
    pub(crate) fn task(&mut self, new: &NewTask) {
        if self.out.is_some() {
            let NewTask { domain, process, file, text, .. } = new;
            let mut task = json!({"name": process.name, "domain": domain, "file": **file});
            // One change may add many tasks of a large file.
            if self.text.as_ref().is_none_or(|last| !Arc::ptr_eq(last, text)) {
                task["text"] = json!(**text);
                self.text = Some(text.clone());
            }
            self.put(&json!({"task": task}));
        }
    }

    /// A change from outside was made in the step of this instant, which has been written.
    pub(crate) fn changed(&mut self, at: Time, by: Issuer, command: &str, loaded: &[PolicySpec]) {
        if self.out.is_some() {
            let mut change = json!({"at_ns": at.ns(), "uid": by.uid, "pid": by.pid, "command": command});
            if !loaded.is_empty() {
                change["loaded"] = loaded.iter().map(fingerprint::policy).map(Value::Object).collect();
            }
            self.put(&json!({"change": change}));
        }
    }

    /// A meter of the machine has had this value since this instant. A replay ignores it.
    pub(crate) fn measured(&mut self, at: Time, meter: u16, value: i64) {
        if self.out.is_some() {
            let (name, quantity) = self.meters.get(usize::from(meter)).cloned().unwrap_or_default();
            self.put(&json!({"measured": {"at_ns": at.ns(), "name": name, "quantity": quantity, "value": value}}));
        }
    }

    pub(crate) fn flush(&mut self) {
        if let (Some(out), None) = (&mut self.out, &self.error) {
            self.error = out.flush().err();
        }
    }

    /// Whether the file cannot be written any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Ends the record of a run that lost so many records, steps maybe among them.
    pub(crate) fn finish(mut self, dropped: u64) -> Result<(), Failure> {
        let end = json!({"end": {"steps": self.steps, "dropped": dropped, "checksum": self.checksum.text()}});
        self.put(&end);
        self.flush();
        match (self.path, self.error) {
            (Some(path), Some(e)) => Err(Failure::write(&path, &e)),
            _ => Ok(()),
        }
    }
}

fn names(policies: &[PolicySpec]) -> Vec<String> {
    policies.iter().map(takt_workload::policy_text).collect()
}

/// FNV-1a of 64 bits over lines, each with its newline. It finds slips and damage; an attacker could compute it, too.
struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    fn add(&mut self, line: &str) {
        for byte in line.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// A record whose first line has been read.
pub(crate) struct Reader {
    path: PathBuf,
    lines: io::Lines<Box<dyn BufRead>>,
    header: Value,
    checksum: Checksum,
}

/// The steps of a run, and how far a replay of them is that run.
pub(crate) struct Replay {
    pub(crate) steps: Vec<Step>,
    /// The horizon of the jobs that the run counted.
    pub(crate) horizon: Option<Time>,
    /// The policies that may take over, besides the ones in the file.
    pub(crate) policies: Vec<PolicySpec>,
    /// The window tables that may take over, by number.
    pub(crate) tables: Vec<WindowTable>,
    /// The tasks that were added, in the order of their numbers.
    pub(crate) added: Vec<Recorded>,
    /// The power policy of the run.
    pub(crate) power: Option<power::Recorded>,
    /// The values of the recorded system that the present one does not have.
    pub(crate) differences: Vec<Difference>,
    /// Why the record may not be that of the whole run, or not of this system.
    pub(crate) doubts: Vec<String>,
}

/// A task that was added to a recorded run.
pub(crate) struct Recorded {
    pub(crate) task: Task,
    pub(crate) info: TaskInfo,
    /// The name of its domain.
    pub(crate) domain: Option<String>,
}

impl Replay {
    /// Whether the schedule need not be the one of the run.
    pub(crate) fn is_what_if(&self) -> bool {
        !self.differences.is_empty() || !self.doubts.is_empty()
    }
}

/// Differences that a message lists; it counts the others.
pub(crate) const LISTED: usize = 12;

impl Reader {
    /// Opens a record and reads its first line.
    ///
    /// # Errors
    /// Status 2 if the file is no record.
    pub(crate) fn open(path: &Path) -> Result<Reader, Failure> {
        let file = File::open(path).map_err(|e| Failure::file("read", path, &e))?;
        Reader::of(path, Box::new(BufReader::new(file)))
    }

    /// As [`Reader::open`], of what was opened already.
    pub(crate) fn of(path: &Path, input: Box<dyn BufRead>) -> Result<Reader, Failure> {
        let mut lines = input.lines();
        let first = lines.next().transpose().map_err(|e| Failure::file("read", path, &e))?.unwrap_or_default();
        let mut checksum = Checksum::default();
        checksum.add(&first);
        let header = serde_json::from_str(&first).unwrap_or_default();
        let reader = Reader { path: path.to_owned(), lines, header, checksum };
        match reader.header["takt_steps"].as_u64() {
            Some(1..=VERSION) => Ok(reader),
            Some(_) => Err(reader.wrong(1, "the record was written by a later version of Takt")),
            None => Err(reader.wrong(1, "this is not a record of steps")),
        }
    }

    /// The CPUs of the recorded run: `all` in the workload stood for them.
    pub(crate) fn cpus(&self) -> Option<CpuSet> {
        takt_workload::parse_cpus(self.header["fingerprint"]["cpus"].as_str()?).ok()
    }

    fn wrong(&self, line: usize, why: &str) -> Failure {
        let message = format!("{}:{line}: {why}", self.path.display());
        Failure::input(Code::DamagedFile, message, "give the file that `takt run --record` wrote for this workload")
    }

    /// Reads the steps, for a workload without what is only simulated. With `what_if` the record of another system is none that
    /// is refused, nor an incomplete one.
    ///
    /// # Errors
    /// Status 2: the record is that of another system, incomplete, or damaged.
    pub(crate) fn read(mut self, workload: &Workload, what_if: bool, simulated: bool) -> Result<Replay, Failure> {
        let (differences, mut doubts) = self.compare(workload);
        let policies = if self.header["policies"].is_array() { takeovers(&workload.system) } else { Vec::new() };
        if !policies.is_empty() && json!(names(&policies)) != self.header["policies"] {
            doubts.push("the run could be switched to other policies than this program has".to_owned());
        }
        if !what_if && let Some(refused) = self.refusal(&differences, &doubts) {
            return Err(refused);
        }
        let horizon = or_null(&self.header["horizon_ns"], |v| Some(Time::ZERO + span(v, 0)?));
        let horizon = horizon.ok_or_else(|| self.wrong(1, "its horizon is no instant of a run"))?;
        let mut steps: Vec<Step> = Vec::new();
        let mut tables: Vec<WindowTable> = Vec::new();
        let (mut number, mut end, mut loaded) = (1, None, Vec::new());
        let (mut added, mut last_text): (Vec<Recorded>, String) = (Vec::new(), String::new());
        let mut descriptions = additions::Descriptions::new(workload, simulated);
        while let Some(line) = self.lines.next() {
            let line = line.map_err(|e| Failure::file("read", &self.path, &e))?;
            number += 1;
            if end.is_some() {
                return Err(self.wrong(number, "there are lines after the end of the record"));
            }
            let mut value: Value = serde_json::from_str(&line).unwrap_or_default();
            if value["end"].is_object() {
                end = Some(value["end"].clone());
                continue;
            }
            self.checksum.add(&line);
            if value["change"].is_object() {
                // Its inputs are those of a step. The last list of policies has all of those before it.
                if let Value::Array(list) = &value["change"]["loaded"] {
                    loaded.clone_from(list);
                }
                continue;
            }
            // No policy has learned of it.
            if value["measured"].is_object() {
                continue;
            }
            if value["task"].is_object() {
                if let Value::String(text) = value["task"]["text"].take() {
                    last_text = text;
                }
                let text = |key: &str| value["task"][key].as_str().unwrap_or_default();
                let read = descriptions.next(text("file"), &last_text, text("name"));
                let (task, info) = read.map_err(|why| self.wrong(number, &format!("this describes no task: {why}")))?;
                added.push(Recorded { task, info, domain: value["task"]["domain"].as_str().map(str::to_owned) });
                continue;
            }
            if value["table"].is_object() {
                let table = table_from(&value["table"], &workload.system).filter(|_| tables.len() < TABLES_MAX);
                tables.push(table.ok_or_else(|| self.wrong(number, "this is no window table of the system"))?);
                continue;
            }
            let step = value.as_array().filter(|step| step.len() == 2).and_then(|step| {
                let inputs = step[1].as_array()?.iter();
                let inputs = inputs
                    .map(|v| from_json(v, &workload.system, added.len(), tables.len()))
                    .collect::<Option<Vec<_>>>()?;
                Some(Step { now: Time::ZERO + span(&step[0], 0)?, inputs })
            });
            let step = step.ok_or_else(|| match absent_task(&value, workload.system.tasks.len() + added.len()) {
                Some(task) => {
                    let n = workload.tasks.len();
                    let message = format!("{}:{number}: this step is of task {task} (from 0)", self.path.display());
                    let hint =
                        format!("`{}` has {n} tasks; give it as many as the recorded run had", workload.source.name);
                    Failure::input(Code::OtherRecord, message, &hint)
                }
                None if self.header["takt_steps"].as_u64() >= Some(NAMED_JOBS) => {
                    self.wrong(number, "this is not a step")
                }
                None => {
                    self.wrong(number, "this is not a step of this version of Takt, whose completions name their jobs")
                }
            })?;
            if steps.last().is_some_and(|last: &Step| last.now > step.now) {
                return Err(self.wrong(number, "time runs backwards"));
            }
            steps.push(step);
        }
        match end {
            Some(end) if end["checksum"] != self.checksum.text() || end["steps"] != steps.len() => {
                return Err(self.wrong(number, "the record was changed after it was written: its checksum differs"));
            }
            Some(end) if end["dropped"] != 0 => {
                doubts.push(format!("the run lost {} records, steps maybe among them", end["dropped"]));
            }
            None if !self.header["fingerprint"].is_null() => {
                doubts.push(format!(
                    "the record ends at line {number} without an end: the run was killed, or the file cut off"
                ));
            }
            _ => {}
        }
        if !what_if && let Some(refused) = self.refusal(&differences, &doubts) {
            return Err(refused);
        }
        let loaded = loaded.iter().map(|policy| self.loaded(policy)).collect::<Result<Vec<_>, _>>()?;
        let policies = [policies, loaded].concat();
        let power = or_null(&self.header["power"], power::Recorded::from_json);
        let power = power.ok_or_else(|| self.wrong(1, "its power policy is none that this program has"))?;
        Ok(Replay { power, steps, horizon, policies, tables, added, differences, doubts })
    }

    /// A policy that the run learned of after its start.
    ///
    /// # Errors
    /// Status 2: its module is not the one that the run had, or was not given.
    fn loaded(&self, recorded: &Value) -> Result<PolicySpec, Failure> {
        let text = |key: &str| recorded[key].as_str().unwrap_or_default();
        let settings = recorded["settings"].as_object().into_iter().flatten();
        let settings: Vec<String> =
            settings.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
        let between = if settings.is_empty() { "" } else { ":" };
        let policy = takt_workload::policy_from_text(&format!("{}{between}{}", text("policy"), settings.join(",")));
        let policy = policy.ok().filter(|policy| fingerprint::policy(policy).get("module") == recorded.get("module"));
        let placement = Placement::from_name(text("placement"));
        policy.zip(placement).map(|(policy, placement)| PolicySpec { placement, ..policy }).ok_or_else(|| {
            let module = recorded["module"].as_str().map(|module| format!(" ({module})")).unwrap_or_default();
            let path = self.path.display();
            let message =
                format!("{path}: the run loaded the policy `{}`{module}, and this program has not", text("policy"));
            Failure::input(Code::OtherRecord, message, "give the file that the run loaded with `--module FILE.wasm`")
        })
    }

    /// Compares the recorded system with the present one.
    fn compare(&self, workload: &Workload) -> (Vec<Difference>, Vec<String>) {
        let recorded = &self.header["fingerprint"];
        if fingerprint::is_known(recorded) {
            return (fingerprint::differences(recorded, &fingerprint::of(workload)), Vec::new());
        }
        // Earlier records say this much.
        let known = |header: &Value| json!({"number of tasks": header["tasks"], "seed": header["seed"]});
        let own = json!({"tasks": workload.tasks.len(), "seed": workload.system.seed});
        let why = match recorded.is_null() {
            true => "the record has no fingerprint: it was written by an earlier version of Takt",
            false => "the record's fingerprint is of another version of Takt, and cannot be compared",
        };
        (fingerprint::differences(&known(&self.header), &known(&own)), vec![why.to_owned()])
    }

    fn refusal(&self, differences: &[Difference], doubts: &[String]) -> Option<Failure> {
        let path = self.path.display();
        if differences.is_empty() {
            let hint = "`--what-if` replays it all the same, and the summary says so";
            return doubts.first().map(|doubt| Failure::input(Code::OtherRecord, format!("{path}: {doubt}"), hint));
        }
        let mut message = format!("{path} is the record of another system");
        for line in listed(differences) {
            message.push_str("\n  ");
            message.push_str(&line);
        }
        let hint =
            "give the workload and the options of the recorded run, or `--what-if` to feed its inputs to this system";
        Some(Failure::input(Code::OtherRecord, message, hint))
    }
}

/// The differences as lines, at most [`LISTED`] and one that counts the others.
pub(crate) fn listed(differences: &[Difference]) -> Vec<String> {
    let line = |d: &Difference| format!("{}: recorded {}, now {}", d.key, d.recorded, d.asked);
    let more = differences.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("and {more} more"));
    differences.iter().take(LISTED).map(line).chain(more).collect()
}

/// A span from so many nanoseconds to [`MAX_DURATION`], which no run is longer than: sums of a few do not overflow.
fn span(value: &Value, least: i64) -> Option<Span> {
    value.as_i64().filter(|ns| (least..=MAX_DURATION.ns()).contains(ns)).map(Span::from_ns)
}

/// A whole number from `least` to `most`.
fn whole(value: &Value, least: u64, most: u64) -> Option<u64> {
    value.as_u64().filter(|number| (least..=most).contains(number))
}

/// An optional value; the outer `None` is a present and wrong one.
fn or_null<T>(value: &Value, read: impl FnOnce(&Value) -> Option<T>) -> Option<Option<T>> {
    if value.is_null() { Some(None) } else { read(value).map(Some) }
}

/// The task that a step of another system is about, where this one has only so many.
fn absent_task(step: &Value, tasks: usize) -> Option<u64> {
    let of_tasks =
        |input: &&Value| !["configure", "switch", "table", "temperature"].iter().any(|other| input[0] == *other);
    let inputs = step[1].as_array().into_iter().flatten().filter(of_tasks);
    inputs.filter_map(|input| input[1].as_u64()).find(|task| *task >= tasks as u64)
}

fn to_json(input: &Input) -> Value {
    match *input {
        Input::Usage { task, consumed } => json!(["usage", task.0, consumed.ns()]),
        Input::Dispatched { task, place, at } => json!(["dispatched", task.0, place.0, (at - Time::ZERO).ns()]),
        Input::Complete { task, job } => json!(["complete", task.0, job]),
        Input::Block { task } => json!(["block", task.0]),
        Input::Hold { task } => json!(["hold", task.0]),
        Input::Wake { task } => json!(["wake", task.0]),
        Input::Lock { task, resource } => json!(["request", task.0, resource.0]),
        Input::Unlock { task, resource } => json!(["return", task.0, resource.0]),
        Input::Withdraw { task, resource } => json!(["withdraw", task.0, resource.0]),
        Input::Yield { task } => json!(["yield", task.0]),
        Input::Skew { task, by } => json!(["skew", task.0, by.ns()]),
        Input::Share { task, share, importance } => json!(["share", task.0, share, importance]),
        Input::Configure { setting, value } => json!(["configure", setting, value]),
        Input::Switch { domain, to } => json!(["switch", domain, to]),
        Input::Table { to } => json!(["table", to]),
        Input::Abort { task } => json!(["abort", task.0]),
        Input::Exit { task, ending } => json!(["exit", task.0, ending.regular, ending.replaced]),
        Input::Retime { task, period, deadline, runtime } => {
            json!(["retime", task.0, period.ns(), deadline.map(Span::ns), runtime.map(Span::ns)])
        }
        Input::Call { task, call } => {
            let (name, span) = call.parts();
            json!(["call", task.0, name, span.ns()])
        }
        Input::Add { task, domain } => json!(["add", task.0, domain]),
        Input::Enter { task } => json!(["enter", task.0]),
        Input::Leave { task } => json!(["leave", task.0]),
        Input::Release { task } => json!(["release", task.0]),
        Input::Terms { task, deadline, runtime, utility } => {
            json!(["terms", task.0, deadline.map(Span::ns), runtime.map(Span::ns), utility])
        }
        Input::Temperature { zone, millidegrees } => json!(["temperature", zone, millidegrees]),
    }
}

/// `None` for what is no input, or not one that the system can have, with so many window tables.
///
/// The record describes the last `added` tasks.
fn from_json(value: &Value, system: &System, added: usize, tables: usize) -> Option<Input> {
    let u16 = |value: &Value| whole(value, 0, u64::from(u16::MAX)).map(|n| n as u16);
    if value[0] == "configure" {
        let setting = whole(&value[1], 0, MAX_SETTINGS as u64 - 1)? as u8;
        return Some(Input::Configure { setting, value: or_null(&value[2], Value::as_i64)? });
    }
    if value[0] == "switch" {
        return Some(Input::Switch { domain: or_null(&value[1], u16)?, to: u16(&value[2])? });
    }
    if value[0] == "table" {
        return Some(Input::Table { to: u16(&value[1]).filter(|to| usize::from(*to) < tables)? });
    }
    if value[0] == "temperature" {
        let millidegrees = or_null(&value[2], |v| i32::try_from(v.as_i64()?).ok())?;
        return Some(Input::Temperature { zone: u16(&value[1])?, millidegrees });
    }
    let task = TaskId(value[1].as_u64().filter(|t| *t < (system.tasks.len() + added) as u64)? as u32);
    let resource = || u16(&value[2]).filter(|r| *r < system.resources).map(ResourceId);
    let length = |value: &Value| span(value, 1);
    Some(match value[0].as_str()? {
        "usage" => Input::Usage { task, consumed: Work::nominal(span(&value[2], 0)?) },
        "dispatched" => Input::Dispatched { task, place: Place(u16(&value[2])?), at: Time::ZERO + span(&value[3], 0)? },
        "complete" => Input::Complete { task, job: value[2].as_u64()? },
        "block" => Input::Block { task },
        "hold" => Input::Hold { task },
        "wake" => Input::Wake { task },
        "request" => Input::Lock { task, resource: resource()? },
        "return" => Input::Unlock { task, resource: resource()? },
        "withdraw" => Input::Withdraw { task, resource: resource()? },
        "yield" => Input::Yield { task },
        "skew" => Input::Skew { task, by: span(&value[2], -MAX_DURATION.ns())? },
        "share" => {
            let share = or_null(&value[2], |v| whole(v, 1, 1_000_000))?.map(|share| share as u32);
            Input::Share { task, share, importance: whole(&value[3], 1, u64::from(u32::MAX))? as u32 }
        }
        "abort" => Input::Abort { task },
        "exit" => {
            let ending = Ending { regular: value[2].as_bool()?, replaced: value[3].as_bool()? };
            Input::Exit { task, ending }
        }
        "retime" => {
            let (deadline, runtime) = (or_null(&value[3], length)?, or_null(&value[4], length)?);
            Input::Retime { task, period: length(&value[2])?, deadline, runtime }
        }
        "call" => Input::Call { task, call: Call::from_parts(value[2].as_str()?, length(&value[3])?)? },
        "add" if task.index() >= system.tasks.len() => Input::Add { task, domain: or_null(&value[2], u16)? },
        "enter" => Input::Enter { task },
        "leave" => Input::Leave { task },
        "release" => Input::Release { task },
        "terms" => {
            let utility = value[4].as_u64().filter(|utility| *utility <= MOST)?;
            let (deadline, runtime) = (or_null(&value[2], length)?, or_null(&value[3], length)?);
            Input::Terms { task, deadline, runtime, utility }
        }
        _ => return None,
    })
}

/// `None` for what is no window table of the system.
fn table_from(value: &Value, system: &System) -> Option<WindowTable> {
    window_table::from_json(value).filter(|table| system.check_table(table).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::cpus::CpuSet;
    use takt_core::model::{BestEffortStart, PartitionId, Slice, Window};

    #[test]
    fn every_input_survives_the_file() {
        let (task, resource) = (TaskId(3), ResourceId(1));
        let inputs = [
            Input::Temperature { zone: 1, millidegrees: Some(-1_500) },
            Input::Temperature { zone: 0, millidegrees: None },
            Input::Usage { task, consumed: Work::nominal(Span::from_us(5)) },
            Input::Dispatched { task, place: Place(2), at: Time::ZERO + Span::from_us(9) },
            Input::Complete { task, job: 7 },
            Input::Block { task },
            Input::Hold { task },
            Input::Wake { task },
            Input::Lock { task, resource },
            Input::Unlock { task, resource },
            Input::Withdraw { task, resource },
            Input::Yield { task },
            Input::Skew { task, by: Span::from_ms(-2) },
            Input::Share { task, share: Some(250_000), importance: 3 },
            Input::Share { task, share: None, importance: 1 },
            Input::Abort { task },
            Input::Exit { task, ending: Ending { regular: true, replaced: false } },
            Input::Retime { task, period: Span::from_ms(3), deadline: Some(Span::from_ms(2)), runtime: None },
            Input::Call { task, call: Call::Deadline(Span::from_ms(7)) },
            Input::Enter { task },
            Input::Leave { task },
            Input::Release { task },
            Input::Terms { task, deadline: None, runtime: Some(Span::from_us(5)), utility: 3 },
            Input::Configure { setting: 2, value: Some(-5) },
            Input::Configure { setting: 0, value: None },
            Input::Switch { domain: Some(1), to: 2 },
            Input::Switch { domain: None, to: 0 },
            Input::Table { to: 1 },
        ];
        let [with_it, without, nothing_shared] = [(4, 2), (3, 2), (4, 1)].map(|(tasks, resources)| {
            let edf = PolicySpec::from_name("edf").expect("it is in the registry");
            let tasks = vec![Task::default(); tasks];
            System { tasks, resources, ..System::new(CpuSet::single(0), edf) }
        });
        for input in inputs {
            assert_eq!(from_json(&to_json(&input), &with_it, 0, 2), Some(input));
            let there = input.task().is_none().then_some(input);
            assert_eq!(from_json(&to_json(&input), &without, 0, 2), there, "a task that is not there");
            let shares = matches!(input, Input::Lock { .. } | Input::Unlock { .. } | Input::Withdraw { .. });
            assert_eq!(from_json(&to_json(&input), &nothing_shared, 0, 2).is_none(), shares, "{input:?}");
        }
        // A task that the record describes.
        let add = |task, domain| Input::Add { task: TaskId(task), domain };
        for input in [add(4, Some(1)), add(4, None)] {
            assert_eq!(from_json(&to_json(&input), &with_it, 1, 2), Some(input));
            assert_eq!(from_json(&to_json(&input), &with_it, 0, 2), None, "no task of that number");
        }
        assert_eq!(from_json(&to_json(&add(3, None)), &with_it, 1, 2), None, "a task of the workload");
    }

    #[test]
    fn a_window_table_survives_the_file() {
        let mut system =
            System::new(CpuSet::first(2), PolicySpec::from_name("windows").expect("it is in the registry"));
        system.tasks = vec![Task { arrival: takt_core::model::Arrival::Activated, ..Task::default() }; 2];
        let partition = |task| takt_core::model::Partition { tasks: vec![TaskId(task)], policy: None };
        system.partitions = vec![partition(0), partition(1)];
        let slice = |cpus, sc, be| Slice { cpus, sc, be };
        let (first, second) = (Some(PartitionId(0)), Some(PartitionId(1)));
        let window = |length, slices| Window { length: Span::from_ms(length), slices };
        let table = WindowTable {
            frequencies: vec![vec![(1, 600_000)]],
            windows: vec![
                window(5, vec![slice(CpuSet::first(2), first, second)]),
                window(3, vec![slice(CpuSet::single(1), None, first)]),
                window(1, Vec::new()),
            ],
            be_start: BestEffortStart::SliceDone,
            budgets: vec![(Some(Span::from_ms(2)), Span::from_ms(1)), (Some(Span::from_ms(1)), Span::ZERO)],
        };
        let value = window_table::to_json(&table);
        assert_eq!(table_from(&value, &system), Some(table));
        for (pointer, wrong) in [
            ("/frame", json!([])),
            ("/frame/0/length_ns", json!(0)),
            ("/frame/0/slices/0/sc", json!(2)),
            ("/frame/0/slices/0/cpus", json!("0-7")),
            ("/budgets/0", json!([null, 0])),
            ("/budgets/0", json!([1, 3])),
            ("/be_start", json!("never")),
        ] {
            let mut damaged = value.clone();
            *damaged.pointer_mut(pointer).expect("it is there") = wrong;
            assert_eq!(table_from(&damaged, &system), None, "{pointer}");
        }
    }
}
