//! The lines of the control socket: one JSON object each (`docs/operation.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use takt_core::stats::Histogram;
use takt_core::time::{Span, Time};
use takt_exec::EventKind;
use takt_trace::live::Snapshot;

/// Version of the lines.
pub(crate) const VERSION: u64 = 1;
/// The key with the version.
pub(crate) const KEY: &str = "takt_control";
/// The longest request in bytes, without its newline.
pub(crate) const LINE_MAX: usize = 64 << 10;
/// The shortest and the longest time between two statuses of `watch`, in milliseconds.
pub(crate) const INTERVAL_MS: std::ops::RangeInclusive<u64> = 10..=60_000;

/// A request, without its version.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// One status.
    Status {},
    /// A status each so many milliseconds, until the client closes the connection.
    Watch { interval_ms: u64 },
    /// The figures of `takt top` each so many milliseconds, until the client closes the connection.
    Top { interval_ms: u64 },
    /// Other terms of a task, as text: `{"period": "5ms"}`.
    Set { task: String, terms: Vec<(String, String)> },
    /// Another policy.
    Policy {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domain: Option<String>,
        policy: String,
    },
    /// A task comes back, or one that the file of this absolute path describes is added.
    Add {
        task: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// A task leaves. With a time of grace, its process ends.
    Remove {
        task: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_grace_ms: Option<u64>,
    },
    /// An event.
    Trigger { task: String },
    /// Another version of the workload, in the file of this absolute path.
    Reload { file: String },
    /// The end.
    Stop { grace_ms: Option<u64> },
    /// Another file of the trace begins.
    TraceRotate {},
}

impl Request {
    /// The request as the command line has it, for the record of a run.
    pub(crate) fn text(&self) -> String {
        match self {
            Request::Status {} => "status".into(),
            Request::Watch { interval_ms } => format!("watch --interval {interval_ms}ms"),
            Request::Top { interval_ms } => format!("top --interval {interval_ms}ms"),
            Request::Set { task, terms } => {
                let terms: Vec<String> = terms.iter().map(|(term, value)| format!("{task}.{term}={value}")).collect();
                format!("set {}", terms.join(" "))
            }
            Request::Policy { domain: Some(domain), policy } => format!("policy {domain} {policy}"),
            Request::Policy { domain: None, policy } => format!("policy {policy}"),
            Request::Add { task, file: None } => format!("add {task}"),
            Request::Add { task, file: Some(file) } => format!("add {task} --from {file}"),
            Request::Remove { task, end_grace_ms: None } => format!("remove {task}"),
            Request::Remove { task, end_grace_ms: Some(_) } => format!("remove {task} --end"),
            Request::Trigger { task } => format!("trigger {task}"),
            Request::Reload { file } => format!("reload {file}"),
            Request::Stop { .. } => "stop".into(),
            Request::TraceRotate {} => "trace rotate".into(),
        }
    }

    pub(crate) fn line(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value[KEY] = VERSION.into();
        format!("{value}\n")
    }
}

/// Reads a line of a client.
///
/// # Errors
/// The fault of the line.
pub(crate) fn parse(line: &[u8]) -> Result<Request, Fault> {
    let wrong = |message: String, hint: &str| Fault { code: "wrong-request".into(), message, hint: hint.into() };
    let format = "see docs/operation.md for the form of requests";
    let text = std::str::from_utf8(line).map_err(|_| wrong("the request is no text in UTF-8".into(), format))?;
    let mut value: Value =
        serde_json::from_str(text).map_err(|e| wrong(format!("the request is no JSON: {e}"), format))?;
    let Some(object) = value.as_object_mut() else { return Err(wrong("the request is no object".into(), format)) };
    match object.remove(KEY).map(|version| version.as_u64()) {
        Some(Some(VERSION)) => {}
        Some(_) => {
            return Err(wrong(format!("the run speaks version {VERSION} of `{KEY}`"), "use the `takt` of the run"));
        }
        None => return Err(wrong(format!("the request has no `{KEY}`"), format)),
    }
    let request: Request = serde_json::from_value(value).map_err(|e| wrong(e.to_string(), format))?;
    if let Request::Watch { interval_ms } | Request::Top { interval_ms } = request
        && !INTERVAL_MS.contains(&interval_ms)
    {
        let hint = format!("choose from {} to {} milliseconds", INTERVAL_MS.start(), INTERVAL_MS.end());
        return Err(wrong(format!("an interval of {interval_ms} ms is out of range"), &hint));
    }
    Ok(request)
}

/// Why nothing was done.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// A stable name.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// The name of a fault that is the policy's answer and no error of the request.
pub(crate) const NOT_ADMITTED: &str = "not-admitted";

/// The name of the fault of a task whose process could not be started, which is no error of the request.
pub(crate) const NOT_STARTED: &str = "not-started";

/// The name of the fault of a command that came too late.
pub(crate) const OVER: &str = "over";

/// An answer.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    Status(Box<Status>),
    Figures(Box<Snapshot>),
    Done(Done),
    Error(Fault),
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    /// `changed`, `unchanged`, `rotating` or `stopping`.
    pub(crate) result: String,
    /// When the schedule changed, since its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_ns: Option<i64>,
    /// The border of the major frame from which the new window table holds, since the start of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from_ns: Option<i64>,
    /// A consequence that the sender may not want.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl Reply {
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value[KEY] = VERSION.into();
        format!("{value}\n").into_bytes()
    }

    /// Reads a line of a run.
    pub(crate) fn parse(line: &str) -> Result<Reply, String> {
        let mut value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let version = value.as_object_mut().and_then(|object| object.remove(KEY));
        match version.as_ref().and_then(Value::as_u64) {
            Some(VERSION) => serde_json::from_value(value).map_err(|e| e.to_string()),
            other => Err(format!("the run speaks version {} of `{KEY}`", json!(other))),
        }
    }
}

/// A run at one instant. Durations and instants are in nanoseconds; instants count from the start of the schedule.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(crate) struct Status {
    /// The name of the run.
    pub(crate) run: String,
    /// Process id of `takt run`.
    pub(crate) pid: u32,
    /// The file of the workload.
    pub(crate) file: String,
    /// When the schedule is to end; absent without a planned end.
    pub(crate) duration_ns: Option<i64>,
    pub(crate) elapsed_ns: i64,
    /// The last step of the engine that the figures include.
    pub(crate) stepped_ns: i64,
    /// Records were lost: the figures stand still, and changes are refused.
    pub(crate) incomplete: bool,
    pub(crate) policies: Vec<Policy>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) events: Vec<Event>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Policy {
    /// Absent where the system has no domains.
    pub(crate) domain: Option<String>,
    /// With its settings.
    pub(crate) policy: String,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) pid: Option<i32>,
    /// `idle`, `ready`, `running`, `blocked` or `gone`.
    pub(crate) state: String,
    /// The kernel schedules it (`class:`).
    pub(crate) of_kernel: bool,
    /// Where its job runs, or last ran, such as `0-1`.
    pub(crate) cpus: Option<String>,
    pub(crate) period_ns: Option<i64>,
    pub(crate) deadline_ns: Option<i64>,
    pub(crate) runtime_ns: Option<i64>,
    /// In millionths of a CPU.
    pub(crate) share: Option<u32>,
    pub(crate) importance: u32,
    pub(crate) job: Option<u64>,
    pub(crate) released: u64,
    pub(crate) completed: u64,
    pub(crate) met: u64,
    pub(crate) missed: u64,
    pub(crate) aborted: u64,
    pub(crate) skipped: u64,
    /// Activations of a process in a window table, and how many of them were cut off.
    pub(crate) activations: u64,
    pub(crate) cut_off: u64,
    pub(crate) lost: u64,
    pub(crate) dispatches: u64,
    pub(crate) preemptions: u64,
    pub(crate) migrations: u64,
    pub(crate) consumed_ns: i64,
    pub(crate) budget_left_ns: Option<i64>,
    /// Absent before the first completed job.
    pub(crate) response: Option<Response>,
}

/// Response times of completed jobs.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    pub(crate) count: u64,
    pub(crate) p50_ns: i64,
    pub(crate) p99_ns: i64,
    pub(crate) max_ns: i64,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cpu {
    pub(crate) cpu: usize,
    /// The task that runs.
    pub(crate) task: Option<String>,
    /// How long jobs have had the CPU.
    pub(crate) busy_ns: i64,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    /// Counts all events of the run from zero; a status has the last 64.
    pub(crate) number: u64,
    pub(crate) at_ns: i64,
    /// Such as `aborted` or `exit`.
    pub(crate) kind: String,
    /// The policy that has taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) job: Option<u64>,
}

/// The facts about a run in each status.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) run: String,
    pub(crate) file: String,
    pub(crate) duration: Option<Span>,
}

fn since(at: Time) -> i64 {
    (at - Time::ZERO).ns()
}

fn response(times: &Histogram) -> Option<Response> {
    (times.count() > 0).then(|| Response {
        count: times.count(),
        p50_ns: times.quantile(500).ns(),
        p99_ns: times.quantile(990).ns(),
        max_ns: times.max().ns(),
    })
}

impl Status {
    pub(crate) fn new(about: &About, status: &takt_exec::Status) -> Status {
        let name = |task: takt_core::model::TaskId| status.tasks[task.index()].name.clone();
        Status {
            run: about.run.clone(),
            pid: std::process::id(),
            file: about.file.clone(),
            duration_ns: about.duration.map(Span::ns),
            elapsed_ns: status.elapsed.ns(),
            stepped_ns: since(status.stepped),
            incomplete: status.is_incomplete,
            policies: (status.policies.iter())
                .map(|own| Policy { domain: own.domain.clone(), policy: takt_workload::policy_text(&own.policy) })
                .collect(),
            tasks: (status.tasks.iter())
                .map(|task| Task {
                    name: task.name.clone(),
                    pid: task.pid,
                    state: task.state.name().into(),
                    of_kernel: task.of_kernel,
                    cpus: task.cpus.map(|cpus| cpus.to_string()),
                    period_ns: task.period.map(Span::ns),
                    deadline_ns: task.deadline.map(Span::ns),
                    runtime_ns: task.runtime.map(Span::ns),
                    share: task.share,
                    importance: task.importance,
                    job: task.job,
                    released: task.counts.released,
                    completed: task.counts.completed,
                    met: task.counts.met,
                    missed: task.counts.missed,
                    aborted: task.counts.aborted,
                    skipped: task.skipped,
                    activations: task.counts.activations,
                    cut_off: task.counts.cut_off,
                    lost: task.counts.lost,
                    dispatches: task.counts.dispatches,
                    preemptions: task.counts.preemptions,
                    migrations: task.counts.migrations,
                    consumed_ns: task.consumed.nominal_time().ns(),
                    budget_left_ns: task.budget_left.map(Span::ns),
                    response: response(&task.responses),
                })
                .collect(),
            cpus: (status.cpus.iter())
                .map(|cpu| Cpu { cpu: cpu.cpu, task: cpu.task.map(name), busy_ns: cpu.busy.ns() })
                .collect(),
            events: (status.events.iter())
                .map(|event| Event {
                    number: event.number,
                    at_ns: since(event.at),
                    kind: event.kind.name().into(),
                    policy: match event.kind {
                        EventKind::Switch(to) => {
                            status.alternatives.get(usize::from(to)).map(takt_workload::policy_text)
                        }
                        _ => None,
                    },
                    task: event.task.map(name),
                    job: event.job,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::rng::draw_up_to;

    fn requests() -> Vec<Request> {
        let task = || "a \"b\"\n\u{e4}".to_owned();
        vec![
            Request::Status {},
            Request::Watch { interval_ms: 10 },
            Request::Top { interval_ms: 60_000 },
            Request::Set { task: task(), terms: vec![("period".into(), "5ms".into()), ("share".into(), "0.5".into())] },
            Request::Policy { domain: None, policy: "edf".into() },
            Request::Policy { domain: Some(task()), policy: "rr:quantum=2ms".into() },
            Request::Add { task: task(), file: None },
            Request::Add { task: task(), file: Some("/a/b.yaml".into()) },
            Request::Remove { task: task(), end_grace_ms: None },
            Request::Remove { task: task(), end_grace_ms: Some(7) },
            Request::Trigger { task: task() },
            Request::Reload { file: "/a/b.yaml".into() },
            Request::Stop { grace_ms: None },
            Request::Stop { grace_ms: Some(5) },
            Request::TraceRotate {},
        ]
    }

    #[test]
    fn the_event_of_a_switch_names_the_policy() {
        let edf = takt_core::model::PolicySpec::from_name("edf").expect("a policy");
        let event = |number, kind| takt_exec::RunEvent { number, at: Time::ZERO, task: None, job: None, kind };
        let status = takt_exec::Status {
            elapsed: Span::ZERO,
            stepped: Time::ZERO,
            policies: Vec::new(),
            tasks: Vec::new(),
            cpus: Vec::new(),
            alternatives: vec![edf],
            events: vec![event(0, EventKind::Switch(0)), event(1, EventKind::Switch(9)), event(2, EventKind::Table)],
            is_incomplete: false,
        };
        let about = About { run: "7-1".into(), file: "w.yaml".into(), duration: None };
        let told = Status::new(&about, &status).events;
        let told: Vec<_> = told.iter().map(|event| (event.kind.as_str(), event.policy.as_deref())).collect();
        assert_eq!(told, [("switch", Some("edf")), ("switch", None), ("table", None)]);
    }

    #[test]
    fn requests_survive_their_lines() {
        for request in requests() {
            let line = request.line();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(parse(line.trim_end().as_bytes()).as_ref(), Ok(&request), "{line}");
            assert!(!request.text().is_empty());
        }
    }

    #[test]
    fn malformed_requests_are_refused_with_a_reason() {
        for (line, why) in [
            ("", "no JSON"),
            ("[]", "no object"),
            ("{}", "no `takt_control`"),
            ("{\"takt_control\":2,\"command\":\"status\"}", "version 1"),
            ("{\"takt_control\":1}", "command"),
            ("{\"takt_control\":1,\"command\":\"nothing\"}", "unknown variant"),
            ("{\"takt_control\":1,\"command\":\"status\",\"more\":1}", "more"),
            ("{\"takt_control\":1,\"command\":\"watch\",\"interval_ms\":1}", "out of range"),
            ("{\"takt_control\":1,\"command\":\"add\",\"task\":5}", "string"),
        ] {
            let fault = parse(line.as_bytes()).expect_err(line);
            assert!(fault.message.contains(why), "{line}: {}", fault.message);
        }
        assert!(parse(b"\xff").is_err());
    }

    /// Lines that were damaged at random, at up to four places.
    #[test]
    fn damaged_lines_never_panic() {
        let (seed, mut drawn) = (takt_testing::seed(), 0);
        let mut draw = |most: usize| {
            drawn += 1;
            draw_up_to(most as u64 - 1, seed, 3, drawn) as usize
        };
        let all = requests();
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut line = all[draw(all.len())].line().into_bytes();
            for _ in 0..draw(4) + 1 {
                let at = draw(line.len());
                match draw(3) {
                    0 => line[at] = draw(256) as u8,
                    1 => line.truncate(at + 1),
                    _ => line.insert(at, draw(256) as u8),
                }
            }
            match parse(&line) {
                Ok(request) => assert_eq!(parse(request.line().trim_end().as_bytes()), Ok(request)),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 5_000, "{refused}; {}", takt_testing::repeat(1));
    }
}
