//! `cargo xtask python`: the wheel of the Python package, in an empty environment, with its tests, its notebooks and its types.

use crate::workspace::{Outcome, cargo, metadata, root};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package; no member of the workspace.
pub(crate) const MANIFEST: &str = "crates/takt-python/Cargo.toml";

/// They build the wheel, run its tests and notebooks, read its tables as another library does, and check its types.
const TOOLS: [&str; 6] = ["maturin>=1.10,<2", "pytest", "nanoarrow", "nbclient", "ipykernel", "mypy"];

/// The client library, which the package has beside its client in Python.
const LIBRARY: &str = "libtakt.so.1";

/// Builds the package, installs it and runs its tests.
pub(crate) fn run() -> Outcome {
    with(&TOOLS, tested)
}

/// Builds the wheel for users of this machine. The program is in a wheel of its own (`cargo xtask dist`), because it is larger than the rest.
pub(crate) fn wheel(directory: &Path) -> Outcome {
    with(&TOOLS[..1], |environment| {
        build(environment, &target()?, &["--release", "--strip"], &std::path::absolute(directory)?)
    })
}

/// Works in a new environment of Python with some tools.
fn with(tools: &[&str], work: impl FnOnce(&Path) -> Result<()>) -> Outcome {
    let has = Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return Outcome::Skipped("python3-venv is not installed: apt-get install python3-venv".into());
    }
    // They build the client library.
    for (tool, package) in [("make", "make"), ("cc", "gcc")] {
        let has = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            return Outcome::Skipped(format!("{tool} is not installed: apt-get install {package}"));
        }
    }
    match environment(tools).and_then(|environment| work(environment.path())) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// A new virtual environment of Python with some tools.
fn environment(tools: &[&str]) -> Result<tempfile::TempDir> {
    let environment = tempfile::tempdir()?;
    done(Command::new("python3").args(["-m", "venv"]).arg(environment.path()))?;
    done(
        python(environment.path()).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(tools),
    )
    .context("the tools of the Python package could not be installed")?;
    Ok(environment)
}

fn tested(environment: &Path) -> Result<()> {
    let target = target()?;
    let of_package = ["--locked", "--quiet", "--manifest-path", MANIFEST];
    done(&mut cargo(&["fmt", "--check", "--manifest-path", MANIFEST]))?;
    done(&mut cargo(&["build", "--locked", "--quiet", "--package", "takt-cli"]))?;
    done(
        cargo(&["clippy"])
            .args(of_package)
            .arg("--target-dir")
            .arg(target.join("python"))
            .args(["--", "-D", "warnings"]),
    )?;

    let wheels = environment.join("wheels");
    build(environment, &target, &["--profile", "dev"], &wheels)?;
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

/// The folder of what Cargo builds.
fn target() -> Result<PathBuf> {
    Ok(PathBuf::from(metadata()?["target_directory"].as_str().context("no target directory")?))
}

/// The modules in Python.
fn modules() -> PathBuf {
    root().join(MANIFEST).with_file_name("python").join("takt_rt")
}

/// Builds a wheel into a folder.
fn build(environment: &Path, target: &Path, profile: &[&str], out: &Path) -> Result<()> {
    let _library = client_library()?;
    let mut build = python(environment);
    build.args(["-m", "maturin", "build", "--locked", "--quiet", "--manifest-path", MANIFEST]).args(profile);
    done(build.arg("--target-dir").arg(target.join("python")).arg("--out").arg(out))
}

/// The client library in the folder of the package, where maturin looks for it. It goes with this value, so that `pip` never packs an old one.
struct ClientLibrary(PathBuf);

impl Drop for ClientLibrary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Builds the client library in C into the package.
fn client_library() -> Result<ClientLibrary> {
    let (folder, sources) = (tempfile::tempdir()?, root().join("clients/c"));
    for file in ["Makefile", "takt.c", "takt.h"] {
        fs::copy(sources.join(file), folder.path().join(file)).with_context(|| file.to_owned())?;
    }
    done(Command::new("make").arg("--silent").arg("-C").arg(folder.path()).arg(LIBRARY))?;
    let library = ClientLibrary(modules().join(LIBRARY));
    fs::copy(folder.path().join(LIBRARY), &library.0).context(LIBRARY)?;
    Ok(library)
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
