//! `cargo xtask aarch64`: `takt` for 64-bit ARM, built, and run by the user-mode emulator of QEMU.
//!
//! The same input and seed must give the same bytes on both architectures: simulations, traces in each format, verdicts, sweeps. Every
//! workload of the repository is compared.

use crate::deb::{self, Machine};
use crate::workspace::{Outcome, cargo, has_target, in_ci, root};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const EMULATOR: &str = "qemu-aarch64";
/// The longest that one command may take under emulation, in seconds.
const PATIENCE: &str = "120";
/// Commands beside those about workloads. Random sets are the only floating point.
const OTHERS: [&str; 5] = [
    "policies",
    "sweep generate --utilisation 3.4 --sets 40 --generator uunifast --tasks 12 --periods log-uniform:10ms..1s",
    "sweep generate --utilisation 3.4 --sets 40 --generator randfixedsum --tasks 12 --deadlines constrained",
    "sweep schedulability --points 3.0,3.6 --sets 4 --test ff,wm_ff,ceqd_ff --svg curves.svg",
    "sweep schedulability --points 2.0 --sets 2 --duration 200ms --test sim:pd2,sim:llref,sim:g-edf",
];

/// Builds, compares, and runs the tests of the core there.
pub(crate) fn run() -> Outcome {
    let target = Machine::Arm64.target();
    if !has_target(target) {
        let why = format!("the Rust target {target} is not installed: rustup target add {target}");
        return if in_ci() { Outcome::Failed(why) } else { Outcome::Skipped(why) };
    }
    match compared() {
        Ok(true) => Outcome::Passed,
        Ok(false) => Outcome::Skipped(format!(
            "takt is built for {target}, and {EMULATOR} is not installed to run it: apt-get install --no-install-recommends qemu-user"
        )),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// Whether there was an emulator to compare with.
fn compared() -> Result<bool> {
    let other = deb::build(Machine::Arm64, "emulated")?;
    let built = cargo(&["build", "--locked", "-p", "takt-cli", "--bin", "takt"]).status()?;
    ensure!(built.success(), "takt cannot be built: {built}");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let own = target.join("debug/takt");
    if deb::requirements().is_ok() {
        package(&other, &own)?;
    }
    if Command::new(EMULATOR).arg("--version").stdout(Stdio::null()).status().is_err() {
        return Ok(false);
    }
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let mut commands: Vec<Vec<String>> = OTHERS.into_iter().map(words).collect();
    for folder in ["workloads", "workloads/features"] {
        for entry in fs::read_dir(root().join(folder)).with_context(|| folder.to_owned())? {
            let file = entry?.path();
            if file.extension().is_some_and(|e| e == "yaml") {
                let file = file.to_string_lossy().into_owned();
                let ending = ["jsonl", "csv", "pftrace"][commands.len() % 3];
                let simulated =
                    ["sim", &file, "--seed", "7", "--json", "--trace", &format!("t.{ending}"), "--jobs", "j.csv"];
                commands.push(simulated.map(str::to_owned).to_vec());
                if folder == "workloads" {
                    commands.push(["check", &file, "--json"].map(str::to_owned).to_vec());
                }
            }
        }
    }
    commands.sort();
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let (bytes, succeeded) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            let results = [Command::new(&own), emulated(&other)].map(|program| result(program, command));
            match results {
                [Ok(here), Ok(there)] if here == there => {
                    bytes.fetch_add(here.1.iter().map(|(_, content)| content.len()).sum(), Ordering::Relaxed);
                    succeeded.fetch_add(usize::from(here.0 == Some(0)), Ordering::Relaxed);
                }
                [Ok(here), Ok(there)] => {
                    let why = difference(&here, &there);
                    differences
                        .lock()
                        .expect("no comparison panics")
                        .push(format!("takt {}: {why}", command.join(" ")));
                }
                [here, there] => {
                    let error = here.err().or(there.err()).map(|e| format!("{e:#}")).unwrap_or_default();
                    differences
                        .lock()
                        .expect("no comparison panics")
                        .push(format!("takt {}: {error}", command.join(" ")));
                }
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let (bytes, succeeded) = (bytes.into_inner(), succeeded.into_inner());
    let differences = differences.into_inner().expect("no comparison panics");
    differences.iter().for_each(|line| println!("{line}"));
    println!("{} commands on both architectures, {succeeded} with status 0, {bytes} equal bytes", commands.len());
    ensure!(differences.is_empty(), "{} commands differ between the architectures", differences.len());
    // Commands that fail alike would compare nothing.
    ensure!(succeeded * 4 > commands.len() * 3 && bytes > 1_000_000, "too little was compared");
    tests()?;
    Ok(true)
}

/// Packs the program for 64-bit ARM.
fn package(other: &Path, own: &Path) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let package = deb::pack(Machine::Arm64, other, own, directory.path())?;
    let field = Command::new("dpkg-deb").arg("--field").arg(&package).arg("Architecture").output()?;
    ensure!(field.stdout == b"arm64\n", "the package is for {}", String::from_utf8_lossy(&field.stdout).trim());
    Ok(())
}

fn emulated(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args([PATIENCE, EMULATOR]).arg(program);
    command
}

/// Exit status, and the bytes of standard output, standard error and all files that were written, by name.
type Done = (Option<i32>, Vec<(String, Vec<u8>)>);

fn result(mut program: Command, arguments: &[String]) -> Result<Done> {
    let directory = tempfile::tempdir()?;
    let output = program.args(arguments).current_dir(directory.path()).stdin(Stdio::null()).output()?;
    let Output { status, stdout, stderr } = output;
    let mut contents = vec![("standard output".to_owned(), stdout), ("standard error".to_owned(), stderr)];
    let mut open = vec![directory.path().to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(directory.path())?.to_string_lossy().into_owned();
            contents.push((name, fs::read(&path)?));
        }
    }
    contents.sort();
    Ok((status.code(), contents))
}

/// The first difference.
fn difference(here: &Done, there: &Done) -> String {
    if here.0 != there.0 {
        return format!("status {:?} here, {:?} there", here.0, there.0);
    }
    for ((name, one), (other_name, other)) in here.1.iter().zip(&there.1) {
        if (name, one) != (other_name, other) {
            let at = one.iter().zip(other).position(|(a, b)| a != b).unwrap_or(one.len().min(other.len()));
            let part = |text: &[u8]| {
                String::from_utf8_lossy(&text[at.saturating_sub(30)..text.len().min(at + 50)]).into_owned()
            };
            return format!("{name} at byte {at}: {:?} here, {:?} there", part(one), part(other));
        }
    }
    "not the same files".into()
}

/// The tests of the core, without those of the command line.
fn tests() -> Result<()> {
    let machine = Machine::Arm64;
    let mut tests = cargo(&["test", "--locked", "--quiet", "-p", "takt-core", "--lib", "--profile", "emulated"]);
    tests
        .args(["--target", machine.target()])
        .envs(deb::linker(machine))
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", EMULATOR);
    let status = tests.env("TAKT_CASES", "8").status()?;
    ensure!(status.success(), "tests of takt-core for {}: {status}", machine.target());
    Ok(())
}
