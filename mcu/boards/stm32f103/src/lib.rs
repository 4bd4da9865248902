//! A board with an STM32F103C8 and a crystal of 8 MHz, such as the "blue pill". It is built and has never run: no such board was there.
//!
//! The processor runs at 72 MHz. The clock is TIM2 with TIM3 as its upper half, at 8 MHz, so that a tick is a whole number of nanoseconds. Their
//! compare units are the alarm, and TIM4 is the program's. The trace leaves by USART1 (PA9, 921,600 baud), and text for people by USART2
//! (PA2, 115,200 baud). The registers are those of STMicroelectronics RM0008, chapters 3, 7, 9, 15 and 27.
#![no_std]

use core::sync::atomic::{AtomicU32, Ordering};
use takt_mcu::{Board, Ending};

pub use cortex_m_rt::{entry, interrupt};

const TIM2: *mut u32 = 0x4000_0000 as *mut u32;
const TIM3: *mut u32 = 0x4000_0400 as *mut u32;
const TIM4: *mut u32 = 0x4000_0800 as *mut u32;
const USART2: *mut u32 = 0x4000_4400 as *mut u32;
const GPIOA: *mut u32 = 0x4001_0800 as *mut u32;
const USART1: *mut u32 = 0x4001_3800 as *mut u32;
const RCC: *mut u32 = 0x4002_1000 as *mut u32;
const FLASH: *mut u32 = 0x4002_2000 as *mut u32;
/// The NVIC's registers that enable interrupts, and that make them pending.
const ENABLE: *mut u32 = 0xE000_E100 as *mut u32;
const PENDING: *mut u32 = 0xE000_E200 as *mut u32;

/// Ticks of the clock in a second.
const FREQUENCY: u32 = 8_000_000;
/// Cycles of the processor in a tick.
const CYCLES: u32 = 9;
/// Nanoseconds of one pass of the loop in [`burn`], which takes about four cycles.
const PASS: u32 = 55;

/// Registers of a timer, by words.
mod timer_register {
    pub(crate) const CONTROL: usize = 0;
    pub(crate) const CONTROL_2: usize = 1;
    pub(crate) const SLAVE_MODE: usize = 2;
    pub(crate) const INTERRUPTS: usize = 3;
    pub(crate) const STATUS: usize = 4;
    pub(crate) const EVENTS: usize = 5;
    pub(crate) const COUNTER: usize = 9;
    pub(crate) const PRESCALER: usize = 10;
    pub(crate) const RELOAD: usize = 11;
    pub(crate) const COMPARE: usize = 13;
}
use timer_register::{COMPARE, CONTROL, CONTROL_2, COUNTER, EVENTS, INTERRUPTS, PRESCALER, RELOAD, SLAVE_MODE, STATUS};

/// The interrupt of a timer's first compare unit.
const COMPARED: u32 = 1 << 1;

/// The board.
#[derive(Debug)]
pub struct Stm32f103(());

static BOARD: Stm32f103 = Stm32f103(());

/// The tick of the alarm.
static TARGET: AtomicU32 = AtomicU32::new(0);

fn write(register: *mut u32, index: usize, value: u32) {
    // SAFETY: the registers of the board, which the functions here name.
    unsafe { register.add(index).write_volatile(value) }
}

fn read(register: *mut u32, index: usize) -> u32 {
    // SAFETY: as in `write`.
    unsafe { register.add(index).read_volatile() }
}

/// Waits until these bits of a register are set.
fn await_bits(register: *mut u32, index: usize, bits: u32) {
    while read(register, index) & bits != bits {}
}

/// The board, ready for the kernel.
pub fn board() -> &'static Stm32f103 {
    clocks();
    // PA9 and PA2 are driven by the USARTs.
    write(GPIOA, 1, read(GPIOA, 1) & !(0xf << 4) | 0xb << 4);
    write(GPIOA, 0, read(GPIOA, 0) & !(0xf << 8) | 0xb << 8);
    for (usart, divider) in [(USART1, 78), (USART2, 312)] {
        write(usart, 2, divider);
        // On, as a transmitter.
        write(usart, 3, 1 << 13 | 1 << 3);
    }
    // TIM2 tells TIM3 when it wraps around.
    write(TIM2, CONTROL_2, 0b010 << 4);
    write(TIM2, PRESCALER, CYCLES - 1);
    // TIM3 counts what its trigger 1, which is TIM2, tells it.
    write(TIM3, SLAVE_MODE, 0b001 << 4 | 0b111);
    for timer in [TIM3, TIM2] {
        write(timer, RELOAD, 0xffff);
    }
    // The prescaler holds from the next update on. It is the one wrap of TIM2 that TIM3 must not count.
    write(TIM2, EVENTS, 1);
    write(TIM3, COUNTER, 0);
    for timer in [TIM3, TIM2] {
        write(timer, STATUS, 0);
        write(timer, CONTROL, 1);
    }
    write(ENABLE, 0, 1 << Interrupt::TIM2 as u32 | 1 << Interrupt::TIM3 as u32);
    &BOARD
}

/// 72 MHz from the crystal, half of it for the first peripheral bus, and clocks for the peripherals used here.
fn clocks() {
    const CRYSTAL: u32 = 1 << 16;
    const PLL: u32 = 1 << 24;
    write(RCC, 0, read(RCC, 0) | CRYSTAL);
    await_bits(RCC, 0, CRYSTAL << 1);
    // Two wait states and the prefetch buffer.
    write(FLASH, 0, 1 << 4 | 2);
    // Nine times the crystal; the first bus has half of that.
    let configuration = 0b0111 << 18 | 1 << 16 | 0b100 << 8;
    write(RCC, 1, configuration);
    write(RCC, 0, read(RCC, 0) | PLL);
    await_bits(RCC, 0, PLL << 1);
    write(RCC, 1, configuration | 0b10);
    await_bits(RCC, 1, 0b10 << 2);
    // Port A, alternate functions and USART1; TIM2 to TIM4 and USART2.
    write(RCC, 6, read(RCC, 6) | 1 << 14 | 1 << 2 | 1);
    write(RCC, 7, read(RCC, 7) | 1 << 17 | 0b111);
}

impl Board for Stm32f103 {
    #[inline]
    fn ticks(&self) -> u32 {
        ticks()
    }
    fn frequency(&self) -> u32 {
        FREQUENCY
    }
    fn alarm(&self, ticks: u32) {
        disarm();
        TARGET.store(self::ticks().wrapping_add(ticks), Ordering::Relaxed);
        arm();
    }
    fn write(&self, byte: u8) -> bool {
        let empty = read(USART1, 0) & 1 << 7 != 0;
        if empty {
            write(USART1, 1, byte.into());
        }
        empty
    }
    fn report(&self, text: &[u8]) {
        for byte in text.iter().copied().chain(*b"\r\n") {
            await_bits(USART2, 0, 1 << 7);
            write(USART2, 1, byte.into());
        }
    }
    fn end(&self, _: Ending) -> ! {
        disarm();
        write(TIM4, CONTROL, 0);
        loop {
            core::hint::spin_loop();
        }
    }
}

/// The board's clock, as the kernel reads it.
#[inline]
pub fn ticks() -> u32 {
    loop {
        let (high, low, again) = (read(TIM3, COUNTER), read(TIM2, COUNTER), read(TIM3, COUNTER));
        // TIM3 follows some cycles after TIM2 has wrapped to zero.
        if high == again && low != 0 {
            return high << 16 | low;
        }
    }
}

fn disarm() {
    for timer in [TIM2, TIM3] {
        write(timer, INTERRUPTS, 0);
        write(timer, STATUS, 0);
    }
}

/// Ticks until the alarm; `None` if it is due.
fn left() -> Option<u32> {
    // An alarm is 2^31 ticks away at most, so that the upper half of all distances is behind it.
    let left = TARGET.load(Ordering::Relaxed).wrapping_sub(ticks());
    (1..=1 << 31).contains(&left).then_some(left)
}

/// Lets the lower half of the clock reach the target, or the upper half first.
fn arm() {
    let target = TARGET.load(Ordering::Relaxed);
    match left() {
        Some(left) if left <= 0xffff => {
            write(TIM2, COMPARE, target & 0xffff);
            write(TIM2, STATUS, !COMPARED);
            write(TIM2, INTERRUPTS, COMPARED);
        }
        Some(_) => {
            write(TIM3, COMPARE, target >> 16);
            write(TIM3, STATUS, !COMPARED);
            write(TIM3, INTERRUPTS, COMPARED);
        }
        None => {}
    }
    // The instant may have passed before the compare unit saw it.
    let reached = read(TIM3, INTERRUPTS) != 0 && read(TIM3, COUNTER) == target >> 16;
    if left().is_none() || reached {
        write(PENDING, 0, 1 << Interrupt::TIM2 as u32);
    }
}

/// A compare unit has seen its half of the target.
fn compared() {
    disarm();
    match left() {
        Some(_) => arm(),
        None => takt_mcu::alarm(),
    }
}

#[cortex_m_rt::interrupt]
fn TIM2() {
    compared();
}

#[cortex_m_rt::interrupt]
fn TIM3() {
    compared();
}

/// Lets [`Interrupt::TIM4`] come every `nanoseconds`, or never with zero; at most 65 ms. Its handler calls [`acknowledge`].
pub fn timer(nanoseconds: u32) {
    let microseconds = (nanoseconds / 1000).min(1 << 16);
    write(TIM4, CONTROL, 0);
    write(TIM4, PRESCALER, 71);
    write(TIM4, RELOAD, microseconds.saturating_sub(1));
    write(TIM4, EVENTS, 1);
    write(TIM4, STATUS, 0);
    write(TIM4, INTERRUPTS, 1);
    write(ENABLE, 0, 1 << Interrupt::TIM4 as u32);
    write(TIM4, CONTROL, u32::from(microseconds > 0));
}

/// Ends the request of [`Interrupt::TIM4`].
pub fn acknowledge() {
    write(TIM4, STATUS, 0);
}

/// Uses about so much CPU time.
#[inline(never)]
pub fn burn(nanoseconds: u32) {
    let passes = nanoseconds / PASS;
    if passes > 0 {
        // SAFETY: it counts a register down.
        unsafe { core::arch::asm!("2: subs {0}, #1", "bne 2b", inout(reg) passes => _, options(nomem, nostack)) };
    }
}

/// Interrupts with their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Interrupt {
    /// The lower half of the clock, and the alarm of the kernel.
    TIM2 = 28,
    /// The upper half of the clock.
    TIM3 = 29,
    /// The program's own.
    TIM4 = 30,
}

pub use Interrupt as interrupt;

unsafe extern "C" {
    fn DefaultHandler();
    #[link_name = "TIM2"]
    fn tim2();
    #[link_name = "TIM3"]
    fn tim3();
    #[link_name = "TIM4"]
    fn tim4();
}

/// The part of the vector table that a board defines.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
pub static __INTERRUPTS: [unsafe extern "C" fn(); 43] = {
    let mut all: [unsafe extern "C" fn(); 43] = [DefaultHandler; 43];
    all[Interrupt::TIM2 as usize] = tim2;
    all[Interrupt::TIM3 as usize] = tim3;
    all[Interrupt::TIM4 as usize] = tim4;
    all
};
