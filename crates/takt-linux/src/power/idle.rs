//! The depth of idle states: the latency that the kernel may take to resume a CPU.
//!
//! Each CPU has a limit of its own, which all programs share and which outlasts its writer. Where it is missing, the limit of all CPUs is held by an open
//! descriptor, and the kernel drops it with that.

use super::root::{ControlFile, Root};
use std::io;

/// The limit of all CPUs, below the root.
const GLOBAL: &str = "dev/cpu_dma_latency";
/// No limit, in µs: the default of the kernel's quality-of-service interface (2000 s).
const NONE: i32 = 2_000_000_000;

/// The path of a CPU's limit below the root.
pub(super) fn path(cpu: usize) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us")
}

/// Sets the limits of CPUs through files that are open.
#[derive(Debug)]
pub(super) enum Latencies {
    /// The limit of each CPU.
    Each(Vec<ControlFile>),
    /// The limit of all CPUs, and the limit that each of these CPUs asked for.
    All(ControlFile, Vec<Option<u32>>),
}

impl Latencies {
    /// Opens the files of these CPUs. Nothing is changed.
    pub(super) fn open(root: &Root, cpus: &[usize]) -> io::Result<Latencies> {
        if cpus.iter().all(|cpu| root.exists(&path(*cpu))) {
            let files: io::Result<Vec<_>> = cpus.iter().map(|cpu| root.open(&path(*cpu))).collect();
            return Ok(Latencies::Each(files?));
        }
        Ok(Latencies::All(root.open(GLOBAL)?, vec![None; cpus.len()]))
    }

    /// Limits the latency of the CPU at this position of the list, in µs; `None` is no limit.
    ///
    /// # Errors
    /// The kernel has refused it.
    pub(super) fn set(&mut self, index: usize, limit: Option<u32>) -> io::Result<()> {
        match self {
            Latencies::Each(files) => {
                // To the kernel 0 is no limit.
                let text = match limit {
                    None => "0".to_owned(),
                    Some(0) => "n/a".to_owned(),
                    Some(us) => us.min(i32::MAX as u32 - 1).to_string(),
                };
                files[index].write(&text)
            }
            Latencies::All(file, limits) => {
                let before = std::mem::replace(&mut limits[index], limit);
                let strictest = limits.iter().flatten().min();
                let strictest = strictest.map_or(NONE, |us| i32::try_from(*us).unwrap_or(NONE));
                let written = file.write_number(strictest);
                if written.is_err() {
                    limits[index] = before;
                }
                written
            }
        }
    }
}
