//! A program outside Takt with a period of its own: it answers its own requests, as a scheduler that has nothing else to do.

use crate::sys;
use std::io;
use takt_abi::{Job, Kind, NEVER, Page, Statistics, Status};

/// The longest duration, in nanoseconds. Four of them fit.
const LONGEST: i64 = i64::MAX / 4;

/// The jobs of such a program.
#[derive(Debug)]
pub(crate) struct Standalone {
    period: i64,
    /// Relative.
    deadline: i64,
    /// The CPU time of the thread at the begin of the job.
    used: i64,
    counts: Statistics,
}

/// A whole number above 0 with `ns`, `us`, `ms` or `s`, in nanoseconds.
pub(crate) fn period(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = match &text[digits..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let ns = text[..digits].parse::<i64>().ok()?.checked_mul(unit)?;
    (1..=LONGEST).contains(&ns).then_some(ns)
}

impl Standalone {
    /// The first job begins now.
    pub(crate) fn new(period: i64, page: &Page) -> Standalone {
        page.reset(0);
        let release = sys::now();
        page.begin(Job { release, deadline: release + period, ..page.present() });
        let counts = Statistics { released: 1, budget: NEVER, ..Statistics::default() };
        Standalone { period, deadline: period, used: sys::cpu_time(), counts }
    }

    /// Answers a request. No request is refused, and a lock is granted at once.
    ///
    /// # Errors
    /// The operating system's answer to a sleep.
    pub(crate) fn answer(&mut self, page: &Page, kind: Kind, argument: i64) -> io::Result<Status> {
        match kind {
            Kind::Next => {
                self.complete(page);
                let release = page.present().release.saturating_add(self.period);
                sys::sleep_until(release)?;
                self.begin(page, release, self.deadline);
            }
            Kind::Begin => self.begin(page, sys::now(), if argument > 0 { argument } else { self.deadline }),
            Kind::End => self.complete(page),
            Kind::SetPeriod | Kind::SetDeadline | Kind::SetRuntime if !(1..=LONGEST).contains(&argument) => {
                return Ok(Status::Invalid);
            }
            Kind::SetPeriod => self.period = argument,
            Kind::SetDeadline => self.deadline = argument,
            Kind::Statistics => page.tell(Statistics { consumed: sys::cpu_time() - self.used, ..self.counts }),
            Kind::Yield => std::thread::yield_now(),
            Kind::Lock | Kind::Unlock | Kind::SetRuntime | Kind::SetShare => {}
        }
        Ok(Status::Done)
    }

    fn complete(&mut self, page: &Page) {
        self.counts.completed += 1;
        let met = sys::now() <= page.present().deadline;
        *(if met { &mut self.counts.met } else { &mut self.counts.missed }) += 1;
    }

    fn begin(&mut self, page: &Page, release: i64, deadline: i64) {
        let number = page.present().number + 1;
        page.begin(Job { number, release, deadline: release.saturating_add(deadline), ..page.present() });
        self.counts.released += 1;
        self.used = sys::cpu_time();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_number_with_a_unit() {
        assert_eq!(["20ms", "1s", "250us", "7ns"].map(period), [20_000_000, 1_000_000_000, 250_000, 7].map(Some));
        for bad in ["", "20", "ms", "0ms", "-1ms", "1.5ms", "20 ms", "20min", "9223372036854775807ns", "9223372037s"] {
            assert_eq!(period(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn jobs_have_their_period_and_are_counted() {
        let page = Page::new();
        let mut own = Standalone::new(2_000_000, &page);
        let first = page.present();
        assert_eq!(first.deadline, first.release + 2_000_000);
        for job in 1..=3 {
            assert_eq!(own.answer(&page, Kind::Next, 0).unwrap(), Status::Done);
            let present = page.present();
            assert_eq!((present.number, present.release), (job, first.release + 2_000_000 * job as i64));
            assert!(sys::now() >= present.release, "it has been released");
        }
        assert_eq!(own.answer(&page, Kind::SetPeriod, 0).unwrap(), Status::Invalid);
        assert_eq!(own.answer(&page, Kind::SetPeriod, 1_000_000).unwrap(), Status::Done);
        own.answer(&page, Kind::Next, 0).unwrap();
        assert_eq!(page.present().release, first.release + 7_000_000);
        // A segment of a nanosecond is late.
        own.answer(&page, Kind::Begin, 1).unwrap();
        own.answer(&page, Kind::End, 0).unwrap();
        own.answer(&page, Kind::Statistics, 0).unwrap();
        let counts = page.statistics();
        assert_eq!([counts.released, counts.completed, counts.met + counts.missed, counts.budget], [6, 5, 5, NEVER]);
        assert!(counts.missed >= 1 && counts.consumed >= 0, "{counts:?}");
    }
}
