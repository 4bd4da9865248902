//! A task and its process, as the scheduler knows them.

use crate::actuator::Actuator;
use crate::life::{Incarnation, Program, Resume, Waits};
use crate::rings::Rings;
use crate::sleeper::Sleeper;
use crate::terms::Terms;
use rustix::process::Signal;
use takt_abi::Kind;
use takt_core::record::JobId;
use takt_core::time::{Span, Time};
use takt_linux::{Group, JobEnd, PartitionHandle};

/// A task and its process.
pub(crate) struct Slot<R> {
    pub(crate) group: Group,
    pub(crate) partition: PartitionHandle,
    /// The process that the scheduler knows, or waits for.
    pub(crate) incarnation: Incarnation,
    pub(crate) program: Program,
    pub(crate) resume: Resume<R>,
    /// The program has begun its job before the engine has dispatched it.
    pub(crate) ahead: Option<Ahead>,
    /// It waits for its next job, and what lets it continue has been given already.
    pub(crate) given: bool,
    pub(crate) asked: Asked,
    /// The signal that reports an abort to the process.
    pub(crate) abort_signal: Option<Signal>,
    /// The kernel reports the ends of its jobs.
    pub(crate) observed: Option<Observed>,
    /// Its jobs have a CPU-time budget, so its CPU time is measured.
    pub(crate) metered: bool,
    /// Its program ends its jobs by sleeps.
    pub(crate) sleeper: Option<Sleeper>,
    /// Its jobs are segments of its program.
    pub(crate) segments: Option<Terms>,
    pub(crate) rings: Rings,
    /// The changes of the source of its events, and until when that is muted.
    pub(crate) changes: Rings,
    pub(crate) muted_until: Option<Time>,
    /// Its blocks and wake-ups are observed, where the machine reports them.
    pub(crate) follows: bool,
    /// The blocks and wake-ups at this instant or later are its job's. Between a stop and the next start none is.
    pub(crate) waits_since: Span,
    /// Its job is blocked in its middle, as the engine knows.
    pub(crate) blocked: bool,
    /// It initialised beside the schedule, where its threads were not observed.
    pub(crate) began_unseen: bool,
    /// The process has a single thread, as far as is known.
    pub(crate) alone: bool,
    pub(crate) waits: Waits,
    /// A reaction follows when a job exceeds its runtime, so its CPU time is measured, too.
    pub(crate) limited: bool,
    /// The CPU time of its jobs is read at their ends ([`crate::used`]).
    pub(crate) counted: bool,
    /// For a task that the kernel schedules.
    pub(crate) kernel: Option<OfKernel>,
    /// Its number is free: a command may add a task. Until then it has the process that the supervisor has announced last.
    pub(crate) is_reserved: bool,
}

impl<R> Slot<R> {
    /// The ends, blocks and wake-ups from this instant on are those of a job that begins now. A program that sleeps without being frozen may have begun it.
    pub(crate) fn begins_since(&self, actuator: &impl Actuator) -> Span {
        self.sleeper.filter(|_| self.waits != Waits::No).map_or_else(|| actuator.now(), |sleeper| sleeper.since)
    }

    /// The process is thawed. `begins` says that it begins a job, whose blocks and wake-ups are those from now on.
    pub(crate) fn is_started(&mut self, actuator: &impl Actuator, begins: bool) {
        if begins {
            self.waits_since = self.begins_since(actuator);
        } else if self.waits_since == Span::MAX {
            self.waits_since = actuator.now();
        }
    }

    /// The program's request is answered. Blocks before that were its wait for the answer.
    pub(crate) fn is_answered(&mut self, actuator: &impl Actuator) {
        if self.follows && self.waits_since != Span::MAX {
            self.waits_since = actuator.now();
        }
    }
}

/// Ends of jobs that the kernel reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// Those at this instant or later count.
    pub(crate) since: Span,
    /// A stop of the process is reported as one, too: between a stop and the next start none counts.
    pub(crate) stops: bool,
}

impl Observed {
    pub(crate) fn new(of: JobEnd, actuator: &impl Actuator) -> Observed {
        let stops = of == JobEnd::Sleep && actuator.stops_as_sleep();
        Observed { since: if stops { Span::MAX } else { Span::ZERO }, stops }
    }
}

/// A process that the kernel schedules. It is thawed at its first dispatch, and then not frozen before its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfKernel {
    pub(crate) thawed: bool,
    /// Its class has the parameters of its jobs, which the program cannot change.
    pub(crate) fixed: bool,
}

/// A program that has begun its job before the engine has dispatched it ([`crate::dispatch`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// The state of the program before.
    pub(crate) before: Program,
    /// The CPU time that its process had used by then.
    pub(crate) used: Span,
}

/// The requests of a program through its page ([`takt_abi`]).
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Asked {
    /// The number of the last one that was taken.
    pub(crate) number: u32,
    /// The event that answers it, unless it has been answered.
    pub(crate) waits_for: Option<Awaited>,
    /// The job that was announced to the program last, which its requests name.
    pub(crate) told: JobId,
}

/// The event that answers a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// The engine's next step.
    Step(Kind),
    /// The unlock of a resource by its holder.
    Resource,
    /// The dispatch of the next job.
    Job,
}
