//! Protobuf's wire format, and the numbers and names that the trace uses of Perfetto's messages.

/// Interned names of annotations.
pub(super) mod key {
    pub(in crate::perfetto) const ALL: [(u64, &str); 15] = [
        (JOB, "job"),
        (DEADLINE, "deadline_ns"),
        (FRAME, "frame"),
        (CPUS, "cpus"),
        (LATENESS, "lateness_ns"),
        (AMOUNT, "amount_ns"),
        (CONSUMED, "consumed_ns"),
        (OUTCOME, "outcome"),
        (RESOURCE, "resource"),
        (COUNT, "count"),
        (REASON, "stopped"),
        (GRANTED, "granted"),
        (RELEASE, "release_ns"),
        (WINDOW, "window"),
        (ABANDONED, "abandoned"),
    ];
    pub(in crate::perfetto) const JOB: u64 = 1;
    pub(in crate::perfetto) const DEADLINE: u64 = 2;
    pub(in crate::perfetto) const FRAME: u64 = 3;
    pub(in crate::perfetto) const CPUS: u64 = 4;
    pub(in crate::perfetto) const LATENESS: u64 = 5;
    pub(in crate::perfetto) const AMOUNT: u64 = 6;
    pub(in crate::perfetto) const CONSUMED: u64 = 7;
    pub(in crate::perfetto) const OUTCOME: u64 = 8;
    pub(in crate::perfetto) const RESOURCE: u64 = 9;
    pub(in crate::perfetto) const COUNT: u64 = 10;
    pub(in crate::perfetto) const REASON: u64 = 11;
    pub(in crate::perfetto) const GRANTED: u64 = 12;
    pub(in crate::perfetto) const RELEASE: u64 = 13;
    pub(in crate::perfetto) const WINDOW: u64 = 14;
    pub(in crate::perfetto) const ABANDONED: u64 = 15;
}

/// Interned names of events that every trace may have.
pub(super) mod event {
    pub(in crate::perfetto) const ALL: [(u64, &str); 20] = [
        (RELEASE, "release"),
        (MISS, "deadline missed"),
        (OVERRUN, "overrun"),
        (ABORTED, "aborted"),
        (SKIPPED, "skipped"),
        (LATE_SIGNAL, "late signal"),
        (BUDGET, "budget"),
        (BLOCK, "blocked"),
        (WAKE, "woken"),
        (REQUEST, "resource requested"),
        (RETURN, "resource returned"),
        (EXIT, "exit"),
        (WINDOWS_LOST, "windows lost"),
        (DROPPED, "records dropped"),
        (HANDLER, "handler"),
        (YIELD, "yield"),
        (DEADLOCK, "deadlock"),
        (BEHIND, "behind"),
        (CUT_OFF, "cut off"),
        (WITHDRAW, "request withdrawn"),
    ];
    pub(in crate::perfetto) const RELEASE: u64 = 1;
    pub(in crate::perfetto) const MISS: u64 = 2;
    pub(in crate::perfetto) const OVERRUN: u64 = 3;
    pub(in crate::perfetto) const ABORTED: u64 = 4;
    pub(in crate::perfetto) const SKIPPED: u64 = 5;
    pub(in crate::perfetto) const LATE_SIGNAL: u64 = 6;
    pub(in crate::perfetto) const BUDGET: u64 = 7;
    pub(in crate::perfetto) const BLOCK: u64 = 8;
    pub(in crate::perfetto) const WAKE: u64 = 9;
    pub(in crate::perfetto) const REQUEST: u64 = 10;
    pub(in crate::perfetto) const RETURN: u64 = 11;
    pub(in crate::perfetto) const EXIT: u64 = 12;
    pub(in crate::perfetto) const WINDOWS_LOST: u64 = 13;
    pub(in crate::perfetto) const DROPPED: u64 = 14;
    pub(in crate::perfetto) const HANDLER: u64 = 15;
    pub(in crate::perfetto) const YIELD: u64 = 16;
    pub(in crate::perfetto) const DEADLOCK: u64 = 17;
    pub(in crate::perfetto) const BEHIND: u64 = 18;
    pub(in crate::perfetto) const CUT_OFF: u64 = 19;
    pub(in crate::perfetto) const WITHDRAW: u64 = 20;
    /// Names of tasks, places and windows follow from here.
    pub(in crate::perfetto) const FIRST_FREE: u64 = 21;
}

/// `TrackEvent.Type`.
pub(super) const SLICE_BEGIN: u64 = 1;
pub(super) const SLICE_END: u64 = 2;
pub(super) const INSTANT: u64 = 3;
pub(super) const COUNTER: u64 = 4;

/// `GenericKernelTaskStateEvent.TaskStateEnum`.
pub(super) const RUNNABLE: u64 = 2;
pub(super) const RUNNING: u64 = 3;
pub(super) const SLEEPING: u64 = 4;
pub(super) const STOPPED: u64 = 6;

pub(super) const SEQUENCE: u64 = 1;
pub(super) const STATE_CLEARED: u64 = 1;
pub(super) const NEEDS_STATE: u64 = 2;

/// `CounterDescriptor.Unit`.
pub(super) const UNIT_TIME_NS: u64 = 1;

/// A length-delimited message whose length is not known yet.
#[must_use]
pub(super) struct Open(usize);

/// Protobuf's wire format.
pub(super) trait Encode {
    fn varint(&mut self, value: u64);
    fn number(&mut self, field: u32, value: u64);
    fn bytes(&mut self, field: u32, value: &[u8]);
    fn open(&mut self, field: u32) -> Open;
    fn close(&mut self, open: Open);
}

impl Encode for Vec<u8> {
    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
    #[inline]
    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }
    #[inline]
    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.extend_from_slice(value);
    }
    /// Leaves one byte for the length: messages of 128 bytes or more are rare and pay for it with a move.
    #[inline]
    fn open(&mut self, field: u32) -> Open {
        self.varint(u64::from(field) << 3 | 2);
        self.push(0);
        Open(self.len())
    }
    #[inline]
    fn close(&mut self, open: Open) {
        let length = self.len() - open.0;
        if length < 0x80 {
            self[open.0 - 1] = length as u8;
            return;
        }
        let mut rest = length >> 7;
        let mut more = 0;
        while rest > 0 {
            more += 1;
            rest >>= 7;
        }
        self.extend_from_slice(&[0; 10][..more]);
        self.copy_within(open.0..open.0 + length, open.0 + more);
        for i in 0..=more {
            let last = if i == more { 0 } else { 0x80 };
            self[open.0 - 1 + i] = (length >> (7 * i)) as u8 & 0x7f | last;
        }
    }
}
