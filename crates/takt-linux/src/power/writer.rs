//! The thread that writes requests to the kernel, so that a slow driver delays no window.
//!
//! The scheduler leaves requests in mailboxes of one place each: a request that finds an older one there overtakes it, and the older one is dropped.
//!
//! The writer looks into the mailboxes by itself when a request is expected ([`super::forecast`]), and says when it looks next. The scheduler wakes it only for
//! a request that would have to wait longer than that: the system call and the interrupt of another CPU would be a part of each window otherwise.

use super::cpufreq::{Set, Setter};
use super::forecast::{Forecast, LONGEST};
use super::idle::Latencies;
use crate::rt::{self, Class};
use crate::timer::now;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;

/// An empty mailbox of a frequency.
const EMPTY: u32 = 0;
/// An empty mailbox of a latency. Below that, a number is the limit in µs plus one, and 0 is no limit.
const NO_REQUEST: u64 = u64::MAX;

/// Above all processes of a run, below its scheduler.
const PRIORITY: u8 = 79;

/// A refused request is written again after this time, unless a later one has overtaken it.
const RETRY: Span = Span::from_ms(50);

/// A request may wait so long for a look into the mailboxes that comes anyway.
const SOON: Span = LONGEST;
/// The writer looks into the mailboxes before it sleeps again.
const AWAKE: i64 = i64::MIN;
/// No request of a planned instant has been posted.
const UNPLANNED: i64 = i64::MIN;

/// State that the scheduler and the writer share.
#[derive(Debug)]
struct Shared {
    /// By domain: the requested frequency in kHz.
    frequencies: Box<[AtomicU32]>,
    /// By CPU of the list: the requested latency.
    latencies: Box<[AtomicU64]>,
    requested: AtomicU64,
    dropped: AtomicU64,
    /// Posts that woke the writer.
    woken: AtomicU64,
    /// The planned instant of the last post that had one, in ns of the monotonic clock.
    planned: AtomicI64,
    /// Length of the major frame in ns; 0 without a window table.
    frame: AtomicI64,
    /// When the writer looks into the mailboxes next, in ns of the monotonic clock.
    looks: AtomicI64,
    over: AtomicBool,
    wake: OwnedFd,
}

impl Shared {
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn has_request(&self) -> bool {
        self.frequencies.iter().any(|mailbox| mailbox.load(Ordering::Relaxed) != EMPTY)
            || self.latencies.iter().any(|mailbox| mailbox.load(Ordering::Relaxed) != NO_REQUEST)
            || self.planned.load(Ordering::Relaxed) != UNPLANNED
            || self.over.load(Ordering::Relaxed)
    }
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

    /// Hands the requests over. The writer is woken unless it looks for them soon. `planned` is the instant of the monotonic clock from which they
    /// follow, if the schedule had planned it: it makes requests expected a major frame later.
    pub fn post(&self, planned: Option<Span>) {
        if let Some(planned) = planned {
            self.0.planned.store(planned.ns(), Ordering::Relaxed);
        }
        // Either the writer's next look is seen here, or these requests are seen before its sleep.
        fence(Ordering::SeqCst);
        if self.0.looks.load(Ordering::Relaxed) > (now() + SOON).ns() {
            self.0.woken.fetch_add(1, Ordering::Relaxed);
            self.0.wake();
        }
    }

    /// From now on the major frame has this length; zero without a window table, where nothing repeats.
    pub fn set_frame(&self, length: Span) {
        self.0.frame.store(length.ns(), Ordering::Relaxed);
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
    /// Times that the scheduler had to wake the writer.
    pub woken: u64,
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
            woken: AtomicU64::new(0),
            planned: AtomicI64::new(UNPLANNED),
            frame: AtomicI64::new(0),
            looks: AtomicI64::new(AWAKE),
            over: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let inside = shared.clone();
        let thread = std::thread::Builder::new().name("takt-power".into()).spawn(move || {
            let expects = settle(scheduler.as_ref());
            run(&inside, files, expects)
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
        self.shared.wake();
        let (files, mut written) = thread.join().ok()?;
        written.requested = self.shared.requested.load(Ordering::Relaxed);
        written.dropped = self.shared.dropped.load(Ordering::Relaxed);
        written.woken = self.shared.woken.load(Ordering::Relaxed);
        Some((files, written))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives the calling thread the class of the writer, and keeps it off the scheduler's CPUs if there are others: on a kernel that is not preemptible, a
/// driver that waits actively would hold the scheduler up there. Returns whether it has another CPU.
fn settle(scheduler: Option<&CpuSet>) -> bool {
    let allowed = rt::affinity(0).unwrap_or(CpuSet::EMPTY);
    let others = scheduler.map_or(allowed, |own| allowed.difference(own));
    if scheduler.is_some() && !others.is_empty() {
        let _ = rt::set_affinity(0, &others);
    }
    // Without the right to it, the writer is an ordinary thread, as the scheduler then is.
    if rt::set_class(0, Class::Fifo(PRIORITY)).is_err() {
        let _ = rt::set_timer_slack(Span::from_ns(1));
    }
    !others.is_empty() && allowed.len() > 1
}

/// `expects` says that requests are expected: on the scheduler's CPU a timer would cost more than a wake-up.
fn run(shared: &Shared, mut files: Files, expects: bool) -> (Files, Written) {
    let mut written = Written::default();
    let (mut frequencies, mut latencies) = (vec![None; files.domains.len()], vec![None; shared.latencies.len()]);
    let mut forecast = Forecast::new();
    // When refused requests are written again.
    let mut retry = Span::MAX;
    loop {
        // Read before the mailboxes: what is posted before the end is written.
        let over = shared.over.load(Ordering::Acquire);
        let repeats = over || now() >= retry;
        let planned = shared.planned.swap(UNPLANNED, Ordering::Acquire);
        let mut found = planned != UNPLANNED;
        for (index, setter) in files.domains.iter_mut().enumerate() {
            let khz = shared.frequencies[index].swap(EMPTY, Ordering::AcqRel);
            found |= khz != EMPTY;
            let refused = frequencies[index].filter(|_| repeats);
            if let Some(khz) = Some(khz).filter(|khz| *khz != EMPTY).or(refused) {
                frequencies[index] = written.take(|| setter.set(khz)).err().map(|()| khz);
            }
        }
        for (index, refused) in latencies.iter_mut().enumerate() {
            let request = shared.latencies[index].swap(NO_REQUEST, Ordering::AcqRel);
            found |= request != NO_REQUEST;
            let request = Some(request).filter(|request| *request != NO_REQUEST).or(refused.filter(|_| repeats));
            if let (Some(request), Some(files)) = (request, &mut files.latencies) {
                let limit = request.checked_sub(1).and_then(|us| u32::try_from(us).ok());
                *refused = written.take(|| files.set(index, limit).map(|()| Set::Exact)).err().map(|()| request);
            }
        }
        if over {
            return (files, written);
        }
        if planned != UNPLANNED && expects {
            forecast.came(Span::from_ns(planned), Span::from_ns(shared.frame.load(Ordering::Relaxed)));
        }
        if !found {
            forecast.nothing(now());
        }
        retry = match frequencies.iter().any(Option::is_some) || latencies.iter().any(Option::is_some) {
            true if repeats || retry == Span::MAX => now() + RETRY,
            true => retry,
            false => Span::MAX,
        };
        sleep(shared, forecast.next().min(retry));
    }
}

/// Sleeps until an instant or a wake-up, unless there is a request.
fn sleep(shared: &Shared, until: Span) {
    shared.looks.store(until.ns(), Ordering::Relaxed);
    // See [`Requests::post`].
    fence(Ordering::SeqCst);
    if !shared.has_request() {
        let left = (until - now()).or_zero().ns();
        let limit = Timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 };
        let limit = (until != Span::MAX).then_some(&limit);
        let _ = poll(&mut [PollFd::new(&shared.wake, PollFlags::IN)], limit);
    }
    shared.looks.store(AWAKE, Ordering::Relaxed);
    let _ = rustix::io::read(&shared.wake, &mut [0; 8]);
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
