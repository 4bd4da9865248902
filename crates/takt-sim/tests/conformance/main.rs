//! What every policy of the registry must keep, whatever happens: checked over random systems and random inputs, on time
//! and late, by a ledger that believes only commands and records.
//!
//! `TAKT_SEED` and `TAKT_CASES` choose other and more cases; a failure prints both and the smallest case found.

mod case;
mod jobs;
mod ledger;
mod rules;
mod sharing;

use case::{Case, specs};
use ledger::Ledger;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::Once;
use takt_core::engine::Engine;
use takt_core::model::Invalid;
use takt_core::policy::PolicySpec;
use takt_core::record::Record;
use takt_sim::Step;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

thread_local! {
    static ATTEMPT: Cell<bool> = const { Cell::new(false) };
    /// The last steps of the present case, for the message when it fails.
    static STEPS: RefCell<VecDeque<(Step, Vec<Record>)>> = const { RefCell::new(VecDeque::new()) };
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
    // A generator that is fast without optimisation; its seed must not be all zeros.
    let mut bytes = *b"takttakttakttakt";
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: count, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &bytes));
    silence_attempts();
    let result = runner.run(&cases, |case| {
        ATTEMPT.set(true);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(case)));
        ATTEMPT.set(false);
        outcome.map_err(|cause| {
            let text = cause.downcast_ref::<String>().cloned();
            let text = text.or_else(|| cause.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            TestCaseError::fail(format!("{}\n{}", text.unwrap_or_default(), logged()))
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

fn log(step: &Step, records: &[Record]) {
    STEPS.with_borrow_mut(|steps| {
        if steps.len() == 12 {
            steps.pop_front();
        }
        steps.push_back((step.clone(), records.to_vec()));
    });
}

/// The steps logged, as lines.
fn logged() -> String {
    let mut lines = String::from("last steps:");
    STEPS.with_borrow(|steps| {
        for (step, records) in steps {
            write!(lines, "\n  {} {:?}", step.now, step.inputs).expect("a string takes everything");
            for record in records {
                write!(lines, "\n    {} {:?}", record.at, record.what).expect("a string takes everything");
            }
        }
    });
    lines
}

/// Plays a case under the eyes of a ledger. Returns the steps taken and the records.
fn play(case: &Case) -> (Vec<Step>, Vec<Record>) {
    let mut engine = Engine::new(case.system.clone()).unwrap_or_else(|e| panic!("{e}"));
    let mut ledger = Ledger::new(&case.system, case.metered(), case.skew());
    let (mut steps, mut records) = (Vec::new(), Vec::new());
    STEPS.with_borrow_mut(VecDeque::clear);
    for (number, turn) in case.turns.iter().enumerate() {
        if let Some((_, to)) = case.switch.filter(|(at, _)| *at == number) {
            let before = records.len();
            match engine.switch_policy(to, &mut records) {
                Ok(()) => ledger.switched(to, &records[before..]),
                // It refuses the system or wants more than there is; the old one goes on.
                Err(Invalid::Unsuitable(_) | Invalid::Setting(_)) => assert_eq!(records.len(), before),
                Err(error) => panic!("{}: {error}", name(to)),
            }
        }
        let step = turn.step(&engine);
        let before = records.len();
        let on_time = engine.next_due().is_none_or(|due| due >= step.now);
        ledger.time_passes(step.now, on_time);
        let commands = engine.step(step.now, &step.inputs, &mut records).to_vec();
        log(&step, &records[before..]);
        ledger.stepped(&step.inputs, &commands, &records[before..], &engine);
        steps.push(step);
    }
    let last = case.last(&engine);
    let before = records.len();
    engine.close(last.now, &last.inputs, &mut records);
    log(&last, &records[before..]);
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
        let test = "a_switch_of_policies_in_the_middle_loses_no_job";
        try_cases(test, 80, &name(from), case::switches(from), |case| drop(play(&case)));
    }
}
