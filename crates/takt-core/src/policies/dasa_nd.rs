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
Builds a schedule at every event: jobs are taken by potential utility density (utility per time still needed), the densest
first, and each is kept if all that were kept so far still meet their deadlines with it, in order of deadline. The first job of that
schedule runs. Jobs that are left out are tried again at the next event; if none is kept, the densest runs.

**When.** Under overload on one CPU: it gives up what is worth least for its time, where EDF loses one job after another. While
everything can be met and deadlines are distinct it runs exactly as EDF does.

**Ties.** Equal densities: the earlier release first, then the lower task number. Equal deadlines: the denser job first.

**Resources.** Who holds what a chosen job waits for runs in its place (with `locking: fifo` only ready jobs count). Its form that
plans with dependencies is `dasa`.

**Cost.** O(n²) per event for n jobs that are there.

**Source.** Clark, thesis, Carnegie Mellon University, 1990.

**Example.** A (3 ms, deadline 4 ms, utility 3), B (3, 5, 9) and C (2, 7, 4), all released at 0: EDF completes A in time and then is late
with B and C; `dasa-nd` runs B and C, which are worth 13 of 16, and gives A up."
    ),
    build: accrual::build::<DasaNd>,
};
