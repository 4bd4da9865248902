//! Power in summaries: energy by its places and tasks, temperatures, and counts of the power policy.

use super::tables::{percent, table};
use serde::Serialize;
use std::io::{self, Write};
use takt_core::power::{Counts, Platform};
use takt_core::time::Span;
use takt_sim::PowerReport;
use takt_workload::{Workload, power_text};

const AJ_PER_UJ: u128 = 1_000_000_000_000;

/// The power of a run: what the machine drew, where that is known, and the counts of a power policy, where there is one.
pub struct Power<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// Its frequency domains and thermal zones.
    pub platform: &'a Platform,
    /// The energy and temperatures of a simulated machine.
    pub report: Option<&'a PowerReport>,
    /// The counts of the power policy.
    pub counts: Option<Counts>,
}

/// The power of a simulation or run. Counts are those of the power policy; energies and temperatures those of a simulated machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PowerEntry {
    /// The power policy with its arguments, or `none`.
    pub policy: String,
    /// Requests for frequencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_requests: Option<u64>,
    /// Requests for limits of idle latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_latency_requests: Option<u64>,
    /// Starts of best-effort partitions that the policy skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_starts: Option<u64>,
    /// Samples of temperatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_samples: Option<u64>,
    /// Samples that could not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_samples: Option<u64>,
    /// Energy of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_uj: Option<Energy>,
    /// By frequency domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<Vec<DomainPower>>,
    /// By thermal zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Vec<Zone>>,
}

/// Energy in microjoules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Energy {
    /// Of the whole machine.
    pub all: u64,
    /// Outside the CPUs, at any time.
    pub base: u64,
    /// Outside the CPUs while some CPU ran something.
    pub outside: u64,
}

/// Energy and frequencies of a frequency domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DomainPower {
    /// Its name.
    pub name: String,
    /// Its CPUs, as in `0-3`.
    pub cpus: String,
    /// Energy of its CPUs in microjoules.
    pub energy_uj: u64,
    /// The time at each frequency.
    pub frequencies: Vec<TimeAt>,
}

/// The time at a frequency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct TimeAt {
    /// The frequency.
    pub khz: u32,
    /// The time.
    pub time_ns: i64,
}

/// Temperatures of a thermal zone in thousandths of a degree Celsius.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// At the start.
    pub first_millidegrees: i32,
    /// At the end.
    pub last_millidegrees: i32,
    /// The highest one.
    pub highest_millidegrees: i32,
}

/// Attojoules as joules with six decimals.
fn joules(aj: u128) -> String {
    let uj = aj / AJ_PER_UJ;
    format!("{}.{:06}", uj / 1_000_000, uj % 1_000_000)
}

/// Thousandths of a degree as degrees.
fn degrees(milli: i32) -> String {
    let sign = if milli < 0 { "-" } else { "" };
    format!("{sign}{}.{:03}", milli.unsigned_abs() / 1000, milli.unsigned_abs() % 1000)
}

/// A part of a sum, in millionths.
fn part(of: u128, all: u128) -> String {
    percent((of * 1_000_000 / all.max(1)) as i64)
}

impl Power<'_> {
    fn policy(&self) -> String {
        self.workload.power.as_ref().map_or("none".to_owned(), power_text)
    }

    /// The value of the key `power` of `--json`.
    #[must_use]
    pub fn entry(&self) -> PowerEntry {
        let count = |of: fn(&Counts) -> u64| self.counts.as_ref().map(of);
        let uj = |aj: u128| (aj / AJ_PER_UJ) as u64;
        let domain = |(domain, of): (&takt_core::power::FrequencyDomain, &takt_sim::DomainEnergy)| DomainPower {
            name: domain.name.clone(),
            cpus: domain.cpus.to_string(),
            energy_uj: uj(of.energy_aj),
            frequencies: domain
                .points
                .iter()
                .zip(&of.times)
                .map(|(point, time)| TimeAt { khz: point.khz, time_ns: time.ns() })
                .collect(),
        };
        let zone = |(name, zone): (&String, &takt_sim::ZoneTemperatures)| Zone {
            name: name.clone(),
            first_millidegrees: zone.first,
            last_millidegrees: zone.last,
            highest_millidegrees: zone.highest,
        };
        PowerEntry {
            policy: self.policy(),
            frequency_requests: count(|c| c.frequencies),
            idle_latency_requests: count(|c| c.latencies),
            skipped_starts: count(|c| c.skipped_starts),
            temperature_samples: count(|c| c.samples),
            bad_samples: count(|c| c.bad_samples),
            energy_uj: self.report.map(|report| Energy {
                all: uj(report.total_aj()),
                base: uj(report.base_aj),
                outside: uj(report.outside_aj),
            }),
            domains: self.report.map(|of| self.platform.domains.iter().zip(&of.domains).map(domain).collect()),
            zones: self.report.map(|of| self.platform.zones.iter().zip(&of.zones).map(zone).collect()),
        }
    }

    /// The energy of a task in microjoules.
    #[must_use]
    pub fn of_task(&self, task: usize) -> Option<u64> {
        Some((self.report?.tasks_aj.get(task)? / AJ_PER_UJ) as u64)
    }

    /// The lines and tables for people.
    ///
    /// # Errors
    /// Those of the output.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if let Some(counts) = self.counts {
            let Counts { frequencies, latencies, skipped_starts, samples, bad_samples } = counts;
            writeln!(
                out,
                "\npower policy {}: frequency requests {frequencies}, idle latency requests {latencies}, skipped starts {skipped_starts}, \
                           temperature samples {samples}, bad samples {bad_samples}",
                self.policy()
            )?;
        }
        let Some(report) = self.report else { return Ok(()) };
        let all = report.total_aj();
        let mut rows = vec![["energy", "J", "part"].map(String::from).to_vec()];
        let mut row = |name: &str, aj: u128| rows.push(vec![name.to_owned(), joules(aj), part(aj, all)]);
        for (domain, of) in self.platform.domains.iter().zip(&report.domains) {
            row(&domain.name, of.energy_aj);
        }
        row("outside the CPUs, while busy", report.outside_aj);
        row("outside the CPUs, at any time", report.base_aj);
        row("all", all);
        writeln!(out)?;
        table(out, &rows)?;
        let mut rows = vec![["task", "J", "part"].map(String::from).to_vec()];
        for (task, aj) in self.workload.tasks.iter().zip(&report.tasks_aj) {
            rows.push(vec![task.name.clone(), joules(*aj), part(*aj, all)]);
        }
        writeln!(out)?;
        table(out, &rows)?;
        for (domain, of) in self.platform.domains.iter().zip(&report.domains) {
            let run: i64 = of.times.iter().map(|time| time.ns()).sum();
            let time = |(point, time): (&takt_core::power::OperatingPoint, &Span)| {
                format!("{} MHz {}", super::decimal(u128::from(point.khz) * 1000), part(time.ns() as u128, run as u128))
            };
            let times: Vec<String> = domain.points.iter().zip(&of.times).map(time).collect();
            writeln!(out, "frequencies of {} (CPU {}): {}", domain.name, domain.cpus, times.join(", "))?;
        }
        for (name, zone) in self.platform.zones.iter().zip(&report.zones) {
            let [first, last, highest] = [zone.first, zone.last, zone.highest].map(degrees);
            writeln!(
                out,
                "temperature of {name}: {first} °C at the start, {last} °C at the end, {highest} °C at most"
            )?;
        }
        Ok(())
    }
}

/// Writes the energy and the temperatures as CSV: a row for each domain, place outside the CPUs, task and zone.
///
/// # Errors
/// Those of the output.
pub fn write_csv(power: &Power<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "kind,name,energy_uj,first_millidegrees,last_millidegrees,highest_millidegrees")?;
    let Some(report) = power.report else { return Ok(()) };
    let mut energy = |kind: &str, name: &str, aj: u128| writeln!(out, "{kind},{},{},,,", quoted(name), aj / AJ_PER_UJ);
    for (domain, of) in power.platform.domains.iter().zip(&report.domains) {
        energy("domain", &domain.name, of.energy_aj)?;
    }
    energy("outside", "", report.outside_aj)?;
    energy("base", "", report.base_aj)?;
    energy("all", "", report.total_aj())?;
    for (task, aj) in power.workload.tasks.iter().zip(&report.tasks_aj) {
        energy("task", &task.name, *aj)?;
    }
    for (name, zone) in power.platform.zones.iter().zip(&report.zones) {
        writeln!(out, "zone,{},,{},{},{}", quoted(name), zone.first, zone.last, zone.highest)?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energies_and_temperatures_are_decimals() {
        assert_eq!([joules(0), joules(1_234_567_890_123_456_789)], ["0.000000", "1.234567"]);
        assert_eq!([degrees(61_600), degrees(-500), degrees(5)], ["61.600", "-0.500", "0.005"]);
    }
}
