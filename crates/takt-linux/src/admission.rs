//! Admission control of SCHED_DEADLINE on this machine: kernel/sched/deadline.c, `__dl_overflow`.

use crate::{disturbance, probe, rt};
use takt_core::time::Span;

/// The bandwidth of one CPU, in millionths.
const WHOLE: i64 = 1_000_000;
/// That of the fair server, where its setting cannot be read: 50 ms of each second.
const FAIR: i64 = 50_000;

/// The admission control of one root domain with all CPUs that are online.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admission {
    /// CPUs that are online.
    pub cpus: usize,
    /// The part of a CPU for real-time classes by `sched_rt_runtime_us`, in millionths.
    pub limit: i64,
    /// The part of the fair server in that, in millionths.
    pub fair: i64,
}

impl Admission {
    /// That of this machine. `None` where everything is admitted, or the settings cannot be read.
    #[must_use]
    pub fn here() -> Option<Admission> {
        let (runtime, period) = rt::throttle().ok()?;
        let online = disturbance::online()?;
        let fair = match probe::fair_servers() {
            Some((runtime, period)) => part(runtime, period),
            None if probe::has_fair_server(&probe::release()) => FAIR,
            None => 0,
        };
        Some(Admission { cpus: online.len(), limit: part(runtime?, period), fair })
    }

    /// The bandwidth of all CPUs together that tasks can reserve, in millionths of a CPU.
    #[must_use]
    pub fn admits(&self) -> i64 {
        (self.limit - self.fair).max(0) * self.cpus as i64
    }

    /// The admitted bandwidth and its reasons, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let percent = |millionths: i64| millionths as f64 / 10_000.0;
        let fair = match self.fair {
            0 => String::new(),
            fair => format!(", less {} % of its fair server", percent(fair)),
        };
        format!(
            "{} of {} CPUs: {} % of each by kernel.sched_rt_runtime_us{fair}",
            thousandths(self.admits()),
            self.cpus,
            percent(self.limit)
        )
    }
}

/// A bandwidth in CPUs, to three decimals.
#[must_use]
pub fn thousandths(millionths: i64) -> String {
    format!("{}.{:03}", millionths / WHOLE, millionths % WHOLE / 1000)
}

/// The bandwidth of a reservation, in millionths, as the kernel rounds it: down.
#[must_use]
pub fn part(runtime: Span, period: Span) -> i64 {
    (i128::from(runtime.ns()) * i128::from(WHOLE) / i128::from(period.ns().max(1))) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_with_fair_servers_admit_ninety_percent_of_each() {
        let two = Admission { cpus: 2, limit: 950_000, fair: 50_000 };
        assert_eq!(two.admits(), 1_800_000);
        assert_eq!(
            two.words(),
            "1.800 of 2 CPUs: 95 % of each by kernel.sched_rt_runtime_us, less 5 % of its fair server"
        );
        assert_eq!(part(Span::from_ms(92), Span::from_ms(100)), 920_000);
        assert!(Admission::here().is_none_or(|here| here.cpus > 0 && here.limit <= WHOLE));
    }
}
