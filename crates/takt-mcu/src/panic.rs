//! Panics: the running thread's job ends, or the kernel stops.

use crate::fault::{Cause, Fault};
use crate::port::{self, free};
use crate::shared::IDLE;
use core::panic::PanicInfo;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let line = info.location().map_or(0, core::panic::Location::line);
    let shared = port::shared();
    let current = critical_section::with(|cs| shared.current.borrow(cs).get());
    let task = (current != IDLE && !port::in_interrupt()).then_some(current as u32);
    let fault = Fault { cause: Cause::Panic, task, pc: 0, lr: 0, detail: line, at: port::now() };
    if task.is_some() {
        free(|cs| {
            shared.fault.borrow(cs).set(Some(fault));
            port::pend();
        });
    }
    // The kernel has no fault to report, or did not let the thread begin again.
    shared.stop(&fault)
}
