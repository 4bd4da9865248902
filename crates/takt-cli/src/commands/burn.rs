//! `takt burn`: a load whose CPU time is exact.

use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, read, write};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use takt_client::{Client, Error};
use takt_core::model::{Call, Load, scaled};
use takt_core::time::Span;
use takt_linux::protocol::{self, ClientError};
use takt_linux::timer;
use takt_workload::Code;

/// Use CPU time: without end, or a given amount per job
///
/// The amount is CPU time of this process, so time in which it is stopped does not count. If a scheduler started it, it signals
/// completion after each job and waits for the next one. Otherwise the next job follows at once. At the signal USR1 its job is
/// aborted (`on_abort: signal`), and it skips the rest of the job. With `--steps` its jobs also
/// sleep and read; and they lock resources and change terms, for which it needs a scheduler. With `--yield` or `--sleep` it knows of no scheduler, as a program
/// for `completion: yield` or `completion: sleep`.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("work").args(["runtime", "steps"])))]
pub(crate) struct Args {
    /// CPU time of one job, such as 5ms; without it there is one job without end
    #[arg(long, value_parser = duration)]
    runtime: Option<Span>,
    /// End after so many jobs
    #[arg(long, requires = "work")]
    jobs: Option<u64>,
    /// CPU time of the initialisation, which is signalled too (for `init: yes`)
    #[arg(long, value_parser = duration)]
    init: Option<Span>,
    /// CPU time of the handler that follows when a job was aborted
    #[arg(long, value_parser = duration, requires = "work")]
    handler: Option<Span>,
    /// Steps of a job, as in a workload file: `run 1ms, sleep 5ms, lock r, run 2ms, unlock r`. Or `read 3, run 1ms, write 4`: `read FD` waits for
    /// input and takes it all, and `write FD` writes a byte. The end of the input, or of the reader, ends the program
    #[arg(long, value_parser = Steps::parse)]
    steps: Option<Steps>,
    /// End each job by a call of sched_yield instead of a signal
    #[arg(long = "yield", conflicts_with = "sleep")]
    yields: bool,
    /// End each job by a sleep of this length instead of a signal
    #[arg(long, value_name = "TIME", value_parser = duration)]
    sleep: Option<Span>,
}

/// The steps of successive jobs.
#[derive(Clone, Debug)]
struct Steps(Vec<Vec<Step>>);

#[derive(Clone, PartialEq, Debug)]
enum Step {
    Execute(Span),
    Sleep(Span),
    /// Takes what a descriptor has, and waits until it has something.
    Read(i32),
    /// Writes one byte, and waits until there is room for it.
    Write(i32),
    Lock(String),
    Unlock(String),
    Yield,
    Call(Call),
}

impl Steps {
    fn parse(text: &str) -> Result<Steps, String> {
        let mut turns = vec![Vec::new()];
        for step in text.split(',').map(str::trim) {
            let (word, rest) = step.split_once(char::is_whitespace).unwrap_or((step, ""));
            let rest = rest.trim();
            let span = || duration(rest).map_err(|why| format!("`{step}`: {why}"));
            let name =
                || Some(rest.to_owned()).filter(|name| !name.is_empty()).ok_or(format!("`{step}` names no resource"));
            let step = match word {
                "run" => Step::Execute(span()?),
                "sleep" => Step::Sleep(span()?),
                "read" => Step::Read(descriptor(step, rest)?),
                "write" => Step::Write(descriptor(step, rest)?),
                "lock" => Step::Lock(name()?),
                "unlock" => Step::Unlock(name()?),
                "yield" if rest.is_empty() => Step::Yield,
                "wait-period" if rest.is_empty() => {
                    turns.push(Vec::new());
                    continue;
                }
                "set-period" | "set-deadline" | "set-runtime" => {
                    Step::Call(Call::from_parts(word, span()?).expect("it is one of the three"))
                }
                _ => {
                    return Err(format!(
                        "`{step}` is no step; a step is `run 1ms`, `sleep 1ms`, `read 3`, `write 4`, `lock r`, `unlock r`, `yield`, `set-period 10ms`, \
                         `set-deadline 10ms`, `set-runtime 1ms` or `wait-period`"
                    ));
                }
            };
            turns.last_mut().expect("a turn").push(step);
        }
        // The end of a program ends a job anyway.
        if turns.len() > 1 && turns.last().is_some_and(Vec::is_empty) {
            turns.pop();
        }
        Ok(Steps(turns))
    }
}

/// The number of the descriptor of a step `read` or `write`.
fn descriptor(step: &str, rest: &str) -> Result<i32, String> {
    let number = rest.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| format!("`{step}` names no descriptor; write its number, as in `read 3` or `write 4`"))
}

/// The descriptors that steps read and write, by their numbers.
struct Descriptors(Vec<(i32, OwnedFd)>);

impl Descriptors {
    /// Takes the descriptors of all steps before the first job.
    fn open(Steps(turns): &Steps) -> Result<Descriptors, Failure> {
        let mut descriptors = Descriptors(Vec::new());
        for step in turns.iter().flatten() {
            let (word, number, unfit, sign) = match *step {
                Step::Read(number) => ("read", number, (OFlags::WRONLY, "writing"), '<'),
                Step::Write(number) => ("write", number, (OFlags::RDONLY, "reading"), '>'),
                _ => continue,
            };
            let fault = |why: String| {
                let message = format!("`{word} {number}`: the descriptor {number} {why}");
                let hint = format!("open it in the command, as in `{number}{sign} FILE`");
                Failure::input(Code::UnreadableFile, message, &hint)
            };
            let fd = protocol::inherited(number).map_err(|_| fault("is not open".to_owned()))?;
            if fcntl_getfl(&fd).map_err(io::Error::from)? & OFlags::RWMODE == unfit.0 {
                return Err(fault(format!("is open for {} only", unfit.1)));
            }
            descriptors.0.push((number, fd));
        }
        Ok(descriptors)
    }

    /// Waits until the descriptor is ready, and does `act`, which reports how many bytes it has moved. No byte, or no reader, is the end.
    fn wait(
        &self,
        number: i32,
        events: PollFlags,
        aborted: impl Fn() -> bool,
        mut act: impl FnMut(&OwnedFd) -> Result<usize, Errno>,
    ) -> io::Result<Waited> {
        let (_, fd) = self.0.iter().find(|(known, _)| *known == number).expect("all descriptors of the steps");
        loop {
            // A signal ends this wait, and not that of a `read`, which the kernel restarts.
            match poll(&mut [PollFd::new(fd, events)], None).and_then(|_| act(fd)) {
                Ok(0) | Err(Errno::PIPE) => return Ok(Waited::Ended),
                Ok(_) => return Ok(Waited::Done),
                Err(Errno::INTR | Errno::AGAIN) if aborted() => return Ok(Waited::Aborted),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Sleeps for this long, or until the job is aborted by a signal.
fn sleep(time: Span, aborted: impl Fn() -> bool) -> Waited {
    let end = after(timer::now(), time).ns();
    let end = Timespec { tv_sec: end / 1_000_000_000, tv_nsec: end % 1_000_000_000 };
    while clock_nanosleep_absolute(ClockId::Monotonic, &end) == Err(Errno::INTR) {
        if aborted() {
            return Waited::Aborted;
        }
    }
    Waited::Done
}

/// How a wait within a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waited {
    Done,
    Aborted,
    /// There is no more input, or no reader.
    Ended,
}

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Done {
    Completed,
    Aborted,
    /// The program ends in it.
    Ended,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let steps = match (&args.steps, args.runtime) {
        (Some(steps), _) => steps.clone(),
        (None, Some(runtime)) => Steps(vec![vec![Step::Execute(runtime)]]),
        (None, None) => Steps(vec![vec![Step::Execute(Span::from_ns(i64::MAX))]]),
    };
    let descriptors = Descriptors::open(&steps)?;
    let mut link = match args.sleep {
        Some(time) => Link::Sleeps(std::time::Duration::from_nanos(time.ns().unsigned_abs())),
        None if args.yields => Link::Yields,
        None => Link::open()?,
    };
    if let Some(init) = args.init {
        burn(init);
    }
    match link {
        Link::Yields | Link::Sleeps(_) if args.init.is_none() => {}
        _ => link.ready()?,
    }
    let jobs = args.jobs.map_or(usize::MAX, |jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
    for steps in steps.0.iter().cycle().take(jobs) {
        match link.job(steps, &descriptors)? {
            Done::Completed => {}
            Done::Aborted => burn(args.handler.unwrap_or(Span::ZERO)),
            Done::Ended => break,
        }
        link.next_job()?;
    }
    Ok(Verdict::Done)
}

/// The connection to a scheduler.
enum Link {
    /// Through a page, as a client of the job protocol.
    Page(Client),
    /// By completion signals only, as DEmOS's programs do. The flag says that the present job was aborted.
    Signals(protocol::Client, Arc<AtomicBool>),
    /// None: the scheduler observes the process.
    Yields,
    Sleeps(std::time::Duration),
    /// There is no scheduler.
    None,
}

impl Link {
    fn open() -> Result<Link, Failure> {
        match Client::attach() {
            Ok(client) => return Ok(Link::Page(client)),
            Err(Error::NotScheduled) => {}
            Err(Error::System(e)) => return Err(e.into()),
            Err(e) => return Err(Failure::status(101, Code::ClientProtocol, e)),
        }
        match protocol::Client::from_env() {
            Ok(client) => {
                let aborted = Arc::new(AtomicBool::new(false));
                signal_hook::flag::register(signal_hook::consts::SIGUSR1, aborted.clone())?;
                Ok(Link::Signals(client, aborted))
            }
            Err(ClientError::NoVariable) => Ok(Link::None),
            Err(e) => Err(Failure::status(e.exit_code(), Code::ClientProtocol, e)),
        }
    }

    fn ready(&mut self) -> Result<(), Failure> {
        match self {
            Link::Page(client) => client.ready().map(drop).map_err(failed),
            Link::Signals(client, _) if client.initializing() => client.initialization_completed().map_err(lost),
            Link::Yields | Link::Sleeps(_) => self.next_job(),
            Link::Signals(..) | Link::None => Ok(()),
        }
    }

    fn next_job(&mut self) -> Result<(), Failure> {
        match self {
            Link::Page(client) => client.next_job().map(drop).map_err(failed),
            Link::Signals(client, aborted) => {
                client.completed().map_err(lost)?;
                // A signal about a job that was done by then is not about the next one.
                aborted.store(false, Ordering::Relaxed);
                Ok(())
            }
            Link::Yields => {
                std::thread::yield_now();
                Ok(())
            }
            Link::Sleeps(time) => {
                std::thread::sleep(*time);
                Ok(())
            }
            Link::None => Ok(()),
        }
    }

    fn is_aborted(&self) -> bool {
        match self {
            Link::Page(client) => client.is_aborted(),
            Link::Signals(_, aborted) => aborted.load(Ordering::Relaxed),
            Link::Yields | Link::Sleeps(_) | Link::None => false,
        }
    }

    /// The factor on its execution times, in millionths.
    fn load(&self) -> u32 {
        if let Link::Page(client) = self { client.job().load } else { Load::ONE }
    }

    /// Does the steps of one job.
    fn job(&mut self, steps: &[Step], descriptors: &Descriptors) -> Result<Done, Failure> {
        // The end of the job unlocks its resources. An unlock just before it would let a waiter preempt the job.
        let last = steps.iter().rposition(|step| !matches!(step, Step::Unlock(_) | Step::Yield));
        // Until this CPU time of the process the steps have run.
        let mut end = timer::cpu_now();
        for step in &steps[..last.map_or(0, |last| last + 1)] {
            let waited = match *step {
                Step::Execute(span) => {
                    // The CPU time of a sleep or a read is a part of the run after it.
                    end = after(end, scaled(span, self.load()));
                    if burn_until(end, || self.is_aborted()) { Waited::Done } else { Waited::Aborted }
                }
                Step::Sleep(span) => sleep(span, || self.is_aborted()),
                Step::Read(number) => {
                    let mut taken = [0; 4096];
                    descriptors.wait(number, PollFlags::IN, || self.is_aborted(), |fd| read(fd, &mut taken))?
                }
                Step::Write(number) => {
                    descriptors.wait(number, PollFlags::OUT, || self.is_aborted(), |fd| write(fd, b"\n"))?
                }
                Step::Lock(_) | Step::Unlock(_) | Step::Yield | Step::Call(_) => {
                    let done = self.ask(step)?;
                    end = timer::cpu_now();
                    done
                }
            };
            match waited {
                Waited::Done => {}
                Waited::Aborted => return Ok(Done::Aborted),
                Waited::Ended => return Ok(Done::Ended),
            }
        }
        Ok(if self.is_aborted() { Done::Aborted } else { Done::Completed })
    }

    /// Makes the request of a step.
    fn ask(&mut self, step: &Step) -> Result<Waited, Failure> {
        let Link::Page(client) = self else {
            let message = "steps other than `run`, `sleep`, `read`, `write` and `wait-period` need `takt run`";
            return Err(Failure::status(100, Code::ClientProtocol, message));
        };
        let answer = match step {
            Step::Lock(name) => client.resource(name).and_then(|r| client.lock(r)),
            Step::Unlock(name) => client.resource(name).and_then(|r| client.unlock(r)),
            Step::Yield => client.yield_now(),
            Step::Call(Call::Period(span)) => client.set_period(span.ns()),
            Step::Call(Call::Deadline(span)) => client.set_deadline(span.ns()),
            Step::Call(Call::Runtime(span)) => client.set_runtime(span.ns()),
            Step::Execute(_) | Step::Sleep(_) | Step::Read(_) | Step::Write(_) => Ok(()),
        };
        match answer {
            // The present terms continue to hold.
            Ok(()) | Err(Error::Refused) => Ok(Waited::Done),
            Err(Error::Aborted) => Ok(Waited::Aborted),
            Err(error) => Err(failed(error)),
        }
    }
}

fn failed(error: Error) -> Failure {
    Failure::status(1, Code::ClientProtocol, error)
}

fn lost(error: ClientError) -> Failure {
    Failure::status(error.exit_code(), Code::ClientProtocol, error)
}

/// The end of a time. Some have none.
fn after(now: Span, time: Span) -> Span {
    Span::from_ns(now.ns().saturating_add(time.ns()))
}

/// Uses `amount` of this process's CPU time.
pub(crate) fn burn(amount: Span) {
    burn_until(after(timer::cpu_now(), amount), || false);
}

/// Runs until this process has used so much CPU time in all, or its job is aborted. Returns whether all of it was used.
fn burn_until(end: Span, aborted: impl Fn() -> bool) -> bool {
    while timer::cpu_now() < end {
        if aborted() {
            return false;
        }
        for _ in 0..64 {
            std::hint::spin_loop();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SeekFrom, memfd_create};
    use rustix::pipe::PipeFlags;
    use std::os::fd::AsRawFd;

    fn steps(text: &str) -> Steps {
        Steps::parse(text).expect("steps")
    }

    #[test]
    fn steps_are_those_of_a_workload_file() {
        let Steps(turns) =
            steps("run 1ms, lock r,run 2ms , unlock r, wait-period, set-period 5ms, yield, sleep 2ms, read 3");
        let ms = Span::from_ms;
        let lock = |name: &str| Step::Lock(name.to_owned());
        assert_eq!(turns[0], [Step::Execute(ms(1)), lock("r"), Step::Execute(ms(2)), Step::Unlock("r".to_owned())]);
        assert_eq!(turns[1], [Step::Call(Call::Period(ms(5))), Step::Yield, Step::Sleep(ms(2)), Step::Read(3)]);
        assert_eq!(steps("run 1ms, wait-period").0.len(), 1);
        for bad in
            ["", "run", "run 1", "lock", "sleep", "sleep 1", "read", "read x", "read -1", "yield 1ms", "run 1ms,"]
        {
            assert!(Steps::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_job_takes_what_is_there_and_ends_with_its_input() {
        let file = memfd_create("input", MemfdFlags::empty()).expect("a file");
        rustix::io::write(&file, &[0; 5000]).expect("a write");
        rustix::fs::seek(&file, SeekFrom::Start(0)).expect("a file has places");
        let text = steps(&format!("read {}, run 1us", file.as_raw_fd()));
        let descriptors = Descriptors::open(&text).expect("an open descriptor");
        for done in [Done::Completed, Done::Completed, Done::Ended] {
            assert_eq!(Link::None.job(&text.0[0], &descriptors).expect("a job"), done);
        }
    }

    #[test]
    fn a_job_writes_a_byte_and_ends_without_a_reader() {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        // A copy that is passed on to programs, as a descriptor of a command is.
        let writer = rustix::io::dup(&writer).expect("a copy");
        let text = steps(&format!("run 1us, write {}", writer.as_raw_fd()));
        let descriptors = Descriptors::open(&text).expect("an open descriptor");
        assert_eq!(Link::None.job(&text.0[0], &descriptors).expect("a job"), Done::Completed);
        assert_eq!(rustix::io::read(&reader, &mut [0; 8]), Ok(1));
        drop(reader);
        assert_eq!(Link::None.job(&text.0[0], &descriptors).expect("a job"), Done::Ended);
    }

    #[test]
    fn descriptors_are_checked_before_the_first_job() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let (reader, writer) = (reader.as_raw_fd(), writer.as_raw_fd());
        for (word, number, why) in
            [("read", writer, "writing only"), ("write", reader, "reading only"), ("read", i32::MAX, "is not open")]
        {
            let fault = Descriptors::open(&steps(&format!("run 1ms, {word} {number}"))).err().expect("a fault");
            assert!(fault.text().contains(why), "{}", fault.text());
        }
    }

    #[test]
    fn a_sleep_takes_its_time_and_no_cpu_time_of_the_job() {
        let text = steps("run 2ms, sleep 30ms, run 1ms, sleep 1ms, run 1ms");
        let descriptors = Descriptors::open(&text).expect("no descriptors");
        let (began, used) = (timer::now(), timer::cpu_now());
        assert_eq!(Link::None.job(&text.0[0], &descriptors).expect("a job"), Done::Completed);
        // Other threads of the tests may use CPU time meanwhile, which ends the runs earlier. The sleeps take their 31 ms all the same.
        assert!(timer::now() - began >= Span::from_ms(31));
        assert!(timer::cpu_now() - used >= Span::from_ms(4));
    }

    #[test]
    fn a_job_that_needs_a_scheduler_fails_without_one() {
        let text = steps("sleep 1ms, lock r, run 1ms");
        let descriptors = Descriptors::open(&text).expect("no descriptors");
        let fault = Link::None.job(&text.0[0], &descriptors).expect_err("no scheduler");
        assert!(fault.text().contains("need `takt run`"));
    }
}
