//! Measurements of a machine during a run beside the inputs of its power policy: frequencies, further temperatures, energy, time at frequencies.

use super::cpufreq::{Domain, time_in_state};
use super::root::{ControlFile, Root};
use super::sensors::{Energy, EnergyCounter, EnergySource, Thermometer, Zone, energy_sources, zones};
use std::time::{Duration, Instant};

/// Times at frequencies are read so often: the kernel counts them in units of 10 ms.
const TIMES: Duration = Duration::from_secs(1);

/// The most sensors of temperature.
const MOST_SENSORS: usize = 16;

/// The most frequencies of a domain whose times are measured.
const MOST_FREQUENCIES: usize = 64;

/// The kind of a measurement, with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// The present frequency of a domain (`scaling_cur_freq`), in kHz.
    Frequency,
    /// The temperature of a hwmon sensor, in m°C.
    Temperature,
    /// Energy of a part of the machine since the start, in µJ. A counter that wraps is continued.
    Energy,
    /// Time of a domain at a frequency since the start (`time_in_state`), in ms.
    Time,
}

/// A quantity that the machine measures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meter {
    /// Its name: `policy0`, `coretemp:Package id 0`, `package-0`, `policy0 at 800 MHz`.
    pub name: String,
    /// Its kind.
    pub quantity: Quantity,
    source: Source,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    Frequency(String),
    Temperature(Zone),
    Energy(EnergySource),
    /// The domain by its place in the list, and a frequency in kHz.
    Time(usize, u32),
}

/// The meters of a machine: frequencies and times of these domains, temperatures of hwmon sensors that are not among `read`, and energy.
/// O(domains × frequencies + sensors).
#[must_use]
pub fn meters(root: &Root, domains: &[Domain], read: &[Zone]) -> Vec<Meter> {
    let mut meters = Vec::new();
    for domain in domains {
        let path = domain.file("scaling_cur_freq");
        if root.number(&path).is_ok() {
            let name = domain.name.clone();
            meters.push(Meter { name, quantity: Quantity::Frequency, source: Source::Frequency(path) });
        }
    }
    let others = zones(root).into_iter().filter(|zone| !zone.is_thermal_zone() && !read.contains(zone));
    for zone in others.filter(|zone| zone.can_be_read(root)).take(MOST_SENSORS) {
        let name = zone.name.clone();
        meters.push(Meter { name, quantity: Quantity::Temperature, source: Source::Temperature(zone) });
    }
    for source in energy_sources(root) {
        let name = source.name.clone();
        meters.push(Meter { name, quantity: Quantity::Energy, source: Source::Energy(source) });
    }
    for (index, domain) in domains.iter().enumerate() {
        for (khz, _) in time_in_state(root, domain).into_iter().flatten().take(MOST_FREQUENCIES) {
            let name = format!("{} at {} MHz", domain.name, khz / 1000);
            meters.push(Meter { name, quantity: Quantity::Time, source: Source::Time(index, khz) });
        }
    }
    meters
}

/// The open files of meters.
#[derive(Debug)]
pub(super) struct Instruments {
    root: Root,
    domains: Vec<Domain>,
    frequencies: Vec<(u16, ControlFile)>,
    temperatures: Vec<(u16, Thermometer)>,
    energies: Vec<(u16, EnergyCounter)>,
    /// Domain, frequency in kHz, meter, and the time at the start.
    times: Vec<(usize, u32, u16, u64)>,
    /// By meter: the last value that was reported.
    last: Vec<Option<i64>>,
    timed: Option<Instant>,
}

impl Instruments {
    /// Opens the files. A meter whose file cannot be opened measures nothing.
    pub(super) fn open(root: &Root, domains: &[Domain], meters: &[Meter]) -> Instruments {
        let mut all = Instruments {
            root: root.clone(),
            domains: domains.to_vec(),
            frequencies: Vec::new(),
            temperatures: Vec::new(),
            energies: Vec::new(),
            times: Vec::new(),
            last: vec![None; meters.len()],
            timed: None,
        };
        let before: Vec<_> = domains.iter().map(|domain| time_in_state(root, domain).unwrap_or_default()).collect();
        for (index, meter) in (0..).zip(meters) {
            match &meter.source {
                Source::Frequency(path) => {
                    all.frequencies.extend(root.open_to_read(path).ok().map(|file| (index, file)));
                }
                Source::Temperature(zone) => {
                    all.temperatures.extend(Thermometer::open(root, zone).ok().map(|file| (index, file)));
                }
                Source::Energy(source) => {
                    all.energies.extend(EnergyCounter::open(root, source).map(|counter| (index, counter)));
                }
                Source::Time(domain, khz) => {
                    let times = before.get(*domain).into_iter().flatten();
                    let start = times.clone().find(|(other, _)| other == khz).map_or(0, |(_, ms)| *ms);
                    all.times.push((*domain, *khz, index, start));
                }
            }
        }
        all
    }

    /// Reads all meters, and reports the values that have changed.
    pub(super) fn read(&mut self, mut report: impl FnMut(u16, i64)) {
        let Instruments { root, domains, frequencies, temperatures, energies, times, last, timed } = self;
        let mut note = |meter: u16, value: i64| {
            let known = &mut last[usize::from(meter)];
            if known.replace(value) != Some(value) {
                report(meter, value);
            }
        };
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        for (meter, file) in frequencies {
            // Zero is the answer of a driver that does not know.
            if let Ok(khz) = file.number()
                && khz > 0
            {
                note(*meter, signed(khz));
            }
        }
        for (meter, thermometer) in temperatures {
            if let Some(millidegrees) = thermometer.read() {
                note(*meter, millidegrees.into());
            }
        }
        for (meter, counter) in energies {
            counter.read();
            note(*meter, signed(counter.energy().uj));
        }
        if times.is_empty() || timed.is_some_and(|at| at.elapsed() < TIMES) {
            return;
        }
        *timed = Some(Instant::now());
        let now: Vec<_> = domains.iter().map(|domain| time_in_state(root, domain).unwrap_or_default()).collect();
        for (domain, khz, meter, start) in times {
            if let Some((_, ms)) = now[*domain].iter().find(|(other, _)| other == khz) {
                note(*meter, signed(ms.saturating_sub(*start)));
            }
        }
    }

    /// The energy since the files were opened.
    pub(super) fn energy(&self) -> Vec<Energy> {
        self.energies.iter().map(|(_, counter)| counter.energy()).collect()
    }
}
