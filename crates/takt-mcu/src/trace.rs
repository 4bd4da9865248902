//! The trace: messages in a ring that the kernel fills and the idle thread empties.

use crate::board::Board;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use takt_core::input::Input;
use takt_core::record::{Record, Sink};
use takt_core::time::Time;
use takt_core::wire::{LONGEST, Message, Output, check, put_body, put_input_message, put_record_message};

/// How the trace leaves the board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace {
    bytes: u32,
    records: bool,
}

impl Trace {
    /// No trace.
    pub const OFF: Trace = Trace { bytes: 0, records: false };

    /// No steps and no records, but faults, misuses, and the figures at the end: for measurements that the trace would disturb.
    pub const FIGURES: Trace = Trace { bytes: 1024, records: false };

    /// A ring of so many bytes, which the idle thread empties to the board ([`Board::write`]). It is rounded up to a power of two.
    /// A message that finds no room is counted.
    #[must_use]
    pub const fn ring(bytes: u32) -> Trace {
        Trace { bytes: if bytes == 0 { 0 } else { bytes.next_power_of_two() }, records: true }
    }
}

/// Messages on their way to the board, each with its length before it. One side writes them, and one reads them. The check of a message is
/// computed by the reader, whose time is no task's.
pub(crate) struct Ring {
    bytes: Box<[AtomicU8]>,
    written: AtomicU32,
    read: AtomicU32,
    /// Bytes of the message that the board has not taken, besides its check, and the check so far.
    left: AtomicU8,
    sum: AtomicU8,
}

impl Ring {
    pub(crate) fn new(trace: Trace) -> Option<&'static Ring> {
        let bytes = (0..trace.bytes).map(|_| AtomicU8::new(0)).collect();
        let ring = Ring {
            bytes,
            written: AtomicU32::new(0),
            read: AtomicU32::new(0),
            left: AtomicU8::new(0),
            sum: AtomicU8::new(0),
        };
        (trace.bytes > 0).then(|| &*Box::leak(Box::new(ring)))
    }

    #[inline(always)]
    fn place(&self, at: u32) -> Option<&AtomicU8> {
        self.bytes.get(at as usize & (self.bytes.len() - 1))
    }

    fn room(&self) -> u32 {
        let (written, read) = (self.written.load(Ordering::Relaxed), self.read.load(Ordering::Acquire));
        self.bytes.len() as u32 - written.wrapping_sub(read)
    }

    #[inline(always)]
    fn set(&self, at: u32, byte: u8) {
        if let Some(place) = self.place(at) {
            place.store(byte, Ordering::Relaxed);
        }
    }

    /// The place of the next message, if there is room for the longest one, so that no byte needs a check of its own.
    fn begin(&self) -> Option<Body<'_>> {
        let first = self.written.load(Ordering::Relaxed);
        (self.room() > LONGEST as u32).then(|| Body { ring: self, at: first.wrapping_add(1) })
    }

    /// Ends a message. No byte of it is seen before.
    fn end(&self, body: &Body<'_>) {
        let first = self.written.load(Ordering::Relaxed);
        // The length comes first, and is known last.
        self.set(first, (body.at.wrapping_sub(first) - 1) as u8);
        self.written.store(body.at, Ordering::Release);
    }

    /// Hands bytes to the board, as many as it takes. Returns whether none are left.
    pub(crate) fn drain(&self, board: &dyn Board) -> bool {
        const LAST: u8 = 0xff;
        loop {
            let (read, written) = (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Acquire));
            let (left, sum) = (self.left.load(Ordering::Relaxed), self.sum.load(Ordering::Relaxed));
            if left == 0 && read == written {
                return true;
            }
            let stored = self.place(read).map_or(0, |place| place.load(Ordering::Relaxed));
            // The check follows the last byte of a message; 0 is before its length.
            let (byte, length, left, sum) = match left {
                0 => (stored, 1, stored, 0),
                LAST => (sum, 0, 0, 0),
                left => (stored, 1, left - 1, check(sum, stored)),
            };
            let left = if left == 0 && length == 1 { LAST } else { left };
            // One step, so that no interrupt comes between the byte and its count. Under QEMU, a store to the UART at which an interrupt
            // came was seen to happen twice.
            let taken = critical_section::with(|_| {
                let taken = board.write(byte);
                if taken {
                    self.left.store(left, Ordering::Relaxed);
                    self.sum.store(sum, Ordering::Relaxed);
                    self.read.store(read.wrapping_add(length), Ordering::Release);
                }
                taken
            });
            if !taken {
                return false;
            }
        }
    }
}

/// The place in the ring of a message that is written.
struct Body<'a> {
    ring: &'a Ring,
    at: u32,
}

impl Output for Body<'_> {
    // Out of line: it has a hundred callers, and flash is short.
    #[inline(never)]
    fn put(&mut self, byte: u8) {
        self.ring.set(self.at, byte);
        self.at = self.at.wrapping_add(1);
    }

    #[inline(never)]
    fn unsigned(&mut self, number: u64) {
        let mut high = number;
        while high > u64::from(u32::MAX) {
            self.ring.set(self.at, high as u8 | 0x80);
            self.at = self.at.wrapping_add(1);
            high >>= 7;
        }
        // Most numbers are short, and shifts of one word are cheaper.
        let mut number = high as u32;
        while number >= 0x80 {
            self.ring.set(self.at, number as u8 | 0x80);
            self.at = self.at.wrapping_add(1);
            number >>= 7;
        }
        self.ring.set(self.at, number as u8);
        self.at = self.at.wrapping_add(1);
    }
}

/// Writes messages into the ring.
pub(crate) struct Tracer {
    ring: Option<&'static Ring>,
    /// Whether steps and their records are written.
    records: bool,
    /// The instant of the last step.
    base: Time,
    dropped: u64,
}

impl Tracer {
    pub(crate) fn new(ring: Option<&'static Ring>, trace: Trace) -> Tracer {
        Tracer { ring, records: trace.records && ring.is_some(), base: Time::ZERO, dropped: 0 }
    }

    pub(crate) fn message(&mut self, message: &Message) {
        let base = self.base;
        self.write(|body| put_body(body, base, message));
        if let Message::Step { now } | Message::Close { end: now } = message {
            self.base = *now;
        }
    }

    /// Writes a message, or counts it where there is no room.
    fn write(&mut self, put: impl FnOnce(&mut Body<'_>)) {
        let Some(ring) = self.ring else { return };
        if self.dropped > 0 && !self.report_dropped(ring) {
            self.dropped += 1;
            return;
        }
        match ring.begin() {
            Some(mut body) => {
                put(&mut body);
                ring.end(&body);
            }
            None => self.dropped += 1,
        }
    }

    #[cold]
    fn report_dropped(&mut self, ring: &Ring) -> bool {
        let Some(mut body) = ring.begin() else { return false };
        put_body(&mut body, self.base, &Message::Dropped { count: self.dropped });
        ring.end(&body);
        self.dropped = 0;
        true
    }

    /// A step with its inputs, before the engine makes it.
    pub(crate) fn step(&mut self, first: &Message, inputs: &[Input]) {
        if !self.records {
            return;
        }
        self.message(first);
        for input in inputs {
            self.write(|body| put_input_message(body, input));
        }
    }

    /// Hands everything to the board, and waits for it.
    pub(crate) fn finish(&mut self, board: &dyn Board) {
        if let Some(ring) = self.ring {
            while !ring.drain(board) {}
        }
    }
}

impl Sink for Tracer {
    fn record(&mut self, record: Record) {
        let base = self.base;
        self.write(|body| put_record_message(body, base, &record));
    }
    fn wants_records(&self) -> bool {
        self.records
    }
}
