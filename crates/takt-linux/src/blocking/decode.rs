//! Samples of the tracepoints of the kernel's scheduler as values. The kernel describes the data of a tracepoint in its file `format`.

use takt_core::time::Span;

/// Words of a sample that are read: the instant, the length of the data, the data.
pub(super) const WORDS: usize = 24;

/// A change of a thread's state. Of changes at one instant, the earlier one in this list came first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// It has been created by this thread, and is runnable.
    Begins {
        /// The thread that created it.
        by: i32,
    },
    /// It waits for something other than a CPU.
    Blocks,
    /// It is runnable.
    Wakes,
    /// It gets a CPU.
    Runs,
    /// It has ended.
    Ends,
}

/// A change of a thread, and its instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// On the monotonic clock.
    pub at: Span,
    /// The thread, by its number in the kernel's first PID namespace.
    pub thread: i32,
    /// Its change.
    pub change: Change,
}

/// Where an integer lies in the data of a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// By the description of a tracepoint: lines such as `field:pid_t prev_pid;  offset:24;  size:4;  signed:1;`.
    fn find(format: &str, name: &str) -> Option<Field> {
        let mut fields = format.lines().filter_map(|line| line.trim().strip_prefix("field:"));
        let line = fields.find(|line| {
            let declared = line.split(';').next().unwrap_or_default();
            declared.rsplit(' ').next() == Some(name)
        })?;
        let value = |key: &str| line.split(';').find_map(|part| part.trim().strip_prefix(key)?.parse().ok());
        Some(Field { offset: value("offset:")?, size: value("size:")? }).filter(|field| [4, 8].contains(&field.size))
    }

    fn read(self, data: &[u8]) -> Option<i64> {
        let bytes = data.get(self.offset..self.offset.checked_add(self.size)?)?;
        match self.size {
            4 => Some(i32::from_ne_bytes(bytes.try_into().ok()?).into()),
            _ => Some(i64::from_ne_bytes(bytes.try_into().ok()?)),
        }
    }
}

/// The numbers of the tracepoints, and their fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formats {
    switch: (u16, Field, Field),
    wakeup: (u16, Field),
    begin: (u16, Field, Field),
}

/// The states of a thread that has ended (`EXIT_DEAD`, `EXIT_ZOMBIE` in `include/linux/sched.h`).
const ENDED: i64 = 0x10 | 0x20;

impl Formats {
    /// By numbers and descriptions of `sched_switch`, `sched_wakeup` and `sched_wakeup_new`. `None` where a field is missing.
    pub(super) fn parse(all: [(u16, &str); 3]) -> Option<Formats> {
        let [(switch, switch_format), (wakeup, wakeup_format), (begin, begin_format)] = all;
        let (prev, state) = (Field::find(switch_format, "prev_pid")?, Field::find(switch_format, "prev_state")?);
        let by = Field::find(begin_format, "common_pid")?;
        Some(Formats {
            switch: (switch, prev, state),
            wakeup: (wakeup, Field::find(wakeup_format, "pid")?),
            begin: (begin, Field::find(begin_format, "pid")?, by),
        })
    }

    /// The numbers, in the order of [`Formats::parse`].
    pub(super) fn numbers(&self) -> [u16; 3] {
        [self.switch.0, self.wakeup.0, self.begin.0]
    }

    /// A sample: the instant, 32 bits with the length of the data, and the data, which begins with the number of the tracepoint. `None` for another one, and
    /// for one that is cut off.
    pub(super) fn decode(&self, sample: &[u64]) -> Option<Switch> {
        let (instant, rest) = sample.split_first()?;
        let mut bytes = [0; 8 * WORDS];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(rest) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        let bytes = &bytes[..8 * rest.len().min(WORDS)];
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
        let data = &bytes[4..];
        let data = &data[..data.len().min(length as usize)];
        let number = u16::from_ne_bytes(data.get(..2)?.try_into().ok()?);
        let pid = |field: Field| i32::try_from(field.read(data)?).ok();
        let at = Span::from_ns(i64::try_from(*instant).ok()?);
        let (thread, change) = if number == self.switch.0 {
            let ended = self.switch.2.read(data)? & ENDED != 0;
            (pid(self.switch.1)?, if ended { Change::Ends } else { Change::Blocks })
        } else if number == self.wakeup.0 {
            (pid(self.wakeup.1)?, Change::Wakes)
        } else if number == self.begin.0 {
            (pid(self.begin.1)?, Change::Begins { by: pid(self.begin.2)? })
        } else {
            return None;
        };
        Some(Switch { at, thread, change })
    }
}

/// The start of a thread at an instant. `None` for numbers out of range, and for the idle task.
pub(super) fn started(thread: u32, instant: u64) -> Option<Switch> {
    let thread = i32::try_from(thread).ok().filter(|thread| *thread > 0)?;
    Some(Switch { at: Span::from_ns(i64::try_from(instant).ok()?), thread, change: Change::Runs })
}

/// The inverse of [`Formats::decode`], for tests.
#[cfg(test)]
pub(super) mod encode {
    use super::*;

    /// The descriptions of Linux 6.18 on x86-64, without the fields of names' lengths.
    pub(crate) const FORMATS: [(u16, &str); 3] = [
        (
            320,
            "name: sched_switch\nID: 320\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n",
        ),
        (
            321,
            "name: sched_wakeup\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n",
        ),
        (
            322,
            "name: sched_wakeup_new\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
             \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n",
        ),
    ];

    /// A sample as the kernel writes it.
    pub(crate) fn encode(switch: &Switch) -> Vec<u64> {
        let mut data = vec![0u8; 64];
        let mut put = |offset: usize, bytes: &[u8]| data[offset..offset + bytes.len()].copy_from_slice(bytes);
        put(24, &switch.thread.to_ne_bytes());
        let number: u16 = match switch.change {
            Change::Blocks | Change::Ends => {
                let state: i64 = if switch.change == Change::Ends { 0x20 } else { 1 };
                put(32, &state.to_ne_bytes());
                320
            }
            Change::Runs => unreachable!("a start is no sample"),
            Change::Wakes => 321,
            Change::Begins { by } => {
                put(4, &by.to_ne_bytes());
                322
            }
        };
        put(0, &number.to_ne_bytes());
        let mut bytes = (data.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(data);
        bytes.extend([0; 4]);
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        std::iter::once(switch.at.ns() as u64).chain(words).collect()
    }
}
