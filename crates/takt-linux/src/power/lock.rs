//! One run for each frequency domain: two policies of power in one domain would undo each other's requests.
//!
//! The locks are abstract names of sockets, as those of CPUs ([`crate::CpuLock`]). A second name says who holds them.

use super::cpufreq::{DIR, Domain};
use super::root::Root;
use crate::cpu_lock::{NAME_MAX, bind, patience};
use crate::group::Unavailable;
use crate::run_id::RunId;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::time::Instant;
use takt_core::cpus::CpuSet;

/// Why a run does not get the power settings of a machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// A frequency domain belongs to another run.
    #[error(transparent)]
    InUse(Unavailable),
    /// This machine cannot do it, or this user may not.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The frequency domains of a run, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct DomainLock {
    _names: Vec<UnixListener>,
}

impl DomainLock {
    /// Takes these domains for a run of the workload with this name. Waits up to two seconds for the locks of a run that has died.
    ///
    /// # Errors
    /// A domain belongs to another run, or the machine has no abstract sockets.
    pub(super) fn acquire(run: &RunId, root: &Root, domains: &[Domain], workload: &str) -> Result<DomainLock, Refusal> {
        let domains: Vec<(&str, CpuSet)> = domains.iter().map(|domain| (domain.name.as_str(), domain.cpus)).collect();
        DomainLock::take(run, &machine(root), &domains, workload)
    }

    /// Takes these domains of this machine, with their CPUs, for something else than a run. Its name is what a refused run reports.
    ///
    /// # Errors
    /// As [`DomainLock::acquire`].
    pub(crate) fn of_machine(domains: &[(&str, CpuSet)], holder: &str) -> Result<DomainLock, Refusal> {
        let run = RunId::new().map_err(|e| Unavailable {
            reason: format!("this process cannot be identified: {e}"),
            fix: "mount /proc".into(),
        })?;
        DomainLock::take(&run, "", domains, holder)
    }

    fn take(run: &RunId, machine: &str, domains: &[(&str, CpuSet)], workload: &str) -> Result<DomainLock, Refusal> {
        let began = Instant::now();
        loop {
            let mut names = Vec::new();
            let mut failed = None;
            for domain in domains {
                let key = format!("{machine}{}", domain.0);
                match bind(&format!("takt/frequency/{key}")) {
                    Ok(name) => names.push(name),
                    Err(e) => {
                        failed = Some((domain, key, e));
                        break;
                    }
                }
                names.extend(bind(&short(format!("takt/frequency-of/{key}/{run}/"), workload)).ok());
            }
            let Some((domain, key, error)) = failed else { return Ok(DomainLock { _names: names }) };
            if error.kind() != io::ErrorKind::AddrInUse {
                return Err(Refusal::Unavailable(Unavailable {
                    reason: format!("the frequency domain {} cannot be locked against other runs: {error}", domain.0),
                    fix: "allow abstract Unix sockets, or run without a power policy".into(),
                }));
            }
            let holder = holder(&key);
            if began.elapsed() > patience(holder.as_ref().map(|(run, _)| run)) {
                return Err(Refusal::InUse(in_use(domain, holder)));
            }
            drop(names);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn in_use((name, cpus): &(&str, CpuSet), holder: Option<(RunId, String)>) -> Unavailable {
    let by = holder.map_or_else(|| "another run".into(), |(run, name)| format!("{name} (process {})", run.pid()));
    Unavailable {
        reason: format!(
            "the frequency of CPU {cpus} (the domain {name}) is controlled by {by}: two runs cannot share it"
        ),
        fix: "end that run or wait for its end, name CPUs of other domains in the file, or run without a power policy"
            .into(),
    }
}

/// Tells imitated machines from this one and from each other.
fn machine(root: &Root) -> String {
    match root.is_imitated() {
        false => String::new(),
        true => {
            fs::metadata(root.path(DIR)).map_or(String::new(), |known| format!("{:x}:{:x}:", known.dev(), known.ino()))
        }
    }
}

fn short(mut name: String, workload: &str) -> String {
    for c in workload.chars().map(|c| if c.is_control() || c == '@' { '?' } else { c }) {
        if name.len() + c.len_utf8() > NAME_MAX {
            break;
        }
        name.push(c);
    }
    name
}

/// The run that holds a domain, and the name of its workload.
fn holder(key: &str) -> Option<(RunId, String)> {
    let text = fs::read("/proc/self/net/unix").unwrap_or_default();
    let start = format!(" @takt/frequency-of/{key}/");
    String::from_utf8_lossy(&text).lines().find_map(|line| {
        let (run, workload) = line.split_once(&start)?.1.split_once('/')?;
        Some((run.parse().ok()?, workload.to_owned()))
    })
}
