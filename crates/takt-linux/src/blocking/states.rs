//! States of processes, read in `/proc` each millisecond: their blocks and wake-ups where the kernel does not report them, as to a user without rights, and of
//! processes without a real-time class.
//!
//! A thread of its own reads them, since a scheduler thread may not look at files. It has the ordinary class, and sleeps while no process is watched.
//! A process waits when all of its threads and those of its children do.

use super::threads::Transition;
use crate::group::Unavailable;
use crate::timer;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::thread::JoinHandle;
use std::time::Duration;
use takt_core::time::Span;

/// Between two looks at the watched processes.
pub const INTERVAL: Span = Span::from_ms(1);

/// The most processes and threads of a task that are looked at. A task with more counts as runnable.
const MOST: u32 = 256;

/// A task's process, between the two threads.
#[derive(Debug, Default)]
struct Watched {
    /// The number of its process; 0 without one.
    leader: AtomicI32,
    /// Bit 0: it is looked at. Bit 1: it counted as blocked when that began. Above: how often it began.
    watch: AtomicU32,
    /// Bit 0: it is blocked. Above: the instant of the look that found a change, in ns.
    state: AtomicU64,
    /// `watch` as it was at that look. A change of another watch does not count: a process that was frozen meanwhile looks blocked.
    of: AtomicU32,
}

const ON: u32 = 1;
const BLOCKED: u32 = 2;
const ONCE: u32 = 4;

#[derive(Debug)]
struct Shared {
    tasks: Box<[Watched]>,
    /// How many changes there were.
    changes: AtomicU64,
    /// Written at each change.
    notice: OwnedFd,
    /// The sampler waits for `wake`.
    idles: AtomicBool,
    wake: OwnedFd,
    over: AtomicBool,
}

/// The states of all tasks' processes. The sampler ends with this value.
#[derive(Debug)]
pub struct States {
    shared: Arc<Shared>,
    sampler: Option<JoinHandle<()>>,
    /// The last change of each task that was taken, and their number at the last look.
    seen: Vec<u64>,
    changes: u64,
    /// The task that the look continues with, and whether it has left a change that came after its instant.
    next: usize,
    left: bool,
}

impl States {
    /// For so many tasks. None has a process yet.
    ///
    /// # Errors
    /// The kernel does not list the children of a process, or a thread cannot be started.
    pub fn open(tasks: usize) -> Result<States, Unavailable> {
        let failed = |e: io::Error| Unavailable {
            reason: format!("the states of processes cannot be sampled: {e}"),
            fix: "raise the limits of descriptors and of processes (`ulimit -n`, `ulimit -u`)".to_owned(),
        };
        fs::read("/proc/thread-self/children").map_err(|e| Unavailable {
            reason: format!("the kernel does not list the children of a process: {e}"),
            fix: "it needs a kernel with CONFIG_PROC_CHILDREN".to_owned(),
        })?;
        let event = |flags| eventfd(0, flags).map_err(|e| failed(e.into()));
        let shared = Arc::new(Shared {
            tasks: (0..tasks).map(|_| Watched::default()).collect(),
            changes: AtomicU64::new(0),
            notice: event(EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            idles: AtomicBool::new(false),
            wake: event(EventfdFlags::CLOEXEC)?,
            over: AtomicBool::new(false),
        });
        let sampler = std::thread::Builder::new().name("takt-states".to_owned()).spawn({
            let shared = shared.clone();
            move || Sampler { known: vec![Known::default(); shared.tasks.len()], files: Vec::new(), shared }.run()
        });
        let sampler = Some(sampler.map_err(failed)?);
        Ok(States { shared, sampler, seen: vec![0; tasks], changes: 0, next: 0, left: false })
    }

    /// The process of a task, from now on. It is not looked at before [`States::watch`].
    pub fn follow(&self, task: usize, leader: Option<i32>) {
        self.unwatch(task);
        self.shared.tasks[task].leader.store(leader.unwrap_or(0), Release);
    }

    /// The process of a task begins or continues its job, and is looked at from now on; `blocked` says how it counts until a change. It neither blocks nor
    /// allocates.
    pub fn watch(&self, task: usize, blocked: bool) {
        let watch = &self.shared.tasks[task].watch;
        let often = watch.load(Relaxed).wrapping_add(ONCE) & !(ON | BLOCKED);
        watch.store(often | ON | if blocked { BLOCKED } else { 0 }, SeqCst);
        if self.shared.idles.swap(false, SeqCst) {
            let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        }
    }

    /// The process of a task is stopped, and is not looked at any more. Findings that were not taken are void.
    pub fn unwatch(&self, task: usize) {
        self.shared.tasks[task].watch.fetch_and(!ON, SeqCst);
    }

    /// From now on changes are heard there.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn register(&self, epoll: &impl AsFd, data: u64) -> io::Result<()> {
        Ok(epoll::add(epoll, &self.shared.notice, EventData::new_u64(data), EventFlags::IN | EventFlags::ET)?)
    }

    /// From now on changes are not heard there.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn unregister(&self, epoll: &impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(epoll, &self.shared.notice)?)
    }

    /// Whether a change waits to be taken. No system call. O(1).
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.next > 0 || self.shared.changes.load(Acquire) != self.changes
    }

    /// Takes the next change and its instant, if that is not after `until`. Of changes of one task that were not taken, the last one remains, and none that was found
    /// before the last [`States::watch`]. No system call. O(tasks) for all changes of a look.
    pub fn take(&mut self, until: Span) -> Option<(Span, Transition)> {
        if self.next == 0 {
            if !self.has_changes() {
                return None;
            }
            self.changes = self.shared.changes.load(Acquire);
            self.left = false;
        }
        while let Some(watched) = self.shared.tasks.get(self.next) {
            let (task, state) = (self.next, watched.state.load(Acquire));
            self.next += 1;
            let at = Span::from_ns((state >> 1) as i64);
            if state == self.seen[task] {
                continue;
            }
            if at > until {
                self.left = true;
                continue;
            }
            self.seen[task] = state;
            // Where the sampler writes at this moment, the stamp can be that of its next change, which corrects this one.
            if watched.of.load(Acquire) == watched.watch.load(SeqCst) {
                return Some((at, Transition { task, blocked: state & 1 == 1 }));
            }
        }
        self.next = 0;
        self.changes -= u64::from(self.left);
        None
    }
}

impl Drop for States {
    fn drop(&mut self) {
        self.shared.over.store(true, SeqCst);
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        let _ = self.sampler.take().map(JoinHandle::join);
    }
}

/// The sampler's knowledge of a task.
#[derive(Clone, Copy, Default)]
struct Known {
    watch: u32,
    blocked: bool,
}

struct Sampler {
    shared: Arc<Shared>,
    known: Vec<Known>,
    /// By task: the number of its process, and that one's file, if it could be opened.
    files: Vec<Option<(i32, Option<File>)>>,
}

impl Sampler {
    fn run(mut self) {
        self.files.resize_with(self.known.len(), || None);
        // Without the right to it, the thread competes as the processes do.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), -20);
        let mut next = timer::now();
        while !self.shared.over.load(SeqCst) {
            if !self.look() {
                // A process that is watched meanwhile finds the flag, or this finds the process.
                self.shared.idles.store(true, SeqCst);
                if !self.shared.tasks.iter().any(|task| task.watch.load(SeqCst) & ON > 0)
                    && !self.shared.over.load(SeqCst)
                {
                    let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
                }
                self.shared.idles.store(false, SeqCst);
                next = timer::now();
            }
            next = (next + INTERVAL).max(timer::now());
            let rest = next - timer::now();
            std::thread::sleep(Duration::from_nanos(rest.ns().max(0).unsigned_abs()));
        }
    }

    /// Looks at all watched processes once. Returns whether there is one.
    fn look(&mut self) -> bool {
        let (mut any, mut changed) = (false, false);
        for (task, watched) in self.shared.tasks.iter().enumerate() {
            let watch = watched.watch.load(SeqCst);
            let leader = watched.leader.load(Acquire);
            // Each process has its file from the first look on, whether it is watched or not.
            let file = &mut self.files[task];
            // One that could not be opened is tried again at the next look.
            let stale =
                file.as_ref().map_or(leader != 0, |(of, stat)| *of != leader || watch & ON > 0 && stat.is_none());
            if stale {
                *file = (leader != 0).then(|| (leader, File::open(format!("/proc/{leader}/stat")).ok()));
            }
            let (ON.., Some((_, file))) = (watch & ON, file) else { continue };
            any = true;
            let known = &mut self.known[task];
            if known.watch != watch {
                *known = Known { watch, blocked: watch & BLOCKED > 0 };
            }
            let at = timer::now();
            let blocked = file.as_ref().is_some_and(|stat| waits(leader, stat));
            if blocked != known.blocked {
                known.blocked = blocked;
                watched.of.store(watch, Release);
                watched.state.store(at.ns().unsigned_abs() << 1 | u64::from(blocked), Release);
                changed = true;
            }
        }
        if changed {
            self.shared.changes.fetch_add(1, AcqRel);
            let _ = rustix::io::write(&self.shared.notice, &1u64.to_ne_bytes());
        }
        any
    }
}

/// State and number of threads, from a `stat` file (`proc_pid_stat(5)`). The name before them may have any character.
fn parse(stat: &str) -> Option<(char, u32)> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(16)?.parse().ok()?))
}

/// Sleeps, or waits for a device. A stopped process (T) is not at work, and a child that has ended (Z) does not keep its parent runnable.
fn is_waiting(state: char) -> bool {
    matches!(state, 'S' | 'D' | 'Z')
}

/// Whether no thread of a process and of its children is runnable. A process that is gone is not blocked.
fn waits(leader: i32, stat: &File) -> bool {
    let mut text = [0; 1024];
    let read = stat.read_at(&mut text, 0).unwrap_or(0);
    let first = std::str::from_utf8(&text[..read]).ok().and_then(parse);
    // Most looks find a process at work.
    first.is_some_and(|(state, _)| matches!(state, 'S' | 'D')) && all_wait(leader, &mut { MOST })
}

/// As [`waits`], with at most `most` further threads.
fn all_wait(process: i32, most: &mut u32) -> bool {
    let text = |path: String| fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let Some((state, threads)) = text(format!("/proc/{process}/stat")).as_deref().and_then(parse) else {
        // A child that has ended meanwhile.
        return true;
    };
    let mut thread_waits = |thread: i32, state: char| {
        if !is_waiting(state) || *most == 0 {
            return false;
        }
        *most -= 1;
        let children = text(format!("/proc/{process}/task/{thread}/children")).unwrap_or_default();
        children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).all(|child| all_wait(child, most))
    };
    if threads == 1 {
        return thread_waits(process, state);
    }
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).all(|thread| {
        let stat = text(format!("/proc/{process}/task/{thread}/stat"));
        stat.as_deref().and_then(parse).is_none_or(|(state, _)| thread_waits(thread, state))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_brackets_is_no_state() {
        let stat = "42 (a) R 1 (b)) S 1 42 42 0 -1 4194304 88 0 0 0 0 0 0 0 20 0 3 0 4711 0 0";
        assert_eq!(parse(stat), Some(('S', 3)));
        assert_eq!(parse("42 (a) S"), None);
    }

    /// The next change of a task. It hangs if there is none.
    fn next(states: &mut States) -> Transition {
        loop {
            if let Some((at, change)) = states.take(timer::now()) {
                assert!(at <= timer::now());
                return change;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A program, a program whose child works, and one with several threads: each works until it reads a line.
    #[test]
    fn processes_wait_with_their_threads_and_children() {
        const WORK: &str = "while :; do :; done";
        let wait = "read line; ";
        for (text, works) in [
            ("read line; while :; do :; done".to_owned(), true),
            (format!("sh -c '{wait}{WORK}'; :"), true),
            (format!("(sleep 60)& {wait}kill $!; {WORK}"), true),
            ("read line; sleep 60".to_owned(), false),
        ] {
            let mut command = Command::new("sh");
            let mut child = command.args(["-c", &text]).stdin(Stdio::piped()).spawn().unwrap();
            let mut states = States::open(2).unwrap();
            states.follow(1, Some(child.id() as i32));
            states.watch(1, false);
            assert_eq!(next(&mut states), Transition { task: 1, blocked: true }, "{text}");
            io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
            if works {
                assert_eq!(next(&mut states), Transition { task: 1, blocked: false }, "{text}");
                // A start that takes it for blocked, although it works, is corrected.
                states.unwatch(1);
                states.watch(1, true);
                assert_eq!(next(&mut states), Transition { task: 1, blocked: false }, "{text}");
            }
            drop(states);
            let group = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
            let kill = |pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            group.split_whitespace().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)).for_each(
                |pid| {
                    let _ = kill(pid);
                },
            );
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// A process that is stopped after a look counts as it did: a freeze looks like a block, and nothing would report its end.
    #[test]
    fn a_change_is_void_once_the_process_is_stopped() {
        let mut states = States::open(1).unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        for stop in [|states: &States, _| states.unwatch(0), |states: &States, leader| states.follow(0, Some(leader))] {
            states.follow(0, Some(child.id() as i32));
            states.watch(0, false);
            while !states.has_changes() {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop(&states, child.id() as i32);
            assert_eq!(states.take(timer::now()), None);
            assert!(!states.has_changes());
            // The next job finds it blocked again.
            states.watch(0, false);
            assert_eq!(next(&mut states), Transition { task: 0, blocked: true });
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A change after the instant of a look waits for the next one.
    #[test]
    fn a_change_after_the_instant_is_left() {
        let mut states = States::open(1).unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        states.follow(0, Some(child.id() as i32));
        let before = timer::now();
        states.watch(0, false);
        while !states.has_changes() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(states.take(before), None);
        assert!(states.has_changes());
        assert_eq!(next(&mut states), Transition { task: 0, blocked: true });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
