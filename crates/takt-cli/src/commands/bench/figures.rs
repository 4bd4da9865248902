//! Figures of many values: median, 99th percentile, maximum.

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use takt::report::{Cell, short};
use takt_core::time::Span;

/// Figures of one round, or the medians of several rounds' figures. Nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Figures {
    pub(super) count: usize,
    pub(super) p50: i64,
    pub(super) p99: i64,
    pub(super) max: i64,
}

/// The smallest value that `per_mille` of 1000 values do not exceed.
fn quantile(sorted: &[i64], per_mille: usize) -> i64 {
    let rank = (sorted.len() * per_mille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// The median; the lower one of two.
pub(super) fn median(values: impl IntoIterator<Item = i64>) -> i64 {
    let mut values: Vec<i64> = values.into_iter().collect();
    values.sort_unstable();
    quantile(&values, 500)
}

impl Figures {
    pub(super) fn of(values: impl IntoIterator<Item = i64>) -> Figures {
        let mut values: Vec<i64> = values.into_iter().collect();
        values.sort_unstable();
        Figures {
            count: values.len(),
            p50: quantile(&values, 500),
            p99: quantile(&values, 990),
            max: values.last().copied().unwrap_or(0),
        }
    }
    /// The medians of what the rounds say.
    pub(super) fn median(rounds: &[Figures]) -> Figures {
        Figures {
            count: rounds.iter().map(|f| f.count).sum(),
            p50: median(rounds.iter().map(|f| f.p50)),
            p99: median(rounds.iter().map(|f| f.p99)),
            max: median(rounds.iter().map(|f| f.max)),
        }
    }
    pub(super) fn json(&self) -> Value {
        json!({"count": self.count, "p50": self.p50, "p99": self.p99, "max": self.max})
    }
    pub(super) fn cells(&self) -> [Cell; 3] {
        [self.p50, self.p99, self.max].map(cell)
    }
}

/// Nanoseconds for a table.
pub(super) fn cell(ns: i64) -> Cell {
    Cell::Measured(Span::from_ns(ns))
}

/// Nanoseconds for a sentence.
pub(super) fn text(ns: i64) -> String {
    short(Span::from_ns(ns))
}

/// CPU time of this thread.
pub(super) fn cpu_time() -> Span {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_ns(now.tv_sec * 1_000_000_000 + now.tv_nsec)
}

/// The most memory that this process has had, in KiB.
pub(super) fn peak_memory() -> i64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A ratio to two decimals; `-` where it says nothing.
pub(super) fn ratio(value: i64, peer: i64) -> String {
    if peer <= 0 || value < 0 {
        return "-".into();
    }
    let hundredths = (i128::from(value) * 100 + i128::from(peer) / 2) / i128::from(peer);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let f = Figures::of((1..=1000).rev());
        assert_eq!(f, Figures { count: 1000, p50: 500, p99: 990, max: 1000 });
        assert_eq!(Figures::of([7]), Figures { count: 1, p50: 7, p99: 7, max: 7 });
        assert_eq!(Figures::of([]), Figures::default());
    }

    #[test]
    fn rounds_are_summed_up_by_medians() {
        let round = |x| Figures { count: 10, p50: x, p99: 2 * x, max: 3 * x };
        let rounds = [round(9), round(1), round(5)];
        assert_eq!(Figures::median(&rounds), Figures { count: 30, p50: 5, p99: 10, max: 15 });
    }

    #[test]
    fn ratios_are_rounded_and_silent_where_they_mean_nothing() {
        assert_eq!([ratio(3, 2), ratio(2, 3), ratio(1, 0), ratio(-1, 5)], ["1.50", "0.67", "-", "-"]);
    }
}
