//! The client library of Takt for Rust: a scheduled program learns about its jobs and makes requests of its scheduler.
//!
//! ```no_run
//! use takt_client::{Aborted, Client};
//!
//! fn main() -> Result<(), takt_client::Error> {
//!     let mut client = Client::attach()?;
//!     let map = client.resource("map")?;
//!     client.ready()?;
//!     client.run(
//!         |client, job| {
//!             println!("job {} is due at {} ns", job.number, job.deadline);
//!             client.lock(map)?;
//!             // The work with the resource.
//!             client.unlock(map)?;
//!             Ok(())
//!         },
//!         |job| println!("job {} was aborted", job.number),
//!     )
//! }
//! ```
//!
//! A [`Client`] belongs to one thread, that of its task. Each request takes a round trip to the scheduler ([`takt_abi`]). Nothing here
//! prints or ends the process. Outside Takt, [`Client::attach`] gives [`Error::NotScheduled`], unless `TAKT_STANDALONE` has a period such as `20ms`: then a
//! job is released at each period, and every request is granted.

mod standalone;
mod sys;

use standalone::Standalone;
use std::os::fd::RawFd;
use sys::Mapping;
pub use takt_abi::{Job, NEVER, Statistics};
use takt_abi::{Kind, Status, ThreadError};

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No scheduler started this program.
    #[error(
        "{} is not set: this program was not started by `takt run`, and {} gives no period",
        takt_abi::VARIABLE,
        takt_abi::STANDALONE
    )]
    NotScheduled,
    /// The period of a program outside Takt is none.
    #[error("{} is no period: a number with ns, us, ms or s is expected, such as 20ms", takt_abi::STANDALONE)]
    Period,
    /// The environment variable has another form, or its descriptors are not those of a scheduler.
    #[error("{} is malformed: PAGE,BELL,INIT is expected, such as 7,6,0", takt_abi::VARIABLE)]
    Malformed,
    /// The scheduler does not serve the version of this library.
    #[error(
        "this library speaks version {} of the protocol, the scheduler versions {oldest} to {newest}",
        takt_abi::VERSION
    )]
    Version {
        /// The oldest that it serves.
        oldest: u32,
        /// The newest.
        newest: u32,
    },
    /// The policy does not accept it, or the program has no job that could ask.
    #[error("the scheduler refuses it")]
    Refused,
    /// The present job was aborted. A resource that it waited for was not granted.
    #[error("the job was aborted")]
    Aborted,
    /// An argument makes no sense: a time of zero, a share of more than a CPU.
    #[error("the request makes no sense")]
    Invalid,
    /// The workload has no resource of this name.
    #[error("the workload has no resource `{0}`")]
    NoSuchResource(String),
    /// The program has no thread of this name.
    #[error("the workload has no thread `{0}` of this program")]
    NoSuchThread(String),
    /// The thread of this number (`gettid`) is that task, or the calling thread is the first one of the program.
    #[error("thread {0} is a task already")]
    Taken(u32),
    /// The operating system's answer.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// The present job was aborted ([`Client::check`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aborted;

/// The early end of a job's body: an abort, which is no fault, or an error.
#[derive(Debug)]
pub enum Interruption {
    /// The job was aborted.
    Aborted,
    /// Something else.
    Error(Error),
}

impl From<Aborted> for Interruption {
    fn from(_: Aborted) -> Interruption {
        Interruption::Aborted
    }
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Interruption {
        match error {
            Error::Aborted => Interruption::Aborted,
            error => Interruption::Error(error),
        }
    }
}

/// The terms of a real-time segment. `None` is the term that the workload declares.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Relative deadline in nanoseconds.
    pub deadline: Option<i64>,
    /// Execution time in nanoseconds.
    pub runtime: Option<i64>,
    /// Height of the time-utility function, in millionths.
    pub utility: Option<u64>,
}

/// A resource that the scheduler knows, by its number in the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resource(u16);

/// The connection of one task to its scheduler.
#[derive(Debug)]
pub struct Client {
    page: Mapping,
    bell: RawFd,
    initialising: bool,
    /// The present job.
    job: Job,
    /// In place of a scheduler.
    standalone: Option<Standalone>,
}

impl Client {
    /// Attaches this program to its scheduler. To be called once.
    ///
    /// If aborts are reported by a signal whose action is still the default, which ends the process, that is replaced by none.
    ///
    /// # Errors
    /// [`Error::NotScheduled`], [`Error::Period`], [`Error::Malformed`], [`Error::Version`], or the operating system's answer.
    pub fn attach() -> Result<Client, Error> {
        let Ok(value) = std::env::var(takt_abi::VARIABLE) else { return Client::alone() };
        let (page, bell, initialising) = parse(&value).ok_or(Error::Malformed)?;
        let page = Mapping::new(page).map_err(|_| Error::Malformed)?;
        sys::close_on_exec(bell)?;
        page.attach().map_err(|(oldest, newest)| match newest {
            0 => Error::Malformed,
            _ => Error::Version { oldest, newest },
        })?;
        sys::tolerate(page.abort_signal.load(std::sync::atomic::Ordering::Relaxed))?;
        let job = page.present();
        Ok(Client { page, bell, initialising, job, standalone: None })
    }

    /// A program outside Takt, with the period of its environment.
    fn alone() -> Result<Client, Error> {
        let period = std::env::var(takt_abi::STANDALONE).map_err(|_| Error::NotScheduled)?;
        let period = standalone::period(&period).ok_or(Error::Period)?;
        let page = Mapping::private()?;
        let standalone = Standalone::new(period, &page);
        let job = page.present();
        Ok(Client { page, bell: -1, initialising: false, job, standalone: Some(standalone) })
    }

    /// Makes the calling thread the task of this name, which the workload declares with `thread_of`. To be called while the program initialises, once
    /// for each such thread. [`Client::ready`] then ends the thread's own initialisation. The client stays in this thread.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`], [`Error::Taken`], or those of [`Client::attach`].
    pub fn attach_thread(name: &str) -> Result<Client, Error> {
        let lines = std::env::var(takt_abi::THREADS);
        let lines = lines.or_else(|_| std::env::var(takt_abi::VARIABLE).map(|_| String::new()));
        let lines = lines.map_err(|_| Error::NotScheduled)?;
        let found = find(&lines, name).map_err(|()| Error::Malformed)?;
        let (file, bell) = found.ok_or_else(|| Error::NoSuchThread(name.to_owned()))?;
        let thread = sys::thread();
        if thread == std::process::id() {
            return Err(Error::Taken(thread));
        }
        // The page stays open, since another thread may attach at the same time.
        sys::close_on_exec(file)?;
        sys::close_on_exec(bell)?;
        let page = Mapping::open(file).map_err(|_| Error::Malformed)?;
        page.attach_thread(thread).map_err(|error| match error {
            ThreadError::Taken(other) => Error::Taken(other),
            ThreadError::Version(_, 0) => Error::Malformed,
            ThreadError::Version(oldest, newest) => Error::Version { oldest, newest },
        })?;
        sys::tolerate(page.abort_signal.load(std::sync::atomic::Ordering::Relaxed))?;
        let job = page.present();
        Ok(Client { page, bell, initialising: true, job, standalone: None })
    }

    /// Whether [`Client::ready`] is still expected (`init: yes`).
    #[must_use]
    pub fn is_initialising(&self) -> bool {
        self.initialising
    }

    /// Reports that the program is initialised, and waits for its first job. Without `init: yes` it returns at once, since that job has begun.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn ready(&mut self) -> Result<Job, Error> {
        if self.initialising {
            self.request(Kind::Next, [0; 3])?;
            self.initialising = false;
            self.job = self.page.present();
        }
        Ok(self.job)
    }

    /// Completes the present job and waits for the next one. During the initialisation it is [`Client::ready`].
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn next_job(&mut self) -> Result<Job, Error> {
        if self.initialising {
            return self.ready();
        }
        self.request(Kind::Next, [0; 3])?;
        self.job = self.page.present();
        Ok(self.job)
    }

    /// The present job.
    #[must_use]
    pub fn job(&self) -> Job {
        self.job
    }

    /// Whether the present job was aborted. It reads memory, and takes no system call.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.page.is_aborted(self.job.number)
    }

    /// As [`Client::is_aborted`], for the operator `?`.
    ///
    /// # Errors
    /// [`Aborted`].
    pub fn check(&self) -> Result<(), Aborted> {
        if self.is_aborted() { Err(Aborted) } else { Ok(()) }
    }

    /// Executes job after job. `body` is one job. It calls [`Client::check`] from time to time and returns early after an abort. `handler` is the
    /// abort handler. The next job follows.
    ///
    /// # Errors
    /// The first error of `body`, or the operating system's answer.
    pub fn run(
        &mut self,
        mut body: impl FnMut(&mut Client, Job) -> Result<(), Interruption>,
        mut handler: impl FnMut(Job),
    ) -> Result<(), Error> {
        self.ready()?;
        loop {
            let job = self.job;
            match body(self, job) {
                Ok(()) => {}
                Err(Interruption::Aborted) => handler(job),
                Err(Interruption::Error(error)) => return Err(error),
            }
            self.next_job()?;
        }
    }

    /// Begins a real-time segment and waits until it is dispatched. Outside of segments the program is an ordinary process.
    ///
    /// # Errors
    /// [`Error::Aborted`] if it is aborted before it is dispatched, [`Error::Invalid`] for terms out of range or a task without segments, or the
    /// operating system's answer.
    pub fn begin(&mut self, terms: Segment) -> Result<Job, Error> {
        if self.initialising {
            self.ready()?;
        }
        let Segment { deadline, runtime, utility } = terms;
        let span = |span: Option<i64>| span.unwrap_or(0);
        let utility = utility.map_or(Ok(-1), |utility| i64::try_from(utility).map_err(|_| Error::Invalid))?;
        self.request(Kind::Begin, [span(deadline), span(runtime), utility])?;
        self.job = self.page.present();
        Ok(self.job)
    }

    /// Ends the segment.
    ///
    /// # Errors
    /// [`Error::Aborted`] if it was aborted, [`Error::Refused`] without a segment, or the operating system's answer.
    pub fn end(&mut self) -> Result<(), Error> {
        self.ask(Kind::End, [0; 3])
    }

    /// Yields the CPU to jobs of equal urgency, where the policy has such an order. The rest of a window is given up by
    /// [`Client::next_job`].
    ///
    /// # Errors
    /// [`Error::Refused`] before the first job; the operating system's answer.
    pub fn yield_now(&mut self) -> Result<(), Error> {
        self.ask(Kind::Yield, [0; 3])
    }

    /// The resource of this name. Outside Takt any name is one.
    ///
    /// # Errors
    /// [`Error::NoSuchResource`].
    pub fn resource(&self, name: &str) -> Result<Resource, Error> {
        if self.standalone.is_some() {
            return Ok(Resource(0));
        }
        let names = std::env::var(takt_abi::RESOURCES).unwrap_or_default();
        let number = names.split(',').position(|other| other == name);
        let number = number.and_then(|number| u16::try_from(number).ok());
        number.map(Resource).ok_or_else(|| Error::NoSuchResource(name.to_owned()))
    }

    /// Locks the resource, and waits while another job holds it. The workload's `locking` and the policy choose the next holder. The end of
    /// the job unlocks it.
    ///
    /// # Errors
    /// [`Error::Aborted`] when the job is aborted meanwhile, [`Error::Refused`] without a job, or the operating system's answer.
    pub fn lock(&mut self, resource: Resource) -> Result<(), Error> {
        self.ask(Kind::Lock, [i64::from(resource.0), 0, 0])
    }

    /// Unlocks the resource.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn unlock(&mut self, resource: Resource) -> Result<(), Error> {
        self.ask(Kind::Unlock, [i64::from(resource.0), 0, 0])
    }

    /// Asks for another period, in nanoseconds, from the next release on.
    ///
    /// # Errors
    /// [`Error::Refused`] if the policy does not accept it, [`Error::Invalid`] for no time, or the operating system's answer.
    pub fn set_period(&mut self, ns: i64) -> Result<(), Error> {
        self.ask(Kind::SetPeriod, [ns, 0, 0])
    }

    /// Asks for another relative deadline, in nanoseconds, from the next release on.
    ///
    /// # Errors
    /// As for [`Client::set_period`].
    pub fn set_deadline(&mut self, ns: i64) -> Result<(), Error> {
        self.ask(Kind::SetDeadline, [ns, 0, 0])
    }

    /// Asks for another execution time, in nanoseconds, from the next job on.
    ///
    /// # Errors
    /// As for [`Client::set_period`].
    pub fn set_runtime(&mut self, ns: i64) -> Result<(), Error> {
        self.ask(Kind::SetRuntime, [ns, 0, 0])
    }

    /// Sets the task's share of a CPU, in millionths, and the importance of that share under overload.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a share of nothing or of more than a CPU, or an importance of 0; the operating system's answer.
    pub fn set_share(&mut self, millionths: Option<u32>, importance: u32) -> Result<(), Error> {
        self.ask(Kind::SetShare, [millionths.map_or(-1, i64::from), i64::from(importance), 0])
    }

    /// Consumption and remaining budget of the present job, and the counts of the task.
    ///
    /// # Errors
    /// [`Error::Refused`] before the first job; the operating system's answer.
    pub fn statistics(&mut self) -> Result<Statistics, Error> {
        self.ask(Kind::Statistics, [0; 3])?;
        Ok(self.page.statistics())
    }

    /// A request that needs a job.
    fn ask(&mut self, kind: Kind, arguments: [i64; 3]) -> Result<(), Error> {
        // The bell would end the initialisation.
        if self.initialising { Err(Error::Refused) } else { self.request(kind, arguments) }
    }

    fn request(&mut self, kind: Kind, arguments: [i64; 3]) -> Result<(), Error> {
        let number = self.page.ask(kind, self.job.number, arguments);
        match &mut self.standalone {
            Some(standalone) => {
                let status = standalone.answer(&self.page, kind, arguments[0])?;
                self.page.answer(number, status);
            }
            None => sys::ring(self.bell)?,
        }
        let status = loop {
            let seen = self.page.answered.load(std::sync::atomic::Ordering::Acquire);
            match self.page.answered(number) {
                Some(status) => break status,
                None => sys::wait(&self.page.answered, seen)?,
            }
        };
        match status {
            Status::Done => Ok(()),
            Status::Refused => Err(Error::Refused),
            Status::Aborted => Err(Error::Aborted),
            Status::Invalid => Err(Error::Invalid),
        }
    }
}

/// The descriptors of a thread, from lines of `PAGE,BELL,NAME`.
fn find(lines: &str, name: &str) -> Result<Option<(RawFd, RawFd)>, ()> {
    for line in lines.lines() {
        let mut fields = line.splitn(3, ',');
        let mut number = || fields.next()?.parse::<RawFd>().ok().filter(|number| *number >= 0);
        let (Some(page), Some(bell), Some(of)) = (number(), number(), fields.next()) else { return Err(()) };
        if of == name {
            return Ok(Some((page, bell)));
        }
    }
    Ok(None)
}

/// Reads `PAGE,BELL,INIT`.
fn parse(value: &str) -> Option<(RawFd, RawFd, bool)> {
    let mut fields = value.split(',');
    let mut number = || fields.next()?.parse::<RawFd>().ok().filter(|number| *number >= 0);
    let (page, bell, init) = (number()?, number()?, number()?);
    ((0..=1).contains(&init) && fields.next().is_none()).then_some((page, bell, init == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_strictly() {
        assert_eq!(parse("7,6,1"), Some((7, 6, true)));
        for bad in ["", "7,6", "7,6,2", "7,6,0,", "-1,6,0", "a,6,0", "7, 6,0"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn threads_are_found_by_their_names() {
        let lines = "7,8,a\n9,10,b, c";
        assert_eq!(find(lines, "a"), Ok(Some((7, 8))));
        assert_eq!(find(lines, "b, c"), Ok(Some((9, 10))));
        assert_eq!((find(lines, "c"), find("", "a")), (Ok(None), Ok(None)));
        assert_eq!(find("7,8\n9,10,a", "a"), Err(()));
    }

    #[test]
    fn outside_takt_there_is_nothing_to_attach_to() {
        assert!(std::env::var(takt_abi::VARIABLE).is_err(), "the tests are not scheduled by Takt");
        assert!(matches!(Client::attach(), Err(Error::NotScheduled)));
    }
}
