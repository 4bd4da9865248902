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
                // An instant that has come before it was noticed counts from then, but nothing happens twice in one instant. A decision
                // may plan a timer for its own instant: another one of the policy, planned before, is not noticed yet.
                let soonest = if at <= now { now + Span::from_ns(1) } else { now };
                let (most, seed) = (timing.lateness.ns() as u64, self.system.seed ^ LATENESS);
                let late = Span::from_ns(rng::draw_up_to(most, seed, u64::from(timer), planned.set) as i64);
                noticed = at.round_up(timing.tick).saturating_add(late).max(soonest.round_up(timing.tick));
            }
            noticed = noticed.round_up(timing.resolution);
        }
        self.agenda.set(2 * self.room + index, noticed);
    }
}

#[cfg(test)]
mod tests {
    use crate::cpus::CpuSet;
    use crate::engine::Engine;
    use crate::model::{Arrival, PolicySpec, Scope, System, Task, Timing};
    use crate::policies::rr;
    use crate::policy::{Context, Decision, Event, Policy};
    use crate::record::{Place, Record};
    use crate::time::{Span, Time};
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Plans its timer for the instant of its first decision.
    struct Now {
        planned: bool,
    }

    impl Policy for Now {
        fn start(&mut self, _: &mut Context<'_>) {}
        fn event(&mut self, _: &Event, _: &mut Context<'_>) {}
        fn decide(&mut self, _: &[Place], cx: &mut Context<'_>, _: &mut Decision) {
            if !core::mem::replace(&mut self.planned, true) {
                cx.set_timer(0, cx.now());
            }
        }
        fn timers(&self) -> u16 {
            1
        }
    }

    #[test]
    fn a_late_timer_for_the_instant_of_a_decision_is_noticed_after_it() {
        for seed in 0..50 {
            let arrival = Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(10) };
            let timing = Timing { resolution: Span::from_ns(600), lateness: Span::from_ns(1), ..Timing::default() };
            let system = System {
                tasks: vec![Task { arrival, ..Task::default() }],
                timing,
                seed,
                ..System::new(CpuSet::single(0), PolicySpec::new(&rr::ENTRY.profile, Scope::Uniprocessor))
            };
            let policy = Box::new(Now { planned: false });
            let mut engine = Engine::with_policy(system, policy).expect("the system is right");
            let start = Time::from_ns(12_000);
            engine.step(start, &[], &mut Vec::<Record>::new());
            let due = engine.next_due().expect("the timer is planned");
            assert_eq!(due, start + Span::from_ns(600), "seed {seed}");
        }
    }
}
