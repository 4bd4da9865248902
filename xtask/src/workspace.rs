//! The repository and its tools.

use std::path::PathBuf;
use std::process::Command;

/// How a step ended.
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the root").to_path_buf()
}

/// Cargo in the repository's root, the one that started this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Builds `takt` as it is released, and gives its path.
///
/// # Errors
/// When it can't be built.
pub(crate) fn released() -> anyhow::Result<PathBuf> {
    let built = cargo(&["build", "--locked", "--release", "--package", "takt-cli"]).status()?;
    anyhow::ensure!(built.success(), "takt could not be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/takt"))
}

/// What `cargo metadata` says about the workspace.
pub(crate) fn metadata() -> anyhow::Result<serde_json::Value> {
    let output = cargo(&["metadata", "--format-version=1", "--no-deps"]).output()?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Whether this is continuous integration, where what can be installed must be there.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// Whether rustup (or whoever installed Rust) has the standard library of a target; rustup is asked for it if not.
pub(crate) fn has_target(target: &str) -> bool {
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
