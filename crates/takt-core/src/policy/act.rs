//! The acts of a policy as values, for a policy in an address space of its own.

use super::decision::Budget;
use crate::model::TaskId;
use crate::record::{Outcome, RecordKind};
use crate::time::Time;

/// An act of a policy, besides its decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is a method of `Context`, with its arguments")]
pub enum Act {
    Visited { tasks: u64 },
    Record { what: RecordKind },
    SetTimer { timer: u16, at: Time },
    SetBorder { timer: u16, at: Time },
    CancelTimer { timer: u16 },
    Replenish { task: TaskId, budget: Budget },
    GrantOwn { task: TaskId },
    Finish { task: TaskId, outcome: Outcome },
    Urgency { task: TaskId, urgency: i64 },
    Remind { task: TaskId },
}
