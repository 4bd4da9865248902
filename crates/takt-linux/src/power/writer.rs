//! The thread that writes requests to the kernel, so that a slow driver delays no window.
//!
//! The scheduler leaves requests in mailboxes of one place each: a request that finds an older one there overtakes it, and the older one is dropped.

use super::cpufreq::{Set, Setter};
use super::idle::Latencies;
use crate::rt::{self, Class};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;

/// An empty mailbox of a frequency.
const EMPTY: u32 = 0;
/// An empty mailbox of a latency. Below that, a number is the limit in µs plus one, and 0 is no limit.
const NO_REQUEST: u64 = u64::MAX;

/// Above all processes of a run, below its scheduler.
const PRIORITY: u8 = 79;

/// A refused request is written again after this time, unless a later one has overtaken it.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// State that the scheduler and the writer share.
#[derive(Debug)]
struct Shared {
    /// By domain: the requested frequency in kHz.
    frequencies: Box<[AtomicU32]>,
    /// By CPU of the list: the requested latency.
    latencies: Box<[AtomicU64]>,
    requested: AtomicU64,
    dropped: AtomicU64,
    over: AtomicBool,
    wake: OwnedFd,
}

/// The scheduler's side. Its calls neither wait nor allocate.
#[derive(Clone, Debug)]
pub struct Requests(Arc<Shared>);

impl Requests {
    /// Requests a frequency in kHz for a domain, in the order of [`super::Power::open`]. [`Requests::post`] follows.
    pub fn frequency(&self, domain: usize, khz: u32) {
        let Some(mailbox) = self.0.frequencies.get(domain) else { return };
        let before = mailbox.swap(khz, Ordering::AcqRel);
        self.count(before != EMPTY);
    }

    /// Limits the latency of a CPU of the list of [`super::Power::open`], in µs; `None` is no limit. [`Requests::post`] follows.
    pub fn latency(&self, index: usize, limit: Option<u32>) {
        let Some(mailbox) = self.0.latencies.get(index) else { return };
        let before = mailbox.swap(limit.map_or(0, |us| u64::from(us) + 1), Ordering::AcqRel);
        self.count(before != NO_REQUEST);
    }

    fn count(&self, overtakes: bool) {
        self.0.requested.fetch_add(1, Ordering::Relaxed);
        self.0.dropped.fetch_add(overtakes.into(), Ordering::Relaxed);
    }

    /// Wakes the writer.
    pub fn post(&self) {
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }
}

/// Counts of requests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Written {
    /// Requests of the policy.
    pub requested: u64,
    /// Requests that the kernel took.
    pub written: u64,
    /// Requests that a later one has overtaken before they were written.
    pub dropped: u64,
    /// Writes that the kernel refused. The setting from before holds, and the request is repeated until it is taken or overtaken.
    pub failed: u64,
    /// Requests that the kernel took for another frequency, because of a limit of the hardware or of its temperature.
    pub clamped: u64,
    /// The first refusal.
    pub first_failure: Option<String>,
    /// The longest time that a write took.
    pub longest: Duration,
}

/// The files that the thread writes.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) domains: Vec<Setter>,
    pub(super) latencies: Option<Latencies>,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<(Files, Written)>>,
}

impl Writer {
    /// Starts the thread, with so many CPUs in the list, away from the CPUs of the scheduler.
    pub(super) fn start(files: Files, cpus: usize, scheduler: Option<CpuSet>) -> io::Result<Writer> {
        let shared = Arc::new(Shared {
            frequencies: files.domains.iter().map(|_| AtomicU32::new(EMPTY)).collect(),
            latencies: (0..cpus).map(|_| AtomicU64::new(NO_REQUEST)).collect(),
            requested: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            over: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let inside = shared.clone();
        let thread = std::thread::Builder::new().name("takt-power".into()).spawn(move || {
            settle(scheduler.as_ref());
            run(&inside, files)
        })?;
        Ok(Writer { shared, thread: Some(thread) })
    }

    pub(super) fn requests(&self) -> Requests {
        Requests(self.shared.clone())
    }

    /// Ends the thread after the requests that it has.
    pub(super) fn end(&mut self) -> Option<(Files, Written)> {
        let thread = self.thread.take()?;
        self.shared.over.store(true, Ordering::Release);
        self.requests().post();
        let (files, mut written) = thread.join().ok()?;
        written.requested = self.shared.requested.load(Ordering::Relaxed);
        written.dropped = self.shared.dropped.load(Ordering::Relaxed);
        Some((files, written))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives the calling thread the class of the writer, and keeps it off the scheduler's CPUs if there are others: on a kernel that is not preemptible, a
/// driver that waits actively would hold the scheduler up there.
fn settle(scheduler: Option<&CpuSet>) {
    let allowed = rt::affinity(0).ok();
    let others = scheduler.zip(allowed).map(|(own, all)| all.difference(own)).filter(|others| !others.is_empty());
    if let Some(others) = others {
        let _ = rt::set_affinity(0, &others);
    }
    // Without the right to it, the writer is an ordinary thread, as the scheduler then is.
    let _ = rt::set_class(0, Class::Fifo(PRIORITY));
}

fn run(shared: &Shared, mut files: Files) -> (Files, Written) {
    let mut written = Written::default();
    let (mut frequencies, mut latencies) = (vec![None; files.domains.len()], vec![None; shared.latencies.len()]);
    loop {
        // Read before the mailboxes: what is posted before the end is written.
        let over = shared.over.load(Ordering::Acquire);
        for (index, setter) in files.domains.iter_mut().enumerate() {
            let khz = shared.frequencies[index].swap(EMPTY, Ordering::AcqRel);
            if let Some(khz) = Some(khz).filter(|khz| *khz != EMPTY).or(frequencies[index]) {
                frequencies[index] = written.take(|| setter.set(khz)).err().map(|()| khz);
            }
        }
        for (index, refused) in latencies.iter_mut().enumerate() {
            let request = shared.latencies[index].swap(NO_REQUEST, Ordering::AcqRel);
            let request = Some(request).filter(|request| *request != NO_REQUEST).or(*refused);
            if let (Some(request), Some(files)) = (request, &mut files.latencies) {
                let limit = request.checked_sub(1).and_then(|us| u32::try_from(us).ok());
                *refused = written.take(|| files.set(index, limit).map(|()| Set::Exact)).err().map(|()| request);
            }
        }
        if over {
            return (files, written);
        }
        let repeats = frequencies.iter().any(Option::is_some) || latencies.iter().any(Option::is_some);
        let _ = poll(&mut [PollFd::new(&shared.wake, PollFlags::IN)], repeats.then_some(&RETRY));
        let _ = rustix::io::read(&shared.wake, &mut [0; 8]);
    }
}

impl Written {
    /// Counts a write and its result.
    fn take(&mut self, write: impl FnOnce() -> io::Result<Set>) -> Result<(), ()> {
        let began = Instant::now();
        let result = write();
        self.longest = self.longest.max(began.elapsed());
        match result {
            Ok(set) => {
                self.written += 1;
                self.clamped += u64::from(set == Set::Clamped);
                Ok(())
            }
            Err(e) => {
                self.failed += 1;
                self.first_failure.get_or_insert_with(|| e.to_string());
                Err(())
            }
        }
    }
}
