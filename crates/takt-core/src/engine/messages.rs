//! What comes out of the engine: what its driver must do, and what programs are answered.

use crate::input::Reply;
use crate::model::TaskId;
use crate::record::Place;

/// The work that a program begins or continues when its task is dispatched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// The work of the current job, which has not begun yet.
    Fresh,
    /// The work that the program was at.
    Resumed,
    /// The work of an aborted job, for the first time since the current job was released ([`crate::model::OnAbort`]).
    Abandoned,
    /// The handler of an aborted job, which has not run yet.
    Handler,
}

/// What a driver must do. Replacements come first, then stops, moves, and starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Replace the task's program by a new instance: the job that it was at was aborted ([`crate::model::OnAbort::Restart`]).
    Replace {
        /// The task.
        task: TaskId,
    },
    /// Take the task off its CPUs.
    Stop {
        /// Who.
        task: TaskId,
        /// Where it runs now.
        place: Place,
    },
    /// Let the running task go on at another place.
    Move {
        /// Who.
        task: TaskId,
        /// Where it runs now.
        from: Place,
        /// Where it goes on.
        to: Place,
        /// What it goes on with.
        work: Activity,
    },
    /// Let the task run.
    Start {
        /// Who.
        task: TaskId,
        /// Where.
        place: Place,
        /// What it goes on with.
        work: Activity,
    },
    /// The running task stays where it is and begins its next job, or the handler of the one that was aborted.
    Continue {
        /// Who.
        task: TaskId,
        /// Where it runs.
        place: Place,
        /// What it goes on with.
        work: Activity,
    },
    /// Set the frequency of a domain ([`crate::power::Platform::domains`]). Such commands come last.
    #[cfg(feature = "power")]
    Frequency {
        /// Index of the domain.
        domain: u16,
        /// In kilohertz; one of the frequencies of the domain.
        khz: u32,
    },
    /// Limit the idle states of a CPU.
    #[cfg(feature = "power")]
    IdleLatency {
        /// The CPU.
        cpu: Place,
        /// Microseconds that leaving an idle state may take; `None` allows all of them.
        limit_us: Option<u32>,
    },
}

/// What comes of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reaction<'a> {
    /// What the driver must do, in this order.
    pub commands: &'a [Command],
    /// What programs are to be told, in the order of their questions.
    pub replies: &'a [Reply],
}
