//! An imitated machine whose driver of frequencies is slow, for benches of power policies.

use super::lab::Lab;
use crate::failure::Failure;
use crate::files;
use std::fs;
use std::path::PathBuf;

/// Time that each write of a frequency takes, in microseconds.
pub(super) const DELAY_US: u32 = 100;
/// Writes a frequency at each begin of a window, since the one before had the other frequency.
pub(super) const POLICY: &str = "alternating:800,1600";

/// Creates the files of a machine with one frequency domain of all CPUs of the lab. Returns its directory.
pub(super) fn machine(lab: &Lab) -> Result<PathBuf, Failure> {
    let root = lab.path("sysfs");
    let domain = root.join("sys/devices/system/cpu/cpufreq/policy0");
    fs::create_dir_all(&domain).map_err(|e| Failure::file("create", &domain, &e))?;
    let cpus: Vec<String> = lab.all().iter().map(|cpu| cpu.to_string()).collect();
    let contents = [
        ("affected_cpus", cpus.join(" ")),
        ("scaling_driver", "imitated".into()),
        ("scaling_available_governors", "userspace performance".into()),
        ("scaling_governor", "performance".into()),
        ("scaling_available_frequencies", "1600000 800000".into()),
        ("cpuinfo_min_freq", "800000".into()),
        ("cpuinfo_max_freq", "1600000".into()),
        ("scaling_min_freq", "800000".into()),
        ("scaling_max_freq", "1600000".into()),
        ("scaling_cur_freq", "1600000".into()),
        ("scaling_setspeed", "<unsupported>".into()),
        ("scaling_setspeed.imitation", format!("delay {DELAY_US}")),
    ];
    contents.iter().try_for_each(|(name, content)| files::write(&domain.join(name), format!("{content}\n")))?;
    Ok(root)
}
