//! Greedy global utility accrual.
//!
//! Garyali, "On Best-Effort Utility Accrual Real-Time Scheduling on Multiprocessors", thesis, Virginia Tech, 2010; ChronOS Linux.
//! Invariants: in the schedule built, everything on every CPU completes by its deadline; and the densest job that can be in time
//! at all is in it.

use crate::model::{CpuTest, Fact, Need, Profile, Scope, When};
use crate::policies::accrual::{self, Construction, View};
use crate::policies::forest::{Forest, Lists};
use crate::policy::{Build, Entry};
use alloc::vec::Vec;

struct GGua {
    forest: Forest,
    lists: Lists,
}

impl Construction for GGua {
    const DEPENDENCIES: bool = true;

    fn new(build: &Build<'_>) -> Self {
        let (cpus, jobs) = (build.places.len(), build.tasks.len());
        GGua { forest: Forest::new(jobs), lists: Lists::new(cpus, jobs) }
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        let roots = self.forest.roots(view);
        self.lists.pack(roots, view.now, view.cpus);
        self.lists.heads(roots, schedule);
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "g-gua",
        summary: "the densest jobs first, on the least loaded CPU where all stays in time (G-GUA)",
        scopes: &[Scope::Global, Scope::Clustered],
        needs: &[Need::Deadline, Need::Runtime, Need::Utility],
        facts: &[Fact::WorkConserving(When::Always), Fact::UnderloadEdf { global: false, when: When::Always }],
        test: CpuTest::Demand,
        settings: &[],
    },
    manual: manual!(
        "\
Takes the ready jobs in decreasing order of utility per remaining time. A job is assigned to a CPU on which all jobs are
still in time with it, in order of deadline. Among several it is the CPU with the least load. A job without such a CPU is
left out. The first job of each CPU runs. This is repeated at every event, so jobs that are left out are tried again.

**When.** On several CPUs under overload: there it accrues more than `ng-gua`. It does not become global EDF at light load,
and may miss deadlines that `g-edf` meets. A job with high density and much slack takes a CPU, and two urgent jobs share
another.

**Ties.** Equal densities: the earlier release first, then the lower task number. Equal deadlines on one CPU: the denser job
first. Equal loads: the lower CPU.

**Resources.** A job that waits for a resource counts with its holder. Utilities and remaining times are summed over all jobs
that wait, directly or not, for a resource of a ready job. The deadline is the earliest of theirs.

**Late jobs.** A job that can no longer be in time is left out, and runs only if no other job is ready. Tasks that are bound
to CPUs are assigned like others; the mapping decides on which CPU they run.

**Cost.** O(n² + n m) per event for n ready or blocked jobs and m CPUs. On one CPU, without dependencies, it is `dasa-nd`.

**Source.** Garyali, thesis, Virginia Tech, 2010; Dellinger, Garyali, Ravindran, DAC 2011.

**Example.** Two CPUs; X (1 ms, deadline 2 ms, utility 1), Y (1, 2, 0.9) and Z (3, 10, 30) at 0, and two jobs (1, 2, 1) at 1.
`g-edf` meets all deadlines. `g-gua` starts Z and X. At 1, Y and the two new jobs must all complete by 2, and Y, with the
lowest density, is lost."
    ),
    build: accrual::build::<GGua>,
};
