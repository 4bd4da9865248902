//! Images of the microcontroller kernel: how they are built, and how they run in QEMU.

use crate::workspace::{cargo, root};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target of the images.
pub(super) const TARGET: &str = "thumbv7m-none-eabi";

/// The program `takt`, and the directory of the images.
pub(super) struct Bench {
    pub(super) takt: PathBuf,
    pub(super) images: PathBuf,
}

impl Bench {
    /// Builds a program. The variables are those of its build script.
    pub(super) fn build(&self, app: &str, level: &str, variables: &[(&str, &str)]) -> Result<PathBuf> {
        self.build_with(app, level, variables, &[])
    }

    /// The same with further arguments of Cargo.
    pub(super) fn build_with(
        &self,
        app: &str,
        level: &str,
        variables: &[(&str, &str)],
        more: &[&str],
    ) -> Result<PathBuf> {
        ensure!(self.cargo(app, level, variables, more).status()?.success(), "mcu/apps/{app} cannot be built");
        Ok(self.images.join(TARGET).join("release").join(app))
    }

    /// The command that builds it.
    pub(super) fn cargo(&self, app: &str, level: &str, variables: &[(&str, &str)], more: &[&str]) -> Command {
        let mut command = cargo(&["build", "--locked", "--quiet", "--release", "--package", app, "--target", TARGET]);
        command.args(more);
        command.current_dir(root().join("mcu")).arg("--target-dir").arg(&self.images);
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", level).envs(variables.iter().copied());
        for name in ["TAKT_POLICY", "TAKT_WORKLOAD", "TAKT_TRACE", "TAKT_FAULT", "TAKT_RESTART", "TAKT_LOCKING"] {
            if variables.iter().all(|(given, _)| *given != name) {
                command.env_remove(name);
            }
        }
        command
    }

    pub(super) fn workload(name: &str) -> PathBuf {
        root().join("mcu/apps/play").join(format!("{name}.yaml"))
    }

    /// Runs an image that ends well, and returns the summary of its trace.
    pub(super) fn emulate(&self, image: &Path, workload: &Path, policy: Option<&str>, more: &[&str]) -> Result<Value> {
        let (status, summary) = self.ended(image, workload, policy, more)?;
        ensure!(status == 0, "{} ended with {status}: {summary}", workload.display());
        Ok(summary)
    }

    /// Runs an image, and returns the status of `takt mcu run` with the summary.
    pub(super) fn ended(
        &self,
        image: &Path,
        workload: &Path,
        policy: Option<&str>,
        more: &[&str],
    ) -> Result<(i32, Value)> {
        let mut command = Command::new(&self.takt);
        command.args(["mcu", "run"]).arg(image).arg(workload).arg("--json").args(more);
        if let Some(policy) = policy {
            command.args(["--policy", policy]);
        }
        let output = command.output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let summary = serde_json::from_slice(&output.stdout);
        let summary = summary.with_context(|| format!("{}: no summary: {errors}", workload.display()))?;
        Ok((output.status.code().unwrap_or(-1), summary))
    }
}
