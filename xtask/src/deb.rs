//! `cargo xtask deb`: Debian packages of `takt` for amd64 and arm64.
//!
//! The program is linked statically, so that one package is for every release of Debian. It has the manual pages and completions that the
//! program writes of its own command line, the link `demos-sched`, and the unit files of `contrib/systemd`. The tree is packed by `dpkg-deb`.
//! The same commit gives the same bytes: dates are those of the commit, or of `SOURCE_DATE_EPOCH`.

use crate::workspace::{Outcome, cargo, has_target, metadata, root};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A kind of machine that packages are for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Machine {
    Amd64,
    Arm64,
}

impl Machine {
    pub(crate) const ALL: [Machine; 2] = [Machine::Amd64, Machine::Arm64];

    /// As Debian and containers call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Machine::Amd64 => "amd64",
            Machine::Arm64 => "arm64",
        }
    }

    pub(crate) fn target(self) -> &'static str {
        match self {
            Machine::Amd64 => "x86_64-unknown-linux-musl",
            Machine::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// The field `e_machine` of its programs (elf(5)).
    fn elf(self) -> u16 {
        match self {
            Machine::Amd64 => 62,
            Machine::Arm64 => 183,
        }
    }
}

/// Which packages are wanted, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    machines: Vec<Machine>,
    directory: PathBuf,
}

impl Options {
    /// `None`: such a call is not known.
    pub(crate) fn parse(arguments: &[&str]) -> Option<Options> {
        let mut options = Options { machines: Machine::ALL.to_vec(), directory: root().join("target/deb") };
        for pair in arguments.chunks(2) {
            match *pair {
                ["--arch", name] => {
                    options.machines = vec![Machine::ALL.into_iter().find(|machine| machine.name() == name)?];
                }
                ["--out", directory] => options.directory = std::path::absolute(directory).ok()?,
                _ => return None,
            }
        }
        Some(options)
    }
}

/// The profile of programs for users.
pub(crate) const PROFILE: &str = "packaged";

/// The profile of programs for comparisons: the quickest to build.
pub(crate) const QUICK: &str = "emulated";

/// The variable of Cargo with flags of the compiler.
pub(crate) const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// Builds `takt` as it is released, and packs it.
pub(crate) fn run(options: &Options) -> Outcome {
    if let Err(why) = requirements() {
        return Outcome::Skipped(why);
    }
    let packed = || -> Result<()> {
        fs::create_dir_all(&options.directory)?;
        let own = build(native()?, PROFILE)?;
        for machine in &options.machines {
            let takt = if *machine == native()? { own.clone() } else { build(*machine, PROFILE)? };
            println!("{}", pack(*machine, &takt, &own, &options.directory)?.display());
        }
        Ok(())
    };
    match packed() {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// The tools of this machine that are needed, or those it lacks with the way to get them.
pub(crate) fn requirements() -> std::result::Result<(), String> {
    let works = Command::new("dpkg-deb").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if works { Ok(()) } else { Err("dpkg-deb is not installed: apt-get install dpkg".into()) }
}

/// The kind of this machine, whose program writes the manual pages of all.
pub(crate) fn native() -> Result<Machine> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(Machine::Amd64),
        "aarch64" => Ok(Machine::Arm64),
        other => bail!("there is no package for {other}"),
    }
}

/// Builds the static `takt` of this repository ([`build_in`]).
///
/// # Errors
/// When it cannot be built.
pub(crate) fn build(machine: Machine, profile: &str) -> Result<PathBuf> {
    build_in(&root(), &target_directory()?, machine, profile)
}

/// Builds the static program of the Python package, as for users.
///
/// # Errors
/// When it cannot be built.
pub(crate) fn build_helper(machine: Machine) -> Result<PathBuf> {
    let arguments = ["--quiet", "--bin", "takt-helper", "--features", "helper"];
    build_program(&root(), &target_directory()?, machine, PROFILE, &arguments).map(|folder| folder.join("takt-helper"))
}

/// The folder of what Cargo builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(PathBuf::from(metadata()?["target_directory"].as_str().context("no target directory")?))
}

/// Builds the static `takt` of a folder for a kind of machine, and gives its path in the folder `target`.
///
/// # Errors
/// When it cannot be built.
pub(crate) fn build_in(folder: &Path, target: &Path, machine: Machine, profile: &str) -> Result<PathBuf> {
    build_program(folder, target, machine, profile, &["--bin", "takt"]).map(|folder| folder.join("takt"))
}

/// Builds a static program of the package `takt-rt-cli`, and gives its folder. Rust's own linker and C library serve for each kind of machine. No program
/// has a path of this machine, and a program for users has the commit in its version.
fn build_program(folder: &Path, target: &Path, machine: Machine, profile: &str, arguments: &[&str]) -> Result<PathBuf> {
    ensure!(
        has_target(machine.target()),
        "the Rust target {0} is not installed: rustup target add {0}",
        machine.target()
    );
    let mut command = cargo(&["build", "--locked", "-p", "takt-rt-cli", "--profile", profile]);
    command.args(arguments).current_dir(folder).arg("--target-dir").arg(target);
    command.args(["--target", machine.target()]).envs(linker(machine)).env(FLAGS, remapped(folder)?);
    if profile == PROFILE {
        command.env("TAKT_VERSION", full_version()?).env("CARGO_INCREMENTAL", "0");
    }
    let built = command.status()?;
    ensure!(built.success(), "takt cannot be built for {}: {built}", machine.target());
    Ok(target.join(machine.target()).join(profile))
}

/// The variable that tells Cargo the linker for a kind of machine, where that is another one than this.
pub(crate) fn linker(machine: Machine) -> Option<(String, &'static str)> {
    let variable = format!("CARGO_TARGET_{}_LINKER", machine.target().to_uppercase().replace('-', "_"));
    (native().ok() != Some(machine) && std::env::var_os(&variable).is_none()).then_some((variable, "rust-lld"))
}

/// Flags of the compiler by which the sources of a folder have the same names on every machine.
pub(crate) fn remapped(folder: &Path) -> Result<String> {
    let home = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let cargo = home("CARGO_HOME").or(home("HOME").map(|home| home.join(".cargo"))).context("no home of Cargo")?;
    let flag = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let mut flags = vec![flag(folder, "/takt")];
    // The name of the folder of a registry has a hash of its address.
    for entry in fs::read_dir(cargo.join("registry/src")).into_iter().flatten() {
        flags.push(flag(&entry?.path(), "/registry"));
    }
    flags.sort();
    Ok(flags.join("\u{1f}"))
}

/// The version with the commit and its date, and a mark of changes since then.
pub(crate) fn full_version() -> Result<String> {
    let git = |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(root()));
    let version = version()?;
    let Ok(commit) = git(&["log", "-1", "--format=%H %cs"]) else { return Ok(version) };
    let (hash, date) = commit.trim().split_once(' ').context("git names no commit")?;
    let changed = if git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() { "" } else { ", changed" };
    Ok(format!("{version} ({} {date}{changed})", &hash[..12]))
}

/// Packs a built `takt` into a directory, and gives the path of the package. `own` is a `takt` that this machine can run.
///
/// # Errors
/// When a file cannot be written, or the program is for another machine.
pub(crate) fn pack(machine: Machine, takt: &Path, own: &Path, directory: &Path) -> Result<PathBuf> {
    let program = program(machine, takt)?;
    let version = version()?;
    let package = directory.join(format!("takt_{version}_{}.deb", machine.name()));
    let tree = Tree::new(directory.join(format!("tree-{}-{}", machine.name(), std::process::id())))?;
    tree.file("usr/bin/takt", &program, 0o755)?;
    tree.link("usr/bin/demos-sched", "takt")?;
    tree.reference(own, "usr/share", "vendor-completions")?;
    let source = |path: &str| fs::read(root().join(path)).with_context(|| path.to_owned());
    tree.file("usr/lib/systemd/system/takt@.service", &unit(&source("contrib/systemd/takt@.service")?)?, 0o644)?;
    tree.file("usr/lib/systemd/user/takt@.service", &unit(&source("contrib/systemd/user/takt@.service")?)?, 0o644)?;
    tree.compressed("usr/share/doc/takt/changelog", &source("CHANGELOG.md")?)?;
    tree.file("usr/share/doc/takt/copyright", copyright()?.as_bytes(), 0o644)?;
    tree.file("usr/share/doc/takt/examples/quickstart.yaml", &source("workloads/quickstart.yaml")?, 0o644)?;
    let size = tree.size()?.div_ceil(1024);
    let control = String::from_utf8(source("xtask/deb/control")?)?;
    let control = control.replace("@VERSION@", &version).replace("@ARCHITECTURE@", machine.name());
    let sums = tree.sums()?;
    tree.file("DEBIAN/control", control.replace("@SIZE@", &size.to_string()).as_bytes(), 0o644)?;
    tree.file("DEBIAN/md5sums", sums.as_bytes(), 0o644)?;
    for script in ["prerm", "postrm"] {
        tree.file(&format!("DEBIAN/{script}"), &source(&format!("xtask/deb/{script}"))?, 0o755)?;
    }
    tree.open_folders()?;
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "--build"]).arg(tree.path("")).arg(&package);
    output(dpkg.env("SOURCE_DATE_EPOCH", epoch()?))?;
    Ok(package)
}

/// The bytes of a program.
///
/// # Errors
/// When it is for another machine.
pub(crate) fn program(machine: Machine, path: &Path) -> Result<Vec<u8>> {
    let program = fs::read(path).with_context(|| path.display().to_string())?;
    let elf = program.get(18..20).map(|field| u16::from_le_bytes([field[0], field[1]]));
    ensure!(elf == Some(machine.elf()), "{} is no program for {}", path.display(), machine.name());
    Ok(program)
}

/// A unit file without the line about copying it.
fn unit(text: &[u8]) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(text)?;
    let lines: Vec<&str> = text.lines().collect();
    let kept: Vec<&str> = lines.iter().copied().filter(|line| !line.starts_with("# Copy this file to ")).collect();
    ensure!(kept.len() + 1 == lines.len(), "the unit file has no line about copying it");
    let link = |line: &&str| line.replace("../takt@.service", "/usr/lib/systemd/system/takt@.service") + "\n";
    Ok(kept.iter().map(link).collect::<String>().into_bytes())
}

fn copyright() -> Result<String> {
    let licence = fs::read_to_string(root().join("LICENSE-MIT"))?;
    let line = |line: &str| if line.is_empty() { " .".to_owned() } else { format!(" {line}") };
    let text: Vec<String> = licence.trim_end().lines().map(line).collect();
    Ok(fs::read_to_string(root().join("xtask/deb/copyright"))?.replace("@MIT@", &text.join("\n")))
}

/// The version of the package `takt-rt-cli`.
pub(crate) fn version() -> Result<String> {
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let cli = packages.iter().find(|package| package["name"] == "takt-rt-cli").context("no package takt-rt-cli")?;
    Ok(cli["version"].as_str().context("no version")?.to_owned())
}

/// Seconds of the date that all files have.
pub(crate) fn epoch() -> Result<String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let mut git = Command::new("git");
    let date = output(git.args(["log", "-1", "--format=%ct"]).current_dir(root()));
    Ok(date.context("set SOURCE_DATE_EPOCH where there is no commit")?.trim().to_owned())
}

pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{name} cannot be started"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The files of a package, removed when this is dropped.
pub(crate) struct Tree(PathBuf);

impl Tree {
    pub(crate) fn new(path: PathBuf) -> Result<Tree> {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(Tree(path))
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    pub(crate) fn file(&self, below: &str, content: &[u8], mode: u32) -> Result<()> {
        let path = self.path(below);
        fs::create_dir_all(path.parent().context("no directory")?)?;
        fs::write(&path, content)?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
    }

    /// The manual pages and completions, below a folder such as `usr/share`. `own` is a `takt` that this machine can run.
    pub(crate) fn reference(&self, own: &Path, share: &str, zsh: &str) -> Result<()> {
        let below = |path: &str| format!("{share}/{path}");
        let generated = self.path("generated");
        fs::create_dir(&generated)?;
        let mut reference = Command::new(own);
        reference.arg("__reference").arg("--manual").arg(&generated).arg("--completions").arg(&generated);
        let status = reference.status()?;
        ensure!(status.success(), "takt __reference: {status}");
        let mut pages = 0;
        for entry in fs::read_dir(&generated)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let content = fs::read(&path)?;
            match name.as_str() {
                "takt.bash" => self.file(&below("bash-completion/completions/takt"), &content, 0o644)?,
                "_takt" => self.file(&below(&format!("zsh/{zsh}/_takt")), &content, 0o644)?,
                "takt.fish" => self.file(&below("fish/vendor_completions.d/takt.fish"), &content, 0o644)?,
                _ => {
                    ensure!(name.ends_with(".1"), "{name} is no manual page");
                    self.compressed(&below(&format!("man/man1/{name}")), &content)?;
                    pages += 1;
                }
            }
        }
        ensure!(pages > 10, "takt has written {pages} manual pages");
        Ok(fs::remove_dir_all(&generated)?)
    }

    /// Writes a file as gzip, without name and date.
    pub(crate) fn compressed(&self, below: &str, content: &[u8]) -> Result<()> {
        self.file(below, content, 0o644)?;
        output(Command::new("gzip").arg("-9n").arg(self.path(below))).map(drop)
    }

    pub(crate) fn link(&self, below: &str, to: &str) -> Result<()> {
        Ok(symlink(to, self.path(below))?)
    }

    /// Regular files by name, and directories.
    fn entries(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let (mut files, mut folders, mut open) = (Vec::new(), vec![self.0.clone()], vec![self.0.clone()]);
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let kind = path.symlink_metadata()?.file_type();
                if kind.is_dir() {
                    open.push(path.clone());
                    folders.push(path);
                } else if kind.is_file() {
                    files.push(path);
                }
            }
        }
        files.sort();
        Ok((files, folders))
    }

    /// The bytes of all files.
    fn size(&self) -> Result<u64> {
        let (files, _) = self.entries()?;
        files.iter().map(|file| Ok(file.metadata()?.len())).sum()
    }

    /// The checksums by which `dpkg --verify` finds changed files.
    fn sums(&self) -> Result<String> {
        let (files, _) = self.entries()?;
        let below = files.iter().map(|file| file.strip_prefix(&self.0)).collect::<Result<Vec<_>, _>>()?;
        output(Command::new("md5sum").arg("--").args(below).current_dir(&self.0))
    }

    /// Directories are readable whatever the umask is.
    pub(crate) fn open_folders(&self) -> Result<()> {
        let (_, folders) = self.entries()?;
        folders.iter().try_for_each(|folder| Ok(fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_a_machine_and_a_directory() {
        assert_eq!(Options::parse(&[]).unwrap().machines, Machine::ALL);
        let options = Options::parse(&["--arch", "arm64", "--out", "/a"]).unwrap();
        assert_eq!(options, Options { machines: vec![Machine::Arm64], directory: "/a".into() });
        for wrong in [&["--arch"][..], &["--arch", "riscv64"], &["arm64"]] {
            assert_eq!(Options::parse(wrong), None, "{wrong:?}");
        }
    }

    /// With a program that is none but by its head, and a script in the place of the one that writes manual pages.
    #[test]
    fn a_package_has_the_same_bytes_again_and_only_programs_of_its_machine() {
        if requirements().is_err() {
            return takt_testing::skip(takt_testing::Capability::Dpkg, "dpkg-deb is not installed");
        }
        let dir = tempfile::tempdir().unwrap();
        let mut program = vec![0; 64];
        program[18] = 183;
        fs::write(dir.path().join("takt"), &program).unwrap();
        let own = dir.path().join("own");
        let script = "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10 11; do echo $n > \"$3/takt-$n.1\"; done\n\
                      for name in takt.bash _takt takt.fish; do echo > \"$5/$name\"; done\n";
        fs::write(&own, script).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        let bytes = |out: &str, machine| -> Result<Vec<u8>> {
            let out = dir.path().join(out);
            fs::create_dir_all(&out)?;
            let package = pack(machine, &dir.path().join("takt"), &own, &out)?;
            assert_eq!(fs::read_dir(&out)?.count(), 1, "only the package is left");
            Ok(fs::read(package)?)
        };
        let first = bytes("a", Machine::Arm64).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert!(first == bytes("b", Machine::Arm64).unwrap(), "another package at another time");
        assert!(bytes("c", Machine::Amd64).unwrap_err().to_string().contains("no program for amd64"));
        let package = dir.path().join("a").join(format!("takt_{}_arm64.deb", version().unwrap()));
        let listed = output(Command::new("dpkg-deb").arg("--contents").arg(package)).unwrap();
        for part in [
            "-rwxr-xr-x root/root",
            "./usr/bin/demos-sched -> takt",
            "./usr/share/man/man1/takt-1.1.gz",
            "./usr/lib/systemd/system/takt@.service",
            "./usr/share/zsh/vendor-completions/_takt",
        ] {
            assert!(listed.contains(part), "{part}: {listed}");
        }
    }
}
