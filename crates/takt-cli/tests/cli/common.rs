//! Starting `takt` under a bounded wait, and looking for what it may have left.

use crate::machine::{Capability, always, another_attempt, calm, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use takt_linux::{Choice, Mechanism, RunId};
use takt_trace::{Format, Trace};

/// The program under test.
pub(crate) const TAKT: &str = env!("CARGO_BIN_EXE_takt");

/// The program of these tests. A campaign measures the one that is released.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("TAKT_PROGRAM").map_or_else(|| TAKT.into(), PathBuf::from)
}

/// The longest that any run may take before it is killed and the test fails. It ends what hangs, and judges no speed: under load an
/// experiment of some seconds can take minutes.
const PATIENCE: Duration = Duration::from_secs(300);

/// The repository's workloads.
pub(crate) fn workloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

/// Whether there are so many CPUs; says so if not.
pub(crate) fn has_cpus(n: usize) -> bool {
    let here = takt_linux::rt::affinity(0).unwrap();
    let has = (0..n).all(|cpu| here.contains(cpu));
    if !has {
        skip(Capability::Cpus, &format!("CPUs 0 to {} are needed and {here} are there", n - 1));
    }
    has
}

/// The mechanisms that work here; says which do not, and why.
pub(crate) fn mechanisms() -> Vec<&'static str> {
    let all = [
        ("v1", Choice::V1, Capability::V1),
        ("v2", Choice::V2, Capability::V2),
        ("signal", Choice::Signal, Capability::Signals),
    ];
    let works = |(name, choice, capability): &(&str, Choice, Capability)| match Mechanism::open(
        *choice,
        &RunId::new().unwrap(),
    ) {
        Ok(_) => true,
        Err(e) => {
            skip(*capability, &format!("mechanism {name}: {e}"));
            false
        }
    };
    all.into_iter().filter(works).map(|(name, ..)| name).collect()
}

/// A directory for one test, removed with it.
pub(crate) struct Room(tempfile::TempDir);

impl Room {
    pub(crate) fn new() -> Room {
        Room(tempfile::Builder::new().prefix("takt-test-").tempdir().unwrap())
    }
    /// A workload in it, with the given text.
    pub(crate) fn with(text: &str) -> Room {
        let room = Room::new();
        fs::write(room.path("w.yaml"), text).unwrap();
        room
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
    pub(crate) fn trace(&self, name: &str) -> Trace {
        let path = self.path(name);
        let format = Format::from_path(&path).expect("a trace's name");
        takt_trace::read(File::open(path).unwrap(), format).unwrap()
    }
    /// Whether a trace keeps the rules, with times up to 20 ms late.
    pub(crate) fn check(&self, trace: &str, workload: &str) -> Result<(), String> {
        let done = self.takt(&["trace", "check", trace, workload, "--tolerance", "20ms"]);
        ensure(done.code() == 0, || done.stdout + &done.stderr)
    }
    /// `takt` with these arguments, in this directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args))
    }
    /// Runs `takt` to its end.
    /// Runs it with a text on its standard input.
    pub(crate) fn takt_with_input(&self, args: &[&str], text: &str) -> Done {
        let input = self.path("standard-input");
        std::fs::write(&input, text).unwrap();
        Running::start(self.command(args).stdin(std::fs::File::open(input).unwrap())).wait()
    }
    pub(crate) fn takt(&self, args: &[&str]) -> Done {
        self.start(args).wait()
    }
}

/// A `takt` that runs. Dropped, it is killed, and its watcher cleans up.
pub(crate) struct Running {
    child: Child,
    began: Instant,
    output: [PathBuf; 2],
    _room: Room,
}

/// A `takt` that has ended, and left nothing.
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Running {
    /// Starts it with output into files, which never fill up.
    pub(crate) fn start(command: &mut Command) -> Running {
        let room = Room::new();
        let output = [room.path("stdout"), room.path("stderr")];
        command.stdout(File::create(&output[0]).unwrap()).stderr(File::create(&output[1]).unwrap());
        Running::start_as_is(command, output, room)
    }
    /// Starts it with whatever output the caller has set.
    pub(crate) fn start_with_own_output(command: &mut Command) -> Running {
        let room = Room::new();
        Running::start_as_is(command, [room.path("stdout"), room.path("stderr")], room)
    }
    fn start_as_is(command: &mut Command, output: [PathBuf; 2], room: Room) -> Running {
        Running { child: command.spawn().unwrap(), began: Instant::now(), output, _room: room }
    }
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.output[1]).unwrap_or_default()
    }
    /// Waits until it ends, and checks that nothing of it is left then.
    pub(crate) fn wait(self) -> Done {
        let done = self.wait_unchecked();
        let pid = done.0;
        let (groups, processes) = (groups(pid), processes(pid));
        always(groups.is_empty(), || format!("groups are left: {groups:?}"));
        always(processes.is_empty(), || format!("processes are left: {processes:?}"));
        until("the watcher and the starter have ended", || watchers(pid).is_empty() && starters(pid).is_empty());
        done.1
    }
    /// Kills it without a chance to clean up, and waits until the watcher has done so; tells how long that took from its
    /// death on.
    pub(crate) fn kill_and_wait(self) -> Duration {
        self.signal(Signal::KILL);
        let (pid, _) = self.wait_unchecked();
        let began = Instant::now();
        until("the watcher has cleaned up", || groups(pid).is_empty() && processes(pid).is_empty());
        let took = began.elapsed();
        until("the watcher and the starter have ended", || watchers(pid).is_empty() && starters(pid).is_empty());
        took
    }
    /// Waits until it ends, however much it leaves.
    pub(crate) fn wait_unchecked(mut self) -> (i32, Done) {
        // The test may have had it run for long before.
        let asked = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if asked.elapsed() > PATIENCE {
                always(false, || format!("takt {} does not end; it said: {}", self.pid(), self.stderr()));
            }
            pause(5);
        };
        let [stdout, stderr] = self.output.clone().map(|path| fs::read(path).unwrap_or_default());
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (self.pid(), Done { status, stdout, stderr, took: self.began.elapsed() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Done {
    /// Its exit status; a death by signal is a failure of the test.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}: {}", self.status, self.stderr))
    }
    /// The one JSON object that `--json` prints, after a run that worked.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code(), 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {:?}", self.stdout))
    }
    /// Checks the exit status; tells the output if it is another.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Done {
        let status = self.status;
        assert_eq!(status.code(), Some(code), "{status}\nstdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

pub(crate) fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Tries up to `times` times what a stall of this machine can spoil, and says why each try failed. What must hold however
/// late everything is, is asserted within.
#[track_caller]
pub(crate) fn attempts<T>(times: usize, mut once: impl FnMut() -> Result<T, String>) -> T {
    for attempt in 1.. {
        if attempt > 1 {
            another_attempt();
            calm();
        }
        match once() {
            Ok(made) => return made,
            Err(why) if attempt == times => panic!("attempt {attempt}, the last: {why}"),
            Err(why) => println!("attempt {attempt}: {why}"),
        }
    }
    unreachable!("the last attempt returns or panics")
}

/// A condition on times, for [`attempts`].
pub(crate) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Polls for as long as a run may take.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        always(Instant::now() < end, || format!("not within {PATIENCE:?}: {what}"));
        pause(5);
    }
}

/// As [`until`], about a run. One that ends before is a failure at once. A failure has the output of the run, and what `holds` has seen.
#[track_caller]
pub(crate) fn until_in(run: &mut Running, what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let end = Instant::now() + PATIENCE;
    while let Err(seen) = holds() {
        let [stdout, stderr] = run.output.clone().map(|path| fs::read_to_string(path).unwrap_or_default());
        let said = || format!("{what}: {seen}\nits output:\n{stdout}{stderr}");
        if let Some(status) = run.child.try_wait().unwrap() {
            panic!("the run has ended, {status}, before {}", said());
        }
        always(Instant::now() < end, || format!("not within {PATIENCE:?}: {}", said()));
        pause(5);
    }
}

/// Directories of the runs of process `pid`, in every cgroup hierarchy and at any depth.
pub(crate) fn groups(pid: i32) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        if let (Some(mount), Some("cgroup" | "cgroup2")) = (fields.next(), fields.next()) {
            for prefix in [format!("takt-{pid}-"), format!("takt-mark-{pid}-")] {
                find_groups(Path::new(mount), &prefix, &mut found);
            }
        }
    }
    found
}

fn find_groups(dir: &Path, prefix: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path());
            }
            find_groups(&entry.path(), prefix, found);
        }
    }
}

/// Live processes that match.
pub(crate) fn find_processes(wanted: impl Fn(i32) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| wanted(*pid) && !matches!(state(*pid), 'Z' | 'X')).collect()
}

/// Live processes that a run of process `pid` has started, directly or not.
pub(crate) fn processes(pid: i32) -> Vec<i32> {
    let mark = format!("TAKT_RUN={pid}-");
    let marked = |text: Vec<u8>| text.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()));
    find_processes(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(marked))
}

/// The watcher of a run of process `pid`.
pub(crate) fn watchers(pid: i32) -> Vec<i32> {
    let mark = format!("\0__watch\0{pid}\0");
    find_processes(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&mark)))
}

/// The process that starts those of a run of process `pid`.
pub(crate) fn starters(pid: i32) -> Vec<i32> {
    let mark = format!("\0__start\0{pid}-");
    find_processes(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&mark)))
}

/// The state letter of a process; `X` when it is gone.
pub(crate) fn state(pid: i32) -> char {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
}

/// The text of the state of a sweep with the checksum of its changed content: FNV-1a of 64 bits.
pub(crate) fn sealed(mut state: Value) -> String {
    let object = state.as_object_mut().unwrap();
    object.remove("checksum");
    let made_by = object.remove("made_by").unwrap();
    let body = format!("{made_by},{}", &state.to_string()[1..]);
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let checksum = body.bytes().fold(0xcbf2_9ce4_8422_2325_u64, step);
    format!("{{\"checksum\":\"{checksum:016x}\",\"made_by\":{body}\n")
}
