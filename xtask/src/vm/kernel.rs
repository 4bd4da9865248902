//! Kernels to boot: Debian's, through the package mirror that this machine already uses.

use super::apt::{Apt, run};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Newer than a stable release, and to be had for long; the newest of unstable changes every few weeks.
const PINNED: &str = "7.0.13+deb13";
const SUITES: [&str; 2] = ["trixie-backports", "sid"];

/// A kernel image.
pub(crate) struct Kernel {
    /// Version and flavour, such as `7.0.13+deb13-rt-amd64`.
    pub(crate) name: String,
    pub(crate) image: PathBuf,
}

/// The newest kernel of each flavour (`cloud`, `rt`), from `dir` or else downloaded into it. Where the newest cannot be had,
/// the pinned one.
///
/// # Errors
/// When there is no kernel at all, with the reason.
pub(crate) fn fetch(dir: &Path, flavours: &[&str]) -> Result<Vec<Kernel>> {
    fs::create_dir_all(dir)?;
    let cached: Vec<Kernel> = flavours.iter().filter_map(|flavour| cached(dir, flavour)).collect();
    if cached.len() == flavours.len() {
        return Ok(cached);
    }
    let apt = Apt::new(&dir.join("apt"), &SUITES)?;
    apt.update()?;
    let mut kernels = Vec::new();
    for flavour in flavours {
        let newest = newest(&apt, flavour)?;
        let versions = newest.iter().map(String::as_str).chain([PINNED]);
        let mut tried = Vec::new();
        for version in versions {
            let name = format!("{version}-{flavour}-amd64");
            match download(&apt, dir, &name) {
                Ok(image) => {
                    kernels.push(Kernel { name, image });
                    tried.clear();
                    break;
                }
                Err(e) => tried.push(format!("{e:#}")),
            }
        }
        ensure!(tried.is_empty(), "no {flavour} kernel could be downloaded: {}", tried.join("; "));
    }
    Ok(kernels)
}

/// The download of an earlier call.
fn cached(dir: &Path, flavour: &str) -> Option<Kernel> {
    let names = fs::read_dir(dir).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let ending = format!("-{flavour}-amd64");
    let name = names.filter_map(|n| n.strip_prefix("vmlinuz-").map(str::to_string)).filter(|n| n.ends_with(&ending));
    let name = name.max_by_key(|name| version_key(name))?;
    Some(Kernel { image: dir.join(format!("vmlinuz-{name}")), name })
}

/// The numbers of a version, so that 7.10 comes after 7.9.
fn version_key(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The newest version of a flavour, if the mirror has any.
fn newest(apt: &Apt, flavour: &str) -> Result<Option<String>> {
    let names = run(apt.command("apt-cache").args(["search", "--names-only", "^linux-binary-.*-amd64$"]))?;
    let versions = names.lines().filter_map(|line| {
        let name = line.split(' ').next()?.strip_prefix("linux-binary-")?;
        Some(name.strip_suffix(&format!("-{flavour}-amd64"))?.to_string())
    });
    Ok(versions.max_by_key(|version| version_key(version)))
}

/// Downloads a package and takes the kernel image out of it.
fn download(apt: &Apt, dir: &Path, name: &str) -> Result<PathBuf> {
    let image = dir.join(format!("vmlinuz-{name}"));
    if image.exists() {
        return Ok(image);
    }
    println!("downloading Linux {name}");
    let unpacked = apt.root.join("unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    fs::create_dir_all(&unpacked)?;
    run(apt.command("apt-get").arg("download").arg(format!("linux-binary-{name}")).current_dir(&unpacked))?;
    let files = fs::read_dir(&unpacked)?.flatten().map(|entry| entry.path());
    let package = files.into_iter().find(|p| p.extension().is_some_and(|e| e == "deb")).context("no package")?;
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked))?;
    let found = find_image(&unpacked).context("the package holds no kernel image")?;
    // Renamed at the end, so that an image that is there is whole.
    let partial = dir.join("partial");
    fs::copy(found, &partial)?;
    fs::rename(&partial, &image)?;
    fs::remove_dir_all(&unpacked)?;
    Ok(image)
}

/// Modules of a kernel, decompressed, from `dir` or else downloaded into it. The names are without their ending.
///
/// # Errors
/// When the kernel's package of modules is no longer there, or lacks one of them.
pub(super) fn modules(dir: &Path, kernel: &str, names: &[&str]) -> Result<Vec<PathBuf>> {
    let own = dir.join(format!("modules-{kernel}"));
    let path = |name: &&str| own.join(format!("{name}.ko"));
    if names.iter().all(|name| path(name).exists()) {
        return Ok(names.iter().map(path).collect());
    }
    fs::create_dir_all(&own)?;
    let apt = Apt::new(&dir.join("kernels/apt"), &SUITES)?;
    apt.update()?;
    println!("downloading the modules of Linux {kernel}");
    let unpacked = apt.root.join("unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    fs::create_dir_all(&unpacked)?;
    run(apt.command("apt-get").arg("download").arg(format!("linux-modules-{kernel}")).current_dir(&unpacked))?;
    run(Command::new("sh").args(["-c", "dpkg-deb -x ./*.deb . && rm ./*.deb"]).current_dir(&unpacked))?;
    for name in names {
        let found = find(&unpacked, &|file| file.starts_with(&format!("{name}.ko")));
        let found = found.with_context(|| format!("the package of modules lacks {name}"))?;
        let compressed = found.extension().is_some_and(|e| e == "xz");
        let content = match compressed {
            true => Command::new("xz").arg("-dc").arg(&found).output().context("xz cannot be started")?.stdout,
            false => fs::read(&found)?,
        };
        ensure!(content.starts_with(b"\x7fELF"), "{} is no module", found.display());
        // Renamed at the end, so that one that is there is whole.
        let partial = own.join("partial");
        fs::write(&partial, content)?;
        fs::rename(&partial, path(name))?;
    }
    fs::remove_dir_all(&unpacked)?;
    Ok(names.iter().map(path).collect())
}

/// A file at any depth whose name is wanted.
fn find(dir: &Path, wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    fs::read_dir(dir).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            return find(&path, wanted);
        }
        wanted(&entry.file_name().to_string_lossy()).then_some(path)
    })
}

fn find_image(dir: &Path) -> Option<PathBuf> {
    fs::read_dir(dir).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            return find_image(&path);
        }
        let large = entry.metadata().is_ok_and(|m| m.is_file() && m.len() > 1 << 20);
        (large && entry.file_name().to_string_lossy().starts_with("vmlinuz")).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(version_key("7.10.1+deb14") > version_key("7.9.12+deb14"));
    }
}
