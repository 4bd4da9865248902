//! `tasks`: periodic tasks under an online policy; and what processes of a table have in common with them.

use crate::code::Code;
use crate::copies::{self, Copies, copy_name};
use crate::diagnostic::{Diagnostic, Severity};
use crate::domains::Domains;
use crate::events;
use crate::machine::foreign_cpus;
use crate::node::{Entry, Kind, Node, Place};
use crate::reader::Reader;
use crate::task::{self, RawTask};
use crate::text::clipped;
use crate::{MAX_SERIES, MAX_TASKS, Workload, series};
use std::collections::HashMap;
use takt_core::cpus::CpuSet;
use takt_core::model::{Execution, PolicySpec, TaskId};

/// The names of all tasks, with the place of each.
#[derive(Default)]
pub(crate) struct Names(HashMap<String, Place>);

impl Names {
    pub(crate) fn add(&mut self, reader: &mut Reader, name: &str, place: &Place) {
        match self.0.get(name) {
            Some(first) => reader.push(
                Diagnostic::error(Code::DuplicateName, place, format!("two tasks are called `{}`", clipped(name)))
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

pub(crate) fn too_many(place: &Place) -> Diagnostic {
    Diagnostic::error(Code::LimitExceeded, place, format!("there are more than {MAX_TASKS} tasks"))
        .label("with this list there are")
}

/// The tasks as the file has them, the machine not yet known.
#[expect(clippy::vec_box, reason = "each gives back its memory when it becomes a task")]
pub(crate) struct TaskList(Vec<Box<Listed>>);

struct Listed {
    name: String,
    raw: RawTask,
    /// Without copies the task is there once, under its own name.
    copies: Option<Copies>,
}

/// Reads `tasks`. The command line says of some by their names how often they are there.
pub(crate) fn read(reader: &mut Reader, entry: &Entry, wanted: &[(String, usize)]) -> TaskList {
    let items = reader.items(&entry.value, "`tasks`", "write `- name: …` for each");
    if items.is_empty() && (entry.value.is_null() || matches!(entry.value.kind, Kind::List(_))) {
        let fault = Diagnostic::error(Code::EmptyValue, &entry.key_span, "`tasks` is empty")
            .label("there is nothing to schedule");
        reader.push(fault.hint("write a task such as `- {name: control, period: 10ms, runtime: 2ms}`"));
    }
    if items.len() > MAX_TASKS {
        reader.push(too_many(&items[MAX_TASKS].head()));
        return TaskList(Vec::new());
    }
    let mut names = Names::default();
    let mut room = MAX_TASKS;
    let mut list = Vec::new();
    for (index, node) in items.iter().enumerate() {
        let Some(listed) = task(reader, node, index, wanted) else { continue };
        let count = listed.copies.map_or(1, |copies| copies.count);
        if count > room {
            reader.push(too_many(&listed.raw.head));
            return TaskList(Vec::new());
        }
        room -= count;
        match listed.copies {
            Some(copies) => {
                (0..copies.count).for_each(|n| names.add(reader, &copy_name(&listed.name, n), &listed.raw.head));
            }
            None => names.add(reader, &listed.name, &listed.raw.head),
        }
        list.push(Box::new(listed));
    }
    if let Some((name, _)) = wanted.iter().find(|(name, _)| list.iter().all(|l| l.name != *name)) {
        let near = reader.nearest(name, list.iter().map(|l| l.name.as_str()));
        let label = near.map_or_else(|| "none of these".to_owned(), |near| format!("did you mean `{near}`?"));
        let fault =
            Diagnostic::error(Code::UnknownName, &entry.key_span, format!("no task is called `{}`", clipped(name)))
                .label(label);
        reader.push(fault.hint("`--copies NAME=N` takes the name of a task"));
    }
    TaskList(list)
}

fn task(reader: &mut Reader, node: &Node, index: usize, wanted: &[(String, usize)]) -> Option<Listed> {
    if !reader.is_map(node, "a task", "write `name`, `period`, `runtime` and `cmd`") {
        return None;
    }
    reader.keys(node, "a task", &task::KEYS);
    let mut raw = RawTask::new(node.get("name").map_or(node.head(), |e| e.value.span.clone()));
    raw.client = Some(reader.client);
    node.entries().iter().for_each(|entry| raw.key(reader, entry));
    let name = raw.name.as_ref().map_or_else(|| format!("T{}", index + 1), |(name, _)| name.clone());
    raw.finish(reader, node, &format!("task `{}`", clipped(&name)), "in this task", true);
    let wanted = wanted.iter().find(|(wanted, _)| *wanted == name).map(|(_, count)| *count);
    let copies = copies::of(reader, node.get("copies").map(|entry| &*entry.value), wanted);
    Some(Listed { name, raw, copies })
}

impl TaskList {
    /// All CPUs that tasks name.
    pub(crate) fn cpus(&self) -> CpuSet {
        let sets = self.0.iter().filter_map(|listed| listed.raw.cpus.as_deref());
        sets.fold(CpuSet::EMPTY, |all, (set, _)| all.union(set))
    }

    /// Places the tasks on the machine, whose policy is `policy` or where each is at home in one of `domains`, and fills the
    /// workload. The result is where messages about each task point, and its domain.
    pub(crate) fn build(
        self,
        reader: &mut Reader,
        machine: &CpuSet,
        policy: &PolicySpec,
        domains: Option<&Domains>,
        workload: &mut Workload,
    ) -> (Vec<Place>, Vec<Option<usize>>) {
        let sound = reader.diagnostics.iter().all(|d| d.severity == Severity::Warning);
        let count = self.0.iter().map(|listed| listed.copies.map_or(1, |copies| copies.count)).sum();
        let (mut homes, mut heads) = (Vec::with_capacity(count), Vec::with_capacity(count));
        workload.system.tasks.reserve_exact(count);
        workload.tasks.reserve_exact(count);
        // Each gives back its memory before the next one becomes a task.
        for listed in self.0 {
            let Listed { name, raw, copies } = &*listed;
            let of_kernel = raw.class.is_some();
            let home = domains.and_then(|all| if of_kernel { Some(0) } else { all.home(reader, raw, name) });
            let domain = domains.filter(|all| !of_kernel || all.has_some()).and_then(|all| Some(all.get(home?)));
            match (domains.filter(|_| !of_kernel), raw.domain.as_deref(), raw.cpus.as_deref()) {
                // Its `domain` was refused already.
                (None, Some(_), _) if of_kernel => {}
                (None, Some((_, place)), _) => reader.push(
                    Diagnostic::error(
                        Code::MissingKey,
                        place,
                        format!("task `{}` has a `domain`, and the file no `domains`", clipped(name)),
                    )
                    .label("there is none")
                    .hint("add `domains`, or remove this key"),
                ),
                (None, None, Some((set, place))) if !set.is_subset(machine) => {
                    reader.push(foreign_cpus(place, &set.difference(machine), machine, "the task"));
                }
                _ => {}
            }
            let policy = domain.map_or(policy, |domain| &domain.policy);
            let room = domain.filter(|_| !of_kernel).map_or(*machine, |domain| domain.cpus);
            let affinity = raw.cpus.as_deref().map_or(room, |(set, _)| *set);
            let task = raw.task(affinity, raw.budget, true);
            if raw.sound {
                raw.check(reader, name, &task);
            }
            // A value that could not be read would be reported a second time as missing.
            if sound && !of_kernel && (domains.is_none() || domain.is_some()) {
                task::check_needs(reader, policy, &task, name, &raw.head);
            }
            if let (Some(copies), Execution::Series(entries)) = (copies, &task.program.execution) {
                series::more(reader, entries.len().saturating_mul(copies.count - 1), &raw.head);
                if reader.entries > MAX_SERIES {
                    break;
                }
            }
            let first = workload.tasks.len();
            match copies {
                Some(copies) => {
                    for n in 0..copies.count {
                        workload.system.tasks.push(copies.copy(&task, n));
                        workload.tasks.push(raw.info(copy_name(name, n), None));
                    }
                }
                None => {
                    workload.system.tasks.push(task);
                    workload.tasks.push(raw.info(name.clone(), None));
                }
            }
            for task in first..workload.tasks.len() {
                let of = raw.thread_of.as_deref().cloned();
                reader.threads.extend(of.map(|(name, place)| (TaskId(task as u32), name, place)));
                events::note(
                    reader,
                    raw.event.as_deref(),
                    TaskId(task as u32),
                    copies.map(|copies| (copies, task - first)),
                );
            }
            homes.resize(workload.tasks.len(), home);
            heads.resize(workload.tasks.len(), raw.head.clone());
        }
        (heads, homes)
    }
}
