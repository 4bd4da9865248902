//! Locke's best-effort scheduling algorithm.
//!
//! Locke, "Best-Effort Decision Making for Real-Time Scheduling", thesis, Carnegie Mellon University, 1986. Invariant: the
//! schedule built is that of all jobs by deadline without the least dense ones, of which no fewer would do for all others to be in
//! time; but one job stays in any case.
//!
//! Locke sheds jobs while the probability of an overload is above a threshold. This is the form of ChronOS Linux (DAC 2011), in
//! which times are declared, so that an overload is certain or is none.

use crate::model::{CpuTest, Fact, Need, Profile, Scope, When};
use crate::policies::accrual::{self, Construction, View};
use crate::policy::{Build, Entry};
use alloc::vec::Vec;

pub(super) struct Lbesa {
    /// Candidates, the densest first.
    dense: Vec<usize>,
}

impl Construction for Lbesa {
    fn new(build: &Build<'_>) -> Self {
        Lbesa { dense: Vec::with_capacity(build.tasks.len()) }
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        schedule.extend(0..view.jobs.len());
        schedule.sort_unstable_by_key(|&job| (view.jobs[job].deadline, job));
        view.densest_first(&mut self.dense);
        while schedule.len() > 1 && !view.in_time(schedule.iter().copied()) {
            let shed = self.dense.pop();
            schedule.retain(|&job| Some(job) != shed);
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "lbesa",
        summary: "Locke's best effort: by deadline, and in overload without the jobs of the lowest density",
        scopes: &[Scope::Uniprocessor, Scope::Partitioned],
        needs: &[Need::Deadline, Need::Runtime, Need::Utility],
        facts: &[Fact::WorkConserving(When::Always), Fact::UnderloadEdf { global: false, when: When::Always }],
        test: CpuTest::Demand,
        settings: &[],
    },
    manual: manual!(
        "\
Sorts all jobs by deadline at every event. While some job would be late, the job with the lowest potential utility density is
left out, but never the last one. The density is the utility per remaining time. The first remaining job runs.

**When.** Under overload on one CPU. While everything can be met and deadlines are distinct it runs exactly as EDF does.
Unlike `dasa-nd` it also sheds jobs of low density that do not make others late. Jobs that would fit again at the end run in
idle time.

**Ties.** Equal densities: the later release is left out first, then the higher task number. Equal deadlines: the earlier
release first, then the lower task number. Jobs left out are tried again at the next event; a CPU without work takes the job
with the highest density.

**Resources.** If a chosen job waits for a resource, the holder runs in its place (with `locking: fifo` only ready jobs
count). In a cycle of waiting jobs the one with the lowest density is aborted.

**Cost.** O(n²) per event for n ready or blocked jobs.

**Source.** Locke, thesis, Carnegie Mellon University, 1986, in the form of ChronOS Linux, DAC 2011.

**Example.** X (4 ms, deadline 4 ms, utility 8), Y (1, 3, 10) and Z (1, 20, 1), all released at 0, late jobs aborted. `lbesa`
sheds Z, then X, and runs Y. At 1 it still sheds Z and runs X, which is aborted at 4. Then Z runs. `dasa-nd` runs Z at 1."
    ),
    build: accrual::build::<Lbesa>,
};
