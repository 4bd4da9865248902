//! The power policy in the report of `takt check`: its requests, the frequency domains, and their lacks.

use crate::preferences;
use serde_json::{Value, json};
use std::path::Path;
use takt_core::cpus::CpuSet;
use takt_core::power::{FrequencyDomain, OperatingPoint, Platform};
use takt_core::work::Speed;
use takt_linux::power::{self, Root};
use takt_workload::Workload;

/// More frequencies than these are not listed one by one.
const LISTED: usize = 8;

/// The power policy on the machine of the file, or else on this one.
pub(super) struct Plan {
    /// Its name and summary.
    policy: Option<(String, &'static str)>,
    /// Whether it sets frequencies, limits idle states, and may keep best-effort partitions from starting.
    requests: Vec<&'static str>,
    /// Energy performance preferences.
    preferences: Vec<(CpuSet, &'static str)>,
    /// Whether the domains are those of the key `platform`.
    described: bool,
    platform: Platform,
    /// Why it cannot be used there.
    lacks: Vec<String>,
    /// Why the preferences cannot be set on this machine.
    lacks_preferences: Option<String>,
}

impl Plan {
    /// `None` without a power policy and without a preference. The fault of a policy that does not suit the key `platform` has been reported before.
    pub(super) fn of(workload: &Workload, root: Option<&Path>) -> Option<Plan> {
        let root = root.map_or_else(Root::machine, Root::imitation);
        let lacks_preferences = preferences::lack(&root, workload);
        let preferences = workload.settings.epp.clone();
        let Some(spec) = workload.power.as_ref().filter(|spec| !spec.is_none()) else {
            return (!preferences.is_empty()).then(|| Plan {
                policy: None,
                requests: Vec::new(),
                preferences,
                described: false,
                platform: here(&root, workload, &mut Vec::new()),
                lacks: Vec::new(),
                lacks_preferences,
            });
        };
        let uses = spec.profile.uses;
        let mut requests = Vec::new();
        if uses.frequencies {
            requests.push("frequencies");
        }
        if uses.latencies {
            requests.push("limits of idle latencies");
        }
        // Nothing else is left that a policy could request.
        if requests.is_empty() {
            requests.push("skipped starts of best-effort partitions");
        }
        let described = workload.platform.as_ref().map(|described| described.platform());
        let mut lacks = Vec::new();
        let platform = match &described {
            Some(platform) => platform.clone(),
            None => here(&root, workload, &mut lacks),
        };
        let known = platform.domains.iter().fold(CpuSet::EMPTY, |all, domain| all.union(&domain.cpus));
        let lacking = workload.system.cpus.difference(&known);
        if uses.frequencies && lacks.is_empty() && !lacking.is_empty() {
            lacks.push(format!("CPU {lacking} belongs to no frequency domain"));
        }
        if !uses.frequencies {
            lacks.clear();
        }
        if lacks.is_empty()
            && let Err(fault) = workload.power_host(platform.clone())
        {
            lacks.push(fault.message.clone());
            lacks.extend(fault.hint.clone());
        }
        let policy = Some((takt_workload::power_text(spec), spec.profile.summary));
        let described = described.is_some();
        Some(Plan { policy, requests, preferences, described, platform, lacks, lacks_preferences })
    }

    /// In lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((policy, summary)) = &self.policy {
            lines.push(format!("power policy {policy}: {summary}; requests {}", self.requests.join(" and ")));
        }
        for (cpus, name) in &self.preferences {
            lines.push(format!("energy performance preference of CPU {cpus}: {name}"));
        }
        let of = if self.described { "platform" } else { "this machine" };
        for domain in &self.platform.domains {
            lines.push(format!(
                "frequency domain {} of {of} (CPU {}): {}",
                domain.name,
                domain.cpus,
                frequencies(&domain.points)
            ));
        }
        if let [first, rest @ ..] = &self.lacks[..] {
            let hint = rest.first().map_or(String::new(), |hint| format!("; {hint}"));
            lines.push(format!("warning: `takt run` refuses this power policy here: {first}{hint}"));
        }
        if let Some(lack) = &self.lacks_preferences {
            lines.push(format!("warning: `takt run` refuses `epp` here: {lack}"));
        }
        lines
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let domain = |domain: &FrequencyDomain| {
            json!({"name": domain.name, "cpus": domain.cpus.to_string(),
                   "khz": domain.points.iter().map(|point| point.khz).collect::<Vec<_>>()})
        };
        let preference = |(cpus, name): &(CpuSet, &str)| json!({"cpus": cpus.to_string(), "name": name});
        json!({"policy": self.policy.as_ref().map(|(policy, _)| policy), "requests": self.requests,
               "preferences": self.preferences.iter().map(preference).collect::<Vec<_>>(),
               "lacks_preferences": self.lacks_preferences, "of": if self.described { "platform" } else { "machine" },
               "domains": self.platform.domains.iter().map(domain).collect::<Vec<_>>(), "zones": self.platform.zones,
               "lacks": self.lacks})
    }
}

/// The frequency domains and sensors of this machine, as far as the workload has their CPUs.
fn here(root: &Root, workload: &Workload, lacks: &mut Vec<String>) -> Platform {
    let domains = power::domains(root).unwrap_or_else(|unavailable| {
        lacks.push(unavailable.reason);
        Vec::new()
    });
    let point = |khz: &u32| OperatingPoint { khz: *khz, speed: Speed::NOMINAL };
    let domain = |domain: power::Domain| FrequencyDomain {
        cpus: domain.cpus.intersection(&workload.system.cpus),
        points: domain.frequencies.iter().map(point).collect(),
        name: domain.name,
    };
    let zones = power::zones(root).into_iter().flat_map(|zone| [zone.name, zone.alias]);
    Platform {
        domains: domains.into_iter().map(domain).filter(|domain| !domain.cpus.is_empty()).collect(),
        zones: zones.collect(),
        simulated: false,
    }
}

fn frequencies(points: &[OperatingPoint]) -> String {
    let mhz = |point: &OperatingPoint| (point.khz / 1000).to_string();
    match points {
        [first, .., last] if points.len() > LISTED => {
            format!("{} frequencies from {} to {} MHz", points.len(), mhz(first), mhz(last))
        }
        _ => format!("{} MHz", points.iter().map(mhz).collect::<Vec<_>>().join(", ")),
    }
}
