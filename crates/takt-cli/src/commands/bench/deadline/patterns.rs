//! The patterns for servers: workloads that are simulated as they stand, and whose tasks are acted by processes.
//!
//! A budget is no multiple of a usual tick, and neither are the debts that follow from noticing its end at one: where a budget
//! ends just at a tick, chance decides whether that tick notices it or the next. All releases and deadlines are multiples of 4 ms.

use takt_workload::{Options, Source, Workload};

pub(super) struct Pattern {
    pub(super) name: &'static str,
    tasks: &'static str,
}

pub(super) const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "overrun by a half",
        tasks: "  - {name: a, releases: [0ms], execution: 14.4ms, reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        name: "overrun by twice",
        tasks: "  - {name: a, releases: [0ms], execution: 25.8ms, reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        name: "always busy",
        tasks: "  - {name: a, releases: [0ms], execution: 37ms, reservation: {budget: 9.7ms, period: 40ms}}\n",
    },
    Pattern {
        // At 8 there are 4.8 of 9.6 ms left, and 32 of 40 ms until the deadline.
        name: "early wake-up",
        tasks: "  - {name: a, releases: [0ms, 8ms], execution: [4.8ms, 9ms], reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        // At 28 there are 4.8 of 9.6 ms left, and 12 of 40 ms until the deadline, which is 68 then; at 48 less than its share.
        name: "late wake-up",
        tasks: "  - {name: a, releases: [0ms, 28ms, 48ms], execution: [4.8ms, 8ms, 6ms], \
                reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        name: "wake-up after a period",
        tasks: "  - {name: a, releases: [0ms, 100ms], execution: [6ms, 15ms], reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        // The overrun of the first job is noticed as it ends, and the next budget comes while there is no job.
        name: "wake-up with a debt",
        tasks: "  - {name: a, releases: [0ms, 44ms], execution: [11ms, 14ms], reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        name: "many small runs",
        tasks: "  - {name: a, releases: [0ms, 5ms, 10ms, 15ms, 20ms, 25ms, 30ms, 35ms, 40ms, 45ms], execution: 2ms, \
                reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        name: "sleeps in between",
        tasks: "  - {name: a, releases: [0ms], steps: [run 3ms, sleep 3ms, run 5ms, sleep 49ms, run 14ms], \
                reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        name: "yields",
        tasks: "  - {name: a, releases: [0ms, 100ms], steps: [run 3ms, yield, run 5ms, yield, run 2ms], \
                reservation: {budget: 9.6ms, period: 40ms}}\n",
    },
    Pattern {
        // Throttled until 40, where its next period begins, and not until its deadline.
        name: "constrained: overrun",
        tasks: "  - {name: a, releases: [0ms], execution: 14.4ms, reservation: {budget: 9.6ms, deadline: 20ms, period: 40ms}}\n",
    },
    Pattern {
        // At 28 there are 4.8 of 9.6 ms left, but the deadline of 20 has passed: it waits until 40.
        name: "constrained: late wake-up",
        tasks: "  - {name: a, releases: [0ms, 28ms], execution: [4.8ms, 8ms], \
                reservation: {budget: 9.6ms, deadline: 20ms, period: 40ms}}\n",
    },
    Pattern {
        // At 16 there are 4.8 of 9.6 ms left, and 8 of 24 ms until the deadline: 3.2 ms stay, and the rest waits for 40.
        name: "constrained: less is kept",
        tasks: "  - {name: a, releases: [0ms, 16ms], execution: [4.8ms, 7.5ms], \
                reservation: {budget: 9.6ms, deadline: 24ms, period: 40ms}}\n",
    },
    Pattern {
        // The budget that comes at 40 is due by 60. At 48 5.76 ms of it can be kept.
        name: "constrained: it came before",
        tasks: "  - {name: a, releases: [0ms, 48ms], execution: [11ms, 9ms], \
                reservation: {budget: 9.6ms, deadline: 20ms, period: 40ms}}\n",
    },
    Pattern {
        name: "two servers, both overrun",
        tasks: "  - {name: a, releases: [0ms, 68ms], execution: [14.4ms, 5ms], reservation: {budget: 9.6ms, period: 40ms}}\n  \
                - {name: b, releases: [4ms], execution: 30ms, reservation: {budget: 17.1ms, period: 60ms}}\n",
    },
    Pattern {
        name: "two servers, one preempts",
        tasks: "  - {name: a, releases: [8ms, 88ms], execution: [6ms, 6ms], reservation: {budget: 9.6ms, period: 40ms}}\n  \
                - {name: b, releases: [0ms], execution: 41ms, reservation: {budget: 30.5ms, period: 80ms}}\n",
    },
];

impl Pattern {
    /// The workload's text.
    pub(super) fn text(&self) -> String {
        format!("# {}\npolicy: {{name: cbs, enforcement: hard}}\ncpus: 0\ntasks:\n{}", self.name, self.tasks)
    }

    /// The workload.
    pub(super) fn workload(&self) -> Workload {
        let source = Source::from_bytes(self.name, self.text().into_bytes()).expect("a pattern is a text");
        takt_workload::load(source, &Options::default()).expect("a pattern is a workload")
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::simulated;
    use super::*;
    use takt_core::time::Span;

    /// The ends of runs with exact budgets, and with a tick of 4 ms, in microseconds.
    fn ends(name: &str) -> [Vec<i64>; 2] {
        let workload = PATTERNS.iter().find(|p| p.name == name).unwrap().workload();
        [None, Some(Span::from_ms(4))]
            .map(|tick| simulated(&workload, tick).iter().flat_map(|c| &c.ends).map(|e| e.ns() / 1000).collect())
    }

    #[test]
    fn the_patterns_are_what_they_are_said_to_be() {
        // 9.6 and 4.8 ms; by the tick 12 and 2.4.
        assert_eq!(ends("overrun by a half"), [vec![44_800], vec![42_400]]);
        // Kept: 4.8 of 9 ms, the rest from 40 on. By the tick 8 ms, as the next one comes at 16.
        assert_eq!(ends("early wake-up"), [vec![4_800, 44_200], vec![4_800, 41_000]]);
        // Renewed at 28, kept at 48.
        assert_eq!(ends("late wake-up"), [vec![4_800, 36_000, 72_400], vec![4_800, 36_000, 70_000]]);
        assert_eq!(ends("constrained: overrun"), [vec![44_800], vec![42_400]]);
        assert_eq!(ends("constrained: late wake-up"), [vec![4_800, 48_000], vec![4_800, 48_000]]);
        assert_eq!(ends("constrained: less is kept"), [vec![4_800, 44_300], vec![4_800, 43_500]]);
        assert_eq!(ends("constrained: it came before"), [vec![41_400, 83_240], vec![11_000, 81_000]]);
        assert_eq!(ends("yields")[0], [3_000, 45_000, 82_000, 103_000, 145_000, 182_000]);
    }

    #[test]
    fn a_tick_gives_away_no_more_than_its_length() {
        for pattern in PATTERNS {
            let workload = pattern.workload();
            for tick in [1, 4, 10].map(Span::from_ms) {
                let (exact, by_tick) = (simulated(&workload, None), simulated(&workload, Some(tick)));
                for (exact, by_tick) in exact.iter().zip(&by_tick) {
                    let apart = by_tick.apart(exact).unwrap();
                    assert!(apart.ahead <= tick, "{}: {apart:?}", pattern.name);
                }
            }
        }
    }
}
