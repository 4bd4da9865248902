//! One run for each CPU: two runs on one CPU would delay each other, and each would report the delays as its own.
//!
//! A lock is an abstract Unix socket, bound to the name `takt/cpu/N`. Two sockets of one network namespace cannot have one name,
//! whatever their owners. There are no files, so there are no owners, modes, umasks or symbolic links, and nothing is left: the
//! kernel gives the name back when the last descriptor is closed, however the process ends. No process connects to these sockets.
//!
//! A second kind of name says who holds the locks: `takt/run/RUN/MODE/CPUS/WORKLOAD`, which everybody can read in
//! `/proc/net/unix`. Names of both kinds can be taken by any program of the machine. The kernel knows the user of each name, and those
//! of other users refuse nothing to root. Two users without rights can refuse CPUs to each other, and `share` is the way around.

use crate::group::{Unavailable, fix_of};
use crate::life::Life;
use crate::run_id::RunId;
use crate::socket_names::{self, Name};
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;

/// The longest abstract name.
pub(crate) const NAME_MAX: usize = 107;
/// How long a lock is waited for that the run of this name holds.
pub(crate) fn patience(run: Option<&RunId>) -> Duration {
    match run.map(|run| (run, run.life())) {
        // Processes that have not begun their program hold the locks, until the watcher of their run ends them.
        Some((_, Life::Ends | Life::Ended)) => Duration::from_secs(2),
        // It may be one of these, or in another namespace. Any user can take such a name, so the time is short.
        Some((run, Life::Unseen)) if !run.is_seen() => Duration::from_millis(500),
        // A run that is refused has some locks for a moment.
        _ => Duration::from_millis(50),
    }
}

/// Another run, as it says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    run: String,
    exclusive: bool,
    cpus: CpuSet,
    /// It belongs to another user, and this process to root.
    subordinate: bool,
    /// The name of its workload.
    pub workload: String,
}

impl Holder {
    /// The process that drives it, in its own PID namespace.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.run.split('-').next()?.parse().ok()
    }
    fn run(&self) -> Option<RunId> {
        self.run.parse().ok()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid() {
            Some(pid) => write!(f, "{} (process {pid})", self.workload),
            None => f.write_str(&self.workload),
        }
    }
}

/// The CPUs of a run, for as long as this value lives.
#[derive(Debug)]
pub struct CpuLock {
    _names: Vec<UnixListener>,
    shared_with: Vec<Holder>,
}

impl CpuLock {
    /// Takes these CPUs for a run of the workload with this name. With `share` also takes CPUs that another run has.
    ///
    /// Waits up to two seconds for the locks of a run that has died. O(CPUs + sockets of the machine).
    ///
    /// # Errors
    /// A CPU belongs to another run, or the machine has no abstract sockets; neither with `share`.
    pub fn acquire(run: &RunId, cpus: &CpuSet, workload: &str, share: bool) -> Result<CpuLock, Unavailable> {
        let began = Instant::now();
        loop {
            let refusal = match attempt(run, cpus, workload, share) {
                Ok(lock) => return Ok(lock),
                Err(refusal) => refusal,
            };
            // The wait is in vain if one of them lives.
            let patience = refusal.holders.iter().map(|holder| patience(holder.run().as_ref())).min();
            if began.elapsed() > patience.unwrap_or_else(|| self::patience(None)) {
                return Err(refusal.into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The runs that had some of the CPUs when this one took them.
    #[must_use]
    pub fn shared_with(&self) -> &[Holder] {
        &self.shared_with
    }
}

/// Why the CPUs could not be taken.
struct Refusal {
    cpus: Box<CpuSet>,
    holders: Vec<Holder>,
    error: Option<io::Error>,
}

impl From<Refusal> for Unavailable {
    fn from(Refusal { cpus, holders, error }: Refusal) -> Unavailable {
        let fix = "end that run or wait for its end, name other CPUs in the file, or force it by --share-cpus: the two runs then \
                   delay each other";
        let holders: Vec<String> = holders.iter().map(Holder::to_string).collect();
        match error {
            Some(e) => Unavailable {
                reason: format!("CPU {cpus} cannot be locked against other runs: {e}"),
                fix: fix_of(&e, "allow abstract Unix sockets, or run without that protection by --share-cpus"),
            },
            None if holders.is_empty() => {
                Unavailable { reason: format!("CPU {cpus} is in use by another run"), fix: fix.to_owned() }
            }
            None => {
                Unavailable { reason: format!("CPU {cpus} is in use by {}", holders.join(", ")), fix: fix.to_owned() }
            }
        }
    }
}

fn attempt(run: &RunId, cpus: &CpuSet, workload: &str, share: bool) -> Result<CpuLock, Refusal> {
    // First the names that say who this is: a run that is refused can always say by whom.
    let mut names = Vec::new();
    for set in ranges(cpus) {
        names.extend(bind(&info(run, !share, &set, workload)).ok());
    }
    // One list for all CPUs. Should a run of root take a name after it, the list of holders below has that run.
    let subordinate = LazyCell::new(|| -> BTreeSet<String> {
        socket_names::all().into_iter().filter(Name::is_subordinate).map(|name| name.name).collect()
    });
    let (mut taken, mut overruled, mut failed) = (CpuSet::EMPTY, CpuSet::EMPTY, None);
    for cpu in cpus.iter() {
        let name = format!("takt/cpu/{cpu}");
        match bind(&name) {
            Ok(name) => names.push(name),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && subordinate.contains(&name) => overruled.insert(cpu),
            Err(e) => {
                taken.insert(cpu);
                failed = failed.or(Some(e).filter(|e| e.kind() != io::ErrorKind::AddrInUse));
                if !share {
                    break;
                }
            }
        }
    }
    let (own, all) = (run.to_string(), LazyCell::new(holders));
    let others = |cpus: &CpuSet, wanted: &dyn Fn(&Holder) -> bool| -> Vec<Holder> {
        let other = |holder: &&Holder| holder.run != own && !holder.cpus.is_disjoint(cpus) && wanted(holder);
        let mut others: Vec<Holder> = all.iter().filter(other).cloned().collect();
        others.dedup_by(|a, b| a.run == b.run);
        others
    };
    if share {
        return Ok(CpuLock { _names: names, shared_with: others(cpus, &|_| true) });
    }
    if !taken.is_empty() {
        // A run that is just being refused itself is there, too, but not as one that lives on CPUs of others.
        let holders = if failed.is_some() { Vec::new() } else { others(&taken, &|holder| !holder.subordinate) };
        return Err(Refusal { cpus: Box::new(taken), holders, error: failed });
    }
    // A run that shares CPUs has no lock where another one had it before. Nor has one of root where another user had it.
    let lockless = |holder: &Holder| !holder.exclusive || !holder.cpus.is_disjoint(&overruled);
    let sharing = others(cpus, &|holder| !holder.subordinate && lockless(holder));
    if sharing.is_empty() {
        return Ok(CpuLock { _names: names, shared_with: others(cpus, &|holder| holder.subordinate) });
    }
    let both = sharing.iter().fold(CpuSet::EMPTY, |all, holder| all.union(&holder.cpus));
    Err(Refusal { cpus: Box::new(cpus.intersection(&both)), holders: sharing, error: None })
}

/// Binds an abstract name. The descriptor is closed on `exec`.
pub(crate) fn bind(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Sets of consecutive CPUs: their texts are short enough for a name.
fn ranges(cpus: &CpuSet) -> Vec<CpuSet> {
    let mut sets: Vec<CpuSet> = Vec::new();
    let mut last = None;
    for cpu in cpus.iter() {
        match sets.last_mut() {
            Some(set) if last == Some(cpu.wrapping_sub(1)) => set.insert(cpu),
            _ => sets.push(CpuSet::single(cpu)),
        }
        last = Some(cpu);
    }
    sets
}

fn info(run: &RunId, exclusive: bool, cpus: &CpuSet, workload: &str) -> String {
    let mode = if exclusive { "exclusive" } else { "shared" };
    // A line of `/proc/net/unix` is a name, and a zero byte is the character that it ends with there.
    let clean = workload.chars().map(|c| if c.is_control() || c == '@' { '?' } else { c });
    let mut name = format!("takt/run/{run}/{mode}/{cpus}/");
    for c in clean {
        if name.len() + c.len_utf8() > NAME_MAX {
            break;
        }
        name.push(c);
    }
    name
}

/// All runs of this network namespace that hold CPUs, one entry for each of their ranges.
fn holders() -> Vec<Holder> {
    let names = socket_names::all();
    names.iter().filter_map(|name| Some(Holder { subordinate: name.is_subordinate(), ..holder(&name.name)? })).collect()
}

/// A run other than `own` that holds one of these CPUs, and is not proven to be dead. O(sockets of the machine).
pub(crate) fn run_on(cpus: &CpuSet, own: Option<&RunId>) -> Option<Holder> {
    let own = own.map(RunId::to_string);
    let lives = |holder: &Holder| !holder.subordinate && holder.run().is_some_and(|run| !run.has_died());
    let other = |holder: &Holder| own.as_ref() != Some(&holder.run) && !holder.cpus.is_disjoint(cpus) && lives(holder);
    holders().into_iter().find(other)
}

/// Reads the name that says who holds CPUs.
fn holder(name: &str) -> Option<Holder> {
    let name = name.strip_prefix("takt/run/")?;
    let mut parts = name.splitn(4, '/');
    let mut part = || parts.next();
    let (run, mode, cpus, workload) = (part()?, part()?, part()?, part()?);
    let (first, last) = cpus.split_once('-').unwrap_or((cpus, cpus));
    let [first, last] = [first, last].map(|n| n.parse().ok().filter(|n| *n < takt_core::cpus::MAX_CPUS));
    let mut set = CpuSet::EMPTY;
    (first?..=last?).for_each(|cpu| set.insert(cpu));
    let (run, workload) = (run.to_owned(), workload.to_owned());
    Some(Holder { run, exclusive: mode == "exclusive", cpus: set, subordinate: false, workload })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs that no real run of this machine has; each test has its own.
    fn cpus(from: usize, count: usize) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        (from..from + count).for_each(|cpu| set.insert(cpu));
        set
    }

    fn take(cpus: &CpuSet, name: &str, share: bool) -> Result<CpuLock, String> {
        CpuLock::acquire(&RunId::new().unwrap(), cpus, name, share).map_err(|e| e.to_string())
    }

    #[test]
    fn a_cpu_has_one_run_and_disjoint_cpus_one_each() {
        let first = take(&cpus(900, 3), "first.yaml", false).unwrap();
        let own = std::process::id();
        let refused = take(&cpus(902, 2), "second.yaml", false).unwrap_err();
        assert_eq!(refused, format!("CPU 902 is in use by first.yaml (process {own})"));
        let beside = take(&cpus(903, 2), "beside.yaml", false).unwrap();
        assert!(first.shared_with().is_empty() && beside.shared_with().is_empty());
        drop(first);
        let second = take(&cpus(900, 3), "second.yaml", false).unwrap();
        let refused = take(&cpus(901, 3), "third.yaml", false).unwrap_err();
        assert_eq!(refused, format!("CPU 901 is in use by second.yaml (process {own})"));
        drop((second, beside));
        // A refusal leaves nothing locked.
        take(&cpus(900, 6), "all.yaml", false).unwrap();
    }

    #[test]
    fn exclusive_locks_see_shared_ones() {
        let first = take(&cpus(910, 2), "first.yaml", false).unwrap();
        let sharing = take(&cpus(911, 2), "sharing.yaml", true).unwrap();
        let names: Vec<&str> = sharing.shared_with().iter().map(|holder| holder.workload.as_str()).collect();
        assert_eq!(names, ["first.yaml"]);
        assert!(take(&cpus(912, 1), "third.yaml", false).unwrap_err().contains("in use by sharing.yaml"));
        drop(first);
        // It had no lock for this CPU, and yet runs there.
        let refused = take(&cpus(910, 2), "third.yaml", false).unwrap_err();
        assert!(refused.starts_with("CPU 911 is in use by sharing.yaml"), "{refused}");
        drop(sharing);
        take(&cpus(910, 3), "third.yaml", false).unwrap();
    }

    /// Names of other users refuse nothing to root, and hide no run of root.
    #[test]
    fn another_user_takes_no_cpu_from_root() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: another user needs root");
        }
        let user = crate::identity::Identity::of_numbers(65_532, 65_532, vec![65_532]);
        let theirs = user.with_rights_to_files(|| {
            let run = RunId::new()?;
            Ok([bind("takt/cpu/920")?, bind(&info(&run, false, &cpus(920, 2), "theirs.yaml"))?])
        });
        let theirs = theirs.unwrap();
        if !socket_names::find("takt/cpu/920").is_some_and(|name| name.is_subordinate()) {
            return println!("skipped: a kernel without CONFIG_UNIX_DIAG");
        }
        let first = take(&cpus(920, 2), "first.yaml", false).unwrap();
        assert_eq!(first.shared_with().len(), 1);
        assert_eq!(first.shared_with()[0].workload, "theirs.yaml");
        assert!(run_on(&cpus(920, 1), None).is_some_and(|holder| holder.workload == "first.yaml"));
        for cpu in [920, 921] {
            let refused = take(&cpus(cpu, 1), "second.yaml", false).unwrap_err();
            assert!(refused.contains("in use by first.yaml"), "{refused}");
        }
        drop(first);
        assert!(run_on(&cpus(920, 1), None).is_none());
        drop(theirs);
        assert!(take(&cpus(920, 2), "third.yaml", false).unwrap().shared_with().is_empty());
    }

    /// Another user can have names of all CPUs and very many sockets, which each list of the kernel has.
    #[test]
    fn names_of_many_cpus_cost_no_list_each() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: another user needs root");
        }
        let user = crate::identity::Identity::of_numbers(65_532, 65_532, vec![65_532]);
        let bind_all = || (940..1004).map(|cpu| bind(&format!("takt/cpu/{cpu}"))).collect::<io::Result<Vec<_>>>();
        let _theirs = user.with_rights_to_files(bind_all).unwrap();
        if !socket_names::find("takt/cpu/940").is_some_and(|name| name.is_subordinate()) {
            return println!("skipped: a kernel without CONFIG_UNIX_DIAG");
        }
        let before = socket_names::LISTS.get();
        take(&cpus(940, 64), "first.yaml", false).unwrap();
        assert_eq!(socket_names::LISTS.get() - before, 2, "one for the users of the names, one for the holders");
    }

    #[test]
    fn names_are_read_as_they_were_written() {
        let run = RunId::new().unwrap();
        for (cpus, workload, read) in
            [(cpus(0, 1), "a b/c:d.yaml", "a b/c:d.yaml"), (cpus(3, 1021), "line\nbreak\0and @", "line?break?and ?")]
        {
            let holder = holder(&info(&run, true, &cpus, workload)).unwrap();
            assert_eq!((holder.run.as_str(), holder.exclusive, holder.cpus), (run.to_string().as_str(), true, cpus));
            assert_eq!((holder.workload.as_str(), holder.pid()), (read, Some(run.pid())));
        }
        assert_eq!(info(&run, false, &cpus(1000, 24), &"ä".repeat(100)).len().max(NAME_MAX), NAME_MAX);
        for foreign in ["", "takt/cpu/1", "takt/run/1-2/shared/9-", "takt/run/1/shared/0-9999/w"] {
            assert_eq!(holder(foreign), None, "{foreign}");
        }
        let mut scattered = cpus(0, 2);
        [5, 7, 8, 1023].into_iter().for_each(|cpu| scattered.insert(cpu));
        let texts: Vec<String> = ranges(&scattered).iter().map(CpuSet::to_string).collect();
        assert_eq!(texts, ["0-1", "5", "7-8", "1023"]);
    }
}
