//! How a process tells that it has done its work for now, and waits until it is wanted again.
//!
//! The protocol is the one of DEmOS, so its programs run as they are: the variable `DEMOS_PARAMETERS` holds
//! `COMPLETED,CONTINUE,INIT` in decimal. COMPLETED is an eventfd to which the process writes 1 when it is done;
//! CONTINUE is an eventfd semaphore from which it then reads, and so waits, until it is resumed; INIT is 1
//! when its first completion ends its initialization.
//!
//! The parent keeps no descriptor per process. An epoll registration lives as long as any copy of the
//! descriptor's open file does, and the process has one; a copy of CONTINUE is fetched from the process when it is first
//! needed.

use crate::run_id::stat;
use crate::sys;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_getfd};
use rustix::process::{ForeignRawFd, Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Name of the environment variable.
pub const VARIABLE: &str = "DEMOS_PARAMETERS";

/// The parent's side of one process, until the process has been started.
#[derive(Debug)]
pub struct Channel {
    completed: OwnedFd,
    proceed: OwnedFd,
    init: bool,
}

impl Channel {
    /// A new channel; `init` says that the process's first completion ends its initialization.
    ///
    /// # Errors
    /// When the limit of open files is reached.
    pub fn new(init: bool) -> io::Result<Channel> {
        let completed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let proceed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?;
        Ok(Channel { completed, proceed, init })
    }
    /// Value of [`VARIABLE`] for the process.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{},{},{}", self.completed.as_raw_fd(), self.proceed.as_raw_fd(), u8::from(self.init))
    }
    /// Value of [`takt_abi::VARIABLE`] for the process, which is passed the page under the number of this descriptor.
    #[must_use]
    pub fn client_variable(&self, page: &impl AsRawFd) -> String {
        format!("{},{},{}", page.as_raw_fd(), self.completed.as_raw_fd(), u8::from(self.init))
    }
    /// The descriptors for the process: both under their own numbers.
    #[must_use]
    pub fn pass_fds(&self) -> [(BorrowedFd<'_>, RawFd); 2] {
        [&self.completed, &self.proceed].map(|fd| (fd.as_fd(), fd.as_raw_fd()))
    }
    /// A copy of CONTINUE, for [`send_continue`].
    ///
    /// # Errors
    /// When the limit of open files is reached.
    pub fn continue_copy(&self) -> io::Result<OwnedFd> {
        self.proceed.try_clone()
    }
    /// The number of COMPLETED in the process.
    #[must_use]
    pub fn completed_number(&self) -> RawFd {
        self.completed.as_raw_fd()
    }
    /// The number of CONTINUE in the process, for [`fetch_continue_fd`].
    #[must_use]
    pub fn continue_number(&self) -> RawFd {
        self.proceed.as_raw_fd()
    }
    /// Registers the completions with an epoll instance, which from then on reports `data` once per completion (or
    /// per several that it had no time to report one by one). Then the channel can be dropped, as soon as the process
    /// is started. The registration ends with the last copy of the descriptor, that is with the process and all its
    /// children that kept one.
    ///
    /// # Errors
    /// When the limit of epoll registrations is reached.
    pub fn register_completion(&self, epoll: impl AsFd, data: u64) -> io::Result<()> {
        // Edge triggered, because the counter is not read back.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(epoll, &self.completed, epoll::EventData::new_u64(data), flags)?)
    }
}

/// Gets a copy of descriptor `number` of a child that has not been reaped, so that [`send_continue`] can be used.
///
/// # Errors
/// `ESRCH` when the process has ended; `EBADF` when it closed the descriptor; `EPERM` when the kernel does not let this
/// process look into the child (it changed its user).
pub fn fetch_continue_fd(pid: i32, number: RawFd) -> io::Result<OwnedFd> {
    let id = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    let process = pidfd_open(id, PidfdFlags::empty())?;
    // The caller's unreaped child keeps its number, but a caller may be wrong about that.
    if stat(pid).is_none_or(|s| s.parent != std::process::id() as i32) {
        return Err(Errno::SRCH.into());
    }
    Ok(pidfd_getfd(&process, number as ForeignRawFd, PidfdGetfdFlags::empty())?)
}

/// A copy of a descriptor that this process inherited from the one that started it.
///
/// # Errors
/// `EBADF` when this process has inherited no such descriptor. Its own descriptors are closed on `exec`, and inherited ones are not.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 || fcntl_getfd(sys::own_fd(number))?.contains(FdFlags::CLOEXEC) {
        return Err(Errno::BADF.into());
    }
    Ok(fcntl_dupfd_cloexec(sys::own_fd(number), 0)?)
}

/// Lets one process continue that waits, or will wait, for it.
///
/// # Errors
/// None known; the kernel's answer is passed on.
pub fn send_continue(fd: impl AsFd) -> io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::io::write(&fd, &1u64.to_ne_bytes()))?;
    Ok(())
}

/// Why a process could not take part in the protocol.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The process was not started by a scheduler.
    #[error("{VARIABLE} is not set: this program was not started by a scheduler")]
    NoVariable,
    /// The variable does not hold two descriptors and a flag.
    #[error("{VARIABLE} is malformed: COMPLETED,CONTINUE,INIT is expected, such as 6,7,0")]
    Malformed,
    /// There is no initialization to complete.
    #[error("no initialization is pending")]
    NotInitializing,
    /// The scheduler could not be told.
    #[error("the scheduler cannot be told: {0}")]
    Write(io::Error),
    /// The process could not wait.
    #[error("waiting for the scheduler failed: {0}")]
    Read(io::Error),
}

impl ClientError {
    /// Exit status of a program that ends because of it: those of DEmOS.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            ClientError::NoVariable => 100,
            ClientError::Malformed => 101,
            ClientError::Write(_) | ClientError::NotInitializing => 1,
            ClientError::Read(_) => 2,
        }
    }
}

/// The side of the scheduled process.
#[derive(Debug)]
pub struct Client {
    completed: RawFd,
    proceed: RawFd,
    initializing: bool,
}

impl Client {
    /// Reads [`VARIABLE`].
    ///
    /// # Errors
    /// [`ClientError::NoVariable`] or [`ClientError::Malformed`].
    pub fn from_env() -> Result<Client, ClientError> {
        Client::parse(&std::env::var(VARIABLE).map_err(|_| ClientError::NoVariable)?)
    }

    fn parse(value: &str) -> Result<Client, ClientError> {
        let mut fields = value.split(',').map(str::parse::<RawFd>);
        let mut next = || fields.next().and_then(Result::ok).filter(|n| *n >= 0).ok_or(ClientError::Malformed);
        let (completed, proceed, init) = (next()?, next()?, next()?);
        match (init, fields.next()) {
            (0 | 1, None) => Ok(Client { completed, proceed, initializing: init == 1 }),
            _ => Err(ClientError::Malformed),
        }
    }

    /// Whether [`Client::initialization_completed`] is still expected.
    #[must_use]
    pub fn initializing(&self) -> bool {
        self.initializing
    }

    /// Tells that the initialization is done and waits for the first window.
    ///
    /// # Errors
    /// [`ClientError::NotInitializing`] when it is done already or none was asked for; else as [`Client::completed`].
    pub fn initialization_completed(&mut self) -> Result<(), ClientError> {
        if !std::mem::take(&mut self.initializing) {
            return Err(ClientError::NotInitializing);
        }
        self.done()
    }

    /// Tells that the work for now is done and waits until the process is resumed. During initialization it does
    /// nothing, so a loop may be entered early.
    ///
    /// # Errors
    /// When a descriptor is not what the variable says.
    pub fn completed(&self) -> Result<(), ClientError> {
        if self.initializing { Ok(()) } else { self.done() }
    }

    fn done(&self) -> Result<(), ClientError> {
        let write = || rustix::io::write(sys::own_fd(self.completed), &1u64.to_ne_bytes());
        rustix::io::retry_on_intr(write).map_err(|e| ClientError::Write(e.into()))?;
        let read = || rustix::io::read(sys::own_fd(self.proceed), &mut [0u8; 8]);
        rustix::io::retry_on_intr(read).map_err(|e| ClientError::Read(e.into()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_strictly() {
        let client = Client::parse("6,7,1").unwrap();
        assert!((client.completed, client.proceed, client.initializing) == (6, 7, true));
        for bad in ["", "6,7", "6,7,2", "6,7,0,", "6,7,0,0", "-1,7,0", "a,7,0", "6, 7,0"] {
            assert_eq!(Client::parse(bad).unwrap_err().exit_code(), 101, "{bad:?}");
        }
    }

    #[test]
    fn completions_and_continuations_meet() {
        let channel = Channel::new(true).unwrap();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        channel.register_completion(&epoll, 7).unwrap();
        let mut client = Client::parse(&channel.variable()).unwrap();
        client.completed().expect("does nothing during initialization");
        send_continue(&channel.proceed).unwrap();
        client.initialization_completed().unwrap();
        assert!(matches!(client.initialization_completed(), Err(ClientError::NotInitializing)));
        let reported = || {
            let zero = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut events = Vec::with_capacity(4);
            epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&zero)).unwrap();
            events.iter().map(|event| event.data.u64()).collect::<Vec<_>>()
        };
        assert_eq!(reported(), [7]);
        assert_eq!(reported(), [], "edge triggered");
        for _ in 0..2 {
            send_continue(&channel.proceed).unwrap();
            client.completed().unwrap();
            assert_eq!(reported(), [7], "although the counter is not read back");
        }
    }

    #[test]
    fn wrong_descriptors_are_errors_with_their_codes() {
        let channel = Channel::new(false).unwrap();
        let client = Client { completed: 99_999, proceed: channel.continue_number(), initializing: false };
        assert_eq!(client.completed().unwrap_err().exit_code(), 1);
        let client = Client { completed: channel.completed.as_raw_fd(), proceed: 99_999, initializing: false };
        assert_eq!(client.completed().unwrap_err().exit_code(), 2);
    }
}
