//! The output of the engine: commands for its driver, and replies to programs.
//!
//! A step returns commands and replies. A reply answers a program that requested a resource or other terms. A request that waits is
//! answered a second time.
//!
//! A carrier sees the engine in the middle of a step, so it asks for the number of the current job: a move is reported before the engine
//! notes that the program begins that job. Without lists of events and commands, a job costs 1659 instructions in place of 2375 (g-edf on
//! 4 CPUs).

use crate::input::Reply;
use crate::model::{System, TaskId};
use crate::policy::state::State;
use crate::record::{JobId, Place};
use crate::work::Work;
use alloc::vec::Vec;

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

/// A command for a driver. Replacements come first, then stops, moves, and starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Replace the task's program by a new instance: the job that it was at was aborted ([`crate::model::OnAbort::Restart`]).
    Replace {
        /// The task.
        task: TaskId,
    },
    /// Take the task off its CPUs.
    Stop {
        /// The task.
        task: TaskId,
        /// Where it runs now.
        place: Place,
    },
    /// Let the running task continue at another place.
    Move {
        /// The task.
        task: TaskId,
        /// Where it runs now.
        from: Place,
        /// Where it continues.
        to: Place,
        /// The work with which it continues.
        work: Activity,
    },
    /// Let the task run.
    Start {
        /// The task.
        task: TaskId,
        /// Where.
        place: Place,
        /// The work with which it continues.
        work: Activity,
    },
    /// The running task stays where it is and begins its next job, or the handler of the one that was aborted.
    Continue {
        /// The task.
        task: TaskId,
        /// Where it runs.
        place: Place,
        /// The work with which it continues.
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

/// Takes the commands of a step in their order. A list of commands is one: its driver carries them out after the step. Another one carries out each
/// command at once, in the middle of the step.
pub trait Carrier {
    /// Whether the engine keeps the list of [`Engine::due`](super::Engine::due) for the driver. Otherwise [`Carrier::due`] is the only report.
    const LISTS: bool;
    /// A release, a deadline or the end of a budget of the task is due.
    fn due(&mut self, task: TaskId);
    /// [`Command::Stop`].
    fn stop(&mut self, task: TaskId, place: Place);
    /// [`Command::Start`].
    fn start(&mut self, task: TaskId, place: Place, work: Activity, seen: Seen<'_>);
    /// Any other command.
    fn other(&mut self, command: Command, seen: Seen<'_>);
}

impl Carrier for Vec<Command> {
    const LISTS: bool = true;
    #[inline]
    fn due(&mut self, _: TaskId) {}
    #[inline]
    fn stop(&mut self, task: TaskId, place: Place) {
        self.push(Command::Stop { task, place });
    }
    #[inline]
    fn start(&mut self, task: TaskId, place: Place, work: Activity, _: Seen<'_>) {
        self.push(Command::Start { task, place, work });
    }
    #[inline]
    fn other(&mut self, command: Command, _: Seen<'_>) {
        self.push(command);
    }
}

/// The part of the engine that a [`Carrier`] reads in the middle of a step.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a>(pub(super) &'a State);

impl<'a> Seen<'a> {
    /// The system that is scheduled.
    #[must_use]
    #[inline]
    pub fn system(self) -> &'a System {
        &self.0.system
    }
    /// The number of the task's current job, or of its last one. [`Engine::at`](super::Engine::at) would not do: a move is reported before the engine
    /// notes that the program begins this job.
    #[must_use]
    #[inline]
    pub fn job(self, task: TaskId) -> JobId {
        self.0.runs[task.index()].job
    }
    /// The declared work of that job, or of its handler ([`Engine::declared`](super::Engine::declared)).
    #[must_use]
    #[inline]
    pub fn declared(self, task: TaskId) -> Option<Work> {
        self.0.runs[task.index()].declared
    }
    /// The factor on the work of that job ([`Engine::load`](super::Engine::load)).
    #[must_use]
    #[inline]
    pub fn load(self, task: TaskId) -> u32 {
        self.0.runs[task.index()].load
    }
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reaction<'a> {
    /// The commands for the driver, in this order.
    pub commands: &'a [Command],
    /// The replies to programs, in the order of their requests.
    pub replies: &'a [Reply],
}
