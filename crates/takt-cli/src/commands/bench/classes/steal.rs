//! Steal, sampled while a run lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt::{self, Class};
use takt_linux::{disturbance, timer};

/// Time between two samples. The kernel counts steal in hundredths of a second.
const STEP: Duration = Duration::from_millis(20);
/// Above Takt's scheduler, whose delays are to be explained. A sample takes some ten microseconds.
const CLASS: Class = Class::Fifo(85);

/// Samples steal in a thread of its own until it is asked for them.
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Span, Span)>>,
}

/// The steal since the boot at instants of the monotonic clock, in their order.
pub(super) struct Samples(Vec<(Span, Span)>);

impl Sampler {
    pub(super) fn start(cpus: CpuSet) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            // Without the class samples come late, and each steal counts for a longer interval.
            let _ = rt::set_class(0, CLASS);
            let mut samples = Vec::with_capacity(4096);
            loop {
                let last = asked.load(Ordering::Acquire);
                let at = timer::now();
                samples.extend(disturbance::stolen(&cpus).map(|stolen| (at, stolen)));
                if last {
                    return samples;
                }
                std::thread::sleep(STEP);
            }
        });
        Sampler { stop, thread }
    }

    pub(super) fn finish(self) -> Samples {
        self.stop.store(true, Ordering::Release);
        Samples(self.thread.join().unwrap_or_default())
    }
}

impl Samples {
    /// The steal between the samples around an interval of the monotonic clock.
    pub(super) fn within(&self, from: Span, to: Span) -> Span {
        let Samples(samples) = self;
        let before = samples.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let after = samples.partition_point(|(at, _)| *at < to).min(samples.len().saturating_sub(1));
        match (samples.get(before), samples.get(after)) {
            (Some((_, before)), Some((_, after))) => *after - *before,
            _ => Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_that_between_the_samples_around_an_interval() {
        let ms = Span::from_ms;
        let samples = Samples(vec![(ms(0), ms(0)), (ms(20), ms(10)), (ms(40), ms(10)), (ms(60), ms(40))]);
        for (from, to, stolen) in [(5, 15, 10), (20, 40, 0), (21, 41, 30), (0, 60, 40), (50, 90, 30), (70, 80, 0)] {
            assert_eq!(samples.within(ms(from), ms(to)), ms(stolen), "{from} to {to}");
        }
        assert_eq!(Samples(Vec::new()).within(ms(0), ms(1)), Span::ZERO);
    }

    #[test]
    fn a_sampler_ends_with_a_sample() {
        let sampler = Sampler::start(rt::affinity(0).unwrap());
        let asked = timer::now();
        let Samples(samples) = sampler.finish();
        assert!(samples.last().is_some_and(|(at, _)| *at >= asked), "{samples:?}");
    }
}
