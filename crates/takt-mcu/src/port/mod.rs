//! The port: threads, interrupts and the entry into the kernel, on a processor or on the host.

#[cfg(target_os = "none")]
mod cortex_m;
#[cfg(not(target_os = "none"))]
pub(crate) mod host;

#[cfg(target_os = "none")]
use cortex_m as port;
#[cfg(not(target_os = "none"))]
use host as port;

use crate::shared::{Scheduler, Shared};
use alloc::boxed::Box;
use critical_section::CriticalSection;
use takt_core::time::Time;

/// The shared state of this kernel.
pub(crate) fn shared() -> &'static Shared {
    port::shared()
}

/// Runs `f` with interrupts masked. If it has pended the kernel, that runs before this returns.
#[inline]
pub(crate) fn free<R>(f: impl FnOnce(CriticalSection<'_>) -> R) -> R {
    let result = critical_section::with(f);
    port::settle();
    result
}

/// Lets the kernel run as soon as no interrupt is served.
#[inline]
pub(crate) fn pend() {
    port::pend();
}

/// The kernel runs, and is about to see all that was noted so far: it need not run again for that.
#[inline]
pub(crate) fn unpend() {
    port::unpend();
}

/// Whether an interrupt is served.
#[inline]
pub(crate) fn in_interrupt() -> bool {
    port::in_interrupt()
}

/// The clock; time zero before the start.
pub(crate) fn now() -> Time {
    free(|cs| shared().now(cs))
}

/// The idle thread has nothing to do until an interrupt comes.
pub(crate) fn wait() {
    port::wait();
}

/// Makes threads with stacks of these sizes, the last one of which is idle. O(bytes of the stacks).
pub(crate) fn prepare(stacks: &[u32]) {
    port::prepare(stacks);
}

/// Masks interrupts until [`start`] lets the idle thread begin.
pub(crate) fn mask() {
    port::mask();
}

/// Begins with the idle thread, which pends the kernel.
pub(crate) fn start(scheduler: Box<dyn Scheduler>) -> ! {
    port::start(scheduler)
}

/// Lets a thread begin again. Only the kernel calls it.
pub(crate) fn restart(thread: usize, handler: bool) {
    port::restart(thread, handler);
}

/// Bytes of a thread's stack that were ever used. O(bytes).
pub(crate) fn stack_used(thread: usize) -> u32 {
    port::stack_used(thread)
}

/// Whether the stack of a thread has overflowed, where no hardware guards it.
pub(crate) fn overflowed(thread: usize) -> bool {
    port::overflowed(thread)
}

/// Bytes of the handlers' stack that were ever used. O(bytes).
pub(crate) fn handler_stack_used() -> u32 {
    port::handler_stack_used()
}

/// The addresses of the two calls that led to a panic. Only the panic handler calls it.
#[cfg(target_os = "none")]
#[inline(always)]
pub(crate) fn panicked_at() -> [u32; 2] {
    port::panicked_at()
}

/// Bytes that were allocated before the start, and the number of allocations after it.
pub(crate) fn memory() -> (u32, u32) {
    port::memory()
}
