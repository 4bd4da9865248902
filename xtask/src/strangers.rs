//! `cargo xtask strangers`: each way of installation in an empty Debian, from the files of a release to a first run, and its removal.
//!
//! The root is made by `debootstrap` below `target`. Each command has mounts, processes and a network of its own, so that nothing is mounted afterwards.

use crate::deb::{self, output};
use crate::dist;
use crate::vm::apt;
use crate::workspace::{Outcome, root};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A way of installation. Scripts find the files of the release in `/release`, and the version in `$VERSION`.
struct Way {
    name: &'static str,
    install: &'static str,
    /// Settings of the shell, with which it finds the program.
    environment: &'static str,
    /// Prints the manual page of `takt sim`.
    manual: &'static str,
    /// Ends with status 0 if the shell completes the arguments of `takt`.
    completion: &'static str,
    /// Without a package manager the empty folder `/run/takt` is left until the machine starts again. pip leaves empty folders.
    remove: &'static str,
}

const WAYS: [Way; 3] = [
    Way {
        name: "Debian package",
        install: "dpkg --install /release/takt_*.deb",
        environment: ":",
        manual: "man takt-sim",
        completion: "bash -c '. /usr/share/bash-completion/completions/takt && complete -p takt'",
        remove: "dpkg --purge takt",
    },
    Way {
        name: "archive",
        install: "tar -C /opt -xf /release/takt-*.tar.gz",
        environment: "PATH=$(echo /opt/takt-*)/bin:$PATH",
        manual: "man takt-sim",
        completion: "bash -c '. /opt/takt-*/share/bash-completion/completions/takt && complete -p takt'",
        remove: "rm -r /opt/takt-* && rmdir /run/takt",
    },
    Way {
        name: "wheel",
        install: "/opt/python/bin/pip install --no-index --no-cache-dir /release/takt_rt_cli-*.whl",
        environment: "PATH=/opt/python/bin:$PATH",
        manual: "man takt-sim",
        completion: "bash -c '. /opt/python/share/bash-completion/completions/takt && complete -p takt'",
        remove: "/opt/python/bin/pip uninstall --yes takt-rt-cli && find /opt/python/share -type d -empty -delete && rmdir /run/takt",
    },
];

/// The container image has a shell, and neither `man` nor `bash`.
const IMAGE: Way = Way {
    name: "container image",
    install: ":",
    environment: ":",
    manual: "takt man sim",
    completion: "takt completions bash | grep 'complete .* takt'",
    remove: ":",
};

/// The first minute of a user.
const FIRST_MINUTE: &str = r#"
takt --version | grep "^takt $VERSION"
takt init table | grep 'table.yaml is written'
takt check table.yaml | grep '^schedulable'
takt check workloads/quickstart.yaml | grep '^schedulable'
takt sim workloads/quickstart.yaml --duration 1s | grep '^background '
takt run workloads/quickstart.yaml --duration 2s | grep '^background '
"#;

/// Programs of the root besides the smallest Debian.
const PACKAGES: &str = "man-db,python3-venv";

/// The longest that one way may take, in seconds.
const PATIENCE: &str = "180";

/// Makes the files of a release and the root, and tries each way.
pub(crate) fn run() -> Outcome {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    for (tool, package) in [("debootstrap", "debootstrap"), ("unshare", "util-linux")] {
        if !has(tool) {
            return Outcome::Skipped(format!("{tool} is not installed: apt-get install {package}"));
        }
    }
    if !fs::metadata("/proc/self").is_ok_and(|known| std::os::unix::fs::MetadataExt::uid(&known) == 0) {
        return Outcome::Skipped("a root is made and entered by root: run it as root".into());
    }
    let folder = match tempfile::Builder::new().prefix("strangers-").tempdir_in(root().join("target")) {
        Ok(folder) => folder,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let debian = folder.path().join("debian");
    if let Err(error) = bootstrap(&debian) {
        return Outcome::Skipped(format!("debootstrap makes no root here: {error:#}"));
    }
    match tried(folder.path(), &debian) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// Makes a small Debian of the release that this machine has.
fn bootstrap(debian: &Path) -> Result<()> {
    let start = Instant::now();
    let release = fs::read_to_string("/etc/os-release")?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).context("this is no Debian")?;
    let mut make = Command::new("timeout");
    make.args(["--kill-after=5", "600", "unshare", "--mount", "--propagation=private"]);
    make.args(["debootstrap", "--variant=minbase", &format!("--include={PACKAGES}"), suite]).arg(debian);
    output(make.args(apt::mirror()))?;
    output(&mut inside(debian, "python3 -m venv /opt/python"))?;
    println!("an empty Debian ({suite}): {:.0} s", start.elapsed().as_secs_f32());
    Ok(())
}

fn tried(folder: &Path, debian: &Path) -> Result<()> {
    let release = debian.join("release");
    fs::create_dir(&release)?;
    let missing = dist::native_files(&release)?;
    for way in &WAYS {
        let before = paths(debian)?;
        first_minute(way, debian)?;
        output(&mut inside(debian, way.remove))?;
        let after = paths(debian)?;
        let left: Vec<&PathBuf> = after.symmetric_difference(&before).collect();
        ensure!(left.is_empty(), "{}: removal leaves other files than before: {left:?}", way.name);
    }
    if missing.is_empty() {
        let image = folder.join("image");
        let environment = unpack(&release, &image)?;
        ensure!(environment == ["PATH=/usr/local/bin:/usr/bin:/bin"], "another environment: {environment:?}");
        first_minute(&IMAGE, &image)?;
    }
    missing.iter().for_each(|line| println!("skipped: {line}"));
    Ok(())
}

/// Installs by a way, and tries the program.
fn first_minute(way: &Way, place: &Path) -> Result<()> {
    let start = Instant::now();
    let work = place.join("tmp/stranger");
    fs::create_dir_all(work.join("workloads"))?;
    fs::copy(root().join("workloads/quickstart.yaml"), work.join("workloads/quickstart.yaml"))?;
    let Way { name, install, environment, manual, completion, .. } = way;
    // Each line is a command that fails alone.
    let script = format!(
        "{install}\n{environment}\ncd /tmp/stranger\n{FIRST_MINUTE}\n{manual} > manual\ngrep -q duration manual\n{completion}\n"
    );
    output(&mut inside(place, &script)).with_context(|| format!("{name}: {script}"))?;
    fs::remove_dir_all(work)?;
    println!(
        "{name}: installed, checked, simulated, run, with manual and completion: {:.0} s",
        start.elapsed().as_secs_f32()
    );
    Ok(())
}

/// A script of the shell in another root.
fn inside(place: &Path, script: &str) -> Command {
    const ENTER: &str =
        "mount -t proc proc \"$1/proc\" && mount --bind /dev \"$1/dev\" && exec chroot \"$1\" /bin/sh -euc \"$2\"";
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE, "unshare", "--mount", "--propagation=private", "--pid", "--fork"]);
    command.args(["--kill-child", "--net", "--ipc", "--uts", "sh", "-c", ENTER, "sh"]).arg(place).arg(script);
    command.env_clear().envs([("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/root"), ("LC_ALL", "C.UTF-8")]);
    command.env("VERSION", deb::version().unwrap_or_default());
    command
}

/// All paths of a root, without those of the kernel and the cache of `man`.
fn paths(place: &Path) -> Result<BTreeSet<PathBuf>> {
    let (mut found, mut open) = (BTreeSet::new(), vec![place.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir()
                && !["proc", "dev", "sys", "var/cache/man"].iter().any(|name| path == place.join(name))
            {
                open.push(path.clone());
            }
            found.insert(path);
        }
    }
    Ok(found)
}

/// Unpacks the image of a release as a container has it, and gives its environment.
fn unpack(release: &Path, image: &Path) -> Result<Vec<String>> {
    let layout = image.with_extension("layout");
    fs::create_dir(image)?;
    fs::create_dir(&layout)?;
    let names = fs::read_dir(release)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let packed = names.iter().find(|path| path.to_string_lossy().ends_with(".oci.tar")).context("there is no image")?;
    let tar = |from: &Path, to: &Path| output(Command::new("tar").arg("-C").arg(to).arg("-xf").arg(from));
    tar(packed, &layout)?;
    let blob = |value: &Value| -> Result<PathBuf> {
        Ok(layout.join("blobs").join(value["digest"].as_str().context("no digest")?.replace(':', "/")))
    };
    let read = |path: PathBuf| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    let manifest = read(blob(&read(layout.join("index.json"))?["manifests"][0])?)?;
    tar(&blob(&manifest["layers"][0])?, image)?;
    let config = read(blob(&manifest["config"])?)?;
    let environment = config["config"]["Env"].as_array().context("no environment")?;
    Ok(environment.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}
