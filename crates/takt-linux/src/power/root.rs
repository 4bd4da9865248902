//! The files of the kernel's power management: below `/`, or below a directory that imitates a machine.
//!
//! A plain directory accepts every write. So writes below another directory go through [`super::imitation`], which refuses and clamps values as the
//! kernel does.

use super::imitation;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where the files are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Root {
    dir: PathBuf,
    imitated: bool,
}

impl Root {
    /// This machine.
    #[must_use]
    pub fn machine() -> Root {
        Root { dir: PathBuf::from("/"), imitated: false }
    }

    /// A directory with the folders `sys` and `dev` of an imitated machine, for tests and for trying a policy without its hardware.
    #[must_use]
    pub fn imitation(dir: &Path) -> Root {
        // The watcher and `takt doctor` run in other directories.
        let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
        Root { dir, imitated: true }
    }

    /// Whether it is not this machine.
    #[must_use]
    pub fn is_imitated(&self) -> bool {
        self.imitated
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// The place of a file, whose path has no slash at its begin.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    /// The content of a file without white space at its end.
    pub(crate) fn read(&self, path: &str) -> io::Result<String> {
        let text = fs::read_to_string(self.path(path)).map_err(|e| named(&self.path(path), &e))?;
        content(text, self.imitated).map_err(|e| named(&self.path(path), &e))
    }

    /// A number in a file.
    pub(super) fn number(&self, path: &str) -> io::Result<u32> {
        self.read(path)?.parse().map_err(|_| named(&self.path(path), &io::Error::other("no number")))
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The names in a directory that begin with a prefix and a number, in the order of the numbers. A missing directory has none.
    pub(super) fn numbered(&self, dir: &str, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).into_iter().flatten().flatten();
        let number = |name: String| {
            let number = name.strip_prefix(prefix)?.parse::<u32>().ok()?;
            Some((number, name))
        };
        let mut found: Vec<_> = entries.filter_map(|entry| number(entry.file_name().into_string().ok()?)).collect();
        found.sort();
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// All names in a directory, sorted.
    pub(super) fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Opens a file for writing, and for reading where that is allowed.
    pub(super) fn open(&self, path: &str) -> io::Result<ControlFile> {
        let place = self.path(path);
        if self.imitated {
            imitation::open(&place).map_err(|e| named(&place, &e))?;
        }
        let file = OpenOptions::new().read(true).write(true).open(&place);
        let file = file.or_else(|e| match e.kind() {
            // Such a file of the kernel is for writing alone.
            io::ErrorKind::PermissionDenied => OpenOptions::new().write(true).open(&place),
            _ => Err(e),
        });
        let file = file.map_err(|e| named(&place, &e))?;
        Ok(ControlFile { file, path: place, imitated: self.imitated })
    }

    /// Opens a file for reading.
    pub(super) fn open_to_read(&self, path: &str) -> io::Result<ControlFile> {
        let place = self.path(path);
        let file = File::open(&place).map_err(|e| named(&place, &e))?;
        Ok(ControlFile { file, path: place, imitated: self.imitated })
    }

    /// Writes a value to a file.
    pub(crate) fn write(&self, path: &str, value: &str) -> io::Result<()> {
        self.open(path)?.write(value)
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dir.display())
    }
}

/// An open file of the kernel's power management.
#[derive(Debug)]
pub(super) struct ControlFile {
    file: File,
    path: PathBuf,
    imitated: bool,
}

impl ControlFile {
    /// Writes a value.
    pub(super) fn write(&self, value: &str) -> io::Result<()> {
        let written = match self.imitated {
            true => imitation::write(&self.path, value),
            false => self.file.write_all_at(value.as_bytes(), 0),
        };
        written.map_err(|e| named(&self.path, &e))
    }

    /// Writes the bytes of a number, for files of the kernel that take no text.
    pub(super) fn write_number(&self, value: i32) -> io::Result<()> {
        match self.imitated {
            true => self.write(&value.to_string()),
            false => self.file.write_all_at(&value.to_ne_bytes(), 0).map_err(|e| named(&self.path, &e)),
        }
    }

    /// The present content, without white space at its end.
    pub(super) fn read(&self) -> io::Result<String> {
        let mut buffer = [0; 256];
        if self.imitated {
            // A test may have put another file in its place.
            return content(fs::read_to_string(&self.path)?, true).map_err(|e| named(&self.path, &e));
        }
        let length = self.file.read_at(&mut buffer, 0).map_err(|e| named(&self.path, &e))?;
        Ok(String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned())
    }

    /// The number in it.
    pub(super) fn number(&self) -> io::Result<u64> {
        self.read()?.parse().map_err(|_| named(&self.path, &io::Error::other("no number")))
    }
}

fn content(text: String, imitated: bool) -> io::Result<String> {
    match imitated {
        true => imitation::content(&text),
        false => Ok(text.trim_end().to_owned()),
    }
}

/// The same error with the name of the file. Its number is lost, and its kind is kept.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
