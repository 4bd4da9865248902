//! Non-greedy global utility accrual.
//!
//! Garyali, "On Best-Effort Utility Accrual Real-Time Scheduling on Multiprocessors", thesis, Virginia Tech, 2010; ChronOS Linux.
//! Invariants: of the jobs dealt to a CPU all meet their deadlines in the schedule built, or one is left that does not; and while
//! global EDF would meet the deadlines of all jobs that are there, this is global EDF.

use crate::model::{CpuTest, Fact, Kind, Need, Profile, Scope, Setting, When};
use crate::policies::accrual::{self, Construction, View};
use crate::policies::forest::{Forest, Lists};
use crate::policy::{Build, Entry};
use crate::time::Span;
use crate::work::Work;
use alloc::vec::Vec;

struct NgGua {
    forest: Forest,
    lists: Lists,
    /// A job loads its CPU with its declared runtime, however much of it is done.
    by_declaration: bool,
}

/// The word of the setting `load` for that.
const DECLARED: i64 = 1;
/// The setting that has it.
const LOAD: &str = "load";

impl Construction for NgGua {
    const DEPENDENCIES: bool = true;

    fn new(build: &Build<'_>) -> Self {
        NgGua {
            forest: Forest::new(build.tasks.len()),
            lists: Lists::new(build.places.len(), build.tasks.len()),
            by_declaration: build.spec.value(LOAD) == Some(DECLARED),
        }
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        let declared = |job: usize| view.cx.declared(view.jobs[job].task).map_or(Span::ZERO, Work::nominal_time);
        let roots = self.forest.roots(view);
        let by_declaration = self.by_declaration;
        self.lists.balance(
            roots,
            view.now,
            view.cpus,
            |root| if by_declaration { declared(root.job) } else { root.left },
        );
        self.lists.heads(roots, schedule);
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "ng-gua",
        summary: "global EDF that sheds a CPU's jobs of least density under overload (NG-GUA)",
        scopes: &[Scope::Global, Scope::Clustered],
        needs: &[Need::Deadline, Need::Runtime, Need::Utility],
        facts: &[Fact::WorkConserving(When::Always), Fact::UnderloadEdf { global: true, when: When::IsNot(LOAD, DECLARED) }],
        test: CpuTest::Utilisation,
        settings: &[Setting {
        name: LOAD,
        kind: Kind::Choice(&["remaining", "declared"]),
        default: "remaining",
        summary: "what a job adds to the load of the CPU that it is assigned to",
    }],
    },
    manual: manual!(
        "\
Assigns the ready jobs to the CPUs in order of deadline, each to the CPU with the least load. While some job of a CPU would
miss its deadline, the job with the least utility per time is left out there. The first job of each CPU runs. This is
repeated at every event, so jobs that are left out are tried again.

**When.** On several CPUs that may be overloaded. While global EDF would meet all deadlines it runs exactly as `g-edf` does,
with the same migrations. Under overload it sheds the jobs with the lowest density, CPU by CPU. `g-gua` accrues more under
overload and may miss what `g-edf` meets.

**Settings.** `load` is the load that an assigned job adds to its CPU. `remaining` is its remaining time, `declared` its
whole declared runtime, as in ChronOS. With `declared`, a CPU can seem overloaded although it is not, and deadlines are
missed that `g-edf` meets.

**Ties.** Equal deadlines: the earlier release first, then the lower task number; equal densities likewise, the other one is left
out. Equal loads: the lower CPU.

**Resources.** A job that waits for a resource counts with its holder. Utilities and remaining times are summed over all jobs
that wait, directly or not, for a resource of a ready job. The deadline is the earliest of theirs.

**Late jobs.** A job whose deadline has passed is left out, and runs only where no other job is ready. The last job of a CPU
is never left out, even if it will be late. Tasks that are bound to CPUs are assigned like others; the mapping decides on
which CPU they run.

**Cost.** O(n² + n m) per event for n ready or blocked jobs and m CPUs. On one CPU, without dependencies and where late jobs are
aborted, it is `lbesa`.

**Source.** Garyali, thesis, Virginia Tech, 2010; Dellinger, Garyali, Ravindran, DAC 2011.

**Example.** Two CPUs; A (4 ms, deadline 4 ms, utility 4), B (4, 5, 20), C (4, 5, 16) and D (2, 10, 2), all released at 0.
`g-edf` runs A and B and is late with C, which makes 26 of 42. `ng-gua` assigns A and C to one CPU, where they cannot both be
in time. It leaves A out and runs C, B and then D: 38."
    ),
    build: accrual::build::<NgGua>,
};
