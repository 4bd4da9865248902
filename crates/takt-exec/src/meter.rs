//! The consumption of a job: the CPU time of its process. But a program that pauses within its job, or makes requests all the time, keeps its CPU from other tasks
//! and uses little of it. So a job consumes at least one part in [`LEAST`] of the time for which it had its CPU, where real-time processes
//! compete with nothing else. Time for which the program was frozen because of a flood is consumed, too.

use takt_core::record::JobId;
use takt_core::time::Span;

/// Less than any real-time process gets of its CPU: the kernel throttles to 95 %, and a virtual machine loses parts of a tenth.
const LEAST: i64 = 4;

/// Since a task's job, or the handler of that, was dispatched first.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Meter {
    pub(crate) of: Option<(JobId, bool)>,
    /// The CPU time that the process had used before.
    pub(crate) base: Span,
    /// For so long it has had a CPU, without the time since `since`.
    had: Span,
    since: Option<Span>,
    /// For so long it was frozen although it had its CPU.
    pub(crate) held: Span,
}

impl Meter {
    pub(crate) fn new(of: Option<(JobId, bool)>, base: Span) -> Meter {
        Meter { of, base, ..Meter::default() }
    }

    /// The job has a CPU.
    pub(crate) fn run(&mut self, now: Span) {
        self.since.get_or_insert(now);
    }

    /// The job has no CPU.
    pub(crate) fn halt(&mut self, now: Span) {
        if let Some(since) = self.since.take() {
            self.had += now - since;
        }
    }

    /// The consumption when the process has used `total`. `bounds` says that only real-time processes compete for the CPU.
    pub(crate) fn consumed(&self, total: Span, now: Span, bounds: bool) -> Span {
        let had = self.had + self.since.map_or(Span::ZERO, |since| now - since);
        let least = if bounds { had / LEAST } else { Span::ZERO };
        (total - self.base + self.held).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_pauses_consumes_part_of_its_time() {
        let ms = Span::from_ms;
        let mut meter = Meter::new(None, ms(5));
        meter.run(ms(100));
        assert_eq!(meter.consumed(ms(7), ms(104), true), ms(2));
        assert_eq!(meter.consumed(ms(7), ms(120), true), ms(5));
        assert_eq!(meter.consumed(ms(7), ms(120), false), ms(2));
        meter.halt(ms(120));
        assert_eq!(meter.consumed(ms(7), ms(900), true), ms(5));
        meter.run(ms(900));
        meter.run(ms(904));
        assert_eq!(meter.consumed(ms(7), ms(908), true), ms(7));
        meter.held = ms(10);
        assert_eq!(meter.consumed(ms(7), ms(908), true), ms(12));
    }
}
