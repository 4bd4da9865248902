//! Writing to standard output and error without waiting for the reader.
//!
//! A descriptor that a process inherits is shared with its parent and its children, and so is `O_NONBLOCK`: to set it would change how they
//! write. So the file is opened again. A socket cannot be opened again, and has a flag for each message. A regular file has no reader, and
//! is not opened again: its position is shared with the processes that write to it.

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// More bytes than this are not written to a pipe as a whole (`PIPE_BUF`).
pub const WHOLE_MAX: usize = 4096;

/// An output that is written to without waiting.
#[derive(Debug)]
pub struct Unwaiting {
    to: To,
}

#[derive(Debug)]
enum To {
    File(OwnedFd),
    Socket(OwnedFd),
    /// A pipe without a reader.
    Closed,
}

impl Unwaiting {
    /// The same output as that of a descriptor.
    ///
    /// # Errors
    /// When it cannot be opened again, such as a pipe of another user.
    pub fn reopen(output: impl AsFd) -> io::Result<Unwaiting> {
        let output = output.as_fd();
        let to = match FileType::from_raw_mode(fstat(output)?.st_mode) {
            FileType::Socket => To::Socket(output.try_clone_to_owned()?),
            FileType::RegularFile => To::File(output.try_clone_to_owned()?),
            _ => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                let path = format!("/proc/self/fd/{}", output.as_raw_fd());
                match rustix::fs::open(path, flags, Mode::empty()) {
                    Ok(file) => To::File(file),
                    Err(Errno::NXIO) => To::Closed,
                    Err(e) => return Err(e.into()),
                }
            }
        };
        Ok(Unwaiting { to })
    }

    /// Writes a text as a whole. Returns whether there was room for it. Of more than [`WHOLE_MAX`] bytes a part may be written.
    pub fn write(&self, text: &[u8]) -> bool {
        let written = match &self.to {
            To::File(file) => rustix::io::write(file, text),
            To::Socket(socket) => rustix::net::send(socket, text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            To::Closed => Err(Errno::PIPE),
        };
        written == Ok(text.len())
    }
}

/// Lines on standard output at the begin of windows and major frames. The scheduler thread writes them, before it starts a process of the
/// window: one system call that does not wait.
#[derive(Debug)]
pub struct Announcer {
    out: Unwaiting,
    window: Vec<u8>,
    /// The lines where a major frame begins, too: its own is the first.
    frame: Vec<u8>,
    /// How many lines that are.
    lines: [u64; 2],
    dropped: AtomicU64,
}

impl Announcer {
    /// Lines for windows and for major frames; an empty text is none.
    ///
    /// # Errors
    /// When standard output cannot be opened again, or the lines are longer than [`WHOLE_MAX`] together.
    pub fn new(window: &str, frame: &str) -> io::Result<Announcer> {
        let line = |text: &str| if text.is_empty() { Vec::new() } else { format!("{text}\n").into_bytes() };
        let (window, own) = (line(window), line(frame));
        let frame = [own.as_slice(), &window].concat();
        if frame.len() > WHOLE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("they have more than {WHOLE_MAX} bytes")));
        }
        let lines = [u64::from(!window.is_empty()), u64::from(!own.is_empty()) + u64::from(!window.is_empty())];
        let out = Unwaiting::reopen(io::stdout())?;
        Ok(Announcer { out, window, frame, lines, dropped: AtomicU64::new(0) })
    }

    /// A window begins; `frame` says that it is the first of the major frame. For the scheduler thread.
    pub fn announce(&self, frame: bool) {
        let text = if frame { &self.frame } else { &self.window };
        if !text.is_empty() && !self.out.write(text) {
            self.dropped.fetch_add(self.lines[usize::from(frame)], Ordering::Relaxed);
        }
    }

    /// Lines for which there was no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_reader_that_does_not_read_is_not_waited_for() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let out = Unwaiting::reopen(&write).unwrap();
        let line = [b'x'; 100];
        let fitted = (0..10_000).take_while(|_| out.write(&line)).count();
        assert!((100..10_000).contains(&fitted), "{fitted}");
        // Lines are whole, and there is room again once the reader reads.
        let mut room = vec![0; 65_536];
        let mut reader = std::fs::File::from(read);
        let taken = reader.read(&mut room).unwrap();
        assert_eq!(taken % line.len(), 0);
        assert!(out.write(&line));
        // The descriptor itself waits as before.
        assert!(!rustix::fs::fcntl_getfl(&write).unwrap().contains(OFlags::NONBLOCK));
        drop(reader);
        assert!(!out.write(&line), "the reader is gone");
        assert!(!Unwaiting::reopen(&write).unwrap().write(&line));
    }

    #[test]
    fn a_socket_is_not_waited_for_either() {
        let (_read, write) = UnixStream::pair().unwrap();
        let out = Unwaiting::reopen(&write).unwrap();
        assert!((0..100_000).any(|_| !out.write(&[b'x'; 100])));
    }

    #[test]
    fn a_file_has_one_position_for_all_that_write_to_it() {
        use std::io::{Seek, Write};
        let mut file = tempfile::tempfile().unwrap();
        let out = Unwaiting::reopen(&file).unwrap();
        file.write_all(b"a\n").unwrap();
        assert!(out.write(b"b\n"));
        file.write_all(b"c\n").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a\nb\nc\n");
    }
}
