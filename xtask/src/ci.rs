//! `cargo xtask ci`: exactly what continuous integration runs.

use crate::workspace::{Outcome, cargo};
use crate::{metal, tidy, vm};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What all steps together may take. The virtual machines, which come last, do not begin what would take longer.
const TIME: Duration = Duration::from_secs(36 * 60);

struct Step {
    name: &'static str,
    /// Is told when all of it has to be over.
    run: fn(Instant) -> Outcome,
}

const STEPS: &[Step] = &[
    Step { name: "format", run: |_| command(&["fmt", "--all", "--check"], &[]) },
    Step { name: "tidy", run: |_| tidy::run() },
    Step {
        name: "clippy",
        run: |_| command(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]),
    },
    Step { name: "tests", run: |_| tests() },
    Step { name: "the core on bare metal", run: |_| metal::run() },
    Step {
        name: "documentation",
        run: |_| command(&["doc", "--locked", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")]),
    },
    Step { name: "virtual machines", run: |until| vm::run(&vm::Options::until(until)) },
];

/// Runs the steps up to the first failure.
pub(crate) fn run() -> ExitCode {
    let (mut passed, mut failed, mut skipped) = (0, None, Vec::new());
    let until = Instant::now() + TIME;
    for step in STEPS {
        println!("== {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)(until);
        let time = start.elapsed().as_secs_f32();
        match outcome {
            Outcome::Passed => {
                passed += 1;
                println!("== {}: passed in {time:.1} s", step.name);
            }
            Outcome::Skipped(why) => {
                println!("== {}: SKIPPED: {why}", step.name);
                skipped.push((step.name, why));
            }
            Outcome::Failed(why) => {
                println!("== {}: FAILED in {time:.1} s: {why}", step.name);
                failed = Some(step.name);
                break;
            }
        }
    }
    println!();
    for (name, why) in &skipped {
        println!("SKIPPED: {name}: {why}");
    }
    if let Some(name) = failed {
        let rest: Vec<&str> = STEPS.iter().map(|s| s.name).skip_while(|n| *n != name).skip(1).collect();
        println!("FAILED: {name}; not run: {}", if rest.is_empty() { "none".into() } else { rest.join(", ") });
    }
    println!("{passed} passed, {} failed, {} skipped", usize::from(failed.is_some()), skipped.len());
    if failed.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    match cargo(arguments).envs(environment.iter().copied()).status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("cargo {}: {status}", arguments[0])),
        Err(e) => Outcome::Failed(format!("cargo cannot be started: {e}")),
    }
}

/// All tests. Those that could not be carried out here are told at the end, one by one; the others count.
fn tests() -> Outcome {
    let skipped = std::env::temp_dir().join(format!("takt-skipped-{}", std::process::id()));
    let environment = [
        ("TAKT_TESTS_SKIPPED", skipped.to_str().expect("a directory for temporary files")),
        // Properties are tried on the same cases in each run here, so that a failure is one of the change; `cargo test` draws others.
        ("PROPTEST_RNG_SEED", "1"),
    ];
    let outcome = command(&["test", "--locked", "--workspace", "--no-fail-fast"], &environment);
    let list = std::fs::read_to_string(&skipped).unwrap_or_default();
    let _ = std::fs::remove_file(skipped);
    list.lines().for_each(|line| println!("SKIPPED: {line}"));
    outcome
}
