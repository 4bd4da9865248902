//! Load beside the measured task. It is bounded: it ends with its parent, and by itself after a time.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A command that fails within this time is no load.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Bytes of its error output that are kept.
const SAID: u64 = 400;

/// A kind of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Threads that compute square roots without end
    Cpu,
    /// Threads that copy memory that no cache holds
    Memory,
    /// Threads that touch memory at random places
    Cache,
    /// A thread that writes a temporary file and waits for the disk
    Io,
    /// A thread that starts processes without end
    Fork,
    /// Threads that sleep for 50 us without end
    Timers,
    /// A thread that sends packets to itself over the loopback device
    Network,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Memory => "memory",
            Kind::Cache => "cache",
            Kind::Io => "io",
            Kind::Fork => "fork",
            Kind::Timers => "timers",
            Kind::Network => "network",
        }
    }
}

/// The load of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) kinds: Vec<Kind>,
    /// Threads of each kind that has several.
    pub(crate) threads: usize,
    /// A command of the user in place of the kinds.
    pub(crate) command: Option<String>,
}

/// Bytes of each of the two blocks that a thread of [`Kind::Memory`] copies.
const BLOCK: usize = 16 << 20;
/// Bytes that a thread of [`Kind::Cache`] touches.
const CACHE: usize = 8 << 20;

impl Load {
    /// The memory that it takes, in bytes. A user's command is unknown.
    pub(crate) fn memory(&self) -> usize {
        let of = |kind: &Kind| match kind {
            Kind::Memory => self.threads.saturating_mul(2 * BLOCK),
            Kind::Cache => self.threads.saturating_mul(CACHE),
            _ => 0,
        };
        if self.command.is_some() { 0 } else { self.kinds.iter().map(of).fold(0, usize::saturating_add) }
    }

    /// The commands of its processes, for a schedule that starts them. `longest` bounds them.
    pub(crate) fn commands(&self, longest: Duration) -> Vec<Vec<String>> {
        let seconds = longest.as_secs().max(1).to_string();
        let of = |words: [&str; 4]| words.map(str::to_owned).to_vec();
        match &self.command {
            Some(command) => vec![of(["__latency", "stress-command", command, &seconds])],
            None => {
                let threads = self.threads.to_string();
                let kinds = self.kinds.iter().map(|kind| {
                    let mut words = of(["__latency", "stress", kind.name(), &threads]);
                    words.push(seconds.clone());
                    words
                });
                kinds.collect()
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        match &self.command {
            Some(command) => format!("`{command}`"),
            None => {
                let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
                format!(
                    "{} with {} thread{} each",
                    names.join(", "),
                    self.threads,
                    if self.threads == 1 { "" } else { "s" }
                )
            }
        }
    }

    /// Starts it. `longest` bounds it.
    /// With a group, it is there, and with a CPU, on that alone.
    pub(crate) fn start(&self, longest: Duration, group: Option<&Path>, cpu: Option<usize>) -> io::Result<Running> {
        let placed = |command: &mut Command| {
            if let Some(group) = group {
                command.arg("--enter").arg(group);
            }
            if let Some(cpu) = cpu {
                command.args(["--on", &cpu.to_string()]);
            }
        };
        let mut running = Running(Vec::new());
        // The parent of a user's command ends it, as it ends itself.
        for arguments in self.commands(longest) {
            let name = format!("`{}`", arguments[2]);
            let mut command = Command::new("/proc/self/exe");
            command.args(arguments);
            placed(&mut command);
            running.0.push((name, start(&mut command)?));
        }
        Ok(running)
    }
}

fn start(command: &mut Command) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0).spawn()
}

/// Load that ends when this is dropped. Each process has the name of its kind.
pub(crate) struct Running(Vec<(String, Child)>);

impl Running {
    /// Load that has ended by itself, with the reason. All of it is to last.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.0.iter_mut().find_map(|(name, child)| {
            let status = child.try_wait().ok()??;
            let mut said = Vec::new();
            if let Some(stderr) = &mut child.stderr {
                stderr.read_to_end(&mut said).ok()?;
            }
            let why = if said.is_empty() { status.to_string() } else { reason(&said) };
            Some(format!("the load {name} has ended by itself: {why}"))
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // With everything that it has started.
            if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

/// Ends this process and all that it has started when its parent ends, and after so many seconds at the latest.
fn bounded(seconds: u64) -> io::Result<()> {
    let (parent, began) = (std::os::unix::process::parent_id(), Instant::now());
    let watch = move || {
        while std::os::unix::process::parent_id() == parent && began.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_millis(20));
        }
        end_group();
    };
    std::thread::Builder::new().spawn(watch).map(drop)
}

/// Ends this process and everything that it has started.
fn end_group() {
    let group = rustix::process::getpgrp();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    std::process::exit(0);
}

/// The body of a process with load.
pub(crate) fn run(kind: Kind, threads: usize, seconds: u64) -> io::Result<()> {
    bounded(seconds)?;
    match kind {
        Kind::Cpu => in_threads(threads, |thread| {
            let mut x = 2.0 + thread as f64;
            loop {
                x = black_box(x).sqrt() + 1.0;
            }
        }),
        Kind::Memory => in_threads(threads, |_| {
            let (from, mut to) = (vec![1u8; BLOCK], vec![0u8; BLOCK]);
            loop {
                black_box(&mut to).copy_from_slice(black_box(&from));
            }
        }),
        Kind::Cache => in_threads(threads, |thread| {
            let mut words = vec![0u64; CACHE / 8];
            let mut state = thread as u64 + 1;
            loop {
                // A linear congruential generator (Knuth, MMIX) needs no memory of its own.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                words[(state >> 44) as usize] ^= state;
                black_box(&words);
            }
        }),
        Kind::Io => {
            let block = vec![7u8; 1 << 20];
            loop {
                let mut file = tempfile::tempfile()?;
                for _ in 0..8 {
                    file.write_all(&block)?;
                    File::sync_data(&file)?;
                }
            }
        }
        Kind::Fork => loop {
            match Command::new("true").stdin(Stdio::null()).status() {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(io::Error::other("the program `true` is not installed"));
                }
                // A limit of processes, for instance.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        },
        Kind::Timers => in_threads(threads, |_| {
            loop {
                std::thread::sleep(Duration::from_micros(50));
            }
        }),
        Kind::Network => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(socket.local_addr()?)?;
            let (packet, mut buffer) = ([0u8; 1024], [0u8; 1024]);
            loop {
                socket.send(&packet)?;
                socket.recv(&mut buffer)?;
            }
        }
    }
}

/// Runs a command of the user until this process ends.
///
/// # Errors
/// The command cannot be executed, or fails at once.
pub(crate) fn run_command(text: &str, seconds: u64) -> io::Result<()> {
    bounded(seconds)?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        // A command that has ended starts again, for the load is to last.
        let start = Instant::now();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut said = Vec::new();
        if let Some(stderr) = &mut child.stderr {
            stderr.by_ref().take(SAID).read_to_end(&mut said)?;
            // A full pipe would stop the load.
            io::copy(stderr, &mut io::sink())?;
        }
        let status = child.wait()?;
        if !status.success() && start.elapsed() < AT_ONCE {
            let said = String::from_utf8_lossy(&said);
            return Err(io::Error::other(format!("{status}: {}", said.lines().next().unwrap_or_default())));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The reason in the error output of a process of this program.
pub(super) fn reason(stderr: &[u8]) -> String {
    let said = String::from_utf8_lossy(stderr);
    let line = said.lines().next().unwrap_or("no message");
    // Such a process has no other file to write to than its standard output.
    line.rsplit_once("standard output: ").map_or(line, |(_, why)| why).trim().to_owned()
}

fn in_threads(threads: usize, work: impl Fn(usize) + Sync) -> io::Result<()> {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            let started = std::thread::Builder::new().spawn_scoped(scope, move || work(thread));
            if let Err(e) = started {
                // The threads that have begun never end, and less load than was asked for is none.
                let _ = writeln!(io::stderr(), "only {thread} of {threads} threads can be started: {e}");
                std::process::exit(1);
            }
        }
        Ok(())
    })
}
