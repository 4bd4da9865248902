//! Cortex-M: threads on the process stack, the kernel in PendSV, guards by the MPU.
//!
//! Register numbers are those of the ARMv7-M Architecture Reference Manual (ARM DDI 0403), chapter B3.

use crate::arena;
use crate::fault::{Cause, Fault};
use crate::shared::{Scheduler, Shared};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use takt_core::time::Time;

const ICSR: *mut u32 = 0xE000_ED04 as *mut u32;
const PENDSV_SET: u32 = 1 << 28;
const PENDSV_CLEAR: u32 = 1 << 27;
const SHPR3: *mut u32 = 0xE000_ED20 as *mut u32;
const SHCSR: *mut u32 = 0xE000_ED24 as *mut u32;
#[cfg(target_has_atomic = "32")]
const CFSR: *mut u32 = 0xE000_ED28 as *mut u32;
#[cfg(target_has_atomic = "32")]
const MMFAR: *mut u32 = 0xE000_ED34 as *mut u32;
#[cfg(target_has_atomic = "32")]
const BFAR: *mut u32 = 0xE000_ED38 as *mut u32;
const MPU_TYPE: *mut u32 = 0xE000_ED90 as *mut u32;
const MPU_CTRL: *mut u32 = 0xE000_ED94 as *mut u32;
const MPU_RBAR: *mut u32 = 0xE000_ED9C as *mut u32;
const MPU_RASR: *mut u32 = 0xE000_EDA0 as *mut u32;

/// Bytes of the guard at the lower end of the running thread's stack, a power of two. A function that overflows the stack has moved its
/// stack pointer already when it touches the guard, and the hardware stacks 32 bytes below that pointer. These must be within the guard, too, or
/// they would end up in the stack below.
const GUARD: u32 = 128;
/// The mark of unused words of stacks.
const UNUSED: u32 = 0x5754_4B41;
/// Words that the hardware stacks, and words that PendSV stacks: r4 to r11 and lr.
const HARDWARE: usize = 8;
const SOFTWARE: usize = 9;

/// A thread's stack, and where it stands while the thread does not run.
#[derive(Clone, Copy)]
struct Stack {
    pointer: u32,
    /// The first byte of the guard.
    base: u32,
    top: u32,
}

/// State that only PendSV touches after the start, and before it only the start.
struct Port {
    stacks: UnsafeCell<Vec<Stack>>,
    scheduler: UnsafeCell<Option<Box<dyn Scheduler>>>,
    current: UnsafeCell<usize>,
}

// SAFETY: there is one core, and PendSV does not preempt itself. The handlers of faults read it when no PendSV runs.
unsafe impl Sync for Port {}

static PORT: Port =
    Port { stacks: UnsafeCell::new(Vec::new()), scheduler: UnsafeCell::new(None), current: UnsafeCell::new(0) };

static SHARED: Shared = Shared::new();

pub(super) fn shared() -> &'static Shared {
    &SHARED
}

#[inline(always)]
pub(super) fn settle() {
    // PendSV is taken before the next instruction.
    cortex_m::asm::isb();
}

#[inline(always)]
pub(super) fn pend() {
    // SAFETY: a register of the processor, in which zeros change nothing.
    unsafe { ICSR.write_volatile(PENDSV_SET) };
    cortex_m::asm::dsb();
}

#[inline(always)]
pub(super) fn unpend() {
    // SAFETY: a register of the processor, in which zeros change nothing.
    unsafe { ICSR.write_volatile(PENDSV_CLEAR) };
}

#[inline(always)]
pub(super) fn in_interrupt() -> bool {
    let ipsr: u32;
    // SAFETY: it reads a register.
    unsafe { asm!("mrs {}, ipsr", out(reg) ipsr, options(nomem, nostack, preserves_flags)) };
    ipsr & 0x1ff != 0
}

pub(super) fn wait() {
    cortex_m::asm::wfi();
}

pub(super) fn memory() -> (u32, u32) {
    arena::used()
}

/// Whether the processor has an MPU.
fn has_guard() -> bool {
    // SAFETY: a register that tells the number of regions, and reads as zero without an MPU.
    unsafe { MPU_TYPE.read_volatile() >> 8 & 0xff > 0 }
}

pub(super) fn prepare(sizes: &[u32]) {
    // SAFETY: before the start nothing else touches the port.
    let stacks = unsafe { &mut *PORT.stacks.get() };
    stacks.reserve_exact(sizes.len());
    for (thread, size) in sizes.iter().enumerate() {
        let base = arena::stack((size + GUARD) as usize, GUARD as usize) as u32;
        let top = base + size + GUARD;
        for word in (base..top).step_by(4) {
            // SAFETY: the words of the new stack.
            unsafe { (word as *mut u32).write_volatile(UNUSED) };
        }
        stacks.push(Stack { pointer: frame(top, thread, false), base, top });
    }
}

extern "C" fn begin(thread: usize, handler: usize) -> ! {
    SHARED.run(thread, handler != 0)
}

/// Writes what PendSV and the hardware restore of a thread that begins. Returns the stack pointer.
fn frame(top: u32, thread: usize, handler: bool) -> u32 {
    let mut words = [0; SOFTWARE + HARDWARE];
    // Back to thread mode and the process stack, without a floating-point context.
    words[8] = 0xFFFF_FFFD;
    words[9] = thread as u32;
    words[10] = u32::from(handler);
    words[14] = 0xFFFF_FFFF;
    words[15] = begin as *const () as u32;
    // The Thumb bit of xPSR.
    words[16] = 1 << 24;
    // The hardware's part is at a multiple of 8.
    let pointer = (top & !7) - 4 * words.len() as u32;
    for (index, word) in words.iter().enumerate() {
        // SAFETY: the upper end of a stack whose thread does not run.
        unsafe { ((pointer + 4 * index as u32) as *mut u32).write_volatile(*word) };
    }
    pointer
}

pub(super) fn restart(thread: usize, handler: bool) {
    // SAFETY: the kernel calls it within PendSV, or a fault's handler does in its place.
    unsafe {
        if let Some(stack) = (&mut *PORT.stacks.get()).get_mut(thread) {
            stack.pointer = frame(stack.top, thread, handler);
        }
    }
}

pub(super) fn mask() {
    cortex_m::interrupt::disable();
}

pub(super) fn start(scheduler: Box<dyn Scheduler>) -> ! {
    // SAFETY: before the start nothing else touches the port; the registers are those of the processor.
    let (idle, pointer) = unsafe {
        *PORT.scheduler.get() = Some(scheduler);
        let stacks = &*PORT.stacks.get();
        let idle = stacks.len() - 1;
        *PORT.current.get() = idle;
        // PendSV has the lowest priority, and faults have handlers of their own.
        SHPR3.write_volatile(SHPR3.read_volatile() | 0xff << 16);
        SHCSR.write_volatile(SHCSR.read_volatile() | 0b111 << 16);
        if has_guard() {
            guard(stacks[idle].base);
            // On, with the default map for what no region covers.
            MPU_CTRL.write_volatile(0b101);
            cortex_m::asm::dsb();
            cortex_m::asm::isb();
        }
        (idle, stacks[idle].top & !7)
    };
    let handlers = arena::paint(UNUSED);
    // SAFETY: the idle thread begins on its own stack; nothing of the start is used any longer.
    unsafe {
        asm!(
            "msr psp, {pointer}",
            "msr control, {process}",
            "isb",
            "msr msp, {handlers}",
            "cpsie i",
            "bx {begin}",
            pointer = in(reg) pointer,
            process = in(reg) 2,
            handlers = in(reg) handlers,
            begin = in(reg) begin as *const () as u32,
            in("r0") idle,
            in("r1") 0,
            options(noreturn)
        )
    }
}

/// Puts the guard of the MPU at the lower end of a stack: no access at all.
unsafe fn guard(base: u32) {
    const VALID: u32 = 1 << 4;
    const ON: u32 = (GUARD.trailing_zeros() - 1) << 1 | 1;
    // Never executed, of shareable normal memory.
    const NORMAL: u32 = 1 << 28 | 0b000_110 << 16;
    // SAFETY: registers of the processor; the caller says where.
    unsafe {
        MPU_RBAR.write_volatile(base | VALID);
        MPU_RASR.write_volatile(NORMAL | ON);
    }
}

pub(super) fn stack_used(thread: usize) -> u32 {
    // SAFETY: within PendSV; the words of a stack.
    let stack = unsafe { (&*PORT.stacks.get())[thread] };
    let unused = (stack.base + GUARD..stack.top).step_by(4);
    let touched = unused.clone().find(|word| unsafe { (*word as *const u32).read_volatile() } != UNUSED);
    stack.top - touched.unwrap_or(stack.top)
}

pub(super) fn overflowed(thread: usize) -> bool {
    // SAFETY: within PendSV; a word of a stack.
    unsafe {
        let Some(stack) = (&*PORT.stacks.get()).get(thread) else { return false };
        !has_guard() && (stack.base as *const u32).read_volatile() != UNUSED
    }
}

pub(super) fn handler_stack_used() -> u32 {
    arena::handlers_used(UNUSED)
}

/// Changes the thread. Called by PendSV with the stack pointer of the one that ran.
extern "C" fn switch(pointer: u32) -> u32 {
    // SAFETY: PendSV alone calls it. No reference to the port is held while the kernel runs, which may restart threads.
    unsafe {
        let current = *PORT.current.get();
        (&mut *PORT.stacks.get())[current].pointer = pointer;
        let Some(scheduler) = &mut *PORT.scheduler.get() else { return pointer };
        let next = scheduler.enter();
        *PORT.current.get() = next;
        let stack = (&*PORT.stacks.get())[next];
        if has_guard() {
            guard(stack.base);
        }
        stack.pointer
    }
}

#[cfg(all(target_has_atomic = "32", not(target_abi = "eabihf")))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn PendSV() {
    naked_asm!(
        "mrs r0, psp",
        "stmdb r0!, {{r4-r11, lr}}",
        "bl {switch}",
        "ldmia r0!, {{r4-r11, lr}}",
        "msr psp, r0",
        "bx lr",
        switch = sym switch,
    )
}

/// As the other one, for ARMv6-M, which stores and loads only the lower registers. The layout is the same.
#[cfg(not(target_has_atomic = "32"))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn PendSV() {
    naked_asm!(
        "mrs r0, psp",
        "subs r0, #36",
        "mov r1, r0",
        "stmia r1!, {{r4-r7}}",
        "mov r4, r8",
        "mov r5, r9",
        "mov r6, r10",
        "mov r7, r11",
        "stmia r1!, {{r4-r7}}",
        "mov r4, lr",
        "str r4, [r1]",
        "bl {switch}",
        "mov r1, r0",
        "adds r1, #16",
        "ldmia r1!, {{r4-r7}}",
        "mov r8, r4",
        "mov r9, r5",
        "mov r10, r6",
        "mov r11, r7",
        "ldmia r1!, {{r2}}",
        "msr psp, r1",
        "ldmia r0!, {{r4-r7}}",
        "bx r2",
        switch = sym switch,
    )
}

/// As the other one, for threads with a floating-point context: s16 to s31 are stacked if bit 4 of lr says that there is one.
#[cfg(target_abi = "eabihf")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn PendSV() {
    naked_asm!(
        "mrs r0, psp",
        "tst lr, #0x10",
        "it eq",
        "vstmdbeq r0!, {{s16-s31}}",
        "stmdb r0!, {{r4-r11, lr}}",
        "bl {switch}",
        "ldmia r0!, {{r4-r11, lr}}",
        "tst lr, #0x10",
        "it eq",
        "vldmiaeq r0!, {{s16-s31}}",
        "msr psp, r0",
        "bx lr",
        switch = sym switch,
    )
}

#[cfg(target_has_atomic = "32")]
macro_rules! fault_handler {
    ($($name:ident)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    "mrs r0, psp",
                    "mov r1, lr",
                    "push {{r4, lr}}",
                    "bl {fault}",
                    "pop {{r4, lr}}",
                    "msr psp, r0",
                    "bx lr",
                    fault = sym fault,
                )
            }
        )*
    };
}

// ARMv6-M has one fault, which ends the kernel.
#[cfg(target_has_atomic = "32")]
fault_handler! { MemoryManagement BusFault UsageFault }

/// The trampoline of `cortex-m-rt` calls it with what the hardware has stacked.
#[unsafe(no_mangle)]
unsafe extern "C" fn HardFault(frame: *const u32) -> ! {
    // SAFETY: the words that the hardware stacked.
    let (lr, pc) = unsafe { (frame.add(5).read_volatile(), frame.add(6).read_volatile()) };
    let task = current_task();
    SHARED.stop(&Fault { cause: Cause::Hard, task, pc, lr, detail: 0, at: now() })
}

// Copies and fills for the compiler, in place of those of its library, which take ten times as much flash: words, and then the bytes that remain.
// The processor reads and writes words at any address. A Cortex-M0+ does not, and has no exclusive access either.
#[cfg(target_has_atomic = "32")]
core::arch::global_asm!(
    ".syntax unified",
    ".macro takt_function name",
    ".global \\name",
    ".type \\name, %function",
    ".thumb_func",
    "\\name:",
    ".endm",
    ".section .text.takt_memory, \"ax\", %progbits",
    "takt_function memmove",
    "takt_function __aeabi_memmove",
    "takt_function __aeabi_memmove4",
    "takt_function __aeabi_memmove8",
    "subs r3, r0, r1",
    "cmp r3, r2",
    "bhs 5f",
    // The ranges overlap, and the end of the source would be overwritten first.
    "add r1, r1, r2",
    "add ip, r0, r2",
    "subs r2, #4",
    "blo 2f",
    "1: ldr r3, [r1, #-4]!",
    "str r3, [ip, #-4]!",
    "subs r2, #4",
    "bhs 1b",
    "2: adds r2, #4",
    "beq 4f",
    "3: ldrb r3, [r1, #-1]!",
    "strb r3, [ip, #-1]!",
    "subs r2, #1",
    "bne 3b",
    "4: bx lr",
    "takt_function memcpy",
    "takt_function __aeabi_memcpy",
    "takt_function __aeabi_memcpy4",
    "takt_function __aeabi_memcpy8",
    "5: mov ip, r0",
    "subs r2, #4",
    "blo 7f",
    "6: ldr r3, [r1], #4",
    "str r3, [ip], #4",
    "subs r2, #4",
    "bhs 6b",
    "7: adds r2, #4",
    "beq 9f",
    "8: ldrb r3, [r1], #1",
    "strb r3, [ip], #1",
    "subs r2, #1",
    "bne 8b",
    "9: bx lr",
    "takt_function __aeabi_memclr",
    "takt_function __aeabi_memclr4",
    "takt_function __aeabi_memclr8",
    "movs r2, #0",
    "takt_function __aeabi_memset",
    "takt_function __aeabi_memset4",
    "takt_function __aeabi_memset8",
    // The value is the third argument here, and the second one of the library for C.
    "mov r3, r1",
    "mov r1, r2",
    "mov r2, r3",
    "takt_function memset",
    "and r1, r1, #255",
    "orr r1, r1, r1, lsl #8",
    "orr r1, r1, r1, lsl #16",
    "mov ip, r0",
    "subs r2, #4",
    "blo 7f",
    "6: str r1, [ip], #4",
    "subs r2, #4",
    "bhs 6b",
    "7: adds r2, #4",
    "beq 9f",
    "8: strb r1, [ip], #1",
    "subs r2, #1",
    "bne 8b",
    "9: bx lr",
    ".previous",
);

/// The addresses of the two calls that led to the caller of the panic handler, the inner one first. Thumb code keeps the chain of its frames in r7. An
/// address is zero where the chain has left the memory.
#[inline(always)]
pub(super) fn panicked_at() -> [u32; 2] {
    let mut frame: u32;
    // SAFETY: it reads a register.
    unsafe { asm!("mov {}, r7", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    let mut addresses = [0; 3];
    for address in &mut addresses {
        if !arena::holds(frame) {
            break;
        }
        // SAFETY: aligned words of the memory, which holds all stacks.
        let (next, back) =
            unsafe { ((frame as *const u32).read_volatile(), (frame as *const u32).add(1).read_volatile()) };
        // A call that never returns may be the last instruction of its function.
        *address = (back & !1).saturating_sub(2);
        // Older frames are further up.
        frame = if next > frame { next } else { 0 };
    }
    [addresses[1], addresses[2]]
}

fn now() -> Time {
    critical_section::with(|cs| SHARED.now(cs))
}

/// The task that runs; `None` for the idle thread.
fn current_task() -> Option<u32> {
    // SAFETY: words that PendSV writes, which does not run now.
    let (current, threads) = unsafe { (*PORT.current.get(), (&*PORT.stacks.get()).len()) };
    (current + 1 < threads).then_some(current as u32)
}

#[cfg(target_has_atomic = "32")]
/// A fault: it is noted for the kernel, and the thread does not continue. Returns the process stack pointer.
extern "C" fn fault(psp: u32, exc_return: u32) -> u32 {
    const FROM_PROCESS_STACK: u32 = 4;
    // Stacking failed, in the memory manager's part or the bus's.
    const NOT_STACKED: u32 = 1 << 4 | 1 << 12;
    // SAFETY: registers of the processor. The bits that are set are cleared by writing them.
    let (status, address) = unsafe {
        let status = CFSR.read_volatile();
        CFSR.write_volatile(status);
        let memory = status & 1 << 7 != 0;
        let bus = status & 1 << 15 != 0;
        let address = if memory {
            MMFAR.read_volatile()
        } else if bus {
            BFAR.read_volatile()
        } else {
            0
        };
        (status, address)
    };
    // SAFETY: words that PendSV writes, which does not run now.
    let (current, stacks) = unsafe { (*PORT.current.get(), &*PORT.stacks.get()) };
    let of_thread = exc_return & FROM_PROCESS_STACK != 0;
    let stack = stacks.get(current).copied().filter(|_| of_thread);
    let in_guard = |address: u32, stack: &Stack| (stack.base..stack.base + GUARD).contains(&address);
    let overflow = stack.is_some_and(|stack| status & 1 << 4 != 0 || status & 1 << 7 != 0 && in_guard(address, &stack));
    let cause = match status {
        _ if overflow => Cause::StackOverflow,
        status if status & 0xff != 0 => Cause::Memory,
        status if status & 0xff00 != 0 => Cause::Bus,
        _ => Cause::Usage,
    };
    let (mut pc, mut lr) = (0, 0);
    if of_thread && status & NOT_STACKED == 0 {
        // SAFETY: the words that the hardware stacked.
        unsafe {
            lr = (psp as *const u32).add(5).read_volatile();
            pc = (psp as *const u32).add(6).read_volatile();
        }
    }
    let task = current_task().filter(|_| of_thread);
    let fault = Fault { cause, task, pc, lr, detail: address, at: now() };
    if task.is_none() {
        SHARED.stop(&fault);
    }
    critical_section::with(|cs| SHARED.fault.borrow(cs).set(fault));
    restart(current, false);
    pend();
    // PendSV follows before the thread, which has a frame of its own then.
    stacks[current].pointer + 4 * SOFTWARE as u32
}
