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
                // Of equals the first one stays.
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
Builds a schedule at every event from its front: of all jobs, each with the holders of what it waits for, it appends the one that accrues
most per time if it runs next, and goes on from where that ends, until nothing left accrues anything. The first job of
the schedule runs.

**When.** Time-utility functions of any shape, and resources. It asks what a job is worth when it would really end, so jobs that
would be late count for nothing. It keeps no order of deadlines: unlike `dasa` it can miss deadlines that EDF meets.

**Ties.** Equal densities: the earlier release first, then the lower task number. Jobs that accrue nothing run when nobody else is ready, the
densest first, until they are aborted. Handlers count as steps at their own deadlines.

**Resources.** A job is taken together with its dependency chain: who holds what it waits for, and so on, owners first. Of jobs that
wait for each other in a cycle the least dense is aborted. The protocol in `locking` only says who is next to have a resource.

**Cost.** O(n²) per event for n jobs that are there, O(n³) if all depend on each other.

**Source.** Li, Ravindran, Suri, Jensen, IEEE Transactions on Computers 55(4), 2006; reconstructed in part (see the file).

**Example.** All released at 0: J1 (2 ms, worth 10 units and one less for each millisecond), J2 (1 ms, worth 3 until 2 ms) and J3 (1 ms, worth
5): `gus` runs J3, then J1, which is worth 12; the best possible is J2, J1, J3 with 15."
    ),
    build: accrual::build::<Gus>,
};
