//! A round of I+PI, as far as its records have been seen.

use takt_core::model::TaskId;
use takt_core::record::Place;
use takt_core::time::{Span, Time};

/// A round, and those of its bursts that have been told.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) at: Time,
    pub(super) place: Place,
    pub(super) measured: Span,
    pub(super) bursts: Span,
    pub(super) tasks: Vec<TaskId>,
}
