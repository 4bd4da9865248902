//! The only `unsafe` of this crate: system calls that no safe wrapper offers.

#[cfg(target_arch = "x86_64")]
pub(crate) mod sharing;

use crate::identity::{Identity, Limit};
use libc::{c_char, c_int, c_long};
use rustix::process::{Pid, Signal};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `clone3` puts the child into the v2 group of `CloneArgs::cgroup`. The libc crate's constant is cut to 32 bits.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// The means that keep a child from running its program before its first thaw.
#[derive(Clone, Copy)]
pub(crate) enum Hold<'a> {
    /// It is born in a frozen v2 group: the kernel holds it before its first instruction.
    Frozen,
    /// It waits until this eventfd is written to; the parent moves it into its frozen groups before.
    Gate(BorrowedFd<'a>),
    /// It stops itself by SIGSTOP right before `exec`.
    Stop,
}

/// Everything a child needs, made ready by the parent: after the fork of a process with threads, the child may only
/// make system calls.
pub(crate) struct Child<'a> {
    /// Paths that are tried in order.
    pub(crate) programs: &'a [CString],
    pub(crate) argv: &'a [CString],
    pub(crate) env: &'a [CString],
    pub(crate) cwd: Option<&'a CStr>,
    /// A directory that it enters after that, when it has its user.
    pub(crate) enters: Option<&'a CStr>,
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// Descriptors and the numbers they get in the child.
    pub(crate) pass: &'a [(BorrowedFd<'a>, RawFd)],
    /// Limits in the order in which they are set.
    pub(crate) limits: &'a [Limit],
    pub(crate) umask: Option<u32>,
    pub(crate) identity: Option<&'a Identity>,
    /// Its pages may be collapsed into huge ones, also if those of this process may not.
    pub(crate) huge_pages: bool,
    pub(crate) hold: Hold<'a>,
}

/// The texts as the kernel takes them, with a null pointer at the end.
fn pointers(list: &[CString]) -> Vec<*const c_char> {
    list.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Starts a child, in the v2 group `cgroup` if given, and returns its process id. With `sibling` it is a child of this process, which must be the
/// parent of the calling one.
pub(crate) fn spawn(child: &Child<'_>, cgroup: Option<BorrowedFd<'_>>, sibling: Option<i32>) -> io::Result<i32> {
    let (argv, env) = (pointers(child.argv), pointers(child.env));
    let into = if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 };
    let args = CloneArgs {
        flags: into | if sibling.is_some() { libc::CLONE_PARENT as u64 } else { 0 },
        // A sibling has the one of the calling process, which is the same.
        exit_signal: if sibling.is_some() { 0 } else { libc::SIGCHLD as u64 },
        cgroup: cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
        ..CloneArgs::default()
    };
    let parent = sibling.unwrap_or_else(|| rustix::process::getpid().as_raw_nonzero().get());
    // SAFETY: an all-zero signal set is a valid value, and every pointer names a live local. Signals stay blocked
    // across the clone so that no handler of the parent runs in the child.
    let old = unsafe {
        let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    // SAFETY: `args` is laid out as the kernel expects and its size is given. Without CLONE_VM and without a stack
    // this is a fork; the child goes straight into `run`, which allocates nothing and never returns.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    if result == 0 {
        // SAFETY: this is the child; both arrays end with a null pointer, and they and the texts they point to live on.
        unsafe { run(child, &argv, &env, parent, cgroup.is_some()) };
    }
    let error = io::Error::last_os_error();
    // SAFETY: `old` was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, ptr::null_mut()) };
    if result < 0 { Err(error) } else { Ok(result as i32) }
}

/// The argument of `capset(2)`: sets of 64 bits.
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// The child's way from birth to `exec`. It may share the memory of its starter ([`sharing`]).
///
/// # Safety
/// To be called in a fresh child only; `argv` and `env` end with a null pointer.
unsafe fn run(child: &Child<'_>, argv: &[*const c_char], env: &[*const c_char], parent: c_int, in_group: bool) -> ! {
    // SAFETY: only async-signal-safe calls on values prepared by the parent. Descriptors are changed freely because
    // this process is about to become another program.
    unsafe {
        if matches!(child.hold, Hold::Stop) {
            // Its own session, not only its own process group: when the parent dies, the kernel hangs up on stopped
            // process groups of the parent's session.
            libc::setsid();
        } else {
            libc::setpgid(0, 0);
        }
        if !in_group {
            // Born in no group, it carries no mark of its run until exec: after a crash it could not be found.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::_exit(126);
            }
        }
        if let Hold::Gate(gate) = &child.hold {
            let mut ready = libc::pollfd { fd: gate.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // The gate stays shut when the parent dies before it opens it.
            while libc::poll(&mut ready, 1, 100) <= 0 {
                if libc::getppid() != parent {
                    libc::_exit(126);
                }
            }
        }
        // Ignored signals stay ignored across exec (the Rust runtime ignores SIGPIPE), so all are set back.
        // The bare call, because the C library refuses the two signals it keeps for itself; all zero is SIG_DFL.
        let default = [0u64; 8];
        for signal in 1..=64 as c_long {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), 0 as c_long, 8 as c_long);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        if let Some(cwd) = child.cwd
            && libc::chdir(cwd.as_ptr()) < 0
        {
            libc::_exit(126);
        }
        // First above 2, then down: the output may be the error stream and the other way round.
        let mut high = [0; 3];
        for (i, fd) in child.stdio.iter().enumerate() {
            high[i] = libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3);
        }
        for (i, fd) in high.iter().enumerate() {
            if libc::dup2(*fd, i as c_int) < 0 {
                libc::_exit(126);
            }
        }
        // Everything here is opened with CLOEXEC anyway; this also covers what a library opened without.
        const CLOSE_RANGE_CLOEXEC: c_long = 4;
        libc::syscall(libc::SYS_close_range, 3 as c_long, c_long::from(u32::MAX), CLOSE_RANGE_CLOEXEC);
        for (fd, target) in child.pass {
            let done = if fd.as_raw_fd() == *target {
                libc::fcntl(*target, libc::F_SETFD, 0)
            } else {
                libc::dup2(fd.as_raw_fd(), *target)
            };
            if done < 0 {
                libc::_exit(126);
            }
        }
        for Limit { resource, soft, hard } in child.limits {
            let number = |limit: Option<u64>| limit.map_or(libc::RLIM_INFINITY, |limit| limit as _);
            let limit = libc::rlimit { rlim_cur: number(*soft), rlim_max: number(*hard) };
            if libc::setrlimit(*resource as _, &limit) < 0 {
                libc::_exit(126);
            }
        }
        if let Some(umask) = child.umask {
            libc::umask(umask as _);
        }
        if child.huge_pages {
            libc::prctl(libc::PR_SET_THP_DISABLE, 0, 0, 0, 0);
        }
        if let Some(Identity { uid, gid, groups, .. }) = child.identity {
            // It could type into the terminal of Takt.
            let terminal = libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if terminal >= 0 {
                libc::ioctl(terminal, libc::TIOCNOTTY);
                libc::close(terminal);
            }
            // The bare calls: those of the C library would wait for the other threads of the parent, which this process does not have.
            // The kernel takes the capabilities away only from a process that was root.
            let (header, none) = ([CAPABILITY_VERSION_3, 0], [0u32; 6]);
            let (uid, gid) = (c_long::from(*uid), c_long::from(*gid));
            if libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) < 0
                || libc::syscall(libc::SYS_setresgid, gid, gid, gid) < 0
                || libc::syscall(libc::SYS_setresuid, uid, uid, uid) < 0
                || libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0
                || libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) < 0
            {
                libc::_exit(126);
            }
            if !in_group {
                // The change of the user has cleared it.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(126);
                }
            }
        }
        if let Some(directory) = child.enters
            && libc::chdir(directory.as_ptr()) < 0
        {
            libc::_exit(126);
        }
        if matches!(child.hold, Hold::Stop) {
            libc::kill(libc::getpid(), libc::SIGSTOP);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        let mut status = 127;
        for program in child.programs {
            let error = execve(program.as_ptr(), argv.as_ptr(), env.as_ptr());
            if !matches!(error, libc::ENOENT | libc::ENOTDIR) {
                status = 126;
            }
        }
        libc::_exit(status)
    }
}

/// Gives the calling thread the rights of a user to files, and takes all capabilities away from it, for good. The user may still not send it signals, as it
/// could if the thread had that user's number (credentials(7), "filesystem user ID").
pub(crate) fn take_rights_to_files(Identity { uid, gid, groups, .. }: &Identity) -> io::Result<()> {
    let (uid, gid) = (c_long::from(*uid), c_long::from(*gid));
    let (header, none) = ([CAPABILITY_VERSION_3, 0], [0u32; 6]);
    // The bare calls are for one thread; those of the C library change all threads. The calls for file system users report the value from before, also where
    // they have changed nothing. An invalid number asks for it.
    let invalid: c_long = -1;
    // SAFETY: the kernel reads live values of the lengths that it is given, and changes the credentials of this thread only.
    unsafe {
        if libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        let is_own = |now: c_long, wanted: c_long| now as u32 == wanted as u32;
        if !is_own(libc::syscall(libc::SYS_setfsgid, invalid), gid)
            || !is_own(libc::syscall(libc::SYS_setfsuid, invalid), uid)
        {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        if libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// `execve` that sets no `errno`. Returns the error number.
///
/// # Safety
/// As for `execve`: the lists end with a null pointer.
#[cfg(target_arch = "x86_64")]
unsafe fn execve(program: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int {
    let result: i64;
    // SAFETY: by the caller. The call returns only if it fails.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_execve => result,
            in("rdi") program,
            in("rsi") argv,
            in("rdx") env,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    -(result as c_int)
}

/// `execve`. Returns the error number.
///
/// # Safety
/// As for `execve`: the lists end with a null pointer.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn execve(program: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int {
    // SAFETY: by the caller.
    unsafe {
        libc::execve(program, argv, env);
        *libc::__errno_location()
    }
}

/// `struct sched_attr` in its first version, which every kernel with the call knows.
#[repr(C)]
#[derive(Default)]
pub(crate) struct SchedAttr {
    pub(crate) size: u32,
    pub(crate) policy: u32,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    pub(crate) runtime: u64,
    pub(crate) deadline: u64,
    pub(crate) period: u64,
}

/// `sched_setattr` for a thread id; 0 is the calling thread.
pub(crate) fn sched_setattr(thread: i32, mut attr: SchedAttr) -> io::Result<()> {
    attr.size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel reads `size` bytes of a live structure of that layout.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attr, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The class of a thread with its parameters; 0 is the calling thread.
pub(crate) fn sched_getattr(thread: i32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel fills in a live structure of that layout and size.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attr, size_of::<SchedAttr>(), 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(attr) }
}

/// The scheduling policy of a thread; 0 is the calling thread. `None` when there is no such thread.
pub(crate) fn sched_policy(thread: i32) -> Option<c_int> {
    // SAFETY: the kernel is given a number only. The function of musl is a stub.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) };
    (policy >= 0).then_some(policy as c_int)
}

/// CPU time used by all threads of a process, in nanoseconds; `None` when there is no such process.
pub(crate) fn process_cpu_time(pid: i32) -> Option<i64> {
    // The kernel's encoding of "the scheduler's clock of a process" in a clock id.
    const CPUCLOCK_SCHED: c_int = 2;
    let clock = (!pid << 3) | CPUCLOCK_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in a live structure.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    #[allow(clippy::useless_conversion, reason = "the fields are narrower on other machines")]
    (result == 0).then(|| i64::from(time.tv_sec) * 1_000_000_000 + i64::from(time.tv_nsec))
}

/// Page faults of the calling thread, of both kinds.
pub(crate) fn page_faults() -> Option<u64> {
    // SAFETY: an all-zero structure is a valid value, and the kernel fills in a live one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_THREAD, &mut usage) == 0).then_some(usage)
    };
    usage.map(|usage| (usage.ru_minflt as u64).saturating_add(usage.ru_majflt as u64))
}

/// Sends a signal to a thread of a process; 0 is none, and only asks whether there is such a thread. The number of a thread that has ended may be
/// one of another process, which `ESRCH` then says.
pub(crate) fn signal_thread(process: i32, thread: i32, signal: c_int) -> io::Result<()> {
    if process == 0 {
        // To the kernel that is no number of a process, and here one that is gone.
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: the kernel is given numbers only.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A descriptor that this process was handed. A wrong number gives `EBADF` when it is used.
pub(crate) fn own_fd(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: descriptors handed over by the parent are not closed here, and the number is never -1.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Has the program that a command starts traced by this thread, which must be the one that starts it.
pub(crate) fn trace_me(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the child makes one system call that touches no memory.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

/// Continues a stopped, traced child for one instruction or until something stops it, and delivers a signal to it.
pub(crate) fn resume_traced(child: Pid, one: bool, signal: Option<Signal>) -> io::Result<()> {
    let request = if one { libc::PTRACE_SINGLESTEP } else { libc::PTRACE_CONT };
    let signal = c_long::from(signal.map_or(0, Signal::as_raw));
    // SAFETY: the kernel is given numbers only, and no memory of this process.
    let result = unsafe { libc::ptrace(request, child.as_raw_nonzero().get(), 0 as c_long, signal) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Blocks all signals in the calling thread.
pub(crate) fn block_signals() {
    // SAFETY: an all-zero signal set is a valid value, and the pointer names a live local.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, ptr::null_mut());
    }
}

/// A POSIX timer that sends a signal to this process, and the set with this signal, which is blocked in the calling thread.
pub(crate) struct PosixTimer {
    timer: libc::timer_t,
    signals: libc::sigset_t,
}

impl PosixTimer {
    /// The first expiry is at `at` of the monotonic clock, the others follow in the period. Nanoseconds.
    pub(crate) fn start(at: i64, period: i64) -> io::Result<PosixTimer> {
        let spec = |ns: i64| libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
        // SAFETY: all-zero structures are valid values, every pointer names a live local, and the timer is deleted once, when this is dropped.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut signals);
            libc::sigaddset(&mut signals, libc::SIGALRM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGALRM;
            let mut timer: libc::timer_t = std::mem::zeroed();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) < 0 {
                return Err(io::Error::last_os_error());
            }
            let made = PosixTimer { timer, signals };
            let times = libc::itimerspec { it_interval: spec(period), it_value: spec(at) };
            if libc::timer_settime(timer, libc::TIMER_ABSTIME, &times, ptr::null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(made)
        }
    }
    /// Waits for the signal. Returns the number of expiries since the last one: more than one where the process was late for a whole period.
    pub(crate) fn wait(&self) -> io::Result<i64> {
        // SAFETY: the set is alive. A null pointer asks for no information about the signal.
        while unsafe { libc::sigwaitinfo(&self.signals, ptr::null_mut()) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        // SAFETY: the timer is alive.
        Ok(1 + i64::from(unsafe { libc::timer_getoverrun(self.timer) }).max(0))
    }
}

impl Drop for PosixTimer {
    fn drop(&mut self) {
        // SAFETY: it was created, and is deleted here alone.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// A child that has ended and stays to be reaped.
pub(crate) fn ended_child() -> Option<i32> {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: an all-zero structure is a valid value, and the kernel fills in a live one; it leaves the process id at zero
    // when no child has ended.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let result = libc::waitid(libc::P_ALL, 0, &raw mut info, options);
        (result == 0).then(|| info.si_pid()).filter(|pid| *pid > 0)
    }
}

/// Has a function called when this process exits by itself.
pub(crate) fn at_exit(function: extern "C" fn()) {
    // SAFETY: the function is safe to call at any time, and is never unloaded. Without memory for it, it is not called.
    unsafe { libc::atexit(function) };
}

/// Ignores a signal in the whole process.
pub(crate) fn ignore(signal: c_int) {
    // SAFETY: SIG_IGN installs no code.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Forks this process, which must have one thread only. The child gets 0.
pub(crate) fn fork_single_threaded() -> io::Result<i32> {
    assert_eq!(std::fs::read_dir("/proc/self/task")?.count(), 1, "a process with threads must not fork like this");
    // SAFETY: with one thread no lock can be held by a thread that the child does not have.
    let result = unsafe { libc::fork() };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Closes every descriptor above 2 except those in `keep`, which this sorts, and points 0 to 2 to /dev/null. For a process about to do nothing
/// else: no owner of the other descriptors may use them again.
pub(crate) fn close_all_but(keep: &mut [RawFd]) {
    let close = |first: u32, last: u32| {
        if first <= last {
            // SAFETY: the caller gives up all descriptors in the range; none of their owners is used again.
            unsafe { libc::syscall(libc::SYS_close_range, c_long::from(first), c_long::from(last), 0 as c_long) };
        }
    };
    keep.sort_unstable();
    let mut first = 3;
    for fd in keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).filter(|fd| *fd >= 3) {
        close(first, fd - 1);
        first = fd + 1;
    }
    close(first, u32::MAX);
    if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        for fd in 0..3 {
            // SAFETY: a plain system call; standard streams have no owner.
            unsafe { libc::dup2(null.as_raw_fd(), fd) };
        }
    }
}

/// A mapping of a shared page.
#[derive(Debug)]
pub(crate) struct Mapping(ptr::NonNull<takt_abi::Page>);

// SAFETY: all fields of the page are atomic, and the memory belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn page(&self) -> &takt_abi::Page {
        // SAFETY: the mapping is of `takt_abi::SIZE` bytes, aligned to a page, and lives as long as `self`. The file behind it cannot shrink,
        // and every bit pattern is a valid page of atomics, whatever another process writes meanwhile.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this size, and no borrow of it is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), takt_abi::SIZE) };
    }
}

/// Maps the first bytes of a file of at least [`takt_abi::SIZE`] bytes.
pub(crate) fn map_page(file: &impl std::os::fd::AsFd) -> io::Result<Mapping> {
    let (access, file) = (libc::PROT_READ | libc::PROT_WRITE, file.as_fd().as_raw_fd());
    // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
    let at = unsafe { libc::mmap(ptr::null_mut(), takt_abi::SIZE, access, libc::MAP_SHARED, file, 0) };
    match ptr::NonNull::new(at).filter(|at| at.as_ptr() != libc::MAP_FAILED) {
        Some(at) => Ok(Mapping(at.cast())),
        None => Err(io::Error::last_os_error()),
    }
}

/// The first fields of `struct perf_event_attr`, in the version of Linux 4.1, the first with a choice of clocks.
#[repr(C)]
#[derive(Default)]
struct EventAttr {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sampled: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    _breakpoint: [u32; 5],
    _branches: u64,
    _user_registers: u64,
    _user_stack: u32,
    clock: i32,
    _interrupt_registers: u64,
}

/// A tracepoint (`perf_event_open`): of one thread, sampled, or counted for another one; or of one CPU, with its data.
#[derive(Debug)]
pub(crate) struct Counter(OwnedFd);

impl Counter {
    /// The tracepoint of this number, for a thread. With `by` it is counted, and each sample of that has its count.
    pub(crate) fn open(tracepoint: u64, thread: i32, by: Option<&Counter>) -> io::Result<Counter> {
        const TRACEPOINT: u32 = 2;
        const TIME: u64 = 1 << 2;
        const READ: u64 = 1 << 4;
        const GROUP: u64 = 1 << 3;
        const CHOSEN_CLOCK: u64 = 1 << 25;
        let sampled = by.is_none();
        let attr = EventAttr {
            kind: TRACEPOINT,
            size: size_of::<EventAttr>() as u32,
            config: tracepoint,
            period: u64::from(sampled),
            sampled: if sampled { TIME | READ } else { 0 },
            read_format: if sampled { GROUP } else { 0 },
            flags: CHOSEN_CLOCK,
            wakeup_events: 1,
            clock: libc::CLOCK_MONOTONIC,
            ..EventAttr::default()
        };
        Counter::with(&attr, thread, by)
    }

    /// The tracepoint of this number on a CPU, whatever runs there. Each sample has its instant and the data of the tracepoint. The ring's descriptor is
    /// readable when `bytes` more have been written to it.
    pub(crate) fn on_cpu(tracepoint: u64, cpu: usize, bytes: u32) -> io::Result<Counter> {
        const TRACEPOINT: u32 = 2;
        const TIME: u64 = 1 << 2;
        const RAW: u64 = 1 << 10;
        const BY_BYTES: u64 = 1 << 14;
        const CHOSEN_CLOCK: u64 = 1 << 25;
        let attr = EventAttr {
            kind: TRACEPOINT,
            size: size_of::<EventAttr>() as u32,
            config: tracepoint,
            period: 1,
            sampled: TIME | RAW,
            flags: CHOSEN_CLOCK | BY_BYTES,
            wakeup_events: bytes,
            clock: libc::CLOCK_MONOTONIC,
            ..EventAttr::default()
        };
        Counter::open_as(&attr, -1, cpu as c_long, None)
    }

    /// The threads that get and leave this CPU (`PERF_RECORD_SWITCH_CPU_WIDE`). The thread that gets the CPU writes the record. The ring's descriptor is
    /// readable when `bytes` more have been written to it.
    pub(crate) fn switches_on_cpu(cpu: usize, bytes: u32) -> io::Result<Counter> {
        const SOFTWARE: u32 = 1;
        const DUMMY: u64 = 9;
        const THREAD: u64 = 1 << 1;
        const TIME: u64 = 1 << 2;
        const BY_BYTES: u64 = 1 << 14;
        const WITH_THREAD_AND_TIME: u64 = 1 << 18;
        const CHOSEN_CLOCK: u64 = 1 << 25;
        const SWITCHES: u64 = 1 << 26;
        let attr = EventAttr {
            kind: SOFTWARE,
            size: size_of::<EventAttr>() as u32,
            config: DUMMY,
            sampled: THREAD | TIME,
            flags: SWITCHES | WITH_THREAD_AND_TIME | CHOSEN_CLOCK | BY_BYTES,
            wakeup_events: bytes,
            clock: libc::CLOCK_MONOTONIC,
            ..EventAttr::default()
        };
        Counter::open_as(&attr, -1, cpu as c_long, None)
    }

    /// From now on its samples are written to this ring, which is one of the same CPU.
    pub(crate) fn write_to(&self, ring: &Ring) -> io::Result<()> {
        // _IO('$', 5)
        const SET_OUTPUT: libc::Ioctl = 0x2405 as libc::Ioctl;
        // SAFETY: both descriptors are open; the kernel touches no memory of this process.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), SET_OUTPUT, ring.fd.as_raw_fd()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The CPU time of a thread from now on, which one read of its descriptor gives. The kernel lets no other process read the clock of a thread
    /// (`pid_for_clock` in `kernel/time/posix-cpu-timers.c`).
    pub(crate) fn cpu_time(thread: i32) -> io::Result<OwnedFd> {
        const SOFTWARE: u32 = 1;
        const TASK_CLOCK: u64 = 1;
        let attr = EventAttr {
            kind: SOFTWARE,
            size: size_of::<EventAttr>() as u32,
            config: TASK_CLOCK,
            ..EventAttr::default()
        };
        Counter::with(&attr, thread, None).map(|counter| counter.0)
    }

    fn with(attr: &EventAttr, thread: i32, by: Option<&Counter>) -> io::Result<Counter> {
        Counter::open_as(attr, thread, -1, by)
    }

    /// A thread or a CPU of -1 is any.
    fn open_as(attr: &EventAttr, thread: i32, cpu: c_long, by: Option<&Counter>) -> io::Result<Counter> {
        const CLOSE_ON_EXEC: c_long = 1 << 3;
        let by = by.map_or(-1, |by| c_long::from(by.0.as_raw_fd()));
        // SAFETY: the kernel reads `size` bytes of a live structure of that layout.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const *attr, c_long::from(thread), cpu, by, CLOSE_ON_EXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it, and it has no other owner.
        Ok(Counter(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// From now on only those count that this expression of their fields is true for.
    pub(crate) fn filter(&self, expression: &str) -> io::Result<()> {
        // _IOW('$', 6, char *)
        const SET_FILTER: libc::Ioctl = (1 << 30 | (size_of::<*const c_char>() << 16) | 0x2406) as libc::Ioctl;
        let expression = CString::new(expression)?;
        // SAFETY: the kernel reads a live text with its end.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), SET_FILTER, expression.as_ptr()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The ring of its samples, with a number of pages that is a power of two.
    pub(crate) fn into_ring(self, pages: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let size = pages * page;
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, self.0.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { libc::mmap(ptr::null_mut(), page + size, access, libc::MAP_SHARED, fd, 0) };
        match ptr::NonNull::new(at).filter(|at| at.as_ptr() != libc::MAP_FAILED) {
            Some(at) => {
                let ring = Ring { fd: self.0, at: at.cast(), page, size, lost: 0 };
                ring.touch();
                Ok(ring)
            }
            None => Err(io::Error::last_os_error()),
        }
    }
}

/// The samples of tracepoints, in pages that the kernel writes, after a page with the positions in them.
#[derive(Debug)]
pub(crate) struct Ring {
    fd: OwnedFd,
    at: ptr::NonNull<u8>,
    page: usize,
    /// Bytes after that page.
    size: usize,
    /// How many samples the kernel had no room for, as far as it has been read.
    lost: u64,
}

// SAFETY: the memory belongs to no thread. Reading takes `&mut self`.
unsafe impl Send for Ring {}

/// Whether so many bytes can be mapped for writing, as an allocation would map them. They are never touched: a mapping that may not be accessed is
/// not populated, and an unlocked one is not populated when it becomes writable (mlock(2), mprotect(2)).
pub(crate) fn can_map(bytes: usize) -> bool {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes.max(1), libc::PROT_NONE, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping is the one above. No reference to it exists, and it is removed here.
    unsafe {
        let unlocked = libc::munlock(at, bytes) == 0;
        let writable = unlocked && libc::mprotect(at, bytes, libc::PROT_READ | libc::PROT_WRITE) == 0;
        libc::munmap(at, bytes.max(1));
        writable
    }
}

/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

impl Ring {
    /// Has the kernel enter all pages into the table of this process, which it does at the first access, also of locked memory. Otherwise the thread
    /// that takes the first sample would have these page faults.
    fn touch(&self) {
        // SAFETY: an aligned word of each page of a mapping that lives as long as `self`. Nothing has been read yet, so the position is zero.
        unsafe {
            AtomicU64::from_ptr(self.at.as_ptr().add(TAIL).cast()).store(0, Ordering::Relaxed);
            for offset in (0..self.size).step_by(self.page) {
                self.at.as_ptr().add(self.page + offset).read_volatile();
            }
        }
    }

    /// How many samples the kernel had no room for. It reports that before the next sample that it has room for.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether it has something to read. No system call.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: both are aligned words of a mapping that lives as long as `self`.
        unsafe {
            let word = |offset| AtomicU64::from_ptr(self.at.as_ptr().add(offset).cast());
            word(HEAD).load(Ordering::Acquire) == word(TAIL).load(Ordering::Relaxed)
        }
    }

    /// Takes the next sample, and says how many of its words were put into `into`.
    pub(crate) fn take<const N: usize>(&mut self, into: &mut [u64; N]) -> Option<usize> {
        const SAMPLE: u32 = 9;
        self.take_kind(SAMPLE, 0, into)
    }

    /// Takes the next record of a thread that gets the CPU ([`Counter::switches_on_cpu`]): the number of that thread, and the instant.
    pub(crate) fn take_start(&mut self) -> Option<(u32, u64)> {
        const SWITCH_CPU_WIDE: u32 = 15;
        const OUT: u16 = 1 << 13;
        // The other thread and its process; the process and the thread that writes the record; the instant.
        let mut words = [0; 3];
        while let Some(length) = self.take_kind(SWITCH_CPU_WIDE, OUT, &mut words) {
            if length == words.len() {
                let bytes = words[1].to_ne_bytes();
                return Some((u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]), words[2]));
            }
        }
        None
    }

    /// Takes the next record of this kind, without these bits in its header, and says how many of its words were put into `into`.
    fn take_kind<const N: usize>(&mut self, wanted: u32, without: u16, into: &mut [u64; N]) -> Option<usize> {
        const LOST: u32 = 2;
        // SAFETY: both are aligned words of a mapping that lives as long as `self`. The kernel writes the first and reads the second,
        // each with one access.
        let (head, tail) = unsafe {
            let word = |offset| AtomicU64::from_ptr(self.at.as_ptr().add(offset).cast());
            (word(HEAD), word(TAIL))
        };
        let filled = head.load(Ordering::Acquire);
        loop {
            let position = tail.load(Ordering::Relaxed);
            if position == filled {
                return None;
            }
            // SAFETY: the word lies after the first page, aligned, since records are multiples of it. The kernel does not write between the
            // two positions.
            let word = |index: usize| unsafe {
                let offset = (position as usize).wrapping_add(8 * index) % self.size;
                self.at.as_ptr().add(self.page + offset).cast::<u64>().read()
            };
            // The header: its kind in 32 bits, its attributes in 16 bits, and its length in 16 bits, in the order of memory.
            let header = word(0).to_ne_bytes();
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let bits = u16::from_ne_bytes([header[4], header[5]]);
            let bytes = u64::from(u16::from_ne_bytes([header[6], header[7]]));
            // A record that could not be is the last one.
            let next = if bytes < 8 { filled } else { position + bytes };
            let words = ((bytes / 8) as usize).saturating_sub(1).min(N);
            (0..words).for_each(|index| into[index] = word(index + 1));
            // The number of the event, and how many were lost.
            let lost = if kind == LOST && bytes >= 24 { word(2) } else { 0 };
            tail.store(next, Ordering::Release);
            self.lost += lost;
            if kind == wanted && bits & without == 0 {
                return Some(words);
            }
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this size, and no borrow of it is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.page + self.size) };
    }
}

/// Wakes all waiters of this word, in any process.
pub(crate) fn futex_wake(word: &std::sync::atomic::AtomicU32) {
    // SAFETY: the kernel takes the address of a live word and writes nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
}

/// Whether this word has a waiter, in any process. A requeue to the word itself counts the waiters and wakes none.
pub(crate) fn futex_has_waiter(word: &std::sync::atomic::AtomicU32) -> bool {
    let (none, one): (c_int, usize) = (0, 1);
    // SAFETY: the kernel takes the addresses of a live word and writes nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_REQUEUE, none, one, word.as_ptr()) > 0 }
}

/// Writes to standard error and ends the process at once, without a destructor or an allocation.
pub(crate) fn exit_with(text: &[u8], status: c_int) -> ! {
    // SAFETY: the kernel reads a live text, and nothing follows.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(status)
    }
}

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether this process began without a standard output.
pub(crate) fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look_at_output() {
    // SAFETY: the call asks for flags and changes nothing.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    OUTPUT_WAS_CLOSED.store(closed, Ordering::Relaxed);
}

/// The C library calls it before the Rust runtime, which opens `/dev/null` for closed standard streams.
// SAFETY: the section holds pointers to functions that take no argument and do not unwind.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_OUTPUT: extern "C" fn() = look_at_output;

/// Hour, minute and second of a time since 1970, in the time zone of this process.
pub(crate) fn local_time(seconds: i64) -> Option<(i32, i32, i32)> {
    // SAFETY: all fields are numbers, and a pointer that may be null.
    let mut fields: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to live values of their types for the length of the call.
    let known = unsafe { !libc::localtime_r(&seconds, &mut fields).is_null() };
    known.then_some((fields.tm_hour, fields.tm_min, fields.tm_sec))
}
