//! The instants at which requests are expected, so that the writer wakes up for them by a timer of its own.
//!
//! Waking a thread that sleeps on another, idle CPU costs the waking thread an interrupt of that CPU. On a virtual machine this takes as long as the
//! rest of a step of the scheduler. A window table repeats, and the requests that follow from its planned instants repeat with it. So a request at a
//! planned instant makes one expected a major frame later. An expectation that fails is dropped: the scheduler wakes the writer for the next request.

use std::collections::VecDeque;
use takt_core::time::Span;

/// Expectations that are kept. Requests beyond these wake the writer.
const CAPACITY: usize = 4096;

/// Between two looks for the same request.
const AGAIN: Span = Span::from_us(50);
/// Looks for a request before it is no longer expected.
const LOOKS: u32 = 4;

/// From a planned instant to the first look: at first, at least and at most.
const DELAY: Span = Span::from_us(50);
const SHORTEST: Span = Span::from_us(10);
pub(super) const LONGEST: Span = Span::from_us(100);
/// A look in vain makes the delay longer by so much, and a request that was there makes it shorter. So about one look in twenty is in vain.
const LONGER: Span = Span::from_us(20);
const SHORTER: Span = Span::from_us(1);

/// Expected requests. Instants are those of the monotonic clock.
#[derive(Debug)]
pub(super) struct Forecast {
    /// Planned instants, in ascending order.
    expected: VecDeque<Span>,
    /// Length of the major frame in which they were learned.
    frame: Span,
    delay: Span,
    /// Looks for the first of them that were in vain.
    vain: u32,
}

impl Forecast {
    /// Expects nothing yet. Nothing is allocated later.
    pub(super) fn new() -> Forecast {
        Forecast { expected: VecDeque::with_capacity(CAPACITY), frame: Span::ZERO, delay: DELAY, vain: 0 }
    }

    /// The instant of the next look for a request; [`Span::MAX`] when none is expected.
    pub(super) fn next(&self) -> Span {
        self.expected.front().map_or(Span::MAX, |planned| *planned + self.delay + AGAIN * i64::from(self.vain))
    }

    /// A request of a planned instant has come, in a table with a major frame of this length; zero without a table.
    pub(super) fn came(&mut self, planned: Span, frame: Span) {
        if self.frame != frame {
            // Another table has taken over.
            self.expected.clear();
            (self.frame, self.vain) = (frame, 0);
        }
        if self.expected.front() == Some(&planned) && self.vain == 0 {
            self.delay = (self.delay - SHORTER).max(SHORTEST);
        }
        while self.expected.front().is_some_and(|earlier| *earlier <= planned) {
            self.expected.pop_front();
            self.vain = 0;
        }
        if frame > Span::ZERO && self.expected.len() < CAPACITY {
            self.expected.push_back(planned + frame);
        }
    }

    /// There was no request at a look.
    pub(super) fn nothing(&mut self, now: Span) {
        while self.next() <= now {
            if self.vain == 0 {
                self.delay = (self.delay + LONGER).min(LONGEST);
            }
            self.vain += 1;
            if self.vain == LOOKS {
                self.expected.pop_front();
                self.vain = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Span = Span::from_ms(10);

    /// Expects requests at these milliseconds.
    fn expecting(instants: &[i64]) -> Forecast {
        let mut forecast = Forecast::new();
        instants.iter().for_each(|ms| forecast.came(Span::from_ms(*ms) - FRAME, FRAME));
        forecast
    }

    #[test]
    fn a_request_is_expected_again_after_a_frame() {
        let mut forecast = Forecast::new();
        assert_eq!(forecast.next(), Span::MAX);
        forecast.came(Span::from_ms(3), FRAME);
        forecast.came(Span::from_ms(5), FRAME);
        assert_eq!(forecast.next(), Span::from_ms(13) + DELAY);
        forecast.came(Span::from_ms(13), FRAME);
        assert_eq!(forecast.next(), Span::from_ms(15) + DELAY - SHORTER);
        // Another table has other instants, and without a table nothing repeats.
        forecast.came(Span::from_ms(15), FRAME * 3);
        assert_eq!(forecast.next(), Span::from_ms(45) + DELAY - SHORTER);
        forecast.came(Span::from_ms(16), Span::ZERO);
        assert_eq!(forecast.next(), Span::MAX);
    }

    #[test]
    fn a_request_that_does_not_come_is_looked_for_a_few_times() {
        let mut forecast = expecting(&[20, 22]);
        let mut looks = Vec::new();
        while forecast.next() < Span::from_ms(21) {
            looks.push(forecast.next());
            let last = *looks.last().unwrap();
            forecast.nothing(last - Span::from_ns(1));
            assert_eq!(forecast.next(), last, "a look that is too early counts for nothing");
            forecast.nothing(last);
        }
        assert_eq!(looks.len(), LOOKS as usize);
        assert!(looks.is_sorted() && looks[3] - looks[0] < Span::from_us(300), "{looks:?}");
        assert_eq!(forecast.next(), Span::from_ms(22) + DELAY + LONGER);
        // It has not come, so it is not expected a frame later.
        forecast.came(Span::from_ms(22), FRAME);
        assert_eq!(forecast.next(), Span::from_ms(32) + DELAY + LONGER - SHORTER);
    }

    #[test]
    fn a_writer_that_was_held_up_drops_what_it_has_missed() {
        let mut forecast = expecting(&[20, 22, 24, 26]);
        forecast.nothing(Span::from_ms(25));
        assert!(forecast.next() > Span::from_ms(26));
        let mut forecast = expecting(&[20, 22, 24, 26]);
        forecast.came(Span::from_ms(24), FRAME);
        assert_eq!(forecast.next(), Span::from_ms(26) + DELAY);
    }

    #[test]
    fn the_delay_follows_the_scheduler_within_bounds() {
        let mut forecast = Forecast::new();
        let (mut vain, mut planned) = (0, Span::ZERO);
        // Requests that come 70 us after their planned instants.
        for _ in 0..2000 {
            let at = planned + Span::from_us(70);
            while forecast.next() < at {
                vain += 1;
                forecast.nothing(forecast.next());
            }
            forecast.came(planned, FRAME);
            planned += FRAME;
        }
        assert!((1..=2000 / 10).contains(&vain), "{vain}");
        assert!((SHORTEST..=LONGEST).contains(&forecast.delay));
    }

    #[test]
    fn so_many_requests_are_expected_and_no_more() {
        let mut forecast = Forecast::new();
        let frame = Span::from_secs(100);
        (0..2 * CAPACITY as i64).for_each(|ms| forecast.came(Span::from_ms(ms), frame));
        assert_eq!(forecast.expected.len(), CAPACITY);
        assert!(forecast.expected.capacity() < 2 * CAPACITY);
    }
}
