//! The fingerprint of a record: every value of the system that can change the engine's decisions, as JSON.
//!
//! A record of steps holds what the engine received and not what it decided. Fed to the engine of another system, it gives a
//! schedule that no machine ever had. The fingerprint names each value, so that a refusal can say which ones differ.

use serde_json::{Map, Value, json};
use takt_core::model::{
    Arrival, Backlog, BestEffortStart, Completion, Domain, Handler, Late, Load, Locking, OnAbort, Partition, Placement,
    PolicySpec, Reservation, Server, Slice, System, TableRules, Task, TaskId, Timing, Window,
};
use takt_core::time::Span;
use takt_workload::{TaskInfo, Workload, duration_text, policy_text, utility_text};

/// Version of the fingerprint's form. It is independent of the version of the steps.
const VERSION: u64 = 1;

/// A value in which two fingerprints differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    /// The value's name in the words of the workload file, such as ``task `a`: runtime``.
    pub(crate) key: String,
    /// The value in the recorded run; `not set` where it had none.
    pub(crate) recorded: String,
    /// The value in the system that replays.
    pub(crate) asked: String,
}

/// The fingerprint of a workload without what is only simulated ([`Workload::clear_simulated`]). O(size of the system).
pub(crate) fn of(workload: &Workload) -> Value {
    let names = |tasks: &[TaskId]| tasks.iter().map(|t| workload.tasks[t.index()].name.clone()).collect::<Vec<_>>();
    // No `..` here and below: a new field of the model has to be judged, too.
    let System {
        cpus: _,
        // No file has any.
        speeds: _,
        tasks,
        removed: _,
        partitions,
        windows,
        servers,
        be_start,
        rules,
        domains,
        policy: system_policy,
        alternatives,
        late,
        backlog,
        resources: _,
        locking,
        timing: Timing { tick, resolution, lateness },
        load,
        // The record has a line for it, and a replay takes it from there.
        horizon: _,
        seed,
        // No file has any: the record has those of the run.
        tables: _,
    } = &workload.system;
    let mut all = policy(system_policy);
    all.insert("version".into(), VERSION.into());
    // Imaginary CPUs follow from the tasks that have a class.
    all.insert("cpus".into(), workload.machine().to_string().into());
    all.insert("seed".into(), (*seed).into());
    all.insert("late".into(), late_text(*late).into());
    all.insert("backlog".into(), backlog_text(*backlog).into());
    all.insert("locking".into(), locking_text(*locking).into());
    let be_start = match be_start {
        BestEffortStart::AllDone => "all",
        BestEffortStart::SliceDone => "slice",
    };
    all.insert("be_start".into(), be_start.into());
    // A record of an older version has none.
    if *rules == TableRules::Demos {
        all.insert("rules".into(), "demos".into());
    }
    all.insert("alternatives".into(), alternatives.iter().map(policy_text).collect());
    for (key, value) in [("tick", tick), ("timer_resolution", resolution), ("timer_lateness", lateness)] {
        all.insert(key.into(), span(*value));
    }
    all.insert("load".into(), load.as_ref().map_or(Value::Null, load_value));
    all.insert("resources".into(), workload.resources.clone().into());
    let partition = |(Partition { tasks, policy: own }, name): (&Partition, &String)| {
        let mut all = own.as_ref().map(policy).unwrap_or_default();
        all.insert("name".into(), name.clone().into());
        all.insert("processes".into(), names(tasks).into());
        Value::Object(all)
    };
    all.insert("partitions".into(), partitions.iter().zip(&workload.partitions).map(partition).collect());
    let domain = |(Domain { cpus, band, tasks, policy: own }, name): (&Domain, &String)| {
        let mut all = policy(own);
        all.insert("name".into(), name.clone().into());
        all.insert("cpus".into(), cpus.to_string().into());
        // A recorded run before bands has none.
        if *band != 0 {
            all.insert("band".into(), (*band).into());
        }
        all.insert("tasks".into(), names(tasks).into());
        Value::Object(all)
    };
    all.insert("domains".into(), domains.iter().zip(&workload.domains).map(domain).collect());
    let server = |(Server { reservation: own, priority }, name): (&Server, &String)| json!({"name": name, "reservation": reservation(*own), "priority": priority});
    all.insert("servers".into(), servers.iter().zip(&workload.servers).map(server).collect());
    all.insert("windows".into(), windows.iter().map(|w| window(w, workload)).collect());
    let described = |(t, info): (&Task, &TaskInfo)| task(t, info, workload);
    all.insert("tasks".into(), tasks.iter().zip(&workload.tasks).map(described).collect());
    Value::Object(all)
}

/// The values in which `recorded` differs from `asked`, in the order of their names. O(size of both).
pub(crate) fn differences(recorded: &Value, asked: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", recorded, asked, &mut found);
    found
}

/// Whether [`differences`] understands this fingerprint.
pub(crate) fn is_known(fingerprint: &Value) -> bool {
    fingerprint["version"] == VERSION
}

fn compare(key: &str, recorded: &Value, asked: &Value, found: &mut Vec<Difference>) {
    let within = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}: {name}") };
    match (recorded, asked) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let [a, b] = [a, b].map(|map| map.get(name).unwrap_or(&Value::Null));
                compare(&within(name), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                let [recorded, asked] = [a, b].map(|list| list.len().to_string());
                found.push(Difference { key: format!("{key}: number"), recorded, asked });
            }
            // `tasks` holds a `task`.
            let (outer, list) = key.rsplit_once(": ").map_or((String::new(), key), |(o, l)| (format!("{o}: "), l));
            for (n, (a, b)) in a.iter().zip(b).enumerate() {
                let entry = match b["name"].as_str() {
                    Some(name) => format!("{} `{name}`", list.strip_suffix('s').unwrap_or(list)),
                    None => format!("{list}[{n}]"),
                };
                compare(&format!("{outer}{entry}"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(Difference { key: key.to_owned(), recorded: text(a), asked: text(b) }),
    }
}

/// A value without quotation marks.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn span(span: Span) -> Value {
    duration_text(span).into()
}

/// The values of a policy.
pub(crate) fn policy(spec: &PolicySpec) -> Map<String, Value> {
    let text = policy_text(spec);
    let (name, settings) = text.split_once(':').unwrap_or((&text, ""));
    let settings = settings.split(',').filter_map(|s| s.split_once('=')).map(|(k, v)| (k.to_owned(), v.into()));
    let placement = Placement::ALL.iter().find(|(_, p)| *p == spec.placement).map_or("", |(name, _)| *name);
    let mut all = Map::new();
    all.insert("policy".into(), name.into());
    all.insert("scope".into(), spec.scope.name().into());
    all.insert("placement".into(), placement.into());
    all.insert("settings".into(), Value::Object(settings.collect()));
    if let Some(module) = crate::modules::module(spec) {
        all.insert("module".into(), format!("SHA-256 {}", module.sha256()).into());
    }
    all
}

fn late_text(late: Late) -> &'static str {
    match late {
        Late::Continue => "continue",
        Late::Abort => "abort",
        Late::AbortAtEvent => "abort-at-event",
    }
}

fn backlog_text(backlog: Backlog) -> &'static str {
    match backlog {
        Backlog::Queue => "queue",
        Backlog::Skip => "skip",
        Backlog::Chronos => "chronos",
        Backlog::Hartstone => "hartstone",
    }
}

fn locking_text(locking: Locking) -> &'static str {
    match locking {
        Locking::Fifo => "fifo",
        Locking::Inheritance => "inheritance",
        Locking::Ceiling => "ceiling",
    }
}

fn load_value(Load { points, repeat }: &Load) -> Value {
    let points: Vec<Value> = points.iter().map(|(at, factor)| json!([duration_text(*at), factor])).collect();
    json!({"points": points, "repeat": repeat.map(duration_text)})
}

fn reservation(Reservation { budget, period, deadline }: Reservation) -> Value {
    json!({"budget": span(budget), "period": span(period), "deadline": deadline.map(duration_text)})
}

fn window(Window { length, slices }: &Window, workload: &Workload) -> Value {
    let slice = |Slice { cpus, sc, be }: &Slice| {
        let [sc, be] = [sc, be].map(|id| id.map(|id| &workload.partitions[id.index()]));
        json!({"cpu": cpus.to_string(), "sc_partition": sc, "be_partition": be})
    };
    json!({"length": span(*length), "slices": slices.iter().map(slice).collect::<Vec<_>>()})
}

/// A task; keys that have the value of [`Task::default`] are left out.
fn task(task: &Task, info: &TaskInfo, workload: &Workload) -> Value {
    let Task {
        arrival,
        deadline,
        runtime,
        // The processes do the work, so it is cleared before a run and before its replay.
        program: _,
        handler,
        on_abort,
        completion,
        utility,
        budget,
        jitter,
        reservation: own,
        server,
        priority,
        share,
        importance,
        affinity,
    } = task;
    let mut all = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        all.extend(value.map(|value| (key.to_owned(), value)));
    };
    put("name", Some(info.name.clone().into()));
    put("class", info.class.map(|class| class.to_string().into()));
    match arrival {
        Arrival::Periodic { offset, period } => {
            put("period", Some(span(*period)));
            put("offset", Some(span(*offset)));
        }
        Arrival::Sporadic { offset, period, spread } => {
            put("period", Some(span(*period)));
            put("offset", Some(span(*offset)));
            put("spread", Some(span(*spread)));
        }
        Arrival::Listed { instants } => put("releases", Some(instants.iter().map(|at| span(*at)).collect())),
        Arrival::Event { distance, queue, after } => {
            let after = after.map(|first| workload.tasks[first.index()].name.clone());
            put("event", Some(json!({"distance": span(*distance), "queue": queue, "after": after})));
        }
        Arrival::Activated => {}
    }
    put("deadline", deadline.map(span));
    put("runtime", runtime.map(span));
    put("budget", budget.map(span));
    put("jitter", (*jitter != Span::ZERO).then(|| span(*jitter)));
    put("reservation", own.map(reservation));
    put("server", server.map(|id| workload.servers[id.index()].clone().into()));
    put("priority", (*priority != 0).then(|| (*priority).into()));
    put("share", share.map(Value::from));
    put("importance", (*importance != 1).then(|| (*importance).into()));
    put("utility", utility.as_ref().map(|utility| utility_text(utility).into()));
    put("cpu", (*affinity != workload.system.cpus).then(|| affinity.to_string().into()));
    let of_handler = |Handler { runtime, deadline, utility }: &Handler| json!({"runtime": span(*runtime), "deadline": deadline.map(duration_text), "utility": utility});
    put("handler", handler.as_ref().map(of_handler));
    let on_abort = match on_abort {
        OnAbort::Finish => "finish",
        OnAbort::Restart => "restart",
        OnAbort::Signal => "signal",
    };
    put("on_abort", Some(on_abort.into()));
    let completion = match completion {
        Completion::Undeclared => None,
        Completion::Signal => Some("signal"),
        Completion::Exit => Some("exit"),
        Completion::None => Some("none"),
    };
    put("completion", completion.map(Value::from));
    Value::Object(all)
}
