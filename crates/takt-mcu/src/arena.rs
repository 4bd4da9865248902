//! Memory: all RAM that the program leaves, given away once before the start and never after it.
//!
//! The linker's script of `cortex-m-rt` names its ends. From `__sheap` upwards memory is given away; below `_stack_start` is the stack
//! of `main`, and later of all handlers.

use crate::fault::Cause;
use crate::port;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use critical_section::Mutex;

/// Bytes that the arena leaves to `main` and the handlers.
const HANDLERS: usize = 4096;

unsafe extern "C" {
    static mut __sheap: u8;
    static mut _stack_start: u8;
}

fn bottom() -> usize {
    (&raw mut __sheap) as usize
}

fn top() -> usize {
    (&raw mut _stack_start) as usize
}

struct Arena {
    /// Bytes given away.
    used: Mutex<Cell<usize>>,
    frozen: Mutex<Cell<bool>>,
    /// Allocations after the start.
    late: Mutex<Cell<u32>>,
}

static ARENA: Arena =
    Arena { used: Mutex::new(Cell::new(0)), frozen: Mutex::new(Cell::new(false)), late: Mutex::new(Cell::new(0)) };

struct Global;

#[global_allocator]
static GLOBAL: Global = Global;

// SAFETY: each call gets bytes that no other call has.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size(), layout.align())
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // The allocation that came last can be taken back: a vector that is filled before another one is made.
        critical_section::with(|cs| {
            let used = ARENA.used.borrow(cs);
            if pointer as usize + layout.size() == bottom() + used.get() && !ARENA.frozen.borrow(cs).get() {
                used.set(pointer as usize - bottom());
            }
        });
    }
}

/// Gives bytes away, or a null pointer when the kernel has started. If the RAM is too small, the kernel does not start.
fn take(size: usize, align: usize) -> *mut u8 {
    critical_section::with(|cs| {
        let used = ARENA.used.borrow(cs);
        if ARENA.frozen.borrow(cs).get() {
            let late = ARENA.late.borrow(cs);
            late.set(late.get() + 1);
            return core::ptr::null_mut();
        }
        let at = (bottom() + used.get()).next_multiple_of(align);
        if at + size + HANDLERS > top() {
            port::shared().refuse(Cause::OutOfMemory, size as u32)
        }
        used.set(at + size - bottom());
        at as *mut u8
    })
}

/// Memory for a stack, before the start.
pub(crate) fn stack(size: usize, align: usize) -> *mut u8 {
    take(size, align)
}

/// Whether an address is that of two aligned words above the program's own data, where all stacks are.
pub(crate) fn holds(address: u32) -> bool {
    let address = address as usize;
    address.is_multiple_of(4) && (bottom()..top() - 4).contains(&address)
}

/// Bytes that were given away, and the number of allocations after the start.
pub(crate) fn used() -> (u32, u32) {
    critical_section::with(|cs| (ARENA.used.borrow(cs).get() as u32, ARENA.late.borrow(cs).get()))
}

/// Ends the time of allocations, and marks the unused part of the handlers' stack. Returns its upper end.
pub(crate) fn paint(mark: u32) -> u32 {
    critical_section::with(|cs| ARENA.frozen.borrow(cs).set(true));
    let here = &raw const mark as usize;
    for word in (handlers_bottom()..here.saturating_sub(256)).step_by(4) {
        // SAFETY: words below the stack pointer, which no one has.
        unsafe { (word as *mut u32).write_volatile(mark) };
    }
    top() as u32
}

fn handlers_bottom() -> usize {
    (top() - HANDLERS) & !3
}

/// Bytes of the handlers' stack that were ever used since the start.
pub(crate) fn handlers_used(mark: u32) -> u32 {
    let mut words = (handlers_bottom()..top()).step_by(4);
    // SAFETY: words of the handlers' stack.
    let touched = words.find(|word| unsafe { (*word as *const u32).read_volatile() } != mark);
    (top() - touched.unwrap_or(top())) as u32
}
