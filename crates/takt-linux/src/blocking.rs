//! Blocks and wake-ups of threads in the middle of a job, as the kernel's scheduler reports them, each with its instant of the monotonic clock.
//!
//! Each CPU has a ring for three tracepoints (`perf_event_open`): `sched_switch` reports that a thread leaves its CPU because it blocks or ends,
//! `sched_wakeup` that it is runnable again, `sched_wakeup_new` that it begins. A second ring has the threads that get the CPU, because a wake-up is
//! missing now and then (one of some 2000 in a virtual machine). The kernel filters them by the priorities of a run's
//! processes and by the state of the thread, so other threads cost the check of the filter. A tracepoint that is bound to a process would report no wake-up by
//! another process, therefore these are bound to CPUs.
//!
//! `sched_waking` comes earlier than `sched_wakeup`, but without the lock of the run queue. A thread that is woken while it blocks would be reported in the wrong
//! order, and would seem to be blocked from then on (`try_to_wake_up` and `__schedule` in `kernel/sched/core.c`).
//!
//! A look at the rings is no system call. The rings end with their descriptors, and so with a run that is killed.

mod decode;
mod rings;
mod states;
#[cfg(test)]
mod tests;
mod threads;

pub use decode::{Change, Switch};
pub use rings::{Notices, Switches, cost};
pub use states::{INTERVAL, States};
pub use threads::{Threads, Transition};
