//! `takt burn`: a load whose CPU time is exact.

use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
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
/// lock resources and change terms, for which it needs a scheduler. With `--yield` or `--sleep` it knows of no scheduler, as a program
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
    /// Steps of a job, such as `run 1ms, lock r, run 2ms, unlock r` (as in a workload file, without `sleep`)
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
                        "`{step}` is no step; a step is `run 1ms`, `lock r`, `unlock r`, `yield`, `set-period 10ms`, \
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

pub(crate) fn run(args: &Args) -> Outcome {
    let mut link = match args.sleep {
        Some(time) => Link::Sleeps(std::time::Duration::from_nanos(time.ns().unsigned_abs())),
        None if args.yields => Link::Yields,
        None => Link::open()?,
    };
    let Steps(turns) = match (&args.steps, args.runtime) {
        (Some(steps), _) => steps.clone(),
        (None, Some(runtime)) => Steps(vec![vec![Step::Execute(runtime)]]),
        (None, None) => Steps(vec![vec![Step::Execute(Span::from_ns(i64::MAX))]]),
    };
    if let Some(init) = args.init {
        burn(init);
    }
    match link {
        Link::Yields | Link::Sleeps(_) if args.init.is_none() => {}
        _ => link.ready()?,
    }
    let jobs = args.jobs.map_or(usize::MAX, |jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
    for steps in turns.iter().cycle().take(jobs) {
        if !link.job(steps)? {
            burn(args.handler.unwrap_or(Span::ZERO));
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

    /// Does the steps of one job. `false` says that it was aborted.
    fn job(&mut self, steps: &[Step]) -> Result<bool, Failure> {
        // The end of the job unlocks its resources. An unlock just before it would let a waiter preempt the job.
        let last = steps.iter().rposition(|step| !matches!(step, Step::Unlock(_) | Step::Yield));
        for step in &steps[..last.map_or(0, |last| last + 1)] {
            let answer = match (step, &mut *self) {
                (Step::Execute(span), link) => {
                    if !burn_unless(scaled(*span, link.load()), || link.is_aborted()) {
                        return Ok(false);
                    }
                    continue;
                }
                (Step::Lock(name), Link::Page(client)) => client.resource(name).and_then(|r| client.lock(r)),
                (Step::Unlock(name), Link::Page(client)) => client.resource(name).and_then(|r| client.unlock(r)),
                (Step::Yield, Link::Page(client)) => client.yield_now(),
                (Step::Call(Call::Period(span)), Link::Page(client)) => client.set_period(span.ns()),
                (Step::Call(Call::Deadline(span)), Link::Page(client)) => client.set_deadline(span.ns()),
                (Step::Call(Call::Runtime(span)), Link::Page(client)) => client.set_runtime(span.ns()),
                (_, Link::Signals(..) | Link::Yields | Link::Sleeps(_) | Link::None) => {
                    let message = "steps other than `run` and `wait-period` need `takt run`";
                    return Err(Failure::status(100, Code::ClientProtocol, message));
                }
            };
            match answer {
                // The present terms continue to hold.
                Ok(()) | Err(Error::Refused) => {}
                Err(Error::Aborted) => return Ok(false),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(!self.is_aborted())
    }
}

fn failed(error: Error) -> Failure {
    Failure::status(1, Code::ClientProtocol, error)
}

fn lost(error: ClientError) -> Failure {
    Failure::status(error.exit_code(), Code::ClientProtocol, error)
}

/// Uses `amount` of this process's CPU time.
pub(crate) fn burn(amount: Span) {
    burn_unless(amount, || false);
}

/// Uses `amount` of this process's CPU time, or less if its job is aborted meanwhile. Returns whether all of it was used.
fn burn_unless(amount: Span, aborted: impl Fn() -> bool) -> bool {
    let end = Span::from_ns(timer::cpu_now().ns().saturating_add(amount.ns()));
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

    #[test]
    fn steps_are_those_of_a_workload_file() {
        let Steps(turns) =
            Steps::parse("run 1ms, lock r,run 2ms , unlock r, wait-period, set-period 5ms, yield").unwrap();
        let ms = Span::from_ms;
        let lock = |name: &str| Step::Lock(name.to_owned());
        assert_eq!(turns[0], [Step::Execute(ms(1)), lock("r"), Step::Execute(ms(2)), Step::Unlock("r".to_owned())]);
        assert_eq!(turns[1], [Step::Call(Call::Period(ms(5))), Step::Yield]);
        assert_eq!(Steps::parse("run 1ms, wait-period").unwrap().0.len(), 1);
        for bad in ["", "run", "run 1", "lock", "sleep 1ms", "yield 1ms", "run 1ms,"] {
            assert!(Steps::parse(bad).is_err(), "{bad:?}");
        }
    }
}
