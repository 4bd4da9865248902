//! `cargo xtask python`: the wheel of the Python package, in an empty environment, with its tests, its notebooks and its types.
//!
//! The tests have the wheel that users get. Zig links it for an old C library, so that one wheel is for all distributions of Linux. `abi3audit` checks that it
//! needs no more of Python than its name says, and Debian's suites with other interpreters install and test it. The program that runs and sweeps need is in it.

use crate::deb::{self, Machine, output};
use crate::workspace::{Outcome, cargo, has_target, in_ci, root};
use anyhow::{Context, Result, anyhow, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// The package; no member of the workspace.
pub(crate) const MANIFEST: &str = "crates/takt-python/Cargo.toml";

/// They build the wheel and check its symbols.
const BUILD: [&str; 3] = ["maturin>=1.10,<2", "ziglang==0.17.1", "abi3audit"];

/// They run its tests and notebooks, read its tables as other libraries do, distribute a sweep, and check its types. Tests in suites use the first two.
const TEST: [&str; 9] =
    ["pytest", "nanoarrow", "nbclient", "ipykernel", "distributed", "mypy", "pandas", "polars", "pyarrow"];

/// The oldest C library that Rust's standard library works with. Each distribution of Linux since 2014 has this one or a later one.
const GLIBC: &str = "2.17";

/// The greatest length of a wheel for users, in bytes.
const WHEEL_MOST: u64 = 6_000_000;

/// The client library, which the package has beside its client in Python.
const LIBRARY: &str = "libtakt.so.1";

/// The program for runs and sweeps in the package. It has the name by which workloads call it.
const PROGRAM: &str = "bin/takt";

/// Suites of Debian, each with another interpreter of Python.
const SUITES: [&str; 3] = ["bookworm", "trixie", "forky"];

/// Tests that need no right and no other file of the repository than workloads. Interrupts are tested elsewhere, since suites
/// share the CPUs.
const TESTS_IN_SUITES: [&str; 3] = ["test_calls.py", "test_policies.py", "test_sweeps.py"];

/// Builds the package, installs it and runs its tests.
pub(crate) fn run() -> Outcome {
    with(&[&BUILD[..], &TEST].concat(), tested)
}

/// Builds the wheels of these machines.
pub(crate) fn wheels(machines: &[Machine], directory: &Path) -> Outcome {
    // The native part is linked with the C library of GNU, and the program is static.
    let lacks = |machine: &Machine| {
        let targets = [target_of(*machine), machine.target().to_owned()];
        targets.into_iter().find(|target| !has_target(target))
    };
    let lacking = machines.iter().find_map(lacks);
    let outcome = with(&BUILD, |environment| {
        let directory = std::path::absolute(directory)?;
        let mut present = machines.iter().filter(|machine| lacks(machine).is_none());
        present.try_for_each(|machine| build(environment, *machine, &directory).map(drop))
    });
    match (outcome, lacking) {
        (Outcome::Passed, Some(target)) => {
            Outcome::Skipped(format!("the Rust target {target} is not installed: rustup target add {target}"))
        }
        (outcome, _) => outcome,
    }
}

/// Builds the wheel of this machine.
pub(crate) fn wheel(directory: &Path) -> Outcome {
    match deb::native() {
        Ok(machine) => wheels(&[machine], directory),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// The target of Rust whose programs use the C library of GNU.
fn target_of(machine: Machine) -> String {
    machine.target().replace("musl", "gnu")
}

/// Works in a new environment of Python with some tools.
fn with(tools: &[&str], work: impl FnOnce(&Path) -> Result<()>) -> Outcome {
    let has = Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return Outcome::Skipped("python3-venv is not installed: apt-get install python3-venv".into());
    }
    // It builds the client library.
    if !has_program("make") {
        return Outcome::Skipped("make is not installed: apt-get install make".into());
    }
    let environment = match environment(tools) {
        Ok(environment) => environment,
        Err(error) if in_ci() => return Outcome::Failed(format!("{error:#}")),
        Err(error) => return Outcome::Skipped(format!("{error:#}")),
    };
    match work(environment.path()) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

fn has_program(name: &str) -> bool {
    Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A new virtual environment of Python with some tools.
fn environment(tools: &[&str]) -> Result<tempfile::TempDir> {
    let environment = tempfile::tempdir()?;
    done(Command::new("python3").args(["-m", "venv"]).arg(environment.path()))?;
    if !tools.is_empty() {
        done(pip(environment.path()).args(tools)).context("the tools of the Python package could not be installed")?;
    }
    Ok(environment)
}

/// An installation of packages in an environment.
fn pip(environment: &Path) -> Command {
    let mut pip = python(environment);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip
}

fn tested(environment: &Path) -> Result<()> {
    let target = deb::target_directory()?;
    let of_package = ["--locked", "--quiet", "--manifest-path", MANIFEST];
    done(&mut cargo(&["fmt", "--check", "--manifest-path", MANIFEST]))?;
    done(&mut cargo(&["build", "--locked", "--quiet", "--package", "takt-rt-cli"]))?;
    done(
        cargo(&["clippy"])
            .args(of_package)
            .arg("--target-dir")
            .arg(target.join("python"))
            .args(["--", "-D", "warnings"]),
    )?;

    let wheels = tested_wheels()?;
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let wheel = build(environment, deb::native()?, &wheels)?;
    done(pip(environment).args(["--no-deps", "--no-index"]).arg(wheel))?;

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

/// Installs the tested wheel in suites of Debian, whose trees have an interpreter of Python and no compiler, and runs its tests there.
pub(crate) fn in_suites() -> Outcome {
    if !has_program("mmdebstrap") {
        return Outcome::Skipped("mmdebstrap is not installed: apt-get install mmdebstrap".into());
    }
    if !fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return Outcome::Skipped("only root unpacks a suite and changes into it".into());
    }
    let built = tested_wheels().ok().and_then(|folder| folder.read_dir().ok()?.next()?.ok());
    let Some(wheel) = built.map(|entry| entry.path()) else {
        return Outcome::Skipped("no wheel is built: cargo xtask python".into());
    };
    let (wheel, mut lacking) = (&wheel, Vec::new());
    let outcome = with(&[], |environment| {
        let results = thread::scope(|scope| {
            let start = |suite| (suite, scope.spawn(move || in_suite(suite, environment, wheel)));
            let threads = SUITES.map(start);
            threads
                .map(|(suite, thread)| (suite, thread.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked")))))
        });
        for (suite, result) in results {
            match result.with_context(|| suite.to_owned())? {
                Ok(report) => println!("{suite}: {report}"),
                Err(why) => lacking.push(format!("{suite}: {why}")),
            }
        }
        Ok(())
    });
    match outcome {
        Outcome::Passed if !lacking.is_empty() => Outcome::Skipped(lacking.join("; ")),
        outcome => outcome,
    }
}

/// Tests the wheel in a suite, and gives the interpreter with the counts of its tests. An error within is the reason why the suite was not to be had.
fn in_suite(suite: &str, environment: &Path, wheel: &Path) -> Result<Result<String, String>> {
    let folder = tempfile::tempdir()?;
    let tree = folder.path().join("tree");
    let mut unpack = Command::new("mmdebstrap");
    unpack.args(["--quiet", "--mode=root", "--variant=extract", "--include=python3,python3-venv"]);
    unpack.arg("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr");
    // A mirror may keep the snapshot of a past day.
    unpack.args(["--aptopt=Acquire::Check-Valid-Until \"false\"", suite]);
    if let Err(error) = output(unpack.arg(&tree)) {
        let text = format!("{error:#}");
        return Ok(Err(text.lines().find(|line| line.contains("E: ")).unwrap_or(&text).to_owned()));
    }
    fs::create_dir_all(tree.join("proc"))?;
    let programs = tree.join("usr/bin");
    for compiler in ["cc", "gcc", "cargo", "rustc"] {
        ensure!(!programs.join(compiler).exists(), "the suite has a compiler: {compiler}");
    }
    let inside = |arguments: &[&str]| {
        // Its mounts are gone with the process.
        let mut chroot = Command::new("/usr/bin/unshare");
        chroot.arg("--root").arg(&tree).args(["--mount-proc", "/usr/bin/python3"]).args(arguments);
        chroot.env_clear().env("PATH", "/usr/bin");
        chroot.env("PYTHONPATH", "/site:/tools").env("PYTHONDONTWRITEBYTECODE", "1");
        chroot
    };
    let version = output(&mut inside(&["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]))?;
    let version = version.trim();
    // The tools of its tests, for this interpreter.
    let mut tools = pip(environment);
    tools.args(["--only-binary=:all:", "--python-version", version, "--target"]).arg(tree.join("tools"));
    done(tools.args(&TEST[..2]))?;

    // The pip of the suite installs the wheel. It does not start without certificates.
    let name = wheel.file_name().context("a wheel has a name")?.to_string_lossy();
    fs::copy(wheel, tree.join(&*name))?;
    let certificates = "etc/ssl/certs/ca-certificates.crt";
    fs::create_dir_all(tree.join("etc/ssl/certs"))?;
    fs::copy(Path::new("/").join(certificates), tree.join(certificates)).context(certificates)?;
    let wheels = tree.join("usr/share/python-wheels").read_dir()?.collect::<std::io::Result<Vec<_>>>()?;
    let is_pip = |name: &String| name.starts_with("pip-");
    let own = wheels.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).find(is_pip);
    let own = format!("/usr/share/python-wheels/{}/pip", own.context("the suite has no pip")?);
    let options = ["--quiet", "--no-index", "--no-deps", "--target", "/site"];
    output(&mut inside(&[&[&own, "install"][..], &options, &[&format!("/{name}")]].concat()))?;

    let tests = "crates/takt-python/tests";
    fs::create_dir_all(tree.join("takt").join(tests))?;
    for entry in root().join(tests).read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            fs::copy(&path, tree.join("takt").join(tests).join(path.file_name().unwrap_or_default()))?;
        }
    }
    let copied = Command::new("cp").arg("-r").arg(root().join("workloads")).arg(tree.join("takt")).status()?;
    ensure!(copied.success(), "the workloads cannot be copied: {copied}");
    fs::copy(deb::target_directory()?.join("debug/takt"), tree.join("takt/program"))?;
    let paths = TESTS_IN_SUITES.map(|file| format!("/takt/{tests}/{file}"));
    let mut run =
        inside(&["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-k", "not interrupt and not ends_with_python"]);
    let done = run.args(paths).env("TAKT", "/takt/program").stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&done.stdout);
    ensure!(done.status.success(), "Python {version}: {printed}");
    Ok(Ok(format!("Python {version}: {}", printed.lines().last().unwrap_or_default())))
}

/// The modules in Python.
fn modules() -> PathBuf {
    root().join(MANIFEST).with_file_name("python").join("takt_rt")
}

/// The folder of the wheel that the tests have.
fn tested_wheels() -> Result<PathBuf> {
    Ok(deb::target_directory()?.join("python/wheels"))
}

/// Builds a wheel into a folder, and checks its length and its symbols.
fn build(environment: &Path, machine: Machine, out: &Path) -> Result<PathBuf> {
    let fresh = tempfile::tempdir()?;
    let _library = client_library(environment, machine)?;
    // At its end, each of the two builds has one thread.
    let program = thread::scope(|scope| {
        let program = scope.spawn(|| deb::build_helper(machine));
        pack(environment, machine, fresh.path())?;
        program.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked")))
    })?;
    let _program = InPackage::copy(&program, PROGRAM)?;
    let packed = fresh.path().join("packed");
    pack(environment, machine, &packed)?;
    let built = packed.read_dir()?.next().context("maturin has built no wheel")??.path();
    done(python(environment).args(["-m", "abi3audit", "--strict"]).arg(&built))?;
    let (length, name) = (built.metadata()?.len(), built.file_name().context("a wheel has a name")?);
    ensure!(length < WHEEL_MOST, "{} has {length} bytes, the most is {WHEEL_MOST}", built.display());
    println!("{}: {length} bytes", name.display());

    fs::create_dir_all(out)?;
    let wheel = out.join(name);
    fs::copy(&built, &wheel)?;
    Ok(wheel)
}

/// Compiles the native part, and packs it with the other files into a wheel.
fn pack(environment: &Path, machine: Machine, out: &Path) -> Result<()> {
    let mut build = python(environment);
    build.args(["-m", "maturin", "build", "--locked", "--quiet", "--zig", "--manifest-path", MANIFEST]);
    build.args(["--target", &target_of(machine), "--compatibility", &format!("manylinux_{}", GLIBC.replace('.', "_"))]);
    build.arg("--target-dir").arg(deb::target_directory()?.join("python")).arg("--out").arg(out);
    build.args(["--profile", deb::PROFILE, "--strip", "--compression-level", "9"]);
    build
        .env(deb::FLAGS, deb::remapped(&root())?)
        .env("CARGO_INCREMENTAL", "0")
        .env("SOURCE_DATE_EPOCH", deb::epoch()?);
    done(&mut build)
}

/// A built file in the folder of the package, where maturin looks for it. It goes with this value, so that `pip` never packs an old one.
struct InPackage(PathBuf);

impl InPackage {
    /// Copies a file to this place in the package.
    fn copy(file: &Path, name: &str) -> Result<InPackage> {
        let copy = InPackage(modules().join(name));
        fs::create_dir_all(copy.0.parent().context("a file has a folder")?)?;
        fs::copy(file, &copy.0).with_context(|| file.display().to_string())?;
        Ok(copy)
    }
}

impl Drop for InPackage {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        // The folder of the program has nothing else in it, and that of the modules is not empty.
        let _ = self.0.parent().map(fs::remove_dir);
    }
}

/// Builds the client library in C into the package.
fn client_library(environment: &Path, machine: Machine) -> Result<InPackage> {
    let (folder, sources) = (tempfile::tempdir()?, root().join("clients/c"));
    for file in ["Makefile", "takt.c", "takt.h"] {
        fs::copy(sources.join(file), folder.path().join(file)).with_context(|| file.to_owned())?;
    }
    let cpu = machine.target().split('-').next().unwrap_or_default();
    let python = environment.join("bin/python");
    let compiler = format!("CC={} -m ziglang cc -target {cpu}-linux-gnu.{GLIBC}", python.display());
    done(Command::new("make").arg("--silent").arg("-C").arg(folder.path()).args([&compiler, "LDFLAGS=-s", LIBRARY]))?;
    InPackage::copy(&folder.path().join(LIBRARY), LIBRARY)
}

/// The interpreter of an environment, in the repository's root.
fn python(environment: &Path) -> Command {
    let mut python = Command::new(environment.join("bin/python"));
    python
        .current_dir(root())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CARGO_ZIGBUILD_PYTHON_PATH", environment.join("bin/python"));
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
