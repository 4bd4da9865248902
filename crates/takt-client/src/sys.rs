//! The only `unsafe` of this crate: the page, its futex, the bell, and the signal of aborts.

use libc::c_int;
use std::io;
use std::ops::Deref;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;
use takt_abi::{Page, SIZE};

/// The page that the scheduler has handed over.
#[derive(Debug)]
pub(crate) struct Mapping(NonNull<Page>);

// SAFETY: all fields of the page are atomic, and the memory belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the page and closes its descriptor, which belongs to this library.
    pub(crate) fn new(file: RawFd) -> io::Result<Mapping> {
        let mapping = Mapping::open(file)?;
        // SAFETY: the descriptor was handed over to this library.
        unsafe { libc::close(file) };
        Ok(mapping)
    }

    /// Maps the page.
    pub(crate) fn open(file: RawFd) -> io::Result<Mapping> {
        // SAFETY: the kernel fills in a live structure.
        let size = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            check(libc::fstat(file, &raw mut stat))?;
            stat.st_size
        };
        // Memory beyond the end of a file cannot be read.
        if size < SIZE as i64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Mapping::map(libc::MAP_SHARED, file)
    }

    /// A page of zeros that no scheduler has.
    pub(crate) fn private() -> io::Result<Mapping> {
        Mapping::map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn map(flags: c_int, file: RawFd) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { libc::mmap(ptr::null_mut(), SIZE, libc::PROT_READ | libc::PROT_WRITE, flags, file, 0) };
        let at = NonNull::new(at).filter(|at| at.as_ptr() != libc::MAP_FAILED).ok_or_else(io::Error::last_os_error)?;
        Ok(Mapping(at.cast()))
    }
}

impl Deref for Mapping {
    type Target = Page;
    fn deref(&self) -> &Page {
        // SAFETY: the mapping has the size of a page, which is sealed, is aligned to one, and is never removed. Every bit pattern is a valid
        // page of atomics, whatever another process writes meanwhile.
        unsafe { self.0.as_ref() }
    }
}

/// The number of the calling thread.
pub(crate) fn thread() -> u32 {
    // SAFETY: the system call has no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Rings the bell: the scheduler looks at the page.
pub(crate) fn ring(bell: RawFd) -> io::Result<()> {
    let one = 1u64;
    loop {
        // SAFETY: the kernel reads eight bytes of a live number.
        match check(unsafe { libc::write(bell, (&raw const one).cast(), 8) as c_int }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            rung => return rung,
        }
    }
}

/// Sleeps while the word has this value. It may also return without a reason.
pub(crate) fn wait(word: &AtomicU32, value: u32) -> io::Result<()> {
    // SAFETY: the kernel reads a live word. Without a limit there is no further argument.
    let slept = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, ptr::null::<u8>()) };
    match check(slept as c_int) {
        // The word has changed already, or a signal came: the caller checks again.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(()),
        slept => slept,
    }
}

fn read_clock(clock: libc::clockid_t) -> i64 {
    // SAFETY: the kernel fills in a live structure. Both clocks exist on every Linux.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &raw mut time);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}

/// The monotonic clock, in nanoseconds.
pub(crate) fn now() -> i64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// The CPU time of the calling thread, in nanoseconds.
pub(crate) fn cpu_time() -> i64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Sleeps until an instant of the monotonic clock.
pub(crate) fn sleep_until(ns: i64) -> io::Result<()> {
    let time = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    loop {
        // SAFETY: the kernel reads a live structure, and writes nothing for an absolute time.
        match unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, ptr::null_mut())
        } {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Descriptors of a task are none of the programs that it starts.
pub(crate) fn close_on_exec(file: RawFd) -> io::Result<()> {
    // SAFETY: a plain system call on a number.
    check(unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) })
}

extern "C" fn nothing(_: c_int) {}

/// Gives a signal an action that does nothing, if it has the default one. 0 is no signal.
pub(crate) fn tolerate(signal: u32) -> io::Result<()> {
    let Some(signal) = c_int::try_from(signal).ok().filter(|signal| *signal > 0) else { return Ok(()) };
    // SAFETY: an all-zero action is a valid one, the kernel fills in and reads live structures, and the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        check(libc::sigaction(signal, ptr::null(), &raw mut action))?;
        if action.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = nothing as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            check(libc::sigaction(signal, &raw const action, ptr::null_mut()))?;
        }
    }
    Ok(())
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
