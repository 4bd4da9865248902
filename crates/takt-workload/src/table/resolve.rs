//! The table once all of it is read: names are looked up, and rules between partitions and windows checked.

use super::raw::{RawPartition, RawWindow, Role, Table, Target};
use crate::Workload;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::events;
use crate::machine::foreign_cpus;
use crate::node::Place;
use crate::reader::{Cpus, Reader};
use crate::task::{self, RawTask};
use crate::tasks::Names;
use crate::text::{clipped, cpus_text};
use crate::value::{MAX_DURATION, NS_PER_MS, choices};
use std::collections::HashMap;
use takt_core::cpus::CpuSet;
use takt_core::model::{Partition, PartitionId, Scope, Slice, TableRules, Task, TaskId, Window};
use takt_core::time::Span;

/// The highest CPU that DEmOS knows, unless it is built with another limit.
const DEMOS_CPU: usize = 63;

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
        let frequency = |of: &Option<(f64, Place)>| of.as_ref().map(|(mhz, _)| *mhz);
        workload.slice_frequencies_mhz.push(window.slices.iter().map(|s| frequency(&s.frequency)).collect());
        let place = |of: &Option<(f64, Place)>| of.as_ref().map(|(_, place)| place.clone());
        workload.slice_frequency_places.push(window.slices.iter().map(|s| place(&s.frequency)).collect());
        whole_milliseconds(reader, "length", built.length, &window.place);
        frame += built.length;
        if frame > MAX_DURATION {
            reader.push(
                Diagnostic::error(Code::OutOfRange, &window.place, "the windows together are longer than a year")
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
            // Where two partitions have one name, only the name is at fault, not that of each process.
            if process.name.is_some() || index.get(partition.name.as_str()) == Some(&p) {
                names.add(reader, &name, &place);
            }
            let id = TaskId(workload.system.tasks.len() as u32);
            ids.push(id);
            let of = process.thread_of.as_deref().cloned();
            reader.threads.extend(of.map(|(name, place)| (id, name, place)));
            events::note(reader, process.event.as_deref(), id, None);
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
                    Code::DuplicateName,
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
        if reader.rules == TableRules::Demos && cpus.iter().any(|cpu| cpu > DEMOS_CPU) {
            reader.push(
                Diagnostic::warning(Code::NoEffect, place, format!("DEmOS drops CPUs above {DEMOS_CPU} of a list"))
                    .label("Takt uses them")
                    .hint("a schedule that is compared with DEmOS's should not name them"),
            );
        }
        let foreign = cpus.difference(machine);
        if !foreign.is_empty() {
            reader.push(foreign_cpus(place, &foreign, machine, "the window"));
        }
        if !cpus.is_disjoint(&all_taken) {
            let clash = taken.iter().find(|(set, _)| !set.is_disjoint(&cpus));
            if let Some((set, other)) = clash {
                let shared = set.intersection(&cpus);
                reader.push(
                    Diagnostic::error(
                        Code::CpuOverlap,
                        place,
                        format!("two slices of a window share {}", cpus_text(&shared)),
                    )
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
                    Diagnostic::error(
                        Code::DuplicateName,
                        place,
                        format!("the partition `{name}` is used twice in one window"),
                    )
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
            None => {
                Diagnostic::warning(Code::UnusedName, &partition.place, message).label("its processes will never run")
            }
            Some(_) => Diagnostic::error(Code::UnusedName, &partition.place, message)
                .label("its jobs would be released and never run")
                .hint("name it as `sc_partition` or `be_partition` of a slice, or remove it"),
        });
    }
    if let Some(policy) = &partition.policy
        && policy.scope == Scope::Uniprocessor
        && uses.cpus.len() > 1
        && let Some((.., place)) = uses.windows.first()
    {
        let policy = policy.profile.name;
        reader.push(
            Diagnostic::error(
                Code::UnsuitablePolicy,
                &partition.place,
                format!("the policy `{policy}` of partition `{name}` is for one CPU"),
            )
            .label(format!("its slices have {}", cpus_text(&uses.cpus)))
            .also(place, "used here")
            .hint(format!("use a global or partitioned form such as `g-{policy}`, or slices of one CPU")),
        );
    }
}

fn unknown_partition(reader: &mut Reader, name: &str, place: &Place, partitions: &[RawPartition]) {
    let names = || partitions.iter().map(|p| p.name.as_str());
    let fault = Diagnostic::error(Code::UnknownName, place, format!("no partition is called `{}`", clipped(name)));
    let fault = match reader.nearest(name, names()) {
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
    let rules = reader.rules;
    if let Some((role, length)) = partition.inside {
        return Some(role.default_budget(length, count, rules));
    }
    // DEmOS has none for them.
    if rules == TableRules::Demos {
        return None;
    }
    let budgets = || uses.windows.iter().map(|(role, length, _)| role.default_budget(*length, count, rules));
    let shortest = budgets().min()?;
    let longest = budgets().max()?;
    let missing = partition.processes.iter().find(|p| p.budget.is_none());
    if let (Some(process), true, None) = (missing, shortest != longest, partition.policy) {
        let at = |span| uses.windows.iter().find(|(r, l, _)| r.default_budget(*l, count, rules) == span).map(|u| &u.2);
        let mut fault = Diagnostic::warning(
            Code::BudgetMismatch,
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
        if reader.rules == TableRules::Demos && default_budget.is_none_or(|default| default == Span::ZERO) {
            let (message, hint) = match default_budget {
                Some(_) => {
                    ("the default budget of a process is below a millisecond", "`budget: 1`, and a longer window")
                }
                None => ("a process of a named partition has no `budget`", "`budget: 10`, a number of milliseconds"),
            };
            reader.push(
                Diagnostic::error(Code::MissingKey, &process.head, message)
                    .label("in this process")
                    .hint(format!("add {hint}; `rules: demos` has no default here")),
            );
        } else if budget.is_none() {
            reader.push(
                Diagnostic::error(
                    Code::MissingKey,
                    &process.head,
                    "a process has no `budget`, and no window that could give it one",
                )
                .label("in this process")
                .hint("add `budget: 10`, a number of milliseconds, or use its partition in a window"),
            );
        }
    }
    let task = process.task(affinity, budget, partition.policy.is_some());
    if partition.policy.is_none() {
        for (key, span) in [("budget", process.budget), ("jitter", Some(task.jitter))] {
            whole_milliseconds(reader, key, span.unwrap_or(Span::ZERO), &process.head);
        }
    }
    // Without a budget where one is needed, all that depends on it would be reported again.
    if budget.is_some() || partition.policy.is_some() {
        process.check(reader, name, &task);
    }
    if let Some(policy) = &partition.policy {
        task::check_needs(reader, policy, &task, name, &process.head);
    }
    task
}

/// `rules: demos` knows whole milliseconds only.
fn whole_milliseconds(reader: &mut Reader, key: &str, span: Span, place: &Place) {
    if reader.rules == TableRules::Demos && span.ns() % NS_PER_MS != 0 {
        reader.push(
            Diagnostic::error(Code::OutOfRange, place, format!("`{key}` is no whole number of milliseconds"))
                .label(format!("it is {span}"))
                .hint("`rules: demos` takes whole milliseconds; round the value, or remove `rules`"),
        );
    }
}

/// DEmOS runs such a table and cuts the partition off at the end of each window, so it is no error.
fn warn_of_overrun(reader: &mut Reader, partition: &RawPartition, uses: &Uses, total: Span) {
    let sc = uses.windows.iter().filter(|(role, ..)| *role == Role::Sc);
    if let Some((_, length, place)) = sc.filter(|(_, length, _)| total > *length).min_by_key(|(_, length, _)| *length) {
        let name = clipped(&partition.name);
        reader.push(
            Diagnostic::warning(
                Code::BudgetMismatch,
                place,
                format!("the budgets of `{name}` do not fit its window of {length}"),
            )
            .label(format!("they add up to {total}"))
            .hint("processes that run at the end of the window are cut off; lower the budgets or lengthen the window"),
        );
    }
}
