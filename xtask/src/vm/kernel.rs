//! Kernels to boot: Debian's, through the package mirror that this machine already uses.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Newer than a stable release, and to be had for long; the newest of unstable changes every few weeks.
const PINNED: &str = "7.0.13+deb13";
const SUITES: [&str; 2] = ["trixie-backports", "sid"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

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
    ensure!(Path::new(KEYRING).exists(), "{KEYRING} is missing: this is no Debian, so kernels are not downloaded");
    let apt = Apt::new(&dir.join("apt"))?;
    apt.update()?;
    let mut kernels = Vec::new();
    for flavour in flavours {
        let newest = apt.newest(flavour)?;
        let versions = newest.iter().map(String::as_str).chain([PINNED]);
        let mut tried = Vec::new();
        for version in versions {
            let name = format!("{version}-{flavour}-amd64");
            match apt.download(dir, &name) {
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

/// What an earlier call downloaded.
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

/// apt with its own lists and its own idea of sources; the machine's configuration stays as it is.
struct Apt {
    root: PathBuf,
}

impl Apt {
    fn new(root: &Path) -> Result<Apt> {
        for dir in ["lists/partial", "cache/archives/partial", "parts", "dpkg"] {
            fs::create_dir_all(root.join(dir))?;
        }
        fs::write(root.join("dpkg/status"), "")?;
        let mirror = mirror().context("no Debian mirror in /etc/apt")?;
        let line = |suite| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(root.join("sources.list"), SUITES.map(line).concat())?;
        Ok(Apt { root: root.to_path_buf() })
    }

    fn command(&self, tool: &str) -> Command {
        let root = self.root.display();
        let mut command = Command::new(tool);
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        for option in [
            format!("Dir::State={root}"),
            format!("Dir::State::status={root}/dpkg/status"),
            format!("Dir::Cache={root}/cache"),
            format!("Dir::Etc::sourcelist={root}/sources.list"),
            format!("Dir::Etc::sourceparts={root}/parts"),
            "APT::Sandbox::User=root".into(),
            "APT::Architecture=amd64".into(),
            "Acquire::Languages=none".into(),
            "Acquire::Retries=3".into(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }

    fn update(&self) -> Result<()> {
        run(self.command("apt-get").arg("update")).context("the package lists could not be fetched")?;
        Ok(())
    }

    /// The newest version of a flavour, if the mirror has any.
    fn newest(&self, flavour: &str) -> Result<Option<String>> {
        let names = run(self.command("apt-cache").args(["search", "--names-only", "^linux-binary-.*-amd64$"]))?;
        let versions = names.lines().filter_map(|line| {
            let name = line.split(' ').next()?.strip_prefix("linux-binary-")?;
            Some(name.strip_suffix(&format!("-{flavour}-amd64"))?.to_string())
        });
        Ok(versions.max_by_key(|version| version_key(version)))
    }

    /// Downloads a package and takes the kernel image out of it.
    fn download(&self, dir: &Path, name: &str) -> Result<PathBuf> {
        let image = dir.join(format!("vmlinuz-{name}"));
        if image.exists() {
            return Ok(image);
        }
        println!("downloading Linux {name}");
        let unpacked = self.root.join("unpacked");
        let _ = fs::remove_dir_all(&unpacked);
        fs::create_dir_all(&unpacked)?;
        run(self.command("apt-get").arg("download").arg(format!("linux-binary-{name}")).current_dir(&unpacked))?;
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

/// The mirror of the Debian archive in this machine's apt sources.
fn mirror() -> Option<String> {
    let files = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).find_map(|text| mirror_in(&text))
}

/// The first address in a file of sources, in either of their forms, that is not the security archive.
fn mirror_in(text: &str) -> Option<String> {
    let words = text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let mut addresses = words.filter(|word| word.starts_with("http")).map(|word| word.trim_end_matches('/'));
    addresses.find(|address| !address.contains("security")).map(str::to_string)
}

/// Runs a command, and gives its standard output or an error with what it said.
fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{name} cannot be started"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_found_in_both_forms() {
        let new = "Types: deb\n# http://old.example/debian\nURIs: http://mirror.example/debian/\nSuites: trixie\n";
        assert_eq!(mirror_in(new).as_deref(), Some("http://mirror.example/debian"));
        let old = "deb http://s.example/debian-security a main\ndeb [arch=amd64] https://m.example/debian a main\n";
        assert_eq!(mirror_in(old).as_deref(), Some("https://m.example/debian"));
        assert_eq!(mirror_in("deb cdrom:[disc] a main\n"), None);
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(version_key("7.10.1+deb14") > version_key("7.9.12+deb14"));
    }
}
