//! The trace: messages in a ring that the kernel fills and the idle thread empties.

use crate::board::Board;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use takt_core::input::Input;
use takt_core::record::{Record, Sink};
use takt_core::time::Time;
use takt_core::wire::{Buffer, LONGEST, Message, put_message};

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

/// Bytes on their way to the board. One side writes them, and one reads them.
pub(crate) struct Ring {
    bytes: Box<[AtomicU8]>,
    written: AtomicU32,
    read: AtomicU32,
}

impl Ring {
    pub(crate) fn new(trace: Trace) -> Option<&'static Ring> {
        let bytes = (0..trace.bytes).map(|_| AtomicU8::new(0)).collect();
        let ring = Ring { bytes, written: AtomicU32::new(0), read: AtomicU32::new(0) };
        (trace.bytes > 0).then(|| &*Box::leak(Box::new(ring)))
    }

    fn place(&self, at: u32) -> Option<&AtomicU8> {
        self.bytes.get(at as usize & (self.bytes.len() - 1))
    }

    fn room(&self) -> usize {
        let (written, read) = (self.written.load(Ordering::Relaxed), self.read.load(Ordering::Acquire));
        self.bytes.len() - written.wrapping_sub(read) as usize
    }

    /// Takes bytes for which there is room.
    fn push(&self, bytes: &[u8]) {
        let written = self.written.load(Ordering::Relaxed);
        for (at, byte) in (0..).zip(bytes) {
            if let Some(place) = self.place(written.wrapping_add(at)) {
                place.store(*byte, Ordering::Relaxed);
            }
        }
        self.written.store(written.wrapping_add(bytes.len() as u32), Ordering::Release);
    }

    /// Hands bytes to the board, as many as it takes. Returns whether none are left.
    pub(crate) fn drain(&self, board: &dyn Board) -> bool {
        loop {
            let (read, written) = (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Acquire));
            if read == written {
                return true;
            }
            let byte = self.place(read).map_or(0, |place| place.load(Ordering::Relaxed));
            if !board.write(byte) {
                return false;
            }
            self.read.store(read.wrapping_add(1), Ordering::Release);
        }
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

/// Length, body and check.
const MOST: usize = LONGEST + 2;

impl Tracer {
    pub(crate) fn new(ring: Option<&'static Ring>, trace: Trace) -> Tracer {
        Tracer { ring, records: trace.records && ring.is_some(), base: Time::ZERO, dropped: 0 }
    }

    pub(crate) fn message(&mut self, message: &Message) {
        let Some(ring) = self.ring else { return };
        if self.dropped > 0 {
            let mut bytes: Buffer<MOST> = Buffer::default();
            put_message(&mut bytes, self.base, &Message::Dropped { count: self.dropped });
            if let Some(bytes) = bytes.bytes().filter(|bytes| bytes.len() + MOST <= ring.room()) {
                ring.push(bytes);
                self.dropped = 0;
            }
        }
        let mut bytes: Buffer<MOST> = Buffer::default();
        put_message(&mut bytes, self.base, message);
        match bytes.bytes() {
            Some(bytes) if bytes.len() <= ring.room() && self.dropped == 0 => ring.push(bytes),
            _ => self.dropped += 1,
        }
        if let Message::Step { now } | Message::Close { end: now } = message {
            self.base = *now;
        }
    }

    /// A step with its inputs, before the engine makes it.
    pub(crate) fn step(&mut self, first: &Message, inputs: &[Input]) {
        if !self.records {
            return;
        }
        self.message(first);
        inputs.iter().for_each(|input| self.message(&Message::Input(*input)));
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
        self.message(&Message::Record(record));
    }
    fn wants_records(&self) -> bool {
        self.records
    }
}
