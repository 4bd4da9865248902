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
Whenever a CPU is free, starts the ready job with the highest potential utility density (utility per remaining time). A job
that has started keeps its CPU until it ends, blocks or yields.

**When.** As `hvdf`, if preemption is expensive or not possible. A long job of low utility can delay a short job of high utility.

**Ties.** Equal densities: the earlier release first, then the lower task number. A job that yields competes like one that has not
started. The handler of an aborted job starts again.

**Resources.** If a chosen job waits for a resource, the holder is started in its place (with `locking: fifo` only ready jobs
count). In a cycle of waiting jobs the one with the lowest density is aborted.

**Windows.** In a partition of a window table, jobs that were stopped by the end of a window are the first to continue in the
next one.

**Cost.** O(n log n) per scheduling event for n ready or blocked jobs, and O(n d) where they wait in chains of d.

**Source.** ChronOS Linux, DAC 2011 (G-NP-HVDF).

**Example.** A (5 ms, deadline 20 ms, utility 5) at 0 and B (1, 4, 9) at 1: A keeps the CPU and B is late at 6; `hvdf` lets B
run from 1 to 2."
    ),
    build: accrual::build::<Hvdf<false>>,
};
