//! `cargo xtask vm`: the tests in virtual machines.
//!
//! Three things are there that a build machine rarely has: a unified cgroup v2 tree of one's own, a PREEMPT_RT kernel, and
//! time that does not depend on other load. QEMU emulates the processor and counts its instructions as time, so
//! a run is the same every time. That proves logic, order and counts, and says nothing about the latencies of hardware.

pub(crate) mod apt;
mod initramfs;
mod kernel;
mod power;
pub(crate) mod service;

use crate::workspace::{Outcome, cargo, has_target, in_ci, metadata, root};
use anyhow::{Context, Result, ensure};
use initramfs::Archive;
use kernel::Kernel;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TARGET: &str = "x86_64-unknown-linux-musl";
const QEMU: &str = "qemu-system-x86_64";
const BUSYBOX: &str = "/bin/busybox";
/// A boot that uses more CPU time is ended: it hangs, however much else this machine has to do.
const BOOT_CPU_MAX: Duration = Duration::from_secs(1200);
/// A boot that takes longer is ended, too.
const BOOT_TIME_MAX: Duration = Duration::from_secs(1500);
/// With less time than this, no boot is begun.
const BOOT_TIME_MIN: Duration = Duration::from_secs(240);
/// Runs a program with a limit on its CPU time: `sh -c LIMITED SECONDS PROGRAM ARGUMENTS...`.
const LIMITED: &str = r#"ulimit -t "$0" && exec "$@""#;
/// Tests that look at the machine they run on; they run in the virtual machine too.
const TESTS: [&str; 10] =
    ["-p", "takt-rt-linux", "--lib", "--test", "groups", "--test", "crash", "--test", "isolate", "--no-run"];
/// Random sequences of isolations that are killed, by default. The campaign has more.
const SEQUENCES: u32 = 10;
/// The comparison of real runs with their simulation, which has a folder of its own there: it runs where time is virtual.
const OUTCOMES: [&str; 5] = ["-p", "takt-rt-cli", "--test", "outcomes", "--no-run"];

/// The system to boot.
#[derive(Default)]
pub(crate) struct Options {
    kernel: Option<String>,
    image: Option<PathBuf>,
    multi: bool,
    /// The machine with frequencies alone.
    power: bool,
    /// The tests of isolated CPUs alone, with so many random sequences.
    isolate: Option<u32>,
    /// The tests of measured lateness alone.
    latency: bool,
    verbose: bool,
    until: Option<Instant>,
}

impl Options {
    /// The tests of isolated CPUs, with so many random sequences.
    pub(crate) fn isolate(sequences: u32) -> Options {
        Options { isolate: Some(sequences), ..Options::default() }
    }
    /// All boots, as far as they are done at that instant; the rest is skipped.
    pub(crate) fn until(instant: Instant) -> Options {
        Options { until: Some(instant), ..Options::default() }
    }
    pub(crate) fn parse(arguments: &[&str]) -> Option<Options> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                "--kernel" => {
                    let name = rest.next().filter(|name| ["cloud", "rt", "all"].contains(name))?;
                    options.kernel = Some((*name).to_string()).filter(|name| name != "all");
                }
                "--image" => options.image = Some(PathBuf::from(rest.next()?)),
                "--multi" => options.multi = true,
                "--power" => options.power = true,
                "--isolate" => options.isolate = Some(SEQUENCES),
                "--latency" => options.latency = true,
                "--verbose" => options.verbose = true,
                _ => return None,
            }
        }
        Some(options)
    }
}

/// How time passes in a boot; see `vm/init.sh`.
#[derive(Clone, Copy)]
enum Mode {
    Exact,
    Order,
    Multi,
    /// As `Order`, on a machine with frequencies.
    Power,
    /// As `Multi`, with the tests of isolated CPUs alone.
    Isolate,
    /// As `Exact`, with more instructions in a microsecond, and the tests of measured lateness alone.
    Latency,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Exact => "exact",
            Mode::Order => "order",
            Mode::Multi => "multi",
            Mode::Power => "power",
            Mode::Isolate => "isolate",
            Mode::Latency => "latency",
        }
    }
    fn arguments(self) -> &'static str {
        match self {
            // A nanosecond of virtual time for each instruction.
            Mode::Latency => {
                "-smp 1 -accel tcg,thread=single -icount shift=0,sleep=off -rtc base=2026-01-01,clock=vm -seed 1"
            }
            Mode::Exact => {
                "-smp 1 -accel tcg,thread=single -icount shift=2,sleep=off -rtc base=2026-01-01,clock=vm -seed 1"
            }
            Mode::Order | Mode::Power => {
                "-smp 2 -accel tcg,thread=single -icount shift=2,sleep=off -rtc base=2026-01-01,clock=vm -seed 1"
            }
            Mode::Multi | Mode::Isolate => "-smp 4 -accel tcg,thread=multi",
        }
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    if let Err(why) = requirements() {
        return Outcome::Skipped(why);
    }
    let prepared = target_dir().and_then(|dir| {
        fs::create_dir_all(&dir)?;
        Ok((initramfs(&dir)?, dir))
    });
    let (initramfs, dir) = match prepared {
        Ok(prepared) => prepared,
        Err(e) => return Outcome::Failed(format!("{e:#}")),
    };
    let kernels = match &options.image {
        Some(image) => {
            let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
            vec![Kernel { name, image: image.clone() }]
        }
        None => {
            let flavours = options.kernel.as_deref().map_or(vec!["cloud", "rt"], |name| vec![name]);
            match kernels(&dir.join("kernels"), &flavours) {
                Ok(kernels) => kernels,
                Err(e) => return Outcome::Skipped(format!("{e:#}")),
            }
        }
    };
    let mut modes = vec![Mode::Exact, Mode::Order];
    if options.multi {
        modes.extend([Mode::Multi, Mode::Isolate, Mode::Latency]);
    }
    if options.isolate.is_some() {
        modes = vec![Mode::Isolate];
    }
    if options.latency {
        modes = vec![Mode::Latency];
    }
    let mut boots = kernels.iter().flat_map(|kernel| modes.iter().map(move |mode| (kernel, *mode))).collect::<Vec<_>>();
    // One boot is enough for each commit: the PREEMPT_RT kernel has all the tracers and threads that these tests look for.
    if !options.multi && !options.latency && options.isolate.is_none() && !options.power {
        boots.extend(kernels.last().map(|kernel| (kernel, Mode::Latency)));
    }
    let first = kernels.first().filter(|_| options.isolate.is_none() && !options.latency);
    let hardware = match first.map(|kernel| (kernel, power::Hardware::prepare(&dir, kernel, &initramfs))) {
        Some((kernel, Ok(hardware))) => {
            boots.retain(|_| !options.power);
            boots.insert(0, (kernel, Mode::Power));
            Some(hardware)
        }
        Some((_, Err(e))) if options.power => return Outcome::Skipped(format!("{e:#}")),
        Some((_, Err(e))) => {
            println!("vm: SKIPPED the machine with frequencies: {e:#}");
            None
        }
        None => None,
    };
    let total = boot_all(&boots, &initramfs, hardware.as_ref(), options);
    // Once more at the end, where the reader of a long log looks first.
    total.failures.iter().for_each(|line| println!("{line}"));
    println!("{} passed, {} failed, {} boots skipped", total.passed, total.failed, total.skipped);
    if total.failed > 0 {
        return Outcome::Failed(format!("{} tests in virtual machines", total.failed));
    }
    match total.skipped {
        0 => Outcome::Passed,
        skipped => Outcome::Skipped(format!("no time was left for {skipped} of {} boots", boots.len())),
    }
}

/// As many at a time as there are CPUs: one that counts instructions uses one.
fn boot_all(
    boots: &[(&Kernel, Mode)],
    initramfs: &Path,
    hardware: Option<&power::Hardware>,
    options: &Options,
) -> Counts {
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Counts::default()));
    let worker = || {
        while let Some((kernel, mode)) = boots.get(next.fetch_add(1, Ordering::Relaxed)) {
            let start = Instant::now();
            let mut lines = Vec::new();
            let limit = options.until.map_or(BOOT_TIME_MAX, |until| until.saturating_duration_since(start));
            let limit = limit.min(BOOT_TIME_MAX);
            let hardware = hardware.filter(|_| matches!(mode, Mode::Power));
            let append = options.isolate.map(|sequences| format!("takt.sequences={sequences}")).unwrap_or_default();
            let machine = Boot { kernel, initramfs, mode: *mode, hardware, append: &append };
            let counts = boot(&machine, options.verbose, limit, &mut lines).unwrap_or_else(|e| {
                let failure = format!("vm: FAILED Linux {}, {}: {e:#}", kernel.name, mode.name());
                lines.push(failure.clone());
                Counts { failed: 1, failures: vec![failure], ..Counts::default() }
            });
            let mut total = total.lock().expect("no boot panics");
            println!("-- Linux {}, {}: {:.1} s", kernel.name, mode.name(), start.elapsed().as_secs_f32());
            lines.iter().for_each(|line| println!("{line}"));
            total.passed += counts.passed;
            total.failed += counts.failed;
            if !counts.failures.is_empty() {
                total.failures.push(format!("-- Linux {}, {}:", kernel.name, mode.name()));
                total.failures.extend(counts.failures);
            }
            total.skipped += counts.skipped;
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(boots.len());
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    total.into_inner().expect("no boot panics")
}

/// A mirror can be out of order for a moment, so continuous integration asks it twice.
fn kernels(dir: &Path, flavours: &[&str]) -> Result<Vec<Kernel>> {
    let first = kernel::fetch(dir, flavours);
    match first {
        Err(e) if in_ci() => {
            println!("{e:#}; once more");
            std::thread::sleep(Duration::from_secs(10));
            kernel::fetch(dir, flavours)
        }
        other => other,
    }
}

/// The requirement of this machine, or the missing one with the way to get it.
fn requirements() -> std::result::Result<(), String> {
    let works = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !works(QEMU) {
        return Err("QEMU is not installed: apt-get install --no-install-recommends qemu-system-x86".into());
    }
    // A dynamically linked program names the loader that it needs.
    let loader: &[u8] = b"/ld-linux";
    let busybox = fs::read(BUSYBOX).unwrap_or_default();
    if busybox.is_empty() || busybox.windows(loader.len()).any(|bytes| bytes == loader) {
        return Err(format!("{BUSYBOX} is not there or not static: apt-get install busybox-static"));
    }
    if !has_target(TARGET) {
        return Err(format!("the Rust target {TARGET} is not installed: rustup target add {TARGET}"));
    }
    Ok(())
}

fn target_dir() -> Result<PathBuf> {
    let metadata = metadata()?;
    Ok(Path::new(metadata["target_directory"].as_str().context("no target directory")?).join("vm-machine"))
}

/// Builds the static programs and packs them.
fn initramfs(dir: &Path) -> Result<PathBuf> {
    let takt = build(&["build", "-p", "takt-rt-cli", "--bin", "takt"])?;
    ensure!(takt.len() == 1, "{} programs were built instead of takt alone", takt.len());
    let tests = build(&[&["test"], &TESTS[..]].concat())?;
    let outcomes = build(&[&["test"], &OUTCOMES[..]].concat())?;
    let path = dir.join("initramfs.cpio");
    let mut archive = Archive::new(BufWriter::new(File::create(&path)?));
    for name in [
        "bin",
        "dev",
        "etc",
        "proc",
        "run",
        "sys",
        "tmp",
        "root",
        "tests",
        "outcomes",
        "workloads",
        "workloads/features",
    ] {
        archive.directory(name)?;
    }
    archive.console()?;
    archive.program("init", &fs::read(root().join("xtask/vm/init.sh"))?)?;
    for script in ["functions.sh", "power.sh", "isolate.sh", "latency.sh"] {
        archive.file(script, &fs::read(root().join("xtask/vm").join(script))?)?;
    }
    archive.program("bin/busybox", &fs::read(BUSYBOX)?)?;
    archive.symlink("bin/sh", Path::new("busybox"))?;
    // A file that is no program, for the tests that try to run one.
    archive.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\n")?;
    archive.file("etc/group", b"root:x:0:\n")?;
    archive.program("bin/takt", &fs::read(&takt[0].1)?)?;
    for (name, program) in build(&["build", "-p", "takt-rt-client", "--example", "threads"])? {
        archive.program(&format!("bin/{name}"), &fs::read(program)?)?;
    }
    for (name, program) in &tests {
        archive.program(&format!("tests/{name}"), &fs::read(program)?)?;
    }
    for (name, program) in outcomes.iter().filter(|(name, _)| name == "outcomes") {
        archive.program(&format!("outcomes/{name}"), &fs::read(program)?)?;
    }
    for folder in ["workloads", "workloads/features"] {
        for entry in fs::read_dir(root().join(folder))? {
            let file = entry?.path();
            if file.extension().is_none_or(|e| e != "yaml") {
                continue;
            }
            let (name, text) = (file.file_name().unwrap_or_default().to_string_lossy().into_owned(), fs::read(&file)?);
            // The machine has no such platform, and its description is a file of its own.
            if !String::from_utf8_lossy(&text).contains("\nplatform: platforms/") {
                archive.file(&format!("{folder}/{name}"), &text)?;
            }
        }
    }
    archive.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    Ok(path)
}

/// Builds for the virtual machine and gives the programs with their names.
fn build(arguments: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut command = cargo(arguments);
    command.args(["--locked", "--quiet", "--profile", "vm", "--target", TARGET]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "cargo {}: {}", arguments.join(" "), output.status);
    let mut programs = Vec::new();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<serde_json::Value>(line) else { continue };
        if let Some(program) = message["executable"].as_str() {
            let name = message["target"]["name"].as_str().unwrap_or("unnamed").to_string();
            programs.push((name, PathBuf::from(program)));
        }
    }
    Ok(programs)
}

/// A machine to boot.
#[derive(Clone, Copy)]
struct Boot<'a> {
    kernel: &'a Kernel,
    initramfs: &'a Path,
    mode: Mode,
    /// Firmware and modules of a machine with frequencies.
    hardware: Option<&'a power::Hardware>,
    /// More of the kernel's command line.
    append: &'a str,
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    /// The lines of what failed, with those that explain it.
    failures: Vec<String>,
    /// Boots that were not begun, or not ended, for lack of time.
    skipped: usize,
}

/// Boots, collects what the machine says about its tests, and counts. A boot for which `limit` is too short is skipped.
fn boot(boot: &Boot<'_>, verbose: bool, limit: Duration, out: &mut Vec<String>) -> Result<Counts> {
    let Boot { kernel, initramfs, mode, hardware, .. } = *boot;
    let initramfs = hardware.map_or(initramfs, |hardware| &hardware.initramfs);
    if limit < BOOT_TIME_MIN {
        out.push(format!("vm: SKIPPED: {limit:.0?} are too short for it"));
        return Ok(Counts { skipped: 1, ..Counts::default() });
    }
    // A PREEMPT_RT kernel has threads of interrupts without it.
    let threads = if matches!(mode, Mode::Latency) { "threadirqs" } else { "" };
    let append = format!("console=ttyS0 panic=-1 quiet nokaslr takt.mode={} {threads} {}", mode.name(), boot.append);
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &limit.as_secs().to_string()]);
    command.args(["sh", "-c", LIMITED, &BOOT_CPU_MAX.as_secs().to_string(), QEMU]);
    command.args("-machine q35 -cpu max -m 1024 -nodefaults -no-user-config -display none".split(' '));
    command.args("-no-reboot -monitor none -serial stdio".split(' ')).args(mode.arguments().split(' '));
    for argument in hardware.map(power::Hardware::arguments).transpose()?.into_iter().flatten() {
        command.arg(argument);
    }
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initramfs).args(["-append", &append]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("QEMU cannot be started")?;
    let console = child.stdout.take().context("no console")?;
    let (mut counts, mut ended, mut explains, mut last) = (Counts::default(), false, false, Vec::new());
    for line in BufReader::new(console).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).trim_end().to_string();
        let test = line.strip_prefix("vm: ");
        if let Some(test) = test {
            counts.passed += usize::from(test.starts_with("ok "));
            counts.failed += usize::from(test.starts_with("FAILED "));
            ended |= test == "end";
            explains = test.starts_with("FAILED ");
        }
        // The lines below a failure are indented.
        explains &= test.is_some() || line.starts_with("    ");
        if explains {
            counts.failures.push(line.clone());
        }
        if verbose || test.is_some_and(|t| t != "end") || explains {
            out.push(line.clone());
        }
        last.push(line);
        if last.len() > 20 {
            last.remove(0);
        }
    }
    let status = child.wait()?;
    if !ended {
        if !verbose {
            out.extend(last.iter().map(|line| format!("    {line}")));
        }
        if status.code() == Some(124) && limit < BOOT_TIME_MAX {
            out.push(format!("vm: SKIPPED: it was not done within the {limit:.0?} that were left"));
            return Ok(Counts { skipped: 1, ..counts });
        }
        anyhow::bail!(match status.code() {
            Some(124) => format!("not done within {limit:.0?}"),
            // As `timeout` tells of what was killed, here by the limit.
            Some(137) => format!("killed, probably for more than {BOOT_CPU_MAX:?} of CPU time"),
            _ => format!("it ended early: {status}"),
        });
    }
    Ok(counts)
}
