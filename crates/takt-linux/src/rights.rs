//! Files that are opened with the rights of another user.

use crate::identity::Identity;
use crate::sys;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::process::{dumpable_behavior, set_dumpable_behavior};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;

/// Bytes of the stack of a thread that opens a file.
const STACK: usize = 64 * 1024;

impl Identity {
    /// Calls a function with this user's rights to files: it reaches through links what this user reaches, and no more. The function runs in a thread of its
    /// own, which has no other user for signals.
    ///
    /// # Errors
    /// This process may not take these rights, or the answer of the function.
    pub fn with_rights_to_files<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        if self.is_own() {
            return act();
        }
        // The kernel forbids dumps of a process in which a thread has changed its rights (commit_creds in kernel/cred.c). The rights end with the thread.
        let dumps = dumpable_behavior();
        let result = thread::scope(|scope| {
            let limited = || sys::take_rights_to_files(self).and_then(|()| act());
            // All memory of this process may be locked.
            let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, limited)?;
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread with the rights of that user has failed")))
        });
        let _ = dumps.and_then(set_dumpable_behavior);
        result
    }

    /// Whether this user may enter a directory.
    #[must_use]
    pub fn may_enter(&self, directory: &Path) -> bool {
        // Only one that may be searched has a way to its entry for itself.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let found = || Ok(openat(CWD, directory.join("."), flags, Mode::empty()).map(drop)?);
        self.with_rights_to_files(found).is_ok()
    }

    /// Opens a file with the rights of this user. No link of `/proc` is followed: it would lead to descriptors of this process.
    ///
    /// # Errors
    /// This user may not open it, or the path leads through a link of `/proc`.
    pub fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        self.with_rights_to_files(|| match openat2(CWD, path, flags, mode, ResolveFlags::NO_MAGICLINKS) {
            // Before Linux 5.6, or by a filter of system calls. The link itself is the last part of a path.
            Err(Errno::NOSYS | Errno::PERM) => Ok(openat(CWD, path, flags | OFlags::NOFOLLOW, mode)?),
            opened => Ok(opened?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::geteuid;
    use rustix::thread::{CapabilitySet, capabilities};

    #[test]
    fn files_are_opened_with_the_rights_of_the_user() {
        if !geteuid().is_root() {
            return println!("skipped: another user needs root");
        }
        let room = std::env::temp_dir().join(format!("takt-rights-{}", std::process::id()));
        let open = |path: &Path| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
            Identity::of_numbers(65_532, 65_532, vec![65_532]).open(path, flags, Mode::from_raw_mode(0o666))
        };
        let kind = |path: &Path| open(path).unwrap_err().kind();
        std::fs::create_dir(&room).unwrap();
        let dumps = dumpable_behavior().unwrap();
        assert_eq!(kind(&room.join("new")), io::ErrorKind::PermissionDenied, "the folder of root");
        std::os::unix::fs::chown(&room, Some(65_532), Some(65_532)).unwrap();
        open(&room.join("new")).unwrap();
        let known = std::fs::metadata(room.join("new")).unwrap();
        assert_eq!(
            (std::os::unix::fs::MetadataExt::uid(&known), std::os::unix::fs::MetadataExt::gid(&known)),
            (65_532, 65_532)
        );
        // A file of root, which the user reaches by a link and may not write.
        let own = std::env::temp_dir().join(format!("takt-rights-own-{}", std::process::id()));
        std::fs::write(&own, "kept").unwrap();
        std::os::unix::fs::symlink(&own, room.join("link")).unwrap();
        assert_eq!(kind(&room.join("link")), io::ErrorKind::PermissionDenied);
        // The memory file is open to all users, who find it nowhere. The link is one of this process.
        let memory = rustix::fs::memfd_create("takt-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&memory);
        std::os::unix::fs::symlink(format!("/proc/self/fd/{number}"), room.join("magic")).unwrap();
        assert_eq!(open(&room.join("magic")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        // This thread and this process are as before.
        assert!(
            geteuid().is_root()
                && capabilities(None).unwrap().effective.contains(CapabilitySet::SETUID)
                && dumpable_behavior().unwrap() == dumps
        );
        std::fs::write(&own, "").unwrap();
        std::fs::remove_dir_all(&room).unwrap();
        std::fs::remove_file(&own).unwrap();
    }
}
