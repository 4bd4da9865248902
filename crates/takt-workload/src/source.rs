//! The text of a file, and what makes it no text at all.

use std::io;

/// The longest file that is read, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// The error of Linux for a process whose descriptors are all in use. It has no kind in the standard library.
const EMFILE: i32 = 24;

/// The name of a text that was given on the command line.
pub const INLINE: &str = "-C";

/// A file's name and text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its path as it was given.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The remedy for a file that cannot be opened, read or written.
#[must_use]
pub fn remedy(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::IsADirectory => "name a file, not a directory",
        io::ErrorKind::PermissionDenied => "check the permissions, or name another file",
        io::ErrorKind::BrokenPipe => "let its reader run until the end",
        io::ErrorKind::StorageFull => "free some space, or name a file on another disk",
        io::ErrorKind::FileTooLarge => {
            "raise the limit of file sizes (RLIMIT_FSIZE: `ulimit -f unlimited`), or write less"
        }
        io::ErrorKind::QuotaExceeded => "free some space of this user, or name a file on another disk",
        _ if why.raw_os_error() == Some(EMFILE) => "raise the limit of open files (RLIMIT_NOFILE: `ulimit -n 1024`)",
        _ => "name another file",
    }
}
