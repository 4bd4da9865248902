//! Environments and command lines of other processes.
//!
//! The kernel reads both from the memory of the process, and takes the lock of its mappings for that. A user can have this lock held without an
//! end, by a page of a file system of that user (FUSE) that is read through `/proc/self/mem`. The reader then waits. So a process of its own
//! reads the environments of other users. It is killed when it waits. Command lines of other users are not read.

use crate::places::SESSION;
use crate::run_id::{GROUP_VARIABLE, RUN_VARIABLE, start_time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Name of the hidden subcommand, which has to call [`serve`].
pub const SUBCOMMAND: &str = "__environments";

/// The variables that are read. Of several entries for one of them, the first is.
const VARIABLES: [&str; 3] = [RUN_VARIABLE, GROUP_VARIABLE, SESSION];

/// How long one environment is waited for.
const PATIENCE: Duration = Duration::from_millis(150);
/// How long this process waits for environments in each [`PERIOD`], and in a further search.
const ALL: Duration = Duration::from_millis(500);
const LEAST: Duration = Duration::from_millis(50);
const PERIOD: Duration = Duration::from_secs(10);
/// So many numbers of processes fit into a pipe.
const PART: usize = 4096;
/// Threads that read, with their stacks in bytes. They become twice as many after each step without an answer.
const READERS: usize = 1024;
const STACK: usize = 1 << 16;
const STEP: Duration = Duration::from_millis(5);

static HELPED: AtomicBool = AtomicBool::new(false);

/// The searches of this process.
struct Searches {
    /// Processes that have held up a reader, with their start times. They are not asked again.
    stuck: BTreeSet<(i32, u64)>,
    /// Processes that the last search could not ask.
    unread: usize,
    /// The time of waits since the begin of the period.
    waited: Duration,
    begin: Option<Instant>,
}

static SEARCHES: Mutex<Searches> =
    Mutex::new(Searches { stuck: BTreeSet::new(), unread: 0, waited: Duration::ZERO, begin: None });

fn searches() -> MutexGuard<'static, Searches> {
    SEARCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Searches {
    /// How long a search may take now.
    fn limit(&mut self) -> Duration {
        if self.begin.is_none_or(|begin| begin.elapsed() > PERIOD) {
            (self.begin, self.waited) = (Some(Instant::now()), Duration::ZERO);
        }
        ALL.saturating_sub(self.waited).max(LEAST)
    }
}

/// From now on this program has the subcommand.
pub fn have_subcommand() {
    HELPED.store(true, Ordering::Relaxed);
}

/// The body of the subcommand: reads numbers of processes, a line each. It writes the number of a process before it reads the environment, and then the
/// number, the length and the bytes of the variables.
///
/// # Errors
/// Its caller has left.
pub fn serve() -> io::Result<()> {
    // A reader that waits would outlive the caller.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut numbers = String::new();
    io::stdin().read_to_string(&mut numbers)?;
    let pids: Vec<i32> = numbers.lines().filter_map(|number| number.parse().ok()).collect();
    let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> io::Result<()> {
        while let Some(pid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
            say(format!("{pid}\n").as_bytes())?;
            let environment = read(*pid).unwrap_or_default();
            say(&[format!("{pid} {}\n", environment.len()).as_bytes(), &environment].concat())?;
            answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let (mut readers, mut before) = (0, 0);
        while next.load(Ordering::Relaxed) < pids.len() {
            let now = answered.load(Ordering::Relaxed);
            if now == before {
                let more = (0..readers.max(1).min(READERS - readers))
                    .filter(|_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).is_ok());
                readers += more.count();
            }
            if readers == 0 {
                return work();
            }
            before = now;
            thread::sleep(STEP);
        }
        Ok(())
    })
}

fn say(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// The entries of [`VARIABLES`] in the environment of a process.
fn read(pid: i32) -> io::Result<Vec<u8>> {
    Ok(wanted(&fs::read(format!("/proc/{pid}/environ"))?))
}

fn wanted(environment: &[u8]) -> Vec<u8> {
    let entry_of = |name: &&str| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.find(|entry| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'=')))
    };
    VARIABLES.iter().filter_map(entry_of).flat_map(|entry| [entry, b"\0"].concat()).collect()
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

/// The [`VARIABLES`] of processes, as far as this user may read them. Processes of other users that do not answer in time are left out.
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
    let limit = {
        let mut searches = searches();
        foreign.retain(|pid| start_time(*pid).is_some_and(|start| !searches.stuck.contains(&(*pid, start))));
        searches.limit()
    };
    let begun = Instant::now();
    let (mut stuck, mut unread) = (Vec::new(), foreign.len());
    for part in foreign.chunks(PART) {
        let answers = ask(part, begun + limit);
        unread -= answers.found.len() + answers.stuck.len();
        stuck.extend(answers.stuck);
        found.extend(answers.found);
    }
    let mut searches = searches();
    if unread > 0 || !stuck.is_empty() {
        searches.waited += begun.elapsed();
    }
    searches.stuck.extend(stuck.into_iter().filter_map(|pid| Some((pid, start_time(pid)?))));
    searches.unread = unread;
    found
}

/// Whether the last search has read all environments but those of processes that do not answer.
///
/// # Errors
/// There was no time for some of them.
pub(crate) fn are_read() -> io::Result<()> {
    match searches().unread {
        0 => Ok(()),
        unread => {
            let what = format!("environments of other users' processes that could not be read in time: {unread}");
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        }
    }
}

/// The answers of the subcommand.
#[derive(Default)]
struct Answers {
    found: Vec<(i32, Vec<u8>)>,
    /// Processes that have not answered in time.
    stuck: Vec<i32>,
}

/// Asks for the environments of processes, until all have answered or are stuck.
fn ask(pids: &[i32], deadline: Instant) -> Answers {
    if Instant::now() >= deadline {
        return Answers::default();
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
    let Ok(mut child) = command.spawn() else {
        // Under a limit of processes (`ulimit -u`).
        let found = pids.iter().map(|pid| (*pid, read(*pid).unwrap_or_default())).collect();
        return Answers { found, stuck: Vec::new() };
    };
    let numbers: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
    let sent = child.stdin.take().map(|mut input| input.write_all(numbers.as_bytes()));
    let answers =
        if matches!(sent, Some(Ok(()))) { answers(&mut child, pids.len(), deadline) } else { Answers::default() };
    // It waits for a lock in a way that SIGKILL ends.
    let _ = (child.kill(), child.wait());
    answers
}

fn answers(child: &mut Child, count: usize, deadline: Instant) -> Answers {
    let Some(out) = child.stdout.take() else { return Answers::default() };
    let (mut found, mut bytes, mut buffer) = (Vec::new(), Vec::new(), [0; 1 << 14]);
    // Processes that have not answered yet, with the end of the wait for each.
    let mut asked: BTreeMap<i32, Instant> = BTreeMap::new();
    while found.len() < count {
        let are_all_asked = found.len() + asked.len() == count;
        let end = asked.values().max().filter(|_| are_all_asked).map_or(deadline, |end| deadline.min(*end));
        let wait = end.saturating_duration_since(Instant::now());
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
        let mut rest = &bytes[..];
        while let Some((said, length)) = parse(rest) {
            rest = &rest[length..];
            match said {
                Said::Asked(pid) => drop(asked.insert(pid, Instant::now() + PATIENCE)),
                Said::Answer(pid, environment) => {
                    asked.remove(&pid);
                    found.push((pid, environment));
                }
            }
        }
        bytes = rest.to_vec();
    }
    let now = Instant::now();
    let stuck = asked.into_iter().filter(|(_, end)| *end <= now).map(|(pid, _)| pid).collect();
    Answers { found, stuck }
}

/// A part of the output of the subcommand.
#[derive(PartialEq, Eq, Debug)]
enum Said {
    /// It reads the environment of this process.
    Asked(i32),
    Answer(i32, Vec<u8>),
}

/// The first whole part, and its length.
fn parse(bytes: &[u8]) -> Option<(Said, usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = std::str::from_utf8(&bytes[..end]).ok()?;
    let Some((pid, length)) = line.split_once(' ') else { return Some((Said::Asked(line.parse().ok()?), end + 1)) };
    let (pid, length) = (pid.parse().ok()?, length.parse::<usize>().ok()?);
    let environment = bytes.get(end + 1..end + 1 + length)?;
    Some((Said::Answer(pid, environment.to_vec()), end + 1 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_one_by_one() {
        let bytes = b"7\n9\n7 3\na=b9 0\n12 4\nc";
        let mut rest = &bytes[..];
        let said = std::iter::from_fn(|| {
            let (said, length) = parse(rest)?;
            rest = &rest[length..];
            Some(said)
        });
        let expected = [Said::Asked(7), Said::Asked(9), Said::Answer(7, b"a=b".to_vec()), Said::Answer(9, Vec::new())];
        assert_eq!(said.collect::<Vec<_>>(), expected);
        assert_eq!(rest, b"12 4\nc", "its end is missing");
    }

    #[test]
    fn three_variables_are_read() {
        let environment = b"A=1\0TAKT_RUNS=2\0TAKT_GROUP=p0\0TAKT_RUN=1-1\0TAKT_RUN=2-2\0XDG_RUNTIME_DIR=/run/user/7\0B=TAKT_RUN=3-3\0";
        assert_eq!(wanted(environment), b"TAKT_RUN=1-1\0TAKT_GROUP=p0\0XDG_RUNTIME_DIR=/run/user/7\0");
    }

    /// A search that has waited leaves less time to the next ones.
    #[test]
    fn all_searches_of_a_period_have_one_limit() {
        let mut searches = Searches { stuck: BTreeSet::new(), unread: 0, waited: Duration::ZERO, begin: None };
        assert_eq!(searches.limit(), ALL);
        searches.waited = ALL - LEAST * 2;
        assert_eq!(searches.limit(), LEAST * 2);
        searches.waited = ALL * 2;
        assert_eq!(searches.limit(), LEAST);
        searches.begin = Instant::now().checked_sub(PERIOD * 2);
        assert_eq!(searches.limit(), ALL, "another period");
    }

    #[test]
    fn own_environments_are_read() {
        let mut child = Command::new("sleep").arg("60").env(SESSION, "/found").spawn().unwrap();
        let pid = child.id() as i32;
        let marked = |found: Vec<(i32, Vec<u8>)>| {
            found.iter().any(|(of, text)| *of == pid && text.split(|b| *b == 0).any(|e| e == b"XDG_RUNTIME_DIR=/found"))
        };
        // It has no environment until it begins its program.
        let seen = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            marked(of([pid, i32::MAX].into_iter()))
        });
        let _ = (child.kill(), child.wait());
        assert!(seen);
    }

    /// The searches of a process have one state, so this test runs again in a process of its own. The program of the tests has no subcommand.
    const ALONE: &str = "TAKT_TEST_ENVIRONMENTS";

    #[test]
    fn an_environment_that_was_not_read_is_an_error() {
        if !rustix::process::geteuid().is_root() {
            return takt_testing::skip(takt_testing::Capability::Users, "a second user needs root");
        }
        if let Ok(pid) = std::env::var(ALONE) {
            have_subcommand();
            let pid = pid.parse().unwrap();
            assert_eq!(of([pid].into_iter()), []);
            assert!(are_read().unwrap_err().to_string().ends_with("in time: 1"));
            assert_eq!((of([i32::MAX].into_iter()), are_read().is_ok()), (Vec::new(), true), "it has ended");
            return;
        }
        let mut other = Command::new("sleep");
        let mut other = std::os::unix::process::CommandExt::uid(other.arg("60"), 65_532).spawn().unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["environments::tests::an_environment_that_was_not_read_is_an_error", "--exact", "--nocapture"]);
        let output = again.env(ALONE, other.id().to_string()).output();
        let _ = (other.kill(), other.wait());
        let said = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        assert!(said.contains("1 passed"), "{said}");
    }
}
