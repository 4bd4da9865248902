//! Panics: the running thread's job ends, or the kernel stops.

use crate::fault::{Cause, Fault};
use crate::port::{self, free};
use crate::shared::IDLE;
use core::panic::PanicInfo;

/// It reads neither the message nor the place of the source, so that the linker leaves these out of the image: they take a tenth of it. The
/// addresses of the calls name the place as well (`addr2line`).
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    let [pc, lr] = port::panicked_at();
    let shared = port::shared();
    let current = critical_section::with(|cs| shared.current.borrow(cs).get());
    let task = (current != IDLE && !port::in_interrupt()).then_some(current as u32);
    let fault = Fault { cause: Cause::Panic, task, pc, lr, detail: 0, at: port::now() };
    if task.is_some() {
        free(|cs| {
            shared.fault.borrow(cs).set(fault);
            port::pend();
        });
    }
    // The kernel has no fault to report, or did not let the thread begin again.
    shared.stop(&fault)
}
