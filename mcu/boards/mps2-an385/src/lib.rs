//! Arm's MPS2 with a Cortex-M3 (application note AN385), as QEMU emulates it: `qemu-system-arm -M mps2-an385`.
//!
//! The clock is the first of the two free-running counters of the CMSDK's dual timer, at 25 MHz. The alarm is timer 0, and timer 1 is
//! the program's. The trace leaves by UART 0. The registers are those of the Cortex-M System Design Kit (Arm DDI 0479), chapter 4.
//! With `-icount shift=5` QEMU counts 32 ns for an instruction.
#![no_std]

use cortex_m_semihosting::{debug, hio};
use takt_mcu::{Board, Ending};

pub use cortex_m_rt::{entry, interrupt};

const TIMER0: *mut u32 = 0x4000_0000 as *mut u32;
const TIMER1: *mut u32 = 0x4000_1000 as *mut u32;
const DUAL: *mut u32 = 0x4000_2000 as *mut u32;
const UART0: *mut u32 = 0x4000_4000 as *mut u32;
/// The NVIC's register that enables interrupts.
const ENABLE: *mut u32 = 0xE000_E100 as *mut u32;

/// Ticks in a second.
const FREQUENCY: u32 = 25_000_000;
/// Nanoseconds of one pass of the loop in [`burn`], which is two instructions.
const PASS: u32 = 64;

/// The board.
#[derive(Debug)]
pub struct Mps2(());

static BOARD: Mps2 = Mps2(());

fn write(register: *mut u32, index: usize, value: u32) {
    // SAFETY: the registers of the board, which the functions here name.
    unsafe { register.add(index).write_volatile(value) }
}

fn read(register: *mut u32, index: usize) -> u32 {
    // SAFETY: as in `write`.
    unsafe { register.add(index).read_volatile() }
}

/// The board, ready for the kernel.
pub fn board() -> &'static Mps2 {
    // Free-running with 32 bits.
    write(DUAL, 0, u32::MAX);
    write(DUAL, 2, 1 << 7 | 1 << 1);
    // The transmitter is on, at the fastest rate.
    write(UART0, 4, 16);
    write(UART0, 2, 1);
    write(ENABLE, 0, 1 << Interrupt::TIMER0 as u32);
    &BOARD
}

impl Board for Mps2 {
    #[inline]
    fn ticks(&self) -> u32 {
        ticks()
    }
    fn frequency(&self) -> u32 {
        FREQUENCY
    }
    fn alarm(&self, ticks: u32) {
        write(TIMER0, 0, 0);
        write(TIMER0, 2, 0);
        write(TIMER0, 1, ticks);
        write(TIMER0, 0, 1 << 3 | 1);
    }
    fn write(&self, byte: u8) -> bool {
        let full = read(UART0, 1) & 1 != 0;
        if !full {
            write(UART0, 0, byte.into());
        }
        !full
    }
    fn report(&self, text: &[u8]) {
        if let Ok(mut out) = hio::hstdout() {
            let _ = out.write_all(text);
            let _ = out.write_all(b"\n");
        }
    }
    fn end(&self, ending: Ending) -> ! {
        debug::exit(match ending {
            Ending::Completed => debug::EXIT_SUCCESS,
            Ending::Failed => debug::EXIT_FAILURE,
        });
        loop {
            core::hint::spin_loop();
        }
    }
}

/// Lets [`Interrupt::TIMER1`] come every `nanoseconds`, or never with zero. Its handler calls [`acknowledge`].
pub fn timer(nanoseconds: u32) {
    let ticks = nanoseconds / (1_000_000_000 / FREQUENCY);
    write(TIMER1, 0, 0);
    // The counter reloads when it has reached zero, which is a tick, too.
    write(TIMER1, 2, ticks.saturating_sub(1));
    write(TIMER1, 1, ticks.saturating_sub(1));
    write(ENABLE, 0, 1 << Interrupt::TIMER1 as u32);
    write(TIMER1, 0, if ticks > 0 { 1 << 3 | 1 } else { 0 });
}

/// Ends the request of [`Interrupt::TIMER1`].
pub fn acknowledge() {
    write(TIMER1, 3, 1);
}

/// The board's clock, as the kernel reads it.
#[inline]
pub fn ticks() -> u32 {
    // The counter counts down.
    !read(DUAL, 1)
}

/// Ticks since the last expiry of timer 1.
pub fn since_timer() -> u32 {
    read(TIMER1, 2).wrapping_sub(read(TIMER1, 1))
}

/// Uses so much CPU time.
#[inline(never)]
pub fn burn(nanoseconds: u32) {
    let passes = nanoseconds / PASS;
    if passes > 0 {
        // SAFETY: it counts a register down.
        unsafe { core::arch::asm!("2: subs {0}, #1", "bne 2b", inout(reg) passes => _, options(nomem, nostack)) };
    }
}

/// The alarm.
#[cortex_m_rt::interrupt]
fn TIMER0() {
    write(TIMER0, 3, 1);
    write(TIMER0, 0, 0);
    takt_mcu::alarm();
}

/// Interrupts with their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
#[allow(non_camel_case_types)]
pub enum Interrupt {
    /// The alarm of the kernel.
    TIMER0 = 8,
    /// The program's own.
    TIMER1 = 9,
}

pub use Interrupt as interrupt;

unsafe extern "C" {
    fn DefaultHandler();
    #[link_name = "TIMER0"]
    fn timer0();
    #[link_name = "TIMER1"]
    fn timer1();
}

/// The part of the vector table that a board defines.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
pub static __INTERRUPTS: [unsafe extern "C" fn(); 32] = {
    let mut all: [unsafe extern "C" fn(); 32] = [DefaultHandler; 32];
    all[Interrupt::TIMER0 as usize] = timer0;
    all[Interrupt::TIMER1 as usize] = timer1;
    all
};
