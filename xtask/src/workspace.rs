//! The repository and its tools.

use anyhow::Context;
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
    let built = cargo(&["build", "--locked", "--release", "--package", "takt-rt-cli"]).status()?;
    anyhow::ensure!(built.success(), "takt could not be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/takt"))
}

/// Builds `takt` as its tests do, and gives its path.
///
/// # Errors
/// When it can't be built.
pub(crate) fn built() -> anyhow::Result<PathBuf> {
    let built = cargo(&["build", "--locked", "--quiet", "--package", "takt-rt-cli"]).status()?;
    anyhow::ensure!(built.success(), "takt could not be built");
    let target = metadata()?["target_directory"].as_str().map(PathBuf::from).context("no target directory")?;
    Ok(target.join("debug/takt"))
}

/// The description of the workspace by `cargo metadata`.
pub(crate) fn metadata() -> anyhow::Result<serde_json::Value> {
    metadata_of("Cargo.toml")
}

/// The description of the workspace of a manifest, whose path begins at the root.
pub(crate) fn metadata_of(manifest: &str) -> anyhow::Result<serde_json::Value> {
    let output = cargo(&["metadata", "--format-version=1", "--no-deps", "--manifest-path", manifest]).output()?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Whether this is continuous integration, where what can be installed must be there.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// Whether rustup (or another installation of Rust) has the standard library of a target; rustup is asked for it if not.
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

#[cfg(test)]
mod tests {
    use super::{cargo, metadata};
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Files that the sources of an unpacked package embed, besides those of its tests.
    fn embedded(package: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                embedded(package, &path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                for start in ["include_str!(", "include_bytes!("] {
                    let calls = code.split(start).skip(1);
                    let literals = calls.filter_map(|call| call.strip_prefix('"')?.split('"').next());
                    found.extend(literals.map(|literal| path.parent().unwrap().join(literal)));
                }
                // The macro of takt-cli, with a folder and the names of files in it.
                for call in code.split("= embedded!(").skip(1) {
                    let mut literals = call.split(");").next().unwrap().split('"').skip(1).step_by(2);
                    let below = package.join("embedded").join(literals.next().unwrap());
                    found.extend(literals.map(|name| below.join(name)));
                }
            }
        }
    }

    #[test]
    fn every_published_package_can_be_packaged_and_found() {
        // `publish = false` is an empty list of registries.
        let all = metadata().unwrap()["packages"].as_array().cloned().unwrap();
        let packages: Vec<_> = all.into_iter().filter(|package| !package["publish"].is_array()).collect();
        assert!(packages.len() > 14, "{} packages", packages.len());
        let list = |package: &serde_json::Value, key: &str| package[key].as_array().map_or(0, Vec::len);
        for package in &packages {
            let name = package["name"].as_str().unwrap();
            assert!(package["description"].as_str().is_some_and(|text| text.len() > 20), "{name} has no description");
            assert!((1..=5).contains(&list(package, "keywords")), "keywords of {name}");
            assert!((1..=5).contains(&list(package, "categories")), "categories of {name}");
        }
        let names = packages.iter().flat_map(|package| ["--package", package["name"].as_str().unwrap()]);
        let names: Vec<&str> = names.collect();
        let directory = tempfile::tempdir().unwrap();
        let mut package = cargo(&["package", "--locked", "--offline", "--no-verify", "--allow-dirty"]);
        let output = package.args(names).arg("--target-dir").arg(directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let folder = directory.path().join("package");
        let made = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
        let made: Vec<_> = made.filter(|path| path.extension().is_some_and(|ending| ending == "crate")).collect();
        assert_eq!(made.len(), packages.len());
        // A registry has each package alone, so it must have the files that its sources embed.
        let mut files = Vec::new();
        for package in &made {
            assert!(Command::new("tar").arg("-C").arg(&folder).arg("-xf").arg(package).status().unwrap().success());
            let unpacked = package.with_extension("");
            embedded(&unpacked, &unpacked.join("src"), &mut files);
            files.extend(["LICENSE-APACHE", "LICENSE-MIT"].map(|name| unpacked.join(name)));
            // A registry shows it as the page of the package.
            let has_page = ["takt-rt-cli-", "takt-rt-0"].iter().any(|name| package.to_string_lossy().contains(name));
            files.extend(has_page.then(|| unpacked.join("README.md")));
        }
        let embedded = files.len() - 2 * made.len() - 2;
        assert!(embedded > 25, "{embedded} embedded files");
        let missing: Vec<_> = files.iter().filter(|path| !path.exists()).collect();
        assert!(missing.is_empty(), "in no package: {missing:?}");
    }
}
