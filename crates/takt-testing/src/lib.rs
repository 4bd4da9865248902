//! Shared parts of Takt's tests: the property runner ([`for_all`]), the capabilities of machines ([`Capability`]),
//! imitated machines ([`sysfs`]), and a browser for pages ([`browse`]).
//!
//! Every run draws from a fresh seed. `TAKT_SEED` chooses the seed and `TAKT_CASES` the number of cases; a failure prints both, with the command
//! that repeats it. The seed of a failing case is kept in a file beside the test (`NAME.proptest-regressions`), which belongs in the repository:
//! later runs begin with that case.

mod browser;
mod capability;
pub mod sysfs;

pub use browser::browse;
pub use capability::{Capability, SKIPPED, append, skip};
use proptest::strategy::Strategy;
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner,
};
use std::fmt::Debug;
use std::panic::Location;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed of all random cases of this process: `TAKT_SEED`, or else a fresh one.
///
/// # Panics
/// When `TAKT_SEED` is not a number.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        number("TAKT_SEED").unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // Short, because it is copied by hand.
            (since.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(17)) % 1_000_000_000
        })
    })
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
        assert!(command.starts_with(&format!("TAKT_SEED={} TAKT_CASES=7 cargo test -p takt-testing", seed())));
        assert!(command.ends_with("a_failure_names_the_smallest_case_and_how_to_repeat_it"), "{command}");
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
