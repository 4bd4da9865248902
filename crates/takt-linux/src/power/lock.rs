//! One run for each frequency domain: two policies of power in one domain would undo each other's requests.
//!
//! The locks are abstract names of sockets, as those of CPUs ([`crate::CpuLock`]). A second name says who holds them.

use super::cpufreq::{DIR, Domain};
use super::root::Root;
use crate::cpu_lock::{NAME_MAX, bind, patience};
use crate::group::{Unavailable, fix_of};
use crate::run_id::RunId;
use crate::socket_names;
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
        DomainLock::take(run, root, &domains, workload)
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
        DomainLock::take(&run, &Root::machine(), domains, holder)
    }

    fn take(run: &RunId, root: &Root, domains: &[(&str, CpuSet)], workload: &str) -> Result<DomainLock, Refusal> {
        let (began, machine) = (Instant::now(), machine(root));
        loop {
            let mut names = Vec::new();
            let mut failed = None;
            for domain in domains {
                let key = format!("{machine}{}", domain.0);
                let name = format!("takt/frequency/{key}");
                match bind(&name) {
                    Ok(name) => names.push(name),
                    Err(e) if e.kind() == io::ErrorKind::AddrInUse && is_powerless(&name, root, domain.0) => {
                        // Another run of root has no name of the first kind then, either.
                        if holders(&key).any(|holder| !holder.subordinate && holder.run != *run) {
                            failed = Some((domain, key, e));
                            break;
                        }
                    }
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
                    fix: fix_of(&error, "allow abstract Unix sockets, or run without a power policy"),
                }));
            }
            // Any user can take a name of the second kind, beside that of the holder.
            let holder = holders(&key).min_by_key(|holder| holder.subordinate);
            if began.elapsed() > patience(holder.as_ref().map(|holder| &holder.run)) {
                return Err(Refusal::InUse(in_use(domain, holder)));
            }
            drop(names);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn in_use((name, cpus): &(&str, CpuSet), holder: Option<Holder>) -> Unavailable {
    let by = holder.map_or_else(
        || "another run".into(),
        |Holder { run, workload, .. }| format!("{workload} (process {})", run.pid()),
    );
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

/// Whether a name belongs to a user who cannot control the frequency of the domain, and this process to root.
fn is_powerless(name: &str, root: &Root, domain: &str) -> bool {
    let setting = root.path(&format!("{DIR}/{domain}/scaling_max_freq"));
    socket_names::find(name).is_some_and(|name| name.is_subordinate() && !name.may_write(&setting))
}

/// A run that says that it holds a domain.
struct Holder {
    run: RunId,
    workload: String,
    /// It belongs to another user, and this process to root.
    subordinate: bool,
}

fn holders(key: &str) -> impl Iterator<Item = Holder> {
    let start = format!("takt/frequency-of/{key}/");
    socket_names::all().into_iter().filter_map(move |name| {
        let (run, workload) = name.name.strip_prefix(&start)?.split_once('/')?;
        Some(Holder { run: run.parse().ok()?, workload: workload.to_owned(), subordinate: name.is_subordinate() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    /// The name of a domain in the hands of a user who cannot control it refuses nothing to root, and hides no run of root.
    #[test]
    fn another_user_takes_no_domain_from_root() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: another user needs root");
        }
        let room = std::env::temp_dir().join(format!("takt-domains-{}", std::process::id()));
        fs::create_dir_all(room.join(DIR).join("policy0")).unwrap();
        let setting = room.join(DIR).join("policy0/scaling_max_freq");
        fs::write(&setting, "1").unwrap();
        let root = Root::imitation(&room);
        let name = format!("takt/frequency/{}policy0", machine(&root));
        let take = |name| {
            DomainLock::take(&RunId::new().unwrap(), &root, &[("policy0", CpuSet::single(930))], name)
                .map_err(|e| e.to_string())
        };
        let user = Identity::of_numbers(65_532, 65_532, vec![65_532]);
        let theirs = user.with_rights_to_files(|| bind(&name)).unwrap();
        // The kernel lists names by the sums of their bytes, so some of these are before the name of a run.
        let forge = |number: usize| {
            let name = format!("takt/frequency-of/{}policy0/{number}-1/", machine(&root));
            bind(&short(name, &"forged".repeat(number)))
        };
        let forged: Vec<_> = user.with_rights_to_files(|| (1..=64).map(forge).collect::<Result<_, _>>()).unwrap();
        if is_powerless(&name, &root, "policy0") {
            let first = take("first.yaml").unwrap();
            let refused = take("second.yaml").unwrap_err();
            assert!(refused.contains("is controlled by first.yaml"), "{refused}");
            drop((first, forged));
            // To this user the administrator has given the domain.
            std::os::unix::fs::chown(&setting, Some(65_532), None).unwrap();
            assert!(take("second.yaml").unwrap_err().contains("is controlled by another run"));
        } else {
            println!("skipped: a kernel without CONFIG_UNIX_DIAG");
        }
        drop(theirs);
        take("third.yaml").unwrap();
        fs::remove_dir_all(room).unwrap();
    }
}
