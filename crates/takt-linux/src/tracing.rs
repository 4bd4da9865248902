//! An instance of the kernel's tracing (tracefs) that belongs to a run: rings, filters and switches of its own, so no other user of tracing is disturbed.
//!
//! It is named after its run, so the watcher and `takt doctor --clean` remove it when the run was killed. Source: `Documentation/trace/ftrace.rst` of
//! Linux, "Instances".

use crate::group::Unavailable;
use crate::run_id::{PREFIX, RunId};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, open, openat, unlinkat};
use rustix::io::{Errno, read, write};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::io;

/// The ring of a CPU that is not of interest, in KiB.
const OTHER_KIB: usize = 1024;
/// The rings of all CPUs together have this size at most, in KiB.
const TOTAL_KIB: usize = 128 << 10;

/// The options of the tracers `osnoise` and `timerlat`, which all instances share.
pub(crate) const OPTIONS: &str = "/sys/kernel/tracing/osnoise/options";
/// The option by which `osnoise` has threads of its own, when it is set.
pub(crate) const WORKLOAD: &str = "OSNOISE_WORKLOAD";
/// The same when it is not set.
pub(crate) const NO_WORKLOAD: &str = "NO_OSNOISE_WORKLOAD";

/// The root of tracefs: where it is mounted, or in a mount of its own that no other process sees.
pub(crate) fn root() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for path in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        // The folder is there without a mount, too.
        if let Ok(root) = open(path, flags, Mode::empty())
            && openat(&root, "events", flags, Mode::empty()).is_ok()
        {
            return Ok(root);
        }
    }
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// An instance; it is removed when this is dropped.
#[derive(Debug)]
pub struct Instance {
    root: OwnedFd,
    dir: Option<OwnedFd>,
    name: String,
}

impl Instance {
    /// Makes the instance of a run of this process. It records nothing yet. Its clock is the monotonic one, and its oldest events give way to new ones.
    ///
    /// `kib` is the size of the ring of the CPU of interest. The others have 1 MiB each, or less on a machine with many CPUs.
    ///
    /// # Errors
    /// The kernel has no tracing, or this user may not use it.
    pub fn create(run: &RunId, cpu: usize, kib: usize) -> Result<Instance, Unavailable> {
        let unavailable = |e: &dyn std::fmt::Display| Unavailable {
            reason: format!("the kernel's tracing cannot be used: {e}"),
            fix: "run as root; the kernel needs CONFIG_EVENT_TRACING and CONFIG_TRACEFS_FS".into(),
        };
        let root = root().map_err(|e| unavailable(&e))?;
        let name = run.group_name();
        mkdirat(&root, format!("instances/{name}"), Mode::from_raw_mode(0o750)).map_err(|e| unavailable(&e))?;
        let mut instance = Instance { root, dir: None, name };
        let made = instance.set_up(cpu, kib);
        made.map_err(|e| unavailable(&e)).map(|()| instance)
    }

    fn set_up(&mut self, cpu: usize, kib: usize) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.dir = Some(openat(&self.root, format!("instances/{}", self.name), flags, Mode::empty())?);
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        let cpus = self.cpus()?;
        let other = OTHER_KIB.min(TOTAL_KIB / cpus.len().max(1));
        self.write("buffer_size_kb", &other.to_string())?;
        self.write(&format!("per_cpu/cpu{cpu}/buffer_size_kb"), &kib.min(TOTAL_KIB).to_string())
    }

    fn dir(&self) -> io::Result<&OwnedFd> {
        self.dir.as_ref().ok_or_else(|| io::Error::other("the instance is not open"))
    }

    pub(crate) fn write(&self, file: &str, value: &str) -> io::Result<()> {
        let of = |e: Errno| io::Error::other(format!("{file}: {}", io::Error::from(e)));
        let file = openat(self.dir()?, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(of)?;
        write(&file, value.as_bytes()).map_err(of).map(drop)
    }

    /// Records an event, such as `sched/sched_switch`. `false` if the kernel does not have it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable(&self, event: &str) -> io::Result<bool> {
        let file = format!("events/{event}/enable");
        match openat(self.dir()?, &*file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => Ok(write(&file, b"1").map(|_| true)?),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// The description of an event: its file `format`.
    ///
    /// # Errors
    /// The kernel does not have it.
    pub fn format(&self, event: &str) -> io::Result<String> {
        text(self.dir()?, &format!("events/{event}/format"))
    }

    /// The description of the records of a tracer: its file `format` among the events `ftrace`.
    ///
    /// # Errors
    /// The kernel does not have it.
    pub fn tracer_format(&self, tracer: &str) -> io::Result<String> {
        text(&self.root, &format!("events/ftrace/{tracer}/format"))
    }

    /// The description of a page of the rings.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn header(&self) -> io::Result<String> {
        text(&self.root, "events/header_page")
    }

    /// Empties the rings, and records from now on.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(&self) -> io::Result<()> {
        // Opening this file for writing with truncation empties the rings.
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        openat(self.dir()?, "trace", flags, Mode::empty())?;
        self.write("tracing_on", "1")
    }

    /// Records nothing more.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn stop(&self) -> io::Result<()> {
        self.write("tracing_on", "0")
    }

    fn cpus(&self) -> io::Result<Vec<usize>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = Dir::new(openat(self.dir()?, "per_cpu", flags, Mode::empty())?)?;
        let names = folder.filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()));
        let mut cpus: Vec<usize> = names.filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Takes the pages of the rings, with the CPU of each, those of a CPU from the oldest to the newest.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn pages(&self) -> io::Result<Vec<(usize, Vec<u8>)>> {
        // Kernels before 6.8 have pages of the machine's size.
        let size = text(self.dir()?, "buffer_subbuf_size_kb").ok().and_then(|kib| kib.trim().parse::<usize>().ok());
        let size = size.map_or_else(rustix::param::page_size, |kib| kib * 1024);
        let mut pages = Vec::new();
        for cpu in self.cpus()? {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let path = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
            let ring = openat(self.dir()?, path, flags, Mode::empty())?;
            loop {
                let mut page = vec![0; size];
                match read(&ring, &mut page) {
                    Ok(0) | Err(Errno::AGAIN) => break,
                    Ok(length) => {
                        page.truncate(length);
                        pages.push((cpu, page));
                    }
                    Err(Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(pages)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // An instance with an open file cannot be removed.
        drop(self.dir.take());
        let _ = unlinkat(&self.root, format!("instances/{}", self.name), AtFlags::REMOVEDIR);
    }
}

/// The text of a file of tracefs.
pub(crate) fn text(dir: &OwnedFd, path: &str) -> io::Result<String> {
    let file = openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut text, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
    loop {
        // The kernel gives the description of pages to the first call alone, so its buffer has to be large.
        match rustix::io::retry_on_intr(|| read(&file, &mut buffer[..]))? {
            0 => break,
            length => text.extend_from_slice(&buffer[..length]),
        }
    }
    String::from_utf8(text).map_err(io::Error::other)
}

/// The runs that have instances, as far as this user may see them.
#[must_use]
pub fn instances() -> Vec<RunId> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = root().and_then(|root| Ok(Dir::new(openat(&root, "instances", flags, Mode::empty())?)?));
    let entries = folder.into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().ok()?.strip_prefix(PREFIX)?.parse().ok()).collect()
}

/// The tracers that are active, by the directories of their instances; that of the root is empty.
pub(crate) fn active(root: &OwnedFd) -> io::Result<Vec<(String, String)>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = Dir::new(openat(root, "instances", flags, Mode::empty())?)?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
    let folders = names.filter(|name| !name.starts_with('.')).map(|name| format!("instances/{name}/"));
    let tracer = |folder: String| {
        let name = text(root, &format!("{folder}current_tracer")).ok()?;
        Some((folder, name.trim().to_owned()))
    };
    Ok([String::new()].into_iter().chain(folders).filter_map(tracer).collect())
}

/// Removes the instances of dead runs.
pub(crate) fn remove_dead() {
    for run in instances().into_iter().filter(RunId::has_died) {
        let _ = remove(&run);
    }
}

/// Removes the instance of a run. Whether there was one.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn remove(run: &RunId) -> io::Result<bool> {
    let Ok(root) = root() else { return Ok(false) };
    match unlinkat(&root, format!("instances/{}", run.group_name()), AtFlags::REMOVEDIR) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::ACCESS | Errno::PERM | Errno::NOTDIR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// The option of the workload in the text of [`OPTIONS`].
pub(crate) fn workload(options: &str) -> &'static str {
    if options.split_whitespace().any(|word| word == NO_WORKLOAD) { NO_WORKLOAD } else { WORKLOAD }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_found_among_others() {
        assert_eq!(workload("DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP\n"), WORKLOAD);
        assert_eq!(workload("NO_DEFAULTS NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP\n"), NO_WORKLOAD);
    }

    #[test]
    fn an_instance_records_and_is_removed() {
        let run = RunId::new().unwrap();
        let instance = match Instance::create(&run, 0, 256) {
            Ok(instance) => instance,
            Err(e) => return println!("skipped: {}", e.reason),
        };
        assert!(instance.enable("sched/sched_switch").unwrap() && !instance.enable("sched/none").unwrap());
        assert!(instance.format("sched/sched_switch").unwrap().contains("next_pid"));
        assert!(instance.header().unwrap().contains("commit"));
        instance.start().unwrap();
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        instance.stop().unwrap();
        assert!(!instance.pages().unwrap().is_empty());
        assert!(instances().contains(&run));
        drop(instance);
        assert!(!instances().contains(&run) && !remove(&run).unwrap());
    }
}
