//! Boards as the kernel sees them.

/// How the kernel stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The duration of the table is over.
    Completed,
    /// A fault, a panic, or too little memory.
    Failed,
}

/// A board: a clock, an alarm, an output for the trace, and an end.
///
/// The interrupt of the alarm calls [`alarm`](crate::alarm). Its priority, and that of all interrupts that call the kernel, is above
/// that of PendSV, which the kernel sets to the lowest.
pub trait Board: Sync {
    /// A free-running counter of 32 bits that counts upwards and wraps around. It never stops.
    fn ticks(&self) -> u32;
    /// Ticks of the counter in a second.
    fn frequency(&self) -> u32;
    /// Sets the alarm to so many ticks from now, from 1 to 2^31, in place of an earlier one.
    fn alarm(&self, ticks: u32);
    /// Takes a byte of the trace; false if it cannot take one now.
    fn write(&self, byte: u8) -> bool;
    /// Reports a line of ASCII text for people, such as a fault.
    fn report(&self, text: &[u8]);
    /// Ends the program, or halts.
    fn end(&self, ending: Ending) -> !;
}
