//! System calls of a thread that are not on a list.
//!
//! A filter of the kernel (seccomp) reports them to another thread of this process, which lets them happen. Calls on the list cost the
//! scheduler no more than the filter. The filter ends with its thread.

use libc::{c_int, c_long};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Calls are counted now.
static INSIDE: AtomicBool = AtomicBool::new(false);
/// The numbers of the calls that are not on the list, each once.
static FOUND: Mutex<Vec<c_long>> = Mutex::new(Vec::new());
/// The list for the next filter.
static LISTED: Mutex<Vec<c_long>> = Mutex::new(Vec::new());
/// The way to the thread that listens.
static LISTENER: Mutex<Option<Sender<OwnedFd>>> = Mutex::new(None);

/// `struct seccomp_notif` with its `struct seccomp_data` (`linux/seccomp.h`).
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: c_int,
    arch: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
#[derive(Default)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const MODE_FILTER: c_long = 1;
const NEW_LISTENER: c_long = 1 << 3;
const CONTINUE: u32 = 1;

/// The number of a request for a structure of this size, read or written (`_IOWR('!', …)`).
const fn request(number: u32, size: usize) -> libc::Ioctl {
    (3 << 30 | (size as u32) << 16 | 0x21 << 8 | number) as libc::Ioctl
}

/// Starts the thread that listens. To be called once.
pub(crate) fn begin() {
    let (send, receive) = channel();
    *LISTENER.lock().unwrap() = Some(send);
    std::thread::spawn(move || listen(&receive));
}

/// The calls that the next watched thread may make.
pub(crate) fn list(numbers: &[c_long]) {
    *LISTED.lock().unwrap() = numbers.to_vec();
}

/// From now on the calls of this thread are watched. `false` if the kernel has no such filters.
pub(crate) fn watch() -> bool {
    let Some(notifications) = filter(&LISTED.lock().unwrap()) else { return false };
    LISTENER.lock().unwrap().as_ref().expect("a listener").send(notifications).expect("it listens");
    INSIDE.store(true, Ordering::Release);
    true
}

/// From now on the calls of this thread do not count.
pub(crate) fn leave() {
    INSIDE.store(false, Ordering::Release);
}

/// The calls that were not on the list, and forgets them.
pub(crate) fn found() -> Vec<c_long> {
    std::mem::take(&mut FOUND.lock().unwrap())
}

/// Installs the filter in this thread, and gives the descriptor of its reports.
fn filter(listed: &[c_long]) -> Option<OwnedFd> {
    let statement = |code: u32, k: u32, jt: u8| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    // The number is the first word of `struct seccomp_data`.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for (index, number) in listed.iter().enumerate() {
        let to_end = u8::try_from(listed.len() - index).expect("a short list");
        program.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *number as u32, to_end));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF, 0));
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel reads the live program. Its only effect is on the calls of this thread, which all happen.
    let fd = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
            return None;
        }
        libc::syscall(libc::SYS_seccomp, MODE_FILTER, NEW_LISTENER, &raw const program)
    };
    // SAFETY: the kernel has just opened it, and it has no other owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// Notes what is reported, thread by thread.
fn listen(filters: &Receiver<OwnedFd>) {
    loop {
        // The thread that sends a filter is watched by it already, and must not have to wake this one.
        let Ok(reports) = filters.try_recv() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let fd = reports.as_raw_fd();
        loop {
            let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut report = Notification::default();
            // SAFETY: the kernel reads and fills in live structures of its layouts.
            unsafe {
                if libc::poll(&mut ready, 1, -1) < 0 {
                    continue;
                }
                // The watched thread has ended.
                if ready.revents & libc::POLLIN == 0 {
                    break;
                }
                if libc::ioctl(fd, request(0, size_of::<Notification>()), &raw mut report) < 0 {
                    continue;
                }
                if INSIDE.load(Ordering::Acquire) {
                    let mut found = FOUND.lock().unwrap();
                    let number = c_long::from(report.number);
                    if !found.contains(&number) {
                        found.push(number);
                    }
                }
                let mut answer = Answer { id: report.id, flags: CONTINUE, ..Answer::default() };
                libc::ioctl(fd, request(1, size_of::<Answer>()), &raw mut answer);
            }
        }
    }
}
