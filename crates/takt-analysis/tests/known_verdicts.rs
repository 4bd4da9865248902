//! Task sets whose verdicts are known.
//!
//! `data/sweep_n10.csv`: 1000 random sets of 10 tasks with deadlines between runtime and period; the verdicts of the exact EDF test
//! for one CPU are those on which schedcat's QPA (86211bc, native, with rational numbers), the Rust crate
//! response-time-analysis 0.3.2 and a search of all deadlines agree: 548 are schedulable.
//! `data/airs_W3.0.csv` and `data/airs_W3.6.csv`: 100 sets each for four CPUs with that total utilisation, made as in section 6 of
//! AIRS (Kato, Rajkumar, Ishikawa, ECRTS 2010). The verdicts of the global tests agree with schedcat's; the accepted
//! assignments were simulated CPU by CPU. The column `gedf_sim` is compared where the simulator is, in the tests of `takt analyze`.

use takt_analysis::taskset::{Task, TaskSet};
use takt_analysis::tests::{self, Verdict};
use takt_core::time::Span;

fn sets(csv: &str) -> Vec<TaskSet> {
    let mut sets: Vec<Vec<Task>> = Vec::new();
    for line in csv.lines().skip(1) {
        let n: Vec<u64> = line.split(',').map(|n| n.parse().unwrap()).collect();
        if n[0] as usize == sets.len() {
            sets.push(Vec::new());
        }
        sets.last_mut().unwrap().push(Task { runtime: n[2], deadline: n[3], period: n[4] });
    }
    sets.into_iter().map(|tasks| TaskSet::new(tasks, Span::from_us(1)).unwrap()).collect()
}

#[test]
fn edf_on_one_cpu() {
    let edf = tests::test("edf").unwrap();
    let verdicts: Vec<&str> =
        sets(include_str!("data/sweep_n10.csv")).iter().map(|set| edf.run(set, 1).verdict.cell()).collect();
    let known: Vec<&str> = include_str!("data/sweep_n10.verdicts").lines().collect();
    assert_eq!(verdicts, known);
    assert_eq!(verdicts.iter().filter(|v| **v == "1").count(), 548);
}

fn compare(csv: &str, known: &str) {
    let sets = sets(csv);
    assert_eq!(sets.len(), 100);
    let mut lines = known.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').skip(1).filter(|name| *name != "gedf_sim").collect();
    assert_eq!(names.len(), 14);
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').skip(1).collect()).collect();
    let mut differences = Vec::new();
    for (column, name) in names.iter().enumerate() {
        let test = tests::test(name).unwrap();
        for (index, (set, row)) in sets.iter().zip(&rows).enumerate() {
            let finding = test.run(set, 4);
            assert_ne!(finding.verdict, Verdict::Unknown);
            if finding.verdict.cell() != row[column] {
                differences.push(format!("{name} of set {index}: {finding:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn four_cpus_at_three_quarters() {
    compare(include_str!("data/airs_W3.0.csv"), include_str!("data/airs_W3.0_verdicts.csv"));
}

#[test]
fn four_cpus_at_nine_tenths() {
    compare(include_str!("data/airs_W3.6.csv"), include_str!("data/airs_W3.6_verdicts.csv"));
}

/// Set `number` of those with a total utilisation of `tenths`, from the generator that made the files: utilisations evenly between
/// 0.1 and 1, the last one trimmed, periods evenly between 1 and 100 ms, all from splitmix64.
fn airs(tenths: u64, number: u64) -> TaskSet {
    let mut state = 20_261_121 * 1_000_003 + tenths * 100_003 + number;
    let mut unit = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let (mut left, mut tasks) = (tenths as f64 / 10.0, Vec::new());
    while left > 1e-9 {
        let utilisation = (0.1 + 0.9 * unit()).min(left);
        left -= utilisation;
        let period = 1_000 + (unit() * 99_001.0) as u64;
        tasks.push(Task { runtime: ((utilisation * period as f64) as u64).max(1), deadline: period, period });
    }
    TaskSet::new(tasks, Span::from_us(1)).unwrap()
}

/// How many of 1000 sets are accepted at three points of AIRS's figure 13: counted once by another implementation of the tests,
/// which is not published.
#[test]
fn the_curves_of_figure_13() {
    let names = ["bcl", "gfb", "ff", "wf", "ffd", "wfd", "wm_ff", "wm_wf", "wm_ffd", "ceqd_ff", "ceqd_ffd"];
    for (tenths, known) in [
        (30, [53, 0, 991, 738, 995, 995, 1000, 965, 1000, 1000, 1000]),
        (34, [14, 0, 813, 392, 902, 900, 977, 840, 994, 991, 998]),
        (38, [0, 0, 200, 50, 433, 356, 632, 368, 859, 737, 902]),
    ] {
        let sets: Vec<TaskSet> = (0..1000).map(|number| airs(tenths, number)).collect();
        let accepted = |test: &str| {
            let test = tests::test(test).unwrap();
            sets.iter().filter(|set| test.run(set, 4).verdict == Verdict::Schedulable).count()
        };
        assert_eq!(names.map(accepted), known, "{names:?} at {tenths} tenths");
    }
    assert_eq!(airs(36, 99), sets(include_str!("data/airs_W3.6.csv"))[99]);
}
