//! The events of a schedule that a view or a log of it shows.

use crate::names;
use takt_core::model::TaskId;
use takt_core::record::{JobId, Outcome};
use takt_core::time::{Span, Time};

/// An event of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The engine's instant. A job without an end misses its deadline at that deadline.
    pub at: Time,
    /// The task, unless the event concerns the whole system.
    pub task: Option<TaskId>,
    /// The job, where one is concerned. In a window table the number is that of the activation.
    pub job: Option<JobId>,
    /// Its kind.
    pub kind: EventKind,
}

/// The kind of an [`Event`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// A job has missed its deadline. The outcome is that of a job that has ended.
    Miss(Option<Outcome>),
    /// A job has overrun: an activation was cut off, or a job has exceeded its budget or runtime.
    Overrun,
    /// The task's program has ended for good.
    Exit {
        /// With another status than 0, or by a signal.
        failed: bool,
    },
    /// An event released no job, because too many waited.
    Lost,
    /// A request for a resource has closed a cycle of waiting jobs.
    Deadlock,
    /// So many windows passed unserved.
    WindowsLost(u64),
    /// Another policy has taken over, or a setting of the policy has changed.
    Policy,
    /// Another window table has taken over.
    Table,
    /// A command from outside has changed tasks or their terms.
    Change,
    /// A first deadline was missed: an overload begins.
    OverloadBegin,
    /// For [`super::QUIET`] no deadline was missed, and no job is late: the overload is over.
    OverloadEnd {
        /// From its first miss to the end of its last late job.
        length: Span,
        /// Jobs missed in it.
        misses: u64,
    },
}

impl EventKind {
    /// The word for it in logs and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Miss(_) => "miss",
            EventKind::Overrun => "overrun",
            EventKind::Exit { .. } => "exit",
            EventKind::Lost => "lost",
            EventKind::Deadlock => "deadlock",
            EventKind::WindowsLost(_) => "windows_lost",
            EventKind::Policy => "policy",
            EventKind::Table => "table",
            EventKind::Change => "change",
            EventKind::OverloadBegin => "overload_begin",
            EventKind::OverloadEnd { .. } => "overload_end",
        }
    }

    /// More about it, for people; empty where the name says all.
    #[must_use]
    pub fn detail(self) -> String {
        match self {
            EventKind::Miss(None | Some(Outcome::Completed)) => "late".into(),
            EventKind::Miss(Some(outcome)) => names::outcome(outcome).into(),
            EventKind::Exit { failed: true } => names::FAILED.into(),
            EventKind::WindowsLost(count) => count.to_string(),
            // To a microsecond; a long one to a millisecond.
            EventKind::OverloadEnd { length, misses } => {
                let grid = if length < Span::from_secs(1) { 1_000 } else { 1_000_000 };
                format!("{misses} missed in {}", Span::from_ns(length.ns() / grid * grid))
            }
            _ => String::new(),
        }
    }
}
