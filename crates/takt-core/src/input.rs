//! Inputs of the engine: reports of a driver, and changes from outside. And the answers of the engine to programs.
//!
//! [`Input::Dispatched`] is for a driver whose decisions take effect later: a job has consumed nothing before the instant that it names.
//! The Linux executive does not send it, because its decisions take effect within the step.

use crate::model::{Call, ResourceId, TaskId};
#[cfg(doc)]
use crate::policy::Policy;
use crate::record::{JobId, Place};
use crate::time::{Span, Time};
use crate::work::Work;

/// A report of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A measurement: the work that the CPU time of the task's current job was. It comes before the other inputs of its instant.
    /// From the first one on, the engine takes the task's CPU-clock consumption from these and no longer from elapsed time.
    Usage {
        /// The task.
        task: TaskId,
        /// Since the job's release.
        consumed: Work,
    },
    /// The task runs at the place to which the last decision has put it, since this instant: for a driver whose decisions take effect
    /// later. The job has consumed nothing before, as far as that was not accounted for in a step in between, and its budget lasts so
    /// much longer. It changes nothing when the task has been put elsewhere since.
    Dispatched {
        /// The task whose job it is.
        task: TaskId,
        /// Where.
        place: Place,
        /// Since when; not in the future.
        at: Time,
    },
    /// The task's program has done the work of a job. If that job is over, the signal ends nothing else: it is recorded, and the
    /// work of the current job begins. A signal that names a job which the program is not at is recorded, too.
    Complete {
        /// The task.
        task: TaskId,
        /// The job whose work is done; in a window table it has the number of its first activation.
        job: JobId,
    },
    /// The task waits for something other than a CPU.
    Block {
        /// The task.
        task: TaskId,
    },
    /// The task has no program for now. Nothing is at work, and its jobs wait, blocked, until [`Input::Wake`].
    Hold {
        /// The task.
        task: TaskId,
    },
    /// The task can continue.
    Wake {
        /// The task.
        task: TaskId,
    },
    /// The task asks for a resource and blocks if another has it. Who gets it next is a matter of
    /// [`Locking`](crate::model::Locking).
    Lock {
        /// The task.
        task: TaskId,
        /// The resource.
        resource: ResourceId,
    },
    /// The task's request for a resource is withdrawn: its job is ready, and the holder of the resource inherits nothing from it any longer.
    /// Nothing changes if the task does not wait for that resource, because it has it by now, or never asked.
    #[cfg(feature = "withdrawals")]
    Withdraw {
        /// The task.
        task: TaskId,
        /// The resource for which it waits.
        resource: ResourceId,
    },
    /// The task gives a resource back. Returning what it does not hold changes nothing.
    Unlock {
        /// The task.
        task: TaskId,
        /// The resource.
        resource: ResourceId,
    },
    /// The running task lets others run and stays ready.
    Yield {
        /// The task.
        task: TaskId,
    },
    /// From now on the ends of the task's budgets are noticed so much later, or earlier: a late timer, a stretch of code that
    /// cannot be preempted, a task that gives up the rest of its burst. A budget lasts for half of what it is at least, however
    /// early its end is noticed.
    Skew {
        /// The task.
        task: TaskId,
        /// How much.
        by: Span,
    },
    /// The task's wanted share of a CPU and its importance change.
    Share {
        /// The task.
        task: TaskId,
        /// In millionths.
        share: Option<u32>,
        /// Its importance.
        importance: u32,
    },
    /// A mode change. The declared runtime is changed at once, but not that of a job that has run already; period and relative
    /// deadline when the task's present job ends, or the next one if it has none, and from the release on that follows then. (They
    /// wait for as long as released jobs of the task wait for their turn.) A task whose releases are a list or its policy's
    /// business keeps them. Nothing changes if one of the times is not above zero.
    Retime {
        /// The task.
        task: TaskId,
        /// Above zero.
        period: Span,
        /// Above zero.
        deadline: Option<Span>,
        /// Above zero.
        runtime: Option<Span>,
    },
    /// The task's job asks for other terms. If the policy admits them ([`Policy::admits`]), the runtime and the
    /// reservation hold at once, for the next job and the next budget; period and deadline from the next release on, which is
    /// one period after the last one, but not before now. (While released jobs of the task wait for their turn, these two wait,
    /// too.) Without a job, and in a handler, nothing happens.
    Call {
        /// The task.
        task: TaskId,
        /// The requested terms.
        call: Call,
    },
    /// A task that is gone ([`Input::Leave`], [`Input::Exit`]) begins again: its first job comes after its offset, or at the next
    /// instant of its list.
    Enter {
        /// The task.
        task: TaskId,
    },
    /// An event that releases a job of the task ([`Arrival::Event`](crate::model::Arrival::Event)), at once or when the least distance has
    /// passed. Nothing happens if the task is gone, or if its releases are not events.
    Release {
        /// The task.
        task: TaskId,
    },
    /// Terms of the task's next jobs, for a task whose releases are events: a real-time segment names them at its beginning. They hold if no
    /// job of the task is open or waits for its release. Otherwise, or if a time is not above zero, nothing changes.
    Terms {
        /// The task.
        task: TaskId,
        /// The relative deadline; none for jobs without one.
        deadline: Option<Span>,
        /// The execution time, where it is known.
        runtime: Option<Span>,
        /// The height of its time-utility function, in millionths. The function keeps its shape.
        utility: u64,
    },
    /// The task is gone as soon as its present job is over, at once if it has none.
    Leave {
        /// The task.
        task: TaskId,
    },
    /// A setting of the policy changes. A policy that cannot take it over is built again, which allocates; one that has no such
    /// setting continues as it is.
    Configure {
        /// Index of the setting in [`crate::model::Profile::settings`].
        setting: u8,
        /// Its new value; `None` is the default.
        value: Option<i64>,
    },
    /// Another policy takes over, in the whole system or in one of its domains, with every job in its present state. This
    /// allocates. A policy that cannot schedule what it is to take over leaves everything as it is.
    Switch {
        /// Which domain; `None` for a system without domains.
        domain: Option<u16>,
        /// Index in [`crate::model::System::alternatives`].
        to: u16,
    },
    /// Another window table takes over at the end of the major frame; one that waits for that already is superseded. This allocates. A
    /// table that cannot replace the present one changes nothing.
    Table {
        /// Index in [`crate::model::System::tables`].
        to: u16,
    },
    /// A task whose number is free ([`System::removed`](crate::model::System::removed)) is added as
    /// [`System::tasks`](crate::model::System::tasks) describes it there. It has left until [`Input::Enter`]. This allocates, and all policies of the
    /// system restart their internal state. Inputs of this kind that follow each other in a step are one change. Tasks that the system, or its policy,
    /// cannot take change nothing.
    #[cfg(feature = "additions")]
    Add {
        /// The task.
        task: TaskId,
        /// The number of its domain; `None` for a system without domains.
        domain: Option<u16>,
    },
    /// The current job of the task is given up; if it has a handler, that follows.
    Abort {
        /// The task.
        task: TaskId,
    },
    /// The task's program has ended.
    Exit {
        /// The task.
        task: TaskId,
        /// How it ended, and what follows.
        ending: Ending,
    },
    /// A sample of a thermal zone, for the power policy and for the trace. A value below −40 °C or above 150 °C counts as none.
    #[cfg(feature = "power")]
    Temperature {
        /// Index in [`crate::power::Platform::zones`].
        zone: u16,
        /// Thousandths of a degree Celsius; `None` when the sensor gave no valid value.
        millidegrees: Option<i32>,
    },
}

/// The end of a task's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// It ended regularly (status 0). The job in which a program that signals its completions ends is not counted; of a program
    /// that has never signalled it is completed. Otherwise the current job is aborted.
    pub regular: bool,
    /// Another instance takes its place, so the task stays. Otherwise it has no further jobs after a regular end, and misses all of
    /// them after another one.
    pub replaced: bool,
}

impl Input {
    /// Whether the policy itself takes part in it, or is replaced by it.
    #[must_use]
    #[inline]
    pub const fn concerns_policy(&self) -> bool {
        #[cfg(feature = "additions")]
        if let Input::Add { .. } = self {
            return true;
        }
        matches!(self, Input::Configure { .. } | Input::Switch { .. } | Input::Table { .. } | Input::Call { .. })
    }

    /// The task that it is about.
    #[must_use]
    pub const fn task(&self) -> Option<TaskId> {
        match *self {
            Input::Usage { task, .. }
            | Input::Dispatched { task, .. }
            | Input::Complete { task, .. }
            | Input::Block { task }
            | Input::Hold { task }
            | Input::Wake { task }
            | Input::Lock { task, .. }
            | Input::Unlock { task, .. }
            | Input::Yield { task }
            | Input::Skew { task, .. }
            | Input::Share { task, .. }
            | Input::Retime { task, .. }
            | Input::Call { task, .. }
            | Input::Enter { task }
            | Input::Leave { task }
            | Input::Release { task }
            | Input::Terms { task, .. }
            | Input::Abort { task }
            | Input::Exit { task, .. } => Some(task),
            #[cfg(feature = "additions")]
            Input::Add { task, .. } => Some(task),
            #[cfg(feature = "withdrawals")]
            Input::Withdraw { task, .. } => Some(task),
            Input::Configure { .. } | Input::Switch { .. } | Input::Table { .. } => None,
            #[cfg(feature = "power")]
            Input::Temperature { .. } => None,
        }
    }
}

/// The request of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Other terms ([`Input::Call`]).
    Terms(Call),
    /// A resource ([`Input::Lock`]).
    Resource(ResourceId),
}

/// The answer of the engine, or of its policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The task has it.
    Granted,
    /// Another task has the resource. It is answered again when it gets the resource, and not at all if its job is over before that.
    Waits,
    /// The policy does not accept it. Or no job could ask: the task has no job, its handler asks for terms, or it waits for a resource
    /// already.
    Refused,
}

/// The answer to a program's question, in the step of the question or, after [`Answer::Waits`], in a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The task that asked.
    pub task: TaskId,
    /// The request.
    pub question: Question,
    /// The answer that it receives.
    pub answer: Answer,
}
