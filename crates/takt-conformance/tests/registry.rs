//! Every policy of the registry is tried by the conformance suite.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use takt_conformance::{Failure, Fault, Suite};
use takt_core::policy::Registry;

fn suite() -> Suite {
    Suite::new(Registry::standard())
}

/// Fails with the first policy that fails.
fn all(check: impl Fn(&Suite, takt_core::model::PolicySpec) -> Result<(), Failure>) {
    let suite = suite();
    for form in suite.forms() {
        check(&suite, form).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn every_policy_names_its_order() {
    for entry in Registry::standard().entries() {
        let name = entry.profile.name;
        assert!(
            suite().knows_order(&entry.profile),
            "{name}: state its order in orders.rs, or say there why it has none"
        );
    }
}

#[test]
fn a_policy_that_runs_another_job_than_it_should_is_found() {
    all(|suite, form| suite.fault(form, Fault::Reversed));
}

#[test]
fn a_policy_that_leaves_a_cpu_idle_is_found() {
    all(|suite, form| suite.fault(form, Fault::Idle));
}

#[test]
fn every_policy_keeps_the_rules() {
    all(Suite::rules);
}

#[test]
fn a_late_run_replays_bit_for_bit() {
    all(Suite::replay);
}

#[test]
fn an_exchange_has_the_effect_of_a_decision() {
    all(Suite::exchanges);
}

#[test]
fn a_switch_of_policies_in_the_middle_loses_no_job() {
    all(Suite::switches);
}

#[test]
fn a_policy_that_is_not_there_is_none() {
    let failure = suite().check("nobody").expect_err("no such policy");
    assert!(failure.to_string().contains("the registry does not hold this policy"), "{failure}");
}

/// Ends the program when no round has ended for ten minutes: a loop without records in it shows in nothing else.
fn watch(round: &'static AtomicU64) {
    std::thread::spawn(move || {
        let mut before = u64::MAX;
        loop {
            let begun = round.load(Relaxed);
            if begun == before {
                eprintln!("a step does not end in the round with TAKT_SEED={begun}");
                std::process::abort();
            }
            before = begun;
            std::thread::sleep(Duration::from_secs(600));
        }
    });
}

/// `TAKT_FUZZ_SECONDS` lets it run for so long with fresh seeds.
#[test]
fn random_operations_lose_no_job_and_come_to_an_end() {
    static ROUND: AtomicU64 = AtomicU64::new(0);
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let fuzz = |suite: Suite| suite.operations().unwrap_or_else(|failure| panic!("{failure}"));
    let Some(seconds) = number("TAKT_FUZZ_SECONDS") else { return fuzz(suite()) };
    let first = takt_testing::fresh_seed();
    let (start, mut rounds) = (Instant::now(), 0);
    watch(&ROUND);
    while start.elapsed() < Duration::from_secs(seconds) {
        ROUND.store(first + rounds, Relaxed);
        fuzz(suite().seed(first + rounds));
        rounds += 1;
    }
    println!("{rounds} rounds, seeds {first} to {}", first + rounds - 1);
}
