//! `windows` and `partitions`: DEmOS's static schedule, with Takt's additions.

use crate::diagnostic::Diagnostic;
use crate::node::{Entry, Kind, Node, Place};
use crate::reader::{Bare, Cpus, Reader, clipped, cpus_text};
use crate::task::{self, RawTask};
use crate::tasks::{self, Names};
use crate::value::{MAX_DURATION, choices, nearest};
use crate::{MAX_TASKS, MAX_WINDOWS, Workload, policy};
use std::collections::HashMap;
use takt_core::cpus::CpuSet;
use takt_core::model::{Partition, PartitionId, Slice, Task, TaskId, Window};
use takt_core::policy::{Placement, PolicySpec, Scope};
use takt_core::time::Span;

const WINDOW_KEYS: [&str; 8] =
    ["length", "slices", "cpu", "sc_partition", "be_partition", "sc_processes", "be_processes", "frequency"];
const SLICE_KEYS: [&str; 6] = ["cpu", "sc_partition", "be_partition", "sc_processes", "be_processes", "frequency"];
const PARTITION_KEYS: [&str; 4] = ["name", "processes", "policy", "placement"];
/// Keys of DEmOS's past that its own test files still hold; `frequency` took their place.
const STALE_KEYS: [&str; 2] = ["_a53_freq", "_a72_freq"];

const PROCESS_HINT: &str = "write a command, or keys as in `{cmd: ./program, budget: 10}`";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Sc,
    Be,
}

impl Role {
    /// What the processes of a partition share of a window unless they have budgets: best effort would never
    /// run if the safety-critical side took all.
    fn default_budget(self, length: Span, processes: usize) -> Span {
        let n = processes.max(1) as i64;
        match self {
            Role::Sc => length.scaled(6, 10 * n),
            Role::Be => length.scaled(1, n),
        }
    }
}

struct RawPartition {
    name: String,
    place: Place,
    policy: Option<PolicySpec>,
    processes: Vec<RawTask>,
    /// The window that it was defined in, and as what.
    inside: Option<(Role, Span)>,
}

enum Target {
    Name(String),
    Index(usize),
}

struct RawSlice {
    cpus: Option<Cpus>,
    cpus_place: Place,
    sc: Option<(Target, Place)>,
    be: Option<(Target, Place)>,
    frequency: Option<f64>,
}

struct RawWindow {
    place: Place,
    length: Option<Span>,
    slices: Vec<RawSlice>,
}

/// The table as the file has it, its names not yet looked up.
#[derive(Default)]
pub(crate) struct Table {
    partitions: Vec<RawPartition>,
    windows: Vec<RawWindow>,
    anonymous: usize,
    processes: usize,
}

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
            Diagnostic::error(&windows.key_span, "`windows` is empty")
                .label("the major frame needs at least one window")
                .hint("write `- length: 100` and what runs in it"),
        );
    }
    if items.len() > MAX_WINDOWS {
        reader.push(
            Diagnostic::error(&items[MAX_WINDOWS].head(), format!("there are more than {MAX_WINDOWS} windows"))
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
        let length = match node.get("length") {
            Some(entry) => reader.span(&entry.value, "length", Bare::Milliseconds, false),
            None => {
                if reader.lacks(node, "length") {
                    reader.push(
                        Diagnostic::error(&node.head(), "a window has no `length`")
                            .label("in this window")
                            .hint("add `length: 100`, a number of milliseconds"),
                    );
                }
                None
            }
        };
        let shorthand: Vec<&Entry> = node.entries().iter().filter(|e| SLICE_KEYS.contains(&e.key.as_str())).collect();
        let mut slices = Vec::new();
        if let Some(entry) = node.get("slices") {
            if let Some(other) = shorthand.first() {
                reader.push(
                    Diagnostic::error(&other.key_span, format!("a window has both `slices` and `{}`", other.key))
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
        let (cpus, cpus_place) = match node.get("cpu") {
            Some(entry) => (reader.cpus(&entry.value, "cpu"), entry.value.span.clone()),
            None if implied => (Some(Cpus::All), node.head()),
            None => {
                if reader.lacks(node, "cpu") {
                    reader.push(
                        Diagnostic::error(&node.head(), "a slice has no `cpu`")
                            .label("in this slice")
                            .hint("add `cpu: 0`, a list such as `cpu: 0,2,5-7`, or `cpu: all`"),
                    );
                }
                (None, node.head())
            }
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
                    frequency = reader.frequency(&entry.value);
                    continue;
                }
                _ => continue,
            };
            let side = usize::from(role == Role::Be);
            if let Some((_, _, first)) = &sides[side] {
                reader.push(
                    Diagnostic::error(&entry.key_span, format!("a slice has both `{}` and `{}`", first.key, entry.key))
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
        let processes = self.processes(reader, node, false);
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
        let online = node.get("policy").is_some_and(|e| !is_fifo(&e.value));
        let processes = match &node.kind {
            Kind::List(_) => self.processes(reader, node, false),
            Kind::Map(_) => {
                let known: Vec<&str> = PARTITION_KEYS.into_iter().chain(process_keys()).collect();
                let of_process = |e: &&Entry| process_keys().any(|key| key == e.key);
                let own = node.entries().iter().find(of_process);
                reader.keys_but(node, "a partition", &known, &STALE_KEYS);
                if let Some(entry) = node.get("name") {
                    name = partition_name(reader, &entry.value);
                    place = entry.value.span.clone();
                }
                policy = partition_policy(reader, node);
                match (node.get("processes"), own) {
                    (Some(list), own) => {
                        if let Some(own) = own {
                            reader.push(
                                Diagnostic::warning(&own.key_span, format!("`{}` has no effect here", own.key))
                                    .label("a key of a process")
                                    .also(&list.key_span, "this partition's processes are here")
                                    .hint(format!("move `{}` to a process, or remove it", own.key)),
                            );
                        }
                        self.processes(reader, &list.value, online)
                    }
                    (None, Some(_)) => self.process(reader, node, online, true).into_iter().collect(),
                    (None, None) => {
                        if reader.lacks(node, "processes") {
                            reader.push(
                                Diagnostic::error(&place, "a partition has no `processes`")
                                    .label("in this partition")
                                    .hint("add `processes: [{cmd: ./program, budget: 10}]`"),
                            );
                        }
                        // It is kept, so that windows that name it are not faulted, too.
                        Vec::new()
                    }
                }
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
    fn processes(&mut self, reader: &mut Reader, node: &Node, online: bool) -> Vec<RawTask> {
        match &node.kind {
            Kind::List(items) if items.is_empty() => {
                reader.push(
                    Diagnostic::error(&node.span, "a partition has no process")
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
                items.iter().filter_map(|item| self.process(reader, item, online, false)).collect()
            }
            _ => self.process(reader, node, online, false).into_iter().collect(),
        }
    }

    /// A process: its command or its keys. `whole` when the mapping is the partition, too.
    fn process(&mut self, reader: &mut Reader, node: &Node, online: bool, whole: bool) -> Option<RawTask> {
        self.processes += 1;
        let mut process = RawTask::new(node.head());
        if matches!(node.kind, Kind::Scalar { .. }) {
            process.cmd = Some(reader.text(node, "cmd", "a command")?);
            return Some(process);
        }
        if !reader.is_map(node, "a process", PROCESS_HINT) {
            return None;
        }
        if !whole {
            let known: Vec<&str> = ["name"].into_iter().chain(process_keys()).collect();
            reader.keys_but(node, "a process", &known, &STALE_KEYS);
        }
        for entry in node.entries() {
            let key = entry.key.as_str();
            if !online && task::ONLINE_KEYS.contains(&key) {
                reader.push(
                    Diagnostic::error(&entry.key_span, format!("`{key}` needs a partition with a `policy`"))
                        .label("without a policy, processes run one after the other, each once per window")
                        .hint("add `policy: edf` to the partition, or remove this key"),
                );
            } else if STALE_KEYS.contains(&key) {
                reader.push(
                    Diagnostic::warning(&entry.key_span, format!("`{key}` has no effect"))
                        .label("an old key of DEmOS")
                        .hint("use `frequency`, a number of megahertz"),
                );
            } else if process_keys().any(|k| k == key) || (key == "name" && !whole) {
                process.key(reader, entry);
            }
        }
        if ["cmd", "runtime", "steps", "execution"].iter().all(|key| reader.lacks(node, key)) {
            reader.push(
                Diagnostic::error(&node.head(), "a process has no `cmd`")
                    .label("in this process")
                    .hint("add `cmd: ./program`, or `runtime: 5ms` for a process that is only simulated"),
            );
        }
        let place = if online { "in a partition with a policy" } else { "in this process" };
        process.finish(reader, node, "a process", place, online);
        process.sound.then_some(process)
    }
}

/// Keys of a process, and of a partition that is one process. Its CPUs are those of its slices.
fn process_keys() -> impl Iterator<Item = &'static str> {
    task::KEYS.into_iter().filter(|key| !["name", "cpu"].contains(key))
}

/// A name that can also be a directory's: the executive may make one per partition.
fn partition_name(reader: &mut Reader, node: &Node) -> Option<String> {
    let name = reader.text(node, "name", "a name")?;
    if name.contains('/') || name.chars().any(char::is_control) {
        reader.push(
            Diagnostic::error(&node.span, "a partition's name cannot hold `/` or control characters")
                .label("such a character is in here")
                .hint("use letters, digits, `-` and `_`"),
        );
    }
    Some(name)
}

/// Whether it is a partition's own `fifo`: DEmOS's order, and not the online policy of that name.
fn is_fifo(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar { text, .. } if text == "fifo")
}

fn partition_policy(reader: &mut Reader, node: &Node) -> Option<PolicySpec> {
    let placement = node.get("placement").and_then(|e| reader.choice(&e.value, "placement", &Placement::ALL));
    let entry = node.get("policy")?;
    if is_fifo(&entry.value) {
        return None;
    }
    let mut policy = policy::read(reader, &entry.value)?;
    if policy.scope == Scope::Table {
        reader.push(
            Diagnostic::error(&entry.value.span, format!("`{}` cannot be a partition's policy", policy.entry.name))
                .label("this is the policy of the whole table")
                .hint("use `fifo`, the default, or an online policy such as `edf`"),
        );
        return None;
    }
    policy.placement = placement.unwrap_or(policy.placement);
    Some(policy)
}

/// Uses of a partition in the table.
#[derive(Clone)]
struct Uses {
    cpus: CpuSet,
    windows: Vec<(Role, Span, Place)>,
}

/// Looks names up, checks the rules between keys, and fills the workload.
/// The result is where messages about each task point.
pub(crate) fn build(reader: &mut Reader, table: Table, machine: &CpuSet, workload: &mut Workload) -> Vec<Place> {
    let mut heads = Vec::new();
    let index = partition_index(reader, &table.partitions);
    let mut uses = vec![Uses { cpus: CpuSet::EMPTY, windows: Vec::new() }; table.partitions.len()];
    let mut frame = Span::ZERO;
    for window in &table.windows {
        let built = resolve_window(reader, window, &table.partitions, &index, machine, &mut uses);
        workload.slice_frequencies_mhz.push(window.slices.iter().map(|s| s.frequency).collect());
        frame += built.length;
        if frame > MAX_DURATION {
            reader.push(
                Diagnostic::error(&window.place, "the windows together are longer than a year")
                    .label("with this window the major frame is too long"),
            );
            return heads;
        }
        workload.system.windows.push(built);
    }
    let mut names = Names::default();
    for (p, (partition, uses)) in table.partitions.iter().zip(&uses).enumerate() {
        check_uses(reader, partition, uses);
        let default = default_budget(reader, partition, uses);
        let mut ids = Vec::new();
        let mut total = Span::ZERO;
        for (k, process) in partition.processes.iter().enumerate() {
            let default_name = format!("{}-{}", partition.name, k + 1);
            let (name, place) = process.name.clone().unwrap_or((default_name, process.head.clone()));
            // Of two partitions of one name only the name is at fault, not that of each process.
            if process.name.is_some() || index.get(partition.name.as_str()) == Some(&p) {
                names.add(reader, &name, &place);
            }
            ids.push(TaskId(workload.system.tasks.len() as u32));
            let affinity = if uses.cpus.is_empty() { *machine } else { uses.cpus };
            let task = process_task(reader, partition, process, &name, default, affinity);
            total += task.budget.unwrap_or(Span::ZERO);
            workload.system.tasks.push(task);
            workload.tasks.push(process.info(name, Some(p)));
            heads.push(process.head.clone());
        }
        if partition.policy.is_none() {
            warn_of_overrun(reader, partition, uses, total);
        }
        workload.system.partitions.push(Partition { tasks: ids, policy: partition.policy });
        workload.partitions.push(partition.name.clone());
    }
    heads
}

fn partition_index<'t>(reader: &mut Reader, partitions: &'t [RawPartition]) -> HashMap<&'t str, usize> {
    let mut index: HashMap<&str, usize> = HashMap::new();
    for (i, partition) in partitions.iter().enumerate() {
        match index.get(partition.name.as_str()) {
            Some(&first) => reader.push(
                Diagnostic::error(
                    &partition.place,
                    format!("two partitions are called `{}`", clipped(&partition.name)),
                )
                .label("the second one")
                .also(&partitions[first].place, "the first one")
                .hint("give one of them another name"),
            ),
            None => {
                index.insert(&partition.name, i);
            }
        }
    }
    index
}

fn resolve_window(
    reader: &mut Reader,
    window: &RawWindow,
    partitions: &[RawPartition],
    index: &HashMap<&str, usize>,
    machine: &CpuSet,
    uses: &mut [Uses],
) -> Window {
    let length = window.length.unwrap_or(Span::from_secs(1));
    let mut slices = Vec::new();
    let mut taken: Vec<(CpuSet, &Place)> = Vec::new();
    let mut all_taken = CpuSet::EMPTY;
    let mut used: HashMap<usize, &Place> = HashMap::new();
    for slice in &window.slices {
        let cpus = match slice.cpus {
            Some(Cpus::Set(set)) => set,
            Some(Cpus::All) => *machine,
            None => CpuSet::EMPTY,
        };
        let place = &slice.cpus_place;
        let foreign = cpus.difference(machine);
        if !foreign.is_empty() {
            reader.push(tasks::foreign_cpus(place, &foreign, machine));
        }
        if !cpus.is_disjoint(&all_taken) {
            let clash = taken.iter().find(|(set, _)| !set.is_disjoint(&cpus));
            if let Some((set, other)) = clash {
                let shared = set.intersection(&cpus);
                reader.push(
                    Diagnostic::error(place, format!("two slices of a window share {}", cpus_text(&shared)))
                        .label("this slice's CPUs")
                        .also(other, "the other slice's CPUs")
                        .hint("the slices of one window need CPUs of their own; use another window to take turns"),
                );
            }
        }
        all_taken = all_taken.union(&cpus);
        taken.push((cpus, place));
        let mut sides = [None, None];
        for (target, role) in [(&slice.sc, Role::Sc), (&slice.be, Role::Be)] {
            let Some((target, place)) = target else { continue };
            let found = match target {
                Target::Index(i) => Some(*i),
                Target::Name(name) => index.get(name.as_str()).copied(),
            };
            let Some(p) = found else {
                if let Target::Name(name) = target {
                    unknown_partition(reader, name, place, partitions);
                }
                continue;
            };
            if let Some(first) = used.get(&p) {
                let name = clipped(&partitions[p].name);
                reader.push(
                    Diagnostic::error(place, format!("the partition `{name}` is used twice in one window"))
                        .label("used again here")
                        .also(first, "first used here")
                        .hint("give one slice the CPUs of both, or make two partitions"),
                );
                continue;
            }
            used.insert(p, place);
            uses[p].windows.push((role, length, place.clone()));
            uses[p].cpus = uses[p].cpus.union(&cpus);
            sides[role as usize] = Some(PartitionId(p as u32));
        }
        let [sc, be] = sides;
        slices.push(Slice { cpus, sc, be });
    }
    Window { length, slices }
}

/// A partition that no window uses, or whose policy does not suit its CPUs.
fn check_uses(reader: &mut Reader, partition: &RawPartition, uses: &Uses) {
    let name = clipped(&partition.name);
    if uses.windows.is_empty() {
        let message = format!("the partition `{name}` is used in no window");
        // A `fifo` partition just waits, as in DEmOS; released jobs would pile up and miss every deadline.
        reader.push(match partition.policy {
            None => Diagnostic::warning(&partition.place, message).label("its processes will never run"),
            Some(_) => Diagnostic::error(&partition.place, message)
                .label("its jobs would be released and never run")
                .hint("name it as `sc_partition` or `be_partition` of a slice, or remove it"),
        });
    }
    if let Some(policy) = &partition.policy
        && policy.scope == Scope::Uniprocessor
        && uses.cpus.len() > 1
        && let Some((.., place)) = uses.windows.first()
    {
        let policy = policy.entry.name;
        reader.push(
            Diagnostic::error(&partition.place, format!("the policy `{policy}` of partition `{name}` is for one CPU"))
                .label(format!("its slices have {}", cpus_text(&uses.cpus)))
                .also(place, "used here")
                .hint(format!("use a global or partitioned form such as `g-{policy}`, or slices of one CPU")),
        );
    }
}

fn unknown_partition(reader: &mut Reader, name: &str, place: &Place, partitions: &[RawPartition]) {
    let names = || partitions.iter().map(|p| p.name.as_str());
    let fault = Diagnostic::error(place, format!("no partition is called `{}`", clipped(name)));
    let fault = match nearest(name, names()) {
        Some(near) => fault.label(format!("did you mean `{near}`?")),
        None => fault.label("not defined in this file"),
    };
    reader.push(match partitions.len() {
        0 => fault.hint("define it under `partitions`, or write its processes in place of the name"),
        1..=20 => fault.hint(format!("the partitions are {}", choices(names(), "and"))),
        n => fault.hint(format!("define it under `partitions`, where there are {n} others")),
    });
}

/// The budget of processes that have none. A partition that was defined inside a window takes it from there;
/// one that has a name takes the shortest of the windows that use it, which fits all of them.
fn default_budget(reader: &mut Reader, partition: &RawPartition, uses: &Uses) -> Option<Span> {
    let count = partition.processes.len();
    if let Some((role, length)) = partition.inside {
        return Some(role.default_budget(length, count));
    }
    let budgets = || uses.windows.iter().map(|(role, length, _)| role.default_budget(*length, count));
    let shortest = budgets().min()?;
    let longest = budgets().max()?;
    let missing = partition.processes.iter().find(|p| p.budget.is_none());
    if let (Some(process), true, None) = (missing, shortest != longest, partition.policy) {
        let at = |span| uses.windows.iter().find(|(r, l, _)| r.default_budget(*l, count) == span).map(|u| &u.2);
        let mut fault = Diagnostic::warning(
            &process.head,
            format!("this process has no budget, and its windows suggest {shortest} and {longest}"),
        )
        .label(format!("it gets {shortest} in every window"))
        .hint("give it a `budget`");
        if let (Some(short), Some(long)) = (at(shortest), at(longest)) {
            fault = fault.also(short, format!("{shortest} here")).also(long, format!("{longest} here"));
        }
        reader.push(fault);
    }
    Some(shortest)
}

fn process_task(
    reader: &mut Reader,
    partition: &RawPartition,
    process: &RawTask,
    name: &str,
    default_budget: Option<Span>,
    affinity: CpuSet,
) -> Task {
    let mut budget = process.budget;
    if budget.is_none() && partition.policy.is_none() {
        budget = default_budget.map(|b| b.max(Span::from_ns(1)));
        if budget.is_none() {
            reader.push(
                Diagnostic::error(&process.head, "a process has no `budget`, and no window that could give it one")
                    .label("in this process")
                    .hint("add `budget: 10`, a number of milliseconds, or use its partition in a window"),
            );
        }
    }
    let task = process.task(affinity, budget, partition.policy.is_some());
    // Without a budget where one is needed, all that depends on it would be reported again.
    if budget.is_some() || partition.policy.is_some() {
        process.check(reader, name, &task);
    }
    if let Some(policy) = &partition.policy {
        task::check_needs(reader, policy, &task, name, &process.head);
    }
    task
}

/// DEmOS runs such a table and cuts the partition off at the end of each window, so it is no error.
fn warn_of_overrun(reader: &mut Reader, partition: &RawPartition, uses: &Uses, total: Span) {
    let sc = uses.windows.iter().filter(|(role, ..)| *role == Role::Sc);
    if let Some((_, length, place)) = sc.filter(|(_, length, _)| total > *length).min_by_key(|(_, length, _)| *length) {
        let name = clipped(&partition.name);
        reader.push(
            Diagnostic::warning(place, format!("the budgets of `{name}` do not fit its window of {length}"))
                .label(format!("they add up to {total}"))
                .hint("what is left at the end of the window is cut off; lower the budgets or lengthen the window"),
        );
    }
}
