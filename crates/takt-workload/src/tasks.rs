//! `tasks`: periodic tasks under an online policy; and what processes of a table have in common with them.

use crate::diagnostic::Diagnostic;
use crate::node::{Entry, Kind, Node, Place};
use crate::reader::{Bare, Cpus, Reader, clipped, cpus_text};
use crate::value::policy_text;
use crate::{MAX_TASKS, Spawn, TaskInfo, Workload};
use std::collections::HashMap;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Task};
use takt_core::policy::{Need, PolicySpec, Scope};
use takt_core::time::Span;

pub(crate) const SPAWN: [(&str, Spawn); 2] = [("once", Spawn::Once), ("per-job", Spawn::PerJob)];

const TASK_KEYS: [&str; 14] = [
    "name",
    "cmd",
    "period",
    "deadline",
    "runtime",
    "offset",
    "budget",
    "jitter",
    "priority",
    "cpu",
    "init",
    "spawn",
    "output",
    "frequency",
];

/// The names of all tasks, with the place of each.
#[derive(Default)]
pub(crate) struct Names(HashMap<String, Place>);

impl Names {
    pub(crate) fn add(&mut self, reader: &mut Reader, name: &str, place: &Place) {
        match self.0.get(name) {
            Some(first) => reader.push(
                Diagnostic::error(place, format!("two tasks are called `{}`", clipped(name)))
                    .label("the second one")
                    .also(first, "the first one")
                    .hint("give one of them another `name`"),
            ),
            None => {
                self.0.insert(name.to_owned(), place.clone());
            }
        }
    }
}

/// A task's own name.
pub(crate) fn name(reader: &mut Reader, node: &Node) -> Option<String> {
    let name = reader.text(node, "name", "a name")?;
    if name.chars().any(char::is_control) {
        reader.push(
            Diagnostic::error(&node.span, "a name cannot hold control characters").label("such a character is in here"),
        );
        return None;
    }
    Some(name)
}

pub(crate) fn too_many(place: &Place) -> Diagnostic {
    Diagnostic::error(place, format!("there are more than {MAX_TASKS} tasks")).label("with this list there are")
}

pub(crate) fn foreign_cpus(place: &Place, foreign: &CpuSet, machine: &CpuSet) -> Diagnostic {
    Diagnostic::error(place, format!("{} outside the machine", cpus_text(foreign)))
        .label(format!("the machine is {}", cpus_text(machine)))
        .hint("the machine is set by `cpus`, or by `--cpus` on the command line")
}

/// A runtime that no schedule can fit, or that one CPU cannot sustain.
pub(crate) fn check_runtime(
    reader: &mut Reader,
    name: &str,
    task: &Task,
    runtime_place: Option<&(Span, Place)>,
    deadline_place: Option<&(Span, Place)>,
) {
    let (Some(runtime), Some((_, at_runtime))) = (task.runtime, runtime_place) else { return };
    let name = clipped(name);
    if let Some(deadline) = task.deadline
        && deadline < runtime
    {
        let message = format!("task `{name}` can never meet its deadline");
        reader.push(match deadline_place {
            Some((_, place)) => Diagnostic::error(place, message)
                .label(format!("shorter than its runtime of {runtime}"))
                .hint(format!("raise `deadline` to at least {runtime}, or lower `runtime`")),
            None => Diagnostic::error(at_runtime, message)
                .label(format!("longer than its period of {deadline}, which is its deadline, too"))
                .hint(format!("lower `runtime`, or set a `deadline` of at least {runtime}")),
        });
    } else if let Arrival::Periodic { period, .. } = task.arrival
        && runtime > period
    {
        reader.push(
            Diagnostic::warning(at_runtime, format!("task `{name}` needs more time than it has"))
                .label(format!("longer than its period of {period}"))
                .hint("its jobs will queue up without end: lower `runtime` or raise `period`"),
        );
    }
}

/// Whether the task has what its policy cannot do without.
pub(crate) fn check_needs(reader: &mut Reader, policy: &PolicySpec, task: &Task, name: &str, place: &Place) {
    let lacks = |need: Need| match need {
        Need::Period => matches!(task.arrival, Arrival::Activated).then_some("period"),
        Need::Deadline => task.deadline.is_none().then_some("deadline"),
        Need::Runtime => task.runtime.is_none().then_some("runtime"),
    };
    // Where a task belongs to one CPU, its utilisation decides which, unless there is no choice.
    let placed = policy.scope == Scope::Partitioned && task.affinity.len() > 1;
    let placing: &[Need] = if placed && !policy.entry.needs.contains(&Need::Runtime) { &[Need::Runtime] } else { &[] };
    for &need in policy.entry.needs.iter().chain(placing) {
        if let Some(key) = lacks(need) {
            let policy = policy_text(policy);
            reader.push(
                Diagnostic::error(place, format!("task `{}` has no `{key}`", clipped(name)))
                    .label(format!("the policy `{policy}` needs it"))
                    .hint(format!("add `{key}: 10ms`, or use another policy")),
            );
        }
    }
}

struct RawTask {
    info: TaskInfo,
    task: Task,
    cpus: Option<(CpuSet, Place)>,
    runtime: Option<(Span, Place)>,
    deadline: Option<(Span, Place)>,
    place: Place,
}

/// The tasks as the file has them, the machine not yet known.
pub(crate) struct TaskList(Vec<RawTask>);

/// Reads `tasks`.
pub(crate) fn read(reader: &mut Reader, entry: &Entry) -> TaskList {
    let items = reader.items(&entry.value, "`tasks`", "write `- name: …` for each");
    if items.is_empty() && (entry.value.is_null() || matches!(entry.value.kind, Kind::List(_))) {
        reader.push(Diagnostic::error(&entry.key_span, "`tasks` is empty").label("there is nothing to schedule"));
    }
    if items.len() > MAX_TASKS {
        reader.push(too_many(&items[MAX_TASKS].head()));
        return TaskList(Vec::new());
    }
    let mut names = Names::default();
    TaskList(items.iter().enumerate().filter_map(|(i, node)| task(reader, node, i, &mut names)).collect())
}

fn task(reader: &mut Reader, node: &Node, index: usize, names: &mut Names) -> Option<RawTask> {
    if !reader.is_map(node, "a task", "write `name`, `period`, `runtime` and `cmd`") {
        return None;
    }
    reader.keys(node, "a task", &TASK_KEYS);
    let place = node.get("name").map_or(node.head(), |e| e.value.span.clone());
    let mut raw = RawTask {
        info: TaskInfo {
            name: format!("T{}", index + 1),
            partition: None,
            cmd: None,
            init: false,
            spawn: Spawn::Once,
            output: None,
            frequency_mhz: None,
        },
        task: Task {
            arrival: Arrival::Activated,
            deadline: None,
            runtime: None,
            budget: None,
            jitter: Span::ZERO,
            priority: 0,
            affinity: CpuSet::EMPTY,
            ..Task::default()
        },
        cpus: None,
        runtime: None,
        deadline: None,
        place,
    };
    let (mut period, mut offset, mut jitter) = (None, Span::ZERO, None);
    let faults_before = reader.diagnostics.len();
    let mut init_place = None;
    for entry in node.entries() {
        let (key, value) = (entry.key.as_str(), &entry.value);
        let mut span = |bare: Bare, zero: bool| reader.span(value, key, bare, zero);
        match key {
            "period" => period = span(Bare::Refused, false),
            "deadline" => raw.deadline = span(Bare::Refused, false).map(|s| (s, value.span.clone())),
            "runtime" => raw.runtime = span(Bare::Refused, false).map(|s| (s, value.span.clone())),
            "offset" => offset = span(Bare::Refused, true).unwrap_or(Span::ZERO),
            "budget" => raw.task.budget = span(Bare::Milliseconds, false),
            "jitter" => jitter = span(Bare::Milliseconds, true).map(|s| (s, value.span.clone())),
            "name" => {
                if let Some(name) = name(reader, value) {
                    raw.info.name = name;
                }
            }
            "cmd" => raw.info.cmd = reader.text(value, key, "a command"),
            "priority" => raw.task.priority = reader.whole(value, key, u64::from(u32::MAX)).unwrap_or(0) as u32,
            "cpu" => {
                if let Some(Cpus::Set(set)) = reader.cpus(value, key) {
                    raw.cpus = Some((set, value.span.clone()));
                }
            }
            "init" => {
                raw.info.init = reader.boolean(value, key).unwrap_or(false);
                init_place = Some(value.span.clone());
            }
            "spawn" => raw.info.spawn = reader.choice(value, key, &SPAWN).unwrap_or_default(),
            "output" => raw.info.output = reader.text(value, key, "a file name").map(Into::into),
            "frequency" => raw.info.frequency_mhz = reader.frequency(value),
            _ => {}
        }
    }
    names.add(reader, &raw.info.name, &raw.place);
    if reader.lacks(node, "period") {
        reader.push(
            Diagnostic::error(&raw.place, format!("task `{}` has no `period`", clipped(&raw.info.name)))
                .label("in this task")
                .hint("add `period: 10ms`: its jobs are released that often"),
        );
    }
    if reader.diagnostics.len() > faults_before {
        return Some(raw);
    }
    if let (Some(place), true, Spawn::PerJob) = (&init_place, raw.info.init, raw.info.spawn) {
        reader.push(
            Diagnostic::error(
                place,
                format!("task `{}` starts anew for every job and cannot initialise before", clipped(&raw.info.name)),
            )
            .label("a process per job completes by ending, and signals nothing")
            .hint("remove `init`, or `spawn: per-job`"),
        );
    }
    if let Some((jitter, place)) = jitter {
        match raw.task.budget {
            Some(budget) if jitter > budget * 2 => reader.push(
                Diagnostic::error(&place, "the jitter is more than twice the budget")
                    .label(format!("the budget of {budget} ± {} could fall below zero", jitter / 2))
                    .hint(format!("lower `jitter` to at most {}", budget * 2)),
            ),
            Some(_) => raw.task.jitter = jitter,
            None => reader.push(
                Diagnostic::error(&place, "`jitter` needs a `budget`")
                    .label("nothing to vary")
                    .hint("add `budget`, or remove `jitter`"),
            ),
        }
    }
    if let Some(period) = period {
        raw.task.arrival = Arrival::Periodic { offset, period };
    }
    raw.task.deadline = raw.deadline.as_ref().map(|(d, _)| *d).or(period);
    raw.task.runtime = raw.runtime.as_ref().map(|(r, _)| *r);
    check_runtime(reader, &raw.info.name, &raw.task, raw.runtime.as_ref(), raw.deadline.as_ref());
    Some(raw)
}

impl TaskList {
    /// All CPUs that tasks name.
    pub(crate) fn cpus(&self) -> CpuSet {
        let sets = self.0.iter().filter_map(|t| t.cpus.as_ref());
        sets.fold(CpuSet::EMPTY, |all, (set, _)| all.union(set))
    }

    /// Places the tasks on the machine and fills the workload.
    pub(crate) fn build(self, reader: &mut Reader, machine: &CpuSet, policy: &PolicySpec, workload: &mut Workload) {
        let sound = reader.diagnostics.iter().all(|d| d.severity == crate::Severity::Warning);
        for mut raw in self.0 {
            raw.task.affinity = *machine;
            if let Some((set, place)) = &raw.cpus {
                let foreign = set.difference(machine);
                if !foreign.is_empty() {
                    reader.push(foreign_cpus(place, &foreign, machine));
                }
                raw.task.affinity = *set;
            }
            // A value that could not be read would be reported a second time as missing.
            if sound {
                check_needs(reader, policy, &raw.task, &raw.info.name, &raw.place);
            }
            workload.system.tasks.push(raw.task);
            workload.tasks.push(raw.info);
        }
    }
}
