//! Power in summaries: energy by its places and tasks, temperatures, and counts of the power policy.

use super::tables::{percent, table};
use serde_json::{Value, json};
use std::io::{self, Write};
use takt_core::power::{Counts, Platform};
use takt_core::time::Span;
use takt_sim::PowerReport;
use takt_workload::{Workload, power_text};

const AJ_PER_UJ: u128 = 1_000_000_000_000;

/// The power of a run: what the machine drew, where that is known, and the counts of a power policy, where there is one.
pub(crate) struct Power<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) platform: &'a Platform,
    pub(crate) report: Option<&'a PowerReport>,
    pub(crate) counts: Option<Counts>,
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
    pub(crate) fn json(&self) -> Value {
        let mut object = json!({"policy": self.policy()});
        if let Some(counts) = self.counts {
            object["frequency_requests"] = counts.frequencies.into();
            object["idle_latency_requests"] = counts.latencies.into();
            object["skipped_starts"] = counts.skipped_starts.into();
            object["temperature_samples"] = counts.samples.into();
            object["bad_samples"] = counts.bad_samples.into();
        }
        let Some(report) = self.report else { return object };
        let uj = |aj: u128| Value::from((aj / AJ_PER_UJ) as u64);
        let domain = |(domain, of): (&takt_core::power::FrequencyDomain, &takt_sim::DomainEnergy)| {
            let time = |(point, time): (&takt_core::power::OperatingPoint, &Span)| json!({"khz": point.khz, "time_ns": time.ns()});
            json!({"name": domain.name, "cpus": domain.cpus.to_string(), "energy_uj": uj(of.energy_aj),
                   "frequencies": domain.points.iter().zip(&of.times).map(time).collect::<Vec<_>>()})
        };
        let domains = self.platform.domains.iter().zip(&report.domains).map(domain);
        let zone = |(name, zone): (&String, &takt_sim::ZoneTemperatures)| json!({"name": name, "first_millidegrees": zone.first, "last_millidegrees": zone.last, "highest_millidegrees": zone.highest});
        object["energy_uj"] =
            json!({"all": uj(report.total_aj()), "base": uj(report.base_aj), "outside": uj(report.outside_aj)});
        object["domains"] = domains.collect();
        object["zones"] = self.platform.zones.iter().zip(&report.zones).map(zone).collect();
        object
    }

    /// The energy of a task in microjoules.
    pub(crate) fn of_task(&self, task: usize) -> Option<u64> {
        Some((self.report?.tasks_aj.get(task)? / AJ_PER_UJ) as u64)
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
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
pub(crate) fn write_csv(power: &Power<'_>, out: &mut impl Write) -> io::Result<()> {
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
