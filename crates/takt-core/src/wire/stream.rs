//! The messages of a stream, in which a kernel on another processor reports its run.
//!
//! A message is its length in one byte, its bytes, and a check byte. A [`Message::Step`] is followed by its inputs and then by the records
//! of that step, so that the stream is a trace and a record for a replay at once.

use super::bytes::{Buffer, Output, Reader, VERSION};
use super::events::{get_input, get_record, put_input, put_record};
use crate::input::Input;
use crate::record::Record;
use crate::time::Time;

/// The most bytes of a message, without its length and its check.
pub const LONGEST: usize = 80;

/// The first bytes of a stream.
const MAGIC: [u8; 4] = *b"TAKT";

/// A figure that a kernel reports of itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FigureKind {
    /// Bytes of memory that were allocated before the start.
    Arena,
    /// Allocations after the start.
    LateAllocations,
    /// Bytes of the handlers' stack that were used.
    HandlerStack,
    /// Bytes of a thread's stack that were used; the index is the task, the number of tasks for the idle thread.
    Stack,
    /// CPU time of a task in nanoseconds; the index is the task.
    CpuTime,
    /// Notes of a task that found the same note already there; the index is the task.
    Merged,
    /// Entries into the kernel, and those of them in which the engine made a step.
    Entries,
    /// Steps of the engine.
    Steps,
    /// Ticks of entries in which the engine made a step, in all. The index is the kind of the step: 0 releases, 1 ends of jobs, 2 others. The
    /// same entries are counted once more if a task runs afterwards: 3 the task that ran last, 4 another task.
    StepTicks,
    /// The most ticks of one such entry; the index as before.
    StepMost,
    /// How many steps of this kind there were; the index as before.
    StepCount,
    /// Misuses of the interface that were refused.
    Misuses,
    /// A figure of the application; the index is its choice.
    Own,
    /// Ticks of an entry that the ones above leave out: the call, the exception, and the registers of the thread.
    Outside,
}

impl FigureKind {
    /// All of them, by number.
    pub const ALL: [FigureKind; 14] = [
        FigureKind::Arena,
        FigureKind::LateAllocations,
        FigureKind::HandlerStack,
        FigureKind::Stack,
        FigureKind::CpuTime,
        FigureKind::Merged,
        FigureKind::Entries,
        FigureKind::Steps,
        FigureKind::StepTicks,
        FigureKind::StepMost,
        FigureKind::StepCount,
        FigureKind::Misuses,
        FigureKind::Own,
        FigureKind::Outside,
    ];
}

/// A figure with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Its kind.
    pub kind: FigureKind,
    /// Which of several.
    pub index: u32,
    /// Its value.
    pub value: u64,
}

/// One message of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The first one: the table's hash ([`super::hash`]), and the length of a tick as a fraction of nanoseconds.
    Header {
        /// Hash of the table's bytes.
        table: u64,
        /// Nanoseconds of so many ticks.
        nanoseconds: u32,
        /// How many ticks these are.
        ticks: u32,
    },
    /// A step of the engine.
    Step {
        /// The instant handed to the engine.
        now: Time,
    },
    /// An input of the last step.
    Input(Input),
    /// A record of the last step.
    Record(Record),
    /// Messages that found no room.
    Dropped {
        /// How many.
        count: u64,
    },
    /// A call that was refused; nothing changed.
    Misuse {
        /// The task that called.
        task: u32,
        /// The kind of the error, as the kernel numbers them.
        error: u8,
    },
    /// A task stopped by a fault, a panic or the overflow of its stack.
    Fault {
        /// The task; `None` for the idle thread and for interrupts.
        task: Option<u32>,
        /// The kind of the fault, as the kernel numbers them.
        cause: u8,
        /// Program counter.
        pc: u32,
        /// Link register.
        lr: u32,
        /// The address that could not be reached, or the line of a panic.
        detail: u32,
        /// When.
        at: Time,
    },
    /// A figure about the run.
    Figure(Figure),
    /// The run has been closed at this instant. The inputs that follow are those of the close, and then its records.
    Close {
        /// The instant.
        end: Time,
    },
    /// The last message.
    End,
}

/// Adds a byte to the check of a message, which begins with zero.
#[must_use]
#[inline]
pub const fn check(sum: u8, byte: u8) -> u8 {
    sum.rotate_left(1).wrapping_add(byte) ^ 0x5a
}

/// Writes the bytes of a message, without its length and its check, at most [`LONGEST`]; `base` is the instant of the last step.
pub fn put_body(body: &mut impl Output, base: Time, message: &Message) {
    match *message {
        Message::Header { table, nanoseconds, ticks } => {
            body.put(0);
            MAGIC.into_iter().for_each(|byte| body.put(byte));
            body.unsigned(VERSION);
            body.unsigned(table);
            body.unsigned(u64::from(nanoseconds));
            body.unsigned(u64::from(ticks));
        }
        Message::Step { now } => {
            body.put(1);
            body.signed((now - base).ns());
        }
        Message::Input(ref input) => put_input_message(body, input),
        Message::Record(ref record) => put_record_message(body, base, record),
        Message::Dropped { count } => {
            body.put(4);
            body.unsigned(count);
        }
        Message::Misuse { task, error } => {
            body.put(5);
            body.unsigned(u64::from(task));
            body.put(error);
        }
        Message::Fault { task, cause, pc, lr, detail, at } => {
            body.put(6);
            body.maybe(task.map(i64::from));
            body.put(cause);
            [pc, lr, detail].into_iter().for_each(|word| body.unsigned(u64::from(word)));
            body.signed(at.ns());
        }
        Message::Figure(Figure { kind, index, value }) => {
            body.put(7);
            body.put(kind as u8);
            body.unsigned(u64::from(index));
            body.unsigned(value);
        }
        Message::Close { end } => {
            body.put(8);
            body.signed((end - base).ns());
        }
        Message::End => body.put(9),
    }
}

/// As [`put_body`] of a [`Message::Input`], without a copy of the input.
pub fn put_input_message(body: &mut impl Output, input: &Input) {
    body.put(2);
    put_input(body, input);
}

/// As [`put_body`] of a [`Message::Record`], without a copy of the record.
pub fn put_record_message(body: &mut impl Output, base: Time, record: &Record) {
    body.put(3);
    put_record(body, base, record);
}

/// Writes a message with its length and its check; `base` is the instant of the last step.
pub fn put_message(out: &mut impl Output, base: Time, message: &Message) {
    let mut body: Buffer<LONGEST> = Buffer::default();
    put_body(&mut body, base, message);
    let Some(bytes) = body.bytes() else { return };
    out.put(bytes.len() as u8);
    let mut sum = 0;
    for &byte in bytes {
        out.put(byte);
        sum = check(sum, byte);
    }
    out.put(sum);
}

/// Why a stream cannot be read further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The stream ends within a message.
    CutOff,
    /// The bytes of a message do not have its check.
    Check,
    /// The bytes of a message are none of this version.
    Unknown,
}

/// Reads the next message, `None` at the end. `base` is the instant of the last step; it becomes that of the message if it is a step.
///
/// # Errors
/// Why there is no message. The reader stays before it.
pub fn next_message(reader: &mut Reader<'_>, base: &mut Time) -> Result<Option<Message>, Damage> {
    if reader.is_at_end() {
        return Ok(None);
    }
    let before = *reader;
    let found = read_message(reader, base);
    if found.is_err() {
        *reader = before;
    }
    found.map(Some)
}

fn read_message(reader: &mut Reader<'_>, base: &mut Time) -> Result<Message, Damage> {
    let length = reader.byte().ok_or(Damage::CutOff)?;
    if usize::from(length) > LONGEST {
        return Err(Damage::Check);
    }
    let mut body = [0; LONGEST];
    let body = &mut body[..usize::from(length)];
    let mut sum = 0;
    for byte in &mut *body {
        *byte = reader.byte().ok_or(Damage::CutOff)?;
        sum = check(sum, *byte);
    }
    if reader.byte().ok_or(Damage::CutOff)? != sum {
        return Err(Damage::Check);
    }
    let mut inner = Reader::new(body);
    let message = decode(&mut inner, *base).filter(|_| inner.is_at_end()).ok_or(Damage::Unknown)?;
    if let Message::Step { now: at } | Message::Close { end: at } = message {
        *base = at;
    }
    Ok(message)
}

fn decode(reader: &mut Reader<'_>, base: Time) -> Option<Message> {
    let later = |by: i64| Some(Time::from_ns(base.ns().checked_add(by)?));
    Some(match reader.byte()? {
        0 => {
            for byte in MAGIC {
                (reader.byte()? == byte).then_some(())?;
            }
            (reader.unsigned()? == VERSION).then_some(())?;
            let (table, nanoseconds, ticks) = (reader.unsigned()?, reader.small()?, reader.small()?);
            Message::Header { table, nanoseconds, ticks }
        }
        1 => Message::Step { now: later(reader.signed()?)? },
        2 => Message::Input(get_input(reader)?),
        3 => Message::Record(get_record(reader, base)?),
        4 => Message::Dropped { count: reader.unsigned()? },
        5 => Message::Misuse { task: reader.small()?, error: reader.byte()? },
        6 => {
            let task = match reader.maybe()? {
                Some(task) => Some(u32::try_from(task).ok()?),
                None => None,
            };
            let cause = reader.byte()?;
            let (pc, lr, detail) = (reader.small()?, reader.small()?, reader.small()?);
            Message::Fault { task, cause, pc, lr, detail, at: Time::from_ns(reader.signed()?) }
        }
        7 => {
            let kind = *FigureKind::ALL.get(usize::from(reader.byte()?))?;
            Message::Figure(Figure { kind, index: reader.small()?, value: reader.unsigned()? })
        }
        8 => Message::Close { end: later(reader.signed()?)? },
        9 => Message::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TaskId;
    use crate::record::{JobId, RecordKind};
    use alloc::vec::Vec;

    fn messages() -> Vec<Message> {
        let (task, job): (TaskId, JobId) = (TaskId(1), 7);
        Vec::from([
            Message::Header { table: u64::MAX, nanoseconds: 125, ticks: 9 },
            Message::Step { now: Time::from_ns(5_000) },
            Message::Input(Input::Complete { task, job }),
            Message::Record(Record { at: Time::from_ns(5_000), kind: RecordKind::Wake { task, job } }),
            Message::Dropped { count: 3 },
            Message::Misuse { task: 2, error: 4 },
            Message::Fault { task: Some(1), cause: 2, pc: u32::MAX, lr: 1, detail: 9, at: Time::from_ns(6_000) },
            Message::Figure(Figure { kind: FigureKind::Own, index: 3, value: 1 << 40 }),
            Message::Close { end: Time::from_ns(9_000) },
            Message::End,
        ])
    }

    fn stream() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut base, mut starts) = (Vec::new(), Time::ZERO, Vec::new());
        for message in messages() {
            starts.push(bytes.len());
            put_message(&mut bytes, base, &message);
            if let Message::Step { now } | Message::Close { end: now } = message {
                base = now;
            }
        }
        (bytes, starts)
    }

    /// The messages before the damage, and the damage with its place.
    fn read(bytes: &[u8]) -> (Vec<Message>, Option<(usize, Damage)>) {
        let (mut reader, mut base, mut found) = (Reader::new(bytes), Time::ZERO, Vec::new());
        loop {
            match next_message(&mut reader, &mut base) {
                Ok(Some(message)) => found.push(message),
                Ok(None) => return (found, None),
                Err(why) => return (found, Some((reader.at(), why))),
            }
        }
    }

    #[test]
    fn messages_survive() {
        assert_eq!(read(&stream().0), (messages(), None));
    }

    #[test]
    fn a_stream_that_is_cut_off_keeps_what_came_before() {
        let (bytes, starts) = stream();
        for length in 0..bytes.len() {
            let whole = starts.iter().skip(1).filter(|start| **start <= length).count();
            let at = starts[whole];
            let (found, damage) = read(&bytes[..length]);
            assert_eq!(found, messages()[..whole]);
            assert_eq!(damage, (at < length).then_some((at, Damage::CutOff)), "{length}");
        }
    }

    #[test]
    fn a_flipped_bit_is_found_in_its_message() {
        let (bytes, starts) = stream();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let (found, damage) = read(&damaged);
                let message = starts.iter().filter(|start| **start <= at).count() - 1;
                assert_eq!(found, messages()[..message], "bit {bit} of byte {at}");
                assert!(damage.is_some_and(|(place, _)| place == starts[message]), "bit {bit} of byte {at}");
            }
        }
    }
}
