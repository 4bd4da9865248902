//! An image in QEMU, in whose time an instruction takes 32 ns. Idle time is skipped, so that two runs are the same.

use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use takt_core::time::Span;
use takt_linux::probe::{Finding, Status};
use takt_workload::Code;

/// The program of the emulator, and the Debian package that has it.
const EMULATOR: &str = "qemu-system-arm";
/// How to get it.
const FIX: &str = "install QEMU for Arm, as by `apt-get install qemu-system-arm`";

/// The Rust target of the images, and how to get it.
const TARGET: &str = "thumbv7m-none-eabi";
const TARGET_FIX: &str = "rustup target add thumbv7m-none-eabi";

/// The programs that images need: QEMU for Arm, and the Rust target. Each is optional, and has a fix if it is absent.
pub(super) fn findings() -> [Finding; 2] {
    let weak = |name, found: &str, fix: &str| Finding {
        name,
        status: Status::Weak,
        found: format!("{found}; `takt mcu run` and the microcontroller kernel need it"),
        fix: Some(fix.to_owned()),
    };
    let found = |name, found| Finding { name, status: Status::Ok, found, fix: None };
    let emulator = match program(EMULATOR) {
        Some(path) => found(EMULATOR, path.display().to_string()),
        None => weak(EMULATOR, "not installed", FIX),
    };
    let target = match libraries() {
        Some(path) => found(TARGET, path),
        None => weak(TARGET, "this Rust target is not installed", TARGET_FIX),
    };
    [emulator, target]
}

/// The directory with the libraries of the target; `None` without the compiler or the target.
fn libraries() -> Option<String> {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && Path::new(&path).is_dir()).then_some(path)
}

/// The outcome of an image.
pub(super) struct Ran {
    /// The bytes of its UART.
    pub(super) stream: Vec<u8>,
    /// The texts that it reported for people.
    pub(super) report: Vec<u8>,
    pub(super) status: i32,
}

/// The emulator, which ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs an image to its end.
///
/// # Errors
/// Status 3 without the emulator; 2 if the image is no file, or does not end in time.
pub(super) fn run(image: &Path, timeout: Span) -> Result<Ran, Failure> {
    fs::File::open(image).map_err(|e| Failure::file("read", image, &e))?;
    let Some(emulator) = program(EMULATOR) else {
        return Err(Failure::machine(Code::MissingProgram, format!("`{EMULATOR}` is not installed"), FIX));
    };
    let directory = tempfile::tempdir().map_err(|e| Failure::file("write", &std::env::temp_dir(), &e))?;
    let stream = directory.path().join("stream");
    let report = directory.path().join("report");
    let failed =
        |e: std::io::Error| Failure::machine(Code::MissingProgram, format!("`{EMULATOR}` cannot be started: {e}"), FIX);
    let out = fs::File::create(&report).map_err(|e| Failure::file("write", &report, &e))?;
    let errors = out.try_clone().map_err(|e| Failure::file("write", &report, &e))?;
    let child = Command::new(emulator)
        .args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-icount", "shift=5,sleep=off"])
        .args(["-semihosting-config", "enable=on,target=native", "-serial"])
        .arg(format!("file:{}", stream.display()))
        .arg("-kernel")
        .arg(image)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .spawn()
        .map_err(failed)?;
    let mut child = Running(child);
    let until = Instant::now() + Duration::from_nanos(timeout.ns().max(0) as u64);
    let status = loop {
        if let Some(status) = child.0.try_wait().map_err(failed)? {
            break status;
        }
        if Instant::now() >= until {
            let message = format!("`{}` has not ended within {timeout}", image.display());
            return Err(Failure::input(
                Code::OutOfRange,
                message,
                "raise `--timeout`, or give the workload a shorter `duration`",
            ));
        }
        thread::sleep(Duration::from_millis(10));
    };
    let read = |path: &Path| {
        match fs::read(path) {
            // An emulator that fails early has no UART; its report says why.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(|e| Failure::file("read", path, &e)),
        }
    };
    Ok(Ran { stream: read(&stream)?, report: read(&report)?, status: status.code().unwrap_or(-1) })
}

/// The path of a program, if one of this name is installed.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
