//! Faults of threads: what is known about one when the kernel learns of it.

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
    /// A panic. Program counter and link register are the addresses of the two calls that led to it: one of them is in the program.
    Panic = 6,
    /// The RAM is too small; the detail is the number of bytes for which there was no room. It is found before the start.
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
    /// The address that could not be reached, or a number of bytes.
    pub detail: u32,
    /// When.
    pub at: Time,
}

impl Fault {
    /// Bytes of the longest text, with room to spare.
    const TEXT: usize = 128;

    /// Writes the fault as text for people into `room`, and returns the text in ASCII. It does without the formatting of the standard library, which takes
    /// kilobytes of flash.
    pub(crate) fn text<'r>(&self, room: &'r mut [u8; Fault::TEXT]) -> &'r [u8] {
        let mut text = Text { room, length: 0 };
        text.push("fault: ");
        text.push(self.cause.name());
        match self.task {
            Some(task) => {
                text.push(" in task ");
                text.number(task, 10);
            }
            None => text.push(" outside of tasks"),
        }
        text.push(", pc 0x");
        text.number(self.pc, 16);
        text.push(", lr 0x");
        text.number(self.lr, 16);
        text.push(", detail ");
        text.number(self.detail, 10);
        text.push(", at ");
        // The clock of a fault report wraps after 49 days.
        text.number((self.at.ns() / 1_000_000) as u32, 10);
        text.push(" ms");
        let Text { room, length } = text;
        room.get(..length).unwrap_or_default()
    }

    /// Room for [`Fault::text`].
    pub(crate) const fn room() -> [u8; Fault::TEXT] {
        [0; Fault::TEXT]
    }
}

/// A text that grows in place; what has no room is left out.
struct Text<'r> {
    room: &'r mut [u8; Fault::TEXT],
    length: usize,
}

impl Text<'_> {
    fn push(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
    }

    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.room.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn number(&mut self, number: u32, base: u32) {
        let mut digits = [0; 10];
        let (mut rest, mut count) = (number, 0);
        for digit in &mut digits {
            *digit = (rest % base) as u8;
            (rest, count) = (rest / base, count + 1);
            if rest == 0 {
                break;
            }
        }
        for digit in digits.iter().take(count).rev() {
            self.byte(if *digit < 10 { b'0' + digit } else { b'a' - 10 + digit });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_text_without_formatting() {
        let at = Time::from_ns(1_234_567_890);
        let fault = Fault { cause: Cause::Bus, task: Some(10), pc: 0x0800_12af, lr: 0, detail: u32::MAX, at };
        let expected = "fault: bus fault in task 10, pc 0x80012af, lr 0x0, detail 4294967295, at 1234 ms";
        assert_eq!(fault.text(&mut Fault::room()), expected.as_bytes());
        let worst =
            Fault { cause: Cause::Memory, task: None, pc: u32::MAX, lr: u32::MAX, detail: u32::MAX, at: Time::MAX };
        assert!(worst.text(&mut Fault::room()).ends_with(b" ms"), "the longest text has room");
    }
}
