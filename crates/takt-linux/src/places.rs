//! The directories in which runs of one user keep files beside each other: control sockets, locks, settings from before.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Environment variable with the directory of the user's session.
pub(crate) const SESSION: &str = "XDG_RUNTIME_DIR";
/// The directory of the system.
pub(crate) const SYSTEM: &str = "/run/takt";
/// The directory in that of a session.
pub(crate) const OF_SESSION: &str = "takt";

/// The directory of this user's sockets. It need not exist.
///
/// The session of another user, as `su` leaves it in the environment, is none: that user could put another directory in the place of this one.
pub(crate) fn directory() -> PathBuf {
    in_session(session())
}

fn in_session(session: Option<PathBuf>) -> PathBuf {
    let is_own = |session: &PathBuf| fs::metadata(session).map_or(true, |known| belongs(known.uid()));
    session.filter(is_own).map_or_else(|| SYSTEM.into(), |session| session.join(OF_SESSION))
}

/// The directory of the session that the environment names.
fn session() -> Option<PathBuf> {
    std::env::var_os(SESSION).map(PathBuf::from).filter(|session| session.is_absolute())
}

/// Whether no third user can replace a directory of this owner.
fn belongs(uid: u32) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&uid)
}

/// The directories in which this user looks for sockets. Root may control the runs of the user of a session.
pub(crate) fn of_sockets() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = session().map(|session| session.join(OF_SESSION)).into_iter().collect();
    found.extend([directory(), PathBuf::from(SYSTEM)]);
    let mut seen = BTreeSet::new();
    found.retain(|directory| seen.insert(directory.clone()));
    found
}

/// The directories of files that outlive a run, the best one first: that of the system is there for each session of this user.
pub(crate) fn directories() -> Vec<PathBuf> {
    let mut directories = vec![PathBuf::from(SYSTEM), directory()];
    directories.dedup();
    directories
}

/// Makes a directory that only this user may enter, unless it is there.
///
/// # Errors
/// It cannot be made, belongs to another user, or others may enter it.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io::Error::new(e.kind(), format!("cannot make `{}`: {e}", directory.display())));
        }
        _ => {}
    }
    if !is_private(directory)? {
        let why = format!("`{}` is no directory that only this user may enter", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Whether a directory belongs to this user, and no other user may enter it.
///
/// # Errors
/// It is not there.
pub(crate) fn is_private(directory: &Path) -> io::Result<bool> {
    is_private_of(directory, rustix::process::geteuid().as_raw())
}

/// Whether a directory belongs to a user, and no other user may enter it.
///
/// # Errors
/// It is not there.
pub(crate) fn is_private_of(directory: &Path, user: u32) -> io::Result<bool> {
    let known = fs::symlink_metadata(directory)?;
    Ok(known.is_dir() && known.uid() == user && known.mode() & 0o077 == 0)
}

/// The directories in which runs of this user may show that they live, the best one first. They need not exist.
pub(crate) fn of_lives() -> Vec<PathBuf> {
    let mut found = directories();
    found.extend(of_user(rustix::process::geteuid().as_raw()));
    found
}

/// Directories of a user who has no session. Root has that of the system.
pub(crate) fn of_user(uid: u32) -> Vec<PathBuf> {
    match uid {
        0 => Vec::new(),
        _ => vec![PathBuf::from(format!("/run/user/{uid}/{OF_SESSION}")), PathBuf::from(format!("/tmp/takt-{uid}"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_of_another_user_has_no_sockets_of_this_one() {
        let session = tempfile::tempdir().unwrap();
        let place = || in_session(Some(session.path().to_owned()));
        assert_eq!(in_session(None), Path::new(SYSTEM));
        assert_eq!(place(), session.path().join(OF_SESSION));
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: another user needs root");
        }
        std::os::unix::fs::chown(session.path(), Some(65_532), None).unwrap();
        assert_eq!(place(), Path::new(SYSTEM));
    }
}
