//! Environments and command lines of other processes.
//!
//! The kernel reads both from the memory of the process, and takes the lock of its mappings for that. A user can have this lock held without an
//! end, by a page of a file system of that user (FUSE) that is read through `/proc/self/mem`. The reader then waits. So a process of its own
//! reads the environments of other users. It is killed when it waits. Command lines of other users are not read.

use crate::run_id::start_time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Name of the hidden subcommand, which has to call [`serve`].
pub const SUBCOMMAND: &str = "__environments";

/// How long one environment is waited for, and all of them.
const PATIENCE: Duration = Duration::from_millis(150);
const ALL: Duration = Duration::from_millis(500);
/// So many numbers of processes fit into a pipe.
const PART: usize = 4096;

static HELPED: AtomicBool = AtomicBool::new(false);

/// Processes that have held up a reader, with their start times. They are not asked again.
static STUCK: Mutex<BTreeSet<(i32, u64)>> = Mutex::new(BTreeSet::new());

fn stuck() -> MutexGuard<'static, BTreeSet<(i32, u64)>> {
    STUCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on this program has the subcommand.
pub fn have_subcommand() {
    HELPED.store(true, Ordering::Relaxed);
}

/// The body of the subcommand: reads numbers of processes, a line each, and writes the number, the length and the bytes of each environment.
///
/// # Errors
/// Its caller has left.
pub fn serve() -> io::Result<()> {
    let (numbers, mut out) = (io::stdin().lock(), io::stdout().lock());
    for number in numbers.lines() {
        let Ok(pid) = number?.parse::<i32>() else { continue };
        let environment = read(pid).unwrap_or_default();
        writeln!(out, "{pid} {}", environment.len())?;
        out.write_all(&environment)?;
        out.flush()?;
    }
    Ok(())
}

fn read(pid: i32) -> io::Result<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ"))
}

/// The real, effective, saved and file system user of a process. The kernel takes no lock of its memory for that.
pub(crate) fn users(pid: i32) -> Option<[u32; 4]> {
    users_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// The same out of the text of `/proc/PID/status`.
pub(crate) fn users_in(status: &str) -> Option<[u32; 4]> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let users: Vec<u32> = line.split_ascii_whitespace().filter_map(|user| user.parse().ok()).collect();
    users.try_into().ok()
}

/// Whether a process has this user alone.
fn is_own(pid: i32) -> bool {
    users(pid) == Some([rustix::process::geteuid().as_raw(); 4])
}

/// The arguments of a process of this user. For a process of another user, there are none.
pub(crate) fn arguments(pid: i32) -> Vec<String> {
    let line = if is_own(pid) { fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default() } else { Vec::new() };
    let arguments =
        line.split_inclusive(|byte| *byte == 0).map(|argument| argument.strip_suffix(b"\0").unwrap_or(argument));
    arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
}

/// The name of a process. The kernel has it in memory of its own.
pub(crate) fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The environments of processes, as far as this user may read them. Those of other users that do not answer in time are left out.
pub(crate) fn of(pids: impl Iterator<Item = i32>) -> Vec<(i32, Vec<u8>)> {
    let (mut found, mut foreign) = (Vec::new(), Vec::new());
    for pid in pids {
        match !HELPED.load(Ordering::Relaxed) || is_own(pid) {
            true => found.extend(read(pid).ok().map(|environment| (pid, environment))),
            // Only root may read it.
            false if rustix::process::geteuid().is_root() => foreign.push(pid),
            false => {}
        }
    }
    foreign.retain(|pid| start_time(*pid).is_some_and(|start| !stuck().contains(&(*pid, start))));
    let deadline = Instant::now() + ALL;
    let mut rest = &foreign[..];
    while !rest.is_empty() && Instant::now() < deadline {
        let part = &rest[..rest.len().min(PART)];
        let answers = ask(part, deadline);
        if let Some(next) = part.get(answers.len()) {
            stuck().extend(start_time(*next).map(|start| (*next, start)));
        }
        rest = &rest[part.len().min(answers.len() + 1)..];
        found.extend(answers);
    }
    found
}

/// The answers of a process, in the order of the numbers, until it has answered all or one takes too long.
fn ask(pids: &[i32], deadline: Instant) -> Vec<(i32, Vec<u8>)> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
    let Ok(mut child) = command.spawn() else {
        // Under a limit of processes (`ulimit -u`).
        return pids.iter().map(|pid| (*pid, read(*pid).unwrap_or_default())).collect();
    };
    let numbers: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
    let sent = child.stdin.take().map(|mut input| input.write_all(numbers.as_bytes()));
    let answers = if matches!(sent, Some(Ok(()))) { answers(&mut child, pids.len(), deadline) } else { Vec::new() };
    // It waits for a lock in a way that SIGKILL ends.
    let _ = (child.kill(), child.wait());
    answers
}

fn answers(child: &mut Child, count: usize, deadline: Instant) -> Vec<(i32, Vec<u8>)> {
    let Some(out) = child.stdout.take() else { return Vec::new() };
    let (mut found, mut bytes, mut buffer) = (Vec::new(), Vec::new(), [0; 1 << 14]);
    // The start of the process is no part of the wait.
    let mut patience = PATIENCE * 2;
    while found.len() < count {
        let wait = patience.min(deadline.saturating_duration_since(Instant::now()));
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as _ };
        match poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&wait)) {
            Ok(1..) => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => break,
        }
        match rustix::io::read(&out, &mut buffer) {
            Ok(n @ 1..) => bytes.extend_from_slice(&buffer[..n]),
            _ => break,
        }
        while let Some((answer, length)) = parse(&bytes) {
            bytes.drain(..length);
            found.push(answer);
        }
        patience = PATIENCE;
    }
    found
}

/// The first whole answer, and its length.
fn parse(bytes: &[u8]) -> Option<((i32, Vec<u8>), usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (pid, length) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let (pid, length) = (pid.parse().ok()?, length.parse::<usize>().ok()?);
    let environment = bytes.get(end + 1..end + 1 + length)?;
    Some(((pid, environment.to_vec()), end + 1 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_one_by_one() {
        let bytes = b"7 3\na=b9 0\n12 4\nc";
        let (first, length) = parse(bytes).unwrap();
        assert_eq!(first, (7, b"a=b".to_vec()));
        let (second, more) = parse(&bytes[length..]).unwrap();
        assert_eq!(second, (9, Vec::new()));
        assert_eq!(parse(&bytes[length + more..]), None, "its end is missing");
    }

    #[test]
    fn own_environments_are_read() {
        let mut child = Command::new("sleep").arg("60").env("TAKT_TEST_MARK", "found").spawn().unwrap();
        let pid = child.id() as i32;
        let marked = |found: Vec<(i32, Vec<u8>)>| {
            found.iter().any(|(of, text)| *of == pid && text.split(|b| *b == 0).any(|e| e == b"TAKT_TEST_MARK=found"))
        };
        // It has no environment until it begins its program.
        let seen = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            marked(of([pid, i32::MAX].into_iter()))
        });
        let _ = (child.kill(), child.wait());
        assert!(seen);
    }
}
