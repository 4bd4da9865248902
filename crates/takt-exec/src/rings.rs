//! Counts the rings of a program's bell, and the changes of a source of events, that are a flood ([`crate::floods`]).

use takt_core::time::{Span, Time};

/// How many rings or changes are without a consequence.
pub(crate) const BURST: u32 = 128;

/// For so long rings are counted together. For as long, a flooding program is frozen and a flooding source is muted.
pub(crate) const WINDOW: Span = Span::from_ms(10);

/// The rings of a task's program, or the changes of its source, that count as a flood.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rings {
    since: Time,
    count: u32,
    /// A request was read, perhaps before its own ring.
    excused: bool,
    /// How often the program was frozen, or the source muted, for them.
    pub(crate) floods: u64,
}

impl Rings {
    /// Counts a ring. Returns whether it is one too many.
    pub(crate) fn add(&mut self, now: Time) -> bool {
        if now - self.since >= WINDOW {
            (self.since, self.count) = (now, 0);
        }
        self.count += 1;
        self.count > BURST
    }

    /// The program has waited for its answers and made a request. Its ring can come after the scheduler has read the request, so one ring does not count.
    pub(crate) fn excuse(&mut self) {
        self.excused = true;
    }

    /// Whether the next ring does not count. The one after it does.
    pub(crate) fn is_excused(&mut self) -> bool {
        std::mem::take(&mut self.excused)
    }

    /// The program has ended the segment whose beginning was counted: it was dispatched, and within its budget and deadline.
    pub(crate) fn ended_segment(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rings_without_cause_are_a_flood() {
        let mut rings = Rings::default();
        for _ in 0..10 * BURST {
            assert!(!rings.add(Time::ZERO), "it ends the segment that it begins");
            rings.excuse();
            rings.ended_segment();
            assert!(rings.is_excused() && !rings.is_excused(), "one ring of a request that was read before it");
        }
        assert!((0..BURST).all(|_| !rings.add(Time::ZERO)));
        assert!(rings.add(Time::ZERO));
        assert!(!rings.add(Time::ZERO + WINDOW), "the next window");
    }
}
