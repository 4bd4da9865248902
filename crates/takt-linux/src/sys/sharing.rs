//! Children that share the memory of their starter until their programs begin.
//!
//! A fork copies the page tables of its caller, and each page that either side then writes. A child that waits frozen for its first window needs none of that,
//! so it is cloned with `CLONE_VM`, as by vfork(2), but the starter continues meanwhile. The child has a stack of its own, and all that it reads is kept until
//! the kernel reports that it has left the memory, by `exec` or by its end (`CLONE_CHILD_CLEARTID` in clone(2)).
//!
//! The thread pointer is the starter's, so the child uses neither thread-local variables nor the allocator. Both set the same `errno`, so calls whose errors
//! count are bare ones.

use super::{CLONE_INTO_CGROUP, Child, CloneArgs, Hold, pointers, run};
use crate::identity::Limit;
use libc::{c_char, c_int};
use rustix::io::Errno;
use std::arch::asm;
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a child's stack. It makes system calls, and needs a small part of this.
const STACK: usize = 16 * 1024;
/// Stacks that are allocated together.
const STACKS: usize = 64;
/// Places that are looked at for each child that is started: the first of these that its child has left is used again.
const LOOKS: usize = 8;

/// All that [`Child`] borrows, and what else the child reads.
pub(crate) struct Birth {
    programs: Vec<CString>,
    /// The texts of the lists of pointers.
    _texts: [Vec<CString>; 2],
    argv_pointers: Vec<*const c_char>,
    env_pointers: Vec<*const c_char>,
    cwd: Option<CString>,
    enters: Option<CString>,
    stdio: [BorrowedFd<'static>; 3],
    pass: Vec<(BorrowedFd<'static>, RawFd)>,
    limits: Vec<Limit>,
    umask: Option<u32>,
    huge_pages: bool,
    hold: Hold<'static>,
    parent: c_int,
    in_group: bool,
}

impl Birth {
    /// Copies what a child needs. Its user is that of this process. The descriptors have to be open when it is started, and it has copies then.
    pub(crate) fn of(child: &Child<'_>, parent: i32, in_group: bool) -> Birth {
        // SAFETY: only the child uses these numbers. It has its own table of descriptors, in which they stay open.
        let lasting = |fd: BorrowedFd<'_>| unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) };
        let (argv, env) = (child.argv.to_vec(), child.env.to_vec());
        Birth {
            programs: child.programs.to_vec(),
            argv_pointers: pointers(&argv),
            env_pointers: pointers(&env),
            _texts: [argv, env],
            cwd: child.cwd.map(CStr::to_owned),
            enters: child.enters.map(CStr::to_owned),
            stdio: child.stdio.map(lasting),
            pass: child.pass.iter().map(|(fd, target)| (lasting(*fd), *target)).collect(),
            limits: child.limits.to_vec(),
            umask: child.umask,
            huge_pages: child.huge_pages,
            hold: match child.hold {
                Hold::Frozen => Hold::Frozen,
                Hold::Gate(gate) => Hold::Gate(lasting(gate)),
                Hold::Stop => Hold::Stop,
            },
            parent,
            in_group,
        }
    }

    /// Does not allocate. The lists of texts are not used by [`run`], which has their pointers.
    fn child(&self) -> Child<'_> {
        Child {
            programs: &self.programs,
            argv: &[],
            env: &[],
            cwd: self.cwd.as_deref(),
            enters: self.enters.as_deref(),
            stdio: self.stdio,
            pass: &self.pass,
            limits: &self.limits,
            umask: self.umask,
            identity: None,
            huge_pages: self.huge_pages,
            hold: self.hold,
        }
    }
}

/// The memory of one child.
struct Place {
    /// Not zero while a child is there.
    taken: AtomicU32,
    /// The lowest address of its stack.
    stack: *mut u8,
    /// The data that the child reads. They are kept until the child has left.
    birth: Option<Birth>,
}

/// The children of this process that share its memory.
pub(crate) struct Sharing {
    /// The place that was used or looked at last is the last one.
    places: VecDeque<Box<Place>>,
    /// Stacks that no place has yet.
    free: Vec<*mut u8>,
}

impl Sharing {
    pub(crate) fn new() -> Sharing {
        Sharing { places: VecDeque::new(), free: Vec::new() }
    }

    /// Starts a child, in the v2 group `cgroup` if given, and returns its process id. O(1), but for the memory of a new place.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn spawn(&mut self, birth: Birth, cgroup: Option<BorrowedFd<'_>>) -> io::Result<i32> {
        let mut place = self.place()?;
        place.taken.store(1, Ordering::Relaxed);
        place.birth = Some(birth);
        let started = start(&place, cgroup);
        if started.is_err() {
            place.taken.store(0, Ordering::Relaxed);
            place.birth = None;
        }
        self.places.push_back(place);
        started
    }

    /// A place without a child.
    fn place(&mut self) -> io::Result<Box<Place>> {
        for _ in 0..LOOKS.min(self.places.len()) {
            let Some(place) = self.places.pop_front() else { break };
            if place.taken.load(Ordering::Acquire) == 0 {
                return Ok(place);
            }
            self.places.push_back(place);
        }
        if self.free.is_empty() {
            self.allocate()?;
        }
        let stack = self.free.pop().ok_or(Errno::NOMEM)?;
        Ok(Box::new(Place { taken: AtomicU32::new(0), stack, birth: None }))
    }

    /// Allocates further stacks. They are kept until this process ends.
    fn allocate(&mut self) -> io::Result<()> {
        let (length, access) = (STACK * STACKS, libc::PROT_READ | libc::PROT_WRITE);
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let address = unsafe { libc::mmap(ptr::null_mut(), length, access, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(Errno::NOMEM.into());
        }
        // A child touches the end of its stack, and that alone is to become memory.
        // SAFETY: the range is that of the mapping.
        unsafe { libc::madvise(address, length, libc::MADV_NOHUGEPAGE) };
        // SAFETY: each of them is within the mapping.
        self.free.extend((0..STACKS).map(|n| unsafe { address.cast::<u8>().add(n * STACK) }));
        Ok(())
    }
}

/// Starts the child of a place.
fn start(place: &Place, cgroup: Option<BorrowedFd<'_>>) -> io::Result<i32> {
    let Some(birth) = &place.birth else { return Err(Errno::INVAL.into()) };
    let into = if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 };
    let args = CloneArgs {
        flags: into | (libc::CLONE_VM | libc::CLONE_PARENT | libc::CLONE_CHILD_CLEARTID) as u64,
        child_tid: place.taken.as_ptr() as u64,
        stack: place.stack as u64,
        stack_size: STACK as u64,
        cgroup: cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
        ..CloneArgs::default()
    };
    // SAFETY: an all-zero signal set is a valid value, and every pointer names a live local. Signals stay blocked across the clone so that no handler runs on
    // the child's stack.
    let old = unsafe {
        let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    // SAFETY: the place has a stack that no child uses, and keeps `birth` until the child has left this memory.
    let result = unsafe { clone(&args, birth) };
    // SAFETY: `old` was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, ptr::null_mut()) };
    match i32::try_from(result) {
        Ok(pid) if pid > 0 => Ok(pid),
        Ok(error) => Err(io::Error::from_raw_os_error(-error)),
        Err(_) => Err(Errno::INVAL.into()),
    }
}

/// `clone3` with a stack: the child begins in [`born`]. Returns the process id, or an error number below zero.
///
/// # Safety
/// `args` has a stack for the child alone, and `birth` lives until the child has left the memory.
unsafe fn clone(args: &CloneArgs, birth: *const Birth) -> i64 {
    let result: i64;
    // SAFETY: by the caller. The child finds its registers as they were, its stack pointer at the end of its stack, and does not return. A call wants the
    // stack pointer at a multiple of 16, as the end of the stack is.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call {born}",
            "ud2",
            "2:",
            born = sym born,
            in("r12") birth,
            inlateout("rax") libc::SYS_clone3 => result,
            inlateout("rdi") ptr::from_ref(args) => _,
            in("rsi") size_of::<CloneArgs>(),
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The begin of the child.
///
/// # Safety
/// To be called by [`clone`] only.
unsafe extern "C" fn born(birth: *const Birth) -> ! {
    // SAFETY: `birth` lives until this child has left the memory, its lists end with a null pointer, and the process is a new one.
    unsafe {
        let birth = &*birth;
        run(&birth.child(), &birth.argv_pointers, &birth.env_pointers, birth.parent, birth.in_group)
    }
}
