//! How much of the last second a task or a CPU was busy.

use takt_core::time::{Span, Time};

/// Intervals of the last second that are counted apart.
const SLOTS: usize = 10;
/// The length of one.
const SLOT: Span = Span::from_ms(100);

/// Busy time, as a whole and over about the last second, in a few bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// All busy time.
    pub(crate) total: Span,
    /// The newest slot that is counted; slot `n` begins at `n` times [`SLOT`].
    newest: i64,
    /// Busy time of slot `n`, at `n` modulo [`SLOTS`]` + 1`.
    slots: [i64; SLOTS + 1],
}

impl Load {
    fn roll(&mut self, to: i64) {
        let ring = self.slots.len() as i64;
        for slot in (self.newest + 1).max(to - ring + 1)..=to {
            self.slots[slot.rem_euclid(ring) as usize] = 0;
        }
        self.newest = self.newest.max(to);
    }

    /// Counts a busy interval. Intervals come in the order of their ends.
    pub(crate) fn add(&mut self, from: Time, to: Time) {
        if to <= from {
            return;
        }
        self.total += to - from;
        let (ring, slot) = (self.slots.len() as i64, SLOT.ns());
        let last = to.ns().div_euclid(slot);
        self.roll(last);
        for n in from.ns().div_euclid(slot).max(last - ring + 1)..=last {
            let (begin, end) = ((n * slot).max(from.ns()), (n * slot).saturating_add(slot).min(to.ns()));
            self.slots[n.rem_euclid(ring) as usize] += end - begin;
        }
    }

    /// The busy part, in millionths: of the last ten whole slots before `now`, or of all the time where there were fewer.
    pub(crate) fn recent(mut self, now: Time) -> u64 {
        let last = now.ns().max(0).div_euclid(SLOT.ns());
        self.roll(last);
        if last < SLOTS as i64 {
            return share(self.total, now - Time::ZERO);
        }
        let ring = self.slots.len() as i64;
        let busy: i64 = (last - SLOTS as i64..last).map(|n| self.slots[n.rem_euclid(ring) as usize]).sum();
        share(Span::from_ns(busy), SLOT * SLOTS as i64)
    }
}

/// A part of a whole, in millionths; zero of nothing.
pub(crate) fn share(part: Span, whole: Span) -> u64 {
    let whole = i128::from(whole.ns());
    if whole <= 0 { 0 } else { (i128::from(part.ns().max(0)) * 1_000_000 / whole) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn the_last_second_is_counted_and_what_was_before_is_not() {
        let mut load = Load::default();
        assert_eq!(load.recent(at(0)), 0);
        load.add(at(0), at(250));
        assert_eq!(load.recent(at(500)), 500_000);
        load.add(at(900), at(1100));
        // From 100 ms to 1100 ms.
        assert_eq!(load.recent(at(1150)), 350_000);
        assert_eq!(load.recent(at(1950)), 200_000);
        assert_eq!(load.recent(at(2000)), 100_000);
        assert_eq!(load.recent(at(9000)), 0);
        assert_eq!(load.total, Span::from_ms(450));
        load.add(at(2000), at(60_000));
        assert_eq!(load.recent(at(60_000)), 1_000_000);
    }
}
