//! The header of a trace about its workload.

use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Domain, PolicySpec, Task};
use takt_core::power::Platform;
use takt_core::time::Span;
use takt_trace::{DomainLabel, Header, TaskLabel};
use takt_workload::Workload;

/// The settings that a policy does not have by default, as the command line takes them: `quantum=2ms`.
#[must_use]
pub fn settings(policy: &PolicySpec) -> String {
    takt_workload::policy_text(policy).split_once(':').map_or(String::new(), |(_, settings)| settings.into())
}

/// Names what records of a power policy are about.
#[must_use]
pub fn with_power(mut header: Header, workload: &Workload, platform: &Platform) -> Header {
    header.frequency_domains = platform.domains.iter().map(|domain| domain.name.clone()).collect();
    header.zones.clone_from(&platform.zones);
    header.partitions.clone_from(&workload.partitions);
    header
}

/// The header of a trace of this workload.
#[must_use]
pub fn header(workload: &Workload, source: &str, duration: Option<Span>) -> Header {
    let (system, policy) = (&workload.system, workload.policy());
    let own_domains = workload.handed.as_ref().map_or(usize::MAX, |handed| handed.own_domains);
    // Charts show the tasks of each domain together. Beside tasks of the kernel, the domain of a single policy has no name.
    let mut domains = vec![None; system.tasks.len()];
    for (domain, name) in
        system.domains.iter().zip(&workload.domains).take(own_domains).filter(|(_, name)| !name.is_empty())
    {
        let title = system.band(domain).map_or_else(|| name.clone(), |band| format!("{name} (band {band})"));
        domain.tasks.iter().for_each(|task| domains[task.index()] = Some(title.clone()));
    }
    let label = |((info, task), domain): ((&takt_workload::TaskInfo, &Task), Option<String>)| TaskLabel {
        name: info.name.clone(),
        partition: info.partition.map(|p| workload.partitions[p].clone()).or(domain),
        pid: None,
        class: info.class.filter(|_| workload.handed.is_some()).map(|class| class.to_string()),
        completion: (task.arrival == Arrival::Activated).then_some(task.completion),
        added: false,
    };
    let domain = |(domain, name): (&Domain, &String)| DomainLabel {
        name: name.clone(),
        policy: takt_workload::policy_text(&domain.policy),
    };
    Header {
        source: source.into(),
        workload: workload.source.name.clone(),
        policy: policy.profile.name.into(),
        settings: settings(policy),
        scope: policy.scope.name().into(),
        seed: system.seed,
        places: system.places(),
        real_places: Vec::new(),
        kernel_cpus: workload.handed.as_ref().map_or(CpuSet::EMPTY, |handed| handed.cpus),
        tasks: workload.tasks.iter().zip(&system.tasks).zip(domains).map(label).collect(),
        resources: workload.resources.clone(),
        // Records of switches name domains by number, also where the file has one policy.
        domains: system.domains.iter().zip(&workload.domains).take(own_domains).map(domain).collect(),
        alternatives: system.alternatives.iter().map(takt_workload::policy_text).collect(),
        frequency_domains: Vec::new(),
        zones: Vec::new(),
        meters: Vec::new(),
        partitions: Vec::new(),
        window_lengths: system.windows.iter().map(|w| w.length).collect(),
        tables: (0..).zip(system.tables.iter().cloned()).collect(),
        table: None,
        duration,
        start_unix_ns: None,
        start_monotonic_ns: None,
    }
}
