//! The power policy of a run over real processes: the frequencies and sensors of this machine for it, and the account at the end.

use super::super::steps::power::Recorded;
use crate::failure::Failure;
use crate::preferences;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::time::Duration;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::power::{FrequencyDomain, Host, OperatingPoint, Platform, Value};
use takt_core::work::Speed;
use takt_exec::{Plan, Report};
use takt_linux::power::{self, Domain, Meter, Root, Settings, Zone};
use takt_linux::rt;
use takt_trace::{MeterLabel, Quantity};
use takt_workload::{Code, MissingCpus, Workload};

/// How often sensors are read, where the file does not say.
const PERIOD: Duration = Duration::from_millis(100);

/// The most sensors that are read.
const MOST_ZONES: usize = 16;

/// Finds what the power policy needs of this machine, and lets the engine host it. The machine is not changed before the run. Returns its part that the policy
/// sees.
///
/// # Errors
/// The policy does not fit the file or this machine. Status 3 where the machine lacks something.
pub(super) fn set_up(
    root: Option<&Path>,
    workload: &mut Workload,
    engine: &mut Engine,
    plan: &mut Plan,
    mut warn: impl FnMut(String),
) -> Result<Option<Platform>, Failure> {
    let uses = workload.power.as_ref().filter(|spec| !spec.is_none()).map(|spec| spec.profile.uses);
    if uses.is_none() && workload.settings.epp.is_empty() {
        return Ok(None);
    }
    let root = root.map_or_else(Root::machine, Root::imitation);
    let arguments = workload.power.iter_mut().flat_map(|spec| &mut spec.values);
    let mut zones = zones(&root, arguments.flatten())?;
    let required = zones.len();
    if uses.is_some() {
        observe_others(&root, &mut zones);
    }
    let present = rt::affinity(0)?;
    let remaps = workload.settings.missing_cpus == MissingCpus::Remap;
    let real = |cpu: usize| match remaps {
        true => rt::remapped(&CpuSet::single(cpu), &present),
        false => CpuSet::single(cpu),
    };
    // The CPUs of the file that are among these of the machine.
    let of_file =
        |cpus: &CpuSet| -> CpuSet { workload.system.cpus.iter().filter(|cpu| !real(*cpu).is_disjoint(cpus)).collect() };
    let found = power::domains(&root);
    let own = |domain: &&Domain| !of_file(&domain.cpus).is_empty();
    // Frequencies are measured also where the policy sets none.
    let measured: Vec<Domain> = found.iter().flatten().filter(own).cloned().collect();
    let preferences = preferences::of(workload, &found, of_file)?;
    let mut domains = Vec::new();
    if uses.is_some_and(|uses| uses.frequencies) {
        found.map_err(|u| Failure::machine(Code::PowerUnavailable, u.reason, &u.fix))?;
        domains.clone_from(&measured);
        let known = domains.iter().fold(CpuSet::EMPTY, |all, domain| all.union(&of_file(&domain.cpus)));
        let lacking = workload.system.cpus.difference(&known);
        if !lacking.is_empty() {
            let message = format!("CPU {lacking} belongs to no frequency domain of this machine");
            let fix = "name other CPUs in the file, or run without a power policy";
            return Err(Failure::machine(Code::PowerUnavailable, message, fix));
        }
    }
    let managed: Vec<&str> =
        domains.iter().filter(|domain| domain.governor == "userspace").map(|domain| domain.name.as_str()).collect();
    if !managed.is_empty() {
        warn(format!(
            "The governor of {} is `userspace` already: another program may set frequencies, too, and Takt overrides them until its end",
            managed.join(", ")
        ));
    }
    let described = workload.platform.as_ref().map(|described| described.platform().domains).unwrap_or_default();
    let fastest = domains.iter().filter_map(|domain| domain.frequencies.last()).copied().max().unwrap_or(1);
    let domain = |domain: &Domain| {
        let cpus = of_file(&domain.cpus);
        let points = domain.frequencies.iter().map(|khz| point(*khz, &cpus, &described, fastest)).collect();
        FrequencyDomain { name: domain.name.clone(), cpus, points }
    };
    let platform = Platform {
        domains: domains.iter().map(domain).collect(),
        zones: zones.iter().map(|zone| zone.name.clone()).collect(),
        simulated: false,
    };
    let host = host(workload, &platform)?;
    let hosted = host.is_some();
    if let Some(host) = host {
        engine.set_power(host);
    }
    if hosted || !preferences.is_empty() {
        let period = workload.platform.as_ref().map(|described| described.model().sample.ns().unsigned_abs());
        let cpus = workload.system.cpus.iter().filter_map(|cpu| real(cpu).iter().next());
        plan.power = Some(Settings {
            domains,
            preferences,
            latencies: if uses.is_some_and(|uses| uses.latencies) { cpus.collect() } else { Vec::new() },
            meters: power::meters(&root, &measured, &zones),
            measured,
            zones,
            required,
            period: period.map_or(PERIOD, Duration::from_nanos),
            workload: plan.name.clone(),
            root,
        });
    }
    Ok(hosted.then_some(platform))
}

/// The meters of the machine, as traces name them.
pub(super) fn labels(meters: &[Meter]) -> Vec<MeterLabel> {
    let quantity = |quantity| match quantity {
        power::Quantity::Frequency => Quantity::Frequency,
        power::Quantity::Temperature => Quantity::Temperature,
        power::Quantity::Energy => Quantity::Energy,
        power::Quantity::Time => Quantity::Time,
    };
    meters.iter().map(|m| MeterLabel { name: m.name.clone(), quantity: quantity(m.quantity) }).collect()
}

/// The power policy of the workload on this machine.
///
/// # Errors
/// The policy does not fit.
pub(super) fn host(workload: &Workload, platform: &Platform) -> Result<Option<Host>, Failure> {
    let host = workload.power_host(platform.clone());
    host.map_err(|fault| Failure::diagnostics(&workload.source, &[*fault]))
}

/// The power policy for the record of the run.
pub(super) fn recorded(workload: &Workload, platform: &Platform) -> Option<Recorded> {
    let spec = workload.power.clone()?;
    Some(Recorded { spec, platform: platform.clone(), demands: workload.demands() })
}

/// The sensors that arguments of the policy name, by name, alias or number. The arguments then have their names.
fn zones<'a>(root: &Root, values: impl Iterator<Item = &'a mut Value>) -> Result<Vec<Zone>, Failure> {
    let all = power::zones(root);
    let mut used: Vec<Zone> = Vec::new();
    for value in values {
        let Value::Zone(name) = value else { continue };
        let named = all.iter().find(|zone| zone.is_named(name));
        let numbered = || name.parse::<usize>().ok().and_then(|number| all.get(number));
        let Some(zone) = named.or_else(numbered) else {
            let names: Vec<String> = all.iter().map(|zone| format!("{} ({})", zone.name, zone.alias)).collect();
            let message = format!("this machine has no thermal zone `{name}`");
            let fix = match names.is_empty() {
                true => "load the driver of its sensors (`sensors-detect`); a virtual machine has none".to_owned(),
                false => format!("its zones are {}", names.join(", ")),
            };
            return Err(Failure::machine(Code::PowerUnavailable, message, &fix));
        };
        // Two zones of one name are distinguished by their aliases.
        let unique = all.iter().filter(|other| other.name == zone.name).count() == 1;
        let mut zone = zone.clone();
        if !unique {
            zone.name.clone_from(&zone.alias);
        }
        name.clone_from(&zone.name);
        if !used.contains(&zone) {
            used.push(zone);
        }
    }
    Ok(used)
}

/// Adds the other thermal zones that can be read, for the trace.
fn observe_others(root: &Root, zones: &mut Vec<Zone>) {
    for mut zone in power::zones(root) {
        let known = zones.iter().any(|other| other.alias == zone.alias);
        if known || !zone.is_thermal_zone() || !zone.can_be_read(root) || zones.len() >= MOST_ZONES {
            continue;
        }
        if zones.iter().any(|other| other.name == zone.name) {
            zone.name.clone_from(&zone.alias);
        }
        zones.push(zone);
    }
}

/// A frequency with its speed: that of the file's `platform`, or else in proportion to the highest frequency of all.
fn point(khz: u32, cpus: &CpuSet, described: &[FrequencyDomain], fastest: u32) -> OperatingPoint {
    let of_file = described.iter().find(|domain| !domain.cpus.is_disjoint(cpus));
    let known = of_file.and_then(|domain| domain.index(khz).map(|index| domain.points[index].speed));
    let share = u64::from(khz) * 1_000_000 / u64::from(fastest.max(1));
    let proportional = u32::try_from(share).ok().and_then(Speed::from_millionths);
    OperatingPoint { khz, speed: known.or(proportional).unwrap_or(Speed::NOMINAL) }
}

/// The account of the run's power, in lines for people.
pub(super) fn lines(workload: &Workload, report: &Report) -> Vec<String> {
    let Some(account) = &report.power else { return Vec::new() };
    let written = &account.written;
    let mut lines = Vec::new();
    if let Some(spec) = workload.power.as_ref().filter(|spec| !spec.is_none()) {
        lines.push(format!(
            "power policy {}: {} requests, {} written, {} dropped, {} refused, {} clamped",
            takt_workload::power_text(spec),
            written.requested,
            written.written,
            written.dropped,
            written.failed,
            written.clamped
        ));
    }
    for (domain, name) in &account.preferences {
        lines.push(format!("energy performance preference of {domain}: {name}"));
    }
    for (residency, domain) in account.residencies.iter().zip(&account.domains) {
        let Some(residency) = residency else { continue };
        let total = residency.iter().map(|(_, ms)| ms).sum::<u64>().max(1);
        let times = residency.iter().filter(|(_, ms)| *ms > 0);
        let times: Vec<String> =
            times.map(|(khz, ms)| format!("{} MHz {} %", khz / 1000, (ms * 100 + total / 2) / total)).collect();
        if !times.is_empty() {
            lines.push(format!("time at frequencies of {domain}: {}", times.join(", ")));
        }
    }
    for energy in &account.energy {
        lines.push(format!("energy of {}: {}.{:03} J", energy.name, energy.uj / 1_000_000, energy.uj / 1000 % 1000));
    }
    lines
}

/// Notes and warnings about the run's power.
pub(crate) fn remarks(report: &Report) -> Vec<String> {
    let Some(account) = &report.power else { return Vec::new() };
    let mut remarks: Vec<String> = account.notes.iter().map(|note| format!("note: {note}")).collect();
    if let Some(why) = &account.written.first_failure {
        let refused = account.written.failed;
        remarks.push(format!("warning: the kernel refused {refused} writes of power settings, first with: {why}"));
    }
    let written = &account.written;
    if written.dropped > 0 {
        remarks.push(format!(
            "warning: {} of {} requests for frequencies and idle states were dropped: a newer one came before they were written",
            written.dropped, written.requested
        ));
    }
    if account.written.clamped > 0 {
        let clamped = account.written.clamped;
        remarks.push(format!("note: {clamped} requested frequencies were outside of the limits of the hardware then"));
    }
    for (bad, zone) in account.bad.iter().zip(&account.zones).filter(|(bad, _)| **bad > 0) {
        remarks.push(format!("warning: {bad} readings of the sensor {zone} gave no temperature"));
    }
    remarks
}

/// The account for programs.
pub(super) fn object(report: &Report) -> Json {
    let Some(account) = &report.power else { return Json::Null };
    let written = &account.written;
    let domain = |(name, residency): (&String, &Option<Vec<(u32, u64)>>)| {
        let times = residency
            .as_ref()
            .map(|times| times.iter().map(|(khz, ms)| json!({"khz": khz, "ms": ms})).collect::<Vec<_>>());
        json!({"name": name, "time_at_frequencies": times})
    };
    json!({
        "requested": written.requested, "written": written.written, "dropped": written.dropped,
        "refused": written.failed, "clamped": written.clamped, "longest_write_ns": written.longest.as_nanos() as u64,
        "wakeups": written.woken,
        "preferences": account.preferences.iter().map(|(domain, name)| json!({"domain": domain, "name": name}))
            .collect::<Vec<_>>(),
        "domains": account.domains.iter().zip(&account.residencies).map(domain).collect::<Vec<_>>(),
        "energy": account.energy.iter().map(|e| json!({"name": e.name, "uj": e.uj})).collect::<Vec<_>>(),
        "zones": account.zones.iter().zip(&account.bad).map(|(zone, bad)| json!({"name": zone, "bad": bad}))
            .collect::<Vec<_>>(),
    })
}
