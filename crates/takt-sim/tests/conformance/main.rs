//! What every policy of the registry must keep, whatever happens: checked over random systems and random inputs, on time
//! and late, by a ledger that believes only commands and records.
//!
//! `TAKT_SEED` and `TAKT_CASES` choose other and more cases; a failure prints both and the smallest case found. `TAKT_POLICY`
//! chooses one policy.

mod case;
mod choices;
mod fair;
mod jobs;
mod ledger;
mod mutants;
mod orders;
mod reservations;
mod rounds;
mod rules;
mod servers;
mod sharing;

use case::{Case, specs};
use ledger::Ledger;
use mutants::Fault;
use orders::Order;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use takt_core::engine::Engine;
use takt_core::model::{Invalid, PolicySpec};
use takt_core::record::{Record, Sink};
use takt_core::registry::REGISTRY;
use takt_sim::Step;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

thread_local! {
    static ATTEMPT: Cell<bool> = const { Cell::new(false) };
    /// The last steps of the present case, for the message when it fails.
    static STEPS: RefCell<VecDeque<(Step, Vec<Record>)>> = const { RefCell::new(VecDeque::new()) };
}

/// Cases begun, by all tests of this program.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Ends the program when no case has ended for a minute: a loop without records in it shows in nothing else.
fn watch(seed: &'static AtomicU64, test: &'static str) {
    std::thread::spawn(move || {
        let mut before = u64::MAX;
        loop {
            let begun = BEGUN.load(Relaxed);
            if begun == before {
                let (seed, cases) = (seed.load(Relaxed), setting("TAKT_CASES", u64::from(FUZZ_CASES)));
                eprintln!(
                    "a step does not end\nrepeat with: TAKT_SEED={seed} TAKT_CASES={cases} cargo test -p takt-sim --test conformance {test}"
                );
                std::process::abort();
            }
            before = begun;
            std::thread::sleep(Duration::from_secs(60));
        }
    });
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
    try_seed(setting("TAKT_SEED", 1), setting("TAKT_CASES", default) as u32, what, policy, cases, check);
}

/// The same with a seed and a number of cases of its own.
fn try_seed<T: Debug>(
    seed: u64,
    count: u32,
    what: &str,
    policy: &str,
    cases: impl Strategy<Value = T>,
    check: impl Fn(T),
) {
    // A generator that is fast without optimisation; its seed must not be all zeros.
    let mut bytes = *b"takttakttakttakt";
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: count, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &bytes));
    silence_attempts();
    let result = runner.run(&cases, |case| {
        BEGUN.fetch_add(1, Relaxed);
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

/// The policies to try: all, or the one that `TAKT_POLICY` names.
fn tried() -> Vec<PolicySpec> {
    let only = std::env::var("TAKT_POLICY").ok();
    specs().into_iter().filter(|spec| only.as_ref().is_none_or(|only| *only == name(*spec))).collect()
}

fn name(spec: PolicySpec) -> String {
    format!("{}{}", spec.prefix(), spec.profile.name)
}

fn note(step: &Step, records: &[Record]) {
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

/// The records of a run, so many of one step at most: what never ends is found out.
#[derive(Default)]
struct Log {
    records: Vec<Record>,
    most: usize,
}

/// More than any step of these small systems needs, however late it comes.
const RECORDS_PER_STEP: usize = 20_000;

impl Sink for Log {
    fn record(&mut self, record: Record) {
        assert!(self.records.len() < self.most, "a step does not end: {:?}", &self.records[self.most - 20..]);
        self.records.push(record);
    }
}

/// Plays a case under the eyes of a ledger. Returns the steps taken and the records.
fn play(case: &Case) -> (Vec<Step>, Vec<Record>) {
    play_and(case, false)
}

/// The same; if `drains`, all jobs that can complete do so before the end.
fn play_and(case: &Case, drains: bool) -> (Vec<Step>, Vec<Record>) {
    let mut engine = mutants::engine(case.system.clone()).unwrap_or_else(|e| panic!("{e}"));
    let mut ledger = Ledger::new(&case.system, case.metered(), case.skew());
    let (mut steps, mut log) = (Vec::new(), Log::default());
    STEPS.with_borrow_mut(VecDeque::clear);
    let mut take = |step: Step, engine: &mut Engine, ledger: &mut Ledger, log: &mut Log| {
        let before = log.records.len();
        log.most = before + RECORDS_PER_STEP;
        let on_time = engine.next_due().is_none_or(|due| due >= step.now);
        ledger.time_passes(step.now, on_time);
        let commands = engine.step(step.now, &step.inputs, log).to_vec();
        note(&step, &log.records[before..]);
        ledger.stepped(&step.inputs, &commands, &log.records[before..], engine);
        steps.push(step);
    };
    for (number, turn) in case.turns.iter().enumerate() {
        if let Some((_, to)) = case.switch.filter(|(at, _)| *at == number) {
            let before = log.records.len();
            log.most = before + RECORDS_PER_STEP;
            match engine.switch_policy(to, &mut log) {
                Ok(()) => ledger.switched(to, &log.records[before..], &engine),
                // It refuses the system or wants more than there is; the old one goes on.
                Err(Invalid::Unsuitable(_) | Invalid::Setting(_)) => assert_eq!(log.records.len(), before),
                Err(error) => panic!("{}: {error}", name(to)),
            }
        }
        take(turn.step(&engine), &mut engine, &mut ledger, &mut log);
    }
    if drains && !ledger.tabled() {
        // Time stands still, so that nothing is released: each step brings at least one job to its end.
        let most = 10 + 2 * engine.totals().released;
        for round in 0.. {
            let inputs = case::draining(&engine);
            if inputs.is_empty() {
                break;
            }
            assert!(round < most, "{inputs:?} go on for ever");
            take(Step { now: engine.now(), inputs }, &mut engine, &mut ledger, &mut log);
        }
        rules::drained(&ledger);
    }
    let last = case.last(&engine);
    let before = log.records.len();
    log.most = before + RECORDS_PER_STEP;
    engine.close(last.now, &last.inputs, &mut log);
    note(&last, &log.records[before..]);
    ledger.closed(last.now, &log.records[before..], &engine);
    steps.push(last);
    (steps, log.records)
}

/// Plays a case in silence; what is wrong with it.
fn attempt(case: &Case) -> Result<(), String> {
    silence_attempts();
    ATTEMPT.set(true);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(play(case))));
    ATTEMPT.set(false);
    outcome.map_err(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        text.or_else(|| cause.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
    })
}

#[test]
fn every_policy_names_its_order() {
    for entry in REGISTRY {
        let name = entry.profile.name;
        assert!(
            orders::order(&entry.profile).is_some(),
            "{name}: state its order in orders.rs, or say there why it has none"
        );
    }
}

#[test]
fn a_policy_that_runs_another_job_than_it_should_is_found() {
    let guests = |spec: &PolicySpec| orders::order(spec.profile) == Some(Order::Guests);
    for spec in tried().into_iter().filter(|spec| !guests(spec)) {
        let ahead = |found: &str| found.contains("although it is ahead");
        must_be_found(spec, Fault::Reversed, ahead);
    }
}

#[test]
fn a_policy_that_leaves_a_cpu_idle_is_found() {
    for spec in tried().into_iter().filter(|spec| mutants::conserves(*spec)) {
        must_be_found(spec, Fault::Idle, |found| found.contains("is idle"));
    }
}

fn must_be_found(spec: PolicySpec, fault: Fault, message: impl Fn(&str) -> bool) {
    let cases = (setting("TAKT_SEED", 1), setting("TAKT_CASES", 400) as u32);
    let found = mutants::is_found(mutants::with(spec, fault), cases, attempt, message);
    found.unwrap_or_else(|other| panic!("{}: its {fault:?} form passes: {other}", name(spec)));
}

#[test]
fn every_policy_keeps_the_rules() {
    for spec in tried() {
        try_cases("every_policy_keeps_the_rules", 200, &name(spec), case::cases(spec), |case| drop(play(&case)));
    }
}

#[test]
fn a_late_run_replays_bit_for_bit() {
    for spec in tried() {
        try_cases("a_late_run_replays_bit_for_bit", 50, &name(spec), case::cases(spec), |case| {
            let (steps, records) = play(&case);
            let mut again: Vec<Record> = Vec::new();
            takt_sim::replay(&mut mutants::engine(case.system.clone()).unwrap(), &steps, &mut again);
            assert!(records == again, "the replay differs: {records:?} and {again:?}");
        });
    }
}

#[test]
fn a_switch_of_policies_in_the_middle_loses_no_job() {
    for from in tried() {
        let test = "a_switch_of_policies_in_the_middle_loses_no_job";
        try_cases(test, 80, &name(from), case::switches(from), |case| drop(play(&case)));
    }
}

/// `TAKT_FUZZ_SECONDS` has it go on for so long with fresh seeds.
#[test]
fn random_operations_lose_no_job_and_come_to_an_end() {
    static SEED: AtomicU64 = AtomicU64::new(0);
    let test = "random_operations_lose_no_job_and_come_to_an_end";
    watch(&SEED, test);
    let seconds = setting("TAKT_FUZZ_SECONDS", 0);
    let fuzz = |seed, count| {
        SEED.store(seed, Relaxed);
        try_seed(seed, count, test, "operations", case::operations(), |case| drop(play_and(&case, true)));
    };
    if seconds == 0 {
        return fuzz(setting("TAKT_SEED", 1), setting("TAKT_CASES", u64::from(FUZZ_CASES)) as u32);
    }
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    let first = setting("TAKT_SEED", since_1970.as_secs());
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        fuzz(first + rounds, FUZZ_CASES);
        rounds += 1;
    }
    println!("{} cases, seeds {first} to {}", rounds * u64::from(FUZZ_CASES), first + rounds - 1);
}

/// Cases of one seed.
const FUZZ_CASES: u32 = 1_000;
