//! Locks of parts of a file (fcntl(2)). A lock for writing needs a descriptor that is open for writing, unlike `flock`.

use nix::fcntl::{FcntlArg, fcntl};
use std::fs::File;
use std::io;

fn record(start: i64, length: i64, kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

/// Locks bytes for this process. `false` if another one has them.
pub(crate) fn lock(file: &File, start: i64, length: i64) -> io::Result<bool> {
    acquired(fcntl(file, FcntlArg::F_SETLK(&record(start, length, libc::F_WRLCK))))
}

/// Locks bytes for the open file, whatever process has it. `false` if another one has them.
pub(crate) fn claim(file: &File, start: i64, length: i64) -> io::Result<bool> {
    acquired(fcntl(file, FcntlArg::F_OFD_SETLK(&record(start, length, libc::F_WRLCK))))
}

fn acquired(result: nix::Result<libc::c_int>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Whether another open file or process has these bytes.
pub(crate) fn is_locked(file: &File, start: i64, length: i64) -> io::Result<bool> {
    Ok(conflicting(file, start, length)? != libc::F_UNLCK)
}

/// The kind of a lock that keeps this open file from writing to these bytes.
fn conflicting(file: &File, start: i64, length: i64) -> io::Result<libc::c_int> {
    let mut record = record(start, length, libc::F_WRLCK);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut record))?;
    Ok(record.l_type.into())
}

/// Locks a file that is open for writing, until it is closed. `false` if another writer has it. The lock of a user who may only read the file
/// is ignored: it would keep the owner of the file from writing.
///
/// # Errors
/// The file is not open for writing, or its file system has no locks.
pub fn lock_as_writer(file: &File) -> io::Result<bool> {
    Ok(claim(file, 0, 0)? || conflicting(file, 0, 0)? != libc::F_WRLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Open files of one process stand for those of several.
    #[test]
    fn a_reader_keeps_no_writer_away() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let writer = || File::options().append(true).open(path.path()).unwrap();
        let reader = File::open(path.path()).unwrap();
        fcntl(&reader, FcntlArg::F_OFD_SETLK(&record(0, 0, libc::F_RDLCK))).unwrap();
        reader.try_lock().unwrap();
        assert!(lock_as_writer(&reader).is_err(), "it is not open for writing");
        assert!(lock_as_writer(&writer()).unwrap());
        drop(reader);
        let held = writer();
        assert!(lock_as_writer(&held).unwrap());
        assert!(!lock_as_writer(&writer()).unwrap());
        drop(held);
        assert!(lock_as_writer(&writer()).unwrap());
    }
}
