//! `cargo xtask dist`: all files of a release in one folder, with their checksums.
//!
//! For each machine: the static program, a `.tar.gz` with manual pages and completions, the Debian package, a wheel for pip, a container image and a wheel of the
//! Python package. No daemon makes the image: it is a folder by the image layout of OCI, in a tar file. The same commit gives the same bytes: all files have its date.
//! A file whose tool is missing is left out, with the command that installs the tool, and the exit status is 3.

use crate::deb::{self, Machine, Tree, epoch, output, program};
use crate::python;
use crate::results;
use crate::workspace::{Outcome, built, has_target, root};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Commands of the shell in the image, all of them busybox.
const APPLETS: [&str; 28] = [
    "awk",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dd",
    "echo",
    "env",
    "grep",
    "gzip",
    "head",
    "id",
    "kill",
    "ls",
    "mkdir",
    "mv",
    "nproc",
    "ps",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "sleep",
    "tail",
    "true",
    "vi",
    "wc",
];

/// Machines, the folder of the files, and whether a second build must give the same files.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    machines: Vec<Machine>,
    directory: PathBuf,
    twice: bool,
}

impl Options {
    /// `None`: such a call is not known.
    pub(crate) fn parse(arguments: &[&str]) -> Option<Options> {
        let mut options = Options { machines: Vec::new(), directory: root().join("target/dist"), twice: false };
        let mut rest = arguments;
        loop {
            rest = match rest {
                [] => break,
                ["--target", target, rest @ ..] => {
                    options.machines.push(Machine::ALL.into_iter().find(|machine| machine.target() == *target)?);
                    rest
                }
                ["--out", directory, rest @ ..] => {
                    options.directory = std::path::absolute(directory).ok()?;
                    rest
                }
                ["--twice", rest @ ..] => {
                    options.twice = true;
                    rest
                }
                _ => return None,
            };
        }
        if options.machines.is_empty() {
            options.machines = Machine::ALL.to_vec();
        }
        Some(options)
    }
}

/// Builds the programs, and packs them.
pub(crate) fn run(options: &Options) -> ExitCode {
    let made = match options.twice {
        true => twice(options, deb::PROFILE),
        false => made(options, deb::PROFILE),
    };
    match made {
        Ok(missing) if missing.is_empty() => ExitCode::SUCCESS,
        Ok(missing) => {
            missing.iter().for_each(|line| eprintln!("missing: {line}"));
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// With this machine's program in the form that is built most quickly: the same files twice, and the results of the ordinary program. It takes too long
/// for continuous integration.
pub(crate) fn quick() -> Outcome {
    let compared = || -> Result<Vec<String>> {
        let directory = tempfile::tempdir()?;
        let native = deb::native()?;
        let options = Options { machines: vec![native], directory: directory.path().to_owned(), twice: true };
        let missing = twice(&options, deb::QUICK)?;
        let program = deb::build(native, deb::QUICK)?;
        results::equal(&built()?, "the static program", || Command::new(&program))?;
        Ok(missing)
    };
    match compared() {
        Ok(missing) => {
            missing.iter().for_each(|line| println!("missing: {line}"));
            Outcome::Passed
        }
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// Makes all files, builds the same commit again in a folder of another name, packs it again, and compares the checksums.
fn twice(options: &Options, profile: &str) -> Result<Vec<String>> {
    let version = deb::full_version()?;
    ensure!(
        !version.contains("changed"),
        "two builds are compared of a commit, and files have changed since then: commit them"
    );
    let missing = made(options, profile)?;
    let below = root().join("target");
    fs::create_dir_all(&below)?;
    let folder = tempfile::Builder::new().prefix("second-").tempdir_in(below)?;
    let copy = folder.path().join("the same commit");
    output(Command::new("git").args(["clone", "--quiet", "--local"]).arg(root()).arg(&copy))?;
    let build = |machine| deb::build_in(&copy, &folder.path().join("target"), machine, profile);
    let own = build(deb::native()?)?;
    let files = folder.path().join("files");
    fs::create_dir(&files)?;
    for machine in options.machines.iter().filter(|machine| has_target(machine.target())) {
        let takt = if *machine == deb::native()? { own.clone() } else { build(*machine)? };
        pack(*machine, &takt, &own, busybox(*machine), &files)?;
    }
    let [first, second] = [sums(&options.directory)?, sums(&files)?];
    let [first, second] = [&first, &second].map(|sums| sums.lines().collect::<BTreeSet<&str>>());
    let differing: Vec<&&str> = first.symmetric_difference(&second).collect();
    differing.iter().for_each(|line| println!("{line}"));
    ensure!(
        differing.is_empty(),
        "a second build gives other files or other bytes: {} sums are of one alone",
        differing.len()
    );
    println!("{} files have the same bytes in a second build", second.len());
    Ok(missing)
}

/// Makes the files for this machine in a folder, and returns the tools that are missing, with the commands that install them.
pub(crate) fn native_files(directory: &Path) -> Result<Vec<String>> {
    let options = Options { machines: vec![deb::native()?], directory: directory.to_owned(), twice: false };
    made(&options, deb::PROFILE)
}

/// Makes all files, and returns the tools that are missing, with the commands that install them.
fn made(options: &Options, profile: &str) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    fs::create_dir_all(&options.directory)?;
    for old in files(&options.directory)? {
        fs::remove_file(options.directory.join(old))?;
    }
    let buildable = |machine: &Machine| {
        let target = machine.target();
        has_target(target).then_some(*machine).ok_or(format!("the Rust target {target}: rustup target add {target}"))
    };
    // It writes the manual pages of all.
    let native = deb::native()?;
    let own = match buildable(&native) {
        Ok(native) => deb::build(native, profile)?,
        Err(why) => return Ok(vec![why]),
    };
    if profile == deb::PROFILE {
        let version = output(Command::new(&own).arg("--version"))?;
        let wanted = format!("takt {}\n", deb::full_version()?);
        ensure!(version == wanted, "the program calls itself {version}, not {wanted}");
    }
    for machine in &options.machines {
        match buildable(machine) {
            Err(why) => missing.push(why),
            Ok(machine) => {
                let takt = if machine == native { own.clone() } else { deb::build(machine, profile)? };
                missing.extend(pack(machine, &takt, &own, busybox(machine), &options.directory)?);
            }
        }
    }
    // Its library and the client library are built by tools of their own, once.
    if !options.twice {
        match python::wheels(&options.machines, &options.directory) {
            Outcome::Passed => {}
            Outcome::Skipped(why) => missing.push(format!("wheels of the Python package: {why}")),
            Outcome::Failed(why) => bail!("{why}"),
        }
    }
    let sums = sums(&options.directory)?;
    print!("{sums}");
    fs::write(options.directory.join("SHA256SUMS"), sums)?;
    Ok(missing)
}

/// Packs a built `takt` in each way, and returns the tools that are missing. `own` is a `takt` that this machine can run.
fn pack(
    machine: Machine,
    takt: &Path,
    own: &Path,
    busybox: Result<PathBuf, String>,
    directory: &Path,
) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let name = format!("takt-{}-{}", deb::version()?, machine.target());
    let program = program(machine, takt)?;
    let alone = directory.join(&name);
    fs::write(&alone, &program)?;
    fs::set_permissions(&alone, fs::Permissions::from_mode(0o755))?;
    archive(&name, &program, own, directory)?;
    match deb::requirements() {
        Ok(()) => drop(deb::pack(machine, takt, own, directory)?),
        Err(why) => missing.push(format!("the Debian package for {}: {why}", machine.name())),
    }
    match wheel(machine, takt, own, directory)? {
        Ok(()) => {}
        Err(why) => missing.push(format!("the wheel for {}: {why}", machine.name())),
    }
    match busybox {
        Ok(busybox) => image(machine, &program, &fs::read(busybox)?, directory)?,
        Err(why) => missing.push(format!("the container image for {}: {why}", machine.name())),
    }
    Ok(missing)
}

/// A static busybox for a machine, or the commands that install one.
fn busybox(machine: Machine) -> Result<PathBuf, String> {
    let name = machine.name();
    if deb::native().is_ok_and(|native| native == machine) {
        let path = PathBuf::from("/bin/busybox");
        return match is_static(&path) {
            true => Ok(path),
            false => Err("/bin/busybox is not there, or not static: apt-get install busybox-static".into()),
        };
    }
    let folder = format!("target/busybox-{name}");
    ["bin/busybox", "usr/bin/busybox"].map(|path| root().join(&folder).join(path)).into_iter().find(|path| path.exists()).ok_or(
        format!(
            "{folder}/bin/busybox is missing: dpkg --add-architecture {name} && apt-get update && apt-get download busybox-static:{name} \
             && dpkg-deb -x busybox-static_*_{name}.deb {folder}"
        ),
    )
}

/// Whether a program has no segment that names a loader of shared libraries (`PT_INTERP`, elf(5)).
fn is_static(path: &Path) -> bool {
    let Ok(program) = fs::read(path) else { return false };
    let number = |at: usize, length: usize| {
        let bytes = program.get(at..at + length)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let headers = || Some((number(32, 8)?, number(54, 2)?, number(56, 2)?));
    headers().is_some_and(|(first, size, count)| {
        (0..count).all(|i| number(first + i * size, 4).is_some_and(|kind| kind != 3))
    })
}

/// The program with manual pages, completions, licences and an example.
fn archive(name: &str, program: &[u8], own: &Path, directory: &Path) -> Result<()> {
    let tree = Tree::new(directory.join(format!("tree-{}", std::process::id())))?;
    tree.file(&format!("{name}/bin/takt"), program, 0o755)?;
    tree.link(&format!("{name}/bin/demos-sched"), "takt")?;
    tree.reference(own, &format!("{name}/share"), "site-functions")?;
    for file in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md", "workloads/quickstart.yaml"] {
        let source = root().join(file);
        let content = fs::read(&source).with_context(|| source.display().to_string())?;
        let below = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        tree.file(&format!("{name}/share/doc/takt/{below}"), &content, 0o644)?;
    }
    tree.open_folders()?;
    let tar = directory.join(format!("{name}.tar"));
    pack_tree(&tree.path(""), name, &tar)?;
    compress(&tar)
}

/// An image with the program, a shell and the workloads, in a tar file that `podman load` and `docker load` read.
fn image(machine: Machine, program: &[u8], busybox: &[u8], directory: &Path) -> Result<()> {
    let version = deb::version()?;
    let seconds = epoch()?;
    let created = output(Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"]))?;
    let created = created.trim();
    let tree = Tree::new(directory.join(format!("tree-{}", std::process::id())))?;
    tree.file("usr/bin/takt", program, 0o755)?;
    tree.link("usr/bin/demos-sched", "takt")?;
    tree.file("bin/busybox", busybox, 0o755)?;
    APPLETS.iter().try_for_each(|applet| tree.link(&format!("bin/{applet}"), "busybox"))?;
    tree.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644)?;
    tree.file("etc/group", b"root:x:0:\n", 0o644)?;
    copy(&root().join("workloads"), "workloads", &tree)?;
    for folder in ["dev", "proc", "root", "run", "sys", "tmp"] {
        fs::create_dir(tree.path(folder))?;
    }
    tree.open_folders()?;
    fs::set_permissions(tree.path("tmp"), fs::Permissions::from_mode(0o1777))?;
    let layout = Tree::new(directory.join(format!("image-{}", std::process::id())))?;
    let layer = layout.path("layer.tar");
    pack_tree(&tree.path(""), ".", &layer)?;
    let plain = sum(&layer)?;
    compress(&layer)?;
    let blob = |content: &[u8]| -> Result<Value> {
        let path = layout.path("blob");
        fs::write(&path, content)?;
        let digest = sum(&path)?;
        layout.file(&format!("blobs/sha256/{digest}"), content, 0o644)?;
        fs::remove_file(path)?;
        Ok(json!({"digest": format!("sha256:{digest}"), "size": content.len()}))
    };
    let described = |kind: &str, mut blob: Value| {
        blob["mediaType"] = format!("application/vnd.oci.image.{kind}").into();
        blob
    };
    let packed = layout.path("layer.tar.gz");
    let layer = described("layer.v1.tar+gzip", blob(&fs::read(&packed)?)?);
    fs::remove_file(packed)?;
    let config = json!({
        "architecture": machine.name(), "os": "linux", "created": created,
        "config": {
            "Entrypoint": ["/usr/bin/takt"], "Cmd": ["--help"], "WorkingDir": "/workloads",
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0 OR MIT"},
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{plain}")]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    });
    let config = described("config.v1+json", blob(config.to_string().as_bytes())?);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer],
    });
    let mut manifest = described("manifest.v1+json", blob(manifest.to_string().as_bytes())?);
    manifest["platform"] = json!({"architecture": machine.name(), "os": "linux"});
    // The first is read by podman and skopeo, the second by docker.
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": version, "io.containerd.image.name": format!("docker.io/library/takt:{version}"),
    });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest],
    });
    layout.file("index.json", index.to_string().as_bytes(), 0o644)?;
    layout.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    layout.open_folders()?;
    pack_tree(&layout.path(""), ".", &directory.join(format!("takt-{version}-{}.oci.tar", machine.name())))
}

/// A wheel, or the command that installs Python.
fn wheel(machine: Machine, takt: &Path, own: &Path, directory: &Path) -> Result<Result<(), String>> {
    let has_python = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if !has_python {
        return Ok(Err("python3 is not installed: apt-get install python3".into()));
    }
    let cpu = machine.target().split('-').next().unwrap_or_default();
    // A static program needs no C library, so each one will do.
    let platforms = format!("manylinux_2_17_{cpu}.manylinux2014_{cpu}.musllinux_1_1_{cpu}");
    let tree = Tree::new(directory.join(format!("tree-{}", std::process::id())))?;
    tree.reference(own, "share", "site-functions")?;
    let mut pack = Command::new("python3");
    pack.arg(root().join("xtask/wheel.py")).arg(takt).args([deb::version()?, platforms, epoch()?]);
    pack.arg(tree.path("share")).arg(directory);
    output(&mut pack).map(|_| Ok(()))
}

/// Copies a folder into a tree.
fn copy(from: &Path, below: &str, tree: &Tree) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let below = format!("{below}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &below, tree)?,
            false => tree.file(&below, &fs::read(entry.path())?, 0o644)?,
        }
    }
    Ok(())
}

/// A tar file of what is below a folder, in the order of names, of root, and with the date of the commit.
fn pack_tree(folder: &Path, member: &str, to: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", epoch()?)).arg("-C").arg(folder).arg("-cf").arg(to).arg(member);
    output(&mut tar).context("GNU tar is needed: apt-get install tar").map(drop)
}

/// Replaces a file by its gzip, without name and date.
fn compress(path: &Path) -> Result<()> {
    output(Command::new("gzip").arg("-9n").arg(path)).context("gzip is needed: apt-get install gzip").map(drop)
}

fn sum(path: &Path) -> Result<String> {
    let line = output(Command::new("sha256sum").arg("--").arg(path))?;
    Ok(line.split(' ').next().unwrap_or_default().to_owned())
}

/// The names of the files of a release in a folder.
fn files(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && ["takt-", "takt_"].iter().any(|prefix| name.starts_with(prefix)) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The checksums of the files, as `sha256sum --check` reads them.
fn sums(directory: &Path) -> Result<String> {
    output(Command::new("sha256sum").arg("--").args(files(directory)?).current_dir(directory).stdin(Stdio::null()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn options_name_targets_and_a_directory() {
        assert_eq!(Options::parse(&[]).unwrap().machines, Machine::ALL);
        let options = Options::parse(&["--target", "aarch64-unknown-linux-musl", "--twice", "--out", "/a"]).unwrap();
        assert_eq!(options, Options { machines: vec![Machine::Arm64], directory: "/a".into(), twice: true });
        for wrong in [&["--target"][..], &["--target", "arm64"], &["arm64"]] {
            assert_eq!(Options::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        // The test itself is linked with the C library.
        assert!(!is_static(&std::env::current_exe().unwrap()));
        assert!(!is_static(Path::new("/nothing")));
        let dir = tempfile::tempdir().unwrap();
        let mut program = vec![0; 64 + 2 * 56];
        (program[32], program[54], program[56]) = (64, 56, 2);
        fs::write(dir.path().join("static"), &program).unwrap();
        assert!(is_static(&dir.path().join("static")));
        program[64 + 56] = 3;
        fs::write(dir.path().join("dynamic"), &program).unwrap();
        assert!(!is_static(&dir.path().join("dynamic")));
    }

    /// With a program that is none but by its head, and a script in the place of the one that writes manual pages.
    #[test]
    fn files_have_the_same_bytes_again_and_an_image_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut program = vec![0; 64];
        program[18] = 183;
        fs::write(dir.path().join("takt"), &program).unwrap();
        fs::write(dir.path().join("busybox"), "a shell").unwrap();
        let own = dir.path().join("own");
        let script = "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10 11; do echo $n > \"$3/takt-$n.1\"; done\n\
                      for name in takt.bash _takt takt.fish; do echo > \"$5/$name\"; done\n";
        fs::write(&own, script).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        let made = |out: &str, busybox: Result<PathBuf, String>| {
            let out = dir.path().join(out);
            fs::create_dir(&out).unwrap();
            let missing = pack(Machine::Arm64, &dir.path().join("takt"), &own, busybox, &out).unwrap();
            let files = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap());
            let files = files.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
            (missing, files.collect::<BTreeMap<_, _>>())
        };
        let lacks_dpkg = usize::from(deb::requirements().is_err());
        let lacks_python = usize::from(Command::new("python3").arg("--version").output().is_err());
        let (missing, first) = made("a", Ok(dir.path().join("busybox")));
        assert_eq!(missing.len(), lacks_dpkg + lacks_python, "{missing:?}");
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let (_, second) = made("b", Ok(dir.path().join("busybox")));
        assert!(first == second, "other files at another time");
        let (missing, without) = made("c", Err("no busybox: INSTALL".into()));
        assert_eq!(missing.last().unwrap(), "the container image for arm64: no busybox: INSTALL");
        assert_eq!(without.len(), first.len() - 1, "the rest is made");
        let version = deb::version().unwrap();
        let target = Machine::Arm64.target();
        let mut names = vec![
            format!("takt-{version}-{target}"),
            format!("takt-{version}-{target}.tar.gz"),
            format!("takt-{version}-arm64.oci.tar"),
        ];
        names.extend((lacks_dpkg == 0).then(|| format!("takt_{version}_arm64.deb")));
        let platforms = "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64";
        names.extend((lacks_python == 0).then(|| format!("takt_rt_cli-{version}-py3-none-{platforms}.whl")));
        assert_eq!(first.keys().cloned().collect::<Vec<_>>(), names);
        let listed =
            |archive: &str| output(Command::new("tar").arg("-tvf").arg(dir.path().join("a").join(archive))).unwrap();
        let archive = listed(&names[1]);
        for part in [
            "bin/takt\n",
            "bin/demos-sched -> takt\n",
            "share/man/man1/takt-1.1.gz\n",
            "share/zsh/site-functions/_takt\n",
            "share/doc/takt/LICENSE-MIT\n",
        ] {
            assert!(archive.contains(&format!("takt-{version}-{target}/{part}")), "{part}: {archive}");
        }
        // Each blob has the name of its contents, and the layer is what the configuration says.
        let unpacked = dir.path().join("unpacked");
        fs::create_dir(&unpacked).unwrap();
        let unpack =
            |from: &Path, to: &Path| output(Command::new("tar").arg("-C").arg(to).arg("-xf").arg(from)).unwrap();
        unpack(&dir.path().join("a").join(&names[2]), &unpacked);
        let read = |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
        let blob = |value: &Value| {
            let digest = value["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
            let path = unpacked.join("blobs/sha256").join(&digest);
            assert_eq!(sum(&path).unwrap(), digest);
            assert_eq!(fs::metadata(&path).unwrap().len(), value["size"].as_u64().unwrap());
            path
        };
        let index = read(unpacked.join("index.json"));
        let manifest = read(blob(&index["manifests"][0]));
        let config = read(blob(&manifest["config"]));
        assert_eq!(config["architecture"], "arm64");
        let layer = blob(&manifest["layers"][0]);
        let plain = dir.path().join("layer.tar");
        fs::write(&plain, Command::new("gzip").arg("-dc").arg(layer).output().unwrap().stdout).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sum(&plain).unwrap()));
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        unpack(&plain, &tree);
        assert_eq!(fs::read(tree.join("usr/bin/takt")).unwrap(), program);
        assert_eq!(fs::read(tree.join("bin/sh")).unwrap(), b"a shell");
        assert_eq!(
            fs::read(tree.join("workloads/quickstart.yaml")).unwrap(),
            fs::read(root().join("workloads/quickstart.yaml")).unwrap()
        );
    }
}
