//! Whether isolations still are as they were created, and what runs on their CPUs nevertheless.

use super::change::{Isolator, group_of};
use super::journal::Phase;
use super::machine::Kernel;
use super::refusal::Refusal;
use super::step::Step;
use crate::control::parse_cpus;
use takt_core::cpus::CpuSet;

/// One isolation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// The directory of its set.
    pub group: String,
    /// Its steps.
    pub steps: Vec<Step>,
    /// Number of changed settings.
    pub settings: usize,
    /// Processes and threads in its set: number and name.
    pub members: Vec<(i32, String)>,
    /// Whether it is complete. Otherwise it is to be undone.
    pub complete: bool,
    /// It ends with a run.
    pub of_run: bool,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The step that it belongs to.
    pub step: Step,
    /// Whether it is as the step asks for.
    pub holds: bool,
    /// The present state.
    pub found: String,
}

/// So many names are listed.
const NAMES: usize = 8;

impl<K: Kernel> Isolator<K> {
    /// All isolations, in the order of their creation.
    pub fn status(&self) -> Vec<Status> {
        let threads = self.kernel.threads();
        let status = |isolation: &super::journal::Isolation| {
            let group = self.group_of(&isolation.name);
            let below = group_of(&isolation.name);
            let inside = |of: &str| of == below || of.starts_with(&format!("{below}/"));
            let members = threads.iter().filter(|thread| inside(&thread.group));
            let claims = |s: &&super::journal::Setting| s.claims.iter().any(|(owner, _)| *owner == isolation.name);
            Status {
                name: isolation.name.clone(),
                cpus: isolation.cpus,
                group,
                steps: isolation.steps.clone(),
                settings: self.journal.settings.iter().filter(claims).count(),
                members: members.map(|thread| (thread.id, thread.name.clone())).collect(),
                complete: isolation.phase == Phase::Complete,
                of_run: isolation.owner.is_some(),
            }
        };
        self.journal.isolations.iter().map(status).collect()
    }

    /// Looks whether each step of an isolation still holds. O(threads + settings).
    ///
    /// # Errors
    /// There is no such isolation.
    pub fn verify(&self, name: &str) -> Result<Vec<Finding>, Refusal> {
        let isolation = self.journal.isolation(name).ok_or_else(|| Refusal::Unknown(name.to_owned()))?;
        let online = self.online()?;
        let (group, v2) = (self.group_of(name), self.journal.hierarchy.as_ref().is_some_and(|h| h.v2));
        let mut findings = Vec::new();
        let mut find = |step, holds, found: String| findings.push(Finding { step, holds, found });
        let read = |file: &str| self.kernel.read(&format!("{group}/{file}")).unwrap_or_else(|e| e.to_string());
        let threads = self.kernel.threads();
        let own = group_of(name);
        let outside = |group: &str| group != own && !group.starts_with(&format!("{own}/"));
        for step in &isolation.steps {
            match step {
                Step::Exclusive => {
                    let cpus = read("cpuset.cpus");
                    let kind = read(if v2 { "cpuset.cpus.partition" } else { "cpuset.cpu_exclusive" });
                    let holds = parse_cpus(&cpus) == isolation.cpus && ["1", "root", "isolated"].contains(&&*kind);
                    let kind = if v2 { format!("partition {kind}") } else { format!("cpu_exclusive {kind}") };
                    find(*step, holds, format!("{group}: CPU {cpus}, {kind}"));
                }
                Step::Domain if v2 => {
                    let kind = read("cpuset.cpus.partition");
                    find(*step, matches!(&*kind, "root" | "isolated"), format!("partition {kind}"));
                }
                Step::Tasks | Step::KernelThreads => {
                    let kernel = *step == Step::KernelThreads;
                    let there = threads.iter().filter(|t| {
                        t.kernel == kernel && !t.fixed && outside(&t.group) && !t.cpus.is_disjoint(&isolation.cpus)
                    });
                    let names: Vec<String> = there.map(|t| format!("{} ({})", t.id, t.name)).collect();
                    let of = if kernel { "kernel threads" } else { "tasks" };
                    let found = match names.len() {
                        0 => format!("no other movable {of} may use CPU {}", isolation.cpus),
                        n => format!("{n} other movable {of} may use CPU {}: {}", isolation.cpus, listed(&names)),
                    };
                    find(*step, names.is_empty(), found);
                }
                _ => {}
            }
        }
        for setting in self.journal.settings.iter().filter(|s| s.claims.iter().any(|(owner, _)| owner == name)) {
            let step = step_of(&setting.path, &isolation.steps);
            let Some(desired) = setting.desired(&online) else {
                find(step, true, format!("{} is set by a power policy until its run ends", setting.path));
                continue;
            };
            let now = self.kernel.read(&setting.path).map(|text| setting.form.value(&text));
            match now {
                Ok(now) if now == desired => find(step, true, format!("{} is {now}", setting.path)),
                Ok(now) => find(step, false, format!("{} is {now}, and not {desired}", setting.path)),
                Err(e) => find(step, e.kind() == std::io::ErrorKind::NotFound, e.to_string()),
            }
        }
        Ok(findings)
    }

    /// Facts about the CPUs of an isolation that no step can change, in sentences.
    ///
    /// # Errors
    /// There is no such isolation.
    pub fn remaining(&self, name: &str) -> Result<Vec<String>, Refusal> {
        let isolation = self.journal.isolation(name).ok_or_else(|| Refusal::Unknown(name.to_owned()))?;
        let cpus = &isolation.cpus;
        let mut facts = Vec::new();
        let threads = self.kernel.threads();
        let stay = threads.iter().filter(|t| t.kernel && t.fixed && t.cpus.is_subset(cpus) && !t.cpus.is_empty());
        let stay: Vec<String> = stay.map(|t| t.name.clone()).collect();
        if !stay.is_empty() {
            facts.push(format!("kernel threads of CPU {cpus} stay: {}", listed(&stay)));
        }
        let interrupts = self.kernel.names("/proc/irq").into_iter().filter(|name| {
            let file = format!("/proc/irq/{name}/effective_affinity_list");
            self.kernel.read(&file).is_ok_and(|list| !parse_cpus(&list).is_disjoint(cpus))
        });
        let interrupts: Vec<String> = interrupts.collect();
        if !interrupts.is_empty() {
            facts.push(format!(
                "interrupts that may still arrive at CPU {cpus}, at the latest until their next one: {}",
                listed(&interrupts)
            ));
        }
        if !isolation.steps.contains(&Step::Tasks) {
            facts.push(format!("tasks of other sets may still use CPU {cpus}: exclusivity moves none of them away"));
        }
        Ok(facts)
    }
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES);
    let text = names.iter().take(NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// The step of a setting, by its path.
fn step_of(path: &str, steps: &[Step]) -> Step {
    let known = [
        ("sched_load_balance", Step::Domain),
        ("workqueue", Step::Workqueues),
        ("/irq/", Step::Interrupts),
        ("watchdog", Step::Watchdog),
        ("pm_qos", Step::Idle),
        ("cpufreq", Step::Frequency),
        ("sched_rt_runtime", Step::Throttling),
        ("hugepage", Step::HugePages),
        ("swappiness", Step::Swap),
    ];
    let found = known.iter().find(|(part, step)| path.contains(part) && steps.contains(step));
    found.map_or(Step::Exclusive, |(_, step)| *step)
}
