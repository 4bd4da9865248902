//! Properties over random cases. `TAKT_SEED` and `TAKT_CASES` choose other and more of them; a failure prints both.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Tries random cases.
#[track_caller]
pub(crate) fn for_all<T: std::fmt::Debug>(
    cases: u64,
    strategy: impl Strategy<Value = T>,
    check: impl Fn(T) -> Result<(), TestCaseError>,
) {
    let setting = |name: &str, default| std::env::var(name).map_or(default, |v| v.parse().expect("a number"));
    let (seed, cases) = (setting("TAKT_SEED", 1), setting("TAKT_CASES", cases) as u32);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    if let Err(error) = runner.run(&strategy, check) {
        panic!("{error}\nrepeat with TAKT_SEED={seed} TAKT_CASES={cases}");
    }
}
