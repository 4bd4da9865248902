//! Scheduling classes, CPU affinity and memory locking of threads.
//!
//! A process id 0 means the calling thread throughout.

use crate::sys::{self, SchedAttr};
use rustix::mm::MlockAllFlags;
use rustix::process::Pid;
use std::io;
use std::path::Path;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;

/// A scheduling class of Linux with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The ordinary time-sharing class.
    Other,
    /// `SCHED_IDLE`: CPU time that the ordinary class leaves.
    Idle,
    /// `SCHED_FIFO` with a priority from 1 (low) to 99.
    Fifo(u8),
    /// `SCHED_DEADLINE`: `runtime` within `deadline` in every `period`. The kernel refuses it to a thread that is
    /// not allowed on all CPUs of its root domain. Threads and processes that it starts are in the ordinary class.
    Deadline {
        /// Reserved CPU time.
        runtime: Span,
        /// Relative deadline.
        deadline: Span,
        /// Length of the period.
        period: Span,
    },
}

/// The CPUs that stand for these on a machine with the CPUs `present`: the common ones, and without any its lowest one.
#[must_use]
pub fn remapped(cpus: &CpuSet, present: &CpuSet) -> CpuSet {
    let there = cpus.intersection(present);
    if there.is_empty() { present.iter().take(1).collect() } else { there }
}

/// Gives a thread another class.
///
/// # Errors
/// `EPERM` without the right to real-time classes, or inside a v1 cpu group without real-time quota;
/// `EBUSY` when a deadline reservation does not fit; `ESRCH` when there is no such thread.
pub fn set_class(thread: i32, class: Class) -> io::Result<()> {
    sys::sched_setattr(thread, attributes(class))
}

/// As [`set_class`]. Threads and processes that the thread starts from now on are in the ordinary class.
pub(crate) fn set_class_of_one(thread: i32, class: Class) -> io::Result<()> {
    sys::sched_setattr(thread, SchedAttr { flags: libc::SCHED_FLAG_RESET_ON_FORK as u64, ..attributes(class) })
}

fn attributes(class: Class) -> SchedAttr {
    match class {
        Class::Other => SchedAttr { policy: libc::SCHED_OTHER as u32, ..SchedAttr::default() },
        Class::Idle => SchedAttr { policy: libc::SCHED_IDLE as u32, ..SchedAttr::default() },
        Class::Fifo(priority) => {
            SchedAttr { policy: libc::SCHED_FIFO as u32, priority: priority.into(), ..SchedAttr::default() }
        }
        Class::Deadline { runtime, deadline, period } => SchedAttr {
            policy: libc::SCHED_DEADLINE as u32,
            // Otherwise the kernel refuses its forks, those of a shell before `exec` included.
            flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
            runtime: runtime.ns() as u64,
            deadline: deadline.ns() as u64,
            period: period.ns() as u64,
            ..SchedAttr::default()
        },
    }
}

/// Whether a thread is in the class FIFO.
#[must_use]
pub fn is_fifo(thread: i32) -> bool {
    sys::sched_policy(thread).is_some_and(|policy| policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO)
}

/// The scheduling policy of a thread by the name that sched(7) gives it. `None` when there is no such thread, or an unknown policy.
#[must_use]
pub fn policy_name(thread: i32) -> Option<&'static str> {
    Some(match sys::sched_policy(thread)? & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => "SCHED_OTHER",
        libc::SCHED_BATCH => "SCHED_BATCH",
        libc::SCHED_IDLE => "SCHED_IDLE",
        libc::SCHED_FIFO => "SCHED_FIFO",
        libc::SCHED_RR => "SCHED_RR",
        libc::SCHED_DEADLINE => "SCHED_DEADLINE",
        _ => return None,
    })
}

/// Restricts a thread to a set of CPUs.
///
/// # Errors
/// `EINVAL` when none of the CPUs is there or allowed by the cpuset; `ESRCH` when there is no such thread.
pub fn set_affinity(thread: i32, cpus: &CpuSet) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu));
    Ok(rustix::thread::sched_setaffinity(Pid::from_raw(thread), &set)?)
}

/// The CPUs a thread is allowed on.
///
/// # Errors
/// `ESRCH` when there is no such thread.
pub fn affinity(thread: i32) -> io::Result<CpuSet> {
    let set = rustix::thread::sched_getaffinity(Pid::from_raw(thread))?;
    Ok((0..takt_core::cpus::MAX_CPUS).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Keeps all present and future memory of this process in RAM, so that no page fault delays the scheduler.
///
/// # Errors
/// `ENOMEM` or `EPERM` when the limit of locked memory is too low.
pub fn lock_memory() -> io::Result<()> {
    Ok(rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// The pages of this process stay small until this is dropped ([`without_huge_pages`]).
#[derive(Debug)]
pub struct SmallPages {
    /// They were not small before.
    changed: bool,
}

/// Keeps the kernel from collapsing pages of this process into huge ones. Its thread for that (`khugepaged`) has the lowest priority, and holds the
/// lock of the address space meanwhile. A scheduler that needs the lock would wait for as long as other threads preempt `khugepaged`.
///
/// Children inherit the setting, which survives `execve`. [`Mechanism::spawn`](crate::Mechanism::spawn) gives the processes that it starts the setting from
/// before.
///
/// # Errors
/// None known; the kernel's answer is passed on.
pub fn without_huge_pages() -> io::Result<SmallPages> {
    let changed = has_huge_pages();
    if changed {
        rustix::thread::disable_transparent_huge_pages(true)?;
    }
    Ok(SmallPages { changed })
}

/// Whether pages of this process may be collapsed into huge ones.
pub(crate) fn has_huge_pages() -> bool {
    rustix::thread::transparent_huge_pages_are_disabled().is_ok_and(|disabled| !disabled)
}

impl Drop for SmallPages {
    fn drop(&mut self) {
        if self.changed {
            let _ = rustix::thread::disable_transparent_huge_pages(false);
        }
    }
}

/// Blocks all signals in the calling thread, so that another thread of the process handles them (pthread_sigmask(3)). Faults of the thread itself
/// still end the process.
pub fn block_signals() {
    sys::block_signals();
}

/// How late Linux may let sleeps of this thread end in order to batch them; real-time classes ignore it.
/// Children inherit it from the thread that starts them.
///
/// # Errors
/// None known; the kernel's answer is passed on.
pub fn set_timer_slack(slack: Span) -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(slack.ns().max(1) as u64))?)
}

/// Whether this process may use a real-time class, tried for real on a short-lived thread.
#[must_use]
pub fn rt_allowed() -> bool {
    std::thread::Builder::new()
        .spawn(|| set_class(0, Class::Fifo(1)).is_ok())
        .is_ok_and(|helper| helper.join().unwrap_or(false))
}

/// Whether the kernel is PREEMPT_RT. Its own threads for timers and for RCU have the lowest real-time priority there, so that
/// real-time processes which fill a CPU hold them up, and with them all changes of control groups.
#[must_use]
pub fn preempt_rt() -> bool {
    let version = rustix::system::uname();
    let version = version.version().to_string_lossy();
    version.split(' ').any(|word| word == "PREEMPT_RT") || Path::new("/sys/kernel/realtime").exists()
}

/// Share of CPU time that real-time classes may use, as the kernel's global throttle sets it:
/// `(runtime, period)`; a runtime of `None` is no limit.
///
/// # Errors
/// When `/proc/sys` cannot be read.
pub fn throttle() -> io::Result<(Option<Span>, Span)> {
    let value = |name: &str| -> io::Result<i64> {
        let text = crate::control::read(format!("/proc/sys/kernel/sched_rt_{name}_us").as_ref())?;
        text.parse().map_err(io::Error::other)
    };
    let (runtime, period) = (value("runtime")?, value("period")?);
    // Newer kernels keep time for ordinary processes in another way, and set the limit to the whole period.
    let limited = (0..period).contains(&runtime);
    Ok((limited.then(|| Span::from_us(runtime)), Span::from_us(period)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cpus_are_replaced_by_those_that_are_there() {
        let set = |list: &[usize]| list.iter().copied().collect::<CpuSet>();
        let present = set(&[1, 2, 5]);
        assert_eq!(remapped(&set(&[0, 1, 5, 63]), &present), set(&[1, 5]));
        assert_eq!(remapped(&set(&[0, 63]), &present), set(&[1]), "the lowest one");
        assert_eq!(remapped(&present, &present), present);
    }

    #[test]
    fn a_thread_moves_between_cpus_and_classes() {
        std::thread::spawn(|| {
            let all = affinity(0).unwrap();
            let last = CpuSet::single(all.iter().last().unwrap());
            set_affinity(0, &last).unwrap();
            assert_eq!(affinity(0).unwrap(), last);
            if !rt_allowed() {
                println!("skipped: no right to real-time classes");
                return;
            }
            assert!(!is_fifo(0));
            set_class(0, Class::Fifo(7)).unwrap();
            assert!(is_fifo(0));
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
            // Fields 40 and 41 of proc(5), counted from the state, which is field 3.
            assert_eq!((fields[37], fields[38]), ("7", "1"));
            set_class(0, Class::Other).unwrap();
            assert!(set_class(0, Class::Fifo(100)).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_throttle_is_a_part_of_its_period() {
        let (runtime, period) = throttle().unwrap();
        assert!(period > Span::ZERO && runtime.is_none_or(|r| r <= period));
    }
}
