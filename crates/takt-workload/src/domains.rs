//! `domains`: parts of the machine with tasks and policies of their own.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::keys::{DOMAIN, names};
use crate::machine::foreign_cpus;
use crate::machine::{one_cpu_only, placement_matters, with_placement};
use crate::node::{Entry, Kind, Node, Place};
use crate::policy::{self, policy_name};
use crate::reader::{Cpus, Reader};
use crate::task::RawTask;
use crate::text::{clipped, cpus_text};
use crate::value::choices;
use takt_core::cpus::CpuSet;
use takt_core::model::{self, Placement, PolicySpec, Scope, TaskId};
use takt_core::policies::domains;

const KEYS: [&str; DOMAIN.len()] = names(&DOMAIN);
const HINT: &str = "write `- {name: control, cpus: 0, policy: dasa}` for each";

/// The policy of a system with domains.
pub(crate) fn domains_policy() -> PolicySpec {
    PolicySpec::new(&domains::ENTRY.profile, Scope::Table)
}

/// One domain of the file.
pub(crate) struct Domain {
    pub(crate) name: String,
    place: Place,
    pub(crate) cpus: CpuSet,
    band: u32,
    /// The key `band`, if the file has it.
    at_band: Option<Place>,
    pub(crate) policy: PolicySpec,
}

impl Domain {
    /// Whether both can be domains of one machine.
    fn suits(&self, other: &Domain) -> bool {
        self.cpus.is_disjoint(&other.cpus) || self.cpus == other.cpus && self.band != other.band
    }
}

/// The domains of the file in its order. Domains that share CPUs have the same CPUs and different bands.
pub(crate) struct Domains {
    list: Vec<Domain>,
    /// Where a message about all of them points.
    pub(crate) place: Place,
    /// Whether each could be read; else a task may name one that is not here.
    whole: bool,
}

/// Reads `domains`.
pub(crate) fn read(reader: &mut Reader, entry: &Entry) -> Domains {
    let items = reader.items(&entry.value, "`domains`", HINT);
    if items.is_empty() && (entry.value.is_null() || matches!(entry.value.kind, Kind::List(_))) {
        let fault = Diagnostic::error(Code::EmptyValue, &entry.key_span, "`domains` is empty")
            .label("no CPU would run anything");
        reader.push(fault.hint(format!("{HINT}, or remove the key and add a `policy` for all tasks")));
    }
    let faults = reader.diagnostics.len();
    let mut list: Vec<Domain> = Vec::new();
    for node in items {
        let Some((domain, at_cpus)) = domain(reader, node) else { continue };
        if let Some(first) = list.iter().find(|d| d.name == domain.name) {
            reader.push(
                Diagnostic::error(
                    Code::DuplicateName,
                    &domain.place,
                    format!("two domains are called `{}`", clipped(&domain.name)),
                )
                .label("the second one")
                .also(&first.place, "the first one")
                .hint("give one of them another `name`"),
            );
        } else if let Some(first) = list.iter().find(|d| !d.suits(&domain)) {
            reader.push(overlap(first, &domain, &at_cpus));
        }
        list.push(domain);
    }
    for (index, domain) in list.iter().enumerate() {
        let alone = || list.iter().enumerate().all(|(other, d)| other == index || d.cpus.is_disjoint(&domain.cpus));
        if let Some(place) = domain.at_band.as_ref().filter(|_| alone()) {
            let message = format!("`band` of the domain `{}` has no effect", clipped(&domain.name));
            let fault = Diagnostic::warning(Code::NoEffect, place, message);
            let fault = fault.label(format!("no other domain has {}", cpus_text(&domain.cpus)));
            reader.push(fault.hint("remove it; a band orders the domains of the same CPUs"));
        }
    }
    let whole = !items.is_empty() && reader.diagnostics[faults..].iter().all(|d| d.severity == Severity::Warning);
    Domains { list, place: entry.key_span.clone(), whole }
}

/// Two domains that share CPUs without an order of bands.
fn overlap(first: &Domain, domain: &Domain, at_cpus: &Place) -> Diagnostic {
    if first.cpus == domain.cpus {
        let place = domain.at_band.as_ref().unwrap_or(at_cpus);
        return Diagnostic::error(Code::CpuOverlap, place, "two domains have the same CPUs and the same band")
            .label(format!("`{}` has band {} of {}, too", clipped(&first.name), first.band, cpus_text(&first.cpus)))
            .also(&first.place, "the other one")
            .hint("give each CPU to one of them, or give one of them another `band`: the higher band runs first");
    }
    let shared = first.cpus.intersection(&domain.cpus);
    Diagnostic::error(Code::CpuOverlap, at_cpus, "two domains have some of their CPUs in common")
        .label(format!("`{}` has {}, too", clipped(&first.name), cpus_text(&shared)))
        .also(&first.place, "the other one")
        .hint("give each CPU to one of them, or give both the same CPUs and different values of `band`")
}

/// One domain, and the place of its CPUs.
fn domain(reader: &mut Reader, node: &Node) -> Option<(Domain, Place)> {
    if !reader.is_map(node, "a domain", HINT) {
        return None;
    }
    reader.keys(node, "a domain", &KEYS);
    let name = node.get("name").map(|e| (reader.text(&e.value, "name", "a name"), e.value.span.clone()));
    let cpus = node.get("cpus").map(|e| (reader.cpus(&e.value, "cpus"), e.value.span.clone()));
    let at_band = node.get("band").map(|e| e.value.span.clone());
    let band = node.get("band").map_or(Some(0), |e| reader.whole(&e.value, "band", u64::from(u32::MAX)));
    let policy = node.get("policy").map(|e| (policy::read(reader, &e.value), e.value.head()));
    let placement = node.get("placement").and_then(|e| reader.choice(&e.value, "placement", &Placement::ALL));
    for (key, example) in [("name", "name: control"), ("cpus", "cpus: 0"), ("policy", "policy: dasa")] {
        reader.required(node, "a domain", key, "in this domain", &format!("add `{example}`"));
    }
    let ((name, place), (cpus, at_cpus), (policy, at_policy)) = (name?, cpus?, policy?);
    let policy = policy::with_fallback(reader, policy?, node);
    let (name, cpus, band, policy) = (name?, cpus?, band? as u32, with_placement(policy, placement));
    placement_matters(reader, node, &policy);
    if !reader.is_name(&name, &place) {
        return None;
    }
    let Cpus::Set(cpus) = cpus else {
        let fault = Diagnostic::error(Code::NotSupportedHere, &at_cpus, "a domain cannot have `all` CPUs")
            .label("others would have none");
        reader.push(fault.hint("write their numbers, as in `1-3`; without other domains, remove `domains`"));
        return None;
    };
    if policy.scope == Scope::Table {
        reader.push(
            Diagnostic::error(
                Code::UnsuitablePolicy,
                &at_policy,
                format!("`{}` cannot schedule a domain", policy_name(&policy)),
            )
            .label("it is about the whole machine")
            .hint("choose an online policy such as `edf`; `takt policies` lists them"),
        );
        return None;
    }
    if policy.scope == Scope::Uniprocessor && cpus.len() > 1 {
        let whose = format!("the domain `{}`", clipped(&name));
        reader.push(one_cpu_only(&policy, &whose, &cpus, &at_policy, "a domain of one CPU"));
    }
    Some((Domain { name, place, cpus, band, at_band, policy }, at_cpus))
}

impl Domains {
    /// All their CPUs.
    pub(crate) fn cpus(&self) -> CpuSet {
        self.list.iter().fold(CpuSet::EMPTY, |all, d| all.union(&d.cpus))
    }

    /// Reports CPUs that the machine does not have.
    pub(crate) fn fit(&self, reader: &mut Reader, machine: &CpuSet) {
        for domain in &self.list {
            let foreign = domain.cpus.difference(machine);
            if !foreign.is_empty() {
                reader.push(foreign_cpus(&domain.place, &foreign, machine, "the domain"));
            }
        }
    }

    /// Whether other domains have the same CPUs.
    fn has_bands(&self, domain: &Domain) -> bool {
        self.list.iter().filter(|other| other.cpus == domain.cpus).count() > 1
    }

    /// The domain of a task: the one that it names, else the one that has all its CPUs, else the only one.
    pub(crate) fn home(&self, reader: &mut Reader, raw: &RawTask, name: &str) -> Option<usize> {
        let name = clipped(name);
        let found = match (raw.domain.as_deref(), raw.cpus.as_deref()) {
            (Some((wanted, place)), _) => {
                let found = self.list.iter().position(|d| d.name == *wanted);
                if found.is_none() && self.whole {
                    reader.push(unknown(reader, wanted, place, self.list.iter().map(|d| d.name.as_str())));
                }
                found
            }
            (None, Some((cpus, place))) => {
                let found = self.list.iter().position(|d| cpus.is_subset(&d.cpus));
                if self.whole && found.is_some_and(|index| self.has_bands(&self.list[index])) {
                    let names = self.list.iter().filter(|d| cpus.is_subset(&d.cpus)).map(|d| d.name.as_str());
                    let message = format!("task `{name}` has no `domain`");
                    reader.push(
                        Diagnostic::error(Code::MissingKey, &raw.head, message)
                            .label("its CPUs belong to domains of several bands")
                            .also(place, "its CPUs")
                            .hint(format!("add `domain:` with one of {}", choices(names, "or"))),
                    );
                    return None;
                }
                if found.is_none() && self.whole && cpus.is_subset(&self.cpus()) {
                    reader.push(
                        Diagnostic::error(
                            Code::CpuOutside,
                            place,
                            format!("task `{name}` has CPUs of several domains"),
                        )
                        .label("it can belong to one only")
                        .also(&self.place, "the domains")
                        .hint("name its `domain`, and leave `cpu` out or within that"),
                    );
                } else if found.is_none() && self.whole {
                    let foreign = cpus.difference(&self.cpus());
                    reader.push(
                        Diagnostic::error(
                            Code::CpuOutside,
                            place,
                            format!("{} outside the domains", cpus_text(&foreign)),
                        )
                        .label("nothing is scheduled there")
                        .also(&self.place, "the domains"),
                    );
                }
                found
            }
            (None, None) if self.list.len() == 1 => Some(0),
            (None, None) => {
                if self.whole {
                    let names = choices(self.list.iter().map(|d| d.name.as_str()), "or");
                    reader.push(
                        Diagnostic::error(Code::MissingKey, &raw.head, format!("task `{name}` has no `domain`"))
                            .label("nothing says where it belongs")
                            .hint(match self.list.iter().all(|domain| self.has_bands(domain)) {
                                true => format!("add `domain:` with one of {names}"),
                                false => {
                                    format!("add `domain:` with one of {names}, or `cpu:` with CPUs of one of them")
                                }
                            }),
                    );
                }
                None
            }
        };
        let domain = &self.list[found?];
        if let Some((cpus, place)) = raw.cpus.as_deref().filter(|(cpus, _)| !cpus.is_subset(&domain.cpus)) {
            let foreign = cpus.difference(&domain.cpus);
            reader.push(
                Diagnostic::error(
                    Code::CpuOutside,
                    place,
                    format!("{} outside the domain of task `{name}`", cpus_text(&foreign)),
                )
                .label(format!("`{}` has {}", clipped(&domain.name), cpus_text(&domain.cpus)))
                .hint("leave `cpu` out: a task may run on all CPUs of its domain"),
            );
        }
        found
    }

    /// Those of the system, with the tasks whose homes these are, and their names. One without tasks is worth a warning.
    pub(crate) fn build(self, reader: &mut Reader, homes: &[Option<usize>]) -> (Vec<model::Domain>, Vec<String>) {
        let tasks_of = |index: usize| {
            homes.iter().enumerate().filter(move |(_, home)| **home == Some(index)).map(|(task, _)| TaskId(task as u32))
        };
        let mut domains = Vec::with_capacity(self.list.len());
        for (index, domain) in self.list.iter().enumerate() {
            let tasks: Vec<TaskId> = tasks_of(index).collect();
            if tasks.is_empty() && homes.iter().all(Option::is_some) {
                let message = format!("the domain `{}` has no task", clipped(&domain.name));
                let fault = Diagnostic::warning(Code::UnusedName, &domain.place, message);
                reader.push(match self.has_bands(domain) {
                    true => fault.label("its band has no effect").hint("remove this domain, or give it a task"),
                    false => fault.label("its CPUs idle").hint("move CPUs that no task needs to another domain"),
                });
            }
            domains.push(model::Domain { band: domain.band, cpus: domain.cpus, tasks, policy: domain.policy });
        }
        (domains, self.list.into_iter().map(|d| d.name).collect())
    }

    pub(crate) fn has_some(&self) -> bool {
        !self.list.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> &Domain {
        &self.list[index]
    }
}

/// A domain that is not there.
pub(crate) fn unknown<'a>(
    reader: &Reader,
    name: &str,
    place: &Place,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Diagnostic {
    let fault = Diagnostic::error(Code::UnknownName, place, format!("no domain is called `{}`", clipped(name)));
    let fault = match reader.nearest(name, names.clone()) {
        Some(near) => fault.label(format!("did you mean `{near}`?")),
        None => fault.label("not defined in this file"),
    };
    fault.hint(format!("the domains are {}", choices(names, "and")))
}
