//! Load beside the measured task. It is bounded: it ends with its parent, and by itself after a time.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

impl Load {
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
                format!("{} with {} thread{} each", names.join(", "), self.threads, if self.threads == 1 { "" } else { "s" })
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
        let mut children = Vec::new();
        // The parent of a user's command ends it, as it ends itself.
        for arguments in self.commands(longest) {
            let mut command = Command::new("/proc/self/exe");
            command.args(arguments);
            placed(&mut command);
            children.push(start(&mut command)?);
        }
        Ok(Running(children))
    }
}

fn start(command: &mut Command) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn()
}

/// Load that ends when this is dropped.
pub(crate) struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
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
            let (from, mut to) = (vec![1u8; 16 << 20], vec![0u8; 16 << 20]);
            loop {
                black_box(&mut to).copy_from_slice(black_box(&from));
            }
        }),
        Kind::Cache => in_threads(threads, |thread| {
            let mut words = vec![0u64; 1 << 20];
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
            let started = Command::new("true").stdin(Stdio::null()).status();
            if started.is_err() {
                // A limit of processes, for instance.
                std::thread::sleep(Duration::from_millis(1));
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
pub(crate) fn run_command(text: &str, seconds: u64) -> io::Result<()> {
    bounded(seconds)?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        // A command that has ended starts again, for the load is to last.
        Command::new("/bin/sh").args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn in_threads(threads: usize, work: impl Fn(usize) + Sync) -> io::Result<()> {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            std::thread::Builder::new().spawn_scoped(scope, move || work(thread))?;
        }
        Ok(())
    })
}
