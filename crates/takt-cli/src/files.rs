//! Files that commands write.

use crate::failure::Failure;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use takt_workload::Code;

/// Whether a file can be written, found before the work and not after it. What is in it stays.
///
/// # Errors
/// Why it cannot.
pub(crate) fn writable(path: &Path) -> Result<(), Failure> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| Failure::file("write", path, &e))?;
    if is_new {
        // Nothing is left behind by an experiment that does not come to its end.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Whether files can be written, found before anything starts or is created: none of them is one that is read, or named twice.
///
/// # Errors
/// Why one cannot.
pub(crate) fn ready<'p>(
    read: impl IntoIterator<Item = &'p PathBuf>,
    written: impl IntoIterator<Item = &'p PathBuf>,
) -> Result<(), Failure> {
    let real = |path: &Path| {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        path.canonicalize().unwrap_or_else(|_| absolute(path))
    };
    let read: Vec<PathBuf> = read.into_iter().map(|path| real(path)).collect();
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in written {
        // What is no file, such as a pipe, can be written as often as one likes, and is not opened to try it out.
        if path.exists() && !path.is_file() && !path.is_dir() {
            continue;
        }
        let own = real(path);
        if read.contains(&own) {
            let message = format!("`{}` is read, and would be overwritten", path.display());
            return Err(Failure::input(Code::SameFile, message, "name another file"));
        }
        if seen.contains(&own) {
            let message = format!("`{}` is to be written twice", path.display());
            return Err(Failure::input(Code::SameFile, message, "name a file for each"));
        }
        writable(path)?;
        seen.push(own);
    }
    Ok(())
}

/// Writes a whole file.
///
/// # Errors
/// Status 2 when the file cannot be created, 1 when it cannot be written, as on a full disk.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut file = fs::File::create(path).map_err(|e| Failure::file("write", path, &e))?;
    file.write_all(contents.as_ref()).map_err(|e| Failure::write(path, &e))
}
