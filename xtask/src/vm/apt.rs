//! Packages of Debian, without a change of this machine.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// apt with its own lists and its own idea of sources; the machine's configuration stays as it is.
pub(super) struct Apt {
    pub(super) root: PathBuf,
}

impl Apt {
    /// With these suites of the mirror that the machine uses.
    ///
    /// # Errors
    /// When this is no Debian.
    pub(super) fn new(root: &Path, suites: &[&str]) -> Result<Apt> {
        ensure!(Path::new(KEYRING).exists(), "{KEYRING} is missing: this is no Debian, so nothing is downloaded");
        for dir in ["lists/partial", "cache/archives/partial", "parts", "dpkg"] {
            fs::create_dir_all(root.join(dir))?;
        }
        fs::write(root.join("dpkg/status"), "")?;
        let mirror = mirror().context("no Debian mirror in /etc/apt")?;
        let line = |suite: &&str| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(root.join("sources.list"), suites.iter().map(line).collect::<String>())?;
        Ok(Apt { root: root.to_path_buf() })
    }

    pub(super) fn command(&self, tool: &str) -> Command {
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

    /// Fetches the lists of packages.
    pub(super) fn update(&self) -> Result<()> {
        run(self.command("apt-get").arg("update")).context("the package lists could not be fetched")?;
        Ok(())
    }
}

/// The mirror of the Debian archive in this machine's apt sources.
pub(crate) fn mirror() -> Option<String> {
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
pub(super) fn run(command: &mut Command) -> Result<String> {
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
}
