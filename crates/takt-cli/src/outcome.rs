//! How commands end.

use crate::failure::Failure;

/// How a command that worked ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// Done.
    Done = 0,
    /// Done, and the answer is no.
    No = 1,
}

pub(crate) type Outcome = Result<Verdict, Failure>;
