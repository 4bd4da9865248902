//! The kernel's own trace of a measurement, read from the pages of its rings (`trace_pipe_raw` of tracefs).
//!
//! Nothing here opens a file: the caller hands over the pages, and the texts by which the kernel describes its events.

mod event;
mod format;
mod page;

pub use event::{Event, Interrupt, KernelTrace, Name, Thread, What};
pub use format::Unexpected;

/// The events that explanations need, as `system/name`. A kernel may lack some of them, such as the vectors of x86.
pub const EVENTS: [&str; 20] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "timer/hrtimer_start",
    "timer/hrtimer_expire_entry",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_exit",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/call_function_single_exit",
    "irq_vectors/irq_work_entry",
    "irq_vectors/irq_work_exit",
    "irq_vectors/x86_platform_ipi_entry",
    "irq_vectors/x86_platform_ipi_exit",
];
