//! The timers of a policy: when they are noticed.

use crate::policy::state::State;
use crate::rng;
use crate::time::{Span, Time};

// Draws for different purposes must not be the same numbers.
const LATENESS: u64 = 0x5449_4d45_525f_4c54;

impl State {
    /// Plans a timer that is noticed at the tick, and not before now. One that is not `exact` has the resolution and the
    /// lateness of a one-shot timer, too.
    pub(super) fn set_timer(&mut self, timer: u16, at: Time, exact: bool) {
        let (timing, now) = (self.system.timing, self.now);
        let index = usize::from(timer);
        assert!(index < self.timers.len(), "timer {timer} was not asked for");
        let planned = &mut self.timers[index];
        planned.set += 1;
        planned.due = timing.on_tick(at.max(now));
        let mut noticed = planned.due;
        if cfg!(feature = "timing") && !exact {
            if timing.lateness > Span::ZERO {
                // An instant that has passed before it was noticed counts from then, but nothing happens twice in one instant.
                let soonest = if at < now { now + Span::from_ns(1) } else { now };
                let (most, seed) = (timing.lateness.ns() as u64, self.system.seed ^ LATENESS);
                let late = Span::from_ns(rng::draw_up_to(most, seed, u64::from(timer), planned.set) as i64);
                noticed = at.round_up(timing.tick).saturating_add(late).max(soonest.round_up(timing.tick));
            }
            noticed = noticed.round_up(timing.resolution);
        }
        self.agenda.set(2 * self.room + index, noticed);
    }
}
