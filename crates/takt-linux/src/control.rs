//! Small helpers around control files. Those used while scheduling neither allocate nor block on directories.

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pwrite, retry_on_intr};
use std::ffi::CStr;
use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;

/// Text on the stack, cut off by an error when it does not fit.
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    pub(crate) fn format(arguments: fmt::Arguments<'_>) -> Result<Text<N>, Errno> {
        let mut text = Text { bytes: [0; N], len: 0 };
        text.write_fmt(arguments).map_err(|_| Errno::NAMETOOLONG)?;
        Ok(text)
    }
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    /// With a terminating zero, of which there is always room for one.
    pub(crate) fn c_str(&self) -> Result<&CStr, Errno> {
        CStr::from_bytes_until_nul(&self.bytes).map_err(|_| Errno::INVAL)
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        // The last byte stays zero for `c_str`.
        if end >= N {
            return Err(fmt::Error);
        }
        self.bytes[self.len..end].copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Opens a control file below a directory for writing.
pub(crate) fn open_below(dir: impl AsFd, path: &CStr) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| openat(&dir, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()))
}

/// Opens a directory without reading it.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Writes a whole value to an open control file.
pub(crate) fn put(file: impl AsFd, value: &[u8]) -> Result<(), Errno> {
    retry_on_intr(|| pwrite(&file, value, 0)).map(drop)
}

/// Writes a value to the control file `path` and names the file in the error.
pub(crate) fn write(path: &Path, value: &str) -> io::Result<()> {
    let file = retry_on_intr(|| rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()));
    file.and_then(|file| put(file, value.as_bytes()))
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {value:?}: {}", path.display(), io::Error::from(e))))
}

/// Reads a control file without its final newline.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    Ok(text.trim_end().to_string())
}

/// Process ids in a `cgroup.procs` or `tasks` file; a group that is gone has none.
pub(crate) fn pids(path: &Path) -> Vec<i32> {
    // A zero is a process outside of this pid namespace: it cannot be named, so it cannot be meant.
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
}

/// Whether `cgroup.events` of a v2 group says that it holds a live process. A group that is gone holds none.
pub(crate) fn populated(group: &Path) -> io::Result<bool> {
    match fs::read_to_string(group.join("cgroup.events")) {
        Ok(text) => Ok(text.lines().any(|line| line == "populated 1")),
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Parses the kernel's list form, such as `0,2,5-7`; parts above [`takt_core::cpus::MAX_CPUS`] are left out.
pub(crate) fn parse_cpus(list: &str) -> CpuSet {
    let mut set = CpuSet::EMPTY;
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            (first..=last).take_while(|cpu| *cpu < takt_core::cpus::MAX_CPUS).for_each(|cpu| set.insert(cpu));
        }
    }
    set
}

/// All process ids of the machine, as far as `/proc` shows them.
pub(crate) fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The directories below `dir`, children before their parents, `dir` itself last.
pub(crate) fn tree(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        if let Ok(entries) = fs::read_dir(&dir) {
            open.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        }
        all.push(dir);
    }
    all.reverse();
    all
}

/// Removes a group and all groups below it. A group whose last process is still on its way out is busy for a
/// moment, so this tries again until `deadline`.
pub(crate) fn remove_tree(dir: &Path, deadline: Instant) -> io::Result<()> {
    for group in tree(dir) {
        loop {
            match fs::remove_dir(&group) {
                Ok(()) => break,
                Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                Err(e) if Instant::now() >= deadline => {
                    return Err(io::Error::new(e.kind(), format!("{}: {e}", group.display())));
                }
                Err(_) => sleep(Duration::from_millis(1)),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_as_they_are_printed() {
        for list in ["", "0", "0-3", "0,2,5-7,1023"] {
            assert_eq!(parse_cpus(list).to_string(), list);
        }
        assert_eq!(parse_cpus("1000-5000").len(), 24);
    }

    #[test]
    fn text_that_does_not_fit_is_an_error() {
        let text = Text::<8>::format(format_args!("p{}/t{}", 1, 22)).unwrap();
        assert_eq!((text.bytes(), text.c_str()), (&b"p1/t22"[..], Ok(c"p1/t22")));
        assert!(Text::<8>::format(format_args!("12345678")).is_err());
    }
}
