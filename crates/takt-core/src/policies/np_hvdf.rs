//! Highest value density first without preemption.
//!
//! ChronOS Linux, DAC 2011 (G-NP-HVDF). Invariant: a job that has started keeps its CPU until it ends, blocks or yields; a free
//! CPU takes the densest of the ready jobs.

use crate::model::{CpuTest, Fact, Need, Order, Profile};
use crate::policies::hvdf::Hvdf;
use crate::policies::{accrual, scope};
use crate::policy::Entry;

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "np-hvdf",
        summary: "highest value density first without preemption",
        scopes: scope::SCOPES,
        needs: &[Need::Runtime, Need::Utility],
        facts: &[Fact::Order { by: Order::UtilityDensity, preemptive: false }],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: manual!(
        "\
Whenever a CPU is free, starts the ready job with the highest potential utility density (utility per time still needed); whoever has
started keeps its CPU until it ends, blocks or yields.

**When.** As `hvdf`, where preemption costs much or is not possible. A long job of little worth can keep out a short one of much.

**Ties.** Equal densities: the earlier release first, then the lower task number. A job that yields competes like one that has not
started. The handler of an aborted job starts anew.

**Resources.** Who holds what a chosen job waits for is started in its place (with `locking: fifo` only ready jobs count). Of jobs
that wait for each other in a cycle the least dense is aborted.

**Windows.** In a partition of a window table jobs that a window's end has stopped are the first to go on in the next one.

**Cost.** O(n log n) per scheduling event for n jobs that are there, and O(n d) where they wait in chains of d.

**Source.** ChronOS Linux, DAC 2011 (G-NP-HVDF).

**Example.** A (5 ms, deadline 20 ms, utility 5) at 0 and B (1, 5, 9) at 1: A keeps the CPU and B is late at 6; `hvdf` lets B run from 1 to 2."
    ),
    build: accrual::build::<Hvdf<false>>,
};
