//! When the begin of a window is announced.
//!
//! A message at the begin of a window wakes its reader, and on a virtual machine the interrupt for the reader's CPU takes longer than the rest of the
//! step. A message that was written between the stop of the old processes and the start of the next would delay all of these. So it is written a
//! little ahead of the planned instant, in the time that the scheduler thread would need to wake up for it anyway.

use takt_core::model::Window;
use takt_core::record::{Record, RecordKind};
use takt_core::time::{Span, Time};

/// So much ahead: about the time of a wake-up and a write that wakes a reader.
const AHEAD: Span = Span::from_us(25);

/// The window that is announced next.
#[derive(Debug, Default)]
pub(crate) struct WindowsAhead {
    /// Its planned begin, and whether a major frame begins with it. None until the first window has begun, and after lost windows.
    next: Option<(Time, bool)>,
    /// The planned begin of the last window that was announced ahead.
    announced: Option<Time>,
}

impl WindowsAhead {
    /// When the next window is to be announced; [`Time::MAX`] if its begin is not known, is not before `end`, or is announced.
    pub(crate) fn due(&self, end: Time) -> Time {
        let known = self.next.filter(|(at, _)| *at < end && self.announced != Some(*at));
        known.map_or(Time::MAX, |(at, _)| at - AHEAD)
    }

    /// Whether a window is to be announced at `now`, and if so, whether a major frame begins with it. Once for each.
    pub(crate) fn announces(&mut self, now: Time, end: Time) -> Option<bool> {
        let (at, frame) = self.next.filter(|(at, _)| now < *at && now >= self.due(end))?;
        self.announced = Some(at);
        Some(frame)
    }

    /// Takes in the records of a step at `at`. If a window has begun in it that was not announced, the result is whether a major frame has begun.
    pub(crate) fn begins(&mut self, at: Time, records: &[Record], windows: &[Window]) -> Option<bool> {
        let window = records.iter().rev().find_map(|record| match record.kind {
            RecordKind::Window { window, .. } => Some(window as usize),
            _ => None,
        })?;
        // The begin of a window after lost ones was earlier than this step.
        let is_on_grid = !records.iter().any(|record| matches!(record.kind, RecordKind::WindowsLost { .. }));
        let length = windows.get(window).filter(|_| is_on_grid).map(|window| window.length);
        self.next = length.map(|length| (at + length, window + 1 == windows.len()));
        (self.announced != Some(at)).then_some(window == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_ms(1);

    fn windows() -> [Window; 2] {
        [3, 2].map(|ms| Window { length: MS * ms, slices: Vec::new() })
    }

    fn begin(at: Time, window: u32) -> Record {
        Record { at, kind: RecordKind::Window { window, frame: 0 } }
    }

    #[test]
    fn each_window_is_announced_once() {
        let (windows, end) = (windows(), Time::ZERO + MS * 100);
        let mut ahead = WindowsAhead::default();
        assert_eq!(ahead.due(end), Time::MAX);
        assert_eq!(
            ahead.begins(Time::ZERO, &[begin(Time::ZERO, 0)], &windows),
            Some(true),
            "nothing was known of the first"
        );
        let next = Time::ZERO + MS * 3;
        assert_eq!(ahead.due(end), next - AHEAD);
        assert_eq!(ahead.announces(Time::ZERO + MS, end), None, "too early");
        assert_eq!(ahead.announces(next - AHEAD, end), Some(false));
        assert_eq!((ahead.announces(next - AHEAD, end), ahead.due(end)), (None, Time::MAX), "once");
        assert_eq!(ahead.begins(next, &[begin(next, 1)], &windows), None, "it was announced");
        let frame = next + MS * 2;
        assert_eq!(ahead.announces(frame - Span::from_ns(1), end), Some(true), "the next major frame");
        assert_eq!(ahead.begins(frame, &[begin(frame, 0)], &windows), None);
    }

    #[test]
    fn a_late_step_and_the_end_leave_nothing_out() {
        let (windows, end) = (windows(), Time::ZERO + MS * 5);
        let mut ahead = WindowsAhead::default();
        ahead.begins(Time::ZERO, &[begin(Time::ZERO, 0)], &windows);
        let next = Time::ZERO + MS * 3;
        assert_eq!(ahead.announces(next, end), None, "it is to begin, so the step announces it");
        assert_eq!(ahead.begins(next, &[begin(next, 1)], &windows), Some(false));
        assert_eq!(ahead.due(end), Time::MAX, "the run ends before the next");
        // After lost windows the grid is not known until the next begin.
        let late = next + MS * 9;
        let lost = Record { at: late, kind: RecordKind::WindowsLost { count: 3 } };
        assert_eq!(ahead.begins(late, &[lost, begin(late, 0)], &windows), Some(true));
        assert_eq!(ahead.due(Time::MAX), Time::MAX);
        // A step without a window leaves things as they are.
        ahead.begins(next, &[begin(next, 1)], &windows);
        let due = ahead.due(Time::MAX);
        assert_eq!((ahead.begins(next + MS, &[], &windows), ahead.due(Time::MAX)), (None, due));
    }
}
