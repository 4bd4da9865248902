//! Frequencies of CPUs (cpufreq): domains, what they can do, and how one is set.
//!
//! The governor `userspace` takes each frequency of the driver. Where it is missing, equal limits (minimum = maximum) leave no choice to
//! any governor, and none to drivers that choose by themselves (`intel_pstate` and `amd_pstate` in active mode). Both ways are documented in the kernel's
//! "CPU Performance Scaling" (admin-guide/pm/cpufreq).

use super::root::{ControlFile, Root};
use crate::control::parse_cpus;
use crate::group::Unavailable;
use std::io;
use takt_core::cpus::CpuSet;

/// The folder of cpufreq below the root.
pub(super) const DIR: &str = "sys/devices/system/cpu/cpufreq";

/// Distance of the frequencies that are offered where the driver has no table, in kHz: the unit of Intel's and AMD's multipliers.
const STEP: u32 = 100_000;

/// The file of a hint to the hardware (energy performance preference).
pub(super) const PREFERENCE: &str = "energy_performance_preference";
/// The preference for performance.
const PERFORMANCE: &str = "performance";

/// How the frequency of a domain is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// By the governor `userspace`.
    Speed,
    /// By equal limits.
    Limits,
}

/// CPUs with a common frequency: a cpufreq policy of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Name of its directory, such as `policy0`.
    pub name: String,
    /// Its CPUs that are online.
    pub cpus: CpuSet,
    /// The driver.
    pub driver: String,
    /// The governor at present.
    pub governor: String,
    /// The governors that it can have.
    pub governors: Vec<String>,
    /// Its frequencies in kHz, from the lowest. Without a table of the driver: its lowest and highest one, and the multiples of 100 MHz in between.
    pub frequencies: Vec<u32>,
    /// Whether the driver has a table of frequencies.
    pub has_table: bool,
    /// How its frequency is set.
    pub method: Method,
    /// The energy performance preferences (EPP) that its driver takes by name. Empty where it takes none.
    pub preferences: Vec<String>,
}

impl Domain {
    /// The path of one of its files below the root.
    pub(super) fn file(&self, name: &str) -> String {
        format!("{DIR}/{}/{name}", self.name)
    }

    /// Whether the hardware takes the preference for performance.
    fn has_preference(&self) -> bool {
        self.preferences.iter().any(|name| name == PERFORMANCE)
    }

    /// Checks that the driver takes this energy performance preference (EPP). O(preferences).
    ///
    /// # Errors
    /// The preferences that it takes, or that it takes none.
    pub fn takes_preference(&self, name: &str) -> Result<(), Unavailable> {
        let Domain { name: domain, cpus, driver, preferences, .. } = self;
        if preferences.iter().any(|known| known == name) {
            return Ok(());
        }
        let (reason, fix) = match preferences.is_empty() {
            true => (
                format!("the driver {driver} of the frequency domain {domain} (CPU {cpus}) takes no energy performance preference"),
                "use intel_pstate or amd_pstate in active mode on a processor that has it, or remove `epp` from the file".into(),
            ),
            false => (
                format!("the frequency domain {domain} (CPU {cpus}) has no energy performance preference `{name}`"),
                format!("write one that its driver {driver} has: {}", preferences.join(", ")),
            ),
        };
        Err(Unavailable { reason, fix })
    }

    /// The files that a run changes, in the order in which they are restored.
    pub(super) fn settings(&self) -> Vec<String> {
        let mut names = Vec::new();
        if self.method == Method::Speed {
            names.push("scaling_governor");
        }
        names.extend(["scaling_max_freq", "scaling_min_freq"]);
        if self.governor == "userspace" {
            names.push("scaling_setspeed");
        }
        if self.method == Method::Limits && self.has_preference() {
            names.push(PREFERENCE);
        }
        names.into_iter().map(|name| self.file(name)).collect()
    }

    fn read(root: &Root, name: &str) -> io::Result<Option<Domain>> {
        let file = |file: &str| format!("{DIR}/{name}/{file}");
        let cpus = parse_cpus(&root.read(&file("affected_cpus"))?.replace(' ', ","));
        // All of its CPUs are offline.
        if cpus.is_empty() {
            return Ok(None);
        }
        let words = |name: &str| -> Vec<String> {
            let text = root.read(&file(name)).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        };
        let (lowest, highest) = (root.number(&file("cpuinfo_min_freq"))?, root.number(&file("cpuinfo_max_freq"))?);
        let listed = ["scaling_available_frequencies", "scaling_boost_frequencies"].map(words);
        let mut frequencies: Vec<u32> = listed.iter().flatten().filter_map(|khz| khz.parse().ok()).collect();
        // Boost frequencies are listed while they are switched off, too.
        frequencies.retain(|khz| (lowest..=highest).contains(khz));
        let has_table = !frequencies.is_empty();
        if !has_table {
            let between = (lowest / STEP + 1..).map(|n| n * STEP).take_while(|khz| *khz < highest);
            frequencies = [lowest].into_iter().chain(between).chain([highest]).collect();
        }
        frequencies.sort_unstable();
        frequencies.dedup();
        let governors = words("scaling_available_governors");
        let speed = governors.iter().any(|governor| governor == "userspace");
        Ok(Some(Domain {
            name: name.to_owned(),
            cpus,
            driver: root.read(&file("scaling_driver")).unwrap_or_default(),
            governor: root.read(&file("scaling_governor"))?,
            governors,
            frequencies,
            has_table,
            method: if speed { Method::Speed } else { Method::Limits },
            preferences: words("energy_performance_available_preferences"),
        }))
    }
}

/// The frequency domains of a machine, in the order of the kernel's numbers. O(domains × frequencies).
///
/// # Errors
/// When there is none.
pub fn domains(root: &Root) -> Result<Vec<Domain>, Unavailable> {
    let mut domains = Vec::new();
    for name in root.numbered(DIR, "policy") {
        let domain = Domain::read(root, &name).map_err(|e| Unavailable {
            reason: format!("the frequency domain {name} cannot be read: {e}"),
            fix: "run as root, or run without a power policy".into(),
        })?;
        domains.extend(domain);
    }
    if domains.is_empty() {
        return Err(Unavailable {
            reason: format!("this machine has no control of CPU frequencies: {} has no policy", root.path(DIR).display()),
            fix: "load the driver of this processor (`modprobe acpi-cpufreq` or `modprobe cpufreq-dt`; a virtual machine has none), or run \
                  without a power policy; `takt sim` simulates one on a `platform`"
                .into(),
        });
    }
    Ok(domains)
}

/// The result of a request that the kernel took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Set {
    /// The domain has this frequency, as far as the kernel knows.
    Exact,
    /// The kernel has clamped it to another one.
    Clamped,
}

/// Sets the frequency of a domain through files that are open.
#[derive(Debug)]
pub(super) struct Setter {
    speed: Option<ControlFile>,
    min: ControlFile,
    max: ControlFile,
    /// The limits that this setter wrote last, in kHz; `None` when they are not known.
    limits: Option<(u32, u32)>,
    widest: (u32, u32),
}

impl Setter {
    /// Opens the files of a domain. Nothing is changed.
    pub(super) fn open(root: &Root, domain: &Domain) -> io::Result<Setter> {
        let speed = match domain.method {
            Method::Speed => Some(root.open(&domain.file("scaling_setspeed"))?),
            Method::Limits => None,
        };
        let (min, max) = (root.open(&domain.file("scaling_min_freq"))?, root.open(&domain.file("scaling_max_freq"))?);
        let ends = (domain.frequencies.first(), domain.frequencies.last());
        let widest = (ends.0.copied().unwrap_or_default(), ends.1.copied().unwrap_or_default());
        Ok(Setter { speed, min, max, limits: None, widest })
    }

    /// Takes a domain over from its governor: `userspace` with open limits, or the present governor.
    pub(super) fn take_over(&mut self, root: &Root, domain: &Domain) -> io::Result<()> {
        match self.speed {
            Some(_) => {
                root.write(&domain.file("scaling_governor"), "userspace")?;
                let (min, max) = self.widest;
                self.set_limits(min, max)
            }
            None => {
                if domain.has_preference() {
                    // A hint. Without it the limits hold all the same.
                    let _ = root.write(&domain.file(PREFERENCE), PERFORMANCE);
                }
                Ok(())
            }
        }
    }

    fn read_limits(&self) -> io::Result<(u32, u32)> {
        let number = |file: &ControlFile| file.number().map(|khz| u32::try_from(khz).unwrap_or(u32::MAX));
        Ok((number(&self.min)?, number(&self.max)?))
    }

    /// Sets limits, in an order in which the minimum is never above the maximum. If the second write fails, the first is undone.
    fn set_limits(&mut self, min: u32, max: u32) -> io::Result<()> {
        let before = match self.limits.take() {
            Some(limits) => limits,
            None => self.read_limits()?,
        };
        let raises = max > before.1;
        let ((first, value, undo), (second, other)) = match raises {
            true => ((&self.max, max, before.1), (&self.min, min)),
            false => ((&self.min, min, before.0), (&self.max, max)),
        };
        first.write(&value.to_string())?;
        if let Err(e) = second.write(&other.to_string()) {
            let _ = first.write(&undo.to_string());
            return Err(e);
        }
        self.limits = Some((min, max));
        Ok(())
    }

    /// Sets the frequency and reads it back.
    ///
    /// # Errors
    /// The kernel has refused it. The domain then has the frequency from before.
    pub(super) fn set(&mut self, khz: u32) -> io::Result<Set> {
        let exact = match &self.speed {
            Some(speed) => {
                speed.write(&khz.to_string())?;
                // The file reads as the request, and the frequency itself is measured on some processors. The limits tell.
                self.read_limits().is_ok_and(|(min, max)| (min..=max).contains(&khz))
            }
            None => {
                self.set_limits(khz, khz)?;
                self.read_limits().ok() == Some((khz, khz))
            }
        };
        Ok(if exact { Set::Exact } else { Set::Clamped })
    }
}

/// The frequency of a domain in kHz as the kernel reports it now (`scaling_cur_freq`). `None` where it does not.
#[must_use]
pub fn current_frequency(root: &Root, domain: &Domain) -> Option<u32> {
    root.number(&domain.file("scaling_cur_freq")).ok().filter(|khz| *khz > 0)
}

/// The time that a domain has spent at each of its frequencies since the driver was loaded, in ms, from `time_in_state`. `None` where the kernel does not
/// count it.
#[must_use]
pub fn time_in_state(root: &Root, domain: &Domain) -> Option<Vec<(u32, u64)>> {
    let text = root.read(&domain.file("stats/time_in_state")).ok()?;
    let line = |line: &str| {
        let (khz, time) = line.split_once(' ')?;
        // The kernel counts in units of 10 ms.
        Some((khz.parse().ok()?, time.trim().parse::<u64>().ok()? * 10))
    };
    text.lines().map(line).collect()
}
