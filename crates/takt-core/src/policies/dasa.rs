//! The dependent activity scheduling algorithm.
//!
//! Clark, "Scheduling Dependent Real-Time Activities", thesis, Carnegie Mellon University, 1990. Invariants: in the schedule
//! built, every job completes by its deadline, and who holds a resource comes before those that wait for it. Without
//! dependencies it is `dasa-nd`.
//!
//! The thesis was not at hand and no public implementation is a usable reference (that of ChronOS is marked unfinished), so these
//! parts are reconstruction: how tentative deadlines are inherited along a chain and where among equal ones a job is put, that
//! owners already in the schedule are moved and not doubled, and that the members of a chain are worth what they are when they end
//! in this order. Clark also lets an owner be aborted instead of completed where that is quicker; this does not: aborts come from
//! deadlines and from cycles only.

use crate::model::{CpuTest, Fact, Need, Profile, Scope, When};
use crate::policies::accrual::{self, Construction, Density, View};
use crate::policy::{Build, Entry};
use crate::time::Time;
use alloc::vec::Vec;

/// A job in a schedule.
#[derive(Clone, Copy)]
struct Entrant {
    job: usize,
    /// Its tentative deadline: the earliest of its own and those that it must come before.
    by: Time,
}

pub(super) struct Dasa {
    /// Candidates by the density of their chains, the densest first.
    dense: Vec<(Density, usize)>,
    /// In order of tentative deadlines: what is kept, and that with one job more.
    kept: Vec<Entrant>,
    tried: Vec<Entrant>,
    /// By job: its tentative deadline, if it is kept.
    deadline: Vec<Option<Time>>,
}

impl Construction for Dasa {
    const DEPENDENCIES: bool = true;

    fn new(build: &Build<'_>) -> Self {
        let n = build.tasks.len();
        let (kept, tried) = (Vec::with_capacity(n), Vec::with_capacity(n));
        Dasa { dense: Vec::with_capacity(n), kept, tried, deadline: Vec::with_capacity(n) }
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        let Dasa { dense, kept, tried, deadline } = self;
        let density = |job| view.chain_density(job, view.now, |_| false, |task, at| view.cx.potential(task, at));
        dense.clear();
        dense.extend((0..view.jobs.len()).map(|job| (density(job), job)));
        dense.sort_unstable_by(|a, b| a.0.densest_first(&b.0).then(a.1.cmp(&b.1)));
        kept.clear();
        deadline.clear();
        deadline.resize(view.jobs.len(), None);
        for &(_, job) in dense.iter() {
            if deadline[job].is_some() {
                continue;
            }
            tried.clear();
            if view.chain(job).all(|link| deadline[link].is_none()) {
                tried.extend_from_slice(kept);
            } else {
                tried.extend(kept.iter().filter(|e| view.chain(job).all(|link| link != e.job)));
            }
            let mut by = Time::MAX;
            for link in view.chain(job) {
                // Others in the schedule may wait for it, too.
                by = by.min(view.jobs[link].deadline).min(deadline[link].unwrap_or(Time::MAX));
                let before = |e: &Entrant| if link == job { e.by <= by } else { e.by < by };
                let at = tried.partition_point(before);
                tried.insert(at, Entrant { job: link, by });
            }
            if view.in_time(tried.iter().map(|e| e.job)) {
                core::mem::swap(kept, tried);
                kept.iter().for_each(|e| deadline[e.job] = Some(e.by));
            }
        }
        schedule.extend(kept.iter().map(|e| e.job));
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "dasa",
        summary: "utility accrual by density with dependencies, kept feasible by deadline (DASA)",
        scopes: &[Scope::Uniprocessor, Scope::Partitioned],
        needs: &[Need::Deadline, Need::Runtime, Need::Utility],
        facts: &[Fact::WorkConserving(When::Always), Fact::UnderloadEdf { global: false, when: When::Always }],
        test: CpuTest::Demand,
        settings: &[],
    },
    manual: manual!(
        "\
Builds a tentative schedule at every event. The density of a job is that of its dependency chain: the job, the holder of the
resource that it waits for, and so on. It is the aggregate PUD, the sum of their utilities over the sum of their remaining
times. Chains are taken in decreasing order of density. A chain is kept if with it all jobs kept so far meet their deadlines,
in order of tentative deadline. An owner has the earliest deadline of all jobs that wait for it. The first job of the
schedule runs. Jobs that are left out are tried again at the next event; if no chain is kept, the job with the highest
density runs.

**When.** Overload on one CPU with shared resources. Without them, it is `dasa-nd`; while everything can be met and deadlines are
distinct, that is EDF.

**Ties.** Equal densities: the earlier release first, then the lower task number. Equal deadlines: owners first, then the job of the
denser chain.

**Resources.** As above under every protocol in `locking`, which decides only the next holder of a resource. In a cycle of
waiting jobs the one with the lowest density (each for itself) is aborted. A late owner cannot be kept, nor can the jobs that
wait for it. So with resources, abort late jobs (`late: abort`).

**Cost.** O(n³) per event for n ready or blocked jobs, O(n²) where chains are short.

**Source.** Clark, thesis, Carnegie Mellon University, 1990; reconstructed in part (see the file).

**Example.** T1 holds R (2 ms left, deadline 20 ms, utility 1), T2 waits for R (2, 5, 20) and T3 (2, 4, 6) does not need it.
The chain of T2 has a utility of 21 for 4 ms, so T1 runs, then T2, and T3 is shed: 21 of 27. `edf` without inheritance runs
T3, T1 and T2, which is late: 7."
    ),
    build: accrual::build::<Dasa>,
};
