//! `cargo xtask service`: the package of Takt, with its unit files, under systemd, which is process 1 of a virtual machine.
//!
//! systemd and dpkg come from Debian's packages, with all that they depend on. Nothing else of Debian is in the machine. The package of
//! [`crate::deb`] is installed there, used and removed.

use super::apt::{Apt, run as output_of};
use super::initramfs::Archive;
use super::{BOOT_TIME_MAX, BUSYBOX, Boot, Mode, build, kernels, requirements, target_dir};
use crate::deb::{self, Machine as Kind};
use crate::workspace::{Outcome, root};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A stable release, whose packages stay where they are.
const SUITE: &str = "trixie";
/// The parts of packages that the machine has: programs and libraries, no documentation.
const PARTS: [&str; 6] = ["usr/bin/", "usr/sbin/", "usr/lib/", "usr/lib64/", "usr/share/dbus-1/", "etc/"];
/// The folders that begin these names are links into `usr`, whatever a package says.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Programs of busybox that the scripts call.
const APPLETS: [&str; 28] = [
    "sh", "cat", "cp", "cut", "diff", "dirname", "find", "grep", "gzip", "head", "id", "kill", "ls", "mkdir", "mv",
    "pidof", "poweroff", "rm", "sed", "seq", "sleep", "su", "tail", "sort", "touch", "tr", "uname", "wc",
];

/// Boots the machine. A step of continuous integration has to be over at `until`.
pub(crate) fn run(verbose: bool, until: Option<Instant>) -> Outcome {
    if let Err(why) = requirements().and_then(|()| deb::requirements()) {
        return Outcome::Skipped(why);
    }
    let dir = match target_dir().and_then(|dir| fs::create_dir_all(&dir).map(|()| dir).map_err(Into::into)) {
        Ok(dir) => dir,
        Err(e) => return Outcome::Failed(format!("{e:#}")),
    };
    let fetched = kernels(&dir.join("kernels"), &["cloud"])
        .and_then(|kernels| Ok((kernels, packages(&dir.join("systemd-dpkg"))?)));
    let (kernels, packages) = match fetched {
        Ok(fetched) => fetched,
        Err(e) => return Outcome::Skipped(format!("{e:#}")),
    };
    let initramfs = match initramfs(&dir, &packages) {
        Ok(initramfs) => initramfs,
        Err(e) => return Outcome::Failed(format!("{e:#}")),
    };
    let limit = until.map_or(BOOT_TIME_MAX, |until| until.saturating_duration_since(Instant::now())).min(BOOT_TIME_MAX);
    let append = "systemd.unit=takt-test.target systemd.show_status=no systemd.log_level=info systemd.log_target=journal systemd.journald.forward_to_console=no";
    let machine = Boot { kernel: &kernels[0], initramfs: &initramfs, mode: Mode::Exact, hardware: None, append };
    let (mut lines, start) = (Vec::new(), Instant::now());
    let counts = super::boot(&machine, verbose, limit, &mut lines);
    lines.iter().for_each(|line| println!("{line}"));
    println!("-- systemd on Linux {}: {:.1} s", kernels[0].name, start.elapsed().as_secs_f32());
    match counts {
        Err(e) => Outcome::Failed(format!("{e:#}")),
        Ok(counts) if counts.skipped > 0 => Outcome::Skipped("no time was left for the boot".into()),
        Ok(counts) if counts.failed > 0 => Outcome::Failed(format!("{} tests under systemd", counts.failed)),
        Ok(counts) if counts.passed == 0 => Outcome::Failed("the machine has tested nothing".into()),
        Ok(counts) => {
            println!("{} passed", counts.passed);
            Outcome::Passed
        }
    }
}

/// The unpacked packages, from an earlier call or downloaded.
fn packages(dir: &Path) -> Result<PathBuf> {
    let tree = dir.join("root");
    if tree.exists() {
        return Ok(tree);
    }
    let apt = Apt::new(&dir.join("apt"), &[SUITE])?;
    apt.update()?;
    println!("downloading systemd and dpkg of Debian {SUITE}");
    let mut download = apt.command("apt-get");
    download.args(["--yes", "--no-install-recommends", "--download-only", "install", "systemd", "dpkg"]);
    output_of(&mut download).context("the packages of systemd could not be fetched")?;
    let partial = dir.join("partial");
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial)?;
    for entry in fs::read_dir(apt.root.join("cache/archives"))? {
        let package = entry?.path();
        if package.extension().is_some_and(|e| e == "deb") {
            output_of(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&partial))?;
        }
    }
    // Renamed at the end, so that a tree that is there is whole.
    fs::rename(&partial, &tree)?;
    Ok(tree)
}

/// Packs the machine: systemd, dpkg, the package of Takt, and the script that tests it.
fn initramfs(dir: &Path, packages: &Path) -> Result<PathBuf> {
    let takt = build(&["build", "-p", "takt-rt-cli", "--bin", "takt"])?;
    ensure!(takt.len() == 1, "{} programs were built instead of takt alone", takt.len());
    let path = dir.join("systemd.cpio");
    let mut machine = Machine { archive: Archive::new(BufWriter::new(File::create(&path)?)), folders: BTreeSet::new() };
    for folder in ["usr", "dev", "proc", "sys", "run", "tmp", "var", "var/log", "root", "srv"] {
        machine.folder(folder)?;
    }
    for link in MERGED {
        machine.archive.symlink(link, Path::new(&format!("usr/{link}")))?;
        machine.folder(&format!("usr/{link}"))?;
    }
    machine.archive.symlink("init", Path::new("usr/lib/systemd/systemd"))?;
    machine.archive.console()?;
    machine.tree(packages, packages)?;
    machine.program("usr/bin/busybox", &fs::read(BUSYBOX)?)?;
    for applet in APPLETS {
        machine.archive.symlink(&format!("usr/bin/{applet}"), Path::new("busybox"))?;
    }
    // This machine runs it, too, since it is linked statically.
    let package = deb::pack(Kind::Amd64, &takt[0].1, &takt[0].1, dir)?;
    machine.file("takt.deb", &fs::read(package)?)?;
    machine.file("functions.sh", &fs::read(root().join("xtask/vm/functions.sh"))?)?;
    let files = root().join("xtask/vm/service");
    machine.files(&files, &files)?;
    machine.archive.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    Ok(path)
}

/// The machine's file system, entry by entry.
struct Machine<W: Write> {
    archive: Archive<W>,
    folders: BTreeSet<String>,
}

impl<W: Write> Machine<W> {
    /// A folder with all above it.
    fn folder(&mut self, path: &str) -> Result<()> {
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        self.folder(path.rsplit_once('/').map_or("", |(above, _)| above))?;
        self.archive.directory(path)?;
        self.folders.insert(path.to_owned());
        Ok(())
    }

    fn above(&mut self, path: &str) -> Result<()> {
        self.folder(path.rsplit_once('/').map_or("", |(above, _)| above))
    }

    fn file(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.above(path)?;
        Ok(self.archive.file(path, content)?)
    }

    fn program(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.above(path)?;
        Ok(self.archive.program(path, content)?)
    }

    /// The parts of unpacked packages that a machine needs to run.
    fn tree(&mut self, base: &Path, dir: &Path) -> Result<()> {
        let mut entries: Vec<PathBuf> = fs::read_dir(dir)?.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            let name = path.strip_prefix(base)?.to_str().context("a name in a package is no text")?;
            let name = match name.split('/').next() {
                Some(first) if MERGED.contains(&first) => format!("usr/{name}"),
                _ => name.to_owned(),
            };
            let kind = path.symlink_metadata()?;
            if kind.is_dir() {
                self.tree(base, &path)?;
            } else if !PARTS.iter().any(|part| name.starts_with(part)) {
                continue;
            } else if kind.is_symlink() {
                self.above(&name)?;
                self.archive.symlink(&name, &fs::read_link(&path)?)?;
            } else if kind.permissions().mode() & 0o111 != 0 {
                self.program(&name, &fs::read(&path)?)?;
            } else {
                self.file(&name, &fs::read(&path)?)?;
            }
        }
        Ok(())
    }

    /// A folder of the repository as it is, scripts as programs.
    fn files(&mut self, base: &Path, dir: &Path) -> Result<()> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                self.files(base, &path)?;
                continue;
            }
            let name = path.strip_prefix(base)?.to_str().context("a name is no text")?.to_owned();
            let content = fs::read(&path)?;
            if content.starts_with(b"#!") { self.program(&name, &content)? } else { self.file(&name, &content)? }
        }
        Ok(())
    }
}
