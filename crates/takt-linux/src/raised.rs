//! Threads of the kernel that handle timers, softirqs and interrupts of one CPU, with a higher priority.
//!
//! A PREEMPT_RT kernel, or one with the parameter `threadirqs`, handles them in threads: timers of ordinary tasks and POSIX timers in `ktimers/N` (the
//! lowest real-time priority), other softirqs in `ksoftirqd/N` (the ordinary class), and interrupts in `irq/...` (priority 50). A real-time task that depends
//! on one of them waits for it behind every thread in between. Sources: `kernel/softirq.c` and `kernel/irq/manage.c` of Linux.

use crate::group::Unavailable;
use crate::isolate::{self, Kernel, Linux, Thread};
use crate::run_id::RunId;
use crate::thread_class::{ClassOf, Parameters};
use std::io;

/// Threads of the kernel with a higher priority. They have their classes from before when this is dropped.
#[derive(Debug)]
pub struct Raised {
    /// An owner of its own: other settings of the experiment are restored at another time.
    run: RunId,
    names: Vec<String>,
}

impl Raised {
    /// Gives the threads of timers, softirqs and interrupts of a CPU this priority in SCHED_FIFO. Threads with a higher one keep it. O(threads).
    ///
    /// # Errors
    /// The kernel has no threads of interrupts or timers, or this user may not change them. Nothing is changed then.
    pub fn create(cpu: usize, priority: u8) -> Result<Raised, Unavailable> {
        let threads = Linux::look().threads();
        let handlers: Vec<Thread> = threads.into_iter().filter(|thread| handles(thread, cpu)).collect();
        if !handlers.iter().any(|thread| thread.name != format!("ksoftirqd/{cpu}")) {
            return Err(Unavailable {
                reason: format!(
                    "this kernel has no threads of timers or interrupts on CPU {cpu}: it is no PREEMPT_RT kernel, and was booted without `threadirqs`"
                ),
                fix: "boot a PREEMPT_RT kernel".into(),
            });
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Unavailable {
                reason: "threads of the kernel belong to root".into(),
                fix: "run it as root: sudo takt …".into(),
            });
        }
        let failed = |e: io::Error| Unavailable {
            reason: format!("the threads of timers and interrupts keep their priorities: {e}"),
            fix: "`takt doctor` reports what this machine can do".into(),
        };
        let wanted = Parameters::fifo(priority);
        let lower = |thread: &&Thread| Parameters::of(thread.id).is_ok_and(|now| now.is_below(wanted));
        let lower: Vec<&Thread> = handlers.iter().filter(lower).collect();
        let paths: Vec<String> = lower.iter().map(|t| ClassOf::new(t.id, t.start).to_string()).collect();
        let run = RunId::new().map_err(failed)?;
        isolate::hold(&run, &paths).map_err(|e| {
            run.end();
            failed(e)
        })?;
        // From here on, all is undone when this is dropped.
        let mut done = Raised { run, names: Vec::new() };
        for thread in lower {
            match ClassOf::new(thread.id, thread.start).write(&wanted.to_string()) {
                Ok(()) => done.names.push(thread.name.clone()),
                // A device may have been removed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(done)
    }

    /// The names of the threads.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Gives the threads their classes from before.
    ///
    /// # Errors
    /// The kernel refuses it. The classes remain in the journal.
    pub fn undo(self) -> io::Result<()> {
        self.restore()
    }

    fn restore(&self) -> io::Result<()> {
        isolate::release(&self.run)?;
        self.run.end();
        Ok(())
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        // It does nothing after `undo`. A failure is in the journal, which `doctor --clean` carries out.
        let _ = self.restore();
    }
}

/// Whether a thread of the kernel handles timers, softirqs or interrupts on a CPU.
fn handles(thread: &Thread, cpu: usize) -> bool {
    let name = thread.name.as_str();
    let of_cpu = ["ktimers/", "ksoftirqd/"].iter().any(|kind| name.strip_prefix(kind) == Some(&cpu.to_string()));
    thread.kernel && thread.cpus.contains(cpu) && (of_cpu || name.starts_with("irq/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::cpus::CpuSet;

    #[test]
    fn only_threads_of_the_kernel_on_the_cpu_handle_its_timers() {
        let thread = |name: &str, kernel: bool, cpu: usize| Thread {
            id: 9,
            start: 1,
            name: name.into(),
            kernel,
            fixed: true,
            cpus: CpuSet::single(cpu),
            group: "/".into(),
        };
        for name in ["ktimers/1", "ksoftirqd/1", "irq/24-ahci"] {
            assert!(handles(&thread(name, true, 1), 1) && !handles(&thread(name, false, 1), 1), "{name}");
            assert!(!handles(&thread(name, true, 0), 1), "{name}");
        }
        for name in ["ktimers/11", "ksoftirqd/0", "migration/1", "kworker/1:0"] {
            assert!(!handles(&thread(name, true, 1), 1), "{name}");
        }
    }

    /// Where the kernel has such threads, all of them are raised and restored. Elsewhere the reason is given.
    #[test]
    fn threads_of_the_kernel_are_raised_and_restored() {
        let classes = || {
            let threads = Linux::look().threads().into_iter().filter(|thread| handles(thread, 0));
            threads.map(|thread| (thread.name.clone(), Parameters::of(thread.id).unwrap().to_string()))
        };
        let before: Vec<(String, String)> = classes().collect();
        let raised = match Raised::create(0, 61) {
            Ok(raised) => raised,
            Err(e) => return println!("skipped: {}", e.reason),
        };
        let during: Vec<(String, String)> = classes().collect();
        let (names, run) = (raised.names().to_vec(), raised.run);
        raised.undo().unwrap();
        let mut named = during.iter().filter(|(name, _)| names.contains(name));
        assert!(!names.is_empty() && named.all(|(_, class)| class == "SCHED_FIFO 61"), "{during:?}");
        assert_eq!(classes().collect::<Vec<_>>(), before);
        // Other tests of this process hold settings, too.
        assert!(isolate::holders().iter().all(|(other, _)| *other != run));
    }
}
