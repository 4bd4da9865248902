//! `windows` and `partitions`: DEmOS's static schedule, with Takt's additions.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{PARTITION, SLICE, STALE, WINDOW, keys_of, names, of_processes};
use crate::machine::placement_matters;
use crate::node::{Entry, Kind, Node, Place};
use crate::reader::{Bare, Cpus, Reader};
use crate::task::{self, RawTask};
use crate::tasks;
use crate::words::CLIENT;
use crate::{MAX_TASKS, MAX_WINDOWS, policy};
use takt_core::cpus::CpuSet;
use takt_core::model::{Placement, PolicySpec, Scope};
use takt_core::time::Span;

mod raw;
mod resolve;

pub(crate) use raw::Table;
use raw::{RawPartition, RawSlice, RawWindow, Role, Target};
pub(crate) use resolve::build;

pub(crate) const WINDOW_KEYS: [&str; WINDOW.len()] = names(&WINDOW);
pub(crate) const SLICE_KEYS: [&str; SLICE.len()] = names(&SLICE);
pub(crate) const PARTITION_KEYS: [&str; PARTITION.len()] = names(&PARTITION);
/// Keys that a partition has for all of its processes.
const SHARED_KEYS: [&str; 1] = ["client"];

const PROCESS_HINT: &str = "write a command, or keys as in `{cmd: ./program, budget: 10}`";

/// Reads `partitions` and `windows`.
pub(crate) fn read(reader: &mut Reader, partitions: Option<&Entry>, windows: &Entry) -> Table {
    let mut table = Table::default();
    if let Some(entry) = partitions {
        for node in reader.items(&entry.value, "`partitions`", "write `- name: …` for each") {
            table.partition(reader, node, None);
        }
    }
    let items = reader.items(&windows.value, "`windows`", "write `- length: …` for each");
    if items.is_empty() && (windows.value.is_null() || matches!(windows.value.kind, Kind::List(_))) {
        reader.push(
            Diagnostic::error(Code::EmptyValue, &windows.key_span, "`windows` is empty")
                .label("the major frame needs at least one window")
                .hint("write `- length: 100` and what runs in it"),
        );
    }
    if items.len() > MAX_WINDOWS {
        reader.push(
            Diagnostic::error(
                Code::LimitExceeded,
                &items[MAX_WINDOWS].head(),
                format!("there are more than {MAX_WINDOWS} windows"),
            )
            .label("the first one too many"),
        );
        return table;
    }
    for node in items {
        table.window(reader, node);
    }
    table
}

impl Table {
    /// All CPUs that slices name, and whether one of them says `all`.
    pub(crate) fn cpus(&self) -> (CpuSet, bool) {
        let mut named = CpuSet::EMPTY;
        let mut all = false;
        for slice in self.windows.iter().flat_map(|w| &w.slices) {
            match &slice.cpus {
                Some(Cpus::Set(set)) => named = named.union(set),
                Some(Cpus::All) => all = true,
                None => {}
            }
        }
        (named, all)
    }

    fn window(&mut self, reader: &mut Reader, node: &Node) {
        if !reader.is_map(node, "a window", "write `length: 100`, and `slices` or `sc_partition`, `be_partition`") {
            return;
        }
        reader.keys(node, "a window", &WINDOW_KEYS);
        let hint = "add `length: 100`, a number of milliseconds";
        let length = reader.required(node, "a window", "length", "in this window", hint);
        let length = length.and_then(|e| reader.span(&e.value, "length", Bare::Milliseconds, false));
        let shorthand: Vec<&Entry> = node.entries().iter().filter(|e| SLICE_KEYS.contains(&e.key.as_str())).collect();
        let mut slices = Vec::new();
        if let Some(entry) = node.get("slices") {
            if let Some(other) = shorthand.first() {
                reader.push(
                    Diagnostic::error(
                        Code::ConflictingKeys,
                        &other.key_span,
                        format!("a window has both `slices` and `{}`", other.key),
                    )
                    .label("belongs to a window of one slice")
                    .also(&entry.key_span, "its slices are here")
                    .hint(format!("move `{}` into a slice", other.key)),
                );
            }
            for item in reader.items(&entry.value, "`slices`", "write `- cpu: …` for each") {
                slices.extend(self.slice(reader, item, length, false));
            }
        } else if !shorthand.is_empty() {
            slices.extend(self.slice(reader, node, length, true));
        }
        self.windows.push(RawWindow { place: node.head(), length, slices });
    }

    /// A slice, or (`implied`) the one slice that a window's own keys stand for.
    fn slice(&mut self, reader: &mut Reader, node: &Node, length: Option<Span>, implied: bool) -> Option<RawSlice> {
        if !implied {
            if !reader.is_map(node, "a slice", "write `cpu: 0` and `sc_partition` or `be_partition`") {
                return None;
            }
            reader.keys(node, "a slice", &SLICE_KEYS);
        }
        let hint = "add `cpu: 0`, a list such as `cpu: 0,2,5-7`, or `cpu: all`";
        let (cpus, cpus_place) = match node.get("cpu") {
            None if implied => (Some(Cpus::All), node.head()),
            _ => match reader.required(node, "a slice", "cpu", "in this slice", hint) {
                Some(entry) => (reader.cpus(&entry.value, "cpu"), entry.value.span.clone()),
                None => (None, node.head()),
            },
        };
        // Partitions without a name are numbered in the order in which DEmOS meets them.
        let mut entries: Vec<&Entry> = node.entries().iter().collect();
        if implied {
            entries.sort_by_key(|e| SLICE_KEYS.iter().position(|k| *k == e.key));
        }
        let mut sides: [Option<(Target, Place, &Entry)>; 2] = [None, None];
        let mut frequency = None;
        for entry in entries {
            let role = match entry.key.as_str() {
                "sc_partition" | "sc_processes" => Role::Sc,
                "be_partition" | "be_processes" => Role::Be,
                "frequency" => {
                    frequency = reader.frequency(&entry.value).map(|mhz| (mhz, entry.value.span.clone()));
                    continue;
                }
                _ => continue,
            };
            let side = usize::from(role == Role::Be);
            if let Some((_, _, first)) = &sides[side] {
                reader.push(
                    Diagnostic::error(
                        Code::ConflictingKeys,
                        &entry.key_span,
                        format!("a slice has both `{}` and `{}`", first.key, entry.key),
                    )
                    .label("the second one")
                    .also(&first.key_span, "the first one")
                    .hint("keep one of them"),
                );
                continue;
            }
            // A length that could not be read was reported; budgets that depend on it must not be reported again.
            let inside = Some((role, length.unwrap_or(Span::from_secs(1))));
            let target = if entry.key.ends_with("_processes") {
                Some((self.anonymous(reader, &entry.value, inside), entry.key_span.clone()))
            } else {
                self.target(reader, entry, inside)
            };
            sides[side] = target.map(|(target, place)| (target, place, entry));
        }
        let [sc, be] = sides.map(|side| side.map(|(target, place, _)| (target, place)));
        Some(RawSlice { cpus, cpus_place, sc, be, frequency })
    }

    /// A partition by name, or defined in place.
    fn target(&mut self, reader: &mut Reader, entry: &Entry, inside: Option<(Role, Span)>) -> Option<(Target, Place)> {
        let node = &entry.value;
        match &node.kind {
            Kind::Scalar { .. } => {
                let name = reader.text(node, &entry.key, "a partition")?;
                Some((Target::Name(name), node.span.clone()))
            }
            _ => {
                let index = self.partition(reader, node, inside)?;
                Some((Target::Index(index), entry.key_span.clone()))
            }
        }
    }

    /// A partition without a name of the processes in `node`.
    fn anonymous(&mut self, reader: &mut Reader, node: &Node, inside: Option<(Role, Span)>) -> Target {
        let processes = self.processes(reader, node, None);
        let name = self.anonymous_name();
        self.partitions.push(RawPartition { name, place: node.head(), policy: None, processes, inside });
        Target::Index(self.partitions.len() - 1)
    }

    fn anonymous_name(&mut self) -> String {
        self.anonymous += 1;
        format!("anonymous_{}", self.anonymous - 1)
    }

    /// A partition's definition: a list of processes, a mapping, or a mapping that is its only process.
    fn partition(&mut self, reader: &mut Reader, node: &Node, inside: Option<(Role, Span)>) -> Option<usize> {
        let (mut name, mut policy, mut place) = (None, None, node.head());
        // Also with a policy that could not be read: its processes' keys are not to be faulted for that.
        let chosen = node.get("policy");
        let processes = match &node.kind {
            Kind::List(_) => self.processes(reader, node, None),
            Kind::Map(_) => {
                let known = keys_of("a partition");
                let shared = |e: &Entry| SHARED_KEYS.contains(&e.key.as_str());
                let of_process = |e: &&Entry| of_processes().any(|key| key == e.key) && !shared(e);
                let own = node.entries().iter().find(of_process);
                reader.keys_but(node, "a partition", &known, &STALE);
                if let Some(entry) = node.get("name") {
                    name = partition_name(reader, &entry.value);
                    place = entry.value.span.clone();
                }
                policy = partition_policy(reader, node);
                let of_file = reader.client;
                if let Some(entry) = node.get("client").filter(|_| node.get("processes").is_some()) {
                    reader.client = reader.choice(&entry.value, "client", &CLIENT).unwrap_or_default();
                }
                let processes = match (node.get("processes"), own) {
                    (Some(list), own) => {
                        if let Some(own) = own {
                            reader.push(
                                Diagnostic::warning(
                                    Code::NoEffect,
                                    &own.key_span,
                                    format!("`{}` has no effect here", own.key),
                                )
                                .label("a key of a process")
                                .also(&list.key_span, "this partition's processes are here")
                                .hint(format!("move `{}` to a process, or remove it", own.key)),
                            );
                        }
                        self.processes(reader, &list.value, chosen)
                    }
                    (None, Some(_)) => self.process(reader, node, chosen, true).into_iter().collect(),
                    (None, None) => {
                        if reader.lacks(node, "processes") {
                            reader.push(
                                Diagnostic::error(Code::MissingKey, &place, "a partition has no `processes`")
                                    .label("in this partition")
                                    .hint("add `processes: [{cmd: ./program, budget: 10}]`"),
                            );
                        }
                        // It is kept, so that windows that name it are not faulted, too.
                        Vec::new()
                    }
                };
                reader.client = of_file;
                processes
            }
            Kind::Scalar { .. } => {
                reader.is_map(node, "a partition", "write `name: …` and `processes: […]`");
                return None;
            }
        };
        let name = name.unwrap_or_else(|| self.anonymous_name());
        self.partitions.push(RawPartition { name, place, policy, processes, inside });
        Some(self.partitions.len() - 1)
    }

    /// A list of processes, or a single one.
    fn processes(&mut self, reader: &mut Reader, node: &Node, policy: Option<&Entry>) -> Vec<RawTask> {
        match &node.kind {
            Kind::List(items) if items.is_empty() => {
                reader.push(
                    Diagnostic::error(Code::EmptyValue, &node.span, "a partition has no process")
                        .label("the list is empty")
                        .hint("add a process, or remove the partition: a slice may do without one"),
                );
                Vec::new()
            }
            Kind::List(items) => {
                if self.processes + items.len() > MAX_TASKS {
                    reader.push(tasks::too_many(&node.head()));
                    return Vec::new();
                }
                items.iter().filter_map(|item| self.process(reader, item, policy, false)).collect()
            }
            _ => self.process(reader, node, policy, false).into_iter().collect(),
        }
    }

    /// A process: its command or its keys. `policy` is that of its partition, `whole` when the mapping is the partition, too.
    fn process(&mut self, reader: &mut Reader, node: &Node, policy: Option<&Entry>, whole: bool) -> Option<RawTask> {
        let online = policy.is_some_and(|e| !is_one_by_one(&e.value));
        self.processes += 1;
        let mut process = RawTask::new(node.head());
        process.client = Some(reader.client);
        if matches!(node.kind, Kind::Scalar { .. }) {
            process.cmd = Some(reader.text(node, "cmd", "a command")?);
            return Some(process);
        }
        if !reader.is_map(node, "a process", PROCESS_HINT) {
            return None;
        }
        if !whole {
            reader.keys_but(node, "a process", &keys_of("a process"), &STALE);
        }
        for entry in node.entries() {
            let key = entry.key.as_str();
            if !online && task::ONLINE_KEYS.contains(&key) {
                reader.push(match policy {
                    // A policy that is there, but not an online one.
                    Some(fifo) => Diagnostic::error(
                        Code::NotSupportedHere,
                        &entry.key_span,
                        format!("`{key}` needs an online policy"),
                    )
                    .label("processes run one after the other here, each once per window")
                    .also(&fifo.value.head(), "in a partition, this is the order of the table")
                    .hint(format!("choose `policy: p-fifo` or another online policy, or remove `{key}`")),
                    None => Diagnostic::error(
                        Code::NotSupportedHere,
                        &entry.key_span,
                        format!("`{key}` needs a partition with a `policy`"),
                    )
                    .label("without a policy, processes run one after the other, each once per window")
                    .hint("add `policy: edf` to the partition, or remove this key"),
                });
            } else if STALE.contains(&key) {
                reader.push(
                    Diagnostic::warning(Code::NoEffect, &entry.key_span, format!("`{key}` has no effect"))
                        .label("an old key of DEmOS")
                        .hint("use `frequency`, a number of megahertz"),
                );
            } else if of_processes().any(|k| k == key) || (key == "name" && !whole) {
                process.key(reader, entry);
            }
        }
        // A batch job, or one from a list, may have no end.
        let enough = ["cmd", "thread_of", "runtime", "steps", "execution", "batch", "releases"];
        if enough.iter().all(|key| reader.lacks(node, key)) {
            reader.push(
                Diagnostic::error(Code::MissingKey, &node.head(), "a process has no `cmd`")
                    .label("in this process")
                    .hint("add `cmd: ./program`, or `runtime: 5ms` for a process that is only simulated"),
            );
        }
        let place = if online { "in a partition with a policy" } else { "in this process" };
        process.finish(reader, node, "a process", place, online);
        process.sound.then_some(process)
    }
}

/// A name that can also be a directory's: the executive may make one per partition.
fn partition_name(reader: &mut Reader, node: &Node) -> Option<String> {
    let name = reader.text(node, "name", "a name")?;
    if name.contains('/') || name.chars().any(char::is_control) {
        reader.push(
            Diagnostic::error(
                Code::InvalidCharacter,
                &node.span,
                "a partition's name cannot hold `/` or control characters",
            )
            .label("such a character is in here")
            .hint("use letters, digits, `-` and `_`"),
        );
    }
    Some(name)
}

/// The order of a partition's processes in files of DEmOS, one after the other. It is not the online policy of that name.
const ONE_BY_ONE: &str = "fifo";

fn is_one_by_one(node: &Node) -> bool {
    let named = node.get("name").map_or(node, |entry| &entry.value);
    matches!(&named.kind, Kind::Scalar { text, .. } if text.trim() == ONE_BY_ONE)
}

fn partition_policy(reader: &mut Reader, node: &Node) -> Option<PolicySpec> {
    let placement = node.get("placement").and_then(|e| reader.choice(&e.value, "placement", &Placement::ALL));
    let entry = node.get("policy")?;
    // Read all the same: settings that it does not have are to be faulted.
    let mut policy = policy::read(reader, &entry.value)?;
    if is_one_by_one(&entry.value) {
        if let Some(setting) = entry.value.entries().iter().find(|e| e.key != "name") {
            reader.push(
                Diagnostic::error(
                    Code::NotSupportedHere,
                    &setting.key_span,
                    "the `fifo` of a partition has no settings",
                )
                .label("its processes run one after the other, each once per window")
                .hint("remove it; an online policy of that name has a form in front, such as `p-fifo`"),
            );
        }
        return None;
    }
    if policy.scope == Scope::Table {
        reader.push(
            Diagnostic::error(
                Code::UnsuitablePolicy,
                &entry.value.span,
                format!("`{}` cannot be a partition's policy", policy.profile.name),
            )
            .label("this is the policy of the whole table")
            .hint("use `fifo`, the default, or an online policy such as `edf`"),
        );
        return None;
    }
    policy.placement = placement.unwrap_or(policy.placement);
    placement_matters(reader, node, &policy);
    Some(policy)
}
