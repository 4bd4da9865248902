//! Shared by the tests over real groups.
#![allow(dead_code, reason = "each test file uses its part")]

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_linux::{Choice, Group, Layout, Mechanism, PartitionHandle, RunId, SpawnSpec};
use takt_testing::{Capability, skip};

/// Opens every mechanism this machine has and runs the test on each. The rest of a run is removed when its mechanism
/// is dropped, so also after a panic.
pub(crate) fn on_each(test: impl Fn(&mut Run)) {
    let here = Layout::read().unwrap();
    let v1_alone = Layout { unified: None, ..here.clone() };
    let affinity = Layout { cpuset: None, ..here.clone() };
    let cases = [
        ("v1", &here, Choice::V1),
        ("v1 without v2", &v1_alone, Choice::V1),
        ("v2", &here, Choice::V2),
        ("v2 without cpuset", &affinity, Choice::V2),
        ("signal", &here, Choice::Signal),
    ];
    for (name, layout, choice) in cases {
        match Mechanism::open_on(layout, choice, &RunId::new().unwrap()) {
            Ok(mechanism) => {
                println!("{name}:");
                test(&mut Run { mechanism, children: Vec::new(), name });
            }
            Err(e) => skip(capability(choice), &format!("{name}: {e}; {}", e.fix)),
        }
    }
}

/// The capability that a mechanism needs.
pub(crate) fn capability(choice: Choice) -> Capability {
    match choice {
        Choice::V1 => Capability::V1,
        Choice::V2 => Capability::V2,
        Choice::Signal | Choice::Auto => Capability::Signals,
    }
}

/// A run under test with the children to reap.
pub(crate) struct Run {
    pub(crate) mechanism: Mechanism,
    pub(crate) children: Vec<i32>,
    pub(crate) name: &'static str,
}

impl Run {
    /// A partition of `n` processes on all CPUs.
    pub(crate) fn partition(&mut self, n: usize) -> PartitionHandle {
        let cpus = self.mechanism.cpus();
        self.mechanism.add_partition(&cpus, n).unwrap()
    }
    /// A partition of one process.
    pub(crate) fn one(&mut self) -> Group {
        let partition = self.partition(1);
        self.mechanism.group(partition, 0)
    }
    pub(crate) fn start(&mut self, group: Group, spec: &SpawnSpec<'_>) -> i32 {
        let pid = self.mechanism.spawn(group, spec).unwrap();
        self.children.push(pid);
        pid
    }
    pub(crate) fn shell(&mut self, group: Group, command: &str) -> i32 {
        self.start(group, &SpawnSpec::shell(command).unwrap())
    }
    /// Waits until a process that never sleeps by itself has stopped, for which it may first have to get a CPU on a busy
    /// machine, and tells the CPU time it has used.
    pub(crate) fn stopped_at(&self, group: Group, pid: i32) -> f64 {
        eventually("it stops", || {
            // It is marked as asleep a moment before it has left the CPU, and may lose it in between; what it sleeps in is only
            // told of a process that waits for no CPU.
            let sleeps = |pid| std::fs::read_to_string(format!("/proc/{pid}/wchan")).map_or(true, |place| place != "0");
            let before = self.cpu_ms(group);
            pause(10);
            !status(pid, "State").starts_with('R') && sleeps(pid) && self.cpu_ms(group) == before
        });
        self.cpu_ms(group)
    }
    pub(crate) fn cpu_ms(&self, group: Group) -> f64 {
        self.mechanism.cpu_time(group).expect("the process lives").ns() as f64 / 1e6
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.mechanism.destroy();
        for pid in &self.children {
            let _ = waitpid(Pid::from_raw(*pid), WaitOptions::empty());
        }
    }
}

/// Waits for a process to end.
pub(crate) fn wait(pid: i32) -> WaitStatus {
    let mut status = None;
    eventually("the process ends", || {
        status = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG).expect("a child");
        status.is_some()
    });
    status.unwrap().1
}

/// Polls for up to two minutes, which ends what hangs and judges no speed.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// A directory of its own, removed on drop.
pub(crate) struct Scratch(pub(crate) std::path::PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("takt-test-{name}-{}", RunId::new().unwrap()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The line `name:` of `/proc/PID/status`.
pub(crate) fn status(pid: i32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a known line").trim().to_string()
}

pub(crate) fn cpus(list: &[usize]) -> CpuSet {
    list.iter().copied().collect()
}
