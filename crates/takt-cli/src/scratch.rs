//! Folders for the files of an experiment, which end with it.
//!
//! A folder is locked (`flock`) while its process lives, however that ends. The next experiment of the same kind removes folders without such a process.
//! Only folders with the mark of this program are removed, and none on a file system without such locks.

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file in each folder that may be removed.
const MARK: &str = ".takt-scratch";

/// The folders of this process.
static OWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn own() -> MutexGuard<'static, Vec<PathBuf>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder, until it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _lock: Option<OwnedFd>,
}

impl Scratch {
    /// A new folder in the one for temporary files, whose name begins so.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new(prefix: &str) -> io::Result<Scratch> {
        Scratch::new_in(prefix, &std::env::temp_dir())
    }

    /// As [`Scratch::new`], in this folder.
    ///
    /// # Errors
    /// As [`Scratch::new`].
    pub(crate) fn new_in(prefix: &str, above: &Path) -> io::Result<Scratch> {
        sweep(prefix, above);
        // It has its name only when it is locked, or another process could take it for one that was left behind.
        let new = tempfile::Builder::new().prefix(&format!(".{prefix}")).tempdir_in(above)?;
        let lock = lock(new.path()).ok();
        if lock.is_some() {
            fs::write(new.path().join(MARK), "")?;
        }
        let name = new.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = above.join(name.trim_start_matches('.'));
        fs::rename(new.keep(), &path)?;
        own().push(path.clone());
        Ok(Scratch { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        own().retain(|path| *path != self.path);
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of this process, which is about to end by a signal.
pub(crate) fn remove_all() {
    own().drain(..).for_each(|path| drop(fs::remove_dir_all(path)));
}

fn lock(folder: &Path) -> io::Result<OwnedFd> {
    let folder = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

/// Removes the folders of this user whose processes have ended.
fn sweep(prefix: &str, above: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let named = |name: &str| name.strip_prefix('.').unwrap_or(name).starts_with(prefix);
        let named = entry.file_name().to_str().is_some_and(named);
        let is_own = || entry.metadata().is_ok_and(|known| known.is_dir() && known.uid() == user);
        if named && is_own() && entry.path().join(MARK).is_file() {
            // The lock is held until it is removed, so no other process takes it for one that was left behind.
            let Ok(_lock) = lock(&entry.path()) else { continue };
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_no_process_holds_is_removed_by_the_next_one() {
        let above = tempfile::tempdir().unwrap();
        let folders = || fs::read_dir(above.path()).unwrap().count();
        let new = || Scratch::new_in("takt-test-", above.path()).unwrap();
        let (first, second) = (new(), new());
        assert_eq!(folders(), 2, "the first one is held");
        fs::write(first.path().join("file"), "text").unwrap();
        // As one that a killed process has left behind.
        for dead in ["takt-test-dead", ".takt-test-dead"] {
            fs::create_dir(above.path().join(dead)).unwrap();
            fs::write(above.path().join(dead).join(MARK), "").unwrap();
        }
        // A user's own folder.
        fs::create_dir(above.path().join("takt-test-results")).unwrap();
        drop(second);
        let third = new();
        assert_eq!(folders(), 3);
        drop((first, third));
        assert_eq!(folders(), 1);
        let _fourth = new();
        remove_all();
        assert!(above.path().join("takt-test-results").is_dir());
        assert_eq!(folders(), 1);
    }
}
