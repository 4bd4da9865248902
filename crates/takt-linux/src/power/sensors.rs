//! Temperatures and energy, as far as the machine measures them.

use super::root::{ControlFile, Root};
use std::io;

/// The lowest and the highest temperature that a sensor can have, in m°C. Others are faults of the sensor or its driver.
const PLAUSIBLE: std::ops::RangeInclusive<i64> = -40_000..=150_000;

const THERMAL: &str = "sys/class/thermal";
const HWMON: &str = "sys/class/hwmon";
const POWERCAP: &str = "sys/class/powercap";

/// A sensor of temperature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Its name: the type of a thermal zone (`cpu-thermal`), or the name of a hwmon device with the label of the sensor (`coretemp:Package id 0`).
    pub name: String,
    /// Another name, which is unique: `thermal_zone0`, `hwmon1/temp1`.
    pub alias: String,
    path: String,
}

impl Zone {
    /// Whether this name means the sensor.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.alias == name
    }

    /// Whether it is a thermal zone, and no hwmon sensor.
    #[must_use]
    pub fn is_thermal_zone(&self) -> bool {
        self.path.starts_with(THERMAL)
    }

    /// Whether it has a temperature now.
    #[must_use]
    pub fn can_be_read(&self, root: &Root) -> bool {
        Thermometer::open(root, self).is_ok_and(|mut thermometer| thermometer.read().is_some())
    }
}

/// All sensors of temperature: thermal zones, and then those of hwmon devices.
#[must_use]
pub fn zones(root: &Root) -> Vec<Zone> {
    let mut zones = Vec::new();
    for alias in root.numbered(THERMAL, "thermal_zone") {
        let dir = format!("{THERMAL}/{alias}");
        let name = root.read(&format!("{dir}/type")).unwrap_or_else(|_| alias.clone());
        zones.push(Zone { name, alias, path: format!("{dir}/temp") });
    }
    for device in root.numbered(HWMON, "hwmon") {
        let dir = format!("{HWMON}/{device}");
        let driver = root.read(&format!("{dir}/name")).unwrap_or_else(|_| device.clone());
        let inputs = root.names(&dir).into_iter().filter(|name| name.starts_with("temp") && name.ends_with("_input"));
        for input in inputs {
            let sensor = input.trim_end_matches("_input").to_owned();
            let label = root.read(&format!("{dir}/{sensor}_label"));
            let name = label.map_or_else(|_| format!("{driver}:{sensor}"), |label| format!("{driver}:{label}"));
            zones.push(Zone { name, alias: format!("{device}/{sensor}"), path: format!("{dir}/{input}") });
        }
    }
    zones
}

/// A sensor that is read again and again.
#[derive(Debug)]
pub(super) struct Thermometer {
    file: ControlFile,
    /// Readings that gave no temperature.
    pub(super) bad: u64,
}

impl Thermometer {
    pub(super) fn open(root: &Root, zone: &Zone) -> io::Result<Thermometer> {
        Ok(Thermometer { file: root.open_to_read(&zone.path)?, bad: 0 })
    }

    /// The temperature in m°C. A sensor that is not ready (EAGAIN), fails or reads nonsense gives none, and is counted.
    pub(super) fn read(&mut self) -> Option<i32> {
        let value = self.file.read().ok().and_then(|text| text.parse::<i64>().ok());
        let plausible = value.filter(|value| PLAUSIBLE.contains(value)).and_then(|value| i32::try_from(value).ok());
        self.bad += u64::from(plausible.is_none());
        plausible
    }
}

/// A file that counts energy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct EnergySource {
    /// The part of the machine.
    pub(super) name: String,
    path: String,
    /// After this value it begins again with 0, in µJ.
    range: Option<u64>,
}

/// A counter of energy.
#[derive(Debug)]
pub(super) struct EnergyCounter {
    name: String,
    file: ControlFile,
    range: Option<u64>,
    last: u64,
    total: u64,
}

impl EnergyCounter {
    /// Opens the file and reads it. Without the right to read, it may still be opened.
    pub(super) fn open(root: &Root, source: &EnergySource) -> Option<EnergyCounter> {
        let file = root.open_to_read(&source.path).ok()?;
        let last = file.number().ok()?;
        Some(EnergyCounter { name: source.name.clone(), file, range: source.range, last, total: 0 })
    }

    /// Adds the energy since the last reading. A counter without a range that goes back has been reset: nothing is added.
    ///
    /// It has to be read more often than it wraps, which takes minutes at the least.
    pub(super) fn read(&mut self) {
        let Ok(now) = self.file.number() else { return };
        let since = match (now.checked_sub(self.last), self.range) {
            (Some(since), _) => since,
            (None, Some(range)) => now.saturating_add(range.saturating_sub(self.last)),
            (None, None) => 0,
        };
        self.total = self.total.saturating_add(since);
        self.last = now;
    }

    /// The energy since it was opened.
    pub(super) fn energy(&self) -> Energy {
        Energy { name: self.name.clone(), uj: self.total }
    }
}

/// Energy that a part of the machine has used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Energy {
    /// The part, such as `package-0`.
    pub name: String,
    /// In µJ.
    pub uj: u64,
}

/// The counters of energy that this user may read: powercap, or else hwmon. Zones of powercap that are parts of others are left out, so that nothing
/// counts twice.
pub(super) fn energy_sources(root: &Root) -> Vec<EnergySource> {
    let mut sources = Vec::new();
    let mut add = |name: String, path: String, range: Option<u64>| {
        let source = EnergySource { name, path, range };
        if EnergyCounter::open(root, &source).is_some() {
            sources.push(source);
        }
    };
    for zone in root.names(POWERCAP) {
        // `intel-rapl:0` is a package, `intel-rapl:0:1` a part of one, and `psys` the whole machine with the packages.
        let is_top = zone.split(':').count() == 2;
        let name = root.read(&format!("{POWERCAP}/{zone}/name")).unwrap_or_else(|_| zone.clone());
        // The same packages, through another interface.
        let twice = zone.starts_with("intel-rapl-mmio") && root.exists(&format!("{POWERCAP}/intel-rapl:0"));
        if !is_top || twice || name == "psys" {
            continue;
        }
        let range = root.read(&format!("{POWERCAP}/{zone}/max_energy_range_uj")).ok().and_then(|max| max.parse().ok());
        add(name, format!("{POWERCAP}/{zone}/energy_uj"), range);
    }
    if !sources.is_empty() {
        return sources;
    }
    let mut add = |name: String, path: String| {
        let source = EnergySource { name, path, range: None };
        if EnergyCounter::open(root, &source).is_some() {
            sources.push(source);
        }
    };
    for device in root.numbered(HWMON, "hwmon") {
        let dir = format!("{HWMON}/{device}");
        let driver = root.read(&format!("{dir}/name")).unwrap_or_else(|_| device.clone());
        for input in root.names(&dir).into_iter().filter(|n| n.starts_with("energy") && n.ends_with("_input")) {
            let sensor = input.trim_end_matches("_input").to_owned();
            let label = root.read(&format!("{dir}/{sensor}_label")).unwrap_or(sensor);
            add(format!("{driver}:{label}"), format!("{dir}/{input}"));
        }
    }
    sources
}
