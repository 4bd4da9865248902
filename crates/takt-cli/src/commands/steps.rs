//! What the engine was told in a run, step by step: one JSON array a line, `[now_ns, [input, …]]`, after a line about the workload.
//! `takt sim --replay` feeds it to a fresh engine.

use crate::failure::Failure;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use takt_core::engine::{Ending, Input};
use takt_core::model::{Call, ResourceId, System, TaskId};
use takt_core::policy::MAX_SETTINGS;
use takt_core::time::{Span, Time};
use takt_sim::Step;
use takt_workload::{MAX_DURATION, Workload};

/// Writes steps, if anybody wants them.
pub(crate) struct Writer {
    path: Option<PathBuf>,
    header: Value,
    out: Option<BufWriter<File>>,
    error: Option<io::Error>,
}

impl Writer {
    pub(crate) fn new(path: Option<&Path>, workload: &Workload, horizon: Option<Time>) -> Writer {
        let header = json!({"takt_steps": 1, "workload": workload.source.name, "tasks": workload.tasks.len(),
                            "seed": workload.system.seed, "horizon_ns": horizon.map(Time::ns)});
        Writer { path: path.map(Path::to_path_buf), header, out: None, error: None }
    }

    /// Creates the file, when there is something to write: a run that cannot begin leaves none behind.
    pub(crate) fn begin(&mut self) {
        let Some(path) = &self.path else { return };
        match File::create(path) {
            Ok(file) => {
                let mut out = BufWriter::new(file);
                self.error = writeln!(out, "{}", self.header).err();
                self.out = Some(out);
            }
            Err(e) => self.error = Some(e),
        }
    }

    fn put(&mut self, line: &Value) {
        if let (Some(out), None) = (&mut self.out, &self.error) {
            self.error = writeln!(out, "{line}").err();
        }
    }

    pub(crate) fn step(&mut self, now: Time, inputs: &[Input]) {
        if self.out.is_some() {
            self.put(&json!([now.ns(), inputs.iter().map(to_json).collect::<Vec<_>>()]));
        }
    }

    pub(crate) fn flush(&mut self) {
        if let (Some(out), None) = (&mut self.out, &self.error) {
            self.error = out.flush().err();
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        match (self.path, self.error) {
            (Some(path), Some(e)) => Err(Failure::file("write", &path, &e)),
            _ => Ok(()),
        }
    }
}

/// Reads the steps of a run, and the horizon of the jobs that it counted.
pub(crate) fn read(path: &Path, workload: &Workload) -> Result<(Vec<Step>, Option<Time>), Failure> {
    let file = File::open(path).map_err(|e| Failure::file("read", path, &e))?;
    let mut lines = BufReader::new(file).lines();
    let wrong = |line: usize, why: &str| {
        let message = format!("{}:{line}: {why}", path.display());
        Failure::input(message, "give the file that `takt run --record` wrote for this workload")
    };
    let first = lines.next().transpose().map_err(|e| Failure::file("read", path, &e))?;
    let header: Option<Value> = first.and_then(|line| serde_json::from_str(&line).ok());
    let header = header.filter(|h| h["takt_steps"] == 1).ok_or_else(|| wrong(1, "this is not a record of steps"))?;
    if header["tasks"] != workload.tasks.len() || header["seed"] != workload.system.seed {
        return Err(wrong(1, "it was recorded with another number of tasks or another seed"));
    }
    let mut steps = Vec::new();
    for (number, line) in lines.enumerate() {
        let line = line.map_err(|e| Failure::file("read", path, &e))?;
        let step = serde_json::from_str::<(Value, Vec<Value>)>(&line).ok().and_then(|(now, inputs)| {
            let inputs = inputs.iter().map(|v| from_json(v, &workload.system)).collect::<Option<Vec<_>>>()?;
            Some(Step { now: Time::ZERO + span(&now, 0)?, inputs })
        });
        let step = step.ok_or_else(|| wrong(number + 2, "this is not a step"))?;
        if steps.last().is_some_and(|last: &Step| last.now > step.now) {
            return Err(wrong(number + 2, "time runs backwards"));
        }
        steps.push(step);
    }
    let horizon = or_null(&header["horizon_ns"], |v| Some(Time::ZERO + span(v, 0)?));
    Ok((steps, horizon.ok_or_else(|| wrong(1, "its horizon is no instant of a run"))?))
}

/// A span from so many nanoseconds to [`MAX_DURATION`], which no run is longer than: sums of a few do not overflow.
fn span(value: &Value, least: i64) -> Option<Span> {
    value.as_i64().filter(|ns| (least..=MAX_DURATION.ns()).contains(ns)).map(Span::from_ns)
}

/// A whole number from `least` to `most`.
fn whole(value: &Value, least: u64, most: u64) -> Option<u64> {
    value.as_u64().filter(|number| (least..=most).contains(number))
}

/// What may be missing; the outer `None` is what is there and wrong.
fn or_null<T>(value: &Value, read: impl FnOnce(&Value) -> Option<T>) -> Option<Option<T>> {
    if value.is_null() { Some(None) } else { read(value).map(Some) }
}

fn to_json(input: &Input) -> Value {
    match *input {
        Input::Usage { task, consumed } => json!(["usage", task.0, consumed.ns()]),
        Input::Complete { task, job } => json!(["complete", task.0, job]),
        Input::Block { task } => json!(["block", task.0]),
        Input::Wake { task } => json!(["wake", task.0]),
        Input::Request { task, resource } => json!(["request", task.0, resource.0]),
        Input::Return { task, resource } => json!(["return", task.0, resource.0]),
        Input::Yield { task } => json!(["yield", task.0]),
        Input::Skew { task, by } => json!(["skew", task.0, by.ns()]),
        Input::Share { task, share, importance } => json!(["share", task.0, share, importance]),
        Input::Configure { setting, value } => json!(["configure", setting, value]),
        Input::Switch { domain, to } => json!(["switch", domain, to]),
        Input::Abort { task } => json!(["abort", task.0]),
        Input::Exit { task, ending } => json!(["exit", task.0, ending.regular, ending.replaced]),
        Input::Retime { task, period, deadline, runtime } => {
            json!(["retime", task.0, period.ns(), deadline.map(Span::ns), runtime.map(Span::ns)])
        }
        Input::Call { task, call } => {
            let (name, span) = call.parts();
            json!(["call", task.0, name, span.ns()])
        }
        Input::Enter { task } => json!(["enter", task.0]),
        Input::Leave { task } => json!(["leave", task.0]),
    }
}

/// `None` for what is no input, or not one that the system can have.
fn from_json(value: &Value, system: &System) -> Option<Input> {
    let u16 = |value: &Value| whole(value, 0, u64::from(u16::MAX)).map(|n| n as u16);
    if value[0] == "configure" {
        let setting = whole(&value[1], 0, MAX_SETTINGS as u64 - 1)? as u8;
        return Some(Input::Configure { setting, value: or_null(&value[2], Value::as_i64)? });
    }
    if value[0] == "switch" {
        return Some(Input::Switch { domain: or_null(&value[1], u16)?, to: u16(&value[2])? });
    }
    let task = TaskId(value[1].as_u64().filter(|t| *t < system.tasks.len() as u64)? as u32);
    let resource = || u16(&value[2]).filter(|r| *r < system.resources).map(ResourceId);
    let length = |value: &Value| span(value, 1);
    Some(match value[0].as_str()? {
        "usage" => Input::Usage { task, consumed: span(&value[2], 0)? },
        "complete" => Input::Complete { task, job: value[2].as_u64()? },
        "block" => Input::Block { task },
        "wake" => Input::Wake { task },
        "request" => Input::Request { task, resource: resource()? },
        "return" => Input::Return { task, resource: resource()? },
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
        "enter" => Input::Enter { task },
        "leave" => Input::Leave { task },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::cpus::CpuSet;
    use takt_core::model::Task;
    use takt_core::policy::PolicySpec;

    #[test]
    fn every_input_survives_the_file() {
        let (task, resource) = (TaskId(3), ResourceId(1));
        let inputs = [
            Input::Usage { task, consumed: Span::from_us(5) },
            Input::Complete { task, job: 7 },
            Input::Block { task },
            Input::Wake { task },
            Input::Request { task, resource },
            Input::Return { task, resource },
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
            Input::Configure { setting: 2, value: Some(-5) },
            Input::Configure { setting: 0, value: None },
            Input::Switch { domain: Some(1), to: 2 },
            Input::Switch { domain: None, to: 0 },
        ];
        let [with_it, without, nothing_shared] = [(4, 2), (3, 2), (4, 1)].map(|(tasks, resources)| {
            let edf = PolicySpec::from_name("edf").expect("it is in the registry");
            let tasks = vec![Task::default(); tasks];
            System { tasks, resources, ..System::new(CpuSet::single(0), edf) }
        });
        for input in inputs {
            assert_eq!(from_json(&to_json(&input), &with_it), Some(input));
            let there = input.task().is_none().then_some(input);
            assert_eq!(from_json(&to_json(&input), &without), there, "a task that is not there");
            let shares = matches!(input, Input::Request { .. } | Input::Return { .. });
            assert_eq!(from_json(&to_json(&input), &nothing_shared).is_none(), shares, "{input:?}");
        }
    }
}
