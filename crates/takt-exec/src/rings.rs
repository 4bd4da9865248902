//! Counts the rings of a program's bell, and the changes of a source of events, that are a flood ([`crate::floods`]).

use takt_core::time::{Span, Time};

/// How many rings or changes are without a consequence. A correct program has at most one per request, when the scheduler reads the request before its
/// ring.
pub(crate) const BURST: u32 = 128;

/// For so long rings are counted together. For as long, a flooding program is frozen and a flooding source is muted.
pub(crate) const WINDOW: Span = Span::from_ms(10);

/// The rings of a task's program, or the changes of its source, that count as a flood.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rings {
    since: Time,
    count: u32,
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
}
