//! The interface between a scheduler and a program that it schedules: one shared page of memory with a request and an answer.
//! `docs/protocol.md` describes it for authors of other clients.
//!
//! The program writes a request into the page, increments [`Page::asked`], and writes to the descriptor COMPLETED, the bell. The scheduler
//! writes the answer into the page, sets [`Page::answered`] to the number of the request, and wakes the program (`futex(2)`). A page holds
//! one request at a time. Each field has one writer.
//!
//! The scheduler does not trust the page, because the program can write to it. It copies a request ([`Page::take`]) and checks the copy. Its
//! own state is elsewhere.
//!
//! The end of a job unlocks its resources. A program that waits for a resource is blocked in the engine and frozen, so no holder is
//! unknown to the scheduler.

#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

/// The version of the page and its requests.
pub const VERSION: u32 = 2;
/// The oldest version of a client that this version serves.
pub const OLDEST: u32 = 1;
/// `TAKT` in memory on a little-endian machine.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TAKT");
/// The environment variable that holds `PAGE,BELL,INIT`: the numbers of two descriptors, and whether the program initialises (1 or 0).
pub const VARIABLE: &str = "TAKT_CLIENT";
/// The environment variable that holds the names of the resources, separated by commas. A resource's number is its place in this list.
pub const RESOURCES: &str = "TAKT_RESOURCES";
/// The environment variable that holds `PAGE,BELL,NAME` for each task that is a thread of the program, one a line.
pub const THREADS: &str = "TAKT_THREADS";
/// The environment variable that holds the period of a program outside Takt, such as `20ms`.
pub const STANDALONE: &str = "TAKT_STANDALONE";
/// Bytes of the shared memory.
pub const SIZE: usize = 4096;
/// A deadline that never comes, and a budget without an end.
pub const NEVER: i64 = i64::MAX;

/// The shared page. The offsets of its fields are part of the version.
#[repr(C)]
#[derive(Debug)]
pub struct Page {
    /// [`MAGIC`]. Written by the scheduler.
    pub magic: AtomicU32,
    /// The scheduler's [`VERSION`].
    pub version: AtomicU32,
    /// The scheduler's [`OLDEST`].
    pub oldest: AtomicU32,
    /// Number of the signal by which the program learns that its job was aborted; 0 if it is sent none. Written by the scheduler.
    pub abort_signal: AtomicU32,
    /// The version of the client, or 0 before it has attached itself. Written by the program.
    pub client: AtomicU32,
    /// Number of the last request; it counts up from 0. Written by the program.
    pub asked: AtomicU32,
    /// The number of the last request that has been answered; a futex. Written by the scheduler.
    pub answered: AtomicU32,
    /// The [`Kind`] of the last request. Written by the program.
    pub kind: AtomicU32,
    /// The job that the program is at. Written by the program.
    pub at: AtomicU64,
    /// The arguments of the last request. Written by the program.
    pub arguments: [AtomicI64; 3],
    /// The answer: a [`Status`]. Written by the scheduler.
    pub status: AtomicI32,
    /// The factor on the execution time of the present job, in millionths, for programs that apply it. Written by the scheduler.
    pub load: AtomicU32,
    /// Figures of the answer. Written by the scheduler.
    pub results: [AtomicI64; 8],
    /// The present job. Written by the scheduler.
    pub job: AtomicU64,
    /// Its release, in nanoseconds on the monotonic clock. Written by the scheduler.
    pub release: AtomicI64,
    /// Its absolute deadline likewise, or [`NEVER`]. Written by the scheduler.
    pub deadline: AtomicI64,
    /// One more than the number of the last job that was aborted while the program was at it. Written by the scheduler.
    pub aborted: AtomicU64,
    /// For a task that is a thread of a program ([`THREADS`]): the number of that thread (`gettid`), 0 before it attaches. Written by the program.
    pub thread: AtomicU32,
}

const _: () = assert!(size_of::<Page>() == 176 && size_of::<Page>() <= SIZE);

/// The kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// The job is complete, or the program is initialised. The answer comes with the next job.
    Next = 1,
    /// The job yields its CPU to jobs of equal urgency.
    Yield = 2,
    /// Locks the resource of this number.
    Lock = 3,
    /// Unlocks the resource of this number.
    Unlock = 4,
    /// Another period, in nanoseconds.
    SetPeriod = 5,
    /// Another relative deadline.
    SetDeadline = 6,
    /// Another execution time.
    SetRuntime = 7,
    /// A share of a CPU in millionths, or -1 for none; and its importance.
    SetShare = 8,
    /// Consumption and budget of the job, and the counts of the task: [`Statistics`].
    Statistics = 9,
    /// Begins a real-time segment. Its relative deadline and execution time in nanoseconds, 0 for the workload's; its utility in millionths, -1 for
    /// the workload's. The answer comes when the segment is dispatched.
    Begin = 10,
    /// Ends the real-time segment.
    End = 11,
}

impl Kind {
    /// All of them, in the order of their numbers, which begin at 1.
    pub const ALL: [Kind; 11] = [
        Kind::Next,
        Kind::Yield,
        Kind::Lock,
        Kind::Unlock,
        Kind::SetPeriod,
        Kind::SetDeadline,
        Kind::SetRuntime,
        Kind::SetShare,
        Kind::Statistics,
        Kind::Begin,
        Kind::End,
    ];

    /// The kind of this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Kind> {
        Kind::ALL.get((number as usize).checked_sub(1)?).copied()
    }
}

/// The reason why a thread cannot attach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadError {
    /// The thread of this number is attached.
    Taken(u32),
    /// As the error of [`Page::attach`].
    Version(u32, u32),
}

/// The scheduler's answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Status {
    /// The request is carried out.
    Done = 0,
    /// The policy does not accept it, or the task has no job.
    Refused = 1,
    /// The job was aborted. A resource that it waited for is not granted.
    Aborted = 2,
    /// The kind is unknown, or an argument is out of range.
    Invalid = 3,
}

impl Status {
    /// The status of this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Status> {
        [Status::Done, Status::Refused, Status::Aborted, Status::Invalid].into_iter().find(|s| *s as i32 == number)
    }
}

/// A copy of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its number.
    pub number: u32,
    /// `None` for a kind that this version does not know.
    pub kind: Option<Kind>,
    /// The job that the program names.
    pub at: u64,
    /// See [`Kind`].
    pub arguments: [i64; 3],
}

/// A job, as the program sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its number, from 0.
    pub number: u64,
    /// Its release, in nanoseconds on the monotonic clock (`CLOCK_MONOTONIC`).
    pub release: i64,
    /// Its absolute deadline likewise, or [`NEVER`].
    pub deadline: i64,
    /// The factor on its execution time, in millionths: the workload's `load`. `takt burn` applies it.
    pub load: u32,
}

/// The results of [`Kind::Statistics`], in their order in the page. Times are in nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// CPU time that the present job has consumed.
    pub consumed: i64,
    /// Remaining budget of the job, or [`NEVER`].
    pub budget: i64,
    /// Released jobs of the task.
    pub released: i64,
    /// Completed jobs.
    pub completed: i64,
    /// Jobs that met their deadlines.
    pub met: i64,
    /// Jobs that missed their deadlines.
    pub missed: i64,
    /// Aborted jobs.
    pub aborted: i64,
    /// The utility that the task has accrued, in millionths.
    pub utility: i64,
}

impl Statistics {
    /// As in [`Page::results`].
    #[must_use]
    pub fn to_results(self) -> [i64; 8] {
        let Statistics { consumed, budget, released, completed, met, missed, aborted, utility } = self;
        [consumed, budget, released, completed, met, missed, aborted, utility]
    }

    /// From [`Page::results`].
    #[must_use]
    pub fn from_results(results: [i64; 8]) -> Statistics {
        let [consumed, budget, released, completed, met, missed, aborted, utility] = results;
        Statistics { consumed, budget, released, completed, met, missed, aborted, utility }
    }
}

impl Page {
    /// A page of zeros. [`Page::attach`] refuses it.
    #[must_use]
    pub const fn new() -> Page {
        Page {
            magic: AtomicU32::new(0),
            version: AtomicU32::new(0),
            oldest: AtomicU32::new(0),
            abort_signal: AtomicU32::new(0),
            client: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            at: AtomicU64::new(0),
            arguments: [const { AtomicI64::new(0) }; 3],
            status: AtomicI32::new(0),
            load: AtomicU32::new(0),
            results: [const { AtomicI64::new(0) }; 8],
            job: AtomicU64::new(0),
            release: AtomicI64::new(0),
            deadline: AtomicI64::new(0),
            aborted: AtomicU64::new(0),
            thread: AtomicU32::new(0),
        }
    }
}

impl Default for Page {
    fn default() -> Page {
        Page::new()
    }
}

/// The scheduler's side.
impl Page {
    /// Prepares the page for a program that has not been started.
    pub fn reset(&self, abort_signal: u32) {
        for word in [&self.client, &self.asked, &self.answered, &self.kind] {
            word.store(0, Relaxed);
        }
        self.aborted.store(0, Relaxed);
        self.thread.store(0, Relaxed);
        self.begin(Job { number: 0, release: 0, deadline: NEVER, load: 1_000_000 });
        self.abort_signal.store(abort_signal, Relaxed);
        self.version.store(VERSION, Relaxed);
        self.oldest.store(OLDEST, Relaxed);
        self.magic.store(MAGIC, Release);
    }

    /// Whether the program has attached itself. Its bell then announces a request and is no completion signal.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.client.load(Relaxed) != 0
    }

    /// The request after the one of number `last`, if there is one.
    #[must_use]
    pub fn take(&self, last: u32) -> Option<Request> {
        let number = self.asked.load(Acquire);
        (number != last).then(|| Request {
            number,
            kind: Kind::from_number(self.kind.load(Relaxed)),
            at: self.at.load(Relaxed),
            arguments: self.arguments.each_ref().map(|argument| argument.load(Relaxed)),
        })
    }

    /// Answers the request of this number. The caller then wakes the waiter of [`Page::answered`].
    pub fn answer(&self, number: u32, status: Status) {
        self.status.store(status as i32, Relaxed);
        self.answered.store(number, Release);
    }

    /// Announces the job that the program begins. The answer follows.
    pub fn begin(&self, job: Job) {
        self.job.store(job.number, Relaxed);
        self.release.store(job.release, Relaxed);
        self.deadline.store(job.deadline, Relaxed);
        self.load.store(job.load, Relaxed);
    }

    /// Writes the figures of [`Kind::Statistics`]. The answer follows.
    pub fn tell(&self, statistics: Statistics) {
        for (field, value) in self.results.iter().zip(statistics.to_results()) {
            field.store(value, Relaxed);
        }
    }

    /// Announces the abort of the program's job.
    pub fn abort(&self, job: u64) {
        self.aborted.store(job.wrapping_add(1), Release);
    }
}

/// The program's side.
impl Page {
    /// Attaches a program that speaks this version.
    ///
    /// # Errors
    /// The oldest and the newest version of the scheduler, if [`VERSION`] is not between them; zeros if this is no page of a scheduler.
    pub fn attach(&self) -> Result<(), (u32, u32)> {
        if self.magic.load(Acquire) != MAGIC {
            return Err((0, 0));
        }
        let (oldest, newest) = (self.oldest.load(Relaxed), self.version.load(Relaxed));
        if !(oldest..=newest).contains(&VERSION) {
            return Err((oldest, newest));
        }
        self.client.store(VERSION, Release);
        Ok(())
    }

    /// Attaches the thread of this number (`gettid`) as the page's task, and speaks this version.
    ///
    /// # Errors
    /// [`ThreadError`]. A thread that attaches twice succeeds.
    pub fn attach_thread(&self, thread: u32) -> Result<(), ThreadError> {
        // The claim comes first, so that of two threads one is the task.
        match self.thread.compare_exchange(0, thread, AcqRel, Acquire) {
            Err(other) if other != thread => Err(ThreadError::Taken(other)),
            _ => self.attach().map_err(|(oldest, newest)| ThreadError::Version(oldest, newest)),
        }
    }

    /// Writes a request and returns its number. The caller then rings the bell.
    pub fn ask(&self, kind: Kind, at: u64, arguments: [i64; 3]) -> u32 {
        self.kind.store(kind as u32, Relaxed);
        self.at.store(at, Relaxed);
        for (field, value) in self.arguments.iter().zip(arguments) {
            field.store(value, Relaxed);
        }
        let number = self.asked.load(Relaxed).wrapping_add(1);
        self.asked.store(number, Release);
        number
    }

    /// The answer to the request of this number, if it is there.
    #[must_use]
    pub fn answered(&self, number: u32) -> Option<Status> {
        let there = self.answered.load(Acquire) == number;
        // A status of a later version grants nothing.
        there.then(|| Status::from_number(self.status.load(Relaxed)).unwrap_or(Status::Invalid))
    }

    /// The job that the program has begun.
    #[must_use]
    pub fn present(&self) -> Job {
        Job {
            number: self.job.load(Relaxed),
            release: self.release.load(Relaxed),
            deadline: self.deadline.load(Relaxed),
            load: self.load.load(Relaxed),
        }
    }

    /// The figures of the last answer to [`Kind::Statistics`].
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics::from_results(self.results.each_ref().map(|result| result.load(Relaxed)))
    }

    /// Whether this job was aborted while the program was at it.
    #[must_use]
    pub fn is_aborted(&self, job: u64) -> bool {
        self.aborted.load(Acquire) == job.wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn the_offsets_are_those_of_version_2() {
        let offsets = [
            offset_of!(Page, magic),
            offset_of!(Page, client),
            offset_of!(Page, answered),
            offset_of!(Page, at),
            offset_of!(Page, arguments),
            offset_of!(Page, status),
            offset_of!(Page, results),
            offset_of!(Page, job),
            offset_of!(Page, aborted),
            offset_of!(Page, thread),
        ];
        assert_eq!((VERSION, offsets), (2, [0, 16, 24, 32, 40, 64, 72, 136, 160, 168]));
    }

    #[test]
    fn a_request_is_taken_once_and_answered_by_its_number() {
        let page = Page::new();
        assert_eq!(page.attach(), Err((0, 0)));
        page.reset(10);
        assert!(!page.is_attached());
        assert_eq!(page.attach(), Ok(()));
        assert!(page.is_attached());
        assert_eq!(page.take(0), None);
        let number = page.ask(Kind::SetShare, 7, [300_000, 2, 0]);
        assert_eq!(page.answered(number), None);
        let request = page.take(0).unwrap();
        assert_eq!(request, Request { number, kind: Some(Kind::SetShare), at: 7, arguments: [300_000, 2, 0] });
        assert_eq!(page.take(request.number), None);
        page.answer(number, Status::Refused);
        assert_eq!(page.answered(number), Some(Status::Refused));
        page.kind.store(77, Relaxed);
        page.asked.store(number.wrapping_sub(5), Relaxed);
        assert_eq!(page.take(number).unwrap().kind, None);
    }

    #[test]
    fn a_scheduler_without_a_common_version_is_refused() {
        let page = Page::new();
        page.reset(0);
        page.oldest.store(VERSION + 1, Relaxed);
        page.version.store(VERSION + 2, Relaxed);
        assert_eq!(page.attach(), Err((VERSION + 1, VERSION + 2)));
        assert!(!page.is_attached());
    }

    #[test]
    fn one_thread_attaches_as_a_task() {
        let page = Page::new();
        assert_eq!(page.attach_thread(7), Err(ThreadError::Version(0, 0)));
        page.reset(0);
        assert_eq!(page.attach_thread(8), Ok(()));
        assert_eq!(page.attach_thread(8), Ok(()));
        assert_eq!(page.attach_thread(9), Err(ThreadError::Taken(8)));
        assert!(page.is_attached());
    }

    #[test]
    fn only_the_job_that_was_aborted_is() {
        let page = Page::new();
        page.reset(0);
        assert!(!page.is_aborted(0));
        page.abort(0);
        assert!(page.is_aborted(0) && !page.is_aborted(1));
    }

    #[test]
    fn numbers_are_those_of_the_protocol() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, Kind::from_number(kind as u32)), (index + 1, Some(kind)));
        }
        assert_eq!((Kind::from_number(0), Kind::from_number(12)), (None, None));
        assert_eq!((Status::from_number(2), Status::from_number(4)), (Some(Status::Aborted), None));
        let statistics = Statistics { consumed: 1, utility: 8, ..Statistics::default() };
        assert_eq!(Statistics::from_results(statistics.to_results()), statistics);
    }
}
