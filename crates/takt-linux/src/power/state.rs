//! The settings from before a run, in a file that outlives it: `RUN.power`, beside the control sockets.
//!
//! The file is written before the first change, and removed when all is restored. The run restores the settings at its end, its watcher when the run has
//! died, and `takt doctor --clean` when both have.

use super::root::Root;
use crate::run_id::RunId;
use crate::socket;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".power";
/// Follows in the name of a file that is being written. Nothing has been changed while it has that name.
const PARTIAL: &str = "-partial";
const HEAD: &str = "takt-power 1";

/// Values of files, in the order in which they are restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Saved {
    root: Root,
    entries: Vec<(String, String)>,
}

impl Saved {
    pub(super) fn new(root: &Root) -> Saved {
        Saved { root: root.clone(), entries: Vec::new() }
    }

    /// Notes the present value of a file.
    pub(super) fn note(&mut self, path: String) -> io::Result<()> {
        let value = self.root.read(&path)?;
        self.entries.push((path, value));
        Ok(())
    }

    fn text(&self) -> String {
        let kind = if self.root.is_imitated() { "imitated" } else { "machine" };
        let mut text = format!("{HEAD}\nroot {kind} {}\n", self.root);
        self.entries.iter().for_each(|(path, value)| text += &format!("set {path} {value}\n"));
        text
    }

    /// Reads the text of a state file; `None` when it is none, or is not whole.
    fn parse(text: &str) -> Option<Saved> {
        let mut lines = text.strip_suffix('\n')?.lines();
        let head = lines.next()?;
        let root = match lines.next()?.strip_prefix("root ")?.split_once(' ')? {
            ("machine", _) => Root::machine(),
            ("imitated", dir) => Root::imitation(Path::new(dir)),
            _ => return None,
        };
        let entry = |line: &str| {
            let (path, value) = line.strip_prefix("set ")?.split_once(' ')?;
            // Nothing else is ever written there, whoever has written the file.
            let inside = ["sys/devices/system/cpu/", "dev/"].iter().any(|start| path.starts_with(start));
            (inside && !path.contains("..")).then(|| (path.to_owned(), value.to_owned()))
        };
        let entries: Option<Vec<_>> = lines.map(entry).collect();
        Some(Saved { root, entries: entries? }).filter(|_| head == HEAD)
    }

    /// Writes the state file of a run of this process. It is there as a whole or not at all.
    ///
    /// # Errors
    /// There is no directory for it, or no room.
    pub(super) fn write(&self, run: &RunId) -> io::Result<PathBuf> {
        let mut last = io::Error::other("there is no directory for it");
        for directory in socket::directories() {
            let written = socket::make_private(&directory).and_then(|()| {
                let path = directory.join(format!("{run}{SUFFIX}"));
                let partial = directory.join(format!("{run}{SUFFIX}{PARTIAL}"));
                let mut file = fs::File::create(&partial)?;
                let whole = file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all());
                let whole = whole.and_then(|()| fs::rename(&partial, &path));
                if whole.is_err() {
                    let _ = fs::remove_file(&partial);
                }
                whole.map(|()| path)
            });
            match written {
                Ok(path) => return Ok(path),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Restores the values. Returns the number of files whose value was another one.
    ///
    /// # Errors
    /// The first value that the kernel refused, after all were tried.
    pub(super) fn restore(&self) -> io::Result<usize> {
        let differs = |(path, value): &&(String, String)| match self.root.read(path) {
            // A CPU that is no longer there has no settings.
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            now => now.ok().as_ref() != Some(value),
        };
        let changed = self.entries.iter().filter(differs).count();
        let mut result = Ok(());
        // A value may be refused because of another one that is restored after it. One that is taken may still read as another: hardware that is too hot
        // caps the limits.
        for last in [false, true] {
            for (path, value) in self.entries.iter().filter(differs) {
                let written = self.root.write(path, value);
                if last {
                    result = result.and(written);
                }
            }
        }
        result.map(|()| changed)
    }
}

/// The state files that this user finds, with their runs.
pub(crate) fn files() -> Vec<(RunId, PathBuf)> {
    let mut found = Vec::new();
    for directory in socket::directories() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().map(|name| name.strip_suffix(PARTIAL).unwrap_or(name));
            let run = name.and_then(|name| name.strip_suffix(SUFFIX)).and_then(|run| run.parse().ok());
            found.extend(run.map(|run| (run, entry.path())));
        }
    }
    found.sort();
    found
}

/// Restores the settings of a dead run and removes its state file. Returns the number of files whose value was another one.
///
/// # Errors
/// A value could not be restored. The state file stays.
pub(crate) fn restore(path: &Path) -> io::Result<usize> {
    if path.as_os_str().to_string_lossy().ends_with(PARTIAL) {
        return fs::remove_file(path).map(|()| 0);
    }
    let mut file = match fs::File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened?,
    };
    // The watcher of the run, `takt doctor` and the next run may do this at the same time. Who comes second must not write after the first, when another
    // run may have the settings.
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    if !path.exists() {
        return Ok(0);
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // Only its owner could have written it: the directory is private.
    let Some(saved) = Saved::parse(&text) else {
        return Err(io::Error::other(format!("{} is damaged", path.display())));
    };
    let restored = saved.restore()?;
    fs::remove_file(path)?;
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_file_is_read_as_it_was_written() {
        let mut saved = Saved::new(&Root::imitation(Path::new("/a b")));
        let path = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
        saved.entries.push((path.into(), "schedutil".into()));
        saved.entries.push(("sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us".into(), "n/a".into()));
        let text = saved.text();
        assert_eq!(Saved::parse(&text), Some(saved));
        // Half a file, another version, and files elsewhere are not obeyed.
        assert_eq!(Saved::parse(&text[..text.len() - 1]), None);
        assert_eq!(Saved::parse(&text.replace("power 1", "power 2")), None);
        for elsewhere in ["etc/passwd", "sys/devices/system/cpu/../../../kernel/x"] {
            assert_eq!(Saved::parse(&text.replace(path, elsewhere)), None, "{elsewhere}");
        }
    }
}
