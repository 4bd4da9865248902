//! Faults of threads: what is known about one when the kernel learns of it.

use core::fmt;
use takt_core::time::Time;

/// The kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cause {
    /// The stack of a thread reached its guard.
    StackOverflow = 1,
    /// The MPU refused an access.
    Memory = 2,
    /// The bus refused an access.
    Bus = 3,
    /// An undefined instruction, a division by zero, or an unaligned access.
    Usage = 4,
    /// A fault within the handler of a fault.
    Hard = 5,
    /// A panic; the detail is the line.
    Panic = 6,
    /// Memory was exhausted; the detail is the number of bytes that were asked for.
    OutOfMemory = 7,
    /// The table, or what the program gave for it, cannot be scheduled.
    Table = 8,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 8] = [
        Cause::StackOverflow,
        Cause::Memory,
        Cause::Bus,
        Cause::Usage,
        Cause::Hard,
        Cause::Panic,
        Cause::OutOfMemory,
        Cause::Table,
    ];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::StackOverflow => "stack overflow",
            Cause::Memory => "memory protection fault",
            Cause::Bus => "bus fault",
            Cause::Usage => "usage fault",
            Cause::Hard => "hard fault",
            Cause::Panic => "panic",
            Cause::OutOfMemory => "out of memory",
            Cause::Table => "unsuitable table",
        }
    }

    /// The cause with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| *cause as u8 == number)
    }
}

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its kind.
    pub cause: Cause,
    /// The task that ran; `None` for the idle thread, for interrupts, and before the start.
    pub task: Option<u32>,
    /// Program counter.
    pub pc: u32,
    /// Link register.
    pub lr: u32,
    /// The address that could not be reached, the line of a panic, or a number of bytes.
    pub detail: u32,
    /// When.
    pub at: Time,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fault: ")?;
        f.write_str(self.cause.name())?;
        match self.task {
            Some(task) => write!(f, " in task {task}")?,
            None => f.write_str(" outside of tasks")?,
        }
        let us = self.at.ns() / 1000;
        write!(f, ", pc {:#x}, lr {:#x}, detail {}, at {us} us", self.pc, self.lr, self.detail)
    }
}
