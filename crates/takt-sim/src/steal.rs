//! Time stolen from every CPU: how much of a span is left for the jobs, and when a job is done that needs so
//! much.

use takt_core::scenario::Steal;
use takt_core::time::{Span, Time};

/// The progress of a job that holds a CPU: real time without the start of each period, `[k * period, k * period + length)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress(Option<Steal>);

impl Progress {
    /// # Panics
    /// When the period is not above zero, or the length is negative or above the period.
    pub(crate) fn new(steal: Option<Steal>) -> Progress {
        let sound = |s: &Steal| s.period > Span::ZERO && s.length >= Span::ZERO && s.length <= s.period;
        assert!(steal.as_ref().is_none_or(sound), "stolen time must be a part of its period");
        Progress(steal.filter(|s| s.length > Span::ZERO))
    }

    /// Whether nothing is stolen.
    pub(crate) fn is_steady(self) -> bool {
        self.0.is_none()
    }

    /// Progress from time zero to `at`.
    fn until(steal: Steal, at: Time) -> Span {
        let (periods, rest) = (at.ns() / steal.period.ns(), Span::from_ns(at.ns() % steal.period.ns()));
        (at - Time::ZERO) - steal.length * periods - rest.min(steal.length)
    }

    /// How much of the time between the two instants makes progress. O(1).
    #[inline]
    pub(crate) fn between(self, from: Time, to: Time) -> Span {
        match self.0 {
            None => to - from,
            Some(steal) => Progress::until(steal, to) - Progress::until(steal, from),
        }
    }

    /// The first instant at which `needed` progress has been made since `from`. O(1).
    #[inline]
    pub(crate) fn done(self, from: Time, needed: Span) -> Time {
        match self.0 {
            Some(steal) if needed > Span::ZERO => {
                let left = (steal.period - steal.length).ns();
                let target = Progress::until(steal, from).ns().saturating_add(needed.ns());
                if left == 0 || target == i64::MAX {
                    return Time::MAX;
                }
                // Just before a stolen stretch begins, if the progress ends with a period.
                let (periods, rest) = (target / left, target % left);
                let stretch = if rest == 0 { 0 } else { steal.length.ns() + rest };
                Time::from_ns(steal.period.ns().saturating_mul(periods).saturating_add(stretch))
            }
            _ => from.saturating_add(needed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_two_ways_agree_with_counting_nanoseconds() {
        takt_testing::for_all(256, (1i64..12, 0i64..12, 0i64..60, 0i64..40), |(period, length, from, needed)| {
            let length = length.min(period);
            let progress = Progress::new(Some(Steal { period: Span::from_ns(period), length: Span::from_ns(length) }));
            let counted = |to: i64| (from..to).filter(|ns| ns % period >= length).count() as i64;
            let by_counting = (from..from + 2000).find(|to| counted(*to) >= needed);
            let done = progress.done(Time::from_ns(from), Span::from_ns(needed));
            prop_assert_eq!(done, by_counting.map_or(Time::MAX, Time::from_ns));
            for to in from..from + 30 {
                let between = progress.between(Time::from_ns(from), Time::from_ns(to));
                prop_assert_eq!(between.ns(), counted(to));
            }
            Ok(())
        });
    }
}
