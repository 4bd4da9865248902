//! The journal: the changes of this machine by isolations and by power policies of runs, and the values from before.
//!
//! It is written before each group of changes, as a whole, and removed when nothing is left to restore. A setting has the value from before its first
//! owner, the values that Takt may have written, and the claims. A reader after a crash finds one of these values in the setting. An owner is an isolation
//! or a run. It may write values of its own at any time, and the setting is then marked with `any`.

use super::step::Step;
use super::value::{Claim, Form, claimed};
use crate::control::parse_cpus;
use crate::namespace;
use crate::run_id::RunId;
use std::collections::BTreeSet;
use std::fmt::Write;
use takt_core::cpus::CpuSet;

const HEAD: &str = "takt-isolate 1";

/// The mechanism that sets the CPUs apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hierarchy {
    /// Whether it is cgroup v2.
    pub(super) v2: bool,
    /// Where it is mounted.
    pub(super) mount: String,
}

/// How far an isolation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// It is being created or undone. Without a process that does so, it is to be undone.
    Changing,
    /// It is complete.
    Complete,
}

/// An isolation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Isolation {
    pub(super) name: String,
    pub(super) cpus: CpuSet,
    /// The run that ends with it; `None` for one that lasts until it is undone.
    pub(super) owner: Option<RunId>,
    pub(super) phase: Phase,
    /// The set's tasks are balanced among its CPUs.
    pub(super) balanced: bool,
    pub(super) steps: Vec<Step>,
}

/// A changed setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    pub(super) path: String,
    pub(super) form: Form,
    pub(super) original: String,
    /// The values that it may have now: the last one, and the one before while it changes.
    pub(super) written: Vec<String>,
    /// Any other value may be one of an owner, too.
    pub(super) any: bool,
    /// The owners with their claims.
    pub(super) claims: Vec<(String, Claim)>,
}

impl Setting {
    /// The value that the owners ask for; `None` while one of them writes values of its own.
    pub(super) fn desired(&self, online: &CpuSet) -> Option<String> {
        let claims = || self.claims.iter().map(|(_, claim)| claim);
        let free = claims().any(|claim| *claim == Claim::Free);
        (!free).then(|| claimed(self.form, &self.original, online, claims()))
    }
}

/// Begin of the name of an owner that is a run. Names of isolations have no colon.
const RUN: &str = "run:";

/// The name of a run as an owner.
pub(super) fn run_owner(run: &RunId) -> String {
    format!("{RUN}{run}")
}

/// The run that an owner is.
pub(super) fn run_of(owner: &str) -> Option<RunId> {
    owner.strip_prefix(RUN)?.parse().ok()
}

/// A thread from before, which was moved or bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Moved {
    /// The PID namespace in which it has its number.
    pub(super) namespace: u64,
    pub(super) thread: i32,
    pub(super) start: u64,
    /// Its group, below the mount and with a slash at the begin; empty for one that stayed in its group.
    pub(super) group: String,
    pub(super) cpus: CpuSet,
}

/// The whole journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Journal {
    pub(super) hierarchy: Option<Hierarchy>,
    /// The controller was given to the groups of the root (cgroup v2).
    pub(super) enabled: bool,
    pub(super) isolations: Vec<Isolation>,
    pub(super) settings: Vec<Setting>,
    pub(super) moved: Vec<Moved>,
}

impl Journal {
    pub(super) fn is_empty(&self) -> bool {
        self.isolations.is_empty() && self.settings.is_empty() && self.moved.is_empty() && !self.enabled
    }
    pub(super) fn isolation(&self, name: &str) -> Option<&Isolation> {
        self.isolations.iter().find(|isolation| isolation.name == name)
    }
    pub(super) fn isolation_mut(&mut self, name: &str) -> Option<&mut Isolation> {
        self.isolations.iter_mut().find(|isolation| isolation.name == name)
    }
    /// CPUs of all isolations.
    pub(super) fn isolated(&self) -> CpuSet {
        self.isolations.iter().fold(CpuSet::EMPTY, |all, isolation| all.union(&isolation.cpus))
    }
    /// The runs that own settings, each once.
    pub(super) fn runs(&self) -> BTreeSet<RunId> {
        let owners = self.settings.iter().flat_map(|setting| &setting.claims);
        owners.filter_map(|(owner, _)| run_of(owner)).collect()
    }
    /// Whether an isolation carries out a step.
    pub(super) fn has(&self, step: Step) -> bool {
        self.isolations.iter().any(|isolation| isolation.steps.contains(&step))
    }

    /// Whether all other CPUs have a set of their own (cgroup v1): tasks move to it, or it keeps them balanced where the root set is not.
    pub(super) fn has_others(&self) -> bool {
        self.has(Step::Tasks) || self.has(Step::Domain)
    }

    /// Its text: a line for each entry, with tabs between the fields.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        // Writing to a string cannot fail.
        let mut line = |fields: &[&str]| {
            let _ = writeln!(text, "{}", fields.join("\t"));
        };
        if let Some(Hierarchy { v2, mount }) = &self.hierarchy {
            line(&["hierarchy", if *v2 { "v2" } else { "v1" }, mount]);
        }
        if self.enabled {
            line(&["enabled"]);
        }
        for Isolation { name, cpus, owner, phase, balanced, steps } in &self.isolations {
            let phase = if *phase == Phase::Complete { "complete" } else { "changing" };
            let owner = owner.map_or_else(|| "-".to_owned(), |run| run.to_string());
            let steps = steps.iter().map(|step| step.name()).collect::<Vec<_>>().join(",");
            let balanced = if *balanced { "balanced" } else { "apart" };
            line(&["isolation", name, &cpus.to_string(), &owner, phase, balanced, &steps]);
        }
        for Setting { path, form, original, written, any, claims } in &self.settings {
            let form = Form::ALL.iter().find(|(known, _)| known == form).map_or("", |(_, name)| name);
            let fields = ["setting", form, path, original].into_iter();
            line(&fields.chain(written.iter().map(String::as_str)).collect::<Vec<_>>());
            if *any {
                line(&["any"]);
            }
            for (name, claim) in claims {
                match claim {
                    Claim::Free => line(&["free", name]),
                    Claim::Without(cpus) => line(&["without", name, &cpus.to_string()]),
                    Claim::Value(value) => line(&["value", name, value]),
                }
            }
        }
        for Moved { namespace, thread, start, group, cpus } in &self.moved {
            let (namespace, thread) = (namespace.to_string(), thread.to_string());
            let (start, cpus) = (start.to_string(), cpus.to_string());
            // The usual line is that of earlier versions.
            match *namespace == namespace::FIRST.to_string() {
                true => line(&["thread", &thread, &start, &cpus, group]),
                false => line(&["thread-in", &namespace, &thread, &start, &cpus, group]),
            }
        }
        line(&["end"]);
        text
    }

    /// Reads [`Journal::text`]; `None` when the text is none, or not whole.
    pub(super) fn parse(text: &str) -> Option<Journal> {
        let mut journal = Journal::default();
        let mut lines = text.strip_suffix("end\n")?.lines();
        if lines.next() != Some(HEAD) {
            return None;
        }
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["hierarchy", kind, mount] => {
                    journal.hierarchy = Some(Hierarchy { v2: kind == "v2", mount: mount.into() });
                }
                ["enabled"] => journal.enabled = true,
                ["isolation", name, cpus, owner, phase, balanced, steps] => journal.isolations.push(Isolation {
                    name: name.into(),
                    cpus: parse_cpus(cpus),
                    owner: if owner == "-" { None } else { Some(owner.parse().ok()?) },
                    phase: if phase == "complete" { Phase::Complete } else { Phase::Changing },
                    balanced: balanced == "balanced",
                    steps: steps
                        .split(',')
                        .filter(|step| !step.is_empty())
                        .map(str::parse)
                        .collect::<Result<_, _>>()
                        .ok()?,
                }),
                ["setting", form, path, original, ref written @ ..] => journal.settings.push(Setting {
                    path: path.into(),
                    form: Form::ALL.iter().find(|(_, name)| *name == form)?.0,
                    original: original.into(),
                    written: written.iter().map(|value| (*value).to_owned()).collect(),
                    any: false,
                    claims: Vec::new(),
                }),
                ["any"] => journal.settings.last_mut()?.any = true,
                ["free", name] => journal.settings.last_mut()?.claims.push((name.into(), Claim::Free)),
                ["without", name, cpus] => {
                    journal.settings.last_mut()?.claims.push((name.into(), Claim::Without(parse_cpus(cpus))));
                }
                ["value", name, value] => {
                    journal.settings.last_mut()?.claims.push((name.into(), Claim::Value(value.into())));
                }
                ["thread", thread, start, cpus, group] => journal.moved.push(Moved {
                    namespace: namespace::FIRST,
                    thread: thread.parse().ok()?,
                    start: start.parse().ok()?,
                    group: group.into(),
                    cpus: parse_cpus(cpus),
                }),
                ["thread-in", namespace, thread, start, cpus, group] => journal.moved.push(Moved {
                    namespace: namespace.parse().ok()?,
                    thread: thread.parse().ok()?,
                    start: start.parse().ok()?,
                    group: group.into(),
                    cpus: parse_cpus(cpus),
                }),
                _ => return None,
            }
        }
        Some(journal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_as_it_was_written_and_never_in_part() {
        let (cpus, run) = (|list: &str| parse_cpus(list), RunId::new().unwrap());
        let isolation = |name: &str, list: &str, phase| Isolation {
            name: name.into(),
            cpus: cpus(list),
            owner: (name == "run").then(|| RunId::new().unwrap()),
            phase,
            balanced: name == "run",
            steps: if name == "run" { Vec::new() } else { Step::all().collect() },
        };
        let journal = Journal {
            hierarchy: Some(Hierarchy { v2: false, mount: "/sys/fs/cgroup/cpu set".into() }),
            enabled: true,
            isolations: vec![isolation("rt", "1", Phase::Complete), isolation("run", "2-3", Phase::Changing)],
            settings: vec![
                Setting {
                    path: "/proc/irq/4/smp_affinity_list".into(),
                    form: Form::List,
                    original: "0-3".into(),
                    written: vec!["0,2-3".into(), "0".into()],
                    any: false,
                    claims: vec![("rt".into(), Claim::Without(cpus("1"))), ("run".into(), Claim::Value("a b".into()))],
                },
                Setting {
                    path: "/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq".into(),
                    form: Form::Plain,
                    original: "800000".into(),
                    written: vec!["800000".into()],
                    any: true,
                    claims: vec![(run_owner(&run), Claim::Free)],
                },
            ],
            moved: vec![
                Moved { namespace: namespace::FIRST, thread: 7, start: 99, group: "/".into(), cpus: cpus("0-3") },
                Moved { namespace: 12, thread: 8, start: 9, group: String::new(), cpus: cpus("1") },
            ],
        };
        let text = journal.text();
        assert_eq!(journal.runs(), BTreeSet::from([run]));
        assert_eq!(Journal::parse(&text), Some(journal));
        assert_eq!(Journal::parse(&Journal::default().text()), Some(Journal::default()));
        for end in 0..text.len() {
            assert_eq!(Journal::parse(&text[..end]), None);
        }
        assert_eq!(Journal::parse(&text.replace("isolate 1", "isolate 2")), None);
    }
}
