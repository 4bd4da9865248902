//! Capabilities of machines that tests need, and the tests that a machine cannot carry out.
//!
//! A test that needs what the machine lacks says so by [`skip`] and passes. Continuous integration collects these lines and probes the machine by
//! itself ([`Capability::is_present`]): it fails if a test was skipped for a capability that is there.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// The variable with the file for skipped tests. Each line has a capability, a tab, the test, and the reason.
pub const SKIPPED: &str = "TAKT_TESTS_SKIPPED";

/// Something that not every machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// Two CPUs.
    Cpus,
    /// Real-time scheduling classes.
    RealTime,
    /// The freezer of cgroup v1.
    V1,
    /// cgroup v2.
    V2,
    /// SIGSTOP and SIGCONT, which every Linux has.
    Signals,
    /// Tracing by the kernel, in files.
    Tracefs,
    /// Observation of processes by the kernel's tracepoints.
    Tracepoints,
    /// Tracing of one's own processes, which some containers forbid.
    Ptrace,
    /// Filters of system calls that report to another thread.
    CallFilters,
    /// Memory that stays in RAM, as much as is wanted.
    LockedMemory,
    /// The time that processes wait for a CPU, in `/proc/PID/schedstat`.
    WaitingTime,
    /// `/dev/full`.
    DevFull,
    /// A C compiler, `cc`.
    Compiler,
    /// `ffmpeg`.
    Ffmpeg,
    /// `tmux`.
    Tmux,
    /// `cyclictest` of rt-tests.
    Cyclictest,
    /// `python3`.
    Python,
    /// The Rust target `wasm32-unknown-unknown`.
    WasmTarget,
    /// Other users: root, and `setpriv` to become them.
    Users,
    /// File systems of one's own: root, and `unshare`.
    Mounts,
    /// `dpkg-deb`.
    Dpkg,
    /// A browser that can show pages without a screen: chromium or google-chrome.
    Browser,
    /// CPUs that are there when they are needed. The host of a virtual machine can take them away, so its lack is no fault.
    Calm,
}

/// Bits of `CapEff` (`capabilities(7)`).
const SETUID: u32 = 7;
const IPC_LOCK: u32 = 14;
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const SYS_NICE: u32 = 23;

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 23] = [
        Capability::Cpus,
        Capability::RealTime,
        Capability::V1,
        Capability::V2,
        Capability::Signals,
        Capability::Tracefs,
        Capability::Tracepoints,
        Capability::Ptrace,
        Capability::CallFilters,
        Capability::LockedMemory,
        Capability::WaitingTime,
        Capability::DevFull,
        Capability::Compiler,
        Capability::Ffmpeg,
        Capability::Tmux,
        Capability::Cyclictest,
        Capability::Python,
        Capability::WasmTarget,
        Capability::Users,
        Capability::Mounts,
        Capability::Dpkg,
        Capability::Browser,
        Capability::Calm,
    ];

    /// Its name in lists.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Capability::Cpus => "two-cpus",
            Capability::RealTime => "real-time-classes",
            Capability::V1 => "cgroup-v1",
            Capability::V2 => "cgroup-v2",
            Capability::Signals => "signals",
            Capability::Tracefs => "tracefs",
            Capability::Tracepoints => "tracepoints",
            Capability::Ptrace => "ptrace",
            Capability::CallFilters => "call-filters",
            Capability::LockedMemory => "locked-memory",
            Capability::WaitingTime => "waiting-time",
            Capability::DevFull => "dev-full",
            Capability::Compiler => "c-compiler",
            Capability::Ffmpeg => "ffmpeg",
            Capability::Tmux => "tmux",
            Capability::Cyclictest => "cyclictest",
            Capability::Python => "python3",
            Capability::WasmTarget => "wasm-target",
            Capability::Users => "users",
            Capability::Mounts => "mounts",
            Capability::Dpkg => "dpkg-deb",
            Capability::Browser => "browser",
            Capability::Calm => "calm",
        }
    }

    /// The capability with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Capability> {
        Capability::ALL.into_iter().find(|capability| capability.name() == name)
    }

    /// Whether this machine has it. The answer comes from files of the kernel and never from Takt's own code, which is under test.
    #[must_use]
    pub fn is_present(self) -> bool {
        let mounted = |kind: &str, option: &str| {
            mounts().iter().any(|(k, options)| k == kind && (option.is_empty() || options.iter().any(|o| o == option)))
        };
        match self {
            Capability::Cpus => std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2),
            Capability::RealTime => may(SYS_NICE),
            Capability::V1 => may(SYS_ADMIN) && mounted("cgroup", "freezer"),
            Capability::V2 => may(SYS_ADMIN) && mounted("cgroup2", ""),
            Capability::Signals => true,
            Capability::Tracefs => {
                may(SYS_ADMIN) && read("/proc/filesystems").lines().any(|line| line.ends_with("tracefs"))
            }
            // Some containers refuse the system call; then the test reports that.
            Capability::Tracepoints => {
                Capability::Tracefs.is_present() && fs::metadata("/proc/sys/kernel/perf_event_paranoid").is_ok()
            }
            Capability::Ptrace => may(SYS_PTRACE),
            Capability::CallFilters => {
                read("/proc/sys/kernel/seccomp/actions_avail").split_whitespace().any(|action| action == "user_notif")
            }
            Capability::LockedMemory => may(IPC_LOCK),
            Capability::WaitingTime => !read("/proc/self/schedstat").is_empty(),
            Capability::DevFull => fs::metadata("/dev/full").is_ok(),
            Capability::Compiler => has_program("cc"),
            Capability::Ffmpeg => has_program("ffmpeg"),
            Capability::Tmux => has_program("tmux"),
            Capability::Cyclictest => has_program("cyclictest"),
            Capability::Python => has_program("python3"),
            Capability::WasmTarget => has_target("wasm32-unknown-unknown"),
            Capability::Users => may(SETUID) && has_program("setpriv"),
            Capability::Mounts => may(SYS_ADMIN) && has_program("unshare"),
            Capability::Dpkg => has_program("dpkg-deb"),
            Capability::Browser => crate::browser::BROWSERS.into_iter().any(has_program),
            Capability::Calm => false,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Whether this process has a right, by its bit.
fn may(bit: u32) -> bool {
    let status = read("/proc/self/status");
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    rights.is_some_and(|rights| rights & 1 << bit != 0)
}

/// Mounted file systems that can be written: their kinds and options.
fn mounts() -> Vec<(String, Vec<String>)> {
    let field = |line: &str, n: usize| line.split(' ').nth(n).unwrap_or_default().to_owned();
    let mount = |line: &str| (field(line, 2), field(line, 3).split(',').map(str::to_owned).collect::<Vec<_>>());
    read("/proc/self/mounts").lines().map(mount).filter(|(_, options)| options.iter().any(|o| o == "rw")).collect()
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Whether the compiler has the standard library of a target.
fn has_target(name: &str) -> bool {
    let asked = std::process::Command::new("rustc").args(["--print", "target-libdir", "--target", name]).output();
    let path = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    path.is_ok_and(|path| !path.is_empty() && Path::new(&path).is_dir())
}

/// Reports that this machine cannot carry out the calling test, or a part of it, also where the output of tests is not shown. Continuous
/// integration gives a file for the report ([`SKIPPED`]).
///
/// # Panics
/// When the file cannot be written.
pub fn skip(lacks: Capability, why: &str) {
    let why = why.trim_end().replace('\n', "; ");
    let line = format!("{}: {why}", std::thread::current().name().unwrap_or("main"));
    // Not `eprintln!`, which a test captures.
    let _ = std::io::stderr().write_all(format!("skipped: {line}\n").as_bytes());
    append(SKIPPED, &format!("{lacks}\t{line}\n"));
}

/// Appends to the file that this variable names, if there is one.
///
/// # Panics
/// When the file cannot be written.
pub fn append(variable: &str, line: &str) {
    if let Some(path) = std::env::var_os(variable) {
        let file = File::options().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file of continuous integration");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_lead_back() {
        for capability in Capability::ALL {
            assert_eq!(Capability::from_name(capability.name()), Some(capability));
        }
        assert_eq!(Capability::from_name("cpu"), None);
    }

    #[test]
    fn a_machine_is_probed_without_takt() {
        assert!(Capability::Signals.is_present() && !Capability::Calm.is_present());
        assert!(has_program("sh") && !has_program("a-program-that-is-not-there"));
        assert_eq!(Capability::DevFull.is_present(), std::path::Path::new("/dev/full").exists());
    }
}
