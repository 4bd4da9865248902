//! Operations that an isolation needs of the kernel, and this machine's kernel.

use crate::control;
use crate::cpu_lock;
use crate::layout::Layout;
use crate::lock_file;
use crate::namespace;
use crate::places;
use crate::power::{self, DomainLock, Root};
use crate::rt;
use crate::run_id::RunId;
use crate::thread_class::ClassOf;
use crate::tracing;
use std::any::Any;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use takt_core::cpus::CpuSet;

/// A thread of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its number.
    pub id: i32,
    /// Start time in clock ticks since boot, which tells it from a later thread of that number.
    pub start: u64,
    /// Its name.
    pub name: String,
    /// It is one of the kernel's.
    pub kernel: bool,
    /// Neither its CPUs nor its group can be changed (`PF_NO_SETAFFINITY`).
    pub fixed: bool,
    /// The CPUs that it is allowed on.
    pub cpus: CpuSet,
    /// Its group in the hierarchy of CPU sets, such as `/` or `/docker`.
    pub group: String,
}

/// The operations of a kernel. Paths are absolute, or of an imitated machine.
pub trait Kernel {
    /// The content of a file without white space at its end.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, path: &str) -> io::Result<String>;
    /// Writes a value to a file that is there.
    ///
    /// # Errors
    /// The kernel refuses the value.
    fn write(&mut self, path: &str, value: &str) -> io::Result<()>;
    /// Makes a group.
    ///
    /// # Errors
    /// It cannot be made.
    fn make_group(&mut self, path: &str) -> io::Result<()>;
    /// Removes a group without members. One that is not there is no failure.
    ///
    /// # Errors
    /// It has members or groups.
    fn remove_group(&mut self, path: &str) -> io::Result<()>;
    /// Names in a directory, sorted; none where it is missing.
    fn names(&self, path: &str) -> Vec<String>;
    /// Whether a file or a directory is there.
    fn exists(&self, path: &str) -> bool;
    /// All threads.
    fn threads(&self) -> Vec<Thread>;
    /// A thread, if it lives.
    fn thread(&self, id: i32) -> Option<Thread>;
    /// The PID namespace in which threads have these numbers.
    fn namespace(&self) -> u64;
    /// All PID namespaces with a process; `None` if not all are seen.
    fn namespaces(&self) -> Option<BTreeSet<u64>>;
    /// Binds a thread to CPUs.
    ///
    /// # Errors
    /// The kernel refuses it.
    fn bind(&mut self, id: i32, cpus: &CpuSet) -> io::Result<()>;
    /// The journal's text.
    ///
    /// # Errors
    /// It cannot be read.
    fn load(&self) -> io::Result<Option<String>>;
    /// Replaces the journal, as a whole or not at all; `None` removes it.
    ///
    /// # Errors
    /// There is no room for it, or no right to write it.
    fn store(&mut self, text: Option<&str>) -> io::Result<()>;
    /// Takes frequency domains, each with its CPUs, so that no run controls them while their settings change. Dropping the value frees them.
    ///
    /// # Errors
    /// A run controls one of them: the reason, and what to do.
    fn lock_frequencies(&self, domains: &[(&str, CpuSet)]) -> Result<Box<dyn Any>, (String, String)>;
    /// Whether a run is proven to be dead.
    fn has_died(&self, run: &RunId) -> bool;
    /// Another run than this one that has one of these CPUs, in words.
    fn run_on(&self, cpus: &CpuSet, own: Option<&RunId>) -> Option<String>;
    /// The hierarchy with CPU sets: whether it is cgroup v2, and where it is mounted.
    fn hierarchy(&self) -> Option<(bool, String)>;
}

/// Begin of the path of a file of an imitated machine. Its directory follows, a double slash, and the path there.
const IMITATED: &str = "imitated:";

/// Folders of the kernel with settings. A container may not show them.
const FOLDERS: [&str; 3] = ["/sys/devices/", "/sys/fs/cgroup/", "/proc/irq/"];

/// The error of a setting that was not found: it may be there, and its folder hidden here.
fn hidden(path: &str, error: io::Error) -> io::Error {
    let folder = FOLDERS.iter().find(|folder| path.starts_with(*folder));
    match folder.filter(|folder| error.kind() == io::ErrorKind::NotFound && !Path::new(folder).exists()) {
        Some(folder) => io::Error::new(io::ErrorKind::Unsupported, format!("{path}: {folder} is not shown here")),
        None => error,
    }
}

/// The path by which a [`Kernel`] knows a file below a root.
pub(crate) fn named(root: &Root, path: &str) -> String {
    match root.is_imitated() {
        true => format!("{IMITATED}{root}//{path}"),
        false => format!("/{path}"),
    }
}

/// The imitated machine of such a path, and the file there.
fn imitated(path: &str) -> Option<(Root, &str)> {
    let (directory, path) = path.strip_prefix(IMITATED)?.split_once("//")?;
    Some((Root::imitation(Path::new(directory)), path))
}

/// This machine. One process at a time changes it ([`Linux::open`]).
#[derive(Debug)]
pub struct Linux {
    directory: PathBuf,
    _lock: Option<File>,
}

/// Where the journal of root is.
const DIRECTORY: &str = "/run/takt-isolate";
/// That of another user, who may change power settings where the administrator allows it, is in this folder beside the control sockets.
const OF_USER: &str = "settings";

const FILE: &str = "journal";
const PARTIAL: &str = "journal-partial";

impl Linux {
    /// The path of the journal of root.
    #[must_use]
    pub fn journal() -> PathBuf {
        Path::new(DIRECTORY).join(FILE)
    }

    /// Takes the machine for changes of isolations; waits some seconds for another process that has it. The directory of the journal is created.
    ///
    /// # Errors
    /// `EPERM` or `EACCES` for a user who is not root; `TimedOut` with the process that has it; another reason why the directory of the journal cannot be
    /// used.
    pub fn open() -> io::Result<Linux> {
        if !rustix::process::geteuid().is_root() {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Linux::locked(PathBuf::from(DIRECTORY))
    }

    fn locked(directory: PathBuf) -> io::Result<Linux> {
        if directory == Path::new(DIRECTORY) {
            // Every user may see which CPUs are isolated.
            lock_file::make_readable(&directory)?;
        } else {
            places::make_private(&directory)?;
        }
        let lock = lock_file::lock(&directory.join("lock"), lock_file::WAIT)?;
        Ok(Linux { directory, _lock: Some(lock) })
    }

    /// As [`Linux::open`] for root. For another user: the machine as far as this user may change it, with a journal of this user.
    pub(crate) fn of_user() -> io::Result<Linux> {
        if rustix::process::geteuid().is_root() {
            return Linux::open();
        }
        let mut last = io::Error::other("there is no directory for it");
        for directory in places::directories() {
            match places::make_private(&directory).and_then(|()| Linux::locked(directory.join(OF_USER))) {
                Ok(linux) => return Ok(linux),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// The directories with a journal of this user.
    fn written() -> impl Iterator<Item = PathBuf> {
        let of_user = || places::directories().into_iter().map(|directory| directory.join(OF_USER));
        let all: Vec<PathBuf> = match rustix::process::geteuid().is_root() {
            true => vec![PathBuf::from(DIRECTORY)],
            false => of_user().collect(),
        };
        all.into_iter().filter(|directory| directory.join(FILE).exists())
    }

    /// The machine with each journal that this user has written, or the reason why one cannot be used.
    pub(crate) fn journals() -> impl Iterator<Item = io::Result<Linux>> {
        Linux::written().map(Linux::locked)
    }

    /// The machine for looking at each journal that this user has written. A journal is replaced as a whole, so reading it takes no lock.
    pub(crate) fn looks() -> impl Iterator<Item = Linux> {
        Linux::written().map(|directory| Linux { directory, _lock: None })
    }

    /// The machine for looking at isolations, which every user may do. Nothing is created, and nothing is to be changed by it.
    #[must_use]
    pub fn look() -> Linux {
        Linux { directory: PathBuf::from(DIRECTORY), _lock: None }
    }
}

const NO_SETAFFINITY: u64 = 0x0400_0000;
const KTHREAD: u64 = 0x0020_0000;

/// The name, the flags and the start time in `/proc/PID/stat`: fields 2, 9 and 22 of proc_pid_stat(5).
fn parse_stat(stat: &str) -> Option<(String, u64, u64)> {
    let (name, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let flags = fields.nth(5)?.parse().ok()?;
    let start = fields.nth(12)?.parse().ok()?;
    // One that has ended cannot be moved, and vanishes by itself.
    if matches!(state, "Z" | "X") {
        return None;
    }
    Some((name.split_once('(')?.1.to_owned(), flags, start))
}

/// The group with the CPUs of a thread, by its `cgroup` file: that of the v1 controller, or else that of v2 (cgroups(7)). `/proc/PID/cpuset` is not on every
/// kernel.
fn cpuset_of(text: &str) -> String {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let v1 = lines().find(|(controllers, _)| controllers.split(',').any(|name| name == "cpuset"));
    let found = v1.or_else(|| lines().find(|(controllers, _)| controllers.is_empty()));
    found.map_or(String::new(), |(_, group)| group.to_owned())
}

fn thread_at(dir: &Path, id: i32) -> Option<Thread> {
    let stat = fs::read(dir.join("stat")).ok()?;
    let (name, flags, start) = parse_stat(&String::from_utf8_lossy(&stat))?;
    let groups = fs::read_to_string(dir.join("cgroup")).unwrap_or_default();
    Some(Thread {
        id,
        start: namespace::start(start),
        name,
        kernel: flags & KTHREAD != 0,
        fixed: flags & NO_SETAFFINITY != 0,
        cpus: rt::affinity(id).ok()?,
        group: cpuset_of(&groups),
    })
}

fn numbers(dir: &Path) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

impl Kernel for Linux {
    fn read(&self, path: &str) -> io::Result<String> {
        if let Some(class) = ClassOf::named(path) {
            return class.read();
        }
        match imitated(path) {
            Some((root, path)) => root.read(path),
            None => control::read(Path::new(path)).map_err(|e| hidden(path, e)),
        }
    }
    fn write(&mut self, path: &str, value: &str) -> io::Result<()> {
        if let Some(class) = ClassOf::named(path) {
            return class.write(value);
        }
        if let Some((root, path)) = imitated(path) {
            return root.write(path, value);
        }
        if path == tracing::OPTIONS {
            // With the option, the tracer of a dead run would start its threads.
            tracing::remove_dead();
        }
        // Not at an offset: some files of /proc cannot seek.
        let file = File::options().write(true).open(path);
        let written = file.and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|e| io::Error::new(e.kind(), format!("{path}: {value:?}: {e}")))
    }
    fn make_group(&mut self, path: &str) -> io::Result<()> {
        fs::create_dir(path)
    }
    fn remove_group(&mut self, path: &str) -> io::Result<()> {
        // Its last member may be on its way out.
        let deadline = std::time::Instant::now() + std::time::Duration::from_millis(500);
        control::remove_tree(Path::new(path), deadline)
    }
    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
    fn exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }
    fn threads(&self) -> Vec<Thread> {
        let of_process = |pid: i32| {
            let dir = PathBuf::from(format!("/proc/{pid}/task"));
            let ids: Vec<i32> = numbers(&dir).collect();
            ids.into_iter().filter_map(move |id| thread_at(&dir.join(id.to_string()), id))
        };
        numbers(Path::new("/proc")).flat_map(of_process).collect()
    }
    fn thread(&self, id: i32) -> Option<Thread> {
        // Such a directory exists for each thread, and is not listed.
        thread_at(Path::new(&format!("/proc/{id}")), id)
    }
    fn namespace(&self) -> u64 {
        namespace::own()
    }
    fn namespaces(&self) -> Option<BTreeSet<u64>> {
        namespace::all()
    }
    fn bind(&mut self, id: i32, cpus: &CpuSet) -> io::Result<()> {
        rt::set_affinity(id, cpus)
    }
    fn load(&self) -> io::Result<Option<String>> {
        lock_file::read_own(&self.directory.join(FILE))
    }
    fn store(&mut self, text: Option<&str>) -> io::Result<()> {
        let (path, partial) = (self.directory.join(FILE), self.directory.join(PARTIAL));
        let Some(text) = text else {
            return match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        };
        // The remains of a process that was killed. They would keep their owner and their mode, or lead elsewhere.
        let _ = fs::remove_file(&partial);
        let created = File::options().write(true).create_new(true).mode(0o644).open(&partial);
        let written = created.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let written = written.and_then(|()| fs::rename(&partial, &path));
        let written = written.and_then(|()| File::open(&self.directory)?.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written
    }
    fn lock_frequencies(&self, domains: &[(&str, CpuSet)]) -> Result<Box<dyn Any>, (String, String)> {
        match DomainLock::of_machine(domains, "takt isolate") {
            Ok(lock) => Ok(Box::new(lock)),
            Err(power::Refusal::InUse(u) | power::Refusal::Unavailable(u)) => Err((u.reason, u.fix)),
        }
    }
    fn has_died(&self, run: &RunId) -> bool {
        run.has_died()
    }
    fn run_on(&self, cpus: &CpuSet, own: Option<&RunId>) -> Option<String> {
        cpu_lock::run_on(cpus, own).map(|holder| holder.to_string())
    }
    fn hierarchy(&self) -> Option<(bool, String)> {
        let layout = Layout::read().ok()?;
        if let Some(v1) = layout.cpuset {
            return Some((false, v1.mount.to_str()?.to_owned()));
        }
        let mount = layout.unified?.mount;
        let controllers = control::read(&mount.join("cgroup.controllers")).ok()?;
        controllers.split(' ').any(|name| name == "cpuset").then(|| Some((true, mount.to_str()?.to_owned())))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_described() {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        let own = thread_at(Path::new("/proc/thread-self"), id).unwrap();
        assert!(!own.kernel && !own.fixed && own.start > 0);
        assert_eq!(own.cpus, rt::affinity(0).unwrap());
        let hybrid = "9:name=systemd:/user\n4:cpu,cpuset:/docker/a:b\n0::/user.slice\n";
        assert_eq!((cpuset_of(hybrid), cpuset_of("0::/a\n")), ("/docker/a:b".into(), "/a".into()));
        assert_eq!(
            parse_stat("2 (a) b) S 0 0 0 0 -1 69238784 0 0 0 0 0 0 0 0 20 0 1 0 77 0"),
            Some(("a) b".into(), 69_238_784, 77))
        );
    }
}
