//! Tasks: what is scheduled, and what their programs do.

use super::arrival::Arrival;
use super::calls::Terms;
use super::ids::{ServerId, TaskId};
use super::load::scaled;
use super::program::Program;
use super::reservation::Reservation;
use crate::cpus::CpuSet;
use crate::time::Span;
use crate::utility::{UNIT, Utility};

/// The exception handler, which runs when a job is aborted: work like any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handler {
    /// CPU time that it needs.
    pub runtime: Span,
    /// Its deadline after the abort; without one it has none.
    pub deadline: Option<Span>,
    /// Its utility for policies of utility accrual, in millionths. It is never accrued.
    pub utility: u64,
}

/// The rule for the work of an aborted job: the engine ends the job, but its program is in the middle of it.
///
/// A task whose program is still at the work of an earlier job is *behind*. That work then runs with the deadline, the budget and
/// the server of the task's current job, whose own work begins only after it. A job that ends before its own work began leaves
/// none behind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OnAbort {
    /// The program completes the abandoned work when the task is next scheduled: what a process does that knows nothing of aborts.
    Finish,
    /// The work is dropped: the program is replaced by a new instance. A simulated program takes no time for that.
    #[default]
    Restart,
    /// The program is sent a signal at the next dispatch and returns to its job loop by itself. A simulated program drops the work
    /// and runs its [`Handler`], if it has one.
    Signal,
}

/// The reaction when the process of a task ends by itself. Drivers of real processes go by it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OnExit {
    /// The task ends: regularly after status 0. After another end it misses its further jobs.
    #[default]
    End,
    /// Another process takes its place. The task's jobs are blocked until that is initialised.
    Restart,
    /// The run ends.
    Stop,
}

/// How the end of a task's jobs is known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Completion {
    /// Nothing is declared. A process of a window table has jobs from its first completion signal on; the activations before that
    /// belong to its first job. Without any signal it has no jobs.
    #[default]
    Undeclared,
    /// The program signals the end of each job.
    Signal,
    /// Each job is a process, and ends with it.
    Exit,
    /// The program never signals. In a window table it has no jobs; under an online policy its jobs end only by abort.
    None,
}

/// One task: a stream of jobs. On Linux it is one process (and its children).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Where its jobs come from.
    pub arrival: Arrival,
    /// Relative deadline. `None`: none is ever missed.
    pub deadline: Option<Span>,
    /// CPU time one job needs, as declared. The simulator lets a job complete after it (but see `program`);
    /// without it an activation uses its whole budget, and a job never completes.
    pub runtime: Option<Span>,
    /// Its simulated program. On Linux a job does what its program does.
    pub program: Program,
    /// The work that an aborted job still has to do.
    pub handler: Option<Handler>,
    /// The rule for the work of an aborted job.
    pub on_abort: OnAbort,
    /// How the end of its jobs is known.
    pub completion: Completion,
    /// The utility of a completed job by its time; without one it is [`Utility::DEFAULT`].
    pub utility: Option<Utility>,
    /// Budget of one job. In a window it is elapsed time; under an online policy it is CPU time.
    pub budget: Option<Span>,
    /// The budget of each job is drawn uniformly from `budget ± jitter / 2`; at most `2 * budget`. In a window an activation
    /// whose budget is zero is passed over; under an online policy a budget is a nanosecond at least.
    pub jitter: Span,
    /// Its reservation; without one, policies with reservations take its runtime in each period.
    pub reservation: Option<Reservation>,
    /// The server for aperiodic work that it shares with other tasks; who does has no reservation of its own.
    pub server: Option<ServerId>,
    /// Fixed priority; a higher number is more important. Used by the `fp` policy.
    pub priority: u32,
    /// The part of a CPU that it should get, in millionths; used by policies that hand out shares.
    pub share: Option<u32>,
    /// How much its share counts when there is not enough for all; used by policies that hand out shares.
    pub importance: u32,
    /// CPUs that it may run on.
    pub affinity: CpuSet,
}

/// A task that has only its policy to release it, may run everywhere, and needs nothing: the base for struct updates.
impl Default for Task {
    fn default() -> Task {
        Task {
            arrival: Arrival::Activated,
            deadline: None,
            runtime: None,
            program: Program::AS_DECLARED,
            handler: None,
            on_abort: OnAbort::default(),
            completion: Completion::default(),
            utility: None,
            budget: None,
            jitter: Span::ZERO,
            reservation: None,
            server: None,
            priority: 0,
            share: None,
            importance: 1,
            affinity: CpuSet::first(crate::cpus::MAX_CPUS),
        }
    }
}

impl Task {
    /// The most that one of its jobs can accrue, in millionths ([`Utility::height`]). O(points).
    #[must_use]
    #[inline]
    pub fn height(&self) -> u64 {
        self.utility.as_ref().map_or(UNIT, Utility::height)
    }

    /// The terms agreed about it.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let Task { deadline, runtime, reservation, .. } = *self;
        Terms { period: self.arrival.period(), deadline, runtime, reservation }
    }

    /// Its reservation under policies with servers ([`Terms::reserved`]).
    #[must_use]
    pub fn reserved(&self) -> Option<Reservation> {
        self.terms().reserved()
    }

    /// The execution time of job number `job` of the task when it has no `steps`; `None` when it never completes by itself.
    #[must_use]
    pub fn demand(&self, seed: u64, task: TaskId, job: u64) -> Option<Span> {
        if self.completion == Completion::None {
            return None;
        }
        self.program.demand(self.runtime, seed, task, job)
    }

    /// Multiplies what its jobs need by a factor in millionths, each of the times by itself ([`scaled`]). O(steps).
    pub fn scale(&mut self, factor: u32) {
        let times = |span: &mut Span| *span = scaled(*span, factor);
        self.runtime.iter_mut().for_each(times);
        // Writing allocates, and there may be nothing to write.
        if self.program != Program::AS_DECLARED {
            self.program.scale(factor, self.reservation.is_some());
        }
    }
}
