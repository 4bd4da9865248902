//! Highest value density first.
//!
//! Jensen, Locke, Tokuda, "A Time-Driven Scheduling Model for Real-Time Operating Systems", RTSS 1985, for value over time needed
//! as the measure; ChronOS Linux, DAC 2011, for HVDF and G-HVDF. Invariant: at each scheduling event, on the CPUs that it is
//! lent, no ready job waits while a less dense one runs that holds nothing a denser one waits for.

use crate::model::{CpuTest, Fact, Need, Order, Profile};
use crate::policies::accrual::{self, Construction, View};
use crate::policies::scope;
use crate::policy::{Build, Entry};
use alloc::vec::Vec;

/// With or without preemption.
pub(super) struct Hvdf<const PREEMPTIVE: bool> {
    /// Candidates, the densest first.
    dense: Vec<usize>,
}

impl<const PREEMPTIVE: bool> Construction for Hvdf<PREEMPTIVE> {
    const PREEMPTIVE: bool = PREEMPTIVE;

    fn new(build: &Build<'_>) -> Self {
        Hvdf { dense: Vec::with_capacity(build.tasks.len()) }
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        view.densest_first(&mut self.dense);
        schedule.extend_from_slice(&self.dense);
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "hvdf",
        summary: "highest value density first: the most utility per time still needed",
        scopes: scope::SCOPES,
        needs: &[Need::Runtime, Need::Utility],
        facts: &[Fact::Order { by: Order::UtilityDensity, preemptive: true }],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: manual!(
        "\
Runs the ready job with the highest potential utility density (PUD). It is the utility of the job if it runs from now on
without interruption, divided by its remaining execution time.

**When.** Overload, if utility per time matters and deadlines matter little. It does not test whether a job can still meet
its deadline. A step function counts with its full utility after its deadline, so a late job continues unless late jobs are
aborted (`late: abort`). Without overload it misses deadlines that EDF meets.

**Ties.** Equal densities (compared exactly, by cross-multiplication): the earlier release first, then the lower task number.
A job that has exhausted its declared runtime counts with a remaining time of one nanosecond, and so is first. A job that
yields continues if it still has the highest density. The handler of an aborted job counts with its own utility and runtime.

**Resources.** If a chosen job waits for a resource, the holder runs in its place (with `locking: fifo` only ready jobs
count). In a cycle of waiting jobs the one with the lowest density is aborted.

**Cost.** O(n log n) per scheduling event for n ready or blocked jobs; jobs are compared again at each, since densities change
while jobs run. The search for the holders of resources adds O(n d) for chains of d waiting jobs.

**Source.** Jensen, Locke, Tokuda, RTSS 1985; ChronOS Linux, DAC 2011 (HVDF, G-HVDF).

**Example.** A (3 ms, deadline 4 ms, utility 3), B (3, 5, 9) and C (2, 7, 4), all released at 0. `hvdf` runs B, C, A, since
their densities are 3, 2 and 1 per millisecond. B and C are in time, which is 13 of 16."
    ),
    build: accrual::build::<Hvdf<true>>,
};
