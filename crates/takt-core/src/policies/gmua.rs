//! Global multiprocessor utility accrual.
//!
//! Cho, Wu, Ravindran, Jensen, "On Multiprocessor Utility Accrual Real-Time Scheduling with Statistical Timing Assurances", EUC
//! 2006. Invariant: as in [`ng_gua`](super::ng_gua), without dependencies.

use crate::model::{CpuTest, Fact, Need, Profile, Scope, When};
use crate::policies::accrual::{self, Construction, View};
use crate::policies::forest::{Forest, Lists};
use crate::policy::{Build, Entry};
use alloc::vec::Vec;

struct Gmua {
    forest: Forest,
    lists: Lists,
}

impl Construction for Gmua {
    fn new(build: &Build<'_>) -> Self {
        let (cpus, jobs) = (build.places.len(), build.tasks.len());
        Gmua { forest: Forest::new(jobs), lists: Lists::new(cpus, jobs) }
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        let roots = self.forest.singles(view);
        self.lists.balance(roots, view.now, view.cpus, |root| root.left);
        self.lists.heads(roots, schedule);
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "gmua",
        summary: "global EDF that sheds a CPU's jobs of least density, each job for itself (gMUA)",
        scopes: &[Scope::Global, Scope::Clustered],
        needs: &[Need::Deadline, Need::Runtime, Need::Utility],
        facts: &[Fact::WorkConserving(When::Always), Fact::UnderloadEdf { global: true, when: When::Always }],
        test: CpuTest::Demand,
        settings: &[],
    },
    manual: manual!(
        "\
Assigns the jobs to the CPUs in order of deadline, each to the CPU with the least load. Then it leaves out the job with the
lowest density of each CPU until all others are in time: `ng-gua` without dependencies. The first job of each CPU runs.

**When.** As `ng-gua`, where jobs share nothing; then both run exactly alike.

**Ties.** Equal deadlines: the earlier release first, then the lower task number; equal densities likewise, the other one is left
out. Equal loads: the lower CPU.

**Resources.** A job that waits for a resource counts with its own utility, time and deadline. If it is chosen, the holder of
the resource runs in its place (with `locking: fifo` only ready jobs count).

**Late jobs.** A job whose deadline has passed is left out, and runs only where no other job is ready. The last job of a CPU is
never left out, even if it will be late.

**Cost.** O(n² + n m) per event for n ready or blocked jobs and m CPUs.

**Source.** Cho, Wu, Ravindran, Jensen, EUC 2006.

**Example.** Two CPUs; A (4 ms, deadline 4 ms, utility 4), B (4, 5, 20), C (4, 5, 16) and D (2, 10, 2), all released at 0. A
is left out, and `gmua` accrues 38 of 42."
    ),
    build: accrual::build::<Gmua>,
};
