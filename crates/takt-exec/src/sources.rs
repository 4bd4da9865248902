//! Sources of events: descriptors that become readable, and signals.
//!
//! The scheduler's epoll has them edge-triggered: an event is a change of a source, such as the arrival of a datagram, and several changes
//! before the scheduler looks are one event. The program reads the descriptor until it is empty.
//!
//! The scheduler does not read the descriptors, since the data belong to the program: a level would report the same datagram until the
//! program runs. The process inherits the descriptor, and a socket is bound before the start, so no datagram is refused meanwhile.

use crate::plan::EventSource;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use takt_linux::Identity;
use takt_linux::protocol::inherited;

/// An open source.
#[derive(Debug)]
pub(crate) struct Source {
    descriptor: OwnedFd,
    /// The handler that writes to the other end of the descriptor, for a signal.
    handler: Option<signal_hook::SigId>,
}

impl Source {
    /// Opens it. Relative paths begin at `directory`. A pipe is opened with the rights of the user of its program, who could have put a link in its place.
    pub(crate) fn open(source: &EventSource, directory: Option<&Path>, user: Option<&Identity>) -> io::Result<Source> {
        let plain = |descriptor| Source { descriptor, handler: None };
        Ok(match source {
            EventSource::Descriptor(number) => {
                let descriptor = inherited(*number)?;
                if matches!(
                    FileType::from_raw_mode(fstat(&descriptor)?.st_mode),
                    FileType::RegularFile | FileType::Directory
                ) {
                    return Err(io::Error::other("a file is always readable, so it has no events"));
                }
                plain(descriptor)
            }
            EventSource::Pipe(path) => {
                let path = directory.map_or_else(|| path.clone(), |directory| directory.join(path));
                // With an end for writing of its own it never is at its end.
                let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let fifo = match user.filter(|user| !user.is_own()) {
                    Some(user) => user.open(&path, flags, Mode::empty())?,
                    None => open(&path, flags, Mode::empty())?,
                };
                if FileType::from_raw_mode(fstat(&fifo)?.st_mode) != FileType::Fifo {
                    return Err(io::Error::other("it is no named pipe (mkfifo makes one)"));
                }
                plain(fifo)
            }
            EventSource::Udp(address) => {
                let socket = UdpSocket::bind(address)?;
                socket.set_nonblocking(true)?;
                plain(socket.into())
            }
            EventSource::Signal(signal) => {
                let (read, write) = UnixStream::pair()?;
                read.set_nonblocking(true)?;
                let handler = signal_hook::low_level::pipe::register(signal.as_raw(), write)?;
                Source { descriptor: read.into(), handler: Some(handler) }
            }
        })
    }

    /// From now on its changes are heard there.
    pub(crate) fn listen(&self, epoll: &OwnedFd, data: u64) -> io::Result<()> {
        Ok(epoll::add(epoll, &self.descriptor, EventData::new_u64(data), EventFlags::IN | EventFlags::ET)?)
    }

    /// Its changes are not heard there from now on, or are again. If there is something to read then, that counts as a change.
    pub(crate) fn mute(&self, epoll: &OwnedFd, data: u64, muted: bool) -> io::Result<()> {
        let events = if muted { EventFlags::ET } else { EventFlags::IN | EventFlags::ET };
        Ok(epoll::modify(epoll, &self.descriptor, EventData::new_u64(data), events)?)
    }

    /// The descriptor for the program; none for a signal.
    pub(crate) fn for_program(&self) -> Option<BorrowedFd<'_>> {
        self.handler.is_none().then(|| self.descriptor.as_fd())
    }

    /// Takes in what no program reads: signals. The socket holds some hundreds of them, so this is bounded.
    pub(crate) fn heard(&self) {
        if self.handler.is_some() {
            let mut buffer = [0; 64];
            while matches!(rustix::io::read(&self.descriptor, &mut buffer), Ok(64)) {}
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(handler) = self.handler {
            signal_hook::low_level::unregister(handler);
        }
    }
}
