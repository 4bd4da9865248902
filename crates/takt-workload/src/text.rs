//! Words of messages.

use takt_core::cpus::CpuSet;

/// `CPU 2`, or `CPUs 0-3`.
pub(crate) fn cpus_text(cpus: &CpuSet) -> String {
    format!("CPU{} {cpus}", if cpus.len() == 1 { "" } else { "s" })
}

/// A name for a message: not longer than a line can bear.
pub(crate) fn clipped(name: &str) -> String {
    const MOST: usize = 60;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST).chain(['…']).collect()
}
