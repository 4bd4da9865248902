//! Shared parts of Takt's tests: the property runner ([`for_all`]), the capabilities of machines ([`Capability`]),
//! imitated machines ([`sysfs`]), links of pages ([`links`]), and a browser for pages ([`browse`]).
//!
//! Every run draws from the same seed ([`FIXED`]), so a commit has the same result on every machine. `TAKT_SEED` chooses another seed, `TAKT_SEED=fresh` a fresh
//! one, and `TAKT_CASES` the number of cases; a failure prints both, with the command that repeats it. Continuous integration and campaigns draw
//! from fresh seeds ([`fresh_seed`]). The seed of a failing case is kept in a file beside the test (`NAME.proptest-regressions`), which belongs in the repository:
//! later runs begin with that case.

mod browser;
mod capability;
mod document;
pub mod links;
pub mod sysfs;

pub use browser::browse;
pub use capability::{Capability, SKIPPED, append, skip};
pub use document::table;
use proptest::strategy::Strategy;
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner,
};
use std::fmt::Debug;
use std::panic::Location;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed of all random cases, unless `TAKT_SEED` has another.
pub const FIXED: u64 = 20_061_127;

/// The value of `TAKT_SEED` for a fresh seed.
const FRESH: &str = "fresh";

/// The seed of all random cases of this process: `TAKT_SEED`, or else [`FIXED`].
///
/// # Panics
/// When `TAKT_SEED` is neither a number nor `fresh`.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        if std::env::var("TAKT_SEED").is_ok_and(|seed| seed == FRESH) {
            return drawn();
        }
        number("TAKT_SEED").unwrap_or(FIXED)
    })
}

/// The seed of a campaign: `TAKT_SEED`, or else a fresh one.
///
/// # Panics
/// When `TAKT_SEED` is neither a number nor `fresh`.
pub fn fresh_seed() -> u64 {
    if std::env::var_os("TAKT_SEED").is_some() { seed() } else { drawn() }
}

/// A seed from the clock and the number of this process.
fn drawn() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Short, because it is copied by hand.
    (since.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(17)) % 1_000_000_000
}

/// Schedulability tests of one policy, each with that policy.
const POLICIES: [(&str, &str); 11] = [
    ("edf", "edf"),
    ("ll", "rm"),
    ("hyperbolic", "rm"),
    ("rm-rta", "rm"),
    ("dm-rta", "dm"),
    ("gfb", "g-edf"),
    ("bcl", "g-edf"),
    ("bak", "g-edf"),
    ("gedf-rta", "g-edf"),
    ("grm-rta", "g-rm"),
    ("gdm-rta", "g-dm"),
];

/// The policy of a schedulability test of this name; `None` for tests that assign tasks to CPUs, and for the necessary one.
pub fn policy_of_test(name: &str) -> Option<&'static str> {
    POLICIES.iter().find(|(test, _)| *test == name).map(|(_, policy)| *policy)
}

/// The number of cases: `TAKT_CASES`, or else `default`.
///
/// # Panics
/// When `TAKT_CASES` is not a number.
pub fn cases(default: u32) -> u32 {
    number("TAKT_CASES").map_or(default, |n| u32::try_from(n).expect("TAKT_CASES is below 2^32"))
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is `{text}`, which is not a number")))
}

/// The command that repeats the present test with the same cases: `count` is their number.
pub fn repeat(count: u32) -> String {
    // Cargo sets the package for tests that it runs; a test's thread has its name.
    let package = std::env::var("CARGO_PKG_NAME").map_or(String::new(), |name| format!(" -p {name}"));
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").map_or(String::new(), |name| format!(" {name}"));
    format!("TAKT_SEED={} TAKT_CASES={count} cargo test{package}{test}", seed())
}

/// Whether the random cases of a test show enough: `least` among the default number of cases, and fewer among fewer. A property that hardly any
/// case meets is no test.
pub fn shows_enough(found: u32, least: u32, default: u32) -> bool {
    // Rounded down: few cases need not show everything.
    u64::from(found) >= u64::from(least) * u64::from(cases(default).min(default)) / u64::from(default)
}

/// A generator that is fast without optimisation.
pub fn generator(seed: u64) -> TestRng {
    // Not all zeros, whatever the seed is.
    let mut bytes = *b"takttakttakttakt";
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::XorShift, &bytes)
}

/// Checks a property on so many random cases, and on those that failed before.
///
/// # Panics
/// When a case fails. The message has the smallest case that was found and the command that repeats the test.
#[track_caller]
pub fn for_all<T: Debug>(
    count: u32,
    strategy: impl Strategy<Value = T>,
    check: impl Fn(T) -> Result<(), TestCaseError>,
) {
    let count = cases(count);
    let config = Config {
        cases: count,
        source_file: Some(Location::caller().file()),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..Config::default()
    };
    let result = TestRunner::new_with_rng(config, generator(seed())).run(&strategy, check);
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => {
            panic!("{why}\nsmallest failing case: {case:#?}\nrepeat with: {}", repeat(count))
        }
        Err(TestError::Abort(why)) => panic!("too few cases: {why}\nrepeat with: {}", repeat(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_failure_names_the_smallest_case_and_how_to_repeat_it() {
        let failed = std::panic::catch_unwind(|| {
            let config = Config { failure_persistence: None, ..Config::default() };
            let fails = |n: u32| if n < 1000 { Ok(()) } else { Err(TestCaseError::fail("too large")) };
            TestRunner::new_with_rng(config, generator(1)).run(&(0..1_000_000u32), fails)
        });
        assert!(matches!(failed, Ok(Err(TestError::Fail(_, 1000)))), "{failed:?}");
        let command = repeat(7);
        assert!(command.starts_with(&format!("TAKT_SEED={} TAKT_CASES=7 cargo test -p takt-rt-testing", seed())));
        assert!(command.ends_with("a_failure_names_the_smallest_case_and_how_to_repeat_it"), "{command}");
    }

    #[test]
    fn without_a_variable_the_seed_is_fixed_and_that_of_a_campaign_is_not() {
        // The variables of a process are shared, so a process of its own reads them.
        let read = |value: Option<&str>| {
            let mut test = std::process::Command::new(std::env::current_exe().expect("this test program"));
            test.args(["--exact", "tests::seeds_of_a_process", "--nocapture"]).env_remove("TAKT_SEED");
            let output = test.envs(value.map(|value| ("TAKT_SEED", value))).output().expect("it starts");
            let text = String::from_utf8(output.stdout).expect("text");
            let line = text.lines().find_map(|line| line.split_once("seeds: ")).expect("the line of that test").1;
            let mut seeds = line.split(' ').map(|seed| seed.parse().expect("a number"));
            (seeds.next().expect("its seed"), seeds.next().expect("that of a campaign"))
        };
        let (usual, campaign): (u64, u64) = read(None);
        assert_eq!(usual, FIXED);
        assert_ne!(campaign, FIXED);
        assert_ne!(read(None).1, campaign);
        assert_eq!(read(Some("7")), (7, 7));
        assert_ne!(read(Some("fresh")).0, read(Some("fresh")).0);
    }

    /// Prints what the test above reads from another process.
    #[test]
    fn seeds_of_a_process() {
        println!("\nseeds: {} {}", seed(), fresh_seed());
    }

    #[test]
    fn a_part_of_the_default_cases_is_enough() {
        let all = cases(200).min(200);
        assert!(shows_enough(all / 2, 100, 200) && !shows_enough(all / 2 - 1, 100, 200));
    }

    #[test]
    fn the_same_seed_draws_the_same_cases() {
        let drawn = |seed| {
            let values = std::cell::RefCell::new(Vec::new());
            let config = Config { failure_persistence: None, cases: 20, ..Config::default() };
            let note = |n: u64| {
                values.borrow_mut().push(n);
                Ok(())
            };
            TestRunner::new_with_rng(config, generator(seed)).run(&any::<u64>(), note).expect("nothing is checked");
            values.into_inner()
        };
        assert_eq!(drawn(5), drawn(5));
        assert_ne!(drawn(5), drawn(6));
    }

    #[test]
    fn a_property_that_holds_passes() {
        for_all(50, (0..100u32, 0..100u32), |(a, b)| {
            prop_assert_eq!(a + b, b + a);
            Ok(())
        });
    }
}
