//! `cargo xtask campaign`: what has no end, for as long as it is given. By hand, or by night.
//!
//! Three parts share the time: properties under fresh seeds, fuzz targets (`fuzz/`), and mutants of the engine and the policies. Each runs to its
//! end although another one has found something. Verdicts of drawn files that a simulation refutes are sought only when they are asked for
//! (`--only verdicts`), from a seed that is printed: `TAKT_SEED` continues there. The other parts, over real processes, have lengths of their own, and come only
//! when they are asked for: kills and many clients (`--only faults`), commands of `takt ctl` (`--only soak`), faults around
//! runs (`--only recovery`), limits of processes (`--only limits`), isolations that are killed, here and in a virtual machine (`--only isolate`), containers
//! beside each other (`--only another-namespace`), the outcomes of each drawn workload by
//! each mechanism (`--only outcomes`), attempts of another user against runs of root (`--only another-user`),
//! and large files and modules (`--only large-input`).

use crate::vm;
use crate::workspace::{Outcome, cargo, released, root};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The fuzz targets, and where the files are that each begins with.
const TARGETS: [(&str, &[&str]); 6] = [
    ("workload", &["workloads", "workloads/features", "crates/takt-sim/tests/data"]),
    ("importers", &["workloads/chronos", "crates/takt-workload/tests/imports"]),
    ("traces", &["crates/takt-cli/tests/records"]),
    ("replay", &["crates/takt-cli/tests/records"]),
    ("engine", &[]),
    ("control", &[]),
];

/// The longest file that a fuzz target begins with.
const LONGEST_SEED: u64 = 8 << 10;

/// The mutants that a sample has, and the most of them that may survive.
const MUTANTS: usize = 100;
const SURVIVORS: f64 = 0.05;
/// The packages whose tests have to find them, and how many random cases each property has there. Most mutants are found by few cases, and the
/// others meet all of them.
const SUITES: [(&str, Option<&str>); 5] = [
    ("takt-rt-core", None),
    ("takt-rt-sim", Some("24")),
    ("takt-rt-conformance", Some("12")),
    ("takt-rt-sim", None),
    ("takt-rt-conformance", None),
];
/// The longest that the tests of a package may take with a mutant.
const TEST_TIME: Duration = Duration::from_secs(600);
/// The longest that a build may take.
const BUILD_TIME: Duration = Duration::from_secs(1200);

/// The packages whose tests are about random cases and need no real processes.
pub(crate) const PACKAGES: [&str; 8] = [
    "takt-rt-core",
    "takt-rt-sim",
    "takt-rt-conformance",
    "takt-rt-analysis",
    "takt-rt-workload",
    "takt-rt-trace",
    "takt-rt-exec",
    "edzl",
];

/// The request.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    minutes: u64,
    only: Option<Part>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Part {
    Properties,
    Fuzz,
    Mutants,
    Faults,
    Soak,
    Recovery,
    Outcomes,
    Isolate,
    AnotherUser,
    AnotherNamespace,
    Verdicts,
    Limits,
    LargeInput,
}

/// Tries a part for so long.
type Try = fn(Duration) -> Result<Findings>;

const PARTS: [(&str, Part, Try); 13] = [
    ("properties", Part::Properties, properties),
    ("fuzz", Part::Fuzz, fuzz),
    ("mutants", Part::Mutants, mutants),
    ("faults", Part::Faults, faults),
    ("soak", Part::Soak, soak),
    ("recovery", Part::Recovery, recovery),
    ("outcomes", Part::Outcomes, outcomes),
    ("isolate", Part::Isolate, isolate),
    ("another-user", Part::AnotherUser, another_user),
    ("another-namespace", Part::AnotherNamespace, another_namespace),
    ("verdicts", Part::Verdicts, verdicts),
    ("limits", Part::Limits, limits),
    ("large-input", Part::LargeInput, large_input),
];

/// How many files a round of `verdicts` draws.
const FILES: u64 = 20_000;

/// The findings of a part, a line each; or why it could not be tried.
enum Findings {
    Found(Vec<String>),
    Skipped(String),
}

impl Options {
    /// `None`: that is not how it is called.
    pub(crate) fn parse(arguments: &[&str]) -> Option<Options> {
        let mut options = Options { minutes: 60, only: None };
        for pair in arguments.chunks(2) {
            match *pair {
                ["--minutes", minutes] => options.minutes = minutes.parse().ok().filter(|n| *n > 0)?,
                ["--only", part] => options.only = Some(PARTS.iter().find(|(name, ..)| *name == part)?.1),
                _ => return None,
            }
        }
        Some(options)
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let chosen = PARTS.iter().filter(|(_, part, _)| {
        let shares = matches!(part, Part::Properties | Part::Fuzz | Part::Mutants);
        options.only.map_or(shares, |only| only == *part)
    });
    let chosen: Vec<_> = chosen.collect();
    let each = Duration::from_secs(options.minutes * 60) / chosen.len() as u32;
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for (name, _, part) in chosen {
        println!("== {name}: {} min", each.as_secs() / 60);
        match part(each) {
            Ok(Findings::Found(lines)) => {
                println!("== {name}: {} findings", lines.len());
                found.extend(lines);
            }
            Ok(Findings::Skipped(why)) => skipped.push(format!("{name}: {why}")),
            Err(error) => found.push(format!("{name} could not be tried: {error:#}")),
        }
    }
    println!();
    skipped.iter().for_each(|line| println!("SKIPPED: {line}"));
    found.iter().for_each(|line| println!("FOUND: {line}"));
    match found.len() {
        0 => Outcome::Passed,
        n => Outcome::Failed(format!("{n} findings")),
    }
}

/// Files whose verdicts a simulation tries to refute, round after round. Each round has the next seed, so `TAKT_SEED` of the last line
/// continues an interrupted campaign.
fn verdicts(time: Duration) -> Result<Findings> {
    let (begun, mut found, mut files) = (Instant::now(), Vec::new(), 0);
    let mut seed = takt_testing::fresh_seed();
    let arguments = [
        "test",
        "--locked",
        "--release",
        "--quiet",
        "--package",
        "takt-rt",
        "--test",
        "refute",
        "no_verdict",
        "--",
        "--nocapture",
    ];
    while files == 0 || begun.elapsed() < time {
        let mut round = cargo(&arguments);
        round.env("TAKT_SEED", seed.to_string()).env("TAKT_CASES", FILES.to_string());
        let output = round.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        text.lines().filter(|line| line.contains(" with a yes or a bound")).for_each(|line| println!("{line}"));
        if !output.status.success() {
            let repeat = text.lines().find_map(|line| line.split_once("repeat with: "));
            found.push(
                repeat.map_or_else(|| format!("TAKT_SEED={seed}: {}", output.status), |(_, repeat)| repeat.into()),
            );
        }
        files += FILES;
        seed += 1;
        println!("{files} files, {} refuted; TAKT_SEED={seed} continues", found.len());
    }
    Ok(Findings::Found(found))
}

/// All property tests under one fresh seed after another.
fn properties(time: Duration) -> Result<Findings> {
    let (begun, mut found) = (Instant::now(), Vec::new());
    let mut seed = takt_testing::fresh_seed();
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let arguments: Vec<&str> = ["test", "--locked", "--no-fail-fast", "--quiet"].into_iter().chain(packages).collect();
    let mut rounds = 0;
    while rounds == 0 || begun.elapsed() < time {
        let round = Instant::now();
        let output = cargo(&arguments).env("TAKT_SEED", seed.to_string()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let repeats: BTreeSet<&str> =
            text.lines().filter_map(|line| line.split_once("repeat with: ")?.1.into()).collect();
        println!("TAKT_SEED={seed}: {} in {:.0} s", output.status, round.elapsed().as_secs_f32());
        if !output.status.success() && repeats.is_empty() {
            found.push(format!("TAKT_SEED={seed} cargo test: {}", text.lines().last().unwrap_or_default()));
        }
        found.extend(repeats.into_iter().map(str::to_owned));
        seed += 1;
        rounds += 1;
    }
    println!("{rounds} rounds");
    Ok(Findings::Found(found))
}

/// 500 kills of clients and of Takt under fresh seeds, 1000 clients for a minute, and 10,000 that come and go. They take over ten minutes.
fn faults(_: Duration) -> Result<Findings> {
    real("real", &[("real::faults::", "TAKT_KILLS", "500"), ("real::scale::", "TAKT_SCALE", "full")])
}

/// Ten minutes of runs to which something happens at random moments.
fn recovery(_: Duration) -> Result<Findings> {
    real("real", &[("real::recovery::random_faults", "TAKT_RECOVERY", "600")])
}

/// Another user, who tries against a hundred runs of root whatever the kernel might allow.
fn another_user(_: Duration) -> Result<Findings> {
    real(
        "real",
        &[
            ("real::security::another_user_succeeds_in_no_attempt", "TAKT_OTHER_USER", "50"),
            ("real::security::a_lease_of_another_user_delays_no_output", "TAKT_OTHER_USER", "1"),
            ("real::security::links_of_another_user_lead_to_no_file_of_root", "TAKT_OTHER_USER", "1"),
            ("real::security::an_environment_that_cannot_be_read_delays_no_clean_up", "TAKT_OTHER_USER", "1"),
        ],
    )
}

/// Files with 60,000 tasks for sixty runs, each of which ends while it reads one; and modules that would take all memory.
fn large_input(_: Duration) -> Result<Findings> {
    real(
        "real",
        &[
            ("real::control::a_large_file_delays_no_end", "TAKT_LARGE", "60"),
            ("real::modules::files_that_are_no_policies", "TAKT_LARGE", "1"),
        ],
    )
}

/// Fifty runs with random commands, and two that are changed for ten minutes each, with clients that are cut off.
fn soak(_: Duration) -> Result<Findings> {
    real(
        "real",
        &[
            ("real::control::random_commands", "TAKT_SEQUENCES", "50"),
            ("real::control::a_run_that_is_changed_all_the_time", "TAKT_SOAK", "600"),
            ("real::control::a_run_whose_tables_are_reloaded_all_the_time", "TAKT_SOAK", "600"),
        ],
    )
}

/// A hundred random sequences of isolations that are killed, here, and in a virtual machine with two of them at once. And the advice about three planted
/// disturbances.
fn isolate(_: Duration) -> Result<Findings> {
    let tests = [
        ("real::isolate::random_sequences", "TAKT_ISOLATIONS", "100"),
        ("real::isolate::advice_names_planted_disturbances", "TAKT_ADVICE", "40"),
    ];
    let found = real("real", &tests)?;
    let Findings::Found(mut lines) = found else { return Ok(found) };
    match vm::run(&vm::Options::isolate(100)) {
        Outcome::Passed => {}
        Outcome::Failed(why) => lines.push(format!("cargo xtask vm --isolate: {why}")),
        Outcome::Skipped(why) => println!("virtual machine skipped: {why}"),
    }
    Ok(Findings::Found(lines))
}

/// Another namespace as a second actor: 200 rounds of runs, power policies and clean-ups in two containers, isolations there, and 100 kills of experiments.
fn another_namespace(_: Duration) -> Result<Findings> {
    real(
        "real",
        &[
            ("real::namespaces::clean_ups_in_other_namespaces", "TAKT_NAMESPACES", "200"),
            ("real::namespaces::an_isolation_in_a_container", "TAKT_NAMESPACES", "200"),
            ("real::latency::a_killed_experiment_leaves_nothing", "TAKT_LATENCY_KILLS", "100"),
        ],
    )
}

/// Five hundred runs under random limits of the process, some with a standard output that takes nothing.
fn limits(_: Duration) -> Result<Findings> {
    real("real", &[("real::limits::random_limits", "TAKT_LIMITS", "500")])
}

/// Every drawn workload by every mechanism.
fn outcomes(_: Duration) -> Result<Findings> {
    real("outcomes", &[("real_runs_have_the_outcomes_of_the_simulation", "TAKT_OUTCOMES", "all")])
}

/// Tests over real processes in a test program of the command line, each with a variable that makes it longer.
fn real(suite: &str, tests: &[(&str, &str, &str)]) -> Result<Findings> {
    let seed = takt_testing::fresh_seed();
    let mut found = Vec::new();
    // They measure, so the program is the one that is released.
    let program = released()?;
    for &(test, variable, value) in tests {
        let mut cargo = cargo(&[
            "test",
            "--locked",
            "--quiet",
            "--package",
            "takt-rt-cli",
            "--test",
            suite,
            "--",
            test,
            "--nocapture",
        ]);
        cargo
            .arg("--test-threads=1")
            .envs([(variable, value), ("TAKT_SEED", &seed.to_string())])
            .env("TAKT_PROGRAM", &program);
        let output = cargo.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let repeat = text.lines().rfind(|line| line.contains("repeat with: ")).unwrap_or_default();
        text.lines().filter(|line| !line.contains("repeat with: ")).for_each(|line| println!("{line}"));
        if !output.status.success() {
            found.push(format!("{test}: {variable}={value} TAKT_SEED={seed}; {repeat}"));
        }
    }
    Ok(Findings::Found(found))
}

/// Whether cargo has this subcommand.
fn has(subcommand: &str) -> bool {
    let list = Command::new("cargo").arg("--list").output();
    list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).lines().any(|line| line.trim().starts_with(subcommand)))
}

/// Each fuzz target for the same time.
fn fuzz(time: Duration) -> Result<Findings> {
    if !has("fuzz") {
        return Ok(Findings::Skipped("`cargo install cargo-fuzz` installs what is missing".into()));
    }
    let nightly = Command::new("cargo").args(["+nightly", "--version"]).stderr(Stdio::null()).output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        return Ok(Findings::Skipped(
            "`rustup toolchain install nightly` installs the compiler that libFuzzer needs".into(),
        ));
    }
    let mut found = Vec::new();
    let each = (time / TARGETS.len() as u32).as_secs().max(1);
    for (target, seeds) in TARGETS {
        let corpus = root().join("fuzz/corpus").join(target);
        fs::create_dir_all(&corpus)?;
        let mut count = 0;
        for folder in seeds.iter().map(|folder| root().join(folder)) {
            count += copy(&folder, &corpus)?;
        }
        println!("fuzz target {target}: {each} s, {count} files to begin with");
        let limits = [
            format!("-max_total_time={each}"),
            "-timeout=20".into(),
            "-rss_limit_mb=2048".into(),
            "-len_control=20".into(),
        ];
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", "--sanitizer", "none", target, "--"]).args(&limits);
        let output = command.current_dir(root()).stdin(Stdio::null()).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let runs =
            errors.lines().rev().find(|line| line.starts_with("Done ") || line.contains("stat::number_of_executed"));
        println!("fuzz target {target}: {}", runs.unwrap_or("ended early"));
        if !output.status.success() {
            let artifact =
                errors.lines().find_map(|line| line.split_once("Test unit written to ").map(|(_, path)| path));
            let why = errors
                .lines()
                .find(|line| line.contains("panicked at") || line.starts_with("error"))
                .unwrap_or_default();
            found.push(format!(
                "fuzz target {target}: {why}; cargo +nightly fuzz run --sanitizer none {target} {}",
                artifact.unwrap_or_default()
            ));
        }
    }
    Ok(Findings::Found(found))
}

/// Copies the short files of a folder into a corpus. How many there are.
fn copy(folder: &Path, corpus: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_file() && path.metadata()?.len() <= LONGEST_SEED {
            let name = path.strip_prefix(root())?.to_string_lossy().replace('/', "-");
            fs::copy(&path, corpus.join(name))?;
            count += 1;
        }
    }
    Ok(count)
}

/// A changed place of the sources.
#[derive(Clone, PartialEq, Debug)]
struct Mutant {
    name: String,
    /// The change, as `git apply` takes it.
    patch: String,
}

/// A seeded sample of the mutants of the engine and the policies. `cargo mutants` lists them. They are tried in a clone of the last commit, one
/// after the other, so that a build compiles only what a mutant has changed.
fn mutants(time: Duration) -> Result<Findings> {
    if !has("mutants") {
        return Ok(Findings::Skipped("`cargo install cargo-mutants` installs what is missing".into()));
    }
    let copy = root().join("target/mutants");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    let cloned = Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(&copy).status()?;
    ensure!(cloned.success(), "git clone: {cloned}");
    let list = Command::new("cargo")
        .args(["mutants", "--list", "--json", "--package", "takt-rt-core"])
        .args(["--file", "crates/takt-core/src/engine/*.rs", "--file", "crates/takt-core/src/policies/**/*.rs"])
        .current_dir(&copy)
        .output()?;
    ensure!(list.status.success(), "cargo mutants --list: {}", String::from_utf8_lossy(&list.stderr));
    let all: Vec<serde_json::Value> = serde_json::from_slice(&list.stdout)?;
    let all: Vec<Mutant> = all.iter().map(mutant).collect::<Option<_>>().context("another form of list")?;
    let seed = takt_testing::fresh_seed();
    let sample = sample(&all, MUTANTS, seed);
    println!("TAKT_SEED={seed}: {} of {} mutants", sample.len(), all.len());
    let suites = Suite::all(&copy)?;
    let (begun, mut tried, mut survived) = (Instant::now(), 0, Vec::new());
    for mutant in &sample {
        if tried > 0 && begun.elapsed() > time {
            break;
        }
        let round = Instant::now();
        apply(&copy, &mutant.patch, &[])?;
        let killer = suites.iter().find_map(|suite| suite.kills().transpose()).transpose()?;
        apply(&copy, &mutant.patch, &["--reverse"])?;
        tried += 1;
        let by = killer.unwrap_or("SURVIVED");
        println!("{tried:>4}: {by:<10} {:>4.0} s  {}", round.elapsed().as_secs_f32(), mutant.name);
        if killer.is_none() {
            survived.push(format!("a mutant survives: {}", mutant.name));
        }
    }
    println!("{} of {tried} survive", survived.len());
    let most = (SURVIVORS * tried as f64).floor() as usize;
    Ok(Findings::Found(if survived.len() > most { survived } else { Vec::new() }))
}

/// A mutant of the list. Its diff names the change where `git apply` expects the file.
fn mutant(listed: &serde_json::Value) -> Option<Mutant> {
    let text = |key: &str| listed[key].as_str();
    let (file, hunks) = (text("file")?, text("diff")?.split_once("\n@@")?.1);
    let patch = format!("--- a/{file}\n+++ b/{file}\n@@{hunks}");
    Some(Mutant { name: text("name")?.to_owned(), patch })
}

fn apply(copy: &Path, patch: &str, how: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    git.arg("apply").args(how).arg("-").current_dir(copy).stdin(Stdio::piped());
    let mut git = git.spawn()?;
    git.stdin.take().context("a pipe")?.write_all(patch.as_bytes())?;
    let status = git.wait()?;
    ensure!(status.success(), "git apply: {status}:\n{patch}");
    Ok(())
}

/// The tests of a package, with a number of random cases for each property, in a clone of the sources.
struct Suite<'c> {
    copy: &'c Path,
    package: &'static str,
    cases: Option<&'static str>,
    /// Tests that fail with so few cases, because they want to see rare ones.
    without: Vec<String>,
}

impl<'c> Suite<'c> {
    /// All of [`SUITES`].
    ///
    /// # Errors
    /// When the tests fail without a mutant.
    fn all(copy: &'c Path) -> Result<Vec<Suite<'c>>> {
        let suite = |(package, cases)| {
            let mut suite = Suite { copy, package, cases, without: Vec::new() };
            ensure!(suite.cargo(&["test", "--no-run"], BUILD_TIME).status()?.success(), "{package} cannot be built");
            let output = suite.cargo(&["test", "--no-fail-fast"], TEST_TIME).stdout(Stdio::piped()).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let failed = text.lines().filter_map(|line| line.strip_suffix(" --- FAILED"));
            suite.without = failed.map(|name| name.rsplit(' ').next().unwrap_or_default().to_owned()).collect();
            ensure!(
                output.status.success() || cases.is_some() && !suite.without.is_empty(),
                "the tests of {package} fail without a mutant"
            );
            Ok(suite)
        };
        SUITES.into_iter().map(suite).collect()
    }

    /// A mutant can run for ever, so `timeout` ends cargo and the tests that it has started.
    fn cargo(&self, arguments: &[&str], limit: Duration) -> Command {
        let mut cargo = Command::new("timeout");
        cargo.args(["--signal=KILL", &limit.as_secs().to_string(), "cargo"]).args(arguments);
        cargo.args(["--locked", "--quiet", "--package", self.package]).current_dir(self.copy);
        // A mutant is built once and its tests run once, so the build counts more than the tests.
        for package in ["takt-rt-core", "takt-rt-sim", "takt-rt-conformance"] {
            cargo.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=0"));
        }
        cargo.envs(self.cases.map(|cases| ("TAKT_CASES", cases)));
        cargo.envs([("TAKT_SEED", "1"), ("CARGO_INCREMENTAL", "1"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
        cargo.env("CARGO_TARGET_DIR", self.copy.with_extension("build"));
        cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        cargo
    }

    /// Why a mutant does not survive these tests.
    fn kills(&self) -> Result<Option<&'static str>> {
        if !self.cargo(&["test", "--no-run"], BUILD_TIME).status()?.success() {
            return Ok(Some("compiler"));
        }
        let begun = Instant::now();
        let mut tests = self.cargo(&["test"], TEST_TIME);
        tests.arg("--").args(self.without.iter().flat_map(|name| ["--skip", name]));
        let passed = tests.status()?.success();
        Ok((!passed).then(|| if begun.elapsed() < TEST_TIME { self.package } else { "time" }))
    }
}

/// So many of all, the same for the same seed.
fn sample<T: Clone>(all: &[T], most: usize, seed: u64) -> Vec<T> {
    let mut state = seed | 1;
    let mut keyed: Vec<(u64, &T)> = all
        .iter()
        .map(|line| {
            // xorshift64* (Vigna 2016).
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d), line)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().take(most).map(|(_, line)| line.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_that_of_its_seed() {
        let all: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(sample(&all, 100, 7), sample(&all, 100, 7));
        assert_ne!(sample(&all, 100, 7), sample(&all, 100, 8));
        assert_eq!(sample(&all, 100, 7).iter().collect::<BTreeSet<_>>().len(), 100);
        assert_eq!(sample(&all[..3], 100, 7).len(), 3);
    }

    #[test]
    fn arguments_are_pairs() {
        assert_eq!(Options::parse(&[]), Some(Options { minutes: 60, only: None }));
        assert_eq!(
            Options::parse(&["--minutes", "5", "--only", "fuzz"]),
            Some(Options { minutes: 5, only: Some(Part::Fuzz) })
        );
        assert!(Options::parse(&["--only", "faults"]).is_some_and(|options| options.only == Some(Part::Faults)));
        for wrong in [&["--minutes"][..], &["--minutes", "0"], &["--only", "all"], &["5"]] {
            assert_eq!(Options::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn every_target_is_there_and_has_files_to_begin_with() {
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        for (target, seeds) in TARGETS {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(root().join(format!("fuzz/targets/{target}.rs")).is_file(), "{target}");
            assert!(seeds.iter().all(|folder| root().join(folder).is_dir()), "{target}");
        }
    }

    #[test]
    fn the_change_of_a_mutant_names_its_file() {
        let listed = serde_json::json!({"name": "n", "file": "a.rs", "diff": "--- a.rs\n+++ replace + with -\n@@ -1 +1 @@\n-+\n+-\n"});
        let patch = "--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-+\n+-\n".to_owned();
        assert_eq!(mutant(&listed), Some(Mutant { name: "n".into(), patch }));
        assert_eq!(mutant(&serde_json::json!({"name": "n"})), None);
    }
}
