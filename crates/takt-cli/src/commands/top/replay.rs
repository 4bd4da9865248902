//! A recorded trace as if it ran now.

use super::history::{History, SAMPLES};
use takt_core::time::{Span, Time};
use takt_trace::Trace;
use takt_trace::live::{Live, Snapshot};

/// Records from one copy of the figures to the next. A seek backward begins at a copy.
const COPY: usize = 250_000;
/// Copies that are kept.
const COPIES: usize = 64;

/// A trace at an instant.
pub(super) struct Replay {
    trace: Trace,
    end: Time,
    live: Live,
    /// Records that were taken.
    next: usize,
    /// Changes from outside that were taken.
    changes: usize,
    at: Time,
    copies: Vec<(usize, Time, Live)>,
}

impl Replay {
    pub(super) fn new(trace: Trace) -> Replay {
        let (live, end) = (Live::new(&trace.header), trace.end());
        Replay { trace, end, live, next: 0, changes: 0, at: Time::ZERO, copies: Vec::new() }
    }

    pub(super) fn end(&self) -> Time {
        self.end
    }

    pub(super) fn at(&self) -> Time {
        self.at
    }

    pub(super) fn is_over(&self) -> bool {
        self.at >= self.end
    }

    /// An interval of samples such that the history of a short trace is the whole of it.
    pub(super) fn sampling(&self) -> Span {
        let part = (self.end - Time::ZERO) / SAMPLES as i64;
        let grid = if part < Span::from_ms(1) { Span::from_us(100) } else { Span::from_ms(1) };
        (grid * (part.ns() / grid.ns() + 1)).min(Span::from_ms(250))
    }

    fn take(&mut self, to: Time) {
        while let Some(record) = self.trace.records.get(self.next).filter(|record| record.record.at <= to) {
            // A change is written after the records of its step.
            while let Some(change) = self.trace.changes.get(self.changes).filter(|change| change.at < record.record.at)
            {
                self.live.changed(change.at, &change.command, &mut |_| ());
                self.changes += 1;
            }
            self.live.record(record, &mut |_| ());
            self.next += 1;
            let known = self.copies.last().map_or(0, |(next, ..)| *next);
            if self.next >= known + COPY && self.copies.len() < COPIES {
                self.copies.push((self.next, self.live.now(), self.live.clone()));
            }
        }
        while let Some(change) = self.trace.changes.get(self.changes).filter(|change| change.at <= to) {
            self.live.changed(change.at, &change.command, &mut |_| ());
            self.changes += 1;
        }
        self.live.advance(to, &mut |_| ());
        if to >= self.end {
            self.live.lost(self.trace.footer.map_or(0, |footer| footer.dropped));
            self.live.finish(self.end, &mut |_| ());
        }
        self.at = to;
    }

    /// Goes to an instant, which becomes one within the trace.
    pub(super) fn go_to(&mut self, to: Time, history: &mut History) {
        let to = to.clamp(Time::ZERO, self.end);
        if to < self.at {
            let copy = self.copies.iter().rev().find(|(_, at, _)| *at < to);
            let (next, live) = match copy {
                Some((next, _, live)) => (*next, live.clone()),
                None => (0, Live::new(&self.trace.header)),
            };
            (self.next, self.at) = (next, live.now());
            self.changes = self.trace.changes.partition_point(|change| change.at < self.at);
            self.live = live;
            history.clear();
        }
        let every = history.every();
        let first = to.saturating_add(Span::from_ns(-every.ns() * SAMPLES as i64));
        if self.at < first {
            self.take(first);
        }
        while self.at.saturating_add(every) < to {
            self.take(self.at.saturating_add(every));
            history.take(&self.live.snapshot());
        }
        self.take(to);
        history.take(&self.live.snapshot());
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.live.snapshot()
    }
}
