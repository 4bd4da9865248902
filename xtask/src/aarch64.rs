//! `cargo xtask aarch64`: `takt` for 64-bit ARM, built, and run by the user-mode emulator of QEMU.
//!
//! The same input and seed must give the same bytes on both architectures ([`results`]).

use crate::deb::{self, Machine};
use crate::results;
use crate::workspace::{Outcome, built, cargo, has_target, in_ci, root};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

const EMULATOR: &str = "qemu-aarch64";
/// The longest that one command may take under emulation, in seconds.
const PATIENCE: &str = "120";

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
    let other = deb::build(Machine::Arm64, deb::QUICK)?;
    let own = built()?;
    if deb::requirements().is_ok() {
        package(&other, &own)?;
    }
    if Command::new(EMULATOR).arg("--version").stdout(Stdio::null()).status().is_err() {
        return Ok(false);
    }
    results::equal(&own, "64-bit ARM", || emulated(&other))?;
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

/// The tests of the core, without those of the command line.
fn tests() -> Result<()> {
    let machine = Machine::Arm64;
    let mut tests = cargo(&["test", "--locked", "--quiet", "-p", "takt-rt-core", "--lib", "--profile", deb::QUICK]);
    tests
        .args(["--target", machine.target()])
        .envs(deb::linker(machine))
        .env(deb::FLAGS, deb::remapped(&root())?)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", EMULATOR);
    let status = tests.env("TAKT_CASES", "8").status()?;
    ensure!(status.success(), "tests of takt-core for {}: {status}", machine.target());
    Ok(())
}
