//! An imitated machine whose driver of frequencies is slow, for benches of power policies.

use super::lab::Lab;
use crate::failure::Failure;
use crate::files;
use crate::scratch::Scratch;
use std::fs;
use std::path::Path;

/// Time that each write of a frequency takes, in microseconds.
pub(super) const DELAY_US: u32 = 100;
/// Writes a frequency at each begin of a window, since the one before had the other frequency.
pub(super) const POLICY: &str = "alternating:800,1600";

/// A file system in memory, as that of the kernel's settings is: on a disk, the kernel's threads that write it take the CPU from the work.
const MEMORY: &str = "/dev/shm";

/// Creates the files of a machine with one frequency domain of all CPUs of the lab. Returns its directory.
pub(super) fn machine(lab: &Lab) -> Result<Scratch, Failure> {
    let memory = Path::new(MEMORY);
    let above = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let root = Scratch::new_in("takt-bench-", &above)?;
    let domain = root.path().join("sys/devices/system/cpu/cpufreq/policy0");
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
        // A change of the files that follow from the frequency would take longer than the write of a real driver.
        ("scaling_setspeed.imitation", format!("delay {DELAY_US}\nignore")),
    ];
    contents.iter().try_for_each(|(name, content)| files::write(&domain.join(name), format!("{content}\n")))?;
    Ok(root)
}
