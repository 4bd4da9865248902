//! Every sufficient test with its theorem and an example that it just accepts, beside one that it does not. `UPDATE=1` writes the table of
//! docs/analysis.md.

use std::fmt::Write;
use takt_analysis::online::{Answer, Kind, verdict};
use takt_analysis::taskset::TaskSet;
use takt_analysis::tests::{TESTS, Verdict, test};

use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, PolicySpec, Reservation, System, Task};
use takt_core::policies::split::demand::Times;
use takt_core::time::Span;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/analysis.md");
const HEAD: &str = "| test | theorem | CPUs | accepted | not accepted | example |\n|---|---|---|---|---|---|\n";

/// Runtime, deadline, period.
type Set = &'static [(u64, u64, u64)];

struct Row {
    /// Tests of `takt analyze`, or those of `takt check` under a policy.
    tests: &'static [&'static str],
    policy: Option<&'static str>,
    theorem: &'static str,
    cpus: usize,
    accepted: Set,
    refused: Set,
    /// Where the example is from; empty where it is by hand.
    source: &'static str,
}

/// A row of tests of `takt analyze`.
const fn row(tests: &'static [&'static str], theorem: &'static str, cpus: usize, accepted: Set, refused: Set) -> Row {
    Row { tests, policy: None, theorem, cpus, accepted, refused, source: "" }
}

/// The verdict of `takt check` under a policy.
const fn check(
    tests: &'static [&'static str],
    policy: &'static str,
    theorem: &'static str,
    cpus: usize,
    accepted: Set,
    refused: Set,
) -> Row {
    Row { policy: Some(policy), ..row(tests, theorem, cpus, accepted, refused) }
}

const ECRTS_2005: &str = "Bertogna, Cirinei, Lipari, ECRTS 2005, section 3.3";
const TPDS_2009: &str = "Bertogna, Cirinei, Lipari, IEEE TPDS 20(4), 2009, example 1";
const WINDOWS: &str =
    "EDF-WM: a task is split where no CPU has room, into equal windows of its deadline; exact demand on each CPU";
const TIGHT: &str = "C=D: the first piece is due after its length; exact demand on each CPU";
/// The third task gets 3.5 on each CPU, at most, and needs 7.
const SPLIT: Set = &[(6500, 10_000, 10_000), (6500, 10_000, 10_000), (7000, 7000, 20_000)];
const NOT_SPLIT: Set = &[(6502, 10_000, 10_000), (6502, 10_000, 10_000), (7000, 7000, 20_000)];
const SHARES: &str = "the sum of budget/period is at most 1 (Abeni, Buttazzo, RTSS 1998, theorem 1)";

const ROWS: &[Row] = &[
    row(
        &["ll"],
        "theorem 5: U ≤ n (2^(1/n) - 1), 0.8284 of two tasks",
        1,
        &[(414, 1000, 1000); 2],
        &[(415, 1000, 1000); 2],
    ),
    row(&["hyperbolic"], "theorem 1: ∏ (Uᵢ + 1) ≤ 2", 1, &[(1, 2, 2), (1, 3, 3)], &[(501, 1000, 1000), (1, 3, 3)]),
    Row {
        source: ECRTS_2005,
        ..row(
            &["gfb"],
            "theorem 4 of ECRTS 2005: δ ≤ m - (m - 1) δ_max",
            2,
            &[(49, 100, 100), (49, 100, 100), (2, 50, 100)],
            &[],
        )
    },
    Row { source: TPDS_2009, ..row(&["gfb"], "the same", 2, &[], &[(20, 30, 30), (20, 30, 30), (5, 30, 30)]) },
    Row {
        source: TPDS_2009,
        ..row(
            &["bcl"],
            "theorem 7 of ECRTS 2005: Σ min(βᵢ, 1 - δₖ) < m (1 - δₖ)",
            2,
            &[(20, 30, 30), (20, 30, 30), (5, 30, 30)],
            &[(27, 30, 30); 3],
        )
    },
    Row {
        source: ECRTS_2005,
        ..row(
            &["bak"],
            "theorem 5 of ECRTS 2005: Σ min(1, βᵢ) ≤ m (1 - δₖ) + δₖ",
            2,
            &[(1, 2, 2); 3],
            &[(49, 100, 100), (49, 100, 100), (2, 50, 100)],
        )
    },
    row(
        &["gedf-rta"],
        "R ← C + ⌊Σ min(interference, R - C + 1) / m⌋, with the slack of the others",
        2,
        &[(2, 10, 10); 3],
        &[(1, 9, 9), (1, 9, 9), (10, 10, 10)],
    ),
    row(
        &["grm-rta", "gdm-rta"],
        "the same, of the tasks above",
        2,
        &[(5, 9, 9), (6, 10, 10), (2, 20, 20)],
        &[(5, 9, 9), (6, 9, 9), (9, 9, 10)],
    ),
    row(
        &["ff", "bf", "wf", "ffd", "wfd", "bfd"],
        "exact demand on each CPU",
        2,
        &[(6, 10, 10), (6, 10, 10), (4, 10, 10)],
        &[(6, 10, 10); 3],
    ),
    row(&["wm_ff", "wm_wf", "wm_ffd"], WINDOWS, 2, SPLIT, NOT_SPLIT),
    row(&["ceqd_ff", "ceqd_ffd"], TIGHT, 2, SPLIT, NOT_SPLIT),
    check(
        &["np-edf"],
        "np-edf",
        "Jeffay, Stanat, Martel, RTSS 1991, theorem 4.1, with deadlines",
        1,
        &[(1, 4, 4), (3, 12, 12)],
        &[(1, 4, 4), (4, 12, 12)],
    ),
    check(
        &["busy-period"],
        "fifo",
        "one job of each task fits into the shortest period and deadline",
        1,
        &[(2, 6, 6), (4, 12, 12)],
        &[(2, 6, 6), (5, 12, 12)],
    ),
    check(&["reservation"], "cbs", SHARES, 1, &[(6, 10, 10), (4, 10, 10)], &[(6, 10, 10), (5, 10, 10)]),
    check(
        &["gfp-rta"],
        "g-fp",
        "as `grm-rta`",
        2,
        &[(5, 10, 10), (6, 10, 10), (2, 20, 20)],
        &[(5, 10, 10), (5, 10, 10), (6, 10, 10)],
    ),
    check(&["edf-wm"], "edf-wm", WINDOWS, 2, SPLIT, NOT_SPLIT),
    check(&["edf-cd"], "edf-cd", TIGHT, 2, SPLIT, NOT_SPLIT),
    check(
        &["optimal"],
        "pd2",
        "U ≤ m (Baruah, Cohen, Plaxton, Varvel, Algorithmica 15, 1996), with deadlines before the periods: δ ≤ m",
        2,
        &[(2, 3, 4), (2, 3, 4), (2, 3, 4)],
        &[(2, 3, 4), (2, 3, 4), (3, 3, 4)],
    ),
];

fn set(tasks: Set) -> TaskSet {
    let times = |&(runtime, deadline, period): &(u64, u64, u64)| Times { runtime, deadline, period };
    TaskSet::new(tasks.iter().map(times).collect(), Span::from_us(1)).unwrap()
}

/// The tasks under a policy, in microseconds. Earlier ones have higher priorities, and each has its runtime reserved where that counts.
fn system(policy: &str, cpus: usize, tasks: Set) -> System {
    let us = |n: u64| Span::from_us(n as i64);
    let task = |(at, &(runtime, deadline, period)): (usize, &(u64, u64, u64))| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: us(1000 * period) },
        deadline: Some(us(1000 * deadline)),
        runtime: Some(us(1000 * runtime)),
        reservation: (policy == "cbs").then(|| Reservation::new(us(1000 * runtime), us(1000 * period))),
        priority: 1000 - at as u32,
        affinity: CpuSet::first(cpus),
        ..Task::default()
    };
    let tasks = tasks.iter().enumerate().map(task).collect();
    System { tasks, ..System::new(CpuSet::first(cpus), PolicySpec::from_name(policy).unwrap()) }
}

/// Whether the test of this name says yes.
fn accepts(row: &Row, name: &str, tasks: Set) -> bool {
    let Some(policy) = row.policy else {
        return test(name).unwrap().run(&set(tasks), row.cpus).verdict == Verdict::Schedulable;
    };
    let said = verdict(&system(policy, row.cpus, tasks));
    assert!(said.schedulable != Answer::Yes || said.test == name, "{said}");
    said.schedulable == Answer::Yes
}

fn text(tasks: Set) -> String {
    let texts: Vec<String> = tasks.iter().map(|(c, d, t)| format!("({c}, {d}, {t})")).collect();
    texts.join(" ")
}

#[test]
fn examples_of_the_sufficient_tests() {
    let mut rows = String::new();
    for row in ROWS {
        for name in row.tests {
            assert!(row.accepted.is_empty() || accepts(row, name, row.accepted), "{name} {:?}", row.accepted);
            assert!(row.refused.is_empty() || !accepts(row, name, row.refused), "{name} {:?}", row.refused);
        }
        let names: Vec<String> = row.tests.iter().map(|name| format!("`{name}`")).collect();
        let source = if row.source.is_empty() { "by hand" } else { row.source };
        let (accepted, refused) = (text(row.accepted), text(row.refused));
        writeln!(rows, "| {} | {} | {} | {accepted} | {refused} | {source} |", names.join(", "), row.theorem, row.cpus)
            .unwrap();
    }
    takt_testing::table(DOCUMENT, HEAD, &rows);
}

/// A sufficient test without an example is not in the table.
#[test]
fn every_sufficient_test_has_an_example() {
    let named: Vec<&str> = ROWS.iter().flat_map(|row| row.tests).copied().collect();
    for test in TESTS.iter().filter(|test| test.kind == Kind::Sufficient) {
        assert!(named.contains(&test.name), "{}", test.name);
    }
}

/// The examples of other papers: `bcl` accepts a set that `gfb` does not accept, and `gfb` one that `bak` does not accept.
#[test]
fn the_tests_of_global_edf_are_not_comparable() {
    let of = |name: &str, tasks| test(name).unwrap().run(&set(tasks), 2).verdict == Verdict::Schedulable;
    let heavy: Set = &[(20, 30, 30), (20, 30, 30), (5, 30, 30)];
    let light: Set = &[(49, 100, 100), (49, 100, 100), (2, 50, 100)];
    assert_eq!(["gfb", "bcl"].map(|name| of(name, heavy)), [false, true]);
    assert_eq!(["gfb", "bak"].map(|name| of(name, light)), [true, false]);
}
