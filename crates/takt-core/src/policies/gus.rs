//! The generic utility scheduling algorithm.
//!
//! Li, Ravindran, Suri, Jensen, "A Utility Accrual Scheduling Algorithm for Real-Time Activities with Mutual Exclusion Resource
//! Constraints", IEEE Transactions on Computers 55(4), 2006. Invariant: in the schedule built, who holds a resource comes before
//! those that wait for it, and each step appends the chain of jobs that accrues most per time at that place.
//!
//! Reconstructed from the paper's abstract and what others say of the algorithm, since its text was not at hand: the form of the
//! greedy step, and that it ends when nothing left accrues anything.

use crate::model::{CpuTest, Fact, Need, Profile, Scope, When};
use crate::policies::accrual::{self, Construction, Density, View};
use crate::policy::{Build, Entry};
use crate::time::Span;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

pub(super) struct Gus {
    /// By candidate: it is in the schedule.
    placed: Vec<bool>,
}

impl Construction for Gus {
    const DEPENDENCIES: bool = true;

    fn new(build: &Build<'_>) -> Self {
        Gus { placed: vec![false; build.tasks.len()] }
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        let placed = &mut self.placed[..view.jobs.len()];
        placed.fill(false);
        let mut end = view.now;
        loop {
            let mut best = (Density::NONE, None);
            for job in (0..view.jobs.len()).filter(|&job| !placed[job]) {
                let density = view.chain_density(job, end, |link| placed[link], |task, at| view.cx.worth(task, at));
                // Among equals the first one stays.
                if density.utility > 0 && (best.1.is_none() || density.densest_first(&best.0) == Ordering::Less) {
                    best = (density, Some(job));
                }
            }
            let (density, Some(job)) = best else { break };
            let from = schedule.len();
            schedule.extend(view.chain(job).take_while(|link| !placed[*link]));
            // Owners first.
            schedule[from..].reverse();
            schedule[from..].iter().for_each(|&link| placed[link] = true);
            end = end.saturating_add(Span::from_ns(i64::try_from(density.left).unwrap_or(i64::MAX)));
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "gus",
        summary: "generic utility scheduling: greedy by what is accrued per time, for any time-utility function",
        scopes: &[Scope::Uniprocessor, Scope::Partitioned],
        needs: &[Need::Deadline, Need::Runtime, Need::Utility],
        facts: &[Fact::WorkConserving(When::Always)],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: manual!(
        "\
Builds a schedule at every event from its front. It appends the job, with the holders of the resources that it waits for,
that accrues the most utility per time if it runs next. It continues from the end of that job, until no remaining job accrues
utility. The first job of the schedule runs.

**When.** Time-utility functions of any shape, and resources. It evaluates the utility of a job at its expected completion,
so late jobs count with no utility. It keeps no order of deadlines: unlike `dasa` it can miss deadlines that EDF meets.

**Ties.** Equal densities: the earlier release first, then the lower task number. Jobs that accrue no utility run when no
other job is ready, in decreasing order of density, until they are aborted. Handlers count as steps at their own deadlines.

**Resources.** A job is taken together with its dependency chain: the holder of the resource that it waits for, and so on,
owners first. In a cycle of waiting jobs the one with the lowest density is aborted. The protocol in `locking` decides only
the next holder of a resource.

**Cost.** O(n²) per event for n ready or blocked jobs, O(n³) if all depend on each other.

**Source.** Li, Ravindran, Suri, Jensen, IEEE Transactions on Computers 55(4), 2006; reconstructed in part (see the file).

**Example.** Three jobs are released at 0. J1 takes 2 ms; its utility is 10, and one less for each millisecond. J2 takes 1
ms, with a utility of 3 until 2 ms. J3 takes 1 ms, with a utility of 5. `gus` runs J3, then J1, and accrues 12. The optimum
is J2, J1, J3 with 15."
    ),
    build: accrual::build::<Gus>,
};
