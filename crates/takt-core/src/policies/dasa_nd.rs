//! The dependent activity scheduling algorithm without dependencies.
//!
//! Clark, "Scheduling Dependent Real-Time Activities", thesis, Carnegie Mellon University, 1990. Invariant: in the schedule built,
//! every job completes by its deadline, and no rejected job could be added to it without breaking that.

use crate::model::{CpuTest, Fact, Need, Profile, Scope, When};
use crate::policies::accrual::{self, Construction, View};
use crate::policy::{Build, Entry};
use alloc::vec::Vec;

pub(super) struct DasaNd {
    /// Candidates, the densest first.
    dense: Vec<usize>,
}

impl Construction for DasaNd {
    fn new(build: &Build<'_>) -> Self {
        DasaNd { dense: Vec::with_capacity(build.tasks.len()) }
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        view.densest_first(&mut self.dense);
        for &job in &self.dense {
            let at = schedule.partition_point(|other| view.jobs[*other].deadline <= view.jobs[job].deadline);
            schedule.insert(at, job);
            if !view.in_time(schedule.iter().copied()) {
                schedule.remove(at);
            }
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "dasa-nd",
        summary: "utility accrual by density, kept feasible by deadline (DASA without dependencies)",
        scopes: &[Scope::Uniprocessor, Scope::Partitioned],
        needs: &[Need::Deadline, Need::Runtime, Need::Utility],
        facts: &[Fact::WorkConserving(When::Always), Fact::UnderloadEdf { global: false, when: When::Always }],
        test: CpuTest::Demand,
        settings: &[],
    },
    manual: manual!(
        "\
Builds a tentative schedule at every event. Jobs are taken in decreasing order of potential utility density (utility per
remaining time). A job is kept if it and all jobs kept so far meet their deadlines in order of deadline. The first job of
that schedule runs. Jobs that are left out are tried again at the next event; if none is kept, the job with the highest
density runs.

**When.** Under overload on one CPU: it sheds the jobs with the lowest density, while EDF misses one deadline after another. While
everything can be met and deadlines are distinct it runs exactly as EDF does.

**Ties.** Equal densities: the earlier release first, then the lower task number. Equal deadlines: the denser job first.

**Resources.** If a chosen job waits for a resource, the holder runs in its place (with `locking: fifo` only ready jobs
count). The form with dependencies is `dasa`.

**Cost.** O(n²) per event for n ready or blocked jobs.

**Source.** Clark, thesis, Carnegie Mellon University, 1990.

**Example.** A (3 ms, deadline 4 ms, utility 3), B (3, 5, 9) and C (2, 7, 4), all released at 0. EDF completes A in time and
then is late with B and C. `dasa-nd` sheds A and runs B and C, which is 13 of 16."
    ),
    build: accrual::build::<DasaNd>,
};
