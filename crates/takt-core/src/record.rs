//! Records of the engine's changes: one [`Record`] per change.

use crate::model::{Call, PartitionId, ResourceId, TaskId};
use crate::time::{Span, Time};
use crate::work::Work;

/// A set of CPUs of the system, as an index into [`crate::model::System::places`].
///
/// The first places are the single CPUs of the machine in ascending order; sets of several CPUs follow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place(pub u16);

impl Place {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a job within its task, from zero.
pub type JobId = u64;

/// One line of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The engine's instant: for what was planned, the planned instant and not the moment a late timer fired.
    pub at: Time,
    /// Its kind.
    pub kind: RecordKind,
}

/// The kind of a [`Record`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// A window of the table begins.
    Window {
        /// Index in the major frame.
        window: u32,
        /// Number of the major frame, from zero.
        frame: u64,
    },
    /// The driver came so late that whole windows passed; they are not replayed.
    WindowsLost {
        /// How many.
        count: u64,
    },
    /// A job comes into being.
    Release {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// Its absolute deadline.
        deadline: Option<Time>,
    },
    /// A job is granted a budget, in place of what it has left of the one before.
    Budget {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// The amount; `None` where the policy that granted the budget before has been replaced, and nothing limits the job now.
        amount: Option<Span>,
    },
    /// A job starts or resumes on a set of CPUs (a dispatch).
    Start {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// Where.
        place: Place,
    },
    /// A job leaves its CPUs.
    Stop {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// Where it ran.
        place: Place,
        /// Why it left.
        reason: StopReason,
    },
    /// A job is over.
    Finish {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// How it ended.
        outcome: Outcome,
        /// Time it was given, in the clock of its budget.
        consumed: Work,
    },
    /// A job waits for something other than a CPU.
    Block {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
    },
    /// A blocked job can continue.
    Wake {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
    },
    /// A job asks for a shared resource.
    Lock {
        /// Its task.
        task: TaskId,
        /// The requested resource.
        resource: ResourceId,
        /// Whether it has it now; otherwise it blocks until it is its turn.
        granted: bool,
    },
    /// A job withdraws its request for a shared resource, and waits for it no longer. Its [`RecordKind::Wake`] follows.
    #[cfg(feature = "withdrawals")]
    Withdraw {
        /// Its task.
        task: TaskId,
        /// The resource for which it waited.
        resource: ResourceId,
    },
    /// A job gives a shared resource back.
    Unlock {
        /// Its task.
        task: TaskId,
        /// The unlocked resource.
        resource: ResourceId,
    },
    /// An aborted job continues with its handler. Its [`RecordKind::Finish`] comes before this.
    Handler {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// The handler's absolute deadline.
        deadline: Option<Time>,
    },
    /// The handler of an aborted job is over.
    HandlerEnd {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// Time it was given.
        consumed: Work,
    },
    /// A job lets others run.
    Yield {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
    },
    /// A request for a resource closes a cycle: each job of it waits for a resource that the next one holds.
    Deadlock {
        /// The task whose request closes the cycle.
        task: TaskId,
        /// The requested resource.
        resource: ResourceId,
    },
    /// A regulator that hands out time in rounds has come to the end of one.
    Round {
        /// The CPU whose regulator it is.
        place: Place,
        /// How long the round should have been.
        set_point: Span,
        /// How long it was, without idle time.
        measured: Span,
        /// The addition of the outer loop to the next one.
        correction: Span,
    },
    /// A task's part of a round, recorded with [`RecordKind::Round`].
    Burst {
        /// The task.
        task: TaskId,
        /// The burst that it should have had.
        set_point: Span,
        /// The burst that it had.
        measured: Span,
        /// The burst that it is given in the next round.
        next: Span,
    },
    /// Another policy takes over, with every job as it is. One that cannot take over leaves no record.
    Switch {
        /// The domain ([`crate::model::System::domains`]) whose policy it is; `None` is the whole system.
        domain: Option<u16>,
        /// Index of the new policy in [`crate::model::System::alternatives`].
        to: u16,
    },
    /// Another window table holds from now on: the window that follows is the first one of a frame. A table that cannot take over leaves
    /// no record.
    Table {
        /// Index in [`crate::model::System::tables`].
        to: u16,
    },
    /// A setting of the policy has another value. One that the policy refuses leaves no record.
    Configure {
        /// Index of the setting in [`crate::model::Profile::settings`].
        setting: u8,
        /// Its value from now on; `None` is the default.
        value: Option<i64>,
    },
    /// A job asks for other terms.
    Call {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// The request.
        call: Call,
        /// Whether it gets it.
        granted: bool,
    },
    /// A completion signal arrived after its job was over: it belongs to that job, not to the next.
    LateSignal {
        /// Its task.
        task: TaskId,
        /// The job that it belongs to.
        job: JobId,
    },
    /// An event released no job, because too many waited already ([`crate::model::Arrival::Event`]).
    Lost {
        /// The task.
        task: TaskId,
    },
    /// A job is dispatched for the first time while its program is still at the work of an earlier job, which was aborted
    /// ([`crate::model::OnAbort`]). The [`RecordKind::LateSignal`] of that job ends this, and then the job's own work begins.
    Behind {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// The job whose work was abandoned.
        abandoned: JobId,
    },
    /// The task's program has ended for good.
    Exit {
        /// The task.
        task: TaskId,
        /// It ended with another status than 0, or by a signal: the task misses its further jobs.
        failed: bool,
    },
    /// The power policy requests a frequency.
    Frequency {
        /// The frequency domain.
        domain: u16,
        /// In kilohertz.
        khz: u32,
    },
    /// The power policy requests a limit for the latency of idle states.
    IdleLatency {
        /// The CPU.
        place: Place,
        /// Microseconds that leaving an idle state may take; `None` allows all of them.
        limit_us: Option<u32>,
    },
    /// A sample of a thermal zone.
    Temperature {
        /// The zone.
        zone: u16,
        /// Thousandths of a degree Celsius; `None` when the sensor gave no valid value.
        millidegrees: Option<i32>,
    },
    /// A best-effort partition does not start in this window, since the power policy forbids it. It keeps its place and its remainder.
    StartSkipped {
        /// The partition.
        partition: PartitionId,
        /// Index of the window in the major frame.
        window: u32,
    },
}

/// Why a job left its CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// Unfinished, and another task takes one of its CPUs.
    Preempted,
    /// Unfinished, and its CPUs stay idle (its window is over).
    Suspended,
    /// It continues elsewhere in the same instant.
    Migrated,
    /// Its job is over.
    Finished,
    /// It blocked.
    Blocked,
}

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It signalled completion.
    Completed,
    /// An activation in a window table used its budget. If the process signals its completions, the activation was cut off and the
    /// next one continues the same job.
    BudgetUsed,
    /// A safety-critical activation was cut off by the end of its window: an overrun. The next one continues the same job.
    Overrun,
    /// It was aborted, or ran out of an enforced budget under an online policy.
    Aborted,
    /// Its process ended regularly, with status 0. The job is not counted.
    Exited,
    /// It never ran: its task was still busy with an earlier job (`backlog: skip`), or its process ended before its turn.
    Skipped,
}

/// Takes the engine's records. A driver that only counts uses `()`.
pub trait Sink {
    /// Called once per record, in order.
    fn record(&mut self, record: Record);
    /// Whether [`Sink::record`] does anything; asked once per step, so that a driver that only counts pays nothing for it.
    fn wants_records(&self) -> bool {
        true
    }
    /// Called when a job completes, with the time since its release.
    fn response(&mut self, task: TaskId, response: Span) {
        let _ = (task, response);
    }
}

impl Sink for () {
    fn record(&mut self, _: Record) {}
    fn wants_records(&self) -> bool {
        false
    }
}
impl Sink for alloc::vec::Vec<Record> {
    fn record(&mut self, record: Record) {
        self.push(record);
    }
}
impl<S: Sink + ?Sized> Sink for &mut S {
    fn record(&mut self, record: Record) {
        (**self).record(record);
    }
    fn wants_records(&self) -> bool {
        (**self).wants_records()
    }
    fn response(&mut self, task: TaskId, response: Span) {
        (**self).response(task, response);
    }
}
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn record(&mut self, record: Record) {
        self.0.record(record);
        self.1.record(record);
    }
    fn wants_records(&self) -> bool {
        self.0.wants_records() || self.1.wants_records()
    }
    fn response(&mut self, task: TaskId, response: Span) {
        self.0.response(task, response);
        self.1.response(task, response);
    }
}
