//! Changes of the policy: the settings of the one that there is, or another one that takes over.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::machine::one_cpu_only;
use crate::node::{Entry, Kind, Place};
use crate::policy::{self, policy_name};
use crate::reader::Reader;
use crate::text::{clipped, cpus_text};
use crate::{Workload, rules, task};
use std::collections::HashSet;
use takt_core::input::Input;
use takt_core::model::{CLUSTER, Invalid, PolicySpec, Scope, Setting, TaskId};
use takt_core::policies::mapping::MAPPER;

/// The most different policies that a file may switch to: each is built beforehand.
const MAX_ALTERNATIVES: usize = 1000;

/// The policies as they are at some time, while the changes are gone through in the order of time.
pub(crate) struct Policies {
    /// That of the system, with the settings that it has by then.
    spec: PolicySpec,
    /// The file's own policy where `--policy` has taken its place: the file's settings are that one's.
    named: PolicySpec,
    /// The policy is that of the command line, which the file does not switch away from.
    commanded: bool,
    /// Whether its settings suit each other. Later changes would be blamed for the first bad one.
    stable: bool,
    /// The combinations that fit.
    known: HashSet<(Option<u16>, u16)>,
}

impl Policies {
    /// `own` is the file's policy where that of the command line has taken its place.
    pub(crate) fn new(spec: PolicySpec, own: Option<PolicySpec>) -> Policies {
        let stable = policy::check(&spec).is_none();
        Policies { spec, named: own.unwrap_or(spec), commanded: own.is_some(), stable, known: HashSet::new() }
    }

    /// The request of the value of `policy` in a change. `all` is the list of changes.
    pub(crate) fn change(
        &mut self,
        reader: &mut Reader,
        entry: &Entry,
        domain: Option<(u16, Place)>,
        all: &Entry,
        workload: &mut Workload,
    ) -> Vec<Input> {
        let node = &entry.value;
        let is_settings = matches!(node.kind, Kind::Map(_)) && node.get("name").is_none();
        if !workload.system.windows.is_empty() && !is_settings {
            reader.push(
                Diagnostic::error(Code::NotSupportedHere, &node.head(), "a window table keeps its policy")
                    .label("cannot take over from it")
                    .hint("remove this change; policies of online `tasks` can be switched"),
            );
            return Vec::new();
        }
        if is_settings {
            return self.settings(reader, entry, all, workload);
        }
        self.switch(reader, entry, domain, workload).into_iter().collect()
    }

    /// Another policy takes over.
    fn switch(
        &mut self,
        reader: &mut Reader,
        entry: &Entry,
        domain: Option<(u16, Place)>,
        workload: &mut Workload,
    ) -> Option<Input> {
        let domains = &workload.system.domains;
        if domain.is_none() && !domains.is_empty() {
            let names = workload.domains.iter().map(String::as_str);
            let fault = Diagnostic::error(Code::MissingKey, &entry.key_span, "a change of a policy has no `domain`");
            reader.push(
                fault
                    .label("each domain has a policy of its own")
                    .hint(format!("add `domain:` with one of {}", crate::value::choices(names, "or"))),
            );
            return None;
        }
        let mut to = policy::read(reader, &entry.value)?;
        if domain.is_none() && self.commanded {
            // A user who names a policy wants to see its behaviour.
            let (policy, own) = (policy_name(&self.spec), policy_name(&to));
            reader.push(
                Diagnostic::warning(
                    Code::NoEffect,
                    &entry.value.head(),
                    format!("the policy stays `{policy}`, named by `--policy`"),
                )
                .label(format!("this switch to `{own}` is left out"))
                .hint("leave `--policy` out to have the policies that the file names"),
            );
            self.named = to;
            return None;
        }
        let domain = domain.map(|(index, _)| index);
        to.placement = match domain {
            Some(index) => domains[usize::from(index)].policy.placement,
            None => workload.system.policy.placement,
        };
        let known = workload.system.alternatives.iter().position(|spec| *spec == to);
        let index = known.unwrap_or(workload.system.alternatives.len());
        if index >= MAX_ALTERNATIVES {
            let fault = Diagnostic::error(
                Code::LimitExceeded,
                &entry.value.head(),
                format!("there are more than {MAX_ALTERNATIVES} policies"),
            );
            reader.push(fault.label("the first one too many").hint("switch to fewer different ones"));
            return None;
        }
        if !self.known.contains(&(domain, index as u16)) {
            takes_over(reader, &to, domain, &entry.value.head(), workload)?;
            self.known.insert((domain, index as u16));
        }
        if known.is_none() {
            workload.system.alternatives.push(to);
        }
        if domain.is_none() {
            (self.spec, self.named, self.stable) = (to, to, true);
        }
        Some(Input::Switch { domain, to: index as u16 })
    }

    /// The settings under `policy` of a change.
    fn settings(&mut self, reader: &mut Reader, entry: &Entry, all: &Entry, workload: &Workload) -> Vec<Input> {
        let (node, mut changes) = (&entry.value, Vec::new());
        if node.entries().is_empty() {
            let fault = Diagnostic::error(
                Code::WrongType,
                &node.head(),
                "a change of the policy must be settings, or another policy",
            );
            reader.push(
                fault
                    .label("nothing is set")
                    .hint("write settings, as in `policy: {nominal: 6ms}`, or another policy, as in `policy: g-edf`"),
            );
            return changes;
        }
        if !workload.system.domains.is_empty() {
            let fault = Diagnostic::error(
                Code::NotSupportedHere,
                &node.head(),
                "settings of a domain cannot be changed one by one",
            );
            reader.push(fault.label("of which policy?").hint(
                "name the whole policy, as in `policy: {name: rr, quantum: 2ms}`: that switches the domain to it",
            ));
            return changes;
        }
        for entry in node.entries() {
            if [CLUSTER.name, MAPPER.name].contains(&entry.key.as_str()) {
                let own = if entry.key == CLUSTER.name { "c-rr, cluster: 4" } else { "g-edf, mapper: in-order" };
                reader.push(
                    Diagnostic::error(
                        Code::NotSupportedHere,
                        &entry.key_span,
                        format!("`{}` is no setting that can change alone", entry.key),
                    )
                    .label("this setting belongs to the whole policy")
                    .hint(format!("name the policy with it, as in `policy: {{name: {own}}}`: that switches to it")),
                );
                continue;
            }
            let (setting, value) = match &entry.value.kind {
                Kind::Scalar { text, .. } if text == "default" => match policy::setting(&self.named, &entry.key) {
                    Ok(setting) => (setting, None),
                    Err(fault) => {
                        reader.push(fault.diagnostic(&entry.key_span));
                        continue;
                    }
                },
                _ => match policy::read_setting(reader, &self.named, entry) {
                    Some((setting, value)) => (setting, Some(value)),
                    None => continue,
                },
            };
            changes.extend(self.set(reader, setting, value, &entry.value.span, all));
        }
        changes
    }

    fn set(
        &mut self,
        reader: &mut Reader,
        setting: &Setting,
        value: Option<i64>,
        place: &Place,
        all: &Entry,
    ) -> Option<Input> {
        let same = |s: &Setting| s.name == setting.name && s.kind == setting.kind;
        let Some(index) = self.spec.profile.settings.iter().position(same) else {
            // The file was written for another policy than the command line's.
            let (policy, name) = (policy_name(&self.spec), setting.name);
            reader.push(
                Diagnostic::warning(
                    Code::UnknownSetting,
                    place,
                    format!("the policy `{policy}` has no such setting `{name}`"),
                )
                .label("this change is left out")
                .hint("`--policy` took the place of the file's policy"),
            );
            return None;
        };
        self.spec.values.set(index, value);
        if let Some(fault) = policy::check(&self.spec).filter(|_| self.stable) {
            self.stable = false;
            reader.push(fault.diagnostic(place).also(&all.key_span, "with the changes up to this one"));
        }
        Some(Input::Configure { setting: index as u8, value })
    }
}

/// Whether the policy can take over the system or a domain, found by building it.
fn takes_over(
    reader: &mut Reader,
    to: &PolicySpec,
    domain: Option<u16>,
    place: &Place,
    workload: &Workload,
) -> Option<()> {
    let system = &workload.system;
    let domain = domain.map(usize::from);
    let (cpus, mut tasks): (_, Vec<TaskId>) = match domain {
        Some(index) => (system.domains[index].cpus, system.domains[index].tasks.clone()),
        None => (system.cpus, (0..system.tasks.len() as u32).map(TaskId).collect()),
    };
    // The kernel schedules the others.
    tasks.retain(|task| workload.tasks[task.index()].class.is_none());
    let whose = match domain {
        Some(index) => format!("the domain `{}`", clipped(&workload.domains[index])),
        None => "the machine".to_owned(),
    };
    if to.scope == Scope::Uniprocessor && cpus.len() > 1 {
        reader.push(one_cpu_only(to, &whose, &cpus, place, "it one CPU"));
        return None;
    }
    let fault =
        Diagnostic::error(Code::UnsuitablePolicy, place, format!("the policy `{}` cannot take over", policy_name(to)));
    let called = |id: TaskId| clipped(&workload.tasks[id.index()].name);
    let lacking = tasks.iter().find_map(|id| Some((id, task::missing(to, &system.tasks[id.index()])?)));
    let fault = if to.scope == Scope::Table {
        fault.label("it schedules no tasks by itself").hint("choose an online policy; `takt policies` lists them")
    } else if let Some((id, key)) = lacking {
        let example = task::example(key);
        fault
            .label(format!("it needs a `{key}` of every task, and `{}` has none", called(*id)))
            .hint(format!("add `{key}: {example}` to the task, or switch to another policy"))
    } else {
        match rules::builds(system, to, &tasks, &cpus) {
            Ok(()) => return Some(()),
            Err(Invalid::Affinity(id)) => {
                fault.label(format!("task `{}` may run on no CPU of it", called(id))).hint("change the task's `cpu`")
            }
            Err(why) => fault
                .label(workload.named(&why.to_string()))
                .hint(format!("change it, or switch {whose} ({}) to another policy", cpus_text(&cpus))),
        }
    };
    reader.push(fault);
    None
}
