//! A program that ends its jobs by sleeps, as the scheduler knows it.

use takt_core::time::{Span, Time};

/// A program whose sleeps end its jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleeper {
    pub(crate) rest: Rest,
    /// Its wake-ups release its jobs.
    pub(crate) releases: bool,
    /// The jobs that it has completed before the engine has dispatched them.
    pub(crate) early: u32,
    /// It has several threads, or children.
    pub(crate) several: bool,
    /// The last report of its first thread: when, and whether it was a block.
    pub(crate) reported: (Span, bool),
    /// The CPU time that its process had used when it fell asleep, and when that was.
    pub(crate) used: Span,
    pub(crate) fell: Span,
    /// The ends of jobs, the blocks and the wake-ups at this instant or later are those of its next job.
    pub(crate) since: Span,
    /// When its last job was asked for: the engine's time, and the clock.
    pub(crate) asked: Option<(Time, Time)>,
}

/// The state of such a program, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// It works, or is stopped at its work.
    Awake,
    /// It sleeps, and is not frozen.
    Asleep,
    /// It is awake again, and the engine is to learn that.
    Woken,
}

impl Sleeper {
    /// A new program, which has not run. Its wake-ups release its jobs, or the clock does.
    pub(crate) fn new(releases: bool) -> Sleeper {
        Sleeper {
            rest: Rest::Awake,
            releases,
            early: 0,
            several: false,
            reported: (Span::ZERO, false),
            used: Span::ZERO,
            fell: Span::ZERO,
            since: Span::ZERO,
            asked: None,
        }
    }

    /// Another program follows.
    pub(crate) fn is_replaced(&mut self) {
        *self = Sleeper::new(self.releases);
    }

    /// The program has ended a job that the engine has not dispatched. Where the clock releases the jobs, that work belongs to the next one.
    pub(crate) fn ended_early(&mut self) {
        self.early += u32::from(self.releases);
    }

    /// Its process is frozen, so the end of its sleep would not be seen.
    pub(crate) fn is_frozen(&mut self) {
        if self.rest == Rest::Asleep {
            self.rest = Rest::Awake;
        }
    }

    /// It wakes up after a job. Returns whether that is an event.
    pub(crate) fn woken(&mut self) -> bool {
        self.rest = if self.releases { Rest::Woken } else { Rest::Awake };
        self.releases
    }

    /// The latest instant of a wake-up that was not reported, where the process has used so much CPU time by `now`.
    pub(crate) fn woke_by(&self, now: Span, used: Option<Span>) -> Span {
        (now - used.map_or(Span::ZERO, |used| (used - self.used).or_zero())).max(self.fell)
    }
}
