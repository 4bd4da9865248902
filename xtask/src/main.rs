//! What continuous integration and developers run.

mod ci;
mod circles;
mod instructions;
mod tidy;
mod vm;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                 all that continuous integration runs, in its order, up to the first failure
  tidy               the map in ARCHITECTURE.md against the crates, and the rules of the source
  vm [OPTIONS]       the tests in virtual machines with a unified cgroup v2 tree
     --kernel NAME   cloud (ordinary), rt (PREEMPT_RT) or all, the default
     --image FILE    this kernel image instead of a downloaded one
     --multi         with really parallel CPUs too, where only counts and clean ends mean something
     --verbose       the whole console
  instructions [TAKT]  what the simulator executes for each job, counted by Callgrind, and the same of another program
";

/// How a step ended.
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["ci"] => return ci::run(),
        ["tidy"] => tidy::run(),
        ["vm", ref options @ ..] => match vm::Options::parse(options) {
            Some(options) => vm::run(&options),
            None => return usage(),
        },
        ["instructions"] => instructions::run(None),
        ["instructions", other] => instructions::run(Some(other.as_ref())),
        _ => return usage(),
    };
    match outcome {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed(why) => {
            eprintln!("failed: {why}");
            ExitCode::FAILURE
        }
        Outcome::Skipped(why) => {
            println!("skipped: {why}");
            ExitCode::SUCCESS
        }
    }
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

/// The repository's root.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the root").to_path_buf()
}

/// Cargo in the repository's root, the one that started this program.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// What `cargo metadata` says about the workspace.
fn metadata() -> anyhow::Result<serde_json::Value> {
    let output = cargo(&["metadata", "--format-version=1", "--no-deps"]).output()?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Whether this is continuous integration, where what can be installed must be there.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// Whether rustup (or whoever installed Rust) has the standard library of a target; rustup is asked for it if not.
fn has_target(target: &str) -> bool {
    let present = || {
        let mut rustc = Command::new("rustc");
        let output = rustc.args(["--print", "target-libdir", "--target", target]).current_dir(root()).output();
        let dir = output.ok().filter(|o| o.status.success());
        let dir = dir.map(|o| PathBuf::from(String::from_utf8_lossy(&o.stdout).trim()));
        dir.is_some_and(|dir| dir.read_dir().is_ok_and(|mut files| files.next().is_some()))
    };
    present() || {
        println!("adding the Rust target {target}");
        let added = Command::new("rustup").args(["target", "add", target]).current_dir(root()).status();
        added.is_ok_and(|status| status.success()) && present()
    }
}
