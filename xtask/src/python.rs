//! `cargo xtask python`: the wheel of the Python package, in an empty environment, with its tests and its types.

use crate::workspace::{Outcome, cargo, metadata, root};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package; no member of the workspace.
pub(crate) const MANIFEST: &str = "crates/takt-python/Cargo.toml";

/// They build the wheel, run its tests, read its tables as another library does, and check its types.
const TOOLS: [&str; 4] = ["maturin>=1.10,<2", "pytest", "nanoarrow", "mypy"];

/// Builds the package, installs it and runs its tests.
pub(crate) fn run() -> Outcome {
    let has = Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return Outcome::Skipped("python3-venv is not installed: apt-get install python3-venv".into());
    }
    match environment().and_then(|environment| tested(environment.path())) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// A new virtual environment of Python with the tools.
fn environment() -> Result<tempfile::TempDir> {
    let environment = tempfile::tempdir()?;
    done(Command::new("python3").args(["-m", "venv"]).arg(environment.path()))?;
    done(
        python(environment.path()).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(TOOLS),
    )
    .context("the tools of the Python package could not be installed")?;
    Ok(environment)
}

fn tested(environment: &Path) -> Result<()> {
    let target = PathBuf::from(metadata()?["target_directory"].as_str().context("no target directory")?);
    let own = target.join("python");
    let of_package = ["--locked", "--quiet", "--manifest-path", MANIFEST];
    done(&mut cargo(&["fmt", "--check", "--manifest-path", MANIFEST]))?;
    done(&mut cargo(&["build", "--locked", "--quiet", "--package", "takt-cli"]))?;
    done(cargo(&["clippy"]).args(of_package).arg("--target-dir").arg(&own).args(["--", "-D", "warnings"]))?;

    let wheels = environment.join("wheels");
    let mut build = python(environment);
    build.args(["-m", "maturin", "build", "--locked", "--quiet", "--profile", "dev", "--manifest-path", MANIFEST]);
    done(build.arg("--target-dir").arg(&own).arg("--out").arg(&wheels))?;
    let wheel = wheels.read_dir()?.next().context("maturin has built no wheel")??.path();
    done(python(environment).args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]).arg(wheel))?;

    let package = root().join(MANIFEST);
    let package = package.parent().context("the package has no folder")?;
    let takt = target.join("debug/takt");
    done(python(environment).args(["-m", "pytest", "-p", "no:cacheprovider"]).current_dir(package).env("TAKT", takt))?;
    let mut types = python(environment);
    types.args(["-m", "mypy", "tests", "--cache-dir"]).arg(environment.join("mypy"));
    done(types.current_dir(package))?;
    // The stubs against the module itself.
    done(python(environment).args(["-m", "mypy.stubtest", "takt_rt"]).current_dir(environment))
}

/// The interpreter of an environment, in the repository's root.
fn python(environment: &Path) -> Command {
    let mut python = Command::new(environment.join("bin/python"));
    python.current_dir(root()).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

fn done(command: &mut Command) -> Result<()> {
    let name = command_line(command);
    let status = command.status().with_context(|| name.clone())?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
