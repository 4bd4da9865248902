//! The witness of a verdict: an exact no has a job that misses its deadline, and a yes has none.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::cell::Cell;
use std::fmt::Write;
use takt::check::witness;
use takt::{Answer, LoadOptions, SimulateOptions};

#[derive(Clone, Debug)]
struct Row {
    period: u64,
    runtime: u64,
    deadline: u64,
    spread: u64,
}

fn row() -> impl Strategy<Value = Row> {
    (select(vec![4, 5, 6, 8, 10, 12]), 1..=5_u64, 0..=4_u64, select(vec![0, 0, 3])).prop_map(
        |(period, runtime, earlier, spread)| {
            let runtime = runtime.min(period);
            Row { period, runtime, deadline: (period - earlier.min(period)).max(runtime), spread }
        },
    )
}

fn text(policy: &str, rows: &[Row]) -> String {
    let mut text = format!("policy: {policy}\ncpus: 0\ntasks:\n");
    for (index, Row { period, runtime, deadline, spread }) in rows.iter().enumerate() {
        writeln!(
            text,
            "- {{name: t{index}, period: {period}ms, runtime: {runtime}ms, deadline: {deadline}ms, spread: {spread}ms}}"
        )
        .expect("a string takes any text");
    }
    text
}

#[test]
fn an_exact_no_has_a_witness_and_a_yes_has_none() {
    let (yes, no) = (Cell::new(0), Cell::new(0));
    takt_testing::for_all(300, (select(vec!["edf", "rm", "dm"]), vec(row(), 1..4)), |(policy, rows)| {
        let text = text(policy, &rows);
        let options = LoadOptions::default();
        let workload = takt::load_text("w.yaml", &text, &options).expect("a workload");
        let check = takt::check(&workload).expect("a policy of one CPU");
        let search = witness(&workload, || true).expect("a simulation");
        match (check.answer(), &search.witness) {
            (Answer::Yes, None) => yes.set(yes.get() + 1),
            // A sufficient test.
            (Answer::Unknown, _) => {}
            (Answer::No, Some(found)) => {
                no.set(no.get() + 1);
                // The written file misses this deadline at its end, and no other one before.
                let written = takt_workload::canonical(&found.workload);
                let late = takt::load_text("late.yaml", &written, &options).expect("the canonical form");
                let simulation = takt::simulate(&late, &SimulateOptions::default()).expect("a simulation");
                prop_assert!(simulation.counts.iter().any(|counts| counts.missed > 0), "{written}");
                prop_assert_eq!(simulation.end.ns(), found.deadline_ns, "{}", written);
                let shorter = Some(takt::Span::from_ns(found.deadline_ns - 1));
                let options = SimulateOptions { duration: shorter, ..SimulateOptions::default() };
                let before = takt::simulate(&late, &options).expect("a simulation");
                prop_assert!(before.counts.iter().all(|counts| counts.missed == 0), "{written}");
            }
            (answer, found) => {
                let job = found.as_ref().map(|found| (&found.task, found.job));
                prop_assert!(false, "{answer:?}, and {job:?} misses its deadline\n{text}");
            }
        }
        Ok(())
    });
    assert!(yes.get() > 30 && no.get() > 30, "{yes:?} yes, {no:?} no");
}
