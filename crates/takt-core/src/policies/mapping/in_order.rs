//! The plainest rule: the most urgent job gets the first CPU, the next one the second.
//!
//! Invariant: of two jobs that may use the same CPUs, the more urgent one runs on the lower one. It is what a scheduler does that
//! keeps no account of where jobs ran, as in the textbook form of global scheduling (Davis, Burns, "A Survey of Hard Real-Time
//! Scheduling for Multiprocessor Systems", ACM Computing Surveys 43(4), 2011), where migration costs nothing.

use super::rule::{MapperEntry, Mapping, Seats};
use crate::model::TaskId;
use crate::policy::Context;
use crate::record::Place;
use alloc::boxed::Box;

struct InOrder;

impl Mapping for InOrder {
    fn map(&mut self, chosen: &[TaskId], lent: &[Place], seats: &mut Seats, cx: &Context<'_>) {
        for &task in chosen {
            let found = seats.find(task, lent, false, cx);
            debug_assert!(found, "they can run at once");
        }
    }
}

/// Its line in the registry.
pub(super) const ENTRY: MapperEntry = MapperEntry {
    name: "in-order",
    summary: "the most urgent job on the first CPU, the next one on the second, and so on",
    manual: manual!(
        "\
The i-th of the chosen jobs runs on the i-th CPU, wherever it ran before. If jobs are bound to CPUs, each gets the lowest CPU
that is free for it, and others move if necessary. It is the baseline for the three passes: each time that the order of the
jobs changes, running jobs migrate. O(m²) for m CPUs, O(m³) where jobs are bound."
    ),
    build: || Some(Box::new(InOrder)),
};
