//! The urgency of a job.

use crate::model::TaskId;
use crate::queue::Key;
use crate::time::Time;

/// The key of a job; the lowest runs first, and among equal ones that of the lower task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Urgency {
    /// The ordering's rank; the lowest runs first.
    pub rank: i64,
    /// Among equal ranks: the release of the job, or another instant that puts it before or behind its equals.
    pub release: Time,
}

impl Urgency {
    pub(super) fn key(self, task: TaskId) -> Key {
        Key { rank: self.rank, release: self.release, task }
    }
}
