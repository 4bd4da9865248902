//! What every policy of the registry must keep, whatever happens: checked over random systems and random inputs, on time
//! and late, by a ledger that believes only commands and records.
//!
//! `TAKT_SEED` and `TAKT_CASES` choose other and more cases; a failure prints both and the smallest case found.

mod case;
mod ledger;

use case::{Case, specs};
use ledger::Ledger;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Once;
use takt_core::engine::Engine;
use takt_core::policy::{PolicySpec, Scope};
use takt_core::record::Record;
use takt_sim::Step;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

thread_local! {
    static ATTEMPT: Cell<bool> = const { Cell::new(false) };
}

/// While the smallest failing case is searched, the failures on the way say nothing.
fn silence_attempts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !ATTEMPT.get() {
                report(panic);
            }
        }));
    });
}

/// Tries random cases; `what` names the test for the line that says how to repeat.
fn try_cases<T: Debug>(what: &str, default: u64, policy: &str, cases: impl Strategy<Value = T>, check: impl Fn(T)) {
    let (seed, count) = (setting("TAKT_SEED", 1), setting("TAKT_CASES", default) as u32);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: count, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    silence_attempts();
    let result = runner.run(&cases, |case| {
        ATTEMPT.set(true);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(case)));
        ATTEMPT.set(false);
        outcome.map_err(|cause| {
            let text = cause.downcast_ref::<String>().cloned();
            let text = text.or_else(|| cause.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            TestCaseError::fail(text.unwrap_or_default())
        })
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!(
            "{policy}: {why}\nsmallest case: {case:?}\nrepeat with: \
             TAKT_SEED={seed} TAKT_CASES={count} cargo test -p takt-sim --test conformance {what}"
        ),
        Err(TestError::Abort(why)) => panic!("{policy}: {why}"),
    }
}

fn name(spec: PolicySpec) -> String {
    format!("{}{}", spec.prefix(), spec.entry.name)
}

/// Plays a case under the eyes of a ledger. Returns the steps taken and the records.
fn play(case: &Case) -> (Vec<Step>, Vec<Record>) {
    let mut engine = Engine::new(case.system.clone()).unwrap_or_else(|e| panic!("{e}"));
    let mut ledger = Ledger::new(&case.system, case.metered());
    let (mut steps, mut records) = (Vec::new(), Vec::new());
    for (number, turn) in case.turns.iter().enumerate() {
        if let Some((_, to)) = case.switch.filter(|(at, _)| *at == number) {
            let before = records.len();
            engine.switch_policy(to, &mut records).unwrap_or_else(|e| panic!("{}: {e}", name(to)));
            ledger.switched(to, &records[before..], engine.now());
        }
        let step = turn.step(&engine);
        let before = records.len();
        let on_time = engine.next_due().is_none_or(|due| due >= step.now);
        ledger.time_passes(step.now, on_time);
        let commands = engine.step(step.now, &step.inputs, &mut records).to_vec();
        ledger.stepped(step.now, &commands, &records[before..], &engine);
        steps.push(step);
    }
    let last = Step { now: case.end(&engine), inputs: vec![] };
    let before = records.len();
    engine.close(last.now, &last.inputs, &mut records);
    ledger.closed(last.now, &records[before..], &engine);
    steps.push(last);
    (steps, records)
}

#[test]
fn every_policy_keeps_the_rules() {
    for spec in specs() {
        try_cases("every_policy_keeps_the_rules", 200, &name(spec), case::cases(spec), |case| drop(play(&case)));
    }
}

#[test]
fn a_late_run_replays_bit_for_bit() {
    for spec in specs() {
        try_cases("a_late_run_replays_bit_for_bit", 50, &name(spec), case::cases(spec), |case| {
            let (steps, records) = play(&case);
            let mut again: Vec<Record> = Vec::new();
            takt_sim::replay(&mut Engine::new(case.system.clone()).unwrap(), &steps, &mut again);
            assert!(records == again, "the replay differs: {records:?} and {again:?}");
        });
    }
}

#[test]
fn a_switch_of_policies_in_the_middle_loses_no_job() {
    for from in specs() {
        for to in specs() {
            // A table and an online policy suit the same system only when every partition has a guest; see `case`.
            let tables = (from.scope == Scope::Table, to.scope == Scope::Table);
            if tables == (false, true) {
                continue;
            }
            let pair = format!("{} to {}", name(from), name(to));
            try_cases("a_switch_of_policies_in_the_middle_loses_no_job", 20, &pair, case::switches(from, to), |case| {
                drop(play(&case));
            });
        }
    }
}
